"""The fitted model: estimates, inference and predictions."""

from __future__ import annotations

import copy
import math
import warnings
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.base.model import GenericLikelihoodModelResults, LikelihoodResultsWrapper
from statsmodels.base.wrapper import populate_wrapper

from qhreg.certificate import BiconvexityCertificate, biconvexity_certificate
from qhreg.constraints import Constraint
from qhreg.covariance import CovarianceEstimate, score_obs, smoothed_bread
from qhreg.covariance_choice import CovarianceChoice, choose_covariance, estimate_covariance
from qhreg.distribution import quantile_huber
from qhreg.exceptions import BoundaryWarning, DataError, DomainError
from qhreg.fitstatistics import (
    information_criterion,
    location_level,
    null_fit,
    null_loss,
    robust_weights,
    share_below,
    total_loss,
)
from qhreg.formulas import SPEC_NAME, design_matrix
from qhreg.globalopt import GlobalCertificate, certify_global
from qhreg.influence import QuantileHuberInfluence
from qhreg.intervals import wald_intervals
from qhreg.observations import Observations
from qhreg.parameters import Parameters, ParameterSpace
from qhreg.prediction import Prediction, predict, prediction_gradient
from qhreg.solver import Solution
from qhreg.summary import summary2_tables, summary_tables

__all__ = ["QuantileHuberResults", "QuantileHuberResultsWrapper"]

FloatArray = npt.NDArray[np.float64]

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModelResults
_WrapperBase: Any = LikelihoodResultsWrapper


