"""Scale and asymmetry with regressors: the likelihood, the solver and what it proves."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
import r_references
from distributional_data import TRUTH, changed, drawn, loglike_by_definition, regression
from numpy.testing import assert_allclose
from scipy import integrate, optimize, special

from qhreg import QuantileHuberDistributional, quantile_huber
from qhreg.distributional import fit as fit_module
from qhreg.distributional.ascent import STATIONARY, exact_location, location_gap
from qhreg.distributional.fit import solve_distributional
from qhreg.distributional.likelihood import (
    assemble,
    evaluate,
    gradient,
    hessian_factors,
    information_factors,
    loglike_rows,
    score_factors,
)
from qhreg.exceptions import BoundaryWarning, ConvergenceWarning, DomainError, RankWarning
from qhreg.solver import solve

PARAMS = np.array([0.9, 2.1, 0.3, 0.4, 0.2, -0.4])


def one_row(y, tau, kappa, sigma=1.3):
    """A row whose three predictors are the three parameters."""
    one = np.ones((1, 1))
    data = regression(np.array([y]), one, one, one, kappa)
    return data, np.array([0.4, np.log(sigma), special.logit(tau)])


def loss_mp(u, tau, kappa):
    if u < -kappa * tau:
        return -tau * u - kappa * tau**2 / 2
    if u > kappa * (1 - tau):
        return (1 - tau) * u - kappa * (1 - tau) ** 2 / 2
    return u**2 / (2 * kappa)


def loglike_mp(y, kappa):
    """One row's log-likelihood in 30 digits."""

    def value(mu, eta, zeta):
        tau = 1 / (1 + mpmath.exp(-zeta))
        root = mpmath.sqrt(kappa)
        c = mpmath.exp(-kappa * tau**2 / 2) / tau
        c += mpmath.exp(-kappa * (1 - tau) ** 2 / 2) / (1 - tau)
        within = mpmath.ncdf((1 - tau) * root) - mpmath.ncdf(-tau * root)
        c += mpmath.sqrt(2 * mpmath.pi) * root * within
        return -mpmath.log(c) - eta - loss_mp((y - mu) / mpmath.exp(eta), tau, kappa)

    return value


# --- derivatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "tau", "kappa"), [(-3.0, 0.3, 1.0), (0.5, 0.3, 1.0), (4.0, 0.8, 0.4)]
)
def test_scores_and_hessian_are_the_derivatives_of_the_log_likelihood(y, tau, kappa):
    data, params = one_row(y, tau, kappa)
    state = evaluate(data, params)
    with mpmath.workdps(30):
        exact = loglike_mp(mpmath.mpf(y), mpmath.mpf(kappa))
        point = tuple(mpmath.mpf(float(v)) for v in params)
        assert_allclose(loglike_rows(state)[0], float(exact(*point)), rtol=1e-14)
        orders = np.eye(3, dtype=int)
        first = [float(mpmath.diff(exact, point, tuple(map(int, o)))) for o in orders]
        pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
        second = [
            float(mpmath.diff(exact, point, tuple(map(int, orders[i] + orders[j]))))
            for i, j in pairs
        ]
    assert_allclose([f[0] for f in score_factors(state)], first, rtol=1e-9)
    assert_allclose([-f[0] for f in hessian_factors(state)], second, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0])
def test_sums_over_rows_are_those_of_the_regressors(kappa):
    data = drawn(50, kappa, 0, weights=True)
    value = lambda p: float(data.weights @ loglike_rows(evaluate(data, p)))  # noqa: E731
    assert_allclose(value(PARAMS), loglike_by_definition(PARAMS, data), rtol=1e-13)
    slope = optimize.approx_fprime(PARAMS, value, 1e-7)
    assert_allclose(gradient(data, evaluate(data, PARAMS)), slope, rtol=2e-5, atol=2e-5)
    h = 1e-6
    columns = [
        (
            gradient(data, evaluate(data, PARAMS + h * e))
            - gradient(data, evaluate(data, PARAMS - h * e))
        )
        / (2 * h)
        for e in np.eye(6)
    ]
    hessian = assemble(data, hessian_factors(evaluate(data, PARAMS)))
    assert_allclose(-hessian, np.array(columns), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 1.0), (0.5, 0.1), (0.9, 5.0), (0.2, 0.0)])
