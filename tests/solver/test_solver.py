"""The joint solver: optimality, equivariance, warm starts, and what its result says."""

from __future__ import annotations

import dataclasses
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers import log_c, loss
from solver_data import ml_solve as solve
from solver_data import regression

import qhreg.solver
import qhreg.solver.setup
from qhreg.engine.rows import ArrayRows, rows_of
from qhreg.exceptions import BoundaryWarning
from qhreg.solver import DEFAULT_TAU_BOUNDS, task_of
from qhreg.solver.dual import dual_from_gradient
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.newton import NewtonPoint, newton
from qhreg.solver.over_tau import best_tau
from qhreg.solver.problem import Problem
from qhreg.solver.setup import set_up

KAPPAS = [0.0, 1e-3, 0.05, 1.0, 6.0]


def negative_loglike(X, y, fit):
    u = (y - X @ fit.beta) / fit.sigma
    n = len(y)
    return float(
        loss(u, fit.tau, fit.kappa).sum() + n * log_c(fit.tau, fit.kappa) + n * np.log(fit.sigma)
    )


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("n", [250, 3000, 30_000])
def test_the_fit_is_proved_and_its_value_is_the_likelihood(n, kappa):
    X, y = regression(n, 4, seed=n)
    fit = solve(X, y, kappa=kappa)
    assert fit.converged
    assert fit.gap <= 1e-9 * n
    assert abs(fit.tau_slope) <= 1e-7
    assert fit.value == pytest.approx(negative_loglike(X, y, fit), rel=1e-12)
    assert fit.tau == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0])
@pytest.mark.parametrize(("tau", "sigma"), [(None, None), (0.4, None), (None, 1.5), (0.4, 1.5)])
def test_no_nearby_point_is_better(tau, sigma, kappa):
    X, y = regression(400, 3, seed=4)
    fit = solve(X, y, kappa=kappa, tau=tau, sigma=sigma)
    assert tau is None or fit.tau == tau
    assert sigma is None or fit.sigma == pytest.approx(sigma, rel=1e-15)
    rng = np.random.default_rng(0)
    for size in [1e-5, 1e-3, 1e-1]:
        for _ in range(20):
            other = dataclasses.replace(
                fit,
                beta=fit.beta + size * rng.standard_normal(3),
                sigma=fit.sigma if sigma else fit.sigma * np.exp(size * rng.standard_normal()),
                tau=fit.tau
                if tau
                else float(np.clip(fit.tau + size * rng.standard_normal(), 0.01, 0.99)),
            )
            assert negative_loglike(X, y, other) >= fit.value - 1e-9


@pytest.mark.parametrize(
    ("n", "p", "kappa"),
    [
        (10_000, 5, 1.0),
        (10_000, 10, 0.05),
        (100_000, 10, 1.0),
        (10_000, 5, 0.0),
        (10_000, 10, 0.0),
        (100_000, 10, 0.0),
    ],
)
def test_the_solver_takes_little_memory_beside_the_data(n, p, kappa):
    X, y = regression(n, p, seed=2)
    assert peak_of_second_fit(X, y, kappa) <= 0.3 * X.nbytes + samples(5, n, p)


def samples(count, n, p):
    """Return the bytes of some copies of the sample that carries the scan over tau."""
    return count * 8 * min(n, qhreg.solver.setup.SAMPLE_ROWS) * (p + 1)


def peak_of_second_fit(X, y, kappa):
    """Return the bytes a fit takes at most, without what is loaded once."""
    solve(X, y, kappa=kappa)
    tracemalloc.start()
    solve(X, y, kappa=kappa)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("kappa", [1.0, 0.05, 0.0])
@pytest.mark.parametrize(("n", "p"), [(300, 5), (1000, 5), (3000, 2), (3000, 20), (2000, 30)])
def test_small_data_take_little_memory_too(n, p, kappa):
    X, y = regression(n, p, seed=2)
    assert peak_of_second_fit(X, y, kappa) <= 0.3 * X.nbytes + samples(4, n, p) + 150_000


@pytest.mark.parametrize("order", ["strided rows", "strided columns", "F"])
def test_no_layout_of_the_data_is_copied(order):
    X, y = regression(20_000, 10, seed=2)
    if order == "strided rows":
        X = np.repeat(X, 2, axis=0)[::2]
    elif order == "strided columns":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    else:
        X = np.asfortranarray(X)
    assert peak_of_second_fit(X, y, 1.0) <= 0.3 * X.nbytes + samples(4, 20_000, 10)


