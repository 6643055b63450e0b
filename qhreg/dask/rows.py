"""Rows in partitions on Dask: sums are made where they are, and only the sums travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.engine.likelihood import Totals, reduce_rows
from qhreg.engine.rows import ArrayRows, Block, Taken
from qhreg.engine.zone import Zone
from qhreg.exceptions import DataError
from qhreg.solver.inputs import rows_of
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.alignment import numeric_vector
from qhreg.specification.inputs import as_table

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

__all__ = ["DaskRows", "dask_rows"]


class _Facts(NamedTuple):
    """What the client has to know of one partition."""

    n_rows: int
    n_columns: int
    weight_sum: float
    least_weight: float
    endog_size: float
    bad: dict[str, int]


def _require_same_rows(name: str, values: Any, exog: Any) -> None:
    """Raise a DataError when the labels of a partition are not those of the regressors."""
    labels, rows = (getattr(each, "index", None) for each in (values, exog))
    if not isinstance(labels, pd.Index) or not isinstance(rows, pd.Index):
        return
    if len(labels) == len(rows) and not labels.equals(rows):
        raise DataError(
            f"the rows of {name} and exog have different labels in a partition: take both from one "
            "DataFrame, or pass arrays to match them by position"
        )


def _partition(exog: Any, endog: Any, weights: Any, offset: Any) -> ArrayRows:
    """Return one partition as rows; those without weight are left out."""
    for name, values in (("endog", endog), ("freq_weights", weights), ("offset", offset)):
        _require_same_rows(name, values, exog)
    exog, endog = np.asarray(as_table("exog", exog)), np.asarray(as_table("endog", endog))
    weights = None if weights is None else numeric_vector("freq_weights", weights)
    if weights is not None and not np.any(weights != 0.0):
        return ArrayRows(np.empty((0, exog.shape[1])), np.empty(0), np.empty(0))
    return rows_of(exog, endog, weights, offset)


def _facts(part: ArrayRows) -> _Facts:
    assert part.endog is not None
    arrays = {"exog": part.exog, "endog": part.endog}
    bad = {name: int(np.count_nonzero(~np.isfinite(array))) for name, array in arrays.items()}
    empty = part.n_rows == 0
    return _Facts(
        part.n_rows,
        part.n_columns,
        part.weight_sum,
        np.inf if empty else part.least_weight,
        part.endog_size,
        bad,
    )


@dataclass(frozen=True)
class _Change:
    """How the rows of every partition enter: unit of the response, coordinates."""

    scale: float = 1.0
    transform: FloatArray | None = None

    def __call__(self, part: ArrayRows) -> ArrayRows:
        return replace(part, endog_scale=self.scale, transform=self.transform)


def _totals(
    part: ArrayRows, change: _Change, z: FloatArray, tau: float, kappa: float, options: Any
) -> Totals:
    """Return the totals of one partition, without the list of its rows in the zone."""
    with one_blas_thread(part.exog.size):
        found = reduce_rows(change(part), z, tau, kappa, **options)
    zone = found.zone
    return found if zone is None else found._replace(zone=zone._replace(members=()))


def _sum(parts: Sequence[Totals]) -> Totals:
    """Return the totals of all partitions."""
    zones = [part.zone for part in parts if part.zone is not None]
    zone = None
    if zones:
        zone = Zone(
            (),
            np.sum([z.gram for z in zones], axis=0),
            np.sum([z.outside for z in zones], axis=0),
            sum(z.weight_outside for z in zones),
            None,
        )
    return Totals(
        sum(part.loss for part in parts),
        np.sum([part.slope for part in parts], axis=0),
        sum(part.square for part in parts),
        sum(part.excess for part in parts),
        sum(part.rows_in_zone for part in parts),
        zone,
        min(part.slack for part in parts),
    )


@dataclass(frozen=True)
class DaskRows:
    """Rows in partitions on Dask; see :class:`qhreg.engine.rows.GivenRows`.

    Attributes
    ----------
    parts : tuple
        Delayed :class:`qhreg.engine.rows.ArrayRows`, none of them empty.
    starts : ndarray of int
        Number of the first row of each partition, and the number of all rows.
    n_columns : int
        Regressors.
    weight_sum, least_weight, endog_size : float
        As in :class:`qhreg.engine.rows.ArrayRows`.
    change : callable
        Unit of the response and coordinates, applied where the rows are.
    """

    parts: tuple[Any, ...]
    starts: npt.NDArray[np.intp]
    n_columns: int
    weight_sum: float
    least_weight: float
    endog_size: float
    change: _Change = _Change()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        transform = self.change.transform
        return self.n_columns + 1 if transform is None else int(transform.shape[1])

    @property
    def weights(self) -> None:
        """Case weights are where the rows are."""
        return None

    def map(self, function: Any, *args: Any) -> list[Any]:
        """Return the values of a function of each partition."""
        call = dask.delayed(function, pure=False)
        return list(dask.compute(*(call(part, *args) for part in self.parts)))

    def totals(
        self,
        z: FloatArray,
        tau: float,
        kappa: float,
        *,
        hessian: bool = True,
        since: Zone | None = None,
        slack: bool = False,
    ) -> Totals:
        """Return the totals of all rows; which rows are in the zone is not kept, nor used."""
        options = {"hessian": hessian, "slack": slack}
        return _sum(self.map(_totals, self.change, z, tau, kappa, options))

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, one partition at a time on this machine."""
        for part in self.parts:
            (here,) = dask.compute(part)
            yield from self.change(here).blocks()

    def take(self, chosen: npt.NDArray[np.intp] | slice) -> Taken:
        """Return copies of some rows, in the order of their numbers."""
        if isinstance(chosen, slice):
            chosen = np.arange(self.n_rows)[chosen]
        ends = np.searchsorted(chosen, self.starts)
        take = dask.delayed(_taken, pure=False)
        tasks = [
            take(part, self.change.scale, chosen[ends[i] : ends[i + 1]] - self.starts[i])
            for i, part in enumerate(self.parts)
            if ends[i + 1] > ends[i]
        ]
        exog, endog, weights = zip(*dask.compute(*tasks), strict=True)
        return Taken(
            np.concatenate(exog),
            np.concatenate(endog),
            None if weights[0] is None else np.concatenate(weights),
        )

    def scaled(self, scale: float) -> DaskRows:
        """Return the same rows with another unit of the response."""
        return replace(self, change=replace(self.change, scale=scale))

    def transformed(self, matrix: FloatArray) -> DaskRows:
        """Return the same rows with each block [X, y] multiplied by a matrix."""
        return replace(self, change=replace(self.change, transform=matrix))


