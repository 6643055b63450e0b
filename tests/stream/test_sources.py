"""Where the batches of a stream come from, and what is wrong with them."""

from __future__ import annotations

import weakref

import numpy as np
import pandas as pd
import pytest
from stream_data import batches, cut, files, frame

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

from qhreg import QuantileHuberMLE  # noqa: E402
from qhreg.exceptions import DataError, MissingValuesError  # noqa: E402
from qhreg.stream import quantile_huber  # noqa: E402

FORMULA = "y ~ x1 + region"


@pytest.fixture(scope="module")
def data():
    return frame(1, n=2600)


@pytest.fixture(scope="module")
def memory(data):
    return QuantileHuberMLE.from_formula(FORMULA, data).fit()


def sources(data, folder):
    pattern = files(data, folder)
    table = pa.Table.from_pandas(data, preserve_index=False)
    return {
        "pattern": pattern,
        "folder": str(folder),
        "path": folder,
        "list": sorted(folder.iterdir()),
        "dataset": ds.dataset(str(folder)),
        "tables": lambda: [table.slice(0, 1000), table.slice(1000)],
        "batches": lambda: iter(table.to_batches(max_chunksize=700)),
        "frames": batches(data),
        "in memory": ds.dataset(table),
    }


@pytest.mark.parametrize(
    "kind",
    ["pattern", "folder", "path", "list", "dataset", "tables", "batches", "frames", "in memory"],
)
def test_every_source_gives_the_same_fit(kind, data, memory, tmp_path):
    fit = quantile_huber(FORMULA, sources(data, tmp_path)[kind]).fit()
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)
    np.testing.assert_allclose(fit.bse, memory.bse, rtol=1e-6)


@pytest.mark.parametrize("pieces", [4, 40])
def test_files_of_unequal_sizes(pieces, data, memory, tmp_path):
    fit = quantile_huber(FORMULA, files(data, tmp_path, pieces)).fit("HC1")
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)


def test_polars_frames(data, memory):
    polars = pytest.importorskip("polars")
    parts = [polars.from_pandas(part) for part in cut(data)]
    fit = quantile_huber(FORMULA, lambda: parts).fit()
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)


def test_folders_that_name_a_category(data, memory, tmp_path):
    data.to_parquet(tmp_path, partition_cols=["region"])
    fit = quantile_huber(FORMULA, tmp_path).fit()
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)


def test_columns_in_another_order_in_one_file(data, memory, tmp_path):
    for number, part in enumerate(cut(data)):
        columns = list(part.columns)[:: -1 if number == 2 else 1]
        part[columns].to_parquet(tmp_path / f"{number}.parquet")
    fit = quantile_huber(FORMULA, tmp_path).fit()
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)


def test_a_level_in_one_file_only(data, tmp_path):
    parts = cut(data)
    parts[-1].loc[parts[-1]["x1"] > 1.0, "region"] = "west"
    for number, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{number}.parquet")
    fit = quantile_huber("y ~ x1 + C(region)", tmp_path).fit()
    memory = QuantileHuberMLE.from_formula("y ~ x1 + C(region)", pd.concat(parts)).fit()
    assert "C(region)[T.west]" in fit.params
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)
    np.testing.assert_allclose(fit.bse, memory.bse, rtol=1e-6)


def test_categories_keep_their_order_where_all_batches_share_it(data):
    order = ["south", "north", "west", "east"]
    coded = data.assign(region=pd.Categorical(data["region"], order))
    with pytest.warns(match="rank"):  # nobody lives in the west
        fit = quantile_huber(FORMULA, batches(coded)).fit()
    assert next(name for name in fit.params.index if "region" in name) == "region[T.north]"


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(region, Treatment('south')) * x1",
        "y ~ C(region, Sum) + C(x1 > 0.5)",
        "np.log(y + 100) ~ half(x1) + I(x2**2) + x1:x2",
        "y ~ C(year) + year:x1 + x2",
        "y ~ standardize(x1) * C(region)",
        "y ~ 1",
    ],
)
def test_formulas(formula, data):
    fit = quantile_huber(formula, batches(data, 40)).fit()
    memory = QuantileHuberMLE.from_formula(formula, data).fit()
    assert list(fit.params.index) == list(memory.params.index)
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7, atol=1e-7)
    some = data.head()
    np.testing.assert_allclose(fit.predict(some), memory.predict(some), rtol=1e-7)


def half(values):
    return 0.5 * values


def test_integers_in_one_file_are_numbers(data, memory, tmp_path):
    parts = [part.assign(x1=part["x1"].round()) for part in cut(data)]
    parts[1]["x1"] = parts[1]["x1"].astype(int)
    for number, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{number}.parquet")
    fit = quantile_huber(FORMULA, tmp_path).fit()
    memory = QuantileHuberMLE.from_formula(FORMULA, pd.concat(parts)).fit()
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)


