"""The regression of rows on Dask: the doors, and what a fit says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import dask
import dask.array as da
import numpy as np
import pandas as pd
import patsy

from qhreg.dask.rows import DaskFrames, cluster_of, dask_rows
from qhreg.exceptions import DataError
from qhreg.partitions.design import Design, RowColumns, design_of
from qhreg.partitions.model import PartitionedModel
from qhreg.partitions.results import PartitionedResults, PartitionedResultsWrapper
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.formulas import SPEC_NAME, formula_namespace


class DaskResults(PartitionedResults):
    """A quantile Huber regression fitted to rows on Dask; see :class:`PartitionedResults`.

    Notes
    -----
    The standard errors are there with the fit. What else a table says takes a few more passes: ask for
    it, or for `to_local`, while the cluster is there.
    """

    def predict(self, exog: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return predictions: on Dask for rows on Dask, else as in memory.

        Parameters
        ----------
        exog : dask DataFrame or array, DataFrame, dict or array_like, optional
            New rows; the DataFrame of the fit by default.
        *args, **kwargs
            As in :meth:`qhreg.results.QuantileHuberResults.predict`.
        """
        if exog is None and not isinstance(self.model.partitions.frames.table, list):
            exog = self.model.partitions.frames.table
        if not dask.is_dask_collection(exog):
            return super().predict(exog, *args, **kwargs)
        local = self._without_rows()

        def predicted(rows: Any) -> Any:
            return local.predict(rows, *args, **kwargs)

        if isinstance(exog, da.Array):
            return exog.rechunk({1: -1}).map_blocks(predicted, drop_axis=1, dtype=float)
        one = predicted(exog.head(1, npartitions=-1))
        return exog.map_partitions(predicted, meta=one.iloc[:0])


class DaskResultsWrapper(PartitionedResultsWrapper):
    """Results with the names of the parameters."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what can be had without the rows, which stay on their cluster."""
        return _same, (self.to_local(),)


def _same(results: Any) -> Any:
    return results


DaskResults._wrapper = DaskResultsWrapper


class DaskModel(PartitionedModel):
    """The regression of rows on Dask; made by :func:`quantile_huber` and :func:`fit`."""

    results_class: ClassVar[Any] = DaskResults


@dataclass(frozen=True)
class DaskRegression:
    """A formula and the Dask DataFrame it is for; nothing is read before `fit`.

    Attributes
    ----------
    formula : str
        The formula.
    frame : dask DataFrame
        The data.
    extras : RowColumns
        Columns of weights and offset.
    missing : {"drop", "raise"}
        What to do with rows that have a missing value.
    namespace : dict
        Other names in the formula.
    options : dict
        kappa, tau, sigma and tau_bounds of :class:`qhreg.QuantileHuberMLE`.
    """

    formula: str
    frame: Any = field(repr=False)
    extras: RowColumns
    missing: str
    namespace: dict[str, Any] = field(repr=False)
    options: dict[str, Any]

    def fit(
        self,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        *,
        client: Any = None,
        persist: bool | str = "auto",
        timeout: float | None = None,
        progress: bool = False,
        **options: Any,
    ) -> DaskResultsWrapper:
        """Return the fit by restricted or maximum likelihood.

        Parameters
        ----------
        cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2", "cluster"}, optional
            Covariance of the parameters.
        cov_kwds : dict, optional
            ``groups`` for "cluster": the name of a column, or two names.
        client : distributed.Client, optional
            The cluster; where Dask computes by default.
        persist : {"auto", True, False}
            Whether the workers keep the rows. "auto" does where these take less memory than the
            workers have below Dask's ``distributed.worker.memory.target``; else, and with False, they
            are read in each of about fifteen passes.
        timeout : float, optional
            Seconds that a pass on a cluster may take before a :class:`qhreg.exceptions.ClusterError`.
            Without it a fit waits for workers.
        progress : bool
            Whether to show a count of the passes.
        **options
            use_t, reml and search of :meth:`qhreg.QuantileHuberMLE.fit`.
        """
        cluster = cluster_of(client, timeout)
        frames = DaskFrames(self.frame, [str(c) for c in self.frame.columns], cluster)
        design = design_of(self.formula, frames, self.namespace, self.extras, self.missing)
        model = DaskModel(dask_rows(frames, design, persist, progress), design, **self.options)
        return _fitted(model, cov_type, cov_kwds, options)


