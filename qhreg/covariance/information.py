r"""The expected information of the quantile Huber likelihood, in closed form.

The scores of one observation are (QH-20)

.. math::

    s_\beta = \frac{\psi x}{\sigma}, \quad s_\sigma = \frac{u\psi - 1}{\sigma}, \quad
    s_\tau = e - (\log c)', \quad s_\kappa = \frac{\psi^2}{2} - \partial_\kappa \log c .

Outside the quadratic zone the excess is exponential, inside it u is a truncated normal variable, and
every product of two scores has an expectation in elementary functions and the integrals
:math:`\int_0^z v^n e^{-\kappa v^2/2} dv`. They depend on the data only through X'WX, X'W1 and the
sum of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.linalg.lapack import dpotrf

from qhreg._blocks import row_blocks
from qhreg._typing import FloatArray
from qhreg.exceptions import ColumnRangeError, DataError, DomainError
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.family.normalizer import (
    LogNormalizer,
    log_normalizer_derivatives,
    restricted_normalizer,
)
from qhreg.solver.basis import CHOLESKY_SAFE

__all__ = [
    "PARAMETERS",
    "DesignMoments",
    "NormalizerHessian",
    "TailInformation",
    "UnitInformation",
    "check_free",
    "design_moments",
    "expected_information",
    "gram_factor",
    "normalizer_hessian",
    "tail_information",
    "unit_information",
]


PARAMETERS = ("beta", "sigma", "tau", "kappa")
"""The parameters in the order of the rows of every matrix."""


@dataclass(frozen=True)
class UnitInformation:
    """Expected products of the scores of one observation at sigma = 1 and x = 1.

    The attributes are named after the two scores: ``beta_tau`` is E[s_beta s_tau]. ``in_left``,
    ``in_zone`` and ``in_right`` are the probabilities of the three parts, ``zone_square`` is
    E[psi^2; zone], and ``log_c_tau`` to ``log_c_kappa2`` are the derivatives of log c.
    """

    beta_beta: float
    beta_sigma: float
    beta_tau: float
    beta_kappa: float
    sigma_sigma: float
    sigma_tau: float
    sigma_kappa: float
    tau_tau: float
    tau_kappa: float
    kappa_kappa: float
    in_left: float
    in_zone: float
    in_right: float
    log_c_tau: float
    log_c_kappa: float
    zone_square: float
    log_c_tau2: float
    log_c_tau_kappa: float
    log_c_kappa2: float

    def of(self, first: str, second: str) -> float:
        """Return the entry of two named parameters, in either order."""
        if PARAMETERS.index(first) > PARAMETERS.index(second):
            first, second = second, first
        value: float = getattr(self, f"{first}_{second}")
        return value


def _zone_integral(n: int, z: float, kappa: float) -> float:
    """Return the integral of v^n exp(-kappa v^2 / 2) over (0, z), for even n."""
    a = 0.5 * (n + 1)
    x = 0.5 * kappa * z * z
    if x > 1.0:
        gamma = special.gamma(a) * special.gammainc(a, x)
        return float(0.5 * (2.0 / kappa) ** a * gamma)
    # z^(n+1) / (n+1) times Kummer's function, whose series has only positive terms in this form.
    term = total = 1.0
    for j in range(1, 30):
        term *= x / (a + j)
        total += term
        if term < 1e-17 * total:
            break
    return z ** (n + 1) / (n + 1) * math.exp(-x) * total


def unit_information(tau: float, kappa: float) -> UnitInformation:
    r"""Return the expected products of the scores at sigma = 1 and x = 1.

    Parameters
    ----------
    tau : float
        Asymmetry, 0 < tau < 1.
    kappa : float
        Huber width, 0 <= kappa < inf.

    Returns
    -------
    UnitInformation
        Python floats.

    Notes
    -----
    With t = tau, s = 1 - tau, the probabilities :math:`\pi_-, \pi_0, \pi_+` of the three parts,
    :math:`G_n = \int_{-t}^{s} v^n e^{-\kappa v^2/2} dv`, :math:`q = E[\psi^2; \text{zone}] =
    \kappa G_2 / c` and :math:`d = \partial_\kappa\log c` (QH-21):

    .. math::

        I_{\beta\beta} &= 2d &
        I_{\beta\sigma} &= t\pi_- - s\pi_+ &
        I_{\beta\tau} &= \pi_- + \pi_+ &
        I_{\beta\kappa} &= I_{\beta\sigma}/\kappa \\
        I_{\sigma\sigma} &= 1 + \kappa q &
        I_{\sigma\tau} &= (\kappa s + 1/s)\pi_+ - (\kappa t + 1/t)\pi_- &
        I_{\sigma\kappa} &= q &
        I_{\kappa\kappa} &= 3 G_2/(4c) - d^2 \\
        I_{\tau\tau} &= 2\pi_-/t^2 + 2\pi_+/s^2 - (\log c)'^2 &
        I_{\tau\kappa} &= (s\pi_+ - t\pi_-)/2 - (\log c)' d

    Variances are computed as sums of squares, and :math:`t\pi_- - s\pi_+` as an expm1, so that all
    entries stay accurate where they are small. At kappa = 0 they are finite.

    Examples
    --------
    >>> from qhreg.covariance.information import unit_information
    >>> info = unit_information(0.5, 0.0)
    >>> info.beta_beta, info.sigma_sigma, info.tau_tau
    (0.25, 1.0, 8.0)
    """
    return _unit_information(float(check_tau(float(tau))), float(check_kappa(float(kappa))))


class TailInformation(NamedTuple):
    """What (QH-21) has without an integral over the zone: tails, and products named after two scores."""

    left: Any
    right: Any
    beta_kappa: Any
    sigma_tau: Any
    tau_tau: Any


def tail_information(tau: Any, kappa: float, log_c: LogNormalizer) -> TailInformation:
    """Return the part of :func:`unit_information` that needs no integral, shape of `tau`.

    Parameters
    ----------
    tau : float or ndarray
        Asymmetries.
    kappa : float
        Huber width.
    log_c : LogNormalizer
        The normaliser there.
    """
    t, s, m = tau, 1.0 - tau, log_c.d_tau
    left = np.exp(-0.5 * kappa * t * t - np.log(t) - log_c.value)
    right = np.exp(-0.5 * kappa * s * s - np.log(s) - log_c.value)
    # t left - s right, divided by kappa: the limit of expm1(k h) / k is h.
    lean = -0.5 * np.abs(1.0 - 2.0 * t)
    ratio = lean if kappa == 0.0 else np.expm1(lean * kappa) / kappa
    tau_tau = left * (1.0 / t**2 + (1.0 / t + m) ** 2) + right * (1.0 / s**2 + (1.0 / s - m) ** 2)
    return TailInformation(
        left,
        right,
        np.where(t <= 0.5, -t * left, s * right) * ratio,
        (kappa * s + 1.0 / s) * right - (kappa * t + 1.0 / t) * left,
        tau_tau + 2.0 * kappa * log_c.d_kappa * m * m,
    )


@lru_cache(maxsize=32)
def _unit_information(t: float, kappa: float) -> UnitInformation:
    """Return the same for checked arguments: fits of a process or a bootstrap share theirs."""
    s = 1.0 - t
    log_c = log_normalizer_derivatives(t, kappa)
    m, d = log_c.d_tau, log_c.d_kappa
    left, right, tilt, sigma_tau, tau_tau = map(float, tail_information(t, kappa, log_c))
    g0, g2, g4 = (_zone_integral(n, t, kappa) + _zone_integral(n, s, kappa) for n in (0, 2, 4))
    inverse_c = math.exp(-log_c.value)
    square = kappa * g2 * inverse_c
    variance = left * (0.5 * t * t - d) ** 2 + right * (0.5 * s * s - d) ** 2
    variance += (0.25 * g4 - d * g2 + d * d * g0) * kappa * inverse_c
    return UnitInformation(
        beta_beta=2.0 * d,
        beta_sigma=kappa * tilt,
        beta_tau=left + right,
        beta_kappa=tilt,
        sigma_sigma=1.0 + kappa * square,
        sigma_tau=sigma_tau,
        sigma_kappa=square,
        tau_tau=tau_tau,
        tau_kappa=-0.5 * kappa * tilt - m * d,
        kappa_kappa=variance,
        in_left=left,
        in_zone=2.0 * kappa * d,
        in_right=right,
        log_c_tau=m,
        log_c_kappa=d,
        zone_square=square,
        log_c_tau2=log_c.d2_tau,
        log_c_tau_kappa=0.5 * kappa * tilt - m * d,
        log_c_kappa2=variance - g2 * inverse_c,
    )


class NormalizerHessian(NamedTuple):
    """Second derivatives of the part of the criterion (QH-25) that has no data, and the first ones."""

    d_tau: float
    d_kappa: float
    d2_tau: float
    d2_kappa: float
    d_tau_kappa: float


def normalizer_hessian(tau: float, kappa: float, n: float, rank: float) -> NormalizerHessian:
    r"""Return the derivatives of n log c + (rank / 2) log q in tau and kappa, kappa > 0.

    Parameters
    ----------
    tau, kappa : float
        Asymmetry and width.
    n, rank : float
        Sum of the weights; p of the restricted likelihood, zero for the ordinary one.

    Notes
    -----
    With N as in (QH-25), :math:`N_\kappa = -G_2/2`, :math:`N_{\kappa\kappa} = G_4/4` and
    :math:`N_{\tau\kappa} = (s^2 e_s - t^2 e_t)/2`, t = tau, s = 1 - tau,
    :math:`e_z = e^{-\kappa z^2/2}`; log q = log N - log c.
    """
    unit, c = unit_information(tau, kappa), restricted_normalizer(tau, kappa, n, rank)
    d2_kappa, mixed = n * unit.log_c_kappa2, n * unit.log_c_tau_kappa
    if rank:
        t, s = tau, 1.0 - tau
        e_t, e_s = math.exp(-0.5 * kappa * t * t), math.exp(-0.5 * kappa * s * s)
        g0, g2, g4 = (_zone_integral(j, t, kappa) + _zone_integral(j, s, kappa) for j in (0, 2, 4))
        bend = 0.25 * g4 / g0 - (0.5 * g2 / g0) ** 2
        cross = 0.5 * (s * s * e_s - t * t * e_t) / g0 + 0.5 * g2 * (e_t - e_s) / g0**2
        d2_kappa += 0.5 * rank * (bend - unit.log_c_kappa2)
        mixed += 0.5 * rank * (cross - unit.log_c_tau_kappa)
    return NormalizerHessian(c.d_tau, c.d_kappa, c.d2_tau, d2_kappa, mixed)


@dataclass(frozen=True)
class DesignMoments:
    """What the expected information needs of the data.

    Attributes
    ----------
    weight_sum : float
        Sum of the weights.
    column_sum : ndarray, shape (p,)
        X'W1.
    factor : ndarray, shape (p, p)
        Upper triangular R with R'R = X'WX. Where the columns are so collinear that the Gram matrix
        would lose them, it comes from orthogonal transformations of the rows.
    """

    weight_sum: float
    column_sum: FloatArray
    factor: FloatArray

    @property
    def gram(self) -> FloatArray:
        """X'WX."""
        return self.factor.T @ self.factor


