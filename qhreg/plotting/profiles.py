"""Plots of profile likelihoods, and of the objective in tau that a certificate speaks of."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from qhreg.diagnostics.figures import ProfileFigure, SurfaceFigure, TauLossFigure
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    RED,
    SKY,
    axes_of,
    legend,
    percent,
    symbol,
)

CUT_STYLES = ("--", ":", "-.")


def plot_profile(figure: ProfileFigure, ax: Axes | None = None, *, details: bool = False) -> Axes:
    """Draw the profile log-likelihood of a parameter with its interval.

    Parameters
    ----------
    figure : ProfileFigure
        From ``ProfileLikelihood.figure()``.
    ax : Axes, optional
        Where to draw.
    details : bool
        Whether to add the Wald parabola, the cuts, the fits, and what a certificate excludes.

    Returns
    -------
    Axes
        With the curve as first line.
    """
    ax = axes_of(ax)
    bottom = -0.7 * max(value for _, value in figure.cuts)
    height = -0.5 * figure.lr
    ax.plot(figure.x, height, color=BLUE, lw=2, label="profile" if details else None, zorder=4)
    lower = max(figure.interval[0], float(figure.x[0]))
    upper = min(figure.interval[1], float(figure.x[-1]))
    _shade(ax, figure, (lower, upper), bottom, color=SKY, alpha=0.6)
    ax.text(
        0.5 * (lower + upper),
        0.86 * bottom,
        _interval_text(figure),
        ha="center",
        va="center",
        bbox={"fc": "white", "ec": "none", "alpha": 0.6, "pad": 1.5},
        zorder=6,
    )
    for place, ends in enumerate(figure.elsewhere):
        label = "not rejected either" if place == 0 else None
        _shade(ax, figure, ends, bottom, color=ORANGE, alpha=0.4, label=label)
    if figure.param == "tau" and figure.x[0] < 0.5 < figure.x[-1]:
        _mark(ax, 0.5, "symmetric")
    if figure.fixed is not None:
        _mark(ax, figure.fixed, f"fixed at {figure.fixed:g}")
    if details:
        _draw_details(ax, figure, bottom)
    others = [(x, -0.5 * lr) for x, lr in figure.maxima if -0.5 * lr > bottom]
    if others:
        label = "other maximum" if len(others) == 1 else "other maxima"
        values = ", ".join(f"{x:.3g}" for x, _ in others)
        ax.plot(
            *zip(*others, strict=True),
            "v",
            color="white",
            mec=DARK,
            mew=1.4,
            ms=8,
            label=f"{label} {values}",
            zorder=6,
            clip_on=False,
        )
    ax.set(
        xlabel=symbol(figure.param),
        ylabel="log-likelihood below its maximum",
        xlim=_view(figure, lower, upper),
        ylim=(bottom, -0.05 * bottom),
    )
    ax.xaxis.set_major_locator(MaxNLocator(6))
    if ax.get_legend_handles_labels()[0]:
        legend(
            ax,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.05),
            ncols=2 if len(others) > 1 else 3,  # several maxima make a long label
            columnspacing=1.0,
            handlelength=1.7,
            handletextpad=0.5,
        )
    return ax


def _view(figure: ProfileFigure, lower: float, upper: float) -> tuple[float, float]:
    """Return the ends of the horizontal axis: all of tau, else not far beyond the interval.

    A profile that levels off never reaches the cut of a higher level: its fits go on to the end of the
    range.
    """
    ends = float(figure.x[0]), float(figure.x[-1])
    if figure.param == "tau":
        return ends
    length = upper - lower
    return max(ends[0], lower - length), min(ends[1], upper + length)


def _shade(
    ax: Axes, figure: ProfileFigure, ends: tuple[float, float], bottom: float, **options: Any
) -> None:
    """Shade the region below the curve between two ends."""
    inside = figure.x[(figure.x > ends[0]) & (figure.x < ends[1])]
    x = np.concatenate([ends[:1], inside, ends[1:]])
    height = np.interp(x, figure.x, -0.5 * figure.lr)
    ax.fill_between(x, height, bottom, lw=0, zorder=1, **options)


def _interval_text(figure: ProfileFigure) -> str:
    """Return the interval as text."""
    lower, upper = (f"{limit:.3g}" for limit in figure.interval)
    text = {
        (False, False): f"{lower} to {upper}",
        (True, False): f"up to {upper}",
        (False, True): f"from {lower} on",
        (True, True): "no limit",
    }
    return f"{percent(figure.level)}\n{text[figure.is_open]}"


def _mark(ax: Axes, value: float, text: str) -> None:
    """Draw a line at a value with its meaning above."""
    ax.axvline(value, color=DARK, lw=1.0, ls=(0, (4, 3)), zorder=2)
    place: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": "small"}
    ax.text(value, 1.005, text, transform=ax.get_xaxis_transform(), **place)


def _draw_details(ax: Axes, figure: ProfileFigure, bottom: float) -> None:
    """Draw the Wald parabola, the cuts, the fits, the estimate, and what is excluded by proof."""
    if figure.wald is not None:
        style: dict[str, Any] = {"color": RED, "lw": 1.6, "ls": (0, (5, 2)), "zorder": 3}
        ax.plot(figure.x, -0.5 * figure.wald, label="Wald parabola", **style)
    for (alpha, value), dashes in zip(figure.cuts, CUT_STYLES, strict=False):
        label = f"{percent(1 - alpha)} cut: {value:.3g} / 2"
        label = f"cut {value:.3g} / 2 (given)" if figure.cut_given else label
        ax.axhline(-0.5 * value, color=DARK, lw=1.1, ls=dashes, label=label, zorder=2)
    fits: dict[str, Any] = {"color": BLUE, "ms": 5, "label": "fits", "zorder": 5}
    ax.plot(figure.points_x, -0.5 * figure.points_lr, ".", **fits)
    mark: dict[str, Any] = {"color": ORANGE, "mec": DARK, "ms": 7, "zorder": 6, "clip_on": False}
    ax.plot([figure.estimate], [0.0], "D", label=f"estimate {figure.estimate:.4g}", **mark)
    if figure.certified is None:
        return
    bound = (-0.5 * figure.certified).clip(bottom, 0.0)
    hatch: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": GREY,
        "hatch": "///",
        "lw": 0.0,
        "zorder": 0,
    }
    ax.fill_between(figure.x, 0.0, bound, label="excluded by proof", **hatch)
    ax.plot(figure.x, bound, color=GREY, lw=1.0, zorder=2)


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
            draw(value, color=DARK, lw=1.2, ls=(0, (4, 3)), label=f"fixed at {value:g}")
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
        From :func:`qhreg.diagnostics.residuals.tau_loss_figure`.
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
    ax.plot(figure.taus, figure.log_c, color=ORANGE, lw=1.8, ls="-.", label=r"$\log c$ (convex)")
    ax.plot(figure.taus, figure.total, color=BLUE, lw=2.2, label="sum: normalised loss")
    name = rf"best $\tau$ = {figure.best[0]:.3f}"
    ax.plot(*figure.best, "D", color=ORANGE, mec=DARK, ms=7, ls="none", label=name, clip_on=False)
    ax.set(xlabel=r"$\tau$", ylabel="per observation")
    ax.set_xlim(figure.taus[0], figure.taus[-1])
    legend(ax)
    return ax
