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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.engine.rows import Block, RowBlocks, SummedRows, residuals, weighted
from qhreg.family.loss import zone_part
from qhreg.solver.newton import SHORT_STEP, NewtonPoint, solve_positive
from qhreg.solver.problem import Problem

GAP_TOLERANCE = 1e-9
"""Duality gap per unit of weight at which a fit counts as proved."""

TINY_KAPPA = 1e-12
"""At or below this width the fit is solved as kappa = 0: the loss differs by less than kappa / 8."""


@dataclass(frozen=True)
class DualVariables:
    """The dual variables of all rows, by the rule that makes them: each product makes them again.

    Attributes
    ----------
    rows : SummedRows
        The rows.
    here, shift : ndarray, shape (k,)
        The point, and the move of psi onto the null space of X', in the coordinates of the rows.
    tau, kappa, overshoot : float
        Asymmetry, width, and what the variables are divided by to lie in the box.
    """

    rows: SummedRows
    here: FloatArray
    shift: FloatArray
    tau: float
    kappa: float
    overshoot: float = 1.0

    @property
    def rule(self) -> tuple[FloatArray, FloatArray, float, float]:
        """What makes the variables of a block, before they are shrunk."""
        return self.here, self.shift, self.tau, self.kappa

    def dot(self, other: DualVariables) -> float:
        """Return the sum of products with the variables of another point, in one pass."""
        total: float = self.rows.fold(_products, math.fsum, self.rule, other.rule)
        return total / (self.overshoot * other.overshoot)


def _moved_psi(
    block: Block, here: FloatArray, shift: FloatArray, tau: float, kappa: float
) -> tuple[FloatArray, FloatArray]:
    """Return u of a block, and psi moved by the shift where rows are in the zone."""
    u = residuals(block, here)
    v = zone_part(u, tau, kappa)
    in_zone = v == u
    v /= kappa
    v -= in_zone * residuals(block, shift)
    return u, v


