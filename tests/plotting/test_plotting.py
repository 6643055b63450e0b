"""Every plot draws the numbers it was given; nothing else is asked of it."""

import dataclasses

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from model_data import model_data
from scipy import integrate, stats
from solver_data import regression

import qhreg.plotting as plotting
from qhreg import QuantileHuberMLE
from qhreg.certificate.global_optimum import certify_global
from qhreg.diagnostics import residuals as diagnostics
from qhreg.diagnostics.goodness import simulate_fits
from qhreg.diagnostics.regressors import partial_residual_figure
from qhreg.diagnostics.residuals import StandardizedResiduals
from qhreg.exceptions import BoundaryWarning, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.profile import profile_likelihood
from qhreg.profile.surface import profile_surface
from qhreg.solver import solve

TAU, KAPPA = 0.3, 1.0


@pytest.fixture(scope="module")
def residuals():
    return quantile_huber.rvs(TAU, KAPPA, size=500, random_state=np.random.default_rng(0))


@pytest.fixture(scope="module")
def profile():
    X, y = regression(600, 2, 0)
    fit = solve(X, y)
    certificate = certify_global(X, y, fit)
    return profile_likelihood(model_data(X, y), fit, "tau", se=0.02, certificate=certificate)


def line(ax, i):
    return ax.get_lines()[i].get_data()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def steps(ax):
    """The heights and edges of the histogram."""
    data = ax.patches[0].get_data() if hasattr(ax.patches[0], "get_data") else None
    return data.values, data.edges


# --- profile ---------------------------------------------------------------------------------------


def test_the_profile_plot_draws_the_curve_and_writes_its_interval_without_a_legend(profile):
    figure = profile.figure()
    ax = plotting.plot_profile(figure)
    assert isinstance(ax, Axes)
    np.testing.assert_array_equal(line(ax, 0), (figure.x, -0.5 * figure.lr))
    assert ax.get_legend() is None
    low, high = profile.conf_int()
    assert f"95 %\n{low:.3g} to {high:.3g}" in [text.get_text() for text in ax.texts]
    assert ax.get_xlabel() == r"$\tau$"


def test_the_middle_of_tau_is_marked_where_it_is_in_the_picture(profile):
    figure = profile.figure(whole=True)
    assert "symmetric" in [text.get_text() for text in plotting.plot_profile(figure).texts]
    elsewhere = dataclasses.replace(figure, x=0.4 * figure.x)
    assert "symmetric" not in [text.get_text() for text in plotting.plot_profile(elsewhere).texts]


def test_the_details_of_a_profile_are_parabola_cuts_fits_estimate_and_proof(profile):
    figure = profile.figure()
    ax = plotting.plot_profile(figure, details=True)
    drawn = {one.get_label(): one.get_data() for one in ax.get_lines()}
    np.testing.assert_array_equal(drawn["profile"], (figure.x, -0.5 * figure.lr))
    np.testing.assert_array_equal(drawn["Wald parabola"], (figure.x, -0.5 * figure.wald))
    np.testing.assert_array_equal(drawn["fits"], (figure.points_x, -0.5 * figure.points_lr))
    np.testing.assert_array_equal(
        drawn[f"estimate {profile.estimate:.4g}"], ([profile.estimate], [0.0])
    )
    for alpha, value in figure.cuts:
        label = f"{100 * (1 - alpha):g} % cut: {value:.3g} / 2"
        np.testing.assert_array_equal(drawn[label][1], [-0.5 * value] * 2)
    assert "excluded by proof" in labels(ax)


def test_the_cuts_say_how_they_come_about(profile):
    cut = 598 * np.log1p(stats.f.isf(0.01, 1, 598) / 598)
    assert f"99 % cut: {cut:.3g} / 2" in labels(profile.plot(details=True))
    plain = dataclasses.replace(profile, cut="chi2")
    assert "95 % cut: 3.84 / 2" in labels(plain.plot(details=True))
    given = dataclasses.replace(profile, cut=5.0)
    assert "cut 5 / 2 (given)" in labels(given.plot(details=True))


def ends_of_shade(region):
    x = region.get_paths()[0].vertices[:, 0]
    return x.min(), x.max()


def test_the_shaded_interval_has_the_limits_of_the_profile(profile):
    ax = profile.plot()
    np.testing.assert_allclose(ends_of_shade(ax.collections[0]), profile.conf_int())


