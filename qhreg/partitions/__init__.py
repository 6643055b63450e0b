"""Fits of rows in partitions, wherever these are: read from disk in turn, or held by workers."""

from __future__ import annotations

from qhreg.partitions.design import Design, Frames, RowColumns, design_of
from qhreg.partitions.rows import Facts, Part, PartitionedRows, combined_facts, facts_of

__all__ = [
    "Design",
    "Facts",
    "Frames",
    "Part",
    "PartitionedRows",
    "RowColumns",
    "combined_facts",
    "design_of",
    "facts_of",
]
