r"""What moves the parameters: Newton steps in a trust region, and exact fits of the location.

The observed Hessian need not be definite, and for a small kappa its location block counts few rows.
The expected information M always is definite. In coordinates in which M is the identity a step of
length one moves the parameters by one standard error, the gradient's length
:math:`\sqrt{g'M^{-1}g}` says how many standard errors a Fisher-scoring step would move (QH-55), and
the trust region is a ball.

The location for given scales and asymmetries is a convex problem, solved exactly and with proof.
With rows divided by their :math:`\sigma_i` it is a quantile Huber fit in which each row has its own
asymmetry (QH-54):

.. math::

    \min_\beta \sum_i w_i\,\rho_{\tau_i}\!\Big(\frac{y_i - x_i'\beta}{\sigma_i}\Big) = \max_v
    \sum_i w_i\Big(\frac{v_i y_i}{\sigma_i} - \frac\kappa2 v_i^2\Big)
    \quad\text{s.t.}\quad \sum_i \frac{w_i v_i x_i}{\sigma_i} = 0,\ -\tau_i\le v_i\le 1-\tau_i .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize
from scipy.linalg import qr

from qhreg._typing import FloatArray
from qhreg.distributional.likelihood import (
    BLOCKS,
    Regression,
    RowState,
    assemble,
    evaluate,
    gradient,
    hessian_factors,
    information_factors,
    loglike_rows,
)
from qhreg.family.loss import quantile_huber_loss
from qhreg.solver.dual import dual_from_rows
from qhreg.solver.interior import interior_point

SCALE_RANGE = 1e8
"""How many times smaller or larger than the common scale that of a row may become."""

STATIONARY = 1e-6
"""Length of the gradient, in standard errors, up to which a point counts as stationary."""

TARGET = 1e-10
"""Length of the gradient at which there is nothing left to gain."""

INTERPOLATING = 1e-6
"""Residual, relative to the mean, up to which a row may be one that the fit passes through."""

NO_INFORMATION = 1e-10
"""Share of a direction's information below which the data say nothing about it."""

SMALLEST_RADIUS = 1e-9
"""Radius, in standard errors, at which the ascent gives up."""

SADDLE = -1e-4
"""Curvature, relative to the expected one, below which a stationary point is left again."""

NOISE = 1e-14
"""Relative rounding error of the sum that the likelihood is."""


class Limits(NamedTuple):
    """Between which values the predictors of the rows may move."""

    log_sigma: tuple[float, float]
    logit_tau: tuple[float, float]

    def crossed(self, data: Regression, params: FloatArray) -> str | None:
        """Return the block whose predictor leaves its limits in some row, or None."""
        _, log_sigma, logit_tau = data.predictors(params)
        for name, values, (low, high) in (
            ("scale", log_sigma, self.log_sigma),
            ("tau", logit_tau, self.logit_tau),
        ):
            if data.block(name).stop > data.block(name).start and not bool(
                ((values >= low) & (values <= high)).all()
            ):
                return name
        return None


def limits_of(tau_bounds: tuple[float, float]) -> Limits:
    """Return the limits of the predictors, those of sigma around the unit of the response."""
    far = math.log(SCALE_RANGE)
    low, high = (math.log(t) - math.log1p(-t) for t in tau_bounds)
    # a common tau on its bound must not be outside by rounding
    return Limits((-far, far), (low - 1e-9, high + 1e-9))


@dataclass(frozen=True)
class Ascent:
    """Where the ascent ended.

    Attributes
    ----------
    params : ndarray
        Parameters.
    value : float
        Negative log-likelihood.
    score_norm : float
        Length of the gradient in standard errors, in the directions that were free.
    curvature : float
        Smallest eigenvalue of the observed information relative to the expected one: positive at a
        strict local maximum.
    blocked : str or None
        The block whose predictor wanted to leave its limits.
    iterations : int
        Steps tried.
    gap : float
        By how much another location could raise the log-likelihood: an upper bound, once it is known.
    held : tuple of str
        Blocks that stayed where they ran into their limits.
    proved : bool
        Whether the other blocks were shown to be stationary, and the location to be the best one.
    """

    params: FloatArray
    value: float
    score_norm: float
    curvature: float
    blocked: str | None
    iterations: int
    gap: float = math.inf
    held: tuple[str, ...] = ()
    proved: bool = False

    @property
    def stationary(self) -> bool:
        """Whether all blocks are, none of them held."""
        return self.proved and not self.held


