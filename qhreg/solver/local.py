"""Local optima of the joint problem, and the search for the best of them over tau.

Newton's method on the projected likelihood first; where it has no rows in the zone to work with, exact
convex fits along tau, whose slope is known at every fit. The joint problem is biconvex, not convex:
which optimum is the best is decided by branch and bound over tau.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import weighted_columns
from qhreg.solver.convex import GAP_TOLERANCE, TINY_KAPPA, TauFit, fit_at, proved_newton
from qhreg.solver.dual import DualVector
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem, Task
from qhreg.solver.taubound import GlobalBound, Seed, branch_and_bound

__all__ = [
    "BY_NEWTON",
    "LocalFit",
    "Memory",
    "bound_profile",
    "constant_direction",
    "local_fit",
    "profile_slope",
    "profile_value",
    "search_tau",
    "stationary_in_tau",
]


FLAT_SLOPE = 1e-7
"""Slope of the profile per unit of weight at which tau counts as stationary."""

FAR_TAU = 0.02
"""Distance in tau from every earlier fit beyond which a start is moved to the new quantile first."""

BY_NEWTON = "Newton's method converged"
"""Reason of a fit that Newton's method found and proved by itself."""

LAST_DIGITS = 1e-12
"""Error of Newton's method after exact fits: another pass or two cost little beside those."""

EARLY = 8
"""Fits inside a bracket of tau after which Newton's method is given a chance each."""

TOWARDS_END = 2
"""Steps towards an end of tau, each as long as allowed, after which the end itself is tried."""

END_ROWS = 20_000
"""Rows up to which it is: from as far away an exact fit of more of them would keep too many."""

SEARCH_TOLERANCE = 1e-5
"""Log-likelihood that the default search may leave to another basin."""

SEARCH_SHARE = 2e-9
"""The same per row, where that is more: the fits themselves are proved to half of it."""

REMEMBERED = 40
"""Dual points that are remembered from one search to the next."""

FEASIBLE = 1e-11
"""Product of a dual point with an orthonormal column, per unit of weight, that is rounding error."""

SEARCH_FITS = 60
"""Convex fits that the default search makes at most."""


@dataclass(frozen=True)
class LocalFit:
    """A fit found by a local method, in the coordinates of its problem."""

    fit: TauFit
    iterations: int
    passes: int
    reason: str


def profile_slope(fit: TauFit, problem: Problem) -> float:
    """Return the derivative of the profile at the fit, per unit of weight."""
    return (problem.normalizer(fit.tau).d_tau - fit.excess) / problem.n


def profile_value(fit: TauFit, problem: Problem) -> float:
    """Return the profile phi = n log c + h at the fit."""
    return fit.value + problem.normalizer(fit.tau).value


def stationary_in_tau(fit: TauFit, problem: Problem, task: Task) -> bool:
    """Return whether tau is fixed, stationary, or at a bound that the profile falls towards."""
    if task.tau is not None:
        return True
    slope = profile_slope(fit, problem)
    lower, upper = task.tau_bounds
    return (
        abs(slope) <= FLAT_SLOPE
        or (fit.tau == lower and slope >= 0.0)
        or (fit.tau == upper and slope <= 0.0)
    )


def _polished(problem: Problem, fit: TauFit, task: Task) -> TauFit | None:
    """Return the optimum that Newton's method finds from an exact fit nearby, proved, or None."""
    if problem.kappa <= TINY_KAPPA:
        return None
    point = newton(
        problem, fit.z, fit.tau, tau_bounds=task.free_bounds, tol=LAST_DIGITS, max_passes=10
    )
    polished = proved_newton(problem, point)
    if polished is None or not polished.proved(problem.n):
        return None
    higher = profile_value(polished, problem) > profile_value(fit, problem) + 1e-9
    return None if higher else polished


