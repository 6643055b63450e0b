r"""The convex fit at one tau, with proof: Newton where it works, the exact method where it does not.

The fit need not be unique: where no row has curvature along some direction, as with a category whose
few rows all lie beyond the zone, the loss is level along it as long as no row changes sides. The
analytic centre of that set (Sonnevend 1986), the point with the largest product of the distances at
which rows would change sides, is the same whatever the order of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

from qhreg._precision import INTERPOLATED, ROUNDING
from qhreg._typing import FloatArray
from qhreg.engine.rows import RowBlocks, chosen_rows, gram, residuals
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA, TauFit, proved_newton
from qhreg.solver.exact import exact_fit
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem

WIDER = 3.0
"""How much wider the zone of a fit is that a fit without proof is started from, if it is narrower."""

EDGE = 1e-7
"""Distance of psi from its bound, or of a row from the zone, that is the accuracy of a fit."""

STEPS = 60
"""Newton steps towards the centre; each either halves the error or is quadratic."""


def fit_at(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    warm: bool = False,
    accuracy: float = GAP_TOLERANCE,
    max_passes: int = 20,
) -> TauFit:
    """Return the convex fit at tau with its duality gap.

    Parameters
    ----------
    problem : Problem
        Any kappa >= 0.
    tau : float
        The asymmetry, fixed.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0.
    warm : bool
        Whether `start` is known to be close.
    accuracy : float
        Duality gap per unit of weight that is good enough.
    max_passes : int
        Passes that Newton's method may take before the interior-point method takes over.
    """
    n = problem.n
    attempt = _newton_fit(problem, tau, start, accuracy, max_passes)
    if attempt is not None and attempt.proved(n, accuracy):
        return attempt
    fit = exact_fit(problem, tau, start, warm=warm, accuracy=accuracy)
    if fit.proved(n, accuracy) and accuracy > GAP_TOLERANCE:
        return fit
    if max(fit.gap, ROUNDING * abs(fit.value)) > 0.01 * GAP_TOLERANCE * n:  # the last digits
        polished = _newton_fit(problem, tau, fit.z, GAP_TOLERANCE, 8)
        if polished is not None and polished.gap <= fit.gap:
            fit = replace(polished, passes=fit.passes + polished.passes)
    best = attempt if attempt is not None and attempt.gap < fit.gap else fit
    if best.proved(n, accuracy) or not TINY_KAPPA < problem.kappa < WIDER:
        return best
    wide = fit_at(replace(problem, kappa=WIDER * problem.kappa), tau, start)
    again = _newton_fit(problem, tau, wide.z, GAP_TOLERANCE, max_passes)
    if again is None or not again.proved(n):
        again = exact_fit(problem, tau, wide.z, warm=True)
    return min(best, again, key=lambda fit: fit.gap)


def _newton_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    accuracy: float,
    max_passes: int,
) -> TauFit | None:
    """Return the fit by Newton's method, or None when it did not get there."""
    if problem.kappa <= TINY_KAPPA:
        return None
    rough = accuracy > GAP_TOLERANCE
    tol = 0.1 * accuracy * min(tau, 1.0 - tau) if rough else None
    point = newton(problem, start, tau, tau_bounds=None, tol=tol, max_passes=max_passes)
    return proved_newton(problem, point)


# ---------------------------------------------------------------------- an optimum that is a set


def analytic_centre(problem: Problem, fit: TauFit) -> tuple[TauFit, FloatArray]:
    """Return the fit at the centre of its optimal set, and a basis of the set's directions.

    Parameters
    ----------
    problem : Problem
        The data.
    fit : TauFit
        A proved fit.

    Returns
    -------
    fit : TauFit
        The same loss, at the analytic centre; the given one where it is unique.
    directions : ndarray, shape (k - 1, d)
        Moves of the coefficients that change nothing; d = 0 where the fit is unique.
    """
    none = np.empty((fit.z.size - 1, 0))
    exact = problem.kappa <= TINY_KAPPA
    if exact and fit.rows_in_zone >= fit.z.size - 1:
        return fit, none
    free = _level_directions(problem, fit, exact=exact)
    if free.shape[1] == 0:
        return fit, none
    step = _centre(*_room(problem, fit, free))
    if step is None:
        return fit, none
    z = fit.z.copy()
    z[:-1] += free @ step
    return replace(fit, z=z), free


