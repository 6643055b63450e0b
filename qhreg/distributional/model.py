r"""The model: location, scale and asymmetry, each with regressors of its own."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import pandas as pd
from statsmodels.base.model import GenericLikelihoodModel, LikelihoodModel

from qhreg.covariance.choice import OPTIONS
from qhreg.distributional.data import DistributionalData
from qhreg.distributional.fit import solve_distributional
from qhreg.distributional.inputs import KEYWORDS, formula_rows, gather
from qhreg.distributional.likelihood import Coefficients
from qhreg.distributional.methods import DistributionalMethods
from qhreg.distributional.results import (
    DistributionalResults,
    DistributionalResultsWrapper,
)
from qhreg.exceptions import ConvergenceWarning, DataError, DomainError
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.alignment import numeric_vector
from qhreg.specification.formula_text import check_formula
from qhreg.specification.formulas import (
    SPEC_NAME,
    eval_env_argument,
    formula_frame,
    formula_namespace,
)
from qhreg.specification.given import (
    ROW_EXTRAS,
    bounds,
    check_design,
    default_names,
    formula_extras,
    number,
    require_rows,
)
from qhreg.specification.keywords import (
    reject_fit_keywords,
    reject_scalar_start,
    reject_unknown,
    warn_of_maxiter,
)
from qhreg.specification.observations import find_constant

__all__ = ["QuantileHuberDistributional"]


# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModel


class QuantileHuberDistributional(DistributionalData, DistributionalMethods, _Base):  # type: ignore[misc]
    r"""Regression in which scale and asymmetry of the noise depend on covariates.

    .. math::

        y_i = x_i'\beta + o_i + \sigma_i u_i, \qquad
        \log\sigma_i = z_i'\gamma, \qquad
        \log\frac{\tau_i}{1-\tau_i} = w_i'\delta

    where :math:`u_i` has the quantile Huber density with asymmetry :math:`\tau_i` and width kappa. All
    coefficients are estimated together by maximum likelihood.

    Parameters
    ----------
    endog : array_like, shape (n,)
        Response.
    exog : array_like, shape (n, p)
        Regressors of the location. No constant is added, here or below.
    exog_scale : array_like, shape (n, q), optional
        Regressors of log sigma; a constant by default.
    exog_tau : array_like, shape (n, r), optional
        Regressors of logit tau; a constant by default.
    kappa : float
        Huber width in units of sigma, kappa >= 0: 0 is the asymmetric Laplace density.
    tau, sigma : float or None
        A number fixes the parameter for all rows, in place of regressors.
    tau_bounds : (float, float)
        Range of the asymmetry of every row; a fit that reaches it warns.
    freq_weights : array_like, shape (n,), optional
        How often each row was observed.
    weights : array_like, shape (n,), optional
        Sampling weights. The default covariance is then robust.
    offset : array_like, shape (n,), optional
        Known part of the location.
    missing : {"none", "drop", "raise"}
        What to do with rows that have a NaN in any of the arrays.
    hasconst : bool, optional
        Whether `exog` spans a constant; found out when not given.

    Notes
    -----
    The parameters are named after their columns: ``x`` in the location, ``log_sigma_x`` in the scale
    and ``logit_tau_x`` in the asymmetry. ``exp`` of a coefficient of the scale is the factor by which
    sigma grows with the column; ``exp`` of one of the asymmetry the factor of the odds
    tau / (1 - tau). A high tau means a heavy right tail.

    The likelihood can have several maxima. A fit is never below that of
    :class:`qhreg.model.QuantileHuberMLE` when both `exog_scale` and `exog_tau` contain a constant,
    and `converged` means that it is stationary; ``fit(n_starts=...)`` tries more starting points.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from qhreg import QuantileHuberDistributional, quantile_huber
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1.0, 1.0, size=1000)
    >>> noise = quantile_huber.rvs(0.3, 1.0, size=1000, random_state=rng)
    >>> data = pd.DataFrame({"x": x, "y": 1.0 + 2.0 * x + np.exp(x) * noise})
    >>> fit = QuantileHuberDistributional.from_formula("y ~ x", data, scale="~ x").fit()
    >>> list(fit.params.index)
    ['Intercept', 'x', 'log_sigma_Intercept', 'log_sigma_x', 'logit_tau_Intercept']
    >>> print(f"{fit.params['log_sigma_x']:.2f} +- {fit.bse['log_sigma_x']:.2f}")
    1.04 +- 0.06
    """

    _formula_max_endog = 1

    def __init__(
        self,
        endog: Any,
        exog: Any,
        *,
        exog_scale: Any = None,
        exog_tau: Any = None,
        kappa: float = 4.0,
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
        reject_unknown("QuantileHuberDistributional", kwargs, KEYWORDS)
        if missing not in ("none", "drop", "raise"):
            raise DataError(f"missing must be 'none', 'drop' or 'raise', got {missing!r}")
        self.kappa = number("kappa", kappa, check_kappa, optional=False)
        self.tau = None if tau is None else number("tau", tau, check_tau)
        self.sigma = None if sigma is None else number("sigma", sigma, check_sigma)
        self.tau_bounds = bounds(tau_bounds)
        tables = gather(
            endog,
            exog,
            exog_scale,
            exog_tau,
            {"freq_weights": freq_weights, "weights": weights, "offset": offset},
            sigma=self.sigma,
            tau=self.tau,
            missing=missing,
        )
        for name, array in tables.extras.items():
            if name != "offset" and float(array.min(initial=0.0)) < 0.0:
                raise DataError(f"{name} must not be negative, got {float(array.min())!r}")
        self.weights = self.offset = None
        kwargs.pop("missing_idx", None)  # the formula left nothing to drop
        LikelihoodModel.__init__(
            self,
            tables.endog,
            tables.exog,
            missing="none",
            hasconst=hasconst,
            **tables.extras,
            **kwargs,
        )
        self.__dict__.pop(SPEC_NAME, None)
        self.exog_scale, self.exog_tau = tables.scale, tables.tau
        self.nobs_given, self._kept = tables.n_given, tables.kept
        self._init_keys = ["kappa", "tau", "sigma", "tau_bounds", *tables.extras]
        self._init_keys += ["exog_scale"] if self.sigma is None else []
        self._init_keys += ["exog_tau"] if self.tau is None else []
        if hasconst is not None:
            self.hasconst = hasconst
            self._init_keys.append("hasconst")
        self._data_attr.extend((*ROW_EXTRAS, "exog_scale", "exog_tau"))
        self._offset_name: str | None = None
        self._namespace: Any = {}
        self._specs: dict[str, Any] = {}
        self.endog = numeric_vector("endog", self.data.endog)
        require_rows(self.endog.size, self.nobs_given)
        self._name_parameters(tables.scale_names, tables.tau_names)

    # ------------------------------------------------------------------ construction

    def initialize(self) -> None:
        """Do nothing: the rank of exog, which the base class computes here, comes from the fit."""

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> Any:
        """Return the data holder of statsmodels, with the constant found without an SVD."""
        data = super()._handle_data(endog, exog, missing, False, **kwargs)
        check_design(data.exog, getattr(exog, "columns", None))
        if hasconst is not False:
            data.k_constant, data.const_idx = find_constant(data.exog)
            data.k_constant = 1 if hasconst else data.k_constant
        if not isinstance(exog, (pd.DataFrame, pd.Series)):
            data.xnames = default_names(data.exog.shape[1], data.const_idx)
        return data

    def _name_parameters(self, scale_names: list[str], tau_names: list[str]) -> None:
        """Append the parameters of scale and asymmetry to the names, and count the freedoms."""
        names = self.data.xnames
        self.k_exog = len(names)
        extra = [f"log_sigma_{name}" for name in scale_names]
        extra += [f"logit_tau_{name}" for name in tau_names]
        every = [*names, *extra]
        twice = [name for name in every if every.count(name) > 1]
        if twice:
            raise DataError(
                f"two parameters would be called {twice[0]!r}: rename one of the columns"
            )
        names.extend(extra)
        self.scale_names, self.tau_names = scale_names, tau_names
        self.k_extra = len(extra)
        self.nparams = len(names)
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
        scale: str | None = None,
        tau: str | float | None = None,
        **kwargs: Any,
    ) -> QuantileHuberDistributional:
        """Return a model described by three formulas.

        Parameters
        ----------
        formula : str
            Of the location, such as ``"y ~ x + C(group)"``.
        data : DataFrame
            The variables.
        subset : array_like, optional
            Rows to use: booleans, or labels of the index.
        drop_cols : str or sequence of str, optional
            Columns to leave out of the design of the location.
        *args
            None are accepted.
        scale : str, optional
            Formula of log sigma without response, such as ``"~ z"``; a constant by default.
        tau : str or float, optional
            Formula of logit tau, such as ``"~ w"``; a constant by default. A number fixes tau.
        **kwargs
            Keywords of the model. ``freq_weights``, ``weights`` and ``offset`` may be names of
            columns. ``missing`` is "drop" by default: rows in which any of the formulas or weights
            is missing are left out. ``eval_env``: where names in the formulas that are no columns
            come from; the caller by default, -1 for nowhere, or a dict.

        Returns
        -------
        QuantileHuberDistributional
            The model.
        """
        if args:
            raise TypeError(f"from_formula takes keywords after drop_cols, got {args!r}")
        known = tuple(k for k in KEYWORDS if not k.startswith("exog_"))
        reject_unknown("QuantileHuberDistributional", kwargs, (*known, "scale", "eval_env"))
        check_formula(formula, data)
        sigma = kwargs.get("sigma")
        if scale is not None and not isinstance(scale, str):
            raise DataError(f'scale must be a formula such as "~ z", got {scale!r}')
        if sigma is not None and scale is not None:
            raise DomainError(
                f"sigma is fixed at {sigma!r}: scale={scale!r} has nothing to explain"
            )
        others = {} if sigma is not None else {"scale": scale or "~ 1"}
        if tau is None or isinstance(tau, str):
            others["tau"] = tau or "~ 1"
        else:
            kwargs["tau"] = tau
        text = " ".join([str(formula), *others.values()])
        namespace = formula_namespace(text, kwargs.pop("eval_env", None), depth=2)
        data = formula_frame(data, text)
        named = {key: kwargs.pop(key) for key in ROW_EXTRAS if key in kwargs}
        data, extras = formula_extras(data, subset, named)
        missing = kwargs.setdefault("missing", "drop")
        rows = formula_rows(formula, others, data, extras, namespace, missing)
        model: QuantileHuberDistributional = super().from_formula(
            formula,
            rows.data,
            None,
            [drop_cols] if isinstance(drop_cols, str) else drop_cols,
            eval_env=eval_env_argument(namespace),
            **{f"exog_{name}": design for name, design in rows.designs.items()},
            **rows.extras,
            **kwargs,
        )
        model.nobs_given, model._kept = len(data), rows.kept
        model._namespace, model._specs = namespace, rows.specs
        if isinstance(named.get("offset"), str):
            model._offset_name = named["offset"]
        return model

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        start_params: Any = None,
        method: str = "newton",
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        *,
        n_starts: int = 1,
        seed: int = 0,
        search: bool | None = None,
        maxiter: int | None = None,
        full_output: bool = True,
        disp: bool = False,
        callback: Any = None,
        retall: bool = False,
        warn_convergence: bool = True,
        skip_hessian: bool = False,
        **unknown: Any,
    ) -> DistributionalResultsWrapper:
        """Return the maximum-likelihood fit.

        Parameters
        ----------
        start_params : array_like, optional
            Parameters to start from, besides the fit with one scale and one asymmetry.
        method : {"newton"}
            Newton steps in a trust region.
        cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2", "cluster", "HAC"}, optional
            Covariance of the parameters: by default "HC3", which does not trust the density.
        cov_kwds : dict, optional
            ``groups`` for "cluster" (values, Series, or name of a column; two columns for two-way),
            ``maxlags`` for "HAC".
        use_t : bool, optional
            Whether tests and intervals use the t distribution.
        n_starts : int
            Number of starting points: the likelihood can have several maxima, and the best fit is
            returned.
        seed : int
            Seed of the random starting points.
        search : bool, optional
            Whether the first fit, with one scale and one asymmetry, searches the whole range of tau;
            by default up to 500 rows.
        maxiter : int, optional
            Not used, which a warning says: the solver stops when the score is zero.
        full_output, disp, callback, retall, skip_hessian
            Accepted since statsmodels passes them; the solver has no use for them.
        warn_convergence : bool
            Whether to warn when stationarity was not reached.
        **unknown
            None are accepted; the error says where a keyword belongs.

        Returns
        -------
        DistributionalResultsWrapper
            The fit. ``mle_retvals`` holds what the solver said.
        """
        sandwiches = {name: names for name, names in OPTIONS.items() if name != "bootstrap"}
        reject_fit_keywords(self.fit, unknown, KEYWORDS, sandwiches)
        choice = self.covariance_request(cov_type, cov_kwds)
        warn_of_maxiter(maxiter)
        if method != "newton":
            raise DomainError(f"method must be 'newton', got {method!r}")
        data = self.regression
        start = None
        if start_params is not None:
            reject_scalar_start(start_params, self.nparams)
            start = Coefficients(*data.split(self.checked_params(start_params)))
        k, q = self.k_exog, len(self.scale_names)
        names = [str(name) for name in self.data.xnames]
        with nullcontext() if warn_convergence else warnings.catch_warnings():
            if not warn_convergence:
                warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve_distributional(
                data,
                tau_bounds=self.tau_bounds,
                start=start,
                n_starts=n_starts,
                seed=seed,
                search=search,
                names={"location": names[:k], "scale": names[k : k + q], "tau": names[k + q :]},
            )
        settings = {"optimizer": method, "start_params": start_params, "n_starts": n_starts}
        settings |= {"seed": seed, "search": search, "maxiter": maxiter, "disp": disp}
        settings |= {"full_output": full_output, "callback": callback, "retall": retall}
        settings |= {"skip_hessian": skip_hessian}
        results = DistributionalResults(self, solution, choice, use_t=use_t, settings=settings)
        return DistributionalResultsWrapper(results)