def test_the_hatched_region_ends_at_the_certified_bound(profile):
    figure = profile.figure()
    ax = plotting.plot_profile(figure, details=True)
    region = next(c for c in ax.collections if c.get_label() == "excluded by proof")
    vertices = region.get_paths()[0].vertices
    bottom = ax.get_ylim()[0]
    for x, bound in zip(figure.x[::40], figure.certified[::40], strict=True):
        heights = vertices[np.isclose(vertices[:, 0], x), 1]
        assert heights.min() == pytest.approx(np.clip(-0.5 * bound, bottom, 0.0))
        assert heights.max() <= 0.0


def test_an_open_interval_is_labelled_as_such():
    X = np.ones((300, 1))
    y = quantile_huber.ppf((np.arange(300) + 0.5) / 300, 0.4, 0.3)
    profile = profile_likelihood(model_data(X, y), solve(X, y), "kappa", grid=[0.5, 3.0])
    written = " ".join(text.get_text() for text in profile.plot().texts)
    assert "95 %\nup to " in written
    assert "fixed at 4" in written


def test_the_surface_plot_draws_its_contours():
    X, y = regression(600, 2, 0)
    surface = profile_surface(model_data(X, y), solve(X, y), ("tau", "sigma"), points=7)
    ax = surface.plot()
    figure = surface.figure()
    # the drawn surface passes through the fits
    np.testing.assert_allclose(figure.lr[::5, ::5], surface.lr, atol=1e-8)
    contour = ax.collections[1]
    assert sorted(contour.levels) == sorted(value for _, value in figure.cuts)
    np.testing.assert_array_equal(np.ravel(line(ax, 0)), surface.estimate)
    assert ax.get_xlim() == (surface.first[0], surface.first[-1])
    for path, level in zip(contour.get_paths(), contour.levels, strict=True):
        inside = path.vertices[1:-1]
        assert inside.size
        assert surface.lr.min() < level < surface.lr.max()


# --- loss over tau ---------------------------------------------------------------------------------


def test_the_loss_over_tau_is_concave_the_normaliser_convex_and_the_sum_is_drawn(residuals):
    figure = diagnostics.tau_loss_figure(residuals, KAPPA)
    assert (np.diff(figure.loss, 2) < 0).all()
    assert (np.diff(figure.log_c, 2) > 0).all()
    for i in (0, 90, 180):
        mean = np.mean(quantile_huber_loss(residuals, figure.taus[i], KAPPA))
        assert figure.loss[i] == pytest.approx(mean)
        assert figure.log_c[i] == pytest.approx(log_normalizer(figure.taus[i], KAPPA))
    ax = plotting.plot_tau_loss(figure)
    for i, wanted in enumerate([figure.loss, figure.log_c, figure.total]):
        np.testing.assert_array_equal(line(ax, i), (figure.taus, wanted))
    np.testing.assert_array_equal(np.ravel(line(ax, 3)), figure.best)


def test_the_best_tau_is_the_lowest_point_of_the_sum(residuals):
    weights = np.arange(residuals.size) % 3 + 1.0
    figure = diagnostics.tau_loss_figure(residuals, KAPPA, weights=weights)
    assert figure.best[1] <= figure.total.min()
    assert figure.best[0] == pytest.approx(figure.taus[np.argmin(figure.total)], abs=0.005)
    repeated = np.repeat(residuals, weights.astype(int))
    plain = diagnostics.tau_loss_figure(repeated, KAPPA)
    np.testing.assert_allclose(figure.total, plain.total)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_best_tau_near_its_bound_is_in_the_picture(sign):
    figure = diagnostics.tau_loss_figure(sign * np.linspace(0.0, 90.0, 50), KAPPA)
    assert not 0.05 < figure.best[0] < 0.95
    assert figure.taus.min() <= figure.best[0] <= figure.taus.max()
    low, high = plotting.plot_tau_loss(figure).get_xlim()
    assert low <= figure.best[0] <= high
    given = diagnostics.tau_loss_figure(np.linspace(0.0, 90.0, 50), KAPPA, taus=[0.2, 0.4])
    np.testing.assert_array_equal(given.taus, [0.2, 0.4])


# --- diagnostics -----------------------------------------------------------------------------------