def _products(part: RowBlocks, left: tuple[Any, ...], right: tuple[Any, ...]) -> float:
    total = 0.0
    for block in part.blocks():
        (_, v), (_, w) = _moved_psi(block, *left), _moved_psi(block, *right)
        total += float(weighted(v, block.weights) @ w)
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
    variables : DualVariables or None
        Those of all rows where Newton's method found the point; not shrunk yet by
        `dual_from_gradient`.
    """

    value: float
    alignment: float
    square: float
    v: FloatArray | None = None
    variables: DualVariables | None = None


def dual_value(
    alignment: FloatArray | float,
    square: FloatArray | float,
    m: float,
    kappa: float,
    theta: float | None,
) -> Any:
    """Return the dual objective of (QH-15); minus infinity where the alignment is not positive."""
    if theta is not None:
        return theta * alignment - m * math.log(theta) - 0.5 * kappa * square
    with np.errstate(divide="ignore", invalid="ignore"):
        value = m + m * np.log(np.divide(alignment, m)) - 0.5 * kappa * square
    return np.where(np.greater(alignment, 0.0), value, -np.inf)


def _overshoot(v: FloatArray, tau: float | FloatArray) -> float:
    """Return the factor by which v leaves the box [-tau, 1 - tau], at least one."""
    above, below = (v / (1.0 - tau)).max(initial=1.0), (v / -tau).max(initial=1.0)
    return float(max(above, below))


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
    correction = solve_positive(kappa * now.d2_z[:r, :r], now.d_z[:r])
    if correction is None:
        return DualPoint(-math.inf, 0.0, 0.0)
    omega2 = max(float(now.d_z[:r].dot(correction)), 0.0)
    omega = math.sqrt(omega2) if math.isfinite(omega2) else math.inf
    largest = omega / math.sqrt(problem.rows.least_weight)
    shrink = 1.0 if largest <= now.totals.slack else 1.0 + largest / min(tau, 1.0 - tau)
    ends = []
    for t in (-omega * math.sqrt(now.totals.square), omega * math.sqrt(now.totals.square)):
        alignment = (now.totals.loss + 0.5 * kappa * now.totals.square + kappa * t) / (
            shrink * theta
        )
        square = (now.totals.square + 2.0 * t + omega2) / shrink**2
        value = float(dual_value(alignment, square, m, kappa, problem.theta))
        ends.append((value, alignment, square))
    return DualPoint(*min(ends), variables=_variables(problem, point, correction))


def _variables(problem: Problem, point: NewtonPoint, correction: FloatArray) -> DualVariables:
    here, shift = problem.to_rows(point.z), problem.to_rows(np.append(correction, 0.0))
    return DualVariables(problem.rows, here, shift, point.tau, problem.kappa)


def dual_from_newton(problem: Problem, point: NewtonPoint) -> DualPoint | None:
    """Return the dual point of a nearly stationary z in one pass, or None without enough slack.

    The correction lives on the rows in the zone: their Gram matrix is the Hessian's own.
    """
    kappa, now = problem.kappa, point.objective
    r = point.z.size - 1
    correction = solve_positive(kappa * now.d2_z[:r, :r], now.d_z[:r])
    if correction is None:
        return None
    variables = _variables(problem, point, correction)
    alignment, square, variables = feasible(variables, float(point.z[-1]))
    if not np.isfinite(alignment):
        return None
    value = float(dual_value(alignment, square, problem.m, kappa, problem.theta))
    return DualPoint(value, alignment, square, variables=variables)


def feasible(variables: DualVariables, theta: float) -> tuple[float, float, DualVariables]:
    """Return sum w v y and sum w v^2 of variables shrunk into the box, and these, in one pass."""
    alignment, square, overshoot = variables.rows.fold(_dual_sums, _all_sums, variables.rule)
    shrunk = replace(variables, overshoot=overshoot)
    return alignment / (overshoot * theta), square / overshoot**2, shrunk


def _dual_sums(part: RowBlocks, rule: tuple[Any, ...]) -> tuple[float, float, float]:
    """Return sum w v u, sum w v^2, and the factor by which v leaves the box."""
    alignment = square = 0.0
    overshoot = 1.0
    for block in part.blocks():
        u, v = _moved_psi(block, *rule)
        overshoot = max(overshoot, _overshoot(v, rule[2]))
        wv = weighted(v, block.weights)
        alignment += float(wv @ u)
        square += float(wv @ v)
    return alignment, square, overshoot


def _all_sums(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    alignment, square, overshoot = zip(*parts, strict=True)
    return sum(alignment), sum(square), max(overshoot)


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
    gram = exog.T @ (weighted(slack, weights)[:, None] * exog)
    if not (np.isfinite(gram).all() and np.isfinite(ell).all()):
        return DualPoint(-np.inf, 0.0, 0.0)
    for _ in range(2 if exog.shape[1] else 0):  # the second sweep removes the first one's rounding
        defect = weighted(v, weights) @ exog + ell[:-1]
        change = exog @ np.linalg.lstsq(gram, defect, rcond=1e-14)[0]
        change *= slack
        v -= change
    overshoot = _overshoot(v, tau)
    v /= overshoot
    wv = weighted(v, weights)
    alignment = float(wv @ design[:, -1]) + ell[-1] / overshoot
    square = float(wv @ v) + square_decided / overshoot**2
    value = float(dual_value(alignment, square, m, kappa, theta))
    return DualPoint(value, alignment, square, v)


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
    reason : str
        How it was found.
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
    reason: str = "convex fit"

    @property
    def gap(self) -> float:
        """The duality gap: how far `value` can be above the minimum; below it is rounding alone."""
        difference = abs(float(self.value - self.dual.value))
        return difference if math.isfinite(difference) else math.inf

    def proved(self, n: float, accuracy: float = GAP_TOLERANCE) -> bool:
        """Return whether the gap is small per unit of weight, or at the rounding of the value."""
        return self.gap < math.inf and self.gap <= accuracy * n + ROUNDING * abs(self.value)


def proved_newton(problem: Problem, point: NewtonPoint) -> TauFit | None:
    """Return where Newton's method ended with its dual bound, or None when it is not near enough.

    The gradient alone gives the bound when it is at rounding level; otherwise another pass does.
    """
    if not point.error < SHORT_STEP:
        return None
    n, now = problem.n, point.objective
    c = problem.normalizer(point.tau)
    value = now.value - c.value
    passes = point.passes
    dual: DualPoint | None = dual_from_gradient(problem, point)
    if dual is None or not value - dual.value <= GAP_TOLERANCE * n:
        dual = dual_from_newton(problem, point)
        passes += 1
    if dual is None:
        return None
    excess = c.d_tau - now.d_tau
    return TauFit(
        point.tau,
        point.z,
        value,
        excess,
        dual,
        now.totals.rows_in_zone,
        passes,
        point.iterations,
        now.d2_z[:-1, :-1],
        now.totals.slack,
    )
