"""The penalised fit: independent solvers agree, and the proof it carries is one."""

import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from model_data import skewed_frame
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import ElasticNet, Lasso, QuantileRegressor, Ridge

from qhreg import QuantileHuberMLE
from qhreg.exceptions import BoundaryWarning, ConvergenceWarning, DataError, DomainError
from qhreg.family.loss import loss_slope, quantile_huber_loss
from qhreg.family.normalizer import log_curvature, log_normalizer
from qhreg.regularized import largest_alpha, regularized_path, solve_regularized
from qhreg.regularized.fit import warn_about
from qhreg.regularized.penalized import Penalty, feature_sign
from qhreg.solver import solve


def regression(n=120, p=8, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.2, 4.0, size=p)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, p)) * spread + rng.normal(size=p)])
    return X, 3.0 + X[:, 1:4] @ [1.0, -1.0, 0.5] + rng.gumbel(size=n)


def without_data(tau, kappa, n, rank):
    """The part of QH-40 without data: log c, and p/2 log q of the restricted likelihood."""
    return log_normalizer(tau, kappa) + 0.5 * rank / n * log_curvature(tau, kappa).value


def objective(X, y, fit):
    """QH-40 written out, at the estimates."""
    n = y.size
    loss = quantile_huber_loss((y - X @ fit.beta) / fit.sigma, fit.tau, fit.kappa)
    constant = without_data(fit.tau, fit.kappa, n, fit.p)
    scale = (n - fit.p) / n * np.log(fit.sigma)
    return constant + scale + np.mean(loss) + fit.penalty.value(fit.beta / fit.sigma)


def conic(X, y, tau, kappa, sigma, penalty, weights=None, rank=0):
    """The same problem in the words of cvxpy, solved by Clarabel."""
    n, p = X.shape
    w = np.ones(n) if weights is None else weights
    b, v = cp.Variable(p), cp.Variable(n)
    over, under = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
    theta = cp.Variable() if sigma is None else 1.0 / sigma
    loss = cp.sum(cp.multiply(w, kappa / 2 * cp.square(v) + (1 - tau) * over + tau * under))
    ridge = 0.5 * cp.sum(cp.multiply(penalty.l2, cp.square(b)))
    total = loss / w.sum() + penalty.l1 @ cp.abs(b) + ridge
    if sigma is None:
        total = total - (1.0 - rank / w.sum()) * cp.log(theta)
    problem = cp.Problem(cp.Minimize(total), [theta * y - X @ b == kappa * v + over - under])
    with warnings.catch_warnings():
        # with the exponential cone it cannot always reach what is asked for
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    found = float(theta.value) if sigma is None else theta
    shift = 0.0 if sigma is None else -np.log(found)
    return b.value / found, problem.value + without_data(tau, kappa, w.sum(), rank) + shift


# --- against other solvers -------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1.3, None])
@pytest.mark.parametrize("kappa", [2.0, 0.3, 0.02])
@pytest.mark.parametrize(("alpha", "L1_wt"), [(0.05, 1.0), (0.03, 0.5), (0.1, 0.0)])
def test_the_minimum_is_that_of_clarabel(sigma, kappa, alpha, L1_wt):
    X, y = regression()
    for tau, reml in ((0.5, True), (0.2, True), (0.2, False)):
        options = {"tau": tau, "sigma": sigma, "kappa": kappa, "reml": reml}
        fit = solve_regularized(X, y, alpha=alpha, L1_wt=L1_wt, **options)
        rank = X.shape[1] if reml and sigma is None else 0
        beta, value = conic(X, y, tau, kappa, sigma, fit.penalty, rank=rank)
        assert fit.p == rank
        assert fit.converged
        assert fit.value == pytest.approx(value, abs=1e-7)
        assert fit.value <= value + 1e-9
        assert_allclose(fit.beta, beta, atol=1e-4 if sigma is None else 1e-5)
        assert fit.value == pytest.approx(objective(X, y, fit), abs=1e-12)


def test_more_columns_than_rows_are_fitted_with_sigma_estimated():
    X, y = regression(n=30, p=50, seed=3)
    with pytest.raises(DataError, match="30 for a rank of 30; pass reml=False"):
        solve_regularized(X, y, alpha=0.1, tau=0.3)
    fit = solve_regularized(X, y, alpha=0.1, tau=0.3, reml=False)
    beta, value = conic(X, y, 0.3, 4.0, None, fit.penalty)
    assert fit.converged
    assert fit.value == pytest.approx(value, abs=1e-7)
    assert_allclose(fit.beta, beta, atol=1e-4)
    assert 0 < fit.n_nonzero < 31


@pytest.mark.slow
def test_narrow_zones_with_more_columns_than_rows_are_proved_too():
    X, y = regression(n=40, p=60, seed=3)
    fit = solve_regularized(X, y, alpha=0.05, tau=0.2, kappa=0.01, reml=False)
    assert fit.converged
    assert fit.gap < 1e-9


