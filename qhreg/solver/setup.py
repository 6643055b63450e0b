"""From rows to a problem: coordinates and a starting point.

Two routes. Data of up to a sample's size are copied into an orthonormal basis. Larger data stay where
they are; a random sample of the rows, of fixed size and with a fixed seed, gives the coordinates, and
carries the scan over tau.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qhreg._precision import INTERPOLATED, ROUNDING
from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, GivenRows, RowBlocks, Taken, require_finite
from qhreg.exceptions import DataError
from qhreg.solver.basis import (
    CHOLESKY_SAFE,
    Basis,
    basis_of,
    recentred,
    rescaled,
    triangular_factor,
)
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.problem import Problem, Task

SAMPLE_ROWS = 2048
"""Rows of the sample: a pass over them costs little more than the call."""

SAMPLE_PER_COLUMN = 10
"""Rows of the sample per column at the least."""

CLOSE = 1e-5
"""Residuals below this share of the response are to be formed once: each time they round differently."""

SUSPECT_SPREAD = 100.0
"""Largest over median residual below which no outlier can have spoiled least squares."""

SPOILED = 1e-3
"""Median regression with residuals below this share of least squares' shows that it was spoiled."""

MEDIAN = Task(kappa=0.0, tau=0.5, sigma=None, tau_bounds=(0.25, 0.75), reml=False)
"""Median regression."""


@dataclass(frozen=True)
class Setup:
    """A problem in good coordinates with what is needed to start and to translate back.

    Attributes
    ----------
    basis : Basis
        The coordinates.
    problem : Problem
        The data and what is fixed.
    sample : Problem
        The problem of the sample, which is the whole where that is no larger.
    task : Task
        What to fit, in the units of the problem.
    scale : float
        The unit of the response: one except for data near the ends of the float range.
    """

    basis: Basis
    problem: Problem
    sample: Problem
    task: Task
    scale: float

    @property
    def start(self) -> tuple[FloatArray, float]:
        """Least squares, and the scale at which a symmetric Laplace law has its mean residual."""
        z = np.zeros(self.basis.matrix.shape[1])
        theta = self.problem.theta
        z[-1] = math.sqrt(0.5 * (self.problem.kappa + 8.0)) if theta is None else theta
        return z, 0.5 if self.task.tau is None else self.task.tau


def set_up(rows: GivenRows, task: Task) -> Setup:
    """Return the problem of the rows in the coordinates of all of them, or of a sample."""
    scale = _endog_scale(rows)
    if scale != 1.0:
        rows = rows.scaled(scale)
        task = replace(task, sigma=None if task.sigma is None else task.sigma / scale)
    chosen = sampled_rows(rows)
    return _copied(rows, task, scale) if chosen is None else _in_place(rows, task, scale, chosen)


def _endog_scale(rows: GivenRows) -> float:
    """Return a power of two near the size of the response when squares could leave the float range."""
    size = rows.endog_size
    if size == 0.0 or 1e-70 < size < 1e70:
        return 1.0
    return float(2.0 ** np.round(np.log2(size)))


def sampled_rows(rows: GivenRows) -> npt.NDArray[np.intp] | None:
    """Return the numbers of the rows of the sample, None where it is all of them."""
    size = max(SAMPLE_ROWS, SAMPLE_PER_COLUMN * (rows.n_columns + 1))
    if rows.n_rows <= size:
        return None
    return np.sort(np.random.default_rng(0).choice(rows.n_rows, size, replace=False))


def _copied(rows: GivenRows, task: Task, scale: float) -> Setup:
    """Return the problem of rows copied into a basis of theirs."""
    data = _finite(rows, slice(None))
    basis = basis_of(data.exog, data.endog, data.weights)
    if not _has_residual(basis, data.endog):
        _reject_perfect_fit(rows, basis, task)
        basis = rescaled(basis, task.sigma or 1.0)
    basis = _well_centred(basis, data)
    problem = _problem(ArrayRows(basis.design, None, data.weights), basis, task, None)
    if problem.theta is not None:
        _require_proportion(problem.theta, basis.design[:, -1], (task.sigma or 0.0) * scale)
    return Setup(basis, problem, problem, task, scale)


def _finite(rows: GivenRows, chosen: npt.NDArray[np.intp] | slice) -> Taken:
    """Return some rows; other rows that are not finite show in the first pass over them."""
    data = rows.take(chosen)
    if not (np.isfinite(data.exog).all() and np.isfinite(data.endog).all()):
        require_finite(rows)
    return data


