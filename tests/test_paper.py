"""The reproduction of the paper: numbers, verdicts that can fail, pages that hold together."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper_data import FOLDER, needs_data

from qhreg.distribution import quantile_huber
from qhreg.exceptions import DataError
from qhreg.loss import quantile_huber_loss
from qhreg.paper import drawing, report, verdicts
from qhreg.paper.boosted import (
    VARIANTS,
    BoostingRow,
    TauPath,
    boosting_rows,
    noisy_split,
    own_methods,
)
from qhreg.paper.boosted_page import error_verdicts, path_verdicts, pattern_verdicts
from qhreg.paper.curves import (
    curvature_curve,
    loss_curves,
    one_sign_residuals,
    tau_curve,
    tau_curves,
)
from qhreg.paper.datasets import NAMES, VARIABLE, PaperData, constant_error, load, scaled
from qhreg.paper.penalty import penalty_curve, precise_minima
from qhreg.paper.printed import POSITIVE, TABLE_1, TABLE_2
from qhreg.paper.recovery import (
    COEFFICIENTS,
    FIXED_WIDTH,
    LEAST_SQUARES,
    METHODS,
    OURS,
    PAPERS,
    Cell,
    RecoveryRow,
    RecoveryTable,
    expected_least_squares,
    recovery_row,
    recovery_sample,
)
from qhreg.paper.recovery_page import best_of_ours
from qhreg.paper.report import Reproduction, pages, pictures, write
from qhreg.solver import solve

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


# --- figures without regression ---------------------------------------------------------------------


def test_figure_1_is_drawn_at_twice_the_width_in_its_code():
    curves = loss_curves()
    assert_allclose(curves.drawn, curves.huber, atol=1e-15)
    assert np.abs(curves.drawn - curves.text).max() > 0.09
    assert [each.holds for each in verdicts.figure_1_verdicts(curves)] == [False, True]


def test_the_densities_of_figure_1_are_those_of_the_distribution():
    curves = loss_curves(41)
    assert_allclose(curves.huber_density, quantile_huber.pdf(curves.r, 0.3, 0.8), rtol=1e-13)
    assert_allclose(curves.quantile_density, quantile_huber.pdf(curves.r, 0.3, 0.0), rtol=1e-13)


@pytest.mark.parametrize("positive", [0, 10, 25, 100])
def test_residuals_have_the_percentage_of_positive_signs_asked_for(positive):
    assert np.mean(one_sign_residuals(positive) > 0) == positive / 100


def test_residuals_have_the_standard_deviation_5_around_zero():
    assert_allclose(np.sqrt(np.mean(one_sign_residuals(60, n=400_000) ** 2)), 5.0, rtol=0.01)


@pytest.mark.parametrize("positive", [10, 75])
def test_the_marked_tau_minimises_the_normalised_loss(positive):
    curve = tau_curve(positive)
    assert abs(curve.best - curve.taus[np.argmin(curve.normalised)]) <= 0.0026
    r = one_sign_residuals(positive)
    middle = curve.taus.size // 2
    assert_allclose(curve.loss[middle], quantile_huber_loss(r, curve.taus[middle], 1.0).mean())


def test_what_the_paper_says_about_the_loss_over_tau_holds():
    assert all(each.holds for each in verdicts.tau_curve_verdicts(tau_curves()))


def test_the_verdict_on_the_minimiser_fails_when_it_does_not_rise():
    turned = tau_curves()[::-1]
    assert not verdicts.tau_curve_verdicts(turned)[-1].holds


def test_the_curvature_falls_from_8_to_6_and_changes_sign_at_the_critical_width():
    curve = curvature_curve(6.0, 13)
    assert_allclose(curve.margins[[0, 2]], [8.0, 6.0760], atol=5e-5)
    assert_array_equal(curve.margins > 0, curve.kappas < 4.630913775254134)
    assert all(each.holds for each in verdicts.curvature_verdicts(curve))


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
    for entry in TABLE_1:
        assert abs(expected_least_squares() / entry.least_squares - 1) < 0.15
    assert all(each.holds for each in verdicts.expected_least_squares_verdicts())


@pytest.fixture(scope="module")
def small_rows():
    return tuple(recovery_row(positive, 2) for positive in POSITIVE)


@pytest.fixture(scope="module")
def small_table(small_rows):
    return RecoveryTable(small_rows, 2, 0)


def test_every_method_is_given_the_same_draws_and_its_own_settings(small_rows):
    row = small_rows[1]
    assert list(row.cells) == [LEAST_SQUARES, *(method.name for method in METHODS)]
    for method in (PAPERS[0], OURS[0]):
        fit = solve(*recovery_sample(80, 1), kappa=method.kappa, sigma=method.sigma)
        cell = row.cells[method.name]
        assert_allclose(cell.errors[1], np.mean((fit.beta - COEFFICIENTS) ** 2), rtol=1e-9)
        assert_allclose(cell.taus[1], fit.tau, rtol=1e-9)


def test_fits_that_end_on_the_bound_of_tau_are_counted(small_rows):
    first = small_rows[0].cells
    assert first[OURS[0].name].warned == {"BoundaryWarning (tau)": 2}
    assert_allclose(first[OURS[0].name].taus, 0.999)
    assert first[PAPERS[0].name].warned == {}
    counted = RecoveryTable(small_rows, 2, 0).warned
    assert counted[OURS[0].name] == {"BoundaryWarning (tau)": 4}  # all positive, all negative


def test_standard_errors_are_those_of_a_mean():
    cell = Cell(np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.5), {})
    assert cell.mse == 2.5
    assert_allclose(cell.mse_se, np.sqrt(5.0 / 3.0) / 2.0)


@pytest.mark.slow
def test_the_papers_model_gives_the_papers_tau_and_ours_an_error_at_or_below_the_papers():
    """25 repetitions: tau within 0.015 and three standard errors, errors within three."""
    for entry in TABLE_1:
        row = recovery_row(entry.positive, 25, methods=(PAPERS[0], OURS[1]))
        papers, ours = row.cells[PAPERS[0].name], row.cells[OURS[1].name]
        assert abs(papers.tau - entry.tau) < 0.015 + 3 * papers.tau_se
        assert papers.tau_se < 0.012
        assert ours.mse < entry.proposed + 3 * ours.mse_se
        if entry.positive in (0, 100):
            assert ours.mse < 0.5 * papers.mse


# --- verdicts ---------------------------------------------------------------------------------------


def made_table(factor=1.0, tau_shift=0.0, repetitions=100):
    """A table whose averages are the paper's times a factor, with a spread of a tenth."""
    rows = []
    wave = 1.0 + np.tile([-1.0, 1.0], repetitions // 2)
    for entry in TABLE_1:
        errors = entry.proposed * factor * wave
        taus = entry.tau + tau_shift + 0.01 * (wave - 1.0)
        cells = {m.name: Cell(errors, taus, {}) for m in METHODS}
        squares = Cell(entry.least_squares * wave, np.full(repetitions, np.nan), {})
        rows.append(RecoveryRow(entry.positive, {LEAST_SQUARES: squares, **cells}))
    return RecoveryTable(tuple(rows), repetitions, 0)


@pytest.mark.parametrize(
    ("judge", "good", "bad"),
    [
        (verdicts.tau_verdicts, made_table(tau_shift=0.014), made_table(tau_shift=0.016)),
        (verdicts.mse_verdicts, made_table(1.25), made_table(1.6)),
        (verdicts.mse_verdicts, made_table(0.2), made_table(1.6)),
        (verdicts.paper_mse_verdicts, made_table(1.2), made_table(1.6)),
        (verdicts.paper_mse_verdicts, made_table(0.9), made_table(0.7)),
    ],
)
def test_a_verdict_on_table_1_is_decided_by_the_numbers(judge, good, bad):
    assert all(each.holds for each in judge(good))
    assert not any(each.holds for each in judge(bad))


def test_the_papers_error_is_that_of_an_average_of_its_100_draws_however_many_are_made_here():
    few, many = (made_table(repetitions=n).rows[2] for n in (100, 10_000))
    spread = TABLE_1[2].proposed
    for row in (few, many):
        assert_allclose(verdicts.papers_error(row), spread / 10, rtol=0.01)
    assert_allclose(many.cells[OURS[1].name].mse_se, spread / 100, rtol=0.01)


def test_more_draws_sharpen_a_verdict_down_to_the_papers_own_error():
    assert all(each.holds for each in verdicts.mse_verdicts(made_table(1.3)))
    assert not any(each.holds for each in verdicts.mse_verdicts(made_table(1.3, repetitions=2500)))
    assert all(each.holds for each in verdicts.mse_verdicts(made_table(1.15, repetitions=2500)))


def test_least_squares_is_judged_by_the_average_of_the_run():
    table = made_table()
    assert all(each.holds for each in verdicts.least_squares_verdicts(table))
    rows = []
    for row, factor in zip(table.rows, (1.14, 1.16, 0.86, 0.84, 1.0, 1.0), strict=True):
        cell = row.cells[LEAST_SQUARES]
        moved = replace(cell, errors=factor * cell.errors)
        rows.append(replace(row, cells={**row.cells, LEAST_SQUARES: moved}))
    found = verdicts.least_squares_verdicts(replace(table, rows=tuple(rows)))
    assert [each.holds for each in found] == [True, False, True, False, True, True]


def with_errors(table, method, factors):
    """The table with the errors of a method times a factor, row by row."""
    rows = []
    for row, factor in zip(table.rows, factors, strict=True):
        moved = replace(row.cells[method], errors=factor * row.cells[method].errors)
        rows.append(replace(row, cells={**row.cells, method: moved}))
    return replace(table, rows=tuple(rows))


def test_the_best_in_a_row_is_chosen_for_that_row_alone():
    table = with_errors(made_table(1.6), OURS[0].name, [0.5, 1, 1, 1, 1, 1])
    table = with_errors(table, OURS[2].name, [1, 0.5, 1, 1, 1, 1])
    best = [verdicts.best_in_row(row) for row in table.rows]
    assert best[:2] == [OURS[0].name, OURS[2].name]
    found = verdicts.best_verdicts(table)
    assert [each.holds for each in found] == [True, True, False, False, False, False]
    assert OURS[0].name in found[0].claim


def test_pooling_mirrored_rows_sharpens_the_comparison_of_errors():
    table = made_table(1.32)
    assert all(each.holds for each in verdicts.paper_mse_verdicts(table))
    assert not any(each.holds for each in verdicts.pooled_verdicts(table, PAPERS[1].name))
    below = made_table(0.5)
    assert all(each.holds for each in verdicts.pooled_verdicts(below, OURS[1].name))
    assert not any(each.holds for each in verdicts.pooled_verdicts(below, PAPERS[1].name))


def test_the_best_of_ours_has_the_least_error_over_all_rows():
    table = made_table()
    rows = []
    for row in table.rows:
        cell = row.cells[OURS[2].name]
        better = {OURS[2].name: replace(cell, errors=0.9 * cell.errors)}
        rows.append(replace(row, cells={**row.cells, **better}))
    assert best_of_ours(replace(table, rows=tuple(rows))) == OURS[2].name


# --- penalty at fixed tau ---------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [80, 0])
def test_the_penalty_of_one_draw_is_least_at_the_tau_of_its_joint_fit(positive):
    joint = solve(*recovery_sample(positive, 0), kappa=1.0, sigma=1.0)
    curve = penalty_curve(positive, 1)
    assert abs(curve.minimum - joint.tau) < 0.006
    assert_allclose(curve.penalty.min(), joint.value / 100, atol=2e-3)


def test_the_penalty_of_more_draws_is_least_where_a_whole_curve_of_them_is():
    rough = penalty_curve(80, 1)
    (fine,) = precise_minima([rough], 3)
    assert fine.taus.size == 5
    assert abs(fine.minimum - penalty_curve(80, 3).minimum) < 0.003
    assert fine.minimum != rough.minimum


# --- Table 2 ----------------------------------------------------------------------------------------


def test_the_tables_of_the_paper_are_complete():
    assert len(TABLE_2) == 28
    assert {entry.dataset for entry in TABLE_2} == set(NAMES)
    assert [entry.mse for entry in TABLE_2 if entry.noise == 0] == [0.364, 0.74, 0.19, 0.48]


def test_scaling_maps_every_column_to_the_range_from_minus_one_to_one():
    made = scaled(np.array([[1.0, 5.0], [3.0, 6.0], [2.0, 9.0]]))
    assert_allclose(made, [[-1, -1], [1, -0.5], [0, 1]])


def test_a_data_set_is_read_from_a_folder_without_the_inputs_the_paper_left_out(tmp_path):
    frame = pd.DataFrame(
        {"cement": [1.0, 2, 4], "slump": [0.0, 1, 2], "flow": [3.0, 3, 9], "strength": [5.0, 6, 9]}
    )
    frame.to_csv(tmp_path / "concrete_slump.csv", index=False)
    data = load("concrete_slump", tmp_path)
    assert data.exog.tolist() == [[1.0], [2.0], [4.0]]
    assert data.endog.tolist() == [5.0, 6.0, 9.0]
    error = constant_error(data)
    assert_allclose(error.constant, np.var([-1.0, -0.5, 1.0]))
    assert_allclose(error.others["slump"], np.var([-1.0, 0.0, 1.0]))


def test_the_environment_names_the_folder_unless_one_is_given(tmp_path, monkeypatch):
    for number, folder in enumerate((tmp_path / "a", tmp_path / "b")):
        folder.mkdir()
        (folder / "boston.csv").write_text(f"x,medv\n1,{number}\n2,5\n", encoding="utf-8")
    monkeypatch.setattr("qhreg.paper.datasets._DROPPED", {})
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
    errors = [constant_error(load(name, FOLDER)) for name in NAMES]
    assert not any(each.holds for each in verdicts.constant_verdicts(errors))
    assert_allclose([e.constant for e in errors], [0.0136, 0.1668, 0.1424, 0.1731], atol=5e-5)
    shapes = [load(name, FOLDER).exog.shape for name in NAMES]
    assert shapes == [(517, 10), (506, 12), (103, 7), (1030, 8)]


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
    clean = noisy_split(data, 0.0, None, [5])
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
        "sigma = 1": own["sigma = 1"],
        "again": own["sigma = 1"],
        "other": own["sigma inferred"],
    }
    rows = list(boosting_rows(toy_data(), 1, methods=methods))
    printed = [entry for entry in TABLE_2 if entry.dataset == "concrete_strength"]
    assert [(row.noise, row.positive, row.printed) for row in rows] == [
        (entry.noise, entry.positive, entry.mse) for entry in printed
    ]
    for row in rows:
        assert_array_equal(row.errors["sigma = 1"], row.errors["again"])
        assert not np.array_equal(row.errors["sigma = 1"], row.errors["other"])
    assert rows[0].errors["sigma = 1"][0] < rows[0].constant


