"""Inference after the fit: covariance, intervals, tests, criteria, residuals, influence, tables."""

import copy
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from model_data import skewed_frame
from scipy import stats
from statsmodels.iolib.summary2 import summary_col

import qhreg.formula.api as qhf
import qhreg.results.profiles as results_profiles
from qhreg import QuantileHuberDistributional, QuantileHuberMLE, compare_models, quantile_huber
from qhreg.exceptions import (
    BoundaryWarning,
    DataError,
    DomainError,
    RankWarning,
    RestrictionWarning,
)
from qhreg.family.loss import quantile_huber_loss
from qhreg.solver import solve

FRAME = skewed_frame()


@pytest.fixture(scope="module")
def fit():
    return qhf.quantile_huber("y ~ x + C(g)", FRAME).fit()


@pytest.fixture(scope="module")
def engel():
    return sm.datasets.engel.load_pandas().data


# --- covariance -------------------------------------------------------------------------------------


def test_the_nonrobust_covariance_is_the_inverse_expected_information(fit):
    plain = fit.get_robustcov_results("nonrobust")
    information = fit.model.information(fit.params.to_numpy())
    np.testing.assert_allclose(plain.cov_params() @ information, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(plain.bse, np.sqrt(np.diag(plain.cov_params())), rtol=1e-12)
    assert plain.scale == 1.0


def test_the_default_covariance_is_robust_and_the_summary_says_so(fit):
    fixed = qhf.quantile_huber("y ~ x", FRAME, tau=0.3).fit()
    assert fit.cov_type == fixed.cov_type == "HC3"
    assert "HC3" in str(fixed.summary())
    plain = qhf.quantile_huber("y ~ x", FRAME, tau=0.3).fit(cov_type="nonrobust")
    assert not np.allclose(plain.bse, fixed.bse, rtol=1e-2)
    assert "HC3" not in str(plain.summary())


def test_another_covariance_gives_a_new_result_with_nothing_stale(fit):
    before = (
        fit.bse.copy(),
        fit.pvalues.copy(),
        fit.conf_int().copy(),
        str(fit.summary().tables[1]),
    )
    robust = fit.get_robustcov_results("HC0")
    after = (fit.bse, fit.pvalues, fit.conf_int(), str(fit.summary().tables[1]))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    direct = fit.model.fit(cov_type="HC0")
    for name in ("bse", "tvalues", "pvalues"):
        np.testing.assert_allclose(getattr(robust, name), getattr(direct, name), rtol=1e-10)
        assert not np.allclose(
            getattr(robust, name).dropna(), getattr(fit, name).dropna(), rtol=1e-3
        )
    np.testing.assert_allclose(robust.conf_int(), direct.conf_int(), rtol=1e-10)
    assert str(robust.summary().tables[1]) == str(direct.summary().tables[1])


def test_every_pair_of_covariance_types_differs(fit):
    made = {
        "nonrobust": fit.get_robustcov_results("nonrobust"),
        "HC3": fit,
        "HC2": fit.get_robustcov_results("HC2"),
        "HC0": fit.get_robustcov_results("HC0"),
        "HC1": fit.get_robustcov_results("HC1"),
        "cluster": fit.get_robustcov_results("cluster", groups="firm"),
        "two-way": fit.get_robustcov_results("cluster", groups=["firm", "g"]),
        "HAC": fit.get_robustcov_results("HAC", maxlags=5),
    }
    names = list(made)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            ratio = np.abs(np.log(made[one].bse / made[other].bse)).max()
            assert ratio > 1e-3, (one, other)
    n, p = 300, 4
    np.testing.assert_allclose(made["HC1"].bse / made["HC0"].bse, np.sqrt(n / (n - p)), rtol=1e-10)


def test_groups_may_be_a_column_a_shuffled_series_or_an_array(fit):
    by_name = fit.get_robustcov_results("cluster", groups="firm").bse
    shuffled = FRAME.firm.sample(frac=1.0, random_state=3)
    for groups in (FRAME.firm, shuffled, FRAME.firm.to_numpy(), FRAME.firm.astype(str).to_numpy()):
        np.testing.assert_allclose(
            fit.get_robustcov_results("cluster", groups=groups).bse, by_name, rtol=1e-12
        )
    as_in_fit = fit.get_robustcov_results("cluster", cov_kwds={"groups": "firm"}).bse
    np.testing.assert_array_equal(as_in_fit, by_name)
    two = fit.get_robustcov_results("cluster", groups=FRAME[["firm", "g"]]).bse
    np.testing.assert_allclose(
        fit.get_robustcov_results("cluster", groups=["firm", "g"]).bse, two, rtol=1e-12
    )


def test_clusters_give_the_degrees_of_freedom_of_t(fit):
    clustered = fit.get_robustcov_results("cluster", groups="firm")
    assert clustered.df_resid_inference == 29
    expected = 2 * stats.t.sf(np.abs(clustered.tvalues["x"]), 29)
    assert clustered.pvalues["x"] == pytest.approx(expected)
    assert fit.df_resid_inference == fit.df_resid == 296


# --- intervals --------------------------------------------------------------------------------------


def test_wald_limits_are_on_the_natural_log_and_logit_scale(fit):
    limits, z = fit.conf_int(0.1), stats.t.ppf(0.95, 296)
    params, bse = fit.params, fit.bse
    np.testing.assert_allclose(
        limits.loc["x"], [params["x"] - z * bse["x"], params["x"] + z * bse["x"]]
    )
    np.testing.assert_allclose(
        np.log(limits.loc["sigma"]),
        np.log(fit.sigma) + np.array([-z, z]) * bse["sigma"] / fit.sigma,
    )
    logit = np.log(fit.tau / (1 - fit.tau))
    np.testing.assert_allclose(
        np.log(limits.loc["tau"] / (1 - limits.loc["tau"])),
        logit + np.array([-z, z]) * bse["tau"] / (fit.tau * (1 - fit.tau)),
    )


def test_a_profile_with_sampling_weights_is_answered_with_the_interval_there_is():
    fit = qhf.quantile_huber("y ~ x", FRAME, weights="w").fit()
    with pytest.raises(DomainError, match=r"sampling weights.*t_test or wald_test"):
        fit.conf_int(method="profile")


def test_intervals_of_some_parameters_cost_no_fits_of_the_others(fit, monkeypatch):
    asked = []
    made = results_profiles.profile_intervals

    def counted(*args, **options):
        asked.append(options["params"])
        return made(*args, **options)

    monkeypatch.setattr(results_profiles, "profile_intervals", counted)
    every = fit.conf_int(method="profile", search=False)
    some = fit.conf_int(method="profile", search=False, cols=["tau", "x"])
    np.testing.assert_allclose(some, every.loc[["tau", "x"]], rtol=1e-6)
    assert list(some.index) == ["tau", "x"]
    assert asked == [[0, 1, 2, 3, "sigma", "tau"], ["tau", 3]]
    assert list(fit.profile_intervals(places=[5]).dropna().index) == ["tau"]
    held = fit.model.fit_constrained("x = 2, tau = 0.6", cov_type="nonrobust")
    np.testing.assert_array_equal(
        held.conf_int(method="profile", cols=["x", "tau"]), [[2.0, 2.0], [0.6, 0.6]]
    )


def test_profile_limits_are_where_the_likelihood_ratio_meets_its_cut(fit):
    limits = fit.conf_int(method="profile", search=False)
    assert list(limits.index) == list(fit.params.index)
    cut = fit.profile_likelihood("x", search=False).critical_value(0.05)
    assert cut > stats.chi2.ppf(0.95, 1)
    for name in ("x", "tau", "sigma"):
        for limit in limits.loc[name]:
            held = fit.model.fit_constrained(f"{name} = {limit:.12f}")
            assert fit.lr_test(held).statistic == pytest.approx(cut, rel=1e-3)
    single = fit.profile_likelihood("tau", alpha=0.05, search=False)
    np.testing.assert_allclose(single.conf_int(), limits.loc["tau"], rtol=1e-6)
    assert {"value", "llf", "tau"} <= set(single.to_frame().columns)
    plain = fit.conf_int(method="profile", cut="chi2", search=False)
    assert (np.diff(plain, axis=1) < np.diff(limits, axis=1)).all()


def test_unknown_interval_methods_and_levels_are_refused(fit):
    with pytest.raises(TypeError, match="Wald intervals have no option 'cut'"):
        fit.conf_int(cut="chi2")
    with pytest.raises(DomainError, match="'wals'"):
        fit.conf_int(method="wals")
    with pytest.raises(DomainError, match="alpha"):
        fit.conf_int(alpha=5)


@pytest.mark.parametrize("model", [QuantileHuberMLE, QuantileHuberDistributional])
def test_limits_of_some_parameters_are_rows_of_those_of_all(model):
    fit = model(FRAME["y"], sm.add_constant(FRAME[["x", "z"]])).fit()
    limits = fit.conf_int(0.1)
    names = list(fit.params.index)
    for cols in ([2, 0], [names[2], names[0]], np.array([2, 0])):
        pd.testing.assert_frame_equal(fit.conf_int(0.1, cols=cols), limits.iloc[[2, 0]])
    np.testing.assert_array_equal(fit._results.conf_int(0.1, cols=[2]), limits.iloc[[2]])
    plain = model(FRAME["y"].to_numpy(), sm.add_constant(FRAME["x"].to_numpy())).fit()
    np.testing.assert_array_equal(plain.conf_int(cols=[1]), plain.conf_int()[[1]])
    for wrong in ([9], ["nosuch"], [0.5]):
        with pytest.raises(DomainError, match=r"the parameters are const, x, z, .* at places 0 to"):
            fit.conf_int(cols=wrong)


def test_limits_of_some_parameters_go_with_every_kind_of_interval(fit):
    whole = fit.conf_int(0.05, "bootstrap", n_boot=20, rng=1)
    some = fit.conf_int(0.05, "bootstrap", cols=["x"], n_boot=20, rng=1)
    pd.testing.assert_frame_equal(some, whole.loc[["x"]])


def test_two_parameters_of_a_surface_are_one_pair(fit):
    with pytest.raises(DomainError, match=r"one pair: profile_surface\(\('tau', 'sigma'\)\)"):
        fit.profile_surface("tau", "sigma")


def test_a_bootstrap_has_the_labels_that_the_estimates_have(fit):
    made = fit.bootstrap(n_boot=20, rng=1)
    plain = fit._results.bootstrap(n_boot=20, rng=1)
    assert list(made.bse.index) == list(made.conf_int().index) == list(fit.params.index)
    assert list(made.cov.columns) == list(fit.params.index)
    np.testing.assert_array_equal(made.bse, plain.bse)
    assert isinstance(plain.bse, np.ndarray)
    assert isinstance(plain.conf_int(), np.ndarray)
    arrays = QuantileHuberMLE(FRAME["y"].to_numpy(), sm.add_constant(FRAME["x"].to_numpy())).fit()
    made = arrays.bootstrap(n_boot=20, rng=1)
    assert isinstance(made.bse, np.ndarray)
    assert "\nx1 " in str(made)


def test_the_bootstrap_is_a_covariance_and_a_kind_of_interval():
    model = qhf.quantile_huber("y ~ x", FRAME)
    fit = model.fit(cov_type="bootstrap", cov_kwds={"n_boot": 60, "rng": 1})
    made = fit.bootstrap(n_boot=60, rng=1)
    np.testing.assert_array_equal(fit.cov_params(), made.cov)
    np.testing.assert_allclose(fit.bse, made.bse, rtol=1e-10)
    assert 0.5 < fit.bse["x"] / model.fit().bse["x"] < 2.0
    assert "pairs bootstrap with 60 replicates" in str(fit.summary())
    limits = fit.conf_int(method="bootstrap")
    np.testing.assert_array_equal(limits, made.conf_int())
    bca = fit.conf_int(method="bootstrap", interval="bca")
    np.testing.assert_array_equal(bca, made.conf_int(method="bca"))
    assert not np.allclose(bca, limits)
    fit.remove_data()
    np.testing.assert_array_equal(fit.conf_int(method="bootstrap"), made.conf_int())


def test_groups_are_resampled_as_a_whole(fit):
    by_name = fit.bootstrap(n_boot=20, rng=2, groups="firm")
    by_series = fit.bootstrap(n_boot=20, rng=2, groups=FRAME.firm.sample(frac=1.0, random_state=0))
    assert by_name.kind == "cluster"
    np.testing.assert_array_equal(by_name.params, by_series.params)
    noise = fit.bootstrap(kind="parametric", n_boot=20, rng=2)
    assert not np.allclose(noise.params, by_name.params)
    with pytest.raises(DomainError, match="n_bot"):
        fit.model.fit(cov_type="bootstrap", cov_kwds={"n_bot": 5})


# --- tests ------------------------------------------------------------------------------------------


def test_tau_is_tested_against_one_half_and_sigma_not_at_all(fit):
    logit = np.log(fit.tau / (1 - fit.tau))
    assert fit.tvalues["tau"] == pytest.approx(logit * fit.tau * (1 - fit.tau) / fit.bse["tau"])
    assert fit.pvalues["tau"] == pytest.approx(2 * stats.t.sf(abs(fit.tvalues["tau"]), 296))
    assert np.isnan(fit.tvalues["sigma"])
    assert np.isnan(fit.pvalues["sigma"])


def test_tests_of_statsmodels_work_with_names_and_terms(fit):
    t = fit.t_test("x = 2")
    assert t.effect[0] == pytest.approx(fit.params["x"])
    assert t.tvalue.item() == pytest.approx((fit.params["x"] - 2) / fit.bse["x"])
    joint = fit.wald_test("x = 2, tau = 0.5")
    gap = np.array([fit.params["x"] - 2, fit.tau - 0.5])
    cov = fit.cov_params().loc[["x", "tau"], ["x", "tau"]].to_numpy()
    assert float(joint.statistic) == pytest.approx(gap @ np.linalg.solve(cov, gap) / 2)
    assert float(joint.pvalue) == pytest.approx(stats.f.sf(float(joint.statistic), 2, 296))
    assert fit.f_test("x = 2").df_num == 1
    terms = fit.wald_test_terms().table
    assert list(terms.index) == ["Intercept", "C(g)", "x"]
    assert float(terms.loc["C(g)", "statistic"]) >= 0.0
    by_column = QuantileHuberMLE(FRAME.y, sm.add_constant(FRAME[["x", "z"]])).fit()
    assert list(by_column.wald_test_terms().table.index) == ["const", "x", "z"]
    pairs = fit.t_test_pairwise("C(g)").result_frame
    assert pairs.loc["b-a", "coef"] == pytest.approx(fit.params["C(g)[T.b]"])


def test_a_wald_test_of_tau_on_its_bound_is_refused_and_others_are_not():
    rng = np.random.default_rng(0)
    frame = FRAME.assign(y=FRAME.x + rng.exponential(size=len(FRAME)))
    exog = sm.add_constant(frame[["x", "z"]])
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(frame.y, exog, tau_bounds=(0.1, 0.9)).fit()
    for restrictions in ("tau = 0.5", "x = 1, tau = 0.5", "x + tau = 1", np.eye(5)[[1, 4]]):
        for test in (fit.wald_test, fit.f_test):
            with pytest.raises(
                DomainError, match=r"tau is on its bound 0\.9: it has no standard error"
            ):
                test(restrictions)
    assert fit.wald_test("x = 1, z = 0").pvalue > 0.0
    assert fit.wald_test(np.eye(5)[[1, 4]], cov_p=np.eye(5)).df_num == 2
    table = fit.wald_test_terms(
        combine_terms=["x", "z"], extra_constraints=[("both", np.eye(5)[1:3])]
    )
    assert list(table.table.index) == ["const", "x", "z", "x", "z", "both"]
    with pytest.raises(DomainError, match="tau is on its bound"):
        fit.wald_test_terms(extra_constraints=[("tau", np.eye(5)[[4]])])


def test_a_part_of_the_covariance_has_the_names_of_its_parameters(fit):
    every = fit.cov_params()
    assert every.shape == (6, 6)
    for column in ([3, 5], ["x", "tau"]):
        pd.testing.assert_frame_equal(
            fit.cov_params(column=column), every.loc[["x", "tau"], ["x", "tau"]]
        )
    assert fit.cov_params(column="tau") == fit.cov_params(column=-1) == every.loc["tau", "tau"]
    rows = np.eye(6)[[3, 5]]
    np.testing.assert_allclose(fit.cov_params(rows), rows @ every @ rows.T, rtol=1e-12)
    with pytest.raises(DomainError, match=r"'nosuch'.*the parameters are Intercept"):
        fit.cov_params(column="nosuch")
    arrays = QuantileHuberMLE(FRAME.y.to_numpy(), fit.model.exog).fit()
    np.testing.assert_allclose(arrays.cov_params(column=[3, 5]), fit.cov_params(column=[3, 5]))


def test_what_a_test_cannot_be_about_is_named(fit):
    for test in (fit.t_test, fit.wald_test, fit.f_test):
        with pytest.raises(
            DomainError, match=r"(?s)nosuch = 0.*The estimated parameters are Inter"
        ):
            test("nosuch = 0")
        with pytest.raises(DomainError, match=r"(?s)The estimated parameters are Intercept"):
            test(np.eye(4))
    with pytest.raises(DomainError, match=r"'g' is no term: the terms are .*, C\(g\), x"):
        fit.t_test_pairwise("g")
    with pytest.raises(DomainError, match="'x' is no factor"):
        fit.t_test_pairwise("x")
    with pytest.raises(DomainError, match="combine_terms has 'nosuch'"):
        fit.wald_test_terms(combine_terms=["x", "nosuch"])
    with pytest.raises(DomainError, match="of a formula"):
        QuantileHuberMLE(FRAME.y, fit.model.exog).fit().t_test_pairwise("x1")


def test_a_wald_test_of_a_constrained_tau_is_refused(fit):
    held = qhf.quantile_huber("y ~ x", FRAME).fit_constrained("tau = 0.5")
    with pytest.raises(DomainError, match=r"a constraint fixes tau at 0\.5"):
        held.wald_test("tau = 0.4, x = 1")


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_the_ratio_of_likelihoods_has_one_p_value_whoever_computes_it():
    rng = np.random.default_rng(0)
    exog = np.column_stack([np.ones(80), rng.normal(size=80)])
    endog = exog @ [1.0, 2.0] + quantile_huber.rvs(0.42, 1.0, size=80, random_state=rng)
    full, half = QuantileHuberMLE(endog, exog).fit(), QuantileHuberMLE(endog, exog, tau=0.5).fit()
    wanted = full.test_symmetry().lr
    held = full.model.fit_constrained("tau = 0.5")
    assert full.profile_likelihood("tau").conf_int(wanted.pvalue)[1] == pytest.approx(0.5, abs=1e-6)
    for restricted in (half, held):
        assert full.lr_test(restricted).pvalue == pytest.approx(wanted.pvalue, rel=1e-6)
        assert full.compare_lr_test(restricted)[1] == pytest.approx(wanted.pvalue, rel=1e-6)
    constant = full.model.fit_constrained("x1 = 0")
    assert full.llr_pvalue == pytest.approx(full.lr_test(constant).pvalue, rel=1e-6)


def test_nested_fits_are_compared_by_their_likelihoods(fit):
    small = qhf.quantile_huber("y ~ x", FRAME).fit()
    test = fit.lr_test(small)
    inside = solve(small.model.exog, small.model.endog, rank=4)
    expected = 2 * (fit.llf_restricted - inside.loglike_restricted)
    assert test.statistic == pytest.approx(expected, abs=1e-6)
    assert test.df == 2
    assert fit.compare_lr_test(small) == (test.statistic, test.pvalue, 2)
    fixed = qhf.quantile_huber("y ~ x + C(g)", FRAME, tau=0.5).fit()
    assert fit.lr_test(fixed).df == 1
    with pytest.raises(DataError, match="not nested"):
        small.lr_test(fit)
    with pytest.raises(DataError, match="observations"):
        fit.lr_test(qhf.quantile_huber("y ~ x", FRAME.iloc[:200]).fit())
    weighted = qhf.quantile_huber("y ~ x + z", FRAME, weights="w").fit()
    with pytest.raises(DomainError, match="sampling weights"):
        weighted.lr_test(small)


def test_fits_that_are_not_nested_are_refused_with_the_reason(fit):
    def other(formula, frame=FRAME, **options):
        return qhf.quantile_huber(formula, frame, **options).fit()

    for restricted, reason in [
        (other("y ~ z"), "no combination of the columns"),
        (other("y ~ x", offset="o"), "no combination of the columns"),
        (other("y ~ x", FRAME.assign(y=FRAME.y + 1.0)), "responses differ"),
        (other("y ~ x", kappa=0.5), "fixes kappa at 4, the restricted one fixes it at 0.5"),
        (sm.OLS(FRAME.y, FRAME[["x"]]).fit(), "must be a fit of this model"),
    ]:
        with pytest.raises(DataError, match=reason):
            fit.lr_test(restricted)
    with pytest.raises(DomainError, match="sampling weights"):
        fit.lr_test(other("y ~ x", weights="w"))
    # combinations of columns, offsets in their span and constraints are nested
    combined = FRAME.assign(both=2.0 * FRAME.x + (FRAME.g == "b"), twice=2.0 * FRAME.x)
    assert fit.lr_test(other("y ~ both", combined)).df == 2
    assert fit.lr_test(other("y ~ 1", combined, offset="twice")).df == 3
    assert fit.lr_test(fit.model.fit_constrained("x = 2")).df == 1
    assert fit.lr_test(other("y ~ x", sigma=0.4)).df == 3
    half = other("y ~ x + C(g)", tau=0.5)
    with pytest.raises(DataError, match=r"fixes tau at 0.5, the restricted one estimates it"):
        half.lr_test(other("y ~ x"))


def test_symmetry_is_tested_in_three_ways(fit):
    made = fit.test_symmetry()
    fixed = qhf.quantile_huber("y ~ x + C(g)", FRAME, tau=0.5).fit()
    restricted = 2 * (fit.llf_restricted - fixed.llf_restricted)
    assert made.lr.statistic == pytest.approx(restricted)
    assert made.score.pvalue < 1e-4
    robust = fit.get_robustcov_results("HC1")
    assert robust.test_symmetry().wald.statistic != pytest.approx(made.wald.statistic, rel=1e-3)
    for each in (fit, robust):  # one hypothesis has one statistic and one p-value
        wald = each.test_symmetry().wald
        assert wald.statistic == pytest.approx(each.tvalues["tau"] ** 2)
        assert wald.pvalue == pytest.approx(each.pvalues["tau"])
        logit = np.log(fit.tau / (1 - fit.tau))
        spread = each.bse["tau"] / (fit.tau * (1 - fit.tau))
        assert wald.statistic == pytest.approx((logit / spread) ** 2)
    with pytest.raises(DomainError, match="tau is fixed"):
        fixed.test_symmetry()


@pytest.mark.parametrize(
    ("cov_type", "options"),
    [("HC0", {}), ("HC1", {}), ("cluster", {"groups": "firm"}), ("HAC", {"maxlags": 2})],
)
def test_the_score_test_of_symmetry_is_robust_where_the_covariance_is(cov_type, options):
    fit = qhf.quantile_huber("y ~ z", FRAME).fit(cov_type=cov_type, cov_kwds=options)
    plain = fit.get_robustcov_results("nonrobust").test_symmetry().score
    made = fit.test_symmetry().score
    assert (plain.name, made.name) == ("score test", "robust score test")
    assert made.statistic != pytest.approx(plain.statistic, rel=1e-3)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_symmetry_tests_say_why_they_are_missing_where_all_rows_lie_in_the_zone():
    rng = np.random.default_rng(1)
    exog = sm.add_constant(rng.normal(size=200))
    for noise, limit in (
        (rng.uniform(-1, 1, size=200), "gaussian"),
        (rng.normal(size=200), "one-"),
    ):
        fit = QuantileHuberMLE(exog.sum(axis=1) + noise, exog, kappa=None).fit(cov_type="HC1")
        assert fit.kappa_limit.startswith(limit)
        made = fit.test_symmetry()
        assert np.isnan(made.score.pvalue)
        assert np.isnan(made.wald.pvalue)
        assert "robust score test of tau = 1/2: not available: no residual leaves" in str(made)
        assert "Wald test of tau = 1/2: not available" in str(made)


def test_the_robust_score_test_of_symmetry_holds_its_level_with_unequal_noise():
    """A Laplace law whose scale grows with x: the others reject in 23 to 30 % of the samples."""
    rejected = np.zeros(2)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=200)
        endog = 1.0 + x + rng.laplace(size=200) * np.exp(x)
        fit = QuantileHuberMLE(endog, sm.add_constant(x)).fit(cov_type="HC1")
        made = fit.test_symmetry()
        rejected += (made.lr.pvalue < 0.05, made.score.pvalue < 0.05)
    assert rejected[0] > 9
    assert rejected[1] < 9


