"""Fits at many values of tau: each is the single fit, and together they have one covariance."""

import dataclasses
import pickle

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from matplotlib.figure import Figure
from model_data import skewed_frame
from numpy.testing import assert_allclose, assert_array_equal
from r_references import design, load
from scipy import stats

from qhreg import QuantileHuberMLE
from qhreg.diagnostics.regressors import partial_residual_figure
from qhreg.exceptions import CurvatureWarning, DataError, DomainError
from qhreg.plotting import plot_partial_residuals, plot_process
from qhreg.process import equality_test, find_crossings, tau_levels
from qhreg.process.fits import sup_t

TAUS = (0.2, 0.45, 0.5, 0.8)


@pytest.fixture(scope="module")
def frame():
    return skewed_frame(300)


@pytest.fixture(scope="module")
def process(frame):
    return QuantileHuberMLE.from_formula("y ~ x + z", frame, kappa=0.7).fit_process(TAUS)


@pytest.fixture(scope="module")
def engel():
    return sm.datasets.engel.load_pandas().data


# --- the fits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("options", [{}, {"sigma": 0.8}, {"weights": "w"}, {"offset": "o"}])
def test_every_fit_is_the_one_with_tau_fixed(kappa, options, frame):
    made = QuantileHuberMLE.from_formula("y ~ x + z", frame, kappa=kappa, **options).fit_process(
        TAUS
    )
    assert made.converged
    for tau, fit in zip(made.taus, made.results, strict=True):
        single = QuantileHuberMLE.from_formula(
            "y ~ x + z", frame, kappa=kappa, tau=tau, **options
        ).fit()
        assert fit.llf == pytest.approx(single.llf, abs=1e-6)
        assert_allclose(fit.params, single.params, rtol=1e-5, atol=1e-6)
        assert_allclose(fit.bse, single.bse, rtol=1e-4)
        assert fit.cov_type == single.cov_type == "HC3"
        assert fit.tau == tau
        assert list(fit.params.index) == list(single.params.index)
        assert "tau" not in fit.params.index


def test_the_tables_hold_the_single_fits(process):
    for i, fit in enumerate(process.results):
        assert_array_equal(process.params.iloc[i], fit.params)
        assert_array_equal(process.bse.iloc[i], fit.bse)
        limits = process.conf_int(0.1).iloc[i].to_numpy().reshape(-1, 2)
        assert_array_equal(limits, fit.conf_int(0.1))
    assert list(process.params.columns) == ["Intercept", "x", "z", "sigma"]
    assert process.params.index.name == "tau"
    assert_array_equal(process.conf_int()["x"]["lower"].index, TAUS)
    long = process.to_frame()
    assert len(long) == 4 * len(TAUS)
    row = long[(long.tau == 0.45) & (long.parameter == "z")].iloc[0]
    assert row.estimate == process.params.loc[0.45, "z"]
    assert row.upper == process.conf_int()["z"]["upper"].loc[0.45]


def test_levels_are_found_by_their_value(process):
    assert process.result(0.8) is process.results[3]
    assert len(process) == 4
    with pytest.raises(DomainError, match=r"no fit at tau = 0\.3"):
        process.result(0.3)
    with pytest.raises(DomainError, match="either tau or quantile"):
        process.result()
    with pytest.raises(DomainError, match="only at kappa = 0"):
        process.result(quantile=0.2)


def test_quantiles_are_one_minus_tau_at_kappa_zero_and_refused_elsewhere(engel):
    laplace = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
    made = laplace.fit_process(quantiles=[0.9, 0.75, 0.1])
    assert made.taus == (0.1, 0.25, 0.9)
    assert made.result(quantile=0.9) is made.results[0]
    assert_allclose(made.quantile_levels, [0.9, 0.75, 0.1])
    assert_allclose(made.share_below, [0.9, 0.75, 0.1], atol=0.01)
    wide = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=1.0)
    with pytest.raises(DomainError, match="only at kappa = 0, and kappa is 1"):
        wide.fit_process(quantiles=[0.5])
    assert wide.fit_process([0.9]).quantile_levels.iloc[0] == pytest.approx(0.1324, abs=1e-4)


