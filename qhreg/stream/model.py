"""The regression of a stream: the door."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from qhreg.partitions.design import RowColumns
from qhreg.partitions.first_pass import design_of
from qhreg.partitions.model import PartitionedModel
from qhreg.partitions.results import PartitionedResults, PartitionedResultsWrapper
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.formulas import formula_namespace, mentions, spec_text
from qhreg.stream.rows import StreamRows, source_of, stream_rows

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
        return self._predictions(source, args, kwargs)

    def _predictions(self, source: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        design = self.model.design
        text = spec_text(design.right)
        used = [
            name for name in design.columns if mentions(text, name) or name == design.extras.offset
        ]
        for frame, _ in source.batches(used):
            yield super().predict(frame, *args, **kwargs)


class StreamResultsWrapper(PartitionedResultsWrapper):
    """Results with the names of the parameters."""


StreamResults._wrapper = StreamResultsWrapper


class StreamModel(PartitionedModel):
    """The regression of a stream; made by :func:`quantile_huber`."""

    results_class: ClassVar[Any] = StreamResults
    partitions: StreamRows

    def fit(  # type: ignore[override]
        self, cov_type: str | None = None, *, progress: bool = False, **options: Any
    ) -> StreamResultsWrapper:
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
        results: StreamResultsWrapper = super().fit(cov_type, **options)
        return results


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
    rows = stream_rows(origin, design)
    return StreamModel(rows, design, kappa=kappa, tau=tau, sigma=sigma, tau_bounds=tau_bounds)