def test_the_information_is_the_expected_product_of_the_scores(tau, kappa):
    data, params = one_row(0.0, tau, kappa)
    sigma = 1.3

    def at(u):
        return evaluate(changed(data, endog=np.array([0.4 + sigma * u])), params)

    def expected(i, j):
        def integrand(u):
            scores = score_factors(at(u))
            return float(scores[i][0] * scores[j][0] * quantile_huber.pdf(u, tau, kappa))

        cuts = [-np.inf, -kappa * tau, kappa * (1 - tau), np.inf]
        pieces = pairwise(cuts)
        return sum(integrate.quad(integrand, a, b, epsabs=1e-12)[0] for a, b in pieces if a < b)

    pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    found = [f[0] for f in information_factors(at(0.3))]
    assert_allclose(found, [expected(i, j) for i, j in pairs], rtol=1e-8, atol=1e-10)


def test_the_information_is_also_the_expected_hessian():
    kappa, tau = 0.7, 0.35
    data, params = one_row(0.0, tau, kappa)
    u = quantile_huber.ppf((np.arange(400_000) + 0.5) / 400_000, tau, kappa)
    many = changed(data, endog=0.4 + 1.3 * u, location=np.ones((u.size, 1)))
    many = changed(many, scale=many.location, tau=many.location)
    state = evaluate(many, params)
    mean = assemble(many, hessian_factors(state)) / u.size
    expected = assemble(many, information_factors(state)) / u.size
    assert_allclose(mean, expected, rtol=1e-3, atol=1e-3)


# --- convexity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.5, 10.0])
def test_the_objective_is_convex_in_the_location_and_in_the_scale(kappa):
    data = drawn(40, kappa, 3)
    rng = np.random.default_rng(0)
    for block in ("location", "scale"):
        place = data.block(block)
        for _ in range(200):
            a, b = np.tile(PARAMS, (2, 1))
            a[place], b[place] = 2.0 * rng.normal(size=(2, 2))
            share = rng.uniform()
            f = [-loglike_by_definition(p, data) for p in (a, b, share * a + (1 - share) * b)]
            assert f[2] <= share * f[0] + (1 - share) * f[1] + 1e-9


def test_it_is_not_convex_in_the_asymmetry():
    data, params = one_row(-30.0, 0.9, 0.0)
    assert hessian_factors(evaluate(data, params)).tau_tau[0] < 0.0


# --- the location ----------------------------------------------------------------------------------


def test_the_exact_location_solves_the_linear_programme_with_a_level_for_each_row():
    data = drawn(80, 0.0, 5, weights=True)
    state = evaluate(data, PARAMS)
    found = exact_location(data, PARAMS)
    assert found.gap < 1e-9
    n, p = data.location.shape
    rows = data.location / state.sigma[:, None]
    cost = np.concatenate([np.zeros(p), data.weights * (1 - state.tau), data.weights * state.tau])
    equality = np.hstack([rows, np.eye(n), -np.eye(n)])
    answer = optimize.linprog(
        cost,
        A_eq=equality,
        b_eq=data.endog / state.sigma,
        bounds=[(None, None)] * p + [(0, None)] * (2 * n),
    )
    assert_allclose(found.params[:p], answer.x[:p], rtol=1e-7)
    assert np.sum(evaluate(data, found.params).u == 0.0) == p


