r"""Branch and bound over tau: a rigorous lower bound on the likelihood's global optimum.

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
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.family.normalizer import log_curvature, log_normalizer_derivatives
from qhreg.solver.dual import DualVariables, TauFit, dual_value, feasible
from qhreg.solver.problem import Problem

MAX_ROUNDS = 14
"""Refinements of one interval's pieces; each divides the width of a doubtful piece by four."""


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


def interval_bound(
    problem: Problem,
    bounds: tuple[float, float],
    left: TauDual,
    right: TauDual,
    cross: float,
    target: float,
) -> tuple[float, float]:
    """Return a lower bound of the profile on an interval and where the bounding curve is lowest.

    Pieces whose bound is below `target` are refined until they are not, or until the bounding curve
    itself is seen below the target.
    """
    lo, hi = max(left.tau, bounds[0]), min(right.tau, bounds[1])
    if not lo < hi:
        return np.inf, lo
    weight = problem.n - 0.5 * problem.rank  # of log c, the convex part
    edges = np.linspace(lo, hi, 9)
    settled = np.inf
    lowest, where = np.inf, 0.5 * (lo + hi)
    starts, ends = edges[:-1], edges[1:]
    for _ in range(MAX_ROUNDS):
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
        if lowest < target or float(half.max()) < 1e-15:
            break
        cuts = np.linspace(starts[doubtful], ends[doubtful], 5)
        starts, ends = cuts[:-1].ravel(), cuts[1:].ravel()
    return min(settled, float(piece.min())), where
