"""Time the loss against np.abs and the density against scipy's normal one.

Run as ``python benchmarks/bench_family.py``. Every figure is the minimum over repeats, numerator
and denominator measured in turn, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import loss_slope, quantile_huber_loss

REPEATS = 15
LOSS_BAR, DENSITY_BAR = 4.0, 10.0
KAPPAS = (0.0, 0.05, 1.0)


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(function: Callable[[], Any], baseline: Callable[[], Any]) -> tuple[float, float]:
    """Return the shortest times of function and of baseline over alternating repeats."""
    times = [(seconds(function), seconds(baseline)) for _ in range(REPEATS)]
    return min(t for t, _ in times), min(t for _, t in times)


def report(name: str, took: float, base: float, bar: float | None) -> bool:
    """Print one line, and return whether the ratio stays within the bar."""
    ratio = took / base
    verdict = "" if bar is None else ("PASS" if ratio <= bar else "FAIL")
    limit = "" if bar is None else f"(bar {bar:g})"
    line = (
        f"{name:<44} {took * 1e3:8.2f} ms {base * 1e3:8.2f} ms {ratio:6.2f}x {limit:<9} {verdict}"
    )
    print(line)
    return bar is None or ratio <= bar


def main() -> bool:
    """Print every ratio with its verdict, and return whether all bars are met."""
    rng = np.random.default_rng(0)
    residuals, points = rng.normal(size=10_000_000), rng.normal(size=1_000_000)
    passed = []

    print(f"{'':<44} {'took':>11} {'baseline':>11}  ratio")
    print("1e7 residuals, baseline np.abs")
    functions = [(quantile_huber_loss, LOSS_BAR), (loss_slope, LOSS_BAR)]
    for function, bar in functions:
        for kappa in KAPPAS:
            took, base = compare(
                lambda f=function, k=kappa: f(residuals, 0.3, k), lambda: np.abs(residuals)
            )
            passed.append(report(f"{function.__name__}, kappa = {kappa:g}", took, base, bar))

    print("1e6 points, baseline the same method of scipy.stats.norm")
    methods = [("logpdf", DENSITY_BAR), ("pdf", None), ("cdf", None), ("sf", None)]
    for method, bar in methods:
        for kappa in KAPPAS:
            took, base = compare(
                lambda m=method, k=kappa: getattr(quantile_huber, m)(points, 0.3, k),
                lambda m=method: getattr(stats.norm, m)(points),
            )
            passed.append(report(f"{method}, kappa = {kappa:g}", took, base, bar))
    return all(passed)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
