"""Where a local optimum may not be the global one: the look along tau, and what the default fit does."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy import optimize
from solver_data import medium_sample, regression

import qhreg.solver.doubt
import qhreg.solver.joint
from qhreg import QuantileHuberMLE
from qhreg.certificate.global_optimum import certify_global
from qhreg.exceptions import BoundaryWarning, CurvatureWarning
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.solver import solve, tauscan
from qhreg.solver.tauscan import scan_tau

BOUNDS = (1e-3, 1.0 - 1e-3)


def quiet(X, y, **options):
    """Return the default fit, which may end on a bound of tau."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return solve(X, y, **options)


def constant(n):
    return np.ones((n, 1))


# --- the look along tau --------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0, 5.0])
@pytest.mark.parametrize("noise", ["gamma", "rounded"])
def test_with_a_constant_alone_the_scan_is_the_profile_over_tau(kappa, noise):
    y = np.random.default_rng(3).gamma(2.0, size=400) + 1e6
    y = np.round(y) if noise == "rounded" else y
    scan = scan_tau(y.copy(), None, kappa, BOUNDS, free_scale=True)
    for tau, value in zip(scan.tau[::4], scan.value[::4], strict=True):
        profile = solve(constant(400), y, kappa=kappa, tau=float(tau)).value
        assert profile - 1e-6 <= value <= profile + 0.3


@pytest.mark.parametrize("free_scale", [True, False])
@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_the_location_and_the_scale_of_the_scan_give_its_value(kappa, free_scale):
    u = np.random.default_rng(4).standard_t(3, 300)
    scan = scan_tau(u.copy(), None, kappa, BOUNDS, free_scale=free_scale)
    for k in (0, 10, 20, 32):
        inner = scan.scale[k] * u - scan.location[k]
        loss = quantile_huber_loss(inner, scan.tau[k], kappa).sum()
        normaliser = log_normalizer(scan.tau[k], kappa) - np.log(scan.scale[k])
        assert scan.value[k] == pytest.approx(loss + 300 * normaliser, abs=1e-8)
        assert free_scale or scan.scale[k] == 1.0


