"""Expected information, scores, Hessian, bread and covariance matrices."""

import itertools
import re
from dataclasses import replace

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.stats import sandwich_covariance as sw
from statsmodels.tools.numdiff import approx_fprime

from qhreg.covariance import (
    Point,
    bread_width,
    covariance,
    design_moments,
    expected_information,
    information_ratio,
    observed_hessian,
    score_obs,
    smoothed_bread,
)
from qhreg.covariance.information import PARAMETERS, unit_information
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.solver import solve

PAIRS = list(itertools.combinations_with_replacement(PARAMETERS, 2))
ALL = PARAMETERS


def draw(n, kappa=1.0, tau=0.3, seed=0, p=2):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    noise = quantile_huber.rvs(tau, kappa, size=n, random_state=rng)
    return exog, exog @ np.arange(1.0, p + 1.0) + 2.0 * noise


def score_products_by_quadrature(tau, kappa):
    """Return E[s_a s_b] for every pair, by 20-digit quadrature between the kinks."""
    with mp.workdps(20):
        t, k = mp.mpf(tau), mp.mpf(kappa)
        s = 1 - t
        cuts = [-k * t - 40 / t, -k * t - 5 / t, -k * t, 0, k * s, k * s + 5 / s, k * s + 40 / s]
        cuts += [z * mp.sqrt(k) for z in (-8, -3, 3, 8)] if k > 50 else []
        cuts = [-mp.inf, *sorted(set(cuts)), mp.inf]

        def psi(u):
            return (-t if u < 0 else s) if k == 0 else max(-t, min(s, u / k))

        def density(u):
            return mp.exp(-(u * psi(u) - k * psi(u) ** 2 / 2))

        total = mp.quad(density, cuts)

        def mean(f):
            return mp.quad(lambda u: f(u) * density(u), cuts) / total

        def excess(u):
            return u - max(-k * t, min(k * s, u))

        mean_excess, half_square = mean(excess), mean(lambda u: psi(u) ** 2) / 2
        scores = {
            "beta": psi,
            "sigma": lambda u: u * psi(u) - 1,
            "tau": lambda u: excess(u) - mean_excess,
            "kappa": lambda u: psi(u) ** 2 / 2 - half_square,
        }

        def product(a, b):
            return float(mean(lambda u: scores[a](u) * scores[b](u)))

        return {(a, b): product(a, b) for a, b in PAIRS}


@pytest.mark.parametrize(
    ("tau", "kappa"),
    [(0.3, 0.0), (0.3, 1e-6), (0.1, 0.05), (0.5, 0.25), (0.9, 1.0), (0.3, 5.0), (0.7, 300.0)],
)
def test_information_is_the_integral_of_the_score_products(tau, kappa):
    expected = score_products_by_quadrature(tau, kappa)
    unit = unit_information(tau, kappa)
    for (a, b), value in expected.items():
        assert_allclose(unit.of(a, b), value, rtol=3e-15, atol=1e-18, err_msg=f"{a} {b}")


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.0), (0.1, 0.25), (0.6, 4.0)])
def test_information_is_the_average_of_simulated_score_products(tau, kappa):
    rng = np.random.default_rng(1)
    n = 200_000
    exog = np.column_stack([np.ones(n), rng.uniform(-1, 2, n)])
    noise = quantile_huber.rvs(tau, kappa, size=n, random_state=rng)
    point = Point(np.array([1.0, -2.0]), 1.7, tau, kappa)
    endog = exog @ point.beta + point.sigma * noise
    scores = score_obs(exog, endog, point, free=ALL)
    info = expected_information(exog, 1.7, tau, kappa, free=ALL)
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) * np.sqrt(n)
    assert np.all(np.abs(products.sum(axis=0) - info) < 4.5 * error)


@pytest.mark.parametrize("tau", [0.01, 0.3, 0.5, 0.93])
@pytest.mark.parametrize("kappa", [0.0, 1e-12, 1e-3, 1.0, 10.0, 100.0])
def test_information_on_beta_sigma_tau_is_positive_definite(tau, kappa):
    exog, _ = draw(50)
    info = expected_information(exog, 2.0, tau, kappa)
    scale = np.sqrt(info.diagonal())
    assert np.linalg.eigvalsh(info / np.outer(scale, scale)).min() > 1e-4


