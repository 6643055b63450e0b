"""The reproduction of the paper: numbers, their agreement with the printed ones, files and pages."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper_data import FOLDER, needs_data

from qhreg import QuantileHuberMLE
from qhreg.certificate import KAPPA_STAR
from qhreg.exceptions import DataError
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.paper import figures, report
from qhreg.paper.boosted import (
    NAMES,
    TABLE_2,
    VARIABLE,
    PaperData,
    boosting_draws,
    boosting_table,
    load,
    noisy_split,
    own_methods,
    path_table,
    pattern_table,
    peer_methods,
    scaled,
    tau_paths,
    unit_table,
)
from qhreg.paper.boosted import (
    PAPERS as PAPERS_SETTINGS,
)
from qhreg.paper.curves import (
    curvature_curve,
    curvature_table,
    loss_curves,
    loss_table,
    one_sign_residuals,
    tau_curves,
    tau_table,
)
from qhreg.paper.recovery import (
    COEFFICIENTS,
    LEAST_SQUARES,
    METHODS,
    NARROW,
    OURS,
    PAPERS,
    POSITIVE,
    TABLE_1,
    TAUS,
    WIDE,
    agreement_table,
    error_differences,
    error_table,
    least_penalty,
    penalties,
    pooled,
    pooled_minima,
    recovery_draws,
    recovery_sample,
    summary,
    tau_estimates,
    warning_table,
    width_table,
    width_test,
)
from qhreg.paper.report import PARTS, Part, figure_part, reproduce

pytest.importorskip("matplotlib")

PAGES = Path(__file__).resolve().parents[2] / "docs" / "paper"


def fit(exog, endog, method):
    return QuantileHuberMLE(endog, exog, **METHODS[method]).fit()


def expected_least_squares(n=100):
    """The expected squared error of a least-squares coefficient with two normal regressors.

    It is E|noise|^2 / n over n - p - 1: their law is invariant under rotations of the rows, so that
    only the length of the noise matters, not its signs.
    """
    return 25.0 / (n - 3)


# --- figures without regression ---------------------------------------------------------------------


def test_figure_1_is_drawn_at_twice_the_width_in_its_code():
    curves = loss_curves()
    assert_allclose(curves["drawn"], curves["huber"], atol=1e-15)
    assert (curves["drawn"] - curves["text"]).abs().max() > 0.09
    distances = loss_table(curves).to_numpy(dtype=float)
    assert_allclose(distances, [[0.4, 0.098], [0.8, 0.0]], atol=1e-4)


def test_the_densities_of_figure_1_are_the_normalised_losses():
    curves = loss_curves(41)
    for name, kappa in (("huber", 0.8), ("quantile", 0.0)):
        density = np.exp(-curves[name] - float(log_normalizer(0.3, kappa)))
        assert_allclose(curves[f"{name}_density"], density, rtol=1e-13)


@pytest.mark.parametrize("positive", [0, 10, 25, 100])
def test_residuals_have_the_percentage_of_positive_signs_asked_for(positive):
    assert np.mean(one_sign_residuals(positive) > 0) == positive / 100


def test_residuals_have_the_standard_deviation_5_around_zero():
    assert_allclose(np.sqrt(np.mean(one_sign_residuals(60, n=400_000) ** 2)), 5.0, rtol=0.01)


@pytest.mark.parametrize("positive", [10, 75])
def test_the_marked_tau_minimises_the_normalised_loss(positive):
    curve = tau_curves([positive])[positive]
    assert abs(curve.best[0] - curve.taus[np.argmin(curve.total)]) <= 0.0026
    r = one_sign_residuals(positive)
    middle = curve.taus.size // 2
    assert_allclose(curve.loss[middle], quantile_huber_loss(r, curve.taus[middle], 1.0).mean())


def test_what_the_paper_says_about_the_loss_over_tau_holds():
    curves = tau_curves()
    for curve in curves.values():
        assert np.diff(curve.loss, 2).max() < 0  # concave
        assert curve.loss.argmin() in (0, curve.loss.size - 1)
        assert np.diff(curve.total, 2).min() > 0  # convex
    best = [curve.best[0] for curve in curves.values()]
    assert np.all(np.diff(best) > 0.05)
    assert tau_table(curves)["normalised loss least at"].tolist() == [f"{tau:.3f}" for tau in best]


def test_the_curvature_falls_from_8_to_6_and_changes_sign_at_the_critical_width():
    curve = curvature_curve(6.0, 13)
    assert_allclose(curve["margin"][[0, 2]], [8.0, 6.0760], atol=5e-5)
    assert_array_equal(curve["margin"] > 0, curve["kappa"] < KAPPA_STAR)
    assert_array_equal(curve["proved"], curve["kappa"] < KAPPA_STAR)
    table = curvature_table(curve)
    assert table["paper"].tolist() == ["8", "6", "", "", "", "", ""]
    assert table["here"].tolist()[:2] == ["8.0000", "6.0760"]


# --- Table 1 ----------------------------------------------------------------------------------------


def test_a_draw_has_the_design_of_table_1():
    x, y = recovery_sample(80, 3)
    noise = y - x @ COEFFICIENTS
    assert x.shape == (100, 2)
    assert (noise > 0).sum() == 80
    assert_array_equal(x, recovery_sample(80, 3)[0])
    for other in (recovery_sample(80, 4), recovery_sample(60, 3), recovery_sample(80, 3, seed=1)):
        assert not np.allclose(x, other[0])


@pytest.mark.parametrize("positive", [100, 60])
def test_the_expected_error_of_least_squares_does_not_depend_on_the_signs(positive):
    """With ten rows, where the denominators n - 3 and n differ most."""
    errors = []
    for i in range(3000):
        x, y = recovery_sample(positive, i, n=10)
        errors.append(np.mean((np.linalg.lstsq(x, y)[0] - COEFFICIENTS) ** 2))
    error = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - expected_least_squares(10)) < 4 * error
    assert 4 * error < 0.6 < expected_least_squares(10) - 25 / 9


def test_the_expected_error_of_least_squares_is_within_15_percent_of_every_row_of_the_paper():
    assert np.all(abs(expected_least_squares() / TABLE_1["least_squares"] - 1) < 0.15)


@pytest.fixture(scope="module")
def draws():
    return pd.concat([recovery_draws(positive, 2) for positive in POSITIVE], ignore_index=True)


def cell(draws, positive, method):
    return draws[(draws["positive"] == positive) & (draws["method"] == method)]


def test_every_method_is_given_the_same_draws_and_its_own_settings(draws):
    assert list(draws["method"].unique()) == [LEAST_SQUARES, *METHODS]
    for method in (WIDE, "ours, kappa 1"):
        expected = fit(*recovery_sample(80, 1), method)
        row = cell(draws, 80, method).iloc[1]
        error = np.mean((np.asarray(expected.params)[:2] - COEFFICIENTS) ** 2)
        assert_allclose(row["error"], error, rtol=1e-9)
        assert_allclose(row["tau"], expected.tau, rtol=1e-9)


def test_the_papers_model_is_maximum_likelihood_with_sigma_one():
    """Against a minimisation of the sum of losses that shares no code with the solver."""
    from scipy import optimize

    x, y = recovery_sample(60, 0)
    (row,) = recovery_draws(60, 1, methods=[WIDE]).query("method == @WIDE").itertuples()

    def objective(theta):
        tau = 1 / (1 + np.exp(-theta[2]))
        loss = quantile_huber_loss(y - x @ theta[:2], tau, 1.0)
        return loss.sum() + y.size * float(log_normalizer(tau, 1.0))

    best = optimize.minimize(objective, [2.0, 5.0, 0.0], method="Nelder-Mead", tol=1e-10)
    assert_allclose(row.tau, 1 / (1 + np.exp(-best.x[2])), rtol=1e-5)
    assert_allclose(row.error, np.mean((best.x[:2] - COEFFICIENTS) ** 2), rtol=1e-4)


def test_warnings_are_counted_by_method_and_kind():
    kinds = [(), ("BoundaryWarning (tau)",), ("BoundaryWarning (tau)", "BoundaryWarning (kappa)")]
    names = [LEAST_SQUARES, "a", "a", "a", "b"]
    frame = pd.DataFrame({"method": names, "warned": [(), *kinds, ()]})
    table = warning_table(frame).set_index("method")
    assert table.loc["a"].to_dict() == {
        "fits": 3,
        "BoundaryWarning (kappa)": 1,
        "BoundaryWarning (tau)": 2,
    }
    assert table.loc["b"].tolist() == [1, 0, 0]
    quiet = warning_table(frame.assign(warned=[()] * 5))
    assert quiet.columns.tolist() == ["method", "fits"]


def test_fits_of_the_papers_model_give_no_warning(draws):
    for method in PAPERS:
        assert set(draws.loc[draws["method"] == method, "warned"]) == {()}


def test_standard_errors_are_those_of_a_mean_and_of_the_papers_100_draws():
    frame = pd.DataFrame(
        {"method": "a", "positive": 80, "error": [1.0, 2.0, 3.0, 4.0], "tau": [0.5] * 4}
    )
    row = summary(frame, "a").loc[80]
    assert row["mse"] == 2.5
    assert_allclose(row["mse_se"], np.sqrt(5.0 / 3.0) / 2.0)
    assert_allclose(row["printed_se"], np.sqrt(5.0 / 3.0) / 10.0)
    assert (row["tau"], row["tau_se"]) == (0.5, 0.0)


def test_least_squares_gets_more_draws_of_which_the_first_are_those_of_the_others(draws):
    errors = cell(draws, 80, LEAST_SQUARES)["error"].to_numpy()
    assert errors.size == 20
    for i in (1, 19):
        x, y = recovery_sample(80, i)
        error = np.mean((np.linalg.lstsq(x, y)[0] - COEFFICIENTS) ** 2)
        assert_allclose(errors[i], error, rtol=1e-10)


def test_a_fit_to_the_response_with_its_sign_changed_has_the_mirrored_tau_and_the_same_error():
    """What allows the rows with p and 100 - p % positive noise to be pooled."""
    x, y = recovery_sample(80, 0)
    for method in (WIDE, NARROW, "ours, kappa 1", "ours, kappa 0.05"):
        straight, turned = fit(x, y, method), fit(x, -y, method)
        assert_allclose(turned.tau, 1.0 - straight.tau, rtol=1e-6)
        assert_allclose(turned.params[:2], -straight.params[:2], rtol=1e-6)


def test_pooled_rows_hold_the_draws_of_both_rows_that_mirror_each_other(draws):
    name = WIDE
    upper, lower = cell(draws, 80, name), cell(draws, 20, name)
    both, mirrored = cell(pooled(draws), 80, name), cell(pooled(draws), 20, name)
    assert_array_equal(both["error"], [*upper["error"], *lower["error"]])
    assert_array_equal(both["tau"], [*upper["tau"], *(1.0 - lower["tau"])])
    assert_allclose(mirrored["tau"].mean(), 1.0 - both["tau"].mean())
    assert_allclose(mirrored["error"].mean(), both["error"].mean())


@pytest.mark.slow
def test_the_papers_model_gives_the_papers_tau_and_ours_an_error_at_or_below_the_papers():
    """25 repetitions: tau within 0.015 and three standard errors, errors within three."""
    for positive, printed in TABLE_1.iterrows():
        made = recovery_draws(positive, 25, methods=(WIDE, "ours, kappa 0.05"))
        papers, ours = (summary(made, m).loc[positive] for m in (WIDE, "ours, kappa 0.05"))
        assert abs(papers["tau"] - printed["tau"]) < 0.015 + 3 * papers["tau_se"]
        assert papers["tau_se"] < 0.012
        assert ours["mse"] < printed["proposed"] + 3 * ours["mse_se"]
        if positive in (0, 100):
            assert ours["mse"] < 0.5 * papers["mse"]


def printed_draws(factor=1.0, tau_shift=0.0, repetitions=100):
    """Draws whose averages are the paper's, the errors times a factor, tau moved."""
    wave = np.tile([-1.0, 1.0], repetitions // 2)
    frames = []
    for positive, printed in TABLE_1.iterrows():
        columns = {"positive": positive, "draw": np.arange(repetitions)}
        squares = printed["least_squares"] * (1.0 + wave)
        frames.append(
            pd.DataFrame(columns | {"method": LEAST_SQUARES, "error": squares, "tau": np.nan})
        )
        errors = printed["proposed"] * factor * (1.0 + wave)
        taus = printed["tau"] + tau_shift + 0.01 * wave
        frames += [
            pd.DataFrame(columns | {"method": name, "error": errors, "tau": taus})
            for name in METHODS
        ]
    return pd.concat(frames, ignore_index=True)


def test_the_table_of_agreement_has_the_differences_from_the_printed_figures():
    table = agreement_table(printed_draws(tau_shift=0.014))
    assert table["positive (%)"].tolist() == list(POSITIVE)
    assert set(table["difference"]) == {"+0.014"}
    assert set(table["ratio"]) == {"1.00"}
    assert table["tau: paper"].tolist() == [f"{tau:.3f}" for tau in TABLE_1["tau"]]


@pytest.mark.parametrize(("repetitions", "z"), [(100, 1.5), (2500, 2.5)])
def test_z_counts_the_papers_monte_carlo_error_and_ours(repetitions, z):
    """Spread equal to the mean m: (1.3 m - m) / hypot(1.3 m / 10, 1.3 m / sqrt(repetitions))."""
    table = error_differences(printed_draws(1.3, repetitions=repetitions))
    expected = (0.3 / 1.3) / np.hypot(0.1, 1 / np.sqrt(repetitions))
    assert_allclose(table["z"].astype(float), expected, atol=0.06)
    assert_allclose(table["z of ours"].astype(float), expected, atol=0.06)
    assert abs(expected - z) < 0.4


def test_the_best_of_ours_is_chosen_row_by_row():
    made = printed_draws(1.6)
    for positive, method in ((100, "ours, kappa 1"), (80, "ours, kappa estimated")):
        made.loc[(made["positive"] == positive) & (made["method"] == method), "error"] *= 0.5
    table = error_differences(made)
    assert table["which"].tolist()[:2] == ["kappa 1", "kappa estimated"]
    assert_allclose(float(table["best of ours"][0]), 0.8 * TABLE_1["proposed"][100], atol=5e-4)
    assert_allclose(float(table["its model here"][0]), 1.6 * TABLE_1["proposed"][100], atol=5e-4)


def test_the_tables_show_every_mean_with_its_error(draws):
    errors = error_table(draws).set_index("positive noise")
    taus = tau_estimates(draws).set_index("positive noise")
    for method in METHODS:
        for positive, row in summary(draws, method).iterrows():
            expected = f"{row['mse']:.3f} ± {row['mse_se']:.3f}"
            assert errors.loc[method, f"{positive} %"] == expected
            expected = f"{row['tau']:.4f} ± {row['tau_se']:.4f}"
            assert taus.loc[method, f"{positive} %"] == expected
    assert errors.loc["printed: proposed", "80 %"].startswith("0.143 ± ")
    assert errors.loc["printed: least squares", "0 %"].startswith("0.263 ± ")


# --- penalty at fixed tau ---------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [80, 0])
def test_the_penalty_of_one_draw_is_least_at_the_tau_of_its_joint_fit(positive):
    joint = fit(*recovery_sample(positive, 0), WIDE)
    values = penalties(positive, 1)
    assert abs(least_penalty(TAUS, values)[0] - joint.tau) < 0.006
    assert_allclose(values.min(), -joint.llf / 100, atol=2e-3)


def test_the_minimum_of_a_curve_has_the_error_of_a_minimum_over_draws():
    """Parabolas of curvature 4 whose minima scatter: the minimum of their mean is the mean of them."""
    taus = np.linspace(0.3, 0.7, 21)
    minima = np.random.default_rng(0).normal(0.513, 0.05, size=400)
    values = 2.0 * (taus - minima[:, None]) ** 2
    minimum, error = least_penalty(taus, values)
    assert_allclose(minimum, minima.mean(), rtol=1e-10)
    assert_allclose(error, minima.std(ddof=1) / 20.0, rtol=1e-10)


def test_pooled_minima_are_those_of_the_pooled_draws_and_mirror_each_other():
    rough = {positive: least_penalty(TAUS, penalties(positive, 1))[0] for positive in (80, 20)}
    minima = pooled_minima(rough, 2)
    both = np.concatenate([penalties(80, 2), penalties(20, 2)[:, ::-1]])
    minimum, error = least_penalty(TAUS, both)
    upper, lower = minima.loc[80], minima.loc[20]
    assert abs(upper["minimum"] - minimum) < 1e-3  # the two parabolas have other neighbours
    assert_allclose(upper["error"], error, rtol=0.1)
    assert_allclose(lower["minimum"], 1.0 - upper["minimum"])
    assert (lower["error"], lower["draws"], upper["draws"]) == (upper["error"], 4, 4)


def captions_minima(shift, error=0.001):
    """Minima as in the caption, moved."""
    columns = {"minimum": TABLE_1["minimum"] + shift, "error": error, "draws": 2000}
    return pd.DataFrame(columns)


def test_the_test_of_a_width_is_decided_by_the_distance_from_the_caption():
    assert width_test(captions_minima(0.01)) > 6 * width_test(captions_minima(0.004)) > 0
    table = width_table({WIDE: captions_minima(0.03), NARROW: captions_minima(0.0)})
    assert table["kappa"].tolist() == ["1", "0.05"]
    assert float(table["p"][0]) < 1e-6
    assert float(table["p"][1]) == 1.0


# --- Table 2 ----------------------------------------------------------------------------------------


def test_the_tables_of_the_paper_are_complete():
    assert TABLE_2.shape == (7, 4)
    assert tuple(TABLE_2.columns) == NAMES
    assert TABLE_2.loc[(0.0, 0)].tolist() == [0.364, 0.74, 0.19, 0.48]


def test_scaling_maps_every_column_to_the_range_from_minus_one_to_one():
    values = scaled(np.array([[1.0, 5.0], [3.0, 6.0], [2.0, 9.0]]))
    assert_allclose(values, [[-1, -1], [1, -0.5], [0, 1]])


def test_a_data_set_is_read_from_a_folder_without_the_inputs_the_paper_left_out(tmp_path):
    frame = pd.DataFrame(
        {"cement": [1.0, 2, 4], "slump": [0.0, 1, 2], "flow": [3.0, 3, 9], "strength": [5.0, 6, 9]}
    )
    frame.to_csv(tmp_path / "concrete_slump.csv", index=False)
    data = load("concrete_slump", tmp_path)
    assert data.exog.tolist() == [[1.0], [2.0], [4.0]]
    assert data.endog.tolist() == [5.0, 6.0, 9.0]
    table = unit_table([data])
    assert table["target"].tolist() == ["strength", "slump", "flow"]
    assert set(table["paper, boosting"]) == {"0.19"}
    expected = [np.var([-1.0, -0.5, 1.0]), np.var([-1.0, 0.0, 1.0])]
    assert_allclose(table["a constant"][:2].astype(float), expected, atol=5e-5)


def test_the_environment_names_the_folder_unless_one_is_given(tmp_path, monkeypatch):
    for number, folder in enumerate((tmp_path / "a", tmp_path / "b")):
        folder.mkdir()
        (folder / "boston.csv").write_text(f"x,medv\n1,{number}\n2,5\n", encoding="utf-8")
    monkeypatch.setattr("qhreg.paper.boosted._DROPPED", {})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
    assert load("boston").endog[0] == 0
    assert load("boston", tmp_path / "b").endog[0] == 1
    monkeypatch.setenv(VARIABLE, str(tmp_path / "c"))
    with pytest.raises(DataError, match="no file"):
        load("boston")


def test_a_folder_without_the_file_and_an_unknown_name_are_reported(tmp_path):
    with pytest.raises(DataError, match="no file"):
        load("boston", tmp_path)
    with pytest.raises(DataError, match="must be one of"):
        load("iris", tmp_path)


@needs_data
def test_without_noise_table_2_prints_errors_above_those_of_a_constant():
    sets = [load(name, FOLDER) for name in NAMES]
    table = unit_table(sets).astype({"paper, boosting": float, "a constant": float})
    own = table[table["target"].isin(["", "strength"])]
    assert_allclose(own["a constant"], [0.0136, 0.1668, 0.1424, 0.1731], atol=5e-5)
    assert np.all(own["paper, boosting"] > own["a constant"])
    assert [data.exog.shape for data in sets] == [(517, 10), (506, 12), (103, 7), (1030, 8)]


# --- boosting ---------------------------------------------------------------------------------------


def toy_data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    return PaperData("concrete_strength", x, x[:, 0] + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize(("positive", "expected"), [(75, 0.75), (100, 1.0), (0, 0.0)])
def test_training_targets_get_noise_of_the_given_signs_and_validation_targets_none(
    positive, expected
):
    data = toy_data(400)
    clean = noisy_split(data, 0.0, 0, [5])
    noisy = noisy_split(data, 2.0, positive, [5])
    assert [each.shape[0] for each in clean] == [300, 300, 100, 100]
    assert_array_equal(clean[0], noisy[0])
    assert_array_equal(clean[3], noisy[3])
    added = noisy[1] - clean[1]
    assert np.mean(added > 0) == expected
    assert 1.6 < np.sqrt(np.mean(added**2)) < 2.4


def test_each_row_of_table_2_has_the_errors_of_every_variant_on_the_same_splits():
    pytest.importorskip("lightgbm")
    own = own_methods()
    methods = {
        PAPERS_SETTINGS: own[PAPERS_SETTINGS],
        "again": own[PAPERS_SETTINGS],
        "default": own["default"],
        **peer_methods(),
    }
    draws = boosting_draws(toy_data(), 1, methods=methods)
    assert set(draws["dataset"]) == {"concrete_strength"}
    errors = draws.set_index(["noise", "positive", "method"])["error"].unstack("method")
    assert set(errors.index) == set(TABLE_2.index)
    assert_array_equal(errors[PAPERS_SETTINGS], errors["again"])
    assert np.all(errors[PAPERS_SETTINGS] != errors["default"])
    assert draws.loc[draws["method"] == "default", "stages"].between(0, 200).all()
    for (noise, positive), row in errors.iterrows():
        _, noisy, _, clean = noisy_split(toy_data(), noise, positive, [0, 0, int(noise), positive])
        constant = np.mean((np.median(noisy) - clean) ** 2)
        assert row["median, noisy"] == pytest.approx(constant)
    assert errors.loc[(0.0, 0), PAPERS_SETTINGS] < draws["constant"][0]


def test_the_papers_booster_has_the_papers_settings():
    pytest.importorskip("lightgbm")
    x, y, _, _ = noisy_split(toy_data(), 4.0, 100, [0])
    model = own_methods()[PAPERS_SETTINGS](0).fit(x, y)
    assert model.tau_path_.size == 200
    assert model.tau_path_[:5].max() > 0.6
    paths = tau_paths(toy_data())
    assert_array_equal(paths["concrete_strength", "positive"], model.tau_path_)
    assert paths["concrete_strength", "negative"][:5].min() < 0.4
    assert [noise for _, noise in paths] == ["positive", "negative", "none"]


def printed_errors(factor):
    """Table 2 with the paper's errors times a factor, that of the first pattern once more."""
    printed = TABLE_2.reset_index().melt(["noise", "positive"], TABLE_2.columns, "dataset", "error")
    tilt = np.where(printed["positive"] == 75, factor, 1.0)
    printed["error"] *= factor * tilt
    frames = [
        printed.assign(method=name, stages=stages, constant=0.1)
        for name in own_methods()
        for stages in (2.0, 4.0)
    ]
    return pd.concat(frames, ignore_index=True)


REACTION = np.array([0.6, 0.7, 0.65, 0.6, 0.6, 0.55])
PATHS = {
    ("concrete_slump", "positive"): REACTION,
    ("concrete_slump", "negative"): 1.0 - REACTION,
    ("concrete_slump", "none"): np.full(6, 0.5),
}


def test_table_2_has_every_row_beside_the_papers():
    table = boosting_table(printed_errors(0.9))
    assert len(table) == 28
    housing = table[table["data"] == "Housing"].iloc[2]
    assert housing[["noise", "+/-", "paper", PAPERS_SETTINGS]].tolist() == [
        "2",
        "50/50",
        "1.44",
        "1.296",
    ]
    assert housing["default"] == "1.296 (3)"
    patterns = pattern_table(printed_errors(2.0))
    assert len(patterns) == 8
    assert patterns.iloc[2].tolist() == ["Housing", "2", "1.09", f"{2.0 * 1.39 / 1.32:.2f}"]


def test_the_table_of_paths_has_the_first_reaction_and_the_last_stage():
    values = path_table(PATHS).to_numpy()[:, 1:].tolist()
    assert values == [["positive", "0.700", "0.550"], ["negative", "0.300", "0.450"]]


# --- files and pictures -----------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """The parts are there already."""
    empty = pd.DataFrame({"a": [1]})
    asked = {}

    def part(name):
        def make(*arguments):
            asked[name] = arguments
            return Part({name: empty})

        return make

    monkeypatch.setattr(report, "figure_part", part("curvature"))
    monkeypatch.setattr(report, "recovery_part", part("table_1"))
    monkeypatch.setattr(report, "boosting_part", part("table_2"))
    monkeypatch.setattr(report, "load", lambda name, folder: toy_data())
    return asked


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        (PARTS, ["curvature.csv", "table_1.csv", "table_2.csv"]),
        (["figures"], ["curvature.csv"]),
        (["table_2", "figures"], ["curvature.csv", "table_2.csv"]),
    ],
)
def test_the_parts_asked_for_are_written_and_nothing_else(quick, tmp_path, parts, names):
    assert reproduce(tmp_path / "deep" / "out", 2, parts=parts) == names
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == names