def made_rows(factor):
    """Table 2 with the paper's errors times a factor, that of the first pattern once more."""
    rows = []
    for entry in TABLE_2:
        tilt = factor if entry.positive == 75 else 1.0
        errors = {name: np.array([entry.mse * factor * tilt] * 2) for name in VARIANTS}
        rows.append(BoostingRow(entry.dataset, entry.noise, entry.positive, entry.mse, 0.1, errors))
    return rows


def made_paths(last):
    return [
        TauPath("concrete_slump", 100, np.array([0.6, 0.7, 0.65, 0.6, 0.6, last])),
        TauPath("concrete_slump", 0, 1.0 - np.array([0.6, 0.7, 0.65, 0.6, 0.6, last])),
        TauPath("concrete_slump", None, np.full(6, 0.5)),
    ]


def test_the_verdicts_on_table_2_are_decided_by_the_numbers():
    assert all(each.holds for each in error_verdicts(made_rows(0.9), "sigma = 1"))
    assert not any(each.holds for each in error_verdicts(made_rows(1.1), "sigma = 1"))
    assert all(each.holds for each in pattern_verdicts(made_rows(1.0)))
    assert not any(each.holds for each in pattern_verdicts(made_rows(2.0)))
    assert [each.holds for each in path_verdicts(made_paths(0.55))] == [True, True]
    assert [each.holds for each in path_verdicts(made_paths(0.75))] == [False, False]


