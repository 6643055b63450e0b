"""Where the batches of a stream come from: Parquet files, a pyarrow dataset, or a function."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pandas as pd

from qhreg.exceptions import DataError
from qhreg.specification.alignment import to_pandas

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
except ImportError as error:
    raise ImportError(
        "qhreg.stream needs pyarrow: install it with the extra, pip install 'qhreg[parquet]'"
    ) from error

__all__ = ["Batch", "DatasetSource", "FunctionSource", "Source", "source_of"]

BATCH_ROWS = 2**17
"""Rows of a batch, which is all of the data that is in memory at a time."""


class Batch(NamedTuple):
    """Some rows of the data, and what messages call them."""

    frame: pd.DataFrame
    name: str


class Source(Protocol):
    """Anything that hands out its batches, each time the same ones."""

    @property
    def columns(self) -> list[str]:
        """The columns there are."""
        ...

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches with some columns; `coded` makes categories of texts."""
        ...


def source_of(source: Any) -> Source:
    """Return what the batches come from.

    Parameters
    ----------
    source : str, path, list of paths, pyarrow Dataset, or callable
        Parquet files, by a path, a folder or a pattern; a dataset; or a function that returns an
        iterator of Arrow tables, batches or frames, each time anew.
    """
    if isinstance(source, ds.Dataset):
        return DatasetSource(source)
    if callable(source):
        return FunctionSource(source)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        files = path if os.path.exists(path) or "://" in path else sorted(glob.glob(path))
        if not files:
            raise DataError(f"there is no file {path!r}")
        return DatasetSource(_dataset(files))
    if isinstance(source, (list, tuple)) and source:
        return DatasetSource(_dataset([os.fspath(path) for path in source]))
    raise DataError(
        "the source must be a path or pattern of Parquet files, a pyarrow dataset, or a function that "
        f"returns batches; got {type(source).__name__}"
    )


def _dataset(files: str | list[str]) -> ds.Dataset:
    try:
        return ds.dataset(files, format="parquet", partitioning="hive")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{files if isinstance(files, str) else files[0]}: {error}") from error


@dataclass(frozen=True)
class DatasetSource:
    """Batches of a dataset, file by file."""

    dataset: ds.Dataset

    @cached_property
    def columns(self) -> list[str]:
        """The columns there are."""
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches of each file; columns are taken by name."""
        for place, fragment in enumerate(self.dataset.get_fragments()):
            name = getattr(fragment, "path", None) or f"fragment {place}"
            folder = ds.get_partition_keys(fragment.partition_expression)
            try:
                schema = fragment.physical_schema
                stored = [column for column in columns if column in schema.names]
                for batch in fragment.to_batches(
                    schema=schema, columns=stored, batch_size=BATCH_ROWS
                ):
                    frame = _frame(batch, coded)
                    yield Batch(frame.assign(**folder) if folder else frame, name)
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{name}: {error}") from error


@dataclass(frozen=True)
class FunctionSource:
    """Batches that a function returns."""

    function: Callable[[], Any]

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the first batch."""
        for batch in self.function():
            named = batch.schema.names if isinstance(batch, _ARROW) else _table(batch, 0).columns
            return [str(name) for name in named]
        raise DataError("the source returned no batches")

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches, numbered from zero."""
        for number, batch in enumerate(self.function()):
            if isinstance(batch, _ARROW):
                stored = [column for column in columns if column in batch.schema.names]
                yield Batch(_frame(batch.select(stored), coded), f"batch {number}")
                continue
            frame = _table(batch, number)
            yield Batch(frame[[c for c in columns if c in frame.columns]], f"batch {number}")


_ARROW = (pa.Table, pa.RecordBatch)


def _table(batch: Any, number: int) -> pd.DataFrame:
    """Return a batch as a frame, or raise a DataError."""
    frame = to_pandas(batch)
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"batch {number} must be an Arrow table or a frame, got {type(batch).__name__}"
        )
    return frame


def _frame(batch: Any, coded: bool) -> pd.DataFrame:
    """Return an Arrow batch as a frame; texts as codes are many times as fast to read."""
    if coded:
        columns = [
            pc.dictionary_encode(column)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            else column
            for column in batch.columns
        ]
        batch = pa.table(columns, names=batch.schema.names)
    frame: pd.DataFrame = batch.to_pandas(split_blocks=True)  # numbers stay where Arrow has them
    return frame
