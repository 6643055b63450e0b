r"""The noise around the trees: level, sigma and tau, inferred once from rows that they have not seen."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.pool import HERE, Pool
from qhreg.exceptions import BoundaryWarning
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver import DEFAULT_TAU_BOUNDS, solve_rows, task_of

__all__ = ["Noise", "fit_noise"]


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
