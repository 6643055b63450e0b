r"""The normaliser of the quantile Huber density and its derivatives, with every limit handled here.

The integral of exp(-rho) splits at zero into two halves of one function (QH-5):

.. math::

    c(\tau) = A(\tau) + A(1-\tau), \qquad
    A(t) = \frac{e^{-\kappa t^2/2}}{t} + \sqrt{\frac{\pi\kappa}{2}}\,
           \operatorname{erf}\!\Big(t\sqrt{\kappa/2}\Big).

Both terms are positive, so that nothing cancels; the textbook form with a difference of two normal
distribution functions loses all digits where both are close to one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from qhreg.domain import check_kappa, check_tau

__all__ = ["LogNormalizer", "log_normalizer", "log_normalizer_derivatives"]

FloatArray = npt.NDArray[np.float64]

_SQRT_HALF_PI = math.sqrt(math.pi / 2)


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


def _choose(condition: bool, yes: float, no: float) -> float:
    return yes if condition else no


_SCALAR = _Backend(math.exp, math.expm1, math.log, math.log1p, math.sqrt, math.erf, _choose)
_ARRAY = _Backend(np.exp, np.expm1, np.log, np.log1p, np.sqrt, special.erf, np.where)


def _half(t: Any, kappa: Any, f: _Backend) -> tuple[Any, Any, Any]:
    """Return A(t), its second derivative and its derivative in kappa (QH-5, QH-7, QH-8)."""
    gauss = f.exp(-0.5 * kappa * t * t)
    x = t * f.sqrt(0.5 * kappa)
    erf = f.erf(x)
    value = gauss / t + _SQRT_HALF_PI * f.sqrt(kappa) * erf
    d2_t = (kappa + 2.0 / (t * t)) * gauss / t
    safe = f.where(x > 0.0, x, 1.0)
    d_kappa = 0.5 * t * f.where(x > 0.0, 0.5 * math.sqrt(math.pi) * erf / safe, 1.0)
    return value, d2_t, d_kappa


def _slope(t: Any, s: Any, kappa: Any, f: _Backend) -> Any:
    """Return c'(tau) for t = tau and s = 1 - tau (QH-6).

    The two terms cancel near tau = 1/2; their ratio is known in closed form, so that the difference
    is the larger term times expm1.
    """
    small = f.where(t < s, t, s)
    distance = abs(1.0 - 2.0 * t)  # exact near 1/2, where 1 - tau is not
    larger = f.exp(-0.5 * kappa * small * small) / (small * small)
    ratio_minus_one = f.expm1(-0.5 * kappa * distance - 2.0 * f.log1p(distance / small))
    return f.where(t < s, 1.0, -1.0) * larger * ratio_minus_one


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
    >>> from qhreg.normalizer import log_normalizer_derivatives
    >>> log_normalizer_derivatives(0.5, 0.0).d2_tau
    8.0
    """
    if isinstance(tau, float) and isinstance(kappa, float):
        f = _SCALAR
    else:
        f = _ARRAY
        tau, kappa = np.asarray(tau, dtype=np.float64), np.asarray(kappa, dtype=np.float64)
    s = 1.0 - tau
    left, left_d2, left_dk = _half(tau, kappa, f)
    right, right_d2, right_dk = _half(s, kappa, f)
    c = left + right
    slope = _slope(tau, s, kappa, f) / c
    return LogNormalizer(
        f.log(c), slope, (left_d2 + right_d2) / c - slope * slope, (left_dk + right_dk) / c
    )


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
    >>> from qhreg.normalizer import log_normalizer
    >>> import math
    >>> math.isclose(log_normalizer(0.25, 0.0), -math.log(0.25 * 0.75))
    True
    """
    return log_normalizer_derivatives(check_tau(tau), check_kappa(kappa)).value