def test_the_tables_are_labelled_by_the_levels_in_the_order_given(engel):
    model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
    asked = [0.75, 0.1, 0.5]
    made, sorted_one = model.fit_process(quantiles=asked), model.fit_process([0.25, 0.5, 0.9])
    tables = (made.params, made.bse, made.conf_int(), made.share_below, made.predict().T)
    for table in tables:
        assert table.index.name == "quantile"
        assert table.index.tolist() == asked
    assert made.cov_between().index.names == ["quantile", "parameter"]
    for q in asked:
        fit = sm.QuantReg.from_formula("foodexp ~ income", engel).fit(
            q=q, max_iter=5000, p_tol=1e-9
        )
        assert made.params.income[q] == pytest.approx(fit.params["income"], rel=1e-5)
    assert_allclose(made.params.loc[[0.75, 0.5, 0.1]], sorted_one.params, rtol=1e-9)
    assert made.crossings().n_rows == sorted_one.crossings().n_rows
    assert made.test_equal_slopes().pvalue == pytest.approx(sorted_one.test_equal_slopes().pvalue)
    assert "0.75, 0.1, 0.5" in repr(made.test_equal_slopes())
    assert model.fit_process([0.5, 0.25]).params.index.tolist() == [0.5, 0.25]


def test_the_coefficients_are_those_of_rq():
    reference = load("r_quantreg")["problems"]
    for problem in reference.values():
        X, y = design(problem)
        fits = problem["fits"]
        made = QuantileHuberMLE(y, X, kappa=0.0).fit_process(quantiles=[fit["q"] for fit in fits])
        for fit in fits:
            own = made.result(quantile=fit["q"]).params[: X.shape[1]]
            assert_allclose(own, fit["coef"], rtol=1e-8, atol=1e-9)


def test_the_model_is_left_as_it_was(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame, tau=0.3)
    model.fit_process([0.2, 0.6])
    assert model.tau == 0.3
    assert model.exog_names == ["Intercept", "x", "sigma"]
    free = QuantileHuberMLE.from_formula("y ~ x", frame)
    free.fit_process([0.2])
    assert free.exog_names == ["Intercept", "x", "sigma", "tau"]
    assert free.fit().params.index[-1] == "tau"


def test_one_level_and_many_levels_are_served(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame, kappa=0.3)
    assert len(model.fit_process(0.4)) == 1
    many = model.fit_process(np.linspace(0.01, 0.99, 99))
    assert many.converged
    assert (np.diff(many.predict().mean()) < 0.0).all()


def test_dependent_columns_give_the_shortest_coefficients(frame):
    X = np.column_stack([np.ones(300), frame.x, 2.0 * frame.x])
    with pytest.warns(UserWarning, match="linear combinations"):
        made = QuantileHuberMLE(frame.y.to_numpy(), X).fit_process([0.3, 0.6])
    assert_allclose(made.params["x2"], 2.0 * made.params["x1"], rtol=1e-6)
    assert made.test_equal_slopes().df == 1


def test_a_caution_about_several_levels_is_one_warning_that_names_them(frame):
    alone = frame.assign(only=np.arange(300) == 7)
    made = QuantileHuberMLE.from_formula("y ~ x + only", alone, kappa=0.3).fit_process([0.4, 0.6])
    for read in (lambda: made.bse, lambda: made.conf_int(), lambda: made.summary()):
        for fit in made.results:
            fit._results.__dict__.pop("_covariance", None)
            fit._results.__dict__.pop("bse", None)
        with pytest.warns(CurvatureWarning) as said:
            read()
        (only,) = said
        assert "only[T.True]" in str(only.message)
        assert "at tau = 0.4, 0.6" in str(only.message)
        assert only.filename == __file__
    assert made.bse["only[T.True]"].isna().all()
    assert made.bse["x"].notna().all()
    joint = made.cov_between(["x", "only[T.True]"])
    assert joint.isna().to_numpy().sum() == 12
    assert made.test_equal_slopes(["x"]).df == 1


