"""One table for six likelihoods, each against an independent computation."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from qhreg import QuantileHuberMLE, compare_models
from qhreg.exceptions import DomainError, RankWarning

NAMES = [
    "least squares",
    "least absolute deviations",
    "Huber",
    "asymmetric Laplace",
    "quantile Huber",
    "quantile Huber, kappa estimated",
]


@pytest.fixture(scope="module")
def engel():
    return sm.datasets.engel.load_pandas().data


@pytest.fixture(scope="module")
def compared(engel):
    return compare_models("foodexp ~ income", engel)


def test_the_table_has_one_row_for_each_model(compared):
    assert list(compared.table.index) == NAMES
    assert compared.table.k.tolist() == [3, 3, 3, 4, 4, 5]
    assert compared.nobs == 235
    assert list(compared.fits) == NAMES[1:]


def test_least_squares_is_that_of_statsmodels(compared, engel):
    ols = sm.OLS.from_formula("foodexp ~ income", engel).fit()
    row = compared.table.loc["least squares"]
    deviation = np.sqrt(ols.scale)
    assert row.sigma == pytest.approx(deviation, rel=1e-10)
    assert row.llf == pytest.approx(stats.norm.logpdf(ols.resid, scale=deviation).sum(), abs=1e-8)
    assert row.aic == pytest.approx(6 - 2 * row.llf)
    assert row.bic == pytest.approx(3 * np.log(235) - 2 * row.llf)


def test_least_absolute_deviations_is_the_laplace_law_at_the_median_regression(compared, engel):
    median = sm.QuantReg.from_formula("foodexp ~ income", engel).fit(
        q=0.5, max_iter=5000, p_tol=1e-10
    )
    scale = np.abs(median.resid).sum() / 233
    row = compared.table.loc["least absolute deviations"]
    assert row.llf == pytest.approx(stats.laplace.logpdf(median.resid, scale=scale).sum(), abs=1e-4)
    assert row.sigma == pytest.approx(scale / 2, rel=1e-5)


def test_models_that_contain_others_are_not_below_them(compared):
    llf = compared.table.llf
    assert llf["asymmetric Laplace"] >= llf["least absolute deviations"]
    assert llf["quantile Huber"] >= llf["Huber"]
    for name in NAMES[:-1]:
        assert llf["quantile Huber, kappa estimated"] >= llf[name] - 1e-6


def test_the_best_model_has_the_least_aic(compared):
    table = compared.table
    assert table.loc[compared.best, "delta_aic"] == 0.0
    assert (table.delta_aic >= 0).all()
    assert f"least aic: {compared.best}" in str(compared)
    assert "asymmetric Laplace" in compared._repr_html_()
    assert table.aic.tolist() == pytest.approx((2 * table.k - 2 * table.llf).tolist())


def test_normal_noise_is_recognised():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = 1 + x + stats.norm.ppf((rng.permutation(300) + 0.5) / 300)
    made = compare_models(endog=y, exog=sm.add_constant(x))
    assert made.best == "least squares"
    assert list(made.notes) == ["quantile Huber, kappa estimated"]
    for shown in (repr(made), made._repr_html_()):
        assert "quantile Huber, kappa estimated: kappa ended at infinity" in shown
        assert "least aic: least squares" in shown
    assert made.table.kappa["quantile Huber, kappa estimated"] == np.inf
    assert made.table.llf["quantile Huber, kappa estimated"] == pytest.approx(
        made.table.llf["least squares"], abs=1e-6
    )


def test_arrays_give_the_table_of_the_formula_and_the_width_is_passed_on(engel):
    frame = engel.assign(w=1.0 + np.arange(235) % 2)
    by_formula = compare_models("foodexp ~ income", frame, kappa=0.5, weights="w")
    by_arrays = compare_models(
        endog=frame.foodexp, exog=sm.add_constant(frame[["income"]]), kappa=0.5, weights=frame.w
    )
    np.testing.assert_allclose(
        by_formula.table.to_numpy(float), by_arrays.table.to_numpy(float), rtol=1e-6
    )
    single = QuantileHuberMLE.from_formula("foodexp ~ income", frame, kappa=0.5, weights="w").fit()
    assert by_formula.table.llf["quantile Huber"] == pytest.approx(single.llf)
    assert by_formula.table.kappa["Huber"] == 0.5


def test_names_in_the_formula_are_those_of_the_caller(engel):
    def shifted(values):
        return values + 1.0

    made = compare_models("foodexp ~ shifted(income)", engel)
    assert "shifted(income)" in made.fits["Huber"].params.index


def test_half_a_description_is_rejected():
    with pytest.raises(DomainError, match="formula with data, or endog with exog"):
        compare_models("y ~ x")
    with pytest.raises(DomainError, match="formula with data, or endog with exog"):
        compare_models()


def test_warnings_that_are_about_the_data_are_passed_on():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    with pytest.warns(RankWarning):
        made = compare_models(endog=x + rng.laplace(size=60), exog=np.column_stack([x, 2 * x]))
    assert set(made.table.k) == {2, 3, 4}
