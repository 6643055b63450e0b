"""The boosting regressor: sanity, its two schemes by hand, its law, its intervals, what it refuses."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import optimize

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

import lightgbm as lgb
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from qhreg import QuantileHuberBoostingRegressor, quantile_huber
from qhreg.boosting.noise import (
    fit_noise,
    location_gradient,
    spread_gradient,
    symmetric_scale,
)
from qhreg.boosting.trees import TreeSum
from qhreg.boosting.twostep import FoldModel, cross_interval
from qhreg.covariance.information import unit_information
from qhreg.exceptions import DataError, DomainError
from qhreg.family.loss import quantile_huber_loss
from qhreg.solver import solve

SCHEMES = ["two-step", "paper"]


def simulated(n=300, p=4, seed=0, positive=0.8):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    noise = np.abs(rng.laplace(size=n)) * np.where(rng.random(n) < positive, 1, -1)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * noise


def spread_by_row(n, seed=0):
    """Noise that is skewed, and up to nine times as large on one side as on the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    noise = quantile_huber(0.7, 4.0).rvs(n, random_state=rng)
    return X, X[:, 1] + 0.2 * np.exp(1.1 * X[:, 0]) * noise


def model(**options):
    return QuantileHuberBoostingRegressor(**{"random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted():
    X, y = simulated()
    return X, y, model().fit(X, y)


# --- sanity ----------------------------------------------------------------------------------------


def xor(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sign(X[:, 0]) * np.sign(X[:, 1]) + 0.1 * rng.normal(size=n)


def like_servo(n, rng):
    """Four classes and two gains; a few combinations are many times as large as the rest."""
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 5, n), rng.integers(1, 6, n)]) * 1.0
    slow = np.exp(1.2 * (X[:, 2] <= 2) + 0.9 * (X[:, 2] <= 1) - 0.2 * X[:, 0])
    return X, slow * (1 + 0.1 * X[:, 1]) + 0.05 * rng.normal(size=n)