def test_bad_levels_and_types_are_named(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame)
    for taus, words in [
        ([0.2, 0.2], "once"),
        ([0.0, 0.5], "0 < tau < 1"),
        ([], "at least one"),
        (None, "either taus or quantiles"),
    ]:
        with pytest.raises(DomainError, match=words):
            model.fit_process(taus)
    for cov_type in ("nonrobust", "bootstrap"):
        with pytest.raises(DomainError, match=f"{cov_type}.*cannot hold"):
            model.fit_process([0.2, 0.5], cov_type=cov_type)
    with pytest.raises(DomainError, match="kappa=None"):
        QuantileHuberMLE.from_formula("y ~ x", frame, kappa=None).fit_process([0.5])
    with pytest.raises(DomainError, match="0 < tau < 1"):
        tau_levels(quantiles=[1.5])


def test_results_are_frozen_and_survive_pickling(process, frame):
    with pytest.raises(dataclasses.FrozenInstanceError):
        process.taus = ()
    again = pickle.loads(pickle.dumps(process))
    pd.testing.assert_frame_equal(again.params, process.params)
    pd.testing.assert_frame_equal(again.predict(frame.head()), process.predict(frame.head()))


def test_a_progress_bar_is_shown_when_asked_for(frame, capsys):
    pytest.importorskip("tqdm")
    model = QuantileHuberMLE.from_formula("y ~ x", frame)
    model.fit_process([0.3, 0.5, 0.7])
    assert capsys.readouterr().err == ""
    model.fit_process([0.3, 0.5, 0.7], progress=True)
    assert "process" in capsys.readouterr().err


# --- curves ----------------------------------------------------------------------------------------


def test_predictions_have_a_column_for_each_level(process, frame):
    new = frame.head(7)
    made = process.predict(new)
    assert list(made.columns) == list(TAUS)
    assert list(made.index) == list(new.index)
    for fit, tau in zip(process.results, TAUS, strict=True):
        assert_allclose(made[tau], fit.predict(new))
    assert_allclose(process.predict()[0.2], process.result(0.2).fittedvalues)


def test_an_offset_reaches_the_curves(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame, offset="o")
    made = model.fit_process([0.3, 0.6])
    assert_allclose(made.predict(frame)[0.3], made.result(0.3).fittedvalues)
    assert_allclose(made.predict(frame, offset=0.0)[0.3], made.predict(frame)[0.3] - frame.o)


def test_crossings_are_counted_row_by_row():
    curves = [[3.0, 2.0, 1.0], [3.0, 3.0, 3.5], [1.0, 2.0, 0.0], [2.0, 2.0 + 1e-12, 2.0]]
    made = find_crossings(curves, [0.2, 0.5, 0.8])
    assert_array_equal(made.rows, [False, True, True, False])
    assert_allclose(made.amounts, [[0, 0], [0, 0.5], [1, 0], [0, 0]])
    assert made.n_rows == 2
    assert made
    assert made.to_frame()["rows"].tolist() == [1, 1]
    assert made.to_frame()["largest"].tolist() == [1.0, 0.5]
    assert "cross at 2 of 4 rows, by 1 at most: 2 of 2" in repr(made)
    assert not find_crossings([[1.0, 0.0]], [0.4, 0.6])
    with pytest.raises(DataError, match="3 columns"):
        find_crossings([[1.0, 0.0]], [0.2, 0.4, 0.6])


def test_curves_that_diverge_cross_far_outside_the_data_and_nowhere_at_its_mean(engel):
    model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
    made = model.fit_process(quantiles=[0.1, 0.5, 0.9])
    assert not made.crossings(pd.DataFrame({"income": [engel.income.mean()]}))
    far = made.crossings(pd.DataFrame({"income": [-1000.0, 1000.0]}, index=["far", "near"]))
    assert far.rows.tolist() == [True, False]
    assert list(far.labels) == ["far", "near"]


def test_the_summary_names_the_check_for_crossings(process, engel):
    text = str(process.summary())
    assert "no crossings of 4 curves at 300 rows" in text
    assert "not the 1 - tau quantile" in text
    model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
    dense = model.fit_process(np.linspace(0.05, 0.95, 91))
    assert f"curves cross at {dense.crossings().n_rows} of 235 rows" in str(dense.summary())
    assert dense.crossings().n_rows > 0
    assert "quantile, see" not in str(dense.summary())


# --- joint covariance ------------------------------------------------------------------------------


