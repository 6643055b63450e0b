"""At kappa = 0 a fit that starts at its vertex, and a search that remembers, give what others give."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import qhreg.solver.local
from qhreg.solver import solve
from qhreg.solver.local import Memory

pytestmark = pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")


def draw(seed, n=150):
    rng = np.random.default_rng(seed)
    exog = np.column_stack(
        [np.ones(n), rng.normal(size=n), np.eye(3)[rng.integers(0, 3, n)][:, 1:]]
    )
    noise = rng.gamma(2.0, size=n) if seed % 2 else rng.standard_t(3, size=n)
    return exog, exog.sum(axis=1) + noise, rng


@pytest.fixture
def searches(monkeypatch):
    """Fits that each search over tau makes."""
    made = []
    whole = qhreg.solver.local.branch_and_bound

    def counted(*args, **options):
        found = whole(*args, **options)
        made.append(found.n_fits)
        return found

    monkeypatch.setattr("qhreg.solver.local.branch_and_bound", counted)
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [{}, {"tau": 0.3}, {"sigma": 1.0}, {"weights": True}])
def test_a_start_at_the_vertex_changes_nothing(seed, options, monkeypatch):
    exog, endog, rng = draw(seed)
    if "weights" in options:
        options = {"weights": rng.integers(1, 4, 150)}
    quick = solve(exog, endog, kappa=0.0, **options)
    again = solve(exog, endog, kappa=0.0, start=quick, **options)
    monkeypatch.setattr("qhreg.solver.exact.unique_vertex", lambda *args: None)
    slow = solve(exog, endog, kappa=0.0, **options)
    for fit in (quick, again):
        assert fit.converged
        assert_allclose(fit.value, slow.value, rtol=1e-10)
        assert_allclose(fit.beta, slow.beta, atol=1e-8)
        assert_allclose([fit.tau, fit.sigma], [slow.tau, slow.sigma], rtol=1e-6)


def test_ties_are_fitted_at_the_same_corner_as_without_a_start(monkeypatch):
    exog, endog, _ = draw(0)
    endog = np.round(endog)
    quick = solve(exog, endog, kappa=0.0)
    monkeypatch.setattr("qhreg.solver.exact.unique_vertex", lambda *args: None)
    slow = solve(exog, endog, kappa=0.0)
    assert_allclose(quick.value, slow.value, rtol=1e-10)
    assert_allclose(quick.beta, slow.beta, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_that_remembers_another_response_needs_fewer_fits(seed, searches):
    exog, endog, rng = draw(seed)
    weights = rng.integers(1, 4, 150) if seed > 1 else None
    memory = Memory()
    solve(exog, endog, kappa=0.0, weights=weights, memory=memory)
    assert memory.points
    moved = endog - 0.02 * rng.normal(size=150)
    searches.clear()
    with_memory = solve(exog, moved, kappa=0.0, weights=weights, memory=memory)
    without = solve(exog, moved, kappa=0.0, weights=weights)
    assert searches[0] < searches[1]
    assert with_memory.searched
    assert not with_memory.doubtful
    assert_allclose(with_memory.value, without.value, rtol=1e-12)
    assert_allclose(with_memory.beta, without.beta, atol=1e-9)


def test_what_is_remembered_of_other_columns_proves_nothing(searches):
    exog, endog, rng = draw(0)
    memory = Memory()
    solve(exog, endog, kappa=0.0, memory=memory)
    other = exog + 0.01 * rng.normal(size=exog.shape)
    searches.clear()
    with_memory = solve(other, endog, kappa=0.0, memory=memory)
    without = solve(other, endog, kappa=0.0)
    assert searches[0] == searches[1]
    assert with_memory.value == without.value
    assert len(memory.points) <= qhreg.solver.local.REMEMBERED
    solve(exog[:-1], endog[:-1], kappa=0.0, memory=memory)  # nor of other rows
