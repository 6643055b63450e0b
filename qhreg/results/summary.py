"""The tables of a fit: what it is, its coefficients by predictor, single parameters, notes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import forg, summary_params
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from qhreg.inference.summary_tables import FitSummary, FitSummary2

__all__ = ["Tables", "head", "linear_tables", "summary2_tables", "summary_tables", "zone"]

NOTE_WIDTH = 76
"""Characters in a line of the notes."""

SHAPE = ("tau", "sigma", "kappa")
"""Single parameters in the order of the tables: tau has something to test."""

_LIMITS = {
    "laplace": (
        "kappa ended at 0: the asymmetric Laplace distribution fits best. kappa is treated as known."
    ),
    "one-sided": (
        "kappa is not determined: no residual lies beyond the zone on the light side, and every "
        "width above {kappa:.4g} fits equally well. kappa is treated as known; tau and sigma are those "
        "at this width, and tau is not tested."
    ),
    "gaussian": (
        "kappa ended at infinity: the normal distribution fits best. It is represented by kappa = "
        "{kappa:g}, which is treated as known; the standard deviation of the noise is sigma sqrt(kappa)."
    ),
}


@dataclass(frozen=True)
class Tables:
    """The contents of the tables of a fit.

    Attributes
    ----------
    title : str
        Title.
    left, right : list of (str, list of str or None)
        Labels and values of the first table; None for what statsmodels knows.
    blocks : list of (str, slice)
        The heading of each table of coefficients, and where they stand among the parameters.
    notes : list of str
        What a reader must know.
    """

    title: str
    left: list[tuple[str, Any]]
    right: list[tuple[str, Any]]
    blocks: list[tuple[str, slice]]
    notes: list[str]


def head(results: Any, method: str, model: str | None = None) -> list[tuple[str, Any]]:
    """Return the part of the first table that all fits have."""
    return [
        ("Dep. Variable:", None),
        ("Model:", None if model is None else [model]),
        ("Method:", [method]),
        ("Date:", None),
        ("Time:", None),
        ("No. Observations:", [f"{results.nobs:.10g}"]),
        ("Df Residuals:", [f"{results.df_resid:.10g}"]),
        ("Df Model:", [f"{results.df_model:.10g}"]),
        ("Covariance Type:", [results.cov_type]),
    ]


def zone(results: Any) -> tuple[str, Any]:
    """Return how many rows lie in the quadratic zone."""
    rows, counted = results.solution.rows_in_zone, results.rows_counted
    what = "Obs." if counted == results.nobs else "Rows"  # a row may be many
    where = "in zone:" if results.kappa > 0.0 else "on the line:"
    return f"{what} {where}", [f"{rows:.0f} ({100.0 * rows / counted:.0f}%)"]


def linear_tables(results: Any) -> Tables:
    """Return the contents of the tables of a linear fit."""
    biconvex = {"proved": "yes", "refuted": "no", "undecided": "undecided"}
    gap = f"{results.duality_gap:.1e}" if results.duality_gap else "0"
    searched = "certified" if results.solution.certified else "not checked"
    left = head(results, "REML" if results.reml else "Maximum Likelihood")
    left.append(("Converged:", [f"{'yes' if results.converged else 'NO'}, gap {gap}"]))
    right = [
        ("Log-Likelihood:", [f"{results.llf:#8.5g}"]),
        ("AIC:", [f"{results.aic:#8.4g}"]),
        ("BIC:", [f"{results.bic:#8.4g}"]),
        ("Pseudo R-squared:", [f"{round(results.prsquared, 4) + 0.0:.4f}"]),  # never -0
        ("kappa:", [_fixed_or_estimated(results, "kappa")]),
        zone(results),
        ("P(y < x'beta):", [f"{results.quantile_level:.4f}"]),
        ("Share below line:", [f"{results.share_below:.4f}"]),
        ("Biconvex:", [biconvex[results.certificate.status]]),
        ("Global:", [searched if results.tau_estimated else "convex (tau fixed)"]),
    ]
    blocks = [("", slice(0, results.space.k))]
    return Tables("Quantile Huber Regression Results", left, right, blocks, _linear_notes(results))


def _fixed_or_estimated(results: Any, name: str) -> str:
    """Return a parameter's value with how it came about."""
    how = "estimated" if results.space.position(name) is not None else "fixed"
    how = "constrained" if results.constraint and name in results.constraint.fixed else how
    return f"{getattr(results, name):.4g} ({how})"


