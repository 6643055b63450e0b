r"""How many rows uneven sampling weights leave, and whose noise their residuals do not show.

A row with nearly all of the weight that decides a coefficient is fitted nearly exactly. Its residual,
and with it every sandwich, shows nearly nothing of its noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.curvature import RowWeights
from qhreg.covariance.information import design_moments, row_blocks
from qhreg.covariance.orthonormal import coordinates_of

__all__ = ["effective_rows", "hidden", "is_light"]


QUARTER = 0.25
"""Share of a variance below which a standard error is less than half of what it should be."""

HALF = 0.5
"""Leverage up to which residuals show that share: one minus it, squared."""

HEAVY_ROWS = 4096
"""Rows that are looked at one by one at a time."""


def effective_rows(weights: RowWeights) -> float:
    r"""Return Kish's effective number of observations, :math:`(\sum w_i)^2 / \sum w_i^2`."""
    if weights.prob is None:
        return weights.nobs
    prob = weights.prob / weights.prob.max()  # the square of any unit is a number
    freq = np.ones_like(prob) if weights.freq is None else weights.freq
    return float(freq @ prob) ** 2 / float(freq @ (prob * prob))


def is_light(exog: npt.NDArray[np.floating], prob: FloatArray, flat: FloatArray) -> bool:
    """Return whether a bound on all leverages shows that none is above one half.

    Parameters
    ----------
    exog : ndarray, shape (n, p)
        Regressors.
    prob : ndarray, shape (n,)
        Sampling weights.
    flat : ndarray, shape (p, p)
        A matrix that is no smaller than the inverse of X'WX.

    Notes
    -----
    No row is longer, in the metric of that matrix, than one with the largest entry of each column. Only
    rows that are too heavy for that length are looked at.
    """
    largest = np.zeros(exog.shape[1])
    for rows in row_blocks(*exog.shape):
        block = exog[rows]
        np.maximum(largest, np.maximum(block.max(axis=0), -block.min(axis=0)), out=largest)
    length = float(largest @ np.sqrt(flat.diagonal())) ** 2
    heavy = np.flatnonzero(prob * length > HALF)
    for start in range(0, heavy.size, HEAVY_ROWS):
        some = heavy[start : start + HEAVY_ROWS]
        columns = exog[some]
        if float((((columns @ flat) * columns).sum(axis=1) * prob[some]).max()) > HALF:
            return False
    return True


def hidden(exog: npt.NDArray[np.floating], weights: RowWeights) -> tuple[int, ...]:
    r"""Return the coefficients of whose variance residuals show less than a quarter.

    Parameters
    ----------
    exog : ndarray, shape (n, p)
        Regressors.
    weights : RowWeights
        Weights of the rows, sampling weights among them.

    Notes
    -----
    With noise of one variance that of coefficient j is a multiple of :math:`\sum_i a_{ij}^2`, where
    row i moves it by :math:`a_{ij}`. Residuals in place of the noise make it
    :math:`\sum_i a_{ij}^2 v_i`,

    .. math:: v_i = 1 - 2 h_i + \sum_k H_{ik}^2, \qquad H = X (X'WX)^{-1} X'W,

    with the leverage :math:`h_i = H_{ii}`. No :math:`v_i` is less than :math:`(1 - h_i)^2`.
    """
    prob, squared = weights.prob, weights.squared
    if prob is None or squared is None or not exog.shape[1]:
        return ()
    place = coordinates_of(design_moments(exog, weights.total).factor)
    k = place.transform.shape[1]
    leverage, spread = np.empty(prob.size), np.zeros((k, k))
    for rows in row_blocks(*exog.shape):
        columns = exog[rows] @ place.transform
        leverage[rows] = prob[rows] * (columns**2).sum(axis=1)
        spread += (columns * squared[rows, None]).T @ columns
    if not leverage.max() > HALF:
        return ()
    shown, whole = np.zeros(exog.shape[1]), np.zeros(exog.shape[1])
    for rows in row_blocks(*exog.shape):
        columns = exog[rows] @ place.transform
        seen = 1.0 - 2.0 * leverage[rows] + ((columns @ spread) * columns).sum(axis=1)
        moves = squared[rows, None] * (columns @ place.back.T) ** 2
        shown, whole = shown + seen @ moves, whole + moves.sum(axis=0)
    return tuple(np.flatnonzero(shown < QUARTER * whole).tolist())
