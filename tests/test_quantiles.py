"""Quantiles of weighted values."""

from __future__ import annotations

import numpy as np
import pytest

from qhreg.engine import weighted_quantile as quantiles
from qhreg.engine.weighted_quantile import weighted_quantiles

LEVELS = [0.0, 1e-4, 0.25, 0.5, 0.75, 0.9999, 1.0]


@pytest.mark.parametrize("n", [1, 2, 7, 100, 30_000])
@pytest.mark.parametrize("kind", ["smooth", "tied", "sorted", "constant"])
def test_weights_are_repeated_values(n, kind):
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n)
    if kind == "tied":
        values = np.round(values)
    elif kind == "sorted":
        values.sort()
    elif kind == "constant":
        values[:] = 3.0
    weights = rng.integers(1, 4, n).astype(float)
    given = values.copy()
    found = weighted_quantiles(values, LEVELS, weights)
    assert found == weighted_quantiles(np.repeat(values, weights.astype(int)), LEVELS, None)
    np.testing.assert_array_equal(values, given)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["even", "one heavy", "zeros", "trend"])
def test_a_look_at_the_values_near_by_is_a_sort_of_all(level, kind, monkeypatch):
    rng = np.random.default_rng(1)
    values, weights = rng.standard_cauchy(25_000), rng.uniform(0.1, 3.0, 25_000)
    if kind == "one heavy":
        weights[77] = 1e9
    elif kind == "zeros":
        weights[rng.random(25_000) < 0.9] = 0.0
    elif kind == "trend":  # evenly spaced values are not like the others
        weights[::6] = 1e-6
    found = weighted_quantiles(values, [level], weights)
    monkeypatch.setattr(quantiles, "MANY", values.size)
    assert found == weighted_quantiles(values, [level], weights)