@pytest.mark.parametrize("tau", [0.02, 0.3])
def test_information_is_positive_definite_at_an_enormous_width(tau):
    exog, _ = draw(50)
    info = expected_information(exog, 2.0, tau, 1e4)
    scale = np.sqrt(info.diagonal())
    assert scale.min() > 0.0
    assert np.linalg.eigvalsh(info / np.outer(scale, scale)).min() > 1e-4


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.5])
def test_information_is_continuous_at_kappa_zero(tau):
    exog, _ = draw(20)
    at_zero = expected_information(exog, 1.0, tau, 0.0, free=ALL)
    near = expected_information(exog, 1.0, tau, 1e-9, free=ALL)
    assert_allclose(near, at_zero, rtol=2e-8, atol=1e-6)


def test_nothing_is_known_about_kappa_at_the_symmetric_laplace_law():
    assert unit_information(0.5, 0.0).kappa_kappa == 0.0
    assert 0.0 < unit_information(0.5, 1e-12).kappa_kappa < 1e-12


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.2), (0.8, 3.0)])
def test_second_derivatives_of_log_c_are_derivatives_of_the_first(tau, kappa):
    unit = unit_information(tau, kappa)
    h = 1e-5
    up, down = unit_information(tau, kappa + h), unit_information(tau, kappa - h)
    assert_allclose(unit.log_c_tau_kappa, (up.log_c_tau - down.log_c_tau) / (2 * h), rtol=1e-8)
    assert_allclose(unit.log_c_kappa2, (up.log_c_kappa - down.log_c_kappa) / (2 * h), rtol=1e-8)


def test_information_of_moments_equals_information_of_the_data():
    exog, _ = draw(40_000, p=6)
    w = np.random.default_rng(0).integers(1, 4, 40_000)
    direct = expected_information(exog, 1.3, 0.2, 0.5, weights=w)
    assert_array_equal(direct, expected_information(design_moments(exog, w), 1.3, 0.2, 0.5))
    assert_allclose(direct, expected_information(np.repeat(exog, w, axis=0), 1.3, 0.2, 0.5))
    u = unit_information(0.2, 0.5)
    assert_allclose(direct[:6, :6], u.beta_beta * (exog.T * w) @ exog / 1.3**2, rtol=1e-12)
    assert_allclose(direct[:6, 6], u.beta_sigma * w @ exog / 1.3**2, rtol=1e-12, atol=1e-9)
    with pytest.raises(DataError, match="weights"):
        expected_information(design_moments(exog), 1.0, 0.2, 0.5, weights=w)


def loglikeobs(params, exog, endog):
    k = exog.shape[1]
    tau, kappa, sigma = params[k + 1], params[k + 2], params[k]
    return quantile_huber.logpdf(endog, tau, kappa, loc=exog @ params[:k], scale=sigma)


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.05), (0.7, 1.0), (0.45, 6.0)])
def test_score_is_the_derivative_of_the_log_likelihood(tau, kappa):
    exog, endog = draw(60, kappa, tau, seed=3)
    params = np.array([0.9, 2.2, 1.8, tau, kappa])
    point = Point(params[:2], *params[2:])
    numeric = approx_fprime(params, loglikeobs, args=(exog, endog), centered=True)
    analytic = score_obs(exog, endog, point, free=ALL)
    # A row within the step of the edge of the zone has a kink between the two evaluations.
    assert_allclose(analytic, numeric, rtol=1e-4, atol=2e-4)
    w = np.arange(60.0)
    assert_allclose(
        score_obs(exog, endog, point, free=ALL, weights=w), analytic * w[:, None], rtol=1e-14
    )
    shifted = score_obs(exog, endog + 5.0, point, free=ALL, offset=np.full(60, 5.0))
    assert_allclose(shifted, analytic, atol=1e-12)


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.25), (0.7, 1.0), (0.45, 6.0)])
def test_hessian_is_the_derivative_of_the_score(tau, kappa):
    exog, endog = draw(60, kappa, tau, seed=4)
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    params = np.array([0.9, 2.2, 1.8, tau, kappa])

    def score(q):
        return score_obs(exog, endog, Point(q[:2], *q[2:]), free=ALL, weights=w).sum(axis=0)

    h = 1e-7
    u = (endog - exog @ params[:2]) / 1.8
    edge = np.minimum(np.abs(u + kappa * tau), np.abs(u - kappa * (1 - tau))).min()
    assert edge > 20 * h, "no row may cross the edge of the zone within the step"
    numeric = np.column_stack(
        [(score(params + h * e) - score(params - h * e)) / (2 * h) for e in np.eye(5)]
    )
    point = Point(params[:2], *params[2:])
    hessian = observed_hessian(exog, endog, point, free=ALL, weights=w)
    assert_allclose(hessian, numeric, rtol=1e-5, atol=1e-5)
    part = observed_hessian(exog, endog, point, free=("beta", "tau"), weights=w)
    assert_allclose(part, hessian[np.ix_([0, 1, 3], [0, 1, 3])])


