r"""The fit over tau: a scan of its range, then Newton's method in the best basins.

The profile over tau may have several minima. Each of a fixed set of values, equally spaced on the logit
scale, gets a rough convex fit: the neighbour's moved along its tangent

.. math::

    \frac{dz}{d\tau} = -H_{zz}^{-1} H_{z\tau},

then a Newton step. Values and slopes of the profile at two neighbours tell whether a minimum lies
between them, and by the cubic through both how deep it is. The deepest few are then followed to their
bottom on all rows, with proof: by Newton's method on the projected likelihood, and where it has no rows
in the zone to work with, by exact convex fits along tau, whose slope is known.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from qhreg._typing import FloatArray
from qhreg.engine.rows import weighted_sum
from qhreg.family.loss import zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver.dual import (
    TINY_KAPPA,
    DualPoint,
    TauFit,
    dual_from_newton,
    dual_value,
    proved_newton,
)
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.newton import SHORT_STEP, NewtonPoint, newton, projected
from qhreg.solver.problem import Problem, smoothing_width

SCAN_POINTS = 41
"""Values of tau in the scan."""

FOLLOWED = 3
"""Basins that are followed to their bottom, the deepest ones."""

PASSES = 6
"""Passes over the sample for one value of the scan at most."""

ROUGH = 1e-4
"""Duality gap per unit of weight of an exact fit in the scan."""

FLAT_SLOPE = 1e-7
"""Slope of the profile in logit tau per unit of weight at which tau counts as stationary."""


class Basin(NamedTuple):
    """A minimum of the profile over tau: where it lies, about how deep, and a fit nearby."""

    tau: float
    value: float
    z: FloatArray


# ---------------------------------------------------------------------- the profile at a fit


def profile_slope(fit: TauFit, problem: Problem) -> float:
    """Return the derivative of the profile at the fit, per unit of weight."""
    return float(problem.normalizer(fit.tau).d_tau - fit.excess) / problem.n


def profile_value(fit: TauFit, problem: Problem) -> float:
    """Return the profile at the fit: the normaliser plus h."""
    return float(fit.value + problem.normalizer(fit.tau).value)


def stationary_in_tau(fit: TauFit, problem: Problem) -> bool:
    """Return whether tau is fixed, stationary, or at a bound that the profile falls towards."""
    if problem.tau_bounds is None:
        return True
    slope = profile_slope(fit, problem)
    lower, upper = problem.tau_bounds
    return (
        abs(slope) * fit.tau * (1.0 - fit.tau) <= FLAT_SLOPE
        or (fit.tau == lower and slope >= 0.0)
        or (fit.tau == upper and slope <= 0.0)
    )


# ---------------------------------------------------------------------- the scan


def tau_grid(bounds: tuple[float, float]) -> list[float]:
    """Return the values of tau that are looked at: equally spaced in the logit, the bounds included."""
    inside = expit(np.linspace(logit(bounds[0]), logit(bounds[1]), SCAN_POINTS))[1:-1]
    return [bounds[0], *inside.tolist(), bounds[1]]


def scan_basins(problem: Problem, z: FloatArray) -> list[Basin]:
    """Return the minima of the profile that a scan shows, the deepest first, a few at most.

    The scan goes outwards from the middle. Where the zone has too few rows for Newton's method the
    dual bound may show that nothing better lies further out; where it does not, exact fits go on.

    Parameters
    ----------
    problem : Problem
        Of the rows that carry the scan.
    z : ndarray, shape (k,)
        A fit at some tau in the middle.
    """
    assert problem.tau_bounds is not None
    width = smoothing_width(problem.kappa, problem.n, z.size - 1)
    smooth = replace(problem, kappa=width)
    taus = tau_grid(problem.tau_bounds)
    first = SCAN_POINTS // 2
    point = newton(smooth, z, taus[first], tau_bounds=None, tol=SHORT_STEP)
    if point.error > SHORT_STEP:
        z = fit_at(smooth, taus[first], z, accuracy=ROUGH).z
        point = newton(smooth, z, taus[first], tau_bounds=None, tol=SHORT_STEP)
    nodes = [_node(point, smooth)]
    for end, order in ((1.0, taus[first + 1 :]), (0.0, taus[:first][::-1])):
        nodes += _outwards(smooth, nodes[0], point, order, end)
    nodes.sort(key=lambda node: node.tau)
    return profile_minima(nodes, problem.tau_bounds)


class ProfileNode(NamedTuple):
    """A rough fit of the scan: the profile with its slope, and how the fit moves with tau."""

    tau: float
    value: float
    slope: float
    z: FloatArray
    tangent: FloatArray | None = None


def _node(point: NewtonPoint, problem: Problem) -> ProfileNode:
    """Return where one more Newton step leads, without another pass."""
    now, z, tau = point.objective, point.z, point.tau
    k = problem.moving(z)
    near = projected(now, problem.n, k)
    there = z.copy()
    there[:k] += near.step
    if not (point.error <= SHORT_STEP and there[-1] > 0.5 * z[-1]):
        return ProfileNode(tau, now.value, now.d_tau, z)
    tangent = np.append(near.tangent, np.zeros(z.size - k))
    value = now.value + 0.5 * float(now.d_z[:k] @ near.step)
    return ProfileNode(tau, value, near.slope, there, tangent)


def _moved(node: ProfileNode, tau: float) -> FloatArray:
    """Return the start at another tau along the tangent of the path of fits."""
    if node.tangent is None:
        return node.z
    moved = node.z + (tau - node.tau) * node.tangent
    return moved if moved[-1] > 0.2 * node.z[-1] else node.z


def _outwards(
    problem: Problem,
    node: ProfileNode,
    point: NewtonPoint,
    taus: list[float],
    end: float,
) -> list[ProfileNode]:
    """Return the nodes on one side of the middle, until nothing better can follow."""
    nodes: list[ProfileNode] = []
    best, followed, z = node.value, True, node.z
    for place, tau in enumerate(taus):
        if followed:
            last = point
            point = newton(
                problem,
                _moved(node, tau),
                tau,
                tau_bounds=None,
                since=last.objective.totals.zone,
                tol=SHORT_STEP,
                max_passes=PASSES,
            )
            # with fewer rows in the zone than coefficients there is no fit to follow, and no dual point
            determined = point.objective.totals.rows_in_zone >= node.z.size - 1
            followed = determined and point.error <= SHORT_STEP
            if followed:
                node = _node(point, problem)
                nodes.append(node)
                best, z = min(best, node.value), node.z
                continue
            settled = newton(problem, last.z, last.tau, tau_bounds=None, max_passes=PASSES)
            dual = dual_from_newton(problem, settled)
            if dual is not None and _excluded(problem, last.tau, dual, end, taus[place:], best):
                break
        fit = fit_at(problem, tau, z, warm=True, accuracy=ROUGH)
        z, c = fit.z, problem.normalizer(tau)
        nodes.append(ProfileNode(tau, fit.value + c.value, c.d_tau - fit.excess, fit.z))
        best = min(best, nodes[-1].value)
        if _excluded(problem, tau, fit.dual, end, taus[place:], best):
            break
    return nodes


def _excluded(
    problem: Problem, tau: float, dual: DualPoint, end: float, further: list[float], best: float
) -> bool:
    """Return whether the dual point, shrunk towards v = 0 at the end, excludes less than `best`.

    It is then feasible at the values of tau further out (QH-16).
    """
    taus = np.array(further)
    share = (end - taus) / (end - tau)
    alignment, square = share * dual.alignment, share**2 * dual.square
    bound = dual_value(alignment, square, problem.m, problem.kappa, problem.theta)
    return bool((bound + problem.normalizer(taus).value >= best).all())


def profile_minima(nodes: list[ProfileNode], bounds: tuple[float, float]) -> list[Basin]:
    """Return the minima between nodes and at ends, the deepest few.

    The profile may fall towards an end. It is then a basin where it is a bound, or the lowest node: the
    minimum lies between it and values that were excluded.
    """
    lowest = min(nodes, key=lambda node: node.value)
    basins = [
        Basin(node.tau, node.value, node.z)
        for node, bound, sign in ((nodes[0], bounds[0], 1.0), (nodes[-1], bounds[1], -1.0))
        if sign * node.slope >= 0.0 and (node.tau == bound or node is lowest)
    ]
    for left, right in itertools.pairwise(nodes):
        if left.slope < 0.0 < right.slope:
            share, value = _cubic_minimum(left, right)
            tau = left.tau + share * (right.tau - left.tau)
            basins.append(Basin(tau, value, (1.0 - share) * left.z + share * right.z))
    if not basins:
        basins.append(Basin(lowest.tau, lowest.value, lowest.z))
    return sorted(basins, key=lambda basin: basin.value)[:FOLLOWED]


def _cubic_minimum(left: ProfileNode, right: ProfileNode) -> tuple[float, float]:
    """Return where between two nodes, and how low, the cubic through values and slopes is least."""
    width, rise = right.tau - left.tau, right.value - left.value
    a, b = left.slope * width, right.slope * width
    cubic, square = a + b - 2.0 * rise, 3.0 * rise - 2.0 * a - b
    root = math.sqrt(max(square * square - 3.0 * cubic * a, 0.0))
    share = -a / (square + root) if square + root > 0.0 else 0.5
    share = min(max(share, 0.0), 1.0)
    return share, left.value + share * (a + share * (square + share * cubic))


# ---------------------------------------------------------------------- the bottom of a basin


def local_fit(problem: Problem, z: FloatArray, tau: float) -> TauFit:
    """Return a local optimum with its proof: Newton first, exact fits along tau when it fails."""
    if problem.tau_bounds is None:
        return fit_at(problem, tau, z)
    fit, passes = _newton_fit(problem, z, tau)
    if fit is None:
        exact = _descend(problem, z, min(max(tau, problem.tau_bounds[0]), problem.tau_bounds[1]))
        fit, more = _newton_fit(problem, exact.z, exact.tau)
        passes += exact.passes + more
        if fit is None or profile_value(fit, problem) > profile_value(exact, problem) + 1e-9:
            return replace(exact, passes=passes, reason="exact convex fits along tau")
    return replace(fit, passes=passes, reason="Newton's method converged")


def _newton_fit(problem: Problem, z: FloatArray, tau: float) -> tuple[TauFit | None, int]:
    """Return the optimum that Newton's method finds over z and tau, proved, or None; its passes."""
    if problem.kappa <= TINY_KAPPA:
        return None, 0
    point = newton(problem, z, tau, tau_bounds=problem.tau_bounds)
    fit = proved_newton(problem, point)
    if fit is None or not (fit.proved(problem.n) and stationary_in_tau(fit, problem)):
        return None, point.passes
    return fit, fit.passes


