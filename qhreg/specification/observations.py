"""The data of one regression: arrays, weights, offset, and what follows from them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from qhreg._blocks import row_blocks
from qhreg._typing import BoolArray, FloatArray, IntArray
from qhreg.solver.over_kappa import gaussian_loglike

T = TypeVar("T")
_Self = TypeVar("_Self", bound="Observations")


@dataclass(frozen=True)
class Observations:
    """Rows of one regression; nothing is copied.

    Attributes
    ----------
    exog : ndarray, shape (n, k)
        Regressors.
    endog : ndarray, shape (n,)
        Response.
    offset : ndarray, shape (n,), or None
        Known part of the location.
    freq_weights : ndarray, shape (n,), or None
        How often each row was observed.
    weights : ndarray, shape (n,), or None
        Sampling weights: what each row counts for in the likelihood; see `scaled`.
    """

    exog: FloatArray
    endog: FloatArray
    offset: FloatArray | None = None
    freq_weights: FloatArray | None = None
    weights: FloatArray | None = None

    @property
    def case_weights(self) -> FloatArray | None:
        """What each row counts for in the likelihood: the product of both kinds of weights."""
        if self.freq_weights is None or self.weights is None:
            return self.weights if self.freq_weights is None else self.freq_weights
        return self.freq_weights * self.weights

    @property
    def scaled(self) -> Observations:
        """The same rows with sampling weights of which all together count as many as `nobs`."""
        if self.weights is None:
            return self
        return replace(self, weights=self.weights * (self.nobs / self.weight_sum))

    @property
    def nobs(self) -> float:
        """Number of observations: rows, or the sum of their frequency weights.

        Rows without sampling weight do not count.
        """
        freq, prob = self.freq_weights, self.weights
        if freq is None:
            return float(self.endog.shape[0] if prob is None else np.count_nonzero(prob))
        return float(freq.sum() if prob is None else freq[prob > 0.0].sum())

    @property
    def weight_sum(self) -> float:
        """Sum of the case weights."""
        weights = self.case_weights
        return float(self.endog.shape[0] if weights is None else weights.sum())

    @property
    def rows_counted(self) -> int:
        """Rows with positive weight."""
        weights = self.case_weights
        return self.endog.shape[0] if weights is None else int(np.count_nonzero(weights))

    def restriction(
        self: _Self, basis: FloatArray, direction: FloatArray
    ) -> Callable[[float], _Self]:
        """Return the regression for delta in beta = basis delta + t direction, given t."""
        exog, moved = self.exog @ basis, self.exog @ direction
        offset = 0.0 if self.offset is None else self.offset
        return lambda t: replace(self, exog=exog, offset=offset + t * moved)

    @property
    def rank(self) -> int:
        """Rank of the regressors."""
        return int(np.linalg.matrix_rank(self.exog))

    @property
    def constant(self: _Self) -> _Self:
        """The regression on a constant."""
        return replace(self, exog=np.ones((self.endog.size, 1)))

    def take(self, rows: IntArray | BoolArray | slice, *, apart: bool = False) -> Observations:
        """Return some rows, by number or mask; `apart` leaves frequency weights out."""
        extras = (self.offset, None if apart else self.freq_weights, self.weights)
        part = (None if extra is None else extra[rows] for extra in extras)
        return Observations(self.exog[rows], self.endog[rows], *part)

    def blocks(self) -> Iterator[Observations]:
        """Iterate over blocks of rows that fit in cache; views, nothing is copied."""
        return (self.take(rows) for rows in row_blocks(*self.exog.shape))

    def reduce(self, function: Callable[..., T], combine: Callable[[list[T]], T], *args: Any) -> T:
        """Return ``function(self, *args)``: these rows are one part, with nothing to combine."""
        return function(self, *args)

    def location(self, beta: FloatArray) -> FloatArray:
        """Return x'beta plus the offset."""
        fitted: FloatArray = self.exog @ beta
        return fitted if self.offset is None else fitted + self.offset

    def residuals(self, beta: FloatArray) -> FloatArray:
        """Return the response minus the location."""
        location = self.location(beta)
        return np.subtract(self.endog, location, out=location)

    def gaussian_loglike(self, **options: Any) -> float:
        """Return the maximum of the normal log-likelihood; options of that of the solver."""
        options |= {"weights": self.case_weights, "offset": self.offset}
        return gaussian_loglike(self.exog, self.endog, **options)


def summed(values: list[FloatArray]) -> FloatArray:
    """Return the sum of what `Observations.reduce` has of several parts."""
    return np.asarray(np.sum(values, axis=0))


def find_constant(exog: FloatArray) -> tuple[int, int | None]:
    """Return (1, column) of a constant column, (1, None) of an implicit constant, or (0, None).

    The implicit constant is a combination of columns, such as all levels of a factor. Rows are
    looked at until the answer is certain: a constant column is ruled out by two values, an
    implicit constant by few rows on which no combination is 1.
    """
    n, k = exog.shape
    if n == 0 or k == 0:
        return 0, None
    few = exog[: 4 * k + 8]
    same = np.flatnonzero((few == few[0]).all(axis=0) & (few[0] != 0.0))
    constants = [int(j) for j in same if (exog[:, j] == few[0, j]).all()]
    if constants:
        return 1, next((j for j in constants if few[0, j] == 1.0), constants[0])
    return int(_spans_ones(few) and _spans_ones(exog)), None


def most_common(endog: FloatArray) -> tuple[float, float]:
    """Return the most common response and its share of the rows."""
    values, counts = np.unique(endog, return_counts=True)
    place = int(np.argmax(counts))
    return float(values[place]), float(counts[place]) / endog.size


def _spans_ones(exog: FloatArray) -> bool:
    """Return whether some combination of the columns is 1 in every row.

    The last diagonal element of a triangular factor of [X, 1] is the distance of 1 from the columns
    of X. Columns are scaled first: a rank must not depend on units.
    """
    n, k = exog.shape
    size = np.abs(exog).max(axis=0)
    factor = np.empty((0, k + 1))
    for rows in row_blocks(n, k):
        block = exog[rows] / np.where(size > 0.0, size, 1.0)
        ones = np.ones((block.shape[0], 1))
        stacked = np.vstack([factor, np.hstack([block, ones])])
        factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    return factor.shape[0] <= k or spans_ones(factor, n)


def spans_ones(factor: FloatArray, n: int) -> bool:
    """Return whether some combination of the columns of X is 1 in each of n rows.

    Parameters
    ----------
    factor : ndarray, shape (k + 1, k + 1)
        Triangular factor of [X, 1].
    n : int
        Number of rows.
    """
    size = np.linalg.norm(factor[:, :-1], axis=0)
    exog, ones = factor[:, :-1] / np.where(size > 0.0, size, 1.0), factor[:, -1]
    distance = np.linalg.norm(ones - exog @ np.linalg.lstsq(exog, ones, rcond=1e-12)[0])
    return bool(distance <= 1e-9 * np.sqrt(n))
