r"""The fit with an elastic-net penalty on the coefficients, with proof of what it found.

With :math:`b = \beta/\sigma`, :math:`\theta = 1/\sigma` and penalty weights :math:`p_j` it minimises
(QH-40)

.. math::

    \frac1n R(b, \theta, \tau)
    + \alpha\sum_j p_j\Big(\omega|b_j| + \frac{1-\omega}{2}\,b_j^2\Big),

with R the restricted likelihood (QH-25), p the rank of all regressors, or the ordinary one (QH-12). The
penalty is on the coefficients in units of sigma, as kappa is: the problem is then convex in
:math:`(b, \theta)` together for fixed tau, bounded below also with more columns than rows, and
the estimates follow the units of the response. A penalty on :math:`\beta` itself has none of these
properties when sigma is estimated; when sigma is fixed the two differ by a factor in alpha.

tau is found as without a penalty: a scan of its range, then Newton's method in the best basins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, require_finite, rows_of
from qhreg.exceptions import (
    BoundaryWarning,
    ConvergenceWarning,
    DataError,
    DomainError,
    warn_caller,
)
from qhreg.family.normalizer import log_normalizer
from qhreg.regularized.penalized import (
    PenalizedPoint,
    Penalty,
    duality_gap,
    minimise_penalized,
    tau_violation,
)
from qhreg.solver import DEFAULT_TAU_BOUNDS, task_of
from qhreg.solver.dual import GAP_TOLERANCE
from qhreg.solver.joint import bound_reached
from qhreg.solver.over_tau import FLAT_SLOPE, ProfileNode, profile_minima, tau_grid
from qhreg.solver.problem import Problem, Task, smoothing_width
from qhreg.solver.setup import SAMPLE_PER_COLUMN, SAMPLE_ROWS, basis_of
from qhreg.specification.observations import find_constant


@dataclass(frozen=True)
class RegularizedSolution:
    """A penalised fit.

    Attributes
    ----------
    beta : ndarray, shape (p,)
        Coefficients, in the units of the data; those the penalty removes are exactly zero.
    sigma, tau, kappa : float
        Scale, asymmetry and width.
    alpha, L1_wt : float
        Size of the penalty, and the share of its absolute part.
    penalty : Penalty
        Its weights on beta / sigma, alpha included.
    value : float
        The minimised objective: minus the mean (restricted) log-likelihood plus penalty.
    loglike : float
        The ordinary log-likelihood, without the penalty.
    subgradient : float
        Largest violation of the subgradient condition, for columns of unit length.
    gap : float
        Duality gap of the convex problem at `tau`: how far `value` can be above its minimum.
    tau_slope : float
        Derivative of the objective in tau.
    tau_at_bound, converged : bool
        Whether tau was estimated and ended on a bound; whether the gap is at most 1e-9 and tau
        stationary, at a bound, or fixed.
    n, p : float
        Sum of the case weights; p of the restricted likelihood, zero for the ordinary one.
    rows_in_zone, iterations : int
        Rows in the quadratic zone; steps to the final point.
    """

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float
    alpha: float
    L1_wt: float
    penalty: Penalty
    value: float
    loglike: float
    subgradient: float
    gap: float
    tau_slope: float
    tau_at_bound: bool
    converged: bool
    n: float
    p: float
    rows_in_zone: int
    iterations: int

    @property
    def n_nonzero(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.beta))


def warn_about(solution: RegularizedSolution) -> None:
    """Warn when a fit is not proved or tau ended on a bound."""
    if not solution.converged:
        warn_caller(
            f"the penalised fit did not converge (duality gap {solution.gap:.3g}, subgradient off by "
            f"{solution.subgradient:.3g}, slope in tau {solution.tau_slope:.3g}): try standardize=True",
            ConvergenceWarning,
        )
    elif solution.tau_at_bound:
        warn_caller(bound_reached(solution.tau), BoundaryWarning)


# ---------------------------------------------------------------------- the penalty


def size_and_factors(alpha: Any, penalty_weights: Any, p: int) -> tuple[float, Any]:
    """Return the size of a penalty and its factors; sizes of their own are factors of a size of one.

    Parameters
    ----------
    alpha : float or array_like, shape (p,)
        The size, or one for each coefficient.
    penalty_weights : array_like, shape (p,), optional
        Factors of a single size.
    p : int
        Number of coefficients.
    """
    try:
        sizes = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DomainError(
            f"alpha must be a number, or a list with one for each coefficient; got {alpha!r}"
        ) from error
    if sizes.ndim == 0:
        return float(sizes), penalty_weights
    if penalty_weights is not None:
        raise DomainError("alpha has a size for each coefficient: leave out penalty_weights")
    return 1.0, _nonnegative("alpha", sizes, p)


def _nonnegative(name: str, values: Any, p: int) -> FloatArray:
    """Return one nonnegative number for each coefficient."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (p,):
        also = "be a number or " if name == "alpha" else ""
        raise DataError(f"{name} must {also}have shape ({p},), got {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0.0).all()):
        raise DomainError(f"the numbers in {name} must be finite and not negative")
    return array


def _unit_penalty(
    x: FloatArray, w: FloatArray | None, L1_wt: float, penalty_weights: Any, standardize: bool
) -> Penalty:
    """Return the penalty of size one on b = beta / sigma, by default on all but a constant."""
    if not 0.0 <= L1_wt <= 1.0:
        raise DomainError(f"L1_wt must lie between 0 and 1, got {L1_wt!r}")
    if penalty_weights is None:
        factors = np.where(np.ptp(x, axis=0) > 0.0, 1.0, 0.0)
    else:
        factors = _nonnegative("penalty_weights", penalty_weights, x.shape[1])
    penalty = Penalty(L1_wt * factors, (1.0 - L1_wt) * factors)
    if not standardize:
        return penalty
    mean = np.average(x, axis=0, weights=w)
    return penalty.scaled(np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w)))


