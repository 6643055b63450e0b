"""Roots of a function that is nearly a straight line, by inverse interpolation inside a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Node", "find_root", "inverse_interpolate"]

MAX_STEPS = 80
"""Evaluations after which a root is taken as it is; bisection alone needs fewer."""

CONDITIONS = 6
"""Values and slopes that one interpolation uses."""

APART = 0.05
"""Nodes closer together than this share of their distance to the target count once: between them
rounding would be extrapolated."""

WIDTH_TOLERANCE = 1e-9
"""Move, as a share of the distance from the first node, at which a root is found."""

LEVEL_TOLERANCE = 3e-10
"""Distance from the target, as a share of it, at which a root is found: t is nearly linear in r, and
below it lies the rounding of log-likelihoods."""

NEAR_LEVEL = 1e-4
"""Distance from the target, as a share of it, beyond which a proposal that repeats itself is not a root
but a function that is no line."""

PATIENCE = 12
"""Steps of interpolation with a bisection now and then, after which every other one is a bisection."""

STRIDE = 3.0
"""Largest factor by which one step outwards may exceed the distance covered so far."""


class Node(NamedTuple):
    """r at t, and dt/dr there (NaN where it is not known)."""

    r: float
    t: float
    dt_dr: float


def inverse_interpolate(nodes: Sequence[Node], target: float) -> float:
    """Return t at r = target by Hermite interpolation of t as a function of r.

    Parameters
    ----------
    nodes : sequence of Node
        At least two; the nearest to the target are used, with their slopes where known.
    target : float
        The value of r.

    Examples
    --------
    >>> from qhreg.profile.roots import Node, inverse_interpolate
    >>> inverse_interpolate([Node(0.0, 1.0, float("nan")), Node(2.0, 5.0, float("nan"))], 1.0)
    3.0
    """
    abscissas: list[float] = []
    ordinates: list[float] = []
    slopes: list[float] = []
    for node in sorted(nodes, key=lambda item: abs(item.r - target)):
        nearest = min((abs(node.r - r) for r in abscissas), default=math.inf)
        if nearest <= APART * abs(node.r - target) or len(abscissas) >= CONDITIONS:
            continue
        for _ in range(1 if math.isnan(node.dt_dr) else 2):
            abscissas.append(node.r)
            ordinates.append(node.t)
            slopes.append(node.dt_dr)
    table = list(ordinates)
    value, factor = table[0], 1.0
    for order in range(1, len(abscissas)):
        for i in range(len(abscissas) - order):
            width = abscissas[i + order] - abscissas[i]
            table[i] = slopes[i] if width == 0.0 else (table[i + 1] - table[i]) / width
        factor *= target - abscissas[order - 1]
        value += factor * table[0]
    return value


def find_root(
    at: Callable[[float], Node], nodes: Sequence[Node], target: float, step: float, last: float
) -> float | None:
    """Return t with r(t) = target, or None when r stays below the target up to `last`.

    Parameters
    ----------
    at : callable
        Evaluates the function, which increases from the first node on.
    nodes : sequence of Node
        Known points in increasing order of t; the first has r = 0.
    target : float
        Positive.
    step : float
        Change of t that moves r by about one.
    last : float
        End of the range, possibly infinite.

    Notes
    -----
    The bracket is the last node below and the first node above the target, so that of several
    crossings the first one found from inside is returned.
    """
    known = list(nodes)
    if known[-1].t >= last and known[-1].r < target:
        return None
    guess = _next(known, target, step, last)
    for attempt in range(MAX_STEPS):
        node = at(guess)
        if abs(node.r - target) <= LEVEL_TOLERANCE * target:
            return guess
        known = sorted([*known, node], key=lambda item: item.t)
        inner, outer = _bracket(known, target)
        if outer is None and inner.t >= last:
            return None
        proposal = _next(known, target, step, last)
        if outer is None:
            guess = proposal
            continue
        origin = known[0].t
        repeated = _close(proposal, guess, origin, WIDTH_TOLERANCE)
        near = abs(node.r - target) <= NEAR_LEVEL * target
        if (repeated and near) or _close(inner.t, outer.t, origin, 0.1 * WIDTH_TOLERANCE):
            return proposal
        creeps = _close(proposal, guess, origin, 1e-3)
        turn = attempt % 2 == 1 if attempt >= PATIENCE else attempt % 4 == 3 and not creeps
        if repeated or turn:
            proposal = 0.5 * (inner.t + outer.t)
        guess = proposal
    return guess


def _bracket(known: list[Node], target: float) -> tuple[Node, Node | None]:
    """Return the last node before the first one that is above the target, and that one."""
    for i, node in enumerate(known):
        if node.r >= target:
            return known[i - 1], node
    return known[-1], None


def _close(a: float, b: float, origin: float, share: float) -> bool:
    return abs(a - b) <= share * max(abs(a - origin), 1e-300)


def _next(known: list[Node], target: float, step: float, last: float) -> float:
    """Return where to evaluate next: inside the bracket, or a bounded step beyond the last node."""
    inner, outer = _bracket(known, target)
    origin = known[0].t
    if len(known) == 1:
        return min(origin + target * step, last)
    t = inverse_interpolate(known, target)
    if outer is not None:
        if inner.t < t < outer.t:
            return t
        share = (target - inner.r) / (outer.r - inner.r)
        return inner.t + min(max(share, 0.05), 0.95) * (outer.t - inner.t)
    reach = max(STRIDE * (inner.t - origin), step)
    if not inner.t < t <= inner.t + reach:
        t = inner.t + (reach if inner.r < 0.5 * target else 0.5 * reach)
    return min(t, last)
