r"""The quantile and quantile Huber losses and their derivatives, elementwise.

For a residual r, asymmetry tau and width kappa (QH-1 to QH-4):

.. math::

    \psi(r) &= \operatorname{clip}(r/\kappa,\,-\tau,\,1-\tau) &\text{(QH-1)}\\
    e(r)    &= r - \operatorname{clip}(r,\,-\kappa\tau,\,\kappa(1-\tau)) &\text{(QH-2)}\\
    \rho(r) &= r\,\psi - \kappa\psi^2/2 &\text{(QH-3)}

with :math:`\partial_r\rho=\psi`, :math:`\partial_\tau\rho=-e` (QH-4),
:math:`\partial_\tau^2\rho=-\kappa` outside the zone and 0 inside. The slope is tau on negative
and 1 - tau on positive residuals.

At kappa = 0 the loss has a corner at r = 0. The slope there is 0, which is its limit for
kappa -> 0; every other function takes the same limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from qhreg._blocks import row_blocks
from qhreg._typing import FloatArray
from qhreg.family.domain import check_broadcast, check_kappa, check_real, check_tau


def zone_part(r: Any, tau: Any, kappa: Any, out: FloatArray | None = None) -> FloatArray:
    """Return clip(r, -kappa tau, kappa (1 - tau)): the part of r inside the quadratic zone.

    The building block of every loss quantity: kappa psi = zone_part(r, tau, kappa), psi =
    zone_part(r / kappa, tau, 1) and e = r - zone_part(r, tau, kappa).
    Parameters are not checked: inner loops call this.
    """
    clip = r.clip if isinstance(r, np.ndarray) else partial(np.clip, r)  # the method is the quicker
    clipped: FloatArray = clip(-kappa * tau, kappa * (1.0 - tau), out=out)
    return clipped


def slope_part(r: Any, tau: Any, kappa: Any) -> FloatArray:
    """Return psi (QH-1): r / kappa, or the sign of r where kappa is 0, clipped; see `zone_part`.

    r / kappa may overflow to the infinity that the clip expects, and underflow is exact enough.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.family.loss import slope_part
    >>> slope_part(np.array([-2.0, 0.25]), 0.25, 1.0).tolist()
    [-0.25, 0.25]
    """
    with np.errstate(over="ignore", under="ignore"):
        if isinstance(kappa, float):
            return zone_part(r / kappa if kappa > 0.0 else np.sign(r), tau, 1.0)
        sign = np.sign(r) * np.ones_like(kappa)
        return zone_part(np.divide(r, kappa, out=sign, where=kappa > 0.0), tau, 1.0)


def _loss(r: Any, tau: Any, kappa: Any) -> Any:
    """Return rho = psi (r - kappa psi / 2) (QH-3); no overflow, as kappa |psi| <= |r|."""
    psi = slope_part(r, tau, kappa)
    return psi * (r - 0.5 * kappa * psi)


def _excess(r: Any, tau: Any, kappa: Any) -> Any:
    return r - zone_part(r, tau, kappa)


def _curvature(r: Any, tau: Any, kappa: Any) -> Any:
    with np.errstate(divide="ignore", over="ignore"):
        inside = np.where(zone_part(r, tau, kappa) == r, np.divide(1.0, kappa), 0.0)
    return np.where(np.isnan(r), np.nan, inside)


def _checked(function: Callable[..., Any], r: Any, tau: Any, kappa: Any) -> Any:
    """Return function(r, tau, kappa) of checked arguments: in blocks where tau and kappa are scalars."""
    r, tau, kappa = check_real("r", r), check_tau(tau), check_kappa(kappa)
    out, r = np.empty(check_broadcast(r=r, tau=tau, kappa=kappa)), np.asarray(r, order="C")
    blocks = row_blocks(r.size, 1)
    with np.errstate(under="ignore"):
        if len(blocks) > 1 and isinstance(tau, float) and isinstance(kappa, float):
            flat, flat_out = r.reshape(-1), out.reshape(-1)
            for block in blocks:
                flat_out[block] = function(flat[block], tau, kappa)
        else:
            out[...] = function(r, tau, kappa)
    return out[()]


def quantile_huber_loss(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return the quantile Huber loss rho.

    Parameters
    ----------
    r : float or array_like
        Residuals. NaN gives NaN, an infinite residual an infinite loss.
    tau : float or array_like
        Asymmetry, 0 < tau < 1: the slope far to the left is -tau, far to the right 1 - tau.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf: quadratic on [-kappa tau, kappa (1 - tau)].

    Returns
    -------
    float or ndarray
        Of the common shape of the arguments.

    Notes
    -----
    .. math::

        \rho(r) = \begin{cases}
            -\tau r - \kappa\tau^2/2 & r < -\kappa\tau\\
            r^2/(2\kappa) & -\kappa\tau \le r \le \kappa(1-\tau)\\
            (1-\tau) r - \kappa(1-\tau)^2/2 & r > \kappa(1-\tau)
        \end{cases} \qquad\text{(QH-3)}

    It satisfies :math:`\rho_\tau(r) = \rho_{1-\tau}(-r)` and
    :math:`\rho(ar;\kappa a) = a\,\rho(r;\kappa)` for a > 0.

    Examples
    --------
    >>> from qhreg.family.loss import quantile_huber_loss
    >>> quantile_huber_loss([-2.0, 0.25, 2.0], tau=0.25, kappa=1.0).tolist()
    [0.46875, 0.03125, 1.21875]
    """
    return _checked(_loss, r, tau, kappa)


