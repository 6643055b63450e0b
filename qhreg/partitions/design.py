"""The design of a formula on data in partitions, the same for all of them.

Which levels a category has, and what the transforms of a formula remember, is a fact of all rows. Of
each partition the few rows that show its levels are enough to know them all: a design made of these
rows is that of all. Transforms that remember sums or quantiles of a column (``center``, ``bs``) need a
pass of their own over all rows, by patsy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import patsy

from qhreg._typing import BoolArray, FloatArray
from qhreg.exceptions import DataError, MissingValuesError
from qhreg.partitions.rows import Part
from qhreg.specification.alignment import numeric_vector, to_pandas
from qhreg.specification.formulas import (
    check_formula,
    dump_spec,
    formula_frame,
    load_spec,
    mentions,
    unknown_names_told,
)
from qhreg.specification.observations import Observations

__all__ = ["Design", "Frames", "RowColumns", "design_of"]


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


class RowColumns(NamedTuple):
    """The columns of the data with weights, offset and groups of the rows."""

    freq_weights: str | None = None
    weights: str | None = None
    offset: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are there."""
        found = (self.freq_weights, self.weights, self.offset)
        return (*(name for name in found if name is not None), *self.groups)


NO_EXTRAS = RowColumns()
"""Rows of weight one, without offset and groups."""


