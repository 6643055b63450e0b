"""Profile likelihoods of the coefficients of location, scale and asymmetry."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.distributional.data import DistributionalData
from qhreg.distributional.fit import DistributionalSolution, solve_distributional
from qhreg.distributional.likelihood import Regression
from qhreg.exceptions import BoundaryWarning, RankWarning
from qhreg.inference.hypothesis_tests import lr_cut
from qhreg.profile.curve import Curve, ProfilePoint
from qhreg.profile.likelihood import spread
from qhreg.profile.result import ProfileLikelihood, find_interval

__all__ = ["CoefficientCurve", "distributional_profile"]


@dataclass
class CoefficientCurve(Curve):
    """The profile over one coefficient: what it explains becomes a known part of its predictor.

    Attributes
    ----------
    data : Regression
        The data.
    column : int
        Where the coefficient stands among the parameters.
    tau_bounds : (float, float)
        Range of the asymmetry of every row.
    """

    data: Regression = field(kw_only=True)
    column: int = field(kw_only=True)
    tau_bounds: tuple[float, float] = field(kw_only=True)

    def _fitted(self, value: float) -> ProfilePoint:
        rest = self.data.without(self.column, value)
        nearest = min(self.points, key=lambda other: abs(other - value))
        start = np.delete(self.points[nearest].beta, self.column)
        with warnings.catch_warnings():
            # of bounds and rank the fit itself has told
            for category in (BoundaryWarning, RankWarning):
                warnings.simplefilter("ignore", category)
            fit = solve_distributional(
                rest, tau_bounds=self.tau_bounds, start=rest.split(start), search=False
            )
        return _point(fit, value, np.insert(fit.params, self.column, value), self.data.kappa)


def _point(
    fit: DistributionalSolution, value: float, params: FloatArray, kappa: float
) -> ProfilePoint:
    """Return a fit as a point of a profile; sigma and tau differ from row to row."""
    return ProfilePoint(
        value, fit.loglike, math.nan, fit.location_gap, params, math.nan, math.nan, kappa
    )


def distributional_profile(
    data: DistributionalData,
    solution: DistributionalSolution,
    column: int,
    *,
    grid: Any = None,
    alpha: float = 0.05,
    cut: str | float = "F",
    se: float = math.nan,
    note: str = "",
) -> ProfileLikelihood:
    """Return the profile likelihood of a coefficient with its interval.

    Parameters
    ----------
    data : DistributionalData
        The model.
    solution : DistributionalSolution
        Its fit.
    column : int
        Where the coefficient stands among the parameters.
    grid : array_like, optional
        Values at which to fit, beside those that the interval needs; by default to beyond the 99 %
        interval. An empty one makes the interval alone.
    alpha : float
        One minus the nominal coverage.
    cut : {"F", "chi2"} or float
        Critical value of the likelihood ratio (:func:`qhreg.inference.hypothesis_tests.lr_cut`), with
        m the number of observations.
    se : float
        Standard error of the estimate: the first step.
    note : str
        What the profile takes for granted.
    """
    name, estimate = data.names[column], float(solution.params[column])
    m = data.observations.nobs
    critical = lr_cut(alpha, m, cut=cut)
    curve = CoefficientCurve(
        -math.inf,
        math.inf,
        data=data.regression,
        column=column,
        tau_bounds=data.tau_bounds,
    )
    curve.points[estimate] = _point(solution, estimate, solution.params, data.kappa)
    step = se if math.isfinite(se) and se > 0.0 else max(abs(estimate), 1.0) / math.sqrt(m)
    interval = find_interval(name, curve, estimate, solution.loglike, alpha, critical, step)
    if grid is None:
        widest = max(critical, lr_cut(min(alpha, 0.01), m, cut=cut))
        spread(name, curve, estimate, solution.loglike, interval, widest)
    else:
        for value in sorted(np.ravel(np.asarray(grid, dtype=np.float64)).tolist()):
            curve(value)
    points = tuple(point for _, point in sorted(curve.points.items()))
    return ProfileLikelihood(
        name,
        estimate,
        solution.loglike,
        interval,
        points,
        data.names,
        se,
        cut,
        m,
        None,
        note=note,
        _curve=curve,
    )
