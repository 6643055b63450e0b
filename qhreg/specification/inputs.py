"""What a user gives a model or its fit, checked and matched to the rows: tables, weights, keywords."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg._typing import BoolArray, FloatArray, IntArray
from qhreg.exceptions import DataError, DomainError, MissingValuesError
from qhreg.family.domain import check_real
from qhreg.specification.observations import find_constant

ROW_EXTRAS = ("freq_weights", "weights", "offset")
"""Arrays with one number for each row, besides the response and the regressors."""

FORMULA_KEYS = ("formula", "missing_idx", "model_spec", "design_info")
"""What statsmodels passes to a model that it builds from a formula: the last is that of 0.14."""

KEYWORDS = ("kappa", "tau", "sigma", "tau_bounds", *ROW_EXTRAS, "missing", "hasconst")
"""The keywords of the model."""


def number(name: str, value: Any, check: Any, *, optional: bool = True) -> float:
    """Return a checked parameter as one float, or raise a DomainError.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        What was given.
    check : callable
        The check of its domain.
    optional : bool
        Whether None, which estimates it, would do too.
    """
    try:
        real: Any = check_real(name, value)
    except DomainError:
        real = None
    if isinstance(real, float):
        return float(check(real))
    allowed = "one number, or None to estimate it" if optional else "one number"
    several = name == "tau" and real is not None
    hint = ": for several use QuantileHuberMLE.fit_process" if several else ""
    raise DomainError(f"{name} must be {allowed}; got {value!r}{hint}")


def bounds(bounds: Any) -> tuple[float, float]:
    """Return the bounds of tau as floats, or raise a DomainError."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError) as error:
        raise DomainError(f"tau_bounds must be two numbers, got {bounds!r}") from error
    if not 0.0 < low < high < 1.0:
        raise DomainError(f"tau_bounds must satisfy 0 < lower < upper < 1, got {bounds!r}")
    return low, high


def to_pandas(data: Any) -> Any:
    """Return a frame of another library as a pandas DataFrame, and everything else as it is.

    Parameters
    ----------
    data : object
        A Polars or Narwhals frame, lazy ones included; an Arrow table; whatever has `to_pandas`, the
        Arrow stream of the PyCapsule protocol, or the older `__dataframe__`. Categories stay
        categories. Rows are numbered, unless pandas stored labels in an Arrow table.
    """
    if isinstance(data, (pd.DataFrame, pd.Series)):
        return data
    if hasattr(data, "lazy") and hasattr(data, "collect"):
        data = data.collect()
    try:
        if hasattr(data, "to_pandas"):
            return data.to_pandas()
        if hasattr(data, "__arrow_c_stream__"):
            import pyarrow as pa

            return pa.table(data).to_pandas()
        if hasattr(data, "__dataframe__"):
            return pd.api.interchange.from_dataframe(data)
    except ImportError as error:
        kind = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
        raise DataError(
            f"a {kind} is turned into a pandas one by pyarrow, which is not installed: "
            "pip install 'qhreg[parquet]', or pass a dict of columns"
        ) from error
    return data


