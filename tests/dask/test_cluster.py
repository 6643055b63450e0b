"""Fits on a cluster of two processes: files, traffic, faults."""

from __future__ import annotations

import os
import pickle
import signal
import time

import numpy as np
import pandas as pd
import pytest

import qhreg
from qhreg.exceptions import ClusterError, DataError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from qhreg.dask import fit, quantile_huber  # noqa: E402
from qhreg.dask.rows import Cluster  # noqa: E402

FORMULA = "y ~ x1 + x2 + C(region)"

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::UserWarning:distributed"
)


def local_cluster(**options):
    return distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
        **options,
    )


@pytest.fixture(scope="module")
def client():
    with local_cluster() as cluster, distributed.Client(cluster) as client:
        yield client


def table(n, noise="gumbel", seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x1", "x2"])
    frame["region"] = rng.choice(list("abc"), n)
    frame["firm"] = rng.integers(0, 40, n)
    frame["w"] = rng.random(n)
    draws = {
        "gumbel": rng.gumbel(size=n),
        "normal": rng.normal(size=n),
        "t5": rng.standard_t(5, size=n),
        "tied": np.round(rng.normal(size=n)),
    }
    frame["y"] = 1.0 + frame.x1 - frame.x2 + (frame.region == "b") + draws[noise]
    frame["wide"] = [("text " * 20)] * n  # Dask fuses small files by the columns that are read
    return frame


def files(folder, frame, count, change=lambda number, part: part):
    """Write a frame to Parquet files of unequal sizes."""
    rng = np.random.default_rng(count)
    cuts = np.sort(rng.choice(np.arange(1, len(frame)), count - 1, replace=False))
    for number, rows in enumerate(np.split(np.arange(len(frame)), cuts)):
        part = change(number, frame.iloc[rows])
        part.to_parquet(folder / f"part-{number:04d}.parquet", index=False)
    return folder


def in_memory(frame, cov_type="HC3", formula=FORMULA, **options):
    return qhreg.QuantileHuberMLE.from_formula(formula, frame, **options).fit(cov_type=cov_type)


def assert_same(results, expected, rtol=1e-7):
    pd.testing.assert_series_equal(results.params, expected.params, rtol=rtol, atol=1e-9)
    pd.testing.assert_series_equal(results.bse, expected.bse, rtol=1e-6)
    assert results.llf == pytest.approx(expected.llf, rel=1e-10)


@pytest.mark.parametrize(("count", "persist"), [(4, "auto"), (40, "auto"), (4, False)])
def test_parquet_files_of_any_number_and_size(client, tmp_path, count, persist):
    frame = table(8000)
    data = dd.read_parquet(files(tmp_path, frame, count))
    results = quantile_huber(FORMULA, data).fit(persist=persist)
    assert results.model.partitions.pieces.kept == (persist == "auto")
    assert_same(results, in_memory(frame))


@pytest.mark.parametrize("count", [12, 400])
def test_columns_and_response_may_be_projections_of_the_same_files(client, tmp_path, count):
    frame = table(6000)
    data = dd.read_parquet(files(tmp_path, frame, count))
    columns = ["x1", "x2"]
    assert data[columns].optimize().npartitions != data["y"].optimize().npartitions  # dask#12193
    results = fit(data[columns], data["y"], weights=data["w"])
    expected = qhreg.QuantileHuberMLE(frame["y"], frame[columns], weights=frame["w"]).fit()
    assert_same(results, expected)


def received(monkeypatch):
    """Return a list that gets the bytes of every answer of the cluster."""
    sizes, compute = [], Cluster.compute

    def counted(self, task):
        value = compute(self, task)
        sizes.append(len(pickle.dumps(value)))
        return value

    monkeypatch.setattr(Cluster, "compute", counted)
    return sizes


@pytest.mark.parametrize("noise", ["normal", "gumbel", "t5", "tied", "weighted"])
def test_rows_do_not_come_to_the_client(client, monkeypatch, noise):
    sums = []
    for n in (20_000, 80_000):
        frame = table(n, "gumbel" if noise == "weighted" else noise)
        sizes = received(monkeypatch)
        weights = {"weights": "w"} if noise == "weighted" else {}
        data = dd.from_pandas(frame.drop(columns="wide"), npartitions=4)
        quantile_huber(FORMULA, data, **weights).fit()
        monkeypatch.undo()
        sums.append(sum(sizes))
    assert sums[1] < 1.2 * sums[0]


def test_at_width_zero_only_undecided_rows_come(client, monkeypatch):
    n = 60_000
    frame = table(n).drop(columns=["wide"])
    expected = in_memory(frame, kappa=0.0, tau=0.3)
    sizes = received(monkeypatch)
    results = quantile_huber(
        FORMULA, dd.from_pandas(frame, npartitions=4), kappa=0.0, tau=0.3
    ).fit()
    assert_same(results, expected)
    nearest = n ** (2 / 3) * np.sqrt(6)  # the rows of Portnoy & Koenker (1997)
    assert max(sizes) < 1.2 * nearest * 8 * 6


def test_clusters_and_predictions_on_dask(client, tmp_path):
    frame = table(6000)
    data = dd.read_parquet(files(tmp_path, frame, 5))
    kwds = {"groups": "firm"}
    results = quantile_huber(FORMULA, data).fit("cluster", kwds)
    expected = qhreg.QuantileHuberMLE.from_formula(FORMULA, frame).fit(
        cov_type="cluster", cov_kwds=kwds
    )
    assert_same(results, expected)
    predicted = results.predict(data)
    assert dask.is_dask_collection(predicted)
    np.testing.assert_allclose(predicted.compute(), expected.predict(frame), rtol=1e-7)
    quantiles = results.predict(data, which="quantile", q=[0.1, 0.9])
    np.testing.assert_allclose(
        quantiles.compute(), expected.predict(frame, which="quantile", q=[0.1, 0.9]), rtol=1e-6
    )
    again = pickle.loads(pickle.dumps(results))
    np.testing.assert_allclose(again.predict(frame[:5]), expected.predict(frame[:5]), rtol=1e-7)
    assert str(again.summary().tables[1]) == str(results.summary().tables[1])


# ---------------------------------------------------------------------- faults in the data


def test_columns_in_another_order_and_a_level_in_one_file_are_right(client, tmp_path):
    frame = table(4000)
    frame.loc[3990:, "region"] = "only here"

    def change(number, part):
        return part[sorted(part.columns)] if number == 2 else part

    data = dd.read_parquet(files(tmp_path, frame, 6, change))
    assert_same(quantile_huber(FORMULA, data).fit(), in_memory(frame))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("corrupt", "partition 3 cannot be read: .*corrupted"),
        ("missing", "partition 3 cannot be read: .*x2"),
        ("text", "'x2' holds numbers in partition . and text in partition 3"),
        ("gap", "partition 3: missing values in x2"),
        ("infinite", "partition 3: infinite values in x2"),
    ],
)
def test_errors_name_partition_and_column(client, tmp_path, fault, message):
    def change(number, part):
        if number != 3:
            return part
        part = part.reset_index(drop=True)
        if fault == "missing":
            return part.drop(columns="x2")
        if fault == "text":
            return part.assign(x2="a text")
        if fault in ("gap", "infinite"):
            part.loc[1, "x2"] = np.nan if fault == "gap" else np.inf
        return part

    files(tmp_path, table(4000), 6, change)
    if fault == "corrupt":
        path = tmp_path / "part-0003.parquet"
        path.write_bytes(path.read_bytes()[:-100])
    data = dd.read_parquet(tmp_path)
    with pytest.raises(DataError, match=message):
        quantile_huber(FORMULA, data, missing="raise").fit()


