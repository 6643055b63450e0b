r"""Convexity in tau whatever the residuals are: (log c)'' > kappa, proved for every tau.

The minimum over tau lies at 1/2 for every kappa (QH-33), and the condition is kappa < kappa*
(QH-35). The proof for a given kappa does not rest on (QH-33): see :func:`biconvexity_certificate`.
It is the most one can have: the loss is nowhere jointly convex in (r, tau).

Everything is expressed in the scaled half of the normaliser (QH-30), a series of positive terms:

.. math::

    D(x) = t\,e^{\kappa t^2/2}A(t) = \sum_{j\ge0}\frac{x^j}{(2j-1)!!}, \qquad x = \kappa t^2,

so that no enclosure suffers from cancellation. With :math:`t=\tau`, :math:`s=1-\tau`,
:math:`y=\kappa s^2`, the share :math:`p=A(t)/c` of the left half and :math:`q=1-p` (QH-31):

.. math::

    (\log c)''(\tau) = p\,\frac{\lambda(x)}{t^2} + q\,\frac{\lambda(y)}{s^2}
        + p\,q\Big(\frac{1}{t\,D(x)}+\frac{1}{s\,D(y)}\Big)^2, \qquad
    \lambda(x) = \frac{x+2-1/D(x)}{D(x)}.

Interval arithmetic is mpmath's, in private contexts: the precision of ``mpmath.iv`` is not touched.
"""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import mpmath
from mpmath.ctx_iv import MPIntervalContext

from qhreg.exceptions import DomainError, QhregError
from qhreg.family.domain import check_kappa

KAPPA_STAR = 4.630913775254134
"""The critical width kappa*, rounded to a float: see :func:`critical_kappa`."""

_PRECISIONS = (96, 192)
"""Bits for the comparison at tau = 1/2: floats are 2^-50 apart there, so that the first decides."""

_CORE = 0.4
"""(log c)'' is shown to be convex on [_CORE, 1/2] and above kappa on what is left of it."""

_SERIES_LIMIT = 120
"""x from which the closed form of D is tighter than any precision used, and the series long."""

_MAX_CELLS = 400
"""Cells after which a proof is given up as undecided: a tenth of a second."""


Status = Literal["proved", "refuted", "undecided"]


