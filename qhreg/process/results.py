"""What fits at many values of tau say together: tables, curves, crossings, a picture."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import WLS

from qhreg._typing import FloatArray
from qhreg.covariance import covariance_parts
from qhreg.diagnostics.figures import ProcessFigure
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.family.domain import check_alpha
from qhreg.process.fits import (
    Crossings,
    equality_test,
    find_crossings,
    joint_covariance,
    sup_t,
)
from qhreg.results.summary import FitSummary2
from qhreg.specification.parameters import positions

Read = TypeVar("Read")


@dataclass(frozen=True, repr=False)
class ProcessResults:
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

    def __len__(self) -> int:
        return len(self.taus)

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

    def _of_each(self, read: Callable[[Any], Read]) -> list[Read]:
        """Return what is read of every fit; a caution about several is one that names their levels."""
        values, cautions = [], dict[tuple[str, type[Warning]], list[str]]()
        for tau, fit in zip(self.taus, self.results, strict=True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", CurvatureWarning)
                values.append(read(fit._results))
            for each in caught:
                cautions.setdefault((str(each.message), each.category), []).append(f"{tau:g}")
        for (text, category), levels in cautions.items():
            warn_caller(f"at tau = {', '.join(levels)}: {text}", category)
        return values

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
            read = lambda fit: fit._wald_limits(critical)  # noqa: E731
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

    # ------------------------------------------------------------------ the fits together

    def cov_between(self, columns: Sequence[str | int] | None = None) -> pd.DataFrame:
        """Return the joint covariance of parameters at all values of tau.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all by default.

        Returns
        -------
        DataFrame
            Rows and columns are (level, parameter). The blocks on the diagonal are the covariances
            of the single fits, the others come from the products of their scores.
        """
        chosen = list(range(len(self.names))) if columns is None else positions(columns, self.names)
        names = pd.Index([self.names[j] for j in chosen], name="parameter")
        labels = pd.MultiIndex.from_product([self.levels, names])
        return pd.DataFrame(self._joint(chosen), labels, labels)

    def _joint(self, chosen: Sequence[int]) -> FloatArray:
        """Return the joint covariance of some parameters, fit by fit."""
        self.model.require_data()
        fits = [fit._results for fit in self.results]
        parts = [covariance_parts(fit._fit_data, fit.solution) for fit in fits]
        return joint_covariance(self._first._choice, parts, chosen)

    def critical_values(
        self,
        alpha: float = 0.05,
        columns: Sequence[str | int] | None = None,
        *,
        rng: Any = 0,
        draws: int = 100_000,
    ) -> pd.Series[float]:
        """Return by how many standard errors simultaneous bands reach: one number for each parameter.

        Parameters
        ----------
        alpha : float
            One minus the probability that the band of a parameter holds it at every tau.
        columns : sequence of str or int, optional
            Names or places of the parameters; all by default.
        rng : int or Generator
            Source of randomness.
        draws : int
            Number of simulated processes.

        Notes
        -----
        The quantile of max over tau of the absolute t ratio, simulated with the correlations of
        `cov_between`: the sup-t band [1]_, t in place of normal where the fits use t.

        References
        ----------
        .. [1] J. L. Montiel Olea and M. Plagborg-Moller (2019), Simultaneous confidence bands: theory,
           implementation, and an application to SVARs, Journal of Applied Econometrics 34, 1-17.
        """
        check_alpha(alpha)
        chosen = list(range(len(self.names))) if columns is None else positions(columns, self.names)
        joint, s = self._joint(chosen), len(chosen)
        df = self._first.df_resid_inference if self._first.use_t else None
        values = {
            self.names[column]: sup_t(joint[j::s, j::s], alpha, df=df, rng=rng, draws=draws)
            for j, column in enumerate(chosen)
        }
        return pd.Series(values, dtype=np.float64)

    def _slopes(self) -> list[int]:
        """Return the places of all coefficients but the constant."""
        k, data = self._first.space.k, self.model.data
        if data.k_constant and data.const_idx is None:
            raise DomainError(
                "the constant is spread over several columns: name the columns whose slopes to test"
            )
        slopes = [j for j in range(k) if j != data.const_idx]
        if not slopes:
            raise DomainError("the model has no slopes: its only column is the constant")
        return slopes

    def test_equal_slopes(
        self, columns: Sequence[str | int] | None = None, *, joint: bool = True
    ) -> Any:
        """Return the Wald test that slopes are the same at every tau.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all coefficients but the constant by default.
        joint : bool
            Whether to test all of them together, or each on its own.

        Returns
        -------
        HypothesisTest or DataFrame
            One test, or one row of statistic, df and p-value for each parameter.

        Notes
        -----
        Equal slopes mean curves that are parallel: the regressors move the location of the noise
        and not its shape. The covariance is that of `cov_between`, the p-value that of the F
        distribution with `df_resid` degrees of freedom (clusters minus one), chi-square with
        ``use_t=False``: see :func:`qhreg.process.equality_test`.
        """
        chosen = self._slopes() if columns is None else positions(columns, self.names)
        estimates, cov = self.params.to_numpy()[:, chosen], self._joint(chosen)
        df = self._first.df_resid_inference if self._first.use_t else None
        null = "equal slopes at " + ", ".join(f"{level:g}" for level in self.levels)
        if joint:
            return equality_test(
                estimates, cov, df_cov=df, name=f"Wald test ({self.cov_type})", null=null
            )
        rows = {}
        size = len(chosen)
        for place, column in enumerate(chosen):
            own = np.arange(len(self)) * size + place
            test = equality_test(estimates[:, [place]], cov[np.ix_(own, own)], df_cov=df)
            rows[self.names[column]] = (test.statistic, test.df, test.pvalue)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "pvalue"])

    # ------------------------------------------------------------------ tables

    def summary(self, alpha: float = 0.05) -> FitSummary2:
        """Return the estimates of every tau in one table, with the check for crossings.

        Parameters
        ----------
        alpha : float
            One minus the coverage at each tau.
        """
        summary = FitSummary2()
        summary.add_title("Quantile Huber Regression Process")
        fit = self._first
        summary.add_dict(
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
        summary.add_df(table.rename(columns=names), index=False)
        summary.add_text(f"Crossing of the curves: {self.crossings()!r}.")
        if self.kappa > 0.0:
            summary.add_text("kappa > 0: a curve is not the 1 - tau quantile, see quantile_level.")
        return summary

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
        chosen = list(range(k)) if columns is None else positions(columns, self.names)
        value, name, tau = None, "", None
        if isinstance(reference, str):
            if reference != "ols":
                raise DomainError(f"reference must be 'ols', results or None, got {reference!r}")
            self.model.require_data()
            chosen = [j for j in chosen if j < k]
            obs = self.model.observations
            endog = obs.endog if obs.offset is None else obs.endog - obs.offset
            weights = 1.0 if obs.case_weights is None else obs.case_weights
            fit = WLS(endog, obs.exog, weights=weights).fit(cov_type="HC1")
            value = np.column_stack([fit.params, fit.conf_int(alpha)])[chosen]
            name = "least squares"
        elif reference is not None:
            places = positions([self.names[j] for j in chosen], reference.model.data.param_names)
            params, limits = np.asarray(reference.params), np.asarray(reference.conf_int(alpha))
            value, tau = np.column_stack([params, limits])[places], float(reference.tau)
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
