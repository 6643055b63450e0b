r"""What moves the parameters: damped Newton steps, and exact fits of the location.

The observed Hessian need not be definite, and for a small kappa its location block counts few rows.
The expected information M always is definite. In coordinates in which M is the identity and the
Hessian diagonal a step of length one moves the parameters by one standard error, and the gradient's
length :math:`\sqrt{g'M^{-1}g}` says how many standard errors a Fisher-scoring step would move (QH-55).

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
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.linalg import qr

from qhreg._precision import INTERPOLATED, ROUNDING, VANISHING
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
from qhreg.engine.rows import weighted_sum
from qhreg.family.loss import quantile_huber_loss
from qhreg.solver.dual import dual_from_rows
from qhreg.solver.interior import interior_point
from qhreg.solver.newton import ARMIJO

SCALE_RANGE = 1e8
"""How many times smaller or larger than the common scale that of a row may become."""

STATIONARY = 1e-6
"""Length of the gradient, in standard errors, up to which a point counts as stationary."""


def crossed(data: Regression, params: FloatArray) -> str | None:
    """Return the block whose predictor leaves its limits in some row, or None.

    The scale may go `SCALE_RANGE` away from the unit of the response, the asymmetry up to its bounds.
    """
    _, log_sigma, logit_tau = data.predictors(params)
    if data.scale.shape[1] and not (np.abs(log_sigma) <= math.log(SCALE_RANGE)).all():
        return "scale"
    low, high = special.logit(data.tau_bounds)
    # a common tau on its bound must not be outside by rounding
    inside = (logit_tau >= low - 1e-9) & (logit_tau <= high + 1e-9)
    return "tau" if data.tau.shape[1] and not inside.all() else None


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
    """The quadratic model at a point, in coordinates in which it is diagonal.

    ``directions`` the coordinates, one standard error long, ``slope`` and ``curvature`` of the negative
    log-likelihood along them, ``flat`` the length of its gradient where there is no information.
    """

    directions: FloatArray
    slope: FloatArray
    curvature: FloatArray
    flat: float

    @property
    def score_norm(self) -> float:
        """Length of the gradient."""
        return math.hypot(float(np.linalg.norm(self.slope)), self.flat)


def _orthonormal(design: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q with orthogonal columns of mean square one and R: QR are rows divided by their scale.

    Columns that are orthogonal in rows of one scale are nearly collinear in these, where the scales
    differ by orders of magnitude.
    """
    columns, triangle = np.linalg.qr(design / sigma[:, None])
    root = math.sqrt(len(design))
    return columns * root, triangle / root


def _model(data: Regression, state: RowState, free: npt.NDArray[np.intp]) -> _Local:
    """Return the quadratic model of the negative log-likelihood in the free directions."""
    columns, triangle = _orthonormal(data.location, state.sigma)
    exog = columns * state.sigma[:, None]
    here = replace(data, observations=replace(data.observations, exog=exog))
    pick = np.ix_(free, free)
    metric = assemble(here, information_factors(state))[pick]
    observed = assemble(here, hessian_factors(state))[pick]
    downhill = gradient(here, state)[free]
    length = np.sqrt(np.maximum(metric.diagonal(), 1e-300))
    shares, axes = np.linalg.eigh(metric / np.outer(length, length))
    kept = shares > VANISHING
    whitened = axes[:, kept] / np.sqrt(shares[kept]) / length[:, None]
    curvature, turn = np.linalg.eigh(whitened.T @ observed @ whitened)
    directions, place = np.zeros((data.size, curvature.size)), data.block("location")
    directions[free] = whitened @ turn
    slope, flat = -(downhill @ directions[free]), (downhill / length) @ axes[:, ~kept]
    directions[place] = np.linalg.solve(triangle, directions[place])
    return _Local(directions, slope, curvature, float(np.linalg.norm(flat)))


