r"""The one sandwich: scores, inverse bread and a correction make a covariance.

.. math:: V = f\,H^{-1}\Big(\sum_i n_i\,d_i^2\,s_i s_i'\Big)H^{-1}

with s the score of one observation of row i, n its frequency weight, and

===========  ============================  ===================================================
correction   d_i                           f
===========  ============================  ===================================================
HC0          1                             1
HC1          1                             n / (n - p)
HC2          (1 - h_i)^(-1/2)              1
HC3          (1 - h_i)^(-1)                1
===========  ============================  ===================================================

(White 1980; MacKinnon & White 1985). With groups the scores are summed within clusters first, with
f = G / (G - 1) (n - 1) / (n - p) (Liang & Zeger 1986; Cameron, Gelbach & Miller 2011 for two ways), and
with lags products of scores some rows apart are added, weighted (Newey & West 1987). p is the rank of
the regressors, as in least squares, which all of these equal in the normal limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats import sandwich_covariance as statsmodels_sandwich

from qhreg._precision import VANISHING
from qhreg._typing import FloatArray, IntArray
from qhreg.exceptions import DataError, DomainError

CORRECTIONS = ("HC0", "HC1", "HC2", "HC3")
"""What allows for few rows."""


def score_factors(correction: str, leverage: FloatArray | None) -> FloatArray | None:
    """Return what multiplies the score of each row, None for one; one where the leverage is one.

    Parameters
    ----------
    correction : {"HC0", "HC1", "HC2", "HC3"}
        The correction.
    leverage : ndarray or None
        Leverage of one observation of each row; needed by HC2 and HC3.
    """
    if correction not in CORRECTIONS:
        raise DomainError(f"correction must be one of {', '.join(CORRECTIONS)}, got {correction!r}")
    if correction in ("HC0", "HC1"):
        return None
    if leverage is None:
        raise DomainError(f"{correction} needs the leverage of the rows")
    left = 1.0 - leverage
    left = np.where(left > VANISHING, left, 1.0)
    return np.asarray(1.0 / (np.sqrt(left) if correction == "HC2" else left))


def sandwich(
    scores: FloatArray,
    bread_inverse: FloatArray | None,
    *,
    correction: str = "HC0",
    leverage: FloatArray | None = None,
    nobs: float | None = None,
    df_resid: float | None = None,
    freq: FloatArray | None = None,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = "bartlett",
    use_correction: bool | None = None,
) -> FloatArray:
    r"""Return the sandwich covariance of the parameters that the scores belong to.

    Parameters
    ----------
    scores : ndarray, shape (n, q)
        Score of one observation of each row; sampling weights multiply it already.
    bread_inverse : ndarray, shape (q, q), or None
        Inverse Hessian of the criterion; None where the scores are influences, multiplied by it already.
    correction : {"HC0", "HC1", "HC2", "HC3"}
        For independent rows; not used with groups or lags.
    leverage : ndarray, shape (n,) or (n, q)
        Leverage of one observation of each row, for HC2 and HC3.
    nobs, df_resid : float
        n and n - p; by default the number of rows, and that minus the columns of the scores.
    freq : ndarray, shape (n,), or None
        Frequency weights.
    groups : list of ndarray of int
        Clusters of the rows in one or two ways, from :func:`group_codes`.
    maxlags : int or None
        Highest lag of a time series.
    kernel : {"bartlett", "uniform"} or callable
        Weights of the lags.
    use_correction : bool or None
        Whether clusters (yes by default) and lags (no by default) have their factor, n / (n - p) for
        lags: as in statsmodels' least squares.

    References
    ----------
    .. [1] H. White (1980), A heteroskedasticity-consistent covariance matrix estimator and a direct test
       for heteroskedasticity, Econometrica 48, 817-838.
    .. [2] J. G. MacKinnon and H. White (1985), Some heteroskedasticity-consistent covariance matrix
       estimators with improved finite sample properties, Journal of Econometrics 29, 305-325.
    .. [3] A. C. Cameron, J. B. Gelbach and D. L. Miller (2011), Robust inference with multiway
       clustering, Journal of Business & Economic Statistics 29, 238-249.
    .. [4] W. K. Newey and K. D. West (1987), A simple, positive semi-definite, heteroskedasticity and
       autocorrelation consistent covariance matrix, Econometrica 55, 703-708.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.sandwich import sandwich
    >>> scores = np.array([[-1.0], [2.0], [-1.0]])
    >>> sandwich(scores, np.array([[1 / 3]])).round(4)
    array([[0.6667]])
    >>> sandwich(scores, np.array([[1 / 3]]), correction="HC3", leverage=np.full(3, 1 / 3)).round(4)
    array([[1.5]])
    """
    n = float(scores.shape[0] if freq is None else freq.sum()) if nobs is None else nobs
    left = n - scores.shape[1] if df_resid is None else df_resid
    if groups is not None:
        meat = _clustered(scores, freq, groups, n, left, use_correction is not False)
    elif maxlags is not None:
        meat = _serial(scores, maxlags, kernel) * (n / left if use_correction else 1.0)
    else:
        factors = score_factors(correction, leverage)
        if factors is not None:
            scores = scores * (factors[:, None] if factors.ndim == 1 else factors)
        counted = scores if freq is None else scores * freq[:, None]
        meat = scores.T @ counted * (n / left if correction == "HC1" else 1.0)
    return meat if bread_inverse is None else bread_inverse @ meat @ bread_inverse


def _clustered(
    scores: FloatArray,
    freq: FloatArray | None,
    groups: list[IntArray],
    nobs: float,
    df_resid: float,
    use_correction: bool,
) -> FloatArray:
    """Return the meat of clusters in one or two ways."""
    counted = scores if freq is None else scores * freq[:, None]

    def one_way(codes: IntArray) -> FloatArray:
        count = float(codes.max() + 1)
        meat = np.asarray(statsmodels_sandwich.S_crosssection(counted, codes))
        factor = count / (count - 1.0) * (nobs - 1.0) / df_resid if use_correction else 1.0
        return meat * factor

    if len(groups) == 1:
        return one_way(groups[0])
    pairs = np.unique(groups[0] * (groups[1].max() + 1) + groups[1], return_inverse=True)[1]
    first, second, both = one_way(groups[0]), one_way(groups[1]), one_way(pairs.ravel())
    return _nonnegative(first + second - both, first + second)


def _nonnegative(matrix: FloatArray, unit: FloatArray) -> FloatArray:
    """Return a matrix without its negative part (Cameron, Gelbach & Miller 2011, section 2.3).

    The eigenvalues are those in the coordinates in which `unit` is the identity: what remains is the
    same in all units of the parameters.
    """
    size = np.sqrt(unit.diagonal())
    size[~(size > 0.0)] = 1.0
    values, vectors = np.linalg.eigh(unit / np.outer(size, size))
    kept = values > 1e-12 * values.max(initial=0.0)
    root = np.sqrt(values[kept])
    inward = (vectors[:, kept] / root).T / size
    parts, axes = np.linalg.eigh(inward @ matrix @ inward.T)
    if not (parts < -1e-9).any():
        return matrix
    outward = (size[:, None] * vectors[:, kept] * root) @ axes
    return np.asarray((outward * np.maximum(parts, 0.0)) @ outward.T)


def _serial(scores: FloatArray, maxlags: int, kernel: Any) -> FloatArray:
    """Return the meat of a time series."""
    meat = np.asarray(
        statsmodels_sandwich.S_hac_simple(
            scores, nlags=maxlags, weights_func=lag_weights(kernel or "bartlett")
        )
    )
    if kernel in (None, "bartlett") or maxlags == 0:
        return meat
    return _nonnegative(meat, scores.T @ scores)


def group_codes(groups: Any, n: int, weights: FloatArray | None = None) -> list[IntArray]:
    """Return one or two arrays of cluster numbers, or raise a DataError where there is one cluster.

    Parameters
    ----------
    groups : array_like, shape (n,) or (n, 2), or two arrays of shape (n,)
        Labels of the clusters.
    n : int
        Number of rows.
    weights : ndarray, shape (n,), or None
        Weights of the rows. Those of weight zero make no cluster: they are counted to the first.
    """
    columns = list(groups) if isinstance(groups, (list, tuple)) else [*np.asarray(groups).T]
    columns = [np.asarray(groups)] if np.ndim(columns[0]) == 0 else columns
    weighted = np.ones(n, dtype=bool) if weights is None else weights > 0.0
    codes = []
    for number, column in enumerate(columns):
        code = np.zeros(n, dtype=np.intp)
        code[weighted], labels = pd.factorize(np.asarray(column)[weighted])
        if len(labels) < 2:
            name = "groups" if len(columns) == 1 else f"groups column {number}"
            with_weight = "" if weights is None else " with weight"
            raise DataError(
                f"{name} has only one cluster{with_weight}: its covariance is not estimable"
            )
        codes.append(code)
    return codes


def lag_weights(kernel: Any) -> Callable[[int], FloatArray]:
    """Return the function that gives the weights of the lags."""
    if callable(kernel):
        return kernel  # type: ignore[no-any-return]
    known = statsmodels_sandwich.kernel_dict
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
