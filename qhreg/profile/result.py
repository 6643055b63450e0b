"""The profile likelihood of one parameter: its fits, its interval, its figure.

Limits are searched where the signed root is nearly linear (:func:`qhreg.profile.curve.scale_of`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import interpolate, optimize

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate, ProfileBound
from qhreg.diagnostics.figures import ProfileFigure
from qhreg.inference.hypothesis_tests import lr_cut
from qhreg.profile.curve import Curve, ProfilePoint, TauCurve, scale_of

CURVE_POINTS = 601
"""Points at which the curve of a figure is drawn."""


@dataclass(frozen=True, repr=False)
class ProfileInterval:
    """The values of a parameter that the likelihood ratio does not reject.

    Attributes
    ----------
    param : str
        The parameter.
    alpha : float
        One minus the nominal coverage.
    cut : float
        Critical value of the likelihood ratio.
    lower, upper : float
        Limits; the end of the range, or infinity, where the interval is open.
    lower_open, upper_open : bool
        Whether the likelihood ratio stays below the cut up to that end of the range.
    elsewhere : float or None
        A value outside the limits that is not rejected either, where one was seen: the likelihood has
        another maximum there.
    """

    param: str
    alpha: float
    cut: float
    lower: float
    upper: float
    lower_open: bool
    upper_open: bool
    elsewhere: float | None = None

    def __repr__(self) -> str:
        if self.elsewhere is None:
            return self._limits()
        other = f"{self.param} near {self.elsewhere:.3g} is not rejected either"
        return f"{self._limits()}; {other}: the likelihood has another maximum there"

    def _limits(self) -> str:
        level = f"{100 * (1 - self.alpha):g} % profile interval for {self.param}"
        if self.lower_open and self.upper_open:
            return (
                f"{level}: none; the data reject no value between {self.lower:g} and {self.upper:g}"
            )
        if self.lower_open:
            return (
                f"{level}: up to {self.upper:.6g} "
                f"(open below: nothing down to {self.lower:g} is rejected)"
            )
        if self.upper_open:
            return (
                f"{level}: from {self.lower:.6g} "
                f"(open above: nothing up to {self.upper:g} is rejected)"
            )
        return f"{level}: {self.lower:.6g} to {self.upper:.6g}"


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


@dataclass(frozen=True, repr=False)
class ProfileLikelihood:
    """The profile likelihood of one parameter.

    Attributes
    ----------
    param : str
        The parameter.
    estimate, loglike : float
        Where the profile is highest, and how high.
    interval : ProfileInterval
        The interval at the level asked for.
    points : tuple of ProfilePoint
        The fits made, in increasing order of the parameter.
    names : tuple of str
        Names of the coefficients.
    se : float
        Standard error of the estimate, for comparison; NaN where none was given.
    cut : {"F", "chi2"} or float
        How the critical values are found, see :func:`qhreg.inference.hypothesis_tests.lr_cut`.
    df_resid : float
        m of the F law.
    fixed : float or None
        The value at which the model fixes the parameter, if it does.
    certificate : GlobalCertificate or None
        Of the fit, where tau is profiled.
    certified : ProfileBound or None
        What the fits of the certificate prove about every tau.
    maxima : LocalMaxima or None
        The local maxima over tau, where tau is profiled at a given width.
    note : str
        What the profile takes for granted.
    """

    param: str
    estimate: float
    loglike: float
    interval: ProfileInterval
    points: tuple[ProfilePoint, ...]
    names: tuple[str, ...]
    se: float
    cut: str | float
    df_resid: float
    fixed: float | None
    certificate: GlobalCertificate | None = None
    certified: ProfileBound | None = None
    maxima: LocalMaxima | None = None
    note: str = ""
    _curve: Any = field(default=None, repr=False, compare=False)

    @property
    def values(self) -> FloatArray:
        """The values of the parameter at which fits were made, increasing."""
        return np.array([point.value for point in self.points])

    @property
    def lr(self) -> FloatArray:
        """The likelihood ratio statistic 2 (loglike - profile) at `values`."""
        below = self.loglike - np.array([point.loglike for point in self.points])
        return np.maximum(2.0 * below, 0.0)

    @property
    def signed_root(self) -> FloatArray:
        """The square root of `lr` with the sign of the distance from the estimate."""
        root: FloatArray = np.sign(self.values - self.estimate) * np.sqrt(self.lr)
        return root

    def critical_value(self, alpha: float) -> float:
        """Return the value of `lr` above which a value of the parameter is rejected."""
        return lr_cut(alpha, self.df_resid, cut=self.cut)

    def confidence(self, alpha: float | None = None) -> ProfileInterval:
        """Return the interval with its statement; further fits are made for another alpha.

        Parameters
        ----------
        alpha : float, optional
            One minus the nominal coverage; that of the profile by default.
        """
        if alpha is None or alpha == self.interval.alpha:
            return self.interval
        return find_interval(self._curve, alpha, self.critical_value(alpha))

    def conf_int(self, alpha: float | None = None) -> FloatArray:
        """Return the limits of the interval, shape (2,); infinite or an end of the range where open.

        Where the values that are not rejected form several pieces, these are the limits of the piece
        around the estimate; ``interval.elsewhere`` is then the maximum in another one.

        Parameters
        ----------
        alpha : float, optional
            One minus the nominal coverage; that of the profile by default.
        """
        interval = self.confidence(alpha)
        return np.array([interval.lower, interval.upper])

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each fit: value, llf, lr, signed root, and all estimates.

        llf is what was maximised: the restricted log-likelihood, or the ordinary one.
        """
        points = self.points
        columns: dict[str, Any] = {
            "value": self.values,
            "llf": [point.loglike for point in points],
            "lr": self.lr,
            "signed_root": self.signed_root,
        }
        for j, name in enumerate(self.names):
            columns[name] = [point.beta[j] for point in points]
        for name in ("sigma", "tau", "kappa"):
            columns[name] = [getattr(point, name) for point in points]
        return pd.DataFrame(columns)

    def interpolate(self, values: Any) -> FloatArray:
        """Return the likelihood ratio between the fits, shape of `values`; NaN outside them.

        The signed root is interpolated by a monotone cubic, on the scale of the profile.

        Parameters
        ----------
        values : array_like
            Values of the parameter.
        """
        wanted = np.asarray(values, dtype=np.float64)
        curve = _between(self.values, self.lr, self.estimate, self.param, wanted.ravel())
        return curve.reshape(wanted.shape)

    def figure(
        self, alphas: tuple[float, ...] = (0.05, 0.01), *, whole: bool | None = None
    ) -> ProfileFigure:
        """Return the numbers that the plot draws.

        Parameters
        ----------
        alphas : tuple of float
            Levels whose cuts are shown; the interval is that of the profile.
        whole : bool, optional
            Whether to show the whole range of tau. By default where another local maximum is below the
            highest cut.
        """
        cuts = tuple((alpha, self.critical_value(alpha)) for alpha in alphas)
        others = [
            (point.value, 2.0 * (self.loglike - point.loglike))
            for point in (() if self.maxima is None else self.maxima.points)
            if point.value != self.estimate
        ]
        if whole is None:
            whole = any(lr < max(cut for _, cut in cuts) for _, lr in others)
        x, lr = self._over_all_tau() if whole else (self.values, self.lr)
        forward, backward = scale_of(self.param)
        dense = backward(np.linspace(forward(x[0]), forward(x[-1]), CURVE_POINTS))
        dense = np.clip(dense, x[0], x[-1])
        curve = _between(x, lr, self.estimate, self.param, dense)
        known = math.isfinite(self.se) and self.se > 0.0
        return ProfileFigure(
            self.param,
            dense,
            curve,
            x,
            lr,
            self.estimate,
            cuts,
            1.0 - self.interval.alpha,
            (self.interval.lower, self.interval.upper),
            (self.interval.lower_open, self.interval.upper_open),
            ((dense - self.estimate) / self.se) ** 2 if known else None,
            None if self.certified is None else 2.0 * (self.loglike - self.certified(dense)),
            self.fixed,
            tuple((tau, lr) for tau, lr in others if x[0] <= tau <= x[-1]),
            not isinstance(self.cut, str),
            _pieces(dense, curve, self.interval),
        )

    def _over_all_tau(self) -> tuple[FloatArray, FloatArray]:
        """Return the profile over the whole range of tau, the fits made so far among its points."""
        curve = self._curve
        if not isinstance(curve, TauCurve):
            return self.values, self.lr
        taus = {point.value for point in (*self.points, *curve.scan())}
        if self.maxima is not None:
            taus.update(point.value for point in self.maxima.points)
        if self.certificate is not None:
            taus.update(self.certificate.nodes_tau.tolist())
        x = np.array(sorted(taus))
        lr = 2.0 * (self.loglike - np.array([curve(float(tau)).loglike for tau in x]))
        return x, np.maximum(lr, 0.0)

    def plot(self, ax: Any = None, *, whole: bool | None = None, details: bool = False) -> Any:
        """Draw the profile and return the Axes; see :func:`qhreg.plotting.plot_profile`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        whole : bool, optional
            Whether to show the whole range of tau; by default where another local maximum is not
            rejected.
        details : bool
            Whether to add the Wald parabola, the cuts, the fits, and what a certificate excludes.
        """
        from qhreg.plotting import plot_profile

        return plot_profile(self.figure(whole=whole), ax=ax, details=details)

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.interval}; estimate {self.estimate:.6g}, {len(self.points)} fits{note}"


