"""log c and its derivatives: against mpmath, against quadrature, at every limit."""

import csv
import itertools
import math
import pathlib

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, special

from qhreg.exceptions import DomainError, QhregError
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import (
    half_normalizer,
    log_normalizer,
    log_normalizer_derivatives,
    log_normalizer_higher,
)

REFERENCE = pathlib.Path(__file__).parents[1] / "reference" / "family_normalizer.csv"
QUANTITIES = ["value", "d_tau", "d2_tau", "d_kappa"]
UNDERFLOW = 1e-300  # a result below this is only asked to be as small


def reference_columns():
    with REFERENCE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def log_c(tau, kappa):
    """Return log c from its definition with the two normal distribution functions."""
    left, right = mp.exp(-kappa * tau**2 / 2) / tau, mp.exp(-kappa * (1 - tau) ** 2 / 2) / (1 - tau)
    root = mp.sqrt(kappa)
    phi = mp.ncdf((1 - tau) * root) - mp.ncdf(-tau * root)
    return mp.log(left + right + mp.sqrt(2 * mp.pi * kappa) * phi)


def textbook(tau, kappa):
    """Return value and derivatives from the formulas as printed, in floating point."""
    root = np.sqrt(kappa)
    phi = special.ndtr((1 - tau) * root) - special.ndtr(-tau * root)
    left, right = np.exp(-kappa * tau**2 / 2), np.exp(-kappa * (1 - tau) ** 2 / 2)
    c = left / tau + right / (1 - tau) + np.sqrt(2 * np.pi * kappa) * phi
    first = right / (1 - tau) ** 2 - left / tau**2
    second = (kappa / tau + 2 / tau**3) * left + (kappa / (1 - tau) + 2 / (1 - tau) ** 3) * right
    in_kappa = np.sqrt(np.pi / (2 * kappa)) * phi
    return np.log(c), first / c, second / c - (first / c) ** 2, in_kappa / c


# ------------------------------------------------------------------------------ accuracy


def test_the_reference_spans_the_whole_domain():
    columns = reference_columns()
    assert {1e-8, 0.5, 1 - 1e-8} <= set(columns["tau"])
    assert {0.0, 1e-12, 1.0, 1e8} <= set(columns["kappa"])


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_arrays_agree_with_mpmath_to_1e_13(quantity):
    columns = reference_columns()
    result = log_normalizer_derivatives(columns["tau"], columns["kappa"])
    np.testing.assert_allclose(
        getattr(result, quantity), columns[quantity], rtol=1e-13, atol=UNDERFLOW
    )


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_floats_agree_with_mpmath_to_1e_13(quantity):
    columns = reference_columns()
    result = [
        getattr(log_normalizer_derivatives(float(tau), float(kappa)), quantity)
        for tau, kappa in zip(columns["tau"], columns["kappa"], strict=True)
    ]
    assert all(type(number) is float for number in result)
    np.testing.assert_allclose(result, columns[quantity], rtol=1e-13, atol=UNDERFLOW)


def test_random_parameters_agree_with_derivatives_taken_by_mpmath():
    rng = np.random.default_rng(11)
    for _ in range(40):
        tau, kappa = float(special.expit(rng.normal(0, 3))), float(10 ** rng.uniform(-6, 2.5))
        with mp.workdps(60):
            t, k = mp.mpf(tau), mp.mpf(kappa)
            exact = [
                log_c(t, k),
                mp.diff(lambda x, k=k: log_c(x, k), t),
                mp.diff(lambda x, k=k: log_c(x, k), t, 2),
                mp.diff(lambda x, t=t: log_c(t, x), k),
            ]
        result = log_normalizer_derivatives(tau, kappa)
        np.testing.assert_allclose(result, [float(x) for x in exact], rtol=1e-13)


@pytest.mark.parametrize("kappa", [300.0, 1000.0, 3000.0, 5000.0, 5600.0])
def test_large_exponents_keep_1e_13(kappa):
    # exp(-x) in floating point is wrong by x eps: 1.5e-13 at the largest exponents here
    for tau in (0.4999, 0.49999999, 0.5, 0.500001):
        with mp.workdps(60):
            t, k = mp.mpf(tau), mp.mpf(kappa)
            terms = [(k / x + 2 / x**3) * mp.exp(-k * x**2 / 2) for x in (t, 1 - t)]
            exact = mp.fsum(terms) / mp.exp(log_c(t, k))  # (c'/c)^2 is below 1e-40 of it
        assert log_normalizer_derivatives(tau, kappa).d2_tau == pytest.approx(
            float(exact), rel=2e-14, abs=0
        )


