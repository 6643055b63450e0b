"""Rows in partitions on Dask: sums are made where they are, and only the sums travel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from qhreg.dask.cluster import Cluster, Pieces, pieces_of
from qhreg.exceptions import DataError
from qhreg.partitions.design import Design
from qhreg.partitions.rows import (
    Part,
    PartitionedRows,
    combined_facts,
    facts_of,
    require_rows,
)
from qhreg.progress import with_progress


@dataclass(frozen=True)
class DaskFrames:
    """The partitions of one table on Dask; see :class:`qhreg.partitions.first_pass.Frames`.

    Attributes
    ----------
    table : dask DataFrame, or list of Delayed DataFrames
        One graph: partitions of frames made apart need not be of the same rows (dask#12193).
    columns : list of str
        The columns there are.
    cluster : Cluster
        Where tasks run.
    counts : list of int
        Numbers of rows that earlier passes saw.
    """

    table: Any
    columns: list[str]
    cluster: Cluster
    counts: list[int] = field(default_factory=list)

    def pieces(self, columns: Sequence[str]) -> list[Any]:
        """Return the partitions with some columns, each a Delayed DataFrame."""
        if isinstance(self.table, list):
            return self.table
        return list(self.table[list(columns)].to_delayed())

    def parts(self, design: Design) -> Pieces:
        """Return the partitions as tasks that make a :class:`qhreg.partitions.rows.Part` each."""
        return pieces_of(self.pieces(design.columns), _part, design)

    def reduce(
        self,
        columns: Sequence[str],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(frame, name, *args)`` over the partitions."""
        named = pieces_of(self.pieces(columns), _named)
        joined = partial(_counted, combine)
        value, count = self.cluster.reduce(named, _of_frame, joined, function, *args)
        self.counts.append(count)
        return value

    def frames(self, columns: Sequence[str]) -> None:
        """Return None: the rows stay where they are."""


def _named(frame: Any, shared: None, number: int) -> tuple[Any, str]:
    return frame, _name(number)


def _name(number: int) -> str:
    return f"partition {number}"


def _part(frame: Any, design: Design, number: int) -> Part:
    return design.part(frame, _name(number), number)


def _of_frame(named: tuple[Any, str], function: Callable[..., Any], *args: Any) -> tuple[Any, int]:
    return function(*named, *args), len(named[0])


def _counted(
    combine: Callable[[list[Any]], Any], parts: Sequence[tuple[Any, int]]
) -> tuple[Any, int]:
    values, counts = zip(*parts, strict=True)
    return combine(list(values)), sum(counts)


@dataclass(frozen=True)
class DaskRows(PartitionedRows):
    """Rows on Dask; see :class:`qhreg.partitions.rows.PartitionedRows`.

    Attributes
    ----------
    frames : DaskFrames
        The data.
    design : Design
        What makes rows of them.
    pieces : Pieces
        The partitions, kept in memory or read anew in each pass.
    passes : iterator
        Counts the passes.
    """

    frames: DaskFrames = field(kw_only=True, repr=False)
    design: Design = field(kw_only=True, repr=False)
    pieces: Pieces = field(kw_only=True, repr=False)
    passes: Iterator[int] = field(kw_only=True, repr=False)

    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        next(self.passes)
        full, joined = partial(_of_full, function), partial(_joined_full, combine)
        return self.frames.cluster.reduce(self.pieces, full, joined, *args)

    def grouped(self, groups: tuple[str, ...]) -> DaskRows:
        """Return the same rows with the labels of some columns as the groups of each part.

        For sums alone: with other columns Dask may cut the rows into other partitions.
        """
        design = self.design.with_groups(groups)
        return replace(self, design=design, pieces=self.frames.parts(design))

    def parts(self) -> Iterator[Part]:
        """Iterate over the partitions, on this machine."""
        for piece in self.frames.parts(self.design).lists:
            yield from (part for part in self.frames.cluster.compute(piece) if part.endog.size)


def dask_rows(
    frames: DaskFrames, design: Design, persist: bool | str = "auto", progress: bool = False
) -> DaskRows:
    """Return the rows, looked at once.

    Parameters
    ----------
    frames : DaskFrames
        The data.
    design : Design
        What makes rows of them.
    persist : {"auto", True, False}
        Whether to keep them in memory; "auto" does where they fit.
    progress : bool
        Whether to show a count of the passes.
    """
    if persist not in (True, False, "auto"):
        raise DataError(f"persist must be True, False or 'auto', got {persist!r}")
    cluster, pieces = frames.cluster, frames.parts(design)
    if persist == "auto":
        n = frames.counts[-1] if frames.counts else cluster.reduce(pieces, _count, sum)
        width = len(design.exog_names) + 1 + len(design.extras.names)
        persist = 8 * width * n <= cluster.room()
    if persist:
        pieces = cluster.persist(pieces)
    facts = cluster.reduce(pieces, facts_of, combined_facts)
    return DaskRows(
        require_rows(facts),
        frames=frames,
        design=design,
        pieces=pieces,
        passes=iter(with_progress(itertools.count(), progress, "passes over the rows")),
    )


def _count(part: Part) -> int:
    return int(part.endog.size)


def _of_full(function: Callable[..., Any], part: Part, *args: Any) -> Any:
    """Return a function of a partition, None where it has no rows."""
    return function(part, *args) if part.endog.size else None


def _joined_full(combine: Callable[[list[Any]], Any], values: Sequence[Any]) -> Any:
    full = [value for value in values if value is not None]
    return combine(full) if full else None
