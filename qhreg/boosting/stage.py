r"""One boosting stage: pseudo-responses, and the joint step of the linear model with one column.

With predictions f and the outputs g of a new learner, the stage's unknowns are the step size beta, the
scale sigma and the asymmetry tau of

.. math:: u_i = (y_i - f_i - \beta g_i)/\sigma ,

a linear model with the single column g and the offset f. It is fitted by the Newton method that fits
every linear model here (QH-12, QH-13), started from the last stage; where that ends too far from the
optimum, by the exact route.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dasum

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows
from qhreg.exceptions import DataError
from qhreg.family.loss import quantile_huber_loss, zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver import in_coordinates, value_shift
from qhreg.solver.dual import TINY_KAPPA
from qhreg.solver.inputs import rows_of
from qhreg.solver.newton import SHORT_STEP, newton, unverified_step
from qhreg.solver.over_tau import local_fit, profile_value
from qhreg.solver.problem import Problem, Task
from qhreg.solver.setup import set_up

__all__ = [
    "Noise",
    "StageFit",
    "clipped_responses",
    "fit_location",
    "joint_step",
    "leaf_locations",
    "mean_loss",
    "mean_size",
    "pseudo_responses",
]


STEP_TOLERANCE = 1e-6
"""Newton error at which a stage's step is taken."""

MANY_ROWS = 5000
"""Rows beyond which the last Newton step is taken without another pass to verify it."""

ROUGH_STEP = 1e-1
"""Newton error that may be left with many rows when the passes are used up: 5e-3 of log-likelihood
per row, for the next stage to gain."""

FEW_PASSES = 2
"""Passes over many rows after which a sample of them is fitted first."""

SAMPLE_EVERY = 8
"""The sample has every eighth row: its optimum is about as near to that of all rows as `SHORT_STEP`."""

STEP_PASSES = 12
"""Passes after which a stage leaves Newton's method for the exact route."""

FLAT_SLOPE = 2e-7
"""Derivative of the loss in the step, relative to its terms, that counts as none: trees are fitted to
responses in single precision."""

TIED_ROWS = 200
"""Rows up to which equal responses often make an interval of steps equally good."""

NO_SLOPE = 1e-12
"""Share of a leaf's weight, and of the slopes of its rows, that is rounding error."""

LEAF_TOLERANCE = 1e-6
"""Change of a leaf's location, in units of sigma, at which its refinement stops."""


@dataclass(frozen=True)
class Noise:
    """Scale and asymmetry of the noise.

    Attributes
    ----------
    sigma, tau : float
        Parameters of the quantile Huber law.
    """

    sigma: float
    tau: float


@dataclass(frozen=True)
class StageFit:
    """The joint optimum of one stage.

    Attributes
    ----------
    step : float
        beta.
    noise : Noise
        sigma and tau.
    value : float
        Negative log-likelihood per unit of weight.
    exact : bool
        Whether the exact route was taken.
    """

    step: float
    noise: Noise
    value: float
    exact: bool


def pseudo_responses(
    residuals: FloatArray, noise: Noise, kappa: float, out: FloatArray | None = None
) -> FloatArray:
    r"""Return psi of the residuals: the negative gradient of the loss in the predictions, times sigma.

    Parameters
    ----------
    residuals : ndarray, shape (n,)
        y - f.
    noise : Noise
        sigma and tau of the last stage.
    kappa : float
        Huber width in units of sigma; 0 gives -tau, 0 or 1 - tau.
    out : ndarray, shape (n,), optional
        Where to write.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.stage import Noise, pseudo_responses
    >>> pseudo_responses(np.array([-2.0, 0.5, 2.0]), Noise(sigma=1.0, tau=0.25), 1.0).tolist()
    [-0.25, 0.5, 0.75]
    """
    if kappa > TINY_KAPPA:
        scaled = np.multiply(residuals, 1.0 / (noise.sigma * kappa), out=out)
    else:
        scaled = np.sign(residuals, out=out)
    return zone_part(scaled, noise.tau, 1.0, out=scaled)


