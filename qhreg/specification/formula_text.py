"""The text of a formula: what it mentions, and errors that say what is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from qhreg.exceptions import DataError

__all__ = ["check_formula", "mentions", "reject_dates", "stands_alone", "unknown_names_told"]

SHOWN = 30
"""Columns that a message lists."""

_QUOTED = re.compile(r"""\bQ\(\s*(['"])(.*?)\1\s*\)""")
_MARKED = re.compile("['`\"](.+)['`\"]")


def check_formula(formula: Any, data: Any) -> None:
    """Raise a DataError when formula and data are exchanged, or when a text is no formula.

    Parameters
    ----------
    formula : str or formula object
        The formula.
    data : object
        The data.
    """
    if isinstance(data, str):
        if not isinstance(formula, str) or "~" in data:
            raise DataError(
                'the formula comes first, then the data, as in from_formula("y ~ x", data); got a '
                f"{type(formula).__name__} and the text {data!r}"
            )
        raise DataError(f"data must be a DataFrame or a dict of columns, got the text {data!r}")
    if formula is None or isinstance(formula, str):
        left, _, right = (formula or "").partition("~")
        if not (left.strip() and right.strip()):
            raise DataError(
                f'a formula has the form "y ~ x", or "y ~ 1" for a constant alone; got {formula!r}'
            )


def mentions(formula: Any, name: Any) -> bool:
    """Return whether the text of a formula has a name in it as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(str(name))}(?!\w)", str(formula)) is not None


def stands_alone(formula: Any, name: Any) -> bool:
    """Return whether a name is a variable of a formula by itself, not within a call like C(name).

    Examples
    --------
    >>> from qhreg.specification.formula_text import stands_alone
    >>> stands_alone("y ~ (x + day) * z", "day"), stands_alone("y ~ C(day) + day.dt.year", "day")
    (True, False)
    """
    text = _QUOTED.sub(r"\2", str(formula))
    outside: list[str] = []
    calls: list[bool] = []  # whether each open bracket belongs to a call, or lies within one
    for place, mark in enumerate(text):
        if mark in "([":
            called = re.search(r"[\w)\]]$", text[:place].rstrip()) is not None
            calls.append(called or (bool(calls) and calls[-1]))
        elif mark in ")]" and calls:
            calls.pop()
        elif not (calls and calls[-1]):
            outside.append(mark)
    found = rf"(?<![\w.]){re.escape(str(name))}(?![\w.])"
    return re.search(found, "".join(outside)) is not None


def reject_dates(formula: Any, frame: pd.DataFrame) -> None:
    """Raise a DataError for dates as they are: patsy makes categories of them, formulaic nothing."""
    for name, dtype in frame.dtypes.items():
        if pd.api.types.is_datetime64_any_dtype(dtype) and stands_alone(formula, name):
            raise DataError(
                f"the column {name!r} holds dates, which are no numbers: make a column of numbers, "
                f"such as (data[{name!r}] - data[{name!r}].min()).dt.days, or write C({name}) for a "
                f"category for each of the {frame[name].nunique()} dates"
            )


@contextmanager
def unknown_names_told(formula: Any, columns: Sequence[Any]) -> Iterator[None]:
    """Turn what a formula engine raises for a name it does not find into a DataError.

    Parameters
    ----------
    formula : str or formula object
        The formula.
    columns : sequence
        The columns of the data.
    """
    try:
        yield
    except Exception as error:  # each engine has errors of its own
        name = _unknown_name(error)
        if name is None or name in columns or not mentions(formula, name):
            raise
        raise DataError(
            _unknown(name, str(formula), [str(column) for column in columns])
        ) from error


def _unknown_name(error: BaseException | None) -> str | None:
    """Return the name that was not found, from the chain of causes."""
    while error is not None:
        if isinstance(error, NameError):
            said = _MARKED.search(str(error))
            return said[1] if said else None
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
            return error.args[0]
        error = error.__cause__ or error.__context__
    return None


def _unknown(name: str, formula: str, columns: list[str]) -> str:
    """Return what to say of a name that is neither a column nor known to the caller."""
    if name == "np":
        return (
            "the formula uses np, which is not there: import numpy as np where the model is built"
        )
    if re.search(rf"(?<!\w){re.escape(name)}\s*\(", formula):
        # np.poly, for one, is another function than what formulas elsewhere call poly
        of_numpy = isinstance(getattr(np, name, None), np.ufunc) or name in (
            "clip",
            "round",
            "where",
        )
        instead = f": write np.{name}" if of_numpy else " where the model is built"
        return f"there is no function {name!r}{instead}"
    close = difflib.get_close_matches(name, columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
    return f"there is no column {name!r}; the columns are {', '.join(columns[:SHOWN])}{more}{hint}"
