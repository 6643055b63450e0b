"""The restricted likelihood (QH-25): criterion, limits, invariance, certificate, small samples."""

import math
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from qhreg import QuantileHuberMLE
from qhreg.certificate.global_optimum import certify_global
from qhreg.exceptions import RankWarning
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_curvature, log_normalizer
from qhreg.solver import solve


def sample(n=80, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    return X, X @ np.arange(1.0, p + 1.0) + rng.gamma(2.0, size=n)


def criterion(X, y, params, kappa, w=None):
    """Return R(beta, log sigma, logit tau) as DESIGN writes it, by an independent path."""
    p = np.linalg.matrix_rank(X)
    w = np.ones(y.size) if w is None else w
    beta, sigma, tau = params[:-2], math.exp(params[-2]), 1.0 / (1.0 + math.exp(-params[-1]))
    u = (y - X @ beta) / sigma
    value = w.sum() * float(log_normalizer(tau, kappa)) + (w.sum() - p) * math.log(sigma)
    return (
        value
        + 0.5 * p * float(log_curvature(tau, kappa).value)
        + w @ quantile_huber_loss(u, tau, kappa)
    )


@pytest.mark.parametrize("kappa", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_other_optimiser_finds_a_better_point(kappa, weighted):
    X, y = sample()
    w = np.random.default_rng(1).integers(1, 4, y.size).astype(float) if weighted else None
    fit = solve(X, y, kappa=kappa, weights=w)
    ols = np.linalg.lstsq(X, y, rcond=None)[0]
    others = [
        minimize(lambda b: criterion(X, y, b, kappa, w), [*ols, 0.0, logit], method="BFGS")
        for logit in (-3.0, 0.0, 3.0)
    ]
    assert fit.value <= min(result.fun for result in others) + 1e-7
    at = [*fit.beta, math.log(fit.sigma), math.log(fit.tau / (1.0 - fit.tau))]
    near = minimize(lambda b: criterion(X, y, b, kappa, w), np.add(at, 0.03), method="Nelder-Mead")
    assert fit.value <= near.fun + 1e-7
    assert fit.value == pytest.approx(criterion(X, y, np.array(at), kappa, w), rel=1e-10)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0])
def test_at_fixed_tau_it_is_the_ml_fit_at_a_wider_width(kappa):
    X, y = sample()
    n, p = X.shape
    restricted = solve(X, y, kappa=kappa, tau=0.7)
    plain = solve(X, y, kappa=kappa * n / (n - p), tau=0.7, reml=False)
    np.testing.assert_allclose(restricted.beta, plain.beta, rtol=1e-6)
    assert restricted.sigma == pytest.approx(plain.sigma * n / (n - p), rel=1e-7)


def test_the_normal_limit_is_ordinary_reml():
    X, y = sample()
    fit = QuantileHuberMLE(y, X, kappa=1e8, tau=0.5).fit(cov_type="nonrobust")
    ols = sm.OLS(y, X).fit()
    np.testing.assert_allclose(fit.params[:-1], ols.params, rtol=1e-6)
    np.testing.assert_allclose(fit.bse[:-1], ols.bse, rtol=1e-4)
    np.testing.assert_allclose(fit.conf_int()[:-1], ols.conf_int(), rtol=1e-3)
    assert fit.sigma**2 * fit.kappa == pytest.approx(ols.mse_resid, rel=1e-6)
    m = ols.df_resid  # Harville's constant: the likelihood of error contrasts, X'X taken off
    reml = -0.5 * m * (math.log(2.0 * math.pi * ols.mse_resid) + 1.0)
    assert fit.llf_restricted == pytest.approx(reml, abs=1e-3)


