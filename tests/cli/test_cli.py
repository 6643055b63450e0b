"""The command line: what it prints and writes, and one line for everything that goes wrong."""

import importlib.util
import json
import pickle
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from model_data import skewed_frame
from numpy.testing import assert_allclose

import qhreg.formula.api as qhf
from qhreg.__main__ import main
from qhreg.cli import commands, files
from qhreg.cli.parser import make_parser
from qhreg.cli.report import html_report
from qhreg.exceptions import BoundaryWarning, DataError, DomainError
from qhreg.family.distribution import quantile_huber

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def frame():
    return skewed_frame().reset_index(drop=True)


@pytest.fixture
def table(frame, tmp_path):
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def fitted(frame):
    return qhf.quantile_huber("y ~ x", frame).fit()


def failure(capsys, *arguments):
    """The one line an unsuccessful command writes."""
    try:
        code = main(arguments)
    except SystemExit as stop:  # the parser leaves by itself
        code = stop.code
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("qhreg: error: ")
    assert "Traceback" not in captured.err
    return captured.err


# --- fit --------------------------------------------------------------------------------------------


def test_fit_prints_the_summary_of_the_model(capsys, table, fitted):
    assert main(["fit", "y ~ x", "--data", table]) == 0
    printed = capsys.readouterr().out
    expected = str(fitted.summary())
    # the clock, and the gap, which is rounding: reading the file moves the last digit of the data
    gap = re.compile(r"Proved: +gap (\S+)")
    assert float(gap.search(printed)[1]) < 1e-9
    varying = re.compile(rf"\d\d:\d\d:\d\d|\w{{3}}, \d\d \w{{3}} \d{{4}}|{gap.pattern}")
    assert varying.sub("", printed).split() == varying.sub("", expected).split()


