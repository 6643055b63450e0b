"""A fitted regression of location, scale and asymmetry."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from statsmodels.base.model import GenericLikelihoodModelResults, LikelihoodResultsWrapper
from statsmodels.base.wrapper import populate_wrapper

from qhreg.covariance import CovarianceChoice
from qhreg.distributional.inference import DistributionalInference
from qhreg.distributional.results_rows import DistributionalRows
from qhreg.distributional.solution import DistributionalSolution
from qhreg.distributional.summary import summary2_tables, summary_tables
from qhreg.exceptions import DomainError
from qhreg.fitstatistics import information_criterion
from qhreg.results.tables import TableResults
from qhreg.results.uncertainty import labelled_covariance, labelled_limits
from qhreg.specification.formulas import linear_constraints

__all__ = ["DistributionalResults", "DistributionalResultsWrapper"]


# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModelResults
_WrapperBase: Any = LikelihoodResultsWrapper


class DistributionalResults(
    DistributionalRows,
    DistributionalInference,
    TableResults,
    _Base,  # type: ignore[misc]
):
    """A fitted regression of location, scale and asymmetry.

    Attributes
    ----------
    params : ndarray
        Coefficients of the location, of log sigma and of logit tau.
    kappa : float
        Huber width.
    solution : DistributionalSolution
        What the solver returned.
    nobs : float
        Number of observations (sum of the frequency weights).
    df_model, df_resid : float
        Regressors of the location without the constant; observations minus the rank of the regressors
        of the location, as in least squares.
    mle_retvals : dict
        What the solver said: converged, iterations, score_norm, location_gap and more.
    """

    _tables = (summary_tables, summary2_tables)
    _made_from_data = ("_covariance", "ranges")

    def __init__(
        self,
        model: Any,
        solution: DistributionalSolution,
        choice: CovarianceChoice,
        *,
        use_t: bool | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.solution = solution
        self.params = solution.params
        self.kappa = model.kappa
        self.nobs = model.observations.nobs
        self.n_rows = len(model.endog)
        self.rows_counted = model.observations.rows_counted
        self.k_constant = model.k_constant
        lost = solution.dependent
        self.df_model = model.df_model - len(lost["location"])
        self.n_params = self.params.size - sum(len(columns) for columns in lost.values())
        self.df_resid = self.nobs - (model.k_exog - len(lost["location"]))
        self.scale = 1.0
        self.use_t = use_t is not False
        self.mle_settings = settings or {"optimizer": "newton"}
        self.mle_retvals = _retvals(solution)
        self._choice = choice
        self._cache: dict[str, Any] = {}
        self._data_attr: list[str] = []
        self._data_in_cache: list[str] = []

    # ------------------------------------------------------------------ the fit

    @property
    def llf(self) -> float:
        """Log-likelihood."""
        return self.solution.loglike

    @property
    def llf_homoskedastic(self) -> float:
        """Log-likelihood with one scale and one asymmetry for all rows."""
        return self.solution.start.loglike

    @property
    def converged(self) -> bool:
        """Whether the solver proved that the fit is stationary."""
        return self.solution.converged

    @property
    def local_maximum(self) -> bool:
        """Whether the fit is a strict local maximum: stationary, with a definite Hessian there.

        At kappa = 0, where the location sits in a corner, the Hessian is that of scale and asymmetry.
        """
        return self.converged and self.solution.curvature > 0.0

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return self.info_criteria("aic")

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.info_criteria("bic")

    @property
    def hqic(self) -> float:
        """Criterion of Hannan and Quinn."""
        return self.info_criteria("hqic")

    def info_criteria(self, crit: str = "aic") -> float:
        """Return an information criterion.

        Parameters
        ----------
        crit : {"aic", "aicc", "bic", "hqic"}
            Which.
        """
        return information_criterion(self.llf, self.n_params, self.nobs, crit)

    # ------------------------------------------------------------------ inference

    def get_robustcov_results(
        self, cov_type: str = "HC3", use_t: bool | None = None, **cov_kwds: Any
    ) -> DistributionalResultsWrapper:
        """Return the same fit with another covariance; this one stays as it is.

        Parameters
        ----------
        cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster", "HAC"}
            Type.
        use_t : bool, optional
            Whether to use the t distribution; unchanged by default.
        **cov_kwds
            Options of the type, such as ``groups``; or ``cov_kwds``, a dict of them, as in `fit`.
        """
        if set(cov_kwds) == {"cov_kwds"}:
            cov_kwds = cov_kwds["cov_kwds"]
        choice = self.model.covariance_request(cov_type, cov_kwds)
        made = copy.copy(self)
        made.__dict__.pop("_covariance", None)
        made._cache = {}
        made._choice = choice
        made.use_t = self.use_t if use_t is None else use_t
        return DistributionalResultsWrapper(made)

    def bootstrap(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: the one of statsmodels would not resample the further regressors."""
        raise NotImplementedError("there is no bootstrap for this model: use cov_type='HC3'")

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
            Restrictions, such as ``"log_sigma_x = 0, logit_tau_x = 0"``.
        cov_p, invcov, use_f, df_constraints
            As in statsmodels.
        scalar : bool
            Whether the statistic is a number.
        """
        lost = ~self._covariance.identified
        if cov_p is None and invcov is None and lost.any():
            names = self.model.data.param_names
            tested = np.atleast_2d(linear_constraints(r_matrix, names)[0]).any(axis=0)
            if (tested & lost).any():
                name = names[int(np.flatnonzero(tested & lost)[0])]
                raise DomainError(
                    f"{name} has no standard error, and a Wald test of it is not defined: leave it out "
                    "of the restrictions, or compare fits by lr_test"
                )
        return super().wald_test(
            r_matrix,
            cov_p=cov_p,
            invcov=invcov,
            use_f=use_f,
            df_constraints=df_constraints,
            scalar=scalar,
        )

    def wald_test_terms(self, *args: Any, **kwargs: Any) -> Any:
        """Return Wald tests of the terms of the location's formula; see statsmodels.

        Parameters
        ----------
        *args, **kwargs
            As in statsmodels.
        """
        made = super().wald_test_terms(*args, **kwargs)
        made.table = made.table.rename(index={"1": "Intercept"})  # formulaic's name of it
        return made


def _retvals(solution: DistributionalSolution) -> dict[str, Any]:
    """Return what the solver said, under the names statsmodels uses where it has one."""
    return {
        "converged": solution.converged,
        "warnflag": 0 if solution.converged else 1,
        "iterations": solution.iterations,
        "fopt": solution.value,
        "score_norm": solution.score_norm,
        "location_gap": solution.location_gap,
        "curvature": solution.curvature,
        "held": solution.held,
        "starts": solution.starts,
        "rows_in_zone": solution.rows_in_zone,
        "message": solution.reason,
    }


class DistributionalResultsWrapper(_WrapperBase):  # type: ignore[misc]
    """Results with the names of the parameters and the labels of the rows."""

    _attrs = {  # noqa: RUF012
        "params": "columns",
        "bse": "columns",
        "tvalues": "columns",
        "pvalues": "columns",
        "resid": "rows",
        "fittedvalues": "rows",
        "sigma": "rows",
        "tau": "rows",
        "quantile_level": "rows",
        "resid_standardized": "rows",
        "resid_pearson": "rows",
        "resid_pit": "rows",
        "resid_quantile": "rows",
        "normalized_cov_params": "cov",
        "cov_params_default": "cov",
    }
    _wrap_attrs = _attrs
    _wrap_methods: dict[str, str] = {}  # noqa: RUF012
    cov_params = labelled_covariance(DistributionalResults.cov_params)
    conf_int = labelled_limits(DistributionalResults.conf_int)

    def _repr_html_(self) -> str:
        html: str = self._results._repr_html_()
        return html


populate_wrapper(DistributionalResultsWrapper, DistributionalResults)
