"""Fits of rows that lie on Dask, in memory, on disk or on other machines.

Every sum over rows is made where they are, by the passes that serve arrays, and added up on the
workers; only sums travel, and a sample of fixed size for the starting point.
"""

from __future__ import annotations

from qhreg.dask.fitting import DaskModel, DaskRegression, DaskResults, fit, quantile_huber
from qhreg.dask.rows import DaskRows

__all__ = ["DaskModel", "DaskRegression", "DaskResults", "DaskRows", "fit", "quantile_huber"]
