"""The model with kappa estimated: inside its range, at zero, at infinity, with others fixed."""

import re

import numpy as np
import pytest
import statsmodels.api as sm

from qhreg import QuantileHuberMLE, quantile_huber
from qhreg.exceptions import BoundaryWarning
from qhreg.solver import solve

EXOG = sm.add_constant(np.random.default_rng(0).normal(size=(600, 1)))


def response(noise):
    return EXOG.sum(axis=1) + noise


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    noise = quantile_huber.rvs(0.3, 2.0, size=600, random_state=rng)
    return QuantileHuberMLE(response(noise), EXOG, kappa=None).fit()


def test_kappa_is_a_parameter_with_a_standard_error(fit):
    assert fit.model.exog_names == ["const", "x1", "sigma", "tau", "kappa"]
    assert fit.params[-1] == fit.kappa
    assert 0.2 < fit.kappa < 10.0
    assert fit.bse[-1] > 0.0
    assert fit.kappa_limit is None
    assert fit.df_resid == 600 - 2
    lower, upper = fit.conf_int()[-1]
    assert 0.0 < lower < fit.kappa < upper
    assert re.search(rf"\nkappa +{fit.kappa:.4f} +{fit.bse[-1]:.3f} ", str(fit.summary()))
    information = fit.model.information(fit.params)
    expected = fit.get_robustcov_results("nonrobust").cov_params()
    np.testing.assert_allclose(expected @ information, np.eye(5), atol=1e-8)


def test_no_other_width_fits_better(fit):
    model = fit.model
    for kappa in [0.0, *np.geomspace(0.05, 60.0, 25)]:
        other = solve(model.exog, model.endog, kappa=float(kappa))
        assert other.loglike_restricted <= fit.llf_restricted + 1e-7
    plain = model.fit(reml=False)
    np.testing.assert_allclose(model.score(plain.params), 0.0, atol=1e-3)


def test_the_null_model_estimates_kappa_too(fit):
    null = QuantileHuberMLE(fit.model.endog, np.ones(600), kappa=None).fit()
    assert fit.llnull == pytest.approx(null.llf, abs=1e-6)


@pytest.mark.parametrize("fixed", [{"tau": 0.3}, {"sigma": 1.0}, {"tau": 0.3, "sigma": 1.0}])
def test_the_others_can_be_fixed(fit, fixed):
    made = QuantileHuberMLE(fit.model.endog, EXOG, kappa=None, **fixed).fit(cov_type="HC1")
    assert made.params.size == 5 - len(fixed)
    assert made.model.exog_names[-1] == "kappa"
    assert made.llf <= fit.llf + 1e-8
    assert np.isfinite(made.bse).all()


def test_kappa_can_be_constrained(fit):
    held = fit.model.fit_constrained("kappa = 1")
    assert re.search(r"\nkappa +1\.0000 +\(fixed\)", str(held.summary()))
    direct = QuantileHuberMLE(fit.model.endog, EXOG, kappa=1.0).fit()
    assert held.llf == pytest.approx(direct.llf, abs=1e-9)
    np.testing.assert_allclose(held.bse[:-1], direct.bse, rtol=1e-6)
    assert held.df_resid == direct.df_resid


def test_peaked_noise_ends_at_the_laplace_limit():
    rng = np.random.default_rng(4)
    noise = rng.laplace(size=600) * rng.choice([0.05, 3.0], 600)
    with pytest.warns(BoundaryWarning, match="kappa ended at 0"):
        fit = QuantileHuberMLE(response(noise), EXOG, kappa=None).fit()
    assert fit.kappa_limit == "laplace"
    assert fit.kappa == 0.0
    assert np.isnan(fit.bse[-1])
    laplace = QuantileHuberMLE(response(noise), EXOG, kappa=0.0).fit()
    np.testing.assert_allclose(fit.bse[:-1], laplace.bse, rtol=1e-8)
    assert "kappa ended at 0" in str(fit.summary())


def test_light_tails_end_at_the_normal_limit():
    noise = np.random.default_rng(5).uniform(-1.0, 1.0, 600)
    with pytest.warns(BoundaryWarning, match="infinity"):
        fit = QuantileHuberMLE(response(noise), EXOG, kappa=None).fit(cov_type="nonrobust")
    ols = sm.OLS(response(noise), EXOG).fit()
    assert fit.kappa_limit == "gaussian"
    with pytest.warns(BoundaryWarning, match="infinity"):
        plain = fit.model.fit(reml=False)
    assert plain.llf == pytest.approx(ols.llf, abs=1e-6)
    assert fit.sigma**2 * fit.solution.kappa == pytest.approx(ols.mse_resid, rel=1e-6)
    np.testing.assert_allclose(fit.params[:2], ols.params, rtol=1e-8)
    np.testing.assert_allclose(fit.bse[:2], ols.bse, rtol=5e-3)
    assert np.isnan(fit.bse[-2:]).all()
    assert "kappa ended at infinity" in str(fit.summary())
    assert np.isfinite(fit.get_prediction().summary_frame().to_numpy()).all()
