r"""What the trees are fitted to: gradients of the likelihood at tau = 1/2.

How rows differ, in location and in spread, is learnt as if the noise were symmetric. A target that is
skewed because the trees have yet to learn it would otherwise be taken for noise of one sign, and tau
would move to its bound. The noise is inferred afterwards, from rows that the trees have not seen.
"""

from __future__ import annotations

import math

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.pool import HERE, Pool
from qhreg.covariance.information import unit_information
from qhreg.family.loss import loss_slope, quantile_huber_loss
from qhreg.family.normalizer import log_normalizer_derivatives

__all__ = ["location_gradient", "spread_gradient", "symmetric_scale"]


SCALE_TOLERANCE = 1e-6
"""Relative error at which sigma is taken."""


def symmetric_scale(
    residuals: FloatArray, weights: FloatArray, kappa: float, pool: Pool = HERE
) -> tuple[float, float]:
    r"""Return the maximum-likelihood sigma at tau = 1/2 around zero, and the mean loss there.

    It solves :math:`\sum_i w_i u_i\psi(u_i) = \sum_i w_i` with :math:`u = r/\sigma`, by Newton's method
    on the logarithms of both sides: the slope there is between -2 (all rows in the zone) and -1 (none).
    The loss is minus the log-likelihood. Residuals that are all zero have the least positive sigma.

    Parameters
    ----------
    residuals, weights : ndarray, shape (n,)
        Residuals, and their case weights.
    kappa : float
        Huber width in units of sigma.
    pool : Pool
        Where the rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.shape import symmetric_scale
    >>> sigma, loss = symmetric_scale(np.array([-1.0, 3.0]), np.ones(2), kappa=0.0)
    >>> sigma, round(loss, 4)
    (1.0, 2.3863)
    """
    share = weights / pool.total(weights.sum())
    sigma = 0.5 * float(pool.total(np.abs(residuals) @ share)[0])
    step = np.inf if sigma > 0.0 else 0.0
    while abs(step) > SCALE_TOLERANCE:
        u = residuals / sigma
        psi = loss_slope(u, 0.5, kappa)
        score, inside = pool.total((u * psi) @ share, psi * psi * (np.abs(psi) < 0.5) @ share)
        step = math.log(score) / (1.0 + kappa * inside / score)
        sigma *= math.exp(step)
    sigma = max(sigma, float(np.finfo(float).tiny))
    (mean,) = pool.total(quantile_huber_loss(residuals / sigma, 0.5, kappa) @ share)
    log_c = float(log_normalizer_derivatives(0.5, kappa).value)
    return sigma, float(mean) + log_c + math.log(sigma)


def location_gradient(
    residuals: FloatArray, weights: FloatArray, width: float
) -> tuple[FloatArray, FloatArray]:
    r"""Return gradient and curvature in the location, for a tree of weighted least squares.

    The width is that of the quadratic zone, :math:`\kappa\sigma > 0`. A row's weight is Huber's, one in
    the zone and :math:`\kappa\sigma/(2|r|)` beyond it: the quadratic with this curvature touches the
    loss at r and is nowhere below it. Each leaf then holds the weighted mean of its residuals, a step
    of iteratively reweighted least squares, which never raises the loss (Huber 1981, section 7.8).

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.shape import location_gradient
    >>> gradient, curvature = location_gradient(np.array([-1.0, 1.0, 8.0]), np.ones(3), width=4.0)
    >>> gradient.tolist(), curvature.tolist()
    ([1.0, -1.0, -2.0], [1.0, 1.0, 0.25])
    """
    half = 0.5 * width
    curvature = weights * (half / np.maximum(np.abs(residuals), half))
    return -curvature * residuals, curvature


def spread_gradient(
    residuals: FloatArray, log_scale: FloatArray, weights: FloatArray, kappa: float
) -> tuple[FloatArray, FloatArray]:
    r"""Return the natural gradient in log sigma and its curvature of one per row.

    .. math:: -w\,\frac{u\psi(u) - 1}{I_{\sigma\sigma}},\qquad u = r e^{-s},

    with the expected information :math:`I_{\sigma\sigma}` at tau = 1/2 (QH-21).

    Parameters
    ----------
    residuals, log_scale, weights : ndarray, shape (n,)
        Out-of-fold residuals, s = log sigma by row, case weights.
    kappa : float
        Huber width in units of sigma.
    """
    u = residuals * np.exp(-log_scale)
    score = u * loss_slope(u, 0.5, kappa) - 1.0
    return -weights * score / unit_information(0.5, kappa).sigma_sigma, weights
