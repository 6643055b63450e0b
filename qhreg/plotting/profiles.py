"""Plots of profile likelihoods, and of the objective in tau that a certificate speaks of."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qhreg.diagnostics.figures import ProfileFigure, SurfaceFigure, TauLossFigure
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SKY,
    axes_of,
    legend,
    percent,
    symbol,
)

__all__ = ["plot_profile", "plot_surface", "plot_tau_loss"]

CUT_STYLES = ("--", ":", "-.")

TICKS = 6
"""Intervals between the ticks of a profile, at most."""


def plot_profile(figure: ProfileFigure, ax: Axes | None = None) -> Axes:
    """Draw the likelihood ratio of a parameter, its cuts and interval, and what is proved about it.

    Parameters
    ----------
    figure : ProfileFigure
        From ``ProfileLikelihood.figure()``.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the curve as first line, then the parabola (if any) and the cuts.
    """
    ax = axes_of(ax)
    top = 1.4 * max(value for _, value in figure.cuts)
    bottom = -0.07 * top
    ax.plot(figure.x, figure.lr, color=BLUE, lw=2, label="profile", zorder=4)
    if figure.wald is not None:
        ax.plot(
            figure.x,
            figure.wald,
            color=RED,
            lw=1.6,
            ls=(0, (5, 2)),
            label="Wald parabola",
            zorder=3,
        )
    for (alpha, value), style in zip(figure.cuts, CUT_STYLES, strict=False):
        label = f"{percent(1 - alpha)} cut: {value:.3g}"
        label = f"cut {value:.3g} (given)" if figure.cut_given else label
        ax.axhline(value, color=DARK, lw=1.1, ls=style, label=label, zorder=2)
    lower = max(figure.interval[0], float(figure.x[0]))
    upper = min(figure.interval[1], float(figure.x[-1]))
    ends = "".join(["open below, " * figure.is_open[0], "open above, " * figure.is_open[1]])
    label = f"{percent(figure.level)} interval" + (f" ({ends[:-2]})" if ends else "")
    ax.axvspan(lower, upper, color=SKY, alpha=0.3, lw=0, label=label, zorder=1)
    for place, ends_of in enumerate(figure.elsewhere):
        label = "not rejected either" if place == 0 else ""
        ax.axvspan(*ends_of, color=ORANGE, alpha=0.25, lw=0, label=label or None, zorder=1)
    ax.plot(figure.points_x, figure.points_lr, ".", color=BLUE, ms=5, label="fits", zorder=5)
    name = f"estimate {figure.estimate:.4g}"
    ax.plot(
        [figure.estimate],
        [0.0],
        "D",
        color=ORANGE,
        mec=DARK,
        ms=7,
        label=name,
        zorder=6,
        clip_on=False,
    )
    if figure.fixed is not None:
        ax.axvline(figure.fixed, color=GREEN, lw=1.4, ls="-.", label=f"fixed at {figure.fixed:g}")
    if figure.certified is not None:
        ax.fill_between(
            figure.x,
            0.0,
            figure.certified.clip(0.0, top),
            facecolor="none",
            edgecolor=GREY,
            hatch="///",
            lw=0.0,
            alpha=0.35,
            label="excluded by proof",
            zorder=0,
        )
        ax.plot(figure.x, figure.certified.clip(0.0), color=GREY, lw=1.0, zorder=2)
    shown = [(x, lr) for x, lr in figure.maxima if lr < top]
    if shown:
        label = "other maximum" if len(shown) == 1 else "other maxima"
        values = ", ".join(f"{x:.3g}" for x, _ in shown)
        ax.plot(
            *zip(*shown, strict=True),
            "v",
            color="white",
            mec=DARK,
            mew=1.4,
            ms=8,
            ls="none",
            label=f"{label} {values}",
            zorder=6,
            clip_on=False,
        )
    ax.set(
        xlabel=symbol(figure.param),
        ylabel="likelihood ratio statistic",
        xlim=(figure.x[0], figure.x[-1]),
        ylim=(bottom, top),
    )
    ax.xaxis.set_major_locator(MaxNLocator(TICKS))
    legend(
        ax,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2 if len(shown) > 1 else 3,  # several maxima make a long label
        columnspacing=1.0,
        handlelength=1.7,
        handletextpad=0.5,
    )
    return ax


def plot_surface(figure: SurfaceFigure, ax: Axes | None = None) -> Axes:
    """Draw contours of the likelihood ratio of two parameters.

    Parameters
    ----------
    figure : SurfaceFigure
        From ``ProfileSurface.figure()``.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With one contour for each cut.
    """
    ax = axes_of(ax)
    cuts = sorted(value for _, value in figure.cuts)
    names = {value: percent(1 - alpha) for alpha, value in figure.cuts}
    shades = ["#4C8DBF", "#9CC3DF", "#D6E6F2"][: len(cuts)]
    ax.contourf(figure.x, figure.y, figure.lr, levels=[-1e-9, *cuts], colors=shades)
    lines = ax.contour(
        figure.x,
        figure.y,
        figure.lr,
        levels=cuts,
        colors=DARK,
        linestyles=["-", "--", ":"][: len(cuts)],
    )
    ax.clabel(lines, fmt=names, fontsize="small")
    ax.plot(*figure.estimate, "D", color=ORANGE, mec=DARK, ms=7, ls="none", label="estimate")
    for value, draw in zip(figure.fixed, (ax.axvline, ax.axhline), strict=True):
        if value is not None:
            draw(value, color=GREEN, lw=1.4, ls="-.", label=f"fixed at {value:g}")
    ax.set(xlabel=symbol(figure.params[0]), ylabel=symbol(figure.params[1]))
    ax.set_xlim(figure.x[0], figure.x[-1])
    ax.set_ylim(figure.y[0], figure.y[-1])
    legend(ax)
    return ax


def plot_tau_loss(figure: TauLossFigure, ax: Axes | None = None) -> Axes:
    """Draw the mean loss over tau: concave un-normalised loss, convex normaliser, and their sum.

    Parameters
    ----------
    figure : TauLossFigure
        From :func:`qhreg.diagnostics.tau_loss_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the three curves as first lines.
    """
    ax = axes_of(ax)
    loss = r"mean loss $\overline{\rho}_\tau$ (concave)"
    ax.plot(figure.taus, figure.loss, color=RED, lw=1.8, ls="--", label=loss)
    ax.plot(figure.taus, figure.log_c, color=GREEN, lw=1.8, ls="-.", label=r"$\log c$ (convex)")
    ax.plot(figure.taus, figure.total, color=BLUE, lw=2.2, label="sum: normalised loss")
    name = rf"best $\tau$ = {figure.best[0]:.3f}"
    ax.plot(*figure.best, "D", color=ORANGE, mec=DARK, ms=7, ls="none", label=name, clip_on=False)
    ax.set(xlabel=r"$\tau$", ylabel="per observation")
    ax.set_xlim(figure.taus[0], figure.taus[-1])
    legend(ax)
    return ax
