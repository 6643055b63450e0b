"""Whether the fitted law is that of the residuals: pictures and tests of any fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from qhreg._typing import FloatArray
from qhreg.diagnostics import (
    LEVELS,
    density_figure,
    pit_figure,
    qq_figure,
    residual_figure,
    tau_loss_figure,
    worm_figure,
)
from qhreg.diagnostics.coefficients import partial_residual_figure
from qhreg.diagnostics.figures import QQFigure, WormFigure
from qhreg.diagnostics.goodness import (
    GoodnessOfFit,
    SimulatedResiduals,
    expanded,
    goodness_of_fit,
    simulated_residuals,
)
from qhreg.exceptions import DomainError

__all__ = ["DiagnosticResults", "column_of"]


ENVELOPE_ROWS = 20_000
"""Rows up to which a quantile plot has a simulation envelope by default."""


class _Sampled(NamedTuple):
    """Standardised residuals for a quantile plot, their law and weights, and simulated ones."""

    u: FloatArray
    tau: float
    kappa: float
    weights: FloatArray | None
    simulated: SimulatedResiduals | None


class DiagnosticResults:
    """The part of a fitted model that looks at its residuals and coefficients.

    Where rows have asymmetries of their own, residuals are brought to one law: see
    :meth:`qhreg.distributional.data.DistributionalData.standardized`.
    """

    model: Any
    resid: Any
    fittedvalues: Any
    params: Any
    _fit_data: Any
    _fit_solution: Any
    _require_likelihood: Any

    @property
    def _standardized(self) -> tuple[FloatArray, float, float]:
        """Standardised residuals, and tau and kappa of the law that they have."""
        standardized: tuple[FloatArray, float, float] = self._fit_data.standardized(
            self._fit_solution
        )
        return standardized

    @property
    def _residual_figure(self) -> tuple[Any, ...]:
        """Fitted values, residuals, and tau, kappa and sigma of their law."""
        u, tau, kappa = self._standardized
        return self.fittedvalues, u, tau, kappa, 1.0

    @property
    def _row_weights(self) -> FloatArray | None:
        weights: FloatArray | None = self.model.observations.case_weights
        return weights

    def goodness_of_fit(
        self, n_boot: int = 199, *, rng: Any = 0, progress: bool = False
    ) -> GoodnessOfFit:
        """Return Kolmogorov-Smirnov and Anderson-Darling tests with bootstrap p-values.

        Parameters
        ----------
        n_boot : int
            Samples from the fitted model, each refitted.
        rng : int, Generator or None
            Source of randomness, as in ``numpy.random.default_rng``.
        progress : bool
            Whether to show a progress bar.
        """
        self._require_likelihood("a simulation")
        return goodness_of_fit(
            self._fit_data, self._fit_solution, n_boot=n_boot, rng=rng, progress=progress
        )

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

        u, _, kappa = self._standardized
        return plot_tau_loss(
            tau_loss_figure(
                u,
                kappa,
                weights=self._row_weights,
                taus=taus,
                tau_bounds=self.model.tau_bounds,
            ),
            ax=ax,
        )

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

        made = density_figure(*self._standardized, weights=self._row_weights, bins=bins)
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
            u, tau, kappa = self._standardized
            return _Sampled(u, tau, kappa, self._row_weights, None)
        self._require_likelihood("a simulation")
        data, solution = self._fit_data, self._fit_solution
        simulated = simulated_residuals(data, solution, n_simulations, rng=rng)
        u, tau, kappa = expanded(data).standardized(solution)
        return _Sampled(u, tau, kappa, None, simulated)

    def _qq_figure(self, sample: _Sampled, level: float = 0.95) -> QQFigure:
        simulated = None if sample.simulated is None else sample.simulated.standardised
        return qq_figure(*sample[:3], weights=sample.weights, simulated=simulated, level=level)

    def _worm_figure(self, sample: _Sampled, level: float = 0.95) -> WormFigure:
        return worm_figure(
            *sample[:3],
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
            *self._standardized,
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

        made = residual_figure(*self._residual_figure, levels=levels, weights=self._row_weights)
        return plot_residuals(made, ax=ax)

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

        obs, column = self.model.observations, column_of(self.model, param)
        made = partial_residual_figure(
            obs.exog[:, column],
            self.resid,
            float(self.params[column]),
            name=str(self.model.exog_names[column]),
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

        standardized, weights = self._standardized, self._row_weights
        u, _, kappa = standardized
        sample = self._sampled(n_simulations, rng)
        return plot_diagnostics(
            density_figure(*standardized, weights=weights),
            self._qq_figure(sample),
            residual_figure(*self._residual_figure, weights=weights),
            pit_figure(*standardized, weights=weights, nobs=self._nobs_shown),
            self._worm_figure(sample),
            tau_loss_figure(u, kappa, weights=weights, tau_bounds=self.model.tau_bounds),
            fig=fig,
        )


def column_of(model: Any, param: str | int) -> int:
    """Return the column of a regressor of the location, or raise a DomainError that names all.

    Parameters
    ----------
    model : RegressionModel
        The model.
    param : str or int
        The regressor, by name or column.
    """
    names = [str(name) for name in model.exog_names[: model.k_exog]]
    if isinstance(param, str) and param in names:
        return names.index(param)
    if isinstance(param, str) or not 0 <= int(param) < len(names):
        raise DomainError(f"{param!r} is no regressor: choose one of {', '.join(names)}")
    return int(param)
