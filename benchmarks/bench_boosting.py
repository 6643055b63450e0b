"""The boosting regressor against its peers: the paper's table, intervals, speed, memory.

Run as ``python benchmarks/bench_boosting.py table|intervals|speed|memory``, with
``--data FOLDER`` for the four data sets of the paper (boston.csv, concrete_strength.csv,
concrete_slump.csv, forest_fires.csv), and ``--repetitions``.

Times are processor times, the least over repeats, ours and the peers' measured in turn.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from qhreg import QuantileHuberBoostingRegressor

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

SETS = {
    "Forest fires": ("forest_fires.csv", "area", ["month", "day"]),
    "Housing": ("boston.csv", "medv", ["chas"]),
    "Concrete slump": ("concrete_slump.csv", "strength_28d", ["slump", "flow"]),
    "Comp. strength": ("concrete_strength.csv", "strength", []),
}

PAPER = {
    "Forest fires": [0.364, 1.17, 1.12, 1.15, 2.25, 2.21, 2.31],
    "Housing": [0.74, 1.39, 1.44, 1.32, 2.08, 2.19, 2.15],
    "Concrete slump": [0.19, 0.95, 0.89, 0.92, 1.83, 1.91, 1.86],
    "Comp. strength": [0.48, 1.57, 1.51, 1.49, 2.53, 2.41, 2.47],
}

ROWS = [(0, 0.5), (2, 0.75), (2, 0.5), (2, 0.25), (4, 0.75), (4, 0.5), (4, 0.25)]

TREES = 200


def scaled(values: np.ndarray) -> np.ndarray:
    low, high = values.min(axis=0), values.max(axis=0)
    return 2.0 * (values - low) / (high - low) - 1.0


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and target, scaled to (-1, 1)."""
    file, target, dropped = SETS[name]
    frame = pd.read_csv(folder / file).drop(columns=dropped)
    y = frame.pop(target).to_numpy(float)
    return scaled(frame.to_numpy(float)), scaled(y)


def noise(rng: np.random.Generator, n: int, deviation: float, positive: float) -> np.ndarray:
    """Return Laplacian noise of which the given share is positive."""
    size = np.abs(rng.laplace(scale=deviation / np.sqrt(2.0), size=n)) if deviation else np.zeros(n)
    return np.where(rng.permutation(n) < positive * n, size, -size)


def methods() -> dict[str, Callable[[int], Any]]:
    peers = {"n_estimators": TREES}
    return {
        "sigma = 1": lambda seed: QuantileHuberBoostingRegressor(sigma=1.0, random_state=seed),
        "sigma inferred": lambda seed: QuantileHuberBoostingRegressor(
            sigma=None, random_state=seed
        ),
        "GB squared": lambda seed: GradientBoostingRegressor(random_state=seed, **peers),
        "GB Huber": lambda seed: GradientBoostingRegressor(
            loss="huber", random_state=seed, **peers
        ),
        "GB median": lambda seed: GradientBoostingRegressor(
            loss="quantile", alpha=0.5, random_state=seed, **peers
        ),
        "LightGBM": lambda seed: lgb.LGBMRegressor(
            n_jobs=1, verbosity=-1, random_state=seed, **peers
        ),
    }


def one_row(
    X: Any, y: Any, deviation: float, positive: float, repetitions: range
) -> dict[str, float]:
    """Return the mean error of every method on the clean validation targets."""
    n, errors = y.size, {name: [] for name in methods()}
    for repetition in repetitions:
        rng = np.random.default_rng([repetition, deviation, round(100 * positive)])
        rows = rng.permutation(n)
        train, test = rows[: int(0.75 * n)], rows[int(0.75 * n) :]
        noisy = y[train] + noise(rng, train.size, deviation, positive)
        for name, make in methods().items():
            predicted = make(repetition).fit(X[train], noisy).predict(X[test])
            errors[name].append(float(np.mean((predicted - y[test]) ** 2)))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def table(folder: Path, repetitions: range) -> None:
    names = list(methods())
    print("| data | noise | +/- | paper |", " | ".join(names), "| verdict |")
    print("|" + "---|" * (len(names) + 5))
    for data in SETS:
        X, y = load(folder, data)
        for (deviation, positive), paper in zip(ROWS, PAPER[data], strict=True):
            found = one_row(X, y, deviation, positive, repetitions)
            ours = {name: found[name] for name in names[:2]}
            peer = min(found[name] for name in names[2:])
            print(
                f"| {data} | {deviation} | {round(100 * positive)}/{round(100 - 100 * positive)} |"
                f" {paper:g} |",
                " | ".join(f"{found[name]:.3f}" for name in names),
                f"| {verdict(ours, peer, paper, deviation)} |",
                flush=True,
            )


