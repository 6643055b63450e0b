r"""The quantile and quantile Huber losses and their derivatives, elementwise.

For a residual r, asymmetry tau and width kappa (QH-1 to QH-4):

.. math::

    \psi(r) &= \operatorname{clip}(r/\kappa,\,-\tau,\,1-\tau) &\text{(QH-1)}\\
    e(r)    &= r - \operatorname{clip}(r,\,-\kappa\tau,\,\kappa(1-\tau)) &\text{(QH-2)}\\
    \rho(r) &= r\,\psi - \kappa\psi^2/2 &\text{(QH-3)}

with :math:`\partial_r\rho=\psi`, :math:`\partial_\tau\rho=-e` (QH-4). The slope is tau on negative
and 1 - tau on positive residuals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.domain import check_kappa, check_tau

__all__ = [
    "excess",
    "loss_curvature",
    "loss_d2tau",
    "loss_drdtau",
    "loss_dtau",
    "loss_slope",
    "quantile_huber_loss",
    "quantile_loss",
    "zone_part",
]

FloatArray = npt.NDArray[np.float64]


def zone_part(r: Any, tau: Any, kappa: Any, out: FloatArray | None = None) -> FloatArray:
    """Return clip(r, -kappa tau, kappa (1 - tau)): the part of r inside the quadratic zone.

    The building block of every loss quantity: psi = zone_part / kappa and e = r - zone_part.
    Parameters are not checked: inner loops call this.
    """
    clipped: FloatArray = np.maximum(r, -kappa * tau, out=out)
    return np.minimum(clipped, kappa * (1.0 - tau), out=clipped if out is not None else None)