def _in_place(rows: GivenRows, task: Task, scale: float, chosen: npt.NDArray[np.intp]) -> Setup:
    """Return the problem of rows that stay where they are, in the coordinates of a sample."""
    data = _finite(rows, chosen)
    basis = basis_of(data.exog, data.endog, data.weights)
    if basis.dependent.size or not _has_residual(basis, data.endog):
        basis = _triangular_basis(rows)
        if not _leaves_residual(rows, basis):
            _reject_perfect_fit(rows, basis, task)
            basis = rescaled(basis, task.sigma or 1.0)
    else:
        basis = _well_centred(basis, data)
    awkward = basis.weakest <= CHOLESKY_SAFE or not _has_residual(basis, data.endog, CLOSE)
    mapped = rows.transformed(basis.matrix) if awkward else rows
    problem = _problem(mapped, basis, task, None if awkward else basis.matrix)
    design = data.exog @ basis.matrix[:-1]
    design[:, -1] += data.endog * basis.matrix[-1, -1]
    if problem.theta is not None:
        _require_proportion(problem.theta, design[:, -1], (task.sigma or 0.0) * scale)
    weights = data.weights
    if weights is not None:  # as many observations for its rows as all rows have
        weights = weights * (chosen.size / rows.n_rows * rows.weight_sum / weights.sum())
    sample = _problem(ArrayRows(design, None, weights), basis, task, None)
    basis = replace(basis, design=basis.design[:0].copy())
    return Setup(basis, problem, sample, task, scale)


def _problem(
    rows: GivenRows | ArrayRows, basis: Basis, task: Task, matrix: FloatArray | None
) -> Problem:
    """Return the problem of rows in the coordinates of a basis."""
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    rank = 0.0
    if task.reml and not (task.rank is None and task.sigma is not None):
        rank = (basis.columns.size if task.rank is None else task.rank) / task.unit
        if rows.weight_sum <= rank:
            raise DataError(
                f"the restricted likelihood needs more observations than the rank of the regressors: "
                f"there are {rows.weight_sum * task.unit:.10g} for a rank of {rank * task.unit:.10g}. "
                "Leave columns out, or fix sigma; weights count observations, so rescale shares"
            )
    return Problem(rows, rows.weight_sum, task.kappa, matrix, theta, rank)


def _triangular_basis(rows: GivenRows) -> Basis:
    """Return the basis of all rows from a triangular factor accumulated over blocks."""
    factor = rows.fold(_factor, _joint_factor)
    factor *= np.sqrt(factor.shape[0] / rows.n_rows)
    return basis_of(factor[:, :-1], factor[:, -1])


def _factor(part: RowBlocks) -> FloatArray:
    factor = np.empty((0, part.n_columns + 1))
    for block in part.blocks():
        assert block.endog is not None
        factor = _joint_factor([factor, np.column_stack([block.exog, block.endog])])
    return factor


def _joint_factor(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the triangular factor of all rows from those of some of them."""
    return triangular_factor(np.vstack(parts))


def _well_centred(basis: Basis, data: Taken) -> Basis:
    """Return the basis centred near the median regression when an outlier spoiled least squares."""
    for done in range(4):
        residual = np.abs(basis.design[:, -1])
        middle = float(np.median(residual))
        if residual.max() < SUSPECT_SPREAD * middle or (done and middle < INTERPOLATED):
            break  # no outliers, or most rows are interpolated
        problem = _problem(ArrayRows(basis.design, None, data.weights), basis, MEDIAN, None)
        start = np.zeros(basis.design.shape[1])
        start[-1] = 2.0
        z = fit_at(problem, 0.5, start).z
        left = float(np.median(np.abs(basis.design @ z))) / float(z[-1])
        if left > SPOILED * middle:
            break
        basis = recentred(basis, data.exog, data.endog, z)
    return basis


def _has_residual(basis: Basis, endog: FloatArray, share: float = ROUNDING) -> bool:
    """Return whether least squares leaves more than rounding, or some share, of the response."""
    if basis.design.shape[0] <= basis.columns.size:
        return False
    largest = basis.spread / basis.matrix[-1, -1]  # the mean is the unit of the design
    return bool(largest > share * np.abs(endog).max(initial=0.0))


def _reject_perfect_fit(rows: GivenRows, basis: Basis, task: Task) -> None:
    """Raise a DataError: without residuals the likelihood grows without bound as sigma falls."""
    if task.sigma is not None:
        return
    r, p = basis.columns.size, basis.matrix.shape[0] - 1
    cause = (
        f"{rows.n_rows} rows are too few for {p} columns: they leave no residuals"
        if rows.n_rows <= r
        else "the regressors fit endog exactly (a constant endog, or a copy of a column)"
    )
    raise DataError(
        f"{cause}, and sigma would go to 0. Use more rows or fewer columns, or give sigma"
    )


def _leaves_residual(rows: GivenRows, basis: Basis) -> bool:
    """Return whether a fit of all rows leaves more than rounding of the response."""
    return rows.fold(_misses, any, -basis.matrix[:-1, -1] / basis.matrix[-1, -1])


def _misses(part: RowBlocks, beta: FloatArray) -> bool:
    """Return whether coefficients leave more than rounding of the response of some block."""
    for block in part.blocks():
        assert block.endog is not None
        if np.abs(block.endog - block.exog @ beta).max() > ROUNDING * np.abs(block.endog).max():
            return True
    return False


def _require_proportion(theta: float, residual: FloatArray, sigma: float) -> None:
    """Raise a DataError when a fixed sigma and the residuals differ beyond what floats can hold."""
    typical = theta * max(float(np.median(np.abs(residual))), 1e-3)
    if not 1e-12 < typical < 1e12:
        raise DataError(
            f"sigma is fixed at {sigma:g} but the residuals are about {typical:.1e} times as large; "
            "give sigma in the units of endog, or estimate it"
        )
