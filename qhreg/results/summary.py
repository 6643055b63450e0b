"""The tables of a fit: what it is, its estimates in blocks, notes; as text, LaTeX and HTML.

statsmodels escapes some characters of the cells for LaTeX, none of the notes, and nothing for HTML: a
regressor called ``u^2`` or a note with an underscore does not compile, and ``age[T.<18]`` is a tag.
"""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from qhreg.covariance import COVARIANCE_TYPES
from qhreg.solver.joint import bound_reached
from qhreg.solver.over_kappa import limit_reached

NOTE_WIDTH = 78
"""Characters in a line of the notes: the width of the tables."""

Labelled = list[tuple[str, str | None]]


@dataclass(frozen=True)
class Tables:
    """The contents of the tables of a fit.

    Attributes
    ----------
    title : str
        Title.
    left, right : list of (str, str or None)
        Labels and texts of the first table; None for what statsmodels knows.
    more : list of (str, str)
        Labels and texts that summary2 has besides.
    blocks : list of (str, str, list of int or str)
        The tables of estimates: heading of the names, what the statistic tests where that is not zero,
        and places among the parameters, or names of what the model fixes.
    notes : list of str
        What a reader must know.
    """

    title: str
    left: Labelled
    right: Labelled
    more: Labelled
    blocks: list[tuple[str, str, list[Any]]]
    notes: list[str]


def head(results: Any, method: str, model: str | None = None) -> Labelled:
    """Return the part of the first table that all fits have."""
    dropped = results.model.nobs_given - results.n_rows
    return [
        ("Dep. Variable:", None),
        ("Model:", model),
        ("Method:", method),
        ("Date:", None),
        ("Time:", None),
        (
            "No. Observations:",
            f"{results.nobs:.10g}" + (f" ({dropped} dropped)" if dropped else ""),
        ),
        ("Df Residuals:", f"{results.df_resid:.10g}"),
        ("Df Model:", f"{results.df_model:.10g}"),
        ("Covariance Type:", results.cov_type),
    ]


def criteria(results: Any, **others: float) -> Labelled:
    """Return log-likelihood, what is compared with it, and criteria; none with sampling weights."""
    values = {"Log-Likelihood": results.llf, **others, "BIC": results.bic}
    none = "none (weights)" if results.model.has_weights else ""
    return [(f"{label}:", none or f"{value:.1f}") for label, value in values.items()]


def zone(results: Any) -> tuple[str, str]:
    """Return how many rows lie in the quadratic zone, which is the line itself at kappa = 0."""
    rows, counted = results.solution.rows_in_zone, results.rows_counted
    where = "In quadratic zone:" if results.kappa > 0.0 else "On the line:"
    return where, f"{rows:.0f} rows ({100.0 * rows / counted:.0f}%)"


def covariance_note(results: Any) -> list[str]:
    """Return what is to be said of the covariance beyond the name of its type."""
    description: str = results.cov_kwds["description"]
    plain = f"Covariance: {COVARIANCE_TYPES[results.cov_type].description}."
    return [] if description == plain else [description]


def linear_tables(results: Any) -> Tables:
    """Return the contents of the tables of a linear fit."""
    space, gap = results.space, f"gap {results.duality_gap:.1e}".replace("0.0e+00", "0")
    biconvex = {"proved": "yes", "refuted": "no"}.get(results.certificate.status, "open")
    searched = "certified" if results.solution.certified else "not checked"
    searched = searched if results.tau_estimated else "convex"
    tail = "neither" if results.tau == 0.5 else "right" if results.tau > 0.5 else "left"
    right = [
        *criteria(results, **{"AIC": results.aic, "AIC of OLS": results.aic_ols}),
        ("Pseudo R-squared:", f"{round(results.prsquared, 4) + 0.0:.4f}"),  # never -0
        ("Longer tail:", tail),
        ("Symmetry p (Wald):", _symmetry(results)),
        ("P(y < x'beta):", f"{results.quantile_level:.4f}"),
        ("Share below line:", f"{results.share_below:.4f}"),
        ("Biconvex; global:", f"{biconvex}; {searched}"),
    ]
    places = {name: space.position(name) for name in ("tau", "sigma", "kappa")}
    shape = [name if place is None else place for name, place in places.items()]
    return Tables(
        "Quantile Huber Regression Results",
        [
            *head(results, "REML" if results.reml else "Maximum Likelihood"),
            ("Proved:", gap if results.converged else f"NO, {gap}"),
        ],
        right,
        [zone(results)],
        [("", "", list(range(space.k))), ("", "(tau=.5)", shape)],
        _linear_notes(results),
    )