def test_weights_and_offset_are_those_of_repeated_and_shifted_rows():
    X, y = regression()
    rng = np.random.default_rng(1)
    w, o = rng.integers(1, 4, size=y.size).astype(float), rng.normal(size=y.size)
    options = {"alpha": 0.05, "L1_wt": 0.7, "tau": 0.3, "kappa": 0.5}
    fit = solve_regularized(X, y, weights=w, offset=o, **options)
    rows = np.repeat(np.arange(y.size), w.astype(int))
    repeated = solve_regularized(X[rows], (y - o)[rows], **options)
    assert_allclose(fit.beta, repeated.beta, atol=1e-8)
    assert fit.value == pytest.approx(repeated.value, abs=1e-12)
    beta, value = conic(X, y - o, 0.3, 0.5, None, fit.penalty, weights=w, rank=X.shape[1])
    assert fit.value == pytest.approx(value, abs=1e-7)
    assert_allclose(fit.beta, beta, atol=1e-4)


@pytest.mark.parametrize("q", [0.3, 0.5])
def test_a_narrow_zone_gives_sklearns_quantile_regressor(q):
    X, y = regression()
    theirs = QuantileRegressor(quantile=q, alpha=0.05, solver="highs").fit(X[:, 1:], y)
    ours = solve_regularized(X, y, alpha=0.05, tau=1 - q, sigma=1.0, kappa=1e-4)
    assert_allclose(ours.beta[0], theirs.intercept_, atol=2e-4)
    assert_allclose(ours.beta[1:], theirs.coef_, atol=2e-4)


@pytest.mark.parametrize("model", ["lasso", "ridge", "net"])
def test_a_wide_zone_gives_sklearns_least_squares(model):
    """At tau = 1/2 the loss is r^2 / (2 kappa) with sigma = 1: their alpha is kappa times ours."""
    X, y = regression()
    kappa = 1e6
    theirs, L1_wt = {
        "lasso": (Lasso(alpha=0.4, tol=1e-14, max_iter=100_000), 1.0),
        "ridge": (Ridge(alpha=0.4 * y.size, tol=1e-12), 0.0),
        "net": (ElasticNet(alpha=0.4, l1_ratio=0.3, tol=1e-14, max_iter=100_000), 0.3),
    }[model]
    theirs.fit(X[:, 1:], y)
    ours = solve_regularized(
        X, y, alpha=0.4 / kappa, L1_wt=L1_wt, tau=0.5, sigma=1.0, kappa=kappa, tol=1e-16
    )
    assert_allclose(ours.beta[1:], theirs.coef_, atol=1e-6)
    assert_allclose(ours.beta[0], theirs.intercept_, atol=1e-6)


@pytest.mark.parametrize("reml", [True, False])
def test_no_penalty_is_the_fit(reml):
    X, y = regression(n=400)
    for fixed in ({}, {"tau": 0.3}, {"sigma": 1.2}, {"tau": 0.6, "sigma": 0.8}, {"kappa": 1.0}):
        options = {**fixed, "reml": reml}
        plain, fit = solve(X, y, **options), solve_regularized(X, y, alpha=0.0, **options)
        assert fit.loglike == pytest.approx(plain.loglike, abs=1e-7)
        assert fit.value * y.size == pytest.approx(plain.value, abs=1e-7)
        assert fit.p == plain.p
        assert_allclose(fit.beta, plain.beta, atol=1e-5)
        assert (fit.sigma, fit.tau) == (
            pytest.approx(plain.sigma, rel=1e-6),
            pytest.approx(plain.tau, rel=1e-6),
        )


# --- the proof -------------------------------------------------------------------------------------


def test_the_gap_bounds_the_distance_of_any_point_to_the_minimum():
    """Stopped early, the value is above the minimum by no more than the gap."""
    X, y = regression()
    for sigma in (1.0, None):
        for L1_wt in (1.0, 0.4):
            options = {"alpha": 0.05, "L1_wt": L1_wt, "tau": 0.3, "sigma": sigma, "kappa": 0.5}
            best = solve_regularized(X, y, **options)
            early = 0
            for tol in (1.0, 0.1, 3e-2, 1e-2, 1e-3, 1e-4):
                (rough,) = regularized_path(X, y, [0.05], tol=tol, **_without_alpha(options))
                assert rough.value - best.value <= rough.gap + 1e-12
                early += rough.value > best.value + 1e-6
            assert early >= 1


def _without_alpha(options):
    return {name: value for name, value in options.items() if name != "alpha"}


