"""Pictures of the residuals and the coefficients of a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.diagnostics import (
    LEVELS,
    density_figure,
    fit_figure,
    pit_figure,
    qq_figure,
    residual_figure,
    tau_loss_figure,
    worm_figure,
)
from qhreg.diagnostics.coefficients import partial_residual_figure
from qhreg.diagnostics.simulation import (
    SimulatedResiduals,
    expanded,
    simulated_residuals,
)
from qhreg.exceptions import DomainError
from qhreg.figures import QQFigure, WormFigure
from qhreg.results.profile import ProfileResults
from qhreg.specification.model_data import ModelData

__all__ = ["PlotResults"]


ENVELOPE_ROWS = 20_000
"""Rows up to which a quantile plot has a simulation envelope by default."""


class _Sampled(NamedTuple):
    """Standardised residuals for a quantile plot, their weights, and simulated ones."""

    u: FloatArray
    weights: FloatArray | None
    simulated: SimulatedResiduals | None


class PlotResults(ProfileResults):
    """The part of a fitted model that draws its residuals and coefficients."""

    resid: Any
    resid_standardized: Any
    fittedvalues: Any

    def plot_tau_loss(self, ax: Any = None, *, taus: Any = None) -> Any:
        """Draw the mean loss of the fitted residuals over tau and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        taus : array_like, optional
            Asymmetries.
        """
        from qhreg.plotting import plot_tau_loss

        return plot_tau_loss(
            tau_loss_figure(
                self._u,
                self.kappa,
                weights=self._row_weights,
                taus=taus,
                tau_bounds=self.model.tau_bounds,
            ),
            ax=ax,
        )

    @property
    def _u(self) -> FloatArray:
        return np.asarray(self.resid_standardized)

    @property
    def _row_weights(self) -> FloatArray | None:
        weights: FloatArray | None = self.model.observations.case_weights
        return weights

    def _law(self) -> tuple[float, float]:
        return self.tau, self.kappa

    def plot_density(self, ax: Any = None, *, bins: int | None = None) -> Any:
        """Draw the histogram of the residuals with the fitted density and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        bins : int, optional
            Number of bins.
        """
        from qhreg.plotting import plot_density

        made = density_figure(self._u, *self._law(), weights=self._row_weights, bins=bins)
        return plot_density(made, ax=ax)

    @property
    def _nobs_shown(self) -> float:
        """Observations that the residuals stand for: with sampling weights, Kish's effective number."""
        obs = self.model.observations
        if obs.weights is None:
            return float(obs.nobs)
        count = 1.0 if obs.freq_weights is None else obs.freq_weights
        share = obs.weights / obs.weights.max()
        return float((count * share).sum()) ** 2 / float((count * share**2).sum())

    def _sampled(self, n_simulations: int | None, rng: Any) -> _Sampled:
        """Return residuals one for each observation, with simulated ones where they are wanted."""
        obs = self.model.observations
        possible = obs.weights is None
        if n_simulations is None:
            n_simulations = 99 if possible and obs.nobs <= ENVELOPE_ROWS else 0
        if not n_simulations:
            return _Sampled(self._u, self._row_weights, None)
        data, solution = self._profile_data, self._fit_solution
        u = expanded(data).observations.residuals(solution.beta) / solution.sigma
        made = simulated_residuals(data, solution, n_simulations, rng=rng)
        return _Sampled(u, None, made)

    def _qq_figure(self, sample: _Sampled, level: float = 0.95) -> QQFigure:
        simulated = None if sample.simulated is None else sample.simulated.standardised
        return qq_figure(
            sample.u, *self._law(), weights=sample.weights, simulated=simulated, level=level
        )

    def _worm_figure(self, sample: _Sampled, level: float = 0.95) -> WormFigure:
        return worm_figure(
            sample.u,
            *self._law(),
            weights=sample.weights,
            nobs=self._nobs_shown,
            simulated=None if sample.simulated is None else sample.simulated.scores,
            level=level,
        )

    def plot_qq(
        self,
        ax: Any = None,
        *,
        n_simulations: int | None = None,
        level: float = 0.95,
        rng: Any = 0,
    ) -> Any:
        """Draw quantiles of the residuals against the fitted law and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the envelope; by default 99 up to 20,000 observations. Frequency
            weights are rows that repeat. With sampling weights there is no envelope, since they do
            not say how a response is distributed; nor with counts that are not whole.
        level : float
            Share of them inside the envelope at each point.
        rng : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_qq

        return plot_qq(self._qq_figure(self._sampled(n_simulations, rng), level), ax=ax)

    def plot_worm(
        self,
        ax: Any = None,
        *,
        n_simulations: int | None = None,
        level: float = 0.95,
        rng: Any = 0,
    ) -> Any:
        """Draw the detrended quantile plot of the quantile residuals and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the limits, as in `plot_qq`. Without any, the limits are those of a
            sample quantile, with sampling weights for the effective number of observations.
        level : float
            Coverage of the pointwise limits.
        rng : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_worm

        return plot_worm(self._worm_figure(self._sampled(n_simulations, rng), level), ax=ax)

    def plot_pit(self, ax: Any = None, *, bins: int | None = None, level: float = 0.95) -> Any:
        """Draw the histogram of the fitted distribution function and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        bins : int, optional
            Number of bins.
        level : float
            Coverage of the limits of one bin.
        """
        from qhreg.plotting import plot_pit

        made = pit_figure(
            self._u,
            *self._law(),
            weights=self._row_weights,
            nobs=self._nobs_shown,
            bins=bins,
            level=level,
        )
        return plot_pit(made, ax=ax)

    def plot_residuals(self, ax: Any = None, *, levels: Sequence[float] = LEVELS) -> Any:
        """Draw residuals against fitted values with quantiles and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        levels : sequence of float
            Levels of the quantiles.
        """
        from qhreg.plotting import plot_residuals

        made = residual_figure(
            self.fittedvalues,
            self.resid,
            *self._law(),
            self.sigma,
            levels=levels,
            weights=self._row_weights,
        )
        return plot_residuals(made, ax=ax)

    def plot_fit(
        self, param: str | int | None = None, ax: Any = None, *, levels: Sequence[float] = LEVELS
    ) -> Any:
        """Draw the fit along one regressor with quantile bands and return the Axes.

        Parameters
        ----------
        param : str or int, optional
            The regressor; by default the only one that is not constant. Others are at their means.
        ax : Axes, optional
            Where to draw.
        levels : sequence of float
            Levels of the quantiles.
        """
        from qhreg.plotting import plot_fit

        names = tuple(str(name) for name in self.model.exog_names[: self.space.k])
        exog = self.model.observations.exog
        if param is None:
            moving = np.flatnonzero(np.ptp(exog, axis=0) > 0.0)
            if moving.size != 1:
                raise DomainError(f"choose one of the regressors: {', '.join(names)}")
            column = int(moving[0])
        else:
            column = self._column(param, names)
        response = str(self.model.endog_names)
        if self.model.observations.offset is not None:
            response += " minus offset"
        made = fit_figure(
            exog,
            self.resid,
            self.solution.beta,
            column,
            *self._law(),
            self.sigma,
            levels=levels,
            names=(names[column], response),
        )
        return plot_fit(made, ax=ax)

    def _column(self, param: str | int, names: tuple[str, ...]) -> int:
        """Return the column of a regressor, or raise a DomainError that names those there are."""
        data = ModelData(self.model.observations, self.space, self.model.tau_bounds, names)
        column = data.column(param)
        if column is None:
            raise DomainError(f"{param!r} is no regressor: choose one of {', '.join(names)}")
        return column

    def plot_partial_residuals(self, param: str | int, ax: Any = None) -> Any:
        """Draw component plus residual of one regressor and return the Axes.

        Parameters
        ----------
        param : str or int
            The regressor, by name or column.
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_partial_residuals

        names = tuple(str(name) for name in self.model.exog_names[: self.space.k])
        obs = self.model.observations
        column = self._column(param, names)
        made = partial_residual_figure(
            obs.exog[:, column],
            self.resid,
            float(self.solution.beta[column]),
            name=names[column],
            weights=obs.case_weights,
        )
        return plot_partial_residuals(made, ax=ax)

    def plot_diagnostics(
        self, fig: Any = None, *, n_simulations: int | None = None, rng: Any = 0
    ) -> Any:
        """Draw all diagnostics and return the Figure.

        Parameters
        ----------
        fig : Figure, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the limits of the quantile and the worm plot, see `plot_qq`.
        rng : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_diagnostics

        u, law, weights = self._u, self._law(), self._row_weights
        sample = self._sampled(n_simulations, rng)
        return plot_diagnostics(
            density_figure(u, *law, weights=weights),
            self._qq_figure(sample),
            residual_figure(self.fittedvalues, self.resid, *law, self.sigma, weights=weights),
            pit_figure(u, *law, weights=weights, nobs=self._nobs_shown),
            self._worm_figure(sample),
            tau_loss_figure(u, self.kappa, weights=weights, tau_bounds=self.model.tau_bounds),
            fig=fig,
        )
