r"""The model: location, scale and asymmetry, each with regressors of its own."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.distributional.coordinates import coordinates
from qhreg.distributional.fit import DistributionalData, common_fit, solve_distributional
from qhreg.distributional.likelihood import (
    assemble,
    evaluate,
    hessian_factors,
    information_factors,
    loglike_rows,
    score_rows,
)
from qhreg.distributional.results import DistributionalResults, DistributionalResultsWrapper
from qhreg.exceptions import ConvergenceWarning, DataError, DomainError
from qhreg.family.domain import check_kappa
from qhreg.inference.prediction import PredictionSlopes
from qhreg.model.base import RegressionModel, Rows
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.inputs import KEYWORDS, number, to_pandas
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import RowLaw, checked_vector


class QuantileHuberDistributional(RegressionModel):
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

    With a constant scale and a constant asymmetry use :class:`qhreg.model.QuantileHuberMLE`, which
    maximises the restricted likelihood; this model is fitted by maximum likelihood.

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
    1.03 +- 0.05
    """

    kappa: float
    results_class = DistributionalResults
    _keywords = ("exog_scale", "exog_tau", *KEYWORDS)
    _formula_keywords = (*KEYWORDS, "scale", "eval_env")

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
        endog = to_pandas(endog)
        further = {"exog_scale": exog_scale, "exog_tau": exog_tau}
        for name, what, fixed in (("exog_scale", "sigma", sigma), ("exog_tau", "tau", tau)):
            if fixed is not None:
                if further[name] is not None:
                    raise DomainError(
                        f"{what} is fixed at {fixed!r}: {name} has nothing to explain"
                    )
                further[name] = np.empty((len(endog), 0))
            elif further[name] is not None and np.shape(further[name])[1:] == (0,):
                raise DataError(f"{name} must be a matrix with at least one column")
        super().__init__(
            endog,
            exog,
            kappa=number("kappa", kappa, check_kappa, optional=False),
            tau=tau,
            sigma=sigma,
            tau_bounds=tau_bounds,
            freq_weights=freq_weights,
            weights=weights,
            offset=offset,
            missing=missing,
            hasconst=hasconst,
            further=further,
            **kwargs,
        )

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
        sigma = kwargs.get("sigma")
        if scale is not None and not isinstance(scale, str):
            raise DataError(f'scale must be a formula such as "~ z", got {scale!r}')
        if sigma is not None and scale is not None:
            raise DomainError(
                f"sigma is fixed at {sigma!r}: scale={scale!r} has nothing to explain"
            )
        others = {} if sigma is not None else {"exog_scale": scale or "~ 1"}
        if tau is None or isinstance(tau, str):
            others["exog_tau"] = tau or "~ 1"
        else:
            kwargs["tau"] = tau
        return cls._from_formulas(formula, others, data, subset, drop_cols, args, kwargs)

    def _name_parameters(self) -> None:
        """Append the parameters of scale and asymmetry."""
        extra = [f"log_sigma_{name}" for name in self.further_names["exog_scale"]]
        extra += [f"logit_tau_{name}" for name in self.further_names["exog_tau"]]
        every = [*self.data.xnames, *extra]
        twice = [name for name in every if every.count(name) > 1]
        if twice:
            raise DataError(
                f"two parameters would be called {twice[0]!r}: rename one of the columns"
            )
        self._count_parameters(extra)

    def model_data(self) -> DistributionalData:
        """Return the model as numbers."""
        return DistributionalData(
            self.observations,
            self.exog_scale,
            self.exog_tau,
            self.kappa,
            *self._fixed_predictors,
            self.tau_bounds,
            tuple(str(name) for name in self.data.param_names),
        )

    @property
    def _fixed_predictors(self) -> tuple[float, float]:
        """What log sigma and logit tau are where fixed, 0 where they are estimated."""
        log_sigma = 0.0 if self.sigma is None else math.log(self.sigma)
        return log_sigma, 0.0 if self.tau is None else float(special.logit(self.tau))

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
        rng: Any = 0,
        search: bool | None = None,
        maxiter: int | None = None,
        warn_convergence: bool = True,
        **others: Any,
    ) -> DistributionalResultsWrapper:
        """Return the maximum-likelihood fit.

        Parameters
        ----------
        start_params : array_like, optional
            Parameters to start from, besides the fit with one scale and one asymmetry.
        method : {"newton"}
            Damped Newton steps.
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
        rng : int, Generator or None
            Source of the random starting points, as in ``numpy.random.default_rng``.
        search : bool, optional
            As in the linear model, for the first fit, with one scale and one asymmetry.
        maxiter : int, optional
            Not used, which a warning says: the solver stops when the score is zero.
        warn_convergence : bool
            Whether to warn when stationarity was not reached.
        **others
            ``full_output``, ``disp``, ``callback``, ``retall`` and ``skip_hessian``, which statsmodels
            passes, are accepted and not used. For others the error says where they belong.

        Returns
        -------
        DistributionalResultsWrapper
            The fit. ``mle_retvals`` holds what the solver said.
        """
        settings = self._check_fit(method, maxiter, start_params, others)
        choice = self.covariance_request(cov_type, cov_kwds)
        data = self.model_data()
        start = None
        if start_params is not None:
            start = self.checked_params(start_params)
        with nullcontext() if warn_convergence else warnings.catch_warnings():
            if not warn_convergence:
                warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve_distributional(
                data, start=start, n_starts=n_starts, rng=rng, search=search
            )
        settings |= {"n_starts": n_starts, "rng": rng, "search": search}
        return self._labelled(solution, choice, use_t=use_t, settings=settings)  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ likelihood

    def checked_params(self, params: Any) -> FloatArray:
        """Return a parameter vector as floats, or raise if its length or its values are wrong."""
        scale, tau = map(len, self.further_names.values())
        wanted = (
            f"{self.k_exog} coefficients of the location, {scale} of log sigma, {tau} of logit tau"
        )
        vector = checked_vector(params, self.nparams, wanted)
        if not bool(np.isfinite(vector).all()):
            raise DataError("params contains NaN or infinite values")
        return vector

    def loglikeobs(self, params: Any) -> FloatArray:
        """Return the log-likelihood of each row, times its weights, shape (n,)."""
        data = self.model_data()
        rows = loglike_rows(evaluate(data, self.checked_params(params)))
        return rows if data.weights is None else rows * data.weights

    def score_obs(self, params: Any, **kwds: Any) -> FloatArray:
        """Return the derivative of each row's log-likelihood, shape (n, number of parameters)."""
        data = self.model_data()
        rows = score_rows(data, evaluate(data, self.checked_params(params)))
        return rows if data.weights is None else rows * data.weights[:, None]

    def information(self, params: Any, observed: bool = False) -> FloatArray:
        """Return the Fisher information: expected, in closed form, or minus the Hessian."""
        data = self.model_data()
        state = evaluate(data, self.checked_params(params))
        return assemble(data, hessian_factors(state) if observed else information_factors(state))

    @property
    def start_params(self) -> FloatArray:
        """The fit with one scale and one asymmetry, as near as the regressors come to it."""
        data = self.model_data()
        common = common_fit(data)
        place = coordinates(data, common.beta, 1.0)
        return place.outer(place.constant(common.sigma, common.tau))

    # ------------------------------------------------------------------ prediction

    def law(self, params: Any, rows: Rows) -> RowLaw:
        """Return the law of rows at given parameters."""
        observations = Observations(rows.exog, np.empty(0), rows.offset)
        further = (rows.further["exog_scale"], rows.further["exog_tau"])
        data = DistributionalData(observations, *further, self.kappa, *self._fixed_predictors)
        return data.law_at(self.checked_params(params))

    def law_gradient(self, law: RowLaw, rows: Rows, slopes: PredictionSlopes) -> FloatArray:
        """Return the derivative of a prediction in the parameters, shape (n, size)."""
        designs = (rows.exog, rows.further["exog_scale"], rows.further["exog_tau"])
        return np.hstack([x * f[:, None] for x, f in zip(designs, slopes[:3], strict=True)])
