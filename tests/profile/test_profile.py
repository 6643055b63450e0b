"""Profile likelihoods: exact points, limits by brute force, open intervals, certified bounds."""

import math
import pickle
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from model_data import model_data
from scipy import stats
from scipy.optimize import brentq
from solver_data import regression, small_sample

from qhreg import QuantileHuberMLE
from qhreg.certificate.global_optimum import certify_global
from qhreg.exceptions import BoundaryWarning, ConvergenceWarning, DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.inference.hypothesis_tests import lr_cut
from qhreg.profile import profile_intervals, profile_likelihood
from qhreg.profile.curve import curve_of
from qhreg.profile.likelihood import local_maxima
from qhreg.profile.result import ProfileInterval
from qhreg.profile.surface import profile_surface
from qhreg.progress import with_progress
from qhreg.solver import solve
from qhreg.solver.over_kappa import solve_kappa


def curvature(tau, kappa):
    """q(tau) = E psi^2 by quadrature."""
    nodes = quantile_huber.ppf((np.arange(200_000) + 0.5) / 200_000, tau, kappa)
    return np.mean(np.clip(nodes / kappa, -tau, 1 - tau) ** 2)


def sample(n=600, p=3, seed=0):
    X, y = regression(n, p, seed)
    return X, y, solve(X, y), model_data(X, y)