def _weighted_block(
    exog: npt.NDArray[np.floating], root: FloatArray | None, rows: slice
) -> FloatArray:
    block = np.asarray(exog[rows], dtype=np.float64)
    return block if root is None else block * root[rows, None]


def gram_factor(gram: FloatArray) -> FloatArray | None:
    """Return the Cholesky factor of a Gram matrix, or None where it would be inaccurate."""
    length = np.sqrt(gram.diagonal())
    if not gram.size or not length.min() > 0.0:
        return None
    factor, info = dpotrf(gram / length / length[:, None], clean=1)
    if info != 0 or not factor.diagonal().min() > CHOLESKY_SAFE:
        return None
    return np.asarray(factor * length)


def _orthogonal_factor(
    exog: npt.NDArray[np.floating], root: FloatArray | None, size: FloatArray
) -> FloatArray:
    """Return the triangular factor of sqrt(W) X from orthogonal transformations, block by block."""
    p = exog.shape[1]
    factor = np.zeros((0, p))
    for rows in row_blocks(*exog.shape):
        stacked = np.vstack([factor, _weighted_block(exog, root, rows) / size])
        factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    full = np.zeros((p, p))
    full[: factor.shape[0]] = factor * size
    return full


def _require_squares(gram: FloatArray) -> None:
    """Raise a ColumnRangeError that names the first column whose squares are lost."""
    lost = ~np.isfinite(gram.diagonal())
    if lost.any():
        raise ColumnRangeError(int(np.flatnonzero(lost)[0]))


