"""The one pass over the data: derivatives, blocks, layouts, weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers import log_c, loss
from solver_data import regression

import qhreg._blocks
from qhreg.engine.likelihood import reduce_rows
from qhreg.engine.rows import ArrayRows
from qhreg.solver.newton import newton_step
from qhreg.solver.problem import Problem

TAU, KAPPA = 0.3, 0.7


def data(n=300, p=3):
    X, y = regression(n, p, seed=1)
    rng = np.random.default_rng(2)
    z = np.append(-np.linalg.lstsq(X, y, rcond=None)[0], 1.0) / 2.0
    return X, y, rng.integers(0, 4, n).astype(float), rng.standard_normal(n), z


def value(z, tau, X, y, w):
    u = z[-1] * y + X @ z[:-1]
    return float(w @ loss(u, tau, KAPPA) + w.sum() * (log_c(tau, KAPPA) - np.log(z[-1])))


def at(rows, z, tau, **options):
    return Problem(rows, rows.weight_sum, KAPPA).evaluate(z, tau, **options)


def test_the_value_is_the_weighted_sum_written_by_cases():
    X, y, w, _, z = data()
    assert at(ArrayRows(X, y, w), z, TAU).value == pytest.approx(value(z, TAU, X, y, w), rel=1e-13)


def test_the_gradient_is_the_derivative_of_the_value():
    X, y, w, _, z = data()
    here = at(ArrayRows(X, y, w), z, TAU)
    step = 1e-6
    for j in range(z.size):
        e = np.eye(z.size)[j] * step
        numeric = (value(z + e, TAU, X, y, w) - value(z - e, TAU, X, y, w)) / (2 * step)
        assert here.d_z[j] == pytest.approx(numeric, rel=1e-6, abs=1e-5)
    numeric = (value(z, TAU + step, X, y, w) - value(z, TAU - step, X, y, w)) / (2 * step)
    assert here.d_tau == pytest.approx(numeric, rel=1e-6)


def test_the_hessian_is_the_derivative_of_the_gradient_away_from_the_knots():
    X, y, w, _, z = data()
    rows = ArrayRows(X, y, w)
    here = at(rows, z, TAU)
    step = 1e-7  # no row crosses a knot
    for j in range(z.size):
        e = np.eye(z.size)[j] * step
        up, down = at(rows, z + e, TAU), at(rows, z - e, TAU)
        assert up.totals.rows_in_zone == down.totals.rows_in_zone
        numeric = (up.d_z - down.d_z) / (2 * step)
        np.testing.assert_allclose(here.d2_z[j], numeric, rtol=1e-5, atol=1e-4)
    up, down = at(rows, z, TAU + step), at(rows, z, TAU - step)
    np.testing.assert_allclose(here.d_z_tau, (up.d_z - down.d_z) / (2 * step), rtol=1e-5, atol=1e-4)
    assert here.d2_tau == pytest.approx((up.d_tau - down.d_tau) / (2 * step), rel=1e-5)


def test_the_offset_moves_the_response():
    X, y, w, offset, z = data()
    moved = reduce_rows(ArrayRows(X, y - offset, w), z, TAU, KAPPA)
    given_offset = reduce_rows(ArrayRows(X, y, w, offset), z, TAU, KAPPA)
    assert given_offset.loss == pytest.approx(moved.loss, rel=1e-14)
    np.testing.assert_allclose(given_offset.zone.gram, moved.zone.gram, rtol=1e-12)


@pytest.mark.parametrize("endog_apart", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_hessian_moved_from_another_point_is_the_new_one(weighted, endog_apart):
    X, y, w, _, z = data(n=9000)
    w = w if weighted else None
    rows = ArrayRows(X, y, w) if endog_apart else ArrayRows(np.column_stack([X, y]), None, w)
    zone = reduce_rows(rows, z, TAU, KAPPA).zone
    for change, tau in ((0.01, TAU + 0.01), (-0.02, TAU), (0.0, TAU), (0.9, 0.8)):
        there = z * (1.0 + change)
        moved = reduce_rows(rows, there, tau, KAPPA, since=zone)
        anew = reduce_rows(rows, there, tau, KAPPA)
        assert moved.rows_in_zone == anew.rows_in_zone
        np.testing.assert_allclose(moved.zone.gram, anew.zone.gram, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(moved.zone.outside, anew.zone.outside, rtol=1e-11, atol=1e-9)
        assert moved.zone.weight_outside == pytest.approx(anew.zone.weight_outside, rel=1e-13)
        for got, expected in zip(moved.zone.members, anew.zone.members, strict=True):
            np.testing.assert_array_equal(got, expected)
        zone = moved.zone


def test_the_slack_is_the_least_distance_of_psi_in_the_zone_from_its_bounds():
    X, y, w, _, z = data(n=5000)
    found = reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA, slack=True)
    psi = (z[-1] * y + X @ z[:-1]) / KAPPA
    inside = psi[(psi >= -TAU) & (psi <= 1.0 - TAU)]
    assert inside.size == found.rows_in_zone
    assert found.slack == pytest.approx(min(inside.min() + TAU, 1.0 - TAU - inside.max()), rel=1e-9)
    assert found.slack > 0.0
    assert reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA).slack == 0.0


def test_a_hessian_that_would_lose_its_digits_is_summed_anew():
    X = np.ones((100, 2))
    X[:, 1] = np.linspace(-1.0, 1.0, 100)
    X[7, 1] = 1e15
    y = np.zeros(100)
    rows = ArrayRows(X, y)
    all_in = reduce_rows(rows, np.array([0.0, 0.0, 1.0]), TAU, KAPPA).zone
    assert all_in.gram[1, 1] == 1e30
    without = reduce_rows(rows, np.array([0.0, 0.1, 1.0]), TAU, KAPPA, since=all_in)
    assert without.rows_in_zone == 99
    anew = reduce_rows(rows, np.array([0.0, 0.1, 1.0]), TAU, KAPPA)
    np.testing.assert_array_equal(without.zone.gram, anew.zone.gram)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layout_precision_and_read_only_arrays_do_not_matter(order, dtype):
    X, y, w, _, z = data()
    X, y = X.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    expected = reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA)
    other, endog = np.asarray(X, dtype=dtype, order=order), y.astype(dtype)
    for array in (other, endog):
        array.setflags(write=False)
    got = reduce_rows(ArrayRows(other, endog, w), z, TAU, KAPPA)
    assert got.loss == pytest.approx(expected.loss, rel=1e-12)
    np.testing.assert_allclose(got.zone.gram, expected.zone.gram, rtol=1e-12)
    np.testing.assert_allclose(got.slope, expected.slope, rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 1200))
def test_the_totals_do_not_depend_on_the_blocks(rows):
    X, y, w, _, z = data(n=1100)
    whole = reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qhreg._blocks, "BLOCK_ROWS", rows)
        split = reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA)
    assert split.loss == pytest.approx(whole.loss, rel=1e-12)
    assert split.rows_in_zone == whole.rows_in_zone
    np.testing.assert_allclose(split.zone.gram, whole.zone.gram, rtol=1e-11)
    np.testing.assert_allclose(split.zone.outside, whole.zone.outside, rtol=1e-11, atol=1e-9)


def test_integer_weights_are_repeated_rows():
    X, y, w, _, z = data()
    times = w.astype(int)
    weighted = reduce_rows(ArrayRows(X, y, w), z, TAU, KAPPA)
    repeated = reduce_rows(ArrayRows(np.repeat(X, times, 0), np.repeat(y, times)), z, TAU, KAPPA)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-13)
    assert weighted.zone.weight_outside == repeated.zone.weight_outside
    np.testing.assert_allclose(weighted.zone.gram, repeated.zone.gram, rtol=1e-12)
    np.testing.assert_allclose(weighted.zone.outside, repeated.zone.outside, rtol=1e-12)


def test_a_transform_changes_coordinates_only():
    X, y, w, _, z = data()
    rng = np.random.default_rng(3)
    M = np.triu(rng.standard_normal((4, 4))) + 4 * np.eye(4)
    rows = ArrayRows(X, y, w)
    plain = reduce_rows(rows, M @ z, TAU, KAPPA)
    mapped = reduce_rows(replace(rows, transform=M), z, TAU, KAPPA)
    assert mapped.loss == pytest.approx(plain.loss, rel=1e-12)
    np.testing.assert_allclose(mapped.zone.gram, M.T @ plain.zone.gram @ M, rtol=1e-10)


def test_the_derivatives_in_other_coordinates_follow_the_chain_rule():
    X, y, w, _, z = data()
    matrix = np.eye(z.size) + 0.1 * np.random.default_rng(3).standard_normal((z.size, z.size))
    matrix[-1, :-1] = 0.0
    rows, n = ArrayRows(X, y, w), float(w.sum())
    inner = np.linalg.solve(matrix, z)
    here = Problem(rows, n, KAPPA, matrix).evaluate(inner, TAU)
    raw = at(rows, z, TAU)
    constant = n * np.log(z[-1] / inner[-1])  # theta is that of the coordinates
    assert here.value == pytest.approx(raw.value + constant, rel=1e-13)
    np.testing.assert_allclose(here.d_z, matrix.T @ raw.d_z, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(here.d2_z, matrix.T @ raw.d2_z @ matrix, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(here.d_z_tau, matrix.T @ raw.d_z_tau, rtol=1e-9, atol=1e-7)
    assert here.totals.zone.gram == pytest.approx(raw.totals.zone.gram)


@pytest.mark.parametrize("k", [4, 3])
def test_the_joint_step_is_that_of_the_projected_function(k):
    X, y, w, _, z = data()
    now = at(ArrayRows(X, y, w), z, TAU)
    h, g = now.d_z_tau[:k], now.d_z[:k]
    projected = now.d2_z[:k, :k] - np.outer(h, h) / now.d2_tau
    dz = -np.linalg.solve(projected, g - h * now.d_tau / now.d2_tau)
    dtau = -(now.d_tau + h @ dz) / now.d2_tau
    found = newton_step(now, (-1.0, 1.0), float(w.sum()), k)
    np.testing.assert_allclose(found[0], dz, rtol=1e-9)
    assert found[1] == pytest.approx(dtau, rel=1e-9)