def _between(
    x: FloatArray, lr: FloatArray, estimate: float, param: str, wanted: FloatArray
) -> FloatArray:
    """Return the likelihood ratio between known points: the signed root by a monotone cubic."""
    forward = scale_of(param)[0]
    t = np.asarray(forward(x))
    kept = _apart(t)
    signed = np.sign(x - estimate) * np.sqrt(lr)
    root = interpolate.PchipInterpolator(t[kept], signed[kept], extrapolate=False)
    curve: FloatArray = root(forward(wanted)) ** 2
    return curve


def _apart(t: FloatArray) -> list[int]:
    """Return points as far apart as those drawn; where a root was closed in on, one of many.

    A slope between points a millionth apart is the rounding of their fits.
    """
    gap = (t[-1] - t[0]) / CURVE_POINTS
    kept = [0]
    for i in range(1, t.size - 1):
        if t[i] - t[kept[-1]] > gap and t[-1] - t[i] > gap:
            kept.append(i)
    return [*kept, t.size - 1]


def _pieces(
    x: FloatArray, lr: FloatArray, interval: ProfileInterval
) -> tuple[tuple[float, float], ...]:
    """Return where a curve is below the cut of an interval outside the interval."""
    below = np.concatenate([[False], lr < interval.cut, [False]])
    starts, ends = np.flatnonzero(below[1:] & ~below[:-1]), np.flatnonzero(below[:-1] & ~below[1:])
    pieces = []
    for first, last in zip(starts.tolist(), (ends - 1).tolist(), strict=True):
        if x[first] <= interval.upper and x[last] >= interval.lower:
            continue
        low, high = float(x[first]), float(x[last])
        if first > 0:
            low = float(np.interp(interval.cut, lr[[first, first - 1]], x[[first, first - 1]]))
        if last < x.size - 1:
            high = float(np.interp(interval.cut, lr[[last, last + 1]], x[[last, last + 1]]))
        pieces.append((low, high))
    return tuple(pieces)


