r"""A look along tau that costs one sort: the profile with the slopes held.

Only the location a and the scale s of given residuals u move with tau:

.. math::

    \min_{a,\,s}\ n\log c(\tau) - n\log s + \sum_i w_i\,\rho_\tau(s u_i - a).

With a constant among the columns this is never below the profile itself, and where the noise does not
depend on the regressors it is a few units of the log-likelihood above it. Sorted residuals with running
sums give it at any (a, s) by two binary searches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg.normalizer import log_normalizer_derivatives
from qhreg.taufit import TINY_KAPPA

__all__ = ["TauScan", "scan_tau"]

FloatArray = npt.NDArray[np.float64]

GRID = 33
"""Values of tau, equally spaced on the logit scale."""

STEPS = 5
"""Newton steps in location and scale; what they leave is a fraction of a unit of log-likelihood."""

DAMPING = 1e-3
"""Share of the rows added to the curvature in the location, for zones without rows."""


class TauScan(NamedTuple):
    """The profile over tau with the slopes held.

    Attributes
    ----------
    tau : ndarray, shape (m,)
        Values of tau, rising.
    value : ndarray, shape (m,)
        The negative log-likelihood, the residuals taken for the response.
    location, scale : ndarray, shape (m,)
        a and s: the residuals become s u - a.
    """

    tau: FloatArray
    value: FloatArray
    location: FloatArray
    scale: FloatArray


class _Sums(NamedTuple):
    """Sorted residuals with running sums of w, w u and w u^2.

    The residuals are counted from their median and the sums from there, so that both keep their
    digits with a large mean and with outliers.
    """

    u: FloatArray
    weight: FloatArray
    first: FloatArray
    second: FloatArray


class _Curve(NamedTuple):
    """The objective, without log c, and its derivatives in a and s, at every tau."""

    value: FloatArray
    d_a: FloatArray
    d_s: FloatArray
    d2_a: FloatArray
    d_a_s: FloatArray
    d2_s: FloatArray


def _running(terms: FloatArray, middle: int) -> FloatArray:
    """Return the running sums of terms, zero before the one in the middle."""
    sums = np.zeros(terms.size + 1)
    below = sums[:middle]
    np.cumsum(terms[:middle][::-1], out=below[::-1])
    np.negative(below, out=below)
    np.cumsum(terms[middle:], out=sums[middle + 1 :])
    return sums


def _sums(u: FloatArray, weights: FloatArray | None) -> tuple[_Sums, float]:
    """Return the residuals in order with their running sums, and what was taken off them.

    They are overwritten where there are no weights.
    """
    n, middle = u.size, u.size // 2
    if weights is None:
        u.sort()
        weight = np.arange(-middle, n - middle + 1, dtype=np.float64)
    else:
        order = np.argsort(u)
        u, weights = u[order], weights[order]
        weight = _running(weights, middle)
    centre = float(u[middle])
    u -= centre
    terms = u.copy() if weights is None else weights * u
    first = _running(terms, middle)
    terms *= u
    return _Sums(u, weight, first, _running(terms, middle)), centre


def _laplace(sums: _Sums, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 1 - tau quantile of the residuals and their total quantile loss about it."""
    weight, first = sums.weight, sums.first
    rank = np.searchsorted(weight[1:], weight[0] + (1.0 - tau) * (weight[-1] - weight[0]))
    location = sums.u[np.minimum(rank, sums.u.size - 1)]
    at = np.searchsorted(sums.u, location)
    above = first[-1] - first[at] - (weight[-1] - weight[at]) * location
    below = (weight[at] - weight[0]) * location - (first[at] - first[0])
    return location, (1.0 - tau) * above + tau * below


def _curve(sums: _Sums, tau: FloatArray, kappa: float, a: FloatArray, s: FloatArray) -> _Curve:
    """Return sum w rho(s u - a) - n log s with its derivatives."""
    _, weight, first, second = sums
    n = weight[-1] - weight[0]
    low = np.searchsorted(sums.u, (a - kappa * tau) / s)
    high = np.searchsorted(sums.u, (a + kappa * (1.0 - tau)) / s)
    w_below, w_above = weight[low] - weight[0], weight[-1] - weight[high]
    u_below, u_above = first[low] - first[0], first[-1] - first[high]
    w_zone, u_zone, uu_zone = (x[high] - x[low] for x in (weight, first, second))
    up = 1.0 - tau
    value = (
        up * (s * u_above - (a + 0.5 * kappa * up) * w_above)
        - tau * (s * u_below - (a - 0.5 * kappa * tau) * w_below)
        + (s * (s * uu_zone - 2.0 * a * u_zone) + a * a * w_zone) / (2.0 * kappa)
        - n * np.log(s)
    )
    return _Curve(
        value,
        tau * w_below - up * w_above - (s * u_zone - a * w_zone) / kappa,
        up * u_above - tau * u_below + (s * uu_zone - a * u_zone) / kappa - n / s,
        w_zone / kappa + DAMPING * n / (1.0 + kappa),
        -u_zone / kappa,
        uu_zone / kappa + n / s**2,
    )


def _descended(
    sums: _Sums, tau: FloatArray, kappa: float, a: FloatArray, s: FloatArray, *, free: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the value and (a, s) after damped Newton steps, s moving only where it is free."""
    now = _curve(sums, tau, kappa, a, s)
    step = np.ones(tau.size)
    for _ in range(STEPS):
        _, d_a, d_s, d2_a, d_a_s, d2_s = now
        if free:
            determinant = d2_a * d2_s - d_a_s**2
            move_a = step * (d_a_s * d_s - d2_s * d_a) / determinant
            move_s = np.maximum(step * (d_a_s * d_a - d2_a * d_s) / determinant, -0.8 * s)
        else:
            move_a, move_s = -step * d_a / d2_a, np.zeros(tau.size)
        tried = _curve(sums, tau, kappa, a + move_a, s + move_s)
        better = tried.value <= now.value
        a, s = np.where(better, a + move_a, a), np.where(better, s + move_s, s)
        now = _Curve(*(np.where(better, *pair) for pair in zip(tried, now, strict=True)))
        step = np.where(better, np.minimum(2.0 * step, 1.0), 0.3 * step)
    return now.value, a, s


@np.errstate(all="ignore")  # where the curve is not finite it tells nothing
def scan_tau(
    u: FloatArray,
    weights: FloatArray | None,
    kappa: float,
    tau_bounds: tuple[float, float],
    *,
    free_scale: bool,
) -> TauScan:
    """Return the profile over tau with the slopes held.

    Parameters
    ----------
    u, weights : ndarray of shape (n,), ndarray or None
        Residuals in any unit, which are overwritten, and case weights.
    kappa : float
        Huber width.
    tau_bounds : (float, float)
        The range to look at.
    free_scale : bool
        Whether the scale moves too, as where sigma is estimated.
    """
    low, high = (np.log(t / (1.0 - t)) for t in tau_bounds)
    tau = 1.0 / (1.0 + np.exp(-np.linspace(low, high, GRID)))
    sums, centre = _sums(u, weights)
    n = sums.weight[-1] - sums.weight[0]
    location, loss = _laplace(sums, tau)
    s = n / loss if free_scale else np.ones(GRID)
    a, value = s * location, s * loss - n * np.log(s)
    if kappa > TINY_KAPPA:
        value, a, s = _descended(sums, tau, kappa, a, s, free=free_scale)
    log_c = log_normalizer_derivatives(tau, kappa).value
    return TauScan(tau, value + n * log_c, a + s * centre, s)
