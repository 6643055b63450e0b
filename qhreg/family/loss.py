r"""The quantile and quantile Huber losses and their derivatives, elementwise.

For a residual r, asymmetry tau and width kappa (QH-1 to QH-4):

.. math::

    \psi(r) &= \operatorname{clip}(r/\kappa,\,-\tau,\,1-\tau) &\text{(QH-1)}\\
    e(r)    &= r - \operatorname{clip}(r,\,-\kappa\tau,\,\kappa(1-\tau)) &\text{(QH-2)}\\
    \rho(r) &= r\,\psi - \kappa\psi^2/2 &\text{(QH-3)}

with :math:`\partial_r\rho=\psi`, :math:`\partial_\tau\rho=-e` (QH-4). The slope is tau on negative
and 1 - tau on positive residuals.

At kappa = 0 the loss has a corner at r = 0. The slope there is 0, which is its limit for
kappa -> 0; every other function takes the same limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from qhreg._blocks import BLOCK_ROWS, row_blocks
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


def _slope(r: Any, tau: Any, kappa: Any) -> FloatArray:
    """Return psi (QH-1): r / kappa, or the sign of r where kappa is 0, clipped."""
    if isinstance(kappa, float):
        return zone_part(r / kappa if kappa > 0.0 else np.sign(r), tau, 1.0)
    sign = np.sign(r) * np.ones_like(kappa)
    return zone_part(np.divide(r, kappa, out=sign, where=kappa > 0.0), tau, 1.0)


def _arguments(r: Any, tau: Any, kappa: Any) -> tuple[FloatArray, Any, Any, tuple[int, ...]]:
    """Return the checked arguments and their common shape."""
    r, tau, kappa = check_real("r", r), check_tau(tau), check_kappa(kappa)
    return np.asarray(r, order="C"), tau, kappa, check_broadcast(r=r, tau=tau, kappa=kappa)


def _run(kernel: Callable[..., None], r: FloatArray, tau: Any, kappa: Any, out: FloatArray) -> None:
    """Call kernel(r, tau, kappa, out): in blocks when tau and kappa are scalars, else at once."""
    # r / kappa may overflow to the infinity that the clip expects, and underflow is exact enough.
    with np.errstate(over="ignore", under="ignore"):
        scalars = isinstance(tau, float) and isinstance(kappa, float)
        if r.size <= BLOCK_ROWS or not scalars:
            kernel(r, tau, kappa, out)
            return
        flat, flat_out = r.reshape(-1), out.reshape(-1)
        for block in row_blocks(r.size, 1):
            kernel(flat[block], tau, kappa, flat_out[block])


def _slope_kernel(r: Any, tau: Any, kappa: Any, psi: FloatArray) -> None:
    psi[...] = _slope(r, tau, kappa)


def _loss_kernel(r: Any, tau: Any, kappa: Any, loss: FloatArray) -> None:
    """Write rho = psi (r - kappa psi / 2) (QH-3); no overflow, as kappa |psi| <= |r|."""
    psi = _slope(r, tau, kappa)
    np.multiply(psi, r - 0.5 * kappa * psi, out=loss)


def loss_and_slope(r: Any, tau: Any, kappa: Any) -> tuple[Any, Any]:
    r"""Return the quantile Huber loss rho and its slope psi, computed together.

    Parameters
    ----------
    r : float or array_like
        Residuals. NaN gives NaN, an infinite residual an infinite loss.
    tau : float or array_like
        Asymmetry, 0 < tau < 1.
    kappa : float or array_like
        Huber width, 0 <= kappa < inf.

    Returns
    -------
    loss, slope : float or ndarray
        Both of the common shape of the arguments.

    Notes
    -----
    (QH-1) and (QH-3), in the form :math:`\rho = \psi\,(r - \kappa\psi/2)`, which does not overflow:
    :math:`\kappa|\psi| \le |r|`.

    Examples
    --------
    >>> from qhreg.family.loss import loss_and_slope
    >>> loss, slope = loss_and_slope([-2.0, 0.25, 2.0], tau=0.25, kappa=1.0)
    >>> loss.tolist(), slope.tolist()
    ([0.46875, 0.03125, 1.21875], [-0.25, 0.25, 0.75])
    """
    r, tau, kappa, shape = _arguments(r, tau, kappa)
    loss, psi = np.empty(shape), np.empty(shape)
    _run(_loss_kernel, r, tau, kappa, loss)
    _run(_slope_kernel, r, tau, kappa, psi)
    return loss[()], psi[()]


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
    r, tau, kappa, shape = _arguments(r, tau, kappa)
    loss = np.empty(shape)
    _run(_loss_kernel, r, tau, kappa, loss)
    return loss[()]


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
    r, tau, kappa, shape = _arguments(r, tau, kappa)
    psi = np.empty(shape)
    _run(_slope_kernel, r, tau, kappa, psi)
    return psi[()]


def excess(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return e, the signed distance of r from the quadratic zone (QH-2).

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
    r, tau, kappa, _ = _arguments(r, tau, kappa)
    return (r - zone_part(r, tau, kappa))[()]


def loss_dtau(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return the derivative of the loss in tau (QH-4): :math:`\partial_\tau\rho = -e(r)`.

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
    >>> from qhreg.family.loss import loss_dtau
    >>> loss_dtau([-2.0, 0.25, 2.0], tau=0.25, kappa=1.0).tolist()
    [1.75, 0.0, -1.25]
    """
    return 0.0 - excess(r, tau, kappa)  # not -excess: zero keeps its sign


def _by_zone(r: Any, tau: Any, kappa: Any, inside: Any, outside: Any) -> Any:
    """Return inside where r is in the closed zone, outside beyond it, and NaN for NaN."""
    chosen = np.where(zone_part(r, tau, kappa) == r, inside, outside)
    return np.where(np.isnan(r), np.nan, chosen)[()]


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
    r, tau, kappa, _ = _arguments(r, tau, kappa)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        return _by_zone(r, tau, kappa, np.divide(1.0, kappa), 0.0)


def loss_d2tau(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return the second derivative of the loss in tau: 0 inside the zone, -kappa outside.

    The loss is concave in tau. At the two edges, where the derivative jumps, the value is that of
    the inside.

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
    >>> from qhreg.family.loss import loss_d2tau
    >>> loss_d2tau([-2.0, 0.25, 2.0], tau=0.25, kappa=2.0).tolist()
    [-2.0, 0.0, -2.0]
    """
    r, tau, kappa, _ = _arguments(r, tau, kappa)
    return _by_zone(r, tau, kappa, 0.0, 0.0 - kappa)


def loss_drdtau(r: Any, tau: Any, kappa: Any) -> Any:
    r"""Return the mixed derivative of the loss in r and tau: 0 inside the zone, -1 outside.

    At the two edges, where the derivative jumps, the value is that of the inside.

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
    >>> from qhreg.family.loss import loss_drdtau
    >>> loss_drdtau([-2.0, 0.25, 2.0], tau=0.25, kappa=2.0).tolist()
    [-1.0, 0.0, -1.0]
    """
    r, tau, kappa, _ = _arguments(r, tau, kappa)
    return _by_zone(r, tau, kappa, 0.0, -1.0)
