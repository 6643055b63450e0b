"""Expected information, scores, Hessian and the covariance matrices of a fit."""

import itertools
import json
import re
import warnings
from pathlib import Path

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from model_data import model_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, special, stats
from statsmodels.tools.numdiff import approx_fprime

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.covariance import (
    COVARIANCE_TYPES,
    covariance_parts,
    design_moments,
    expected_information,
    observed_hessian,
    sandwich,
    score_obs,
)
from qhreg.covariance.information import PARAMETERS, normalizer_hessian, unit_information
from qhreg.covariance.parts import bread_window, hall_sheather
from qhreg.exceptions import BoundaryWarning, CurvatureWarning, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.normalizer import log_normalizer_derivatives, restricted_normalizer
from qhreg.specification.model_data import fit_model
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters

PAIRS = list(itertools.combinations_with_replacement(PARAMETERS, 2))
ALL = PARAMETERS


def draw(n, kappa=1.0, tau=0.3, seed=0, p=2):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    noise = quantile_huber.rvs(tau, kappa, size=n, random_state=rng)
    return exog, exog @ np.arange(1.0, p + 1.0) + 2.0 * noise


def information(exog, sigma, tau, kappa, *, weights=None, free=("beta", "sigma", "tau")):
    fit = Parameters(np.zeros(exog.shape[1]), sigma, tau, kappa)
    return expected_information(design_moments(exog, weights), fit, free)


def score_products_by_quadrature(tau, kappa):
    """Return E[s_a s_b] for every pair, by 20-digit quadrature between the kinks."""
    with mp.workdps(20):
        t, k = mp.mpf(tau), mp.mpf(kappa)
        s = 1 - t
        cuts = [-k * t - 40 / t, -k * t - 5 / t, -k * t, 0, k * s, k * s + 5 / s, k * s + 40 / s]
        cuts += [z * mp.sqrt(k) for z in (-8, -3, 3, 8)] if k > 50 else []
        cuts = [-mp.inf, *sorted(set(cuts)), mp.inf]

        def psi(u):
            return (-t if u < 0 else s) if k == 0 else max(-t, min(s, u / k))

        def density(u):
            return mp.exp(-(u * psi(u) - k * psi(u) ** 2 / 2))

        total = mp.quad(density, cuts)

        def mean(f):
            return mp.quad(lambda u: f(u) * density(u), cuts) / total

        def excess(u):
            return u - max(-k * t, min(k * s, u))

        mean_excess, half_square = mean(excess), mean(lambda u: psi(u) ** 2) / 2
        scores = {
            "beta": psi,
            "sigma": lambda u: u * psi(u) - 1,
            "tau": lambda u: excess(u) - mean_excess,
            "kappa": lambda u: psi(u) ** 2 / 2 - half_square,
        }

        def product(a, b):
            return float(mean(lambda u: scores[a](u) * scores[b](u)))

        return {(a, b): product(a, b) for a, b in PAIRS}


@pytest.mark.parametrize(
    ("tau", "kappa"),
    [(0.3, 0.0), (0.3, 1e-6), (0.1, 0.05), (0.5, 0.25), (0.9, 1.0), (0.3, 5.0), (0.7, 300.0)],
)
def test_information_is_the_integral_of_the_score_products(tau, kappa):
    expected = score_products_by_quadrature(tau, kappa)
    unit = unit_information(tau, kappa)
    for (a, b), value in expected.items():
        place = PARAMETERS.index(a), PARAMETERS.index(b)
        assert_allclose(unit[place], value, rtol=3e-15, atol=1e-18, err_msg=f"{a} {b}")


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.0), (0.1, 0.25), (0.6, 4.0)])
def test_information_is_the_average_of_simulated_score_products(tau, kappa):
    rng = np.random.default_rng(1)
    n = 200_000
    exog = np.column_stack([np.ones(n), rng.uniform(-1, 2, n)])
    noise = quantile_huber.rvs(tau, kappa, size=n, random_state=rng)
    point = Parameters(np.array([1.0, -2.0]), 1.7, tau, kappa)
    endog = exog @ point.beta + point.sigma * noise
    scores = score_obs(Observations(exog, endog), point, ALL)
    info = information(exog, 1.7, tau, kappa, free=ALL)
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) * np.sqrt(n)
    assert np.all(np.abs(products.sum(axis=0) - info) < 4.5 * error)


@pytest.mark.parametrize("tau", [0.01, 0.3, 0.5, 0.93])
@pytest.mark.parametrize("kappa", [0.0, 1e-12, 1e-3, 1.0, 10.0, 100.0])
def test_information_on_beta_sigma_tau_is_positive_definite(tau, kappa):
    exog, _ = draw(50)
    info = information(exog, 2.0, tau, kappa)
    scale = np.sqrt(info.diagonal())
    assert np.linalg.eigvalsh(info / np.outer(scale, scale)).min() > 1e-4


