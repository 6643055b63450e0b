"""QuantileHuberMLE on arrays: construction, likelihood, fit, clones, bad input."""

import itertools
import threading

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from model_data import skewed_frame
from r_references import design, load
from reference_solvers import conic_fit
from scipy import sparse
from statsmodels.tools.numdiff import approx_fprime, approx_hess
from statsmodels.tools.sm_exceptions import MissingDataError

from qhreg import QuantileHuberMLE, quantile_huber
from qhreg.exceptions import DataError, DataWarning, DomainError, QhregError, RankWarning
from qhreg.solver import solve

FRAME = skewed_frame()
Y = FRAME.y.to_numpy()
X = sm.add_constant(FRAME[["x", "z"]].to_numpy())


# --- what is fixed and what is estimated ------------------------------------------------------------


@pytest.mark.parametrize("tau", [None, 0.4])
@pytest.mark.parametrize("sigma", [None, 0.7])
def test_params_hold_the_estimated_parameters_and_only_those(tau, sigma):
    fit = QuantileHuberMLE(Y, X, tau=tau, sigma=sigma).fit()
    extra = [name for name, value in [("sigma", sigma), ("tau", tau)] if value is None]
    assert fit.model.exog_names == ["const", "x1", "x2", *extra]
    assert fit.params.shape == (3 + len(extra),)
    assert tau is None or fit.tau == tau
    assert sigma is None or fit.sigma == sigma
    assert fit.df_resid == 300 - 3  # as OLS counts
    assert fit.reml == (sigma is None)
    assert fit.aic == pytest.approx(-2 * fit.llf + 2 * (3 + len(extra)))


def test_the_fit_is_that_of_the_solver():
    fit, solution = QuantileHuberMLE(Y, X).fit(), solve(X, Y)
    np.testing.assert_allclose(fit.params[:3], solution.beta, rtol=1e-12)
    assert (fit.sigma, fit.tau) == (solution.sigma, solution.tau)
    assert fit.llf == pytest.approx(solution.loglike, rel=1e-12)
    assert fit.llf_restricted == solution.loglike_restricted
    said = fit.mle_retvals
    assert said["converged"]
    assert said["duality_gap"] == solution.gap
    assert said["message"] == solution.reason
    assert fit.mle_settings["optimizer"] == "newton"


def test_the_log_likelihood_is_that_of_the_parameters_also_beside_rounding():
    for level in (1.0, 1e-6, 1e-10):
        for reml in (True, False):
            fit = QuantileHuberMLE(X @ [1.0, 2.0, 3.0] + level * Y, X).fit(reml=reml)
            assert fit.llf == fit.model.loglike(fit.params)
            assert np.isnan(fit.llf_restricted) != reml


def test_starting_values_do_not_change_the_fit():
    model = QuantileHuberMLE(Y, X)
    assert model.start_params.shape == (5,)
    fit = model.fit(start_params=model.start_params)
    np.testing.assert_allclose(fit.params, model.fit().params, rtol=1e-8)


# --- references -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["engel", "simulated"])
def test_with_kappa_0_and_tau_fixed_it_is_quantile_regression_as_in_r(name):
    problem = load("r_quantreg")["problems"][name]
    exog, endog = design(problem)
    for reference in problem["fits"]:
        fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=reference["tau"]).fit(
            cov_type="nonrobust"
        )
        np.testing.assert_allclose(fit.params[:-1], reference["coef"], rtol=1e-8)
        # iid errors have the same shape, and their own estimate of the sparsity
        ratio = fit.bse[:-1] / reference["bse_iid"]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)


def test_robust_errors_at_kappa_0_are_near_those_of_r_nid():
    problem = load("r_quantreg")["problems"]["simulated"]
    exog, endog = design(problem)
    ratios = []
    for reference in problem["fits"][1:4]:
        fit = QuantileHuberMLE(endog, exog, kappa=0.0, tau=reference["tau"]).fit(cov_type="HC0")
        ratios.append(fit.bse[:-1] / reference["bse_nid"])
    assert 0.8 < np.exp(np.log(ratios).mean()) < 1.25


