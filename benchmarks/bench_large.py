"""Time and peak memory of one fit with HC3 of many rows: in memory, as a stream, on Dask.

Run as ``python -m benchmarks.bench_large --rows 1e7 --folder /somewhere [--ways memory stream dask]``.
The rows are written to Parquet files of a million once: ``y ~ x1 + ... + x5 + C(region)``, region one
of eight. Every way reads the files in a process of its own; its memory is that of the process and of
the workers it starts, sampled ten times a second.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from qhreg import quantile_huber

FORMULA = "y ~ x1 + x2 + x3 + x4 + x5 + C(region)"
FILE_ROWS = 10**6

MEMORY = """
import pandas as pd
from qhreg import QuantileHuberMLE
fit = QuantileHuberMLE.from_formula({formula!r}, pd.read_parquet({folder!r})).fit()
"""

STREAM = """
from qhreg.stream import quantile_huber
fit = quantile_huber({formula!r}, {folder!r}).fit()
"""

DASK = """
import dask.dataframe as dd
from distributed import Client, LocalCluster
from qhreg.dask import quantile_huber
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
client = Client(cluster)
fit = quantile_huber({formula!r}, dd.read_parquet({folder!r})).fit()
"""

REPORT = """
errors, params = fit.bse, fit.params
print(f"tau {params['tau']:.6f} se {errors['tau']:.3e} x1 {params['x1']:.6f} se {errors['x1']:.3e}")
"""

WAYS = {"memory": MEMORY, "stream": STREAM, "dask": DASK}


def write(folder: Path, rows: int) -> None:
    """Write the files that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-rows // FILE_ROWS)):
        path = folder / f"{number:04d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        n = min(FILE_ROWS, rows - number * FILE_ROWS)
        data = pd.DataFrame(rng.standard_normal((n, 5)), columns=[f"x{j}" for j in range(1, 6)])
        region = rng.integers(0, 8, n)
        data["region"] = np.array(list("abcdefgh"), dtype=object)[region]
        noise = quantile_huber(tau=0.7, kappa=4.0).rvs(n, random_state=rng)
        data["y"] = 1.0 + data.sum(axis=1, numeric_only=True) + 0.1 * region + noise
        data.to_parquet(path)


def tree_memory(process: psutil.Process) -> int:
    """Return the memory of a process and of those it started."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def processor_time() -> float:
    """Return the seconds of processor time of all processes that were started and ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(script: str) -> tuple[float, float, float, str]:
    """Return seconds, those of processor time, peak memory in GB, and what a script printed."""
    start, before, peak = time.perf_counter(), processor_time(), 0
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        peak = max(peak, tree_memory(watched))
        time.sleep(0.1)
    said = process.stdout.read() if process.stdout else ""
    return time.perf_counter() - start, processor_time() - before, peak / 1e9, said.strip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args()
    rows = int(options.rows)
    folder = options.folder / f"{rows}"
    write(folder, rows)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
    print(f"{rows:.0e} rows, {size:.2g} GB of Parquet\n")
    print("| way | seconds | processor seconds | GB | |\n|---|---|---|---|---|")
    for way in options.ways:
        text = WAYS[way].format(formula=FORMULA, folder=str(folder))
        body = "".join(f"    {line}\n" for line in (text + REPORT).strip().splitlines())
        seconds, busy, peak, said = run(f"if __name__ == '__main__':\n{body}")
        print(f"| {way} | {seconds:.0f} | {busy:.0f} | {peak:.2f} | {said} |", flush=True)


if __name__ == "__main__":
    main()
