"""From rows to a problem: coordinates and a starting point.

Small data are copied into an orthonormal basis. Large data stay where they are: a random sample of the
rows gives the coordinates and the starting point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, Block, GivenRows, Taken
from qhreg.exceptions import DataError
from qhreg.solver.basis import (
    CHOLESKY_SAFE,
    VANISHING,
    Basis,
    basis_of,
    recentred,
    rescaled,
    triangular_factor,
    typical_size,
)
from qhreg.solver.exact import ALL_ROWS
from qhreg.solver.inputs import endog_scale, require_finite
from qhreg.solver.leastsquares import (
    CLOSE,
    SUSPECT_SPREAD,
    Centred,
    centred,
    least_squares,
    moments_of,
    starting_point,
)
from qhreg.solver.local import local_fit
from qhreg.solver.newton import SHORT_STEP, newton, unverified_step
from qhreg.solver.problem import Problem, Task
from qhreg.solver.taufit import TINY_KAPPA

__all__ = ["Setup", "narrowed_start", "set_up"]


SPOILED = 1e-3
"""Median regression with residuals below this share of least squares' shows that it was spoiled."""

SUSPECT_ROWS = 1000
"""Rows of the sample that takes the place of least squares where an outlier may have spoiled it."""

CHUNK_ROWS = 8192
"""Rows of one chunk of the second sample."""

MANY_CHUNKS = 32
"""Chunks in the data from which a second sample pays."""

SMALL_SIZE = 150_000
"""Elements of [X, y] up to which awkward data are worked on whole, in an orthonormal copy."""

COPIED_SIZE = 18_000
"""Elements of [X, y] up to which all data are: a copy is then quicker than care."""

MANY_ROWS = 20_000
"""Rows from which a pass at a wider width is cheap beside the passes it saves."""

WHOLE_SHARE = 25
"""Rows in the data per row of the sample below which least squares of all rows comes first."""

MANY_COLUMNS = 30
"""Unknowns from which on an exact fit takes much longer than Newton's method."""

NARROWER = 3.0
"""How much narrower a zone is made at a time."""

NARROWING = 15
"""Passes over the data in the fit of one width on the way to a narrower one."""

MEDIAN = Task(kappa=0.0, tau=0.5, sigma=None, tau_bounds=(0.25, 0.75), reml=False)
"""Median regression."""


def _has_residual(basis: Basis, endog: FloatArray, share: float = 1e-12) -> bool:
    """Return whether least squares leaves more than rounding, or some share, of the response."""
    if basis.design.shape[0] <= basis.columns.size:
        return False
    largest = basis.spread / basis.matrix[-1, -1]  # the mean is the unit of the design
    return bool(largest > share * np.abs(endog).max(initial=0.0))


def _reject_perfect_fit(rows: GivenRows, basis: Basis, task: Task) -> None:
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


def _require_residual(rows: GivenRows, basis: Basis, task: Task) -> None:
    """Reject a fit of all rows that leaves no more than rounding of the response."""
    for block in rows.blocks():
        assert block.endog is not None
        residual = block.endog + block.exog @ (basis.matrix[:-1, -1] / basis.matrix[-1, -1])
        if np.abs(residual).max() > 1e-12 * np.abs(block.endog).max():
            return
    _reject_perfect_fit(rows, basis, task)