def test_the_subgradient_condition_holds_row_by_row():
    X, y = regression()
    fit = solve_regularized(X, y, alpha=0.05, L1_wt=0.8, tau=0.35)
    psi = loss_slope((y - X @ fit.beta) / fit.sigma, fit.tau, fit.kappa)
    b, s = fit.beta / fit.sigma, X.T @ psi / y.size
    kept = b != 0.0
    assert 1 < kept.sum() < b.size
    wanted = fit.penalty.l1 * np.sign(b) + fit.penalty.l2 * b
    assert_allclose(s[kept], wanted[kept], atol=1e-9)
    assert (np.abs(s[~kept]) <= fit.penalty.l1[~kept] + 1e-9).all()
    assert s[0] == pytest.approx(0.0, abs=1e-9)
    slope_in_theta = np.mean(psi * y) - (1.0 - X.shape[1] / y.size) * fit.sigma
    assert slope_in_theta == pytest.approx(0.0, abs=1e-8)


def test_a_point_that_is_not_optimal_violates_the_condition():
    penalty = Penalty(np.array([1.0, 1.0, 0.0]), np.array([0.0, 2.0, 0.0]))
    gradient, z = np.array([0.5, -3.0, 0.2]), np.array([0.0, 1.0, 4.0])
    assert_allclose(penalty.violation(gradient, z), [0.0, 0.0, 0.2])
    assert_allclose(penalty.violation(np.add(gradient, [1.0, 0.5, 0.0]), z), [0.5, 0.5, 0.2])


def test_the_conjugate_is_the_largest_difference():
    penalty = Penalty(np.array([0.5, 0.2]), np.array([2.0, 0.7]))
    s = np.array([1.4, -0.1])
    grid = np.linspace(-3.0, 3.0, 601)
    largest = max(s @ [a, b] - penalty.value(np.array([a, b])) for a in grid for b in grid[::20])
    assert penalty.conjugate(s) == pytest.approx(largest, abs=1e-4)
    assert Penalty(np.ones(1), np.zeros(1)).conjugate(np.array([1.1])) == np.inf
    assert Penalty(np.ones(1), np.zeros(1)).conjugate(np.array([0.9])) == 0.0


def test_the_quadratic_with_penalty_is_solved_exactly():
    rng = np.random.default_rng(5)
    for _ in range(60):
        k = int(rng.integers(1, 12))
        root = rng.normal(size=(k + 2, k))
        matrix, linear = root.T @ root + 1e-3 * np.eye(k), 3.0 * rng.normal(size=k)
        l1 = rng.uniform(0.0, 2.0, size=k) * (rng.random(k) < 0.8)
        start = rng.normal(size=k) * (rng.random(k) < 0.5)
        x = feature_sign(matrix, linear, l1, start)
        violation = Penalty(l1, np.zeros(k)).violation(matrix @ x - linear, x)
        assert violation.max() < 1e-9


def noises(rng, n):
    """Noise of several shapes, tied and two-peaked among them."""
    return {
        "gamma": rng.gamma(2.0, size=n),
        "lognormal": rng.lognormal(size=n),
        "two peaks": rng.normal(size=n) + 6.0 * (rng.random(n) < 0.3),
        "ties": np.round(rng.normal(size=n)),
        "normal": rng.normal(size=n),
    }


@pytest.mark.parametrize("n", [60, 2500])
def test_a_vanishing_penalty_has_the_optimum_over_tau_of_the_plain_fit(n):
    rng = np.random.default_rng(n)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 4))])
    for name, noise in noises(rng, n).items():
        y = X @ np.arange(5.0) + noise
        plain = solve(X, y)
        fit = solve_regularized(X, y, alpha=1e-12)
        assert fit.tau == pytest.approx(plain.tau, abs=1e-5), name
        assert fit.sigma == pytest.approx(plain.sigma, rel=1e-5), name
        assert_allclose(fit.beta, plain.beta, atol=1e-4, err_msg=name)


def test_the_order_of_rows_does_not_matter():
    X, y = regression()
    order = np.random.default_rng(2).permutation(y.size)
    one, other = (solve_regularized(X[rows], y[rows], alpha=0.05) for rows in (order, slice(None)))
    assert_allclose(one.beta, other.beta, atol=1e-9)
    assert_array_equal(one.beta == 0.0, other.beta == 0.0)
    assert (one.tau, one.sigma) == (pytest.approx(other.tau), pytest.approx(other.sigma))


def test_a_smaller_penalty_fits_better_and_weighs_more():
    """Along a path the penalty of size one grows and the objective without it falls."""
    X, y = regression()
    for options in ({}, {"tau": 0.3}, {"L1_wt": 0.5}):
        alphas = largest_alpha(X, y, **options) * 0.6 ** np.arange(10)
        path = regularized_path(X, y, alphas, **options)
        size = [fit.penalty.value(fit.beta / fit.sigma) / fit.alpha for fit in path]
        rest = [fit.value - fit.alpha * each for fit, each in zip(path, size, strict=True)]
        assert (np.diff(size) > 0.0).all()
        assert (np.diff(rest) < 0.0).all()
        for fit in path[::4]:
            single = solve_regularized(X, y, alpha=fit.alpha, **options)
            assert fit.value == pytest.approx(single.value, abs=1e-11)
            assert fit.tau == pytest.approx(single.tau, abs=1e-7)