def clipped_responses(
    residuals: FloatArray,
    weights: FloatArray | None,
    slopes: FloatArray,
    clip: float,
) -> FloatArray:
    r"""Return residuals, clipped and in units of their mean size, at the level of the slopes.

    With :math:`m` the mean of :math:`|r_i|`, :math:`t_i` the residuals :math:`r_i/m` clipped to
    :math:`\pm` `clip`, and bars for means, the responses are

    .. math:: t_i - \bar t + \bar\psi\,\overline{|t|}\,/\,\overline{|\psi|} .

    How rows differ is read from the residuals, whose differences skewed noise does not bias. The level
    is read from the slopes, which have mean zero where the likelihood has its optimum.

    Parameters
    ----------
    residuals : ndarray, shape (n,)
        y - f.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    slopes : ndarray, shape (n,)
        psi; overwritten by the responses.
    clip : float
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.stage import clipped_responses
    >>> residuals, slopes = np.array([-1.0, 1.0, 4.0]), np.array([-0.5, 0.25, 0.25])
    >>> clipped_responses(residuals, None, slopes, 1.0).round(3).tolist()
    [-0.833, 0.167, 0.667]
    """
    size, slope_size = mean_size(residuals, weights), mean_size(slopes, weights)
    if size == 0.0 or slope_size == 0.0:
        return slopes
    slope = _mean(slopes, weights) / slope_size
    responses = np.multiply(residuals, 1.0 / size, out=slopes)
    np.clip(responses, -clip, clip, out=responses)
    responses += slope * mean_size(responses, weights) - _mean(responses, weights)
    return responses


def mean_size(values: FloatArray, weights: FloatArray | None) -> float:
    """Return the mean of absolute values."""
    if weights is None:
        return float(dasum(values)) / values.size
    return _mean(np.abs(values), weights)


def _mean(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.mean() if weights is None else np.average(values, weights=weights))


def joint_step(
    design: FloatArray,
    weights: FloatArray | None,
    task: Task,
    start: tuple[float, Noise],
) -> StageFit:
    """Return the joint optimum of (beta, sigma, tau) for one learner.

    Parameters
    ----------
    design : ndarray, shape (n, 2)
        The learner's outputs g and the residuals y - f.
    weights : ndarray, shape (n,), or None
        Positive case weights.
    task : Task
        kappa, and what of sigma and tau is fixed.
    start : (float, Noise)
        Step and noise to start from.

    Raises
    ------
    DataError
        sigma is estimated and the learner leaves no residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.stage import Noise, joint_step
    >>> from qhreg.solver.problem import Task
    >>> task = Task(kappa=1e6, tau=0.5, sigma=1.0, tau_bounds=(1e-3, 1 - 1e-3))
    >>> design = np.array([[1.0, 2.0], [-1.0, -4.0], [1.0, 3.0]])
    >>> round(joint_step(design, None, task, (0.0, Noise(1.0, 0.5))).step, 6)
    3.0
    """
    if task.kappa > TINY_KAPPA:
        quick = _newton_step(design, weights, task, start)
        if quick is not None:
            return quick
    return _exact_step(design, weights, task, start)


