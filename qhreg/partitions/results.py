"""What a fit of rows in partitions says: the results of a fit in memory, as far as sums carry them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from qhreg._precision import VANISHING
from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceEstimate, DesignMoments, Parts
from qhreg.exceptions import NotOffered
from qhreg.model import QuantileHuberMLE
from qhreg.partitions.covariance import (
    bread_of,
    design_moments_of,
    information_ratio,
    partitioned_covariance,
    score_of,
    share_below_line,
)
from qhreg.results import QuantileHuberResults, QuantileHuberResultsWrapper

__all__ = ["PartitionedResults", "PartitionedResultsWrapper"]

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

    @property
    def _rows(self) -> Any:
        """The rows as the fit took them."""
        return self.model.observations

    @cached_property
    def llf(self) -> float:
        """Ordinary log-likelihood at the estimates, whichever likelihood they maximise."""
        return float(self.solution.loglike)

    @cached_property
    def share_below(self) -> float:
        """Share of the observations below the fitted line, weights included."""
        slack = VANISHING if self.kappa > 0.0 else 0.0
        return share_below_line(self._rows, self.solution, slack)

    def _estimate_covariance(self) -> CovarianceEstimate:
        names = [str(name) for name in self.model.data.param_names]
        return partitioned_covariance(
            self._choice, self._fit_data, self.solution, lambda: self._bread, self._known, names
        )

    @cached_property
    def _bread(self) -> Parts:
        """What all robust covariances share."""
        return bread_of(self._fit_data, self.solution, self._known)

    def _score_and_moments(self) -> tuple[FloatArray, DesignMoments]:
        free = self._fit_data.space.free
        return score_of(self._rows, self.solution, free), design_moments_of(self._rows)

    @cached_property
    def _information_ratio(self) -> tuple[float, float]:
        """Trace and logarithm of the determinant of inverse bread times meat."""
        ratio = information_ratio(self._rows, self._bread)
        return float(np.trace(ratio)), float(np.linalg.slogdet(ratio)[1])

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
