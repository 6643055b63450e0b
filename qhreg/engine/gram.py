"""Sums of weighted squares and products over rows held in memory."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm

from qhreg._typing import FloatArray

__all__ = ["plain_gram", "weighted_gram"]


BLOCK_BYTES = 2**16
"""Size of the weighted copy of a few rows: it stays in cache, and is small beside the rows."""

BLOCK_ROWS = 256
"""Least rows of a block: fewer do not hide the cost of the call."""

MANY_COLUMNS = 64
"""Columns from which it pays to form one triangle only."""

SMALL_PRODUCT = 500_000
"""Multiplications up to which it costs more to form one triangle than the whole."""

FEW_COLUMNS = 32
"""Columns up to which a product of many rows is the sum of products of some."""

PIECE_PRODUCT = 900_000
"""Multiplications in one of these: OpenBLAS takes those below a million without packing them first."""


def plain_gram(matrix: FloatArray) -> FloatArray:
    """Return X'X; numpy forms one triangle of it and reflects that, which takes small ones longer."""
    n, p = matrix.shape
    if n * p * p > SMALL_PRODUCT:
        return _gram_of_pieces(matrix) if 1 < p <= FEW_COLUMNS else matrix.T @ matrix
    if matrix.flags.f_contiguous:
        return np.asarray(dgemm(1.0, matrix, matrix, trans_a=True))
    return np.asarray(dgemm(1.0, matrix.T, matrix.T, trans_b=True))


def _gram_of_pieces(matrix: FloatArray) -> FloatArray:
    """Return X'X from products with all columns but the last: numpy forms no triangle of those."""
    n, p = matrix.shape
    step = PIECE_PRODUCT // (p * p)
    gram = np.zeros((p, p))
    for start in range(0, n, step):
        piece = matrix[start : start + step]
        gram[:, :-1] += piece.T @ piece[:, :-1]
    last = matrix[:, -1]
    gram[:-1, -1], gram[-1, -1] = gram[-1, :-1], last @ last
    return gram


def weighted_gram(
    design: FloatArray, weights: FloatArray, spare: FloatArray | None = None
) -> FloatArray:
    """Return W' diag(weights) W without a weighted copy of all of W.

    Parameters
    ----------
    design : ndarray, shape (m, k)
        W.
    weights : ndarray, shape (m,)
        Non-negative.
    spare : ndarray or None
        Contiguous work space, written over if it is large enough.
    """
    m, k = design.shape
    step = max(1, min(m, max(BLOCK_ROWS, BLOCK_BYTES // (8 * max(k, 1)))))
    if spare is None or spare.size < min(step, BLOCK_ROWS) * k:
        spare = np.empty(step * k)
    step = min(step, spare.size // max(k, 1)) or 1
    buffer = spare.reshape(-1)[: step * k].reshape(step, k)
    symmetric = k >= MANY_COLUMNS
    gram = np.zeros((k, k))
    for start in range(0, m, step):
        part, factor = design[start : start + step], weights[start : start + step]
        scaled = buffer[: part.shape[0]]
        # einsum, because multiply would take a buffer of its own
        np.einsum("ij,i->ij", part, np.sqrt(factor) if symmetric else factor, out=scaled)
        gram += scaled.T @ (scaled if symmetric else part)
    return gram
