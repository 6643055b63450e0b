"""What a fit says about rows: fitted values, residuals, predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.diagnostics.residuals import normal_scores
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import zone_part
from qhreg.inference.prediction import Prediction, predict, prediction_slopes
from qhreg.specification.formulas import SPEC_NAME, design_matrix, mentions
from qhreg.specification.inputs import RowSource, as_table, to_pandas
from qhreg.specification.parameters import RowLaw


def of_solution(name: str, doc: str) -> Any:
    """Return a property of results that their solution has."""
    return property(lambda results: getattr(results.solution, name), doc=doc)


class RowResults:
    """The part of the results that has one number for each row, old or new."""

    model: Any
    params: Any
    use_t: bool
    df_resid_inference: Any
    _variances: Any

    @property
    def _row_law(self) -> RowLaw:
        """Location, scale and asymmetry of each row."""
        law: RowLaw = self.model.law(np.asarray(self.params), self.model.rows())
        return law

    @property
    def fittedvalues(self) -> FloatArray:
        """Location of each row: x'beta plus offset."""
        return self._row_law.location

    @property
    def resid(self) -> FloatArray:
        """Response minus fitted values."""
        return np.asarray(self.model.endog - self._row_law.location)

    @property
    def resid_standardized(self) -> FloatArray:
        """Residuals divided by sigma: the u of the density."""
        law = self._row_law
        return np.asarray((self.model.endog - law.location) / law.sigma)

    @property
    def resid_pearson(self) -> FloatArray:
        """Response minus its mean, divided by its standard deviation."""
        law = self._row_law
        distance = self.model.endog - predict(law, "mean")
        return np.asarray(distance / np.sqrt(predict(law, "var")))

    @property
    def resid_pit(self) -> FloatArray:
        """Distribution function at the response: uniform when the model is true."""
        law = self._row_law
        return np.asarray(quantile_huber.cdf(self.resid_standardized, law.tau, law.kappa))

    @property
    def resid_quantile(self) -> FloatArray:
        """Normal scores of `resid_pit`: standard normal when the model is true.

        Each from the smaller tail, so that far residuals stay finite.
        """
        law = self._row_law
        return normal_scores(self.resid_standardized, law.tau, law.kappa)

    @property
    def weights(self) -> FloatArray:
        """What each row weighs in an equivalent least-squares fit, as in RLM: 1 in the zone."""
        law, u = self._row_law, self.resid_standardized
        inside = zone_part(u, law.tau, law.kappa)  # kappa psi, whose share of u is the weight
        return np.divide(inside, u, out=np.ones_like(u), where=u != 0.0)

    # ------------------------------------------------------------------ predictions

    def predict(
        self,
        exog: Any = None,
        transform: bool = True,
        which: str = "location",
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
        **further: Any,
    ) -> Any:
        """Return predictions.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows: variables of the formulas, or columns as in the model; a DataFrame with the names
            of the model's columns may have them in another order. The rows of the model by default.
        transform : bool
            Whether to put `exog` through the formulas.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            See :func:`qhreg.inference.prediction.predict`. The location is not a quantile of level
            1 - tau when kappa > 0.
        offset : float or array_like, optional
            Offset of the new rows.
        q, y_values : float or sequence of float
            Levels of quantiles, thresholds of probabilities.
        **further
            Of a distributional model without formulas ``exog_scale`` and ``exog_tau``, the regressors of
            scale and asymmetry of new rows; a constant need not be given.

        Returns
        -------
        ndarray, Series or DataFrame
            With the labels of `exog`.
        """
        law, _, labels = self._new_law(exog, transform, offset, further)
        predicted = predict(law, which, q=q, y_values=y_values)
        if labels is None:
            return predicted
        if predicted.ndim == 1:
            return pd.Series(predicted, index=labels)
        levels = q if q is not None else y_values
        return pd.DataFrame(predicted, index=labels, columns=list(np.asarray(levels)))

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
        **further: Any,
    ) -> Prediction:
        """Return predictions with standard errors and intervals.

        Parameters
        ----------
        exog, transform, offset, **further
            New rows, as in `predict`; those of the model by default.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            What to predict; the location by default, as in `predict`.
        row_labels : sequence, optional
            Labels of the rows.
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
        law, rows, labels = self._new_law(exog, transform, offset, further)
        predicted = predict(law, which, q=q, y_values=y_values)
        if predicted.ndim > 1:
            raise DomainError("get_prediction takes one level q or one threshold at a time")
        free = self.model.kappa is None
        slopes = prediction_slopes(law, which, q=q, y_values=y_values, width=free)
        variance = self._variances(self.model.law_gradient(law, rows, slopes))
        return Prediction(
            which,
            predicted,
            np.sqrt(np.maximum(variance, 0.0)),
            law,
            labels if row_labels is None else row_labels,
            self.df_resid_inference if self.use_t else None,
        )

    def get_distribution(
        self, exog: Any = None, transform: bool = True, *, offset: Any = None, **further: Any
    ) -> Any:
        """Return the fitted distribution of each row as a frozen scipy distribution.

        Parameters
        ----------
        exog, transform, offset, **further
            New rows, as in `predict`; those of the model by default.
        """
        law, _, _ = self._new_law(exog, transform, offset, further)
        return quantile_huber(law.tau, law.kappa, loc=law.location, scale=law.sigma)

    def _new_law(
        self, exog: Any, transform: bool, offset: Any, further: dict[str, Any]
    ) -> tuple[RowLaw, Any, Any]:
        """Return the law of new rows, their regressors, and their labels."""
        rows, labels = self._new_rows(exog, transform, offset, further)
        return self.model.law(np.asarray(self.params), rows), rows, labels

    def _new_rows(
        self, exog: Any, transform: bool, offset: Any, further: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Return the regressors of new rows, and their labels."""
        model, exog = self.model, to_pandas(exog)
        if exog is None and all(values is None for values in further.values()):
            model.require_data()
            labels = model.data.row_labels
            return model.rows(None, by_label(offset, labels), **further), labels
        if offset is None and model._offset_name is not None:
            offset = new_offset(exog, model._offset_name)
        spec = getattr(model.data, SPEC_NAME, None)
        if transform and spec is not None:
            variables = new_variables(exog, getattr(model, "formula", ""))
            # drop_cols may have removed single columns of a term, which the spec does not know
            design = design_matrix(spec, variables, model._namespace)
            exog = design[model.exog_names[: model.k_exog]]
            further = {
                name: design_matrix(part, variables, model._namespace)
                for name, part in model._specs.items()
            }
        elif exog is not None:
            exog = new_regressors("exog", exog, model.exog_names[: model.k_exog])
        labels = exog.index if isinstance(exog, (pd.DataFrame, pd.Series)) else None
        designs = {}
        for name, values in further.items():
            if values is not None and name in model.further_names:
                values = new_regressors(name, values, model.further_names[name])
                values = by_label(values, labels, name)
            designs[name] = values
        rows = model.rows(exog, by_label(offset, labels), **designs)
        same = labels is not None and len(labels) == len(rows.exog)
        return rows, labels if same else None


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
