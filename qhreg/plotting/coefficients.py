"""Plots of coefficients with matplotlib: over tau, beside each other, and of bootstrap replicates.

As in :mod:`qhreg.plotting`, every function draws the numbers of one figure and computes none.
"""

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
    ORANGE,
    RED,
    SKY,
    axes_of,
    figure_of,
    legend,
    line_style,
    literal,
    make_headroom,
    panels_of,
    percent,
    symbol,
)

__all__ = ["plot_bootstrap", "plot_coefficients", "plot_process"]


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
    ax.errorbar(
        [at],
        [value],
        yerr=[[value - lower], [upper - value]],
        fmt="D",
        color=ORANGE,
        mec=DARK,
        ecolor=DARK,
        capsize=3,
        ms=7,
        label=figure.reference_name,
        zorder=5,
    )


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
    for place, (ax, name) in enumerate(zip(panels, figure.names, strict=True)):
        ax.plot(
            levels,
            figure.estimates[:, place],
            color=BLUE,
            lw=1.8,
            marker=marker,
            label="regression quantiles" if figure.by_quantile else r"fits at fixed $\tau$",
            zorder=4,
        )
        ax.fill_between(
            levels,
            figure.lower[:, place],
            figure.upper[:, place],
            color=SKY,
            alpha=0.6,
            lw=0,
            label=f"{percent(figure.level)}, pointwise",
            zorder=1,
        )
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
        for limit in limits[j][np.isfinite(limits[j])]:
            ax.axvline(limit, color=RED, lw=1.5, ls="--", label=f"{percent(level)} interval")
        ax.set(xlabel=symbol(name), yticks=[])
    make_headroom(panels[0], 0.35)
    handles, labels = panels[0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    legend(panels[0], handles=list(once.values()), loc="upper center", ncols=2)
    return figure_of(panels)
