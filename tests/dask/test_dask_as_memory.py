"""The fit of a formula on Dask is the fit of the same rows in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from stream_data import NOISE, cut, frame

from qhreg import QuantileHuberMLE
from qhreg.exceptions import DataError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

from qhreg.dask import quantile_huber  # noqa: E402

FORMULAS = (
    "y ~ x1 + x2",
    "y ~ x1 + C(region)",
    "y ~ x1 * region + C(year)",
    "y ~ np.exp(x1 / 9) + np.log(x2 + 1)",
    "y ~ C(region) - 1",
)
OPTIONS = (
    {},
    {"weights": "share"},
    {"freq_weights": "count"},
    {"offset": "known"},
    {"weights": "prob", "offset": "known"},
    {"kappa": 0.3, "weights": "share"},
)
PROBLEMS = list(zip(range(30), itertools.cycle(FORMULAS), itertools.cycle(NOISE), strict=False))


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def partitions(data, pieces=3):
    """Return the rows on Dask, in partitions of unequal sizes."""
    return dd.from_delayed([dask.delayed(part) for part in cut(data, pieces)], meta=data.iloc[:0])


@pytest.mark.parametrize(("seed", "formula", "noise"), PROBLEMS)
def test_thirty_problems(seed, formula, noise):
    data, options = frame(seed, n=2500 + 37 * seed, noise=noise), OPTIONS[seed // 5]
    spread = quantile_huber(formula, partitions(data), **options).fit()
    memory = QuantileHuberMLE.from_formula(formula, data, **options).fit()
    assert spread.converged
    np.testing.assert_allclose(spread.params, memory.params, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(spread.bse, memory.bse, rtol=1e-6)
    for cov_type, kwds in (("HC0", {}), ("cluster", {"groups": "firm"})):
        errors = [fit.get_robustcov_results(cov_type, **kwds).bse for fit in (spread, memory)]
        np.testing.assert_allclose(*errors, rtol=1e-6)
    for name in ("llf", "aic", "nobs", "df_resid"):
        assert getattr(spread, name) == pytest.approx(getattr(memory, name), rel=1e-9)


def test_a_transform_that_remembers_all_rows_is_named():
    with pytest.raises(DataError, match=r"center\(x1\) remembers numbers of all rows"):
        quantile_huber("y ~ center(x1)", partitions(frame(0))).fit()
