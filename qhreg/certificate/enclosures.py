r"""Outward-rounded enclosures of (log c)'' and its second derivative in tau.

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

import math
from functools import lru_cache
from typing import Any

from mpmath.ctx_iv import MPIntervalContext

_SERIES_LIMIT = 120
"""x from which the closed form of D is tighter than any precision used, and the series long."""


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
    >>> from qhreg.certificate.enclosures import interval_context, scaled_half
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
    >>> from qhreg.certificate.enclosures import curvature, interval_context
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
    >>> from qhreg.certificate.enclosures import curvature_at_half, interval_context, lower, upper
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
    >>> from qhreg.certificate.enclosures import curvature_second_derivative, interval_context
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
