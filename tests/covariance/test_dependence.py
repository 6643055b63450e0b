"""Dependent rows through the model: clusters that show too little, empty ones, two ways at once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE, quantile_huber
from qhreg.exceptions import CurvatureWarning, DataError


def panel(seed=0, n_firms=12, n_years=10, effect=0.0):
    """Return a panel whose rows share an effect of their firm; d marks the rows of one of them."""
    rng = np.random.default_rng(seed)
    n = n_firms * n_years
    frame = pd.DataFrame(
        {
            "firm": np.repeat(np.arange(n_firms), n_years),
            "year": np.tile(np.arange(n_years), n_firms),
            "x": rng.standard_normal(n),
        }
    )
    frame["d"] = (frame.firm == 3) * 1.0
    frame["y"] = frame.x + effect * rng.standard_normal(n_firms)[frame.firm.to_numpy()]
    frame["y"] += quantile_huber.rvs(0.4, 1.0, size=n, random_state=rng)
    return frame


def by_firm(formula, data, groups="firm", **options):
    """Return the fit with clustered standard errors, and what they warn about."""
    fit = qhf.quantile_huber(formula, data, **options).fit(
        cov_type="cluster", cov_kwds={"groups": groups}
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = fit.bse
    assert all(issubclass(each.category, CurvatureWarning) for each in caught)
    return fit, [str(each.message) for each in caught]


def test_clusters_of_one_row_are_no_clusters():
    frame = panel()
    frame["row"] = np.arange(len(frame))
    kwds = {"groups": "row", "use_correction": False}
    model = qhf.quantile_huber("y ~ x + d", frame)
    clustered = model.fit(cov_type="cluster", cov_kwds=kwds)
    assert_allclose(clustered.bse, model.fit(cov_type="HC0").bse, rtol=1e-8)
    assert clustered.df_resid_inference == 119


def test_no_lag_is_no_time_series():
    model = qhf.quantile_huber("y ~ x + d", panel())
    series = model.fit(cov_type="HAC", cov_kwds={"maxlags": 0})
    assert_allclose(series.bse, model.fit(cov_type="HC0").bse, rtol=1e-8)
    corrected = model.fit(cov_type="HAC", cov_kwds={"maxlags": 0, "use_correction": True})
    assert_allclose(corrected.bse, model.fit(cov_type="HC1").bse, rtol=1e-8)


def test_clusters_that_share_an_effect_make_errors_larger():
    frame = panel(n_firms=30, effect=3.0)
    fit, _ = by_firm("y ~ x", frame)
    assert fit.bse["Intercept"] > 1.5 * fit.get_robustcov_results("HC1").bse["Intercept"]


@pytest.mark.filterwarnings("ignore:the coefficient of d is not determined")
@pytest.mark.parametrize("kappa", [0.0, 1.0])
@pytest.mark.parametrize("kind", [None, "weights", "freq_weights"])
def test_fits_at_several_tau_have_together_the_errors_they_have_alone(kind, kappa):
    frame = panel()
    frame["w"] = 1.0 + frame.year % 3
    options = {} if kind is None else {kind: "w"}
    process = qhf.quantile_huber("y ~ x + d", frame, kappa=kappa, **options).fit_process(
        [0.3, 0.5, 0.7], cov_type="cluster", cov_kwds={"groups": "firm"}
    )
    alone = process.bse.to_numpy()
    joint = process.cov_between().to_numpy()
    assert_allclose(np.sqrt(joint.diagonal()).reshape(3, -1), alone, rtol=1e-6)
    size = np.sqrt(joint.diagonal())
    assert np.linalg.eigvalsh(joint / np.outer(size, size))[0] > -1e-12


@pytest.mark.parametrize("kind", ["weights", "freq_weights"])
@pytest.mark.parametrize("groups", ["firm", ["firm", "year"]])
def test_a_cluster_without_weight_is_not_counted(kind, groups):
    frame = panel()
    frame["w"] = np.where(frame.firm < 4, 0.0, 1.0 + frame.year % 3)
    whole, _ = by_firm("y ~ x", frame, groups, **{kind: "w"})
    part, _ = by_firm("y ~ x", frame[frame.w > 0.0], groups, **{kind: "w"})
    assert_allclose(whole.bse, part.bse, rtol=1e-6)
    frame["w"] = (frame.firm == 2) * 1.0
    with pytest.raises(DataError, match="only one cluster with weight"):
        _ = by_firm("y ~ x", frame, "firm", **{kind: "w"})[0].bse


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_the_cluster_bootstrap_draws_no_cluster_without_weight():
    frame = panel(n_firms=6)
    frame["w"] = np.where(frame.firm < 2, 0.0, 1.0)
    made = [
        qhf.quantile_huber("y ~ x", data, weights="w")
        .fit()
        .bootstrap(groups="firm", n_boot=20, rng=1)
        for data in (frame, frame[frame.w > 0.0])
    ]
    assert_allclose(made[0].params, made[1].params, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.parametrize("seed", range(8))
def test_two_ways_give_the_same_in_all_units(seed):
    rng = np.random.default_rng(seed)
    n = 60
    exog = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    endog = exog.sum(axis=1) + 3.0 * quantile_huber.rvs(0.3, 1.0, size=n, random_state=rng)
    groups = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 4, n)])
    kwds = {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
    bounds = {"tau_bounds": (0.05, 0.95)}  # a fit on a farther one has no standard errors
    plain = QuantileHuberMLE(endog, exog, **bounds).fit(**kwds)
    units = np.array([1.0, 1e6, 1e-3])
    other = QuantileHuberMLE(endog, exog * units, **bounds).fit(**kwds)
    assert_allclose(other.bse[:3] * units, plain.bse[:3], rtol=1e-6)
    assert_allclose(other.bse[3:], plain.bse[3:], rtol=1e-6)


def test_a_negative_variance_of_two_ways_has_no_negative_part():
    rng = np.random.default_rng(3)
    row, column = np.divmod(np.arange(36), 6)
    exog = np.column_stack([np.ones(36), rng.standard_normal(36)])
    # noise that alternates in both directions: sums over rows and columns vary less than its parts
    endog = exog.sum(axis=1) + (-1.0) ** (row + column) * (1.0 + 0.1 * rng.random(36))
    kwds = {"groups": np.column_stack([row, column])}
    fit = QuantileHuberMLE(endog, exog, kappa=3.0, tau=0.5).fit(cov_type="cluster", cov_kwds=kwds)
    assert np.isfinite(fit.bse).all()
    assert np.linalg.eigvalsh(fit.cov_params()).min() > -1e-12


@pytest.mark.parametrize("groups", ["firm", ["firm", "year"]])
def test_the_score_test_of_a_column_allows_for_clusters(groups):
    # z and the noise are the same in all rows of a firm: to rows they look related by chance
    rejected = dict.fromkeys(["HC1", "cluster"], 0)
    for seed in range(40):
        frame = panel(seed, n_firms=30, effect=3.0)
        frame["z"] = np.random.default_rng(seed).standard_normal(30)[frame.firm]
        fit = qhf.quantile_huber("y ~ x", frame).fit(search=False)
        for cov_type, options in {"HC1": {}, "cluster": {"groups": groups}}.items():
            test = fit.get_robustcov_results(cov_type, **options).score_test(frame.z)
            rejected[cov_type] += test.pvalue < 0.05
    assert rejected["HC1"] >= 12
    assert rejected["cluster"] <= 6


def test_the_score_test_of_a_column_allows_for_lags():
    frame = panel()
    frame["z"] = np.cos(0.2 * np.arange(len(frame)))
    fit = qhf.quantile_huber("y ~ x", frame).fit(cov_type="HC0")
    plain = fit.score_test(frame.z).statistic
    series = [fit.get_robustcov_results("HAC", maxlags=m) for m in (0, 5)]
    assert_allclose(series[0].score_test(frame.z).statistic, plain, rtol=1e-9)
    assert abs(series[1].score_test(frame.z).statistic / plain - 1.0) > 0.01


def test_more_added_columns_than_clusters_can_tell_apart_are_refused():
    frame = panel(n_firms=3)
    added = np.random.default_rng(0).standard_normal((len(frame), 4))
    fit, _ = by_firm("y ~ x", frame)
    with pytest.raises(DataError, match="4 added columns have no variance"):
        fit.score_test(added)


def test_a_negative_variance_of_a_time_series_has_no_negative_part():
    rng = np.random.default_rng(0)
    noise = (-1.0) ** np.arange(60) * rng.uniform(0.1, 1.0, 60)
    kwds = {"maxlags": 1, "kernel": "uniform"}
    fit = QuantileHuberMLE(noise, np.ones(60), kappa=3.0, tau=0.5).fit(
        cov_type="HAC", cov_kwds=kwds
    )
    assert np.isfinite(fit.bse).all()
    assert np.linalg.eigvalsh(fit.cov_params()).min() > -1e-12
