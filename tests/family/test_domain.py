"""The parameter domains: what passes, what does not, and what the message says."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from qhreg.exceptions import DomainError, QhregError
from qhreg.family.domain import check_broadcast, check_kappa, check_real, check_sigma, check_tau

TINY, ALMOST_ONE, HUGE = 5e-324, np.nextafter(1.0, 0.0), np.finfo(float).max


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (check_tau, [TINY, 0.5, ALMOST_ONE]),
        (check_kappa, [0.0, TINY, 1.0, HUGE]),
        (check_sigma, [TINY, 1.0, HUGE]),
    ],
)
def test_the_whole_domain_passes_unchanged(check, values):
    for value in values:
        assert check(value) == value
    np.testing.assert_array_equal(check(values), values)


@pytest.mark.parametrize(
    ("check", "allowed", "values"),
    [
        (check_tau, "tau must satisfy 0 < tau < 1", [0.0, 1.0, -0.5, 2.0, np.nan, np.inf, -np.inf]),
        (
            check_kappa,
            "kappa must satisfy 0 <= kappa < inf",
            [-TINY, -1.0, np.nan, np.inf, -np.inf],
        ),
        (check_sigma, "sigma must satisfy 0 < sigma < inf", [0.0, -1.0, np.nan, np.inf, -np.inf]),
    ],
)
def test_values_outside_are_shown_with_what_is_allowed(check, allowed, values):
    for value in values:
        for given in (value, np.float64(value), np.array([0.5, value])):
            with pytest.raises(DomainError) as caught:
                check(given)
            assert str(caught.value) == f"{allowed}, got {value!r}"
            assert isinstance(caught.value, QhregError)
            assert isinstance(caught.value, ValueError)


def test_several_values_outside_are_counted():
    with pytest.raises(DomainError, match=r"got 1\.5 \(2 values outside\)$"):
        check_tau([0.5, 1.5, 2.5])


@pytest.mark.parametrize("check", [check_tau, check_kappa, check_sigma])
@pytest.mark.parametrize(
    "value",
    ["0.5", "half", ["0.5"], None, [None], 0.5j, [0.5j], True, [True], [[0.5], [0.5, 0.5]], {}],
)
def test_what_is_no_real_number_is_refused(check, value):
    with pytest.raises(DomainError, match="must be a real number or an array of real numbers, got"):
        check(value)


def test_an_integer_too_large_for_a_float_is_refused():
    with pytest.raises(DomainError, match="kappa must be a real number"):
        check_kappa(10**400)


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(DomainError) as caught:
        check_real("r", "x" * 1000)
    assert len(str(caught.value)) < 160


@pytest.mark.parametrize("value", [1, np.int64(1), np.float32(1), Fraction(1), Decimal(1)])
def test_numbers_of_every_kind_become_floats(value):
    checked = check_sigma(value)
    assert type(checked) is float
    assert checked == 1.0


def test_arrays_and_series_become_float_arrays():
    for value in ([1, 2], (1, 2), np.array([1, 2]), pd.Series([1, 2]), [Fraction(1), Decimal(2)]):
        checked = check_sigma(value)
        assert isinstance(checked, np.ndarray)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1.0, 2.0])


def test_residuals_may_be_nan_or_infinite():
    np.testing.assert_array_equal(check_real("r", [np.nan, np.inf]), [np.nan, np.inf])


def test_common_shape_is_returned():
    assert check_broadcast(r=np.ones((3, 1)), tau=np.ones(4), kappa=1.0) == (3, 4)


def test_shapes_that_do_not_broadcast_are_listed():
    with pytest.raises(DomainError) as caught:
        check_broadcast(r=np.ones(3), tau=np.ones(2), kappa=1.0)
    expected = "shapes must broadcast to a common shape, got r (3,), tau (2,), kappa ()"
    assert str(caught.value) == expected