def test_slope_keeps_its_digits_next_to_one_half():
    for tau in (np.nextafter(0.5, 0), np.nextafter(0.5, 1), 0.5 - 1e-9, 0.5 + 1e-9):
        for kappa in (0.0, 1.0, 100.0):
            with mp.workdps(60):
                exact = mp.diff(lambda x, k=kappa: log_c(x, mp.mpf(k)), mp.mpf(float(tau)))
            result = log_normalizer_derivatives(float(tau), kappa).d_tau
            assert result == pytest.approx(float(exact), rel=1e-13, abs=0)


def test_third_and_fourth_derivatives_agree_with_mpmath():
    for tau in (0.001, 0.1, 0.45, 0.7, 0.999):
        for kappa in (0.0, 1e-6, 0.05, 1.0, 8.0, 100.0):
            with mp.workdps(60):
                exact = [
                    float(mp.diff(lambda x, k=kappa: log_c(x, mp.mpf(k)), mp.mpf(tau), n))
                    for n in (3, 4)
                ]
            np.testing.assert_allclose(log_normalizer_higher(tau, kappa), exact, rtol=1e-13)


# ------------------------------------------------------------------------------ where care is needed


def test_printed_formulas_give_the_value_but_lose_the_derivatives():
    columns = reference_columns()
    positive = columns["kappa"] > 0
    tau, kappa = columns["tau"][positive], columns["kappa"][positive]
    printed = dict(zip(QUANTITIES, textbook(tau, kappa), strict=True))
    error = {}
    for quantity in QUANTITIES:
        exact = columns[quantity][positive]
        seen = np.abs(exact) > UNDERFLOW
        error[quantity] = np.zeros(exact.size)
        error[quantity][seen] = np.abs(printed[quantity][seen] / exact[seen] - 1)
    assert error["value"].max() < 1e-13
    assert error["d_tau"][(tau == 0.49999999) & (kappa == 1.0)].item() > 1e-9
    assert error["d_kappa"][kappa == 1e-12].max() > 1e-11
    assert error["d2_tau"][kappa == 5e3].max() > 1e-13


def test_printed_derivative_in_kappa_is_undefined_at_zero():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(textbook(0.3, np.float64(0.0))[3])
    assert log_normalizer_derivatives(0.3, 0.0).d_kappa == pytest.approx(0.3 * 0.7 / 2, rel=1e-15)


def test_kappa_zero_is_the_asymmetric_laplace_normaliser():
    for tau in (1e-8, 0.1, 0.5, 0.9):
        result = log_normalizer_derivatives(tau, 0.0)
        assert result.value == pytest.approx(-math.log(tau * (1 - tau)), rel=1e-15)
        assert result.d_tau == pytest.approx(1 / (1 - tau) - 1 / tau, rel=1e-14)
        assert result.d2_tau == pytest.approx(1 / (1 - tau) ** 2 + 1 / tau**2, rel=1e-14)


def test_large_kappa_is_the_normal_normaliser():
    result = log_normalizer_derivatives(0.3, 1e8)
    assert result.value == pytest.approx(0.5 * math.log(2 * math.pi * 1e8), rel=1e-15)
    assert result.d_kappa == pytest.approx(0.5e-8, rel=1e-15)


@pytest.mark.parametrize("kappa", [0.0, 5e-324, 1.0, 1e150, 1.7e308])
@pytest.mark.parametrize("tau", [5e-324, 1e-300, 1e-150, 1 - 2**-53])
def test_the_ends_of_the_domain_neither_fail_nor_warn(tau, kappa):
    with mp.workdps(400):
        exact = float(log_c(mp.mpf(tau), mp.mpf(kappa)))
    scalar = log_normalizer_derivatives(tau, kappa)
    array = log_normalizer_derivatives(np.array([tau]), np.array([kappa]))
    assert scalar.value == pytest.approx(exact, rel=1e-14)
    for one, other in zip(scalar, array, strict=True):
        assert not math.isnan(one)
        np.testing.assert_allclose(other, one, rtol=1e-14)


