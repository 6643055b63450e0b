"""Wald intervals, each parameter on the scale on which it is closest to normal."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.specification.parameters import ParameterSpace

__all__ = ["wald_intervals", "wald_ratios"]


def wald_intervals(
    params: FloatArray,
    bse: FloatArray,
    space: ParameterSpace,
    critical: float | FloatArray,
) -> FloatArray:
    r"""Return the limits of all parameters, shape (size, 2).

    Parameters
    ----------
    params, bse : ndarray, shape (size,)
        Estimates and standard errors.
    space : ParameterSpace
        Which parameters they are.
    critical : float or ndarray, shape (size,)
        Quantile of the reference law, 1.96 for 95 %.

    Notes
    -----
    Coefficients on the natural scale; sigma and kappa on the log scale,
    :math:`\hat\sigma\exp(\pm z\,\mathrm{se}/\hat\sigma)`; tau on the logit scale, where its standard
    error is :math:`\mathrm{se}/(\hat\tau(1-\hat\tau))`. No limit leaves the parameter's domain.
    """
    moved: FloatArray = np.multiply.outer(bse * critical, [-1.0, 1.0])
    limits = params[:, None] + moved
    for name in space.extra_names:
        j = space.position(name)
        value = float(params[j])
        if name == "tau":
            logit = np.log(value) - np.log1p(-value)
            limits[j] = special.expit(logit + moved[j] / (value * (1.0 - value)))
        elif value > 0.0:
            limits[j] = [value * _exp(step / value) for step in moved[j].tolist()]
        else:
            limits[j] = np.nan
    return limits


def _exp(x: float) -> float:
    """Return exp(x), infinity where a standard error is enormous: no upper limit."""
    return math.inf if x > 709.0 else math.exp(x)


def wald_ratios(
    params: FloatArray, bse: FloatArray, null: FloatArray, space: ParameterSpace
) -> FloatArray:
    """Return estimates minus tested values in standard errors, tau on the scale of its interval.

    Parameters
    ----------
    params, bse : ndarray, shape (size,)
        Estimates and standard errors.
    null : ndarray, shape (size,)
        Tested values; NaN where nothing is tested.
    space : ParameterSpace
        Which parameters they are.
    """
    distance, j = params - null, space.position("tau")
    if j is not None and 0.0 < null[j] < 1.0:
        tau = float(params[j])
        distance[j] = tau * (1.0 - tau) * float(special.logit(tau) - special.logit(null[j]))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: FloatArray = distance / bse
    return ratios
