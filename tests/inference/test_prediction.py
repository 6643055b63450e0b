"""Predictions, their standard errors by the delta method, and observation intervals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from model_data import skewed_frame
from scipy import stats
from statsmodels.tools.numdiff import approx_fprime

import qhreg.formula.api as qhf
from qhreg import QuantileHuberDistributional, QuantileHuberMLE, quantile_huber
from qhreg.exceptions import DataError, DomainError
from qhreg.inference.prediction import Prediction, prediction_slopes

FRAME = skewed_frame()


@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
def test_columns_that_new_rows_lack_are_named(model):
    fit = model(FRAME["y"], sm.add_constant(FRAME[["x", "z"]])).fit()
    with pytest.raises(
        DataError, match=r"no column 'const': .* const, x, z, .*add_constant adds it"
    ):
        fit.predict(FRAME[["x", "z"]])
    with pytest.raises(
        DataError, match=r"no column 'const', 'z': the model has .* the new rows x$"
    ):
        fit.predict(FRAME[["x"]])


def test_a_frame_of_another_library_is_matched_by_name():
    class Foreign:
        def to_pandas(self):
            return sm.add_constant(FRAME[["x"]])[["x", "const"]]

    fit = QuantileHuberMLE(FRAME["y"], sm.add_constant(FRAME[["x"]])).fit()
    pd.testing.assert_series_equal(fit.predict(Foreign()), fit.predict())


NEW = FRAME.iloc[[4, 9, 33]]
KINDS = [
    ("location", {}),
    ("mean", {}),
    ("median", {}),
    ("quantile", {"q": 0.9}),
    ("prob", {"y_values": 2.5}),
    ("var", {}),
]


@pytest.fixture(scope="module", params=[1.0, 0.0])
def fit(request):
    return qhf.quantile_huber("y ~ x", FRAME, kappa=request.param).fit()


def test_the_distribution_at_given_parameters_has_their_likelihood(fit):
    model = qhf.quantile_huber("y ~ x", FRAME, kappa=fit.kappa, offset="o")
    params = [0.3, 1.2, 0.8, 0.35]
    law = model.get_distribution(params)
    assert law.logpdf(FRAME.y).sum() == pytest.approx(model.loglike(params), rel=1e-12)
    some = model.get_distribution(params, model.exog[:3], offset=FRAME.o[:3])
    np.testing.assert_allclose(some.mean(), law.mean()[:3], rtol=1e-12)


def test_predictions_are_those_of_the_distribution(fit):
    law = fit.get_distribution(NEW)
    np.testing.assert_allclose(fit.predict(NEW, which="mean"), law.mean(), rtol=1e-10)
    np.testing.assert_allclose(fit.predict(NEW, which="median"), law.median(), rtol=1e-10)
    np.testing.assert_allclose(fit.predict(NEW, which="var"), law.var(), rtol=1e-10)
    np.testing.assert_allclose(fit.predict(NEW, which="quantile", q=0.9), law.ppf(0.9), rtol=1e-10)
    np.testing.assert_allclose(
        fit.predict(NEW, which="prob", y_values=2.0), law.cdf(2.0), rtol=1e-10
    )
    np.testing.assert_allclose(law.cdf(fit.predict(NEW)), fit.quantile_level, rtol=1e-10)
    assert law.rvs(random_state=0).shape == (3,)


def test_several_levels_give_columns_that_never_cross(fit):
    levels = [0.05, 0.5, 0.95]
    table = fit.predict(NEW, which="quantile", q=levels)
    assert list(table.columns) == levels
    assert list(table.index) == list(NEW.index)
    assert (np.diff(table.to_numpy(), axis=1) > 0).all()
    chances = fit.predict(NEW, which="prob", y_values=[0.0, 2.0])
    assert list(chances.columns) == [0.0, 2.0]


@pytest.mark.parametrize(("which", "options"), KINDS)
def test_standard_errors_are_the_delta_method(fit, which, options):
    made = fit.get_prediction(NEW, which=which, **options)
    exog = np.column_stack([np.ones(3), NEW.x])

    def prediction(params):
        return fit.model.predict(params, exog, which=which, **options)

    params = fit.params.to_numpy()
    jacobian = np.atleast_2d(approx_fprime(params, prediction, centered=True))
    variance = np.einsum("ij,jk,ik->i", jacobian, fit.cov_params().to_numpy(), jacobian)
    np.testing.assert_allclose(made.se, np.sqrt(variance), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(made.predicted, prediction(params), rtol=1e-12)
    assert (made.se > 0).all()


def test_the_delta_method_of_statsmodels_agrees(fit):
    exog = np.column_stack([np.ones(3), NEW.x])
    delta = fit._get_wald_nonlinear(lambda p: fit.model.predict(p, exog, which="mean"))
    made = fit.get_prediction(NEW, which="mean")
    np.testing.assert_allclose(delta.se_vectorized(), made.se, rtol=1e-4)


def test_standard_errors_with_kappa_free_use_its_derivative():
    model = qhf.quantile_huber("y ~ x", FRAME, kappa=None)
    at = np.array([1.0, 2.0, 0.7, 0.6, 0.8])
    exog = np.column_stack([np.ones(3), NEW.x])
    for which, options in KINDS:
        numeric = approx_fprime(
            at,
            lambda p, which=which, options=options: model.predict(p, exog, which=which, **options),
            centered=True,
        )
        rows = model.rows(exog)
        law = model.law(at, rows)
        slopes = prediction_slopes(law, which, width=True, **options)
        found = model.law_gradient(law, rows, slopes)
        np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-7)


def test_the_frame_has_confidence_and_observation_limits(fit):
    frame = fit.get_prediction(NEW, which="mean").summary_frame(alpha=0.1)
    assert list(frame.columns) == [
        "mean",
        "mean_se",
        "mean_ci_lower",
        "mean_ci_upper",
        "obs_ci_lower",
        "obs_ci_upper",
    ]
    assert list(frame.index) == list(NEW.index)
    law = fit.get_distribution(NEW)
    np.testing.assert_allclose(frame.obs_ci_lower, law.ppf(0.05), rtol=1e-10)
    np.testing.assert_allclose(frame.obs_ci_upper, law.ppf(0.95), rtol=1e-10)
    half = (frame.mean_ci_upper - frame.mean_ci_lower) / 2
    np.testing.assert_allclose(half, stats.t.ppf(0.95, fit.df_resid) * frame.mean_se, rtol=1e-10)


@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
def test_the_default_is_the_same_with_and_without_intervals(model):
    fit = model(FRAME["y"], sm.add_constant(FRAME[["x"]])).fit()
    made = fit.get_prediction().summary_frame()
    np.testing.assert_allclose(made["location"], fit.predict(), rtol=1e-12)
    assert not np.allclose(made["location"], fit.predict(which="mean"))


@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
@pytest.mark.parametrize("alpha", [1.5, 0.0, 1.0, -0.1, float("nan"), "0.05"])
def test_a_level_outside_its_range_is_refused(model, alpha):
    made = model(FRAME["y"], sm.add_constant(FRAME[["x"]])).fit().get_prediction()
    for ask in (made.conf_int, made.obs_int, made.summary_frame):
        with pytest.raises(DomainError, match="alpha"):
            ask(alpha)


def test_observation_limits_cover_new_data():
    rng = np.random.default_rng(3)
    exog = sm.add_constant(rng.normal(size=(4000, 1)))
    law = quantile_huber(0.7, 1.0)
    train, test = (exog.sum(axis=1) + law.rvs(size=4000, random_state=rng) for _ in range(2))
    lower, upper = QuantileHuberMLE(train, exog).fit().get_prediction().obs_int(0.1).T
    assert np.mean((test > lower) & (test < upper)) == pytest.approx(0.9, abs=0.02)
    assert np.mean(test < lower) == pytest.approx(0.05, abs=0.015)


def test_limits_of_probabilities_and_variances_stay_in_their_range():
    fit = qhf.quantile_huber("y ~ x", FRAME.iloc[:60], kappa=1.0).fit(search=False)
    wide = FRAME.assign(x=FRAME.x * 5)
    limits = fit.get_prediction(wide, which="prob", y_values=0.0).conf_int(0.001)
    assert np.nanmin(limits) >= 0.0
    assert np.nanmax(limits) <= 1.0
    assert fit.get_prediction(wide, which="var").conf_int(0.001).min() > 0.0


def test_a_limit_beyond_the_range_of_numbers_is_infinite():
    wild = Prediction("var", np.array([1.0, 1.0]), np.array([0.1, 1e4]), np.zeros(2), None)
    limits = wild.conf_int()
    assert np.isfinite(limits[0]).all()
    assert limits[1].tolist() == [0.0, np.inf]


def test_t_intervals_are_wider(fit):
    with_t = fit.get_prediction(NEW).conf_int()
    with_z = fit.model.fit(use_t=False).get_prediction(NEW).conf_int()
    assert (np.diff(with_t, axis=1) > np.diff(with_z, axis=1)).all()


# --- the law of intervals ----------------------------------------------------------------------------


def robust(n=200, columns=2, **options):
    rng = np.random.default_rng(8)
    exog = sm.add_constant(rng.exponential(size=(n, columns)))
    noise = quantile_huber.rvs(0.6, 1.0, size=n, random_state=rng)
    return exog, QuantileHuberMLE(exog.sum(axis=1) + noise, exog, **options)


@pytest.mark.filterwarnings("ignore:kappa ended at 0:qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
@pytest.mark.parametrize("options", [{}, {"tau": 0.3}, {"tau": 0.3, "sigma": 1.0}, {"kappa": None}])
@pytest.mark.parametrize("columns", [2, 20])
def test_the_location_at_a_unit_vector_has_the_interval_of_the_coefficient(
    columns, options, cov_type
):
    _, model = robust(columns=columns, **options)
    fit = model.fit(cov_type=cov_type)
    k = columns + 1
    for alpha in (0.05, 0.3):
        made = fit.get_prediction(np.eye(k)).conf_int(alpha)
        np.testing.assert_allclose(made, fit.conf_int(alpha)[:k], rtol=1e-9, atol=1e-12)
    turned = fit.get_prediction(-2.0 * np.eye(k)).conf_int()
    np.testing.assert_allclose(turned, -2.0 * fit.conf_int()[:k, ::-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 20])
@pytest.mark.parametrize("constraint", [None, "x1 = 1", "x1 = x2"])
def test_the_location_of_a_row_has_the_interval_of_its_t_test(constraint, columns):
    exog, model = robust(columns=columns)
    fit = model.fit_constrained(constraint) if constraint else model.fit()
    rows = np.hstack([exog[:9], np.zeros((9, len(fit.params) - columns - 1))])
    made = fit.get_prediction(exog[:9])
    np.testing.assert_allclose(made.conf_int(0.1), fit.t_test(rows).conf_int(0.1), rtol=1e-7)
    reach = np.abs(made.conf_int() - made.predicted[:, None]) / made.se[:, None]
    np.testing.assert_allclose(reach, stats.t.ppf(0.975, fit.df_resid), rtol=1e-9)


def test_the_median_at_a_fixed_tau_is_a_combination_of_coefficients_and_sigma():
    exog, model = robust(tau=0.4)
    fit = model.fit()
    m = quantile_huber.median(0.4, fit.kappa)
    rows = np.hstack([exog, np.full((len(exog), 1), m)])
    median = fit.get_prediction(exog, which="median")
    np.testing.assert_allclose(median.conf_int(), fit.t_test(rows).conf_int(), rtol=1e-7)


def test_normal_quantiles_are_taken_where_asked_for():
    exog, model = robust()
    made = model.fit(use_t=False).get_prediction(exog)
    half = np.diff(made.conf_int(), axis=1)[:, 0] / 2.0
    np.testing.assert_allclose(half, stats.norm.ppf(0.975) * made.se, rtol=1e-9)


def test_the_interval_of_the_location_stays_when_the_data_are_removed():
    exog, model = robust()
    fit = model.fit()
    before = fit.get_prediction(exog).conf_int()
    fit.remove_data()
    np.testing.assert_allclose(fit.get_prediction(exog).conf_int(), before, rtol=1e-9)


def test_arrays_predict_without_a_formula():
    exog = sm.add_constant(FRAME[["x", "z"]].to_numpy())
    fit = QuantileHuberMLE(FRAME.y.to_numpy(), exog).fit()
    assert isinstance(fit.predict(exog[:3]), np.ndarray)
    assert fit.predict(exog[0]).shape == (1,)
    np.testing.assert_allclose(fit.predict(), fit.fittedvalues)
    np.testing.assert_allclose(fit.predict(exog[:3], which="mean"), fit.predict(which="mean")[:3])
    assert fit.get_prediction().summary_frame().shape == (300, 6)
    with pytest.raises(DataError, match="exog has 2 columns, the model has 3"):
        fit.predict(exog[:, :2])


def test_columns_of_new_rows_are_found_by_name_and_offsets_by_label():
    exog = sm.add_constant(FRAME[["x", "z"]])
    for model in (QuantileHuberMLE, QuantileHuberDistributional):
        fit = model(FRAME.y, exog, offset=FRAME.o).fit()
        new, offset = exog.iloc[:5], FRAME.o.iloc[:5]
        expected = fit.predict(new, offset=offset.to_numpy())
        shuffled = fit.predict(new[["z", "const", "x"]], offset=offset.iloc[::-1])
        np.testing.assert_allclose(shuffled, expected, rtol=1e-13)
        np.testing.assert_allclose(fit.predict(offset=FRAME.o.iloc[::-1])[:5], expected, rtol=1e-13)
        with pytest.raises(DataError, match="offset has no entry for 2 of 5 rows"):
            fit.predict(new, offset=offset.iloc[:3])


def test_one_new_row_is_read_by_its_names():
    exog = sm.add_constant(FRAME[["x", "z"]])
    for model in (QuantileHuberMLE, QuantileHuberDistributional):
        fit = model(FRAME.y, exog).fit()
        expected = fit.fittedvalues.iloc[[3]]
        row = exog.iloc[3][["z", "x", "const"]]
        np.testing.assert_allclose(fit.predict(row), expected, rtol=1e-13)
        np.testing.assert_allclose(fit.predict(row.to_dict()), expected, rtol=1e-13)


def test_a_missing_value_of_any_kind_in_new_columns_predicts_nan():
    exog = sm.add_constant(FRAME[["x", "z"]])
    fit = QuantileHuberMLE(FRAME.y, exog).fit()
    new = exog.iloc[:2].assign(x=pd.array([1.0, None], dtype="Float64"))
    assert fit.predict(new).isna().tolist() == [False, True]
    with pytest.raises(DataError, match="exog has columns that are not numeric: x"):
        fit.predict(new.assign(x="a"))


def test_a_series_with_the_name_of_a_variable_is_a_column():
    named = FRAME.set_axis([f"r{i}" for i in range(300)])
    for model in (QuantileHuberMLE, QuantileHuberDistributional):
        fit = model.from_formula("y ~ x", named).fit()
        np.testing.assert_allclose(fit.predict(named.x.iloc[:3]), fit.fittedvalues.iloc[:3])
        np.testing.assert_allclose(fit.predict(named.iloc[2]), fit.fittedvalues.iloc[[2]])


def test_regressors_of_scale_and_tau_are_matched_by_row_and_by_name():
    exog, other = sm.add_constant(FRAME[["x"]]), sm.add_constant(FRAME[["z"]])
    fit = QuantileHuberDistributional(FRAME.y, exog, exog_scale=other, exog_tau=other).fit()
    expected = fit.predict(which="quantile", q=0.9).iloc[:5]
    new = other.iloc[:5]
    found = fit.predict(
        exog.iloc[:5],
        exog_scale=new.iloc[::-1],
        exog_tau=new[["z", "const"]],
        which="quantile",
        q=0.9,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": "mode"}, "which must be one of"),
        ({"which": "quantile"}, "needs q"),
        ({"which": "quantile", "q": 1.5}, r"in \(0, 1\)"),
        ({"which": "prob"}, "needs y_values"),
        ({"which": "mean", "q": 0.5}, 'q is the level for which="quantile"'),
        ({"which": "mean", "y_values": 0.5}, "y_values belongs"),
    ],
)
def test_bad_requests_are_named(fit, options, message):
    with pytest.raises(DomainError, match=message):
        fit.predict(NEW, **options)


def test_a_notebook_shows_the_frame_of_a_prediction(fit):
    shown = fit.get_prediction(NEW)._repr_html_()
    for text in ("<table", "location_ci_lower", "obs_ci_upper", "<th>row33</th>", "3 rows"):
        assert text in shown
    assert fit.get_prediction()._repr_html_().count("<tr") < 70  # long ones are cut as pandas does
    varying = QuantileHuberDistributional.from_formula("y ~ x", FRAME).fit()
    assert "tau_se" in varying.get_prediction(NEW, which="tau")._repr_html_()
