"""Convexity for given residuals: in tau alone, true for larger kappa, and in both, never true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.certificate.biconvexity import (
    Certificate,
    Status,
    scalar_kappa,
)
from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_real, check_tau
from qhreg.family.normalizer import log_normalizer_derivatives


@dataclass(frozen=True)
class DataCertificate(Certificate):
    """Whether the objective is convex in tau for the given residuals, with the numbers.

    Attributes
    ----------
    kappa : float
        The Huber width.
    nobs : float
        Sum of the weights: the number of residuals when there are none.
    tau_bounds : tuple of float
        The open interval of tau asked about.
    margin : float
        Infimum over tau of (log c)''(tau) - kappa w(tau), w the share outside the zone.
    argmin_tau : float
        Where that infimum is approached.
    outside : float
        The share outside the zone next to it.
    status : {"proved", "refuted", "undecided"}
        "undecided" where the margin is zero to working precision.
    witness_tau : float or None
        With "refuted": a tau with negative second derivative.
    """

    kappa: float
    nobs: float
    tau_bounds: tuple[float, float]
    margin: float
    argmin_tau: float
    outside: float
    status: Status
    witness_tau: float | None

    def _table(self) -> tuple[str, list[tuple[str, str]]]:
        low, high = self.tau_bounds
        verdict = {
            "proved": f"yes, proved for every tau in ({low:g}, {high:g})",
            "refuted": f"no, negative curvature is proved at tau = {self.witness_tau}",
            "undecided": "undecided: the margin is zero to working precision",
        }
        title = f"Convexity in tau for {self.nobs:.12g} residuals, kappa = {self.kappa:.6g}"
        return title, [
            ("smallest margin", f"{self.margin:.6g} at tau = {self.argmin_tau:.6g}"),
            ("share outside quadratic zone", f"{self.outside:.6g}"),
            ("convex in tau", verdict[self.status]),
        ]


def _as_vector(name: str, values: Any) -> FloatArray:
    """Return values as a vector of finite floats, or raise a DataError that says what they are."""
    vector = np.asarray(check_real(name, values))
    if vector.ndim != 1 or vector.size == 0:
        raise DataError(f"{name} must be a vector of at least one number, got {vector.shape}")
    bad = np.count_nonzero(~np.isfinite(vector))
    if bad:
        raise DataError(f"{name} must be finite, got {bad} of {vector.size} that are not")
    return vector


class _Pieces(NamedTuple):
    """Intervals of tau with a constant share outside the zone: near and far end, seen from 1/2."""

    near: FloatArray
    far: FloatArray
    share: FloatArray


def _pieces(u: FloatArray, w: FloatArray, kappa: float, bounds: tuple[float, float]) -> _Pieces:
    """Return the pieces between the values of tau at which a residual leaves the zone."""
    order = np.argsort(u, kind="stable")
    u, w = u[order], w[order]
    before = np.concatenate([[0.0], np.cumsum(w)])
    after = np.concatenate([[0.0], np.cumsum(w[::-1])])[::-1]
    zone = u[np.abs(u) < kappa]
    turns = np.array([0.5])
    if kappa:
        turns = np.concatenate([turns, -zone[zone < 0] / kappa, 1.0 - zone[zone > 0] / kappa])
    inside = turns[(turns > bounds[0]) & (turns < bounds[1])]
    edges = np.unique(np.concatenate([[bounds[0]], inside, [bounds[1]]]))
    left, right = edges[:-1], edges[1:]
    middle = 0.5 * (left + right)
    outside = before[np.searchsorted(u, -kappa * middle, side="left")]
    outside = outside + after[np.searchsorted(u, kappa * (1.0 - middle), side="right")]
    near, far = np.where(left < 0.5, right, left), np.where(left < 0.5, left, right)
    return _Pieces(near, far, outside / before[-1])


def _witness(piece: tuple[float, float, float], kappa: float) -> float | None:
    """Return a tau in a piece, as far from its near end as it can be, where the objective bends down."""
    near, far, share = (float(part) for part in piece)
    for halvings in range(1, 60):
        tau = near + (far - near) * 0.5**halvings
        bend = log_normalizer_derivatives(tau, kappa).d2_tau - kappa * share
        if bend < -ROUNDING * kappa * share:
            return tau
    return None


def data_certificate(
    u: Any, kappa: Any, tau_bounds: tuple[float, float] = (0.0, 1.0), weights: Any = None
) -> DataCertificate:
    r"""Return whether the objective is convex in tau for the given standardised residuals.

    The condition (QH-37) is

    .. math::

        n\,(\log c)''(\tau) > \kappa\,\#\{i : u_i < -\kappa\tau \text{ or } u_i > \kappa(1-\tau)\}

    for every tau in ``tau_bounds`` but the finitely many at which the count jumps. It is weaker
    than that of :func:`biconvexity_certificate`, which takes all residuals to be outside.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals (y - x'beta) / sigma.
    kappa : float
        Huber width, 0 <= kappa < inf.
    tau_bounds : tuple of float
        The open interval of tau to decide about, 0 <= low < high <= 1.
    weights : array_like, shape (n,), optional
        Case weights >= 0; the count becomes a sum of weights and n their total.

    Returns
    -------
    DataCertificate
        ``holds``, ``margin`` per observation, ``argmin_tau``, ``outside``, ``status``,
        ``witness_tau``.

    Notes
    -----
    The count is constant between the sorted breakpoints -u / kappa (u < 0) and 1 - u / kappa
    (u > 0), and on each piece (log c)'' is least at the end nearer to 1/2 (QH-33): the margin is the
    minimum over the pieces. (log c)'' is exact to rounding; a margin within it is undecided.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.certificate import data_certificate
    >>> u = np.linspace(-4, 4, 101)
    >>> data_certificate(u, 6.0).holds, data_certificate(3 * u, 6.0).holds
    (True, False)
    """
    kappa = scalar_kappa(kappa)
    low, high = float(tau_bounds[0]), float(tau_bounds[1])
    if not 0.0 <= low < high <= 1.0:
        raise DomainError(f"tau_bounds must satisfy 0 <= low < high <= 1, got {tau_bounds!r}")
    u = _as_vector("residuals", u)
    w = np.ones_like(u) if weights is None else _as_vector("weights", weights)
    if w.shape != u.shape:
        raise DataError(f"one weight for each residual is needed, got {w.size} and {u.size}")
    if np.any(w < 0) or not np.any(w > 0):
        raise DataError("weights must be >= 0, and one of them > 0")
    near, far, share = _pieces(u, w, kappa, (low, high))
    margin = log_normalizer_derivatives(near, kappa).d2_tau - kappa * share
    worst = int(np.argmin(margin))
    witness = _witness((near[worst], far[worst], share[worst]), kappa)
    convex = (margin > ROUNDING * kappa * share) | (share == 0.0)  # log c itself is convex
    status: Status = "refuted" if witness is not None else "undecided"
    if convex.all():
        status = "proved"
    return DataCertificate(
        kappa,
        float(w.sum()),
        (low, high),
        float(margin[worst]),
        float(near[worst]),
        float(share[worst]),
        status,
        witness,
    )


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
