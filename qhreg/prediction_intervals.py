"""Confidence and observation intervals of predictions, on the scale that keeps them in their domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from qhreg._typing import FloatArray
from qhreg.family.domain import check_alpha

__all__ = ["PredictionIntervals"]


POSITIVE = ("sigma", "var")
"""Predictions whose intervals are made on the log scale."""

UNIT = ("tau", "prob")
"""Predictions whose intervals are made on the logit scale."""

OF_RESPONSE = ("location", "mean", "median", "quantile")
"""Predictions in the units of the response, beside which an observation interval makes sense."""


class PredictionIntervals:
    """What predictions with standard errors have in common.

    Attributes
    ----------
    which : str
        What is predicted.
    predicted, se : ndarray, shape (n,)
        The prediction and its standard error.
    row_labels : index or None
        Labels of the rows.
    df : float or None
        Degrees of freedom of the t distribution; None for the normal one.
    """

    which: str
    predicted: FloatArray
    se: FloatArray
    row_labels: Any
    df: float | None

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
        half = float(law.ppf(1.0 - 0.5 * alpha)) * self.se
        value = self.predicted
        signs = (-1.0, 1.0)
        if self.which in POSITIVE:
            with np.errstate(over="ignore"):
                return np.column_stack([value * np.exp(sign * half / value) for sign in signs])
        if self.which in UNIT:
            with np.errstate(divide="ignore", invalid="ignore"):
                centre = special.logit(value)
                half = np.where(half > 0.0, half / (value * (1.0 - value)), 0.0)
            return np.column_stack([special.expit(centre + sign * half) for sign in signs])
        return np.column_stack([value + sign * half for sign in signs])

    def response_quantiles(self, levels: list[float]) -> FloatArray:
        """Return quantiles of the response in the fitted law, shape (n, number of levels)."""
        raise NotImplementedError

    def obs_int(self, alpha: float = 0.05) -> FloatArray:
        """Return limits between which a new observation falls with probability 1 - alpha, (n, 2).

        Equal tails of the fitted distribution. The uncertainty of the parameters is not part of it.
        """
        check_alpha(alpha)
        return self.response_quantiles([0.5 * alpha, 1.0 - 0.5 * alpha])

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
