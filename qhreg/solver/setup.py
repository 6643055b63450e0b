r"""From rows to a problem: coordinates and a starting point.

Two routes. Data of up to a sample's size are copied into an orthonormal basis. Larger data stay where
they are; a random sample of the rows, of fixed size and with a fixed seed, gives the coordinates, and
carries the scan over tau.

Raw regressors (a year, an income, its square) make normal equations useless in floating point. The
solver works in coordinates z with ``W_raw M = W``: the columns of ``W = [X T, r / s]`` are an
orthonormal basis of the column space (times the square root of the number of rows) and the scaled
least-squares residual. Values of u = W z, and with them the likelihood, do not depend on M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dtrtri

from qhreg._precision import INTERPOLATED, ROUNDING
from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, GivenRows, RowBlocks, Taken, require_finite
from qhreg.exceptions import DataError
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.problem import Problem, Task

RANK_TOLERANCE = 1e-11
"""A column is dependent when orthogonalising it leaves less than this share of its length."""

CHOLESKY_SAFE = 1e-3
"""Above this share the squared condition number is harmless and the Gram matrix may be used."""

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


@dataclass(frozen=True)
class Basis:
    """Coordinates z in which u = [X, y] (matrix z).

    Attributes
    ----------
    columns : ndarray of int, shape (r,)
        The independent columns of X, the earliest ones kept.
    dependent : ndarray of int, shape (p - r,)
        The columns that are linear combinations of earlier ones.
    combination : ndarray, shape (r, p - r)
        The dependent columns in terms of the kept ones.
    matrix : ndarray, shape (p + 1, r + 1)
        M: maps z to the raw unknowns (-b, theta).
    design : ndarray, shape (n, r + 1)
        [X, y] M for the rows the basis was made from.
    weakest : float
        Smallest share of its length a kept column retains when made orthogonal to earlier ones.
    """

    columns: npt.NDArray[np.intp]
    dependent: npt.NDArray[np.intp]
    combination: FloatArray
    matrix: FloatArray
    design: FloatArray
    weakest: float


def _cholesky_factor(gram: FloatArray) -> tuple[FloatArray, float] | None:
    """Return the triangular factor of a Gram matrix, or None when that would lose digits."""
    square = gram.diagonal()
    digits = np.finfo(np.float64)
    if not (square.min() > digits.tiny / digits.eps and np.isfinite(square).all()):
        return None
    factor, info = dpotrf(gram, clean=1)
    if info != 0:
        return None
    weakest = math.sqrt(float((factor.diagonal() ** 2 / square).min()))
    return (factor, weakest) if weakest > CHOLESKY_SAFE else None


def _independent_columns(scaled: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray, float]:
    """Return the kept columns, their triangular factor R, and the weakest diagonal share.

    On the diagonal of R is what is left of each column when made orthogonal to the earlier ones.
    """
    p = scaled.shape[1]
    rows = triangular_factor(np.vstack([scaled, np.zeros((p, p))]))  # as many rows as columns
    columns = np.flatnonzero(scaled.any(axis=0))
    while True:
        factor = triangular_factor(rows[:, columns])[: columns.size]
        share = np.abs(factor.diagonal()) / np.linalg.norm(rows[:, columns], axis=0)
        weak = np.flatnonzero(share <= RANK_TOLERANCE)
        if not weak.size:
            return columns, triangular_factor(scaled[:, columns]), float(share.min(initial=1.0))
        columns = np.delete(columns, weak[0])


def triangular_factor(matrix: FloatArray) -> FloatArray:
    """Return R of the QR decomposition."""
    return np.asarray(np.linalg.qr(matrix, mode="r"), dtype=np.float64)


def basis_of(exog: FloatArray, endog: FloatArray, weights: FloatArray | None = None) -> Basis:
    """Return well-conditioned coordinates for the given rows (all rows, or a sample of them).

    Parameters
    ----------
    exog : ndarray, shape (n, p)
        Regressors.
    endog : ndarray, shape (n,)
        Response.
    weights : ndarray, shape (n,), or None
        Case weights: the columns are orthonormal with them, as those of the repeated rows would be.
    """
    n, p = exog.shape
    share = None if weights is None else weights / weights.mean()
    rows = exog if share is None else exog * np.sqrt(share)[:, None]
    quick = _cholesky_factor(rows.T @ rows) if n >= p > 0 else None
    if quick is not None:
        columns, weakest = np.arange(p), quick[1]
        matrix = np.zeros((p + 1, p + 1))
        np.multiply(dtrtri(quick[0])[0], math.sqrt(n), out=matrix[:p, :p])
    else:
        length = np.abs(rows).max(axis=0, initial=0.0)
        length[length == 0.0] = 1.0
        scaled = rows / length
        columns, factor, weakest = _independent_columns(scaled)
        inverse = np.linalg.inv(factor) * math.sqrt(n)
        if weakest <= CHOLESKY_SAFE:  # one more sweep repairs what the triangular inverse lost
            again = triangular_factor(scaled[:, columns] @ inverse)
            inverse = inverse @ np.linalg.inv(again) * math.sqrt(n)
        matrix = np.zeros((p + 1, columns.size + 1))
        with np.errstate(over="ignore"):
            matrix[columns, :-1] = inverse / length[columns, None]
        tiny = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if tiny.size:
            raise DataError(
                f"column {tiny[0]} of exog is so small that its coefficient is beyond the range of "
                "floating-point numbers: give it in another unit"
            )
    r = columns.size
    design = (matrix[:p].T @ exog.T).T  # by columns; the last one is filled below
    orthogonal, residual = design[:, :r], design[:, r]
    coefficients = (endog if share is None else endog * share) @ orthogonal / max(n, 1)
    np.subtract(endog, orthogonal @ coefficients, out=residual)
    size = np.abs(residual)
    scale = float(size.sum() if share is None else size @ share) / n if n else 1.0
    if not scale > 0.0:
        scale = 1.0
    matrix[:p, r] = matrix[:p, :r] @ (coefficients / -scale)
    matrix[p, r] = 1.0 / scale
    residual /= scale
    dependent, combination = np.empty(0, dtype=np.intp), np.empty((r, 0))
    if r < p:
        dependent = np.setdiff1d(np.arange(p), columns)
        weighted = orthogonal if share is None else orthogonal * share[:, None]
        combination = matrix[columns, :r] @ (weighted.T @ exog[:, dependent]) / max(n, 1)
    return Basis(columns, dependent, combination, matrix, design, weakest)


def recentred(basis: Basis, exog: FloatArray, endog: FloatArray, z: FloatArray) -> Basis:
    """Return the basis with the residuals of z in place of those of least squares.

    One far outlier spoils least squares so much that its residuals keep no digits of the others. Their
    unit is the median of those that are not interpolated: tiny ones beside a few large ones are rounding
    errors where a further fit of their rows makes them vanish, and small numbers where it does not.
    """
    raw = basis.matrix @ z
    beta = -raw[:-1] / raw[-1]
    residual = endog - exog @ beta
    size = np.abs(residual)
    tiny = size <= INTERPOLATED * size.mean()
    if np.count_nonzero(tiny) > exog.shape[1]:
        x, left = exog[tiny], residual[tiny]
        left = left - x @ np.linalg.lstsq(x, left, rcond=None)[0]
        if np.median(np.abs(left)) <= INTERPOLATED * np.median(size[tiny]):
            size = size[~tiny]
    scale = (float(np.median(size)) or float(size.mean())) if size.any() else 1.0
    matrix, design = basis.matrix.copy(), basis.design.copy()
    matrix[:-1, -1], matrix[-1, -1] = -beta / scale, 1.0 / scale
    design[:, -1] = residual / scale
    return replace(basis, matrix=matrix, design=design)


def rescaled(basis: Basis, scale: float) -> Basis:
    """Return the basis with its residuals in units of the given scale."""
    factor = 1.0 / (scale * basis.matrix[-1, -1])
    matrix, design = basis.matrix.copy(), basis.design.copy()
    matrix[:, -1] *= factor
    design[:, -1] *= factor
    return replace(basis, matrix=matrix, design=design)


def minimum_norm(basis: Basis, coefficients: FloatArray) -> FloatArray:
    """Return the shortest coefficient vector with the fitted values of the given one.

    Parameters
    ----------
    coefficients : ndarray, shape (p,)
        Zero in the dependent columns.
    """
    if basis.dependent.size == 0:
        return coefficients
    r = basis.columns.size
    both = np.column_stack([np.eye(r), basis.combination])
    solution = np.linalg.lstsq(both, coefficients[basis.columns], rcond=None)[0]
    shortest = np.empty_like(coefficients)
    shortest[basis.columns], shortest[basis.dependent] = solution[:r], solution[r:]
    return shortest


# ---------------------------------------------------------------------- the problem


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
    data = rows.take(slice(None) if chosen is None else chosen)
    if not (np.isfinite(data.exog).all() and np.isfinite(data.endog).all()):
        require_finite(rows)  # other rows that are not finite show in the first pass over them
    basis = basis_of(data.exog, data.endog, data.weights)
    noisy = _has_residual(basis, data.endog)
    if chosen is not None and (basis.dependent.size or not noisy):  # other rows may tell more
        factor = rows.fold(_factor, _joint_factor) * math.sqrt((rows.n_columns + 1) / rows.n_rows)
        basis = basis_of(factor[:, :-1], factor[:, -1])
        noisy = _has_residual(basis, factor[:, -1])
        design = data.exog @ basis.matrix[:-1]
        design[:, -1] += data.endog * basis.matrix[-1, -1]
        basis = replace(basis, design=design)
    if not noisy:
        _reject_perfect_fit(rows, basis, task)
        basis = rescaled(basis, task.sigma or 1.0)
    basis = _well_centred(basis, data)
    weights = data.weights
    if chosen is not None and weights is not None:  # as many observations for its rows as all have
        weights = weights * (chosen.size / rows.n_rows * rows.weight_sum / weights.sum())
    sample = problem = _problem(ArrayRows(basis.design, None, weights), basis, task, None)
    if chosen is not None and (
        basis.weakest <= CHOLESKY_SAFE or not _has_residual(basis, data.endog, CLOSE)
    ):
        problem = _problem(rows.transformed(basis.matrix), basis, task, None)
    elif chosen is not None:
        problem = _problem(rows, basis, task, basis.matrix)
    if problem.theta is not None:
        _require_proportion(problem.theta, basis.design[:, -1], (task.sigma or 0.0) * scale)
    return Setup(basis, problem, sample, task, scale)


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
    return Problem(rows, rows.weight_sum, task.kappa, matrix, theta, rank, task.free_bounds)


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
        rows = ArrayRows(basis.design, None, data.weights)
        start = np.zeros(basis.design.shape[1])
        start[-1] = 2.0
        z = fit_at(Problem(rows, rows.weight_sum, 0.0), 0.5, start).z
        left = float(np.median(np.abs(basis.design @ z))) / float(z[-1])
        if left > SPOILED * middle:
            break
        basis = recentred(basis, data.exog, data.endog, z)
    return basis


def _has_residual(basis: Basis, endog: FloatArray, share: float = ROUNDING) -> bool:
    """Return whether a fit leaves more than rounding, or some share, of the response."""
    if basis.design.shape[0] <= basis.columns.size:
        return False
    largest = np.abs(basis.design[:, -1]).max() / basis.matrix[-1, -1]
    return bool(largest > share * np.abs(endog).max())


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


def _require_proportion(theta: float, residual: FloatArray, sigma: float) -> None:
    """Raise a DataError when a fixed sigma and the residuals differ beyond what floats can hold."""
    typical = theta * max(float(np.median(np.abs(residual))), 1e-3)
    if not 1e-12 < typical < 1e12:
        raise DataError(
            f"sigma is fixed at {sigma:g} but the residuals are about {typical:.1e} times as large; "
            "give sigma in the units of endog, or estimate it"
        )
