r"""Convexity in tau whatever the residuals are: (log c)'' > kappa, proved for every tau.

The minimum over tau lies at 1/2 for every kappa (QH-33), and the condition is kappa < kappa*
(QH-35). The proof for a given kappa does not rest on (QH-33): see :func:`biconvexity_certificate`.
It is the most one can have: the loss is nowhere jointly convex in (r, tau).
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import mpmath

from qhreg.certificate.enclosures import (
    curvature,
    curvature_at_half,
    curvature_second_derivative,
    end_bound,
    interval_context,
    lower,
    scaled_half,
)
from qhreg.exceptions import DomainError, QhregError
from qhreg.family.domain import check_kappa, check_tau
from qhreg.family.normalizer import log_normalizer_derivatives

KAPPA_STAR = 4.630913775254134
"""The critical width kappa*, rounded to a float: see :func:`critical_kappa`."""

_PRECISIONS = (96, 192)
"""Bits for the comparison at tau = 1/2: floats are 2^-50 apart there, so that the first decides."""

_CELL_PRECISION = 53
"""Bits of the interval evaluations over cells of tau: those of a float."""

_CORE = 0.4
"""(log c)'' is shown to be convex on [_CORE, 1/2] and above kappa on what is left of it."""

_MAX_CELLS = 400
"""Cells after which a proof is given up as undecided: a tenth of a second."""


Status = Literal["proved", "refuted", "undecided"]


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return the title and one aligned line for each (name, value)."""
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a table with the title as caption and one row for each (name, value)."""
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{html.escape(title)}</caption><tbody>{cells}</tbody></table>"


@dataclass(frozen=True)
class BiconvexityCertificate:
    """Whether (log c)'' exceeds kappa for every tau in (0, 1), with the numbers.

    Attributes
    ----------
    kappa : float
        The Huber width asked about.
    min_curvature : float
        Minimum over tau of (log c)''. For kappa >= 6,000 it is below the smallest float: 0.
    argmin_tau : float
        Where it is attained: 1/2.
    margin : float
        min_curvature - kappa, rounded once.
    status : {"proved", "refuted", "undecided"}
        "proved": for every tau. "refuted": an interval evaluation at ``argmin_tau`` lies below
        kappa. "undecided": kappa is kappa* to within the working precision.
    cells : int
        How many intervals of tau the proof evaluated; 0 where the bound (QH-32) covers all tau.
    """

    kappa: float
    min_curvature: float
    argmin_tau: float
    margin: float
    status: Status
    cells: int

    @property
    def holds(self) -> bool:
        """Whether the condition is proved for every tau in (0, 1)."""
        return self.status == "proved"

    def _title(self) -> str:
        return f"Biconvexity certificate, kappa = {self.kappa:.6g}"

    def _rows(self) -> list[tuple[str, str]]:
        verdict = {
            "proved": "yes, proved for every tau in (0, 1)",
            "refuted": f"no, (log c)'' < kappa is proved at tau = {self.argmin_tau:g}",
            "undecided": "undecided: kappa equals the critical width to working precision",
        }
        return [
            ("min of (log c)''", f"{self.min_curvature:.6g} at tau = {self.argmin_tau:g}"),
            ("margin over kappa", f"{self.margin:.6g}"),
            ("convex in tau", verdict[self.status]),
            ("critical kappa", f"{KAPPA_STAR:.6f}"),
        ]

    def __str__(self) -> str:
        return as_text(self._title(), self._rows())

    def _repr_html_(self) -> str:
        return as_html(self._title(), self._rows())


def end_width(kappa: float, iv: Any) -> float:
    """Return t0 <= 1/2 such that (QH-32) proves (log c)'' > kappa on (0, t0].

    Where the bound exceeds kappa, it is valid: kappa t^2 < 1 / (1 + (2 + kappa / 2) t) < 1.
    """
    width = iv.mpf(kappa)

    def covered(t: float) -> bool:
        return lower(end_bound(iv.mpf(t), width)) > kappa

    good = 0.5
    while not covered(good):
        good *= 0.5
    bad = 2.0 * good
    for _ in range(12 if good < 0.5 else 0):
        middle = 0.5 * (good + bad)
        good, bad = (middle, bad) if covered(middle) else (good, middle)
    return good


def _bisect(
    enclose: Callable[[Any, Any, Any], Any], level: float, bounds: tuple[float, float], kappa: float
) -> int | None:
    """Return how many cells prove enclose(t) > level on the bounds, None if that needs too many."""
    iv = interval_context(_CELL_PRECISION)
    width = iv.mpf(kappa)
    pending = [bounds] if bounds[0] < bounds[1] else []
    cells = 0
    while pending:
        if cells == _MAX_CELLS:
            return None
        left, right = pending.pop()
        cells += 1
        if not lower(enclose(iv.mpf([left, right]), width, iv)) > level:
            middle = 0.5 * (left + right)
            pending += [(left, middle), (middle, right)]
    return cells


def _prove_for_every_tau(kappa: float) -> int | None:
    """Return the number of cells of a proof of (log c)'' > kappa on (0, 1/2), given it at 1/2.

    Three parts: (QH-32) on (0, t0], interval evaluations of (log c)'' on [t0, 0.4], and convexity
    of (log c)'' on the rest up to 1/2, where its slope vanishes by symmetry: it is least at 1/2.
    """
    end = end_width(kappa, interval_context(_CELL_PRECISION))
    middle = _bisect(curvature, kappa, (end, _CORE), kappa)
    core = _bisect(curvature_second_derivative, 0.0, (max(end, _CORE), 0.5), kappa)
    return None if middle is None or core is None else middle + core


@lru_cache(maxsize=1024)
def _certify(kappa: float, precisions: tuple[int, ...] = _PRECISIONS) -> BiconvexityCertificate:
    status: Status = "undecided"
    cells: int | None = 0
    for precision in precisions:
        iv = interval_context(precision)
        at_half = curvature_at_half(iv.mpf(kappa), iv)
        margin = at_half - kappa
        if margin.b < 0:
            status = "refuted"
        elif margin.a > 0:
            cells = _prove_for_every_tau(kappa)
            status = "undecided" if cells is None else "proved"
        else:
            continue
        break
    return BiconvexityCertificate(
        kappa, float(at_half.mid), 0.5, float(margin.mid), status, cells or 0
    )


def biconvexity_certificate(kappa: Any) -> BiconvexityCertificate:
    r"""Return whether the objective is convex in tau for all residuals, proved for every tau.

    The condition is :math:`(\log c)''(\tau) > \kappa` on (0, 1). It holds exactly for
    kappa < kappa* = 4.6309..., also ``biconvexity_certificate.kappa_max``.

    Parameters
    ----------
    kappa : float
        Huber width in units of sigma, 0 <= kappa < inf. The scale does not enter (QH-12).

    Returns
    -------
    BiconvexityCertificate
        ``holds``, ``min_curvature``, ``argmin_tau``, ``margin``, ``status``.

    Notes
    -----
    The proof is made for the given kappa: an analytic bound near tau = 0 (QH-32), outward-rounded
    interval arithmetic with bisection up to tau = 0.4, interval convexity of (log c)'' from there
    to 1/2, an interval evaluation at 1/2, and the symmetry tau -> 1 - tau. That the minimum lies at
    1/2 for every kappa is the theorem (QH-33). Results are kept, so that asking twice is free.

    Examples
    --------
    >>> from qhreg.certificate import biconvexity_certificate
    >>> print(biconvexity_certificate(1.0))
    Biconvexity certificate, kappa = 1
      min of (log c)''   7.07595 at tau = 0.5
      margin over kappa  6.07595
      convex in tau      yes, proved for every tau in (0, 1)
      critical kappa     4.630914
    >>> biconvexity_certificate(8.0).holds
    False
    """
    return _certify(scalar_kappa(kappa))


# A function carries its constant: type checkers do not know attributes of functions.
biconvexity_certificate.kappa_max = KAPPA_STAR  # type: ignore[attr-defined]


def scalar_kappa(kappa: Any) -> float:
    """Return kappa as one float, or raise a DomainError unless 0 <= kappa < inf."""
    value = check_kappa(kappa)
    if not isinstance(value, float):
        raise DomainError(f"kappa must be one number, got an array of shape {value.shape}")
    return value


def critical_kappa(digits: int = 40) -> mpmath.mpf:
    r"""Return kappa*, below which the certificate holds, to any number of digits.

    At tau = 1/2, with x = kappa / 4, the condition :math:`4(x+2)/D(x) > 4x` fails first at the root
    of :math:`x\,D(x) = x + 2` (QH-35), which in elementary terms reads

    .. math::

        \sqrt{2\pi}\;\kappa^{3/2}\,e^{\kappa/8}\operatorname{erf}\sqrt{\kappa/8} = 32 .

    The left side increases in kappa, so that the root is the only one.

    Parameters
    ----------
    digits : int
        Significant digits; the last one is right to within one unit, which is proved by interval
        evaluations on both sides of the root.

    Examples
    --------
    >>> from qhreg.certificate import critical_kappa
    >>> print(critical_kappa(30))
    4.63091377525413428667758287682
    """
    if digits < 1:
        raise DomainError(f"digits must be at least 1, got {digits!r}")
    context = mpmath.mp.clone()
    context.dps = digits + 10

    def equation(kappa: Any) -> Any:
        root = context.sqrt(2 * context.pi * kappa**3)
        return root * context.exp(kappa / 8) * context.erf(context.sqrt(kappa / 8)) - 32

    kappa = context.findroot(equation, KAPPA_STAR)
    _check_bracket(kappa, digits)
    context.dps = digits
    return +kappa


def _check_bracket(kappa: mpmath.mpf, digits: int) -> None:
    """Raise unless x D(x) - x - 2 is proved to change sign within 10^-digits around kappa / 4."""
    iv = interval_context(int(3.33 * digits) + 64)
    step = iv.mpf(10) ** (-digits)
    below, above = ((iv.mpf(str(kappa)) + side * step) / 4 for side in (-1, 1))
    signs = [x * scaled_half(x, iv) - x - 2 for x in (below, above)]
    if not (signs[0].b < 0 < signs[1].a):
        raise QhregError(f"kappa* = {kappa} could not be verified to {digits} digits")


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
