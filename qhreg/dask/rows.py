"""Rows in partitions on Dask: sums are made where they are, and only the sums travel.

A sum is a task for each thread of a worker, then a tree. Partitions that are kept lie on workers, in one
list for each thread: a pass costs as many tasks as there are threads, however many partitions there are.
Those that are read anew in each pass have a task each. Sums are added eight at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from qhreg.exceptions import ClusterError, DataError, QhregError
from qhreg.partitions.design import Design
from qhreg.partitions.rows import Part, PartitionedRows, combined_facts, facts_of
from qhreg.progress import with_progress

try:
    import dask
    import distributed
    import psutil
    from dask.bag import Bag, from_delayed
    from dask.base import get_scheduler
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

LOST = (distributed.KilledWorker, distributed.CancelledError)
"""What a cluster says that has lost its workers."""


@dataclass(frozen=True)
class Pieces:
    """Partitions as tasks.

    Attributes
    ----------
    lists : list of Delayed
        Each a list of partitions: of one that is made anew, of several that are kept together.
    kept : bool
        Whether they lie in the memory of the workers.
    """

    lists: list[Any]
    kept: bool = False

    @cached_property
    def bag(self) -> Bag:
        """All partitions as one collection."""
        return from_delayed(self.lists)


def pieces_of(frames: Sequence[Any], function: Callable[..., Any], shared: Any = None) -> Pieces:
    """Return ``function(frame, shared, number)`` of Delayed frames as tasks."""
    call, shared = dask.delayed(_listed, pure=False), dask.delayed(shared, traverse=False)
    return Pieces([call(function, frame, shared, number) for number, frame in enumerate(frames)])


@dataclass(frozen=True)
class Cluster:
    """Where tasks run.

    Attributes
    ----------
    client : distributed.Client or None
        The cluster; None for Dask's own scheduler on this machine.
    timeout : float or None
        Seconds after which a pass without an answer is given up.
    """

    client: Any = None
    timeout: float | None = None

    def compute(self, task: Any) -> Any:
        """Return the value of a task, or raise a ClusterError where workers do not answer."""
        if self.client is None:
            return dask.compute(task)[0]
        future = self.client.compute(task)
        try:
            return future.result(timeout=self.timeout)
        except distributed.TimeoutError as error:
            future.cancel()
            raise self._silent() from error
        except LOST as error:
            raise ClusterError(f"the cluster gave the fit up: {error}") from error

    def _silent(self) -> ClusterError:
        return ClusterError(
            f"no answer from the cluster within {self.timeout:g} s, which has "
            f"{len(self.client.nthreads())} workers: start workers, or give more time by timeout="
        )

    def reduce(
        self,
        pieces: Pieces,
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(part, *args)``.

        Parameters
        ----------
        pieces : Pieces
            The partitions.
        function, combine, *args
            As in :meth:`qhreg.engine.rows.SummedRows.fold`.
        """
        over = partial(_over, function, combine, args)
        total = pieces.bag.reduction(over, partial(_joined, combine))
        with self._located(pieces):
            return self.compute(total.to_delayed())

    @contextmanager
    def _located(self, pieces: Pieces) -> Iterator[None]:
        """Turn an error into that of the first partition that cannot be read, with its number."""
        try:
            yield
        except QhregError:
            raise
        except Exception as error:
            touched = dask.delayed(len, pure=False)
            for number, piece in enumerate([] if pieces.kept else pieces.lists):
                try:
                    self.compute(touched(piece))
                except ClusterError:
                    break
                except Exception as own:
                    raise DataError(f"partition {number} cannot be read: {own}") from error
            raise

    def persist(self, pieces: Pieces) -> Pieces:
        """Return the partitions kept in memory, in one list for each thread of a worker."""
        if self.client is None:
            with self._located(pieces):
                return Pieces(list(dask.persist(*pieces.lists)), kept=True)
        parts = self.client.persist(pieces.lists)
        futures = distributed.futures_of(parts)
        try:
            distributed.wait(futures, timeout=self.timeout)
        except distributed.TimeoutError as error:
            raise self._silent() from error
        with self._located(pieces):
            for future in futures:
                if future.status == "error":
                    raise future.exception()
        holders, threads = self.client.who_has(futures), self.client.nthreads()
        lying: dict[str, list[Any]] = {}
        for part in parts:
            lying.setdefault(next(iter(holders.get(part.key, ())), ""), []).append(part)
        together = dask.delayed(_together, pure=False)
        groups = []
        for holder, held in lying.items():
            size = -(-len(held) // threads.get(holder, 1))
            groups += [together(held[i : i + size]) for i in range(0, len(held), size)]
        return Pieces(self.client.persist(groups), kept=True)

    def room(self) -> float:
        """Return the bytes up to which workers hold data without spilling: Dask's memory target."""
        target = dask.config.get("distributed.worker.memory.target", 0.6) or 1.0
        if self.client is None:
            return float(target * psutil.virtual_memory().available)
        return float(sum(self.client.run(_room, target).values()))


def cluster_of(client: Any = None, timeout: float | None = None) -> Cluster:
    """Return where tasks run: the given client, or where Dask runs its collections by default."""
    if client is None:
        owner = getattr(get_scheduler(), "__self__", None)
        client = owner if isinstance(owner, distributed.Client) else None
    return Cluster(client, timeout)


def _listed(function: Callable[..., Any], frame: Any, shared: Any, number: int) -> list[Any]:
    return [function(frame, shared, number)]


def _together(lists: list[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(lists))


def _over(
    function: Callable[..., Any],
    combine: Callable[[list[Any]], Any],
    args: tuple[Any, ...],
    partitions: list[Any],
) -> Any:
    """Return the combination over partitions that lie together."""
    return _joined(combine, (function(each, *args) for each in partitions))


def _joined(combine: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """Return the combination of values, None for partitions without rows left out."""
    full = [value for value in values if value is not None]
    return combine(full) if full else None


def _room(target: float, dask_worker: Any) -> float:
    """Return the bytes that a worker has left below the target."""
    limit = dask_worker.memory_manager.memory_limit
    if not limit:
        return float("inf")
    return float(max(target * limit - psutil.Process().memory_info().rss, 0.0))


# ---------------------------------------------------------------------- the rows


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
        full = partial(_of_full, function)
        return self.frames.cluster.reduce(self.pieces, full, combine, *args)

    def grouped(self, groups: tuple[str, ...]) -> DaskRows:
        """Return the same rows with the labels of some columns as the groups of each part.

        For sums alone: with other columns Dask may cut the rows into other partitions.
        """
        design = self.design.with_groups(groups)
        return replace(self, design=design, pieces=self.frames.parts(design))


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
        n = design.n_rows
        if n is None:
            n = sum(cluster.reduce(pieces, facts_of, combined_facts).counts.values())
        width = len(design.exog_names) + 1 + len(design.extras.names)
        persist = 8 * width * n <= cluster.room()
    if persist:
        pieces = cluster.persist(pieces)
    return DaskRows(
        cluster.reduce(pieces, facts_of, combined_facts),
        frames=frames,
        design=design,
        pieces=pieces,
        passes=iter(with_progress(itertools.count(), progress, "passes over the rows")),
    )


def _of_full(function: Callable[..., Any], part: Part, *args: Any) -> Any:
    """Return a function of a partition, None where it has no rows."""
    return function(part, *args) if part.endog.size else None
