"""Regressions of the quantile Huber family as statsmodels models.

``base`` has what all of them share, ``linear`` the model with one scale and one asymmetry, ``fits`` its
other fits: under constraints, at many values of tau, with a penalty. The distributional model is
:mod:`qhreg.distributional`.
"""

from __future__ import annotations

from qhreg.model.linear import QuantileHuberMLE

__all__ = ["QuantileHuberMLE"]