def test_a_fixed_scale_leaves_the_location_to_move():
    u = np.random.default_rng(4).standard_t(3, 300)
    scan = scan_tau(u.copy(), None, 1.0, BOUNDS, free_scale=False)
    for k in (5, 16, 28):
        best = optimize.minimize_scalar(
            lambda a, tau=scan.tau[k]: quantile_huber_loss(u - a, tau, 1.0).sum(),
            bounds=(-50, 50),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert scan.value[k] == pytest.approx(
            best.fun + 300 * log_normalizer(scan.tau[k], 1.0), abs=0.1
        )


def test_weights_are_repeated_rows_to_the_scan():
    rng = np.random.default_rng(5)
    u, w = rng.gamma(2.0, size=200), rng.integers(1, 5, 200)
    weighted = scan_tau(u, w.astype(float), 0.5, BOUNDS, free_scale=True)
    repeated = scan_tau(np.repeat(u, w), None, 0.5, BOUNDS, free_scale=True)
    np.testing.assert_allclose(weighted.value, repeated.value, atol=1e-3)


def test_outliers_leave_the_digits_of_the_scan():
    u = np.random.default_rng(6).laplace(size=500)
    far = np.append(u, [-1e9, 1e9])
    scan = scan_tau(far.copy(), None, 1.0, BOUNDS, free_scale=False)
    k = 16
    loss = quantile_huber_loss(far - scan.location[k], scan.tau[k], 1.0).sum()
    assert scan.value[k] == pytest.approx(loss + 502 * log_normalizer(scan.tau[k], 1.0), rel=1e-12)
    assert abs(scan.location[k]) < 0.5


@pytest.mark.parametrize("kappa", [0.0, 0.05, 30.0])
@pytest.mark.parametrize("noise", ["gamma", "cauchy", "rounded"])
@pytest.mark.parametrize("n", [17, 5000])
def test_sums_of_runs_are_sums_of_residuals(n, kappa, noise, monkeypatch):
    rng = np.random.default_rng(7)
    u = {
        "gamma": 1e6 + rng.gamma(2.0, size=n),
        "cauchy": rng.standard_cauchy(n),
        "rounded": np.round(rng.laplace(size=n), 1),
    }[noise]
    for weights in (None, rng.integers(1, 4, n).astype(float)):
        scans = []
        for few in (0, n):
            monkeypatch.setattr(tauscan, "FEW_ROWS", few)
            scans.append(scan_tau(u.copy(), weights, kappa, BOUNDS, free_scale=True))
        np.testing.assert_allclose(scans[0].value, scans[1].value, rtol=1e-9)


# --- the default fit -----------------------------------------------------------------------------


def counts(rng, n):
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return X, rng.poisson(np.exp(0.3 + 0.2 * X[:, 1:].sum(axis=1))).astype(float)


def rounded(rng, n):
    X = np.column_stack([np.ones(n), np.round(rng.standard_normal((n, 2)))])
    return X, X.sum(axis=1) + np.round(rng.gamma(0.5, size=n))


def uniform(rng, n):
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    return X, X.sum(axis=1) + rng.random(n)


def two_peaks(rng, n):
    X = np.column_stack([np.ones(n), rng.standard_normal(n)])
    left = rng.random(n) < 0.5
    noise = np.where(left, -1 - 0.3 * rng.exponential(size=n), 1 + 0.4 * rng.exponential(size=n))
    return X, X.sum(axis=1) + noise


@pytest.mark.parametrize("make", [counts, rounded, uniform, two_peaks])
@pytest.mark.parametrize("n", [900, 4000, 8000])
def test_noise_unlike_the_model_is_searched_and_its_optimum_certified(make, n):
    X, y = make(np.random.default_rng(n), n)
    for kappa in (0.25, 1.0):
        fit = quiet(X, y, kappa=kappa)
        assert certify_global(X, y, fit, tol=1e-6 * n).holds, kappa
        assert not fit.doubtful


@pytest.mark.parametrize(("make", "gain"), [(counts, 400.0), (uniform, 15.0)])
def test_the_local_optimum_alone_is_far_from_the_best(make, gain):
    X, y = make(np.random.default_rng(1), 2000)
    local = quiet(X, y, kappa=0.25, search=False)
    default = quiet(X, y, kappa=0.25)
    assert default.loglike > local.loglike + gain
    assert default.searched


@pytest.mark.parametrize("make", [counts, two_peaks])
def test_large_data_are_fitted_from_other_starts_and_marked(make):
    X, y = make(np.random.default_rng(1), 30_000)
    fit = quiet(X, y, kappa=0.25)
    assert fit.loglike > quiet(X, y, kappa=0.25, search=False).loglike + 1000.0
    assert (fit.searched, fit.doubtful) == (False, True)
    assert certify_global(X, y, fit, tol=0.01).holds


def test_a_jagged_profile_is_searched():
    """Eight rows in the zone: the local optimum is 1.8 units below the global one."""
    X, y, kappa = constant(518), np.random.default_rng(366).gamma(2.0, size=518), 0.25
    fit = quiet(X, y, kappa=kappa)
    assert fit.loglike > quiet(X, y, kappa=kappa, search=False).loglike + 1.8
    assert fit.searched
    assert certify_global(X, y, fit).holds


@pytest.mark.parametrize("n", [1000, 10_000])
def test_data_like_the_model_are_fitted_without_another_look(n, monkeypatch):
    def fail(*args, **options):
        raise AssertionError

    monkeypatch.setattr(qhreg.solver.joint, "look_along_tau", fail)
    monkeypatch.setattr(qhreg.solver.joint, "search_tau", fail)
    fit = solve(*regression(n, 5, seed=1))
    assert (fit.searched, fit.doubtful) == (False, False)


@pytest.mark.parametrize("n", [1000, 100_000])
def test_normal_noise_is_looked_at_but_not_searched(n, monkeypatch):
    looks = []
    scan = qhreg.solver.doubt.scan_tau

    def counted(u, *args, **options):
        looks.append(u.size)
        return scan(u, *args, **options)

    monkeypatch.setattr(qhreg.solver.doubt, "scan_tau", counted)
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    fit = solve(X, X.sum(axis=1) + rng.standard_normal(n))
    assert len(looks) == 2
    assert max(looks) <= 60_000
    assert (fit.searched, fit.doubtful) == (False, False)


def test_weights_offset_and_no_constant_do_not_stop_the_look():
    rng = np.random.default_rng(7)
    X, y = rounded(rng, 1500)
    w, offset = rng.integers(1, 4, 1500).astype(float), rng.standard_normal(1500)
    fit = quiet(X, y + offset, weights=w, offset=offset)
    assert certify_global(X, y, fit, weights=w).holds
    fit = quiet(X[:, 1:], y)
    assert certify_global(X[:, 1:], y, fit).holds
    fit = quiet(X, y, sigma=0.5)
    assert certify_global(X, y, fit, sigma=0.5).holds


def test_a_converged_start_is_followed_and_starting_values_are_not():
    X, y = uniform(np.random.default_rng(1), 2000)
    local = quiet(X, y, kappa=0.25, search=False)
    followed = quiet(X, y, kappa=0.25, start=local)
    assert not followed.searched
    assert followed.loglike == pytest.approx(local.loglike, abs=1e-9)
    values = [*local.beta, local.sigma, local.tau]
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(y, X, kappa=0.25).fit(start_params=values)
    assert fit.solution.searched
    assert fit.llf > local.loglike + 15.0


def test_the_summary_says_where_another_tau_may_be_better():
    X, y = two_peaks(np.random.default_rng(1), 30_000)
    results = QuantileHuberMLE(y, X, kappa=0.3).fit()
    text = results.summary().as_text()
    assert "local [!]" in text
    assert "Another tau may have a higher likelihood" in text
    assert results.mle_retvals["doubtful"]
    X, y = uniform(np.random.default_rng(1), 2000)
    with pytest.warns(BoundaryWarning):
        results = QuantileHuberMLE(y, X, kappa=0.25).fit()
    with pytest.warns(CurvatureWarning, match="about 2.2 of 2000 rows"):
        searched = results.summary().as_text()
    assert re.search(r"Search over tau: +global", searched)
    assert "[!]" not in searched


def test_a_search_that_could_not_finish_is_marked(monkeypatch):
    X, y = two_peaks(np.random.default_rng(1), 600)
    monkeypatch.setattr("qhreg.solver.local.SEARCH_FITS", 2)
    fit = solve(X, y, kappa=0.3)
    assert (fit.searched, fit.doubtful) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_default_fit_is_the_certified_optimum_of_medium_samples(block):
    for seed in range(100 * block, 100 * (block + 1)):
        X, y, kappa = medium_sample(seed)
        fit = quiet(X, y, kappa=kappa)
        assert fit.converged, seed
        certificate = certify_global(X, y, fit, tol=1e-6 * y.size)
        assert certificate.holds, (seed, str(certificate))


def certified(exog, endog, kappa):
    """Return whether the default fit is the best over all tau."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        return certify_global(exog, endog, solve(exog, endog, kappa=kappa), tol=1e-4).holds


@pytest.mark.parametrize("seed", range(24))
def test_with_a_wide_zone_tau_is_told_from_its_mirror_image(seed):
    # few rows are outside: where both tails are heavy, either of them could be the long one
    rng = np.random.default_rng(seed)
    n = 550 + 250 * (seed % 3)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, 19))])
    heavy = rng.standard_normal(n) + 20.0 * (rng.random(n) < 0.1) * rng.standard_normal(n)
    noise = (heavy, rng.standard_t(1.5, n), rng.logistic(size=n))[seed // 3 % 3]
    assert certified(exog, exog.sum(axis=1) + noise, (100.0, 30.0)[seed % 2])


@pytest.mark.parametrize("seed", range(12))
def test_light_tails_are_searched(seed):
    # another tau goes with other slopes, so that a look along tau at those of the fit shows nothing
    rng = np.random.default_rng(seed)
    n = (800, 1500, 3000)[seed % 3]
    trend = np.linspace(0.0, 1.0, n)[:, None] ** np.arange(4)
    normal = np.column_stack([np.ones(n), rng.standard_normal((n, 19))])
    exog = (trend, normal)[seed % 2]
    noise = (np.cumsum(rng.standard_normal(n)), rng.uniform(-1.0, 1.0, n))[seed % 2]
    assert certified(exog, noise, (0.1, 0.3)[seed // 2 % 2])


@pytest.mark.parametrize("seed", range(6))
def test_cauchy_noise_beside_a_wide_zone_and_many_categories(seed):
    rng = np.random.default_rng(seed)
    exog = (rng.integers(0, 40, 550)[:, None] == np.arange(40)) * 1.0
    assert certified(exog, rng.standard_cauchy(550), 100.0)


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_searched(seed):
    rng = np.random.default_rng(seed)
    n = (800, 1500, 3000)[seed % 3]
    exog = np.linspace(0.0, 1.0, n)[:, None] ** np.arange(4)
    assert certified(exog, rng.poisson(3.0, n).astype(float), (1.0, 3.0)[seed % 2])


def many_columns(seed, n, p, noise):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    drawn = {
        "lognormal": lambda: rng.lognormal(0.0, 0.5, n),
        "gumbel": lambda: rng.gumbel(size=n),
        "normal": lambda: rng.standard_normal(n),
    }[noise]()
    return exog, exog @ rng.standard_normal(p) + drawn


@pytest.mark.parametrize(
    ("n", "p", "noise"),
    [(900, 50, "lognormal"), (1500, 100, "lognormal"), (550, 80, "gumbel"), (600, 120, "normal")],
)
def test_many_columns_may_have_all_rows_on_one_side(n, p, noise):
    exog, endog = many_columns(0, n, p, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        local = solve(exog, endog, search=False)
    fit = quiet(exog, endog)
    assert fit.searched
    assert not fit.doubtful
    assert certify_global(exog, endog, fit, tol=1e-4).holds
    assert fit.loglike > local.loglike + 1.0


@pytest.mark.parametrize(("n", "p"), [(1000, 50), (3000, 120)])
def test_many_columns_and_noise_of_the_model_are_not_searched(n, p):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    endog = exog @ rng.standard_normal(p) + quantile_huber.rvs(0.4, 1.0, size=n, random_state=rng)
    fit = solve(exog, endog)
    assert not fit.searched
    assert certify_global(exog, endog, fit, tol=1e-4).holds


def test_many_columns_of_many_rows_are_marked(monkeypatch):
    monkeypatch.setattr(qhreg.solver.joint, "DOUBTFUL_ROWS", 600)
    assert quiet(*many_columns(0, 900, 50, "lognormal")).doubtful
    assert not quiet(*many_columns(0, 900, 5, "gumbel")).doubtful


@pytest.mark.parametrize("seed", [25, 26, 52])
def test_with_a_wide_zone_and_many_columns_tau_is_told_from_its_mirror_image(seed):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(2000), rng.standard_normal((2000, 59))])
    noise = rng.standard_normal(2000) * np.exp(0.7 * exog[:, -1])
    endog = exog @ rng.standard_normal(60) + noise
    assert certify_global(exog, endog, quiet(exog, endog, kappa=100.0)).holds


# --- what the numbers of a fit do not show ----------------------------------------------------------


def lower_edge(n, seed):
    """Counts that grow with a regressor: an eighth of the rows lie exactly on the lower plane."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    return X, X.sum(axis=1) + rng.poisson(2, size=n) * (1.0 + np.abs(X[:, 3]))


def three_lines(n, seed):
    rng = np.random.default_rng(seed)
    x, lines = rng.normal(size=n), rng.normal(size=(3, 2)) * 3.0
    which = rng.integers(0, 3, n)
    noise = 0.5 * rng.normal(size=n)
    return np.column_stack([np.ones(n), x]), lines[which, 0] + lines[which, 1] * x + noise


def two_lines(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = np.where(rng.random(n) < 0.49, 1.0 + 2.0 * x, -3.0 - 2.0 * x) + 0.3 * rng.normal(size=n)
    return np.column_stack([np.ones(n), x]), y


def random_walk(n, seed):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(n), np.arange(n)]), np.cumsum(rng.normal(size=n))


