"""The fit of a stream is the fit of the same rows in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from stream_data import NOISE, batches, frame

from qhreg import QuantileHuberMLE
from qhreg.stream import quantile_huber

FORMULAS = (
    "y ~ x1 + x2",
    "y ~ x1 + C(region)",
    "y ~ x1 * region + C(year)",
    "y ~ center(x1) + np.log(x2 + 1)",
    "y ~ C(region) - 1",
    "y ~ bs(x1, df=4)",
)
OPTIONS = (
    {},
    {"weights": "share"},
    {"freq_weights": "count"},
    {"offset": "known"},
    {"weights": "prob", "offset": "known"},
)
PROBLEMS = list(zip(range(30), itertools.cycle(FORMULAS), itertools.cycle(NOISE), strict=False))


def both(formula, data, cov_type="HC3", cov_kwds=None, **options):
    stream = quantile_huber(formula, batches(data, 3), **options).fit(cov_type, cov_kwds=cov_kwds)
    memory = QuantileHuberMLE.from_formula(formula, data, **options)
    return stream, memory.fit(cov_type=cov_type, cov_kwds=cov_kwds)


def assert_same(stream, memory, rtol=1e-6):
    np.testing.assert_allclose(stream.params, memory.params, rtol=0.1 * rtol, atol=0.1 * rtol)
    assert list(stream.params.index) == list(memory.params.index)
    np.testing.assert_allclose(stream.bse, memory.bse, rtol=rtol)
    assert stream.converged


@pytest.mark.parametrize(("seed", "formula", "noise"), PROBLEMS)
def test_thirty_problems(seed, formula, noise):
    data = frame(seed, n=2500 + 37 * seed, noise=noise)
    stream, memory = both(formula, data, **OPTIONS[seed // 6])
    assert_same(stream, memory)
    for cov_type in ("HC0", "HC2"):
        errors = (fit.get_robustcov_results(cov_type).bse for fit in (stream, memory))
        np.testing.assert_allclose(*errors, rtol=1e-6)
    for groups in ("firm", ["firm", "town"]):
        clustered = [
            fit.get_robustcov_results("cluster", groups=groups) for fit in (stream, memory)
        ]
        np.testing.assert_allclose(*(fit.bse for fit in clustered), rtol=1e-6)
        assert clustered[0].df_resid_inference == clustered[1].df_resid_inference
    for name in ("llf", "aic", "bic", "nobs", "df_resid", "df_model", "llnull", "llr"):
        assert getattr(stream, name) == pytest.approx(getattr(memory, name), rel=1e-9)
    for name in ("prsquared", "share_below", "tic", "gbic", "llf_restricted"):
        assert getattr(stream, name) == pytest.approx(getattr(memory, name), rel=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"kappa": 0.3},
        {"kappa": 0.0, "tau": 0.3},
        {"kappa": 0.0},
        {"tau": 0.5},
        {"sigma": 1.0},
        {"kappa": None},
        {"tau": 0.4, "sigma": 0.5},
    ],
)
def test_what_is_fixed_and_what_is_estimated(options):
    # the curvature in kappa is small: the last digits of the estimate are rounding of the likelihood,
    # and its standard error moves with them
    rtol = 1e-5 if options.get("kappa", 4.0) is None else 1e-6
    assert_same(*both("y ~ x1 + region", frame(11, noise="t5"), **options), rtol=rtol)


@pytest.mark.parametrize("n", [40, 400])
def test_few_rows(n):
    assert_same(*both("y ~ x1 + region", frame(3, n=n)))


def test_maximum_likelihood():
    data = frame(4)
    stream = quantile_huber("y ~ x1", batches(data)).fit(reml=False)
    memory = QuantileHuberMLE.from_formula("y ~ x1", data).fit(reml=False)
    assert_same(stream, memory)
    assert stream.reml is False


def test_nonrobust():
    assert_same(*both("y ~ x1 + C(region)", frame(5), cov_type="nonrobust"))


def test_the_cut_into_batches_does_not_matter():
    data = frame(6)
    one, many = (quantile_huber("y ~ x1 + region", batches(data, k)).fit() for k in (1, 90))
    np.testing.assert_allclose(many.params, one.params, rtol=1e-9)
    np.testing.assert_allclose(many.bse, one.bse, rtol=1e-9)


def test_a_rare_level_and_dependent_columns():
    data = frame(8)
    data["region"] = data["region"].astype(object)
    data.loc[2999, "region"] = "west"  # a level in the last batch only
    data["twice"] = 2.0 * data["x1"]
    with pytest.warns(match="rank"):
        stream, memory = both("y ~ x1 + twice + region", data)
    with pytest.warns(match="determine"):
        assert_same(stream, memory)
