"""Fits of data larger than memory, read batch by batch: ``quantile_huber(formula, source).fit()``.

The batches come from Parquet files, a pyarrow dataset, or a function, and are read anew in every pass:
nothing of the size of the data is kept.
"""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from qhreg.exceptions import DataError
from qhreg.partitions.design import Design, RowColumns, design_of
from qhreg.partitions.model import PartitionedModel
from qhreg.partitions.results import PartitionedResults
from qhreg.partitions.rows import Part, PartitionedRows, combined_facts, facts_of
from qhreg.progress import with_progress
from qhreg.results import QuantileHuberResultsWrapper
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.formulas import formula_namespace, mentions, spec_text
from qhreg.specification.inputs import to_pandas

try:
    import pyarrow as pa
    import pyarrow.dataset as ds
except ImportError as error:
    raise ImportError(
        "qhreg.stream needs pyarrow: install it with the extra, pip install 'qhreg[parquet]'"
    ) from error

COMBINED = 32
"""Results of batches that wait to be combined."""

# ---------------------------------------------------------------------- where batches come from


class Batch(NamedTuple):
    """Some rows of the data, and what messages call them."""

    frame: pd.DataFrame
    name: str


class Source(ABC):
    """Anything that hands out its batches, each time the same ones.

    It is also :class:`qhreg.partitions.design.Frames`.
    """

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns there are."""

    @abstractmethod
    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches with some columns; `coded` makes categories of texts.

        Codes are many times as fast to read as texts. Numbers stay where Arrow has them.
        """

    def reduce(
        self,
        columns: Sequence[str],
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *args: Any,
    ) -> Any:
        """Return the combination of ``function(frame, name, *args)`` over the batches."""
        batches = self.batches(columns)
        return _combined((function(frame, name, *args) for frame, name in batches), combine)

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Iterate over the batches as frames."""
        return (frame for frame, _ in self.batches(columns))


def source_of(source: Any) -> Source:
    """Return what the batches come from.

    Parameters
    ----------
    source : str, path, list of paths, pyarrow Dataset, or callable
        Parquet files, by a path, a folder or a pattern; a dataset; or a function that returns an
        iterator of Arrow tables, batches or frames, each time anew.
    """
    if isinstance(source, ds.Dataset):
        return DatasetSource(source)
    if callable(source):
        return FunctionSource(source)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        files = path if os.path.exists(path) or "://" in path else sorted(glob.glob(path))
        if not files:
            raise DataError(f"there is no file {path!r}")
    elif isinstance(source, (list, tuple)) and source:
        files = [os.fspath(path) for path in source]
    else:
        raise DataError(
            "the source must be a path or pattern of Parquet files, a pyarrow dataset, or a function "
            f"that returns batches; got {type(source).__name__}"
        )
    try:
        return DatasetSource(ds.dataset(files, format="parquet", partitioning="hive"))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{files if isinstance(files, str) else files[0]}: {error}") from error


@dataclass(frozen=True)
class DatasetSource(Source):
    """Batches of a dataset, file by file."""

    dataset: ds.Dataset

    @cached_property
    def columns(self) -> list[str]:
        """The columns there are."""
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches of each file, of pyarrow's size; columns are taken by name."""
        for place, fragment in enumerate(self.dataset.get_fragments()):
            name = getattr(fragment, "path", None) or f"fragment {place}"
            folder = ds.get_partition_keys(fragment.partition_expression)
            try:
                schema = fragment.physical_schema
                stored = [column for column in columns if column in schema.names]
                for batch in fragment.to_batches(schema=schema, columns=stored):
                    frame = batch.to_pandas(split_blocks=True, strings_to_categorical=coded)
                    yield Batch(frame.assign(**folder) if folder else frame, name)
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{name}: {error}") from error