def test_tau_is_stationary_and_no_other_tau_is_better():
    X, y = regression(n=200)
    fit = solve_regularized(X, y, alpha=0.05)
    assert abs(fit.tau_slope) < 1e-7
    others = [
        solve_regularized(X, y, alpha=0.05, tau=tau).value for tau in np.linspace(0.1, 0.9, 17)
    ]
    assert fit.value < min(others)
    near = [solve_regularized(X, y, alpha=0.05, tau=fit.tau + d).value for d in (-1e-3, 1e-3)]
    assert fit.value < min(near)


def test_tau_on_its_bound_and_an_unproved_fit_are_told():
    y = np.random.default_rng(0).exponential(size=80)
    X = np.column_stack([np.ones(80), np.arange(80) % 5])
    with pytest.warns(BoundaryWarning, match=r"bound 0\.9"):
        fit = solve_regularized(X, y, alpha=0.1, tau_bounds=(0.1, 0.9))
    assert fit.tau == 0.9
    with pytest.warns(ConvergenceWarning, match="duality gap 1"):
        warn_about(dataclasses.replace(fit, converged=False, gap=1.0))


# --- the penalty -----------------------------------------------------------------------------------


def test_estimates_follow_the_units_of_the_response():
    X, y = regression()
    one = solve_regularized(X, y, alpha=0.05)
    other = solve_regularized(X, 100.0 * y, alpha=0.05)
    assert_allclose(other.beta, 100.0 * one.beta, rtol=1e-5, atol=1e-6)
    assert other.sigma == pytest.approx(100.0 * one.sigma, rel=1e-6)
    assert other.tau == pytest.approx(one.tau, abs=1e-6)


def test_with_sigma_fixed_the_two_units_differ_by_a_factor():
    X, y = regression()
    options = {"tau": 0.4, "sigma": 0.7}
    lasso = solve_regularized(X, y, alpha=0.1, units="endog", **options)
    same = solve_regularized(X, y, alpha=0.07, units="sigma", **options)
    assert_allclose(lasso.beta, same.beta, atol=1e-9)
    ridge = solve_regularized(X, y, alpha=0.1, L1_wt=0.0, units="endog", **options)
    same = solve_regularized(X, y, alpha=0.049, L1_wt=0.0, units="sigma", **options)
    assert_allclose(ridge.beta, same.beta, atol=1e-9)
    with pytest.raises(DomainError, match="convex only with sigma fixed"):
        solve_regularized(X, y, alpha=0.1, units="endog")


def test_standardised_penalties_do_not_depend_on_the_units_of_the_columns():
    X, y = regression()
    scale = np.r_[1.0, 10.0 ** np.linspace(-2, 2, X.shape[1] - 1)]
    options = {"alpha": 0.2, "L1_wt": 0.6, "tau": 0.5}
    one = solve_regularized(X, y, standardize=True, **options)
    other = solve_regularized(X * scale, y, standardize=True, **options)
    assert_allclose(other.beta * scale, one.beta, atol=1e-6)
    plain = solve_regularized(X * scale, y, **options)
    assert np.abs(plain.beta * scale - one.beta).max() > 0.05
    spread = X[:, 1:].std(axis=0)
    by_hand = X / np.r_[1.0, spread]
    hand = solve_regularized(by_hand, y, **options)
    assert_allclose(hand.beta[1:] / spread, one.beta[1:], atol=1e-6)


def test_the_constant_is_not_penalised_and_weights_say_what_is():
    X, y = regression()
    strong = solve_regularized(X, y, alpha=50.0, tau=0.5)
    assert_array_equal(strong.beta != 0.0, np.arange(X.shape[1]) == 0)
    null = solve(np.ones((y.size, 1)), y, tau=0.5, rank=9)
    assert strong.beta[0] == pytest.approx(null.beta[0], abs=1e-6)
    weights = np.zeros(X.shape[1])
    weights[5] = 1.0
    one = solve_regularized(X, y, alpha=50.0, tau=0.5, penalty_weights=weights)
    assert one.beta[5] == 0.0
    rest = solve(np.delete(X, 5, axis=1), y, tau=0.5, rank=9)
    assert_allclose(np.delete(one.beta, 5), rest.beta, atol=1e-5)
    everything = solve_regularized(X, y, alpha=50.0, tau=0.5, penalty_weights=np.ones(9))
    assert not everything.beta.any()