@pytest.mark.parametrize("tau", [0.02, 0.3])
def test_information_is_positive_definite_at_an_enormous_width(tau):
    exog, _ = draw(50)
    info = information(exog, 2.0, tau, 1e4)
    scale = np.sqrt(info.diagonal())
    assert scale.min() > 0.0
    assert np.linalg.eigvalsh(info / np.outer(scale, scale)).min() > 1e-4


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.5])
def test_information_is_continuous_at_kappa_zero(tau):
    exog, _ = draw(20)
    at_zero = information(exog, 1.0, tau, 0.0, free=ALL)
    near = information(exog, 1.0, tau, 1e-9, free=ALL)
    assert_allclose(near, at_zero, rtol=2e-8, atol=1e-6)


def test_nothing_is_known_about_kappa_at_the_symmetric_laplace_law():
    assert unit_information(0.5, 0.0)[3, 3] == 0.0
    assert 0.0 < unit_information(0.5, 1e-12)[3, 3] < 1e-12


def test_information_of_weights_equals_information_of_repeated_rows():
    exog, _ = draw(40_000, p=6)
    w = np.random.default_rng(0).integers(1, 4, 40_000)
    direct = information(exog, 1.3, 0.2, 0.5, weights=w)
    assert_allclose(direct, information(np.repeat(exog, w, axis=0), 1.3, 0.2, 0.5))
    u = unit_information(0.2, 0.5)
    assert_allclose(direct[:6, :6], u[0, 0] * (exog.T * w) @ exog / 1.3**2, rtol=1e-12)
    assert_allclose(direct[:6, 6], u[0, 1] * w @ exog / 1.3**2, rtol=1e-12, atol=1e-9)


def loglikeobs(params, exog, endog):
    k = exog.shape[1]
    tau, kappa, sigma = params[k + 1], params[k + 2], params[k]
    return quantile_huber.logpdf(endog, tau, kappa, loc=exog @ params[:k], scale=sigma)


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.05), (0.7, 1.0), (0.45, 6.0)])
def test_score_is_the_derivative_of_the_log_likelihood(tau, kappa):
    exog, endog = draw(60, kappa, tau, seed=3)
    params = np.array([0.9, 2.2, 1.8, tau, kappa])
    point = Parameters(params[:2], *params[2:])
    numeric = approx_fprime(params, loglikeobs, args=(exog, endog), centered=True)
    analytic = score_obs(Observations(exog, endog), point, ALL)
    # A row within the step of the edge of the zone has a kink between the two evaluations.
    assert_allclose(analytic, numeric, rtol=1e-4, atol=2e-4)
    w = np.arange(60.0)
    assert_allclose(
        score_obs(Observations(exog, endog, weights=w), point, ALL),
        analytic * w[:, None],
        rtol=1e-14,
    )
    shifted = score_obs(Observations(exog, endog + 5.0, np.full(60, 5.0)), point, ALL)
    assert_allclose(shifted, analytic, atol=1e-12)


@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.25), (0.7, 1.0), (0.45, 6.0)])
def test_hessian_is_the_derivative_of_the_score(tau, kappa):
    exog, endog = draw(60, kappa, tau, seed=4)
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    rows = Observations(exog, endog, weights=w)
    params = np.array([0.9, 2.2, 1.8, tau, kappa])

    def score(q):
        return score_obs(rows, Parameters(q[:2], *q[2:]), ALL).sum(axis=0)

    h = 1e-7
    u = (endog - exog @ params[:2]) / 1.8
    edge = np.minimum(np.abs(u + kappa * tau), np.abs(u - kappa * (1 - tau))).min()
    assert edge > 20 * h, "no row may cross the edge of the zone within the step"
    numeric = np.column_stack(
        [(score(params + h * e) - score(params - h * e)) / (2 * h) for e in np.eye(5)]
    )
    point = Parameters(params[:2], *params[2:])
    hessian = observed_hessian(rows, point, ALL)
    assert_allclose(hessian, numeric, rtol=1e-5, atol=1e-5)
    part = observed_hessian(rows, point, ("beta", "tau"))
    assert_allclose(part, hessian[np.ix_([0, 1, 3], [0, 1, 3])])


@pytest.mark.parametrize("rank", [0.0, 3.0])
@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 0.2), (0.5, 4.0), (0.95, 30.0)])
def test_derivatives_of_what_the_criterion_has_without_data(tau, kappa, rank):
    gradient, hessian = normalizer_hessian(tau, kappa, 20.0, rank)
    h = 1e-5 * kappa
    up, down = (restricted_normalizer(tau, kappa + s * h, 20.0, rank) for s in (1, -1))
    exact = restricted_normalizer(tau, kappa, 20.0, rank)
    assert_allclose([*gradient, hessian[0, 0]], [exact.d_tau, exact.d_kappa, exact.d2_tau])
    assert_allclose(hessian[1, 1], (up.d_kappa - down.d_kappa) / (2 * h), rtol=1e-6, atol=1e-9)
    assert_allclose(hessian[0, 1], (up.d_tau - down.d_tau) / (2 * h), rtol=1e-6, atol=1e-9)
    assert hessian[0, 1] == hessian[1, 0]


