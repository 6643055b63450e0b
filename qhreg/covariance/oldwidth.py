"""How wide a zone the bread of a sandwich counts rows in."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.covariance.scores import Sample
from qhreg.engine.weighted_quantile import MANY, weighted_quantiles

__all__ = ["bread_width", "chosen_width"]


FACTOR = 0.6
"""The width for a corner of the loss, over that of Hall and Sheather for a quantile."""

NEGLIGIBLE = 0.01
"""Share by which a width may exceed that of the fit without being worth the spread of all residuals."""


def bread_width(kappa: float, nobs: float, tau: float = 0.5, spread: float = 2.0) -> float:
    r"""Return the width of the zone in the bread: that of the fit and 0.6 of Hall and Sheather's.

    Parameters
    ----------
    kappa : float
        Width of the fit.
    nobs : float
        Number of observations.
    tau : float
        Asymmetry.
    spread : float
        Standard deviation of the standardised residuals, or their interquartile range / 1.349 if
        smaller; 2 for the symmetric Laplace law.

    Notes
    -----
    With :math:`q = 1-\tau`, :math:`z = \Phi^{-1}(q)` and

    .. math:: h = n^{-1/3}\,1.96^{2/3}\Big(\frac{1.5\,\varphi(z)^2}{2z^2+1}\Big)^{1/3},

    the width is :math:`\sqrt{\kappa^2 + w^2}` with
    :math:`w = 0.6\,s\,(\Phi^{-1}(q+h) - \Phi^{-1}(q-h))`, h reduced where q + h or q - h would leave the
    unit interval [1]_. The factor was chosen by the coverage of HC intervals, together with their
    calibration: see the page on coverage.

    References
    ----------
    .. [1] P. Hall and S. J. Sheather (1988), On the distribution of a studentized quantile, Journal of
       the Royal Statistical Society B 50, 381-391.

    Examples
    --------
    >>> from qhreg.covariance.oldwidth import bread_width
    >>> round(bread_width(0.0, 1000), 3), round(bread_width(3.0, 1000), 3)
    (0.59, 3.058)
    """
    return math.hypot(kappa, spread * _window(nobs, tau))


def _window(nobs: float, tau: float) -> float:
    """Return the width w of :func:`bread_width` at a spread of one."""
    level = 1.0 - tau
    z = float(special.ndtri(level))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    h = nobs ** (-1.0 / 3.0) * 1.959964 ** (2.0 / 3.0)
    h *= (1.5 * density**2 / (2.0 * z * z + 1.0)) ** (1.0 / 3.0)
    h = min(h, 0.95 * min(level, tau))
    return FACTOR * float(special.ndtri(level + h) - special.ndtri(level - h))


def chosen_width(
    sample: Sample, weights: FloatArray | None, nobs: float, width: float | None
) -> float:
    """Return the given width, or the default one, never below that of the fit.

    Parameters
    ----------
    sample : Sample
        Data and parameters.
    weights : ndarray, shape (n,), or None
        Weights of the rows.
    nobs : float
        Number of observations.
    width : float or None
        What the user asked for; None for :func:`bread_width` at the spread of the residuals.
    """
    point = sample.point
    if width is not None:
        return max(width, point.kappa)
    u, window = sample.u, _window(nobs, point.tau)
    w, total = (u, u.size) if weights is None else (u * weights, float(weights.sum()))
    square = float(w @ u) / total
    if math.hypot(point.kappa, math.sqrt(square) * window) <= (1.0 + NEGLIGIBLE) * point.kappa:
        return point.kappa  # no spread is larger than the root mean square
    mean = float(np.add.reduce(w)) / total
    if mean * mean < 0.5 * square:
        spread = math.sqrt(square - mean * mean)
    else:  # digits cancel
        spread = math.sqrt(float(np.average((u - mean) ** 2, weights=weights)))
    middle = _quartile_range(u, weights)
    if middle > 0.0:
        spread = min(spread, middle / 1.349)
    return math.hypot(point.kappa, spread * window)


def _quartile_range(u: FloatArray, weights: FloatArray | None) -> float:
    """Return the interquartile range, the mean of those of u and of -u.

    They differ where a quarter of the weight ends between two values, and the width must not depend on
    the sign of the response. Of many values without weights they are next to equal.
    """
    if weights is not None:
        low, high = weighted_quantiles(u, (0.25, 0.75), weights)
        below, above = weighted_quantiles(-u, (0.25, 0.75), weights)
        return 0.5 * (high - low + above - below)
    n = u.size
    if n % 4 or n > MANY:
        low, high = weighted_quantiles(u, (0.25, 0.75), None)
        return high - low
    after = 0.5 / n  # the next value
    levels = (0.25, 0.25 + after, 0.75, 0.75 + after)
    low, next_low, high, next_high = weighted_quantiles(u, levels, None)
    return 0.5 * ((next_high - low) + (high - next_low))
