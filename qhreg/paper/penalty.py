"""The mean normalised penalty at fixed tau, by plain quantile Huber regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qhreg._typing import FloatArray
from qhreg.paper.printed import POSITIVE
from qhreg.paper.recovery import N_ROWS, recovery_sample
from qhreg.solver import solve

__all__ = [
    "NARROW",
    "WIDE",
    "PenaltyCurve",
    "penalty_curve",
    "penalty_curves",
    "settled_minima",
]


WIDE, NARROW = 1.0, 0.05
"""The width that the caption names, and the one that Table 1 speaks for."""

TAUS = np.linspace(0.04, 0.96, 47)
NEAR: FloatArray = 0.02 * np.arange(-2.0, 3.0)
"""Distances from a minimum at which it is looked for again."""


@dataclass(frozen=True)
class PenaltyCurve:
    """The normalised penalty after regression at each tau, averaged over draws and rows.

    Attributes
    ----------
    positive : int
        Percentage of positive noise.
    kappa : float
        Huber width; sigma is 1.
    taus, penalty : ndarray, shape (m,)
        Asymmetries and penalties.
    minimum : float
        Where the penalty is least, by the parabola through the three lowest neighbours.
    error : float
        Monte Carlo standard error of `minimum`: that of the slope there, over the curvature.
    draws : int
        Number of draws.
    """

    positive: int
    kappa: float
    taus: FloatArray
    penalty: FloatArray
    minimum: float
    error: float
    draws: int


def _curve(positive: int, kappa: float, taus: FloatArray, values: FloatArray) -> PenaltyCurve:
    """Return the curve from the penalty of each draw at each tau, shape (draws, m)."""
    penalty = values.mean(axis=0)
    i = int(np.clip(np.argmin(penalty), 1, penalty.size - 2))
    step = float(taus[i + 1] - taus[i])
    slopes = (values[:, i + 1] - values[:, i - 1]) / (2.0 * step)
    curvature = float(penalty[i - 1] - 2.0 * penalty[i] + penalty[i + 1]) / step**2
    minimum = float(taus[i] - slopes.mean() / curvature)
    spread = float(slopes.std(ddof=1)) if len(values) > 1 else np.nan
    error = spread / (np.sqrt(len(values)) * curvature)
    return PenaltyCurve(positive, kappa, taus, penalty, minimum, error, len(values))


def _penalties(
    positive: int, repetitions: int, kappa: float, seed: int, taus: FloatArray
) -> FloatArray:
    """Return the mean penalty of each draw of Table 1 at each tau, shape (repetitions, m)."""
    values = np.empty((repetitions, taus.size))
    for repetition in range(repetitions):
        exog, endog = recovery_sample(positive, repetition, seed)
        for i, tau in enumerate(taus):
            values[repetition, i] = solve(exog, endog, kappa=kappa, sigma=1.0, tau=float(tau)).value
    return values / N_ROWS


def penalty_curve(
    positive: int,
    repetitions: int = 100,
    *,
    kappa: float = WIDE,
    seed: int = 0,
    taus: FloatArray = TAUS,
) -> PenaltyCurve:
    """Return the curve at one percentage of positive noise, on the draws of Table 1.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed: as in :func:`qhreg.paper.recovery.recovery_row`.
    kappa : float
        Huber width.
    taus : ndarray, shape (m,)
        Where, equally spaced.

    Examples
    --------
    >>> from qhreg.paper.penalty import penalty_curve
    >>> 0.7 < penalty_curve(100, repetitions=2).minimum < 0.9
    True
    """
    values = _penalties(positive, repetitions, kappa, seed, taus)
    return _curve(positive, kappa, taus, values)


def settled_minima(
    curves: Sequence[PenaltyCurve],
    repetitions: int,
    *,
    kappa: float = WIDE,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> tuple[PenaltyCurve, ...]:
    """Return the curves near their minima from more draws, rows that mirror each other pooled.

    The penalty at tau with p % positive noise has the law of that at 1 - tau with 100 - p %.

    Parameters
    ----------
    curves : sequence of PenaltyCurve
        Where the minima were found with fewer, in the order of Table 1.
    repetitions, seed : int
        As in :func:`penalty_curve`; the first draws are those of the curves.
    kappa : float
        Huber width.
    progress : callable, optional
        Told about each pair of rows before it is made.
    """
    half = len(curves) // 2
    upper, lower = [], []
    for curve, mirror in zip(curves[:half], curves[::-1], strict=False):
        pair = (curve.positive, mirror.positive)
        if progress is not None:
            progress(
                f"least penalty at kappa = {kappa:g}: {pair[0]} and {pair[1]} % positive noise"
            )
        taus: FloatArray = 0.5 * (curve.minimum + 1.0 - mirror.minimum) + NEAR
        values = np.concatenate(
            [
                _penalties(pair[0], repetitions, kappa, seed, taus),
                _penalties(pair[1], repetitions, kappa, seed, 1.0 - taus),
            ]
        )
        upper.append(_curve(pair[0], kappa, taus, values))
        lower.append(_curve(pair[1], kappa, 1.0 - taus[::-1], values[:, ::-1]))
    return (*upper, *lower[::-1])


def penalty_curves(
    repetitions: int = 100, *, seed: int = 0, progress: Callable[[str], object] | None = None
) -> tuple[PenaltyCurve, ...]:
    """Return the curves at every percentage of Table 1.

    Parameters
    ----------
    repetitions, seed
        As in :func:`penalty_curve`.
    progress : callable, optional
        Told about each curve before it is made.
    """
    curves = []
    for number, positive in enumerate(POSITIVE, 1):
        if progress is not None:
            progress(f"penalty, curve {number} of {len(POSITIVE)}: {positive} % positive noise")
        curves.append(penalty_curve(positive, repetitions, seed=seed))
    return tuple(curves)
