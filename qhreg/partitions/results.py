"""What a fit of rows in partitions says: the results of a fit in memory, as far as sums carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.covariance import (
    CovarianceChoice,
    CovarianceEstimate,
    Parts,
    covariance_parts,
    estimate_covariance,
)
from qhreg.covariance.choice import grouping_of
from qhreg.covariance.estimate import dependent_covariance, finished
from qhreg.covariance.parts import quartile_range, window_width
from qhreg.covariance.scores import standardized
from qhreg.engine.weighted_quantile import weighted_quantiles
from qhreg.exceptions import NotOffered
from qhreg.model import QuantileHuberMLE
from qhreg.partitions.rows import Part, PartitionedRows
from qhreg.results import QuantileHuberResults, QuantileHuberResultsWrapper
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import summed

BINS = 1024
"""Intervals around each quartile that rows are counted in: only those in one of them travel."""

_PREDICT = "rows are not in memory: predict(batch) gives the location of any of them"
_SAMPLE = "it looks at single rows: fit a sample of them by QuantileHuberMLE, and ask that fit"


class PartitionedResults(QuantileHuberResults):
    """A quantile Huber regression fitted to rows in partitions.

    Notes
    -----
    Estimates, covariances, tables, tests, criteria, profiles and predictions of new rows are those of
    :class:`qhreg.results.QuantileHuberResults`. What has a number for each row, or draws them, is not
    offered, and says what to use. Covariances and profiles read the rows again; ``to_local()`` returns
    what can be had without them.
    """

    fittedvalues = NotOffered(_PREDICT)
    resid = NotOffered(_PREDICT)
    resid_standardized = NotOffered(_PREDICT)
    resid_pearson = NotOffered(_PREDICT)
    resid_pit = NotOffered(_PREDICT)
    resid_quantile = NotOffered(_PREDICT)
    weights = NotOffered(_PREDICT)
    get_influence = NotOffered(_SAMPLE)
    bootstrap = NotOffered("it draws rows: use the default covariance HC3, or a sample of the rows")
    score_test = NotOffered("fit the larger model, and use wald_test or lr_test")
    test_symmetry = NotOffered('use t_test("tau = 0.5"), or lr_test against a fit with tau=0.5')
    goodness_of_fit = NotOffered(_SAMPLE)
    plot_fit = NotOffered(_SAMPLE)
    plot_tau_loss = NotOffered("use plot_profile")
    plot_density = NotOffered(_SAMPLE)
    plot_qq = NotOffered(_SAMPLE)
    plot_worm = NotOffered(_SAMPLE)
    plot_pit = NotOffered(_SAMPLE)
    plot_residuals = NotOffered(_SAMPLE)
    plot_partial_residuals = NotOffered(_SAMPLE)
    plot_diagnostics = NotOffered(_SAMPLE)
    remove_data = NotOffered(
        "there are no data in memory; use to_local() to be free of their source"
    )

    @cached_property
    def llf(self) -> float:
        """Ordinary log-likelihood at the estimates, whichever likelihood they maximise."""
        return self.solution.loglike

    def _estimate_covariance(self) -> CovarianceEstimate:
        names = [str(name) for name in self.model.data.param_names]
        if self.cov_type == "cluster":
            return clustered_covariance(self._choice, self._parts(), names)
        return estimate_covariance(
            self._choice,
            self._fit_data,
            self.solution,
            held=self._known,
            names=names,
            parts_of=lambda *_: self._parts(),
        )

    @cached_property
    def _bread(self) -> Parts:
        """What all robust covariances share."""
        return bread_of(self._fit_data, self.solution, self._known).without_rows

    def _parts(self) -> Parts:
        return replace(self._bread, observations=self.model.observations)

    def to_local(self) -> QuantileHuberResultsWrapper:
        """Return the fit without its rows, as ``remove_data()`` leaves one in memory.

        Tables, Wald tests, intervals and predictions of new rows remain; it can be pickled wherever
        the rows come from.
        """
        for name in self._made_from_data:
            getattr(self, name)
        return self._without_rows()

    def _without_rows(self) -> QuantileHuberResultsWrapper:
        """Return the fit without its rows, with what has been asked for so far: for new rows."""
        model = object.__new__(QuantileHuberMLE)
        model.__dict__.update(self.model.__dict__)
        for name in ("partitions", "design"):
            model.__dict__.pop(name, None)
        local = object.__new__(QuantileHuberResults)
        local.__dict__.update(self.__dict__, model=model)
        return QuantileHuberResultsWrapper(local)


class PartitionedResultsWrapper(QuantileHuberResultsWrapper):
    """Results with the names of the parameters."""

    bootstrap = NotOffered("it draws rows: use the default covariance HC3, or a sample of the rows")


PartitionedResults._wrapper = PartitionedResultsWrapper


def bread_of(data: ModelData, solution: Solution, held: Sequence[str]) -> Parts:
    """Return the parts of a sandwich; see :func:`qhreg.covariance.covariance_parts`.

    Parameters
    ----------
    data : ModelData
        The model that was fitted; its observations are :class:`PartitionedRows`.
    solution : Solution
        Its fit.
    held : sequence of str
        Estimated parameters to treat as known, besides tau on its bound.
    """
    return covariance_parts(data, solution, held, _window(data.observations, solution))


# ---------------------------------------------------------------------- clusters


def clustered_covariance(
    choice: CovarianceChoice, parts: Parts, names: Sequence[str]
) -> CovarianceEstimate:
    """Return the covariance of clusters: of sums of scores over those rows that share them all.

    Parameters
    ----------
    choice : CovarianceChoice
        "cluster", whose ``groups`` are names of columns.
    parts : Parts
        The bread; its observations are :class:`PartitionedRows`.
    names : sequence of str
        Names of all parameters, for the warning.
    """
    rows: Any = parts.observations
    columns = choice.options["groups"]
    columns = (columns,) if isinstance(columns, str) else tuple(columns)
    sums: pd.DataFrame = rows.grouped(columns).reduce(_group_sums, _summed, parts.without_rows)
    labels = [sums.index.get_level_values(level).to_numpy() for level in range(len(columns))]
    inner = CovarianceChoice(
        "cluster", {**choice.options, "groups": labels if columns[1:] else labels[0]}
    )
    grouping = grouping_of(inner, len(sums))
    return finished(dependent_covariance(inner, parts, sums.to_numpy(), None, grouping), names)


def _group_sums(part: Part, bread: Parts) -> pd.DataFrame:
    """Return the sums of the scores of the rows of a partition by their labels."""
    scores = replace(bread, observations=part).inner_scores
    if part.freq_weights is not None:
        scores = scores * part.freq_weights[:, None]
    return pd.DataFrame(scores).groupby(list(part.groups), sort=False).sum()


def _summed(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of rows with the same labels."""
    table = pd.concat(tables)
    return table.groupby(level=list(range(table.index.nlevels)), sort=False).sum()


