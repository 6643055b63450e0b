"""The fit of rows that lie on Dask, in memory, on disk or on other machines.

Every sum over rows is made where they are, partition by partition, by the same reduction that serves
arrays; only the sums travel. A random sample of the rows is gathered for the starting point.
"""

from __future__ import annotations

from typing import Any

from qhreg.dask.fitting import fit
from qhreg.dask.results import DaskResults
from qhreg.dask.rows import DaskRows

__all__ = ["DaskResults", "DaskRows", "QuantileHuberBoostingRegressor", "fit"]


def __getattr__(name: str) -> Any:
    """Return the boosting regressor, which needs packages that the rest does not."""
    if name != "QuantileHuberBoostingRegressor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qhreg.dask.boosting import QuantileHuberBoostingRegressor

    return QuantileHuberBoostingRegressor