def test_a_part_is_written_before_the_next_is_made(quick, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "recovery_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["curvature.csv"]


def test_without_data_the_rest_is_made(quick, monkeypatch, tmp_path):
    def nothing(name, folder):
        raise DataError("no data")

    told = []
    monkeypatch.setattr(report, "load", nothing)
    assert "table_2.csv" not in reproduce(tmp_path, 2, progress=told.append)
    assert any("no data" in text for text in told)
    with pytest.raises(DataError):
        reproduce(tmp_path, 2, data="somewhere")


def test_without_learners_the_units_are_still_shown(monkeypatch):
    def nothing(*arguments, **options):
        raise ImportError("no learners")

    told = []
    monkeypatch.setattr(report.boosted, "boosting_draws", nothing)
    part = report.boosting_part(2, 0, [toy_data()], told.append)
    assert list(part.tables) == ["table_2_units"]
    assert any("no learners" in text for text in told)


def test_every_draw_is_used_for_the_joint_fits_and_at_most_100_for_the_whole_curves(
    monkeypatch, draws
):
    asked = {}

    def record(name, result):
        def made(*arguments, **options):
            asked[name] = arguments[1]
            return result(arguments[0])

        return made

    def minima(rough):
        return captions_minima(0.0)

    recovery = report.recovery
    monkeypatch.setattr(
        recovery, "recovery_draws", record("table", lambda p: draws[draws["positive"] == p])
    )
    monkeypatch.setattr(recovery, "penalties", record("curves", lambda p: penalties(p, 1)))
    monkeypatch.setattr(recovery, "pooled_minima", record("minima", minima))
    part = report.recovery_part(1000, 0, lambda text: None)
    assert asked == {"table": 1000, "curves": 100, "minima": 1000}
    assert list(part.figures) == ["table_1", "penalty"]
    errors = printed_errors(1.0)
    monkeypatch.setattr(report.boosted, "boosting_draws", record("splits", lambda data: errors))
    monkeypatch.setattr(report.boosted, "tau_paths", lambda data, seed: PATHS)
    report.boosting_part(1000, 0, [toy_data()], lambda text: None)
    assert asked["splits"] == 10


def lines_of(ax):
    return [line.get_ydata(orig=False) for line in ax.get_lines()]


def shows(drawn, values):
    return any(len(values) == len(each) and np.allclose(values, each) for each in drawn)


def test_the_pictures_show_the_numbers(draws):
    curves = {positive: penalties(positive, 1)[0] for positive in POSITIVE}
    joint = summary(draws, WIDE)["tau"]
    (ax,) = figures.draw_penalty(curves, TABLE_1["minimum"], joint).axes
    for curve in curves.values():
        assert shows(lines_of(ax), curve)
    left, right = figures.draw_recovery(draws).axes
    means = summary(draws, "ours, kappa 0.05")
    assert shows(lines_of(right), means["tau"])
    shown = [box.lines[0].get_ydata(orig=False) for box in left.containers]
    assert shows(shown, means["mse"])
    assert shows(shown, TABLE_1["proposed"])
    curve = curvature_curve(6.0, 7)
    (ax,) = figures.draw_curvature(curve).axes
    assert shows(lines_of(ax), curve["margin"])
    taus = tau_curves()
    (ax,) = figures.draw_tau_curves(taus).axes
    for each in taus.values():
        assert shows(lines_of(ax), each.total)
    (ax,) = figures.draw_tau_paths(PATHS).axes
    for path in PATHS.values():
        assert shows(lines_of(ax), path)


# --- the run in the documentation -------------------------------------------------------------------


def table(name):
    return pd.read_csv(PAGES / f"{name}.csv")


def means_of(name):
    """The table with one column for each percentage, the figures before their errors."""
    frame = table(name).set_index("positive noise")
    return frame.map(lambda text: float(str(text).split(" ± ")[0]))


def test_tau_and_least_squares_of_the_run_agree_with_the_printed_ones():
    run = table("table_1")
    assert run["tau: paper"].tolist() == TABLE_1["tau"].tolist()
    assert np.all(run["difference"].abs() <= 0.015)
    assert np.all((run["ratio"] - 1.0).abs() <= 0.15)
    both = means_of("table_1_tau")
    for method in PAPERS:
        assert np.all((both.loc[method] - both.loc["printed"]).abs() <= 0.015)


def test_errors_of_the_run_agree_with_the_printed_ones_where_the_noise_has_both_signs():
    run = table("table_1_z")
    mixed = run["positive (%)"].between(1, 99)
    assert np.all(run.loc[mixed, "z"].abs() <= 2.0)
    assert np.all(run.loc[~mixed, "z"] > 2.0)  # slip 4: the paper prints less than its model has
    assert np.all(run["z of ours"] <= 2.0)
    assert np.all(run.loc[~mixed, "z of ours"] < -2.0)


def test_least_squares_of_the_run_has_its_expected_error():
    means = means_of("table_1_errors").loc[LEAST_SQUARES]
    assert_allclose(means, expected_least_squares(), rtol=0.03)


def test_minima_of_the_run_match_the_joint_fits_and_speak_for_the_narrow_width():
    run = table("penalty")
    for width in ("kappa 1", "kappa 0.05"):
        least = run[f"{width}: least at"].str.split(" ± ").str[0].astype(float)
        assert np.all((least - run[f"{width}: joint fit"]).abs() <= 0.004)
    assert np.all(run["kappa 0.05: difference"].abs() <= 0.015)
    widths = table("penalty_width").set_index("kappa")["p"]
    assert widths[1.0] < 0.05 < widths[0.05]


def test_boosting_of_the_run_has_the_papers_paths_and_not_its_units():
    run = table("table_2_paths")
    first, last = run.iloc[:, 2] - 0.5, run["last stage"] - 0.5
    assert_array_equal(first > 0, run["noise"] == "positive")
    assert np.all(last.abs() < first.abs())
    units = table("table_2_units")
    own = units[~units["target"].isin(["slump", "flow"])]
    assert len(own) == 4
    assert np.all(own["paper, boosting"] > own["a constant"])


def test_the_figures_of_the_run_are_those_of_the_code():
    for name, expected in figure_part().tables.items():
        for column in expected:
            numbers = pd.to_numeric(expected[column], errors="coerce")
            if numbers.notna().any():
                assert_allclose(table(name)[column], numbers, rtol=0.1, atol=1e-4)


def test_the_page_on_the_slips_gives_the_numbers_of_the_run():
    slips = (PAGES.parent / "paper_slips.md").read_text(encoding="utf-8")
    quoted = re.findall(r"0\.\d{3} ± 0\.\d{3}", slips)
    assert len(quoted) == 2
    errors = table("table_1_errors").set_index("positive noise")["100 %"]
    assert quoted[0] == errors[NARROW]
    assert quoted[1] in errors[list(OURS)].tolist()
    for printed in TABLE_1["proposed"][[100, 0]]:
        assert f"{printed:.3f}" in slips
    tests = re.findall(r"(\d+\.\d)(?: with 6 degrees of freedom)?, p = (0\.\d+)", slips)
    assert len(tests) == 2
    widths = pd.read_csv(PAGES / "penalty_width.csv", dtype=str)
    assert set(tests) == set(zip(widths["chi-square"], widths["p"], strict=True))


def test_the_pages_show_every_table_and_picture_of_the_run_and_no_other():
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES.glob("*.md"))
    shown = re.findall(r"^:file: (\S+)$", text, flags=re.MULTILINE)
    shown += re.findall(r"!\[[^\]]*\]\((\S+)\)", text)
    made = {path.name for path in PAGES.iterdir() if path.suffix in (".csv", ".png")}
    assert sorted(shown) == sorted(made)
    fits = table("table_1_warnings")["fits"]
    assert set(fits) == {report.REPETITIONS * len(POSITIVE)}
    assert f"{report.REPETITIONS:,} draws in each row of Table 1, seed 0" in text
