"""The paper's scheme, section 4 as printed: step and tau of each stage by one joint minimisation."""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from qhreg._typing import FloatArray
from qhreg.boosting.noise import Noise, fit_noise
from qhreg.exceptions import BoundaryWarning, DataError, RankWarning
from qhreg.family.loss import loss_slope
from qhreg.solver import Solution, solve

FLAT_STEP = 1e-9
"""Derivative of the loss in the step, relative to its terms, that is rounding error."""


@dataclass(frozen=True)
class PaperFit:
    """A constant plus scaled learners.

    Attributes
    ----------
    constant : float
        Prediction before the first stage.
    learners : list of regressor
        Base learners.
    factors : ndarray, shape (m,)
        Learning rate times step of each.
    variances : ndarray, shape (m,)
        Variance of what each adds to the predictions of the training rows.
    noises : list of Noise
        sigma and tau around the constant, and at the joint optimum of each stage.
    """

    constant: float
    learners: Sequence[Any]
    factors: FloatArray
    variances: FloatArray
    noises: Sequence[Noise]

    def predict(self, exog: Any) -> FloatArray:
        """Return the sum for rows of features."""
        total = np.full(exog.shape[0], self.constant)
        for learner, factor in zip(self.learners, self.factors, strict=True):
            total += factor * _outputs(learner, exog)
        return total

    def importances(self) -> FloatArray:
        """Return the mean importances of the learners, weighted by the variance of what each adds."""
        each = np.array([learner.feature_importances_ for learner in self.learners])
        return np.asarray(self.variances @ each / self.variances.sum(), dtype=np.float64)


def fit_paper(
    estimator: Any,
    exog: Any,
    endog: FloatArray,
    weights: FloatArray | None,
    rng: np.random.RandomState,
    *,
    kappa: float,
    tau: float | None,
    sigma: float | None,
    n_stages: int,
    learning_rate: float,
) -> PaperFit:
    r"""Return the stages of the paper's gradient boosting machine.

    Stage j fits a learner :math:`g_j` by least squares to :math:`\psi(r/\sigma)` at
    :math:`\tau_{j-1}`, the negative gradient of the loss, and then minimises jointly

    .. math:: (\tau_j, \beta_j) = \arg\min \sum_i w_i\big[\log c(\tau)
        + \rho_\tau\big((r_i - \beta g_j(x_i))/\sigma\big)\big] .

    The stages end early where a learner is zero everywhere or explains every row.

    Parameters
    ----------
    estimator : regressor
        Cloned for each stage.
    exog, endog, weights : array, ndarray, ndarray or None
        Rows and case weights.
    rng : RandomState
        Of the learners.
    kappa, tau, sigma : float, float or None, float or None
        Huber width; a number fixes tau or sigma, None estimates it in each joint step.
    n_stages : int
        Most stages.
    learning_rate : float
        Factor of each step; the paper has none, which is 1.
    """
    if weights is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise DataError(f"{type(estimator).__name__}.fit does not take sample_weight")

    noise = fit_noise(endog, weights, kappa=kappa, tau=tau, sigma=sigma)
    constant, noises = noise.level, [replace(noise, level=0.0)]
    residuals = endog - constant
    learners, factors, variances = [], [], []
    for _ in range(n_stages):
        before = noises[-1]
        learner = clone(estimator)
        if "random_state" in learner.get_params():
            learner.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
        slopes = loss_slope(residuals / before.sigma, before.tau, kappa)
        learner.fit(exog, slopes, **({} if weights is None else {"sample_weight": weights}))
        outputs = _outputs(learner, exog)
        if not outputs.any():
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BoundaryWarning)
                warnings.simplefilter("ignore", RankWarning)  # of equally good steps
                fit = solve(
                    outputs[:, None],
                    residuals,
                    kappa=kappa,
                    tau=tau,
                    sigma=sigma,
                    weights=weights,
                    start=before,
                    search=False,
                    reml=False,
                )
        except DataError:  # the learner explains every row: there is no noise left to model
            break
        factor = learning_rate * _central_step(outputs, residuals, weights, fit)
        residuals = residuals - factor * outputs
        learners.append(learner)
        factors.append(factor)
        variances.append(factor**2 * float(np.var(outputs)))
        noises.append(Noise(0.0, fit.sigma, fit.tau, kappa, fit.value / fit.n))
    return PaperFit(constant, learners, np.array(factors), np.array(variances), noises)


def _central_step(
    outputs: FloatArray, residuals: FloatArray, weights: FloatArray | None, fit: Solution
) -> float:
    """Return the middle of the steps that are as good as that of a fit.

    With equal responses the loss can be flat between two of its kinks, and which point a solver ends at
    would depend on how the rows are written down.
    """
    moved = outputs != 0.0
    g, r = outputs[moved], residuals[moved]
    pull = g if weights is None else g * weights[moved]
    edges = fit.sigma * fit.kappa * np.array([-fit.tau, 1.0 - fit.tau])
    kinks = np.unique(np.subtract.outer(r, edges) / g[:, None])

    def slope(index: int) -> float:
        psi = loss_slope((r - kinks[index] * g) / fit.sigma, fit.tau, fit.kappa)
        return -float(psi @ pull) / float(np.abs(pull).sum())

    first = bisect_left(range(kinks.size), -FLAT_STEP, key=slope)
    last = bisect_right(range(kinks.size), FLAT_STEP, key=slope) - 1
    return 0.5 * float(kinks[first] + kinks[last]) if first < last else float(fit.beta[0])


def _outputs(learner: Any, exog: Any) -> FloatArray:
    return np.asarray(learner.predict(exog), dtype=np.float64).reshape(exog.shape[0])
