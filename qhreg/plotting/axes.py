"""What all plots share: axes, colours and labels.

The colours are told apart with every common colour vision.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

__all__ = [
    "BLUE",
    "DARK",
    "GREEN",
    "GREY",
    "ORANGE",
    "RED",
    "SKY",
    "axes_of",
    "legend",
    "literal",
    "make_headroom",
    "percent",
    "symbol",
]

BLUE, RED, GREEN, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9"
GREY, DARK = "#7F7F7F", "#222222"


def axes_of(ax: Axes | None, size: tuple[float, float] = (6.4, 4.4)) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return plt.subplots(figsize=size, layout="constrained")[1]


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