def design_moments(exog: Any, weights: Any = None) -> DesignMoments:
    """Return X'WX (as its triangular factor), X'W1 and the sum of the weights, in one pass.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors; never copied as a whole.
    weights : array_like, shape (n,), or None
        Weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.information import design_moments
    >>> moments = design_moments(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> moments.column_sum, moments.weight_sum
    (array([2., 2.]), 2.0)
    """
    x = np.asarray(exog)
    if x.ndim != 2:
        raise DataError(f"exog must be a matrix, got an array of shape {x.shape}")
    n, p = x.shape
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    if w is not None and w.shape != (n,):
        raise DataError(f"weights must have shape ({n},) like exog's rows, got {w.shape}")
    root = None if w is None else np.sqrt(w)
    gram, column_sum = np.zeros((p, p)), np.zeros(p)
    for rows in row_blocks(n, p):
        block = _weighted_block(x, root, rows)
        gram += block.T @ block
        column_sum += np.ones(block.shape[0]) @ block if root is None else root[rows] @ block
    _require_squares(gram)
    factor = gram_factor(gram)
    if factor is None:
        size = np.sqrt(gram.diagonal())
        size[size == 0.0] = 1.0
        factor = _orthogonal_factor(x, root, size)
    return DesignMoments(float(n if w is None else w.sum()), column_sum, factor)


