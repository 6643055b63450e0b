r"""Minimise a convex quadratic, and then the likelihood, with an elastic-net penalty.

A proximal Newton method: each step minimises the second-order model of the likelihood plus the penalty
itself, exactly, by a search over the signs of the coefficients. The likelihood enters through the one
reduction over the rows only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize

from qhreg._typing import BoolArray, FloatArray
from qhreg.engine.likelihood import Objective
from qhreg.solver.problem import Problem

__all__ = ["PenalizedPoint", "Penalty", "minimise_penalized", "quadratic_with_penalty"]


ARMIJO = 1e-4
WIDER = 4.0
"""Ratio of widths on the way down from an easy one to a narrow one."""

EASY_WIDTH = 0.5
"""Width from which the method starts without an easier problem first."""

GIVEN_UP = 1e-8
"""Violation of the subgradient condition above which another route is tried."""

ROUNDING = 1e-14
"""Relative decrease of the objective that no step can see below."""


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


@dataclass(frozen=True)
class PenalizedPoint:
    """Where the method ended.

    Attributes
    ----------
    z : ndarray, shape (k,)
        The point.
    objective : Objective
        The likelihood there, not divided by the number of observations.
    value : float
        Mean negative log-likelihood plus penalty.
    violation : float
        Largest violation of the subgradient condition.
    iterations, passes : int
        Steps taken; passes over the rows.
    """

    z: FloatArray
    objective: Objective
    value: float
    violation: float
    iterations: int
    passes: int


def _along(
    matrix: FloatArray, linear: FloatArray, l1: FloatArray, start: FloatArray, end: FloatArray
) -> FloatArray:
    """Return the best point between two at which a coordinate changes its sign, or the second one."""
    move = end - start
    flips = (start * end < 0.0) & (l1 > 0.0)
    shares = np.unique(start[flips] / (start[flips] - end[flips]))
    candidates = [end]
    for share in shares:
        point = start + share * move
        point[flips & np.isclose(start / np.where(move == 0.0, 1.0, -move), share, rtol=1e-12)] = (
            0.0
        )
        candidates.append(point)
    values = [0.5 * x @ matrix @ x - linear @ x + l1 @ np.abs(x) for x in candidates]
    return candidates[int(np.argmin(values))]


def quadratic_with_penalty(
    matrix: FloatArray, linear: FloatArray, l1: FloatArray, start: FloatArray
) -> FloatArray:
    r"""Return the minimiser of :math:`\tfrac12 x'Ax - r'x + \sum_j \lambda_j |x_j|`.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        A, positive definite.
    linear, l1 : ndarray, shape (k,)
        r and lambda.
    start : ndarray, shape (k,)
        A point whose zeros are a good guess.

    Notes
    -----
    Given the signs the minimiser solves a linear system. Coordinates that would change their sign stop
    at zero; of those at zero the one whose gradient exceeds its lambda most is freed. Each step lowers
    the value, and there are finitely many sign patterns.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.regularized.penalized import quadratic_with_penalty
    >>> quadratic_with_penalty(np.eye(3), np.array([3.0, -2.0, 0.5]), np.ones(3), np.zeros(3))
    array([ 2., -1.,  0.])
    """
    x = start.copy()
    signs = np.sign(x)
    active = (x != 0.0) | (l1 == 0.0)
    size = float(np.abs(linear).max(initial=0.0)) + float(l1.max(initial=0.0))
    for _ in range(20 * x.size + 20):
        chosen = np.flatnonzero(active)
        if chosen.size:
            inner = np.ix_(chosen, chosen)
            rhs = linear[chosen] - l1[chosen] * signs[chosen]
            target = x.copy()
            target[chosen] = linalg.solve(matrix[inner], rhs, assume_a="pos")
            wrong = (signs * target < 0.0) & (x == 0.0) & (l1 > 0.0)
            target[wrong] = 0.0
            x = _along(matrix, linear, l1, x, target)
            found = np.where(active & (l1 > 0.0), np.sign(x), signs)
            changed = bool((found != signs).any())
            signs, active = found, (x != 0.0) | (l1 == 0.0)
            if changed:
                continue
        gradient = matrix @ x - linear
        excess = np.where(active, 0.0, np.abs(gradient) - l1)
        worst = int(np.argmax(excess))
        if excess[worst] <= 1e-13 * size:
            break
        active[worst], signs[worst] = True, -np.sign(gradient[worst])
    return x


def _total(problem: Problem, penalty: Penalty, now: Objective, z: FloatArray) -> float:
    return now.value / problem.n + penalty.value(z)


def _step(
    problem: Problem, penalty: Penalty, now: Objective, z: FloatArray, damping: float
) -> FloatArray:
    """Return the minimiser of the second-order model with the penalty, theta held where it is fixed."""
    assert now.d2_z is not None
    k = z.size if problem.theta is None else z.size - 1
    hessian = now.d2_z[:k, :k] / problem.n + np.diag(penalty.l2[:k])
    hessian[np.diag_indices(k)] += damping
    gradient = now.d_z[:k] / problem.n + penalty.l2[:k] * z[:k]
    found = z.copy()
    found[:k] = quadratic_with_penalty(hessian, hessian @ z[:k] - gradient, penalty.l1[:k], z[:k])
    return found


def _violation(problem: Problem, penalty: Penalty, now: Objective, z: FloatArray) -> float:
    k = z.size if problem.theta is None else z.size - 1
    return float(penalty.violation(now.d_z / problem.n, z)[:k].max(initial=0.0))


def _descend(
    problem: Problem, penalty: Penalty, z: FloatArray, tau: float, tol: float, max_iterations: int
) -> PenalizedPoint:
    """Return the minimiser at one width by damped proximal Newton steps."""
    now = problem.evaluate(z, tau)
    value = _total(problem, penalty, now, z)
    passes, damping, unit = 1, 1e-9, tau * (1.0 - tau)
    best = PenalizedPoint(z, now, value, _violation(problem, penalty, now, z), 0, 1)
    for iteration in range(1, max_iterations + 1):
        if best.violation <= tol:
            break
        move = _step(problem, penalty, now, z, damping * unit) - z
        smooth = float(now.d_z @ move) / problem.n
        predicted = smooth + penalty.value(z + move) - penalty.value(z)
        step, accepted = 1.0, False
        if problem.theta is None and move[-1] < 0.0:
            step = min(1.0, 0.8 * float(z[-1]) / -float(move[-1]))
        while step > 1e-6:
            trial = z + step * move if step < 1.0 else z + move
            after = problem.evaluate(trial, tau, since=now.zone)
            passes += 1
            total = _total(problem, penalty, after, trial)
            if total <= value + ARMIJO * step * min(predicted, 0.0) + ROUNDING * abs(value):
                accepted = True
                break
            step *= 0.4
        if not accepted:
            if damping > 1e3:
                break
            damping = max(100.0 * damping, 1e-6)
            continue
        damping = max(0.2 * damping, 1e-10) if step == 1.0 else min(4.0 * damping, 1e3)
        z, now, value = trial, after, total
        violation = _violation(problem, penalty, now, z)
        if violation < best.violation or total < best.value - ROUNDING * abs(total):
            best = PenalizedPoint(z, now, value, violation, iteration, passes)
        best = replace(best, iterations=iteration, passes=passes)
    return best


def _over_theta(
    problem: Problem, penalty: Penalty, z: FloatArray, tau: float, tol: float
) -> PenalizedPoint:
    """Return the minimiser by a search over theta, each with a fit at that theta.

    The objective is convex in theta with the other unknowns minimised out; its slope is the partial one.
    """
    known: dict[float, PenalizedPoint] = {}

    def slope(log_theta: float) -> float:
        theta = math.exp(log_theta)
        if log_theta not in known:
            near = min(known, key=lambda other: abs(other - log_theta)) if known else None
            start = z if near is None else known[near].z
            held = replace(problem, theta=theta)
            start = start * (theta / start[-1])
            found = _descend(held, penalty, start, tau, tol, 20)
            if found.violation > GIVEN_UP:
                found = _narrowing(held, penalty, start, tau, tol, 300)
            known[log_theta] = found
        return float(known[log_theta].objective.d_z[-1])

    low = high = math.log(z[-1])
    step = 0.5
    while slope(low) > 0.0 and step < 50.0:
        low, step = low - step, 2.0 * step
    step = 0.5
    while slope(high) < 0.0 and step < 50.0:
        high, step = high + step, 2.0 * step
    for accuracy in (1e-2, 1e-5, 1e-12):
        if slope(low) < 0.0 < slope(high):
            slope(optimize.brentq(slope, low, high, xtol=accuracy, rtol=1e-13))
        best = known[min(known, key=lambda place: abs(known[place].objective.d_z[-1]))]
        point = _descend(problem, penalty, best.z, tau, tol, 50)
        if point.violation <= GIVEN_UP:
            break
    return replace(
        point,
        iterations=point.iterations + sum(fit.iterations for fit in known.values()),
        passes=point.passes + sum(fit.passes for fit in known.values()),
    )


def _narrowing(
    problem: Problem,
    penalty: Penalty,
    z: FloatArray,
    tau: float,
    tol: float,
    max_iterations: int,
) -> PenalizedPoint:
    """Return the minimiser at a narrow width, from those at wider ones."""
    iterations = passes = 0
    width = EASY_WIDTH
    while width > WIDER * problem.kappa:
        easy = replace(problem, kappa=width)
        point = _descend(easy, penalty, z, tau, 1e-5, 30)
        z, iterations, passes = point.z, iterations + point.iterations, passes + point.passes
        width /= WIDER
    point = _descend(problem, penalty, z, tau, tol, max_iterations)
    return replace(point, iterations=point.iterations + iterations, passes=point.passes + passes)


def minimise_penalized(
    problem: Problem,
    penalty: Penalty,
    z: FloatArray,
    tau: float,
    *,
    tol: float = 1e-11,
    max_iterations: int = 60,
    warm: bool = False,
) -> PenalizedPoint:
    r"""Return the minimiser of the mean negative log-likelihood plus a penalty, tau fixed (QH-40).

    Parameters
    ----------
    problem : Problem
        With kappa > 0; the penalty is in its coordinates.
    penalty : Penalty
        Zero on the last coordinate, theta.
    z : ndarray, shape (k,)
        Starting point.
    tau : float
        Asymmetry.
    tol : float
        Violation of the subgradient condition at which to stop.
    max_iterations : int
        Steps at each width.
    warm : bool
        Whether the start is near: then no wider problem comes first.
    """
    if warm:
        point = _descend(problem, penalty, z, tau, tol, max_iterations)
        if point.violation <= GIVEN_UP:
            return point
    point = _narrowing(problem, penalty, z, tau, tol, max_iterations)
    if point.violation <= GIVEN_UP or problem.theta is not None:
        return point
    found = _over_theta(problem, penalty, point.z, tau, tol)
    return found if found.value <= point.value else point
