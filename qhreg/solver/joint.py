r"""The fit of beta, sigma and tau, with proof of what it found.

The joint problem is biconvex, not convex. The route: well-conditioned coordinates; for large data a
random sample of the rows first; Newton's method on the projected likelihood; where it has no rows in
the zone to work with, a search over tau of exact convex fits; for small samples, and where the profile
over tau may have several minima, branch and bound over tau. Every result carries its duality gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import GivenRows
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
from qhreg.solver.basis import Basis, minimum_norm
from qhreg.solver.convex import TINY_KAPPA, TauFit
from qhreg.solver.doubt import (
    WIDE,
    has_likely_tails,
    has_many_columns,
    has_ties,
    is_far_from_the_model,
    is_jagged,
    is_like_the_model,
    is_near_an_end,
    look_along_tau,
)
from qhreg.solver.exact import ALL_ROWS
from qhreg.solver.inputs import require_finite, rows_of
from qhreg.solver.local import (
    LocalFit,
    Memory,
    constant_direction,
    local_fit,
    profile_slope,
    profile_value,
    search_tau,
    stationary_in_tau,
)
from qhreg.solver.preparation import MANY_COLUMNS, Setup, narrowed_start, set_up
from qhreg.solver.problem import Task
from qhreg.solver.projection import lbfgs
from qhreg.solver.threads import one_blas_thread

__all__ = [
    "DEFAULT_TAU_BOUNDS",
    "Solution",
    "attained",
    "in_coordinates",
    "solve",
    "solve_rows",
    "task_of",
    "value_shift",
]


DEFAULT_TAU_BOUNDS = (1e-3, 1.0 - 1e-3)

LARGEST_KAPPA = 1e100
"""Width whose square is a floating-point number with room to spare."""

SEARCH_ROWS = 500
"""Rows up to which the whole range of tau is searched."""

JAGGED_ROWS = 5000
"""Rows up to which it is searched where the profile over tau is jagged."""

DOUBTFUL_ROWS = 20_000
"""Rows up to which it is searched near 0 and 1, far from the model, or where a look asks for it."""


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
    rows_in_zone : int
        Rows in the quadratic zone.
    iterations, passes : int
        Steps taken, passes over all rows.
    tau_at_bound : bool
        Whether tau was estimated and ended on a bound.
    searched : bool
        Whether the whole range of tau was searched.
    doubtful : bool
        Whether another optimum is likely and the search, if there was one, could not exclude it.
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
    rows_in_zone: int
    iterations: int
    passes: int
    tau_at_bound: bool
    searched: bool
    square: float = math.nan
    doubtful: bool = False
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
    method: str = "newton",
    start: Solution | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
    memory: Memory | None = None,
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
    method : {"newton", "lbfgs"}
        Newton's method, or L-BFGS before a last Newton phase, for many columns.
    start : Solution or None
        An earlier solution with the same columns to start from. A converged one is followed: another
        optimum is looked for up to 500 rows and at small kappa only.
    search : bool or None
        Whether to search the whole range of tau; None does so up to 500 rows, up to 5000 with fewer
        than 60 rows in the zone (always at kappa = 0) and where responses are equal, and up to 20,000
        where tau ends within 0.05 of 0 or 1, where the noise is far from the model, or is unlike it and
        a look along tau leaves room for another optimum, or where so many columns may have all rows on
        one side. Larger data are then fitted from several starts, and the solution is marked as
        doubtful.
    names : sequence of str or None
        Names of the columns for messages.
    memory : Memory or None
        What earlier searches with the same columns and weights proved, whatever the response or offset.
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
    if method not in ("newton", "lbfgs"):
        raise DomainError(f"method must be 'newton' or 'lbfgs', got {method!r}")
    rows = rows_of(exog, endog, weights, offset)
    unit = 1.0
    if rows.weights is not None:
        # tolerances are for rows that weigh one or more: weights that sum to one are another unit
        unit = min(1.0, rows.weight_sum / rows.n_rows)
        rows = replace(rows, weights=rows.weights / unit) if unit < 1.0 else rows
        task = replace(task, unit=unit)
    found = solve_rows(
        rows, task, method=method, start=start, search=search, names=names, memory=memory
    )
    return found if unit == 1.0 else _in_units(found, unit)


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
    method: str = "newton",
    start: Solution | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
    memory: Memory | None = None,
) -> Solution:
    """Return the fit of rows that may lie anywhere; parameters as in :func:`solve`."""
    if rows.n_rows == 0:
        raise DataError("there are no rows with positive weight")
    try:
        with one_blas_thread(rows.n_rows * rows.n_columns):
            setup, found = _fit_rows(rows, task, method, start, search, memory)
    except FloatingPointError as error:
        require_finite(rows)
        raise DataError(f"the data leave the range of floating-point numbers: {error}") from error
    if setup.basis.dependent.size:
        _warn_dependent(setup.basis, names)
    return report(setup, found.local, searched=found.searched, doubtful=found.doubtful)


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


class Found(NamedTuple):
    """An optimum, whether tau was searched, and whether another optimum is not excluded by that.

    `doubtful` is False for a local fit that nothing speaks against.
    """

    local: LocalFit
    searched: bool = False
    doubtful: bool = False


def _fit_rows(
    rows: GivenRows,
    task: Task,
    method: str,
    start: Solution | None,
    search: bool | None,
    memory: Memory | None,
) -> tuple[Setup, Found]:
    """Return the problem and its fit.

    A fit that starts from a converged one follows it: it is searched only where Newton's method
    failed or tau came near its ends.
    """
    setup = set_up(rows, task)
    whole = rows.n_rows <= SEARCH_ROWS if search is None else search
    local = _fit(setup, method, start)
    if task.tau is not None:
        return setup, Found(local)
    follows = start is not None and start.converged
    jagged = is_jagged(local, 0) if follows else is_jagged(local)
    few = rows.n_rows <= DOUBTFUL_ROWS
    asked = (rows.n_rows <= JAGGED_ROWS and jagged) or (few and is_near_an_end(local.fit.tau))
    if whole or (search is None and asked):
        return setup, _searched(setup, local, memory)
    if search is False or follows:
        return setup, Found(local)
    if is_like_the_model(local, setup.problem, setup.kurtosis, rows) and (
        not few or has_likely_tails(local, setup.problem)
    ):
        return setup, Found(local)
    if search is None and rows.n_rows <= JAGGED_ROWS and has_ties(rows):
        return setup, _searched(setup, local, memory)
    return setup, _looked_further(setup, local)


def _searched(setup: Setup, local: LocalFit, memory: Memory | None = None) -> Found:
    """Return the best optimum over the whole range of tau."""
    problem = setup.problem
    best, proved = search_tau(problem, local, setup.task, problem.weights(), memory)
    return Found(best, searched=True, doubtful=not proved)


def _fit(setup: Setup, method: str, start: Solution | None) -> LocalFit:
    """Return a local optimum."""
    task, problem = setup.task, setup.problem
    first = setup.start
    if start is not None:
        first = start_of(setup.basis, start, setup.scale, task)
    if task.kappa <= TINY_KAPPA:
        slow = problem.rows.n_rows > ALL_ROWS
    else:
        slow = start is None and first[0].size > MANY_COLUMNS
    if setup.narrow or slow:
        first = narrowed_start(problem, first, task)
    if method == "lbfgs" and task.kappa > TINY_KAPPA:
        first = lbfgs(problem, *first, tau_bounds=task.free_bounds)
    return local_fit(problem, *first, task)


def _looked_further(setup: Setup, local: LocalFit) -> Found:
    """Return the fit after a look along tau, the slopes held at the fit and at zero.

    Where that shows another optimum the whole range of tau is searched, and large data are fitted
    from the most promising other starts. The look tells little far from the model, with few rows in a
    zone that is to have some or few outside a wide one, and where the profile hardly rises to an end of
    tau; of large data the last counts only with so many columns that all rows could lie on one side.
    """
    problem, task = setup.problem, setup.task
    few = problem.rows.n_rows <= DOUBTFUL_ROWS
    far = is_far_from_the_model(local, problem, setup.kurtosis)
    if few and (far or task.kappa > WIDE or is_jagged(local)):
        return _searched(setup, local)
    flat = setup.basis.matrix @ local.fit.z
    flat[:-1] = 0.0
    flat = in_coordinates(setup.basis, flat)
    look = look_along_tau(problem, local.fit, task, flat, constant_direction(problem))
    if few and (look.starts or look.flat_end):
        return _searched(setup, local)
    if not look.starts:
        return Found(local, doubtful=far or (look.flat_end and has_many_columns(local, problem)))
    found = [local, *(local_fit(problem, *start, task) for start in look.starts)]
    best = min(found, key=lambda item: profile_value(item.fit, problem))
    return Found(replace(best, passes=sum(item.passes for item in found)), doubtful=True)


def in_coordinates(basis: Basis, raw: FloatArray) -> FloatArray:
    """Return the unknowns (-b, theta) of the data in the coordinates of a basis."""
    z = np.asarray(np.linalg.lstsq(basis.matrix, raw, rcond=None)[0], dtype=np.float64)
    z[-1] = raw[-1] / basis.matrix[-1, -1]
    return z


def start_of(basis: Basis, start: Solution, scale: float, task: Task) -> tuple[FloatArray, float]:
    """Return an earlier solution in the coordinates of a basis."""
    p = basis.matrix.shape[0] - 1
    if start.beta.shape != (p,):
        raise DataError(f"start has {start.beta.size} coefficients, exog has {p} columns")
    if not (
        np.isfinite(start.beta).all() and 0.0 < start.sigma < math.inf and 0.0 < start.tau < 1.0
    ):
        raise DataError(
            "start must have finite coefficients, sigma > 0 and 0 < tau < 1, got "
            f"{start.beta}, {start.sigma!r} and {start.tau!r}"
        )
    sigma = start.sigma / scale if task.sigma is None else task.sigma
    z = in_coordinates(basis, np.append(-start.beta / scale, 1.0) / sigma)
    tau = task.tau if task.tau is not None else float(np.clip(start.tau, *task.tau_bounds))
    return z, tau


def _warn_dependent(basis: Basis, names: Sequence[str] | None) -> None:
    columns = [names[j] if names is not None else str(j) for j in basis.dependent]
    warn_caller(
        f"exog has rank {basis.columns.size} but {basis.matrix.shape[0] - 1} columns: column(s) "
        f"{', '.join(columns)} are linear combinations of earlier ones; the coefficients returned "
        "are the shortest ones with the same fitted values",
        RankWarning,
    )


def report(setup: Setup, local: LocalFit, *, searched: bool, doubtful: bool = False) -> Solution:
    """Return the solution in the units of the data, with a warning where there is reason for one."""
    basis, problem, task, scale = setup.basis, setup.problem, setup.task, setup.scale
    fit = local.fit
    raw = basis.matrix.dot(fit.z)
    sigma = 1.0 / float(raw[-1])
    beta = minimum_norm(basis, -raw[:-1] * sigma)
    slope = profile_slope(fit, problem)
    at_bound = task.tau is None and fit.tau in task.tau_bounds
    converged = fit.proved(problem.n) and stationary_in_tau(fit, problem, task)
    reason = local.reason
    if not converged:
        found = f"duality gap {fit.gap:.3g}"
        if task.tau is None:
            found += f", profile slope in tau {slope:.3g} per row"
        reason = f"{found}: not proved"
        warn_caller(f"the fit did not converge: {reason}", ConvergenceWarning)
    if at_bound and converged:
        warn_caller(
            f"tau ended on its bound {fit.tau:g}: {_beyond(fit.tau)}the likelihood would rise further "
            "beyond the bound",
            BoundaryWarning,
        )
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
        fit.rows_in_zone,
        local.iterations,
        local.passes,
        at_bound,
        searched,
        fit.dual.square,
        doubtful,
        problem.rank,
    )


def _beyond(tau: float) -> str:
    """Return what it means that tau ended on a bound near 0 or 1; nothing elsewhere."""
    return "the noise lies on one side, and " if is_near_an_end(tau) else ""


def attained(fit: TauFit, setup: Setup) -> float:
    """Return the (restricted) log-likelihood of a fit in the units of the data."""
    value = profile_value(fit, setup.problem) + value_shift(setup)
    return 0.5 * setup.problem.rank * math.log(2.0 * math.pi) - value


def value_shift(setup: Setup) -> float:
    """Return what to add to values of the problem to have them in the units of the data."""
    return setup.problem.m * math.log(setup.scale / setup.basis.matrix[-1, -1])
