"""Rows with leverage: when they are seen, what stands in for them, and what HC1 makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from qhreg.covariance.curvature import row_weights
from qhreg.covariance.joint import influence_of, joint_covariance
from qhreg.covariance.leverage import STANDS_OUT, expected_curvature, row_scales, with_leverage
from qhreg.covariance.lightside import light_rows
from qhreg.covariance.slices import FEW_SINGLE, sandwich_of
from statsmodels.datasets import engel

from qhreg import QuantileHuberMLE
from qhreg.covariance import Point, bread_width, covariance
from qhreg.solver import solve

FREE = ("beta", "sigma")


def incomes():
    """Engel's households: one has five times the middle income."""
    frame = engel.load_pandas().data
    income = frame["income"].to_numpy()
    return np.column_stack([np.ones_like(income), income]), frame["foodexp"].to_numpy()


def error(cov_type, exog, endog, fit, **options):
    cov = covariance(cov_type, exog, endog, fit, free=FREE, **options).cov
    return np.sqrt(cov.diagonal())[:-1]


def levered(exog, endog, fit, freq=None, prob=None):
    sample, weights, width, made = sandwich_of(exog, endog, fit, FREE, freq, prob, None, None)
    return with_leverage(sample, weights, made, width)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_a_row_on_the_line_does_not_make_its_slope_certain(kappa):
    """Pairs bootstrap 0.042, R's "nid" 0.050; the plain sandwich has 0.006 and 0.010."""
    exog, endog = incomes()
    fit = solve(exog, endog, kappa=kappa, tau=0.95)
    assert error("HC0", exog, endog, fit)[1] < 0.011
    assert 0.04 < error("HC1", exog, endog, fit)[1] < 0.1
    made = covariance("HC1", exog, endog, fit, free=FREE)
    assert "rows with leverage" in made.description
    found = levered(exog, endog, fit)
    assert np.argmax(exog[:, 1]) in found.rows
    if kappa == 0.0:  # its side is not known
        assert found.psi[np.argmax(exog[:, 1])] == 0.0
        assert found.extra[np.argmax(exog[:, 1])] == pytest.approx(0.95 * 0.05, rel=0.2)


