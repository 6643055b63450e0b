"""Prediction intervals by cross-validation: CV+, the jackknife+ with folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.folds import Folds
from qhreg.boosting.trees import TreeSum
from qhreg.boosting.twostep import TwoStepFit

__all__ = ["FoldModel", "cross_interval", "fold_models"]


BISECTIONS = 60
"""Halvings that leave less of a range of floating-point numbers than their rounding."""


class FoldModel(NamedTuple):
    r"""The model of one fold and what it left of the rows that test it.

    Attributes
    ----------
    location, spread : TreeSum
        f and s.
    residuals : ndarray
        :math:`u = (y - f(x))\,e^{-s(x)}` of the rows held out, in increasing order.
    """

    location: TreeSum
    spread: TreeSum
    residuals: FloatArray


def fold_models(fit: TwoStepFit, folds: Folds) -> list[FoldModel]:
    """Return the models behind the out-of-fold residuals of a fit."""
    locations = fit.location_folds.sums
    spreads = [fit.spread] * len(locations) if fit.spread_folds is None else fit.spread_folds.sums
    return [
        FoldModel(location, spread, np.sort(fit.residuals[rows[folds.test_weights[rows] > 0.0]]))
        for location, spread, rows in zip(locations, spreads, folds.predicted, strict=True)
    ]


def cross_interval(models: Sequence[FoldModel], exog: Any, coverage: float) -> FloatArray:
    r"""Return intervals for new rows from the models of the folds and their out-of-fold residuals.

    With :math:`u_i` the residual of row i under the model :math:`(f_{k(i)}, s_{k(i)})` that has not seen
    it, and :math:`\alpha` one minus the coverage, the ends for x are the
    :math:`\lfloor(n + 1)\alpha/2\rfloor`-th least and the :math:`\lceil(n + 1)(1 - \alpha/2)\rceil`-th
    least of the n values :math:`f_{k(i)}(x) + e^{s_{k(i)}(x)} u_i`. For exchangeable rows, whatever
    their law, such an interval contains a new response with a probability of at least about
    :math:`1 - 2\alpha`, in practice about :math:`1 - \alpha` (Barber, Candes, Ramdas & Tibshirani 2021,
    section 3). Ends for which there are too few rows are infinite. Case weights play no part.

    Parameters
    ----------
    models : sequence of FoldModel
        One for each fold.
    exog : array, shape (m, p)
        Features of the new rows.
    coverage : float
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (m, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.conformal import FoldModel, cross_interval
    >>> from qhreg.boosting.trees import TreeSum
    >>> model = FoldModel(TreeSum(10.0, None), TreeSum(0.0, None), np.arange(-9.0, 10.0))
    >>> cross_interval([model], np.zeros((1, 2)), 0.9).round(6).tolist()
    [[1.0, 19.0]]
    """
    n = sum(model.residuals.size for model in models)
    tail = Fraction(1) - Fraction(coverage).limit_denominator(10**9)
    lower = math.floor((n + 1) * tail / 2)
    shifts = [
        (model.location.predict(exog), np.exp(model.spread.predict(exog)), model.residuals)
        for model in models
    ]
    ends = np.full((exog.shape[0], 2), [-np.inf, np.inf])
    if lower >= 1:
        ends[:, 0] = _order_statistic(shifts, lower)
        ends[:, 1] = _order_statistic(shifts, n + 1 - lower)
    return ends


def _order_statistic(
    shifts: Sequence[tuple[FloatArray, FloatArray, FloatArray]], rank: int
) -> FloatArray:
    """Return the value of a rank among all f_k + s_k u_i, by bisection: no n x m array is made."""
    low: FloatArray = np.min([f + s * u[0] for f, s, u in shifts], axis=0)
    high: FloatArray = np.max([f + s * u[-1] for f, s, u in shifts], axis=0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        below = sum(np.searchsorted(u, (middle - f) / s, side="right") for f, s, u in shifts)
        low, high = np.where(below >= rank, low, middle), np.where(below >= rank, middle, high)
    return high
