"""How sums over partitions are made on Dask: a task for each thread of a worker, then a tree.

Partitions that are kept lie on workers, in one list for each thread: a pass costs as many tasks as there
are threads, however many partitions there are. Those that are read anew in each pass have a task each.
Sums are added eight at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

from qhreg.exceptions import ClusterError, DataError, QhregError

try:
    import dask
    import distributed
    import psutil
    from dask.bag import Bag, Item, from_delayed
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
            return dask.compute(task.to_delayed() if isinstance(task, Item) else task)[0]
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
            As in :meth:`qhreg.engine.rows.RowBlocks.fold`.
        """
        over = partial(_over, function, combine, args)
        total = pieces.bag.reduction(over, partial(_joined, combine))
        try:
            return self.compute(total)
        except QhregError:
            raise
        except Exception as error:
            if pieces.kept:
                raise
            raise self._located(pieces, error) from error

    def _located(self, pieces: Pieces, error: Exception) -> Exception:
        """Return the error of the first partition that cannot be read, with its number."""
        touched = dask.delayed(len, pure=False)
        for number, piece in enumerate(pieces.lists):
            try:
                self.compute(touched(piece))
            except ClusterError:
                break
            except Exception as own:
                return DataError(f"partition {number} cannot be read: {own}")
        return error

    def persist(self, pieces: Pieces) -> Pieces:
        """Return the partitions kept in memory, in one list for each thread of a worker."""
        if self.client is None:
            try:
                return Pieces(list(dask.persist(*pieces.lists)), kept=True)
            except QhregError:
                raise
            except Exception as error:
                raise self._located(pieces, error) from error
        parts = self.client.persist(pieces.lists)
        futures = distributed.futures_of(parts)
        try:
            distributed.wait(futures, timeout=self.timeout)
        except distributed.TimeoutError as error:
            raise self._silent() from error
        failed = [future.exception() for future in futures if future.status == "error"]
        if failed:
            raise (
                failed[0] if isinstance(failed[0], QhregError) else self._located(pieces, failed[0])
            )
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
    return list(chain.from_iterable(lists))


def _over(
    function: Callable[..., Any],
    combine: Callable[[list[Any]], Any],
    args: tuple[Any, ...],
    partitions: list[Any],
) -> Any:
    """Return the combination over partitions that lie together."""
    return combine([function(each, *args) for each in partitions])


def _joined(combine: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    return combine(list(values))


def _room(target: float, dask_worker: Any) -> float:
    """Return the bytes that a worker has left below the target."""
    limit = dask_worker.memory_manager.memory_limit
    if not limit:
        return float("inf")
    return float(max(target * limit - psutil.Process().memory_info().rss, 0.0))
