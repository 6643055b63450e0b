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
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from qhreg.likelihood import Objective
from qhreg.problem import Problem

__all__ = [
    "Curvature",
    "NewtonPoint",
    "curvature_of",
    "newton",
    "newton_step",
    "solve_positive",
    "tau_room_of",
]

FloatArray = npt.NDArray[np.float64]

ARMIJO = 1e-4
MAX_TAU_STEP = 0.15
"""Longest step in tau: farther away the quadratic model of log c is not to be trusted."""

ROUNDING_ERROR = 1e-9
"""Error below which a step that gains less than a digit has met the rounding of the gradient."""

NEAR = 1e-3
"""Error at which a Hessian is good enough to be kept: it then gains three digits per pass."""

SHORT_ROOM = 0.05
"""Distance to a bound of tau below which a step down the profile goes all the way."""

CHEAP_HESSIAN = 0.03
"""Share of rows in the zone below which a new Hessian costs little more than the gradient."""


class Curvature(NamedTuple):
    """Second derivatives of g, and where they were taken."""

    d2_z: FloatArray
    d_z_tau: FloatArray
    d2_tau: float
    z: FloatArray
    tau: float
    exact: bool


class NewtonPoint(NamedTuple):
    """Where Newton's method ended.

    Attributes
    ----------
    z, tau : ndarray of shape (k,), float
        The point.
    objective : Objective
        g and its gradient there.
    curvature : Curvature
        The last Hessian used.
    error : float
        Newton step length in units of standard deviations per row: the square root of twice the
        decrement over n.
    iterations, passes : int
        Steps taken; passes over the data.
    """

    z: FloatArray
    tau: float
    objective: Objective
    curvature: Curvature
    error: float
    iterations: int
    passes: int


def curvature_of(
    objective: Objective, z: FloatArray, tau: float, *, exact: bool = True
) -> Curvature:
    """Return the second derivatives held by an objective evaluated with its Hessian."""
    assert objective.d2_z is not None
    assert objective.d_z_tau is not None
    return Curvature(objective.d2_z, objective.d_z_tau, objective.d2_tau, z, tau, exact)


def solve_positive(matrix: FloatArray, rhs: FloatArray) -> FloatArray | None:
    """Return the solution of a positive definite system, or None when it is not one."""
    if rhs.size == 0:
        return rhs
    _, solution, info = dposv(matrix, rhs)
    return solution if info == 0 else None


def _solve_shifted(matrix: FloatArray, rhs: FloatArray, n: float) -> FloatArray:
    """Return the solution with the smallest diagonal shift that makes the matrix definite."""
    shift = 0.0
    while True:
        shifted = matrix + shift * np.eye(rhs.size) if shift else matrix
        solution = solve_positive(shifted, rhs)
        if solution is not None:
            return solution
        shift = max(10.0 * shift, 1e-10 * n)