def cov_options(frame):
    return {
        "cluster": {"groups": frame.firm.to_numpy()},
        "uncorrected": {"groups": frame.firm.to_numpy(), "use_correction": False},
        "HAC": {"maxlags": 3},
    }


@pytest.mark.parametrize("name", ["HC0", "HC1", "HC2", "HC3", "cluster", "uncorrected", "HAC"])
@pytest.mark.parametrize("weighted", ["", "freq_weights", "weights"])
@pytest.mark.parametrize("kappa", [0.0, 0.5])
def test_the_blocks_on_the_diagonal_are_the_covariances_of_the_single_fits(
    name, weighted, kappa, frame
):
    if name == "HAC" and weighted == "freq_weights":
        pytest.skip("HAC refuses frequency weights")
    case = {weighted: "w"} if weighted else {}
    model = QuantileHuberMLE.from_formula("y ~ x + z", frame, kappa=kappa, **case)
    process = model.fit_process(
        TAUS,
        cov_type="cluster" if name == "uncorrected" else name,
        cov_kwds=cov_options(frame).get(name),
    )
    joint = process.cov_between().to_numpy()
    for i, fit in enumerate(process.results):
        block = joint[4 * i : 4 * i + 4, 4 * i : 4 * i + 4]
        assert_allclose(block, fit.cov_params(), rtol=1e-6, atol=1e-10)
    assert_allclose(joint, joint.T, atol=1e-12)
    size = np.sqrt(joint.diagonal())
    assert np.linalg.eigvalsh(joint / np.outer(size, size)).min() > -1e-9


def test_types_of_covariance_differ_between_fits(frame):
    made = {}
    for name, options in {"HC1": {}, "cluster": {"groups": "firm"}, "HAC": {"maxlags": 5}}.items():
        model = QuantileHuberMLE.from_formula("y ~ x", frame)
        process = model.fit_process([0.3, 0.6], cov_type=name, cov_kwds=options)
        made[name] = process.cov_between(["x"]).to_numpy()
        assert process.cov_type == name
    assert abs(made["HC1"][0, 1] / made["cluster"][0, 1] - 1.0) > 1e-3
    assert abs(made["HC1"][0, 1] / made["HAC"][0, 1] - 1.0) > 1e-3


def test_two_sample_quantiles_move_together_as_the_order_statistics_do():
    """Cov(Q_p, Q_q) = (min(p, q) - p q) / (n f_p f_q); the densities cancel in the correlation."""
    y = np.random.default_rng(0).gumbel(size=4001)
    made = QuantileHuberMLE(y, np.ones((y.size, 1)), kappa=0.0).fit_process(quantiles=[0.2, 0.7])
    cov = made.cov_between(["const"]).to_numpy()
    wanted = (0.2 - 0.14) / np.sqrt(0.2 * 0.8 * 0.7 * 0.3)
    assert cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]) == pytest.approx(wanted, abs=0.05)


def test_the_joint_covariance_names_level_and_parameter(process):
    made = process.cov_between(["x", "z"])
    assert made.shape == (8, 8)
    assert made.loc[(0.2, "x"), (0.2, "x")] == pytest.approx(process.bse.loc[0.2, "x"] ** 2)
    whole = process.cov_between()
    assert_allclose(made.loc[(0.2, "x"), (0.8, "z")], whole.loc[(0.2, "x"), (0.8, "z")])
    with pytest.raises(DomainError, match="no parameter 'q'"):
        process.cov_between(["q"])


# --- equal slopes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["engel", "simulated"])
def test_the_statistic_is_that_of_anova_rq_given_its_covariance(problem):
    stored = load("r_anova")["problems"][problem]
    for test in stored["tests"].values():
        estimates, cov = np.array(test["coef"]), np.array(test["cov"])
        m, k = estimates.shape
        slopes = [i * k + j for i in range(m) for j in range(1, k)]
        made = equality_test(estimates[:, 1:], cov[np.ix_(slopes, slopes)])
        assert made.df == test["ndf"]
        assert made.statistic / made.df == pytest.approx(test["F"], rel=1e-9)
        for j, each in enumerate(test["F_each"], start=1):
            own = [i * k + j for i in range(m)]
            single = equality_test(estimates[:, [j]], cov[np.ix_(own, own)])
            assert single.statistic / single.df == pytest.approx(each, rel=1e-9)


