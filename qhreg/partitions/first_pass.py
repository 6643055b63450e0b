"""The design of a formula on data in partitions, the same for all of them.

Which levels a category has, and what the transforms of a formula remember, is a fact of all rows. Of
each partition the few rows that show its levels are enough to know them all: a design made of these
rows is that of all. Transforms that remember sums or quantiles of a column (``center``, ``bs``) need a
pass of their own over all rows, by patsy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import patsy
from patsy.categorical import guess_categorical

from qhreg.exceptions import DataError
from qhreg.partitions.design import (
    NO_EXTRAS,
    Design,
    RowColumns,
    first_line,
    kind_of,
    ready,
    require_columns,
)
from qhreg.specification.formulas import (
    check_formula,
    formula_frame,
    mentions,
    unknown_names_told,
)


class Frames(Protocol):
    """Data in partitions as frames: pandas DataFrames with the columns that are asked for."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns there are."""
        ...

    def reduce(
        self,
        columns: Sequence[str],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(frame, name, *args)``, name that of the partition."""
        ...

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame] | None:
        """Iterate over the partitions here, or None where they do not come here."""
        ...


class _Seen(NamedTuple):
    """Rows of some partitions that show all their levels, and what their columns hold."""

    frame: pd.DataFrame
    kinds: dict[str, tuple[str, str]]


def design_of(
    formula: str,
    frames: Frames,
    namespace: Mapping[str, Any] | None = None,
    extras: RowColumns = NO_EXTRAS,
    missing: str = "drop",
) -> Design:
    """Return the design of a formula on data in partitions.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ x + C(region)"``.
    frames : Frames
        The data.
    namespace : mapping, optional
        Other names in the formula.
    extras : RowColumns
        Columns of weights, offset and groups.
    missing : {"drop", "raise"}
        What to do with rows that have a missing value.
    """
    check_formula(formula, None)
    if missing not in ("drop", "raise"):
        raise DataError(f"missing must be 'drop' or 'raise', got {missing!r}")
    known = list(frames.columns)
    names = dict(namespace or {})
    used = [column for column in known if mentions(formula, column)]
    require_columns(pd.DataFrame(columns=known), extras.names, "the data")
    combine = partial(_combined, formula, names, known)
    seen: _Seen = frames.reduce(used, _telling, combine, formula, names, known)
    left, right = _specs(formula, lambda: iter([seen.frame]), names, known)
    remembering = [
        factor.name()
        for spec in (left, right)
        for factor, info in spec.factor_infos.items()
        if info.state.get("transforms")
    ]
    if remembering:
        if frames.frames(used) is None:
            raise DataError(
                f"{remembering[0]} remembers numbers of all rows, which do not come here: make a "
                "column of it first, or stream the files by qhreg.stream"
            )
        infos = {**left.factor_infos, **right.factor_infos}

        def coded() -> Iterator[pd.DataFrame]:
            return (ready(frame, infos, "the data") for frame in frames.frames(used) or ())

        left, right = _specs(formula, coded, names, known)
    if len(left.column_names) != 1:
        raise DataError(
            f"the response must be one column of numbers, got {', '.join(left.column_names)}"
        )
    columns = tuple(dict.fromkeys([*used, *extras.names]))
    return Design(formula, left, right, names, columns, extras, missing)


@contextmanager
def _errors_told(formula: str, columns: Sequence[str]) -> Iterator[None]:
    """Turn what patsy raises into a DataError."""
    try:
        with unknown_names_told(formula, columns):
            yield
    except patsy.PatsyError as error:
        raise DataError(first_line(error)) from error


def _specs(
    formula: str, chunks: Callable[[], Any], namespace: dict[str, Any], columns: Sequence[str]
) -> tuple[patsy.DesignInfo, patsy.DesignInfo]:
    """Return the designs of both sides, from frames of which patsy sees one at a time."""
    with _errors_told(formula, columns):
        left, right = patsy.incr_dbuilders(formula, chunks, patsy.EvalEnvironment([namespace]))
    return left, right


def _telling(
    data: Any, name: str, formula: str, namespace: dict[str, Any], columns: Sequence[str]
) -> _Seen:
    """Return the rows of a frame that show its levels, and some."""
    require_columns(data, [column for column in columns if mentions(formula, column)], name)
    try:
        frame = formula_frame(data, formula).reset_index(drop=True)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    empty = [column for column in frame.columns if not frame[column].notna().any()]
    kinds = {str(c): (kind_of(frame[c]), name) for c in frame.columns if c not in empty}
    if frame.empty:
        return _Seen(frame, {})
    frame = frame.assign(**dict.fromkeys(empty, np.nan))  # no texts, though of any type
    rows = [np.arange(min(len(frame), 2))]
    with _errors_told(formula, columns):
        parsed = patsy.ModelDesc.from_formula(formula)
        terms = parsed.lhs_termlist + parsed.rhs_termlist
        for factor in {factor for term in terms for factor in term.factors}:
            state: dict[str, Any] = {}
            if factor.memorize_passes_needed(state, patsy.EvalEnvironment([namespace])):
                continue  # a pass over all rows finds its levels too
            values = factor.eval(state, frame)
            if guess_categorical(values):
                labels = values.data if hasattr(values, "contrast") else values  # of C(...)
                rows.append(np.flatnonzero(~pd.Series(np.asarray(labels)).duplicated()))
    return _Seen(frame.iloc[np.unique(np.concatenate(rows))], kinds)


def _combined(
    formula: str, namespace: dict[str, Any], columns: Sequence[str], parts: list[_Seen]
) -> _Seen:
    """Return the rows of several partitions, or raise a DataError where a column is of two kinds."""
    if len(parts) == 1:
        return parts[0]
    kinds: dict[str, tuple[str, str]] = {}
    for part in parts:
        for column, (kind, name) in part.kinds.items():
            known, where = kinds.setdefault(column, (kind, name))
            if known != kind:
                raise DataError(
                    f"column {column!r} holds {known} in {where} and {kind} in {name}: make it one"
                )
    full = [part.frame for part in parts if not part.frame.empty] or [parts[0].frame]
    return _telling(pd.concat(full), "the data", formula, namespace, columns)._replace(kinds=kinds)