def verdict(ours: dict[str, float], peer: float, paper: float, deviation: float) -> str:
    """Return which bars each of our columns misses."""
    said = []
    for name, error in ours.items():
        misses = []
        if not error < paper:
            misses.append("paper")
        if deviation and not error < peer:
            misses.append("best peer")
        if not deviation and not error <= 1.1 * peer:
            misses.append("1.1 x best peer")
        if misses:
            said.append(f"{name} misses {', '.join(misses)}")
    return "; ".join(said) or "all met"


def intervals(folder: Path, repetitions: int) -> None:
    """Print the coverage of intervals on held-out rows with noise of the same law."""
    print("| data | noise | errors from | 80 % | 95 % |")
    print("|---|---|---|---|---|")
    for data in SETS:
        X, y = load(folder, data)
        for law in ("Laplace", "normal"):
            for folds in (None, 5):
                covered = []
                for repetition in range(repetitions):
                    rng = np.random.default_rng(repetition)
                    draw = rng.laplace if law == "Laplace" else rng.normal
                    noisy = y + draw(size=y.size)
                    rows = rng.permutation(y.size)
                    train, test = rows[: int(0.75 * y.size)], rows[int(0.75 * y.size) :]
                    model = QuantileHuberBoostingRegressor(interval_cv=folds, random_state=0)
                    model.fit(X[train], noisy[train])
                    ends = model.predict_interval(X[test], [0.8, 0.95])
                    target = noisy[test][:, None]
                    covered.append(
                        ((ends[..., 0] <= target) & (target <= ends[..., 1])).mean(axis=0)
                    )
                low, high = 100 * np.mean(covered, axis=0)
                source = "training rows" if folds is None else f"{folds} folds"
                print(f"| {data} | {law} | {source} | {low:.1f} | {high:.1f} |", flush=True)


def processor_time(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def simulated(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] ** 2 + X[:, 1] + noise(rng, n, 1.0, 0.75)


def speed(repeats: int) -> None:
    """Print ratios to LightGBM's quantile objective, and to the bare trees on the generic path."""
    print("| case | ours | peer | ratio | bar |")
    print("|---|---|---|---|---|")
    cases = [
        ("n = 2e4, p = 10, depth 3", 20_000, 10, {}, {"max_depth": 3, "num_leaves": 8}),
        ("n = 2e5, p = 20, depth 3", 200_000, 20, {}, {"max_depth": 3, "num_leaves": 8}),
        (
            "n = 2e5, p = 20, 31 leaves",
            200_000,
            20,
            {"max_depth": None, "max_leaf_nodes": 31},
            {"num_leaves": 31},
        ),
    ]
    for name, n, p, options, theirs in cases:
        X, y = simulated(n, p)
        peer = {"objective": "quantile", "alpha": 0.5, "verbosity": -1, "num_threads": 1, **theirs}
        for sigma in (1.0, None):
            model = QuantileHuberBoostingRegressor(sigma=sigma, n_estimators=TREES, **options)
            ours, other = compare(
                lambda m=model, X=X, y=y: m.fit(X, y),
                lambda peer=peer, X=X, y=y: lgb.train(peer, lgb.Dataset(X, y), TREES),
                repeats if n < 100_000 else min(repeats, 3),
            )
            label = "sigma = 1" if sigma else "sigma inferred"
            print(f"| {name}, {label} | {ours:.2f} s | {other:.2f} s | {ours / other:.2f} | 1.1 |")
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
    parser.add_argument("what", choices=["table", "intervals", "speed", "memory"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "table":
        seeds = range(given.first_seed, given.first_seed + given.repetitions)
        table(given.data, seeds)
    elif given.what == "intervals":
        intervals(given.data, given.repetitions)
    elif given.what == "speed":
        speed(given.repetitions)
    else:
        memory()


if __name__ == "__main__":
    main()
