"""The convex fit at one tau as a value: the point, its dual bound, and when that is proof enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qhreg._typing import FloatArray
from qhreg.solver.dual import DualPoint, dual_from_gradient, dual_from_newton
from qhreg.solver.newton import NewtonPoint
from qhreg.solver.problem import Problem

__all__ = ["GAP_TOLERANCE", "ROUNDING", "TINY_KAPPA", "TauFit", "proved_newton"]


GAP_TOLERANCE = 1e-9
"""Duality gap per unit of weight at which a fit counts as proved."""

ROUNDING = 1e-13
"""Relative rounding of the value that no method can see below; matters with outliers of 1e15."""

NEARLY_STATIONARY = 1e-3
"""Error of Newton's method below which its point is worth a dual bound."""

TINY_KAPPA = 1e-12
"""At or below this width the fit is solved as kappa = 0: the loss differs by less than kappa / 8."""


@dataclass(frozen=True)
class TauFit:
    """The convex fit at one tau.

    Attributes
    ----------
    tau : float
        The asymmetry.
    z : ndarray, shape (k,)
        (-b, theta) in the coordinates of the problem.
    value : float
        h = sum w rho - m log theta at z, m = n or n - p.
    excess : float
        sum w e at z: minus the derivative of h in tau.
    dual : DualPoint
        A feasible dual point; `dual.value` bounds h from below.
    rows_in_zone : int
        Rows in the quadratic zone (at kappa = 0: interpolated rows).
    passes, iterations : int
        Work done.
    """

    tau: float
    z: FloatArray
    value: float
    excess: float
    dual: DualPoint
    rows_in_zone: int
    passes: int
    iterations: int

    @property
    def gap(self) -> float:
        """The duality gap: how far `value` can be above the minimum."""
        difference = self.value - self.dual.value
        return max(float(difference), 0.0) if math.isfinite(difference) else math.inf

    def proved(self, n: float, accuracy: float = GAP_TOLERANCE) -> bool:
        """Return whether the gap is small per unit of weight, or at the rounding of the value."""
        return self.gap < math.inf and self.gap <= accuracy * n + ROUNDING * abs(self.value)


def proved_newton(problem: Problem, point: NewtonPoint, *, keep: bool = False) -> TauFit | None:
    """Return where Newton's method ended with its dual bound, or None when it is not near enough.

    The gradient alone gives the bound when it is at rounding level; otherwise, and to keep the dual
    variables, another pass does.
    """
    if not point.error < NEARLY_STATIONARY:
        return None
    n, now = problem.n, point.objective
    c = problem.normalizer(point.tau)
    value = now.value - c.value
    passes = point.passes
    dual: DualPoint | None = None
    if not keep:
        dual = dual_from_gradient(problem, point)
    if dual is None or not value - dual.value <= GAP_TOLERANCE * n:
        dual = dual_from_newton(problem, point, keep=keep)
        passes += 1
    if dual is None:
        return None
    excess = c.d_tau - now.d_tau
    return TauFit(
        point.tau, point.z, value, excess, dual, now.rows_in_zone, passes, point.iterations
    )
