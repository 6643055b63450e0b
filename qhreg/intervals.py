"""Wald intervals, each parameter on the scale on which it is closest to normal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from qhreg.parameters import ParameterSpace

__all__ = ["wald_intervals"]

FloatArray = npt.NDArray[np.float64]


def wald_intervals(
    params: FloatArray, bse: FloatArray, space: ParameterSpace, critical: float
) -> FloatArray:
    r"""Return the limits of all parameters, shape (size, 2).

    Parameters
    ----------
    params, bse : ndarray, shape (size,)
        Estimates and standard errors.
    space : ParameterSpace
        Which parameters they are.
    critical : float
        Quantile of the reference law, 1.96 for 95 %.

    Notes
    -----
    Coefficients on the natural scale; sigma and kappa on the log scale,
    :math:`\hat\sigma\exp(\pm z\,\mathrm{se}/\hat\sigma)`; tau on the logit scale, where its standard
    error is :math:`\mathrm{se}/(\hat\tau(1-\hat\tau))`. No limit leaves the parameter's domain.
    """
    half = critical * bse
    limits = np.empty((params.size, 2))
    limits[:, 0], limits[:, 1] = params - half, params + half
    for name in space.extra_names:
        j = space.position(name)
        value, width = params[j], half[j]
        sides = np.array([-1.0, 1.0])
        if name == "tau":
            logit = np.log(value) - np.log1p(-value)
            limits[j] = special.expit(logit + sides * width / (value * (1.0 - value)))
        elif value > 0.0:
            with np.errstate(over="ignore"):  # an enormous standard error: no upper limit
                limits[j] = value * np.exp(sides * width / value)
        else:
            limits[j] = np.nan
    return limits
