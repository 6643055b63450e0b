"""Numbers about a fit that need its parameters and one look at the data."""

from __future__ import annotations

import math

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.weighted_quantile import weighted_quantiles
from qhreg.family.loss import quantile_huber_loss, zone_part
from qhreg.family.normalizer import location_level, log_normalizer_derivatives
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters

__all__ = [
    "best_constant",
    "information_criterion",
    "loglike_obs",
    "null_loss",
    "robust_weights",
    "share_below",
    "starting_values",
    "total_loss",
]


_BLOCK = 32768

_START = 200
"""Least values whose quantile is the start."""

_APART = 100
"""One in how many values is looked at for it, at the least."""

_NARROW = 1e-6
"""Width of a zone that may miss all values: the minimum is a quantile then."""

_NEGLIGIBLE = 1e-10
"""Share of the loss below which a Newton step needs no check."""


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
    """Return -2 llf plus the penalty of "aic", "aicc", "bic" or "hqic" for n_params parameters."""
    if kind == "aic":
        penalty = 2.0 * n_params
    elif kind == "aicc":
        rest = nobs - n_params - 1.0
        penalty = 2.0 * n_params * nobs / rest if rest > 0.0 else math.inf
    elif kind == "bic":
        penalty = math.log(nobs) * n_params
    elif kind == "hqic":
        penalty = 2.0 * math.log(math.log(nobs)) * n_params
    else:
        raise ValueError(f"kind must be 'aic', 'aicc', 'bic' or 'hqic', got {kind!r}")
    return -2.0 * llf + penalty


def best_constant(
    values: FloatArray, tau: float, kappa: float, weights: FloatArray | None = None
) -> float:
    """Return a constant b that minimises the sum of w rho(values - b).

    Parameters
    ----------
    values : ndarray, shape (n,)
        Values in units of sigma.
    tau, kappa : float
        Asymmetry and width.
    weights : ndarray, shape (n,), or None
        Weights of the values.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.fitstatistics import best_constant
    >>> best_constant(np.array([0.0, 1.0, 2.0, 3.0, 90.0]), 0.5, 0.0)
    2.0
    """
    if kappa == 0.0:
        return weighted_quantiles(values, [1.0 - tau], weights)[0]
    return _least_loss(values, 1.0, tau, kappa, weights)[0]


def _least_loss(
    values: FloatArray, sigma: float, tau: float, kappa: float, weights: FloatArray | None
) -> tuple[float, float]:
    """Return the b that minimises the sum of w rho(values / sigma - b), kappa > 0, and the least sum.

    Newton's method, kept inside a bracket of the root of the derivative, which is monotone. What its
    last step, which stays in the zone, gains is known without another look at the values.
    """
    narrow = kappa < _NARROW
    level = location_level(tau, kappa)
    if narrow:
        b = weighted_quantiles(values, [level], weights)[0] / sigma
    else:  # that of some values is as good a start
        every = min(max(1, values.size // _START), _APART)
        b = weighted_quantiles(values[::every], [level], None)[0] / sigma
    low, high = -math.inf, math.inf
    total = float(values.size if weights is None else weights.sum())
    loss = math.nan
    for _ in range(100):
        slope, bend, loss = _sums_at(b, values, sigma, tau, kappa, weights)
        if abs(slope) <= kappa * bend and slope * slope <= _NEGLIGIBLE * total * kappa * bend:
            if bend > 0.0:
                b, loss = b + slope / bend, loss - 0.5 * slope / bend * slope / kappa
            break
        low, high = (b, high) if slope > 0.0 else (low, b)
        moved = b + slope / bend if bend > 0.0 else math.inf
        if not low < moved < high:
            low = max(low, float(values.min()) / sigma)
            high = min(high, float(values.max()) / sigma)
            moved = 0.5 * (low + high)
        b = moved
    return b, loss


def _sums_at(
    b: float,
    values: FloatArray,
    sigma: float,
    tau: float,
    kappa: float,
    weights: FloatArray | None,
) -> tuple[float, float, float]:
    """Return kappa times the sum of w psi(values / sigma - b), the weight in the zone, the loss."""
    slope = bend = loss = 0.0
    for start in range(0, values.size, _BLOCK):
        u = values[start : start + _BLOCK] / sigma
        u -= b
        inside = zone_part(u, tau, kappa)
        in_zone = inside == u
        weighted = inside
        if weights is None:
            slope += float(np.add.reduce(inside))
            bend += float(np.count_nonzero(in_zone))
        else:
            w = weights[start : start + _BLOCK]
            weighted = inside * w
            slope += float(np.add.reduce(weighted))
            bend += float(in_zone @ w)
        loss += float(weighted.dot(u)) - 0.5 * float(weighted.dot(inside))
    return slope, bend, loss / kappa


def null_loss(observations: Observations, parameters: Parameters) -> float:
    """Return the smallest sum of w rho over constants, at the same sigma, tau and kappa."""
    _, sigma, tau, kappa = parameters
    values, weights = observations.endog, observations.case_weights
    if observations.offset is not None:
        values = values - observations.offset
    if kappa > 0.0:
        return _least_loss(values, sigma, tau, kappa, weights)[1]
    values = values / sigma
    values -= best_constant(values, tau, kappa, weights)
    loss = quantile_huber_loss(values, tau, kappa)
    return float(loss.sum() if weights is None else loss @ weights)


def share_below(
    residuals: FloatArray, weights: FloatArray | None = None, slack: float = 0.0
) -> float:
    """Return the share of the weight that lies below the location, by more than the slack."""
    negative = residuals < -slack
    if weights is None:
        return float(np.count_nonzero(negative)) / negative.size
    return float(negative @ weights) / float(weights.sum())


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
