"""Sandwiches for dependent rows: one- and two-way clusters, and time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from statsmodels.stats import sandwich_covariance as sandwich

from qhreg.exceptions import DataError, DomainError

__all__ = ["clustered", "group_codes", "lag_weights", "lags", "serial"]

FloatArray = npt.NDArray[np.float64]


def group_codes(groups: Any, n: int) -> list[npt.NDArray[np.intp]]:
    """Return one or two arrays of cluster numbers, or raise a DataError that says what is wrong."""
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
        code, labels = pd.factorize(column)
        if len(labels) < 2:
            raise DataError(f"{name} has only one cluster: its covariance is not estimable")
        codes.append(np.asarray(code, dtype=np.intp))
    return codes


def _cluster_meat_cov(
    scores: FloatArray,
    inverse: FloatArray,
    codes: npt.NDArray[np.intp],
    nobs: float,
    use_correction: bool,
) -> FloatArray:
    cov: FloatArray = sandwich.cov_cluster((scores, inverse), codes, use_correction=False)
    if use_correction:
        count = float(codes.max() + 1)
        cov *= count / (count - 1.0) * (nobs - 1.0) / (nobs - scores.shape[1])
    return cov


def clustered(
    scores: FloatArray,
    inverse: FloatArray,
    codes: list[npt.NDArray[np.intp]],
    nobs: float,
    use_correction: bool,
) -> tuple[FloatArray, bool]:
    """Return the one- or two-way clustered covariance, and whether it had to be made nonnegative."""
    parts = [_cluster_meat_cov(scores, inverse, code, nobs, use_correction) for code in codes]
    if len(codes) == 1:
        return parts[0], False
    pairs = np.unique(codes[0] * (codes[1].max() + 1) + codes[1], return_inverse=True)[1]
    cov = parts[0] + parts[1]
    cov = cov - _cluster_meat_cov(scores, inverse, pairs.ravel(), nobs, use_correction)
    values, vectors = np.linalg.eigh(cov)
    if values.min() >= -1e-12 * values.max():
        return cov, False
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, True


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
    if isinstance(maxlags, bool) or int(maxlags) != maxlags or not 0 <= maxlags < n:
        raise DomainError(f"maxlags must be a whole number from 0 to {n - 1}, got {maxlags!r}")
    return int(maxlags)


def serial(
    scores: FloatArray, inverse: FloatArray, count: int, kernel: Any, use_correction: bool
) -> FloatArray:
    """Return the covariance of a time series up to a lag, from its scores and the inverse bread."""
    cov: FloatArray = sandwich.cov_hac_simple(
        (scores, inverse),
        nlags=count,
        weights_func=lag_weights(kernel),
        use_correction=use_correction,
    )
    return cov
