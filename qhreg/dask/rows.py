"""Rows in partitions on Dask: sums are made where they are, and only the sums travel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dask

from qhreg.dask.cluster import Cluster
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

__all__ = ["DaskFrames", "DaskRows", "dask_rows", "design_parts"]


@dataclass(frozen=True)
class DaskFrames:
    """The partitions of a Dask DataFrame; see :class:`qhreg.partitions.design.Frames`."""

    frame: Any
    cluster: Cluster

    @property
    def columns(self) -> list[str]:
        """The columns there are."""
        return [str(column) for column in self.frame.columns]

    def reduce(
        self,
        columns: Sequence[str],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(frame, name, *args)`` over the partitions."""
        name = dask.delayed(_named, pure=False)
        pieces = self.frame[list(columns)].to_delayed()
        named = [name(piece, i) for i, piece in enumerate(pieces)]
        return self.cluster.reduce(named, _of_frame, combine, function, *args)

    def frames(self, columns: Sequence[str]) -> None:
        """Return None: the rows stay where they are."""


def _named(frame: Any, number: int) -> tuple[Any, str]:
    return frame, _name(number)


def _name(number: int) -> str:
    return f"partition {number}"


def _of_frame(named: tuple[Any, str], function: Callable[..., Any], *args: Any) -> Any:
    return function(*named, *args)


@dataclass(frozen=True)
class DaskRows(PartitionedRows):
    """Rows on Dask; see :class:`qhreg.partitions.rows.PartitionedRows`.

    Attributes
    ----------
    pieces : tuple of Delayed
        The partitions as :class:`qhreg.partitions.rows.Part`.
    cluster : Cluster
        Where they are.
    kept : bool
        Whether they are kept in memory, or read anew in each pass.
    passes : iterator
        Counts the passes.
    """

    pieces: tuple[Any, ...] = field(kw_only=True, repr=False)
    cluster: Cluster = field(kw_only=True)
    kept: bool = field(kw_only=True)
    passes: Iterator[int] = field(kw_only=True, repr=False)

    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        next(self.passes)
        return self.cluster.reduce(self.pieces, function, combine, *args, kept=self.kept)

    def parts(self) -> Iterator[Part]:
        """Iterate over the partitions, on this machine."""
        for piece in self.pieces:
            yield self.cluster.compute(piece)


def design_parts(frame: Any, design: Design) -> list[Any]:
    """Return the partitions of a Dask DataFrame as delayed rows, columns taken by name."""
    part, shared = dask.delayed(_part, pure=False), dask.delayed(design, pure=False, traverse=False)
    pieces = frame[list(design.columns)].to_delayed()
    return [part(piece, shared, number) for number, piece in enumerate(pieces)]


def _part(frame: Any, design: Design, number: int) -> Part:
    return design.part(frame, _name(number), number)


def dask_rows(
    pieces: Sequence[Any], cluster: Cluster, persist: bool | str = "auto", progress: bool = False
) -> DaskRows:
    """Return the rows, looked at once.

    Parameters
    ----------
    pieces : sequence of Delayed
        The partitions.
    cluster : Cluster
        Where they are.
    persist : {"auto", True, False}
        Whether to keep them in memory; "auto" does where they fit.
    progress : bool
        Whether to show a count of the passes.
    """
    if persist not in (True, False, "auto"):
        raise DataError(f"persist must be True, False or 'auto', got {persist!r}")
    if persist is True:
        pieces = cluster.persist(pieces)
    facts, size = cluster.reduce(pieces, _facts, _combined, kept=persist is True)
    require_rows(facts)
    kept = persist is True
    if persist == "auto" and size <= cluster.room():
        pieces, kept = cluster.persist(pieces), True
    passes = iter(with_progress(itertools.count(), progress, "passes over the rows"))
    return DaskRows(facts, pieces=tuple(pieces), cluster=cluster, kept=kept, passes=passes)


def _facts(part: Part) -> tuple[Facts, int]:
    """Return the facts of a partition, and its bytes."""
    obs = part.observations
    arrays = (obs.exog, obs.endog, obs.offset, obs.freq_weights, obs.weights, *part.groups)
    return facts_of(part), sum(each.nbytes for each in arrays if each is not None)


def _combined(parts: Sequence[tuple[Facts, int]]) -> tuple[Facts, int]:
    facts, sizes = zip(*parts, strict=True)
    return combined_facts(facts), sum(sizes)