def newton_step(
    gradient: Objective,
    curvature: Curvature,
    tau_room: tuple[float, float] | None,
    n: float,
    k: int,
) -> tuple[FloatArray, float]:
    """Return (dz, dtau) of (QH-13) in the first k coordinates of z.

    Parameters
    ----------
    tau_room : (float, float) or None
        How far tau may move down and up; None when tau is fixed.
    n : float
        Sum of weights: the size of a harmless diagonal shift.
    """
    g, hessian = gradient.d_z[:k], curvature.d2_z[:k, :k]
    if tau_room is None:
        return -_solve_shifted(hessian, g, n), 0.0
    h, d2_tau, d_tau = curvature.d_z_tau[:k], curvature.d2_tau, gradient.d_tau
    move = None
    if d2_tau > 0.0:
        projected = hessian - h[:, None] * (h / d2_tau)
        solution = solve_positive(projected, g - h * (d_tau / d2_tau))
        if solution is not None:
            move = -(d_tau - float(h @ solution)) / d2_tau
            if tau_room[0] <= move <= tau_room[1]:
                return -solution, move
    if move is None:  # the profile is not convex here: a long step down it
        slope = d_tau - float(h @ _solve_shifted(hessian, g, n))
        room = tau_room[1] if slope < 0.0 else tau_room[0]
        move = room if abs(room) < SHORT_ROOM else 0.5 * room
    move = float(min(max(move, tau_room[0]), tau_room[1]))
    return -_solve_shifted(hessian, g + h * move, n), move


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
    curvature: Curvature | None = None,
    reuse_hessian: bool = False,
    tol: float | None = None,
    max_passes: int = 60,
) -> NewtonPoint:
    """Return a stationary point of g by damped Newton steps.

    Parameters
    ----------
    problem : Problem
        With kappa > 0.
    z, tau : ndarray of shape (k,), float
        Starting point.
    tau_bounds : (float, float) or None
        None keeps tau fixed, and stops where fewer rows than unknowns are in the zone: the Hessian is
        singular, and another method has to go on.
    curvature : Curvature or None
        A Hessian for the first step, from a sample of the rows.
    reuse_hessian : bool
        Whether to keep a Hessian as long as it makes good progress. Pays when the Gram matrix is the
        larger part of a pass.
    tol : float or None
        Error (see NewtonPoint) at which to stop; rounding may stop it earlier, below 1e-9. None stops
        where the gradient alone proves the fit to about 1e-9 per row.
    max_passes : int
        Passes over the data after which to give up.
    """
    n = problem.n
    if tau_bounds is not None:
        tau = min(max(tau, tau_bounds[0]), tau_bounds[1])
    if tol is None:
        tol = min(1e-12, 1e-9 * tau * (1.0 - tau) * math.sqrt(problem.kappa / n))
    k = z.size if problem.theta is None else z.size - 1
    now = problem.evaluate(z, tau, hessian=curvature is None)
    if not math.isfinite(now.value):
        raise FloatingPointError("the likelihood is not finite at the starting point")
    passes, iterations = 1, 0
    last_error = hessian_error = math.inf
    while True:
        fresh = now.d2_z is not None
        if fresh:
            curvature = curvature_of(now, z, tau)
        assert curvature is not None
        dz, dtau = newton_step(now, curvature, tau_room_of(tau, tau_bounds), n, k)
        slope = float(now.d_z[:k] @ dz) + now.d_tau * dtau
        if not slope < 0.0 and not fresh:
            now, passes = problem.evaluate(z, tau), passes + 1
            continue
        error = math.sqrt(max(-slope, 0.0) / n) if math.isfinite(slope) else math.nan
        at_rounding = error < ROUNDING_ERROR and error > 0.1 * last_error
        starved = tau_bounds is None and fresh and now.rows_in_zone < k - 1
        if error <= tol or at_rounding or starved or not math.isfinite(error):
            return NewtonPoint(z, tau, now, curvature, error, iterations, passes)
        if fresh:
            hessian_error = error
        good = curvature.exact and hessian_error < NEAR and error < max(0.1 * last_error, NEAR)
        cheap = now.rows_in_zone < CHEAP_HESSIAN * n
        last = fresh and 4.0 * error**2 < tol
        found, tried = _line_search(
            problem,
            (z, tau, now),
            (dz, dtau),
            slope,
            not last and (cheap or not (reuse_hessian and good)),
            max_passes - passes,
        )
        passes, iterations, last_error = passes + tried, iterations + 1, error
        if found is None:
            return NewtonPoint(z, tau, now, curvature, error, iterations, passes)
        z, tau, now = found


def _line_search(
    problem: Problem,
    here: tuple[FloatArray, float, Objective],
    move: tuple[FloatArray, float],
    slope: float,
    hessian: bool,
    max_passes: int,
) -> tuple[tuple[FloatArray, float, Objective] | None, int]:
    """Return the first point down the move that decreases g enough, and the passes taken.

    None when the passes are used up or the decrease is below rounding.
    """
    (z, tau, now), (dz, dtau) = here, move
    rounding = 1e-13 * (problem.n + abs(now.value))
    step = 1.0
    if problem.theta is None and dz[-1] < 0.0:  # theta stays positive
        step = min(step, 0.8 * float(z[-1]) / -float(dz[-1]))
    for tried in range(1, max_passes + 1):
        trial = z.copy()
        trial[: dz.size] += step * dz
        after = problem.evaluate(trial, tau + step * dtau, hessian=hessian)
        if after.value <= now.value + ARMIJO * step * slope + rounding:
            return (trial, tau + step * dtau, after), tried
        step *= 0.4
    return None, max_passes
