r"""Local maxima of the likelihood over the width, by its slope.

The loss is a maximum of functions linear in kappa, :math:`u\psi-\kappa\psi^2/2` over
:math:`-\tau\le\psi\le1-\tau`, so that at a fit, where everything else is stationary (QH-22),

.. math::

    \frac{d\ell}{d\kappa} = \frac12\sum_i w_i v_i^2 - n\,\frac{d\log c}{d\kappa}
    - \frac p2\,\frac{d\log q}{d\kappa}

(p = 0 in the ordinary likelihood) with v the dual point of the fit (QH-15). The slope comes with the
fit and costs nothing. A maximum is a root of it, closed in on from both sides in
:math:`x=\log(\kappa+0.01)`, which is even in the relative change of large widths and reaches zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from qhreg.family.normalizer import restricted_normalizer
from qhreg.solver.joint import Solution

__all__ = ["SHIFT", "TOLERANCE", "climb", "close_in", "kappa_slope", "log_width", "width_of"]

SHIFT = 0.01
"""Widths are compared by log(kappa + SHIFT)."""

TOLERANCE = 1e-8
"""Log-likelihood that a local maximum may leave."""

FIRST_STEP = 0.1
"""First step in log(kappa + SHIFT) where no curvature is known."""

LONGEST_STEP = 1.0
"""Longest step in log(kappa + SHIFT)."""

MAX_FITS = 40
"""Fits after which the best one is taken as it is; bisection alone needs fewer."""


def log_width(kappa: float) -> float:
    """Return the coordinate of a width."""
    return math.log(kappa + SHIFT)


def width_of(x: float) -> float:
    """Return the width at a coordinate."""
    return max(math.exp(x) - SHIFT, 0.0)


def kappa_slope(fit: Solution) -> float:
    """Return the derivative of the log-likelihood in kappa at a fit of everything else (QH-22).

    Parameters
    ----------
    fit : Solution
        From :func:`qhreg.solver.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.solver.kappalocal import kappa_slope
    >>> from qhreg.solver.joint import solve
    >>> X, y = np.ones((200, 1)), np.random.default_rng(0).laplace(size=200)
    >>> low, middle, high = (solve(X, y, kappa=kappa) for kappa in (0.999, 1.0, 1.001))
    >>> rise = high.loglike_restricted - low.loglike_restricted
    >>> bool(abs(kappa_slope(middle) - rise / 0.002) < 1e-5)
    True
    """
    c = restricted_normalizer(float(fit.tau), float(fit.kappa), fit.n, fit.p)
    return 0.5 * fit.square - float(c.d_kappa)


class _Node(NamedTuple):
    """A fit at a coordinate, with its slope in this coordinate."""

    x: float
    slope: float
    fit: Solution


def _node(fit: Solution) -> _Node:
    return _Node(log_width(fit.kappa), kappa_slope(fit) * (fit.kappa + SHIFT), fit)


def climb(
    refit: Callable[[float, Solution], Solution],
    start: Solution,
    *,
    curvature: float | None = None,
    widest: float = math.inf,
) -> tuple[Solution, float | None]:
    """Return the local maximum over kappa that lies uphill from a fit, and the curvature there.

    Parameters
    ----------
    refit : callable
        Fits everything else at a given width, started from a given fit.
    start : Solution
        A fit at the width to start from.
    curvature : float, optional
        Of the negative log-likelihood in log(kappa + 0.01), for the first step.
    widest : float
        Where to stop: the last fit is returned if the likelihood still rises there.

    Notes
    -----
    Steps uphill until the slope changes its sign, then `close_in`.
    """
    here = _node(start)
    length = FIRST_STEP
    if curvature is not None and curvature > 0.0:
        length = min(max(abs(here.slope) / curvature, 1e-9), LONGEST_STEP)
    lowest, highest = log_width(0.0), log_width(widest)
    for _ in range(MAX_FITS):
        uphill = math.copysign(1.0, here.slope)
        if abs(here.slope) * length < 0.5 * TOLERANCE and curvature is not None:
            return here.fit, curvature
        x = min(max(here.x + uphill * length, lowest), highest)
        if x == here.x or here.slope == 0.0:
            return here.fit, curvature
        there = _node(refit(0.0 if x == lowest else width_of(x), here.fit))
        if there.slope * here.slope <= 0.0:
            below, above = sorted((here, there), key=lambda node: node.x)
            found = close_in(refit, below.fit, above.fit)
            slope = (below.slope - above.slope) / (above.x - below.x)
            return found, slope if slope > 0.0 else None
        bend = (here.slope - there.slope) / (there.x - here.x)
        curvature = bend if bend > 0.0 else None
        newton = there.slope / bend * uphill if bend > 0.0 else math.inf
        length = min(max(1.05 * newton, 1e-9), 3.0 * length, LONGEST_STEP)
        here = there
    return here.fit, curvature


def close_in(
    refit: Callable[[float, Solution], Solution], below: Solution, above: Solution
) -> Solution:
    """Return the best fit between two widths at which the likelihood rises and falls.

    Parameters
    ----------
    refit : callable
        As in `climb`.
    below, above : Solution
        Fits at the two widths.

    Notes
    -----
    The secant rule, with bisection where it does not shrink the bracket; it ends when the next step
    would gain less than the tolerance. Fits in different basins of tau can leave no root: then the
    best of the fits made is returned.
    """
    a, b = _node(below), _node(above)
    best = max(below, above, key=lambda fit: fit.loglike_restricted)
    last = math.inf
    for attempt in range(MAX_FITS):
        if not a.slope > 0.0 > b.slope:
            break
        share = a.slope / (a.slope - b.slope)
        if attempt % 3 == 2 and b.x - a.x > 0.3 * last:
            share = 0.5
        if attempt % 3 == 0:
            last = b.x - a.x
        x = a.x + share * (b.x - a.x)
        near = a if share < 0.5 else b
        if abs(near.slope) * abs(x - near.x) < TOLERANCE or not a.x < x < b.x:
            break
        middle = _node(refit(width_of(x), near.fit))
        best = max(best, middle.fit, key=lambda fit: fit.loglike_restricted)
        a, b = (middle, b) if middle.slope > 0.0 else (a, middle)
    return best
