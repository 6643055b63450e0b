"""Rows in partitions: sums are made where a partition is, and only the sums travel.

What carries partitions, files read one after the other or workers of a cluster, brings one method,
``_reduce``. Everything a fit needs of the rows is expressed by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.engine.likelihood import Totals, reduce_rows
from qhreg.engine.rows import ArrayRows, Block, Taken
from qhreg.engine.zone import Zone
from qhreg.exceptions import DataError
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.observations import Observations

__all__ = ["Facts", "Part", "PartitionedRows", "combined_facts", "facts_of", "require_rows"]

_Self = TypeVar("_Self", bound="PartitionedRows")


@dataclass(frozen=True)
class Part:
    """The rows of one partition, all of positive weight.

    Attributes
    ----------
    observations : Observations
        The rows; sampling weights as given, until `PartitionedRows.reduce` brings them to their unit.
    groups : tuple of ndarray
        Labels of the clusters of each row, in as many ways as were asked for.
    number : int
        Place among the partitions.
    name : str
        What messages call it: a file, or a number.
    left_out : int
        Rows with missing values that were left out.
    """

    observations: Observations
    groups: tuple[npt.NDArray[Any], ...] = ()
    number: int = 0
    name: str = ""
    left_out: int = 0


class Facts(NamedTuple):
    """What has to be known of all rows before a fit.

    Attributes
    ----------
    counts : dict of int to int
        Number of rows by the number of the partition.
    n_columns : int
        Number of regressors.
    nobs, weight_sum : float
        Observations; sum of the case weights as given.
    least_weight, endog_size : float
        As in :class:`qhreg.engine.rows.ArrayRows`, with weights as given.
    low, high : ndarray, shape (k,)
        Range of the columns.
    left_out : int
        Rows with missing values that were left out.
    """

    counts: dict[int, int]
    n_columns: int
    nobs: float
    weight_sum: float
    least_weight: float
    endog_size: float
    low: FloatArray
    high: FloatArray
    left_out: int


def facts_of(part: Part) -> Facts:
    """Return the facts of one partition."""
    obs = part.observations
    n, k = obs.exog.shape
    weights = obs.case_weights
    return Facts(
        {part.number: n},
        k,
        obs.nobs,
        float(n if weights is None else weights.sum()),
        1.0 if weights is None else float(weights.min(initial=np.inf)),
        ArrayRows(obs.exog, obs.endog, offset=obs.offset).endog_size,
        obs.exog.min(axis=0, initial=np.inf),
        obs.exog.max(axis=0, initial=-np.inf),
        part.left_out,
    )


def combined_facts(facts: Sequence[Facts]) -> Facts:
    """Return the facts of several partitions."""
    counts: dict[int, int] = {}
    for each in facts:
        counts |= each.counts
    return Facts(
        counts,
        facts[0].n_columns,
        sum(each.nobs for each in facts),
        sum(each.weight_sum for each in facts),
        min(each.least_weight for each in facts),
        max(each.endog_size for each in facts),
        np.min([each.low for each in facts], axis=0),
        np.max([each.high for each in facts], axis=0),
        sum(each.left_out for each in facts),
    )


@dataclass(frozen=True)
class Change:
    """How the rows of every partition enter: unit of the response, coordinates."""

    scale: float = 1.0
    transform: FloatArray | None = None

    def __call__(self, part: Part) -> ArrayRows:
        obs = part.observations
        return ArrayRows(
            obs.exog, obs.endog, obs.case_weights, obs.offset, self.scale, self.transform
        )


@dataclass(frozen=True)
class PartitionedRows(ABC):
    """Rows in partitions; see :class:`qhreg.engine.rows.GivenRows`.

    A subclass brings ``_reduce``, which calls a function of a :class:`Part` where the partition is, and
    ``parts``, which brings the partitions here one after the other.

    Attributes
    ----------
    facts : Facts
        Of all rows, from :func:`facts_of` and :func:`combined_facts`.
    change : Change
        Unit of the response and coordinates, applied where the rows are.
    """

    facts: Facts = field(repr=False)
    change: Change = field(default=Change(), kw_only=True, repr=False)

    @abstractmethod
    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(part, *args)`` over all partitions.

        `combine` takes a list of results and returns one of the same kind; it is associative, so that
        a tree may be used.
        """

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Iterate over the partitions, on this machine."""

    def reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(part, *args)``, sampling weights in their unit."""
        return self._reduce(partial(_in_unit, function, self.weight_unit), combine, *args)

    @property
    def weight_unit(self) -> float:
        """What sampling weights are multiplied by to count as many as there are observations."""
        return self.facts.nobs / self.facts.weight_sum

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.facts.counts.values())

    @property
    def rows_counted(self) -> int:
        """Number of rows; those without weight are left out already."""
        return self.n_rows

    @property
    def nobs(self) -> float:
        """Number of observations: rows, or the sum of their frequency weights."""
        return self.facts.nobs

    @property
    def n_columns(self) -> int:
        """Number of regressors."""
        return self.facts.n_columns

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        transform = self.change.transform
        return self.n_columns + 1 if transform is None else int(transform.shape[1])

    @property
    def weight_sum(self) -> float:
        """Sum of the case weights, which is the number of observations."""
        return self.facts.nobs

    @property
    def least_weight(self) -> float:
        """The least case weight."""
        return self.facts.least_weight * self.weight_unit

    @property
    def endog_size(self) -> float:
        """The largest absolute value of the response and of the offset."""
        return self.facts.endog_size

    @property
    def weights(self) -> None:
        """Case weights are where the rows are."""
        return None

    @cached_property
    def starts(self) -> dict[int, int]:
        """Number of the first row of each partition."""
        numbers = sorted(self.facts.counts)
        ends = np.cumsum([self.facts.counts[number] for number in numbers])
        return dict(zip(numbers, [0, *ends[:-1].tolist()], strict=True))

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
        found: Totals = self.reduce(_totals, _summed_totals, self.change, z, tau, kappa, options)
        return found

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, one partition at a time on this machine."""
        for part in self.parts():
            yield from self.change(_weighted(part, self.weight_unit)).blocks()

    def take(self, chosen: npt.NDArray[np.intp] | slice) -> Taken:
        """Return copies of some rows, in the order of their numbers."""
        if isinstance(chosen, slice):
            chosen = np.arange(self.n_rows)[chosen]
        chosen = np.sort(chosen)
        place, taken = self.reduce(_taken, _stacked, self.change.scale, chosen, self.starts)
        order = np.argsort(place, kind="stable")
        return Taken(*(None if each is None else each[order] for each in taken))  # type: ignore[arg-type]

    def scaled(self: _Self, scale: float) -> _Self:
        """Return the same rows with another unit of the response."""
        return replace(self, change=replace(self.change, scale=scale))

    def transformed(self: _Self, matrix: FloatArray) -> _Self:
        """Return the same rows with each block [X, y] multiplied by a matrix."""
        return replace(self, change=replace(self.change, transform=matrix))


def require_rows(facts: Facts) -> Facts:
    """Return the facts, or raise a DataError where there are no rows."""
    if not any(facts.counts.values()):
        raise DataError("there are no rows with positive weight and without missing values")
    return facts


def _weighted(part: Part, unit: float) -> Part:
    """Return a partition with its sampling weights in their unit."""
    obs = part.observations
    if obs.weights is None:
        return part
    return replace(part, observations=replace(obs, weights=obs.weights * unit))


def _in_unit(function: Callable[..., Any], unit: float, part: Part, *args: Any) -> Any:
    """Return a function of a partition with its sampling weights in their unit."""
    return function(_weighted(part, unit), *args)


def _totals(
    part: Part,
    change: Change,
    z: FloatArray,
    tau: float,
    kappa: float,
    options: dict[str, bool],
) -> Totals:
    """Return the totals of one partition, without the list of its rows in the zone."""
    rows = change(part)
    with one_blas_thread(rows.exog.size):
        found = reduce_rows(rows, z, tau, kappa, **options)
    zone = found.zone
    return found if zone is None else found._replace(zone=zone._replace(members=()))


def _summed_totals(parts: Sequence[Totals]) -> Totals:
    """Return the totals of several partitions."""
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


_Placed = tuple[npt.NDArray[np.intp], Taken]


def _taken(
    part: Part, scale: float, chosen: npt.NDArray[np.intp], starts: dict[int, int]
) -> _Placed:
    """Return the chosen rows of a partition with their numbers among all rows."""
    start, n = starts[part.number], part.observations.endog.size
    here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + n)]
    return here, Change(scale)(part).take(here - start)


def _stacked(parts: Sequence[_Placed]) -> _Placed:
    """Return rows of several partitions as those of one."""
    columns = zip(*(taken for _, taken in parts), strict=True)
    stacked = (None if each[0] is None else np.concatenate(each) for each in columns)
    return np.concatenate([place for place, _ in parts]), Taken(*stacked)  # type: ignore[arg-type]
