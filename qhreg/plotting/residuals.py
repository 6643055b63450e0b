"""Plots of residuals against the fitted law."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import (
    DensityFigure,
    PitFigure,
    QuantileFigure,
    ResidualFigure,
    ScaleLocationFigure,
)
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    RED,
    SKY,
    axes_of,
    draw_band,
    draw_rows,
    legend,
    literal,
    make_headroom,
    percent,
)

BAND_STYLES = (":", "--", "-")


def plot_density(figure: DensityFigure, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the standardised residuals with the fitted density.

    Parameters
    ----------
    figure : DensityFigure
        From :func:`qhreg.diagnostics.residuals.density_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the density as first line.
    """
    ax = axes_of(ax)
    rows = "residuals" + (f" ({figure.beyond} beyond the view)" if figure.beyond else "")
    ax.stairs(figure.heights, figure.edges, fill=True, color=SKY, alpha=0.5, ec=GREY, label=rows)
    ax.plot(figure.x, figure.density, color=BLUE, lw=2, label=figure.label)
    if figure.zone[1] > figure.zone[0]:
        ax.axvspan(*figure.zone, color=ORANGE, alpha=0.15, lw=0, label="quadratic zone", zorder=0)
    ax.set(xlabel=r"residual / $\sigma$", ylabel="density")
    ax.set_ylim(bottom=0.0)
    legend(ax)
    return ax


def _envelope_label(figure: QuantileFigure) -> str:
    """Return what the limits of quantiles are."""
    simulated = f" of {figure.n_simulations} simulated fits"
    return f"{percent(figure.level)}{simulated if figure.n_simulations else ', pointwise'}"


def plot_qq(figure: QuantileFigure, ax: Axes | None = None) -> Axes:
    """Draw quantiles of the residuals against those of the fitted law.

    Parameters
    ----------
    figure : QuantileFigure
        From :func:`qhreg.diagnostics.residuals.qq_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the points as first line and the diagonal as second.
    """
    ax = axes_of(ax)
    ax.plot(figure.theoretical, figure.observed, ".", color=BLUE, ms=4, label="residuals", zorder=3)
    ends = [figure.theoretical[0], figure.theoretical[-1]]
    ax.plot(ends, ends, color=DARK, lw=1.2, ls="--", label="fitted distribution", zorder=2)
    if figure.lower is not None and figure.upper is not None:
        label = _envelope_label(figure)
        draw_band(
            ax, figure.theoretical, figure.lower, figure.upper, color=ORANGE, alpha=0.3, label=label
        )
    ax.set(xlabel="quantile of the fitted distribution", ylabel=r"residual / $\sigma$")
    legend(ax, loc="upper left")
    return ax


def plot_worm(figure: QuantileFigure, ax: Axes | None = None) -> Axes:
    """Draw the detrended normal quantile plot of the quantile residuals.

    Parameters
    ----------
    figure : QuantileFigure
        From :func:`qhreg.diagnostics.residuals.worm_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the worm as first line, then zero and the two limits.
    """
    ax = axes_of(ax)
    x, deviation = figure.theoretical, figure.observed
    ax.plot(x, deviation, ".", color=BLUE, ms=4, label="residuals", zorder=3)
    ax.axhline(0.0, color=DARK, lw=1.0)
    if figure.lower is not None and figure.upper is not None:
        ax.plot(x, figure.upper, color=RED, lw=1.3, ls="--", label=_envelope_label(figure))
        ax.plot(x, figure.lower, color=RED, lw=1.3, ls="--")
    largest = max(1.3 * float(abs(deviation).max()), 0.3)
    ax.set(xlabel="normal quantile", ylabel="deviation", ylim=(-largest, 1.25 * largest))
    legend(ax, loc="upper center", ncols=2)
    return ax


