r"""The normaliser of the quantile Huber density and its derivatives, with every limit handled here.

The integral of exp(-rho) splits at zero into two halves of one function (QH-5):

.. math::

    c(\tau) = A(\tau) + A(1-\tau), \qquad
    A(t) = \frac{e^{-\kappa t^2/2}}{t} + \sqrt{\frac{\pi\kappa}{2}}\,
           \operatorname{erf}\!\Big(t\sqrt{\kappa/2}\Big).

Both terms are positive, so that nothing cancels. The form with a difference of two normal
distribution functions gives the same value, but a derivative in kappa wrong by 1e-16/sqrt(kappa)
and 0/0 at kappa = 0; the two terms of the derivative in tau cancel near tau = 1/2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.family.domain import check_broadcast, check_kappa, check_tau

_SQRT_PI = math.sqrt(math.pi)

_SPLIT = 2.0**27 + 1.0
"""A factor that separates the upper half of a float's digits from the lower (Dekker 1971)."""

FARTHEST = 2000.0
"""x beyond which exp(-x / 2) is zero in floats, while powers of x are still finite."""


class LogNormalizer(NamedTuple):
    """log c with its first two derivatives in tau and its first derivative in kappa."""

    value: Any
    d_tau: Any
    d2_tau: Any
    d_kappa: Any


class _Backend(NamedTuple):
    """The elementary functions the formulas need: once for floats, once for arrays."""

    exp: Any
    expm1: Any
    log: Any
    log1p: Any
    sqrt: Any
    erf: Any
    where: Any
    any: Any


def _choose(condition: bool, yes: float, no: float) -> float:
    return yes if condition else no


_SCALAR = _Backend(math.exp, math.expm1, math.log, math.log1p, math.sqrt, math.erf, _choose, bool)
_ARRAY = _Backend(np.exp, np.expm1, np.log, np.log1p, np.sqrt, special.erf, np.where, np.any)


