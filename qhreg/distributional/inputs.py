"""What a user gives a distributional model: three designs, weights and missing rows, made one table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import BoolArray, FloatArray, IntArray
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.alignment import RowSource
from qhreg.specification.formulas import new_design
from qhreg.specification.given import (
    ROW_EXTRAS,
    as_table,
    check_lengths,
    default_names,
    match_extras,
    remedy,
)
from qhreg.specification.observations import find_constant

__all__ = ["FormulaRows", "Tables", "formula_rows", "gather"]


KEYWORDS = (
    "exog_scale",
    "exog_tau",
    "kappa",
    "tau",
    "sigma",
    "tau_bounds",
    *ROW_EXTRAS,
    "missing",
    "hasconst",
)
"""The keywords of the model."""


@dataclass(frozen=True)
class Tables:
    """Response, three designs and weights with the same rows, none of them missing.

    Attributes
    ----------
    endog, exog : Series, DataFrame or ndarray
        Response and regressors of the location.
    scale, tau : ndarray, shape (n, q) and (n, r)
        Regressors of log sigma and of logit tau.
    scale_names, tau_names : list of str
        Their names.
    extras : dict
        Weights and offset that were given.
    n_given : int
        Rows before those with missing values were dropped.
    kept : ndarray of int or None
        Positions of the rows that are left; None for all.
    """

    endog: Any
    exog: Any
    scale: FloatArray
    tau: FloatArray
    scale_names: list[str]
    tau_names: list[str]
    extras: dict[str, FloatArray]
    n_given: int
    kept: IntArray | None = None


def _block(
    name: str, values: Any, fixed: float | None, source: RowSource
) -> tuple[FloatArray, list[str]]:
    """Return the regressors of scale or tau with their names: a constant by default."""
    n = source.n_given
    if fixed is not None:
        if values is not None:
            what = "sigma" if name == "exog_scale" else "tau"
            raise DomainError(f"{what} is fixed at {fixed!r}: {name} has nothing to explain")
        return np.empty((n, 0)), []
    if values is None:
        return np.ones((n, 1)), ["const"]
    table = as_table(name, values)
    if isinstance(table, pd.Series):
        table = table.to_frame(name="x1" if table.name is None else table.name)
    taken = source.take(name, table)
    array = np.asarray(taken, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(f"{name} must be a matrix with at least one column, got {array.shape}")
    if isinstance(taken, pd.DataFrame):
        return array, [str(column) for column in taken.columns]
    return array, default_names(array.shape[1], find_constant(array)[1])


def gather(
    endog: Any,
    exog: Any,
    exog_scale: Any,
    exog_tau: Any,
    extras: dict[str, Any],
    *,
    sigma: float | None,
    tau: float | None,
    missing: str,
) -> Tables:
    """Return the tables of a model, matched row by row and without missing values.

    Parameters
    ----------
    endog, exog : array_like
        Response and regressors of the location.
    exog_scale, exog_tau : array_like or None
        Regressors of log sigma and logit tau; pandas objects are matched by their labels. None is a
        constant.
    extras : dict
        Weights and offset.
    sigma, tau : float or None
        A number where the parameter is fixed and has no regressors.
    missing : {"none", "drop", "raise"}
        What to do with rows that have a NaN anywhere.
    """
    if exog is None:
        raise DataError("exog is None: pass at least a column of ones for a constant")
    endog, exog = as_table("endog", endog), as_table("exog", exog)
    check_lengths(endog, exog)
    labels = next((t.index for t in (exog, endog) if hasattr(t, "index")), None)
    source = RowSource(len(endog), labels=labels)
    scale, scale_names = _block("exog_scale", exog_scale, sigma, source)
    asymmetry, tau_names = _block("exog_tau", exog_tau, tau, source)
    matched = match_extras(endog, exog, extras)
    given = {name: values for name, values in matched.items() if values is not None}
    made = Tables(endog, exog, scale, asymmetry, scale_names, tau_names, given, len(endog))
    return _complete(made, missing)


def _complete(tables: Tables, missing: str) -> Tables:
    """Return the tables without rows that have a NaN, or raise a DataError that says where one is."""
    parts: dict[str, Any] = {"endog": tables.endog, "exog": tables.exog}
    parts |= {"exog_scale": tables.scale, "exog_tau": tables.tau, **tables.extras}
    gaps = np.zeros(tables.n_given, dtype=bool)
    for name, table in parts.items():
        array = np.asarray(table, dtype=np.float64)
        rows = array.reshape(tables.n_given, -1)
        gap = np.isnan(rows).any(axis=1) if missing == "drop" else ~np.isfinite(rows).all(axis=1)
        if missing != "drop" and gap.any():
            raise DataError(
                f"{name} contains NaN or infinite values in {int(gap.sum())} row(s), the first in "
                f"row {int(np.flatnonzero(gap)[0])}{remedy(array)}"
            )
        gaps |= gap
    if not gaps.any():
        return _require_finite(tables)
    kept = np.flatnonzero(~gaps)
    return _require_finite(
        replace(
            tables,
            endog=_rows(tables.endog, kept),
            exog=_rows(tables.exog, kept),
            scale=tables.scale[kept],
            tau=tables.tau[kept],
            extras={name: values[kept] for name, values in tables.extras.items()},
            kept=kept,
        )
    )


def _require_finite(tables: Tables) -> Tables:
    named = {"exog_scale": (tables.scale, tables.scale_names)}
    named["exog_tau"] = (tables.tau, tables.tau_names)
    for name, (array, columns) in named.items():
        bad = np.flatnonzero(~np.isfinite(array).all(axis=0))
        if bad.size:
            raise DataError(f"{name} contains infinite values in column {columns[int(bad[0])]!r}")
    return tables


def _rows(table: Any, kept: IntArray) -> Any:
    return table.iloc[kept] if hasattr(table, "iloc") else table[kept]


@dataclass(frozen=True)
class FormulaRows:
    """The rows of the data that all three formulas can use, and the two further designs.

    Attributes
    ----------
    data : DataFrame
        The rows.
    extras : dict
        Weights and offset of these rows.
    designs, specs : dict
        For "scale" and "tau", where given by a formula, the design and the engine's description.
    kept : ndarray of int or None
        Positions of the rows among the given ones; None for all.
    """

    data: pd.DataFrame
    extras: dict[str, FloatArray]
    designs: dict[str, pd.DataFrame]
    specs: dict[str, Any]
    kept: IntArray | None


def formula_rows(
    formula: Any,
    others: dict[str, str],
    data: pd.DataFrame,
    extras: dict[str, FloatArray],
    namespace: Any,
    missing: str,
) -> FormulaRows:
    """Return the rows in which no formula and no weight is missing, with the designs made of them.

    The designs are made from the remaining rows, so that a transformation that looks at the whole
    column, such as ``center``, sees the same rows in every formula.
    """
    for name, text in others.items():
        if "~" in text and not text.lstrip().startswith("~"):
            raise DataError(
                f'{name} must be a formula without response, such as "~ z"; got {text!r}'
            )
    texts = (str(formula), *others.values())
    complete = _usable(texts, data, namespace)
    gaps = _gaps(texts, data)
    if (~complete & ~gaps).any():
        # one gap makes the mean of a column, and with it all of center(z), missing
        complete = ~gaps
        complete[~gaps] = _usable(texts, data[~gaps], namespace)
    for values in extras.values():
        complete &= ~np.isnan(values)
    kept = None
    if not complete.all():
        if missing != "drop":
            raise DataError(
                f"{int((~complete).sum())} row(s) have missing values, the first of them labelled "
                f"{data.index[int(np.argmin(complete))]!r}"
            )
        kept = np.flatnonzero(complete)
        data = data.iloc[kept]
        extras = {name: values[kept] for name, values in extras.items()}
    designs, specs = {}, {}
    for name, text in others.items():
        designs[name], specs[name] = new_design(text, data, namespace)
    return FormulaRows(data, extras, designs, specs, kept)


def _usable(texts: tuple[str, ...], data: pd.DataFrame, namespace: Any) -> BoolArray:
    """Return which rows every formula gives numbers for."""
    usable = np.ones(len(data), dtype=bool)
    numbered = data.set_axis(pd.RangeIndex(len(data)), axis=0)
    for text in texts:
        made, _ = new_design(text, numbered, namespace)
        if len(made) < len(data):  # a formula without variables has no labels to go by
            usable &= np.isin(np.arange(len(data)), made.index)
    return usable


def _gaps(texts: tuple[str, ...], data: pd.DataFrame) -> BoolArray:
    """Return which rows have a missing value in a column that a formula mentions."""
    words = set(re.findall(r"[^\W\d]\w*", " ".join(texts)))
    mentioned = [column for column in data.columns if column in words]
    gaps: BoolArray = data[mentioned].isna().any(axis=1).to_numpy(dtype=bool)
    return gaps
