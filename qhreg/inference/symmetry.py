"""Is the noise symmetric? Likelihood-ratio, score and Wald test of tau = 1/2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg.covariance.scores import Fitted, Point, score_obs
from qhreg.exceptions import DataError
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_sf, lr_test
from qhreg.inference.robust_score import ScoreVariance, robust_score_root
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve
from qhreg.specification.observations import Observations

__all__ = ["SymmetryTest", "robust_symmetry_score", "symmetry_test"]

_UNDETERMINED = "the information about tau is zero"


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
    likelihood-ratio statistic is divided by :func:`qhreg.inference.hypothesis_tests.lr_inflation`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.inference.symmetry import symmetry_test
    >>> from qhreg.solver import solve
    >>> from qhreg.family.distribution import quantile_huber
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
    missing = _UNDETERMINED if math.isnan(square) else ""
    score = HypothesisTest("score test", null, square, 1, chi2_sf(square, 1), missing=missing)
    return SymmetryTest(
        lr,
        score,
        _wald_symmetry(exog, endog, fit, free, weights, offset, tau_variance),
        fit.tau,
        restricted,
    )


def robust_symmetry_score(
    observations: Observations,
    restricted: Solution,
    free: tuple[str, ...],
    variance: ScoreVariance,
) -> HypothesisTest:
    """Return the score test of tau = 1/2 that holds whatever the noise is, if it is symmetric.

    Parameters
    ----------
    observations : Observations
        The data.
    restricted : Solution
        The fit at tau = 1/2.
    free : tuple of str
        The estimated parameters: "beta", "sigma" if it is, and "tau".
    variance : ScoreVariance
        How the rows may depend on each other.

    Notes
    -----
    The square of :func:`qhreg.inference.robust_score.robust_score_root`, the test that score intervals
    invert.
    """
    point = Point(restricted.beta, restricted.sigma, restricted.tau, restricted.kappa)
    j = observations.exog.shape[1] + len(free) - 2
    root = robust_score_root(observations, point, free, j, variance)
    name, null = "robust score test", "tau = 1/2"
    if not math.isfinite(root):
        level = "no row lies beyond the zone at tau = 1/2, and the score of tau is zero"
        return HypothesisTest(name, null, math.nan, 1, math.nan, missing=level)
    return HypothesisTest(name, null, root * root, 1, chi2_sf(root * root, 1))


def _tau_information(exog: Any, fit: Fitted, weights: Any, free: tuple[str, ...]) -> float:
    """Return the inverse variance of tau by the expected information; NaN if that has none of it."""
    estimate = covariance(
        "nonrobust", exog, np.zeros(np.shape(exog)[0]), fit, free=free, freq_weights=weights
    )
    variance = float(estimate.cov[-1, -1])
    return 1.0 / variance if variance > 0.0 else math.nan


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
        bound = "tau is on its bound"
        return HypothesisTest("Wald test", null, math.nan, 1, math.nan, missing=bound)
    if variance is None:
        variance = float(
            covariance(
                "nonrobust", exog, endog, fit, free=free, freq_weights=weights, offset=offset
            ).cov[-1, -1]
        )
    if not variance > 0.0:  # nor has a tau that is not determined
        return HypothesisTest("Wald test", null, math.nan, 1, math.nan, missing=_UNDETERMINED)
    # var(logit tau) = var(tau) / (tau (1 - tau))^2
    spread = variance / (fit.tau * (1.0 - fit.tau)) ** 2
    statistic = math.log(fit.tau / (1.0 - fit.tau)) ** 2 / spread
    return HypothesisTest("Wald test", null, statistic, 1, chi2_sf(statistic, 1))
