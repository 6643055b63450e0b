"""Pictures of the paper's figures: draws numbers, computes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg.certificate import KAPPA_STAR
from qhreg.diagnostics.figures import TauLossFigure
from qhreg.paper.boosted import TITLES, TauPath
from qhreg.paper.curves import FIGURE_1_KAPPA, FIGURE_1_TAU
from qhreg.paper.recovery import (
    LEAST_SQUARES,
    METHODS,
    PAPERS,
    PENALTY_MINIMA,
    POSITIVE,
    TABLE_1,
    PenaltyCurve,
    summary,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREEN, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9"
PURPLE, GREY, DARK = "#CC79A7", "#7F7F7F", "#222222"
COLOURS = (DARK, BLUE, GREEN, RED, PURPLE, ORANGE)
MARKERS = ("o", "s", "D", "^", "v", "P")


def _figure(width: float, height: float) -> Figure:
    """Return a figure that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_loss_curves(curves: pd.DataFrame) -> Figure:
    """Draw Figure 1: the paper's curves from its plotting code on the left, ours on the right."""
    figure = _figure(9.6, 6.4)
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
    ax: Axes,
    r: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    zone: tuple[float, float] | None,
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
    figure = _figure(6.4, 4.4)
    ax, best = figure.subplots(), curve.best[0]
    ax.plot(curve.taus, curve.loss, color=BLUE, ls="--", label="loss without normaliser (concave)")
    ax.plot(curve.taus, curve.log_c, color=GREEN, ls=":", label=r"$\log c(\tau)$ (convex)")
    ax.plot(curve.taus, curve.total, color=DARK, lw=2, label="normalised loss (convex)")
    ax.plot(*curve.best, "o", color=RED)
    ax.axvline(best, color=RED, lw=0.8, ls="-.", label=rf"least at $\tau={best:.3f}$")
    ax.set(xlabel=r"$\tau$", ylabel="mean over 1,000 residuals", xlim=(0, 1))
    ax.set_ylim(0.0, 1.1 * float(curve.total[8:-8].max()))
    ax.set_title(rf"{positive} % of the residuals positive, $\kappa=1$")
    ax.legend(fontsize="small")
    return figure


def draw_tau_curves(curves: dict[int, TauLossFigure]) -> Figure:
    """Draw the loss with and without normaliser for several shares of positive residuals."""
    figure = _figure(7.2, 4.8)
    ax = figure.subplots()
    for (positive, curve), colour in zip(curves.items(), COLOURS, strict=False):
        label = f"{positive} %: least at {curve.best[0]:.2f}"
        ax.plot(curve.taus, curve.total, color=colour, label=label)
        ax.plot(curve.taus, curve.loss, color=colour, ls="--", lw=1)
        ax.plot(*curve.best, "o", color=colour, ms=5)
    top = 1.05 * max(float(curve.total[8:-8].max()) for curve in curves.values())
    ax.set(xlabel=r"$\tau$", ylabel="mean over 1,000 residuals", xlim=(0, 1), ylim=(0, top))
    ax.set_title("normalised loss (solid) and loss without normaliser (dashed)", fontsize="medium")
    ax.legend(title="positive residuals", fontsize="small", loc="upper center")
    return figure


def draw_curvature(curve: pd.DataFrame) -> Figure:
    """Draw the least curvature in tau against kappa, with the paper's range and the critical width."""
    figure = _figure(6.4, 4.4)
    ax = figure.subplots()
    ax.axvspan(0.0, 1.0, color=SKY, alpha=0.2, label="range in the paper: 8 to 6")
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
    figure = _figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    count = int((draws.loc[draws["positive"] == POSITIVE[0], "method"] == METHODS[0].name).sum())
    _draw_errors(left, draws)
    left.set_title(
        f"{count:,} draws; crosses: the paper, 100 draws; bars: two s.e.", fontsize="medium"
    )
    for method, colour, marker in zip(METHODS, COLOURS[1:], MARKERS[1:], strict=True):
        style = {"marker": marker, "color": colour, "ls": "-" if method in PAPERS else "--"}
        taus = summary(draws, method.name)["tau"]
        right.plot(taus.index, taus, label=method.name, ms=5, **style)
    right.plot(POSITIVE, [entry.tau for entry in TABLE_1], "x", color=DARK, ms=10, mew=2)
    right.set(xlabel="positive noise, %", ylabel=r"mean estimate of $\tau$")
    right.set_title("crosses: as printed in the paper", fontsize="medium")
    right.legend(fontsize="small")
    return figure


