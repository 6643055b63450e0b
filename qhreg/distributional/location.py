r"""The location for given scales and asymmetries: a convex problem, solved exactly and with proof.

With rows divided by their :math:`\sigma_i` it is a quantile Huber fit in which each row has its own
asymmetry (QH-54):

.. math::

    \min_\beta \sum_i w_i\,\rho_{\tau_i}\!\Big(\frac{y_i - x_i'\beta}{\sigma_i}\Big) = \max_v
    \sum_i w_i\Big(\frac{v_i y_i}{\sigma_i} - \frac\kappa2 v_i^2\Big)
    \quad\text{s.t.}\quad \sum_i \frac{w_i v_i x_i}{\sigma_i} = 0,\ -\tau_i\le v_i\le 1-\tau_i .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from qhreg._typing import FloatArray
from qhreg.distributional.likelihood import Regression, evaluate
from qhreg.family.loss import quantile_huber_loss
from qhreg.solver.dual import dual_from_rows
from qhreg.solver.interior import interior_point

__all__ = ["LocationFit", "exact_location", "location_gap"]


INTERPOLATING = 1e-6
"""Residual, relative to the mean, up to which a row may be one that the fit passes through."""


class LocationFit(NamedTuple):
    """Parameters with the best location for their scales and asymmetries, and its duality gap."""

    params: FloatArray
    gap: float


def _standardised(data: Regression, params: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return [X, y] with rows divided by their sigma, and the asymmetry of each row."""
    state = evaluate(data, params)
    endog = data.endog if data.offset is None else data.endog - data.offset
    return np.column_stack([data.location, endog]) / state.sigma[:, None], state.tau


def _loss(design: FloatArray, beta: FloatArray, tau: FloatArray, data: Regression) -> float:
    loss = quantile_huber_loss(design[:, -1] - design[:, :-1] @ beta, tau, data.kappa)
    return float(loss.sum() if data.weights is None else data.weights @ loss)


def location_gap(data: Regression, params: FloatArray, v: FloatArray | None = None) -> float:
    """Return by how much a better location could raise the log-likelihood, an upper bound.

    Parameters
    ----------
    data : Regression
        The data.
    params : ndarray
        Parameters.
    v : ndarray, shape (n,), optional
        Dual variables near the optimum; the slopes of the loss by default.
    """
    design, tau = _standardised(data, params)
    if v is None:
        v = evaluate(data, params).psi
    m = data.weight
    dual = dual_from_rows(design, v, tau, data.kappa, m, theta=1.0, weights=data.weights)
    return _loss(design, params[data.block("location")], tau, data) - dual.value


def _vertex(design: FloatArray, beta: FloatArray) -> FloatArray:
    """Return the coefficients that pass exactly through the rows that the given ones nearly hit."""
    p = beta.size
    u = design[:, -1] - design[:, :-1] @ beta
    near = np.flatnonzero(np.abs(u) <= INTERPOLATING * max(float(np.abs(u).mean()), 1e-300))
    if near.size < p:
        return beta
    chosen = near[qr(design[near, :-1].T, mode="r", pivoting=True)[1][:p]]
    try:
        exact = np.linalg.solve(design[chosen, :-1], design[chosen, -1])
    except np.linalg.LinAlgError:
        return beta
    return exact if bool(np.isfinite(exact).all()) else beta


def exact_location(data: Regression, params: FloatArray) -> LocationFit:
    """Return the parameters with the best location for their scales and asymmetries.

    At kappa = 0 the fit passes through as many rows as it has columns; these are found and solved
    for, so that their residuals are zero and not small.
    """
    place = data.block("location")
    design, tau = _standardised(data, params)
    weights = np.ones(data.endog.size) if data.weights is None else data.weights
    start = np.append(-params[place], 1.0)
    found = interior_point(
        design, tau, data.kappa, m=data.weight, start=start, free_theta=False, weights=weights
    )
    beta = -found.z[:-1]
    if not bool(np.isfinite(beta).all() and np.isfinite(found.v).all()):
        return LocationFit(params, np.inf)
    candidates = [params[place], beta]
    if data.kappa == 0.0 and beta.size:
        candidates.append(_vertex(design, beta))
    losses = [_loss(design, b, tau, data) for b in candidates]
    # a vertex wins against the interior point it came from unless it is worse by more than rounding
    best = int(np.argmin(losses))
    tolerance = 1e-12 * max(abs(losses[best]), 1.0)
    if best == 1 and len(losses) == 3 and losses[2] <= losses[1] + tolerance:
        best = 2
    made = params.copy()
    made[place] = candidates[best]
    return LocationFit(made, location_gap(data, made, found.v))