# ---------------------------------------------------------------------- the window


def test_the_bandwidth_is_that_of_quantreg():
    # quantreg: bandwidth.rq(0.5, 235), bandwidth.rq(0.9, 50)
    z = stats.norm.ppf(0.9)
    by_hand = 50 ** (-1 / 3) * stats.norm.ppf(0.975) ** (2 / 3)
    by_hand *= (1.5 * stats.norm.pdf(z) ** 2 / (2 * z**2 + 1)) ** (1 / 3)
    assert_allclose(hall_sheather(0.9, 50), by_hand, rtol=1e-12)


def test_the_window_is_the_range_of_normal_scores_times_the_smaller_spread():
    rng = np.random.default_rng(0)
    u = rng.standard_t(3, size=4001)
    low, high = np.quantile(u, [0.25, 0.75], method="averaged_inverted_cdf")
    spread = min(u.std(ddof=1), (high - low) / 1.349)
    h = hall_sheather(0.3, 4001)
    expected = spread * (stats.norm.ppf(0.3 + h) - stats.norm.ppf(0.3 - h))
    assert_allclose(bread_window(u, 0.7, 4001), expected, rtol=1e-12)
    assert_allclose(bread_window(-u, 0.3, 4001), expected, rtol=1e-12)
    counts = rng.integers(1, 4, u.size)
    repeated = bread_window(np.repeat(u, counts), 0.7, counts.sum())
    assert_allclose(bread_window(u, 0.7, counts.sum(), counts.astype(float)), repeated, rtol=1e-12)


@pytest.mark.parametrize("tau", [1e-3, 0.02, 0.5, 0.999])
def test_the_window_changes_little_from_row_to_row(tau):
    widths = [bread_window(np.linspace(-1.0, 1.0, 100), tau, n) for n in range(20, 400)]
    assert np.all(np.isfinite(widths))
    assert np.abs(np.diff(np.log(widths))).max() < 0.05


# ---------------------------------------------------------------------- ten lines of numpy


def engel():
    data = sm.datasets.engel.load_pandas().data
    return sm.add_constant(data.income.to_numpy()), data.foodexp.to_numpy()


def by_hand(fit, exog, endog, cov_type):
    """Return standard errors from the definition: its own optimiser, its own derivatives."""
    n, k = exog.shape
    p = fit.solution.p

    def rows(v, kappa):
        sigma, tau = np.exp(v[k]), special.expit(v[k + 1])
        u = (endog - exog @ v[:k]) / sigma
        psi = np.clip(u / kappa, -tau, 1 - tau)
        return u, psi, u - np.clip(u, -kappa * tau, kappa * (1 - tau)), sigma, tau

    def criterion(v, kappa):
        u, psi, _, _, tau = rows(v, kappa)
        c = restricted_normalizer(tau, kappa, n, p)
        return c.value + (n - p) * v[k] + (u * psi - kappa * psi**2 / 2).sum()

    def gradient(v, kappa):
        u, psi, excess, sigma, tau = rows(v, kappa)
        c = restricted_normalizer(tau, kappa, n, p)
        extra = [n - p - u @ psi, tau * (1 - tau) * (c.d_tau - excess.sum())]
        return np.r_[-exog.T @ psi / sigma, extra]

    at = np.r_[fit.params[:k], np.log(fit.sigma), special.logit(fit.tau)]
    u, psi, excess, sigma, tau = rows(at, fit.kappa)
    wide = np.hypot(fit.kappa, bread_window(u, tau, n))
    mean = log_normalizer_derivatives(tau, fit.kappa).d_tau
    scores = np.column_stack(
        [exog * psi[:, None] / sigma, u * psi - 1, tau * (1 - tau) * (excess - mean)]
    )
    size = np.r_[sigma / np.linalg.norm(exog, axis=0) * np.sqrt(n), 1, 1]
    found = optimize.minimize(
        lambda z: criterion(at + size * z, wide),
        np.zeros(k + 2),
        jac=lambda z: size * gradient(at + size * z, wide),
        method="BFGS",
        options={"gtol": 1e-8},
    )
    there = at + size * found.x
    step = 1e-6 * size
    bread = np.column_stack(
        [
            (gradient(there + s * e, wide) - gradient(there - s * e, wide)) / (2 * s)
            for s, e in zip(step, np.eye(k + 2), strict=True)
        ]
    )
    u, psi, excess, *_ = rows(there, wide)
    inside = exog * (excess == 0)[:, None]
    leverage = np.einsum("ij,ij->i", inside @ np.linalg.inv(inside.T @ inside), exog)
    power = {"HC0": 0.0, "HC1": 0.0, "HC2": 0.5, "HC3": 1.0}[cov_type]
    scores = scores / ((1 - leverage) ** power)[:, None]
    inverse = np.linalg.inv(bread)
    cov = inverse @ scores.T @ scores @ inverse * (n / (n - k) if cov_type == "HC1" else 1.0)
    return np.sqrt(cov.diagonal()) * np.r_[np.ones(k), fit.sigma, fit.tau * (1 - fit.tau)]