def unmasked(values: Any) -> Any:
    """Return a masked array as floats with NaN where it is masked, and everything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    return np.ma.filled(values.astype(np.float64), np.nan)


@dataclass(frozen=True)
class RowSource:
    """Where the rows of a model came from.

    Attributes
    ----------
    n_given : int
        Rows of the data as the user gave them.
    kept : ndarray of int or None
        Positions, among the given rows, of those that are in the model; None means all.
    labels : pandas.Index or None
        Labels of the rows in the model.
    frame : pandas.DataFrame or None
        The data a column name refers to; one row for each given row.
    """

    n_given: int
    kept: IntArray | None = None
    labels: pd.Index | None = None
    frame: pd.DataFrame | None = None

    @property
    def n_kept(self) -> int:
        """Rows in the model."""
        return self.n_given if self.kept is None else int(self.kept.size)

    def take(self, name: str, values: Any) -> Any:
        """Return the entries of values that belong to the model's rows, in their order.

        A string, or a list of a single one, names a column of the frame; a Series is matched by its
        labels; anything else by position, and may have one entry for each given row or for each row in
        the model.
        """
        if isinstance(values, (list, tuple)) and len(values) == 1 and isinstance(values[0], str):
            (values,) = values
        if isinstance(values, str):
            return self._by_position(name, self._column(name, values))
        if isinstance(values, (pd.Series, pd.DataFrame)) and self.labels is not None:
            return self._by_label(name, values)
        by_row = values if hasattr(values, "shape") else np.asarray(to_pandas(values))
        return self._by_position(name, by_row)

    def _column(self, name: str, column: str) -> Any:
        if self.frame is None:
            raise DataError(
                f"{name}={column!r} names a column, but the model was built from arrays: pass the "
                "values themselves"
            )
        if column not in self.frame.columns:
            raise DataError(
                f"{name}={column!r} is not a column of the data; the columns are "
                f"{', '.join(map(str, self.frame.columns))}"
            )
        return self.frame[column]

    def _by_position(self, name: str, values: Any) -> Any:
        if np.ndim(values) == 0:
            raise DataError(f"{name} must have one entry for each row, got {values}")
        n = len(values)
        if n == self.n_kept:
            return values
        if n == self.n_given and self.kept is not None:
            return values.iloc[self.kept] if hasattr(values, "iloc") else values[self.kept]
        rows = f"{self.n_kept} rows"
        if self.kept is not None:
            rows += f" in the model ({self.n_given} given)"
        raise DataError(f"{name} has length {n}, but there are {rows}")

    def _by_label(self, name: str, values: Any) -> Any:
        assert self.labels is not None
        if values.index.equals(self.labels):
            return values
        if not values.index.is_unique:
            taken = values
            if len(values) in (self.n_kept, self.n_given):
                taken = self._by_position(name, values)
            if taken.index.equals(self.labels):
                return taken
            raise DataError(
                f"{name} cannot be matched to the rows: its index has repeated labels and is not the "
                f"index of the {self.n_kept} rows; bring it to their order, or pass an array"
            )
        positions = values.index.get_indexer(self.labels)
        absent = positions < 0
        if absent.any():
            example = self.labels[int(np.flatnonzero(absent)[0])]
            raise DataError(
                f"{name} has no entry for {int(absent.sum())} of {self.n_kept} rows, the first of "
                f"them labelled {example!r}"
            )
        return values.iloc[positions]

    def vectors(self, given: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Return those of several arrays, such as weights, that are given, as floats of the rows."""
        return {
            name: numeric_vector(name, self.take(name, values))
            for name, values in given.items()
            if values is not None
        }


