r"""The exact fit at one tau where few rows lie in the quadratic zone, kappa = 0 included.

Rows far from the zone are taken as decided: their slope is known, and they enter as one linear term.
The rest are solved by the interior-point method, and the decisions are checked against the solution.
At kappa = 0 the interpolated rows are then identified and solved for exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from qhreg.dual import DualPoint, dual_from_rows
from qhreg.interior import interior_point
from qhreg.loss import loss_and_slope, zone_part
from qhreg.newton import newton
from qhreg.problem import Problem
from qhreg.rows import residuals, weighted_columns
from qhreg.taufit import GAP_TOLERANCE, TINY_KAPPA, TauFit

__all__ = ["exact_fit"]

FloatArray = npt.NDArray[np.float64]

FEW_ROWS = 20
"""Rows in the zone per unknown below which a narrower zone would starve Newton's method."""

SPACED_ROWS = 20_000
"""Rows from which the reach of the undecided ones is estimated."""

ROUGH = 1e-6
"""Accuracy per unit of weight above which the interior-point method may stop early."""

ALL_ROWS = 1000
"""With at most this many rows none is decided in advance."""


@dataclass(frozen=True)
class _Undecided:
    """Rows near the zone in memory, and the sums over the others, whose slope is known.

    Attributes
    ----------
    design, weights : ndarray of shape (m, k), ndarray of shape (m,) or None
        The undecided rows in the coordinates of the problem.
    linear : ndarray, shape (k,)
        sum w psi W over the decided rows.
    outside : ndarray, shape (k,)
        sum w W over the decided rows.
    slope, square : float
        sum w psi and sum w psi^2 over the decided rows.
    side : ndarray of int8, shape (n,)
        Zero for the undecided rows, the sign of the residual the others are taken to have.
    """

    design: FloatArray
    weights: FloatArray | None
    linear: FloatArray
    outside: FloatArray
    slope: float
    square: float
    side: npt.NDArray[np.int8]


def _decide_rows(problem: Problem, tau: float, z: FloatArray, reach: float) -> _Undecided:
    """Return the rows within reach of the zone and the totals of the others, in one pass."""
    k = problem.rows.n_unknowns
    raw = problem.to_rows(z)
    linear, outside = np.zeros(k), np.zeros(k)
    slope_sum = square = 0.0
    designs, weights, sides = [], [], []
    for block in problem.rows.blocks():
        u = residuals(block, raw)
        side = (u > reach).astype(np.int8) - (u < -reach).astype(np.int8)
        sides.append(side)
        chosen = np.flatnonzero(side == 0)
        design = block.exog[chosen]
        if block.endog is not None:
            design = np.column_stack([design, block.endog[chosen]])
        designs.append(design @ problem.matrix if problem.matrix is not None else design)
        decided = np.abs(side).astype(np.float64)
        slope = np.where(side > 0, 1.0 - tau, -tau * decided)
        if block.weights is not None:
            weights.append(block.weights[chosen])
            decided *= block.weights
        linear += weighted_columns(block, decided * slope)
        outside += weighted_columns(block, decided)
        slope_sum += float(decided @ slope)
        square += float((decided * slope) @ slope)
    if problem.matrix is not None:
        linear, outside = problem.matrix.T @ linear, problem.matrix.T @ outside
    design = np.concatenate(designs)
    w = np.concatenate(weights) if weights else None
    return _Undecided(design, w, linear, outside, slope_sum, square, np.concatenate(sides))


