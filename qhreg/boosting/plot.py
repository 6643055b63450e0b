"""The path of tau over the stages, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["plot_path"]


def plot_path(tau: npt.NDArray[np.float64], ax: Any = None, **line_options: Any) -> Any:
    """Draw tau against the stage, with a line at one half, and return the Axes.

    Parameters
    ----------
    tau : ndarray, shape (m,)
        One value per stage.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    **line_options
        Passed to `Axes.plot`.
    """
    try:
        from qhreg.plotting.axes import BLUE, DARK, axes_of, legend
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: install it with `pip install qhreg[plot]`"
        ) from error
    ax = axes_of(ax)
    aliases = {"c": "color", "linewidth": "lw"}
    given = {aliases.get(name, name): value for name, value in line_options.items()}
    path = {"color": BLUE, "lw": 2, "label": r"$\tau$ after each stage", **given}
    ax.plot(np.arange(1, tau.size + 1), tau, **path)
    ax.axhline(0.5, color=DARK, lw=1.2, ls="--", label="symmetric", zorder=1)
    ax.set(xlabel="stage", ylabel=r"$\tau$")
    legend(ax)
    return ax