def _linear_notes(results: Any) -> list[str]:
    """Return what a reader of the tables must know."""
    level = results.quantile_level
    if results.kappa == 0.0 or abs(level + results.tau - 1.0) < 5e-5:
        about = (
            f"tau is the slope of the loss on negative residuals: x'beta is the {level:.4f} "
            "quantile (1 - tau), the q of QuantReg."
        )
    else:
        about = (
            "tau is the slope of the loss on negative residuals. With kappa > 0 x'beta is not the "
            f"1 - tau = {1 - results.tau:.4f} quantile: in the fitted "
            f"distribution it is the {level:.4f} quantile. "
            'predict(which="quantile", q=...) gives any other quantile.'
        )
    lines = [about, results.cov_kwds["description"]]
    if results.model.has_weights:
        lines.append(
            "With sampling weights the log-likelihood is that of the weighted rows: AIC and BIC compare "
            "models with the same weights only."
        )
    if results.constraint is not None:
        lines.append(
            "The parameters satisfy linear constraints; parameters that they determine have no "
            "standard error."
        )
    if results.solution.tau_at_bound:
        lines.append(
            f"tau ended on its bound {results.tau:g}: nearly all noise lies on one side of the line. "
            "Try tau=0.5, other tau_bounds or fewer columns, or profile intervals."
        )
    if not results.converged:
        lines.append(f"NOT CONVERGED: {results.solution.reason}.")
    if results.solution.dependent:
        columns = results.model.data.param_names
        names = ", ".join(str(columns[j]) for j in results.solution.dependent)
        lines.append(
            f"exog has rank {results.rank}: {names} depend(s) on other columns; the coefficients "
            "are those of least norm."
        )
    if results.solution.undetermined:
        columns = results.model.data.param_names
        names = ", ".join(str(columns[j]) for j in results.solution.undetermined)
        lines.append(
            f"The coefficient of {names} is not determined: a range of values fits equally well, and "
            "its centre is shown."
        )
    if results.kappa_limit is not None:
        lines.append(_LIMITS[results.kappa_limit].format(kappa=results.kappa))
    return lines


def _names(results: Any, tables: Tables, xname: list[str] | None) -> list[str]:
    """Return the names of all parameters."""
    own = [str(name) for name in results.model.data.param_names]
    if xname is None:
        return own
    shown = tables.blocks[-1][1].stop
    if len(xname) not in (shown, len(own)):
        raise ValueError(f"xname has {len(xname)} names, the model has {shown} coefficients")
    return [*xname[:shown], *own[shown:]]


