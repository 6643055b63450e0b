"""LightGBM trees grown on given gradients: on all rows, and with folds held out of the teaching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold, check_cv

from qhreg._typing import FloatArray, IntArray
from qhreg.boosting.noise import Noise
from qhreg.exceptions import DataError


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


class Stage(NamedTuple):
    """What the rows that test say after a stage.

    Attributes
    ----------
    sigma, loss : float
        Their scale and mean negative log-likelihood at tau = 1/2: the scale for the next stage, and the
        score of this one.
    noise : Noise or None
        Their noise; None for stages of the spread, whose path is not kept.
    """

    sigma: float
    loss: float
    noise: Noise | None


Gradient = Callable[[FloatArray, FloatArray, float], tuple[FloatArray, FloatArray]]
"""From predictions, weights and sigma to gradient and curvature of the loss, weights included."""


@dataclass(frozen=True)
class TreeSum:
    """A constant plus trees.

    Attributes
    ----------
    constant : float
        What the trees are added to.
    booster : lightgbm.Booster or None
        The trees; None where there are none.
    """

    constant: float
    booster: lgb.Booster | None

    def predict(self, exog: Any) -> FloatArray:
        """Return the sum for rows of features."""
        if self.booster is None:
            return np.full(exog.shape[0], self.constant)
        trees: FloatArray = np.asarray(self.booster.predict(readable(exog)), dtype=np.float64)
        return self.constant + trees

    def first(self, n_stages: int) -> TreeSum:
        """Return the sum of the first trees."""
        if self.booster is None or not n_stages:
            return TreeSum(self.constant, None)
        text = self.booster.model_to_string(num_iteration=n_stages)
        return TreeSum(self.constant, lgb.Booster(model_str=text))

    def importances(self) -> FloatArray:
        """Return the share of each feature in the decrease of the weighted sum of squares."""
        assert self.booster is not None
        gains = np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)
        return np.asarray(gains / gains.sum())

    def in_first_tree(self, shift: float = 0.0) -> TreeSum:
        """Return the same sum plus a shift, the constant inside the leaves of the first tree."""
        constant = self.constant + shift
        if self.booster is None:
            return TreeSum(constant, None)
        text = self.booster.model_to_string()
        # the objective that leaves sums as they are, for tools that refuse a custom one
        text = text.replace("\nfeature_names=", "\nobjective=regression\nfeature_names=", 1)
        text = text.replace("[objective: custom]", "[objective: regression]")
        booster = lgb.Booster(model_str=text)
        first = booster.dump_model(num_iteration=1)["tree_info"][0]
        for leaf in range(first["num_leaves"]):
            booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + constant)
        return TreeSum(0.0, booster)


@dataclass(frozen=True)
class CrossFit:
    """Trees on all rows, and with folds held out.

    Attributes
    ----------
    n_stages : int
        Stages that are kept.
    predictions : ndarray, shape (n,)
        Of each row by the trees of its fold, after as many stages.
    stages : list of Stage
        Before the first stage, and after each one that was run.
    sums : list of TreeSum
        The trees of each fold.
    every : TreeSum
        As many trees on all rows that teach.
    """

    n_stages: int
    predictions: FloatArray
    stages: Sequence[Stage]
    sums: Sequence[TreeSum]
    every: TreeSum


def readable(exog: Any) -> Any:
    """Return rows as LightGBM reads them: sparse ones as matrices, not as arrays."""
    rows: Any = exog
    return sparse.csr_matrix(rows) if sparse.issparse(exog) else exog


@dataclass(frozen=True)
class Growth:
    """Rows that trees are grown on, and how.

    Attributes
    ----------
    data : lightgbm.Dataset
        Features of all rows.
    folds : Folds
        Which rows teach and which test.
    options : dict
        LightGBM's parameters.
    max_stages : int
        Most stages.
    patience : int or None
        Stages without a better score after which to stop; the stages up to the best one are kept. None
        runs and keeps all of them.
    """

    data: lgb.Dataset
    folds: Folds
    options: dict[str, Any]
    max_stages: int
    patience: int | None

    def cross_fit(
        self,
        gradient: Gradient,
        constant: Callable[[FloatArray], float],
        judge: Callable[[FloatArray, Stage | None], Stage],
    ) -> CrossFit:
        """Return trees for every fold, grown side by side until the rows held out gain no more.

        All folds use the same bins: rows that are held out have weight zero. After each stage the noise
        is fitted to the rows that test, and its likelihood at tau = 1/2 is the score. As many trees are
        then grown on all rows, with the same sigmas.

        Parameters
        ----------
        gradient : callable
            See `Gradient`.
        constant : callable
            From weights to the constant that trees are added to.
        judge : callable
            From predictions of all rows, and the stage before, to what the rows that test say.
        """
        folds = self.folds
        constants = [constant(weights) for weights in folds.training]
        boosters = [lgb.Booster(self.options, self.data) for _ in constants]
        predictions = np.zeros(folds.weights.size)
        for rows, base in zip(folds.predicted, constants, strict=True):
            predictions[rows] = base
        stages, best, kept = [judge(predictions, None)], 0, predictions.copy()
        runs = self.max_stages if _has_splits(self.data) else 0
        for stage in range(1, runs + 1):
            sigma = stages[-1].sigma
            for booster, base, weights, rows in zip(
                boosters, constants, folds.training, folds.predicted, strict=True
            ):
                _add_tree(booster, gradient, base, weights, sigma)
                predictions[rows] = base + _scores(booster)[rows]
            stages.append(judge(predictions, stages[-1]))
            if self.patience is None or stages[-1].loss < stages[best].loss:
                best, kept = stage, predictions.copy()
            elif stage - best >= self.patience:
                break
        sums = [TreeSum(c, each).first(best) for c, each in zip(constants, boosters, strict=True)]
        if len(sums) == 1:  # the fold had all training rows
            return CrossFit(best, kept, stages, sums, sums[0])
        base, booster = constant(folds.weights), lgb.Booster(self.options, self.data)
        for done in stages[:best]:
            _add_tree(booster, gradient, base, folds.weights, done.sigma)
        return CrossFit(best, kept, stages, sums, TreeSum(base, booster if best else None))


def _add_tree(
    booster: lgb.Booster, gradient: Gradient, constant: float, weights: FloatArray, sigma: float
) -> None:
    """Grow the next tree on the gradient at the predictions so far."""

    def objective(trees: FloatArray, _: lgb.Dataset) -> tuple[FloatArray, FloatArray]:
        return gradient(constant + trees, weights, sigma)

    booster.update(fobj=objective)


def _scores(booster: lgb.Booster) -> FloatArray:
    """Return the trees' sum for the rows of their own data set."""
    scores: list[FloatArray] = []

    def keep(values: FloatArray, _: lgb.Dataset) -> tuple[str, float, bool]:
        scores.append(values)
        return "", 0.0, False

    booster.eval_train(feval=keep)
    return scores[0]


def _has_splits(data: lgb.Dataset) -> bool:
    """Return whether any feature has two values."""
    data.construct()
    return any(data.feature_num_bin(j) > 1 for j in range(data.num_feature()))
