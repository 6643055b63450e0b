r"""Quantile Huber regression with estimated asymmetry, as a statsmodels model."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.base.model import GenericLikelihoodModel, LikelihoodModel
from statsmodels.tools.sm_exceptions import MissingDataError

from qhreg.covariance.choice import OPTIONS
from qhreg.exceptions import (
    ConvergenceWarning,
    DataError,
    DataWarning,
    DomainError,
    MissingValuesError,
    warn_caller,
)
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.model.fits import OtherFits
from qhreg.model.likelihood import LikelihoodMethods
from qhreg.model.prediction import PredictionMethods
from qhreg.notoffered import NotOffered, without
from qhreg.results import (
    QuantileHuberResults,
    QuantileHuberResultsWrapper,
    covariance_request,
)
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution
from qhreg.specification.alignment import RowSource, numeric_vector
from qhreg.specification.formula_text import check_formula, unknown_names_told
from qhreg.specification.formulas import (
    SPEC_NAME,
    dump_spec,
    eval_env_argument,
    formula_frame,
    formula_namespace,
    load_spec,
)
from qhreg.specification.given import (
    KEYWORDS,
    ROW_EXTRAS,
    as_table,
    bounds,
    check_design,
    check_lengths,
    default_names,
    formula_extras,
    gaps,
    has_mask,
    match_extras,
    missing_told,
    number,
    remedy,
    require_rows,
)
from qhreg.specification.keywords import (
    reject_fit_keywords,
    reject_scalar_start,
    reject_unknown,
    warn_of_maxiter,
)
from qhreg.specification.model_data import ModelData, solution_and_width
from qhreg.specification.observations import Observations, find_constant, most_common
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace

__all__ = ["QuantileHuberMLE"]

BREAKDOWN = 0.5
"""Share of equal responses beyond which every equivariant regression fits those alone: the largest
possible breakdown point (Rousseeuw & Leroy 1987, chapter 3)."""


# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModel


class QuantileHuberMLE(LikelihoodMethods, PredictionMethods, OtherFits, _Base):  # type: ignore[misc]
    r"""Linear regression with the quantile Huber likelihood.

    .. math::

        y_i = x_i'\beta + o_i + \sigma u_i, \qquad
        f(u) = e^{-\rho_\tau(u)} / c(\tau, \kappa)

    with the quantile Huber loss :math:`\rho`: slope tau far to the left, 1 - tau far to the right,
    quadratic on :math:`[-\kappa\tau, \kappa(1-\tau)]`. The coefficients, the scale sigma and the
    asymmetry tau are estimated together, by restricted maximum likelihood (REML) where sigma is.

    Parameters
    ----------
    endog : array_like, shape (n,)
        Response.
    exog : array_like, shape (n, k)
        Regressors. No constant is added: use ``statsmodels.api.add_constant`` or a formula.
    kappa : float or None
        Huber width in units of sigma, kappa >= 0: 0 is the quantile loss. None estimates it. The
        default, 4, is Huber's k = 1 at tau = 1/2, which loses little with normal noise (Huber 1964), and
        lies in the range where the likelihood is certified to be convex in tau.
    tau : float or None
        Asymmetry in (0, 1). None estimates it; a number fixes it, which is plain quantile Huber
        regression.
    sigma : float or None
        Scale. None estimates it; a number fixes it.
    tau_bounds : (float, float)
        Range of an estimated tau.
    freq_weights : array_like, shape (n,), optional
        How often each row was observed: the fit is that of the repeated rows, `nobs` their number.
    weights : array_like, shape (n,), optional
        Sampling weights: what each row counts for in the likelihood. The default covariance is then
        robust.
    offset : array_like, shape (n,), optional
        Known part of the location.
    missing : {"none", "drop", "raise"}
        What to do with rows that have a NaN anywhere, weights and offset included.
    hasconst : bool, optional
        Whether the regressors span a constant; found out when not given.

    Notes
    -----
    The slope of the loss is tau on negative and 1 - tau on positive residuals, so that a high tau
    means noise with a heavy right tail. At kappa = 0 the fitted line is the 1 - tau quantile
    (``QuantReg`` with q = 1 - tau). **For kappa > 0 it is not**: the probability below it is
    ``results.quantile_level``, and ``results.predict(which="quantile", q=...)`` gives quantiles.

    A Series among the weights is matched to the rows by its labels.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from qhreg import QuantileHuberMLE
    >>> engel = sm.datasets.engel.load_pandas().data
    >>> fit = QuantileHuberMLE.from_formula("foodexp ~ income", engel).fit()
    >>> fit.params.round(3).to_dict()
    {'Intercept': 71.161, 'income': 0.604, 'sigma': 33.107, 'tau': 0.347}
    >>> round(fit.quantile_level, 3)
    0.623
    """

    _formula_max_endog = 1

    expandparams = NotOffered("fix tau, sigma or kappa when the model is built")
    reduceparams = NotOffered("fix tau, sigma or kappa when the model is built")

    def __dir__(self) -> list[str]:
        return without(super().__dir__(), type(self))

    def __init__(
        self,
        endog: Any,
        exog: Any,
        *,
        kappa: float | None = 4.0,
        tau: float | None = None,
        sigma: float | None = None,
        tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
        freq_weights: Any = None,
        weights: Any = None,
        offset: Any = None,
        missing: str = "none",
        hasconst: bool | None = None,
        **kwargs: Any,
    ) -> None:
        reject_unknown("QuantileHuberMLE", kwargs, KEYWORDS)
        if missing not in ("none", "drop", "raise"):
            raise DataError(f"missing must be 'none', 'drop' or 'raise', got {missing!r}")
        self.kappa = None if kappa is None else number("kappa", kappa, check_kappa)
        self.tau = None if tau is None else number("tau", tau, check_tau)
        self.sigma = None if sigma is None else number("sigma", sigma, check_sigma)
        self.tau_bounds = bounds(tau_bounds)
        if exog is None:
            raise DataError("exog is None: pass at least a column of ones for a constant")
        endog, exog = as_table("endog", endog), as_table("exog", exog)
        check_lengths(endog, exog)
        given = {"freq_weights": freq_weights, "weights": weights, "offset": offset}
        extras = given
        if "missing_idx" not in kwargs:
            extras = match_extras(endog, exog, given)
        extras = {name: values for name, values in extras.items() if values is not None}
        n_given = len(endog)
        self.weights = self.offset = None
        try:
            LikelihoodModel.__init__(
                self, endog, exog, missing=missing, hasconst=hasconst, **extras, **kwargs
            )
        except MissingDataError as error:
            told = missing_told({"endog": endog, "exog": exog, **extras})
            raise MissingValuesError(f'{told}, and missing="raise"') from error
        self.nobs_given = int(kwargs["missing_idx"].size) if has_mask(kwargs) else n_given
        self._init_keys = ["kappa", "tau", "sigma", "tau_bounds", *extras]
        if hasconst is not None:
            self.hasconst = hasconst
            self._init_keys.append("hasconst")
        for key in ("missing_idx", SPEC_NAME):
            self.__dict__.pop(key, None)
        self._data_attr.extend(ROW_EXTRAS)
        self._offset_name: str | None = None
        self._namespace: Any = {}
        self._check_rows()
        self._name_parameters()

    # ------------------------------------------------------------------ construction

    def initialize(self) -> None:
        """Do nothing: the rank of exog, which the base class computes here, comes from the fit."""

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> Any:
        """Return the data holder of statsmodels, with the constant found without an SVD."""
        # hasconst=False: no search for a constant by the base class
        data = super()._handle_data(endog, exog, missing, False, **kwargs)
        check_design(data.exog, getattr(exog, "columns", None))
        if hasconst is not False:
            data.k_constant, data.const_idx = find_constant(data.exog)
            data.k_constant = 1 if hasconst else data.k_constant
        if not isinstance(exog, (pd.DataFrame, pd.Series)):
            data.xnames = default_names(data.exog.shape[1], data.const_idx)
        return data

    def _check_rows(self) -> None:
        n, k = self.exog.shape
        for name in ("endog", *ROW_EXTRAS):
            array = getattr(self, name, None)
            if array is None:
                continue
            array = numeric_vector(name, array)
            setattr(self, name, array)
            if array.shape != (n,):
                raise DataError(f"{name} has length {array.size}, exog has {n} rows")
            bad = np.flatnonzero(~np.isfinite(array))
            if bad.size:
                where = f"the first in row {bad[0]}"
                raise DataError(f"{name} contains {gaps(array)}, {where}{remedy(array)}")
            if name != "endog" and name != "offset" and float(array.min(initial=0.0)) < 0.0:
                raise DataError(f"{name} must not be negative, got {float(array.min())!r}")
            if name.endswith("weights") and n and not array.any():
                raise DataError(f"{name} is zero in every row: there is nothing to fit")
            if name == "freq_weights" and bool((array != np.round(array)).any()):
                first = float(array[array != np.round(array)][0])
                raise DataError(
                    f"freq_weights count observations and must be whole numbers, got {first!r}: give "
                    "other weights as weights"
                )
        require_rows(n, self.nobs_given)
        self.k_exog = k

    def _name_parameters(self) -> None:
        """Append the estimated extra parameters to the names, and set the degrees of freedom."""
        names = self.data.xnames
        taken = [name for name in names if name in EXTRA_NAMES]
        if taken:
            raise DataError(
                f"exog has a column called {taken[0]!r}, which is the name of a parameter of the "
                "model: rename the column"
            )
        self.space = ParameterSpace(self.k_exog, self.sigma, self.tau, self.kappa)
        names.extend(self.space.extra_names)
        self.k_extra = len(self.space.extra_names)
        self.nparams = self.space.size
        self.df_model = float(self.k_exog - self.k_constant)
        self.df_resid = self.observations.nobs - self.k_exog

    @classmethod
    def from_formula(
        cls,
        formula: Any,
        data: Any,
        subset: Any = None,
        drop_cols: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> QuantileHuberMLE:
        """Return a model described by a formula.

        Parameters
        ----------
        formula : str
            Such as ``"y ~ x + C(group)"``.
        data : DataFrame
            The variables.
        subset : array_like, optional
            Rows to use: booleans, or labels of the index.
        drop_cols : str or sequence of str, optional
            Columns to leave out of the design; not those of a factor.
        *args
            None are accepted.
        **kwargs
            Keywords of the model. ``freq_weights``, ``weights`` and ``offset`` may be names of
            columns. ``missing`` is "drop" by default. ``eval_env``: where names in the formula that
            are no columns come from; the caller by default, -1 for nowhere, or a dict.

        Returns
        -------
        QuantileHuberMLE
            The model.
        """
        if args:
            raise TypeError(f"from_formula takes keywords after drop_cols, got {args!r}")
        reject_unknown("QuantileHuberMLE", kwargs, (*KEYWORDS, "eval_env"))
        check_formula(formula, data)
        namespace = formula_namespace(formula, kwargs.pop("eval_env", None), depth=2)
        data = formula_frame(data, formula)
        named = {key: kwargs.pop(key) for key in ROW_EXTRAS if key in kwargs}
        data, extras = formula_extras(data, subset, named)
        with unknown_names_told(formula, list(data.columns)):
            model: QuantileHuberMLE = super().from_formula(
                formula,
                data,
                None,
                [drop_cols] if isinstance(drop_cols, str) else drop_cols,
                eval_env=eval_env_argument(namespace),
                **kwargs,
                **extras,
            )
        model._namespace = namespace
        if isinstance(named.get("offset"), str):
            model._offset_name = named["offset"]
        return model

    # ------------------------------------------------------------------ data

    @property
    def observations(self) -> Observations:
        """The arrays of the model."""
        self.require_data()
        return Observations(
            self.exog, self.endog, self.offset, getattr(self, "freq_weights", None), self.weights
        ).scaled

    @property
    def has_weights(self) -> bool:
        """Whether there are sampling weights; they count after `remove_data` too."""
        return "weights" in self._init_keys

    def require_data(self) -> None:
        """Raise a DataError when the data were removed."""
        if self.exog is None:
            raise DataError("the data of this model were removed (remove_data): it cannot do this")

    @property
    def row_source(self) -> RowSource:
        """Where the rows came from, to match other arrays to them."""
        self.require_data()
        n_given = self.nobs_given
        dropped = getattr(self.data, "missing_row_idx", None)
        kept = None
        if dropped is not None and len(dropped):
            kept = np.setdiff1d(np.arange(n_given), np.asarray(dropped))
        frame = getattr(self.data, "frame", None)
        labels = self.data.row_labels
        return RowSource(n_given, kept, labels if isinstance(labels, pd.Index) else None, frame)

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        start_params: Any = None,
        method: str = "newton",
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        *,
        reml: bool = True,
        search: bool | None = None,
        maxiter: int | None = None,
        full_output: bool = True,
        disp: bool = False,
        callback: Any = None,
        retall: bool = False,
        warn_convergence: bool = True,
        skip_hessian: bool = False,
        **unknown: Any,
    ) -> QuantileHuberResultsWrapper:
        """Return the fit by restricted or maximum likelihood.

        Parameters
        ----------
        start_params : array_like, optional
            Parameters to start from.
        method : {"newton"}
            Accepted since statsmodels passes it; there is one method.
        cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2", "cluster", "HAC", "bootstrap"}, optional
            Covariance of the parameters: by default "HC3", which does not trust the density, as
            "nonrobust", the inverse expected information, does. See
            :data:`qhreg.covariance.COVARIANCE_TYPES`.
        cov_kwds : dict, optional
            ``groups`` for "cluster" (values, Series, or name of a column; two columns for two-way),
            ``maxlags`` for "HAC", options of the bootstrap.
        use_t : bool, optional
            Whether tests and intervals use the t and F distributions with `df_resid` degrees of freedom
            (with clusters, one less than there are), as by default, or the normal and chi-square ones.
        reml : bool
            Whether to maximise the restricted likelihood (QH-25), as MixedLM does, or the ordinary one.
            With sigma fixed it is the ordinary one.
        search : bool, optional
            Whether to search the whole range of tau for the global maximum; by default up to 500
            rows, up to 5000 with few rows in the zone, and up to 20,000 where tau ends within 0.05 of 0
            or 1, and where the noise is unlike the model and a look along tau leaves room for another
            maximum.
        maxiter : int, optional
            Not used, which a warning says: the solver stops when its duality gap is closed.
        full_output, disp, callback, retall, skip_hessian
            Accepted since statsmodels passes them; the solver has no use for them.
        warn_convergence : bool
            Whether to warn when the solver could not prove its result.
        **unknown
            None are accepted; the error says where a keyword belongs.

        Returns
        -------
        QuantileHuberResultsWrapper
            The fit. ``mle_retvals`` holds what the solver said.
        """
        reject_fit_keywords(self.fit, unknown, KEYWORDS, OPTIONS)
        request = covariance_request(self, cov_type, cov_kwds)
        warn_of_maxiter(maxiter)
        if method != "newton":
            raise DomainError(f"method must be 'newton', got {method!r}: it is proved, or says so")
        if not isinstance(reml, (bool, np.bool_)):
            raise DomainError(f"reml must be True or False, got {reml!r}")
        start = None
        if start_params is not None:
            reject_scalar_start(start_params, self.space.size)
            start = self.space.unpack(np.asarray(start_params, dtype=np.float64))
        with nullcontext() if warn_convergence else warnings.catch_warnings():
            if not warn_convergence:
                warnings.simplefilter("ignore", ConvergenceWarning)
            names = tuple(str(name) for name in self.data.xnames[: self.k_exog])
            data = ModelData(self.observations, self.space, self.tau_bounds, names, reml=reml)
            solution, width = solution_and_width(data, start=start, search=search, names=names)
        settings = {
            "optimizer": method,
            "start_params": start_params,
            "search": search,
            "reml": reml,
            "maxiter": maxiter,
            "full_output": full_output,
            "disp": disp,
            "callback": callback,
            "retall": retall,
            "skip_hessian": skip_hessian,
        }
        self._warn_of_the_data(solution)
        results = QuantileHuberResults(
            self, solution, request, use_t=use_t, settings=settings, width=width
        )
        if request.cov_type == "bootstrap":
            results.cov_params()
        return QuantileHuberResultsWrapper(results)

    def _warn_of_the_data(self, solution: Solution) -> None:
        """Warn of too few rows, and of a response that a continuous density cannot describe."""
        rows = self.observations.rows_counted
        if rows < solution.rank + 3:
            warn_caller(
                f"{rows} rows for {solution.rank} coefficients leave {rows - solution.rank} to tell "
                "sigma and tau from: the estimates say little; give tau or leave columns out",
                DataWarning,
            )
        value, share = most_common(self.endog)
        if share > BREAKDOWN or (solution.tau_at_bound and share * rows > solution.rank):
            warn_caller(
                f"{share:.0%} of the responses equal {value:g}: a continuous density is the wrong "
                "model for them; consider a Poisson, hurdle or Tobit model",
                DataWarning,
            )

    # ------------------------------------------------------------------ pickling

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        spec = getattr(self.data, SPEC_NAME, None)
        if spec is not None:
            # the data holder of statsmodels would evaluate the formula again when it is restored
            data = object.__new__(type(self.data))
            data.__dict__.update(self.data.__dict__)
            del data.__dict__[SPEC_NAME]
            state["data"] = data
            state["_spec"] = dump_spec(spec, self._namespace)
            del state["_namespace"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = state.pop("_spec", None)
        self.__dict__.update(state)
        if spec is not None:
            restored, self._namespace = load_spec(spec)
            setattr(self.data, SPEC_NAME, restored)
