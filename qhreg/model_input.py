"""What a user gives a model, checked: keywords, numbers, tables, weights."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg.alignment import RowSource, numeric_vector, to_pandas
from qhreg.exceptions import DataError, DomainError
from qhreg.formulas import SPEC_NAME

FloatArray = npt.NDArray[np.float64]

ROW_EXTRAS = ("freq_weights", "weights", "offset")
"""Arrays with one number for each row, besides the response and the regressors."""

FORMULA_KEYS = ("formula", "missing_idx", SPEC_NAME)
"""What statsmodels passes to a model that it builds from a formula."""

KEYWORDS = ("kappa", "tau", "sigma", "tau_bounds", *ROW_EXTRAS, "missing", "hasconst")
"""The keywords of the model."""


def reject_unknown(kwargs: dict[str, Any]) -> None:
    """Raise a TypeError that names an unknown keyword, and the known one that is meant."""
    for key in kwargs:
        if key in FORMULA_KEYS:
            continue
        close = difflib.get_close_matches(key, KEYWORDS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(KEYWORDS)}"
        raise TypeError(f"QuantileHuberMLE got an unknown keyword {key!r}{hint}")


def has_mask(kwargs: dict[str, Any]) -> bool:
    """Return whether a formula dropped rows with missing values."""
    return kwargs.get("missing_idx") is not None


def number(name: str, value: Any, check: Any) -> float:
    """Return a checked parameter as one float, or raise a DomainError."""
    checked = check(value)
    if not isinstance(checked, float):
        raise DomainError(f"{name} must be one number, got an array of shape {checked.shape}")
    return checked


def bounds(bounds: Any) -> tuple[float, float]:
    """Return the bounds of tau as floats, or raise a DomainError."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError) as error:
        raise DomainError(f"tau_bounds must be two numbers, got {bounds!r}") from error
    if not 0.0 < low < high < 1.0:
        raise DomainError(f"tau_bounds must satisfy 0 < lower < upper < 1, got {bounds!r}")
    return low, high


def as_table(values: Any) -> Any:
    """Return pandas objects as they are and everything else as an array of floats."""
    values = to_pandas(values)
    if isinstance(values, (pd.Series, pd.DataFrame)):
        return values
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else _floats(array)


def _floats(array: npt.NDArray[Any]) -> FloatArray:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"endog and exog must be numeric: {error}") from error


def match_extras(endog: Any, exog: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return weights and offset as arrays in the order of the rows."""
    labels = next((t.index for t in (exog, endog) if hasattr(t, "index")), None)
    source = RowSource(len(endog), labels=labels)
    return {
        name: None if values is None else numeric_vector(name, source.take(name, values))
        for name, values in given.items()
    }


def formula_extras(
    data: pd.DataFrame, subset: Any, named: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the chosen rows, and weights and offset for them."""
    n_given = len(data)
    kept, chosen = None, data
    if subset is not None:
        positions = pd.Series(np.arange(n_given), index=data.index).loc[subset]
        kept, chosen = positions.to_numpy(), data.iloc[positions.to_numpy()]
    source = RowSource(n_given, kept, chosen.index, data)
    extras = {
        name: numeric_vector(name, source.take(name, values))
        for name, values in named.items()
        if values is not None
    }
    return chosen, extras


def check_design(exog: FloatArray) -> None:
    """Raise a DataError that names the columns with NaN or infinite values."""
    with np.errstate(all="ignore"):
        if np.isfinite(exog.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(exog).all(axis=0))
    if bad.size:
        raise DataError(
            f"exog contains NaN or infinite values in column(s) {', '.join(map(str, bad[:10]))}: "
            'use missing="drop" for NaN, or remove these rows'
        )


def default_names(k: int, constant: int | None) -> list[str]:
    """Return const and x1, x2, ... as statsmodels calls the columns of an array."""
    names = [f"x{j}" for j in range(1, k + (constant is None))]
    if constant is not None:
        names.insert(constant, "const")
    return names
