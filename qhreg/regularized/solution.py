"""A penalised fit as a value: its penalty, its estimates, and what is proved of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows
from qhreg.exceptions import (
    BoundaryWarning,
    ConvergenceWarning,
    DataError,
    DomainError,
    warn_caller,
)
from qhreg.regularized.penalized import Penalty

__all__ = [
    "RegularizedSolution",
    "penalty_of",
    "require_residual",
    "size_and_factors",
    "warn_about",
]


def size_and_factors(alpha: Any, penalty_weights: Any, p: int) -> tuple[float, Any]:
    """Return the size of a penalty and its factors; sizes of their own are factors of a size of one.

    Parameters
    ----------
    alpha : float or array_like, shape (p,)
        The size, or one for each coefficient.
    penalty_weights : array_like, shape (p,), optional
        Factors of a single size.
    p : int
        Number of coefficients.
    """
    try:
        sizes = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DomainError(
            f"alpha must be a number, or a list with one for each coefficient; got {alpha!r}"
        ) from error
    if sizes.ndim == 0:
        return float(sizes), penalty_weights
    if sizes.shape != (p,):
        raise DataError(f"alpha must be a number or have shape ({p},), got {sizes.shape}")
    if not (np.isfinite(sizes).all() and (sizes >= 0.0).all()):
        raise DomainError("the sizes in alpha must be finite and not negative")
    if penalty_weights is not None:
        raise DomainError("alpha has a size for each coefficient: leave out penalty_weights")
    return 1.0, sizes


def penalty_of(
    exog: Any,
    alpha: float,
    L1_wt: float,
    *,
    penalty_weights: Any = None,
    standardize: bool = False,
    weights: Any = None,
) -> Penalty:
    """Return the penalty on b = beta / sigma.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    alpha : float
        Size, nonnegative.
    L1_wt : float
        Share of the absolute values, between 0 (ridge) and 1 (lasso).
    penalty_weights : array_like, shape (p,), optional
        Nonnegative factors; by default 1, and 0 for a constant column.
    standardize : bool
        Whether the penalty is on the coefficients of columns of unit standard deviation.
    weights : array_like, shape (n,), optional
        Case weights.
    """
    x = np.asarray(exog)
    if not (np.isfinite(alpha) and alpha >= 0.0):
        raise DomainError(f"alpha must be a nonnegative number, got {alpha!r}")
    if not 0.0 <= L1_wt <= 1.0:
        raise DomainError(f"L1_wt must lie between 0 and 1, got {L1_wt!r}")
    if penalty_weights is None:
        factors = np.where(np.ptp(x, axis=0) > 0.0, 1.0, 0.0)
    else:
        factors = np.asarray(penalty_weights, dtype=np.float64)
        if factors.shape != (x.shape[1],):
            raise DataError(f"penalty_weights must have shape ({x.shape[1]},), got {factors.shape}")
        if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
            raise DomainError("penalty_weights must be finite and not negative")
    lengths = np.ones(x.shape[1])
    if standardize:
        mean = np.average(x, axis=0, weights=weights)
        lengths = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
    l1, l2 = alpha * L1_wt * factors * lengths, alpha * (1.0 - L1_wt) * factors * lengths**2
    return Penalty(l1, l2)


@dataclass(frozen=True)
class RegularizedSolution:
    """A penalised fit.

    Attributes
    ----------
    beta : ndarray, shape (p,)
        Coefficients, in the units of the data; those the penalty removes are exactly zero.
    sigma, tau, kappa : float
        Scale, asymmetry and width.
    alpha, L1_wt : float
        Size of the penalty, and the share of its absolute part.
    penalty : Penalty
        Its weights on beta / sigma, alpha included.
    value : float
        The minimised objective: mean negative log-likelihood plus penalty.
    loglike : float
        The log-likelihood, without the penalty.
    subgradient : float
        Largest violation of the subgradient condition, for columns of unit length.
    gap : float
        Duality gap of the convex problem at `tau`: how far `value` can be above its minimum.
    tau_slope : float
        Derivative of the objective in tau.
    tau_at_bound, converged : bool
        Whether tau was estimated and ended on a bound; whether the gap is at most 1e-9 and tau
        stationary, at a bound, or fixed.
    n : float
        Sum of the case weights.
    rows_in_zone, iterations, passes : int
        Rows in the quadratic zone; work done at the final tau.
    """

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float
    alpha: float
    L1_wt: float
    penalty: Penalty
    value: float
    loglike: float
    subgradient: float
    gap: float
    tau_slope: float
    tau_at_bound: bool
    converged: bool
    n: float
    rows_in_zone: int
    iterations: int
    passes: int

    @property
    def n_nonzero(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.beta))


def warn_about(made: RegularizedSolution) -> None:
    """Warn when a fit is not proved or tau ended on a bound."""
    if not made.converged:
        warn_caller(
            f"the penalised fit did not converge: duality gap {made.gap:.3g}, subgradient violated "
            f"by {made.subgradient:.3g}, slope in tau {made.tau_slope:.3g}",
            ConvergenceWarning,
        )
    elif made.tau_at_bound:
        warn_caller(f"tau ended on its bound {made.tau:g}", BoundaryWarning)


def require_residual(rows: ArrayRows, penalty: Penalty) -> None:
    """Raise a DataError when the columns without a penalty fit the response exactly."""
    assert rows.endog is not None
    bare = penalty.is_absent
    few = 4 * int(bare.sum()) + 8
    for chosen in (slice(few), slice(None)):  # what few rows rule out need not be looked for in all
        endog = np.asarray(rows.endog[chosen], dtype=np.float64)
        if rows.offset is not None:
            endog = endog - rows.offset[chosen]
        exog = np.asarray(rows.exog[chosen][:, bare], dtype=np.float64)
        size = np.abs(exog).max(axis=0)
        exog = exog / np.where(size > 0.0, size, 1.0)
        residual = endog - exog @ np.linalg.lstsq(exog, endog, rcond=None)[0]
        if np.abs(residual).max() > 1e-12 * np.abs(endog).max():
            return
    raise DataError(
        "the columns without a penalty fit endog exactly (a constant endog, or more columns than rows): "
        "sigma would go to 0 and the likelihood to infinity; fix sigma to fit, or penalise them"
    )
