"""The pictures of the site, drawn with the package when the site is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import statsmodels.api as sm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx.application import Sphinx

import qhreg.formula.api as qhf

THEMES = {
    "light": {"ink": "#3d4451", "faint": "#9aa2ad", "data": "#5b6573", "fit": "#b5432e"},
    "dark": {"ink": "#c9d1d9", "faint": "#6b7480", "data": "#9aa4b2", "fit": "#f0876f"},
}
FORMULA, KAPPA = "np.sqrt(foodexp) ~ np.sqrt(income)", 4.0
TAUS = (0.16, 0.53)


def landing(folder: Path) -> None:
    """Draw the fit to Engel's data with its bands, and the profile likelihood of tau."""
    data = sm.datasets.engel.load_pandas().data
    results = qhf.quantile_huber(FORMULA, data, kappa=KAPPA).fit()
    profile = results.profile_likelihood("tau", grid=np.linspace(*TAUS, 38))
    for name, colours in THEMES.items():
        with mpl.rc_context(_style(colours)):
            _save(
                folder / f"bands_{name}.svg",
                5.9,
                lambda ax, c=colours: _bands(ax, data, results, c),
            )
            _save(
                folder / f"profile_{name}.svg", 3.6, lambda ax, c=colours: _profile(ax, profile, c)
            )


def _save(path: Path, width: float, draw: Callable[[Axes], None]) -> None:
    figure = Figure(figsize=(width, 3.9), layout="constrained")
    draw(figure.subplots())
    figure.savefig(path, transparent=True, metadata={"Date": None})


def _style(colours: dict[str, str]) -> dict[str, object]:
    ink = colours["ink"]
    return {
        "font.size": 10.5,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": colours["faint"],
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "qhreg",
        "svg.fonttype": "none",
        "font.family": ["sans-serif"],
    }


def _bands(ax, data: pd.DataFrame, results, colours: dict[str, str]) -> None:
    income = np.linspace(data["income"].min(), data["income"].max(), 80)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    frame = pd.DataFrame({"income": income})
    bands = results.predict(frame, which="quantile", q=levels).to_numpy() ** 2
    for low, high, share, alpha in ((0, 4, 90, 0.15), (1, 3, 50, 0.3)):
        ax.fill_between(
            income,
            bands[:, low],
            bands[:, high],
            color=colours["fit"],
            alpha=alpha,
            lw=0,
            label=f"{share} % of the noise",
        )
    ax.plot(income, bands[:, 2], color=colours["fit"], lw=2, label="fitted median")
    ax.scatter(data["income"], data["foodexp"], s=11, color=colours["data"], alpha=0.7, lw=0)
    ax.set(xlabel="income", ylabel="spent on food", xlim=(300, 3000), ylim=(150, 2100))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    ax.legend(frameon=False, loc="upper left")


def _profile(ax, profile, colours: dict[str, str]) -> None:
    low, high = profile.conf_int()
    tau = np.linspace(*TAUS, 200)
    height = -0.5 * profile.interpolate(tau)
    inside = (low <= tau) & (tau <= high)
    ax.fill_between(tau[inside], height[inside], -9.0, color=colours["fit"], alpha=0.17, lw=0)
    ax.plot(tau, height, color=colours["fit"], lw=2)
    ax.axvline(0.5, color=colours["faint"], lw=1, ls=(0, (4, 3)))
    ax.annotate(
        "symmetric", (0.5, -0.25), (-5, 0), textcoords="offset points", ha="right", va="top"
    )
    ax.annotate(
        f"95 %\n{low:.2f} to {high:.2f}", ((low + high) / 2, -6.3), ha="center", va="center"
    )
    ax.set(xlabel="tau", ylabel="log-likelihood below its maximum", ylim=(-9.0, 0.4), xlim=TAUS)


def process(folder: Path) -> None:
    """Draw the coefficients over tau, as the how-to page on many values of tau does."""
    data = sm.datasets.engel.load_pandas().data
    model = qhf.quantile_huber("foodexp ~ income", data, kappa=0.0)
    figure = model.fit_process(quantiles=np.linspace(0.05, 0.95, 19)).plot()
    figure.savefig(folder / "process.png", dpi=110)


def draw(app: Sphinx) -> None:
    """Draw every picture, unless it is there and newer than the package."""
    folder = Path(app.srcdir) / "_static" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [*Path(qhf.__file__).parents[1].rglob("*.py"), Path(__file__)]
    newest = max(path.stat().st_mtime for path in sources)
    wanted = [folder / f"{part}_{name}.svg" for part in ("bands", "profile") for name in THEMES]
    wanted.append(folder / "process.png")
    if all(path.exists() and path.stat().st_mtime > newest for path in wanted):
        return
    landing(folder)
    process(folder)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
