"""What fits at many values of tau say together: tables, curves, crossings, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.diagnostics.coefficients import least_squares
from qhreg.diagnostics.figures import ProcessFigure
from qhreg.exceptions import DomainError
from qhreg.inference.intervals import wald_intervals
from qhreg.inference.summary_tables import FitSummary2
from qhreg.process.fits import Crossings, find_crossings
from qhreg.process.inference import ProcessInference

__all__ = ["ProcessResults"]


@dataclass(frozen=True, repr=False)
class ProcessResults(ProcessInference):
    """The fits of one model at many values of tau.

    Attributes
    ----------
    taus : tuple of float
        The values, in the order given.
    results : tuple of QuantileHuberResultsWrapper
        The full fit at each of them.
    quantiles : tuple of float or None
        The levels 1 - tau where these were given: they label the tables, and the plot runs over them.
    """

    taus: tuple[float, ...]
    results: tuple[Any, ...]
    quantiles: tuple[float, ...] | None = None

    # ------------------------------------------------------------------ the fits

    def result(self, tau: float | None = None, *, quantile: float | None = None) -> Any:
        """Return the full fit at one level.

        Parameters
        ----------
        tau : float, optional
            One of `taus`.
        quantile : float, optional
            1 - tau in its place, at kappa = 0.
        """
        if (tau is None) == (quantile is None):
            raise DomainError("give either tau or quantile")
        if quantile is not None and self.kappa > 0.0:
            raise DomainError("the curves are quantiles only at kappa = 0: give tau")
        wanted = float(tau) if tau is not None else 1.0 - float(quantile or 0.0)
        near = np.flatnonzero(np.isclose(self.taus, wanted, rtol=0.0, atol=1e-12))
        if near.size == 0:
            raise DomainError(f"there is no fit at tau = {wanted:g}; there are {list(self.taus)}")
        return self.results[int(near[0])]

    @property
    def _first(self) -> Any:
        return self.results[0]._results

    @property
    def model(self) -> Any:
        """The model at the first value of tau."""
        return self._first.model

    @property
    def kappa(self) -> float:
        """Huber width, the same in all fits."""
        return float(self._first.kappa)

    @property
    def cov_type(self) -> str:
        """Type of the covariance."""
        return str(self._first.cov_type)

    @property
    def converged(self) -> bool:
        """Whether every fit is proved."""
        return all(fit.converged for fit in self.results)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters: coefficients, then sigma where it is estimated."""
        return tuple(str(name) for name in self.model.data.param_names)

    @property
    def levels(self) -> pd.Index:
        """The labels of the fits: values of tau, or the quantiles that were given."""
        if self.quantiles is None:
            return pd.Index(self.taus, name="tau")
        return pd.Index(self.quantiles, name="quantile")

    def _by_level(self, values: Any, columns: Any = None) -> pd.DataFrame:
        columns = self.names if columns is None else columns
        return pd.DataFrame(np.asarray(values), self.levels, columns)

    @property
    def params(self) -> pd.DataFrame:
        """Estimates, one row for each level."""
        return self._by_level([fit._results.params for fit in self.results])

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors, one row for each level."""
        return self._by_level(self._of_each(lambda fit: fit.bse))

    def conf_int(
        self, alpha: float = 0.05, *, simultaneous: bool = False, rng: Any = 0
    ) -> pd.DataFrame:
        """Return confidence limits: columns (parameter, "lower" or "upper").

        Parameters
        ----------
        alpha : float
            One minus the coverage, at each tau or of the whole band.
        simultaneous : bool
            Whether the band of each parameter holds it at every tau at once (`critical_values`), or
            each interval by itself.
        rng : int or Generator
            Source of randomness of simultaneous bands.
        """
        if simultaneous:
            critical = np.asarray(self.critical_values(alpha, rng=rng), dtype=np.float64)
            read = lambda fit: wald_intervals(fit.params, fit.bse, fit.space, critical)  # noqa: E731
        else:
            read = lambda fit: fit.conf_int(alpha)  # noqa: E731
        limits = np.array([part.ravel() for part in self._of_each(read)])
        return self._by_level(
            limits, pd.MultiIndex.from_product([self.names, ["lower", "upper"]], names=["", ""])
        )

    @property
    def quantile_levels(self) -> pd.Series[float]:
        """P(y < x'beta) in the fitted law of each tau: 1 - tau at kappa = 0 only."""
        levels = [fit._results.quantile_level for fit in self.results]
        return self._by_level(levels, ["quantile_level"])["quantile_level"]

    @property
    def share_below(self) -> pd.Series[float]:
        """Share of the observations below each curve."""
        shares = [fit._results.share_below for fit in self.results]
        return self._by_level(shares, ["share_below"])["share_below"]

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return one row for each tau and parameter: estimate, standard error, limits.

        Parameters
        ----------
        alpha : float
            One minus the coverage at each tau.
        """
        limits = self.conf_int(alpha).to_numpy().reshape(-1, 2)
        size = len(self.names)
        return pd.DataFrame(
            {
                "tau": np.repeat(self.taus, size),
                "quantile_level": np.repeat(self.quantile_levels.to_numpy(), size),
                "parameter": list(self.names) * len(self),
                "estimate": self.params.to_numpy().ravel(),
                "bse": self.bse.to_numpy().ravel(),
                "lower": limits[:, 0],
                "upper": limits[:, 1],
            }
        )

    # ------------------------------------------------------------------ curves

    def predict(
        self, exog: Any = None, transform: bool = True, *, offset: Any = None
    ) -> pd.DataFrame:
        """Return the fitted curves x'beta(tau), one column for each level.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows; those of the model by default.
        transform : bool
            Whether to put `exog` through the formula.
        offset : float or array_like, optional
            Offset of the new rows.
        """
        rows, labels = self._first._new_rows(exog, transform, offset, {})
        curves = [fit.model.law(fit._results.params, rows).location for fit in self.results]
        return pd.DataFrame(np.column_stack(curves), index=labels, columns=self.levels)

    def crossings(
        self, exog: Any = None, transform: bool = True, *, offset: Any = None
    ) -> Crossings:
        """Return where the fitted curves are in the wrong order.

        Parameters
        ----------
        exog, transform, offset
            As in `predict`.

        Notes
        -----
        At kappa = 0, or with sigma fixed, the curves of the population cannot cross. With kappa > 0
        and sigma estimated the zone has another width at each tau, and they may.
        """
        curves = self.predict(exog, transform, offset=offset)
        labels = (
            curves.index if exog is not None or self.model.data.row_labels is not None else None
        )
        order = np.argsort(self.taus)
        return find_crossings(curves.iloc[:, order], sorted(self.taus), labels)

    # ------------------------------------------------------------------ tables

    def summary(self, alpha: float = 0.05) -> FitSummary2:
        """Return the estimates of every tau in one table, with the check for crossings.

        Parameters
        ----------
        alpha : float
            One minus the coverage at each tau.
        """
        made = FitSummary2()
        made.add_title("Quantile Huber Regression Process")
        fit = self._first
        made.add_dict(
            {
                "Dep. Variable:": self.model.endog_names,
                "kappa:": f"{self.kappa:g}",
                "No. Observations:": f"{fit.nobs:.10g}",
                "Covariance Type:": self.cov_type,
                "Levels:": str(len(self)),
                "Converged:": "all" if self.converged else "NOT ALL",
            }
        )
        table = self.to_frame(alpha)
        table["tau"] = [f"{tau:g}" for tau in table["tau"]]
        names = {"lower": f"[{alpha / 2:g}", "upper": f"{1 - alpha / 2:g}]", "bse": "std err"}
        made.add_df(table.rename(columns=names), index=False)
        made.add_text(f"Crossing of the curves: {self.crossings()!r}.")
        if self.kappa > 0.0:
            made.add_text("kappa > 0: a curve is not the 1 - tau quantile, see quantile_level.")
        return made

    # ------------------------------------------------------------------ plots

    def figure(
        self,
        columns: Sequence[str | int] | None = None,
        *,
        alpha: float = 0.05,
        reference: Any = "ols",
        simultaneous: bool = False,
    ) -> ProcessFigure:
        """Return the numbers of the plot.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all coefficients by default.
        alpha : float
            One minus the coverage, at each tau or of the whole band.
        reference : {"ols"}, results, or None
            A fit to compare with: least squares, or results of the same model with tau
            estimated.
        simultaneous : bool
            Whether the band holds at every tau at once.
        """
        k = self._first.space.k
        chosen = list(range(k)) if columns is None else self._places(columns)
        value, name, tau = None, "", None
        if isinstance(reference, str):
            if reference != "ols":
                raise DomainError(f"reference must be 'ols', results or None, got {reference!r}")
            self.model.require_data()
            chosen = [j for j in chosen if j < k]
            value, name = least_squares(self.model.observations, chosen, alpha), "least squares"
        elif reference is not None:
            value, tau = _of_results(reference, [self.names[j] for j in chosen], alpha)
            name = rf"$\tau$ estimated: {tau:.3f}"
        every, order = self.conf_int(alpha, simultaneous=simultaneous), np.argsort(self.taus)
        limits = every.to_numpy().reshape(len(self), len(self.names), 2)[order][:, chosen]
        return ProcessFigure(
            tuple(self.names[j] for j in chosen),
            np.array(self.taus)[order],
            self.params.to_numpy()[order][:, chosen],
            limits[:, :, 0],
            limits[:, :, 1],
            1.0 - alpha,
            self.kappa,
            value,
            name,
            tau,
            self.quantiles is not None,
        )

    def plot(
        self,
        columns: Sequence[str | int] | None = None,
        axes: Any = None,
        *,
        alpha: float = 0.05,
        reference: Any = "ols",
        simultaneous: bool = False,
    ) -> Any:
        """Draw the coefficients over tau, or over the quantiles given, and return the Figure.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all coefficients by default.
        axes : sequence of Axes, optional
            Where to draw, one for each.
        alpha : float
            One minus the coverage, at each tau or of the whole band.
        reference : {"ols"}, results, or None
            A fit to compare with: least squares, or results of the same model with tau
            estimated.
        simultaneous : bool
            Whether the band holds at every tau at once.
        """
        from qhreg.plotting import plot_process

        figure = self.figure(columns, alpha=alpha, reference=reference, simultaneous=simultaneous)
        return plot_process(figure, axes)

    def __repr__(self) -> str:
        return f"<{len(self)} fits, tau from {min(self.taus):g} to {max(self.taus):g}>"


def _of_results(results: Any, names: Sequence[str], alpha: float) -> tuple[FloatArray, float]:
    """Return value, lower and upper limit of parameters of another fit, and its tau."""
    own = [str(name) for name in results.model.data.param_names]
    missing = [name for name in names if name not in own]
    if missing:
        raise DomainError(f"the reference has no parameter {missing[0]!r}: {', '.join(own)}")
    places = [own.index(name) for name in names]
    params, limits = np.asarray(results.params), np.asarray(results.conf_int(alpha))
    return np.column_stack([params[places], limits[places]]), float(results.tau)
