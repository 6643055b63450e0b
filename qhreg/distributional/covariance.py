r"""Covariance of the coefficients of location, scale and asymmetry.

The nonrobust one is the inverse of the expected information (QH-53), the robust ones are sandwiches
with the products of the scores (QH-51) as meat and the Hessian (QH-52) as bread, whose entry of the
location with itself counts rows in a zone of the width that :mod:`qhreg.covariance.oldwidth` chooses,
at the mean of the asymmetries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance import NEEDS_CASES, CovarianceEstimate, check_width, require_more_rows, uneven
from qhreg.covariance.oldwidth import chosen_width
from qhreg.covariance.bread import bread_inverse, lost_scores
from qhreg.covariance.cautions import warn_confined, warn_helped, warn_lost, warn_negative
from qhreg.covariance.choice import CovarianceChoice
from qhreg.covariance.confined import confined
from qhreg.covariance.curvature import RowWeights
from qhreg.covariance.dependence import clustered, group_codes, lags, serial
from qhreg.covariance.dependent import NEEDS_PERIODS, moved
from qhreg.covariance.orthonormal import inverse_of
from qhreg.covariance.scores import Point, Sample
from qhreg.distributional.coordinates import Coordinates, block_basis, coordinates
from qhreg.distributional.likelihood import (
    BLOCKS,
    Regression,
    RowState,
    assemble,
    evaluate,
    hessian_factors,
    information_factors,
    score_factors,
)
from qhreg.exceptions import DomainError

__all__ = ["distributional_covariance", "score_rows"]


def score_rows(data: Regression, state: RowState) -> FloatArray:
    """Return the score of each row without its weight, shape (n, p + q + r)."""
    factors = score_factors(state)
    parts = [design * f[:, None] for design, f in zip(data.designs, factors, strict=True)]
    return np.hstack(parts)


def distributional_covariance(
    data: Regression,
    params: FloatArray,
    choice: CovarianceChoice,
    *,
    freq_weights: FloatArray | None = None,
    weights: FloatArray | None = None,
    held: tuple[str, ...] = (),
    names: Sequence[str] | None = None,
) -> CovarianceEstimate:
    """Return the covariance matrix of the estimates.

    Parameters
    ----------
    data : Regression
        The data; its weights are the product of the two kinds.
    params : ndarray
        The estimates.
    choice : CovarianceChoice
        Type and options: "nonrobust", "HC0", "HC1", "cluster" or "HAC".
    freq_weights, weights : ndarray, shape (n,), or None
        Counts; sampling weights.
    held : tuple of str
        Blocks to treat as known: their rows and columns are zero.
    names : sequence of str or None
        Names of the parameters, for warnings.

    Returns
    -------
    CovarianceEstimate
        `free` and `held_fixed` name blocks.
    """
    log_sigma = data.predictors(params)[1]
    unit = float(np.exp(log_sigma.mean()))
    sigma = np.exp(log_sigma - log_sigma.mean())
    bases = (block_basis(data.location, sigma), block_basis(data.scale), block_basis(data.tau))
    place = coordinates(data, params[data.block("location")], unit, bases)
    inner = place.inner(data.split(params))
    # the location was moved to zero and weights were divided by their mean; neither matters here
    within = replace(place.data, weights=data.weights)
    state = evaluate(within, inner)
    info = assemble(within, information_factors(state))
    kept, held = _informed(within, info, held)
    if choice.cov_type == "nonrobust":
        if weights is not None:
            raise DomainError(NEEDS_CASES)
        cov = inverse_of(info[np.ix_(kept, kept)])
        text = "inverse expected information; valid when the noise follows the model."
        if cov is None:
            cov = np.full((kept.size, kept.size), np.nan)
            text = "the expected information is singular, and no standard errors exist."
        return _estimate(place, cov, kept, choice, text, held, None, None, {})
    return _sandwich(place, within, state, info, kept, held, choice, freq_weights, weights, names)


def _informed(
    data: Regression, info: FloatArray, held: tuple[str, ...]
) -> tuple[npt.NDArray[np.intp], tuple[str, ...]]:
    """Return the parameters that are neither held nor without information, and the blocks that are.

    About tau the data say nothing when every row lies in the zone.
    """
    names = [name for name in BLOCKS if name not in held]
    if "tau" in names:
        rest = [np.arange(data.size)[data.block(name)] for name in names if name != "tau"]
        others = np.concatenate([np.empty(0, dtype=np.intp), *rest])
        place = data.block("tau")
        inverse = inverse_of(info[np.ix_(others, others)])
        block = info[place, place]
        if inverse is not None and block.size:
            cross = info[place, others]
            left = block - cross @ inverse @ cross.T
            share = float(np.trace(left)) / max(float(np.trace(block)), 1e-300)
            if not share > 1e-10:
                names, held = [name for name in names if name != "tau"], (*held, "tau")
    kept = [np.arange(data.size)[data.block(name)] for name in names]
    return np.concatenate([np.empty(0, dtype=np.intp), *kept]), held


def _sandwich(
    place: Coordinates,
    data: Regression,
    state: RowState,
    info: FloatArray,
    kept: npt.NDArray[np.intp],
    held: tuple[str, ...],
    choice: CovarianceChoice,
    freq: FloatArray | None,
    prob: FloatArray | None,
    names: Sequence[str] | None,
) -> CovarianceEstimate:
    """Return a robust covariance."""
    n, size, options = data.endog.size, kept.size, choice.options
    counted = np.ones(n) if freq is None else freq
    nobs = float(counted.sum() if prob is None else counted[prob > 0.0].sum())
    require_more_rows(choice.cov_type, nobs, size)
    width = _width(data, state, nobs, options.get("width"))
    bread = assemble(data, hessian_factors(state, width))[np.ix_(kept, kept)]
    rows = score_rows(data, state)[:, kept]
    weighted = rows if data.weights is None else rows * data.weights[:, None]
    root = rows if prob is None else rows * prob[:, None]
    root = root if freq is None else root * np.sqrt(freq)[:, None]
    meat, r = root.T @ root, 0 if "location" in held else data.sizes[0]
    expected = info[np.ix_(kept, kept)]
    lost = lost_scores(bread, meat, expected, r)
    inverse, helped = bread_inverse(bread if lost is None else lost.bread, expected, r)
    if helped:
        warn_helped(choice.cov_type, helped)
        helped = f", bread with {helped}"
    used: dict[str, Any] = {"width": width}
    negative: tuple[int, ...] = ()
    df = None
    if choice.cov_type in ("HC0", "HC1"):
        inner = inverse @ meat @ inverse
        inner = inner * (nobs / (nobs - size)) if choice.cov_type == "HC1" else inner
        text = f"heteroskedasticity-robust sandwich ({choice.cov_type})"
    elif choice.cov_type == "cluster":
        codes = group_codes(options["groups"], n, data.weights)
        correct = options.get("use_correction") is not False
        unseen = _Unseen(place, state, RowWeights(freq, prob, nobs), held, kept, inverse)
        dependent = clustered(weighted, inverse, codes, nobs, correct, unseen)
        inner = dependent.cov
        negative = dependent.negative(place.jacobian()[:, kept])
        if unseen.touched:
            warn_confined(tuple(sorted(unseen.touched)), names)
            helped += f", rows for {len(unseen.touched)} coefficients identified by one cluster"
        df = int(min(code.max() for code in codes))
        used["n_groups"] = tuple(int(code.max()) + 1 for code in codes)
        text = f"clustered sandwich, {' x '.join(map(str, used['n_groups']))} clusters"
    elif choice.cov_type == "HAC":
        if freq is not None:
            raise DomainError(NEEDS_PERIODS)
        used["maxlags"] = lags(options.get("maxlags"), n)
        kernel = options.get("kernel") or "bartlett"
        correct = bool(options.get("use_correction"))
        dependent = serial(weighted, inverse, used["maxlags"], kernel, correct)
        inner = dependent.cov
        negative = dependent.negative(place.jacobian()[:, kept])
        text = f"heteroskedasticity- and autocorrelation-robust sandwich, {used['maxlags']} lags"
    else:
        raise DomainError(
            "cov_type must be one of nonrobust, HC0, HC1, cluster, HAC for this model; got "
            f"{choice.cov_type!r}"
        )
    if lost is not None:
        warn_lost(choice.cov_type, lost)
        helped += f", means for {lost.text} whose rows are fitted exactly"
        inner = inner + inverse @ lost.meat @ inverse
    elif prob is not None and r:
        exog = place.given.location / state.sigma[:, None]
        helped += uneven(choice.cov_type, exog, RowWeights(freq, prob, nobs), size, names)
    if negative:
        warn_negative(choice.cov_type, negative, names)
    text += f"{helped}; bread smoothed over a window of {width:.3g} sigma."
    return _estimate(place, inner, kept, choice, text, held, df, width, used)


class _Unseen:
    """The covariance that sums over clusters do not show, of what one of them decides alone.

    Attributes
    ----------
    touched : set of int
        The parameters that have a part in it, once it was asked for.
    """

    def __init__(
        self,
        place: Coordinates,
        state: RowState,
        weights: RowWeights,
        held: tuple[str, ...],
        kept: npt.NDArray[np.intp],
        inverse: FloatArray,
    ) -> None:
        blocks = [b for b, name in enumerate(BLOCKS) if name not in held and place.data.sizes[b]]
        self.designs = [place.data.designs[b] for b in blocks]
        self.slopes = np.array(score_factors(state))[blocks].T
        self.weights, self.inverse = weights, inverse
        self.jacobian = place.jacobian()[:, kept]
        self.touched: set[int] = set()

    def __call__(self, codes: npt.NDArray[np.intp]) -> FloatArray | None:
        """Return the covariance for clusters, None where no cluster decides anything alone."""
        if not self.designs:
            return None
        alone = confined(self.designs, self.slopes, self.weights, codes, self.inverse)
        if alone is None:
            return None
        self.touched.update(moved(self.jacobian @ alone.directions))
        return alone.cov


def _width(data: Regression, state: RowState, nobs: float, width: float | None) -> float:
    """Return the width of the zone in the bread, at the mean asymmetry."""
    check_width(width)
    tau = float(np.average(state.tau, weights=data.weights))
    rows = Sample(
        np.empty((state.u.size, 0)), state.u, None, Point(np.empty(0), 1.0, tau, data.kappa)
    )
    return chosen_width(rows, data.weights, nobs, width)


def _estimate(
    place: Coordinates,
    inner: FloatArray,
    kept: npt.NDArray[np.intp],
    choice: CovarianceChoice,
    text: str,
    held: tuple[str, ...],
    df: int | None,
    width: float | None,
    options: dict[str, Any],
) -> CovarianceEstimate:
    jacobian = place.jacobian()[:, kept]
    notes = "".join(f" The coefficients of {name} are treated as known." for name in held)
    return CovarianceEstimate(
        jacobian @ inner @ jacobian.T,
        choice.cov_type,
        f"Covariance: {text}{notes}",
        BLOCKS,
        held,
        df,
        width,
        options,
    )
