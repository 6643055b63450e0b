"""What a distributional fit says about rows: residuals, scales, asymmetries, predictions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from qhreg._typing import FloatArray
from qhreg.distributional.likelihood import Regression
from qhreg.distributional.prediction import (
    DistributionalPrediction,
    RowLaw,
    predict,
    prediction_factors,
)
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.results.rows import by_label, new_offset, new_regressors, new_variables
from qhreg.specification.formulas import SPEC_NAME, design_matrix

__all__ = ["DistributionalRows"]


class DistributionalRows:
    """The part of the results that has one number for each row, old or new."""

    model: Any
    params: FloatArray
    kappa: float
    use_t: bool
    df_resid_inference: Any
    _variances: Any
    cov_params: Any

    @property
    def _law(self) -> RowLaw:
        self.model.require_data()
        law: RowLaw = self.model.law(self.params, self.model.regression)
        return law

    @property
    def fittedvalues(self) -> FloatArray:
        """Location of each row: x'beta plus offset."""
        return self._law.location

    @property
    def sigma(self) -> FloatArray:
        """Scale of each row."""
        return self._law.sigma

    @property
    def tau(self) -> FloatArray:
        """Asymmetry of each row."""
        return self._law.tau

    @property
    def quantile_level(self) -> FloatArray:
        """P(y < location) of each row in the fitted distribution: 1 - tau only at kappa = 0."""
        level: FloatArray = quantile_huber.cdf(0.0, self.tau, self.kappa)
        return level

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Smallest and largest scale and asymmetry of the rows."""
        law = self._law
        pairs = {"sigma": law.sigma, "tau": law.tau}
        return {name: (float(v.min()), float(v.max())) for name, v in pairs.items()}

    @property
    def resid(self) -> FloatArray:
        """Response minus fitted values."""
        resid: FloatArray = self.model.endog - self.fittedvalues
        return resid

    @property
    def resid_standardized(self) -> FloatArray:
        """Residuals divided by the sigma of their row: the u of the density."""
        return self.resid / self.sigma

    @property
    def resid_pearson(self) -> FloatArray:
        """Response minus its mean, divided by its standard deviation."""
        law = self._law
        deviation = np.sqrt(predict(law, "var"))
        resid: FloatArray = (self.model.endog - predict(law, "mean")) / deviation
        return resid

    @property
    def resid_pit(self) -> FloatArray:
        """Distribution function at the response: uniform when the model is true."""
        values: FloatArray = quantile_huber.cdf(self.resid_standardized, self.tau, self.kappa)
        return values

    @property
    def resid_quantile(self) -> FloatArray:
        """Normal scores of `resid_pit`: standard normal when the model is true.

        Each from the smaller tail, so that far residuals stay finite.
        """
        u, tau = self.resid_standardized, self.tau
        lower = stats.norm.ppf(quantile_huber.cdf(u, tau, self.kappa))
        upper = stats.norm.isf(quantile_huber.sf(u, tau, self.kappa))
        values: FloatArray = np.where(u < 0.0, lower, upper)
        return values

    # ------------------------------------------------------------------ predictions

    def predict(
        self,
        exog: Any = None,
        transform: bool = True,
        which: str = "location",
        *,
        exog_scale: Any = None,
        exog_tau: Any = None,
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> Any:
        """Return predictions.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows: variables of all formulas, or columns of the location. The rows of the model by
            default.
        transform : bool
            Whether to put `exog` through the formulas.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            What to predict.
        exog_scale, exog_tau : array_like, optional
            Regressors of scale and asymmetry of new rows, for a model without formulas; a constant
            need not be given.
        offset : float or array_like, optional
            Offset of the new rows.
        q, y_values : float or sequence of float
            Levels of quantiles, thresholds of probabilities.

        Returns
        -------
        ndarray, Series or DataFrame
            With the labels of `exog`.
        """
        rows, labels = self._new_rows(exog, transform, exog_scale, exog_tau, offset)
        predicted = predict(self.model.law(self.params, rows), which, q=q, y_values=y_values)
        if labels is None:
            return predicted
        if predicted.ndim == 1:
            return pd.Series(predicted, index=labels)
        levels = q if q is not None else y_values
        return pd.DataFrame(predicted, index=labels, columns=list(np.asarray(levels)))

    def _new_rows(
        self, exog: Any, transform: bool, exog_scale: Any, exog_tau: Any, offset: Any
    ) -> tuple[Regression, Any]:
        """Return the regressors of new rows, and their labels."""
        model = self.model
        if exog is None and exog_scale is None and exog_tau is None:
            model.require_data()
            labels = model.data.row_labels
            return model.new_rows(offset=by_label(offset, labels)), labels
        if offset is None and model._offset_name is not None:
            offset = new_offset(exog, model._offset_name)
        spec = getattr(model.data, SPEC_NAME, None)
        if transform and spec is not None:
            variables = new_variables(exog, getattr(model, "formula", ""))
            made = design_matrix(spec, variables, model._namespace)
            # drop_cols may have removed single columns of a term, which the spec does not know
            exog = made[model.exog_names[: model.k_exog]]
            parts = {
                name: design_matrix(part, variables, model._namespace)
                for name, part in model._specs.items()
            }
            exog_scale, exog_tau = parts.get("scale"), parts.get("tau")
        elif exog is not None:
            exog = new_regressors("exog", exog, model.exog_names[: model.k_exog])
        labels = exog.index if isinstance(exog, (pd.DataFrame, pd.Series)) else None
        if exog_scale is not None:
            exog_scale = new_regressors("exog_scale", exog_scale, model.scale_names)
            exog_scale = by_label(exog_scale, labels, "exog_scale")
        if exog_tau is not None:
            exog_tau = new_regressors("exog_tau", exog_tau, model.tau_names)
            exog_tau = by_label(exog_tau, labels, "exog_tau")
        rows = model.new_rows(exog, exog_scale, exog_tau, by_label(offset, labels))
        return rows, labels if labels is not None and len(labels) == rows.endog.size else None

    def get_prediction(
        self,
        exog: Any = None,
        which: str = "location",
        transform: bool = True,
        row_labels: Any = None,
        *,
        exog_scale: Any = None,
        exog_tau: Any = None,
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> DistributionalPrediction:
        """Return predictions with standard errors and intervals.

        Parameters
        ----------
        exog, exog_scale, exog_tau, transform, offset
            New rows, as in `predict`.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            What to predict; the location by default, as in `predict`.
        row_labels : sequence, optional
            Labels of the rows.
        q, y_values : float, optional
            Level of the quantile, threshold of the probability.

        Returns
        -------
        DistributionalPrediction
            With ``summary_frame(alpha)``, ``conf_int(alpha)`` and ``obs_int(alpha)``.
        """
        rows, labels = self._new_rows(exog, transform, exog_scale, exog_tau, offset)
        law = self.model.law(self.params, rows)
        predicted = predict(law, which, q=q, y_values=y_values)
        if predicted.ndim > 1:
            raise DomainError("get_prediction takes one level q or one threshold at a time")
        factors = prediction_factors(law, which, q=q, y_values=y_values)
        parts = [design * f[:, None] for design, f in zip(rows.designs, factors, strict=True)]
        gradient = np.hstack(parts)
        variance = self._variances(gradient)
        return DistributionalPrediction(
            which,
            predicted,
            np.sqrt(np.maximum(variance, 0.0)),
            law,
            labels if row_labels is None else row_labels,
            self.df_resid_inference if self.use_t else None,
        )

    def get_distribution(
        self,
        exog: Any = None,
        exog_scale: Any = None,
        exog_tau: Any = None,
        transform: bool = True,
        *,
        offset: Any = None,
    ) -> Any:
        """Return the fitted distribution of each row as a frozen scipy distribution.

        Parameters
        ----------
        exog, exog_scale, exog_tau, transform, offset
            New rows, as in `predict`; the rows of the model by default.
        """
        rows, _ = self._new_rows(exog, transform, exog_scale, exog_tau, offset)
        law = self.model.law(self.params, rows)
        return quantile_huber(law.tau, law.kappa, loc=law.location, scale=law.sigma)