@dataclass(frozen=True)
class Design:
    """How a frame of the data becomes rows: by the names of its columns, and picklable.

    Attributes
    ----------
    formula : str
        The formula.
    left, right : patsy.DesignInfo
        Response and regressors, with what they remember of all rows.
    namespace : dict
        Other names in the formula.
    columns : tuple of str
        The columns of the data that are read.
    extras : RowColumns
        Columns of weights, offset and groups.
    missing : {"drop", "raise"}
        What to do with rows that have a missing value.
    """

    formula: str
    left: patsy.DesignInfo
    right: patsy.DesignInfo
    namespace: dict[str, Any]
    columns: tuple[str, ...]
    extras: RowColumns = NO_EXTRAS
    missing: str = "drop"

    @property
    def endog_name(self) -> str:
        """Name of the response."""
        return str(self.left.column_names[0])

    @property
    def exog_names(self) -> list[str]:
        """Names of the regressors."""
        return [str(name) for name in self.right.column_names]

    def with_groups(self, groups: tuple[str, ...]) -> Design:
        """Return the design with other columns of groups."""
        extras = self.extras._replace(groups=groups)
        kept = [name for name in self.columns if name not in self.extras.names]
        used = [name for name in self.columns if mentions(self.formula, name)]
        return replace(
            self, extras=extras, columns=tuple(dict.fromkeys([*kept, *used, *extras.names]))
        )

    def part(self, data: Any, name: str = "", number: int = 0) -> Part:
        """Return the rows of one partition.

        Parameters
        ----------
        data : DataFrame, Arrow table or batch, or other frame
            The partition, its columns in any order.
        name : str
            What messages call it.
        number : int
            Its place among the partitions.
        """
        frame = to_pandas(data)
        _require_columns(frame, self.columns, name)
        gaps = _Gaps()
        frame = _ready(frame, {**self.left.factor_infos, **self.right.factor_infos}, name)
        left, right = _terms_of(self.left), _terms_of(self.right)
        if left is not None and right is not None:
            y, x = _columns(frame, left, gaps, name)[:, 0], _columns(frame, right, gaps, name)
        else:
            y, x = self._by_patsy(frame, name, gaps)
        extras = {
            key: numeric_vector(f"{name}: {column}", frame[column])
            for key, column in zip(self.extras._fields[:3], self.extras[:3], strict=True)
            if column is not None
        }
        for key, values in extras.items():
            gaps.add(np.isnan(values), getattr(self.extras, key))
        if gaps.names and self.missing == "raise":
            raise MissingValuesError(
                f'{name}: missing values in {", ".join(gaps.names)}, and missing="raise"'
            )
        kept = np.ones(len(frame), dtype=bool) if gaps.mask is None else ~gaps.mask
        left_out = int(np.count_nonzero(~kept))
        for key in ("freq_weights", "weights"):
            if key in extras:
                _check_weights(extras[key][kept], getattr(self.extras, key), name, key)
                kept &= extras[key] > 0.0
        groups = tuple(frame[column].to_numpy() for column in self.extras.groups)
        if not kept.all():
            x, y = x[kept], y[kept]
            extras = {key: values[kept] for key, values in extras.items()}
            groups = tuple(labels[kept] for labels in groups)
        _require_finite(x, self.exog_names, name)
        _require_finite(y[:, None], [self.endog_name], name)
        for column, labels in zip(self.extras.groups, groups, strict=True):
            if pd.isna(labels).any():
                raise DataError(f"{name}: the column of groups {column!r} has missing labels")
        observations = Observations(
            x, y, extras.get("offset"), extras.get("freq_weights"), extras.get("weights")
        )
        return Part(observations, groups, number, name, left_out)

    def _by_patsy(
        self, frame: pd.DataFrame, name: str, gaps: _Gaps
    ) -> tuple[FloatArray, FloatArray]:
        """Return response and regressors of a frame, rows with missing values as they come."""
        try:
            with unknown_names_told(self.formula, list(frame.columns)):
                left, right = patsy.build_design_matrices([self.left, self.right], frame, gaps)
        except (patsy.PatsyError, TypeError, ValueError) as error:
            raise DataError(f"{name}: {_said(error)}") from error
        return np.asarray(left, dtype=np.float64)[:, 0], np.asarray(right, dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        specs = (state.pop("left"), state.pop("right"))
        return {**state, "namespace": None, "specs": dump_spec(specs, self.namespace)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        (left, right), namespace = load_spec(state.pop("specs"))
        self.__dict__.update(state, left=left, right=right, namespace=namespace)


class _Gaps(patsy.NAAction):  # type: ignore[misc]
    """Which rows have missing values, and where; rows stay, and are left out by who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: BoolArray | None = None
        self.names: list[str] = []

    def add(self, gaps: BoolArray, name: str) -> None:
        """Add the rows in which a column is missing."""
        if gaps.any():
            self.mask = np.asarray(gaps if self.mask is None else self.mask | gaps)
            self.names.append(str(name))

    def handle_NA(self, values: Any, is_NAs: Any, origins: Any) -> Any:
        """Note the gaps; called by patsy."""
        for gaps, origin in zip(is_NAs, origins, strict=True):
            code = origin.code[origin.start : origin.end] if origin is not None else "a term"
            self.add(np.asarray(gaps), code)
        return values


def _said(error: BaseException) -> str:
    """Return the first line of what an engine said."""
    return str(error).partition("\n")[0]


def _require_columns(frame: Any, columns: Sequence[str], name: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise DataError(
            f"{name}: there is no column {', '.join(map(repr, missing))}; the columns are "
            f"{', '.join(map(str, frame.columns))}"
        )


def _require_finite(values: FloatArray, names: Sequence[str], name: str) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = [names[j] for j in np.flatnonzero(~np.isfinite(values).all(axis=0))]
    if bad:
        raise DataError(f"{name}: infinite values in {', '.join(bad)}; remove these rows")


def _check_weights(weights: FloatArray, column: str, name: str, kind: str) -> None:
    if float(weights.min(initial=0.0)) < 0.0:
        raise DataError(f"{name}: the {kind} in {column!r} must not be negative")
    if kind == "freq_weights" and bool((weights != np.round(weights)).any()):
        raise DataError(
            f"{name}: freq_weights count observations and must be whole numbers; give those in "
            f"{column!r} as weights"
        )


_COLUMN = re.compile(r"([^\W\d]\w*)|C\(\s*([^\W\d]\w*)\s*(?:,.*)?\)")


def _column_of(info: Any) -> str | None:
    """Return the column that a factor is, as it is or as ``C(column, ...)``; None for another one."""
    found = _COLUMN.fullmatch(info.factor.name())
    return None if found is None else str(found[1] or found[2])


class _Term(NamedTuple):
    """A term that is a column: the constant (None), numbers, or a category with its coding."""

    column: str | None
    levels: Sequence[Any] = ()
    coding: FloatArray = np.ones((1, 1))


def _terms_of(spec: patsy.DesignInfo) -> list[_Term] | None:
    """Return the terms of a design where each is a column by itself, else None."""
    terms = []
    for term, (first, *more) in spec.term_codings.items():
        if more or len(term.factors) > 1:
            return None
        if not term.factors:
            terms.append(_Term(None))
            continue
        info = spec.factor_infos[term.factors[0]]
        column = _column_of(info)
        if column is None or (info.num_columns or 1) > 1:
            return None
        if info.type == "numerical":
            terms.append(_Term(column))
        else:
            coding = first.contrast_matrices[term.factors[0]].matrix
            terms.append(_Term(column, info.categories, coding))
    return terms


def _columns(frame: pd.DataFrame, terms: list[_Term], gaps: _Gaps, name: str) -> FloatArray:
    """Return the design of terms that are columns."""
    matrix = np.empty((len(frame), sum(term.coding.shape[1] for term in terms)), order="F")
    end = 0
    for column, levels, coding in terms:
        start, end = end, end + coding.shape[1]
        if column is None:
            matrix[:, start] = 1.0
        elif levels:
            codes = _with_levels(frame[column], levels, name).cat.codes.to_numpy()
            gaps.add(codes < 0, column)
            matrix[:, start:end] = coding[codes]
        else:
            matrix[:, start] = frame[column].to_numpy(np.float64, na_value=np.nan)
            gaps.add(np.isnan(matrix[:, start]), column)
    return matrix


def _ready(frame: pd.DataFrame, infos: Mapping[Any, Any], name: str) -> pd.DataFrame:
    """Return a frame whose columns hold what they hold elsewhere, or raise a DataError."""
    changed: dict[str, Any] = {}
    for info in infos.values():
        column = _column_of(info)
        if column is None or column not in frame.columns:
            continue
        values = frame[column]
        if info.type == "categorical":
            alone = sum(mentions(each.factor.name(), column) for each in infos.values()) == 1
            if alone and not pd.api.types.is_bool_dtype(values.dtype):
                changed[column] = _with_levels(values, info.categories, name)
        elif not pd.api.types.is_numeric_dtype(values.dtype):
            if values.notna().any():
                raise DataError(
                    f"{name}: column {column!r} holds {_kind(values)}, and numbers elsewhere"
                )
            changed[column] = np.nan
    return frame.assign(**changed) if changed else frame


def _with_levels(column: pd.Series[Any], levels: Sequence[Any], name: str) -> pd.Series[Any]:
    """Return a column as a category with given levels, or raise a DataError for another one."""
    kept = pd.CategoricalDtype(list(levels))
    # categories in another order would count as the same type
    held = isinstance(column.dtype, pd.CategoricalDtype)
    coded = column.cat.set_categories(kept.categories) if held else column.astype(kept)
    unseen = coded.isna() & column.notna()
    if unseen.any():
        raise DataError(
            f"{name}: column {column.name!r} has {column[unseen].iloc[0]!r}, a level that the rest of "
            "the data do not have"
        )
    return coded


# ---------------------------------------------------------------------- the first pass


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
    _require_columns(pd.DataFrame(columns=known), extras.names, "the data")
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

        def ready() -> Iterator[pd.DataFrame]:
            return (_ready(frame, infos, "the data") for frame in frames.frames(used) or ())

        left, right = _specs(formula, ready, names, known)
    if len(left.column_names) != 1:
        raise DataError(
            f"the response must be one column of numbers, got {', '.join(left.column_names)}"
        )
    columns = tuple(dict.fromkeys([*used, *extras.names]))
    return Design(formula, left, right, names, columns, extras, missing)


def _specs(
    formula: str, chunks: Callable[[], Any], namespace: dict[str, Any], columns: Sequence[str]
) -> tuple[patsy.DesignInfo, patsy.DesignInfo]:
    """Return the designs of both sides, from frames of which patsy sees one at a time."""
    env = patsy.EvalEnvironment([namespace])
    try:
        with unknown_names_told(formula, list(columns)):
            left, right = patsy.incr_dbuilders(formula, chunks, env)
    except patsy.PatsyError as error:
        raise DataError(_said(error)) from error
    return left, right


def _telling(
    data: Any, name: str, formula: str, namespace: dict[str, Any], columns: Sequence[str]
) -> _Seen:
    """Return the rows of a frame that show its levels, and some."""
    frame = formula_frame(data, formula).reset_index(drop=True)
    empty = [column for column in frame.columns if not frame[column].notna().any()]
    kinds = {str(c): (_kind(frame[c]), name) for c in frame.columns if c not in empty}
    if frame.empty:
        return _Seen(frame, {})
    frame = frame.assign(**dict.fromkeys(empty, np.nan))  # no texts, though of any type
    first = frame.bfill().iloc[:2]  # a value of each column
    rows = [np.arange(len(first))]
    for spec in _specs(formula, lambda: iter([first]), namespace, columns):
        for factor, info in spec.factor_infos.items():
            if info.type == "categorical":
                values = factor.eval(info.state, frame)
                labels = values.data if hasattr(values, "contrast") else values  # of C(...)
                rows.append(np.flatnonzero(~pd.Series(np.asarray(labels)).duplicated()))
    return _Seen(frame.iloc[np.unique(np.concatenate(rows))], kinds)


def _combined(
    formula: str, namespace: dict[str, Any], columns: Sequence[str], parts: list[_Seen]
) -> _Seen:
    """Return the rows of several partitions, or raise a DataError where a column is of two kinds."""
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


def _kind(column: pd.Series[Any]) -> str:
    """Return what a column holds, in a word."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "booleans"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numbers"
    return "dates" if pd.api.types.is_datetime64_any_dtype(dtype) else "text"
