"""What every fit shares: estimates with their uncertainty, criteria, bootstrap, tables, labels."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property, wraps
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special
from statsmodels.base.data import PandasData
from statsmodels.base.model import GenericLikelihoodModelResults, LikelihoodResultsWrapper
from statsmodels.tools import eval_measures

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceChoice, CovarianceEstimate, Parts
from qhreg.covariance.estimate import independent_meat
from qhreg.exceptions import CurvatureWarning, DataError, DomainError, NotOffered, without
from qhreg.family.domain import check_alpha
from qhreg.inference.bootstrap import BootstrapResult, bootstrap
from qhreg.inference.influence import QuantileHuberInfluence
from qhreg.results.fitted import RowResults, of_solution
from qhreg.results.plots import DiagnosticResults
from qhreg.results.profiles import ProfileResults
from qhreg.results.summary import Tables, summary2_tables, summary_tables
from qhreg.results.wald import WaldResults
from qhreg.specification.inputs import group_codes
from qhreg.specification.parameters import positions

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModelResults
_WrapperBase: Any = LikelihoodResultsWrapper

CRITERIA = ("aic", "aicc", "bic", "hqic", "tic", "gbic", "gbicp")
"""The information criteria; the last three are for models that may be wrong."""

SMALLEST_VARIANCE = 1e-290
"""Variance below which floating point numbers lose digits."""

MODEL_ROWS = ("exog", "endog", "weights", "offset", "freq_weights")
"""Attributes of a model that have the length of the data, besides further regressors."""

RETVALS = {"value": "fopt", "passes": "fcalls", "gap": "duality_gap", "reason": "message"}
"""Fields of a solution that `mle_retvals` has under other names."""

DATA_ROWS = ("exog", "endog", "orig_exog", "orig_endog", "frame")
"""Those of the holder in which statsmodels keeps the data."""


def _criterion(crit: str, doc: str) -> Any:
    """Return the property that is an information criterion."""
    return property(lambda results: results.info_criteria(crit), doc=doc)


class RegressionResults(
    WaldResults,
    ProfileResults,
    DiagnosticResults,
    RowResults,
    _Base,  # type: ignore[misc]
):
    """A fitted model of the quantile Huber family.

    Notes
    -----
    A subclass has the attributes below, of which nothing is here.
    """

    n_params: Any
    held_fixed: Any
    _fit_data: Any
    """The regression that was fitted, as numbers."""
    _estimate_covariance: Callable[[], CovarianceEstimate]
    """What returns the chosen covariance, which is not the bootstrap's."""
    _summary: Callable[[], Tables]
    """What returns the contents of the tables."""

    _wrapper: ClassVar[Any]
    """The class that gives these results their labels."""
    _parts_of: ClassVar[Callable[..., Parts]]
    """What returns scores, bread and leverage, given data, solution and what is held."""
    _made_from_data: ClassVar[tuple[str, ...]]
    """What the tables and tests read and the data are needed for."""

    # the observed Hessian of the first two counts the rows in the zone only
    covjhj = NotOffered('use get_robustcov_results("HC0")')
    bsejhj = NotOffered('use get_robustcov_results("HC0")')
    covjac = NotOffered("use cov_params, from the expected information")
    bsejac = NotOffered("use bse, from the expected information")
    mse_resid = NotOffered("sigma is the scale; plot_fit and plot_partial_residuals draw the fit")
    get_nlfun = NotOffered("use get_prediction, or wald_test for linear functions")

    def __dir__(self) -> list[str]:
        return without(super().__dir__(), type(self))

    def __init__(
        self,
        model: Any,
        solution: Any,
        params: FloatArray,
        choice: CovarianceChoice,
        *,
        rank: int,
        k_constant: int,
        use_t: bool | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        observations = model.observations
        self.model = model
        self.solution = solution
        self.params = params
        self.nobs = observations.nobs
        self.n_rows = model.n_rows
        self.rows_counted = observations.rows_counted
        self.rank, self.k_constant = rank, k_constant
        self.df_model = float(rank - k_constant)
        self.df_resid = self.nobs - rank
        self.scale = 1.0
        self.use_t = use_t is not False
        self.mle_settings = settings or {"optimizer": "newton"}
        self._choice = choice
        self._cache: dict[str, Any] = {}
        self._data_attr: list[str] = []
        self._data_in_cache: list[str] = []

    @property
    def _fit_solution(self) -> Any:
        """The solution of `_fit_data`."""
        return self.solution

    def _parts(self) -> Parts:
        """Return scores, bread and leverage of the rows."""
        return self._parts_of(self._fit_data, self._fit_solution, self._known)

    converged = of_solution("converged", "Whether the solver proved its result.")

    def _require_likelihood(self, what: str) -> None:
        """Raise a DomainError where sampling weights replace the likelihood of the sample."""
        if self.model.has_weights:
            raise DomainError(
                f"{what} needs the likelihood of the sample, which sampling weights replace: use "
                "t_test or wald_test, whose covariance is robust"
            )

    def _check_restricted(self, restricted: Any) -> int:
        """Return by how many parameters a fit to the same data is smaller, or raise a DataError."""
        self._require_likelihood("a likelihood ratio test")
        if not hasattr(restricted, "n_params"):
            raise DataError(
                f"restricted must be a fit of this model, got {type(restricted).__name__}"
            )
        restricted._require_likelihood("a likelihood ratio test")
        if restricted.nobs != self.nobs or restricted.n_rows != self.n_rows:
            raise DataError(
                f"the restricted fit has {restricted.nobs:.10g} observations, this one "
                f"{self.nobs:.10g}: both must be fits to the same data"
            )
        df: int = self.n_params - restricted.n_params
        if df < 1:
            raise DataError(
                f"the restricted fit has {restricted.n_params} parameters, this one {self.n_params}: "
                "it is not nested in this one"
            )
        return df

    def compare_lr_test(self, restricted: Any) -> tuple[float, float, int]:
        """Return statistic, p-value and degrees of freedom of `lr_test`, as OLS results do.

        Parameters
        ----------
        restricted : results
            A fit to the same data whose model is nested in this one.
        """
        test = self.lr_test(restricted)
        return test.statistic, test.pvalue, test.df

    # ------------------------------------------------------------------ criteria

    aic = _criterion("aic", "Akaike's criterion; every estimated parameter counts.")
    bic = _criterion("bic", "Schwarz's criterion.")
    hqic = _criterion("hqic", "Criterion of Hannan and Quinn.")
    tic = _criterion("tic", "Takeuchi's criterion: Akaike's for a wrong model.")
    gbic = _criterion("gbic", "Schwarz's criterion for a wrong model.")

    def info_criteria(self, crit: str = "aic") -> float:
        r"""Return an information criterion.

        Parameters
        ----------
        crit : {"aic", "aicc", "bic", "hqic", "tic", "gbic", "gbicp"}
            Which. The last three allow for a wrong model.

        Notes
        -----
        With sampling weights the log-likelihood has the unit of the weights: compare models with the
        same weights only.

        With H the inverse smoothed bread times the meat of the robust covariance, which is near the
        identity when the model holds, "tic" is :math:`-2\ell + 2\operatorname{tr} H`, "gbic"
        :math:`-2\ell + k\log n - \log\det H` and "gbicp" that plus :math:`\operatorname{tr} H` [1]_.

        References
        ----------
        .. [1] J. Lv and J. S. Liu (2014), Model selection principles in misspecified models, Journal
           of the Royal Statistical Society B 76, 141-167, equations (20) and (23).
        """
        if crit not in CRITERIA:
            raise DomainError(f"crit must be one of {', '.join(CRITERIA)}; got {crit!r}")
        if crit not in ("tic", "gbic", "gbicp"):
            return float(
                getattr(eval_measures, crit)(self.solution.loglike, self.nobs, self.n_params)
            )
        trace, log_det = self._information_ratio
        if crit == "tic":
            return float(-2.0 * self.solution.loglike + 2.0 * trace)
        return self.info_criteria("bic") - log_det + (trace if crit == "gbicp" else 0.0)

    @cached_property
    def _information_ratio(self) -> tuple[float, float]:
        """Trace and logarithm of the determinant of inverse bread times meat."""
        parts = self._parts()
        ratio = parts.inner @ independent_meat("HC0", parts)[0]
        return float(np.trace(ratio)), float(np.linalg.slogdet(ratio)[1])

    # ------------------------------------------------------------------ uncertainty

    @cached_property
    def _covariance(self) -> CovarianceEstimate:
        if self.cov_type == "bootstrap":
            return self._bootstrap_covariance()
        try:
            with np.errstate(all="ignore"):
                estimate = self._estimate_covariance()
        except OverflowError as error:  # of the square of sigma
            raise self._beyond_range(int(np.argmax(np.abs(self.params)))) from error
        variances = np.where(estimate.identified, estimate.cov.diagonal(), 1.0)
        lost = ~(variances < math.inf) | ((variances > 0.0) & (variances < SMALLEST_VARIANCE))
        lost |= (variances == 0.0) & (float(np.min(self.sigma)) < math.sqrt(SMALLEST_VARIANCE))
        if lost.any():
            raise self._beyond_range(int(np.flatnonzero(lost)[0]))
        return estimate

    def _beyond_range(self, j: int) -> DataError:
        """Return the error that names a parameter whose variance is no floating point number."""
        return DataError(
            f"the variance of {self.model.data.param_names[j]} is beyond the range of floating point "
            f"numbers (its estimate is {self.params[j]:.3g}): give endog or the column in another unit"
        )

    @property
    def cov_type(self) -> str:
        """Type of the covariance."""
        return self._choice.cov_type

    @property
    def cov_kwds(self) -> dict[str, Any]:
        """Options of the covariance with a description."""
        return {**self._choice.options, "description": self._covariance.description}

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
        """Degrees of freedom of the t distribution: `df_resid`, clusters minus one with clusters."""
        df = self._covariance.df
        return self.df_resid if df is None else float(df)

    def cov_params(
        self,
        r_matrix: Any = None,
        column: Any = None,
        scale: Any = None,
        cov_p: Any = None,
        other: Any = None,
    ) -> Any:
        """Return the covariance of the parameters or of combinations of them; see statsmodels.

        Parameters
        ----------
        r_matrix, column, scale, cov_p, other
            As in statsmodels. A combination is NaN where it involves a parameter without a variance.
        """
        known = self._covariance.identified
        if column is not None:
            places = positions(column, self.model.data.param_names)
            column = places if np.ndim(column) else places[0]
        if r_matrix is None or cov_p is not None or known.all():
            return super().cov_params(r_matrix, column, scale, cov_p, other)
        covariance = np.where(np.outer(known, known), self._covariance.cov, 0.0)
        combined = super().cov_params(r_matrix, None, scale, covariance, other)
        lost = np.atleast_2d(r_matrix)[:, ~known].any(axis=1)
        if other is None and np.ndim(combined) == 2:
            combined[lost] = combined[:, lost] = np.nan
        elif lost.any():
            combined = np.full_like(combined, np.nan)
        return combined

    def _variances(self, gradient: FloatArray) -> FloatArray:
        """Return the variances of functions of the parameters, given their derivatives."""
        known = self._covariance.identified
        covariance = np.where(np.outer(known, known), self._covariance.cov, 0.0)
        variance = np.einsum("ij,ij->i", gradient @ covariance, gradient)
        variance[gradient[:, ~known].any(axis=1)] = np.nan
        return np.asarray(variance)

    @cached_property
    def bse(self) -> FloatArray:
        """Standard errors; NaN for a parameter that is treated as known."""
        errors = np.sqrt(self._covariance.cov.diagonal())
        names = list(self.model.data.param_names)
        errors[[names.index(name) for name in self._covariance.held_fixed]] = np.nan
        return errors

    @cached_property
    def tvalues(self) -> FloatArray:
        """Estimates in standard errors; NaN for a parameter that is treated as known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.params / self.bse)

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of `tvalues`: t with `df_resid_inference`, normal with use_t=False."""
        distance = -np.abs(self.tvalues)
        if self.use_t:
            return np.asarray(2.0 * special.stdtr(self.df_resid_inference, distance))
        return np.asarray(2.0 * special.ndtr(distance))

    def _wald_limits(self, critical: float) -> FloatArray:
        """Return estimates plus and minus a multiple of their standard errors."""
        return np.asarray(
            self.params[:, None] + np.multiply.outer(critical * self.bse, [-1.0, 1.0])
        )

    def conf_int(
        self, alpha: float = 0.05, method: str = "wald", cols: Any = None, **options: Any
    ) -> FloatArray:
        """Return confidence limits of the parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the coverage.
        method : {"wald", "profile", "bootstrap"}
            Standard errors, with a single tau on the logit and sigma on the log scale; inversion of the
            likelihood ratio test; resampling.
        cols : sequence of int or str, optional
            Which parameters, by place or name; all by default.
        **options
            Options of the profile or of the bootstrap (see `bootstrap`), and ``interval``, "percentile",
            "basic" or "bca", for the latter. Fits with a bootstrap covariance use its replicates when
            no option of the bootstrap is given.

        Notes
        -----
        Wald limits are estimates plus and minus standard errors times the quantile of t with
        `df_resid_inference` degrees of freedom (normal with ``use_t=False``). Profile intervals assume
        the density, whatever the `cov_type`.
        """
        check_alpha(alpha)
        places = None if cols is None else positions(cols, self.model.data.param_names)
        if method == "wald":
            if options:
                raise TypeError(f"Wald intervals have no option {next(iter(options))!r}")
            upper = 1.0 - 0.5 * alpha
            df = self.df_resid_inference
            quantile = special.stdtrit(df, upper) if self.use_t else special.ndtri(upper)
            limits = self._wald_limits(float(quantile))
        elif method == "profile":
            limits = self.profile_intervals(alpha, places=places, **options)
        elif method == "bootstrap":
            interval = options.pop("interval", "percentile")
            stored = self.cov_type == "bootstrap" and not options
            replicates = self._replicates if stored else self.bootstrap(**options)
            limits = replicates.conf_int(alpha, interval)
        else:
            raise DomainError(f"method must be 'wald', 'profile' or 'bootstrap', got {method!r}")
        return limits if places is None else limits[places]

    def get_robustcov_results(
        self, cov_type: str = "HC3", use_t: bool | None = None, **cov_kwds: Any
    ) -> Any:
        """Return the same fit with another covariance; this one stays as it is.

        Parameters
        ----------
        cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster", "HAC", "bootstrap"}
            Type.
        use_t : bool, optional
            As in `fit`; unchanged by default.
        **cov_kwds
            Options of the type, such as ``groups``; or ``cov_kwds``, a dict of them, as in `fit`.
        """
        if set(cov_kwds) == {"cov_kwds"}:
            cov_kwds = cov_kwds["cov_kwds"]
        choice = self.model.covariance_request(cov_type, cov_kwds)
        if choice.cov_type == "bootstrap":
            self._require_unconstrained("the bootstrap")
        other = copy.copy(self)
        for name in ("_covariance", "_replicates", "bse", "tvalues"):
            other.__dict__.pop(name, None)
        other._cache = {}
        other._choice = choice
        if use_t is not None:
            other.use_t = use_t
        return self._wrapper(other)

    def get_influence(self) -> QuantileHuberInfluence:
        """Return measures of how much each row moves the fit."""
        self._require_unconstrained("get_influence")
        return QuantileHuberInfluence(self)

    # ------------------------------------------------------------------ bootstrap

    def _require_unconstrained(self, what: str) -> None:
        if self.constraint is not None:
            raise DomainError(f"{what} is for fits without constraints")

    def _bootstrap_covariance(self) -> CovarianceEstimate:
        replicates = self._replicates
        text = f"Covariance: {replicates.kind} bootstrap with {len(replicates.params)} replicates"
        text += f", {replicates.n_failed} more failed." if replicates.n_failed else "."
        names, cov = self.model.data.param_names, replicates.cov
        # such as a tau on its bound
        still = np.isclose(replicates.params, self.params, rtol=1e-12, atol=0.0).all(axis=0)
        cov[still] = cov[:, still] = 0.0
        held = tuple(str(names[j]) for j in np.flatnonzero(still))
        return CovarianceEstimate(cov, text, held, np.ones(len(cov), dtype=bool))

    @cached_property
    def _replicates(self) -> BootstrapResult:
        """The replicates behind a bootstrap covariance."""
        return self.bootstrap(**self._choice.options)

    def bootstrap(
        self,
        kind: str | None = None,
        n_boot: int = 999,
        rng: Any = None,
        groups: Any = None,
        **options: Any,
    ) -> BootstrapResult:
        """Return bootstrap replicates of the estimates.

        Parameters
        ----------
        kind : {"pairs", "cluster", "parametric", "wild", "multiplier"}, optional
            What is resampled: rows, whole groups, noise from the fitted law, the residuals, or weights
            of the scores, without refits. By default rows, or groups when there are groups.
        n_boot : int
            Number of replicates.
        rng : int, Generator or SeedSequence, optional
            Source of randomness, as in ``numpy.random.default_rng``.
        groups : array_like, Series or str, optional
            Groups, as for the cluster covariance.
        **options
            ``n_jobs`` and ``progress``: see :func:`qhreg.inference.bootstrap.bootstrap`.

        Returns
        -------
        BootstrapResult
            With ``params``, ``cov``, ``bse``, ``conf_int(alpha, method)`` and
            ``summary_frame(alpha)``, which is printed.
        """
        self._require_unconstrained("the bootstrap")
        if groups is not None:
            groups = group_codes(self.model.row_source.take("groups", groups))
        replicates = bootstrap(
            self._fit_data,
            self.solution,
            kind=kind or ("pairs" if groups is None else "cluster"),
            n_boot=n_boot,
            rng=rng,
            groups=groups,
            held=self._known,
            parts_of=self._parts_of,
            **options,
        )
        return replace(replicates, names=tuple(str(name) for name in self.model.data.param_names))

    @property
    def _known(self) -> tuple[str, ...]:
        """Estimated parameters that have no sampling distribution."""
        return ()

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
            Names of all parameters; where sigma and tau have no regressors, those of the coefficients
            are enough.
        title : str, optional
            Title.
        alpha : float
            One minus the coverage of the intervals.
        """
        return summary_tables(self, self._summary(), yname, xname, title, alpha)

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
        return summary2_tables(self, self._summary(), yname, xname, title, alpha, float_format)

    def _repr_html_(self) -> str:
        html: str = self.summary().as_html()
        return html

    def remove_data(self) -> None:
        """Remove all arrays of the length of the data, here and in the model.

        What tables and tests need is computed before; new rows can be predicted afterwards.
        """
        model, data = self.model, self.model.data
        if model.exog is not None:
            data.ynames  # noqa: B018  made from endog, and kept
            with warnings.catch_warnings():
                # nobody asked for standard errors; the notes of the tables say the same
                warnings.simplefilter("ignore", CurvatureWarning)
                for name in self._made_from_data:
                    getattr(self, name)
        kept = {k: v for k, v in self._choice.options.items() if np.ndim(v) == 0}
        self._choice = CovarianceChoice(self.cov_type, kept)
        for holder, names in ((model, (*MODEL_ROWS, *model.further_names)), (data, DATA_ROWS)):
            for name in names:
                if hasattr(holder, name):
                    setattr(holder, name, None)
        data._cache.pop("row_labels", None)


def retvals(solution: Any) -> dict[str, Any]:
    """Return what the solver said, under the names statsmodels uses where it has one."""
    named = {RETVALS.get(each.name, each.name): each.name for each in fields(solution)}
    said = {name: getattr(solution, attribute) for name, attribute in named.items()}
    return {"warnflag": int(not solution.converged), **said}


class ResultsWrapper(_WrapperBase):  # type: ignore[misc]
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
    _wrap_methods = {"profile_intervals": "columns"}  # noqa: RUF012

    @wraps(RegressionResults.bootstrap)
    def bootstrap(self, *args: Any, **kwargs: Any) -> BootstrapResult:
        """Return replicates with the names of the parameters."""
        replicates: BootstrapResult = self._results.bootstrap(*args, **kwargs)
        wrapped = self._results.model.data.wrap_output(replicates.estimate, "columns")
        return replace(replicates, labelled=hasattr(wrapped, "index"))

    @wraps(RegressionResults.cov_params)
    def cov_params(
        self, r_matrix: Any = None, column: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the covariance with the names of the parameters."""
        values = self._results.cov_params(r_matrix, column, *args, **kwargs)
        return values if r_matrix is not None else self._labelled(values, column, "cov")

    @wraps(RegressionResults.conf_int)
    def conf_int(
        self, alpha: float = 0.05, method: str = "wald", cols: Any = None, **options: Any
    ) -> Any:
        """Return the limits with the names of the parameters."""
        limits = self._results.conf_int(alpha, method, cols, **options)
        return self._labelled(limits, cols, "columns")

    def _labelled(self, values: Any, chosen: Any, kind: str) -> Any:
        """Return a covariance, or limits, with the names of all or of the chosen parameters."""
        data = self._results.model.data
        if chosen is None:
            return data.wrap_output(values, kind)
        if not isinstance(data, PandasData) or np.ndim(values) == 0:
            return values
        names = [data.param_names[j] for j in positions(chosen, data.param_names)]
        return pd.DataFrame(values, names, names if kind == "cov" else None)

    def _repr_html_(self) -> str:
        html: str = self._results._repr_html_()
        return html