# --------------------------------------------------------------------------- limits


def _limit(curve: Curve, end: float, target: float) -> tuple[float, bool]:
    """Return where the signed root reaches a target on the way to an end of the range, and False.

    The end and True where it stays below the target. Steps are doubled until the target is passed, and
    Brent's method closes in on it.
    """
    forward, backward = scale_of(curve.param)
    with np.errstate(divide="ignore"):
        origin, last = float(forward(curve.estimate)), float(forward(end))
    outwards = math.copysign(1.0, end - curve.estimate)

    def excess(t: float) -> float:
        if t == origin:
            return -target
        point = curve(end if t == last else float(backward(t)))
        return math.sqrt(max(2.0 * (curve.loglike - point.loglike), 0.0)) - target

    inner = outer = origin
    length = 1.1 * target * curve.step
    while outer != last:
        inner, outer = outer, outer + outwards * length
        outer = last if outwards * (outer - last) >= 0.0 else outer
        if excess(outer) >= 0.0:
            precision = max(1e-11 * abs(outer - origin), 4e-16 * abs(outer))
            limit = optimize.brentq(excess, inner, outer, xtol=precision)
            return float(end if limit == last else backward(limit)), False
        length *= 2.0
    return end, True


def find_interval(curve: Curve, alpha: float, cut: float) -> ProfileInterval:
    """Return the interval of a profile at a critical value of the likelihood ratio."""
    lower, lower_open = _limit(curve, curve.lower, math.sqrt(cut))
    upper, upper_open = _limit(curve, curve.upper, math.sqrt(cut))
    # where the profile is level up to the end of its range, the parameter has no limit
    if lower_open and curve.param == "sigma":
        lower = 0.0
    if upper_open and curve.param == "kappa":
        upper = math.inf
    return ProfileInterval(curve.param, alpha, cut, lower, upper, lower_open, upper_open)
