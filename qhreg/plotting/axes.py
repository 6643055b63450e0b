"""What all plots share: axes, colours and labels.

The colours differ in lightness (CIE L* 13, 35, 54, 71 and 79), so that they are told apart in grey and
with every common colour vision; lines differ in their style too. BLUE is what was fitted, SKY its bands,
RED what it is compared with, GREY the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg._typing import FloatArray

BLUE, RED, ORANGE, SKY = "#00558C", "#D55E00", "#E69F00", "#9CCBEA"
GREY, DARK = "#8A8A8A", "#222222"

LINE_COLOURS = (BLUE, RED, ORANGE, DARK)
LINE_STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")


def axes_of(ax: Axes | None, size: tuple[float, float] = (6.4, 4.4)) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return plt.subplots(figsize=size, layout="constrained")[1]


def panels_of(count: int, axes: Any, what: str) -> list[Axes]:
    """Return the given axes, or those of a new figure with one panel for each of `what`."""
    if axes is not None:
        panels = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(panels) < count:
            raise ValueError(f"there are {count} {what} to draw, and {len(panels)} axes")
        return panels[:count]
    columns = min(count, 3)
    rows = -(-count // columns)
    fig = plt.figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    panels = list(fig.subplots(rows, columns, squeeze=False).ravel())
    for spare in panels[count:]:
        spare.remove()
    return panels[:count]


def figure_of(panels: Sequence[Axes]) -> Figure:
    """Return the figure of some axes."""
    figure = panels[0].get_figure()
    assert isinstance(figure, Figure)
    return figure


def line_style(place: int) -> dict[str, Any]:
    """Return colour, line style and marker of one of several lines: 16 pairs of the first two."""
    colours = len(LINE_COLOURS)
    return {
        "color": LINE_COLOURS[place % colours],
        "ls": LINE_STYLES[(place + place // colours) % len(LINE_STYLES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def legend(ax: Axes, **options: Any) -> None:
    """Draw the legend."""
    ax.legend(fontsize="small", framealpha=0.9, **{"loc": "best", **options})


def make_headroom(ax: Axes, share: float) -> None:
    """Make room for a legend above what is drawn."""
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + share * (top - bottom))


def literal(name: str) -> str:
    """Return a name whose dollar signs do not begin a formula."""
    return name.replace("$", r"\$")


def symbol(param: str) -> str:
    """Return a Greek letter for the parameters that have one."""
    greek = {"tau": r"$\tau$", "sigma": r"$\sigma$", "kappa": r"$\kappa$"}
    return greek.get(param, literal(param))


def percent(level: float) -> str:
    """Return a share as text."""
    return f"{100 * level:g} %"


def draw_rows(ax: Axes, x: FloatArray, y: FloatArray, n_rows: int) -> None:
    """Draw rows as grey points, with the number of those that there are where some are left out."""
    label = "rows" if x.size == n_rows else f"{x.size} of {n_rows} rows"
    ax.plot(x, y, ".", color=GREY, ms=4, alpha=0.65, label=label, zorder=2)


def draw_band(ax: Axes, x: FloatArray, low: FloatArray, high: FloatArray, **options: Any) -> None:
    """Shade what lies between two curves."""
    ax.fill_between(x, low, high, **{"color": SKY, "alpha": 0.6, "lw": 0, "zorder": 1, **options})
