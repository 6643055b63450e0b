"""The law of the errors around the predictions: quantiles that never cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.stage import fit_location
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.solver.problem import Task

__all__ = ["ErrorLaw", "check_coverage", "check_levels", "fit_errors"]


@dataclass(frozen=True)
class ErrorLaw:
    """The quantile Huber law of y minus the prediction.

    Attributes
    ----------
    loc, sigma, tau, kappa : float
        Its parameters; sigma = 0 stands for errors that are all equal to `loc`.
    """

    loc: float
    sigma: float
    tau: float
    kappa: float

    def quantiles(self, q: Any) -> FloatArray:
        """Return the quantiles at levels q, increasing in q.

        Examples
        --------
        >>> from qhreg.boosting.density import ErrorLaw
        >>> ErrorLaw(loc=1.0, sigma=2.0, tau=0.5, kappa=0.0).quantiles([0.5]).tolist()
        [1.0]
        """
        q = np.asarray(q, dtype=np.float64)
        if self.sigma == 0.0:
            return np.full(q.shape, self.loc)
        found = quantile_huber.ppf(q, self.tau, self.kappa, loc=self.loc, scale=self.sigma)
        return np.asarray(found, dtype=np.float64)


def fit_errors(
    residuals: FloatArray,
    weights: FloatArray | None,
    kappa: float,
    tau_bounds: tuple[float, float],
) -> ErrorLaw:
    """Return the law fitted to residuals, all of location, sigma and tau estimated."""
    task = Task(kappa, None, None, tau_bounds)
    found = fit_location(residuals, weights, task)
    if found is None:
        loc = float(np.median(residuals)) if residuals.size else 0.0
        return ErrorLaw(loc, 0.0, 0.5, kappa)
    loc, noise = found
    return ErrorLaw(loc, noise.sigma, noise.tau, kappa)


def check_levels(name: str, levels: Any) -> FloatArray:
    """Return levels as an array, or raise a DomainError unless all lie strictly between 0 and 1."""
    try:
        array = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DomainError(f"{name} must be a number or numbers, got {levels!r}") from error
    if array.ndim > 1 or not bool(np.all((array > 0.0) & (array < 1.0))):
        raise DomainError(f"{name} must lie strictly between 0 and 1, got {levels!r}")
    return array


def check_coverage(coverage: Any) -> FloatArray:
    """Return the levels of the ends of central intervals, shape (..., 2)."""
    array = check_levels("coverage", coverage)
    return np.stack([0.5 * (1.0 - array), 0.5 * (1.0 + array)], axis=-1)