def _vertex(
    undecided: _Undecided, z: FloatArray, v: FloatArray, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Return (z, v) with as many rows interpolated exactly as there are coefficients.

    The interpolated rows have slack in v and a small residual; their v follows from X'(w v) = 0 when
    the vertex is not degenerate. Where a whole face is optimal no row has slack, and the nearest rows
    lead to one of its corners.
    """
    r = z.size - 1
    if r == 0:
        return z, v
    slack = np.maximum(np.minimum(v + tau, 1.0 - tau - v), 1e-15)
    claim = slack / (np.abs(undecided.design @ z) + 1e-15)
    candidates = np.argsort(-claim)[: max(4 * r, r + 10)]
    ranked = undecided.design[candidates, :-1] * claim[candidates, None]
    basic = candidates[qr(ranked.T, mode="r", pivoting=True)[-1][:r]]
    square = undecided.design[basic, :-1]
    try:
        z = np.append(np.linalg.solve(square, -z[-1] * undecided.design[basic, -1]), z[-1])
        exact = np.where(undecided.design @ z > 0.0, 1.0 - tau, -tau)
        exact[basic] = 0.0
        w = np.ones(v.size) if undecided.weights is None else undecided.weights
        rest = undecided.design[:, :-1].T @ (w * exact) + undecided.linear[:-1]
        exact[basic] = np.linalg.solve(square.T, -rest) / w[basic]
    except np.linalg.LinAlgError:
        return z, v
    room = 1e-12 * min(tau, 1.0 - tau)
    inside = exact[basic].min() >= -tau - room and exact[basic].max() <= 1.0 - tau + room
    return z, exact if inside else v


@np.errstate(over="ignore", invalid="ignore")  # an unbounded reduced problem ends at infinity
def _proved(
    problem: Problem, undecided: _Undecided, z: FloatArray, v: FloatArray, tau: float, steps: int
) -> TauFit:
    """Return the fit at z with the bound that v gives."""
    n, kappa, w = problem.n, problem.kappa, undecided.weights
    u = undecided.design @ z
    loss = _sum(loss_and_slope(u, tau, kappa)[0], w)
    loss += float(undecided.linear @ z) - 0.5 * kappa * undecided.square
    beyond = u - zone_part(u, tau, kappa)
    excess = _sum(beyond, w) + float(undecided.outside @ z) - kappa * undecided.slope
    dual = dual_from_rows(
        undecided.design,
        v,
        tau,
        kappa,
        n,
        theta=problem.theta,
        weights=w,
        linear=undecided.linear,
        square_decided=undecided.square,
    )
    in_zone = int(np.count_nonzero(np.abs(beyond) <= 1e-11))
    value = loss - n * float(np.log(z[-1]))
    return TauFit(tau, z, value, excess, dual, in_zone, 0, steps)


def _sum(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else values @ weights)


def _fit_undecided(
    problem: Problem, tau: float, start: FloatArray, undecided: _Undecided, tol: float = 1e-11
) -> TauFit:
    """Return the fit by the interior-point method, at kappa = 0 moved to the vertex."""
    width = problem.kappa if problem.kappa > TINY_KAPPA else 0.0
    inner = interior_point(
        undecided.design,
        tau,
        width,
        n=problem.n,
        start=start,
        free_theta=problem.theta is None and width > 0.0,
        weights=undecided.weights,
        linear=undecided.linear,
        tol=tol,
    )
    fit = _proved(problem, undecided, inner.z, inner.v, tau, inner.iterations)
    if width > 0.0 or not inner.converged:
        return fit
    z, v = _vertex(undecided, inner.z, inner.v, tau)
    if problem.theta is None:  # at kappa = 0 the scale is the mean loss
        u = undecided.design @ z
        loss = _sum(loss_and_slope(u, tau, 0.0)[0], undecided.weights)
        z = z * (problem.n / max(loss + float(undecided.linear @ z), 1e-300))
    exact = _proved(problem, undecided, z, v, tau, inner.iterations)
    if not exact.value <= fit.value + 1e-10 * problem.n:  # to the accuracy of the inner method
        return fit
    return exact if exact.dual.value >= fit.dual.value else replace(exact, dual=fit.dual)


def _narrowing_fit(problem: Problem, tau: float, start: FloatArray) -> tuple[FloatArray, int]:
    """Return a rough fit found by narrowing the zone from kappa = 1, and the passes it took."""
    z, passes, width = start, 0, 1.0
    while width > problem.kappa:
        wide = replace(problem, kappa=width)
        point = newton(wide, z, tau, tau_bounds=None, tol=1e-3, max_passes=40)
        passes += point.passes
        if not point.error < 0.1:
            break
        z = point.z
        if point.objective.rows_in_zone < FEW_ROWS * z.size:
            break
        width *= 0.2
    return z, passes


def _rightly_decided(problem: Problem, tau: float, undecided: _Undecided, z: FloatArray) -> bool:
    """Return whether every decided row lies beyond the zone on the side it was taken to."""
    raw, width, start = problem.to_rows(z), problem.kappa, 0
    for block in problem.rows.blocks():
        u = residuals(block, raw)
        side = undecided.side[start : start + u.size]
        start += u.size
        wrong = (side > 0) & (u < width * (1.0 - tau)) | (side < 0) & (u > -width * tau)
        if wrong.any():
            return False
    return True


def _fit_all(
    problem: Problem, tau: float, start: FloatArray, undecided: _Undecided, accuracy: float
) -> TauFit:
    """Return the fit with every row undecided; from a neutral start when the given one misleads."""
    if accuracy > ROUGH:
        fit = _fit_undecided(problem, tau, start, undecided, 0.1 * accuracy)
        if fit.proved(problem.n, accuracy):
            return fit
    fit = _fit_undecided(problem, tau, start, undecided)
    if fit.proved(problem.n):
        return fit
    neutral = np.append(np.zeros(start.size - 1), start[-1])
    return min(fit, _fit_undecided(problem, tau, neutral, undecided), key=lambda f: f.gap)


def _reach(problem: Problem, z: FloatArray, count: int) -> float:
    """Return the size of residual that about `count` rows stay below, from evenly spaced rows."""
    raw, rows = problem.to_rows(z), problem.rows
    every = max(1, rows.n_rows // SPACED_ROWS)
    spaced = np.abs(np.concatenate([residuals(b, raw)[::every] for b in rows.blocks()]))
    rank = min(int(count * spaced.size / rows.n_rows), spaced.size - 1)
    return float(np.partition(spaced, rank)[rank])


def _all_duals(fit: TauFit, undecided: _Undecided) -> DualPoint:
    """Return the dual point with the variables of the decided rows beside the others'."""
    v = np.where(undecided.side > 0, 1.0 - fit.tau, -fit.tau)
    v[undecided.side == 0] = fit.dual.v
    return replace(fit.dual, v=v)


def exact_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    warm: bool,
    keep: bool = False,
    accuracy: float = GAP_TOLERANCE,
) -> TauFit:
    """Return the fit at tau without the help of a Hessian.

    Parameters
    ----------
    problem : Problem
        Any kappa >= 0.
    tau : float
        The asymmetry, fixed.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0.
    warm : bool
        Whether to trust `start` in deciding rows; otherwise, and when that fails, a rough fit at
        wider zones comes first.
    keep : bool
        Whether to keep the dual variable of every row.
    accuracy : float
        Duality gap per unit of weight that is good enough.

    Notes
    -----
    The number of undecided rows starts at the order n^(2/3), as in the preprocessing of Portnoy and
    Koenker (1997), and grows until every decision proves right.
    """
    z, n_rows, passes = start, problem.rows.n_rows, 0
    count = min(n_rows, max(ALL_ROWS, int(0.5 * n_rows ** (2 / 3) * np.sqrt(z.size))))
    if count < n_rows and not warm:
        z, passes = _narrowing_fit(problem, tau, start)
    while count < n_rows:
        undecided = _decide_rows(problem, tau, z, _reach(problem, z, count))
        fit = _fit_undecided(problem, tau, z, undecided)
        passes += 2
        if fit.proved(problem.n):
            z, passes = fit.z, passes + 1
            if _rightly_decided(problem, tau, undecided, z):
                dual = _all_duals(fit, undecided) if keep else replace(fit.dual, v=None)
                return replace(fit, dual=dual, passes=passes)
            count = 3 * count // 2  # the new centre is the better part of the remedy
        elif warm:
            return exact_fit(problem, tau, start, warm=False, keep=keep)
        else:
            count *= 3
    undecided = _decide_rows(problem, tau, z, np.inf)
    return replace(_fit_all(problem, tau, z, undecided, accuracy), passes=passes + 1)