@pytest.mark.parametrize("name", ["engel_income", "simulated_x", "simulated_x_z"])
def test_with_kappa_0_it_is_asymmetric_laplace_maximum_likelihood_as_in_r(name):
    problem = load("r_vgam")["problems"][name]
    exog, endog = design(problem)
    model, exact = QuantileHuberMLE(endog, exog, kappa=0.0), problem["exact"]
    fit = model.fit(reml=False, search=True)
    np.testing.assert_allclose(
        fit.params, [*exact["coef"], exact["sigma"], exact["tau"]], rtol=1e-6
    )
    assert fit.llf == pytest.approx(exact["loglik"], abs=1e-8)


def test_the_information_at_kappa_0_is_that_of_vgam():
    problem = load("r_vgam")["problems"]["simulated_x"]
    exog, endog = design(problem)
    vgam = problem["vgam"]
    model = QuantileHuberMLE(endog, exog, kappa=0.0)
    at = [*vgam["coef"], vgam["sigma"], vgam["tau"]]
    cov = np.linalg.inv(model.information(at))
    np.testing.assert_allclose(cov, np.array(vgam["cov_expected"]), rtol=1e-6, atol=1e-9)


def test_with_large_kappa_it_is_least_squares():
    fit = QuantileHuberMLE(Y, X, kappa=1e4, tau=0.5).fit(cov_type="nonrobust")
    ols = sm.OLS(Y, X).fit()
    np.testing.assert_allclose(fit.params[:3], ols.params, rtol=1e-3)
    np.testing.assert_allclose(fit.bse[:3], ols.bse, rtol=0.02)
    assert fit.sigma * np.sqrt(1e4) == pytest.approx(np.sqrt(ols.ssr / 300), rel=1e-2)


def test_with_tau_half_and_sigma_fixed_it_is_a_huber_fit():
    fit = QuantileHuberMLE(Y, X, kappa=1.5, tau=0.5, sigma=0.8).fit()
    reference = conic_fit(X, Y, 0.5, 1.5, sigma=0.8)
    np.testing.assert_allclose(fit.params, reference.beta, rtol=1e-6)