def test_the_histogram_has_area_one_and_the_density_is_the_fitted_one(residuals):
    figure = diagnostics.density_figure(StandardizedResiduals(residuals, TAU, KAPPA))
    inside = (residuals >= figure.edges[0]) & (residuals <= figure.edges[-1])
    assert np.sum(figure.heights * np.diff(figure.edges)) == pytest.approx(inside.mean())
    np.testing.assert_allclose(figure.density, quantile_huber.pdf(figure.x, TAU, KAPPA))
    ax = plotting.plot_density(figure)
    np.testing.assert_array_equal(line(ax, 0), (figure.x, figure.density))
    values, edges = steps(ax)
    np.testing.assert_array_equal(values, figure.heights)
    np.testing.assert_array_equal(edges, figure.edges)
    assert integrate.trapezoid(figure.density, figure.x) == pytest.approx(1.0, abs=0.01)


def test_far_outliers_do_not_flatten_the_histogram(residuals):
    spoiled = np.append(residuals, 1e6)
    figure = diagnostics.density_figure(StandardizedResiduals(spoiled, TAU, KAPPA))
    assert (
        figure.beyond
        == 1 + diagnostics.density_figure(StandardizedResiduals(residuals, TAU, KAPPA)).beyond
    )
    assert f"({figure.beyond} beyond the view)" in labels(plotting.plot_density(figure))[0]
    assert figure.edges[-1] < 100
    assert np.count_nonzero(figure.heights) > 8


def test_the_quantile_plot_pairs_sorted_residuals_with_fitted_quantiles(residuals):
    figure = diagnostics.qq_figure(StandardizedResiduals(residuals, TAU, KAPPA))
    np.testing.assert_array_equal(figure.observed, np.sort(residuals))
    levels = (np.arange(500) + 0.5) / 500
    np.testing.assert_allclose(
        figure.theoretical, quantile_huber.ppf(levels, TAU, KAPPA), rtol=1e-9, atol=1e-12
    )
    ax = plotting.plot_qq(figure)
    np.testing.assert_array_equal(line(ax, 0), (figure.theoretical, figure.observed))
    assert len(ax.collections) == 0


def refitted(X, y, fit, count):
    samples = simulate_fits(model_data(X, y), fit, count)
    return [StandardizedResiduals(*sample.standardized(one)) for sample, one in samples]


def test_the_envelope_holds_the_share_of_the_simulated_fits():
    X, y = regression(200, 2, 0)
    fit = solve(X, y)
    fits = refitted(X, y, fit, 40)
    simulated = np.array([one.ordered[0] for one in fits])
    u = (y - X @ fit.beta) / fit.sigma
    sample = StandardizedResiduals(u, fit.tau, fit.kappa, simulated=fits)
    figure = diagnostics.qq_figure(sample, level=0.9)
    inside = (simulated >= figure.lower) & (simulated <= figure.upper)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)
    ax = plotting.plot_qq(figure)
    vertices = ax.collections[0].get_paths()[0].vertices
    assert vertices[:, 1].min() == pytest.approx(figure.lower.min())
    assert vertices[:, 1].max() == pytest.approx(figure.upper.max())
    assert "90 % of 40 simulated fits" in labels(ax)


def test_weighted_plotting_positions_are_those_of_repeated_values():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0])
    figure = diagnostics.qq_figure(StandardizedResiduals(values, TAU, KAPPA, weights=weights))
    assert figure.observed.tolist() == [1.0, 2.0, 3.0]
    levels = quantile_huber.cdf(figure.theoretical, TAU, KAPPA)
    np.testing.assert_allclose(levels, [0.5 / 6, 2.5 / 6, 5.0 / 6])


def test_the_worm_is_flat_for_exact_quantiles_and_its_limits_are_those_of_sample_quantiles():
    levels = (np.arange(400) + 0.5) / 400
    exact = quantile_huber.ppf(levels, TAU, KAPPA)
    figure = diagnostics.worm_figure(StandardizedResiduals(exact, TAU, KAPPA))
    np.testing.assert_allclose(figure.observed, 0.0, atol=1e-7)
    middle = np.argmin(np.abs(figure.theoretical))
    # the median of 400 normal draws has standard error sqrt(pi / 2 / 400)
    assert figure.upper[middle] == pytest.approx(1.96 * np.sqrt(np.pi / 800), rel=1e-3)
    ax = plotting.plot_worm(figure)
    np.testing.assert_array_equal(line(ax, 0), (figure.theoretical, figure.observed))
    np.testing.assert_array_equal(line(ax, 2), (figure.theoretical, figure.upper))
    np.testing.assert_array_equal(line(ax, 3), (figure.theoretical, figure.lower))
    np.testing.assert_array_equal(figure.lower, -figure.upper)


