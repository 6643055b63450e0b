r"""The default scheme: learn the shape at tau = 1/2, then infer the noise from out-of-fold residuals.

1. **Location.** Trees for f with folds held out, on Huber's gradient. The number of stages is that with
   the best likelihood of the rows held out at tau = 1/2, sigma fitted to them.
2. **Spread**, if asked for. Trees for s = log sigma by row, on the natural gradient of the out-of-fold
   residuals, in the same way.
3. **Noise.** Level, sigma and tau once, by maximum likelihood from :math:`(y - f(x))\,e^{-s(x)}` of the
   rows held out: they are those of the noise, and not of what is yet to be learnt.
4. **All rows.** The same number of trees, grown on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.folds import Folds
from qhreg.boosting.noise import Noise, fit_noise
from qhreg.boosting.pool import HERE, Pool
from qhreg.boosting.shape import location_gradient, spread_gradient, symmetric_scale
from qhreg.boosting.trees import CrossFit, Gradient, Stage, TreeSum, cross_fit, grow

__all__ = ["TwoStepFit", "fit_two_step"]


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
    data: lgb.Dataset,
    endog: FloatArray,
    folds: Folds,
    options: dict[str, Any],
    *,
    kappa: float,
    tau: float | None,
    sigma: float | None,
    boost_spread: bool,
    max_stages: int,
    patience: int | None,
    pool: Pool = HERE,
) -> TwoStepFit:
    """Return the fitted model.

    Parameters
    ----------
    data : lightgbm.Dataset
        Features of all rows.
    endog : ndarray, shape (n,)
        Response.
    folds : Folds
        Which rows teach and which test.
    options : dict
        LightGBM's parameters.
    kappa, tau, sigma : float, float or None, float or None
        Huber width; noise parameters that are fixed.
    boost_spread : bool
        Whether sigma depends on the row.
    max_stages, patience : int, int or None
        Most stages; stages without a better score after which to stop.
    pool : Pool
        Where the rows are.
    """
    tested = folds.test_weights > 0.0
    test_weights = folds.test_weights[tested]

    def noise_of(residuals: FloatArray, near: Noise | None = None) -> Noise:
        values = residuals[tested]
        return fit_noise(
            values, test_weights, kappa=kappa, tau=tau, sigma=sigma, near=near, pool=pool
        )

    def trees(
        gradient: Gradient,
        constant: Callable[[FloatArray], float],
        score: Callable[[FloatArray, Stage | None], Stage],
    ) -> tuple[CrossFit, TreeSum]:
        crossed = cross_fit(
            data,
            options,
            gradient,
            constant,
            score,
            folds,
            max_stages=max_stages,
            patience=patience,
        )
        if len(crossed.sums) == 1:  # the fold had all training rows
            return crossed, crossed.sums[0]
        sigmas = [stage.sigma for stage in crossed.stages[: crossed.n_stages]]
        base = constant(folds.weights)
        return crossed, grow(data, options, gradient, base, folds.weights, sigmas)

    def judge_location(f: FloatArray, near: Stage | None) -> Stage:
        residuals = endog - f
        noise = noise_of(residuals, None if near is None else near.noise)
        return Stage(*symmetric_scale(residuals[tested], test_weights, kappa, pool), noise)

    location_folds, location = trees(
        lambda f, w, sigma: location_gradient(endog - f, w, kappa * sigma),
        lambda w: pool.median(endog, w),
        judge_location,
    )
    residuals = endog - location_folds.predictions
    if not boost_spread or pool.range(residuals) == (0.0, 0.0):
        noise = noise_of(residuals)
        mean = noise.mean  # to the first tree: the booster then predicts the mean
        return TwoStepFit(
            location.in_first_tree(mean),
            TreeSum(0.0, None),
            replace(noise, level=noise.level - mean),
            location_folds,
            None,
            residuals,
        )

    def judge_spread(s: FloatArray, _: Stage | None) -> Stage:
        s, values = s[tested], residuals[tested]
        weight, weighted = pool.total(test_weights.sum(), test_weights @ s)
        sigma, loss = symmetric_scale(values * np.exp(-s), test_weights, kappa, pool)
        return Stage(sigma, loss + float(weighted / weight), None)

    spread_folds, spread = trees(
        lambda s, w, _: spread_gradient(residuals, s, w, kappa),
        lambda w: math.log(symmetric_scale(residuals, w, kappa, pool)[0]),
        judge_spread,
    )
    residuals = residuals * np.exp(-spread_folds.predictions)
    return TwoStepFit(
        location.in_first_tree(),
        spread.in_first_tree(),
        noise_of(residuals),
        location_folds,
        spread_folds,
        residuals,
    )
