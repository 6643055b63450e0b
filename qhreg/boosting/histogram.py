"""LightGBM's histogram trees as base learners, and their sum as one LightGBM booster.

The data are binned once. Each stage hands LightGBM the pseudo-responses as gradients of a squared
error, with the weights as Hessian: the leaf outputs are then weighted means. Responses are divided by
their root mean square times the share of the spread of y that is left, so that the gain of a split is
measured in units of the noise. Outputs on the training rows are differences of the raw scores that
LightGBM keeps anyway. Those scores belong to the unscaled trees; the step sizes are written into the
leaves when the model is asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from qhreg._typing import FloatArray
from qhreg.boosting.learners import Leaves

try:
    import lightgbm as lgb
except ImportError as error:  # pragma: no cover - exercised in a subprocess
    raise ImportError(
        "the default base learners need LightGBM: install it with `pip install qhreg[boost]`, "
        "or give a scikit-learn regressor as `estimator`"
    ) from error

__all__ = ["HistogramSum", "HistogramTrees", "TreeOptions"]


COLUMNS = "feature_fraction_bynode"
"""LightGBM's name of the share of the columns drawn for each split."""

ROUNDING_GAIN = 1e-12
"""Gain per unit of weight below which a split separates only the rounding of the responses."""

WEIGHT_ROUNDING = 1e-5
"""Share by which the weight of a leaf, a sum of single-precision numbers, may miss what it should be."""

OUTPUT_ROUNDING = 1e-9
"""Share of the largest output of a tree's leaves by which two outputs differ when they are equal."""

LEAST_SHARE = 1e-3
"""Share of the spread of y below which splits need no gain: none is smaller than this one squared."""


@dataclass(frozen=True)
class TreeOptions:
    """What a tree may look like.

    Attributes
    ----------
    max_depth, max_leaf_nodes : int or None
        Depth; number of leaves, by default all that the depth allows, or 31 without a depth.
    min_samples_leaf : int
        Rows in a leaf, or their weight.
    max_features : float
        Share of the columns drawn for each split; where a tree has none then, all are looked at.
    max_bins : int
        Bins of a column.
    l2_regularization : float
        Added to the number of rows of a leaf in its mean.
    min_split_gain : float
        Decrease of the sum of squares that a split has to bring, in units of the mean square times
        the square of the share of the spread of y that is left.
    subsample : float
        Share of the rows drawn for each tree.
    n_threads : int
        LightGBM's threads.
    seed : int
        Of its random draws.
    """

    max_depth: int | None = 3
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_bins: int = 255
    l2_regularization: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    n_threads: int = 1
    seed: int = 0

    @property
    def leaves(self) -> int:
        """The number of leaves LightGBM is given."""
        most = 2**16 if self.max_depth is None else 2 ** min(self.max_depth, 16)
        if self.max_leaf_nodes is None:
            return 31 if self.max_depth is None else max(most, 2)
        return max(min(self.max_leaf_nodes, most), 2)

    def parameters(self, lightest: float = 1.0, total: float = 0.0) -> dict[str, Any]:
        """Return LightGBM's parameters, given the smallest weight of a row and their sum.

        The rows of a leaf are counted by their weights, so that a weight of two is a row given twice:
        LightGBM's own count would not do so. A minimum of one row is taken for less than the smallest
        weight, which no leaf with a row can miss.
        """
        rows = self.min_samples_leaf
        least = 0.5 * lightest if rows == 1 else rows * (1.0 - WEIGHT_ROUNDING)
        return {
            "objective": "none",
            "metric": "none",
            "boost_from_average": False,
            "learning_rate": 1.0,
            "num_leaves": self.leaves,
            "max_depth": -1 if self.max_depth is None else self.max_depth,
            "min_data_in_leaf": 0,
            "min_sum_hessian_in_leaf": least,
            "min_gain_to_split": max(self.min_split_gain, ROUNDING_GAIN * total),
            "lambda_l2": self.l2_regularization,
            COLUMNS: self.max_features,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1.0),
            "max_bin": self.max_bins,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "num_threads": self.n_threads,
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


