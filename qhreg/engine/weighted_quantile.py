"""Quantiles of weighted values without interpolation: a value given twice is one of weight two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray


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
    last = values.size - 1
    if weights is None:
        places = np.clip(np.ceil(np.multiply(levels, values.size)).astype(int) - 1, 0, last)
        ordered = np.partition(values, np.unique(places))
        return [float(ordered[place]) for place in places]
    order = np.argsort(values)
    running = np.cumsum(weights[order])
    reached = running.searchsorted((np.asarray(levels) - ROUNDING) * running[-1])
    return [float(values[order[min(int(place), last)]]) for place in reached]
