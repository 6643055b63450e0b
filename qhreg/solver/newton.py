r"""Newton's method on the projected likelihood: the paper's Algorithm 1 with its exact Hessian.

Eliminating tau from the Newton system gives the step of the projected function
:math:`\tilde g(z) = \min_\tau g(z, \tau)` (QH-13):

.. math::

    \Big(H_{zz} - \frac{h h'}{H_{\tau\tau}}\Big)\,dz = -\Big(g_z - h\,\frac{g_\tau}{H_{\tau\tau}}\Big),
    \qquad d\tau = -\frac{g_\tau + h'dz}{H_{\tau\tau}}, \qquad h = H_{z\tau}.

tau follows its optimum by one scalar Newton step per pass instead of a search of its own, so that an
iteration is one pass over the data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.engine.likelihood import Zone
from qhreg.solver.problem import Objective, Problem

ARMIJO = 1e-4
"""Share of the decrease that the slope promises which a step must have (Nocedal & Wright 2006, 3.1)."""

DAMPING = 1e-2
"""Shift of a singular Hessian per unit of weight, in orthonormal coordinates, where the curvature of all
rows would be one: a direction without rows in the zone moves by the order of the scale."""

MAX_TAU_STEP = 0.15
"""Longest step in tau: farther away the quadratic model of log c is not to be trusted."""

SETTLED = 1e-8
"""Error at which a step changes the value by less than its rounding."""

SHORT_STEP = 3e-2
"""Error up to which a step need not be verified: what it leaves is of the order of its square."""


class NewtonPoint(NamedTuple):
    """Where Newton's method ended.

    Attributes
    ----------
    z, tau : ndarray of shape (k,), float
        The point.
    objective : Objective
        g and its derivatives there.
    error : float
        Newton step length in units of standard deviations per row: the square root of twice the
        decrement over n.
    iterations, passes : int
        Steps taken; passes over the data.
    """

    z: FloatArray
    tau: float
    objective: Objective
    error: float
    iterations: int
    passes: int


def solve_positive(matrix: FloatArray, rhs: FloatArray) -> FloatArray | None:
    """Return the solution of a positive definite system, or None when it is not one."""
    if rhs.size == 0:
        return rhs
    factor, solution, info = dposv(matrix, rhs)
    if info != 0 or factor.diagonal().min() ** 2 < ROUNDING * matrix.diagonal().max():
        return None
    return np.asarray(solution)


def _solve_shifted(matrix: FloatArray, rhs: FloatArray, n: float) -> FloatArray:
    """Return the solution with the smallest diagonal shift that makes the matrix definite."""
    shift = 0.0
    while True:
        shifted = matrix + shift * np.eye(rhs.shape[0]) if shift else matrix
        solution = solve_positive(shifted, rhs)
        if solution is not None:
            return solution
        shift = max(10.0 * shift, DAMPING * n)


class Projected(NamedTuple):
    """The projected function at a point: g at its minimum over z, as a function of tau.

    Attributes
    ----------
    step, tangent : ndarray, shape (k,)
        The Newton step of z at this tau, and how the minimum moves with tau.
    slope, curvature : float
        First and second derivative in tau.
    """

    step: FloatArray
    tangent: FloatArray
    slope: float
    curvature: float


def projected(now: Objective, n: float, k: int) -> Projected:
    """Return the projected function over the first k coordinates of z; parameters as newton_step."""
    g, h = now.d_z[:k], now.d_z_tau[:k]
    solved = -_solve_shifted(now.d2_z[:k, :k], np.array([g, h]).T, n)
    step, tangent = solved[:, 0], solved[:, 1]
    return Projected(step, tangent, now.d_tau + float(h @ step), now.d2_tau + float(h @ tangent))


def newton_step(
    now: Objective, tau_room: tuple[float, float] | None, n: float, k: int
) -> tuple[FloatArray, float]:
    """Return (dz, dtau) of (QH-13) in the first k coordinates of z, by elimination of z.

    Where the profile is not convex in tau the step goes down it by half of what a step may be.

    Parameters
    ----------
    now : Objective
        g with its second derivatives.
    tau_room : (float, float) or None
        How far tau may move down and up; None when tau is fixed.
    n : float
        Sum of weights: the size of a harmless diagonal shift.
    """
    there = projected(now, n, k)
    if tau_room is None:
        return there.step, 0.0
    slope, curvature = there.slope, there.curvature
    move = -slope / curvature if curvature > 0.0 else math.copysign(0.5 * MAX_TAU_STEP, -slope)
    move = min(max(move, tau_room[0]), tau_room[1])
    return there.step + move * there.tangent, move


def tau_room_of(tau: float, bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return how far tau may move down and up in one step."""
    if bounds is None:
        return None
    return max(bounds[0] - tau, -MAX_TAU_STEP), min(bounds[1] - tau, MAX_TAU_STEP)


