"""Forty things a user does with data that statsmodels and scikit-learn ship, each with its check.

A task is what a user types and a statement about the answer: that of another estimator or of arithmetic
where there is one, else that the numbers are finite or in their range. ``python -m benchmarks.tasks`` runs all and prints
the table of docs/tasks.md.
"""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn import datasets as sklearn_datasets

import qhreg
from qhreg.__main__ import main
from qhreg.formula.api import quantile_huber

FIT = 'quantile_huber("foodexp ~ income", engel).fit()'
"""The fit that several tasks begin with."""


class Task(NamedTuple):
    """What a user types, what must be true of the answer, and the warnings that are due, if some are."""

    data: str
    call: str
    check: str
    warnings: tuple[str, ...] = ()


TASKS = [
    # one fit
    Task(
        "engel",
        f"fit = {FIT}",
        "fit.converged and between(fit.params['income'], OLS('foodexp ~ income', engel).params['income'], "
        "smf.quantreg('foodexp ~ income', engel).fit(0.75).params['income'])",
    ),
    Task(
        "engel",
        'fit = quantile_huber("foodexp ~ income", engel, tau=0.5, kappa=0).fit()',
        "close(fit.params[:2], smf.quantreg('foodexp ~ income', engel).fit(0.5).params, 1e-4)",
    ),
    Task(
        "engel",
        'fit = quantile_huber("foodexp ~ income", engel, tau=0.1, kappa=0).fit()',
        "close(fit.params[:2], smf.quantreg('foodexp ~ income', engel).fit(0.9).params, 1e-4)",
    ),
    Task(
        "engel",
        'fit = quantile_huber("foodexp ~ income", engel, tau=0.5, kappa=1e8).fit()',
        "close(fit.params[:2], OLS('foodexp ~ income', engel).params, 1e-6)",
    ),
    Task(
        "stackloss",
        'fit = quantile_huber("STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC", stackloss).fit()',
        "np.isfinite(fit.bse).all() and not fit.solution.tau_at_bound",
    ),
    Task(
        "longley",
        'fit = quantile_huber("TOTEMP ~ GNPDEFL + GNP + UNEMP", longley).fit()',
        "np.isfinite(fit.bse).all() and np.sign(fit.params['GNP']) == 1",
    ),
    Task(
        "statecrime",
        'fit = quantile_huber("murder ~ urban + poverty + hs_grad + single", statecrime).fit()',
        "close(np.sign(fit.params[1:5]), np.sign(smf.rlm('murder ~ urban + poverty + hs_grad + single', "
        "statecrime).fit().params[1:]), 0)",
    ),
    Task(
        "nile",
        'fit = quantile_huber("volume ~ 1", nile).fit()',
        "abs(fit.predict(which='median').iloc[0] - nile.volume.median()) < 0.2 * nile.volume.std()",
    ),
    Task(
        "sunspots",
        'fit = quantile_huber("SUNACTIVITY ~ SUNACTIVITY.shift()", sunspots).fit()',
        "fit.nobs == len(sunspots) - 1 and fit.tau > 0.5",
    ),
    Task(
        "co2",
        'fit = quantile_huber("co2 ~ year + C(month)", co2).fit()',
        "fit.nobs == co2.co2.notna().sum() and between(fit.params['year'], 1.0, 1.6)",
    ),
    Task(
        "heart",
        'fit = quantile_huber("np.log1p(survival) ~ age", heart).fit()',
        "fit.params['age'] < 0 and np.isfinite(fit.bse).all()",
    ),
    Task(
        "fair",
        'fit = quantile_huber("affairs ~ rate_marriage + age", fair).fit()',
        "np.mean(fair.affairs == 0) > 0.6",
        ("68% of the responses equal 0", "tau ended on its bound"),
    ),
    Task(
        "randhie",
        'fit = quantile_huber("np.log1p(mdvis) ~ lncoins + disea", randhie).fit()',
        "fit.params['disea'] > 0 and fit.converged",
    ),
    Task(
        "scotland",
        'fit = quantile_huber("YES ~ UNEMPF + COUTAX", scotland).fit()',
        "close(np.sign(fit.params[1:3]), np.sign(OLS('YES ~ UNEMPF + COUTAX', scotland).params[1:]), 0)",
    ),
    Task(
        "elnino",
        'fit = quantile_huber("temperature ~ C(month)", elnino).fit()',
        "close(fit.predict(which='mean').groupby(elnino.month).mean(), "
        "elnino.groupby('month').temperature.mean(), 0.02)",
    ),
    # standard errors, tests and intervals
    Task(
        "ccard",
        'fit = quantile_huber("AVGEXP ~ AGE + INCOME + OWNRENT", ccard).fit(cov_type="HC1")',
        "close(fit.bse, quantile_huber('AVGEXP ~ AGE + INCOME + OWNRENT', ccard).fit(cov_type='HC0').bse "
        "* np.sqrt(72 / 68), 1e-10)",
    ),
    Task(
        "grunfeld",
        'fit = quantile_huber("invest ~ value + capital", grunfeld)'
        '.fit(cov_type="cluster", cov_kwds={"groups": "firm"})',
        "fit.df_resid_inference == grunfeld.firm.nunique() - 1 and np.isfinite(fit.bse).all()",
    ),
    Task(
        "macrodata",
        'fit = quantile_huber("cons ~ gdp", growth).fit(cov_type="HAC", cov_kwds={"maxlags": 4})',
        "between(fit.params['gdp'], 0.2, 0.8) and fit.pvalues['gdp'] < 1e-6",
    ),
    Task(
        "engel",
        f'test = {FIT}.t_test("income = 0.6")',
        f"close(test.tvalue, ({FIT}.params['income'] - 0.6) / {FIT}.bse['income'], 1e-10)",
    ),
    Task(
        "elnino",
        'terms = quantile_huber("temperature ~ C(month)", elnino).fit().wald_test_terms()',
        "terms.table.loc['C(month)', 'df_constraint'] == 11 and terms.table.loc['C(month)', 'pvalue'] < 1e-9",
    ),
    Task(
        "engel",
        f'limits = {FIT}.conf_int(method="profile")',
        f"between({FIT}.params['tau'], *limits.loc['tau'])",
    ),
    Task(
        "engel",
        f"draws = {FIT}.bootstrap(n_boot=199, rng=0)",
        f"between(draws.bse['income'] / {FIT}.bse['income'], 0.6, 1.6)",
    ),
    Task(
        "stackloss",
        'test = quantile_huber("STACKLOSS ~ AIRFLOW + WATERTEMP", stackloss).fit().test_symmetry()',
        "0 < test.pvalue <= 1",
    ),
    Task("engel", f"proof = {FIT}.certify_global()", "proof.holds and proof.gap < 1e-5"),
    Task("engel", f"test = {FIT}.goodness_of_fit()", "test.ad_pvalue > 0 and test.n_boot == 199"),
    Task(
        "stackloss",
        'rows = quantile_huber("STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC", stackloss)'
        ".fit().weights",
        "set(np.argsort(rows)[:2]) <= {0, 2, 3, 20}",
    ),
    Task(
        "engel",
        'table = compare_models("foodexp ~ income", engel).table',
        "table['aic'].notna().all()",
    ),
    # prediction and other models
    Task(
        "engel",
        f'table = {FIT}.get_prediction({{"income": [500.0, 900.0]}}, which="mean").summary_frame()',
        "(table['obs_ci_lower'] < table['mean_ci_lower']).all() and len(table) == 2",
    ),
    Task(
        "engel",
        f'q = {FIT}.predict(engel, which="quantile", q=[0.05, 0.95])',
        "between(((q[0.05] < engel.foodexp) & (engel.foodexp < q[0.95])).mean(), 0.82, 0.97)",
    ),
    Task(
        "engel",
        'process = quantile_huber("foodexp ~ income", engel, kappa=0).fit_process(quantiles=[0.1, 0.5, 0.9])',
        "close(np.sort(process.params['income']), [smf.quantreg('foodexp ~ income', engel).fit(q).params"
        "['income'] for q in (0.1, 0.5, 0.9)], 1e-4)",
    ),
    Task(
        "engel",
        'fit = QuantileHuberDistributional.from_formula("foodexp ~ income", engel, scale="~ income").fit()',
        f"fit.params['log_sigma_income'] > 0 and fit.aic < {FIT}.aic - 50",
    ),
    Task(
        "diabetes",
        'chosen = quantile_huber(f"target ~ {columns}", diabetes).cross_validate_penalty(n_alphas=10)',
        "chosen.alphas[-1] <= chosen.best_alpha <= chosen.alphas[0]",
    ),
    Task(
        "engel",
        f"{FIT}.save(folder / 'fit.pickle'); again = sm.load(folder / 'fit.pickle')",
        f"close(again.predict(engel[:5]), {FIT}.predict(engel[:5]), 1e-12)",
    ),
    Task(
        "engel",
        "fit = quantile_huber('foodexp ~ income', pl.from_pandas(engel).lazy()).fit()",
        f"close(fit.params, {FIT}.params, 1e-12)",
    ),
    # scikit-learn
    Task(
        "diabetes",
        "model = QuantileHuberRegressor().fit(X, y)",
        "model.score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.01",
    ),
    Task(
        "diabetes",
        "ends = QuantileHuberRegressor().fit(X[:300], y[:300]).predict_interval(X[300:], coverage=0.9)",
        "between(np.mean((ends[:, 0] < y[300:]) & (y[300:] < ends[:, 1])), 0.84, 0.96)",
    ),
    Task(
        "diabetes",
        "search = GridSearchCV(make_pipeline(StandardScaler(), QuantileHuberRegressor()), "
        '{"quantilehuberregressor__kappa": [1.0, 4.0]}).fit(X, y)',
        "search.best_score_ > 0.45",
    ),
    Task(
        "diabetes",
        "model = QuantileHuberRegressorCV(alphas=10).fit(X, y)",
        "model.score(X, y) > 0.4 and len(model.alphas_) == 10",
    ),
    Task(
        "diabetes",
        "model = QuantileHuberBoostingRegressor(random_state=0).fit(X[:300], y[:300])",
        "model.score(X[300:], y[300:]) > 0.35",
    ),
    # the command line
    Task(
        "engel",
        'code = main(["fit", "foodexp ~ income", "--data", file, "--report", page])',
        "code == 0 and 'longer tail on the left' in Path(page).read_text(encoding='utf-8')",
    ),
]


