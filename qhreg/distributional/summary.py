"""The tables of a distributional fit: what it is, then one table for each of the three predictors."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import summary_params

from qhreg.markup import FitSummary, FitSummary2

__all__ = ["summary2_tables", "summary_tables"]

_NOTE_WIDTH = 76
_TITLE = "Quantile Huber Distributional Regression Results"
_HEADS = ("location", "log(sigma)", "logit(tau)")


def _left(results: Any) -> list[tuple[str, Any]]:
    """Return the left column of the first table."""
    return [
        ("Dep. Variable:", None),
        ("Model:", ["Distributional"]),
        ("Method:", ["Maximum Likelihood"]),
        ("Date:", None),
        ("Time:", None),
        ("No. Observations:", [f"{results.nobs:.10g}"]),
        ("Df Residuals:", [f"{results.df_resid:.10g}"]),
        ("Df Model:", [f"{results.df_model:.10g}"]),
        ("Covariance Type:", [results.cov_type]),
    ]


def _right(results: Any) -> list[tuple[str, Any]]:
    """Return the right column of the first table."""
    what = "Obs." if results.rows_counted == results.nobs else "Rows"  # a row may be many
    share = 100.0 * results.solution.rows_in_zone / results.rows_counted
    return [
        ("Log-Likelihood:", [f"{results.llf:#8.5g}"]),
        ("LL, one sigma, tau:", [f"{results.llf_homoskedastic:#8.5g}"]),
        ("AIC:", [f"{results.aic:#8.4g}"]),
        ("BIC:", [f"{results.bic:#8.4g}"]),
        ("kappa:", [f"{results.kappa:.4g} (fixed)"]),
        (
            f"{what} in zone:" if results.kappa > 0.0 else f"{what} on the line:",
            [f"{results.solution.rows_in_zone} ({share:.0f}%)"],
        ),
        ("Range of sigma:", ["{:.3g} to {:.3g}".format(*results.ranges["sigma"])]),
        ("Range of tau:", ["{:.3f} to {:.3f}".format(*results.ranges["tau"])]),
        ("Stationary:", [_stationary(results.solution)]),
    ]


def _stationary(solution: Any) -> str:
    """Return which part of a fit is stationary, and the length of the gradient of that part."""
    length = f"{solution.score_norm:.0e}"
    if solution.converged or not solution.rest_stationary:
        return f"{'yes' if solution.converged else 'NO'} ({length} s.e.)"
    held = ["sigma" if name == "scale" else name for name in solution.held]
    part = f"all but {held[0]}" if len(held) == 1 else "location only"
    return f"{part}, {length}"  # no unit: the table would be too wide


def _names(results: Any, xname: list[str] | None) -> list[str]:
    if xname is None:
        return [str(name) for name in results.model.data.param_names]
    if len(xname) != results.params.size:
        raise ValueError(
            f"xname has {len(xname)} names, the model {results.params.size} parameters"
        )
    return list(xname)


def _places(results: Any) -> list[tuple[str, slice]]:
    """Return the heading of each block and where its parameters stand."""
    made, start = [], 0
    for head, size in zip(_HEADS, results.model.block_sizes, strict=True):
        made.append((head, slice(start, start + size)))
        start += size
    return made


def notes(results: Any) -> list[str]:
    """Return what a reader of the tables must know."""
    found = [
        "log(sigma) and logit(tau) are linear in their regressors: exp(coef) is the factor of sigma, "
        "and of the odds tau / (1 - tau), for one more unit. A high tau means a heavy right tail.",
        results.cov_kwds["description"],
    ]
    fixed = {"sigma": results.model.sigma, "tau": results.model.tau}
    found += [f"{name} is fixed at {v:g}." for name, v in fixed.items() if v is not None]
    if results.converged and not results.local_maximum:
        found.append("The fit is stationary, but the Hessian there is not definite.")
    if not results.converged:
        found.append(_why(results.solution))
    lost = [
        str(results.model.data.param_names[place.start + j])
        for (_, place), columns in zip(_places(results), _dependent(results), strict=True)
        for j in columns
    ]
    if lost:
        found.append(
            f"{', '.join(lost)} depend(s) on other columns; the coefficients are those of least norm."
        )
    return found


def _why(solution: Any) -> str:
    """Return why a fit is not stationary."""
    rest = "; its coefficients are held there, and given them the others are stationary"
    return f"NOT CONVERGED: {solution.reason}{rest if solution.rest_stationary else ''}."


def _dependent(results: Any) -> list[tuple[int, ...]]:
    return [results.solution.dependent[name] for name in ("location", "scale", "tau")]


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
    results : DistributionalResults
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
    parts = (results.params, results.bse, results.tvalues, results.pvalues)
    limits = results.conf_int(alpha)
    width = max(len(name) for name in names)
    for head, place in _places(results):
        if place.start == place.stop:
            continue
        table = summary_params(
            (results, *(part[place] for part in parts), limits[place]),
            yname=yname,
            xname=names[place],
            alpha=alpha,
            use_t=results.use_t,
        )
        # the width makes the three tables line up; the type makes an empty cell show its text
        table[0][0].data, table[0][0].datatype = head.ljust(width), "stub"
        made.tables.append(table)
    lines = ["Notes:"]
    for number, note in enumerate(notes(results), start=1):
        lines += textwrap.wrap(f"[{number}] {note}", _NOTE_WIDTH, subsequent_indent="    ")
    made.add_extra_txt(lines)
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
    results : DistributionalResults
        The fit.
    yname, xname, title, alpha
        As in `summary_tables`.
    float_format : str
        Format of numbers.
    """
    made = FitSummary2()
    names = _names(results, xname)
    cells = {"Dep. Variable:": yname or results.model.endog_names}
    for label, value in _left(results) + _right(results):
        if value is not None:
            cells[label] = str(value[0]).strip()
    made.add_dict(cells)
    letter = "t" if results.use_t else "z"
    columns = ["Coef.", "Std.Err.", letter, f"P>|{letter}|"]
    columns += [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
    parts = [results.params, results.bse, results.tvalues, results.pvalues]
    values = np.column_stack([*parts, results.conf_int(alpha)])
    frame = pd.DataFrame(values, columns=columns, index=names)
    for head, place in _places(results):
        if place.start == place.stop:
            continue
        made.add_df(frame.iloc[place].rename_axis(columns=head), float_format=float_format)
    made.add_title(_TITLE if title is None else title)
    for note in notes(results):
        made.add_text(note)
    return made