@pytest.mark.parametrize("kappa", [0.05, 1.0])
def test_the_exact_location_is_that_of_a_conic_solver(kappa):
    cvxpy = pytest.importorskip("cvxpy")
    data = drawn(60, kappa, 6)
    state = evaluate(data, PARAMS)
    beta, v = cvxpy.Variable(2), cvxpy.Variable(60)
    above, below = cvxpy.Variable(60, nonneg=True), cvxpy.Variable(60, nonneg=True)
    u = cvxpy.multiply(1 / state.sigma, data.endog - data.location @ beta)
    loss = kappa / 2 * cvxpy.sum_squares(v) + (1 - state.tau) @ above + state.tau @ below
    cvxpy.Problem(cvxpy.Minimize(loss), [u == kappa * v + above - below]).solve("CLARABEL")
    found = exact_location(data, PARAMS)
    assert found.gap < 1e-9
    assert_allclose(found.params[:2], beta.value, rtol=1e-4)


def test_the_gap_of_a_location_bounds_what_another_would_gain():
    data = drawn(100, 0.5, 7)
    best = exact_location(data, PARAMS).params
    for shift in (0.0, 1e-3, 0.1):
        worse = best + shift * np.array([1.0, -1.0, 0, 0, 0, 0])
        gained = loglike_by_definition(best, data) - loglike_by_definition(worse, data)
        assert location_gap(data, worse) >= gained - 1e-10


# --- the fit ---------------------------------------------------------------------------------------

