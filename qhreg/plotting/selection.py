"""Plots of choices: the size of a penalty, the number of stages, the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from qhreg._typing import FloatArray
from qhreg.plotting.axes import (
    BLUE,
    DARK,
    GREY,
    RED,
    SKY,
    axes_of,
    legend,
    line_style,
    literal,
    symbol,
)

__all__ = ["plot_comparison", "plot_cross_validation", "plot_penalty_path", "plot_tau_path"]

NAMED = 8
"""Coefficients that the path of a penalty names: those that become largest."""


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
    band: dict[str, Any] = {
        "color": SKY,
        "alpha": 0.6,
        "lw": 0,
        "label": "one standard error",
        "zorder": 1,
    }
    ax.fill_between(alphas, mean - error, mean + error, **band)
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
