r"""Well-conditioned coordinates for the columns of the data.

Raw regressors (a year, an income, its square) make normal equations useless in floating point. The
solver works in coordinates z with ``W_raw M = W``: the columns of ``W = [X T, r / s]`` are an
orthonormal basis of the column space (times the square root of the number of rows) and the scaled
least-squares residual. Values of u = W z, and with them the likelihood, do not depend on M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dtrtri

from qhreg._precision import INTERPOLATED
from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

RANK_TOLERANCE = 1e-11
"""A column is dependent when orthogonalising it leaves less than this share of its length."""

TINY_SQUARE = 1e-200
"""Squared length of a column below which, or above whose inverse, columns are rescaled first."""

CHOLESKY_SAFE = 1e-3
"""Above this share the squared condition number is harmless and the Gram matrix may be used."""


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
    if not (square.min() > TINY_SQUARE and square.max() < 1.0 / TINY_SQUARE):
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
    scale = float(np.median(size)) if size.any() else 1.0
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
