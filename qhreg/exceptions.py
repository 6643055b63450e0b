"""Every error and warning class, the line that a warning points to, and what is not offered."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

from statsmodels.tools.sm_exceptions import (
    CollinearityWarning,
    MissingDataError,
    ModelWarning,
)
from statsmodels.tools.sm_exceptions import (
    ConvergenceWarning as ConvergenceWarning,
)


class QhregError(Exception):
    """Root of every error raised by qhreg."""


class DomainError(QhregError, ValueError):
    """A parameter lies outside the set on which the mathematics is defined."""


class DataError(QhregError, ValueError):
    """The data cannot be used as given: shape, missing or infinite values, degenerate columns."""


class ClusterError(QhregError, RuntimeError):
    """The workers of a Dask cluster did not answer."""


class ColumnRangeError(DataError):
    """The squares of a column of exog leave the range of floating-point numbers.

    Attributes
    ----------
    column : int
        Which one.
    """

    def __init__(self, column: int) -> None:
        super().__init__(
            f"the squares of column {column} of exog are beyond the range of floating point numbers: "
            "give it in another unit"
        )
        self.column = column

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.column,)


class MissingValuesError(DataError, MissingDataError):  # type: ignore[misc]
    """There are missing values, and the model was told to raise for them."""


class BoundaryWarning(ModelWarning):  # type: ignore[misc]
    """An estimate ended on the edge of the region it was allowed to move in."""


class CurvatureWarning(ModelWarning):  # type: ignore[misc]
    """The estimated curvature is not that of a maximum: robust standard errors may be far off."""


class DataWarning(ModelWarning):  # type: ignore[misc]
    """The data are too few, or of a kind that the model cannot describe."""


class RankWarning(CollinearityWarning):  # type: ignore[misc]
    """The design matrix has linearly dependent columns."""


class RestrictionWarning(ModelWarning):  # type: ignore[misc]
    """A test was asked for of what the constraints of a fit decide already."""


_BETWEEN = {__name__.partition(".")[0], "functools", "scipy", "sklearn", "statsmodels"}
"""Modules between a line of the user and a warning: this package, and those that call it."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the package.

    Python shows a warning once for each line it points to: pointing into the package, the second fit
    of a session to end on a bound would say nothing.

    Parameters
    ----------
    message : str
        What happened.
    category : type
        Class of the warning.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class NotOffered:
    """An inherited attribute that is not there: asking for it says what to use instead.

    Parameters
    ----------
    instead : str
        What to use.
    """

    def __init__(self, instead: str) -> None:
        self.instead = instead
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"{self.name} is not offered: {self.instead}")


def without(names: Any, owner: type) -> list[str]:
    """Return the names of attributes less those that the class does not offer."""
    hidden = {
        name
        for base in owner.__mro__
        for name, value in vars(base).items()
        if isinstance(value, NotOffered)
    }
    return sorted(set(names) - hidden)