# --- likelihood -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [1.0, None])
def test_score_and_hessian_are_the_derivatives_of_the_log_likelihood(kappa):
    offset, weights = FRAME.o.to_numpy(), FRAME.w.to_numpy()
    model = QuantileHuberMLE(Y, X, kappa=kappa, offset=offset, freq_weights=weights)
    at = np.array([1.1, 1.9, 0.05, 0.6, 0.7, 1.3])[: model.nparams]
    slope = approx_fprime(at, model.loglike, centered=True)
    np.testing.assert_allclose(model.score(at), slope, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(model.score_obs(at).sum(axis=0), model.score(at), rtol=1e-10)
    assert model.loglikeobs(at).sum() == pytest.approx(model.loglike(at))
    bend = approx_fprime(at, model.score, epsilon=1e-7, centered=True)
    np.testing.assert_allclose(model.hessian(at), bend, rtol=1e-3, atol=2.0)
    np.testing.assert_allclose(model.information(at, observed=True), -model.hessian(at))


def test_the_factors_are_the_derivatives_in_the_location():
    weights = FRAME.w.to_numpy()
    model = QuantileHuberMLE(Y, X, freq_weights=weights)
    at = np.array([1.1, 1.9, 0.05, 0.6, 0.7])
    np.testing.assert_allclose(X.T @ model.score_factor(at), model.score(at)[:3], rtol=1e-10)
    for observed in (True, False):
        block = (X.T * model.hessian_factor(at, observed=observed)) @ X
        information = model.information(at, observed=observed)[:3, :3]
        np.testing.assert_allclose(block, -information, rtol=1e-10)


def test_score_vanishes_at_the_fit():
    fit = QuantileHuberMLE(Y, X).fit(reml=False)
    np.testing.assert_allclose(fit.model.score(fit.params), 0.0, atol=1e-6)


def test_expected_information_is_the_mean_of_the_observed_one():
    model = QuantileHuberMLE(Y, X, kappa=1.0)
    at = np.array([1.0, 2.0, 0.0, 0.8, 0.6])
    rng = np.random.default_rng(0)
    total = np.zeros((5, 5))
    draws = 400
    for _ in range(draws):
        u = quantile_huber.rvs(0.6, 1.0, size=300, random_state=rng)
        total += QuantileHuberMLE(X @ at[:3] + 0.8 * u, X, kappa=1.0).information(at, observed=True)
    np.testing.assert_allclose(
        total / draws, model.information(at), rtol=0.05, atol=0.02 * np.abs(total).max() / draws
    )


def test_hessian_of_the_base_class_is_not_used():
    fit = QuantileHuberMLE(Y, X, kappa=0.01).fit(cov_type="nonrobust")
    numeric = approx_hess(fit.params, fit.model.loglike)
    expected = fit.model.information(fit.params)
    assert np.linalg.norm(numeric + expected) > 0.2 * np.linalg.norm(expected)
    np.testing.assert_allclose(fit.cov_params(), np.linalg.inv(expected), rtol=1e-6, atol=1e-15)


# --- weights and offset -----------------------------------------------------------------------------


def test_frequency_weights_are_repeated_rows():
    times = FRAME.w.to_numpy().astype(int)
    weighted = QuantileHuberMLE(Y, X, freq_weights=times).fit()
    repeated = QuantileHuberMLE(np.repeat(Y, times), np.repeat(X, times, axis=0)).fit()
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=1e-7)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=1e-7)
    for name in ("nobs", "llf", "aic", "bic", "df_resid", "llnull", "prsquared", "tic"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-7), name
    for cov_type in ("HC0", "HC1"):
        np.testing.assert_allclose(
            weighted.get_robustcov_results(cov_type).bse,
            repeated.get_robustcov_results(cov_type).bse,
            rtol=1e-6,
        )


def test_sampling_weights_get_a_robust_covariance_that_ignores_their_scale():
    one, ten = (QuantileHuberMLE(Y, X, weights=s * FRAME.w.to_numpy()).fit() for s in (1.0, 10.0))
    assert one.cov_type == "HC3"
    assert one.nobs == 300
    assert one.llf == pytest.approx(ten.llf, rel=1e-12)
    np.testing.assert_allclose(one.params, ten.params, rtol=1e-7)
    np.testing.assert_allclose(one.bse, ten.bse, rtol=1e-6)
    assert "Sampling weights" in str(one.summary())


def test_an_offset_is_taken_from_the_response():
    offset = FRAME.o.to_numpy()
    with_offset = QuantileHuberMLE(Y, X, offset=offset).fit()
    without = QuantileHuberMLE(Y - offset, X).fit()
    np.testing.assert_allclose(with_offset.params, without.params, rtol=1e-9)
    np.testing.assert_allclose(with_offset.resid, without.resid, atol=1e-9)
    np.testing.assert_allclose(with_offset.fittedvalues, without.fittedvalues + offset, atol=1e-9)


def test_a_series_of_weights_is_matched_by_label():
    exog = sm.add_constant(FRAME[["x"]])
    plain = QuantileHuberMLE(FRAME.y, exog, weights=FRAME.w).fit()
    shuffled = FRAME.w.sample(frac=1.0, random_state=0)
    assert not shuffled.index.equals(FRAME.index)
    np.testing.assert_allclose(
        QuantileHuberMLE(FRAME.y, exog, weights=shuffled).fit().params, plain.params, rtol=1e-10
    )
    with pytest.raises(DataError, match="weights has no entry for 10 of 300 rows"):
        QuantileHuberMLE(FRAME.y, exog, weights=FRAME.w.iloc[10:])


