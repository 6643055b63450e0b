"""How frames of the data become rows: the design of a formula, the same for all partitions.

Which levels a category has, and what the transforms of a formula remember, is a fact of all rows. Of
each partition the few rows that show its levels are enough to know them all: a design made of these
rows is that of all. Transforms that remember sums or quantiles of a column (``center``, ``bs``) need a
pass of their own over all rows, by patsy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import patsy
from patsy.categorical import guess_categorical

from qhreg._typing import BoolArray, FloatArray
from qhreg.exceptions import DataError, MissingValuesError
from qhreg.partitions.rows import Part
from qhreg.specification.formulas import (
    check_formula,
    dump_spec,
    formula_frame,
    load_spec,
    mentions,
    unknown_names_told,
)
from qhreg.specification.inputs import numeric_vector, to_pandas


class RowColumns(NamedTuple):
    """The columns of the data with weights, offset and groups of the rows."""

    freq_weights: str | None = None
    weights: str | None = None
    offset: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are there."""
        columns = (self.freq_weights, self.weights, self.offset)
        return (*(name for name in columns if name is not None), *self.groups)


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
    n_rows : int or None
        Rows of the data, those with missing values included, where they were counted.
    """

    formula: str
    left: patsy.DesignInfo
    right: patsy.DesignInfo
    namespace: dict[str, Any]
    columns: tuple[str, ...]
    extras: RowColumns = NO_EXTRAS
    missing: str = "drop"
    n_rows: int | None = None

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
        used = [name for name in self.columns if mentions(self.formula, name)]
        return replace(self, extras=extras, columns=tuple(dict.fromkeys([*used, *extras.names])))

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
        with _named(name):
            return self._part(to_pandas(data), number)

    def _part(self, frame: pd.DataFrame, number: int) -> Part:
        require_columns(list(frame.columns), self.columns)
        gaps = _Gaps()
        left, right = _terms_of(self.left), _terms_of(self.right)
        if left is None or right is None:
            y, x = self._by_patsy(frame, gaps)
        else:
            frame = ready(frame, self._factors, coded=False)
            y, x = _columns(frame, left, gaps), _columns(frame, right, gaps)
        extras = {
            key: numeric_vector(column, frame[column])
            for key, column in zip(self.extras._fields[:3], self.extras[:3], strict=True)
            if column is not None
        }
        for key, values in extras.items():
            gaps.add(np.isnan(values), getattr(self.extras, key))
        if gaps.names and self.missing == "raise":
            raise MissingValuesError(
                f'missing values in {", ".join(gaps.names)}, and missing="raise"'
            )
        kept = np.ones(len(frame), dtype=bool) if gaps.mask is None else ~gaps.mask
        left_out = int(np.count_nonzero(~kept))
        for key in ("freq_weights", "weights"):
            if key in extras:
                _check_weights(extras[key][kept], getattr(self.extras, key), key)
                kept &= extras[key] > 0.0
        groups = tuple(frame[column].to_numpy() for column in self.extras.groups)
        if not kept.all():
            x, y = x[kept], y[kept]
            extras = {key: values[kept] for key, values in extras.items()}
            groups = tuple(labels[kept] for labels in groups)
        _require_finite(x, self.exog_names)
        _require_finite(y, [self.endog_name])
        for column, labels in zip(self.extras.groups, groups, strict=True):
            if pd.isna(labels).any():
                raise DataError(f"the column of groups {column!r} has missing labels")
        return Part(x, y[:, 0], **extras, groups=groups, number=number, left_out=left_out)

    @property
    def _factors(self) -> dict[Any, Any]:
        """What patsy knows of the factors of both sides."""
        return {**self.left.factor_infos, **self.right.factor_infos}

    def _by_patsy(self, frame: pd.DataFrame, gaps: _Gaps) -> list[FloatArray]:
        """Return response and regressors of a frame, rows with missing values as rows of NaN."""
        frame, sides = ready(frame, self._factors), [self.left, self.right]
        try:
            matrices = patsy.build_design_matrices(sides, frame, gaps)
        except (patsy.PatsyError, TypeError, ValueError) as error:
            raise DataError(first_line(error)) from error
        if gaps.mask is None:
            return [np.asarray(each, dtype=np.float64) for each in matrices]
        rows = [np.full((len(frame), each.shape[1]), np.nan) for each in matrices]
        for each, complete in zip(rows, matrices, strict=True):
            each[~gaps.mask] = complete
        return rows

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        specs = (state.pop("left"), state.pop("right"))
        return {**state, "namespace": None, "specs": dump_spec(specs, self.namespace)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        (left, right), namespace = load_spec(state.pop("specs"))
        self.__dict__.update(state, left=left, right=right, namespace=namespace)


class _Gaps(patsy.NAAction):  # type: ignore[misc]
    """Which rows have missing values, and where; patsy makes no design of them."""

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
        """Note the gaps and leave them out; called by patsy."""
        for gaps, origin in zip(is_NAs, origins, strict=True):
            code = origin.code[origin.start : origin.end] if origin is not None else "a term"
            self.add(np.asarray(gaps), code)
        return values if self.mask is None else super().handle_NA(values, is_NAs, origins)


def first_line(error: BaseException) -> str:
    """Return the first line of what an engine said."""
    return str(error).partition("\n")[0]


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say in which partition the data are wrong."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{name}: {error}") from error


def require_columns(known: Sequence[Any], columns: Sequence[str]) -> None:
    """Raise a DataError that names the columns which a partition lacks."""
    missing = [column for column in columns if column not in known]
    if missing:
        raise DataError(
            f"there is no column {', '.join(map(repr, missing))}; the columns are "
            f"{', '.join(map(str, known))}"
        )


def _require_finite(values: FloatArray, names: Sequence[str]) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = [column for j, column in enumerate(names) if not np.isfinite(values[:, j]).all()]
    if bad:
        raise DataError(f"infinite values in {', '.join(bad)}; remove these rows")


def _check_weights(weights: FloatArray, column: str, kind: str) -> None:
    if float(weights.min(initial=0.0)) < 0.0:
        raise DataError(f"the {kind} in {column!r} must not be negative")
    if kind == "freq_weights" and bool((weights != np.round(weights)).any()):
        raise DataError(
            f"freq_weights count observations and must be whole numbers; give those in "
            f"{column!r} as weights"
        )


_COLUMN = re.compile(r"([^\W\d]\w*)|C\(\s*([^\W\d]\w*)\s*(?:,.*)?\)")


def _column_of(info: Any) -> str | None:
    """Return the column that a factor is, as it is or as ``C(column, ...)``; None for another one."""
    if isinstance(info.factor, patsy.LookupFactor):
        return str(info.factor.name())
    match = _COLUMN.fullmatch(info.factor.name())
    return None if match is None else str(match[1] or match[2])


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


def _columns(frame: pd.DataFrame, terms: list[_Term], gaps: _Gaps) -> FloatArray:
    """Return the design of terms that are columns."""
    matrix = np.empty((len(frame), sum(term.coding.shape[1] for term in terms)), order="F")
    end = 0
    for column, levels, coding in terms:
        start, end = end, end + coding.shape[1]
        if column is None:
            matrix[:, start] = 1.0
        elif levels:
            codes = _with_levels(frame[column], levels).cat.codes.to_numpy()
            gaps.add(codes < 0, column)
            matrix[:, start:end] = coding[codes]
        else:
            matrix[:, start] = frame[column].to_numpy(np.float64, na_value=np.nan)
            gaps.add(np.isnan(matrix[:, start]), column)
    return matrix


def ready(frame: pd.DataFrame, factors: Mapping[Any, Any], *, coded: bool = True) -> pd.DataFrame:
    """Return a frame whose columns hold what they hold elsewhere, or raise a DataError.

    `coded` gives categories the levels of the design.
    """
    changed: dict[str, Any] = {}
    for info in factors.values():
        column = _column_of(info)
        if column is None or column not in frame.columns:
            continue
        values = frame[column]
        if info.type == "categorical":
            alone = sum(mentions(each.factor.name(), column) for each in factors.values()) == 1
            if coded and alone and not pd.api.types.is_bool_dtype(values.dtype):
                changed[column] = _with_levels(values, info.categories)
        elif not pd.api.types.is_numeric_dtype(values.dtype):
            if values.notna().any():
                raise DataError(f"column {column!r} holds {kind_of(values)}, and numbers elsewhere")
            changed[column] = np.nan
    return frame.assign(**changed) if changed else frame


def _with_levels(column: pd.Series[Any], levels: Sequence[Any]) -> pd.Series[Any]:
    """Return a column as a category with given levels, or raise a DataError for another one."""
    kept = pd.CategoricalDtype(list(levels))
    # categories in another order would count as the same type
    held = isinstance(column.dtype, pd.CategoricalDtype)
    coded = column.cat.set_categories(kept.categories) if held else column.astype(kept)
    unseen = coded.isna() & column.notna()
    if unseen.any():
        raise DataError(
            f"column {column.name!r} has {column[unseen].iloc[0]!r}, a level that the rest of "
            "the data do not have"
        )
    return coded


def kind_of(column: pd.Series[Any]) -> str:
    """Return what a column holds, in a word."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "booleans"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numbers"
    return "dates" if pd.api.types.is_datetime64_any_dtype(dtype) else "text"


