"""The loss and its derivatives: definition, calculus, identities, limits, bad input."""

import mpmath as mp
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from qhreg._blocks import BLOCK_ROWS
from qhreg.exceptions import DomainError, QhregError
from qhreg.family.loss import (
    excess,
    loss_curvature,
    loss_slope,
    quantile_huber_loss,
    quantile_loss,
    zone_part,
)

EVERY_FUNCTION = [
    quantile_huber_loss,
    loss_slope,
    excess,
    loss_curvature,
]
TAUS = [1e-8, 0.1, 0.25, 0.5, 0.75, 0.9, 1 - 1e-8]
KAPPAS = [0.0, 1e-12, 0.05, 1.0, 8.0, 1e8]
RESIDUALS = [-1e8, -3.0, -0.7, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.3, 2.0, 1e8]

taus = st.floats(1e-6, 1 - 1e-6)
kappas = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))
residuals = st.floats(-1e9, 1e9)


def definition(r, tau, kappa):
    """Return the loss as the three cases the paper prints, in 40 digits."""
    with mp.workdps(40):
        r, tau, kappa = mp.mpf(r), mp.mpf(tau), mp.mpf(kappa)
        if r < -kappa * tau:
            return -tau * r - kappa * tau**2 / 2
        if r > kappa * (1 - tau):
            return (1 - tau) * r - kappa * (1 - tau) ** 2 / 2
        return r**2 / (2 * kappa) if kappa else mp.mpf(0)


def smooth_points(tau, kappa):
    """Return residuals inside and outside the zone, away from its edges."""
    return [
        -kappa * tau - 1.3,
        -0.4 * kappa * tau,
        0.6 * kappa * (1 - tau),
        kappa * (1 - tau) + 2.1,
    ]


# ------------------------------------------------------------------------------ the definition


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("tau", TAUS)
def test_loss_is_its_piecewise_definition(tau, kappa):
    for r in RESIDUALS:
        expected = definition(r, tau, kappa)
        assert abs(quantile_huber_loss(r, tau, kappa) - expected) <= 1e-15 * expected


def test_slope_is_tau_on_the_left_and_one_minus_tau_on_the_right():
    assert loss_slope(-5.0, 0.2, 1.0) == -0.2
    assert loss_slope(5.0, 0.2, 1.0) == 0.8


def test_loss_at_one_half_is_the_huber_loss():
    r = np.linspace(-5, 5, 101)
    for kappa in (0.5, 2.0, 7.0):
        huber = special.huber(kappa / 2, r) / kappa
        np.testing.assert_allclose(quantile_huber_loss(r, 0.5, kappa), huber, rtol=1e-15)


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.8])
def test_quantile_loss_is_minimised_by_the_quantile_of_level_one_minus_tau(tau):
    y = np.random.default_rng(4).gumbel(size=101)
    best = min(y, key=lambda location: quantile_loss(y - location, tau).sum())
    fit = sm.QuantReg(y, np.ones((101, 1))).fit(q=1 - tau, max_iter=5000, p_tol=1e-9)
    np.testing.assert_allclose(best, fit.params[0], atol=1e-5)


def test_quantile_loss_is_the_quantile_huber_loss_of_width_zero():
    r = np.linspace(-2, 2, 9)
    expected = np.where(r < 0, -0.3 * r, 0.7 * r)
    np.testing.assert_allclose(quantile_loss(r, 0.3), expected, rtol=1e-15)
    np.testing.assert_array_equal(quantile_loss(r, 0.3), quantile_huber_loss(r, 0.3, 0.0))


# ------------------------------------------------------------------------------ derivatives


def central(function, at, step=1e-5):
    return (function(at + step) - function(at - step)) / (2 * step)


