"""Plots of coefficients, penalties, replicates, comparisons and influence; statsmodels' own plots."""

import subprocess
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import statsmodels.api as sm
from matplotlib.colors import to_rgb
from scipy import stats

from qhreg import QuantileHuberMLE, compare_models
from qhreg.diagnostics.residuals import StandardizedResiduals, scale_location_figure
from qhreg.exceptions import DomainError
from qhreg.plotting import axes

FORMULA = "murder ~ urban + poverty + hs_grad + single"


@pytest.fixture(scope="module")
def crime():
    return sm.datasets.statecrime.load_pandas().data


@pytest.fixture(scope="module")
def fit(crime):
    return QuantileHuberMLE.from_formula(FORMULA, crime).fit()


@pytest.fixture(scope="module")
def penalised():
    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.normal(size=(80, 10)))
    return QuantileHuberMLE(X[:, 1] - X[:, 2] + rng.gumbel(size=80), X)


def line(ax, i):
    return ax.get_lines()[i].get_data()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lightness(colour):
    """CIE L* of a colour."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return 116.0 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16.0


def test_the_colours_are_told_apart_in_grey():
    palette = (axes.DARK, axes.BLUE, axes.RED, axes.ORANGE, axes.SKY)
    assert np.diff([lightness(colour) for colour in palette]).min() > 8.0
    styles = [axes.line_style(place) for place in range(16)]
    assert len({(style["color"], style["ls"]) for style in styles}) == 16


def test_coefficients_are_drawn_with_their_intervals_beside_another_fit(fit, crime):
    ols = sm.OLS.from_formula(FORMULA, crime).fit()
    ax = fit.plot_coefficients(beside={"least squares": ols}, alpha=0.1)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["urban", "poverty", "hs_grad", "single"]
    assert labels(ax) == ["quantile Huber", "least squares"]
    for container, results in zip(ax.containers, (fit, ols), strict=True):
        np.testing.assert_allclose(container[0].get_xdata(), results.params[names])
        bars = np.array([[end[0] for end in bar] for bar in container[2][0].get_segments()])
        np.testing.assert_allclose(bars, results.conf_int(0.1).loc[names])
    chosen = fit.plot_coefficients(names=["tau", "single"])
    assert [label.get_text() for label in chosen.get_yticklabels()] == [r"$\tau$", "single"]
    assert chosen.get_legend() is None
    with pytest.raises(DomainError, match="no parameter is called q"):
        fit.plot_coefficients(names=["q"])


def test_the_path_of_a_penalty_names_the_coefficients_that_become_largest(penalised):
    path = penalised.fit_regularized_path(alphas=[1.0, 0.1, 0.01])
    ax = path.plot(chosen=0.1)
    table = path.params[[f"x{j}" for j in range(1, 11)]]
    order = (-table.abs().max()).sort_values(kind="stable").index
    assert labels(ax)[:9] == [*order[:8], "2 more"]
    for place, name in enumerate(order[:8]):
        np.testing.assert_allclose(line(ax, place), (path.alphas, table[name]))
    assert ax.get_xscale() == "log"
    assert labels(ax)[-1] == "alpha = 0.1"
    assert labels(path.plot(names=["x3"])) == ["x3"]


def test_cross_validation_is_drawn_with_both_choices(penalised):
    validation = penalised.cross_validate_penalty(alphas=[1.0, 0.3, 0.1, 0.03])
    ax = validation.plot()
    np.testing.assert_array_equal(line(ax, 0), (validation.alphas, validation.mean))
    assert line(ax, 1)[0] == [validation.best_alpha] * 2
    assert line(ax, 2)[0] == [validation.one_se_alpha] * 2
    band = ax.collections[0].get_paths()[0].vertices
    highest = (validation.mean + validation.standard_error).max()
    assert band[:, 1].max() == pytest.approx(highest)


def test_replicates_are_drawn_with_estimate_and_interval(fit):
    replicates = fit.bootstrap(n_boot=39)
    figure = replicates.plot(["single", "tau"], alpha=0.2, method="basic")
    assert len(figure.axes) == 2
    limits = replicates.conf_int(0.2, "basic")
    for ax, name in zip(figure.axes, ("single", "tau"), strict=True):
        drawn = [one.get_xdata()[0] for one in ax.get_lines()]
        np.testing.assert_allclose(drawn, [fit.params[name], *limits.loc[name]])
        assert sum(patch.get_height() for patch in ax.patches) == len(replicates.params)
    assert len(replicates.plot().axes) == len(fit.params)
    with pytest.raises(DomainError, match="no parameter 'q'"):
        replicates.plot(["q"])


def test_a_comparison_is_drawn_by_aic_and_by_coefficients(crime):
    comparison = compare_models(FORMULA, crime)
    ax = comparison.plot()
    np.testing.assert_array_equal(line(ax, 0)[0], comparison.table["delta_aic"])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(comparison.table.index)
    ax = comparison.plot_coefficients(names=["single"])
    assert labels(ax) == list(comparison.fits)
    drawn = [container[0].get_xdata()[0] for container in ax.containers]
    np.testing.assert_allclose(drawn, [one.params["single"] for one in comparison.fits.values()])


# --- scale and location ----------------------------------------------------------------------------


def test_the_scale_location_plot_is_level_under_the_model_and_rises_with_the_spread(fit):
    rng = np.random.default_rng(0)
    fitted = np.linspace(0.0, 1.0, 4000)
    u = stats.laplace_asymmetric.rvs(1.0, size=4000, random_state=rng)
    level = scale_location_figure(fitted, StandardizedResiduals(2.0 * u, 0.5, 0.0))
    expected = stats.norm.expect(lambda z: np.sqrt(abs(z)))
    assert level.expected == pytest.approx(expected, abs=1e-7)
    assert (np.abs(level.means - expected) < 1.3 * level.half).all()
    variance = stats.norm.expect(abs) - expected**2
    np.testing.assert_allclose(level.half, 1.959964 * np.sqrt(variance / 500), rtol=1e-5)
    spread = StandardizedResiduals(2.0 * u * np.exp(fitted), 0.5, 0.0)
    rising = scale_location_figure(fitted, spread)
    assert rising.means[-1] > rising.means[0] + 3.0 * rising.half[0]
    ax = fit.plot_scale_location()
    np.testing.assert_allclose(
        line(ax, 0), (fit.fittedvalues, np.sqrt(np.abs(fit.resid_quantile))), rtol=1e-10
    )


def test_counts_are_repeated_rows_in_the_scale_location_plot():
    rng = np.random.default_rng(0)
    fitted, u, counts = rng.normal(size=100), rng.normal(size=100), rng.integers(0, 4, 100)
    short = scale_location_figure(fitted, StandardizedResiduals(u, 0.4, 1.0, weights=counts))
    repeated = StandardizedResiduals(np.repeat(u, counts), 0.4, 1.0)
    long = scale_location_figure(np.repeat(fitted, counts), repeated)
    total = [(1.0 / figure.half**2).sum() for figure in (short, long)]
    assert total[0] == pytest.approx(total[1])


# --- influence, and the plots of statsmodels -------------------------------------------------------


def test_every_row_has_leverage_in_the_influence_plot(fit, crime):
    influence = fit.get_influence()
    ax = influence.plot_influence().axes[0]
    leverage, resid = ax.collections[0].get_offsets().data.T
    ols = sm.OLS.from_formula(FORMULA, crime).fit().get_influence()
    np.testing.assert_allclose(leverage, ols.hat_matrix_diag)
    np.testing.assert_allclose(resid, influence.resid_studentized)
    assert (influence.hat_matrix_diag == 0.0).any()
    assert (leverage > 0.0).all()
    sizes = ax.collections[0].get_sizes()
    assert np.argmax(sizes) == np.argmax(influence.cooks_distance[0])
    texts = [text.get_text() for text in ax.texts]
    assert "District of Columbia" in texts


def test_weights_count_in_the_leverage_of_the_regressors(crime):
    weights = 1.0 + np.arange(len(crime)) % 3
    fit = QuantileHuberMLE.from_formula(FORMULA, crime, freq_weights=weights).fit()
    design = fit.model.exog * np.sqrt(weights)[:, None]
    hat = design @ np.linalg.solve(design.T @ design, design.T)
    np.testing.assert_allclose(fit.get_influence().hat_matrix_exog_diag, hat.diagonal())


def test_the_plots_of_statsmodels_work_or_name_ours(fit):
    graphics = sm.graphics
    for draw in (
        lambda: graphics.influence_plot(fit, external=False),
        lambda: graphics.plot_partregress_grid(fit),
        lambda: graphics.plot_ccpr(fit, "single"),
        lambda: graphics.plot_ccpr_grid(fit),
        lambda: graphics.plot_leverage_resid2(fit),
        lambda: graphics.abline_plot(intercept=fit.params["Intercept"], slope=fit.params["single"]),
    ):
        assert draw().axes[0].has_data()
    for draw in (graphics.plot_fit, graphics.plot_regress_exog):
        with pytest.raises(AttributeError, match="plot_fit and plot_partial_residuals"):
            draw(fit, "single")
    with pytest.raises(AttributeError, match=r"get_influence\(\)\.plot_influence\(\)"):
        graphics.influence_plot(fit)


def test_plots_draw_where_they_are_told_and_leave_no_figure_behind(fit):
    before = plt.get_fignums()
    for draw in (
        lambda ax: fit.plot_fit("single", ax=ax),
        lambda ax: fit.plot_partial_residuals("single", ax=ax),
        lambda ax: fit.plot_coefficients(ax=ax),
        lambda ax: fit.plot_scale_location(ax=ax),
        lambda ax: fit.plot_profile("tau", ax=ax),
    ):
        ax = matplotlib.figure.Figure().subplots()
        assert draw(ax) is ax
        ax.figure.canvas.draw()
    assert plt.get_fignums() == before


def test_without_matplotlib_a_plot_says_how_to_install_it():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np; from qhreg import QuantileHuberMLE\n"
        "y = np.random.default_rng(0).gumbel(size=30)\n"
        "QuantileHuberMLE(y, np.ones(30)).fit().plot_qq()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "plots need matplotlib: pip install 'qhreg[plot]'" in done.stderr
