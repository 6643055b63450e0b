"""Formulas: names, factors, functions, subsets, missing rows, weights by name, both engines."""

import doctest

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from model_data import skewed_frame, with_gaps

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE
from qhreg.exceptions import DataError
from qhreg.specification import formulas

FRAME = skewed_frame()


def double(values):
    return 2.0 * values


def test_a_formula_gives_the_fit_of_its_design(engine):
    fit = qhf.quantile_huber("y ~ x + C(g)", FRAME).fit()
    assert list(fit.params.index) == ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "sigma", "tau"]
    ols = smf.ols("y ~ x + C(g)", FRAME)
    by_hand = QuantileHuberMLE(ols.endog, ols.exog).fit()
    np.testing.assert_allclose(fit.params, by_hand.params, rtol=1e-10)
    assert fit.model.endog_names == "y"
    assert fit.model.formula == "y ~ x + C(g)"


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x * C(g)",
        "y ~ np.log(z) + I(x ** 2)",
        "y ~ double(x) + z",
        "y ~ bs(z, df=4) + x",
        "y ~ center(x) + C(g, Treatment('b'))",
        "y ~ C(g) - 1",
        "np.exp(y / 4) ~ x",
    ],
)
def test_new_rows_go_through_the_formula(formula, engine):
    fit = qhf.quantile_huber(formula, FRAME).fit()
    some = FRAME.iloc[[3, 50, 7]]
    expected = fit.fittedvalues.loc[some.index]
    pd.testing.assert_series_equal(fit.predict(some), expected, rtol=1e-9, check_names=False)
    row = dict(some.iloc[0])
    assert float(fit.predict(row).iloc[0]) == pytest.approx(expected.iloc[0])


def test_names_come_from_where_from_formula_is_called(engine):
    local_shift = 1.5

    def local_function(values):
        return values + local_shift

    here = qhf.quantile_huber("y ~ local_function(x)", FRAME).fit()
    class_method = QuantileHuberMLE.from_formula("y ~ local_function(x)", FRAME).fit()
    given = qhf.quantile_huber("y ~ f(x)", FRAME, eval_env={"f": local_function}).fit()
    for fit in (class_method, given):
        np.testing.assert_allclose(fit.params, here.params, rtol=1e-12)
    assert here.predict(FRAME.iloc[:2]).shape == (2,)

    def called_from_elsewhere():
        return qhf.quantile_huber("y ~ local_function(x)", FRAME, eval_env=1).fit()

    np.testing.assert_allclose(called_from_elsewhere().params, here.params, rtol=1e-12)
    with pytest.raises(Exception, match="local_function"):
        qhf.quantile_huber("y ~ local_function(x)", FRAME, eval_env=-1)


def test_missing_rows_are_dropped_with_their_weights_and_offsets(engine):
    gaps = with_gaps(FRAME)
    clean = gaps.dropna()
    assert len(clean) == 300 - 5
    fit = qhf.quantile_huber("y ~ x", gaps, freq_weights="w", offset="o").fit()
    expected = qhf.quantile_huber("y ~ x", clean, freq_weights="w", offset="o").fit()
    np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
    assert fit.nobs == expected.nobs == clean.w.sum()
    assert list(fit.resid.index) == list(clean.index)
    for groups in ("firm", ["firm"], gaps.firm, gaps.firm.to_numpy(), clean.firm):
        np.testing.assert_allclose(
            fit.get_robustcov_results("cluster", groups=groups).bse,
            expected.get_robustcov_results("cluster", groups="firm").bse,
            rtol=1e-10,
        )
    with pytest.raises(Exception, match=r"(?i)missing|nan|null"):
        qhf.quantile_huber("y ~ x", gaps, missing="raise")


def test_a_list_of_one_column_of_groups_is_that_column():
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    one, other = (fit.bootstrap(n_boot=5, rng=0, groups=groups) for groups in ("firm", ["firm"]))
    np.testing.assert_array_equal(one.params, other.params)
    with pytest.raises(DataError, match="groups='nobody' is not a column of the data"):
        fit.get_robustcov_results("cluster", groups=["nobody"])


def test_missing_groups_of_rows_in_the_model_are_an_error():
    gaps = FRAME.assign(firm=FRAME.firm.where(FRAME.firm > 0))
    assert gaps.firm.isna().any()
    with pytest.raises(DataError, match="groups is missing"):
        qhf.quantile_huber("y ~ x", gaps).fit(cov_type="cluster", cov_kwds={"groups": "firm"})


