"""Rows in partitions: sums are made where a partition is, and only the sums travel.

What carries partitions, files read one after the other or workers of a cluster, brings one method,
``_reduce``. Everything a fit needs of the rows is expressed by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.covariance.information import stacked_factors
from qhreg.engine.rows import ArrayRows, Taken, weighted_quantiles
from qhreg.solver.over_kappa import gaussian_loglike
from qhreg.solver.setup import sampled_rows
from qhreg.specification.observations import Observations, summed

BINS = 1024
"""Intervals around each quantile that rows are counted in: only those in one of them travel."""

_Self = TypeVar("_Self", bound="PartitionedRows")


@dataclass(frozen=True)
class Part(Observations):
    """The rows of one partition, all of positive weight.

    Sampling weights are as given, until `PartitionedRows.reduce` brings them to their unit.

    Attributes
    ----------
    groups : tuple of ndarray
        Labels of the clusters of each row, in as many ways as were asked for.
    number : int
        Place among the partitions.
    left_out : int
        Rows with missing values that were left out.
    """

    groups: tuple[npt.NDArray[Any], ...] = ()
    number: int = 0
    left_out: int = 0


class Facts(NamedTuple):
    """What has to be known of all rows before a fit.

    Attributes
    ----------
    counts : dict of int to int
        Number of rows by the number of the partition.
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
    nobs: float
    weight_sum: float
    least_weight: float
    endog_size: float
    low: FloatArray
    high: FloatArray
    left_out: int


def facts_of(part: Part) -> Facts:
    """Return the facts of one partition."""
    weights = part.case_weights
    return Facts(
        {part.number: part.endog.size},
        part.nobs,
        part.weight_sum,
        1.0 if weights is None else float(weights.min(initial=np.inf)),
        ArrayRows(part.exog, part.endog, offset=part.offset).endog_size,
        part.exog.min(axis=0, initial=np.inf),
        part.exog.max(axis=0, initial=-np.inf),
        part.left_out,
    )


def combined_facts(facts: Sequence[Facts]) -> Facts:
    """Return the facts of several partitions."""
    return Facts(
        dict(ChainMap(*(each.counts for each in facts))),
        sum(each.nobs for each in facts),
        sum(each.weight_sum for each in facts),
        min(each.least_weight for each in facts),
        max(each.endog_size for each in facts),
        np.min([each.low for each in facts], axis=0),
        np.max([each.high for each in facts], axis=0),
        sum(each.left_out for each in facts),
    )


@dataclass(frozen=True)
class View:
    """What regression the rows of every partition are seen as.

    Attributes
    ----------
    scale, transform
        Unit of the response and coordinates, as in :class:`qhreg.engine.rows.ArrayRows`.
    basis, shift : ndarray, shape (k, j) and (k,), or None
        Where the coefficients are ``basis delta + shift``: the regression for delta.
    constant : bool
        Whether it is the regression on a constant.
    """

    scale: float = 1.0
    transform: FloatArray | None = None
    basis: FloatArray | None = None
    shift: FloatArray | None = None
    constant: bool = False

    def of(self, part: Part, unit: float) -> Part:
        """Return a partition as this regression, sampling weights times their unit."""
        if part.weights is not None:
            part = replace(part, weights=part.weights * unit)
        if self.basis is not None and self.shift is not None:
            part = part.restriction(self.basis, self.shift)(1.0)
        return part.constant if self.constant else part

    def rows(self, part: Part) -> ArrayRows:
        """Return a partition that is this regression already as the solver takes it."""
        return ArrayRows(
            part.exog, part.endog, part.case_weights, part.offset, self.scale, self.transform
        )