# ---------------------------------------------------------------------- the first pass


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
    """Rows of some partitions that show all their levels, what their columns hold, how many all are."""

    frame: pd.DataFrame
    kinds: dict[str, tuple[str, str]]
    n_rows: int


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
    known, names = list(frames.columns), dict(namespace or {})
    used = [column for column in known if mentions(formula, column)]
    with _named("the data"):
        require_columns(known, extras.names)
    first = _FirstPass(formula, names, known)
    seen: _Seen = frames.reduce(used, first.telling, first.combined)
    left, right = first.specs(lambda: iter([seen.frame]))
    factors = {**left.factor_infos, **right.factor_infos}
    remembering = [factor for factor, info in factors.items() if info.state.get("transforms")]
    if remembering:
        if frames.frames(used) is None:
            raise DataError(
                f"{remembering[0].name()} remembers numbers of all rows, which do not come here: make "
                "a column of it first, or stream the files by qhreg.stream"
            )
        left, right = first.specs(
            lambda: (ready(frame, factors) for frame in frames.frames(used) or ())
        )
    if len(left.column_names) != 1:
        raise DataError(
            f"the response must be one column of numbers, got {', '.join(left.column_names)}"
        )
    columns = tuple(dict.fromkeys([*used, *extras.names]))
    return Design(formula, left, right, names, columns, extras, missing, seen.n_rows)


