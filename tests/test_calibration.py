"""The law of robust Wald ratios: Hall's transformation, degrees of freedom, what results make of it."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from qhreg.covariance.calibration import (
    LEAST_DF,
    Calibration,
    _moments,
    _summed_moments,
    contrast_calibration,
    hall,
    hall_inverse,
)
from qhreg.covariance.contrastlaw import contrast_moments
from qhreg.covariance.curvature import row_sums, row_weights
from qhreg.covariance.oldwidth import chosen_width
from qhreg.covariance.orthonormal import jacobian_of
from qhreg.covariance.rowterms import row_bends
from qhreg.covariance.slices import slices_of
from scipy import special, stats

from qhreg import QuantileHuberMLE
from qhreg.covariance import Point, covariance
from qhreg.covariance.information import unit_information
from qhreg.covariance.scores import checked_sample, evaluated_blocks
from qhreg.exceptions import BoundaryWarning, DataError, RankWarning
from qhreg.inference.intervals import wald_intervals
from qhreg.solver import solve
from qhreg.specification.parameters import ParameterSpace

ALL = ("beta", "sigma", "tau", "kappa")


def skewed(n, seed=0):
    rng = np.random.default_rng(seed)
    exog = np.column_stack([np.ones(n), rng.standard_normal(n), 100.0 * rng.random(n)])
    return exog, exog @ [1.0, 0.5, 0.01] + rng.gumbel(size=n)


def test_hall_is_undone_by_its_inverse():
    t = np.linspace(-6.0, 6.0, 49)
    for skew, bend in itertools.product((-0.4, 0.0, 1e-9, 0.2), (-0.3, 0.0, 0.5)):
        moved = hall(t, skew, bend)
        assert np.all(np.diff(moved) > 0.0)
        assert_allclose(hall_inverse(moved, skew, bend), t, rtol=1e-6, atol=1e-4)  # flat at 1 / q
    for skew in (0.0, 1e-9, -1e-7):
        assert_allclose(hall_inverse(hall(t, skew), skew), t, rtol=1e-13, atol=1e-13)


def test_hall_removes_the_skewness_of_a_mean():
    rng = np.random.default_rng(1)
    x = rng.exponential(size=(40_000, 50))
    t = (x.mean(axis=1) - 1.0) / (x.std(axis=1) / np.sqrt(50))
    a = stats.skew(x, axis=1) / np.sqrt(50)
    beyond = [np.mean(v > 1.96) - np.mean(v < -1.96) for v in (t, hall(t, a))]
    assert abs(beyond[1]) < 0.5 * abs(beyond[0])


def test_bend_takes_back_what_a_scale_does():
    # log of an estimate with a normal error of 5 %: t on that scale is bent, and made normal again
    z = np.linspace(-2.0, 2.0, 9)
    truth, se = 1.0, 0.05
    estimate = truth + se * z
    t = estimate * np.log(estimate / truth) / se
    assert_allclose(hall(t, 0.0, -se / estimate), z, atol=2e-3)
    assert np.max(np.abs(t - z)) > 0.05


def test_mean_of_normal_variables_has_n_degrees_of_freedom():
    n = 400
    endog = stats.norm.ppf((np.arange(n) + 0.5) / n)
    fit = Point(np.zeros(1), 1.0, 0.5, 1e4)
    law = covariance("HC0", np.ones((n, 1)), endog, fit, free=("beta",)).calibration
    kurtosis = stats.kurtosis(endog, fisher=False)
    assert_allclose(law.df, 2.0 * n / (kurtosis - 1.0), rtol=1e-8)
    assert_allclose(law.df, n, rtol=0.05)
    assert_allclose(law.skew, 0.0, atol=1e-12)


def laplace(n):
    exog, _ = skewed(n)
    rng = np.random.default_rng(2)
    return exog, exog @ [1.0, 0.5, 0.01] + rng.laplace(size=n) + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("others", [ALL[1:], ALL[1:3], ("sigma",), ("tau", "kappa"), ()])
def test_rows_bend_as_their_sum_does(kappa, others):
    exog, endog = laplace(200)
    sample = checked_sample(exog, endog, Point(np.array([1.0, 0.4, 0.0]), 0.7, 0.4, kappa), None)
    unit = unit_information(0.4, kappa)
    (block,) = evaluated_blocks(sample)
    for width in (kappa, kappa + 0.5):
        near, mixed, corner = row_bends(block, sample.point, width, others, unit)
        bread = row_sums(sample, row_weights(None, None, 200), unit, width, ("beta", *others)).bread
        assert_allclose((exog.T * near) @ exog, bread[:3, :3], rtol=1e-10)
        assert_allclose(mixed @ exog, bread[3:, :3], rtol=1e-9, atol=1e-9)
        assert_allclose(corner.sum(axis=2), bread[3:, 3:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("free", [ALL[:3], ALL[:2], ("beta",), ("sigma", "tau"), ("tau",)])
@pytest.mark.parametrize("weighted", [False, True])
def test_influences_add_up_to_the_sandwich(kappa, free, weighted):
    exog, endog = laplace(300)
    rng = np.random.default_rng(2)
    freq = rng.integers(1, 4, 300) if weighted else None
    prob = rng.uniform(0.2, 2.0, 300) if weighted else None
    fit = solve(exog, endog, kappa=kappa)
    sample = checked_sample(exog, endog, fit, None)
    weights = row_weights(freq, prob, 300)
    width = chosen_width(sample, weights.total, weights.nobs, None)
    made = slices_of(sample, weights, free, width)
    assert not made.helped
    a = made.inverse @ jacobian_of(made.frame, fit.sigma).T
    c = made.inverse @ made.meat @ a
    square, _, _, bread, _ = _summed_moments(sample, weights, made.frame, a, c, width, _moments)
    cov = covariance("HC0", exog, endog, fit, free=free, freq_weights=freq, weights=prob).cov
    assert_allclose(square, cov.diagonal(), rtol=1e-9)
    assert_allclose(bread, cov.diagonal(), rtol=1e-7)


def law_of(exog, endog, fit, **options):
    return covariance("HC1", exog, endog, fit, **options).calibration


def test_rows_given_twice_and_other_units_change_nothing():
    exog, endog = skewed(200)
    fit = solve(exog, endog, kappa=0.5)
    law = law_of(exog, endog, fit)
    count = np.random.default_rng(3).integers(1, 3, 200)
    long = (np.repeat(exog, count, axis=0), np.repeat(endog, count))
    assert_allclose(law_of(exog, endog, fit, freq_weights=count).df, law_of(*long, fit).df)
    scale = np.array([1.0, 1e-6, 1e8])
    other = Point(1e3 * fit.beta / scale, 1e3 * fit.sigma, fit.tau, fit.kappa)
    moved = law_of(exog * scale, 1e3 * endog, other)
    assert_allclose(moved.df, law.df, rtol=1e-6)
    assert_allclose(moved.skew, law.skew, rtol=1e-6, atol=1e-12)
    for unit in (1e-100, 1e100):  # squares of variances are no floating point numbers
        other = Point(unit * fit.beta, unit * fit.sigma, fit.tau, fit.kappa)
        assert_allclose(law_of(exog, unit * endog, other).df, law.df, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0])
def test_few_rows_are_kept_and_many_evaluated_again(kappa, weighted, monkeypatch):
    exog, endog = laplace(300)
    rng = np.random.default_rng(2)
    options = {"free": ALL[:3]}
    if weighted:
        options |= {"freq_weights": rng.integers(1, 4, 300), "weights": rng.uniform(0.2, 2.0, 300)}
    fit = solve(exog, endog, kappa=kappa)
    few = covariance("HC1", exog, endog, fit, **options)
    monkeypatch.setattr("qhreg.covariance.slices.FEW_ROWS", 0)
    again = covariance("HC1", exog, endog, fit, **options)
    assert_allclose(again.cov, few.cov, rtol=1e-9)
    assert_allclose(again.calibration.df, few.calibration.df, rtol=1e-8)
    assert_allclose(again.calibration.skew, few.calibration.skew, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e30])
def test_single_precision_gives_the_same_law(unit, weighted, monkeypatch):
    rng = np.random.default_rng(4)
    n, p = 400, 18
    exog = np.column_stack([np.ones(n), rng.lognormal(size=(n, p - 1))])
    endog = exog.sum(axis=1) + rng.standard_t(3, size=n)
    options = {}
    if weighted:
        options = {"freq_weights": rng.integers(1, 4, n), "weights": rng.uniform(0.2, 2.0, n)}
    fit = solve(exog, endog, tau=0.4, kappa=0.5)
    scale = np.r_[1.0, unit, np.ones(p - 2)]
    other = Point(fit.beta / scale, fit.sigma, fit.tau, fit.kappa)
    law = law_of(exog * scale, endog, other, free=ALL[:2], **options)
    monkeypatch.setattr("qhreg.covariance.calibration.FEW_PARAMETERS", 100)
    exact = law_of(exog, endog, fit, free=ALL[:2], **options)
    rtol = 1e-4 if unit == 1.0 else 1e-8  # a column in such a unit keeps all digits
    assert_allclose(law.df, exact.df, rtol=rtol)
    assert_allclose(law.skew, exact.skew, rtol=rtol, atol=1e-6 if unit == 1.0 else 1e-10)
    assert unit != 1.0 or np.any(law.df != exact.df)


def test_many_rows_are_judged_by_some_of_them(monkeypatch):
    exog, endog = skewed(12_001)
    fit = solve(exog, endog, kappa=0.5)
    some = law_of(exog, endog, fit)
    monkeypatch.setattr("qhreg.covariance.calibration.LAW_ROWS", 10_000)
    every = law_of(exog, endog, fit)
    assert np.any(some.df != every.df)
    assert_allclose(some.df, every.df, rtol=0.35)
    assert_allclose(some.skew, every.skew, atol=0.01)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [3001, 20_001])
def test_a_category_of_six_among_many_rows_has_few_degrees_of_freedom(n, weighted, monkeypatch):
    # evenly spaced rows show none or too many of the six
    exog, endog = laplace(n)
    member = np.zeros(n)
    member[np.random.default_rng(7).choice(np.arange(1, n), 6, replace=False)] = 1.0
    exog = np.column_stack([exog, member])
    options = {"freq_weights": np.where(np.arange(n) % 2, 2, 1)} if weighted else {}
    fit = solve(exog, endog, kappa=0.5)
    law = law_of(exog, endog, fit, **options)
    assert law.df[3] < (20.0 if weighted else 12.0)
    assert np.all(np.delete(law.df, 3) > 100.0)
    monkeypatch.setattr("qhreg.covariance.calibration.LAW_ROWS", n)
    every = law_of(exog, endog, fit, **options)
    assert_allclose(law.df[3], every.df[3], rtol=1e-9)
    assert_allclose(law.skew[3], every.skew[3], rtol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
def test_influences_of_some_rows_at_a_time(order, weighted, monkeypatch):
    exog, endog = laplace(700)
    exog = np.array(exog, order=order)
    rng = np.random.default_rng(4)
    options = {"free": ALL[:3]}
    if weighted:
        options |= {"freq_weights": rng.integers(0, 4, 700), "weights": rng.uniform(0.2, 2.0, 700)}
    fit = solve(exog, endog, kappa=0.4)
    whole = covariance("HC1", exog, endog, fit, **options)
    monkeypatch.setattr("qhreg.covariance.slices.FEW_ROWS", 0)
    for limit in ("calibration.MOMENT_BYTES", "curvature.SCORE_BYTES"):
        monkeypatch.setattr(f"qhreg.covariance.{limit}", 0)
    for least in ("calibration.LEAST_ROWS", "curvature.LEAST_ROWS"):
        monkeypatch.setattr(f"qhreg.covariance.{least}", 99)
    pieces = covariance("HC1", exog, endog, fit, **options)
    assert_allclose(pieces.cov, whole.cov, rtol=1e-9)
    assert_allclose(pieces.calibration.df, whole.calibration.df, rtol=1e-8)
    assert_allclose(pieces.calibration.skew, whole.calibration.skew, rtol=1e-8, atol=1e-12)


def test_large_samples_have_the_normal_law():
    law = Calibration(np.zeros(2), np.full(2, np.inf))
    t = np.array([-1.0, 2.5])
    assert_allclose(law.pvalues(t), 2.0 * special.ndtr(-np.abs(t)))
    space = ParameterSpace(1, kappa=1.0, tau=0.5)
    params, bse = np.array([2.0, 3.0]), np.array([0.1, 1e-9])
    assert_allclose(
        wald_intervals(params, bse, space, 1.96, law), wald_intervals(params, bse, space, 1.96)
    )


def test_skewed_estimates_have_lopsided_limits():
    law = Calibration(np.array([0.2, -0.2]), np.array([20.0, 20.0]))
    space = ParameterSpace(2, kappa=1.0, tau=0.5, sigma=1.0)
    limits = wald_intervals(np.zeros(2), np.ones(2), space, 1.96, law)
    assert limits[0, 1] > -limits[0, 0] > 1.0  # a long right tail: the truth is rather above
    assert_allclose(limits[1], -limits[0, ::-1])


@pytest.fixture(scope="module")
def results():
    exog, endog = skewed(150, seed=5)
    return QuantileHuberMLE(endog, exog, kappa=0.5).fit(cov_type="HC1")


def test_p_values_agree_with_intervals(results):
    p = np.asarray(results.pvalues)
    for j in range(3):
        low, high = results.conf_int(alpha=p[j])[j]
        assert_allclose(min(abs(low), abs(high)), 0.0, atol=1e-6 * results.bse[j])


def test_only_sandwiches_of_independent_rows_are_calibrated(results):
    normal = 2.0 * special.ndtr(-np.abs(results.tvalues[:3]))
    assert np.all(np.abs(np.asarray(results.pvalues)[:3] / normal - 1.0) > 1e-6)
    plain = results.get_robustcov_results("HAC", maxlags=2)
    assert_allclose(plain.pvalues[:3], 2.0 * special.ndtr(-np.abs(plain.tvalues[:3])))


@pytest.mark.parametrize("cov_type", ["HC0", "HC1"])
def test_a_constraint_and_the_same_as_an_offset_have_the_same_law(cov_type):
    exog, endog = skewed(150, seed=5)
    held = QuantileHuberMLE(endog, exog, kappa=0.5).fit_constrained("x1 = 2", cov_type=cov_type)
    others = [0, 2]
    moved = QuantileHuberMLE(endog, exog[:, others], kappa=0.5, offset=2.0 * exog[:, 1])
    fit = moved.fit(cov_type=cov_type)
    kept = [0, 2, 3, 4]
    assert_allclose(held.bse[kept], fit.bse, rtol=1e-6)
    assert_allclose(held.pvalues[kept][:2], fit.pvalues[:2], rtol=1e-5)
    assert_allclose(held.conf_int()[kept], fit.conf_int(), rtol=1e-5)
    assert np.isnan(held.conf_int()[1]).all()
    assert held.cov_kwds["description"] == fit.cov_kwds["description"]
    assert "P-values and intervals: t with" in fit.cov_kwds["description"]
    both, alone = held.t_test([1.0, 7.0, -1.0, 0.0, 0.0]), fit.t_test([1.0, -1.0, 0.0, 0.0])
    assert_allclose(both.sd, alone.sd, rtol=1e-6)
    assert_allclose(both.law, alone.law, rtol=1e-4)


def test_coefficients_that_a_constraint_makes_equal_have_the_law_of_their_sum():
    exog, endog = skewed(150, seed=5)
    held = QuantileHuberMLE(endog, exog, kappa=0.5).fit_constrained("x1 = x2", cov_type="HC1")
    merged = np.column_stack([exog[:, 0], exog[:, 1] + exog[:, 2]])
    fit = QuantileHuberMLE(endog, merged, kappa=0.5).fit(cov_type="HC1")
    assert_allclose(held.pvalues[[0, 1]], fit.pvalues[:2], rtol=1e-5)
    assert_allclose(held.conf_int()[[0, 1, 3, 4]], fit.conf_int(), rtol=1e-5)
    assert_allclose(held.conf_int()[1], held.conf_int()[2], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:covariance of constraints does not have full rank")
def test_a_joint_test_of_what_a_constraint_fixes_is_that_of_the_rest():
    exog, endog = skewed(150, seed=5)
    held = QuantileHuberMLE(endog, exog, kappa=0.5).fit_constrained("x1 = 2", cov_type="HC1")
    for restrictions in ("x1 = 2, x2 = 0", "x1 = 0, x2 = 0"):
        made = held.wald_test(restrictions)
        assert made.statistic == pytest.approx(held.tvalues[2] ** 2)
        assert made.pvalue == pytest.approx(held.pvalues[2], rel=1e-6)
    moved = QuantileHuberMLE(endog, exog[:, [0, 2]], kappa=0.5, offset=2.0 * exog[:, 1])
    fit = moved.fit(cov_type="HC1")
    joint, wanted = held.wald_test("const = 0, x2 = 0"), fit.wald_test("const = 0, x1 = 0")
    assert_allclose([joint.statistic, joint.pvalue], [wanted.statistic, wanted.pvalue], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
def test_a_constrained_fit_whose_kappa_has_no_end_has_the_law_of_the_others():
    rng = np.random.default_rng(4)
    exog = np.column_stack([np.ones(300), rng.standard_normal(300)])
    endog = rng.standard_normal(300) + exog[:, 1]
    held = QuantileHuberMLE(endog, exog, kappa=None).fit_constrained("x1 = 1", cov_type="HC1")
    fit = QuantileHuberMLE(endog, exog[:, :1], kappa=None, offset=exog[:, 1]).fit(cov_type="HC1")
    assert held.kappa_limit == fit.kappa_limit is not None
    assert_allclose(held.conf_int()[[0, 2, 3, 4]], fit.conf_int(), rtol=1e-4)
    assert held.cov_kwds["description"] == fit.cov_kwds["description"]


def test_a_parameter_treated_as_known_has_no_law():
    rng = np.random.default_rng(4)
    endog = rng.standard_normal(300)
    with pytest.warns(BoundaryWarning):
        fit = QuantileHuberMLE(endog, np.ones((300, 1)), kappa=None).fit(cov_type="HC1")
    limits = fit.conf_int()
    assert fit.kappa_limit is not None
    j = fit.space.position("kappa")
    assert fit._covariance.calibration.df[j] == np.inf
    assert np.all(np.isfinite(limits[0]))
    assert limits[0, 0] < fit.params[0] < limits[0, 1]


def test_law_survives_pickling(results):
    again = pickle.loads(pickle.dumps(results))
    assert_allclose(again.conf_int(), results.conf_int())


def test_t_tests_agree_with_the_summary(results):
    made = results.t_test(np.eye(5)[:3])
    assert_allclose(made.pvalue, results.pvalues[:3], rtol=1e-9)
    assert_allclose(made.conf_int(0.1), results.conf_int(0.1)[:3], rtol=1e-9)
    one = results.t_test("x1 = 0.2")
    assert one.pvalue.shape == ()
    assert_allclose(one.conf_int(), results.conf_int()[1:2], rtol=1e-9)
    assert "0.025" in str(one.summary())
    assert_allclose(one.summary_frame()["P>|t|"].iloc[0], one.pvalue)


def test_t_test_of_a_difference_is_that_of_a_coefficient_in_other_columns(results):
    endog, exog = results.model.endog, results.model.exog
    other = exog.copy()
    other[:, 2] += exog[:, 1]  # the coefficient of x1 is then the difference
    moved = QuantileHuberMLE(endog, other, kappa=0.5).fit(cov_type="HC1")
    made = results.t_test("x1 - x2 = 0")
    assert_allclose(made.pvalue, moved.pvalues[1], rtol=1e-5)
    assert_allclose(made.conf_int()[0], moved.conf_int()[1], rtol=1e-5)


def test_t_test_with_a_law_of_the_user_is_not_calibrated(results):
    t = results.tvalues[1]
    assert_allclose(results.t_test("x1 = 0", use_t=False).pvalue, 2.0 * special.ndtr(-abs(t)))


def test_t_test_of_a_multiple_has_the_law_of_its_parameter(results):
    rows = np.array([[0.0, -3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0, 0.0]])
    made = results.t_test(rows)
    assert_allclose(made.pvalue, results.pvalues[1:3], rtol=1e-9)
    limits = results.conf_int()
    assert_allclose(made.conf_int(), [-3.0 * limits[1, ::-1], 2.0 * limits[2]], rtol=1e-9)
    several = contrast_calibration(
        rows, results.model.exog, results.model.endog, results.solution, free=results.space.free
    )
    assert_allclose(several.skew, made.law.skew, rtol=1e-8)
    assert_allclose(several.df, made.law.df, rtol=1e-8)


def test_t_tests_without_data():
    exog, endog = skewed(150, seed=5)
    fit = QuantileHuberMLE(endog, exog, kappa=0.5).fit(cov_type="HC1")
    asked = ("x1 = 0", "x1 = x2", "const + 50*x2 = 0, x1 = x2")
    before = [fit.t_test(each).pvalue for each in asked]
    joint = fit.wald_test("x1 = 0, x2 = 0").pvalue
    fit.remove_data()
    for each, wanted in zip(asked, before, strict=True):
        assert_allclose(fit.t_test(each).pvalue, wanted, rtol=1e-9)
    assert fit.wald_test("x1 = 0, x2 = 0").pvalue == pytest.approx(joint, rel=1e-9)
    assert 0.0 <= fit.t_test("x1 = x2", use_t=False).pvalue <= 1.0


def test_t_tests_without_data_of_one_among_many_parameters():
    rng = np.random.default_rng(5)
    exog = np.column_stack([np.ones(150), rng.standard_normal((150, 15))])
    fit = QuantileHuberMLE(exog.sum(axis=1) + rng.gumbel(size=150), exog).fit(cov_type="HC1")
    before = fit.t_test("x1 = 0").pvalue
    fit.remove_data()
    assert fit.t_test("x1 = 0").pvalue == before
    with pytest.raises(DataError, match=r"give cov_p=results\.cov_params\(\)"):
        fit.t_test("x1 = x2")
    assert 0.0 <= fit.t_test("x1 = x2", use_t=False).pvalue <= 1.0


# --- the law of any combination from moments ---------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.5])
@pytest.mark.parametrize("free", [("beta",), ("beta", "sigma"), ("beta", "sigma", "tau"), ALL])
@pytest.mark.parametrize("weighted", ["", "freq_weights", "weights"])
def test_moments_have_the_law_of_every_combination(kappa, free, weighted):
    rng = np.random.default_rng(2)
    exog = np.column_stack([np.ones(400), rng.standard_normal((400, 2))])
    endog = exog.sum(axis=1) + rng.logistic(size=400)
    exog[:, 2] += 2000.0  # far from zero: the constant is known badly, the line well
    given = {weighted: rng.integers(1, 4, 400).astype(float)} if weighted else {}
    fit = solve(exog, endog, kappa=kappa, weights=next(iter(given.values()), None))
    q = 3 + len(free) - 1
    contrasts = np.vstack([np.eye(150, q), rng.standard_normal((20, q)), np.zeros((1, q))])
    contrasts[:100, :3] = exog[:100]
    contrasts[100:150] = rng.standard_normal((50, 1)) * np.eye(q)[rng.integers(0, 3, 50)]
    made = contrast_moments(exog, endog, fit, free=free, **given).calibration(contrasts)
    wanted = contrast_calibration(contrasts, exog, endog, fit, free=free, **given)
    assert_allclose(made.skew, wanted.skew, rtol=1e-8, atol=1e-9)
    assert_allclose(made.df, wanted.df, rtol=1e-8)
    assert np.ptp(made.df[:100]) > 1.0


@pytest.mark.filterwarnings("ignore::qhreg.exceptions.CurvatureWarning")
@pytest.mark.parametrize("tau", [None, 0.3])
def test_moments_of_rows_that_are_fitted_exactly_or_depend_on_others(tau):
    rng = np.random.default_rng(1)
    x, free = rng.standard_normal(200), ("beta", "sigma", "tau")[: 3 if tau is None else 2]
    alone = np.column_stack([np.ones(200), x, np.arange(200) == 7])
    endog = alone.sum(axis=1) + rng.standard_t(3, size=200)
    spanned = np.column_stack([np.ones(200), x, 2.0 * x + 1.0])
    with pytest.warns(RankWarning):
        fits = solve(alone, endog, tau=tau), solve(spanned, endog, tau=tau)
    for exog, fit in zip((alone, spanned), fits, strict=True):
        contrasts = np.hstack([exog[:20], np.zeros((20, len(free) - 1))])
        made = contrast_moments(exog, endog, fit, free=free).calibration(contrasts)
        wanted = contrast_calibration(contrasts, exog, endog, fit, free=free)
        seen = np.arange(20) != 7 if exog is alone else slice(None)
        assert_allclose(made.df, wanted.df, rtol=1e-8)
        assert_allclose(made.skew[seen], wanted.skew[seen], rtol=1e-8, atol=1e-9)
        assert np.isfinite(made.skew).all()
        if exog is alone:
            assert made.df[7] == LEAST_DF


def test_laws_are_found_in_blocks(monkeypatch):
    exog, endog = skewed(150, seed=5)
    fit = solve(exog, endog, kappa=0.5)
    contrasts = np.hstack([exog[:10], np.zeros((10, 2))])
    moments = contrast_moments(exog, endog, fit)
    whole = moments.calibration(contrasts), contrast_calibration(contrasts, exog, endog, fit)
    monkeypatch.setattr("qhreg.covariance.contrastlaw.BLOCK_BYTES", 500)
    monkeypatch.setattr("qhreg.covariance.calibration.CONTRASTS", 3)
    again = contrast_moments(exog, endog, fit).calibration(contrasts)
    for one, other in zip(
        whole, (again, contrast_calibration(contrasts, exog, endog, fit)), strict=True
    ):
        assert_allclose(one, other, rtol=1e-10)
