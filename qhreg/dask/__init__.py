"""Fits of rows that lie on Dask, in memory, on disk or on other machines.

Every sum over rows is made where they are, by the passes that serve arrays, and added up on the
workers; only sums travel, and a sample of fixed size for the starting point.
"""

from __future__ import annotations

from typing import Any

from qhreg.dask.fitting import DaskModel, DaskRegression, DaskResults, fit, quantile_huber
from qhreg.dask.rows import DaskRows

__all__ = [
    "DaskModel",
    "DaskRegression",
    "DaskResults",
    "DaskRows",
    "QuantileHuberBoostingRegressor",
    "fit",
    "quantile_huber",
]


def __getattr__(name: str) -> Any:
    """Return the boosting regressor, which needs packages that the rest does not."""
    if name != "QuantileHuberBoostingRegressor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qhreg.dask.boosting import QuantileHuberBoostingRegressor

    return QuantileHuberBoostingRegressor
