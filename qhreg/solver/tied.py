r"""The exact fit at kappa = 0 where many rows are interpolated at once: zeros, counts, rounded values.

With a zone of width h > 0 the same rows lie in it for every small h, and Newton's method has its
Hessian. Its dual point (QH-15) is one for kappa = 0 too, where only the box and X'(w v) = 0 are asked
for; its rows in the zone are the interpolated ones, and least squares of them moves z to the vertex.
No row needs a variable of its own, as it does in the interior-point method.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import chosen_rows, gram, residuals, weighted_columns
from qhreg.family.loss import quantile_loss
from qhreg.solver.dual import dual_value
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem
from qhreg.solver.taufit import TINY_KAPPA, TauFit, proved_newton

__all__ = ["CROWD", "TIED_WIDTH", "crowded", "tied_fit"]


TIED_WIDTH = 1e-6
"""Width, in units of sigma, of a zone in which no rows but tied ones are expected."""

CROWD = 20
"""Rows in the zone per unknown that Newton's method can work with in a narrower one too."""

TRIED = 5
"""Rows in the zone per unknown with which it is tried."""

SWEEPS = 2
"""Steps of least squares; the second removes the rounding of the first."""


def crowded(problem: Problem, tau: float, z: FloatArray) -> bool:
    """Return whether the zone at z has rows enough for Newton's method, by evenly spaced rows."""
    u = problem.some_residuals(z)
    width = max(problem.kappa, TIED_WIDTH)
    count = np.count_nonzero((u >= -width * tau) & (u <= width * (1.0 - tau)))
    return int(count) * problem.rows.n_rows >= TRIED * z.size * u.size


def tied_fit(
    problem: Problem, tau: float, start: FloatArray, *, keep: bool = False
) -> TauFit | None:
    """Return the fit by Newton's method, at kappa = 0 in a narrow zone and moved to the vertex.

    None where the zone at the start has few rows.

    Parameters
    ----------
    problem : Problem
        Any kappa >= 0.
    tau : float
        The asymmetry, fixed.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0.
    keep : bool
        Whether to keep the dual variable of every row.
    """
    if not crowded(problem, tau, start):
        return None
    width = problem.kappa if problem.kappa > TINY_KAPPA else TIED_WIDTH
    narrow = replace(problem, kappa=width)
    point = newton(narrow, start, tau, tau_bounds=None, max_passes=20)
    fit = proved_newton(narrow, point, keep=keep)
    return fit if fit is None or problem.kappa > TINY_KAPPA else _at_vertex(problem, narrow, fit)


def _at_vertex(problem: Problem, narrow: Problem, fit: TauFit) -> TauFit:
    """Return the fit at kappa = 0 that belongs to one of a narrow zone."""
    m, tau, theta = problem.m, fit.tau, problem.theta
    z = _interpolating(narrow, tau, fit.z)
    loss, excess, on_plane = _totals(problem, tau, z)
    if theta is None:  # at kappa = 0 the scale is the mean loss
        stretch = m / max(loss, 1e-300)
        z, loss, excess = z * stretch, loss * stretch, excess * stretch
    bound = float(dual_value(fit.dual.alignment, fit.dual.square, m, 0.0, theta))
    value = loss - m * float(np.log(z[-1]))
    dual = replace(fit.dual, value=bound)
    return TauFit(tau, z, value, excess, dual, on_plane, fit.passes + SWEEPS + 1, fit.iterations)


def _interpolating(narrow: Problem, tau: float, z: FloatArray) -> FloatArray:
    """Return z moved so that the rows in its zone are interpolated, as far as they can be."""
    k, r = narrow.rows.n_unknowns, z.size - 1
    z = z.copy()
    for _ in range(SWEEPS):
        raw, total, pull = narrow.to_rows(z), np.zeros((k, k)), np.zeros(k)
        for block in narrow.rows.blocks():
            u = residuals(block, raw)
            tied = np.flatnonzero((u >= -TIED_WIDTH * tau) & (u <= TIED_WIDTH * (1.0 - tau)))
            rows = chosen_rows(block._replace(weights=None), tied)
            total += gram(rows)
            pull += weighted_columns(rows, u[tied])
        if narrow.matrix is not None:
            total, pull = narrow.matrix.T @ total @ narrow.matrix, narrow.matrix.T @ pull
        z[:r] -= np.linalg.lstsq(total[:r, :r], pull[:r], rcond=1e-12)[0]
    return z


def _totals(problem: Problem, tau: float, z: FloatArray) -> tuple[float, float, int]:
    """Return the loss at kappa = 0, the sum of residuals, and the number of rows without one."""
    raw, loss, excess, on_plane = problem.to_rows(z), 0.0, 0.0, 0
    for block in problem.rows.blocks():
        u, w = residuals(block, raw), block.weights
        losses = quantile_loss(u, tau)
        loss += float(losses.sum() if w is None else losses @ w)
        excess += float(u.sum() if w is None else u @ w)
        on_plane += int(np.count_nonzero(np.abs(u) <= 1e-11))
    return loss, excess, on_plane