def _fitted(model: DaskModel, cov_type: Any, cov_kwds: Any, options: Any) -> DaskResultsWrapper:
    """Return the fit with its covariance: the cluster may be gone when that is asked for."""
    results: DaskResultsWrapper = model.fit(cov_type, cov_kwds, **options)
    results._results.cov_params()
    return results


def quantile_huber(
    formula: str,
    data: Any,
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
) -> DaskRegression:
    """Return the regression of a Dask DataFrame by a formula.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ x + C(region)"``. The levels of categories are those of all rows.
    data : dask DataFrame
        The data; columns are taken by name in every partition.
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
    DaskRegression
        Its `fit` gives the results of a fit in memory, as far as sums carry them.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import numpy as np
    >>> import pandas as pd
    >>> from qhreg.dask import quantile_huber
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=60_000)
    >>> frame = pd.DataFrame({"x": x, "y": 1.0 + 2.0 * x + rng.gumbel(size=60_000)})
    >>> results = quantile_huber("y ~ x", dd.from_pandas(frame, npartitions=3)).fit()
    >>> results.params.round(2).to_dict()
    {'Intercept': 0.99, 'x': 2.01, 'sigma': 0.33, 'tau': 0.74}
    """
    frame = dask.is_dask_collection(data) and not isinstance(data, da.Array)
    if not (frame and getattr(data, "ndim", None) == 2):
        raise DataError(f"data must be a Dask DataFrame, got {type(data).__name__}")
    return DaskRegression(
        formula,
        data,
        RowColumns(freq_weights, weights, offset),
        missing,
        dict(formula_namespace(formula, eval_env, depth=2)),
        {"kappa": kappa, "tau": tau, "sigma": sigma, "tau_bounds": tau_bounds},
    )


def fit(
    exog: Any,
    endog: Any,
    *,
    kappa: float | None = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    names: Sequence[str] | None = None,
    missing: str = "raise",
    cov_type: str | None = None,
    client: Any = None,
    persist: bool | str = "auto",
    timeout: float | None = None,
    progress: bool = False,
    **options: Any,
) -> DaskResultsWrapper:
    """Return the fit of arrays on Dask, or of columns of a Dask DataFrame, without a formula.

    Parameters
    ----------
    exog : dask array of shape (n, p), or dask DataFrame
        Regressors; no constant is added.
    endog : dask array of shape (n,), or dask Series
        Response: an array in the chunks of `exog`, or a column of the same DataFrame.
    kappa, tau, sigma, tau_bounds
        As in :class:`qhreg.QuantileHuberMLE`.
    freq_weights, weights, offset, groups : dask array or Series, optional
        As `endog`. `groups` are those of ``cov_type="cluster"``.
    names : sequence of str, optional
        Names of the columns of an array.
    missing : {"raise", "drop"}
        What to do with rows that have a missing value.
    cov_type, client, persist, timeout, progress, **options
        As in :meth:`DaskRegression.fit`.

    Returns
    -------
    DaskResults
        The results of a fit in memory, as far as sums carry them.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from qhreg.dask import fit
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(60_000), rng.normal(size=60_000)])
    >>> y = X @ [1.0, 2.0] + rng.gumbel(size=60_000)
    >>> results = fit(da.from_array(X, chunks=(20_000, 2)), da.from_array(y, chunks=20_000))
    >>> results.params.round(2).to_dict()
    {'x1': 0.99, 'x2': 2.01, 'sigma': 0.33, 'tau': 0.74}
    """
    vectors = {
        "endog": endog,
        "freq_weights": freq_weights,
        "weights": weights,
        "offset": offset,
        "groups": groups,
    }
    vectors = {role: values for role, values in vectors.items() if values is not None}
    table, columns, labels = _table(exog, vectors, names)
    extras = RowColumns(labels.get("freq_weights"), labels.get("weights"), labels.get("offset"))
    design = _design(columns, labels["endog"], extras, missing)
    frames = DaskFrames(table, [*columns, *labels.values()], cluster_of(client, timeout))
    rows = dask_rows(frames, design, persist, progress)
    model = DaskModel(rows, design, kappa=kappa, tau=tau, sigma=sigma, tau_bounds=tau_bounds)
    delattr(model.data, SPEC_NAME)  # new rows are columns, not variables of a formula
    kwds = {"groups": labels["groups"]} if groups is not None and cov_type == "cluster" else None
    return _fitted(model, cov_type, kwds, options)


