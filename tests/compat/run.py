"""Run the smoke test with every supported statsmodels, pandas and formula engine.

    python tests/compat/run.py                 all combinations that install here
    python tests/compat/run.py --keep DIR      keep the downloaded packages in DIR for the next time

The interpreter that runs this script must have the test requirements. What it has not, the other
statsmodels and the other pandas, goes into directories of its own that are put before it on the path.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STATSMODELS = {"0.14": ["statsmodels>=0.14,<0.15"], "0.15": ["statsmodels>=0.15,<0.16"]}
# pandas 2 needs time zones from packages of their own.
PANDAS = {"2": ["pandas>=2,<3", "pytz", "tzdata"], "3": ["pandas>=3,<4"]}
ENGINES = {"0.14": ["patsy"], "0.15": ["patsy", "formulaic"]}


def installed(package: str, series: str) -> bool:
    """Return whether this interpreter has the package in the wanted series."""
    return f"{importlib.metadata.version(package)}.".startswith(f"{series}.")


def provide(package: str, series: str, requirements: list[str], where: Path) -> list[str]:
    """Return the path entries that bring the package in the wanted series, after installing it."""
    if installed(package, series):
        return []
    target = where / f"{package}-{series}"
    if not (target / package).is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(target), *requirements], check=True)
    return [str(target)]


def smoke_test(path: list[str], engine: str) -> tuple[bool, str]:
    """Return whether the smoke test passes with these packages first, and what pytest said."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*path, str(ROOT)]),
        "SM_FORMULA_ENGINE": engine,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    # Older packages warn about newer ones at import: not what is tested here.
    command += ["-o", "filterwarnings=default", str(ROOT / "tests" / "compat")]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


def main() -> int:
    """Run all combinations; return the number that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="directory for the downloaded packages")
    keep = parser.parse_args().keep
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        where = keep or Path(scratch)
        for statsmodels, pandas in itertools.product(STATSMODELS, PANDAS):
            path = provide("statsmodels", statsmodels, STATSMODELS[statsmodels], where)
            path += provide("pandas", pandas, PANDAS[pandas], where)
            for engine in ENGINES[statsmodels]:
                began = time.perf_counter()
                passed, said = smoke_test(path, engine)
                took = time.perf_counter() - began
                verdict = "passed" if passed else "FAILED"
                print(
                    f"statsmodels {statsmodels}, pandas {pandas}, {engine}: {verdict} ({took:.0f} s)"
                )
                if not passed:
                    failures += 1
                    print(said)
    return failures


if __name__ == "__main__":
    sys.exit(main())
