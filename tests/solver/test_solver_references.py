"""The solver against software that is not ours: HiGHS, Clarabel, R's quantreg, conquer and VGAM."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from r_references import design, load
from reference_solvers import brute_joint, conic_fit, enumerate_laplace, highs_quantile, log_c
from solver_data import ml_solve as solve
from solver_data import regression

from qhreg.exceptions import RankWarning


@pytest.mark.parametrize("tau", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("n", "p"), [(20, 1), (60, 3), (400, 5)])
def test_kappa_zero_has_the_objective_of_the_linear_programme(n, p, tau):
    X, y = regression(n, p, seed=n + p)
    _, objective = highs_quantile(X, y, tau)
    level = p == 1 and np.isclose(n * tau, round(n * tau))  # between two order statistics
    with pytest.warns(RankWarning, match="not determined") if level else nullcontext():
        fit = solve(X, y, kappa=0.0, tau=tau, sigma=1.0)
    assert fit.value - n * log_c(tau, 0.0) == pytest.approx(objective, rel=1e-9)
    if level:
        below, above = np.sort(y)[[n - round(n * tau) - 1, n - round(n * tau)]]
        assert below < fit.beta[0] < above
        return
    assert fit.rows_in_zone >= p  # as many rows are interpolated as there are coefficients
    interpolated = np.sort(np.abs(y - X @ fit.beta))[:p]
    assert interpolated.max() < 1e-12 * np.abs(y).max()


@pytest.mark.parametrize("sigma", [None, 1.0, 0.2])
@pytest.mark.parametrize("kappa", [1e-6, 0.05, 1.0, 8.0, 1e4])
@pytest.mark.parametrize("tau", [0.1, 0.6])
def test_fixed_tau_agrees_with_a_conic_solver(tau, kappa, sigma):
    X, y = regression(80, 3, seed=7)
    reference = conic_fit(X, y, tau, kappa, sigma)
    fit = solve(X, y, kappa=kappa, tau=tau, sigma=sigma)
    value = fit.value - len(y) * log_c(tau, kappa)
    assert value == pytest.approx(reference.value, rel=1e-7, abs=1e-7)
    assert value >= reference.value - reference.gap - 1e-10
    np.testing.assert_allclose(fit.beta, reference.beta, rtol=1e-5, atol=1e-5)
    assert fit.sigma == pytest.approx(reference.sigma, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("kappa", "sigma"), [(1.0, None), (1.0, 1.0), (0.05, None), (4.0, 2.0)])
def test_the_joint_fit_agrees_with_a_scan_of_conic_fits(kappa, sigma):
    X, y = regression(40, 2, seed=3)
    points = 97 if kappa < 0.1 else 25  # small widths have small basins
    reference = brute_joint(X, y, kappa, sigma, np.linspace(0.02, 0.98, points))
    fit = solve(X, y, kappa=kappa, sigma=sigma, tau_bounds=(0.02, 0.98))
    assert fit.value == pytest.approx(reference.value, abs=1e-6)
    assert fit.tau == pytest.approx(reference.tau, abs=1e-5)


def test_the_joint_fit_at_kappa_zero_is_the_best_of_all_vertices():
    X, y = regression(24, 2, seed=12)
    reference = enumerate_laplace(X, y)
    fit = solve(X, y, kappa=0.0, tau_bounds=(1e-6, 1 - 1e-6), search=True)
    assert fit.value == pytest.approx(reference.value, abs=1e-8)
    np.testing.assert_allclose(fit.beta, reference.beta, rtol=1e-8)
    assert fit.tau == pytest.approx(reference.tau, abs=1e-8)


@pytest.mark.parametrize("name", load("r_quantreg")["problems"])
def test_fixed_tau_at_kappa_zero_is_r_quantreg(name):
    problem = load("r_quantreg")["problems"][name]
    X, y = design(problem)
    for r in problem["fits"]:
        fit = solve(X, y, kappa=0.0, tau=r["tau"], sigma=1.0)
        np.testing.assert_allclose(fit.beta, r["coef"], rtol=1e-7, atol=1e-12)
        assert fit.value - len(y) * log_c(r["tau"], 0.0) == pytest.approx(r["rho"], rel=1e-9)


@pytest.mark.parametrize("k", range(len(load("r_conquer")["fits"])))
def test_fixed_tau_and_kappa_is_r_conquer_with_the_uniform_kernel(k):
    problem = load("r_conquer")
    X, y = design(problem)
    r = problem["fits"][k]
    fit = solve(X, y, kappa=r["kappa"], tau=r["tau"], sigma=1.0)
    np.testing.assert_allclose(fit.beta, r["coef"], rtol=1e-6)


@pytest.mark.parametrize("name", load("r_vgam")["problems"])
def test_the_joint_fit_at_kappa_zero_beats_vgam_and_meets_the_enumeration(name):
    problem = load("r_vgam")["problems"][name]
    X, y = design(problem)
    fit = solve(X, y, kappa=0.0, tau_bounds=(1e-6, 1 - 1e-6), search=True)
    assert fit.loglike >= problem["vgam"]["loglik"]
    assert fit.loglike >= problem["optim"]["loglik"] - 1e-9
    exact = problem["exact"]
    assert fit.loglike == pytest.approx(exact["loglik"], abs=1e-7)
    np.testing.assert_allclose(fit.beta, exact["coef"], rtol=1e-6)
    assert fit.tau == pytest.approx(exact["tau"], abs=1e-6)
    assert fit.sigma == pytest.approx(exact["sigma"], rel=1e-6)


def test_a_large_kappa_is_least_squares():
    X, y = regression(300, 4, seed=5)
    beta, rss = np.linalg.lstsq(X, y, rcond=None)[:2]
    fit = solve(X, y, kappa=1e6, tau=0.5)
    np.testing.assert_allclose(fit.beta, beta, rtol=1e-6)
    assert fit.sigma * np.sqrt(fit.kappa) == pytest.approx(np.sqrt(rss[0] / 300), rel=1e-6)
    gaussian = -0.5 * 300 * (np.log(2 * np.pi * rss[0] / 300) + 1)
    assert fit.loglike == pytest.approx(gaussian, abs=1e-3)