# ---------------------------------------------------------------------- the problem


@dataclass(frozen=True)
class _Setup:
    """The problem in coordinates of centred columns of unit length, and the way back.

    Attributes
    ----------
    task : Task
        What to fit.
    problem, sample : Problem
        The problem, whose rows are in these coordinates; that of the rows that carry the scan.
    matrix : ndarray, shape (p + 1, p + 1)
        The unknowns (-b, theta) of the data are this times those of the problem.
    unit_penalty : Penalty
        The penalty of size one on b.
    L1_wt : float
        Share of its absolute part.
    endog_size : float
        Largest response, before it was centred, in the unit of the problem.
    """

    task: Task
    problem: Problem
    sample: Problem
    matrix: FloatArray
    unit_penalty: Penalty
    L1_wt: float
    endog_size: float

    @property
    def start(self) -> FloatArray:
        """No coefficients, and about the scale that the response then has at tau = 1/2."""
        z, theta = np.zeros(self.problem.rows.n_unknowns), self.problem.theta
        z[-1] = math.sqrt(self.problem.kappa + 8.0) if theta is None else theta
        return z

    def penalty(self, on_b: Penalty) -> Penalty:
        """Return a penalty on b in these coordinates, none on theta."""
        whole = Penalty(np.append(on_b.l1, 0.0), np.append(on_b.l2, 0.0))
        return whole.scaled(self.matrix.diagonal())


def _design(problem: Problem) -> FloatArray:
    """Return the rows of a problem in memory, the response last."""
    assert isinstance(problem.rows, ArrayRows)
    return np.asarray(problem.rows.exog, dtype=np.float64)


def _set_up(
    exog: Any,
    endog: Any,
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
    reml: bool = True,
) -> _Setup:
    """Return the problem in coordinates that keep a penalty a sum over coordinates.

    The rows are copied into them: a Hessian of columns far from zero would have lost its digits before
    it is brought there. Means are taken off where a constant without a penalty makes up for them.
    """
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
    if not isinstance(reml, (bool, np.bool_)):
        raise DomainError(f"reml must be True or False, got {reml!r}")
    task = task_of(kappa, tau, sigma, tau_bounds, reml=bool(reml))
    rows = rows_of(exog, endog, weights, offset)
    require_finite(rows)
    x, y, w = rows.take(slice(None))
    penalty = _unit_penalty(x, w, L1_wt, penalty_weights, standardize)
    if units == "endog" and task.sigma is not None:
        penalty = penalty.scaled(np.full(x.shape[1], task.sigma))
    n = float(y.size if w is None else w.sum())
    rank = float(basis_of(x, y).columns.size) if task.reml and task.sigma is None else 0.0
    if n <= rank:
        raise DataError(
            "the restricted likelihood needs more observations than the rank of the regressors: "
            f"there are {n:.10g} for a rank of {rank:g}; pass reml=False, or fix sigma"
        )
    design, constant = np.column_stack([x, y]), find_constant(x)[1]
    mean = np.zeros(design.shape[1])
    if constant is not None and bool(penalty.is_absent[constant]):
        mean = np.average(design, axis=0, weights=w)
        mean[constant] = 0.0
        design -= mean
    size = np.sqrt(np.average(design**2, axis=0, weights=w))
    lengths = 1.0 / np.where(size > 0.0, size, 1.0)
    matrix = np.diag(lengths)
    if constant is not None:
        matrix[constant] -= mean * lengths / x[0, constant]
    design *= lengths
    theta = None if task.sigma is None else 1.0 / (task.sigma * lengths[-1])
    problem = Problem(ArrayRows(design, None, w), n, task.kappa, None, theta, rank)
    endog_size = float(np.abs(y).max(initial=0.0) * lengths[-1])
    return _Setup(task, problem, _sample_of(problem), matrix, penalty, float(L1_wt), endog_size)


