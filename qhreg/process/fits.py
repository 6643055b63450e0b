"""Fits at many values of tau to the same rows: the process of the coefficients over tau.

Curves at neighbouring values must not cross; slopes that are the same at all values mean noise that
does not depend on the regressors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qhreg._precision import VANISHING
from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance import CovarianceChoice, Parts, sandwich
from qhreg.covariance.choice import grouping_of
from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_kappa, check_tau
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_test, f_test

TOUCHING = 1e-9
"""Distance, in units of the spread of the curves, below which two curves touch and do not cross."""


def tau_levels(taus: Any = None, *, quantiles: Any = None, kappa: float = 0.0) -> tuple[float, ...]:
    """Return the values of tau, checked, in the order given.

    Parameters
    ----------
    taus : array_like or None
        Values of tau, each once.
    quantiles : array_like or None
        Levels q = 1 - tau in place of `taus`, at kappa = 0 only: for kappa > 0 the probability below
        the fitted curve is another one.
    kappa : float
        Huber width.

    Examples
    --------
    >>> from qhreg.process.fits import tau_levels
    >>> tau_levels(quantiles=[0.1, 0.5, 0.9])
    (0.9, 0.5, 0.1)
    """
    if (taus is None) == (quantiles is None):
        raise DomainError("give either taus or quantiles")
    if quantiles is not None and check_kappa(float(kappa)) > 0.0:
        raise DomainError(
            f"quantiles are levels 1 - tau only at kappa = 0, and kappa is {kappa:g}: give taus, and "
            "see quantile_levels for the probability below each curve; or set kappa=0"
        )
    given = np.ravel(np.asarray(taus if quantiles is None else quantiles, dtype=np.float64))
    if given.size == 0:
        raise DomainError("there must be at least one level")
    if quantiles is not None:
        check_tau(given)
        given = np.array([float(f"{1.0 - level:.15g}") for level in given])
    levels = tuple(float(check_tau(float(tau))) for tau in given)
    if len(set(levels)) < len(levels):
        raise DomainError(f"every level must be given once, got {given.tolist()}")
    return levels


@dataclass(frozen=True, repr=False)
class Crossings:
    """Where fitted curves at neighbouring values of tau are in the wrong order.

    Attributes
    ----------
    taus : tuple of float
        The values, increasing: the curve at a larger tau must not be above that at a smaller one.
    amounts : ndarray, shape (n, number of values - 1)
        How far the curve at the larger tau of each pair is above that at the smaller one; zero
        where the order is right.
    labels : Index or None
        Labels of the rows.
    """

    taus: tuple[float, ...]
    amounts: FloatArray
    labels: Any = None

    @property
    def rows(self) -> BoolArray:
        """Whether any pair crosses at each row, shape (n,)."""
        return np.asarray((self.amounts > 0.0).any(axis=1))

    @property
    def n_rows(self) -> int:
        """Number of rows at which curves cross."""
        return int(self.rows.sum())

    def __bool__(self) -> bool:
        return self.n_rows > 0

    def to_frame(self) -> pd.DataFrame:
        """Return one line for each pair of neighbours: rows that cross, and the largest amount."""
        return pd.DataFrame(
            {
                "tau": self.taus[:-1],
                "next": self.taus[1:],
                "rows": (self.amounts > 0.0).sum(axis=0),
                "largest": self.amounts.max(axis=0, initial=0.0),
            }
        )

    def __repr__(self) -> str:
        n, m = self.amounts.shape[0], len(self.taus)
        if not self:
            return f"no crossings of {m} curves at {n} rows"
        return (
            f"curves cross at {self.n_rows} of {n} rows, by {self.amounts.max():.4g} at most: "
            f"{int((self.amounts > 0.0).any(axis=0).sum())} of {m - 1} neighbouring pairs"
        )


def find_crossings(curves: Any, taus: Sequence[float], labels: Any = None) -> Crossings:
    """Return where curves are in the wrong order.

    Parameters
    ----------
    curves : array_like, shape (n, m)
        Values of the curves, one column for each tau.
    taus : sequence of float, length m
        Increasing.
    labels : Index, optional
        Labels of the rows.

    Notes
    -----
    A larger tau counts negative residuals more and pulls the curve down. Curves closer than 1e-9 of the
    spread of all values touch: they do not cross.

    Examples
    --------
    >>> from qhreg.process.fits import find_crossings
    >>> find_crossings([[2.0, 1.0], [1.0, 1.5]], [0.4, 0.6])
    curves cross at 1 of 2 rows, by 0.5 at most: 1 of 1 neighbouring pairs
    """
    values = np.asarray(curves, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(taus):
        raise DataError(f"curves must have {len(taus)} columns, got the shape {values.shape}")
    rise = np.diff(values, axis=1)
    spread = float(np.ptp(values)) if values.size else 0.0
    return Crossings(tuple(taus), np.where(rise > TOUCHING * spread, rise, 0.0), labels)


def equality_test(
    estimates: Any,
    covariance: Any,
    *,
    df_cov: float | None = None,
    name: str = "Wald test",
    null: str = "equal slopes",
) -> HypothesisTest:
    r"""Return the Wald test that estimates are the same in all fits.

    Parameters
    ----------
    estimates : array_like, shape (m, s)
        The same s parameters from m fits.
    covariance : array_like, shape (m s, m s)
        Their joint covariance, fit by fit.
    df_cov : float, optional
        Degrees of freedom of the covariance; without them it is taken as known.
    name, null : str
        What the outcome calls the test and the hypothesis.

    Notes
    -----
    With :math:`d` the m - 1 differences between neighbouring fits and :math:`V_d` their covariance
    the statistic is :math:`T = d'V_d^{-1}d`, chi-square with q = (m - 1) s degrees of freedom when
    :math:`V_d` is known. When it is estimated with :math:`\nu` degrees of freedom, T / q is compared
    with the F distribution of q and :math:`\nu`.
    Directions in which the covariance is singular (linearly dependent columns) are left out and
    not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.process.fits import equality_test
    >>> equality_test([[1.0], [3.0]], np.eye(2))
    Wald test of equal slopes: chi2(1) = 2, p = 0.1573
    """
    values = np.asarray(estimates, dtype=np.float64)
    m, s = values.shape
    if m < 2:
        raise DomainError("equality needs at least two fits")
    cov = np.asarray(covariance, dtype=np.float64)
    if cov.shape != (m * s, m * s):
        raise DataError(f"covariance must have shape ({m * s}, {m * s}), got {cov.shape}")
    contrast = np.kron(np.diff(np.eye(m), axis=0), np.eye(s))
    difference = contrast @ values.ravel()
    spread = contrast @ cov @ contrast.T
    length = np.sqrt(np.maximum(spread.diagonal(), 0.0))
    length[length == 0.0] = 1.0
    roots, vectors = np.linalg.eigh(spread / np.outer(length, length))
    kept = roots > VANISHING * roots.max(initial=0.0)
    along = vectors[:, kept].T @ (difference / length)
    statistic = float(along @ (along / roots[kept]))
    df = int(kept.sum())
    if df == 0 or not math.isfinite(statistic):
        raise DataError("the covariance of the differences is zero or not finite: nothing to test")
    if df_cov is None:
        return chi2_test(name, null, statistic, df)
    return f_test(name, null, statistic / df, df, max(df_cov, 1.0))


def joint_covariance(
    choice: CovarianceChoice, parts: Sequence[Parts], chosen: Sequence[int]
) -> FloatArray:
    r"""Return the covariance of chosen parameters of several fits to the same rows, fit by fit.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options.
    parts : sequence of Parts, length m
        One for each fit.
    chosen : sequence of int, length s
        Places of the parameters within each fit.

    Returns
    -------
    ndarray, shape (m s, m s)
        The blocks on the diagonal are those of the single fits. NaN where one is not identified.

    Notes
    -----
    A row moves fit j by its influence :math:`H_j^{-1}s_{ij}`. Stacked over the fits, these are the
    scores of one sandwich.
    """
    first = parts[0]
    moves = [part.influence @ part.jacobian[list(chosen)].T for part in parts]
    leverage, alone = None, [np.zeros_like(part.identified) for part in parts]
    if choice.cov_type in ("HC2", "HC3"):
        columns = [part.leverage for part in parts]
        alone = [
            part.decided_alone(part.observations, column)
            for part, column in zip(parts, columns, strict=True)
        ]
        leverage = np.repeat(np.column_stack(columns), len(chosen), axis=1)
    obs = first.observations
    cov = sandwich(
        np.hstack(moves),
        None,
        leverage=leverage,
        nobs=first.nobs,
        df_resid=first.df_resid,
        freq=first.freq,
        **grouping_of(choice, obs.endog.size, obs.case_weights).keywords,
    )
    known = np.concatenate(
        [
            ~np.abs(part.jacobian[list(chosen)][:, ~part.identified | one]).any(axis=1)
            for part, one in zip(parts, alone, strict=True)
        ]
    )
    cov[~known] = cov[:, ~known] = np.nan
    return cov


def sup_t(
    covariance: FloatArray,
    alpha: float,
    *,
    df: float | None = None,
    rng: Any = 0,
    draws: int = 100_000,
) -> float:
    """Return the quantile of the largest of several absolute t ratios, simulated.

    Parameters
    ----------
    covariance : ndarray, shape (m, m)
        Covariance of the estimates.
    alpha : float
        One minus the level of the quantile.
    df : float or None
        Degrees of freedom of the t distribution; None for the normal one.
    rng : int or Generator
        Source of randomness.
    draws : int
        Number of simulated vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.process.fits import sup_t
    >>> round(sup_t(np.ones((3, 3)), 0.05), 1), round(sup_t(np.eye(3), 0.05), 1)
    (2.0, 2.4)
    """
    length = np.sqrt(covariance.diagonal())
    if not (length > 0.0).all():
        return float("nan")
    roots, vectors = np.linalg.eigh(covariance / np.outer(length, length))
    half = vectors * np.sqrt(np.maximum(roots, 0.0))
    generator = np.random.default_rng(rng)
    largest = np.abs(generator.standard_normal((draws, len(half))) @ half.T).max(axis=1)
    if df is not None:
        largest /= np.sqrt(generator.chisquare(df, draws) / df)
    return float(np.quantile(largest, 1.0 - alpha))