@pytest.mark.parametrize("levels", ["two", "three", "five"])
def test_engel_rejects_equal_slopes_as_the_two_estimates_of_r_do(levels):
    stored = load("r_anova")["problems"]["engel"]
    X, y = design(stored)
    tests = [stored["tests"][f"{levels}_{se}"] for se in ("ker", "nid")]
    low, high = sorted(test["F"] * test["ndf"] for test in tests)
    made = QuantileHuberMLE(y, X, kappa=0.0).fit_process(quantiles=tests[0]["q"])
    test = made.test_equal_slopes()
    assert 0.5 * low < test.statistic < 2.0 * high
    assert test.pvalue < 1e-3
    assert test.pvalue == pytest.approx(stats.f.sf(test.statistic / test.df, test.df, 233))


# --- bands -----------------------------------------------------------------------------------------


def test_a_band_over_one_level_is_the_interval(frame):
    one = QuantileHuberMLE.from_formula("y ~ x", frame).fit_process([0.4])
    assert_allclose(one.conf_int(simultaneous=True), one.conf_int(), rtol=2e-2)


def test_bands_lie_between_the_intervals_and_those_of_bonferroni(process):
    critical = process.critical_values(0.1)
    df = process.results[0].df_resid
    assert (critical > stats.t.ppf(0.95, df)).all()
    assert (critical < stats.t.ppf(1 - 0.05 / len(process), df)).all()
    band = process.conf_int(0.1, simultaneous=True)
    reach = process.params["x"] + critical["x"] * process.bse["x"]
    assert_allclose(band["x"]["upper"], reach, rtol=1e-12)
    assert (band["sigma"]["lower"] > 0.0).all()
    again = process.conf_int(0.1, simultaneous=True)
    assert_array_equal(again, band)
    other = process.conf_int(0.1, simultaneous=True, rng=np.random.default_rng(5))
    assert_allclose(other, band, rtol=0.05, atol=0.05)


def test_the_largest_of_several_ratios_has_the_quantile_of_its_law():
    independent = stats.norm.ppf(1 - (1 - 0.9 ** (1 / 5)) / 2)
    assert sup_t(np.diag([1.0, 4.0, 9.0, 1.0, 1.0]), 0.1) == pytest.approx(independent, rel=0.01)
    assert sup_t(np.ones((4, 4)), 0.1, df=5) == pytest.approx(stats.t.ppf(0.95, 5), rel=0.02)
    assert np.isnan(sup_t(np.diag([1.0, np.nan]), 0.1))


def test_frequency_weights_are_repeated_rows_to_the_test_of_parallel_curves(frame):
    counts = np.arange(len(frame)) % 3
    counted = QuantileHuberMLE.from_formula("y ~ x + z", frame, freq_weights=counts)
    repeated = QuantileHuberMLE.from_formula("y ~ x + z", frame.loc[frame.index.repeat(counts)])
    made = [model.fit_process([0.3, 0.7]).test_equal_slopes() for model in (counted, repeated)]
    assert made[0].statistic == pytest.approx(made[1].statistic, rel=1e-5)
    assert made[0].pvalue == pytest.approx(made[1].pvalue, rel=1e-5)


def test_equality_by_hand():
    made = equality_test([[1.0, 5.0], [3.0, 5.0]], np.eye(4))
    assert (made.statistic, made.df) == (pytest.approx(2.0), 2)
    shared = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert equality_test([[0.0], [2.0]], shared).statistic == pytest.approx(2.0)
    few = equality_test([[0.0], [2.0]], shared, df_cov=12.0)
    assert few.pvalue == pytest.approx(stats.f.sf(2.0, 1, 12))
    vast = equality_test([[0.0], [2.0]], shared, df_cov=1e9)
    assert vast.pvalue == pytest.approx(stats.chi2.sf(2.0, 1))
    with pytest.raises(DomainError, match="at least two"):
        equality_test([[1.0]], np.eye(1))
    with pytest.raises(DataError, match=r"shape \(2, 2\)"):
        equality_test([[1.0], [2.0]], np.eye(3))
    with pytest.raises(DataError, match="nothing to test"):
        equality_test([[1.0], [2.0]], np.zeros((2, 2)))