def like_puma(n, rng):
    """A product of two columns of many, the rest irrelevant."""
    X = rng.uniform(-1, 1, (n, 20))
    return X, X[:, 3] * np.sin(2 * X[:, 7]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("options", [{}, {"scale": "boosted"}, {"cv": None, "n_estimators": 200}])
@pytest.mark.parametrize(("make", "share"), [(xor, 0.3), (like_servo, 0.2), (like_puma, 0.8)])
def test_what_can_be_learnt_is_learnt(make, share, options):
    rng = np.random.default_rng(0)
    X, y = make(600, rng)
    X_test, y_test = make(1000, rng)
    fit = model(**options).fit(X, y)
    assert fit.n_estimators_ > 10
    for which in ("mean", "median", "location"):
        assert np.mean((fit.predict(X_test, which) - y_test) ** 2) < share * np.var(y_test)


def test_an_empty_ensemble_is_a_constant_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    with pytest.warns(UserWarning, match="no stage was kept") as caught:
        fit = model().fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert fit.n_estimators_ == fit.tau_path_.size == 0
    assert fit.booster_ is None
    assert np.argmin(fit.validation_score_) == 0
    assert np.ptp(fit.predict(X)) == 0.0
    np.testing.assert_array_equal(fit.feature_importances_, [0.0, 0.0])


@pytest.mark.parametrize("value", [1.0, 0.0, np.nan])
def test_features_without_information_give_a_constant_model(value):
    y = np.random.default_rng(0).normal(size=50)
    with pytest.warns(UserWarning, match="no column has two values"):
        fit = model().fit(np.full((50, 1), value), y)
    np.testing.assert_allclose(fit.predict([[0.0], [1.0]]), y.mean(), atol=0.2)


@pytest.mark.parametrize("options", [{}, {"scale": "boosted"}, {"sigma": 1.0}, {"scheme": "paper"}])
def test_a_constant_target_gives_a_constant_model(options):
    X = np.random.default_rng(0).normal(size=(30, 2))
    fit = model(**options).fit(X, np.full(30, 3.5))
    assert fit.n_estimators_ == 0
    np.testing.assert_allclose(fit.predict(X), 3.5)
    if "sigma" not in options:
        np.testing.assert_array_equal(fit.predict_quantile(X, 0.9), np.full(30, 3.5))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_importances_are_shares_in_what_is_explained(scheme):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2000, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    shares = model(scheme=scheme, n_estimators=200).fit(X, y).feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > shares[0] > 0.1
    assert shares[2:].max() < 0.01
    if scheme == "two-step":
        parts = np.var([np.sin(X[:, 0]), X[:, 1]], axis=1)
        np.testing.assert_allclose(shares[:2], parts / parts.sum(), atol=0.1)


# --- the gradients at tau = 1/2 --------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0, 1e4])
def test_the_symmetric_scale_maximises_the_likelihood(kappa):
    rng = np.random.default_rng(1)
    r, w = rng.standard_t(2, 200), rng.integers(1, 4, 200).astype(float)

    def loss(log_sigma):
        law = quantile_huber(0.5, kappa, scale=np.exp(log_sigma))
        return -np.average(law.logpdf(r), weights=w)

    best = optimize.minimize_scalar(loss, bounds=(-9, 5), method="bounded", options={"xatol": 1e-9})
    sigma, value = symmetric_scale(r, w, kappa)
    assert sigma == pytest.approx(np.exp(best.x), rel=1e-4)
    assert value == pytest.approx(best.fun, abs=1e-9)


def test_residuals_that_are_all_zero_have_the_least_scale():
    assert symmetric_scale(np.zeros(3), np.ones(3), 4.0)[0] == np.finfo(float).tiny


def test_the_location_gradient_is_that_of_the_loss_and_its_quadratic_lies_above():
    r, width = np.linspace(-9, 9, 37) + 0.01, 4.0
    gradient, curvature = location_gradient(r, np.ones(r.size), width)

    def loss(location):  # Huber's, times kappa: the zone is width wide
        return width * quantile_huber_loss(r - location, 0.5, width)

    step = 1e-6
    np.testing.assert_allclose(gradient, (loss(step) - loss(-step)) / (2 * step), atol=1e-6)
    for move in (-3.0, -0.5, 1.0, 8.0):
        above = loss(0.0) + gradient * move + 0.5 * curvature * move**2
        assert np.all(above >= loss(move) - 1e-12)


def test_the_spread_gradient_is_the_natural_gradient_of_the_likelihood():
    rng = np.random.default_rng(0)
    r, s, w = rng.normal(size=50), rng.normal(size=50), rng.uniform(1, 2, 50)
    step = 1e-6
    ends = [quantile_huber(0.5, 4.0, scale=np.exp(s + h)).logpdf(r) for h in (step, -step)]
    plain = -w * (ends[0] - ends[1]) / (2 * step)
    gradient, curvature = spread_gradient(r, s, w, 4.0)
    np.testing.assert_allclose(gradient * unit_information(0.5, 4.0)[1, 1], plain, atol=1e-7)
    np.testing.assert_array_equal(curvature, w)


# --- the noise and the stages ----------------------------------------------------------------------


def test_the_mean_of_the_noise_is_that_of_the_residuals():
    values = np.random.default_rng(0).gamma(2.0, size=400)
    noise = fit_noise(values, None, kappa=4.0)
    assert noise.mean == pytest.approx(values.mean(), abs=1e-7)
    assert noise.mean == pytest.approx(
        quantile_huber(noise.tau, 4.0, loc=noise.level, scale=noise.sigma).mean()
    )


def by_hand(X, y, folds, n_stages, sigmas):
    """Out-of-fold predictions of plain LightGBM boosters with the same options."""
    predicted = np.empty(y.size)
    options = model()._lightgbm_options(y.size, np.random.RandomState(0))
    data = lgb.Dataset(X, params=options)
    for inside, outside in folds:
        w = np.zeros(y.size)
        w[inside] = 1.0
        base = np.median(y[inside])
        booster = lgb.Booster(options, data)
        for sigma in sigmas[:n_stages]:
            booster.update(
                fobj=lambda f, _, b=base, w=w, s=sigma: location_gradient(y - b - f, w, 4.0 * s)
            )
        predicted[outside] = base + booster.predict(X[outside])
    return predicted


def test_noise_and_stages_are_those_of_the_rows_held_out():
    X, y = simulated(200)
    folds = list(KFold(4).split(X))
    fit = model(cv=folds, interval="conformal").fit(X, y)
    residuals = np.concatenate([each.residuals for each in fit._fold_models])
    scores, sigmas = [], []
    for stage in range(fit.n_estimators_ + 1):
        r = y - by_hand(X, y, folds, stage, sigmas)
        sigma, loss = symmetric_scale(r, np.ones(200), 4.0)
        scores.append(loss)
        sigmas.append(sigma)
    np.testing.assert_allclose(fit.validation_score_[: fit.n_estimators_ + 1], scores, rtol=1e-6)
    np.testing.assert_allclose(np.sort(r), np.sort(residuals), atol=1e-6)
    noise = solve(np.ones((200, 1)), r, kappa=4.0, reml=False)
    assert (fit.tau_, fit.sigma_) == pytest.approx((noise.tau, noise.sigma), rel=1e-5)
    assert fit.tau_path_[-1] == pytest.approx(fit.tau_, abs=1e-4)


def test_stages_end_where_the_rows_held_out_gain_no_more():
    X, y = simulated()
    fit = model(n_iter_no_change=7).fit(X, y)
    assert np.argmin(fit.validation_score_) == fit.n_estimators_
    assert fit.validation_score_.size == fit.n_estimators_ + 1 + 7
    assert fit.tau_path_.size == fit.sigma_path_.size == fit.n_estimators_
    assert fit.booster_.num_trees() == fit.n_estimators_
    whole = model(n_iter_no_change=None, n_estimators=60).fit(X, y)
    assert whole.n_estimators_ == 60


def test_early_stopping_is_no_worse_than_all_stages():
    errors = []
    for seed in range(5):
        X, y = make_friedman1(200, noise=10.0, random_state=seed)
        clean_X, clean = make_friedman1(1000, random_state=seed + 100)
        for patience in (10, None):
            fit = model(n_iter_no_change=patience, n_estimators=200).fit(X, y)
            errors.append(np.mean((fit.predict(clean_X) - clean) ** 2))
    stopped, whole = np.reshape(errors, (5, 2)).mean(axis=0)
    assert stopped < whole


def test_rows_to_evaluate_on_take_the_place_of_the_folds():
    X, y = simulated(500)
    fit = model().fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])])
    again = model().fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    np.testing.assert_array_equal(fit.predict(X), again.predict(X))
    assert fit.predict(X[300:]).mean() == pytest.approx(y[300:].mean(), abs=1e-6)
    assert np.argmin(fit.validation_score_) == fit.n_estimators_ == fit.booster_.num_trees()
    alone = model(cv=None, n_estimators=fit.n_estimators_).fit(X[:300], y[:300])
    assert alone.sigma_ < fit.sigma_