def test_normal_scores_stay_finite_in_both_tails():
    scores = StandardizedResiduals(np.array([-300.0, 0.0, 300.0]), TAU, KAPPA).scores
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 5).all()
    assert scores[1] == pytest.approx(stats.norm.ppf(quantile_huber.cdf(0.0, TAU, KAPPA)))


def test_the_pit_histogram_is_flat_for_exact_quantiles_and_has_binomial_limits():
    exact = quantile_huber.ppf((np.arange(1000) + 0.5) / 1000, TAU, KAPPA)
    figure = diagnostics.pit_figure(StandardizedResiduals(exact, TAU, KAPPA), bins=10)
    np.testing.assert_allclose(figure.heights, 1.0)
    np.testing.assert_allclose(
        [figure.lower, figure.upper], stats.binom.ppf([0.025, 0.975], 1000, 0.1) / 100
    )
    ax = plotting.plot_pit(figure)
    values, edges = steps(ax)
    np.testing.assert_array_equal(values, figure.heights)
    np.testing.assert_allclose(edges, np.linspace(0, 1, 11))


def test_the_residual_plot_shows_fitted_and_empirical_quantiles(residuals):
    fitted = np.linspace(0.0, 1.0, 500)
    figure = diagnostics.residual_figure(fitted, StandardizedResiduals(residuals, TAU, KAPPA), 2.0)
    np.testing.assert_allclose(
        figure.bands, 2.0 * quantile_huber.ppf(diagnostics.LEVELS, TAU, KAPPA), rtol=1e-9
    )
    assert figure.centres.size == 8
    np.testing.assert_allclose(
        figure.empirical[0], np.quantile(2.0 * residuals[:63], diagnostics.LEVELS)
    )
    ax = plotting.plot_residuals(figure)
    np.testing.assert_array_equal(line(ax, 0), (fitted, 2.0 * residuals))
    for i in range(5):
        np.testing.assert_array_equal(line(ax, 1 + 2 * i)[1], [figure.bands[i]] * 2)
        np.testing.assert_array_equal(line(ax, 2 + 2 * i), (figure.centres, figure.empirical[:, i]))


def test_far_outliers_do_not_flatten_the_residual_plot(residuals):
    spoiled = np.append(residuals, 1e6)
    fitted = np.linspace(0.0, 1.0, 501)
    figure = diagnostics.residual_figure(fitted, StandardizedResiduals(spoiled, TAU, KAPPA))
    low, high = figure.view
    outside = (spoiled < low) | (spoiled > high)
    assert outside[-1]
    assert outside.sum() <= 2
    assert high < 100
    assert high > figure.empirical.max()
    ax = plotting.plot_residuals(figure)
    assert f"{outside.sum()} beyond the view" in labels(ax)
    np.testing.assert_array_equal(ax.get_lines()[-1].get_ydata()[-1:], [high])
    plain = StandardizedResiduals(residuals, TAU, KAPPA)
    assert diagnostics.residual_figure(fitted[:500], plain).view is None


def test_rows_with_equal_values_are_in_one_group():
    rng = np.random.default_rng(0)
    levels = rng.choice([0.0, 0.1 + 0.2, 0.3, 5.0], p=[0.3, 0.2, 0.2, 0.3], size=400)
    resid = rng.normal(size=400)
    figure = diagnostics.residual_figure(
        levels, StandardizedResiduals(resid, 0.5, 1.0), levels=[0.5]
    )
    np.testing.assert_allclose(figure.centres, [0.0, 0.3, 5.0], rtol=1e-12)
    near = np.abs(levels - 0.3) < 1e-9
    medians = [np.median(resid[rows]) for rows in (levels == 0.0, near, levels == 5.0)]
    np.testing.assert_allclose(figure.empirical[:, 0], medians)
    partial = partial_residual_figure(levels, resid, 2.0 * levels)
    np.testing.assert_allclose(partial.centres, [0.0, 0.3, 5.0])