def _level_directions(problem: Problem, fit: TauFit, *, exact: bool) -> FloatArray:
    """Return an orthonormal basis of the directions along which no row inside the zone moves.

    Rows on the edge of the zone do not count: at an end of the optimal set one is there. At kappa = 0
    it is the interpolated rows that count.
    """
    curvature, least = fit.curvature, ROUNDING * (1.0 if exact else problem.n)
    if exact:
        reach = INTERPOLATED * float(fit.z[-1])
        curvature = _gram_between(problem, fit.z, -reach, reach)
    elif curvature is None or fit.slack < EDGE:
        low, high = problem.kappa * (EDGE - fit.tau), problem.kappa * (1.0 - EDGE - fit.tau)
        curvature = _gram_between(problem, fit.z, low, high) / problem.kappa
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray(vectors[:, values <= least])


def _gram_between(problem: Problem, z: FloatArray, low: float, high: float) -> FloatArray:
    """Return the sum of x x' over the rows with residuals between two values."""
    add: Any = partial(np.sum, axis=0)
    total: FloatArray = problem.rows.fold(_gram_inside, add, problem.to_rows(z), low, high)
    if problem.matrix is not None:
        total = problem.matrix.T @ total @ problem.matrix
    return total[:-1, :-1]


def _gram_inside(part: RowBlocks, raw: FloatArray, low: float, high: float) -> FloatArray:
    total = np.zeros((raw.size, raw.size))
    for block in part.blocks():
        u = residuals(block, raw)
        inside = np.flatnonzero((u >= low) & (u <= high))
        total += gram(chosen_rows(block._replace(weights=None), inside))
    return total


def _room(problem: Problem, fit: TauFit, free: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how the rows that bound the set move away from the zone, and how far they are from it."""
    columns = np.vstack([free, np.zeros((1, free.shape[1]))])
    both = np.column_stack([problem.to_rows(fit.z), problem.to_rows(columns)])
    room = problem.rows.fold(_moved, np.vstack, both, fit.tau, problem.kappa)
    return room[:, 1:], room[:, 0]


def _moved(part: RowBlocks, both: FloatArray, tau: float, kappa: float) -> FloatArray:
    """Return distance and moves of the rows of a part that move at all."""
    room = []
    for block in part.blocks():
        moved = residuals(block, both)
        moved = moved[np.abs(moved[:, 1:]).max(axis=1) > 1e-9]
        sign = np.where(moved[:, :1] > kappa * (0.5 - tau), 1.0, -1.0)
        moved *= sign
        moved[:, 0] -= kappa * np.where(sign[:, 0] > 0.0, 1.0 - tau, tau)
        room.append(moved)
    return np.vstack(room)


def _centre(rows: FloatArray, slack: FloatArray) -> FloatArray | None:
    """Return the step a that maximises the product of the distances slack + rows a.

    Newton's method from the centre of the largest ball in the set. None where there is no ball, so that
    the optimum is one point, and where the set has no end.
    """
    d = rows.shape[1]
    ball = np.column_stack([-rows, np.linalg.norm(rows, axis=1)])
    goal = np.append(np.zeros(d), -1.0)
    largest = linprog(goal, A_ub=ball, b_ub=slack, bounds=[(None, None)] * d + [(0.0, None)])
    centre = np.zeros(d + 1) if largest.x is None else np.asarray(largest.x)
    if largest.status != 0 or not centre[-1] > EDGE:
        return None
    step = centre[:-1]
    for _ in range(STEPS):
        scaled = rows / (slack + rows @ step)[:, None]
        gradient = scaled.sum(axis=0)
        direction = np.linalg.lstsq(scaled.T @ scaled, gradient, rcond=None)[0]
        length = float(np.sqrt(gradient @ direction))
        step = step + direction / (1.0 + length)  # the damped step of self-concordance
        if length < 1e-12:
            break
    return np.asarray(step) if np.isfinite(step).all() else None
