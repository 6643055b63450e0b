"""What the joint fit costs beside its peers: ratios of one run, on one thread.

    python -m benchmarks.bench_solver           # the table of docs/performance.md, some minutes
    python -m benchmarks.bench_solver --quick   # without a million rows and 500 columns

Ours is `solve` with its defaults: coefficients, sigma and tau by REML, kappa = 4, the scan over tau
included; lines with one quantile fix tau = 1/2 and kappa = 0, as their peers do, and ten quantiles stand
beside one of R's. Times are processor times, the least of alternating repeats: on a busy machine wall
time says more about the neighbours. R's peers are timed where R with quantreg and conquer is installed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import statsmodels.api as sm
from threadpoolctl import threadpool_limits

from benchmarks.estimation import NOISE, FloatArray, sample
from benchmarks.peers.python_peers import (
    normal_equations,
    pyfixest_quantreg,
    quantile_regressor,
    smooth_quantile,
)
from benchmarks.peers.r_peer import have_r, time_r
from qhreg.solver import solve

KINDS = ["model, tau 0.3", "gamma(2)", "lognormal", "two-peaked"]
"""Noise of every line."""

Q = 0.5
"""Level of the peers that fit one quantile."""

PEERS: dict[str, Callable[[FloatArray, FloatArray], Any]] = {
    "OLS.fit": lambda X, y: sm.OLS(y, X).fit(),
    "normal equations": normal_equations,
    "QuantReg.fit": lambda X, y: sm.QuantReg(y, X).fit(q=Q),
    "scikit-learn HiGHS": partial(quantile_regressor, q=Q),
    "skglm": partial(smooth_quantile, q=Q),
    "pyfixest": partial(pyfixest_quantreg, q=Q),
}
LIBRARIES = {"scikit-learn HiGHS": "sklearn", "skglm": "skglm", "pyfixest": "pyfixest"}
R_PEERS = {"R conquer": "conquer", "R rq pfn": "rq_pfn"}


class Case(NamedTuple):
    """A line of the table: what is fitted, and the aimed ratio to each peer."""

    work: str
    data: Callable[[str], tuple[FloatArray, FloatArray]]
    aims: dict[str, float]
    kappa: float = 4.0
    repeats: int = 3
    taus: tuple[float | None, ...] = (None,)


def regression(n: int, p: int) -> Callable[[str], tuple[FloatArray, FloatArray]]:
    """Return what makes a constant and p - 1 normal regressors with a kind of noise."""
    return lambda noise: sample(noise, n, p, np.random.default_rng([n, p]))


def dummies(noise: str) -> tuple[FloatArray, FloatArray]:
    """Return 20,000 rows in 500 categories of random size, a column for each, and the noise."""
    rng = np.random.default_rng(500)
    n, p = 20_000, 500
    X = np.zeros((n, p))
    X[np.arange(n), rng.integers(p, size=n)] = 1.0
    return X, NOISE[noise](rng, X[:, 1])


SMALL = [
    Case("n = 1e3, p = 5", regression(10**3, 5), {"QuantReg.fit": 0.3}, repeats=20),
    Case(
        "n = 1e4, p = 10",
        regression(10**4, 10),
        {"QuantReg.fit": 0.1, "R conquer": 1.0},
        repeats=5,
    ),
    Case("n = 1e5, p = 10", regression(10**5, 10), {"OLS.fit": 0.5}),
    Case("kappa = 0, n = 1e4, p = 10", regression(10**4, 10), {"R rq pfn": np.nan}, kappa=0.0),
    Case(
        "one quantile, n = 1e4, p = 10",
        regression(10**4, 10),
        dict.fromkeys(["R rq pfn", "pyfixest", "skglm", "scikit-learn HiGHS"], np.nan),
        kappa=0.0,
        taus=(Q,),
    ),
]
LARGE = [
    Case("n = 1e6, p = 20", regression(10**6, 20), {"OLS.fit": 0.12, "normal equations": 4.0}),
    Case("kappa = 0, n = 1e6, p = 20", regression(10**6, 20), {"R rq pfn": 1.0}, kappa=0.0),
    Case(
        "ten quantiles, n = 1e6, p = 20",
        regression(10**6, 20),
        {"R rq pfn": np.nan, "OLS.fit": np.nan},
        kappa=0.0,
        repeats=1,
        taus=tuple(np.linspace(0.05, 0.95, 10)),
    ),
    Case("n = 2e4, 500 dummies", dummies, {"OLS.fit": 3.0}, repeats=1),
]


def processor_seconds(function: Callable[[], Any]) -> float:
    """Return what one call takes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def available(peer: str) -> bool:
    """Return whether a peer in Python can be run here."""
    return peer in PEERS and find_spec(LIBRARIES.get(peer, "statsmodels")) is not None


def seconds(case: Case, noise: str) -> dict[str, float]:
    """Return the least processor time of the fit, under "ours", and of each peer."""
    X, y = case.data(noise)

    def fits() -> list[Any]:
        return [solve(X, y, kappa=case.kappa, tau=tau) for tau in case.taus]

    calls: dict[str, Callable[[], Any]] = {"ours": fits}
    calls |= {name: partial(PEERS[name], X, y) for name in case.aims if available(name)}
    runs = [
        {name: processor_seconds(call) for name, call in calls.items()} for _ in range(case.repeats)
    ]
    least = {name: min(run[name] for run in runs) for name in calls}
    for name in case.aims:
        if name in R_PEERS and have_r():
            least[name] = time_r(R_PEERS[name], X, y, Q, repeats=case.repeats)["cpu_seconds"]
    return least


def milliseconds(value: float) -> str:
    """Return the time with three digits."""
    return f"{1e3 * value:.3g} ms" if value < 1.0 else f"{value:.3g} s"


def lines(case: Case) -> list[str]:
    """Return a line of the table for each peer: our time and the ratio for each kind of noise."""
    times = [seconds(case, noise) for noise in KINDS]
    ours = " | ".join(milliseconds(one["ours"]) for one in times)
    result = []
    for peer, aim in case.aims.items():
        if peer not in times[0]:
            result.append(f"| {case.work} | {ours} | {peer} | not installed | | | |")
            continue
        theirs = [one[peer] for one in times]
        ratios = " | ".join(f"{one['ours'] / one[peer]:.2g}" for one in times)
        span = " to ".join(dict.fromkeys(milliseconds(t) for t in (min(theirs), max(theirs))))
        goal = "" if np.isnan(aim) else f"{aim:g}"
        result.append(f"| {case.work} | {ours} | {peer}, {span} | {ratios} | {goal} |")
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    options = parser.parse_args()
    kinds = " | ".join(KINDS)
    print(f"| joint fit | {kinds} | peer, its time | {kinds} | aim |")
    print("|---" * (3 + 2 * len(KINDS)) + "|")
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve(*regression(100, 2)("normal"))
        for case in SMALL if options.quick else SMALL + LARGE:
            print("\n".join(lines(case)), flush=True)


if __name__ == "__main__":
    main()
