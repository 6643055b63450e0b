r"""The dual of the fixed-tau fit: a rigorous lower bound from any nearly optimal point.

For fixed tau (QH-15)

.. math::

    \min_{b,\theta}\ \sum_i w_i\,\rho_\tau(u_i) - m\log\theta \;=\; \max_v\
    m + m\log\frac{\sum_i w_i v_i y_i}{m} - \frac{\kappa}{2}\sum_i w_i v_i^2
    \quad\text{s.t.}\quad X'(w v) = 0,\ -\tau\le v\le 1-\tau ,

with m = n for the likelihood and n - p for the restricted one; with sigma fixed the first two terms are
:math:`\theta\sum w_i v_i y_i - m\log\theta`. At the
optimum v = psi. Near it, psi moved onto the null space of X' along rows with slack and shrunk into
the box is feasible, and its dual value is a bound no matter how it was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from qhreg._blocks import row_blocks
from qhreg._precision import ROUNDING
from qhreg._typing import BoolArray, FloatArray, SideArray
from qhreg.engine.rows import ArrayRows, Block, RowBlocks, residuals
from qhreg.family.loss import zone_part
from qhreg.solver.newton import NewtonPoint, solve_positive
from qhreg.solver.problem import Problem

__all__ = [
    "GAP_TOLERANCE",
    "TINY_KAPPA",
    "DualPoint",
    "DualRule",
    "DualVector",
    "TauFit",
    "dual_from_gradient",
    "dual_from_newton",
    "dual_from_rows",
    "dual_value",
    "proved_newton",
]

GAP_TOLERANCE = 1e-9
"""Duality gap per unit of weight at which a fit counts as proved."""

NEARLY_STATIONARY = 1e-3
"""Error of Newton's method below which its point is worth a dual bound."""

TINY_KAPPA = 1e-12
"""At or below this width the fit is solved as kappa = 0: the loss differs by less than kappa / 8."""


@dataclass(frozen=True)
class DualVector:
    """The dual variables of all rows: most lie on a bound, and numbers are kept of the others alone.

    Attributes
    ----------
    side : ndarray of int8, shape (n,)
        The sign of the variables on a bound, zero for the others.
    below, above : float
        The bounds.
    inside : ndarray, shape (m,)
        The other variables in the order of their rows.
    """

    side: SideArray
    below: float
    above: float
    inside: FloatArray

    def pieces(self) -> Iterator[FloatArray]:
        """Iterate over the variables."""
        end, half = 0, 0.5 * (self.above - self.below)
        for rows in row_blocks(self.side.size, 1):
            side = self.side[rows]
            v: FloatArray = np.multiply(side, half, dtype=np.float64)
            v += self.below + half
            inside = np.flatnonzero(side == 0)
            begin, end = end, end + inside.size
            v[inside] = self.inside[begin:end]
            yield v

    def dot(self, other: DualVector, weights: FloatArray | None) -> float:
        """Return the sum of products with the variables of another point."""
        total, start = 0.0, 0
        for left, right in zip(self.pieces(), other.pieces(), strict=True):
            if weights is not None:
                left *= weights[start : start + left.size]
            total, start = total + float(left @ right), start + left.size
        return total