@dataclass(frozen=True)
class _FirstPass:
    """What is looked for in every partition: levels and kinds of the columns of a formula."""

    formula: str
    namespace: dict[str, Any]
    columns: Sequence[str]

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Turn what patsy raises into a DataError."""
        try:
            with unknown_names_told(self.formula, self.columns):
                yield
        except patsy.PatsyError as error:
            raise DataError(first_line(error)) from error

    def specs(self, chunks: Callable[[], Any]) -> tuple[patsy.DesignInfo, patsy.DesignInfo]:
        """Return the designs of both sides, from frames of which patsy sees one at a time."""
        namespace = patsy.EvalEnvironment([self.namespace])
        with self._errors_told():
            left, right = patsy.incr_dbuilders(self.formula, chunks, namespace)
        return left, right

    def telling(self, data: Any, name: str) -> _Seen:
        """Return the rows of a frame that show its levels, and some."""
        with _named(name):
            used = [column for column in self.columns if mentions(self.formula, column)]
            require_columns(list(data.columns), used)
            frame = formula_frame(data, self.formula).reset_index(drop=True)
        empty = [column for column in frame.columns if not frame[column].notna().any()]
        kinds = {str(c): (kind_of(frame[c]), name) for c in frame.columns if c not in empty}
        if frame.empty:
            return _Seen(frame, {}, 0)
        frame = frame.assign(**dict.fromkeys(empty, np.nan))  # no texts, though of any type
        rows, namespace = [np.arange(min(len(frame), 2))], patsy.EvalEnvironment([self.namespace])
        with self._errors_told():
            parsed = patsy.ModelDesc.from_formula(self.formula)
            terms = parsed.lhs_termlist + parsed.rhs_termlist
            for factor in {factor for term in terms for factor in term.factors}:
                state: dict[str, Any] = {}
                if factor.memorize_passes_needed(state, namespace):
                    continue  # a pass over all rows finds its levels too
                values = factor.eval(state, frame)
                if guess_categorical(values):
                    labels = values.data if hasattr(values, "contrast") else values  # of C(...)
                    rows.append(np.flatnonzero(~pd.Series(np.asarray(labels)).duplicated()))
        return _Seen(frame.iloc[np.unique(np.concatenate(rows))], kinds, len(frame))

    def combined(self, parts: list[_Seen]) -> _Seen:
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
        n_rows = sum(part.n_rows for part in parts)
        return self.telling(pd.concat(full), "the data")._replace(kinds=kinds, n_rows=n_rows)