def test_the_page_on_table_2_shows_every_row_and_its_picture_every_path(small_run):
    rows, paths = tuple(made_rows(0.9)), tuple(made_paths(0.55))
    whole = replace(small_run, table_2=rows, paths=paths)
    (page,) = (page for page in pages(whole) if page.name == "table_2")
    assert page.text.count("| Housing |") == 7
    assert "| Housing | 2 | 50/50 | 1.44 | 1.296 |" in page.text
    (ax,) = pictures(whole)["tau_paths.png"].axes
    drawn = [line.get_ydata() for line in ax.get_lines()]
    for path in paths:
        assert any(np.array_equal(path.taus, each) for each in drawn)


def test_without_data_or_learners_the_rest_is_made(monkeypatch):
    def nothing(name, folder):
        raise DataError("no data")

    told = []
    monkeypatch.setattr(report, "load", nothing)
    monkeypatch.setattr(report, "recovery_table", lambda *args, **options: None)
    monkeypatch.setattr(report, "penalty_curves", lambda *args, **options: ())
    made = report.reproduce(2, progress=told.append)
    assert made.constants is None
    assert made.table_2 is None
    assert any("no data" in text for text in told)
    with pytest.raises(DataError):
        report.reproduce(2, data="somewhere")


# --- pages and pictures -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(small_table):
    penalties = tuple(penalty_curve(positive, 1) for positive in POSITIVE)
    curves = tau_curves()
    return Reproduction(
        loss_curves(), curves[0], curves, curvature_curve(6.0, 7), small_table, penalties, None
    )