def two_peaks(n=60, left=0.35):
    """A constant and a response with two peaks and outward tails."""
    tails = stats.expon.ppf((np.arange(n // 2) + 0.5) / (n // 2))
    return np.ones((n, 1)), np.concatenate([-1 - left * tails, 1 + 0.4 * tails])


def known_law(n=800, tau=0.35, kappa=2.0):
    """A constant and the quantiles of a known law, which its fit finds again."""
    return np.ones((n, 1)), quantile_huber.ppf((np.arange(n) + 0.5) / n, tau, kappa)


def held(X, y, param, value, **options):
    """The likelihood with one parameter held, by a fit from nothing that keeps the rank of X."""
    if options.get("sigma") is None and options.get("reml", True):
        options["rank"] = np.linalg.matrix_rank(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        if isinstance(param, str):
            return solve(X, y, **{**options, param: value}).loglike_restricted
        offset = value * X[:, param]
        rest = np.delete(X, param, axis=1)
        return solve(rest, y, offset=offset, **options).loglike_restricted


# --- exact points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("param", ["tau", "sigma", 0, 2])
def test_every_point_is_the_best_fit_with_the_parameter_held(param):
    X, y, fit, data = sample()
    profile = profile_likelihood(data, fit, param, grid=[])
    assert len(profile.points) >= 5
    for point in profile.points:
        assert point.loglike == pytest.approx(held(X, y, param, point.value), abs=1e-9)


def test_the_estimates_along_the_profile_have_the_log_likelihood_that_is_told():
    X, y, fit, data = sample()
    frame = profile_likelihood(data, fit, "sigma").to_frame()
    assert list(frame.columns[:4]) == ["value", "llf", "lr", "signed_root"]
    for row in frame.to_dict("records"):
        beta = np.array([row["x0"], row["x1"], row["x2"]])
        density = quantile_huber.logpdf(
            y, row["tau"], row["kappa"], loc=X @ beta, scale=row["sigma"]
        )
        assert row["sigma"] == pytest.approx(row["value"], rel=1e-12)
        log_q = math.log(curvature(row["tau"], row["kappa"]))
        laplace = 1.5 * math.log(2 * math.pi) - 3 * (0.5 * log_q - math.log(row["sigma"]))
        assert density.sum() + laplace == pytest.approx(row["llf"], abs=1e-8)


@pytest.mark.parametrize("n", [300, 6000])
def test_the_slope_along_tau_is_the_derivative_of_the_profile(n):
    _, _, fit, data = sample(n)
    curve = curve_of(data, fit, "tau")
    step = 1e-5
    for tau in (fit.tau - 0.03, fit.tau + 0.02):
        difference = (curve(tau + step).loglike - curve(tau - step).loglike) / (2 * step)
        assert curve(tau).slope == pytest.approx(difference, rel=1e-4)


def test_fits_that_reuse_a_hessian_are_the_fits_from_nothing():
    X, y, fit, data = sample(8000, 4)
    profile = profile_likelihood(data, fit, "tau")
    for point in profile.points:
        fresh = solve(X, y, tau=point.value)
        assert point.loglike == pytest.approx(fresh.loglike_restricted, abs=1e-8)
        assert point.gap <= 1e-9 * len(y)
        np.testing.assert_allclose(point.beta, fresh.beta, atol=1e-6)
        assert point.sigma == pytest.approx(fresh.sigma, rel=1e-6)


def test_the_signed_root_rises_through_zero_at_the_estimate():
    _, _, fit, data = sample()
    profile = profile_likelihood(data, fit, "tau")
    assert (np.diff(profile.values) > 0).all()
    assert (np.diff(profile.signed_root) > 0).all()
    at = np.flatnonzero(profile.values == fit.tau)
    assert profile.signed_root[at] == 0.0
    assert profile.lr == pytest.approx(profile.signed_root**2)


def test_the_default_grid_reaches_beyond_the_99_percent_interval():
    _, _, fit, data = sample()
    for param in ("tau", "sigma", 1):
        profile = profile_likelihood(data, fit, param)
        wide = profile.critical_value(0.01)
        assert profile.lr[0] > wide
        assert profile.lr[-1] > wide
        lower, upper = profile.conf_int(0.01)
        assert profile.values[0] < lower < upper < profile.values[-1]


def test_a_given_grid_is_fitted():
    _, _, fit, data = sample()
    grid = [0.2, 0.25, 0.4]
    profile = profile_likelihood(data, fit, "tau", grid=grid)
    assert set(grid) < set(profile.values)
    with pytest.raises(DomainError, match=r"runs from 0\.001"):
        profile_likelihood(data, fit, "tau", grid=[0.0001])


def test_the_interpolated_curve_passes_through_the_fits_and_close_to_others():
    _, _, fit, data = sample()
    profile = profile_likelihood(data, fit, "tau")
    np.testing.assert_allclose(profile.interpolate(profile.values), profile.lr, atol=1e-4)
    between = 0.5 * (profile.values[1:] + profile.values[:-1])
    exact = [2 * (fit.loglike_restricted - profile._curve(float(tau)).loglike) for tau in between]
    np.testing.assert_allclose(profile.interpolate(between), exact, rtol=0.005, atol=0.02)
    assert np.isnan(profile.interpolate([0.01])).all()


def test_points_crowded_around_a_root_leave_the_curve_smooth():
    _, _, fit, data = sample()
    root = profile_likelihood(data, fit, "tau", grid=[]).conf_int()[1]
    crowd = root + np.array([-1e-5, -1e-9, 1e-9, 2e-9, 1e-7, 1e-5])
    curve = profile_likelihood(data, fit, "tau", grid=[*crowd, 0.2, 0.25, 0.35, 0.4]).figure()
    slope = np.diff(np.sqrt(curve.lr) * np.sign(curve.x - fit.tau)) / np.diff(curve.x)
    # the slope of the signed root changes slowly
    assert np.abs(np.diff(np.log(slope))).max() < 0.1


# --- intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("param", ["tau", "sigma", 0, 1])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 3.0])
def test_limits_are_the_roots_that_brute_force_finds_on_refits(param, kappa):
    X, y = regression(520, 2, 5)
    fit = solve(X, y, kappa=kappa)
    data = model_data(X, y, kappa=kappa)
    made = profile_likelihood(data, fit, param, grid=[], cut="chi2").interval
    assert not made.lower_open
    assert not made.upper_open

    def excess(value):
        return 2 * (
            fit.loglike_restricted - held(X, y, param, value, kappa=kappa)
        ) - stats.chi2.isf(0.05, 1)

    assert excess(made.lower - 1e-8) > 0 > excess(made.lower + 1e-8)
    assert excess(made.upper + 1e-8) > 0 > excess(made.upper - 1e-8)


def test_limits_of_tau_are_those_of_brent_on_fits_from_nothing():
    X, y, fit, data = sample()
    made = profile_likelihood(data, fit, "tau", cut="chi2").interval

    def excess(tau):
        return 2 * (fit.loglike_restricted - held(X, y, "tau", tau)) - stats.chi2.isf(0.05, 1)

    assert made.lower == pytest.approx(brentq(excess, 0.1, fit.tau, xtol=1e-12), abs=1e-8)
    assert made.upper == pytest.approx(brentq(excess, fit.tau, 0.6, xtol=1e-12), abs=1e-8)


HARD = [0, 5, 7, 9, 19, 27, 29, 35, 38]
SLOW_HARD = [1, 3, 4, 8, 11, 12, 14, 16, 20, 23, 28, 30, 34, 36, 37]


@pytest.mark.parametrize(
    "seed", [*HARD, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW_HARD)]
)
def test_limits_hold_against_searched_fits_of_small_hard_samples(seed):
    X, y, options = small_sample(seed)
    if X.shape[1] == 1:  # a fit without any column is another test's concern
        X = np.column_stack([X, np.arange(len(y)) % 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit = solve(X, y, **options)
    data = model_data(X, y, **options)
    params = ["tau", 0] if options["sigma"] is not None else ["tau", "sigma", 0]
    for param in params:
        made = profile_likelihood(data, fit, param, grid=[]).interval
        for limit, is_open in ((made.lower, made.lower_open), (made.upper, made.upper_open)):
            if not is_open:
                ratio = 2 * (fit.loglike_restricted - held(X, y, param, limit, **options))
                assert ratio == pytest.approx(made.cut, abs=1e-6)


@pytest.mark.parametrize("seed", [29, 35])
def test_a_fixed_sigma_stays_fixed_to_the_last_digit_along_tau(seed):
    """A predicted start whose sigma is off by rounding cannot be proved."""
    X, y, options = small_sample(seed)
    assert options["sigma"] == 1.0
    profile = profile_likelihood(model_data(X, y, **options), solve(X, y, **options), "tau")
    assert max(point.gap for point in profile.points) <= 1e-9 * len(y)
    np.testing.assert_allclose([point.sigma for point in profile.points], 1.0, rtol=1e-13)


def test_in_small_samples_the_profile_of_sigma_needs_the_search_over_tau():
    """A sample in which following one basin of tau gives another interval."""
    X, y, options = small_sample(34)
    fit = solve(X, y, **options)
    data = model_data(X, y, **options)
    searched = profile_likelihood(data, fit, "sigma", grid=[]).interval
    followed = profile_likelihood(data, fit, "sigma", grid=[], search=False).interval
    assert searched.lower < 0.95 * followed.lower


@pytest.mark.parametrize("n", [12, 40, 120])
def test_for_normal_noise_the_interval_of_a_coefficient_is_the_t_interval_of_least_squares(n):
    rng = np.random.default_rng(n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=n)
    fit = QuantileHuberMLE(y, X, kappa=1e6, tau=0.5).fit()
    least_squares = sm.OLS(y, X).fit()
    for alpha in (0.05, 0.2):
        limits = fit.conf_int(alpha, method="profile")[:3]
        np.testing.assert_allclose(limits, least_squares.conf_int(alpha), rtol=1e-6)
    profile = fit.profile_likelihood(1)
    t = (profile.values - least_squares.params[1]) / least_squares.bse[1]
    # m log(RSS_0 / RSS_1)
    np.testing.assert_allclose(profile.lr, (n - 3) * np.log1p(t**2 / (n - 3)), atol=1e-5)


def test_a_profile_beside_a_robust_covariance_says_that_it_assumes_the_density():
    X, y = regression(100, 2, 0)
    model = QuantileHuberMLE(y, X)
    robust = model.fit(cov_type="HC1").profile_likelihood("x1", grid=[])
    assert robust.note == "assumes the density, which HC1 does not"
    assert robust.note in str(robust)
    plain = model.fit(cov_type="nonrobust").profile_likelihood("x1", grid=[])
    assert plain.note == ""
    np.testing.assert_allclose(robust.conf_int(), plain.conf_int(), atol=1e-8)


def test_another_level_is_found_with_further_fits():
    _, _, fit, data = sample()
    for param in ("tau", "sigma", 1):
        profile = profile_likelihood(data, fit, param)
        direct = profile_likelihood(data, fit, param, alpha=0.2, grid=[])
        np.testing.assert_allclose(profile.conf_int(0.2), direct.conf_int(), atol=1e-8)
        narrow, wide = profile.conf_int(0.2), profile.conf_int(0.05)
        assert wide[0] < narrow[0] < profile.estimate < narrow[1] < wide[1]


def test_the_default_cut_is_that_of_the_f_law_with_n_less_the_rank():
    _, _, fit, data = sample()
    default = profile_likelihood(data, fit, "tau", grid=[])
    assert default.interval.cut == pytest.approx(597 * np.log1p(stats.f.isf(0.05, 1, 597) / 597))
    plain = profile_likelihood(data, fit, "tau", grid=[], cut="chi2")
    assert plain.interval.cut == pytest.approx(stats.chi2.isf(0.05, 1))
    assert default.conf_int()[0] < plain.conf_int()[0]
    assert profile_likelihood(data, fit, "tau", grid=[], cut=2.5).interval.cut == 2.5
    X, y, _, _ = sample()
    ordinary = profile_likelihood(model_data(X, y, reml=False), solve(X, y, reml=False), 1, grid=[])
    assert ordinary.interval.cut == pytest.approx(lr_cut(0.05, 600))


def test_cuts_and_levels_outside_their_range_are_rejected():
    _, _, fit, data = sample()
    for alpha in (0.0, 1.0, -1.0):
        with pytest.raises(DomainError, match="alpha"):
            profile_likelihood(data, fit, "tau", alpha=alpha)
    with pytest.raises(DomainError, match="cut must be 'F', 'chi2' or a number"):
        profile_likelihood(data, fit, "tau", cut="bartlett")
    with pytest.raises(DomainError, match="positive"):
        profile_likelihood(data, fit, "tau", cut=-1.0)


def test_intervals_of_all_parameters_come_in_the_order_of_the_parameter_vector():
    _, _, fit, data = sample()
    limits = profile_intervals(data, fit)
    singles = [profile_likelihood(data, fit, name).conf_int() for name in (0, 1, 2, "sigma", "tau")]
    np.testing.assert_allclose(limits, singles, atol=1e-8)


def test_weights_are_repeated_rows_and_the_offset_is_taken_off():
    X, y, _, _ = sample()
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, y.size)
    offset = rng.normal(size=y.size)
    rows = np.repeat(np.arange(y.size), weights)
    options = {"weights": weights.astype(float), "offset": offset}
    weighted = model_data(X, y, **options)
    repeated = model_data(X[rows], (y - offset)[rows])
    for param in ("tau", "sigma", 1):
        one = profile_likelihood(weighted, solve(X, y, **options), param, grid=[], cut="chi2")
        two_fit = solve(X[rows], (y - offset)[rows])
        two = profile_likelihood(repeated, two_fit, param, grid=[], cut="chi2")
        np.testing.assert_allclose(one.conf_int(), two.conf_int(), atol=1e-7)


def test_intervals_follow_the_units_of_the_response():
    X, y, fit, data = sample()
    scaled = model_data(X, 1e6 * y)
    big = solve(X, 1e6 * y)
    for param, unit in (("tau", 1.0), ("sigma", 1e6), (1, 1e6)):
        one = profile_likelihood(data, fit, param, grid=[]).conf_int()
        two = profile_likelihood(scaled, big, param, grid=[]).conf_int()
        np.testing.assert_allclose(two, unit * one, rtol=1e-7)


def test_a_standard_error_changes_the_way_and_not_the_limits():
    _, _, fit, data = sample()
    for param in ("tau", "sigma", 1):
        exact = profile_likelihood(data, fit, param, grid=[]).conf_int()
        for se in (1e-4, 0.05, 3.0):
            made = profile_likelihood(data, fit, param, grid=[], se=se)
            np.testing.assert_allclose(made.conf_int(), exact, atol=2e-8)
            assert made.se == se


# --- open ends -------------------------------------------------------------------------------------


def test_an_interval_of_kappa_that_reaches_zero_is_said_to_be_open_below():
    y = quantile_huber.ppf((np.arange(300) + 0.5) / 300, 0.4, 0.3)
    X = np.ones((300, 1))
    data = model_data(X, y)
    made = profile_likelihood(data, solve(X, y), "kappa", grid=[]).interval
    assert made.lower_open
    assert made.lower == 0.0
    assert not made.upper_open
    assert "open below: nothing down to 0 is rejected" in str(made)


def test_an_interval_of_kappa_on_normal_data_is_open_above():
    y = stats.norm.ppf((np.arange(300) + 0.5) / 300)
    X = np.ones((300, 1))
    with pytest.warns(BoundaryWarning, match="infinity"):
        fit = solve_kappa(X, y).solution
    made = profile_likelihood(model_data(X, y, kappa=None), fit, "kappa", grid=[]).interval
    assert made.upper_open
    assert made.upper == math.inf
    assert not made.lower_open
    assert made.lower > 1.0
    assert "open above: nothing up to inf is rejected" in str(made)


def test_a_tau_on_its_bound_has_a_one_sided_interval():
    rng = np.random.default_rng(0)
    X = np.ones((200, 1))
    y = rng.exponential(size=200)
    with pytest.warns(BoundaryWarning):
        fit = solve(X, y, kappa=0.1, reml=False)
    data = model_data(X, y, kappa=0.1, reml=False)
    made = profile_likelihood(data, fit, "tau", grid=[]).interval
    assert made.upper_open
    assert made.upper == 0.999
    assert 0.9 < made.lower < 0.999
    assert "open above" in str(made)


def test_an_interval_without_limits_says_so():
    made = ProfileInterval("tau", 0.05, 3.84, 0.001, 0.999, True, True)
    assert str(made) == (
        "95 % profile interval for tau: none; the data reject no value between 0.001 and 0.999"
    )


def test_a_closed_interval_prints_its_limits():
    _, _, fit, data = sample()
    profile = profile_likelihood(data, fit, "tau")
    lower, upper = profile.conf_int()
    assert f"{lower:.6g} to {upper:.6g}" in str(profile)


# --- several maxima --------------------------------------------------------------------------------


def test_another_maximum_that_is_not_rejected_is_told():
    X, y = two_peaks()
    fit = solve(X, y, kappa=0.3)
    made = profile_likelihood(model_data(X, y, kappa=0.3), fit, "tau").interval
    assert made.elsewhere == pytest.approx(0.2, abs=0.1)
    assert not made.lower <= made.elsewhere <= made.upper
    assert "another maximum" in str(made)
    _, _, fit, data = sample()
    assert profile_likelihood(data, fit, "tau").interval.elsewhere is None


@pytest.mark.filterwarnings("ignore:the coefficient of 0 is not determined")
def test_local_maxima_are_those_of_a_fine_grid():
    X, y = two_peaks()
    fit = solve(X, y, kappa=0.3)
    maxima = local_maxima(model_data(X, y, kappa=0.3), fit)
    taus = np.linspace(0.002, 0.998, 499)
    llf = np.array([held(X, y, "tau", float(tau), kappa=0.3) for tau in taus])
    inner = np.flatnonzero((llf[1:-1] > llf[:-2]) & (llf[1:-1] > llf[2:])) + 1
    assert len(maxima.points) == inner.size >= 2
    for point in maxima.points:
        nearest = inner[np.argmin(np.abs(taus[inner] - point.tau))]
        assert abs(point.tau - taus[nearest]) < 0.002
        assert point.loglike >= llf[nearest]
        assert point.loglike == pytest.approx(llf[nearest], abs=0.01)
    assert maxima.points[0].loglike == pytest.approx(fit.loglike_restricted, abs=1e-9)
    frame = maxima.to_frame()
    assert list(frame.columns) == ["tau", "llf", "below", "at_bound", "sigma", "x0"]
    assert frame.below.iloc[1] == frame.llf.iloc[0] - frame.llf.iloc[1]
    assert "below" in str(maxima)
    assert f"{maxima.points[1].tau:.4f}" in maxima._repr_html_()


def test_a_maximum_inside_the_bounds_is_shown_beside_the_one_on_a_bound():
    rng = np.random.default_rng(17)
    X = np.column_stack([np.ones(50), rng.normal(size=50)])
    y = X @ [1.0, 2.0] + quantile_huber.rvs(0.25, 1.0, size=50, random_state=rng)
    ordinary = {"kappa": 1.0, "reml": False}
    with pytest.warns(BoundaryWarning):
        fit = solve(X, y, **ordinary)
    maxima = local_maxima(model_data(X, y, **ordinary), fit)
    assert maxima.points[0].tau == 0.001
    assert maxima.at_bound(maxima.points[0])
    assert "highest, on the bound" in str(maxima)
    inside = maxima.interior
    assert inside is maxima.points[1]
    assert 0.1 < inside.tau < 0.2
    assert abs(inside.slope) < 1e-4
    near = solve(X, y, start=solve(X, y, tau=0.2, **ordinary), search=False, **ordinary)
    assert inside.tau == pytest.approx(near.tau, abs=1e-6)
    assert inside.loglike == pytest.approx(near.loglike_restricted, abs=1e-8)


def noisy_line(seed, n, tau, kappa=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    return X, X @ [1.0, 2.0] + quantile_huber.rvs(tau, kappa, size=n, random_state=rng)


def test_maxima_on_both_bounds_are_shown_beside_the_fit():
    X, y = noisy_line(3, 50, 0.25)
    ordinary = {"kappa": 1.0, "reml": False}
    maxima = local_maxima(model_data(X, y, **ordinary), solve(X, y, **ordinary))
    on_bound = [point for point in maxima.points if maxima.at_bound(point)]
    assert [point.tau for point in on_bound] == [0.001, 0.999]
    assert maxima.to_frame().at_bound.sum() == 2
    assert maxima.interior is maxima.points[0]
    for point, inward in zip(on_bound, (0.002, 0.998), strict=True):
        assert point.loglike > held(X, y, "tau", inward, **ordinary)


@pytest.mark.parametrize("seed", [3, 4, 7])
def test_at_the_quantile_loss_maxima_are_those_that_a_grid_tells_apart(seed):
    """At kappa = 0 the profile ripples from row to row."""
    X, y = noisy_line(seed, 40, 0.4)
    maxima = local_maxima(model_data(X, y, kappa=0.0), solve(X, y, kappa=0.0))
    assert len(maxima.points) < 6
    for point in maxima.points:
        beside = [held(X, y, "tau", point.tau + step, kappa=0.0) for step in (-1e-4, 1e-4)]
        assert point.loglike >= max(beside)


def test_with_tau_fixed_there_are_no_maxima_to_compare():
    X, y, _, _ = sample()
    with pytest.raises(DomainError, match=r"tau is fixed at 0\.4"):
        local_maxima(model_data(X, y, tau=0.4), solve(X, y, tau=0.4))


def test_the_whole_range_is_shown_where_another_maximum_is_not_rejected():
    X, y = two_peaks()
    profile = profile_likelihood(model_data(X, y, kappa=0.3), solve(X, y, kappa=0.3), "tau")
    figure = profile.figure()
    assert figure.x[-1] - figure.x[0] > 0.99
    lr = dict(figure.maxima)[profile.maxima.points[1].tau]
    assert lr == pytest.approx(2 * (profile.loglike - profile.maxima.points[1].loglike))
    # the curve is the profile, also far from the estimate
    between = figure.x[(figure.lr < 12) & (figure.x < 0.5)][::5]
    exact = [2 * (profile.loglike - profile._curve(float(t)).loglike) for t in between]
    np.testing.assert_allclose(np.interp(between, figure.x, figure.lr), exact, atol=0.15)
    _, _, fit, data = sample()
    assert np.ptp(profile_likelihood(data, fit, "tau").figure().x) < 0.4


@pytest.mark.filterwarnings("ignore:the coefficient of 0 is not determined")
def test_a_profile_above_its_fit_warns_that_the_fit_is_local():
    X, y = two_peaks()
    local = solve(X, y, kappa=0.3, start=solve(X, y, kappa=0.3, tau=0.1), search=False)
    data = model_data(X, y, kappa=0.3)
    with pytest.warns(ConvergenceWarning, match="local maximum only"):
        profile_likelihood(data, local, "tau", grid=[0.84])


# --- fixed parameters, kappa, identification -------------------------------------------------------


def test_a_fixed_parameter_is_freed_for_its_own_profile():
    X, y = known_law()
    fit = solve(X, y, kappa=1.0)
    profile = profile_likelihood(model_data(X, y, kappa=1.0), fit, "kappa", grid=[])
    free = solve_kappa(X, y).solution
    assert profile.fixed == 1.0
    assert profile.estimate == pytest.approx(free.kappa, rel=1e-3)
    assert profile.loglike == pytest.approx(free.loglike_restricted, abs=1e-7)
    tau_fixed = solve(X, y, kappa=1.0, tau=0.5)
    data = model_data(X, y, kappa=1.0, tau=0.5)
    profile = profile_likelihood(data, tau_fixed, "tau", grid=[])
    assert profile.fixed == 0.5
    assert profile.estimate == pytest.approx(fit.tau, abs=1e-7)


def test_the_limits_of_kappa_are_those_of_brute_force():
    X, y = known_law(3000)
    fit = solve_kappa(X, y).solution
    profile = profile_likelihood(model_data(X, y, kappa=None), fit, "kappa", grid=[])
    made = profile.interval
    assert not made.lower_open
    assert not made.upper_open
    assert made.lower < 2.0 < made.upper
    for limit in (made.lower, made.upper):
        ratio = 2 * (profile.loglike - held(X, y, "kappa", limit))
        assert ratio == pytest.approx(made.cut, abs=1e-6)


def test_where_kappa_is_estimated_it_follows_along_the_profile_of_tau():
    X, y = known_law()
    fit = solve_kappa(X, y).solution
    data = model_data(X, y, kappa=None)
    profile = profile_likelihood(data, fit, "tau", grid=[0.32, 0.38])
    for point in profile.points:
        if point.value in (0.32, 0.38):
            best = solve_kappa(X, y, tau=point.value).solution
            assert point.loglike == pytest.approx(best.loglike_restricted, abs=1e-6)
            assert point.kappa != pytest.approx(fit.kappa, rel=1e-3)
    narrow = profile_likelihood(model_data(X, y, kappa=fit.kappa), fit, "tau", grid=[])
    assert profile.conf_int()[0] <= narrow.conf_int()[0] + 1e-3
    assert profile.conf_int()[1] >= narrow.conf_int()[1] - 1e-3


@pytest.mark.parametrize("param", ["tau", "sigma", 1])
def test_the_width_is_the_best_one_at_the_limits(param):
    _, noise = known_law()
    X = np.column_stack([np.ones(800), np.random.default_rng(0).permutation(noise)])
    y = X.sum(axis=1) + noise
    fit = solve_kappa(X, y).solution
    data = model_data(X, y, kappa=None)
    made = profile_likelihood(data, fit, param, grid=[]).interval
    for limit in (made.lower, made.upper):
        if isinstance(param, str):
            best = solve_kappa(X, y, rank=2, **{param: limit}).solution
        else:
            best = solve_kappa(X[:, :1], y, offset=limit * X[:, 1], rank=2).solution
        ratio = 2 * (fit.loglike_restricted - best.loglike_restricted)
        assert ratio == pytest.approx(made.cut, abs=1e-5)


def test_every_point_looks_at_all_widths():
    """The best width jumps between two maxima on the way to the upper limit."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(235), rng.normal(size=235)])
    y = X @ rng.normal(size=2) + 2 * quantile_huber.rvs(0.3, 1.0, size=235, random_state=rng)
    with pytest.warns(BoundaryWarning, match="kappa ended at 0"):
        fit = solve_kappa(X, y, reml=False)
    data = model_data(X, y, kappa=None, reml=False)
    made = profile_likelihood(data, fit.solution, 1, grid=[]).interval
    best = solve_kappa(X[:, :1], y, offset=made.upper * X[:, 1], reml=False)
    assert best.kappa > 0.1
    assert 2 * (fit.loglike - best.loglike) == pytest.approx(made.cut, abs=1e-6)


def test_where_the_normal_law_is_not_rejected_sigma_is_open_below():
    """With an estimated width every smaller sigma has its kappa: sigma^2 kappa is the variance."""
    X, y = np.ones((300, 1)), stats.norm.ppf((np.arange(300) + 0.5) / 300)
    with pytest.warns(BoundaryWarning, match="infinity"):
        fit = solve_kappa(X, y).solution
    profile = profile_likelihood(model_data(X, y, kappa=None), fit, "sigma", grid=[])
    assert profile.interval.lower_open
    assert profile.interval.lower == 0.0
    assert "open below: nothing down to 0 is rejected" in str(profile)


# --- unusual models --------------------------------------------------------------------------------


UNUSUAL = {
    "quantile loss": {"kappa": 0.0},
    "sigma fixed": {"sigma": 1.0},
    "tau fixed": {"tau": 0.35},
    "both fixed": {"tau": 0.35, "sigma": 1.0},
    "wide zone": {"kappa": 50.0},
    "tau near its bound": {"tau_bounds": (0.4, 0.6)},
    "single precision": {},
    "offset": {},
    "no constant": {},
    "one column": {},
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("param", ["tau", "sigma", "kappa", 0])
def test_profiles_of_unusual_models_hold_against_fits_from_nothing(name, param):
    X, y = regression(150, 2, 11)
    columns = {"no constant": [1], "one column": [0]}.get(name, [0, 1])
    X, options = X[:, columns], dict(UNUSUAL[name])
    if name == "single precision":
        X, y = X.astype(np.float32), y.astype(np.float32)
    if name == "offset":
        options["offset"] = np.sin(np.arange(150.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit = QuantileHuberMLE(y, X, **options).fit()
        profile = fit.profile_likelihood(param, grid=[])
    made = profile.interval
    fixed = options.get(str(param), 4.0 if param == "kappa" else None)
    assert profile.fixed == fixed
    assert made.lower <= profile.estimate <= made.upper
    free = {key: value for key, value in options.items() if key != param}
    free["reml"] = "sigma" not in options
    offset = free.pop("offset", np.zeros(150))
    x, z = X.astype(np.float64), y.astype(np.float64) - offset
    for limit, is_open in ((made.lower, made.lower_open), (made.upper, made.upper_open)):
        if not is_open:
            ratio = 2 * (profile.loglike - held(x, z, param, limit, **free))
            assert ratio == pytest.approx(made.cut, abs=1e-5)


def test_sampling_weights_leave_no_profile_and_the_error_says_what_to_use():
    X, y = regression(100, 2, 0)
    fit = QuantileHuberMLE(y, X, weights=np.linspace(0.5, 2.0, 100)).fit()
    with pytest.raises(DomainError, match="sampling weights replace: use t_test or wald_test"):
        fit.profile_likelihood("tau")


def test_the_profile_of_kappa_ends_where_the_normal_law_does_not_change():
    """Farther out the law that is normal on one side would need a tau beyond its bounds."""
    X, y = noisy_line(1, 150, 0.3)
    data, fit = model_data(X, y), solve(X, y)
    profile = profile_likelihood(data, fit, "kappa", grid=[], alpha=0.01)
    made, top = profile.interval, profile.loglike
    assert made.upper_open
    assert made.upper == math.inf
    for kappa in (100.0, 1000.0, 1e4):
        assert 2 * (top - held(X, y, "kappa", kappa)) < made.cut


# --- constraints -----------------------------------------------------------------------------------


def constrained(constraints, **options):
    X, y = regression(300, 3, 2)
    return X, y, QuantileHuberMLE(y, X, **options).fit_constrained(constraints)


@pytest.mark.parametrize("param", ["tau", "sigma", "x1"])
def test_the_profile_of_equal_coefficients_is_that_of_the_sum_of_their_columns(param):
    X, y, fit = constrained("x1 = x2")
    Z = np.column_stack([X[:, 0], X[:, 1] + X[:, 2]])
    direct = QuantileHuberMLE(y, Z).fit()
    one, two = (each.profile_likelihood(param, cut="chi2") for each in (fit, direct))
    assert one.estimate == pytest.approx(two.estimate, abs=1e-7)
    assert one.df_resid == two.df_resid == 298
    np.testing.assert_allclose(one.conf_int(), two.conf_int(), atol=1e-7)
    frame = one.to_frame()
    np.testing.assert_allclose(frame.x1, frame.x2, atol=1e-10)
    other = fit.profile_likelihood("x2", cut="chi2").conf_int()
    if param == "x1":
        np.testing.assert_allclose(one.conf_int(), other, atol=1e-7)


def test_limits_under_a_constraint_are_those_of_brute_force():
    X, y, fit = constrained("x1 + 2*x2 = 1")
    made = fit.profile_likelihood("x1", grid=[], cut="chi2").interval
    for limit in (made.lower, made.upper):
        offset = limit * X[:, 1] + 0.5 * (1 - limit) * X[:, 2]
        ratio = 2 * (
            fit.llf_restricted - solve(X[:, :1], y, offset=offset, rank=2).loglike_restricted
        )
        assert ratio == pytest.approx(made.cut, abs=1e-7)


def test_what_a_constraint_fixes_has_no_profile_and_an_interval_of_one_value():
    _, _, fit = constrained("x1 = 0.5, tau = 0.4")
    with pytest.raises(DomainError, match=r"fix 'x1'.*profile another"):
        fit.profile_likelihood("x1")
    with pytest.raises(DomainError, match="fix 'tau'"):
        fit.profile_likelihood("tau")
    limits = fit.conf_int(method="profile")
    np.testing.assert_allclose(limits[1], 0.5)
    np.testing.assert_allclose(limits[-1], 0.4)
    assert (limits[[0, 2, 3], 0] < limits[[0, 2, 3], 1]).all()
    fixed = QuantileHuberMLE(
        fit.model.endog - 0.5 * fit.model.exog[:, 1], fit.model.exog[:, [0, 2]], tau=0.4
    ).fit()
    np.testing.assert_allclose(limits[[0, 2, 3]], fixed.conf_int(method="profile"), atol=1e-6)


def test_the_certificate_of_a_constrained_fit_is_about_the_constrained_problem():
    _, _, fit = constrained("x1 = 0")
    certificate = fit.certify_global()
    assert certificate.holds
    assert certificate.upper_bound == pytest.approx(fit.solution.loglike_restricted, abs=1e-5)
    profile = fit.profile_likelihood("tau", certificate=certificate)
    assert (profile.certified(profile.values) >= [p.loglike - 1e-6 for p in profile.points]).all()
    _, _, fit = constrained("sigma = 1.5")
    certificate = fit.certify_global()
    assert certificate.holds
    assert certificate.upper_bound == pytest.approx(fit.solution.loglike_restricted, abs=1e-5)


def test_names_of_columns_are_parameters_and_unknown_ones_are_not():
    X, y, fit, _ = sample()
    data = model_data(X, y, names=["one", "age", "size"])
    profile = profile_likelihood(data, fit, "age", grid=[])
    assert profile.param == "age"
    assert profile.estimate == fit.beta[1]
    with pytest.raises(DomainError, match="one, age, size, sigma, tau, kappa"):
        profile_likelihood(data, fit, "agee")
    with pytest.raises(DomainError, match="3 coefficients"):
        profile_likelihood(data, fit, 3)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.RankWarning")
def test_a_coefficient_that_is_not_identified_has_no_profile_and_others_do():
    X, y, fit, data = sample()
    doubled = np.column_stack([X, 2.0 * X[:, 1]])
    both = solve(doubled, y)
    wide = model_data(doubled, y)
    with pytest.raises(DataError, match="not identified"):
        profile_likelihood(wide, both, 3)
    one = profile_likelihood(wide, both, 2, grid=[]).conf_int()
    two = profile_likelihood(data, fit, 2, grid=[]).conf_int()
    np.testing.assert_allclose(one, two, atol=1e-7)


def test_a_profile_can_be_stored():
    _, _, fit, data = sample()
    profile = profile_likelihood(data, fit, "tau")
    again = pickle.loads(pickle.dumps(profile))
    np.testing.assert_array_equal(again.values, profile.values)
    np.testing.assert_allclose(again.conf_int(0.2), profile.conf_int(0.2), atol=1e-9)


# --- what is proved about every tau ----------------------------------------------------------------


@pytest.mark.parametrize("sigma", [None, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_fit_is_above_the_certified_bound(sigma, weighted):
    X, y = regression(150, 2, 3)
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, y.size).astype(float) if weighted else None
    options = {"sigma": sigma, "weights": weights, "kappa": 0.5}
    fit = solve(X, y, **options)
    certificate = certify_global(X, y, fit, sigma=sigma, weights=weights)
    assert certificate.holds
    data = model_data(X, y, **options)
    profile = profile_likelihood(data, fit, "tau", certificate=certificate)
    taus = np.linspace(0.002, 0.998, 160)
    values = np.array([solve(X, y, tau=float(tau), **options).loglike_restricted for tau in taus])
    bound = profile.certified(taus)
    assert (values <= bound + 1e-7).all()
    # as tight as the certificate: nothing is more than its tolerance above the fit
    dense = profile.certified(np.linspace(0.001, 0.999, 2001))
    assert dense.max() <= fit.loglike_restricted + 2 * certificate.tol
    at_fits = profile.certified(profile.values)
    np.testing.assert_allclose(at_fits, [p.loglike for p in profile.points], atol=1e-5)


def test_the_figure_joins_the_nodes_of_the_certificate_where_the_whole_range_is_shown():
    X, y = two_peaks()
    fit = solve(X, y, kappa=0.3)
    certificate = certify_global(X, y, fit)
    data = model_data(X, y, kappa=0.3)
    profile = profile_likelihood(data, fit, "tau", certificate=certificate)
    near, whole = profile.figure(whole=False), profile.figure(whole=True)
    assert near.x[0] == pytest.approx(profile.values[0])
    assert near.maxima == ()
    np.testing.assert_allclose(whole.x[[0, -1]], [0.001, 0.999], rtol=1e-12)
    assert set(certificate.nodes_tau) <= set(whole.points_x)
    assert (whole.certified <= whole.lr + 0.5).mean() > 0.9
    assert whole.certified.min() >= -4 * certificate.tol
    assert near.wald is None
    assert dict(near.cuts)[0.01] == profile.critical_value(0.01)


def test_without_a_certificate_the_figure_claims_nothing():
    _, _, fit, data = sample()
    figure = profile_likelihood(data, fit, "tau", se=0.03).figure()
    assert figure.certified is None
    np.testing.assert_allclose(figure.wald, ((figure.x - fit.tau) / 0.03) ** 2)


# --- two parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["kappa", "sigma"])
def test_every_point_of_a_surface_is_the_fit_with_both_held(other):
    X, y, fit, data = sample()
    surface = profile_surface(data, fit, ("tau", other), points=7)
    for i, j in ((0, 0), (1, 5), (6, 2), (3, 3)):
        values = {"tau": surface.first[j], other: surface.second[i]}
        assert surface.loglikes[i, j] == pytest.approx(
            solve(X, y, rank=X.shape[1], **values).loglike_restricted, abs=1e-8
        )
    assert surface.loglikes.max() <= surface.loglike
    frame = surface.to_frame()
    row = frame[(frame.tau == surface.first[5]) & (frame[other] == surface.second[1])]
    assert row.llf.item() == surface.loglikes[1, 5]


def test_a_surface_reaches_beyond_the_99_percent_region():
    _, _, fit, data = sample()
    surface = profile_surface(data, fit, ("tau", "sigma"), points=9)
    edge = np.concatenate([surface.lr[0], surface.lr[-1], surface.lr[:, 0], surface.lr[:, -1]])
    assert edge.min() > surface.critical_value(0.01)
    assert surface.critical_value(0.01) == pytest.approx(lr_cut(0.01, 597, df=2))


def test_the_best_of_each_column_of_a_surface_is_the_profile_of_tau():
    _, _, fit, data = sample()
    sigmas = np.linspace(0.8, 1.25, 61) * fit.sigma
    surface = profile_surface(data, fit, ("tau", "sigma"), grids=([0.25, 0.3], sigmas))
    profile = profile_likelihood(data, fit, "tau", grid=[0.25, 0.3])
    wanted = [p.loglike for p in profile.points if p.value in (0.25, 0.3)]
    np.testing.assert_allclose(surface.loglikes.max(axis=0), wanted, atol=0.01)


def test_surfaces_of_other_pairs_are_rejected():
    _, _, fit, data = sample()
    with pytest.raises(DomainError, match="params must be"):
        profile_surface(data, fit, ("sigma", "kappa"))


# --- progress --------------------------------------------------------------------------------------


def test_a_progress_bar_passes_the_items_through(capsys):
    assert with_progress([1, 2], False, "work") == [1, 2]
    assert list(with_progress([1, 2], True, "work")) == [1, 2]
