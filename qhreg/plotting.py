"""Plots of profiles, certificates and diagnostics with matplotlib.

Every function draws the numbers of one figure of :mod:`qhreg.figures` and computes none. The colours
are told apart with every common colour vision, and lines also by their style.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qhreg.figures import (
    DensityFigure,
    FitFigure,
    PitFigure,
    ProfileFigure,
    QQFigure,
    ResidualFigure,
    SurfaceFigure,
    TauLossFigure,
    WormFigure,
)

__all__ = [
    "plot_density",
    "plot_diagnostics",
    "plot_fit",
    "plot_pit",
    "plot_profile",
    "plot_qq",
    "plot_residuals",
    "plot_surface",
    "plot_tau_loss",
    "plot_worm",
]

BLUE, RED, GREEN, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9"
GREY, DARK = "#7F7F7F", "#222222"
CUT_STYLES = ("--", ":", "-.")
BAND_STYLES = (":", "--", "-")


def _axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.4)) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return plt.subplots(figsize=size, layout="constrained")[1]


def _legend(ax: Axes, **options: Any) -> None:
    ax.legend(fontsize="small", framealpha=0.9, **{"loc": "best", **options})


def _headroom(ax: Axes, share: float) -> None:
    """Make room for a legend above what is drawn."""
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + share * (top - bottom))


def _literal(name: str) -> str:
    """Return a name whose dollar signs do not begin a formula."""
    return name.replace("$", r"\$")


def _symbol(param: str) -> str:
    """Return a Greek letter for the parameters that have one."""
    greek = {"tau": r"$\tau$", "sigma": r"$\sigma$", "kappa": r"$\kappa$"}
    return greek.get(param, _literal(param))


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def plot_profile(figure: ProfileFigure, ax: Axes | None = None) -> Axes:
    """Draw the likelihood ratio of a parameter, its cuts and interval, and what is proved about it.

    Parameters
    ----------
    figure : ProfileFigure
        From ``ProfileLikelihood.figure()``.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the curve as first line, then the parabola (if any) and the cuts.
    """
    ax = _axes(ax)
    top = 1.4 * max(value for _, value in figure.cuts)
    bottom = -0.07 * top
    ax.plot(figure.x, figure.lr, color=BLUE, lw=2, label="profile", zorder=4)
    if figure.wald is not None:
        ax.plot(
            figure.x,
            figure.wald,
            color=RED,
            lw=1.6,
            ls=(0, (5, 2)),
            label="Wald parabola",
            zorder=3,
        )
    for (alpha, value), style in zip(figure.cuts, CUT_STYLES, strict=False):
        label = f"cut {_percent(1 - alpha)}"
        ax.axhline(value, color=DARK, lw=1.1, ls=style, label=label, zorder=2)
    lower = max(figure.interval[0], float(figure.x[0]))
    upper = min(figure.interval[1], float(figure.x[-1]))
    ends = "".join(["open below, " * figure.is_open[0], "open above, " * figure.is_open[1]])
    label = f"{_percent(figure.level)} interval" + (f" ({ends[:-2]})" if ends else "")
    ax.axvspan(lower, upper, color=SKY, alpha=0.22, lw=0, label=label, zorder=0)
    ax.plot(figure.points_x, figure.points_lr, ".", color=BLUE, ms=5, label="fits", zorder=5)
    name = f"estimate {figure.estimate:.4g}"
    ax.plot(
        [figure.estimate],
        [0.0],
        "D",
        color=ORANGE,
        mec=DARK,
        ms=7,
        label=name,
        zorder=6,
        clip_on=False,
    )
    if figure.fixed is not None:
        ax.axvline(figure.fixed, color=GREEN, lw=1.4, ls="-.", label=f"fixed at {figure.fixed:g}")
    if figure.certified is not None:
        ax.fill_between(
            figure.x,
            bottom,
            figure.certified.clip(bottom, top),
            facecolor="none",
            edgecolor=GREY,
            hatch="////",
            lw=0.0,
            alpha=0.6,
            label="no fit here: proved",
            zorder=1,
        )
        ax.plot(figure.x, figure.certified, color=GREY, lw=1.0, zorder=1)
    shown = [(x, lr) for x, lr in figure.maxima if lr < top]
    if shown:
        label = "other maximum" if len(shown) == 1 else "other maxima"
        values = ", ".join(f"{x:.3g}" for x, _ in shown)
        ax.plot(
            *zip(*shown, strict=True),
            "v",
            color="white",
            mec=DARK,
            mew=1.4,
            ms=8,
            ls="none",
            label=f"{label} {values}",
            zorder=6,
        )
    ax.set(
        xlabel=_symbol(figure.param),
        ylabel="likelihood ratio statistic",
        xlim=(figure.x[0], figure.x[-1]),
        ylim=(bottom, top),
    )
    _legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax


def plot_surface(figure: SurfaceFigure, ax: Axes | None = None) -> Axes:
    """Draw contours of the likelihood ratio of two parameters.

    Parameters
    ----------
    figure : SurfaceFigure
        From ``ProfileSurface.figure()``.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With one contour for each cut.
    """
    ax = _axes(ax)
    cuts = sorted(value for _, value in figure.cuts)
    names = {value: _percent(1 - alpha) for alpha, value in figure.cuts}
    shades = ["#4C8DBF", "#9CC3DF", "#D6E6F2"][: len(cuts)]
    ax.contourf(figure.x, figure.y, figure.lr, levels=[-1e-9, *cuts], colors=shades)
    lines = ax.contour(
        figure.x,
        figure.y,
        figure.lr,
        levels=cuts,
        colors=DARK,
        linestyles=["-", "--", ":"][: len(cuts)],
    )
    ax.clabel(lines, fmt=names, fontsize="small")
    ax.plot(*figure.estimate, "D", color=ORANGE, mec=DARK, ms=7, ls="none", label="estimate")
    for value, draw in zip(figure.fixed, (ax.axvline, ax.axhline), strict=True):
        if value is not None:
            draw(value, color=GREEN, lw=1.4, ls="-.", label=f"fixed at {value:g}")
    ax.set(xlabel=_symbol(figure.params[0]), ylabel=_symbol(figure.params[1]))
    ax.set_xlim(figure.x[0], figure.x[-1])
    ax.set_ylim(figure.y[0], figure.y[-1])
    _legend(ax)
    return ax


def plot_tau_loss(figure: TauLossFigure, ax: Axes | None = None) -> Axes:
    """Draw the mean loss over tau: concave un-normalised loss, convex normaliser, and their sum.

    Parameters
    ----------
    figure : TauLossFigure
        From :func:`qhreg.diagnostics.tau_loss_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the three curves as first lines.
    """
    ax = _axes(ax)
    loss = r"mean loss $\overline{\rho}_\tau$ (concave)"
    ax.plot(figure.taus, figure.loss, color=RED, lw=1.8, ls="--", label=loss)
    ax.plot(figure.taus, figure.log_c, color=GREEN, lw=1.8, ls="-.", label=r"$\log c$ (convex)")
    ax.plot(figure.taus, figure.total, color=BLUE, lw=2.2, label="sum: normalised loss")
    name = rf"best $\tau$ = {figure.best[0]:.3f}"
    ax.plot(*figure.best, "D", color=ORANGE, mec=DARK, ms=7, ls="none", label=name, clip_on=False)
    ax.set(xlabel=r"$\tau$", ylabel="per observation")
    ax.set_xlim(figure.taus[0], figure.taus[-1])
    _legend(ax)
    return ax


def plot_density(figure: DensityFigure, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the standardised residuals with the fitted density.

    Parameters
    ----------
    figure : DensityFigure
        From :func:`qhreg.diagnostics.density_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the density as first line.
    """
    ax = _axes(ax)
    rows = "residuals" + (f" ({figure.beyond} beyond the view)" if figure.beyond else "")
    ax.stairs(figure.heights, figure.edges, fill=True, color=SKY, alpha=0.5, ec=GREY, label=rows)
    ax.plot(figure.x, figure.density, color=BLUE, lw=2, label=figure.label)
    if figure.zone[1] > figure.zone[0]:
        ax.axvspan(*figure.zone, color=ORANGE, alpha=0.15, lw=0, label="quadratic zone", zorder=0)
    ax.set(xlabel=r"residual / $\sigma$", ylabel="density")
    ax.set_ylim(bottom=0.0)
    _legend(ax)
    return ax


def plot_qq(figure: QQFigure, ax: Axes | None = None) -> Axes:
    """Draw quantiles of the residuals against those of the fitted law.

    Parameters
    ----------
    figure : QQFigure
        From :func:`qhreg.diagnostics.qq_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the points as first line and the diagonal as second.
    """
    ax = _axes(ax)
    ax.plot(figure.theoretical, figure.observed, ".", color=BLUE, ms=4, label="residuals", zorder=3)
    ends = [figure.theoretical[0], figure.theoretical[-1]]
    ax.plot(ends, ends, color=DARK, lw=1.2, ls="--", label="fitted law", zorder=2)
    if figure.lower is not None and figure.upper is not None:
        label = f"{_percent(figure.level)} of {figure.n_simulations} simulated fits"
        ax.fill_between(
            figure.theoretical,
            figure.lower,
            figure.upper,
            color=ORANGE,
            alpha=0.3,
            lw=0,
            label=label,
        )
    ax.set(xlabel="quantile of the fitted law", ylabel=r"residual / $\sigma$")
    _legend(ax, loc="upper left")
    return ax


def plot_worm(figure: WormFigure, ax: Axes | None = None) -> Axes:
    """Draw the detrended normal quantile plot of the quantile residuals.

    Parameters
    ----------
    figure : WormFigure
        From :func:`qhreg.diagnostics.worm_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the worm as first line, then zero and the two limits.
    """
    ax = _axes(ax)
    ax.plot(figure.normal, figure.deviation, ".", color=BLUE, ms=4, label="residuals", zorder=3)
    ax.axhline(0.0, color=DARK, lw=1.0)
    label = f"{_percent(figure.level)}, pointwise"
    if figure.n_simulations:
        label = f"{_percent(figure.level)} of {figure.n_simulations} simulated fits"
    ax.plot(figure.x, figure.upper, color=RED, lw=1.3, ls="--", label=label)
    ax.plot(figure.x, figure.lower, color=RED, lw=1.3, ls="--")
    largest = max(1.3 * float(abs(figure.deviation).max()), 0.3)
    ax.set(xlabel="normal quantile", ylabel="deviation", ylim=(-largest, 1.25 * largest))
    _legend(ax, loc="upper center", ncols=2)
    return ax


def plot_pit(figure: PitFigure, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the probability integral transform.

    Parameters
    ----------
    figure : PitFigure
        From :func:`qhreg.diagnostics.pit_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the uniform density as first line.
    """
    ax = _axes(ax)
    ax.stairs(figure.heights, figure.edges, fill=True, color=SKY, alpha=0.5, ec=GREY, label="PIT")
    ax.axhline(1.0, color=DARK, lw=1.2, ls="--", label="uniform")
    label = f"{_percent(figure.level)} of one bin"
    ax.axhspan(figure.lower, figure.upper, color=ORANGE, alpha=0.22, lw=0, label=label)
    for limit in (figure.lower, figure.upper):
        ax.axhline(limit, color=RED, lw=1.0, ls=":")
    top = 1.35 * max(float(figure.heights.max()), figure.upper)
    ax.set(xlabel="fitted distribution function", ylabel="density", xlim=(0, 1), ylim=(0, top))
    _legend(ax, loc="upper center", ncols=3)
    return ax


