"""Which rows teach the trees, and which test them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from qhreg._typing import FloatArray, IntArray
from qhreg.exceptions import DataError

__all__ = ["Folds", "cross_folds", "evaluation_fold"]


@dataclass(frozen=True)
class Folds:
    """Which rows teach and which test.

    Attributes
    ----------
    weights : ndarray, shape (n,)
        Case weights of the final fit, zero for rows that only test.
    training : list of ndarray, shape (n,)
        The same for each fold: zero for the rows held out.
    predicted : list of ndarray of int
        The rows whose predictions come from the fold: together all of them, each once.
    test_weights : ndarray, shape (n,)
        Case weights in the score, zero for rows that do not test.
    """

    weights: FloatArray
    training: Sequence[FloatArray]
    predicted: Sequence[IntArray]
    test_weights: FloatArray


def cross_folds(cv: Any, exog: Any, endog: FloatArray, weights: FloatArray, rng: Any) -> Folds:
    """Return the folds of a cross-validation; with `cv` None all rows teach, and the same ones test.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        As in scikit-learn; an integer gives folds of rows in random order.
    exog, endog, weights : array, ndarray, ndarray
        Rows and case weights.
    rng : RandomState
        Of the order.
    """
    if cv is None:
        return Folds(weights, [weights], [np.arange(endog.size)], weights)
    shuffled = isinstance(cv, Integral)
    splitter = KFold(cv, shuffle=True, random_state=rng) if shuffled else check_cv(cv)
    training, predicted = [], []
    for inside, outside in splitter.split(exog, endog):
        training.append(np.zeros(endog.size))
        training[-1][inside] = weights[inside]
        predicted.append(np.asarray(outside))
    if not np.array_equal(np.sort(np.concatenate(predicted)), np.arange(endog.size)):
        raise DataError(f"the folds of cv={cv!r} must hold out each row once")
    return Folds(weights, training, predicted, weights)


def evaluation_fold(weights: FloatArray, n_evaluation: int) -> Folds:
    """Return the one fold of training rows followed by rows that only test."""
    zeros, ones = np.zeros(weights.size), np.ones(n_evaluation)
    taught = np.concatenate([weights, np.zeros(n_evaluation)])
    return Folds(taught, [taught], [np.arange(taught.size)], np.concatenate([zeros, ones]))
