"""Table 2 and the paths of tau: boosting on noisy targets of the paper's four data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.paper.datasets import PaperData, scaled
from qhreg.paper.printed import TABLE_2, BoostingEntry

__all__ = [
    "VARIANTS",
    "BoostingRow",
    "TauPath",
    "all_boosting",
    "boosting_row",
    "boosting_rows",
    "noisy_split",
    "own_methods",
    "tau_paths",
]


PAPERS = "paper's settings"
VARIANTS: dict[str, dict[str, Any]] = {
    PAPERS: {
        "sigma": 1.0,
        "learning_rate": 1.0,
        "max_depth": 3,
        "min_samples_leaf": 1,
        "max_features": 1.0,
        "min_split_gain": 0.0,
    },
    "sigma = 1": {"sigma": 1.0},
    "sigma inferred": {"sigma": None},
    "sigma initial": {"sigma": "initial"},
}
"""Options of the regressor by name. The paper's: no shrinkage, sigma = 1; all have kappa = 0.05."""

Method = Callable[[int], Any]
"""Gives a regressor for a seed."""

PATH_SETS = ("forest_fires", "concrete_slump", "concrete_strength")
"""The data sets in the paper's figure of the paths."""

PATH_NOISE = 4.0


@dataclass(frozen=True)
class BoostingRow:
    """A row of Table 2.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    noise : float
        Standard deviation of the noise on the training targets.
    positive : int or None
        Percentage of positive noise; None without noise.
    printed : float
        The paper's error.
    constant : float
        Error of the best constant on the clean targets.
    errors : dict of str to ndarray
        Squared error on the clean validation targets, by variant and repetition.
    """

    dataset: str
    noise: float
    positive: int | None
    printed: float
    constant: float
    errors: dict[str, FloatArray]


@dataclass(frozen=True)
class TauPath:
    """The asymmetry inferred at each stage.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    positive : int or None
        100 for positive, 0 for negative noise, None for none.
    taus : ndarray, shape (stages,)
        tau after each stage.
    """

    dataset: str
    positive: int | None
    taus: FloatArray


def noisy_split(
    data: PaperData, noise: float, positive: int | None, seed: Sequence[int]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return training inputs and noisy targets, validation inputs and clean targets.

    Parameters
    ----------
    data : PaperData
        The data; inputs and target are scaled to (-1, 1) first.
    noise : float
        Standard deviation of the Laplacian noise on the training targets.
    positive : int or None
        Percentage of it that is positive.
    seed : sequence of int
        Of split and noise.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.boosted import noisy_split
    >>> from qhreg.paper.datasets import PaperData
    >>> data = PaperData("boston", np.arange(8.0)[:, None], np.arange(8.0))
    >>> x, noisy, x_test, clean = noisy_split(data, 2.0, 100, [0])
    >>> bool(np.all(noisy > x[:, 0])), bool(np.allclose(clean, x_test[:, 0]))
    (True, True)
    """
    exog, endog = scaled(data.exog), scaled(data.endog)
    rng = np.random.default_rng(list(seed))
    rows = rng.permutation(endog.size)
    cut = int(0.75 * endog.size)
    train, test = rows[:cut], rows[cut:]
    size = np.abs(rng.laplace(scale=noise / np.sqrt(2.0), size=cut)) if noise else np.zeros(cut)
    share = 0.5 if positive is None else positive / 100.0
    added = np.where(rng.permutation(cut) < share * cut, size, -size)
    return exog[train], endog[train] + added, exog[test], endog[test]


def _regressor(options: dict[str, Any], seed: int) -> Any:
    from qhreg.boosting import QuantileHuberBoostingRegressor

    return QuantileHuberBoostingRegressor(
        kappa=0.05, n_estimators=200, random_state=seed, n_jobs=1, interval_cv=None, **options
    )


def own_methods() -> dict[str, Method]:
    """Return the variants of the regressor as methods."""
    return {name: partial(_regressor, options) for name, options in VARIANTS.items()}


def boosting_row(
    data: PaperData,
    entry: BoostingEntry,
    repetitions: int = 10,
    *,
    seed: int = 0,
    methods: dict[str, Method] | None = None,
) -> BoostingRow:
    """Return one row of Table 2.

    Parameters
    ----------
    data : PaperData
        The data.
    entry : BoostingEntry
        The paper's row for them.
    repetitions, seed : int
        Number of splits, seed.
    methods : dict or None
        Regressors by name; by default the variants of ours.
    """
    methods = own_methods() if methods is None else methods
    errors: dict[str, list[float]] = {name: [] for name in methods}
    for repetition in range(repetitions):
        key = [seed, repetition, int(entry.noise), entry.positive or 0]
        x, y, x_test, clean = noisy_split(data, entry.noise, entry.positive, key)
        for name, make in methods.items():
            predicted = make(repetition).fit(x, y).predict(x_test)
            errors[name].append(float(np.mean((predicted - clean) ** 2)))
    return BoostingRow(
        data.name,
        entry.noise,
        entry.positive,
        entry.mse,
        float(np.var(scaled(data.endog))),
        {name: np.array(values) for name, values in errors.items()},
    )


def boosting_rows(
    data: PaperData,
    repetitions: int = 10,
    *,
    seed: int = 0,
    methods: dict[str, Method] | None = None,
) -> Iterator[BoostingRow]:
    """Give the rows of Table 2 for one data set, as `boosting_row` does."""
    for entry in TABLE_2:
        if entry.dataset == data.name:
            yield boosting_row(data, entry, repetitions, seed=seed, methods=methods)


def tau_paths(data: PaperData, *, seed: int = 0) -> tuple[TauPath, ...]:
    """Return the path of tau with positive, negative and no noise, in the paper's settings.

    Parameters
    ----------
    data : PaperData
        The data.
    seed : int
        Of split and noise.
    """
    paths = []
    for positive, noise in ((100, PATH_NOISE), (0, PATH_NOISE), (None, 0.0)):
        x, y, _, _ = noisy_split(data, noise, positive, [seed])
        model = _regressor(VARIANTS[PAPERS], seed).fit(x, y)
        paths.append(TauPath(data.name, positive, np.asarray(model.tau_path_)))
    return tuple(paths)


def all_boosting(
    sets: Sequence[PaperData],
    repetitions: int,
    *,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> tuple[tuple[BoostingRow, ...], tuple[TauPath, ...]]:
    """Return Table 2 and the paths of tau.

    Parameters
    ----------
    sets : sequence of PaperData
        The four data sets.
    repetitions, seed : int
        Number of splits, seed.
    progress : callable, optional
        Told about each data set.
    """
    rows: list[BoostingRow] = []
    paths: list[TauPath] = []
    for data in sets:
        if progress is not None:
            progress(f"Table 2, {data.name}")
        rows.extend(boosting_rows(data, repetitions, seed=seed))
        if data.name in PATH_SETS:
            paths.extend(tau_paths(data, seed=seed))
    return tuple(rows), tuple(paths)