def _band_style(level: float, levels: Sequence[float]) -> str:
    """Return one line style for both quantiles of a pair, solid for the middle."""
    depth = min(list(levels).index(level), len(levels) - 1 - list(levels).index(level))
    return BAND_STYLES[min(depth, len(BAND_STYLES) - 1)]


def _band_label(level: float, levels: Sequence[float], word: str = "quantile") -> str | None:
    """Return the label of a pair of quantiles, once."""
    i = list(levels).index(level)
    mirror = len(levels) - 1 - i
    if i > mirror:
        return None
    return f"{word} {level:g}" + ("" if i == mirror else f", {levels[mirror]:g}")


def plot_residuals(figure: ResidualFigure, ax: Axes | None = None) -> Axes:
    """Draw residuals against fitted values, with fitted and empirical quantiles.

    Parameters
    ----------
    figure : ResidualFigure
        From :func:`qhreg.diagnostics.residual_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, then the fitted and the empirical quantiles of each level.
    """
    ax = _axes(ax)
    rows = "rows" if figure.shown == figure.n_rows else f"{figure.shown} of {figure.n_rows} rows"
    ax.plot(figure.fitted, figure.resid, ".", color=GREY, ms=3, alpha=0.6, label=rows, zorder=1)
    for i, level in enumerate(figure.levels):
        style = _band_style(level, figure.levels)
        label = _band_label(level, figure.levels, "fitted")
        ax.axhline(figure.bands[i], color=BLUE, lw=1.4, ls=style, label=label, zorder=3)
        name = "in groups of rows" if i == 0 else None
        ax.plot(figure.centres, figure.empirical[:, i], "o-", color=RED, ms=3, lw=0.9, label=name)
    ax.set(xlabel="fitted value", ylabel="residual, quantiles")
    _headroom(ax, 0.36)
    _legend(ax, loc="upper center", ncols=2)
    return ax


