"""The likelihood as statsmodels asks a model for it: functions of one parameter vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance import Point, expected_information, observed_hessian, score_obs
from qhreg.covariance.information import unit_information
from qhreg.covariance.scores import score_sum
from qhreg.family.loss import loss_curvature, loss_slope
from qhreg.inference.fit_statistics import loglike_obs, starting_values
from qhreg.specification.parameters import Parameters, ParameterSpace

__all__ = ["LikelihoodMethods"]


class LikelihoodMethods:
    """Log-likelihood, its derivatives and starting values of a model."""

    space: ParameterSpace
    observations: Any
    kappa: float | None
    tau: float | None
    sigma: float | None
    tau_bounds: tuple[float, float]

    def loglikeobs(self, params: Any) -> FloatArray:
        """Return the log-likelihood of each row, times its weights, shape (n,)."""
        return loglike_obs(self.observations, self.space.unpack(params))

    def loglike(self, params: Any) -> float:
        """Return the log-likelihood."""
        return float(self.loglikeobs(params).sum())

    def nloglike(self, params: Any) -> float:
        """Return the negative log-likelihood."""
        return -self.loglike(params)

    def score_obs(self, params: Any, **kwds: Any) -> FloatArray:
        """Return the derivative of each row's log-likelihood, shape (n, number of parameters)."""
        p, obs = self.space.unpack(params), self.observations
        return score_obs(
            obs.exog,
            obs.endog,
            Point(*p),
            offset=obs.offset,
            weights=obs.case_weights,
            free=self.space.free,
        )

    def score(self, params: Any) -> FloatArray:
        """Return the derivative of the log-likelihood."""
        p, obs = self.space.unpack(params), self.observations
        return score_sum(
            obs.exog,
            obs.endog,
            Point(*p),
            offset=obs.offset,
            weights=obs.case_weights,
            free=self.space.free,
        )

    def hessian(self, params: Any) -> FloatArray:
        """Return the second derivative of the log-likelihood.

        The beta block counts the rows in the quadratic zone only: for small kappa it says little
        about the curvature of the expected likelihood, and no standard error here is based on it.
        """
        p, obs = self.space.unpack(params), self.observations
        return observed_hessian(
            obs.exog,
            obs.endog,
            Point(*p),
            offset=obs.offset,
            weights=obs.case_weights,
            free=self.space.free,
        )

    def information(self, params: Any, observed: bool = False) -> FloatArray:
        """Return the Fisher information: expected, in closed form, or minus the Hessian."""
        if observed:
            return -self.hessian(params)
        p, obs = self.space.unpack(params), self.observations
        return expected_information(
            obs.exog, p.sigma, p.tau, p.kappa, weights=obs.case_weights, free=self.space.free
        )

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
            factor = np.full(
                obs.endog.shape, -unit_information(p.tau, p.kappa).beta_beta / p.sigma**2
            )
        return _weighted(factor, obs.case_weights)

    @property
    def start_params(self) -> FloatArray:
        """Starting values from least squares; the solver has its own and does not need them."""
        kappa = 1.0 if self.kappa is None else self.kappa
        guess = starting_values(self.observations, kappa, self.tau)
        tau = float(np.clip(guess.tau, *self.tau_bounds)) if self.tau is None else self.tau
        sigma = guess.sigma if self.sigma is None else self.sigma
        return self.space.pack(Parameters(guess.beta, sigma, tau, kappa))


def _weighted(factor: Any, weights: FloatArray | None) -> FloatArray:
    array = np.asarray(factor, dtype=np.float64)
    return array if weights is None else array * weights
