"""A distributional model as numbers: its rows, what is fixed, its fit and its profiles."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.distributional.fit import DistributionalSolution, solve_distributional
from qhreg.distributional.likelihood import Regression
from qhreg.exceptions import BoundaryWarning, RankWarning
from qhreg.family.distribution import quantile_huber
from qhreg.profile.curve import Curve, ProfilePoint
from qhreg.specification.parameters import RowLaw, positions


class DistributionalData(Regression):
    """A distributional model as numbers, with what the bootstrap and simulations ask of a model."""

    free = ("beta",)

    def column(self, param: str | int) -> int:
        """Return where a coefficient stands among the parameters."""
        (place,) = positions(param, self.names)
        return place

    def law(self, solution: DistributionalSolution) -> RowLaw:
        """Return the law of the rows in a fit."""
        location, log_sigma, logit_tau = self.predictors(solution.params)
        return RowLaw(location, np.exp(log_sigma), special.expit(logit_tau), self.kappa)

    def standardized(self, solution: DistributionalSolution) -> tuple[FloatArray, float, float]:
        r"""Return residuals brought to one law, and tau and kappa of that law.

        .. math:: F_{\bar\tau}^{-1}\big(F_{\tau_i}(u_i)\big)

        with the mean asymmetry :math:`\bar\tau`: their quantile residuals (Dunn & Smyth 1996) on the
        scale of the family. With one tau they are the standardised residuals.
        """
        law = self.law(solution)
        u = (self.observations.endog - law.location) / law.sigma
        tau = float(np.average(law.tau, weights=self.observations.case_weights))
        if float(np.ptp(law.tau)) == 0.0:
            return u, tau, self.kappa
        lower = quantile_huber.ppf(quantile_huber.cdf(u, law.tau, self.kappa), tau, self.kappa)
        upper = quantile_huber.isf(quantile_huber.sf(u, law.tau, self.kappa), tau, self.kappa)
        return np.where(u < 0.0, lower, upper), tau, self.kappa

    def compared_with(self, solution: DistributionalSolution) -> DistributionalData:
        """Return the model with the criterion of a fit: itself, by maximum likelihood."""
        return self

    def fit(
        self,
        start: DistributionalSolution,
        held: Mapping[str, Any] | None = None,
        search: bool | None = False,
    ) -> DistributionalSolution:
        """Return the fit from a near one."""
        return solve_distributional(self, start=start.params, search=search)

    def is_fixed(self, param: str | int) -> bool:
        """Return whether a constraint leaves a parameter one value: there are none."""
        return False

    def expand(self, params: FloatArray) -> FloatArray:
        """Return the coefficients of the whole model: themselves."""
        return params

    def vector(self, solution: DistributionalSolution) -> FloatArray:
        """Return the estimated parameters of a fit as one vector."""
        return solution.params


def _held(
    data: DistributionalData, column: int, search: bool | None, value: float, near: FloatArray
) -> tuple[FloatArray, ProfilePoint]:
    """Return the fit with one coefficient held: what it explains is a known part of its predictor."""
    with warnings.catch_warnings():
        # of bounds and rank the fit itself has told
        for category in (BoundaryWarning, RankWarning):
            warnings.simplefilter("ignore", category)
        fit = solve_distributional(
            data.without(column, value), start=np.delete(near, column), search=search
        )
    params = np.insert(fit.params, column, value)
    return params, _point(fit, value, params, data.kappa)


def _point(
    fit: DistributionalSolution, value: float, params: FloatArray, kappa: float
) -> ProfilePoint:
    """Return a fit as a point of a profile; sigma and tau differ from row to row."""
    return ProfilePoint(
        value, fit.loglike, math.nan, fit.location_gap, params, math.nan, math.nan, kappa
    )


def coefficient_curve(
    data: DistributionalData,
    solution: DistributionalSolution,
    param: str | int,
    *,
    se: float = math.nan,
    search: bool | None = None,
) -> Curve:
    """Return the profile of a coefficient of any predictor as a function.

    Parameters
    ----------
    data : DistributionalData
        The model.
    solution : DistributionalSolution
        Its fit.
    param : str or int
        Name or place of the coefficient.
    se : float
        Standard error of the estimate: the first step.
    search : bool or None
        As in :func:`qhreg.solver.solve`, for the start of every point; by default none.
    """
    column, m = data.column(param), data.observations.nobs
    estimate = float(solution.params[column])
    return Curve(
        data.names[column],
        estimate,
        solution.loglike,
        m,
        partial(_held, data, column, bool(search)),
        {estimate: solution.params},
        names=data.names,
        step=se if se > 0.0 else max(abs(estimate), 1.0) / math.sqrt(m),
        points={estimate: _point(solution, estimate, solution.params, data.kappa)},
    )
