"""The law and the fits in other people's tools: scipy's new distributions, marginaleffects."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

import qhreg.formula.api as qhf
from qhreg import quantile_huber

# --- scipy ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(stats, "make_distribution"), reason="scipy 1.15 or later")
@pytest.mark.parametrize(("tau", "kappa"), [(0.3, 2.0), (0.9, 4.0), (0.5, 0.5)])
def test_the_law_is_a_distribution_of_the_new_kind(tau, kappa):
    law = stats.make_distribution(quantile_huber)(tau=tau, kappa=kappa)
    known = quantile_huber(tau, kappa)
    points = np.array([-3.0, -0.2, 0.0, 0.7, 5.0])
    for new, old in (("pdf", "pdf"), ("logpdf", "logpdf"), ("cdf", "cdf"), ("ccdf", "sf")):
        np.testing.assert_allclose(getattr(law, new)(points), getattr(known, old)(points))
    levels = np.array([0.01, 0.5, 0.99])
    np.testing.assert_allclose(law.icdf(levels), known.ppf(levels))
    np.testing.assert_allclose(law.mean(), known.mean())
    np.testing.assert_allclose(law.variance(), known.var())
    np.testing.assert_allclose(law.entropy(), known.entropy())
    moved = 2.0 * law + 3.0
    shifted = quantile_huber(tau, kappa, loc=3.0, scale=2.0)
    np.testing.assert_allclose(moved.cdf(points), shifted.cdf(points))
    drawn = law.sample(2000, rng=0)
    assert stats.kstest(drawn, known.cdf).pvalue > 0.01


# --- marginaleffects --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engel():
    data = sm.datasets.engel.load_pandas().data
    return data.assign(half=pd.Categorical(np.where(np.arange(len(data)) % 2, "odd", "even")))


@pytest.fixture
def effects(engel):
    """marginaleffects, if it works with the installed Polars at all."""
    package = pytest.importorskip("marginaleffects")
    try:
        package.predictions(smf.ols("foodexp ~ income", engel).fit())
    except Exception as error:
        pytest.skip(f"marginaleffects fails on OLS with this Polars: {type(error).__name__}")
    return package


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_marginaleffects_reads_a_fit_through_its_wrapper_of_statsmodels(effects, engel):
    from marginaleffects.statsmodels import ModelStatsmodels

    fit = qhf.quantile_huber("foodexp ~ income * half", engel).fit()
    wrapped = ModelStatsmodels(fit)
    predicted = effects.predictions(wrapped)
    ours = fit.get_prediction()
    np.testing.assert_allclose(predicted["estimate"], ours.predicted)
    np.testing.assert_allclose(predicted["std_error"], ours.se, rtol=1e-4)
    slopes = effects.avg_slopes(wrapped, variables="income")
    share = (engel["half"] == "odd").mean()
    contrast = fit.t_test([0.0, 0.0, 1.0, share, 0.0, 0.0])
    np.testing.assert_allclose(slopes["estimate"][0], contrast.effect[0], rtol=1e-5)
    # their derivative of a difference quotient: as far off for QuantReg
    np.testing.assert_allclose(slopes["std_error"][0], contrast.sd[0, 0], rtol=0.03)
    unit = effects.avg_comparisons(wrapped, variables="income")
    np.testing.assert_allclose(unit["std_error"][0], contrast.sd[0, 0], rtol=1e-3)
    test = effects.hypotheses(wrapped, hypothesis="b0 = b1")
    direct = fit.t_test("Intercept = half[T.odd]")
    np.testing.assert_allclose(test["estimate"][0], direct.effect[0])
    np.testing.assert_allclose(test["std_error"][0], direct.sd[0, 0], rtol=1e-4)
