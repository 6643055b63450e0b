"""Covariances of a fit of rows in partitions: the passes of a fit in memory, of which sums travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.covariance import (
    CovarianceChoice,
    CovarianceEstimate,
    DesignMoments,
    design_moments,
    nonrobust_covariance,
)
from qhreg.covariance.bandwidth import quartile_range, window_width
from qhreg.covariance.choice import NEEDS_CASES
from qhreg.covariance.estimate import (
    Meat,
    finished,
    from_influence,
    from_meat,
    grouping_of,
    meat_of,
)
from qhreg.covariance.parts import Parts, assembled, require_seen, treated_as_known, wide_fit
from qhreg.covariance.sandwich import CORRECTIONS
from qhreg.covariance.scores import (
    CriterionHessian,
    loss_hessian,
    score_sum,
    standardized,
    with_normalizer,
)
from qhreg.engine.weighted_quantile import weighted_quantiles
from qhreg.exceptions import DomainError
from qhreg.partitions.rows import Part, PartitionedRows, stacked_factors
from qhreg.solver import Solution
from qhreg.solver.setup import sampled_rows
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations

__all__ = [
    "bread_of",
    "design_moments_of",
    "information_ratio",
    "partitioned_covariance",
    "score_of",
    "share_below_line",
]

BINS = 1024
"""Intervals around each quartile that rows are counted in: only those in one of them travel."""


def partitioned_covariance(
    choice: CovarianceChoice,
    data: ModelData,
    solution: Solution,
    bread: Callable[[], Parts],
    held: Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> CovarianceEstimate:
    """Return the covariance of the estimates; see :func:`qhreg.covariance.estimate_covariance`.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options; ``groups`` are names of columns.
    data : ModelData
        The model that was fitted; its observations are :class:`PartitionedRows`.
    solution : Solution
        Its fit.
    bread : callable
        Returns the bread of :func:`bread_of`, where a sandwich is asked for.
    held : sequence of str
        Estimated parameters to treat as known, besides tau on its bound.
    names : sequence of str, optional
        Names of all parameters, for the warning.
    """
    rows: Any = data.observations
    if choice.cov_type == "nonrobust":
        if rows.has_sampling_weights:
            raise DomainError(NEEDS_CASES)
        estimate = nonrobust_covariance(design_moments_of(rows), solution, data.space, held)
    elif choice.cov_type in CORRECTIONS:
        parts = bread()
        meat = rows.reduce(_meat, _summed_meat, choice, parts, rows.nobs)
        estimate = from_meat(choice, parts, meat, rows.nobs - solution.rank)
    elif choice.cov_type == "cluster":
        estimate = _clustered(choice, rows, bread())
    else:
        raise DomainError(
            f"cov_type={choice.cov_type!r} needs the rows in memory and in order: use nonrobust, HC0, "
            "HC1, HC2, HC3 or cluster here, or fit a sample of the rows by QuantileHuberMLE"
        )
    return finished(estimate, estimate.cov, estimate.identified, estimate.held_fixed, names)


# ---------------------------------------------------------------------- sums of the design


def design_moments_of(rows: PartitionedRows) -> DesignMoments:
    """Return the moments of all regressors."""
    moments: DesignMoments = rows.reduce(_moments, _combined_moments)
    return moments


def _moments(part: Part) -> DesignMoments:
    obs = part.observations
    return design_moments(obs.exog, obs.case_weights)


def _combined_moments(parts: list[DesignMoments]) -> DesignMoments:
    return DesignMoments(
        sum(part.weight_sum for part in parts),
        np.sum([part.column_sum for part in parts], axis=0),
        stacked_factors([part.factor for part in parts]),
    )


# ---------------------------------------------------------------------- the bread


def bread_of(data: ModelData, solution: Solution, held: Sequence[str]) -> Parts:
    """Return the parts of a sandwich but the rows: as covariance_parts, from sums.

    Parameters
    ----------
    data, solution, held
        As in :func:`partitioned_covariance`.
    """
    rows: Any = data.observations
    known = treated_as_known(solution, data.space, held)
    wide = wide_fit(data, solution, known, _window(rows, solution))
    sums, factor = rows.reduce(_loss, _summed_loss, wide)
    hessian = with_normalizer(sums, wide, rows.weight_sum, wide.p)
    nothing = Observations(np.empty((0, rows.n_columns)), np.empty(0))
    parts = assembled(nothing, data.space, solution, wide, known, hessian, factor)
    if parts.change.shape[1] - len(parts.extras) < solution.rank:
        require_seen(parts, factor, design_moments_of(rows).factor)
    return parts


_Loss = tuple[CriterionHessian, FloatArray]


def _loss(part: Part, wide: Solution) -> _Loss:
    """Return the derivatives of the loss of a partition, and the factor of its rows in the zone."""
    obs = part.observations
    sums = loss_hessian(obs, wide)
    factor = design_moments(obs.exog, sums.in_zone).factor
    return sums._replace(in_zone=np.empty(0)), factor


def _summed_loss(parts: list[_Loss]) -> _Loss:
    summed = (np.sum(each, axis=0) for each in zip(*(sums[1:] for sums, _ in parts), strict=True))
    return CriterionHessian(np.empty(0), *summed), stacked_factors([factor for _, factor in parts])


# ---------------------------------------------------------------------- the meat


def _meat(part: Part, choice: CovarianceChoice, parts: Parts, nobs: float) -> Meat:
    return meat_of(choice, replace(parts, observations=part.observations), nobs)


def _summed_meat(parts: list[Meat]) -> Meat:
    return Meat(
        np.sum([part.products for part in parts], axis=0),
        np.any([part.alone for part in parts], axis=0),
    )


def _clustered(choice: CovarianceChoice, rows: Any, parts: Parts) -> CovarianceEstimate:
    """Return the covariance of clusters: of sums of influences over those rows that share them all."""
    columns = choice.options["groups"]
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    sums: pd.DataFrame = rows.grouped(names).reduce(_group_sums, _summed_groups, parts)
    labels = [sums.index.get_level_values(level).to_numpy() for level in range(len(names))]
    inner = CovarianceChoice(
        "cluster", {**choice.options, "groups": labels if names[1:] else labels[0]}
    )
    grouping = grouping_of(inner, len(sums))
    return from_influence(inner, parts, sums.to_numpy(), None, grouping, rows.nobs)


def _group_sums(part: Part, parts: Parts) -> pd.DataFrame:
    """Return the sums of the influences of the rows of a partition by their labels."""
    obs = part.observations
    here = replace(parts, observations=obs)
    influence = here.influence if obs.endog.size else np.empty((0, here.change.shape[0]))
    if obs.freq_weights is not None:
        influence = influence * obs.freq_weights[:, None]
    return pd.DataFrame(influence).groupby(list(part.groups), sort=False).sum()


def _summed_groups(parts: list[pd.DataFrame]) -> pd.DataFrame:
    every = pd.concat(parts)
    return every.groupby(level=list(range(every.index.nlevels)), sort=False).sum()


# ---------------------------------------------------------------------- the window


class _Counts(NamedTuple):
    """Sums of w, w u and w u^2, and the weight of the rows between edges."""

    sums: FloatArray
    weight: FloatArray


class _Values(NamedTuple):
    """Distinct residuals, and their weights."""

    values: FloatArray
    weights: FloatArray


def _window(rows: PartitionedRows, fit: Solution) -> float:
    """Return the window of the bread, that of the same rows in memory.

    The intervals in which the quartiles of u and of -u lie are counted out first; then the rows in
    these, and no others, are looked at.
    """
    chosen = sampled_rows(rows)
    sample = rows.take(slice(None) if chosen is None else chosen)
    few = (sample.endog - sample.exog @ fit.beta) / fit.sigma
    ends = np.quantile(few, [0.2, 0.3, 0.7, 0.8]).tolist()
    edges = np.unique([np.linspace(a, b, BINS) for a, b in (ends[:2], ends[2:])])
    counts: _Counts = rows.reduce(_counts, _summed_counts, fit, edges)
    total, first, second = counts.sums
    places = np.arange(counts.weight.size, dtype=np.float64)
    levels = (0.25, 0.75)
    near = {int(place) for place in weighted_quantiles(places, levels, counts.weight)}
    near |= {int(-place) for place in weighted_quantiles(-places, levels, counts.weight)}
    seen: _Values = rows.reduce(_values, _summed_values, fit, edges, sorted(near))
    # all others of an interval stand at its lower end
    low = np.concatenate([[edges[0] - 1.0], edges])
    others = np.ones(counts.weight.size, dtype=bool)
    others[sorted(near)] = False
    middle = quartile_range(
        np.concatenate([seen.values, low[others]]),
        np.concatenate([seen.weights, counts.weight[others]]),
    )
    variance = second / total - (first / total) ** 2
    return window_width(float(variance), middle, fit.tau, rows.nobs)


def _weights(obs: Observations) -> FloatArray:
    return np.ones(obs.endog.size) if obs.case_weights is None else obs.case_weights


def _counts(part: Part, fit: Solution, edges: FloatArray) -> _Counts:
    obs = part.observations
    u, w = standardized(obs, fit), _weights(obs)
    interval = np.searchsorted(edges, u, side="right")
    weight: FloatArray = np.bincount(interval, w, minlength=edges.size + 1).astype(np.float64)
    return _Counts(np.array([w.sum(), w @ u, (w * u) @ u]), weight)


def _summed_counts(parts: list[_Counts]) -> _Counts:
    return _Counts(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


def _values(part: Part, fit: Solution, edges: FloatArray, near: list[int]) -> _Values:
    obs = part.observations
    u = standardized(obs, fit)
    inside = np.isin(np.searchsorted(edges, u, side="right"), near)
    return _summed_values([_Values(u[inside], _weights(obs)[inside])])


def _summed_values(parts: list[_Values]) -> _Values:
    values, place = np.unique(np.concatenate([p.values for p in parts]), return_inverse=True)
    weights = np.concatenate([p.weights for p in parts])
    total = np.bincount(place, weights, minlength=values.size).astype(np.float64)
    return _Values(values, total)


# ---------------------------------------------------------------------- other sums over the fit


def information_ratio(rows: PartitionedRows, parts: Parts) -> FloatArray:
    """Return the inverse bread times the meat, in inner coordinates: near one where the model holds."""
    meat: Meat = rows.reduce(_meat, _summed_meat, CovarianceChoice("HC0"), parts, rows.nobs)
    return parts.inner @ meat.products


def score_of(rows: PartitionedRows, solution: Solution, free: Sequence[str]) -> FloatArray:
    """Return the derivative of the log-likelihood of all rows."""
    score: FloatArray = rows.reduce(_score, _sum, solution, free)
    return score


def _score(part: Part, solution: Solution, free: Sequence[str]) -> FloatArray:
    obs = part.observations
    extras = {"weights": obs.case_weights, "offset": obs.offset}
    return score_sum(obs.exog, obs.endog, solution, free=free, **extras)


def share_below_line(rows: PartitionedRows, fit: Solution, slack: float) -> float:
    """Return the share of the weight more than a slack, in units of sigma, below the line."""
    below, total = rows.reduce(_below, _sum, fit, slack)
    return float(below / total)


def _below(part: Part, fit: Solution, slack: float) -> FloatArray:
    w = _weights(part.observations)
    return np.array([w @ (standardized(part.observations, fit) < -slack), w.sum()])


def _sum(parts: list[FloatArray]) -> FloatArray:
    return np.asarray(np.sum(parts, axis=0))
