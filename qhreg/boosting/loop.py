"""The stagewise fit, the same for every kind of base learner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.learners import Learners
from qhreg.boosting.stage import (
    Noise,
    StageFit,
    clipped_responses,
    joint_step,
    leaf_locations,
    mean_loss,
    mean_size,
    pseudo_responses,
)
from qhreg.exceptions import DataError
from qhreg.solver.problem import Task

__all__ = ["Path", "Patience", "Validation", "boost"]


@dataclass(frozen=True)
class Path:
    """What the stages found, one entry each.

    Attributes
    ----------
    step, sigma, tau : ndarray, shape (m,)
        Joint optimum of each stage.
    train_score : ndarray, shape (m,)
        Mean negative log-likelihood of the training rows there.
    validation_score : ndarray, shape (m,), or None
        That of the validation rows after the stage, shrinkage included.
    """

    step: FloatArray
    sigma: FloatArray
    tau: FloatArray
    train_score: FloatArray
    validation_score: FloatArray | None

    def first(self, count: int) -> Path:
        """Return the path up to a stage."""
        score = None if self.validation_score is None else self.validation_score[:count]
        return Path(
            self.step[:count], self.sigma[:count], self.tau[:count], self.train_score[:count], score
        )

    def followed_by(self, later: Path) -> Path:
        """Return this path and a later one."""
        scores = None
        if self.validation_score is not None and later.validation_score is not None:
            scores = np.append(self.validation_score, later.validation_score)
        return Path(
            np.append(self.step, later.step),
            np.append(self.sigma, later.sigma),
            np.append(self.tau, later.tau),
            np.append(self.train_score, later.train_score),
            scores,
        )


@dataclass(frozen=True)
class Validation:
    """Rows held out for early stopping.

    Attributes
    ----------
    residuals : ndarray, shape (m,)
        y - f; updated in place.
    weights : ndarray, shape (m,), or None
        Case weights.
    """

    residuals: FloatArray
    weights: FloatArray | None


@dataclass(frozen=True)
class Patience:
    """When to stop early.

    Attributes
    ----------
    stages : int
        Stages without an improvement after which to stop.
    tol : float
        Decrease of the score that counts as one.
    """

    stages: int
    tol: float

    def is_over(self, scores: list[float]) -> bool:
        """Return whether none of the last stages improved on the best score before them."""
        if len(scores) <= self.stages:
            return False
        earlier, recent = scores[: -self.stages], scores[-self.stages :]
        return min(recent) > min(earlier) - self.tol


def boost(
    learners: Learners,
    design: FloatArray,
    weights: FloatArray | None,
    task: Task,
    start: tuple[float, Noise],
    *,
    n_stages: int,
    learning_rate: float,
    spread: float = 0.0,
    clip: float | None = None,
    unit: float = 1.0,
    leaf_refinement: bool = False,
    validation: Validation | None = None,
    patience: Patience | None = None,
    after_stage: Callable[[StageFit], None] | None = None,
) -> Path:
    """Run the stages, and return their path.

    Each stage fits a learner to the pseudo-responses at the last stage's noise, takes the joint step,
    and adds the learner times learning rate and step.

    Parameters
    ----------
    learners : Learners
        Told to keep what each stage adds.
    design : ndarray, shape (n, 2)
        Second column: the residuals y - f, updated in place. The first column is workspace.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    task : Task
        kappa, and what of sigma and tau is fixed.
    start : (float, Noise)
        Step and noise before the first stage.
    n_stages : int
        Most stages. Fewer are run when no learner improves the fit or no residual is left.
    learning_rate : float
        Shrinkage.
    spread : float
        Mean absolute residual before the first stage of all; the learners are told how much of it is
        left.
    clip : float or None
        Where the residuals that the learners are fitted to are clipped, in units of their mean size;
        None fits the learners to the pseudo-responses.
    unit : float
        The unit of y in which residuals and sigma are given here; what the learners keep and the path
        are in the units of y.
    leaf_refinement : bool
        Whether each leaf of a tree gets its own location at the stage's sigma and tau, instead of the
        common step.
    validation, patience : Validation, Patience or None
        Held-out rows, and when to stop on them.
    after_stage : callable or None
        Called with each stage's fit.
    """
    residuals, (step, noise) = design[:, 1], start
    fits: list[StageFit] = []
    scores: list[float] = []
    responses = np.empty(residuals.size)
    for _ in range(n_stages):
        pseudo_responses(residuals, noise, task.kappa, responses)
        if clip is not None:
            clipped_responses(residuals, weights, responses, clip)
        share = mean_size(residuals, weights) / spread if spread else 1.0
        design[:, 0] = learners.fit(responses, share)
        if not design[:, 0].any():
            break
        try:
            fit = joint_step(design, weights, task, (step, noise))
        except DataError:  # the learner explains every row: there is no noise left to model
            break
        step, noise = fit.step, fit.noise
        if leaf_refinement:
            _add_leaves(
                learners, residuals, weights, noise, task.kappa, learning_rate, unit, validation
            )
        else:
            _add(learners, design, learning_rate * step, unit, validation)
        fits.append(fit)
        if validation is not None:
            scores.append(mean_loss(validation.residuals, validation.weights, noise, task.kappa))
        if after_stage is not None:
            after_stage(fit)
        if patience is not None and patience.is_over(scores):
            break
    log_unit = float(np.log(unit))
    return Path(
        unit * np.array([fit.step for fit in fits]),
        unit * np.array([fit.noise.sigma for fit in fits]),
        np.array([fit.noise.tau for fit in fits]),
        np.array([fit.value for fit in fits]) + log_unit,
        None if validation is None else np.array(scores) + log_unit,
    )


def _add(
    learners: Learners,
    design: FloatArray,
    step: float,
    unit: float,
    validation: Validation | None,
) -> None:
    """Add the last learner times `step` to the model and to the predictions."""
    learners.keep(unit * step)
    design[:, 0] *= step
    design[:, 1] -= design[:, 0]
    if validation is not None:
        np.subtract(
            validation.residuals, step * learners.validation_outputs(), out=validation.residuals
        )


def _add_leaves(
    learners: Learners,
    residuals: FloatArray,
    weights: FloatArray | None,
    noise: Noise,
    kappa: float,
    learning_rate: float,
    unit: float,
    validation: Validation | None,
) -> None:
    """Add the last tree with a location of its own in each leaf, shrunk."""
    leaves = learners.leaves()
    values = learning_rate * leaf_locations(
        residuals, leaves.index, leaves.count, weights, noise, kappa
    )
    learners.keep_leaves(unit * values)
    residuals -= values[leaves.index]
    if validation is not None and leaves.validation_index is not None:
        np.subtract(validation.residuals, values[leaves.validation_index], out=validation.residuals)
