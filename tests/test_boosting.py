"""The stages of the boosting regressor, by hand, by brute force and against other implementations."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

from sklearn.base import clone
from sklearn.datasets import make_friedman1, make_friedman2
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from qhreg import QuantileHuberBoostingRegressor
from qhreg.boosting.density import ErrorLaw
from qhreg.boosting.estimator import CLIP
from qhreg.boosting.histogram import HistogramTrees, TreeOptions
from qhreg.boosting.rows import out_of_fold_errors
from qhreg.boosting.run import Rows
from qhreg.boosting.stage import (
    MANY_ROWS,
    Noise,
    clipped_responses,
    fit_location,
    joint_step,
    leaf_locations,
    mean_loss,
    pseudo_responses,
)
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import loss_slope
from qhreg.solver import solve
from qhreg.solver.problem import Task

BOUNDS = (1e-3, 1 - 1e-3)


def simulated(n=300, p=4, seed=0, positive=0.8):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    noise = np.abs(rng.laplace(size=n)) * np.where(rng.random(n) < positive, 1, -1)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + noise


# One stage


def six_points():
    return np.array([[0.0], [0], [0], [0], [1], [1]]), np.array([0.0, 1, 2, 3, 10, 20])


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=1)])
def test_one_stage_on_six_points_is_as_computed_by_hand(estimator):
    # kappa = 2, tau = 1/2: zone +-1. The location 2.5 balances the slopes -1/2, -1/2, -1/4, 1/4, 1/2,
    # 1/2. The leaves' means are -1/4 and 1/2. The step solves, with the first row (r = -2.5 + beta/4)
    # and the fifth (r = 7.5 - beta/2) in the zone, beta/32 + 1/16 = 17/8 - beta/8: beta = 13.2.
    X, y = six_points()
    model = QuantileHuberBoostingRegressor(
        estimator,
        kappa=2.0,
        tau=0.5,
        sigma=1.0,
        n_estimators=1,
        learning_rate=1.0,
        max_depth=1,
        min_samples_leaf=1,
        min_split_gain=0.0,
    ).fit(X, y)
    assert model.init_ == pytest.approx(2.5, abs=1e-6)
    assert model.step_sizes_ == pytest.approx([13.2], rel=1e-5)
    assert model.predict([[0.0], [1.0]]) == pytest.approx([-0.8, 9.1], abs=1e-5)


def test_the_learning_rate_shrinks_the_stage():
    X, y = six_points()
    model = QuantileHuberBoostingRegressor(
        kappa=2.0,
        tau=0.5,
        sigma=1.0,
        n_estimators=1,
        learning_rate=0.5,
        max_depth=1,
        min_samples_leaf=1,
        min_split_gain=0.0,
    ).fit(X, y)
    assert model.predict([[0.0], [1.0]]) == pytest.approx([2.5 - 1.65, 2.5 + 3.3], abs=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 0.05, 1.0])
def test_pseudo_responses_are_the_slopes_of_the_loss(kappa):
    r = np.random.default_rng(0).normal(size=50)
    expected = loss_slope(r / 2.0, 0.3, kappa)
    np.testing.assert_allclose(pseudo_responses(r, Noise(2.0, 0.3), kappa), expected, rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_clipped_responses_differ_as_clipped_residuals_do_and_have_the_slopes_sign(weighted):
    rng = np.random.default_rng(0)
    r, w = rng.gumbel(size=60), rng.uniform(0.5, 2.0, 60) if weighted else None
    slopes = pseudo_responses(r, Noise(0.5, 0.3), 0.05)
    found = clipped_responses(r, w, slopes.copy(), 1.5)
    size = np.average(np.abs(r), weights=w)
    clipped = np.clip(r / size, -1.5, 1.5)
    np.testing.assert_allclose(np.diff(found), np.diff(clipped), atol=1e-12)
    relative = np.average(found, weights=w) / np.average(np.abs(clipped), weights=w)
    expected = np.average(slopes, weights=w) / np.average(np.abs(slopes), weights=w)
    assert relative == pytest.approx(expected, abs=1e-12)


def stage_design(n, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=n)
    return np.asfortranarray(np.column_stack([g, 1.5 * g + 0.7 * rng.gumbel(size=n)]))


@pytest.mark.parametrize("kappa", [0.05, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_joint_step_equals_a_brute_force_search(kappa, weighted):
    design = stage_design(80)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 80) if weighted else None
    fit = joint_step(design, w, Task(kappa, None, 1.0, BOUNDS), (0.0, Noise(1.0, 0.5)))

    def negative_log_likelihood(x):
        logpdf = quantile_huber.logpdf(design[:, 1] - x[0] * design[:, 0], x[1], kappa)
        return -float(np.average(logpdf, weights=w))

    best = optimize.brute(negative_log_likelihood, ((0.0, 3.0), (0.05, 0.95)), Ns=41)
    assert fit.value == pytest.approx(negative_log_likelihood(best), abs=1e-8)
    assert [fit.step, fit.noise.tau] == pytest.approx(list(best), abs=2e-3)


@pytest.mark.parametrize("sigma", [None, 1.0])
@pytest.mark.parametrize("n", [50, 400, 3 * MANY_ROWS])
def test_the_joint_step_is_the_linear_model_with_one_column_and_an_offset(n, sigma):
    design = stage_design(n)
    offset = np.linspace(-1, 1, n)
    task = Task(0.05, None, sigma, BOUNDS)
    fit = joint_step(design, None, task, (1.0, Noise(0.6, 0.55)))
    exact = solve(
        design[:, :1], design[:, 1] + offset, offset=offset, kappa=0.05, sigma=sigma, search=False
    )
    loose = 1e-6 if n <= MANY_ROWS else 1e-2
    assert fit.value == pytest.approx(exact.value / n, abs=1e-3 * loose)
    assert fit.noise.tau == pytest.approx(exact.tau, abs=0.1 * loose)
    assert fit.noise.sigma == pytest.approx(exact.sigma, rel=0.1 * loose)
    assert fit.step == pytest.approx(exact.beta[0], rel=loose)


def test_among_equally_good_steps_the_middle_is_taken():
    # two rows and tau = 1/2: the loss is flat between their zones, (0.025, 3.975)
    design = np.array([[1.0, 0.0], [1.0, 4.0]])
    task = Task(0.05, 0.5, 1.0, BOUNDS)
    for start in (0.1, 1.0, 3.9):
        fit = joint_step(design, None, task, (start, Noise(1.0, 0.5)))
        assert fit.step == pytest.approx(2.0, abs=1e-12)


def test_a_step_that_leaves_no_residual_raises_when_sigma_is_inferred():
    g = np.array([1.0, -1.0, 2.0])
    design = np.column_stack([g, 3.0 * g])
    with pytest.raises(DataError, match="sigma would go to 0"):
        joint_step(design, None, Task(0.05, None, None, BOUNDS), (0.0, Noise(1.0, 0.5)))


def test_the_location_fit_finds_the_likelihoods_maximum():
    y = np.random.default_rng(3).gumbel(size=400)
    location, noise = fit_location(y, None, Task(0.5, None, None, BOUNDS))

    def loss(x):
        return mean_loss(y - x[0], None, Noise(float(np.exp(x[1])), float(x[2])), 0.5)

    best = optimize.minimize(loss, [0.0, 0.0, 0.5], method="Nelder-Mead", tol=1e-10)
    assert loss([location, np.log(noise.sigma), noise.tau]) == pytest.approx(best.fun, abs=1e-9)


def test_the_mean_loss_is_minus_the_mean_log_density():
    r, w = np.random.default_rng(0).normal(size=(2, 40)) ** 2
    density = quantile_huber.logpdf(r, 0.3, 0.5, scale=2.0)
    assert mean_loss(r, w, Noise(2.0, 0.3), 0.5) == pytest.approx(-np.average(density, weights=w))


@pytest.mark.parametrize("kappa", [0.0, 0.05, 2.0])
def test_leaf_locations_minimise_each_leafs_loss(kappa):
    rng = np.random.default_rng(0)
    r, leaves, w = rng.normal(size=90), rng.integers(0, 3, 90), rng.uniform(0.5, 2, 90)
    noise = Noise(0.7, 0.3)
    found = leaf_locations(r, leaves, 4, w, noise, kappa)
    assert found[3] == 0.0
    for leaf in range(3):
        rows = leaves == leaf

        def loss(c, rows=rows):
            return mean_loss(r[rows] - c, w[rows], noise, kappa)

        grid = min(loss(c) for c in np.linspace(-3, 3, 2001))
        assert loss(found[leaf]) <= grid + 1e-9


@pytest.mark.parametrize("kappa", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("tau", [0.5, 0.25])
def test_among_equally_good_locations_of_a_leaf_the_middle_is_taken(kappa, tau):
    residuals = np.repeat([0.0, 4.0, 10.0, 20.0], [1, 2, 3, 6])
    leaves = np.zeros(12, dtype=int)
    up = leaf_locations(residuals, leaves, 1, None, Noise(1.0, tau), kappa)[0]
    down = leaf_locations(-residuals, leaves, 1, None, Noise(1.0, 1.0 - tau), kappa)[0]
    assert up == pytest.approx(-down, abs=1e-5)
    if tau == 0.5:
        assert up == pytest.approx(15.0, abs=1e-5)


# Against other boosting


def test_both_kinds_of_learners_agree_where_trees_coincide():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 4)).astype(float)
    y = X @ [1.0, 2.0, -1.0, 0.5] + X[:, 0] * X[:, 1] + rng.gumbel(size=400)
    options = {"kappa": 0.5, "n_estimators": 10, "learning_rate": 0.3, "min_split_gain": 0.0}
    ours = QuantileHuberBoostingRegressor(
        max_depth=2, min_samples_leaf=1, max_features=1.0, **options
    ).fit(X, y)
    generic = QuantileHuberBoostingRegressor(DecisionTreeRegressor(max_depth=2), **options)
    generic.fit(X, y)
    np.testing.assert_allclose(ours.tau_path_, generic.tau_path_, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), generic.predict(X), atol=1e-5)


def test_large_kappa_and_tau_of_one_half_is_least_squares_boosting():
    X, y = simulated()
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    ours = QuantileHuberBoostingRegressor(
        tree, kappa=1e4, tau=0.5, sigma=1.0, n_estimators=20, learning_rate=0.1
    ).fit(X, y)
    peer = GradientBoostingRegressor(n_estimators=20).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=1e-6)


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=3, random_state=0)])
def test_the_mirror_image_of_the_data_gives_the_mirror_image_of_tau(estimator):
    X, y = simulated(positive=1.0)
    up, down = (
        QuantileHuberBoostingRegressor(estimator, n_estimators=15, random_state=0).fit(X, sign * y)
        for sign in (1, -1)
    )
    np.testing.assert_allclose(up.tau_path_[:10], 1 - down.tau_path_[:10], atol=1e-5)
    assert up.tau_path_[0] > 0.51


@pytest.mark.parametrize("sigma", [None, "initial"])
def test_with_sigma_from_the_data_the_units_of_y_do_not_matter(sigma):
    X, y = simulated()
    model = QuantileHuberBoostingRegressor(sigma=sigma, n_estimators=15, random_state=0)
    small, large = model.fit(X, y), clone(model).fit(X, 1e6 * y + 1e5)
    assert small.n_estimators_ > 3
    np.testing.assert_allclose(large.tau_path_, small.tau_path_, atol=1e-6)
    np.testing.assert_allclose(large.sigma_path_, 1e6 * small.sigma_path_, rtol=1e-6)
    np.testing.assert_allclose(large.predict(X), 1e6 * small.predict(X) + 1e5, rtol=1e-5)


def test_with_sigma_fixed_scaling_y_and_sigma_together_changes_nothing():
    X, y = simulated()
    options = {"n_estimators": 15, "random_state": 0}
    one = QuantileHuberBoostingRegressor(sigma=1.0, **options).fit(X, y)
    ten = QuantileHuberBoostingRegressor(sigma=10.0, **options).fit(X, 10.0 * y)
    np.testing.assert_allclose(ten.tau_path_, one.tau_path_, atol=1e-7)
    np.testing.assert_allclose(ten.predict(X), 10.0 * one.predict(X), rtol=1e-6)


# What is signal and what is noise


@pytest.mark.parametrize("make", [make_friedman1, make_friedman2])
def test_without_noise_it_learns_what_least_squares_learns(make):
    # the second target is skewed like one-sided noise: its mode is its minimum
    X, y = make(1800, noise=0.0, random_state=0)
    ours = QuantileHuberBoostingRegressor(interval_cv=None, random_state=0)
    ours.fit(X[:800], y[:800])
    assert np.mean((ours.predict(X[800:]) - y[800:]) ** 2) < 0.1 * np.var(y)


@pytest.mark.parametrize("sigma", [None, "initial"])
def test_one_sided_noise_moves_it_less_than_least_squares(sigma):
    X, y = make_friedman1(2500, noise=0.0, random_state=0)
    noisy = y + y.std() * np.random.default_rng(0).exponential(size=y.size)
    ours = QuantileHuberBoostingRegressor(sigma=sigma, interval_cv=None, random_state=0)
    models = (ours, GradientBoostingRegressor(n_estimators=200))
    errors = [
        np.mean((m.fit(X[:1500], noisy[:1500]).predict(X[1500:]) - y[1500:]) ** 2) for m in models
    ]
    assert errors[0] < 0.6 * errors[1]


def test_the_stages_do_not_end_because_a_column_was_not_drawn():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 20))
    y = np.sign(X[:, 0])
    model = QuantileHuberBoostingRegressor(
        sigma="initial", max_features=0.1, n_estimators=30, random_state=0
    ).fit(X, y)
    assert model.n_estimators_ == model.booster_.num_trees() == 30
    assert np.mean((model.predict(X) - y) ** 2) < 0.05


# The fitted model


@pytest.fixture(scope="module")
def fitted():
    X, y = simulated()
    return (
        X,
        y,
        QuantileHuberBoostingRegressor(
            sigma=1.0, n_estimators=30, min_split_gain=0.0, max_features=1.0, random_state=0
        ).fit(X, y),
    )


def test_the_booster_predicts_what_the_model_predicts(fitted):
    X, _, model = fitted
    np.testing.assert_array_equal(model.booster_.predict(X, raw_score=True), model.predict(X))
    assert model.booster_.num_trees() == model.n_estimators_ == 30


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=3, random_state=0)])
def test_the_last_staged_prediction_is_the_prediction(estimator):
    X, y = simulated(100)
    model = QuantileHuberBoostingRegressor(estimator, n_estimators=7, random_state=0).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == 7
    np.testing.assert_allclose(stages[-1], model.predict(X), atol=1e-12)
    shorter = clone(model).set_params(n_estimators=3).fit(X, y)
    np.testing.assert_allclose(stages[2], shorter.predict(X), atol=1e-12)


def test_paths_have_one_entry_per_stage(fitted):
    _, _, model = fitted
    for path in (model.tau_path_, model.sigma_path_, model.step_sizes_, model.train_score_):
        assert path.shape == (30,)
    assert model.tau_ == model.tau_path_[-1]
    assert np.all(model.sigma_path_ == 1.0)
    assert not hasattr(model, "validation_score_")


def test_the_training_score_is_the_likelihood_at_the_joint_optimum():
    X, y = simulated(100)
    model = QuantileHuberBoostingRegressor(
        n_estimators=1, learning_rate=1.0, sigma=None, kappa=0.5
    ).fit(X, y)
    loss = mean_loss(y - model.predict(X), None, Noise(model.sigma_, model.tau_), 0.5)
    assert model.train_score_ == pytest.approx([loss], abs=1e-7)


def test_importances_find_the_two_features_that_matter(fitted):
    _, _, model = fitted
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


def test_importances_of_scikit_learn_trees_sum_to_one():
    X, y = simulated(100)
    tree = DecisionTreeRegressor(max_depth=2)
    model = QuantileHuberBoostingRegressor(tree, n_estimators=5).fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_quantiles_of_several_levels_never_cross(fitted):
    X, _, model = fitted
    levels = [0.01, 0.1, 0.5, 0.9, 0.99]
    quantiles = model.predict_quantile(X, levels)
    assert quantiles.shape == (X.shape[0], 5)
    assert np.all(np.diff(quantiles, axis=1) > 0)
    np.testing.assert_array_equal(quantiles[:, 2], model.predict_quantile(X, 0.5))


def test_intervals_end_at_the_quantiles(fitted):
    X, _, model = fitted
    both = model.predict_interval(X, [0.8, 0.95])
    assert both.shape == (X.shape[0], 2, 2)
    np.testing.assert_allclose(both[:, 0], model.predict_quantile(X, [0.1, 0.9]))
    np.testing.assert_allclose(both[:, 1], model.predict_interval(X, 0.95))


@pytest.mark.parametrize("q", [0.0, 1.0, -1, [0.5, 2.0], np.nan, "median"])
def test_levels_outside_zero_and_one_are_refused(fitted, q):
    X, _, model = fitted
    with pytest.raises(DomainError, match="q must"):
        model.predict_quantile(X, q)


def test_quantiles_are_those_of_the_law():
    law = ErrorLaw(1.0, 2.0, 0.3, 0.5)
    expected = 1.0 + 2.0 * quantile_huber.ppf([0.2, 0.7], 0.3, 0.5)
    np.testing.assert_allclose(law.quantiles([0.2, 0.7]), expected)


# Options


def test_early_stopping_keeps_the_stages_up_to_the_best_score():
    X, y = simulated(400)
    model = QuantileHuberBoostingRegressor(
        sigma=None, n_iter_no_change=5, n_estimators=500, tol=0.0, learning_rate=0.3, random_state=0
    ).fit(X, y)
    assert 1 < model.n_estimators_ < 450
    assert np.argmin(model.validation_score_) == model.n_estimators_ - 1
    assert model.booster_.num_trees() == model.n_estimators_
    assert len(model.tau_path_) == model.n_estimators_


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=2, random_state=0)])
@pytest.mark.parametrize("refine", [False, True])
def test_the_validation_score_is_the_likelihood_of_the_rows_held_out(estimator, refine):
    X, y = simulated(200)
    model = QuantileHuberBoostingRegressor(
        estimator,
        sigma=1.0,
        n_iter_no_change=100,
        n_estimators=6,
        random_state=0,
        validation_fraction=0.25,
        leaf_refinement=refine,
    ).fit(X, y)
    # the law of the errors is fitted to the same rows
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state

    rng = check_random_state(model._seed)
    _, x_out, _, y_out = train_test_split(X, y, test_size=0.25, random_state=rng)
    score = mean_loss(y_out - model.predict(x_out), None, Noise(1.0, model.tau_), 0.05)
    assert model.validation_score_[-1] == pytest.approx(score, abs=1e-10)


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=2, random_state=0)])
@pytest.mark.parametrize(("gain", "sigma"), [(0.0, None), (0.0, "initial"), (4.0, "initial")])
def test_a_warm_start_continues_where_the_first_fit_ended(estimator, gain, sigma):
    X, y = simulated(200)
    options = {"random_state": 0, "min_split_gain": gain, "sigma": sigma, "max_features": 1.0}
    whole = QuantileHuberBoostingRegressor(estimator, n_estimators=12, **options).fit(X, y)
    parts = QuantileHuberBoostingRegressor(estimator, n_estimators=5, warm_start=True, **options)
    parts.fit(X, y)
    parts.set_params(n_estimators=12).fit(X, y)
    assert parts.n_estimators_ == whole.n_estimators_ > 5
    np.testing.assert_allclose(parts.tau_path_, whole.tau_path_, atol=1e-5)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-5)
    with pytest.raises(ValueError, match=f"at least the {parts.n_estimators_} stages"):
        parts.set_params(n_estimators=3).fit(X, y)


def test_a_warm_start_with_validation_keeps_both_parts():
    X, y = simulated(200)
    options = {"n_iter_no_change": 50, "random_state": 0, "max_features": 1.0}
    whole = QuantileHuberBoostingRegressor(n_estimators=12, **options).fit(X, y)
    parts = QuantileHuberBoostingRegressor(n_estimators=5, warm_start=True, **options).fit(X, y)
    parts.set_params(n_estimators=12).fit(X, y)
    np.testing.assert_allclose(parts.validation_score_, whole.validation_score_, atol=1e-5)


def test_leaf_refinement_gives_each_leaf_its_own_location():
    X, y = six_points()
    for estimator in (None, DecisionTreeRegressor(max_depth=1)):
        model = QuantileHuberBoostingRegressor(
            estimator,
            kappa=2.0,
            tau=0.5,
            n_estimators=1,
            learning_rate=1.0,
            max_depth=1,
            min_samples_leaf=1,
            min_split_gain=0.0,
            sigma=1.0,
            leaf_refinement=True,
        ).fit(X, y)
        # 0, 1, 2, 3 balance at 1.5; 10 and 20 anywhere between their zones
        low, high = model.predict([[0.0], [1.0]])
        assert low == pytest.approx(1.5, abs=1e-4)
        assert 11.0 - 1e-4 <= high <= 19.0 + 1e-4


@pytest.mark.parametrize("whole", [False, True])
def test_refined_leaves_of_equal_output_are_those_that_the_residuals_saw(whole):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = X.sum(axis=1) + rng.exponential(size=200)
    y = np.round(y) if whole else y
    trees = HistogramTrees(TreeOptions(max_depth=6, min_samples_leaf=3), X, None, None)
    residuals = y - y.mean()
    for _ in range(30):
        trees.fit(np.clip(residuals, -0.5, 0.5))
        leaves = trees.leaves()
        assert np.bincount(leaves.index, minlength=leaves.count).min() > 0
        values = 0.1 * leaf_locations(
            residuals, leaves.index, leaves.count, None, Noise(1.0, 0.4), 0.05
        )
        trees.keep_leaves(values)
        residuals = residuals - values[leaves.index]
    np.testing.assert_allclose(y - trees.model(y.mean(), 30).predict(X), residuals, atol=1e-12)


def test_leaf_refinement_without_leaves_is_refused():
    from sklearn.linear_model import LinearRegression

    X, y = simulated(50)
    model = QuantileHuberBoostingRegressor(LinearRegression(), leaf_refinement=True)
    with pytest.raises(DataError, match="LinearRegression has no leaves"):
        model.fit(X, y)


@pytest.mark.parametrize("estimator", [None, DecisionTreeRegressor(max_depth=3)])
def test_a_subsample_changes_the_trees_and_a_seed_repeats_them(estimator):
    X, y = simulated(200)

    def fit(seed, share):
        return (
            QuantileHuberBoostingRegressor(
                estimator, n_estimators=5, subsample=share, random_state=seed
            )
            .fit(X, y)
            .predict(X)
        )

    np.testing.assert_array_equal(fit(0, 0.5), fit(0, 0.5))
    assert np.abs(fit(0, 0.5) - fit(1, 0.5)).max() > 1e-3
    assert np.abs(fit(0, 0.5) - fit(0, 1.0)).max() > 1e-3


@pytest.mark.parametrize(
    "option",
    [
        {"max_depth": 1},
        {"max_leaf_nodes": 3},
        {"min_samples_leaf": 60},
        {"max_bins": 4},
        {"l2_regularization": 50.0},
        {"min_split_gain": 20.0},
        {"subsample": 0.5},
        {"leaf_refinement": True},
        {"sigma": "initial"},
        {"max_features": 0.3},
        {"kappa": 1.0},
        {"sigma": 3.0},
        {"tau": 0.3},
        {"learning_rate": 0.3},
        {"clip": None},
    ],
)
def test_every_option_changes_the_fit(option):
    X, y = simulated(200)
    base = {"n_estimators": 5, "random_state": 0, "min_split_gain": 0.0}
    plain = QuantileHuberBoostingRegressor(**base)
    changed = QuantileHuberBoostingRegressor(**base | option)
    assert np.abs(plain.fit(X, y).predict(X) - changed.fit(X, y).predict(X)).max() > 1e-3


def test_leaves_have_the_rows_asked_for():
    X, y = simulated(200)
    model = QuantileHuberBoostingRegressor(n_estimators=3, min_samples_leaf=37).fit(X, y)
    leaves = model.booster_.predict(X, pred_leaf=True)
    assert min(np.bincount(column).min() for column in leaves.T) >= 37


def test_missing_values_are_a_direction_of_the_trees():
    X, y = simulated(300)
    X[:, 2] = np.where(y > np.median(y), np.nan, 0.0)
    model = QuantileHuberBoostingRegressor(n_estimators=20).fit(X, y)
    assert model.feature_importances_[2] > 0.5


def test_out_of_fold_errors_are_larger_than_training_errors():
    X, y = simulated(200)
    options = {"n_estimators": 60, "random_state": 0, "min_split_gain": 0.0}
    train = QuantileHuberBoostingRegressor(interval_cv=None, **options).fit(X, y)
    folds = QuantileHuberBoostingRegressor(interval_cv=3, **options).fit(X, y)
    np.testing.assert_array_equal(train.predict(X), folds.predict(X))
    assert folds.error_law_.sigma > 1.5 * train.error_law_.sigma


def test_by_default_five_folds_give_the_errors_of_few_rows_and_training_those_of_many(monkeypatch):
    X, y = simulated(200)
    options = {"n_estimators": 20, "random_state": 0}

    def law(cv):
        return QuantileHuberBoostingRegressor(interval_cv=cv, **options).fit(X, y).error_law_

    assert QuantileHuberBoostingRegressor(**options).interval_cv == "auto"
    assert law("auto") == law(5) != law(None)
    monkeypatch.setattr("qhreg.boosting.estimator.FEW_ROWS", 199)
    assert law("auto") == law(None)


def test_out_of_fold_errors_are_those_of_models_that_have_not_seen_the_row():
    X, y = simulated(60)
    model = QuantileHuberBoostingRegressor(n_estimators=10, interval_cv=None, random_state=0)
    errors = out_of_fold_errors(model, Rows(X, y, None), 3, seed=1)
    for inside, outside in KFold(3, shuffle=True, random_state=1).split(X):
        expected = y[outside] - model.fit(X[inside], y[inside]).predict(X[outside])
        np.testing.assert_array_equal(errors[outside], expected)


@pytest.mark.parametrize(
    ("n", "weight", "low"), [(60, None, 0.25), (100, None, 0.2), (50, 2.5, 0.16)]
)
def test_an_inferred_tau_leaves_twenty_rows_on_the_light_side(n, weight, low):
    rng = np.random.default_rng(n)
    X = rng.uniform(size=(n, 2))
    y = X[:, 0] + 5.0 * rng.exponential(size=n)
    weights = None if weight is None else np.full(n, weight)
    model = QuantileHuberBoostingRegressor(n_estimators=20, min_split_gain=0.0, random_state=0)
    free = clone(model).set_params(tau_bounds=(1e-3, 1.0 - 1e-3)).fit(X, y, weights)
    assert free.tau_path_.max() > 1.0 - low
    assert model.fit(X, y, weights).tau_path_.max() == pytest.approx(1.0 - low, abs=1e-12)
    fixed = clone(model).set_params(sigma=1.0).fit(X, y, weights)
    wide = clone(fixed).set_params(tau_bounds=(1e-3, 1.0 - 1e-3)).fit(X, y, weights)
    np.testing.assert_array_equal(fixed.tau_path_, wide.tau_path_)


def test_targets_without_noise_are_learnt_from_few_rows_too():
    X, y = make_friedman1(n_samples=577, noise=0.0, random_state=0)
    X, y = X[:, :5], (y - y.mean()) / y.std()
    model = QuantileHuberBoostingRegressor(random_state=0).fit(X[:77], y[:77])
    squares = GradientBoostingRegressor(n_estimators=200, random_state=0).fit(X[:77], y[:77])
    error, least = (float(np.mean((m.predict(X[77:]) - y[77:]) ** 2)) for m in (model, squares))
    assert error < 1.1 * least


def test_the_initial_sigma_is_that_of_the_response_and_stays():
    X, y = simulated(200)
    model = QuantileHuberBoostingRegressor(sigma="initial", n_estimators=8, random_state=0)
    model.fit(X, y)
    _, noise = fit_location(y, None, Task(0.05, 0.5, None, BOUNDS))
    np.testing.assert_allclose(model.sigma_path_, noise.sigma, rtol=1e-12)
    same = clone(model).set_params(sigma=noise.sigma, clip=CLIP)
    np.testing.assert_allclose(model.predict(X), same.fit(X, y).predict(X), rtol=1e-6)


@pytest.mark.parametrize(("gain", "stages"), [(3.99, 1), (4.01, 0)])
def test_a_split_that_gains_less_than_asked_for_is_not_made(gain, stages):
    # slopes -1/2, -1/2, -1/4, 1/4 | 1/2, 1/2: their mean square is 3/16, and the split gains
    # 4 (1/4)^2 + 2 (1/2)^2 = 3/4, four times as much
    X, y = six_points()
    model = QuantileHuberBoostingRegressor(
        kappa=2.0,
        tau=0.5,
        sigma=1.0,
        n_estimators=1,
        max_depth=1,
        min_samples_leaf=1,
        min_split_gain=gain,
    ).fit(X, y)
    assert model.n_estimators_ == stages


@pytest.mark.parametrize("weights", [None, np.full(6, 2.0)])
def test_less_gain_is_asked_for_where_less_of_the_spread_is_left(weights):
    X, _ = six_points()
    slopes = np.array([-0.5, -0.5, -0.25, 0.25, 0.5, 0.5])
    options = TreeOptions(max_depth=1, min_split_gain=8.0 if weights is None else 16.0)
    for share, found in [(0.70, True), (0.72, False)]:  # 8 share^2 against 4
        trees = HistogramTrees(options, X, weights, None)
        outputs = trees.fit(slopes, share)
        expected = np.array([-0.25] * 4 + [0.5] * 2) if found else np.zeros(6)
        np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_noise_alone_gives_no_stages_unless_all_are_asked_for():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.laplace(size=300)
    assert QuantileHuberBoostingRegressor(n_estimators=30).fit(X, y).n_estimators_ <= 2
    every = QuantileHuberBoostingRegressor(n_estimators=30, min_split_gain=0.0).fit(X, y)
    assert every.n_estimators_ == 30


def test_a_progress_bar_is_shown_when_asked_for(capsys):
    pytest.importorskip("tqdm")
    X, y = simulated(60)
    QuantileHuberBoostingRegressor(n_estimators=3, verbose=1).fit(X, y)
    assert "boosting: 100%" in capsys.readouterr().err


def test_the_plot_shows_the_path_of_tau(fitted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    _, _, model = fitted
    ax = model.plot_tau_path(color="k")
    line = ax.get_lines()[0]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 31))
    np.testing.assert_array_equal(line.get_ydata(), model.tau_path_)
    assert model.plot_tau_path(ax) is ax
    matplotlib.pyplot.close("all")


def test_it_works_in_a_grid_search_over_a_pipeline():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = simulated(150)
    pipe = make_pipeline(StandardScaler(), QuantileHuberBoostingRegressor(n_estimators=5))
    name = "quantilehuberboostingregressor__max_depth"
    search = GridSearchCV(pipe, {name: [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_[name] in (1, 2)


# Bad input


@pytest.mark.parametrize("sigma", [1.0, None])
@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize("stop", [None, 3])
def test_a_constant_target_gives_a_constant_model(sigma, n, stop):
    if n == 1 and stop is not None:
        pytest.skip("one row cannot be split")
    X = np.random.default_rng(0).normal(size=(n, 2))
    model = QuantileHuberBoostingRegressor(sigma=sigma, n_iter_no_change=stop)
    model.fit(X, np.full(n, 3.5))
    np.testing.assert_array_equal(model.predict(X), np.full(n, 3.5))
    np.testing.assert_array_equal(model.predict_quantile(X, 0.9), np.full(n, 3.5))
    assert model.n_estimators_ == 0


@pytest.mark.parametrize("sigma", [1.0, None])
@pytest.mark.parametrize("value", [1.0, 0.0, np.nan])
def test_features_without_information_give_a_constant_model(sigma, value):
    y = np.random.default_rng(0).normal(size=50)
    model = QuantileHuberBoostingRegressor(sigma=sigma).fit(np.full((50, 1), value), y)
    assert model.n_estimators_ == 0
    np.testing.assert_array_equal(model.predict([[0.0], [1.0]]), np.full(2, model.init_))
    with pytest.raises(AttributeError, match="no importances"):
        _ = model.feature_importances_


def test_a_learner_that_explains_every_row_ends_the_stages():
    X = np.arange(20.0)[:, None]
    y = (X[:, 0] > 9).astype(float)
    model = QuantileHuberBoostingRegressor(
        sigma=None, learning_rate=1.0, n_estimators=50, min_samples_leaf=1
    )
    model.fit(X, y)
    assert model.n_estimators_ < 50
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.zeros(50), "weights"), (np.linspace(-1, 1, 50), "negative")],
)
def test_useless_weights_are_refused(weights, message):
    X, y = simulated(50)
    with pytest.raises(ValueError, match=message):
        QuantileHuberBoostingRegressor().fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("gain", [0.0, 12.0])
def test_a_weight_of_two_is_a_row_given_twice(gain):
    X, y = simulated(150)
    w = np.random.default_rng(1).integers(0, 4, 150)
    model = QuantileHuberBoostingRegressor(
        n_estimators=20,
        min_split_gain=gain,
        interval_cv=None,
        kappa=0.5,
        max_depth=1,
        random_state=0,
    )  # deeper trees have splits that are equally good
    weighted = model.fit(X, y, sample_weight=w).predict(X)
    repeated = model.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict(X)
    assert model.n_estimators_ > 3
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


def test_a_subsample_has_a_row_at_least():
    X, y = simulated(50)
    for estimator in (None, DecisionTreeRegressor(max_depth=1)):
        model = QuantileHuberBoostingRegressor(
            estimator, subsample=0.001, n_estimators=3, interval_cv=None, random_state=0
        ).fit(X, y)
        assert np.isfinite(model.predict(X)).all()


def test_weights_that_look_like_shares_are_warned_about():
    X, y = simulated(50)
    with pytest.warns(UserWarning, match="rescale them if they are shares") as caught:
        QuantileHuberBoostingRegressor(n_estimators=2).fit(X, y, sample_weight=np.full(50, 0.02))
    assert [warning.filename for warning in caught] == [__file__]


def test_weights_need_a_learner_that_takes_them():
    from sklearn.neighbors import KNeighborsRegressor

    X, y = simulated(50)
    model = QuantileHuberBoostingRegressor(KNeighborsRegressor(), n_estimators=2)
    model.fit(X, y)
    with pytest.raises(DataError, match="does not take sample_weight"):
        model.fit(X, y, sample_weight=np.ones(50))


def test_a_classifier_is_no_base_learner():
    from sklearn.tree import DecisionTreeClassifier

    X, y = simulated(50)
    with pytest.raises(ValueError, match="estimator must be a regressor"):
        QuantileHuberBoostingRegressor(DecisionTreeClassifier()).fit(X, y)


@pytest.mark.parametrize(
    "option",
    [
        {"kappa": -1.0},
        {"tau": 1.0},
        {"sigma": 0.0},
        {"n_estimators": 0},
        {"learning_rate": 0.0},
        {"subsample": 1.5},
        {"interval_cv": 1},
        {"interval_cv": "many"},
        {"sigma": "first"},
        {"min_split_gain": -1.0},
        {"max_bins": 1},
    ],
)
def test_wrong_parameters_are_refused_by_name(option):
    X, y = simulated(50)
    with pytest.raises(ValueError, match=f"The '{next(iter(option))}' parameter"):
        QuantileHuberBoostingRegressor(**option).fit(X, y)


def test_wrong_tau_bounds_are_refused():
    X, y = simulated(50)
    with pytest.raises(DomainError, match="tau_bounds must satisfy"):
        QuantileHuberBoostingRegressor(tau_bounds=(0.6, 0.4)).fit(X, y)


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ("sklearn", "from qhreg import QuantileHuberBoostingRegressor"),
        (
            "lightgbm",
            "from qhreg import QuantileHuberBoostingRegressor as Q; Q().fit([[0.], [1.]], [0., 1.])",
        ),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(missing, code):
    program = f"import sys; sys.modules[{missing!r}] = None\n{code}"
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
