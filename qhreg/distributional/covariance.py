r"""Covariance of the coefficients of location, scale and asymmetry.

The nonrobust one is the inverse of the expected information (QH-53). The robust ones are the sandwich of
:mod:`qhreg.covariance.sandwich` with the scores (QH-51) of the fit, and with the Hessian (QH-52) at the
wider width of :mod:`qhreg.covariance.bandwidth`, at its own maximum. With one scale and one asymmetry
they are those of the linear model fitted by maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.bandwidth import bread_window
from qhreg.covariance.choice import COVARIANCE_TYPES, NEEDS_CASES, CovarianceChoice
from qhreg.covariance.estimate import CovarianceEstimate, grouping_of, warn_unidentified
from qhreg.covariance.parts import LOADING, Inverse, positive_inverse
from qhreg.covariance.sandwich import LEVERAGE_ONE, sandwich
from qhreg.distributional.coordinates import Coordinates, block_basis, coordinates
from qhreg.distributional.fit import widened
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
from qhreg.specification.observations import Observations

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
    observations: Observations,
    *,
    held: tuple[str, ...] = (),
    tau_bounds: tuple[float, float] = (0.0, 1.0),
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
        Type and options; not "bootstrap".
    observations : Observations
        The same rows, with both kinds of weights.
    held : tuple of str
        Blocks to treat as known: their rows and columns are zero.
    tau_bounds : (float, float)
        Range of the asymmetry of every row.
    names : sequence of str or None
        Names of the parameters, for the warning.

    Returns
    -------
    CovarianceEstimate
        `held_fixed` names blocks.

    Warns
    -----
    CurvatureWarning
        Some parameters have no standard error.
    """
    place = _place(data, params)
    within = replace(place.data, weights=data.weights)
    inner = place.inner(data.split(params))
    kept = np.concatenate(
        [
            np.arange(within.size)[within.block(name)] if name not in held else np.empty(0, int)
            for name in BLOCKS
        ]
    ).astype(np.intp)
    jacobian = place.jacobian()[:, kept]
    weight = float(data.endog.size if data.weights is None else data.weights.sum())
    state = evaluate(within, inner)
    df = None
    more = "".join(f" The coefficients of {name} are treated as known." for name in held)
    text = COVARIANCE_TYPES[choice.cov_type].description
    if choice.cov_type == "nonrobust":
        if observations.weights is not None:
            raise DomainError(NEEDS_CASES)
        info = assemble(within, information_factors(state))[np.ix_(kept, kept)]
        inverse = positive_inverse(info, weight)
        cov, alone = inverse.inverse, np.zeros(data.size, dtype=bool)
    else:
        grouping = grouping_of(choice, data.endog.size, data.weights)
        tau = float(np.average(state.tau, weights=data.weights))
        window = bread_window(state.u, tau, observations.nobs, data.weights)
        wide = replace(within, kappa=math.hypot(data.kappa, window))
        near = replace(place.data, kappa=wide.kappa)  # its weights are one on average
        wide_state = evaluate(wide, widened(near, inner, held, tau_bounds))
        bread = assemble(wide, hessian_factors(wide_state))[np.ix_(kept, kept)]
        inverse = positive_inverse(bread, weight)
        leverage, alone = _leverage(place, wide_state, observations)
        scores = score_rows(within, state)[:, kept]
        cov = sandwich(
            scores if observations.weights is None else scores * observations.weights[:, None],
            inverse.inverse,
            leverage=leverage,
            nobs=observations.nobs,
            df_resid=observations.nobs - place.data.sizes[0],
            freq=observations.freq_weights,
            **grouping.keywords,
        )
        df, text = grouping.df, f"{text}{grouping.text}"
        if choice.cov_type not in ("HC2", "HC3"):
            alone[:] = False
    return _estimate(choice, cov, jacobian, inverse, alone, held, df, f"{text}.{more}", names)


def _place(data: Regression, params: FloatArray) -> Coordinates:
    """Return coordinates in which rows divided by their scale have orthonormal columns."""
    log_sigma = data.predictors(params)[1]
    middle = float(log_sigma.mean())
    sigma = np.exp(log_sigma - middle)
    bases = (block_basis(data.location, sigma), block_basis(data.scale), block_basis(data.tau))
    return coordinates(data, params[data.block("location")], math.exp(middle), bases)


def _leverage(
    place: Coordinates, state: RowState, observations: Observations
) -> tuple[FloatArray, BoolArray]:
    """Return the leverage of one observation of each row, and which parameters one row decides."""
    design, back = place.data.location, place.bases[0].back
    weights, prob = observations.case_weights, observations.weights
    curvature = state.inside / state.sigma**2
    counted = curvature if weights is None else curvature * weights
    gram = positive_inverse(design.T @ (design * counted[:, None]), float(counted.sum()))
    moved = design @ gram.inverse
    leverage = np.einsum("ij,ij->i", moved, design) * curvature
    leverage = leverage if prob is None else leverage * prob
    alone = np.zeros(place.given.size, dtype=bool)
    rows = np.flatnonzero(1.0 - leverage <= LEVERAGE_ONE)
    if rows.size:
        length = np.sqrt(np.einsum("ij,jk,ik->i", back, gram.inverse, back))[:, None]
        reach = np.abs(back @ moved[rows].T) > LOADING * length
        alone[place.given.block("location")] = reach.any(axis=1)
    return leverage, alone


def _estimate(
    choice: CovarianceChoice,
    inner: FloatArray,
    jacobian: FloatArray,
    inverse: Inverse,
    alone: BoolArray,
    held: tuple[str, ...],
    df: float | None,
    text: str,
    names: Sequence[str] | None,
) -> CovarianceEstimate:
    """Return the covariance of the given parameters, NaN where they are not identified."""
    cov = jacobian @ inner @ jacobian.T
    identified = ~(inverse.moved(jacobian) | alone)
    if not identified.all():
        cov[~identified] = cov[:, ~identified] = np.nan
        warn_unidentified(identified, names)
    return CovarianceEstimate(
        cov, choice.cov_type, f"Covariance: {text}", held, identified, df, dict(choice.options)
    )
