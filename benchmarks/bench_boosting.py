"""The boosting regressor against its peers: the paper's table, intervals, speed, memory.

Run as ``python benchmarks/bench_boosting.py table|onesided|intervals|speed|memory``, with
``--data FOLDER`` for the four data sets of the paper (boston.csv, concrete_strength.csv,
concrete_slump.csv, forest_fires.csv), and ``--repetitions``. The table is made on the splits of
``python -m qhreg paper``: its page has the same numbers for our columns.

Times are processor times, the least over repeats, ours and the peers' measured in turn.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from qhreg import QuantileHuberBoostingRegressor
from qhreg.paper.boosted import BoostingRow, boosting_rows, own_methods
from qhreg.paper.datasets import NAMES, TITLES, PaperData, load, scaled

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

TREES = 200

OWN = ("sigma = 1", "sigma inferred", "sigma initial")


def peers() -> dict[str, Callable[[int], Any]]:
    trees = {"n_estimators": TREES}
    return {
        "GB squared": lambda seed: GradientBoostingRegressor(random_state=seed, **trees),
        "GB Huber": lambda seed: GradientBoostingRegressor(
            loss="huber", random_state=seed, **trees
        ),
        "GB median": lambda seed: GradientBoostingRegressor(
            loss="quantile", alpha=0.5, random_state=seed, **trees
        ),
        "LightGBM": lambda seed: lgb.LGBMRegressor(
            n_jobs=1, verbosity=-1, random_state=seed, **trees
        ),
    }


def table(folder: Path, repetitions: int, sets: Sequence[str] = NAMES) -> None:
    """Print the errors of every method, and which bars each of our columns misses."""
    methods = {name: make for name, make in own_methods().items() if name in OWN} | peers()
    print("| data | noise | +/- | paper |", " | ".join(methods), "| missed |")
    print("|" + "---|" * (len(methods) + 5))
    missed = dict.fromkeys(OWN, 0)
    for name in sets:
        for row in boosting_rows(load(name, folder), repetitions, methods=methods):
            misses = [own for own in OWN if bars_missed(row, own)]
            for own in misses:
                missed[own] += 1
            signs = "" if row.positive is None else f"{row.positive}/{100 - row.positive}"
            print(
                f"| {TITLES[name]} | {row.noise:g} | {signs} | {row.printed:g} |",
                " | ".join(cell(row.errors[method]) for method in methods),
                f"| {'; '.join(f'{own}: {bars_missed(row, own)}' for own in misses)} |",
                flush=True,
            )
    print(
        ", ".join(f"{own} misses {count} of {7 * len(sets)} rows" for own, count in missed.items())
    )


def cell(errors: np.ndarray) -> str:
    """Return mean and standard error."""
    if errors.size == 1:
        return f"{errors[0]:.3f}"
    return f"{errors.mean():.3f} ± {errors.std(ddof=1) / np.sqrt(errors.size):.3f}"


def bars_missed(row: BoostingRow, own: str) -> str:
    """Return how far one of our columns is above the bars it misses."""
    error = row.errors[own].mean()
    peer = min(row.errors[name].mean() for name in peers())
    missed = [] if error < row.printed else [f"{error / row.printed:.2f} x paper"]
    if not error < peer if row.noise else not error <= 1.1 * peer:
        missed.append(f"{error / peer:.2f} x best peer")
    return ", ".join(missed)


def onesided(repetitions: int) -> None:
    """Print the errors against the clean target where all noise is positive, as large as the signal."""
    own = {
        "sigma inferred": QuantileHuberBoostingRegressor,
        "sigma inferred, clip=None": lambda **o: QuantileHuberBoostingRegressor(clip=None, **o),
        "sigma initial": lambda **o: QuantileHuberBoostingRegressor(sigma="initial", **o),
    }
    methods = {
        name: lambda seed, make=make: make(random_state=seed, n_jobs=1, interval_cv=None)
        for name, make in own.items()
    } | peers()
    print("| data | rows |", " | ".join(methods), "|")
    print("|" + "---|" * (len(methods) + 2))
    for make_data in (make_friedman1, make_friedman2):
        for n in (300, 1500):
            errors: dict[str, list[float]] = {name: [] for name in methods}
            for seed in range(repetitions):
                X, clean = make_data(n_samples=n + 2000, random_state=seed)
                clean = (clean - clean.mean()) / clean.std()
                y = clean[:n] + np.random.default_rng(seed).exponential(size=n)
                for name, make in methods.items():
                    predicted = make(seed).fit(X[:n], y).predict(X[n:])
                    errors[name].append(float(np.mean((predicted - clean[n:]) ** 2)))
            cells = [cell(np.array(found)) for found in errors.values()]
            print(f"| {make_data.__name__} | {n} |", " | ".join(cells), "|", flush=True)


def intervals(folder: Path, repetitions: int) -> None:
    """Print the coverage of intervals on held-out rows with noise of the same law."""
    print("| data | noise | errors from | 80 % | 95 % |")
    print("|---|---|---|---|---|")
    for name in NAMES:
        for law in ("Laplace", "normal"):
            for label, folds in {"default": "auto", "training rows": None}.items():
                covered = [
                    coverage(load(name, folder), law, folds, seed) for seed in range(repetitions)
                ]
                low, high = 100 * np.mean(covered, axis=0)
                print(f"| {TITLES[name]} | {law} | {label} | {low:.1f} | {high:.1f} |", flush=True)


def coverage(data: PaperData, law: str, folds: Any, seed: int) -> np.ndarray:
    """Return the shares of held-out rows inside intervals of 80 % and 95 %."""
    X, y = scaled(data.exog), scaled(data.endog)
    rng = np.random.default_rng(seed)
    noisy = y + (rng.laplace if law == "Laplace" else rng.normal)(size=y.size)
    rows = rng.permutation(y.size)
    train, test = rows[: int(0.75 * y.size)], rows[int(0.75 * y.size) :]
    model = QuantileHuberBoostingRegressor(interval_cv=folds, random_state=seed)
    ends = model.fit(X[train], noisy[train]).predict_interval(X[test], [0.8, 0.95])
    target = noisy[test][:, None]
    return ((ends[..., 0] <= target) & (target <= ends[..., 1])).mean(axis=0)


def processor_time(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def simulated(n: int, p: int, positive: float = 0.75) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with Laplacian noise of which the given share is positive."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    size = np.abs(rng.laplace(scale=np.sqrt(0.5), size=n))
    sign = np.where(rng.permutation(n) < positive * n, 1.0, -1.0)
    return X, X[:, 0] ** 2 + X[:, 1] + sign * size


LIKE_LIGHTGBM = {
    "learning_rate": 0.1,
    "min_samples_leaf": 20,
    "max_features": 1.0,
    "min_split_gain": 0.0,
}
"""Options with which our trees are as large as LightGBM's, and 200 of them are grown."""