def test_a_series_with_repeated_labels_must_have_the_order_of_the_rows():
    twice = FRAME.set_axis(np.arange(300) // 2)
    exog = sm.add_constant(twice[["x"]])
    model = QuantileHuberMLE(twice.y, exog, weights=twice.w)
    np.testing.assert_array_equal(model.weights, FRAME.w)
    with pytest.raises(DataError, match=r"weights cannot be matched to the rows.*repeated labels"):
        QuantileHuberMLE(twice.y, exog, weights=twice.w.iloc[::-1])
    endog = nan_at(twice.y, 5)
    dropped = QuantileHuberMLE(endog, exog, missing="drop").fit(
        cov_type="cluster", cov_kwds={"groups": twice.g}
    )
    assert dropped.nobs == 299


def test_masked_values_are_missing():
    y, exog = np.ma.array(Y, mask=np.arange(300) == 4), np.ma.array(X.copy(), mask=False)
    exog[7, 1] = np.ma.masked
    kept = np.setdiff1d(np.arange(300), [4, 7])
    clean = QuantileHuberMLE(Y[kept], X[kept]).fit()
    dropped = QuantileHuberMLE(y, exog, missing="drop").fit()
    np.testing.assert_allclose(dropped.params, clean.params, rtol=1e-12)
    with pytest.raises(DataError, match="endog contains 1 NaN"):
        QuantileHuberMLE(y, X)
    with pytest.raises(DataError, match="weights contains 1 NaN"):
        QuantileHuberMLE(Y, X, weights=np.ma.array(np.ones(300), mask=np.arange(300) == 0))
    assert np.isnan(clean.predict(exog[7:9])).tolist() == [True, False]


def test_missing_rows_are_dropped_together():
    y, w, o = Y.copy(), FRAME.w.to_numpy().copy(), FRAME.o.to_numpy().copy()
    exog = X.copy()
    y[0], exog[3, 1], w[7], o[9] = np.nan, np.nan, np.nan, np.nan
    kept = np.setdiff1d(np.arange(300), [0, 3, 7, 9])
    dropped = QuantileHuberMLE(y, exog, freq_weights=w, offset=o, missing="drop").fit()
    clean = QuantileHuberMLE(Y[kept], X[kept], freq_weights=w[kept], offset=o[kept]).fit()
    np.testing.assert_allclose(dropped.params, clean.params, rtol=1e-12)
    groups = np.arange(300) // 10
    of_all = dropped.get_robustcov_results("cluster", groups=groups).bse
    of_kept = clean.get_robustcov_results("cluster", groups=groups[kept]).bse
    np.testing.assert_allclose(of_all, of_kept, rtol=1e-12)


# --- constants, names, rank -------------------------------------------------------------------------


def test_the_constant_is_found_and_may_be_implicit():
    dummies = np.eye(3)[np.arange(300) % 3]
    assert QuantileHuberMLE(Y, X).k_constant == 1
    assert QuantileHuberMLE(Y, X).data.const_idx == 0
    assert QuantileHuberMLE(Y, X[:, 1:]).k_constant == 0
    implicit = QuantileHuberMLE(Y, np.column_stack([dummies, X[:, 1]]))
    assert implicit.k_constant == 1
    assert implicit.data.const_idx is None
    assert QuantileHuberMLE(Y, X, hasconst=False).k_constant == 0
    assert QuantileHuberMLE(Y, X[:, 1:], hasconst=True).k_constant == 1
    late = np.ones(300)
    late[250] = 2.0
    assert QuantileHuberMLE(Y, np.column_stack([late, X[:, 1]])).k_constant == 0


def test_without_a_constant_all_parameters_count():
    fit = QuantileHuberMLE(Y, X[:, 1:]).fit()
    assert (fit.df_model, fit.df_resid) == (2, 300 - 2)
    assert fit.aic == pytest.approx(-2 * fit.llf + 2 * 4)
    assert np.isnan(fit.llr_pvalue)


def test_dependent_columns_warn_and_count_once():
    doubled = np.column_stack([X, X[:, 1] - X[:, 2]])
    with pytest.warns(RankWarning, match="x3"):
        fit = QuantileHuberMLE(Y, doubled).fit()
    full = QuantileHuberMLE(Y, X).fit()
    assert fit.df_resid == full.df_resid
    assert fit.df_model == full.df_model
    assert fit.aic == pytest.approx(full.aic)
    np.testing.assert_allclose(fit.fittedvalues, full.fittedvalues, rtol=1e-7)
    np.testing.assert_allclose(fit.get_prediction().se, full.get_prediction().se, rtol=1e-6)
    assert "rank 3" in str(fit.summary())


def test_arrays_lists_and_frames_give_the_same_fit():
    exog = pd.DataFrame(X, columns=["one", "a", "b"])
    of_frame = QuantileHuberMLE(pd.Series(Y, name="resp"), exog).fit()
    assert list(of_frame.params.index) == ["one", "a", "b", "sigma", "tau"]
    assert of_frame.model.endog_names == "resp"
    of_list = QuantileHuberMLE(Y.tolist(), X.tolist()).fit()
    np.testing.assert_allclose(of_list.params, of_frame.params.to_numpy(), rtol=1e-12)
    one_column = QuantileHuberMLE(Y, np.ones(300)).fit()
    assert one_column.params.shape == (3,)


def test_integers_booleans_and_nullable_numbers_are_numbers():
    whole = (10 * FRAME.y).round()
    exog = sm.add_constant(FRAME[["x"]]).assign(high=FRAME.z > 2, n=FRAME.firm)
    plain = QuantileHuberMLE(whole, exog.astype(float)).fit().params
    nullable = exog.astype({"n": "Int64", "high": "boolean", "x": "Float64"})
    arrow = exog.astype({"n": "int64[pyarrow]", "high": "bool[pyarrow]", "x": "double[pyarrow]"})
    for endog in (whole.astype(int), whole.astype("Int64"), whole.astype("Float64")):
        np.testing.assert_allclose(QuantileHuberMLE(endog, nullable).fit().params, plain)
        np.testing.assert_allclose(QuantileHuberMLE(endog, arrow).fit().params, plain)
    gap = whole.astype("Int64")
    gap.iloc[3] = pd.NA
    assert QuantileHuberMLE(gap, exog, missing="drop").fit().nobs == 299


def test_read_only_and_float32_data_are_accepted():
    y, x = Y.copy(), np.asfortranarray(X)
    y.flags.writeable = x.flags.writeable = False
    QuantileHuberMLE(y, x).fit().summary()
    single = QuantileHuberMLE(Y.astype(np.float32), X.astype(np.float32)).fit()
    np.testing.assert_allclose(single.params, QuantileHuberMLE(Y, X).fit().params, rtol=1e-4)


# --- clones, threads, statsmodels' keywords ---------------------------------------------------------


def test_a_clone_from_init_keywords_is_the_same_model():
    options = {
        "kappa": 0.5,
        "tau": 0.4,
        "sigma": 0.9,
        "tau_bounds": (0.01, 0.9),
        "freq_weights": FRAME.w.to_numpy(),
        "offset": FRAME.o.to_numpy(),
    }
    model = QuantileHuberMLE(Y, X, **options)
    kwds = model._get_init_kwds()
    assert set(kwds) == set(options)
    clone = type(model)(model.endog, model.exog, **kwds)
    np.testing.assert_array_equal(clone.fit().params, model.fit().params)


def test_fit_accepts_what_statsmodels_passes():
    fit = QuantileHuberMLE(Y, X).fit(
        full_output=0, disp=0, callback=None, warn_convergence=False, skip_hessian=True
    )
    assert fit.converged


def test_fits_of_one_model_in_threads_agree():
    model = QuantileHuberMLE(Y, X)
    found: list[np.ndarray] = []

    def run():
        fit = model.fit()
        found.append(np.concatenate([fit.params, fit.bse, fit.conf_int().ravel()]))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for one, other in itertools.pairwise(found):
        np.testing.assert_array_equal(one, other)


# --- bad input --------------------------------------------------------------------------------------


def nan_at(array, row):
    spoiled = np.array(array, dtype=float)
    spoiled[row] = np.nan
    return spoiled


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((Y, X), {"weigths": Y}, "weigths.*did you mean 'weights'"),
        ((Y, X), {"tau": 1.0}, "tau must satisfy 0 < tau < 1"),
        ((Y, X), {"tau": [0.1, 0.2]}, r"tau must be one number.* got \[0.1, 0.2\].*fit_process"),
        ((Y, X), {"tau": "0.5"}, "tau must be one number, or None to estimate it; got '0.5'$"),
        ((Y, X), {"kappa": "auto"}, "kappa must be one number, or None to estimate it; got 'auto'"),
        ((np.full(300, np.inf), X), {}, "endog contains 300 infinite.*row 0: remove these rows$"),
        ((Y, X), {"sigma": 0.0}, "sigma must satisfy"),
        ((Y, X), {"kappa": -1.0}, "kappa must satisfy"),
        ((Y, X), {"tau_bounds": (0.5, 0.2)}, "tau_bounds"),
        ((Y, X), {"tau_bounds": 0.5}, "tau_bounds"),
        ((Y, X), {"missing": "ignore"}, "missing"),
        ((Y, None), {}, "exog is None"),
        ((Y[:-1], X), {}, "endog has 299 rows, exog has 300"),
        ((np.column_stack([Y, Y]), X), {}, "endog must be one-dimensional"),
        ((["a"] * 300, X), {}, "endog must be numeric"),
        ((pd.Series(["a"] * 300), X), {}, "endog must be numeric"),
        ((pd.Series(pd.date_range("2020", periods=300)), X), {}, "endog must be numeric, got date"),
        ((np.arange(300).astype("m8[s]"), X), {}, "endog must be numeric, got timedelta"),
        ((Y, sparse.csr_array(X)), {}, r"exog is a sparse matrix.*toarray"),
        ((Y, FRAME[["x", "g"]]), {}, "exog has columns that are not numeric: g"),
        ((FRAME.y, FRAME[["x", "z"]].where(FRAME.z > 1.1)), {}, r"column\(s\) x, z"),
        ((nan_at(Y, 4), X), {}, "endog contains 1 NaN.*row 4"),
        ((Y, nan_at(X, (3, 1))), {}, r"exog contains 1 NaN value\(s\), in column\(s\) 1"),
        ((nan_at(np.where(Y > 4.0, np.inf, Y), 4), X), {}, r"1 NaN value\(s\) and \d+ infinite"),
        ((nan_at(Y, 4), X), {"missing": "raise"}, r"endog contains 1 NaN .* missing=.raise"),
        (
            (FRAME.y, FRAME[["x", "z"]].where(FRAME.z > 1.1)),
            {"missing": "raise", "weights": nan_at(FRAME.w, 2)},
            r"exog contains \d+ NaN .* in column\(s\) x, z; weights contains 1 NaN",
        ),
        ((Y, X * 1j), {}, "exog must be real"),
        ((Y, X[:, :0]), {}, "exog has no columns"),
        ((Y, X), {"weights": 2.0}, "weights must have one entry for each row, got 2.0"),
        ((Y, X), {"weights": nan_at(FRAME.w, 2)}, "weights contains 1 NaN.*row 2"),
        ((Y, X), {"freq_weights": -FRAME.w.to_numpy()}, "freq_weights must not be negative"),
        ((Y, X), {"freq_weights": np.zeros(300)}, "freq_weights is zero in every row"),
        ((Y, X), {"offset": nan_at(FRAME.o, 2)}, "offset contains 1 NaN"),
        ((Y, X), {"weights": FRAME.w.to_numpy()[:10]}, "weights has length 10.*300 rows"),
        ((Y, X), {"weights": "w"}, "weights='w' names a column"),
        ((Y, X), {"weights": ["a"] * 300}, "weights must be numeric"),
        ((Y, pd.DataFrame(X, columns=["const", "tau", "b"])), {}, "column called 'tau'"),
        ((Y, pd.DataFrame(X, columns=["const", "a", "sigma"])), {}, "column called 'sigma'"),
    ],
)
def test_bad_input_is_named_when_the_model_is_built(arguments, options, message):
    with pytest.raises((QhregError, TypeError), match=message):
        QuantileHuberMLE(*arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cov_type": "HC4"}, "cov_type must be one of.*HC4"),
        ({"reml": "yes"}, "reml must be True or False, got 'yes'"),
        ({"method": "nm"}, "method must be.*'nm'"),
        ({"cov_type": "cluster"}, "needs cov_kwds"),
        ({"cov_kwds": {"groups": FRAME.g.to_numpy()}}, "cov_type is not given"),
        ({"cov_type": "HC0", "cov_kwds": {"grops": 1}}, "grops"),
        ({"cov_type": "cluster", "cov_kwds": {"groups": [1, 2, 3]}}, "groups has length 3"),
        (
            {"cov_type": "cluster", "cov_kwds": {"groups": nan_at(FRAME.firm, 2)}},
            "groups is missing .* in 1 of 300",
        ),
        ({"cov_type": "cluster", "cov_kwds": "firm"}, "cov_kwds must be a dict .*'firm'"),
        ({"start_params": [1.0, 2.0]}, r"params must have shape \(5,\)"),
    ],
)
def test_bad_options_of_fit_are_named(options, message):
    with pytest.raises((QhregError, TypeError), match=message):
        QuantileHuberMLE(Y, X).fit(**options)


