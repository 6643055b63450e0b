r"""Minimise the likelihood with an elastic-net penalty, from a start, with proof.

A proximal Newton method (Lee, Sun & Saunders 2014): each step minimises the second-order model of the
likelihood plus the penalty itself, exactly, by feature-sign search (Lee, Battle, Raina & Ng 2007), under
Marquardt's damping (1963). The likelihood enters through the one reduction over the rows only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.rows import ArrayRows
from qhreg.family.loss import zone_part
from qhreg.solver.dual import dual_from_rows, dual_value
from qhreg.solver.fixed_tau import WIDER
from qhreg.solver.newton import ARMIJO, solve_positive
from qhreg.solver.problem import Objective, Problem, smoothing_width

DAMPING = (1e-10, 1e10)
"""Least and most damping in units of the curvature of a row: none, and no step to speak of."""

MAX_STEPS = 100
"""Steps at one width after which to give up."""


@dataclass(frozen=True)
class Penalty:
    r"""The penalty :math:`\sum_j \lambda_j |z_j| + \tfrac12 \sum_j \mu_j z_j^2`, per unit of weight.

    Attributes
    ----------
    l1, l2 : ndarray, shape (k,)
        The weights, zero for coordinates that are not penalised.
    """

    l1: FloatArray
    l2: FloatArray

    @property
    def is_absent(self) -> BoolArray:
        """Which coordinates are not penalised, shape (k,)."""
        return np.asarray((self.l1 == 0.0) & (self.l2 == 0.0))

    def value(self, z: FloatArray) -> float:
        """Return the penalty at z."""
        return float(self.l1 @ np.abs(z) + 0.5 * (self.l2 @ z**2))

    def conjugate(self, s: FloatArray) -> float:
        """Return the largest s'z minus the penalty; infinity where it is not bounded."""
        beyond = np.maximum(np.abs(s) - self.l1, 0.0)
        smooth = self.l2 > 0.0
        if bool((beyond[~smooth] > 0.0).any()):
            return np.inf
        return float(0.5 * np.sum(beyond[smooth] ** 2 / self.l2[smooth]))

    def scaled(self, lengths: FloatArray) -> Penalty:
        """Return the same penalty as a function of z / lengths."""
        return Penalty(self.l1 * lengths, self.l2 * lengths**2)

    def violation(self, gradient: FloatArray, z: FloatArray) -> FloatArray:
        """Return by how much each coordinate misses the subgradient condition.

        Parameters
        ----------
        gradient : ndarray, shape (k,)
            Of the smooth part without the penalty.
        z : ndarray, shape (k,)
            The point.
        """
        g = gradient + self.l2 * z
        at_zero = np.maximum(np.abs(g) - self.l1, 0.0)
        return np.where(z == 0.0, at_zero, np.abs(g + self.l1 * np.sign(z)))


def feature_sign(
    matrix: FloatArray, linear: FloatArray, l1: FloatArray, start: FloatArray
) -> FloatArray | None:
    r"""Return the minimiser of :math:`\tfrac12 x'Ax - r'x + \sum_j \lambda_j |x_j|`, or None.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        A; None is returned where it proves not to be positive definite.
    linear, l1 : ndarray, shape (k,)
        r and lambda.
    start : ndarray, shape (k,)
        A point whose zeros are a good guess.

    Notes
    -----
    Given the signs the minimiser solves a linear system. On the way there the first coordinate that
    would change its sign stops at zero; at the minimiser the coordinate at zero whose gradient exceeds
    its lambda most is freed. Each step lowers the value, and there are finitely many sign patterns.

    References
    ----------
    Lee, Battle, Raina & Ng (2007), Efficient sparse coding algorithms, NIPS 19.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.regularized.penalized import feature_sign
    >>> feature_sign(np.eye(3), np.array([3.0, -2.0, 0.5]), np.ones(3), np.zeros(3))
    array([ 2., -1.,  0.])
    """
    x, signs = start.copy(), np.where(l1 > 0.0, np.sign(start), 0.0)
    size = float(np.abs(linear).max(initial=0.0)) + float(l1.max(initial=0.0))
    for _ in range(20 * x.size + 20):
        active = np.flatnonzero((signs != 0.0) | (l1 == 0.0))
        target = x.copy()
        if active.size:
            slope = linear[active] - l1[active] * signs[active]
            solution = solve_positive(matrix[np.ix_(active, active)], slope)
            if solution is None:
                return None
            target[active] = solution
        crossing = np.flatnonzero(signs * target < 0.0)
        if crossing.size:
            shares = x[crossing] / (x[crossing] - target[crossing])
            leaving = crossing[shares == shares.min()]
            x += shares.min() * (target - x)
            x[leaving] = signs[leaving] = 0.0
            continue
        x = target
        gradient = matrix @ x - linear
        excess = np.where((signs == 0.0) & (l1 > 0.0), np.abs(gradient) - l1, 0.0)
        worst = int(np.argmax(excess))
        if excess[worst] <= 1e-13 * size:
            break
        signs[worst] = -np.sign(gradient[worst])
    return x


