"""How much each row moves the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.outliers_influence import MLEInfluence

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance import Fitted, score_obs
from qhreg.notoffered import NotOffered, without
from qhreg.specification.observations import Observations

__all__ = ["QuantileHuberInfluence", "RowInfluence", "row_influence"]


# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = MLEInfluence


LABELLED = 5
"""Rows that an index plot and an influence plot name: those that stand out most."""

ENOUGH = 5
"""Rows in the zone for each column from which the Hessian needs no smoothing."""


@dataclass(frozen=True)
class RowInfluence:
    """The pieces of every measure of influence.

    Attributes
    ----------
    score_obs : ndarray, shape (n, q)
        Score of each row, times its weight.
    bread : ndarray, shape (q, q)
        Minus the Hessian of the log-likelihood, smoothed where few rows lie in the zone.
    leverage : ndarray, shape (n,)
        Share of its own location that each row decides: between 0 and 1, with sum the rank, and 0
        outside the zone, where moving the response changes nothing.
    width : float
        Width of the zone of `bread`.
    """

    score_obs: FloatArray
    bread: FloatArray
    leverage: FloatArray
    width: float


def row_influence(
    observations: Observations, fit: Fitted, free: tuple[str, ...], nobs: float
) -> RowInfluence:
    r"""Return scores, smoothed Hessian and leverage.

    Parameters
    ----------
    observations : Observations
        The data.
    fit : Fitted
        The estimates.
    free : tuple of str
        The estimated parameters.
    nobs : float
        Number of observations, which decides how wide the zone of the Hessian is.

    Notes
    -----
    With the rows Z in the zone of the smoothed Hessian, the leverage of one of them is
    :math:`w_i x_i' (\sum_{j\in Z} w_j x_j x_j')^{-1} x_i`.
    """
    obs = observations
    weights = obs.case_weights
    u = obs.residuals(fit.beta) / fit.sigma
    width = fit.kappa
    if np.count_nonzero(_inside(u, fit.tau, width)) < ENOUGH * obs.exog.shape[1]:
        sample = checked_sample(obs.exog, obs.endog, fit, obs.offset)
        width = chosen_width(sample, weights, nobs, None)
    scores = score_obs(obs.exog, obs.endog, fit, free=free, weights=weights, offset=obs.offset)
    bread = smoothed_bread(
        obs.exog, obs.endog, fit, free=free, weights=weights, offset=obs.offset, width=width
    )
    inside = _inside(u, fit.tau, width)
    rows = np.asarray(obs.exog[inside], dtype=np.float64)
    if weights is not None:
        rows = rows * np.sqrt(weights[inside])[:, None]
    leverage = np.zeros(u.size)
    left = np.linalg.svd(rows, full_matrices=False)
    rank = int((left[1] > 1e-10 * left[1].max(initial=0.0)).sum())
    leverage[inside] = np.einsum("ij,ij->i", left[0][:, :rank], left[0][:, :rank])
    return RowInfluence(scores, bread, leverage, width)


def _inside(u: FloatArray, tau: float, width: float) -> BoolArray:
    return np.asarray((u > -width * tau) & (u < width * (1.0 - tau)))


class QuantileHuberInfluence(_Base):  # type: ignore[misc]
    """Influence and outlier measures of a fit, under the names of statsmodels.

    One Newton step from the fit towards the fit without a row; where few rows lie in the zone, with
    the smoothed Hessian of the robust covariance: ``d_params``, ``params_one``, ``dfbetas``,
    ``cooks_distance``, ``d_fittedvalues``, ``hat_matrix_diag``, ``resid_studentized``,
    ``summary_frame()`` and the plots of statsmodels.

    Parameters
    ----------
    results : QuantileHuberResults
        The fit.
    """

    def __init__(self, results: Any) -> None:
        obs = results.model.observations
        space, held = results.space, results.held_fixed
        free = tuple(name for name in space.free if name not in held)
        numbers = row_influence(obs, results.solution, free, results.nobs)
        self._kept = [*range(space.k), *(space.position(name) for name in free[1:])]
        self.results = results
        self.nobs, self.k_vars = obs.exog.shape
        self.k_params = results.params.size
        self.endog, self.exog = obs.endog, obs.exog
        self.scale = 1.0
        self.resid = results.resid_pearson
        self.cov_params = results.cov_params()
        self.model_class = type(results.model)
        self.hessian = -numbers.bread
        self.score_obs = numbers.score_obs
        self._hat_matrix_diag = numbers.leverage
        self.zone_width = numbers.width

    @cached_property
    def d_params(self) -> FloatArray:
        """Estimates minus the estimates without each row, by one Newton step, shape (n, q).

        Zero for a parameter that the covariance treats as known, such as tau on its bound.
        """
        step: FloatArray = self.score_obs @ np.linalg.pinv(-self.hessian, hermitian=True)
        step /= np.maximum(1.0 - self.hat_matrix_diag, 1e-8)[:, None]
        every = np.zeros((step.shape[0], self.k_params))
        every[:, self._kept] = step
        return every

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
    def dfbetas(self) -> FloatArray:
        """`d_params` in standard errors; NaN where there is none."""
        bse = np.asarray(self.results.bse)
        scaled: FloatArray = self.d_params / np.where(bse > 0.0, bse, np.nan)
        return scaled

    @cached_property
    def cooks_distance(self) -> tuple[FloatArray, FloatArray]:
        """Squared length of `d_params` in the metric of the covariance, per parameter, and p-values."""
        cov = self.cov_params[np.ix_(self._kept, self._kept)]
        if np.isnan(cov).any():  # a fit without standard errors
            nothing = np.full(len(self.d_params), np.nan)
            return nothing, nothing
        size = np.sqrt(cov.diagonal())
        size = np.where(size > 0.0, size, 1.0)
        inverse = np.linalg.pinv(cov / np.outer(size, size), hermitian=True)
        moved = self.d_params[:, self._kept] / size
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
            made = np.einsum("ij,jk,ik->i", scores, np.linalg.pinv(bread, hermitian=True), scores)
        else:
            made = scores / np.sqrt(bread.diagonal())
        if studentize:
            made = (made.T / self._spread).T
        return np.asarray(made)

    resid_score_factor = NotOffered("outside the zone it would divide by zero; use resid_score")

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

    def plot_influence(self, *args: Any, ax: Any = None, **options: Any) -> Any:
        """Draw studentised residuals against leverage and return the Figure.

        The area of a bubble grows with Cook's distance. Of the rows that statsmodels would name, those
        with a large residual or leverage, the few with the largest bubbles are.

        Parameters
        ----------
        *args, **options
            As in statsmodels: ``alpha``, ``criterion``, ``size``, ``plot_alpha``.
        ax : Axes, optional
            Where to draw.
        """
        before = 0 if ax is None else len(ax.texts)
        figure = super().plot_influence(*args, ax=ax, **options)
        ax = figure.axes[-1] if ax is None else ax
        bubbles = ax.collections[-1]
        sizes = dict(zip(map(tuple, bubbles.get_offsets()), bubbles.get_sizes(), strict=True))
        named = sorted(ax.texts[before:], key=lambda text: sizes[tuple(text.xy)], reverse=True)
        for text in named[LABELLED:]:
            text.remove()
        for text in named[:LABELLED]:  # inside the bubble, not at its rim
            text.set(position=(0, 0), ha="center", va="center", size="medium")
        ax.margins(0.15)
        return figure
