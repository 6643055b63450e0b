r"""Tests of hypotheses about a fit: symmetry, added columns, nested models; the likelihood-ratio cut.

With few observations on the light side of the fit the likelihood-ratio statistic is larger than its
limit law says: the maximum may jump to the one-sided law at a bound of tau, and it interpolates some
of the few rows there. :func:`lr_inflation` is the factor by which its quantiles grow, found by
simulation; every test and interval here divides the statistic by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from qhreg.covariance import covariance
from qhreg.curvature import smoothed_bread
from qhreg.exceptions import DataError, DomainError
from qhreg.information import check_free, expected_information
from qhreg.scores import Fitted, Point, score_obs
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve

__all__ = [
    "HypothesisTest",
    "SymmetryTest",
    "lr_cut",
    "lr_inflation",
    "lr_test",
    "score_test",
    "symmetry_test",
]

FloatArray = npt.NDArray[np.float64]


def _chi2_sf(statistic: float, df: float) -> float:
    return float(special.chdtrc(df, max(statistic, 0.0)))


@dataclass(frozen=True, repr=False)
class HypothesisTest:
    """The outcome of one test.

    Attributes
    ----------
    name : str
        What was tested and how.
    null : str
        The hypothesis.
    statistic : float
        Chi-square distributed in large samples when the hypothesis holds.
    df : int
        Degrees of freedom.
    pvalue : float
        Probability of a larger statistic under the hypothesis.
    inflation : float
        Factor by which `statistic` was divided before it was compared with the chi-square law.
    """

    name: str
    null: str
    statistic: float
    df: int
    pvalue: float
    inflation: float = 1.0

    def __repr__(self) -> str:
        scaled = f", scaled by 1/{self.inflation:.3f}" if self.inflation != 1.0 else ""
        return (
            f"{self.name} of {self.null}: chi2({self.df}) = {self.statistic:.4g}{scaled}, "
            f"p = {self.pvalue:.4g}"
        )


@dataclass(frozen=True, repr=False)
class SymmetryTest:
    """Likelihood-ratio, score and Wald test of tau = 1/2.

    Attributes
    ----------
    lr, score, wald : HypothesisTest
        The three tests.
    tau : float
        The estimate.
    restricted : Solution
        The fit at tau = 1/2.
    """

    lr: HypothesisTest
    score: HypothesisTest
    wald: HypothesisTest
    tau: float
    restricted: Solution

    @property
    def statistic(self) -> float:
        """The likelihood-ratio statistic."""
        return self.lr.statistic

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        return self.lr.df

    @property
    def pvalue(self) -> float:
        """The p-value of the likelihood-ratio test."""
        return self.lr.pvalue

    def __repr__(self) -> str:
        lines = [f"Symmetry of the noise: tau = 1/2 against tau = {self.tau:.4f}"]
        lines += [f"  {test!r}" for test in (self.lr, self.score, self.wald)]
        return "\n".join(lines)


def lr_inflation(
    nobs: float, k: int, tau: float, *, kappa: float = 0.0, tau_estimated: bool = True
) -> float:
    r"""Return the factor by which the quantiles of the likelihood-ratio statistic exceed chi-square's.

    Parameters
    ----------
    nobs : float
        Number of observations.
    k : int
        Number of estimated parameters: coefficients, sigma, tau and kappa where estimated.
    tau : float
        Asymmetry at the unrestricted fit.
    kappa : float
        Huber width; the default is the widest interval.
    tau_estimated : bool
        Whether tau is one of the estimated parameters.

    Notes
    -----
    With :math:`m = n\min(\tau, 1-\tau)`, about the number of observations on the light side,

    .. math::

        1 + \frac{0.4\,k}{\max(m, k)} + \frac{1}{(1 + 4\kappa)\sqrt n}
          + \frac{(k - 2)/2}{1 + \big(m / (2.5\,k)\big)^4} .

    The second term is a Bartlett correction. The third is for the corner of the loss at small kappa,
    where the statistic approaches its limit law at the rate of the square root of n only. The fourth,
    left out when tau is fixed, is the chance that the maximum jumps to a bound of tau: it matters below
    m = 5 k, and the statistic then grows with the number of columns.

    The constants were fitted to simulated statistics for a slope, the intercept, sigma and tau at
    n = 50 to 500, kappa = 0 to 4, tau = 0.1 and 0.3, with two and five columns. The coverage study in
    the documentation shows what the intervals then cover.

    Examples
    --------
    >>> from qhreg.hypothesis_tests import lr_inflation
    >>> round(lr_inflation(100, 4, 0.3), 3), round(lr_inflation(10_000, 4, 0.3), 3)
    (1.166, 1.011)
    """
    if not nobs > 0 or not k > 0:
        raise DomainError(f"nobs and k must be positive, got {nobs!r} and {k!r}")
    m = nobs * min(tau, 1.0 - tau)
    inflation = 1.0 + 0.4 * k / max(m, k) + 1.0 / ((1.0 + 4.0 * kappa) * math.sqrt(nobs))
    if tau_estimated:
        inflation += 0.5 * max(k - 2, 0) / (1.0 + (m / (2.5 * k)) ** 4)
    return float(inflation)


def lr_cut(
    alpha: float,
    nobs: float,
    k: int,
    tau: float,
    *,
    kappa: float = 0.0,
    df: int = 1,
    tau_estimated: bool = True,
) -> float:
    """Return the value of twice the log-likelihood difference above which a hypothesis is rejected.

    A profile-likelihood interval at level 1 - alpha holds the values at which the statistic is at most
    this.

    Parameters
    ----------
    alpha : float
        Level of the test, 0 < alpha < 1.
    nobs, k, tau, kappa, tau_estimated
        As in :func:`lr_inflation`.
    df : int
        Number of restrictions.

    Notes
    -----
    The chi-square quantile times :func:`lr_inflation`. The plain quantile covers 80 to 94 % instead of
    95 % at n = 100.

    Examples
    --------
    >>> from qhreg.hypothesis_tests import lr_cut
    >>> round(lr_cut(0.05, 100, 4, 0.3), 3), round(lr_cut(0.05, 1e9, 4, 0.3), 3)
    (4.477, 3.842)
    """
    if not 0.0 < alpha < 1.0:
        raise DomainError(f"alpha must satisfy 0 < alpha < 1, got {alpha!r}")
    plain = float(special.chdtri(df, alpha))
    return plain * lr_inflation(nobs, k, tau, kappa=kappa, tau_estimated=tau_estimated)


def lr_test(
    full: float,
    restricted: float,
    df: int,
    *,
    nobs: float,
    k: int,
    tau: float,
    kappa: float = 0.0,
    tau_estimated: bool = True,
    null: str = "the restricted model",
    correction: bool = True,
) -> HypothesisTest:
    """Return the likelihood-ratio test of a restricted model against the one that contains it.

    Parameters
    ----------
    full, restricted : float
        The two log-likelihoods.
    df : int
        Number of restrictions.
    nobs, k, tau, kappa, tau_estimated
        As in :func:`lr_inflation`, of the full model.
    null : str
        Name of the hypothesis.
    correction : bool
        Whether to divide the statistic by :func:`lr_inflation` for the p-value.

    Examples
    --------
    >>> from qhreg.hypothesis_tests import lr_test
    >>> lr_test(-100.0, -103.0, 1, nobs=200, k=4, tau=0.4)
    likelihood-ratio test of the restricted model: chi2(1) = 6, scaled by 1/1.091, p = 0.01902
    """
    if int(df) != df or df < 1:
        raise DomainError(f"df must be a positive whole number, got {df!r}")
    statistic = 2.0 * (full - restricted)
    if statistic < -1e-6 * max(1.0, abs(full)):
        raise DataError(
            f"the restricted log-likelihood {restricted!r} exceeds the full one {full!r}: the models "
            "are not nested, or the full fit is not the global maximum"
        )
    inflation = 1.0
    if correction:
        inflation = lr_inflation(nobs, k, tau, kappa=kappa, tau_estimated=tau_estimated)
    statistic = max(statistic, 0.0)
    return HypothesisTest(
        "likelihood-ratio test",
        null,
        statistic,
        int(df),
        _chi2_sf(statistic / inflation, df),
        inflation,
    )


def _schur(matrix: FloatArray, tested: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the information about the tested parameters when the others are estimated."""
    other = ~tested
    inner, cross = matrix[np.ix_(tested, tested)], matrix[np.ix_(other, tested)]
    taken: FloatArray = cross.T @ np.linalg.solve(matrix[np.ix_(other, other)], cross)
    return np.asarray(inner - taken)