def _sample_of(problem: Problem) -> Problem:
    """Return the problem of a random sample of fixed size, restricted in proportion."""
    assert isinstance(problem.rows, ArrayRows)
    design, weights = problem.rows.exog, problem.rows.weights
    size = max(SAMPLE_ROWS, SAMPLE_PER_COLUMN * design.shape[1])
    if design.shape[0] <= size:
        return problem
    chosen = np.sort(np.random.default_rng(0).choice(design.shape[0], size, replace=False))
    rows = ArrayRows(design[chosen], None, None if weights is None else weights[chosen])
    share = rows.weight_sum / problem.n
    return replace(problem, rows=rows, n=rows.weight_sum, rank=problem.rank * share)


def _require_residual(setup: _Setup, penalty: Penalty) -> None:
    """Raise a DataError when the columns without a penalty fit the response exactly."""
    if setup.task.sigma is not None:
        return
    design = _design(setup.problem)
    basis = basis_of(design[:, :-1][:, penalty.is_absent], design[:, -1])
    residual = np.abs(basis.design[:, -1]).max() / basis.matrix[-1, -1]
    if residual <= 1e-12 * setup.endog_size:
        raise DataError(
            "the columns without a penalty fit endog exactly (a constant endog, or more columns than "
            "rows): sigma would go to 0 and the likelihood to infinity; fix sigma to fit, or penalise "
            "them"
        )


# ---------------------------------------------------------------------- the fit


def _scan(
    problem: Problem,
    penalty: Penalty,
    bounds: tuple[float, float],
    start: FloatArray,
    before: dict[float, PenalizedPoint],
) -> dict[float, PenalizedPoint]:
    """Return fits at values of tau equally spaced on the logit scale, from the middle outwards.

    Each starts from its neighbour, or from the fit at the same tau with another penalty.
    """
    smooth = replace(problem, kappa=smoothing_width(problem.kappa, problem.n, start.size - 1))
    nodes: dict[float, PenalizedPoint] = {}
    for tau in sorted(tau_grid(bounds), key=lambda tau: abs(tau - 0.5)):
        near = min(nodes, key=lambda known: abs(known - tau), default=None)
        z = start if near is None else nodes[near].z
        z = before[tau].z if before else z
        nodes[tau] = minimise_penalized(smooth, penalty, z, tau, tol=FLAT_SLOPE)
    return nodes


def _fits(setup: _Setup, penalties: Iterable[Penalty], tol: float) -> Iterator[PenalizedPoint]:
    """Iterate over the fits with several penalties in the coordinates of the problem."""
    problem, task = setup.problem, setup.task
    z = setup.start
    nodes: dict[float, PenalizedPoint] = {}
    for penalty in penalties:
        if task.tau is not None:
            fits = [minimise_penalized(problem, penalty, z, task.tau, tol=tol)]
        else:
            bounds = task.tau_bounds
            nodes = _scan(setup.sample, penalty, bounds, z, nodes)
            scanned = [
                ProfileNode(tau, node.value, node.objective.d_tau / problem.n, node.z)
                for tau, node in sorted(nodes.items())
            ]
            fits = [
                minimise_penalized(problem, penalty, basin.z, basin.tau, bounds=bounds, tol=tol)
                for basin in profile_minima(scanned, bounds)
            ]
        best = min(fits, key=lambda fit: fit.value)
        z = best.z
        yield best


def _solution(
    setup: _Setup, penalty: Penalty, point: PenalizedPoint, alpha: float
) -> RegularizedSolution:
    """Return the fit in the units of the data, with its proof."""
    problem, task, tau = setup.problem, setup.task, point.tau
    n, raw = problem.n, setup.matrix @ point.z
    sigma = 1.0 / float(raw[-1]) if task.sigma is None else task.sigma
    gap = duality_gap(problem, setup.penalty(penalty), point)
    slope = point.objective.d_tau / n
    stationary = tau_violation(slope, tau, task.free_bounds) <= FLAT_SLOPE
    log_c = float(log_normalizer(tau, task.kappa))
    return RegularizedSolution(
        beta=-raw[:-1] * sigma + 0.0,  # no negative zeros
        sigma=sigma,
        tau=tau,
        kappa=task.kappa,
        alpha=alpha,
        L1_wt=setup.L1_wt,
        penalty=penalty,
        value=point.value - problem.m / n * math.log(setup.matrix[-1, -1]),
        loglike=-(point.objective.totals.loss + n * (log_c + math.log(sigma))),
        subgradient=point.violation,
        gap=gap,
        tau_slope=slope,
        tau_at_bound=task.tau is None and tau in task.tau_bounds,
        converged=bool(gap <= GAP_TOLERANCE * max(1.0, abs(point.value)) and stationary),
        n=n,
        p=problem.rank,
        rows_in_zone=point.objective.totals.rows_in_zone,
        iterations=point.iterations,
    )