def test_several_restrictions_have_an_f_test():
    fit = qhf.quantile_huber("y ~ x + z", FRAME).fit()
    matrix = np.zeros((2, len(fit.params)))
    matrix[[0, 1], [1, 2]] = 1.0
    made, plain = fit.wald_test(matrix), fit.wald_test(matrix, use_f=False)
    assert 2 * float(made.statistic) == pytest.approx(float(plain.statistic))
    assert float(made.pvalue) == pytest.approx(stats.f.sf(float(made.statistic), 2, 297))
    assert float(plain.pvalue) == pytest.approx(stats.chi2.sf(float(plain.statistic), 2))
    assert fit.f_test(matrix).pvalue == pytest.approx(float(made.pvalue))
    mixed = np.array([[3.0, 1e6], [-0.1, 0.2]]) @ matrix
    assert fit.wald_test(mixed).pvalue == pytest.approx(float(made.pvalue), rel=1e-6)


@pytest.mark.slow
def test_joint_tests_reject_true_restrictions_as_often_as_single_ones():
    """With the chi-square distribution four slopes at the tenth were rejected in 31 % of samples."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.ones(300), rng.normal(size=(300, 4))])
        fit = QuantileHuberMLE(1.0 + rng.normal(size=300), X, kappa=0.0, tau=0.1).fit()
        found.append([float(fit.wald_test(np.eye(6)[1:k]).pvalue) < 0.05 for k in (2, 5)])
    single, joint = np.mean(found, axis=0)
    assert joint < 0.14
    assert single < 0.14


def test_restrictions_may_be_a_matrix_and_its_values(fit):
    matrix = np.zeros((2, len(fit.params)))
    matrix[[0, 1], [1, 2]] = 1.0
    for test in (fit.wald_test, fit.f_test):
        values = fit.params.to_numpy()[1:3]
        assert float(test((matrix, values)).statistic) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1", "cluster"])
def test_the_p_value_of_tau_is_that_at_which_its_interval_ends_at_one_half(fit, cov_type):
    options = {"groups": np.arange(len(FRAME)) % 40} if cov_type == "cluster" else {}
    made = fit.get_robustcov_results(cov_type, **options)
    limits = made.conf_int(alpha=float(made.pvalues["tau"])).loc["tau"]
    assert np.abs(limits - 0.5).min() < 1e-5


@pytest.mark.parametrize("restriction", ["x = 0.9", "x - z = 0.5", "sigma = 1.1"])
def test_one_restriction_has_one_p_value(restriction):
    fit = qhf.quantile_huber("y ~ x + z", FRAME).fit(cov_type="HC1")
    expected = float(fit.t_test(restriction).pvalue)
    plain = float(fit.wald_test(restriction, use_f=False).pvalue)
    assert abs(plain - expected) > 1e-6 * plain  # the sandwich has a law of its own
    assert float(fit.wald_test(restriction).pvalue) == pytest.approx(expected)
    assert float(fit.f_test(restriction).pvalue) == pytest.approx(expected)
    assert fit.wald_test_terms().table.loc["x", "pvalue"] == pytest.approx(fit.pvalues["x"])


def test_symmetry_with_kappa_estimated_estimates_it_again():
    noise = quantile_huber.rvs(0.35, 1.5, size=300, random_state=np.random.default_rng(8))
    frame = FRAME.assign(y=FRAME.x + noise)
    free = qhf.quantile_huber("y ~ x", frame, kappa=None).fit()
    symmetric = qhf.quantile_huber("y ~ x", frame, kappa=None, tau=0.5).fit()
    expected = 2 * (free.llf_restricted - symmetric.llf_restricted)
    assert free.test_symmetry().statistic == pytest.approx(expected, abs=1e-5)


def test_the_score_test_of_an_added_column_is_near_the_likelihood_ratio():
    small = qhf.quantile_huber("y ~ z", FRAME).fit()
    helpful = small.score_test(FRAME.x.sample(frac=1.0, random_state=1))
    assert helpful.pvalue < 1e-6
    assert helpful.statistic == small.score_test(FRAME.x.to_numpy()).statistic
    useless = small.score_test(FRAME.o)
    large = qhf.quantile_huber("y ~ z + o", FRAME).fit()
    assert useless.statistic == pytest.approx(large.lr_test(small).statistic, abs=1.0)
    both = small.score_test(FRAME[["o", "x"]])
    assert small.score_test(["o", "x"]).statistic == pytest.approx(both.statistic, rel=1e-12)
    with pytest.raises(DataError, match="exog_extra must be numeric"):
        small.score_test("g")
    robust = small.get_robustcov_results("HC1").score_test(FRAME.o)
    assert "robust" in robust.name


def test_degrees_of_freedom_under_a_constraint_are_those_of_the_columns_that_are_left(capfd):
    model = qhf.quantile_huber("y ~ z", FRAME)
    for constraint, columns in {
        "z = 0": "1",
        "Intercept = 0": "z - 1",
        "z = Intercept": "I(1 + z) - 1",
    }.items():
        held, same = (
            model.fit_constrained(constraint),
            qhf.quantile_huber(f"y ~ {columns}", FRAME).fit(),
        )
        for name in ("df_model", "df_resid", "k_constant", "n_params"):
            assert getattr(held, name) == getattr(same, name)
    nothing = model.fit_constrained("Intercept = 0, z = 0")
    assert (nothing.df_model, nothing.df_resid) == (0.0, 300.0)
    assert np.isfinite(nothing.bse[["sigma", "tau"]]).all()
    assert capfd.readouterr().err == ""  # LAPACK prints what it does not like


def test_constrained_fits_satisfy_the_constraints_and_nest(fit):
    model = fit.model
    equal = model.fit_constrained("C(g)[T.b] = C(g)[T.c]")
    assert equal.params["C(g)[T.b]"] == pytest.approx(equal.params["C(g)[T.c]"])
    assert equal.llf <= fit.llf
    assert equal.df_resid == fit.df_resid + 1
    merged = qhf.quantile_huber("y ~ x + I((g != 'a') * 1.0)", FRAME).fit()
    assert equal.llf == pytest.approx(merged.llf, abs=1e-8)
    assert equal.bse["C(g)[T.b]"] == pytest.approx(merged.bse.iloc[2], rel=1e-6)
    assert equal.bse["x"] == pytest.approx(merged.bse["x"], rel=1e-6)


def test_what_constrained_fits_do_not_offer_is_refused(fit):
    held = fit.model.fit_constrained("x = 2")
    assert "satisfy linear constraints" in str(held.summary())
    for call in (
        held.get_influence,
        held.bootstrap,
        lambda: held.score_test(FRAME.o),
        lambda: fit.model.fit_constrained("x = 2", cov_type="bootstrap"),
        lambda: held.get_robustcov_results("bootstrap"),
    ):
        with pytest.raises(DomainError, match="without constraints"):
            call()


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("constraints", ["x = z", "x = 2, z = 2", "x + z = 4, x = 2"])
@pytest.mark.parametrize("asked", ["x = z", "3*x = 3*z", "x - z = 1", "x = z, 2*x - 2*z = 0"])
@pytest.mark.parametrize("name", ["t_test", "wald_test", "f_test"])
def test_what_a_constraint_decides_has_no_test(name, asked, constraints, cov_type):
    model = qhf.quantile_huber("y ~ x + z + o", FRAME)
    held = model.fit_constrained(constraints, cov_type=cov_type)
    with pytest.warns(RestrictionWarning, match="nothing to test") as said:
        made = getattr(held, name)(asked)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert np.isnan(np.squeeze(made.pvalue)).all()
    assert np.isnan(np.squeeze(made.statistic)).all()
    assert "nan" in str(made)
    if name == "t_test":
        assert np.isnan(made.sd).all()
        assert np.isnan(made.conf_int()).all()
        np.testing.assert_allclose(made.effect, 0.0, atol=1e-12)
    else:
        assert made.df_num == 0


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_what_a_constraint_leaves_open_is_tested(cov_type):
    scaled = FRAME.assign(far=1e7 * FRAME.z)
    model = qhf.quantile_huber("y ~ x + far + o", scaled)
    held = model.fit_constrained("x = 1e7*far", cov_type=cov_type)
    for name in ("t_test", "wald_test", "f_test"):
        assert 0.0 < np.squeeze(getattr(held, name)("x = 2*o").pvalue) < 1.0
        assert 0.0 <= np.squeeze(getattr(held, name)("far = 0").pvalue) < 1.0
    with pytest.warns(RestrictionWarning, match="1 of 2 restrictions"):
        both = held.wald_test("x = 1e7*far, o = 0")
    alone = held.wald_test("o = 0")
    assert both.statistic == pytest.approx(alone.statistic, rel=1e-6)
    assert both.pvalue == pytest.approx(alone.pvalue, rel=1e-6)
    with pytest.warns(RestrictionWarning, match="1 of 2 restrictions"):
        each = held.t_test("x = 1e7*far, o = 0")
    assert np.isnan(each.pvalue).tolist() == [True, False]


def test_a_fixed_tau_or_coefficient_has_no_t_test(fit):
    held = fit.model.fit_constrained("tau = 0.4, x = 2")
    for asked in ("tau = 0.5", "x = 2", "x + 2*tau = 1"):
        with pytest.warns(RestrictionWarning, match="nothing to test"):
            assert np.isnan(held.t_test(asked).pvalue).all()


def test_a_constraint_may_fix_tau_or_a_coefficient(fit):
    fixed = fit.model.fit_constrained("tau = 0.5, x = 2")
    assert fixed.tau == 0.5
    assert fixed.params["x"] == pytest.approx(2.0)
    assert np.isnan(fixed.bse["tau"])
    assert np.isnan(fixed.bse["x"])
    other = QuantileHuberMLE(FRAME.y, fit.model.exog[:, :3], tau=0.5, offset=2 * FRAME.x).fit()
    assert fixed.llf == pytest.approx(other.llf, abs=1e-8)
    np.testing.assert_allclose(fixed.bse.iloc[:3], other.bse.iloc[:3], rtol=1e-6)
    assert re.search(r"\nx +2\.0000 +\(fixed\)", str(fixed.summary()))
    offset = FRAME.o.to_numpy()
    moved = QuantileHuberMLE(FRAME.y + offset, fit.model.exog, offset=offset)
    again = moved.fit_constrained("tau = 0.5, x1 = 0")
    plain = QuantileHuberMLE(FRAME.y, fit.model.exog).fit_constrained("tau = 0.5, x1 = 0")
    np.testing.assert_allclose(again.params, plain.params, rtol=1e-7, atol=1e-9)
    with pytest.raises(DomainError, match="not both"):
        fit.model.fit_constrained("tau + x = 2")
    with pytest.raises(DomainError, match="contradict"):
        fit.model.fit_constrained("x = 2, x = 3")


# --- criteria ---------------------------------------------------------------------------------------


def test_information_criteria_follow_their_definitions(fit):
    k, n = 6, 300
    assert fit.aic == pytest.approx(-2 * fit.llf + 2 * k)
    assert fit.bic == pytest.approx(-2 * fit.llf + np.log(n) * k)
    assert fit.hqic == pytest.approx(-2 * fit.llf + 2 * np.log(np.log(n)) * k)
    assert fit.info_criteria("aicc") == pytest.approx(fit.aic + 2 * k * (k + 1) / (n - k - 1))
    with pytest.raises(ValueError, match="'dic'"):
        fit.info_criteria("dic")


def test_takeuchis_criterion_is_akaikes_when_the_model_is_true():
    rng = np.random.default_rng(5)
    exog = sm.add_constant(rng.normal(size=(20000, 2)))
    noise = quantile_huber.rvs(0.6, 1.0, size=20000, random_state=rng)
    fit = QuantileHuberMLE(exog.sum(axis=1) + noise, exog).fit()
    assert fit.tic == pytest.approx(fit.aic, abs=1.0)
    heavy = QuantileHuberMLE(
        exog.sum(axis=1) + rng.standard_t(2, 20000) * (1 + exog[:, 1] ** 2), exog
    )
    wrong = heavy.fit()
    assert wrong.tic > wrong.aic + 3.0


def test_the_null_model_is_the_fit_of_a_constant(fit):
    null = qhf.quantile_huber("y ~ 1", FRAME).fit()
    assert fit.llnull == pytest.approx(null.llf)
    assert fit.llr == pytest.approx(fit.lr_test(null).statistic)
    assert fit.llr_pvalue == pytest.approx(fit.lr_test(null).pvalue)
    assert null.llr == pytest.approx(0.0, abs=1e-7)
    assert np.isnan(null.llr_pvalue)
    assert null.prsquared == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("fixed", [{"tau": 0.1}, {"sigma": 2.0}, {"kappa": 2.0}])
def test_a_constraint_holds_a_parameter_in_the_null_model_too(fixed):
    (name,) = fixed
    free = {"kappa": None} if name == "kappa" else {}
    exog = np.column_stack([np.ones(len(FRAME)), FRAME.x])
    held = QuantileHuberMLE(FRAME.y, exog, **free).fit_constrained(f"{name} = {fixed[name]}")
    model = QuantileHuberMLE(FRAME.y, exog, **fixed).fit()
    assert held.llnull == pytest.approx(model.llnull, rel=1e-10)
    assert held.llr == pytest.approx(model.llr, rel=1e-6)
    assert held.llr > 0.0


def test_pseudo_r_squared_is_that_of_quantreg_at_kappa_0_and_of_ols_for_normal_noise(engel):
    check = qhf.quantile_huber("foodexp ~ income", engel, kappa=0.0, tau=0.25).fit()
    quantreg = sm.QuantReg.from_formula("foodexp ~ income", engel).fit(q=0.75)
    assert check.prsquared == pytest.approx(quantreg.prsquared, abs=1e-5)
    normal = qhf.quantile_huber("y ~ x", FRAME, kappa=2e3, tau=0.5).fit()
    ols = sm.OLS.from_formula("y ~ x", FRAME).fit()
    assert normal.pseudo_rsquared("cs") == pytest.approx(ols.rsquared, abs=2e-3)
    assert normal.pseudo_rsquared("mcf") == pytest.approx(1 - normal.llf / normal.llnull)
    with pytest.raises(DomainError, match="kind"):
        normal.pseudo_rsquared("adj")


@pytest.mark.parametrize("kappa", [0.05, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_pseudo_r_squared_compares_with_the_best_constant_in_large_samples(kappa, weighted):
    rng = np.random.default_rng(9)
    values, offset = 40.0 + 3.0 * rng.gumbel(size=60_000), rng.standard_normal(60_000)
    weights = rng.uniform(0.2, 2.0, 60_000) if weighted else None
    exog = np.column_stack([np.ones(60_000), offset + rng.standard_normal(60_000)])
    data = {"offset": offset, "weights": weights}
    known = {"kappa": kappa, "tau": 0.4, "sigma": 2.5}
    losses = []
    for regressors in (exog, exog[:, :1]):
        beta = solve(regressors, values, **data, **known).beta
        loss = quantile_huber_loss((values - offset - regressors @ beta) / 2.5, 0.4, kappa)
        losses.append(loss.sum() if weights is None else loss @ weights)
    fit = QuantileHuberMLE(values, exog, **data, **known).fit()
    assert fit.prsquared == pytest.approx(1.0 - losses[0] / losses[1], rel=1e-9)


# --- the level of the location ----------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 1.0, 5.0])
def test_the_quantile_level_is_the_distribution_function_at_zero(kappa):
    fit = qhf.quantile_huber("y ~ x", FRAME, kappa=kappa, tau=0.9).fit()
    assert fit.quantile_level == pytest.approx(float(quantile_huber.cdf(0.0, 0.9, kappa)))
    assert (fit.quantile_level == pytest.approx(0.1)) == (kappa == 0.0)
    text = str(fit.summary())
    assert ("is not the" in re.sub(r"\s+", " ", text)) == (kappa > 0.0)
    assert f"{fit.quantile_level:.4f}" in text


def test_the_share_below_counts_negative_residuals(fit):
    assert fit.share_below == pytest.approx(float((fit.resid < 0).mean()))


# --- residuals, influence ---------------------------------------------------------------------------


def test_residuals_of_every_kind_follow_their_definitions(fit):
    assert list(fit.resid.index) == list(FRAME.index)
    u = (FRAME.y - fit.fittedvalues) / fit.sigma
    np.testing.assert_allclose(fit.resid_standardized, u)
    law = quantile_huber(fit.tau, fit.kappa)
    np.testing.assert_allclose(fit.resid_pearson, (u - law.mean()) / law.std())
    np.testing.assert_allclose(fit.resid_pit, law.cdf(u))
    np.testing.assert_allclose(fit.resid_quantile, stats.norm.ppf(law.cdf(u)), rtol=1e-6)


def test_quantile_residuals_stay_finite_far_out():
    y = np.concatenate([np.linspace(-1, 1, 200), [1e3, -1e3]])
    fit = QuantileHuberMLE(y, np.ones(202), tau=0.5, sigma=1.0).fit()
    assert np.isfinite(fit.resid_quantile).all()
    assert fit.resid_quantile[-2] == pytest.approx(-fit.resid_quantile[-1], rel=1e-6)


def test_weighted_least_squares_with_the_weights_is_the_fit(fit):
    wls = sm.WLS(FRAME.y, fit.model.exog, weights=fit.weights).fit()
    # the slope psi has mean zero against the regressors: the same equation as with weights
    np.testing.assert_allclose(wls.params, fit.params.iloc[:4], rtol=1e-6)
    assert fit.weights.max() == 1.0
    assert fit.weights.min() > 0.0


@pytest.mark.parametrize(("kappa", "closeness"), [(1.0, 0.85), (4.0, 0.99)])
def test_one_step_deletion_is_near_the_refit(kappa, closeness):
    fit = qhf.quantile_huber("y ~ x + C(g)", FRAME, kappa=kappa).fit()
    influence = fit.get_influence()
    rows = np.arange(0, 300, 20)
    change = []
    for row in rows:
        kept = np.delete(np.arange(300), row)
        without = QuantileHuberMLE(fit.model.endog[kept], fit.model.exog[kept], kappa=kappa).fit(
            start_params=fit.params.to_numpy(), search=False
        )
        change.append(fit.params.to_numpy() - without.params)
    found = influence.d_params[rows]
    for j in range(6):
        exact = np.array(change)[:, j]
        assert np.corrcoef(exact, found[:, j])[0, 1] > closeness
        if kappa == 4.0:  # at narrow widths the bread of the sandwich is smoothed
            assert found[:, j].std() / exact.std() == pytest.approx(1.0, abs=0.15)


def test_leverage_lies_between_0_and_1_and_sums_to_the_rank(fit):
    influence = fit.get_influence()
    h = influence.hat_matrix_diag
    assert h.min() >= 0.0
    assert h.max() < 1.0
    assert h.sum() == pytest.approx(4.0)
    wide = solve(fit.model.exog, fit.model.endog, kappa=influence.zone_width)
    u = (fit.model.endog - fit.model.exog @ wide.beta) / wide.sigma
    inside = (u >= -wide.kappa * wide.tau) & (u <= wide.kappa * (1 - wide.tau))
    exog = fit.model.exog[inside]
    hat = exog @ np.linalg.solve(exog.T @ exog, exog.T)
    np.testing.assert_allclose(h[inside], np.diag(hat), rtol=1e-6)
    assert (h[~inside] == 0.0).all()
    frame = influence.summary_frame()
    assert list(frame.index) == list(FRAME.index)
    assert {"dfb_x", "dfb_tau", "cooks_d", "hat_diag"} <= set(frame.columns)
    assert np.isfinite(frame.to_numpy()).all()


def test_the_influence_frame_has_one_line_for_each_row_whatever_labels_and_names_are():
    exog = sm.add_constant(FRAME[["x"]])
    plain = QuantileHuberMLE(FRAME.y, exog).fit().get_influence().summary_frame()
    labels = np.arange(len(FRAME)) // 2
    renamed = exog.set_axis([0, 1], axis=1).set_axis(labels)
    frame = (
        QuantileHuberMLE(FRAME.y.set_axis(labels), renamed).fit().get_influence().summary_frame()
    )
    assert list(frame.columns[:2]) == ["dfb_0", "dfb_1"]
    np.testing.assert_array_equal(frame.index, labels)
    np.testing.assert_allclose(frame, plain, rtol=1e-12)


def test_a_row_without_regressors_has_no_scaled_change_of_its_location():
    exog = FRAME[["x"]].copy()
    exog.iloc[5] = 0.0
    endog = FRAME.y - FRAME.y.median()
    frame = QuantileHuberMLE(endog, exog).fit().get_influence().summary_frame()
    assert np.flatnonzero(frame.dffits_internal.isna()).tolist() == [5]


# --- the bound --------------------------------------------------------------------------------------


def test_a_tau_on_its_bound_is_reported_and_has_no_standard_error():
    rng = np.random.default_rng(0)
    exog = sm.add_constant(rng.normal(size=300))
    endog = exog.sum(axis=1) + rng.exponential(size=300)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(endog, exog, tau_bounds=(0.1, 0.9)).fit()
    assert np.isnan(fit.bse[-1])
    assert np.isfinite(fit.bse[:-1]).all()
    text = str(fit.summary())
    assert "at bound" in text
    assert "tau ended on its bound" in text


def test_at_the_normal_limit_coefficients_have_errors():
    """At the normal limit tau says nothing, and a bound of it nothing about the errors."""
    assert np.isfinite(normal_limit_fit().bse[:2]).all()


def test_tau_is_not_tested_where_every_larger_width_fits_as_well():
    fit = normal_limit_fit()
    assert np.isnan(fit.tvalues["tau"])
    assert fit.tvalues[:2].notna().all()


# --- certificates -----------------------------------------------------------------------------------


def one_sided_fit():
    y = 1.0 + 2.0 * FRAME.x + np.random.default_rng(3).exponential(size=300)
    with pytest.warns(BoundaryWarning):
        return qhf.quantile_huber("y ~ x", FRAME.assign(y=y), tau_bounds=(0.1, 0.9)).fit()


def normal_limit_fit():
    y = 1.0 + 2.0 * FRAME.x + np.random.default_rng(5).uniform(-1.0, 1.0, 300)
    with pytest.warns(BoundaryWarning, match="infinity"):
        return qhf.quantile_huber("y ~ x", FRAME.assign(y=y), kappa=None).fit()


def test_a_parameter_without_standard_error_has_no_t_test():
    fit = one_sided_fit()
    made = fit.t_test("tau = 0.5, x = 2")
    assert np.isnan([made.pvalue[0], made.statistic[0], np.ravel(made.sd)[0]]).all()
    assert np.isnan(made.conf_int()[0]).all()
    plain = fit.t_test("x = 2")
    assert made.pvalue[1] == pytest.approx(float(plain.pvalue))
    assert np.isnan(float(fit.t_test("tau = 0.5").pvalue))
    assert np.isnan(fit.test_symmetry().wald.pvalue)


@pytest.mark.parametrize("make", [one_sided_fit, normal_limit_fit])
def test_influence_moves_no_parameter_that_is_treated_as_known(make):
    fit = make()
    influence = fit.get_influence()
    held = [fit.space.position(name) for name in fit.held_fixed]
    assert held
    assert not influence.d_params[:, held].any()
    distance, _ = influence.cooks_distance
    free = [j for j in range(fit.params.size) if j not in held]
    d, cov = influence.d_params[:, free], fit.cov_params().to_numpy()[np.ix_(free, free)]
    np.testing.assert_allclose(
        distance, np.einsum("ij,ji->i", d, np.linalg.solve(cov, d.T)) / len(free), rtol=1e-6
    )
    assert influence.summary_frame().shape[0] == 300
    assert np.isnan(influence.dfbetas[:, held]).all()


def test_an_empty_category_has_no_influence_in_standard_errors():
    frame = skewed_frame(80)
    frame["g"] = pd.Categorical(frame.g, categories=[*sorted(frame.g.unique()), "empty", "none"])
    frame["y"] = np.round(2.0 * frame.y)
    with pytest.warns(UserWarning, match="rank"):
        fit = QuantileHuberMLE.from_formula("y ~ g", frame, kappa=4.0).fit()
    dfbetas = fit.get_influence().dfbetas
    assert np.isnan(dfbetas[:, 3:5]).all()
    assert np.isfinite(np.delete(dfbetas, [3, 4], axis=1)).all()


def test_at_the_normal_limit_there_is_nothing_to_say_about_tau():
    fit = normal_limit_fit()
    test = fit.test_symmetry()
    assert test.lr.statistic == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(test.wald.pvalue)
    assert not test.score.pvalue < 0.99


def test_score_residuals_stay_finite_at_kappa_zero():
    influence = qhf.quantile_huber("y ~ x", FRAME, kappa=0.0).fit().get_influence()
    for joint in (True, False):
        assert np.isfinite(influence.resid_score(joint=joint, studentize=True)).all()
    with pytest.raises(AttributeError, match="use resid_score"):
        influence.resid_score_factor()


def test_certificates_are_one_attribute_and_one_call_away(fit):
    assert fit.certificate.holds
    assert fit.certificate.kappa == 4.0
    proof = fit.certify_global()
    assert proof.holds
    assert proof.upper_bound - fit.llf_restricted <= 1e-6
    with pytest.raises(DomainError, match="convex"):
        qhf.quantile_huber("y ~ x", FRAME, tau=0.3).fit().certify_global()


# --- tables -----------------------------------------------------------------------------------------


def test_the_summary_has_two_blocks_and_says_what_was_done(fit):
    made = fit.summary()
    assert len(made.tables) == 3
    lines = str(made).splitlines()
    assert len({len(line.rstrip("\n")) for line in lines if line.startswith("===")}) == 1
    text = str(made)
    for piece in (
        "REML",
        "HC3",
        "P(y < x'beta)",
        "Longer tail:",
        f"Symmetry p (Wald): {fit.test_symmetry().wald.pvalue:>19.3f}",
        f"AIC of OLS: {fit.aic_ols:>26.1f}",
    ):
        assert piece in text, piece
    sigma_row = next(line for line in lines if line.startswith("sigma"))
    assert len(sigma_row.split()) == 5
    tau_row = next(line for line in lines if line.startswith("tau"))
    assert len(tau_row.split()) == 7
    assert str(made.tables[1]).count("sigma") == 0
    assert re.search(r"\nkappa +4\.0000 +\(fixed\) *\n", text)
    proofs = next(line for line in lines if line.startswith("Proved:"))
    assert re.fullmatch(r"Proved: +gap \S+ +Biconvex; global: +yes; not checked", proofs)
    assert len(lines) - lines.index("Notes:") == 3


def test_the_summary_says_what_is_proved():
    model = qhf.quantile_huber("y ~ x", FRAME)
    for fit, proved in (
        (model.fit(search=True), "yes; certified"),
        (qhf.quantile_huber("y ~ x", FRAME, kappa=6.0).fit(), "no; not checked"),
        (qhf.quantile_huber("y ~ x", FRAME, tau=0.5).fit(), "yes; convex"),
    ):
        assert re.search(rf"Biconvex; global: +{proved}\n", str(fit.summary()))


def test_the_longer_tail_is_the_one_of_the_noise():
    rng = np.random.default_rng(0)
    noise = rng.gumbel(size=300)
    for endog, side in ((noise, "right"), (-noise, "left")):
        fit = QuantileHuberMLE(endog, np.ones(300)).fit()
        assert re.search(rf"Longer tail: +{side}\n", str(fit.summary()))
    symmetric = QuantileHuberMLE(noise, np.ones(300), tau=0.5).fit()
    assert re.search(r"Longer tail: +neither\n", str(symmetric.summary()))
    assert re.search(r"Symmetry p \(Wald\): +\(tau fixed\)\n", str(symmetric.summary()))


def test_the_criterion_of_least_squares_is_that_of_statsmodels_with_sigma_counted():
    frame = FRAME.assign(times=np.arange(300) % 3)
    formula = "y ~ x + C(g)"
    weights = {"freq_weights": "times"}
    plain = qhf.quantile_huber(formula, frame).fit(reml=False)
    assert plain.aic_ols == pytest.approx(sm.OLS.from_formula(formula, frame).fit().aic + 2.0)
    several = qhf.quantile_huber(formula, frame, **weights).fit(reml=False)
    repeated = frame.loc[frame.index.repeat(frame.times)]
    assert several.aic_ols == pytest.approx(sm.OLS.from_formula(formula, repeated).fit().aic + 2.0)
    moved = qhf.quantile_huber(formula, frame, offset="o").fit(reml=False)
    shifted = sm.OLS.from_formula("I(y - o) ~ x + C(g)", frame).fit()
    assert moved.aic_ols == pytest.approx(shifted.aic + 2.0)


def test_the_criterion_of_least_squares_is_that_of_the_comparison():
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    table = compare_models("y ~ x", FRAME).table
    assert fit.aic_ols == pytest.approx(table.aic["least squares"])
    held = fit.model.fit_constrained("x = 2")
    least = sm.OLS.from_formula("I(y - 2 * x) ~ 1", FRAME).fit()
    law = stats.norm.logpdf(least.resid, scale=np.sqrt(least.ssr / (300 - held.solution.p)))
    assert held.aic_ols == pytest.approx(4.0 - 2.0 * law.sum())


def test_the_summary_counts_the_rows_dropped():
    frame = FRAME.copy()
    frame.loc[frame.index[:7], "x"] = np.nan
    arrays = {"endog": frame.y, "exog": sm.add_constant(frame[["x"]]), "missing": "drop"}
    for fit in (
        qhf.quantile_huber("y ~ x", frame).fit(),
        QuantileHuberMLE(**arrays).fit(),
        qhf.quantile_huber_distributional("y ~ x", frame, scale="~ z").fit(),
    ):
        for made in (fit.summary(), fit.summary2()):
            assert re.search(r"No. Observations: +293 \(7 dropped\)", str(made))
    assert "dropped" not in str(qhf.quantile_huber("y ~ x", FRAME).fit().summary())


def test_the_tables_of_estimates_have_one_width_whatever_the_names():
    frame = FRAME.rename(columns={"x": "a_regressor_with_a_long_name"})
    fit = qhf.quantile_huber("y ~ a_regressor_with_a_long_name", frame).fit()
    first, second = (str(table).splitlines() for table in fit.summary().tables[1:])
    assert {len(line) for line in first} == {len(line) for line in second}
    ends = [
        len(line.rstrip()) for line in str(fit.summary2()).splitlines() if line.endswith("0.975]")
    ]
    assert len(ends) == 2
    assert ends[0] == ends[1]


def test_both_summaries_have_tau_before_sigma(fit):
    for made in (fit.summary(), fit.summary2()):
        lines = str(made).splitlines()
        places = [
            next(i for i, line in enumerate(lines) if line.startswith(n))
            for n in ("tau ", "sigma ")
        ]
        assert places == sorted(places)


@pytest.mark.parametrize("fixed", [{"tau": 0.4}, {"sigma": 0.5}, {"tau": 0.4, "sigma": 0.5}])
def test_both_summaries_have_a_row_for_what_is_fixed(fixed):
    fit = qhf.quantile_huber("y ~ x", FRAME, **fixed).fit()
    for made in (fit.summary(), fit.summary2()):
        for name, value in fixed.items():
            assert re.search(rf"\n{name} +{value:.4f} +\(fixed\)", str(made))


def test_both_summaries_say_why_a_parameter_has_no_standard_error():
    fit = qhf.quantile_huber("y ~ x", FRAME).fit_constrained("tau = 0.5")
    for made in (fit.summary(), fit.summary2()):
        assert re.search(r"\ntau +0\.5000 +\(fixed\)", str(made))


def test_summary2_counts_the_rows_in_the_quadratic_zone():
    fit = qhf.quantile_huber("y ~ x", FRAME, freq_weights="w").fit()
    share = 100.0 * fit.rows_in_zone / 300
    counted = rf"In quadratic zone: +{fit.rows_in_zone} rows \({share:.0f}%\)"
    assert re.search(counted, str(fit.summary2()))
    assert "zone" not in str(fit.summary())


def test_without_a_zone_summary2_counts_the_rows_on_the_line():
    text = str(qhf.quantile_huber("y ~ x", FRAME, kappa=0.0, tau=0.3).fit().summary2())
    assert re.search(r"On the line: +2 rows \(", text)
    assert "zone" not in text


def test_many_observations_are_counted_in_full():
    rng = np.random.default_rng(0)
    times = np.full(200, 7919.0)
    fit = QuantileHuberMLE(rng.laplace(size=200), np.ones(200), freq_weights=times).fit()
    assert "1583800" in str(fit.summary())


def test_every_format_of_the_tables_can_be_made(fit):
    for made in (fit.summary(), fit.summary2()):
        assert "tau" in made.as_text()
        assert "<table" in made.as_html()
        assert "tabular" in made.as_latex()
    assert "<table" in fit._repr_html_()
    assert "income" in fit.summary(xname=["one", "b", "c", "income"]).as_text()
    with pytest.raises(ValueError, match="xname"):
        fit.summary(xname=["one"])


@pytest.fixture(scope="module")
def oddly_named():
    names = ["const", "a_b", "u^2", "{x}", "b\\s", "t~", "R&D", "age[T.<b>18]"]
    rng = np.random.default_rng(0)
    exog = pd.DataFrame(np.c_[np.ones(200), rng.normal(size=(200, 7))], columns=names)
    exog["2 * a_b"] = 2.0 * exog["a_b"]
    endog = pd.Series(rng.gumbel(size=200), name="y_1 < y_2")
    with pytest.warns(RankWarning):
        return QuantileHuberMLE(endog, exog).fit()


def test_names_and_notes_are_escaped_in_latex(oddly_named):
    for made in (oddly_named.summary(), oddly_named.summary2()):
        text = made.as_latex()
        for name in (
            r"a\_b",
            r"u\textasciicircum{}2",
            r"\{x\}",
            r"b\textbackslash{}s",
            r"t\textasciitilde{}",
            r"R\&D",
            r"age[T.$<$b$>$18]",
            r"P(y $<$ x'beta)",
            r"y\_1 $<$ y\_2",
            r"2 * a\_b depend(s) on other columns",
            r"with kappa $>$ 0",
        ):
            assert name in text, name
        body = re.sub(r"\\[_&%#${}]|\$[<>|]( [|])?\$", "", text)
        assert not re.search(r"[_^~<>%#$](?!\\caption)", body)


def test_names_and_notes_are_escaped_in_html(oddly_named):
    for made in (oddly_named.summary(), oddly_named.summary2()):
        text = made.as_html()
        for name in ("R&amp;D", "age[T.&lt;b&gt;18]", "P(y &lt; x'beta)", "with kappa &gt; 0"):
            assert name in text, name
        assert not re.search(r"<(?!/?(table|tr|td|th|caption|br|class)\b)", text)
    assert "R&amp;D" in oddly_named._repr_html_()
    assert "R&D" in str(oddly_named.summary())


def test_the_share_of_rows_in_the_zone_is_one_of_the_rows_that_count():
    times = np.random.default_rng(0).integers(0, 2, len(FRAME))
    for model in (QuantileHuberMLE, QuantileHuberDistributional):
        weighted = model.from_formula("y ~ x", FRAME, freq_weights=times).fit()
        kept = model.from_formula("y ~ x", FRAME[times > 0]).fit()
        texts = [str(each.summary2()) for each in (weighted, kept)]
        shares = [re.search(r"quadratic zone: +(\d+ rows \(\d+%\))", text)[1] for text in texts]
        assert shares[0] == shares[1]


def test_summary_col_puts_fits_side_by_side(fit):
    text = summary_col([fit, fit.get_robustcov_results("HC1")], stars=True).as_text()
    assert "tau" in text
    assert "sigma" in text
    sigma = next(line for line in text.splitlines() if line.startswith("sigma"))
    assert "*" not in sigma


# --- examples -----------------------------------------------------------------------------------------


# --- copies -----------------------------------------------------------------------------------------


def test_copies_are_independent(fit):
    for make in (copy.copy, copy.deepcopy):
        other = make(fit)
        np.testing.assert_array_equal(other.params, fit.params)
        np.testing.assert_allclose(other.predict(FRAME.iloc[:3]), fit.predict(FRAME.iloc[:3]))
    deep = copy.deepcopy(fit)
    deep.remove_data()
    assert fit.model.exog is not None


@pytest.mark.parametrize("use_t", [True, False])
def test_a_distribution_that_is_asked_for_is_used(use_t):
    model = qhf.quantile_huber("y ~ x", FRAME.head(40), tau=0.5)
    default, asked = model.fit(), model.fit(use_t=use_t)
    law = stats.t(asked.df_resid) if use_t else stats.norm
    ratio = asked.params["x"] / asked.bse["x"]
    assert asked.bse["x"] == pytest.approx(default.bse["x"])
    assert asked.pvalues["x"] == pytest.approx(2 * law.sf(abs(ratio)))
    half = law.ppf(0.975) * asked.bse["x"]
    assert np.ravel(asked.conf_int().loc["x"])[1] == pytest.approx(asked.params["x"] + half)
    assert ("P>|t|" in str(asked.summary())) == use_t
    assert "P>|t|" in str(default.summary())
    again = default.get_robustcov_results("HC3", use_t=use_t)
    assert again.pvalues["x"] == pytest.approx(asked.pvalues["x"])


def test_restrictions_that_repeat_each_other_count_once():
    fit = qhf.quantile_huber("y ~ x + z", FRAME).fit(cov_type="HC1")
    once = fit.wald_test("x = 0.9, Intercept = 1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels tells of the rank
        again = fit.wald_test("x = 0.9, x = 0.9, Intercept = 1")
    assert float(again.statistic) == pytest.approx(float(once.statistic), rel=1e-6)
    assert float(again.pvalue) == pytest.approx(float(once.pvalue), rel=1e-6)
    plain = fit.wald_test("x = 0.9, Intercept = 1", use_f=False, df_constraints=5)
    assert float(plain.pvalue) == pytest.approx(stats.chi2.sf(2 * float(once.statistic), 5))


def test_a_table_of_tests_names_the_t_distribution_where_it_is_used(fit):
    assert "P>|t|" in str(fit.t_test("x = 0"))
    normal = fit.get_robustcov_results("HC3", use_t=False)
    assert "P>|z|" in str(normal.t_test("x = 0"))
    low, high = np.ravel(fit.t_test("x = 0").conf_int())
    np.testing.assert_allclose([low, high], fit.conf_int().loc["x"], rtol=1e-9)