@pytest.mark.parametrize("kappa", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("tau", [0.1, 0.4, 0.9])
def test_each_derivative_is_the_numeric_one_away_from_the_kinks(tau, kappa):
    step = 1e-5 * min(1.0, kappa)
    for r in smooth_points(tau, kappa):

        def in_r(function, r=r):
            return central(lambda x: function(x, tau, kappa), r, step)

        def in_tau(function, r=r):
            return central(lambda x: function(r, x, kappa), tau, 1e-6)

        close = {"rtol": 1e-7, "atol": 1e-8}
        np.testing.assert_allclose(loss_slope(r, tau, kappa), in_r(quantile_huber_loss), **close)
        np.testing.assert_allclose(loss_curvature(r, tau, kappa), in_r(loss_slope), **close)
        np.testing.assert_allclose(-excess(r, tau, kappa), in_tau(quantile_huber_loss), **close)
        outside = 1.0 if loss_curvature(r, tau, kappa) == 0.0 else 0.0
        np.testing.assert_allclose(in_tau(excess), kappa * outside, **close)
        np.testing.assert_allclose(in_tau(loss_slope), -outside, **close)
        np.testing.assert_allclose(in_r(excess), outside, **close)


@pytest.mark.parametrize("kappa", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("tau", [0.1, 0.4, 0.9])
def test_each_derivative_in_r_integrates_across_the_kinks(tau, kappa):
    low, high = -2.0 - kappa, 3.0 + kappa
    kinks = [-kappa * tau, 0.0, kappa * (1 - tau)]
    pairs = [
        (loss_slope, quantile_huber_loss),
        (loss_curvature, loss_slope),
    ]
    for derivative, function in pairs:
        area, _ = integrate.quad(
            lambda r, f=derivative: f(r, tau, kappa), low, high, points=kinks, epsabs=1e-12
        )
        rise = function(high, tau, kappa) - function(low, tau, kappa)
        np.testing.assert_allclose(area, rise, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("r", [-0.7, -0.05, 0.3, 2.0])
@pytest.mark.parametrize("kappa", [0.05, 1.0, 8.0])
def test_the_derivative_in_tau_integrates_across_the_kinks(r, kappa):
    low, high = 0.05, 0.9
    kinks = [tau for tau in (-r / kappa, 1 - r / kappa) if low < tau < high]
    area, _ = integrate.quad(lambda tau: -excess(r, tau, kappa), low, high, points=kinks or None)
    rise = quantile_huber_loss(r, high, kappa) - quantile_huber_loss(r, low, kappa)
    np.testing.assert_allclose(area, rise, rtol=1e-12, atol=1e-12)


def test_second_derivative_in_tau_is_minus_kappa_and_not_minus_kappa_tau():
    tau, kappa, step = 0.3, 2.0, 1e-4
    for r in (-4.0, 5.0):
        losses = [quantile_huber_loss(r, tau + shift, kappa) for shift in (-step, 0.0, step)]
        second = (losses[0] - 2 * losses[1] + losses[2]) / step**2
        rise = excess(r, tau + step, kappa) - excess(r, tau - step, kappa)
        assert -rise / (2 * step) == pytest.approx(-kappa, rel=1e-9)
        assert second == pytest.approx(-kappa, rel=1e-6)
        assert abs(second - (-kappa * tau)) > 1.0


def test_edges_of_the_zone_belong_to_the_inside():
    for r in (-0.5, 1.5):  # tau = 1/4, kappa = 2: both edges are exact
        assert loss_curvature(r, 0.25, 2.0) == 0.5
        assert excess(r, 0.25, 2.0) == 0.0
        beyond = np.nextafter(r, 2 * r)
        assert loss_curvature(beyond, 0.25, 2.0) == 0.0
        assert excess(beyond, 0.25, 2.0) == beyond - r


# ------------------------------------------------------------------------------ identities


@settings(deadline=None)
@given(r=residuals, tau=taus, kappa=kappas)
def test_reflection_exchanges_tau_and_one_minus_tau(r, tau, kappa):
    mirrored = 1 - tau
    np.testing.assert_allclose(
        quantile_huber_loss(r, tau, kappa),
        quantile_huber_loss(-r, mirrored, kappa),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        loss_slope(r, tau, kappa), -loss_slope(-r, mirrored, kappa), rtol=1e-9
    )


@settings(deadline=None)
@given(r=residuals, tau=taus, kappa=kappas, scale=st.floats(1e-6, 1e6))
def test_scaling_the_residual_and_the_width_scales_the_loss(r, tau, kappa, scale):
    np.testing.assert_allclose(
        quantile_huber_loss(scale * r, tau, scale * kappa),
        scale * quantile_huber_loss(r, tau, kappa),
        rtol=1e-12,
        atol=1e-300,
    )


@settings(deadline=None)
@given(r=residuals, tau=taus, kappa=kappas)
def test_a_residual_is_kappa_psi_plus_its_excess(r, tau, kappa):
    whole = kappa * loss_slope(r, tau, kappa) + excess(r, tau, kappa)
    np.testing.assert_allclose(whole, r, rtol=1e-12, atol=1e-12 * kappa)


@settings(deadline=None)
@given(r=residuals, other=residuals, tau=taus, kappa=kappas)
def test_loss_is_convex_in_the_residual(r, other, tau, kappa):
    middle = quantile_huber_loss((r + other) / 2, tau, kappa)
    chord = (quantile_huber_loss(r, tau, kappa) + quantile_huber_loss(other, tau, kappa)) / 2
    assert middle <= chord * (1 + 1e-12)


@settings(deadline=None)
@given(r=residuals, tau=taus, other=taus, kappa=kappas)
def test_loss_is_concave_in_tau(r, tau, other, kappa):
    middle = quantile_huber_loss(r, (tau + other) / 2, kappa)
    chord = (quantile_huber_loss(r, tau, kappa) + quantile_huber_loss(r, other, kappa)) / 2
    assert middle >= chord * (1 - 1e-9)


# ------------------------------------------------------------------------------ limits


def test_at_the_corner_of_the_quantile_loss_everything_is_the_limit_of_small_kappa():
    for function in (quantile_huber_loss, loss_slope, excess):
        assert function(0.0, 0.3, 0.0) == 0.0
        assert function(0.0, 0.3, 1e-12) == 0.0
    assert loss_curvature(0.0, 0.3, 0.0) == np.inf
    assert loss_curvature(0.0, 0.3, 1e-300) == pytest.approx(1e300)


def test_small_kappa_approaches_the_quantile_loss():
    r = np.array([-3.0, -1e-3, 0.0, 1e-3, 2.0])
    for kappa in (1e-6, 1e-9, 1e-12):
        gap = quantile_loss(r, 0.3) - quantile_huber_loss(r, 0.3, kappa)
        assert np.all((gap >= -1e-16) & (gap <= kappa / 2))


@pytest.mark.parametrize("function", EVERY_FUNCTION)
@pytest.mark.parametrize("kappa", [0.0, 5e-324, 1e-300, 1e-8, 1.0, 1e8, 1e300, 1.7e308])
def test_residuals_of_1e300_neither_overflow_nor_warn(function, kappa):
    r = np.array([-1e300, 1e300])
    for tau, width in [(0.25, kappa), (np.array([0.25, 0.25]), kappa), (0.25, np.array([kappa]))]:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            assert np.all(np.isfinite(function(r, tau, width)))
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        assert np.all(np.isfinite(function(-1e300, 0.25, kappa)))


@pytest.mark.parametrize("kappa", [0.0, 5e-324, 1e-300, 1.0, 1e300])
def test_loss_of_1e300_is_exact(kappa):
    for r in (-1e300, 1e300):
        expected = float(definition(r, 0.25, kappa))
        assert quantile_huber_loss(r, 0.25, kappa) == pytest.approx(expected, rel=1e-15)


def test_an_infinite_residual_has_infinite_loss_and_the_outer_slope():
    r = np.array([-np.inf, np.inf])
    for kappa in (0.0, 1.0):
        np.testing.assert_array_equal(quantile_huber_loss(r, 0.25, kappa), [np.inf, np.inf])
        np.testing.assert_array_equal(loss_slope(r, 0.25, kappa), [-0.25, 0.75])
        np.testing.assert_array_equal(excess(r, 0.25, kappa), r)


@pytest.mark.parametrize("function", EVERY_FUNCTION)
@pytest.mark.parametrize("kappa", [0.0, 1.0, np.array([0.0, 1.0])])
def test_nan_residuals_give_nan(function, kappa):
    assert np.all(np.isnan(function(np.nan, 0.25, kappa)))


# ------------------------------------------------------------------------------ arrays


@pytest.mark.parametrize("kappa", [0.0, 0.7])
def test_blocks_agree_with_one_pass(kappa):
    n = 2 * BLOCK_ROWS + 3
    r = np.random.default_rng(0).standard_t(2, size=n)
    for function in (quantile_huber_loss, loss_slope):
        whole = function(r, np.full(n, 0.3), np.full(n, kappa))
        np.testing.assert_array_equal(function(r, 0.3, kappa), whole)


@pytest.mark.parametrize("function", EVERY_FUNCTION)
def test_arguments_broadcast(function):
    r, tau, kappa = np.linspace(-2, 2, 5), np.array([[0.2], [0.7]]), np.array([[[0.0]], [[1.5]]])
    result = np.asarray(function(r, tau, kappa))
    assert result.shape[-3:] == (2, 2, 5)
    for i, j, k in np.ndindex(2, 2, 5):
        alone = function(r[k], tau[j, 0], kappa[i, 0, 0])
        np.testing.assert_array_equal(result[..., i, j, k], alone)


@pytest.mark.parametrize("function", EVERY_FUNCTION)
def test_scalars_in_give_scalars_out(function):
    for value in np.atleast_1d(np.asarray(function(1, 0.3, 2), dtype=object)):
        assert isinstance(value, float)


@pytest.mark.parametrize("function", EVERY_FUNCTION)
def test_memory_layout_does_not_matter_and_the_input_is_kept(function):
    r = np.random.default_rng(1).normal(size=(6, 8))
    before = r.copy()
    expected = np.asarray(function(r, 0.3, 0.5))
    np.testing.assert_array_equal(np.asarray(function(np.asfortranarray(r), 0.3, 0.5)), expected)
    strided = np.asarray(function(r[::2, ::-3], 0.3, 0.5))
    np.testing.assert_array_equal(strided, expected[..., ::2, ::-3])
    np.testing.assert_array_equal(r, before)


@pytest.mark.parametrize("function", EVERY_FUNCTION)
def test_empty_residuals_give_empty_results(function):
    assert np.asarray(function([], 0.3, 1.0)).size == 0


def test_zone_part_writes_into_out():
    r = np.array([-3.0, 0.1, 3.0])
    out = np.empty(3)
    assert zone_part(r, 0.25, 2.0, out=out) is out
    np.testing.assert_array_equal(out, [-0.5, 0.1, 1.5])
    np.testing.assert_array_equal(zone_part(r, 0.25, 2.0), out)
    assert zone_part(r, 0.25, 2.0, out=r) is r
    np.testing.assert_array_equal(r, out)


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("function", EVERY_FUNCTION)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 0.0, 1.0), r"tau must satisfy 0 < tau < 1, got 0\.0"),
        ((1.0, 1.0, 1.0), r"tau must satisfy 0 < tau < 1, got 1\.0"),
        ((1.0, np.nan, 1.0), r"tau must satisfy 0 < tau < 1, got nan"),
        ((1.0, 0.5, -1.0), r"kappa must satisfy 0 <= kappa < inf, got -1\.0"),
        ((1.0, 0.5, np.nan), r"kappa must satisfy 0 <= kappa < inf, got nan"),
        ((1.0, 0.5, np.inf), r"kappa must satisfy 0 <= kappa < inf, got inf"),
        (("1.0", 0.5, 1.0), r"r must be a real number or an array of real numbers, got '1\.0'"),
        ((None, 0.5, 1.0), r"r must be a real number or an array of real numbers, got None"),
        ((1.0, "half", 1.0), r"tau must be a real number or an array of real numbers, got 'half'"),
        (
            (np.ones(3), np.full(2, 0.5), 1.0),
            r"shapes must broadcast to a common shape, got r \(3,\), tau \(2,\), kappa \(\)",
        ),
    ],
)
def test_bad_arguments_are_named_with_what_is_allowed(function, arguments, message):
    with pytest.raises(DomainError, match=message) as caught:
        function(*arguments)
    assert isinstance(caught.value, QhregError)
    assert isinstance(caught.value, ValueError)