def close(one: Any, other: Any, tolerance: float) -> bool:
    """Whether numbers agree, relative to the largest."""
    first, second = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    return bool(np.abs(first - second).max() <= tolerance * np.abs(second).max())


def between(value: Any, low: float, high: float) -> bool:
    """Whether a number lies between two others."""
    return bool(low <= value <= high)


def namespace(folder: Path) -> dict[str, Any]:
    """Return the data sets, and the names that the calls use."""
    import polars as pl
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    shipped = ("engel", "stackloss", "longley", "statecrime", "nile", "sunspots", "heart", "fair")
    shipped += ("randhie", "scotland", "ccard", "grunfeld")
    data = {name: getattr(sm.datasets, name).load_pandas().data for name in shipped}
    weeks = sm.datasets.co2.load_pandas().data
    stamps = weeks.index
    data["co2"] = weeks.assign(year=stamps.year + stamps.day_of_year / 365.25, month=stamps.month)
    data["growth"] = 100 * np.log(
        sm.datasets.macrodata.load_pandas().data[["realcons", "realgdp"]]
    ).diff().dropna().set_axis(["cons", "gdp"], axis=1)
    years = sm.datasets.elnino.load_pandas().data
    data["elnino"] = years.melt("YEAR", var_name="month", value_name="temperature").dropna()
    X, y = sklearn_datasets.load_diabetes(return_X_y=True, as_frame=True)
    data |= {"X": X, "y": y, "diabetes": X.assign(target=y), "columns": " + ".join(X.columns)}
    file = folder / "engel.csv"
    data["engel"].to_csv(file, index=False)
    names = (LinearRegression, GridSearchCV, make_pipeline, StandardScaler, main)
    ours = {name: getattr(qhreg, name) for name in dir(qhreg) if name.startswith("Quantile")}
    return {
        **data,
        **ours,
        **{each.__name__: each for each in names},
        **{"np": np, "pl": pl, "sm": sm, "smf": smf, "Path": Path, "folder": folder},
        **{"file": str(file), "page": str(folder / "page.html"), "close": close},
        **{
            "between": between,
            "compare_models": qhreg.compare_models,
            "quantile_huber": quantile_huber,
        },
        "OLS": lambda formula, frame: smf.ols(formula, frame).fit(),
    }


def verdict(task: Task, names: dict[str, Any]) -> str:
    """Return "right", or what happened instead."""
    scope = dict(names)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                exec(task.call, scope)
            told = [str(warning.message) for warning in caught]
            holds = bool(eval(task.check, scope))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    unexpected = [text for text in told if not any(due in text for due in task.warnings)]
    if unexpected:
        return f"warned: {unexpected[0]}"
    if task.warnings and not told:
        return "no warning"
    return "right" if holds else "wrong"


def table_of_verdicts() -> pd.DataFrame:
    """Return each task with its verdict."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        names = namespace(Path(folder))
        for task in TASKS:
            rows.append((task.data, f"`{task.call}`", verdict(task, names)))
    return pd.DataFrame(rows, columns=["data", "what is typed", "verdict"])


def as_markdown(table: pd.DataFrame) -> str:
    """Return the table for a page of the documentation."""
    rows = [table.columns, ["---"] * table.shape[1], *table.to_numpy()]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


if __name__ == "__main__":
    verdicts = table_of_verdicts()
    right = int((verdicts["verdict"] == "right").sum())
    sys.stdout.write(f"{as_markdown(verdicts)}\n\n{right} of {len(verdicts)} right\n")
