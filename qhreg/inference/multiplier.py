r"""The multiplier bootstrap: one step from the fit, with scores reweighted at random.

A replicate moves the estimates by :math:`\sum_i \xi_i I_i`, where :math:`I_i` is the influence of row i,
its score times the inverse of the smoothed bread, and the multipliers :math:`\xi_i` are independent
with mean 0 and variance 1. Nothing is refitted. Given the data the covariance of the steps is the
sandwich "HC0", or the clustered one without its factor when rows of a group share their multiplier.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.information import row_blocks

__all__ = ["influence_skewness", "multiplier_steps", "take_steps"]


_ROOT = math.sqrt(5.0)
LOW, HIGH = 0.5 * (1.0 - _ROOT), 0.5 * (1.0 + _ROOT)
"""Mammen's two values: with these probabilities mean 0, variance 1 and third moment 1."""
CHANCE_LOW = (_ROOT + 1.0) / (2.0 * _ROOT)


def _multipliers(rng: np.random.Generator, cases: FloatArray | None, n: int) -> FloatArray:
    """Return n multipliers; a row of several cases has the sum of as many."""
    if cases is None:
        return np.where(rng.random(n) < CHANCE_LOW, LOW, HIGH)
    counts = cases.astype(np.int64)
    low = rng.binomial(counts, CHANCE_LOW)
    return np.asarray(low * LOW + (counts - low) * HIGH)


def multiplier_steps(
    influence: FloatArray,
    seeds: list[np.random.SeedSequence],
    cases: FloatArray | None = None,
    codes: npt.NDArray[np.intp] | None = None,
) -> FloatArray:
    """Return the random steps of the parameters, shape (number of seeds, q).

    Parameters
    ----------
    influence : ndarray, shape (n, q)
        Of the rows on the parameters.
    seeds : list of SeedSequence
        One for each replicate.
    cases : ndarray of whole numbers, shape (n,), or None
        How often each row was observed.
    codes : ndarray of int, shape (n,), or None
        Groups whose rows share a multiplier.
    """
    generators = [np.random.default_rng(seed) for seed in seeds]
    shared: list[FloatArray] = []
    if codes is not None:
        shared = [_multipliers(rng, None, int(codes.max()) + 1) for rng in generators]
    steps = np.zeros((len(seeds), influence.shape[1]))
    for rows in row_blocks(*influence.shape):
        block = influence[rows]
        part = None if cases is None else cases[rows]
        if codes is None:
            drawn = (_multipliers(rng, part, len(block)) for rng in generators)
        else:
            block = block if part is None else block * part[:, None]
            drawn = (each[codes[rows]] for each in shared)
        for b, multipliers in enumerate(drawn):
            steps[b] += multipliers @ block
    return steps


def take_steps(estimate: FloatArray, steps: FloatArray, names: tuple[str, ...]) -> FloatArray:
    """Return estimates after steps; sigma and kappa move on the log scale, tau on the logit scale.

    Parameters
    ----------
    estimate : ndarray, shape (q,)
        Coefficients, then the parameters in `names`.
    steps : ndarray, shape (B, q)
        Steps in the parameters themselves.
    names : tuple of str
        Some of "sigma", "tau" and "kappa", in this order.
    """
    moved = estimate + steps
    first = estimate.size - len(names)
    for j, name in enumerate(names, start=first):
        value, step = estimate[j], steps[:, j]
        if not step.any():  # treated as known: stays what it is to the last digit
            continue
        if name == "tau":
            logit = math.log(value / (1.0 - value)) + step / (value * (1.0 - value))
            moved[:, j] = 1.0 / (1.0 + np.exp(-logit))
        else:
            moved[:, j] = value * np.exp(step / value) if value > 0.0 else value
    return moved


def influence_skewness(
    influence: FloatArray,
    cases: FloatArray | None = None,
    codes: npt.NDArray[np.intp] | None = None,
) -> FloatArray:
    r"""Return the acceleration of BCa intervals, :math:`\sum I^3 / (6 (\sum I^2)^{3/2})`, shape (q,).

    Parameters
    ----------
    influence, cases, codes
        As in :func:`multiplier_steps`; a group counts with the sum of its rows.
    """
    q = influence.shape[1]
    squares, cubes = np.zeros(q), np.zeros(q)
    sums = None if codes is None else np.zeros((int(codes.max()) + 1, q))
    for rows in row_blocks(*influence.shape):
        block = influence[rows]
        part = np.ones(len(block)) if cases is None else cases[rows]
        if sums is not None and codes is not None:
            np.add.at(sums, codes[rows], block * part[:, None])
        else:
            squares += part @ block**2
            cubes += part @ block**3
    if sums is not None:
        squares, cubes = (sums**2).sum(axis=0), (sums**3).sum(axis=0)
    scale = 6.0 * squares**1.5
    return np.divide(cubes, scale, out=np.zeros(q), where=scale > 0.0)
