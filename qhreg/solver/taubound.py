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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.family.normalizer import log_curvature, log_normalizer_derivatives
from qhreg.solver.dual import DualVector, dual_value
from qhreg.solver.problem import Problem
from qhreg.solver.taufit import TauFit

__all__ = ["GlobalBound", "Seed", "TauNode", "branch_and_bound"]


ACCURACY = 0.01
"""Gap per row that a fit away from the optimum may have, over its squared distance in tau: a small
share of what the profile rises by."""

CLEARLY = 1e-3
"""Log-likelihood by which a known dual point must prove its tau to be worse than the best one: one that
proves less is in the way of a better one."""

MAX_ROUNDS = 14
"""Refinements of one interval's pieces; each divides the width of a doubtful piece by four."""


@dataclass(frozen=True)
class TauNode:
    """A value of tau at which the convex fit was made.

    Attributes
    ----------
    tau : float
        The node.
    value : float
        The profile phi(tau) reached: an upper bound on the optimum.
    bound : float
        What the duality gap leaves of it: a lower bound on phi(tau).
    z : ndarray, shape (k,)
        The fitted unknowns.
    """

    tau: float
    value: float
    bound: float
    z: FloatArray


@dataclass(frozen=True)
class GlobalBound:
    """What branch and bound found.

    Attributes
    ----------
    lower, upper : float
        Bounds on the global minimum of the negative log-likelihood.
    best : TauNode
        The node that gives `upper`.
    nodes : tuple of TauNode
        All nodes in the order of tau.
    n_fits : int
        Number of convex fits.
    holds : bool
        Whether ``upper - lower`` reached the tolerance.
    """

    lower: float
    upper: float
    best: TauNode
    nodes: tuple[TauNode, ...]
    n_fits: int
    holds: bool


class TauDual(NamedTuple):
    """One end of an interval: a feasible dual point at tau, its variables where they are kept."""

    tau: float
    alignment: float
    square: float
    v: DualVector | None = None


def _cross(left: TauDual, right: TauDual, weights: FloatArray | None) -> float:
    """Return sum w v_a v_b, or the most that it can be where the variables are not kept."""
    if left.v is None or right.v is None:
        return math.sqrt(left.square * right.square)
    return left.v.dot(right.v, weights)


class Seed(NamedTuple):
    """A feasible dual point at kappa = 0: its tau, and sum w v y."""

    tau: float
    alignment: float


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

    def useful(self, seeds: Sequence[Seed], upper: float) -> list[Seed]:
        """Return those that prove their tau to be clearly worse than the best one known."""
        known = {seed.tau: seed for seed in seeds if seed.alignment > 0.0}
        tau = np.array(sorted(known))
        alignment = np.array([known[t].alignment for t in tau])
        if not tau.size:
            return []
        bound = self.normaliser(tau)[0] + self.window(tau) + self.value(alignment, 0.0)
        return [known[t] for t in tau[bound > upper + CLEARLY]]

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


