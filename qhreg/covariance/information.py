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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf

from qhreg._blocks import row_blocks
from qhreg._typing import FloatArray
from qhreg.exceptions import ColumnRangeError, DomainError
from qhreg.family.normalizer import (
    LogNormalizer,
    log_normalizer_derivatives,
    restricted_normalizer,
    zone_integral,
)
from qhreg.solver.setup import CHOLESKY_SAFE
from qhreg.specification.observations import Observations

PARAMETERS = ("beta", "sigma", "tau", "kappa")
"""The parameters in the order of the rows of every matrix."""


def zone_integrals(tau: float, kappa: float) -> FloatArray:
    """Return the integrals G_0, G_2 and G_4 of (QH-21) over the zone."""
    powers, ends = np.array([[0], [2], [4]]), np.array([tau, 1.0 - tau])
    return np.asarray(zone_integral(powers, ends, kappa).sum(axis=1))


def unit_information(tau: float, kappa: float) -> FloatArray:
    r"""Return the expected products of the scores of one observation at sigma = 1 and x = 1.

    Parameters
    ----------
    tau : float
        Asymmetry, 0 < tau < 1.
    kappa : float
        Huber width, 0 <= kappa < inf.

    Returns
    -------
    ndarray, shape (4, 4)
        E[s s'] in the order of :data:`PARAMETERS`: beta, sigma, tau, kappa.

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
    >>> unit_information(0.5, 0.0).diagonal()
    array([0.25, 1.  , 8.  , 0.  ])
    """
    t, s = tau, 1.0 - tau
    log_c = log_normalizer_derivatives(t, kappa)
    m, d, inverse_c = log_c.d_tau, log_c.d_kappa, math.exp(-log_c.value)
    left, right, tilt, sigma_tau, tau_tau = map(float, tail_information(t, kappa, log_c))
    g0, g2, g4 = zone_integrals(t, kappa)
    square, beta_tau, tau_kappa = kappa * g2 * inverse_c, left + right, -0.5 * kappa * tilt - m * d
    variance = left * (0.5 * t * t - d) ** 2 + right * (0.5 * s * s - d) ** 2
    variance += (0.25 * g4 - d * g2 + d * d * g0) * kappa * inverse_c
    return np.array(
        [
            [2.0 * d, kappa * tilt, beta_tau, tilt],
            [kappa * tilt, 1.0 + kappa * square, sigma_tau, square],
            [beta_tau, sigma_tau, tau_tau, tau_kappa],
            [tilt, square, tau_kappa, variance],
        ]
    )


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


def normalizer_hessian(
    tau: float, kappa: float, n: float, rank: float
) -> tuple[FloatArray, FloatArray]:
    r"""Return gradient and Hessian of n log c + (rank / 2) log q in tau and kappa.

    Parameters
    ----------
    tau, kappa : float
        Asymmetry and width.
    n, rank : float
        Sum of the weights; p of the restricted likelihood, zero for the ordinary one.

    Notes
    -----
    The second derivatives of log c are the information less the mean ones of rho. With N as in (QH-25),
    :math:`N_\kappa = -G_2/2`, :math:`N_{\kappa\kappa} = G_4/4` and
    :math:`N_{\tau\kappa} = (s^2 e_s - t^2 e_t)/2`, t = tau, s = 1 - tau,
    :math:`e_z = e^{-\kappa z^2/2}`; log q = log N - log c.
    """
    unit, c = unit_information(tau, kappa), restricted_normalizer(tau, kappa, n, rank)
    t, s = tau, 1.0 - tau
    e_t, e_s = math.exp(-0.5 * kappa * t * t), math.exp(-0.5 * kappa * s * s)
    g0, g2, g4 = zone_integrals(tau, kappa)
    d2_kappa, mixed = unit[3, 3] - unit[0, 0] * g2 / g0, unit[2, 3] + unit[0, 1]
    bend = 0.25 * g4 / g0 - (0.5 * g2 / g0) ** 2
    cross = 0.5 * (s * s * e_s - t * t * e_t) / g0 + 0.5 * g2 * (e_t - e_s) / g0**2
    d2_kappa = n * d2_kappa + 0.5 * rank * (bend - d2_kappa)
    mixed = n * mixed + 0.5 * rank * (cross - mixed)
    return np.array([c.d_tau, c.d_kappa]), np.array([[c.d2_tau, mixed], [mixed, d2_kappa]])


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


def _gram_factor(gram: FloatArray) -> FloatArray | None:
    """Return the Cholesky factor of a Gram matrix, or None where it would be inaccurate."""
    length = np.sqrt(gram.diagonal())
    if not gram.size or not length.min() > 0.0:
        return None
    factor, info = dpotrf(gram / length / length[:, None], clean=1)
    if info != 0 or not factor.diagonal().min() > CHOLESKY_SAFE:
        return None
    return np.asarray(factor * length)