def test_the_asymmetry_of_the_noise_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 2))
    for tau in (0.2, 0.5, 0.8):
        y = 3 * X[:, 0] + quantile_huber(tau, 4.0, scale=0.2).rvs(2000, random_state=rng)
        fit = model().fit(X, y)
        assert fit.tau_ == pytest.approx(tau, abs=0.06)
        error = fit.predict(X, "location") - 3 * X[:, 0]
        assert abs(error.mean()) < 0.12


def test_fixed_noise_parameters_stay():
    X, y = simulated()
    fit = model(tau=0.7, sigma=0.5).fit(X, y)
    assert (fit.tau_, fit.sigma_) == (0.7, 0.5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_mirror_image_of_the_data_gives_the_mirror_image_of_the_fit(scheme):
    X, y = simulated()
    one = model(scheme=scheme, n_estimators=20).fit(X, y)
    other = model(scheme=scheme, n_estimators=20).fit(X, -y)
    assert one.tau_ == pytest.approx(1 - other.tau_, abs=1e-4)
    np.testing.assert_allclose(one.predict(X), -other.predict(X), atol=1e-3)


def test_units_of_the_response_do_not_matter():
    X, y = simulated()
    one, other = model().fit(X, y), model().fit(X, 1024.0 * y)
    assert one.n_estimators_ == other.n_estimators_
    np.testing.assert_allclose(1024.0 * one.predict(X), other.predict(X), rtol=1e-6, atol=1e-4)


# --- predictions -----------------------------------------------------------------------------------


def test_the_centres_are_those_of_the_law(fitted):
    X, _, fit = fitted
    law = fit.predict_distribution(X)
    np.testing.assert_array_equal(fit.predict(X), fit.predict(X, which="mean"))
    np.testing.assert_allclose(fit.predict(X, "median"), fit.predict_quantile(X, 0.5))
    np.testing.assert_array_equal(fit.predict(X, "location"), fit.predict(X, "mode"))
    np.testing.assert_allclose(law.logpdf(fit.predict(X, "mode")), law.logpdf(law.kwds["loc"]))
    assert np.all(fit.predict(X, "location") < fit.predict(X, "median"))
    assert np.all(fit.predict(X, "median") < fit.predict(X))
    with pytest.raises(DomainError, match="which must be"):
        fit.predict(X, "midpoint")


def test_score_is_r_squared_and_the_other_scores_are_those_of_the_law(fitted):
    X, y, fit = fitted
    assert fit.score(X, y) == pytest.approx(1 - np.mean((y - fit.predict(X)) ** 2) / np.var(y))
    law = fit.predict_distribution(X)
    w = np.arange(1.0, y.size + 1)
    assert fit.log_score(X, y) == pytest.approx(-law.logpdf(y).mean())
    assert fit.log_score(X, y, w) == pytest.approx(-np.average(law.logpdf(y), weights=w))
    grid = np.linspace(y.min() - 10, y.max() + 10, 4001)
    steps = [law.cdf(z) - (z >= y) for z in grid]
    by_sum = np.mean(np.square(steps).sum(axis=0) * (grid[1] - grid[0]))
    assert fit.crps(X, y) == pytest.approx(by_sum, rel=2e-3)


def test_quantiles_of_several_levels_never_cross_and_bound_the_intervals(fitted):
    X, _, fit = fitted
    quantiles = fit.predict_quantile(X, [0.1, 0.5, 0.9])
    assert quantiles.shape == (X.shape[0], 3)
    assert np.all(np.diff(quantiles, axis=1) > 0)
    intervals = fit.predict_interval(X, [0.8, 0.95])
    assert intervals.shape == (X.shape[0], 2, 2)
    np.testing.assert_allclose(intervals[:, 0], quantiles[:, [0, 2]])
    np.testing.assert_array_equal(fit.predict_interval(X, 0.8), intervals[:, 0])


@pytest.mark.parametrize("q", [0.0, 1.0, [0.5, 2.0], "half"])
def test_levels_outside_zero_and_one_are_refused(fitted, q):
    X, _, fit = fitted
    with pytest.raises(DomainError, match="q must"):
        fit.predict_quantile(X, q)


def test_the_booster_predicts_what_the_model_predicts(fitted):
    X, _, fit = fitted
    assert isinstance(fit.booster_, lgb.Booster)
    np.testing.assert_allclose(fit.booster_.predict(X), fit.predict(X), atol=1e-12)
    contributions = fit.booster_.predict(X, pred_contrib=True)  # SHAP values and their base
    np.testing.assert_allclose(contributions.sum(axis=1), fit.predict(X), atol=1e-9)


def test_trees_for_the_spread_follow_it():
    X, y = spread_by_row(2000)
    X_test, y_test = spread_by_row(4000, seed=1)
    constant, boosted = model().fit(X, y), model(scale="boosted").fit(X, y)
    assert boosted.log_score(X_test, y_test) < constant.log_score(X_test, y_test) - 0.1
    assert boosted.crps(X_test, y_test) < constant.crps(X_test, y_test)
    assert constant.spread_booster_ is None
    scale = boosted.predict_distribution(X_test).kwds["scale"]
    true = 0.2 * np.exp(1.1 * X_test[:, 0])
    assert np.corrcoef(np.log(scale), np.log(true))[0, 1] > 0.95
    ends = boosted.predict_interval(X_test, 0.8)
    inside = (ends[:, 0] <= y_test) & (y_test <= ends[:, 1])
    fifths = [inside[rows].mean() for rows in np.array_split(np.argsort(X_test[:, 0]), 5)]
    np.testing.assert_allclose(fifths, 0.8, atol=0.08)


@pytest.mark.parametrize("interval", ["law", "conformal"])
def test_intervals_cover_new_rows(interval):
    X, y = simulated(1500)
    X_test, y_test = simulated(3000, seed=1)
    ends = model(interval=interval).fit(X, y).predict_interval(X_test, [0.8, 0.95])
    inside = (ends[..., 0] <= y_test[:, None]) & (y_test[:, None] <= ends[..., 1])
    np.testing.assert_allclose(inside.mean(axis=0), [0.8, 0.95], atol=0.03)


def test_intervals_have_the_same_law_at_10_000_and_10_001_rows():
    X, y = simulated(10_001)
    widths = [
        np.diff(model(n_estimators=20).fit(X[:n], y[:n]).predict_interval(X[:50]), axis=1).mean()
        for n in (10_000, 10_001)
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)


def test_rows_to_evaluate_on_give_split_conformal_intervals():
    X, y = simulated(400)
    fit = model(interval="conformal").fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    errors = np.sort(y[300:] - fit.predict(X[300:]))  # 100 of them: ranks 10 and 91 of 101
    ends = fit.predict_interval(X[:5], 0.8) - fit.predict(X[:5])[:, None]
    np.testing.assert_allclose(ends, np.tile(errors[[9, 90]], (5, 1)), atol=1e-9)


def test_conformal_intervals_are_order_statistics_over_the_folds():
    rng = np.random.default_rng(0)
    models = [
        FoldModel(TreeSum(f, None), TreeSum(np.log(s), None), np.sort(rng.normal(size=m)))
        for f, s, m in [(0.0, 1.0, 33), (0.5, 2.0, 40), (-1.0, 0.5, 26)]
    ]
    values = np.sort(
        np.concatenate(
            [m.location.constant + np.exp(m.spread.constant) * m.residuals for m in models]
        )
    )
    ends = cross_interval(models, np.zeros((2, 1)), 0.9)  # n + 1 = 100: ranks 5 and 95
    np.testing.assert_allclose(ends, np.tile(values[[4, 94]], (2, 1)))
    assert np.all(np.isinf(cross_interval(models, np.zeros((1, 1)), 0.99)))


# --- features --------------------------------------------------------------------------------------


def test_names_of_features_are_kept():
    pd = pytest.importorskip("pandas")
    X, y = simulated(p=2)
    frame = pd.DataFrame(X, columns=["age", "income: [net]"])
    fit = model(n_estimators=5).fit(frame, y)
    assert list(fit.feature_names_in_) == ["age", "income: [net]"]
    assert fit.booster_.feature_name() == ["age", "income___net_"]
    with pytest.raises(ValueError, match="feature names"):
        fit.predict(frame.rename(columns={"age": "years"}))


def test_missing_values_are_a_direction_of_the_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    X[rng.random(400) < 0.5, 0] = np.nan
    y = np.isnan(X[:, 0]) + 0.1 * rng.normal(size=400)
    assert model().fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("columns", [[0], ["kind"], [True, False]])
def test_categories_have_no_order(columns):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 40, 2000), rng.normal(size=2000)]).astype(float)
    y = (X[:, 0] % 2) + 0.1 * rng.normal(size=2000)
    frame = pd.DataFrame(X, columns=["kind", "x"])
    options = {"n_estimators": 20, "max_depth": 1, "learning_rate": 0.5}
    assert model(categorical_features=columns, **options).fit(frame, y).score(frame, y) > 0.9
    assert model(**options).fit(frame, y).score(frame, y) < 0.5
    with pytest.raises(DomainError, match="names no column"):
        model(categorical_features=["sort"]).fit(frame, y)