def test_quantiles_in_groups_count_the_weights():
    rng = np.random.default_rng(0)
    x, resid, times = rng.normal(size=400), rng.normal(size=400), rng.integers(0, 4, 400)
    resid[times > 1] += 1.0
    weighted, repeated = (
        diagnostics.residual_figure(np.zeros(sample.u.size), sample, levels=[0.3, 0.7])
        for sample in (
            StandardizedResiduals(resid, 0.5, 1.0, weights=times),
            StandardizedResiduals(np.repeat(resid, times), 0.5, 1.0),
        )
    )
    np.testing.assert_allclose(weighted.empirical, repeated.empirical, atol=0.02)
    weighted = partial_residual_figure(x, resid, 2.0 * x, weights=times)
    x, resid = np.repeat(x, times), np.repeat(resid, times)
    repeated = partial_residual_figure(x, resid, 2.0 * x)
    assert weighted.level == pytest.approx(repeated.level)


def test_fits_with_weights_pass_them_to_the_groups():
    X, y = regression(300, 2, 0)
    times = np.random.default_rng(0).integers(0, 4, 300)
    fit = QuantileHuberMLE(y, X, freq_weights=times).fit()
    figure, plain = (
        diagnostics.residual_figure(
            fit.fittedvalues,
            StandardizedResiduals(fit.resid_standardized, fit.tau, fit.kappa, weights=weights),
            fit.sigma,
        )
        for weights in (times, None)
    )
    assert not np.allclose(figure.empirical, plain.empirical)
    drawn = line(fit.plot_residuals(), 2)
    np.testing.assert_array_equal(drawn, (figure.centres, figure.empirical[:, 0]))
    x = X[:, 1]
    partial = partial_residual_figure(x, fit.resid, fit.params[1] * x, weights=times)
    drawn = line(fit.plot_partial_residuals(1), 2)
    np.testing.assert_array_equal(drawn, (partial.centres, partial.empirical))


def test_names_with_dollar_signs_are_no_formulas():
    X, y = regression(100, 2, 0)
    exog = pd.DataFrame(X, columns=["const", r"$\nosuch^$"])
    fit = QuantileHuberMLE(pd.Series(y, name="$a_b$"), exog).fit()
    for ax in (fit.plot_fit(), fit.plot_partial_residuals(1)):
        ax.figure.canvas.draw()
        assert ax.get_xlabel() == r"\$\nosuch^\$"
    with pytest.raises(DomainError, match="'q' is no regressor"):
        fit.plot_fit("q")
    with pytest.raises(DomainError, match="'tau' is no regressor"):
        fit.plot_fit("tau")


def test_of_many_rows_some_are_shown_and_the_plot_says_so():
    rng = np.random.default_rng(0)
    sample = StandardizedResiduals(rng.normal(size=5000), 0.5, 1.0)
    figure = diagnostics.residual_figure(rng.normal(size=5000), sample)
    ax = plotting.plot_residuals(figure)
    assert len(line(ax, 0)[0]) == 2000
    assert "2000 of 5000 rows" in labels(ax)


def test_levels_outside_zero_and_one_are_rejected(residuals):
    sample = StandardizedResiduals(residuals, TAU, KAPPA)
    with pytest.raises(DomainError, match="levels"):
        diagnostics.residual_figure(residuals, sample, levels=[0.5, 1.0])


def test_all_diagnostics_fit_in_one_figure(residuals):
    sample = StandardizedResiduals(residuals, TAU, KAPPA)
    panels = (
        diagnostics.density_figure(sample),
        diagnostics.qq_figure(sample),
        diagnostics.residual_figure(residuals, sample),
        diagnostics.pit_figure(sample),
        diagnostics.worm_figure(sample),
        diagnostics.scale_location_figure(residuals, sample),
    )
    fig = plotting.plot_diagnostics(*panels)
    assert isinstance(fig, Figure)
    assert len(fig.axes) == 6
    assert all(ax.get_title() and ax.get_xlabel() and ax.get_legend() for ax in fig.axes)
    given = plt.figure()
    assert plotting.plot_diagnostics(*panels, fig=given) is given
    fig.canvas.draw()


@pytest.mark.parametrize(
    ("draw", "number"),
    [
        (plotting.plot_density, diagnostics.density_figure),
        (plotting.plot_qq, diagnostics.qq_figure),
        (plotting.plot_worm, diagnostics.worm_figure),
        (plotting.plot_pit, diagnostics.pit_figure),
        (plotting.plot_tau_loss, lambda sample: diagnostics.tau_loss_figure(sample.u, KAPPA)),
    ],
)
def test_plots_draw_where_they_are_told_and_return_the_axes(draw, number, residuals):
    _, ax = plt.subplots()
    before = plt.get_fignums()
    assert draw(number(StandardizedResiduals(residuals, TAU, KAPPA)), ax=ax) is ax
    assert plt.get_fignums() == before
    ax.figure.canvas.draw()


