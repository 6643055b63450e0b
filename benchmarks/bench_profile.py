"""Time the adaptive profile of tau, with its interval, against the joint fit.

Run as ``python benchmarks/bench_profile.py``. Processor time, the least of several repeats, fit and
profile measured in turn, so that a busy machine disturbs both alike. The bar: at most 12 joint fits at
n = 100,000.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from qhreg.distribution import quantile_huber
from qhreg.profile import profile_likelihood
from qhreg.profile_fits import profile_data
from qhreg.solver import solve

REPEATS = 5
BAR = 12.0
CASES = ((100_000, 5), (100_000, 10), (100_000, 20))


def seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def sample(n: int, p: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    exog = np.asfortranarray(np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))]))
    noise = quantile_huber.rvs(0.3, 1.0, size=n, random_state=rng)
    return exog, exog @ rng.normal(size=p) + 2.0 * noise


def case(n: int, p: int, param: str | int, bar: float | None) -> bool:
    """Print one line, and return whether the ratio stays within the bar."""
    exog, endog = sample(n, p)
    fit, data = solve(exog, endog), profile_data(exog, endog)
    times = [
        (
            seconds(lambda: profile_likelihood(data, fit, param)),
            seconds(lambda: solve(exog, endog)),
        )
        for _ in range(REPEATS)
    ]
    took, base = min(t for t, _ in times), min(t for _, t in times)
    fits = len(profile_likelihood(data, fit, param).points)
    verdict = "" if bar is None else ("PASS" if took <= bar * base else "FAIL")
    print(
        f"n = {n:>7}, p = {p:>2}, {param!s:<6} {took * 1e3:8.1f} ms {base * 1e3:8.1f} ms "
        f"{took / base:6.2f}x {fits:4d} fits  {verdict}"
    )
    return bar is None or took <= bar * base


def main() -> bool:
    """Print every ratio, and return whether the bar is met."""
    print("profile with interval, joint fit, ratio")
    with threadpool_limits(limits=1):
        passed = [case(n, p, "tau", BAR) for n, p in CASES]
        case(100_000, 10, "sigma", None)
        case(100_000, 10, 1, None)
        case(1_000, 5, "tau", None)
    return all(passed)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