def regularized_path(
    exog: Any, endog: Any, alphas: Any, *, tol: float = 1e-11, **options: Any
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
    tol : float
        Violation of the subgradient condition at which to stop.
    L1_wt : float
        Share of the absolute values in it, between 0 (ridge) and 1 (lasso, the default).
    penalty_weights : array_like, shape (p,), optional
        Nonnegative factors; by default 1, and 0 for a constant column. sigma and tau are never
        penalised.
    standardize : bool
        Whether the penalty is on the coefficients of columns of unit standard deviation; not by
        default.
    units : {"sigma", "endog"}
        Whether the penalty is on beta / sigma, or on beta itself, which needs sigma fixed.
    kappa : float
        Huber width, positive; 4 by default.
    tau, sigma : float or None
        A number fixes the parameter, None estimates it.
    tau_bounds : (float, float)
        Range of an estimated tau.
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.
    reml : bool
        Whether the likelihood is the restricted one where sigma is estimated, the default. It needs
        more observations than the rank of the regressors, penalised or not.
    """
    setup = _set_up(exog, endog, **options)
    sizes, unit = [float(alpha) for alpha in alphas], setup.unit_penalty
    for alpha in sizes:
        if not (np.isfinite(alpha) and alpha >= 0.0):
            raise DomainError(f"alpha must be a nonnegative number, got {alpha!r}")
    penalties = [Penalty(alpha * unit.l1, alpha * unit.l2) for alpha in sizes]
    least = max(penalties, key=lambda penalty: int(penalty.is_absent.sum()), default=unit)
    _require_residual(setup, least)
    with one_blas_thread(_design(setup.problem).size):
        points = list(_fits(setup, map(setup.penalty, penalties), tol))
    return tuple(
        _solution(setup, penalty, point, alpha)
        for penalty, point, alpha in zip(penalties, points, sizes, strict=True)
    )


def solve_regularized(
    exog: Any, endog: Any, *, alpha: Any, penalty_weights: Any = None, **options: Any
) -> RegularizedSolution:
    """Return the fit that minimises minus the mean log-likelihood plus an elastic-net penalty.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    alpha : float or array_like, shape (p,)
        Size of the penalty; or one for each coefficient, a constant's included, in place of
        `penalty_weights`.
    penalty_weights, **options
        As in :func:`regularized_path`: ``L1_wt``, ``standardize``, ``units``, ``kappa``, ``tau``,
        ``sigma``, ``tau_bounds``, ``weights``, ``offset``, ``reml`` and ``tol``.

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
    >>> from qhreg.regularized import solve_regularized
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(200), rng.normal(size=(200, 4))])
    >>> y = 1.0 + 2.0 * X[:, 1] + rng.laplace(size=200)
    >>> fit = solve_regularized(X, y, alpha=0.2, tau=0.5)
    >>> fit.beta != 0.0
    array([ True,  True, False, False, False])
    """
    size, factors = size_and_factors(alpha, penalty_weights, np.shape(exog)[-1])
    (solution,) = regularized_path(exog, endog, [size], penalty_weights=factors, **options)
    warn_about(solution)
    return solution


def largest_alpha(exog: Any, endog: Any, *, tol: float = 1e-11, **options: Any) -> float:
    """Return the smallest alpha at which every penalised coefficient is zero.

    Parameters
    ----------
    exog, endog : array_like, shapes (n, p) and (n,)
        The data.
    tol, **options
        As in :func:`regularized_path`; ``L1_wt`` must be positive.

    Notes
    -----
    The fit of the columns without a penalty, by the criterion of all, has a slope of the mean loss in
    each of the others: alpha is the largest ratio of one to its weight. An estimated tau is that of the
    fit.
    """
    setup = _set_up(exog, endog, **options)
    if not setup.L1_wt > 0.0:
        raise DomainError("without absolute values in the penalty no coefficient is ever zero")
    _require_residual(setup, setup.unit_penalty)
    penalty = setup.penalty(setup.unit_penalty)
    bare = penalty.is_absent
    prohibitive = Penalty(np.where(bare, 0.0, np.finfo(np.float64).max), np.zeros(bare.size))
    (fit,) = _fits(setup, [prohibitive], tol)
    ratio = np.abs(fit.objective.d_z[~bare]) / penalty.l1[~bare]
    # at the size itself rounding decides whether a coefficient is zero
    return float(ratio.max(initial=0.0)) / setup.problem.n * (1.0 + math.sqrt(np.finfo(float).eps))
