"""Boosting of rows on Dask: the fit of the same rows in memory, on any number of workers."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("lightgbm")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

import pandas as pd  # noqa: E402

from qhreg import QuantileHuberBoostingRegressor as LocalRegressor  # noqa: E402
from qhreg.dask import QuantileHuberBoostingRegressor  # noqa: E402
from qhreg.dask.boosting import Place, WorkerPool, drawn_rows, free_port  # noqa: E402
from qhreg.exceptions import DataError, DomainError  # noqa: E402

OPTIONS = {"threads_per_worker": 1, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def two_workers():
    with (
        distributed.LocalCluster(n_workers=2, **OPTIONS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def one_worker():
    return distributed.Client(n_workers=1, processes=False, **OPTIONS)


def additive(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.exponential(size=n)


def on_dask(*arrays, size=2000):
    return [da.from_array(each, chunks=(size, *each.shape[1:])) for each in arrays]


def model(**options):
    return QuantileHuberBoostingRegressor(**{"random_state": 0, **options})


def assert_same(fit, other, X):
    assert fit.n_estimators_ == other.n_estimators_
    np.testing.assert_allclose(fit.tau_path_, other.tau_path_, atol=1e-3)
    np.testing.assert_allclose(fit.sigma_path_, other.sigma_path_, rtol=1e-3)
    np.testing.assert_allclose(fit.validation_score_, other.validation_score_, atol=1e-3)
    for q in (0.1, 0.9):
        ends = (each.predict_quantile(X, q) for each in (fit, other))
        np.testing.assert_allclose(*ends, atol=1e-3)


@pytest.mark.parametrize(("scale", "trees"), [("constant", 50), ("boosted", 10)])
def test_two_workers_fit_what_one_fits_and_what_is_fitted_in_memory(two_workers, scale, trees):
    X, y = additive()
    rows = on_dask(X, y)
    options = {"n_estimators": trees, "n_iter_no_change": None, "scale": scale}
    two = model(**options).fit(*rows, client=two_workers)
    with one_worker() as client:
        one = model(**options).fit(*rows, client=client)
    assert_same(two, one, X)
    local = two._local()
    seed = local._lightgbm_options(y.size, np.random.RandomState(local.random_state))["seed"]
    _, fold = drawn_rows([2000] * 10, range(10), 1.0, 5, seed)
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    assert_same(
        two, LocalRegressor(**options, cv=folds, random_state=local.random_state).fit(X, y), X
    )


def test_weights_count_and_stages_end(two_workers):
    X, y = additive(3000)
    X = X.round(1)  # weights do not move the bins
    w = np.random.default_rng(1).integers(0, 3, y.size).astype(float)
    repeated = [np.repeat(each, w.astype(int), axis=0) for each in (X, y)]
    options = {"cv": None, "n_estimators": 20, "max_depth": 1}
    weighted = model(**options).fit(*on_dask(X, y, w, size=500), client=two_workers)
    expected = LocalRegressor(**options).fit(*repeated)
    np.testing.assert_allclose(weighted.predict(X), expected.predict(X), atol=1e-5)
    assert weighted.tau_ == pytest.approx(expected.tau_, abs=1e-4)
    stopped = model(learning_rate=0.5, n_iter_no_change=5).fit(
        *on_dask(X, y, size=500), client=two_workers
    )
    assert np.argmin(stopped.validation_score_) == stopped.n_estimators_ < 200
    assert stopped.validation_score_.size == stopped.n_estimators_ + 1 + 5


def test_frames_keep_their_names_and_predictions_stay_on_dask(two_workers, tmp_path):
    X, y = additive(3000)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    frame.loc[::7, "c"] = np.nan
    dd.from_pandas(frame, npartitions=4).to_parquet(tmp_path / "rows")
    ddf = dd.read_parquet(tmp_path / "rows")
    features = list("abcd")
    fit = model(n_estimators=10, monotonic_cst={"d": 1}).fit(ddf[features], ddf["y"])
    assert list(fit.feature_names_in_) == fit.booster_.feature_name() == features
    local = fit.to_local()
    assert type(local) is LocalRegressor
    predicted = fit.predict(ddf[features])
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), local.predict(frame[features]))
    intervals = fit.predict_interval(ddf[features], [0.5, 0.9]).compute()
    np.testing.assert_allclose(intervals, local.predict_interval(frame[features], [0.5, 0.9]))
    quantiles = fit.predict_quantile(*on_dask(X), 0.3)
    assert quantiles.shape == (3000,)
    assert fit.score(frame[features], frame["y"]) > 0.3


def test_a_worker_that_is_killed_raises(two_workers):
    X, y = additive()
    pids = two_workers.run(os.getpid)

    def kill_one_that_fits():
        while not any("_fit_here" in str(each) for each in two_workers.processing().values()):
            time.sleep(0.1)
        time.sleep(1.0)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill_one_that_fits, daemon=True)
    killer.start()
    with pytest.raises(ConnectionError, match="a worker was lost"):
        model(n_estimators=100_000, n_iter_no_change=None).fit(*on_dask(X, y), client=two_workers)
    killer.join()
    two_workers.wait_for_workers(2, timeout=20)
    again = model(n_estimators=3).fit(*on_dask(X[:1000], y[:1000], size=100), client=two_workers)
    assert again.n_estimators_ == 3


def test_an_error_on_a_worker_is_the_error_of_the_fit(two_workers):
    X, y = additive(1000)
    y[-1] = np.nan
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model(n_estimators=3).fit(*on_dask(X, y, size=100), client=two_workers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "paper"}, "scheme='two-step'"),
        ({"interval": "conformal"}, "interval='law'"),
        ({"cv": [([0], [1])]}, "cv must be a number"),
        ({"scale": "boosted", "sigma": 1.0}, "sigma cannot be fixed"),
    ],
)
def test_what_is_not_offered_is_refused(options, message):
    X, y = on_dask(*additive(100))
    with pytest.raises(DomainError, match=message):
        model(**options).fit(X, y)


def test_rows_in_memory_and_chunks_that_differ_are_refused(two_workers):
    X, y = additive(100)
    with pytest.raises(DataError, match="X must be a Dask array"):
        model().fit(X, y, client=two_workers)
    dX, dy = on_dask(X, y, size=50)
    with pytest.raises(DataError, match="same chunks"):
        model().fit(dX[dX[:, 0] > 0.0], dy.rechunk(10)[dy.rechunk(10) > 0.0], client=two_workers)
    with pytest.raises(DataError, match="no rows"):
        model().fit(dX[:0], dy[:0], client=two_workers)


def test_the_median_over_workers_is_that_of_all_values():
    rng = np.random.default_rng(0)
    leader, token = ("127.0.0.1", free_port("127.0.0.1")), b"t" * 32
    for n_workers, sizes in ((2, (40, 3)), (3, (0, 25, 11))):
        values = [rng.integers(-9, 9, size) / 4.0 for size in sizes]
        weights = [rng.integers(0, 4, size).astype(float) for size in sizes]
        medians = [None] * n_workers

        def work(rank, n=n_workers, values=values, weights=weights, medians=medians):
            with WorkerPool(Place(rank, n, "127.0.0.1", leader, token, 10.0)) as pool:
                medians[rank] = pool.median(values[rank], weights[rank])

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(n_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        every = np.repeat(np.concatenate(values), np.concatenate(weights).astype(int))
        assert medians == [np.median(every)] * n_workers
