"""The numbers of the paper's figures that need no regression: losses, densities, curvature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.certificate import biconvexity_certificate
from qhreg.diagnostics.figures import TauLossFigure
from qhreg.diagnostics.residuals import tau_loss_figure
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss, quantile_loss

FIGURE_1_TAU, FIGURE_1_CODE_WIDTH = 0.3, 0.4
"""The asymmetry of Figure 1, and the k in its plotting code."""

FIGURE_1_KAPPA = 2.0 * FIGURE_1_CODE_WIDTH
"""The width, in the sense of the paper's text, that Figure 1 shows."""

NOISE_DEVIATION = 5.0
"""Standard deviation of the Laplacian magnitudes: the one that reproduces Table 1."""

PRINTED_CURVATURE = {0.0: "8", 1.0: "6"}
"""The least curvature in tau that the paper's text gives, by kappa."""


# ------------------------------------------------------------------ Figure 1


def _drawn_loss(r: FloatArray, tau: float, k: float) -> FloatArray:
    """Return the curve of the paper's plotting code: the zone is twice as wide as k says."""
    left = tau * np.abs(r) - k * tau**2
    right = (1.0 - tau) * np.abs(r) - k * (1.0 - tau) ** 2
    curve: FloatArray = np.where(r > 2.0 * (1.0 - tau) * k, right, 0.25 * r**2 / k)
    return np.where(r < -2.0 * tau * k, left, curve)


def loss_curves(points: int = 401) -> pd.DataFrame:
    """Return the curves of Figure 1, one row for each residual from -2 to 2.

    Returns
    -------
    DataFrame
        `r`, the losses `quantile` and `huber` with the densities `quantile_density` and
        `huber_density`; `drawn`, the quantile Huber curve of the paper's plotting code; `text`, the
        loss of the paper's text at the k of that code.

    Examples
    --------
    >>> from qhreg.paper.curves import loss_curves
    >>> curves = loss_curves()
    >>> bool((curves["drawn"] - curves["huber"]).abs().max() < 1e-15)
    True
    """
    r = np.linspace(-2.0, 2.0, points)
    tau, kappa = FIGURE_1_TAU, FIGURE_1_KAPPA
    return pd.DataFrame(
        {
            "r": r,
            "quantile": quantile_loss(r, tau),
            "quantile_density": quantile_huber.pdf(r, tau, 0.0),
            "huber": quantile_huber_loss(r, tau, kappa),
            "huber_density": quantile_huber.pdf(r, tau, kappa),
            "drawn": _drawn_loss(r, tau, FIGURE_1_CODE_WIDTH),
            "text": quantile_huber_loss(r, tau, FIGURE_1_CODE_WIDTH),
        }
    )


def loss_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Return how far the curve of the paper's plotting code is from the loss of its text."""
    off = [float((curves["drawn"] - curves[name]).abs().max()) for name in ("text", "huber")]
    return pd.DataFrame(
        {
            "kappa of the text's loss": [FIGURE_1_CODE_WIDTH, FIGURE_1_KAPPA],
            "largest distance of the curve drawn": [f"{distance:.1e}" for distance in off],
        }
    )


# ------------------------------------------------------------------ the loss over tau


def one_sign_residuals(positive: float, n: int = 1000, seed: int = 0) -> FloatArray:
    """Return Laplacian magnitudes with the given percentage of positive signs, shape (n,).

    Parameters
    ----------
    positive : float
        Percentage of positive residuals; exactly so many, rounded.
    n : int
        Number of residuals.
    seed : int
        Of the random numbers. The same magnitudes belong to every percentage.

    Examples
    --------
    >>> from qhreg.paper.curves import one_sign_residuals
    >>> int((one_sign_residuals(10) > 0).sum())
    100
    """
    rng = np.random.default_rng(seed)
    magnitudes = np.abs(rng.laplace(scale=NOISE_DEVIATION / np.sqrt(2.0), size=n))
    return np.where(np.arange(n) < round(n * positive / 100.0), magnitudes, -magnitudes)


def tau_curves(percentages: Sequence[int] = (10, 25, 50, 75, 100)) -> dict[int, TauLossFigure]:
    """Return the mean loss over tau at kappa = 1, by percentage of positive residuals.

    Examples
    --------
    >>> from qhreg.paper.curves import tau_curves
    >>> 0.2 < tau_curves([10])[10].best[0] < 0.3
    True
    """
    taus = np.linspace(0.005, 0.995, 199)
    return {p: tau_loss_figure(one_sign_residuals(p), 1.0, taus=taus) for p in percentages}


def tau_table(curves: dict[int, TauLossFigure]) -> pd.DataFrame:
    """Return where each curve is least, and its second differences: concave, then convex."""
    return pd.DataFrame(
        {
            "positive (%)": positive,
            "loss least at": curve.taus[np.argmin(curve.loss)].round(3),
            "largest second difference": f"{np.diff(curve.loss, 2).max():.1e}",
            "normalised loss least at": f"{curve.best[0]:.3f}",
            "smallest second difference": f"{np.diff(curve.total, 2).min():.1e}",
        }
        for positive, curve in curves.items()
    )


# ------------------------------------------------------------------ curvature


def curvature_curve(upper: float = 6.0, points: int = 61) -> pd.DataFrame:
    """Return the least curvature in tau on a grid of widths from 0 to `upper`.

    Returns
    -------
    DataFrame
        `kappa`; `margin`, the least value over tau of (log c)'' - kappa, the curvature of the
        normalised loss of one residual outside the zone; `proved`, whether convexity in tau is proved
        for all residuals.

    Examples
    --------
    >>> from qhreg.paper.curves import curvature_curve
    >>> curvature_curve(1.0, 2)["margin"].round(3).tolist()
    [8.0, 6.076]
    """
    certificates = [biconvexity_certificate(float(k)) for k in np.linspace(0.0, upper, points)]
    rows = [(each.kappa, each.margin, each.holds) for each in certificates]
    return pd.DataFrame(rows, columns=["kappa", "margin", "proved"])


def curvature_table(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the curve at whole widths beside what the paper's text says."""
    whole = curve[curve["kappa"] % 1.0 == 0.0]
    return pd.DataFrame(
        {
            "kappa": whole["kappa"].map("{:g}".format),
            "paper": [PRINTED_CURVATURE.get(kappa, "") for kappa in whole["kappa"]],
            "here": whole["margin"].map("{:.4f}".format),
            "convex in tau": whole["proved"].map({True: "proved", False: "no"}),
        }
    )
