"""The numbers of the paper's figures that need no regression: losses, densities, curvature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qhreg._typing import BoolArray, FloatArray
from qhreg.certificate import KAPPA_STAR, biconvexity_certificate
from qhreg.family.loss import quantile_huber_loss, quantile_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.solver.over_tau import best_tau

__all__ = [
    "CurvatureCurve",
    "LossCurves",
    "TauCurve",
    "curvature_curve",
    "loss_curves",
    "one_sign_residuals",
    "tau_curve",
    "tau_curves",
]


FIGURE_1_TAU, FIGURE_1_WIDTH = 0.3, 0.4
"""The asymmetry of Figure 1, and the k in its plotting code."""

TAU_BOUNDS = (1e-3, 1.0 - 1e-3)

NOISE_DEVIATION = 5.0
"""Standard deviation of the Laplacian magnitudes: the one that reproduces Table 1."""


@dataclass(frozen=True)
class LossCurves:
    """The numbers of Figure 1.

    Attributes
    ----------
    r : ndarray, shape (m,)
        Residuals.
    tau, kappa : float
        Asymmetry, and the width in the text's sense that the figure shows.
    quantile, huber : ndarray, shape (m,)
        Quantile loss and quantile Huber loss.
    drawn : ndarray, shape (m,)
        The quantile Huber curve as the paper's plotting code has it.
    text : ndarray, shape (m,)
        The text's loss at the k of the plotting code, half the width shown.
    zone : (float, float)
        Ends of the quadratic zone.
    quantile_density, huber_density : ndarray, shape (m,)
        Densities, of integral one.
    """

    r: FloatArray
    tau: float
    kappa: float
    quantile: FloatArray
    huber: FloatArray
    drawn: FloatArray
    text: FloatArray
    zone: tuple[float, float]
    quantile_density: FloatArray
    huber_density: FloatArray


def _drawn_loss(r: FloatArray, tau: float, k: float) -> FloatArray:
    """Return the curve of the paper's plotting code: the zone is twice as wide as k says."""
    left = tau * np.abs(r) - k * tau**2
    right = (1.0 - tau) * np.abs(r) - k * (1.0 - tau) ** 2
    inner = 0.25 * r**2 / k
    curve: FloatArray = np.where(r > 2.0 * (1.0 - tau) * k, right, inner)
    return np.where(r < -2.0 * tau * k, left, curve)


def loss_curves(points: int = 401) -> LossCurves:
    """Return the numbers of Figure 1.

    Parameters
    ----------
    points : int
        Number of residuals between -2 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.curves import loss_curves
    >>> curves = loss_curves()
    >>> bool(np.abs(curves.drawn - curves.huber).max() < 1e-15)
    True
    """
    r = np.linspace(-2.0, 2.0, points)
    tau, kappa = FIGURE_1_TAU, 2.0 * FIGURE_1_WIDTH
    quantile = np.asarray(quantile_loss(r, tau))
    huber = np.asarray(quantile_huber_loss(r, tau, kappa))
    return LossCurves(
        r,
        tau,
        kappa,
        quantile,
        huber,
        _drawn_loss(r, tau, FIGURE_1_WIDTH),
        np.asarray(quantile_huber_loss(r, tau, FIGURE_1_WIDTH)),
        (-kappa * tau, kappa * (1.0 - tau)),
        np.exp(-quantile - float(log_normalizer(tau, 0.0))),
        np.exp(-huber - float(log_normalizer(tau, kappa))),
    )


@dataclass(frozen=True)
class TauCurve:
    """The mean loss of given residuals as a function of tau.

    Attributes
    ----------
    positive : float
        Percentage of positive residuals.
    kappa : float
        Huber width.
    taus : ndarray, shape (m,)
        Asymmetries.
    loss : ndarray, shape (m,)
        Mean of rho, without the normaliser.
    log_c : ndarray, shape (m,)
        The normaliser.
    normalised : ndarray, shape (m,)
        Their sum.
    best : float
        Where the sum is least.
    best_loss : float
        Where the loss alone is least on the grid.
    """

    positive: float
    kappa: float
    taus: FloatArray
    loss: FloatArray
    log_c: FloatArray
    normalised: FloatArray
    best: float
    best_loss: float


