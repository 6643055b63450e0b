"""Polars, Arrow and what else can be read as a table: the same numbers as from pandas, at every door."""

import numpy as np
import pandas as pd
import pytest

import qhreg.formula.api as qhf
from qhreg import QuantileHuberDistributional, QuantileHuberMLE, compare_models
from qhreg.specification.inputs import to_pandas

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def table(n=150):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "k": rng.integers(0, 5, n),
            "g": pd.Categorical(rng.choice(["b", "a", "c"], n), categories=["c", "b", "a"]),
            "text": rng.choice(["u", "v"], n),
            "yes": rng.random(n) < 0.5,
            "w": rng.integers(1, 4, n),
        }
    )
    return frame.assign(y=1.0 + 2.0 * frame.x + (frame.g == "a") + rng.gamma(2.0, size=n))


FRAME = table()
LEVELS = ["c", "b", "a"]


class Stream:
    """A table of a library that offers the Arrow stream alone."""

    def __init__(self, frame):
        self.table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def polars(frame):
    return pl.from_pandas(frame).with_columns(pl.col("g").cast(pl.Enum(LEVELS)))


KINDS = {
    "eager": polars,
    "lazy": lambda frame: polars(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "batch": pa.RecordBatch.from_pandas,
    "stream": Stream,
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def columns(kind):
    """Some columns of the table, in another library."""

    def chosen(*names):
        # "g" is needed by the Enum of `polars`, and taken out again
        made = to_pandas(kind(FRAME))[list(names)]
        if kind is KINDS["stream"]:
            return Stream(made)
        if kind in (KINDS["eager"], KINDS["lazy"]):
            made = pl.from_pandas(made)
            return made.lazy() if kind is KINDS["lazy"] else made
        return kind(made)

    return chosen


def same(one, other):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


def test_categories_stay_categories_and_rows_are_numbered(kind):
    made = to_pandas(kind(FRAME))
    assert list(made["g"].cat.categories) == LEVELS
    assert made.index.equals(pd.RangeIndex(len(FRAME)))


def test_labels_that_pandas_stored_in_an_arrow_table_come_back():
    labelled = FRAME.set_axis(np.arange(len(FRAME)) + 1000, axis=0)
    fit = qhf.quantile_huber("y ~ x", pa.Table.from_pandas(labelled)).fit()
    assert fit.predict().index.equals(labelled.index)


@pytest.mark.parametrize("formula", ["y ~ x + g + text + yes", "y ~ x * C(g) + bs(k, df=4)"])
def test_a_formula_reads_every_kind_of_column(kind, formula):
    ours = qhf.quantile_huber(formula, FRAME, freq_weights="w").fit()
    theirs = qhf.quantile_huber(formula, kind(FRAME), freq_weights="w").fit()
    assert list(theirs.params.index) == list(ours.params.index)
    same(theirs.params, ours.params)
    same(theirs.bse, ours.bse)
    new = FRAME.iloc[:7]
    same(theirs.predict(kind(new)), ours.predict(new))
    same(
        theirs.get_prediction(kind(new), which="mean").summary_frame(),
        ours.get_prediction(new, which="mean").summary_frame(),
    )


def test_arrays_have_their_names_weights_and_order(columns):
    ours = QuantileHuberMLE(FRAME["y"], FRAME[["x", "k"]], weights=FRAME["w"]).fit()
    theirs = QuantileHuberMLE(columns("y"), columns("x", "k"), weights=columns("w")).fit()
    assert list(theirs.params.index) == list(ours.params.index)
    same(theirs.params, ours.params)
    same(theirs.predict(columns("k", "x")), ours.predict(FRAME[["x", "k"]]))
    same(
        theirs.model.predict(ours.params, columns("x", "k")),
        ours.model.predict(ours.params, FRAME[["x", "k"]]),
    )


def test_an_offset_is_a_column_of_the_new_rows_too(kind):
    fit = qhf.quantile_huber("y ~ x", kind(FRAME), offset="k").fit()
    same(fit.predict(kind(FRAME)), fit.predict(FRAME))


def test_groups_and_subsets(kind):
    ours = qhf.quantile_huber("y ~ x", FRAME).fit(cov_type="cluster", cov_kwds={"groups": "w"})
    clusters = {"groups": pl.Series(FRAME["w"])}
    model = qhf.quantile_huber("y ~ x", kind(FRAME))
    same(model.fit(cov_type="cluster", cov_kwds=clusters).bse, ours.bse)
    some = qhf.quantile_huber("y ~ x", kind(FRAME), subset=pl.Series(FRAME["k"] > 1)).fit()
    same(some.params, qhf.quantile_huber("y ~ x", FRAME[FRAME["k"] > 1]).fit().params)


def test_the_process_and_the_penalised_fit(kind):
    ours, theirs = (qhf.quantile_huber("y ~ x + g", data) for data in (FRAME, kind(FRAME)))
    same(
        theirs.fit_process([0.3, 0.6]).predict(kind(FRAME)), ours.fit_process([0.3, 0.6]).predict()
    )
    same(
        theirs.fit_regularized(alpha=0.01).predict(kind(FRAME)),
        ours.fit_regularized(alpha=0.01).predict(FRAME),
    )


def test_the_distributional_model(kind, columns):
    ours = QuantileHuberDistributional.from_formula("y ~ x", FRAME, scale="~ g").fit()
    theirs = QuantileHuberDistributional.from_formula("y ~ x", kind(FRAME), scale="~ g").fit()
    same(theirs.params, ours.params)
    same(theirs.predict(kind(FRAME), which="sigma"), ours.predict(FRAME, which="sigma"))
    arrays = QuantileHuberDistributional(
        columns("y"), columns("x", "k"), exog_scale=columns("k"), tau=0.4
    ).fit()
    plain = QuantileHuberDistributional(
        FRAME["y"], FRAME[["x", "k"]], exog_scale=FRAME[["k"]], tau=0.4
    ).fit()
    same(arrays.params, plain.params)
    same(
        arrays.predict(columns("x", "k"), which="sigma", exog_scale=columns("k")),
        plain.predict(which="sigma"),
    )


def test_a_comparison_of_models(kind):
    same(
        compare_models("y ~ x", kind(FRAME)).table["aic"],
        compare_models("y ~ x", FRAME).table["aic"],
    )


@pytest.mark.parametrize("name", ["QuantileHuberRegressor", "QuantileHuberBoostingRegressor"])
def test_the_estimators_take_them_with_their_names(columns, name):
    pytest.importorskip("sklearn")
    pytest.importorskip("lightgbm")
    import qhreg

    options = {"n_estimators": 5, "random_state": 0} if "Boosting" in name else {}
    ours = getattr(qhreg, name)(**options).fit(FRAME[["x", "k"]], FRAME["y"])
    theirs = getattr(qhreg, name)(**options).fit(columns("x", "k"), FRAME["y"])
    assert list(theirs.feature_names_in_) == ["x", "k"]
    same(theirs.predict(columns("x", "k")), ours.predict(FRAME[["x", "k"]]))