def links(text):
    return re.findall(r"\]\(([^)#:]+)\)", text)


def test_every_page_links_only_to_what_was_written(small_run, tmp_path):
    written = write(small_run, tmp_path / "out")
    assert all(path.stat().st_size > 0 for path in written)
    names = {path.name for path in written}
    for path in written:
        if path.suffix == ".md":
            assert set(links(path.read_text(encoding="utf-8"))) <= names
    index = (tmp_path / "out" / "index.md").read_text(encoding="utf-8")
    listed = set(index.split("```{toctree}")[1].split("```")[0].split()) - {":hidden:"}
    assert {f"{name}.md" for name in listed} | {"index.md"} == {n for n in names if "md" in n}


def test_a_quick_run_says_that_it_is_one_and_that_data_were_not_found(small_run):
    text = {page.name: page.text for page in pages(small_run)}
    assert "this is a quick run" in text["index"]
    assert "data sets were not found" in text["what_is_true"]


def test_the_page_on_table_1_shows_every_number_with_its_error(small_run, small_table):
    (page,) = (page for page in pages(small_run) if page.name == "table_1")
    for row in small_table.rows:
        for cell in row.cells.values():
            assert f"{cell.mse:.3f} ± {cell.mse_se:.3f}" in page.text
    assert "BoundaryWarning (tau), 2 in 2 fits" in page.text