@pytest.mark.parametrize("reml", [True, False])
@pytest.mark.parametrize("kappa", [0.3, 4.0])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC2", "HC3"])
def test_standard_errors_are_those_of_the_definition(cov_type, kappa, reml):
    exog, endog = engel()
    fit = QuantileHuberMLE(endog, exog, kappa=kappa).fit(cov_type=cov_type, reml=reml)
    assert_allclose(fit.bse, by_hand(fit, exog, endog, cov_type), rtol=2e-5)


@pytest.mark.parametrize("kappa", [None, 0.0, 0.3, 4.0])
def test_bread_and_its_inverse_are_inverse_to_each_other(kappa):
    exog, endog = engel()
    data = model_data(exog, endog, kappa=kappa)
    parts = covariance_parts(data, fit_model(data))
    assert parts.identified.all()
    size = np.sqrt(parts.bread.diagonal())
    product = (parts.bread / size[:, None]) @ (parts.inverse * size)
    assert_allclose(product, np.eye(len(size)), atol=1e-9)
    assert np.linalg.eigvalsh(parts.bread / np.outer(size, size)).min() > 0.0
    assert parts.width > (parts.fit.kappa or 0.0)


# ---------------------------------------------------------------------- invariance


def sample(n, seed=0, p=3):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.lognormal(size=(n, p - 1))])
    return exog, exog.sum(axis=1) + (0.5 + exog[:, 1]) * rng.gumbel(size=n)


@pytest.mark.parametrize("n", [50, 500, 3000, 5001])
@pytest.mark.parametrize("kappa", [0.0, 4.0])
def test_hc1_is_hc0_times_a_factor_at_any_n(n, kappa):
    exog, endog = sample(n)
    fit = QuantileHuberMLE(endog, exog, kappa=kappa, tau=0.6).fit(cov_type="HC0")
    one = fit.get_robustcov_results("HC1")
    assert_allclose(one.bse, fit.bse * np.sqrt(n / (n - 3)), rtol=1e-10)
    two, three = (fit.get_robustcov_results(name) for name in ("HC2", "HC3"))
    assert np.all(fit.bse < two.bse)
    assert np.all(two.bse < three.bse)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC3"])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0])
def test_the_order_of_rows_and_columns_does_not_matter(kappa, cov_type):
    exog, endog = sample(700)
    plain = QuantileHuberMLE(endog, exog, kappa=kappa).fit(cov_type=cov_type)
    rows, columns = np.random.default_rng(1).permutation(700), [2, 0, 1]
    other = QuantileHuberMLE(endog[rows], exog[rows][:, columns], kappa=kappa).fit(
        cov_type=cov_type
    )
    assert_allclose(other.bse[:3], plain.bse[:3][columns], rtol=1e-5)
    assert_allclose(other.bse[3:], plain.bse[3:], rtol=1e-5)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC3"])
@pytest.mark.parametrize("kappa", [0.0, 4.0])
def test_units_do_not_matter(kappa, cov_type):
    exog, endog = sample(300)
    plain = QuantileHuberMLE(endog, exog, kappa=kappa).fit(cov_type=cov_type)
    units = np.array([1.0, 1e6, 1e-4])
    other = QuantileHuberMLE(1e3 * endog, exog * units, kappa=kappa).fit(cov_type=cov_type)
    assert_allclose(other.bse[:3] * units / 1e3, plain.bse[:3], rtol=1e-5)
    assert_allclose(other.bse[3:] / [1e3, 1.0], plain.bse[3:], rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 4.0])
def test_the_sign_of_the_response_does_not_matter(kappa):
    exog, endog = sample(200)
    for cov_type in ("HC3", "HAC"):
        both = [
            QuantileHuberMLE(sign * endog, exog, kappa=kappa, tau=tau).fit(cov_type=cov_type)
            for sign, tau in ((1.0, 0.7), (-1.0, 0.3))
        ]
        assert_allclose(both[0].bse, both[1].bse, rtol=1e-6)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"])
