"""Storing fits: pickle, save and load, in this and in another process, with and without data."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model_data import skewed_frame

import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE
from qhreg.exceptions import DataError, DomainError

FRAME = skewed_frame()
FORMULA = "y ~ np.log(z) + center(x) + bs(z, df=4) + C(g)"


def squared(values):
    return values**2


def test_a_formula_fit_survives_pickle_with_stateful_transforms(engine):
    fit = qhf.quantile_huber(FORMULA, FRAME, weights="w", drop_cols=["bs(z, df=4)[2]"]).fit()
    other = pickle.loads(pickle.dumps(fit))
    # a few rows only: their mean and knots are not those of the data
    some = FRAME.iloc[:3]
    np.testing.assert_array_equal(other.predict(some), fit.predict(some))
    np.testing.assert_allclose(fit.predict(some), fit.fittedvalues.iloc[:3], rtol=1e-9)
    assert str(other.summary().tables[1]) == str(fit.summary().tables[1])
    np.testing.assert_allclose(other.model.fit().params, fit.params, rtol=1e-10)
    other.wald_test_terms()


def test_functions_of_a_module_survive_pickle(engine):
    fit = qhf.quantile_huber("y ~ squared(x)", FRAME).fit()
    other = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(other.predict(FRAME.iloc[:2]), fit.predict(FRAME.iloc[:2]))


def test_without_data_the_summary_and_predictions_stay_and_the_size_shrinks(engine):
    fit = qhf.quantile_huber(FORMULA, FRAME).fit(cov_type="cluster", cov_kwds={"groups": "firm"})
    text, some = fit.summary().as_text(), FRAME.iloc[:3]
    predicted = fit.predict(some)
    frame = fit.get_prediction(some).summary_frame()
    assert len(fit.resid) == 300
    size = len(pickle.dumps(fit))
    fit.remove_data()
    small = pickle.dumps(fit)
    assert len(small) < min(size / 3, 9000)
    for kept in (fit, pickle.loads(small)):
        assert without_time(kept.summary().as_text()) == without_time(text)
        np.testing.assert_array_equal(kept.predict(some), predicted)
        np.testing.assert_allclose(kept.get_prediction(some).summary_frame(), frame, rtol=1e-12)
        with pytest.raises(DataError, match="were removed"):
            kept.get_robustcov_results("HC1")
        assert kept.conf_int().shape == (len(kept.params), 2)
        with pytest.raises(DataError, match="removed"):
            kept.predict()
        with pytest.raises(DataError, match="removed"):
            kept.resid  # noqa: B018


def without_time(text):
    return [line for line in text.splitlines() if not line.startswith(("Date", "Time"))]


def test_an_array_fit_without_data_predicts():
    exog = np.column_stack([np.ones(300), FRAME.x])
    fit = QuantileHuberMLE(FRAME.y.to_numpy(), exog, freq_weights=FRAME.w.to_numpy()).fit()
    expected = fit.predict(exog[:3])
    fit.remove_data()
    np.testing.assert_array_equal(fit.predict(exog[:3]), expected)
    assert len(pickle.dumps(fit)) < 6000


@pytest.mark.parametrize("table", ["summary", "summary2", "_repr_html_"])
@pytest.mark.parametrize("named", [True, False])
def test_tables_need_no_data_whether_they_were_read_before_or_not(table, named):
    exog, endog = FRAME[["x", "z"]], FRAME.y
    if not named:
        exog, endog = exog.to_numpy(), endog.to_numpy()
    read, unread = (QuantileHuberMLE(endog, exog).fit() for _ in range(2))
    expected = str(getattr(read, table)())
    unread.remove_data()
    for kept in (unread, pickle.loads(pickle.dumps(unread))):
        assert _without_clock(str(getattr(kept, table)())) == _without_clock(expected)


def _without_clock(text):
    return re.sub(r"\d\d:\d\d:\d\d", "", text)


GIVEN = {
    "compare_lr_test": ("small",),
    "f_test": ("x = 0",),
    "load": ("path",),
    "lr_test": ("small",),
    "plot_partial_residuals": ("x",),
    "save": ("path",),
    "score_test": ("column",),
    "t_test": ("x = 0",),
    "t_test_pairwise": ("C(g)",),
    "wald_test": ("x = 0",),
}


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_every_method_works_without_data_or_says_that_they_were_removed(cov_type, tmp_path):
    some = FRAME.head(120)
    fit = qhf.quantile_huber("y ~ x + C(g)", some).fit(cov_type=cov_type)
    given = {
        "small": qhf.quantile_huber("y ~ C(g)", some).fit(),
        "path": tmp_path / "fit",
        "column": np.asarray(some.z),
    }
    fit.remove_data()
    fit.save(tmp_path / "fit")
    names = [name for name in dir(fit) if name[0] != "_" and name not in ("initialize", "model")]
    refused = {}
    for name in names:
        try:
            asked = getattr(fit, name)
            if callable(asked):
                asked(*(given.get(each, each) for each in GIVEN.get(name, ())))
        except DataError as error:
            refused[name] = str(error)
    assert not {name for name, why in refused.items() if "model were removed" not in why}
    assert "get_influence" in refused
    assert not {"summary", "summary2", "conf_int", "lr_test", "wald_test"} & refused.keys()


def test_save_and_load_work_at_the_top_level_of_another_process(tmp_path, engine):
    """The top level of a script has no frame above it for an engine to look names up in."""
    path = tmp_path / "fit.pickle"
    fit = qhf.quantile_huber(FORMULA, FRAME).fit()
    fit.save(path)
    FRAME.iloc[:3].to_pickle(tmp_path / "rows.pickle")
    script = tmp_path / "script.py"
    script.write_text(
        "import pickle, sys\n"
        "import pandas as pd\n"
        f"fit = pickle.load(open({str(path)!r}, 'rb'))\n"
        f"rows = pd.read_pickle({str(tmp_path / 'rows.pickle')!r})\n"
        "print(*(v.hex() for v in fit.predict(rows)))\n"
    )
    root = Path(__file__).resolve().parents[2]
    answer = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(root), "PATH": "", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    found = [float.fromhex(v) for v in answer.stdout.split()]
    np.testing.assert_allclose(found, fit.predict(FRAME.iloc[:3]), rtol=1e-12)
    loaded = type(fit).load(path)
    np.testing.assert_array_equal(loaded.params, fit.params)


def test_a_lambda_in_a_formula_is_named_when_it_cannot_be_stored():
    fit = qhf.quantile_huber("y ~ f(x)", FRAME, eval_env={"f": lambda v: v + 1.0}).fit()
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(fit)


def test_a_model_without_data_says_so_when_it_is_to_be_fitted():
    fit = qhf.quantile_huber("y ~ x", FRAME).fit()
    fit.remove_data()
    model = fit.model
    for ask in (
        model.fit,
        lambda: model.fit_constrained("x = 2"),
        lambda: model.fit_process([0.4]),
    ):
        with pytest.raises(DataError, match="the data of this model were removed"):
            ask()


def test_sampling_weights_count_after_their_array_was_removed():
    full = qhf.quantile_huber("y ~ x + z", FRAME, weights="w").fit()
    part = qhf.quantile_huber("y ~ x", FRAME, weights="w").fit()
    text = full.summary().as_text()
    assert "Sampling weights replace the likelihood" in text
    full.remove_data()
    part.remove_data()
    for kept in (full, pickle.loads(pickle.dumps(full))):
        assert without_time(kept.summary().as_text()) == without_time(text)
        assert np.isnan(kept.llr_pvalue)
        with pytest.raises(DomainError, match="sampling weights"):
            kept.lr_test(part)
