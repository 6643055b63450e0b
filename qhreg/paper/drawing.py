"""Pictures of the paper's figures: draws numbers, computes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qhreg.paper.boosted import TauPath
from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.datasets import TITLES
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import PENALTY_MINIMA, TABLE_1
from qhreg.paper.recovery import LEAST_SQUARES, METHODS, PAPERS, RecoveryTable
from qhreg.paper.verdicts import papers_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "draw_curvature",
    "draw_loss_curves",
    "draw_parts",
    "draw_penalty",
    "draw_recovery",
    "draw_tau_curves",
    "draw_tau_paths",
]

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


def draw_loss_curves(curves: LossCurves) -> Figure:
    """Draw Figure 1: the paper's curves from its plotting code on the left, ours on the right.

    Parameters
    ----------
    curves : LossCurves
        The numbers.
    """
    figure = _figure(9.6, 6.4)
    axes = figure.subplots(2, 4, width_ratios=(1, 1, 1, 1))
    paper, ours = axes[:, :2], axes[:, 2:]
    _draw_pair(paper[0], curves.r, curves.quantile, np.exp(-curves.quantile), None)
    _draw_pair(paper[1], curves.r, curves.drawn, np.exp(-curves.drawn), curves.zone)
    _draw_pair(ours[0], curves.r, curves.quantile, curves.quantile_density, None)
    _draw_pair(ours[1], curves.r, curves.huber, curves.huber_density, curves.zone)
    ours[1, 0].plot(curves.r, curves.text, color=ORANGE, lw=1.2, ls=":")
    ours[1, 0].set_xlabel(
        rf"text at $\kappa={curves.kappa:g}$; dotted $\kappa={0.5 * curves.kappa:g}$",
        fontsize="small",
    )
    for row, name in enumerate(("quantile", "quantile Huber")):
        for column, what in enumerate(("loss", r"$e^{-\rho}$", "loss", "density")):
            source = "paper" if column < 2 else "here"
            axes[row, column].set_title(f"{source}: {name}\n{what}", fontsize="small")
    for panel in (*paper[:, 0], *paper[:, 1], *ours[:, 0]):
        panel.set_ylim(0.0, 1.0)
    figure.suptitle(rf"Figure 1, $\tau={curves.tau:g}$")
    return figure


def _draw_pair(
    axes: npt.NDArray[np.object_],
    r: npt.NDArray[np.float64],
    loss: npt.NDArray[np.float64],
    density: npt.NDArray[np.float64],
    zone: tuple[float, float] | None,
) -> None:
    """Draw a loss and a density, the quadratic zone in blue and the linear parts dashed red."""
    for ax, values in zip(axes, (loss, density), strict=True):
        ax.plot(r, values, color=RED, ls="--", lw=1.4)
        ax.set_xlim(-2.0, 2.0)
        ax.set_ylim(bottom=0.0)
        ax.tick_params(labelsize="x-small")
        if zone is None:
            continue
        inside = (r >= zone[0]) & (r <= zone[1])
        ax.plot(r[inside], values[inside], color=BLUE, lw=2.2)
        ax.plot(zone, np.interp(zone, r, values), "o", color=BLUE, ms=4)


def draw_parts(curve: TauCurve) -> Figure:
    """Draw the loss, the normaliser and their sum over tau for one share of positive residuals.

    Parameters
    ----------
    curve : TauCurve
        The numbers.
    """
    figure = _figure(6.4, 4.4)
    ax = figure.subplots()
    ax.plot(curve.taus, curve.loss, color=BLUE, ls="--", label="loss without normaliser (concave)")
    ax.plot(curve.taus, curve.log_c, color=GREEN, ls=":", label=r"$\log c(\tau)$ (convex)")
    ax.plot(curve.taus, curve.normalised, color=DARK, lw=2, label="normalised loss (convex)")
    ax.plot(curve.best, np.interp(curve.best, curve.taus, curve.normalised), "o", color=RED)
    ax.axvline(curve.best, color=RED, lw=0.8, ls="-.", label=rf"least at $\tau={curve.best:.3f}$")
    ax.set(xlabel=r"$\tau$", ylabel="mean over 1,000 residuals", xlim=(0, 1))
    ax.set_ylim(0.0, 1.1 * float(curve.normalised[8:-8].max()))
    ax.set_title(rf"{curve.positive:g} % of the residuals positive, $\kappa={curve.kappa:g}$")
    ax.legend(fontsize="small")
    return figure


def draw_tau_curves(curves: Sequence[TauCurve]) -> Figure:
    """Draw the loss with and without normaliser for several shares of positive residuals.

    Parameters
    ----------
    curves : sequence of TauCurve
        The numbers, in the paper's order of colours: black, blue, green, red, magenta.
    """
    figure = _figure(7.2, 4.8)
    ax = figure.subplots()
    for curve, colour in zip(curves, COLOURS, strict=False):
        label = rf"{curve.positive:g} %: least at {curve.best:.2f}"
        ax.plot(curve.taus, curve.normalised, color=colour, label=label)
        ax.plot(curve.taus, curve.loss, color=colour, ls="--", lw=1)
        low = np.interp(curve.best, curve.taus, curve.normalised)
        ax.plot(curve.best, low, "o", color=colour, ms=5)
    top = 1.05 * max(float(curve.normalised[8:-8].max()) for curve in curves)
    ax.set(xlabel=r"$\tau$", ylabel="mean over 1,000 residuals", xlim=(0, 1), ylim=(0, top))
    ax.set_title("normalised loss (solid) and loss without normaliser (dashed)", fontsize="medium")
    ax.legend(title="positive residuals", fontsize="small", loc="upper center")
    return figure


def draw_curvature(curve: CurvatureCurve) -> Figure:
    """Draw the least curvature in tau against kappa, with the paper's range and the critical width.

    Parameters
    ----------
    curve : CurvatureCurve
        The numbers.
    """
    figure = _figure(6.4, 4.4)
    ax = figure.subplots()
    ax.axvspan(0.0, 1.0, color=SKY, alpha=0.2, label="range in the paper: 8 to 6")
    ax.plot(curve.kappas, curve.margins, color=GREY, lw=1)
    for holds, colour, label in (
        (True, BLUE, r"convex in $\tau$: proved"),
        (False, RED, "not convex for all residuals"),
    ):
        chosen = curve.proved == holds
        ax.plot(curve.kappas[chosen], curve.margins[chosen], ".", color=colour, label=label)
    ax.plot([0.0, 1.0], [8.0, 6.0], "x", color=DARK, ms=9, mew=2, label="the paper's figures")
    ax.axhline(0.0, color=DARK, lw=0.8)
    ax.axvline(
        curve.kappa_star, color=DARK, lw=0.8, ls="--", label=rf"$\kappa^*={curve.kappa_star:.4f}$"
    )
    ax.set(xlabel=r"$\kappa$", ylabel=r"least $(\log c)''(\tau)-\kappa$ over $\tau$")
    ax.set_xlim(0.0, float(curve.kappas[-1]))
    ax.legend(fontsize="small")
    return figure


def draw_recovery(table: RecoveryTable) -> Figure:
    """Draw the errors and the asymmetries of Table 1, with two Monte Carlo standard errors.

    Parameters
    ----------
    table : RecoveryTable
        The numbers.
    """
    figure = _figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    _draw_errors(left, table)
    shares = [row.positive for row in table.rows]
    for method, colour, marker in zip(METHODS, COLOURS[1:], MARKERS[1:], strict=True):
        cells = [row.cells[method.name] for row in table.rows]
        own = "-" if method in PAPERS else "--"
        taus = [cell.tau for cell in cells]
        right.plot(shares, taus, marker=marker, color=colour, ls=own, label=method.name, ms=5)
    right.plot(shares, [entry.tau for entry in TABLE_1], "x", color=DARK, ms=10, mew=2)
    right.set(xlabel="positive noise, %", ylabel=r"mean estimate of $\tau$")
    right.set_title("crosses: as printed in the paper", fontsize="medium")
    right.legend(fontsize="small")
    return figure


def _draw_errors(ax: Axes, table: RecoveryTable) -> None:
    names = [LEAST_SQUARES, *(method.name for method in METHODS)]
    for i, (name, colour, marker) in enumerate(zip(names, COLOURS, MARKERS, strict=True)):
        cells = [row.cells[name] for row in table.rows]
        # side by side, so that the error bars can be told apart
        places = [row.positive + 1.6 * (i - 2.5) for row in table.rows]
        bars = [2.0 * cell.mse_se for cell in cells]
        ax.errorbar(
            places,
            [cell.mse for cell in cells],
            yerr=bars,
            fmt=marker,
            color=colour,
            ms=5,
            capsize=2,
            lw=1,
            label=name,
        )
    beside = [entry.positive - 6.4 for entry in TABLE_1]
    tallest = 0.0
    for method, printed in (
        (LEAST_SQUARES, [entry.least_squares for entry in TABLE_1]),
        (PAPERS[1].name, [entry.proposed for entry in TABLE_1]),
    ):
        bars = [2.0 * papers_error(row, method) for row in table.rows]
        ax.errorbar(beside, printed, yerr=bars, fmt="x", color=GREY, ms=8, mew=2, lw=1)
        tallest = max(tallest, *(x + bar for x, bar in zip(printed, bars, strict=True)))
    ax.set(xlabel="positive noise, %", ylabel="mean squared error of the coefficients")
    ax.set_ylim(0.0, 1.35 * tallest)  # room for the legend
    ax.set_title(
        f"{table.repetitions:,} draws; crosses: the paper, 100 draws; bars: two s.e.",
        fontsize="medium",
    )
    ax.legend(fontsize="small", ncols=2, loc="upper center")


def draw_penalty(curves: Sequence[PenaltyCurve], table: RecoveryTable) -> Figure:
    """Draw the mean normalised penalty at fixed tau, with its minima and the joint fit's tau.

    Parameters
    ----------
    curves : sequence of PenaltyCurve
        The curves.
    table : RecoveryTable
        Where the tau of the joint fits comes from.
    """
    figure = _figure(7.2, 4.8)
    ax = figure.subplots()
    for curve, row, colour in zip(curves, table.rows, COLOURS, strict=True):
        joint = row.cells[PAPERS[0].name].tau
        ax.plot(curve.taus, curve.penalty, color=colour, label=f"{curve.positive} %")
        ax.plot(curve.minimum, curve.penalty.min(), "o", color=colour, ms=6)
        ax.plot(
            PENALTY_MINIMA[curve.positive], curve.penalty.min(), "x", color=colour, ms=10, mew=2
        )
        ax.axvline(joint, color=colour, ls=":", lw=1)
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
    """Draw tau after each stage of boosting, one panel for each data set.

    Parameters
    ----------
    paths : sequence of TauPath
        The paths.
    """
    names = list(dict.fromkeys(path.dataset for path in paths))
    figure = _figure(7.2, 2.6 * len(names))
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    styles = {100: (RED, "-", "positive noise"), 0: (BLUE, "--", "negative noise")}
    for ax, name in zip(panels, names, strict=True):
        for path in (path for path in paths if path.dataset == name):
            colour, style, label = styles.get(path.positive or 0, styles[0])
            if path.positive is None:
                colour, style, label = DARK, ":", "no noise"
            stages = np.arange(1, path.taus.size + 1)
            ax.plot(stages, path.taus, color=colour, ls=style, label=label)
        ax.axhline(0.5, color=GREY, lw=0.8)
        ax.set(ylabel=r"$\tau$", ylim=(0.2, 0.8))
        ax.set_title(TITLES[name], fontsize="medium")
    panels[0].legend(fontsize="small", ncols=3)
    panels[-1].set_xlabel("stage")
    return figure