def quantile_loss(r: Any, tau: Any) -> Any:
    """Return the quantile loss: -tau r on negative residuals and (1 - tau) r on positive ones.

    The quantile Huber loss at kappa = 0. Minimised over a location, it gives the 1 - tau quantile.

    Parameters
    ----------
    r : float or array_like
        Residuals.
    tau : float or array_like
        Asymmetry, 0 < tau < 1.

    Examples
    --------
    >>> from qhreg.family.loss import quantile_loss
    >>> quantile_loss([-2.0, 0.0, 2.0], tau=0.25).tolist()
    [0.5, 0.0, 1.5]
    """
    return quantile_huber_loss(r, tau, 0.0)


def loss_slope(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return psi, the derivative of the loss in r (QH-1).

    .. math:: \psi(r) = \operatorname{clip}(r/\kappa,\,-\tau,\,1-\tau)

    At kappa = 0 this is -tau, 0 or 1 - tau for negative, zero and positive r.

    Parameters
    ----------
    r : float or array_like
        Residuals.
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Examples
    --------
    >>> from qhreg.family.loss import loss_slope
    >>> loss_slope([-2.0, 0.0, 2.0], tau=0.25, kappa=0.0).tolist()
    [-0.25, 0.0, 0.75]
    """
    return _checked(slope_part, r, tau, kappa)


def excess(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return e, the signed distance of r from the quadratic zone (QH-2); -e is d rho/d tau (QH-4).

    .. math:: e(r) = r - \operatorname{clip}(r,\,-\kappa\tau,\,\kappa(1-\tau))

    Parameters
    ----------
    r : float or array_like
        Residuals.
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Examples
    --------
    >>> from qhreg.family.loss import excess
    >>> excess([-2.0, 0.25, 2.0], tau=0.25, kappa=1.0).tolist()
    [-1.75, 0.0, 1.25]
    """
    return _checked(_excess, r, tau, kappa)


def loss_curvature(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return the second derivative of the loss in r: 1/kappa inside the zone, 0 outside.

    At the two edges, where the derivative jumps, the value is that of the inside. At kappa = 0 the
    zone is the single point r = 0, and the value there is infinite.

    Parameters
    ----------
    r : float or array_like
        Residuals.
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Examples
    --------
    >>> from qhreg.family.loss import loss_curvature
    >>> loss_curvature([-2.0, 0.25, 2.0], tau=0.25, kappa=2.0).tolist()
    [0.0, 0.5, 0.0]
    """
    return _checked(_curvature, r, tau, kappa)
