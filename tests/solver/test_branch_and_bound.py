"""The certificate of global optimality, and the default fit that passes it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference_solvers import brute_joint
from scipy import stats
from solver_data import ml_solve as solve
from solver_data import regression, small_sample

import qhreg.solver
from qhreg.certificate.global_optimum import certify_global
from qhreg.engine.rows import rows_of
from qhreg.exceptions import BoundaryWarning
from qhreg.solver import DEFAULT_TAU_BOUNDS, task_of
from qhreg.solver.branch_and_bound import concave_bound, cross_product, tau_dual
from qhreg.solver.dual import dual_value
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.setup import set_up

UNDETERMINED = "ignore:the coefficient of 0 is not determined"


def two_peaks() -> tuple[np.ndarray, np.ndarray]:
    """Return a constant and a response with two peaks and outward tails, nearly symmetric.

    More rows lie above, so that least squares starts on the way to the low tau; the shorter tail
    below makes the high one better.
    """
    below, above = (stats.expon.ppf((np.arange(n) + 0.5) / n) for n in (28, 32))
    return np.ones((60, 1)), np.concatenate([-1 - 0.25 * below, 1 + 0.5 * above])


@pytest.mark.filterwarnings(UNDETERMINED)  # no row lies between the peaks
def test_the_two_peak_sample_has_two_local_maxima_and_the_certificate_finds_the_better():
    X, y = two_peaks()
    low = solve(X, y, kappa=0.3, start=solve(X, y, kappa=0.3, tau=0.1), search=False)
    high = solve(X, y, kappa=0.3, start=solve(X, y, kappa=0.3, tau=0.9), search=False)
    assert low.converged
    assert high.converged
    assert low.tau < 0.25
    assert high.tau > 0.75
    assert high.loglike > low.loglike + 3.0
    missed = certify_global(X, y, low)
    assert not missed.holds
    assert missed.better.tau == pytest.approx(high.tau, abs=1e-6)
    assert missed.better.loglike == pytest.approx(high.loglike, abs=1e-8)
    assert "NOT the global maximum" in str(missed)


@pytest.mark.filterwarnings(UNDETERMINED)  # no row lies between the peaks
def test_a_local_method_alone_misses_it_and_the_default_fit_does_not():
    X, y = two_peaks()
    wrong_side = solve(X, y, kappa=0.3, tau=0.1)
    assert solve(X, y, kappa=0.3, start=wrong_side, search=False).tau < 0.25
    for start in (None, wrong_side):
        default = solve(X, y, kappa=0.3, start=start)
        assert default.tau > 0.75
    certificate = certify_global(X, y, default)
    assert certificate.holds
    assert "Global maximum proved" in str(certificate)
    assert "Global maximum proved" in certificate._repr_html_()


@pytest.mark.parametrize("n", [600, 20_000])
def test_larger_samples_with_two_peaks_are_searched_through_a_sample(n):
    rng = np.random.default_rng(n)
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    left = rng.random(n) < 0.5
    noise = np.where(left, -1 - 0.3 * rng.exponential(size=n), 1 + 0.4 * rng.exponential(size=n))
    y = X @ [1.0, 2.0] + noise
    assert certify_global(X, y, solve(X, y, kappa=0.3)).holds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("block", range(4))
def test_the_default_fit_is_the_certified_optimum_of_small_samples(block):
    missed = 0
    for seed in range(250 * block, 250 * (block + 1)):
        X, y, _ = small_sample(seed)
        fit = qhreg.solver.solve(X, y)
        assert fit.converged, seed
        certificate = certify_global(X, y, fit)
        assert certificate.gap < 0.01, seed
        missed += not certificate.holds
    assert missed <= 1  # of 250


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("block", range(4))
def test_a_scan_misses_little_at_small_widths_and_a_search_nothing(block):
    missed = 0
    for seed in range(100 * block, 100 * (block + 1)):
        X, y, options = small_sample(seed)
        fit = qhreg.solver.solve(X, y, **options)
        best = qhreg.solver.solve(X, y, search=True, **options)
        assert fit.converged, seed
        assert best.certified, seed
        shortfall = best.loglike_restricted - fit.loglike_restricted
        assert shortfall < 0.3, seed  # the profile at kappa = 0 has a kink for every row
        missed += shortfall > 1e-6 * y.size
    assert missed <= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_hold_against_a_scan_of_conic_fits(seed):
    X, y = regression(40, 2, seed)
    reference = brute_joint(X, y, 1.0)
    certificate = certify_global(
        X, y, solve(X, y, tau_bounds=(0.02, 0.98)), tau_bounds=(0.02, 0.98)
    )
    assert certificate.holds
    assert certificate.lower_bound >= -reference.value - 1e-7
    assert certificate.upper_bound >= -reference.value


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_tau_on_a_fine_grid_beats_the_upper_bound(kappa, weighted):
    X, y = regression(70, 2, seed=5)
    w = np.random.default_rng(0).integers(1, 4, 70).astype(float) if weighted else None
    certificate = certify_global(X, y, solve(X, y, kappa=kappa, weights=w), weights=w)
    assert certificate.holds
    assert certificate.gap <= 1e-6
    profile = [
        solve(X, y, kappa=kappa, tau=t, weights=w).loglike for t in np.linspace(0.01, 0.99, 99)
    ]
    assert max(profile) <= certificate.upper_bound


def test_the_nodes_are_profile_points_with_bounds_above_them():
    X, y = regression(100, 2, seed=5)
    certificate = certify_global(X, y, solve(X, y))
    assert (np.diff(certificate.nodes_tau) > 0).all()
    assert (certificate.nodes_bound >= certificate.nodes_loglike - 1e-9).all()
    for tau, loglike in zip(certificate.nodes_tau, certificate.nodes_loglike, strict=True):
        assert solve(X, y, tau=float(tau)).loglike == pytest.approx(loglike, abs=1e-7)


def test_too_few_fits_leave_the_matter_undecided_and_say_so():
    X, y = regression(100, 2, seed=5)
    certificate = certify_global(X, y, solve(X, y), max_fits=2)
    assert not certificate.holds
    assert certificate.better is None
    assert certificate.gap > 1e-6
    assert "Not decided" in str(certificate)


def test_a_fixed_sigma_is_certified_too():
    X, y = regression(100, 2, seed=5)
    assert certify_global(X, y, solve(X, y, sigma=1.0), sigma=1.0).holds


def test_large_data_are_certified_without_a_copy():
    X, y = regression(60_000, 4, seed=5)
    certificate = certify_global(X, y, solve(X, y))
    assert certificate.holds
    assert certificate.n_fits <= 20


def test_the_mixture_of_duals_bounds_to_third_order_and_the_chord_to_second():
    X, y = regression(20_000, 2, seed=1)
    setup = set_up(
        rows_of(X, y, None, None), task_of(1.0, None, None, DEFAULT_TAU_BOUNDS, reml=False)
    )

    def at(tau):
        return fit_at(setup.problem, tau, setup.start[0])

    middle = at(0.3)
    chord, mixture = [], []
    for width in [0.2, 0.1, 0.05]:
        left, right = at(0.3 - width / 2), at(0.3 + width / 2)
        square = left.dual.square + right.dual.square
        square += 2.0 * left.dual.variables.dot(right.dual.variables)
        alignment = 0.5 * (left.dual.alignment + right.dual.alignment)
        bound = float(dual_value(alignment, square / 4.0, setup.problem.n, 1.0, None))
        mixture.append(middle.value - bound)
        chord.append(middle.value - 0.5 * (left.value + right.value))
        assert 0.0 <= mixture[-1] < chord[-1]
    orders = [np.log2(np.divide(e[:-1], e[1:])) for e in (chord, mixture)]
    np.testing.assert_allclose(orders[0], 2.0, atol=0.3)
    assert (orders[1] > 2.6).all()


def dual_values(point):
    """Return v of every row of a problem of one block."""
    block = next(iter(point.rows.blocks()))
    u, shift = block.exog @ point.here, block.exog @ point.shift
    zone = np.clip(u, -point.kappa * point.tau, point.kappa * (1 - point.tau))
    return (zone / point.kappa - (zone == u) * shift) / point.overshoot


@pytest.mark.parametrize("kappa", [1.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_dual_variables_are_feasible_and_their_products_bound_the_profile(kappa, weighted):
    X, y = regression(80, 3, seed=4)
    w = np.random.default_rng(0).integers(1, 4, 80).astype(float) if weighted else np.ones(80)
    rows = rows_of(X, y, w if weighted else None, None)
    setup = set_up(rows, task_of(kappa, None, None, DEFAULT_TAU_BOUNDS))
    problem = setup.problem
    a, b = (fit_at(problem, tau, setup.start[0]) for tau in (0.25, 0.4))
    left, right = tau_dual(a), tau_dual(b)
    v_a, v_b = dual_values(left.variables), dual_values(right.variables)
    for fit, v in ((a, v_a), (b, v_b)):
        assert v.min() >= -fit.tau - 1e-12
        assert v.max() <= 1.0 - fit.tau + 1e-12
        np.testing.assert_allclose((w * v) @ X, 0.0, atol=1e-9)
        assert (w * v) @ v == pytest.approx(fit.dual.square, rel=1e-7)
    cross = cross_product(left, right, kappa)
    most = cross_product(left._replace(variables=None), right, kappa)
    assert cross == pytest.approx(float((w * v_a) @ v_b), rel=1e-12)
    assert cross <= most
    grid = np.linspace(0.25, 0.4, 7)
    with_them, without = (concave_bound(problem, left, right, c, grid) for c in (cross, most))
    assert (without <= with_them + 1e-12).all()


def test_maxima_far_apart_and_nearly_as_high_do_not_keep_the_search_from_the_highest():
    values = [-36.496, -27.736, -26.909, -20.424, -20.028, -12.496]
    values += [-11.118, -7.235, -7.211, -3.589, -2.28, 14.536]
    counts = np.array([1, 1, 2, 3, 3, 3, 2, 1, 2, 3, 2, 1])
    endog, exog = np.repeat(values, counts), np.ones((24, 1))
    fit = solve(exog, endog, kappa=0.0)
    counted = solve(exog[:12], np.array(values), kappa=0.0, weights=counts.astype(float))
    assert_allclose(fit.loglike, counted.loglike, rtol=1e-12)
    # the profile over tau has maxima at 0.32 and 0.70, 3e-4 apart in height, and 0.05 above at 0.43
    assert_allclose(fit.tau, 0.4337, atol=1e-3)
    assert certify_global(exog, endog, fit).holds


def test_a_search_does_not_stall_beside_a_rough_fit_that_was_improved():
    """The gap of such a fit kept its neighbours open until all fits were spent."""
    rng = np.random.default_rng(34)
    n = int(rng.choice([30, 60, 120, 300]))
    rng.choice(11), rng.integers(8), rng.integers(5)
    x = rng.normal(size=n)
    X = np.column_stack([np.ones(n), x])
    y = x + np.where(rng.random(n) < 0.5, -4, 4) + rng.normal(size=n) * rng.choice([0.1, 0.5, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        weights = 10.0 ** rng.uniform(-3.0, 3.0, n)
        fit = solve(X, y, kappa=0.0, weights=weights, search=True)
    assert fit.certified
