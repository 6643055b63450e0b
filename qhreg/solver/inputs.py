"""The data as given: shapes, weights, missing and infinite values, units."""

from __future__ import annotations

from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, GivenRows
from qhreg.exceptions import DataError

__all__ = ["endog_scale", "require_finite", "rows_of"]


def _vector(name: str, values: Any, n: int) -> FloatArray | None:
    """Return a one-dimensional float array of length n, or raise a DataError."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"{name} must have shape ({n},), got {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise DataError(f"{name} contains {bad} NaN or infinite values; remove those rows first")
    return array


def rows_of(exog: Any, endog: Any, weights: Any, offset: Any) -> ArrayRows:
    """Return the data as rows, checked for shape and weights."""
    x, y = np.asarray(exog), np.asarray(endog)
    if x.ndim != 2:
        raise DataError(f"exog must be a matrix, got an array of shape {x.shape}")
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)
    if y.dtype not in (np.float32, np.float64):
        y = y.astype(np.float64)
    if y.shape != (x.shape[0],):
        raise DataError(f"endog must have shape ({x.shape[0]},) like exog's rows, got {y.shape}")
    w = _vector("weights", weights, y.size)
    if w is not None and bool((w < 0.0).any()):
        raise DataError(f"weights must not be negative, got {int((w < 0.0).sum())} below zero")
    if w is not None and not bool((w > 0.0).any()):
        raise DataError("all weights are zero: there is nothing to fit")
    rows = ArrayRows(x, y, w, _vector("offset", offset, y.size))
    if w is not None and bool((w == 0.0).any()):
        keep = w > 0.0
        kept_offset = None if rows.offset is None else rows.offset[keep]
        rows = ArrayRows(x[keep], y[keep], w[keep], kept_offset)
    return rows


def require_finite(rows: GivenRows) -> None:
    """Raise a DataError that counts the NaN and infinite values of each array held in memory."""
    if not isinstance(rows, ArrayRows):
        return
    for name, array in (("endog", rows.endog), ("exog", rows.exog)):
        assert array is not None
        finite = np.isfinite(array)
        if not finite.all():
            bad, where = ~finite, ""
            if array.ndim == 2:
                columns = np.flatnonzero(bad.any(axis=0))
                where = f" in column(s) {', '.join(map(str, columns[:10]))}"
            raise DataError(
                f"{name} contains {int(bad.sum())} NaN or infinite values{where}; "
                "remove those rows first"
            )


def endog_scale(rows: GivenRows) -> float:
    """Return a power of two near the size of the response when squares could leave the float range."""
    size = rows.endog_size
    if size == 0.0 or 1e-70 < size < 1e70:
        return 1.0
    return float(2.0 ** np.round(np.log2(size)))
