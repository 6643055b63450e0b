"""Information criteria for models that may be wrong, and the norm of the score at the fit."""

import numpy as np
import pytest
from model_data import model_data
from numpy.testing import assert_allclose

from qhreg import QuantileHuberMLE
from qhreg.covariance.parts import covariance_parts
from qhreg.exceptions import BoundaryWarning, DomainError
from qhreg.family.distribution import quantile_huber


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    return exog, exog.sum(axis=1) + quantile_huber.rvs(0.4, 1.0, size=n, random_state=rng)


def test_criteria_for_wrong_models_follow_their_formulas():
    exog, endog = draw(400)
    fit = QuantileHuberMLE(endog, exog).fit()
    parts = covariance_parts(model_data(exog, endog), fit.solution)
    ratio = np.linalg.solve(parts.bread, parts.scores.T @ parts.scores)
    trace, log_det = np.trace(ratio), np.log(np.linalg.det(ratio))
    bic = -2.0 * fit.llf + 5 * np.log(400)
    assert_allclose(fit.tic, -2.0 * fit.llf + 2.0 * trace, rtol=1e-9)
    assert_allclose(fit.gbic, bic - log_det, rtol=1e-9)
    assert_allclose(fit.info_criteria("gbicp"), bic - log_det + trace, rtol=1e-9)


def test_criteria_for_wrong_models_count_a_constrained_fit_by_its_free_directions():
    exog, endog = draw(400)
    held = QuantileHuberMLE(endog, exog).fit_constrained("x1 = x2, tau = 0.4")
    alone = QuantileHuberMLE(
        endog, np.column_stack([exog[:, 0], exog[:, 1] + exog[:, 2]]), tau=0.4
    ).fit()
    for name in ("tic", "gbic"):
        assert_allclose(held.info_criteria(name), alone.info_criteria(name), rtol=1e-6)


def test_criteria_for_wrong_models_count_cases():
    exog, endog = draw(200)
    f = np.random.default_rng(0).integers(1, 4, 200)
    weighted = QuantileHuberMLE(endog, exog, freq_weights=f).fit()
    repeated = QuantileHuberMLE(np.repeat(endog, f), np.repeat(exog, f, axis=0)).fit()
    for name in ("tic", "gbic", "gbicp"):
        assert_allclose(weighted.info_criteria(name), repeated.info_criteria(name), rtol=1e-4)


def test_an_unknown_criterion_is_named():
    exog, endog = draw(100)
    with pytest.raises(DomainError, match=r"crit must be one of .*gbicp; got 'dic'"):
        QuantileHuberMLE(endog, exog).fit().info_criteria("dic")


@pytest.mark.parametrize(
    "options", [{}, {"tau": 0.3}, {"sigma": 1.0}, {"weights": np.arange(300.0)}]
)
def test_the_gradient_is_zero_at_the_fit(options):
    exog, endog = draw(300)
    fit = QuantileHuberMLE(endog, exog, **options).fit()
    assert fit.gradient_norm < 1e-4
    assert fit.mle_retvals["gradient_norm"] == fit.gradient_norm


def test_the_gradient_norm_is_the_length_of_a_newton_step_in_standard_errors():
    exog, endog = draw(4000)
    model = QuantileHuberMLE(endog, exog)
    fit = model.fit(reml=False)._results
    moved = fit.params + 0.1 * fit.bse
    score = model.score(moved)
    assert_allclose(score, model.score_obs(moved).sum(axis=0), rtol=1e-9, atol=1e-9)
    expected = np.sqrt(score @ np.linalg.inv(model.information(moved)) @ score)
    fit.solution = type(fit.solution)(
        **{
            **vars(fit.solution),
            "beta": moved[:3],
            "sigma": float(moved[3]),
            "tau": float(moved[4]),
        }
    )
    assert_allclose(fit.gradient_norm, expected, rtol=1e-6)
    assert 0.05 < fit.gradient_norm < 0.6


def test_the_gradient_ignores_what_is_held():
    exog, endog = draw(300)
    fit = QuantileHuberMLE(endog, exog).fit_constrained("x1 = x2, tau = 0.3")
    assert fit.gradient_norm < 1e-4
    rng = np.random.default_rng(0)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(rng.exponential(size=60), np.ones((60, 1))).fit(reml=False)
    assert fit.solution.tau_at_bound
    assert np.isfinite(fit.gradient_norm)
    assert np.isnan(QuantileHuberMLE(endog, exog, kappa=0.0).fit().gradient_norm)


def test_the_gradient_norm_survives_the_removal_of_the_data():
    exog, endog = draw(300)
    fit = QuantileHuberMLE(endog, exog).fit()
    fit.remove_data()
    assert fit.mle_retvals["gradient_norm"] < 1e-4