def test_bread_at_the_width_of_the_fit_is_minus_the_hessian():
    exog, endog = draw(100)
    fit = solve(exog, endog, kappa=1.0, search=False)
    bread = smoothed_bread(exog, endog, fit, free=ALL, width=1.0)
    assert_allclose(bread, -observed_hessian(exog, endog, fit, free=ALL), rtol=1e-13)


@pytest.mark.parametrize("kappa", [0.0, 0.25])
def test_bread_approaches_the_information_when_the_model_holds(kappa):
    exog, endog = draw(200_000, kappa, 0.3, seed=5)
    point = Point(np.array([1.0, 2.0]), 2.0, 0.3, kappa)
    bread = smoothed_bread(exog, endog, point, width=max(kappa, 0.1))
    info = expected_information(exog, 2.0, 0.3, kappa)
    scale = np.sqrt(info.diagonal())
    assert_allclose(bread / np.outer(scale, scale), info / np.outer(scale, scale), atol=0.05)


def test_bread_counts_rows_in_the_zone_widened_by_the_same_amount_on_both_sides():
    for kappa in (0.0, 0.25):
        exog, endog = draw(300, kappa)
        fit = solve(exog, endog, kappa=kappa, search=False)
        u = (endog - exog @ fit.beta) / fit.sigma
        low, high = np.quantile(u, [0.25, 0.75], method="averaged_inverted_cdf")
        spread = min(u.std(), (high - low) / 1.349)
        width = bread_width(kappa, 300, fit.tau, spread)
        assert width > kappa
        extra = (width - kappa) / 2
        near = exog[(u > -kappa * fit.tau - extra) & (u < kappa * (1 - fit.tau) + extra)]
        bread = smoothed_bread(exog, endog, fit)
        assert_allclose(bread[:2, :2], near.T @ near / (width * fit.sigma**2), rtol=1e-12)


def test_width_is_that_of_the_fit_and_three_fifths_of_hall_and_sheathers():
    q, n = 0.7, 400
    z = stats.norm.ppf(q)
    h = n ** (-1 / 3) * stats.norm.ppf(0.975) ** (2 / 3)
    h *= (1.5 * stats.norm.pdf(z) ** 2 / (2 * z**2 + 1)) ** (1 / 3)
    expected = 0.6 * 1.7 * (stats.norm.ppf(q + h) - stats.norm.ppf(q - h))
    assert_allclose(bread_width(0.0, n, 1 - q, 1.7), expected, rtol=1e-6)
    assert_allclose(bread_width(5.0, n, 1 - q, 1.7), np.hypot(5.0, expected), rtol=1e-6)
    for tau in (1e-3, 0.01, 0.999):
        assert 0.0 < bread_width(0.0, 50, tau, 1.0) < 10.0


def test_nonrobust_covariance_is_the_inverse_information():
    exog, endog = draw(200)
    fit = solve(exog, endog, kappa=1.0, search=False)
    for free in [("beta", "sigma", "tau"), ("beta",), ("beta", "tau"), ALL]:
        estimate = covariance("nonrobust", exog, endog, fit, free=free)
        info = expected_information(exog, fit.sigma, fit.tau, fit.kappa, free=free)
        assert_allclose(estimate.cov @ info, np.eye(len(info)), atol=1e-8)
        assert estimate.free == free
        assert estimate.held_fixed == ()