def test_the_largest_alpha_is_where_the_first_coefficient_appears():
    X, y = regression()
    for options in (
        {"tau": 0.3},
        {"tau": 0.3, "sigma": 2.0},
        {"L1_wt": 0.5},
        {"standardize": True},
    ):
        top = largest_alpha(X, y, **options)
        above = solve_regularized(X, y, alpha=1.001 * top, **options)
        below = solve_regularized(X, y, alpha=0.99 * top, **options)
        assert above.n_nonzero == 1
        assert below.n_nonzero >= 2
    with pytest.raises(DomainError, match="no coefficient is ever zero"):
        largest_alpha(X, y, L1_wt=0.0)


def test_a_path_is_made_of_its_single_fits():
    X, y = regression()
    alphas = [0.3, 0.1, 0.03]
    path = regularized_path(X, y, alphas, tau=0.4, kappa=0.2)
    for alpha, fit in zip(alphas, path, strict=True):
        single = solve_regularized(X, y, alpha=alpha, tau=0.4, kappa=0.2)
        assert fit.value == pytest.approx(single.value, abs=1e-11)
        assert_allclose(fit.beta, single.beta, atol=1e-6)
    assert path[0].n_nonzero <= path[-1].n_nonzero


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1.0}, "alpha must be a nonnegative"),
        ({"alpha": 0.1, "L1_wt": 1.5}, "L1_wt must lie between 0 and 1"),
        ({"alpha": 0.1, "kappa": 0.0}, "positive kappa"),
        ({"alpha": 0.1, "kappa": None}, "positive kappa"),
        ({"alpha": 0.1, "units": "m"}, "units must be"),
        ({"alpha": 0.1, "penalty_weights": -np.ones(9)}, "not negative"),
        ({"alpha": 0.1, "tau": 1.0}, "tau"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(DomainError, match=words):
        solve_regularized(*regression(), **options)


@pytest.mark.parametrize("fixed", [{}, {"tau": 0.3}])
def test_a_response_that_free_columns_fit_exactly_is_named(fixed):
    X = np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 3))])
    line = X @ [1.0, 2.0, 0.0, 0.0]
    cases = [
        (X, np.full(12, 3.0), {"alpha": 0.1}),
        (X, line, {"alpha": 0.1, "penalty_weights": [0.0, 0.0, 1.0, 1.0]}),
        (X[:4], X[:4, 1] ** 2, {"alpha": 0.0, "reml": False}),
    ]
    for exog, endog, options in cases:
        with pytest.raises(DataError, match="without a penalty fit endog exactly"):
            solve_regularized(exog, endog, **options, **fixed)
        assert solve_regularized(exog, endog, sigma=1.0, **options, **fixed).sigma == 1.0


def test_a_tau_of_one_half_where_the_slope_is_zero_at_once_is_found():
    X = np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 3))])
    fit = solve_regularized(X, X @ [1.0, 2.0, 0.0, 0.0], alpha=0.1)
    assert fit.tau == pytest.approx(0.5)
    others = [
        solve_regularized(X, X @ [1.0, 2.0, 0.0, 0.0], alpha=0.1, tau=t) for t in (0.001, 0.3)
    ]
    assert all(fit.value < other.value for other in others)


def test_penalty_weights_of_the_wrong_length_are_named():
    X, y = regression()
    with pytest.raises(DataError, match=r"penalty_weights must have shape \(9,\), got \(2,\)"):
        solve_regularized(X, y, alpha=0.1, penalty_weights=[1.0, 2.0])


# --- through the model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return QuantileHuberMLE.from_formula("y ~ x + z + C(g)", skewed_frame(300))


def test_the_model_passes_its_data_and_names(model):
    fit = model.fit_regularized(alpha=0.1)
    obs = model.observations
    plain = solve_regularized(obs.exog, obs.endog, alpha=0.1)
    names = ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "z", "sigma", "tau"]
    assert list(fit.params.index) == names
    assert_allclose(fit.params, [*plain.beta, plain.sigma, plain.tau])
    assert fit.selected == [n for n, b in zip(names, plain.beta, strict=False) if b != 0.0]
    assert fit.converged
    assert (fit.duality_gap, fit.subgradient, fit.llf) == (
        plain.gap,
        plain.subgradient,
        plain.loglike,
    )
    assert "alpha = 0.1" in repr(fit)
    frame = skewed_frame(300)
    assert_allclose(fit.predict(frame.head(3)), fit.fittedvalues[:3])
    assert_allclose(fit.resid, frame.y - fit.fittedvalues)
    quantiles = fit.predict(frame.head(3), which="quantile", q=[0.1, 0.9])
    assert (quantiles[0.1] < quantiles[0.9]).all()
    assert 0.0 < fit.quantile_level < 1.0


