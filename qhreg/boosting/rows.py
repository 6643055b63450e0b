"""Rows given to the regressor: which of them count, and how they are divided."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils.validation import _check_sample_weight

from qhreg._typing import FloatArray
from qhreg.boosting.run import Rows
from qhreg.exceptions import DataError, warn_caller

__all__ = ["hold_out", "out_of_fold_errors", "weighted_rows"]


LIGHT = 0.1
"""Mean weight below which weights are likely to be shares, not counts of rows."""


LIGHT_WEIGHTS = "the sample weights"
"""How the warning of such weights begins."""


def weighted_rows(exog: Any, endog: FloatArray, sample_weight: Any) -> Rows:
    """Return the rows with positive weight, and their weights."""
    if sample_weight is None:
        return Rows(exog, endog, None)
    weights = _check_sample_weight(sample_weight, exog, dtype=np.float64)
    if bool((weights < 0.0).any()):
        raise DataError(
            f"sample_weight must not be negative, got {int((weights < 0.0).sum())} below zero"
        )
    keep = weights > 0.0
    if not keep.any():
        raise DataError("all sample weights are zero: there is nothing to fit")
    if not keep.all():
        exog, endog, weights = exog[keep], endog[keep], weights[keep]
    if float(weights.sum()) < LIGHT * weights.size:
        warn_caller(
            f"{LIGHT_WEIGHTS} of {weights.size} rows sum to {weights.sum():.3g}: they count as that "
            "many rows, and splits and leaves may need more; rescale them if they are shares",
            UserWarning,
        )
    return Rows(exog, endog, weights)


def hold_out(rows: Rows, share: float, rng: Any) -> tuple[Rows, Rows]:
    """Return training and validation rows, drawn at random."""
    inside, outside = train_test_split(
        np.arange(rows.endog.size), test_size=share, random_state=rng
    )
    return _chosen(rows, inside), _chosen(rows, outside)


def _chosen(rows: Rows, index: npt.NDArray[np.intp]) -> Rows:
    weights = None if rows.weights is None else rows.weights[index]
    return Rows(rows.exog[index], rows.endog[index], weights)


def out_of_fold_errors(model: Any, rows: Rows, folds: int, seed: int) -> FloatArray:
    """Return each row's error under a clone of the model that is fitted to the other folds."""
    errors = np.empty(rows.endog.size)
    for inside, outside in KFold(folds, shuffle=True, random_state=seed).split(rows.endog):
        train = _chosen(rows, inside)
        with warnings.catch_warnings():  # said of all rows already
            warnings.filterwarnings("ignore", LIGHT_WEIGHTS)
            fitted = clone(model).fit(train.exog, train.endog, sample_weight=train.weights)
        errors[outside] = rows.endog[outside] - fitted.predict(rows.exog[outside])
    return errors