# ------------------------------------------------------------------------------ meaning


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("tau", [0.02, 0.3, 0.5, 0.9])
def test_c_is_the_integral_of_exp_minus_loss(tau, kappa):
    halves = []
    for sign, slope in ((-1, tau), (1, 1 - tau)):
        edge = kappa * slope
        cuts = [0.0, edge / 2, edge, edge + 5 / slope, edge + 60 / slope]
        pieces = [
            integrate.quad(
                lambda u, sign=sign: math.exp(-quantile_huber_loss(sign * u, tau, kappa)), a, b
            )[0]
            for a, b in itertools.pairwise(cuts)
        ]
        halves.append(sum(pieces))
    np.testing.assert_allclose(half_normalizer([tau, 1 - tau], kappa), halves, rtol=1e-12)
    np.testing.assert_allclose(log_normalizer(tau, kappa), math.log(sum(halves)), rtol=1e-12)


def test_derivatives_integrate_to_the_value_across_one_half():
    area, _ = integrate.quad(lambda t: log_normalizer_derivatives(t, 1.0).d_tau, 0.2, 0.9)
    np.testing.assert_allclose(
        area, log_normalizer(0.9, 1.0) - log_normalizer(0.2, 1.0), rtol=1e-12
    )
    area, _ = integrate.quad(lambda t: log_normalizer_derivatives(t, 1.0).d2_tau, 0.2, 0.9)
    ends = log_normalizer_derivatives(np.array([0.2, 0.9]), 1.0).d_tau
    np.testing.assert_allclose(area, ends[1] - ends[0], rtol=1e-12)
    area, _ = integrate.quad(lambda k: log_normalizer_derivatives(0.3, k).d_kappa, 0.0, 5.0)
    np.testing.assert_allclose(
        area, log_normalizer(0.3, 5.0) - log_normalizer(0.3, 0.0), rtol=1e-10
    )


def test_reflection_keeps_c_and_reverses_its_odd_derivatives():
    tau, kappa = np.array([0.25, 0.125, 0.0625]), np.array([[0.0], [0.3], [4.0], [900.0]])
    left, right = log_normalizer_derivatives(tau, kappa), log_normalizer_derivatives(1 - tau, kappa)
    np.testing.assert_array_equal(left.value, right.value)
    np.testing.assert_array_equal(left.d_tau, -right.d_tau)
    np.testing.assert_array_equal(left.d2_tau, right.d2_tau)
    np.testing.assert_array_equal(left.d_kappa, right.d_kappa)
    assert log_normalizer_derivatives(0.5, 1.0).d_tau == 0.0


def test_log_c_is_convex_in_tau_and_increasing_in_kappa():
    columns = reference_columns()
    result = log_normalizer_derivatives(columns["tau"], columns["kappa"])
    assert np.all(result.d2_tau >= 0)
    assert np.all(result.d_kappa > 0)


# ------------------------------------------------------------------------------ input


def test_parameters_broadcast():
    tau, kappa = np.array([0.2, 0.5, 0.7]), np.array([[0.0], [2.0]])
    result = log_normalizer_derivatives(tau, kappa)
    for quantity in result:
        assert quantity.shape == (2, 3)
    assert log_normalizer(tau, kappa).shape == (2, 3)
    assert log_normalizer(0.2, 2) == pytest.approx(result.value[1, 0], rel=1e-15)


@pytest.mark.parametrize(
    ("tau", "kappa", "message"),
    [
        (0.0, 1.0, r"tau must satisfy 0 < tau < 1, got 0\.0"),
        (np.nan, 1.0, r"tau must satisfy 0 < tau < 1, got nan"),
        (0.5, -1.0, r"kappa must satisfy 0 <= kappa < inf, got -1\.0"),
        (0.5, np.inf, r"kappa must satisfy 0 <= kappa < inf, got inf"),
        ("0.5", 1.0, r"tau must be a real number or an array of real numbers, got '0\.5'"),
        ([0.5, 0.5], [1.0, 1.0, 1.0], r"shapes must broadcast .* got tau \(2,\), kappa \(3,\)"),
    ],
)
def test_bad_parameters_are_named_with_what_is_allowed(tau, kappa, message):
    with pytest.raises(DomainError, match=message) as caught:
        log_normalizer(tau, kappa)
    assert isinstance(caught.value, QhregError)
    assert isinstance(caught.value, ValueError)
