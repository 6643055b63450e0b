"""Intervals that invert the robust score test."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from solver_data import categories

from qhreg import QuantileHuberMLE
from qhreg.covariance import Point, covariance, score_obs, smoothed_bread
from qhreg.covariance.curvature import row_weights
from qhreg.exceptions import BoundaryWarning, CurvatureWarning, DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.inference.robust_score import ScoreVariance, robust_score_root
from qhreg.inference.score_tests import score_test
from qhreg.profile.fits import curve_of
from qhreg.profile.score_intervals import _limit, _Scale, score_intervals
from qhreg.solver import solve
from qhreg.specification.model_data import model_data
from qhreg.specification.observations import Observations

FREE = ("beta", "sigma", "tau")


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal(n)])
    noise = quantile_huber.rvs(0.4, 1.0, size=n, random_state=rng)
    return exog, exog @ [1.0, 0.5] + np.exp(0.4 * exog[:, 1]) * noise


@pytest.fixture(scope="module")
def data():
    exog, endog = draw(300)
    return exog, endog, solve(exog, endog, kappa=1.0)


def held_at(exog, endog, slope):
    """Return the fit with the slope held at a value."""
    held = solve(exog[:, :1], endog - slope * exog[:, 1], kappa=1.0, search=False)
    return held, Point(np.array([held.beta[0], slope]), held.sigma, held.tau, 1.0)


def test_the_root_follows_its_definition(data):
    exog, endog, _ = data
    _, point = held_at(exog, endog, 0.2)
    scores, bread = score_obs(exog, endog, point), smoothed_bread(exog, endog, point)
    other = [0, 2, 3]
    inner, cross = bread[np.ix_(other, other)], bread[other, 1]
    meat = scores[:, other].T @ scores[:, other]

    def penalised(c):
        off = inner @ c - cross
        return off @ np.linalg.solve(meat, off) + 2.75**2 / 300 * c @ meat @ c

    carry = optimize.minimize(penalised, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    effective = scores[:, 1] - scores[:, other] @ carry
    t = effective.sum() / np.sqrt(effective @ effective)
    a = stats.skew(effective) / np.sqrt(300)
    moved = t + a * (2 * t**2 + 1) / 6 + a**2 * t**3 / 27
    df = 2 * 300 / (stats.kurtosis(effective, fisher=False) - 1)
    expected = stats.norm.ppf(stats.t.cdf(moved, df))
    assert abs(expected) > 1.5
    root = robust_score_root(Observations(exog, endog), point, FREE, 1)
    assert_allclose(root, expected, rtol=1e-5)


def test_the_root_approaches_the_robust_score_test():
    exog, endog = draw(20_000, seed=1)
    held, point = held_at(exog, endog, 0.48)
    root = robust_score_root(Observations(exog, endog), point, FREE, 1)
    test = score_test(exog[:, :1], endog - 0.48 * exog[:, 1], held, exog[:, 1], robust=True)
    assert_allclose(abs(root), np.sqrt(test.statistic), atol=0.02)


def test_the_sum_of_skewed_rows_is_calibrated():
    # studentised means of 30 exponential variables: the t quantile rejects in 8 % of the samples
    rows = np.random.default_rng(0).exponential(size=(4000, 30)) - 1.0
    variance = ScoreVariance("HC0", row_weights(None, None, 30))
    plain = rows.sum(axis=1) / np.sqrt((rows**2).sum(axis=1))
    moved = np.array([variance.calibrated(t, row) for t, row in zip(plain, rows, strict=True)])
    assert np.mean(np.abs(plain) > 1.96) > 0.065
    assert np.mean(np.abs(moved) > 1.96) < 0.06
    # both sides alike, which the plain mean is not
    assert np.mean(plain < -1.96) > 5 * np.mean(plain > 1.96)
    assert np.mean(moved < -1.96) < 3 * np.mean(moved > 1.96)


def test_repeated_rows_are_cases_and_sums_of_clusters_are_rows():
    rng = np.random.default_rng(1)
    rows, counts = rng.exponential(size=40), rng.integers(1, 4, 40)
    cases = ScoreVariance("HC0", row_weights(counts, None, 40))
    every = ScoreVariance("HC0", row_weights(None, None, counts.sum()))
    assert_allclose(
        cases.calibrated(1.5, rows), every.calibrated(1.5, np.repeat(rows, counts)), rtol=1e-12
    )
    groups = np.repeat(np.arange(20), 2)
    clusters = ScoreVariance("cluster", row_weights(None, None, 40), groups=groups)
    sums = ScoreVariance("HC0", row_weights(None, None, 20))
    assert_allclose(
        clusters.calibrated(1.5, rows), sums.calibrated(1.5, rows[::2] + rows[1::2]), rtol=1e-12
    )
    series = ScoreVariance("HAC", row_weights(None, None, 40))
    assert series.calibrated(1.5, rows) == 1.5


def test_a_known_parameter_before_the_tested_one_moves_no_other(data):
    exog, endog, fit = data
    point = Point(fit.beta, fit.sigma, fit.tau, 1.0)
    rows = Observations(exog, endog)
    without = robust_score_root(rows, point, ("beta", "sigma", "kappa"), 3)
    known = robust_score_root(rows, point, ("beta", "sigma", "tau", "kappa"), 4, known=("tau",))
    assert known == without


@pytest.mark.parametrize("param", [0, 1, "sigma", "tau"])
def test_at_the_limits_the_test_is_at_its_level(data, param):
    exog, endog, fit = data
    problem = model_data(exog, endog)
    low, high = score_intervals(problem, fit, alpha=0.1, cov_type="HC0", params=[param])[0]
    j = param if isinstance(param, int) else 2 + ("sigma", "tau").index(param)
    for value, sign in ((low, 1.0), (high, -1.0)):
        if isinstance(param, int):
            rest = solve(exog[:, [1 - param]], endog - value * exog[:, param], kappa=1.0)
            beta = np.insert(rest.beta, param, value)
        else:
            rest = solve(exog, endog, kappa=1.0, **{param: value})
            beta = rest.beta
        point = Point(beta, rest.sigma, rest.tau, 1.0)
        root = robust_score_root(Observations(exog, endog), point, FREE, j)
        assert_allclose(sign * root, stats.norm.ppf(0.95), atol=0.02)


def test_limits_approach_those_of_the_sandwich():
    exog, endog = draw(20_000, seed=1)
    fit = solve(exog, endog, kappa=1.0, search=False)
    made = score_intervals(model_data(exog, endog), fit, search=False)
    se = np.sqrt(covariance("HC1", exog, endog, fit).cov.diagonal())
    params = np.array([*fit.beta, fit.sigma, fit.tau])
    distance = (made - params[:, None]) / se[:, None]
    assert_allclose(distance, np.tile([-1.96, 1.96], (4, 1)), atol=0.15)


def test_clusters_and_lags_widen_the_interval_where_rows_repeat(data):
    exog, endog, _ = data
    x, y = np.repeat(exog, 4, axis=0), np.repeat(endog, 4)
    model = QuantileHuberMLE(y, x, kappa=3.0)
    groups = np.repeat(np.arange(300), 4)
    fits = {
        "HC0": model.fit(cov_type="HC0"),
        "cluster": model.fit(
            cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
        ),
        "HAC": model.fit(cov_type="HAC", cov_kwds={"maxlags": 3, "kernel": "uniform"}),
    }
    lengths = {k: np.diff(f.conf_int(method="score", search=False))[1, 0] for k, f in fits.items()}
    assert lengths["cluster"] > 1.5 * lengths["HC0"]
    assert lengths["HAC"] > 1.5 * lengths["HC0"]
    one = QuantileHuberMLE(endog, exog, kappa=3.0)
    single = one.fit(cov_type="HC0").conf_int(method="score")
    cluster = fits["cluster"].conf_int(method="score", search=False)
    # the width of the zone in the bread counts 1200 rows here and 300 there, which matters less than
    # the width of the fit
    assert_allclose(cluster, single, atol=0.1 * np.diff(single).min())


def test_weights_count_as_in_the_covariance(data):
    exog, endog, _ = data
    f = np.random.default_rng(0).integers(1, 4, 300)
    weighted = QuantileHuberMLE(endog, exog, freq_weights=f).fit(cov_type="HC1")
    repeated = QuantileHuberMLE(np.repeat(endog, f), np.repeat(exog, f, axis=0)).fit(cov_type="HC1")
    ours = weighted.conf_int(method="score", search=False)
    theirs = repeated.conf_int(method="score", search=False)
    assert_allclose(ours, theirs, atol=0.02 * np.diff(theirs).min())
    w = np.random.default_rng(1).uniform(0.2, 3.0, 300)
    one, other = (
        QuantileHuberMLE(endog, exog, weights=scale * w)
        .fit()
        .conf_int(method="score", search=False)
        for scale in (1.0, 50.0)
    )
    assert_allclose(one, other, rtol=1e-3)


def test_a_fixed_tau_has_score_intervals_for_the_rest(data):
    exog, endog, _ = data
    fit = QuantileHuberMLE(endog, exog, tau=0.4).fit()
    made = fit.conf_int(method="score")
    assert made.shape == (3, 2)
    assert np.all((made[:, 0] < fit.params) & (fit.params < made[:, 1]))


def test_skewed_noise_gives_a_finite_interval_where_wald_gives_none():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(200), rng.standard_normal(200)])
    rng.standard_t(3, 200)
    endog = exog @ [1.0, 0.5] + rng.gamma(2.0, size=200)
    fit = QuantileHuberMLE(endog, exog).fit(cov_type="HC1")
    with pytest.warns(CurvatureWarning, match=r'HC1 .* prefer conf_int\(method="score"\)'):
        wald = fit.conf_int()[0]
    for numbers in ("bse", "pvalues"):  # through the wrapper of statsmodels and a cached property
        fit = QuantileHuberMLE(endog, exog).fit(cov_type="HC1")
        with pytest.warns(CurvatureWarning) as caught:
            getattr(fit, numbers)
        assert [warning.filename for warning in caught] == [__file__]
    assert "indefinite: prefer score intervals" in str(fit.summary()).replace("\n    ", " ")
    score = fit.conf_int(method="score")[0]
    assert wald[1] - wald[0] > 30.0
    assert score[1] - score[0] < 1.5


@pytest.mark.slow
def test_score_intervals_hold_their_level_with_gamma_noise():
    # 120 samples: the standard error of the coverage is 2 points
    rng = np.random.default_rng(5)
    law = stats.gamma(2.0).ppf((np.arange(20_000) + 0.5) / 20_000)
    limit = solve(np.ones((20_000, 1)), law, kappa=1.0, search=False)
    truth = np.array([limit.beta[0], 0.0, limit.sigma, limit.tau])
    held = []
    for _ in range(120):
        exog = np.column_stack([np.ones(500), rng.standard_normal(500)])
        endog = rng.gamma(2.0, size=500)
        fit = solve(exog, endog, kappa=1.0, search=False)
        limits = score_intervals(model_data(exog, endog), fit, search=False)
        held.append((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
    assert np.all(np.abs(np.mean(held, axis=0) - 0.95) < 0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cov_type": "nonrobust"}, "cov_type must be one of"), ({"alpha": 2.0}, "alpha must")],
)
def test_bad_options_are_named(data, options, message):
    exog, endog, fit = data
    with pytest.raises(DomainError, match=message):
        score_intervals(model_data(exog, endog), fit, **options)


def test_as_many_parameters_as_rows_have_no_score_interval():
    exog, endog = draw(3)
    fit = QuantileHuberMLE(endog, exog, kappa=0.3, tau=0.4).fit()
    with pytest.raises(DataError, match="HC1 needs more observations than parameters, got 3 and 3"):
        fit.conf_int(method="score")


def test_an_interval_leaves_a_fit_on_the_bound_of_tau():
    # sigma is nearly zero there; steps in proportion to it would stop after a thousandth
    rng = np.random.default_rng(13)
    exog = np.column_stack([np.ones(100), rng.standard_normal(100)])
    endog = exog @ [1.0, 0.5] + rng.gamma(2.0, size=100)
    with pytest.warns(BoundaryWarning):
        fit = solve(exog, endog, kappa=1.0)
    assert fit.tau_at_bound
    low, high = score_intervals(model_data(exog, endog), fit, params=[0])[0]
    assert high - fit.beta[0] > 20.0 * fit.sigma
    assert low < fit.beta[0]


@pytest.mark.parametrize("seed", [14, 24, 35, 114, 294])
def test_rare_categories_ties_and_several_best_fits(seed):
    # roots without a bracket, singular matrices, a sigma out of range
    exog, endog, task = categories(seed)
    cases = task.pop("weights")
    options = {name: value for name, value in task.items() if value is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        warnings.simplefilter("ignore", CurvatureWarning)
        fit = QuantileHuberMLE(endog, exog, freq_weights=cases, **options).fit()
        limits = np.asarray(fit.conf_int(method="score"))
    known = ~np.isnan(limits[:, 0])
    assert np.count_nonzero(known) >= exog.shape[1] - 1
    estimate, (low, high) = np.asarray(fit.params)[known], limits[known].T
    room = 1e-6 * np.abs(estimate)
    assert np.all((low <= estimate + room) & (estimate <= high + room))


def test_a_score_that_is_not_zero_at_the_fit_has_no_interval():
    rng = np.random.default_rng(0)
    group = np.arange(60) % 2
    endog = np.where(rng.random(60) < 0.8, 0.0, rng.exponential(size=60))
    exog = np.column_stack([np.ones(60), group])
    fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=0.5).fit()
    with pytest.warns(CurvatureWarning, match="kappa > 0 or the bootstrap give one"):
        limits = np.asarray(fit.conf_int(method="score"))
    assert np.isnan(limits[0]).all()


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.filterwarnings("ignore:the score of (coef|kap).*:qhreg.exceptions.CurvatureWarning")
def test_the_interval_of_a_small_sigma_beside_a_tau_on_its_bound_holds_it():
    rng = np.random.default_rng(0)
    noise = rng.standard_exponential(40)  # one-sided: sigma is about a thousandth of the spread
    fit = QuantileHuberMLE(1.0 + noise, np.ones(40), kappa=None).fit()
    assert fit.kappa_limit == "laplace"
    assert fit.sigma < 0.01 * noise.std()
    for method in ("score", "profile"):
        low, high = fit.conf_int(method=method)[1]
        assert low <= fit.sigma <= high


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_a_kappa_without_an_upper_end_leaves_the_other_limits_where_the_test_rejects():
    rng = np.random.default_rng(4)
    noise = quantile_huber.rvs(0.7, 1.0, size=60, random_state=rng)
    endog = noise * (1.0 + 0.5 * rng.exponential(size=60))
    fit = QuantileHuberMLE(endog, np.ones(60), kappa=None).fit()
    assert fit.kappa_limit == "one-sided"
    limits = np.asarray(fit.conf_int(method="score"))
    data, variance = fit._fit_data, ScoreVariance("HC1", row_weights(None, None, 60), 4)

    def rejects(name, value):
        found = curve_of(data, fit.solution, name)(value)
        point = Point(found.beta, found.sigma, found.tau, found.kappa)
        ends = {"tau": found.tau > 0.998, "kappa": found.kappa == 0.0}
        known = tuple(each for each in ends if ends[each] and each != name)
        j = data.space.position(name)
        root = robust_score_root(data.observations, point, data.space.free, j, variance, known)
        return abs(root) > stats.norm.ppf(0.975)

    (_, sigma), (tau, _) = limits[1:3]
    assert fit.sigma < sigma < 10.0 * fit.sigma
    assert 0.1 < tau < fit.tau
    assert [rejects("sigma", value * sigma) for value in (0.95, 1.05)] == [False, True]
    assert [rejects("tau", value * tau) for value in (0.95, 1.05)] == [True, False]


def test_a_sigma_that_no_test_rejects_has_an_open_end():
    scale = _Scale("sigma")
    upper = _limit(lambda t: 0.0, scale, 0.0, 0.5, math.inf, 2.0)
    lower = _limit(lambda t: 0.0, scale, 0.0, -0.5, -math.inf, 2.0)
    assert (scale.back(lower), scale.back(upper)) == (0.0, math.inf)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_where_no_width_is_too_large_score_and_profile_intervals_have_the_same_open_ends():
    rng = np.random.default_rng(6)
    noise = quantile_huber.rvs(0.7, 1.0, size=60, random_state=rng)
    endog = noise * (1.0 + 0.5 * rng.exponential(size=60))
    fit = QuantileHuberMLE(endog, np.ones(60), kappa=None).fit()
    score, profile = (np.asarray(fit.conf_int(method=m)) for m in ("score", "profile"))
    assert score[-1, 1] == profile[-1, 1] == math.inf
    assert score[1, 0] == profile[1, 0] == 0.0