def test_weights_of_the_penalty_are_given_by_name(model):
    fit = model.fit_regularized(alpha=5.0, penalty_weights={"x": 0.0})
    assert fit.selected == ["Intercept", "x"]
    series = pd.Series({"x": 0.0, "z": 0.0})
    assert model.fit_regularized(alpha=5.0, penalty_weights=series).selected == [
        "Intercept",
        "x",
        "z",
    ]
    with pytest.raises(DomainError, match="'q', which is no coefficient"):
        model.fit_regularized(alpha=5.0, penalty_weights={"q": 0.0})
    with pytest.raises(DomainError, match="method must be 'elastic_net'"):
        model.fit_regularized("sqrt_lasso", alpha=1.0)


def test_a_size_for_each_coefficient_is_the_weight_of_a_size_of_one(model):
    sizes = [0.0, 0.1, 0.2, 0.05, 0.3]
    fit = model.fit_regularized(alpha=sizes, L1_wt=0.7)
    weighted = model.fit_regularized(alpha=0.1, L1_wt=0.7, penalty_weights=np.divide(sizes, 0.1))
    assert_allclose(fit.params, weighted.params, rtol=1e-8)
    assert_allclose(fit.solution.penalty.l1, np.multiply(sizes, 0.7))
    assert fit.converged
    even = model.fit_regularized(alpha=np.array([0.0, 0.1, 0.1, 0.1, 0.1]))
    assert_allclose(even.params, model.fit_regularized(alpha=0.1).params, rtol=1e-8)
    all_of_them = model.fit_regularized(alpha=np.full(5, 0.1))  # the constant too
    assert abs(all_of_them.params.iloc[0]) < abs(even.params.iloc[0])
    with pytest.raises(DataError, match=r"alpha must be a number or have shape \(5,\), got \(2,\)"):
        model.fit_regularized(alpha=[0.1, 0.2])
    with pytest.raises(DomainError, match="leave out penalty_weights"):
        model.fit_regularized(alpha=sizes, penalty_weights={"x": 0.0})
    with pytest.raises(DomainError, match="not negative"):
        model.fit_regularized(alpha=[0.0, 0.1, -0.1, 0.1, 0.1])
    with pytest.raises(DomainError, match="one for each coefficient"):
        model.fit_regularized(alpha={"x": 0.1})


def test_a_series_of_sizes_is_matched_to_the_coefficients_by_name(model):
    names = model.exog_names[:5]
    sizes = pd.Series([0.0, 0.1, 0.2, 0.05, 0.3], index=names)
    expected = model.fit_regularized(alpha=sizes.to_numpy()).params
    assert_allclose(model.fit_regularized(alpha=sizes.iloc[::-1]).params, expected)
    assert_allclose(model.fit_regularized(alpha=sizes.reset_index(drop=True)).params, expected)
    with pytest.raises(DataError, match=f"alpha has the names q, .*coefficients are {names[0]}"):
        model.fit_regularized(alpha=sizes.rename({names[0]: "q"}))


def test_rows_of_a_penalised_fit_carry_their_labels():
    frame = skewed_frame(60).set_axis([f"r{i}" for i in range(60)])
    frame.loc["r7", "x"] = np.nan
    fit = QuantileHuberMLE.from_formula("y ~ x + z", frame).fit_regularized(alpha=0.05)
    kept = frame.drop("r7")
    fitted = fit.params["Intercept"] + kept[["x", "z"]] @ fit.params[["x", "z"]]
    pd.testing.assert_series_equal(fit.fittedvalues, fitted)
    pd.testing.assert_series_equal(fit.resid, kept.y - fitted)
    for name in ("resid_standardized", "resid_pearson", "resid_pit", "resid_quantile", "weights"):
        assert getattr(fit, name).index.equals(kept.index), name


def test_the_likelihood_of_a_model_is_restricted_or_not_as_in_its_fit(model):
    for reml in (True, False):
        plain, fit = model.fit(reml=reml), model.fit_regularized(alpha=0.0, reml=reml)
        assert_allclose(fit.params, plain.params, atol=1e-6)
        assert fit.llf == pytest.approx(plain.llf, abs=1e-8)
        point = model.fit_regularized(alpha=0.1, reml=reml)
        assert point.llf == pytest.approx(model.loglike(point.params), abs=1e-9)
        (path,) = model.fit_regularized_path([0.1], reml=reml).results
        assert_allclose(path.params, point.params, atol=1e-9)
    assert point.sigma < model.fit_regularized(alpha=0.1).sigma
    one, other = (model.cross_validate_penalty([0.1], reml=reml).mean[0] for reml in (True, False))
    assert one != other
    with pytest.raises(DomainError, match="reml must be True or False"):
        model.fit_regularized(alpha=0.1, reml="yes")


