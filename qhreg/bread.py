"""The inverse of an estimated bread, and what stands in for what the rows do not tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qhreg.orthonormal import inverse_of

__all__ = ["bread_inverse", "is_flat"]

FloatArray = npt.NDArray[np.float64]

FLAT = 1e-8
"""Share of the largest curvature below which one is rounding error."""


def is_flat(bread: FloatArray, inverse: FloatArray, r: int) -> bool:
    """Return whether one of r orthonormal coordinates has no curvature beside that of the others."""
    if r == 0:
        return False
    largest = float(bread.diagonal()[:r].max()) * float(inverse.diagonal()[:r].max())
    return not largest * FLAT < 1.0


def bread_inverse(bread: FloatArray, info: FloatArray, r: int) -> tuple[FloatArray, str]:
    """Return the inverse of a bread, and what stands in for what the rows do not tell, if anything.

    Parameters
    ----------
    bread : ndarray, shape (q, q)
        Estimated minus second derivatives, r orthonormal coordinates of beta first.
    info : ndarray, shape (q, q)
        The expected ones.
    r : int
        Number of these coordinates.

    Notes
    -----
    Along a coordinate without curvature no row lies in the zone, as can be with the few rows of a rare
    category: it gets the mean curvature of the others. If the matrix is indefinite then, the blocks of
    the other parameters are the expected ones; and if it still is, all are.
    """
    inverse = inverse_of(bread)
    if inverse is not None and not is_flat(bread, inverse, r):
        return inverse, ""
    lifted, count = _lifted(bread[:r, :r], float(info[0, 0]))
    if count:
        mended = bread.copy()
        mended[:r, :r] = lifted
        inverse = inverse_of(mended)
        if inverse is not None:
            along = f"{count} combination{'s' if count > 1 else ''} of the coefficients"
            return inverse, f"the mean curvature along {along} that no row in the zone tells of"
    mended = info.copy()
    mended[:r, :r] = lifted
    inverse = inverse_of(mended)
    if inverse is not None:
        return inverse, "expected blocks as the observed are indefinite"
    inverse = inverse_of(info)
    inverse = np.asarray(np.linalg.pinv(info)) if inverse is None else inverse
    return inverse, "the expected information as the observed is indefinite"


def _lifted(curvature: FloatArray, expected: float) -> tuple[FloatArray, int]:
    """Return a curvature without flat directions, and how many there were."""
    if not curvature.size:
        return curvature, 0
    values, vectors = np.linalg.eigh(curvature)
    flat = ~(values > FLAT * max(values[-1], 0.0))
    if not flat.any():
        return curvature, 0
    values[flat] = expected if flat.all() else values[~flat].mean()
    return (vectors * values) @ vectors.T, int(flat.sum())