@pytest.mark.parametrize("kappa", [0.0, 4.0])
def test_a_row_given_twice_is_one_of_weight_two(kappa, cov_type):
    exog, endog = sample(300)
    counts = np.random.default_rng(1).integers(1, 4, 300)
    groups = np.arange(300) % 30
    kwds = [None, None]
    if cov_type == "cluster":
        kwds = [{"groups": groups}, {"groups": np.repeat(groups, counts)}]
    one = QuantileHuberMLE(endog, exog, kappa=kappa, freq_weights=counts).fit(
        cov_type=cov_type, cov_kwds=kwds[0]
    )
    many = QuantileHuberMLE(
        np.repeat(endog, counts), np.repeat(exog, counts, axis=0), kappa=kappa
    ).fit(cov_type=cov_type, cov_kwds=kwds[1])
    assert one.df_resid == many.df_resid
    assert_allclose(one.bse, many.bse, rtol=1e-5)
    assert_allclose(one.pvalues, many.pvalues, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("n", [500, 1000, 3000, 5000, 20_000])
@pytest.mark.parametrize("options", [{}, {"kappa": 0.0, "tau": 0.7}, {"tau": 0.95}])
def test_one_row_more_changes_little(n, options):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(n + 1), rng.standard_normal((n + 1, 2))])
    endog = exog.sum(axis=1) + np.exp(0.3 * exog[:, 1]) * rng.gumbel(size=n + 1)
    errors = [QuantileHuberMLE(endog[:m], exog[:m], **options).fit().bse for m in (n, n + 1)]
    assert_allclose(errors[1], errors[0], rtol=2.0 / np.sqrt(n))


@pytest.mark.parametrize("n", [500, 1000, 3000, 5000, 20_000])
def test_one_row_more_changes_no_more_than_a_row_with_leverage_can(n):
    exog, endog = sample(n + 1)
    errors = [QuantileHuberMLE(endog[:m], exog[:m]).fit().bse for m in (n, n + 1)]
    assert_allclose(errors[1], errors[0], rtol=0.1)


def test_a_column_more_changes_little():
    rng = np.random.default_rng(0)
    exog, endog = sample(3001, p=2)
    more = rng.standard_normal((3001, 10))
    ten, eleven = (
        QuantileHuberMLE(endog, np.column_stack([exog, more[:, :k]])).fit().bse for k in (8, 9)
    )
    assert_allclose(ten[:10], eleven[:10], rtol=0.2)


def test_collinear_raw_columns_lose_no_digits():
    rng = np.random.default_rng(0)
    year = 1900.0 + rng.uniform(0, 120, 400)
    centred = (year - 1960.0) / 100.0
    endog = centred**3 + quantile_huber.rvs(0.3, 1.0, size=400, random_state=rng)
    good = np.column_stack([np.ones(400), centred, centred**2])
    raw = np.column_stack([np.ones(400), year, year**2])
    for cov_type in ("nonrobust", "HC3"):
        errors = [QuantileHuberMLE(endog, x).fit(cov_type=cov_type).bse for x in (good, raw)]
        assert_allclose(errors[1][2] * 1e4, errors[0][2], rtol=1e-5)
        assert_allclose(errors[1][3:], errors[0][3:], rtol=1e-5)


