r"""The exact fit at one tau where few rows lie in the quadratic zone, kappa = 0 included.

Rows far from the zone are taken as decided: their slope is known, and they enter as one linear term.
The rest are solved by the interior-point method, and the decisions are checked against the solution
(the preprocessing of Portnoy & Koenker 1997). At kappa = 0 the interpolated rows are then identified
and solved for exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqp3

from qhreg._precision import INTERPOLATED, ROUNDING, VANISHING
from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import (
    Block,
    RowBlocks,
    chosen_rows,
    residuals,
    weighted,
    weighted_columns,
    weighted_sum,
)
from qhreg.family.loss import quantile_huber_loss, quantile_loss, zone_part
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA, TauFit, dual_from_rows
from qhreg.solver.interior import interior_point
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem, smoothing_width

EXACT = 1e-11
"""Accuracy of the interior-point method per unit of weight before a fit is moved to its vertex."""


@dataclass(frozen=True)
class Undecided:
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
    """

    design: FloatArray
    weights: FloatArray | None
    linear: FloatArray
    outside: FloatArray
    slope: float
    square: float


def exact_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    warm: bool,
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
        Whether to trust `start` in deciding rows; otherwise a fit with a smoothed loss comes first.
    accuracy : float
        Duality gap per unit of weight that is good enough.

    Notes
    -----
    The number of undecided rows starts at the order n^(2/3) and doubles until every decision proves
    right.
    """
    z, n_rows, passes = start, problem.rows.n_rows, 0
    count = int(n_rows ** (2 / 3) * np.sqrt(z.size))
    if count < n_rows and not warm:
        z, passes = _smoothed(problem, tau, start)
    while count < n_rows:
        centre = problem.to_rows(z)
        decision = Decision(centre, _reach(problem, centre, count), tau, problem.kappa)
        fit = _fit_undecided(problem, tau, z, _decide_rows(problem, decision))
        passes += 3
        if fit.proved(problem.n):
            z = fit.z
            if not problem.rows.fold(_any_wrong, any, decision, problem.to_rows(z)):
                return replace(fit, passes=passes)
        count *= 2
    none = Decision(problem.to_rows(z), np.inf, tau, problem.kappa)
    fit = _fit_all(problem, tau, z, _decide_rows(problem, none), accuracy)
    return replace(fit, passes=passes + 1)


class Decision(NamedTuple):
    """Which rows are taken as decided: those further than `reach` from the line.

    Attributes
    ----------
    centre : ndarray, shape (k,)
        The point that rows are decided at, in the coordinates of the rows.
    reach : float
        Distance from the line there beyond which rows are decided.
    tau, kappa : float
        Asymmetry and width.
    """

    centre: FloatArray
    reach: float
    tau: float
    kappa: float

    def sides(self, block: Block) -> tuple[BoolArray, BoolArray]:
        """Return which rows are taken to lie above the zone, and which below it."""
        u = residuals(block, self.centre)
        return u > self.reach, u < -self.reach


def _reach(problem: Problem, centre: FloatArray, count: int) -> float:
    """Return the distance from the line within which the `count` nearest rows lie."""
    sizes = problem.rows.fold(_sizes, partial(_nearest, count=count), centre, count)
    return max(float(sizes[count]), problem.kappa)


def _sizes(part: RowBlocks, centre: FloatArray, count: int) -> FloatArray:
    return _nearest([np.abs(residuals(block, centre)) for block in part.blocks()], count)


def _nearest(sizes: Sequence[FloatArray], count: int) -> FloatArray:
    """Return the count + 1 least values, the largest of them last."""
    every = np.concatenate(sizes)
    if every.size > count:
        every.partition(count)
    return every[: count + 1]


def _smoothed(problem: Problem, tau: float, start: FloatArray) -> tuple[FloatArray, int]:
    """Return a fit with a smoothed loss, or the start where that fails, and the passes it took."""
    width = smoothing_width(problem.kappa, problem.n, start.size - 1)
    point = newton(replace(problem, kappa=width), start, tau, tau_bounds=None, tol=1e-3)
    return (point.z if point.error < 0.1 else start), point.passes


def _decide_rows(problem: Problem, decision: Decision) -> Undecided:
    """Return the rows that no side is taken for, and the totals of the others."""
    return problem.rows.fold(_undecided, _all_undecided, decision, problem.matrix)


def _undecided(part: RowBlocks, decision: Decision, matrix: FloatArray | None) -> Undecided:
    """Return the undecided rows of a part in the coordinates of the problem, and the totals."""
    tau = decision.tau
    linear, outside = np.zeros((2, part.n_unknowns))
    total = square = 0.0
    designs, weights = [], []
    for block in part.blocks():
        above, below = decision.sides(block)
        psi = (1.0 - tau) * above - tau * below
        total += weighted_sum(psi, block.weights)
        square += weighted_sum(psi * psi, block.weights)
        linear += weighted_columns(block, weighted(psi, block.weights))
        outside += weighted_columns(
            block, weighted((above | below).astype(np.float64), block.weights)
        )
        near = chosen_rows(block, np.flatnonzero(~(above | below)))
        design = near.exog if near.endog is None else np.column_stack([near.exog, near.endog])
        designs.append(design if matrix is None else design @ matrix)
        if near.weights is not None:
            weights.append(near.weights)
    if matrix is not None:
        linear, outside = matrix.T @ linear, matrix.T @ outside
    every = np.concatenate(weights) if weights else None
    return Undecided(np.concatenate(designs), every, linear, outside, total, square)


def _all_undecided(parts: Sequence[Undecided]) -> Undecided:
    weights = [part.weights for part in parts if part.weights is not None]
    return Undecided(
        np.concatenate([part.design for part in parts]),
        np.concatenate(weights) if weights else None,
        np.sum([part.linear for part in parts], axis=0),
        np.sum([part.outside for part in parts], axis=0),
        sum(part.slope for part in parts),
        sum(part.square for part in parts),
    )


def _any_wrong(part: RowBlocks, decision: Decision, fit: FloatArray) -> bool:
    """Return whether a decided row of a part is not beyond the zone on its side at a fit."""
    tau, kappa = decision.tau, decision.kappa
    for block in part.blocks():
        (above, below), u = decision.sides(block), residuals(block, fit)
        if (above & (u < kappa * (1.0 - tau)) | below & (u > -kappa * tau)).any():
            return True
    return False


@np.errstate(over="ignore", invalid="ignore")  # an unbounded reduced problem ends at infinity
def _proved(
    problem: Problem, undecided: Undecided, z: FloatArray, v: FloatArray, tau: float, steps: int
) -> TauFit:
    """Return the fit at z with the bound that v gives."""
    m, kappa, w = problem.m, problem.kappa, undecided.weights
    u = undecided.design @ z
    loss = weighted_sum(quantile_huber_loss(u, tau, kappa), w)
    loss += float(undecided.linear @ z) - 0.5 * kappa * undecided.square
    beyond = np.subtract(u, zone_part(u, tau, kappa), out=u)
    excess = weighted_sum(beyond, w) + float(undecided.outside @ z) - kappa * undecided.slope
    dual = dual_from_rows(
        undecided.design,
        v,
        tau,
        kappa,
        m,
        theta=problem.theta,
        weights=w,
        linear=undecided.linear,
        square_decided=undecided.square,
    )
    in_zone = int(np.count_nonzero(np.abs(beyond) <= 1e-11))
    value = loss - m * float(np.log(z[-1]))
    return TauFit(tau, z, value, excess, dual, in_zone, 0, steps)


def _fit_undecided(
    problem: Problem, tau: float, start: FloatArray, undecided: Undecided, tol: float = EXACT
) -> TauFit:
    """Return the fit by the interior-point method; at kappa = 0 one that is not rough is a vertex."""
    width = problem.kappa if problem.kappa > TINY_KAPPA else 0.0
    if width == 0.0:  # the vertex where it starts, if that is the only best point
        same = _vertex(undecided, start, np.ones(undecided.design.shape[0]), tau)
        if same is not None and same.slack > VANISHING * min(tau, 1.0 - tau):
            z = _with_mean_loss(problem, undecided, same.z, tau)
            fit = _proved(problem, undecided, z, same.v, tau, 0)
            if fit.proved(problem.n):
                return fit
    inner = interior_point(
        undecided.design,
        tau,
        width,
        m=problem.m,
        start=start,
        free_theta=problem.theta is None and width > 0.0,
        weights=undecided.weights,
        linear=undecided.linear,
        tol=tol,
    )
    if width > 0.0:
        return _proved(problem, undecided, inner.z, inner.v, tau, inner.iterations)
    z = _with_mean_loss(problem, undecided, inner.z, tau)
    fit = _proved(problem, undecided, z, inner.v, tau, inner.iterations)
    if not inner.converged or tol > EXACT:
        return fit
    vertex = _vertex(undecided, inner.z, np.minimum(inner.v + tau, 1.0 - tau - inner.v), tau)
    if vertex is None:
        return fit
    moved = np.abs(undecided.design @ (vertex.z - inner.z)).max()
    if moved > INTERPOLATED * inner.z[-1]:
        return fit  # a face of optima: its corner is no better than its inside
    corner = _with_mean_loss(problem, undecided, vertex.z, tau)
    v = vertex.v if vertex.slack >= -VANISHING * min(tau, 1.0 - tau) else inner.v
    exact = _proved(problem, undecided, corner, v, tau, inner.iterations)
    if not exact.value <= fit.value + 1e-10 * problem.n:  # the accuracy of the inner method
        return fit
    return exact if exact.dual.value >= fit.dual.value else replace(exact, dual=fit.dual)


def _with_mean_loss(
    problem: Problem, undecided: Undecided, z: FloatArray, tau: float
) -> FloatArray:
    """Return z with the best scale at kappa = 0, the mean loss, where that is positive."""
    if problem.theta is not None:
        return z
    loss = weighted_sum(quantile_loss(undecided.design @ z, tau), undecided.weights)
    total = loss + float(undecided.linear @ z)
    if not total > ROUNDING * loss:  # rows taken for decided are on the other side
        return z
    return np.asarray(z * (problem.m / total))


def _fit_all(
    problem: Problem, tau: float, start: FloatArray, undecided: Undecided, accuracy: float
) -> TauFit:
    """Return the fit with every row undecided; from a neutral start when the given one misleads."""
    if accuracy > GAP_TOLERANCE:
        fit = _fit_undecided(problem, tau, start, undecided, 0.1 * accuracy)
        if fit.proved(problem.n, accuracy):
            return fit
    fit = _fit_undecided(problem, tau, start, undecided)
    if fit.proved(problem.n):
        return fit
    neutral = np.append(np.zeros(start.size - 1), start[-1])
    return min(fit, _fit_undecided(problem, tau, neutral, undecided), key=lambda f: f.gap)


class Vertex(NamedTuple):
    """A point with as many rows interpolated as there are coefficients, and its dual variables.

    Attributes
    ----------
    z, v : ndarray of shape (k,), ndarray of shape (m,)
        The point; the dual variables of the undecided rows, from X'(w v) = 0.
    slack : float
        How far those of the interpolated rows are inside their bounds at the least: where it is
        positive the point is the only best one at kappa = 0.
    """

    z: FloatArray
    v: FloatArray
    slack: float


def _vertex(undecided: Undecided, z: FloatArray, slack: FloatArray, tau: float) -> Vertex | None:
    """Return the vertex near z, None if its rows depend.

    Interpolated rows have slack in their dual variables and a small residual. Where a whole face is
    optimal no row has slack, and the nearest rows lead to one of its corners.
    """
    r = z.size - 1
    if r == 0:
        return None
    claim = np.maximum(slack, 1e-15) / (np.abs(undecided.design @ z) + 1e-15)
    candidates = np.argsort(np.negative(claim))[: max(4 * r, r + 10)]
    ranked = undecided.design[candidates, :-1]
    ranked *= claim[candidates, None]
    basic = candidates[dgeqp3(ranked.T, overwrite_a=True)[1][:r] - 1]
    square = undecided.design[basic, :-1]
    try:
        z = np.append(np.linalg.solve(square, -z[-1] * undecided.design[basic, -1]), z[-1])
        v = np.where(undecided.design @ z > 0.0, 1.0 - tau, -tau)
        v[basic] = 0.0
        w = undecided.weights
        rest = weighted(v, w) @ undecided.design[:, :-1]
        inner = np.linalg.solve(square.T, -rest - undecided.linear[:-1])
    except np.linalg.LinAlgError:
        return None
    v[basic] = inner = inner if w is None else inner / w[basic]
    return Vertex(z, v, float(min(inner.min() + tau, 1.0 - tau - inner.max())))