def test_monotonic_constraints_hold():
    X, y = simulated()
    fit = model(monotonic_cst=[-1, 0, 0, 0], cv=None, n_estimators=200).fit(X, y)
    rows = np.tile(X[:1], (50, 1))
    rows[:, 0] = np.linspace(-1, 1, 50)
    assert np.all(np.diff(fit.predict(rows)) <= 0)
    assert np.any(np.diff(model(cv=None, n_estimators=200).fit(X, y).predict(rows)) > 0)


@pytest.mark.parametrize("groups", ["no_interactions", [[0], [1]]])
def test_columns_that_may_not_interact_add_up(groups):
    X, y = xor(400, np.random.default_rng(0))
    corners = np.array([[0.5, 0.5], [0.5, -0.5], [-0.5, 0.5], [-0.5, -0.5]])

    def interaction(**options):
        return abs(
            model(cv=None, n_estimators=200, **options).fit(X, y).predict(corners) @ [1, -1, -1, 1]
        )

    assert interaction(interaction_cst=groups) < 1e-9
    assert interaction(interaction_cst="pairwise") > 3
    assert interaction(interaction_cst=[[0, 1]]) > 3


@pytest.mark.parametrize(
    "option",
    [
        {"kappa": 0.5},
        {"learning_rate": 0.3},
        {"n_estimators": 5},
        {"max_depth": 1},
        {"max_leaf_nodes": 3},
        {"min_samples_leaf": 40},
        {"l2_regularization": 50.0},
        {"max_features": 0.3},
        {"subsample": 0.5},
        {"max_bins": 4},
        {"cv": None, "n_estimators": 200},
        {"cv": 3},
    ],
)
def test_every_option_changes_the_fit(option):
    X, y = simulated()
    assert not np.allclose(model().fit(X, y).predict(X), model(**option).fit(X, y).predict(X))


