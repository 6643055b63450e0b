"""A fit compared with others: information criteria, the null model, tests of hypotheses."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from qhreg.covariance import score_obs, smoothed_bread
from qhreg.exceptions import BoundaryWarning, DomainError
from qhreg.fitstatistics import information_criterion, null_fit, null_loss, total_loss
from qhreg.parameters import ParameterSpace
from qhreg.solver import Solution

__all__ = ["ComparisonResults"]

FloatArray = npt.NDArray[np.float64]


class ComparisonResults:
    """The part of the results that sets the fit against other models."""

    model: Any
    space: ParameterSpace
    solution: Solution
    kappa: float
    nobs: float
    df_model: float
    k_constant: int
    n_params: Any
    parameters: Any
    _observations: Any

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
            return -2.0 * self.solution.loglike + 2.0 * self._effective_parameters
        return information_criterion(self.solution.loglike, self.n_params, self.nobs, crit)

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
        return 2.0 * (self.solution.loglike - self.llnull)

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
            return 1.0 - self.solution.loglike / self.llnull
        raise DomainError(f"kind must be 'r1', 'cs' or 'mcf', got {kind!r}")

    @cached_property
    def prsquared(self) -> float:
        """R1 of Koenker and Machado, as in QuantReg: one minus the ratio of the losses."""
        loss = total_loss(self.solution.loglike, self.solution.n, self.parameters)
        return 1.0 - loss / null_loss(self._observations, self.parameters)
