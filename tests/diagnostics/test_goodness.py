"""Goodness of fit: the statistics against scipy, the p-values against their own law."""

import numpy as np
import pytest
from model_data import model_data
from scipy import stats
from solver_data import regression

from qhreg import QuantileHuberMLE
from qhreg.diagnostics.goodness import (
    anderson_darling,
    expanded,
    goodness_of_fit,
    simulate_fits,
)
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.solver import solve


def noise(n, seed, tau=0.3, kappa=1.0):
    return quantile_huber.rvs(tau, kappa, size=n, random_state=np.random.default_rng(seed))


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.0), (0.7, 1.0), (0.5, 20.0)])
def test_the_distance_is_the_one_of_kolmogorov_and_smirnov(tau, kappa):
    X, u = np.ones((81, 1)), np.sort(noise(81, 1))
    fit = solve(X, u, tau=tau, kappa=kappa)
    made = goodness_of_fit(model_data(X, u, tau=tau, kappa=kappa), fit, n_boot=1)
    cdf = quantile_huber.cdf((u - fit.beta[0]) / fit.sigma, tau, kappa)
    steps = np.arange(81) / 81
    expected = max((cdf - steps).max(), (steps + 1 / 81 - cdf).max())
    assert made.ks == pytest.approx(expected, rel=1e-9)


def test_the_square_distance_is_the_integral_of_anderson_and_darling():
    """n times the integral of (F_n - p)^2 / (p (1 - p)), piece by piece between the jumps."""
    u = np.sort(noise(40, 2))
    p = quantile_huber.cdf(u, 0.3, 1.0)
    ends = np.concatenate([[0.0], p, [1.0]])
    total = 0.0
    for i in range(41):
        a, b, level = ends[i], ends[i + 1], i / 40

        def integrand(x, level=level):
            return (level - x) ** 2 / (x * (1 - x))

        x, w = np.polynomial.legendre.leggauss(60)
        total += 0.5 * (b - a) * (w @ integrand(0.5 * (a + b) + 0.5 * (b - a) * x))
    assert anderson_darling(u, 0.3, 1.0) == pytest.approx(40 * total, rel=1e-6)


def test_far_residuals_leave_the_square_distance_finite():
    u = np.concatenate([noise(50, 3), [1e4]])
    assert np.isfinite(anderson_darling(u, 0.3, 1.0))
    assert anderson_darling(u, 0.3, 1.0) > 50.0


def test_noise_of_the_family_is_accepted_and_other_noise_is_not():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(600), rng.normal(size=600)])
    inside = X @ [1.0, 2.0] + noise(600, 5)
    outside = X @ [1.0, 2.0] + rng.normal(size=600)
    accepted, rejected = (
        goodness_of_fit(model_data(X, y, kappa=1.0), solve(X, y, kappa=1.0), n_boot=49)
        for y in (inside, outside)
    )
    assert min(accepted.ks_pvalue, accepted.ad_pvalue) > 0.05
    assert rejected.ks_pvalue == pytest.approx(0.02)
    assert rejected.ad_pvalue == pytest.approx(0.02)


def test_the_textbook_p_value_of_an_estimated_law_is_too_large():
    X, y = regression(300, 2, 3)
    fit = solve(X, y, kappa=0.5)
    made = goodness_of_fit(model_data(X, y, kappa=0.5), fit, n_boot=59)
    textbook = stats.kstwo.sf(made.ks_samples, 300)
    # uniform if the parameters were known
    assert np.quantile(textbook, 0.1) > 0.35


@pytest.mark.slow
def test_under_the_model_the_p_values_are_uniform():
    pvalues = []
    for seed in range(60):
        X = np.column_stack([np.ones(200), np.random.default_rng(seed).normal(size=200)])
        y = X @ [1.0, 1.0] + noise(200, 1000 + seed)
        fit = solve(X, y, kappa=1.0)
        made = goodness_of_fit(model_data(X, y, kappa=1.0), fit, n_boot=39, rng=seed)
        pvalues.append([made.ks_pvalue, made.ad_pvalue])
    for column in np.array(pvalues).T:
        assert stats.kstest(column, "uniform").pvalue > 0.01


