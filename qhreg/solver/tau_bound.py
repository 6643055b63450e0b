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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.family.normalizer import log_curvature, log_normalizer_derivatives
from qhreg.solver.dual import DualRule, DualVector, dual_value
from qhreg.solver.problem import Problem

__all__ = ["Profile", "TauDual", "interval_bound"]


MAX_ROUNDS = 14
"""Refinements of one interval's pieces; each divides the width of a doubtful piece by four."""


class TauDual(NamedTuple):
    """One end of an interval: a feasible dual point at tau, its variables where they are kept."""

    tau: float
    alignment: float
    square: float
    v: DualVector | DualRule | None = None


def cross_product(left: TauDual, right: TauDual, weights: FloatArray | None) -> float:
    """Return sum w v_a v_b, or the most that it can be where the variables are not kept."""
    if isinstance(left.v, DualVector) and isinstance(right.v, DualVector):
        return left.v.dot(right.v, weights)
    if isinstance(left.v, DualRule) and isinstance(right.v, DualRule):
        return left.v.dot(right.v)
    return math.sqrt(left.square * right.square)


@dataclass(frozen=True)
class Profile:
    """What the lower bound of an interval needs besides its two ends."""

    problem: Problem
    bounds: tuple[float, float]

    def normaliser(self, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the convex part (n - p/2) log c and its slope."""
        c = log_normalizer_derivatives(tau, self.problem.kappa)
        weight = self.problem.n - 0.5 * self.problem.rank
        return weight * c.value, weight * c.d_tau

    def window(self, tau: FloatArray) -> FloatArray:
        """Return (p/2) log N, concave in tau."""
        if not self.problem.rank:
            return np.zeros_like(tau)
        q, c = (f(tau, self.problem.kappa) for f in (log_curvature, log_normalizer_derivatives))
        return np.asarray(0.5 * self.problem.rank * (q.value + c.value))

    def dual(self, left: TauDual, right: TauDual, cross: float, tau: FloatArray) -> FloatArray:
        """Return a lower bound of the concave part, h + (p/2) log N, between two nodes."""
        s = (tau - left.tau) / (right.tau - left.tau)
        alignment = (1 - s) * left.alignment + s * right.alignment
        square = (1 - s) ** 2 * left.square + 2 * s * (1 - s) * cross + s**2 * right.square
        return self.value(alignment, square) + self.window(tau)

    def value(self, alignment: FloatArray, square: FloatArray | float) -> FloatArray:
        """Return the dual objective."""
        p = self.problem
        return np.asarray(dual_value(alignment, square, p.m, p.kappa, p.theta))


def interval_bound(
    profile: Profile, left: TauDual, right: TauDual, cross: float, target: float
) -> tuple[float, float]:
    """Return a lower bound of the profile on an interval and where the bounding curve is lowest.

    Pieces whose bound is below `target` are refined until they are not, or until the bounding curve
    itself is seen below the target.
    """
    lo, hi = max(left.tau, profile.bounds[0]), min(right.tau, profile.bounds[1])
    if not lo < hi:
        return np.inf, lo
    edges = np.linspace(lo, hi, 9)
    settled = np.inf
    lowest, where = np.inf, 0.5 * (lo + hi)
    starts, ends = edges[:-1], edges[1:]
    for _ in range(MAX_ROUNDS):
        middle = 0.5 * (starts + ends)
        value, slope = profile.normaliser(middle)
        half = 0.5 * (ends - starts)
        dual = profile.dual(left, right, cross, np.concatenate([starts, ends, middle]))
        d_start, d_end, d_middle = dual.reshape(3, -1)
        piece = np.minimum(value - half * slope + d_start, value + half * slope + d_end)
        curve = value + d_middle
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