def check_free(free: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the estimated parameters in canonical order, or raise a DomainError."""
    unknown = [name for name in free if name not in PARAMETERS]
    if unknown or isinstance(free, str):
        raise DomainError(f"free must list some of {PARAMETERS}, got {free!r}")
    return tuple(name for name in PARAMETERS if name in free)


def assemble(
    free: tuple[str, ...], gram: FloatArray, column: FloatArray, total: float, unit: UnitInformation
) -> FloatArray:
    """Return the information of all rows at sigma = 1 from the moments of the design."""
    p = gram.shape[0] if "beta" in free else 0
    others = [name for name in free if name != "beta"]
    q = p + len(others)
    info = np.empty((q, q))
    if p:
        info[:p, :p] = unit.beta_beta * gram
    for i, name in enumerate(others):
        if p:
            info[:p, p + i] = info[p + i, :p] = unit.of("beta", name) * column
        for j, other in enumerate(others):
            info[p + i, p + j] = total * unit.of(name, other)
    return info


def score_scale(free: tuple[str, ...], p: int, sigma: float) -> FloatArray:
    """Return the factors 1/sigma (beta, sigma) and 1 (tau, kappa) of the scores."""
    parts = {"beta": [1.0 / sigma] * p, "sigma": [1.0 / sigma], "tau": [1.0], "kappa": [1.0]}
    return np.array([factor for name in free for factor in parts[name]])


def expected_information(
    exog: Any,
    sigma: float,
    tau: float,
    kappa: float,
    *,
    weights: Any = None,
    free: Sequence[str] = ("beta", "sigma", "tau"),
) -> FloatArray:
    r"""Return the expected information E[s s'] of all observations, in closed form (QH-21).

    Parameters
    ----------
    exog : array_like, shape (n, p), or DesignMoments
        Regressors, or what :func:`design_moments` made of them.
    sigma, tau, kappa : float
        Scale, asymmetry and Huber width at which the expectation is taken.
    weights : array_like, shape (n,), or None
        Case weights; must be None when `exog` holds moments already.
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" are estimated.

    Returns
    -------
    ndarray, shape (q, q)
        Rows in the order beta, sigma, tau, kappa, those not in `free` left out.

    Notes
    -----
    Continuous down to kappa = 0, where the Hessian of the likelihood is not: its beta block counts
    the rows in the zone, of which there are none. Two limits carry no information: about kappa at
    (tau, kappa) = (1/2, 0), where psi^2 is constant; about tau for kappa to infinity, where all rows
    are in the zone.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.information import expected_information
    >>> expected_information(np.ones((4, 1)), 1.0, 0.5, 0.0)
    array([[ 1.,  0.,  4.],
           [ 0.,  4.,  0.],
           [ 4.,  0., 32.]])
    """
    names = check_free(free)
    moments = exog if isinstance(exog, DesignMoments) else design_moments(exog, weights)
    if moments is exog and weights is not None:
        raise DataError("weights are part of DesignMoments already: give them to design_moments")
    unit = unit_information(tau, kappa)
    info = assemble(names, moments.gram, moments.column_sum, moments.weight_sum, unit)
    scale = score_scale(names, moments.column_sum.size, float(check_sigma(float(sigma))))
    return info * np.outer(scale, scale)