def numeric_vector(name: str, values: Any) -> FloatArray:
    """Return values as one-dimensional floats, or raise a DataError that names them."""
    try:
        array = np.asarray(unmasked(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numeric: {error}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got an array of shape {array.shape}")
    return array


def group_codes(values: Any) -> npt.NDArray[np.intp]:
    """Return one integer for each distinct group, or raise a DataError when a group is missing.

    Parameters
    ----------
    values : Series, DataFrame or ndarray, shape (n,) or (n, 2)
        Group labels of any type; the columns of a two-way grouping are coded separately.
    """
    frame = pd.DataFrame(values)
    if frame.shape[1] not in (1, 2):
        raise DataError(f"groups must have one or two columns, got {frame.shape[1]}")
    codes = np.column_stack([pd.factorize(frame.iloc[:, j])[0] for j in range(frame.shape[1])])
    missing = int((codes < 0).any(axis=1).sum())
    if missing:
        raise DataError(
            f"groups is missing (NaN or None) in {missing} of {len(frame)} rows: give every row a "
            "group, or drop these rows before the fit"
        )
    return codes[:, 0] if codes.shape[1] == 1 else codes


def as_table(name: str, values: Any) -> Any:
    """Return pandas objects and floats as they are, everything else as an array of floats."""
    values = unmasked(to_pandas(values))
    if isinstance(values, pd.DataFrame):
        text = [
            str(column)
            for column, dtype in values.dtypes.items()
            if not (dtype.kind == "b" or pd.api.types.is_numeric_dtype(dtype))
        ]
        if text:
            raise DataError(
                f"{name} has columns that are not numeric: {', '.join(text)}; use a formula to code them"
            )
        if all(dtype in _FLOATS for dtype in values.dtypes):
            return values
        # numbers, booleans and nullable numbers side by side would become objects
        floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.DataFrame(floats, index=values.index, columns=values.columns)
    if hasattr(values, "toarray"):
        raise DataError(f"{name} is a sparse matrix, which the model does not take: use .toarray()")
    column: Any = values if isinstance(values, pd.Series) else np.asarray(values)
    if column.dtype in _FLOATS:
        return column
    if column.dtype.kind == "c":
        raise DataError(f"{name} must be real, got complex numbers")
    if column.dtype.kind in "mM":
        raise DataError(f"{name} must be numeric, got {column.dtype}")
    try:
        if isinstance(column, np.ndarray):
            return column.astype(np.float64)
        floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.Series(floats, index=column.index, name=column.name)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numeric: {error}") from error


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def regressors(name: str, values: Any, source: RowSource) -> tuple[FloatArray, list[str]]:
    """Return the regressors of a further predictor with their names.

    Parameters
    ----------
    name : str
        What they are called in messages.
    values : array_like or None
        The columns; pandas objects are matched to the rows by their labels. None is a constant, and an
        array without columns stays one.
    source : RowSource
        The rows.
    """
    if values is None:
        return np.ones((source.n_kept, 1)), ["const"]
    table = as_table(name, values)
    if isinstance(table, pd.Series):
        table = table.to_frame(name="x1" if table.name is None else table.name)
    taken = source.take(name, table)
    array = np.asarray(taken, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise DataError(f"{name} must be a matrix with at least one column, got {array.shape}")
    if isinstance(taken, pd.DataFrame):
        return array, [str(column) for column in taken.columns]
    return array, default_names(array.shape[1], find_constant(array)[1])


def chosen_rows(index: pd.Index, subset: Any) -> npt.NDArray[np.intp]:
    """Return the positions of the rows that a subset names, or raise a DataError."""
    places = pd.Series(np.arange(len(index)), index=index)
    subset = np.asarray(subset) if hasattr(subset, "to_pandas") else subset
    try:
        positions = places.loc[subset]
    except (KeyError, IndexError, TypeError, ValueError, pd.errors.IndexingError) as error:
        raise DataError(
            f"subset must be booleans, one for each of {len(index)} rows, or a list of labels of the "
            f"index: {error}"
        ) from error
    if np.ndim(positions) == 0:
        raise DataError(f"subset must be a list of labels or booleans, got {subset!r}")
    return np.asarray(positions, dtype=np.intp)


def complete_rows(tables: dict[str, Any], missing: str) -> BoolArray:
    """Return which rows have no missing value in any table.

    Parameters
    ----------
    tables : dict
        Arrays and pandas objects by name, of the same length.
    missing : {"drop", "raise"}
        Whether a missing value is an error, which says where it is.
    """
    complete, reasons = np.ones(len(tables["endog"]), dtype=bool), []
    for name, table in tables.items():
        gaps = pd.DataFrame(table).isna()
        columns = gaps.columns[gaps.any()]
        if len(columns):
            where = f" in column(s) {', '.join(map(str, columns[:10]))}" if table.ndim > 1 else ""
            reasons.append(f"{name} contains {int(gaps.to_numpy().sum())} NaN value(s){where}")
            complete &= ~gaps.any(axis=1).to_numpy()
    if reasons and missing == "raise":
        raise MissingValuesError(f'{"; ".join(reasons)}, and missing="raise"')
    return complete


def require_rows(n: int, n_given: int) -> None:
    """Raise a DataError when no row is left, and say what may have left out all that were given."""
    if n == 0 and n_given:
        raise DataError(
            f"there are no rows left to fit: each of the {n_given} given rows has a missing value. If "
            "the data have few, a function in the formula (bs, cr, center, standardize) may be missing "
            "everywhere as soon as one value is: drop the rows with missing values first"
        )
    if n == 0:
        raise DataError("there are no rows left to fit")


def check_design(name: str, exog: FloatArray, names: Sequence[Any] | None = None) -> None:
    """Raise a DataError when there are no columns, or one that names those with NaN or infinity."""
    if exog.shape[1] == 0 and name == "exog":
        raise DataError("exog has no columns: pass at least a column of ones for a constant")
    with np.errstate(all="ignore"):
        if np.isfinite(exog.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(exog).all(axis=0))
    if bad.size:
        columns = [str(j if names is None else names[j]) for j in bad[:10]]
        raise not_finite(name, exog, f"in column(s) {', '.join(columns)}")


def not_finite(name: str, array: FloatArray, where: str) -> DataError:
    """Return the error that counts the values that are no numbers, and says what to do with them."""
    counts = {"NaN": int(np.isnan(array).sum()), "infinite": int(np.isinf(array).sum())}
    gaps = " and ".join(f"{n} {kind} value(s)" for kind, n in counts.items() if n)
    drop = 'use missing="drop" for NaN, or ' if counts["NaN"] else ""
    return DataError(f"{name} contains {gaps}, {where}: {drop}remove these rows")


def default_names(k: int, constant: int | None) -> list[str]:
    """Return const and x1, x2, ... as statsmodels calls the columns of an array."""
    names = [f"x{j}" for j in range(1, k + (constant is None))]
    if constant is not None:
        names.insert(constant, "const")
    return names


_STANDARD_ERRORS = ("vcov", "vce", "se", "cov", "robust", "kernel", "bandwidth")
"""What other packages call the choice of standard errors in a fit."""


def _level(q: Any) -> str:
    """Return what to do with the level of a quantile."""
    number = isinstance(q, Real) and 0.0 < float(q) < 1.0
    here = f" (here tau={1.0 - float(q):g})" if number else ""
    return f"there is no q: give the model tau = 1 - q{here} and kappa=0"


def _meant(key: str, known: Sequence[str]) -> str:
    """Return the known keyword that is most like another, or all of them."""
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def reject_unknown(model: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise a TypeError that names an unknown keyword of a model, and the known one that is meant.

    Parameters
    ----------
    model : str
        Name of the model.
    given : dict
        Keywords, known and unknown.
    known : sequence of str
        The keywords of the model.
    """
    for key, value in given.items():
        if key == "q":
            raise TypeError(f"{model}: {_level(value)}")
        if key not in known and key not in FORMULA_KEYS:
            raise TypeError(f"{model} got an unknown keyword {key!r}; {_meant(key, known)}")


def reject_fit_keywords(
    fit: Callable[..., Any],
    given: Mapping[str, Any],
    model: Sequence[str],
    cov_options: Mapping[str, Sequence[str]],
) -> None:
    """Raise a TypeError that says where a keyword belongs which a fit does not have.

    Parameters
    ----------
    fit : callable
        The method; its signature has the keywords there are.
    given : dict
        The unknown keywords with their values.
    model : sequence of str
        The keywords of the model.
    cov_options : dict
        The options of each type of covariance.
    """
    for key, value in given.items():
        types = [name for name, options in cov_options.items() if key in options]
        if key == "q":
            raise TypeError(f"fit: {_level(value)}")
        if key in model:
            raise TypeError(f"fit has no {key!r}: give it to the model")
        if key in _STANDARD_ERRORS:
            raise TypeError(
                f"fit has no {key!r}: cov_type chooses the standard errors, one of "
                f"{', '.join(cov_options)}"
            )
        if types:
            shown = repr(value) if isinstance(value, (str, Real)) else "..."
            raise TypeError(
                f"fit has no {key!r}: an option of the covariance goes into cov_kwds, as in "
                f'fit(cov_type="{types[0]}", cov_kwds={{"{key}": {shown}}})'
            )
        named = inspect.Parameter.VAR_KEYWORD
        signature = inspect.signature(fit).parameters.values()
        known = [parameter.name for parameter in signature if parameter.kind is not named]
        raise TypeError(f"fit got an unknown keyword {key!r}; {_meant(key, known)}")


def reject_scalar_start(start_params: Any, size: int) -> None:
    """Raise a DataError when a text or a single number stands in the place of starting values.

    Parameters
    ----------
    start_params : object
        What was given.
    size : int
        Number of estimated parameters.
    """
    if isinstance(start_params, str) or np.ndim(start_params) == 0:
        level = f". A level of a quantile? {_level(start_params)}" if size > 1 else ""
        level = "" if isinstance(start_params, str) else level
        raise DataError(
            f"the first argument of fit is start_params, {size} number(s) to start from; got "
            f"{start_params!r}{level}"
        )
