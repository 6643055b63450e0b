"""Sandwiches for dependent rows: one- and two-way clusters, and time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from statsmodels.stats import sandwich_covariance as sandwich

from qhreg._typing import FloatArray, IntArray
from qhreg.exceptions import DataError, DomainError

__all__ = ["Dependent", "clustered", "combined", "group_codes", "lag_weights", "lags", "serial"]


def group_codes(groups: Any, n: int, weights: FloatArray | None = None) -> list[IntArray]:
    """Return one or two arrays of cluster numbers, or raise a DataError that says what is wrong.

    Rows of weight zero make no cluster: they are counted to the first.
    """
    if groups is None:
        raise DomainError("cov_type='cluster' needs groups: one label per row, or two columns")
    if isinstance(groups, (list, tuple)) and len(groups) == 2 and np.ndim(groups[0]) == 1:
        columns = [np.asarray(group) for group in groups]
    else:
        array = np.asarray(groups)
        columns = [array] if array.ndim < 2 else list(array.T)
    if not 1 <= len(columns) <= 2:
        raise DataError(f"groups must be one or two columns of labels, got {len(columns)}")
    codes = []
    for number, column in enumerate(columns):
        name = "groups" if len(columns) == 1 else f"groups column {number}"
        if column.shape != (n,):
            raise DataError(f"{name} must have one label for each of {n} rows, got {column.shape}")
        missing = int(np.count_nonzero(pd.isna(column)))
        if missing:
            raise DataError(f"{name} contains {missing} missing labels; remove those rows first")
        code, labels = _factorized(column, weights)
        if len(labels) < 2:
            with_weight = "" if weights is None else " with weight"
            raise DataError(
                f"{name} has only one cluster{with_weight}: its covariance is not estimable"
            )
        codes.append(code)
    return codes


def _factorized(column: Any, weights: FloatArray | None) -> tuple[IntArray, Any]:
    """Return the cluster of each row and the labels of the clusters with weight."""
    if weights is None or weights.all():
        code, labels = pd.factorize(column)
        return np.asarray(code, dtype=np.intp), labels
    codes = np.zeros(len(column), dtype=np.intp)
    codes[weights > 0.0], labels = pd.factorize(column[weights > 0.0])
    return codes, labels


class Dependent(NamedTuple):
    """A covariance for rows that depend on each other.

    Attributes
    ----------
    cov : ndarray, shape (q, q)
        The covariance.
    plain : ndarray, shape (q, q)
        The same before its negative part was taken away; the very same where it has none.
    ways : tuple of ndarray
        The covariances for clusters in one way only; none for a time series.
    """

    cov: FloatArray
    plain: FloatArray
    ways: tuple[FloatArray, ...] = ()

    @property
    def repaired(self) -> bool:
        """Whether a negative part was taken away."""
        return self.cov is not self.plain

    def negative(self, jacobian: FloatArray) -> tuple[int, ...]:
        """Return which of some parameters have a negative variance, from their derivatives."""
        if not self.repaired:
            return ()
        return tuple(np.flatnonzero((jacobian @ self.plain * jacobian).sum(axis=1) < 0.0).tolist())


def clustered(
    scores: FloatArray,
    inverse: FloatArray,
    codes: list[IntArray],
    nobs: float,
    use_correction: bool,
    unseen: Callable[[IntArray], FloatArray | None] | None = None,
) -> Dependent:
    """Return the one- or two-way clustered covariance.

    Parameters
    ----------
    scores : ndarray, shape (n, q)
        Weighted scores of the rows.
    inverse : ndarray, shape (q, q)
        Inverse of the bread.
    codes : list of ndarray of int
        Clusters of the rows, from :func:`group_codes`.
    nobs : float
        Number of observations.
    use_correction : bool
        Whether to multiply by G / (G - 1) (n - 1) / (n - q).
    unseen : callable, optional
        The covariance that sums over given clusters do not show.
    """

    def one_way(code: IntArray) -> FloatArray:
        cov: FloatArray = sandwich.cov_cluster((scores, inverse), code, use_correction=False)
        more = None if unseen is None else unseen(code)
        if more is not None:
            cov = cov + more
        if use_correction:
            count = float(code.max() + 1)
            cov = cov * (count / (count - 1.0) * (nobs - 1.0) / (nobs - scores.shape[1]))
        return cov

    return combined(one_way, codes)


def combined(one_way: Callable[[IntArray], FloatArray], codes: list[IntArray]) -> Dependent:
    """Return the covariance of one or two ways from those of one."""
    if len(codes) == 1:
        cov = one_way(codes[0])
        return Dependent(cov, cov, (cov,))
    pairs = np.unique(codes[0] * (codes[1].max() + 1) + codes[1], return_inverse=True)[1]
    first, second, both = one_way(codes[0]), one_way(codes[1]), one_way(pairs.ravel())
    difference = first + second - both
    return Dependent(_nonnegative(difference, first + second + both), difference, (first, second))


def _nonnegative(matrix: FloatArray, bound: FloatArray) -> FloatArray:
    """Return a matrix without its negative part, the same if it has none.

    It is taken away in the coordinates in which the bound, which is no smaller than the matrix or its
    negative, is the identity: what remains is the same in all units of the parameters.
    """
    size = np.sqrt(bound.diagonal())
    size[~(size > 0.0)] = 1.0
    values, vectors = np.linalg.eigh(bound / np.outer(size, size))
    kept = values > 1e-12 * values[-1]
    root = np.sqrt(values[kept])
    inward = (vectors[:, kept] / root).T / size
    parts, axes = np.linalg.eigh(inward @ matrix @ inward.T)
    if parts.size == 0 or parts[0] >= -1e-9:
        return matrix
    outward = (size[:, None] * vectors[:, kept] * root) @ axes
    repaired: FloatArray = (outward * np.maximum(parts, 0.0)) @ outward.T
    return repaired


def lag_weights(kernel: Any) -> Callable[[int], FloatArray]:
    """Return the function that gives the weights of the lags."""
    if callable(kernel):
        return kernel  # type: ignore[no-any-return]
    known = sandwich.kernel_dict
    if kernel not in known:
        raise DomainError(f"kernel must be callable or one of {sorted(known)}, got {kernel!r}")
    return known[kernel]  # type: ignore[no-any-return]


def lags(maxlags: Any, n: int) -> int:
    """Return the highest lag: the given one, or floor(4 (n / 100)^(2/9))."""
    if maxlags is None:
        return int(4.0 * (n / 100.0) ** (2.0 / 9.0))
    number = isinstance(maxlags, (int, float, np.number)) and not isinstance(maxlags, bool)
    if not (number and 0 <= maxlags < n and int(maxlags) == maxlags):
        raise DomainError(f"maxlags must be a whole number from 0 to {n - 1}, got {maxlags!r}")
    return int(maxlags)


def serial(
    scores: FloatArray, inverse: FloatArray, count: int, kernel: Any, use_correction: bool
) -> Dependent:
    """Return the covariance of a time series up to a lag, from its scores and the inverse bread.

    Weights of the lags other than Bartlett's may give one with a negative part.
    """

    def up_to(last: int) -> FloatArray:
        cov: FloatArray = sandwich.cov_hac_simple(
            (scores, inverse),
            nlags=last,
            weights_func=lag_weights(kernel),
            use_correction=use_correction,
        )
        return cov

    cov = up_to(count)
    if kernel == "bartlett" or count == 0:
        return Dependent(cov, cov)
    # no product of scores some rows apart is larger than the mean of their squares
    bound = 1.0 + 2.0 * float(np.abs(lag_weights(kernel)(count)[1:]).sum())
    return Dependent(_nonnegative(cov, bound * up_to(0)), cov)
