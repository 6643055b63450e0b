r"""The fit with an elastic-net penalty on the coefficients, with proof of what it found.

With :math:`b = \beta/\sigma`, :math:`\theta = 1/\sigma` and penalty weights :math:`p_j` it minimises
(QH-40)

.. math::

    \log c(\tau) - \log\theta + \frac1n\sum_i w_i\,\rho_\tau(\theta y_i - x_i'b)
    + \alpha\sum_j p_j\Big(\omega|b_j| + \frac{1-\omega}{2}\,b_j^2\Big).

The penalty is on the coefficients in units of sigma, as kappa is: the problem is then convex in
:math:`(b, \theta)` together for fixed tau, bounded below also with more columns than rows, and
the estimates follow the units of the response. A penalty on :math:`\beta` itself has none of these
properties when sigma is estimated; when sigma is fixed the two differ by a factor in alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, residuals, weighted_columns
from qhreg.exceptions import DataError, DomainError
from qhreg.family.loss import zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.regularized.penalized import PenalizedPoint, Penalty, minimise_penalized
from qhreg.regularized.solution import (
    RegularizedSolution,
    penalty_of,
    require_residual,
    size_and_factors,
    warn_about,
)
from qhreg.solver import DEFAULT_TAU_BOUNDS, task_of
from qhreg.solver.dual import GAP_TOLERANCE, dual_from_rows, dual_value
from qhreg.solver.inputs import rows_of
from qhreg.solver.over_tau import FLAT_SLOPE
from qhreg.solver.problem import Problem, Task
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.observations import find_constant

__all__ = ["largest_alpha", "regularized_path", "solve_regularized"]


TAU_GRID = 9
"""Values of tau tried before the slope of the profile is brought to zero."""


@dataclass(frozen=True)
class _Setting:
    """The problem in coordinates of centred columns of unit length, and the way back.

    Attributes
    ----------
    problem : Problem
        The problem, whose rows are in these coordinates.
    design : ndarray, shape (n, p + 1)
        These rows, the response last.
    matrix : ndarray, shape (p + 1, p + 1)
        The unknowns (-b, theta) of the data are this times those of the problem.
    lengths : ndarray, shape (p + 1,)
        Its diagonal.
    task : Task
        What to fit.
    """

    problem: Problem
    design: FloatArray
    matrix: FloatArray
    lengths: FloatArray
    task: Task

    def start(self) -> FloatArray:
        """Return no coefficients, and the scale of the response."""
        z = np.zeros(self.matrix.shape[1])
        z[-1] = 2.0 if self.problem.theta is None else self.problem.theta
        return z

    def raw(self, z: FloatArray) -> FloatArray:
        """Return (-b, theta) of the data."""
        return self.matrix @ z

    def penalty(self, given: Penalty) -> Penalty:
        """Return a penalty on b in these coordinates, none on theta."""
        whole = Penalty(np.append(given.l1, 0.0), np.append(given.l2, 0.0))
        return whole.scaled(self.lengths)


def _centre(rows: ArrayRows, penalty: Penalty) -> tuple[int | None, FloatArray]:
    """Return a constant without a penalty and the means it can take off columns and response.

    None and zeros without such a constant: then no coefficient can make up for another origin.
    """
    constant = find_constant(np.asarray(rows.exog))[1]
    mean = np.zeros(rows.exog.shape[1] + 1)
    if constant is None or not bool(penalty.is_absent[constant]):
        return None, mean
    for block in rows.blocks():
        weights = np.ones(block.exog.shape[0]) if block.weights is None else block.weights
        mean += weighted_columns(block, weights) / rows.weight_sum
    return constant, mean


def _set_up(rows: ArrayRows, task: Task, penalty: Penalty) -> _Setting:
    """Return the problem in coordinates that keep a penalty of any size a sum over coordinates.

    The rows are copied into them: a Hessian of columns far from zero would have lost its digits before
    it is brought there.
    """
    n = rows.weight_sum
    constant, mean = _centre(rows, penalty)
    exog, endog, weights = rows.take(slice(None))
    design = np.column_stack([exog, endog])
    design -= mean
    each = np.ones(endog.size) if weights is None else weights
    square = np.einsum("ij,ij,i->j", design, design, each) / n
    lengths = 1.0 / np.sqrt(np.where(square > 0.0, square, 1.0))
    matrix = np.diag(lengths)
    if constant is not None:
        level = float(exog[0, constant])
        lengths[constant] = 1.0 / abs(level)
        design[:, constant] = level
        matrix[constant] = -mean * lengths / level
        matrix[constant, constant] = lengths[constant]
    design *= lengths
    theta = None if task.sigma is None else 1.0 / (task.sigma * matrix[-1, -1])
    problem = Problem(ArrayRows(design, None, weights), n, task.kappa, None, theta)
    return _Setting(problem, design, matrix, lengths, task)


def _gap(setting: _Setting, penalty: Penalty, point: PenalizedPoint, tau: float) -> float:
    """Return how far the objective can be above its minimum, from a feasible dual point (QH-41)."""
    design, weights = setting.design, setting.problem.weights()
    kappa, n, theta = setting.task.kappa, setting.problem.n, setting.problem.theta
    v = zone_part(design @ point.z, tau, kappa) / kappa
    inner = setting.penalty(penalty)
    bare = inner.is_absent  # the response among them
    dual = dual_from_rows(design[:, bare], v, tau, kappa, n, theta=theta, weights=weights)
    if dual.v is None or not np.isfinite(dual.value):
        return np.inf
    s = (dual.v if weights is None else weights * dual.v) @ design / n
    s[bare] = 0.0
    only_l1 = (inner.l2 == 0.0) & ~bare
    ratio = np.abs(s[only_l1]) / inner.l1[only_l1]
    shrink = 1.0 / max(1.0, float(ratio.max(initial=0.0)) * (1.0 + 1e-15))
    bound = float(dual_value(dual.alignment * shrink, dual.square * shrink**2, n, kappa, theta))
    bound = bound / n - inner.conjugate(np.where(only_l1, 0.0, s * shrink))
    log_c = float(log_normalizer_derivatives(tau, kappa).value)
    return max(point.value - log_c - bound, 0.0)


def _at_tau(
    setting: _Setting, penalty: Penalty, z: FloatArray, tau: float, *, warm: bool, tol: float
) -> PenalizedPoint:
    inner = setting.penalty(penalty)
    return minimise_penalized(setting.problem, inner, z, tau, warm=warm, tol=tol)


def _best_tau(
    setting: _Setting,
    fit: Callable[[FloatArray, float, bool], PenalizedPoint],
    z: FloatArray,
    start: float | None,
) -> tuple[float, PenalizedPoint, bool]:
    """Return tau where the slope of the profile is zero, or the bound towards which it falls."""
    low, high = setting.task.tau_bounds
    n = setting.problem.n
    known: dict[float, PenalizedPoint] = {}

    def slope(tau: float) -> float:
        if tau not in known:
            near = min(known, key=lambda other: abs(other - tau)) if known else None
            known[tau] = fit(z if near is None else known[near].z, tau, near is not None)
        return known[tau].objective.d_tau / n

    grid = np.linspace(low, high, TAU_GRID)
    grid = np.unique(np.clip(grid, low, high) if start is None else [low, *grid, start, high])
    middle = int(np.argmin(np.abs(grid - (0.5 if start is None else start))))
    slopes = np.empty(grid.size)
    for i in [*range(middle, grid.size), *range(middle - 1, -1, -1)]:
        slopes[i] = slope(float(grid[i]))
    candidates = [float(low)] if slopes[0] >= 0.0 else []
    candidates += [float(high)] if slopes[-1] <= 0.0 else []
    for i in np.flatnonzero((slopes[:-1] < 0.0) & (slopes[1:] >= 0.0)):
        root = optimize.brentq(slope, float(grid[i]), float(grid[i + 1]), xtol=1e-13, rtol=1e-14)
        slope(root)
        candidates.append(float(root))
    best = min(candidates, key=lambda tau: known[tau].value)
    return best, known[best], best in (low, high)


def _solution(
    setting: _Setting,
    penalty: Penalty,
    point: PenalizedPoint,
    tau: float,
    *,
    at_bound: bool,
    alpha: float,
    L1_wt: float,
) -> RegularizedSolution:
    """Return the fit in the units of the data, with its proof."""
    raw = setting.raw(point.z)
    sigma = 1.0 / float(raw[-1]) if setting.task.sigma is None else setting.task.sigma
    shift = float(np.log(setting.matrix[-1, -1]))
    gap = _gap(setting, penalty, point, tau)
    slope = point.objective.d_tau / setting.problem.n
    stationary = setting.task.tau is not None or at_bound or abs(slope) <= FLAT_SLOPE
    beta = -raw[:-1] * sigma
    beta[beta == 0.0] = 0.0
    return RegularizedSolution(
        beta,
        sigma,
        tau,
        setting.task.kappa,
        alpha,
        L1_wt,
        penalty,
        point.value - shift,
        -(point.objective.value - setting.problem.n * shift),
        point.violation,
        gap,
        slope,
        at_bound,
        bool(gap <= GAP_TOLERANCE * max(1.0, abs(point.value)) and stationary),
        setting.problem.n,
        point.objective.rows_in_zone,
        point.iterations,
        point.passes,
    )


def _checked_task(
    kappa: float | None,
    tau: float | None,
    sigma: float | None,
    tau_bounds: tuple[float, float],
    units: str,
) -> Task:
    if kappa is None or not kappa > 0.0:
        raise DomainError(
            f"a penalised fit needs a positive kappa, got {kappa!r}: 0.01 is close to the quantile loss"
        )
    if units not in ("sigma", "endog"):
        raise DomainError(f"units must be 'sigma' or 'endog', got {units!r}")
    if units == "endog" and sigma is None:
        raise DomainError(
            "units='endog' penalises beta itself, which is convex only with sigma fixed (and has no "
            "minimum when the columns can interpolate the response): fix sigma, or use units='sigma'"
        )
    return task_of(kappa, tau, sigma, tau_bounds)


def regularized_path(
    exog: Any,
    endog: Any,
    alphas: Any,
    *,
    L1_wt: float = 1.0,
    penalty_weights: Any = None,
    standardize: bool = False,
    units: str = "sigma",
    kappa: float | None = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    tol: float = 1e-11,
) -> tuple[RegularizedSolution, ...]:
    """Return the penalised fits for several sizes of the penalty, each started from the one before.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    alphas : sequence of float
        Sizes of the penalty, fitted in the order given; decreasing is fastest.
    L1_wt, penalty_weights, standardize, units, kappa, tau, sigma, tau_bounds, weights, offset, tol
        As in :func:`solve_regularized`.
    """
    task = _checked_task(kappa, tau, sigma, tau_bounds, units)
    rows = rows_of(exog, endog, weights, offset)
    size = task.sigma if units == "endog" and task.sigma is not None else 1.0
    made: list[RegularizedSolution] = []
    z: FloatArray | None = None
    setting: _Setting | None = None

    def penalty_at(alpha: float) -> Penalty:
        of_ratio = penalty_of(
            rows.exog,
            alpha,
            L1_wt,
            penalty_weights=penalty_weights,
            standardize=standardize,
            weights=rows.weights,
        )
        return Penalty(of_ratio.l1 * size, of_ratio.l2 * size**2)

    with one_blas_thread(rows.exog.size):
        for alpha in alphas:
            penalty = penalty_at(float(alpha))
            if task.sigma is None and (setting is None or penalty.is_absent.all()):
                require_residual(rows, penalty)
            if setting is None:
                setting = _set_up(rows, task, penalty_at(1.0))  # also where alpha starts at 0
            made_before = made[-1] if made else None
            point, level, at_bound = _fit(setting, penalty, z, made_before, tol)
            z = point.z
            made.append(
                _solution(
                    setting,
                    penalty,
                    point,
                    level,
                    at_bound=at_bound,
                    alpha=float(alpha),
                    L1_wt=float(L1_wt),
                )
            )
    return tuple(made)


def _fit(
    setting: _Setting,
    penalty: Penalty,
    z: FloatArray | None,
    before: RegularizedSolution | None,
    tol: float,
) -> tuple[PenalizedPoint, float, bool]:
    """Return the best point, its tau, and whether tau ended on a bound."""
    start = setting.start() if z is None else z

    def fit(near: FloatArray, tau: float, warm: bool) -> PenalizedPoint:
        return _at_tau(setting, penalty, near, tau, warm=warm or z is not None, tol=tol)

    if setting.task.tau is not None:
        return fit(start, setting.task.tau, False), setting.task.tau, False
    tau, point, at_bound = _best_tau(setting, fit, start, None if before is None else before.tau)
    return point, tau, at_bound


def solve_regularized(
    exog: Any,
    endog: Any,
    *,
    alpha: Any,
    L1_wt: float = 1.0,
    penalty_weights: Any = None,
    standardize: bool = False,
    units: str = "sigma",
    kappa: float | None = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    tol: float = 1e-11,
) -> RegularizedSolution:
    """Return the fit that minimises the mean negative log-likelihood plus an elastic-net penalty.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    alpha : float or array_like, shape (p,)
        Size of the penalty; or one for each coefficient, a constant's included, in place of
        `penalty_weights`.
    L1_wt : float
        Share of the absolute values in it, between 0 (ridge) and 1 (lasso).
    penalty_weights : array_like, shape (p,), optional
        Nonnegative factors; by default 1, and 0 for a constant column. sigma and tau are never
        penalised.
    standardize : bool
        Whether the penalty is on the coefficients of columns of unit standard deviation; not by
        default.
    units : {"sigma", "endog"}
        Whether the penalty is on beta / sigma, or on beta itself, which needs sigma fixed.
    kappa : float
        Huber width, positive.
    tau, sigma : float or None
        A number fixes the parameter, None estimates it.
    tau_bounds : (float, float)
        Range of an estimated tau.
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.
    tol : float
        Violation of the subgradient condition at which to stop.

    Returns
    -------
    RegularizedSolution
        With `subgradient` and `gap`, which prove it for the tau it has.

    Warns
    -----
    ConvergenceWarning
        The gap did not close.
    BoundaryWarning
        tau ended on one of its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.regularized.fit import solve_regularized
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(200), rng.normal(size=(200, 4))])
    >>> y = 1.0 + 2.0 * X[:, 1] + rng.laplace(size=200)
    >>> fit = solve_regularized(X, y, alpha=0.2, tau=0.5)
    >>> fit.beta != 0.0
    array([ True,  True, False, False, False])
    """
    size, penalty_weights = size_and_factors(alpha, penalty_weights, np.shape(exog)[-1])
    (made,) = regularized_path(
        exog,
        endog,
        [size],
        L1_wt=L1_wt,
        penalty_weights=penalty_weights,
        standardize=standardize,
        units=units,
        kappa=kappa,
        tau=tau,
        sigma=sigma,
        tau_bounds=tau_bounds,
        weights=weights,
        offset=offset,
        tol=tol,
    )
    warn_about(made)
    return made


def largest_alpha(exog: Any, endog: Any, *, L1_wt: float = 1.0, **options: Any) -> float:
    """Return the smallest alpha at which every penalised coefficient is zero.

    Parameters
    ----------
    exog, endog : array_like, shapes (n, p) and (n,)
        The data.
    L1_wt : float
        Share of the absolute values, positive.
    **options
        Others of :func:`solve_regularized`.

    Notes
    -----
    For an estimated tau it is the largest over the fits without penalised coefficients at their own
    tau: the gradient of the mean loss there, over the weight of each coefficient.
    """
    if not L1_wt > 0.0:
        raise DomainError("without absolute values in the penalty no coefficient is ever zero")
    (made,) = regularized_path(exog, endog, [1e6], L1_wt=L1_wt, **options)
    if made.beta[made.penalty.l1 > 0.0].any():
        raise DataError("some coefficients are not zero at alpha = 1e6: scale the columns")
    rows = rows_of(exog, endog, options.get("weights"), options.get("offset"))
    raw = np.append(-made.beta, 1.0) / made.sigma
    slope, mean = np.zeros(raw.size - 1), _centre(rows, made.penalty)[1]
    for block in rows.blocks():
        v = zone_part(residuals(block, raw), made.tau, made.kappa) / made.kappa
        slope += (v if block.weights is None else v * block.weights) @ (block.exog - mean[:-1])
    unit = made.penalty.l1 / made.alpha
    chosen = unit > 0.0
    return float((np.abs(slope[chosen]) / (rows.weight_sum * unit[chosen])).max(initial=0.0))
