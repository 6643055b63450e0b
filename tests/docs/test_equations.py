"""Equations of docs/math.md that no other test checks, and the numbers code cites them by."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, optimize

from qhreg import QuantileHuberMLE
from qhreg.family.loss import excess, loss_slope, quantile_huber_loss
from qhreg.family.normalizer import log_curvature, log_normalizer, log_normalizer_derivatives

ROOT = Path(__file__).resolve().parents[2]
MATH = (ROOT / "docs" / "math.md").read_text(encoding="utf-8")

CASES = [(0.3, 1.0), (0.5, 0.2), (0.85, 6.0), (0.1, 0.01)]


def expectation(function, tau, kappa):
    """E f(u) by quadrature over the three parts of the density."""

    def integrand(u):
        return function(u) * np.exp(
            -quantile_huber_loss(u, tau, kappa) - log_normalizer(tau, kappa)
        )

    left, right = -kappa * tau, kappa * (1 - tau)
    pieces = [(-np.inf, left), (left, right), (right, np.inf)]
    return sum(integrate.quad(integrand, *p, epsabs=1e-13, epsrel=1e-11)[0] for p in pieces)


def parts(tau, kappa):
    """pi_minus, pi_zero, pi_plus of the page."""
    c = np.exp(log_normalizer(tau, kappa))
    minus, plus = (np.exp(-kappa * t * t / 2) / (t * c) for t in (tau, 1 - tau))
    return minus, 1 - minus - plus, plus


# --- numbering -----------------------------------------------------------------------------------


def listed_numbers():
    """The numbers of the table at the top of the page, ranges written out."""
    found = []
    for row in re.findall(r"^\| (QH-[^|]*)\|", MATH, flags=re.MULTILINE):
        numbers = [int(n) for n in re.findall(r"QH-(\d+)", row)]
        found += range(numbers[0], numbers[-1] + 1) if " to " in row else numbers
    return found


def test_each_number_names_one_equation_and_stands_once_in_the_table():
    tags = [int(n) for n in re.findall(r"\\tag\{QH-(\d+)\}", MATH)]
    assert len(tags) == len(set(tags))
    assert sorted(tags) == sorted(listed_numbers())


def test_every_number_cited_anywhere_exists():
    pages = [*(ROOT / "qhreg").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    cited = {
        (path.name, int(n))
        for path in pages
        for n in re.findall(r"QH-(\d+)", path.read_text(encoding="utf-8"))
    }
    known = set(listed_numbers())
    assert len(cited) > 20
    assert {(name, n) for name, n in cited if n not in known} == set()


# --- the restricted likelihood -----------------------------------------------------------------------


@pytest.mark.parametrize(("tau", "kappa"), CASES)
def test_q_is_the_mean_square_of_the_slope_and_has_the_stated_derivatives(tau, kappa):
    q = log_curvature(tau, kappa)
    mean = expectation(lambda u: loss_slope(u, tau, kappa) ** 2, tau, kappa)
    assert_allclose(np.exp(q.value), mean, rtol=1e-8)
    h = 1e-5
    slope = (log_curvature(tau + h, kappa).value - log_curvature(tau - h, kappa).value) / (2 * h)
    bend = (log_curvature(tau + h, kappa).d_tau - log_curvature(tau - h, kappa).d_tau) / (2 * h)
    assert_allclose([q.d_tau, q.d2_tau], [slope, bend], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kappa", [0.5, 4.0])
def test_the_restricted_fit_at_fixed_tau_is_an_ordinary_one_of_another_width(kappa):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(40), rng.normal(size=(40, 3))])
    y = X @ [1.0, 2.0, 0.0, -1.0] + rng.gumbel(size=40)
    restricted = QuantileHuberMLE(y, X, kappa=kappa, tau=0.7).fit()
    ordinary = QuantileHuberMLE(y, X, kappa=kappa * 40 / 36, tau=0.7).fit(reml=False)
    assert_allclose(restricted.params[:4], ordinary.params[:4], rtol=1e-6)
    assert_allclose(restricted.sigma, ordinary.sigma * 40 / 36, rtol=1e-6)


def test_the_restricted_log_likelihood_is_minus_the_stated_function():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    y = X @ [1.0, 2.0, 0.0] + rng.gumbel(size=60)
    fit = QuantileHuberMLE(y, X).fit()
    loss = quantile_huber_loss(fit.resid / fit.sigma, fit.tau, 4.0).sum()
    q = log_curvature(fit.tau, 4.0).value
    R = 60 * log_normalizer(fit.tau, 4.0) + 1.5 * q + 57 * np.log(fit.sigma) + loss
    assert_allclose(fit.llf_restricted, 1.5 * np.log(2 * np.pi) - R, rtol=1e-10)


# --- the loss and its density --------------------------------------------------------------------


def test_the_loss_is_the_largest_of_its_quadratic_minorants():
    rng = np.random.default_rng(0)
    for tau, kappa in CASES:
        u = 3 * rng.standard_normal(50)
        v = rng.uniform(-tau, 1 - tau, (500, 1))
        loss, psi = quantile_huber_loss(u, tau, kappa), loss_slope(u, tau, kappa)
        assert np.all(u * v - kappa * v**2 / 2 <= loss + 1e-14)
        assert_allclose(u * psi - kappa * psi**2 / 2, loss, atol=1e-14)


@pytest.mark.parametrize(("tau", "kappa"), CASES)
def test_the_three_parts_have_the_stated_probabilities(tau, kappa):
    minus, zero, plus = parts(tau, kappa)
    low, high = -kappa * tau, kappa * (1 - tau)
    assert_allclose(expectation(lambda u: float(u < low), tau, kappa), minus, rtol=1e-9)
    assert_allclose(expectation(lambda u: float(u > high), tau, kappa), plus, rtol=1e-9)
    derivatives = log_normalizer_derivatives(tau, kappa)
    assert_allclose(zero, 2 * kappa * derivatives.d_kappa, rtol=1e-10)
    assert_allclose(plus / (1 - tau) - minus / tau, derivatives.d_tau, rtol=1e-10)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.8])
def test_the_limits_of_the_normaliser_are_laplace_and_normal(tau):
    small, large = log_normalizer_derivatives(tau, 1e-9), log_normalizer(tau, 1e7)
    assert_allclose(small.value, -np.log(tau * (1 - tau)), atol=1e-8)
    assert_allclose(small.d2_tau, 1 / tau**2 + 1 / (1 - tau) ** 2, rtol=1e-8)
    assert_allclose(large, 0.5 * np.log(2 * np.pi * 1e7), rtol=1e-14)


# --- expected information ------------------------------------------------------------------------


def information(tau, kappa):
    """(QH-21) at x = 1, sigma = 1, in the order (beta, sigma, tau)."""
    minus, zero, plus = parts(tau, kappa)
    t, s, d = tau, 1 - tau, log_normalizer_derivatives(tau, kappa)
    bb, bs, bt = 2 * d.d_kappa, t * minus - s * plus, minus + plus
    ss = 1 + zero - kappa * (t * t * minus + s * s * plus)
    st = (kappa * s + 1 / s) * plus - (kappa * t + 1 / t) * minus
    tt = d.d2_tau - kappa * (minus + plus)
    return np.array([[bb, bs, bt], [bs, ss, st], [bt, st, tt]])


@pytest.mark.parametrize(("tau", "kappa"), CASES)
def test_the_expected_information_is_the_mean_product_of_the_scores(tau, kappa):
    slope = log_normalizer_derivatives(tau, kappa).d_tau
    scores = [
        lambda u: float(loss_slope(u, tau, kappa)),
        lambda u: u * float(loss_slope(u, tau, kappa)) - 1,
        lambda u: float(excess(u, tau, kappa)) - slope,
    ]
    by_quadrature = np.array(
        [[expectation(lambda u: a(u) * b(u), tau, kappa) for b in scores] for a in scores]  # noqa: B023
    )
    closed = information(tau, kappa)
    assert_allclose(closed, by_quadrature, rtol=1e-8, atol=1e-10)
    minus, _, plus = parts(tau, kappa)
    assert_allclose(2 * minus / tau**2 + 2 * plus / (1 - tau) ** 2 - slope**2, closed[2, 2])


def test_the_expected_information_is_continuous_down_to_the_asymmetric_laplace():
    for tau in (0.1, 0.5, 0.7):
        assert_allclose(information(tau, 0.0), information(tau, 1e-10), rtol=1e-8, atol=1e-9)
        assert_allclose(information(tau, 0.0)[0, 0], tau * (1 - tau))


# --- duality and the global bound ----------------------------------------------------------------


def small_problem():
    rng = np.random.default_rng(7)
    n = 9
    x = np.column_stack([np.ones(n), rng.standard_normal(n)])
    return x, x @ [1.0, 2.0] + rng.exponential(size=n), rng.uniform(0.5, 2, n)


def primal(z, x, y, w, tau, kappa):
    b, theta = z[:-1], np.exp(z[-1])
    u = theta * y - x @ b
    return w @ quantile_huber_loss(u, tau, kappa) - w.sum() * np.log(theta)


def best(x, y, w, tau, kappa):
    start = np.append(np.linalg.lstsq(x, y, rcond=None)[0], 0.0)
    options = {"xatol": 1e-12, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000}
    for _ in range(3):
        fit = optimize.minimize(
            primal, start, (x, y, w, tau, kappa), method="Nelder-Mead", options=options
        )
        start = fit.x
    return fit


def dual(v, y, w, kappa):
    n, gain = w.sum(), w @ (v * y)
    return n + n * np.log(gain / n) - kappa / 2 * w @ v**2 if gain > 0 else -np.inf


def feasible(v, x, w, tau):
    """v moved into the constraints of (QH-15): projected, then shrunk into the box."""
    wx = x * w[:, None]
    v = v - wx @ np.linalg.solve(wx.T @ wx, wx.T @ v)
    return v / max(1.0, (v / np.where(v > 0, 1 - tau, -tau)).max())


def test_dual_points_stay_below_and_the_slopes_at_the_optimum_reach_the_primal():
    x, y, w = small_problem()
    rng = np.random.default_rng(1)
    for tau, kappa in [(0.4, 1.0), (0.7, 0.5)]:
        fit = best(x, y, w, tau, kappa)
        b, theta = fit.x[:-1], np.exp(fit.x[-1])
        v = feasible(loss_slope(theta * y - x @ b, tau, kappa), x, w, tau)
        assert_allclose(dual(v, y, w, kappa), fit.fun, atol=1e-6)
        for _ in range(200):
            guess = feasible(v + 0.1 * rng.standard_normal(v.size), x, w, tau)
            assert_allclose((x * w[:, None]).T @ guess, 0, atol=1e-12)
            assert dual(guess, y, w, kappa) <= fit.fun + 1e-9


def test_the_value_at_fixed_tau_is_concave_and_mixtures_bound_it_below():
    x, y, w = small_problem()
    kappa, grid = 0.8, np.linspace(0.2, 0.8, 7)
    fits = [best(x, y, w, tau, kappa) for tau in grid]
    h = np.array([fit.fun for fit in fits])
    assert np.all(np.diff(h, 2) < 0)
    ends = []
    for i in (0, -1):
        b, theta = fits[i].x[:-1], np.exp(fits[i].x[-1])
        ends.append(feasible(loss_slope(theta * y - x @ b, grid[i], kappa), x, w, grid[i]))
    for tau, value in zip(grid, h, strict=True):
        share = (tau - grid[0]) / (grid[-1] - grid[0])
        bound = dual((1 - share) * ends[0] + share * ends[1], y, w, kappa)
        chord = (1 - share) * h[0] + share * h[-1]
        assert chord - 1e-5 <= bound <= value + 1e-9
