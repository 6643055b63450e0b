"""What the solver of the distributional model returns."""

from __future__ import annotations

from dataclasses import dataclass

from qhreg._typing import FloatArray
from qhreg.solver import Solution

__all__ = ["DistributionalSolution"]


@dataclass(frozen=True)
class DistributionalSolution:
    """A fitted regression of location, scale and asymmetry.

    Attributes
    ----------
    params : ndarray, shape (p + q + r,)
        Coefficients of the location, of log sigma and of logit tau.
    value : float
        Negative log-likelihood.
    score_norm : float
        Length of the gradient: how many standard errors a Fisher-scoring step would move. Blocks that
        are held have no part in it.
    location_gap : float
        By how much another location could raise the log-likelihood, the scales and asymmetries
        given: an upper bound.
    curvature : float
        Smallest eigenvalue of the observed relative to the expected information; positive at a
        strict local maximum. At kappa = 0 that of the scale and tau blocks.
    converged : bool
        Whether stationarity was proved: that of all blocks, none of them held.
    rest_stationary : bool
        Whether stationarity of the blocks that are not held was proved.
    reason : str
        Why the fit ended.
    held : tuple of str
        Blocks that ran into the limits of their predictor and were held there.
    dependent : dict
        For each block the columns that are combinations of earlier ones.
    rows_in_zone, iterations : int
        Rows in the quadratic zone; steps taken.
    n : float
        Sum of the case weights.
    start : Solution
        The fit with one scale and one asymmetry.
    starts : tuple of float
        Log-likelihood reached from each starting point.
    """

    params: FloatArray
    value: float
    score_norm: float
    location_gap: float
    curvature: float
    converged: bool
    rest_stationary: bool
    reason: str
    held: tuple[str, ...]
    dependent: dict[str, tuple[int, ...]]
    rows_in_zone: int
    iterations: int
    n: float
    start: Solution
    starts: tuple[float, ...]

    @property
    def loglike(self) -> float:
        """The log-likelihood."""
        return -self.value
