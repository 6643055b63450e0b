"""How a frame of the data becomes rows: by the names of its columns, as the formula says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import patsy

from qhreg._typing import BoolArray, FloatArray
from qhreg.exceptions import DataError, MissingValuesError
from qhreg.partitions.rows import Part
from qhreg.specification.formulas import (
    dump_spec,
    load_spec,
    mentions,
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
        frame = to_pandas(data)
        require_columns(frame, self.columns, name)
        gaps = _Gaps()
        infos = {**self.left.factor_infos, **self.right.factor_infos}
        left, right = _terms_of(self.left), _terms_of(self.right)
        frame = ready(frame, infos, name, coded=left is None or right is None)
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
        return Part(x, y, **extras, groups=groups, number=number, name=name, left_out=left_out)

    def _by_patsy(
        self, frame: pd.DataFrame, name: str, gaps: _Gaps
    ) -> tuple[FloatArray, FloatArray]:
        """Return response and regressors of a frame, rows with missing values as they come."""
        try:
            left, right = patsy.build_design_matrices([self.left, self.right], frame, gaps)
        except (patsy.PatsyError, TypeError, ValueError) as error:
            raise DataError(f"{name}: {first_line(error)}") from error
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


def first_line(error: BaseException) -> str:
    """Return the first line of what an engine said."""
    return str(error).partition("\n")[0]


def require_columns(frame: Any, columns: Sequence[str], name: str) -> None:
    """Raise a DataError that names the columns which a partition lacks."""
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
    bad = [column for j, column in enumerate(names) if not np.isfinite(values[:, j]).all()]
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
    if isinstance(info.factor, patsy.LookupFactor):
        return str(info.factor.name())
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


def ready(
    frame: pd.DataFrame, infos: Mapping[Any, Any], name: str, *, coded: bool = True
) -> pd.DataFrame:
    """Return a frame whose columns hold what they hold elsewhere, or raise a DataError.

    `coded` gives categories the levels of the design.
    """
    changed: dict[str, Any] = {}
    for info in infos.values():
        column = _column_of(info)
        if column is None or column not in frame.columns:
            continue
        values = frame[column]
        if info.type == "categorical":
            alone = sum(mentions(each.factor.name(), column) for each in infos.values()) == 1
            if coded and alone and not pd.api.types.is_bool_dtype(values.dtype):
                changed[column] = _with_levels(values, info.categories, name)
        elif not pd.api.types.is_numeric_dtype(values.dtype):
            if values.notna().any():
                raise DataError(
                    f"{name}: column {column!r} holds {kind_of(values)}, and numbers elsewhere"
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
