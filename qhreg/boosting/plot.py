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
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "plots need matplotlib: install it with `pip install qhreg[plot]`"
            ) from error
        _, ax = plt.subplots()
    ax.plot(np.arange(1, tau.size + 1), tau, **line_options)
    ax.axhline(0.5, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("stage")
    ax.set_ylabel("tau")
    return ax