def test_a_subset_takes_its_weights_along(engine):
    chosen = FRAME.x > 0
    direct = qhf.quantile_huber("y ~ x", FRAME[chosen], weights="w").fit()
    for weights in ("w", FRAME.w, FRAME.w.sample(frac=1.0, random_state=0), FRAME.w.to_numpy()):
        fit = qhf.quantile_huber("y ~ x", FRAME, subset=chosen, weights=weights).fit()
        np.testing.assert_allclose(fit.params, direct.params, rtol=1e-12)
    labels = qhf.quantile_huber("y ~ x", FRAME, subset=list(FRAME.index[:200]), weights="w")
    assert labels.nobs_given == 200
    gaps = with_gaps(FRAME)
    both = qhf.quantile_huber("y ~ x", gaps, subset=gaps.z > 1.5, weights="w").fit()
    kept = gaps[gaps.z > 1.5].dropna()
    np.testing.assert_allclose(
        both.params, qhf.quantile_huber("y ~ x", kept, weights="w").fit().params, rtol=1e-12
    )


@pytest.mark.parametrize("columns", [["np.log(z)"], "np.log(z)"])
def test_columns_can_be_dropped(engine, columns):
    fit = qhf.quantile_huber("y ~ x + np.log(z)", FRAME, drop_cols=columns).fit()
    np.testing.assert_allclose(
        fit.params, qhf.quantile_huber("y ~ x", FRAME).fit().params, rtol=1e-12
    )
    assert fit.predict(FRAME.iloc[:2]).shape == (2,)


def test_an_offset_column_is_read_from_new_data(engine):
    fit = qhf.quantile_huber("y ~ x", FRAME, offset="o").fit()
    np.testing.assert_allclose(fit.predict(FRAME.iloc[:4]), fit.fittedvalues.iloc[:4], rtol=1e-10)
    with pytest.raises(DataError, match="offset='o'"):
        fit.predict(FRAME[["x"]].iloc[:4])
    without = fit.predict(FRAME[["x"]].iloc[:4], offset=0.0)
    np.testing.assert_allclose(without + FRAME.o.iloc[:4], fit.fittedvalues.iloc[:4], rtol=1e-10)
    of_array = qhf.quantile_huber("y ~ x", FRAME, offset=FRAME.o.to_numpy()).fit()
    with pytest.raises(DataError, match="pass offset"):
        of_array.predict(FRAME.iloc[:4])


def test_rows_with_missing_values_predict_nan_even_with_repeated_labels(engine):
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    new = FRAME.iloc[[0, 1, 1]].copy()
    new.iloc[1, new.columns.get_loc("x")] = np.nan
    predicted = fit.predict(new)
    assert list(predicted.index) == list(new.index)
    assert predicted.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("formula", ["y ~ C(g) + x", "y ~ g:z - 1"])
def test_rows_with_a_missing_category_predict_nan(formula, engine):
    fit = qhf.quantile_huber(formula, FRAME).fit()
    some = FRAME.iloc[[3, 50, 7]].copy()
    expected = fit.predict(some)
    some["g"] = some.g.astype(object)
    some.iloc[1, some.columns.get_loc("g")] = None
    predicted = fit.predict(some)
    assert np.isnan(predicted.iloc[1])
    np.testing.assert_array_equal(predicted.iloc[[0, 2]], expected.iloc[[0, 2]])


def test_a_category_that_the_fit_has_not_seen_is_an_error(engine):
    fit = qhf.quantile_huber("y ~ C(g)", FRAME).fit()
    with pytest.raises(Exception, match="unheard of"):
        fit.predict(pd.DataFrame({"g": ["a", "unheard of"]}))


@pytest.mark.parametrize("make", [qhf.quantile_huber, qhf.quantile_huber_distributional])
@pytest.mark.parametrize(
    "formula", ["y ~ firms", "y ~ Q('firms')", "firms ~ x", "y ~ np.exp(firms)"]
)
def test_a_missing_column_is_named_with_those_there_are(engine, make, formula):
    message = r"no column 'firms'; the columns are x, z, g, firm, w, o, y; did you mean 'firm'\?"
    with pytest.raises(DataError, match=message) as caught:
        make(formula, FRAME)
    assert "firms" in str(caught.value.__cause__)


@pytest.mark.parametrize("make", [qhf.quantile_huber, qhf.quantile_huber_distributional])
def test_a_column_that_new_rows_lack_is_named(engine, make):
    for formula in ("y ~ x + z", "y ~ x + Q('z')"):
        fit = make(formula, FRAME).fit()
        with pytest.raises(DataError, match=r"there is no column 'z'; the columns are x$"):
            fit.predict(FRAME[["x"]])


def test_the_columns_of_scale_and_tau_are_named_too(engine):
    with pytest.raises(DataError, match="there is no column 'nosuch'"):
        qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ nosuch")


