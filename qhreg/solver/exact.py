r"""The exact fit at one tau where few rows lie in the quadratic zone, kappa = 0 included.

Rows far from the zone are taken as decided: their slope is known, and they enter as one linear term.
The rest are solved by the interior-point method, and the decisions are checked against the solution
(the preprocessing of Portnoy & Koenker 1997). At kappa = 0 the interpolated rows are then identified
and solved for exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg._precision import INTERPOLATED, ROUNDING
from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import weighted_columns
from qhreg.family.loss import quantile_huber_loss, quantile_loss, zone_part
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA, DualVector, TauFit, dual_from_rows
from qhreg.solver.interior import interior_point
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem, smoothing_width
from qhreg.solver.vertex import Undecided, unique_vertex, vertex_of

__all__ = ["exact_fit"]


EXACT = 1e-11
"""Accuracy of the interior-point method per unit of weight before a fit is moved to its vertex."""


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
        Whether to trust `start` in deciding rows; otherwise a fit with a smoothed loss comes first.
    keep : bool
        Whether to keep the dual variable of every row.
    accuracy : float
        Duality gap per unit of weight that is good enough.

    Notes
    -----
    The number of undecided rows starts at the order n^(2/3) and grows until every decision proves
    right. Rows once decided wrongly stay undecided: a row far out in the design may change sides with
    every new centre.
    """
    z, n_rows, passes = start, problem.rows.n_rows, 0
    count = int(n_rows ** (2 / 3) * np.sqrt(z.size))
    if count < n_rows and not warm:
        z, passes = _smoothed(problem, tau, start)
    doubtful = np.zeros(n_rows, dtype=np.bool_)
    while count < n_rows:
        undecided = _decide_rows(problem, tau, problem.residuals(z), count, doubtful)
        fit = _fit_undecided(problem, tau, z, undecided)
        passes += 3
        wrong = _wrongly_decided(tau, problem.kappa, undecided.side, problem.residuals(fit.z))
        if fit.proved(problem.n) and not wrong.any():
            return replace(_light(fit, undecided, keep=keep), passes=passes)
        if fit.proved(problem.n):
            z, doubtful = fit.z, doubtful | wrong
        count *= 2
    nothing = np.zeros(n_rows, dtype=np.bool_)
    undecided = _decide_rows(problem, tau, problem.residuals(z), n_rows, nothing)
    fit = _fit_all(problem, tau, z, undecided, accuracy)
    return replace(_light(fit, undecided, keep=keep), passes=passes + 1)


def _smoothed(problem: Problem, tau: float, start: FloatArray) -> tuple[FloatArray, int]:
    """Return a fit with a smoothed loss, or the start where that fails, and the passes it took."""
    width = smoothing_width(problem.kappa, problem.n, start.size - 1)
    point = newton(replace(problem, kappa=width), start, tau, tau_bounds=None, tol=1e-3)
    return (point.z if point.error < 0.1 else start), point.passes


def _decide_rows(
    problem: Problem, tau: float, u: FloatArray, count: int, doubtful: BoolArray
) -> Undecided:
    """Return the `count` rows nearest to the line, the doubtful ones, and the totals of the others."""
    reach = np.inf
    if count < u.size:
        size = np.abs(u)
        size.partition(count)
        reach = max(float(size[count]), problem.kappa)
        del size
    side = np.zeros(u.size, dtype=np.int8)
    side[u > reach], side[u < -reach] = 1, -1
    side[doubtful] = 0
    linear, outside = np.zeros((2, problem.rows.n_unknowns))
    start, total, square = 0, 0.0, 0.0
    for block in problem.rows.blocks():
        part = side[start : start + block.exog.shape[0]]
        start += part.size
        psi = np.where(part > 0, 1.0 - tau, np.where(part < 0, -tau, 0.0))
        total += _sum(psi, block.weights)
        square += _sum(psi * psi, block.weights)
        linear += weighted_columns(block, _times(psi, block.weights))
        outside += weighted_columns(block, _times(np.abs(part, dtype=np.float64), block.weights))
    if problem.matrix is not None:
        linear, outside = problem.matrix.T @ linear, problem.matrix.T @ outside
    return Undecided(*_gathered(problem, side), linear, outside, total, square, side)