def test_the_pages_judge_by_the_longer_run_where_there_is_one(small_run, small_table):
    longer = with_errors(small_table, OURS[0].name, [0.0] * 6)
    longer = replace(longer, repetitions=50)
    for row in longer.rows:
        del row.cells[OURS[2].name]
    whole = replace(small_run, precise=longer, precise_penalty=small_run.penalty)
    text = {page.name: page.text for page in pages(whole)}
    assert "| bar | 2 repetitions | 50 repetitions |" in text["table_1"]
    assert "best of ours below the paper's figure as printed" in text["table_1"]
    last = next(line for line in text["table_1"].splitlines() if "as printed |" in line)
    assert last.endswith("| 6 of 6 |")
    assert "Errors from 50 repetitions" in text["table_1"]
    assert "With 50 draws" in text["penalty"]
    assert "once more with 50" in text["index"]
    assert [method.name for method in FIXED_WIDTH] == [
        name for name in longer.rows[0].cells if name != LEAST_SQUARES
    ]


def test_the_pictures_show_the_numbers(small_run):
    made = pictures(small_run)
    assert len(made) == 6
    (ax,) = made["penalty.png"].axes
    drawn = [line.get_ydata() for line in ax.get_lines()]
    for curve in small_run.penalty:
        assert any(np.array_equal(curve.penalty, each) for each in drawn)
    (ax,) = drawing.draw_curvature(small_run.curvature).axes
    assert any(
        np.array_equal(small_run.curvature.margins, line.get_ydata()) for line in ax.get_lines()
    )
    (ax,) = drawing.draw_tau_curves(small_run.taus).axes
    drawn = [line.get_ydata() for line in ax.get_lines()]
    for curve in small_run.taus:
        assert any(np.array_equal(curve.normalised, each) for each in drawn)


def test_the_page_on_the_slips_gives_the_numbers_of_the_run():
    slips = (ROOT / "docs" / "paper_slips.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "paper" / "table_1.md").read_text(encoding="utf-8")
    given = re.findall(r"0\.\d{3} ± 0\.\d{3}", slips)
    assert len(given) == 2
    for number in given:
        assert f"| {number} (z" in page
    for printed in (TABLE_1[0].proposed, TABLE_1[-1].proposed):
        assert f"{printed:.3f}" in slips


def test_the_minima_at_the_narrow_width_are_judged_by_the_joint_fits():
    assert all(each.holds for each in verdicts.narrow_minima_verdicts(made_table(tau_shift=0.01)))
    found = verdicts.narrow_minima_verdicts(made_table(tau_shift=0.02))
    assert not any(each.holds for each in found)


def test_the_pages_in_the_documentation_are_complete():
    folder = ROOT / "docs" / "paper"
    found = sorted(folder.glob("*.md"))
    assert len(found) >= 7
    for path in found:
        for link in links(path.read_text(encoding="utf-8")):
            assert (folder / link).is_file(), f"{path.name} links to {link}"
    assert "100 repetitions, seed 0" in (folder / "index.md").read_text(encoding="utf-8")