@pytest.mark.parametrize("kappa", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("tau", [0.5, 0.8])
def test_without_leverage_nothing_changes(kappa, tau):
    rng = np.random.default_rng(3)
    exog = np.column_stack([np.ones(300), rng.standard_normal(300)])
    endog = exog.sum(axis=1) + rng.standard_t(4, size=300)
    fit = solve(exog, endog, kappa=kappa, tau=tau)
    assert levered(exog, endog, fit) is None
    made = covariance("HC1", exog, endog, fit, free=FREE)
    plain = covariance("HC0", exog, endog, fit, free=FREE)
    assert_allclose(made.cov, plain.cov * 300 / 297, rtol=1e-12)
    assert_allclose(made.calibration.df, plain.calibration.df)
    assert "leverage" not in made.description


def by_hand(exog, endog, fit):
    """HC1 of the coefficients at kappa = 0, from the formulas in the notes, row by row."""
    n, tau = endog.size, fit.tau
    u = (endog - exog @ fit.beta) / fit.sigma
    u[np.abs(u) < 1e-9] = 0.0
    low, high = np.quantile(u, [0.25, 0.75], method="inverted_cdf")
    w = bread_width(0.0, n, tau, min(u.std(), (high - low) / 1.349))
    scales = row_scales(exog.T, u, np.ones(n))
    psi = np.where(u > 0.0, 1.0 - tau, -tau) * (u != 0.0)
    on_line = np.flatnonzero(u == 0.0)
    dual = psi.copy()
    dual[on_line] = np.linalg.solve(exog[on_line].T, -exog.T @ psi)
    alone = u
    for _ in range(2):  # the curvature of all residuals, then of those from fits without the row
        expected = np.array([np.mean(np.abs(alone / scales) < 0.5 * w) / (w * s) for s in scales])
        inner = np.linalg.inv(exog.T @ (exog * expected[:, None]))
        moves = np.array([x @ inner @ x for x in exog])
        alone = u + moves / (1.0 - np.minimum(moves * expected, 0.9)) * dual
    usual = np.mean(psi**2)
    bread, meat = np.zeros((2, 2)), np.zeros((2, 2))
    for i, x in enumerate(exog):
        move = x @ inner @ x
        h = min(move / w, 1.0)
        curvature, square = (np.abs(u[i]) < 0.5 * w) / w, psi[i] ** 2
        if h > 0.5:
            away, share = min((h - 0.5) / 0.25, 1.0), (h - 0.5) / 0.5
            alone = u[i] + away * move / (1.0 - min(move * expected[i], 0.9)) * dual[i]
            was_near, square = curvature > 0.0, (1.0 - tau if alone > 0.0 else tau) ** 2
            curvature = (1.0 - share) * (np.abs(alone) < 0.5 * w) / w + share * expected[i]
            if was_near or square < usual:
                square = (1.0 - share) * square + share * usual
        bread += curvature * np.outer(x, x)
        meat += square * np.outer(x, x)
    inverse = np.linalg.inv(bread)
    return fit.sigma**2 * inverse @ meat @ inverse * n / (n - 2)


@pytest.mark.parametrize("tau", [0.95, 0.9, 0.5, 0.1])
def test_the_covariance_is_that_of_the_formulas(tau):
    exog, endog = incomes()
    exog = exog / [1.0, 1000.0]
    fit = solve(exog, endog, kappa=0.0, tau=tau)
    made = covariance("HC1", exog, endog, fit, free=("beta",))
    assert_allclose(made.cov, by_hand(exog, endog, fit), rtol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_a_row_given_twice_is_one_of_weight_two(kappa):
    exog, endog = incomes()
    counts = np.random.default_rng(1).integers(1, 4, size=235).astype(float)
    counts[np.argmax(exog[:, 1])] = 1.0
    fit = solve(exog, endog, kappa=kappa, tau=0.9, weights=counts)
    times = counts.astype(int)
    long = covariance(
        "HC1", np.repeat(exog, times, axis=0), np.repeat(endog, times), fit, free=FREE
    )
    short = covariance("HC1", exog, endog, fit, free=FREE, freq_weights=counts)
    assert "leverage" in short.description
    assert_allclose(short.cov, long.cov, rtol=1e-8)
    assert_allclose(short.calibration.df, long.calibration.df, rtol=1e-8)


def test_sampling_weights_have_no_scale_and_equal_ones_say_nothing():
    exog, endog = incomes()
    fit = solve(exog, endog, kappa=0.0, tau=0.95)
    plain = covariance("HC1", exog, endog, fit, free=FREE).cov
    for unit in (1e-3, 1.0, 50.0):
        made = covariance("HC1", exog, endog, fit, free=FREE, weights=np.full(235, unit))
        assert_allclose(made.cov, plain, rtol=1e-8)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_units_and_origins_of_the_data_do_not_matter(kappa):
    exog, endog = incomes()
    fit = solve(exog, endog, kappa=kappa, tau=0.95)
    change = np.array([[1.0, -700.0], [0.0, 1.0]])
    other = solve(exog @ change, 1000.0 * endog + exog @ [5.0, 2.0], kappa=kappa, tau=0.95)
    moved = error("HC1", exog @ change, 1000.0 * endog + exog @ [5.0, 2.0], other)
    assert_allclose(moved[1], 1000.0 * error("HC1", exog, endog, fit)[1], rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_the_sign_of_the_response_does_not_matter(kappa):
    exog, endog = incomes()
    fit = solve(exog, endog, kappa=kappa, tau=0.9)
    mirrored = solve(exog, -endog, kappa=kappa, tau=0.1)
    assert_allclose(error("HC1", exog, -endog, mirrored), error("HC1", exog, endog, fit), rtol=1e-6)


def test_several_fits_together_have_the_covariances_of_the_single_ones():
    exog, endog = incomes()
    fits = [solve(exog, endog, kappa=0.0, tau=tau) for tau in (0.95, 0.9, 0.5)]
    joint = joint_covariance("HC1", [influence_of(exog, endog, fit) for fit in fits], [0, 1])
    for i, fit in enumerate(fits):
        block = joint[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        assert_allclose(
            block, covariance("HC1", exog, endog, fit, free=FREE).cov[:2, :2], rtol=1e-7
        )
    assert np.linalg.eigvalsh(joint / np.outer(*2 * [np.sqrt(joint.diagonal())])).min() > -1e-12


def test_combinations_of_parameters_have_the_law_of_the_same_sandwich():
    exog, endog = incomes()
    fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=0.95).fit()
    single, twice = fit.t_test([0.0, 1.0, 0.0]), fit.t_test([1e-12, 1.0, 0.0])
    assert_allclose(twice.pvalue, single.pvalue, rtol=1e-4)
    assert_allclose(single.pvalue, fit.pvalues[1], rtol=1e-10)


def test_many_rows_count_as_they_are():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(3001), np.exp(1.5 * rng.standard_normal(3001))])
    endog = exog.sum(axis=1) + rng.standard_normal(3001)
    fit = solve(exog, endog, kappa=0.0, tau=0.9)
    assert levered(exog, endog, fit) is None
    few = slice(0, 3000)
    assert levered(exog[few], endog[few], solve(exog[few], endog[few], kappa=0.0, tau=0.9))


def test_a_model_without_coefficients_has_no_leverage():
    endog = np.random.default_rng(0).standard_normal(50)
    sample, weights, width, made = sandwich_of(
        np.zeros((50, 0)), endog, solve(np.zeros((50, 0)), endog), ("sigma", "tau"), *4 * [None]
    )
    assert with_leverage(sample, weights, made, width) is None


# --- scales and what is expected -------------------------------------------------------------------


def test_noise_of_one_scale_has_scales_of_one():
    rng = np.random.default_rng(5)
    ones = []
    for _ in range(200):
        scales = row_scales(rng.standard_normal((2, 150)), rng.standard_t(5, 150), np.ones(150))
        ones.append(np.ptp(scales) == 0.0)
    assert np.mean(ones) > 0.5  # F below one


def test_scales_are_those_of_the_noise():
    rng = np.random.default_rng(6)
    x = rng.exponential(size=20_000)
    u = (0.5 + x) * (rng.standard_normal(x.size) + 1.0)
    scales = row_scales(np.vstack([np.ones_like(x), x]), u, np.ones_like(x))
    assert_allclose(scales, (0.5 + x) / (0.5 + np.median(x)), rtol=0.05)


@pytest.mark.parametrize("u", [np.zeros(8), np.ones(8)])
def test_residuals_that_tell_nothing_have_scales_of_one(u):
    assert_array_equal(row_scales(np.arange(8.0)[None], u, np.ones(8)), np.ones(8))
    assert_array_equal(row_scales(np.ones((1, 8)), np.arange(8.0), np.ones(8)), np.ones(8))


@pytest.mark.parametrize("kappa", [0.0, 0.6])
def test_expected_curvature_counts_the_noise_of_all_rows_at_the_scale_of_one(kappa):
    rng = np.random.default_rng(7)
    u, scales, counts = rng.standard_normal(60), rng.uniform(0.5, 2.0, 60), rng.integers(1, 4, 60)
    point, width = Point(np.zeros(1), 1.0, 0.3, kappa), 0.8
    made = expected_curvature(u, scales, counts.astype(float), point, width)
    for i in range(60):
        own = np.hypot(kappa, scales[i] * np.sqrt(width**2 - kappa**2))
        middle = kappa * 0.2  # of -0.3 kappa and 0.7 kappa
        inside = np.abs(scales[i] * u / scales - middle) < 0.5 * own
        assert made[i] == pytest.approx(np.average(inside, weights=counts) / own)


def test_weights_of_rows_left_out_say_nothing():
    exog, endog = incomes()
    keep = np.ones(235)
    keep[:20] = 0.0
    fit = solve(exog[20:], endog[20:], kappa=0.0, tau=0.9)
    for name in ("weights", "freq_weights"):
        part = covariance("HC1", exog, endog, fit, free=FREE, **{name: keep})
        whole = covariance("HC1", exog[20:], endog[20:], fit, free=FREE)
        assert_allclose(part.cov, whole.cov, rtol=1e-8)
    assert row_weights(keep, None, 235).nobs == 215.0


# --- what it is for --------------------------------------------------------------------------------


def test_errors_and_intervals_of_a_slope_that_few_rows_decide():
    """Lognormal regressor, noise in proportion: plain errors have a median of 0.4 of the deviation."""
    rng = np.random.default_rng(11)
    slope, found = 1.0 - 1.6448536, []
    for _ in range(150):
        x = np.exp(rng.standard_normal(235))
        exog = np.column_stack([np.ones_like(x), x])
        endog = 1.0 + x + (0.2 + x) * rng.standard_normal(235)
        fit = solve(exog, endog, kappa=0.0, tau=0.95)
        made = covariance("HC1", exog, endog, fit, free=FREE)
        plain = covariance("HC0", exog, endog, fit, free=FREE)
        row = [fit.beta[1] - slope]
        for each in (made, plain):
            se = np.sqrt(each.cov[1, 1])
            low, high = each.calibration.limits(1.96, np.zeros(3))[1]
            row += [se, low <= (fit.beta[1] - slope) / se <= high]
        found.append(row)
    off, se, held, plain_se, plain_held = np.array(found).T
    assert 0.75 < np.median(se) / off.std() < 1.25
    assert np.median(plain_se) / off.std() < 0.6
    assert held.mean() > 0.92
    assert plain_held.mean() < 0.87


def lognormal(seed, p=2, n=150, spread=1.2):
    """Regressors among whose rows some are far from the others; noise in proportion to the first."""
    rng = np.random.default_rng(seed)
    x = np.exp(spread * rng.standard_normal((n, p - 1)))
    exog = np.column_stack([np.ones(n), x])
    return exog, exog.sum(axis=1) + x[:, 0] * rng.standard_normal(n)


def test_equal_weights_say_nothing_where_a_row_has_most_of_its_own_location():
    exog, endog = lognormal(3)
    hat = exog @ np.linalg.pinv(exog)
    assert hat.diagonal().max() > 0.5
    fit = solve(exog, endog, kappa=0.0, tau=0.5)
    plain = covariance("HC1", exog, endog, fit, free=FREE)
    assert "leverage" in plain.description
    made = covariance("HC1", exog, endog, fit, free=FREE, weights=np.full(150, 3.0))
    assert_allclose(made.cov, plain.cov, rtol=1e-8)
    assert_allclose(made.calibration.df, plain.calibration.df, rtol=1e-8)


def test_a_row_that_its_weight_makes_decisive_is_left_to_the_warning():
    exog, endog = lognormal(3)
    prob = np.ones(150)
    prob[np.argmin(exog[:, 1])] = 1e4
    fit = solve(exog, endog, kappa=0.0, tau=0.5, weights=prob)
    assert levered(exog, endog, fit, prob=prob) is None


@pytest.mark.parametrize("unit", [1e-100, 1e-8, 1e8, 1e100])
@pytest.mark.parametrize(("seed", "tau"), [(0, 0.1), (2, 0.1)])
def test_units_of_a_column_do_not_decide_the_slopes_of_rows_on_the_line(seed, tau, unit):
    exog, endog = lognormal(seed)
    plain = covariance("HC1", exog, endog, solve(exog, endog, kappa=0.0, tau=tau), free=FREE)
    assert "leverage" in plain.description
    scaled = exog * [1.0, unit]
    fit = solve(scaled, endog, kappa=0.0, tau=tau)
    made = covariance("HC1", scaled, endog, fit, free=FREE)
    errors = np.sqrt(made.cov.diagonal()) * [1.0, unit, 1.0]
    assert_allclose(errors, np.sqrt(plain.cov.diagonal()), rtol=1e-7)
    assert_allclose(made.calibration.df, plain.calibration.df, rtol=1e-7)
    assert_allclose(made.calibration.skew, plain.calibration.skew, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_scales_do_not_depend_on_which_columns_span_the_regressors(seed):
    """A constant that no single column is makes the others dependent about their means."""
    exog, endog = lognormal(1, p=6)
    change = np.random.default_rng(seed).standard_normal((6, 6)) + 3.0 * np.eye(6)
    u, counts = endog - exog.sum(axis=1), np.ones(150)
    assert_allclose(
        row_scales((exog @ change).T, u, counts), row_scales(exog.T, u, counts), rtol=1e-8
    )


def test_a_row_on_the_line_several_times_is_one_with_that_weight():
    """Responses on a grid: more rows on the line than coefficients."""
    exog, endog = lognormal(20, n=80)
    endog = np.round(endog)
    exog[:, 1] = np.round(exog[:, 1])
    times = np.random.default_rng(0).integers(1, 4, size=80)
    fit = solve(exog, endog, kappa=0.0, tau=0.2, weights=times.astype(float))
    long = covariance(
        "HC1", np.repeat(exog, times, axis=0), np.repeat(endog, times), fit, free=FREE
    )
    short = covariance("HC1", exog, endog, fit, free=FREE, freq_weights=times.astype(float))
    assert "leverage" in short.description
    assert_allclose(short.cov, long.cov, rtol=1e-8)
    assert_allclose(short.calibration.df, long.calibration.df, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_of_columns_does_not_decide_whether_rows_have_leverage(seed):
    """Estimates of some combinations have fewer degrees of freedom than those of others."""
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(200), rng.standard_normal((200, 19))])
    endog = exog.sum(axis=1) + rng.standard_t(4, size=200)
    change = rng.standard_normal((20, 20)) + 3.0 * np.eye(20)
    plain, other = (
        covariance("HC1", x, endog, solve(x, endog, kappa=0.0, tau=0.5), free=FREE)
        for x in (exog, exog @ change)
    )
    assert "leverage" in plain.description
    assert_allclose(change @ other.cov[:20, :20] @ change.T, plain.cov[:20, :20], rtol=1e-6)


def test_rows_with_leverage_are_seen_in_wide_designs():
    exog, endog = lognormal(0, p=14, n=2000, spread=1.5)
    fit = solve(exog, endog, kappa=0.0, tau=0.9)
    made = covariance("HC1", exog, endog, fit, free=FREE)
    assert f"{levered(exog, endog, fit).rows.size} rows with leverage" in made.description


def test_errors_of_many_slopes_do_not_take_rows_drawn_to_the_line_for_high_density():
    """Without the second step the median is 0.85."""
    rng, found, errors = np.random.default_rng(1), [], []
    for _ in range(100):
        exog = np.column_stack([np.ones(100), rng.standard_normal((100, 19))])
        endog = rng.standard_t(4, size=100)
        fit = solve(exog, endog, kappa=0.0, tau=0.3)
        found.append(fit.beta[1:])
        errors.append(error("HC1", exog, endog, fit)[1:])
    ratio = np.median(errors, axis=0) / np.std(found, axis=0)
    assert 0.88 < np.median(ratio) < 1.1


def test_where_all_rows_have_leverage_none_stands_out():
    """With fewer than 1.4 rows on the light side for each coefficient the sandwich is plain."""
    rng = np.random.default_rng(2)
    exog = np.column_stack([np.ones(200), rng.standard_normal((200, 19))])
    endog = exog.sum(axis=1) + rng.standard_t(4, size=200)
    for tau, few in ((0.1, True), (0.3, False)):
        fit = solve(exog, endog, kappa=0.0, tau=tau)
        assert (light_rows(tau, 0.0, 200) < STANDS_OUT * 20) is few
        assert (levered(exog, endog, fit) is None) is few
        if few:
            plain, made = (
                covariance(kind, exog, endog, fit, free=FREE).cov for kind in ("HC0", "HC1")
            )
            assert_allclose(made, plain * 200 / (200 - 21), rtol=1e-12)


def test_designs_of_many_numbers_keep_the_plain_sandwich():
    exog, endog = lognormal(0, p=14, n=2200, spread=1.5)
    assert exog.size > FEW_SINGLE
    assert levered(exog, endog, solve(exog, endog, kappa=0.0, tau=0.9)) is None