@dataclass(frozen=True)
class HistogramSum:
    """One LightGBM booster whose leaves hold the scaled outputs, the first tree the constant too.

    Attributes
    ----------
    booster : lightgbm.Booster
        The trees.
    constant : float
        Prediction before the first stage: all there is when no tree found a split.
    n_stages : int
        Number of trees.
    n_threads : int
        Threads of a prediction.
    """

    booster: Any
    constant: float
    n_stages: int
    n_threads: int

    def _sum(self, exog: Any, first: int, count: int) -> FloatArray:
        # LightGBM takes no iterations for all of them
        if count == 0:
            return np.full(exog.shape[0], self.constant if first == 0 else 0.0)
        output: FloatArray = self.booster.predict(
            _as_lightgbm(exog),
            start_iteration=first,
            num_iteration=count,
            num_threads=self.n_threads,
            raw_score=True,
        )
        return output

    def predict(self, exog: Any, n_stages: int | None = None) -> FloatArray:
        """Return the sum of the first stages."""
        return self._sum(exog, 0, self.n_stages if n_stages is None else n_stages)

    def stage(self, exog: Any, index: int) -> FloatArray:
        """Return the contribution of one stage."""
        return self._sum(exog, index, 1)

    def importances(self) -> FloatArray:
        """Return the share of each column in the gain of all splits."""
        if self.booster is None:
            raise AttributeError("no tree found a split, so that there are no importances")
        gain: FloatArray = self.booster.feature_importance("gain")
        return gain / max(float(gain.sum()), 1e-300)


def _as_lightgbm(exog: Any) -> Any:
    """Return sparse rows as the matrix class that LightGBM knows; anything else as it is."""
    matrix: Any = sparse.csr_matrix
    return matrix(exog) if sparse.issparse(exog) else exog


def _has_nonzero(exog: Any) -> bool:
    """Return whether any entry differs from zero, most often from the first row alone."""
    values = exog.data if hasattr(exog, "nnz") else exog
    return bool(np.any(values[:1]) or np.any(values))


def _leaf_outputs(model: str) -> list[FloatArray]:
    """Return the outputs of the leaves of each tree of a model in LightGBM's text format.

    The other public ways to ask for their number, a JSON dump or a data frame of all nodes, take ten
    times as long.
    """
    found = re.findall(r"^leaf_value=(.*)$", model, re.MULTILINE)
    return [np.array(values.split(), dtype=np.float64) for values in found]


class _Apart(NamedTuple):
    """Leaves told apart by their outputs: borders between the groups, and the group of each leaf."""

    borders: FloatArray
    group: npt.NDArray[np.intp]


def _apart(outputs: FloatArray) -> _Apart:
    """Return which leaves have the same output, up to the rounding of sums over stages."""
    values = np.unique(outputs)
    larger = np.diff(values) > OUTPUT_ROUNDING * np.abs(values).max()
    middle = 0.5 * (values[1:] + values[:-1])
    group = np.append(0, np.cumsum(larger))
    return _Apart(middle[larger], group[np.searchsorted(values, outputs)])