def _symmetry(results: Any) -> str:
    """Return the p-value of tau = 1/2 in the table of estimates, or why there is none."""
    if not results.tau_estimated:
        return "(tau fixed)"
    pvalue = float(results.pvalues[results.space.position("tau")])
    reason = results.held_fixed.get("tau", "not tested")
    return f"({reason})" if math.isnan(pvalue) else f"{pvalue:.3f}"


def _linear_notes(results: Any) -> list[str]:
    """Return what a reader of the tables must know."""
    level, solution = results.quantile_level, results.solution
    if results.kappa == 0.0 or abs(level + results.tau - 1.0) < 5e-5:
        about = f"x'beta is the {level:.4f} quantile of y: 1 - tau, which is the q of QuantReg."
    else:
        about = (
            f"x'beta is the {level:.4f} quantile of the fitted distribution; with kappa > 0 it is not "
            'the 1 - tau one: see predict(which="quantile", q=...).'
        )
    lines = [about, *covariance_note(results)]
    if results.model.has_weights:
        lines.append(
            "Sampling weights replace the likelihood of the sample: compare fits by wald_test."
        )
    if results.constraint is not None:
        lines.append("The parameters satisfy linear constraints; what these decide is (fixed).")
    if solution.tau_at_bound:
        lines.append(f"{bound_reached(results.tau)}.")
    if not results.converged:
        lines.append(f"NOT CONVERGED: {solution.reason}.")
    for columns, meaning in (
        (
            solution.dependent,
            "depend(s) on other columns; the coefficients are those of least norm",
        ),
        (solution.undetermined, "is not determined: the centre of the values that fit is shown"),
    ):
        if columns:
            names = ", ".join(str(results.model.data.param_names[j]) for j in columns)
            lines.append(f"exog has rank {results.rank}: {names} {meaning}.")
    if results.kappa_limit is not None:
        lines.append(f"{limit_reached(results.kappa_limit, results.kappa)}.")
    return lines


def _frames(
    results: Any,
    tables: Tables,
    xname: list[str] | None,
    alpha: float,
    written: Callable[[float, int], str],
) -> list[pd.DataFrame]:
    """Return the blocks as frames of texts, all of the same width; a number of a column is `written`."""
    names = [str(name) for name in results.model.data.param_names]
    # an error is NaN where it is not identified, or for what is treated as known
    known = np.flatnonzero(np.isnan(results.bse) & results._covariance.identified)
    reasons = {names[j]: results.held_fixed.get(names[j], "fixed") for j in known}
    numbers = [results.params, results.bse, results.tvalues, results.pvalues]
    values = np.column_stack([*numbers, results.conf_int(alpha)])
    if xname is not None and len(xname) not in (results.model.k_exog, len(names)):
        raise ValueError(
            f"xname has {len(xname)} names, the model has {results.model.k_exog} coefficients"
        )
    shown = [*(xname or []), *names[len(xname or []) :]]
    letter, frames = "t" if results.use_t else "z", []
    for heading, tested, entries in tables.blocks:
        header = ["coef", "std err", letter + tested, f"P>|{letter}|"]
        rows = [[*header, f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]]
        for entry in entries:
            by_model = isinstance(entry, str)
            value = getattr(results, entry) if by_model else values[entry, 0]
            reason = "fixed" if by_model else reasons.get(names[entry])
            cells = [f"({reason})", *[""] * 4]
            if reason is None:
                row = enumerate(values[entry, 1:], start=1)
                cells = ["" if math.isnan(x) and j > 1 else written(x, j) for j, x in row]
            rows.append([written(value, 0), *cells])
        stubs = [entry if isinstance(entry, str) else shown[entry] for entry in entries]
        frames += [pd.DataFrame(rows, index=[heading, *stubs])] if entries else []
    every = pd.concat(frames)
    widths, stub = every.map(len).max(), max(map(len, every.index))
    return [
        pd.DataFrame(
            frame.to_numpy()[1:],
            index=[name.ljust(stub) for name in frame.index[1:]],
            columns=[text.rjust(w) for text, w in zip(frame.iloc[0], widths, strict=True)],
        ).rename_axis(frame.index[0])
        for frame in frames
    ]


def _short(value: float, column: int) -> str:
    """Return a number as the tables of statsmodels have it in a column."""
    return f"{value:.3f}" if column == 3 else str(forg(value, prec=4 if column == 0 else 3)).strip()