def symmetry_test(
    exog: Any,
    endog: Any,
    fit: Solution,
    *,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    tau_variance: float | None = None,
) -> SymmetryTest:
    r"""Return the likelihood-ratio, score and Wald test of tau = 1/2.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    fit : Solution
        The fit with tau estimated.
    sigma : float or None
        The scale if it was fixed.
    tau_bounds : (float, float)
        Bounds of tau in `fit`; not used by the fit at 1/2.
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.
    tau_variance : float or None
        Variance of tau for the Wald test; by default from the expected information at `fit`.

    Returns
    -------
    SymmetryTest
        Three statistics with one degree of freedom.

    Notes
    -----
    Let :math:`\tilde\cdot` denote the fit at tau = 1/2. The score is :math:`U = \sum_i w_i
    e(\tilde u_i)`, because (log c)' is zero there, and its variance the expected information about
    tau less what the other parameters take. The Wald statistic is
    :math:`\operatorname{logit}(\hat\tau)^2 / \operatorname{var}(\operatorname{logit}\hat\tau)`. The
    likelihood-ratio statistic is divided by :func:`lr_inflation`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.hypothesis_tests import symmetry_test
    >>> from qhreg.solver import solve
    >>> from qhreg.distribution import quantile_huber
    >>> y = quantile_huber.ppf((np.arange(300) + 0.5) / 300, 0.3, 1.0)
    >>> test = symmetry_test(np.ones((300, 1)), y, solve(np.ones((300, 1)), y))
    >>> bool(test.pvalue < 1e-6)
    True
    """
    if sigma is not None and not math.isclose(sigma, fit.sigma, rel_tol=1e-12):
        raise DataError(f"sigma was fixed at {sigma!r} but the fit has {fit.sigma!r}")
    free = ("beta", "tau") if sigma is not None else ("beta", "sigma", "tau")
    restricted = solve(
        exog,
        endog,
        kappa=fit.kappa,
        tau=0.5,
        sigma=sigma,
        tau_bounds=tau_bounds,
        weights=weights,
        offset=offset,
        start=fit,
    )
    null = "tau = 1/2"
    k = fit.rank + len(free) - 1
    lr = lr_test(
        fit.loglike,
        restricted.loglike,
        1,
        nobs=fit.n,
        k=k,
        tau=fit.tau,
        kappa=fit.kappa,
        null=null,
    )
    scores = score_obs(exog, endog, restricted, free=("tau",), weights=weights, offset=offset)
    variance = _tau_information(exog, restricted, weights, free)
    square = float(scores.sum()) ** 2 / variance
    score = HypothesisTest("score test", null, square, 1, _chi2_sf(square, 1))
    return SymmetryTest(
        lr,
        score,
        _wald_symmetry(exog, endog, fit, free, weights, offset, tau_variance),
        fit.tau,
        restricted,
    )


