"""How often 95 % intervals hold the parameter they are for, and how long they are.

    python benchmarks/coverage.py --reps 200 > tables.md    # everything, about 15 minutes of one core
    python benchmarks/coverage.py --quick                   # 20 samples of n = 50 and 100, p = 4
    python benchmarks/coverage.py --cells "wald/gamma/*"    # task/law/n/p, as file patterns
    python benchmarks/coverage.py --keep cells.jsonl        # finished cells are kept and not run again

y = 1 + x_1 + ... + x_(p-1) + noise, p coefficients with the constant, kappa = 4 known; coefficients,
sigma and tau estimated by restricted likelihood. Regressors are standard normal unless a law says
otherwise, the slope is that of x_1, and every sample is drawn anew. The truth is the fit of 400,000
rows: samples of the same law and size put below each other; with noise of the model it is known.
All tasks of one cell see the same samples. A sample without an interval counts as a miss.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from statsmodels.tools.sm_exceptions import ModelWarning

from qhreg import QuantileHuberDistributional, QuantileHuberMLE, quantile_huber
from qhreg.exceptions import QhregError

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator

KAPPA, TAU = 4.0, 0.3
SIZES, COLUMNS = (50, 100, 200, 500), (2, 4, 8)
SEED, TRUTH_ROWS, N_BOOT, RARE, CLUSTERS = 20, 400_000, 199, 5, 20
PARAMETERS = ("slope", "constant", "sigma", "tau")
KEY = ("task", "law", "n", "p", "reps")

NOISE: dict[str, Callable[[Rng, int], FloatArray]] = {
    "model": lambda rng, n: quantile_huber.rvs(TAU, KAPPA, size=n, random_state=rng),
    "normal": lambda rng, n: rng.standard_normal(n),
    "t3": lambda rng, n: rng.standard_t(3, n),
    "Gumbel": lambda rng, n: rng.gumbel(size=n),
    "gamma": lambda rng, n: rng.gamma(2.0, size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
}
"""Noise that does not depend on normal regressors."""

LAWS = {
    "model": f"the fitted density, tau = {TAU}, sigma = 1",
    "normal": "z",
    "t3": "Student's t, 3 degrees of freedom",
    "Gumbel": "Gumbel",
    "gamma": "gamma, shape 2",
    "lognormal": "exp(z)",
    "heteroskedastic": "abs(x_1) z",
    "leverage": "x_1 lognormal, noise z",
    "proportional": "x_1 lognormal, noise x_1 z",
    "rare": f"x_1 is one in {RARE} rows, else zero; noise z",
    "clustered": f"{CLUSTERS} clusters; x_1 and the noise each half variance between clusters",
}
"""The laws of regressors and noise."""

BOOTSTRAP_SIZES = {law: [100] for law in ("model", "Gumbel", "lognormal", "clustered")}
BOOTSTRAP_SIZES |= {"gamma": [50, 200], "proportional": [100, 500]}
"""Where the bootstrap is tried, p = 4."""


def sample(law: str, n: int, p: int, rng: Rng) -> tuple[FloatArray, FloatArray]:
    """Return response and regressors, shapes (n,) and (n, p), constant and x_1 first."""
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    noise = NOISE.get(law, NOISE["normal"])(rng, n)
    if law in ("leverage", "proportional"):
        exog[:, 1] = np.exp(exog[:, 1])
    elif law == "rare":
        exog[:, 1] = np.arange(n) < RARE
    elif law == "clustered":
        between = rng.standard_normal((2, CLUSTERS))[:, clusters(n)]
        exog[:, 1], noise = (between + np.stack([exog[:, 1], noise])) / np.sqrt(2.0)
    if law in ("heteroskedastic", "proportional"):
        noise = noise * np.abs(exog[:, 1])
    return exog.sum(axis=1) + noise, exog


def clusters(n: int) -> npt.NDArray[np.int64]:
    """Return the cluster of every row, shape (n,)."""
    return np.arange(n) % CLUSTERS


def truth(law: str, n: int, p: int) -> FloatArray:
    """Return what slope, constant, sigma and tau are estimates of, shape (4,)."""
    if law == "model":
        return np.array([1.0, 1.0, 1.0, TAU])
    rng = np.random.default_rng([SEED, list(LAWS).index(law), n, p])
    samples = [sample(law, n, p, rng) for _ in range(TRUTH_ROWS // n)]
    endog, exog = (np.concatenate(rows) for rows in zip(*samples, strict=True))
    fit = QuantileHuberMLE(endog, exog, kappa=KAPPA).fit(cov_type="nonrobust")
    return np.asarray(fit.params[places(p)])


def places(p: int) -> list[int]:
    """Return where slope, constant, sigma and tau are among the parameters."""
    return [1, 0, p, p + 1]


def intervals(task: str, law: str, fit: Any, rep: int) -> Iterator[tuple[str, FloatArray]]:
    """Iterate over the intervals of a fit by name, each of shape (4, 2)."""
    n, rows = int(fit.nobs), places(fit.model.exog.shape[1])
    if task == "wald":
        for cov_type in ("nonrobust", "HC1", "HC3", *(("cluster",) if law == "clustered" else ())):
            options = {"groups": clusters(n)} if cov_type == "cluster" else {}
            yield cov_type, fit.get_robustcov_results(cov_type, **options).conf_int()[rows]
    elif task == "profile":
        some = rows if law == "model" else rows[:1]
        limits = fit.conf_int(method="profile", cols=some)
        yield "profile", np.vstack([limits, np.full((4 - len(some), 2), np.nan)])
    elif task == "scale":  # log sigma linear in log x_1, the true form where noise is proportional
        endog, exog = fit.model.endog, fit.model.exog
        logs = np.column_stack([np.ones(n), np.log(exog[:, 1])])
        scaled = QuantileHuberDistributional(endog, exog, exog_scale=logs, kappa=KAPPA).fit()
        yield "scale", np.vstack([scaled.conf_int()[rows[:2]], np.full((2, 2), np.nan)])
    else:
        groups = clusters(n) if law == "clustered" else None
        replicates = fit.bootstrap(n_boot=N_BOOT, rng=rep, groups=groups)
        for method in ("percentile", "bca"):
            yield method, replicates.conf_int(method=method)[rows]


def run(task: str, law: str, n: int, p: int, reps: int) -> dict[str, Any]:
    """Return coverage and median length of the intervals of one cell, and what went wrong in it."""
    start = time.process_time()
    target = truth(law, n, p)
    limits: dict[str, list[FloatArray]] = {}
    errors, at_bound = dict[str, int](), 0
    for rep in range(reps):
        rng = np.random.default_rng([SEED, list(LAWS).index(law), n, p, rep])
        endog, exog = sample(law, n, p, rng)
        try:
            fit = QuantileHuberMLE(endog, exog, kappa=KAPPA).fit(cov_type="HC3")
            at_bound += fit.mle_retvals["tau_at_bound"]
            for name, each in intervals(task, law, fit, rep):
                limits.setdefault(name, []).append(each)
        except QhregError as error:
            errors[str(error)] = errors.get(str(error), 0) + 1
    cell: dict[str, Any] = dict(zip(KEY, (task, law, n, p, reps), strict=True))
    cell |= {"at_bound": at_bound, "errors": errors} | {"coverage": {}, "length": {}, "none": {}}
    for name, pairs in limits.items():
        low, high = np.moveaxis(np.array(pairs), -1, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # all NaN: not asked for
            cell["length"][name] = np.nanmedian(high - low, axis=0).tolist()
        cell["coverage"][name] = (((low <= target) & (target <= high)).sum(axis=0) / reps).tolist()
        cell["none"][name] = int(reps - np.isfinite(high[:, 0] - low[:, 0]).sum())
    return cell | {"seconds": time.process_time() - start}


def design(quick: bool) -> Iterator[tuple[str, str, int, int]]:
    """Iterate over task, law, n and p of all cells."""
    sizes, columns = ((50, 100), (4,)) if quick else (SIZES, COLUMNS)
    yield from (("wald", *cell) for cell in product(LAWS, sizes, columns))
    yield from (("wald", "proportional", n, 4) for n in (() if quick else (2000, 10_000)))
    yield from (("scale", "proportional", n, 4) for n in sizes)
    yield from (("bootstrap", law, n, 4) for law in BOOTSTRAP_SIZES for n in BOOTSTRAP_SIZES[law])
    yield from (("profile", law, n, 4) for law in LAWS for n in (50, 100))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def report(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Iterate over the tables: coverage in per cent, median length in brackets."""
    yield table(["law", "noise; z is standard normal"], [[*law] for law in LAWS.items()])
    entries: dict[tuple[str, int, int], dict[str, list[str]]] = {}
    for cell in cells:
        entry = entries.setdefault((cell["law"], cell["n"], cell["p"]), {})
        for name, coverage in cell["coverage"].items():
            pairs = zip(coverage, cell["length"][name], strict=True)
            entry[name] = [f"{100 * c:.3g} ({x:.2g})" if x == x else "" for c, x in pairs]
    cases = sorted(entries, key=lambda case: (list(LAWS).index(case[0]), *case[1:]))
    columns = list(product(sorted({p for *_, p in cases}), ("nonrobust", "HC1", "HC3")))
    wald = list(dict.fromkeys(case[:2] for case in cases if "HC3" in entries[case]))
    for j, parameter in enumerate(PARAMETERS if wald else ()):
        rows = [
            [entries.get((law, n, p), {}).get(name, [""] * 4)[j] for p, name in columns]
            for law, n in wald
        ]
        yield f"### {parameter.capitalize()}\n\n" + table(
            ["law", "n", *(f"{name}, p = {p}" for p, name in columns)],
            [[law, str(n), *row] for (law, n), row in zip(wald, rows, strict=True)],
        )
    for title, *names in (
        ("Clusters", "cluster"),
        ("Scale with a regressor: `QuantileHuberDistributional`", "scale"),
        ("Profile likelihood", "profile"),
        ("Bootstrap", "percentile", "bca"),
    ):
        rows = [
            [case[0], *map(str, case[1:]), name, *entries[case][name]]
            for case in cases
            for name in ("HC3", *names)
            if entries[case].keys() >= {name, *names}
        ]
        if rows:
            yield f"### {title}\n\n" + table(["law", "n", "p", "interval", *PARAMETERS], rows)
    for cell in cells:
        missing = {name: count for name, count in cell["none"].items() if count} | cell["errors"]
        if missing or cell["at_bound"]:
            where = f"{cell['task']}, {cell['law']}, n = {cell['n']}, p = {cell['p']}"
            yield f"- {where}: tau on a bound {cell['at_bound']}, no interval for the slope {missing}"


def main() -> None:
    """Run the cells that are asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reps", type=int, help="samples of each cell (200; 20 with --quick)")
    parser.add_argument("--quick", action="store_true", help="n = 50 and 100, p = 4")
    parser.add_argument("--cells", default="*", help="pattern of task/law/n/p, such as wald/t3/*")
    parser.add_argument("--keep", type=Path, help="file of finished cells, one JSON object a line")
    options = parser.parse_args()
    reps = options.reps or (20 if options.quick else 200)
    warnings.simplefilter("ignore", ModelWarning)  # bounds are counted
    kept = options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    done = {tuple(cell[key] for key in KEY): cell for cell in map(json.loads, kept)}
    cells = []
    for key in design(options.quick):
        if not fnmatch("/".join(map(str, key)), options.cells):
            continue
        cell = done.get((*key, reps))
        if cell is None:
            cell = run(*key, reps)
            print(*key, f"{cell['seconds']:.1f} s", file=sys.stderr, flush=True)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(json.dumps(cell) + "\n")
        cells.append(cell)
    print(*report(cells), sep="\n")


if __name__ == "__main__":
    main()