def one_sign_residuals(
    positive: float, n: int = 1000, seed: int = 0, deviation: float = NOISE_DEVIATION
) -> FloatArray:
    """Return Laplacian magnitudes with the given percentage of positive signs, shape (n,).

    Parameters
    ----------
    positive : float
        Percentage of positive residuals; exactly so many, rounded.
    n : int
        Number of residuals.
    seed : int
        Of the random numbers. The same magnitudes belong to every percentage.
    deviation : float
        Standard deviation of the Laplacian noise with both signs.

    Examples
    --------
    >>> from qhreg.paper.curves import one_sign_residuals
    >>> int((one_sign_residuals(10) > 0).sum())
    100
    """
    rng = np.random.default_rng(seed)
    magnitudes = np.abs(rng.laplace(scale=deviation / np.sqrt(2.0), size=n))
    return np.where(np.arange(n) < round(n * positive / 100.0), magnitudes, -magnitudes)


def tau_curve(positive: float, *, kappa: float = 1.0, n: int = 1000, seed: int = 0) -> TauCurve:
    """Return the mean loss of residuals over tau, with and without the normaliser.

    Parameters
    ----------
    positive : float
        Percentage of positive residuals.
    kappa : float
        Huber width.
    n, seed : int
        Of the residuals, see :func:`one_sign_residuals`.

    Examples
    --------
    >>> from qhreg.paper.curves import tau_curve
    >>> curve = tau_curve(10)
    >>> 0.2 < curve.best < 0.3, curve.best_loss < 0.01
    (True, True)
    """
    r = one_sign_residuals(positive, n, seed)
    taus = np.linspace(0.005, 0.995, 199)
    loss = np.array([float(np.mean(quantile_huber_loss(r, tau, kappa))) for tau in taus])
    log_c = np.array([float(log_normalizer(tau, kappa)) for tau in taus])
    return TauCurve(
        positive,
        kappa,
        taus,
        loss,
        log_c,
        loss + log_c,
        best_tau(r, kappa, tau_bounds=TAU_BOUNDS),
        float(taus[np.argmin(loss)]),
    )


def tau_curves(percentages: Sequence[float] = (10, 25, 50, 75, 100)) -> tuple[TauCurve, ...]:
    """Return the curves of the paper's figure for several percentages of positive residuals."""
    return tuple(tau_curve(positive) for positive in percentages)


@dataclass(frozen=True)
class CurvatureCurve:
    """The least curvature in tau, against kappa.

    Attributes
    ----------
    kappas : ndarray, shape (m,)
        Huber widths.
    margins : ndarray, shape (m,)
        Least value over tau of (log c)'' - kappa: the curvature of the normalised loss of one
        residual outside the zone.
    proved : ndarray of bool, shape (m,)
        Whether convexity in tau is proved for all residuals.
    kappa_star : float
        Where the margin is zero.
    """

    kappas: FloatArray
    margins: FloatArray
    proved: BoolArray
    kappa_star: float


def curvature_curve(upper: float = 6.0, points: int = 61) -> CurvatureCurve:
    """Return the least curvature in tau on a grid of widths from 0 to `upper`.

    Examples
    --------
    >>> from qhreg.paper.curves import curvature_curve
    >>> curvature_curve(1.0, 2).margins.round(3).tolist()
    [8.0, 6.076]
    """
    kappas = np.linspace(0.0, upper, points)
    certificates = [biconvexity_certificate(float(kappa)) for kappa in kappas]
    return CurvatureCurve(
        kappas,
        np.array([certificate.margin for certificate in certificates]),
        np.array([certificate.holds for certificate in certificates], dtype=np.bool_),
        KAPPA_STAR,
    )