def negative_loglike(data: Regression, state: RowState) -> float:
    """Return the negative log-likelihood, weights included; infinite where it is not a number."""
    rows = loglike_rows(state)
    value = -float(rows.sum() if data.weights is None else rows @ data.weights)
    return value if math.isfinite(value) else math.inf


class _Local(NamedTuple):
    """The quadratic model at a point, in coordinates in which it is diagonal."""

    directions: FloatArray
    slope: FloatArray
    curvature: FloatArray
    flat_slope: float

    @property
    def score_norm(self) -> float:
        """Length of the gradient, directions without information included as they are."""
        return math.hypot(float(np.linalg.norm(self.slope)), self.flat_slope)

    @property
    def least(self) -> float:
        return float(self.curvature.min(initial=math.inf))

    def gain(self, step: FloatArray) -> float:
        """Return by how much the model falls along a step."""
        return -float(self.slope @ step + 0.5 * (self.curvature * step) @ step)


def _free(data: Regression, blocks: Sequence[str]) -> npt.NDArray[np.intp]:
    parts = [np.arange(data.size)[data.block(name)] for name in BLOCKS if name in blocks]
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


def _model(data: Regression, state: RowState, free: npt.NDArray[np.intp]) -> _Local:
    """Return the quadratic model of the negative log-likelihood in the free directions."""
    pick = np.ix_(free, free)
    metric = assemble(data, information_factors(state))[pick]
    observed = assemble(data, hessian_factors(state))[pick]
    length = np.sqrt(np.maximum(metric.diagonal(), 1e-300))
    shares, axes = np.linalg.eigh(metric / np.outer(length, length))
    kept = shares > NO_INFORMATION
    whitened = axes[:, kept] / np.sqrt(shares[kept]) / length[:, None]
    curvature, turn = np.linalg.eigh(whitened.T @ observed @ whitened)
    directions = np.zeros((data.size, curvature.size))
    directions[free] = whitened @ turn
    downhill = gradient(data, state)
    flat = (downhill[free] / length) @ axes[:, ~kept]
    return _Local(directions, -(downhill @ directions), curvature, float(np.linalg.norm(flat)))


def _trust_step(local: _Local, radius: float) -> FloatArray:
    """Return the minimiser of the model in a ball (in the model's own coordinates)."""
    slope, curvature = local.slope, local.curvature
    if local.score_norm <= STATIONARY and local.least < SADDLE:
        step = np.zeros(slope.size)
        step[0] = -math.copysign(min(radius, 1.0), float(slope[0]))
        return step
    shift = 0.0 if local.least > 1e-8 else 1e-3 - local.least
    step = -slope / (curvature + shift)
    if np.linalg.norm(step) <= radius:
        return step

    def excess(shift: float) -> float:
        return float(np.linalg.norm(slope / (curvature + shift))) - radius

    far = 2.0 * float(np.linalg.norm(slope)) / radius - local.least
    return -slope / (curvature + optimize.brentq(excess, shift, far))


def ascend(
    data: Regression,
    params: FloatArray,
    limits: Limits,
    *,
    blocks: Sequence[str] = BLOCKS,
    max_steps: int = 200,
) -> Ascent:
    """Return where Newton steps in a trust region lead from the given parameters.

    Parameters
    ----------
    data : Regression
        Columns of similar size: the square of a column's mean should be about one.
    params : ndarray
        Where to start.
    limits : Limits
        Steps that take a row out of these are refused.
    blocks : sequence of str
        The blocks that may move.
    max_steps : int
        Steps to try.
    """
    free = _free(data, blocks)
    root = math.sqrt(data.endog.size)
    radius, blocked, refused = 0.5 * root, None, None
    state = evaluate(data, params)
    value = negative_loglike(data, state)
    local = _model(data, state, free)
    tried = 0
    for tried in range(1, max_steps + 1):  # noqa: B007
        settled = local.score_norm <= TARGET and not local.least < SADDLE
        if settled or not local.slope.size or radius < SMALLEST_RADIUS:
            break
        step = _trust_step(local, radius)
        trial = params + local.directions @ step
        length = float(np.linalg.norm(step))
        refused = limits.crossed(data, trial)
        if refused is not None:
            blocked, radius = refused, 0.25 * length
            continue
        new_state = evaluate(data, trial)
        new_value = negative_loglike(data, new_state)
        gain, promised = value - new_value, local.gain(step)
        noise = NOISE * max(abs(value), float(data.endog.size))
        if gain < 1e-4 * promised and not (promised <= 100.0 * noise and gain >= -noise):
            radius = 0.25 * length
            continue
        new_local = _model(data, new_state, free)
        if gain <= noise and new_local.score_norm >= 0.5 * local.score_norm:
            # no more than rounding is left; keep the better of the two points
            if new_local.score_norm < local.score_norm:
                params, value, local = trial, new_value, new_local
            break
        if gain < 0.25 * promised:
            radius = 0.5 * length
        elif gain > 0.75 * promised and length > 0.9 * radius:
            radius = min(2.0 * radius, 2.0 * root)
        params, value, local, blocked = trial, new_value, new_local, None
    if local.score_norm <= STATIONARY:
        blocked = None
    return Ascent(params, value, local.score_norm, local.least, blocked, tried)


