"""What a fit says about rows: fitted values, residuals, predictions, influence."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.fitstatistics import robust_weights
from qhreg.inference.influence import QuantileHuberInfluence
from qhreg.prediction import Prediction, predict, prediction_gradient
from qhreg.solver import Solution
from qhreg.specification.alignment import RowSource, to_pandas
from qhreg.specification.formula_text import mentions
from qhreg.specification.formulas import SPEC_NAME, design_matrix
from qhreg.specification.given import as_table
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

__all__ = ["RowResults", "by_label", "new_offset", "new_regressors", "new_variables"]


class RowResults:
    """The part of the results that has one number for each row, old or new."""

    model: Any
    params: FloatArray
    space: ParameterSpace
    solution: Solution
    sigma: float
    tau: float
    kappa: float
    use_t: bool
    parameters: Any
    constraint: Any
    df_resid_inference: Any
    cov_params: Any
    _variances: Any

    @cached_property
    def _observations(self) -> Observations:
        observations: Observations = self.model.observations
        return observations

    @property
    def fittedvalues(self) -> FloatArray:
        """Location of each row: x'beta plus offset."""
        return self._observations.location(self.solution.beta)

    @property
    def resid(self) -> FloatArray:
        """Response minus fitted values."""
        return self._observations.residuals(self.solution.beta)

    @property
    def resid_standardized(self) -> FloatArray:
        """Residuals divided by sigma: the u of the density."""
        return self.resid / self.sigma

    @property
    def resid_pearson(self) -> FloatArray:
        """Response minus its mean, divided by its standard deviation."""
        mean, variance = quantile_huber.stats(self.tau, self.kappa)
        return (self.resid_standardized - float(mean)) / math.sqrt(float(variance))

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
        u = self.resid_standardized
        lower = stats.norm.ppf(quantile_huber.cdf(u, self.tau, self.kappa))
        upper = stats.norm.isf(quantile_huber.sf(u, self.tau, self.kappa))
        values: FloatArray = np.where(u < 0.0, lower, upper)
        return values

    @property
    def weights(self) -> FloatArray:
        """What each row weighs in an equivalent least-squares fit, as in RLM: 1 in the zone."""
        return robust_weights(self.resid_standardized, self.tau, self.kappa)

    def predict(self, exog: Any = None, transform: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Return predictions.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows: variables of the formula, or columns as in the model; a DataFrame with the names
            of the model's columns may have them in another order. The rows of the model by default.
        transform : bool
            Whether to put `exog` through the formula.
        *args, **kwargs
            ``which`` ("location", "mean", "median", "quantile", "prob", "var"), ``offset``, ``q`` and
            ``y_values``: see :func:`qhreg.prediction.predict`. The location is not a quantile of
            level 1 - tau when kappa > 0.

        Returns
        -------
        ndarray, Series or DataFrame
            With the labels of `exog`.
        """
        kwargs.update(zip(("which", "offset", "q", "y_values"), args, strict=False))
        rows, offset, labels = self._new_rows(exog, transform, kwargs.pop("offset", None))
        predicted = self.model.predict(self.params, rows, offset=offset, **kwargs)
        if labels is None:
            return predicted
        if predicted.ndim == 1:
            return pd.Series(predicted, index=labels)
        levels = kwargs.get("q") if kwargs.get("q") is not None else kwargs.get("y_values")
        return pd.DataFrame(predicted, index=labels, columns=list(np.asarray(levels)))

    def _new_rows(self, exog: Any, transform: bool, offset: Any) -> tuple[Any, Any, Any]:
        """Return regressors, offset and labels of new rows."""
        if exog is None:
            self.model.require_data()
            labels = self.model.data.row_labels
            return None, by_label(offset, labels), labels
        if offset is None and self.model._offset_name is not None:
            offset = new_offset(exog, self.model._offset_name)
        spec = getattr(self.model.data, SPEC_NAME, None)
        if transform and spec is not None:
            variables = new_variables(exog, getattr(self.model, "formula", ""))
            made = design_matrix(spec, variables, self.model._namespace)
            # drop_cols may have removed single columns of a term, which the spec does not know
            exog = made[self.model.exog_names[: self.space.k]]
        else:
            exog = new_regressors("exog", exog, self.model.exog_names[: self.space.k])
        labels = exog.index if isinstance(exog, (pd.DataFrame, pd.Series)) else None
        rows = np.asarray(exog, dtype=np.float64)
        if rows.ndim < 2:
            rows = rows.reshape(-1, 1) if self.space.k == 1 else rows.reshape(1, -1)
            labels = labels if labels is not None and len(labels) == len(rows) else None
        offset = by_label(offset, labels)
        return rows, None if offset is None else np.asarray(offset, dtype=np.float64), labels

    def get_prediction(
        self,
        exog: Any = None,
        which: str = "location",
        transform: bool = True,
        row_labels: Any = None,
        *,
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> Prediction:
        """Return predictions with standard errors and intervals.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows; those of the model by default.
        which : {"location", "mean", "median", "quantile", "prob", "var"}
            What to predict; the location by default, as in `predict`.
        transform : bool
            Whether to put `exog` through the formula.
        row_labels : sequence, optional
            Labels of the rows.
        offset : float or array_like, optional
            Offset of the new rows.
        q, y_values : float, optional
            Level of the quantile, threshold of the probability.

        Returns
        -------
        Prediction
            With ``summary_frame(alpha)``, ``conf_int(alpha)`` and ``obs_int(alpha)``.

        Notes
        -----
        Standard errors by the delta method from the covariance of the estimates, intervals with the
        quantiles that those of the estimates have. The interval at the row (0, 1, 0) is that of the
        second coefficient.
        """
        rows, offset, labels = self._new_rows(exog, transform, offset)
        location = self.model.location(self.solution.beta, rows, offset)
        rows = self._observations.exog if rows is None else rows
        p = self.parameters
        predicted = predict(location, p, which, q=q, y_values=y_values)
        if predicted.ndim > 1:
            raise DomainError("get_prediction takes one level q or one threshold at a time")
        gradient = prediction_gradient(rows, location, p, self.space, which, q=q, y_values=y_values)
        variance = self._variances(gradient)
        return Prediction(
            which,
            predicted,
            np.sqrt(np.maximum(variance, 0.0)),
            location,
            p,
            labels if row_labels is None else row_labels,
            self.df_resid_inference if self.use_t else None,
        )

    def get_distribution(
        self, exog: Any = None, transform: bool = True, *, offset: Any = None
    ) -> Any:
        """Return the fitted distribution of each row as a frozen scipy distribution.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows; those of the model by default.
        transform : bool
            Whether to put `exog` through the formula.
        offset : float or array_like, optional
            Offset of the new rows.
        """
        rows, offset, _ = self._new_rows(exog, transform, offset)
        return self.model.get_distribution(self.params, rows, offset)

    def get_influence(self) -> QuantileHuberInfluence:
        """Return measures of how much each row moves the fit."""
        if self.constraint is not None:
            raise DomainError("get_influence is for fits without constraints")
        return QuantileHuberInfluence(self)


def new_variables(exog: Any, formula: Any = "") -> Any:
    """Return new variables as a frame.

    A Series with the name of a variable is a column, another one whose labels are names is a row.
    """
    if isinstance(exog, dict):
        scalar = all(np.ndim(value) == 0 for value in exog.values())
        return pd.DataFrame(exog, index=[0]) if scalar else pd.DataFrame(exog)
    if isinstance(exog, pd.Series):
        name = exog.name
        column = isinstance(name, str) and name not in exog.index and mentions(formula, name)
        row = not column and all(isinstance(label, str) for label in exog.index)
        return exog.to_frame().T.infer_objects() if row else exog.to_frame()
    exog = to_pandas(exog)
    if not isinstance(exog, pd.DataFrame):
        raise DataError(
            "the model has a formula: pass new rows as a DataFrame or dict of its variables, or the "
            "columns of the design with transform=False"
        )
    return exog


def by_label(values: Any, labels: Any, name: str = "offset") -> Any:
    """Return a Series or frame in the order of the rows' labels, and everything else as it is."""
    if not isinstance(values, (pd.Series, pd.DataFrame)) or not isinstance(labels, pd.Index):
        return values
    return RowSource(len(labels), labels=labels).take(name, values)


def new_regressors(name: str, exog: Any, names: list[Any]) -> Any:
    """Return new rows of a design as floats.

    A dict, a frame, or a Series that is one row, with just the names of the columns is brought to
    their order; without them columns count by position.
    """
    exog = new_variables(exog) if isinstance(exog, dict) else to_pandas(exog)
    if isinstance(exog, pd.DataFrame):
        given = exog.columns
        exog = exog.infer_objects()
        _require_columns(name, given, names)
    elif isinstance(exog, pd.Series):
        given = exog.index
    else:
        return as_table(name, exog)
    same = given.is_unique and len(given) == len(names) and set(given) == set(names)
    return as_table(name, exog[list(names)] if same else exog)


def _require_columns(name: str, given: pd.Index, names: list[Any]) -> None:
    """Raise a DataError that names the columns of a model which a frame of another width lacks."""
    missing = [str(column) for column in names if column not in given]
    if len(given) == len(names) or not missing:
        return
    constant = "; statsmodels.api.add_constant adds it" if missing == ["const"] else ""
    raise DataError(
        f"{name} has no column {', '.join(map(repr, missing))}: the model has the columns "
        f"{', '.join(map(str, names))}, the new rows {', '.join(map(str, given))}{constant}"
    )


def new_offset(exog: Any, name: str) -> Any:
    """Return the offset of new rows from the column it had in the fit."""
    try:
        return np.asarray(exog[name], dtype=np.float64)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"the model was fitted with offset={name!r}, a column that the new data do not have: "
            "add it or pass offset= (0 for none)"
        ) from error
