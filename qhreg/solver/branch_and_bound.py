"""Branch and bound over tau: proof that no other tau has a higher likelihood.

Convex fits at a few values of tau give an upper bound on the minimum of the profile, and their dual
points a lower bound between them (:mod:`qhreg.solver.tau_bound`). Intervals that may hold something
better get another fit until none is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qhreg._typing import FloatArray
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA, TauFit
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import local_fit, profile_value
from qhreg.solver.problem import Problem, Task
from qhreg.solver.tau_bound import Profile, TauDual, cross_product, interval_bound

__all__ = ["GlobalBound", "TauNode", "branch_and_bound"]

ACCURACY = 0.01
"""Gap per row that a fit away from the optimum may have, over its squared distance in tau: a small
share of what the profile rises by."""


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


def branch_and_bound(
    problem: Problem, start: TauFit, task: Task, *, tol: float = 1e-6, max_fits: int = 200
) -> GlobalBound:
    """Return certified bounds on the minimum of the profile over tau in the bounds.

    Parameters
    ----------
    problem : Problem
        The data and what is fixed.
    start : TauFit
        The candidate optimum.
    task : Task
        What to fit; its bounds are the range of tau.
    tol : float
        Gap at which to stop, in units of the log-likelihood.
    max_fits : int
        Convex fits after which to give up; the bounds are then still bounds.

    Notes
    -----
    Every interval has to be closed sooner or later. Those far from the best tau come first: then the
    dual variables of few nodes wait for a neighbour.
    """
    profile, weights = Profile(problem, task.tau_bounds), problem.weights()
    fits: list[TauFit] = []
    duals = [TauDual(0.0, 0.0, 0.0), TauDual(1.0, 0.0, 0.0)]
    crosses = [0.0]
    lowest: list[tuple[float, float] | None] = [None]
    n_fits = 0

    def phi(fit: TauFit) -> float:
        return profile_value(fit, problem)

    def fit_node(tau: float, z: FloatArray, accuracy: float = 0.0) -> TauFit:
        """Return the fit with its dual variables, which at kappa = 0 are not needed."""
        accuracy = max(accuracy, GAP_TOLERANCE)
        keep = problem.kappa > TINY_KAPPA
        return fit_at(problem, tau, z, keep=keep, warm=True, accuracy=accuracy)

    def insert(fit: TauFit) -> TauFit:
        """Add a node and return its fit without the dual variables, which only the node keeps."""
        dual, light = fit.dual, replace(fit, dual=replace(fit.dual, kept=None))
        middle = TauDual(fit.tau, dual.alignment, dual.square, dual.kept)
        position = int(np.searchsorted([d.tau for d in duals], fit.tau))
        left, right = duals[position - 1], duals[position]
        if right.tau != fit.tau:
            duals.insert(position, middle)
            crosses[position - 1 : position] = [
                cross_product(d, middle, weights) for d in (left, right)
            ]
            lowest[position - 1 : position] = [None, None]
            fits.insert(position - 1, light)
        return light

    best = insert(fit_node(start.tau, start.z))
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
        tau = _inside(lowest[far][1], left.tau, right.tau, task.tau_bounds)  # type: ignore[index]
        rough = fit_node(tau, _predict(fits, tau), ACCURACY * (tau - best.tau) ** 2)
        n_fits += 1
        # a gap that hides whether it is worse, or beside a new best one, would keep intervals open
        if phi(rough) < target + 2.0 * rough.gap and rough.gap > 0.1 * tol:
            rough = fit_node(tau, rough.z)
            n_fits += 1
        fit = insert(rough)
        if phi(fit) < upper:
            bottom = local_fit(problem, fit.z, fit.tau, task).fit
            polished = insert(fit_node(bottom.tau, bottom.z))
            n_fits += 1
            best = polished if phi(polished) < phi(fit) else fit
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
