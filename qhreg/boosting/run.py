"""From rows to a fitted sum of learners: the constant, the scale, the stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.boosting.learners import AdditiveModel, Learners, SklearnSum
from qhreg.boosting.loop import Path, Patience, Validation, boost
from qhreg.boosting.stage import Noise, StageFit, fit_location
from qhreg.solver.problem import Task

__all__ = ["Rows", "Schedule", "Stages", "run_stages"]


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, or to validate on.

    Attributes
    ----------
    exog : array or sparse matrix, shape (n, p)
        Features.
    endog : ndarray, shape (n,)
        Response.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    """

    exog: Any
    endog: FloatArray
    weights: FloatArray | None


@dataclass(frozen=True)
class Schedule:
    """How many stages, how far each goes, and when they end.

    Attributes
    ----------
    n_stages : int
        Most stages, those of an earlier fit included.
    learning_rate : float
        Shrinkage.
    clip : float or None
        Where the residuals that the learners are fitted to are clipped; None fits them to the slopes.
    leaf_refinement : bool
        Whether each leaf gets its own location.
    patience : Patience or None
        When to stop early.
    """

    n_stages: int
    learning_rate: float
    clip: float | None
    leaf_refinement: bool
    patience: Patience | None


@dataclass(frozen=True)
class Stages:
    """A fitted sum of learners.

    Attributes
    ----------
    constant : float
        Prediction before the first stage.
    noise : Noise
        sigma and tau at the last stage, or around the constant when there is none.
    path : Path
        What the stages found.
    model : AdditiveModel
        Their sum.
    residuals : ndarray, shape (n,)
        Of the training rows.
    """

    constant: float
    noise: Noise
    path: Path
    model: AdditiveModel
    residuals: FloatArray


def run_stages(
    train: Rows,
    held_out: Rows | None,
    task: Task,
    schedule: Schedule,
    learners_after: Callable[[AdditiveModel | None], Learners],
    *,
    earlier: Stages | None = None,
    keep_sigma: bool = False,
    after_stage: Callable[[StageFit], None] | None = None,
) -> Stages:
    """Return the stages fitted to training rows.

    Parameters
    ----------
    train, held_out : Rows, Rows or None
        Training rows; rows for the validation score.
    task : Task
        kappa, and what of sigma and tau is fixed.
    schedule : Schedule
        How many stages, how far each goes.
    learners_after : callable
        Gives the base learners that continue a model, or begin one.
    earlier : Stages or None
        Stages to continue.
    keep_sigma : bool
        Whether sigma is the scale of the response around its location, tau one half, for all stages.
    after_stage : callable or None
        Called with each stage's fit.
    """
    if earlier is None or not earlier.path.tau.size:
        earlier = None
        if keep_sigma:
            task = _with_symmetric_scale(train, task)
        found = fit_location(train.endog, train.weights, task)
        if found is None:
            return _constant(train, task, schedule)
        (constant, noise), step = found, 0.0
    else:
        constant, noise, step = earlier.constant, earlier.noise, float(earlier.path.step[-1])
        if keep_sigma:
            task = replace(task, sigma=noise.sigma)
    unit = _unit(noise, task)
    before = None if earlier is None else earlier.model
    design = np.empty((train.endog.size, 2), order="F")
    design[:, 1] = _residuals(train, constant, before) / unit
    validation = None
    if held_out is not None:
        validation = Validation(_residuals(held_out, constant, before) / unit, held_out.weights)
    learners = learners_after(before)
    path = boost(
        learners,
        design,
        train.weights,
        replace(task, sigma=None if task.sigma is None else 1.0),
        (step / unit, Noise(noise.sigma / unit, noise.tau)),
        n_stages=schedule.n_stages - (0 if earlier is None else earlier.path.tau.size),
        learning_rate=schedule.learning_rate,
        spread=float(np.average(np.abs(train.endog - constant), weights=train.weights)) / unit,
        clip=schedule.clip,
        unit=unit,
        leaf_refinement=schedule.leaf_refinement,
        validation=validation,
        patience=schedule.patience,
        after_stage=after_stage,
    )
    if earlier is not None:
        path = earlier.path.followed_by(path)
    if path.validation_score is not None and path.tau.size:
        path = path.first(int(np.argmin(path.validation_score)) + 1)
    if path.tau.size:
        noise = Noise(float(path.sigma[-1]), float(path.tau[-1]))
    model = learners.model(constant, path.tau.size)
    return Stages(constant, noise, path, model, unit * design[:, 1])


def _with_symmetric_scale(train: Rows, task: Task) -> Task:
    """Return the task with sigma fixed at the scale of the response around its location, tau one half.

    A response that is skewed by what is yet to be learnt would be taken for one-sided noise, with tau at
    its bound and a sigma near 0, and residuals would never be small beside it.
    """
    tau = 0.5 if task.tau is None else task.tau
    found = fit_location(train.endog, train.weights, replace(task, tau=tau))
    return task if found is None else replace(task, sigma=found[1].sigma)


def _residuals(rows: Rows, constant: float, before: AdditiveModel | None) -> FloatArray:
    return rows.endog - (constant if before is None else before.predict(rows.exog))


def _unit(noise: Noise, task: Task) -> float:
    """Return the unit to compute in: a fixed sigma, or a power of two near the estimated one."""
    if task.sigma is not None:
        return task.sigma
    return float(2.0 ** np.round(np.log2(noise.sigma)))


def _constant(train: Rows, task: Task, schedule: Schedule) -> Stages:
    """Return a model without stages: the response has one value."""
    constant = float(np.average(train.endog, weights=train.weights))
    noise = Noise(task.sigma or 0.0, task.tau or 0.5)
    empty = np.empty(0)
    path = Path(empty, empty, empty, empty, None if schedule.patience is None else empty)
    return Stages(constant, noise, path, SklearnSum(constant, [], empty), train.endog - constant)
