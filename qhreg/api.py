"""The public names in one place, in the style of ``statsmodels.api``.

Examples
--------
>>> import qhreg.api as qh
>>> qh.QuantileHuberMLE.__name__
'QuantileHuberMLE'
"""

from __future__ import annotations

from typing import Any

import qhreg
from qhreg.certificate import biconvexity_certificate
from qhreg.distribution import quantile_huber
from qhreg.model import QuantileHuberMLE

__all__ = ["QuantileHuberMLE", "biconvexity_certificate", "quantile_huber"]


def __getattr__(name: str) -> Any:
    """Return a name that the package loads at first use: the boosting needs scikit-learn."""
    return getattr(qhreg, name)
