"""Plots of coefficients, over tau, beside others and replicated, and of what chooses among models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import ProcessFigure
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    RED,
    SKY,
    axes_of,
    draw_band,
    figure_of,
    legend,
    line_style,
    literal,
    make_headroom,
    panels_of,
    percent,
    symbol,
)

NAMED = 8
"""Coefficients that the path of a penalty names: those that become largest."""


def _reference(ax: Axes, figure: ProcessFigure, place: int) -> None:
    """Draw the fit that does not depend on tau."""
    if figure.reference is None:
        return
    value, lower, upper = figure.reference[place]
    if figure.reference_tau is None:
        ax.axhline(value, color=RED, lw=1.4, ls="--", label=figure.reference_name, zorder=2)
        label = f"{percent(figure.level)}, {figure.reference_name}"
        ax.axhspan(lower, upper, color=RED, alpha=0.1, lw=0, label=label, zorder=0)
        return
    at = 1.0 - figure.reference_tau if figure.by_quantile else figure.reference_tau
    ends = [[value - lower], [upper - value]]
    mark: dict[str, Any] = {"fmt": "D", "color": ORANGE, "mec": DARK, "ecolor": DARK, "ms": 7}
    label = figure.reference_name
    ax.errorbar([at], [value], yerr=ends, capsize=3, label=label, zorder=5, **mark)


def plot_process(figure: ProcessFigure, axes: Any = None) -> Figure:
    """Draw coefficients over tau, or over 1 - tau, with pointwise intervals, one panel each.

    Parameters
    ----------
    figure : ProcessFigure
        From ``ProcessResults.figure()``.
    axes : sequence of Axes, optional
        Where to draw, one for each coefficient.

    Returns
    -------
    Figure
        In each panel the coefficient is the first line.
    """
    panels = panels_of(len(figure.names), axes, "coefficients")
    marker = "." if figure.taus.size <= 30 else ""
    levels = 1.0 - figure.taus if figure.by_quantile else figure.taus
    note = r"$\tau$  (quantile level $1-\tau$)" if figure.kappa == 0.0 else r"$\tau$"
    note = r"quantile level $q=1-\tau$" if figure.by_quantile else note
    label = "regression quantiles" if figure.by_quantile else r"fits at fixed $\tau$"
    line: dict[str, Any] = {"color": BLUE, "lw": 1.8, "marker": marker, "label": label, "zorder": 4}
    pointwise = f"{percent(figure.level)}, pointwise"
    for place, (ax, name) in enumerate(zip(panels, figure.names, strict=True)):
        ax.plot(levels, figure.estimates[:, place], **line)
        draw_band(ax, levels, figure.lower[:, place], figure.upper[:, place], label=pointwise)
        _reference(ax, figure, place)
        ax.set(xlabel=note, title=literal(name))
    legend(panels[0])
    return figure_of(panels)


def plot_coefficients(
    tables: Mapping[str, pd.DataFrame], *, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Draw coefficients with their intervals, one row each, of one fit or of several side by side.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By name of the fit, one row for each coefficient: estimate, lower and upper limit.
    level : float
        Coverage of the intervals.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the estimates of each fit as a line of markers, from the top to the bottom.
    """
    names = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    ax = axes_of(ax, (6.4, 1.4 + (0.25 + 0.16 * len(tables)) * len(names)))
    for place, (fit, table) in enumerate(tables.items()):
        shift = 0.6 * ((place + 0.5) / len(tables) - 0.5)
        y = np.array([names.index(name) for name in table.index]) + shift
        value, lower, upper = table.to_numpy().T
        style = {**line_style(place), "ls": "none", "ms": 6, "capsize": 3, "label": fit}
        ax.errorbar(value, y, xerr=[value - lower, upper - value], **style)
    ax.axvline(0.0, color=DARK, lw=0.9, ls=":", zorder=0)
    ax.set_yticks(range(len(names)), [symbol(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"coefficient, {percent(level)} interval")
    if len(tables) > 1:
        legend(ax)
    return ax


def plot_bootstrap(
    replicates: FloatArray,
    estimate: FloatArray,
    limits: FloatArray,
    names: Sequence[str],
    *,
    level: float = 0.95,
    axes: Any = None,
) -> Figure:
    """Draw the distribution of bootstrap replicates with estimate and interval, one panel each.

    Parameters
    ----------
    replicates : ndarray, shape (B, q)
        The replicates; those that are not finite are left out.
    estimate : ndarray, shape (q,)
        The estimates.
    limits : ndarray, shape (q, 2)
        The intervals.
    names : sequence of str, length q
        The parameters.
    level : float
        Coverage of the intervals.
    axes : sequence of Axes, optional
        Where to draw, one for each parameter.

    Returns
    -------
    Figure
        In each panel the estimate is the first line.
    """
    panels = panels_of(len(names), axes, "parameters")
    for j, (ax, name) in enumerate(zip(panels, names, strict=True)):
        column = replicates[np.isfinite(replicates[:, j]), j]
        ax.hist(column, "auto", color=SKY, ec="white", lw=0.5, label=f"{column.size} replicates")
        ax.axvline(estimate[j], color=BLUE, lw=2, label="estimate")
        for place, limit in enumerate(limits[j][np.isfinite(limits[j])]):
            label = f"{percent(level)} interval" if place == 0 else None
            ax.axvline(limit, color=RED, lw=1.5, ls="--", label=label)
        ax.set(xlabel=symbol(name), yticks=[])
    make_headroom(panels[0], 0.35)
    legend(panels[0], loc="upper center", ncols=2)
    return figure_of(panels)


def _penalty_axis(ax: Axes, alphas: FloatArray) -> None:
    """Make sizes of a penalty the horizontal axis, on the log scale where none is zero."""
    ax.set(xlabel="penalty alpha", xscale="log" if alphas.min() > 0.0 else "linear")


def plot_penalty_path(
    alphas: FloatArray,
    coefficients: FloatArray,
    names: Sequence[str],
    *,
    chosen: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw coefficients over the size of the penalty.

    Parameters
    ----------
    alphas : ndarray, shape (a,)
        Sizes of the penalty.
    coefficients : ndarray, shape (a, k)
        The coefficients.
    names : sequence of str, length k
        Their names.
    chosen : float, optional
        A size to mark.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the coefficients as first lines, the largest first.
    """
    ax = axes_of(ax)
    largest = np.argsort(-np.abs(coefficients).max(axis=0), kind="stable")
    for place, j in enumerate(largest):
        style = {**line_style(place), "lw": 1.6, "label": literal(names[j]), "markevery": [-1]}
        if place >= NAMED:
            style = {"color": GREY, "lw": 0.8, "zorder": 1}
            style |= {"label": f"{largest.size - NAMED} more"} if place == NAMED else {}
        ax.plot(alphas, coefficients[:, j], **style)
    ax.axhline(0.0, color=DARK, lw=0.8, zorder=0)
    if chosen is not None:
        ax.axvline(chosen, color=DARK, lw=1.2, ls=":", label=f"alpha = {chosen:.3g}")
    _penalty_axis(ax, alphas)
    ax.set_ylabel("coefficient")
    legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plot_cross_validation(
    alphas: FloatArray,
    mean: FloatArray,
    error: FloatArray,
    *,
    best: float,
    one_se: float,
    ax: Axes | None = None,
) -> Axes:
    """Draw the loss of rows left out over the size of the penalty.

    Parameters
    ----------
    alphas, mean, error : ndarray, shape (a,)
        Sizes of the penalty, mean loss and its standard error.
    best, one_se : float
        The size with the least mean, and the largest within one standard error of it.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the mean as first line, then the two sizes.
    """
    ax = axes_of(ax)
    ax.plot(alphas, mean, color=BLUE, lw=1.6, marker="o", ms=4, label="mean over the folds")
    draw_band(ax, alphas, mean - error, mean + error, label="one standard error")
    ax.axvline(best, color=RED, lw=1.4, ls="--", label=f"least: {best:.3g}")
    ax.axvline(one_se, color=DARK, lw=1.4, ls=":", label=f"within one error: {one_se:.3g}")
    _penalty_axis(ax, alphas)
    ax.set_ylabel("loss per row left out")
    legend(ax)
    return ax


def plot_tau_path(tau: FloatArray, ax: Axes | None = None, **line_options: Any) -> Axes:
    """Draw tau against the stage, with a line at one half.

    Parameters
    ----------
    tau : ndarray, shape (m,)
        One value per stage.
    ax : Axes, optional
        Where to draw.
    **line_options
        Passed to `Axes.plot`.

    Returns
    -------
    Axes
        With the path as first line.
    """
    ax = axes_of(ax)
    (path,) = ax.plot(np.arange(1, tau.size + 1), tau, color=BLUE, lw=2, label="after each stage")
    path.set(**line_options)
    ax.axhline(0.5, color=DARK, lw=1.2, ls="--", label="symmetric", zorder=1)
    ax.set(xlabel="stage", ylabel=symbol("tau"))
    legend(ax)
    return ax


def plot_comparison(names: Sequence[str], distances: FloatArray, ax: Axes | None = None) -> Axes:
    """Draw how far the AIC of each model is above the least.

    Parameters
    ----------
    names : sequence of str
        The models, drawn from top to bottom.
    distances : ndarray
        Their distances.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the distances as first line.
    """
    ax = axes_of(ax, (6.4, 1.2 + 0.4 * len(names)))
    places = np.arange(len(names))
    ax.hlines(places, 0.0, distances, color=SKY, lw=5)
    ax.plot(distances, places, "o", color=BLUE, ms=8)
    for place, distance in enumerate(distances):
        text: dict[str, Any] = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"{distance:.1f}", (distance, place), **text)
    ax.set_yticks(places, [literal(name) for name in names])
    ax.invert_yaxis()
    ax.margins(x=0.12, y=0.1)
    ax.set_xlabel("AIC above the least")
    return ax