def test_no_two_lines_of_a_plot_share_colour_and_style(profile, residuals):
    for ax in (
        profile.plot(details=True),
        plotting.plot_tau_loss(diagnostics.tau_loss_figure(residuals, KAPPA)),
    ):
        lines = [one for one in ax.get_lines() if one.get_linestyle() != "None"]
        looks = [(one.get_color(), str(one._unscaled_dash_pattern)) for one in lines]
        styles = [look[1] for look in looks]
        assert len(set(looks)) == len(looks)
        assert len(set(styles)) >= len(styles) - 1


# --- through the results ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engel_fit():
    engel = sm.datasets.engel.load_pandas().data
    return QuantileHuberMLE.from_formula("foodexp ~ income", engel).fit()


def test_results_offer_profiles_by_name_with_their_standard_errors(engel_fit):
    made = engel_fit.profile_likelihood("income", grid=[])
    assert made.estimate == engel_fit.params["income"]
    assert made.se == engel_fit.bse["income"]
    limits = engel_fit.conf_int(method="profile")
    np.testing.assert_allclose(limits.loc["income"], made.conf_int(), rtol=1e-7)
    assert list(limits.index) == ["Intercept", "income", "sigma", "tau"]


def test_results_plot_the_profile_with_their_certificate(engel_fit):
    assert engel_fit.plot_profile("tau").get_legend() is None
    assert "excluded by proof" in labels(engel_fit.plot_profile("tau", details=True))
    assert "Wald parabola" in labels(engel_fit.plot_profile("sigma", details=True))


def test_the_loss_over_tau_keeps_to_the_bounds_of_the_model():
    X, y = regression(200, 2, 0)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(y**2, X, tau_bounds=(0.3, 0.6)).fit(cov_type="HC1")
    assert line(fit.plot_tau_loss(), 3)[0][0] == pytest.approx(0.6)


def test_influence_plots_name_the_few_rows_that_stand_out(engel_fit):
    influence = engel_fit.get_influence()
    largest = np.argsort(influence.cooks_distance[0])[-5:]
    ax = influence.plot_index().axes[0]
    assert {text.get_text() for text in ax.texts} == {str(i) for i in largest}
    assert len(influence.plot_index(threshold=-1).axes[0].texts) == 235
    ax = influence.plot_influence().axes[0]
    assert len(ax.texts) == 5
    assert str(largest[-1]) in {text.get_text() for text in ax.texts}
    left, right = ax.get_xlim()
    assert right > influence.hat_matrix_diag.max() + 0.1 * (right - left)


def test_results_plot_their_own_residuals(engel_fit):
    u = np.sort(engel_fit.resid_standardized)
    ax = engel_fit.plot_qq(n_simulations=9)
    np.testing.assert_allclose(line(ax, 0)[1], u)
    ax = engel_fit.plot_residuals()
    np.testing.assert_allclose(line(ax, 0), (engel_fit.fittedvalues, engel_fit.resid))
    for draw in (engel_fit.plot_density, engel_fit.plot_worm, engel_fit.plot_pit):
        assert isinstance(draw(), Axes)
    ordinary = engel_fit.model.fit(reml=False)
    ax = ordinary.plot_tau_loss()
    assert line(ax, 3)[0][0] == pytest.approx(ordinary.tau, abs=1e-6)


def test_results_draw_all_diagnostics_and_test_the_fit(engel_fit):
    assert len(engel_fit.plot_diagnostics(n_simulations=9).axes) == 6
    assert engel_fit.goodness_of_fit(9).nobs == 235


def test_counts_are_repeated_rows_in_the_envelopes():
    X, y = regression(120, 2, 0)
    counts = np.arange(120) % 3
    rows = np.repeat(np.arange(120), counts)
    short = QuantileHuberMLE(y, X, freq_weights=counts.astype(float)).fit()
    long = QuantileHuberMLE(y[rows], X[rows]).fit()
    for name in ("plot_qq", "plot_worm"):
        one, two = (getattr(fit, name)(n_simulations=19) for fit in (short, long))
        assert "95 % of 19 simulated fits" in labels(one)
        np.testing.assert_allclose(line(one, 0), line(two, 0), atol=1e-5)
    one, two = (fit.plot_qq(n_simulations=19).collections[0] for fit in (short, long))
    np.testing.assert_allclose(one.get_paths()[0].vertices, two.get_paths()[0].vertices, atol=1e-4)
    assert "99 simulated" in " ".join(labels(short.plot_qq()))


