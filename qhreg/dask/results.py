"""What a fit of rows on Dask says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from qhreg.covariance import CovarianceEstimate
from qhreg.family.domain import check_alpha
from qhreg.family.normalizer import location_level
from qhreg.inference.fit_statistics import information_criterion
from qhreg.results.linear import wald_intervals, wald_ratios
from qhreg.solver import Solution
from qhreg.specification.parameters import Parameters, ParameterSpace

__all__ = ["DaskResults"]


@dataclass(frozen=True)
class DaskResults:
    """A fit of rows on Dask.

    Attributes
    ----------
    solution : Solution
        Estimates with their duality gap.
    space : ParameterSpace
        Which of sigma and tau were estimated.
    names : list of str
        Names of the coefficients.
    covariance : CovarianceEstimate
        Covariance of the estimates.
    """

    solution: Solution
    space: ParameterSpace
    names: list[str]
    covariance: CovarianceEstimate

    @property
    def params(self) -> pd.Series:
        """Estimates."""
        s = self.solution
        values = self.space.pack(Parameters(s.beta, s.sigma, s.tau, s.kappa))
        return pd.Series(values, index=[*self.names, *self.space.extra_names])

    @property
    def bse(self) -> pd.Series:
        """Standard errors; NaN for a tau that ended on its bound."""
        errors = pd.Series(np.sqrt(np.diag(self.covariance.cov)), index=self.params.index)
        return errors.mask(errors.index.isin(list(self.covariance.held_fixed)))

    @property
    def tau(self) -> float:
        """Asymmetry."""
        return self.solution.tau

    @property
    def sigma(self) -> float:
        """Scale."""
        return self.solution.sigma

    @property
    def kappa(self) -> float:
        """Huber width."""
        return self.solution.kappa

    @property
    def nobs(self) -> float:
        """Number of observations: the sum of the weights."""
        return self.solution.n

    @property
    def df_resid(self) -> float:
        """Observations minus the rank of the regressors."""
        return self.nobs - self.solution.rank

    @property
    def cov_type(self) -> str:
        """Type of the covariance."""
        return self.covariance.cov_type

    @property
    def llf(self) -> float:
        """Log-likelihood."""
        return self.solution.loglike

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return information_criterion(self.llf, self.space.size, self.nobs, "aic")

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return information_criterion(self.llf, self.space.size, self.nobs, "bic")

    @property
    def quantile_level(self) -> float:
        """P(y < x'beta) in the fitted law."""
        return location_level(self.tau, self.kappa)

    @property
    def converged(self) -> bool:
        """Whether the fit is proved."""
        return self.solution.converged

    @property
    def duality_gap(self) -> float:
        """How far the log-likelihood can be below its maximum at this tau."""
        return self.solution.gap

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return Wald intervals with quantiles of t: sigma on the log, tau on the logit scale."""
        check_alpha(alpha)
        critical = float(special.stdtrit(self.df_resid, 1.0 - 0.5 * alpha))
        params, bse = self.params, self.bse
        limits = wald_intervals(params.to_numpy(), bse.to_numpy(), self.space, critical)
        return pd.DataFrame(limits, index=params.index, columns=[0, 1])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, standard errors, tests against 0 (tau: against 1/2) and intervals."""
        params, bse = self.params, self.bse.to_numpy()
        # sigma = 0 is no hypothesis
        null = np.array([{"tau": 0.5, "sigma": np.nan}.get(name, 0.0) for name in params.index])
        ratios = wald_ratios(params.to_numpy(), bse, null, self.space)
        limits = self.conf_int(alpha).to_numpy()
        return pd.DataFrame(
            {
                "coef": params.to_numpy(),
                "std err": bse,
                "t": ratios,
                "P>|t|": 2.0 * special.stdtr(self.df_resid, -np.abs(ratios)),
                f"[{alpha / 2:g}": limits[:, 0],
                f"{1 - alpha / 2:g}]": limits[:, 1],
            },
            index=params.index,
        )

    def __str__(self) -> str:
        gap = f"converged, gap {self.duality_gap:.1e}" if self.converged else "NOT CONVERGED"
        head = (
            f"Quantile Huber regression, {self.nobs:.10g} observations, kappa = {self.kappa:g}, {gap}\n"
            f"log-likelihood {self.llf:.8g}, P(y < x'beta) = {self.quantile_level:.4f}"
        )
        return f"{head}\n{self.summary_frame().to_string(float_format='%.5g', na_rep='')}"
