"""Symmetry, score and likelihood-ratio tests, and the cut of the likelihood ratio."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import statsmodels.api as sm
from model_data import model_data
from numpy.testing import assert_allclose
from scipy import stats

from qhreg import QuantileHuberMLE
from qhreg.covariance.information import design_moments, expected_information
from qhreg.covariance.parts import covariance_parts
from qhreg.covariance.scores import score_obs
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.family.distribution import quantile_huber
from qhreg.inference.hypothesis_tests import lr_cut, lr_test
from qhreg.inference.score_tests import score_test
from qhreg.solver import solve
from qhreg.specification.model_data import fit_model
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters


def draw(n, tau=0.5, kappa=1.0, seed=0, p=2):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    return exog, exog.sum(axis=1) + quantile_huber.rvs(tau, kappa, size=n, random_state=rng)


def symmetry(exog, endog, cov_type="nonrobust", **options):
    options = {"kappa": 1.0, **options}
    return QuantileHuberMLE(endog, exog, **options).fit(cov_type=cov_type).test_symmetry()


def weighted_data(exog, endog, kappa=1.0, freq=None, weights=None):
    rows = {"freq_weights": freq, "weights": weights}
    return QuantileHuberMLE(endog, exog, kappa=kappa, **rows).model_data()


# --- the law of the likelihood ratio ---------------------------------------------------------------


@pytest.mark.parametrize("dropped", [1, 2])
def test_for_normal_noise_the_likelihood_ratio_test_is_the_f_test_of_least_squares(dropped):
    exog, _ = draw(25, p=4, seed=3)
    endog = exog @ [1.0, 0.3, 0.2, 0.1] + np.random.default_rng(1).normal(size=25)
    options = {"kappa": 1e6, "tau": 0.5}
    full = QuantileHuberMLE(endog, exog, **options).fit()
    restricted = QuantileHuberMLE(endog, exog[:, :-dropped], **options).fit()
    f, p, df = sm.OLS(endog, exog).fit().compare_f_test(sm.OLS(endog, exog[:, :-dropped]).fit())
    test = full.lr_test(restricted)
    assert_allclose([test.fvalue, test.pvalue], [f, p], rtol=1e-5)
    assert (test.df, test.df_resid) == (df, 21)
    assert_allclose(full.compare_lr_test(restricted), (test.statistic, test.pvalue, df))
    # against the constant, as OLS has it
    whole = sm.OLS(endog, exog).fit()
    assert_allclose(full.llr_pvalue, whole.f_pvalue, rtol=1e-5)
    assert_allclose(full.pseudo_rsquared("cs"), whole.rsquared, rtol=1e-5)


def test_restricted_models_are_fitted_inside_the_larger_one():
    exog, endog = draw(60, 0.4, p=3, seed=2)
    full = QuantileHuberMLE(endog, exog).fit()
    small = QuantileHuberMLE(endog, exog[:, :2]).fit()
    inside = solve(exog[:, :2], endog, rank=3)
    expected = 2 * (full.llf_restricted - inside.loglike_restricted)
    assert_allclose(full.lr_test(small).statistic, expected, rtol=1e-7)
    # whatever the criterion of the smaller fit, and where it differs by tau or sigma alone
    ordinary = QuantileHuberMLE(endog, exog[:, :2]).fit(reml=False)
    assert_allclose(full.lr_test(ordinary).statistic, expected, rtol=1e-7)
    half = QuantileHuberMLE(endog, exog, tau=0.5).fit()
    assert full.lr_test(half).statistic == pytest.approx(full.test_symmetry().statistic, abs=1e-7)
    fixed = QuantileHuberMLE(endog, exog, sigma=1.2).fit()
    held = solve(exog, endog, sigma=1.2, rank=3)
    expected = 2 * (full.llf_restricted - held.loglike_restricted)
    assert_allclose(full.lr_test(fixed).statistic, expected, rtol=1e-6)


def test_the_ordinary_likelihood_ratio_is_the_difference_of_the_log_likelihoods():
    exog, endog = draw(100, 0.4, p=3, seed=2)
    full, small = (QuantileHuberMLE(endog, x).fit(reml=False) for x in (exog, exog[:, :2]))
    test = full.lr_test(small)
    assert_allclose(test.statistic, 2 * (full.llf - small.llf), rtol=1e-9)
    assert test.df_resid == 100
    assert_allclose(full.llr, 2 * (full.llf - full.llnull), rtol=1e-12)


def test_a_likelihood_ratio_beside_a_robust_covariance_says_what_it_assumes():
    exog, endog = draw(100, 0.4, p=3, seed=2)
    full, small = QuantileHuberMLE(endog, exog), QuantileHuberMLE(endog, exog[:, :2])
    robust = full.fit(cov_type="HC1").lr_test(small.fit())
    assert "assumes the density, which HC1 does not" in repr(robust)
    assert full.fit(cov_type="nonrobust").lr_test(small.fit()).note == ""


def test_a_model_whose_data_were_removed_cannot_be_fitted_again():
    exog, endog = draw(100, 0.4, p=3, seed=2)
    full, small = (QuantileHuberMLE(endog, x).fit() for x in (exog, exog[:, :2]))
    small.remove_data()
    with pytest.raises(DataError, match="its data were removed: test before remove_data"):
        full.lr_test(small)


def test_lr_test_compares_two_numbers():
    test = lr_test(-100.0, -104.0, 2, 500)
    assert test.statistic == 8.0
    f = 250 * np.expm1(8 / 500)
    assert_allclose([test.fvalue, test.pvalue], [f, stats.f.sf(f, 2, 500)], rtol=1e-10)
    assert_allclose(lr_test(-100.0, -104.0, 2, 1e12).pvalue, stats.chi2.sf(8.0, 2), rtol=1e-6)
    assert lr_test(-100.0, -100.0 + 1e-9, 1, 500).statistic == 0.0
    assert lr_test(0.0, -1e6, 1, 10).pvalue == 0.0
    with pytest.raises(DataError, match="exceeds the full one"):
        lr_test(-104.0, -100.0, 1, 500)
    with pytest.raises(DomainError, match="df must be"):
        lr_test(-100.0, -104.0, 0, 500)


def test_the_cut_is_where_the_p_value_is_alpha():
    for alpha, df, m in [(0.05, 1, 10), (0.1, 3, 50), (0.01, 2, 1e6)]:
        test = lr_test(0.5 * lr_cut(alpha, m, df=df), 0.0, df, m)
        assert_allclose(test.pvalue, alpha, rtol=1e-9)
    assert_allclose(lr_cut(0.05, 10, cut="chi2"), stats.chi2.isf(0.05, 1))
    for bad in (0.0, 1.0, 5.0):
        with pytest.raises(DomainError, match="alpha"):
            lr_cut(bad, 100)


# --- symmetry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [None, 1.0])
def test_symmetry_statistics_follow_their_definitions(sigma):
    exog, endog = draw(600, 0.4, seed=2)
    fit = QuantileHuberMLE(endog, exog, kappa=1.0, sigma=sigma).fit(cov_type="nonrobust")
    test = fit.test_symmetry()
    free = ("beta", "sigma", "tau") if sigma is None else ("beta", "tau")
    half = solve(exog, endog, kappa=1.0, tau=0.5, sigma=sigma)
    expected = 2 * (fit.solution.loglike_restricted - half.loglike_restricted)
    assert_allclose(test.lr.statistic, expected, rtol=1e-6)
    s = score_obs(Observations(exog, endog), half, free).sum(axis=0)
    info = expected_information(design_moments(exog), half, free)
    assert_allclose(test.score.statistic, s[-1] ** 2 * np.linalg.inv(info)[-1, -1], rtol=1e-6)
    logit = np.log(fit.tau / (1 - fit.tau))
    se = fit.bse[-1] / (fit.tau * (1 - fit.tau))
    assert_allclose(test.wald.statistic, (logit / se) ** 2, rtol=1e-10)
    assert_allclose(test.wald.pvalue, fit.pvalues[-1], rtol=1e-12)
    assert_allclose(test.score.pvalue, stats.chi2.sf(test.score.statistic, 1), rtol=1e-10)
    m = 598 if sigma is None else 600
    assert_allclose(test.pvalue, stats.f.sf(m * np.expm1(test.statistic / m), 1, m), rtol=1e-8)
    assert (test.statistic, test.df) == (test.lr.statistic, 1)
    assert test.restricted.tau == 0.5


def test_the_robust_score_test_of_symmetry_is_that_of_the_effective_scores():
    exog, endog = draw(300, 0.4, seed=5)
    half = solve(exog, endog, kappa=1.0, tau=0.5)
    data = model_data(exog, endog, kappa=1.0, tau=0.5)
    parts = covariance_parts(data, half)
    u = (endog - exog @ half.beta) / half.sigma
    excess = u - np.clip(u, -0.5, 0.5)
    wide = parts.wide
    v = (endog - exog @ wide.beta) / wide.sigma
    out = np.abs(v) > wide.kappa / 2
    cross = np.append(exog.T @ out / wide.sigma, v @ out)
    effective = excess - parts.scores @ np.linalg.solve(parts.bread, cross)
    expected = excess.sum() ** 2 / (effective @ effective)
    test = symmetry(exog, endog, "HC3").score
    assert test.name == "robust score test"
    assert_allclose(test.statistic, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
def test_symmetry_tests_hold_their_level_under_symmetry(cov_type):
    rejected = np.zeros(3)
    for seed in range(300):
        test = symmetry(*draw(200, 0.5, seed=seed), cov_type)
        rejected += [one.pvalue < 0.05 for one in (test.lr, test.score, test.wald)]
    assert np.all(np.abs(rejected / 300 - 0.05) < 0.035)


def test_symmetry_is_rejected_for_skewed_noise_and_not_for_even_quantiles():
    test = symmetry(*draw(400, 0.25, seed=1))
    assert max(test.lr.pvalue, test.score.pvalue, test.wald.pvalue) < 1e-6
    y = quantile_huber.ppf((np.arange(400) + 0.5) / 400, 0.5, 1.0)
    test = symmetry(np.ones((400, 1)), y)
    assert min(test.lr.pvalue, test.score.pvalue, test.wald.pvalue) > 0.99


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
def test_symmetry_test_takes_frequencies_as_repeated_rows(cov_type):
    exog, endog = draw(300, 0.4, seed=3)
    w = np.random.default_rng(0).integers(1, 4, 300)
    one = symmetry(exog, endog, cov_type, freq_weights=w)
    other = symmetry(np.repeat(exog, w, axis=0), np.repeat(endog, w), cov_type)
    for name in ("lr", "score", "wald"):
        a, b = getattr(one, name), getattr(other, name)
        assert_allclose([a.statistic, a.pvalue], [b.statistic, b.pvalue], rtol=1e-4)


def test_repr_says_what_was_tested():
    test = symmetry(*draw(300, 0.4))
    text = repr(test)
    for word in ("tau = 1/2", "likelihood-ratio", "score", "Wald", "F(1, 298) = ", "p = "):
        assert word in text
    with pytest.raises(FrozenInstanceError):
        test.lr.pvalue = 0.0


def test_a_test_that_a_bound_of_tau_leaves_without_a_statistic_says_so():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    exog, endog = np.column_stack([np.ones(60), x]), x + rng.exponential(size=60)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(endog, exog, kappa=1.0).fit(reml=False)
    assert fit.solution.tau_at_bound
    text = str(fit.test_symmetry())
    assert "Wald test of tau = 1/2: not available: tau is on its bound" in text
    assert "nan" not in text


# --- score tests of added columns ------------------------------------------------------------------


def test_score_test_is_the_quadratic_form_of_the_extra_scores():
    exog, endog = draw(300, 0.3, 0.25, seed=4)
    extra = np.random.default_rng(9).standard_normal((300, 2))
    data = model_data(exog, endog, kappa=0.25)
    fit = fit_model(data)
    test = score_test(data, fit, extra, robust=False)
    both = np.column_stack([exog, extra])
    point = Parameters(np.append(fit.beta, [0, 0]), fit.sigma, fit.tau, fit.kappa)
    s = score_obs(Observations(both, endog), point).sum(axis=0)
    s[[0, 1, 4, 5]] = 0.0  # the criterion is stationary in them
    info = expected_information(design_moments(both), point)
    assert_allclose(test.statistic, s @ np.linalg.solve(info, s), rtol=1e-8)
    assert test.df == 2
    assert_allclose(test.pvalue, stats.chi2.sf(test.statistic, 2))


def test_the_robust_score_test_is_that_of_the_effective_scores():
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    w = np.random.default_rng(0).uniform(0.5, 3.0, 200)
    data = weighted_data(exog, endog, weights=w)
    fit = fit_model(data)
    # by hand: the second derivatives of the criterion in the extra coefficient, by differences
    parts = covariance_parts(data, fit)
    wide = parts.wide

    def slope(step):
        moved = [wide.beta + step[:2], wide.sigma * np.exp(step[2])]
        tau = 1 / (1 + np.exp(-np.log(wide.tau / (1 - wide.tau)) - step[3]))
        u = (endog - exog @ moved[0]) / moved[1]
        return -(w * extra) @ np.clip(u / wide.kappa, -tau, 1 - tau) / moved[1]

    cross = [(slope(1e-6 * e) - slope(-1e-6 * e)) / 2e-6 for e in np.eye(4)]
    u = (endog - exog @ fit.beta) / fit.sigma
    tested = w * extra * np.clip(u, -fit.tau, 1 - fit.tau) / fit.sigma
    effective = tested - parts.scores @ np.linalg.solve(parts.bread, cross)
    expected = tested.sum() ** 2 / (effective @ effective)
    assert_allclose(score_test(data, fit, extra).statistic, expected, rtol=1e-5)


@pytest.mark.parametrize("robust", [False, True])
def test_score_test_is_close_to_the_likelihood_ratio_test(robust):
    exog, endog = draw(2000, 0.3, 1.0, seed=5, p=3)
    # The third column matters little: both statistics are then of the order of ten.
    endog = endog - 0.8 * exog[:, 2]
    small = model_data(exog[:, :2], endog, kappa=1.0)
    full, inside = solve(exog, endog, kappa=1.0), solve(exog[:, :2], endog, kappa=1.0, rank=3)
    test = score_test(small, fit_model(small), exog[:, 2], robust=robust)
    expected = 2 * (full.loglike_restricted - inside.loglike_restricted)
    assert_allclose(test.statistic, expected, rtol=0.2)
    assert test.pvalue < 0.05


@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("robust", [False, True])
def test_score_test_takes_frequencies_as_repeated_rows(robust, kappa):
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    w = np.random.default_rng(0).integers(0, 4, 200)
    one = weighted_data(exog, endog, kappa, freq=w)
    other = weighted_data(np.repeat(exog, w, axis=0), np.repeat(endog, w), kappa)
    weighted = score_test(one, fit_model(one), extra, robust=robust)
    repeated = score_test(other, fit_model(other), np.repeat(extra, w), robust=robust)
    assert_allclose(weighted.statistic, repeated.statistic, rtol=1e-5)


def test_robust_score_test_does_not_depend_on_the_unit_of_sampling_weights():
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    w = np.random.default_rng(0).uniform(0.5, 3.0, 200)
    tests = [
        QuantileHuberMLE(endog, exog, weights=unit * w).fit(reml=False).score_test(extra)
        for unit in (1.0, 1e3)
    ]
    assert_allclose(tests[1].statistic, tests[0].statistic, rtol=1e-5)


def test_score_test_leaves_dependent_columns_out():
    exog, endog = draw(150, 0.4, seed=7)
    extra = np.random.default_rng(1).standard_normal(150)
    twice = model_data(np.column_stack([exog, 1e6 * exog.sum(axis=1)]), endog)
    with pytest.warns(RankWarning):
        fit = fit_model(twice)
    plain = model_data(exog, endog)
    for robust in (False, True):
        one = score_test(twice, fit, extra, robust=robust)
        other = score_test(plain, fit_model(plain), extra, robust=robust)
        assert_allclose(one.statistic, other.statistic, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True])
def test_score_test_holds_its_level(robust):
    rejected = 0
    for seed in range(300):
        exog, endog = draw(200, 0.4, seed=seed, p=3)
        data = model_data(exog[:, :2], endog - exog[:, 2], kappa=1.0)
        rejected += score_test(data, fit_model(data), exog[:, 2], robust=robust).pvalue < 0.05
    assert abs(rejected / 300 - 0.05) < 0.035


def test_bad_extra_columns_are_named():
    data = model_data(*draw(100, seed=1))
    fit, exog = fit_model(data), data.observations.exog
    with pytest.raises(DataError, match="exog_extra must have 100 rows"):
        score_test(data, fit, np.ones(5))
    with pytest.raises(DataError, match="exog_extra contains NaN"):
        score_test(data, fit, np.full(100, np.nan))
    for robust in (False, True):
        with pytest.raises(DataError, match="depend linearly"):
            score_test(data, fit, exog[:, 1] * 2, robust=robust)


@pytest.mark.parametrize("options", [{"groups": np.arange(200) % 40}, {"maxlags": 3}])
def test_the_robust_score_test_allows_for_dependence(options):
    exog, endog = draw(200, 0.4, seed=6)
    extra = np.random.default_rng(1).standard_normal(200)
    cov_type = "cluster" if "groups" in options else "HAC"
    fit = QuantileHuberMLE(endog, exog).fit(cov_type=cov_type, cov_kwds=options)
    plain = QuantileHuberMLE(endog, exog).fit().score_test(extra)
    dependent = fit.score_test(extra)
    assert dependent.statistic != plain.statistic
    assert fit.test_symmetry().score.statistic > 0.0
