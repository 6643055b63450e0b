r"""The centre of an optimum that is a set.

A convex fit at fixed tau need not be unique: where no row has curvature along some direction, as with a
category whose few rows all lie beyond the zone, the loss is level along it as long as no row changes
sides. The analytic centre of that set (Sonnevend 1986), the point with the largest product of the
distances at which rows would change sides, is the same whatever the order of the rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import chosen_rows, gram, residuals
from qhreg.solver.dual import TINY_KAPPA, TauFit
from qhreg.solver.problem import Problem

__all__ = ["analytic_centre"]

LEVEL = 1e-12
"""Curvature of a direction per unit of weight, in orthonormal coordinates, that is rounding."""

INTERPOLATED = 1e-6
"""Residual, in mean ones, below which a row at kappa = 0 counts as interpolated."""

STEPS = 60
"""Newton steps towards the centre; each either halves the error or is quadratic."""


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
    free = _uninterpolated(problem, fit) if exact else _level_directions(problem, fit)
    if free.shape[1] == 0:
        return fit, none
    moves, low, high = _room(problem, fit, free)
    step = _centre(moves, low, high)
    if step is None:
        return fit, free
    z = fit.z.copy()
    z[:-1] += free @ step
    return replace(fit, z=z), free


def _level_directions(problem: Problem, fit: TauFit) -> FloatArray:
    """Return an orthonormal basis of the directions without curvature."""
    curvature = fit.curvature
    if curvature is None:
        hessian = problem.evaluate(fit.z, fit.tau).d2_z
        assert hessian is not None
        curvature = hessian[:-1, :-1]
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray(vectors[:, values <= LEVEL * problem.n])


def _uninterpolated(problem: Problem, fit: TauFit) -> FloatArray:
    """Return an orthonormal basis of the directions along which no interpolated row moves."""
    raw, size = problem.to_rows(fit.z), fit.z.size
    total = np.zeros((size, size))
    for block in problem.rows.blocks():
        on_line = np.flatnonzero(np.abs(residuals(block, raw)) <= INTERPOLATED * fit.z[-1])
        rows = gram(chosen_rows(block._replace(weights=None), on_line))
        total += rows if problem.matrix is None else problem.matrix.T @ rows @ problem.matrix
    values, vectors = np.linalg.eigh(total[:-1, :-1])
    return np.asarray(vectors[:, values <= LEVEL])


def _room(
    problem: Problem, fit: TauFit, free: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how the rows that bound the set move along it, and how far they may."""
    kappa, tau = problem.kappa, fit.tau
    raw = problem.to_rows(fit.z)
    columns = np.vstack([free, np.zeros((1, free.shape[1]))])
    directions = columns if problem.matrix is None else problem.matrix @ columns
    moves, low, high = [], [], []
    for block in problem.rows.blocks():
        u = residuals(block, raw)
        w = block.exog if block.endog is None else np.column_stack([block.exog, block.endog])
        moved = w @ directions
        some = np.abs(moved).max(axis=1) > 1e-9
        u = u[some]
        above = u >= kappa * (1.0 - tau)
        moves.append(moved[some])
        low.append(np.where(above, u - kappa * (1.0 - tau), np.inf))
        high.append(np.where(above, np.inf, -kappa * tau - u))
    return np.vstack(moves), np.concatenate(low), np.concatenate(high)


def _centre(moves: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray | None:
    """Return the step that maximises the product of the distances low + m'a or high - m'a.

    None where a row leaves no room, or the set has no end.
    """
    slack = np.minimum(low, high)
    signs = np.where(np.isfinite(low), 1.0, -1.0)
    rows = signs[:, None] * moves
    if slack.size == 0 or float(slack.min()) <= 0.0 or np.linalg.matrix_rank(rows) < rows.shape[1]:
        return None
    step = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        scaled = rows / (slack + rows @ step)[:, None]
        gradient = scaled.sum(axis=0)
        direction = np.linalg.lstsq(scaled.T @ scaled, gradient, rcond=None)[0]
        length = float(np.sqrt(gradient @ direction))
        step = step + direction / (1.0 + length)  # the damped step of self-concordance
        if length < 1e-12:
            return step
        if not np.isfinite(step).all() or np.abs(step).max() > 1e12 * (1.0 + slack.max()):
            return None
    return step