def test_the_statistic_does_not_depend_on_units_or_on_the_order_of_levels(frame):
    model = QuantileHuberMLE.from_formula("y ~ x + z", frame, kappa=0.5)
    scaled = frame.assign(x=1e4 * frame.x, z=1e-3 * frame.z)
    one = model.fit_process([0.2, 0.5, 0.8]).test_equal_slopes()
    other = QuantileHuberMLE.from_formula("y ~ x + z", scaled, kappa=0.5)
    assert other.fit_process([0.8, 0.2, 0.5]).test_equal_slopes().statistic == pytest.approx(
        one.statistic, rel=1e-6
    )
    assert one.df == 4


def test_slopes_are_tested_together_or_one_by_one(process):
    each = process.test_equal_slopes(joint=False)
    assert list(each.index) == ["x", "z"]
    assert (each["df"] == 3).all()
    alone = process.test_equal_slopes(["z"])
    assert alone.statistic == pytest.approx(each.loc["z", "statistic"])
    assert "0.2, 0.45, 0.5, 0.8" in repr(alone)
    assert process.test_equal_slopes("z").statistic == alone.statistic


def test_slopes_need_a_single_constant_or_names(frame):
    parts = QuantileHuberMLE.from_formula("y ~ C(g) - 1 + x", frame).fit_process([0.3, 0.6])
    with pytest.raises(DomainError, match="spread over several columns"):
        parts.test_equal_slopes()
    assert parts.test_equal_slopes(["x"]).df == 1
    constant = QuantileHuberMLE.from_formula("y ~ 1", frame).fit_process([0.3, 0.6])
    with pytest.raises(DomainError, match="no slopes"):
        constant.test_equal_slopes()


def test_noise_that_spreads_with_x_is_found_and_noise_that_does_not_is_not():
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 2.0, size=2000)
    X, e = np.column_stack([np.ones_like(x), x]), rng.gumbel(size=2000)
    for kappa in (0.0, 1.0):
        even = QuantileHuberMLE(x + e, X, kappa=kappa).fit_process([0.25, 0.5, 0.75])
        spread = QuantileHuberMLE(x + (1 + 0.5 * x) * e, X, kappa=kappa)
        assert even.test_equal_slopes().pvalue > 0.05
        assert spread.fit_process([0.25, 0.5, 0.75]).test_equal_slopes().pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_the_level_of_the_test_is_near_its_nominal_one(kappa):
    rng = np.random.default_rng(9)
    rejected = 0
    for _ in range(400):
        x = rng.normal(size=(400, 2))
        X = np.column_stack([np.ones(400), x])
        y = X @ [1.0, 2.0, -1.0] + rng.gumbel(size=400)
        made = QuantileHuberMLE(y, X, kappa=kappa).fit_process([0.25, 0.5, 0.75])
        rejected += made.test_equal_slopes().pvalue < 0.05
    assert 0.015 < rejected / 400 < 0.095


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_the_standard_error_of_a_difference_is_its_spread_over_samples(kappa):
    rng = np.random.default_rng(2)
    differences, errors = [], []
    for _ in range(250):
        x = rng.normal(size=500)
        X = np.column_stack([np.ones(500), x])
        y = x + (0.5 + np.abs(x)) * rng.gumbel(size=500)
        made = QuantileHuberMLE(y, X, kappa=kappa).fit_process([0.3, 0.6])
        cov = made.cov_between([1]).to_numpy()
        differences.append(made.params.iloc[0, 1] - made.params.iloc[1, 1])
        errors.append(np.sqrt(cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]))
    assert np.median(errors) / np.std(differences) == pytest.approx(1.0, abs=0.15)


# --- plots -----------------------------------------------------------------------------------------