def summary_tables(
    results: Any,
    tables: Tables,
    yname: str | None,
    xname: list[str] | None,
    title: str | None,
    alpha: float,
) -> Any:
    """Return the tables as a statsmodels Summary.

    Parameters
    ----------
    results : RegressionResults
        The fit.
    tables : Tables
        The contents.
    yname, xname, title
        Names and title in place of the model's.
    alpha : float
        One minus the coverage of the intervals.
    """
    names = _names(results, tables, xname)
    summary = FitSummary()
    summary.add_table_2cols(
        results,
        gleft=tables.left,
        gright=tables.right,
        yname=yname,
        xname=names,
        title=tables.title if title is None else title,
    )
    numbers = (results.params, results.bse, results.tvalues, results.pvalues)
    limits = results.conf_int(alpha)
    width = max(len(name) for name in names)
    for heading, place in tables.blocks:
        if place.start == place.stop:
            continue
        table = summary_params(
            (results, *(column[place] for column in numbers), limits[place]),
            yname=yname,
            xname=names[place],
            alpha=alpha,
            use_t=results.use_t,
        )
        if heading:
            # the width makes the tables line up; the type makes an empty cell show its text
            table[0][0].data, table[0][0].datatype = heading.ljust(width), "stub"
        summary.tables.append(table)
    if len(tables.blocks) == 1:
        letter, rows = "t" if results.use_t else "z", _shape(results, alpha, _short)
        header = ["coef", "std err", f"{letter}(tau=.5)", f"P>|{letter}|"]
        header += [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        summary.tables.append(
            SimpleTable(list(rows.values()), header, list(rows), txt_fmt=fmt_params)
        )
    lines = ["Notes:"]
    for number, note in enumerate(tables.notes, start=1):
        lines += textwrap.wrap(f"[{number}] {note}", NOTE_WIDTH, subsequent_indent="    ")
    summary.add_extra_txt(lines)
    return summary


def summary2_tables(
    results: Any,
    tables: Tables,
    yname: str | None,
    xname: list[str] | None,
    title: str | None,
    alpha: float,
    float_format: str,
) -> Any:
    """Return the tables in the layout of statsmodels' summary2.

    Parameters
    ----------
    results, tables, yname, xname, title, alpha
        As in `summary_tables`.
    float_format : str
        Format of numbers.
    """
    summary = FitSummary2()
    names = _names(results, tables, xname)
    known = {
        "Dep. Variable:": [yname or results.model.endog_names],
        "Model:": [type(results.model).__name__],
    }
    cells = {label: value or known.get(label) for label, value in tables.left + tables.right}
    summary.add_dict({label: str(v[0]).strip() for label, v in cells.items() if v is not None})
    letter = "t" if results.use_t else "z"
    columns = ["Coef.", "Std.Err.", letter, f"P>|{letter}|"]
    columns += [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
    numbers = [results.params, results.bse, results.tvalues, results.pvalues]
    values = np.column_stack([*numbers, results.conf_int(alpha)])
    frame = pd.DataFrame(values, columns=columns, index=names)
    for heading, place in tables.blocks:
        if place.start < place.stop:
            block = frame.iloc[place].rename_axis(columns=heading or None)
            summary.add_df(block, float_format=float_format)
    if len(tables.blocks) == 1:
        rows = _shape(results, alpha, lambda value, _: float_format % value)
        columns[2] = f"{letter}(tau=.5)"
        shape = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        summary.add_df(shape, align="r")
    summary.add_title(tables.title if title is None else title)
    for note in tables.notes:
        summary.add_text(note)
    return summary


def _shape(
    results: Any, alpha: float, written: Callable[[float, int], str]
) -> dict[str, list[str]]:
    """Return a row of texts for each of tau, sigma and kappa: a value of each column `written`."""
    rows, limits = {}, results.conf_int(alpha)
    for name in SHAPE:
        j = results.space.position(name)
        if j is not None:
            held = results.held_fixed.get(name)
            error = written(results.bse[j], 1) if held is None else f"({held})"
            numbers = (results.tvalues[j], results.pvalues[j], *limits[j])
            cells = [written(x, i) if np.isfinite(x) else "" for i, x in enumerate(numbers, 2)]
            rows[name] = [written(results.params[j], 0), error, *cells]
        elif name != "kappa":
            rows[name] = [written(getattr(results, name), 0), "(fixed)", *[""] * 4]
    return rows


def _short(value: float, column: int) -> str:
    """Return a number as the tables of statsmodels have it in a column."""
    if column in (2, 3):
        return f"{value:.3f}"
    return str(forg(value, prec=4 if column == 0 else 3))
