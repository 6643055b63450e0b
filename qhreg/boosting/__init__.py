"""Gradient boosting that infers its own quantile parameter."""

from __future__ import annotations

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "boosting needs scikit-learn and LightGBM: install them with `pip install qhreg[boost]`"
    ) from error

from qhreg.boosting.estimator import QuantileHuberBoostingRegressor

__all__ = ["QuantileHuberBoostingRegressor"]
