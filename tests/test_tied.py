"""Data in which many rows are interpolated at once: zeros, counts, rounded values."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linprog

import qhreg
import qhreg.solver.exact
import qhreg.solver.tied
from qhreg.exceptions import CurvatureWarning
from qhreg.solver import DEFAULT_TAU_BOUNDS, solve, task_of
from qhreg.solver.inputs import rows_of
from qhreg.solver.preparation import set_up
from qhreg.solver.tied import crowded, tied_fit


def zeros(rng, n):
    """Half of the responses are zero."""
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return X, np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n))


def rounded(rng, n):
    """Noise in tenths: thousands of rows on one plane, and on its neighbours."""
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return X, X.sum(axis=1) + np.round(rng.standard_normal(n), 1)


def dummies(rng, n):
    """Counts in four groups."""
    group = rng.integers(0, 4, n)
    return (group[:, None] == np.arange(4)).astype(float), rng.poisson(1.0 + group).astype(float)


MAKERS = [zeros, rounded, dummies]


def quantile_objective(X, y, tau, weights):
    """Return the least quantile loss by linear programming."""
    n, p = X.shape
    cost = np.concatenate([np.zeros(p), (1.0 - tau) * weights, tau * weights])
    design = np.hstack([X, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * p + [(0.0, None)] * (2 * n)
    return linprog(cost, A_eq=design, b_eq=y, bounds=bounds, method="highs").fun


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("tau", [0.1, 0.45, 0.8])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_vertex_of_tied_rows_is_that_of_a_linear_program(make, tau, weighted, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = make(rng, 1500)
    w = rng.integers(1, 4, y.size).astype(float) if weighted else np.ones(y.size)
    expected = quantile_objective(X, y, tau, w)
    monkeypatch.setattr(qhreg.solver.exact, "LEAST_UNDECIDED", 50)
    fit = solve(X, y, kappa=0.0, tau=tau, sigma=1.0, weights=w if weighted else None)
    u = y - X @ fit.beta
    loss = w @ np.where(u > 0.0, (1.0 - tau) * u, -tau * u)
    assert fit.converged
    assert loss == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("make", [zeros, rounded])
@pytest.mark.parametrize("sigma", [None, 2.0])
@pytest.mark.parametrize("tau", [0.55, 0.75])
def test_tied_rows_need_no_variables_of_their_own(make, sigma, tau, monkeypatch):
    """The fit of the narrow zone proves the vertex; the interior-point method is not asked."""

    def fail(*args, **options):
        raise AssertionError

    X, y = make(np.random.default_rng(2), 20_000)
    setup = set_up(rows_of(X, y, None, None), task_of(0.0, tau, sigma, DEFAULT_TAU_BOUNDS))
    problem, start = setup.problem, setup.start[0]
    with monkeypatch.context() as without:
        without.setattr(qhreg.solver.exact, "tied_fit", lambda *args, **options: None)
        exact = qhreg.solver.exact.exact_fit(problem, tau, start, warm=False)
    monkeypatch.setattr(qhreg.solver.exact, "interior_point", fail)
    fit = qhreg.solver.exact.exact_fit(problem, tau, start, warm=False, keep=True)
    assert crowded(problem, tau, fit.z)
    assert fit.proved(problem.n)
    assert exact.dual.value - 1e-9 <= fit.value <= exact.value + 1e-9
    assert fit.excess == pytest.approx(exact.excess, rel=1e-8, abs=1e-6 * y.size)
    v = np.concatenate(list(fit.dual.kept.pieces()))
    assert -tau - 1e-12 <= v.min() <= v.max() <= 1.0 - tau + 1e-12
    np.testing.assert_allclose(v @ X / y.size, 0.0, atol=1e-12)


def test_few_ties_are_left_to_the_interior_point_method():
    rng = np.random.default_rng(3)
    X, y = np.column_stack([np.ones(5000), rng.standard_normal(5000)]), rng.laplace(size=5000)
    setup = set_up(rows_of(X, y, None, None), task_of(0.0, 0.3, None, DEFAULT_TAU_BOUNDS))
    z = qhreg.solver.exact.exact_fit(setup.problem, 0.3, setup.start[0], warm=False).z
    assert not crowded(setup.problem, 0.3, z)
    assert tied_fit(setup.problem, 0.3, z) is None


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("make", [zeros, rounded])
@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("tau", [None, 0.3])
def test_tied_data_take_little_memory(make, kappa, tau):
    """At most 0.3 of the regressors and a fixed quarter of a megabyte."""
    X, y = make(np.random.default_rng(4), 40_000)
    solve(X, y, kappa=kappa, tau=tau)  # what is loaded once is not counted
    tracemalloc.start()
    solve(X, y, kappa=kappa, tau=tau)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 0.3 * X.nbytes + 2**18


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_zero_coefficients_are_shown_as_zero():
    X, y = zeros(np.random.default_rng(5), 300)
    fit = qhreg.QuantileHuberMLE(y, X, kappa=0.0).fit()
    assert not np.signbit(fit.params[fit.params == 0.0]).any()
    with pytest.warns(CurvatureWarning, match="fewer than its 3 coefficients"):
        assert "-0.0000" not in str(fit.summary().tables[0])