def _tau_information(exog: Any, fit: Fitted, weights: Any, free: tuple[str, ...]) -> float:
    """Return the inverse variance of tau according to the expected information."""
    estimate = covariance(
        "nonrobust", exog, np.zeros(np.shape(exog)[0]), fit, free=free, freq_weights=weights
    )
    return 1.0 / float(estimate.cov[-1, -1])


def _wald_symmetry(
    exog: Any,
    endog: Any,
    fit: Solution,
    free: tuple[str, ...],
    weights: Any,
    offset: Any,
    variance: float | None,
) -> HypothesisTest:
    null = "tau = 1/2"
    if fit.tau_at_bound:  # a bound has no standard error
        return HypothesisTest("Wald test", null, math.nan, 1, math.nan)
    if variance is None:
        variance = float(
            covariance(
                "nonrobust", exog, endog, fit, free=free, freq_weights=weights, offset=offset
            ).cov[-1, -1]
        )
    # var(logit tau) = var(tau) / (tau (1 - tau))^2
    spread = variance / (fit.tau * (1.0 - fit.tau)) ** 2
    statistic = math.log(fit.tau / (1.0 - fit.tau)) ** 2 / spread
    return HypothesisTest("Wald test", null, statistic, 1, _chi2_sf(statistic, 1))


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
    >>> from qhreg.hypothesis_tests import score_test
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
    return HypothesisTest(name, null, statistic, total.size, _chi2_sf(statistic, total.size))


def _root_weights(weights: Any) -> FloatArray:
    """Return square roots of case weights as a column, one where the weight is zero."""
    w = np.asarray(weights, dtype=np.float64)[:, None]
    return np.sqrt(np.where(w > 0.0, w, 1.0))
