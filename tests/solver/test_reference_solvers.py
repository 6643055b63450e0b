"""The reference solvers against answers known by hand, against each other and against R."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import r_references
import statsmodels.api as sm
from reference_solvers import (
    brute_joint,
    conic_fit,
    d_log_c,
    enumerate_laplace,
    highs_quantile,
    log_c,
    loss,
)
from scipy import integrate, stats

KAPPAS = [0.0, 0.05, 1.0, 20.0]
TEN = np.arange(1.0, 11.0)


@pytest.fixture(name="data")
def small_regression() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(30), rng.normal(size=30), 1e3 * rng.uniform(size=30)])
    return X, X @ [1.0, -2.0, 0.01] + rng.exponential(1.5, size=30) - rng.exponential(size=30)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_log_c_is_the_log_integral_of_the_exponential_of_minus_the_loss(tau, kappa):
    def density(u):
        return np.exp(-loss(np.array([u]), tau, kappa)[0])

    knots = [-np.inf, -kappa * tau, 0.0, kappa * (1.0 - tau), np.inf]
    pieces = [
        integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-13)[0]
        for a, b in itertools.pairwise(knots)
        if a < b
    ]
    assert log_c(tau, kappa) == pytest.approx(np.log(sum(pieces)), abs=1e-11)
    slope = (log_c(tau + 1e-6, kappa) - log_c(tau - 1e-6, kappa)) / 2e-6
    assert d_log_c(tau, kappa) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize(("tau", "quantile"), [(0.95, 1.0), (0.75, 3.0), (0.25, 8.0), (0.05, 10.0)])
def test_a_constant_at_kappa_zero_is_the_sample_quantile_of_level_one_minus_tau(tau, quantile):
    X = np.ones((10, 1))
    total = loss(TEN - quantile, tau, 0.0).sum()
    beta, value = highs_quantile(X, TEN, tau)
    assert beta[0] == pytest.approx(quantile, rel=1e-12)
    assert value == pytest.approx(total, rel=1e-12)
    fit = conic_fit(X, TEN, tau, 0.0)
    assert fit.beta[0] == pytest.approx(quantile, rel=1e-12)
    # d/d sigma of total / sigma + n log sigma vanishes at the mean loss.
    assert fit.sigma == pytest.approx(total / 10, rel=1e-12)
    assert fit.value == pytest.approx(10 + 10 * np.log(total / 10), rel=1e-12)


def test_an_ambiguous_median_has_the_value_of_every_minimiser():
    beta, value = highs_quantile(np.ones((10, 1)), TEN, 0.5)
    assert 5.0 <= beta[0] <= 6.0
    assert value == pytest.approx(12.5, rel=1e-12)
    fit = conic_fit(np.ones((10, 1)), TEN, 0.5, 0.0, sigma=2.0)
    assert fit.value == pytest.approx(12.5 / 2.0 + 10 * np.log(2.0), rel=1e-12)


def test_two_points_and_a_wide_zone_give_the_mean_and_the_root_mean_square():
    # Both residuals in the zone: minimise theta^2 (1 + 1) / (2 kappa) - 2 log theta at b = mean.
    fit = conic_fit(np.ones((2, 1)), np.array([3.0, 5.0]), 0.4, 100.0)
    assert fit.beta[0] == pytest.approx(4.0, rel=1e-12)
    assert fit.sigma == pytest.approx(0.1, rel=1e-12)
    assert fit.value == pytest.approx(1.0 + 2 * np.log(0.1), rel=1e-12)


def test_a_wide_zone_is_least_squares_with_sigma_the_root_mean_square_over_root_kappa(data):
    X, y = data
    ols = sm.OLS(y, X).fit()
    fit = conic_fit(X, y, 0.3, 1e4)
    np.testing.assert_allclose(fit.beta, ols.params, rtol=1e-9)
    assert fit.sigma == pytest.approx(np.sqrt(ols.ssr / 30 / 1e4), rel=1e-9)


@pytest.mark.parametrize("sigma", [None, 0.7])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_conic_fit_is_stationary_and_its_gap_is_at_rounding_level(data, kappa, sigma):
    X, y = data
    fit = conic_fit(X, y, 0.35, kappa, sigma)
    u = (y - X @ fit.beta) / fit.sigma
    assert fit.value == pytest.approx(
        loss(u, 0.35, kappa).sum() + 30 * np.log(fit.sigma), rel=1e-11
    )
    assert abs(fit.gap) <= 1e-11 * abs(fit.value)
    if kappa > 0.0:
        psi = np.clip(u / kappa, -0.35, 0.65)
        np.testing.assert_allclose(X.T @ psi, 0.0, atol=1e-9 * np.abs(X).sum())
        if sigma is None:
            assert u @ psi == pytest.approx(30.0, rel=1e-10)


@pytest.mark.parametrize("sigma", [None, 0.7])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_no_nearby_point_has_a_lower_value(data, kappa, sigma):
    X, y = data
    fit = conic_fit(X, y, 0.35, kappa, sigma)
    rng = np.random.default_rng(8)
    for size in (1e-1, 1e-3, 1e-5):
        for _ in range(50):
            beta = fit.beta + size * rng.normal(size=3) / np.abs(X).max(axis=0)
            s = fit.sigma * np.exp(size * rng.normal()) if sigma is None else sigma
            value = loss((y - X @ beta) / s, 0.35, kappa).sum() + 30 * np.log(s)
            assert value >= fit.value - 1e-12 * abs(fit.value)


def test_a_gap_is_reported_when_the_point_is_not_optimal(data, monkeypatch):
    import reference_solvers

    X, y = data
    exact = conic_fit(X, y, 0.35, 1.0)
    monkeypatch.setattr(reference_solvers, "_polish", lambda problem, b, theta, dual: [])
    solve = reference_solvers._clarabel
    monkeypatch.setattr(
        reference_solvers,
        "_clarabel",
        lambda problem: (lambda b, theta, v: (b + 0.01, theta, v))(*solve(problem)),
    )
    moved = conic_fit(X, y, 0.35, 1.0)
    assert moved.gap == pytest.approx(moved.value - exact.value, abs=1e-6)
    assert moved.gap > 1e-4


def test_conic_fit_is_equivariant(data):
    X, y = data
    A = np.array([[1.0, 2.0, 0.0], [0.0, -3.0, 0.0], [0.0, 0.5, 1e-4]])
    g = np.array([5.0, -1.0, 0.3])
    fit = conic_fit(X, y, 0.35, 1.0)
    moved = conic_fit(X @ A, -2.5 * y + X @ g, 0.65, 1.0)
    np.testing.assert_allclose(A @ moved.beta, -2.5 * fit.beta + g, rtol=1e-9)
    assert moved.sigma == pytest.approx(2.5 * fit.sigma, rel=1e-10)


def test_a_perfect_fit_is_refused():
    with pytest.raises(ValueError, match="fits y exactly"):
        conic_fit(np.ones((4, 1)), np.full(4, 3.0), 0.5, 1.0)


def test_brute_joint_of_a_constant_at_kappa_zero_is_the_best_of_all_observations():
    y = np.array([-3.0, -0.5, 0.1, 0.3, 0.4, 0.9, 2.2, 3.5, 7.0])
    X = np.ones((9, 1))
    best = enumerate_laplace(X, y)
    values = []
    for location in y:
        a, b = np.maximum(y - location, 0.0).mean(), np.maximum(location - y, 0.0).mean()
        values.append(9 + 18 * np.log(np.sqrt(a) + np.sqrt(b)))
    assert best.value == pytest.approx(min(values), rel=1e-13)
    fit = brute_joint(X, y, 0.0, taus=np.linspace(0.1, 0.9, 33))
    assert fit.value == pytest.approx(best.value, rel=1e-12)
    assert fit.beta[0] == pytest.approx(best.beta[0], abs=1e-12)
    # The likelihood itself at the enumerated point: the closed form of its maximum is right.
    u = (y - best.beta[0]) / best.sigma
    direct = loss(u, best.tau, 0.0).sum() + 9 * (np.log(best.sigma) + log_c(best.tau, 0.0))
    assert best.value == pytest.approx(direct, rel=1e-12)


def test_brute_joint_finds_the_enumerated_maximum_at_kappa_zero(data):
    X, y = data[0][:, :2], data[1]
    best = enumerate_laplace(X, y)
    fit = brute_joint(X, y, 0.0, taus=np.linspace(0.1, 0.9, 33))
    assert fit.value == pytest.approx(best.value, abs=1e-9)
    assert fit.tau == pytest.approx(best.tau, abs=1e-7)
    assert fit.sigma == pytest.approx(best.sigma, rel=1e-7)


@pytest.mark.parametrize("sigma", [None, 1.0])
def test_brute_joint_beats_every_point_of_a_fine_tau_grid(data, sigma):
    X, y = data
    fit = brute_joint(X, y, 1.0, sigma=sigma, taus=np.linspace(0.1, 0.9, 9))
    for tau in [*np.linspace(0.05, 0.95, 19), fit.tau - 1e-4, fit.tau + 1e-4]:
        at_tau = conic_fit(X, y, tau, 1.0, sigma)
        assert at_tau.value + 30 * log_c(tau, 1.0) >= fit.value - 1e-10
    at_fit = conic_fit(X, y, fit.tau, 1.0, sigma)
    assert fit.value == pytest.approx(at_fit.value + 30 * log_c(fit.tau, 1.0), rel=1e-12)
    assert 0.1 < fit.tau < 0.9


def test_brute_joint_keeps_the_better_of_two_local_minima():
    # Two clusters of uneven size: a line through either leaves the other as its long tail.
    cluster = 2.0 * stats.laplace.ppf((np.arange(30) + 0.5) / 30)
    y = np.concatenate([cluster - 5.0, cluster[2:-2] + 5.0])
    X = np.ones((56, 1))
    both = brute_joint(X, y, 1.0, taus=np.linspace(0.02, 0.98, 25))
    low = brute_joint(X, y, 1.0, taus=np.linspace(0.02, 0.5, 13))
    high = brute_joint(X, y, 1.0, taus=np.linspace(0.5, 0.98, 13))
    assert 0.02 < low.tau < 0.48
    assert 0.52 < high.tau < 0.98
    assert both.value == min(low.value, high.value)
    assert abs(low.value - high.value) > 0.1


QUANTREG = r_references.load("r_quantreg")["problems"]


@pytest.mark.parametrize("name", QUANTREG)
def test_highs_reaches_the_objective_and_the_coefficients_of_quantreg(name):
    problem = QUANTREG[name]
    X, y = r_references.design(problem)
    for fit in problem["fits"]:
        beta, value = highs_quantile(X, y, fit["tau"])
        assert value == pytest.approx(fit["rho"], rel=1e-12)
        np.testing.assert_allclose(beta, fit["coef"], rtol=1e-10, atol=1e-12)
        assert fit["unique"]
        assert fit["q"] + fit["tau"] == 1.0


@pytest.mark.parametrize("name", QUANTREG)
def test_iid_standard_errors_of_quantreg_are_in_the_proportions_of_least_squares(name):
    X, _ = r_references.design(QUANTREG[name])
    shape = np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
    for fit in QUANTREG[name]["fits"]:
        sparsity = fit["bse_iid"] / shape
        np.testing.assert_allclose(sparsity, sparsity[0], rtol=1e-8)


@pytest.mark.parametrize("name", QUANTREG)
def test_nid_standard_errors_of_quantreg_are_the_hendricks_koenker_sandwich(name):
    X, y = r_references.design(QUANTREG[name])
    n = len(y)
    for fit in QUANTREG[name]["fits"]:
        z = stats.norm.ppf(fit["q"])
        curvature = 1.5 * stats.norm.pdf(z) ** 2 / (2.0 * z**2 + 1.0)
        h = n ** (-1 / 3) * stats.norm.ppf(0.975) ** (2 / 3) * curvature ** (1 / 3)
        while not h <= fit["q"] <= 1.0 - h:
            h /= 2.0
        high, low = (highs_quantile(X, y, fit["tau"] - step)[0] for step in (h, -h))
        spread = X @ (high - low) - np.sqrt(np.finfo(float).eps)
        density = np.maximum(2.0 * h / spread, 0.0)
        bread = np.linalg.inv(X.T @ (density[:, None] * X))
        cov = fit["q"] * fit["tau"] * bread @ X.T @ X @ bread
        np.testing.assert_allclose(np.sqrt(np.diag(cov)), fit["bse_nid"], rtol=1e-6)


VGAM = r_references.load("r_vgam")["problems"]


@pytest.mark.parametrize("name", VGAM)
def test_the_exact_laplace_maximum_of_r_is_stationary_and_above_vgam_and_optim(name):
    problem = VGAM[name]
    X, y = r_references.design(problem)
    exact = problem["exact"]
    fit = conic_fit(X, y, exact["tau"], 0.0)
    np.testing.assert_allclose(fit.beta, exact["coef"], rtol=1e-10)
    assert fit.sigma == pytest.approx(exact["sigma"], rel=1e-10)
    loglik = -fit.value - len(y) * log_c(exact["tau"], 0.0)
    assert loglik == pytest.approx(exact["loglik"], rel=1e-13)
    np.testing.assert_allclose((y - X @ exact["coef"])[exact["interpolated_rows"]], 0.0, atol=1e-9)
    assert exact["loglik"] - 1e-8 < problem["optim"]["loglik"] <= exact["loglik"] + 1e-9
    assert exact["loglik"] - 0.2 < problem["vgam"]["loglik"] <= exact["loglik"]


@pytest.mark.parametrize("name", ["engel_constant", "simulated_constant"])
def test_enumeration_here_and_in_r_agree(name):
    problem = VGAM[name]
    X, y = r_references.design(problem)
    best = enumerate_laplace(X, y)
    assert best.value == pytest.approx(-problem["exact"]["loglik"], rel=1e-13)
    assert best.tau == pytest.approx(problem["exact"]["tau"], rel=1e-12)


@pytest.mark.parametrize("name", VGAM)
def test_vgam_numbers_are_converted_to_our_parameters(name):
    problem = VGAM[name]
    X, y = r_references.design(problem)
    vgam = problem["vgam"]
    k, s, tau, sigma = (vgam[key] for key in ("kappa_vgam", "scale_vgam", "tau", "sigma"))
    assert k**2 == pytest.approx((1.0 - tau) / tau, rel=1e-12)
    assert np.sqrt(2.0) * k / s == pytest.approx((1.0 - tau) / sigma, rel=1e-12)
    u = (y - X @ vgam["coef"]) / sigma
    loglik = -loss(u, tau, 0.0).sum() - len(y) * (np.log(sigma) + log_c(tau, 0.0))
    assert loglik == pytest.approx(vgam["loglik"], rel=1e-12)


@pytest.mark.parametrize("name", VGAM)
def test_vgam_covariance_is_the_inverse_expected_information(name):
    problem = VGAM[name]
    X, _ = r_references.design(problem)
    vgam = problem["vgam"]
    tau, sigma = vgam["tau"], vgam["sigma"]

    def score_products(u):
        psi = 1.0 - tau if u > 0.0 else -tau
        score = np.array([psi / sigma, (u * psi - 1.0) / sigma, u - d_log_c(tau, 0.0)])
        return np.outer(score, score).ravel() * tau * (1.0 - tau) * np.exp(-u * psi)

    halves = [
        integrate.quad_vec(score_products, a, b, epsrel=1e-12)[0]
        for a, b in [(-np.inf, -1e-300), (1e-300, np.inf)]
    ]
    unit = np.sum(halves, axis=0).reshape(3, 3)
    p = X.shape[1]
    information = np.empty((p + 2, p + 2))
    information[:p, :p] = unit[0, 0] * X.T @ X
    information[p:, :p] = np.outer(unit[1:, 0], X.sum(axis=0))
    information[:p, p:] = information[p:, :p].T
    information[p:, p:] = len(X) * unit[1:, 1:]
    root = np.sqrt(np.diag(vgam["cov_expected"]))
    correlation = np.array(vgam["cov_expected"]) / np.outer(root, root)
    expected = np.linalg.inv(information) / np.outer(root, root)
    np.testing.assert_allclose(correlation, expected, atol=1e-9)


CONQUER = r_references.load("r_conquer")


@pytest.mark.parametrize("fit", CONQUER["fits"], ids=lambda fit: f"q={fit['q']},h={fit['h']}")
def test_conquer_with_a_uniform_kernel_is_the_quantile_huber_fit_with_the_constant_moved(fit):
    X, y = r_references.design(CONQUER)
    ours = conic_fit(X, y, fit["tau"], fit["kappa"], sigma=1.0)
    np.testing.assert_allclose(ours.beta, fit["coef"], rtol=1e-9)
    shift = np.array(fit["coef_conquer"]) - fit["coef"]
    np.testing.assert_allclose(shift, [fit["kappa"] * (fit["q"] - 0.5), 0.0, 0.0], atol=1e-14)


def test_the_stored_engel_data_are_those_of_statsmodels():
    shipped = sm.datasets.engel.load_pandas().data
    X, y = r_references.design(QUANTREG["engel"])
    np.testing.assert_array_equal(X[:, 1], shipped["income"])
    np.testing.assert_array_equal(y, shipped["foodexp"])
