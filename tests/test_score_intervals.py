"""Intervals that invert the robust score test."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from qhreg import QuantileHuberMLE
from qhreg.covariance import Point, covariance, score_obs, smoothed_bread
from qhreg.distribution import quantile_huber
from qhreg.exceptions import DomainError
from qhreg.observations import Observations
from qhreg.profile_data import profile_data
from qhreg.score_intervals import robust_score_root, score_intervals
from qhreg.score_tests import score_test
from qhreg.solver import solve

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


def test_the_root_is_the_sum_of_effective_scores_over_their_norm(data):
    exog, endog, _ = data
    held = solve(exog[:, :1], endog - 0.4 * exog[:, 1], kappa=1.0)
    point = Point(np.array([held.beta[0], 0.4]), held.sigma, held.tau, 1.0)
    scores, bread = score_obs(exog, endog, point), smoothed_bread(exog, endog, point)
    other = [0, 2, 3]
    carry = np.linalg.solve(bread[np.ix_(other, other)], bread[other, 1])
    effective = scores[:, 1] - scores[:, other] @ carry
    expected = effective.sum() / np.sqrt(effective @ effective)
    root = robust_score_root(Observations(exog, endog), point, FREE, 1)
    assert_allclose(root, expected, rtol=1e-9)
    test = score_test(exog[:, :1], endog - 0.4 * exog[:, 1], held, exog[:, 1], robust=True)
    assert_allclose(root**2, test.statistic, rtol=1e-6)


@pytest.mark.parametrize("param", [0, 1, "sigma", "tau"])
def test_at_the_limits_the_test_is_at_its_level(data, param):
    exog, endog, fit = data
    problem = profile_data(exog, endog)
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
    made = score_intervals(profile_data(exog, endog), fit, search=False)
    se = np.sqrt(covariance("HC1", exog, endog, fit).cov.diagonal())
    params = np.array([*fit.beta, fit.sigma, fit.tau])
    distance = (made - params[:, None]) / se[:, None]
    assert_allclose(distance, np.tile([-1.96, 1.96], (4, 1)), atol=0.15)


def test_clusters_and_lags_widen_the_interval_where_rows_repeat(data):
    exog, endog, _ = data
    x, y = np.repeat(exog, 4, axis=0), np.repeat(endog, 4)
    model = QuantileHuberMLE(y, x)
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
    single = QuantileHuberMLE(endog, exog).fit(cov_type="HC0").conf_int(method="score")
    cluster = fits["cluster"].conf_int(method="score", search=False)
    # the width of the zone in the bread counts 1200 rows here and 300 there
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
    wald, score = fit.conf_int()[0], fit.conf_int(method="score")[0]
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
        limits = score_intervals(profile_data(exog, endog), fit, search=False)
        held.append((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
    assert np.all(np.abs(np.mean(held, axis=0) - 0.95) < 0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cov_type": "nonrobust"}, "cov_type must be one of"), ({"alpha": 2.0}, "alpha must")],
)
def test_bad_options_are_named(data, options, message):
    exog, endog, fit = data
    with pytest.raises(DomainError, match=message):
        score_intervals(profile_data(exog, endog), fit, **options)
