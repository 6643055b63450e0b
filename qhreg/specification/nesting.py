"""Whether one regression is a special case of another, as a likelihood ratio test supposes."""

from __future__ import annotations

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace

__all__ = ["require_nested"]


DISTANCE = 1e-7
"""Share of a column outside the span of others from which it counts as no combination of them."""


def require_nested(
    restricted: tuple[Observations, ParameterSpace], full: tuple[Observations, ParameterSpace]
) -> None:
    """Raise a DataError that says why the first regression is not a special case of the second.

    Parameters
    ----------
    restricted, full : (Observations, ParameterSpace)
        The data of each, and which of sigma, tau and kappa it fixes. The response and the
        frequencies must be the same, what the second fixes must be fixed at the same value in the
        first, and the columns and the offset of the first must be combinations of the columns of
        the second.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.nesting import require_nested
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.specification.parameters import ParameterSpace
    >>> y, x = np.arange(4.0), np.eye(4)[:, :2]
    >>> small = Observations(x[:, :1], y), ParameterSpace(1, tau=0.5, kappa=1.0)
    >>> large = Observations(x, y), ParameterSpace(2, kappa=1.0)
    >>> require_nested(small, large)
    """
    (inner, few), (outer, many) = restricted, full
    for name in EXTRA_NAMES:
        fixed, value = getattr(many, name), getattr(few, name)
        if fixed is not None and value != fixed:
            here = "estimates it" if value is None else f"fixes it at {value:g}"
            raise DataError(
                f"the fits are not nested: this one fixes {name} at {fixed:g}, the restricted one {here}"
            )
    if not np.array_equal(inner.endog, outer.endog):
        raise DataError("the fits are not nested: their responses differ")
    for one, other in (
        (inner.freq_weights, outer.freq_weights),
        (outer.freq_weights, inner.freq_weights),
    ):
        if one is not None and not np.array_equal(
            one, np.ones(len(one)) if other is None else other
        ):
            raise DataError("the fits are not nested: their frequency weights differ")
    outside = _outside(_differing(inner, outer), outer.exog)
    if outside > DISTANCE:
        raise DataError(
            "the fits are not nested: the location of the restricted one is no combination of the "
            "columns of this one"
        )


def _differing(inner: Observations, outer: Observations) -> FloatArray:
    """Return the columns of the first design that the second does not have, and a change of offset."""
    known = {column.tobytes() for column in np.asarray(outer.exog.T, order="C")}
    columns = [c for c in np.asarray(inner.exog.T, order="C") if c.tobytes() not in known]
    if inner.offset is not None or outer.offset is not None:
        zero = np.zeros(len(inner.endog))
        first, second = (zero if o is None else o for o in (inner.offset, outer.offset))
        if not np.array_equal(first, second):
            columns.append(first - second)
    return np.column_stack(columns) if columns else np.empty((len(inner.endog), 0))


def _outside(columns: FloatArray, exog: FloatArray) -> float:
    """Return the largest share of one of the columns that lies outside the span of exog."""
    if columns.shape[1] == 0:
        return 0.0
    size = np.abs(exog).max(axis=0, initial=0.0)
    scaled = exog / np.where(size > 0.0, size, 1.0)
    left = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=None)[0]
    shares = np.linalg.norm(left, axis=0) / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    return float(shares.max())
