"""Pictures of the paper's figures: draws numbers, computes none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg._typing import FloatArray
from qhreg.certificate import KAPPA_STAR
from qhreg.diagnostics.figures import TauLossFigure
from qhreg.paper.boosted import TITLES, Paths
from qhreg.paper.curves import FIGURE_1_KAPPA, FIGURE_1_TAU
from qhreg.paper.recovery import (
    DRAWS,
    LEAST_SQUARES,
    METHODS,
    NARROW,
    PAPERS,
    POSITIVE,
    TABLE_1,
    TAUS,
    summary,
)
from qhreg.plotting import plot_tau_loss
from qhreg.plotting.axes import BLUE, DARK, GREY, ORANGE, RED, SKY, legend

GREEN, PURPLE = "#009E73", "#CC79A7"
COLOURS = (DARK, BLUE, GREEN, RED, PURPLE, ORANGE)
MARKERS = ("o", "s", "D", "^", "v", "P")


def draw_loss_curves(curves: pd.DataFrame) -> Figure:
    """Draw Figure 1: the paper's curves from its plotting code on the left, ours on the right."""
    figure = Figure((9.6, 6.4), layout="constrained")
    axes = figure.subplots(2, 4)
    r = curves["r"].to_numpy()
    zone = (-FIGURE_1_KAPPA * FIGURE_1_TAU, FIGURE_1_KAPPA * (1.0 - FIGURE_1_TAU))
    columns = (
        ("quantile", "quantile", None),
        ("drawn", "quantile Huber", zone),
        ("quantile", "quantile", None),
        ("huber", "quantile Huber", zone),
    )
    for i, (column, name, quadratic) in enumerate(columns):
        loss = curves[column].to_numpy()
        source, what = ("here", "density") if i > 1 else ("paper", r"$e^{-\rho}$")
        density = curves[f"{column}_density"].to_numpy() if i > 1 else np.exp(-loss)
        for j, (values, text) in enumerate(((loss, "loss"), (density, what))):
            ax = axes[i % 2, 2 * (i // 2) + j]
            _draw_pieces(ax, r, values, quadratic)
            ax.set_title(f"{source}: {name}\n{text}", fontsize="small")
            if text != "density":
                ax.set_ylim(0.0, 1.0)
    axes[1, 2].plot(r, curves["text"], color=ORANGE, lw=1.2, ls=":")
    axes[1, 2].set_xlabel(
        rf"text at $\kappa={FIGURE_1_KAPPA:g}$; dotted $\kappa={0.5 * FIGURE_1_KAPPA:g}$",
        fontsize="small",
    )
    figure.suptitle(rf"Figure 1, $\tau={FIGURE_1_TAU:g}$")
    return figure


def _draw_pieces(
    ax: Axes, r: FloatArray, values: FloatArray, zone: tuple[float, float] | None
) -> None:
    """Draw a curve, the quadratic zone in blue and the linear parts dashed red."""
    ax.plot(r, values, color=RED, ls="--", lw=1.4)
    ax.set_xlim(-2.0, 2.0)
    ax.set_ylim(bottom=0.0)
    ax.tick_params(labelsize="x-small")
    if zone is not None:
        inside = (r >= zone[0]) & (r <= zone[1])
        ax.plot(r[inside], values[inside], color=BLUE, lw=2.2)
        ax.plot(zone, np.interp(zone, r, values), "o", color=BLUE, ms=4)


def draw_parts(curve: TauLossFigure, positive: int) -> Figure:
    """Draw the loss, the normaliser and their sum over tau for one share of positive residuals."""
    figure = Figure((6.4, 4.4), layout="constrained")
    ax = plot_tau_loss(curve, figure.subplots())
    ax.set_ylim(0.0, 1.1 * curve.total[8:-8].max())
    ax.set_title(rf"{positive} % of the residuals positive, $\kappa=1$")
    return figure


def draw_tau_curves(curves: dict[int, TauLossFigure]) -> Figure:
    """Draw the loss with and without normaliser for several shares of positive residuals."""
    figure = Figure((7.2, 4.8), layout="constrained")
    ax = figure.subplots()
    for (positive, curve), colour in zip(curves.items(), COLOURS, strict=False):
        label = f"{positive} %: least at {curve.best[0]:.2f}"
        ax.plot(curve.taus, curve.total, color=colour, label=label)
        ax.plot(curve.taus, curve.loss, color=colour, ls="--", lw=1)
        ax.plot(*curve.best, "o", color=colour, ms=5)
    top = 1.05 * max(curve.total[8:-8].max() for curve in curves.values())
    ax.set(xlabel=r"$\tau$", ylabel="mean over 1,000 residuals", xlim=(0, 1), ylim=(0, top))
    ax.set_title("normalised loss (solid) and loss without normaliser (dashed)", fontsize="medium")
    legend(ax, title="positive residuals", loc="upper center")
    return figure


def draw_curvature(curve: pd.DataFrame) -> Figure:
    """Draw the least curvature in tau against kappa, with the paper's range and the critical width."""
    figure = Figure((6.4, 4.4), layout="constrained")
    ax = figure.subplots()
    ax.axvspan(0.0, 1.0, color=SKY, alpha=0.4, label="range in the paper: 8 to 6")
    ax.plot(curve["kappa"], curve["margin"], color=GREY, lw=1)
    styles = {True: (BLUE, r"convex in $\tau$: proved"), False: (RED, "not for all residuals")}
    for holds, (colour, label) in styles.items():
        chosen = curve[curve["proved"] == holds]
        ax.plot(chosen["kappa"], chosen["margin"], ".", color=colour, label=label)
    ax.plot([0.0, 1.0], [8.0, 6.0], "x", color=DARK, ms=9, mew=2, label="the paper's figures")
    ax.axhline(0.0, color=DARK, lw=0.8)
    ax.axvline(KAPPA_STAR, color=DARK, lw=0.8, ls="--", label=rf"$\kappa^*={KAPPA_STAR:.4f}$")
    ax.set(xlabel=r"$\kappa$", ylabel=r"least $(\log c)''(\tau)-\kappa$ over $\tau$")
    ax.set_xlim(0.0, float(curve["kappa"].iloc[-1]))
    ax.legend(fontsize="small")
    return figure


def draw_recovery(draws: pd.DataFrame) -> Figure:
    """Draw the errors and the asymmetries of Table 1, with two Monte Carlo standard errors."""
    figure = Figure((10.4, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    shares = np.array(POSITIVE)
    for i, name in enumerate((LEAST_SQUARES, *METHODS)):
        at = summary(draws, name)
        style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5, "label": name}
        # side by side, so that the error bars can be told apart
        places, errors = shares + 1.6 * (i - 2.5), 2.0 * at["mse_se"]
        left.errorbar(places, at["mse"], yerr=errors, ls="none", lw=1, capsize=2, **style)
        if name in METHODS:
            right.plot(shares, at["tau"], ls="-" if name in PAPERS else "--", **style)
    tops = []
    for method, column in ((LEAST_SQUARES, "least_squares"), (NARROW, "proposed")):
        printed, errors = TABLE_1[column], 2.0 * summary(draws, method)["printed_se"]
        left.errorbar(shares - 6.4, printed, yerr=errors, fmt="x", color=GREY, ms=8, mew=2, lw=1)
        tops.append((printed + errors).max())
    left.set(xlabel="positive noise, %", ylabel="mean squared error of the coefficients")
    left.set_ylim(0.0, 1.35 * max(tops))  # room for the legend
    count = ((draws["method"] == NARROW) & (draws["positive"] == POSITIVE[0])).sum()
    title = f"{count:,} draws; crosses: the paper, {DRAWS} draws; bars: two s.e."
    left.set_title(title, fontsize="medium")
    legend(left, ncols=2, loc="upper center")
    right.plot(shares, TABLE_1["tau"], "x", color=DARK, ms=10, mew=2)
    right.set(xlabel="positive noise, %", ylabel=r"mean estimate of $\tau$")
    right.set_title("crosses: as printed in the paper", fontsize="medium")
    legend(right)
    return figure


def draw_penalty(
    curves: Mapping[int, FloatArray], minima: Mapping[int, float], joint: pd.Series[float]
) -> Figure:
    """Draw the mean normalised penalty at fixed tau, with its minima and the joint fits' tau.

    Parameters
    ----------
    curves : mapping of int to ndarray
        The penalty at `TAUS`, by percentage of positive noise.
    minima : mapping of int to float
        Where they are least.
    joint : Series
        Mean tau of the joint fits, by percentage.
    """
    figure = Figure((7.2, 4.8), layout="constrained")
    ax = figure.subplots()
    for (positive, penalty), colour in zip(curves.items(), COLOURS, strict=True):
        low = penalty.min()
        ax.plot(TAUS, penalty, color=colour, label=f"{positive} %")
        ax.plot(minima[positive], low, "o", color=colour, ms=6)
        ax.plot(TABLE_1["minimum"][positive], low, "x", color=colour, ms=10, mew=2)
        ax.axvline(joint[positive], color=colour, ls=":", lw=1)
    top = max(penalty[4:-4].max() for penalty in curves.values())
    low = min(penalty.min() for penalty in curves.values())
    ax.set(xlabel=r"$\tau$ held fixed", ylabel="mean normalised penalty", xlim=(0, 1))
    ax.set_ylim(low - 0.05 * (top - low), top)
    ax.set_title(
        r"dots: minima; crosses: the paper's; dotted lines: mean $\tau$ of the joint fits",
        fontsize="medium",
    )
    legend(ax, title="positive noise", loc="upper center", ncols=2)
    return figure


def draw_tau_paths(paths: Paths) -> Figure:
    """Draw tau after each stage of boosting, one panel for each data set."""
    names = list(dict.fromkeys(name for name, _ in paths))
    figure = Figure((7.2, 2.6 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    styles = {"positive": (RED, "-"), "negative": (BLUE, "--"), "none": (DARK, ":")}
    for ax, name in zip(panels, names, strict=True):
        for noise, (colour, line) in styles.items():
            tau = paths[name, noise]
            ax.plot(np.arange(1, tau.size + 1), tau, color=colour, ls=line, label=f"noise: {noise}")
        ax.axhline(0.5, color=GREY, lw=0.8)
        ax.set(ylabel=r"$\tau$", ylim=(0.2, 0.8))
        ax.set_title(TITLES[name], fontsize="medium")
    legend(panels[0], ncols=3)
    panels[-1].set_xlabel("stage")
    return figure