@pytest.mark.parametrize("scheduler", ["distributed", "synchronous"])
def test_errors_of_partitions_to_be_kept_name_them_too(client, tmp_path, scheduler):
    files(tmp_path, table(2000), 6)
    path = tmp_path / "part-0003.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    data = dd.read_parquet(tmp_path)
    with (
        dask.config.set(scheduler=scheduler),
        pytest.raises(DataError, match=r"partition \d cannot be read: .*corrupted"),
    ):
        fit(data[["x1", "x2", "w"]], data["y"], persist=True)


# ---------------------------------------------------------------------- faults of the cluster


def killed_after(monkeypatch, passes):
    """Kill one worker after some passes."""
    reduce, calls = Cluster.reduce, []

    def counted(self, *args, **options):
        calls.append(1)
        if len(calls) == passes:
            pid = next(iter(self.client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
        return reduce(self, *args, **options)

    monkeypatch.setattr(Cluster, "reduce", counted)
    return calls


@pytest.mark.parametrize("passes", [2, 7])
def test_a_killed_worker_does_not_change_the_fit(client, tmp_path, monkeypatch, passes):
    frame = table(8000)
    data = dd.read_parquet(files(tmp_path, frame, 8))
    expected = in_memory(frame)
    calls = killed_after(monkeypatch, passes)
    assert_same(quantile_huber(FORMULA, data).fit(), expected)
    assert len(calls) > passes


def test_without_workers_there_is_an_error_within_the_timeout(tmp_path):
    data = dd.read_parquet(files(tmp_path, table(2000), 4))
    with local_cluster() as cluster, distributed.Client(cluster) as alone:
        cluster.scale(0)
        while alone.nthreads():
            time.sleep(0.05)
        start = time.monotonic()
        with pytest.raises(ClusterError, match=r"within 1 s, which has 0 workers"):
            quantile_huber(FORMULA, data).fit(client=alone, timeout=1.0)
        assert time.monotonic() - start < 5.0
