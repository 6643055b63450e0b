r"""A primal-dual interior-point method for the convex fit at fixed tau, every kappa >= 0.

With the residual split as ``u = kappa v + t - s`` (t, s >= 0) the fixed-tau problem is (QH-14)

.. math::

    \min_{z,v,s,t}\ \sum_i w_i\Big(\tfrac{\kappa}{2}v_i^2 + (1-\tau)t_i + \tau s_i\Big)
      + \ell'z - m\log\theta, \qquad W z = \kappa v + t - s,

whose multiplier is v itself, ``-tau <= v <= 1 - tau``. Optimality asks for ``s (v + tau) = 0`` and
``t (1 - tau - v) = 0``; the method follows both products to zero together (Mehrotra's predictor and
corrector). It needs no rows in the quadratic zone, which is where Newton's method has no Hessian.
The linear term collects rows whose side is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from qhreg._typing import FloatArray
from qhreg.engine.rows import weighted, weighted_sum
from qhreg.family.loss import loss_slope

BOUNDARY_FRACTION = 0.9995
"""How much of the way to the boundary a step may go."""

NEAR_SCALE = 0.5
"""Change of log theta below which theta may move with the rest; above, the split is made anew."""

SCALE_FREED = 1e-3
"""Error at a fixed scale below which the scale is set free; freed earlier it may run away."""

PATIENCE = 30
"""Iterations without progress in any part of the error that counts, after which to give up."""


class InteriorPoint(NamedTuple):
    """Where the interior-point method ended.

    Attributes
    ----------
    z : ndarray, shape (k,)
        (-b, theta).
    v : ndarray, shape (m,)
        The dual variable of each row.
    iterations : int
        Newton steps taken.
    converged : bool
        Whether complementarity and both residuals fell below the tolerance.
    """

    z: FloatArray
    v: FloatArray
    iterations: int
    converged: bool


def _cholesky(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of a scaled, if necessary slightly shifted, matrix; its scaling."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    scaled = matrix * scale * scale[:, None]
    shift = 0.0
    while True:
        factor, info = dpotrf(scaled + shift * np.eye(scale.size) if shift else scaled)
        if info == 0:
            return factor, scale
        shift = max(1e-15, 100.0 * shift)


def _direction(
    design: FloatArray,
    w_inverse: FloatArray,
    inverse: FloatArray,
    factor: tuple[FloatArray, FloatArray],
    stationarity: FloatArray,
    target: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return dz, W dz and dv of a Newton step; coordinates beyond the factor stay where they are."""
    cholesky, scale = factor
    active = slice(0, scale.size)
    dz = np.zeros(stationarity.size)
    rhs = (w_inverse * target) @ design - stationarity
    dz[active] = dpotrs(cholesky, rhs[active] * scale)[0] * scale
    du = design @ dz
    return dz, du, inverse * (du - target)


def _split(
    u: FloatArray, size: float, tau: float | FloatArray, kappa: float
) -> tuple[FloatArray, ...]:
    """Return v + tau, 1 - tau - v, s and t well inside the bounds, for residuals of a mean size."""
    low = np.clip(u / (kappa + size) + tau, 0.1 * tau, 1.0 - 0.1 * (1.0 - tau))
    beyond = u - kappa * (low - tau)
    margin = 0.1 * size
    return low, 1.0 - low, np.maximum(-beyond, 0.0) + margin, np.maximum(beyond, 0.0) + margin


def _mean_size(u: FloatArray) -> float:
    return max(float(np.abs(u).mean()), 1e-8)


def _step_to(worst: float) -> float:
    """Return the largest step in (0, 1] for the most negative relative change."""
    return 1.0 if worst > -BOUNDARY_FRACTION else BOUNDARY_FRACTION / -worst


