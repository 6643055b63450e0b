r"""The fit of beta, sigma and tau, with proof of what it found.

The joint problem is biconvex, not convex. The route is the same for all data: well-conditioned
coordinates (:mod:`qhreg.solver.setup`); a scan over tau, on a sample of the rows where there are many
(:mod:`qhreg.solver.over_tau`); Newton's method from the best basins on all rows; on request, proof by
branch and bound that no other tau is better (:mod:`qhreg.solver.branch_and_bound`). Every result carries
its duality gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, GivenRows, require_finite, rows_of
from qhreg.exceptions import (
    BoundaryWarning,
    ConvergenceWarning,
    DataError,
    DomainError,
    RankWarning,
    warn_caller,
)
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.family.normalizer import log_curvature
from qhreg.solver.branch_and_bound import branch_and_bound
from qhreg.solver.dual import TauFit
from qhreg.solver.fixed_tau import analytic_centre
from qhreg.solver.over_tau import (
    local_fit,
    profile_slope,
    profile_value,
    scan_basins,
    stationary_in_tau,
)
from qhreg.solver.problem import Task
from qhreg.solver.setup import Basis, Setup, minimum_norm, set_up

DEFAULT_TAU_BOUNDS = (1e-3, 1.0 - 1e-3)

LARGEST_KAPPA = 1e100
"""Width whose square is a floating-point number with room to spare."""

CERTIFIED = 1e-6
"""Log-likelihood per observation that a certified fit may leave to another tau."""


@dataclass(frozen=True)
class Solution:
    """A fitted quantile Huber regression.

    Attributes
    ----------
    beta : ndarray, shape (p,)
        Coefficients.
    sigma, tau, kappa : float
        Scale, asymmetry and width.
    value : float
        What was minimised: minus the restricted log-likelihood (QH-25) without its constant, or minus
        the ordinary one.
    gap : float
        Duality gap of the convex fit at `tau`: how far `value` can be above its minimum over
        (beta, sigma), in units of the log-likelihood.
    tau_slope : float
        Derivative of the profile in tau per unit of weight; zero where tau is estimated inside its
        bounds.
    converged : bool
        Whether the gap is at most 1e-9 per unit of weight, and tau is stationary, at a bound, or
        fixed.
    reason : str
        Why the solver stopped.
    n : float
        Sum of the case weights.
    rank : int
        Rank of the design.
    dependent : tuple of int
        Columns that are combinations of earlier ones.
    undetermined : tuple of int
        Columns whose coefficient may move without a change of the likelihood: the optimum is a set,
        and `beta` its analytic centre.
    rows_in_zone : int
        Rows in the quadratic zone.
    iterations, passes : int
        Steps taken, passes over all rows.
    tau_at_bound : bool
        Whether tau was estimated and ended on a bound.
    certified : bool
        Whether the fit was asked to prove that no other tau is better, and did.
    square : float
        sum w v^2 of the dual point at the fit; half of it is minus the derivative of the loss in kappa.
    p : float
        p of the restricted likelihood that was maximised, zero for the ordinary one.
    """

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float
    value: float
    gap: float
    tau_slope: float
    converged: bool
    reason: str
    n: float
    rank: int
    dependent: tuple[int, ...]
    undetermined: tuple[int, ...]
    rows_in_zone: int
    iterations: int
    passes: int
    tau_at_bound: bool
    certified: bool
    square: float = math.nan
    p: float = 0.0

    @property
    def loglike_restricted(self) -> float:
        """The log-likelihood that was maximised: the restricted one, the ordinary one where p = 0."""
        return 0.5 * self.p * math.log(2.0 * math.pi) - self.value

    @property
    def loglike(self) -> float:
        """The ordinary log-likelihood."""
        if not self.p:
            return -self.value
        log_q = float(log_curvature(self.tau, self.kappa).value)
        return self.p * (0.5 * log_q - math.log(self.sigma)) - self.value


def solve(
    exog: Any,
    endog: Any,
    *,
    kappa: float = 4.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    start: Any = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
    reml: bool = True,
    rank: float | None = None,
) -> Solution:
    """Return the fit of (beta, sigma, tau) by restricted or maximum likelihood, with its duality gap.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors, float32 or float64 without a copy; no constant is added.
    endog : array_like, shape (n,)
        Response.
    kappa : float
        Huber width in units of sigma; 0 is the quantile loss.
    tau, sigma : float or None
        A number fixes the parameter, None estimates it.
    tau_bounds : (float, float)
        Range of an estimated tau.
    weights, offset : array_like, shape (n,), or None
        Case weights (a weight of two is a row given twice); known part of the location.
    start : Solution or None
        Where to start: an earlier solution, or anything with beta, sigma and tau.
    search : bool or None
        None scans the range of tau and follows the best basins; True also proves by branch and bound
        that no other tau is better; False follows the basin of `start` only.
    names : sequence of str or None
        Names of the columns for messages.
    reml : bool
        Whether to maximise the restricted likelihood (QH-25) rather than the ordinary one. With sigma
        fixed it is the ordinary one, unless `rank` is given.
    rank : float or None
        p of the restricted likelihood: the rank of the regressors by default, that of a larger model
        where the two are compared.

    Returns
    -------
    Solution
        Frozen; `converged` is True only with a duality gap of at most 1e-9 per unit of weight.

    Warns
    -----
    RankWarning
        Columns are linearly dependent; the coefficients are the shortest ones.
    BoundaryWarning
        tau ended on one of its bounds.
    ConvergenceWarning
        The gap did not close.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.solver.joint import solve
    >>> y = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    >>> fit = solve(np.ones((5, 1)), y, kappa=0.0, tau=0.5, sigma=1.0)
    >>> fit.beta
    array([2.])
    """
    task = task_of(kappa, tau, sigma, tau_bounds, reml=reml, rank=rank)
    rows = rows_of(exog, endog, weights, offset)
    return solve_rows(rows, task, start=start, search=search, names=names)


def _in_units(solution: Solution, unit: float) -> Solution:
    """Return the solution of rows whose weights were divided by the unit, with those weights."""
    return replace(
        solution,
        value=solution.value * unit,
        gap=solution.gap * unit,
        n=solution.n * unit,
        square=solution.square * unit,
        p=solution.p * unit,
    )


def solve_rows(
    rows: GivenRows,
    task: Task,
    *,
    start: Any = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
) -> Solution:
    """Return the fit of rows that may lie anywhere; parameters as in :func:`solve`."""
    if rows.n_rows == 0:
        raise DataError("there are no rows with positive weight")
    if isinstance(rows, ArrayRows) and rows.weights is not None and task.unit == 1.0:
        # tolerances are for rows that weigh one or more: weights that sum to one are another unit
        unit = rows.weight_sum / rows.n_rows
        if unit < 1.0:
            lighter = replace(rows, weights=rows.weights / unit), replace(task, unit=unit)
            return _in_units(solve_rows(*lighter, start=start, search=search, names=names), unit)
    try:
        with one_blas_thread(rows.n_rows * rows.n_columns):
            setup = set_up(rows, task)
            fit = _fit(setup, start, search)
            certified = search is True and task.tau is None
            if certified:
                fit, certified = _certified(setup, fit)
    except FloatingPointError as error:
        require_finite(rows)
        raise DataError(f"the data leave the range of floating-point numbers: {error}") from error
    if setup.basis.dependent.size:
        _warn_dependent(setup.basis, names)
    return report(setup, fit, certified=certified, names=names)


def task_of(
    kappa: float,
    tau: float | None,
    sigma: float | None,
    tau_bounds: tuple[float, float],
    *,
    reml: bool = True,
    rank: float | None = None,
) -> Task:
    """Return what to fit, its parameters checked."""
    lo, hi = float(tau_bounds[0]), float(tau_bounds[1])
    if kappa > LARGEST_KAPPA:
        raise DomainError(
            f"kappa must be at most {LARGEST_KAPPA:g} in a fit, got {kappa!r}: far below that it is "
            "least squares already"
        )
    if not 0.0 < lo < hi < 1.0:
        raise DomainError(f"tau_bounds must satisfy 0 < lower < upper < 1, got {tau_bounds!r}")
    return Task(
        check_kappa(float(kappa)),
        None if tau is None else check_tau(float(tau)),
        None if sigma is None else check_sigma(float(sigma)),
        (lo, hi),
        reml,
        rank,
    )


def _fit(setup: Setup, start: Any, search: bool | None) -> TauFit:
    """Return the best optimum over tau that the scan leads to, or that of the start alone."""
    problem = setup.problem
    first = setup.start if start is None else start_of(setup, start)
    if problem.tau_bounds is None or (search is False and start is not None):
        return local_fit(problem, *first)
    basins = [(basin.z, basin.tau) for basin in scan_basins(setup.sample, setup.start[0])]
    fits = [local_fit(problem, *place) for place in [*basins, *([] if start is None else [first])]]
    best = min(fits, key=lambda fit: profile_value(fit, problem))
    return replace(best, passes=sum(fit.passes for fit in fits))


def _certified(setup: Setup, fit: TauFit) -> tuple[TauFit, bool]:
    """Return the best optimum over the whole range of tau, and whether that is proved."""
    problem = setup.problem
    bound = branch_and_bound(problem, fit, tol=CERTIFIED * problem.n)
    if bound.upper < profile_value(fit, problem) - 1e-9:
        fit = local_fit(problem, bound.best.z, bound.best.tau)
    return fit, bound.holds


def start_of(setup: Setup, start: Any) -> tuple[FloatArray, float]:
    """Return an earlier solution in the coordinates of a problem."""
    matrix, task = setup.basis.matrix, setup.task
    p = matrix.shape[0] - 1
    if start.beta.shape != (p,):
        raise DataError(f"start has {start.beta.size} coefficients, exog has {p} columns")
    if not (
        np.isfinite(start.beta).all() and 0.0 < start.sigma < math.inf and 0.0 < start.tau < 1.0
    ):
        raise DataError(
            "start must have finite coefficients, sigma > 0 and 0 < tau < 1, got "
            f"{start.beta}, {start.sigma!r} and {start.tau!r}"
        )
    sigma = start.sigma / setup.scale if task.sigma is None else task.sigma
    raw = np.append(-start.beta / setup.scale, 1.0) / sigma
    z = np.asarray(np.linalg.lstsq(matrix, raw, rcond=None)[0], dtype=np.float64)
    z[-1] = raw[-1] / matrix[-1, -1]
    return z, task.tau if task.tau is not None else float(np.clip(start.tau, *task.tau_bounds))


def _warn_dependent(basis: Basis, names: Sequence[str] | None) -> None:
    columns = [names[j] if names is not None else str(j) for j in basis.dependent]
    warn_caller(
        f"exog has rank {basis.columns.size}: column(s) {', '.join(columns)} are linear combinations of "
        "earlier ones. The coefficients are the shortest that fit as well; drop columns to choose",
        RankWarning,
    )


def report(
    setup: Setup,
    fit: TauFit,
    *,
    certified: bool,
    names: Sequence[str] | None = None,
) -> Solution:
    """Return the solution in the units of the data, with a warning where there is reason for one."""
    basis, problem, task, scale = setup.basis, setup.problem, setup.task, setup.scale
    fit, free = analytic_centre(problem, fit)
    raw = basis.matrix.dot(fit.z)
    sigma = 1.0 / float(raw[-1])
    beta = minimum_norm(basis, -raw[:-1] * sigma)
    slope = profile_slope(fit, problem)
    at_bound = task.tau is None and fit.tau in task.tau_bounds
    converged = fit.proved(problem.n) and stationary_in_tau(fit, problem)
    reason = fit.reason
    if not converged:
        reason = f"duality gap {fit.gap:.3g}"
        if task.tau is None:
            reason += f", profile slope in tau {slope:.3g} per row"
        warn_caller(
            f"the fit did not converge ({reason}): its estimates are not proved to be the best. Give "
            "the columns similar units, or give start_params",
            ConvergenceWarning,
        )
    if at_bound and converged:
        warn_caller(bound_reached(fit.tau), BoundaryWarning)
    undetermined = _moving_columns(basis, free)
    if undetermined:
        _warn_undetermined(undetermined, names)
    return Solution(
        beta * scale + 0.0,  # no negative zeros
        sigma * scale,
        fit.tau,
        task.kappa,
        profile_value(fit, problem) + value_shift(setup),
        fit.gap,
        slope,
        converged,
        reason,
        problem.n,
        basis.columns.size,
        tuple(basis.dependent.tolist()),
        undetermined,
        fit.rows_in_zone,
        fit.iterations,
        fit.passes,
        at_bound,
        certified,
        fit.dual.square,
        problem.rank,
    )


def bound_reached(tau: float) -> str:
    """Return what it means that tau ended on a bound, and what to do."""
    return (
        f"tau ended on its bound {tau:g}: nearly all noise lies on one side of the line. Try fewer "
        "columns, tau=0.5 or other tau_bounds"
    )


def _moving_columns(basis: Basis, free: FloatArray) -> tuple[int, ...]:
    """Return the columns whose coefficients move along the directions that change nothing."""
    if not free.size:
        return ()
    moves = np.abs(basis.matrix[:-1, :-1] @ free).max(axis=1)
    size = np.abs(basis.matrix[:-1, :-1]).max(axis=1)
    return tuple(np.flatnonzero(moves > 1e-6 * np.where(size > 0.0, size, 1.0)).tolist())


def _warn_undetermined(columns: tuple[int, ...], names: Sequence[str] | None) -> None:
    labels = ", ".join(str(j) if names is None else names[j] for j in columns[:5])
    more = f" and {len(columns) - 5} others" if len(columns) > 5 else ""
    warn_caller(
        f"the coefficient of {labels}{more} is not determined: a range of values fits equally well, and "
        "its centre is returned. More rows or a larger kappa would decide",
        RankWarning,
    )


def attained(fit: TauFit, setup: Setup) -> float:
    """Return the (restricted) log-likelihood of a fit in the units of the data."""
    value = profile_value(fit, setup.problem) + value_shift(setup)
    return 0.5 * setup.problem.rank * math.log(2.0 * math.pi) - value


def value_shift(setup: Setup) -> float:
    """Return what to add to values of the problem to have them in the units of the data."""
    return setup.problem.m * math.log(setup.scale / setup.basis.matrix[-1, -1])