def test_rows_that_the_exact_fit_interpolates_are_known_in_raw_units_too():
    rng = np.random.default_rng(12)
    x = rng.normal(size=60)
    endog = 0.5 * x + rng.laplace(size=60)
    found = {}
    for origin in (0.0, 1e6):
        exog = np.column_stack([np.ones(60), x + origin])
        fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=0.05).fit()
        score = fit.model.score_obs(fit.params)
        assert np.count_nonzero(score[:, 0] == 0.0) == 2
        found[origin] = fit.bse[1:]
    assert_allclose(found[1e6], found[0.0], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.RankWarning")
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC3"])
def test_dependent_columns_have_the_covariance_of_the_shortest_coefficients(cov_type):
    exog, endog = draw(300, p=3)
    plain = QuantileHuberMLE(endog, exog).fit(cov_type=cov_type)
    doubled = np.column_stack([exog, 2.0 * exog[:, 1]])
    other = QuantileHuberMLE(endog, doubled).fit(cov_type=cov_type)
    share = np.array([[1, 0, 0], [0, 0.2, 0], [0, 0, 1], [0, 0.4, 0]])
    expected = share @ plain.cov_params()[:3, :3] @ share.T
    assert_allclose(other.cov_params()[:4, :4], expected, rtol=1e-5, atol=1e-10)
    assert other.df_resid == plain.df_resid == 297


def test_rows_without_weight_do_not_count():
    exog, endog = sample(250)
    w = (np.arange(250) % 5 > 0).astype(float)
    kept = QuantileHuberMLE(endog[w > 0], exog[w > 0]).fit()
    for name in ("weights", "freq_weights"):
        part = QuantileHuberMLE(endog, exog, **{name: w}).fit()
        assert_allclose(part.bse, kept.bse, rtol=1e-5)
        assert part.df_resid == kept.df_resid


def test_offset_is_part_of_the_location():
    exog, endog = sample(250)
    shift = np.linspace(-5, 5, 250)
    moved = QuantileHuberMLE(endog + shift, exog, offset=shift).fit()
    assert_allclose(moved.bse, QuantileHuberMLE(endog, exog).fit().bse, rtol=1e-5)


def test_sampling_weights_are_not_cases():
    exog, endog = sample(240)
    w = np.random.default_rng(0).integers(1, 5, 240)
    one, ten = (QuantileHuberMLE(endog, exog, weights=unit * w).fit() for unit in (1.0, 10.0))
    assert_allclose(one.bse, ten.bse, rtol=1e-6)
    cases = QuantileHuberMLE(endog, exog, freq_weights=w).fit()
    assert one.df_resid == 237
    assert abs(cases.bse[1] / one.bse[1] - 1) > 0.01
    with pytest.raises(DomainError, match="sampling weights"):
        QuantileHuberMLE(endog, exog, weights=w).fit(cov_type="nonrobust")


# ---------------------------------------------------------------------- beside others


LEAST_SQUARES = {
    "HC0": {},
    "HC1": {},
    "HC2": {},
    "HC3": {},
    "cluster": {"groups": np.arange(120) % 11},
    "HAC": {"maxlags": 3},
}


@pytest.mark.parametrize("cov_type", LEAST_SQUARES)
def test_a_huge_width_gives_the_errors_of_least_squares(cov_type):
    exog, endog = sample(120)
    ols = sm.OLS(endog, exog).fit(cov_type=cov_type, cov_kwds=LEAST_SQUARES[cov_type], use_t=True)
    fit = QuantileHuberMLE(endog, exog, kappa=1e8, tau=0.5).fit(
        cov_type=cov_type, cov_kwds=LEAST_SQUARES[cov_type]
    )
    assert_allclose(fit.bse[:3], ols.bse, rtol=1e-6)
    assert fit.df_resid == ols.df_resid
    assert_allclose(fit.pvalues[:3], ols.pvalues, rtol=1e-5, atol=1e-12)
    assert_allclose(fit.conf_int()[:3], ols.conf_int(), rtol=1e-5)
    contrast = np.eye(3)[1:]
    test, other = fit.f_test(np.eye(4)[1:3]), ols.f_test(contrast)
    assert_allclose(test.fvalue, other.fvalue, rtol=1e-5)
    assert (test.df_num, test.df_denom) == (other.df_num, other.df_denom)
    assert_allclose(test.pvalue, other.pvalue, rtol=1e-4)


def test_two_ways_are_those_of_least_squares():
    exog, endog = sample(120)
    groups = np.column_stack([np.arange(120) % 11, np.arange(120) // 12])
    ols = sm.OLS(endog, exog).fit(cov_type="cluster", cov_kwds={"groups": groups})
    fit = QuantileHuberMLE(endog, exog, kappa=1e8, tau=0.5).fit(
        cov_type="cluster", cov_kwds={"groups": groups}
    )
    assert_allclose(fit.bse[:3], ols.bse, rtol=1e-6)
    assert fit.df_resid_inference == 9


def test_nonrobust_errors_of_a_huge_width_are_those_of_least_squares():
    exog, endog = sample(120)
    ols = sm.OLS(endog, exog).fit()
    fit = QuantileHuberMLE(endog, exog, kappa=1e8, tau=0.5).fit(cov_type="nonrobust")
    assert_allclose(fit.bse[:3], ols.bse, rtol=1e-3)


@pytest.mark.parametrize("q", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_errors_of_quantiles_are_near_those_of_quantreg(q):
    path = Path(__file__).parents[1] / "reference" / "r_quantreg.json"
    fits = json.loads(path.read_text())["problems"]["engel"]["fits"]
    (reference,) = (each for each in fits if each["q"] == q)
    exog, endog = engel()
    fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=1 - q).fit(cov_type="HC0")
    assert_allclose(fit.params[:2], reference["coef"], rtol=1e-6)
    # other estimates of the same sandwich with the same bandwidth, which differ as much themselves
    theirs = np.array([reference["bse_nid"], reference["bse_ker"]])
    assert np.all(fit.bse[:2] > 0.6 * theirs.min(axis=0))
    assert np.all(fit.bse[:2] < 1.5 * theirs.max(axis=0))


@pytest.mark.parametrize("kappa", [0.0, 0.05, 4.0])
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster", "HAC"])
def test_a_distributional_fit_with_constants_has_the_errors_of_the_linear_one(cov_type, kappa):
    exog, endog = engel()
    exog = exog / [1.0, 1000.0]
    kwds = {"groups": np.arange(235) % 20} if cov_type == "cluster" else None
    linear = QuantileHuberMLE(endog, exog, kappa=kappa).fit(
        cov_type=cov_type, cov_kwds=kwds, reml=False
    )
    general = QuantileHuberDistributional(endog, exog, kappa=kappa).fit(
        cov_type=cov_type, cov_kwds=kwds
    )
    slope = np.array([1.0, 1.0, linear.sigma, linear.tau * (1 - linear.tau)])
    assert_allclose(general.bse * slope, linear.bse, rtol=1e-5)
    assert general.df_resid_inference == linear.df_resid_inference
    assert_allclose(general.pvalues[:2], linear.pvalues[:2], rtol=1e-3, atol=1e-12)


def test_p_values_and_limits_are_those_of_t():
    exog, endog = engel()
    fit = QuantileHuberMLE(endog, exog).fit()
    assert fit.cov_type == "HC3"
    assert fit.use_t
    assert fit.df_resid == 233
    expected = 2 * stats.t.sf(np.abs(fit.tvalues), fit.df_resid)
    assert_allclose(fit.pvalues, expected, rtol=1e-12)
    reach = stats.t.ppf(0.975, fit.df_resid)
    assert_allclose(fit.conf_int()[:2, 1], fit.params[:2] + reach * fit.bse[:2], rtol=1e-12)
    log_sigma = np.log(fit.sigma) + np.array([-1, 1]) * reach * fit.bse[2] / fit.sigma
    assert_allclose(fit.conf_int()[2], np.exp(log_sigma), rtol=1e-12)
    slope = fit.tau * (1 - fit.tau)
    logit_tau = special.logit(fit.tau) + np.array([-1, 1]) * reach * fit.bse[3] / slope
    assert_allclose(fit.conf_int()[3], special.expit(logit_tau), rtol=1e-12)
    assert_allclose(fit.t_test("x1 = 0").pvalue, fit.pvalues[1], rtol=1e-12)
    joint = fit.wald_test("x1 = 0.6, const = 60")
    assert (joint.df_num, joint.df_denom) == (2, 233)
    row = fit.get_prediction([[0.0, 1.0]]).summary_frame()
    assert_allclose(row.iloc[0, :4], [*(a[1] for a in (fit.params, fit.bse)), *fit.conf_int()[1]])
    normal = fit.get_robustcov_results("HC3", use_t=False)
    assert_allclose(normal.pvalues, 2 * stats.norm.sf(np.abs(fit.tvalues)), rtol=1e-12)
    assert normal.wald_test("x1 = 0.6, const = 60").distribution == "chi2"


def test_the_summary_names_the_covariance_and_t():
    exog, endog = engel()
    fit = QuantileHuberMLE(endog, exog).fit()
    text = str(fit.summary())
    assert re.search(r"Covariance Type: +HC3", text)
    assert "P>|t|" in text
    assert "light side" not in text
    assert COVARIANCE_TYPES["HC3"].description in fit.cov_kwds["description"]
    lagged = str(fit.get_robustcov_results("HAC", maxlags=3).summary())
    assert "autocorrelation-robust sandwich, 3 lags" in " ".join(lagged.split())


# ---------------------------------------------------------------------- what is not identified


def rare(values, n=300):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(n), rng.standard_normal(n), np.zeros(n)])
    exog[: len(values), 2] = 1.0
    endog = exog[:, :2].sum(axis=1) + rng.standard_normal(n)
    endog[: len(values)] += values
    return exog, endog


@pytest.mark.parametrize("kappa", [0.0, 4.0])
@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
def test_a_row_with_leverage_one_has_no_hc3_error_and_harms_no_other(model, kappa):
    exog, endog = rare([1.0])
    fit = model(endog, exog, kappa=kappa, tau=0.5).fit()
    with pytest.warns(CurvatureWarning, match=r"no standard error \(NaN\) for x2:") as said:
        errors = fit.bse
    assert len(said) == 1
    assert np.isnan(errors[2])
    rest = QuantileHuberMLE(endog[1:], exog[1:, :2], kappa=kappa, tau=0.5).fit(reml=False)
    assert_allclose(errors[:2], rest.bse[:2], rtol=0.02)
    assert np.isfinite(fit.get_robustcov_results("HC1").bse).all()
    assert np.isnan(fit.pvalues[2])
    assert np.isnan(fit.conf_int()[2]).all()
    assert "nan" in str(fit.summary())
    assert np.isfinite(fit.t_test([[0.0, 1.0, 0.0, 0.0]]).pvalue).all()
    with pytest.raises(DomainError, match="x2 has no standard error"):
        fit.wald_test("x2 = 0, x1 = 0")
    assert np.isfinite(fit.wald_test("x1 = 0").pvalue)


def test_a_category_with_no_row_in_the_zone_has_no_error_and_harms_no_other():
    exog, endog = rare([40.0, -40.0])
    fit = QuantileHuberMLE(endog, exog, kappa=0.5, tau=0.4).fit()
    with pytest.warns(CurvatureWarning, match="x2"):
        errors = fit.bse
    assert np.isnan(errors[2])
    assert np.isfinite(np.delete(errors, 2)).all()
    frame = fit.get_prediction([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]).summary_frame()
    assert_array_equal(np.isnan(frame["location_se"]), [False, True])


def test_tau_that_no_row_tells_of_has_no_error_and_harms_no_other():
    exog, endog = sample(120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit = QuantileHuberMLE(endog, exog, kappa=1e8).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CurvatureWarning)
        errors = fit.bse
    assert np.isnan(errors[4])
    assert_allclose(errors[:3], sm.OLS(endog, exog).fit(cov_type="HC3").bse, rtol=1e-5)


def test_tau_on_a_bound_is_treated_as_known():
    exog, endog = draw(300, 4.0, 0.3)
    model = QuantileHuberMLE(endog, exog, tau_bounds=(0.4, 0.9))
    with pytest.warns(BoundaryWarning):
        fit = model.fit()
    held = QuantileHuberMLE(endog, exog, tau=0.4).fit()
    for cov_type in ("nonrobust", "HC3"):
        errors = fit.get_robustcov_results(cov_type).bse
        assert_allclose(errors[:3], held.get_robustcov_results(cov_type).bse, rtol=1e-6)
        assert np.isnan(errors[3])
    assert fit.held_fixed == {"tau": "at bound"}


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.DataWarning")
@pytest.mark.parametrize("cov_type", ["HC0", "HC3"])
def test_as_many_columns_as_rows_have_no_errors(cov_type):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(4), rng.standard_normal((4, 3))])
    fit = QuantileHuberMLE(rng.standard_normal(4), exog, sigma=1.0, tau=0.5).fit(cov_type=cov_type)
    with pytest.warns(CurvatureWarning, match=r"no standard error \(NaN\) for any parameter"):
        assert np.isnan(fit.bse).all()
    assert "nan" in str(fit.summary())


