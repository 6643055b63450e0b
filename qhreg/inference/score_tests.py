"""The score test of adding columns, without fitting the larger model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.information import check_free, expected_information
from qhreg.covariance.scores import Fitted, Point, score_obs
from qhreg.exceptions import DataError
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_sf

__all__ = ["score_test"]


def _independent(exog: FloatArray) -> FloatArray:
    """Return orthonormal columns with the span of exog, whatever the units of its columns."""
    size = np.abs(exog).max(axis=0, initial=0.0)
    left, values, _ = np.linalg.svd(exog / np.where(size > 0.0, size, 1.0), full_matrices=False)
    basis: FloatArray = left[:, values > 1e-10 * values.max(initial=0.0)]
    basis *= math.sqrt(exog.shape[0])
    return basis


def score_test(
    exog: Any,
    endog: Any,
    fit: Fitted,
    exog_extra: Any,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    robust: bool = False,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = None,
    use_correction: bool | None = None,
) -> HypothesisTest:
    r"""Return the score test of adding columns to the model, without fitting the larger one.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors of the fit.
    endog : array_like, shape (n,)
        Response.
    fit : Fitted
        The fit without the extra columns.
    exog_extra : array_like, shape (n,) or (n, r)
        The columns to add.
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" were estimated.
    freq_weights : array_like, shape (n,), or None
        How often each row was observed.
    weights, offset : array_like, shape (n,), or None
        Sampling weights, which need `robust`; known part of the location.
    robust : bool
        Whether the variance of the score comes from the scores themselves (White), with the smoothed
        bread, instead of the expected information.
    groups : array_like, shape (n,) or (n, 2), or None
        Clusters within which the scores of rows depend on each other; needs `robust`.
    maxlags : int or None
        Highest lag at which they do, in a time series; needs `robust`.
    kernel, use_correction
        As in :func:`qhreg.covariance.covariance`.

    Notes
    -----
    With the scores :math:`s_{2i}` of the extra coefficients at zero and :math:`s_{1i}` of the estimated
    parameters, :math:`S' V^{-1} S`, where S is the sum of :math:`s_{2i} - B_{21} B_{11}^{-1} s_{1i}` and
    B the expected information: V is then :math:`B_{22} - B_{21} B_{11}^{-1} B_{12}`. The robust form has
    the smoothed bread as B and sums the products of these scores for V. The :math:`s_{1i}` sum to zero
    at the fit, but at kappa = 0, where a row that the fit interpolates has no slope of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.inference.score_tests import score_test
    >>> from qhreg.solver import solve
    >>> x = np.linspace(-1.0, 1.0, 300)
    >>> y = x + np.sin(50.0 * x)
    >>> fit = solve(np.ones((300, 1)), y, search=False)
    >>> bool(score_test(np.ones((300, 1)), y, fit, x).pvalue < 1e-6)
    True
    """
    extra = np.asarray(exog_extra, dtype=np.float64)
    extra = extra[:, None] if extra.ndim == 1 else extra
    x = np.asarray(exog, dtype=np.float64)
    if extra.ndim != 2 or extra.shape[0] != x.shape[0]:
        raise DataError(f"exog_extra must have {x.shape[0]} rows, got shape {extra.shape}")
    if not np.isfinite(extra).all():
        raise DataError("exog_extra contains NaN or infinite values")
    names = check_free(free)
    w = row_weights(freq_weights, weights, x.shape[0])
    location = x @ np.asarray(fit.beta, dtype=np.float64)
    basis = _independent(x)
    both = np.column_stack([basis, extra])
    point = Point(np.zeros(both.shape[1]), fit.sigma, fit.tau, fit.kappa)
    options: dict[str, Any] = {
        "free": names,
        "weights": w.total,
        "offset": location if offset is None else location + np.asarray(offset),
    }
    scores = score_obs(both, endog, point, **options)
    tested = np.zeros(scores.shape[1], dtype=bool)
    tested[basis.shape[1] : both.shape[1]] = True
    info = expected_information(both, fit.sigma, fit.tau, fit.kappa, weights=w.total, free=names)
    bread = smoothed_bread(both, endog, point, nobs=w.nobs, **options) if robust else info
    cross = bread[np.ix_(~tested, tested)]
    known, _ = without_flat(bread[np.ix_(~tested, ~tested)], float(info[0, 0]), basis.shape[1])
    carry = _solved(known, cross)
    effective = scores[:, tested] - scores[:, ~tested] @ carry
    total = effective.sum(axis=0)
    if robust:
        cases = effective if w.freq is None else effective / _root(w.freq)
        variance = cases.T @ cases
        dependent = _dependent(effective, w, groups, maxlags, kernel, use_correction)
    else:
        dependent = None
        variance = np.asarray(bread[np.ix_(tested, tested)] - cross.T @ carry)
    size = np.sqrt((scores[:, tested] ** 2).sum(axis=0))
    shares = np.linalg.eigvalsh(variance / np.outer(size, size))
    if not shares.min() > 1e-9:
        raise DataError("exog_extra has columns that depend linearly on each other or on exog")
    if dependent is not None:
        variance = dependent
        size = np.sqrt(variance.diagonal())
        if (
            not (size > 0.0).all()
            or not np.linalg.eigvalsh(variance / np.outer(size, size))[0] > 1e-9
        ):
            raise DataError(
                f"{total.size} added columns have no variance within so few clusters or so many lags: "
                "test fewer at once"
            )
    statistic = float(total @ np.linalg.solve(variance, total))
    name = "robust score test" if robust else "score test"
    null = f"{total.size} added column{'s' if total.size > 1 else ''}"
    return HypothesisTest(name, null, statistic, total.size, chi2_sf(statistic, total.size))


def _solved(known: FloatArray, cross: FloatArray) -> FloatArray:
    """Return known^-1 cross, or of what is determined, as tau is not where every row is in the zone."""
    size = np.sqrt(np.maximum(np.abs(known.diagonal()), 1e-300))
    scaled, target = known / np.outer(size, size), cross / size[:, None]
    try:
        found = np.linalg.solve(scaled, target)
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(scaled, hermitian=True) @ target
    made: FloatArray = found / size[:, None]
    return made


def _dependent(
    effective: FloatArray,
    weights: RowWeights,
    groups: Any,
    maxlags: int | None,
    kernel: Any,
    use_correction: bool | None,
) -> FloatArray | None:
    """Return the variance of the sum of dependent scores, None where they are independent.

    The variance of one sum over two-way clusters is the largest of the two-way one and those of each
    way, as in :class:`qhreg.inference.robust_score.ScoreVariance`.
    """
    n, r = effective.shape
    if groups is not None:
        codes = group_codes(groups, n, weights.total)
        made = clustered(effective, np.eye(r), codes, weights.nobs, use_correction is not False)
        if r > 1:
            return made.cov
        return np.array([[max(each[0, 0] for each in (made.plain, *made.ways))]])
    if maxlags is not None:
        kernel = kernel or "bartlett"
        return serial(effective, np.eye(r), maxlags, kernel, bool(use_correction)).cov
    return None


def _root(freq: FloatArray) -> FloatArray:
    """Return square roots of frequencies as a column, one where there is no case."""
    root: FloatArray = np.sqrt(np.where(freq > 0.0, freq, 1.0))[:, None]
    return root
