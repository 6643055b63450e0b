r"""Predictions and their standard errors.

Every row has the same law around its location, so that mean, median and quantiles are
:math:`x'\beta + o + \sigma m(\tau, \kappa)` with one number m for all rows, and the delta method needs
the derivatives of m alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.normalizer import log_normalizer_derivatives, log_normalizer_higher
from qhreg.prediction_intervals import PredictionIntervals
from qhreg.specification.parameters import Parameters, ParameterSpace

__all__ = ["KINDS", "SHIFTED", "Prediction", "predict", "prediction_gradient"]


KINDS = ("location", "mean", "median", "quantile", "prob", "var")
"""What can be predicted."""

SHIFTED = ("location", "mean", "median", "quantile")
"""Those that are the location plus sigma times a number."""

_STEP = 1e-4


class _Derivatives(NamedTuple):
    """A number of the standardised law and its derivatives in tau and kappa."""

    value: Any
    d_tau: Any
    d_kappa: Any


def _differentiate(law: Callable[[float, float], Any], tau: float, kappa: float) -> _Derivatives:
    """Return law(tau, kappa) with derivatives by five-point differences (one-sided at kappa = 0)."""
    h = _STEP * min(tau, 1.0 - tau)
    d_tau = _five_point(lambda x: law(x, kappa), tau, h)
    h = _STEP * max(kappa, 1.0)
    if kappa > 2.0 * h:
        d_kappa = _five_point(lambda x: law(tau, x), kappa, h)
    else:
        a, b, c, d, e = (law(tau, kappa + j * h) for j in range(5))
        d_kappa = (-25.0 * a + 48.0 * b - 36.0 * c + 16.0 * d - 3.0 * e) / (12.0 * h)
    return _Derivatives(law(tau, kappa), d_tau, d_kappa)


def _five_point(function: Callable[[float], Any], x: float, h: float) -> Any:
    far = function(x - 2.0 * h) - function(x + 2.0 * h)
    return (far + 8.0 * (function(x + h) - function(x - h))) / (12.0 * h)


def _mean_law(tau: float, kappa: float) -> float:
    return float(log_normalizer_derivatives(tau, kappa).d_tau)


def _variance_law(tau: float, kappa: float) -> float:
    return kappa + float(log_normalizer_derivatives(tau, kappa).d2_tau)


def _quantile_law(level: Any) -> Callable[[float, float], Any]:
    return lambda tau, kappa: quantile_huber.ppf(level, tau, kappa)


def _shift_law(which: str, q: Any) -> Callable[[float, float], Any]:
    """Return m(tau, kappa) of a prediction that is location + sigma m."""
    if which == "location":
        return lambda tau, kappa: 0.0
    if which == "mean":
        return _mean_law
    return _quantile_law(0.5 if which == "median" else q)


def _check(which: str, q: Any, y_values: Any) -> tuple[Any, Any]:
    """Return q and y_values as arrays, or raise a DomainError when they do not fit the kind."""
    if which not in KINDS:
        raise DomainError(f"which must be one of {', '.join(KINDS)}; got {which!r}")
    if which == "quantile":
        if q is None:
            raise DomainError('which="quantile" needs q, the level or levels in (0, 1)')
        q = np.asarray(q, dtype=np.float64)
        if q.ndim > 1 or not bool(((q > 0.0) & (q < 1.0)).all()):
            raise DomainError(
                f"q must be a number or a list of numbers in (0, 1), got {q.tolist()}"
            )
    elif q is not None:
        raise DomainError(f'q is the level for which="quantile"; which is {which!r}')
    if which == "prob":
        if y_values is None:
            raise DomainError('which="prob" needs y_values: P(y <= y_values) is returned')
        y_values = np.asarray(y_values, dtype=np.float64)
        if y_values.ndim > 1:
            raise DomainError("y_values must be a number or a list of numbers")
    elif y_values is not None:
        raise DomainError(f'y_values belongs to which="prob"; which is {which!r}')
    return q, y_values


def predict(
    location: Any,
    parameters: Parameters,
    which: str = "location",
    *,
    q: Any = None,
    y_values: Any = None,
) -> Any:
    r"""Return the prediction for rows with the given locations.

    Parameters
    ----------
    location : ndarray, shape (n,)
        x'beta plus offset.
    parameters : Parameters
        sigma, tau and kappa are used.
    which : {"location", "mean", "median", "quantile", "prob", "var"}
        The location itself, the mean, the median, quantiles of level `q`, the probability of
        values up to `y_values`, the variance.
    q : float or sequence of float
        Levels of the quantiles.
    y_values : float or sequence of float
        Thresholds of the probabilities.

    Returns
    -------
    ndarray, shape (n,) or (n, m)
        A column for each level or threshold when a sequence was given.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.parameters import Parameters
    >>> from qhreg.prediction import predict
    >>> law = Parameters(np.zeros(1), 1.0, 0.25, 0.0)
    >>> predict(np.zeros(1), law, "quantile", q=[0.25, 0.75]).round(4).tolist()
    [[-4.3944, 0.0]]
    """
    q, y_values = _check(which, q, y_values)
    _, sigma, tau, kappa = parameters
    location = np.asarray(location)
    if which in SHIFTED:
        shift = np.asarray(_shift_law(which, q)(tau, kappa))
        return location + sigma * shift if shift.ndim == 0 else location[:, None] + sigma * shift
    if which == "var":
        return np.full(location.shape, sigma**2 * _variance_law(tau, kappa))
    centre = location if y_values.ndim == 0 else location[:, None]
    return quantile_huber.cdf((y_values - centre) / sigma, tau, kappa)


def prediction_gradient(
    exog: FloatArray,
    location: FloatArray,
    parameters: Parameters,
    space: ParameterSpace,
    which: str = "location",
    *,
    q: Any = None,
    y_values: Any = None,
) -> FloatArray:
    """Return the derivative of `predict` in the free parameters, shape (n, size).

    `q` and `y_values` must be single numbers here.
    """
    q, y_values = _check(which, q, y_values)
    _, sigma, tau, kappa = parameters
    n = exog.shape[0]
    if which in SHIFTED:
        law = _differentiate(_shift_law(which, q), tau, kappa)
        d_beta, d_sigma = exog, np.full(n, float(law.value))
        d_tau, d_kappa = np.full(n, sigma * law.d_tau), np.full(n, sigma * law.d_kappa)
    elif which == "var":
        law = _differentiate(_variance_law, tau, kappa)
        third = float(log_normalizer_higher(tau, kappa)[0])
        d_beta, d_sigma = np.zeros_like(exog), np.full(n, 2.0 * sigma * law.value)
        d_tau, d_kappa = np.full(n, sigma**2 * third), np.full(n, sigma**2 * law.d_kappa)
    else:
        u = (y_values - location) / sigma
        law = _differentiate(lambda t, k: quantile_huber.cdf(u, t, k), tau, kappa)
        density = quantile_huber.pdf(u, tau, kappa)
        d_beta, d_sigma = -exog * (density / sigma)[:, None], -density * u / sigma
        d_tau, d_kappa = law.d_tau, law.d_kappa
    extra = {"sigma": d_sigma, "tau": d_tau, "kappa": d_kappa}
    return np.column_stack([d_beta, *(extra[name] for name in space.extra_names)])


@dataclass(frozen=True)
class Prediction(PredictionIntervals):
    """Predictions with standard errors, confidence intervals and observation intervals.

    Attributes
    ----------
    which : str
        What is predicted.
    predicted, se : ndarray, shape (n,)
        The prediction and its standard error (delta method).
    location : ndarray, shape (n,)
        x'beta plus offset.
    parameters : Parameters
        The fit.
    row_labels : index or None
        Labels of the rows.
    df : float or None
        Degrees of freedom of the t distribution; None for the normal one.
    """

    which: str
    predicted: FloatArray
    se: FloatArray
    location: FloatArray
    parameters: Parameters
    row_labels: Any = None
    df: float | None = None

    def response_quantiles(self, levels: list[float]) -> FloatArray:
        """Return quantiles of the response in the fitted law, shape (n, number of levels)."""
        quantiles: FloatArray = predict(self.location, self.parameters, "quantile", q=levels)
        return quantiles