def _draw_errors(ax: Axes, draws: pd.DataFrame) -> None:
    names = [LEAST_SQUARES, *(method.name for method in METHODS)]
    shares = np.array(POSITIVE)
    for i, (name, colour, marker) in enumerate(zip(names, COLOURS, MARKERS, strict=True)):
        at = summary(draws, name)
        bars: dict[str, Any] = {"yerr": 2.0 * at["mse_se"].to_numpy(), "capsize": 2, "lw": 1}
        # side by side, so that the error bars can be told apart
        places = shares + 1.6 * (i - 2.5)
        ax.errorbar(places, at["mse"], fmt=marker, color=colour, ms=5, label=name, **bars)
    tallest = 0.0
    for method, printed in (
        (LEAST_SQUARES, np.array([entry.least_squares for entry in TABLE_1])),
        (PAPERS[1].name, np.array([entry.proposed for entry in TABLE_1])),
    ):
        errors = 2.0 * summary(draws, method)["printed_se"].to_numpy()
        ax.errorbar(shares - 6.4, printed, yerr=errors, fmt="x", color=GREY, ms=8, mew=2, lw=1)
        tallest = max(tallest, float((printed + errors).max()))
    ax.set(xlabel="positive noise, %", ylabel="mean squared error of the coefficients")
    ax.set_ylim(0.0, 1.35 * tallest)  # room for the legend
    ax.legend(fontsize="small", ncols=2, loc="upper center")


def draw_penalty(curves: Sequence[PenaltyCurve], draws: pd.DataFrame) -> Figure:
    """Draw the mean normalised penalty at fixed tau, with its minima and the joint fits' tau."""
    figure = _figure(7.2, 4.8)
    ax = figure.subplots()
    joint = summary(draws, PAPERS[0].name)["tau"]
    for curve, colour in zip(curves, COLOURS, strict=True):
        low = float(curve.penalty.min())
        ax.plot(curve.taus, curve.penalty, color=colour, label=f"{curve.positive} %")
        ax.plot(curve.minimum, low, "o", color=colour, ms=6)
        ax.plot(PENALTY_MINIMA[curve.positive], low, "x", color=colour, ms=10, mew=2)
        ax.axvline(joint[curve.positive], color=colour, ls=":", lw=1)
    top = max(float(curve.penalty[4:-4].max()) for curve in curves)
    low = min(float(curve.penalty.min()) for curve in curves)
    ax.set(xlabel=r"$\tau$ held fixed", ylabel="mean normalised penalty", xlim=(0, 1))
    ax.set_ylim(low - 0.05 * (top - low), top)
    ax.set_title(
        r"dots: minima; crosses: the paper's; dotted lines: mean $\tau$ of the joint fits",
        fontsize="medium",
    )
    ax.legend(title="positive noise", fontsize="small", loc="upper center", ncols=2)
    return figure


def draw_tau_paths(paths: Sequence[TauPath]) -> Figure:
    """Draw tau after each stage of boosting, one panel for each data set."""
    names = list(dict.fromkeys(path.dataset for path in paths))
    figure = _figure(7.2, 2.6 * len(names))
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    styles = {"positive": (RED, "-"), "negative": (BLUE, "--"), "none": (DARK, ":")}
    for ax, name in zip(panels, names, strict=True):
        for path in (path for path in paths if path.dataset == name):
            colour, line = styles[path.noise]
            stages = np.arange(1, path.taus.size + 1)
            ax.plot(stages, path.taus, color=colour, ls=line, label=f"noise: {path.noise}")
        ax.axhline(0.5, color=GREY, lw=0.8)
        ax.set(ylabel=r"$\tau$", ylim=(0.2, 0.8))
        ax.set_title(TITLES[name], fontsize="medium")
    panels[0].legend(fontsize="small", ncols=3)
    panels[-1].set_xlabel("stage")
    return figure
