r"""The exact fit at one tau where few rows lie in the quadratic zone, kappa = 0 included.

Rows far from the zone are taken as decided: their slope is known, and they enter as one linear term.
The rest are solved by the interior-point method, and the decisions are checked against the solution.
At kappa = 0 the interpolated rows are then identified and solved for exactly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import residuals, weighted_columns
from qhreg.family.loss import quantile_huber_loss, quantile_loss, zone_part
from qhreg.solver.dual import DualVector, dual_from_rows
from qhreg.solver.interior import interior_point
from qhreg.solver.newton import NewtonPoint, newton, solve_positive
from qhreg.solver.problem import Problem
from qhreg.solver.taufit import GAP_TOLERANCE, TINY_KAPPA, TauFit
from qhreg.solver.tied import CROWD, TIED_WIDTH, tied_fit
from qhreg.solver.vertex import Undecided, unique_vertex, vertex_of

__all__ = ["ALL_ROWS", "exact_fit"]


NARROWING = 2e-3
"""Error of a fit that a narrower one is started from, over the smaller of tau and 1 - tau."""

NARROWER = 0.2
"""Width of a zone over that of the one before."""

GATHERED = 256
"""Undecided rows gathered at a time."""

ROUGH = 1e-6
"""Accuracy per unit of weight above which the interior-point method may stop early."""

ALL_ROWS = 1000
"""With at most this many rows none is decided in advance."""

FEW_ATTEMPTS = 4
"""Fits around a centre after which more rows are left undecided: with effects of many groups every new
centre has rows of some group on the wrong side."""

LEAST_UNDECIDED = 500
"""Of more rows than that, how many are left undecided at least."""

EXACT = 1e-11
"""Accuracy of the interior-point method per unit of weight before a fit is moved to its vertex."""

MISLED = 0.05
"""Rows decided wrongly, per undecided one, above which a warm start was not close."""


def _decide_rows(
    problem: Problem, tau: float, z: FloatArray, reach: float, doubtful: BoolArray | None
) -> Undecided:
    """Return the rows within reach of the zone, the doubtful ones, and the totals of the others."""
    k = problem.rows.n_unknowns
    raw, start = problem.to_rows(z), 0
    linear, outside = np.zeros(k), np.zeros(k)
    weight_above = weight_below = 0.0
    side = np.empty(problem.rows.n_rows, dtype=np.int8)
    for block in problem.rows.blocks():
        u, w = residuals(block, raw), block.weights
        above, below = u > reach, u < -reach
        if doubtful is not None:
            some = doubtful[start : start + u.size]
            above[some] = below[some] = False
        np.subtract(above, below, out=side[start : start + u.size], dtype=np.int8)
        start += u.size
        weight_above += _sum(above, w)
        weight_below += _sum(below, w)
        slope = np.multiply(above, 1.0 - tau, out=u)
        slope[below] = -tau
        linear += weighted_columns(block, slope if w is None else np.multiply(slope, w, out=slope))
        decided = np.logical_or(above, below, out=u)
        outside += weighted_columns(
            block, decided if w is None else np.multiply(decided, w, out=decided)
        )
    if problem.matrix is not None:
        linear, outside = problem.matrix.T @ linear, problem.matrix.T @ outside
    return Undecided(
        *_gathered(problem, side),
        linear,
        outside,
        (1.0 - tau) * weight_above - tau * weight_below,
        (1.0 - tau) ** 2 * weight_above + tau**2 * weight_below,
        side,
    )


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
        for some in (chosen[i : i + GATHERED] for i in range(0, chosen.size, GATHERED)):
            part = block.exog[some]
            if block.endog is not None:
                part = np.column_stack([part, block.endog[some]])
            begin, end = end, end + some.size
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
    if not total > 1e-14 * loss:  # rows taken for decided are on the other side
        return None
    return np.asarray(z * (problem.m / total))


def _narrowing_fit(problem: Problem, tau: float, start: FloatArray) -> tuple[FloatArray, int]:
    """Return a rough fit found by narrowing the zone from kappa = 1, and the passes it took.

    The rows of the zone keep their slopes psi = u / kappa, on the whole, as it narrows: the next fit is
    started on the way from this one to least squares of the rows in its zone, and at this one where
    that leads between tied rows.
    """
    narrowest, tol = max(problem.kappa, TIED_WIDTH), NARROWING * min(tau, 1.0 - tau)
    z, starts, passes, width = start, [start], 0, 1.0
    while width >= narrowest:
        wide = replace(problem, kappa=width)
        for first in starts:
            point = newton(wide, first, tau, tau_bounds=None, tol=tol, max_passes=40)
            passes += point.passes
            if point.error < 0.1:
                break
        else:
            break
        z, last = point.z, width
        if width == narrowest or point.objective.rows_in_zone < CROWD * z.size:
            break
        width = max(NARROWER * width, narrowest)
        starts = [_ahead(point, 1.0 - width / last), z]
    return z, passes


def _ahead(point: NewtonPoint, share: float) -> FloatArray:
    """Return a share of the way from a fit to least squares of the rows in its zone."""
    hessian, z = point.objective.d2_z, point.z.copy()
    assert hessian is not None
    r = z.size - 1
    way = solve_positive(hessian[:r, :r], hessian[:r] @ z)
    if way is not None:
        z[:r] -= share * way
    return z


def _wrongly_decided(
    problem: Problem, tau: float, side: npt.NDArray[np.int8], z: FloatArray
) -> BoolArray:
    """Tell the decided rows that do not lie beyond the zone on the side they were taken to."""
    raw, width, start = problem.to_rows(z), problem.kappa, 0
    wrong = np.empty(side.size, dtype=np.bool_)
    for block in problem.rows.blocks():
        u = residuals(block, raw)
        taken = side[start : start + u.size]
        missed = (taken > 0) & (u < width * (1.0 - tau))
        missed |= (taken < 0) & (u > -width * tau)
        wrong[start : start + u.size] = missed
        start += u.size
    return wrong


def _fit_all(
    problem: Problem, tau: float, start: FloatArray, undecided: Undecided, accuracy: float
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
    n_rows = problem.rows.n_rows
    spaced = problem.some_residuals(z)
    np.abs(spaced, out=spaced)
    rank = min(int(count * spaced.size / n_rows), spaced.size - 1)
    spaced.partition(rank)
    return float(spaced[rank])


def _light(fit: TauFit, undecided: Undecided, *, keep: bool) -> TauFit:
    """Return the fit without the dual variables of the undecided rows, or with those of all rows."""
    dual, kept = fit.dual, None
    if keep and dual.v is not None:
        low, high = -fit.tau / dual.overshoot, (1.0 - fit.tau) / dual.overshoot
        kept = DualVector(undecided.side, low, high, dual.v)
    return replace(fit, dual=replace(dual, v=None, kept=kept))


def _attempt(
    problem: Problem,
    tau: float,
    z: FloatArray,
    count: int,
    doubtful: BoolArray | None,
    *,
    keep: bool,
) -> tuple[TauFit, BoolArray | None]:
    """Return the fit with about `count` rows around z undecided, and the rows decided wrongly.

    None in their place where the fit itself has no proof.
    """
    undecided = _decide_rows(problem, tau, z, _reach(problem, z, count), doubtful)
    fit = _fit_undecided(problem, tau, z, undecided)
    if not fit.proved(problem.n):
        return fit, None
    wrong = _wrongly_decided(problem, tau, undecided.side, fit.z)
    return _light(fit, undecided, keep=keep), wrong


def _fit_around(
    problem: Problem, tau: float, z: FloatArray, count: int, *, trusted: bool, keep: bool
) -> tuple[TauFit | None, int]:
    """Return the fit with first `count` rows around z undecided, then more, and the passes it took.

    None when a trusted z was misleading, or all rows would be undecided.
    """
    fit = tied_fit(problem, tau, z, keep=keep)
    if fit is not None and fit.proved(problem.n):
        return fit, fit.passes
    passes = 0 if fit is None else fit.passes
    doubtful: BoolArray | None = None
    attempts = 0
    while count < problem.rows.n_rows:
        fit, wrong = _attempt(problem, tau, z, count, doubtful, keep=keep)
        attempts += 1
        passes += 3
        if wrong is not None and not wrong.any():
            return fit, passes
        misled = math.inf if wrong is None else int(wrong.sum()) / count
        if trusted and misled > MISLED:
            break
        if wrong is None or misled > 1.0:  # too few rows to hold all coefficients
            count *= 3
        else:  # the new centre is the better part of the remedy
            doubtful = wrong if doubtful is None else doubtful | wrong
            z, count = fit.z, 11 * count // 10 if attempts < FEW_ATTEMPTS else 2 * count
    return None, passes


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
    Koenker (1997), and grows until every decision proves right. Rows once decided wrongly stay
    undecided: a row far out in the design may change sides with every new centre.
    """
    z, n_rows, passes = start, problem.rows.n_rows, 0
    if n_rows > ALL_ROWS:
        count = max(LEAST_UNDECIDED, int(0.45 * n_rows ** (2 / 3) * np.sqrt(z.size)))
        for trusted in (True, False) if warm else (False,):
            if not trusted:
                z, more = _narrowing_fit(problem, tau, start)
                passes += more
            found, more = _fit_around(problem, tau, z, count, trusted=trusted, keep=keep)
            passes += more
            if found is not None:
                return replace(found, passes=passes)
    undecided = _decide_rows(problem, tau, z, np.inf, None)
    fit = _fit_all(problem, tau, z, undecided, accuracy)
    return replace(_light(fit, undecided, keep=keep), passes=passes + 1)