# ---------------------------------------------------------------------- the sandwich itself


def test_the_sandwich_of_scores_is_that_of_its_formulas():
    rng = np.random.default_rng(0)
    scores, leverage = rng.standard_normal((40, 3)), rng.uniform(0.0, 0.5, 40)
    inverse = np.diag([1.0, 2.0, 3.0])
    plain = inverse @ scores.T @ scores @ inverse
    assert_allclose(sandwich(scores, inverse), plain)
    assert_allclose(sandwich(scores, inverse, correction="HC1"), plain * 40 / 37)
    for name, power in (("HC2", 0.5), ("HC3", 1.0)):
        s = scores / (1 - leverage)[:, None] ** power
        found = sandwich(scores, inverse, correction=name, leverage=leverage)
        assert_allclose(found, inverse @ s.T @ s @ inverse)
    influences = sandwich(scores @ inverse, None, correction="HC3", leverage=leverage)
    assert_allclose(influences, found)
    with pytest.raises(DomainError, match="HC3 needs the leverage"):
        sandwich(scores, inverse, correction="HC3")
    with pytest.raises(DomainError, match="correction must be one of"):
        sandwich(scores, inverse, correction="HC4")


def test_every_type_differs_from_the_others():
    exog, endog = sample(120)
    fit = QuantileHuberMLE(endog, exog).fit()
    options = {"cluster": {"groups": np.arange(120) % 11}}
    names = [name for name in COVARIANCE_TYPES if name != "bootstrap"]
    errors = [fit.get_robustcov_results(name, **options.get(name, {})).bse[1] for name in names]
    assert len({round(error, 9) for error in errors}) == len(names)
    assert all(each.formula and each.reference for each in COVARIANCE_TYPES.values())


def test_groups_may_be_strings_a_pair_or_a_table():
    exog, endog = sample(240)
    rng = np.random.default_rng(3)
    groups = np.column_stack([rng.integers(0, 30, 240) * 7 - 50, rng.integers(0, 12, 240)])
    fit = QuantileHuberMLE(endog, exog).fit(cov_type="cluster", cov_kwds={"groups": groups})
    labels = [np.array([f"g{v}" for v in column]) for column in groups.T]
    table = pd.DataFrame({"a": labels[0], "b": groups[:, 1]})
    for given in (labels, table):
        assert_allclose(fit.get_robustcov_results("cluster", groups=given).bse, fit.bse)
    assert fit.df_resid_inference == 11
    assert "30 x 12 clusters" in fit.cov_kwds["description"]