def test_a_seed_repeats_a_fit():
    X, y = simulated()
    options = {"subsample": 0.5, "max_features": 0.5, "n_estimators": 10}
    first, second = (model(**options).fit(X, y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_permutation_partial_dependence_pipelines_and_searches_work(fitted):
    X, y, fit = fitted
    means = permutation_importance(fit, X, y, n_repeats=2, random_state=0).importances_mean
    assert set(np.argsort(means)[-2:]) == {0, 1}
    assert partial_dependence(fit, X, [0])["average"].shape[0] == 1
    pipe = make_pipeline(StandardScaler(), model(n_estimators=20, cv=None))
    name = "quantilehuberboostingregressor__max_depth"
    search = GridSearchCV(pipe, {name: [1, 3]}, cv=2).fit(X, y)
    assert search.best_params_[name] in (1, 3)
    assert cross_val_score(model(), X, y, cv=3).mean() > 0.5


def test_the_plot_shows_the_path_of_tau(fitted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, _, fit = fitted
    ax = fit.plot_tau_path(color="k")
    line = ax.get_lines()[0]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, fit.n_estimators_ + 1))
    np.testing.assert_array_equal(line.get_ydata(), fit.tau_path_)
    assert fit.plot_tau_path(ax) is ax
    plt.close("all")


# --- the paper's scheme ----------------------------------------------------------------------------


def papers(**options):
    return model(scheme="paper", **{"kappa": 0.05, "sigma": 1.0, "learning_rate": 1.0, **options})


def test_one_stage_of_the_paper_on_six_points_is_as_computed_by_hand():
    # kappa = 2, tau = 1/2: zone +-1. The location 2.5 balances the slopes -1/2, -1/2, -1/4, 1/4, 1/2,
    # 1/2. The stump gives -1/4 on the first four points and 1/2 on the others; every step between 17
    # and 33 then leaves the last two rows on either side of the zone, and the first four add their
    # own slopes: a root of the derivative, checked below.
    X, y = np.array([[0.0], [0], [0], [0], [1], [1]]), np.array([0.0, 1, 2, 3, 10, 20])
    fit = papers(
        estimator=DecisionTreeRegressor(max_depth=1), kappa=2.0, tau=0.5, n_estimators=1
    ).fit(X, y)
    g = np.where(X[:, 0] > 0, 0.5, -0.25)
    step = (fit.predict([[1.0]], "location") - 2.5)[0] / 0.5
    np.testing.assert_allclose(fit.predict(X, "location"), 2.5 + step * g)
    psi = np.clip((y - 2.5 - step * g) / 2.0, -0.5, 0.5)
    assert psi @ g == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("sigma", [1.0, None])
def test_each_joint_step_is_the_linear_model_with_one_column(sigma):
    X, y = simulated()
    fit = papers(sigma=sigma, n_estimators=3, learning_rate=0.5).fit(X, y)
    start = solve(np.ones((y.size, 1)), y, kappa=0.05, sigma=sigma, reml=False)
    total = np.full(y.size, start.beta[0])
    for stage, learner in enumerate(fit.estimators_):
        g = learner.predict(X)
        step = solve(g[:, None], y - total, kappa=0.05, sigma=sigma, reml=False)
        assert fit.tau_path_[stage] == pytest.approx(step.tau, abs=1e-5)
        assert fit.sigma_path_[stage] == pytest.approx(step.sigma, rel=1e-5)
        assert fit.validation_score_[stage + 1] == pytest.approx(step.value / y.size, abs=1e-8)
        total += 0.5 * step.beta[0] * g
    np.testing.assert_allclose(fit.predict(X, "location"), total, atol=1e-4)


def test_large_kappa_and_tau_of_one_half_is_least_squares_boosting():
    from sklearn.ensemble import GradientBoostingRegressor

    X, y = simulated()
    ours = papers(kappa=1e6, tau=0.5, n_estimators=20, learning_rate=0.1).fit(X, y)
    other = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), atol=1e-6)


