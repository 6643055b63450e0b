"""The mean normalised penalty at fixed tau, by plain quantile Huber regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qhreg.paper.printed import POSITIVE
from qhreg.paper.recovery import N_ROWS, recovery_sample
from qhreg.solver import solve

__all__ = ["PenaltyCurve", "penalty_curve", "penalty_curves", "precise_minima"]

FloatArray = npt.NDArray[np.float64]

TAUS = np.linspace(0.04, 0.96, 47)


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
    """

    positive: int
    kappa: float
    taus: FloatArray
    penalty: FloatArray
    minimum: float


def _lowest(x: FloatArray, y: FloatArray) -> float:
    """Return where the parabola through the lowest point and its neighbours is least."""
    i = int(np.clip(np.argmin(y), 1, y.size - 2))
    left, middle, right = y[i - 1 : i + 2]
    shift = 0.5 * (left - right) / (left - 2.0 * middle + right)
    return float(x[i] + shift * (x[i + 1] - x[i]))


def penalty_curve(
    positive: int,
    repetitions: int = 100,
    *,
    kappa: float = 1.0,
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
    total = np.zeros(taus.size)
    for repetition in range(repetitions):
        exog, endog = recovery_sample(positive, repetition, seed)
        for i, tau in enumerate(taus):
            total[i] += solve(exog, endog, kappa=kappa, sigma=1.0, tau=float(tau)).value
    penalty = total / (repetitions * N_ROWS)
    return PenaltyCurve(positive, kappa, taus, penalty, _lowest(taus, penalty))


def precise_minima(
    curves: Sequence[PenaltyCurve], repetitions: int, *, seed: int = 0
) -> tuple[PenaltyCurve, ...]:
    """Return the curves near their minima from more draws.

    Parameters
    ----------
    curves : sequence of PenaltyCurve
        Where the minima were found with fewer.
    repetitions, seed : int
        As in :func:`penalty_curve`; the first draws are those of the curves.
    """
    made = []
    for curve in curves:
        step = curve.taus[1] - curve.taus[0]
        taus = curve.minimum + step * np.arange(-2, 3)
        made.append(
            penalty_curve(curve.positive, repetitions, kappa=curve.kappa, seed=seed, taus=taus)
        )
    return tuple(made)


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
    for positive in POSITIVE:
        if progress is not None:
            progress(f"penalty at fixed tau, {positive} % positive")
        curves.append(penalty_curve(positive, repetitions, seed=seed))
    return tuple(curves)
