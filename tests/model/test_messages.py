"""What a user reads when something is wrong: plain words, the cause, and what to do."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import qhreg
import qhreg.formula.api as qhf
from qhreg import QuantileHuberMLE
from qhreg.exceptions import BoundaryWarning, CurvatureWarning, DataError, DataWarning, RankWarning

JARGON = re.compile(
    r"\b(bread|meat|light side|held|scaled by|look along|window|(?<!quadratic )zone)\b"
)
SPOKEN = ("warn_caller", "NotOffered")
PACKAGE = Path(qhreg.__file__).parent


def _messages():
    """Return every text of an error, a warning or a refusal in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in SPOKEN
            if called or isinstance(node, ast.Raise):
                texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                yield path.name, node.lineno, " ".join(t for t in texts if isinstance(t, str))


def test_messages_have_no_word_of_the_workshop():
    spoken = list(_messages())
    assert len(spoken) > 300
    odd = [each for each in spoken if JARGON.search(each[2]) and "held out" not in each[2]]
    assert odd == []


@pytest.fixture(scope="module")
def exog():
    return sm.add_constant(np.random.default_rng(0).normal(size=(100, 2)))


@pytest.fixture(scope="module")
def frame(exog):
    y = exog.sum(axis=1) + np.random.default_rng(1).normal(size=100)
    return pd.DataFrame(
        {"y": y, "x": exog[:, 1], "word": np.where(y > 0.0, "a", "b"), "yes": y > 0.0}
    )


def _one_row(exog):
    return np.c_[exog, np.arange(100) == 0]


@pytest.mark.parametrize(
    ("category", "design", "options"),
    [
        (BoundaryWarning, lambda x: x, {"tau_bounds": (0.1, 0.8)}),
        (BoundaryWarning, lambda x: x, {"tau_bounds": (0.1, 0.8), "kappa": None}),
        (RankWarning, lambda x: np.c_[x, 2.0 * x[:, 1]], {}),
        (CurvatureWarning, _one_row, {}),
        (DataWarning, lambda x: x[:5], {}),
    ],
)
def test_a_fit_and_its_tables_warn_once_in_two_lines(exog, category, design, options):
    columns = design(exog)
    noise = np.random.default_rng(2).exponential(size=100)[: len(columns)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = QuantileHuberMLE(columns.sum(axis=1) + noise, columns, **options).fit()
        for table in (fit.summary, fit.summary2, fit.conf_int, fit.cov_params):
            table()
    (only,) = caught
    assert only.category is category
    assert len(str(only.message)) <= 160
    assert only.filename == __file__


@pytest.mark.parametrize("response", ["word", "yes"])
def test_a_response_that_is_no_number_is_named(frame, response):
    with pytest.raises(DataError, match=f"the response '{response}' must be numeric, and holds"):
        qhf.quantile_huber(f"{response} ~ x", frame)


def test_too_few_rows_are_said_to_be_so(exog):
    for n in (2, 3):
        with pytest.raises(DataError, match=f"{n} rows are too few for 3 columns"):
            QuantileHuberMLE(np.arange(n) ** 2.0, exog[:n]).fit()


def test_a_factor_that_does_not_fit_into_memory_is_named_with_what_it_would_take():
    n = 5_000_000  # more than an address space holds
    frame = pd.DataFrame({"y": np.zeros(n), "id": np.arange(n)})
    with pytest.raises(DataError, match=r"'id' has 5,000,000 levels: .* take 186,265 GiB"):
        qhf.quantile_huber("y ~ C(id)", frame)


def test_the_distribution_says_where_the_model_of_its_name_is(frame):
    for call in (
        lambda: qhreg.quantile_huber("y ~ x", frame),
        lambda: qhreg.quantile_huber(formula="y ~ x", data=frame),
    ):
        with pytest.raises(TypeError, match=r"qhreg\.formula\.api\.quantile_huber"):
            call()
    assert qhreg.quantile_huber(0.5, 1.0).mean() == 0.0


def test_a_t_test_of_tau_says_that_the_summary_has_another_scale(frame):
    fit = qhf.quantile_huber("y ~ x", frame).fit()
    test = fit.t_test("tau = 0.5, x = 1")
    distance = (fit.tau - 0.5) / fit.bse["tau"]
    assert test.tvalue[0] == pytest.approx(distance)
    assert "summary() tests it on the logit scale" in str(test)
    assert "logit" not in str(fit.t_test("x = 1"))
