"""Symmetry, score and likelihood-ratio tests, and the cut of the likelihood ratio."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from qhreg.covariance import Point, covariance, expected_information, score_obs, smoothed_bread
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.family.distribution import quantile_huber
from qhreg.inference.hypothesis_tests import lr_cut, lr_inflation, lr_test
from qhreg.inference.score_tests import score_test
from qhreg.inference.symmetry import symmetry_test
from qhreg.solver import solve


def draw(n, tau=0.5, kappa=1.0, seed=0, p=2):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    return exog, exog.sum(axis=1) + quantile_huber.rvs(tau, kappa, size=n, random_state=rng)


@pytest.mark.parametrize("sigma", [None, 1.0])
def test_symmetry_statistics_follow_their_definitions(sigma):
    exog, endog = draw(600, 0.4, seed=2)
    fit = solve(exog, endog, kappa=1.0, sigma=sigma)
    test = symmetry_test(exog, endog, fit, sigma=sigma)
    free = ("beta", "sigma", "tau") if sigma is None else ("beta", "tau")
    half = solve(exog, endog, kappa=1.0, tau=0.5, sigma=sigma)
    assert_allclose(test.lr.statistic, 2 * (fit.loglike - half.loglike), rtol=1e-6)
    s = score_obs(exog, endog, half, free=free).sum(axis=0)
    info = expected_information(exog, half.sigma, 0.5, 1.0, free=free)
    assert_allclose(test.score.statistic, s[-1] ** 2 * np.linalg.inv(info)[-1, -1], rtol=1e-6)
    cov = covariance("nonrobust", exog, endog, fit, free=free).cov
    logit = np.log(fit.tau / (1 - fit.tau))
    se = np.sqrt(cov[-1, -1]) / (fit.tau * (1 - fit.tau))
    assert_allclose(test.wald.statistic, (logit / se) ** 2, rtol=1e-10)
    for one in (test.score, test.wald):
        assert_allclose(one.pvalue, stats.chi2.sf(one.statistic, 1), rtol=1e-10)
    scaled = test.lr.statistic / lr_inflation(600, len(info), fit.tau, kappa=1.0)
    assert_allclose(test.pvalue, stats.chi2.sf(scaled, 1), rtol=1e-10)
    assert (test.statistic, test.df) == (test.lr.statistic, 1)
    assert test.restricted.tau == 0.5


@pytest.mark.slow
def test_symmetry_tests_hold_their_level_under_symmetry():
    rejected = np.zeros(3)
    for seed in range(300):
        exog, endog = draw(200, 0.5, seed=seed)
        test = symmetry_test(exog, endog, solve(exog, endog, kappa=1.0, search=False))
        rejected += [one.pvalue < 0.05 for one in (test.lr, test.score, test.wald)]
    assert np.all(np.abs(rejected / 300 - 0.05) < 0.035)


def test_symmetry_is_rejected_for_skewed_noise_and_not_for_even_quantiles():
    exog, endog = draw(400, 0.25, seed=1)
    fit = solve(exog, endog, kappa=1.0)
    test = symmetry_test(exog, endog, fit)
    assert max(test.lr.pvalue, test.score.pvalue, test.wald.pvalue) < 1e-6
    y = quantile_huber.ppf((np.arange(400) + 0.5) / 400, 0.5, 1.0)
    constant = np.ones((400, 1))
    test = symmetry_test(constant, y, solve(constant, y, kappa=1.0))
    assert min(test.lr.pvalue, test.score.pvalue, test.wald.pvalue) > 0.99


def test_symmetry_test_takes_case_weights_and_a_variance():
    exog, endog = draw(300, 0.4, seed=3)
    w = np.random.default_rng(0).integers(1, 4, 300)
    x, y = np.repeat(exog, w, axis=0), np.repeat(endog, w)
    one = symmetry_test(exog, endog, solve(exog, endog, weights=w), weights=w)
    other = symmetry_test(x, y, solve(x, y, search=True))
    for name in ("lr", "score", "wald"):
        a, b = getattr(one, name), getattr(other, name)
        assert_allclose([a.statistic, a.pvalue], [b.statistic, b.pvalue], rtol=1e-4)
    fit = solve(exog, endog)
    robust = covariance("HC1", exog, endog, fit).cov[-1, -1]
    plain = covariance("nonrobust", exog, endog, fit).cov[-1, -1]
    default = symmetry_test(exog, endog, fit).wald.statistic
    given = symmetry_test(exog, endog, fit, tau_variance=robust).wald.statistic
    assert_allclose(given, default * plain / robust, rtol=1e-10)


def test_repr_says_what_was_tested():
    exog, endog = draw(300, 0.4)
    test = symmetry_test(exog, endog, solve(exog, endog))
    text = repr(test)
    for word in ("tau = 1/2", "likelihood-ratio", "score", "Wald", "p = "):
        assert word in text
    with pytest.raises(FrozenInstanceError):
        test.lr.pvalue = 0.0


def test_score_test_is_the_quadratic_form_of_the_extra_scores():
    exog, endog = draw(300, 0.3, 0.25, seed=4)
    extra = np.random.default_rng(9).standard_normal((300, 2))
    fit = solve(exog, endog, kappa=0.25)
    test = score_test(exog, endog, fit, extra)
    both = np.column_stack([exog, extra])
    point = Point(np.append(fit.beta, [0, 0]), fit.sigma, fit.tau, fit.kappa)
    s = score_obs(both, endog, point).sum(axis=0)
    s[[0, 1, 4, 5]] = 0.0  # zero at the fit, up to its tolerance
    info = expected_information(both, fit.sigma, fit.tau, fit.kappa)
    assert_allclose(test.statistic, s @ np.linalg.solve(info, s), rtol=1e-8)
    assert test.df == 2
    assert_allclose(test.pvalue, stats.chi2.sf(test.statistic, 2))


@pytest.mark.parametrize("robust", [False, True])
def test_score_test_is_close_to_the_likelihood_ratio_test(robust):
    exog, endog = draw(2000, 0.3, 1.0, seed=5, p=3)
    small = exog[:, :2]
    # The third column matters little: both statistics are then of the order of ten.
    endog = endog - 0.8 * exog[:, 2]
    fit, full = solve(small, endog, kappa=1.0), solve(exog, endog, kappa=1.0)
    test = score_test(small, endog, fit, exog[:, 2], robust=robust)
    assert_allclose(test.statistic, 2 * (full.loglike - fit.loglike), rtol=0.2)
    assert test.pvalue < 0.05


@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("robust", [False, True])
def test_score_test_takes_frequencies_as_repeated_rows(robust, kappa):
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    w = np.random.default_rng(0).integers(0, 4, 200)
    fit = solve(exog, endog, kappa=kappa, weights=w)
    weighted = score_test(exog, endog, fit, extra, freq_weights=w, robust=robust)
    repeated = score_test(
        np.repeat(exog, w, axis=0), np.repeat(endog, w), fit, np.repeat(extra, w), robust=robust
    )
    assert_allclose(weighted.statistic, repeated.statistic, rtol=1e-9)


def test_robust_score_test_does_not_depend_on_the_unit_of_sampling_weights():
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    w = np.random.default_rng(0).uniform(0.5, 3.0, 200)
    fit = solve(exog, endog, weights=w)
    one, other = (
        score_test(exog, endog, fit, extra, weights=unit * w, robust=True) for unit in (1.0, 1e3)
    )
    assert_allclose(other.statistic, one.statistic, rtol=1e-9)
    # by hand: products of the weighted scores, and the smoothed bread
    both = np.column_stack([exog, extra])
    point = Point(np.append(fit.beta, 0.0), fit.sigma, fit.tau, fit.kappa)
    bread = smoothed_bread(both, endog, point, weights=w)
    s = score_obs(both, endog, point, weights=w)
    other_columns = [0, 1, 3, 4]
    carry = np.linalg.solve(bread[np.ix_(other_columns, other_columns)], bread[other_columns, 2])
    effective = s[:, 2] - s[:, other_columns] @ carry
    assert_allclose(one.statistic, effective.sum() ** 2 / (effective @ effective), rtol=1e-6)


def test_score_test_leaves_dependent_columns_out():
    exog, endog = draw(150, 0.4, seed=7)
    extra = np.random.default_rng(1).standard_normal(150)
    twice = np.column_stack([exog, 1e6 * exog.sum(axis=1)])
    with pytest.warns(RankWarning):
        fit = solve(twice, endog)
    plain = solve(exog, endog)
    for robust in (False, True):
        one = score_test(twice, endog, fit, extra, robust=robust)
        other = score_test(exog, endog, plain, extra, robust=robust)
        assert_allclose(one.statistic, other.statistic, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True])
def test_score_test_holds_its_level(robust):
    rejected = 0
    for seed in range(300):
        exog, endog = draw(200, 0.4, seed=seed, p=3)
        fit = solve(exog[:, :2], endog - exog[:, 2], kappa=1.0, search=False)
        test = score_test(exog[:, :2], endog - exog[:, 2], fit, exog[:, 2], robust=robust)
        rejected += test.pvalue < 0.05
    assert abs(rejected / 300 - 0.05) < 0.035


def test_bad_extra_columns_are_named():
    exog, endog = draw(100, seed=1)
    fit = solve(exog, endog)
    with pytest.raises(DataError, match="exog_extra must have 100 rows"):
        score_test(exog, endog, fit, np.ones(5))
    with pytest.raises(DataError, match="exog_extra contains NaN"):
        score_test(exog, endog, fit, np.full(100, np.nan))
    with pytest.raises(DataError, match="depend linearly"):
        score_test(exog, endog, fit, exog[:, 1] * 2)


def test_lr_test_compares_nested_models():
    test = lr_test(-100.0, -104.0, 2, nobs=500, k=5, tau=0.4, correction=False)
    assert test.statistic == 8.0
    assert_allclose(test.pvalue, stats.chi2.sf(8.0, 2), rtol=1e-10)
    corrected = lr_test(-100.0, -104.0, 2, nobs=500, k=5, tau=0.4)
    assert corrected.inflation == lr_inflation(500, 5, 0.4) > 1.0
    assert corrected.pvalue > test.pvalue
    assert lr_test(-100.0, -100.0 + 1e-9, 1, nobs=500, k=5, tau=0.4).statistic == 0.0
    with pytest.raises(DataError, match="exceeds the full one"):
        lr_test(-104.0, -100.0, 1, nobs=500, k=5, tau=0.4)
    with pytest.raises(DomainError, match="df must be"):
        lr_test(-100.0, -104.0, 0, nobs=500, k=5, tau=0.4)


def test_inflation_follows_its_formula_and_falls_to_one():
    m = 100 * 0.3
    regular = 1 + 0.5 * 4 / m + 1 / (1 + 4 * 0.25) / 10
    expected = regular + 1.0 / (1 + (2.5 * m / 4) ** 2)
    assert_allclose(lr_inflation(100, 4, 0.3, kappa=0.25), expected, rtol=1e-14)
    assert_allclose(lr_inflation(100, 4, 0.7, kappa=0.25), expected, rtol=1e-12)
    fixed = lr_inflation(100, 4, 0.3, kappa=0.25, tau_estimated=False)
    assert_allclose(fixed, regular, rtol=1e-14)
    assert lr_inflation(100, 4, 0.3) > lr_inflation(100, 4, 0.3, kappa=0.25)
    sizes = [lr_inflation(n, 4, 0.2) for n in (20, 50, 100, 1000, 10**8)]
    assert np.all(np.diff(sizes) < 0)
    assert abs(sizes[-1] - 1.0) < 2e-4
    assert lr_inflation(50, 4, 1e-6, kappa=1e9) == pytest.approx(1 + 0.5 + 1.0, abs=1e-6)


def test_cut_is_the_chi_square_quantile_times_the_inflation():
    for alpha, df in [(0.05, 1), (0.1, 3)]:
        expected = stats.chi2.ppf(1 - alpha, df) * lr_inflation(100, 5, 0.3, kappa=0.5)
        assert_allclose(lr_cut(alpha, 100, 5, 0.3, kappa=0.5, df=df), expected, rtol=1e-10)
    for bad in (0.0, 1.0, 5.0):
        with pytest.raises(DomainError, match="alpha"):
            lr_cut(bad, 100, 5, 0.3)
    with pytest.raises(DomainError, match="nobs and k"):
        lr_cut(0.05, 0, 5, 0.3)


def test_a_test_that_a_bound_of_tau_leaves_without_a_statistic_says_so():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    exog, endog = np.column_stack([np.ones(60), x]), x + rng.exponential(size=60)
    with pytest.warns(BoundaryWarning):
        fit = solve(exog, endog, kappa=1.0)
    assert fit.tau_at_bound
    text = str(symmetry_test(exog, endog, fit))
    assert "Wald test of tau = 1/2: not available: tau is on its bound" in text
    assert "nan" not in text
