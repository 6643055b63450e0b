"""Local maxima of the likelihood over tau.

At a given width the best fit at each tau is convex and its slope is known, so that a maximum lies
wherever the slope turns from positive to negative between neighbours, or points out of the range.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from qhreg.exceptions import DomainError
from qhreg.profile.fits import ProfilePoint, TauCurve, curve_of
from qhreg.solver import Solution
from qhreg.solver.over_tau import local_fit
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.model_data import ModelData

__all__ = ["LocalMaxima", "local_maxima", "scan_tau"]


COARSE = 15
"""Values of tau at which to look, evenly spaced in the range."""

DIP = 0.05
"""Log-likelihood by which the profile must fall between two maxima that are told apart; at kappa = 0 it
has a maximum between any two rows."""


@dataclass(frozen=True, repr=False)
class LocalMaxima:
    """The local maxima of the likelihood over tau, the highest first.

    Attributes
    ----------
    points : tuple of ProfilePoint
        The fits.
    tau_bounds : (float, float)
        The range that was looked at.
    names : tuple of str
        Names of the coefficients.
    """

    points: tuple[ProfilePoint, ...]
    tau_bounds: tuple[float, float]
    names: tuple[str, ...]

    def at_bound(self, point: ProfilePoint) -> bool:
        """Return whether a maximum lies on a bound of tau, where the likelihood would rise further."""
        return point.value in self.tau_bounds

    @property
    def interior(self) -> ProfilePoint | None:
        """The highest maximum inside the bounds of tau, or None."""
        return next((point for point in self.points if not self.at_bound(point)), None)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each maximum: tau, llf, distance below the highest, other estimates."""
        highest = self.points[0].loglike
        rows = [
            {
                "tau": point.tau,
                "llf": point.loglike,
                "below": highest - point.loglike,
                "at_bound": self.at_bound(point),
                "sigma": point.sigma,
                **dict(zip(self.names, point.beta, strict=True)),
            }
            for point in self.points
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        lo, hi = self.tau_bounds
        many = "maximum" if len(self.points) == 1 else "local maxima"
        lines = [f"{len(self.points)} {many} of the likelihood over tau in [{lo:g}, {hi:g}]"]
        highest = self.points[0].loglike
        for point in self.points:
            below = highest - point.loglike
            rank = "highest" if below == 0.0 else f"{below:.4g} below"
            bound = ", on the bound" if self.at_bound(point) else ""
            lines.append(
                f"  tau {point.tau:.4f}, log-likelihood {point.loglike:.4f} ({rank}{bound})"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(float_format="{:.4f}".format)
        return html


def scan_tau(curve: TauCurve, count: int = COARSE) -> list[ProfilePoint]:
    """Return fits at evenly spaced tau, the bounds included.

    Parameters
    ----------
    curve : TauCurve
        The profile.
    count : int
        Values strictly inside the bounds.
    """
    width = curve.upper - curve.lower
    inside = np.linspace(curve.lower + 0.05 * width, curve.upper - 0.05 * width, count)
    taus = [curve.lower, *(float(tau) for tau in inside), curve.upper]
    # outwards from the middle, where the starting point is best
    return sorted((curve(tau) for tau in sorted(taus, key=_from_middle)), key=lambda p: p.value)


def _from_middle(tau: float) -> float:
    return abs(tau - 0.5)


def local_maxima(
    data: ModelData, solution: Solution, *, curve: TauCurve | None = None
) -> LocalMaxima:
    """Return the local maxima of the likelihood over (beta, sigma, tau) at the fitted width.

    Parameters
    ----------
    data : ModelData
        The model, with tau estimated and kappa given.
    solution : Solution
        Its fit, which is one of the maxima.
    curve : TauCurve, optional
        The profile over tau, where it is at hand.

    Notes
    -----
    Two maxima closer than the grid of 15 values of tau may be missed; that none is higher than the
    fit is what :func:`qhreg.certificate.global_optimum.certify_global` proves.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.model_data import model_data
    >>> from qhreg.profile.maxima import local_maxima
    >>> from qhreg.solver import solve
    >>> tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
    >>> y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])  # two peaks
    >>> X = np.ones((60, 1))
    >>> local_maxima(model_data(X, y, kappa=0.3), solve(X, y, kappa=0.3))
    2 local maxima of the likelihood over tau in [0.001, 0.999]
      tau 0.8400, log-likelihood -104.4091 (highest)
      tau 0.1781, log-likelihood -106.2031 (1.794 below)
    """
    if data.space.tau is not None:
        raise DomainError(f"tau is fixed at {data.space.tau:g}: there is one maximum, the fit")
    if curve is None:
        width = solution.kappa if data.space.kappa is None else data.space.kappa
        given = replace(data, space=replace(data.space, kappa=width))
        made = curve_of(given, solution, "tau")
        assert isinstance(made, TauCurve)
        curve = made
    with one_blas_thread(data.observations.exog.size):
        nodes = scan_tau(curve)
        return LocalMaxima(_maxima(curve, nodes, solution), (curve.lower, curve.upper), data.names)


def _maxima(
    curve: TauCurve, nodes: list[ProfilePoint], solution: Solution
) -> tuple[ProfilePoint, ...]:
    """Return the maxima between nodes and at the ends, those without a dip between them merged."""
    found = [curve(solution.tau)]
    if nodes[0].slope < 0.0:
        found.append(nodes[0])
    if nodes[-1].slope > 0.0:
        found.append(nodes[-1])
    for left, right in itertools.pairwise(nodes):
        if left.slope > 0.0 >= right.slope and not left.value < solution.tau < right.value:
            found.append(_refined(curve, left))
    known = sorted({p.value: p for p in [*nodes, *found]}.values(), key=lambda p: p.value)
    kept: list[ProfilePoint] = []
    for point in sorted(found, key=lambda p: p.loglike, reverse=True):
        if all(_dip(point, other, known) > DIP for other in kept):
            kept.append(point)
    return tuple(kept)


def _refined(curve: TauCurve, near: ProfilePoint) -> ProfilePoint:
    """Return the local maximum uphill from a point of the profile."""
    z = next(fit.z for fit in curve.fits if fit.tau == near.value)
    return curve(local_fit(curve.setup.problem, z, near.value, curve.setup.task).fit.tau)


def _dip(lower: ProfilePoint, higher: ProfilePoint, known: list[ProfilePoint]) -> float:
    """Return how far the profile falls below the lower of two maxima between them."""
    ends = sorted((lower.value, higher.value))
    between = [p.loglike for p in known if ends[0] <= p.value <= ends[1]]
    return lower.loglike - min(between)
