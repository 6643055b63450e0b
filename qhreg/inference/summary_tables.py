"""Tables of statsmodels whose LaTeX and HTML hold any name and note.

statsmodels escapes some characters of the cells for LaTeX, none of the notes, and nothing for HTML: a
regressor called ``u^2`` or a note with an underscore does not compile, and ``age[T.<18]`` is a tag.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.summary2 import Summary as Summary2

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = Summary
_Base2: Any = Summary2

_BY_STATSMODELS = {
    "#": r"\#",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    ">": "$>$",
    "|": "$|$",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
}
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _written(text: str, marks: Mapping[str, str]) -> str:
    """Return a text with the marks in place of their characters."""
    return text.translate({ord(character): mark for character, mark in marks.items()})


def _places(marks: Mapping[str, str]) -> dict[str, str]:
    """Return a character of no meaning for each that is to be written as a mark."""
    return {character: chr(0xE000 + j) for j, character in enumerate(marks)}


def _hold(value: Any, marks: Mapping[str, str]) -> Any:
    """Return a text with placeholders, which statsmodels leaves alone, and other values as they are."""
    return _written(value, _places(marks)) if isinstance(value, str) else value


def _release(text: str, marks: Mapping[str, str]) -> str:
    """Return a finished table with the marks in place of the placeholders."""
    return _written(text, {place: marks[name] for name, place in _places(marks).items()})


class FitSummary(_Base):  # type: ignore[misc]
    """The tables of ``summary()``."""

    def as_latex(self) -> str:
        """Return the tables and notes as LaTeX."""
        return _release(_Base.as_latex(self._held(_LATEX, {**_BY_STATSMODELS, **_LATEX})), _LATEX)

    def as_html(self) -> str:
        """Return the tables and notes as HTML."""
        return _release(_Base.as_html(self._held(_HTML, _HTML)), _HTML)

    def _held(self, marks: Mapping[str, str], in_notes: Mapping[str, str]) -> Any:
        made = copy.deepcopy(self)
        for table in made.tables:
            table.title = _hold(table.title, marks)
            for cell in (cell for row in table for cell in row):
                cell.data = _hold(cell.data, marks)
        made.extra_txt = None if made.extra_txt is None else _written(made.extra_txt, in_notes)
        return made


class FitSummary2(_Base2):  # type: ignore[misc]
    """The tables of ``summary2()``."""

    def as_latex(self, label: str = "") -> str:
        """Return the tables and notes as LaTeX.

        Parameters
        ----------
        label : str
            Label to refer to the table by.
        """
        held = self._held(_LATEX, {**_BY_STATSMODELS, **_LATEX})
        return _release(_Base2.as_latex(held, label=label), _LATEX)

    def as_html(self) -> str:
        """Return the tables and notes as HTML."""
        return _release(_Base2.as_html(self._held(_HTML, _HTML)), _HTML)

    def _held(self, marks: Mapping[str, str], in_notes: Mapping[str, str]) -> Any:
        made = copy.copy(self)
        made.tables = [_held_frame(table, marks) for table in self.tables]
        made.extra_txt = [_written(text, in_notes) for text in self.extra_txt]
        return made


def _held_frame(table: pd.DataFrame, marks: Mapping[str, str]) -> pd.DataFrame:
    held = table.map(lambda value: _hold(value, marks))
    return held.set_axis([_hold(name, marks) for name in table.index], axis=0).set_axis(
        [_hold(name, marks) for name in table.columns], axis=1
    )
