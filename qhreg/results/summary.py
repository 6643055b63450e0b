"""The tables of a fit: what the fit is, its coefficients, then tau, sigma and kappa."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import forg, summary_params
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from qhreg.markup import FitSummary, FitSummary2

__all__ = ["summary2_tables", "summary_tables"]


_NOTE_WIDTH = 76
_SHAPE = ("tau", "sigma", "kappa")  # in the order of the tables: tau has something to test
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
_TITLE = "Quantile Huber Regression Results"


def _fixed_or_estimated(results: Any, name: str) -> str:
    """Return a parameter's value with how it came about."""
    how = "estimated" if results.space.position(name) is not None else "fixed"
    how = "constrained" if results.constraint and name in results.constraint.fixed else how
    return f"{getattr(results, name):.4g} ({how})"


def _percent(part: float, whole: float) -> str:
    return f"{part:.0f} ({100.0 * part / whole:.0f}%)"


def _gap(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def _left(results: Any) -> list[tuple[str, Any]]:
    """Return the left column of the first table."""
    yes = "yes" if results.converged else "NO"
    return [
        ("Dep. Variable:", None),
        ("Model:", None),
        ("Method:", ["REML" if results.reml else "Maximum Likelihood"]),
        ("Date:", None),
        ("Time:", None),
        ("No. Observations:", [f"{results.nobs:.10g}"]),
        ("Df Residuals:", [f"{results.df_resid:.10g}"]),
        ("Df Model:", [f"{results.df_model:.10g}"]),
        ("Covariance Type:", [results.cov_type]),
        ("Converged:", [f"{yes}, gap {_gap(results.duality_gap)}"]),
    ]


def _right(results: Any) -> list[tuple[str, Any]]:
    """Return the right column of the first table."""
    biconvex = {"proved": "yes", "refuted": "no", "undecided": "undecided"}
    what = "Obs." if results.rows_counted == results.nobs else "Rows"  # a row may be many
    return [
        ("Log-Likelihood:", [f"{results.llf:#8.5g}"]),
        ("AIC:", [f"{results.aic:#8.4g}"]),
        ("BIC:", [f"{results.bic:#8.4g}"]),
        ("Pseudo R-squared:", [f"{round(results.prsquared, 4) + 0.0:.4f}"]),  # never -0
        ("kappa:", [_fixed_or_estimated(results, "kappa")]),
        (
            f"{what} in zone:" if results.kappa > 0.0 else f"{what} on the line:",
            [_percent(results.rows_in_zone, results.rows_counted)],
        ),
        ("P(y < x'beta):", [f"{results.quantile_level:.4f}"]),
        ("Share below line:", [f"{results.share_below:.4f}"]),
        ("Biconvex:", [biconvex[results.certificate.status]]),
        ("Global:", [_searched(results)]),
    ]


def _searched(results: Any) -> str:
    if not results.tau_estimated:
        return "convex (tau fixed)"
    return "certified" if results.solution.certified else "not checked"


def _names(results: Any, xname: list[str] | None) -> list[str]:
    """Return the names of the coefficients."""
    k = results.space.k
    if xname is None:
        return [str(name) for name in results.model.data.param_names[:k]]
    if len(xname) not in (k, results.space.size):
        raise ValueError(f"xname has {len(xname)} names, the model has {k} coefficients")
    return list(xname[:k])


def _coefficients(results: Any, names: list[str], yname: str | None, alpha: float) -> Any:
    """Return the table of the coefficients."""
    k = results.space.k
    parts = (results.params, results.bse, results.tvalues, results.pvalues)
    limits = results.conf_int(alpha)[:k]
    return summary_params(
        (results, *(part[:k] for part in parts), limits),
        yname=yname,
        xname=names,
        alpha=alpha,
        use_t=_letter(results) == "t",
    )


def _letter(results: Any) -> str:
    """Return what a table calls the ratio of an estimate to its standard error."""
    return "t" if results.use_t else "z"


def _shape_rows(results: Any, alpha: float) -> list[tuple[str, list[str]]]:
    """Return one row for each of tau, sigma and kappa."""
    params, bse = results.params, results.bse
    tvalues, pvalues = results.tvalues, results.pvalues
    limits = results.conf_int(alpha)
    rows = []
    for name in _SHAPE:
        j = results.space.position(name)
        if j is None:
            if name != "kappa":
                rows.append((name, [forg(getattr(results, name), prec=4), "(fixed)", *[""] * 4]))
            continue
        test = ["", ""]
        if name == "tau" and np.isfinite(tvalues[j]):
            test = [f"{tvalues[j]:.3f}", f"{pvalues[j]:.3f}"]
        held = results.held_fixed.get(name)
        error = forg(bse[j], prec=3) if held is None else f"({held})"
        ends = [forg(v, prec=3) if np.isfinite(v) else "" for v in limits[j]]
        rows.append((name, [forg(params[j], prec=4), error, *test, *ends]))
    return rows


def _shape_frame(results: Any, estimated: pd.DataFrame, float_format: str) -> pd.DataFrame:
    """Return the rows of tau, sigma and kappa as text, with why one has no standard error."""
    letter = _letter(results)
    rows: dict[str, list[str]] = {}
    for name in _SHAPE:
        if name in estimated.index:
            value, error, *others = estimated.loc[[name]].to_numpy()[0]
            held = results.held_fixed.get(name)
            said = float_format % error if held is None else f"({held})"
            cells = [float_format % other if np.isfinite(other) else "" for other in others]
        elif name != "kappa":
            value, said, cells = getattr(results, name), "(fixed)", [""] * 4
        else:
            continue
        rows[name] = [float_format % value, said, *cells]
    columns = [f"{letter}(tau=.5)" if name == letter else name for name in estimated.columns]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _shape_table(results: Any, alpha: float) -> Any:
    """Return the table of tau, sigma and kappa."""
    letter = _letter(results)
    stubs, data = zip(*_shape_rows(results, alpha), strict=True)
    low, high = f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"
    header = ["coef", "std err", f"{letter}(tau=.5)", f"P>|{letter}|", low, high]
    return SimpleTable([list(row) for row in data], header, list(stubs), txt_fmt=fmt_params)


def notes(results: Any) -> list[str]:
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
    found = [about, results.cov_kwds["description"]]
    if results.model.has_weights:
        found.append(
            "With sampling weights the log-likelihood is that of the weighted rows: AIC and BIC compare "
            "models with the same weights only."
        )
    if results.constraint is not None:
        found.append(
            "The parameters satisfy linear constraints; parameters that they determine have no "
            "standard error."
        )
    if results.solution.tau_at_bound:
        found.append(
            f"tau ended on its bound {results.tau:g}: nearly all noise lies on one side of the line. "
            "Try tau=0.5, other tau_bounds or fewer columns, or profile intervals."
        )
    if not results.converged:
        found.append(f"NOT CONVERGED: {results.solution.reason}.")
    if results.solution.dependent:
        columns = results.model.data.param_names
        names = ", ".join(str(columns[j]) for j in results.solution.dependent)
        found.append(
            f"exog has rank {results.rank}: {names} depend(s) on other columns; the coefficients "
            "are those of least norm."
        )
    if results.solution.undetermined:
        columns = results.model.data.param_names
        names = ", ".join(str(columns[j]) for j in results.solution.undetermined)
        found.append(
            f"The coefficient of {names} is not determined: a range of values fits equally well, and "
            "its centre is shown."
        )
    if results.kappa_limit is not None:
        found.append(_LIMITS[results.kappa_limit].format(kappa=results.kappa))
    return found


def _note_text(results: Any) -> str:
    lines = ["Notes:"]
    for number, note in enumerate(notes(results), start=1):
        lines += textwrap.wrap(f"[{number}] {note}", _NOTE_WIDTH, subsequent_indent="    ")
    return "\n".join(lines)


def summary_tables(
    results: Any,
    *,
    yname: str | None = None,
    xname: list[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
) -> Any:
    """Return the tables as a statsmodels Summary.

    Parameters
    ----------
    results : QuantileHuberResults
        The fit.
    yname, xname, title
        Names and title in place of the model's.
    alpha : float
        One minus the coverage of the intervals.
    """
    names = _names(results, xname)
    made = FitSummary()
    made.add_table_2cols(
        results,
        gleft=_left(results),
        gright=_right(results),
        yname=yname,
        xname=names,
        title=_TITLE if title is None else title,
    )
    made.tables.append(_coefficients(results, names, yname, alpha))
    made.tables.append(_shape_table(results, alpha))
    made.add_extra_txt(_note_text(results).split("\n"))
    return made


def summary2_tables(
    results: Any,
    *,
    yname: str | None = None,
    xname: list[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
    float_format: str = "%.4f",
) -> Any:
    """Return the tables in the layout of statsmodels' summary2.

    Parameters
    ----------
    results : QuantileHuberResults
        The fit.
    yname, xname, title, alpha
        As in `summary_tables`.
    float_format : str
        Format of numbers.
    """
    made = FitSummary2()
    names = _names(results, xname)
    head = [
        (label, value[0] if value else None) for label, value in _left(results) + _right(results)
    ]
    head_values = {
        "Dep. Variable:": yname or results.model.endog_names,
        "Model:": type(results.model).__name__,
    }
    cells = {
        label: str(value if value is not None else head_values.get(label, "")).strip()
        for label, value in head
        if value is not None or label in head_values
    }
    made.add_dict(cells)
    k = results.space.k
    limits = results.conf_int(alpha)
    letter = _letter(results)
    columns = [
        "Coef.",
        "Std.Err.",
        letter,
        f"P>|{letter}|",
        f"[{alpha / 2:g}",
        f"{1 - alpha / 2:g}]",
    ]
    values = np.column_stack(
        [results.params, results.bse, results.tvalues, results.pvalues, limits]
    )
    frame = pd.DataFrame(values, columns=columns, index=[*names, *results.space.extra_names])
    made.add_df(frame.iloc[:k], float_format=float_format)
    made.add_df(_shape_frame(results, frame.iloc[k:], float_format), align="r")
    made.add_title(_TITLE if title is None else title)
    for note in notes(results):
        made.add_text(note)
    return made
