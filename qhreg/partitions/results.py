"""What a fit of rows in partitions says: the results of a fit in memory, as far as sums carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd

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
from qhreg.exceptions import NotOffered
from qhreg.model import QuantileHuberMLE
from qhreg.partitions.rows import Part, PartitionedRows, condensed, summed_by_label
from qhreg.results import QuantileHuberResults, QuantileHuberResultsWrapper
from qhreg.solver import Solution

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
        data, solution = self._fit_data, self.solution
        window = _window(data.observations, solution)
        return covariance_parts(data, solution, self._known, window).without_rows

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
    sums: pd.DataFrame = rows.grouped(columns).reduce(
        _group_sums, summed_by_label, parts.without_rows
    )
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


# ---------------------------------------------------------------------- the window


def _window(rows: PartitionedRows, fit: Solution) -> float:
    """Return the window of the bread, that of the same rows in memory."""
    sample = rows.sample
    guess = (sample.endog - sample.exog @ fit.beta) / fit.sigma
    u = condensed(rows, standardized, guess, (0.25, 0.75), fit)
    return window_width(u.variance, quartile_range(u.values, u.weights), fit.tau, rows.nobs)
