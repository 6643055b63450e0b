"""Plots of coefficients with matplotlib: over tau, and against their regressor.

As in :mod:`qhreg.plotting`, every function draws the numbers of one figure and computes none.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg.diagnostics.figures import PartialResidualFigure, ProcessFigure
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    RED,
    SKY,
    axes_of,
    legend,
    literal,
    percent,
)

__all__ = ["plot_partial_residuals", "plot_process"]

COLUMNS = 3
"""Panels side by side."""


def _panels(count: int, axes: Any) -> list[Axes]:
    """Return the given axes, or those of a new figure."""
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) < count:
            raise ValueError(f"there are {count} coefficients to draw, and {len(given)} axes")
        return given[:count]
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    fig = plt.figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    panels = fig.subplots(rows, columns, squeeze=False).ravel()
    for spare in panels[count:]:
        spare.remove()
    return list(panels[:count])


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
    panels = _panels(len(figure.names), axes)
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
            alpha=0.35,
            lw=0,
            label=f"{percent(figure.level)}, pointwise",
            zorder=1,
        )
        _reference(ax, figure, place)
        ax.set(xlabel=note, title=literal(name))
    legend(panels[0])
    made = panels[0].get_figure()
    assert isinstance(made, Figure)
    return made


def plot_partial_residuals(figure: PartialResidualFigure, ax: Axes | None = None) -> Axes:
    """Draw component plus residual of one regressor, with the fitted component.

    Parameters
    ----------
    figure : PartialResidualFigure
        From :func:`qhreg.diagnostics.coefficients.partial_residual_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, the component as second and the groups as third.
    """
    ax = axes_of(ax)
    rows = "rows" if figure.shown == figure.n_rows else f"{figure.shown} of {figure.n_rows} rows"
    ax.plot(figure.x, figure.partial, ".", color=GREY, ms=4, alpha=0.6, label=rows, zorder=1)
    ax.plot(figure.line_x, figure.line, color=BLUE, lw=2, label="fitted component", zorder=3)
    label = f"observed {figure.level:.2f} quantile, by group"
    ax.plot(figure.centres, figure.empirical, "o-", color=RED, ms=4, lw=1.1, label=label, zorder=4)
    ax.set(xlabel=literal(figure.name), ylabel="component plus residual")
    legend(ax)
    return ax