@np.errstate(all="ignore")
def interior_point(
    design: FloatArray,
    tau: float | FloatArray,
    kappa: float,
    *,
    m: float,
    start: FloatArray,
    free_theta: bool = True,
    weights: FloatArray | None = None,
    linear: FloatArray | None = None,
    tol: float = 1e-11,
    max_iterations: int = 200,
) -> InteriorPoint:
    """Return the solution of the convex fit at fixed tau.

    Parameters
    ----------
    design : ndarray, shape (rows, k)
        W = [X, y] in well-conditioned coordinates, the rows still undecided.
    tau : float or ndarray, shape (rows,)
        0 < tau < 1, the same for all rows or one for each.
    kappa : float
        kappa >= 0.
    m : float
        Weight of log theta: the sum of the weights of all rows, decided ones included, less the rank in
        the restricted likelihood.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0; theta stays there unless `free_theta`.
    weights : ndarray, shape (rows,), or None
        Positive case weights.
    linear : ndarray, shape (k,), or None
        Gradient of the rows whose side is known.
    tol : float
        Relative complementarity at which to stop.
    """
    z, k = start.copy(), design.shape[1]
    theta_moves = free_theta and k == 1  # without coefficients there is nothing to settle first
    ell = np.zeros(k) if linear is None else linear
    weight = float(design.shape[0] if weights is None else weights.sum())
    u = design @ z
    if k == 1 and not free_theta:
        return InteriorPoint(z, loss_slope(u, tau, kappa), 0, True)
    size = _mean_size(u)
    low, high, s, t = _split(u, size, tau, kappa)
    best, least, stalled = np.inf, np.full(3, np.inf), 0
    for iteration in range(max_iterations):
        product = weighted_sum(s * low + t * high, weights)
        v = low - tau
        stationarity = weighted(v, weights) @ design + ell
        if free_theta and not theta_moves and best <= SCALE_FREED:
            best, least, stalled = np.inf, np.full(3, np.inf), 0
            stretch = m / max(float(stationarity @ z), 1e-3 * m)  # theta for these v
            z, u = stretch * z, stretch * u
            theta_moves = abs(np.log(stretch)) < NEAR_SCALE
            if not theta_moves:
                size = _mean_size(u)
                low, high, s, t = _split(u, size, tau, kappa)
                continue
            s, t, product = stretch * s, stretch * t, stretch * product
        active = slice(0, k if theta_moves else k - 1)
        if theta_moves:
            stationarity[-1] -= m / z[-1]
        target = kappa * v - u  # what W dz should be where v does not move
        parts = np.array(
            [
                product / m,
                float(np.abs(stationarity[active]).max(initial=0.0)) / m,
                float(np.abs(target + t - s).max(initial=0.0)) / (1.0 + size),
            ]
        )
        error = float(parts.max())
        if error <= tol and theta_moves == free_theta:
            return InteriorPoint(z, v, iteration, True)
        stalled = 0 if bool(((parts < 0.98 * least) & (least > tol)).any()) else stalled + 1
        best, least = min(best, error), np.minimum(least, parts)
        on_boundary = not product > 0.0  # no step leads away from it
        if stalled > PATIENCE or not np.isfinite(error) or on_boundary:
            break
        inverse = 1.0 / (kappa + s / low + t / high)
        w_inverse = weighted(inverse, weights)
        matrix = design.T @ (w_inverse[:, None] * design)
        if theta_moves:
            matrix[-1, -1] += m / z[-1] ** 2
        system = design, w_inverse, inverse, _cholesky(matrix[active, active]), stationarity
        _, _, dv = _direction(*system, target)  # the predictor: s low = t high = 0
        to_low, to_high = dv / low, dv / high
        step = _step_to(min(to_low.min(), -1.0 - to_low.max(), -to_high.max(), to_high.min() - 1.0))
        left, right = s * (1.0 + to_low) * dv, t * (1.0 - to_high) * dv  # of second order
        after = (1.0 - step) * product + step**2 * weighted_sum(right - left, weights)
        centre = (max(after, 0.0) / product) ** 3 * product / (2.0 * weight)
        left, right = (centre + left) / low, (centre - right) / high
        dz, du, dv = _direction(
            *system, target + right - left
        )  # the corrector: s low = t high = centre
        to_low, to_high = dv / low, dv / high
        ds, dt = left - (1.0 + to_low) * s, right - (1.0 - to_high) * t
        step = _step_to(min(to_low.min(), -to_high.max(), (ds / s).min(), (dt / t).min()))
        if theta_moves and dz[-1] < 0.0:
            step = min(step, 0.9 * z[-1] / -dz[-1])
        z, u, low, high = z + step * dz, u + step * du, low + step * dv, high - step * dv
        s, t = s + step * ds, t + step * dt
    return InteriorPoint(z, low - tau, iteration, False)
