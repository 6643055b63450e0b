"""The boosting regressor of rows on Dask: the same fit, on every worker at once.

Each worker holds its rows and grows the same trees: LightGBM's data-parallel learner sums the histograms
(Meng et al. 2016), and what :mod:`qhreg.boosting` sums over rows is summed over the workers.
"""

from __future__ import annotations

import hmac
import math
import pickle
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from qhreg._typing import FloatArray
from qhreg.boosting import QuantileHuberBoostingRegressor as LocalRegressor
from qhreg.boosting.noise import HERE, Pool
from qhreg.boosting.trees import Growth, cross_folds
from qhreg.estimator import case_weights
from qhreg.exceptions import DataError, DomainError
from qhreg.partitions.rows import Part, PartitionedRows, combined_facts, condensed, facts_of

try:
    import dask
    import dask.array as da
    from dask.utils import parse_timedelta
    from distributed import Client, Future, default_client, wait
    from distributed.comm import get_address_host
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

BIN_ROWS = 200_000
"""Rows that the bins of the columns are made from: LightGBM's `bin_construct_sample_cnt`."""

POLL = 1.0
"""Seconds after which to look whether the workers are still there."""

T = TypeVar("T")

RESPONSE, WEIGHTS = "qhreg: response", "qhreg: weights"
"""Columns in which response and weights travel beside the features."""