def _newton_step(
    design: FloatArray, weights: FloatArray | None, task: Task, start: tuple[float, Noise]
) -> StageFit | None:
    """Return the step by Newton's method, or None when it does not get near the optimum."""
    step, noise = start
    theta = 1.0 / (noise.sigma if task.sigma is None else task.sigma)
    z, tau = np.array([-step * theta, theta]), noise.tau if task.tau is None else task.tau
    problem = _problem(design, weights, task)
    many = design.shape[0] > MANY_ROWS
    tol = SHORT_STEP if many else STEP_TOLERANCE
    passes = FEW_PASSES if many else STEP_PASSES
    point = newton(problem, z, tau, tau_bounds=task.free_bounds, tol=tol, max_passes=passes)
    if many and not point.error <= tol:
        w = None if weights is None else weights[::SAMPLE_EVERY]
        sample = _problem(design[::SAMPLE_EVERY], w, task)
        for each in (sample, problem):
            point = newton(
                each,
                point.z,
                point.tau,
                tau_bounds=task.free_bounds,
                tol=tol,
                max_passes=STEP_PASSES,
            )
    if not point.error <= (ROUGH_STEP if many else tol):
        return None
    z, tau, value = point.z, point.tau, point.objective.value
    if many and point.error <= tol:
        z, tau, value = unverified_step(problem, point, task.free_bounds)
    theta = float(z[1])
    step, noise = -float(z[0]) / theta, Noise(1.0 / theta, float(tau))
    assert point.objective.d2_z is not None
    if point.objective.d2_z[0, 0] == 0.0 or design.shape[0] <= TIED_ROWS:
        step = _central_step(design, weights, noise, task.kappa, step)
    return StageFit(step, noise, value / problem.n, False)


def _problem(design: FloatArray, weights: FloatArray | None, task: Task) -> Problem:
    rows = ArrayRows(design, None, weights, pieces=1)  # a pass over two columns is short
    theta = None if task.sigma is None else 1.0 / task.sigma
    return Problem(rows, rows.weight_sum, task.kappa, None, theta)


def _exact_step(
    design: FloatArray, weights: FloatArray | None, task: Task, start: tuple[float, Noise]
) -> StageFit:
    """Return the step by the solver's route in well-conditioned coordinates."""
    setup = set_up(rows_of(design[:, :1], design[:, 1], weights, None), task)
    step, noise = start
    sigma = (noise.sigma if task.sigma is None else task.sigma) / setup.scale
    z = in_coordinates(setup.basis, np.array([-step / setup.scale, 1.0]) / sigma)
    tau = noise.tau if task.tau is None else task.tau
    local = local_fit(setup.problem, z, tau, setup.task)
    raw = setup.basis.matrix @ local.fit.z
    sigma = setup.scale / float(raw[-1])
    value = profile_value(local.fit, setup.problem) + value_shift(setup)
    noise = Noise(sigma, local.fit.tau)
    step = _central_step(design, weights, noise, task.kappa, -float(raw[0]) * sigma)
    return StageFit(step, noise, value / setup.problem.n, True)


def _central_step(
    design: FloatArray, weights: FloatArray | None, noise: Noise, kappa: float, step: float
) -> float:
    """Return the middle of the interval of best steps that a best step lies in.

    The loss is linear in the step where no row is in the zone; an optimum there is an interval, of
    which different routes to the same fit would find different points.
    """
    g, r = design[design[:, 0] != 0.0].T
    w = None if weights is None else weights[design[:, 0] != 0.0]
    edges = noise.sigma * kappa * np.array([-noise.tau, 1.0 - noise.tau])
    kinks = np.unique(np.subtract.outer(r, edges) / g[:, None])
    scale = float(np.abs(g if w is None else w * g).sum())
    place = int(np.searchsorted(kinks, step))
    for right in (place, place + 1, place - 1):
        if 0 < right < kinks.size:
            middle = 0.5 * float(kinks[right - 1] + kinks[right])
            psi = pseudo_responses(r - middle * g, noise, kappa)
            slope = float(psi @ (g if w is None else w * g))
            in_zone = np.any(np.abs(psi - 0.5 + noise.tau) < 0.5 - 1e-12)
            if abs(slope) <= FLAT_SLOPE * scale and not in_zone:
                return middle
    return step


