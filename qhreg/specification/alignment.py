"""Weights, offsets and groups matched to the rows of a model: by name, by label or by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg._typing import FloatArray, IntArray
from qhreg.exceptions import DataError

__all__ = ["RowSource", "group_codes", "numeric_vector", "to_pandas", "unmasked"]


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
