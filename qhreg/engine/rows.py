"""Rows of data, handed out block by block, and products with them.

Sums over rows are asked for by :meth:`SummedRows.fold`, so that rows may live anywhere, in one part or
in many. The parts hand out their rows block by block, as often as asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from qhreg._blocks import row_blocks
from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

T = TypeVar("T")


class Block(NamedTuple):
    """Some rows of the data.

    Attributes
    ----------
    exog : ndarray, shape (m, k)
        Regressors; when `endog` is None the last column is the response.
    endog : ndarray, shape (m,) or None
        Response.
    weights : ndarray, shape (m,) or None
        Case weights; None means one each.
    """

    exog: FloatArray
    endog: FloatArray | None
    weights: FloatArray | None


class Taken(NamedTuple):
    """Some rows in float64, the offset taken off the response."""

    exog: FloatArray
    endog: FloatArray
    weights: FloatArray | None


class SummedRows(Protocol):
    """Rows of which sums can be asked for, wherever they are."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of regressors as given."""
        ...

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W: regressors plus the response."""
        ...

    @property
    def weight_sum(self) -> float:
        """Sum of the case weights (the number of rows without weights)."""
        ...

    @property
    def least_weight(self) -> float:
        """The least case weight (one without weights)."""
        ...

    def fold(
        self, function: Callable[..., T], combine: Callable[[Sequence[T]], T], *args: Any
    ) -> T:
        """Return a function of all rows, made where they are.

        Parameters
        ----------
        function : callable
            ``function(part, *args)`` of each part of the rows, itself RowBlocks.
        combine : callable
            From a list of such values to one of the same kind; associative. Where there are several
            parts every value passes through it, so that it may drop what only one part can use.
        *args
            Passed on.
        """
        ...


class RowBlocks(SummedRows, Protocol):
    """Rows held in memory, handed out block by block."""

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, each time in the same blocks."""
        ...


class GivenRows(SummedRows, Protocol):
    """The rows of a regression as a user gives them, regressors and response apart."""

    @property
    def endog_size(self) -> float:
        """The largest absolute value of the response and of the offset."""
        ...

    def take(self, chosen: npt.NDArray[np.intp] | slice) -> Taken:
        """Return some rows."""
        ...

    def scaled(self, scale: float) -> GivenRows:
        """Return the same rows with another unit of the response."""
        ...

    def transformed(self, matrix: FloatArray) -> GivenRows:
        """Return the same rows with each block [X, y] multiplied by a matrix."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """Rows held in arrays; blocks are views, nothing of the size of the data is copied.

    Attributes
    ----------
    exog : ndarray, shape (n, p)
        Regressors, float32 or float64, C- or F-ordered, possibly read-only.
    endog : ndarray, shape (n,) or None
        Response; None when it is the last column of `exog`.
    weights, offset : ndarray, shape (n,), or None
        Case weights; known part of the location.
    endog_scale : float
        The response enters as ``(endog - offset) / endog_scale``.
    transform : ndarray or None
        When given, shape (p + 1, r + 1): each block [X, y] is multiplied by it, and its last column
        becomes the response. Costs a product per pass; for columns too collinear for a Gram matrix.
    """

    exog: npt.NDArray[np.floating]
    endog: npt.NDArray[np.floating] | None
    weights: FloatArray | None = None
    offset: FloatArray | None = None
    endog_scale: float = 1.0
    transform: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.exog.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of regressors as given."""
        return int(self.exog.shape[1])

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        if self.transform is not None:
            return int(self.transform.shape[1])
        return int(self.exog.shape[1]) + (self.endog is not None)

    @cached_property
    def weight_sum(self) -> float:
        """Sum of the case weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @cached_property
    def least_weight(self) -> float:
        """The least case weight."""
        return 1.0 if self.weights is None else float(self.weights.min())

    @property
    def endog_size(self) -> float:
        """The largest absolute value of the response and of the offset."""
        size = 0.0
        for values in (self.endog, self.offset):
            if values is not None:  # no copy of absolute values
                low, high = values.min(initial=0.0), values.max(initial=0.0)
                size = max(size, float(high), -float(low))
        return size

    def take(self, chosen: npt.NDArray[np.intp] | slice) -> Taken:
        """Return some rows."""
        block = self.block(chosen)
        assert block.endog is not None
        return Taken(block.exog, block.endog, block.weights)

    def fold(
        self, function: Callable[..., T], combine: Callable[[Sequence[T]], T], *args: Any
    ) -> T:
        """Return the function of these rows, which are one part."""
        return function(self, *args)

    def scaled(self, scale: float) -> ArrayRows:
        """Return the same rows with another unit of the response."""
        return replace(self, endog_scale=scale)

    def transformed(self, matrix: FloatArray) -> ArrayRows:
        """Return the same rows with each block [X, y] multiplied by a matrix."""
        return replace(self, transform=matrix)

    def block(self, rows: npt.NDArray[np.intp] | slice) -> Block:
        """Return some rows in float64, response scaled and shifted."""
        exog = self.exog[rows].astype(np.float64, copy=False)
        weights = None if self.weights is None else self.weights[rows]
        endog = None
        if self.endog is not None:
            endog = np.asarray(self.endog[rows], dtype=np.float64)
            if self.offset is not None:
                endog = endog - self.offset[rows]
            if self.endog_scale != 1.0:
                endog = endog / self.endog_scale
        if self.transform is None:
            return Block(exog, endog, weights)
        design = exog @ self.transform[:-1]
        if endog is not None:
            design += endog[:, None] * self.transform[-1]
        return Block(design, None, weights)

    @cached_property
    def _slices(self) -> list[slice]:
        """The blocks of rows."""
        return row_blocks(*self.exog.shape)

    @cached_property
    def _whole(self) -> Block | None:
        """All rows, where W lies in one array that is not cut: passes over few rows are short."""
        whole = self.endog is None and self.transform is None and len(self._slices) == 1
        return self.block(slice(None)) if whole else None

    def blocks(self) -> Iterator[Block]:
        """Iterate over blocks that stay in cache."""
        if self._whole is not None:
            yield self._whole
            return
        for rows in self._slices:
            yield self.block(rows)


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


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return left @ right; `dot` has less overhead, but copies what does not lie in one piece."""
    one_piece = left.flags.forc and right.flags.forc
    product: FloatArray = left.dot(right) if one_piece else left @ right
    return product


