r"""Branch and bound over tau: proof that no other tau has a higher likelihood.

Convex fits at a few values of tau give an upper bound on the minimum of the profile, and their dual
points a lower bound between them. Intervals that may hold something better get another fit until none
is left.

The profile ``phi(tau) = n log c(tau) + h(tau)`` adds a convex and a concave function; that of the
restricted likelihood (QH-25) is ``(n - p/2) log c + {h + (p/2) log N}``, N = q c (QH-24), and log N is
concave too. Let v_a and v_b
be feasible for the dual (QH-15) at a and b. The box [-tau, 1 - tau] moves linearly with tau, so for
tau = (1 - s) a + s b the mixture (1 - s) v_a + s v_b is feasible at tau, and (QH-16)

.. math::

    h(\tau) \ge D\big((1-s) v_a + s v_b\big),

which needs only the inner products of v_a, v_b and y. It is never below the chord of h and follows
the profile to third order in b - a, where the chord does to second. v = 0 is feasible at
tau = 0 and tau = 1 and closes both ends. The bound's minimum over an interval is a problem in one
variable without data: log c is bounded by its tangents, D by its chords, and the pieces are refined
until the answer is certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.family.normalizer import log_curvature, log_normalizer_derivatives
from qhreg.solver.dual import GAP_TOLERANCE, DualVariables, TauFit, dual_value, feasible
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import local_fit, profile_value
from qhreg.solver.problem import Problem

ACCURACY = 0.01
"""Gap per row that a fit away from the optimum may have, over its squared distance in tau: a small
share of what the profile rises by."""


class TauDual(NamedTuple):
    """One end of an interval, or of several: a feasible dual point at tau, and its variables."""

    tau: Any
    alignment: Any
    square: Any
    variables: DualVariables | None = None


def tau_dual(fit: TauFit) -> TauDual:
    """Return the dual point of a fit as an end of intervals."""
    dual = fit.dual
    if dual.variables is None:
        return TauDual(fit.tau, dual.alignment, dual.square)
    return TauDual(fit.tau, *feasible(dual.variables, float(fit.z[-1])))


def cross_product(left: TauDual, right: TauDual, kappa: float) -> float:
    """Return sum w v_a v_b, or the most that it can be: where it is not known, or enters times zero."""
    if kappa == 0.0 or left.variables is None or right.variables is None:
        return math.sqrt(left.square * right.square)
    return left.variables.dot(right.variables)


def mixture_value(
    share: Any, left: TauDual, right: TauDual, cross: Any, m: float, kappa: float, theta: Any
) -> FloatArray:
    """Return the dual objective of (1 - share) v_a + share v_b (QH-16)."""
    rest = 1.0 - share
    alignment = rest * left.alignment + share * right.alignment
    square = rest**2 * left.square + 2.0 * share * rest * cross + share**2 * right.square
    return np.asarray(dual_value(alignment, square, m, kappa, theta))


def concave_bound(
    problem: Problem, left: TauDual, right: TauDual, cross: float, tau: FloatArray
) -> FloatArray:
    """Return a lower bound of the concave part, h + (p/2) log N, between two nodes."""
    share = (tau - left.tau) / (right.tau - left.tau)
    bound = mixture_value(share, left, right, cross, problem.m, problem.kappa, problem.theta)
    if problem.rank:
        q, c = (f(tau, problem.kappa) for f in (log_curvature, log_normalizer_derivatives))
        bound = bound + 0.5 * problem.rank * (q.value + c.value)
    return bound


class Interval(NamedTuple):
    """Two neighbouring dual points with their inner product, and the bound between them so far.

    Attributes
    ----------
    left, right : TauDual
        The ends.
    cross : float
        Their inner product.
    lower : float
        A lower bound of the profile between them.
    where : float
        Where the bounding curve is lowest.
    """

    left: TauDual
    right: TauDual
    cross: float
    lower: float = -math.inf
    where: float = math.nan

    def inside(self, problem: Problem) -> tuple[float, float]:
        """Return the ends of what lies in the range of tau."""
        assert problem.tau_bounds is not None
        return max(self.left.tau, problem.tau_bounds[0]), min(self.right.tau, problem.tau_bounds[1])


def interval_bound(problem: Problem, interval: Interval, target: float) -> tuple[float, float]:
    """Return a lower bound of the profile on an interval and where the bounding curve is lowest.

    Pieces whose bound is below `target` are refined until they are not, or until the bounding curve
    itself is seen below the target.
    """
    left, right, cross, *_ = interval
    lo, hi = interval.inside(problem)
    if not lo < hi:
        return np.inf, lo
    weight = problem.n - 0.5 * problem.rank  # of log c, the convex part
    edges = np.linspace(lo, hi, 9)
    settled = np.inf
    lowest, where = np.inf, 0.5 * (lo + hi)
    starts, ends = edges[:-1], edges[1:]
    while True:
        middle, half = 0.5 * (starts + ends), 0.5 * (ends - starts)
        c = log_normalizer_derivatives(middle, problem.kappa)
        value, rise = weight * c.value, weight * c.d_tau * half
        taus = np.concatenate([starts, ends, middle])
        at_start, at_end, at_middle = concave_bound(problem, left, right, cross, taus).reshape(
            3, -1
        )
        piece = np.minimum(value - rise + at_start, value + rise + at_end)
        curve = value + at_middle
        k = int(np.argmin(curve))
        if curve[k] < lowest:
            lowest, where = float(curve[k]), float(middle[k])
        doubtful = piece < target
        settled = min(settled, float(piece[~doubtful].min(initial=np.inf)))
        if not doubtful.any():
            return settled, where
        if lowest < target or float(half.max()) < ROUNDING:
            break
        cuts = np.linspace(starts[doubtful], ends[doubtful], 5)
        starts, ends = cuts[:-1].ravel(), cuts[1:].ravel()
    return min(settled, float(piece.min())), where


@dataclass(frozen=True)
class GlobalBound:
    """What branch and bound found.

    Attributes
    ----------
    lower, upper : float
        Bounds on the global minimum of the negative log-likelihood.
    best : TauFit
        The fit that gives `upper`.
    fits : tuple of TauFit
        All fits in the order of tau.
    n_fits : int
        Number of convex fits.
    holds : bool
        Whether ``upper - lower`` reached the tolerance.
    """

    lower: float
    upper: float
    best: TauFit
    fits: tuple[TauFit, ...]
    n_fits: int
    holds: bool


def branch_and_bound(
    problem: Problem, start: TauFit, *, tol: float = 1e-6, max_fits: int = 200
) -> GlobalBound:
    """Return certified bounds on the minimum of the profile over tau in the bounds.

    Parameters
    ----------
    problem : Problem
        The data and what is fixed.
    start : TauFit
        The candidate optimum.
    tol : float
        Gap at which to stop, in units of the log-likelihood.
    max_fits : int
        Convex fits after which to give up; the bounds are then still bounds.
    """
    fits: list[TauFit] = []
    intervals = [Interval(TauDual(0.0, 0.0, 0.0), TauDual(1.0, 0.0, 0.0), 0.0)]
    n_fits = 0

    def phi(fit: TauFit) -> float:
        return profile_value(fit, problem)

    def fit_node(tau: float, z: FloatArray, accuracy: float = 0.0) -> TauFit:
        return fit_at(problem, tau, z, warm=True, accuracy=max(accuracy, GAP_TOLERANCE))

    def insert(fit: TauFit) -> TauFit:
        """Split the interval around a fit, if no node is there yet, and return the fit."""
        for i, (left, right, *_) in enumerate(intervals):
            if left.tau < fit.tau < right.tau:
                middle = tau_dual(fit)
                halves = (left, middle), (middle, right)
                intervals[i : i + 1] = [
                    Interval(*half, cross_product(*half, problem.kappa)) for half in halves
                ]
                fits.append(fit)
                break
        return fit

    best = insert(fit_node(start.tau, start.z))
    known_for = np.inf
    while True:
        upper = phi(best)
        target = upper - tol
        for i, each in enumerate(intervals):
            if each.lower == -np.inf or (each.lower < target and upper < known_for):
                lower, where = interval_bound(problem, each, target)
                intervals[i] = each._replace(lower=lower, where=where)
        known_for = upper
        worst = min(intervals, key=lambda each: each.lower)
        if worst.lower >= target or n_fits >= max_fits:
            break
        lo, hi = worst.inside(problem)
        margin = 0.1 * (hi - lo)  # a fit at its ends would add nothing
        tau = min(max(worst.where, lo + margin), hi - margin)
        near = min(fits, key=lambda fit: abs(fit.tau - tau))
        fit = fit_node(tau, near.z, ACCURACY * (tau - best.tau) ** 2)
        n_fits += 1
        # a gap that hides whether it is worse, or beside a new best one, would keep intervals open
        if phi(fit) < target + 2.0 * fit.gap and fit.gap > 0.1 * tol:
            fit = fit_node(tau, fit.z)
            n_fits += 1
        insert(fit)
        if phi(fit) < upper:
            bottom = local_fit(problem, fit.z, fit.tau)
            polished = insert(fit_node(bottom.tau, bottom.z))
            n_fits += 1
            best = min(fit, polished, key=phi)
    lower = min(worst.lower, upper)
    fits.sort(key=lambda fit: fit.tau)
    return GlobalBound(lower, upper, best, tuple(fits), n_fits, upper - lower <= tol)
