"""The linear model as scikit-learn estimators."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from qhreg import (
    QuantileHuberMLE,
    QuantileHuberRegressor,
    QuantileHuberRegressorCV,
    quantile_huber,
)
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning

NOISE = quantile_huber(tau=0.7, kappa=2.0, scale=0.5)


def sample(n=300, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, 1.0 + X @ np.arange(1.0, p + 1.0) + NOISE.rvs(n, random_state=rng)


def estimates(model):
    return np.array([model.intercept_, *model.coef_, model.sigma_, model.tau_])


def params(results):
    return np.array([*results.params[:-2], results.sigma, results.tau])


def expected_failures(estimator):
    """The check sets alpha, and a penalised fit needs a positive kappa."""
    return {"check_regressors_train": "alpha > 0 at kappa = 0"} if estimator.kappa == 0.0 else {}


@parametrize_with_checks(
    [
        QuantileHuberRegressor(),
        QuantileHuberRegressor(kappa=0.0, tau=0.5),
        QuantileHuberRegressor(sigma=1.0),
        QuantileHuberRegressor(reml=False, fit_intercept=False),
        QuantileHuberRegressor(alpha=0.1),
        QuantileHuberRegressorCV(alphas=2, cv=3),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.RankWarning")
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# --- the same model behind two doors -----------------------------------------------------------------


@pytest.mark.parametrize("reml", [True, False])
@pytest.mark.parametrize("n", [200, 5000])
def test_the_estimates_are_those_of_the_model(n, reml):
    X, y = sample(n)
    model = QuantileHuberRegressor(reml=reml).fit(X, y)
    results = QuantileHuberMLE(y, sm.add_constant(X)).fit(reml=reml)
    np.testing.assert_allclose(estimates(model), params(results), rtol=1e-6)
    assert model.solution_.converged
    assert model.n_iter_ > 0


def test_fixed_parameters_stay_fixed():
    X, y = sample()
    model = QuantileHuberRegressor(kappa=1.0, tau=0.4, sigma=0.7, fit_intercept=False).fit(X, y)
    assert (model.kappa_, model.tau_, model.intercept_) == (1.0, 0.4, 0.0)
    assert model.sigma_ == pytest.approx(0.7, rel=1e-12)
    results = QuantileHuberMLE(y, X, kappa=1.0, tau=0.4, sigma=0.7).fit()
    np.testing.assert_allclose(model.coef_, results.params, rtol=1e-7)


def test_an_estimated_width_is_that_of_the_model():
    X, y = sample(400)
    model = QuantileHuberRegressor(kappa=None).fit(X, y)
    assert model.kappa_ == pytest.approx(
        QuantileHuberMLE(y, sm.add_constant(X), kappa=None).fit().kappa, rel=1e-5
    )


def test_a_penalised_fit_is_that_of_the_model_and_spares_the_intercept():
    X, y = sample(p=5)
    model = QuantileHuberRegressor(alpha=0.2, l1_ratio=0.7).fit(X, y)
    results = QuantileHuberMLE(y, sm.add_constant(X)).fit_regularized(alpha=0.2, L1_wt=0.7)
    np.testing.assert_allclose(estimates(model), params(results), rtol=1e-7)
    gone = QuantileHuberRegressor(alpha=100.0).fit(X, y)
    assert not gone.coef_.any()
    assert gone.intercept_ != 0.0


def test_the_penalty_goes_continuously_to_none():
    X, y = sample()
    plain, light = (QuantileHuberRegressor(alpha=alpha).fit(X, y) for alpha in (0.0, 1e-9))
    np.testing.assert_allclose(estimates(light), estimates(plain), rtol=1e-5)


def test_the_order_of_the_rows_and_the_unit_of_the_response_do_not_matter():
    X, y = sample()
    order = np.random.default_rng(1).permutation(y.size)
    plain, shuffled, scaled = (
        QuantileHuberRegressor().fit(*data) for data in ((X, y), (X[order], y[order]), (X, 1e3 * y))
    )
    np.testing.assert_allclose(estimates(shuffled), estimates(plain), rtol=1e-8)
    np.testing.assert_allclose(scaled.predict(X), 1e3 * plain.predict(X), rtol=1e-6)


# --- weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"alpha": 0.1}, {"reml": False}, {"kappa": 0.0, "tau": 0.4}]
)
def test_a_weight_of_two_is_a_row_given_twice(options):
    X, y = sample(100)
    counts = np.random.default_rng(3).integers(0, 4, size=100)
    weighted = QuantileHuberRegressor(**options).fit(X, y, sample_weight=counts)
    repeated = QuantileHuberRegressor(**options).fit(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_allclose(estimates(weighted), estimates(repeated), rtol=1e-6)


def test_weights_that_are_shares_are_too_few_observations():
    X, y = sample(100)
    with pytest.raises(DataError, match="more observations than the rank"):
        QuantileHuberRegressor().fit(X, y, sample_weight=np.full(100, 0.01))


def test_negative_weights_are_refused():
    X, y = sample(50)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        QuantileHuberRegressor().fit(X, y, sample_weight=-np.ones(50))


# --- what is predicted -------------------------------------------------------------------------------


def test_the_prediction_is_the_mean_and_the_others_have_their_names():
    X, y = sample()
    model = QuantileHuberRegressor(kappa=1.5).fit(X, y)
    location = model.intercept_ + X @ model.coef_
    noise = quantile_huber(model.tau_, model.kappa_, scale=model.sigma_)
    mean = noise.expect(lambda e: e)  # by quadrature
    np.testing.assert_allclose(model.predict(X), location + mean, rtol=1e-8)
    np.testing.assert_array_equal(model.predict(X, which="location"), location)
    median = model.predict(X, which="median")
    np.testing.assert_allclose(noise.cdf(median - location), 0.5, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_quantile(X), median)


def test_quantiles_have_a_column_for_each_level_and_intervals_cover():
    X, y = sample(4000)
    model = QuantileHuberRegressor(kappa=2.0).fit(X, y)
    levels = [0.1, 0.5, 0.95]
    quantiles = model.predict_quantile(X, levels)
    assert quantiles.shape == (4000, 3)
    np.testing.assert_allclose((y[:, None] < quantiles).mean(axis=0), levels, atol=0.02)
    ends = model.predict_interval(X, coverage=0.8)
    assert ends.shape == (4000, 2)
    assert np.mean((ends[:, 0] < y) & (y < ends[:, 1])) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda model, X: model.predict(X, which="middle"), "middle"),
        (lambda model, X: model.predict_quantile(X, 1.0), "between 0 and 1"),
        (lambda model, X: model.predict_quantile(X, "half"), "half"),
        (lambda model, X: model.predict_interval(X, 90), "coverage"),
    ],
)
def test_what_cannot_be_predicted_is_said(call, word):
    X, y = sample(50)
    with pytest.raises(DomainError, match=word):
        call(QuantileHuberRegressor(tau=0.5).fit(X, y), X)


# --- where the data lie ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [200, 6000])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix])
def test_a_sparse_matrix_is_fitted_and_predicted_as_a_dense_one(n, fit_intercept, kind):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 4)) * (rng.uniform(size=(n, 4)) < 0.3)
    y = X.sum(axis=1) + NOISE.rvs(n, random_state=rng)
    options = {"fit_intercept": fit_intercept}
    dense = QuantileHuberRegressor(**options).fit(X, y)
    thin = QuantileHuberRegressor(**options).fit(kind(X), y)
    np.testing.assert_array_equal(estimates(thin), estimates(dense))
    np.testing.assert_allclose(dense.predict(kind(X)), dense.predict(X), rtol=1e-12)


@pytest.mark.parametrize("options", [{"alpha": 0.1}, {"kappa": None}])
def test_a_sparse_matrix_is_not_made_dense_behind_the_back_of_the_user(options):
    X, y = sample(64, p=7)
    with pytest.raises(DataError, match=r"sparse.* GiB"):
        QuantileHuberRegressor(**options).fit(sparse.csr_array(X), y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        QuantileHuberRegressorCV().fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("options", [{}, {"kappa": 0.0, "tau": 0.2}])
def test_the_fit_needs_little_memory_beside_the_data(options):
    """scikit-learn's issue 22922: QuantileRegressor asked for 61.6 TiB. Full size: docs/howto."""
    X, y = sample(400_000, p=2)
    tracemalloc.start()
    model = QuantileHuberRegressor(**options).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.solution_.converged
    assert peak < 0.75 * (X.nbytes + y.nbytes)


