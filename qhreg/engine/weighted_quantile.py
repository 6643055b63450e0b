"""Quantiles of weighted values without interpolation: a value given twice is one of weight two."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qhreg._typing import FloatArray

__all__ = ["MANY", "weighted_quantiles"]


FEW = 1024
"""Values that are sorted as quickly as parted."""

MANY = 20_000
"""Values from which those near the quantile of a sample are looked at first."""

SAMPLED = 4000
"""Values in that sample."""

ROUNDING = 1e-13
"""Share of the weight by which sums of weights may miss a level that they reach."""

NEAR = 0.03
"""Share of the weight on either side that counts as near."""


def weighted_quantiles(
    values: FloatArray, levels: Sequence[float], weights: FloatArray | None
) -> list[float]:
    """Return the least value with a share of at least each level of the weight at or below it.

    Parameters
    ----------
    values : ndarray, shape (n,)
        The values.
    levels : sequence of float
        Between 0 and 1.
    weights : ndarray, shape (n,), or None
        Their weights, none negative.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.engine.weighted_quantile import weighted_quantiles
    >>> values = np.array([3.0, 1.0, 2.0])
    >>> weighted_quantiles(values, [0.5], None), weighted_quantiles(values, [0.5], np.array([5.0, 1, 1]))
    ([2.0], [3.0])
    """
    if values.size > MANY:
        return [_among_near(values, level, weights) for level in levels]
    total = float(values.size if weights is None else weights.sum())
    return _reached(values, weights, [level * total for level in levels])


def _reached(
    values: FloatArray, weights: FloatArray | None, reaches: list[float], before: float = 0.0
) -> list[float]:
    """Return the values at which the weight in order, added to what is before, reaches some sums."""
    last = values.size - 1
    if weights is None:
        places = [min(max(math.ceil(reach - before) - 1, 0), last) for reach in reaches]
        ordered = values.copy()
        if last < FEW:
            ordered.sort()
        else:
            ordered.partition(places)
        return [float(ordered[place]) for place in places]
    order = values.argsort()
    running = before + np.cumsum(weights[order])
    slack = ROUNDING * running[-1]
    return [float(values[order[min(int(running.searchsorted(r - slack)), last)]]) for r in reaches]


def _among_near(values: FloatArray, level: float, weights: FloatArray | None) -> float:
    """Return the quantile from the values around that of a sample, or from all if it is not there."""
    every = values.size // SAMPLED
    share = None if weights is None else weights[::every]
    low, high = weighted_quantiles(
        values[::every], [max(level - NEAR, 0.0), min(level + NEAR, 1.0)], share
    )
    below = values < low
    near = np.flatnonzero((values <= high) & ~below)
    if weights is None:
        total, before, inside = float(values.size), float(np.count_nonzero(below)), float(near.size)
    else:
        total, before, inside = (
            float(x) for x in (weights.sum(), below @ weights, weights[near].sum())
        )
    reach = level * total
    if not before < reach <= before + inside:
        return _reached(values, weights, [reach])[0]
    return _reached(values[near], None if weights is None else weights[near], [reach], before)[0]
