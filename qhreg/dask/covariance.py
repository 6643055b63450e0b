"""Covariances of a fit of rows on Dask: the same passes as for arrays, of which only sums travel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from statsmodels.tools.sm_exceptions import ModelWarning

from qhreg._typing import FloatArray
from qhreg.covariance import (
    CovarianceChoice,
    CovarianceEstimate,
    DesignMoments,
    design_moments,
    nonrobust_covariance,
)
from qhreg.covariance.bandwidth import quartile_range, window_width
from qhreg.covariance.estimate import Meat, finished, from_meat, meat_of
from qhreg.covariance.parts import Parts, assembled
from qhreg.covariance.scores import CriterionHessian, loss_hessian, standardized, with_normalizer
from qhreg.dask.rows import DaskRows
from qhreg.engine.rows import ArrayRows
from qhreg.exceptions import RankWarning
from qhreg.solver import Solution, solve_rows
from qhreg.solver.problem import Task
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

__all__ = ["dask_covariance"]


SAMPLED = 4000
"""Rows whose quartiles say where to look for those of all rows."""

NEAR = 0.03
"""Share of the rows on either side of these that are looked at: four standard errors and more."""


def dask_covariance(
    cov_type: str,
    rows: DaskRows,
    task: Task,
    solution: Solution,
    space: ParameterSpace,
    names: Sequence[str],
) -> CovarianceEstimate:
    """Return the covariance of the estimates of rows on Dask.

    Parameters
    ----------
    cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2"}
        The type.
    rows : DaskRows
        The data.
    task : Task
        What was fitted.
    solution : Solution
        The fit.
    space : ParameterSpace
        The parameters.
    names : sequence of str
        Names of all parameters.
    """
    if cov_type == "nonrobust":
        made = nonrobust_covariance(_moments(rows), solution, space)
    else:
        choice = CovarianceChoice(cov_type)
        parts = _bread(rows, task, solution, space)
        shares: list[Meat] = rows.map(_meat, choice, parts, rows.weight_sum)
        meat = Meat(
            np.sum([share.products for share in shares], axis=0),
            np.any([share.alone for share in shares], axis=0),
        )
        made = from_meat(choice, parts, meat, rows.weight_sum - solution.rank)
    return finished(made, made.cov, made.identified, made.held_fixed, names)


def _observations(part: ArrayRows) -> Observations:
    """Return the rows of a partition; an offset was taken from the response already."""
    assert part.endog is not None
    exog, endog = (np.asarray(each, dtype=np.float64) for each in (part.exog, part.endog))
    return Observations(exog, endog, None, part.weights)


def _meat(part: ArrayRows, choice: CovarianceChoice, parts: Parts, nobs: float) -> Meat:
    return meat_of(choice, replace(parts, observations=_observations(part)), nobs)


def _of_design(part: ArrayRows) -> DesignMoments:
    return design_moments(part.exog, part.weights)


def _moments(rows: DaskRows) -> DesignMoments:
    """Return the moments of all regressors from those of the partitions."""
    parts = rows.map(_of_design)
    column_sum = np.sum([part.column_sum for part in parts], axis=0)
    return DesignMoments(
        rows.weight_sum, column_sum, _stacked([part.factor for part in parts], rows.n_columns)
    )


def _stacked(factors: list[FloatArray], k: int) -> FloatArray:
    """Return the triangular factor of the sum of Gram matrices from those of each."""
    triangle = np.asarray(np.linalg.qr(np.vstack(factors), mode="r"))
    factor = np.zeros((k, k))
    factor[: triangle.shape[0]] = triangle
    return factor


def _bread(rows: DaskRows, task: Task, solution: Solution, space: ParameterSpace) -> Parts:
    """Return all of the parts of a sandwich but the rows."""
    held = ("tau",) if solution.tau_at_bound and space.tau is None else ()
    tau = solution.tau if held else task.tau
    wider = replace(task, kappa=math.hypot(solution.kappa, _window(rows, solution)), tau=tau)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", RankWarning)
        wide = solve_rows(rows, wider, start=solution, search=False)
    parts: list[tuple[CriterionHessian, FloatArray]] = rows.map(_loss, wide)
    sums = CriterionHessian(
        np.empty(0),
        *(np.sum([getattr(part, name) for part, _ in parts], axis=0) for name in _SUMMED),
    )
    hessian = with_normalizer(sums, wide, rows.weight_sum, wide.p)
    factor = _stacked([factor for _, factor in parts], rows.n_columns)
    nothing = Observations(np.empty((0, rows.n_columns)), np.empty(0))
    return assembled(nothing, space, solution, wide, held, hessian, factor)


_SUMMED = ("cross", "corner", "gradient")


def _loss(part: ArrayRows, wide: Solution) -> tuple[CriterionHessian, FloatArray]:
    """Return the derivatives of the loss of a partition, and the factor of its rows in the zone."""
    obs = _observations(part)
    found = loss_hessian(obs, wide)
    factor = design_moments(obs.exog, found.in_zone).factor
    return found._replace(in_zone=np.empty(0)), factor


class _Residuals(NamedTuple):
    """What the window needs of the residuals of a partition.

    Sums of the weights, of u and of its squares, and the values near the quartiles with their weights;
    those that are not near stand for all others on their side.
    """

    sums: FloatArray
    values: FloatArray
    weights: FloatArray


def _residuals(part: ArrayRows, fit: Solution, edges: FloatArray) -> _Residuals:
    u = standardized(_observations(part), fit)
    w = np.ones(u.size) if part.weights is None else part.weights
    interval = np.searchsorted(edges, u)  # odd near a quartile
    near = interval % 2 == 1
    others = np.array([w[interval == j].sum() for j in (0, 2, 4)])
    stand_ins = np.array([edges[0] - 1.0, 0.5 * (edges[1] + edges[2]), edges[3] + 1.0])
    return _Residuals(
        np.array([w.sum(), w @ u, (w * u) @ u]),
        np.concatenate([stand_ins, u[near]]),
        np.concatenate([others, w[near]]),
    )


def _window(rows: DaskRows, fit: Solution) -> float:
    """Return the window of the bread, as that of the same rows in arrays."""
    chosen = np.sort(np.random.default_rng(0).integers(0, rows.n_rows, SAMPLED))
    sample: Any = rows.take(chosen)
    few = (sample.endog - sample.exog @ fit.beta) / fit.sigma
    edges = np.quantile(few, [0.25 - NEAR, 0.25 + NEAR, 0.75 - NEAR, 0.75 + NEAR])
    parts: list[_Residuals] = rows.map(_residuals, fit, edges)
    total, first, second = np.sum([part.sums for part in parts], axis=0)
    below, between, above = np.sum([part.weights[:3] for part in parts], axis=0)
    if not (max(below, above) < 0.25 * total and between < 0.5 * total):
        everywhere = np.array([-np.inf, np.inf, np.inf, np.inf])  # many equal residuals
        parts = rows.map(_residuals, fit, everywhere)
    values = np.concatenate([part.values for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    variance = second / total - (first / total) ** 2
    middle = quartile_range(values, weights)
    return window_width(float(variance), middle, fit.tau, rows.weight_sum)
