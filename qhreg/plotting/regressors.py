"""Plots along one regressor: the fit with its bands, component plus residual, scale and asymmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import FitFigure, PartialResidualFigure
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    RED,
    SKY,
    axes_of,
    draw_band,
    draw_rows,
    figure_of,
    legend,
    literal,
    panels_of,
    percent,
    symbol,
)

WIDTH = 0.7
"""Width of the bar of a level, where the next level is 1 away."""


def _scatter(ax: Axes, x: FloatArray, y: FloatArray, n_rows: int, by_level: bool) -> None:
    """Draw rows; those of a level of a factor side by side, in an order that is always the same."""
    if by_level:
        x = x + np.random.default_rng(0).uniform(-0.3 * WIDTH, 0.3 * WIDTH, x.size)
    draw_rows(ax, x, y, n_rows)


def _category_axis(ax: Axes, categories: Sequence[Any] | None) -> None:
    """Write the levels of a factor, if it is one, below the axis, slanting where they need the room."""
    if categories is None:
        return
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    names = [literal(str(level)) for level in categories]
    options = slant if sum(map(len, names)) > 50 else {}
    ax.set_xticks(range(len(names)), names, **options)
    ax.set_xlim(-0.6, len(names) - 0.4)


def _band(
    ax: Axes, x: FloatArray, low: FloatArray, high: FloatArray, by_level: bool, **options: Any
) -> None:
    """Draw a band along a numeric regressor, or a bar for each level of a factor."""
    if by_level:
        ax.use_sticky_edges = False  # a margin below the bars too
        ax.bar(x, high - low, WIDTH, low, lw=0, **options)
    else:
        draw_band(ax, x, low, high, **options)


def _line(ax: Axes, x: FloatArray, y: FloatArray, by_level: bool, **options: Any) -> None:
    """Draw a line along a numeric regressor, or a stroke across the bar of each level."""
    if by_level:
        x = (x[:, None] + 0.5 * WIDTH * np.array([-1.0, 1.0, np.nan])).ravel()
        y = np.repeat(y, 3)
    ax.plot(x, y, **options)


def plot_fit(figure: FitFigure, ax: Axes | None = None) -> Axes:
    """Draw the fit along one regressor with bands of the fitted distribution.

    Parameters
    ----------
    figure : FitFigure
        From :func:`qhreg.diagnostics.regressors.fit_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, the location as second, then the middle quantile. A band lies
        between each pair of quantiles.
    """
    ax = axes_of(ax)
    by_level = figure.categories is not None
    _scatter(ax, figure.x, figure.y, figure.n_rows, by_level)
    count = len(figure.levels)
    style = {"color": RED, "lw": 1.8, "ls": "--", "label": "location", "zorder": 4}
    _line(ax, figure.grid, figure.location, by_level, **style)
    for i in range(count // 2):
        low, high = figure.bands[:, i], figure.bands[:, count - 1 - i]
        share = percent(round(figure.levels[count - 1 - i] - figure.levels[i], 10))
        alpha = 0.15 * (i + 1)
        shade = {"color": BLUE, "alpha": alpha, "label": f"{share} of the noise", "zorder": 1}
        _band(ax, figure.grid, low, high, by_level, **shade)
    if count % 2:
        middle = figure.levels[count // 2]
        label = "median" if middle == 0.5 else f"quantile {middle:g}"
        style = {"color": BLUE, "lw": 2.0, "label": label, "zorder": 3}
        _line(ax, figure.grid, figure.bands[:, count // 2], by_level, **style)
    ax.set(xlabel=literal(figure.x_name), ylabel=literal(figure.y_name))
    if figure.others:
        ax.set_title(f"at {literal(figure.others)}", fontsize="medium", wrap=True)
    _category_axis(ax, figure.categories)
    legend(ax)
    return ax


def plot_partial_residuals(figure: PartialResidualFigure, ax: Axes | None = None) -> Axes:
    """Draw component plus residual of one regressor, with the fitted component.

    Parameters
    ----------
    figure : PartialResidualFigure
        From :func:`qhreg.diagnostics.regressors.partial_residual_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, the component as second and the groups as third.
    """
    ax = axes_of(ax)
    by_level = figure.categories is not None
    _scatter(ax, figure.x, figure.partial, figure.n_rows, by_level)
    style = {"color": BLUE, "lw": 2, "label": "fitted component", "zorder": 3}
    _line(ax, figure.line_x, figure.line, by_level, **style)
    groups = "level" if by_level else "group"
    label = f"observed {figure.level:.2f} quantile, by {groups}"
    observed: dict[str, Any] = {"color": RED, "mec": DARK, "ms": 5, "lw": 1.1, "label": label}
    marks = "o" if by_level else "o--"
    ax.plot(figure.centres, figure.empirical, marks, zorder=4, **observed)
    ax.set(xlabel=literal(figure.name), ylabel="component plus residual")
    if figure.term != figure.name:
        ax.set_title(literal(figure.term), fontsize="medium", wrap=True)
    _category_axis(ax, figure.categories)
    legend(ax)
    return ax


def plot_parameters(
    grid: FloatArray,
    predictions: dict[str, FloatArray],
    *,
    name: str,
    level: float,
    others: str = "",
    categories: Sequence[Any] | None = None,
    axes: Any = None,
) -> Figure:
    """Draw location, scale and asymmetry along one regressor with pointwise intervals.

    Parameters
    ----------
    grid : ndarray, shape (g,)
        Values of the regressor.
    predictions : dict of str to ndarray, shape (g, 3)
        By parameter, its value and the limits of its interval.
    name : str
        The regressor.
    level : float
        Coverage of the intervals.
    others : str
        The other regressors with their values.
    categories : sequence, optional
        The levels of a factor, whose places `grid` is.
    axes : sequence of Axes, optional
        Where to draw, one for each parameter.

    Returns
    -------
    Figure
        In each panel the parameter is the first line.
    """
    panels = panels_of(len(predictions), axes, "parameters")
    by_level = categories is not None
    for ax, (param, values) in zip(panels, predictions.items(), strict=True):
        _line(ax, grid, values[:, 0], by_level, color=BLUE, lw=2, label="estimate", zorder=3)
        label = f"{percent(level)}, pointwise"
        _band(ax, grid, values[:, 1], values[:, 2], by_level, color=SKY, alpha=0.6, label=label)
        ax.set(xlabel=literal(name), ylabel=symbol(param))
        if param == "tau":
            ax.axhline(0.5, color=DARK, lw=1.0, ls=":", label="symmetric", zorder=1)
            legend(ax)
        _category_axis(ax, categories)
    figure = figure_of(panels)
    if others and axes is None:
        figure.suptitle(f"at {literal(others)}", fontsize="medium", wrap=True)
    return figure
