"""Render every figure of the package to PNG: ``python docs/render_figures.py [folder]``.

The folder is ``docs/_static/generated`` by default, which is not kept in version control. Somebody
looks at each picture: overlapping labels, empty axes and unreadable legends are defects.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm

from qhreg import QuantileHuberDistributional, QuantileHuberMLE, compare_models, quantile_huber
from qhreg.diagnostics.residuals import tau_loss_figure
from qhreg.exceptions import BoundaryWarning
from qhreg.plotting import plot_tau_loss

FOLDER = Path(__file__).resolve().parent / "_static" / "generated"


def engel_fit(**options: Any) -> Any:
    engel = sm.datasets.engel.load_pandas().data
    return QuantileHuberMLE.from_formula("foodexp ~ income", engel, **options).fit()


def small_fit() -> Any:
    """Sixty rows with skewed noise: Wald and profile differ."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 60)})
    frame["y"] = 1.0 + frame.x + rng.exponential(size=60) - 0.5 * rng.exponential(size=60)
    return QuantileHuberMLE.from_formula("y ~ x", frame).fit()


def two_maxima_fit() -> Any:
    """Noise with two peaks: the likelihood has two local maxima in tau."""
    tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
    y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])
    return QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()


def bound_fit() -> Any:
    """Fifty rows whose highest likelihood is the one-sided law, with tau on its bound."""
    rng = np.random.default_rng(17)
    x = rng.normal(size=50)
    y = 1.0 + 2.0 * x + quantile_huber.rvs(0.25, 1.0, size=50, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return QuantileHuberMLE(y, sm.add_constant(x)).fit()


def large_fit() -> Any:
    rng = np.random.default_rng(2)
    x = rng.normal(size=30_000)
    return QuantileHuberMLE(x + rng.gumbel(size=x.size), sm.add_constant(x)).fit()


def paper_figure(ax: Any = None) -> Any:
    """The paper's picture: the losses of skewed residuals over tau."""
    rng = np.random.default_rng(0)
    u = rng.exponential(1 / 0.3, 1000) - rng.exponential(1 / 0.7, 1000)
    return plot_tau_loss(tau_loss_figure(u, 1.0), ax=ax)


def crime_model(**options: Any) -> Any:
    """Fifty states, four regressors."""
    crime = sm.datasets.statecrime.load_pandas().data
    formula = "murder ~ urban + poverty + hs_grad + single"
    return QuantileHuberMLE.from_formula(formula, crime, **options)


def terms_frame() -> pd.DataFrame:
    """A smooth effect, a factor, and noise whose scale grows."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"x": rng.uniform(0.0, 10.0, n), "z": rng.normal(size=n)})
    frame["group"] = rng.choice(["first", "second", "third"], n, p=[0.5, 0.3, 0.2])
    effect = frame["group"].map({"first": 0.0, "second": 1.0, "third": -1.0})
    frame["y"] = np.sin(frame["x"]) + 0.5 * frame["z"] + effect + 0.5 * rng.gumbel(size=n)
    frame["w"] = 0.3 * frame["x"] + rng.gumbel(size=n) * np.exp(0.2 * frame["x"] - 1.0)
    return frame


def penalised_model() -> Any:
    """Fifteen regressors, of which three count."""
    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.normal(size=(200, 15)))
    y = 2.0 * X[:, 1] - X[:, 2] + 0.5 * X[:, 3] + rng.gumbel(size=200)
    return QuantileHuberMLE(y, X)


def crime_comparison() -> Any:
    crime = sm.datasets.statecrime.load_pandas().data
    return compare_models("murder ~ urban + poverty + hs_grad + single", crime)


def engel_process(reference: Any = "ols", **options: Any) -> Any:
    engel = sm.datasets.engel.load_pandas().data
    model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, **options)
    reference = model.fit() if reference == "joint" else reference
    return model.fit_process(np.linspace(0.05, 0.95, 37)).plot(reference=reference)


def figures() -> dict[str, Callable[[], Any]]:
    """Return what draws each picture."""
    engel, small, crime = engel_fit(), small_fit(), crime_model().fit()
    frame = terms_frame()
    terms = QuantileHuberMLE.from_formula("y ~ bs(x, df=5) + z + group", frame).fit()
    law = QuantileHuberDistributional.from_formula("w ~ x + group", frame, scale="~ x").fit()
    ols = sm.OLS.from_formula(crime.model.formula, crime.model.data.frame).fit()
    return {
        "profile_tau": lambda: engel.plot_profile("tau"),
        "profile_tau_details": lambda: engel.plot_profile("tau", details=True),
        "profile_tau_whole": lambda: engel.plot_profile("tau", whole=True),
        "profile_sigma": lambda: engel.plot_profile("sigma"),
        "profile_kappa": lambda: engel.plot_profile("kappa"),
        "profile_income": lambda: engel.plot_profile("income"),
        "profile_tau_small": lambda: small.plot_profile("tau"),
        "profile_sigma_small": lambda: small.plot_profile("sigma"),
        "profile_two_maxima": lambda: two_maxima_fit().plot_profile("tau"),
        "profile_bound": lambda: bound_fit().plot_profile("tau"),
        "profile_kappa_estimated": lambda: engel_fit(kappa=None).plot_profile("tau"),
        "profile_constrained": lambda: engel.model.fit_constrained("income = 0.6").plot_profile(
            "tau"
        ),
        "surface_tau_kappa": lambda: engel.profile_surface(("tau", "kappa")).plot(),
        "surface_tau_sigma": lambda: engel.profile_surface(("tau", "sigma")).plot(),
        "tau_loss": lambda: engel.plot_tau_loss(),
        "tau_loss_paper": paper_figure,
        "density": lambda: engel.plot_density(),
        "qq": lambda: engel.plot_qq(),
        "worm": lambda: engel.plot_worm(),
        "pit": lambda: engel.plot_pit(),
        "residuals": lambda: engel.plot_residuals(),
        "scale_location": lambda: engel.plot_scale_location(),
        "fit": lambda: engel.plot_fit(),
        "fit_several": lambda: crime.plot_fit("single"),
        "fit_spline": lambda: terms.plot_fit("x"),
        "fit_factor": lambda: terms.plot_fit("group"),
        "fit_distributional": lambda: law.plot_fit("x"),
        "parameters": lambda: law.plot_parameters("x"),
        "coefficients": lambda: crime.plot_coefficients(),
        "coefficients_beside": lambda: crime.plot_coefficients(beside={"least squares": ols}),
        "comparison": lambda: crime_comparison().plot(),
        "comparison_coefficients": lambda: crime_comparison().plot_coefficients(),
        "penalty_path": lambda: penalised_model().fit_regularized_path().plot(),
        "cross_validation": lambda: penalised_model().cross_validate_penalty().plot(),
        "bootstrap": lambda: engel.bootstrap(n_boot=199).plot(),
        "influence": lambda: crime.get_influence().plot_influence(),
        "partial_residuals_spline": lambda: terms.plot_partial_residuals("bs(x, df=5)"),
        "partial_residuals_factor": lambda: terms.plot_partial_residuals("group"),
        "process": lambda: engel_process(kappa=0.0),
        "process_joint": lambda: engel_process("joint"),
        "process_many": lambda: crime_model().fit_process(np.linspace(0.1, 0.9, 9)).plot(),
        "partial_residuals": lambda: engel.plot_partial_residuals("income"),
        "partial_residuals_small": lambda: (
            crime_model(tau=0.5).fit().plot_partial_residuals("single")
        ),
        "partial_residuals_large": lambda: large_fit().plot_partial_residuals("x1"),
        "diagnostics": lambda: engel.plot_diagnostics(),
        "diagnostics_small": lambda: small.plot_diagnostics(),
        "diagnostics_large": lambda: large_fit().plot_diagnostics(),
        "diagnostics_laplace": lambda: engel_fit(kappa=0.0).plot_diagnostics(),
    }


def main(folder: Path = FOLDER) -> list[Path]:
    """Write one PNG for each figure, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in figures().items():
        draw()
        path = folder / f"{name}.png"
        plt.gcf().savefig(path, dpi=90)
        plt.close("all")
        written.append(path)
    return written


if __name__ == "__main__":
    for path in main(*map(Path, sys.argv[1:])):
        print(path)
