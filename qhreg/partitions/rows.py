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

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.covariance.information import stacked_factors
from qhreg.engine.rows import ArrayRows, Block, Taken
from qhreg.exceptions import DataError
from qhreg.solver.over_kappa import gaussian_loglike
from qhreg.solver.setup import sampled_rows
from qhreg.specification.observations import Observations

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
    name : str
        What messages call it: a file, or a number.
    left_out : int
        Rows with missing values that were left out.
    """

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
    sampling : bool
        Whether there are sampling weights.
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
    sampling: bool


def facts_of(part: Part) -> Facts:
    """Return the facts of one partition."""
    n, k = part.exog.shape
    weights = part.case_weights
    return Facts(
        {part.number: n},
        k,
        part.nobs,
        part.weight_sum,
        1.0 if weights is None else float(weights.min(initial=np.inf)),
        ArrayRows(part.exog, part.endog, offset=part.offset).endog_size,
        part.exog.min(axis=0, initial=np.inf),
        part.exog.max(axis=0, initial=-np.inf),
        part.left_out,
        part.weights is not None,
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
        facts[0].sampling,
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

    A subclass brings ``_reduce``, which calls a function of a :class:`Part` where the partition is;
    ``parts``, which brings the partitions here one after the other; and ``grouped``.

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

    @abstractmethod
    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(part, *args)`` over all partitions.

        `combine` takes a list of results and returns one of the same kind; it is associative, so that
        a tree may be used.
        """

    @abstractmethod
    def grouped(self: _Self, groups: tuple[str, ...]) -> _Self:
        """Return the same rows with the labels of some columns as the groups of each part."""

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Iterate over the partitions, on this machine."""

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

    @property
    def rows_counted(self) -> int:
        """Number of rows; those without weight are left out already."""
        return self.n_rows

    @property
    def nobs(self) -> float:
        """Number of observations: rows, or the sum of their frequency weights."""
        return self.facts.nobs

    @property
    def has_sampling_weights(self) -> bool:
        """Whether there are sampling weights."""
        return self.facts.sampling

    @property
    def n_columns(self) -> int:
        """Number of regressors."""
        if self.view.constant:
            return 1
        return self.facts.n_columns if self.view.basis is None else self.view.basis.shape[1]

    @property
    def n_unknowns(self) -> int:
        """Number of columns of W."""
        transform = self.view.transform
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

    def fold(
        self, function: Callable[..., Any], combine: Callable[[Sequence[Any]], Any], *args: Any
    ) -> Any:
        """Return the combination of ``function(rows, *args)`` over the partitions as rows."""
        return self.reduce(_of_rows, combine, function, self.view, *args)

    def blocks(self) -> Iterator[Block]:
        """Iterate over the rows, one partition at a time on this machine."""
        for part in self.parts():
            yield from self.view.rows(self.view.of(part, self.weight_unit)).blocks()

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

    @property
    def factor(self) -> FloatArray:
        """Triangular factor of the weighted [X, y], the offset taken off y, shape (k + 1, k + 1)."""
        factor: FloatArray = self.reduce(_factor, stacked_factors)
        return factor

    def gaussian_loglike(self, **options: Any) -> float:
        """Return the maximum of the normal log-likelihood; see that of the solver."""
        factor = self.factor
        return gaussian_loglike(factor[:, :-1], factor[:, -1], n=self.weight_sum, **options)


def require_rows(facts: Facts) -> Facts:
    """Return the facts, or raise a DataError where there are no rows."""
    if not any(facts.counts.values()):
        raise DataError("there are no rows with positive weight and without missing values")
    return facts


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
