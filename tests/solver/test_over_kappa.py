"""The fit with estimated width: interior maxima and the three limits."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_data import ml_solve as solve

from qhreg.exceptions import BoundaryWarning
from qhreg.family.distribution import quantile_huber
from qhreg.solver import over_kappa
from qhreg.solver import solve as full_solve

solve_kappa = functools.partial(over_kappa.solve_kappa, reml=False)


def spread(n, tau, kappa):
    """Return equally likely quantiles of the law: a sample without sampling error."""
    return quantile_huber.ppf((np.arange(n) + 0.5) / n, tau, kappa)


def design(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(n), rng.permutation(np.linspace(-2, 2, n))])


@pytest.fixture(scope="module")
def interior():
    exog = design(1500)
    endog = exog @ [1.0, 2.0] + 3.0 * spread(1500, 0.35, 2.0)
    return exog, endog, solve_kappa(exog, endog)


def test_estimate_is_near_the_width_the_data_were_made_with(interior):
    _, _, fit = interior
    assert fit.limit is None
    assert_allclose([fit.kappa, fit.solution.tau, fit.solution.sigma], [2.0, 0.35, 3.0], rtol=0.1)


def test_no_neighbouring_width_fits_better(interior):
    exog, endog, fit = interior
    for factor in (0.5, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1, 2.0, 10.0):
        other = solve(exog, endog, kappa=fit.kappa * factor, start=fit.solution)
        assert other.loglike <= fit.loglike + 1e-8
    assert fit.kappas.size == fit.loglikes.size
    assert np.all(np.diff(fit.kappas) > 0)
    assert fit.loglikes.max() == fit.loglike == fit.solution.loglike


def test_a_peak_sharper_than_laplace_is_the_asymmetric_laplace_limit():
    exog = design(1000)
    noise = spread(1000, 0.4, 0.0)
    endog = exog @ [1.0, -1.0] + np.sign(noise) * np.abs(noise) ** 1.3
    with pytest.warns(BoundaryWarning, match="kappa ended at 0"):
        fit = solve_kappa(exog, endog)
    assert fit.limit == "laplace"
    assert fit.kappa == 0.0
    assert_allclose(fit.loglike, solve(exog, endog, kappa=0.0).loglike, atol=1e-6)


def test_light_tails_are_the_normal_limit():
    exog = design(400)
    endog = exog @ [1.0, 2.0] + np.linspace(-1, 1, 400)
    with pytest.warns(BoundaryWarning, match="kappa ended at infinity"):
        fit = solve_kappa(exog, endog)
    assert fit.limit == "gaussian"
    assert math.isinf(fit.kappa)
    beta, rss = np.linalg.lstsq(exog, endog, rcond=None)[:2]
    normal = -200 * (1 + math.log(2 * math.pi * rss[0] / 400))
    assert_allclose([fit.loglike, fit.gaussian_loglike], normal, rtol=1e-12)
    assert_allclose(fit.solution.beta, beta, atol=1e-6)
    assert_allclose(fit.solution.sigma**2 * fit.solution.kappa, rss[0] / 400, rtol=1e-6)
    assert_allclose(fit.solution.loglike, normal, atol=1e-8)


def test_a_normal_side_leaves_the_width_undetermined():
    # The law at kappa = 100 and tau = 0.1: normal to the right for nine standard deviations.
    exog = design(600)
    endog = exog @ [1.0, 2.0] + spread(600, 0.1, 100.0)
    with pytest.warns(BoundaryWarning, match="kappa is not determined"):
        fit = solve_kappa(exog, endog)
    assert fit.limit == "one-sided"
    ratio = 0.5
    start = replace(fit.solution, sigma=ratio * fit.solution.sigma, tau=ratio * fit.solution.tau)
    wider = solve(exog, endog, kappa=4.0 * fit.kappa, start=start, search=False)
    assert abs(wider.loglike - fit.loglike) < 1e-7
    narrower = solve(exog, endog, kappa=0.5 * fit.kappa, start=fit.solution, search=False)
    assert narrower.loglike < fit.loglike - 1e-7


def test_a_ridge_that_ends_at_the_bound_of_tau_is_seen():
    exog = design(600)
    endog = exog @ [1.0, 2.0] + spread(600, 0.1, 100.0)
    with pytest.warns(BoundaryWarning, match="kappa is not determined"):
        wide = solve_kappa(exog, endog)
    bound = 0.7 * wide.solution.tau  # reached at twice the least width
    with pytest.warns(BoundaryWarning, match="kappa is not determined"):
        fit = solve_kappa(exog, endog, tau_bounds=(bound, 1.0 - bound))
    assert fit.limit == "one-sided"
    assert_allclose(fit.loglike, wide.loglike, atol=1e-6)
    assert fit.kappa < 1.2 * wide.kappa


def test_case_weights_equal_repeated_rows_and_offsets_move_the_location(interior):
    exog, endog, _ = interior
    keep = slice(0, 1500, 2)
    x, y = exog[keep], endog[keep]
    w = np.random.default_rng(0).integers(1, 3, y.size)
    repeated = solve_kappa(np.repeat(x, w, axis=0), np.repeat(y, w))
    weighted = solve_kappa(x, y + 7.0, weights=w, offset=np.full(y.size, 7.0))
    assert_allclose(weighted.loglike, repeated.loglike, atol=2e-6)
    assert_allclose(weighted.kappa, repeated.kappa, rtol=1e-3)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0, 20.0])
@pytest.mark.parametrize("fixed", [{}, {"tau": 0.2}, {"sigma": 2.0}])
def test_the_slope_in_kappa_is_the_derivative_of_the_refitted_likelihood(kappa, fixed):
    exog, rng = design(120), np.random.default_rng(3)
    endog = exog @ [1.0, 2.0] + quantile_huber.rvs(0.3, 1.0, size=120, random_state=rng)
    weights = rng.integers(1, 3, 120)
    options = {"search": False, "weights": weights, **fixed}
    fit = solve(exog, endog, kappa=kappa, **options)
    step = 1e-6 * (kappa + 0.01)
    sides = [max(kappa - step, 0.0), kappa + step]
    low, high = (solve(exog, endog, kappa=side, start=fit, **options) for side in sides)
    difference = (high.loglike - low.loglike) / (sides[1] - sides[0])
    assert_allclose(over_kappa.kappa_slope(fit), difference, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("seed", [5, 19, 65, 97])
def test_counts_have_one_best_width_however_they_are_given(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([25, 60]))
    endog = rng.poisson(2.0, n).astype(float)
    weights = rng.integers(0, 4, n).astype(float)
    rows, ones = np.repeat(np.arange(n), weights.astype(int)), np.ones((n, 1))
    counted = solve_kappa(ones, endog, weights=weights).loglike
    assert solve_kappa(ones[rows], endog[rows]).loglike == pytest.approx(counted, abs=1e-7)
    assert solve_kappa(ones, -endog, weights=weights).loglike == pytest.approx(counted, abs=1e-7)


def test_tau_and_sigma_can_be_fixed(interior):
    exog, endog, free = interior
    fit = solve_kappa(exog, endog, tau=0.4, sigma=3.0)
    assert fit.solution.tau == 0.4
    assert fit.solution.sigma == 3.0
    assert fit.gaussian_loglike == -math.inf
    assert fit.loglike < free.loglike
    other = solve(exog, endog, kappa=fit.kappa * 1.01, tau=0.4, sigma=3.0)
    assert other.loglike < fit.loglike


def test_normal_likelihood_takes_weights_and_offset():
    exog, rng = design(50), np.random.default_rng(0)
    endog = rng.standard_normal(50)
    w = rng.integers(1, 4, 50)
    repeated = over_kappa.gaussian_loglike(np.repeat(exog, w, axis=0), np.repeat(endog, w))
    shifted = over_kappa.gaussian_loglike(
        exog, endog + 3 * exog[:, 1] ** 2, weights=w, offset=3 * exog[:, 1] ** 2
    )
    assert_allclose(shifted, repeated, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_all_tau_are_searched_at_the_foot_of_a_ridge():
    values = [
        0.087,
        -1.581,
        -13.555,
        -15.04,
        -35.513,
        -20.687,
        3.413,
        -23.951,
        -2.007,
        -8.417,
        -5.398,
    ]
    values += [-17.016, -12.039, 5.052, -50.175, -23.392, -16.351, -4.574, -3.67, -64.636]
    counts = [1, 3, 2, 2, 2, 2, 3, 3, 2, 2, 2, 3, 1, 1, 2, 2, 1, 2, 1, 1]
    endog, exog = np.repeat(values, counts), np.ones((38, 1))
    found = solve_kappa(exog, endog)
    for kappa in (0.0, 1.0, 20.0, 100.0):
        assert found.loglike >= solve(exog, endog, kappa=kappa).loglike - 1e-8


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("seed", [88, 102, 156, 258, 262])
def test_no_width_fits_few_rows_better(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.choice([8, 12, 20, 40])), int(rng.integers(1, 4))
    exog = np.column_stack([np.ones(n)] + [rng.standard_normal(n) for _ in range(p - 1)])
    noise = quantile_huber.rvs(rng.choice([0.2, 0.5, 0.8]), 1.0, size=n, random_state=rng)
    endog = exog.sum(axis=1) + 3.0 * noise
    if rng.random() < 0.3:
        endog = endog.round()
    weights = rng.integers(1, 4, n).astype(float)
    found = solve_kappa(exog, endog, weights=weights)
    for kappa in (0.0, 0.2, 1.0, 4.0, 32.0):
        other = solve(exog, endog, weights=weights, kappa=kappa)
        assert found.loglike >= other.loglike - 1e-8


def test_the_width_maximises_the_restricted_likelihood_too(interior):
    exog, endog, _ = interior
    fit = over_kappa.solve_kappa(exog[:200], endog[:200])
    assert fit.solution.p == 2.0
    assert fit.loglike == fit.solution.loglike_restricted
    for factor in (0.5, 0.99, 1.01, 2.0):
        other = full_solve(exog[:200], endog[:200], kappa=fit.kappa * factor)
        assert other.loglike_restricted <= fit.loglike + 1e-8


def test_the_normal_limit_of_the_restricted_likelihood_is_ordinary_reml():
    exog = design(40)
    endog = exog @ [1.0, 2.0] + np.linspace(-1, 1, 40)
    with pytest.warns(BoundaryWarning, match="kappa ended at infinity"):
        fit = over_kappa.solve_kappa(exog, endog)
    rss = np.linalg.lstsq(exog, endog, rcond=None)[1][0]
    assert_allclose(fit.solution.sigma**2 * fit.solution.kappa, rss / 38, rtol=1e-6)
    assert_allclose(fit.loglike, -19 * (1 + math.log(2 * math.pi * rss / 38)), rtol=1e-9)
