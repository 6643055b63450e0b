"""Groups of rows with similar values, in which a picture shows quantiles of the residuals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.engine.weighted_quantile import weighted_quantiles

__all__ = ["group_quantiles", "groups_of_rows"]


EQUAL = 1e-9
"""Share of their range by which values that count as equal may differ."""


def groups_of_rows(
    values: FloatArray, count: int, weights: FloatArray | None = None
) -> list[npt.NDArray[np.intp]]:
    """Return the rows in up to `count` groups of similar values and about equal size.

    Rows with equal values are in one group: the levels of a factor are not cut, nor mixed with
    others more than the number of groups demands. Rows without weight are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.diagnostics.row_groups import groups_of_rows
    >>> [group.tolist() for group in groups_of_rows(np.array([1.0, 0, 1, 1, 0, 1]), 3)]
    [[1, 4], [0, 2, 3, 5]]
    """
    rows = np.arange(values.size) if weights is None else np.flatnonzero(weights > 0.0)
    order = rows[np.argsort(values[rows], kind="stable")]
    if order.size == 0:
        return []
    ordered = values[order]
    ends = np.flatnonzero(np.diff(ordered) > EQUAL * (ordered[-1] - ordered[0])) + 1
    ends = np.concatenate([[0], ends, [order.size]])
    wanted = np.cumsum([part.size for part in np.array_split(order, count)])[:-1]
    nearest = ends[np.abs(ends - wanted[:, None]).argmin(axis=1)] if wanted.size else wanted
    return [part for part in np.split(order, np.unique(nearest)) if part.size > 0]


def group_quantiles(
    values: FloatArray, levels: Sequence[float], weights: FloatArray | None = None
) -> FloatArray:
    """Return quantiles of the values in one group, of the weighted ones where there are weights."""
    if weights is None:
        return np.asarray(np.quantile(values, levels))
    return np.array(weighted_quantiles(values, levels, weights))
