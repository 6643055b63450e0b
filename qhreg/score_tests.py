"""The score test of adding columns, without fitting the larger model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.curvature import smoothed_bread
from qhreg.exceptions import DataError
from qhreg.hypothesis_tests import HypothesisTest, chi2_sf
from qhreg.information import check_free, expected_information
from qhreg.scores import Fitted, Point, score_obs

__all__ = ["score_test"]

FloatArray = npt.NDArray[np.float64]


def _schur(matrix: FloatArray, tested: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the information about the tested parameters when the others are estimated."""
    other = ~tested
    inner, cross = matrix[np.ix_(tested, tested)], matrix[np.ix_(other, tested)]
    taken: FloatArray = cross.T @ np.linalg.solve(matrix[np.ix_(other, other)], cross)
    return np.asarray(inner - taken)


def score_test(
    exog: Any,
    endog: Any,
    fit: Fitted,
    exog_extra: Any,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
    robust: bool = False,
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
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.
    robust : bool
        Whether the variance of the score comes from the scores themselves (White), with the smoothed
        bread, instead of the expected information.

    Notes
    -----
    With S the score of the extra coefficients at zero, :math:`S' V^{-1} S`, where V is the expected
    information about them less what the estimated parameters take. The robust form uses the scores
    :math:`s_{2i} - B_{21} B_{11}^{-1} s_{1i}`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.score_tests import score_test
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
    both = np.column_stack([x, extra])
    point = Point(
        np.append(np.asarray(fit.beta), np.zeros(extra.shape[1])), fit.sigma, fit.tau, fit.kappa
    )
    options = {"free": names, "weights": weights, "offset": offset}
    scores = score_obs(both, endog, point, **options)
    tested = np.zeros(scores.shape[1], dtype=bool)
    tested[x.shape[1] : both.shape[1]] = True
    if robust:
        bread = smoothed_bread(both, endog, point, **options)
        carry = np.linalg.solve(bread[np.ix_(~tested, ~tested)], bread[np.ix_(~tested, tested)])
        effective = scores[:, tested] - scores[:, ~tested] @ carry
        cases = effective if weights is None else effective / _root_weights(weights)
        total, variance = effective.sum(axis=0), cases.T @ cases
    else:
        total = scores[:, tested].sum(axis=0)
        info = expected_information(
            both, fit.sigma, fit.tau, fit.kappa, weights=weights, free=names
        )
        variance = _schur(info, tested)
    size = np.sqrt((scores[:, tested] ** 2).sum(axis=0))
    shares = np.linalg.eigvalsh(variance / np.outer(size, size))
    if not shares.min() > 1e-9:
        raise DataError("exog_extra has columns that depend linearly on each other or on exog")
    statistic = float(total @ np.linalg.solve(variance, total))
    name = "robust score test" if robust else "score test"
    null = f"{total.size} added column{'s' if total.size > 1 else ''}"
    return HypothesisTest(name, null, statistic, total.size, chi2_sf(statistic, total.size))


def _root_weights(weights: Any) -> FloatArray:
    """Return square roots of case weights as a column, one where the weight is zero."""
    w = np.asarray(weights, dtype=np.float64)[:, None]
    return np.sqrt(np.where(w > 0.0, w, 1.0))
