r"""Predictions when each row has its own scale and asymmetry, and their standard errors.

With the predictors :math:`\mu_i, \log\sigma_i, \operatorname{logit}\tau_i` of a row every prediction is
a function of three numbers, and the delta method needs its derivative in each (QH-56).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.normalizer import log_normalizer_derivatives, log_normalizer_higher
from qhreg.prediction_intervals import PredictionIntervals

__all__ = ["KINDS", "DistributionalPrediction", "RowLaw", "predict", "prediction_factors"]


KINDS = ("location", "mean", "median", "quantile", "sigma", "tau", "var", "prob")
"""What can be predicted."""

_STEP = 1e-4


class RowLaw(NamedTuple):
    """Location, scale and asymmetry of each row, and the common width."""

    location: FloatArray
    sigma: FloatArray
    tau: FloatArray
    kappa: float

    @classmethod
    def of(
        cls, location: FloatArray, log_sigma: FloatArray, logit_tau: FloatArray, kappa: float
    ) -> RowLaw:
        """Return the law of rows with the given predictors."""
        return cls(location, np.exp(log_sigma), special.expit(logit_tau), kappa)


def _argument(which: str, q: Any, y_values: Any) -> Any:
    """Return the level or threshold that a kind needs, or raise a DomainError."""
    if which not in KINDS:
        raise DomainError(f"which must be one of {', '.join(KINDS)}; got {which!r}")
    if q is not None and which != "quantile":
        raise DomainError(f'q is the level for which="quantile"; which is {which!r}')
    if y_values is not None and which != "prob":
        raise DomainError(f'y_values belongs to which="prob"; which is {which!r}')
    if which == "quantile":
        if q is None:
            raise DomainError('which="quantile" needs q, the level or levels in (0, 1)')
        levels = np.asarray(q, dtype=np.float64)
        if levels.ndim > 1 or not bool(((levels > 0.0) & (levels < 1.0)).all()):
            raise DomainError(f"q must be a number or a list of numbers in (0, 1), got {q!r}")
        return levels
    if which == "prob":
        if y_values is None:
            raise DomainError('which="prob" needs y_values: P(y <= y_values) is returned')
        return np.asarray(y_values, dtype=np.float64)
    return np.asarray(0.5)


def _shift(which: str, argument: Any, kappa: float) -> Callable[[FloatArray], FloatArray]:
    """Return m(tau) of a prediction that is location + sigma m(tau)."""
    if which == "mean":
        return lambda tau: np.asarray(log_normalizer_derivatives(tau, np.float64(kappa)).d_tau)
    return lambda tau: np.asarray(quantile_huber.ppf(argument, tau, kappa))


def predict(law: RowLaw, which: str = "location", *, q: Any = None, y_values: Any = None) -> Any:
    """Return the prediction for rows with the given law.

    Parameters
    ----------
    law : RowLaw
        Location, scale and asymmetry of each row.
    which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
        The location itself, mean, median, quantiles of level `q`, scale, asymmetry, variance, or the
        probability of values up to `y_values`.
    q : float or sequence of float
        Levels of the quantiles.
    y_values : float, or sequence of float
        Thresholds of the probabilities.

    Returns
    -------
    ndarray, shape (n,) or (n, m)
        A column for each level or threshold when a sequence was given.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.distributional.prediction import RowLaw, predict
    >>> law = RowLaw(np.zeros(2), np.array([1.0, 2.0]), np.array([0.5, 0.5]), 0.0)
    >>> predict(law, "quantile", q=[0.25, 0.5]).round(4).tolist()
    [[-1.3863, 0.0], [-2.7726, 0.0]]
    """
    argument = _argument(which, q, y_values)
    location, sigma, tau, kappa = law
    if which in ("location", "sigma", "tau"):
        return np.array(getattr(law, which))
    if which == "var":
        return sigma**2 * (kappa + log_normalizer_derivatives(tau, np.float64(kappa)).d2_tau)
    if argument.ndim:
        location, sigma, tau = location[:, None], sigma[:, None], tau[:, None]
    if which == "prob":
        return quantile_huber.cdf((argument - location) / sigma, tau, kappa)
    return location + sigma * _shift(which, argument, kappa)(tau)


def _derivative(
    function: Callable[[FloatArray], FloatArray], x: FloatArray, h: FloatArray
) -> FloatArray:
    far = function(x - 2.0 * h) - function(x + 2.0 * h)
    return (far + 8.0 * (function(x + h) - function(x - h))) / (12.0 * h)


def prediction_factors(
    law: RowLaw, which: str = "location", *, q: Any = None, y_values: Any = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return the derivatives of `predict` in location, log sigma and logit tau of each row (QH-56).

    `q` and `y_values` must be single numbers here.
    """
    argument = _argument(which, q, y_values)
    location, sigma, tau, kappa = law
    slope = tau * (1.0 - tau)
    none, one = np.zeros_like(sigma), np.ones_like(sigma)
    h = _STEP * np.minimum(tau, 1.0 - tau)
    if which == "location":
        return one, none, none
    if which == "sigma":
        return none, sigma, none
    if which == "tau":
        return none, none, slope
    if which == "var":
        third = log_normalizer_higher(tau, kappa)[0]
        return none, 2.0 * predict(law, "var"), slope * sigma**2 * third
    if which == "prob":
        u = (argument - location) / sigma
        density = quantile_huber.pdf(u, tau, kappa)
        d_tau = _derivative(lambda t: np.asarray(quantile_huber.cdf(u, t, kappa)), tau, h)
        return -density / sigma, -density * u, slope * d_tau
    shift = _shift(which, argument, kappa)
    if which == "mean":
        d_shift = np.asarray(log_normalizer_derivatives(tau, np.float64(kappa)).d2_tau)
    else:
        d_shift = _derivative(shift, tau, h)
    return one, sigma * shift(tau), slope * sigma * d_shift


@dataclass(frozen=True)
class DistributionalPrediction(PredictionIntervals):
    """Predictions with standard errors, confidence intervals and observation intervals.

    Attributes
    ----------
    which : str
        What is predicted.
    predicted, se : ndarray, shape (n,)
        The prediction and its standard error (delta method).
    law : RowLaw
        Location, scale and asymmetry of each row.
    row_labels : index or None
        Labels of the rows.
    df : float or None
        Degrees of freedom of the t distribution; None for the normal one.
    """

    which: str
    predicted: FloatArray
    se: FloatArray
    law: RowLaw
    row_labels: Any = None
    df: float | None = None

    def response_quantiles(self, levels: list[float]) -> FloatArray:
        """Return quantiles of the response in the fitted law, shape (n, number of levels)."""
        quantiles: FloatArray = predict(self.law, "quantile", q=levels)
        return quantiles