def test_a_long_list_of_columns_is_cut():
    frame = FRAME.assign(**{f"c{j}": 0.0 for j in range(40)})
    with pytest.raises(DataError, match=r"c22 and 17 more$"):
        qhf.quantile_huber("y ~ nosuch", frame)


def test_a_function_of_numpy_is_written_with_its_module():
    with pytest.raises(DataError, match=r"there is no function 'arctan': write np\.arctan"):
        qhf.quantile_huber("y ~ arctan(x)", FRAME)
    for name in ("mine", "roots"):  # np.roots is no function of each value
        message = f"there is no function '{name}' where the model is built"
        with pytest.raises(DataError, match=message):
            qhf.quantile_huber(f"y ~ {name}(x)", FRAME)
    with pytest.raises(DataError, match="import numpy as np"):
        qhf.quantile_huber("y ~ np.log(z)", FRAME, eval_env=-1)


def test_an_error_within_a_function_of_the_caller_is_its_own(engine):
    def broken(values):
        return values + undefined_here  # noqa: F821

    with pytest.raises(Exception, match="undefined_here") as caught:
        qhf.quantile_huber("y ~ broken(x)", FRAME)
    assert not isinstance(caught.value, DataError)


@pytest.mark.parametrize("make", [qhf.quantile_huber, qhf.quantile_huber_distributional])
@pytest.mark.parametrize("formula", ["y", "y + x", "~ x", "y ~", "y ~ ", None])
def test_a_text_that_is_no_formula_is_answered_with_what_one_looks_like(engine, make, formula):
    with pytest.raises(DataError, match='a formula has the form "y ~ x"'):
        make(formula, FRAME)


def test_formula_and_data_in_the_wrong_order_are_told_of():
    with pytest.raises(DataError, match=r"the formula comes first.*got a DataFrame and the text"):
        qhf.quantile_huber(FRAME, "y ~ x")
    with pytest.raises(DataError, match=r"data must be a DataFrame .* got the text 'd\.csv'"):
        qhf.quantile_huber("y ~ x", "d.csv")


@pytest.mark.parametrize("formula", ["y ~ day", "y ~ (x + day):z", "y ~ Q('day') + x"])
def test_dates_are_no_regressors_as_they_are(engine, formula):
    frame = FRAME.assign(day=pd.date_range("2020", periods=len(FRAME)))
    with pytest.raises(
        DataError, match=r"'day' holds dates.*dt\.days, or write C\(day\).* 300 dates"
    ):
        qhf.quantile_huber(formula, frame)


def test_dates_within_a_function_are_what_it_makes_of_them(engine):
    frame = FRAME.assign(day=pd.date_range("2020", periods=len(FRAME)).floor("150D"))
    model = qhf.quantile_huber("y ~ I((day - day.min()).dt.days)", frame)
    assert model.exog.shape[1] == 2
    assert qhf.quantile_huber("y ~ C(day)", frame).exog.shape[1] == frame["day"].nunique()


@pytest.mark.parametrize("name", ["Solar.R", "my x", "2nd", "class"])
def test_a_name_that_is_not_a_word_is_shown_in_quotes(name):
    frame = FRAME.rename(columns={"x": name})
    with pytest.raises(DataError, match=rf'write Q\("{name}"\) for the column'):
        qhf.quantile_huber(f"y ~ {name}", frame)
    fit = qhf.quantile_huber(f'y ~ Q("{name}")', frame).fit()
    np.testing.assert_allclose(fit.params, qhf.quantile_huber("y ~ x", FRAME).fit().params)


def test_the_examples_in_the_docstrings_run():
    result = doctest.testmod(formulas)
    assert result.attempted > 0
    assert result.failed == 0


class Foreign:
    """A frame of another library, whose way to pandas needs a package that is not there."""

    def to_pandas(self):
        raise ModuleNotFoundError("pa.Table requires 'pyarrow' module to be installed")


def test_without_pyarrow_a_frame_of_another_library_names_the_remedy():
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    plain = QuantileHuberMLE(FRAME["y"], FRAME[["x"]].assign(const=1.0)).fit()
    for ask in (
        lambda: qhf.quantile_huber("y ~ x", Foreign()),
        lambda: QuantileHuberMLE(FRAME["y"], Foreign()),
        lambda: fit.predict(Foreign()),
        lambda: plain.predict(Foreign()),
    ):
        with pytest.raises(DataError, match=r"Foreign .*pip install 'qhreg\[parquet\]'"):
            ask()


def test_a_missing_column_of_weights_is_named(engine):
    with pytest.raises(DataError, match="weights='nosuch' is not a column"):
        qhf.quantile_huber("y ~ x", FRAME, weights="nosuch")


