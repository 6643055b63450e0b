"""Profiles, goodness of fit and plots of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
from qhreg.figures import QQFigure
from qhreg.globalopt import GlobalCertificate
from qhreg.goodness import GoodnessOfFit, goodness_of_fit
from qhreg.profile import profile_intervals, profile_likelihood
from qhreg.profile_fits import ProfileData
from qhreg.profile_result import ProfileLikelihood
from qhreg.profile_surface import ProfileSurface, profile_surface
from qhreg.simulation import simulated_residuals

__all__ = ["ProfileResults"]

FloatArray = npt.NDArray[np.float64]

ENVELOPE_ROWS = 20_000
"""Rows up to which a quantile plot has a simulation envelope by default."""


class ProfileResults:
    """The part of a fitted model that looks at its likelihood and its residuals."""

    model: Any
    solution: Any
    space: Any
    constraint: Any
    sigma: float
    tau: float
    kappa: float
    bse: Any
    resid: Any
    resid_standardized: Any
    fittedvalues: Any

    @property
    def _profile_data(self) -> ProfileData:
        if self.constraint is not None:
            raise DomainError(
                "a constrained fit has no profile of its own: fix the parameters in the model instead"
            )
        model = self.model
        names = tuple(str(name) for name in model.exog_names[: self.space.k])
        return ProfileData(model.observations, self.space, model.tau_bounds, names)

    def _standard_error(self, param: str | int) -> float:
        data = self._profile_data
        column = data.column(param)
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
            self.solution,
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
        return profile_intervals(
            self._profile_data,
            self.solution,
            alpha=alpha,
            cut=cut,
            bse=np.asarray(self.bse),
            search=search,
            progress=progress,
        )

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
            self.solution,
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
            self._profile_data, self.solution, n_boot=n_boot, seed=seed, progress=progress
        )

    # ------------------------------------------------------------------ plots

    def plot_profile(
        self,
        param: str | int = "tau",
        ax: Any = None,
        *,
        alpha: float = 0.05,
        certify: bool | None = None,
        whole: bool = False,
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
        whole : bool
            Whether to show the whole range of tau.
        **options
            Of `profile_likelihood`.
        """
        possible = param == "tau" and self.space.tau is None and self.space.kappa is not None
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

    def _qq_figure(self, n_simulations: int | None, level: float, seed: Any) -> QQFigure:
        weighted = self._row_weights is not None
        if n_simulations is None:
            n_simulations = 0 if weighted or self._u.size > ENVELOPE_ROWS else 99
        if n_simulations and weighted:
            raise DomainError("there is no simulation envelope with weights: pass n_simulations=0")
        simulated = None
        if n_simulations:
            simulated = simulated_residuals(
                self._profile_data, self.solution, n_simulations, seed=seed
            )
        return qq_figure(
            self._u, *self._law(), weights=self._row_weights, simulated=simulated, level=level
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
            Refitted samples behind the envelope; by default 99, and none with weights or beyond
            20,000 rows.
        level : float
            Share of them inside the envelope at each point.
        seed : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_qq

        return plot_qq(self._qq_figure(n_simulations, level, seed), ax=ax)

    def plot_worm(self, ax: Any = None, *, level: float = 0.95) -> Any:
        """Draw the detrended quantile plot of the quantile residuals and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        level : float
            Coverage of the pointwise limits.
        """
        from qhreg.plotting import plot_worm

        made = worm_figure(self._u, *self._law(), weights=self._row_weights, level=level)
        return plot_worm(made, ax=ax)

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

        made = pit_figure(self._u, *self._law(), weights=self._row_weights, bins=bins, level=level)
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
        made = fit_figure(
            exog,
            self.resid,
            self.solution.beta,
            column,
            *self._law(),
            self.sigma,
            levels=levels,
            names=(names[column], str(self.model.endog_names)),
        )
        return plot_fit(made, ax=ax)

    def plot_diagnostics(
        self, fig: Any = None, *, n_simulations: int | None = None, seed: Any = 0
    ) -> Any:
        """Draw all diagnostics and return the Figure.

        Parameters
        ----------
        fig : Figure, optional
            Where to draw.
        n_simulations : int, optional
            Refitted samples behind the envelope of the quantile plot, see `plot_qq`.
        seed : int, Generator or None
            Of the random numbers.
        """
        from qhreg.plotting import plot_diagnostics

        u, law, weights = self._u, self._law(), self._row_weights
        return plot_diagnostics(
            density_figure(u, *law, weights=weights),
            self._qq_figure(n_simulations, 0.95, seed),
            residual_figure(self.fittedvalues, self.resid, *law, self.sigma),
            pit_figure(u, *law, weights=weights),
            worm_figure(u, *law, weights=weights),
            tau_loss_figure(u, self.kappa, weights=weights),
            fig=fig,
        )
