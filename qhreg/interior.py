r"""A primal-dual interior-point method for the convex fit at fixed tau, every kappa >= 0.

With the residual split as ``u = kappa v + t - s`` (t, s >= 0) the fixed-tau problem is (QH-14)

.. math::

    \min_{z,v,s,t}\ \sum_i w_i\Big(\tfrac{\kappa}{2}v_i^2 + (1-\tau)t_i + \tau s_i\Big)
      + \ell'z - n\log\theta, \qquad W z = \kappa v + t - s,

whose multiplier is v itself, ``-tau <= v <= 1 - tau``. Optimality asks for ``s (v + tau) = 0`` and
``t (1 - tau - v) = 0``; the method follows both products to zero together (Mehrotra's predictor and
corrector). It needs no rows in the quadratic zone, which is where Newton's method has no Hessian.
The linear term collects rows whose side is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs

from qhreg.loss import loss_slope

__all__ = ["InteriorPoint", "interior_point"]

FloatArray = npt.NDArray[np.float64]

BOUNDARY_FRACTION = 0.9995
"""How much of the way to the boundary a step may go."""

NEAR_SCALE = 0.5
"""Change of log theta below which theta may move with the rest; above, the split is made anew."""

SETTLED = 1e-3
"""Error at a fixed scale below which the scale is set free; freed earlier it may run away."""

UNBOUNDED = 1e12
"""Growth of the residuals that shows an unbounded problem: rows were decided wrongly."""

PATIENCE = 30
"""Iterations without progress in any part of the error after which the method gives up."""


@dataclass(frozen=True)
class InteriorPoint:
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


def _cholesky_solver(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of a scaled, if necessary slightly shifted, matrix; its scaling."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    scaled = matrix * scale * scale[:, None]
    shift = 0.0
    while True:
        factor, info = dpotrf(scaled + shift * np.eye(scale.size) if shift else scaled)
        if info == 0:
            return factor, scale
        shift = max(1e-15, 100.0 * shift)


def _solve(factor: tuple[FloatArray, FloatArray], rhs: FloatArray) -> FloatArray:
    cholesky, scale = factor
    solution: FloatArray = dpotrs(cholesky, rhs * scale)[0] * scale
    return solution


def _largest_step(values: FloatArray, changes: FloatArray) -> float:
    """Return the largest step in (0, 1] that keeps the values positive."""
    worst = float((changes / values).min(initial=0.0))
    return 1.0 if worst > -BOUNDARY_FRACTION else BOUNDARY_FRACTION / -worst


def _initial_split(
    u: FloatArray, tau: float | FloatArray, kappa: float
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the mean |u| and a split of u well inside the bounds: v + tau, 1 - tau - v, s, t."""
    size = max(float(np.abs(u).mean()), 1e-8)
    low = np.clip(u / (kappa + size) + tau, 0.1 * tau, 1.0 - 0.1 * (1.0 - tau))
    beyond = u - kappa * (low - tau)
    s = np.maximum(-beyond, 0.0) + 0.1 * size
    t = np.maximum(beyond, 0.0) + 0.1 * size
    return size, low, 1.0 - low, s, t


class _Point(NamedTuple):
    """The current point and what its Newton matrix was made of."""

    u: FloatArray
    low: FloatArray
    high: FloatArray
    s: FloatArray
    t: FloatArray
    defect: FloatArray
    spread: FloatArray
    weight: FloatArray
    stationarity: FloatArray


class _Move(NamedTuple):
    """A Newton direction in (z, u, v, s, t)."""

    z: FloatArray
    u: FloatArray
    v: FloatArray
    s: FloatArray
    t: FloatArray


def _direction(
    design: FloatArray,
    point: _Point,
    factor: tuple[FloatArray, FloatArray],
    centre_low: FloatArray | float,
    centre_high: FloatArray | float,
) -> _Move:
    """Return the Newton direction towards s low = centre_low and t high = centre_high."""
    target = point.defect + centre_high / point.high - centre_low / point.low
    rhs = design.T @ (point.weight * target) - point.stationarity
    z = np.zeros(rhs.size)
    z[: factor[1].size] = _solve(factor, rhs[: factor[1].size])
    u = design @ z
    v = (u - target) / point.spread
    s = (centre_low - point.s * v) / point.low - point.s
    t = (centre_high + point.t * v) / point.high - point.t
    return _Move(z, u, v, s, t)