def _sample_size(n: int, p: int) -> int:
    """Return how many rows to fit first: enough to start Newton's method in its fast range."""
    return min(n, max(4000, 40 * (p + 1), n // 100))


def _easy_width(kappa: float, rows: int, k: int) -> float:
    """Return the smallest width at which a sample has rows enough in the zone for Newton's method."""
    return max(kappa, min(1.0, 100.0 * k / rows))


def _rank(task: Task, basis: Basis) -> float:
    """Return p of the restricted likelihood, zero for the ordinary one."""
    if not task.reml or (task.rank is None and task.sigma is not None):
        return 0.0
    return (basis.columns.size if task.rank is None else task.rank) / task.unit


def _triangular_basis(rows: GivenRows) -> Basis:
    """Return the basis of all rows from a triangular factor accumulated over blocks."""
    factor = np.empty((0, rows.n_columns + 1))
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
    def n_columns(self) -> int:
        return self.rows.n_columns

    @property
    def n_unknowns(self) -> int:
        return self.rows.n_unknowns

    @cached_property
    def weight_sum(self) -> float:
        weights = self.rows.weights
        if weights is None:
            return float(self.count * CHUNK_ROWS)
        return float(sum(weights[chunk].sum() for chunk in self._slices()))

    @property
    def least_weight(self) -> float:
        return self.rows.least_weight

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
    narrow : bool
        Whether to come to a small width from a wider one.
    """

    basis: Basis
    problem: Problem
    task: Task
    scale: float
    weights: FloatArray | None
    start: tuple[FloatArray, float]
    kurtosis: float
    narrow: bool


def _set_up_large(rows: GivenRows, task: Task, scale: float) -> Setup:
    """Return coordinates and starting point from a random sample of the rows."""
    n = rows.weight_sum
    m = _sample_size(rows.n_rows, rows.n_columns)
    sample = rows.take(np.sort(np.random.default_rng(0).integers(0, rows.n_rows, m)))
    if not (np.isfinite(sample.exog).all() and np.isfinite(sample.endog).all()):
        require_finite(rows)
    basis = basis_of(sample.exog, sample.endog)
    degenerate = basis.dependent.size > 0 or not _has_residual(basis, sample.endog)
    if degenerate:
        basis = _triangular_basis(rows)
        _require_residual(rows, basis, task)
    awkward = basis.weakest <= CHOLESKY_SAFE or not _has_residual(basis, sample.endog, CLOSE)
    mapped = rows.transformed(basis.matrix) if awkward else rows
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    rank = _rank(task, basis)
    problem = Problem(mapped, n, task.kappa, None if awkward else basis.matrix, theta, rank)
    start, kurtosis = _fitted_sample(sample, basis.matrix, theta, task, rank)
    if isinstance(mapped, ArrayRows) and rows.n_rows >= MANY_CHUNKS * CHUNK_ROWS:
        start = _refined_on_chunks(problem, mapped, start, task)
    basis = replace(basis, design=basis.design[:0].copy())  # the sample is not needed any more
    return Setup(basis, problem, task, scale, rows.weights, start, kurtosis, True)


def _fitted_sample(
    sample: Taken, matrix: FloatArray, theta: float | None, task: Task, rank: float
) -> tuple[tuple[FloatArray, float], float]:
    """Return the fit of a sample, at a width that is easy for it, and the kurtosis of its residuals.

    The residuals are those in the coordinates, which `matrix` leads to.
    """
    design = sample.exog @ matrix[:-1]
    design[:, -1] += sample.endog * matrix[-1, -1]
    width = _easy_width(task.kappa, *design.shape)
    small = Problem(
        ArrayRows(design, None, sample.weights), sample.weight_sum, width, None, theta, rank
    )
    moments = moments_of(design)
    first = starting_point(moments, width, theta, task.tau)
    point = newton(small, *first, tau_bounds=task.free_bounds, tol=3e-3)
    if point.error < 1e-2:
        return (point.z, point.tau), moments.kurtosis
    fit = local_fit(small, *first, task).fit
    return (fit.z, fit.tau), moments.kurtosis


def _refined_on_chunks(
    problem: Problem, rows: ArrayRows, start: tuple[FloatArray, float], task: Task
) -> tuple[FloatArray, float]:
    """Return a better start from an eighth of the rows."""
    chunks = _Chunks(rows, rows.n_rows // (8 * CHUNK_ROWS))
    n = chunks.weight_sum
    if not n > 0.0 or _easy_width(task.kappa, chunks.n_rows, start[0].size) != task.kappa:
        return start
    part = replace(problem, rows=chunks, n=n)
    point = newton(part, *start, tau_bounds=task.free_bounds, tol=SHORT_STEP, max_passes=6)
    if not point.error <= SHORT_STEP:
        return start
    z, tau, _ = unverified_step(part, point, task.free_bounds)
    return z, tau


def set_up(rows: GivenRows, task: Task) -> Setup:
    """Return the problem by the route the size of the data asks for.

    Small data are copied into an orthonormal basis; large data stay where they are, in the coordinates
    of a sample.
    """
    scale = endog_scale(rows)
    if scale != 1.0:
        rows = rows.scaled(scale)
        task = replace(task, sigma=None if task.sigma is None else task.sigma / scale)
    size = rows.n_rows * (rows.n_columns + 1)
    if size > COPIED_SIZE and isinstance(rows, ArrayRows):
        setup = _set_up_whole(rows, task, scale)
        if setup is not None:
            return setup
    if size > SMALL_SIZE:
        return _set_up_large(rows, task, scale)
    data = rows.take(slice(None))
    basis = basis_of(data.exog, data.endog)
    if not _has_residual(basis, data.endog):
        _reject_perfect_fit(rows, basis, task)
        basis = rescaled(basis, task.sigma or 1.0)
    setup = _in_memory(_well_centred(basis, data), data, task, scale)
    _require_proportion(setup)
    return setup


def _set_up_whole(rows: ArrayRows, task: Task, scale: float) -> Setup | None:
    """Return coordinates and starting point from least squares of all rows, which are not copied.

    None when a sample serves better, or a copy, which the exact method takes of few rows anyway, and
    when the data are too awkward for a Gram matrix.
    """
    n, p = rows.exog.shape
    if n <= ALL_ROWS or n >= WHOLE_SHARE * _sample_size(n, p):
        return None
    found, sample = least_squares(rows), None
    if found is not None and found.suspect:
        sample = rows.take(slice(None, None, max(1, n // max(SUSPECT_ROWS, 5 * p))))
        found = _without_outliers(rows, found, sample)
    if found is None:
        return None
    basis, moments = found.basis, found.moments
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    if theta is not None and not 1e-6 < theta < 1e6:
        return None
    rank = _rank(task, basis)
    problem = Problem(rows, rows.weight_sum, task.kappa, basis.matrix, theta, rank)
    if sample is None:
        start = starting_point(moments, task.kappa, theta, task.tau)
    else:
        start = _fitted_sample(sample, basis.matrix, theta, task, rank)[0]
    narrow = sample is not None or n > MANY_ROWS
    return Setup(basis, problem, task, scale, rows.weights, start, moments.kurtosis, narrow)


def _without_outliers(rows: ArrayRows, found: Centred, sample: Taken) -> Centred | None:
    """Return the coordinates about the median regression of a sample where that is much closer.

    None when the sample is too awkward to tell.
    """
    basis = basis_of(sample.exog, sample.endog)
    if basis.dependent.size or not _has_residual(basis, sample.endog):
        return None
    raw = _well_centred(basis, sample).matrix[:, -1]
    beta = -raw[:-1] / raw[-1]
    closer = centred(rows, found.basis, beta, robust=True)
    if closer is None or closer.middle >= SPOILED * found.middle:
        return found
    interpolated = closer.middle < VANISHING * typical_size(
        sample.endog - sample.exog @ beta, sample.exog
    )
    return found if interpolated else closer


def _in_memory(basis: Basis, data: Taken, task: Task, scale: float) -> Setup:
    """Return the problem of rows copied into the basis."""
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    rows = ArrayRows(basis.design, None, data.weights)
    problem = Problem(rows, data.weight_sum, task.kappa, None, theta, _rank(task, basis))
    moments = moments_of(basis.design)
    first = starting_point(moments, task.kappa, theta, task.tau)
    return Setup(basis, problem, task, scale, data.weights, first, moments.kurtosis, False)


def _well_centred(basis: Basis, data: Taken) -> Basis:
    """Return the basis centred near the median regression when least squares is far from it."""
    for done in range(4):
        if basis.spread < 0.1 * SUSPECT_SPREAD:  # the mean is cheaper than the median
            break
        size = np.abs(basis.design[:, -1])
        largest, half = float(size.max()), size.size // 2
        size.partition(half)  # quicker than a median, which may lie between two values
        middle = float(size[half])
        if largest < SUSPECT_SPREAD * middle or (done and middle < VANISHING):
            break  # no outliers, or most rows are interpolated
        setup = _in_memory(basis, data, MEDIAN, 1.0)
        z = local_fit(setup.problem, *setup.start, MEDIAN).fit.z
        left = float(np.median(np.abs(basis.design @ z))) / float(z[-1])
        if left > SPOILED * middle:
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
    """Return a starting point for a small width, from the fit at the narrowest easy one.

    With many columns, where exact fits take long, the zone is then narrowed step by step.
    """
    slowly = start[0].size > MANY_COLUMNS and task.kappa > TINY_KAPPA
    width = _easy_width(task.kappa, problem.rows.n_rows, start[0].size)
    while width > task.kappa:
        wide = replace(problem, kappa=width)
        point = newton(wide, *start, tau_bounds=task.free_bounds, tol=1e-5, max_passes=NARROWING)
        if not point.error < 1e-2:
            break
        start = point.z, point.tau
        width = width / NARROWER if slowly else task.kappa
    return start