def test_the_quantile_loss_gives_the_line_of_quantile_regressor():
    X, y = sample(500)
    ours = QuantileHuberRegressor(kappa=0.0, tau=0.2).fit(X, y)
    theirs = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)


def test_single_precision_is_fitted_as_it_is():
    X, y = sample(5000)
    narrow = X.astype(np.float32)
    expected = estimates(QuantileHuberRegressor().fit(narrow.astype(np.float64), y))
    np.testing.assert_allclose(estimates(QuantileHuberRegressor().fit(narrow, y)), expected)


# --- what other robust regressions refuse ------------------------------------------------------------


def test_a_constant_response_is_fitted_exactly():
    """scikit-learn's issue 27777, on which the line search of HuberRegressor may fail."""
    X, y = np.array([[10.0], [11.0], [28.0]]), np.log(np.full(3, 5000.0))
    with pytest.warns(BoundaryWarning, match="sigma ended at 0"):
        model = QuantileHuberRegressor().fit(X, y, sample_weight=np.full(3, 2.0))
    assert model.sigma_ == 0.0
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    for predicted in (model.predict(X), *model.predict_interval(X).T):
        np.testing.assert_allclose(predicted, y, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"kappa": 0.0}, {"kappa": None}, {"tau": 0.3}])
def test_more_columns_than_rows_pass_through_the_rows(options):
    X, y = sample(6, p=9)
    with pytest.warns(BoundaryWarning, match="exactly"), pytest.warns(RankWarning):
        model = QuantileHuberRegressor(**options).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-9)
    assert model.tau_ == options.get("tau", 0.5)