def test_collinear_raw_columns_lose_no_digits():
    rng = np.random.default_rng(0)
    year = 1900.0 + rng.uniform(0, 120, 400)
    centred = (year - 1960.0) / 100.0
    good = np.column_stack([np.ones(400), centred, centred**2, centred**3])
    raw = np.column_stack([np.ones(400), year, year**2, year**3])
    endog = good.sum(axis=1) + quantile_huber.rvs(0.3, 1.0, size=400, random_state=rng)
    fit = solve(good, endog, kappa=1.0, search=False)
    # Coefficients of the cubic in `year` with the same fitted values.
    shift, size = -1960.0 / 100.0, 1.0 / 100.0
    mix = np.array(
        [
            [1, shift, shift**2, shift**3],
            [0, size, 2 * size * shift, 3 * size * shift**2],
            [0, 0, size**2, 3 * size**2 * shift],
            [0, 0, 0, size**3],
        ]
    )
    for cov_type in ("nonrobust", "HC1"):
        expected = covariance(cov_type, good, endog, fit).cov
        point = Point(mix @ fit.beta, fit.sigma, fit.tau, fit.kappa)
        actual = covariance(cov_type, raw, endog, point).cov
        se = np.sqrt(
            np.append((mix @ expected[:4, :4] @ mix.T).diagonal(), expected[4:, 4:].diagonal())
        )
        assert_allclose(np.sqrt(actual.diagonal()), se, rtol=1e-6)


def test_rows_that_the_exact_fit_interpolates_are_known_in_raw_units_too():
    rng = np.random.default_rng(12)
    x = rng.normal(size=60)
    endog = 0.5 * x + rng.laplace(size=60)
    found = {}
    for origin in (0.0, 1e6):
        exog = np.column_stack([np.ones(60), x + origin])
        fit = solve(exog, endog, kappa=0.0, tau=0.05)
        score = score_obs(exog, endog, fit, free=("beta",))
        assert np.count_nonzero(score[:, 0] == 0.0) == 2
        cov = covariance("HC1", exog, endog, fit, free=("beta", "sigma")).cov
        found[origin] = np.sqrt(cov.diagonal())[1:]
    assert_allclose(found[1e6], found[0.0], rtol=1e-7)


def test_covariance_with_dependent_columns_is_that_of_the_shortest_coefficients():
    exog, endog = draw(300, p=3)
    fit = solve(exog, endog, kappa=1.0, search=False)
    doubled = np.column_stack([exog, 2.0 * exog[:, 1]])
    point = Point(
        np.array([fit.beta[0], fit.beta[1] / 5, fit.beta[2], 2 * fit.beta[1] / 5]),
        fit.sigma,
        fit.tau,
        fit.kappa,
    )
    share = np.array([[1, 0, 0], [0, 0.2, 0], [0, 0, 1], [0, 0.4, 0]])
    for cov_type in ("nonrobust", "HC0"):
        plain = covariance(cov_type, exog, endog, fit).cov
        expected = share @ plain[:3, :3] @ share.T
        assert_allclose(
            covariance(cov_type, doubled, endog, point).cov[:4, :4], expected, atol=1e-12
        )


@pytest.mark.parametrize("kappa", [0.0, 0.25, 4.0])
@pytest.mark.parametrize("cov_type", ["HC1", "cluster", "HAC"])
def test_one_pass_and_orthonormal_columns_give_the_same_sandwich(kappa, cov_type, monkeypatch):
    exog, endog = draw(500, kappa, seed=2, p=4)
    fit = solve(exog, endog, kappa=kappa, search=False)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 500)
    extra = {"groups": np.arange(500) % 40} if cov_type == "cluster" else {}
    for given in ({}, {"weights": weights}):
        quick = covariance(cov_type, exog, endog, fit, **given, **extra)
        with monkeypatch.context() as patch:
            patch.setattr("qhreg.covariance.slices.WELL_CONDITIONED", 2.0)
            inner = covariance(cov_type, exog, endog, fit, **given, **extra)
            patch.setattr("qhreg.covariance.slices.gram_factor", lambda gram: None)
            careful = covariance(cov_type, exog, endog, fit, **given, **extra)
        for other in (inner, careful):
            assert_allclose(quick.cov, other.cov, rtol=1e-9, atol=1e-14)


