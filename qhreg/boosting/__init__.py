"""Gradient boosting with quantile Huber noise.

:mod:`qhreg.boosting.estimator` is the door. One fit of the default scheme, in the order of its steps:
``folds`` (which rows teach and which test), ``shape`` (the gradients), ``trees`` (LightGBM's trees grown
on them, fold by fold), ``noise`` (the law of what is left), all put together in ``twostep``; then
``conformal`` for the intervals that need no law. ``paper`` is the paper's own scheme.
"""

from __future__ import annotations

try:
    import lightgbm  # noqa: F401
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "boosting needs scikit-learn and LightGBM: install them with `pip install qhreg[boost]`"
    ) from error

from qhreg.boosting.estimator import QuantileHuberBoostingRegressor

__all__ = ["QuantileHuberBoostingRegressor"]