def stacked_factors(factors: Sequence[FloatArray]) -> FloatArray:
    """Return the triangular factor of the sum of Gram matrices from those of each.

    Parameters
    ----------
    factors : sequence of ndarray, shape (., k)
        Rows, or triangular factors of rows.
    """
    k = factors[0].shape[1]
    triangle = np.asarray(np.linalg.qr(np.vstack(factors), mode="r"))
    factor = np.zeros((k, k))
    factor[: triangle.shape[0]] = triangle
    return factor


def moments_of(obs: Observations) -> DesignMoments:
    """Return :func:`design_moments` of all rows, wherever they are."""
    return obs.reduce(_moments, _summed_moments)


def _moments(obs: Observations) -> DesignMoments:
    return design_moments(obs.exog, obs.case_weights)


def _summed_moments(parts: list[DesignMoments]) -> DesignMoments:
    return DesignMoments(
        sum(part.weight_sum for part in parts),
        np.sum([part.column_sum for part in parts], axis=0),
        stacked_factors([part.factor for part in parts]),
    )


def design_moments(exog: FloatArray, weights: FloatArray | None = None) -> DesignMoments:
    """Return X'WX (as its triangular factor), X'W1 and the sum of the weights.

    Parameters
    ----------
    exog : ndarray, shape (n, p)
        Regressors; never copied as a whole.
    weights : ndarray, shape (n,), or None
        Weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.information import design_moments
    >>> moments = design_moments(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> moments.column_sum, moments.weight_sum
    (array([2., 2.]), 2.0)
    """
    n, p = exog.shape
    root = np.ones(n) if weights is None else np.sqrt(weights)

    def blocks() -> Iterator[tuple[FloatArray, FloatArray]]:
        for rows in row_blocks(n, p):
            yield (exog[rows] if weights is None else exog[rows] * root[rows, None]), root[rows]

    gram, column_sum = np.zeros((p, p)), np.zeros(p)
    for block, part in blocks():
        gram += block.T @ block
        column_sum += part @ block
    lost = ~np.isfinite(gram.diagonal())
    if lost.any():
        raise ColumnRangeError(int(np.flatnonzero(lost)[0]))
    factor = _gram_factor(gram)
    if factor is None:
        size = np.sqrt(gram.diagonal())
        size[size == 0.0] = 1.0
        factor = np.zeros((p, p))
        for block, _ in blocks():
            factor = stacked_factors([factor, block / size])
        factor = factor * size
    return DesignMoments(float(n if weights is None else weights.sum()), column_sum, factor)


def places(free: Sequence[str], k: int) -> list[int]:
    """Return where the named ones stand among k coefficients, sigma, tau and kappa.

    Parameters
    ----------
    free : sequence of str
        Some of :data:`PARAMETERS`.
    k : int
        Number of coefficients.
    """
    unknown = [name for name in free if name not in PARAMETERS]
    if unknown or isinstance(free, str):
        raise DomainError(f"free must list some of {PARAMETERS}, got {free!r}")
    others = [k + j for j, name in enumerate(PARAMETERS[1:]) if name in free]
    return [*(range(k) if "beta" in free else ()), *others]


def score_scale(k: int, sigma: float) -> FloatArray:
    """Return the factors 1/sigma (k coefficients, sigma) and 1 (tau, kappa) of the scores."""
    return np.append(np.full(k + 1, 1.0 / sigma), [1.0, 1.0])


def expected_information(
    moments: DesignMoments, fit: Any, free: Sequence[str] = ("beta", "sigma", "tau")
) -> FloatArray:
    r"""Return the expected information E[s s'] of all observations, in closed form (QH-21).

    Parameters
    ----------
    moments : DesignMoments
        Of the regressors, with the weights.
    fit : Solution, Parameters
        sigma, tau and kappa at which the expectation is taken.
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
    >>> from qhreg.covariance import design_moments, expected_information
    >>> from qhreg.specification.parameters import Parameters
    >>> fit = Parameters(np.zeros(1), 1.0, 0.5, 0.0)
    >>> expected_information(design_moments(np.ones((4, 1))), fit)
    array([[ 1.,  0.,  4.],
           [ 0.,  4.,  0.],
           [ 4.,  0., 32.]])
    """
    k, unit = moments.column_sum.size, unit_information(fit.tau, fit.kappa)
    cross = np.outer(moments.column_sum, unit[0, 1:])
    corner = moments.weight_sum * unit[1:, 1:]
    gram = moments.factor.T @ moments.factor
    info = np.block([[unit[0, 0] * gram, cross], [cross.T, corner]])
    scale, kept = score_scale(k, fit.sigma), places(free, k)
    return np.asarray((info * np.outer(scale, scale))[np.ix_(kept, kept)])
