"""The public names in one place, in the style of ``statsmodels.api``.

Examples
--------
>>> import qhreg.api as qh
>>> qh.QuantileHuberMLE.__name__
'QuantileHuberMLE'
"""

from qhreg.certificate import biconvexity_certificate
from qhreg.distribution import quantile_huber
from qhreg.model import QuantileHuberMLE

__all__ = ["QuantileHuberMLE", "biconvexity_certificate", "quantile_huber"]
