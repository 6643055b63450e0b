"""Every error and warning class of the package."""

from statsmodels.tools.sm_exceptions import (
    CollinearityWarning,
    ConvergenceWarning,
    ModelWarning,
)

__all__ = [
    "BoundaryWarning",
    "CollinearityWarning",
    "ConvergenceWarning",
    "CurvatureWarning",
    "DataError",
    "DomainError",
    "QhregError",
    "RankWarning",
]


class QhregError(Exception):
    """Root of every error raised by qhreg."""


class DomainError(QhregError, ValueError):
    """A parameter lies outside the set on which the mathematics is defined."""


class DataError(QhregError, ValueError):
    """The data cannot be used as given: shape, missing or infinite values, degenerate columns."""


class BoundaryWarning(ModelWarning):  # type: ignore[misc]
    """An estimate ended on the edge of the region it was allowed to move in."""


class CurvatureWarning(ModelWarning):  # type: ignore[misc]
    """The estimated curvature is not that of a maximum: robust standard errors may be far off."""


class RankWarning(CollinearityWarning):  # type: ignore[misc]
    """The design matrix has linearly dependent columns."""