def summary_tables(
    results: Any,
    tables: Tables,
    yname: str | None,
    xname: list[str] | None,
    title: str | None,
    alpha: float,
) -> Any:
    """Return the tables as a statsmodels Summary; the arguments are those of ``results.summary``."""
    frames, summary = _frames(results, tables, xname, alpha, _short), FitSummary()
    top = [
        [(label, None if text is None else [text]) for label, text in side]
        for side in (tables.left, tables.right)
    ]
    names = results.model.data.param_names
    title = tables.title if title is None else title
    summary.add_table_2cols(results, title, *top, yname=yname, xname=names)
    for frame in frames:
        table = SimpleTable(frame.to_numpy(), list(frame), list(frame.index), txt_fmt=fmt_params)
        # the type makes an empty cell show its text
        table[0][0].data, table[0][0].datatype = frame.index.name, "stub"
        summary.tables.append(table)
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
    """Return the tables in the layout of ``results.summary2``, with more in the first."""
    summary = FitSummary2()
    known = {
        "Dep. Variable:": yname or results.model.endog_names,
        "Model:": type(results.model).__name__,
    }
    cells = tables.left + tables.right + tables.more
    rows = {label: text or known.get(label) for label, text in cells}
    summary.add_dict({label: text for label, text in rows.items() if text is not None})
    for frame in _frames(results, tables, xname, alpha, lambda x, _: float_format % x):
        summary.add_df(frame, align="r")
    summary.add_title(tables.title if title is None else title)
    for note in tables.notes:
        summary.add_text(note)
    return summary


# ---------------------------------------------------------------------- names and notes of any character

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = Summary
_Base2: Any = Summary2

_Characters = dict[int, str]

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
}
_LATEX_NOTES = {
    **_LATEX,
    "#": r"\#",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    ">": "$>$",
    "|": "$|$",
}
"""Of the cells statsmodels escapes the others."""

_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _rendered(
    render: Any, summary: Any, marks: dict[str, str], in_notes: dict[str, str], **options: Any
) -> str:
    """Return a summary as ``as_latex`` or ``as_html`` of statsmodels renders it, with marks.

    A character of a cell that has a mark is held as one of no meaning, which statsmodels leaves alone.
    """
    places = {character: chr(0xE000 + j) for j, character in enumerate(marks)}
    held = summary.with_texts(_codes(places), _codes(in_notes))
    text: str = render(held, **options)
    return text.translate(_codes({places[each]: mark for each, mark in marks.items()}))


def _codes(characters: dict[str, str]) -> _Characters:
    return {ord(character): text for character, text in characters.items()}


class FitSummary(_Base):  # type: ignore[misc]
    """The tables of ``summary()``."""

    def as_latex(self) -> str:
        """Return the tables and notes as LaTeX."""
        return _rendered(_Base.as_latex, self, _LATEX, _LATEX_NOTES)

    def as_html(self) -> str:
        """Return the tables and notes as HTML."""
        return _rendered(_Base.as_html, self, _HTML, _HTML)

    def with_texts(self, in_cells: _Characters, in_notes: _Characters) -> FitSummary:
        """Return the same tables and notes with some characters in the place of others."""
        copied = copy.deepcopy(self)
        for table in copied.tables:
            table.title = _translated(table.title, in_cells)
            for cell in (cell for row in table for cell in row):
                cell.data = _translated(cell.data, in_cells)
        copied.extra_txt = _translated(copied.extra_txt, in_notes)
        return copied


class FitSummary2(_Base2):  # type: ignore[misc]
    """The tables of ``summary2()``."""

    def as_latex(self, label: str = "") -> str:
        """Return the tables and notes as LaTeX.

        Parameters
        ----------
        label : str
            Label to refer to the table by.
        """
        return _rendered(_Base2.as_latex, self, _LATEX, _LATEX_NOTES, label=label)

    def as_html(self) -> str:
        """Return the tables and notes as HTML."""
        return _rendered(_Base2.as_html, self, _HTML, _HTML)

    def with_texts(self, in_cells: _Characters, in_notes: _Characters) -> FitSummary2:
        """Return the same tables and notes with some characters in the place of others."""
        copied = copy.copy(self)
        copied.tables = [
            table.map(_translated, characters=in_cells).rename(
                index=lambda name: _translated(name, in_cells),
                columns=lambda name: _translated(name, in_cells),
            )
            for table in self.tables
        ]
        copied.extra_txt = [_translated(text, in_notes) for text in self.extra_txt]
        return copied


def _translated(value: Any, characters: _Characters) -> Any:
    """Return a text with other characters, and what is no text as it is."""
    return value.translate(characters) if isinstance(value, str) else value