def test_a_warm_start_at_the_solution_takes_next_to_no_passes():
    X, y = regression(5000, 4, seed=6)
    cold = solve(X, y)
    warm = solve(X, y, start=cold, search=False)
    assert warm.passes <= 3
    assert warm.value == pytest.approx(cold.value, abs=1e-9)
    np.testing.assert_allclose(warm.beta, cold.beta, atol=1e-9)


def test_a_warm_start_from_another_kappa_changes_the_route_only():
    X, y = regression(5000, 4, seed=6)
    start = solve(X, y, kappa=1.0)
    assert solve(X, y, kappa=0.5, start=start).value == pytest.approx(solve(X, y, kappa=0.5).value)


def test_the_result_is_frozen():
    X, y = regression(100, 2, seed=1)
    fit = solve(X, y)
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.tau = 0.5
    assert fit.loglike == -fit.value


def test_the_inputs_are_left_alone():
    X, y = regression(200, 3, seed=1)
    kept = X.copy(), y.copy()
    solve(X, y, weights=np.ones(200), offset=np.ones(200))
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


ALL_KAPPAS = st.sampled_from([0.0, 0.05, 1.0])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kappa=ALL_KAPPAS,
    scale=st.sampled_from([1e-6, 0.5, 40.0, -1.0, -1e5]),
)
def test_rescaled_and_shifted_responses_move_the_estimates_along(seed, kappa, scale):
    X, y = regression(150, 3, seed)
    shift = np.random.default_rng(seed).standard_normal(3) * abs(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit, moved = solve(X, y, kappa=kappa), solve(X, scale * y + X @ shift, kappa=kappa)
    expected = fit.tau if scale > 0 else 1 - fit.tau
    assert moved.value == pytest.approx(fit.value + 150 * np.log(abs(scale)), abs=1e-6)
    assert moved.tau == pytest.approx(expected, abs=1e-6)
    assert moved.sigma == pytest.approx(fit.sigma * abs(scale), rel=1e-6)
    np.testing.assert_allclose(moved.beta / scale, fit.beta + shift / scale, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), kappa=ALL_KAPPAS)
def test_other_columns_of_the_same_space_give_the_same_fit(seed, kappa):
    X, y = regression(150, 3, seed)
    A = np.random.default_rng(seed + 1).standard_normal((3, 3)) * [1e-4, 1.0, 1e5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit, other = solve(X, y, kappa=kappa), solve(X @ A, y, kappa=kappa)
    assert other.value == pytest.approx(fit.value, abs=1e-7)
    np.testing.assert_allclose(A @ other.beta, fit.beta, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), kappa=ALL_KAPPAS)
def test_the_order_of_the_rows_does_not_matter(seed, kappa):
    X, y = regression(150, 3, seed)
    order = np.random.default_rng(seed).permutation(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit, other = solve(X, y, kappa=kappa), solve(X[order], y[order], kappa=kappa)
    assert other.value == pytest.approx(fit.value, abs=1e-8)
    np.testing.assert_allclose(other.beta, fit.beta, atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), kappa=ALL_KAPPAS)
def test_integer_weights_are_repeated_rows(seed, kappa):
    X, y = regression(120, 3, seed)
    w = np.random.default_rng(seed).integers(0, 4, 120)
    w[:20] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        # the best optimum: among the kinks of kappa = 0 the scan may end in different ones
        weighted = solve(X, y, kappa=kappa, weights=w, search=True)
        repeated = solve(np.repeat(X, w, 0), np.repeat(y, w), kappa=kappa, search=True)
    assert weighted.n == w.sum()
    assert weighted.value == pytest.approx(repeated.value, abs=1e-7)
    np.testing.assert_allclose(weighted.beta, repeated.beta, atol=1e-6)


@pytest.mark.parametrize("n", [300, 60_000])
def test_an_offset_is_taken_off_the_response(n):
    X, y = regression(n, 3, seed=2)
    offset = np.random.default_rng(1).standard_normal(n)
    with_offset, moved = solve(X, y, offset=offset), solve(X, y - offset)
    assert with_offset.value == pytest.approx(moved.value, abs=1e-7)
    np.testing.assert_allclose(with_offset.beta, moved.beta, atol=1e-8)


