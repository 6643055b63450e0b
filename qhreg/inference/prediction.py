r"""Predictions and their standard errors.

A prediction is a function of the location, the scale and the asymmetry of a row, and of the width. The
delta method needs its derivatives in :math:`\mu_i, \log\sigma_i, \operatorname{logit}\tau_i` and kappa
(QH-56), times those of these in the parameters: the regressors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.domain import check_alpha, from_line, line_slope, to_line
from qhreg.family.normalizer import log_normalizer_derivatives, log_normalizer_higher
from qhreg.specification.parameters import RowLaw

KINDS = ("location", "mean", "median", "quantile", "sigma", "tau", "var", "prob")
"""What can be predicted."""

OF_RESPONSE = ("location", "mean", "median", "quantile")
"""Predictions in the units of the response, beside which an observation interval makes sense."""

STEP = 1e-4
"""Step of five-point differences, relative to the distance from the end of the domain."""


class PredictionSlopes(NamedTuple):
    """Derivatives of a prediction in location, log sigma, logit tau and kappa, each of shape (n,)."""

    location: FloatArray
    log_sigma: FloatArray
    logit_tau: FloatArray
    kappa: FloatArray


def _argument(which: str, q: Any, y_values: Any) -> FloatArray:
    """Return the levels or thresholds that a kind needs, or raise a DomainError."""
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
        thresholds = np.asarray(y_values, dtype=np.float64)
        if thresholds.ndim > 1:
            raise DomainError("y_values must be a number or a list of numbers")
        return thresholds
    return np.asarray(0.5)


def _standard(which: str, argument: Any) -> Callable[[Any, float], Any]:
    """Return the prediction of the law with location 0 and sigma 1, given tau and kappa."""
    if which == "mean":
        return lambda tau, kappa: log_normalizer_derivatives(tau, np.float64(kappa)).d_tau
    if which == "var":
        return lambda tau, kappa: kappa + log_normalizer_derivatives(tau, np.float64(kappa)).d2_tau
    if which == "prob":
        return lambda tau, kappa: quantile_huber.cdf(argument, tau, kappa)
    return lambda tau, kappa: quantile_huber.ppf(argument, tau, kappa)


def predict(law: RowLaw, which: str = "location", *, q: Any = None, y_values: Any = None) -> Any:
    r"""Return the prediction for rows with the given law.

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

    Notes
    -----
    With m of the standard law mean, median and quantiles are :math:`\mu + \sigma m(\tau, \kappa)`, the
    variance :math:`\sigma^2(\kappa + (\log c)''(\tau))`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.inference.prediction import predict
    >>> from qhreg.specification.parameters import RowLaw
    >>> law = RowLaw(np.zeros(2), np.array([1.0, 2.0]), 0.5, 0.0)
    >>> predict(law, "quantile", q=[0.25, 0.5]).round(4).tolist()
    [[-1.3863, 0.0], [-2.7726, 0.0]]
    """
    argument = _argument(which, q, y_values)
    location, sigma, tau, kappa = law
    location = np.asarray(location)
    if which in ("location", "sigma", "tau"):
        return np.array(np.broadcast_to(getattr(law, which), location.shape))
    if argument.ndim:
        location = location[:, None]
        sigma, tau = (v[:, None] if np.ndim(v) else v for v in (sigma, tau))
    if which == "prob":
        return quantile_huber.cdf((argument - location) / sigma, tau, kappa)
    standard = np.asarray(_standard(which, argument)(tau, kappa))
    if which == "var":
        return np.array(np.broadcast_to(sigma**2 * standard, location.shape))
    return location + sigma * standard


def _five_point(function: Callable[[Any], Any], x: Any, h: Any) -> Any:
    far = function(x - 2.0 * h) - function(x + 2.0 * h)
    return (far + 8.0 * (function(x + h) - function(x - h))) / (12.0 * h)


def _in_kappa(function: Callable[[float], Any], kappa: float) -> Any:
    """Return the derivative in kappa by five-point differences, one-sided at kappa = 0."""
    h = STEP * max(kappa, 1.0)
    if kappa > 2.0 * h:
        return _five_point(function, kappa, h)
    a, b, c, d, e = (function(kappa + j * h) for j in range(5))
    return (-25.0 * a + 48.0 * b - 36.0 * c + 16.0 * d - 3.0 * e) / (12.0 * h)


def prediction_slopes(
    law: RowLaw,
    which: str = "location",
    *,
    q: Any = None,
    y_values: Any = None,
    width: bool = False,
) -> PredictionSlopes:
    r"""Return the derivatives of `predict` in location, log sigma, logit tau and kappa (QH-56).

    Parameters
    ----------
    law, which
        As in `predict`.
    q, y_values : float, optional
        One level, one threshold.
    width : bool
        Whether kappa is estimated; its derivative is zero otherwise.
    """
    argument = _argument(which, q, y_values)
    location, sigma, tau, kappa = law
    slope = tau * (1.0 - tau)
    if which == "location":
        parts: tuple[Any, ...] = (1.0, 0.0, 0.0, 0.0)
    elif which == "sigma":
        parts = (0.0, sigma, 0.0, 0.0)
    elif which == "tau":
        parts = (0.0, 0.0, slope, 0.0)
    else:
        u = (argument - location) / sigma if which == "prob" else argument
        standard = _standard(which, u)
        d_kappa = _in_kappa(lambda k: standard(tau, k), kappa) if width else 0.0
        if which == "var":
            d_tau: Any = log_normalizer_higher(tau, kappa)[0]
        elif which == "mean":
            d_tau = log_normalizer_derivatives(tau, np.float64(kappa)).d2_tau
        else:
            h = STEP * np.minimum(tau, 1.0 - tau)
            d_tau = _five_point(lambda t: standard(t, kappa), tau, h)
        if which == "prob":
            density = quantile_huber.pdf(u, tau, kappa)
            parts = (-density / sigma, -density * u, slope * d_tau, d_kappa)
        elif which == "var":
            unit = sigma**2
            parts = (0.0, 2.0 * unit * standard(tau, kappa), slope * unit * d_tau, unit * d_kappa)
        else:
            parts = (1.0, sigma * standard(tau, kappa), slope * sigma * d_tau, sigma * d_kappa)
    shape = np.shape(location)
    return PredictionSlopes(
        *(np.broadcast_to(np.asarray(part, dtype=np.float64), shape) for part in parts)
    )


@dataclass(frozen=True)
class Prediction:
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

    @property
    def predicted_mean(self) -> FloatArray:
        """The prediction, under the name statsmodels gives it."""
        return self.predicted

    @property
    def se_mean(self) -> FloatArray:
        """The standard error, under the name statsmodels gives it."""
        return self.se

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return confidence limits of the prediction, shape (n, 2).

        On the log scale for sigma and the variance, on the logit scale for tau and probabilities,
        so that no limit leaves the domain; on the natural scale for the others.
        """
        check_alpha(alpha)
        law = stats.norm if self.df is None else stats.t(self.df)
        moved = np.multiply.outer(float(law.ppf(1.0 - 0.5 * alpha)) * self.se, [-1.0, 1.0])
        value = self.predicted[:, None]
        if self.which in OF_RESPONSE:
            return np.asarray(value + moved)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(moved == 0.0, 0.0, moved / line_slope(self.which, value))
            return np.asarray(from_line(self.which, to_line(self.which, value) + step))

    def obs_int(self, alpha: float = 0.05) -> FloatArray:
        """Return limits between which a new observation falls with probability 1 - alpha, (n, 2).

        Equal tails of the fitted distribution. The uncertainty of the parameters is not part of it.
        """
        check_alpha(alpha)
        limits: FloatArray = predict(self.law, "quantile", q=[0.5 * alpha, 1.0 - 0.5 * alpha])
        return limits

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a frame with the prediction, its error, its interval and the observation interval.

        Parameters
        ----------
        alpha : float
            One minus the coverage of both intervals.
        """
        name = self.which
        lower, upper = self.conf_int(alpha).T
        columns = {
            name: self.predicted,
            f"{name}_se": self.se,
            f"{name}_ci_lower": lower,
            f"{name}_ci_upper": upper,
        }
        if name in OF_RESPONSE:
            columns["obs_ci_lower"], columns["obs_ci_upper"] = self.obs_int(alpha).T
        return pd.DataFrame(columns, index=self.row_labels)

    def _repr_html_(self) -> str:
        shown = {"max_rows": pd.get_option("display.max_rows"), "show_dimensions": True}
        table: str = self.summary_frame().to_html(**shown)
        return table
