"""Numbers about a fit that need its parameters and one look at the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from statsmodels.tools import eval_measures

from qhreg._typing import FloatArray
from qhreg.covariance.scores import Fitted, standardized
from qhreg.family.loss import quantile_huber_loss, zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.model_data import ModelData, refit
from qhreg.specification.observations import Observations, summed
from qhreg.specification.parameters import Parameters, ParameterSpace


def loglike_obs(observations: Observations, parameters: Parameters) -> FloatArray:
    r"""Return the log-likelihood of each row, times its weights.

    .. math:: \ell_i = -w_i\,\big(\rho_\tau(u_i) + \log c(\tau) + \log\sigma\big),
              \qquad u_i = (y_i - x_i'\beta) / \sigma
    """
    beta, sigma, tau, kappa = parameters
    value: FloatArray = quantile_huber_loss(observations.residuals(beta) / sigma, tau, kappa)
    value += log_normalizer_derivatives(tau, kappa).value + math.log(sigma)
    weights = observations.case_weights
    return -value if weights is None else -value * weights


def total_loss(loglike: float, weight: float, parameters: Parameters) -> float:
    """Return the sum of w rho(u) from the log-likelihood, which differs by the normalising terms."""
    _, sigma, tau, kappa = parameters
    log_c = float(log_normalizer_derivatives(tau, kappa).value)
    return -loglike - weight * (log_c + math.log(sigma))


def robust_weights(u: FloatArray, tau: float, kappa: float) -> FloatArray:
    """Return kappa psi(u) / u: 1 inside the zone, falling to 0 far away from it.

    Least squares with these weights has the same solution. At kappa = 0 the zone is the point 0.
    """
    inside = zone_part(u, tau, kappa)
    weights: FloatArray = np.ones_like(inside)
    np.divide(inside, u, out=weights, where=u != 0.0)
    return weights


def information_criterion(llf: float, n_params: int, nobs: float, kind: str) -> float:
    """Return -2 llf plus the penalty of "aic", "aicc", "bic" or "hqic", by statsmodels."""
    if kind not in ("aic", "aicc", "bic", "hqic"):
        raise ValueError(f"kind must be 'aic', 'aicc', 'bic' or 'hqic', got {kind!r}")
    return float(getattr(eval_measures, kind)(llf, nobs, n_params))


def least_squares_fit(highest: float, n: float, p: float = 0.0) -> tuple[float, float]:
    r"""Return sigma and log-likelihood of the normal law fitted by least squares.

    .. math:: \sigma^2 = \mathrm{RSS} / m, \qquad
              \ell = -\frac n2 \log(2\pi\sigma^2) - \frac m2, \qquad m = n - p

    Parameters
    ----------
    highest : float
        Maximum of the ordinary log-likelihood, of :func:`qhreg.solver.over_kappa.gaussian_loglike`.
    n : float
        Sum of the weights.
    p : float
        Rank of the regressors for the restricted likelihood, 0 for the ordinary one.
    """
    log_ratio = math.log(n / (n - p))
    log_variance = log_ratio - 1.0 - math.log(2.0 * math.pi) - 2.0 * highest / n
    return math.exp(0.5 * log_variance), highest - 0.5 * (n * log_ratio - p)


def null_loss(observations: Any, parameters: Parameters) -> float:
    """Return the smallest sum of w rho over constants, at the same sigma, tau and kappa."""
    space = ParameterSpace(1, *parameters[1:])
    data = ModelData(observations.constant, space, DEFAULT_TAU_BOUNDS, ("const",))
    null = refit(data)  # any best constant has the least loss
    return total_loss(null.loglike, null.n, parameters)


def share_below(observations: Observations, fit: Fitted, slack: float = 0.0) -> float:
    """Return the share of the weight below the location, by more than the slack in units of sigma."""
    below, total = observations.reduce(_weight_below, summed, fit, slack)
    return float(below / total)


def _weight_below(obs: Observations, fit: Fitted, slack: float) -> FloatArray:
    below, weights = standardized(obs, fit) < -slack, obs.case_weights
    count = np.count_nonzero(below) if weights is None else below @ weights
    return np.array([count, obs.weight_sum])


def starting_values(observations: Observations, kappa: float, tau: float | None) -> Parameters:
    """Return a starting point from least squares.

    The share of residuals below zero tells the asymmetry, and the spread of the residuals the scale:
    the variance of the density is sigma^2 (kappa + (log c)'').
    """
    endog = observations.endog
    if observations.offset is not None:
        endog = endog - observations.offset
    root = None if observations.case_weights is None else np.sqrt(observations.case_weights)
    exog = observations.exog if root is None else observations.exog * root[:, None]
    target = endog if root is None else endog * root
    beta = np.asarray(np.linalg.lstsq(exog, target, rcond=None)[0], dtype=np.float64)
    residual = observations.residuals(beta)
    below = float(np.average(residual < 0.0, weights=observations.case_weights))
    asymmetry = min(max(below, 0.05), 0.95) if tau is None else tau
    law = log_normalizer_derivatives(asymmetry, kappa)
    spread = float(np.average(residual**2, weights=observations.case_weights))
    sigma = math.sqrt(spread / (kappa + law.d2_tau)) if spread > 0.0 else 1.0
    return Parameters(beta, sigma, asymmetry, kappa)
