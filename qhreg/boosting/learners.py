"""Base learners: fit one to given responses, give its outputs. Everything else is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError

__all__ = ["AdditiveModel", "Learners", "Leaves", "SklearnLearners", "SklearnSum"]


@dataclass(frozen=True)
class Leaves:
    """The leaves of the last tree.

    Attributes
    ----------
    index : ndarray of int, shape (n,)
        Leaf of each training row.
    validation_index : ndarray of int or None
        Leaf of each validation row.
    count : int
        Number of leaves.
    """

    index: npt.NDArray[np.intp]
    validation_index: npt.NDArray[np.intp] | None
    count: int


class AdditiveModel(Protocol):
    """A fitted sum of scaled learners."""

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        ...

    def predict(self, exog: Any, n_stages: int | None = None) -> FloatArray:
        """Return the sum of the first stages, the constant included."""
        ...

    def stage(self, exog: Any, index: int) -> FloatArray:
        """Return the contribution of one stage; the first one holds the constant."""
        ...

    def importances(self) -> FloatArray:
        """Return the share of each column in the improvement of the learners' fits."""
        ...


class Learners(Protocol):
    """A growing sequence of learners on fixed training rows."""

    def fit(self, responses: FloatArray, share_left: float) -> FloatArray:
        """Fit the next learner by least squares, and return its outputs on the training rows.

        Parameters
        ----------
        responses : ndarray, shape (n,)
            What to fit.
        share_left : float
            How much of the spread of the response is left, for learners that ask a split for more
            where there is more noise.
        """
        ...

    def validation_outputs(self) -> FloatArray:
        """Return the last learner's outputs on the validation rows."""
        ...

    def leaves(self) -> Leaves:
        """Return the leaves of the last learner, when it is a tree."""
        ...

    def keep(self, step: float) -> None:
        """Add the last learner times `step` to the model."""
        ...

    def keep_leaves(self, values: FloatArray) -> None:
        """Add the last learner to the model with new values in its leaves."""
        ...

    def model(self, constant: float, n_stages: int) -> AdditiveModel:
        """Return the sum of the first stages and a constant."""
        ...


@dataclass(frozen=True)
class SklearnSum:
    """A constant plus scaled scikit-learn regressors.

    Attributes
    ----------
    constant : float
        Prediction before the first stage.
    learners : list of estimator
        Fitted regressors.
    steps : ndarray, shape (m,)
        Their factors.
    """

    constant: float
    learners: list[Any]
    steps: FloatArray

    @property
    def n_stages(self) -> int:
        """Number of regressors."""
        return len(self.learners)

    def stage(self, exog: Any, index: int) -> FloatArray:
        """Return the contribution of one stage."""
        output: FloatArray = self.steps[index] * _outputs(self.learners[index], exog)
        return output + self.constant if index == 0 else output

    def predict(self, exog: Any, n_stages: int | None = None) -> FloatArray:
        """Return the sum of the first stages."""
        total = np.full(exog.shape[0], self.constant)
        for learner, step in zip(self.learners[:n_stages], self.steps[:n_stages], strict=True):
            total += step * _outputs(learner, exog)
        return total

    def importances(self) -> FloatArray:
        """Return the mean of the regressors' importances, weighted by their steps."""
        if not self.learners:
            raise AttributeError("no stage was fitted, so that there are no importances")
        each = np.array([learner.feature_importances_ for learner in self.learners])
        weights = np.abs(self.steps)
        total: FloatArray = weights @ each
        return total / max(float(total.sum()), 1e-300)


def _outputs(learner: Any, exog: Any) -> FloatArray:
    return np.asarray(learner.predict(exog), dtype=np.float64).reshape(exog.shape[0])


class SklearnLearners:
    """Clones of a scikit-learn regressor, one per stage.

    Parameters
    ----------
    estimator : regressor
        Cloned for each stage.
    exog : array, shape (n, p)
        Training rows.
    weights : ndarray, shape (n,), or None
        Case weights.
    validation : array or None
        Validation rows.
    subsample : float
        Share of the training rows, drawn without replacement, that each learner is fitted to.
    rng : numpy.random.RandomState
        Source of the samples, and of the learners' `random_state`.
    before : SklearnSum or None
        Stages of an earlier fit.
    """

    def __init__(
        self,
        estimator: Any,
        exog: Any,
        weights: FloatArray | None,
        validation: Any,
        *,
        subsample: float,
        rng: Any,
        before: SklearnSum | None = None,
    ) -> None:
        if weights is not None and not has_fit_parameter(estimator, "sample_weight"):
            raise DataError(f"{type(estimator).__name__}.fit does not take sample_weight")
        self._estimator, self._exog, self._weights = estimator, exog, weights
        self._validation, self._subsample, self._rng = validation, subsample, rng
        self._learners = [] if before is None else list(before.learners)
        self._steps = [] if before is None else list(before.steps)
        self._last: Any = None

    def fit(self, responses: FloatArray, share_left: float = 1.0) -> FloatArray:
        """Fit the next regressor, and return its outputs on all training rows."""
        learner = clone(self._estimator)
        if "random_state" in learner.get_params():
            learner.set_params(random_state=self._rng.randint(np.iinfo(np.int32).max))
        exog, weights = self._exog, self._weights
        if self._subsample < 1.0:
            rows = self._sample(responses.size)
            exog, responses = exog[rows], responses[rows]
            weights = None if weights is None else weights[rows]
        if weights is None:
            learner.fit(exog, responses)
        else:
            learner.fit(exog, responses, sample_weight=weights)
        self._last = learner
        return _outputs(learner, self._exog)

    def _sample(self, n: int) -> npt.NDArray[np.intp]:
        size = max(1, int(self._subsample * n))
        rows: npt.NDArray[np.intp] = np.sort(self._rng.permutation(n)[:size])
        return rows

    def validation_outputs(self) -> FloatArray:
        """Return the last regressor's outputs on the validation rows."""
        return _outputs(self._last, self._validation)

    def leaves(self) -> Leaves:
        """Return the leaves of the last regressor, which must be a tree with `apply` and `tree_`."""
        if not (hasattr(self._last, "apply") and hasattr(self._last, "tree_")):
            raise DataError(
                f"leaf_refinement needs trees; {type(self._last).__name__} has no leaves"
            )
        validation = None if self._validation is None else self._last.apply(self._validation)
        return Leaves(self._last.apply(self._exog), validation, self._last.tree_.node_count)

    def keep(self, step: float) -> None:
        """Add the last regressor times `step`."""
        self._learners.append(self._last)
        self._steps.append(step)

    def keep_leaves(self, values: FloatArray) -> None:
        """Add the last tree with new values in its nodes."""
        self._last.tree_.value[:, 0, 0] = values
        self.keep(1.0)

    def model(self, constant: float, n_stages: int) -> SklearnSum:
        """Return the sum of the first stages and a constant."""
        return SklearnSum(constant, self._learners[:n_stages], np.array(self._steps[:n_stages]))
