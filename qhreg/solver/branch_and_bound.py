"""Branch and bound over tau: proof that no other tau has a higher likelihood.

Convex fits at a few values of tau give an upper bound on the minimum of the profile, and their dual
points a lower bound between them (:mod:`qhreg.solver.tau_bound`). Intervals that may hold something
better get another fit until none is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qhreg._typing import FloatArray
from qhreg.solver.dual import GAP_TOLERANCE, TauFit
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import local_fit, profile_value
from qhreg.solver.problem import Problem, Task
from qhreg.solver.tau_bound import TauDual, cross_product, interval_bound, tau_dual

ACCURACY = 0.01
"""Gap per row that a fit away from the optimum may have, over its squared distance in tau: a small
share of what the profile rises by."""


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
    """
    bounds = task.tau_bounds
    fits: list[TauFit] = []
    duals = [TauDual(0.0, 0.0, 0.0), TauDual(1.0, 0.0, 0.0)]
    crosses = [0.0]
    lowest: list[tuple[float, float] | None] = [None]
    n_fits = 0

    def phi(fit: TauFit) -> float:
        return profile_value(fit, problem)

    def fit_node(tau: float, z: FloatArray, accuracy: float = 0.0) -> TauFit:
        return fit_at(problem, tau, z, warm=True, accuracy=max(accuracy, GAP_TOLERANCE))

    def insert(fit: TauFit) -> TauFit:
        """Add a node where there is none, and return its fit."""
        position = int(np.searchsorted([d.tau for d in duals], fit.tau))
        if duals[position].tau != fit.tau:
            middle = tau_dual(fit)
            crosses[position - 1 : position] = [
                cross_product(d, middle, problem.kappa) for d in duals[position - 1 : position + 1]
            ]
            duals.insert(position, middle)
            lowest[position - 1 : position] = [None, None]
            fits.insert(position - 1, fit)
        return fit

    best = insert(fit_node(start.tau, start.z))
    known_for = np.inf
    while True:
        upper = phi(best)
        target = upper - tol
        for i, known in enumerate(lowest):
            if known is None or (known[0] < target and upper < known_for):
                ends = duals[i], duals[i + 1]
                lowest[i] = interval_bound(problem, bounds, *ends, crosses[i], target)
        known_for = upper
        settled = [item for item in lowest if item is not None]
        worst = min(range(len(settled)), key=lambda i: settled[i][0])
        lower = settled[worst][0]
        if lower >= target or n_fits >= max_fits:
            break
        tau = _inside(settled[worst][1], duals[worst].tau, duals[worst + 1].tau, bounds)
        fit = fit_node(tau, _predict(fits, tau), ACCURACY * (tau - best.tau) ** 2)
        n_fits += 1
        # a gap that hides whether it is worse, or beside a new best one, would keep intervals open
        if phi(fit) < target + 2.0 * fit.gap and fit.gap > 0.1 * tol:
            fit = fit_node(tau, fit.z)
            n_fits += 1
        insert(fit)
        if phi(fit) < upper:
            bottom = local_fit(problem, fit.z, fit.tau, task).fit
            polished = insert(fit_node(bottom.tau, bottom.z))
            n_fits += 1
            best = min(fit, polished, key=phi)
    lower = min(lower, upper)
    return GlobalBound(lower, upper, best, tuple(fits), n_fits, upper - lower <= tol)


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