def test_it_follows_shifts_along_the_regressors_units_and_order():
    X, y = sample()
    fit = solve(X, y)
    moved = solve(X @ np.diag([1.0, 10.0, 0.1, 3.0]), 5.0 * (y + X @ [1.0, -2.0, 3.0, 0.5]))
    np.testing.assert_allclose(
        moved.beta * [1.0, 10.0, 0.1, 3.0], 5.0 * np.add(fit.beta, [1.0, -2.0, 3.0, 0.5]), rtol=1e-6
    )
    assert moved.sigma == pytest.approx(5.0 * fit.sigma, rel=1e-7)
    assert moved.tau == pytest.approx(fit.tau, rel=1e-7)
    order = np.random.default_rng(2).permutation(y.size)
    again = solve(X[order], y[order])
    np.testing.assert_allclose(again.beta, fit.beta, rtol=1e-8)
    mirrored = solve(X, -y)
    assert mirrored.tau == pytest.approx(1.0 - fit.tau, rel=1e-7)
    assert mirrored.value == pytest.approx(fit.value, abs=1e-8)


def test_dependent_columns_count_once_and_weights_are_repeated_rows():
    X, y = sample()
    with pytest.warns(RankWarning):
        doubled = solve(np.column_stack([X, X[:, 1]]), y)
    fit = solve(X, y)
    assert doubled.p == fit.p == 4.0
    assert doubled.value == pytest.approx(fit.value, abs=1e-8)
    w = np.random.default_rng(3).integers(1, 3, y.size)
    weighted = solve(X, y, weights=w.astype(float))
    repeated = solve(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.value == pytest.approx(repeated.value, abs=1e-7)
    shifted = solve(X, y + 3.0, offset=np.full(y.size, 3.0))
    np.testing.assert_allclose(shifted.beta, fit.beta, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kappa", [0.3, 4.0])
def test_the_certificate_bounds_a_fine_grid_of_tau(seed, kappa):
    X, y = sample(40, 4, seed)
    fit = solve(X, y, kappa=kappa, search=True)
    assert fit.certified
    certificate = certify_global(X, y, fit)
    assert certificate.holds
    taus = 1.0 / (1.0 + np.exp(-np.linspace(-6.5, 6.5, 201)))
    profile = [solve(X, y, kappa=kappa, tau=float(t), rank=4.0).loglike_restricted for t in taus]
    assert max(profile) <= certificate.upper_bound + 1e-9
    assert max(profile) <= fit.loglike_restricted + 1e-7


def test_sigma_fixed_is_maximum_likelihood():
    X, y = sample()
    for reml in (True, False):
        fit = QuantileHuberMLE(y, X, sigma=1.0, kappa=0.5).fit(reml=reml)
        assert not fit.reml
        assert np.isnan(fit.llf_restricted)
        assert "Maximum Likelihood" in str(fit.summary())
        assert fit.tau == pytest.approx(solve(X, y, sigma=1.0, kappa=0.5, reml=False).tau)
    assert "REML" in str(QuantileHuberMLE(y, X).fit().summary())


@pytest.mark.parametrize("noise", ["normal", "gamma", "lognormal"])
def test_small_samples_do_not_end_on_the_bound_of_tau(noise):
    on_bound = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.ones(50), rng.standard_normal((50, 7))])
        e = {
            "normal": rng.standard_normal(50),
            "gamma": rng.gamma(2.0, size=50),
            "lognormal": rng.lognormal(size=50),
        }[noise]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            on_bound += solve(X, X.sum(axis=1) + e).tau_at_bound
    assert on_bound == 0


def test_an_undetermined_coefficient_alone_has_no_standard_error():
    rng = np.random.default_rng(0)
    x, category = rng.standard_normal(60), np.zeros(60)
    category[:4] = 1.0
    y = 1.0 + x + rng.standard_normal(60)
    y[:4] = [30.0, 28.0, -25.0, -33.0]
    model = QuantileHuberMLE(y, np.column_stack([np.ones(60), x, category]), tau=0.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = model.fit()
        bse = fit.bse
    assert sum("not determined" in str(warning.message) for warning in caught) == 1
    assert np.isnan(bse[2])
    assert np.isfinite(bse[[0, 1, 3]]).all()
    assert "not determined" in " ".join(str(fit.summary()).split())