def newton(
    problem: Problem,
    z: FloatArray,
    tau: float,
    *,
    tau_bounds: tuple[float, float] | None,
    since: Zone | None = None,
    tol: float | None = None,
    max_passes: int = 60,
) -> NewtonPoint:
    """Return a stationary point of g by damped Newton steps.

    From the second pass on, the Hessian is that of the last point with the rows that changed sides
    added or taken off: as exact as a new one, at little more than the cost of the gradient.

    Parameters
    ----------
    problem : Problem
        With kappa > 0.
    z, tau : ndarray of shape (k,), float
        Starting point.
    tau_bounds : (float, float) or None
        None keeps tau fixed, and stops where fewer rows than unknowns are in the zone: the Hessian is
        singular, and another method has to go on.
    since : Zone or None
        The zone of an earlier fit to the same rows.
    tol : float or None
        Error (see NewtonPoint) at which to stop; rounding may stop it earlier. None stops
        where the gradient alone proves the fit to about 1e-9 per row.
    max_passes : int
        Passes over the data after which to give up.
    """
    n = problem.n
    if tau_bounds is not None:
        tau = min(max(tau, tau_bounds[0]), tau_bounds[1])
    k = problem.moving(z)
    now = problem.evaluate(z, tau, since=since)
    if not math.isfinite(now.value):
        raise FloatingPointError("the likelihood is not finite at the starting point")
    passes, iterations = 1, 0
    last_error = math.inf
    while True:
        dz, dtau = newton_step(now, tau_room_of(tau, tau_bounds), n, k)
        slope = float(now.d_z[:k].dot(dz)) + now.d_tau * dtau
        error = math.sqrt(max(-slope, 0.0) / n) if math.isfinite(slope) else math.nan
        at_rounding = error < SETTLED and error > 0.1 * last_error
        starved = tau_bounds is None and now.totals.rows_in_zone < k - 1
        done = _proved(problem, now, error, tau) if tol is None else error <= tol
        if done or at_rounding or starved or not math.isfinite(error):
            return NewtonPoint(z, tau, now, error, iterations, passes)
        next_point, tried = _line_search(
            problem,
            (z, tau, now),
            (dz, dtau),
            slope,
            max_passes - passes,
            slack=tol is None,
        )
        passes, iterations, last_error = passes + tried, iterations + 1, error
        if next_point is None:
            return NewtonPoint(z, tau, now, error, iterations, passes)
        z, tau, now = next_point


def _proof_limit(problem: Problem, tau: float, slack: float) -> float:
    """Return the error in the coefficients up to which the gradient alone proves the fit.

    See `qhreg.solver.dual.dual_from_gradient`: up to the slack of the rows in the zone the gap is of
    second order, beyond it of first order, and 1e-9 per row is then too much.
    """
    per_row = math.sqrt(problem.kappa * problem.rows.least_weight / problem.n)
    return max(1e-9 * tau * (1.0 - tau), 0.9 * slack) * per_row


def _proved(problem: Problem, now: Objective, error: float, tau: float) -> bool:
    """Return whether the gradient alone proves the fit to about 1e-9 per row."""
    if not error <= SETTLED:
        return False
    limit = _proof_limit(problem, tau, now.totals.slack)
    if error <= limit:
        return True
    d = now.d_z[:-1]
    step = solve_positive(now.d2_z[:-1, :-1], d)
    return step is not None and float(d.dot(step)) <= problem.n * limit**2


def _line_search(
    problem: Problem,
    here: tuple[FloatArray, float, Objective],
    move: tuple[FloatArray, float],
    slope: float,
    max_passes: int,
    *,
    slack: bool,
) -> tuple[tuple[FloatArray, float, Objective] | None, int]:
    """Return the first point down the move that decreases g enough, and the passes taken.

    None when the passes are used up or the decrease is below rounding.
    """
    (z, tau, now), (dz, dtau) = here, move
    rounding = ROUNDING * (problem.n + abs(now.value))
    step = 1.0
    if problem.theta is None and dz[-1] < 0.0:  # theta stays positive
        step = min(step, 0.8 * float(z[-1]) / -float(dz[-1]))
    for tried in range(1, max_passes + 1):
        trial = z.copy()
        trial[: dz.size] += step * dz
        after = problem.evaluate(trial, tau + step * dtau, since=now.totals.zone, slack=slack)
        if after.value <= now.value + ARMIJO * step * slope + rounding:
            return (trial, tau + step * dtau, after), tried
        step *= 0.4
    return None, max_passes