DEPTH_3 = ({"max_depth": 3}, {"max_depth": 3, "num_leaves": 8})
LEAVES_31 = ({"max_depth": None, "max_leaf_nodes": 31}, {"num_leaves": 31})

SPEED_CASES = [
    ("n = 2e4, p = 10, depth 3", 20_000, 10, 0.75, DEPTH_3),
    ("n = 2e4, p = 10, depth 3, all noise positive", 20_000, 10, 1.0, DEPTH_3),
    ("n = 2e5, p = 20, depth 3", 200_000, 20, 0.75, DEPTH_3),
    ("n = 2e5, p = 20, 31 leaves", 200_000, 20, 0.75, LEAVES_31),
]


def speed(repeats: int) -> None:
    """Print ratios to LightGBM's quantile objective, and to the bare trees on the generic path."""
    print("| case | ours | peer | ratio | bar |")
    print("|---|---|---|---|---|")
    for name, n, p, positive, (ours_options, peer_options) in SPEED_CASES:
        X, y = simulated(n, p, positive)
        peer = {"objective": "quantile", "alpha": 0.5, "verbosity": -1, "num_threads": 1}
        for label, sigma in {"= 1": 1.0, "initial": "initial", "inferred": None}.items():
            model = QuantileHuberBoostingRegressor(
                sigma=sigma, n_estimators=TREES, **LIKE_LIGHTGBM, **ours_options
            )
            ours, other = compare(
                lambda m=model, X=X, y=y: m.fit(X, y),
                lambda X=X, y=y, o=peer | peer_options: lgb.train(o, lgb.Dataset(X, y), TREES),
                repeats if n < 100_000 else min(repeats, 3),
            )
            assert model.n_estimators_ == TREES
            print(
                f"| {name}, sigma {label} | {ours:.2f} s | {other:.2f} s | {ours / other:.2f} | 1.1 |",
                flush=True,
            )
    generic(min(repeats, 2))


def generic(repeats: int) -> None:
    """Print the ratio of the generic path to its tree fits alone."""
    X, y = simulated(20_000, 10)
    tree = DecisionTreeRegressor(max_depth=3)
    stages = 40  # the ratio does not depend on their number
    model = QuantileHuberBoostingRegressor(tree, n_estimators=stages)
    model.fit(X, y)
    slopes = np.clip(y - model.predict(X), -0.5, 0.5)

    def bare() -> None:
        for _ in range(stages):
            DecisionTreeRegressor(max_depth=3).fit(X, slopes)

    ours, other = compare(lambda: model.fit(X, y), bare, repeats)
    print(
        f"| generic path, n = 2e4, p = 10 | {ours:.2f} s | {other:.2f} s | {ours / other:.2f} | 1.2 |"
    )


def compare(ours: Callable[[], Any], peer: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Return the least times of both over alternating repeats."""
    times = [(processor_time(ours), processor_time(peer)) for _ in range(repeats)]
    return min(t for t, _ in times), min(t for _, t in times)


def memory() -> None:
    """Print the peak memory of a fit beyond its data, as a multiple of the data."""
    X, y = simulated(1_000_000, 20)
    QuantileHuberBoostingRegressor(n_estimators=2).fit(X[:1000], y[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    QuantileHuberBoostingRegressor(n_estimators=10).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    extra, data = (after - before) / 1024, X.nbytes / 2**20
    print(
        f"n = 1e6, p = 20: {extra:.0f} MiB beyond {data:.0f} MiB of data, {extra / data:.2f} (bar 1)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["table", "onesided", "intervals", "speed", "memory"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    given = parser.parse_args()
    if given.what == "table":
        table(given.data, given.repetitions, given.sets)
    elif given.what == "onesided":
        onesided(given.repetitions)
    elif given.what == "intervals":
        intervals(given.data, given.repetitions)
    elif given.what == "speed":
        speed(given.repetitions)
    else:
        memory()


if __name__ == "__main__":
    main()