class PenalizedPoint(NamedTuple):
    """Where the method ended.

    Attributes
    ----------
    z, tau : ndarray of shape (k,), float
        The point.
    objective : Objective
        The (restricted) likelihood there, not divided by the number of observations.
    value : float
        It, per unit of weight, plus the penalty.
    violation : float
        Largest violation of the subgradient condition, that of an estimated tau included.
    iterations : int
        Steps tried: each is a pass over the rows.
    """

    z: FloatArray
    tau: float
    objective: Objective
    value: float
    violation: float
    iterations: int


def tau_violation(slope: float, tau: float, bounds: tuple[float, float] | None) -> float:
    """Return the slope in logit tau, zero where tau is fixed or at a bound the value falls towards."""
    if bounds is None:
        return 0.0
    settled = (tau == bounds[0] and slope >= 0.0) or (tau == bounds[1] and slope <= 0.0)
    return 0.0 if settled else abs(slope) * tau * (1.0 - tau)


def _point(
    problem: Problem,
    penalty: Penalty,
    z: FloatArray,
    tau: float,
    bounds: tuple[float, float] | None,
    since: PenalizedPoint | None = None,
) -> PenalizedPoint:
    """Return the objective at a point in one pass."""
    now = problem.evaluate(z, tau, since=None if since is None else since.objective.totals.zone)
    n, k = problem.n, problem.moving(z)
    violation = float(penalty.violation(now.d_z / n, z)[:k].max(initial=0.0))
    violation = max(violation, tau_violation(now.d_tau / n, tau, bounds))
    value = now.value / n + penalty.value(z)
    steps = 0 if since is None else since.iterations + 1
    return PenalizedPoint(z, tau, now, value, violation, steps)


def _step(
    problem: Problem,
    penalty: Penalty,
    point: PenalizedPoint,
    bounds: tuple[float, float] | None,
    damping: float,
) -> tuple[FloatArray, float] | None:
    """Return the minimiser of the damped second-order model with the penalty, None if not convex."""
    now, z, tau, n = point.objective, point.z, point.tau, problem.n
    k = problem.moving(z)
    hessian, gradient = np.zeros((k + 1, k + 1)), np.append(now.d_z[:k], now.d_tau) / n
    hessian[:k, :k], hessian[k, k] = now.d2_z[:k, :k] / n, now.d2_tau / n
    hessian[k, :k] = hessian[:k, k] = now.d_z_tau[:k] / n
    hessian[np.arange(k), np.arange(k)] += penalty.l2[:k]
    hessian[np.diag_indices(k + 1)] += damping
    gradient[:k] += penalty.l2[:k] * z[:k]
    l1, here, there = np.append(penalty.l1[:k], 0.0), np.append(z[:k], tau), z.copy()
    if bounds is not None:
        joint = feature_sign(hessian, hessian @ here - gradient, l1, here)
        if joint is None:
            return None
        if bounds[0] <= joint[k] <= bounds[1]:
            there[:k] = joint[:k]
            return there, float(joint[k])
        level = min(max(float(joint[k]), bounds[0]), bounds[1])
        gradient, tau = gradient + hessian[k] * (level - tau), level
    inner = hessian[:k, :k]
    held = feature_sign(inner, inner @ z[:k] - gradient[:k], l1[:k], z[:k])
    if held is None:
        return None
    there[:k] = held
    return there, tau


