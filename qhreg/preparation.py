"""From rows to a problem: coordinates and a starting point.

Small data are copied into an orthonormal basis. Large data stay where they are: a random sample of the
rows gives the coordinates, the starting point and the first Hessian.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.basis import CHOLESKY_SAFE, Basis, basis_of, recentred, rescaled, triangular_factor
from qhreg.convex import MANY_ROWS
from qhreg.exceptions import DataError
from qhreg.inputs import endog_scale, require_finite
from qhreg.leastsquares import SUSPECT_SPREAD, least_squares, moments_of, starting_point
from qhreg.likelihood import SHORT_BLOCK, ArrayRows, Block
from qhreg.local import local_fit
from qhreg.newton import Curvature, newton
from qhreg.problem import Problem, Task

__all__ = ["Setup", "narrowed_start", "sampled", "set_up"]

FloatArray = npt.NDArray[np.float64]

SPOILED = 1e-3
"""Median regression with residuals below this share of least squares' shows that it was spoiled."""

CHUNK_ROWS = 4096
"""Rows of one chunk of the second sample."""

MANY_CHUNKS = 64
"""Chunks in the data from which a second sample pays."""

SMALL_SIZE = 150_000
"""Elements of [X, y] up to which awkward data are worked on whole, in an orthonormal copy."""

COPIED_SIZE = 20_000
"""Elements of [X, y] up to which all data are: a copy is then quicker than care."""

WHOLE_SHARE = 25
"""Rows in the data per row of the sample below which least squares of all rows comes first."""


@dataclass(frozen=True)
class _Sample:
    """Some rows in float64."""

    exog: FloatArray
    endog: FloatArray
    weights: FloatArray | None


def _take(rows: ArrayRows, chosen: npt.NDArray[np.intp] | slice) -> _Sample:
    """Return the chosen rows as float64 copies, the offset taken off the response."""
    assert rows.endog is not None
    exog = np.asarray(rows.exog[chosen], dtype=np.float64)
    endog = np.asarray(rows.endog[chosen], dtype=np.float64)
    if rows.offset is not None:
        endog = endog - rows.offset[chosen]
    if rows.endog_scale != 1.0:
        endog = endog / rows.endog_scale
    return _Sample(exog, endog, None if rows.weights is None else rows.weights[chosen])


def _has_residual(basis: Basis, endog: FloatArray) -> bool:
    """Return whether least squares leaves more than rounding of the response."""
    if basis.design.shape[0] <= basis.columns.size:
        return False
    residual = float(np.abs(basis.design[:, -1]).max(initial=0.0)) / basis.matrix[-1, -1]
    return bool(residual > 1e-12 * np.abs(endog).max(initial=0.0))


def _reject_perfect_fit(rows: ArrayRows, basis: Basis, task: Task) -> None:
    """Raise a DataError: without residuals the likelihood grows without bound as sigma falls."""
    if task.sigma is not None:
        return
    r = basis.columns.size
    cause = (
        f"{rows.n_rows} rows for {r} independent columns leave no residuals"
        if rows.n_rows <= r
        else "the regressors fit endog exactly (a constant endog, or a copy of a column)"
    )
    raise DataError(
        f"{cause}: sigma would go to 0 and the likelihood to infinity; fix sigma to fit"
    )


def _require_residual(rows: ArrayRows, basis: Basis, task: Task) -> None:
    """Reject a fit of all rows that leaves no more than rounding of the response."""
    for block in rows.blocks():
        assert block.endog is not None
        residual = block.endog + block.exog @ (basis.matrix[:-1, -1] / basis.matrix[-1, -1])
        if np.abs(residual).max() > 1e-12 * np.abs(block.endog).max():
            return
    _reject_perfect_fit(rows, basis, task)


def _scaled(curvature: Curvature, factor: float) -> Curvature:
    """Return the Hessian of a sample as an estimate of the Hessian of all rows."""
    return curvature._replace(
        d2_z=factor * curvature.d2_z,
        d_z_tau=factor * curvature.d_z_tau,
        d2_tau=factor * curvature.d2_tau,
        exact=False,
    )