@pytest.mark.parametrize("formula", [FORMULA, "y ~ x1:C(region)", "y ~ x1 + C(region + town)"])
def test_rows_with_missing_values_are_left_out_as_in_memory(data, formula):
    gaps = data.copy()
    gaps.loc[[3, 700], "x1"] = np.nan
    gaps.loc[5, "region"] = None
    gaps.loc[2000, "y"] = np.nan
    gaps.loc[9, "prob"] = np.nan
    fit = quantile_huber(formula, batches(gaps), weights="prob").fit()
    memory = QuantileHuberMLE.from_formula(formula, gaps, weights="prob").fit()
    assert fit.nobs == memory.nobs == len(data) - 5
    np.testing.assert_allclose(fit.params, memory.params, rtol=1e-7)
    np.testing.assert_allclose(fit.bse, memory.bse, rtol=1e-6)


def test_one_batch_is_in_memory_at_a_time(data):
    alive, most = set(), []

    def source():
        for part in cut(data, 30):
            batch = part.copy()
            alive.add(id(batch))
            weakref.finalize(batch, alive.discard, id(batch))
            most.append(len(alive))
            yield batch
            del batch, part

    quantile_huber("y ~ x1 + x2", source).fit().bse  # noqa: B018
    assert max(most) <= 3


# ---------------------------------------------------------------------- faults


def damaged(data, folder, change):
    parts = cut(data)
    parts[2] = change(parts[2])
    for number, part in enumerate(parts):
        part.to_parquet(folder / f"{number:03d}.parquet")
    return folder


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda part: part.drop(columns="x1"), {}, "002.parquet.*'x1'"),
        (lambda part: part.assign(x1="text"), {}, "'x1'.*numbers.*text.*002.parquet"),
        (lambda part: part.assign(y="text"), {}, "002.parquet.*'y'"),
        (lambda part: part.assign(x1=np.inf), {}, "002.parquet: infinite values in x1"),
        (lambda part: part.assign(prob=-1.0), {"weights": "prob"}, "002.parquet.*'prob'.*negative"),
        (lambda part: part.assign(count=0.5), {"freq_weights": "count"}, "002.parquet.*'count'"),
        (lambda part: part.drop(columns="prob"), {"weights": "prob"}, "002.parquet.*'prob'"),
        (lambda part: part.assign(known="a"), {"offset": "known"}, "002.parquet.*known"),
    ],
)
def test_an_error_names_file_and_column(change, options, said, data, tmp_path):
    with pytest.raises(DataError, match=said):
        quantile_huber(FORMULA, damaged(data, tmp_path, change), **options)


def test_missing_values_are_located_on_request(data, tmp_path):
    folder = damaged(data, tmp_path, lambda part: part.assign(x1=np.nan))
    with pytest.raises(MissingValuesError, match=r"002\.parquet: missing values in x1"):
        quantile_huber(FORMULA, folder, missing="raise")


def test_a_corrupt_file_is_named(data, tmp_path):
    files(data, tmp_path)
    (tmp_path / "003.parquet").write_bytes(b"no Parquet")
    with pytest.raises(DataError, match=r"003\.parquet"):
        quantile_huber(FORMULA, tmp_path)


def test_missing_labels_of_clusters_are_located(data, tmp_path):
    folder = damaged(data, tmp_path, lambda part: part.assign(town=None))
    fit = quantile_huber(FORMULA, folder).fit("cluster", cov_kwds={"groups": "town"})
    with pytest.raises(DataError, match=r"002\.parquet.*'town'"):
        fit.bse  # noqa: B018


@pytest.mark.parametrize(
    ("formula", "source", "options", "said"),
    [
        ("y ~ x1", "nowhere/*.parquet", {}, "no file"),
        ("y ~ x1", 3, {}, "source must be"),
        ("y ~ x1", lambda: [], {}, "no batches"),
        ("y ~ x1", lambda: [1], {}, "Arrow table or a frame"),
        ("y ~ nothing", None, {}, "no column 'nothing'"),
        ("y ~ x1", None, {"weights": "nothing"}, "no column 'nothing'"),
        ("y ~ x1", None, {"missing": "skip"}, "missing must be"),
        ("region ~ x1", None, {}, "must be numeric"),
        ("x1", None, {}, "form"),
        ("y ~ x1 +", None, {}, "expected a noun"),
        ("y ~ poly(x1, 2)", None, {}, "no function 'poly'"),
    ],
)
def test_what_cannot_be_fitted_says_so(formula, source, options, said, data):
    with pytest.raises(DataError, match=said):
        quantile_huber(formula, batches(data) if source is None else source, **options)


def test_an_iterator_that_ends_is_noticed(data):
    parts = iter(cut(data) * 2)
    with pytest.raises(DataError, match="batches"):
        quantile_huber("y ~ x1", lambda: parts).fit()


def test_batches_that_change_are_noticed(data):
    calls = []

    def source():
        calls.append(1)
        return iter(cut(data, 3 if len(calls) < 5 else 4))

    with pytest.raises(DataError, match="the same"):
        quantile_huber("y ~ x1", source).fit()