def plot_pit(figure: PitFigure, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transform.

    Parameters
    ----------
    figure : PitFigure
        From :func:`qhreg.diagnostics.residuals.pit_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the uniform density as first line.
    """
    ax = axes_of(ax)
    ax.stairs(figure.heights, figure.edges, fill=True, color=SKY, alpha=0.5, ec=GREY, label="PIT")
    ax.axhline(1.0, color=DARK, lw=1.2, ls="--", label="uniform")
    for limit in (figure.lower, figure.upper):
        label = f"{percent(figure.level)} limits per bin" if limit == figure.lower else None
        ax.axhline(limit, color=RED, lw=1.4, ls=":", label=label)
    top = 1.35 * max(float(figure.heights.max()), figure.upper)
    ax.set(xlabel="fitted distribution function", ylabel="density", xlim=(0, 1), ylim=(0, top))
    legend(ax, loc="upper center", ncols=3)
    return ax


def plot_residuals(figure: ResidualFigure, ax: Axes | None = None) -> Axes:
    """Draw residuals against fitted values, with fitted and empirical quantiles.

    Parameters
    ----------
    figure : ResidualFigure
        From :func:`qhreg.diagnostics.residuals.residual_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, then the fitted and the empirical quantiles of each level.
    """
    ax = axes_of(ax)
    draw_rows(ax, figure.fitted, figure.resid, figure.n_rows)
    for i, level in enumerate(figure.levels):
        # one style and one label for both quantiles of a pair
        mirror = len(figure.levels) - 1 - i
        style = BAND_STYLES[min(i, mirror, len(BAND_STYLES) - 1)]
        other = "" if i == mirror else f", {figure.levels[mirror]:g}"
        label = f"fitted {level:g}{other}" if i <= mirror else None
        ax.axhline(figure.bands[i], color=BLUE, lw=1.4, ls=style, label=label, zorder=3)
        name = "observed, by group" if i == 0 else None
        ax.plot(figure.centres, figure.empirical[:, i], "o-", color=RED, ms=3, lw=0.9, label=name)
    if figure.view is not None:
        low, high = figure.view
        ax.set_ylim(low, high)
        outside = (figure.resid < low) | (figure.resid > high)
        label = f"{outside.sum()} beyond the view"
        edge: dict[str, Any] = {"color": "white", "mec": DARK, "ms": 5, "label": label, "zorder": 4}
        resid = figure.resid[outside].clip(low, high)
        ax.plot(figure.fitted[outside], resid, "D", clip_on=False, **edge)
    ax.set(xlabel="fitted value", ylabel="residual, quantiles")
    make_headroom(ax, 0.36)
    legend(ax, loc="upper center", ncols=2)
    return ax


def plot_scale_location(figure: ScaleLocationFigure, ax: Axes | None = None) -> Axes:
    """Draw the size of the quantile residuals against fitted values: flat when the spread is.

    Parameters
    ----------
    figure : ScaleLocationFigure
        From :func:`qhreg.diagnostics.residuals.scale_location_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, what is expected as second and the means of groups as third.
    """
    ax = axes_of(ax)
    draw_rows(ax, figure.fitted, figure.root, figure.n_rows)
    ax.axhline(figure.expected, color=BLUE, lw=1.6, label="one spread", zorder=3)
    label = f"means by group, {percent(figure.level)}"
    means: dict[str, Any] = {"fmt": "o--", "color": RED, "ms": 4, "lw": 1.1, "capsize": 3}
    ax.errorbar(figure.centres, figure.means, yerr=figure.half, label=label, zorder=4, **means)
    ax.set(xlabel="fitted value", ylabel=r"$\sqrt{|\mathrm{quantile\ residual}|}$")
    make_headroom(ax, 0.3)
    legend(ax, loc="upper center", ncols=2)
    return ax


def plot_influence(
    leverage: FloatArray,
    resid: FloatArray,
    distance: FloatArray,
    labels: Mapping[int, str],
    ax: Axes | None = None,
) -> Axes:
    """Draw residuals against leverage, the area of a row growing with its influence.

    Parameters
    ----------
    leverage, resid, distance : ndarray, shape (n,)
        Leverage, studentised residual and Cook's distance of each row.
    labels : mapping of int to str
        By their places, names of rows, the most important first; one that would overlap an earlier
        one is not drawn.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as only collection.
    """
    ax = axes_of(ax)
    area = 10.0 + 700.0 * distance / np.nanmax(distance)
    ax.scatter(leverage, resid, area, color=SKY, ec=BLUE, alpha=0.6)
    ax.axhline(0.0, color=DARK, lw=0.8, zorder=0)
    ax.set(xlabel="leverage of the regressors", ylabel="studentised residual")
    ax.set_title("area: Cook's distance", fontsize="medium")
    ax.margins(0.15)
    drawn: list[Any] = []
    for row, name in labels.items():
        above: dict[str, Any] = {"xytext": (0, 0.5 * np.sqrt(area[row]) + 2), "ha": "center"}
        at = leverage[row], resid[row]
        label = ax.annotate(literal(name), at, textcoords="offset points", **above)
        extent = label.get_window_extent()
        if any(extent.overlaps(other) for other in drawn):
            label.remove()
        else:
            drawn.append(extent)
    return ax


def plot_diagnostics(
    density: DensityFigure,
    qq: QuantileFigure,
    residuals: ResidualFigure,
    pit: PitFigure,
    worm: QuantileFigure,
    scale: ScaleLocationFigure,
    *,
    fig: Figure | None = None,
) -> Figure:
    """Draw all diagnostics of a fit in one figure.

    Parameters
    ----------
    density, qq, residuals, pit, worm, scale
        The numbers of each panel, in the order of reading.
    fig : Figure, optional
        Where to draw; a new one by default.

    Returns
    -------
    Figure
        Six axes.
    """
    if fig is None:
        fig = plt.figure(figsize=(13.5, 8.0), layout="constrained")
    axes = fig.subplots(2, 3).ravel()
    plot_density(density, ax=axes[0]).set_title("Residuals and fitted density")
    plot_qq(qq, ax=axes[1]).set_title("Quantiles")
    plot_residuals(residuals, ax=axes[2]).set_title("Residuals against fitted")
    plot_pit(pit, ax=axes[3]).set_title("Probability integral transform")
    plot_worm(worm, ax=axes[4]).set_title("Worm plot")
    plot_scale_location(scale, ax=axes[5]).set_title("Scale and location")
    return fig
