"""Why biconvexity is the most one can have: the loss is nowhere jointly convex in (r, tau)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from qhreg.certificate.biconvexity import scalar_kappa
from qhreg.exceptions import DomainError
from qhreg.family.domain import check_tau
from qhreg.family.normalizer import log_normalizer_derivatives

__all__ = ["JointIndefiniteness", "joint_indefiniteness_witness"]


@dataclass(frozen=True)
class JointIndefiniteness:
    """A point and a direction in (r, tau) along which log c(tau) + rho_tau(r) bends down.

    Attributes
    ----------
    kappa : float
        The Huber width.
    r, tau : float
        The point; r lies outside the quadratic zone.
    direction : tuple of float
        Unit vector (dr, dtau): the eigenvector of the Hessian to its negative eigenvalue.
    curvature : float
        The negative eigenvalue: the second derivative along the direction.
    hessian : tuple of tuple of float
        ((0, -1), (-1, (log c)'' - kappa)), of determinant -1.
    """

    kappa: float
    r: float
    tau: float
    direction: tuple[float, float]
    curvature: float
    hessian: tuple[tuple[float, float], tuple[float, float]]


def joint_indefiniteness_witness(
    kappa: Any, tau: Any = 0.5, distance: float = 1.0
) -> JointIndefiniteness:
    r"""Return where and along which direction the loss is not jointly convex (Lemma 3.1).

    Outside the quadratic zone the Hessian of :math:`\log c(\tau)+\rho_\tau(r)` in (r, tau) is
    (QH-38)

    .. math::

        \begin{pmatrix} 0 & -1\\ -1 & (\log c)''-\kappa \end{pmatrix},

    of determinant -1 whatever c is: joint convexity fails at every tau and every kappa, and
    biconvexity is the most one can have.

    Parameters
    ----------
    kappa : float
        Huber width, 0 <= kappa < inf.
    tau : float
        Asymmetry of the point, 0 < tau < 1.
    distance : float
        How far beyond the right edge of the zone the residual lies, > 0.

    Examples
    --------
    >>> from qhreg.certificate import joint_indefiniteness_witness
    >>> witness = joint_indefiniteness_witness(1.0)
    >>> witness.r, witness.tau, round(witness.curvature, 6)
    (1.5, 0.5, -0.160351)
    """
    kappa, tau = scalar_kappa(kappa), check_tau(tau)
    if not isinstance(tau, float) or not 0 < distance < math.inf:
        raise DomainError(f"one tau and a distance > 0 are needed, got {tau!r} and {distance!r}")
    bend = log_normalizer_derivatives(tau, kappa).d2_tau - kappa
    root = math.hypot(bend, 2.0)
    # Of the two forms of the smaller root of z^2 - bend z - 1 = 0, the one that does not cancel.
    eigenvalue = -2.0 / (bend + root) if bend > 0 else 0.5 * (bend - root)
    norm = math.hypot(1.0, eigenvalue)
    return JointIndefiniteness(
        kappa,
        kappa * (1.0 - tau) + distance,
        tau,
        (1.0 / norm, -eigenvalue / norm),
        eigenvalue,
        ((0.0, -1.0), (-1.0, bend)),
    )
