r"""The convex fit at one tau, with proof: Newton where it works, interior point where it does not.

Newton's method needs rows in the quadratic zone. With few of them (small kappa, small samples,
kappa = 0) the rows far from the zone are taken as decided, the rest are solved by the interior-point
method, and the decisions are checked against the solution; at kappa = 0 the interpolated rows are
then identified and solved for exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from qhreg.dual import DualPoint, dual_from_gradient, dual_from_newton, dual_from_rows
from qhreg.interior import interior_point
from qhreg.likelihood import weighted_columns
from qhreg.loss import loss_and_slope, zone_part
from qhreg.newton import NewtonPoint, newton
from qhreg.normalizer import log_normalizer_derivatives
from qhreg.problem import Problem

__all__ = ["TauFit", "fit_at", "proved_newton"]

FloatArray = npt.NDArray[np.float64]

GAP_TOLERANCE = 1e-9
"""Duality gap per unit of weight at which a fit counts as proved."""

QUICK_GAP = 1e-9
"""Gap per unit of weight below which the bound from the gradient alone is taken."""

ROUNDING = 1e-13
"""Relative rounding of the value that no method can see below; matters with outliers of 1e15."""

TINY_KAPPA = 1e-12
"""At or below this width the fit is solved as kappa = 0: the loss differs by less than kappa / 8."""

NEARLY_STATIONARY = 1e-3
"""Error of Newton's method below which its point is worth a dual bound."""

MANY_ROWS = 20_000
"""Rows from which a Gram matrix costs so much more than a gradient that a Hessian is kept."""

FEW_ROWS = 20
"""Rows in the zone per unknown below which a narrower zone would starve Newton's method."""

ALL_ROWS = 4000
"""With at most this many rows none is decided in advance."""


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
        h = sum w rho - n log theta at z.
    excess : float
        sum w e at z: minus the derivative of h in tau.
    dual : DualPoint
        A feasible dual point; `dual.value` bounds h from below.
    rows_in_zone : int
        Rows in the quadratic zone (at kappa = 0: interpolated rows).
    passes, iterations : int
        Work done.
    """

    tau: float
    z: FloatArray
    value: float
    excess: float
    dual: DualPoint
    rows_in_zone: int
    passes: int
    iterations: int

    @property
    def gap(self) -> float:
        """The duality gap: how far `value` can be above the minimum."""
        return max(self.value - self.dual.value, 0.0)

    def proved(self, n: float, accuracy: float = GAP_TOLERANCE) -> bool:
        """Return whether the gap is small per unit of weight, or at the rounding of the value."""
        return self.gap <= accuracy * n + ROUNDING * abs(self.value)


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
    near : ndarray of bool, shape (n,)
        Which rows are undecided.
    positive : ndarray of bool, shape (n,)
        The side the others are taken to lie on.
    """

    design: FloatArray
    weights: FloatArray | None
    linear: FloatArray
    outside: FloatArray
    slope: float
    square: float
    near: npt.NDArray[np.bool_]
    positive: npt.NDArray[np.bool_]


def _decide_rows(
    problem: Problem, tau: float, near: npt.NDArray[np.bool_], positive: npt.NDArray[np.bool_]
) -> _Undecided:
    """Return the undecided rows and the totals of the others, in one pass."""
    k = problem.rows.n_unknowns
    linear, outside = np.zeros(k), np.zeros(k)
    slope_sum = square = 0.0
    designs, weights = [], []
    start = 0
    for block in problem.rows.blocks():
        rows = slice(start, start + block.exog.shape[0])
        start = rows.stop
        chosen = np.flatnonzero(near[rows])
        design = block.exog[chosen]
        if block.endog is not None:
            design = np.column_stack([design, block.endog[chosen]])
        designs.append(design)
        decided = (~near[rows]).astype(np.float64)
        slope = decided * np.where(positive[rows], 1.0 - tau, -tau)
        if block.weights is not None:
            weights.append(block.weights[chosen])
            decided *= block.weights
        linear += weighted_columns(block, decided * slope)
        outside += weighted_columns(block, decided)
        slope_sum += float(decided @ slope)
        square += float((decided * slope) @ slope)
    design = np.concatenate(designs)
    if problem.matrix is not None:
        design = design @ problem.matrix
        linear, outside = problem.matrix.T @ linear, problem.matrix.T @ outside
    w = np.concatenate(weights) if weights else None
    return _Undecided(design, w, linear, outside, slope_sum, square, near, positive)