def plot_fit(figure: FitFigure, ax: Axes | None = None) -> Axes:
    """Draw the fit along one regressor with fitted quantiles.

    Parameters
    ----------
    figure : FitFigure
        From :func:`qhreg.diagnostics.fit_figure`.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        With the rows as first line, the location as second, then the quantiles.
    """
    ax = _axes(ax)
    ax.plot(figure.x, figure.y, ".", color=GREY, ms=4, alpha=0.7, label="data", zorder=1)
    name = f"location (level {figure.location_level:.2f})"
    ax.plot(figure.grid, figure.location, color=RED, lw=2.2, ls="-.", label=name, zorder=4)
    for i, level in enumerate(figure.levels):
        style = _band_style(level, figure.levels)
        label = _band_label(level, figure.levels)
        ax.plot(
            figure.grid, figure.bands[:, i], color=BLUE, lw=1.4, ls=style, label=label, zorder=3
        )
    ax.set(xlabel=_literal(figure.x_name), ylabel=_literal(figure.y_name))
    _legend(ax)
    return ax


def plot_diagnostics(
    density: DensityFigure,
    qq: QQFigure,
    residuals: ResidualFigure,
    pit: PitFigure,
    worm: WormFigure,
    tau_loss: TauLossFigure,
    *,
    fig: Figure | None = None,
) -> Figure:
    """Draw all diagnostics of a fit in one figure.

    Parameters
    ----------
    density, qq, residuals, pit, worm, tau_loss
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
    plot_tau_loss(tau_loss, ax=axes[5]).set_title(r"Loss of these residuals over $\tau$")
    return fig