# ---------------------------------------------------------------------- the window


def _window(rows: PartitionedRows, fit: Solution) -> float:
    """Return the window of the bread, that of the same rows in memory.

    The intervals in which the quartiles of u and of -u lie are counted out first; then the rows in
    these, and no others, are looked at.
    """
    sample = rows.sample
    few = (sample.endog - sample.exog @ fit.beta) / fit.sigma
    ends = np.quantile(few, [0.2, 0.3, 0.7, 0.8]).tolist()
    edges = np.unique([np.linspace(a, b, BINS) for a, b in (ends[:2], ends[2:])])
    total, first, second, *counts = rows.reduce(_moments_and_counts, summed, fit, edges)
    weight, places = np.array(counts), np.arange(len(counts), dtype=np.float64)
    levels = (0.25, 0.75)
    near = {int(place) for place in weighted_quantiles(places, levels, weight)}
    near |= {int(-place) for place in weighted_quantiles(-places, levels, weight)}
    seen: pd.DataFrame = rows.reduce(_residuals_in, _summed, fit, edges, sorted(near))
    # all others of an interval stand at its lower end
    low = np.concatenate([[edges[0] - 1.0], edges])
    others = np.ones(weight.size, dtype=bool)
    others[sorted(near)] = False
    middle = quartile_range(
        np.concatenate([seen.index, low[others]]),
        np.concatenate([seen["weight"], weight[others]]),
    )
    variance = second / total - (first / total) ** 2
    return window_width(float(variance), middle, fit.tau, rows.nobs)


def _weights(part: Part) -> FloatArray:
    return np.ones(part.endog.size) if part.case_weights is None else part.case_weights


def _moments_and_counts(part: Part, fit: Solution, edges: FloatArray) -> FloatArray:
    """Return the sums of w, w u and w u^2, and the weight of the rows between edges."""
    u, w = standardized(part, fit), _weights(part)
    counts = np.bincount(np.searchsorted(edges, u, side="right"), w, minlength=edges.size + 1)
    return np.array([w.sum(), w @ u, (w * u) @ u, *counts])


def _residuals_in(part: Part, fit: Solution, edges: FloatArray, near: list[int]) -> pd.DataFrame:
    """Return the weights of the distinct residuals in some of the intervals between edges."""
    u = standardized(part, fit)
    inside = np.isin(np.searchsorted(edges, u, side="right"), near)
    return _summed([pd.DataFrame({"weight": _weights(part)[inside]}, index=u[inside])])
