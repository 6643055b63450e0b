"""Sums over rows that may lie on several workers, each of which runs the same fit on its own rows."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import GivenRows
from qhreg.engine.weighted_quantile import weighted_quantiles
from qhreg.solver.inputs import rows_of

__all__ = ["HERE", "Pool"]

T = TypeVar("T")


class Pool:
    """The workers behind a fit: here one, whose rows are all there are."""

    def gather(self, value: T) -> list[T]:
        """Return the values of all workers, the same list on each."""
        return [value]

    def total(self, *values: Any) -> FloatArray:
        """Return sums over the workers."""
        return np.asarray(np.sum(self.gather(values), axis=0), dtype=np.float64)

    def range(self, values: FloatArray) -> tuple[float, float]:
        """Return the least and the largest value."""
        ends = self.gather((values.min(initial=np.inf), values.max(initial=-np.inf)))
        return float(min(low for low, _ in ends)), float(max(high for _, high in ends))

    def rows(self, values: FloatArray, weights: FloatArray | None) -> GivenRows:
        """Return values with a constant as their only regressor."""
        return rows_of(np.ones((values.size, 1)), values, weights, None)

    def lower_median(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the least value with half of the weight at or below it."""
        return weighted_quantiles(values, [0.5], weights)[0]

    def median(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the middle between the lower and the upper median of weighted values."""
        return 0.5 * (self.lower_median(values, weights) - self.lower_median(-values, weights))


HERE = Pool()
"""All rows in this process."""
