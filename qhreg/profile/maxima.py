"""Local maxima of the likelihood over tau, as far as a grid of convex fits tells them apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize

from qhreg.exceptions import DomainError
from qhreg.profile.curve import ProfilePoint, TauCurve, curve_of
from qhreg.solver import Solution
from qhreg.solver.over_tau import tau_grid
from qhreg.specification.model_data import ModelData


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


def scan_tau(curve: TauCurve) -> list[ProfilePoint]:
    """Return fits at the values of the grid, the bounds included, in increasing order of tau."""
    taus = tau_grid((curve.lower, curve.upper))
    for tau in sorted(taus, key=lambda tau: abs(tau - 0.5)):  # outwards from the middle
        curve(tau)
    return [curve(tau) for tau in taus]


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
    The best fits at 41 values of tau, evenly spaced in the logit, are compared. A value that is higher
    than both its neighbours is refined to the maximum between them; a bound counts where the likelihood
    rises towards it. Two maxima closer than the grid count as one; that none is higher than the fit is
    what :func:`qhreg.certificate.global_optimum.certify_global` proves.

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
    4 local maxima of the likelihood over tau in [0.001, 0.999]
      tau 0.8334, log-likelihood -103.7136 (highest)
      tau 0.1847, log-likelihood -105.4356 (1.722 below)
      tau 0.9916, log-likelihood -115.0306 (11.32 below)
      tau 0.0084, log-likelihood -118.6455 (14.93 below)
    """
    if data.space.tau is not None:
        raise DomainError(f"tau is fixed at {data.space.tau:g}: there is one maximum, the fit")
    if curve is None:
        width = solution.kappa if data.space.kappa is None else data.space.kappa
        given = replace(data, space=replace(data.space, kappa=width))
        profile = curve_of(given, solution, "tau")
        assert isinstance(profile, TauCurve)
        curve = profile
    maxima = _maxima(curve, solution.tau)
    points = tuple(replace(point, beta=data.expand(point.beta)) for point in maxima)
    return LocalMaxima(points, (curve.lower, curve.upper), data.names)


def _maxima(curve: TauCurve, estimate: float) -> list[ProfilePoint]:
    """Return the maxima of a profile, the highest first; that around the estimate is the estimate."""
    nodes = scan_tau(curve)
    heights = np.array([-math.inf, *(node.loglike for node in nodes), -math.inf])
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] > heights[2:]))
    maxima = [curve(estimate)]
    for i in peaks.tolist():
        low, high = nodes[max(i - 1, 0)], nodes[min(i + 1, len(nodes) - 1)]
        if not low.value <= estimate <= high.value:
            maxima.append(_refined(curve, low, nodes[i], high))
    return sorted(maxima, key=lambda point: point.loglike, reverse=True)


def _refined(
    curve: TauCurve, low: ProfilePoint, node: ProfilePoint, high: ProfilePoint
) -> ProfilePoint:
    """Return the maximum between the neighbours of a node that is higher than both, or on a bound."""
    side = high if node.slope > 0.0 else low
    if side is node:  # an end of the range, towards which the likelihood rises
        return node
    if side.slope * node.slope < 0.0:
        tau = optimize.brentq(lambda tau: curve(tau).slope, node.value, side.value, xtol=1e-12)
    else:  # ripples between the two
        ends = min(node.value, side.value), max(node.value, side.value)
        tau = optimize.minimize_scalar(
            lambda tau: -curve(float(tau)).loglike, bounds=ends, options={"xatol": 1e-10}
        ).x
    return max(node, curve(float(tau)), key=lambda point: point.loglike)