def _descend_profile(problem: Problem, start: TauFit, task: Task) -> TauFit:
    """Return a local minimum of the profile by exact convex fits along tau.

    The slope of the profile is known at every fit; a bracket is widened downhill and closed by the
    secant rule with bisection as its safeguard. The profile has most of its shape where tau or 1 - tau
    is small: a step at most halves that, and one that ends higher is shortened. Inside the bracket the
    rows of the zone are nearly known, and Newton's method is given a chance to go the rest of the way.
    """
    bounds = task.tau_bounds
    curvature = max(0.5 * problem.normalizer(start.tau).d2_tau / problem.n, 1e-8)
    here, slope = start, profile_slope(start, problem)
    best = here
    step = min(abs(slope) / curvature, 0.1) or 1e-6
    downhill = -np.sign(slope)
    halved = 0
    while True:
        room = 1.0 - here.tau if downhill > 0.0 else here.tau
        halved += step > 0.5 * room
        tau = float(np.clip(here.tau + downhill * min(step, 0.5 * room), *bounds))
        if abs(tau - here.tau) < 1e-13:
            return best
        if halved == TOWARDS_END and problem.rows.n_rows <= END_ROWS:
            end = fit_at(problem, bounds[int(downhill > 0.0)], here.z, warm=True)
            drop = profile_value(end, problem) - profile_value(here, problem)
            straight = problem.n * slope * (end.tau - here.tau)
            if drop < straight and stationary_in_tau(end, problem, task):  # it only gets steeper
                return end
        there = fit_at(problem, tau, here.z, warm=True)
        best = min(best, there, key=lambda f: profile_value(f, problem))
        new_slope = profile_slope(there, problem)
        if new_slope * slope <= 0.0:
            break
        if profile_value(there, problem) > profile_value(here, problem) + 1e-10 * problem.n:
            step = 0.25 * abs(tau - here.tau)
            continue
        here, slope, step = there, new_slope, 2.0 * step
    ends = sorted([(here.tau, slope, here), (there.tau, new_slope, there)], key=lambda e: e[0])
    (a, slope_a, fit_a), (b, slope_b, fit_b) = ends
    for attempt in range(60):
        if b - a < 1e-13 or min(abs(slope_a), abs(slope_b)) < 1e-13:
            break
        tau = a + (b - a) * (-slope_a / (slope_b - slope_a) if attempt % 3 < 2 else 0.5)
        if not a < tau < b:
            tau = 0.5 * (a + b)
        if not a < tau < b:
            break
        share = (tau - a) / (b - a)
        middle = fit_at(problem, tau, (1 - share) * fit_a.z + share * fit_b.z, warm=True)
        best = min(best, middle, key=lambda f: profile_value(f, problem))
        polished = _polished(problem, best, task) if attempt < EARLY else None
        if polished is not None and stationary_in_tau(polished, problem, task):
            return polished
        middle_slope = profile_slope(middle, problem)
        if abs(middle_slope) < 1e-13:
            return middle
        if middle_slope < 0.0:
            a, slope_a, fit_a = tau, middle_slope, middle
        else:
            b, slope_b, fit_b = tau, middle_slope, middle
    flat = min(fit_a, fit_b, key=lambda f: abs(profile_slope(f, problem)))
    return (
        flat
        if profile_value(flat, problem) <= profile_value(best, problem) + 1e-10 * problem.n
        else best
    )


def local_fit(problem: Problem, z: FloatArray, tau: float, task: Task) -> LocalFit:
    """Return a local optimum with its proof: Newton first, exact fits along tau when it fails."""
    iterations = passes = 0
    if task.tau is None:
        tau = min(max(tau, task.tau_bounds[0]), task.tau_bounds[1])
    if problem.kappa > TINY_KAPPA:
        point = newton(problem, z, tau, tau_bounds=task.free_bounds)
        fit = proved_newton(problem, point)
        iterations, passes = point.iterations, point.passes
        if fit is not None and fit.proved(problem.n) and stationary_in_tau(fit, problem, task):
            return LocalFit(fit, iterations, fit.passes, BY_NEWTON)
        if point.error < 1e-2:
            z, tau = point.z, point.tau
    fit = fit_at(problem, tau, z, warm=True)
    if task.tau is None:
        fit = _descend_profile(problem, fit, task)
        polished = _polished(problem, fit, task)  # the last digits
        if polished is not None:
            passes += polished.passes
            return LocalFit(polished, iterations, passes, "exact fits, then Newton")
    reason = "exact convex fits along tau" if task.tau is None else "exact convex fit"
    return LocalFit(fit, iterations + fit.iterations, passes + fit.passes, reason)


def constant_direction(problem: Problem) -> FloatArray:
    """Return d such that W d is the constant, or what of it the columns span.

    The columns of W are orthonormal but for the response, which d leaves alone.
    """
    total = np.zeros(problem.rows.n_unknowns)
    for block in problem.rows.blocks():
        total += weighted_columns(block, np.ones(block.exog.shape[0]))
    if problem.matrix is not None:
        total = problem.matrix.T @ total
    total[-1] = 0.0
    return total / problem.rows.n_rows


