"""The fitted model: estimates, inference and predictions.

:class:`qhreg.results.fitted.QuantileHuberResults` is put together from the other modules, each of which
has the methods of one idea; the numbers come from the packages below.
"""

from __future__ import annotations

from qhreg.results.fitted import (
    QuantileHuberResults,
    QuantileHuberResultsWrapper,
    covariance_request,
)

__all__ = [
    "QuantileHuberResults",
    "QuantileHuberResultsWrapper",
    "covariance_request",
]
