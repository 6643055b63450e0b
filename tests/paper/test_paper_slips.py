"""Where the printed formulas of the paper and the truth differ: told in docs/paper_slips.md."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, optimize

from qhreg.certificate import KAPPA_STAR, biconvexity_certificate, data_certificate
from qhreg.family.loss import excess, quantile_huber_loss, quantile_loss
from qhreg.family.normalizer import log_normalizer, log_normalizer_derivatives


def printed_c(tau, kappa):
    """c by integrating exp(-rho), without any closed form of ours."""
    edges = [-kappa * tau, kappa * (1 - tau)]

    def density(r):
        return np.exp(-quantile_huber_loss(r, tau, kappa))

    pieces = [(-np.inf, edges[0]), (edges[0], edges[1]), (edges[1], np.inf)]
    return sum(integrate.quad(density, *piece, epsabs=1e-13)[0] for piece in pieces)


def c_second(tau, kappa):
    """c'' as the paper prints it, which is right."""
    return sum((kappa / t + 2 / t**3) * np.exp(-kappa * t**2 / 2) for t in (tau, 1 - tau))


def test_minimum_curvature_falls_from_8_to_6_0760_between_kappa_0_and_1():
    """The paper: "decreases from 8 to 6 as kappa moves from 0 to 1"."""
    margins = [biconvexity_certificate(kappa).margin for kappa in np.linspace(0, 1, 11)]
    assert margins[0] == 8.0
    assert_allclose(margins[-1], 6.0760, atol=5e-5)
    assert np.all(np.diff(margins) < 0)


# --- 1. the second derivative of the loss in tau -------------------------------------------------


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("r", [-9.0, 8.0])
def test_second_derivative_of_the_loss_in_tau_is_minus_kappa_and_not_minus_kappa_tau(r, tau):
    kappa, step = 3.0, 1e-3
    values = [float(quantile_huber_loss(r, tau + h, kappa)) for h in (-step, 0, step)]
    second = (values[0] - 2 * values[1] + values[2]) / step**2
    assert_allclose(second, -kappa, rtol=1e-6)
    rise = excess(r, tau + step, kappa) - excess(r, tau - step, kappa)
    assert_allclose(-rise / (2 * step), -kappa)
    assert abs(second - (-kappa * tau)) > 0.29 * kappa


# --- 2. the condition of Lemma 3.2 ---------------------------------------------------------------


def test_the_printed_condition_of_lemma_3_2_holds_where_convexity_in_tau_fails():
    kappa, grid = 8.0, np.linspace(0.01, 0.99, 9801)
    assert_allclose(c_second(grid, kappa).min(), 23.54, atol=5e-3)
    assert np.all(c_second(grid, kappa) > kappa)

    certificate = biconvexity_certificate(kappa)
    assert_allclose(certificate.min_curvature, 3.16, atol=5e-3)
    assert not certificate.holds

    far = np.array([-20.0, 20.0])

    def objective(tau):
        return far.size * np.log(printed_c(tau, kappa)) + quantile_huber_loss(far, tau, kappa).sum()

    left, middle, right = (objective(tau) for tau in (0.4, 0.5, 0.6))
    assert middle > 0.5 * (left + right) + 0.01


def test_the_printed_condition_asks_for_c_and_the_proof_needs_log_c():
    tau, kappa, step = 0.4, 2.0, 1e-2
    c = [printed_c(tau + h * step, kappa) for h in (-1, 0, 1)]
    logs = np.log(c)
    assert_allclose((c[0] - 2 * c[1] + c[2]) / step**2, c_second(tau, kappa), rtol=5e-3)
    bend = log_normalizer_derivatives(tau, kappa).d2_tau
    assert_allclose((logs[0] - 2 * logs[1] + logs[2]) / step**2, bend, rtol=5e-3)
    assert c_second(tau, kappa) > 3 * bend


def test_the_printed_condition_would_hold_up_to_three_times_the_critical_width():
    limit = optimize.brentq(lambda kappa: c_second(0.5, kappa) - kappa, 5, 50)
    assert_allclose(limit, 14.588, atol=5e-4)
    assert np.all(c_second(np.linspace(0.01, 0.99, 9801), limit - 1e-6) > limit - 1e-6)
    assert limit > 3 * KAPPA_STAR


def test_with_the_right_condition_residuals_far_outside_decide_as_the_certificate_does():
    for kappa in (4.6, 4.7):
        far = np.array([-1e3, 1e3])
        assert data_certificate(far, kappa).holds == biconvexity_certificate(kappa).holds


# --- 3. Figure 1 ---------------------------------------------------------------------------------


def figure_1_loss(r, tau=0.3, k=0.4):
    """The curve as the paper's plotting code draws it."""
    linear_left = tau * np.abs(r) - k * tau**2
    linear_right = (1 - tau) * np.abs(r) - k * (1 - tau) ** 2
    curve = np.where(r < -2 * tau * k, linear_left, 0.25 * r**2 / k)
    return np.where(r > 2 * (1 - tau) * k, linear_right, curve)


def test_figure_1_is_drawn_with_half_the_kappa_of_the_text():
    r = np.linspace(-2, 2, 401)
    assert_allclose(figure_1_loss(r), quantile_huber_loss(r, 0.3, 0.8), atol=1e-15)
    assert np.abs(figure_1_loss(r) - quantile_huber_loss(r, 0.3, 0.4)).max() > 0.09


def test_the_dots_of_figure_1_do_not_lie_on_its_curve():
    dots, edges = np.array([0.0550, 0.20]), np.array([-0.24, 0.56])
    assert_allclose(figure_1_loss(edges), [0.036, 0.196], atol=1e-15)
    assert np.all(np.abs(dots - figure_1_loss(edges)) > 0.003)
    assert_allclose(np.exp(-dots), [0.9464851, 0.8187308], atol=1e-7)


def test_figure_1_shows_exp_of_minus_the_loss_which_is_not_yet_the_density():
    assert_allclose(printed_c(0.3, 0.8), np.exp(log_normalizer(0.3, 0.8)), rtol=1e-12)
    assert printed_c(0.3, 0.8) > 5


# --- smaller ones --------------------------------------------------------------------------------


def test_the_quantile_loss_at_one_half_is_half_the_absolute_value():
    """The paper: "the quantile loss is same as the l1 loss when tau = 0.5"."""
    r = np.array([-3.0, -0.5, 2.0])
    assert_allclose(quantile_loss(r, 0.5), 0.5 * np.abs(r))
