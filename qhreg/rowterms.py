"""Scores and second derivatives of each row: what bread and meat add up, for few rows.

Sums of many rows are made without them, by :func:`qhreg.curvature.row_sums`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg.curvature import (
    RowSums,
    RowWeights,
    beta_multipliers,
    is_near,
    log_c_bends,
    wide_slopes,
)
from qhreg.information import UnitInformation
from qhreg.scores import Point, RowBlock, extra_scores

__all__ = ["RowBends", "RowTerms", "row_bends", "row_terms", "summed_terms"]

FloatArray = npt.NDArray[np.float64]


class RowBends(NamedTuple):
    """Minus the second derivatives of each row's log-likelihood at sigma = 1.

    Attributes
    ----------
    near : ndarray, shape (n,)
        What multiplies x x' in the block of beta.
    mixed : ndarray, shape (c, n)
        What multiplies x in the derivatives by beta and each other parameter.
    corner : ndarray, shape (c, c, n)
        Derivatives by the other parameters.
    """

    near: FloatArray
    mixed: FloatArray
    corner: FloatArray


def row_bends(
    block: RowBlock, point: Point, width: float, others: tuple[str, ...], unit: UnitInformation
) -> RowBends:
    """Return what :func:`row_sums` adds up in the bread, row by row and without weights."""
    u, psi, n, c = block.u, block.psi, block.u.size, len(others)
    mixed, corner = np.empty((c, n)), np.empty((c, c, n))
    beta_multipliers(block, None, point, width, others, out=mixed)
    for i, first in enumerate(others):
        for j in range(i, c):
            entry = corner[i, j]
            if first == "sigma" and others[j] == "tau":
                np.multiply(mixed[j], u, out=entry)
            elif first == "sigma":  # psi^2 in the zone, times kappa and with more for sigma twice
                np.multiply(mixed[i] - psi, psi, out=entry)
                if i == j:
                    entry *= point.kappa
                    entry += 2.0 * u * psi - 1.0
            elif first == "tau":
                np.multiply(mixed[i], -point.kappa if i == j else psi, out=entry)
            else:
                np.multiply(mixed[i], wide_slopes(block, point, width), out=entry)
            if i < j:
                corner[j, i] = entry
    if others != ("sigma",):  # log c does not depend on sigma
        corner += log_c_bends(others, unit)[:, :, None]
    near = np.zeros(n)
    if width > 0.0:
        np.divide(is_near(u, point, width), width, out=near)
    return RowBends(near, mixed, corner)


class RowTerms(NamedTuple):
    """What bread, meat and influences of some rows are made of.

    Attributes
    ----------
    block : RowBlock
        The rows.
    scores : ndarray, shape (c, n)
        Scores of the parameters besides beta, at sigma = 1.
    bends : RowBends
        Minus their second derivatives.
    """

    block: RowBlock
    scores: FloatArray
    bends: RowBends


def row_terms(
    block: RowBlock, point: Point, width: float, others: tuple[str, ...], unit: UnitInformation
) -> RowTerms:
    """Return scores and second derivatives of each row, without weights."""
    scores = np.empty((len(others), block.u.size))
    for row, score in zip(scores, extra_scores(block, others, point, unit), strict=True):
        row[:] = score
    return RowTerms(block, scores, row_bends(block, point, width, others, unit))


def summed_terms(terms: RowTerms, weights: RowWeights) -> RowSums:
    """Return the sums of :func:`row_sums` with beta free: for few rows that are needed again."""
    x, psi = terms.block.design.T, terms.block.psi
    near, mixed, corner = terms.bends
    p, n = x.shape
    bread = np.empty((p + len(mixed),) * 2)
    scores = np.empty((p + len(mixed), n))
    np.multiply(x, psi, out=scores[:p])
    scores[p:] = terms.scores
    total, squared = weights.total, weights.squared
    if total is not None:
        near, mixed, corner = near * total, mixed * total, corner * total
    bread[:p, :p], bread[p:, :p] = (x * near) @ x.T, mixed @ x.T
    bread[:p, p:], bread[p:, p:] = bread[p:, :p].T, corner.sum(axis=2)
    meat = (scores if squared is None else scores * squared) @ scores.T
    return RowSums(float(n if total is None else total.sum()), bread, meat)
