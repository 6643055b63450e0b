r"""The default scheme: learn the shape at tau = 1/2, then infer the noise from out-of-fold residuals.

1. **Location.** Trees for f with folds held out, on Huber's gradient. The number of stages is that with
   the best likelihood of the rows held out at tau = 1/2, sigma fitted to them.
2. **Spread**, if asked for. Trees for s = log sigma by row, on the natural gradient of the out-of-fold
   residuals, in the same way.
3. **Noise.** Level, sigma and tau once, by maximum likelihood from :math:`(y - f(x))\,e^{-s(x)}` of the
   rows held out: they are those of the noise, and not of what is yet to be learnt.
4. **All rows.** The same number of trees, grown on all rows.

Intervals that need no law are those of CV+, the jackknife+ with folds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.noise import (
    HERE,
    Noise,
    Pool,
    fit_noise,
    location_gradient,
    spread_gradient,
    symmetric_scale,
)
from qhreg.boosting.trees import CrossFit, Folds, Growth, Stage, TreeSum


@dataclass(frozen=True)
class TwoStepFit:
    r"""The model :math:`y = f(x) + e^{s(x)} u` with quantile Huber noise u.

    Attributes
    ----------
    location, spread : TreeSum
        f, and s (zero where the spread is constant).
    noise : Noise
        The law of u.
    location_folds, spread_folds : CrossFit, CrossFit or None
        The trees behind the out-of-fold residuals.
    residuals : ndarray, shape (n,)
        u of each row by the trees of its fold.
    """

    location: TreeSum
    spread: TreeSum
    noise: Noise
    location_folds: CrossFit
    spread_folds: CrossFit | None
    residuals: FloatArray


def fit_two_step(
    growth: Growth,
    endog: FloatArray,
    *,
    kappa: float,
    tau: float | None,
    sigma: float | None,
    boost_spread: bool,
    pool: Pool = HERE,
) -> TwoStepFit:
    """Return the fitted model.

    Parameters
    ----------
    growth : Growth
        Features, folds, and how trees are grown.
    endog : ndarray, shape (n,)
        Response.
    kappa, tau, sigma : float, float or None, float or None
        Huber width; noise parameters that are fixed.
    boost_spread : bool
        Whether sigma depends on the row.
    pool : Pool
        Where the rows are.
    """
    tested = growth.folds.test_weights > 0.0
    test_weights = growth.folds.test_weights[tested]

    def noise_of(residuals: FloatArray, near: Noise | None = None) -> Noise:
        values = residuals[tested]
        return fit_noise(
            values, test_weights, kappa=kappa, tau=tau, sigma=sigma, near=near, pool=pool
        )

    def judge_location(f: FloatArray, near: Stage | None) -> Stage:
        residuals = endog - f
        noise = noise_of(residuals, None if near is None else near.noise)
        return Stage(*symmetric_scale(residuals[tested], test_weights, kappa, pool), noise)

    location = growth.cross_fit(
        lambda f, w, sigma: location_gradient(endog - f, w, kappa * sigma),
        lambda w: pool.median(endog, w),
        judge_location,
    )
    residuals = endog - location.predictions
    if not boost_spread or pool.range(residuals) == (0.0, 0.0):
        noise = noise_of(residuals)
        mean = noise.mean  # to the first tree: the booster then predicts the mean
        return TwoStepFit(
            location.every.in_first_tree(mean),
            TreeSum(0.0, None),
            replace(noise, level=noise.level - mean),
            location,
            None,
            residuals,
        )

    def judge_spread(s: FloatArray, _: Stage | None) -> Stage:
        s, values = s[tested], residuals[tested]
        weight, weighted = pool.total(test_weights.sum(), test_weights @ s)
        sigma, loss = symmetric_scale(values * np.exp(-s), test_weights, kappa, pool)
        return Stage(sigma, loss + float(weighted / weight), None)

    spread = growth.cross_fit(
        lambda s, w, _: spread_gradient(residuals, s, w, kappa),
        lambda w: math.log(symmetric_scale(residuals, w, kappa, pool)[0]),
        judge_spread,
    )
    residuals = residuals * np.exp(-spread.predictions)
    return TwoStepFit(
        location.every.in_first_tree(),
        spread.every.in_first_tree(),
        noise_of(residuals),
        location,
        spread,
        residuals,
    )


# ---------------------------------------------------------------------- intervals by CV+


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
    >>> from qhreg.boosting.twostep import FoldModel, cross_interval
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
    for _ in range(np.finfo(np.float64).bits):  # what is left is less than rounding
        middle = 0.5 * (low + high)
        below = sum(np.searchsorted(u, (middle - f) / s, side="right") for f, s, u in shifts)
        low, high = np.where(below >= rank, low, middle), np.where(below >= rank, middle, high)
    return high