def test_meat_is_the_sum_of_the_score_products():
    exog, endog = draw(300, 0.25, seed=6)
    rng = np.random.default_rng(1)
    f, w = rng.integers(1, 4, 300), rng.uniform(0.5, 2.0, 300)
    fit = solve(exog, endog, kappa=0.25, weights=f * w, search=False)
    ratio = information_ratio(exog, endog, fit, freq_weights=f, weights=w, width=1.0)
    scores = score_obs(exog, endog, fit, weights=w)
    meat = (scores.T * f) @ scores
    bread = smoothed_bread(exog, endog, fit, weights=f * w, width=1.0)
    expected = np.linalg.solve(bread, meat)
    assert_allclose(ratio.trace(), expected.trace(), rtol=1e-9)
    assert_allclose(np.linalg.det(ratio), np.linalg.det(expected), rtol=1e-7)


def test_known_residuals_change_nothing(sample):
    exog, endog, fit, _ = sample
    offset = np.linspace(-1.0, 1.0, endog.size)
    resid = endog - offset - exog @ fit.beta
    plain = covariance("HC1", exog, endog, fit, offset=offset)
    known = covariance("HC1", exog, endog, fit, offset=offset, resid=resid)
    assert_allclose(known.cov, plain.cov, rtol=1e-12)
    assert_array_equal(resid, endog - offset - exog @ fit.beta)
    with pytest.raises(DataError, match="resid must have shape"):
        covariance("HC1", exog, endog, fit, resid=resid[1:])


@pytest.fixture(scope="module")
def sample():
    exog, endog = draw(240, 0.25, seed=8)
    rng = np.random.default_rng(3)
    groups = np.column_stack([rng.integers(0, 30, 240) * 7 - 50, rng.integers(0, 12, 240)])
    fit = solve(exog, endog, kappa=0.25, search=False)
    return exog, endog, fit, groups


def tuple_of(exog, endog, fit):
    bread = smoothed_bread(exog, endog, fit)
    return score_obs(exog, endog, fit), np.linalg.inv(bread)


def test_sandwiches_agree_with_statsmodels_on_the_same_scores_and_bread(sample):
    exog, endog, fit, groups = sample
    both = tuple_of(exog, endog, fit)
    pairs = [
        (covariance("HC0", exog, endog, fit), sw.cov_white_simple(both, use_correction=False)),
        (covariance("HC1", exog, endog, fit), sw.cov_white_simple(both, use_correction=True)),
        (
            covariance("HAC", exog, endog, fit, maxlags=3, kernel="uniform"),
            sw.cov_hac_simple(both, 3, sw.weights_uniform, use_correction=False),
        ),
        (
            covariance("HAC", exog, endog, fit, use_correction=True),
            sw.cov_hac_simple(both, None, use_correction=True),
        ),
        (
            covariance("cluster", exog, endog, fit, groups=groups[:, 0]),
            sw.cov_cluster(both, groups[:, 0] + 50),
        ),
        (
            covariance("cluster", exog, endog, fit, groups=groups[:, 1], use_correction=False),
            sw.cov_cluster(both, groups[:, 1], use_correction=False),
        ),
        (
            covariance("cluster", exog, endog, fit, groups=groups),
            sw.cov_cluster_2groups(both, groups + 50)[0],
        ),
    ]
    for ours, theirs in pairs:
        assert_allclose(ours.cov, theirs, rtol=1e-9, atol=1e-15)
    variances = [ours.cov[1, 1] for ours, _ in pairs]
    assert len({round(v, 12) for v in variances}) == len(variances), "every type differs"


def test_groups_may_be_strings_a_pair_or_a_table(sample):
    exog, endog, fit, groups = sample
    expected = covariance("cluster", exog, endog, fit, groups=groups)
    labels = [np.array([f"g{v}" for v in column]) for column in groups.T]
    assert_allclose(covariance("cluster", exog, endog, fit, groups=labels).cov, expected.cov)
    table = pd.DataFrame({"a": labels[0], "b": groups[:, 1]})
    assert_allclose(covariance("cluster", exog, endog, fit, groups=table).cov, expected.cov)
    assert expected.df_inference == 11
    assert expected.options["n_groups"] == (30, 12)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "cluster"])