# ---------------------------------------------------------------------- the location


class LocationFit(NamedTuple):
    """Parameters with the best location for their scales and asymmetries, and its duality gap."""

    params: FloatArray
    gap: float


def _standardised(data: Regression, params: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return [X, y] with rows divided by their sigma, and the asymmetry of each row."""
    state = evaluate(data, params)
    endog = data.endog if data.offset is None else data.endog - data.offset
    return np.column_stack([data.location, endog]) / state.sigma[:, None], state.tau


def _loss(design: FloatArray, beta: FloatArray, tau: FloatArray, data: Regression) -> float:
    loss = quantile_huber_loss(design[:, -1] - design[:, :-1] @ beta, tau, data.kappa)
    return float(loss.sum() if data.weights is None else data.weights @ loss)


def location_gap(data: Regression, params: FloatArray, v: FloatArray | None = None) -> float:
    """Return by how much a better location could raise the log-likelihood, an upper bound.

    Parameters
    ----------
    data : Regression
        The data.
    params : ndarray
        Parameters.
    v : ndarray, shape (n,), optional
        Dual variables near the optimum; the slopes of the loss by default.
    """
    design, tau = _standardised(data, params)
    if v is None:
        v = evaluate(data, params).psi
    m = data.weight
    dual = dual_from_rows(design, v, tau, data.kappa, m, theta=1.0, weights=data.weights)
    return _loss(design, params[data.block("location")], tau, data) - dual.value


def _vertex(design: FloatArray, beta: FloatArray) -> FloatArray:
    """Return the coefficients that pass exactly through the rows that the given ones nearly hit."""
    p = beta.size
    u = design[:, -1] - design[:, :-1] @ beta
    near = np.flatnonzero(np.abs(u) <= INTERPOLATING * max(float(np.abs(u).mean()), 1e-300))
    if near.size < p:
        return beta
    chosen = near[qr(design[near, :-1].T, mode="r", pivoting=True)[1][:p]]
    try:
        exact = np.linalg.solve(design[chosen, :-1], design[chosen, -1])
    except np.linalg.LinAlgError:
        return beta
    return exact if bool(np.isfinite(exact).all()) else beta


def exact_location(data: Regression, params: FloatArray) -> LocationFit:
    """Return the parameters with the best location for their scales and asymmetries.

    At kappa = 0 the fit passes through as many rows as it has columns; these are found and solved
    for, so that their residuals are zero and not small.
    """
    place = data.block("location")
    design, tau = _standardised(data, params)
    weights = np.ones(data.endog.size) if data.weights is None else data.weights
    start = np.append(-params[place], 1.0)
    found = interior_point(
        design, tau, data.kappa, m=data.weight, start=start, free_theta=False, weights=weights
    )
    beta = -found.z[:-1]
    if not bool(np.isfinite(beta).all() and np.isfinite(found.v).all()):
        return LocationFit(params, np.inf)
    candidates = [params[place], beta]
    if data.kappa == 0.0 and beta.size:
        candidates.append(_vertex(design, beta))
    losses = [_loss(design, b, tau, data) for b in candidates]
    # a vertex wins against the interior point it came from unless it is worse by more than rounding
    best = int(np.argmin(losses))
    tolerance = 1e-12 * max(abs(losses[best]), 1.0)
    if best == 1 and len(losses) == 3 and losses[2] <= losses[1] + tolerance:
        best = 2
    made = params.copy()
    made[place] = candidates[best]
    return LocationFit(made, location_gap(data, made, found.v))