@dataclass(frozen=True)
class DualRule:
    """The dual variables of rows that lie elsewhere, where each product makes them again.

    Attributes
    ----------
    here, shift : ndarray, shape (k,)
        The point, and the move of psi onto the null space of X', in the coordinates of the rows.
    tau, kappa, overshoot : float
        Asymmetry, width, and what the variables are divided by to lie in the box.
    rows : RowBlocks or None
        The rows, where it is not they that ask.
    """

    here: FloatArray
    shift: FloatArray
    tau: float
    kappa: float
    overshoot: float = 1.0
    rows: RowBlocks | None = None

    def of(self, block: Block) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return u and v of a block, and which of its rows are in the zone."""
        u = residuals(block, self.here)
        v = zone_part(u, self.tau, self.kappa)
        in_zone = v == u
        v /= self.kappa
        v -= in_zone * residuals(block, self.shift)
        if self.overshoot != 1.0:
            v /= self.overshoot
        return u, v, in_zone

    def dot(self, other: DualRule) -> float:
        """Return the sum of products with the variables of another point, in one pass."""
        assert self.rows is not None
        pair = replace(self, rows=None), replace(other, rows=None)
        return self.rows.fold(_products, math.fsum, *pair)


def _products(part: RowBlocks, left: DualRule, right: DualRule) -> float:
    total = 0.0
    for block in part.blocks():
        (_, v, _), (_, w, _) = left.of(block), right.of(block)
        total += float(_weighted(v, block.weights) @ w)
    return total


@dataclass(frozen=True)
class DualPoint:
    """A feasible dual point.

    Attributes
    ----------
    value : float
        The lower bound on min h(z) = sum w rho - m log theta.
    alignment : float
        sum w v y in the coordinates of the problem.
    square : float
        sum w v^2.
    v : ndarray, shape (m,), or None
        The point itself where the rows are held in memory.
    overshoot : float
        What it was divided by to lie in the box.
    kept : DualVector, DualRule or None
        The point itself, all rows, where it was asked for.
    """

    value: float
    alignment: float
    square: float
    v: FloatArray | None = None
    overshoot: float = 1.0
    kept: DualVector | DualRule | None = None


def dual_value(
    alignment: FloatArray | float,
    square: FloatArray | float,
    m: float,
    kappa: float,
    theta: float | None,
) -> Any:
    """Return the dual objective of (QH-15); minus infinity where the alignment is not positive."""
    if theta is None and isinstance(alignment, float) and alignment > 0.0:
        return m + m * math.log(alignment / m) - 0.5 * kappa * square
    a = np.asarray(alignment, dtype=np.float64)
    if theta is not None:
        return theta * a - m * np.log(theta) - 0.5 * kappa * np.asarray(square)
    positive = a > 0.0
    value: FloatArray = np.where(
        positive, m + m * np.log(np.where(positive, a, 1.0) / m) - 0.5 * kappa * square, -np.inf
    )
    return value


def _overshoot(v: FloatArray, tau: float | FloatArray) -> float:
    """Return the factor by which v leaves the box [-tau, 1 - tau], at least one."""
    if v.size == 0:
        return 1.0
    if isinstance(tau, np.ndarray):
        return max(1.0, float((v / (1.0 - tau)).max()), float((v / -tau).max()))
    return max(1.0, float(v.max()) / (1.0 - tau), float(v.min()) / -tau)


def dual_from_gradient(problem: Problem, point: NewtonPoint) -> DualPoint:
    """Return the dual bound (QH-19) that the gradient alone gives, without a pass over the data.

    Moving psi along the rows of the zone onto the null space of X' takes changes delta with
    ``sum w delta^2 = omega^2 = d' G^-1 d``, d = X'(w psi), G the Gram matrix of the zone's rows, none
    of which exceeds omega divided by the root of the least weight. If no row of the zone has less
    slack than that, the moved point is in the box, otherwise it is shrunk into it.
    """
    m, kappa, tau, now = problem.m, problem.kappa, point.tau, point.objective
    theta = float(point.z[-1])
    r = point.z.size - 1
    assert now.d2_z is not None
    correction = solve_positive(kappa * now.d2_z[:r, :r], now.d_z[:r])
    if correction is None:
        return DualPoint(-math.inf, 0.0, 0.0)
    omega2 = max(float(now.d_z[:r].dot(correction)), 0.0)
    omega = math.sqrt(omega2) if math.isfinite(omega2) else math.inf
    largest = omega / math.sqrt(problem.rows.least_weight)
    shrink = 1.0 if largest <= now.slack else 1.0 + largest / min(tau, 1.0 - tau)
    ends = []
    for t in (-omega * math.sqrt(now.square), omega * math.sqrt(now.square)):
        alignment = (now.loss + 0.5 * kappa * now.square + kappa * t) / (shrink * theta)
        square = (now.square + 2.0 * t + omega2) / shrink**2
        value = float(dual_value(alignment, square, m, kappa, problem.theta))
        ends.append((value, alignment, square))
    return DualPoint(*min(ends))


def dual_from_newton(
    problem: Problem, point: NewtonPoint, *, keep: bool = False
) -> DualPoint | None:
    """Return the dual point of a nearly stationary z in one pass, or None without enough slack.

    The correction lives on the rows in the zone: their Gram matrix is the Hessian's own.
    """
    m, kappa, tau, now = problem.m, problem.kappa, point.tau, point.objective
    r = point.z.size - 1
    assert now.d2_z is not None
    try:
        correction = np.linalg.solve(kappa * now.d2_z[:r, :r], now.d_z[:r])
    except np.linalg.LinAlgError:
        return None
    shift = np.zeros(r + 1)
    shift[:r] = correction
    theta = float(point.z[-1])
    here, shift = problem.to_rows(point.z), problem.to_rows(shift)
    rule, held = DualRule(here, shift, tau, kappa), isinstance(problem.rows, ArrayRows)
    moved = problem.rows.fold(_moved_psi, _all_moved, rule, keep and held)
    if not np.isfinite(moved.alignment):
        return None
    overshoot = moved.overshoot
    alignment = moved.alignment / (overshoot * theta)
    square = moved.square / overshoot**2
    value = float(dual_value(alignment, square, m, kappa, problem.theta))
    kept: DualVector | DualRule | None = None
    if keep and not held:
        kept = replace(rule, overshoot=overshoot, rows=problem.rows)
    elif keep:
        free = np.concatenate(moved.inside)
        free /= overshoot
        side = np.concatenate(moved.sides)
        kept = DualVector(side, -tau / overshoot, (1.0 - tau) / overshoot, free)
    return DualPoint(value, alignment, square, overshoot=overshoot, kept=kept)


class _Moved(NamedTuple):
    """psi of some rows moved onto the null space: sums, overshoot, and the variables to keep."""

    alignment: float
    square: float
    overshoot: float
    sides: list[SideArray]
    inside: list[FloatArray]


def _moved_psi(part: RowBlocks, rule: DualRule, keep: bool) -> _Moved:
    alignment = square = 0.0
    overshoot = 1.0
    sides: list[SideArray] = []
    inside: list[FloatArray] = []
    for block in part.blocks():
        u, v, in_zone = rule.of(block)
        overshoot = max(overshoot, _overshoot(v, rule.tau))
        weighted = _weighted(v, block.weights)
        alignment += float(weighted @ u)
        square += float(weighted @ v)
        if keep:
            inside.append(v.take(np.flatnonzero(in_zone)))
            side = 2 * (u > 0.0).view(np.int8) - 1
            sides.append(side * ~in_zone)
    return _Moved(alignment, square, overshoot, sides, inside)


def _all_moved(parts: Sequence[_Moved]) -> _Moved:
    return _Moved(
        sum(part.alignment for part in parts),
        sum(part.square for part in parts),
        max(part.overshoot for part in parts),
        [side for part in parts for side in part.sides],
        [v for part in parts for v in part.inside],
    )


def dual_from_rows(
    design: FloatArray,
    v: FloatArray,
    tau: float | FloatArray,
    kappa: float,
    m: float,
    *,
    theta: float | None,
    weights: FloatArray | None = None,
    linear: FloatArray | None = None,
    square_decided: float = 0.0,
) -> DualPoint:
    """Return a feasible dual point near v for rows held in memory.

    Parameters
    ----------
    design : ndarray, shape (rows, k)
        W of the rows whose dual variable is free to move.
    v : ndarray, shape (rows,)
        Nearly feasible dual variables of these rows.
    tau : float or ndarray
        Asymmetry, the same for all rows or one for each.
    m : float
        Weight of log theta.
    linear : ndarray, shape (k,), or None
        sum w v W over the decided rows, whose v sits on a bound.
    square_decided : float
        sum w v^2 over the decided rows.
    """
    ell = np.zeros(design.shape[1]) if linear is None else linear
    v = np.clip(v, -tau, 1.0 - tau)
    exog = design[:, :-1]
    slack = np.minimum(v + tau, 1.0 - tau - v)
    gram = exog.T @ (_weighted(slack, weights)[:, None] * exog)
    if not (np.isfinite(gram).all() and np.isfinite(ell).all()):
        return DualPoint(-np.inf, 0.0, 0.0, None)
    for _ in range(2 if exog.shape[1] else 0):  # the second sweep removes the first one's rounding
        defect = _weighted(v, weights) @ exog + ell[:-1]
        change = exog @ np.linalg.lstsq(gram, defect, rcond=1e-14)[0]
        change *= slack
        v -= change
    overshoot = _overshoot(v, tau)
    v /= overshoot
    weighted = _weighted(v, weights)
    alignment = float(weighted @ design[:, -1]) + ell[-1] / overshoot
    square = float(weighted @ v) + square_decided / overshoot**2
    value = float(dual_value(alignment, square, m, kappa, theta))
    return DualPoint(value, alignment, square, v, overshoot)


def _weighted(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    return values if weights is None else values * weights


@dataclass(frozen=True)
class TauFit:
    """The convex fit at one tau.

    Attributes
    ----------
    tau : float
        The asymmetry.
    z : ndarray, shape (k,)
        (-b, theta) in the coordinates of the problem.
    value : float
        h = sum w rho - m log theta at z, m = n or n - p.
    excess : float
        sum w e at z: minus the derivative of h in tau.
    dual : DualPoint
        A feasible dual point; `dual.value` bounds h from below.
    rows_in_zone : int
        Rows in the quadratic zone (at kappa = 0: interpolated rows).
    passes, iterations : int
        Work done.
    curvature : ndarray, shape (k - 1, k - 1), or None
        Second derivative of h in the coefficients, where it is at hand.
    slack : float
        How far psi of every row in the zone is from its bounds, zero where that was not measured.
    """

    tau: float
    z: FloatArray
    value: float
    excess: float
    dual: DualPoint
    rows_in_zone: int
    passes: int
    iterations: int
    curvature: FloatArray | None = None
    slack: float = 0.0

    @property
    def gap(self) -> float:
        """The duality gap: how far `value` can be above the minimum."""
        difference = self.value - self.dual.value
        return max(float(difference), 0.0) if math.isfinite(difference) else math.inf

    def proved(self, n: float, accuracy: float = GAP_TOLERANCE) -> bool:
        """Return whether the gap is small per unit of weight, or at the rounding of the value."""
        return self.gap < math.inf and self.gap <= accuracy * n + ROUNDING * abs(self.value)


def proved_newton(problem: Problem, point: NewtonPoint, *, keep: bool = False) -> TauFit | None:
    """Return where Newton's method ended with its dual bound, or None when it is not near enough.

    The gradient alone gives the bound when it is at rounding level; otherwise, and to keep the dual
    variables, another pass does.
    """
    if not point.error < NEARLY_STATIONARY:
        return None
    n, now = problem.n, point.objective
    c = problem.normalizer(point.tau)
    value = now.value - c.value
    passes = point.passes
    dual: DualPoint | None = None
    if not keep:
        dual = dual_from_gradient(problem, point)
    if dual is None or not value - dual.value <= GAP_TOLERANCE * n:
        dual = dual_from_newton(problem, point, keep=keep)
        passes += 1
    if dual is None:
        return None
    excess = c.d_tau - now.d_tau
    assert now.d2_z is not None
    return TauFit(
        point.tau,
        point.z,
        value,
        excess,
        dual,
        now.rows_in_zone,
        passes,
        point.iterations,
        now.d2_z[:-1, :-1],
        now.slack,
    )