def _longest_step(point: _Point, move: _Move) -> float:
    """Return the step in (0, 1] that keeps low, high, s and t positive."""
    return min(
        _largest_step(point.low, move.v),
        _largest_step(point.high, -move.v),
        _largest_step(point.s, move.s),
        _largest_step(point.t, move.t),
    )


@np.errstate(all="ignore")
def interior_point(
    design: FloatArray,
    tau: float | FloatArray,
    kappa: float,
    *,
    n: float,
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
    design : ndarray, shape (m, k)
        W = [X, y] in well-conditioned coordinates, the rows still undecided.
    tau : float or ndarray, shape (m,)
        0 < tau < 1, the same for all rows or one for each.
    kappa : float
        kappa >= 0.
    n : float
        Sum of the weights of all rows, decided ones included.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0; theta stays there unless `free_theta`.
    weights : ndarray, shape (m,), or None
        Positive case weights.
    linear : ndarray, shape (k,), or None
        Gradient of the rows whose side is known.
    tol : float
        Relative complementarity at which to stop.
    """
    z = start.copy()
    k = z.size
    theta_moves = free_theta and k == 1  # without coefficients there is nothing to settle first
    w = np.ones(design.shape[0]) if weights is None else weights
    ell = np.zeros(k) if linear is None else linear
    weight = float(w.sum())
    u = design @ z
    size, low, high, s, t = _initial_split(u, tau, kappa)
    if k == 1 and not free_theta:
        return InteriorPoint(z, loss_slope(u, tau, kappa), 0, True)
    best, least, stalled = np.inf, np.full(3, np.inf), 0
    for iteration in range(max_iterations):
        v = low - tau
        product = float(w @ (s * low + t * high))
        stationarity = design.T @ (w * v) + ell
        if free_theta and not theta_moves and best <= SETTLED:
            best, least, stalled = np.inf, np.full(3, np.inf), 0
            stretch = n / max(float(stationarity @ z), 1e-3 * n)  # theta for these v
            z, u = stretch * z, stretch * u
            theta_moves = abs(np.log(stretch)) < NEAR_SCALE
            if theta_moves:
                s, t, product = stretch * s, stretch * t, stretch * product
            else:
                size, low, high, s, t = _initial_split(u, tau, kappa)
                continue
        active = slice(0, k if theta_moves else k - 1)
        if theta_moves:
            stationarity[-1] -= n / z[-1]
        parts = np.array(
            [
                product / n,
                float(np.abs(stationarity[active]).max(initial=0.0)) / n,
                float(np.abs(u - kappa * v - t + s).max(initial=0.0)) / (1.0 + size),
            ]
        )
        error = float(parts.max())
        if error <= tol and theta_moves == free_theta:
            return InteriorPoint(z, v, iteration, True)
        stalled = 0 if bool((parts < 0.98 * least).any()) else stalled + 1
        best, least = min(best, error), np.minimum(least, parts)
        if stalled > PATIENCE or not np.isfinite(error) or size * UNBOUNDED < np.abs(u).max():
            break
        spread = kappa + t / high + s / low
        matrix = design.T @ (design * (w / spread)[:, None])
        if theta_moves:
            matrix[-1, -1] += n / z[-1] ** 2
        point = _Point(u, low, high, s, t, kappa * v - u, spread, w / spread, stationarity)
        factor = _cholesky_solver(matrix[active, active])
        affine = _direction(design, point, factor, 0.0, 0.0)
        step = _longest_step(point, affine)
        after = float(
            w
            @ (
                (s + step * affine.s) * (low + step * affine.v)
                + (t + step * affine.t) * (high - step * affine.v)
            )
        )
        centre = (max(after, 0.0) / product) ** 3 * product / (2.0 * weight)
        move = _direction(
            design, point, factor, centre - affine.s * affine.v, centre + affine.t * affine.v
        )
        step = _longest_step(point, move)
        if theta_moves and move.z[-1] < 0.0:
            step = min(step, 0.9 * z[-1] / -move.z[-1])
        z = z + step * move.z
        u = u + step * move.u
        low, high = low + step * move.v, high - step * move.v
        s, t = s + step * move.s, t + step * move.t
    return InteriorPoint(z, low - tau, iteration, False)
