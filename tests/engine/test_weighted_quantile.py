"""Quantiles of weighted values."""

from __future__ import annotations

import numpy as np
import pytest

from qhreg.engine.rows import weighted_quantiles

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
