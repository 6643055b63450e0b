"""The fitted model: estimates, inference and predictions.

``base`` has what every fit shares, from ``wald`` (tests), ``fitted`` (residuals and predictions),
``plots`` (diagnostics) and ``summary`` (tables); ``linear`` is the fit of the linear model,
with ``likelihood``: profiles and tests. The numbers come from the packages below.
"""

from __future__ import annotations

from qhreg.results.linear import QuantileHuberResults, QuantileHuberResultsWrapper

__all__ = ["QuantileHuberResults", "QuantileHuberResultsWrapper"]
