"""Tracing a profile likelihood outwards from its maximum: scales, interval limits, spread of points.

Each parameter is traced on a scale on which its profile is nearly a parabola: the logit of tau, the
logarithm of sigma, log(kappa + 0.01), and a coefficient as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from qhreg.exceptions import DomainError
from qhreg.family.domain import check_alpha
from qhreg.profile.fits import Curve, ProfilePoint
from qhreg.profile.roots import Node, find_root, inverse_interpolate

__all__ = [
    "SHIFT",
    "ProfileInterval",
    "Scale",
    "Tracer",
    "counted",
    "likelihood_ratio_cut",
    "scale_of",
    "with_progress",
]

SHIFT = 0.01
"""kappa is traced in log(kappa + SHIFT), which reaches zero."""


def likelihood_ratio_cut(
    alpha: float, cut: str | float = "chi2", *, df: int = 1, inflation: float = 1.0
) -> float:
    """Return the value above which the likelihood ratio rejects at level alpha.

    Parameters
    ----------
    alpha : float
        Level.
    cut : {"corrected", "chi2"} or float
        The chi-square quantile times `inflation`, the plain quantile, or a number for every level.
    df : int
        Number of parameters held.
    inflation : float
        Factor for small samples, see :func:`qhreg.inference.hypothesis_tests.lr_inflation`.

    Examples
    --------
    >>> from qhreg.profile.trace import likelihood_ratio_cut
    >>> round(likelihood_ratio_cut(0.05), 4)
    3.8415
    >>> round(likelihood_ratio_cut(0.05, "corrected", inflation=1.1), 4)
    4.2256
    """
    check_alpha(alpha)
    if not isinstance(cut, str):
        if not cut > 0.0:
            raise DomainError(f"cut must be positive, got {cut!r}")
        return float(cut)
    if cut not in ("corrected", "chi2"):
        raise DomainError(f"cut must be 'corrected', 'chi2' or a number, got {cut!r}")
    plain = float(special.chdtri(df, alpha))
    return plain * inflation if cut == "corrected" else plain


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


@dataclass(frozen=True)
class Scale:
    """A monotone map between a parameter and a scale on which its profile is nearly a parabola."""

    forward: Callable[[float], float]
    backward: Callable[[float], float]


def _identity(x: float) -> float:
    return float(x)


def _logit(x: float) -> float:
    return math.log(x) - math.log1p(-x)


def _expit(t: float) -> float:
    return 1.0 / (1.0 + math.exp(-t))


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _shifted_log(x: float) -> float:
    return math.log(x + SHIFT)


def _shifted_exp(t: float) -> float:
    return max(math.exp(t) - SHIFT, 0.0)


_SCALES = {
    "tau": Scale(_logit, _expit),
    "sigma": Scale(_log, math.exp),
    "kappa": Scale(_shifted_log, _shifted_exp),
}
_PLAIN = Scale(_identity, _identity)


def scale_of(param: str) -> Scale:
    """Return the scale on which a parameter is traced."""
    return _SCALES.get(param, _PLAIN)


@dataclass
class Tracer:
    """Fits made so far around an estimate, and where to make the next ones."""

    param: str
    curve: Curve
    estimate: float
    loglike: float
    points: list[ProfilePoint]
    tick: Callable[[], Any] = lambda: None

    @property
    def scale(self) -> Scale:
        """The scale on which the parameter is traced."""
        return scale_of(self.param)

    def root(self, point: ProfilePoint) -> float:
        """Return the root of the likelihood ratio at a point, without its sign."""
        return math.sqrt(max(2.0 * (self.loglike - point.loglike), 0.0))

    def evaluate(self, value: float) -> ProfilePoint:
        """Return the fit at a value, made once."""
        for point in self.points:
            if point.value == value:
                return point
        point = self.curve(value)
        self.points.append(point)
        self.tick()
        return point

    def node(self, point: ProfilePoint, direction: float) -> Node:
        """Return a point as (r, t, dt/dr), r and t increasing away from the estimate."""
        t = self.scale.forward(point.value)
        r = self.root(point)
        step = 1e-6 * max(abs(t), 1.0)
        stretch = (self.scale.backward(t + step) - self.scale.backward(t - step)) / (2.0 * step)
        slope = -direction * point.slope * stretch
        known = math.isfinite(slope) and slope > 0.0 and r > 0.0
        return Node(r, direction * t, r / slope if known else math.nan)

    def side(self, direction: float) -> list[Node]:
        """Return the fits on one side of the estimate, the estimate first."""
        t0 = direction * self.scale.forward(self.estimate)
        beyond = [p for p in self.points if direction * (p.value - self.estimate) > 0.0]
        nodes = sorted((self.node(p, direction) for p in beyond), key=lambda node: node.t)
        return [Node(0.0, t0, math.nan), *nodes]

    def first_step(self) -> float:
        """Return a change of t that moves the signed root by about one, from the fits at hand."""
        t0 = self.scale.forward(self.estimate)
        pairs = [(abs(self.scale.forward(p.value) - t0), self.root(p)) for p in self.points]
        ratios = [t / r for t, r in pairs if r > 0.1]
        return float(np.median(ratios)) if ratios else 0.1

    def limit(self, direction: float, critical: float, step: float) -> tuple[float, bool]:
        """Return where the profile crosses the critical value on one side, and whether it never does."""
        end = self.curve.lower if direction < 0.0 else self.curve.upper
        last = direction * self.scale.forward(end) if math.isfinite(end) else math.inf

        def at(t: float) -> Node:
            value = end if t == last else self.scale.backward(direction * t)
            return self.node(self.evaluate(value), direction)

        found = find_root(at, self.side(direction), math.sqrt(critical), step, last)
        if found is None:
            return self._open_end(direction, end), True
        return self.scale.backward(direction * found), False

    def _open_end(self, direction: float, end: float) -> float:
        """Return the end of an open interval: that of the parameter, where the profile is level."""
        if self.param == "kappa" and direction > 0.0:
            return math.inf
        return 0.0 if self.param == "sigma" and direction < 0.0 else end

    def interval(self, alpha: float, critical: float, step: float) -> ProfileInterval:
        """Return the interval at a critical value."""
        lower, lower_open = self.limit(-1.0, critical, step)
        upper, upper_open = self.limit(1.0, critical, step)
        return ProfileInterval(self.param, alpha, critical, lower, upper, lower_open, upper_open)

    def spread(self, roots: Sequence[float]) -> None:
        """Make fits near given values of the signed root, on both sides."""
        for direction, root in [(d, r) for d in (-1.0, 1.0) for r in roots]:
            nodes = self.side(direction)
            end = self.curve.lower if direction < 0.0 else self.curve.upper
            last = direction * self.scale.forward(end) if math.isfinite(end) else math.inf
            crowded = any(abs(node.r - root) < 0.3 * roots[0] for node in nodes)
            if len(nodes) == 1 or crowded or (nodes[-1].t >= last and nodes[-1].r < root):
                continue
            t = inverse_interpolate(nodes, root)
            farthest = nodes[-1].t + (nodes[-1].t - nodes[0].t)
            t = min(t, last, farthest)
            if t > nodes[0].t:
                self.evaluate(end if t == last else self.scale.backward(direction * t))


@contextmanager
def counted(wanted: bool, label: str) -> Iterator[Callable[[], Any]]:
    """Give a function to call after each fit: it moves a bar where one is wanted and tqdm is installed.

    Parameters
    ----------
    wanted : bool
        Whether to show a bar; how many fits there will be is not known beforehand.
    label : str
        What is being done.
    """
    tqdm = _tqdm() if wanted else None
    if tqdm is None:
        yield lambda: None
        return
    with tqdm(desc=label, unit=" fits", leave=False) as bar:
        yield bar.update


def with_progress(items: Sequence[Any], wanted: bool, label: str) -> Iterable[Any]:
    """Return the items with a progress bar where one is wanted and tqdm is installed."""
    tqdm = _tqdm() if wanted else None
    if tqdm is None:
        return items
    bar: Iterable[Any] = tqdm(items, desc=label, leave=False)
    return bar


def _tqdm() -> Any:
    """Return the class of the bars, or None; a bar is imported only where one is wanted."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