def _times(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    return values if weights is None else values * weights


def _gathered(problem: Problem, side: npt.NDArray[np.int8]) -> tuple[FloatArray, FloatArray | None]:
    """Return the rows that no side is taken for, in the coordinates of the problem; their weights."""
    rows, matrix = problem.rows, problem.matrix
    m = side.size - int(np.count_nonzero(side))
    design = np.empty((m, rows.n_unknowns if matrix is None else matrix.shape[1]))
    weights: list[FloatArray] = []
    start = end = 0
    for block in rows.blocks():
        size = block.exog.shape[0]
        if m == size == side.size and matrix is None and block.endog is None:
            return block.exog, block.weights
        chosen = np.flatnonzero(side[start : start + size] == 0)
        start += size
        if block.weights is not None:
            weights.append(block.weights[chosen])
        part = block.exog[chosen]
        if block.endog is not None:
            part = np.column_stack([part, block.endog[chosen]])
        begin, end = end, end + chosen.size
        design[begin:end] = part if matrix is None else part @ matrix
    return design, np.concatenate(weights) if weights else None


@np.errstate(over="ignore", invalid="ignore")  # an unbounded reduced problem ends at infinity
def _proved(
    problem: Problem, undecided: Undecided, z: FloatArray, v: FloatArray, tau: float, steps: int
) -> TauFit:
    """Return the fit at z with the bound that v gives."""
    m, kappa, w = problem.m, problem.kappa, undecided.weights
    u = undecided.design @ z
    loss = _sum(quantile_huber_loss(u, tau, kappa), w)
    loss += float(undecided.linear @ z) - 0.5 * kappa * undecided.square
    beyond = np.subtract(u, zone_part(u, tau, kappa), out=u)
    excess = _sum(beyond, w) + float(undecided.outside @ z) - kappa * undecided.slope
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


def _sum(values: npt.NDArray[Any], weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else values @ weights)


def _same_vertex(
    problem: Problem, tau: float, start: FloatArray, undecided: Undecided
) -> TauFit | None:
    """Return the fit at the vertex where it starts, if that is the only best point."""
    if problem.theta is not None and start[-1] != problem.theta:
        return None
    made = unique_vertex(undecided, start, tau)
    z = None if made is None else _with_mean_loss(problem, undecided, made.z, tau)
    if made is None or z is None:
        return None
    fit = _proved(problem, undecided, z, made.v, tau, 0)
    return fit if fit.proved(problem.n) else None


def _fit_undecided(
    problem: Problem, tau: float, start: FloatArray, undecided: Undecided, tol: float = EXACT
) -> TauFit:
    """Return the fit by the interior-point method; at kappa = 0 one that is not rough is a vertex."""
    width = problem.kappa if problem.kappa > TINY_KAPPA else 0.0
    if width == 0.0:
        same = _same_vertex(problem, tau, start, undecided)
        if same is not None:
            return same
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
    z = inner.z if width > 0.0 else _with_mean_loss(problem, undecided, inner.z, tau)

    def inner_fit() -> TauFit:
        point = inner.z if z is None else z
        return _proved(problem, undecided, point, inner.v, tau, inner.iterations)

    if width > 0.0 or not inner.converged or tol > EXACT:
        return inner_fit()
    vertex, v = vertex_of(undecided, inner.z, inner.v, tau)
    if np.abs(undecided.design @ (vertex - inner.z)).max(initial=0.0) > INTERPOLATED * inner.z[-1]:
        return inner_fit()  # a face of optima: its corner is no better than its inside
    corner = _with_mean_loss(problem, undecided, vertex, tau)
    if corner is None:
        return inner_fit()
    exact = _proved(problem, undecided, corner, v, tau, inner.iterations)
    allowed = 1e-10 * problem.n  # the accuracy of the inner method
    if exact.gap <= allowed:
        return exact
    fit = inner_fit()
    if not exact.value <= fit.value + allowed:
        return fit
    return exact if exact.dual.value >= fit.dual.value else replace(exact, dual=fit.dual)


def _with_mean_loss(
    problem: Problem, undecided: Undecided, z: FloatArray, tau: float
) -> FloatArray | None:
    """Return z with the best scale at kappa = 0, the mean loss; None if that is not positive."""
    if problem.theta is not None:
        return z
    loss = _sum(quantile_loss(undecided.design @ z, tau), undecided.weights)
    total = loss + float(undecided.linear @ z)
    if not total > ROUNDING * loss:  # rows taken for decided are on the other side
        return None
    return np.asarray(z * (problem.m / total))


def _wrongly_decided(
    tau: float, width: float, side: npt.NDArray[np.int8], u: FloatArray
) -> BoolArray:
    """Tell the decided rows that do not lie beyond the zone on the side they were taken to."""
    above = (side > 0) & (u < width * (1.0 - tau))
    below = (side < 0) & (u > -width * tau)
    return np.asarray(above | below)


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


def _light(fit: TauFit, undecided: Undecided, *, keep: bool) -> TauFit:
    """Return the fit without the dual variables of the undecided rows, or with those of all rows."""
    dual, kept = fit.dual, None
    if keep and dual.v is not None:
        low, high = -fit.tau / dual.overshoot, (1.0 - fit.tau) / dual.overshoot
        kept = DualVector(undecided.side, low, high, dual.v)
    return replace(fit, dual=replace(dual, v=None, kept=kept))