def _moved(problem: Problem, z: FloatArray, tau: float, constant: FloatArray) -> FloatArray:
    """Return a better start at a distant tau: the quantile it asks for, and the scale for that.

    Rows then lie in the zone for Newton's method to work with.
    """
    quantile = np.quantile(problem.some_residuals(z), 1.0 - tau, overwrite_input=True)
    moved = z - float(quantile) * constant
    if problem.theta is not None:
        return moved
    u = problem.some_residuals(moved)
    total, above = float(u.sum()), float(np.maximum(u, 0.0, out=u).sum())
    size = (above - tau * total) / u.size  # the mean quantile loss
    return moved / size if 0.0 < size < np.inf else z


class Memory:
    r"""Dual points of earlier searches with the same regressors and weights, at kappa = 0.

    The response enters no constraint of the dual (QH-15): what was feasible for one is so for every
    other, such as the responses less multiples of a column along the profile of its coefficient.
    """

    def __init__(self) -> None:
        self.points: dict[float, DualVector] = {}

    def add(self, tau: float, point: DualVector) -> None:
        """Remember a point; the oldest is forgotten."""
        self.points.pop(tau, None)
        self.points[tau] = point
        if len(self.points) > REMEMBERED:
            del self.points[next(iter(self.points))]

    def seeds(self, problem: Problem, weights: FloatArray | None) -> list[Seed]:
        """Return the points that are feasible for a problem, with its response."""
        found = []
        for tau, point in self.points.items():
            if point.side.size != problem.rows.n_rows:
                continue
            v, start = np.concatenate(list(point.pieces())), 0
            v = v if weights is None else v * weights
            total = np.zeros(problem.rows.n_unknowns)
            for block in problem.rows.blocks():
                rows = slice(start, start + block.exog.shape[0])
                total, start = total + weighted_columns(block, v[rows]), rows.stop
            if problem.matrix is not None:
                total = problem.matrix.T @ total
            if np.abs(total[:-1]).max(initial=0.0) <= FEASIBLE * problem.n:
                found.append(Seed(tau, float(total[-1])))
        return found


def bound_profile(
    problem: Problem,
    fit: TauFit,
    task: Task,
    weights: FloatArray | None,
    *,
    tol: float,
    max_fits: int,
    memory: Memory | None = None,
) -> GlobalBound:
    """Return certified bounds on the profile over the whole range of tau.

    Dual points in the memory, which may be of another response, spare fits; new ones are added to it.
    """
    constant = constant_direction(problem)
    fitted = [fit.tau]
    remembers = memory is not None and problem.kappa <= TINY_KAPPA
    seeds = memory.seeds(problem, weights) if memory is not None and remembers else []

    def kept(tau: float, z: FloatArray, accuracy: float = GAP_TOLERANCE) -> TauFit:
        if min(abs(tau - known) for known in fitted) > FAR_TAU:
            z = _moved(problem, z, tau, constant)
        fitted.append(tau)
        accuracy = max(accuracy, GAP_TOLERANCE)
        keep = problem.kappa > TINY_KAPPA or remembers
        found = fit_at(problem, tau, z, keep=keep, warm=True, accuracy=accuracy)
        if memory is not None and remembers and found.dual.kept is not None:
            memory.add(tau, found.dual.kept)
        return found

    def polish(rough: TauFit) -> TauFit:
        better = local_fit(problem, rough.z, rough.tau, task).fit
        return kept(better.tau, better.z)

    return branch_and_bound(
        problem,
        kept,
        kept(fit.tau, fit.z),
        weights=weights,
        tau_bounds=task.tau_bounds,
        tol=tol,
        max_fits=max_fits,
        polish=polish,
        seeds=seeds,
    )


def search_tau(
    problem: Problem,
    local: LocalFit,
    task: Task,
    weights: FloatArray | None,
    memory: Memory | None = None,
) -> tuple[LocalFit, bool]:
    """Return the best local optimum over the whole range of tau, and whether that is proved."""
    tol = max(SEARCH_TOLERANCE, SEARCH_SHARE * problem.n)
    found = bound_profile(
        problem, local.fit, task, weights, tol=tol, max_fits=SEARCH_FITS, memory=memory
    )
    if found.best.value >= profile_value(local.fit, problem) - 1e-9:
        return local, found.holds
    return local_fit(problem, found.best.z, found.best.tau, task), found.holds
