"""Profiles, goodness of fit and plots of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg.coefficient_figures import partial_residual_figure
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
from qhreg.exceptions import DomainError
from qhreg.figures import QQFigure, WormFigure
from qhreg.globalopt import GlobalCertificate
from qhreg.goodness import GoodnessOfFit, goodness_of_fit
from qhreg.profile import profile_intervals, profile_likelihood
from qhreg.profile_fits import ProfileData
from qhreg.profile_maxima import LocalMaxima, local_maxima
from qhreg.profile_result import ProfileLikelihood
from qhreg.profile_surface import ProfileSurface, profile_surface
from qhreg.simulation import SimulatedResiduals, expanded, simulated_residuals, whole_counts
from qhreg.solver import Solution

__all__ = ["ProfileResults"]

FloatArray = npt.NDArray[np.float64]

ENVELOPE_ROWS = 20_000
"""Rows up to which a quantile plot has a simulation envelope by default."""


class _Sampled(NamedTuple):
    """Standardised residuals for a quantile plot, their weights, and simulated ones."""

    u: FloatArray
    weights: FloatArray | None
    simulated: SimulatedResiduals | None


class ProfileResults:
    """The part of a fitted model that looks at its likelihood and its residuals."""

    model: Any
    solution: Any
    space: Any
    constraint: Any
    sigma: float
    tau: float
    kappa: float
    params: Any
    bse: Any
    resid: Any
    resid_standardized: Any
    fittedvalues: Any

    @property
    def _fit_data(self) -> ProfileData:
        """The regression that was fitted: under constraints, that of the reduced coefficients."""
        model, space = self.model, self.space
        names = tuple(str(name) for name in model.exog_names[: space.k])
        if self.constraint is None:
            return ProfileData(model.observations, space, model.tau_bounds, names)
        fixed = {**self.constraint.fixed, "k": self.constraint.transform.shape[1]}
        reduced = self.constraint.reduce(model.observations)
        return ProfileData(
            reduced, replace(space, **fixed), model.tau_bounds, names, self.constraint
        )

    @property
    def _fit_solution(self) -> Solution:
        """The solution of `_fit_data`."""
        solution: Solution = self.solution
        if self.constraint is None:
            return solution
        gamma = self.constraint.transform.T @ (solution.beta - self.constraint.shift)
        return replace(solution, beta=gamma)

    @property
    def _profile_data(self) -> ProfileData:
        return self._fit_data

    def _standard_error(self, param: str | int) -> float:
        column = self._profile_data.column(param)
        place = column if column is not None else self.space.position(str(param))
        return math.nan if place is None else float(np.asarray(self.bse)[place])

    # ------------------------------------------------------------------ likelihood

    def profile_likelihood(
        self,
        param: str | int = "tau",
        grid: Any = None,
        alpha: float = 0.05,
        *,
        cut: str | float = "corrected",
        certificate: GlobalCertificate | None = None,
        search: bool | None = None,
        progress: bool | None = None,
    ) -> ProfileLikelihood:
        """Return the profile likelihood of a parameter with its interval.

        Parameters
        ----------
        param : str or int
            "tau", "sigma", "kappa", or the name or column of a coefficient.
        grid : array_like, optional
            Values at which to fit; by default chosen to reach beyond the 99 % interval.
        alpha : float
            One minus the nominal coverage.
        cut : {"corrected", "chi2"} or float
            Critical value: with the small-sample factor, the chi-square quantile, or a number.
        certificate : GlobalCertificate, optional
            From `certify_global`, for the plot of tau.
        search, progress : bool, optional
            See :func:`qhreg.profile.profile_likelihood`.

        Returns
        -------
        ProfileLikelihood
            With ``to_frame()``, ``conf_int(alpha)``, ``interval`` and ``plot(ax)``.
        """
        return profile_likelihood(
            self._profile_data,
            self._fit_solution,
            param,
            grid=grid,
            alpha=alpha,
            cut=cut,
            se=self._standard_error(param),
            certificate=certificate,
            search=search,
            progress=progress,
        )

    def profile_intervals(
        self,
        alpha: float = 0.05,
        *,
        cut: str | float = "corrected",
        search: bool | None = None,
        progress: bool = False,
    ) -> FloatArray:
        """Return the profile-likelihood intervals of all parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the nominal coverage.
        cut, search, progress
            As in `profile_likelihood`.
        """
        data = self._profile_data
        bse = np.asarray(self.bse)
        k = self.space.k
        free = [k + i for i, name in enumerate(self.space.extra_names) if not data.is_fixed(name)]
        places = [*range(k), *free]
        # what a constraint fixes has one value
        limits = np.column_stack([np.asarray(self.params)] * 2).astype(np.float64)
        limits[places] = profile_intervals(
            data,
            self._fit_solution,
            alpha=alpha,
            cut=cut,
            bse=bse[places],
            search=search,
            progress=progress,
        )
        return limits

    def local_maxima(self) -> LocalMaxima:
        """Return the local maxima of the likelihood over tau, the highest first.

        In small samples a one-sided law, with tau on a bound, can have the highest likelihood; the
        best maximum inside the bounds is then ``local_maxima().interior``.

        Returns
        -------
        LocalMaxima
            With ``to_frame()``, ``points`` and ``interior``; at the fitted width, where kappa is
            estimated.

        Examples
        --------
        >>> import numpy as np
        >>> from qhreg import QuantileHuberMLE
        >>> tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
        >>> y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])  # two peaks
        >>> fit = QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()
        >>> fit.local_maxima().to_frame()[["tau", "llf", "at_bound"]].round(3).values.tolist()
        [[0.84, -104.409, False], [0.178, -106.203, False]]
        """
        return local_maxima(self._fit_data, self._fit_solution)

    def profile_surface(
        self,
        params: tuple[str, str] = ("tau", "kappa"),
        *,
        grids: tuple[Any, Any] | None = None,
        points: int = 25,
        progress: bool = False,
    ) -> ProfileSurface:
        """Return the profile likelihood of tau with kappa or sigma, on a grid.

        Parameters
        ----------
        params : (str, str)
            ("tau", "kappa") or ("tau", "sigma").
        grids : (array_like, array_like), optional
            Values of both.
        points : int
            Number of values of each by default.
        progress : bool
            Whether to show a progress bar.
        """
        return profile_surface(
            self._profile_data,
            self._fit_solution,
            params,
            grids=grids,
            points=points,
            progress=progress,
        )

    def goodness_of_fit(
        self, n_boot: int = 199, *, seed: Any = 0, progress: bool = False
    ) -> GoodnessOfFit:
        """Return Kolmogorov-Smirnov and Anderson-Darling tests with bootstrap p-values.

        Parameters
        ----------
        n_boot : int
            Samples from the fitted model, each refitted.
        seed : int, Generator or None
            Of the random numbers.
        progress : bool
            Whether to show a progress bar.
        """
        return goodness_of_fit(
            self._profile_data, self._fit_solution, n_boot=n_boot, seed=seed, progress=progress
        )

    # ------------------------------------------------------------------ plots

    def plot_profile(
        self,
        param: str | int = "tau",
        ax: Any = None,
        *,
        alpha: float = 0.05,
        certify: bool | None = None,
        whole: bool | None = None,
        **options: Any,
    ) -> Any:
        """Draw the likelihood ratio of a parameter and return the Axes.

        Parameters
        ----------
        param : str or int
            The parameter.
        ax : Axes, optional
            Where to draw.
        alpha : float
            One minus the nominal coverage of the shaded interval.
        certify : bool, optional
            Whether to show what the global certificate excludes; by default for an estimated tau
            at a given kappa.
        whole : bool, optional
            Whether to show the whole range of tau; by default where another local maximum is not
            rejected at the 99 % level.
        **options
            Of `profile_likelihood`.
        """
        space = self._profile_data.space
        possible = param == "tau" and space.tau is None and space.kappa is not None
        if possible and certify is not False and options.get("certificate") is None:
            options["certificate"] = self.certify_global()  # type: ignore[attr-defined]
        made = self.profile_likelihood(param, alpha=alpha, **options)
        return made.plot(ax=ax, whole=whole)

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
            tau_loss_figure(self._u, self.kappa, weights=self._row_weights, taus=taus), ax=ax
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
        weights: FloatArray | None = obs.case_weights
        if obs.weights is None or weights is None:
            return float(obs.nobs)
        return float(weights.sum() ** 2 / (weights @ weights))

    def _sampled(self, n_simulations: int | None, seed: Any) -> _Sampled:
        """Return residuals one for each observation, with simulated ones where they are wanted."""
        obs = self.model.observations
        possible = obs.weights is None and whole_counts(obs.freq_weights)
        if n_simulations is None:
            n_simulations = 99 if possible and obs.nobs <= ENVELOPE_ROWS else 0
        if not n_simulations:
            return _Sampled(self._u, self._row_weights, None)
        data, solution = self._profile_data, self._fit_solution
        u = expanded(data).observations.residuals(solution.beta) / solution.sigma
        made = simulated_residuals(data, solution, n_simulations, seed=seed)
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
        seed: Any = 0,
    ) -> Any:
        """Draw quantiles of the residuals against the fitted law and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the envelope; by default 99 up to 20,000 observations. Frequency
            weights are rows that repeat. With sampling weights there is no envelope, since they say
            nothing of how a response comes about; nor with counts that are not whole.
        level : float
            Share of them inside the envelope at each point.
        seed : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_qq

        return plot_qq(self._qq_figure(self._sampled(n_simulations, seed), level), ax=ax)

    def plot_worm(
        self,
        ax: Any = None,
        *,
        n_simulations: int | None = None,
        level: float = 0.95,
        seed: Any = 0,
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
        seed : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_worm

        return plot_worm(self._worm_figure(self._sampled(n_simulations, seed), level), ax=ax)

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
            self.fittedvalues, self.resid, *self._law(), self.sigma, levels=levels
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
            column = names.index(param) if param in names else int(param)
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

    def plot_partial_residuals(self, param: str | int, ax: Any = None) -> Any:
        """Draw component plus residual of one regressor and return the Axes.

        Parameters
        ----------
        param : str or int
            The regressor, by name or column.
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting_coefficients import plot_partial_residuals

        names = tuple(str(name) for name in self.model.exog_names[: self.space.k])
        obs = self.model.observations
        column = ProfileData(obs, self.space, self.model.tau_bounds, names).column(param)
        if column is None:
            raise DomainError(f"{param!r} is no regressor: choose one of {', '.join(names)}")
        made = partial_residual_figure(
            obs.exog[:, column],
            self.resid,
            float(self.solution.beta[column]),
            name=names[column],
        )
        return plot_partial_residuals(made, ax=ax)

    def plot_diagnostics(
        self, fig: Any = None, *, n_simulations: int | None = None, seed: Any = 0
    ) -> Any:
        """Draw all diagnostics and return the Figure.

        Parameters
        ----------
        fig : Figure, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the limits of the quantile and the worm plot, see `plot_qq`.
        seed : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_diagnostics

        u, law, weights = self._u, self._law(), self._row_weights
        sample = self._sampled(n_simulations, seed)
        return plot_diagnostics(
            density_figure(u, *law, weights=weights),
            self._qq_figure(sample),
            residual_figure(self.fittedvalues, self.resid, *law, self.sigma),
            pit_figure(u, *law, weights=weights, nobs=self._nobs_shown),
            self._worm_figure(sample),
            tau_loss_figure(u, self.kappa, weights=weights),
            fig=fig,
        )
