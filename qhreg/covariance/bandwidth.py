"""How much wider than the zone of the fit that of the bread is."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.engine.rows import weighted_quantiles


def hall_sheather(level: float, nobs: float) -> float:
    r"""Return the bandwidth of Hall and Sheather for the sparsity at a quantile.

    Parameters
    ----------
    level : float
        Level of the quantile, in (0, 1).
    nobs : float
        Number of observations.

    Notes
    -----
    With :math:`z = \Phi^{-1}(q)` [1]_

    .. math:: h = n^{-1/3}\,1.96^{2/3}\Big(\frac{1.5\,\varphi(z)^2}{2z^2+1}\Big)^{1/3}.

    It is ``bandwidth.rq(q, n, hs = TRUE)`` of R's quantreg.

    References
    ----------
    .. [1] P. Hall and S. J. Sheather (1988), On the distribution of a studentized quantile, Journal of
       the Royal Statistical Society B 50, 381-391.

    Examples
    --------
    >>> from qhreg.covariance.bandwidth import hall_sheather
    >>> round(hall_sheather(0.5, 235), 6)
    0.157439
    """
    z = float(special.ndtri(level))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    size = nobs ** (-1.0 / 3.0) * float(special.ndtri(0.975)) ** (2.0 / 3.0)
    return float(size * (1.5 * density**2 / (2.0 * z * z + 1.0)) ** (1.0 / 3.0))


def bread_window(
    u: FloatArray, tau: float, nobs: float, weights: FloatArray | None = None
) -> float:
    r"""Return the width w of the window in which residuals tell of the density at the line.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    tau : float
        Asymmetry; the line is near the quantile q = 1 - tau.
    nobs : float
        Number of observations.
    weights : ndarray, shape (n,), or None
        Weights of the rows.

    Notes
    -----
    :math:`w = s\,(\Phi^{-1}(q + h) - \Phi^{-1}(q - h))`, h Hall and Sheather's bandwidth and s the
    smaller of the standard deviation and the interquartile range over 1.349, the standard deviation
    where that range is zero: the window of R's quantreg. Levels beyond 1/(2n) and 1 - 1/(2n), those of
    the extreme ones of n observations, are these.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.bandwidth import bread_window
    >>> round(bread_window(np.linspace(-1.0, 1.0, 101), 0.5, 101), 3)
    0.644
    """
    mean = float(np.average(u, weights=weights))
    variance = float(np.average((u - mean) ** 2, weights=weights))
    return window_width(variance, quartile_range(u, weights), tau, nobs)


def window_width(variance: float, middle: float, tau: float, nobs: float) -> float:
    """Return w of :func:`bread_window` from mean squared deviation and interquartile range."""
    level = 1.0 - tau
    h, edge = hall_sheather(level, nobs), 0.5 / nobs
    low, high = max(level - h, min(level, edge)), min(level + h, max(level, 1.0 - edge))
    spread = math.sqrt(variance * nobs / max(nobs - 1.0, 1.0))
    if middle > 0.0:
        spread = min(spread, middle / 1.349)
    return spread * float(special.ndtri(high) - special.ndtri(low))


def quartile_range(u: FloatArray, weights: FloatArray | None) -> float:
    """Return the interquartile range, the mean of those of u and of -u.

    They differ where a quarter of the weight ends between two values, and the width must not depend on
    the sign of the response.
    """
    low, high = weighted_quantiles(u, (0.25, 0.75), weights)
    below, above = weighted_quantiles(-u, (0.25, 0.75), weights)
    return 0.5 * (high - low + above - below)