KAPPAS = [0.0, 1e-3, 0.05, 0.5, 1.0, 8.0]


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_constants_alone_give_the_fit_of_the_simpler_model(kappa, weighted):
    data = drawn(150, kappa, 11, weights=weighted)
    one = np.ones((150, 1))
    data = changed(data, scale=one, tau=one, offset=np.linspace(0.0, 1.0, 150))
    simple = solve(
        data.location,
        data.endog,
        kappa=kappa,
        weights=data.weights,
        offset=data.observations.offset,
        reml=False,
    )
    fit = solve_distributional(data)
    assert fit.converged
    assert_allclose(fit.loglike, simple.loglike, rtol=0, atol=1e-8)
    linked = [*simple.beta, np.log(simple.sigma), special.logit(simple.tau)]
    assert_allclose(fit.params, linked, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_a_fit_is_stationary_and_never_below_the_simpler_one(kappa):
    for seed in range(6):
        data = drawn(80, kappa, seed)
        fit = solve_distributional(data)
        assert fit.converged
        assert fit.score_norm <= STATIONARY
        assert fit.location_gap <= 1e-7
        assert fit.curvature > 0.0
        assert fit.loglike >= fit.start.loglike
        assert_allclose(fit.loglike, loglike_by_definition(fit.params, data), rtol=1e-11)
        if kappa > 0.0:
            score = gradient(data, evaluate(data, fit.params))
            info = assemble(data, information_factors(evaluate(data, fit.params)))
            assert np.sqrt(score @ np.linalg.solve(info, score)) < 2e-6


@pytest.mark.parametrize(("kappa", "seed"), [(0.3, 0), (1.0, 1), (1.0, 2), (6.0, 3)])
def test_a_general_optimiser_from_many_starts_finds_nothing_better(kappa, seed):
    data = drawn(60, kappa, seed)
    fit = solve_distributional(data)
    rng = np.random.default_rng(seed)
    best = np.inf
    for _ in range(15):
        start = fit.start.beta, np.log(fit.start.sigma), special.logit(fit.start.tau)
        start = np.array([*start[0], start[1], 0.0, start[2], 0.0]) + 0.5 * rng.normal(size=6)
        found = optimize.minimize(
            lambda p: -loglike_by_definition(p, data),
            start,
            jac=lambda p: -gradient(data, evaluate(data, p)),
            method="L-BFGS-B",
            bounds=[(None, None)] * 4 + [(-6.9, 6.9)] * 2,
            options={"ftol": 1e-15, "gtol": 1e-9},
        )
        best = min(best, float(found.fun))
    assert fit.value <= best + 1e-8
    assert_allclose(fit.value, best, rtol=1e-8)


def test_no_neighbour_is_better_at_the_corner():
    """At kappa = 0 no derivative says so: look around, on every scale."""
    data = drawn(120, 0.0, 4)
    fit = solve_distributional(data)
    rng = np.random.default_rng(0)
    for size in 10.0 ** np.arange(-8, 0):
        for _ in range(100):
            other = fit.params + size * rng.normal(size=6)
            assert loglike_by_definition(other, data) <= fit.loglike + 1e-9


@pytest.mark.parametrize("kappa", [1e-13, 1e-11, 1e-9, 1e-6])
def test_a_tiny_zone_gives_the_fit_of_the_corner(kappa):
    for seed in range(3):
        data = drawn(80, 0.0, seed)
        corner, fit = solve_distributional(data), solve_distributional(changed(data, kappa=kappa))
        assert fit.converged
        assert_allclose(fit.loglike, corner.loglike, atol=1e-8 + 10.0 * kappa)


def test_a_wide_zone_gives_the_normal_location_scale_fit():
    rng = np.random.default_rng(8)
    n = 200
    x, z = (np.column_stack([np.ones(n), rng.normal(size=n)]) for _ in range(2))
    y = x @ [1.0, 2.0] + np.exp(z @ [0.1, 0.4]) * rng.normal(size=n)
    kappa = 1e4
    data = regression(y, x, z, np.empty((n, 0)), kappa, logit_tau=0.0)
    fit = solve_distributional(data)

    def negative(p):
        eta = z @ p[2:]
        return float(np.sum(eta + 0.5 * ((y - x @ p[:2]) * np.exp(-eta)) ** 2))

    normal = optimize.minimize(negative, np.array([1.0, 2.0, 0.0, 0.0]), method="BFGS", tol=1e-10)
    assert fit.converged
    assert_allclose(fit.params[:2], normal.x[:2], rtol=1e-5)
    assert_allclose(fit.params[2:] + np.array([0.5 * np.log(kappa), 0.0]), normal.x[2:], atol=1e-5)
    assert_allclose(fit.value, negative(normal.x) + 0.5 * n * np.log(2 * np.pi), rtol=1e-10)


@pytest.mark.parametrize("name", list(r_references.load("r_distributional")["problems"]))
def test_r_finds_nothing_better(name):
    problem = r_references.load("r_distributional")["problems"][name]
    exog, endog = r_references.design(problem)
    by = problem["divided_by"]
    exog = exog / np.array([1.0, by])
    tau = exog if problem["tau_regressors"] else np.ones((len(endog), 1))
    fit = QuantileHuberDistributional(
        endog / by, exog, exog_scale=exog, exog_tau=tau, kappa=problem["kappa"]
    ).fit()
    best = problem["optim"]
    assert fit.llf >= best["loglik"] - 1e-7
    if problem["kappa"] > 0.0:
        assert_allclose(fit.llf, best["loglik"], atol=1e-6)
        assert_allclose(fit.params, best["params"], atol=2e-3)
    else:
        assert_allclose(fit.llf, best["loglik"], atol=1e-3)


def test_standard_errors_are_those_of_vgam_where_it_converges():
    problem = r_references.load("r_distributional")["problems"]["simulated_scale"]
    exog, endog = r_references.design(problem)
    fit = QuantileHuberDistributional(endog, exog, exog_scale=exog, kappa=0.0).fit(
        cov_type="nonrobust"
    )
    vgam = problem["vgam"]
    assert vgam["loglik"] <= fit.llf < vgam["loglik"] + 1e-4
    at = {name: i for i, name in enumerate(vgam["names"])}
    pairs = [
        ("(Intercept):1", 0, 1.0),
        ("x:1", 1, 1.0),
        ("x:2", 3, 1.0),
        ("(Intercept):3", 4, -2.0),
    ]
    for name, position, factor in pairs:
        error = fit.bse[position]
        assert_allclose(fit.params[position], factor * vgam["coef"][at[name]], atol=0.01 * error)
        assert_allclose(error, abs(factor) * vgam["bse"][at[name]], rtol=1e-3)


def test_other_units_give_the_same_fit():
    data = drawn(120, 1.0, 9)
    fit = solve_distributional(data)
    moved = changed(
        data,
        endog=1e6 * data.endog + data.location @ [3e6, -2e7],
        location=data.location * [1.0, 1e-4],
        scale=data.scale * [1.0, 1e5],
        tau=data.tau @ np.array([[1.0, 1e3], [0.0, 1.0]]),
    )
    other = solve_distributional(moved)
    assert other.converged
    beta = 1e6 * fit.params[:2] + [3e6, -2e7]
    assert_allclose(other.params[:2], beta * [1.0, 1e4], rtol=1e-8)
    assert_allclose(
        other.params[2:4], (fit.params[2:4] + np.array([np.log(1e6), 0.0])) / [1.0, 1e5], rtol=1e-7
    )
    assert_allclose(
        np.array([[1.0, 1e3], [0.0, 1.0]]) @ other.params[4:], fit.params[4:], rtol=1e-7
    )
    assert_allclose(other.loglike, fit.loglike - 120 * np.log(1e6), rtol=1e-10)


def test_a_weight_is_a_row_given_as_often():
    data = drawn(100, 0.5, 10, weights=True)
    times = data.weights.astype(int)
    repeated = changed(
        data,
        weights=None,
        endog=np.repeat(data.endog, times),
        location=np.repeat(data.location, times, axis=0),
        scale=np.repeat(data.scale, times, axis=0),
        tau=np.repeat(data.tau, times, axis=0),
    )
    short, long = solve_distributional(data), solve_distributional(repeated)
    assert_allclose(short.params, long.params, atol=1e-9)
    assert_allclose(short.loglike, long.loglike, rtol=1e-12)
    without = changed(data, weights=np.where(times > 1, data.weights, 0.0))
    assert_allclose(
        solve_distributional(without).params,
        solve_distributional(without.take(times > 1)).params,
        atol=1e-12,
    )


def two_scales(kappa, ratio):
    """Two groups whose scales differ by a factor; what separates their locations is a column."""
    rng = np.random.default_rng(2)
    n = 200
    group = np.repeat([0.0, 1.0], n // 2)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2)), group])
    sigma = np.where(group > 0, ratio, 1.0)
    y = x @ [1.0, 2.0, 3.0, 4.0] + sigma * quantile_huber.rvs(0.4, kappa, size=n, random_state=rng)
    z = np.column_stack([np.ones(n), group])
    return regression(y, x, z, np.ones((n, 1)), kappa)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0])