def _descend(problem: Problem, z: FloatArray, tau: float) -> TauFit:
    """Return a local minimum of the profile by exact convex fits along tau.

    It starts at the given tau or at the optimum with a smoothed loss, whichever is better, whose
    curvature gives the first step. Steps downhill double until the slope changes its sign, and Brent's
    method finds the root. h is concave: its slope jumps down only, so that a sign change upwards is a
    root.
    """
    width = smoothing_width(problem.kappa, problem.n, z.size - 1)
    assert problem.tau_bounds is not None
    lower, upper = problem.tau_bounds
    smooth = newton(replace(problem, kappa=width), z, tau, tau_bounds=(lower, upper), tol=1e-3)
    near = smooth.error <= SHORT_STEP
    start = fit_at(problem, smooth.tau, smooth.z, warm=True) if near else fit_at(problem, tau, z)
    if profile_value(start, problem) > problem.value(z, tau):
        start = fit_at(problem, tau, z, warm=True)
    fits = {start.tau: start}

    def slope(tau: float) -> float:
        """Return the slope of the profile, zero where it counts as stationary."""
        if tau not in fits:
            nearest = fits[min(fits, key=lambda known: abs(known - tau))]
            fits[tau] = fit_at(problem, tau, nearest.z, warm=True)
        value = profile_slope(fits[tau], problem)
        return 0.0 if stationary_in_tau(fits[tau], problem) else value

    here, first = start.tau, slope(start.tau)
    curvature = projected(smooth.objective, problem.n, problem.moving(z)).curvature
    if not curvature > 0.0:  # that of the convex part
        curvature = float(problem.normalizer(smooth.tau).d2_tau)
    step = first * problem.n / curvature
    while first != 0.0:
        there = min(max(here - step, lower), upper)
        if slope(there) * first <= 0.0:
            if slope(there) != 0.0:
                brentq(
                    slope, min(here, there), max(here, there), xtol=1e-15, rtol=1e-14, maxiter=60
                )
            break
        here, step = there, 2.0 * step
    settled = [fit for fit in fits.values() if stationary_in_tau(fit, problem)]
    best = min(settled or fits.values(), key=lambda fit: profile_value(fit, problem))
    return replace(best, passes=smooth.passes + sum(fit.passes for fit in fits.values()))


def best_tau(
    u: FloatArray,
    kappa: float,
    *,
    weights: FloatArray | None = None,
    tau_bounds: tuple[float, float],
) -> float:
    r"""Return the tau that minimises the mean normalised loss of given standardised residuals.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    kappa : float
        Huber width, >= 0.
    weights : ndarray, shape (n,), or None
        Case weights.
    tau_bounds : (float, float)
        Where to look.

    Notes
    -----
    Brent's method on the derivative :math:`(\log c)' - \bar e` (QH-4). Where the certificate does not
    hold the derivative may have several roots, and one of them is returned.
    """
    n = float(u.size if weights is None else weights.sum())

    def slope(tau: float) -> float:
        excess = weighted_sum(u - zone_part(u, tau, kappa), weights) / n
        return float(log_normalizer_derivatives(tau, kappa).d_tau) - excess

    if slope(tau_bounds[0]) >= 0.0:
        return tau_bounds[0]
    if slope(tau_bounds[1]) <= 0.0:
        return tau_bounds[1]
    return float(brentq(slope, *tau_bounds))