def _vertex(
    undecided: _Undecided, z: FloatArray, v: FloatArray, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Return (z, v) with as many rows interpolated exactly as there are coefficients.

    The interpolated rows have slack in v and a small residual; their v follows from X'(w v) = 0 when
    the vertex is not degenerate. Where a whole face is optimal no row has slack, and the nearest rows
    lead to one of its corners.
    """
    r = z.size - 1
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
    problem: Problem, tau: float, start: FloatArray, undecided: _Undecided
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


def proved_newton(problem: Problem, point: NewtonPoint, *, keep: bool = False) -> TauFit | None:
    """Return where Newton's method ended with its dual bound, or None when it is not near enough.

    The gradient alone gives the bound when it is at rounding level; otherwise, and to keep the dual
    variables, another pass does.
    """
    if not point.error < NEARLY_STATIONARY:
        return None
    n, now = problem.n, point.objective
    c = log_normalizer_derivatives(point.tau, problem.kappa)
    value = now.value - n * c.value
    passes = point.passes
    dual: DualPoint | None = None
    if not keep:
        dual = dual_from_gradient(problem, point)
    if dual is None or not value - dual.value <= QUICK_GAP * n:
        dual = dual_from_newton(problem, point, keep=keep)
        passes += 1
    if dual is None:
        return None
    excess = n * c.d_tau - now.d_tau
    return TauFit(
        point.tau, point.z, value, excess, dual, now.rows_in_zone, passes, point.iterations
    )


def _newton_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    keep: bool,
    accuracy: float = GAP_TOLERANCE,
    max_passes: int,
) -> TauFit | None:
    """Return the fit by Newton's method, or None when it did not get there."""
    rough = accuracy > GAP_TOLERANCE
    point = newton(
        problem,
        start,
        tau,
        tau_bounds=None,
        reuse_hessian=problem.n > MANY_ROWS,
        tol=0.1 * accuracy * min(tau, 1.0 - tau) if rough else None,
        max_passes=max_passes,
    )
    return proved_newton(problem, point, keep=keep)


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


def fit_at(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    keep: bool = False,
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
    keep : bool
        Whether to keep the dual variable of every row.
    warm : bool
        Whether `start` is known to be close.
    accuracy : float
        Duality gap per unit of weight that is good enough.
    max_passes : int
        Passes that Newton's method may take before the interior-point method takes over.
    """
    n = problem.n
    attempt = None
    passes = 0
    expected_in_zone = n * tau * (1.0 - tau) * problem.kappa  # by the density at its mode
    if problem.kappa > TINY_KAPPA and expected_in_zone > start.size:
        attempt = _newton_fit(
            problem, tau, start, keep=keep, accuracy=accuracy, max_passes=max_passes
        )
        if attempt is not None and attempt.proved(n, accuracy):
            return attempt
        passes += max_passes
    u = problem.residuals(start)
    count = min(u.size, max(ALL_ROWS, int(0.5 * u.size ** (2 / 3) * np.sqrt(start.size))))
    z = start
    if count < u.size and not warm:
        z, smooth_passes = _narrowing_fit(problem, tau, start)
        u = problem.residuals(z)
        passes += smooth_passes
    while True:
        size = np.abs(u)
        reach = np.inf if count >= u.size else float(np.partition(size, count)[count])
        undecided = _decide_rows(problem, tau, size <= reach, u > 0.0)
        fit = _fit_undecided(problem, tau, z, undecided)
        passes += 2
        if count >= u.size:
            if not fit.proved(n):  # the start may be worse than none
                neutral = np.append(np.zeros(z.size - 1), z[-1])
                again = _fit_undecided(problem, tau, neutral, undecided)
                fit = min(fit, again, key=lambda f: f.gap)
            break
        if fit.proved(n):
            z, u = fit.z, problem.residuals(fit.z)
            width = problem.kappa
            right = np.where(undecided.positive, u >= width * (1 - tau), u <= -width * tau)
            if bool((right | undecided.near).all()):
                break
        elif warm:
            return fit_at(problem, tau, start, keep=keep, max_passes=max_passes)
        count = min(3 * count, u.size)
    if keep and not undecided.near.all() and fit.dual.v is not None:
        v = np.where(undecided.positive, 1.0 - tau, -tau)
        v[undecided.near] = fit.dual.v
        fit = replace(fit, dual=replace(fit.dual, v=v))
    fit = replace(fit, passes=passes)
    if problem.kappa > TINY_KAPPA and fit.gap > 0.01 * GAP_TOLERANCE * n:
        polished = _newton_fit(problem, tau, fit.z, keep=keep, max_passes=8)
        if polished is not None and polished.gap < fit.gap:
            fit = replace(polished, passes=passes + polished.passes)
    if attempt is not None and attempt.gap < fit.gap:
        return attempt
    return fit
