"""The peers of the benchmarks fit what they claim to fit."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from reference_solvers import brute_joint, highs_quantile, log_c, loss
from scipy import integrate, optimize, stats

ROOT = Path(__file__).parents[2]


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))

    def module(name):
        return importlib.import_module(f"benchmarks.peers.{name}")

    return module


@pytest.mark.parametrize("kappa", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("tau", [0.1, 0.6])
def test_noise_follows_the_quantile_huber_density(peers, tau, kappa):
    draws = peers("data").quantile_huber_noise(20_000, tau, kappa, np.random.default_rng(5))
    grid = np.linspace(draws.min() - 1.0, draws.max() + 1.0, 50_001)
    density = np.exp(-loss(grid, tau, kappa) - log_c(tau, kappa))
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    assert stats.kstest(draws, lambda u: np.interp(u, grid, cdf)).pvalue > 0.01


@pytest.mark.parametrize("order", ["F", "C"])
def test_data_have_the_order_asked_for_and_the_same_numbers(peers, order):
    make_regression = peers("data").make_regression
    X, y, beta = make_regression(50, 4, seed=2, order=order)
    assert X.flags[f"{order}_CONTIGUOUS"]
    assert np.all(X[:, 0] == 1.0)
    assert beta.shape == (4,)
    np.testing.assert_array_equal(X, make_regression(50, 4, seed=2).X)
    np.testing.assert_allclose(y, make_regression(50, 4, seed=2).y, rtol=1e-12)
    assert not np.array_equal(y, make_regression(50, 4, seed=3).y)


def test_the_gradient_handed_to_scipy_is_the_derivative(peers):
    python_peers = peers("python_peers")
    X, y, _ = peers("data").make_regression(40, 3, seed=4)
    z = np.array([0.9, -0.4, 1.1, 0.8, 0.35])
    gradient = python_peers.mean_negative_loglike(z, X, y, 1.0)[1]
    numeric = optimize.approx_fprime(
        z, lambda at: python_peers.mean_negative_loglike(at, X, y, 1.0)[0], 1e-7
    )
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


def test_lbfgsb_reaches_the_joint_optimum(peers):
    X, y, _ = peers("data").make_regression(300, 2, seed=1)
    best = brute_joint(X, y, 1.0, taus=np.linspace(0.1, 0.7, 7))
    fit = peers("python_peers").time_lbfgsb(X, y, 1.0, repeats=1, ftol=1e-14, gtol=1e-9)
    assert 300 * fit["value"] == pytest.approx(best.value, rel=1e-10)
    assert fit["tau"] == pytest.approx(best.tau, abs=1e-6)
    np.testing.assert_allclose(fit["coef"], best.beta, atol=1e-6)


def test_an_ordinary_small_sample_has_a_second_local_optimum_where_lbfgsb_can_stop(peers):
    X, y, _ = peers("data").make_regression(60, 2, seed=6)
    best = brute_joint(X, y, 1.0, taus=[0.30, 0.35])
    second = brute_joint(X, y, 1.0, taus=[0.36, 0.40])
    assert best.tau == pytest.approx(0.3401081, abs=1e-6)
    assert second.tau == pytest.approx(0.3629802, abs=1e-6)
    assert second.value - best.value == pytest.approx(0.008455, abs=1e-6)
    b_theta_tau = np.array([*second.beta / second.sigma, 1.0 / second.sigma, second.tau])
    gradient = peers("python_peers").mean_negative_loglike(b_theta_tau, X, y, 1.0)[1]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_python_peers_agree_with_independent_fits(peers):
    python_peers = peers("python_peers")
    X, y, _ = peers("data").make_regression(200, 3, seed=7)
    squares = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(python_peers.time_ols(X, y, 1)["coef"], squares, rtol=1e-9)
    normal = python_peers.time_normal_equations(X, y, 2)
    np.testing.assert_allclose(normal["coef"], squares, rtol=1e-9)
    assert normal["seconds"] == min(normal["all_seconds"]) > 0.0
    quantile = python_peers.time_quantreg(X, y, 0.7, 1)
    assert quantile["objective"] == pytest.approx(highs_quantile(X, y, 0.3)[1], rel=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("peer", "library", "rtol"),
    [
        ("quantile_regressor", "sklearn", 1e-7),
        ("pyfixest_quantreg", "pyfixest", 1e-4),
        ("smooth_quantile", "skglm", 0.1),
    ],
)
def test_other_libraries_fit_the_quantile_they_are_asked_for(peers, peer, library, rtol):
    pytest.importorskip(library)
    X, y, _ = peers("data").make_regression(200, 3, seed=7)
    beta, _ = highs_quantile(X, y, 0.3)
    np.testing.assert_allclose(getattr(peers("python_peers"), peer)(X, y, 0.7), beta, rtol=rtol)


@pytest.mark.slow
def test_r_fits_the_data_python_holds(peers):
    r_peer = peers("r_peer")
    if not r_peer.have_r():
        pytest.skip("R with quantreg and conquer is not installed")
    X, y, _ = peers("data").make_regression(200, 3, seed=7, order="C")
    beta, value = highs_quantile(X, y, 0.3)
    exact = r_peer.time_r("rq_br", X, y, 0.7, repeats=2)
    np.testing.assert_allclose(exact["coef"], beta, rtol=1e-9)
    assert exact["objective"] == pytest.approx(value, rel=1e-12)
    assert exact["seconds"] == pytest.approx(min(exact["all_seconds"]), abs=1e-6)
    smooth = r_peer.time_r("conquer", X, y, 0.7, repeats=1)
    assert value <= smooth["objective"] < 1.01 * value


def test_r_is_not_asked_for_what_it_cannot_do(peers):
    time_r = peers("r_peer").time_r
    X, y = np.ones((5, 2)), np.zeros(5)
    with pytest.raises(ValueError, match="method must be one of"):
        time_r("lasso", X, y, 0.5)
    with pytest.raises(ValueError, match="first column"):
        time_r("conquer", 2.0 * X, y, 0.5)
