"""Rows in partitions on Dask: sums are made where they are, and only the sums travel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qhreg.dask.cluster import Cluster, Pieces, pieces_of
from qhreg.exceptions import DataError
from qhreg.partitions.design import Design
from qhreg.partitions.rows import (
    Facts,
    Part,
    PartitionedRows,
    combined_facts,
    facts_of,
    require_rows,
)
from qhreg.progress import with_progress

__all__ = ["DaskFrames", "DaskRows", "dask_rows"]


@dataclass(frozen=True)
class DaskFrames:
    """The partitions of one table on Dask; see :class:`qhreg.partitions.design.Frames`.

    Attributes
    ----------
    table : dask DataFrame, or list of Delayed DataFrames
        One graph: partitions of frames made apart need not be of the same rows (dask#12193).
    columns : list of str
        The columns there are.
    cluster : Cluster
        Where tasks run.
    """

    table: Any
    columns: list[str]
    cluster: Cluster

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
        return self.cluster.reduce(named, _of_frame, combine, function, *args)

    def frames(self, columns: Sequence[str]) -> None:
        """Return None: the rows stay where they are."""


def _named(frame: Any, shared: None, number: int) -> tuple[Any, str]:
    return frame, _name(number)


def _name(number: int) -> str:
    return f"partition {number}"


def _part(frame: Any, design: Design, number: int) -> Part:
    return design.part(frame, _name(number), number)


def _of_frame(named: tuple[Any, str], function: Callable[..., Any], *args: Any) -> Any:
    return function(*named, *args)


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
        return self.frames.cluster.reduce(self.pieces, function, combine, *args)

    def grouped(self, groups: tuple[str, ...]) -> DaskRows:
        """Return the same rows with the labels of some columns as the groups of each part.

        For sums alone: with other columns Dask may cut the rows into other partitions.
        """
        design = self.design.with_groups(groups)
        return replace(self, design=design, pieces=self.frames.parts(design))

    def parts(self) -> Iterator[Part]:
        """Iterate over the partitions, on this machine."""
        parts = _full(self.frames.parts(self.design), self.facts)
        return (self.frames.cluster.compute(part) for part in parts.delayed)


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
    facts, size = cluster.reduce(pieces, _facts, _combined)
    pieces = _full(pieces, require_rows(facts))
    if persist is True or (persist == "auto" and size <= cluster.room()):
        pieces = cluster.persist(pieces)
    return DaskRows(
        facts,
        frames=frames,
        design=design,
        pieces=pieces,
        passes=iter(with_progress(itertools.count(), progress, "passes over the rows")),
    )


def _full(pieces: Pieces, facts: Facts) -> Pieces:
    """Return the partitions that have rows."""
    return pieces.some([number for number in sorted(facts.counts) if facts.counts[number]])


def _facts(part: Part) -> tuple[Facts, int]:
    """Return the facts of a partition, and its bytes."""
    obs = part.observations
    arrays = (obs.exog, obs.endog, obs.offset, obs.freq_weights, obs.weights, *part.groups)
    return facts_of(part), sum(each.nbytes for each in arrays if each is not None)


def _combined(parts: Sequence[tuple[Facts, int]]) -> tuple[Facts, int]:
    facts, sizes = zip(*parts, strict=True)
    return combined_facts(facts), sum(sizes)