def test_the_outcome_is_the_same_for_the_same_seed_and_tells_itself():
    X, y = regression(200, 2, 0)
    fit, data = solve(X, y), model_data(X, y)
    one, two = (goodness_of_fit(data, fit, n_boot=9, rng=4) for _ in range(2))
    other = goodness_of_fit(data, fit, n_boot=9, rng=5)
    np.testing.assert_array_equal(one.ks_samples, two.ks_samples)
    assert not np.array_equal(one.ks_samples, other.ks_samples)
    assert one.ks == other.ks
    assert one.ks_pvalue == (1 + np.sum(one.ks_samples >= one.ks)) / 10
    assert "9 samples from the fitted model" in str(one)
    frame = one.to_frame()
    assert list(frame.index) == ["Kolmogorov-Smirnov", "Anderson-Darling"]
    assert frame.statistic.tolist() == [one.ks, one.ad]
    assert "Anderson-Darling" in one._repr_html_()


def test_samples_are_refitted_with_the_settings_of_the_model():
    X, y = regression(200, 2, 0)
    fit = solve(X, y, kappa=0.5, tau=0.4, sigma=2.0)
    data = model_data(X, y, kappa=0.5, tau=0.4, sigma=2.0)
    made = [one for _, one in simulate_fits(data, fit, 3)]
    assert len(made) == 3
    for one in made:
        assert (one.tau, one.sigma, one.kappa) == (0.4, 2.0, 0.5)
        assert not np.array_equal(one.beta, fit.beta)


def test_samples_have_the_scale_and_the_coefficients_of_the_fit():
    X, y = regression(400, 2, 0)
    fit = solve(X, 10.0 * y)
    made = [one for _, one in simulate_fits(model_data(X, 10.0 * y), fit, 20)]
    assert np.mean([one.sigma for one in made]) == pytest.approx(fit.sigma, rel=0.1)
    error = 3.0 * fit.sigma / np.sqrt(400 * 20) * 5.0
    np.testing.assert_allclose(np.mean([one.beta for one in made], axis=0), fit.beta, atol=error)


def test_simulated_residuals_have_the_fitted_law():
    X, y = regression(400, 2, 0)
    fit = solve(X, y)
    samples = simulate_fits(model_data(X, y), fit, 30)
    simulated = np.sort([sample.standardized(one)[0] for sample, one in samples])
    assert simulated.shape == (30, 400)
    middle = np.median(simulated, axis=0)
    levels = (np.arange(400) + 0.5) / 400
    expected = quantile_huber.ppf(levels, fit.tau, fit.kappa)
    np.testing.assert_allclose(middle[40:-40], expected[40:-40], atol=0.35)


def test_whole_frequency_weights_are_repeated_rows():
    X, y = regression(60, 2, 0)
    counts = np.arange(60) % 3 + 1.0
    data = model_data(X, y, kappa=1.0, weights=counts)
    rows = np.repeat(np.arange(60), counts.astype(int))
    np.testing.assert_array_equal(expanded(data).observations.endog, y[rows])
    fit = solve(X, y, kappa=1.0, weights=counts)
    one = goodness_of_fit(data, fit, n_boot=5)
    two = goodness_of_fit(model_data(X[rows], y[rows], kappa=1.0), fit, n_boot=5)
    assert one.ks == two.ks
    np.testing.assert_allclose(one.ad_samples, two.ad_samples)


def test_weights_that_describe_no_sample_are_rejected():
    X, y = regression(60, 2, 0)
    weights = np.full(60, 1.5)
    fit = solve(X, y, weights=weights)
    with pytest.raises(DataError, match="sampling weights"):
        goodness_of_fit(QuantileHuberMLE(y, X, kappa=1.0, weights=weights).model_data(), fit)
    with pytest.raises(DataError, match="whole"):
        QuantileHuberMLE(y, X, freq_weights=weights)
    with pytest.raises(DomainError, match="n_boot"):
        goodness_of_fit(model_data(X, y), fit, n_boot=0)