def test_the_process_plot_draws_coefficients_bands_and_least_squares(process, frame):
    figure = process.figure(alpha=0.1)
    drawn = process.plot(alpha=0.1)
    assert isinstance(drawn, Figure)
    ols = sm.OLS(frame.y, sm.add_constant(frame[["x", "z"]])).fit()
    assert_allclose(figure.reference[:, 0], ols.params)
    assert len(drawn.axes) == 3
    for j, (ax, name) in enumerate(zip(drawn.axes, ("Intercept", "x", "z"), strict=True)):
        assert ax.get_title() == name
        assert_array_equal(ax.get_lines()[0].get_data(), (TAUS, process.params[name]))
        assert_allclose(ax.get_lines()[1].get_data()[1], [ols.params.iloc[j]] * 2)
        band = ax.collections[0].get_paths()[0].vertices
        assert_allclose(band[:, 1].max(), process.conf_int(0.1)[name]["upper"].max())
        assert ax.get_xlabel() == r"$\tau$"


def test_levels_given_as_quantiles_are_drawn_over_quantiles(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame, kappa=0.0)
    joint, made = model.fit(), model.fit_process(quantiles=[0.2, 0.5, 0.9])
    ax = made.plot(["x"], reference=joint).axes[0]
    assert ax.get_xlabel() == r"quantile level $q=1-\tau$"
    assert_allclose(ax.get_lines()[0].get_xdata(), [0.9, 0.5, 0.2])
    assert_array_equal(ax.get_lines()[0].get_ydata(), made.params["x"].loc[[0.9, 0.5, 0.2]])
    assert_allclose(np.asarray(ax.get_lines()[1].get_xdata(), dtype=float), [1.0 - joint.tau])
    ols = made.plot(["x"]).axes[0].get_legend().get_texts()
    assert "95 %, least squares" in [text.get_text() for text in ols]


def test_a_joint_fit_is_drawn_at_its_own_tau(frame):
    model = QuantileHuberMLE.from_formula("y ~ x", frame, kappa=0.0)
    joint, made = model.fit(), model.fit_process([0.3, 0.5, 0.7])
    figure = made.figure(["x", "sigma"], reference=joint)
    assert figure.reference_tau == joint.tau
    assert_allclose(figure.reference[:, 0], joint.params[["x", "sigma"]])
    ax = plt.subplots()[1]
    other = plt.subplots()[1]
    drawn = made.plot(["x", "sigma"], axes=[ax, other], reference=joint)
    assert drawn is ax.get_figure()
    assert_allclose(np.asarray(ax.get_lines()[1].get_xdata(), dtype=float), [joint.tau])
    assert "quantile level" in ax.get_xlabel()
    assert made.figure(reference=None).reference is None
    with pytest.raises(DomainError, match="'ols', results or None"):
        made.plot(reference="mean")
    with pytest.raises(ValueError, match="2 coefficients to draw, and 1 axes"):
        plot_process(figure, axes=ax)


def test_partial_residuals_are_component_plus_residual(frame):
    fit = QuantileHuberMLE.from_formula("y ~ x + z", frame).fit()
    ax = fit.plot_partial_residuals("x")
    x, partial = ax.get_lines()[0].get_data()
    assert_array_equal(x, frame.x)
    assert_allclose(partial, fit.params["x"] * frame.x + fit.resid)
    line = ax.get_lines()[1].get_data()
    assert_allclose(line[1], fit.params["x"] * line[0])
    assert ax.get_xlabel() == "x"
    assert fit.plot_partial_residuals(1).get_xlabel() == "x"
    with pytest.raises(DomainError, match="constant"):
        fit.plot_partial_residuals("Intercept")
    with pytest.raises(DomainError, match="no regressor"):
        fit.plot_partial_residuals("tau")
    with pytest.raises(DomainError, match="'q'"):
        fit.plot_partial_residuals("q")


def test_partial_residuals_show_a_bend_that_the_fit_does_not_have():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, size=5000)
    X, e = np.column_stack([np.ones_like(x), x]), 0.1 * rng.gumbel(size=x.size)
    straight, bent = (QuantileHuberMLE(y, X).fit() for y in (x + e, x + x**2 + e))

    def distance(fit):
        figure = partial_residual_figure(x, fit.resid, fit.params[1] * x)
        return np.abs(figure.empirical - fit.params[1] * figure.centres).max()

    assert distance(straight) < 0.03
    assert distance(bent) > 0.3
    figure = partial_residual_figure(x, bent.resid, bent.params[1] * x)
    assert (figure.x.size, figure.n_rows) == (2000, 5000)
    assert plot_partial_residuals(figure).get_legend() is not None
