r"""Least squares on rows that stay where they are: coordinates and a starting point without a copy.

Two looks at the data, block by block: the Gram matrix gives orthonormal coordinates (QH-11), the
residuals tell where the joint fit should start.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows
from qhreg.solver.basis import Basis, basis_of_gram

__all__ = [
    "CLOSE",
    "Centred",
    "Moments",
    "centred",
    "kurtosis",
    "least_squares",
    "moments_of",
    "starting_point",
]


SPACED_ROWS = 1000
"""Rows from which the typical size of a residual is taken."""

SUSPECT_SPREAD = 100.0
"""Largest over median residual below which no outlier can have spoiled least squares."""


CLOSE = 1e-7
"""Residuals below this share of the response are to be formed once: each time they round differently."""


class Moments(NamedTuple):
    """What least squares tells about the noise.

    Attributes
    ----------
    below : float
        Share of negative residuals.
    means : ndarray, shape (r,)
        Means of the orthonormal columns: the direction of a constant.
    kurtosis : float
        Fourth moment of the residuals over the squared second one: 3 for normal, below 2 for U-shaped.
    """

    below: float
    means: FloatArray
    kurtosis: float


def kurtosis(fourth: float, second: float, n: int) -> float:
    """Return the kurtosis from sums of powers; infinity when there are no residuals."""
    return fourth * n / second**2 if second > 0.0 else math.inf


def moments_of(design: FloatArray) -> Moments:
    """Return the moments for rows held in a basis, the residuals in the last column."""
    n, residual = design.shape[0], design[:, -1]
    below = float(np.count_nonzero(residual < 0.0)) / n
    square = residual * residual
    flatness = kurtosis(float(square.dot(square)), float(residual.dot(residual)), n)
    return Moments(below, (np.ones(n) @ design[:, :-1]) / n, flatness)


def starting_point(
    moments: Moments, kappa: float, theta: float | None, tau: float | None
) -> tuple[FloatArray, float]:
    """Return (z, tau) near the optimum from the moments of the least-squares residuals.

    The share of residuals below their mean tells the asymmetry; the location then moves from the
    mean towards the mode by the amount the asymmetric Laplace law has between them.
    """
    guess = 0.5 + 1.9 * (moments.below - 0.5) if tau is None else tau
    guess = min(max(guess, 0.25), 0.75)
    spread = 0.72 * math.sqrt(1.0 / guess**2 + 1.0 / (1.0 - guess) ** 2 + kappa)
    last = spread if theta is None else theta
    shift = (2.0 * guess - 1.0) / (guess * (1.0 - guess)) * last / spread
    z = np.empty(moments.means.size + 1)
    z[:-1], z[-1] = shift * moments.means, last
    return z, guess if tau is None else tau


class Centred(NamedTuple):
    """Coordinates of rows that stay where they are, the residuals of some fit among them.

    Attributes
    ----------
    basis : Basis
        The coordinates; the design has no rows.
    moments : Moments
        Of the residuals.
    middle : float
        Their median size, from evenly spaced rows.
    largest : float
        The largest one.
    """

    basis: Basis
    moments: Moments
    middle: float
    largest: float

    @property
    def suspect(self) -> bool:
        """Whether an outlier may have spoiled least squares."""
        return not self.largest < SUSPECT_SPREAD * self.middle


@np.errstate(over="ignore", invalid="ignore")  # such data are declined, and named elsewhere
def least_squares(rows: ArrayRows) -> Centred | None:
    """Return coordinates and moments of all rows, or None where that would lose digits.

    None when columns are nearly collinear or far apart in size, and when residuals are close to none.
    """
    n, p = rows.exog.shape
    if p == 0 or n <= p:
        return None
    gram, cross = np.zeros((p, p)), np.zeros(p)
    for block in rows.blocks():
        assert block.endog is not None
        gram += block.exog.T @ block.exog
        cross += block.endog @ block.exog
    basis = basis_of_gram(gram, cross, n)
    return None if basis is None else centred(rows, basis, -basis.matrix[:-1, -1])


@np.errstate(over="ignore", invalid="ignore")
def centred(
    rows: ArrayRows, basis: Basis, beta: FloatArray, *, robust: bool = False
) -> Centred | None:
    """Return the coordinates with the residuals of beta, in units of their mean or median size.

    None when they are too close to rounding errors of the response, or not finite.
    """
    n, p = rows.exog.shape
    size = below = second = fourth = largest = response = 0.0
    columns, spaced = np.zeros(p), []
    for block in rows.blocks():
        assert block.endog is not None
        residual = block.endog - block.exog @ beta
        square = residual * residual
        second, fourth = second + float(square.sum()), fourth + float(square @ square)
        below += float(np.count_nonzero(residual < 0.0))
        absolute = np.abs(residual, out=residual)
        size, largest = size + float(absolute.sum()), max(largest, float(absolute.max()))
        spaced.append(absolute[:: max(1, n // SPACED_ROWS)].copy())
        response = max(response, float(np.abs(block.endog).max()))
        columns += np.ones(residual.size) @ block.exog
    if not (math.isfinite(fourth) and size > CLOSE * n * response):
        return None
    matrix = basis.matrix.copy()
    matrix[:-1, -1], matrix[-1, -1] = -beta, 1.0
    middle = float(np.median(np.concatenate(spaced)))
    matrix[:, -1] /= middle if robust and middle > 0.0 else size / n
    means = columns @ matrix[:-1, :-1] / n
    moments = Moments(below / n, means, kurtosis(fourth, second, n))
    return Centred(replace(basis, matrix=matrix), moments, middle, largest)