def test_misspelt_keywords_and_reserved_names_are_refused():
    with pytest.raises(TypeError, match=r"weigths.*'weights'"):
        qhf.quantile_huber("y ~ x", FRAME, weigths="w")
    with pytest.raises(DataError, match="called 'tau'"):
        qhf.quantile_huber("y ~ tau", FRAME.assign(tau=FRAME.x))
    with pytest.raises(DataError, match=r"(?i)formula"):
        qhf.quantile_huber("y ~ x", FRAME).fit().predict(np.ones((2, 2)))


def test_dictionaries_and_records_are_data_too():
    expected = qhf.quantile_huber("y ~ x", FRAME).fit().params
    for data in (FRAME[["x", "y"]].to_dict("list"), FRAME[["x", "y"]].to_records(index=False)):
        np.testing.assert_allclose(qhf.quantile_huber("y ~ x", data).fit().params, expected)


def test_all_levels_of_a_factor_span_a_constant():
    model = qhf.quantile_huber("y ~ C(g) - 1", FRAME)
    assert model.k_constant == 1
    with_constant = qhf.quantile_huber("y ~ C(g)", FRAME).fit()
    assert model.fit().df_model == with_constant.df_model == 2


def test_fixed_parameters_go_through_the_formula():
    fit = qhf.quantile_huber("y ~ x", FRAME, kappa=0.5, tau=0.4, sigma=1.0).fit()
    assert (fit.kappa, fit.tau, fit.sigma) == (0.5, 0.4, 1.0)
    assert list(fit.params.index) == ["Intercept", "x"]


def test_clones_of_formula_models_have_no_formula_keywords():
    model = qhf.quantile_huber("y ~ x", FRAME, weights="w")
    kwds = model._get_init_kwds()
    assert set(kwds) == {"kappa", "tau", "sigma", "tau_bounds", "weights"}
    clone = type(model)(model.endog, model.exog, **kwds)
    np.testing.assert_array_equal(clone.fit().params, model.fit().params)


def test_a_function_that_is_missing_everywhere_is_told_of(engine):
    frame = FRAME.head(40).copy()
    frame.loc[frame.index[3], "x"] = np.nan
    with pytest.raises(DataError, match=r"each of the 40 given rows .* standardize"):
        qhf.quantile_huber("y ~ standardize(x)", frame)
    with pytest.raises(DataError, match=r"no rows left to fit$"):
        qhf.quantile_huber("y ~ z", frame, subset=frame.z > 1e9)


@pytest.mark.parametrize(
    "formula", ["y ~ x", "y ~ C(k) + x", "y ~ b + g", "y ~ x + I(z > 2)", "x ~ y"]
)
def test_nullable_columns_are_those_of_numpy(formula, engine):
    plain = FRAME.assign(k=np.arange(len(FRAME)) % 3 + 0.0, b=FRAME.z > 2.0).reset_index(drop=True)
    plain["b"] = plain.b.astype(object)
    for row, (column, gap) in enumerate({"x": np.nan, "k": np.nan, "b": None, "g": None}.items()):
        plain.loc[row, column] = gap
    nullable = plain.convert_dtypes()
    assert {str(nullable[c].dtype) for c in "xkb"} == {"Float64", "Int64", "boolean"}
    fit, other = (qhf.quantile_huber(formula, frame).fit() for frame in (plain, nullable))
    assert other.nobs == fit.nobs < len(plain)
    assert other.llf == pytest.approx(fit.llf, rel=1e-10)
    np.testing.assert_allclose(other.predict(nullable), fit.predict(plain), rtol=1e-7)


def test_columns_that_are_given_twice_or_changed_kind_are_named():
    twice = pd.concat([FRAME, FRAME[["x"]]], axis=1)
    with pytest.raises(DataError, match="several columns called 'x'"):
        qhf.quantile_huber("y ~ x", twice)
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    beside = FRAME.assign(unused=1.0)
    beside = pd.concat([beside, beside[["unused"]]], axis=1)
    assert qhf.quantile_huber("y ~ x", beside).fit().llf == fit.llf
    with pytest.raises(DataError, match="several columns called 'x'"):
        fit.predict(twice)
    with pytest.raises(DataError, match="in column 'x', which was numeric"):
        fit.predict(FRAME.head(2).assign(x="a"))


@pytest.mark.parametrize("subset", ["x > 0", [True] * 5, pd.Series([True] * 5), [-7], -7, 1])
def test_a_subset_that_names_no_rows_is_told_of(subset):
    with pytest.raises(DataError, match="subset must be"):
        qhf.quantile_huber("y ~ x", FRAME.reset_index(drop=True), subset=subset)
