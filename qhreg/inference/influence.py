"""How much each row moves the fit."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.outliers_influence import MLEInfluence

from qhreg._typing import FloatArray
from qhreg.exceptions import NotOffered, without

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = MLEInfluence


LABELLED = 5
"""Rows that an index plot and an influence plot name: those that stand out most."""


class QuantileHuberInfluence(_Base):  # type: ignore[misc]
    """Influence and outlier measures of a fit, under the names of statsmodels.

    Scores, bread and leverage are those of the robust covariances
    (:mod:`qhreg.covariance.parts`): the step from the fit towards the fit without a row is its score
    over one minus its leverage, as in HC3, times the inverse bread. ``d_params``, ``params_one``,
    ``dfbetas``, ``cooks_distance``, ``d_fittedvalues``, ``hat_matrix_diag``, ``resid_studentized``,
    ``summary_frame()`` and the plots of statsmodels.

    Parameters
    ----------
    results : RegressionResults
        The fit.

    Notes
    -----
    A row outside the zone of the bread has no curvature: its leverage is 0, and leaving it out takes
    away its slope alone. A row with frequency weight f is f observations that are left out together.
    """

    def __init__(self, results: Any) -> None:
        parts = results._parts()
        obs = results.model.observations
        freq = 1.0 if parts.freq is None else parts.freq
        self.results = results
        self.nobs, self.k_vars = obs.exog.shape
        self.k_params = results.params.size
        self.endog, self.exog = obs.endog, obs.exog
        self.scale = 1.0
        self.resid = results.resid_pearson
        self.cov_params = results.cov_params()
        self.model_class = type(results.model)
        self.hessian = -parts.bread
        self.score_obs = parts.scores * np.reshape(freq, (-1, 1))
        self._hat_matrix_diag = parts.leverage * freq
        self._inverse = parts.inverse
        self._jacobian = parts.jacobian
        self.zone_width = parts.width

    @cached_property
    def d_params(self) -> FloatArray:
        """Estimates minus the estimates without each row, by one Newton step, shape (n, q).

        Zero for a parameter that the covariance treats as known, such as tau on its bound; NaN where a
        row has leverage one.
        """
        left = self._spread**2
        step: FloatArray = (self.score_obs / left[:, None]) @ self._inverse @ self._jacobian.T
        return step

    @cached_property
    def resid_studentized(self) -> FloatArray:
        """Pearson residuals over the root of one minus the leverage; NaN where that is 1."""
        studentized: FloatArray = self.resid / self._spread
        return studentized

    @property
    def _spread(self) -> FloatArray:
        """Roots of one minus the leverage, NaN where a row decides its own location."""
        rest = 1.0 - self.hat_matrix_diag
        return np.asarray(np.sqrt(np.where(rest > 1e-10, rest, np.nan)))

    @cached_property
    def hat_matrix_exog_diag(self) -> FloatArray:
        """Leverage of each row among the regressors, as in least squares with the case weights."""
        weights = self.results.model.observations.case_weights
        design = self.exog if weights is None else self.exog * np.sqrt(weights)[:, None]
        leverage: FloatArray = (design * np.linalg.pinv(design).T).sum(axis=1)
        return leverage

    @cached_property
    def dfbetas(self) -> FloatArray:
        """`d_params` in standard errors; NaN where there is none."""
        bse = np.asarray(self.results.bse)
        scaled: FloatArray = self.d_params / np.where(bse > 0.0, bse, np.nan)
        return scaled

    @cached_property
    def cooks_distance(self) -> tuple[FloatArray, FloatArray]:
        """Squared length of `d_params` in the metric of the covariance, per parameter, and p-values."""
        size = np.sqrt(np.asarray(self.cov_params).diagonal())
        kept = np.flatnonzero(size > 0.0)  # neither held nor without a standard error
        size = size[kept]
        cov = np.asarray(self.cov_params)[np.ix_(kept, kept)] / np.outer(size, size)
        inverse = np.linalg.pinv(cov, hermitian=True)
        moved = self.d_params[:, kept] / size
        k = np.linalg.matrix_rank(inverse, hermitian=True)
        distance: FloatArray = np.einsum("ij,jk,ik->i", moved, inverse, moved) / k
        return distance, stats.f.sf(distance, k, self.results.df_resid)

    def resid_score(
        self, joint: bool = True, index: Any = None, studentize: bool = False
    ) -> FloatArray:
        """Return the scores of each row in the metric of the Hessian, smoothed as in `d_params`.

        Parameters
        ----------
        joint : bool
            Whether to return one number for each row, the squared length; else one for each parameter.
        index : array_like, optional
            Which of the parameters that are not held to look at.
        studentize : bool
            Whether to divide by the square root of one minus the leverage.
        """
        chosen = slice(None) if index is None else np.asarray(index)
        scores, bread = self.score_obs[:, chosen], -self.hessian[chosen][:, chosen]
        if joint:
            statistic = np.einsum(
                "ij,jk,ik->i", scores, np.linalg.pinv(bread, hermitian=True), scores
            )
        else:
            statistic = scores / np.sqrt(bread.diagonal())
        if studentize:
            statistic = (statistic.T / self._spread).T
        return np.asarray(statistic)

    resid_studentized_external = NotOffered(
        "use get_influence().plot_influence(), or resid_studentized (external=False)"
    )
    resid_score_factor = NotOffered("beyond the quadratic zone it divides by zero; use resid_score")

    def __dir__(self) -> list[str]:
        return without(super().__dir__(), type(self))

    @cached_property
    def d_fittedvalues(self) -> FloatArray:
        """Change of each row's own location when the row is left out, by one Newton step."""
        moved: FloatArray = np.einsum("ij,ij->i", self.exog, self.d_params[:, : self.k_vars])
        return moved

    @cached_property
    def d_fittedvalues_scaled(self) -> FloatArray:
        """`d_fittedvalues` in standard errors of the location; NaN where that has none, as at x = 0."""
        cov = np.asarray(self.results.cov_params())[: self.k_vars, : self.k_vars]
        error = np.sqrt(np.maximum(np.einsum("ij,ij->i", self.exog @ cov, self.exog), 0.0))
        scaled: FloatArray = self.d_fittedvalues / np.where(error > 0.0, error, np.nan)
        return scaled

    def summary_frame(self) -> pd.DataFrame:
        """Return `dfbetas` and the other measures, one row for each row of the model, in its order."""
        names = self.results.model.data.xnames
        return pd.DataFrame(
            np.column_stack(
                [
                    self.dfbetas,
                    self.cooks_distance[0],
                    self.resid_studentized,
                    self.hat_matrix_diag,
                    self.d_fittedvalues_scaled,
                ]
            ),
            index=self.results.model.data.row_labels,
            columns=[
                *(f"dfb_{name}" for name in names),
                "cooks_d",
                "standard_resid",
                "hat_diag",
                "dffits_internal",
            ],
        )

    def _plot_index(self, y: Any, ylabel: str, threshold: Any = None, **options: Any) -> Any:
        """Draw a measure of each row, by default with the labels of the largest few."""
        if isinstance(threshold, str):
            size = np.sort(np.abs(np.asarray(y)[np.isfinite(y)]))[::-1]
            threshold = size[LABELLED] if size.size > LABELLED else -1.0
        return super()._plot_index(y, ylabel, threshold=threshold, **options)

    def plot_influence(self, ax: Any = None) -> Any:
        """Draw studentised residuals against the leverage of the regressors and return the Figure.

        Every row has such a leverage (`hat_matrix_exog_diag`), one without curvature too. The area of a
        row grows with Cook's distance; the rows with the largest few are named.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_influence

        distance, names = self.cooks_distance[0], self.results.model.data.row_labels
        largest = np.argsort(-np.nan_to_num(distance), kind="stable")[:LABELLED]
        labels = {int(row): str(row if names is None else names[row]) for row in largest}
        measures = self.hat_matrix_exog_diag, self.resid_studentized, distance
        return plot_influence(*measures, labels, ax).get_figure()