def _taken(part: ArrayRows, scale: float, chosen: npt.NDArray[np.intp]) -> Taken:
    return part.scaled(scale).take(chosen)


def _pieces(name: str, values: Any, count: int | None = None) -> list[Any]:
    """Return the partitions of a Dask array, DataFrame or Series, or raise a DataError."""
    if not dask.is_dask_collection(values) or not hasattr(values, "to_delayed"):
        raise DataError(f"{name} must be a Dask array, DataFrame or Series, got {type(values)}")
    kinds = values.dtypes.items() if hasattr(values, "dtypes") and values.ndim == 2 else ()
    text = [str(column) for column, kind in kinds if not pd.api.types.is_numeric_dtype(kind)]
    if text:
        raise DataError(
            f"{name} has columns that are not numeric: {', '.join(text)}; code them first, for example "
            "with dask.dataframe.get_dummies"
        )
    if isinstance(values, da.Array) and values.ndim == 2:
        values = values.rechunk({1: -1})
    found = list(np.ravel(values.to_delayed()))
    if count is not None and len(found) != count:
        raise DataError(
            f"{name} has {len(found)} partitions, exog has {count}: rechunk or repartition it alike"
        )
    return found


def dask_rows(exog: Any, endog: Any, weights: Any, offset: Any, persist: bool) -> DaskRows:
    """Return the rows, looked at once."""
    if getattr(exog, "ndim", None) != 2:
        raise DataError("exog must be a matrix: a two-dimensional Dask array, or a DataFrame")
    x = _pieces("exog", exog)
    extras = [
        [None] * len(x) if given is None else _pieces(name, given, len(x))
        for name, given in (("endog", endog), ("freq_weights", weights), ("offset", offset))
    ]
    make = dask.delayed(_partition, pure=False)
    parts = [make(*piece) for piece in zip(x, *extras, strict=True)]
    if persist:
        parts = list(dask.persist(*parts))
    facts = dask.compute(*(dask.delayed(_facts, pure=False)(part) for part in parts))
    for name in ("exog", "endog"):
        bad = sum(fact.bad[name] for fact in facts)
        if bad:
            raise DataError(
                f"{name} contains {bad} NaN or infinite values; remove those rows first"
            )
    full = [i for i, fact in enumerate(facts) if fact.n_rows]
    if not full:
        raise DataError("there are no rows with positive weight")
    kept = [facts[i] for i in full]
    return DaskRows(
        tuple(parts[i] for i in full),
        np.cumsum([0, *(fact.n_rows for fact in kept)]),
        kept[0].n_columns,
        sum(fact.weight_sum for fact in kept),
        min(fact.least_weight for fact in kept),
        max(fact.endog_size for fact in kept),
    )
