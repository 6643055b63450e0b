r"""The noise around the trees: gradients at tau = 1/2, then level, sigma and tau by maximum likelihood.

How rows differ, in location and in spread, is learnt as if the noise were symmetric. A target that is
skewed because the trees have yet to learn it would otherwise be taken for noise of one sign, and tau
would move to its bound. The noise is inferred afterwards, from rows that the trees have not seen.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.information import unit_information
from qhreg.engine.rows import GivenRows, rows_of, weighted_quantiles
from qhreg.exceptions import BoundaryWarning
from qhreg.family.loss import loss_slope, quantile_huber_loss
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver import DEFAULT_TAU_BOUNDS, solve_rows, task_of

SCALE_TOLERANCE = 1e-6
"""Relative error at which sigma is taken."""

T = TypeVar("T")


class Pool:
    """The workers behind a fit, each of which runs it on its own rows: here one, which has all."""

    def gather(self, value: T) -> list[T]:
        """Return the values of all workers, the same list on each."""
        return [value]

    def total(self, *values: Any) -> FloatArray:
        """Return sums over the workers."""
        return np.asarray(np.sum(self.gather(values), axis=0), dtype=np.float64)

    def range(self, values: FloatArray) -> tuple[float, float]:
        """Return the least and the largest value."""
        ends = self.gather((values.min(initial=np.inf), values.max(initial=-np.inf)))
        return float(min(low for low, _ in ends)), float(max(high for _, high in ends))

    def rows(self, values: FloatArray, weights: FloatArray | None) -> GivenRows:
        """Return values with a constant as their only regressor."""
        return rows_of(np.ones((values.size, 1)), values, weights, None)

    def median(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the middle between the lower and the upper median of weighted values."""
        (lower,), (upper,) = (weighted_quantiles(v, [0.5], weights) for v in (values, -values))
        return 0.5 * (lower - upper)


HERE = Pool()
"""All rows in this process."""


# ---------------------------------------------------------------------- the shape


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
    >>> from qhreg.boosting.noise import symmetric_scale
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
    >>> from qhreg.boosting.noise import location_gradient
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
    return -weights * score / unit_information(0.5, kappa)[1, 1], weights


# ---------------------------------------------------------------------- the law


@dataclass(frozen=True)
class Noise:
    r"""The quantile Huber law of :math:`u = (y - f(x))\,e^{-s(x)}`.

    Attributes
    ----------
    level, sigma, tau, kappa : float
        Location, scale, asymmetry and width.
    loss : float
        Mean negative log-likelihood of the values it was fitted to, minus infinity where all are equal.
    """

    level: float
    sigma: float
    tau: float
    kappa: float
    loss: float

    @property
    def beta(self) -> FloatArray:
        """The level, as the coefficient that a fit may start from."""
        return np.array([self.level])

    @property
    def mean(self) -> float:
        """The mean of the law; that of the values it was fitted to where tau is inside its bounds."""
        return self.level + self.sigma * float(
            log_normalizer_derivatives(self.tau, self.kappa).d_tau
        )


def fit_noise(
    values: FloatArray,
    weights: FloatArray | None,
    *,
    kappa: float,
    tau: float | None = None,
    sigma: float | None = None,
    near: Noise | None = None,
    pool: Pool = HERE,
) -> Noise:
    """Return the maximum-likelihood law of values, with the least positive sigma where all are equal.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Standardised out-of-fold residuals.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    kappa : float
        Huber width in units of sigma.
    tau, sigma : float or None
        A number fixes the parameter.
    near : Noise or None
        The law of values that differ little, whose optimum is followed instead of a search over tau.
    pool : Pool
        Where the values are.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.noise import fit_noise
    >>> values = np.random.default_rng(0).gamma(2.0, size=1000)
    >>> noise = fit_noise(values, np.ones(1000), kappa=4.0)
    >>> bool(noise.tau > 0.7), bool(abs(noise.mean - values.mean()) < 1e-6)
    (True, True)
    """
    low, high = pool.range(values)
    if low == high:
        least = float(np.finfo(float).tiny)
        return Noise(low, sigma or least, tau or 0.5, kappa, -math.inf)
    start = None if near is None or math.isinf(near.loss) else near
    if weights is not None:  # tolerances are for rows that weigh one or more
        sum_of_weights, n_rows = pool.total(weights.sum(), weights.size)
        weights = weights / min(1.0, sum_of_weights / n_rows)
    task = task_of(kappa, tau, sigma, DEFAULT_TAU_BOUNDS, reml=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        search = None if start is None else False
        fit = solve_rows(pool.rows(values, weights), task, start=start, search=search)
    return Noise(float(fit.beta[0]), fit.sigma, fit.tau, kappa, fit.value / fit.n)