def test_scales_that_differ_by_orders_of_magnitude_are_no_obstacle(kappa):
    data = two_scales(kappa, 1e-6)
    fit = solve_distributional(data)
    assert fit.converged
    assert_allclose(fit.params[5], np.log(1e-6), atol=0.5)
    if kappa > 0.0:
        # stationary also in columns made orthonormal at these very scales, where nothing gets lost
        state = evaluate(data, fit.params)
        columns = np.linalg.qr(data.location / state.sigma[:, None])[0] * state.sigma[:, None]
        fair = changed(data, location=columns)
        score, info = gradient(fair, state), assemble(fair, information_factors(state))
        assert np.sqrt(score @ np.linalg.solve(info, score)) < 1e-5


# --- what cannot be fitted -------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_noise_on_one_side_of_a_group_ends_on_the_bound_with_a_warning(kappa):
    rng = np.random.default_rng(3)
    n = 200
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    right = x[:, 1] > 0
    y = x @ [1.0, 2.0] + np.where(right, 1.0, -1.0) * rng.exponential(size=n)
    w = np.column_stack([np.ones(n), right])
    with pytest.warns(BoundaryWarning, match="tau reached its bound"):
        fit = solve_distributional(regression(y, x, np.ones((n, 1)), w, kappa))
    assert not fit.converged
    assert fit.held == ("tau",)
    assert np.isfinite(fit.params).all()
    assert fit.loglike > fit.start.loglike
    tau = special.expit(w @ fit.params[3:])
    assert 1e-3 * (1 - 1e-6) <= tau.min() < 0.01
    assert 0.99 < tau.max() <= 1 - 1e-3 * (1 - 1e-6)


