"""Pictures of any fit along its regressors, and whether its law is that of the residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.diagnostics.goodness import GoodnessOfFit, expanded, goodness_of_fit, simulate_fits
from qhreg.diagnostics.regressors import fit_figure, partial_residual_figure
from qhreg.diagnostics.residuals import (
    LEVELS,
    StandardizedResiduals,
    density_figure,
    pit_figure,
    qq_figure,
    residual_figure,
    scale_location_figure,
    tau_loss_figure,
    worm_figure,
)
from qhreg.exceptions import DomainError
from qhreg.specification.parameters import RowLaw
from qhreg.specification.typical import TypicalRows, term_of, typical_rows


class FitResults:
    """The part of a fitted model, penalised or not, that draws it along one regressor."""

    model: Any
    params: Any
    resid_standardized: Any
    _new_law: Any
    _new_rows: Any

    def _typical_law(self, typical: TypicalRows, values: FloatArray) -> RowLaw:
        """Return the law where the regressor has some values and the others typical ones."""
        rows = {"offset": 0.0 if "offset" in self.model._init_keys else None, **typical.at(values)}
        exog, transform, offset = (rows.pop(name) for name in ("exog", "transform", "offset"))
        law: RowLaw = self._new_law(exog, transform, offset, rows)[0]
        return law

    def plot_fit(
        self, param: str | int | None = None, ax: Any = None, *, levels: Sequence[float] = LEVELS
    ) -> Any:
        """Draw the fit along one regressor with bands of its distribution and return the Axes.

        Parameters
        ----------
        param : str or int, optional
            A variable of the formula, numeric or a factor, or a column of the design; by default the
            only one that varies. Other numeric variables are at their means, factors at their most
            frequent level; the title says so.
        ax : Axes, optional
            Where to draw.
        levels : sequence of float
            Levels of the quantiles between which the bands lie.
        """
        from qhreg.plotting import plot_fit

        typical = typical_rows(self.model, param)
        offset = " minus offset" if "offset" in self.model._init_keys else ""
        figure = fit_figure(
            typical,
            partial(self._typical_law, typical),
            self.resid_standardized,
            levels=levels,
            y_name=f"{self.model.endog_names}{offset}",
        )
        return plot_fit(figure, ax=ax)


class DiagnosticResults(FitResults):
    """The part of a fitted model that looks at its residuals and coefficients.

    Where rows have asymmetries of their own, residuals are brought to one law: see
    :meth:`qhreg.distributional.fit.DistributionalData.standardized`.
    """

    resid: Any
    fittedvalues: Any
    conf_int: Any
    sigma: Any
    _fit_data: Any
    _fit_solution: Any
    _require_likelihood: Any

    @property
    def _residual_scale(self) -> float:
        """Scale of the residuals that are drawn against fitted values, 1 where rows have their own."""
        return float(self.sigma) if np.ndim(self.sigma) == 0 else 1.0

    @property
    def _residuals(self) -> StandardizedResiduals:
        """Residuals with their law; with sampling weights they count as Kish's effective number."""
        obs = self.model.observations
        nobs = float(obs.nobs)
        if obs.weights is not None:
            count = 1.0 if obs.freq_weights is None else obs.freq_weights
            share = obs.weights / obs.weights.max()
            nobs = float((count * share).sum()) ** 2 / float((count * share**2).sum())
        u, tau, kappa = self._fit_data.standardized(self._fit_solution)
        return StandardizedResiduals(u, tau, kappa, obs.case_weights, nobs)

    def _sampled(self, n_simulations: int | None, rng: Any) -> StandardizedResiduals:
        """Return residuals one for each observation, with simulated ones where they are wanted."""
        obs = self.model.observations
        if n_simulations is None:
            n_simulations = 99 if obs.weights is None and obs.nobs <= 20_000 else 0
        if not n_simulations:
            return self._residuals
        self._require_likelihood("a simulation")
        data, solution = self._fit_data, self._fit_solution
        fits = simulate_fits(data, solution, n_simulations, rng=rng)
        simulated = [StandardizedResiduals(*sample.standardized(fit)) for sample, fit in fits]
        u, tau, kappa = expanded(data).standardized(solution)
        return StandardizedResiduals(u, tau, kappa, simulated=simulated)

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

        residuals, bounds = self._residuals, self.model.tau_bounds
        figure = tau_loss_figure(
            residuals.u, residuals.kappa, weights=residuals.weights, taus=taus, tau_bounds=bounds
        )
        return plot_tau_loss(figure, ax=ax)

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

        return plot_density(density_figure(self._residuals, bins), ax=ax)

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

        return plot_qq(qq_figure(self._sampled(n_simulations, rng), level), ax=ax)

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

        return plot_worm(worm_figure(self._sampled(n_simulations, rng), level), ax=ax)

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

        return plot_pit(pit_figure(self._residuals, bins, level), ax=ax)

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

        rows = self.fittedvalues, self._residuals, self._residual_scale
        return plot_residuals(residual_figure(*rows, levels=levels), ax=ax)

    def plot_scale_location(self, ax: Any = None, *, level: float = 0.95) -> Any:
        """Draw the size of the residuals against fitted values and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        level : float
            Coverage of the limits of the mean of a group of rows.
        """
        from qhreg.plotting import plot_scale_location

        figure = scale_location_figure(self.fittedvalues, self._residuals, level)
        return plot_scale_location(figure, ax=ax)

    def plot_partial_residuals(self, param: str | int, ax: Any = None) -> Any:
        """Draw component plus residual of a regressor or a term and return the Axes.

        Parameters
        ----------
        param : str or int
            A term of the formula, such as ``"bs(x, df=4)"`` or ``"C(g)"``, a variable of it, or a column
            of the design. A term of several columns, or of a factor, is drawn against its variable.
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_partial_residuals

        model, beta = self.model, np.asarray(self.params)
        term, columns, variable = term_of(model, param)
        exog = model.observations.exog
        name, line, levels = term, None, None
        x = component = exog[:, columns] @ beta[columns]
        typical = None if variable is None else typical_rows(model, variable)
        if typical is None or (len(columns) == 1 and typical.levels is None):
            x = exog[:, columns[0]]
        else:
            designs, _ = self._new_rows(typical.at(typical.grid)["exog"], True, 0.0, {})
            name, x, levels = typical.name, typical.observed, typical.levels
            line = typical.grid, designs.exog[:, columns] @ beta[columns]
        figure = partial_residual_figure(
            x,
            self.resid,
            component,
            line=line,
            name=name,
            term=term,
            categories=levels,
            weights=model.observations.case_weights,
        )
        return plot_partial_residuals(figure, ax=ax)

    def plot_coefficients(
        self,
        ax: Any = None,
        *,
        names: Sequence[str] | None = None,
        alpha: float = 0.05,
        beside: Mapping[str, Any] | None = None,
        label: str = "quantile Huber",
    ) -> Any:
        """Draw the coefficients with their intervals, beside those of other fits, and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        names : sequence of str, optional
            The parameters; by default all coefficients but the constant.
        alpha : float
            One minus the coverage of the intervals.
        beside : mapping of str to results, optional
            Other fits by name, of this package or of statsmodels, with the same names of parameters.
        label : str
            What to call this fit beside others.
        """
        from qhreg.plotting import plot_coefficients

        own = [str(name) for name in self.model.data.param_names]
        if names is None:
            constant = self.model.data.const_idx
            names = [own[j] for j in range(self.model.k_exog) if j != constant]
        fits = {label: self, **(beside or {})}
        tables = {fit: coefficient_table(results, names, alpha) for fit, results in fits.items()}
        return plot_coefficients(tables, level=1.0 - alpha, ax=ax)

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

        residuals, sample = self._residuals, self._sampled(n_simulations, rng)
        return plot_diagnostics(
            density_figure(residuals),
            qq_figure(sample),
            residual_figure(self.fittedvalues, residuals, self._residual_scale),
            pit_figure(residuals),
            worm_figure(sample),
            scale_location_figure(self.fittedvalues, residuals),
            fig=fig,
        )


def coefficient_table(results: Any, names: Sequence[str], alpha: float) -> pd.DataFrame:
    """Return estimate, lower and upper limit of the parameters of a fit that have some names.

    Parameters
    ----------
    results : results
        Of this package or of statsmodels.
    names : sequence of str
        The parameters; those that the fit does not have are left out.
    alpha : float
        One minus the coverage of the limits.
    """
    own = getattr(results.model.data, "param_names", results.model.exog_names)
    values = np.column_stack([results.params, results.conf_int(alpha)])
    table = pd.DataFrame(values, index=[str(name) for name in own])
    kept = [name for name in names if name in table.index]
    if not kept:
        known = ", ".join(table.index)
        raise DomainError(f"no parameter is called {', '.join(names)}: choose from {known}")
    return table.loc[kept]
