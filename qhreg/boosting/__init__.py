"""Gradient boosting with quantile Huber noise.

:mod:`qhreg.boosting.estimator` is the door. One fit of the default scheme: ``trees`` (which rows teach
and which test, LightGBM's trees fold by fold) on the gradients of ``noise``, which then fits the law of
what is left, put together in ``twostep`` with the intervals that need no law. ``paper`` has the
paper's scheme.
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
