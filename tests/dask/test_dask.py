"""The fit of rows on Dask: the fit of the same rows in arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from solver_data import regression

from qhreg import QuantileHuberMLE
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.solver import solve

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")

from qhreg.dask import fit, quantile_huber  # noqa: E402


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def on_dask(array, sizes):
    chunks = (tuple(sizes),) if array.ndim == 1 else (tuple(sizes), (array.shape[1],))
    return da.from_array(array, chunks=chunks)


def data(n=60_000, p=4, seed=1):
    X, y = regression(n, p, seed=seed)
    return X, y, (n // 2, n // 3, n - n // 2 - n // 3)


def assert_same(found, expected, rtol=1e-7):
    np.testing.assert_allclose(found.solution.beta, expected.beta, rtol=rtol, atol=1e-8)
    assert found.sigma == pytest.approx(expected.sigma, rel=rtol)
    assert found.tau == pytest.approx(expected.tau, rel=rtol)
    assert found.llf == pytest.approx(expected.loglike, rel=1e-12)
    assert found.converged
    assert found.duality_gap <= 1e-9 * expected.n


@pytest.mark.parametrize("kappa", [1.0, 0.05])
@pytest.mark.parametrize("fixed", [{}, {"tau": 0.4}, {"sigma": 0.7}, {"tau": 0.4, "sigma": 0.7}])
def test_the_fit_is_that_of_the_same_rows_in_arrays(kappa, fixed):
    X, y, sizes = data()
    found = fit(on_dask(X, sizes), on_dask(y, sizes), kappa=kappa, **fixed)
    assert_same(found, solve(X, y, kappa=kappa, **fixed))


@pytest.mark.parametrize("tau", [0.3, None])
def test_the_exact_fit_is_too(tau):
    X, y, sizes = data()
    found = fit(on_dask(X, sizes), on_dask(y, sizes), kappa=0.0, tau=tau)
    assert_same(found, solve(X, y, kappa=0.0, tau=tau))


def test_an_estimated_width_is_that_of_the_same_rows_in_arrays():
    X, y, sizes = data(n=6000, p=3)
    model = QuantileHuberMLE(y, X, kappa=None).fit()
    found = fit(on_dask(X, sizes), on_dask(y, sizes), kappa=None)
    np.testing.assert_allclose(found.params, model.params, rtol=1e-5)


def test_small_data_are_gathered():
    X, y, sizes = data(n=120, p=2)
    found = fit(on_dask(X, sizes), on_dask(y, sizes))
    assert_same(found, solve(X, y))


def test_weights_and_offset_are_those_of_the_rows():
    X, y, sizes = data()
    rng = np.random.default_rng(3)
    w = rng.integers(0, 4, y.size).astype(float)
    w[: sizes[0]] = 0.0  # a partition without weight
    offset = rng.normal(size=y.size)
    given = {"freq_weights": on_dask(w, sizes), "offset": on_dask(offset, sizes)}
    found = fit(on_dask(X, sizes), on_dask(y, sizes), **given)
    assert_same(found, solve(X, y, weights=w, offset=offset))
    assert found.nobs == w.sum()


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_the_unit_of_the_response_does_not_matter(unit):
    X, y, sizes = data()
    found = fit(on_dask(X, sizes), on_dask(unit * y, sizes))
    plain = fit(on_dask(X, sizes), on_dask(y, sizes))
    np.testing.assert_allclose(found.solution.beta / unit, plain.solution.beta, rtol=1e-7)


def test_collinear_and_dependent_columns_are_fitted_as_in_arrays():
    X, y, sizes = data(p=3)
    nearly = np.column_stack([X, X[:, 1] + 1e-9 * X[:, 2] ** 2])
    found = fit(on_dask(nearly, sizes), on_dask(y, sizes))
    assert found.llf == pytest.approx(solve(nearly, y).loglike, rel=1e-10)
    twice = np.column_stack([X, X[:, 1]])
    with pytest.warns(RankWarning, match="x4"):
        found = fit(on_dask(twice, sizes), on_dask(y, sizes))
    with pytest.warns(RankWarning):
        expected = solve(twice, y)
    np.testing.assert_allclose(found.solution.beta, expected.beta, rtol=1e-6, atol=1e-8)


def test_the_numbers_are_those_of_the_model():
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=["const", "a", "b", "c"]).assign(y=y)
    parts = dd.from_pandas(frame, npartitions=3)
    found = fit(parts[["const", "a", "b", "c"]], parts["y"])
    model = QuantileHuberMLE(frame["y"], frame[["const", "a", "b", "c"]]).fit()
    pd.testing.assert_series_equal(found.params, model.params, rtol=1e-7)
    pd.testing.assert_series_equal(found.bse, model.bse, rtol=1e-6)
    np.testing.assert_allclose(found.conf_int(0.1), model.conf_int(0.1), rtol=1e-6)
    for name in ("llf", "aic", "bic", "nobs", "quantile_level"):
        assert getattr(found, name) == pytest.approx(getattr(model, name), rel=1e-9)
    np.testing.assert_allclose(found.tvalues.drop("sigma"), model.tvalues.drop("sigma"), rtol=1e-5)
    assert found.t_test("a = b").pvalue == pytest.approx(model.t_test("a = b").pvalue, rel=1e-5)
    assert str(found.summary()).count("\n") == str(model.summary()).count("\n")


@pytest.mark.parametrize("kappa", [0.05, 4.0])
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1", "HC2", "HC3"])
def test_standard_errors_are_those_of_the_same_rows_in_arrays(cov_type, kappa):
    X, y, sizes = data()
    counts = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    found = fit(
        on_dask(X, sizes),
        on_dask(y, sizes),
        kappa=kappa,
        cov_type=cov_type,
        freq_weights=on_dask(counts, sizes),
    )
    model = QuantileHuberMLE(y, X, kappa=kappa, freq_weights=counts).fit(cov_type=cov_type)
    np.testing.assert_allclose(found.bse, model.bse, rtol=1e-5)
    assert found.df_resid == model.df_resid
    assert found.cov_type == cov_type


def test_covariances_that_need_the_rows_together_are_refused():
    X, y, sizes = data(n=300)
    with pytest.raises(DomainError, match="cov_type='HAC' needs the rows in memory"):
        fit(on_dask(X, sizes), on_dask(y, sizes), cov_type="HAC")


def test_a_tau_on_its_bound_has_no_standard_error():
    X, _, sizes = data(p=2)
    y = X @ [1.0, 2.0] + np.random.default_rng(0).exponential(size=X.shape[0])
    with pytest.warns(BoundaryWarning):
        found = fit(on_dask(X, sizes), on_dask(y, sizes))
    assert np.isnan(found.bse["tau"])
    assert np.isfinite(found.bse.drop("tau")).all()


def test_partitions_that_are_not_kept_give_the_same_fit():
    X, y, sizes = data()
    once = fit(on_dask(X, sizes), on_dask(y, sizes))
    again = fit(on_dask(X, sizes), on_dask(y, sizes), persist=False)
    np.testing.assert_array_equal(again.params, once.params)


def test_what_cannot_be_fitted_is_named():
    X, y, sizes = data(n=3000)
    with pytest.raises(DataError, match="endog must be a Dask array"):
        fit(on_dask(X, sizes), y)
    with pytest.raises(DataError, match="endog has 1 partitions, exog has 3"):
        fit(on_dask(X, sizes), on_dask(y, (3000,)))
    with pytest.raises(DataError, match="two-dimensional"):
        fit(on_dask(y, sizes), on_dask(y, sizes))
    with pytest.raises(DataError, match="'tau'"):
        fit(on_dask(X, sizes), on_dask(y, sizes), names=["a", "b", "c", "tau"])
    with pytest.raises(DataError, match="names has 1 entries"):
        fit(on_dask(X, sizes), on_dask(y, sizes), names=["a"])
    with pytest.raises(DataError, match="different names, got a, a, b, c"):
        fit(on_dask(X, sizes), on_dask(y, sizes), names=["a", "a", "b", "c"])
    with pytest.raises(DataError, match="persist must be True, False or 'auto'"):
        fit(on_dask(X, sizes), on_dask(y, sizes), persist="yes")
    with pytest.raises(DataError, match="data must be a Dask DataFrame"):
        quantile_huber("y ~ x", on_dask(X, sizes))
    with pytest.raises(DataError, match="no rows with positive weight"):
        fit(on_dask(X, sizes), on_dask(y, sizes), freq_weights=on_dask(0.0 * y, sizes))
    holes = y.copy()
    holes[[5, 2500]] = np.nan
    with pytest.raises(DataError, match=r"partition [02]: missing values in endog"):
        fit(on_dask(X, sizes), on_dask(holes, sizes))


def test_columns_that_are_no_numbers_and_missing_values_are_named_with_their_partition():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"one": 1.0, "x": rng.normal(size=90), "g": rng.choice(list("ab"), 90)})
    frame["kind"] = frame.g.astype("category")
    frame["gap"] = pd.array(rng.normal(size=90), dtype="Float64")
    frame.loc[3, "gap"] = pd.NA
    frame["y"] = frame.x + rng.laplace(size=90)
    spread = dd.from_pandas(frame, npartitions=3)
    for column in ("g", "kind"):
        with pytest.raises(DataError, match=f"partition .: column {column!r} holds text"):
            fit(spread[["one", "x", column]], spread.y)
    with pytest.raises(DataError, match="partition 0: missing values in gap"):
        fit(spread[["one", "gap"]], spread.y)
    with pytest.raises(DataError, match=r"partition .: column 'endog' holds text"):
        fit(spread[["one", "x"]], spread.g)
    with pytest.raises(DataError, match=r"partition .: freq_weights must be numeric"):
        fit(spread[["one", "x"]], spread.y, freq_weights=spread.g)


def test_rows_of_frames_are_matched_by_label():
    X, y = regression(200, 2, seed=1)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    rows = dd.from_pandas(frame, npartitions=2)
    shuffled = dd.from_pandas(frame.sample(frac=1.0, random_state=0), npartitions=2, sort=False)
    assert_same(fit(rows[["a", "b"]], rows["y"]), solve(X, y))
    assert_same(fit(rows[["a", "b"]], shuffled["y"]), solve(X, y))


def test_standard_errors_of_many_equal_responses_are_those_of_arrays():
    X, y, sizes = data(n=6000)
    y = np.where(np.arange(6000) % 3 > 0, X @ np.ones(4), np.round(y))  # most rows on one line
    found = fit(on_dask(X, sizes), on_dask(y, sizes), tau=0.5)
    model = QuantileHuberMLE(y, X, tau=0.5).fit()
    np.testing.assert_allclose(found.bse, model.bse, rtol=1e-4)


def test_predictions_of_columns_lie_where_the_rows_do():
    X, y, sizes = data(n=3000, p=3)
    results = fit(on_dask(X, sizes), on_dask(y, sizes))
    expected = X @ results.params[:3].to_numpy()
    np.testing.assert_allclose(results.predict(X), expected)
    spread = results.predict(on_dask(X, sizes))
    assert spread.chunks == (sizes,)
    np.testing.assert_allclose(spread.compute(), expected)
    restored = pickle.loads(pickle.dumps(results))
    np.testing.assert_array_equal(restored.cov_params(), results.cov_params())
