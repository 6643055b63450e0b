"""How sums over partitions are made on Dask: a task for each thread of a worker, then a tree.

Partitions that are kept lie on workers, in one list for each thread: a pass costs as many tasks as there
are threads, however many partitions there are. Those that are read anew in each pass have a task each.
Sums are added eight at a time.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qhreg.exceptions import ClusterError, DataError, QhregError

try:
    import cloudpickle
    import dask
    import distributed
    import psutil
    from dask.base import get_scheduler
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

__all__ = ["Cluster", "Pieces", "cluster_of", "pieces_of"]

SPLIT_EVERY = 8
"""Sums that one task adds: as in Dask's own reductions of frames."""

LOST = (distributed.KilledWorker, distributed.CancelledError)
"""What a cluster says that has lost its workers."""


@dataclass(frozen=True)
class Pieces:
    """Partitions as tasks on one graph.

    Attributes
    ----------
    graph : HighLevelGraph
        The graph.
    tasks : tuple
        What makes each partition: ``(function, key, ...)``, part of whatever task uses it; where they
        are kept, the key of a list of them.
    kept : bool
        Whether they lie in the memory of the workers.
    """

    graph: HighLevelGraph
    tasks: tuple[Any, ...]
    kept: bool = False

    def with_tasks(self, tasks: dict[str, Any], *keys: str) -> list[Any]:
        """Return some of further tasks on these partitions as Delayed objects."""
        name = keys[0]
        layers = {**self.graph.layers, name: tasks}
        needed = {**self.graph.dependencies, name: set(self.graph.layers)}
        graph = HighLevelGraph(layers, needed)
        return [Delayed(key, graph, layer=name) for key in keys]

    @property
    def delayed(self) -> list[Any]:
        """The partitions as Delayed objects."""
        name = _new_name()
        tasks = {f"{name}-{i}": task for i, task in enumerate(self.tasks)}
        return self.with_tasks(tasks, *tasks)


def pieces_of(frames: Sequence[Any], function: Callable[..., Any], shared: Any = None) -> Pieces:
    """Return ``function(frame, shared, number)`` of Delayed frames as tasks on one graph."""
    name = _new_name()
    graphs = [frame.__dask_graph__() for frame in frames]
    graph = HighLevelGraph.merge(*graphs, HighLevelGraph({name: {name: shared}}, {name: set()}))
    return Pieces(graph, tuple((function, each.key, name, i) for i, each in enumerate(frames)))


def _new_name() -> str:
    return f"qhreg-{uuid.uuid4().hex}"


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
            As in :meth:`qhreg.engine.rows.RowBlocks.fold`.
        """
        call = _new_name()
        tasks: dict[str, Any] = {call: cloudpickle.dumps((function, combine, args))}
        values: list[str] = []
        for piece in pieces.tasks:
            values.append(f"{call}-over-{len(tasks)}")
            tasks[values[-1]] = (_over, piece if pieces.kept else [piece], call)
        while len(values) > 1:
            groups, values = _in_groups(values, SPLIT_EVERY), []
            for group in groups:
                values.append(f"{call}-joined-{len(tasks)}")
                tasks[values[-1]] = (_joined, group, call)
        try:
            return self.compute(*pieces.with_tasks(tasks, values[0]))
        except QhregError:
            raise
        except Exception as error:
            if pieces.kept:
                raise
            raise self._located(pieces, error) from error

    def _located(self, pieces: Pieces, error: Exception) -> Exception:
        """Return the error of the first partition that cannot be read, with its number."""
        for number, piece in enumerate(pieces.tasks):
            name = _new_name()
            try:
                self.compute(*pieces.with_tasks({name: (_touched, piece)}, name))
            except ClusterError:
                break
            except Exception as own:
                return DataError(f"partition {number} cannot be read: {own}")
        return error

    def persist(self, pieces: Pieces) -> Pieces:
        """Return the partitions kept in memory, in one list for each thread of a worker."""
        together = dask.delayed(list, pure=False)
        if self.client is None:
            try:
                return _kept(dask.persist(*(together([part]) for part in pieces.delayed)))
            except QhregError:
                raise
            except Exception as error:
                raise self._located(pieces, error) from error
        parts = self.client.persist(pieces.delayed)
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
        groups = [
            together(some)
            for holder, held in lying.items()
            for some in _in_groups(held, -(-len(held) // threads.get(holder, 1)))
        ]
        return _kept(self.client.persist(groups))

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


def _kept(groups: Sequence[Any]) -> Pieces:
    graphs = [group.__dask_graph__() for group in groups]
    return Pieces(HighLevelGraph.merge(*graphs), tuple(group.key for group in groups), kept=True)


def _in_groups(items: list[Any], size: int) -> list[list[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _over(group: list[Any], call: bytes) -> Any:
    """Return the combination over partitions that lie together."""
    function, combine, args = pickle.loads(call)
    return combine([function(part, *args) for part in group])


def _joined(values: list[Any], call: bytes) -> Any:
    return pickle.loads(call)[1](values)


def _touched(part: Any) -> None:
    """Return nothing: the partition was made."""


def _room(target: float, dask_worker: Any) -> float:
    """Return the bytes that a worker has left below the target."""
    limit = dask_worker.memory_manager.memory_limit
    if not limit:
        return float("inf")
    return float(max(target * limit - psutil.Process().memory_info().rss, 0.0))