def test_fit_prints_json_that_agrees_with_the_fit(capsys, table, fitted):
    assert main(["fit", "y ~ x", "--data", table, "--json", "--certify", "--alpha", "0.1"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["params"].keys() == {"Intercept", "x", "sigma", "tau"}
    assert_allclose(list(made["params"].values()), fitted.params, rtol=1e-9)
    assert_allclose(made["conf_int"]["x"], fitted.conf_int(0.1).loc["x"], rtol=1e-7)
    assert made["pvalues"]["sigma"] is None
    assert made["converged"] is True
    assert made["certificate"]["holds"] is True
    assert made["global_certificate"]["holds"] is True
    assert_allclose(made["llf"], fitted.llf, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "model", "fit"),
    [
        (["--kappa", "0.3"], {"kappa": 0.3}, {}),
        (["--tau", "0.7"], {"tau": 0.7}, {}),
        (["--sigma", "1"], {"sigma": 1.0}, {}),
        (["--weights", "w"], {"weights": "w"}, {}),
        (["--freq-weights", "w"], {"freq_weights": "w"}, {}),
        (["--offset", "o"], {"offset": "o"}, {}),
        (["--cov-type", "HC0"], {}, {"cov_type": "HC0"}),
        (
            ["--cov-type", "cluster", "--groups", "firm"],
            {},
            {"cov_type": "cluster", "cov_kwds": {"groups": "firm"}},
        ),
        (
            ["--cov-type", "HAC", "--maxlags", "3"],
            {},
            {"cov_type": "HAC", "cov_kwds": {"maxlags": 3}},
        ),
    ],
)
def test_every_option_of_fit_reaches_the_model(capsys, table, frame, fitted, options, model, fit):
    assert main(["fit", "y ~ x", "--data", table, "--json", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    expected = qhf.quantile_huber("y ~ x", frame, **model).fit(**fit)
    assert_allclose(list(made["params"].values()), expected.params, rtol=1e-8)
    assert_allclose(list(made["bse"].values()), expected.bse, rtol=1e-6)
    plain = [fitted.params.loc["x"], fitted.bse.loc["x"]]
    assert not np.allclose([made["params"]["x"], made["bse"]["x"]], plain, rtol=1e-4)


def test_kappa_can_be_estimated(capsys, tmp_path):
    y = quantile_huber.ppf((np.arange(600) + 0.5) / 600, 0.3, 2.0)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "d.csv", index=False)
    data = str(tmp_path / "d.csv")
    assert main(["fit", "y ~ 1", "--data", data, "--json", "--kappa", "estimate"]) == 0
    assert abs(json.loads(capsys.readouterr().out)["params"]["kappa"] - 2.0) < 0.2


def test_the_bounds_of_tau_reach_the_model(table):
    options = make_parser().parse_args(
        ["fit", "y ~ x", "--data", table, "--tau-bounds", "0.05", "0.97"]
    )
    results = commands.fit_formula(files.read_table(table), options)
    assert results.model.tau_bounds == (0.05, 0.97)


def test_rows_with_missing_values_are_dropped_or_refused(capsys, frame, tmp_path):
    path = str(tmp_path / "gaps.csv")
    frame.assign(x=frame.x.where(frame.index > 2)).to_csv(path, index=False)
    assert main(["fit", "y ~ x", "--data", path, "--json"]) == 0
    said = capsys.readouterr()
    numbers = json.loads(said.out)
    assert (numbers["nobs"], numbers["rows_dropped"]) == (len(frame) - 3, 3)
    assert said.err == f"qhreg: 3 of {len(frame)} rows left out: missing values\n"
    assert "missing" in failure(capsys, "fit", "y ~ x", "--data", path, "--missing", "raise")


def test_intervals_by_the_likelihood_ratio_are_those_of_the_fit(capsys, table, fitted):
    options = ["fit", "y ~ x", "--data", table, "--interval", "profile", "--alpha", "0.1"]
    expected = fitted.conf_int(0.1, method="profile")
    assert main([*options, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["interval"] == "profile"
    assert_allclose(list(numbers["conf_int"].values()), expected, rtol=1e-6)
    assert main(options) == 0
    said = capsys.readouterr().out
    assert "90 % profile-likelihood intervals" in said
    assert f"{expected.loc['tau', 0]:.4f} {expected.loc['tau', 1]:.4f}" in said


def test_data_and_models_are_not_written_over_unless_forced(capsys, table, frame, tmp_path):
    model = str(tmp_path / "m.pickle")
    start = ["fit", "y ~ x", "--data", table]
    assert "is there already" in failure(capsys, *start, "--save", table)
    assert main([*start, "--save", model]) == 0
    assert capsys.readouterr().err == f"qhreg: model saved to {model}\n"
    assert "choose another name or --force" in failure(capsys, *start, "--save", model)
    assert main([*start, "--save", model, "--force"]) == 0
    capsys.readouterr()
    predict = ["predict", model, "--data", table]
    for target in (model, table):
        assert "is there already" in failure(capsys, *predict, "--out", target)
    pd.testing.assert_frame_equal(pd.read_csv(table), frame, check_dtype=False)
    out = str(tmp_path / "p.csv")
    for _ in range(2):
        assert main([*predict, "--out", out]) == 0
        assert f"{len(frame)} predictions written to {out}" in capsys.readouterr().err


def test_the_help_says_that_a_formula_is_code_and_a_model_a_pickle(capsys):
    for command, words in {
        "fit": ("A formula is Python code", "a Python pickle"),
        "predict": ("A saved model is a Python pickle: open only files that you trust",),
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert all(word in said for word in words)


def test_np_is_numpy_in_formulas(capsys, table, frame):
    assert main(["fit", "np.exp(y / 9) ~ np.abs(x) + C(g)", "--data", table, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    expected = qhf.quantile_huber("np.exp(y / 9) ~ np.abs(x) + C(g)", frame).fit()
    assert_allclose(list(made["params"].values()), expected.params, rtol=1e-8)


def test_a_warning_of_the_fit_is_one_line_on_the_error_stream(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    one_sided = pd.DataFrame({"x": x, "y": x + rng.exponential(size=60)})
    one_sided.to_csv(tmp_path / "d.csv", index=False)
    options = ["--data", str(tmp_path / "d.csv"), "--tau-bounds", "0.3", "0.6"]
    answer = subprocess.run(
        [sys.executable, "-m", "qhreg", "fit", "y ~ x", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert answer.returncode == 0
    (bound,) = answer.stderr.splitlines()
    assert bound.startswith("qhreg: warning: tau ended on its bound 0.6")
    assert "Quantile Huber Regression Results" in answer.stdout


# --- save and predict -------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path, fitted):
    path = tmp_path / "model.pickle"
    fitted.save(str(path))
    return str(path)


def test_a_saved_model_predicts_what_the_fit_predicts(capsys, table, frame, tmp_path):
    model = str(tmp_path / "m.pickle")
    formula = "y ~ np.exp(x) + C(g)"
    assert main(["fit", formula, "--data", table, "--save", model]) == 0
    capsys.readouterr()
    assert main(["predict", model, "--data", table]) == 0
    made = pd.read_csv(pd.io.common.StringIO(capsys.readouterr().out))
    fit = qhf.quantile_huber(formula, frame).fit()
    expected = fit.get_prediction(frame).summary_frame()
    assert list(made.columns) == list(expected.columns)
    assert made.columns[0] == "location"
    assert_allclose(made, expected, rtol=1e-8)


def test_several_quantiles_are_columns_and_go_to_a_file(table, frame, fitted, saved, tmp_path):
    out = tmp_path / "p.csv"
    levels = ["--which", "quantile", "--q", "0.05", "0.5"]
    assert main(["predict", saved, "--data", table, *levels, "--out", str(out)]) == 0
    made = pd.read_csv(out)
    assert list(made.columns) == ["q_0.05", "q_0.5"]
    expected = fitted.predict(frame, which="quantile", q=[0.05, 0.5])
    assert_allclose(made, expected, rtol=1e-9)


def test_a_single_probability_has_its_interval(capsys, table, frame, fitted, saved):
    options = ["--which", "prob", "--y-values", "2", "--alpha", "0.2"]
    assert main(["predict", saved, "--data", table, *options]) == 0
    made = pd.read_csv(pd.io.common.StringIO(capsys.readouterr().out))
    expected = fitted.get_prediction(frame, which="prob", y_values=2.0).summary_frame(0.2)
    assert_allclose(made, expected, rtol=1e-8)


# --- report -----------------------------------------------------------------------------------------


def test_the_report_is_one_page_with_tables_certificates_and_pictures(table, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "r.html"
    assert main(["fit", "y ~ x", "--data", table, "--report", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    assert page.count('src="data:image/png;base64,') == 6
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:3] == ["What it says", "Data and fit", "Estimates"]
    assert titles[3:] == ["Does the law fit?", "Asymmetry", "Proofs", "Summary"]
    for text in ("Quantile Huber Regression Results", "Biconvexity certificate", "proved"):
        assert text in page
    assert "Global maximum proved" in page
    assert "profile-likelihood interval of tau" in page
    outside = re.findall(r'(?:src|href)="(?!data:)[^"]*"', page)
    assert outside == []
    assert "<script" not in page


def test_a_report_begins_with_what_the_numbers_say(frame):
    pytest.importorskip("matplotlib")
    gaps = frame.assign(x=frame["x"].where(frame.index > 2))
    fit = qhf.quantile_huber("y ~ x + z", gaps).fit()
    page = html_report(fit, interval="profile", alpha=0.1)
    reading = page.split("<h2>What it says</h2>")[1].split("</section>")[0]
    low, high = fit.conf_int(0.1, method="profile").loc["tau"]
    assert f"{len(frame) - 3} rows were fitted, 3 more left out" in reading
    assert "longer tail on the right" in reading
    assert f"90 % interval {low:.3f} to {high:.3f}" in reading
    assert "90 % intervals without zero: x" in reading
    assert f"p = {fit.goodness_of_fit().ad_pvalue:.2g}" in reading
    assert "Profile-likelihood intervals of 90 %" in page


def test_a_report_on_sampling_weights_says_what_there_is_not(frame):
    pytest.importorskip("matplotlib")
    weights = np.linspace(0.5, 1.5, len(frame))
    page = html_report(qhf.quantile_huber("y ~ x", frame, weights=weights).fit())
    assert "is not tested" in page
    assert page.count("data:image/png") >= 5


def test_a_report_on_a_fixed_tau_gives_the_duality_gap_and_no_profile(frame):
    pytest.importorskip("matplotlib")
    results = qhf.quantile_huber("y ~ x", frame, tau=0.6).fit()
    page = html_report(results, title="y < x & z")
    assert "tau is fixed" in page
    assert page.count("data:image/png") == 5
    assert "<h1>y &lt; x &amp; z</h1>" in page


# --- what goes wrong --------------------------------------------------------------------------------


def test_a_missing_file_is_named(capsys, tmp_path):
    path = str(tmp_path / "no.csv")
    assert path in failure(capsys, "fit", "y ~ x", "--data", path)
    assert "no.pickle" in failure(capsys, "predict", "no.pickle", "--data", path)


def test_an_unknown_column_is_named_with_those_there_are(capsys, table, saved, tmp_path):
    line = failure(capsys, "fit", "y ~ xx", "--data", table)
    assert "'xx'" in line
    assert "the columns are x, z, g" in line
    assert "'yy'" in failure(capsys, "fit", "yy ~ x", "--data", table)
    assert "'ww'" in failure(capsys, "fit", "y ~ x", "--data", table, "--weights", "ww")
    assert "'gg'" in failure(
        capsys, "fit", "y ~ x", "--data", table, "--cov-type", "cluster", "--groups", "gg"
    )
    (tmp_path / "z.csv").write_text("z\n1\n", encoding="utf-8")
    assert "'x'" in failure(capsys, "predict", saved, "--data", str(tmp_path / "z.csv"))


@pytest.mark.parametrize("values", ["a\n1\nb", "a\na\na"])
def test_a_target_that_is_not_numeric_is_named(capsys, tmp_path, values):
    path = tmp_path / "text.csv"
    rows = [f"{y},{x}" for x, y in enumerate(values.split())]
    path.write_text("\n".join(["y,x", *rows]), encoding="utf-8")
    line = failure(capsys, "fit", "y ~ x", "--data", str(path))
    assert "target 'y' is not numeric" in line
    assert "'a'" in line


def test_empty_files_are_reported(capsys, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_bytes(b"")
    assert "is empty" in failure(capsys, "fit", "y ~ x", "--data", str(path))
    path.write_text("\n\n", encoding="utf-8")
    assert "cannot read" in failure(capsys, "fit", "y ~ x", "--data", str(path))
    path.write_text("x,y\n", encoding="utf-8")
    assert "has no rows" in failure(capsys, "fit", "y ~ x", "--data", str(path))


@pytest.mark.parametrize("formula", ["y", "~ x", "y ~", "y ~ x +* z", ""])
def test_a_formula_that_is_none_is_reported(capsys, table, formula):
    failure(capsys, "fit", formula, "--data", table)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--tau", "2"], "0 < tau < 1"),
        (["--kappa", "-1"], "kappa"),
        (["--sigma", "0"], "sigma"),
        (["--alpha", "1"], "--alpha"),
        (["--tau-bounds", "0.9", "0.1"], "tau_bounds"),
        (["--groups", "g"], "--groups goes with --cov-type cluster"),
        (["--maxlags", "3"], "--maxlags goes with --cov-type HAC"),
        (["--cov-type", "cluster"], "needs --groups"),
        (["--kappa", "wide"], "neither a number nor 'estimate'"),
        (["--kappa", "inf"], "kappa"),
        (["--cov-type", "HC9"], "invalid choice: 'HC9'"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_values_outside_their_domain_are_reported(capsys, table, options, text):
    assert text in failure(capsys, "fit", "y ~ x", "--data", table, *options)


def test_a_file_of_another_kind_is_reported(capsys, table, saved, tmp_path):
    assert "ending" in failure(capsys, "fit", "y ~ x", "--data", saved)
    assert "not a saved model" in failure(capsys, "predict", table, "--data", table)
    other = tmp_path / "other.pickle"
    other.write_bytes(pickle.dumps([1]))
    assert "holds a list" in failure(capsys, "predict", str(other), "--data", table)


def test_predict_asks_for_levels_and_rejects_those_that_do_not_belong(capsys, table, saved):
    start = ["predict", saved, "--data", table]
    assert "--which quantile needs --q\n" in failure(capsys, *start, "--which", "quantile")
    assert "--which prob needs --y-values\n" in failure(capsys, *start, "--which", "prob")
    assert "--q goes with --which quantile, not with location" in failure(
        capsys, *start, "--q", "0.5"
    )
    line = failure(capsys, *start, "--which", "median", "--y-values", "2")
    assert "--y-values goes with --which prob, not with median" in line


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_without_pyarrow_the_message_names_it(tmp_path, monkeypatch, ending):
    path = tmp_path / f"data{ending}"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'qhreg\[parquet\]'"):
        files.read_table(path)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_with_pyarrow_the_same_table_is_read(tmp_path, frame, ending):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"data{ending}"
    (frame.to_parquet if ending == ".parquet" else frame.to_feather)(path)
    pd.testing.assert_frame_equal(files.read_table(path), frame, check_dtype=False)


def test_tab_separated_and_compressed_tables_are_read(tmp_path, frame):
    frame.to_csv(tmp_path / "d.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "d.csv.gz", index=False)
    for name in ("d.tsv", "d.csv.gz"):
        pd.testing.assert_frame_equal(files.read_table(tmp_path / name), frame, check_dtype=False)


def test_traceback_shows_where_an_error_arose(tmp_path):
    with pytest.raises(DataError):
        main(["--traceback", "fit", "y ~ x", "--data", str(tmp_path / "no.csv")])


def test_an_error_of_the_parser_is_one_line_that_names_the_help(capsys):
    assert "see 'qhreg fit --help'" in failure(capsys, "fit", "y ~ x")
    assert "see 'qhreg --help'" in failure(capsys, "bogus")
    assert "see 'qhreg --help'" in failure(capsys)
    assert "at least 2" in failure(capsys, "paper", "--repetitions", "1")


@pytest.fixture
def no_work(monkeypatch):
    """Reading data, and what comes after it, would raise."""

    def never(*arguments, **options):
        raise AssertionError("work was done before the target was looked at")

    for name in ("read_table", "demo", "_load"):
        monkeypatch.setattr(commands, name, never)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "y ~ x", "--data", "d.csv", "--save"],
        ["fit", "y ~ x", "--data", "d.csv", "--report"],
        ["predict", "m.pickle", "--data", "d.csv", "--out"],
    ],
)
def test_a_file_that_cannot_be_written_is_reported_before_any_work(
    capsys, tmp_path, no_work, arguments
):
    target = tmp_path / "no" / "file"
    assert f"there is no folder {target.parent}" in failure(capsys, *arguments, str(target))
    assert "it is a folder" in failure(capsys, *arguments, str(tmp_path))


def test_a_folder_or_picture_that_cannot_be_written_is_reported_before_any_work(
    capsys, tmp_path, no_work, monkeypatch
):
    pytest.importorskip("matplotlib")
    from qhreg.paper import report

    monkeypatch.setattr(report, "reproduce", None)
    taken = tmp_path / "taken"
    taken.write_text("a file", encoding="utf-8")
    line = failure(capsys, "paper", "--out", str(taken / "deeper"))
    assert f"{taken} is a file" in line
    assert "no folder" in failure(capsys, "demo", "--picture", str(tmp_path / "no" / "x.png"))
    assert ".png, .svg or .pdf" in failure(capsys, "demo", "--picture", "x.doc")


def test_a_folder_without_permission_is_reported(capsys, tmp_path, monkeypatch, table):
    monkeypatch.setattr(files.os, "access", lambda *arguments: False)
    target = str(tmp_path / "m.pickle")
    line = failure(capsys, "fit", "y ~ x", "--data", table, "--save", target)
    assert "no permission" in line
    assert "no permission" in failure(capsys, "paper", "--out", str(tmp_path / "a" / "b"))


def test_a_truth_value_is_no_target(capsys, frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.assign(y=frame["y"] > 0).to_csv(path, index=False)
    assert "'y' must be numeric" in failure(capsys, "fit", "y ~ x", "--data", str(path))


def test_a_column_whose_name_is_not_a_word_gets_the_advice_to_quote_it(capsys, frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.rename(columns={"x": "my x"}).to_csv(path, index=False)
    assert """write Q("my x") for""" in failure(capsys, "fit", "y ~ my x", "--data", str(path))
    assert main(["fit", "y ~ Q('my x')", "--data", str(path)]) == 0


@pytest.mark.parametrize(
    ("formula", "text"),
    [("y ~ np.nothing(x)", "no attribute 'nothing'"), ("y ~ x ~ z", "~ can only be used once")],
)
def test_what_patsy_says_of_a_formula_comes_without_its_carets(capsys, table, formula, text):
    line = failure(capsys, "fit", formula, "--data", table)
    assert text in line
    assert repr(formula) in line
    assert "^" not in line


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("y;x\n1;2\n3;4\n", "semicolons"),
        ("y;x;z\n1,5;2,5;3\n3,5;4,5;3\n", "semicolons"),
        ("y\tx\n1\t2\n", "tabs; add --sep tab"),
        ("y|x\n1|2\n", "bars; add --sep '|'"),
    ],
)
def test_a_file_with_another_separator_is_recognised(capsys, tmp_path, text, word):
    path = tmp_path / "d.csv"
    path.write_text(text, encoding="utf-8")
    assert f"separated by {word}" in failure(capsys, "fit", "y ~ x", "--data", str(path))


@pytest.mark.parametrize("head", ["y,x", "y, x ", "\ufeffy,x", '"y" ,"x"'])
@pytest.mark.parametrize("end", ["", ",", ",,"])
def test_blanks_in_the_head_and_separators_at_the_end_of_lines_shift_nothing(tmp_path, head, end):
    path = tmp_path / "d.csv"
    path.write_text("\n".join([head, f"0,2{end}", f" 1, 4{end}", ""]), encoding="utf-8")
    read = files.read_table(path)
    assert_allclose(read[["y", "x"]], [[0, 2], [1, 4]])


def test_a_name_may_have_a_line_break_within_quotes(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('"a\nb",x\n1,2\n', encoding="utf-8")
    assert files.read_table(path).to_dict("list") == {"a\nb": [1], "x": [2]}


def test_row_names_without_a_name_of_their_own_are_no_values(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('"y","x"\n"a",1,2\n"b",3,4\n', encoding="utf-8")
    assert_allclose(files.read_table(path), [[1, 2], [3, 4]])
    path.write_text("y,x\n1,2,3,4\n1,2,3,4\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"more values in a line \(4\) than names in its head \(2\)"
    ):
        files.read_table(path)


def test_two_columns_of_one_name_are_not_renamed(capsys, frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.assign(x2=frame["z"]).rename(columns={"x2": "x"}).to_csv(path, index=False)
    line = failure(capsys, "fit", "y ~ x", "--data", str(path))
    assert "several columns called 'x'" in line
    assert main(["fit", "y ~ z", "--data", str(path)]) == 0


def test_text_in_another_encoding_is_named(capsys, tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("y,größe\n1,2\n".encode("latin-1"))
    line = failure(capsys, "fit", "y ~ x", "--data", str(path))
    assert "not text in UTF-8: name its encoding, such as --encoding latin-1" in line
    assert list(files.read_table(path, encoding="latin-1")) == ["y", "größe"]
    line = failure(capsys, "fit", "y ~ x", "--data", str(path), "--encoding", "klingon")
    assert "--encoding 'klingon' is none that Python knows" in line


@pytest.mark.parametrize(
    ("texts", "said", "option"),
    [
        (["?"], "'?'; add --na '?' if", ["--na", "?"]),
        ([".", "n/k"], "'.', 'n/k'; add --na . n/k if", ["--na", ".", "n/k"]),
        (["1,234"], "'1,234'; add --thousands ,;", ["--thousands", ","]),
        (["1,5"], "'1,5'; add --decimal ,;", ["--decimal", ","]),
        (["1 234"], "'1 234'; add --thousands ' ';", ["--thousands", " "]),
        (
            ["1.234,5"],
            "'1.234,5'; add --thousands . --decimal ,;",
            ["--thousands", ".", "--decimal", ","],
        ),
        (
            ["1,234", "?"],
            "'1,234', '?'; add --thousands ,; add --na '?' if",
            ["--thousands", ",", "--na", "?"],
        ),
        (["a", "b", "c", "d", "e"], "'a', 'b', 'c' and 2 other texts; write C(n)", None),
    ],
)
def test_numbers_of_which_some_are_text_are_refused_with_the_option_that_reads_them(
    capsys, frame, tmp_path, texts, said, option
):
    path = str(tmp_path / "d.csv")
    spoiled = frame.assign(n=frame["firm"].astype(object))
    spoiled.loc[: len(texts) - 1, "n"] = texts
    spoiled[["y", "x", "g", "n"]].round(3).to_csv(path, index=False)
    for formula in ("y ~ n", "y ~ Q('n') + x"):
        line = failure(capsys, "fit", formula, "--data", path)
        assert f"most of the 300 values of 'n' are numbers, but it also holds {said}" in line
    line = failure(capsys, "fit", "n ~ x", "--data", path)
    assert f"the target 'n' is not numeric, it holds {texts[0]!r}" in line
    if option:
        table = commands._read(parsed(path, *option))
        assert pd.api.types.is_numeric_dtype(table["n"])
    options = parsed(path)
    for formula in ("y ~ x + C(g)", "y ~ C(n)", "y ~ C( Q('n') )"):
        commands._reject_text(formula, files.read_table(path))
    assert commands.fit_formula(files.read_table(path), options).nobs == 300


def parsed(path, *option):
    return make_parser().parse_args(["fit", "y ~ x", "--data", path, *option])


def test_the_way_a_text_is_written_can_be_given(capsys, frame, fitted, tmp_path):
    path = str(tmp_path / "d.txt")
    frame[["y", "x"]].to_csv(path, sep=";", decimal=",", index=False, encoding="utf-16")
    with open(path, "a", encoding="utf-16-le") as stream:
        stream.write("missing;1,5\n")
    text = ["--sep", ";", "--decimal", ",", "--encoding", "utf-16", "--na", "missing"]
    assert main(["fit", "y ~ x", "--data", path, "--json", *text]) == 0
    made = json.loads(capsys.readouterr().out)
    assert_allclose(list(made["params"].values()), fitted.params, rtol=1e-8)
    model = str(tmp_path / "m.pickle")
    fitted.save(model)
    assert main(["predict", model, "--data", path, *text]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(frame) + 2
    assert "--sep must be one character or 'tab'" in failure(
        capsys, "fit", "y ~ x", "--data", path, "--sep", "::"
    )


def test_a_decimal_sign_that_is_not_that_of_the_numbers_is_told_of(capsys, table):
    line = failure(capsys, "fit", "z ~ 1", "--data", table, "--decimal", ",")
    assert "the target 'z' is not numeric, it holds '" in line
    line = failure(capsys, "fit", "firm ~ x", "--data", table, "--decimal", ",")
    assert "with --decimal , the column 'x' holds text: '" in line


def test_tabs_are_understood_in_txt_and_by_name(frame, tmp_path):
    for name, sep in (("d.txt", None), ("d.csv", "\t")):
        frame.to_csv(tmp_path / name, sep="\t", index=False)
        table = files.read_table(tmp_path / name, sep=sep)
        pd.testing.assert_frame_equal(table, frame, check_dtype=False)
    for text in ("tab", "\\t"):
        table = files.read_table(tmp_path / "d.csv", sep=text)
        pd.testing.assert_frame_equal(table, frame, check_dtype=False)


def test_how_a_text_is_written_is_refused_for_tables_that_are_none(tmp_path, frame):
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(DomainError, match="--decimal is for tables of text"):
        files.read_table(tmp_path / "d.parquet", decimal=",")


@pytest.mark.parametrize(
    "head",
    ["# made today\ny,x", '# "half a quote\n\n# more\ny,x', "#y,x", "# a comment\n# y, x", "y,x"],
)
def test_comments_above_the_names_are_left_out_and_names_in_a_comment_are_read(tmp_path, head):
    path = tmp_path / "d.csv"
    path.write_text(f"{head}\n0,2\n1,4\n", encoding="utf-8")
    read = files.read_table(path)
    assert list(read) == ["y", "x"]
    assert_allclose(read, [[0, 2], [1, 4]])


def test_a_table_that_numpy_writes_is_read(tmp_path):
    np.savetxt(tmp_path / "d.txt", [[0, 2], [1, 4]], header="y x")
    read = files.read_table(tmp_path / "d.txt", sep=" ")
    assert list(read) == ["y", "x"]
    assert_allclose(read, [[0, 2], [1, 4]])


def test_the_level_of_a_quantile_is_answered_with_the_options_that_are_meant(capsys, table):
    line = failure(capsys, "fit", "y ~ x", "--data", table, "--q", "0.9")
    assert "for the 0.9 quantile give --tau 0.1 --kappa 0" in line


def test_a_function_of_numpy_is_asked_for_by_its_name(capsys, table):
    line = failure(capsys, "fit", "arctan(y) ~ x", "--data", table)
    assert "there is no function 'arctan': write np.arctan" in line


def test_a_report_ends_in_html(capsys, table, no_work):
    line = failure(capsys, "fit", "y ~ x", "--data", table, "--report", "out.pdf")
    assert "ends in .html, got 'out.pdf'" in line


def test_the_letter_case_of_a_covariance_does_not_matter(table):
    assert parsed(table, "--cov-type", "hc1").cov_type == "HC1"


def test_a_report_on_a_tau_at_its_bound_says_which_test_there_is_not():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    data = pd.DataFrame({"x": x, "y": x + rng.exponential(size=60)})
    with pytest.warns(BoundaryWarning):
        fit = qhf.quantile_huber("y ~ x", data, tau_bounds=(0.3, 0.6)).fit()
    page = html_report(fit)
    assert "Wald test of tau = 1/2: not available: tau is on its bound" in page
    assert "= nan" not in page


def test_predictions_stand_beside_the_columns_that_are_kept(capsys, table, frame, saved, tmp_path):
    def predicted(*options, data=table):
        assert main(["predict", saved, "--data", data, *options]) == 0
        return pd.read_csv(pd.io.common.StringIO(capsys.readouterr().out))

    plain = predicted()
    pd.testing.assert_frame_equal(predicted("--keep", "g", "x")[list(plain)], plain)
    some = predicted("--keep", "g", "x")
    assert list(some) == ["g", "x", *plain]
    assert some["g"].tolist() == frame["g"].tolist()
    assert list(predicted("--keep")) == [*frame, *plain]
    named = tmp_path / "named.csv"
    named.write_text('"x","z"\n"a",1,2\n"b",3,4\n', encoding="utf-8")
    assert predicted("--keep", data=str(named))["row"].tolist() == ["a", "b"]
    line = failure(capsys, "predict", saved, "--data", table, "--keep", "nosuch")
    assert "--keep 'nosuch': there is no such column; the columns are x, z" in line
    clash = tmp_path / "clash.csv"
    frame.assign(location=1.0).to_csv(clash, index=False)
    line = failure(capsys, "predict", saved, "--data", str(clash), "--keep")
    assert "two columns called 'location'" in line


def test_text_where_the_model_had_numbers_is_reported(capsys, saved, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("x,z\na,1\nb,2\n", encoding="utf-8")
    line = failure(capsys, "predict", saved, "--data", str(path))
    assert "in column 'x', which was numeric in the fit" in line


def test_a_folder_is_no_data_file(capsys, tmp_path):
    assert "is a folder" in failure(capsys, "fit", "y ~ x", "--data", str(tmp_path))


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_a_damaged_file_is_reported(capsys, tmp_path, ending):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"d{ending}"
    path.write_bytes(b"PAR1 and nothing that follows")
    assert f"cannot read {path}" in failure(capsys, "fit", "y ~ x", "--data", str(path))


# --- the rest ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "paper"])
def test_each_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) > 8
    assert max(map(len, text.splitlines())) <= 100


def test_the_commands_in_the_help_are_understood(capsys):
    folder = Path(files.__file__).parent / "help"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.txt"))
    shown = re.findall(r"^  qhreg (.*?)(?: {3,}.*|> .*)?$", text, re.M)
    assert len(shown) >= 15
    for line in shown:
        assert make_parser().parse_args(shlex.split(line)).command in commands.COMMANDS


def test_the_demo_draws_the_profile_likelihood(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    assert "Global maximum proved" in text
    assert "profile-likelihood interval of tau" in text
    assert (tmp_path / "qhreg_demo.png").stat().st_size > 5000


def test_the_demo_without_matplotlib_says_that_there_is_no_picture(monkeypatch):
    monkeypatch.setattr(commands.importlib.util, "find_spec", lambda name: None)
    assert "matplotlib is not installed" in commands.demo("x.png")


def test_paper_passes_its_options_on_and_tells_what_it_wrote(monkeypatch, capsys, tmp_path):
    from qhreg.paper import report

    asked = {}

    def reproduce(folder, repetitions, **options):
        asked.update(options, folder=folder, repetitions=repetitions)
        options["progress"]("Table 1, row 1 of 6")
        return ["table_1.csv", "table_1.png"]

    monkeypatch.setattr(report, "reproduce", reproduce)
    out = str(tmp_path / "out")
    assert main(["paper", "--quick", "--out", out, "--seed", "3", "--data", "d"]) == 0
    assert (asked["repetitions"], asked["seed"], asked["data"]) == (report.QUICK, 3, "d")
    assert (asked["folder"], asked["parts"]) == (out, report.PARTS)
    told = capsys.readouterr()
    assert told.out == f"in {out}: table_1.csv, table_1.png\n"
    assert re.match(r"\[ *0:0\d\] Table 1, row 1 of 6\n", told.err)
    assert main(["paper", "--repetitions", "7", "--out", out, "--only", "table_2", "figures"]) == 0
    assert (asked["repetitions"], asked["parts"]) == (7, ["table_2", "figures"])
    assert main(["paper", "--out", out]) == 0
    assert asked["repetitions"] == report.REPETITIONS
    capsys.readouterr()
    assert "invalid choice: 'table_3'" in failure(capsys, "paper", "--only", "table_3")


def test_the_help_of_paper_gives_the_numbers_of_draws_and_the_parts_that_are_made(capsys):
    pytest.importorskip("matplotlib")
    from qhreg.paper import report

    with pytest.raises(SystemExit):
        main(["paper", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"draws in each row of Table 1 (default {report.REPETITIONS})" in text
    assert f"{report.QUICK} draws in each row of Table 1 instead of {report.REPETITIONS}" in text
    assert f"make these parts: {', '.join(report.PARTS)} (default" in text


def test_the_console_script_is_declared():
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert "qhreg = qhreg.__main__:main" in text
    assert importlib.util.find_spec("qhreg.__main__") is not None
