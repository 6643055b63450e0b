"""Sampling weights that leave few rows: what is counted, and when it is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from qhreg import QuantileHuberDistributional, QuantileHuberMLE
from qhreg.covariance.curvature import row_weights
from qhreg.covariance.effective import effective_rows, hidden, is_light
from qhreg.exceptions import CurvatureWarning


def line(seed=0, n=200):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.normal(size=n)])
    return exog, exog @ [1.0, 2.0] + rng.standard_t(4, size=n), rng


def cells(weights_of_third, seed=0, n=200):
    """Three categories, the last of three rows with given weights among even ones."""
    rng = np.random.default_rng(seed)
    place = np.where(np.arange(n) < 3, 2, np.arange(n) % 2)
    weights = rng.lognormal(0.0, 0.5, size=n)
    weights[:3] = weights_of_third
    return np.eye(3)[place], rng.normal(size=n), weights


def shares(exog, weights):
    """The share of each variance that residuals show, from the whole n by n matrix."""
    weighted = exog * weights[:, None]
    moves = np.linalg.solve(exog.T @ weighted, weighted.T)
    annihilator = np.eye(len(exog)) - exog @ moves
    seen = (annihilator**2).sum(axis=1)
    return (moves**2) @ seen / (moves**2).sum(axis=1)


def test_equal_weights_leave_all_rows():
    assert effective_rows(row_weights(None, np.full(7, 3e200), 7)) == pytest.approx(7.0)
    assert effective_rows(row_weights(np.array([2.0, 3.0]), np.ones(2), 2)) == pytest.approx(5.0)
    assert effective_rows(row_weights(None, np.array([1.0, 1e-9, 1e-9]), 3)) == pytest.approx(1.0)


@pytest.mark.parametrize("heaviest", [1.0, 3.0, 5.0, 10.0, 100.0])
def test_hidden_coefficients_are_those_of_the_whole_projection(heaviest):
    exog, _, weights = cells([heaviest, 1.0, 1.0])
    expected = tuple(np.flatnonzero(shares(exog, weights) < 0.25))
    assert hidden(exog, row_weights(None, weights, 200)) == expected
    assert expected == ((2,) if heaviest >= 5.0 else ())


def test_counts_are_rows_given_several_times():
    exog, _, weights = cells([100.0, 1.0, 1.0])
    counts = np.full(200, 2.0)
    assert hidden(exog, row_weights(counts, weights, 200)) == ()
    counts[:3] = 1.0
    assert hidden(exog, row_weights(counts, weights, 200)) == (2,)


def test_the_bound_on_leverages_is_one():
    for seed in range(20):
        exog, _, rng = line(seed, 30)
        weights = rng.lognormal(0.0, 2.0, size=30)
        flat = np.linalg.inv(exog.T @ (exog * weights[:, None]))
        leverage = weights * ((exog @ flat) * exog).sum(axis=1)
        assert is_light(exog, weights, flat) == (leverage.max() <= 0.5)
        assert not is_light(exog, weights, 1e3 * flat)


@pytest.mark.parametrize("tau", [None, 0.5])
@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HAC", "cluster"])
def test_as_few_heavy_rows_as_parameters_are_named(cov_type, tau):
    exog, endog, rng = line()
    weights = 10.0 ** rng.uniform(-6.0, -2.0, size=200)
    weights[:2] = 1e4
    options = {"groups": np.arange(200) // 2} if cov_type == "cluster" else None
    fit = QuantileHuberMLE(endog, exog, weights=weights, tau=tau).fit(
        cov_type=cov_type, cov_kwds=options
    )
    with pytest.warns(CurvatureWarning, match="are worth 2 rows of equal weight, and there are"):
        assert fit.bse[1] < 1e-3
    assert "weights that amount to 2 rows" in fit.cov_kwds["description"]


def test_one_heavy_row_of_a_category_is_named():
    exog, endog, weights = cells([100.0, 1.0, 1.0])
    fit = QuantileHuberMLE(endog, exog, weights=weights, tau=0.5).fit()
    with pytest.warns(
        CurvatureWarning, match="sampling weight that identifies x3: they are fitted nearly"
    ):
        assert fit.bse[2] < 0.5 * fit.bse[0]


@pytest.mark.parametrize("spread", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_ordinary_survey_weights_raise_no_alarm(spread, kappa):
    for seed in range(5):
        exog, endog, rng = line(seed)
        levels = np.eye(5)[rng.integers(0, 5, size=200)][:, 1:]
        weights = 1e3 * rng.lognormal(0.0, spread, size=200)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = QuantileHuberMLE(
                endog, np.column_stack([exog, levels]), weights=weights, kappa=kappa, tau=0.5
            )
            assert np.isfinite(model.fit().bse).all()


def test_the_scale_of_weights_does_not_matter():
    exog, endog, weights = cells([100.0, 1.0, 1.0])
    for unit in (1e-100, 1e100):
        fit = QuantileHuberMLE(endog, exog, weights=unit * weights, tau=0.5).fit()
        with pytest.warns(CurvatureWarning, match="identifies x3"):
            assert np.isfinite(fit.bse).all()


def test_several_fits_together_say_it_too():
    exog, endog, weights = cells([100.0, 1.0, 1.0])
    process = QuantileHuberMLE(endog, exog, weights=weights).fit_process([0.4, 0.6])
    with pytest.warns(CurvatureWarning, match="identifies x3"):
        process.cov_between()


def test_plots_count_rows_given_several_times():
    exog, endog, rng = line()
    weights, counts = rng.lognormal(size=200), rng.integers(1, 4, size=200)
    short = QuantileHuberMLE(endog, exog, weights=weights, freq_weights=counts).fit()
    long = QuantileHuberMLE(
        endog.repeat(counts), exog.repeat(counts, axis=0), weights=weights.repeat(counts)
    ).fit()
    assert short._results._nobs_shown == pytest.approx(long._results._nobs_shown)


@pytest.mark.parametrize("heaviest", [100.0, 1e6])
def test_a_distributional_fit_says_it_too(heaviest):
    exog, endog, weights = cells([heaviest, 1.0, 1.0])
    scale = np.column_stack([np.ones(200), exog[:, 0]])
    model = QuantileHuberDistributional(endog, exog, exog_scale=scale, tau=0.5, weights=weights)
    fit = model.fit(cov_type="HC1")
    said = "identifies x3: they are fitted" if heaviest < 1e6 else "are worth 1 rows of equal"
    with pytest.warns(CurvatureWarning, match=said):
        assert fit.bse[2] < 0.5 * fit.bse[0]