class QuantileHuberResults(_Base):  # type: ignore[misc]
    """A fitted quantile Huber regression.

    Attributes
    ----------
    params : ndarray
        Estimates: coefficients, then those of sigma, tau and kappa that are estimated.
    sigma, tau, kappa : float
        Scale, asymmetry and width, fixed or estimated.
    solution : Solution
        What the solver returned.
    nobs : float
        Number of observations (sum of the frequency weights).
    df_model, df_resid : float
        Regressors without the constant; observations minus estimated parameters.
    mle_retvals : dict
        What the solver said: converged, iterations, passes, duality_gap and more.
    """

    def __init__(
        self,
        model: Any,
        solution: Solution,
        choice: CovarianceChoice,
        *,
        use_t: bool = False,
        settings: dict[str, Any] | None = None,
        details: dict[str, Any] | None = None,
        constraint: Constraint | None = None,
    ) -> None:
        self.model = model
        self.solution = solution
        self.space: ParameterSpace = model.space
        self.params = self.space.pack(
            Parameters(solution.beta, solution.sigma, solution.tau, solution.kappa)
        )
        self.sigma, self.tau, self.kappa = solution.sigma, solution.tau, solution.kappa
        self.nobs = model.observations.nobs
        self.n_rows = len(model.endog)
        self.k_constant = model.k_constant
        self.details = details or {}
        self.constraint = constraint
        self.rank = solution.rank
        self.df_model = float(solution.rank - model.k_constant)
        self.df_resid = self.nobs - self.n_params
        self.scale = 1.0
        self.use_t = use_t
        self.mle_settings = settings or {"optimizer": "newton"}
        self.mle_retvals = _retvals(solution)
        self._choice = choice
        self._cache: dict[str, Any] = {}
        self._data_attr: list[str] = []
        self._data_in_cache: list[str] = []

    # ------------------------------------------------------------------ the fit

    @property
    def parameters(self) -> Parameters:
        """beta, sigma, tau and kappa, fixed ones included."""
        return Parameters(self.solution.beta, self.sigma, self.tau, self.kappa)

    @property
    def n_params(self) -> int:
        """Number of estimated parameters; linearly dependent columns count once."""
        fixed = {} if self.constraint is None else self.constraint.fixed
        return self.solution.rank + len(self.space.extra_names) - len(fixed)

    @property
    def tau_estimated(self) -> bool:
        """Whether tau was free in this fit."""
        constrained = self.constraint is not None and "tau" in self.constraint.fixed
        return self.space.tau is None and not constrained

    @property
    def llf(self) -> float:
        """Log-likelihood."""
        return self.solution.loglike

    @property
    def converged(self) -> bool:
        """Whether the solver proved its result."""
        return self.solution.converged

    @property
    def duality_gap(self) -> float:
        """How far the log-likelihood at the fitted tau can be below its maximum."""
        return self.solution.gap

    @property
    def rows_in_zone(self) -> int:
        """Rows whose residual lies in the quadratic zone."""
        return self.solution.rows_in_zone

    @property
    def quantile_level(self) -> float:
        """P(y < x'beta) in the fitted distribution: 1 - tau only at kappa = 0."""
        return location_level(self.tau, self.kappa)

    @property
    def kappa_limit(self) -> str | None:
        """Which end of its range an estimated kappa reached: "laplace" (0), "gaussian" or None."""
        profiled = self.details.get("kappa_solution")
        return None if profiled is None else profiled.limit

    @cached_property
    def share_below(self) -> float:
        """Share of the observations below the fitted line, weights included."""
        return share_below(self._observations, self.solution.beta)

    @cached_property
    def certificate(self) -> BiconvexityCertificate:
        """Whether the objective is convex in tau whatever the residuals are."""
        return biconvexity_certificate(self.kappa)

    def certify_global(self, tol: float = 1e-6, **options: Any) -> GlobalCertificate:
        """Return bounds on the highest log-likelihood over (beta, sigma) and all tau.

        Parameters
        ----------
        tol : float
            Gap in log-likelihood at which the certificate holds.
        **options
            Passed to :func:`qhreg.globalopt.certify_global`.
        """
        if not self.tau_estimated:
            raise DomainError(
                "tau is fixed: the problem is convex, and duality_gap already bounds it globally"
            )
        obs = self._observations
        return certify_global(
            obs.exog,
            obs.endog,
            self.solution,
            sigma=self.model.sigma,
            tau_bounds=self.model.tau_bounds,
            weights=obs.case_weights,
            offset=obs.offset,
            tol=tol,
            **options,
        )

    @property
    def _observations(self) -> Observations:
        observations: Observations = self.model.observations
        return observations

    # ------------------------------------------------------------------ rows

    @property
    def fittedvalues(self) -> FloatArray:
        """Location of each row: x'beta plus offset."""
        return self._observations.location(self.solution.beta)

    @property
    def resid(self) -> FloatArray:
        """Response minus fitted values."""
        return self._observations.residuals(self.solution.beta)

    @property
    def resid_standardized(self) -> FloatArray:
        """Residuals divided by sigma: the u of the density."""
        return self.resid / self.sigma

    @property
    def resid_pearson(self) -> FloatArray:
        """Response minus its mean, divided by its standard deviation."""
        mean, variance = quantile_huber.stats(self.tau, self.kappa)
        return (self.resid_standardized - float(mean)) / math.sqrt(float(variance))

    @property
    def resid_pit(self) -> FloatArray:
        """Distribution function at the response: uniform when the model is true."""
        values: FloatArray = quantile_huber.cdf(self.resid_standardized, self.tau, self.kappa)
        return values

    @property
    def resid_quantile(self) -> FloatArray:
        """Normal scores of `resid_pit`: standard normal when the model is true.

        Each from the smaller tail, so that far residuals stay finite.
        """
        u = self.resid_standardized
        lower = stats.norm.ppf(quantile_huber.cdf(u, self.tau, self.kappa))
        upper = stats.norm.isf(quantile_huber.sf(u, self.tau, self.kappa))
        values: FloatArray = np.where(u < 0.0, lower, upper)
        return values

    @property
    def weights(self) -> FloatArray:
        """What each row weighs in an equivalent least-squares fit, as in RLM: 1 in the zone."""
        return robust_weights(self.resid_standardized, self.tau, self.kappa)

    # ------------------------------------------------------------------ covariance

    @property
    def cov_type(self) -> str:
        """Type of the covariance."""
        return self._choice.cov_type

    @property
    def cov_kwds(self) -> dict[str, Any]:
        """Options of the covariance with a description."""
        return {**self._choice.options, "description": self._covariance.description}

    @cached_property
    def _covariance(self) -> CovarianceEstimate:
        if self._choice.cov_type == "bootstrap":
            return self._bootstrap_covariance()
        return estimate_covariance(
            self._choice,
            self._observations,
            self.solution,
            self.space,
            self.constraint,
            known=self._known,
        )

    @property
    def _known(self) -> tuple[str, ...]:
        """Estimated parameters that have no sampling distribution: kappa at an end, tau with it."""
        at_end = {"laplace": ("kappa",), "gaussian": ("tau", "kappa")}
        names = () if self.kappa_limit is None else at_end[self.kappa_limit]
        return tuple(name for name in names if self.space.position(name) is not None)

    def _bootstrap_covariance(self) -> CovarianceEstimate:
        made = self.bootstrap(**self._choice.options)
        return CovarianceEstimate(
            made.cov_params(), "bootstrap", f"Covariance: {made}", self.space.free
        )

    @property
    def cov_params_default(self) -> FloatArray:
        """Covariance of the parameters."""
        return self._covariance.cov

    @property
    def normalized_cov_params(self) -> FloatArray:
        """Covariance of the parameters; the scale of statsmodels is 1 here."""
        return self._covariance.cov

    @property
    def df_resid_inference(self) -> float:
        """Degrees of freedom of the t distribution, if that is used."""
        df = self._covariance.df_inference
        return self.df_resid if df is None else float(df)

    @property
    def bse(self) -> FloatArray:
        """Standard errors; NaN for a parameter that is treated as known."""
        errors = np.sqrt(self._covariance.cov.diagonal())
        for name in self._covariance.held_fixed:
            errors[self.space.position(name)] = np.nan
        if self.constraint is not None:
            known = np.abs(self.constraint.transform).max(axis=1, initial=0.0) < 1e-12
            errors[: self.space.k][known] = np.nan
        return errors

    @property
    def held_fixed(self) -> dict[str, str]:
        """Estimated parameters that the covariance treats as known, and why."""
        by_user = {} if self.constraint is None else self.constraint.fixed
        reasons = {}
        for name in self._covariance.held_fixed:
            if name in by_user:
                reasons[name] = "constrained"
            elif name in self._known:
                reasons[name] = "limit"
            else:
                at_bound = name == "tau" and self.solution.tau_at_bound
                reasons[name] = "at bound" if at_bound else "no info"
        return reasons

    @property
    def null_values(self) -> FloatArray:
        """The values that `tvalues` test: 0 for coefficients, 1/2 for tau, none for the others."""
        values = np.zeros(self.params.size)
        for name in self.space.extra_names:
            values[self.space.position(name)] = 0.5 if name == "tau" else np.nan
        return values

    @property
    def tvalues(self) -> FloatArray:
        """Estimate minus tested value, in standard errors; NaN where there is nothing to test."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values: FloatArray = (self.params - self.null_values) / self.bse
        return values

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of `tvalues`."""
        values: FloatArray = 2.0 * self._reference_law.sf(np.abs(self.tvalues))
        return values

    @property
    def _reference_law(self) -> Any:
        return stats.t(self.df_resid_inference) if self.use_t else stats.norm

    def get_robustcov_results(
        self, cov_type: str = "HC1", use_t: bool | None = None, **cov_kwds: Any
    ) -> QuantileHuberResultsWrapper:
        """Return the same fit with another covariance; this one stays as it is.

        Parameters
        ----------
        cov_type : {"nonrobust", "HC0", "HC1", "cluster", "HAC", "bootstrap"}
            Type.
        use_t : bool, optional
            Whether to use the t distribution; unchanged by default.
        **cov_kwds
            Options of the type, such as ``groups``.
        """
        choice = covariance_request(self.model, cov_type, cov_kwds)
        made = copy.copy(self)
        for name in ("_covariance",):
            made.__dict__.pop(name, None)
        made._cache = {}
        made._choice = choice
        made.use_t = self.use_t if use_t is None else use_t
        return QuantileHuberResultsWrapper(made)

    def conf_int(self, alpha: float = 0.05, method: str = "wald", **options: Any) -> FloatArray:
        """Return confidence limits of the parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the coverage.
        method : {"wald", "profile", "bootstrap"}
            Standard errors, with tau on the logit and sigma on the log scale; inversion of the
            likelihood ratio test; resampling.
        **options
            Options of the profile or the bootstrap.
        """
        if not 0.0 < alpha < 1.0:
            raise DomainError(f"alpha must satisfy 0 < alpha < 1, got {alpha!r}")
        if method == "wald":
            critical = float(self._reference_law.ppf(1.0 - 0.5 * alpha))
            return wald_intervals(self.params, self.bse, self.space, critical)
        if method == "profile":
            return self._profile_intervals(alpha, **options)
        if method == "bootstrap":
            limits: FloatArray = self.bootstrap(**options).conf_int(alpha)
            return limits
        raise DomainError(f"method must be 'wald', 'profile' or 'bootstrap', got {method!r}")

    # ------------------------------------------------------------------ criteria

    @property
    def aic(self) -> float:
        """Akaike's criterion; sigma, tau and kappa count where they are estimated."""
        return self.info_criteria("aic")

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.info_criteria("bic")

    @property
    def hqic(self) -> float:
        """Criterion of Hannan and Quinn."""
        return self.info_criteria("hqic")

    @property
    def tic(self) -> float:
        """Takeuchi's criterion: Akaike's for a wrong model."""
        return self.info_criteria("tic")

    def info_criteria(self, crit: str = "aic") -> float:
        """Return an information criterion.

        Parameters
        ----------
        crit : {"aic", "aicc", "bic", "hqic", "tic"}
            Which. "tic" has twice the trace of meat times inverse bread, at the smoothed bread of
            the robust covariance, in place of twice the number of parameters.
        """
        if crit == "tic":
            return -2.0 * self.llf + 2.0 * self._effective_parameters
        return information_criterion(self.llf, self.n_params, self.nobs, crit)

    @cached_property
    def _effective_parameters(self) -> float:
        obs = self._observations
        scores = score_obs(
            obs.exog, obs.endog, self.solution, free=self.space.free, offset=obs.offset
        )
        if obs.weights is not None:
            scores *= obs.weights[:, None]
        if obs.freq_weights is not None:
            scores *= np.sqrt(obs.freq_weights)[:, None]
        bread = smoothed_bread(
            obs.exog,
            obs.endog,
            self.solution,
            free=self.space.free,
            weights=obs.case_weights,
            offset=obs.offset,
        )
        return float(np.trace(np.linalg.pinv(bread, hermitian=True) @ (scores.T @ scores)))

    @cached_property
    def llnull(self) -> float:
        """Log-likelihood with a constant as only regressor."""
        model = self.model
        with warnings.catch_warnings():
            # a constant may well end on a bound: that is no news about this fit
            warnings.simplefilter("ignore", BoundaryWarning)
            return null_fit(
                self._observations,
                kappa=model.kappa,
                tau=model.tau,
                sigma=model.sigma,
                tau_bounds=model.tau_bounds,
            ).loglike

    @property
    def llr(self) -> float:
        """Likelihood ratio statistic against the constant: 2 (llf - llnull)."""
        return 2.0 * (self.llf - self.llnull)

    @property
    def llr_pvalue(self) -> float:
        """Chi-square p-value of `llr`; NaN when the constant is not nested in the model."""
        if not self.k_constant or self.df_model <= 0:
            return math.nan
        return float(stats.chi2.sf(self.llr, self.df_model))

    def pseudo_rsquared(self, kind: str = "r1") -> float:
        """Return a pseudo R-squared.

        Parameters
        ----------
        kind : {"r1", "cs", "mcf"}
            "r1" (Koenker and Machado): one minus the loss over that of the best constant at the same
            sigma, tau and kappa. "cs" (Cox and Snell): one minus exp(-llr / nobs), R-squared itself
            for normal noise. "mcf" (McFadden): one minus llf / llnull, whose value depends on the
            units of the response, as that of any density does.
        """
        if kind == "r1":
            return self.prsquared
        if kind == "cs":
            return -math.expm1(-self.llr / self.nobs)
        if kind == "mcf":
            return 1.0 - self.llf / self.llnull
        raise DomainError(f"kind must be 'r1', 'cs' or 'mcf', got {kind!r}")

    @cached_property
    def prsquared(self) -> float:
        """R1 of Koenker and Machado, as in QuantReg: one minus the ratio of the losses."""
        loss = total_loss(self.llf, self.solution.n, self.parameters)
        return 1.0 - loss / null_loss(self._observations, self.parameters)

    # ------------------------------------------------------------------ tests

    def wald_test(
        self,
        r_matrix: Any,
        cov_p: Any = None,
        invcov: Any = None,
        use_f: Any = None,
        df_constraints: Any = None,
        scalar: bool = True,
    ) -> Any:
        """Return a Wald test of linear restrictions; see statsmodels.

        Parameters
        ----------
        r_matrix : array_like, str or tuple
            Restrictions, such as ``"tau = 0.5, x1 = x2"``.
        cov_p, invcov, use_f, df_constraints
            As in statsmodels.
        scalar : bool
            Whether the statistic is a number.
        """
        return super().wald_test(
            r_matrix,
            cov_p=cov_p,
            invcov=invcov,
            use_f=use_f,
            df_constraints=df_constraints,
            scalar=scalar,
        )

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Any = None,
        combine_terms: Any = None,
        scalar: bool = True,
    ) -> Any:
        """Return Wald tests of the terms of the formula; see statsmodels.

        Parameters
        ----------
        skip_single, extra_constraints, combine_terms
            As in statsmodels.
        scalar : bool
            Whether the statistics are numbers.
        """
        made = super().wald_test_terms(
            skip_single=skip_single,
            extra_constraints=extra_constraints,
            combine_terms=combine_terms,
            scalar=scalar,
        )
        made.table = made.table.rename(index={"1": "Intercept"})
        return made

    # ------------------------------------------------------------------ prediction

    def predict(self, exog: Any = None, transform: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Return predictions.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows: variables of the formula, or columns as in the model. The rows of the model by
            default.
        transform : bool
            Whether to put `exog` through the formula.
        *args, **kwargs
            ``which`` ("location", "mean", "median", "quantile", "prob", "var"), ``offset``, ``q`` and
            ``y_values``: see :func:`qhreg.prediction.predict`. The location is not a quantile of
            level 1 - tau when kappa > 0.

        Returns
        -------
        ndarray, Series or DataFrame
            With the labels of `exog`.
        """
        kwargs.update(zip(("which", "offset", "q", "y_values"), args, strict=False))
        rows, offset, labels = self._new_rows(exog, transform, kwargs.pop("offset", None))
        predicted = self.model.predict(self.params, rows, offset=offset, **kwargs)
        if labels is None:
            return predicted
        if predicted.ndim == 1:
            return pd.Series(predicted, index=labels)
        levels = kwargs.get("q") if kwargs.get("q") is not None else kwargs.get("y_values")
        return pd.DataFrame(predicted, index=labels, columns=list(np.asarray(levels)))

    def _new_rows(self, exog: Any, transform: bool, offset: Any) -> tuple[Any, Any, Any]:
        """Return regressors, offset and labels of new rows."""
        if exog is None:
            self.model.require_data()
            return None, offset, self.model.data.row_labels
        if offset is None and self.model._offset_name is not None:
            offset = _new_offset(exog, self.model._offset_name)
        spec = getattr(self.model.data, SPEC_NAME, None)
        if transform and spec is not None:
            made = design_matrix(spec, _variables(exog), self.model._namespace)
            # drop_cols may have removed single columns of a term, which the spec does not know
            exog = made[self.model.exog_names[: self.space.k]]
        labels = exog.index if isinstance(exog, (pd.DataFrame, pd.Series)) else None
        rows = np.asarray(exog, dtype=np.float64)
        if rows.ndim < 2:
            rows = rows.reshape(-1, 1) if self.space.k == 1 else rows.reshape(1, -1)
            labels = labels if labels is not None and len(labels) == len(rows) else None
        return rows, None if offset is None else np.asarray(offset, dtype=np.float64), labels

    def get_prediction(
        self,
        exog: Any = None,
        which: str = "mean",
        transform: bool = True,
        row_labels: Any = None,
        *,
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> Prediction:
        """Return predictions with standard errors and intervals.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows; those of the model by default.
        which : {"mean", "location", "median", "quantile", "prob", "var"}
            What to predict.
        transform : bool
            Whether to put `exog` through the formula.
        row_labels : sequence, optional
            Labels of the rows.
        offset : float or array_like, optional
            Offset of the new rows.
        q, y_values : float, optional
            Level of the quantile, threshold of the probability.

        Returns
        -------
        Prediction
            With ``summary_frame(alpha)``, ``conf_int(alpha)`` and ``obs_int(alpha)``.
        """
        rows, offset, labels = self._new_rows(exog, transform, offset)
        location = self.model.location(self.solution.beta, rows, offset)
        rows = self._observations.exog if rows is None else rows
        p = self.parameters
        predicted = predict(location, p, which, q=q, y_values=y_values)
        if predicted.ndim > 1:
            raise DomainError("get_prediction takes one level q or one threshold at a time")
        gradient = prediction_gradient(rows, location, p, self.space, which, q=q, y_values=y_values)
        variance = np.einsum("ij,ij->i", gradient @ self.cov_params(), gradient)
        return Prediction(
            which,
            predicted,
            np.sqrt(np.maximum(variance, 0.0)),
            location,
            p,
            labels if row_labels is None else row_labels,
            self.df_resid_inference if self.use_t else None,
        )

    def get_distribution(
        self, exog: Any = None, transform: bool = True, *, offset: Any = None
    ) -> Any:
        """Return the fitted distribution of each row as a frozen scipy distribution.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            New rows; those of the model by default.
        transform : bool
            Whether to put `exog` through the formula.
        offset : float or array_like, optional
            Offset of the new rows.
        """
        rows, offset, _ = self._new_rows(exog, transform, offset)
        location = self.model.location(self.solution.beta, rows, offset)
        return quantile_huber(self.tau, self.kappa, loc=location, scale=self.sigma)

    def get_influence(self) -> QuantileHuberInfluence:
        """Return measures of how much each row moves the fit."""
        return QuantileHuberInfluence(self)

    # ------------------------------------------------------------------ tables

    def summary(
        self,
        yname: str | None = None,
        xname: list[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> Any:
        """Return tables of the fit.

        Parameters
        ----------
        yname : str, optional
            Name of the response.
        xname : list of str, optional
            Names of the coefficients, or of all parameters.
        title : str, optional
            Title.
        alpha : float
            One minus the coverage of the intervals.
        """
        return summary_tables(self, yname=yname, xname=xname, title=title, alpha=alpha)

    def summary2(
        self,
        yname: str | None = None,
        xname: list[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
        float_format: str = "%.4f",
    ) -> Any:
        """Return the tables of the fit in the layout of summary2.

        Parameters
        ----------
        yname, xname, title, alpha
            As in `summary`.
        float_format : str
            Format of numbers.
        """
        return summary2_tables(
            self, yname=yname, xname=xname, title=title, alpha=alpha, float_format=float_format
        )

    def _repr_html_(self) -> str:
        html: str = self.summary().as_html()
        return html

    # ------------------------------------------------------------------ data

    def remove_data(self) -> None:
        """Remove all arrays of the length of the data, here and in the model.

        What the summary needs is computed before; new rows can be predicted afterwards.
        """
        if self.model.exog is not None:
            for name in ("_covariance", "share_below", "prsquared", "certificate"):
                getattr(self, name)
        kept = {k: v for k, v in self._choice.options.items() if np.ndim(v) == 0}
        self._choice = CovarianceChoice(self.cov_type, kept, self._choice.reason)
        for name in ("exog", "endog", "weights", "offset", "freq_weights"):
            if hasattr(self.model, name):
                setattr(self.model, name, None)
        data = self.model.data
        for name in ("exog", "endog", "orig_exog", "orig_endog", "frame"):
            if hasattr(data, name):
                setattr(data, name, None)
        data._cache.pop("row_labels", None)


def covariance_request(
    model: Any, cov_type: str | None, cov_kwds: dict[str, Any] | None
) -> CovarianceChoice:
    """Return the covariance for a fit of this model."""
    return choose_covariance(
        cov_type,
        cov_kwds,
        model.row_source,
        tau_fixed=model.tau is not None,
        weighted=model.weights is not None,
    )


def _retvals(solution: Solution) -> dict[str, Any]:
    """Return what the solver said, under the names statsmodels uses where it has one."""
    return {
        "converged": solution.converged,
        "warnflag": 0 if solution.converged else 1,
        "iterations": solution.iterations,
        "fcalls": solution.passes,
        "fopt": solution.value,
        "duality_gap": solution.gap,
        "tau_slope": solution.tau_slope,
        "tau_at_bound": solution.tau_at_bound,
        "searched": solution.searched,
        "rank": solution.rank,
        "rows_in_zone": solution.rows_in_zone,
        "message": solution.reason,
    }


def _variables(exog: Any) -> Any:
    """Return new variables as a frame; a Series is one row when its labels are names."""
    if isinstance(exog, dict):
        scalar = all(np.ndim(value) == 0 for value in exog.values())
        return pd.DataFrame(exog, index=[0]) if scalar else pd.DataFrame(exog)
    if isinstance(exog, pd.Series):
        by_name = all(isinstance(label, str) for label in exog.index)
        return exog.to_frame().T.infer_objects() if by_name else exog.to_frame()
    if not isinstance(exog, pd.DataFrame) and hasattr(exog, "to_pandas"):
        return exog.to_pandas()
    if not isinstance(exog, pd.DataFrame):
        raise DataError(
            "the model has a formula: pass new rows as a DataFrame or dict of its variables, or the "
            "columns of the design with transform=False"
        )
    return exog


def _new_offset(exog: Any, name: str) -> Any:
    """Return the offset of new rows from the column it had in the fit."""
    try:
        return np.asarray(exog[name], dtype=np.float64)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"the model was fitted with offset={name!r}, a column that the new data do not have: "
            "add it or pass offset= (0 for none)"
        ) from error


class QuantileHuberResultsWrapper(_WrapperBase):  # type: ignore[misc]
    """Results with the names of the parameters and the labels of the rows."""

    _attrs = {  # noqa: RUF012
        "params": "columns",
        "bse": "columns",
        "tvalues": "columns",
        "pvalues": "columns",
        "resid": "rows",
        "fittedvalues": "rows",
        "resid_standardized": "rows",
        "resid_pearson": "rows",
        "resid_pit": "rows",
        "resid_quantile": "rows",
        "weights": "rows",
        "normalized_cov_params": "cov",
        "cov_params_default": "cov",
    }
    _wrap_attrs = _attrs
    _wrap_methods = {"cov_params": "cov", "conf_int": "columns"}  # noqa: RUF012

    def _repr_html_(self) -> str:
        html: str = self._results._repr_html_()
        return html


populate_wrapper(QuantileHuberResultsWrapper, QuantileHuberResults)