def test_any_regressor_is_a_base_learner_of_the_paper():
    X, y = simulated()
    assert papers(estimator=Ridge(), n_estimators=5).fit(X, y).n_estimators_ == 5


def test_a_learner_that_explains_every_row_does_no_harm():
    X = np.arange(20.0)[:, None]
    y = (X[:, 0] > 9).astype(float)
    fit = papers(sigma=None, n_estimators=50).fit(X, y)
    np.testing.assert_allclose(fit.predict(X), y, atol=1e-6)


# --- weights and bad input -------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"cv": None}, {"cv": None, "scale": "boosted"}])
def test_a_weight_of_two_is_a_row_given_twice(options):
    X, y = simulated(150)
    w = np.random.default_rng(1).integers(1, 4, 150)
    options = {"n_estimators": 20, "max_depth": 1, **options}
    weighted = model(**options).fit(X, y, sample_weight=w)
    repeated = model(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)
    assert weighted.tau_ == pytest.approx(repeated.tau_, abs=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("weights", "message"), [(np.zeros(50), "weights"), (np.linspace(-1, 1, 50), "[Nn]egative")]
)
def test_useless_weights_are_refused(weights, message, scheme):
    X, y = simulated(50)
    with pytest.raises(ValueError, match=message):
        model(scheme=scheme).fit(X, y, sample_weight=weights)