class QuantileHuberBoostingRegressor(LocalRegressor):
    """Gradient boosting with quantile Huber noise, of rows that lie on the workers of a Dask cluster.

    The trees, their number, sigma and tau are those of
    :class:`qhreg.QuantileHuberBoostingRegressor`, whose parameters and attributes it has. Rows stay on
    the workers: histograms and sums travel between them, and a sample of 200,000 rows that the bins are
    made from. Folds are drawn partition by partition. `cv` is a number or None, and
    ``scheme="two-step"`` and ``interval="law"`` are what there is.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from qhreg.dask import QuantileHuberBoostingRegressor
    >>> X = da.random.default_rng(0).uniform(-1, 1, (2000, 2), chunks=(500, 2))
    >>> y = X[:, 0] ** 2 + da.random.default_rng(1).exponential(0.1, 2000, chunks=500)
    >>> options = {"processes": False, "n_workers": 1, "dashboard_address": ":0"}
    >>> with Client(**options) as client:
    ...     model = QuantileHuberBoostingRegressor(random_state=0).fit(X, y, client=client)
    >>> bool(model.tau_ > 0.7)
    True
    >>> model.to_local().predict([[0.0, 0.0], [1.0, 0.0]]).round(1).tolist()
    [0.1, 1.1]
    """

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        client: Client | None = None,
        timeout: float | None = None,
    ) -> QuantileHuberBoostingRegressor:
        """Fit the trees and the noise on all workers that hold rows.

        Parameters
        ----------
        X : dask DataFrame, or dask array of shape (n, p)
            Features; NaN is allowed.
        y : dask Series or array, shape (n,)
            Response, a column of the same frame or in the same chunks.
        sample_weight : dask Series or array, shape (n,), or None
            Case weights.
        client : distributed.Client or None
            The cluster; by default the current client.
        timeout : float or None
            Seconds that one worker waits for another before all give up; by default the time after
            which Dask itself takes a silent worker for dead (`distributed.scheduler.worker-ttl`).
        """
        self._check_two_step()
        if self.scheme != "two-step" or self.interval != "law":
            raise DomainError("rows on Dask have scheme='two-step' and interval='law' only")
        if not (self.cv is None or isinstance(self.cv, Integral)):
            raise DomainError(
                f"cv must be a number of folds or None for rows on Dask, got {self.cv!r}"
            )
        client = default_client() if client is None else client
        if timeout is None:
            timeout = parse_timedelta(
                dask.config.get("distributed.scheduler.worker-ttl") or "5 minutes"
            )
        parts = client.compute(_partitions(X, y, sample_weight))
        _complete(client, parts)
        sizes = client.gather(client.map(len, parts, pure=False))
        where = client.who_has(parts)
        held: dict[str, list[int]] = {}
        for number, part in enumerate(parts):
            if sizes[number]:
                held.setdefault(min(where[part.key]), []).append(number)
        if not held:
            raise DataError("there are no rows")
        state = _fit_together(client, self._local(), parts, held, timeout)
        self.__dict__.update(state)
        self._warn_if_empty()
        return self

    def _local(self) -> LocalRegressor:
        """Return the regressor of rows in memory with the same parameters and a seed."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return LocalRegressor(**self.get_params(deep=False) | {"random_state": seed})

    def to_local(self) -> LocalRegressor:
        """Return the same fit as a regressor of rows in memory."""
        local = LocalRegressor(**self.get_params(deep=False))
        local.__dict__.update(vars(self))
        return local

    def predict(self, X: Any, which: str = "mean") -> Any:
        """Return the mean of the response, or another of its centres; a Dask array for rows on Dask."""
        return self._mapped("predict", X, which)

    def predict_quantile(self, X: Any, q: Any = 0.5) -> Any:
        """Return quantiles of the response; a Dask array for rows on Dask."""
        return self._mapped("predict_quantile", X, q, extra=np.shape(q))

    def predict_interval(self, X: Any, coverage: Any = 0.95) -> Any:
        """Return central prediction intervals; a Dask array for rows on Dask."""
        return self._mapped("predict_interval", X, coverage, extra=(*np.shape(coverage), 2))

    def _mapped(self, method: str, X: Any, argument: Any, extra: tuple[int, ...] = ()) -> Any:
        """Return what a method of the local regressor gives, partition by partition."""
        call = getattr(self.to_local(), method)
        if not dask.is_dask_collection(X):
            return call(X, argument)
        call = dask.delayed(call, pure=True)
        X = X.rechunk({1: -1}) if isinstance(X, da.Array) else X
        sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * X.npartitions
        pieces = [
            da.from_delayed(call(part, argument), (size, *extra), float)
            for part, size in zip(np.ravel(X.to_delayed()), sizes, strict=True)
        ]
        return da.concatenate(pieces)


def _partitions(X: Any, y: Any, weights: Any) -> list[Any]:
    """Return frames of features, response and weights, one for each partition, as tasks."""
    given = {"X": X, "y": y, "sample_weight": weights}
    for name, values in given.items():
        if values is not None and not dask.is_dask_collection(values):
            raise DataError(f"{name} must be a Dask array, DataFrame or Series, got {type(values)}")
    columns = {RESPONSE: y} if weights is None else {RESPONSE: y, WEIGHTS: weights}
    if not isinstance(X, da.Array):
        return list(X.assign(**columns).to_delayed())
    X = X.rechunk({1: -1})
    if not any(np.isnan(X.chunks[0])):
        columns = {name: values.rechunk((X.chunks[0],)) for name, values in columns.items()}
    pieces = [list(values.to_delayed().ravel()) for values in (X, *columns.values())]
    if len({len(each) for each in pieces}) > 1:
        raise DataError("X, y and sample_weight must have the same chunks of rows")
    framed = dask.delayed(_framed, pure=False)
    return [framed(list(columns), *piece) for piece in zip(*pieces, strict=True)]


def _framed(names: Sequence[str], exog: FloatArray, *columns: FloatArray) -> pd.DataFrame:
    """Return arrays as one frame, whose features have numbers for names."""
    return pd.DataFrame(exog).assign(**dict(zip(names, columns, strict=True)))


def _complete(client: Client, tasks: Sequence[Future], workers: Sequence[str] = ()) -> None:
    """Wait for tasks; raise their error, or one that says that workers are gone."""
    pending = list(tasks)
    while pending:
        with suppress(TimeoutError):
            pending = list(wait(pending, timeout=POLL, return_when="FIRST_COMPLETED").not_done)
        failed = [task for task in tasks if task.status == "error"]
        if failed:
            with suppress(TimeoutError):  # one that fails takes the others with it
                wait(pending, timeout=10 * POLL)
            errors = [task.exception() for task in tasks if task.status == "error"]
            causes = [each for each in errors if not _is_loss(each)]
            if causes:
                raise causes[0]
            raise ConnectionError("a worker was lost during the fit; fit again") from errors[0]
        present = client.nthreads()
        gone = [worker for worker in workers if worker not in present]
        if gone or not present:
            names = ", ".join(gone) or "all workers"
            raise ConnectionError(f"a worker was lost during the fit ({names}); fit again")


def _is_loss(error: BaseException) -> bool:
    """Return whether an error says no more than that another worker is gone."""
    return isinstance(error, ConnectionError) or "Socket" in str(error)


def _fit_together(
    client: Client,
    model: LocalRegressor,
    parts: Sequence[Future],
    held: dict[str, list[int]],
    timeout: float,
) -> dict[str, Any]:
    """Return what a fit by all workers sets on the model."""
    hosts = {worker: get_address_host(worker) for worker in held}
    first = next(iter(held))
    port = client.run(free_port, hosts[first], workers=[first])[first]
    leader, token = (hosts[first], port), secrets.token_bytes(32)
    tasks = [
        client.submit(
            _fit_here,
            model,
            [parts[number] for number in numbers],
            numbers,
            Place(rank, len(held), hosts[worker], leader, token, timeout),
            workers=[worker],
            allow_other_workers=False,
            pure=False,
        )
        for rank, (worker, numbers) in enumerate(held.items())
    ]
    try:
        _complete(client, tasks, list(held))
        state: dict[str, Any] = tasks[0].result()
    finally:
        client.cancel(tasks)
    return state


def _fit_here(
    model: LocalRegressor, parts: Sequence[pd.DataFrame], numbers: Sequence[int], place: Place
) -> dict[str, Any] | None:
    """Fit the rows of this worker together with the others; return what the leader's fit has set."""
    sizes = [len(part) for part in parts]
    with WorkerPool(place) as pool:  # first of all: where one fails, the others see it go
        frame = pd.concat(parts)
        response = frame.pop(RESPONSE)
        sample_weight = frame.pop(WEIGHTS) if WEIGHTS in frame else None
        exog, response = model._checked(frame, reset=True, y=response, y_numeric=True)
        weights = case_weights(sample_weight, exog)
        endog = np.asarray(response, dtype=np.float64)
        n_rows = int(pool.total(endog.size)[0])
        options = model._lightgbm_options(n_rows, check_random_state(model.random_state))
        seed, share = options["seed"], BIN_ROWS / n_rows
        chosen, fold = drawn_rows(sizes, numbers, share, model.cv or 1, seed)
        sample = np.concatenate(pool.gather(exog[chosen]))
        options["bin_construct_sample_cnt"] = sample.shape[0]
        reference = model._dataset(sample, options).construct()
        data = model._dataset(exog, options, reference).construct()
        cv = None if model.cv is None else _splits(fold, model.cv)
        folds = cross_folds(cv, exog, endog, weights, None)
        patience = None if cv is None else model.n_iter_no_change
        with pool.lightgbm_network(reference) as network:
            growth = Growth(data, folds, options | network, model.n_estimators, patience)
            model._grow(growth, endog, pool)
    model._fold_models = []
    known = model.get_params(deep=False)
    state = {name: value for name, value in vars(model).items() if name not in known}
    return state if place.rank == 0 else None


def drawn_rows(
    sizes: Sequence[int], numbers: Sequence[int], share: float, n_folds: int, seed: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Return which rows of some partitions make the bins, and the fold of each row.

    Both depend on seed and number of the partition alone, and not on the worker that holds it.
    """
    chosen, folds = [], []
    for size, number in zip(sizes, numbers, strict=True):
        rng = np.random.default_rng([seed, number])
        chosen.append(rng.random(size) < share)
        folds.append((rng.permutation(size) + rng.integers(n_folds)) % n_folds)
    return np.concatenate(chosen), np.concatenate(folds)


def _splits(fold: npt.NDArray[np.intp], n_folds: int) -> list[tuple[Any, Any]]:
    """Return the rows inside and outside of each fold, also of those that have none here."""
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


# ---------------------------------------------------------------------- the workers


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

    def median(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the middle between the lower and the upper median of weighted values."""
        counted = weights > 0.0
        rows = self.rows(values[counted], weights[counted])
        few = condensed(rows, _responses, rows.sample.endog, (0.5,))
        return HERE.median(few.values, few.weights)

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


def _responses(part: Part) -> FloatArray:
    return part.endog
