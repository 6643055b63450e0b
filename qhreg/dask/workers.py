"""Workers that fit together: each runs the same program on its own rows, and only sums travel."""

from __future__ import annotations

import hmac
import math
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import lightgbm as lgb
import numpy as np

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.boosting.noise import Pool
from qhreg.partitions.rows import Part, PartitionedRows, combined_facts, facts_of

T = TypeVar("T")


class Place(NamedTuple):
    """A worker among those of a fit.

    Attributes
    ----------
    rank, n_workers : int
        Its number, and how many there are; number zero leads.
    host : str
        Its address.
    leader : (str, int)
        Address and port of the one that leads.
    token : bytes
        What the others show it.
    timeout : float
        Seconds to wait for any of them.
    """

    rank: int
    n_workers: int
    host: str
    leader: tuple[str, int]
    token: bytes
    timeout: float


def free_port(host: str) -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


class WorkerPool(Pool):
    """The workers behind a fit, each in its own process; a context that connects them.

    All workers make the same calls in the same order. Values go to the leader and all of them back, so
    that every worker sums the same numbers in the same order.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.calls = 0
        self.files: list[BinaryIO] = []

    def __enter__(self) -> WorkerPool:
        place = self.place
        if place.rank:
            self.files = [self._connected()]
        elif place.n_workers > 1:
            with socket.create_server(place.leader, backlog=place.n_workers) as server:
                server.settimeout(place.timeout)
                others: dict[int, BinaryIO] = {}
                while len(others) < place.n_workers - 1:
                    file = self._file(server.accept()[0])
                    greeting = file.read(len(place.token) + 4)
                    if hmac.compare_digest(greeting[:-4], place.token):
                        others[int.from_bytes(greeting[-4:], "big")] = file
            self.files = [others[rank] for rank in sorted(others)]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def _file(self, connection: socket.socket) -> BinaryIO:
        """Return a connection as a file, after which the connection is closed with it."""
        connection.settimeout(self.place.timeout)
        with connection:
            return cast("BinaryIO", connection.makefile("rwb"))

    def _connected(self) -> BinaryIO:
        """Return a connection to the leader, which may not listen yet."""
        place, end = self.place, time.monotonic() + self.place.timeout
        while True:
            try:
                file = self._file(socket.create_connection(place.leader, place.timeout))
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
                continue
            file.write(place.token + place.rank.to_bytes(4, "big"))
            file.flush()
            return file

    def gather(self, value: T) -> list[T]:
        """Return the values of all workers, the same list on each."""
        self.calls += 1
        try:
            if self.place.rank:
                (leader,) = self.files
                pickle.dump((self.calls, value), leader)
                leader.flush()
                return cast("list[T]", pickle.load(leader))
            calls, values = zip((self.calls, value), *map(pickle.load, self.files), strict=True)
            if set(calls) != {self.calls}:
                raise ConnectionError("the workers are not at the same step")
            message = pickle.dumps(list(values))
            for file in self.files:
                file.write(message)
                file.flush()
        except (EOFError, OSError) as error:
            raise ConnectionError(f"another worker of the fit is gone: {error}") from error
        return list(values)

    def rows(self, values: FloatArray, weights: FloatArray | None) -> PartitionedRows:
        """Return values with a constant as their only regressor."""
        constant = np.ones((values.size, 1))
        part = Part(constant, values, freq_weights=weights, number=self.place.rank)
        return _PooledRows(combined_facts(self.gather(facts_of(part))), part=part, pool=self)

    def lower_median(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the least value with half of the weight at or below it.

        The middle value of the worker with most candidates left halves them, and cuts those of the
        others, until there are none.
        """
        order = np.argsort(values)
        ordered, running = values[order], np.concatenate([[0.0], np.cumsum(weights[order])])
        half = (0.5 - ROUNDING) * float(self.total(running[-1])[0])
        first, end, best = 0, values.size, math.nan
        while True:
            middle = float(ordered[(first + end) // 2]) if first < end else math.nan
            left, pivot = max(self.gather((end - first, middle)), key=lambda each: each[0])
            if left == 0:
                return best
            below, above = np.searchsorted(ordered, pivot), np.searchsorted(ordered, pivot, "right")
            if self.total(running[above])[0] >= half:
                best, end = pivot, max(first, min(end, int(below)))
            else:
                first = min(end, max(first, int(above)))

    @contextmanager
    def lightgbm_network(self, data: lgb.Dataset) -> Iterator[dict[str, Any]]:
        """Connect LightGBM too, and give the options with which it grows trees on all workers."""
        place = self.place
        if place.n_workers == 1:
            yield {}
            return
        ports = self.gather((place.host, free_port(place.host)))
        network = lgb.Booster(
            {
                "machines": ",".join(f"{host}:{port}" for host, port in ports),
                "local_listen_port": ports[place.rank][1],
                "num_machines": place.n_workers,
                "time_out": math.ceil(place.timeout / 60.0),
                "verbosity": -1,
            },
            data,
        )
        try:
            yield {"tree_learner": "data", "num_machines": place.n_workers}
        finally:
            network.free_network()


@dataclass(frozen=True)
class _PooledRows(PartitionedRows):
    """Rows of which each worker holds one partition, and all of them ask the same."""

    part: Part = field(kw_only=True, repr=False)
    pool: WorkerPool = field(kw_only=True, repr=False)

    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        return combine(self.pool.gather(function(self.part, *args)))

    def parts(self) -> Iterator[Part]:
        yield from self.pool.gather(self.part)

    def grouped(self, groups: tuple[str, ...]) -> _PooledRows:
        return self  # what the trees leave has no groups