@pytest.mark.parametrize("n", [300, 60_000])
def test_single_precision_and_fortran_order_are_taken_as_they_are(n):
    X, y = regression(n, 3, seed=2)
    X32, y32 = np.asfortranarray(X.astype(np.float32)), y.astype(np.float32)
    fit = solve(X32, y32)
    expected = solve(X32.astype(np.float64), y32.astype(np.float64))
    assert fit.value == pytest.approx(expected.value, abs=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("sigma", [None, 1.0])
def test_the_profile_without_the_normaliser_is_concave_in_tau(kappa, sigma):
    X, y = regression(60, 2, seed=9)
    taus = np.linspace(0.05, 0.95, 31)
    h = np.array(
        [solve(X, y, kappa=kappa, tau=t, sigma=sigma).value - 60 * log_c(t, kappa) for t in taus]
    )
    assert (np.diff(h, 2) <= 1e-8).all()


@pytest.mark.parametrize("kappa", [0.0, 1e-4, 0.05, 1.0, 100.0])
@pytest.mark.parametrize("sigma", [None, 1.0])
def test_the_dual_bound_is_below_the_value_everywhere(kappa, sigma):
    X, y = regression(90, 3, seed=10)
    setup = set_up(rows_of(X, y, None, None), task_of(kappa, None, sigma, DEFAULT_TAU_BOUNDS))
    m = setup.problem.m
    assert m == (87 if sigma is None else 90)
    rng = np.random.default_rng(0)
    for tau in [0.01, 0.3, 0.8]:
        best = fit_at(setup.problem, tau, setup.start[0])
        assert best.gap <= 1e-9 * 90
        for _ in range(30):
            z = best.z + 0.3 * rng.standard_normal(best.z.size) * np.append(
                np.ones(3), sigma is None
            )
            if z[-1] <= 0:
                continue
            u = setup.basis.design @ z
            value = loss(u, tau, kappa).sum() - m * np.log(z[-1])
            assert value >= best.dual.value - 1e-9


@pytest.mark.parametrize("sigma", [None, 1.3])
@pytest.mark.parametrize(("n", "unit"), [(60, None), (5000, None), (60, 1e-6), (5000, 30.0)])
def test_the_bound_from_the_gradient_is_below_the_minimum_and_close_to_it(n, unit, sigma):
    X, y = regression(n, 3, seed=n)
    task = task_of(1.0, 0.3, sigma, DEFAULT_TAU_BOUNDS, reml=False)
    weights = None if unit is None else np.full(n, unit)
    setup = set_up(rows_of(X, y, weights, None), task)
    n = setup.problem.n
    problem = setup.problem
    best = fit_at(problem, 0.3, setup.start[0])
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3, 1e-7, 1e-8):
        z = best.z * (1.0 + size * rng.standard_normal(best.z.size))
        if problem.theta is not None:
            z[-1] = problem.theta
        now = problem.evaluate(z, 0.3, slack=True)
        bound = dual_from_gradient(problem, NewtonPoint(z, 0.3, now, np.nan, 0, 0)).value
        assert bound <= best.value + 1e-9 * n
        if size <= 1e-7:  # no row of the zone is as near to its edge as the correction is long
            assert now.totals.slack > 0.0
            assert best.value - bound <= n * (10 * size) ** 2 + 1e-12 * n


def test_a_row_of_little_weight_and_much_leverage_does_not_fool_the_bound():
    x = np.append(np.ones(10), 1e5)
    y = np.array([5.0] * 4 + [-5.0] * 6 + [0.2])  # the last row is the only one in the zone
    rows = ArrayRows(np.column_stack([x, y]), None, np.append(np.ones(10), 1e-6))
    problem = Problem(rows, rows.weight_sum, 1.0, None, 1.0)
    here = np.array([0.0, 1.0])
    now = problem.evaluate(here, 0.3, slack=True)
    assert now.totals.rows_in_zone == 1
    bound = dual_from_gradient(problem, NewtonPoint(here, 0.3, now, np.nan, 0, 0)).value
    least = min(
        problem.evaluate(np.array([-b, 1.0]), 0.3).totals.loss for b in np.linspace(-6, 6, 2001)
    )
    assert now.totals.loss > least + 1.0
    assert bound <= least


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0, 4.0])
def test_the_best_tau_of_given_residuals_is_the_minimum_on_a_fine_grid(kappa):
    rng = np.random.default_rng(5)
    u, w = rng.laplace(size=300) + 0.4, rng.integers(1, 4, 300).astype(float)
    tau = best_tau(u, kappa, weights=w, tau_bounds=(1e-3, 1 - 1e-3))

    def value(t):
        return w @ loss(u, t, kappa) + w.sum() * log_c(t, kappa)

    grid = np.linspace(0.01, 0.99, 981)
    assert value(tau) <= min(value(t) for t in grid) + 1e-10


