"""Each row of the table on the page on moving from other software, shown with numbers."""

import re
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from r_references import design, load
from scipy import stats

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE, quantile_huber

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "migrate.md"

ENGEL = sm.datasets.engel.load_pandas().data
Y, X = ENGEL["foodexp"], sm.add_constant(ENGEL["income"])


def check_loss(residuals, q):
    return float(np.sum(residuals * (q - (residuals < 0))))


@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
def test_quantreg_of_statsmodels(q):
    theirs = sm.QuantReg(Y, X).fit(q=q, p_tol=1e-10, max_iter=5000)
    ours = QuantileHuberMLE(Y, X, kappa=0.0, tau=1 - q).fit()
    assert_allclose(ours.params.iloc[:2], theirs.params, rtol=1e-5)
    assert check_loss(ours.resid, q) <= check_loss(theirs.resid, q)
    # QuantReg interpolates the quantile of the model without regressors
    assert_allclose(ours.prsquared, theirs.prsquared, rtol=3e-4)


@pytest.mark.parametrize(
    "fit", load("r_quantreg")["problems"]["engel"]["fits"], ids=lambda f: f["q"]
)
def test_rq_of_r(fit):
    ours = qhf.quantile_huber("foodexp ~ income", ENGEL, kappa=0.0, tau=1 - fit["q"]).fit()
    assert_allclose(ours.params.iloc[:2], fit["coef"], rtol=1e-7)


@pytest.mark.parametrize("q", [0.25, 0.9])
def test_quantile_regressor_of_scikit_learn(q):
    linear_model = pytest.importorskip("sklearn.linear_model")
    theirs = linear_model.QuantileRegressor(quantile=q, alpha=0.0).fit(ENGEL[["income"]], Y)
    ours = QuantileHuberMLE(Y, X, kappa=0.0, tau=1 - q).fit()
    assert_allclose(ours.params.iloc[:2], [theirs.intercept_, *theirs.coef_], rtol=1e-6)


@pytest.mark.parametrize("fit", load("r_conquer")["fits"], ids=lambda f: f"{f['q']}-{f['h']}")
def test_conquer_of_r_with_the_uniform_kernel(fit):
    exog, endog = design(load("r_conquer"))
    for sigma in (1.0, 3.0):
        model = QuantileHuberMLE(
            endog, exog, tau=1 - fit["q"], kappa=2 * fit["h"] / sigma, sigma=sigma
        )
        assert_allclose(model.fit().params, fit["coef"], rtol=1e-6)


@pytest.mark.parametrize("name", ["engel_income", "simulated_x_z"])
def test_alaplace3_of_vgam(name):
    """VGAM's numbers, converted, have its log-likelihood; ours is the maximum, a little higher."""
    problem = load("r_vgam")["problems"][name]
    vgam, exact = problem["vgam"], problem["exact"]
    tau = 1 / (1 + vgam["kappa_vgam"] ** 2)
    sigma = vgam["scale_vgam"] / np.sqrt(2 / (tau * (1 - tau)))
    model = QuantileHuberMLE(*design(problem)[::-1], kappa=0.0)
    assert_allclose(model.loglike([*vgam["coef"], sigma, tau]), vgam["loglik"], rtol=1e-12)
    fit = model.fit(reml=False)
    assert_allclose(fit.llf, exact["loglik"], rtol=1e-10)
    assert_allclose(fit.params, [*exact["coef"], exact["sigma"], exact["tau"]], rtol=1e-6)
    assert vgam["loglik"] <= fit.llf < vgam["loglik"] + 0.2


def greybox_density(x, scale, alpha):
    """The density of greybox's ``dalaplace``, from its documentation."""
    return alpha * (1 - alpha) / scale * np.exp(-x / scale * (alpha - (x <= 0)))


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_alm_of_greybox(alpha):
    x = np.linspace(-8.0, 8.0, 9)
    here = quantile_huber(tau=1 - alpha, kappa=0.0, scale=1.7)
    assert_allclose(here.pdf(x), greybox_density(x, 1.7, alpha), rtol=1e-13)
    fit = QuantileHuberMLE(Y, X, kappa=0.0, tau=1 - alpha).fit(reml=False)
    # the scale that maximises that likelihood is the mean of the quantile loss
    assert_allclose(fit.sigma, check_loss(fit.resid, alpha) / len(Y), rtol=1e-8)
    assert_allclose(fit.llf, np.log(greybox_density(fit.resid, fit.sigma, alpha)).sum(), rtol=1e-10)


@pytest.mark.parametrize("tau", [0.15, 0.5, 0.8])
def test_laplace_asymmetric_of_scipy(tau):
    theirs = stats.laplace_asymmetric(np.sqrt((1 - tau) / tau), scale=2 / np.sqrt(tau * (1 - tau)))
    here = quantile_huber(tau=tau, kappa=0.0, scale=2.0)
    x = np.linspace(-20.0, 20.0, 11)
    assert_allclose(here.pdf(x), theirs.pdf(x), rtol=1e-12)
    assert_allclose(here.ppf([0.1, 0.5, 0.9]), theirs.ppf([0.1, 0.5, 0.9]), rtol=1e-10)


@pytest.mark.parametrize("t", [0.8, 1.345])
def test_rlm_of_statsmodels_with_hubers_norm(t):
    norm = sm.robust.norms.HuberT(t)
    theirs = sm.RLM(Y, X, M=norm).fit(update_scale=False, tol=1e-12, maxiter=500)
    s = theirs.scale
    for sigma in (s, 0.5 * s):
        ours = QuantileHuberMLE(Y, X, tau=0.5, sigma=sigma, kappa=2 * t * s / sigma).fit()
        assert_allclose(ours.params.iloc[:2], theirs.params, rtol=1e-6)


def test_least_squares_is_the_limit_of_a_large_kappa():
    squares = sm.OLS(Y, X).fit()
    fit = QuantileHuberMLE(Y, X, kappa=1e6, tau=0.5).fit()
    assert_allclose(fit.params.iloc[:2], squares.params, rtol=1e-6)
    assert_allclose(fit.kappa * fit.sigma**2, squares.scale, rtol=1e-6)
    ordinary = QuantileHuberMLE(Y, X, kappa=1e6, tau=0.5).fit(reml=False)
    assert_allclose(ordinary.kappa * ordinary.sigma**2, squares.ssr / len(Y), rtol=1e-6)


def test_every_row_of_the_table_has_its_test_here():
    table = PAGE.read_text(encoding="utf-8").split("\n\n")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    words = {
        "QuantReg": test_quantreg_of_statsmodels,
        "quantreg::rq": test_rq_of_r,
        "QuantileRegressor": test_quantile_regressor_of_scikit_learn,
        "alpha=a": "test_regularized.py",
        "conquer": test_conquer_of_r_with_the_uniform_kernel,
        "alaplace3": test_alaplace3_of_vgam,
        'zero = "kappa"': "test_distributional.py",
        "greybox": test_alm_of_greybox,
        "laplace_asymmetric": test_laplace_asymmetric_of_scipy,
        "RLM": test_rlm_of_statsmodels_with_hubers_norm,
        "least squares": test_least_squares_is_the_limit_of_a_large_kappa,
    }
    for file, name in (("distributional", "vgam"), ("regularized", "QuantileRegressor")):
        text = (PAGE.parents[2] / "tests" / file / f"test_{file}.py").read_text(encoding="utf-8")
        assert name in text
    assert len(rows) == len(words)
    for row, word in zip(rows, words, strict=True):
        assert word in re.split(r"(?<!\\)\|", row)[1]