def test_a_model_with_more_columns_than_rows_says_what_to_do():
    X, y = regression(n=20, p=30)
    model = QuantileHuberMLE(y, X, tau=0.4)
    with pytest.raises(DataError, match="20 for a rank of 20; pass reml=False"):
        model.fit_regularized(alpha=0.1)
    path = model.fit_regularized_path(n_alphas=4, reml=False)
    assert all(fit.converged for fit in path.results)
    kept = np.flatnonzero(path.results[1].solution.beta)
    refit = model.fit_regularized(alpha=path.alphas[1], reml=False, refit=True)
    plain = solve(X[:, kept], y, tau=0.4, reml=False)
    assert refit.llf == pytest.approx(plain.loglike, abs=1e-6)


def test_a_refit_is_the_plain_fit_of_what_is_left(model):
    fit = model.fit_regularized(alpha=0.15)
    assert 1 < len(fit.selected) < 5
    again = fit.refit()
    direct = model.fit_regularized(alpha=0.15, refit=True)
    assert_allclose(direct.params, again.params)
    kept = [name for name in fit.selected if name != "Intercept"]
    plain = QuantileHuberMLE.from_formula(f"y ~ {' + '.join(kept)}", skewed_frame(300)).fit()
    assert again.llf == pytest.approx(plain.llf, abs=1e-6)
    assert_allclose(again.params[plain.params.index], plain.params, rtol=1e-4, atol=1e-5)
    assert_allclose(again.bse[plain.params.index], plain.bse, rtol=1e-3)
    assert model.fit_regularized(alpha=0.0, refit=True).llf == pytest.approx(model.fit().llf)


def test_penalised_fits_have_no_standard_errors(model):
    fit = model.fit_regularized(alpha=0.1)
    with pytest.raises(DomainError, match="no standard errors"):
        fit.get_prediction()
    with pytest.raises(DomainError, match="refit first"):
        fit.get_influence()
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.model = None


def test_the_default_path_runs_from_nothing_to_nearly_everything(model):
    path = model.fit_regularized_path(n_alphas=6, ratio=1e-3)
    table = path.to_frame()
    assert len(path) == 6
    assert (np.diff(path.alphas) < 0.0).all()
    assert table["nonzero"].iloc[0] == 1
    assert table["nonzero"].iloc[-1] >= 4
    assert (np.diff(table["llf"]) > 0.0).all()
    assert (table["gap"] < 1e-8).all()
    assert list(path.params.columns) == list(path.results[0].params.index)
    given = model.fit_regularized_path([0.01, 0.2])
    assert given.alphas.tolist() == [0.2, 0.01]
    with pytest.raises(DomainError, match="ratio between 0 and 1"):
        model.fit_regularized_path(ratio=2.0)


def test_cross_validation_scores_the_rows_left_out():
    frame = skewed_frame(120).reset_index(drop=True)
    model = QuantileHuberMLE.from_formula("y ~ x + z", frame, weights="w", offset="o")
    made = model.cross_validate_penalty([0.01, 0.3], n_folds=3, rng=4)
    assert made.alphas.tolist() == [0.3, 0.01]
    fold = np.random.default_rng(4).permutation(120) % 3
    inside, outside = frame[fold != 1], frame[fold == 1]
    single = QuantileHuberMLE.from_formula("y ~ x + z", inside, weights="w", offset="o")
    fit = single.fit_regularized(alpha=0.3)
    density = fit.get_distribution(outside).logpdf(outside.y)
    assert made.losses[1, 0] == pytest.approx(-np.average(density, weights=outside.w), rel=1e-6)
    assert_allclose(made.mean, made.losses.mean(axis=0))
    assert list(made.to_frame().columns) == ["mean", "standard_error"]
    with pytest.raises(DomainError, match="n_folds must be a whole number from 2 to 120"):
        model.cross_validate_penalty(n_folds=1)


def test_rows_without_weight_make_no_fold_and_a_fold_that_cannot_be_fitted_is_named():
    rng = np.random.default_rng(0)
    X, y = np.column_stack([np.ones(30), rng.normal(size=30)]), rng.laplace(size=30)
    weights = np.r_[np.ones(12), np.zeros(18)]
    some = QuantileHuberMLE(y, X, weights=weights).cross_validate_penalty([0.1, 0.01], rng=1)
    kept = QuantileHuberMLE(y[:12], X[:12]).cross_validate_penalty([0.1, 0.01], rng=1)
    assert_allclose(some.losses, kept.losses)
    one = np.r_[np.zeros(29), 1.0]
    with pytest.raises(DataError, match=r"with fold \d of 5 left out: .* fit endog exactly"):
        QuantileHuberMLE(one, X).cross_validate_penalty([0.1], rng=1)


