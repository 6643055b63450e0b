"""Time adaptive profiles, each with its interval, against the fit of the same model.

Run as ``python -m benchmarks.bench_profile``; ``--table`` prints the rows of the page on performance.
Processor time, the least of several repeats, fit and profile measured in turn, so that a busy machine
disturbs both alike. The bar: at n = 100,000 the profile of tau costs at most 12 joint fits.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from qhreg import QuantileHuberMLE
from qhreg.family.distribution import quantile_huber
from qhreg.profile import profile_likelihood
from qhreg.solver import solve
from qhreg.solver.over_kappa import solve_kappa

BAR = 12.0
COEFFICIENT = 1


@dataclass(frozen=True)
class Case:
    """One profile to time."""

    n: int
    p: int
    param: str | int
    kappa: float | None = 1.0
    bar: float | None = None
    repeats: int = 5


CASES = (
    Case(100_000, 5, "tau", bar=BAR),
    Case(100_000, 10, "tau", bar=BAR),
    Case(100_000, 20, "tau", bar=BAR),
    Case(100_000, 10, "sigma"),
    Case(100_000, 10, COEFFICIENT),
    Case(100_000, 10, "kappa", kappa=None, repeats=2),
    Case(100_000, 10, "tau", kappa=None, repeats=2),
    Case(100_000, 10, "sigma", kappa=None, repeats=2),
    Case(100_000, 10, COEFFICIENT, kappa=None, repeats=2),
    Case(1_000, 5, "tau"),
    Case(1_000, 5, COEFFICIENT),
    Case(1_000, 5, "tau", kappa=None, repeats=2),
    Case(1_000, 5, COEFFICIENT, kappa=None, repeats=2),
)


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def sample(n: int, p: int, kappa: float, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    exog = np.asfortranarray(np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))]))
    noise = quantile_huber.rvs(0.3, kappa, size=n, random_state=rng)
    return exog, exog @ rng.normal(size=p) + 2.0 * noise


def measure(case: Case) -> tuple[float, float, int]:
    """Return the seconds of the profile and of the fit, and the number of points of the profile."""
    # an estimated width near zero would be another task: the quantile loss is fitted exactly
    exog, endog = sample(case.n, case.p, 3.0 if case.kappa is None else case.kappa)
    data = QuantileHuberMLE(endog, exog, kappa=case.kappa).model_data()

    def fit() -> Any:
        if case.kappa is None:
            return solve_kappa(exog, endog).solution
        return solve(exog, endog, kappa=case.kappa)

    found = fit()

    def profile() -> Any:
        return profile_likelihood(data, found, case.param)

    times = [(seconds(profile), seconds(fit)) for _ in range(case.repeats)]
    return min(t for t, _ in times), min(t for _, t in times), len(profile().points)


def report(case: Case, table: bool) -> bool:
    """Print one line, and return whether the ratio stays within the bar."""
    took, base, points = measure(case)
    ratio = took / base
    held = case.bar is None or ratio <= case.bar
    param = "a coefficient" if isinstance(case.param, int) else case.param
    model = "kappa estimated" if case.kappa is None else f"kappa = {case.kappa:g}"
    if table:
        verdict = "" if case.bar is None else ("yes" if held else "**no**")
        print(
            f"| {param}, {model} | {case.n:.0e} | {case.p} | {took * 1e3:.4g} ms | "
            f"{base * 1e3:.4g} ms | {ratio:.3g} | {points} | {case.bar or ''} | {verdict} |"
        )
    else:
        verdict = "" if case.bar is None else ("PASS" if held else "FAIL")
        print(
            f"n = {case.n:>7}, p = {case.p:>2}, {param:<13} {model:<15} {took * 1e3:8.1f} ms "
            f"{base * 1e3:8.1f} ms {ratio:6.2f}x {points:4d} fits  {verdict}",
            flush=True,
        )
    return held


def main(arguments: list[str]) -> bool:
    """Print every ratio, and return whether the bar is met."""
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return all([report(case, "--table" in arguments) for case in CASES])


if __name__ == "__main__":
    raise SystemExit(0 if main(sys.argv[1:]) else 1)
