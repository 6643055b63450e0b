"""The fit of rows that lie on Dask, in memory, on disk or on other machines.

Every sum over rows is made where they are, partition by partition, by the same reduction that serves
arrays; only the sums travel. A random sample of the rows is gathered for the starting point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from qhreg.covariance import CovarianceEstimate, nonrobust_covariance
from qhreg.exceptions import DataError, DomainError
from qhreg.fitstatistics import information_criterion, location_level
from qhreg.information import DesignMoments, design_moments
from qhreg.inputs import rows_of
from qhreg.intervals import wald_intervals
from qhreg.likelihood import Totals, reduce_rows
from qhreg.parameters import EXTRA_NAMES, Parameters, ParameterSpace
from qhreg.rows import ArrayRows, Block, Taken
from qhreg.scores import Point
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve_rows, task_of
from qhreg.threads import one_blas_thread
from qhreg.zone import Zone

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise ImportError(
        "qhreg.dask needs Dask: install it with the extra, pip install 'qhreg[dask]'"
    ) from error

__all__ = ["DaskResults", "DaskRows", "fit"]

FloatArray = npt.NDArray[np.float64]


class _Facts(NamedTuple):
    """What the client has to know of one partition."""

    n_rows: int
    n_columns: int
    weight_sum: float
    least_weight: float
    endog_size: float
    bad: dict[str, int]


def _partition(exog: Any, endog: Any, weights: Any, offset: Any) -> ArrayRows:
    """Return one partition as rows; those without weight are left out."""
    if weights is not None and not np.any(np.asarray(weights) != 0.0):
        return ArrayRows(np.empty((0, np.asarray(exog).shape[1])), np.empty(0), np.empty(0))
    return rows_of(exog, endog, weights, offset, check=False)


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
    """Rows in partitions on Dask; see :class:`qhreg.rows.GivenRows`.

    Attributes
    ----------
    parts : tuple
        Delayed :class:`qhreg.rows.ArrayRows`, none of them empty.
    starts : ndarray of int
        Number of the first row of each partition, and the number of all rows.
    n_columns : int
        Regressors.
    weight_sum, least_weight, endog_size : float
        As in :class:`qhreg.rows.ArrayRows`.
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
    if isinstance(values, da.Array) and values.ndim == 2:
        values = values.rechunk({1: -1})
    found = list(np.ravel(values.to_delayed()))
    if count is not None and len(found) != count:
        raise DataError(
            f"{name} has {len(found)} partitions, exog has {count}: rechunk or repartition it alike"
        )
    return found


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


