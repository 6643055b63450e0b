r"""Score tests: of adding columns, and of symmetry with the likelihood-ratio and Wald test.

With the scores :math:`s_{2i}` of what is tested and :math:`s_{1i}` of the estimated parameters, both at
the fit under the hypothesis, the statistic is :math:`S'V^{-1}S` with S the sum of the effective scores

.. math:: e_i = s_{2i} - B_{21} B_{11}^{-1} s_{1i} .

From the expected information :math:`V = B_{22} - B_{21}B_{11}^{-1}B_{12}`; the robust form has the bread
of the sandwich as B and :math:`V = \sum_i e_i e_i'`, summed over clusters or lags where rows depend on
each other [1]_.

References
----------
.. [1] D. D. Boos (1992), On generalized score tests, The American Statistician 46, 327-333.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.choice import CovarianceChoice, grouping_of
from qhreg.covariance.estimate import sandwich
from qhreg.covariance.information import design_moments, expected_information, places
from qhreg.covariance.parts import Parts, covariance_parts, treated_as_known
from qhreg.covariance.scores import loss_hessian, score_obs, score_sum
from qhreg.exceptions import DataError
from qhreg.family.loss import zone_part
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_test, lr_test
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, refit
from qhreg.specification.parameters import Parameters

NULL = "tau = 1/2"


def effective_variance(
    effective: FloatArray, parts: Parts, choice: CovarianceChoice | None = None
) -> FloatArray:
    """Return the variance of the sum of effective scores, shape (r, r).

    Parameters
    ----------
    effective : ndarray, shape (n, r)
        Effective scores of one observation of each row.
    parts : Parts
        Of the fit under the hypothesis.
    choice : CovarianceChoice, optional
        A covariance whose clusters or lags to allow for; that of independent rows is HC0.
    """
    options: dict[str, Any] = {"nobs": parts.nobs, "df_resid": parts.df_resid, "freq": parts.freq}
    if choice is not None and choice.cov_type in ("cluster", "HAC"):
        weights = parts.observations.case_weights
        options |= grouping_of(choice, len(effective), weights).keywords
    return sandwich(effective, None, **options)


def score_test(
    data: ModelData,
    solution: Solution,
    exog_extra: Any,
    *,
    robust: bool = True,
    held: Sequence[str] = (),
    choice: CovarianceChoice | None = None,
) -> HypothesisTest:
    r"""Return the score test of adding columns to the model, without fitting the larger one.

    Parameters
    ----------
    data : ModelData
        The model without the extra columns.
    solution : Solution
        Its fit.
    exog_extra : array_like, shape (n,) or (n, r)
        The columns to add.
    robust : bool
        Whether the variance of the score comes from the scores themselves instead of the expected
        information. Sampling weights need it.
    held : sequence of str
        Estimated parameters to treat as known, such as a kappa at a limit.
    choice : CovarianceChoice, optional
        A covariance whose clusters or lags the robust variance allows for.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.inference.score_tests import score_test
    >>> from qhreg.specification.model_data import fit_model
    >>> x = np.linspace(-1.0, 1.0, 300)
    >>> data = QuantileHuberMLE(x + np.sin(50.0 * x), np.ones((300, 1))).model_data()
    >>> bool(score_test(data, fit_model(data), x).pvalue < 1e-6)
    True
    """
    obs, k = data.observations, data.space.k
    extra = np.asarray(exog_extra, dtype=np.float64)
    extra = extra[:, None] if extra.ndim == 1 else extra
    if extra.ndim != 2 or extra.shape[0] != obs.endog.size:
        raise DataError(f"exog_extra must have {obs.endog.size} rows, got shape {extra.shape}")
    if not np.isfinite(extra).all():
        raise DataError("exog_extra contains NaN or infinite values")
    r = extra.shape[1]
    if robust:
        larger = replace(obs, exog=np.column_stack([obs.exog, extra]))
        scores = score_obs(larger, _padded(solution, r), ("beta",))[:, k:]
        parts = covariance_parts(data, solution, held)
        wide, chosen = parts.wide, places(parts.extras, 0)
        loss = loss_hessian(larger, _padded(wide, r))
        zone, slope = loss.zone / wide.sigma, np.array([1.0, wide.tau * (1 - wide.tau), wide.kappa])
        beta = zone[:, :k].T @ zone[:, k:] / wide.kappa
        others = (loss.cross[k:] * slope)[:, chosen].T
        total, effective = _effective(scores, np.vstack([beta, others]), parts, k)
        independent = effective_variance(effective, parts)
        variance = effective_variance(effective, parts, choice)
    else:
        # orthonormal columns in place of exog, whose units may differ
        basis = _independent(obs.exog)
        location = obs.location(solution.beta)
        larger = replace(obs, exog=np.column_stack([basis, extra]), offset=location)
        point = Parameters(
            np.zeros(basis.shape[1] + r), solution.sigma, solution.tau, solution.kappa
        )
        every, known = (
            score_sum(larger, point, ("beta",)),
            treated_as_known(solution, data.space, held),
        )
        free = ("beta", *(name for name in data.space.extra_names if name not in known))
        info = expected_information(design_moments(larger.exog, obs.case_weights), point, free)
        tested = slice(basis.shape[1], basis.shape[1] + r)
        variance, carry = _expected_variance(info, tested)
        total = every[tested] - every[: basis.shape[1]] @ carry[: basis.shape[1]]
        independent = variance
        scores = score_obs(larger, point, ("beta",))[:, tested]
    freq = np.ones(obs.endog.size) if obs.freq_weights is None else obs.freq_weights
    size = np.sqrt(freq @ scores**2)
    if not _least_share(independent, size) > 1e-9:
        raise DataError("exog_extra has columns that depend linearly on each other or on exog")
    if not _least_share(variance, np.sqrt(variance.diagonal())) > 1e-9:
        raise DataError(
            f"{r} added columns have no variance within so few clusters or so many lags: test fewer "
            "at once"
        )
    statistic = float(total @ np.linalg.solve(variance, total))
    name = "robust score test" if robust else "score test"
    return chi2_test(name, f"{r} added column{'s' if r > 1 else ''}", statistic, r)


def _padded(fit: Solution, r: int) -> Solution:
    """Return a fit with r more coefficients, which are zero."""
    return replace(fit, beta=np.append(fit.beta, np.zeros(r)))


def _effective(
    scores: FloatArray, cross: FloatArray, parts: Parts, k: int
) -> tuple[FloatArray, FloatArray]:
    """Return the total score and the effective scores, given the mixed derivatives."""
    own, carry = parts.scores, parts.inverse @ cross
    freq = np.ones(len(scores)) if parts.freq is None else parts.freq
    # zero at the fit but at kappa = 0, where a row that it interpolates has no slope of its own
    return freq @ (scores - own[:, :k] @ carry[:k]), scores - own @ carry


def _expected_variance(info: FloatArray, tested: Any) -> tuple[FloatArray, FloatArray]:
    """Return the variance of the score of some parameters by the expected information, and carry."""
    chosen = np.zeros(info.shape[0], dtype=bool)
    chosen[tested] = True
    cross, inner = info[np.ix_(~chosen, chosen)], info[np.ix_(~chosen, ~chosen)]
    size = np.sqrt(np.maximum(inner.diagonal(), 1e-300))[:, None]
    carry = np.linalg.pinv(inner / size / size.T, hermitian=True) @ (cross / size) / size
    variance: FloatArray = info[np.ix_(chosen, chosen)] - cross.T @ carry
    return variance, carry


def _independent(exog: FloatArray) -> FloatArray:
    """Return orthonormal columns with the span of exog, whatever the units of its columns."""
    size = np.abs(exog).max(axis=0, initial=0.0)
    left, values, _ = np.linalg.svd(exog / np.where(size > 0.0, size, 1.0), full_matrices=False)
    basis: FloatArray = left[:, values > 1e-10 * values.max(initial=0.0)]
    return basis * math.sqrt(exog.shape[0])


def _least_share(variance: FloatArray, size: FloatArray) -> float:
    """Return the least eigenvalue of a covariance in units of the sizes of its scores."""
    if not (size > 0.0).all():
        return 0.0
    return float(np.linalg.eigvalsh(variance / np.outer(size, size))[0])


# ---------------------------------------------------------------------- symmetry


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
    choice: CovarianceChoice | None = None,
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
    choice : CovarianceChoice, optional
        A covariance whose clusters or lags the robust variance allows for.

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
    data = data.compared_with(solution)
    restricted = refit(data, {"tau": 0.5}, solution)
    lr = lr_test(
        solution.loglike_restricted,
        restricted.loglike_restricted,
        1,
        solution.n - solution.p,
        null=NULL,
        note=note,
    )
    score = _score_of_tau(data, restricted, robust, choice)
    return SymmetryTest(lr, score, wald, solution.tau, restricted)


def _score_of_tau(
    data: ModelData, restricted: Solution, robust: bool, choice: CovarianceChoice | None
) -> HypothesisTest:
    """Return the score test at the fit with tau = 1/2."""
    obs = data.observations
    name = "robust score test" if robust else "score test"
    u = obs.residuals(restricted.beta) / restricted.sigma
    if not (u != zone_part(u, 0.5, restricted.kappa)).any():
        level = "no residual leaves the quadratic zone at tau = 1/2, and the score of tau is zero"
        return chi2_test(name, NULL, math.nan, 1, missing=level)
    scores = score_obs(obs, restricted, ("tau",))
    if robust:
        held = replace(data, space=replace(data.space, tau=0.5))
        known = ("kappa",) if data.space.kappa is None else ()
        parts = covariance_parts(held, restricted, known)
        loss = loss_hessian(obs, parts.wide)
        cross = np.append(loss.cross[:, 1], [loss.corner[0, 1]] * len(parts.extras))
        total, effective = _effective(scores, cross[:, None], parts, data.space.k)
        variance = effective_variance(effective, parts, choice)
    else:
        free = tuple(each for each in data.space.free if each != "kappa")
        moments = design_moments(obs.exog, obs.case_weights)
        total = score_sum(obs, restricted, ("tau",))
        variance, _ = _expected_variance(expected_information(moments, restricted, free), -1)
    return chi2_test(name, NULL, float(total[0] ** 2 / variance[0, 0]), 1)