def fit_location(
    values: FloatArray, weights: FloatArray | None, task: Task
) -> tuple[float, Noise] | None:
    """Return location, sigma and tau of a sample, or None when all values are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.boosting.stage import fit_location
    >>> from qhreg.solver.problem import Task
    >>> task = Task(kappa=0.0, tau=0.5, sigma=None, tau_bounds=(1e-3, 1 - 1e-3))
    >>> location, noise = fit_location(np.array([0.0, 1.0, 5.0]), None, task)
    >>> round(location, 6), round(noise.sigma, 6)
    (1.0, 0.833333)
    """
    if values.size == 0 or float(np.ptp(values)) == 0.0:
        return None
    middle = float(np.median(values)) if weights is None else _location(values, weights, 0.5, 0.0)
    spread = float(np.average(np.abs(values - middle), weights=weights))
    start = Noise(0.5 * spread, 0.5)
    design = np.column_stack([np.ones(values.size), values - middle])
    try:
        fit = joint_step(design, weights, task, (0.0, start))
    except DataError:
        return None
    return middle + fit.step, fit.noise


def mean_loss(
    residuals: FloatArray, weights: FloatArray | None, noise: Noise, kappa: float
) -> float:
    """Return the mean negative log-likelihood of residuals."""
    loss = quantile_huber_loss(residuals / noise.sigma, noise.tau, kappa)
    log_c = float(log_normalizer_derivatives(noise.tau, kappa).value)
    return float(np.average(loss, weights=weights)) + log_c + float(np.log(noise.sigma))


def leaf_locations(
    residuals: FloatArray,
    leaves: npt.NDArray[np.intp],
    count: int,
    weights: FloatArray | None,
    noise: Noise,
    kappa: float,
) -> FloatArray:
    r"""Return for each leaf the location that minimises its loss at given sigma and tau.

    .. math:: c_l = \arg\min_c \sum_{i \in l} w_i\,\rho_\tau((r_i - c)/\sigma)

    Parameters
    ----------
    residuals : ndarray, shape (n,)
        y - f.
    leaves : ndarray of int, shape (n,)
        Leaf of each row, below `count`; a leaf without rows gets 0.
    """
    order = np.argsort(leaves, kind="stable")
    ends = np.cumsum(np.bincount(leaves, minlength=count))
    locations = np.zeros(count)
    for leaf in range(count):
        rows = order[ends[leaf - 1] if leaf else 0 : ends[leaf]]
        if rows.size:
            w = None if weights is None else weights[rows]
            locations[leaf] = noise.sigma * _location(
                residuals[rows] / noise.sigma, w, noise.tau, kappa
            )
    return locations


def _location(u: FloatArray, weights: FloatArray | None, tau: float, kappa: float) -> float:
    """Return the root of the summed slope in a location: it falls from 1 - tau to -tau.

    Where it is zero on an interval, as with equal responses, the middle is taken.
    """
    order = np.argsort(u)
    u = u[order]
    w = np.ones(u.size) if weights is None else weights[order]
    share = np.cumsum(w) / w.sum()
    ends = np.searchsorted(share, [1.0 - tau - NO_SLOPE, 1.0 - tau + NO_SLOPE])
    first, last = u[np.minimum(ends, u.size - 1)].tolist()
    if kappa <= TINY_KAPPA:
        return float(0.5 * (first + last))
    none = NO_SLOPE * kappa * float(w.sum())
    bracket = first - kappa, last + kappa
    left = _last_above(u, w, tau, kappa, none, bracket)
    if _slope(u - left - LEAF_TOLERANCE, w, tau, kappa) < -none:
        return left
    return 0.5 * (left + _last_above(u, w, tau, kappa, -none, bracket))


def _slope(u: FloatArray, w: FloatArray, tau: float, kappa: float) -> float:
    """Return the summed slope of the loss, times kappa."""
    return float(zone_part(u, tau, kappa) @ w)


def _last_above(
    u: FloatArray,
    w: FloatArray,
    tau: float,
    kappa: float,
    level: float,
    bracket: tuple[float, float],
) -> float:
    """Return by bisection the location up to which the summed slope is above a level."""
    low, high = bracket
    while high - low > LEAF_TOLERANCE:
        middle = 0.5 * (low + high)
        above = _slope(u - middle, w, tau, kappa) > level
        low, high = (middle, high) if above else (low, middle)
    return 0.5 * (low + high)
