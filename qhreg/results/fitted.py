"""The fitted model: estimates, inference and predictions."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any

from statsmodels.base.model import GenericLikelihoodModelResults, LikelihoodResultsWrapper
from statsmodels.base.wrapper import populate_wrapper

from qhreg.certificate import BiconvexityCertificate, biconvexity_certificate
from qhreg.certificate.global_optimum import GlobalCertificate, certify_global
from qhreg.covariance import CovarianceChoice, choose_covariance
from qhreg.covariance.scores import INTERPOLATED, standardized
from qhreg.exceptions import DomainError
from qhreg.family.normalizer import location_level
from qhreg.fitstatistics import share_below
from qhreg.inference.bootstrap import BootstrapResult
from qhreg.notoffered import NotOffered, without
from qhreg.results.comparison import ComparisonResults
from qhreg.results.covariance import CovarianceResults
from qhreg.results.plots import PlotResults
from qhreg.results.rows import RowResults
from qhreg.results.summary import summary2_tables, summary_tables
from qhreg.results.tables import TableResults
from qhreg.results.uncertainty import labelled_covariance, labelled_limits
from qhreg.results.wald import WaldResults
from qhreg.solver import Solution
from qhreg.solver.over_kappa import KappaSolution
from qhreg.specification.constraints import Constraint
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import find_constant
from qhreg.specification.parameters import Parameters, ParameterSpace

__all__ = ["QuantileHuberResults", "QuantileHuberResultsWrapper"]


# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModelResults
_WrapperBase: Any = LikelihoodResultsWrapper


class QuantileHuberResults(
    RowResults,
    CovarianceResults,
    ComparisonResults,
    WaldResults,
    PlotResults,
    TableResults,
    _Base,  # type: ignore[misc]
):
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
        Regressors without the constant; observations minus the rank of the regressors, as in least
        squares (sigma and tau are not counted).
    mle_retvals : dict
        What the solver said: converged, iterations, passes, duality_gap, gradient_norm and more.
    """

    _tables = (summary_tables, summary2_tables)
    _made_from_data = (
        "_covariance",
        "llf",
        "share_below",
        "prsquared",
        "certificate",
        "mle_retvals",
    )

    # the observed Hessian of the first two counts the rows in the zone only
    covjhj = NotOffered('use get_robustcov_results("HC0")')
    bsejhj = NotOffered('use get_robustcov_results("HC0")')
    covjac = NotOffered("use cov_params, from the expected information")
    bsejac = NotOffered("use bse, from the expected information")
    get_nlfun = NotOffered("use get_prediction, or wald_test for linear functions")

    def __dir__(self) -> list[str]:
        return without(super().__dir__(), type(self))

    def __init__(
        self,
        model: Any,
        solution: Solution,
        choice: CovarianceChoice,
        *,
        use_t: bool | None = None,
        settings: dict[str, Any] | None = None,
        width: KappaSolution | None = None,
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
        self.rows_counted = model.observations.rows_counted
        self.k_constant = _k_constant(model, constraint)
        self.width = width
        self.constraint = constraint
        self.rank = solution.rank
        self.df_model = float(solution.rank - self.k_constant)
        self.df_resid = self.nobs - solution.rank
        self.scale = 1.0
        self.use_t = use_t is not False
        self.mle_settings = settings or {"optimizer": "newton"}
        self._choice = choice
        self._cache: dict[str, Any] = {}
        self._data_attr: list[str] = []
        self._data_in_cache: list[str] = []

    # ------------------------------------------------------------------ the fit

    @cached_property
    def mle_retvals(self) -> dict[str, Any]:
        """What the solver said, and how small the score is."""
        return {**_retvals(self.solution), "gradient_norm": self.gradient_norm}

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

    @cached_property
    def llf(self) -> float:
        """Ordinary log-likelihood at the estimates, whichever likelihood they maximise."""
        return float(self.model.loglike(self.params))

    @property
    def reml(self) -> bool:
        """Whether the restricted likelihood was maximised."""
        return self.solution.p > 0.0

    @property
    def llf_restricted(self) -> float:
        r"""Restricted log-likelihood (QH-25) with its constant (p / 2) log(2 pi); NaN after ML.

        Not comparable between models with different regressors.
        """
        return self.solution.loglike_restricted if self.reml else math.nan

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
        """Which end of its range an estimated kappa reached, or None inside it.

        "laplace" is 0, "gaussian" infinity; "one-sided" means that every larger width fits equally
        well.

        """
        return None if self.width is None else self.width.limit

    @cached_property
    def share_below(self) -> float:
        """Share of the observations below the fitted line, weights included.

        Rows that a fit interpolates, as one with kappa = 0 and the only row of a category, lie on the
        line, not below it.
        """
        obs = self._observations
        if self.kappa > 0.0:
            return share_below(self._residuals, obs.case_weights, INTERPOLATED * self.sigma)
        return share_below(standardized(obs, self.solution), obs.case_weights)

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
            Passed to :func:`qhreg.certificate.global_optimum.certify_global`.
        """
        if not self.tau_estimated:
            raise DomainError(
                "tau is fixed: the problem is convex, and duality_gap already bounds it globally"
            )
        data = self._fit_data
        obs = data.observations
        return certify_global(
            obs.exog,
            obs.endog,
            self._fit_solution,
            sigma=data.space.sigma,
            tau_bounds=data.tau_bounds,
            weights=obs.case_weights,
            offset=obs.offset,
            tol=tol,
            **options,
        )

    # ------------------------------------------------------------------ covariance

    def get_robustcov_results(
        self, cov_type: str = "HC3", use_t: bool | None = None, **cov_kwds: Any
    ) -> QuantileHuberResultsWrapper:
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
        self.model.require_data()
        if set(cov_kwds) == {"cov_kwds"}:
            cov_kwds = cov_kwds["cov_kwds"]
        choice = covariance_request(self.model, cov_type, cov_kwds, self.constraint)
        made = copy.copy(self)
        for name in ("_covariance", "_replicates", "bse", "tvalues"):
            made.__dict__.pop(name, None)
        made._cache = {}
        made._choice = choice
        if use_t is not None:
            made.use_t = use_t
        return QuantileHuberResultsWrapper(made)

    @property
    def _profile_data(self) -> ModelData:
        self._require_likelihood("a profile or a simulation")
        return super()._profile_data


def covariance_request(
    model: Any,
    cov_type: str | None,
    cov_kwds: dict[str, Any] | None,
    constraint: Constraint | None = None,
) -> CovarianceChoice:
    """Return the covariance for a fit of this model, under a constraint if there is one."""
    choice = choose_covariance(
        cov_type,
        cov_kwds,
        model.row_source,
        weights=model.weights,
        freq_weights=getattr(model, "freq_weights", None),
    )
    if constraint is not None and choice.cov_type == "bootstrap":
        raise DomainError('cov_type="bootstrap" is for fits without constraints')
    return choice


def _k_constant(model: Any, constraint: Constraint | None) -> int:
    """Return whether the columns that a constraint leaves free span a constant."""
    known: int = model.k_constant
    if constraint is None or not known or hasattr(model, "hasconst"):
        return known
    return find_constant(model.exog @ constraint.transform)[0]


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
        "certified": solution.certified,
        "rank": solution.rank,
        "rows_in_zone": solution.rows_in_zone,
        "message": solution.reason,
    }


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
    _wrap_methods: dict[str, str] = {}  # noqa: RUF012
    cov_params = labelled_covariance(QuantileHuberResults.cov_params)
    conf_int = labelled_limits(QuantileHuberResults.conf_int)
    profile_intervals = labelled_limits(QuantileHuberResults.profile_intervals)

    @wraps(QuantileHuberResults.bootstrap)
    def bootstrap(self, *args: Any, **kwargs: Any) -> BootstrapResult:
        """Return bootstrap replicates with the labels that the estimates have."""
        made: BootstrapResult = self._results.bootstrap(*args, **kwargs)
        labelled = hasattr(self._results.model.data.wrap_output(made.estimate, "columns"), "index")
        return replace(made, labelled=labelled)

    def _repr_html_(self) -> str:
        html: str = self._results._repr_html_()
        return html


populate_wrapper(QuantileHuberResultsWrapper, QuantileHuberResults)