def test_a_scale_out_of_proportion_is_not_taken_for_an_exact_fit():
    X, y = sample(50)
    with pytest.raises(DataError, match="sigma is fixed"):
        QuantileHuberRegressor(sigma=1e-30).fit(X, y)


def test_cauchy_noise_in_large_units_is_fitted_with_proof():
    """On some of these HuberRegressor stops with an abnormal line search."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = 1e5 * rng.lognormal(sigma=2.0, size=50)
        y = 2.0 * x + 1e5 * rng.standard_t(1, size=50)
        model = QuantileHuberRegressor().fit(x[:, None], y)
        assert model.solution_.converged
        assert model.solution_.gap <= 1e-9 * 50


# --- at home in scikit-learn -------------------------------------------------------------------------


def test_frames_keep_their_names_through_a_pipeline():
    X, y = sample()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipe = make_pipeline(StandardScaler(), QuantileHuberRegressor()).set_output(transform="pandas")
    pipe.fit(frame, y)
    assert list(pipe[-1].feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(pipe.predict(frame), QuantileHuberRegressor().fit(X, y).predict(X))
    copy = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(copy.predict(frame), pipe.predict(frame))


def test_a_model_of_statsmodels_stands_at_the_end_of_a_pipeline_and_is_cross_validated():
    """statsmodels' issue 9442: its estimators within scikit-learn."""
    X, y = sample(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(g=np.where(X[:, 0] > 0.0, "u", "v"))
    columns = make_column_transformer(
        (OneHotEncoder(drop="first"), ["g"]), (StandardScaler(), ["b", "c"])
    )
    pipe = make_pipeline(columns, QuantileHuberRegressor())
    scores = cross_val_score(pipe, frame, y, cv=4, scoring="neg_mean_absolute_error")
    assert scores.min() > -0.7 * np.abs(y - np.median(y)).mean()
    names = columns.fit(frame).get_feature_names_out()
    exog = pd.DataFrame(columns.transform(frame), columns=names).assign(const=1.0)
    model = QuantileHuberMLE(y, exog).fit()
    pipe.fit(frame, y)
    np.testing.assert_allclose(pipe.predict(frame), model.predict(which="mean"), rtol=1e-6)


def test_dependent_columns_are_named():
    X, y = sample()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "twice": 2.0 * X[:, 1]})
    with pytest.warns(RankWarning, match="twice"):
        QuantileHuberRegressor().fit(frame, y)


