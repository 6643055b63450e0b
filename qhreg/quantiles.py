"""Quantiles of weighted values without interpolation: a value given twice is one of weight two."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["weighted_quantiles"]

FloatArray = npt.NDArray[np.float64]

MANY = 20_000
"""Weighted values from which those near the quantile of a sample are looked at first."""

SAMPLED = 4000
"""Values in that sample."""

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
    >>> from qhreg.quantiles import weighted_quantiles
    >>> values = np.array([3.0, 1.0, 2.0])
    >>> weighted_quantiles(values, [0.5], None), weighted_quantiles(values, [0.5], np.array([5.0, 1, 1]))
    ([2.0], [3.0])
    """
    if weights is None:
        places = [max(math.ceil(level * values.size) - 1, 0) for level in levels]
        ordered = values.copy()
        ordered.partition(places)
        return [float(ordered[place]) for place in places]
    return [_quantile(values, level, weights) for level in levels]


def _quantile(values: FloatArray, level: float, weights: FloatArray) -> float:
    reach = level * float(weights.sum())
    found = _among_near(values, level, weights, reach) if values.size > MANY else None
    return _reached(values, weights, 0.0, reach) if found is None else found


def _reached(values: FloatArray, weights: FloatArray, before: float, reach: float) -> float:
    """Return the value at which the weight in order, added to what is before, reaches a sum."""
    order = np.argsort(values)
    place = int(np.searchsorted(before + np.cumsum(weights[order]), reach))
    return float(values[order[min(place, values.size - 1)]])


def _among_near(
    values: FloatArray, level: float, weights: FloatArray, reach: float
) -> float | None:
    """Return the quantile from the values around that of a sample, or None where it is not there."""
    every = values.size // SAMPLED
    sample, share = values[::every], weights[::every]
    total = float(share.sum())
    low, high = (
        _reached(sample, share, 0.0, min(max(at, 0.0), 1.0) * total)
        for at in (level - NEAR, level + NEAR)
    )
    below = values < low
    before = float(below @ weights)
    near = np.flatnonzero((values <= high) & ~below)
    some = weights[near]
    if not before < reach <= before + float(some.sum()):
        return None
    return _reached(values[near], some, before, reach)