def test_freq_weights_equal_repeated_rows(sample, cov_type):
    exog, endog, fit, groups = sample
    f = np.random.default_rng(0).integers(1, 4, endog.size)
    # Quartiles of weighted rows and of repeated rows differ by an interpolation: fix the width.
    fixed = {} if cov_type == "nonrobust" else {"width": 1.5}
    extra = fixed | ({"groups": groups} if cov_type == "cluster" else {})
    weighted = covariance(cov_type, exog, endog, fit, freq_weights=f, **extra)
    extra = fixed | ({"groups": np.repeat(groups, f, axis=0)} if cov_type == "cluster" else {})
    repeated = covariance(cov_type, np.repeat(exog, f, axis=0), np.repeat(endog, f), fit, **extra)
    assert_allclose(weighted.cov, repeated.cov, rtol=1e-10, atol=1e-14)


def test_probability_weights_have_no_scale_and_are_not_cases(sample):
    exog, endog, fit, _ = sample
    w = np.random.default_rng(0).uniform(0.2, 3.0, endog.size)
    one = covariance("HC1", exog, endog, fit, weights=w)
    assert_allclose(covariance("HC1", exog, endog, fit, weights=100 * w).cov, one.cov, rtol=1e-10)
    cases = covariance("HC1", exog, endog, fit, freq_weights=w)
    assert abs(cases.cov[1, 1] / one.cov[1, 1] - 1) > 0.05
    twice = np.full(endog.size, 2.0)
    both = covariance("HC1", exog, endog, fit, weights=w, freq_weights=twice, width=1.7)
    one = covariance("HC1", exog, endog, fit, weights=w, width=1.7)
    assert_allclose(both.cov * 2 / (480 / 476), one.cov / (240 / 236), rtol=1e-10)
    with pytest.raises(DomainError, match="sampling weights"):
        covariance("nonrobust", exog, endog, fit, weights=w)


def test_rows_without_weight_do_not_count(sample):
    exog, endog, fit, _ = sample
    w = (np.arange(endog.size) % 5 > 0).astype(float)
    keep = w > 0
    for name in ("weights", "freq_weights"):
        part = covariance("HC1", exog, endog, fit, width=1.5, **{name: w})
        kept = covariance("HC1", exog[keep], endog[keep], fit, width=1.5)
        assert_allclose(part.cov, kept.cov, rtol=1e-10)


def test_offset_is_part_of_the_location(sample):
    exog, endog, fit, _ = sample
    shift = np.linspace(-5, 5, endog.size)
    moved = covariance("HC0", exog, endog + shift, fit, offset=shift)
    assert_allclose(moved.cov, covariance("HC0", exog, endog, fit).cov, rtol=1e-9)


def test_tau_on_a_bound_is_treated_as_known(sample):
    exog, endog, fit, _ = sample
    at_bound = replace(fit, tau_at_bound=True)
    for cov_type in ("nonrobust", "HC1"):
        estimate = covariance(cov_type, exog, endog, at_bound)
        fixed = covariance(cov_type, exog, endog, fit, free=("beta", "sigma"))
        assert_allclose(estimate.cov[:3, :3], fixed.cov, rtol=1e-12)
        assert_array_equal(estimate.cov[3], 0.0)
        assert estimate.held_fixed == ("tau",)
        assert "tau ended on its bound" in estimate.description


def test_a_parameter_the_data_say_nothing_about_is_treated_as_known():
    exog, endog = draw(100)
    point = Point(np.array([1.0, 2.0]), 0.05, 0.5, 1e4)
    estimate = covariance("nonrobust", exog, endog, point)
    assert estimate.held_fixed == ("tau",)
    assert "not determined" in estimate.description
    least_squares = 0.05**2 * 1e4 * np.linalg.inv(exog.T @ exog)
    assert_allclose(estimate.cov[:2, :2], least_squares, rtol=1e-3)
    laplace = Point(np.array([1.0, 2.0]), 1.0, 0.5, 0.0)
    estimate = covariance("nonrobust", exog, endog, laplace, free=ALL)
    assert estimate.held_fixed == ("kappa",)