class Certificate:
    """A verdict with its numbers, and how it reads."""

    status: Status

    @property
    def holds(self) -> bool:
        """Whether the condition is proved for every tau asked about."""
        return self.status == "proved"

    def _table(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the title, and a name and a value for each line."""
        raise NotImplementedError

    def __str__(self) -> str:
        title, rows = self._table()
        width = max(len(name) for name, _ in rows)
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        title, rows = self._table()
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows
        )
        return f"<table><caption>{html.escape(title)}</caption><tbody>{cells}</tbody></table>"


@dataclass(frozen=True)
class BiconvexityCertificate(Certificate):
    """Whether (log c)'' exceeds kappa for every tau in (0, 1), with the numbers.

    Attributes
    ----------
    kappa : float
        The Huber width asked about.
    min_curvature : float
        Minimum over tau of (log c)''. For kappa >= 6,000 it is below the smallest float: 0.
    argmin_tau : float
        Where it is attained: 1/2.
    margin : float
        min_curvature - kappa, rounded once.
    status : {"proved", "refuted", "undecided"}
        "proved": for every tau. "refuted": an interval evaluation at ``argmin_tau`` lies below
        kappa. "undecided": kappa is kappa* to within the working precision.
    cells : int
        How many intervals of tau the proof evaluated; 0 where the bound (QH-32) covers all tau.
    """

    kappa: float
    min_curvature: float
    argmin_tau: float
    margin: float
    status: Status
    cells: int

    def _table(self) -> tuple[str, list[tuple[str, str]]]:
        verdict = {
            "proved": "yes, proved for every tau in (0, 1)",
            "refuted": f"no, (log c)'' < kappa is proved at tau = {self.argmin_tau:g}",
            "undecided": "undecided: kappa equals the critical width to working precision",
        }
        return f"Biconvexity certificate, kappa = {self.kappa:.6g}", [
            ("min of (log c)''", f"{self.min_curvature:.6g} at tau = {self.argmin_tau:g}"),
            ("margin over kappa", f"{self.margin:.6g}"),
            ("convex in tau", verdict[self.status]),
            ("critical kappa", f"{KAPPA_STAR:.6f}"),
        ]


# ---------------------------------------------------------------------- enclosures


@lru_cache(maxsize=16)
def interval_context(precision: int) -> Any:
    """Return a private mpmath interval context that works with ``precision`` bits."""
    context = MPIntervalContext()
    context.prec = precision
    return context


def lower(x: Any) -> float:
    """Return a float that is not above the interval x."""
    return math.nextafter(float(x.a), -math.inf)


def upper(x: Any) -> float:
    """Return a float that is not below the interval x."""
    return math.nextafter(float(x.b), math.inf)


def scaled_half(x: Any, iv: Any) -> Any:
    r"""Return an enclosure of D(x) (QH-30) for an interval x >= 0.

    Two closed forms meet: the series, cut where the ratio of its terms is below 1/2 so that the
    last term bounds the rest, and for large x the bounds of the complementary error function,
    :math:`0 \le D(x) - \sqrt{\pi x/2}\,e^{x/2} \le 1/x`.

    Examples
    --------
    >>> from qhreg.certificate.biconvexity import interval_context, scaled_half
    >>> iv = interval_context(53)
    >>> 2.4106861 in scaled_half(iv.mpf(1), iv) + iv.mpf([-1e-7, 1e-7])
    True
    """
    if x.a >= _SERIES_LIMIT:
        rest = iv.mpf([0, (1 / x).b])
        return iv.sqrt(iv.pi * x / 2) * iv.exp(x / 2) + rest
    total = term = iv.mpf(1)
    negligible = iv.mpf(2) ** (-iv.prec - 4)
    odd = 1
    while True:
        term = term * x / odd
        total = total + term
        odd += 2
        if 2 * x.b <= odd and term.b <= negligible:
            return total + iv.mpf([0, term.b])


def _shares(t: Any, kappa: Any, iv: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return x, y, D(x), D(y) and the shares p, q of the two halves in c."""
    s = 1 - t
    x, y = kappa * t * t, kappa * s * s
    d_x, d_y = scaled_half(x, iv), scaled_half(y, iv)
    odds = (t / s) * (d_y / d_x) * iv.exp(kappa * (2 * t - 1) / 2)  # A(s) / A(t)
    return x, y, d_x, d_y, 1 / (1 + odds), 1 / (1 + 1 / odds)


def curvature(t: Any, kappa: Any, iv: Any) -> Any:
    """Return an enclosure of (log c)'' over the interval t (QH-31).

    Examples
    --------
    >>> from qhreg.certificate.biconvexity import curvature, interval_context
    >>> iv = interval_context(53)
    >>> 26.5625 in curvature(iv.mpf([0.2, 0.2001]), iv.mpf(0), iv)  # 1 / 0.2**2 + 1 / 0.8**2
    True
    """
    s = 1 - t
    x, y, d_x, d_y, p, q = _shares(t, kappa, iv)
    left = p * (x + 2 - 1 / d_x) / (d_x * t * t)
    right = q * (y + 2 - 1 / d_y) / (d_y * s * s)
    return left + right + p * q * (1 / (t * d_x) + 1 / (s * d_y)) ** 2


def curvature_at_half(kappa: Any, iv: Any) -> Any:
    r"""Return an enclosure of (log c)''(1/2) = 4 (x + 2) / D(x), x = kappa / 4 (QH-34).

    Examples
    --------
    >>> from qhreg.certificate.biconvexity import curvature_at_half, interval_context, lower, upper
    >>> iv = interval_context(100)
    >>> enclosure = curvature_at_half(iv.mpf(1), iv)
    >>> lower(enclosure) < 7.075954221861228 < upper(enclosure)
    True
    """
    x = kappa / 4
    return 4 * (x + 2) / scaled_half(x, iv)


def curvature_second_derivative(t: Any, kappa: Any, iv: Any) -> Any:
    r"""Return an enclosure of the second derivative in tau of (log c)'' over the interval t.

    With :math:`m_j = c^{(j)}/c`, and the derivatives of A that follow from (QH-7), it is
    :math:`m_4 - 4m_1m_3 - 3m_2^2 + 12m_1^2m_2 - 6m_1^4`.

    Examples
    --------
    >>> from qhreg.certificate.biconvexity import curvature_second_derivative, interval_context
    >>> iv = interval_context(53)
    >>> 192 in curvature_second_derivative(iv.mpf([0.499, 0.5]), iv.mpf(0), iv)
    True
    """
    s = 1 - t
    x, y, d_x, d_y, p, q = _shares(t, kappa, iv)
    left, right = p / (t * d_x), q / (s * d_y)
    m1 = right - left
    m2 = left * (x + 2) / t + right * (y + 2) / s
    m3 = right * ((y + 3) * y + 6) / s**2 - left * ((x + 3) * x + 6) / t**2
    m4 = left * (((x + 3) * x + 12) * x + 24) / t**3 + right * (((y + 3) * y + 12) * y + 24) / s**3
    return m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4


def end_bound(t: Any, kappa: Any) -> Any:
    r"""Return 1 / (t^2 (1 + (2 + kappa / 2) t)), which (log c)'' exceeds near the ends (QH-32).

    Valid for 0 < t <= 1/2 with kappa t^2 <= 1, and decreasing in t: if it is above a level at t,
    then so is (log c)'' on all of (0, t], and by symmetry on [1 - t, 1).
    """
    return 1 / (t * t * (1 + (2 + kappa / 2) * t))


# ---------------------------------------------------------------------- the proof


def end_width(kappa: float, iv: Any) -> float:
    """Return t0 <= 1/2 such that (QH-32) proves (log c)'' > kappa on (0, t0].

    Where the bound exceeds kappa, it is valid: kappa t^2 < 1 / (1 + (2 + kappa / 2) t) < 1.
    """
    width = iv.mpf(kappa)

    def covered(t: float) -> bool:
        return lower(end_bound(iv.mpf(t), width)) > kappa

    good = 0.5
    while not covered(good):
        good *= 0.5
    bad = 2.0 * good
    for _ in range(12 if good < 0.5 else 0):
        middle = 0.5 * (good + bad)
        good, bad = (middle, bad) if covered(middle) else (good, middle)
    return good


def _bisect(
    enclose: Callable[[Any, Any, Any], Any], level: float, bounds: tuple[float, float], kappa: float
) -> int | None:
    """Return how many cells prove enclose(t) > level on the bounds, None if that needs too many."""
    iv = interval_context(sys.float_info.mant_dig)
    width = iv.mpf(kappa)
    pending = [bounds] if bounds[0] < bounds[1] else []
    cells = 0
    while pending:
        if cells == _MAX_CELLS:
            return None
        left, right = pending.pop()
        cells += 1
        if not lower(enclose(iv.mpf([left, right]), width, iv)) > level:
            middle = 0.5 * (left + right)
            pending += [(left, middle), (middle, right)]
    return cells


def _prove_for_every_tau(kappa: float) -> int | None:
    """Return the number of cells of a proof of (log c)'' > kappa on (0, 1/2), given it at 1/2.

    Three parts: (QH-32) on (0, t0], interval evaluations of (log c)'' on [t0, 0.4], and convexity
    of (log c)'' on the rest up to 1/2, where its slope vanishes by symmetry: it is least at 1/2.
    """
    end = end_width(kappa, interval_context(sys.float_info.mant_dig))
    middle = _bisect(curvature, kappa, (end, _CORE), kappa)
    core = _bisect(curvature_second_derivative, 0.0, (max(end, _CORE), 0.5), kappa)
    return None if middle is None or core is None else middle + core


@lru_cache(maxsize=1024)
def _certify(kappa: float, precisions: tuple[int, ...] = _PRECISIONS) -> BiconvexityCertificate:
    status: Status = "undecided"
    cells: int | None = 0
    for precision in precisions:
        iv = interval_context(precision)
        at_half = curvature_at_half(iv.mpf(kappa), iv)
        margin = at_half - kappa
        if margin.b < 0:
            status = "refuted"
        elif margin.a > 0:
            cells = _prove_for_every_tau(kappa)
            status = "undecided" if cells is None else "proved"
        else:
            continue
        break
    return BiconvexityCertificate(
        kappa, float(at_half.mid), 0.5, float(margin.mid), status, cells or 0
    )


def biconvexity_certificate(kappa: Any) -> BiconvexityCertificate:
    r"""Return whether the objective is convex in tau for all residuals, proved for every tau.

    The condition is :math:`(\log c)''(\tau) > \kappa` on (0, 1). It holds exactly for
    kappa < kappa* = 4.6309..., also ``biconvexity_certificate.kappa_max``.

    Parameters
    ----------
    kappa : float
        Huber width in units of sigma, 0 <= kappa < inf. The scale does not enter (QH-12).

    Returns
    -------
    BiconvexityCertificate
        ``holds``, ``min_curvature``, ``argmin_tau``, ``margin``, ``status``.

    Notes
    -----
    The proof is made for the given kappa: an analytic bound near tau = 0 (QH-32), outward-rounded
    interval arithmetic with bisection up to tau = 0.4, interval convexity of (log c)'' from there
    to 1/2, an interval evaluation at 1/2, and the symmetry tau -> 1 - tau. That the minimum lies at
    1/2 for every kappa is the theorem (QH-33). Results are kept, so that asking twice is free.

    Examples
    --------
    >>> from qhreg.certificate import biconvexity_certificate
    >>> print(biconvexity_certificate(1.0))
    Biconvexity certificate, kappa = 1
      min of (log c)''   7.07595 at tau = 0.5
      margin over kappa  6.07595
      convex in tau      yes, proved for every tau in (0, 1)
      critical kappa     4.630914
    >>> biconvexity_certificate(8.0).holds
    False
    """
    return _certify(scalar_kappa(kappa))


# A function carries its constant: type checkers do not know attributes of functions.
biconvexity_certificate.kappa_max = KAPPA_STAR  # type: ignore[attr-defined]


def scalar_kappa(kappa: Any) -> float:
    """Return kappa as one float, or raise a DomainError unless 0 <= kappa < inf."""
    value = check_kappa(kappa)
    if not isinstance(value, float):
        raise DomainError(f"kappa must be one number, got an array of shape {value.shape}")
    return value


def critical_kappa(digits: int = 40) -> mpmath.mpf:
    r"""Return kappa*, below which the certificate holds, to any number of digits.

    At tau = 1/2, with x = kappa / 4, the condition :math:`4(x+2)/D(x) > 4x` fails first at the root
    of :math:`x\,D(x) = x + 2` (QH-35), which in elementary terms reads

    .. math::

        \sqrt{2\pi}\;\kappa^{3/2}\,e^{\kappa/8}\operatorname{erf}\sqrt{\kappa/8} = 32 .

    The left side increases in kappa, so that the root is the only one.

    Parameters
    ----------
    digits : int
        Significant digits; the last one is right to within one unit, which is proved by interval
        evaluations on both sides of the root.

    Examples
    --------
    >>> from qhreg.certificate import critical_kappa
    >>> print(critical_kappa(30))
    4.63091377525413428667758287682
    """
    if digits < 1:
        raise DomainError(f"digits must be at least 1, got {digits!r}")
    context = mpmath.mp.clone()
    context.dps = digits + 10

    def equation(kappa: Any) -> Any:
        root = context.sqrt(2 * context.pi * kappa**3)
        return root * context.exp(kappa / 8) * context.erf(context.sqrt(kappa / 8)) - 32

    kappa = context.findroot(equation, KAPPA_STAR)
    _check_bracket(kappa, digits)
    context.dps = digits
    return +kappa


def _check_bracket(kappa: mpmath.mpf, digits: int) -> None:
    """Raise unless x D(x) - x - 2 is proved to change sign within 10^-digits around kappa / 4."""
    iv = interval_context(int(3.33 * digits) + 64)
    step = iv.mpf(10) ** (-digits)
    below, above = ((iv.mpf(str(kappa)) + side * step) / 4 for side in (-1, 1))
    signs = [x * scaled_half(x, iv) - x - 2 for x in (below, above)]
    if not (signs[0].b < 0 < signs[1].a):
        raise QhregError(f"kappa* = {kappa} could not be verified to {digits} digits")
