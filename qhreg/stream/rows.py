"""Rows that are read batch by batch in every pass: nothing of the size of the data is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from qhreg.exceptions import DataError
from qhreg.partitions.design import Design
from qhreg.partitions.rows import Part, PartitionedRows, combined_facts, facts_of, require_rows
from qhreg.progress import with_progress
from qhreg.stream.sources import Source

__all__ = ["StreamFrames", "StreamRows", "stream_rows"]

COMBINED = 32
"""Results of batches that wait to be combined."""


def _combined(results: Iterator[Any], combine: Callable[[list[Any]], Any]) -> Any:
    """Return the combination of results that come one after the other."""
    waiting: list[Any] = []
    for result in results:
        waiting.append(result)
        if len(waiting) == COMBINED:
            waiting = [combine(waiting)]
    if not waiting:
        raise DataError("the source returned no batches")
    return combine(waiting)


@dataclass(frozen=True)
class StreamFrames:
    """The batches of a source as frames; see :class:`qhreg.partitions.first_pass.Frames`."""

    source: Source

    @property
    def columns(self) -> list[str]:
        """The columns there are."""
        return self.source.columns

    def reduce(
        self,
        columns: Sequence[str],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(frame, name, *args)`` over the batches."""
        batches = self.source.batches(columns)
        return _combined((function(frame, name, *args) for frame, name in batches), combine)

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Iterate over the batches."""
        return (frame for frame, _ in self.source.batches(columns))


@dataclass(frozen=True)
class StreamRows(PartitionedRows):
    """The rows of a source; see :class:`qhreg.partitions.rows.PartitionedRows`.

    Attributes
    ----------
    source : Source
        The batches.
    design : Design
        What makes rows of them.
    progress : bool
        Whether to show a bar in each pass.
    """

    source: Source = field(kw_only=True)
    design: Design = field(kw_only=True)
    progress: bool = field(default=False, kw_only=True)

    def grouped(self, groups: tuple[str, ...]) -> StreamRows:
        """Return the same rows with the labels of some columns as groups."""
        return replace(self, design=self.design.with_groups(groups))

    def parts(self) -> Iterator[Part]:
        """Iterate over the batches as rows, and hold them to what the first pass counted."""
        batches = self.source.batches(self.design.columns, coded=True)
        shown = with_progress(batches, self.progress, "pass", len(self.facts.counts))
        number = -1
        for number, (frame, name) in enumerate(shown):
            part = self.design.part(frame, name, number)
            found, known = part.observations.endog.size, self.facts.counts.get(number)
            if found != known:
                raise DataError(
                    f"{name} has {found} rows in this pass and {known} in the first: the source must "
                    "give the same batches each time"
                )
            yield part
        if number + 1 != len(self.facts.counts):
            raise DataError(
                f"the source gave {number + 1} batches in this pass, {len(self.facts.counts)} in the "
                "first: it must give the same ones each time, not an iterator that ends"
            )

    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        full = (part for part in self.parts() if part.observations.endog.size)
        return _combined((function(part, *args) for part in full), combine)


def stream_rows(source: Source, design: Design, progress: bool = False) -> StreamRows:
    """Return the rows of a source, looked at once.

    Parameters
    ----------
    source : Source
        The batches.
    design : Design
        What makes rows of them.
    progress : bool
        Whether to show a bar in each pass.
    """
    batches = with_progress(source.batches(design.columns, coded=True), progress, "first pass")
    facts = _combined(
        (facts_of(design.part(frame, name, i)) for i, (frame, name) in enumerate(batches)),
        combined_facts,
    )
    return StreamRows(require_rows(facts), source=source, design=design, progress=progress)