@pytest.mark.parametrize(
    ("weights", "cov_type", "message"),
    [
        ({"weights": FRAME.w}, "nonrobust", "scale of sampling weights is arbitrary"),
        ({"freq_weights": np.full(Y.size, 2)}, "HAC", "needs one row per period"),
    ],
)
def test_a_covariance_that_the_weights_do_not_have_is_refused_before_the_fit(
    weights, cov_type, message
):
    model = QuantileHuberMLE(Y, X, **weights)
    with pytest.raises(DomainError, match=message):
        model.fit(cov_type=cov_type)
    with pytest.raises(DomainError, match=message):
        model.fit().get_robustcov_results(cov_type)


def test_fractional_frequencies_are_refused():
    with pytest.raises(DataError, match=r"whole numbers, got 1\.5: give other weights as weights"):
        QuantileHuberMLE(Y, X, freq_weights=np.full(Y.size, 1.5))


def test_too_few_rows_are_told():
    with pytest.warns(DataWarning, match="5 rows for 3 coefficients leave 2"):
        QuantileHuberMLE(Y[:5], X[:5]).fit()
    with pytest.raises(DataError, match="leave no residuals"):
        QuantileHuberMLE(Y[:3], X[:3]).fit()


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_a_mass_point_in_the_response_is_named_with_its_share():
    zeros = np.where(np.arange(300) % 3 == 0, Y, 0.0)
    with pytest.warns(DataWarning, match="67% of the responses equal 0: a continuous density"):
        QuantileHuberMLE(zeros, X).fit()


def test_a_third_positional_argument_is_refused():
    with pytest.raises(TypeError, match="positional"):
        QuantileHuberMLE(Y, X, FRAME.w)


def test_a_refusal_of_missing_values_is_the_error_of_statsmodels_too():
    with pytest.raises(MissingDataError, match="endog"):
        QuantileHuberMLE(nan_at(Y, 4), X, missing="raise")


def test_errors_are_value_errors():
    assert issubclass(DataError, ValueError)
    assert issubclass(DomainError, ValueError)


def test_what_the_base_class_has_and_the_model_does_not_is_neither_listed_nor_silent():
    fit = QuantileHuberMLE(Y, X).fit()
    for thing, name, instead in [
        (fit, "bsejhj", "HC0"),
        (fit, "covjac", "cov_params"),
        (fit, "get_nlfun", "get_prediction"),
        (fit.model, "expandparams", "when the model is built"),
    ]:
        assert name not in dir(thing)
        with pytest.raises(AttributeError, match=f"{name} is not offered: .*{instead}"):
            getattr(thing, name)
    assert {"params", "bse", "summary", "get_robustcov_results"} <= set(dir(fit))
