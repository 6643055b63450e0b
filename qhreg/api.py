"""The public names in one place, in the style of ``statsmodels.api``.

Examples
--------
>>> import qhreg.api as qh
>>> qh.QuantileHuberMLE.__name__
'QuantileHuberMLE'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from qhreg.certificate import biconvexity_certificate
from qhreg.distributional import QuantileHuberDistributional
from qhreg.family.distribution import quantile_huber
from qhreg.model import QuantileHuberMLE
from qhreg.model.comparison import compare_models

if TYPE_CHECKING:
    from qhreg.boosting import QuantileHuberBoostingRegressor as QuantileHuberBoostingRegressor

__all__ = [
    "QuantileHuberDistributional",
    "QuantileHuberMLE",
    "biconvexity_certificate",
    "compare_models",
    "quantile_huber",
]


def __getattr__(name: str) -> Any:
    # loaded at first use: it brings scikit-learn and LightGBM
    if name == "QuantileHuberBoostingRegressor":
        return getattr(importlib.import_module("qhreg.boosting"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
