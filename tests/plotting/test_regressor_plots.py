"""Plots along a regressor: one variable varies, the others are typical, and numbers are the fit's."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from solver_data import regression

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.diagnostics.regressors import partial_residual_figure
from qhreg.diagnostics.residuals import LEVELS
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 200
    data = pd.DataFrame({"x": rng.uniform(0.0, 6.0, n), "z": rng.normal(size=n)})
    data["group"] = rng.choice(["low", "mid", "high"], n, p=[0.2, 0.5, 0.3])
    data["code"] = rng.choice([1, 2, 7], n, p=[0.3, 0.3, 0.4])
    effect = data["group"].map({"low": 0.0, "mid": 1.0, "high": -1.0})
    data["y"] = np.sin(data["x"]) + data["z"] + effect + rng.gumbel(size=n)
    return data


def line(ax, i):
    return ax.get_lines()[i].get_data()


def band_ends(ax):
    """Lowest and highest value of each band at the left end of the grid."""
    ends = []
    for band in ax.collections:
        vertices = band.get_paths()[0].vertices
        first = vertices[vertices[:, 0] == vertices[:, 0].min(), 1]
        ends.append((first.min(), first.max()))
    return ends


def test_with_one_regressor_the_rows_are_the_data_and_the_bands_the_fitted_quantiles():
    X, y = regression(300, 2, 0)
    fit = QuantileHuberMLE(y, X).fit()
    ax = fit.plot_fit()
    np.testing.assert_allclose(line(ax, 0), (X[:, 1], y))
    grid, location = line(ax, 1)
    np.testing.assert_allclose(grid[[0, -1]], [X[:, 1].min(), X[:, 1].max()])
    np.testing.assert_allclose(location, fit.params[0] + fit.params[1] * grid)
    law = quantile_huber(fit.tau, fit.kappa, loc=location[0], scale=fit.sigma)
    q = law.ppf(LEVELS)
    np.testing.assert_allclose(line(ax, 2)[1][0], q[2])
    np.testing.assert_allclose(band_ends(ax), [(q[0], q[4]), (q[1], q[3])])
    assert ax.get_title() == ""
    np.testing.assert_allclose(line(fit.plot_fit(levels=[0.1, 0.3]), 1), (grid, location))


def test_other_regressors_are_at_means_and_most_frequent_levels(frame, engine):
    fit = QuantileHuberMLE.from_formula("y ~ x + z + group + C(code)", frame).fit()
    ax = fit.plot_fit("x")
    assert ax.get_title() == f"at z = {frame['z'].mean():.3g}, group = mid, code = 7"
    b = fit.params
    base = b["Intercept"] + b["z"] * frame["z"].mean() + b["group[T.mid]"] + b["C(code)[T.7]"]
    grid, location = line(ax, 1)
    np.testing.assert_allclose(location, base + b["x"] * grid)
    x, y = line(ax, 0)
    np.testing.assert_array_equal(x, frame["x"])
    np.testing.assert_allclose(y, base + b["x"] * frame["x"] + fit.resid)


def test_a_spline_is_drawn_along_its_variable(frame, engine):
    fit = QuantileHuberMLE.from_formula("y ~ bs(x, df=5) + z + group", frame).fit()
    grid, location = line(fit.plot_fit("x"), 1)
    rows = pd.DataFrame({"x": grid, "z": frame["z"].mean(), "group": "mid"})
    np.testing.assert_allclose(location, fit.predict(rows))
    ax = fit.plot_partial_residuals("bs(x,df=5)")  # spaces do not matter
    assert (ax.get_xlabel(), ax.get_title()) == ("x", "bs(x, df=5)")
    columns = [name for name in fit.params.index if name.startswith("bs(")]
    component = fit.model.exog[:, [fit.model.exog_names.index(c) for c in columns]]
    component = component @ fit.params[columns].to_numpy()
    np.testing.assert_allclose(line(ax, 0), (frame["x"], component + fit.resid))
    at, value = line(ax, 1)
    np.testing.assert_allclose(np.diff(value), np.diff(location), atol=1e-10)
    np.testing.assert_array_equal(at, grid)
    np.testing.assert_allclose(line(fit.plot_partial_residuals("x"), 1), (at, value))


def test_a_factor_has_a_bar_and_a_column_of_rows_for_each_level(frame, engine):
    fit = QuantileHuberMLE.from_formula("y ~ x + group + C(code)", frame).fit()
    for name, levels in (("group", ["high", "low", "mid"]), ("code", ["1", "2", "7"])):
        ax = fit.plot_fit(name)
        assert [label.get_text() for label in ax.get_xticklabels()] == levels
        rows = {"x": frame["x"].mean(), "group": "mid", "code": 7}
        values = [int(level) if level.isdigit() else level for level in levels]
        grid = pd.DataFrame([{**rows, name: value} for value in values])
        outer = ax.containers[0]
        wanted = fit.predict(grid, which="quantile", q=[0.05, 0.95]).to_numpy()
        drawn = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in outer]
        np.testing.assert_allclose(drawn, wanted)
        codes = np.array([levels.index(str(value)) for value in frame[name]])
        assert np.abs(line(ax, 0)[0] - codes).max() < 0.35


def test_partial_residuals_of_a_factor_are_those_of_its_levels(frame, engine):
    fit = QuantileHuberMLE.from_formula("y ~ x + group", frame).fit()
    ax = fit.plot_partial_residuals("group")
    effect = {"high": 0.0, "low": fit.params["group[T.low]"], "mid": fit.params["group[T.mid]"]}
    partial = frame["group"].map(effect) + fit.resid
    np.testing.assert_allclose(line(ax, 0)[1], partial)
    places, observed = line(ax, 2)
    np.testing.assert_array_equal(places, [0, 1, 2])
    share = (fit.resid < 0).mean()
    wanted = [partial[frame["group"] == level].quantile(share) for level in effect]
    np.testing.assert_allclose(observed, wanted)


def test_all_terms_of_a_variable_make_its_component(frame):
    fit = QuantileHuberMLE.from_formula("y ~ I(x ** 2) + np.exp(x) + z", frame).fit()
    b, x = fit.params, frame["x"]
    component = b["I(x ** 2)"] * x**2 + b["np.exp(x)"] * np.exp(x)
    np.testing.assert_allclose(line(fit.plot_partial_residuals("x"), 0)[1], component + fit.resid)
    single = fit.plot_partial_residuals("np.exp(x)")
    np.testing.assert_allclose(line(single, 0)[0], np.exp(x))


def test_an_interaction_is_referred_to_the_plot_of_the_fit(frame):
    fit = QuantileHuberMLE.from_formula("y ~ x * group", frame).fit()
    with pytest.raises(DomainError, match="several variables, x and group: plot_fit"):
        fit.plot_partial_residuals("x:group")
    assert fit.plot_fit("x").get_title() == "at group = mid"


def test_the_order_of_the_rows_and_rows_that_were_dropped_do_not_matter(frame):
    gaps = frame.copy()
    gaps.loc[::7, "z"] = np.nan
    formula = "y ~ x + I(x ** 2) + z + group"
    fits = [
        QuantileHuberMLE.from_formula(formula, data, missing="drop").fit()
        for data in (gaps, gaps.dropna().sample(frac=1.0, random_state=0))
    ]
    one, two = (fit.plot_fit("x") for fit in fits)
    assert one.get_title() == two.get_title()
    assert len(line(one, 0)[0]) == gaps["z"].notna().sum()
    np.testing.assert_allclose(line(one, 1), line(two, 1), atol=1e-5)


def test_an_offset_is_taken_from_the_response(frame):
    data = frame.assign(known=3.0 * frame["z"])
    fit = QuantileHuberMLE.from_formula("y ~ x", data, offset="known").fit()
    ax = fit.plot_fit()
    assert ax.get_ylabel() == "y minus offset"
    np.testing.assert_allclose(line(ax, 0)[1], data["y"] - data["known"])


def test_a_variable_that_is_none_or_constant_is_refused(frame):
    data = frame.assign(same=1.5, quoted=frame["z"]).rename(columns={"quoted": "z.2"})
    fit = QuantileHuberMLE.from_formula("y ~ x + Q('z.2') + same - 1", data).fit()
    assert fit.plot_fit("z.2").get_title().startswith("at x = ")
    assert fit.plot_partial_residuals("z.2").get_xlabel() == "z.2"
    with pytest.raises(DomainError, match="no regressor varies"):
        QuantileHuberMLE.from_formula("y ~ 1", frame).fit().plot_fit()
    with pytest.raises(DomainError, match="same is constant"):
        fit.plot_fit("same")
    with pytest.raises(DomainError, match="'tau' is no regressor: choose one of x"):
        fit.plot_fit("tau")
    with pytest.raises(DomainError, match="there is no column 9"):
        fit.plot_fit(9)


def test_a_regressor_outside_the_data_is_asked_into_them(frame, engine):
    other = np.random.default_rng(0).normal(size=len(frame))
    fit = QuantileHuberMLE.from_formula("y ~ x + other", frame).fit()
    with pytest.raises(DomainError, match="put other into the data"):
        fit.plot_fit("x")
    np.testing.assert_array_equal(line(fit.plot_fit("other"), 0)[0], other)


def test_a_distributional_fit_has_bands_that_follow_its_scale_and_asymmetry(frame):
    model = QuantileHuberDistributional.from_formula(
        "y ~ x + group", frame, scale="~ x", tau="~ group"
    )
    fit = model.fit()
    ax = fit.plot_fit("x")
    assert ax.get_title() == "at group = mid"
    grid = line(ax, 1)[0]
    rows = pd.DataFrame({"x": grid, "group": "mid"})
    wanted = fit.predict(rows, which="quantile", q=[0.05, 0.95]).to_numpy()
    np.testing.assert_allclose(band_ends(ax)[0], wanted[0])
    figure = fit.plot_parameters("x", alpha=0.1)
    for axis, which in zip(figure.axes, ("location", "sigma", "tau"), strict=True):
        predicted = fit.get_prediction(rows, which=which)
        np.testing.assert_allclose(line(axis, 0), (grid, predicted.predicted))
        np.testing.assert_allclose(band_ends(axis)[0], predicted.conf_int(0.1)[0])
    assert len(fit.plot_parameters("group").axes[0].containers[0]) == 3


def test_designs_of_scale_and_tau_vary_with_the_same_column():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(150), rng.normal(size=(150, 2))])
    y = X[:, 1] + np.exp(0.3 * X[:, 1]) * rng.gumbel(size=150)
    fit = QuantileHuberDistributional(y, X, exog_scale=X[:, :2]).fit()
    grid, sigma = line(fit.plot_parameters("x1").axes[1], 0)
    scale = np.column_stack([np.ones(grid.size), grid])
    exog = np.column_stack([scale, np.full(grid.size, X[:, 2].mean())])
    np.testing.assert_allclose(sigma, fit.predict(exog, exog_scale=scale, which="sigma"))


def test_a_penalised_fit_is_drawn_too(frame):
    fit = QuantileHuberMLE.from_formula("y ~ x + z + group", frame).fit_regularized(alpha=0.05)
    grid, location = line(fit.plot_fit("z"), 1)
    rows = pd.DataFrame({"x": frame["x"].mean(), "z": grid, "group": "mid"})
    np.testing.assert_allclose(location, fit.predict(rows))


def test_a_wide_group_of_rows_lies_on_the_component_that_is_right():
    x = np.linspace(0.0, 1.0, 30) ** 4
    resid = np.where(np.arange(30) % 2, 1.0, -1.0)
    figure = partial_residual_figure(x, resid, 50.0 * x)
    assert figure.level == 0.5
    np.testing.assert_allclose(figure.empirical, 50.0 * x.mean())
