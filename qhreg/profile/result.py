"""The profile likelihood of one parameter: its fits, its interval, its figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import interpolate

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate
from qhreg.figures import ProfileFigure
from qhreg.profile.band import CertifiedBound
from qhreg.profile.fits import ProfilePoint, TauCurve
from qhreg.profile.maxima import LocalMaxima
from qhreg.profile.trace import ProfileInterval, Scale, Tracer, likelihood_ratio_cut, scale_of

__all__ = ["ProfileLikelihood"]


CROWDED = 2e-3
"""Distance between points, as a share of the range, below which the curve uses one of them."""

WHOLE_POINTS = 41
"""Values of tau, evenly spaced in its logit, at which the whole profile is fitted for its picture."""

SAME_VALUE = 1e-6
"""Difference in tau below which two maxima are one."""

CURVE_POINTS = 601
"""Points at which the curve of a figure is drawn."""


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
    cut : {"corrected", "chi2"} or float
        How the critical values are found, see :func:`qhreg.profile.trace.likelihood_ratio_cut`.
    inflation : float
        Factor of the corrected cut.
    fixed : float or None
        The value at which the model fixes the parameter, if it does.
    certificate : GlobalCertificate or None
        Of the fit, where tau is profiled.
    certified : CertifiedBound or None
        What the fits of the certificate prove about every tau.
    maxima : LocalMaxima or None
        The local maxima over tau, where tau is profiled at a given width up to 20,000 rows.
    """

    param: str
    estimate: float
    loglike: float
    interval: ProfileInterval
    points: tuple[ProfilePoint, ...]
    names: tuple[str, ...]
    se: float
    cut: str | float
    inflation: float
    fixed: float | None
    certificate: GlobalCertificate | None = None
    certified: CertifiedBound | None = None
    maxima: LocalMaxima | None = None
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
        return likelihood_ratio_cut(alpha, self.cut, inflation=self.inflation)

    def confidence(self, alpha: float | None = None) -> ProfileInterval:
        """Return the interval with its statement; further fits are made for another alpha.

        Parameters
        ----------
        alpha : float, optional
            One minus the nominal coverage; that of the profile by default.
        """
        if alpha is None or alpha == self.interval.alpha:
            return self.interval
        critical = self.critical_value(alpha)
        tracer = Tracer(self.param, self._curve, self.estimate, self.loglike, list(self.points))
        return tracer.interval(alpha, critical, tracer.first_step())

    def conf_int(self, alpha: float | None = None) -> FloatArray:
        """Return the limits of the interval, shape (2,); infinite or an end of the range where open.

        Where the values that are not rejected form several pieces, these are the limits of the piece
        around the estimate; ``interval.elsewhere`` is then the maximum in another one.

        Parameters
        ----------
        alpha : float, optional
            One minus the nominal coverage; that of the profile by default.
        """
        made = self.confidence(alpha)
        return np.array([made.lower, made.upper])

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each fit: value, llf, lr, signed root, and all estimates."""
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
        scale = scale_of(self.param)
        made = _between(self.values, self.lr, self.estimate, scale, wanted.ravel())
        return made.reshape(wanted.shape)

    def figure(
        self, alphas: tuple[float, ...] = (0.05, 0.01), *, whole: bool | None = None
    ) -> ProfileFigure:
        """Return the numbers that the plot draws.

        Parameters
        ----------
        alphas : tuple of float
            Levels whose cuts are shown; the interval is that of the profile.
        whole : bool, optional
            Whether to show the whole range of tau, for which further fits are made. By default where
            another local maximum is below the highest cut.
        """
        cuts = tuple((alpha, self.critical_value(alpha)) for alpha in alphas)
        others = self._other_maxima()
        if whole is None:
            whole = any(lr < max(cut for _, cut in cuts) for _, lr in others)
        x, lr = self._over_all_tau() if whole else (self.values, self.lr)
        scale = scale_of(self.param)
        ends = scale.forward(float(x[0])), scale.forward(float(x[-1]))
        dense = np.array([scale.backward(t) for t in np.linspace(*ends, CURVE_POINTS)])
        dense = np.clip(dense, x[0], x[-1])
        curve = _between(x, lr, self.estimate, scale, dense)
        known = math.isfinite(self.se) and self.se > 0.0
        wald = ((dense - self.estimate) / self.se) ** 2 if known else None
        band = None
        if self.certified is not None:
            band = 2.0 * (self.loglike - self.certified(dense))
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
            wald,
            band,
            self.fixed,
            tuple((tau, lr) for tau, lr in others if x[0] <= tau <= x[-1]),
            self._factor,
            _pieces(dense, curve, self.interval),
        )

    @property
    def _factor(self) -> float | None:
        """What the critical values are in units of the chi-square quantile."""
        if not isinstance(self.cut, str):
            return None
        return self.inflation if self.cut == "corrected" else 1.0

    def _other_maxima(self) -> tuple[tuple[float, float], ...]:
        """Return the local maxima beside the estimate, each with its likelihood ratio."""
        if self.maxima is None:
            return ()
        pairs = [(p.value, 2.0 * (self.loglike - p.loglike)) for p in self.maxima.points]
        return tuple(pair for pair in pairs if abs(pair[0] - self.estimate) > SAME_VALUE)

    def _over_all_tau(self) -> tuple[FloatArray, FloatArray]:
        """Return the profile over the whole range of tau, the fits made so far among its points."""
        if not isinstance(self._curve, TauCurve):
            return self.values, self.lr
        curve = self._curve
        scale = scale_of("tau")
        ends = scale.forward(curve.lower), scale.forward(curve.upper)
        taus = {scale.backward(t) for t in np.linspace(*ends, WHOLE_POINTS)[1:-1]}
        taus.update((curve.lower, curve.upper), self.values.tolist())
        if self.maxima is not None:
            taus.update(point.value for point in self.maxima.points)
        if self.certificate is not None:
            taus.update(self.certificate.nodes_tau.tolist())
        x = np.array(sorted(taus))
        lr = 2.0 * (self.loglike - np.array([curve(float(tau)).loglike for tau in x]))
        lr[x == self.estimate] = 0.0
        return x, np.maximum(lr, 0.0)

    def plot(self, ax: Any = None, *, whole: bool | None = None) -> Any:
        """Draw the profile and return the Axes; see :func:`qhreg.plotting.plot_profile`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        whole : bool, optional
            Whether to show the whole range of tau; by default where another local maximum is not
            rejected.
        """
        from qhreg.plotting import plot_profile

        return plot_profile(self.figure(whole=whole), ax=ax)

    def __repr__(self) -> str:
        return f"{self.interval}; estimate {self.estimate:.6g}, {len(self.points)} fits"


def _between(
    x: FloatArray, lr: FloatArray, estimate: float, scale: Scale, wanted: FloatArray
) -> FloatArray:
    """Return the likelihood ratio between known points: the signed root by a monotone cubic."""
    t = np.array([scale.forward(float(value)) for value in x])
    kept = _apart(t)
    signed = np.sign(x - estimate) * np.sqrt(lr)
    root = interpolate.PchipInterpolator(t[kept], signed[kept], extrapolate=False)
    at = np.array([scale.forward(float(value)) for value in wanted])
    curve: FloatArray = root(at) ** 2
    return curve


def _pieces(
    x: FloatArray, lr: FloatArray, interval: ProfileInterval
) -> tuple[tuple[float, float], ...]:
    """Return where a curve is below the cut of an interval outside the interval."""
    below = np.concatenate([[False], lr < interval.cut, [False]])
    starts, ends = np.flatnonzero(below[1:] & ~below[:-1]), np.flatnonzero(below[:-1] & ~below[1:])
    made = []
    for first, last in zip(starts.tolist(), (ends - 1).tolist(), strict=True):
        if x[first] <= interval.upper and x[last] >= interval.lower:
            continue
        low, high = float(x[first]), float(x[last])
        if first > 0:
            low = float(np.interp(interval.cut, lr[[first, first - 1]], x[[first, first - 1]]))
        if last < x.size - 1:
            high = float(np.interp(interval.cut, lr[[last, last + 1]], x[[last, last + 1]]))
        made.append((low, high))
    return tuple(made)


def _apart(t: FloatArray) -> list[int]:
    """Return the points that are not crowded; where a root was closed in on, one of many.

    A slope between points a millionth apart is the rounding of their fits.
    """
    gap = CROWDED * (t[-1] - t[0])
    kept = [0]
    for i in range(1, t.size - 1):
        if t[i] - t[kept[-1]] > gap and t[-1] - t[i] > gap:
            kept.append(i)
    return [*kept, t.size - 1]
