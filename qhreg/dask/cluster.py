"""How sums over partitions are made on Dask: a task for each thread of a worker, then a tree.

Partitions that are kept lie on workers. One task then runs over all partitions of a thread and returns
one sum, so that a pass costs as many tasks as there are threads, however many partitions there are.
Those that are read anew in each pass have a task each. Sums are added eight at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from qhreg.exceptions import ClusterError, DataError, QhregError

try:
    import dask
    import distributed
    import psutil
    from dask.base import get_scheduler
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

__all__ = ["Cluster", "cluster_of"]

SPLIT_EVERY = 8
"""Sums that one task adds: as in Dask's own reductions of frames."""

LOST = (distributed.KilledWorker, distributed.CancelledError)
"""What a cluster says that has lost its workers."""


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
            raise ClusterError(
                f"no answer from the cluster within {self.timeout:g} s, which has "
                f"{len(self.client.nthreads())} workers: start workers, or give more time by timeout="
            ) from error
        except LOST as error:
            raise ClusterError(f"the cluster gave the fit up: {error}") from error

    def reduce(
        self,
        parts: Sequence[Any],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
        kept: bool = False,
    ) -> Any:
        """Return the combination of ``function(part, *args)``.

        Parameters
        ----------
        parts : sequence of Delayed
            The partitions.
        function, combine, *args
            As in :meth:`qhreg.engine.rows.RowBlocks.fold`.
        kept : bool
            Whether the partitions lie on the workers.
        """
        # one object, sent to each worker once; Dask would look into its arrays for tasks
        call = dask.delayed(cloudpickle.dumps((function, combine, args)), pure=False)
        over, join = (dask.delayed(each, pure=False) for each in (_over, _joined))
        groups = self._groups(parts) if kept and self.client is not None else [[p] for p in parts]
        values = [over(group, call) for group in groups]
        while len(values) > 1:
            values = [join(list(some), call) for some in _in_groups(values, SPLIT_EVERY)]
        try:
            return self.compute(values[0])
        except QhregError:
            raise
        except Exception as error:
            raise self._located(parts, error) from error

    def _groups(self, parts: Sequence[Any]) -> list[list[Any]]:
        """Return the partitions that lie together, one group for each thread of their worker."""
        holders = self.client.who_has(distributed.futures_of(list(parts)))
        threads = self.client.nthreads()
        lying: dict[str, list[Any]] = {}
        for part in parts:
            holder = next(iter(holders.get(part.key, ())), "")
            lying.setdefault(holder, []).append(part)
        return [
            list(some)
            for holder, held in lying.items()
            for some in _in_groups(held, -(-len(held) // threads.get(holder, 1)))
        ]

    def _located(self, parts: Sequence[Any], error: Exception) -> Exception:
        """Return the error of the first partition that cannot be read, with its number."""
        touch = dask.delayed(_touched, pure=False)
        for number, part in enumerate(parts):
            try:
                self.compute(touch(part))
            except ClusterError:
                break
            except Exception as own:
                return DataError(f"partition {number} cannot be read: {own}")
        return error

    def persist(self, parts: Sequence[Any]) -> list[Any]:
        """Return the partitions, kept in memory from their first use on."""
        keep = dask.persist if self.client is None else self.client.persist
        return list(keep(*parts) if self.client is None else keep(list(parts)))

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


def _in_groups(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
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
    return max(target * limit - psutil.Process().memory_info().rss, 0.0)
