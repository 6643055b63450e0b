"""What a fit of a stream says."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from stream_data import batches, files, frame

pytest.importorskip("pyarrow")

from qhreg import QuantileHuberMLE
from qhreg.exceptions import DataError, DomainError
from qhreg.results import QuantileHuberResults
from qhreg.stream import quantile_huber

FORMULA = "y ~ x1 + C(region)"


@pytest.fixture(scope="module")
def data():
    return frame(2)


@pytest.fixture(scope="module")
def fit(data):
    return quantile_huber(FORMULA, batches(data)).fit()


@pytest.fixture(scope="module")
def memory(data):
    return QuantileHuberMLE.from_formula(FORMULA, data).fit()


def lines(summary):
    """Return the text without the model's name, the time, and the gap, which is rounding."""
    left_out = ("Model:", "Time:", "Date:", "Proved:")
    return [line for line in str(summary).splitlines() if not line.startswith(left_out)]


def test_summary(fit, memory):
    assert lines(fit.summary()) == lines(memory.summary())
    assert "StreamModel" in str(fit.summary2())


def test_tests(fit, memory):
    for test in ("t_test", "wald_test"):
        left, right = (getattr(each, test)("x1 = 1, tau = 0.5") for each in (fit, memory))
        np.testing.assert_allclose(left.pvalue, right.pvalue, rtol=1e-6)
    left, right = (each.wald_test_terms().table["pvalue"] for each in (fit, memory))
    np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-6, atol=1e-300)


def test_likelihood_ratio(data, fit, memory):
    small = quantile_huber("y ~ x1", batches(data)).fit()
    inner = QuantileHuberMLE.from_formula("y ~ x1", data).fit()
    found, known = fit.lr_test(small), memory.lr_test(inner)
    assert found.statistic == pytest.approx(known.statistic, rel=1e-7)
    assert found.df == known.df == 2


def test_profile_intervals(fit, memory):
    limits = [
        each.conf_int(method="profile", cols=["x1", "tau", "sigma"]) for each in (fit, memory)
    ]
    np.testing.assert_allclose(*limits, rtol=1e-6)


def test_certificate(fit, memory):
    certificate, known = fit.certify_global(), memory.certify_global()
    assert certificate.holds
    assert certificate.tau == pytest.approx(known.tau, rel=1e-6)
    with pytest.raises(DomainError, match="tau is fixed"):
        quantile_huber(FORMULA, batches(frame(2)), tau=0.5).fit().certify_global()


def test_search_proves_the_optimum(data):
    assert quantile_huber(FORMULA, batches(data)).fit(search=True).solution.certified


def test_predictions_of_a_table(data, fit, memory):
    some = data.head(7)
    pd.testing.assert_series_equal(fit.predict(some), memory.predict(some))
    interval = fit.get_prediction(some, which="median").conf_int()
    np.testing.assert_allclose(interval, memory.get_prediction(some, which="median").conf_int())


def test_predictions_batch_by_batch(data, fit, memory, tmp_path):
    pattern = files(data.drop(columns="y"), tmp_path)
    for source in (None, pattern, batches(data)):
        parts = list(fit.predict(source, which="quantile", q=0.9))
        assert len(parts) == 5
        every = np.concatenate(parts)
        np.testing.assert_allclose(every, memory.predict(which="quantile", q=0.9), rtol=1e-7)


def test_an_offset_is_read_for_predictions(data):
    fit = quantile_huber("y ~ x1", batches(data), offset="known").fit()
    memory = QuantileHuberMLE.from_formula("y ~ x1", data, offset="known").fit()
    np.testing.assert_allclose(np.concatenate(list(fit.predict())), memory.predict(), rtol=1e-6)


def test_pickling(data, tmp_path):
    fit = quantile_huber("y ~ center(x1) + np.log(x2 + 1)", files(data, tmp_path)).fit()
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.params, fit.params)
    np.testing.assert_allclose(
        again.get_robustcov_results("HC1").bse.sum(), fit.bse.sum(), rtol=0.01
    )
    np.testing.assert_array_equal(again.predict(data.head()), fit.predict(data.head()))


def test_to_local_is_free_of_the_source(fit, data):
    local = pickle.loads(pickle.dumps(fit.to_local()))  # the source, a closure, cannot be pickled
    assert type(local._results) is QuantileHuberResults
    assert lines(local.summary()) == lines(fit.summary())
    np.testing.assert_array_equal(local.predict(data.head()), fit.predict(data.head()))
    with pytest.raises(DataError, match="removed"):
        local.get_robustcov_results("HC0")


@pytest.mark.parametrize(
    "name", ["resid", "fittedvalues", "bootstrap", "get_influence", "plot_qq", "test_symmetry"]
)
def test_what_looks_at_rows_says_what_to_use(fit, name):
    with pytest.raises(AttributeError, match=f"{name} is not offered: .{{10}}"):
        getattr(fit, name)
    assert name not in dir(fit._results)


@pytest.mark.parametrize(
    ("cov_type", "options", "said"),
    [
        ("HAC", None, "HAC.*in memory"),
        ("bootstrap", None, "bootstrap.*in memory"),
        ("cluster", None, "name of a column"),
        ("cluster", {"groups": np.arange(3)}, "name of a column"),
        ("HC4", None, "cov_type must be one of"),
        ("HC3", {"groups": "firm"}, "groups"),
    ],
)
def test_covariances_that_sums_do_not_carry(data, cov_type, options, said):
    with pytest.raises(DomainError, match=said):
        quantile_huber(FORMULA, batches(data)).fit(cov_type, cov_kwds=options)


def test_sampling_weights_have_no_nonrobust_covariance(data):
    with pytest.raises(DomainError, match="sampling weights"):
        quantile_huber(FORMULA, batches(data), weights="prob").fit("nonrobust")


def test_warnings_of_the_data(data):
    with pytest.warns(match="3 rows for 2 coefficients"):
        quantile_huber("y ~ x1", batches(data.head(3), 1)).fit()
    zeros = data.assign(y=data["y"].where(data["x2"] > 2.0, 0.0))
    with pytest.warns(match="responses equal 0"):
        quantile_huber("y ~ x1", batches(zeros)).fit()


def test_progress_is_shown_for_every_pass(data, capsys):
    pytest.importorskip("tqdm")
    quantile_huber("y ~ x1", batches(data)).fit(progress=True)
    assert "pass" in capsys.readouterr().err
