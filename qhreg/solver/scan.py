r"""The scan over tau: fits at fixed values of it, and the basins of the profile that they show.

The profile over tau may have several minima. Each of a fixed set of values, equally spaced on the logit
scale, gets a rough convex fit: the neighbour's fit moved along its tangent,

.. math::

    \frac{dz}{d\tau} = -H_{zz}^{-1} H_{z\tau},

then one or two Newton steps. Values and slopes of the profile at two neighbours tell whether a minimum
lies between them, and by the cubic through both how deep it is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.solver.convex import fit_at
from qhreg.solver.dual import DualPoint, dual_from_newton
from qhreg.solver.newton import NewtonPoint, newton, solve_positive
from qhreg.solver.problem import Problem
from qhreg.solver.taubound import Profile, TauDual, interval_bound

__all__ = ["Basin", "scan_basins"]

POINTS = 41
"""Values of tau in the scan."""

ROUGH = 1e-3
"""Error of a fit in the scan (see NewtonPoint)."""

PASSES = 6
"""Passes over the sample for one of them at most."""


class Basin(NamedTuple):
    """A minimum of the profile over tau: where it lies, about how deep, and a fit nearby."""

    tau: float
    value: float
    z: FloatArray


class _Node(NamedTuple):
    """A rough fit of the scan: the profile with its slope."""

    tau: float
    value: float
    slope: float
    z: FloatArray


def smoothing_width(kappa: float, rows: int, columns: int) -> float:
    """Return the width of the fits of the scan, which need rows in the zone also at kappa = 0.

    The bandwidth of smoothed quantile regression (He, Pan, Tan & Zhou 2023), added in quadrature.
    """
    return math.hypot(kappa, max(((math.log(rows) + columns) / rows) ** 0.4, 0.05))


def _moved(point: NewtonPoint, tau: float) -> FloatArray:
    """Return the start at another tau along the tangent of the path of fits."""
    now, z = point.objective, point.z
    k = z.size
    tangent = solve_positive(now.d2_z[:k, :k], now.d_z_tau[:k])
    if tangent is None:
        return z
    moved = z - (tau - point.tau) * tangent
    return moved if moved[-1] > 0.2 * z[-1] else z


def scan_basins(
    problem: Problem, z: FloatArray, tau: float, bounds: tuple[float, float]
) -> list[Basin]:
    """Return the minima of the profile that a scan shows, the deepest first.

    The scan goes outwards from the starting point. Where the zone has too few rows for Newton's method
    the dual bound may show that nothing better lies further out; where it does not, exact fits go on.
    """
    width = smoothing_width(problem.kappa, problem.rows.n_rows, z.size - 1)
    smooth = replace(problem, kappa=width)
    logits = np.linspace(*(math.log(t / (1.0 - t)) for t in bounds), POINTS)
    taus = (1.0 / (1.0 + np.exp(-logits))).tolist()
    taus[0], taus[-1] = bounds
    first = int(np.argmin(np.abs(np.subtract(taus, tau))))
    centre = newton(smooth, z, taus[first], tau_bounds=None, tol=ROUGH, max_passes=PASSES)
    nodes = [_node(centre)]
    for end, order in ((1.0, taus[first + 1 :]), (0.0, taus[:first][::-1])):
        nodes += _outwards(smooth, centre, order, end, bounds, min(x.value for x in nodes))
    return _minima(sorted(nodes, key=lambda node: node.tau), bounds)


def _outwards(
    problem: Problem,
    point: NewtonPoint,
    taus: list[float],
    end: float,
    bounds: tuple[float, float],
    best: float,
) -> list[_Node]:
    """Return the nodes on one side of the centre, until nothing better can follow."""
    nodes: list[_Node] = []
    followed = True
    for tau in taus:
        if followed:
            last, point = (
                point,
                newton(
                    problem, _moved(point, tau), tau, tau_bounds=None, tol=ROUGH, max_passes=PASSES
                ),
            )
            followed = point.error <= 1e-2
            if followed:
                nodes.append(_node(point))
                best = min(best, nodes[-1].value)
                continue
            dual, z = dual_from_newton(problem, last), last.z
            if dual is not None and _excluded(problem, last.tau, dual, end, bounds, best):
                break
        fit = fit_at(problem, tau, z, warm=True, accuracy=1e-4)
        z, c = fit.z, problem.normalizer(tau)
        nodes.append(_Node(tau, fit.value + c.value, c.d_tau - fit.excess, fit.z))
        best = min(best, nodes[-1].value)
        if _excluded(problem, tau, fit.dual, end, bounds, best):
            break
    return nodes


def _excluded(
    problem: Problem,
    tau: float,
    dual: DualPoint,
    end: float,
    bounds: tuple[float, float],
    best: float,
) -> bool:
    """Return whether the dual bound shows that nothing below `best` lies between tau and an end."""
    ends = sorted([TauDual(tau, dual.alignment, dual.square), TauDual(end, 0.0, 0.0)])
    return interval_bound(Profile(problem, bounds), *ends, 0.0, best)[0] >= best


def _node(point: NewtonPoint) -> _Node:
    return _Node(point.tau, point.objective.value, point.objective.d_tau, point.z)


def _minima(nodes: list[_Node], bounds: tuple[float, float]) -> list[Basin]:
    """Return the minima between nodes, and at bounds towards which the profile falls."""
    basins = [
        Basin(node.tau, node.value, node.z)
        for node, bound, sign in ((nodes[0], bounds[0], 1.0), (nodes[-1], bounds[1], -1.0))
        if node.tau == bound and sign * node.slope >= 0.0
    ]
    for left, right in itertools.pairwise(nodes):
        if left.slope < 0.0 < right.slope:
            share, value = _cubic_minimum(left, right)
            tau = left.tau + share * (right.tau - left.tau)
            basins.append(Basin(tau, value, (1.0 - share) * left.z + share * right.z))
    return sorted(basins, key=lambda basin: basin.value)


def _cubic_minimum(left: _Node, right: _Node) -> tuple[float, float]:
    """Return where between two nodes, and how low, the cubic through values and slopes is least."""
    width, rise = right.tau - left.tau, right.value - left.value
    a, b = left.slope * width, right.slope * width
    cubic, square = a + b - 2.0 * rise, 3.0 * rise - 2.0 * a - b
    root = math.sqrt(max(square * square - 3.0 * cubic * a, 0.0))
    share = -a / (square + root) if square + root > 0.0 else 0.5
    share = min(max(share, 0.0), 1.0)
    return share, left.value + share * (a + share * (square + share * cubic))
