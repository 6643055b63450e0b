"""Quantile Huber regression with estimated asymmetry, as a statsmodels model.

``mle`` is the class; ``likelihood`` and ``prediction`` have what statsmodels asks of a model at given
parameters, ``fits`` the other ways to fit it.
"""

from __future__ import annotations

from qhreg.model.mle import (
    QuantileHuberMLE,
)

__all__ = [
    "QuantileHuberMLE",
]