class HistogramTrees:
    """LightGBM trees, one per stage.

    Parameters
    ----------
    options : TreeOptions
        What a tree may look like.
    exog : array, shape (n, p)
        Training rows.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    validation : array or None
        Validation rows.
    before : HistogramSum or None
        Stages of an earlier fit, to be continued.
    """

    def __init__(
        self,
        options: TreeOptions,
        exog: Any,
        weights: FloatArray | None,
        validation: Any,
        *,
        before: HistogramSum | None = None,
    ) -> None:
        exog, validation = _as_lightgbm(exog), _as_lightgbm(validation)
        n = int(exog.shape[0])
        lightest, total = (1.0, n) if weights is None else (weights.min(), weights.sum())
        self._parameters = options.parameters(float(lightest), float(total))
        # LightGBM rounds the number of rows down, and fails when none is left
        self._parameters["bagging_fraction"] = min(max(options.subsample, (1.0 + 1e-9) / n), 1.0)
        self._n_threads = options.n_threads
        self._data = lgb.Dataset(
            exog,
            label=np.zeros(n, np.float32),
            feature_name=[f"x{j}" for j in range(exog.shape[1])],
            params=self._parameters,
        )
        self._weights = weights
        self._gradient = np.empty(n, np.float32)
        self._hessian = np.ones(n, np.float32) if weights is None else weights.astype(np.float32)
        self._booster: Any = None
        self._nothing_to_split = not _has_nonzero(exog)
        self._before = before if before is not None and before.n_stages else None
        self._scores = np.zeros(n) if self._before is None else self._before.predict(exog)
        self._outputs = np.empty(n)
        self._unit = 1.0
        self._total = float(total)
        self._leaf_values: list[float | FloatArray] = []
        self._validation: Any = None
        if validation is not None:
            zeros = np.zeros(validation.shape[0], np.float32)
            self._validation = self._data.create_valid(validation, label=zeros)
            self._validation_scores = (
                np.zeros(zeros.size) if self._before is None else self._before.predict(validation)
            )

    def _objective(self, scores: FloatArray, data: Any) -> tuple[Any, Any]:
        return self._gradient, self._hessian

    def _start(self, parameters: dict[str, Any]) -> Any:
        """Return a booster with the first new tree behind those of the earlier fit."""
        gradient, hessian = self._gradient, self._hessian
        return lgb.train(
            # a plain function: LightGBM copies its parameters deeply, with the owner of a method
            {**parameters, "objective": lambda scores, data: (gradient, hessian)},
            self._data,
            num_boost_round=1,
            init_model=None if self._before is None else self._before.booster,
            valid_sets=None if self._validation is None else [self._validation],
            keep_training_booster=True,
        )

    def fit(self, responses: FloatArray, share_left: float = 1.0) -> FloatArray:
        """Grow the next tree, and return its outputs on the training rows.

        They are all zero when no split improves the fit.
        """
        if self._nothing_to_split:  # LightGBM would not start
            self._outputs[:] = 0.0
            return self._outputs
        self._unit = max(share_left, LEAST_SHARE) * self._root_mean_square(responses)
        np.multiply(responses, -1.0 / self._unit, out=self._gradient, casting="same_kind")
        if self._weights is not None:
            self._gradient *= self._hessian
        first = self._booster is None and self._before is None
        if self._booster is None:
            self._booster = self._start(self._parameters)
        else:
            self._booster.update(fobj=self._objective)
        self._receive_outputs()
        if self._parameters[COLUMNS] < 1.0 and not self._outputs.any():
            self._grow_from_all_columns(first)
        self._outputs *= self._unit
        return self._outputs

    def _grow_from_all_columns(self, first: bool) -> None:
        """Grow the tree again: none of the columns drawn for its root had a split, another one may."""
        if first:  # LightGBM keeps a tree without splits when there is no other
            self._booster = self._start({**self._parameters, COLUMNS: 1.0})
        else:
            self._booster.reset_parameter({COLUMNS: 1.0})
            self._booster.update(fobj=self._objective)
        self._booster.reset_parameter({COLUMNS: self._parameters[COLUMNS]})
        self._receive_outputs()

    def _receive_outputs(self) -> None:
        """Store the outputs of the last tree on the training rows."""

        def receive(scores: FloatArray, data: Any) -> tuple[str, float, bool]:
            np.subtract(scores, self._scores, out=self._outputs)
            self._scores[:] = scores
            return "received", 0.0, False

        self._booster.eval_train(receive)

    def _root_mean_square(self, responses: FloatArray) -> float:
        weighted = responses if self._weights is None else responses * self._weights
        return float(np.sqrt(weighted @ responses / self._total)) or 1.0

    def validation_outputs(self) -> FloatArray:
        """Return the last tree's outputs on the validation rows."""
        outputs = np.empty(0)

        def receive(scores: FloatArray, data: Any) -> tuple[str, float, bool]:
            nonlocal outputs
            outputs = self._unit * (scores - self._validation_scores)
            self._validation_scores[:] = scores
            return "received", 0.0, False

        self._booster.eval_valid(receive)
        return outputs

    def leaves(self) -> Leaves:
        """Return the leaves of the last tree; leaves of equal output count as one."""
        borders = self._unit * _apart(self._last_outputs()).borders
        validation = None
        if self._validation is not None:
            validation = np.searchsorted(borders, self.validation_outputs())
        return Leaves(np.searchsorted(borders, self._outputs), validation, borders.size + 1)

    def _n_earlier(self) -> int:
        return 0 if self._before is None else self._before.n_stages

    def _last_outputs(self) -> FloatArray:
        """Return the outputs of the leaves of the last tree."""
        tree = self._booster.num_trees() - 1
        text = self._booster.model_to_string(start_iteration=tree, num_iteration=1)
        return _leaf_outputs(text)[0]

    def keep(self, step: float) -> None:
        """Add the last tree times `step`."""
        self._leaf_values.append(step * self._unit)

    def keep_leaves(self, values: FloatArray) -> None:
        """Add the last tree with new values in its leaves, in the order of their outputs."""
        self._leaf_values.append(values[_apart(self._last_outputs()).group])

    def model(self, constant: float, n_stages: int) -> HistogramSum:
        """Return the first stages as one booster, leaves scaled, the constant in the first tree."""
        if n_stages == 0:
            return HistogramSum(None, constant, 0, self._n_threads)
        first = self._n_earlier()
        outputs = _leaf_outputs(self._booster.model_to_string(start_iteration=first))
        for index, kept in enumerate(self._leaf_values, start=first):
            values = kept
            if not isinstance(values, np.ndarray):
                values = kept * outputs[index - first]
            if index == 0:
                values = values + constant
            for leaf, value in enumerate(values.tolist()):
                self._booster.set_leaf_output(index, leaf, value)
        text = self._booster.model_to_string(num_iteration=n_stages)
        return HistogramSum(lgb.Booster(model_str=text), constant, n_stages, self._n_threads)