def residuals(block: Block, z: FloatArray) -> FloatArray:
    """Return u = W z for one block; z may have several columns."""
    if block.endog is None:
        return _product(block.exog, z)
    u = _product(block.exog, z[:-1])
    u += z[-1] * (block.endog if z.ndim == 1 else block.endog[:, None])
    return u


def weighted_columns(block: Block, v: FloatArray) -> FloatArray:
    """Return W'v for one block."""
    if block.endog is None:
        return _product(v, block.exog)
    total = np.empty(block.exog.shape[1] + 1)
    total[:-1] = _product(v, block.exog)
    total[-1] = v.dot(block.endog)
    return total


def _gather(exog: FloatArray, rows: npt.NDArray[np.intp]) -> FloatArray:
    """Return the chosen rows by the faster route: take copies an F-ordered block as a whole first."""
    by_row = exog.strides[0] >= exog.strides[1]
    return exog.take(rows, axis=0, mode="clip") if by_row else exog[rows]


def weighted(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the values times their case weights."""
    return values if weights is None else values * weights


def weighted_sum(values: npt.NDArray[Any], weights: FloatArray | None) -> float:
    """Return the sum of values with case weights."""
    return float(values.sum() if weights is None else values @ weights)


def weighted_quantiles(
    values: FloatArray, levels: Sequence[float], weights: FloatArray | None
) -> list[float]:
    """Return the least value with a share of at least each level of the weight at or below it.

    Nothing is interpolated, so that a value given twice is one of weight two.

    Parameters
    ----------
    values : ndarray, shape (n,)
        The values.
    levels : sequence of float
        Between 0 and 1.
    weights : ndarray, shape (n,), or None
        Their weights, none negative.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.engine.rows import weighted_quantiles
    >>> values = np.array([3.0, 1.0, 2.0])
    >>> weighted_quantiles(values, [0.5], None), weighted_quantiles(values, [0.5], np.array([5.0, 1, 1]))
    ([2.0], [3.0])
    """
    last = values.size - 1
    if weights is None:
        places = np.clip(np.ceil(np.multiply(levels, values.size)).astype(int) - 1, 0, last)
        ordered = np.partition(values, np.unique(places))
        return [float(ordered[place]) for place in places]
    order = np.argsort(values)
    running = np.cumsum(weights[order])
    reached = running.searchsorted((np.asarray(levels) - ROUNDING) * running[-1])
    return [float(values[order[min(int(place), last)]]) for place in reached]


def chosen_rows(block: Block, rows: npt.NDArray[np.intp]) -> Block:
    """Return some rows of a block as a block of their own."""
    return Block(
        _gather(block.exog, rows),
        None if block.endog is None else block.endog[rows],
        None if block.weights is None else block.weights[rows],
    )


def gram(block: Block) -> FloatArray:
    """Return the sum of w W W' over a block that may be overwritten."""
    exog, endog = block.exog, block.endog
    if block.weights is not None:
        root = np.sqrt(block.weights)
        exog *= root[:, None]
        endog = None if endog is None else endog * root
    return products(exog, endog, exog, endog)


def products(
    left: FloatArray, left_end: FloatArray | None, exog: FloatArray, endog: FloatArray | None
) -> FloatArray:
    """Return the symmetric [left, left_end]' [exog, endog]."""
    if endog is None or left_end is None:
        return _product(left.T, exog)
    k = exog.shape[1]
    total = np.empty((k + 1, k + 1))
    total[:k, :k] = _product(left.T, exog)
    total[k, :k] = total[:k, k] = _product(endog, left)
    total[k, k] = endog.dot(left_end)
    return total