def proportional(n, seed):
    rng = np.random.default_rng(seed)
    x = np.exp(4.0 * rng.normal(size=n))
    return np.column_stack([np.ones(n), x]), x * np.exp(rng.normal(size=n))


@pytest.mark.parametrize(
    ("make", "n", "seed", "kappa", "gain"),
    [
        (lower_edge, 900, 0, 1.0, 107.0),
        (lower_edge, 900, 3, 1.0, 136.0),
        (lower_edge, 2000, 2, 1.0, 267.0),
        (three_lines, 1000, 35, 1.0, 35.0),
        (random_walk, 2000, 39, 1.0, 85.0),
        (two_lines, 3000, 0, 20.0, 284.0),
        (proportional, 8000, 3, 0.01, 1138.0),
    ],
)
def test_a_better_optimum_with_other_slopes_is_found(make, n, seed, kappa, gain):
    X, y = make(n, seed)
    fit, local = quiet(X, y, kappa=kappa), quiet(X, y, kappa=kappa, search=False)
    assert fit.searched
    assert local.value - fit.value >= gain
    assert certify_global(X, y, fit).holds


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 3.0])
def test_the_tails_of_the_model_are_likely_and_those_of_other_noise_are_not(kappa):
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(8000), rng.normal(size=(8000, 3))])
    noise = quantile_huber(0.3, kappa).rvs(8000, random_state=rng)
    likely = []
    for w in (None, rng.integers(1, 4, 8000)):
        for y in (X.sum(axis=1) + noise, X.sum(axis=1) + rng.poisson(2, 8000) * (1 + abs(X[:, 3]))):
            setup = qhreg.solver.joint.set_up(
                qhreg.solver.joint.rows_of(X, y, w, None),
                qhreg.solver.joint.task_of(kappa, None, None, BOUNDS),
            )
            local = qhreg.solver.joint.local_fit(setup.problem, *setup.start, setup.task)
            likely.append(qhreg.solver.doubt.has_likely_tails(local, setup.problem))
    assert likely == [True, False, True, False]


def test_rows_given_twice_are_searched_as_weights_of_two_are():
    X, y = lower_edge(450, 1)
    twice = quiet(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    weighted = quiet(X, y, weights=np.full(450, 2.0))
    assert twice.value == pytest.approx(weighted.value, abs=1e-4)