def _table(
    exog: Any, vectors: dict[str, Any], names: Sequence[str] | None
) -> tuple[Any, list[str], dict[str, str]]:
    """Return one table of all columns, the names of the regressors, and those of the vectors."""
    if getattr(exog, "ndim", None) != 2 or not dask.is_dask_collection(exog):
        raise DataError("exog must be a matrix: a two-dimensional Dask array, or a DataFrame")
    arrays = isinstance(exog, da.Array)
    for name, values in vectors.items():
        alike = isinstance(values, da.Array) == arrays and getattr(values, "ndim", None) == 1
        if not (dask.is_dask_collection(values) and alike):
            kind = "a Dask array like exog" if arrays else "a Dask Series, a column of exog's frame"
            raise DataError(f"{name} must be {kind}, got {type(values).__name__}")
    if names is None:
        names = [f"x{j + 1}" for j in range(exog.shape[1])] if arrays else list(exog.columns)
    columns = [str(name) for name in names]
    if len(columns) != exog.shape[1]:
        raise DataError(f"names has {len(columns)} entries, exog has {exog.shape[1]} columns")
    if len(set(columns)) < len(columns):
        raise DataError(f"the columns of exog must have different names, got {', '.join(columns)}")
    labels: dict[str, str] = {}
    for role in vectors:
        labels[role] = role
        while labels[role] in columns:
            labels[role] += "_"
    if arrays:
        return _zipped(exog, vectors, columns, list(labels.values())), columns, labels
    if list(exog.columns) != columns:
        exog = exog.rename(columns=dict(zip(exog.columns, columns, strict=True)))
    try:
        return exog.assign(**{labels[role]: v for role, v in vectors.items()}), columns, labels
    except ValueError as error:
        raise DataError(
            f"endog, weights, offset and groups must be columns of the DataFrame of exog: {error}"
        ) from error


def _zipped(exog: Any, vectors: dict[str, Any], columns: list[str], labels: list[str]) -> list[Any]:
    """Return the chunks of arrays side by side, each a Delayed DataFrame."""
    pieces = [np.ravel(exog.rechunk({1: -1}).to_delayed()).tolist()]
    for name, values in vectors.items():
        pieces.append(list(values.to_delayed()))
        if len(pieces[-1]) != len(pieces[0]):
            raise DataError(
                f"{name} has {len(pieces[-1])} partitions, exog has {len(pieces[0])}: rechunk it alike"
            )
    table = dask.delayed(_side_by_side, pure=False)
    return [table(columns, labels, *chunks) for chunks in zip(*pieces, strict=True)]


def _side_by_side(columns: list[str], labels: list[str], exog: Any, *vectors: Any) -> pd.DataFrame:
    frame = pd.DataFrame(np.asarray(exog), columns=columns)
    return frame.assign(**dict(zip(labels, vectors, strict=True)))


def _design(columns: list[str], endog: str, extras: RowColumns, missing: str) -> Design:
    """Return the design of columns as they are."""
    sides = [
        [patsy.Term([patsy.LookupFactor(name)]) for name in side] for side in ([endog], columns)
    ]
    numbers = pd.DataFrame([[0.0] * (len(columns) + 1)], columns=[*columns, endog])
    left, right = patsy.design_matrix_builders(sides, lambda: iter([numbers]), 0)
    return Design("", left, right, {}, (*columns, endog, *extras.names), extras, missing)