def _rounding_error(a: Any, b: Any, product: Any) -> Any:
    """Return a b - product exactly, for the rounded product of two floats (Dekker's splitting)."""
    a_high = a * _SPLIT - (a * _SPLIT - a)
    b_high = b * _SPLIT - (b * _SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _gauss(t: Any, kappa: Any, f: _Backend) -> tuple[Any, Any]:
    """Return exp(-kappa t^2 / 2) and kappa t^2 / 2.

    Two roundings of an exponent x cost x eps relative in exp(-x): more than 1e-13 before it
    underflows at x = 745. So they are computed and undone where it matters; beyond kappa = 1e290
    the splitting itself would overflow.
    """
    width = kappa * t
    exponent = 0.5 * (width * t)
    needed = (exponent > 50.0) & (exponent < 750.0) & (kappa < 1e290)
    gauss = f.exp(-exponent)
    if f.any(needed):
        t, kappa, width = (f.where(needed, each, 0.0) for each in (t, kappa, width))
        error = _rounding_error(kappa, t, width) * t + _rounding_error(width, t, width * t)
        gauss = gauss * (1.0 - 0.5 * error)
    return gauss, exponent


def _scaled_half(t: Any, gauss: Any, root: Any, erf: Any) -> Any:
    """Return t A(t) (QH-5), for root = sqrt(kappa / 2) and erf = erf(t root)."""
    return gauss + t * _SQRT_PI * root * erf


def _half_dkappa(x: Any, t: Any, erf: Any, f: _Backend) -> Any:
    """Return the derivative in kappa of A(t), for x = t sqrt(kappa / 2) and its erf (QH-8)."""
    small = x < 1e-100  # erf(x) / x is 2 / sqrt(pi) there, and 0 / 0 at kappa = 0
    ratio = f.where(small, 1.0, 0.5 * _SQRT_PI * erf / f.where(small, 1.0, x))
    return 0.5 * t * ratio


def log_normalizer_derivatives(tau: Any, kappa: Any) -> LogNormalizer:
    r"""Return log c, (log c)', (log c)'' in tau, and d log c / d kappa.

    Parameters
    ----------
    tau : float or array_like
        Asymmetry, 0 < tau < 1. Not checked here: callers own their parameters.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf. Floats in give Python floats out.

    Returns
    -------
    LogNormalizer
        ``value``, ``d_tau``, ``d2_tau``, ``d_kappa``, broadcast to the common shape.

    Notes
    -----
    .. math::

        c' &= \frac{e^{-\kappa(1-\tau)^2/2}}{(1-\tau)^2} - \frac{e^{-\kappa\tau^2/2}}{\tau^2}
            &\text{(QH-6)}\\
        c'' &= \sum_{t\in\{\tau,1-\tau\}} \Big(\frac{\kappa}{t}+\frac{2}{t^3}\Big)e^{-\kappa t^2/2}
            &\text{(QH-7)}\\
        \partial_\kappa c &= \sum_{t\in\{\tau,1-\tau\}} \sqrt{\frac{\pi}{8\kappa}}\,
            \operatorname{erf}\Big(t\sqrt{\kappa/2}\Big) &\text{(QH-8)}

    Examples
    --------
    >>> from qhreg.family.normalizer import log_normalizer_derivatives
    >>> log_normalizer_derivatives(0.5, 0.0).d2_tau
    8.0
    """
    if isinstance(tau, float) and isinstance(kappa, float):
        return _scalar_derivatives(tau, kappa)
    with np.errstate(over="ignore", under="ignore"):
        tau, kappa = np.asarray(tau, dtype=np.float64), np.asarray(kappa, dtype=np.float64)
        return _derivatives(tau, kappa, _ARRAY)


@lru_cache(maxsize=256)
def _scalar_derivatives(tau: float, kappa: float) -> LogNormalizer:
    return _derivatives(tau, kappa, _SCALAR)


def _derivatives(tau: Any, kappa: Any, f: _Backend) -> LogNormalizer:
    """Return log c and its derivatives from m^(k+1) c^(k), where m is the smaller of tau, 1 - tau.

    In this form nothing overflows before the result does, and the only difference of nearly equal
    numbers, c' near tau = 1/2, is an expm1: the ratio of its two terms is known in closed form.
    """
    left = tau < 0.5
    m = f.where(left, tau, 1.0 - tau)
    other = 1.0 - m
    distance = abs(1.0 - 2.0 * tau)  # exact near 1/2, where 1 - tau is not
    gauss, exponent = _gauss(m, kappa, f)
    other_gauss = gauss * f.exp(-0.5 * kappa * distance)
    root = f.sqrt(0.5 * kappa)
    erf, other_erf = f.erf(m * root), f.erf(other * root)
    odds = m / other

    c = _scaled_half(m, gauss, root, erf) + odds * _scaled_half(other, other_gauss, root, other_erf)
    c_tau = gauss * f.expm1(-0.5 * kappa * distance - 2.0 * f.log1p(distance / m))
    c_tau2 = (2.0 * exponent + 2.0) * gauss
    c_tau2 += (kappa * other * other + 2.0) * other_gauss * odds**3
    c_kappa = _half_dkappa(m * root, m, erf, f) + _half_dkappa(other * root, other, other_erf, f)

    slope = c_tau / c
    return LogNormalizer(
        f.log(c) - f.log(m),
        f.where(left, slope, -slope) / m,
        (c_tau2 / c - slope * slope) / m / m,
        c_kappa * m / c,
    )


def log_curvature(tau: Any, kappa: Any) -> LogNormalizer:
    r"""Return log q with the derivatives of `log_normalizer_derivatives`; q = E psi' = E psi^2.

    The information of one row about its location is q / sigma^2. Parameters are not checked.

    Parameters
    ----------
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Notes
    -----
    With :math:`e_z = e^{-\kappa z^2/2}`, t = tau and s = 1 - tau (QH-24):

    .. math::

        q &= \frac Nc = 2\,\partial_\kappa\log c, \quad N = \int_{-\tau}^{1-\tau} e_z\,dz, \quad
        \partial_\kappa N = -\tfrac12\int_{-\tau}^{1-\tau} z^2 e_z\,dz, \\
        N' &= e_t - e_s, \quad N'' = -\kappa\,(t e_t + s e_s) .

    log N is concave in tau, as the integral of a log-concave function over a window that moves.

    Examples
    --------
    >>> from qhreg.family.normalizer import log_curvature
    >>> import math
    >>> math.isclose(log_curvature(0.25, 0.0).value, math.log(0.25 * 0.75))
    True
    """
    if isinstance(tau, float) and isinstance(kappa, float):
        return _scalar_curvature(tau, kappa)
    with np.errstate(under="ignore"):
        return _curvature(np.asarray(tau, np.float64), np.asarray(kappa, np.float64), _ARRAY)


def _curvature(tau: Any, kappa: Any, f: _Backend) -> LogNormalizer:
    """Return log q and its derivatives (QH-24)."""
    c = log_normalizer_derivatives(tau, kappa)
    t, s = tau, 1.0 - tau
    value = f.log(2.0 * c.d_kappa)
    size = f.exp(value + c.value)  # N
    e_t, e_s = f.exp(-0.5 * kappa * t * t), f.exp(-0.5 * kappa * s * s)
    slope = (e_t - e_s) / size
    bend = -kappa * (t * e_t + s * e_s) / size - slope * slope
    second = zone_integral(2, t, kappa) + zone_integral(2, s, kappa)
    return LogNormalizer(value, slope - c.d_tau, bend - c.d2_tau, -0.5 * second / size - c.d_kappa)


def zone_integral(n: Any, t: Any, kappa: Any) -> Any:
    r"""Return :math:`\int_0^t z^n e^{-\kappa z^2/2}\,dz`, of which moments and information are made.

    Parameters
    ----------
    n : int or ndarray of int
        Power, n >= 0.
    t : float or ndarray
        End of the zone in units of kappa, t > 0.
    kappa : float or ndarray
        Huber width, 0 <= kappa < inf.

    Examples
    --------
    >>> from qhreg.family.normalizer import zone_integral
    >>> float(zone_integral(2, 0.5, 0.0)), float(zone_integral(1, 1.0, 2.0).round(6))
    (0.041666666666666664, 0.31606)
    """
    order, x = 0.5 * (n + 1), 0.5 * kappa * t * t
    tiny = x < 1e-100
    safe = np.where(tiny, 1.0, x)
    ratio = 0.5 * special.gamma(order) * special.gammainc(order, safe) / safe**order
    return t ** (n + 1) * np.where(tiny, 0.5 / order, ratio)


@lru_cache(maxsize=256)
def _scalar_curvature(tau: float, kappa: float) -> LogNormalizer:
    return LogNormalizer(*(float(part) for part in _curvature(tau, kappa, _SCALAR)))


def restricted_normalizer(tau: Any, kappa: Any, n: float, rank: float) -> LogNormalizer:
    r"""Return n log c + (rank / 2) log q with its derivatives: the part of (QH-25) without data.

    `rank` is that of the regressors in the restricted likelihood and zero in the ordinary one.
    Parameters are not checked.

    Examples
    --------
    >>> from qhreg.family.normalizer import restricted_normalizer
    >>> round(restricted_normalizer(0.5, 0.0, 10.0, 2.0).value, 4)  # 10 log 4 + log 1/4
    12.4766
    """
    c = log_normalizer_derivatives(tau, kappa)
    if not rank:
        return LogNormalizer(*(n * part for part in c))
    q = log_curvature(tau, kappa)
    return LogNormalizer(*(n * a + 0.5 * rank * b for a, b in zip(c, q, strict=True)))


def log_normalizer(tau: Any, kappa: Any) -> Any:
    """Return log c(tau, kappa), the log of the integral of exp(-rho).

    Parameters
    ----------
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Examples
    --------
    >>> from qhreg.family.normalizer import log_normalizer
    >>> import math
    >>> math.isclose(log_normalizer(0.25, 0.0), -math.log(0.25 * 0.75))
    True
    """
    tau, kappa = check_tau(tau), check_kappa(kappa)
    check_broadcast(tau=tau, kappa=kappa)
    return log_normalizer_derivatives(tau, kappa).value


def half_normalizer(t: Any, kappa: Any) -> Any:
    """Return A(t) (QH-5), the integral of exp(-rho) over the half line where the slope is t.

    With t = tau this is the left half, with t = 1 - tau the right one: c = A(tau) + A(1 - tau).
    Parameters are not checked.

    Parameters
    ----------
    t : float or array_like
        Slope of the half line, 0 < t < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf. Floats in give a Python float out.

    Examples
    --------
    >>> from qhreg.family.normalizer import half_normalizer
    >>> half_normalizer(0.25, 0.0)
    4.0
    """
    if isinstance(t, float) and isinstance(kappa, float):
        return _half(t, kappa, _SCALAR)
    with np.errstate(under="ignore"):
        return _half(np.asarray(t, dtype=np.float64), np.asarray(kappa, dtype=np.float64), _ARRAY)


def _half(t: Any, kappa: Any, f: _Backend) -> Any:
    root = f.sqrt(0.5 * kappa)
    return _scaled_half(t, _gauss(t, kappa, f)[0], root, f.erf(t * root)) / t


def log_normalizer_higher(tau: Any, kappa: Any) -> tuple[FloatArray, FloatArray]:
    r"""Return the third and fourth derivative of log c in tau.

    They are the third and fourth cumulant of the distribution. Parameters are not checked.

    Parameters
    ----------
    tau : array_like
        Asymmetry, 0 < tau < 1.
    kappa : array_like
        Huber width, 0 <= kappa < inf.

    Notes
    -----
    With :math:`X = \kappa t^2` for t = tau and t = 1 - tau (QH-9):

    .. math::

        c^{(3)} &= g_3(1-\tau) - g_3(\tau), & g_3(t) &= (X^2 + 3X + 6)\,e^{-X/2}/t^4 \\
        c^{(4)} &= g_4(1-\tau) + g_4(\tau), & g_4(t) &= (X^3 + 3X^2 + 12X + 24)\,e^{-X/2}/t^5

    Examples
    --------
    >>> from qhreg.family.normalizer import log_normalizer_higher
    >>> d3, d4 = log_normalizer_higher(0.5, 0.0)
    >>> float(d3), float(d4)
    (0.0, 192.0)
    """
    tau, kappa = np.asarray(tau, dtype=np.float64), np.asarray(kappa, dtype=np.float64)
    low = log_normalizer_derivatives(tau, kappa)
    c = np.exp(low.value)
    with np.errstate(under="ignore"):
        third = (_third_of_half(1.0 - tau, kappa) - _third_of_half(tau, kappa)) / c
        fourth = (_fourth_of_half(1.0 - tau, kappa) + _fourth_of_half(tau, kappa)) / c
    # of log c from the derivatives of c divided by c
    first, second = low.d_tau, low.d2_tau + low.d_tau**2
    d3 = third - 3.0 * second * first + 2.0 * first**3
    d4 = fourth - 4.0 * third * first - 3.0 * second**2 + 12.0 * second * first**2 - 6.0 * first**4
    return d3, d4


def _third_of_half(t: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return g_3(t) of (QH-9)."""
    x = np.minimum(kappa * t * t, FARTHEST)
    return np.asarray((x * x + 3.0 * x + 6.0) * np.exp(-0.5 * x) / t**4)


def _fourth_of_half(t: FloatArray, kappa: FloatArray) -> FloatArray:
    """Return g_4(t) of (QH-9)."""
    x = np.minimum(kappa * t * t, FARTHEST)
    return np.asarray((((x + 3.0) * x + 12.0) * x + 24.0) * np.exp(-0.5 * x) / t**5)


@lru_cache(maxsize=256)
def location_level(tau: float, kappa: float) -> float:
    """Return P(y < x'beta): 1 - tau at kappa = 0, closer to 1/2 for kappa > 0.

    Examples
    --------
    >>> from qhreg.family.normalizer import location_level
    >>> round(location_level(0.9, 0.0), 4), round(location_level(0.9, 1.0), 4)
    (0.1, 0.1324)
    """
    left, right = half_normalizer(tau, kappa), half_normalizer(1.0 - tau, kappa)
    return float(left / (left + right))