def ascend(
    data: Regression,
    params: FloatArray,
    *,
    blocks: Sequence[str] = BLOCKS,
    tol: float = 1e-10,
    max_steps: int = 200,
) -> Ascent:
    """Return where Newton steps with Marquardt's damping lead from the given parameters.

    Each direction counts with the size of its curvature, so that every step goes downhill, also from
    where the Hessian is indefinite (Nocedal & Wright 2006, section 3.4). The damping starts at the
    expected information, is a tenth after each step that succeeds and ten times as much after one that
    fails (Marquardt 1963), and vanishes with the squared gradient, which keeps the convergence
    quadratic (Yamashita & Fukushima 2001). A step that takes a row out of its limits fails.

    Parameters
    ----------
    data : Regression
        Columns of similar size: the square of a column's mean should be about one.
    params : ndarray
        Where to start.
    blocks : sequence of str
        The blocks that may move.
    tol : float
        Length of the gradient at which to stop; rounding may stop it earlier.
    max_steps : int
        Steps to try.
    """
    places = np.arange(data.size)
    free = np.concatenate([places[data.block(name)] for name in BLOCKS if name in blocks])
    state = evaluate(data, params)
    value, local = negative_loglike(data, state), _model(data, state, free)
    blocked, damping, tried = None, 1.0, 0
    while local.score_norm > tol and tried < max_steps and damping < 1.0 / ROUNDING:
        tried += 1
        damped = np.abs(local.curvature) + damping * min(local.score_norm**2, 1.0)
        step = -local.slope / damped
        trial = params + local.directions @ step
        refused = crossed(data, trial)
        if refused is not None:
            blocked, damping = refused, 10.0 * damping
            continue
        state = evaluate(data, trial)
        reached = negative_loglike(data, state)
        rounding = ROUNDING * (abs(value) + data.observations.weight_sum)
        if reached > value + ARMIJO * float(local.slope @ step) + rounding:
            damping *= 10.0
            continue
        after = _model(data, state, free)
        if value - reached <= rounding and after.score_norm > 0.5 * local.score_norm:
            break  # no more than rounding is left
        params, value, local = trial, reached, after
        blocked, damping = None, 0.1 * damping
    if local.score_norm <= STATIONARY:
        blocked = None
    least = float(local.curvature.min(initial=math.inf))
    return Ascent(params, value, local.score_norm, least, blocked, tried)


# ---------------------------------------------------------------------- the location


class LocationFit(NamedTuple):
    """Parameters with the best location for their scales and asymmetries, and its duality gap."""

    params: FloatArray
    gap: float


class _LocationProblem(NamedTuple):
    """The change of the location as a fit: [Q, u], with rows X over sigma = QR, and tau of each row."""

    design: FloatArray
    triangle: FloatArray
    tau: FloatArray
    psi: FloatArray
    data: Regression

    def loss(self, move: FloatArray) -> float:
        """Return the loss of a change."""
        u = self.design[:, -1] - self.design[:, :-1] @ move
        return weighted_sum(quantile_huber_loss(u, self.tau, self.data.kappa), self.data.weights)

    def gap(self, move: FloatArray, v: FloatArray) -> float:
        """Return by how much the best change could be better than a given one, by dual variables."""
        m, kappa, weights = self.data.observations.weight_sum, self.data.kappa, self.data.weights
        dual = dual_from_rows(self.design, v, self.tau, kappa, m, theta=1.0, weights=weights)
        return self.loss(move) - dual.value


def _location_problem(data: Regression, params: FloatArray) -> _LocationProblem:
    state = evaluate(data, params)
    columns, triangle = _orthonormal(data.location, state.sigma)
    design = np.column_stack([columns, state.u])
    return _LocationProblem(design, triangle, state.tau, state.psi, data)


def location_gap(data: Regression, params: FloatArray) -> float:
    """Return by how much a better location could raise the log-likelihood, an upper bound.

    Parameters
    ----------
    data : Regression
        The data.
    params : ndarray
        Parameters.
    """
    problem = _location_problem(data, params)
    return problem.gap(np.zeros(data.location.shape[1]), problem.psi)


def _vertex(design: FloatArray, move: FloatArray) -> FloatArray:
    """Return the coefficients that pass exactly through the rows that the given ones nearly hit."""
    p, u = move.size, design[:, -1] - design[:, :-1] @ move
    near = np.flatnonzero(np.abs(u) <= INTERPOLATED * float(np.abs(u).mean()))
    if near.size < p:
        return move
    chosen = near[qr(design[near, :-1].T, mode="r", pivoting=True)[1][:p]]
    try:
        exact = np.linalg.solve(design[chosen, :-1], design[chosen, -1])
    except np.linalg.LinAlgError:
        return move
    return exact if bool(np.isfinite(exact).all()) else move


def exact_location(data: Regression, params: FloatArray) -> LocationFit:
    """Return the parameters with the best location for their scales and asymmetries.

    At kappa = 0 the fit passes through as many rows as it has columns; these are found and solved
    for, so that their residuals are zero and not small.
    """
    problem, place = _location_problem(data, params), data.block("location")
    still = np.zeros(data.location.shape[1])
    inner = interior_point(
        problem.design,
        problem.tau,
        data.kappa,
        m=data.observations.weight_sum,
        start=np.append(still, 1.0),
        free_theta=False,
        weights=data.weights,
    )
    move = -inner.z[:-1]
    if not bool(np.isfinite(move).all() and np.isfinite(inner.v).all()):
        return LocationFit(params, np.inf)
    if data.kappa == 0.0 and move.size:
        vertex, loss = _vertex(problem.design, move), problem.loss(move)
        if problem.loss(vertex) <= loss + ROUNDING * max(loss, 1.0):
            move = vertex
    if problem.loss(still) <= problem.loss(move):
        move = still
    best = params.copy()
    best[place] += np.linalg.solve(problem.triangle, move)
    return LocationFit(best, problem.gap(move, inner.v))