@dataclass(frozen=True)
class FunctionSource(Source):
    """Batches that a function returns."""

    function: Callable[[], Any]

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the first batch."""
        for batch in self.function():
            named = batch.schema.names if isinstance(batch, _ARROW) else _table(batch, 0).columns
            return [str(name) for name in named]
        raise DataError("the source returned no batches")

    def batches(self, columns: Sequence[str], *, coded: bool = False) -> Iterator[Batch]:
        """Iterate over the batches, numbered from zero."""
        for number, batch in enumerate(self.function()):
            if isinstance(batch, _ARROW):
                stored = [column for column in columns if column in batch.schema.names]
                used = batch.select(stored)
                frame = used.to_pandas(split_blocks=True, strings_to_categorical=coded)
            else:
                frame = _table(batch, number)
                frame = frame[[column for column in columns if column in frame.columns]]
            yield Batch(frame, f"batch {number}")


_ARROW = (pa.Table, pa.RecordBatch)


def _table(batch: Any, number: int) -> pd.DataFrame:
    """Return a batch as a frame, or raise a DataError."""
    frame = to_pandas(batch)
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"batch {number} must be an Arrow table or a frame, got {type(batch).__name__}"
        )
    return frame


def _combined(results: Iterator[Any], combine: Callable[[list[Any]], Any]) -> Any:
    """Return the combination of results that come one after the other."""
    waiting: list[Any] = []
    for result in results:
        waiting.append(result)
        if len(waiting) == COMBINED:
            waiting = [combine(waiting)]
    if not waiting:
        raise DataError("the source returned no batches")
    return combine(waiting)


@dataclass(frozen=True)
class StreamRows(PartitionedRows):
    """The rows of a source; see :class:`qhreg.partitions.rows.PartitionedRows`.

    Attributes
    ----------
    source : Source
        The batches.
    design : Design
        What makes rows of them.
    progress : bool
        Whether to show a bar in each pass.
    """

    source: Source = field(kw_only=True)
    design: Design = field(kw_only=True)
    progress: bool = field(default=False, kw_only=True)

    def grouped(self, groups: tuple[str, ...]) -> StreamRows:
        """Return the same rows with the labels of some columns as groups."""
        return replace(self, design=self.design.with_groups(groups))

    def parts(self) -> Iterator[Part]:
        """Iterate over the batches as rows, and hold them to what the first pass counted."""
        batches = self.source.batches(self.design.columns, coded=True)
        shown = with_progress(batches, self.progress, "pass", len(self.facts.counts))
        number = -1
        for number, (frame, name) in enumerate(shown):
            part = self.design.part(frame, name, number)
            size, known = part.endog.size, self.facts.counts.get(number)
            if size != known:
                raise DataError(
                    f"{name} has {size} rows in this pass and {known} in the first: the source must "
                    "give the same batches each time"
                )
            yield part
        if number + 1 != len(self.facts.counts):
            raise DataError(
                f"the source gave {number + 1} batches in this pass, {len(self.facts.counts)} in the "
                "first: it must give the same ones each time, not an iterator that ends"
            )

    def _reduce(
        self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *args: Any
    ) -> Any:
        full = (part for part in self.parts() if part.endog.size)
        return _combined((function(part, *args) for part in full), combine)


# ---------------------------------------------------------------------- the model

_TABLES = (pd.DataFrame, pd.Series, np.ndarray, dict)


class StreamResults(PartitionedResults):
    """A quantile Huber regression fitted to a stream; see :class:`PartitionedResults`."""

    def predict(self, exog: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return predictions: of a table as in memory, of a source batch by batch.

        Parameters
        ----------
        exog : DataFrame, dict, array_like, or source, optional
            New rows, or anything that a stream can be of: then an iterator over the predictions of its
            batches is returned. The source of the fit by default.
        *args, **kwargs
            As in :meth:`qhreg.results.QuantileHuberResults.predict`.
        """
        if isinstance(exog, (*_TABLES, list)) or hasattr(exog, "to_pandas"):
            return super().predict(exog, *args, **kwargs)
        source = self.model.partitions.source if exog is None else source_of(exog)
        design, predict = self.model.design, super().predict
        text = spec_text(design.right)
        used = [
            name for name in design.columns if mentions(text, name) or name == design.extras.offset
        ]
        return (predict(frame, *args, **kwargs) for frame in source.frames(used))


class StreamModel(PartitionedModel):
    """The regression of a stream; made by :func:`quantile_huber`."""

    results_class: ClassVar[Any] = StreamResults
    partitions: StreamRows

    def fit(  # type: ignore[override]
        self, cov_type: str | None = None, *, progress: bool = False, **options: Any
    ) -> QuantileHuberResultsWrapper:
        """Return the fit by restricted or maximum likelihood, read batch by batch.

        Parameters
        ----------
        cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2", "cluster"}, optional
            Covariance of the parameters.
        progress : bool
            Whether to show a bar for every pass over the data.
        **options
            cov_kwds, use_t, reml and search: as in :meth:`qhreg.QuantileHuberMLE.fit`; ``groups`` are
            names of columns.
        """
        self.partitions = replace(self.partitions, progress=progress)
        return super().fit(cov_type, **options)


def quantile_huber(
    formula: str,
    source: Any,
    *,
    kappa: float | None = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    freq_weights: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    missing: str = "drop",
    eval_env: Any = None,
) -> StreamModel:
    """Return the regression of data that are read batch by batch, never all at once.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ x + C(region)"``. The levels of categories are those of all rows.
    source : str, path, list of paths, pyarrow Dataset, or callable
        Parquet files, by a path, a folder or a pattern; a dataset; or a function that returns an
        iterator of Arrow tables, batches or frames, the same ones each time it is called.
    kappa, tau, sigma, tau_bounds
        As in :class:`qhreg.QuantileHuberMLE`.
    freq_weights, weights, offset : str, optional
        Names of columns.
    missing : {"drop", "raise"}
        What to do with rows that have a missing value.
    eval_env
        Where names in the formula that are no columns come from; the caller by default.

    Returns
    -------
    StreamModel
        Its ``fit(cov_type="HC3", progress=True)`` reads the source about fifteen times, and gives the
        results of a fit in memory, as far as sums carry them.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from qhreg.stream import quantile_huber
    >>> def batches():
    ...     for seed in range(3):
    ...         rng = np.random.default_rng(seed)
    ...         x = rng.normal(size=20_000)
    ...         yield pd.DataFrame({"x": x, "y": 1.0 + 2.0 * x + rng.gumbel(size=20_000)})
    >>> fit = quantile_huber("y ~ x", batches).fit()
    >>> fit.params.round(2).to_dict()
    {'Intercept': 0.99, 'x': 2.0, 'sigma': 0.33, 'tau': 0.74}
    """
    namespace = formula_namespace(formula, eval_env, depth=2)
    origin = source_of(source)
    extras = RowColumns(freq_weights, weights, offset)
    design = design_of(formula, origin, namespace, extras, missing)
    parts = (
        design.part(frame, name, number)
        for number, (frame, name) in enumerate(origin.batches(design.columns, coded=True))
    )
    facts = _combined(map(facts_of, parts), combined_facts)
    rows = StreamRows(facts, source=origin, design=design)
    return StreamModel(rows, design, kappa=kappa, tau=tau, sigma=sigma, tau_bounds=tau_bounds)