def test_a_scale_that_runs_to_zero_is_held_with_a_warning():
    rng = np.random.default_rng(4)
    n = 100
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = x @ [1.0, 2.0] + rng.normal(size=n)
    y[:20] = x[:20] @ [1.0, 2.0]
    z = np.column_stack([np.ones(n), np.arange(n) < 20])
    with pytest.warns(BoundaryWarning, match="sigma ran 1e"):
        fit = solve_distributional(regression(y, x, z, np.ones((n, 1)), 1.0))
    assert not fit.converged
    assert fit.held == ("scale",)
    assert np.isfinite(fit.params).all()


def test_dependent_columns_give_the_shortest_coefficients_with_a_warning():
    data = drawn(100, 1.0, 12)
    plain = solve_distributional(data)
    doubled = changed(data, scale=np.column_stack([data.scale, 2.0 * data.scale[:, 1]]))
    with pytest.warns(RankWarning, match="scale"):
        fit = solve_distributional(doubled)
    assert_allclose(fit.loglike, plain.loglike, atol=1e-9)
    assert_allclose(fit.params[3:5], plain.params[3] * np.array([0.2, 0.4]), rtol=1e-7)


def test_a_fit_that_did_not_get_there_says_so(monkeypatch):
    data = drawn(100, 1.0, 13)
    real = fit_module.ascend

    def lame(data, params, **options):
        return real(data, params, **{**options, "max_steps": 0})

    monkeypatch.setattr(fit_module, "ascend", lame)
    monkeypatch.setattr(fit_module, "ROUNDS", 1)
    with pytest.warns(ConvergenceWarning, match="not stationary"):
        fit = solve_distributional(data)
    assert not fit.converged
    assert fit.score_norm > STATIONARY
    assert fit.loglike >= fit.start.loglike


def test_more_starting_points_are_tried_when_asked():
    data = drawn(60, 0.5, 14)
    fit = solve_distributional(data, n_starts=4, rng=3)
    assert len(fit.starts) == 4
    assert max(fit.starts) == fit.loglike
    assert_allclose(solve_distributional(data, start=TRUTH).starts, fit.loglike, atol=1e-8)
    with pytest.raises(DomainError, match="n_starts"):
        solve_distributional(data, n_starts=0)
    with pytest.raises(DomainError, match="start_params put the tau"):
        solve_distributional(data, start=np.array([*TRUTH[:4], 20.0, 0.0]))


# --- simulation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_estimates_lie_within_four_standard_errors_of_the_truth(kappa):
    data = drawn(2000, kappa, 15)
    fit = QuantileHuberDistributional(
        data.endog, data.location, exog_scale=data.scale, exog_tau=data.tau, kappa=kappa
    ).fit()
    assert np.all(np.abs(fit.params - TRUTH) < 4.0 * fit.bse)
    assert np.all(np.abs(fit.params - TRUTH) > 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.0, 0.2, 2.0])
def test_standard_errors_are_the_spread_of_repeated_estimates(kappa):
    """Two hundred samples of 800 rows: the standard deviation itself is known to 5 %."""
    estimates, errors, robust, statistics = [], [], [], []
    for seed in range(200):
        data = drawn(800, kappa, 10_000 + seed)
        fit = QuantileHuberDistributional(
            data.endog, data.location, exog_scale=data.scale, exog_tau=data.tau, kappa=kappa
        ).fit()
        estimates.append(fit.params)
        errors.append(fit.bse)
        robust.append(fit.get_robustcov_results("HC0").bse)
        truth = loglike_by_definition(TRUTH, data)
        statistics.append(2.0 * (fit.llf - truth))
    spread = np.std(estimates, axis=0)
    assert np.all(np.abs(np.mean(estimates, axis=0) - TRUTH) < 4.0 * spread / np.sqrt(200) + 0.005)
    assert_allclose(np.mean(errors, axis=0), spread, rtol=0.15)
    assert_allclose(np.median(robust, axis=0), spread, rtol=0.20)
    assert_allclose(np.mean(statistics), 6.0, rtol=0.15)