def test_sampling_weights_have_no_envelope_and_the_limits_of_their_effective_number():
    X, y = regression(200, 2, 0)
    weights = np.where(np.arange(200) % 2, 3.0, 0.5)
    fit = QuantileHuberMLE(y, X, weights=weights).fit()
    assert "simulated" not in " ".join(labels(fit.plot_qq()))
    with pytest.raises(DomainError, match="sampling weights"):
        fit.plot_qq(n_simulations=9)
    effective = weights.sum() ** 2 / (weights**2).sum()
    x, upper = line(fit.plot_worm(), 2)
    p = stats.norm.cdf(x)
    np.testing.assert_allclose(
        upper, 1.95996 * np.sqrt(p * (1 - p) / effective) / stats.norm.pdf(x), rtol=1e-5
    )
    double = QuantileHuberMLE(y, X, weights=2 * weights).fit()
    for name in ("plot_worm", "plot_pit"):
        one, two = getattr(fit, name)(), getattr(double, name)()
        for i in range(len(one.get_lines())):
            np.testing.assert_allclose(line(one, i), line(two, i), atol=1e-5)


def test_the_simulated_limits_of_the_worm_are_quantiles_of_refitted_samples():
    X, y = regression(150, 2, 0)
    fit = solve(X, y)
    fits = refitted(X, y, fit, 60)
    u = (y - X @ fit.beta) / fit.sigma
    sample = StandardizedResiduals(u, fit.tau, fit.kappa, simulated=fits)
    figure = diagnostics.worm_figure(sample)
    scores = [np.sort(one.scores) for one in fits]
    low, high = np.quantile(scores, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(figure.upper, high - figure.theoretical)
    np.testing.assert_allclose(figure.lower, low - figure.theoretical)
    # estimating the law makes the residuals fit better than draws from a known law would
    known = diagnostics.worm_figure(dataclasses.replace(sample, simulated=()))
    middle = slice(40, 110)
    assert (figure.upper - figure.lower)[middle].mean() < 1.6 * known.upper[middle].mean()


def test_a_second_piece_that_is_not_rejected_is_shaded():
    tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
    y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])
    fit = QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()
    made = fit.profile_likelihood("tau")
    ((low, high),) = made.figure().elsewhere
    assert low < made.interval.elsewhere < high < made.interval.lower
    ends = 2.0 * (fit.llf_restricted - np.array([made._curve(end).loglike for end in (low, high)]))
    np.testing.assert_allclose(ends, made.interval.cut, rtol=0.02)
    ax = made.plot()
    piece = next(one for one in ax.collections if one.get_label() == "not rejected either")
    np.testing.assert_allclose(ends_of_shade(piece), [low, high])


def test_a_constrained_fit_draws_its_own_residuals_and_profile(engel_fit):
    made = engel_fit.model.fit_constrained("income = 0.6")
    assert "excluded by proof" in labels(made.plot_profile("tau", details=True))
    np.testing.assert_allclose(
        line(made.plot_qq(n_simulations=9), 0)[1], np.sort(made.resid_standardized)
    )


def test_other_maxima_are_marked():
    tails = stats.expon.ppf((np.arange(30) + 0.5) / 30)
    y = np.concatenate([-1 - 0.35 * tails, 1 + 0.4 * tails])
    fit = QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()
    ax = fit.plot_profile("tau")
    other = fit.local_maxima().points[1]
    label = f"other maximum {other.tau:.3g}"
    (mark,) = [one for one in ax.get_lines() if one.get_label() == label]
    np.testing.assert_allclose(
        np.ravel(mark.get_data()), [other.tau, other.loglike - fit.llf_restricted]
    )
    assert ax.get_xlim()[1] - ax.get_xlim()[0] > 0.99
    assert fit.plot_profile("tau", whole=False).get_xlim()[0] > 0.5


def test_the_regressor_of_a_fit_plot_must_be_told_when_there_are_several():
    X, y = regression(200, 3, 0)
    fit = QuantileHuberMLE(y, X).fit()
    with pytest.raises(DomainError, match=r"regressors: x1, x2$"):
        fit.plot_fit()
    assert fit.plot_fit("x2").get_xlabel() == "x2"