def test_weights_need_a_learner_that_takes_them():
    from sklearn.neighbors import KNeighborsRegressor

    X, y = simulated(50)
    fit = papers(estimator=KNeighborsRegressor(), n_estimators=2)
    fit.fit(X, y)
    with pytest.raises(DataError, match="does not take sample_weight"):
        fit.fit(X, y, sample_weight=np.full(50, 2.0))


def test_a_classifier_is_no_base_learner():
    from sklearn.tree import DecisionTreeClassifier

    X, y = simulated(50)
    with pytest.raises(ValueError, match="estimator must be a regressor"):
        papers(estimator=DecisionTreeClassifier()).fit(X, y)


@pytest.mark.parametrize(
    "option",
    [
        {"scheme": "both"},
        {"kappa": -1.0},
        {"tau": 1.0},
        {"sigma": 0.0},
        {"scale": "row"},
        {"n_estimators": 0},
        {"learning_rate": 0.0},
        {"subsample": 1.5},
        {"max_bins": 1},
        {"interval": "bootstrap"},
        {"interaction_cst": "some"},
    ],
)
def test_wrong_parameters_are_refused_by_name(option):
    X, y = simulated(50)
    with pytest.raises(ValueError, match=f"The '{next(iter(option))}' parameter"):
        model(**option).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": Ridge()}, "estimator needs scheme='paper'"),
        ({"scale": "boosted", "sigma": 1.0}, "sigma cannot be fixed"),
        ({"kappa": 0.0}, "kappa=0 needs scheme='paper'"),
        ({"interval": "conformal", "cv": None}, "needs rows held out"),
        ({"scheme": "paper", "scale": "boosted"}, "need scheme='two-step'"),
        ({"scheme": "paper", "interval": "conformal"}, "need scheme='two-step'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    X, y = simulated(50)
    with pytest.raises(DomainError, match=message):
        model(**options).fit(X, y)


def test_folds_that_leave_a_row_out_are_refused():
    X, y = simulated(50)
    with pytest.raises(DataError, match="must hold out each row once"):
        model(cv=[(np.arange(25), np.arange(25, 50))]).fit(X, y)


def test_a_clone_is_unfitted_and_equal():
    first = model(n_estimators=7, scale="boosted")
    assert clone(first).get_params() == first.get_params()


@pytest.mark.parametrize("missing", ["sklearn", "lightgbm"])
def test_a_missing_package_is_reported_with_its_extra(missing):
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from qhreg import QuantileHuberBoostingRegressor"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "qhreg[boost]" in done.stderr


def test_importing_the_package_does_not_import_scikit_learn():
    program = "import sys, qhreg; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("missing", ["", "sys.modules['sklearn'] = None; "])
def test_a_star_import_gives_the_regressor_where_scikit_learn_is(missing):
    program = (
        f"import sys; {missing}from qhreg import *; "
        f"sys.exit(('QuantileHuberBoostingRegressor' in globals()) != {not missing})"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_fit_warns_of_nothing_else():
    X, y = simulated()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X, np.abs(y))
