"""The fit of rows on Dask, by the code that serves arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qhreg.covariance.choice import known_type
from qhreg.dask.covariance import dask_covariance
from qhreg.dask.results import DaskResults
from qhreg.dask.rows import dask_rows
from qhreg.exceptions import DataError, DomainError
from qhreg.solver import DEFAULT_TAU_BOUNDS, solve_rows, task_of
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace

__all__ = ["fit"]


OFFERED = ("nonrobust", "HC0", "HC1", "HC2", "HC3")
"""The types of covariance of rows on Dask."""


def _names(exog: Any, names: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of the columns, checked."""
    if names is None:
        columns = getattr(exog, "columns", None)
        names = [f"x{j + 1}" for j in range(count)] if columns is None else list(columns)
    found = [str(name) for name in names]
    if len(found) != count:
        raise DataError(f"names has {len(found)} entries, exog has {count} columns")
    taken = [name for name in found if name in EXTRA_NAMES]
    if taken:
        raise DataError(
            f"exog has a column called {taken[0]!r}, the name of a parameter: rename it"
        )
    return found


def fit(
    exog: Any,
    endog: Any,
    *,
    kappa: float = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    freq_weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
    cov_type: str = "HC3",
    persist: bool = True,
) -> DaskResults:
    """Return the maximum-likelihood fit of rows on Dask.

    Parameters
    ----------
    exog : dask array of shape (n, p), or dask DataFrame
        Regressors; no constant is added.
    endog : dask array of shape (n,), or dask Series
        Response, in the same partitions as `exog`.
    kappa : float
        Huber width in units of sigma; it has to be given.
    tau, sigma : float or None
        A number fixes the parameter, None estimates it.
    tau_bounds : (float, float)
        Range of an estimated tau.
    freq_weights, offset : dask array or Series, optional
        How often each row was observed; known part of the location.
    names : sequence of str, optional
        Names of the columns; those of a DataFrame by default.
    cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2"}
        Covariance of the parameters, as in `QuantileHuberMLE.fit`.
    persist : bool
        Whether to keep the partitions in the memory of the workers. False reads them anew in every
        pass, of which there are about ten: for data larger than memory.

    Returns
    -------
    DaskResults
        Estimates with standard errors, as :class:`qhreg.QuantileHuberMLE` gives for the same rows.

    Notes
    -----
    With kappa > 0 only sums travel. At kappa = 0 the exact method looks at the rows themselves,
    one partition at a time, on the machine that calls.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from qhreg.dask import fit
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(60_000), rng.normal(size=60_000)])
    >>> y = X @ [1.0, 2.0] + rng.gumbel(size=60_000)
    >>> found = fit(da.from_array(X, chunks=(20_000, 2)), da.from_array(y, chunks=20_000))
    >>> found.params.round(2).to_dict()
    {'x1': 0.99, 'x2': 2.01, 'sigma': 0.33, 'tau': 0.74}
    """
    if kappa is None:
        raise DomainError("kappa must be a number here: estimate it on a sample of the rows first")
    cov_type = known_type(cov_type)
    if cov_type not in OFFERED:
        raise DomainError(
            f"cov_type must be one of {', '.join(OFFERED)} for rows on Dask; got {cov_type!r}"
        )
    task = task_of(kappa, tau, sigma, tau_bounds)
    rows = dask_rows(exog, endog, freq_weights, offset, persist)
    columns = _names(exog, names, rows.n_columns)
    solution = solve_rows(rows, task, names=columns)
    space = ParameterSpace(rows.n_columns, task.sigma, task.tau, task.kappa)
    every = [*columns, *space.extra_names]
    estimate = dask_covariance(cov_type, rows, task, solution, space, every)
    return DaskResults(solution, space, columns, estimate)
