"""Is the noise symmetric? Likelihood-ratio, score and Wald test of tau = 1/2."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg.covariance.information import expected_information
from qhreg.covariance.parts import covariance_parts
from qhreg.covariance.scores import Point, score_obs
from qhreg.family.loss import zone_part
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_test, lr_test
from qhreg.inference.score_tests import effective_variance
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, refit

__all__ = ["SymmetryTest", "symmetry_test"]

NULL = "tau = 1/2"


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
    data: ModelData,
    solution: Solution,
    wald: HypothesisTest,
    *,
    robust: bool = True,
    note: str = "",
    **dependence: Any,
) -> SymmetryTest:
    r"""Return the likelihood-ratio, score and Wald test of tau = 1/2.

    Parameters
    ----------
    data : ModelData
        The model, with tau estimated.
    solution : Solution
        Its fit.
    wald : HypothesisTest
        The Wald test, which has its covariance from elsewhere.
    robust : bool
        Whether the variance of the score comes from the scores themselves instead of the expected
        information.
    note : str
        What the likelihood ratio takes for granted.
    **dependence
        Of :func:`qhreg.inference.score_tests.effective_variance`: groups or lags, where robust.

    Returns
    -------
    SymmetryTest
        Three statistics with one degree of freedom.

    Notes
    -----
    The likelihood ratio compares the criterion of the fit, with its F law. The score of tau at the fit
    with tau = 1/2 is :math:`\sum_i w_i e(u_i)`: (log c)' and (log q)' are zero there. An estimated kappa
    is estimated again under the hypothesis, and held there for the score test.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberMLE, quantile_huber
    >>> y = quantile_huber.ppf((np.arange(300) + 0.5) / 300, 0.3, 1.0)
    >>> bool(QuantileHuberMLE(y, np.ones((300, 1))).fit().test_symmetry().pvalue < 1e-6)
    True
    """
    data = replace(data, reml=solution.p > 0.0, rank=solution.p or None)
    restricted = refit(data, {"tau": 0.5}, solution)
    lr = lr_test(
        solution.loglike_restricted,
        restricted.loglike_restricted,
        1,
        solution.n - solution.p,
        null=NULL,
        note=note,
    )
    score = _score_of_tau(data, restricted, robust, dependence)
    return SymmetryTest(lr, score, wald, solution.tau, restricted)


def _score_of_tau(
    data: ModelData, restricted: Solution, robust: bool, dependence: dict[str, Any]
) -> HypothesisTest:
    """Return the score test at the fit with tau = 1/2."""
    obs = data.observations
    name = "robust score test" if robust else "score test"
    u = obs.residuals(restricted.beta) / restricted.sigma
    if not (u != zone_part(u, 0.5, restricted.kappa)).any():
        level = "no residual leaves the quadratic zone at tau = 1/2, and the score of tau is zero"
        return chi2_test(name, NULL, math.nan, 1, missing=level)
    freq = np.ones(u.size) if obs.freq_weights is None else obs.freq_weights
    point = Point(restricted.beta, restricted.sigma, 0.5, restricted.kappa)
    options: dict[str, Any] = {"weights": obs.weights, "offset": obs.offset}
    scores = score_obs(obs.exog, obs.endog, point, free=("tau",), **options)
    if not robust:
        free = tuple(each for each in data.space.free if each != "kappa")
        info = expected_information(obs.exog, *point[1:4], weights=obs.case_weights, free=free)
        size = np.sqrt(info.diagonal())
        inverse = np.linalg.pinv(info / np.outer(size, size), hermitian=True)
        variance = float(inverse[-1, -1]) / float(info[-1, -1])
        total = float(freq @ scores[:, 0])
        return chi2_test(name, NULL, total**2 * variance, 1)
    held = replace(data, space=replace(data.space, tau=0.5))
    known = ("kappa",) if data.space.kappa is None else ()
    parts = covariance_parts(held, restricted, known)
    wide = parts.wide
    u = obs.residuals(wide.beta) / wide.sigma
    beyond = (np.abs(u) > 0.5 * wide.kappa) * (
        1.0 if obs.case_weights is None else obs.case_weights
    )
    cross = [obs.exog.T @ beyond / wide.sigma]
    cross += [np.array([beyond @ u])] if "sigma" in parts.extras else []
    carry, k = (parts.inverse @ np.concatenate(cross))[:, None], data.space.k
    effective = scores - parts.scores @ carry
    total = float(freq @ (scores - parts.scores[:, :k] @ carry[:k])[:, 0])
    variance = float(effective_variance(effective, parts, **dependence)[0, 0])
    return chi2_test(name, NULL, total**2 / variance, 1)