def test_cross_validation_finds_that_noise_columns_do_not_help():
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(120), rng.normal(size=(120, 25))])
    y = 1.0 + 2.0 * X[:, 1] + rng.laplace(size=120)
    model = QuantileHuberMLE(y, X, tau=0.5)
    made = model.cross_validate_penalty(n_alphas=8, ratio=1e-3)
    assert made.alphas[-1] < made.best_alpha < made.alphas[0]
    assert made.one_se_alpha >= made.best_alpha
    assert made.mean.min() < made.mean[-1] - 0.02
    assert f"alpha = {made.best_alpha:.4g}" in repr(made)
    for seed in ({}, {"rng": 0}, {"rng": np.random.default_rng(0)}):
        again = model.cross_validate_penalty(n_alphas=8, ratio=1e-3, **seed)
        assert_array_equal(again.losses, made.losses)


def test_the_objective_is_that_of_statsmodels_elastic_net():
    """Theirs stops 4e-4 above the minimum here, scikit-learn's ends where ours does."""
    X, y = regression()
    kappa = 1e6
    model = QuantileHuberMLE(y, X, kappa=kappa, tau=0.5, sigma=1.0)
    ours = model.fit_regularized(alpha=0.4 / kappa, L1_wt=0.5, tol=1e-16).params.to_numpy()
    alphas = np.r_[0.0, np.full(X.shape[1] - 1, 0.4)]
    theirs = sm.OLS(y, X).fit_regularized(alpha=alphas, L1_wt=0.5).params
    third = ElasticNet(alpha=0.4, l1_ratio=0.5, tol=1e-14, max_iter=100_000).fit(X[:, 1:], y)

    def value(b):
        penalty = alphas @ (0.5 * np.abs(b) + 0.25 * b**2)
        return 0.5 * np.mean((y - X @ b) ** 2) + penalty

    assert value(ours) <= value(theirs) <= value(ours) + 1e-3
    assert_allclose(ours[1:], third.coef_, atol=1e-8)


@pytest.mark.parametrize("shift", [1e3, 1e4, 1e9])
@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"L1_wt": 0.5, "sigma": 1.0}])
def test_columns_far_from_zero_have_the_fit_of_the_same_columns_centred(shift, options):
    X, y = regression()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=y.size)
    far = X + np.r_[0.0, shift, -shift, np.zeros(X.shape[1] - 3)]
    near = far - np.r_[0.0, shift, -shift, np.zeros(X.shape[1] - 3)]  # rounded as the far ones are
    path = [0.1, 0.02]
    wanted = regularized_path(near, y, path, weights=weights, tau=0.3, **options)
    made = regularized_path(far, y, path, weights=weights, tau=0.3, **options)
    for one, other in zip(made, wanted, strict=True):
        assert one.converged
        assert one.gap <= 1e-9
        assert_allclose(one.beta[1:], other.beta[1:], rtol=1e-6, atol=1e-7)
        assert_array_equal(one.beta == 0.0, other.beta == 0.0)
        assert one.sigma == pytest.approx(other.sigma, rel=1e-7)
        assert one.value == pytest.approx(other.value, rel=1e-9)
        intercept = other.beta[0] - shift * (other.beta[1] - other.beta[2])
        assert one.beta[0] == pytest.approx(intercept, rel=1e-6)
    if "sigma" not in options:
        options = options | {"tau": 0.3, "weights": weights}
        assert largest_alpha(far, y, **options) == pytest.approx(
            largest_alpha(near, y, **options), rel=1e-6
        )


def test_dates_as_numbers_are_fitted_with_an_estimated_tau():
    X, y = regression()
    seconds = 1.7e9 + 60.0 * np.arange(y.size)
    dates = np.column_stack([X, seconds])
    minutes = np.column_stack([X, (seconds - seconds.mean()) / 60.0])
    fit = QuantileHuberMLE(y, dates).fit_regularized(alpha=0.02, standardize=True)
    wanted = QuantileHuberMLE(y, minutes).fit_regularized(alpha=0.02, standardize=True)
    assert fit.converged
    assert_allclose(fit.params[1:-3], wanted.params[1:-3], rtol=1e-6, atol=1e-8)
    assert fit.params.iloc[-3] * 60.0 == pytest.approx(wanted.params.iloc[-3], rel=1e-6)
    assert_allclose(fit.params[-2:], wanted.params[-2:], rtol=1e-6)


def test_a_path_that_starts_without_a_penalty_ends_where_each_fit_alone_does():
    X, y = regression()
    options = {"tau": 0.4, "penalty_weights": np.ones(X.shape[1])}  # on the constant too
    _, made = regularized_path(X, y, [0.0, 0.1], **options)
    alone = solve_regularized(X, y, alpha=0.1, **options)
    assert made.value == pytest.approx(alone.value, rel=1e-10)
    assert_allclose(made.beta, alone.beta, atol=1e-7)
