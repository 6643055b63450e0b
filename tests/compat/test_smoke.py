"""What must work with every supported statsmodels, pandas and formula engine, in a few seconds."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels
import statsmodels.api as sm

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE


def plus_one(values):
    return values + 1.0


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    made = pd.DataFrame(
        {
            "x": rng.normal(size=250),
            "z": rng.uniform(1.0, 3.0, size=250),
            "g": rng.choice(["a", "b", "c"], 250),
            "w": rng.integers(1, 4, 250).astype(float),
            "o": rng.normal(size=250),
        }
    )
    made["y"] = 1.0 + 2.0 * made.x + rng.exponential(size=250) + 0.5 * rng.normal(size=250)
    made.loc[[3, 4], "x"] = np.nan
    made.loc[9, "w"] = np.nan
    return made


@pytest.fixture(scope="module")
def fit(frame):
    formula = "y ~ plus_one(x) + C(g) + bs(z, df=4)"
    return qhf.quantile_huber(formula, frame, freq_weights="w", offset="o").fit()


def test_the_engine_asked_for_is_used(fit):
    asked = os.environ.get("SM_FORMULA_ENGINE")
    name = "design_info" if statsmodels.__version__.startswith("0.14") else "model_spec"
    assert asked is None or type(getattr(fit.model.data, name)).__module__.startswith(asked)


def test_the_fit_equals_that_of_the_arrays(fit, frame):
    kept = frame.dropna()
    direct = QuantileHuberMLE(
        kept.y.to_numpy(), fit.model.exog, freq_weights=kept.w, offset=kept.o.to_numpy()
    ).fit()
    np.testing.assert_allclose(fit.params, direct.params, rtol=1e-9)
    assert fit.nobs == kept.w.sum()


def test_tables_and_tests_can_be_made(fit):
    for made in (fit.summary(), fit.summary2()):
        assert "tau" in made.as_text()
        assert "<table" in made.as_html()
        assert "tabular" in made.as_latex()
    assert fit.test_symmetry().wald.pvalue == pytest.approx(fit.pvalues["tau"])
    terms = fit.wald_test_terms().table
    assert set(terms.index) >= {"Intercept", "C(g)", "plus_one(x)"}
    assert all(isinstance(float(value), float) for value in terms["statistic"])
    assert len(fit.t_test_pairwise("C(g)").result_frame) == 3
    assert fit.get_robustcov_results("cluster", groups="g").cov_type == "cluster"


def test_predictions_go_through_the_formula_and_survive_pickle(fit, frame):
    some = frame.iloc[[0, 3, 7]]
    predicted = fit.predict(some)
    assert predicted.isna().tolist() == [False, True, False]
    assert predicted.iloc[0] == pytest.approx(fit.fittedvalues.iloc[0])
    stored = pickle.loads(pickle.dumps(fit))
    stored.remove_data()
    stored = pickle.loads(pickle.dumps(stored))
    pd.testing.assert_series_equal(stored.predict(some), predicted)
    assert stored.get_prediction(some).summary_frame().shape == (3, 6)
    assert "tau" in str(stored.summary())


def test_constraints_and_influence(frame):
    model = qhf.quantile_huber("y ~ x + z", frame)
    held = model.fit_constrained("x = 2, tau = 0.5")
    assert held.params["x"] == pytest.approx(2.0)
    assert held.tau == 0.5
    influence = model.fit().get_influence().summary_frame()
    assert np.isfinite(influence.to_numpy()).all()


def test_arrays_work_without_a_formula(frame):
    kept = frame.dropna()
    exog = sm.add_constant(kept[["x", "z"]])
    made = QuantileHuberMLE(kept.y, exog, weights=kept.w.sample(frac=1.0, random_state=0)).fit()
    assert list(made.params.index) == ["const", "x", "z", "sigma", "tau"]
    assert made.cov_type == "HC3"
    assert made.resid.index.equals(kept.index)


def test_columns_may_be_floats_integers_booleans_and_nullable(frame):
    kept = frame.dropna()
    exog = pd.DataFrame(
        {"const": 1, "x": kept.x, "high": kept.z > 2.0, "n": kept.w.astype("Int64")}
    )
    fit = QuantileHuberMLE(kept.y, exog).fit()
    np.testing.assert_array_equal(
        fit.params, QuantileHuberMLE(kept.y, exog.astype(float)).fit().params
    )


def test_a_missing_category_predicts_nan(fit, frame):
    some = frame.dropna().iloc[:3].copy()
    some["g"] = some.g.astype(object)
    some.iloc[1, some.columns.get_loc("g")] = None
    predicted = fit.predict(some)
    assert list(np.isnan(predicted)) == [False, True, False]


def test_formulas_of_scale_and_asymmetry(frame):
    fit = qhf.quantile_huber_distributional(
        "y ~ x", frame, scale="~ plus_one(z)", tau="~ C(g) + center(x)", freq_weights="w"
    ).fit()
    assert fit.nobs == frame.dropna().w.sum()
    assert np.isfinite(
        fit.t_test("log_sigma_plus_one(z) = 0, logit_tau_C(g)[T.b] = 0").pvalue
    ).all()
    some = frame.iloc[[0, 3, 7]]
    predicted = fit.predict(some, which="quantile", q=0.9)
    assert predicted.isna().tolist() == [False, True, False]
    assert predicted.iloc[0] == pytest.approx(fit.predict(which="quantile", q=0.9).iloc[0])
    stored = pickle.loads(pickle.dumps(fit))
    stored.remove_data()
    stored = pickle.loads(pickle.dumps(stored))
    pd.testing.assert_series_equal(stored.predict(some, which="quantile", q=0.9), predicted)
    assert "log_sigma_plus_one(z)" in stored.summary().as_html()
