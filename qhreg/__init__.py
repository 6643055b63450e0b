"""Regression with the quantile Huber likelihood: the asymmetry tau is estimated, not guessed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from qhreg._version import __version__
from qhreg.certificate import biconvexity_certificate
from qhreg.family.distribution import quantile_huber

if TYPE_CHECKING:
    from qhreg.boosting import QuantileHuberBoostingRegressor
    from qhreg.distributional import QuantileHuberDistributional
    from qhreg.estimator import QuantileHuberRegressor, QuantileHuberRegressorCV
    from qhreg.model import QuantileHuberMLE
    from qhreg.model.comparison import compare_models

__all__ = [
    "QuantileHuberBoostingRegressor",
    "QuantileHuberDistributional",
    "QuantileHuberMLE",
    "QuantileHuberRegressor",
    "QuantileHuberRegressorCV",
    "__version__",
    "biconvexity_certificate",
    "compare_models",
    "quantile_huber",
]

if not TYPE_CHECKING and importlib.util.find_spec("sklearn") is None:
    __all__ = [name for name in __all__ if "Regressor" not in name]  # a star import needs no extra

# Loaded at first use: the model brings statsmodels, the boosting scikit-learn and LightGBM.
_LATER = {
    "QuantileHuberDistributional": "qhreg.distributional",
    "QuantileHuberMLE": "qhreg.model",
    "QuantileHuberBoostingRegressor": "qhreg.boosting",
    "QuantileHuberRegressor": "qhreg.estimator",
    "QuantileHuberRegressorCV": "qhreg.estimator",
    "compare_models": "qhreg.model.comparison",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
