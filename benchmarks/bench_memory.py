"""Hold the solver to its bar of memory: at most 0.3 of the regressors beyond the data.

Run as ``python -m benchmarks.bench_memory [--quick]``. The first table is of data simulated from the
model, the second of other noise: heavy tails, two peaks, light tails, rounded values, half zeros. What
is loaded once is not counted: each fit is made twice and the second one measured.
"""

from __future__ import annotations

import argparse
import itertools
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.data import make_regression
from qhreg.exceptions import BoundaryWarning
from qhreg.solver import solve

FloatArray = npt.NDArray[np.float64]

KAPPAS = (1.0, 0.05, 0.0)

SIZES = [
    *((300, p) for p in (2, 5, 20)),
    *((1000, p) for p in (2, 5, 20)),
    (2000, 50),
    *((3000, p) for p in (2, 5, 20)),
    *((10_000, p) for p in (2, 5, 10, 20)),
    *((100_000, p) for p in (2, 10)),
]

LARGE = [(10**6, 5), (10**6, 20), (10**5, 500)]

NOISY = [
    (1000, 5),
    (3000, 5),
    *((10_000, p) for p in (2, 5, 20)),
    *((30_000, p) for p in (2, 5, 20)),
    *((100_000, p) for p in (2, 5, 10)),
]


def noises(rng: np.random.Generator, n: int) -> Iterator[tuple[str, FloatArray]]:
    """Iterate over noise unlike the model."""
    yield "normal", rng.standard_normal(n)
    yield "t, 3 degrees of freedom", rng.standard_t(3, n)
    yield "Cauchy", rng.standard_cauchy(n)
    yield "Gumbel", rng.gumbel(size=n)
    yield "uniform", rng.uniform(-1.0, 1.0, n)
    yield "in tenths", np.round(rng.standard_normal(n), 1)
    yield "two peaks", rng.standard_normal(n) + 6.0 * (rng.random(n) < 0.4)
    yield "half zeros", np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n))


def peak(X: FloatArray, y: FloatArray, **options: Any) -> int:
    """Return the largest number of bytes that a fit holds beyond the data."""
    for _ in range(2):
        tracemalloc.start()
        solve(X, y, **options)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


def share(size: int, X: FloatArray) -> str:
    """Return a cell of a table, bold above the bar."""
    ratio = size / X.nbytes
    text = f"{ratio:.3f}" if ratio <= 0.3 else f"**{ratio:.2f}**"
    return f"{text} ({size / 1e3:.0f} kB)" if size < 1e6 else f"{text} ({size / 1e6:.2g} MB)"


def like_the_model(sizes: list[tuple[int, int]]) -> None:
    """Print the table of data simulated from the model, all parameters estimated."""
    print("| size | kappa = 1 | kappa = 0.05 | kappa = 0 |\n|---|---|---|---|")
    for n, p in sizes:
        cells = []
        for kappa in KAPPAS:
            X, y = make_regression(n, p, kappa=kappa, tau=0.3, seed=1)[:2]
            cells.append(share(peak(X, y, kappa=kappa), X))
        print(f"| n = {n:.0e}, p = {p} | {' | '.join(cells)} |", flush=True)


def unlike_the_model(sizes: list[tuple[int, int]]) -> None:
    """Print the noise that takes most, of all kinds, three kappas, tau estimated and fixed."""
    print(
        "\n| size | most | noise | kappa | tau | half of the fits below |\n|---|---|---|---|---|---|"
    )
    for n, p in sizes:
        rng = np.random.default_rng(n + p)
        X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
        found = []
        for name, noise in noises(rng, n):
            y = noise if name == "half zeros" else X.sum(axis=1) + noise
            for kappa, tau in itertools.product(KAPPAS, (None, 0.3)):
                found.append((peak(X, y, kappa=kappa, tau=tau), name, kappa, tau))
        most, name, kappa, tau = max(found, key=lambda item: item[0])
        middle = int(np.median([item[0] for item in found]))
        chosen = "estimated" if tau is None else "fixed"
        print(
            f"| n = {n:.0e}, p = {p} | {share(most, X)} | {name} | {kappa:g} | {chosen} "
            f"| {share(middle, X)} |",
            flush=True,
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the large sizes")
    options = parser.parse_args()
    warnings.simplefilter("ignore", BoundaryWarning)
    like_the_model(SIZES if options.quick else SIZES + LARGE)
    unlike_the_model([s for s in NOISY if s[0] < 10**5] if options.quick else NOISY)


if __name__ == "__main__":
    main()
