"""The distributional model as users meet it: formulas, names, inference, prediction, storage."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from distributional_data import drawn_frame
from numpy.testing import assert_allclose
from scipy import stats

import qhreg.api as qh
import qhreg.formula.api as qhf
from qhreg import QuantileHuberDistributional, QuantileHuberMLE, quantile_huber
from qhreg.covariance.choice import CovarianceChoice
from qhreg.distributional.covariance import distributional_covariance
from qhreg.distributional.likelihood import evaluate, gradient
from qhreg.exceptions import (
    BoundaryWarning,
    CurvatureWarning,
    DataError,
    DomainError,
    RankWarning,
)

FRAME = drawn_frame()
NAMES = [
    "Intercept",
    "x",
    "log_sigma_Intercept",
    "log_sigma_z",
    "logit_tau_Intercept",
    "logit_tau_w",
]


def square(values):
    return values**2


def fitted(frame=FRAME, **options):
    return qhf.quantile_huber_distributional(
        "y ~ x", frame, scale="~ z", tau="~ w", **options
    ).fit()


def designs(frame):
    one = np.ones(len(frame))
    return tuple(np.column_stack([one, frame[name]]) for name in "xzw")


@pytest.fixture(scope="module")
def fit():
    return fitted()


# --- formulas --------------------------------------------------------------------------------------


def test_three_formulas_give_the_fit_of_their_designs(engine):
    fit = fitted()
    assert list(fit.params.index) == NAMES
    x, z, w = designs(FRAME)
    by_hand = QuantileHuberDistributional(FRAME.y.to_numpy(), x, exog_scale=z, exog_tau=w).fit()
    assert_allclose(fit.params, by_hand.params, rtol=1e-10)
    assert by_hand.model.data.param_names[2:4] == ["log_sigma_const", "log_sigma_x1"]
    assert list(fit.sigma.index) == list(FRAME.index)


def test_new_rows_go_through_all_formulas(engine):
    shift = 0.5

    def local(values):
        return values + shift

    fit = qhf.quantile_huber_distributional(
        "y ~ x + C(g)", FRAME, scale="~ bs(z, df=4) + local(x)", tau="~ center(w) + square(z)"
    ).fit()
    some = FRAME.iloc[[3, 50, 7]]
    for which in ("location", "sigma", "tau", "mean", "median"):
        expected = fit.predict(which=which).loc[some.index]
        assert_allclose(fit.predict(some, which=which), expected, rtol=1e-9)
    row = dict(some.iloc[0])
    assert_allclose(fit.predict(row, which="sigma"), fit.sigma.loc[some.index[0]], rtol=1e-9)


def test_rows_missing_in_any_formula_are_left_out_of_all(engine):
    gaps = FRAME.copy()
    for rows, name in (([5, 6], "x"), ([6, 20], "z"), ([30], "w"), ([40], "count"), ([50], "y")):
        gaps.loc[gaps.index[rows], name] = np.nan
    clean = gaps.dropna()
    assert len(clean) == 300 - 6
    fit, expected = (fitted(f, freq_weights="count", offset="o") for f in (gaps, clean))
    assert_allclose(fit.params, expected.params, rtol=1e-12)
    assert fit.nobs == clean["count"].sum()
    assert list(fit.resid.index) == list(clean.index)
    for groups in ("firm", gaps.firm, gaps.firm.to_numpy(), clean.firm):
        errors = fit.get_robustcov_results("cluster", groups=groups).bse
        assert_allclose(errors, expected.get_robustcov_results("cluster", groups="firm").bse)
    with pytest.raises(DataError, match="6 row"):
        fitted(gaps, freq_weights="count", missing="raise")
    centred = qhf.quantile_huber_distributional("y ~ x", gaps, scale="~ center(z)").fit()
    both = gaps.dropna(subset=["x", "y", "z"])
    again = qhf.quantile_huber_distributional("y ~ x", both, scale="~ center(z)").fit()
    assert_allclose(centred.params, again.params, rtol=1e-12)


def test_rows_that_a_formula_makes_missing_are_left_out_too(engine):
    def above(values):
        return values.where(values > -1.0)

    gaps = FRAME.assign(z=FRAME.z.where(FRAME.index != "row3"))
    fit = qhf.quantile_huber_distributional("y ~ x", gaps, scale="~ center(z) + above(x)").fit()
    kept = gaps.dropna()
    assert fit.nobs == (kept.x > -1.0).sum() < len(kept)


def test_a_factor_with_gaps_in_the_scale_leaves_rows_out(engine):
    gaps = FRAME.assign(g=FRAME.g.where(FRAME.index != "row3"))
    fit = qhf.quantile_huber_distributional("y ~ x", gaps, scale="~ C(g)").fit()
    assert fit.nobs == 299
    assert "log_sigma_C(g)[T.b]" in fit.params.index
    assert np.isfinite(fit.t_test("log_sigma_C(g)[T.b] = 0").pvalue)


def test_a_subset_takes_its_weights_along(engine):
    chosen = FRAME.x > 0
    direct = fitted(FRAME[chosen], weights="count")
    for weights in ("count", FRAME["count"].sample(frac=1.0, random_state=0)):
        fit = fitted(FRAME, subset=chosen, weights=weights)
        assert_allclose(fit.params, direct.params, rtol=1e-12)
    assert direct.cov_type == "HC3"


def test_formulas_are_evaluated_where_they_are_written(engine):
    def local(values):
        return values + 1.0

    options = {"scale": "~ local(z)"}
    here = qhf.quantile_huber_distributional("y ~ x", FRAME, **options).fit()
    given = QuantileHuberDistributional.from_formula(
        "y ~ x", FRAME, scale="~ f(z)", eval_env={"f": local}
    ).fit()
    assert_allclose(given.params, here.params, rtol=1e-12)
    with pytest.raises(Exception, match="local"):
        qhf.quantile_huber_distributional("y ~ x", FRAME, eval_env=-1, **options)


def test_columns_of_the_location_can_be_dropped(engine):
    fit = qhf.quantile_huber_distributional("y ~ x + z", FRAME, drop_cols=["z"], scale="~ z").fit()
    direct = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z").fit()
    assert_allclose(fit.params, direct.params, rtol=1e-12)
    assert fit.predict(FRAME.iloc[:2]).shape == (2,)


@pytest.mark.parametrize("unit", [1e-140, 1e150])
def test_extreme_units_change_nothing_but_the_units(unit, fit):
    small = fitted(FRAME.assign(y=unit * FRAME.y))
    assert_allclose(small.params.iloc[:2], unit * fit.params.iloc[:2], rtol=1e-7)
    assert_allclose(small.bse.iloc[:2], unit * fit.bse.iloc[:2], rtol=1e-7)
    assert_allclose(small.bse.iloc[2:], fit.bse.iloc[2:], rtol=1e-7)
    robust = small.get_robustcov_results("HC0").bse
    assert_allclose(robust.iloc[2:], fit.get_robustcov_results("HC0").bse.iloc[2:], rtol=1e-6)


def test_a_column_of_zeros_gets_a_warning_and_a_coefficient_of_zero():
    with pytest.warns(RankWarning, match="log_sigma_none"):
        made = qhf.quantile_huber_distributional(
            "y ~ x", FRAME.assign(none=0.0), scale="~ z + none"
        ).fit()
    assert made.params["log_sigma_none"] == 0.0
    assert "depend(s) on other columns" in str(made.summary())
    plain = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z").fit()
    assert made.aic == pytest.approx(plain.aic)


# --- parameters fixed and constant -----------------------------------------------------------------


def test_constants_alone_give_the_simpler_model_and_its_covariances():
    simple = QuantileHuberMLE.from_formula("y ~ x", FRAME).fit(reml=False)
    fit = qhf.quantile_huber_distributional("y ~ x", FRAME).fit()
    slope = np.array([1.0, 1.0, 1.0 / simple.sigma, 1.0 / (simple.tau * (1.0 - simple.tau))])
    assert_allclose(fit.llf, simple.llf, atol=1e-8)
    assert_allclose(fit.aic, simple.aic, atol=1e-7)
    assert_allclose(fit.bse, simple.bse * slope, rtol=1e-6)
    for cov_type, options in (
        ("HC0", {}),
        ("HC1", {}),
        ("HC2", {}),
        ("nonrobust", {}),
        ("cluster", {"groups": "firm"}),
        ("HAC", {"maxlags": 3}),
    ):
        expected = simple.get_robustcov_results(cov_type, **options).bse * slope
        assert_allclose(fit.get_robustcov_results(cov_type, **options).bse, expected, rtol=1e-6)
    with pytest.raises(DataError, match="nothing to test"):
        fit.test_homoskedastic()


def test_counts_give_the_errors_of_the_repeated_rows():
    long = FRAME.loc[FRAME.index.repeat(FRAME["count"].astype(int))].reset_index(drop=True)
    short, repeated = fitted(freq_weights="count"), fitted(long)
    for cov_type in ("nonrobust", "HC0", "HC1", "HC3"):
        assert_allclose(
            short.get_robustcov_results(cov_type).bse,
            repeated.get_robustcov_results(cov_type).bse,
            rtol=1e-5,
        )
    assert short.nobs == repeated.nobs
    assert_allclose(short.bic, repeated.bic, rtol=1e-10)


def test_only_ratios_of_sampling_weights_matter():
    once, twice = (fitted(FRAME, weights=f * FRAME["count"]) for f in (1.0, 7.0))
    assert_allclose(once.params, twice.params, atol=1e-8)
    assert_allclose(once.bse, twice.bse, rtol=1e-6)
    with pytest.raises(DomainError, match="sampling weights"):
        once.test_homoskedastic()
    with pytest.raises(DomainError, match="nonrobust"):
        once.get_robustcov_results("nonrobust").bse  # noqa: B018


def test_a_number_fixes_tau_or_sigma():
    fixed = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z", tau=0.4).fit()
    assert list(fixed.params.index) == NAMES[:4]
    assert fixed.cov_type == "HC3"
    assert_allclose(fixed.tau, 0.4)
    model = QuantileHuberMLE.from_formula("y ~ x", FRAME, sigma=1.5)
    constant = qhf.quantile_huber_distributional("y ~ x", FRAME, sigma=1.5).fit()
    assert_allclose(constant.llf, model.fit().llf, atol=1e-8)
    both = qhf.quantile_huber_distributional("y ~ x", FRAME, sigma=1.5, tau="~ w").fit()
    assert list(both.params.index) == [*NAMES[:2], *NAMES[4:]]
    assert both.llf > constant.llf
    assert "sigma is fixed at 1.5" in str(both.summary())


def test_a_zone_that_holds_every_row_leaves_tau_undetermined(fit):
    params = np.array([1.0, 2.0, 1.0 - 0.5 * np.log(1e5), 0.5, 0.0, 0.0])
    data = replace(fit.model.model_data(), kappa=1e5)
    solution = replace(fit.solution, params=params)
    for cov_type in ("nonrobust", "HC3"):
        with pytest.warns(CurvatureWarning):
            made = distributional_covariance(CovarianceChoice(cov_type), data, solution)
        assert made.identified.tolist() == [True] * 4 + [False] * 2
        assert np.all(np.isnan(made.cov[4:]))
        assert np.all(made.cov.diagonal()[:4] > 0.0)


# --- inference -------------------------------------------------------------------------------------


def test_the_likelihood_methods_belong_together(fit):
    model, params = fit.model, fit.params.to_numpy() + 0.05
    assert_allclose(model.loglikeobs(params).sum(), model.loglike(params))
    law = fit.get_distribution()
    assert_allclose(law.logpdf(model.endog), model.loglikeobs(fit.params), rtol=1e-9)
    assert_allclose(fit.llf, model.loglike(fit.params), rtol=1e-12)
    h = 1e-6
    steps = h * np.eye(6)
    numeric = [(model.loglike(params + s) - model.loglike(params - s)) / (2 * h) for s in steps]
    assert_allclose(model.score(params), numeric, rtol=1e-5, atol=1e-4)
    assert_allclose(model.score_obs(params).sum(axis=0), model.score(params))
    numeric = [(model.score(params + s) - model.score(params - s)) / (2 * h) for s in steps]
    assert_allclose(model.hessian(params), numeric, rtol=1e-5, atol=1e-4)
    covariance = np.linalg.inv(model.information(fit.params))
    assert_allclose(
        fit.get_robustcov_results("nonrobust").cov_params(), covariance, rtol=1e-8, atol=1e-12
    )
    start = model.start_params
    assert_allclose(model.loglike(start), fit.llf_homoskedastic, atol=1e-8)
    with pytest.raises(DataError, match="2 of log sigma"):
        model.loglike(params[:-1])


def test_tests_use_the_names_of_the_parameters(fit):
    one = fit.t_test("logit_tau_w = 0.6")
    assert_allclose(
        one.tvalue.squeeze(), (fit.params["logit_tau_w"] - 0.6) / fit.bse["logit_tau_w"]
    )
    wald = fit.wald_test("log_sigma_z = 0, logit_tau_w = 0")
    lr = fit.test_homoskedastic()
    assert lr.df == 2
    assert lr.statistic == pytest.approx(2.0 * (fit.llf - fit.llf_homoskedastic))
    assert 0.5 < 2 * wald.statistic / lr.statistic < 2.0  # F and chi-square
    limits = fit.conf_int(alpha=0.1)
    assert_allclose(limits[1] - fit.params, stats.t.ppf(0.95, 298) * fit.bse, rtol=1e-6)


def test_the_likelihood_ratio_is_that_of_the_restricted_fits(fit):
    no_scale = qhf.quantile_huber_distributional("y ~ x", FRAME, tau="~ w").fit()
    no_tau = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z").fit()
    neither = QuantileHuberMLE.from_formula("y ~ x", FRAME).fit(reml=False)
    for which, restricted in (("sigma", no_scale), ("tau", no_tau), ("both", neither)):
        test, direct = fit.test_homoskedastic(which), fit.lr_test(restricted)
        assert test.df == direct.df
        assert test.statistic == pytest.approx(direct.statistic, abs=1e-6)
        assert test.pvalue == pytest.approx(stats.chi2.sf(test.statistic, test.df))
    with pytest.raises(DataError, match="not nested"):
        no_scale.lr_test(fit)
    through_zero = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z - 1").fit()
    with pytest.raises(DataError, match="no constant"):
        through_zero.test_homoskedastic("sigma")


def test_criteria_count_every_coefficient(fit):
    assert fit.aic == pytest.approx(-2.0 * fit.llf + 12.0)
    assert fit.bic == pytest.approx(-2.0 * fit.llf + 6.0 * np.log(300))
    assert fit.df_resid == 298
    assert fit.df_model == 1


def test_the_summary_has_a_table_for_each_predictor(fit):
    text = str(fit.summary())
    for part in ("location", "log(sigma)", "logit(tau)", *NAMES, "Range of tau", "Stationary"):
        assert part in text
    assert "log_sigma_z" in fit.summary().as_html()
    assert "log_sigma_z" in str(fit.summary2())
    assert fit.summary().as_latex()
    assert fit.local_maximum


@pytest.mark.filterwarnings("ignore:about .* rows are expected:qhreg.exceptions.CurvatureWarning")
def test_the_summary_of_a_fit_on_a_bound_says_which_part_is_stationary():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(100), rng.normal(size=100)])
    endog = exog.sum(axis=1) + rng.exponential(size=100)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberDistributional(endog, exog, exog_scale=exog).fit()
    assert fit.solution.held == ("tau",)
    assert fit.solution.rest_stationary
    assert not fit.converged
    data, params = fit.model.model_data(), np.asarray(fit.params)
    score = gradient(data, evaluate(data, params))
    assert np.abs(score[:4]).max() < 1e-6 < score[4]  # the likelihood rises beyond the bound
    for table in (fit.summary(), fit.summary2()):
        text = " ".join(str(table).split())
        assert re.search(r"Stationary: all but tau, \de-\d\d ", text)
        assert "it stops there, and given that the others are stationary" in text


def test_the_summary_of_a_fit_that_is_held_and_not_stationary_says_so():
    fit = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z").fit()
    held = replace(
        fit.solution,
        held=("scale",),
        converged=False,
        rest_stationary=False,
        reason="held",
        score_norm=0.3,
    )
    fit._results.solution = held
    text = " ".join(str(fit.summary()).split())
    assert "Stationary: NO (3e-01 s.e.)" in text
    assert "NOT CONVERGED: held." in text


# --- prediction ------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_fitted_distribution(fit):
    law = fit.get_distribution(FRAME.iloc[:5])
    some = FRAME.iloc[:5]
    assert_allclose(fit.predict(some, which="mean"), law.mean(), rtol=1e-10)
    assert_allclose(fit.predict(some, which="var"), law.var(), rtol=1e-10)
    assert_allclose(fit.predict(some, which="median"), law.median(), rtol=1e-10)
    quantiles = fit.predict(some, which="quantile", q=[0.1, 0.9])
    assert list(quantiles.columns) == [0.1, 0.9]
    assert_allclose(quantiles[0.9], law.ppf(0.9), rtol=1e-10)
    assert_allclose(fit.predict(some, which="prob", y_values=1.0), law.cdf(1.0), rtol=1e-10)
    assert fit.predict(some, which="prob", y_values=[0.0, 1.0]).shape == (5, 2)


@pytest.mark.parametrize(
    "which", ["location", "mean", "median", "sigma", "tau", "var", "quantile", "prob"]
)
def test_standard_errors_of_predictions_follow_from_the_derivative(which, fit):
    options = {"quantile": {"q": 0.8}, "prob": {"y_values": 1.5}}.get(which, {})
    some = FRAME.iloc[:4]
    x, z, w = designs(some)

    def value(params):
        return fit.model.predict(params, x, which, exog_scale=z, exog_tau=w, **options)

    params, h = fit.params.to_numpy(), 1e-5
    jacobian = np.column_stack(
        [(value(params + h * e) - value(params - h * e)) / (2 * h) for e in np.eye(6)]
    )
    expected = np.sqrt(np.einsum("ij,jk,ik->i", jacobian, fit.cov_params().to_numpy(), jacobian))
    made = fit.get_prediction(some, which, **options)
    assert_allclose(made.se, expected, rtol=1e-5)
    frame = made.summary_frame(alpha=0.1)
    assert (frame.iloc[:, 2] < frame.iloc[:, 0]).all()
    assert (frame.iloc[:, 3] > frame.iloc[:, 0]).all()
    assert list(frame.index) == list(some.index)
    if which in ("tau", "prob"):
        assert made.conf_int(1e-12).min() >= 0.0
        assert made.conf_int(1e-12).max() <= 1.0


def test_residuals_are_standardised_row_by_row(fit):
    assert_allclose(fit.resid_standardized, fit.resid / fit.sigma)
    assert stats.kstest(fit.resid_pit, "uniform").pvalue > 0.01
    assert_allclose(stats.norm.cdf(fit.resid_quantile), fit.resid_pit, rtol=1e-8)
    assert abs(fit.resid_pearson.mean()) < 0.2
    assert_allclose(fit.quantile_level, quantile_huber.cdf(0.0, fit.tau, fit.kappa))
    level = QuantileHuberDistributional.from_formula("y ~ x", FRAME, tau="~ w", kappa=0.0).fit()
    assert_allclose(level.quantile_level, 1.0 - level.tau, rtol=1e-12)


def test_new_rows_need_their_offset_and_their_regressors(fit):
    x, z, _ = designs(FRAME)
    model = QuantileHuberDistributional(FRAME.y, x, exog_scale=z, offset=FRAME.o)
    made = model.fit()
    assert made.predict(x[:2], exog_scale=z[:2], offset=0.0).shape == (2,)
    with pytest.raises(DataError, match="offset"):
        made.predict(x[:2], exog_scale=z[:2])
    with pytest.raises(DataError, match="exog_scale is needed"):
        made.predict(x[:2], offset=0.0)
    with pytest.raises(DataError, match="exog_scale has 1 rows"):
        made.predict(x[:2], exog_scale=z[:1], offset=0.0)
    with pytest.raises(DataError, match="exog has 1 columns"):
        made.predict(x[:2, :1], exog_scale=z[:2], offset=0.0)
    named = fitted(offset="o")
    assert_allclose(named.predict(FRAME.iloc[:4]), named.fittedvalues.iloc[:4], rtol=1e-10)
    with pytest.raises(DomainError, match="which"):
        fit.predict(which="scale")
    with pytest.raises(DomainError, match="needs q"):
        fit.predict(which="quantile")


# --- storage ---------------------------------------------------------------------------------------


def test_fits_survive_pickle_and_the_removal_of_their_data(engine, tmp_path):
    fit = qhf.quantile_huber_distributional(
        "y ~ np.abs(x)", FRAME, scale="~ bs(z, df=4)", tau="~ center(w) + square(z)"
    ).fit()
    some = FRAME.iloc[:3]
    expected = fit.predict(some, which="quantile", q=0.3)
    table = str(fit.summary().tables[2])
    stored = pickle.dumps(fit)
    fit.save(tmp_path / "fit.pickle")
    fit.remove_data()
    small = pickle.dumps(fit)
    assert len(small) < 0.3 * len(stored)
    loaded = type(fit).load(tmp_path / "fit.pickle")
    for other in (pickle.loads(stored), pickle.loads(small), fit, loaded):
        assert_allclose(other.predict(some, which="quantile", q=0.3), expected, rtol=1e-12)
        assert str(other.summary().tables[2]) == table
    for ask in (fit.predict, fit.model.fit, fit.get_robustcov_results):
        with pytest.raises(DataError, match="removed"):
            ask()
    with pytest.raises(DataError, match="removed"):
        fit.resid  # noqa: B018


def test_sampling_weights_count_after_their_array_was_removed():
    full, part = (
        qhf.quantile_huber_distributional("y ~ x", FRAME, scale=scale, weights="count").fit()
        for scale in ("~ z", "~ 1")
    )
    full.remove_data()
    part.remove_data()
    with pytest.raises(DomainError, match="sampling weights"):
        full.lr_test(part)


def test_clones_are_the_same_model():
    model = qhf.quantile_huber_distributional(
        "y ~ x", FRAME, scale="~ z", tau=0.4, freq_weights="count", kappa=0.5
    )
    kwds = model._get_init_kwds()
    assert set(kwds) == {"kappa", "tau", "sigma", "tau_bounds", "freq_weights", "exog_scale"}
    clone = type(model)(model.endog, model.exog, **kwds)
    assert_allclose(clone.fit().params, model.fit().params, rtol=1e-12)


def test_the_same_class_is_everywhere():
    assert qh.QuantileHuberDistributional is QuantileHuberDistributional
    assert qhf.quantile_huber_distributional == QuantileHuberDistributional.from_formula


# --- bad input -------------------------------------------------------------------------------------

X, Z, W = designs(FRAME)
Y = FRAME.y.to_numpy()


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"exog_scal": Z}, TypeError, "exog_scal.*'exog_scale'"),
        ({"exog_scale": Z[:-1]}, DataError, "exog_scale has length 299"),
        ({"exog_tau": Z[:-1]}, DataError, "exog_tau has length 299"),
        ({"exog_scale": np.where(Z > 2.0, np.nan, Z)}, DataError, "exog_scale contains .* NaN"),
        (
            {"exog_tau": np.full(300, np.inf), "missing": "drop"},
            DataError,
            "exog_tau contains .* inf",
        ),
        ({"exog_scale": [["a"]] * 300}, DataError, "exog_scale must be numeric"),
        ({"exog_scale": np.empty((300, 0))}, DataError, "at least one column"),
        ({"exog_tau": W, "tau": 0.5}, DomainError, "tau is fixed"),
        ({"exog_scale": Z, "sigma": 1.0}, DomainError, "sigma is fixed"),
        ({"tau": 1.5}, DomainError, "tau"),
        ({"kappa": -1.0}, DomainError, "kappa"),
        ({"kappa": None}, DomainError, "kappa"),
        ({"weights": -np.ones(300)}, DataError, "weights must not be negative"),
        ({"weights": np.ones(5)}, DataError, "weights has length 5"),
        ({"offset": np.full(300, np.nan)}, DataError, "offset contains .* NaN"),
        ({"missing": "dorp"}, DataError, "dorp"),
        ({"tau_bounds": (0.5, 0.1)}, DomainError, "tau_bounds"),
    ],
)
def test_wrong_input_is_named(options, error, match):
    with pytest.raises(error, match=match):
        QuantileHuberDistributional(Y, X, **options)


def test_wrong_response_and_regressors_are_named():
    bad = Y.copy()
    bad[3] = np.nan
    with pytest.raises(DataError, match="endog contains 1 NaN"):
        QuantileHuberDistributional(bad, X, exog_scale=Z)
    dropped = QuantileHuberDistributional(bad, X, exog_scale=Z, missing="drop").fit()
    assert dropped.nobs == 299
    with pytest.raises(DataError, match="exog is None"):
        QuantileHuberDistributional(Y, None)
    frame = pd.DataFrame({"const": 1.0, "log_sigma_z": FRAME.x})
    with pytest.raises(DataError, match="log_sigma_z"):
        QuantileHuberDistributional(FRAME.y, frame, exog_scale=FRAME[["z"]])
    shuffled = FRAME[["z"]].sample(frac=1.0, random_state=0)
    matched = QuantileHuberDistributional(FRAME.y, FRAME[["x"]], exog_scale=shuffled).fit()
    direct = QuantileHuberDistributional(FRAME.y, FRAME[["x"]], exog_scale=FRAME[["z"]]).fit()
    assert_allclose(matched.params, direct.params, rtol=1e-12)


def test_wrong_formulas_and_options_are_named():
    make = qhf.quantile_huber_distributional
    with pytest.raises(TypeError, match=r"scael.*'scale'"):
        make("y ~ x", FRAME, scael="~ z")
    with pytest.raises(TypeError, match="exog_scale"):
        make("y ~ x", FRAME, exog_scale=Z)
    with pytest.raises(DataError, match="without response"):
        make("y ~ x", FRAME, scale="y ~ z")
    with pytest.raises(DataError, match="scale must be a formula"):
        make("y ~ x", FRAME, scale=1.0)
    with pytest.raises(DomainError, match="sigma is fixed"):
        make("y ~ x", FRAME, scale="~ z", sigma=1.0)
    with pytest.raises(Exception, match="nosuch"):
        make("y ~ x", FRAME, tau="~ nosuch")
    model = make("y ~ x", FRAME)
    with pytest.raises(DomainError, match="HC4"):
        model.fit(cov_type="HC4")
    with pytest.raises(DomainError, match="method"):
        model.fit(method="bfgs")


def test_separated_rows_end_with_a_warning_and_finite_numbers():
    rng = np.random.default_rng(0)
    frame = FRAME.assign(side=(FRAME.x > 0).astype(float))
    frame["y"] = frame.x + np.where(frame.side > 0, 1.0, -1.0) * rng.exponential(size=300)
    model = qhf.quantile_huber_distributional("y ~ x", frame, tau="~ side")
    with pytest.warns(BoundaryWarning, match="tau reached its bound"):
        fit = model.fit()
    assert not fit.converged
    assert np.isfinite(fit.params).all()
    assert np.isnan(fit.bse).tolist() == [False] * 3 + [True] * 2  # tau is held
    assert "NOT CONVERGED" in str(fit.summary())


def test_the_test_of_the_intercept_is_called_that(engine):
    fit = qhf.quantile_huber_distributional("y ~ x + C(g)", FRAME.assign(g=FRAME.x > 0)).fit()
    assert set(fit.wald_test_terms().table.index) == {"Intercept", "x", "C(g)"}


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3"])
def test_a_tau_on_its_bound_is_treated_as_known(cov_type):
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(100), rng.normal(size=100)])
    endog = exog.sum(axis=1) + rng.exponential(size=100)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberDistributional(endog, exog).fit(cov_type=cov_type)
    fixed = QuantileHuberDistributional(endog, exog, tau=float(fit.tau[0])).fit(cov_type=cov_type)
    assert_allclose(fit.bse[:3], fixed.bse, rtol=1e-4)
    assert np.isnan(fit.bse[3])
    assert np.isfinite(fit.wald_test("x1 = 0").pvalue)


# --- what the base gives -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nested():
    """Return the distributional fit with one scale and one asymmetry, and the linear one by ML."""
    with_constants = qhf.quantile_huber_distributional("y ~ x", FRAME).fit()
    return with_constants, qhf.quantile_huber("y ~ x", FRAME).fit(reml=False)


def test_influence_with_one_scale_and_one_asymmetry_is_that_of_the_linear_model(nested):
    ours, linear = (fit.get_influence() for fit in nested)
    assert_allclose(ours.hat_matrix_diag, linear.hat_matrix_diag, rtol=1e-6)
    assert_allclose(ours.dfbetas[:, :2], linear.dfbetas[:, :2], rtol=1e-5, atol=1e-8)
    slopes = [1 / linear.results.sigma, 1 / (linear.results.tau * (1 - linear.results.tau))]
    assert_allclose(ours.d_params[:, 2:], linear.d_params[:, 2:] * slopes, rtol=1e-5, atol=1e-8)
    assert_allclose(ours.cooks_distance[0], linear.cooks_distance[0], rtol=1e-4, atol=1e-8)
    assert list(ours.summary_frame().columns[:2]) == ["dfb_Intercept", "dfb_x"]


def test_one_step_deletion_is_near_the_refit_in_every_predictor(fit):
    moved = fit.get_influence().d_params
    for row in (3, 200):
        refit = fitted(FRAME.drop(index=FRAME.index[row]))
        distance = (fit.params - refit.params - moved[row]) / fit.bse
        assert np.abs(distance).max() < 0.05


def test_criteria_for_wrong_models_are_those_of_the_linear_model(nested):
    ours, linear = nested
    assert_allclose([ours.tic, ours.gbic], [linear.tic, linear.gbic], rtol=1e-6)


def test_residuals_brought_to_one_law_have_the_same_probabilities(fit, nested):
    found = fit._results._residuals
    assert_allclose(quantile_huber.cdf(found.u, found.tau, found.kappa), fit.resid_pit, rtol=1e-6)
    assert_allclose(nested[0]._results._residuals.u, nested[0].resid_standardized)


def test_goodness_of_fit_is_that_of_the_probabilities(fit):
    test = fit.goodness_of_fit(n_boot=9)
    assert test.ks == pytest.approx(stats.kstest(fit.resid_pit, "uniform").statistic, rel=1e-6)
    assert test.n_boot == 9
    assert test.ks_pvalue > 0.05


def test_the_bootstrap_resamples_all_regressors(fit):
    one, two = (fit.bootstrap(n_boot=8, rng=1, n_jobs=jobs) for jobs in (1, 2))
    assert_allclose(one.params, two.params, rtol=1e-6)
    assert list(one.bse.index) == NAMES
    parts = fit._results._parts()
    hc0 = fit.get_robustcov_results("HC0").cov_params()
    assert_allclose(parts.influence.T @ parts.influence, hc0, rtol=1e-8)
    steps = fit.bootstrap("multiplier", n_boot=4000, rng=0)
    assert_allclose(steps.bse, np.sqrt(np.diag(hc0)), rtol=0.1)
    law = fit.bootstrap("parametric", n_boot=8, rng=0)
    assert law.params.shape == (8, 6)
    with pytest.raises(DomainError, match="one sigma and one tau"):
        fit.bootstrap("wild", n_boot=8)
    groups = np.arange(len(FRAME)) % 30
    grouped = fit.get_robustcov_results("bootstrap", groups=groups, n_boot=8, rng=0)
    assert "cluster bootstrap with 8 replicates" in grouped.cov_kwds["description"]


def test_diagnostics_are_drawn(fit):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    assert len(fit.plot_diagnostics(n_simulations=5).axes) == 6
    for draw in (fit.plot_worm, fit.plot_qq, fit.plot_density, fit.plot_residuals):
        assert draw().has_data()
    assert fit.plot_partial_residuals("x").has_data()
    pyplot.close("all")


def test_tables_and_tests_need_no_data():
    kept = fitted(FRAME)
    before = str(kept.summary2())
    kept.remove_data()
    assert str(pickle.loads(pickle.dumps(kept)).summary2()) == before
    assert kept.wald_test("logit_tau_w = 0").pvalue < 1.0
    with pytest.raises(DataError, match="removed"):
        kept.get_influence()


def test_profiles_hold_a_coefficient_of_any_predictor(fit):
    for name in ("x", "log_sigma_z", "logit_tau_w"):
        profile = fit.profile_likelihood(name)
        assert profile.param == name
        frame = profile.to_frame()
        assert_allclose(frame[name], frame["value"])
        lower, upper = profile.conf_int()
        assert lower < fit.params[name] < upper
        wald = fit.get_robustcov_results("nonrobust").conf_int().loc[name]
        assert_allclose([lower, upper], wald, atol=0.6 * fit.bse[name])
    # at the value 0 it is the likelihood-ratio test of the model without the column
    at_zero = fit.profile_likelihood("logit_tau_w", [0.0]).to_frame().set_index("value")
    smaller = qhf.quantile_huber_distributional("y ~ x", FRAME, scale="~ z").fit()
    assert at_zero.loc[0.0, "lr"] == pytest.approx(fit.lr_test(smaller).statistic, abs=1e-6)
    limits = fit.conf_int(method="profile", cols=["logit_tau_w"])
    assert_allclose(limits.loc["logit_tau_w"], fit.profile_likelihood("logit_tau_w").conf_int())


def test_profiles_with_one_scale_and_one_asymmetry_are_those_of_the_linear_model(nested):
    ours, linear = nested
    assert_allclose(
        ours.profile_likelihood("x").conf_int(),
        linear.profile_likelihood("x").conf_int(),
        rtol=1e-6,
    )
    ends = linear.profile_likelihood("sigma").conf_int()
    assert_allclose(
        np.exp(ours.profile_likelihood("log_sigma_Intercept").conf_int()), ends, rtol=1e-5
    )


@pytest.mark.parametrize(
    "extra", [{}, {"weights": "v"}, {"freq_weights": "count"}, {"offset": "o"}]
)
@pytest.mark.parametrize("kappa", [4.0, 0.0])
def test_with_one_scale_and_one_asymmetry_errors_are_those_of_the_linear_model(kappa, extra):
    rng = np.random.default_rng(3)
    frame = FRAME.assign(
        v=rng.uniform(2.0, 9.0, 300), o=rng.normal(size=300), g=np.arange(300) % 20
    )
    one = qhf.quantile_huber("y ~ x", frame, kappa=kappa, **extra).fit(reml=False)
    other = qhf.quantile_huber_distributional("y ~ x", frame, kappa=kappa, **extra).fit()
    assert other.llf == pytest.approx(one.llf, rel=1e-9)
    slopes = [1.0, 1.0, one.sigma, one.tau * (1.0 - one.tau)]
    for cov_type, options in (("HC1", {}), ("HC3", {}), ("cluster", {"groups": "g"})):
        theirs = one.get_robustcov_results(cov_type, **options)
        ours = other.get_robustcov_results(cov_type, **options)
        assert_allclose(ours.bse * slopes, theirs.bse, rtol=1e-5)
        assert ours.df_resid_inference == theirs.df_resid_inference


def test_profile_intervals_of_all_coefficients_are_those_of_the_profiles(fit):
    limits = fit.profile_intervals(places=[1, 4])
    assert list(limits.dropna().index) == [fit.params.index[1], fit.params.index[4]]
    for place in (1, 4):
        profile = fit.profile_likelihood(place, [])
        assert_allclose(limits.iloc[place], profile.conf_int(), rtol=1e-9)
    with pytest.raises(DomainError, match="no parameter 'tau'"):
        fit.profile_likelihood()