def test_a_width_can_be_given(sample):
    exog, endog, fit, _ = sample
    wide, default = (
        covariance("HC0", exog, endog, fit, width=3.0),
        covariance("HC0", exog, endog, fit),
    )
    assert wide.bread_width == 3.0
    assert 0.25 < default.bread_width < 3.0
    assert wide.cov[1, 1] != default.cov[1, 1]
    assert covariance("HC0", exog, endog, fit, width=0.1).bread_width == 0.25


def test_width_counts_cases(sample):
    exog, endog, fit, _ = sample
    f = np.random.default_rng(0).integers(1, 4, endog.size)
    one = covariance("HC0", exog, endog, fit, freq_weights=f)
    other = covariance("HC0", np.repeat(exog, f, axis=0), np.repeat(endog, f), fit)
    assert_allclose(one.bread_width, other.bread_width, rtol=0.02)


@pytest.mark.parametrize(
    ("cov_type", "options", "error", "message"),
    [
        ("HC4", {}, DomainError, "cov_type must be one of .* got 'HC4'"),
        ("HC0", {"maxlags": 2}, DomainError, "'HC0' does not use the option 'maxlags'"),
        ("HC0", {"width": -1.0}, DomainError, "width must be positive"),
        ("nonrobust", {"groups": [1]}, DomainError, "does not use the option 'groups'"),
        ("cluster", {}, DomainError, "needs groups"),
        ("cluster", {"groups": np.ones(240)}, DataError, "groups has only one cluster"),
        ("cluster", {"groups": np.arange(5)}, DataError, re.escape("240 rows, got (5,)")),
        (
            "cluster",
            {"groups": np.r_[np.nan, np.arange(239.0)]},
            DataError,
            "groups contains 1 missing",
        ),
        (
            "cluster",
            {"groups": np.array([[None, "a"]] * 3 + [["b", "c"]] * 237, dtype=object)},
            DataError,
            "groups column 0 contains 3 missing",
        ),
        ("cluster", {"groups": np.ones((240, 3))}, DataError, "one or two columns"),
        ("HAC", {"maxlags": -1}, DomainError, "maxlags must be a whole number"),
        ("HAC", {"maxlags": 1.5}, DomainError, "maxlags must be a whole number"),
        ("HAC", {"kernel": "parzen"}, DomainError, "kernel must be callable or one of"),
        ("HAC", {"freq_weights": np.ones(240)}, DomainError, "one row per period"),
        ("HC0", {"weights": np.ones(3)}, DataError, "weights must have shape"),
        ("HC0", {"freq_weights": np.full(240, np.nan)}, DataError, "freq_weights contains 240"),
        ("HC0", {"weights": -np.ones(240)}, DataError, "weights must not be negative"),
        ("HC0", {"offset": np.ones(3)}, DataError, "offset must have shape"),
        ("HC0", {"free": ("beta", "scale")}, DomainError, "free must list some of"),
    ],
)
def test_bad_options_are_named(sample, cov_type, options, error, message):
    exog, endog, fit, _ = sample
    with pytest.raises(error, match=message):
        covariance(cov_type, exog, endog, fit, **options)


@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HAC"])
@pytest.mark.parametrize("n", [40, 80, 81])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sandwich_does_not_depend_on_the_sign_of_the_response(n, cov_type, weighted):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        exog = np.column_stack([np.ones(n), rng.standard_normal(n)])
        endog = exog.sum(axis=1) + rng.standard_gamma(2.0, size=n)
        weights = rng.integers(1, 4, n) / 10.0 if weighted else None
        made = [
            covariance(
                cov_type,
                exog,
                sign * endog,
                solve(exog, sign * endog, kappa=0.1, tau=tau, weights=weights),
                free=("beta", "sigma"),
                weights=weights,
            )
            for sign, tau in ((1.0, 0.7), (-1.0, 0.3))
        ]
        assert_allclose(made[0].bread_width, made[1].bread_width, rtol=1e-8)
        variances = [estimate.cov.diagonal() for estimate in made]
        assert_allclose(*variances, rtol=1e-6)