@dataclass(frozen=True)
class PartitionedRows(ABC):
    """Rows in partitions; see :class:`qhreg.engine.rows.GivenRows`.

    A subclass brings ``_reduce``, which calls a function of a :class:`Part` where the partition is; for
    covariances of clusters, ``grouped`` too.

    Attributes
    ----------
    facts : Facts
        Of all rows, from :func:`facts_of` and :func:`combined_facts`.
    view : View
        What regression they are seen as, where they are.
    samples : dict
        Rows that were taken, by their numbers: the same few are asked for in every fit.
    """

    facts: Facts = field(repr=False)
    view: View = field(default=View(), kw_only=True, repr=False)
    samples: dict[bytes, Taken] = field(
        default_factory=dict, kw_only=True, repr=False, compare=False
    )
    weights: ClassVar[None] = None  # they are where the rows are

    @abstractmethod
    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(part, *args)`` over all partitions.

        `combine` takes a list of results and returns one of the same kind; it is associative, so that
        a tree may be used.
        """

    def grouped(self: _Self, groups: tuple[str, ...]) -> _Self:
        """Return the same rows with the labels of some columns as the groups of each part."""
        raise NotImplementedError

    def reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(part, *args)``, sampling weights in their unit."""
        seen = partial(_seen, function, self.view, self.weight_unit)
        return self._reduce(seen, combine, *args)

    @property
    def weight_unit(self) -> float:
        """What sampling weights are multiplied by to count as many as there are observations."""
        return self.facts.nobs / self.facts.weight_sum

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.facts.counts.values())

    rows_counted = n_rows  # rows without weight are left out already

    @property
    def nobs(self) -> float:
        """Number of observations: rows, or the sum of their frequency weights."""
        return self.facts.nobs

    @property
    def n_columns(self) -> int:
        """Number of regressors."""
        if self.view.constant:
            return 1
        return self.facts.low.size if self.view.basis is None else self.view.basis.shape[1]

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        transform = self.view.transform
        return self.n_columns + 1 if transform is None else int(transform.shape[1])

    weight_sum = nobs  # sampling weights are in the unit that makes it so

    @property
    def least_weight(self) -> float:
        """The least case weight."""
        return self.facts.least_weight * self.weight_unit

    @property
    def endog_size(self) -> float:
        """The largest absolute value of the response and of the offset."""
        return self.facts.endog_size

    @cached_property
    def starts(self) -> dict[int, int]:
        """Number of the first row of each partition."""
        numbers = sorted(self.facts.counts)
        ends = np.cumsum([self.facts.counts[number] for number in numbers])
        return dict(zip(numbers, [0, *ends[:-1].tolist()], strict=True))

    def fold(
        self, function: Callable[..., Any], combine: Callable[[Sequence[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(rows, *args)`` over the partitions as rows."""
        return self.reduce(_of_rows, combine, function, self.view, *args)

    def take(self, chosen: npt.NDArray[np.intp] | slice) -> Taken:
        """Return copies of some rows, in the order of their numbers."""
        if isinstance(chosen, slice):
            chosen = np.arange(self.n_rows)[chosen]
        key = chosen.tobytes()
        if key not in self.samples:
            place, taken = self.reduce(_taken, _stacked, chosen, self.starts)
            order = np.argsort(place, kind="stable")
            rows = (None if each is None else each[order] for each in taken)
            self.samples[key] = Taken(*rows)  # type: ignore[arg-type]
        sample = self.samples[key]
        return sample._replace(endog=sample.endog / self.view.scale)

    @property
    def sample(self) -> Taken:
        """The rows that every fit starts from: a random sample of fixed size, or all."""
        chosen = sampled_rows(self)
        return self.take(slice(None) if chosen is None else chosen)

    def scaled(self: _Self, scale: float) -> _Self:
        """Return the same rows with another unit of the response."""
        return replace(self, view=replace(self.view, scale=scale))

    def transformed(self: _Self, matrix: FloatArray) -> _Self:
        """Return the same rows with each block [X, y] multiplied by a matrix."""
        return replace(self, view=replace(self.view, transform=matrix))

    def restriction(
        self: _Self, basis: FloatArray, direction: FloatArray
    ) -> Callable[[float], _Self]:
        """Return the regression for delta in beta = basis delta + t direction, given t."""
        return lambda t: replace(self, view=View(basis=basis, shift=t * direction), samples={})

    @property
    def constant(self: _Self) -> _Self:
        """The regression on a constant."""
        return replace(self, view=View(constant=True), samples={})

    def gaussian_loglike(self, **options: Any) -> float:
        """Return the maximum of the normal log-likelihood; see that of the solver."""
        factor = self.reduce(_factor, stacked_factors)
        return gaussian_loglike(factor[:, :-1], factor[:, -1], n=self.weight_sum, **options)


def _seen(function: Callable[..., Any], view: View, unit: float, part: Part, *args: Any) -> Any:
    """Return a function of a partition as a view has it."""
    return function(view.of(part, unit), *args)


def _of_rows(part: Part, function: Callable[..., Any], view: View, *args: Any) -> Any:
    """Return a function of the rows of a partition."""
    rows = view.rows(part)
    with one_blas_thread(rows.exog.size):
        return function(rows, *args)


_Placed = tuple[npt.NDArray[np.intp], Taken]


def _taken(part: Part, chosen: npt.NDArray[np.intp], starts: dict[int, int]) -> _Placed:
    """Return the chosen rows of a partition with their numbers among all rows."""
    start, n = starts[part.number], part.endog.size
    here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + n)]
    return here, View().rows(part).take(here - start)


def _stacked(parts: Sequence[_Placed]) -> _Placed:
    """Return rows of several partitions as those of one."""
    columns = zip(*(taken for _, taken in parts), strict=True)
    stacked = (None if each[0] is None else np.concatenate(each) for each in columns)
    return np.concatenate([place for place, _ in parts]), Taken(*stacked)  # type: ignore[arg-type]


def _factor(part: Part) -> FloatArray:
    """Return the triangular factor of the weighted [X, y] of a partition."""
    endog = part.endog if part.offset is None else part.endog - part.offset
    stacked = np.column_stack([part.exog, endog])
    if part.case_weights is not None:
        stacked *= np.sqrt(part.case_weights)[:, None]
    return stacked_factors([stacked])


# ---------------------------------------------------------------------- the law of a value of each row


class Condensed(NamedTuple):
    """What says of a value of all rows as much as is asked of it.

    Attributes
    ----------
    variance : float
        Of all rows.
    values, weights : ndarray
        Values with weights that have the quantiles of all rows.
    """

    variance: float
    values: FloatArray
    weights: FloatArray


def condensed(
    rows: PartitionedRows,
    value_of: Callable[..., FloatArray],
    guess: FloatArray,
    levels: Sequence[float],
    *args: Any,
) -> Condensed:
    """Return the variance of a value of the rows, and its quantiles in few numbers.

    The intervals in which the quantiles of the value and of its opposite lie are counted out first; then
    the rows in these, and no others, are looked at.

    Parameters
    ----------
    rows : PartitionedRows
        The rows.
    value_of : callable
        ``value_of(part, *args)`` of each row of a part.
    guess : ndarray
        The value of some rows.
    levels : sequence of float
        Of the quantiles.
    """
    ends = [np.quantile(guess, [max(q - 0.05, 0.0), min(q + 0.05, 1.0)]) for q in levels]
    edges = np.unique([np.linspace(low, high, BINS) for low, high in ends])
    total, first, second, *counts = rows.reduce(_moments_and_counts, summed, value_of, edges, *args)
    weight, places = np.array(counts), np.arange(len(counts), dtype=np.float64)
    near = {int(place) for place in weighted_quantiles(places, levels, weight)}
    near |= {int(-place) for place in weighted_quantiles(-places, levels, weight)}
    inside = sorted(near)
    seen: pd.DataFrame = rows.reduce(_values_in, summed_by_label, value_of, edges, inside, *args)
    # all others of an interval stand at its lower end
    low = np.delete(np.concatenate([[edges[0] - 1.0], edges]), inside)
    return Condensed(
        second / total - (first / total) ** 2,
        np.concatenate([seen.index, low]),
        np.concatenate([seen["weight"], np.delete(weight, inside)]),
    )


def summed_by_label(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of rows with the same labels."""
    table = pd.concat(tables)
    return table.groupby(level=list(range(table.index.nlevels)), sort=False).sum()


def _weights(part: Part) -> FloatArray:
    return np.ones(part.endog.size) if part.case_weights is None else part.case_weights


def _moments_and_counts(
    part: Part, value_of: Callable[..., FloatArray], edges: FloatArray, *args: Any
) -> FloatArray:
    """Return the sums of w, w u and w u^2, and the weight of the rows between edges."""
    u, w = value_of(part, *args), _weights(part)
    counts = np.bincount(np.searchsorted(edges, u, side="right"), w, minlength=edges.size + 1)
    return np.array([w.sum(), w @ u, (w * u) @ u, *counts])


def _values_in(
    part: Part, value_of: Callable[..., FloatArray], edges: FloatArray, near: list[int], *args: Any
) -> pd.DataFrame:
    """Return the weights of the distinct values in some of the intervals between edges."""
    u = value_of(part, *args)
    inside = np.isin(np.searchsorted(edges, u, side="right"), near)
    return summed_by_label([pd.DataFrame({"weight": _weights(part)[inside]}, index=u[inside])])