def _sample_size(n: int, p: int) -> int:
    """Return how many rows to fit first: enough to start Newton's method in its fast range."""
    return min(n, max(4000, 40 * (p + 1), n // 100))


def _easy_width(kappa: float, rows: int, k: int) -> float:
    """Return the smallest width at which a sample has rows enough in the zone for Newton's method."""
    return max(kappa, min(1.0, 100.0 * k / rows))


def _triangular_basis(rows: ArrayRows) -> Basis:
    """Return the basis of all rows from a triangular factor accumulated over blocks."""
    factor = np.empty((0, rows.exog.shape[1] + 1))
    for block in rows.blocks():
        assert block.endog is not None
        stacked = np.vstack([factor, np.column_stack([block.exog, block.endog])])
        factor = triangular_factor(stacked)
    factor *= np.sqrt(factor.shape[0] / rows.n_rows)
    return basis_of(factor[:, :-1], factor[:, -1])


@dataclass(frozen=True)
class _Chunks:
    """Some runs of consecutive rows, spread evenly: a second, larger sample that is not copied."""

    rows: ArrayRows
    count: int

    @property
    def n_rows(self) -> int:
        return self.count * CHUNK_ROWS

    @property
    def n_unknowns(self) -> int:
        return self.rows.n_unknowns

    @cached_property
    def weight_sum(self) -> float:
        weights = self.rows.weights
        if weights is None:
            return float(self.count * CHUNK_ROWS)
        return float(sum(weights[chunk].sum() for chunk in self._slices()))

    def _slices(self) -> Iterator[slice]:
        for start in np.linspace(0, self.rows.n_rows - CHUNK_ROWS, self.count).astype(int):
            yield slice(int(start), int(start) + CHUNK_ROWS)

    def blocks(self) -> Iterator[Block]:
        for chunk in self._slices():
            yield self.rows.block(chunk)


@dataclass(frozen=True)
class Setup:
    """A problem in good coordinates with what is needed to start and to translate back.

    Attributes
    ----------
    basis : Basis
        The coordinates.
    problem : Problem
        The data and what is fixed.
    task : Task
        What to fit, in the units of the problem.
    scale : float
        The unit of the response: one except for data near the ends of the float range.
    weights : ndarray or None
        Case weights of the rows, zero ones dropped.
    start : (ndarray, float)
        Where to start.
    kurtosis : float
        Of the least-squares residuals of the rows in `start`'s sample.
    options : dict
        Options for Newton's method from there.
    """

    basis: Basis
    problem: Problem
    task: Task
    scale: float
    weights: FloatArray | None
    start: tuple[FloatArray, float]
    kurtosis: float
    options: dict[str, Any]


def _set_up_large(rows: ArrayRows, task: Task, scale: float) -> Setup:
    """Return coordinates, starting point and a first Hessian from a random sample of the rows."""
    n = rows.weight_sum
    m = _sample_size(rows.n_rows, rows.exog.shape[1])
    chosen = np.sort(np.random.default_rng(0).integers(0, rows.n_rows, m))
    sample = _take(rows, chosen)
    if not (np.isfinite(sample.exog).all() and np.isfinite(sample.endog).all()):
        require_finite(rows)
    basis = basis_of(sample.exog, sample.endog)
    degenerate = basis.dependent.size > 0 or not _has_residual(basis, sample.endog)
    if degenerate:
        basis = _triangular_basis(rows)
        _require_residual(rows, basis, task)
    collinear = basis.weakest <= CHOLESKY_SAFE
    mapped = replace(rows, transform=basis.matrix) if collinear else rows
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    problem = Problem(mapped, n, task.kappa, None if collinear else basis.matrix, theta)
    design = sample.exog @ basis.matrix[:-1]
    design[:, -1] += sample.endog * basis.matrix[-1, -1]
    width = _easy_width(task.kappa, m, basis.matrix.shape[1])
    weight = float(m if sample.weights is None else sample.weights.sum())
    small = Problem(ArrayRows(design, None, sample.weights), weight, width, None, theta)
    moments = moments_of(design)
    first = starting_point(moments, width, theta, task.tau)
    point = newton(small, *first, tau_bounds=task.free_bounds, tol=3e-3)
    start = (point.z, point.tau)
    curvature: Curvature | None = point.curvature
    if not point.error < 1e-2:
        fit = local_fit(small, *first, task).fit
        start, curvature = (fit.z, fit.tau), None
    if curvature is not None and (width != task.kappa or degenerate):
        curvature = None
    if curvature is not None:
        curvature = _scaled(curvature, n / weight)
    if rows.n_rows >= MANY_CHUNKS * CHUNK_ROWS:
        start, curvature = _refine_on_chunks(problem, mapped, start, curvature, task)
    options: dict[str, Any] = {"reuse_hessian": True}
    if curvature is not None:
        options["curvature"] = curvature
    return Setup(basis, problem, task, scale, rows.weights, start, moments.kurtosis, options)


def _refine_on_chunks(
    problem: Problem,
    rows: ArrayRows,
    start: tuple[FloatArray, float],
    curvature: Curvature | None,
    task: Task,
) -> tuple[tuple[FloatArray, float], Curvature | None]:
    """Return a better start and Hessian from an eighth of the rows."""
    chunks = _Chunks(rows, rows.n_rows // (8 * CHUNK_ROWS))
    n = chunks.weight_sum
    if not n > 0.0 or _easy_width(task.kappa, int(n), start[0].size) != task.kappa:
        return start, curvature
    point = newton(
        replace(problem, rows=chunks, n=n),
        *start,
        tau_bounds=task.free_bounds,
        curvature=None if curvature is None else _scaled(curvature, n / problem.n),
        reuse_hessian=True,
        tol=2e-3,
        max_passes=6,
    )
    if not point.error < 0.1:
        return start, curvature
    return (point.z, point.tau), _scaled(point.curvature, problem.n / n)


def set_up(rows: ArrayRows, task: Task) -> Setup:
    """Return the problem by the route the size of the data asks for.

    Small data are copied into an orthonormal basis; large data stay where they are, in the coordinates
    of a sample.
    """
    scale = endog_scale(rows)
    if scale != 1.0:
        rows = replace(rows, endog_scale=scale)
        task = replace(task, sigma=None if task.sigma is None else task.sigma / scale)
    size = rows.n_rows * (rows.exog.shape[1] + 1)
    if size > COPIED_SIZE:
        setup = _set_up_whole(rows, task, scale)
        if setup is not None:
            return setup
    if size > SMALL_SIZE:
        return _set_up_large(rows, task, scale)
    data = _take(rows, slice(None))
    basis = basis_of(data.exog, data.endog)
    if not _has_residual(basis, data.endog):
        _reject_perfect_fit(rows, basis, task)
        basis = rescaled(basis, task.sigma or 1.0)
    setup = _in_memory(_well_centred(basis, data), data, task, scale)
    _require_proportion(setup)
    return setup


def _set_up_whole(rows: ArrayRows, task: Task, scale: float) -> Setup | None:
    """Return coordinates and starting point from least squares of all rows, which are not copied.

    None when a sample serves better, or the data are too awkward for a Gram matrix.
    """
    n, p = rows.exog.shape
    if n <= SHORT_BLOCK or n >= WHOLE_SHARE * _sample_size(n, p):
        return None
    found = least_squares(rows)
    if found is None:
        return None
    basis, moments = found
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    if theta is not None and not 1e-6 < theta < 1e6:
        return None
    problem = Problem(rows, rows.weight_sum, task.kappa, basis.matrix, theta)
    start = starting_point(moments, task.kappa, theta, task.tau)
    options = {"reuse_hessian": True} if n > MANY_ROWS else {}
    return Setup(basis, problem, task, scale, rows.weights, start, moments.kurtosis, options)


def _in_memory(basis: Basis, data: _Sample, task: Task, scale: float) -> Setup:
    """Return the problem of rows copied into the basis."""
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    n = float(data.endog.size if data.weights is None else data.weights.sum())
    problem = Problem(ArrayRows(basis.design, None, data.weights), n, task.kappa, None, theta)
    moments = moments_of(basis.design)
    first = starting_point(moments, task.kappa, theta, task.tau)
    return Setup(basis, problem, task, scale, data.weights, first, moments.kurtosis, {})


def sampled(rows: ArrayRows, count: int) -> ArrayRows:
    """Return a random sample of the rows, the same for the same data."""
    chosen = np.sort(np.random.default_rng(1).integers(0, rows.n_rows, count))
    data = _take(rows, chosen)
    return ArrayRows(data.exog, data.endog, data.weights)


def _well_centred(basis: Basis, data: _Sample) -> Basis:
    """Return the basis centred near the median regression when least squares is far from it."""
    median_task = Task(kappa=0.0, tau=0.5, sigma=None, tau_bounds=(0.25, 0.75))
    for _ in range(4):
        size = np.abs(basis.design[:, -1])
        largest = float(size.max())
        if largest < 0.1 * SUSPECT_SPREAD * float(size.mean()):  # the mean is cheaper
            break
        if largest < SUSPECT_SPREAD * float(np.median(size)):
            break
        setup = _in_memory(basis, data, median_task, 1.0)
        z = local_fit(setup.problem, *setup.start, median_task).fit.z
        left = float(np.median(np.abs(basis.design @ z))) / float(z[-1])
        if left > SPOILED * float(np.median(size)):
            break
        basis = recentred(basis, data.exog, data.endog, z)
    return basis


def _require_proportion(setup: Setup) -> None:
    """Raise a DataError when a fixed sigma and the residuals differ beyond what floats can hold."""
    theta = setup.problem.theta
    if theta is None:
        return
    typical = theta * max(float(np.median(np.abs(setup.basis.design[:, -1]))), 1e-3)
    if not 1e-12 < typical < 1e12:
        raise DataError(
            f"sigma is fixed at {(setup.task.sigma or 0.0) * setup.scale:g} but the residuals are "
            f"about {typical:.1e} times as large; give sigma in the units of endog, or estimate it"
        )


def narrowed_start(
    problem: Problem, start: tuple[FloatArray, float], task: Task
) -> tuple[FloatArray, float]:
    """Return a starting point for a small width, from the fit at the narrowest easy one."""
    width = _easy_width(task.kappa, int(problem.n), start[0].size)
    if width == task.kappa:
        return start
    wide = replace(problem, kappa=width)
    point = newton(
        wide, *start, tau_bounds=task.free_bounds, tol=1e-5, reuse_hessian=True, max_passes=15
    )
    return (point.z, point.tau) if point.error < 1e-2 else start
