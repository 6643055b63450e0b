"""The public names in one place, in the style of ``statsmodels.api``.

Examples
--------
>>> import qhreg.api as qh
>>> qh.QuantileHuberMLE.__name__
'QuantileHuberMLE'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qhreg import __getattr__ as __getattr__  # what brings scikit-learn is loaded at first use
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