def test_the_best_tau_can_be_a_bound():
    assert best_tau(np.full(10, 1e6), 1.0, tau_bounds=(0.1, 0.9)) == 0.9
    assert best_tau(np.full(10, -1e6), 1.0, tau_bounds=(0.1, 0.9)) == 0.1


def test_an_interval_for_tau_that_excludes_the_first_guess_is_kept():
    X, y = regression(150, 2, 0)
    free = solve(X, y)
    for low, high in ((free.tau + 0.1, free.tau + 0.3), (free.tau - 0.2, free.tau - 0.1)):
        for kappa in (0.0, 1.0):
            with pytest.warns(BoundaryWarning):
                fit = solve(X, y, kappa=kappa, tau_bounds=(low, high))
            assert fit.tau_at_bound
            assert fit.converged
            held = solve(X, y, kappa=kappa, tau=fit.tau)
            assert fit.loglike == pytest.approx(held.loglike, abs=1e-8)


def test_newtons_method_starts_inside_the_bounds_of_tau():
    X, y = regression(150, 2, 0)
    setup = set_up(rows_of(X, y, None, None), task_of(1.0, None, None, (0.5, 0.6)))
    point = newton(setup.problem, setup.start[0], 0.2, tau_bounds=(0.5, 0.6), max_passes=1)
    assert 0.5 <= point.tau <= 0.6


@pytest.mark.parametrize("noise", ["gamma", "lognormal"])
@pytest.mark.parametrize("n", [1000, 2000])
def test_the_default_fit_of_skewed_noise_is_the_global_one(n, noise):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        exog = np.column_stack([np.ones(n), rng.standard_normal((n, 4))])
        skewed = rng.gamma(2.0, size=n) if noise == "gamma" else rng.lognormal(size=n)
        endog = exog @ rng.standard_normal(5) + skewed
        best = qhreg.solver.solve(exog, endog, search=True)
        assert best.certified
        fit = qhreg.solver.solve(exog, endog)
        assert fit.converged
        assert fit.loglike_restricted >= best.loglike_restricted - 1e-6 * n


@pytest.mark.parametrize("kappa", [0.0, 0.05, 4.0])
@pytest.mark.parametrize("size", [0.0, 1e3, 1e12, 1e15])
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_rows_in_place_are_fitted_as_in_a_copy_outliers_or_not(kappa, size, monkeypatch):
    X, y = regression(6000, 4, seed=4)
    rng = np.random.default_rng(0)
    y[rng.choice(6000, 30, replace=False)] += size * rng.uniform(-1.0, 1.0, 30)
    weights = rng.uniform(0.5, 2.0, 6000)
    fit = solve(X, y, kappa=kappa, weights=weights)
    monkeypatch.setattr(qhreg.solver.setup, "SAMPLE_ROWS", 10_000)
    copied = solve(X, y, kappa=kappa, weights=weights)
    assert fit.converged
    assert copied.converged
    assert fit.value == pytest.approx(copied.value, rel=1e-10, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_misleading_warm_start_does_not_change_the_exact_fit(weighted):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(2500), rng.standard_t(3, (2500, 6))])
    y = X.sum(axis=1) + rng.standard_t(2, 2500) * (1.0 + np.abs(X[:, 1]))
    weights = rng.uniform(0.5, 2.0, 2500) if weighted else None
    right = solve(X, y, kappa=0.0, tau=0.3, weights=weights)
    setup = set_up(rows_of(X, y, weights, None), task_of(0.0, 0.3, None, DEFAULT_TAU_BOUNDS))
    start = setup.start[0] + rng.standard_normal(8)
    start[-1] = abs(start[-1])
    fit = fit_at(replace(setup.problem, rank=0.0), 0.3, start, warm=True)
    log_c = setup.problem.n * np.log(1 / 0.3 + 1 / 0.7)
    value = fit.value + log_c - setup.problem.n * np.log(setup.basis.matrix[-1, -1])
    assert value == pytest.approx(right.value, rel=1e-12)