def test_a_grid_search_chooses_and_a_clone_has_the_same_parameters():
    X, y = sample(120)
    search = GridSearchCV(QuantileHuberRegressor(), {"kappa": [0.5, 4.0]}, cv=3).fit(X, y)
    assert search.best_estimator_.score(X, y) > 0.8
    model = QuantileHuberRegressor(tau_bounds=(0.1, 0.8), alpha=0.3)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    "wrong", [{"tau": 1.0}, {"kappa": -1.0}, {"l1_ratio": 2.0}, {"tau_bounds": (0.9, 0.1)}]
)
def test_parameters_outside_their_range_are_refused(wrong):
    X, y = sample(50)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QuantileHuberRegressor(**wrong).fit(X, y)


# --- the choice of the penalty -----------------------------------------------------------------------


def test_the_size_chosen_has_the_least_loss_on_the_rows_left_out():
    X, y = sample(90, p=6)
    folds = KFold(3, shuffle=True, random_state=0)
    model = QuantileHuberRegressorCV(alphas=[0.01, 0.3, 2.0], cv=folds, tau=0.6).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, [2.0, 0.3, 0.01])
    losses = np.empty((3, 3))
    for row, (inside, outside) in enumerate(folds.split(X)):
        for column, alpha in enumerate(model.alphas_):
            fit = QuantileHuberRegressor(alpha=alpha, tau=0.6).fit(X[inside], y[inside])
            law = quantile_huber(fit.tau_, fit.kappa_, scale=fit.sigma_)
            errors = y[outside] - fit.predict(X[outside], which="location")
            losses[row, column] = -law.logpdf(errors).mean()
    np.testing.assert_allclose(model.cross_validation_.losses, losses, rtol=1e-6)
    assert model.alpha_ == model.alphas_[losses.mean(axis=0).argmin()]
    whole = QuantileHuberRegressor(alpha=model.alpha_, tau=0.6).fit(X, y)
    np.testing.assert_array_equal(estimates(model), estimates(whole))


def test_the_sizes_start_where_no_coefficient_is_left():
    X, y = sample(90, p=4)
    model = QuantileHuberRegressorCV(alphas=4, eps=1e-3, tau=0.5, cv=3).fit(X, y)
    np.testing.assert_allclose(model.alphas_ / model.alphas_[0], [1.0, 0.1, 0.01, 0.001])
    assert not QuantileHuberRegressor(alpha=1.001 * model.alphas_[0], tau=0.5).fit(X, y).coef_.any()
    assert QuantileHuberRegressor(alpha=0.99 * model.alphas_[0], tau=0.5).fit(X, y).coef_.any()


def test_the_folds_may_be_given():
    X, y = sample(60)
    splits = list(GroupKFold(4).split(X, groups=np.arange(60) // 15))
    model = QuantileHuberRegressorCV(alphas=[0.1, 1.0], cv=splits, tau=0.5).fit(X, y)
    assert model.cross_validation_.losses.shape == (4, 2)


def test_weights_that_are_shares_give_the_same_likelihood_fit_and_a_sentence_for_the_restricted_one():
    X, y = sample(200)
    counts = np.random.default_rng(1).integers(1, 4, 200).astype(float)
    whole = QuantileHuberRegressor(reml=False).fit(X, y, sample_weight=counts)
    shares = QuantileHuberRegressor(reml=False).fit(X, y, sample_weight=counts / counts.sum())
    np.testing.assert_allclose(shares.coef_, whole.coef_, rtol=1e-8)
    assert shares.tau_ == pytest.approx(whole.tau_, rel=1e-8)
    with pytest.raises(DataError, match="weights count observations, so rescale shares"):
        QuantileHuberRegressor().fit(X, y, sample_weight=counts / counts.sum())


def test_scores_of_the_law():
    X, y = sample(200)
    model = QuantileHuberRegressor().fit(X, y)
    law = quantile_huber(model.tau_, model.kappa_, model.predict(X, which="mode"), model.sigma_)
    assert model.log_score(X, y) == pytest.approx(-law.logpdf(y).mean(), rel=1e-12)
    assert model.crps(X, y) < np.abs(y - model.predict(X, which="median")).mean()
    assert model.predict_interval(X, [0.5, 0.9]).shape == (200, 2, 2)
    np.testing.assert_array_equal(model.predict_interval(X), model.predict_interval(X, 0.95))