def _rows(exog: Any, endog: Any, weights: Any, offset: Any, persist: bool) -> DaskRows:
    """Return the rows, looked at once."""
    if getattr(exog, "ndim", None) != 2:
        raise DataError("exog must be a matrix: a two-dimensional Dask array, or a DataFrame")
    x = _pieces("exog", exog)
    extras = [
        [None] * len(x) if given is None else _pieces(name, given, len(x))
        for name, given in (("endog", endog), ("weights", weights), ("offset", offset))
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


def _moments(part: ArrayRows) -> DesignMoments:
    return design_moments(part.exog, part.weights)


def _all_moments(rows: DaskRows) -> DesignMoments:
    """Return the moments of all regressors from those of the partitions."""
    parts = rows.map(_moments)
    stacked = np.vstack([part.factor for part in parts])
    factor = np.zeros((rows.n_columns, rows.n_columns))
    triangle = np.asarray(np.linalg.qr(stacked, mode="r"))
    factor[: triangle.shape[0]] = triangle
    return DesignMoments(
        rows.weight_sum, np.sum([part.column_sum for part in parts], axis=0), factor
    )


@dataclass(frozen=True)
class DaskResults:
    """A fit of rows on Dask.

    Attributes
    ----------
    solution : Solution
        Estimates with their duality gap.
    space : ParameterSpace
        Which of sigma and tau were estimated.
    names : list of str
        Names of the coefficients.
    covariance : CovarianceEstimate
        Inverse expected information.
    """

    solution: Solution
    space: ParameterSpace
    names: list[str]
    covariance: CovarianceEstimate

    @property
    def params(self) -> pd.Series:
        """Estimates."""
        s = self.solution
        values = self.space.pack(Parameters(s.beta, s.sigma, s.tau, s.kappa))
        return pd.Series(values, index=[*self.names, *self.space.extra_names])

    @property
    def bse(self) -> pd.Series:
        """Standard errors; NaN for a tau that ended on its bound."""
        errors = pd.Series(np.sqrt(np.diag(self.covariance.cov)), index=self.params.index)
        errors[list(self.covariance.held_fixed)] = np.nan
        return errors

    @property
    def tau(self) -> float:
        """Asymmetry."""
        return self.solution.tau

    @property
    def sigma(self) -> float:
        """Scale."""
        return self.solution.sigma

    @property
    def kappa(self) -> float:
        """Huber width."""
        return self.solution.kappa

    @property
    def nobs(self) -> float:
        """Number of observations: the sum of the weights."""
        return self.solution.n

    @property
    def llf(self) -> float:
        """Log-likelihood."""
        return self.solution.loglike

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return information_criterion(self.llf, self.space.size, self.nobs, "aic")

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return information_criterion(self.llf, self.space.size, self.nobs, "bic")

    @property
    def quantile_level(self) -> float:
        """P(y < x'beta) in the fitted law."""
        return location_level(self.tau, self.kappa)

    @property
    def converged(self) -> bool:
        """Whether the fit is proved."""
        return self.solution.converged

    @property
    def duality_gap(self) -> float:
        """How far the log-likelihood can be below its maximum at this tau."""
        return self.solution.gap

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return Wald intervals: sigma on the log, tau on the logit scale."""
        critical = float(special.ndtri(1.0 - 0.5 * alpha))
        params, bse = self.params, self.bse
        limits = wald_intervals(params.to_numpy(), bse.to_numpy(), self.space, critical)
        return pd.DataFrame(limits, index=params.index, columns=[0, 1])

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, standard errors, tests against 0 (tau: against 1/2) and intervals."""
        params, bse = self.params, self.bse
        null = pd.Series(0.0, index=params.index)
        if "tau" in params.index:
            null["tau"] = 0.5
        z = (params - null) / bse
        if "sigma" in params.index:
            z["sigma"] = np.nan  # sigma = 0 is no hypothesis
        limits = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "coef": params,
                "std err": bse,
                "z": z,
                "P>|z|": 2.0 * special.ndtr(-z.abs()),
                f"[{alpha / 2:g}": limits[0],
                f"{1 - alpha / 2:g}]": limits[1],
            }
        )

    def __str__(self) -> str:
        gap = f"converged, gap {self.duality_gap:.1e}" if self.converged else "NOT CONVERGED"
        head = (
            f"Quantile Huber regression, {self.nobs:.10g} observations, kappa = {self.kappa:g}, {gap}\n"
            f"log-likelihood {self.llf:.8g}, P(y < x'beta) = {self.quantile_level:.4f}"
        )
        return f"{head}\n{self.summary_frame().to_string(float_format='%.5g', na_rep='')}"


def fit(
    exog: Any,
    endog: Any,
    *,
    kappa: float = 1.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    freq_weights: Any = None,
    offset: Any = None,
    names: Sequence[str] | None = None,
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
    {'x1': 0.81, 'x2': 2.01, 'sigma': 0.36, 'tau': 0.73}
    """
    if kappa is None:
        raise DomainError("kappa must be a number here: estimate it on a sample of the rows first")
    task = task_of(kappa, tau, sigma, tau_bounds)
    rows = _rows(exog, endog, freq_weights, offset, persist)
    columns = _names(exog, names, rows.n_columns)
    solution = solve_rows(rows, task, names=columns)
    space = ParameterSpace(rows.n_columns, task.sigma, task.tau, task.kappa)
    point = Point(
        solution.beta, solution.sigma, solution.tau, solution.kappa, solution.tau_at_bound
    )
    estimate = nonrobust_covariance(_all_moments(rows), point, space.free)
    return DaskResults(solution, space, columns, estimate)