def branch_and_bound(
    problem: Problem,
    fit_at: Callable[[float, FloatArray, float], TauFit],
    start: TauFit,
    *,
    weights: FloatArray | None,
    tau_bounds: tuple[float, float],
    tol: float = 1e-6,
    max_fits: int = 200,
    polish: Callable[[TauFit], TauFit] | None = None,
    seeds: Sequence[Seed] = (),
) -> GlobalBound:
    """Return certified bounds on the minimum of the profile over tau in the bounds.

    Parameters
    ----------
    problem : Problem
        The data and what is fixed.
    fit_at : callable
        ``fit_at(tau, start, accuracy)`` makes the convex fit to the given gap per unit of weight, or the
        least that can be had, and keeps its dual variables; at kappa = 0 they are not needed.
    start : TauFit
        The candidate optimum, its dual variables kept too.
    weights : ndarray or None
        Case weights.
    tau_bounds : (float, float)
        The range of tau.
    tol : float
        Gap at which to stop, in units of the log-likelihood.
    max_fits : int
        Convex fits after which to give up; the bounds are then still bounds.
    polish : callable or None
        Moves a fit to the nearest stationary tau.
    seeds : sequence of Seed
        Feasible dual points that are known already, at kappa = 0.

    Notes
    -----
    Every interval has to be closed sooner or later. Those far from the best tau come first: then the
    dual variables of few nodes wait for a neighbour.
    """
    profile = Profile(problem, tau_bounds)
    fits: list[TauFit] = []
    duals = [TauDual(0.0, 0.0, 0.0), TauDual(1.0, 0.0, 0.0)]
    crosses = [0.0]
    lowest: list[tuple[float, float] | None] = [None]
    n_fits = 0

    def phi(fit: TauFit) -> float:
        return fit.value + problem.normalizer(fit.tau).value

    def place(middle: TauDual) -> bool:
        """Add an end of two intervals, unless there is one at its tau."""
        position = int(np.searchsorted([d.tau for d in duals], middle.tau))
        left, right = duals[position - 1], duals[position]
        if right.tau == middle.tau:
            return False
        duals.insert(position, middle)
        crosses[position - 1 : position] = [_cross(d, middle, weights) for d in (left, right)]
        lowest[position - 1 : position] = [None, None]
        return True

    def insert(fit: TauFit) -> TauFit:
        """Add a node and return its fit without the dual variables, which only the node keeps."""
        dual, light = fit.dual, replace(fit, dual=replace(fit.dual, kept=None))
        if place(TauDual(fit.tau, dual.alignment, dual.square, dual.kept)):
            fits.insert(int(np.searchsorted([f.tau for f in fits], fit.tau)), light)
        return light

    best = insert(start)
    for seed in profile.useful(seeds, phi(best)):
        place(TauDual(seed.tau, seed.alignment, 0.0))
    known_for = np.inf
    while True:
        upper = phi(best)
        target = upper - tol
        for i, known in enumerate(lowest):
            if known is None or (known[0] < target and upper < known_for):
                lowest[i] = interval_bound(profile, duals[i], duals[i + 1], crosses[i], target)
        known_for = upper
        values = [item[0] for item in lowest if item is not None]
        open_ones = [i for i, value in enumerate(values) if value < target]
        if not open_ones or n_fits >= max_fits:
            break
        for i in range(1, len(values)):
            if min(values[i - 1 : i + 1]) >= target:  # it only falls: no node comes beside this one
                duals[i] = duals[i]._replace(v=None)
        far = max(open_ones, key=lambda i: max(abs(duals[j].tau - best.tau) for j in (i, i + 1)))
        left, right = duals[far], duals[far + 1]
        tau = _inside(lowest[far][1], left.tau, right.tau, tau_bounds)  # type: ignore[index]
        rough = fit_at(tau, _predict(fits, tau), ACCURACY * (tau - best.tau) ** 2)
        n_fits += 1
        # a gap that hides whether it is worse, or beside a new best one, would keep intervals open
        if phi(rough) < target + 2.0 * rough.gap and rough.gap > 0.1 * tol:
            rough = fit_at(tau, rough.z, 0.0)
            n_fits += 1
        fit = insert(rough)
        if phi(fit) < upper:
            if polish is not None:
                polished = insert(polish(fit))
                n_fits += 1
                fit = polished if phi(polished) < phi(fit) else fit
            best = fit
    nodes = tuple(TauNode(f.tau, phi(f), phi(f) - f.gap, f.z) for f in fits)
    upper = phi(best)
    lower = min(min(values), upper)
    top = TauNode(best.tau, upper, upper - best.gap, best.z)
    return GlobalBound(lower, upper, top, nodes, n_fits, upper - lower <= tol)


def _inside(tau: float, left: float, right: float, bounds: tuple[float, float]) -> float:
    """Return tau moved away from the ends of its interval, where a fit would add nothing."""
    lo, hi = max(left, bounds[0]), min(right, bounds[1])
    margin = 0.1 * (hi - lo)
    return float(min(max(tau, lo + margin), hi - margin))


def _predict(fits: list[TauFit], tau: float) -> FloatArray:
    """Return a starting point at tau from the fits on either side."""
    taus = [f.tau for f in fits]
    i = int(np.searchsorted(taus, tau))
    if i == 0:
        return fits[0].z
    if i == len(fits):
        return fits[-1].z
    s = (tau - taus[i - 1]) / (taus[i] - taus[i - 1])
    return (1 - s) * fits[i - 1].z + s * fits[i].z
