"""The fitted linear model."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from statsmodels.base.wrapper import populate_wrapper
from statsmodels.tools import eval_measures

from qhreg._precision import VANISHING
from qhreg._typing import FloatArray
from qhreg.certificate import BiconvexityCertificate, biconvexity_certificate
from qhreg.certificate.global_optimum import GlobalCertificate, certify_rows
from qhreg.covariance import (
    CovarianceChoice,
    CovarianceEstimate,
    covariance_parts,
    estimate_covariance,
    nonrobust_covariance,
)
from qhreg.covariance.scores import loglike_obs, score_sum, standardized
from qhreg.exceptions import ColumnRangeError, DomainError
from qhreg.family.domain import from_line, line_slope, to_line
from qhreg.family.normalizer import location_level, log_curvature
from qhreg.profile.curve import curve_of
from qhreg.results.base import ResultsWrapper, retvals
from qhreg.results.fitted import of_solution
from qhreg.results.likelihood import LikelihoodResults, least_squares_fit
from qhreg.results.summary import Tables, linear_tables
from qhreg.solver import Solution
from qhreg.solver.over_kappa import KappaSolution
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations, find_constant, summed
from qhreg.specification.parameters import Constraint, Parameters, ParameterSpace


class QuantileHuberResults(LikelihoodResults):
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

    _parts_of = staticmethod(covariance_parts)
    _curve_of = staticmethod(curve_of)
    _made_from_data = (
        "_covariance",
        "llf",
        "share_below",
        "prsquared",
        "aic_ols",
        "certificate",
        "mle_retvals",
    )

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
        self.space: ParameterSpace = model.space
        self.sigma, self.tau, self.kappa = solution.sigma, solution.tau, solution.kappa
        self.width = width
        self.constraint = constraint
        k_constant = model.k_constant
        if constraint is not None and k_constant and not hasattr(model, "hasconst"):
            # whether the columns that the constraint leaves free span one
            k_constant = find_constant(model.exog @ constraint.transform)[0]
        super().__init__(
            model,
            solution,
            self.space.pack(Parameters(solution.beta, self.sigma, self.tau, self.kappa)),
            choice,
            rank=solution.rank,
            k_constant=k_constant,
            use_t=use_t,
            settings=settings,
        )

    # ------------------------------------------------------------------ the fit

    @cached_property
    def mle_retvals(self) -> dict[str, Any]:
        """What the solver said, and how small the score is."""
        return {**retvals(self.solution), "gradient_norm": self.gradient_norm}

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
        return float(loglike_obs(self.model.observations, self.parameters).sum())

    duality_gap = of_solution(
        "gap", "How far the log-likelihood at the fitted tau can be below its maximum."
    )
    rows_in_zone = of_solution("rows_in_zone", "Rows whose residual lies in the quadratic zone.")

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

    @cached_property
    def aic_ols(self) -> float:
        """Akaike's criterion of least squares on the same rows, to be compared with `aic`.

        sigma is estimated as here, by restricted or maximum likelihood, and counts as a parameter, as
        in `aic`: with ``reml=False`` this is the ``aic`` of statsmodels' OLS plus 2.
        """
        solution = self._fit_solution
        highest = self._fit_data.observations.gaussian_loglike()
        _, llf = least_squares_fit(highest, solution.n, solution.p)
        return float(eval_measures.aic(llf, self.nobs, solution.rank + 1))

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
        slack = VANISHING if self.kappa > 0.0 else 0.0
        obs = self.model.observations
        below, total = obs.reduce(_weight_below, summed, self.solution, slack)
        return float(below / total)

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
        return certify_rows(
            data.rows,
            self._fit_solution,
            sigma=data.space.sigma,
            tau_bounds=data.tau_bounds,
            tol=tol,
            **options,
        )

    @property
    def _fit_data(self) -> ModelData:
        """The regression that was fitted: under constraints, that of the reduced coefficients."""
        data: ModelData = self.model.model_data(reml=self.reml, rank=self.solution.p or None)
        if self.constraint is None:
            return data
        fixed: dict[str, Any] = {**self.constraint.fixed, "k": self.constraint.transform.shape[1]}
        return replace(
            data,
            observations=self.constraint.reduce(data.observations),
            space=replace(self.space, **fixed),
            constraint=self.constraint,
        )

    @property
    def _fit_solution(self) -> Solution:
        """The solution of `_fit_data`."""
        solution: Solution = self.solution
        if self.constraint is None:
            return solution
        gamma = self.constraint.transform.T @ (solution.beta - self.constraint.shift)
        return replace(solution, beta=gamma)

    def _summary(self) -> Tables:
        return linear_tables(self)

    # ------------------------------------------------------------------ uncertainty

    def _estimate_covariance(self) -> CovarianceEstimate:
        names = [str(name) for name in self.model.data.param_names]
        data, solution = self._fit_data, self._fit_solution
        try:
            return estimate_covariance(self._choice, data, solution, self.space, self._known, names)
        except ColumnRangeError as error:
            if self.constraint is not None:
                raise
            raise self._beyond_range(error.column) from error

    @property
    def _known(self) -> tuple[str, ...]:
        """Estimated parameters that have no sampling distribution: kappa at an end, tau with it."""
        if self.kappa_limit is None:
            return ()
        at_end = {
            "laplace": ("kappa",),
            "one-sided": ("kappa",),
            "gaussian": ("tau", "kappa"),
        }
        return tuple(
            name for name in at_end[self.kappa_limit] if self.space.position(name) is not None
        )

    @cached_property
    def gradient_norm(self) -> float:
        r"""Length of the score in units of standard errors: 0 at an exact maximum.

        :math:`\sqrt{g' I^{-1} g}` with g the score and I the expected information, both of the
        parameters that are not held: about how many standard errors a Newton step would move. NaN at
        kappa = 0, where the log-likelihood has a corner at its maximum; see `duality_gap`.
        """
        if self.solution.kappa == 0.0:
            return float("nan")
        data, solution = self._fit_data, self._fit_solution
        obs, p = data.observations, solution.p
        score = obs.reduce(score_sum, summed, solution, data.space.free)
        if p:  # the score of the restricted likelihood (QH-25)
            log_q = log_curvature(solution.tau, solution.kappa)
            more = {
                "sigma": p / solution.sigma,
                "tau": -0.5 * p * log_q.d_tau,
                "kappa": -0.5 * p * log_q.d_kappa,
            }
            for name in data.space.extra_names:
                score[data.space.position(name)] += more[name]
        known = [name for name in self._known if name in data.space.extra_names]
        covariance = nonrobust_covariance(data, solution, known).cov
        return math.sqrt(max(float(score @ covariance @ score), 0.0))

    @cached_property
    def bse(self) -> FloatArray:
        """Standard errors; NaN for a parameter that is treated as known."""
        errors: FloatArray = super().bse
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
                reasons[name] = "fixed"
            elif name in self._known:
                reasons[name] = "limit"
            else:
                at_bound = name == "tau" and self.solution.tau_at_bound
                reasons[name] = "at bound" if at_bound else "no info"
        return reasons

    @property
    def null_values(self) -> FloatArray:
        """The values that `tvalues` test: 0 for coefficients, 1/2 for tau, none for the others.

        None for tau either where kappa ended at a limit at which every larger width fits as well: tau
        then depends on the width that stands for all of them.
        """
        values = np.zeros(self.params.size)
        tested = self.kappa_limit not in ("one-sided", "gaussian")
        for name in self.space.extra_names:
            values[self.space.position(name)] = 0.5 if name == "tau" and tested else np.nan
        return values

    @cached_property
    def tvalues(self) -> FloatArray:
        """Estimate minus tested value, in standard errors; NaN where there is nothing to test.

        tau on the logit scale, as its interval, so that the two never contradict each other;
        `t_test` and `wald_test` are on the scale of the parameters.
        """
        distance, j = self.params - self.null_values, self.space.position("tau")
        if j is not None and np.isfinite(distance[j]):
            tau = self.params[j]
            distance[j] = (to_line("tau", tau) - to_line("tau", 0.5)) * line_slope("tau", tau)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(distance / self.bse)

    def _wald_limits(self, critical: float) -> FloatArray:
        r"""Return the limits of all parameters, none of which leaves its domain.

        Coefficients on the natural scale; sigma and kappa on the log scale,
        :math:`\hat\sigma\exp(\pm z\,\mathrm{se}/\hat\sigma)`; tau on the logit scale, where its
        standard error is :math:`\mathrm{se}/(\hat\tau(1-\hat\tau))`.
        """
        limits, k = super()._wald_limits(critical), self.space.k
        for j, name in enumerate(self.space.extra_names, start=k):
            value = self.params[j]
            with np.errstate(divide="ignore", invalid="ignore"):  # NaN at kappa = 0
                step = (limits[j] - value) / line_slope(name, value)
                limits[j] = from_line(name, to_line(name, value) + step)
        return limits


def _weight_below(obs: Observations, fit: Solution, slack: float) -> FloatArray:
    """Return the weight of the rows below the location by more than the slack, and that of all."""
    below, weights = standardized(obs, fit) < -slack, obs.case_weights
    count = np.count_nonzero(below) if weights is None else below @ weights
    return np.array([count, obs.weight_sum])


class QuantileHuberResultsWrapper(ResultsWrapper):
    """Results with the names of the parameters and the labels of the rows."""


QuantileHuberResults._wrapper = QuantileHuberResultsWrapper
populate_wrapper(QuantileHuberResultsWrapper, QuantileHuberResults)
