"""Scores and second derivatives of each row: what bread and meat add up, for few rows.

Sums of many rows are made without them, by :func:`qhreg.covariance.curvature.row_sums`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.curvature import (
    RowSums,
    RowWeights,
    beta_multipliers,
    is_near,
    log_c_bends,
    wide_slopes,
)
from qhreg.covariance.information import UnitInformation
from qhreg.covariance.scores import Point, RowBlock, extra_scores
from qhreg.engine.gram import plain_gram

__all__ = ["RowBends", "RowTerms", "row_bends", "row_terms", "summed_terms"]


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
    block: RowBlock,
    point: Point,
    width: float,
    others: tuple[str, ...],
    unit: UnitInformation,
    mixed: FloatArray | None = None,
) -> RowBends:
    """Return what :func:`row_sums` adds up in the bread, row by row; `mixed` is written over."""
    u, psi, n, c = block.u, block.psi, block.u.size, len(others)
    mixed, corner = np.empty((c, n)) if mixed is None else mixed, np.empty((c, c, n))
    beta_multipliers(block, None, point, width, others, out=mixed)
    for i, first in enumerate(others):
        for j in range(i, c):
            entry = corner[i, j]
            if first == "sigma" and others[j] == "tau":
                np.multiply(mixed[j], u, out=entry)
            elif first == "sigma" and i == j:  # u psi twice, and once more in the zone
                np.multiply(mixed[i] + psi, u, out=entry)
                entry -= 1.0
            elif first == "sigma":
                np.multiply(mixed[i] - psi, psi, out=entry)
            elif first == "tau":
                np.multiply(mixed[i], -point.kappa if i == j else psi, out=entry)
            else:
                np.multiply(mixed[i], wide_slopes(block, point, width), out=entry)
            if i < j:
                corner[j, i] = entry
    if others != ("sigma",):  # log c does not depend on sigma
        corner += log_c_bends(others, unit)[:, :, None]
    near = is_near(u, point, width) / width if width > 0.0 else np.zeros(n)
    return RowBends(near, mixed, corner)


class RowTerms(NamedTuple):
    """What bread, meat and influences of some rows are made of; k is 0 where beta is not free.

    Attributes
    ----------
    design : ndarray, shape (k, n)
        The rows x.
    psi, near : ndarray, shape (n,)
        What multiplies x in the scores of beta, and x x' in minus the second derivatives by beta.
    scores : ndarray, shape (q, n)
        Scores at sigma = 1.
    pulls : ndarray, shape (q, n)
        What multiplies x in minus the second derivatives by beta and each parameter.
    corner : ndarray, shape (q - k, q - k, n)
        Minus the second derivatives by the other parameters.
    """

    design: FloatArray
    psi: FloatArray
    near: FloatArray
    scores: FloatArray
    pulls: FloatArray
    corner: FloatArray


def row_terms(
    block: RowBlock,
    point: Point,
    width: float,
    free: tuple[str, ...],
    unit: UnitInformation,
) -> RowTerms:
    """Return scores and second derivatives of each row, without weights."""
    others = tuple(name for name in free if name != "beta")
    x = block.design.T if "beta" in free else block.design.T[:0]
    k, size = len(x), (len(x) + len(others), x.shape[1])
    scores, pulls = np.empty(size), np.empty(size)
    for j, score in enumerate(extra_scores(block, others, point, unit), k):
        scores[j] = score
    near, _, corner = row_bends(block, point, width, others, unit, mixed=pulls[k:])
    np.multiply(x, block.psi, out=scores[:k])
    np.multiply(x, near, out=pulls[:k])
    return RowTerms(x, block.psi, near, scores, pulls, corner)


def summed_terms(terms: RowTerms, weights: RowWeights) -> RowSums:
    """Return the sums of :func:`row_sums`: for few rows whose terms are needed again."""
    x, _, _, scores, pulls, corner = terms
    (k, n), q = x.shape, len(scores)
    total, squared = weights.total, weights.squared
    if total is not None:
        pulls, corner = pulls * total, corner * total
    bread = np.empty((q, q))
    bread[:, :k] = pulls.dot(x.T)
    bread[:k, k:] = bread[k:, :k].T
    bread[k:, k:] = np.add.reduce(corner, axis=2)
    meat = plain_gram(scores.T) if squared is None else (scores * squared).dot(scores.T)
    return RowSums(float(n if total is None else total.sum()), bread, meat)
