"""The linear model: one scale and one asymmetry for all rows, by restricted likelihood."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance import (
    design_moments,
    expected_information,
    observed_hessian,
    score_obs,
    score_sum,
)
from qhreg.covariance.information import unit_information
from qhreg.exceptions import ConvergenceWarning, DataError, DataWarning, DomainError, warn_caller
from qhreg.family.loss import loss_curvature, loss_slope
from qhreg.inference.fit_statistics import loglike_obs, starting_values
from qhreg.inference.prediction import PredictionSlopes
from qhreg.model.base import Rows, located
from qhreg.model.fits import OtherFits
from qhreg.results import QuantileHuberResults, QuantileHuberResultsWrapper
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, solution_and_width
from qhreg.specification.observations import most_common
from qhreg.specification.parameters import EXTRA_NAMES, Parameters, ParameterSpace, RowLaw

BREAKDOWN = 0.5
"""Share of equal responses beyond which every equivariant regression fits those alone: the largest
possible breakdown point (Rousseeuw & Leroy 1987, chapter 3)."""


class QuantileHuberMLE(OtherFits):
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
    {'Intercept': 61.798, 'income': 0.605, 'sigma': 29.878, 'tau': 0.324}
    >>> round(fit.quantile_level, 3)
    0.583
    """

    results_class: ClassVar[Any] = QuantileHuberResults

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
        return cls._from_formulas(formula, {}, data, subset, drop_cols, args, kwargs)

    def _name_parameters(self) -> None:
        """Append those of sigma, tau and kappa that are estimated."""
        taken = [name for name in self.data.xnames if name in EXTRA_NAMES]
        if taken:
            raise DataError(
                f"exog has a column called {taken[0]!r}, which is the name of a parameter of the "
                "model: rename the column"
            )
        self.space = ParameterSpace(self.k_exog, self.sigma, self.tau, self.kappa)
        self._count_parameters(list(self.space.extra_names))

    def model_data(self, reml: bool = True, rank: float | None = None) -> ModelData:
        """Return the model as numbers; see :class:`qhreg.specification.model_data.ModelData`."""
        names = tuple(str(name) for name in self.data.xnames[: self.k_exog])
        return ModelData(
            self.observations, self.space, self.tau_bounds, names, reml=reml, rank=rank
        )

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
        warn_convergence: bool = True,
        **others: Any,
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
            None scans the range of tau and follows the best basins; True also proves that no other
            tau is better; False follows the basin of `start_params` only.
        maxiter : int, optional
            Not used, which a warning says: the solver stops when its duality gap is closed.
        warn_convergence : bool
            Whether to warn when the solver could not prove its result.
        **others
            ``full_output``, ``disp``, ``callback``, ``retall`` and ``skip_hessian``, which statsmodels
            passes, are accepted and not used. For others the error says where they belong.

        Returns
        -------
        QuantileHuberResultsWrapper
            The fit. ``mle_retvals`` holds what the solver said.
        """
        settings = self._check_fit(method, maxiter, start_params, others)
        request = self.covariance_request(cov_type, cov_kwds)
        if not isinstance(reml, (bool, np.bool_)):
            raise DomainError(f"reml must be True or False, got {reml!r}")
        start = None
        if start_params is not None:
            start = self.space.unpack(np.asarray(start_params, dtype=np.float64))
        with nullcontext() if warn_convergence else warnings.catch_warnings():
            if not warn_convergence:
                warnings.simplefilter("ignore", ConvergenceWarning)
            data = self.model_data(reml=reml)
            solution, width = solution_and_width(data, start=start, search=search, names=data.names)
        settings |= {"search": search, "reml": reml}
        self._warn_of_the_data(solution)
        results = self.results_class(
            self, solution, request, use_t=use_t, settings=settings, width=width
        )
        if request.cov_type == "bootstrap":
            results.cov_params()
        return results._wrapper(results)  # type: ignore[no-any-return]

    @property
    def _responses(self) -> FloatArray:
        """The responses, or a sample of them."""
        responses: FloatArray = self.endog
        return responses

    def _warn_of_the_data(self, solution: Solution) -> None:
        """Warn of too few rows, and of a response that a continuous density cannot describe."""
        rows = self.observations.rows_counted
        if rows < solution.rank + 3:
            warn_caller(
                f"{rows} rows for {solution.rank} coefficients leave {rows - solution.rank} to tell "
                "sigma and tau from: the estimates say little; give tau or leave columns out",
                DataWarning,
            )
        value, share = most_common(self._responses)
        equal = share * self._responses.size
        if share > BREAKDOWN or (solution.tau_at_bound and equal > solution.rank):
            warn_caller(
                f"{share:.0%} of the responses equal {value:g}: a continuous density is the wrong "
                "model for them; consider a Poisson, hurdle or Tobit model",
                DataWarning,
            )

    # ------------------------------------------------------------------ likelihood

    def loglikeobs(self, params: Any) -> FloatArray:
        """Return the log-likelihood of each row, times its weights, shape (n,)."""
        return loglike_obs(self.observations, self.space.unpack(params))

    def score_obs(self, params: Any, **kwds: Any) -> FloatArray:
        """Return the derivative of each row's log-likelihood, shape (n, number of parameters)."""
        obs = self.observations
        scores = score_obs(obs, self.space.unpack(params), self.space.free)
        return scores if obs.freq_weights is None else scores * obs.freq_weights[:, None]

    def score(self, params: Any) -> FloatArray:
        """Return the derivative of the log-likelihood."""
        return score_sum(self.observations, self.space.unpack(params), self.space.free)

    def hessian(self, params: Any) -> FloatArray:
        """Return the second derivative of the log-likelihood.

        The beta block counts the rows in the quadratic zone only: for small kappa it says little
        about the curvature of the expected likelihood, and no standard error here is based on it.
        """
        return observed_hessian(self.observations, self.space.unpack(params), self.space.free)

    def information(self, params: Any, observed: bool = False) -> FloatArray:
        """Return the Fisher information: expected, in closed form, or minus the Hessian."""
        if observed:
            return -self.hessian(params)
        moments = design_moments(self.observations.exog, self.observations.case_weights)
        return expected_information(moments, self.space.unpack(params), self.space.free)

    def score_factor(self, params: Any) -> FloatArray:
        """Return the derivative of each row's log-likelihood in its location: w psi / sigma."""
        p, obs = self.space.unpack(params), self.observations
        factor = loss_slope(obs.residuals(p.beta) / p.sigma, p.tau, p.kappa) / p.sigma
        return _weighted(factor, obs.case_weights)

    def hessian_factor(
        self, params: Any, scale: float | None = None, observed: bool = True
    ) -> FloatArray:
        """Return the second derivative of each row's log-likelihood in its location.

        Parameters
        ----------
        params : array_like
            Parameters.
        scale : None
            Accepted since statsmodels passes it; not used.
        observed : bool
            Whether the derivative itself is returned, -w / (kappa sigma^2) inside the zone and 0
            outside, or its expectation, the same for rows of the same weight.
        """
        p, obs = self.space.unpack(params), self.observations
        if observed:
            u = obs.residuals(p.beta) / p.sigma
            factor = -loss_curvature(u, p.tau, p.kappa) / p.sigma**2
        else:
            factor = np.full(obs.endog.shape, -unit_information(p.tau, p.kappa)[0, 0] / p.sigma**2)
        return _weighted(factor, obs.case_weights)

    @property
    def start_params(self) -> FloatArray:
        """Starting values from least squares; the solver has its own and does not need them."""
        kappa = 1.0 if self.kappa is None else self.kappa
        guess = starting_values(self.observations, kappa, self.tau)
        tau = float(np.clip(guess.tau, *self.tau_bounds)) if self.tau is None else self.tau
        sigma = guess.sigma if self.sigma is None else self.sigma
        return self.space.pack(Parameters(guess.beta, sigma, tau, kappa))

    # ------------------------------------------------------------------ prediction

    def law(self, params: Any, rows: Rows) -> RowLaw:
        """Return the law of rows at given parameters."""
        beta, sigma, tau, kappa = self.space.unpack(params)
        return RowLaw(located(rows, beta), sigma, tau, kappa)

    def law_gradient(self, law: RowLaw, rows: Rows, slopes: PredictionSlopes) -> FloatArray:
        """Return the derivative of a prediction in the parameters, shape (n, size)."""
        extra = {
            "sigma": slopes.log_sigma / law.sigma,
            "tau": slopes.logit_tau / (law.tau * (1.0 - law.tau)),
            "kappa": slopes.kappa,
        }
        beta = rows.exog * slopes.location[:, None]
        return np.column_stack([beta, *(extra[name] for name in self.space.extra_names)])


def _weighted(factor: Any, weights: FloatArray | None) -> FloatArray:
    array = np.asarray(factor, dtype=np.float64)
    return array if weights is None else array * weights