def _descend(
    problem: Problem,
    penalty: Penalty,
    z: FloatArray,
    tau: float,
    bounds: tuple[float, float] | None,
    tol: float,
) -> PenalizedPoint:
    """Return a stationary point by proximal Newton steps with Marquardt's damping."""
    point = _point(problem, penalty, z, tau, bounds)
    damping = DAMPING[0]
    while point.violation > tol and point.iterations < MAX_STEPS and damping < DAMPING[1]:
        step = _step(problem, penalty, point, bounds, damping / problem.kappa)
        if step is None or not step[0][-1] > 0.0:  # not convex, or no positive theta
            damping *= 10.0
            continue
        trial, level = step
        now, move = point.objective, trial - point.z
        slope = (float(now.d_z @ move) + now.d_tau * (level - point.tau)) / problem.n
        gain = slope + penalty.value(trial) - penalty.value(point.z)
        after = _point(problem, penalty, trial, level, bounds, point)
        if after.value <= point.value + ARMIJO * min(gain, 0.0) + ROUNDING * abs(point.value):
            point, damping = after, max(0.1 * damping, DAMPING[0])
        else:
            point, damping = point._replace(iterations=after.iterations), 10.0 * damping
    return point


def minimise_penalized(
    problem: Problem,
    penalty: Penalty,
    z: FloatArray,
    tau: float,
    *,
    bounds: tuple[float, float] | None = None,
    tol: float = 1e-11,
) -> PenalizedPoint:
    r"""Return a stationary point of the penalised likelihood (QH-40), the minimum where tau is fixed.

    A narrow zone has few rows to show the curvature: the fit then comes down from wider ones, each the
    start of the next.

    Parameters
    ----------
    problem : Problem
        With kappa > 0; the penalty is in its coordinates.
    penalty : Penalty
        Zero on the last coordinate, theta.
    z, tau : ndarray of shape (k,), float
        Starting point.
    bounds : (float, float) or None
        Range of tau; None keeps it fixed.
    tol : float
        Violation of the subgradient condition at which to stop.
    """
    width, steps = smoothing_width(problem.kappa, problem.n, z.size - 1), 0
    while width > WIDER * problem.kappa:
        wide = _descend(replace(problem, kappa=width), penalty, z, tau, bounds, max(tol, 1e-5))
        z, tau, steps, width = wide.z, wide.tau, steps + wide.iterations, width / WIDER
    point = _descend(problem, penalty, z, tau, bounds, tol)
    return point._replace(iterations=point.iterations + steps)


def duality_gap(problem: Problem, penalty: Penalty, point: PenalizedPoint) -> float:
    """Return how far the objective can be above its minimum at this tau, by a dual point (QH-41).

    The slopes of the rows are moved to where the condition holds for the columns without a penalty and
    for those that the absolute values alone have kept, and shrunk until it does for all.
    """
    rows, kappa, tau = problem.rows, problem.kappa, point.tau
    assert isinstance(rows, ArrayRows)
    n, m, theta, weights = problem.n, problem.m, problem.theta, rows.weights
    design = np.asarray(rows.exog, dtype=np.float64)
    only_l1 = (penalty.l2 == 0.0) & (penalty.l1 > 0.0)
    known = penalty.is_absent | (only_l1 & (point.z != 0.0))  # the response among them
    target = n * penalty.l1[known] * np.sign(point.z[known])
    v = zone_part(design @ problem.to_rows(point.z), tau, kappa) / kappa
    dual = dual_from_rows(
        design[:, known], v, tau, kappa, m, theta=theta, weights=weights, linear=target
    )
    if dual.v is None or not np.isfinite(dual.value):
        return np.inf
    s = (dual.v if weights is None else weights * dual.v) @ design / n
    ratio = (np.abs(s[only_l1]) - ROUNDING) / penalty.l1[only_l1]
    shrink = 1.0 / float(ratio.max(initial=1.0))
    bound = float(dual_value(dual.alignment * shrink, dual.square * shrink**2, m, kappa, theta))
    bound = bound / n - penalty.conjugate(np.where(penalty.l2 > 0.0, s * shrink, 0.0))
    return max(float(point.value - problem.normalizer(tau).value / n - bound), 0.0)
