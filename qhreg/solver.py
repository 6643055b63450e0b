r"""The fit of beta, sigma and tau, with proof of what it found.

The joint problem is biconvex, not convex. The route: well-conditioned coordinates; for large data a
random sample of the rows first; Newton's method on the projected likelihood; where it has no rows in
the zone to work with, a search over tau of exact convex fits; for small samples, where the profile
over tau can have several minima, branch and bound over tau. Every result carries its duality gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.basis import CHOLESKY_SAFE, Basis, basis_of, minimum_norm
from qhreg.convex import GAP_TOLERANCE, TINY_KAPPA, TauFit, fit_at
from qhreg.domain import check_kappa, check_sigma, check_tau
from qhreg.dual import dual_from_newton
from qhreg.exceptions import BoundaryWarning, ConvergenceWarning, DataError, DomainError, RankWarning
from qhreg.likelihood import ArrayRows
from qhreg.newton import Curvature, NewtonPoint, newton
from qhreg.normalizer import log_normalizer_derivatives
from qhreg.problem import Problem
from qhreg.projection import lbfgs
from qhreg.taubound import GlobalBound, branch_and_bound

__all__ = ["DEFAULT_TAU_BOUNDS", "Solution", "solve"]

FloatArray = npt.NDArray[np.float64]

DEFAULT_TAU_BOUNDS = (1e-3, 1.0 - 1e-3)

SMALL_SIZE = 150_000
"""Elements of [X, y] up to which the data are worked on whole, in an orthonormal copy."""

SEARCH_ROWS = 500
"""Rows up to which the whole range of tau is searched; larger samples have one basin that matters."""

SEARCH_TOLERANCE = 1e-5
"""Log-likelihood that the default search may leave to another basin."""


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
        Negative log-likelihood.
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

    @property
    def loglike(self) -> float:
        """The log-likelihood."""
        return -self.value


@dataclass(frozen=True)
class _Task:
    """What to fit: the model's side of the problem."""

    kappa: float
    tau: float | None
    sigma: float | None
    tau_bounds: tuple[float, float]

    @property
    def free_bounds(self) -> tuple[float, float] | None:
        return self.tau_bounds if self.tau is None else None


@dataclass(frozen=True)
class _Local:
    """A fit found by a local method, in the coordinates of its problem."""

    fit: TauFit
    curvature: Curvature | None
    iterations: int
    passes: int
    reason: str


def _joint_newton(
    problem: Problem, z: FloatArray, tau: float, task: _Task, **options: Any
) -> tuple[NewtonPoint, TauFit | None]:
    """Return where Newton's method ended, and its proof if it has one."""
    point = newton(problem, z, tau, tau_bounds=task.free_bounds, **options)
    if not point.error < 1e-7:
        return point, None
    dual = dual_from_newton(problem, point)
    if dual is None:
        return point, None
    c = log_normalizer_derivatives(point.tau, problem.kappa)
    fit = TauFit(
        point.tau,
        point.z,
        point.objective.value - problem.n * c.value,
        problem.n * c.d_tau - point.objective.d_tau,
        dual,
        point.objective.rows_in_zone,
        point.passes + 1,
        point.iterations,
    )
    return point, fit


def _profile_slope(fit: TauFit, problem: Problem) -> float:
    """Return the derivative of the profile at the fit, per unit of weight."""
    return log_normalizer_derivatives(fit.tau, problem.kappa).d_tau - fit.excess / problem.n


def _profile(fit: TauFit, problem: Problem) -> float:
    """Return the profile phi = n log c + h at the fit."""
    return fit.value + problem.n * log_normalizer_derivatives(fit.tau, problem.kappa).value


def _descend_profile(problem: Problem, start: TauFit, bounds: tuple[float, float]) -> TauFit:
    """Return a local minimum of the profile by exact convex fits along tau.

    The slope of the profile is known at every fit; a bracket is widened downhill and closed by the
    secant rule with bisection as its safeguard.
    """
    curvature = 0.5 * log_normalizer_derivatives(start.tau, problem.kappa).d2_tau
    here, slope = start, _profile_slope(start, problem)
    best = here
    step = min(abs(slope) / curvature, 0.1) or 1e-6
    downhill = -np.sign(slope)
    while True:
        tau = float(np.clip(here.tau + downhill * step, *bounds))
        if tau == here.tau:
            return best
        there = fit_at(problem, tau, here.z, warm=True)
        best = min(best, there, key=lambda f: _profile(f, problem))
        new_slope = _profile_slope(there, problem)
        if new_slope * slope <= 0.0:
            break
        here, slope, step = there, new_slope, 2.0 * step
    ends = sorted([(here.tau, slope, here), (there.tau, new_slope, there)], key=lambda e: e[0])
    (a, slope_a, fit_a), (b, slope_b, fit_b) = ends
    for attempt in range(60):
        if b - a < 1e-13 or min(abs(slope_a), abs(slope_b)) < 1e-13:
            break
        tau = a + (b - a) * (-slope_a / (slope_b - slope_a) if attempt % 3 < 2 else 0.5)
        if not a < tau < b:
            tau = 0.5 * (a + b)
        if not a < tau < b:
            break
        share = (tau - a) / (b - a)
        middle = fit_at(problem, tau, (1 - share) * fit_a.z + share * fit_b.z, warm=True)
        best = min(best, middle, key=lambda f: _profile(f, problem))
        middle_slope = _profile_slope(middle, problem)
        if abs(middle_slope) < 1e-13:
            return middle
        if middle_slope < 0.0:
            a, slope_a, fit_a = tau, middle_slope, middle
        else:
            b, slope_b, fit_b = tau, middle_slope, middle
    flat = min(fit_a, fit_b, key=lambda f: abs(_profile_slope(f, problem)))
    return flat if _profile(flat, problem) <= _profile(best, problem) + 1e-10 * problem.n else best


def _proved(fit: TauFit | None, problem: Problem) -> bool:
    return fit is not None and fit.gap <= GAP_TOLERANCE * problem.n


def _local_fit(
    problem: Problem, z: FloatArray, tau: float, task: _Task, **options: Any
) -> _Local:
    """Return a local optimum with its proof: Newton first, exact fits along tau when it fails."""
    curvature, iterations, passes = None, 0, 0
    if problem.kappa > TINY_KAPPA:
        point, fit = _joint_newton(problem, z, tau, task, **options)
        curvature, iterations, passes = point.curvature, point.iterations, point.passes + 1
        if fit is not None and _proved(fit, problem):
            return _Local(fit, curvature, iterations, passes, "Newton's method converged")
        if point.error < 1e-2:
            z, tau = point.z, point.tau
    fit = fit_at(problem, tau, z)
    if task.tau is None:
        fit = _descend_profile(problem, fit, task.tau_bounds)
        if problem.kappa > TINY_KAPPA:  # the zone's rows are known now: Newton gives the last digits
            point, polished = _joint_newton(problem, fit.z, fit.tau, task, max_passes=10)
            passes += point.passes
            if (
                polished is not None
                and _proved(polished, problem)
                and _profile(polished, problem) <= _profile(fit, problem) + 1e-9
            ):
                return _Local(polished, point.curvature, iterations, passes, "exact fits, then Newton")
    reason = "exact convex fits along tau" if task.tau is None else "exact convex fit"
    return _Local(fit, curvature, iterations + fit.iterations, passes + fit.passes, reason)


def _bound_profile(
    problem: Problem,
    fit: TauFit,
    task: _Task,
    weights: FloatArray | None,
    *,
    tol: float,
    max_fits: int,
) -> GlobalBound:
    """Return certified bounds on the profile over the whole range of tau."""

    def kept(tau: float, z: FloatArray) -> TauFit:
        return fit_at(problem, tau, z, keep=True, warm=True)

    def polish(rough: TauFit) -> TauFit:
        better = _local_fit(problem, rough.z, rough.tau, task).fit
        return kept(better.tau, better.z)

    return branch_and_bound(
        kept,
        kept(fit.tau, fit.z),
        n=problem.n,
        kappa=problem.kappa,
        theta=problem.theta,
        weights=weights,
        tau_bounds=task.tau_bounds,
        tol=tol,
        max_fits=max_fits,
        polish=polish,
    )


def _search_tau(problem: Problem, local: _Local, task: _Task, weights: FloatArray | None) -> _Local:
    """Return the best local optimum over the whole range of tau."""
    found = _bound_profile(
        problem, local.fit, task, weights, tol=SEARCH_TOLERANCE, max_fits=60
    )
    if found.best.value >= _profile(local.fit, problem) - 1e-9:
        return local
    return _local_fit(problem, found.best.z, found.best.tau, task)


def _starting_point(design: FloatArray, kappa: float, theta: float | None, tau: float | None) -> Any:
    """Return (z, tau) near the optimum from the least-squares residuals in the last column.

    The share of residuals below their mean tells the asymmetry; the location then moves from the
    mean towards the mode by the amount the asymmetric Laplace law has between them.
    """
    n, k = design.shape
    below = float(np.count_nonzero(design[:, -1] < 0.0)) / n
    guess = min(max(0.5 + 1.9 * (below - 0.5), 0.25), 0.75) if tau is None else tau
    spread = 0.72 * np.sqrt(1.0 / guess**2 + 1.0 / (1.0 - guess) ** 2 + kappa)
    z = np.zeros(k)
    z[-1] = spread if theta is None else theta
    shift = (2.0 * guess - 1.0) / (guess * (1.0 - guess)) * float(z[-1]) / float(spread)
    z[:-1] = shift * design[:, :-1].mean(axis=0)
    return z, guess


def _fit_rows(
    design: FloatArray,
    weights: FloatArray | None,
    theta: float | None,
    task: _Task,
    *,
    kappa: float | None = None,
    start: tuple[FloatArray, float] | None = None,
    search: bool,
    **options: Any,
) -> tuple[_Local, bool]:
    """Return the fit of rows held in memory in good coordinates, and whether tau was searched."""
    n = float(design.shape[0] if weights is None else weights.sum())
    width = task.kappa if kappa is None else kappa
    problem = Problem(ArrayRows(design, None, weights), n, width, None, theta)
    z, tau = start or _starting_point(design, width, theta, task.tau)
    local = _local_fit(problem, z, tau, task, **options)
    if not search or task.tau is not None:
        return local, False
    return _search_tau(problem, local, task, weights), True


def _scaled(curvature: Curvature, factor: float) -> Curvature:
    """Return the Hessian of a sample as an estimate of the Hessian of all rows."""
    return replace(
        curvature,
        d2_z=factor * curvature.d2_z,
        d_z_tau=factor * curvature.d_z_tau,
        d2_tau=factor * curvature.d2_tau,
        exact=False,
    )


def _sample_size(n: int, p: int) -> int:
    """Return how many rows to fit first: enough to start Newton's method in its fast range."""
    return min(n, max(4000, 40 * (p + 1), n // 40))


def _easy_width(kappa: float, rows: int, k: int) -> float:
    """Return the smallest width at which a sample has rows enough in the zone for Newton's method."""
    return max(kappa, min(1.0, 100.0 * k / rows))


def _triangular_basis(rows: ArrayRows) -> Basis:
    """Return the basis of all rows from a triangular factor accumulated over blocks."""
    factor = np.empty((0, rows.exog.shape[1] + 1))
    for block in rows.blocks():
        assert block.endog is not None
        stacked = np.vstack([factor, np.column_stack([block.exog, block.endog])])
        factor = np.linalg.qr(stacked, mode="r")
    factor *= np.sqrt(factor.shape[0] / rows.n_rows)
    return basis_of(factor[:, :-1], factor[:, -1])


@dataclass(frozen=True)
class _Large:
    """A large problem in the coordinates of a sample, and where to start."""

    basis: Basis
    problem: Problem
    start: tuple[FloatArray, float]
    options: dict[str, Any]


def _start_from_sample(rows: ArrayRows, n: float, task: _Task) -> _Large:
    """Return coordinates, starting point and a first Hessian from a random sample of the rows."""
    m = _sample_size(rows.n_rows, rows.exog.shape[1])
    chosen = np.sort(np.random.default_rng(0).integers(0, rows.n_rows, m))
    sample = _take(rows, chosen)
    basis = basis_of(sample.exog, sample.endog)
    degenerate = basis.dependent.size > 0 or not _has_residual(basis, sample.endog)
    if degenerate:
        basis = _triangular_basis(rows)
    collinear = basis.weakest <= CHOLESKY_SAFE
    mapped = replace(rows, transform=basis.matrix) if collinear else rows
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    problem = Problem(mapped, n, task.kappa, None if collinear else basis.matrix, theta)
    design = sample.exog @ basis.matrix[:-1]
    design[:, -1] += sample.endog * basis.matrix[-1, -1]
    width = _easy_width(task.kappa, m, basis.matrix.shape[1])
    local, _ = _fit_rows(
        design, sample.weights, theta, task, kappa=width, search=False, tol=1e-4
    )
    start = (local.fit.z, local.fit.tau)
    options: dict[str, Any] = {"reuse_hessian": True}
    if local.curvature is not None and width == task.kappa and not degenerate:
        weight = float(m if sample.weights is None else sample.weights.sum())
        options["curvature"] = _scaled(local.curvature, n / weight)
    return _Large(basis, problem, start, options)


@dataclass(frozen=True)
class _Sample:
    """Some rows in float64."""

    exog: FloatArray
    endog: FloatArray
    weights: FloatArray | None


def _take(rows: ArrayRows, chosen: npt.NDArray[np.intp] | slice) -> _Sample:
    """Return the chosen rows as float64 copies, the offset taken off the response."""
    assert rows.endog is not None
    exog = np.asarray(rows.exog[chosen], dtype=np.float64)
    endog = np.asarray(rows.endog[chosen], dtype=np.float64)
    if rows.offset is not None:
        endog = endog - rows.offset[chosen]
    if rows.endog_scale != 1.0:
        endog = endog / rows.endog_scale
    return _Sample(exog, endog, None if rows.weights is None else rows.weights[chosen])


def _has_residual(basis: Basis, endog: FloatArray) -> bool:
    """Return whether least squares leaves more than rounding of the response."""
    residual = basis.design[:, -1] / basis.matrix[-1, -1]
    return bool(np.abs(residual).max(initial=0.0) > 1e-13 * np.abs(endog).max(initial=0.0))


def _narrowed(problem: Problem, start: tuple[FloatArray, float], task: _Task) -> Any:
    """Return a starting point for a small width, from the fit at the narrowest easy one."""
    width = _easy_width(task.kappa, int(problem.n), start[0].size)
    if width == task.kappa:
        return start
    wide = replace(problem, kappa=width)
    point = newton(wide, *start, tau_bounds=task.free_bounds, tol=1e-5, reuse_hessian=True)
    return (point.z, point.tau) if point.error < 1e-2 else start


def _check_options(task: _Task, method: str) -> None:
    lo, hi = task.tau_bounds
    if not 0.0 < lo < hi < 1.0:
        raise DomainError(f"tau_bounds must satisfy 0 < lower < upper < 1, got {task.tau_bounds!r}")
    if method not in ("newton", "lbfgs"):
        raise DomainError(f"method must be 'newton' or 'lbfgs', got {method!r}")


def _vector(name: str, values: Any, n: int) -> FloatArray | None:
    """Return a one-dimensional float array of length n, or raise a DataError."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"{name} must have shape ({n},), got {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise DataError(f"{name} contains {bad} NaN or infinite values; remove those rows first")
    return array


def _rows(exog: Any, endog: Any, weights: Any, offset: Any) -> ArrayRows:
    """Return the data as rows, checked for shape, finiteness and weights."""
    x, y = np.asarray(exog), np.asarray(endog)
    if x.ndim != 2:
        raise DataError(f"exog must be a matrix, got an array of shape {x.shape}")
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)
    if y.dtype not in (np.float32, np.float64):
        y = y.astype(np.float64)
    if y.shape != (x.shape[0],):
        raise DataError(f"endog must have shape ({x.shape[0]},) like exog's rows, got {y.shape}")
    w = _vector("weights", weights, y.size)
    if w is not None and bool((w < 0.0).any()):
        raise DataError(f"weights must not be negative, got {int((w < 0.0).sum())} below zero")
    if w is not None and not bool((w > 0.0).any()):
        raise DataError("all weights are zero: there is nothing to fit")
    rows = ArrayRows(x, y, w, _vector("offset", offset, y.size))
    _require_finite(rows)
    if w is not None and bool((w == 0.0).any()):
        keep = w > 0.0
        kept_offset = None if rows.offset is None else rows.offset[keep]
        rows = ArrayRows(x[keep], y[keep], w[keep], kept_offset)
    return rows


def _require_finite(rows: ArrayRows) -> None:
    """Raise a DataError that counts the NaN and infinite values of each array."""
    for name, array in (("endog", rows.endog), ("exog", rows.exog)):
        assert array is not None
        flat = array.ravel(order="K")
        if np.isfinite(flat @ np.zeros_like(flat)):  # 0 * nan and 0 * inf are nan
            continue
        bad = int(np.count_nonzero(~np.isfinite(array)))
        where = ""
        if array.ndim == 2:
            columns = np.flatnonzero(~np.isfinite(array).all(axis=0))
            where = f" in column(s) {', '.join(map(str, columns[:10]))}"
        raise DataError(f"{name} contains {bad} NaN or infinite values{where}; remove those rows first")


def _endog_scale(rows: ArrayRows) -> float:
    """Return a power of two near the size of the response when squares could leave the float range."""
    assert rows.endog is not None
    size = float(np.abs(rows.endog).max(initial=0.0))
    if rows.offset is not None:
        size = max(size, float(np.abs(rows.offset).max(initial=0.0)))
    if size == 0.0 or 1e-70 < size < 1e70:
        return 1.0
    return float(2.0 ** np.round(np.log2(size)))


def solve(
    exog: Any,
    endog: Any,
    *,
    kappa: float = 1.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    method: str = "newton",
    start: Solution | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
) -> Solution:
    """Return the maximum-likelihood fit of (beta, sigma, tau) with its duality gap.

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
        An earlier solution with the same columns to start from.
    search : bool or None
        Whether to search the whole range of tau; None does so up to 500 rows.
    names : sequence of str or None
        Names of the columns for messages.

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
    >>> from qhreg.solver import solve
    >>> y = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    >>> fit = solve(np.ones((5, 1)), y, kappa=0.0, tau=0.5, sigma=1.0)
    >>> fit.beta
    array([2.])
    """
    task = _Task(
        check_kappa(float(kappa)),
        None if tau is None else check_tau(float(tau)),
        None if sigma is None else check_sigma(float(sigma)),
        (float(tau_bounds[0]), float(tau_bounds[1])),
    )
    _check_options(task, method)
    rows = _rows(exog, endog, weights, offset)
    if rows.n_rows == 0:
        raise DataError("there are no rows with positive weight")
    scale = _endog_scale(rows)
    if scale != 1.0:
        rows = replace(rows, endog_scale=scale)
        task = replace(task, sigma=None if task.sigma is None else task.sigma / scale)
    n = rows.weight_sum
    if search is None:
        search = rows.n_rows <= SEARCH_ROWS
    basis, problem, local, searched = _fit(rows, n, task, method, start, scale, search)
    if basis.dependent.size:
        _warn_dependent(basis, names)
    return _report(basis, problem, local, task, searched, scale)


def _fit(
    rows: ArrayRows,
    n: float,
    task: _Task,
    method: str,
    start: Solution | None,
    scale: float,
    search: bool,
) -> tuple[Basis, Problem, _Local, bool]:
    """Return coordinates, problem and fit, by the route the size of the data asks for."""
    p = rows.exog.shape[1]
    if rows.n_rows * (p + 1) > SMALL_SIZE and not search:
        large = _start_from_sample(rows, n, task)
        _require_residual(rows, large.basis, task)
        first = large.start
        if start is not None:
            first = _from_solution(large.basis, start, scale, task)
            large.options.pop("curvature", None)
        first = _narrowed(large.problem, first, task)
        if method == "lbfgs":
            first = lbfgs(large.problem, *first, tau_bounds=task.free_bounds)
            large.options.pop("curvature", None)
        local = _local_fit(large.problem, *first, task, **large.options)
        return large.basis, large.problem, local, False
    data = _take(rows, slice(None))
    basis = basis_of(data.exog, data.endog)
    if not _has_residual(basis, data.endog):
        _reject_perfect_fit(rows, basis, task)
    theta = None if task.sigma is None else 1.0 / (task.sigma * basis.matrix[-1, -1])
    problem = Problem(ArrayRows(basis.design, None, data.weights), n, task.kappa, None, theta)
    first = None if start is None else _from_solution(basis, start, scale, task)
    if method == "lbfgs" and task.kappa > TINY_KAPPA:
        first = first or _starting_point(basis.design, task.kappa, theta, task.tau)
        first = lbfgs(problem, *first, tau_bounds=task.free_bounds)
    local, searched = _fit_rows(
        basis.design, data.weights, theta, task, start=first, search=search
    )
    return basis, problem, local, searched


def _from_solution(
    basis: Basis, start: Solution, scale: float, task: _Task
) -> tuple[FloatArray, float]:
    """Return an earlier solution in the coordinates of a basis."""
    p = basis.matrix.shape[0] - 1
    if start.beta.shape != (p,):
        raise DataError(f"start has {start.beta.size} coefficients, exog has {p} columns")
    sigma = start.sigma / scale if task.sigma is None else task.sigma
    raw = np.append(-start.beta / scale, 1.0) / sigma
    z = np.linalg.lstsq(basis.matrix, raw, rcond=None)[0]
    z[-1] = raw[-1] / basis.matrix[-1, -1]
    tau = task.tau if task.tau is not None else float(np.clip(start.tau, *task.tau_bounds))
    return z, tau


def _reject_perfect_fit(rows: ArrayRows, basis: Basis, task: _Task) -> None:
    """Raise a DataError: without residuals the likelihood grows without bound as sigma falls."""
    if task.sigma is not None:
        return
    r = basis.columns.size
    cause = (
        f"{rows.n_rows} rows for {r} independent columns leave no residuals"
        if rows.n_rows <= r
        else "the regressors fit endog exactly (a constant endog, or a copy of a column)"
    )
    raise DataError(f"{cause}: sigma would go to 0 and the likelihood to infinity; fix sigma to fit")


def _require_residual(rows: ArrayRows, basis: Basis, task: _Task) -> None:
    """Reject a perfect fit of all rows when the rows the basis came from have no residuals."""
    size = 0.0
    if float(np.abs(basis.design[:, -1]).max(initial=0.0)) > 1e-6:
        return
    for block in rows.blocks():
        assert block.endog is not None
        residual = block.exog @ basis.matrix[:-1, -1] + block.endog * basis.matrix[-1, -1]
        size = max(size, float(np.abs(residual / basis.matrix[-1, -1]).max()))
        if size > 1e-13 * float(np.abs(block.endog).max()):
            return
    _reject_perfect_fit(rows, basis, task)


def _warn_dependent(basis: Basis, names: Sequence[str] | None) -> None:
    columns = [names[j] if names is not None else str(j) for j in basis.dependent]
    warnings.warn(
        f"exog has rank {basis.columns.size} but {basis.matrix.shape[0] - 1} columns: column(s) "
        f"{', '.join(columns)} are linear combinations of earlier ones; the coefficients returned "
        "are the shortest ones with the same fitted values",
        RankWarning,
        stacklevel=3,
    )


def _report(
    basis: Basis, problem: Problem, local: _Local, task: _Task, searched: bool, scale: float
) -> Solution:
    """Return the solution in the units of the data, with a warning where there is reason for one."""
    fit = local.fit
    raw = basis.matrix @ fit.z
    sigma = 1.0 / float(raw[-1])
    beta = minimum_norm(basis, -raw[:-1] * sigma)
    slope = _profile_slope(fit, problem)
    at_bound = task.tau is None and fit.tau in task.tau_bounds
    outward = slope >= 0.0 if fit.tau == task.tau_bounds[0] else slope <= 0.0
    stationary = task.tau is not None or abs(slope) <= 1e-7 or (at_bound and outward)
    converged = bool(fit.gap <= GAP_TOLERANCE * problem.n and stationary)
    reason = local.reason
    if not converged:
        reason = f"duality gap {fit.gap:.3g}, profile slope in tau {slope:.3g} per row: not proved"
        warnings.warn(f"the fit did not converge: {reason}", ConvergenceWarning, stacklevel=3)
    if at_bound and converged:
        warnings.warn(
            f"tau ended on its bound {fit.tau:g}: the noise lies on one side, and the likelihood "
            "would rise further beyond the bound",
            BoundaryWarning,
            stacklevel=3,
        )
    shift = problem.n * float(np.log(scale * basis_scale(basis)))
    return Solution(
        beta * scale,
        sigma * scale,
        fit.tau,
        task.kappa,
        _profile(fit, problem) + shift,
        fit.gap,
        slope,
        converged,
        reason,
        problem.n,
        basis.columns.size,
        tuple(int(j) for j in basis.dependent),
        fit.rows_in_zone,
        local.iterations,
        local.passes,
        at_bound,
        searched,
    )


def basis_scale(basis: Basis) -> float:
    """Return the factor between theta in the coordinates of a basis and in the data's."""
    return 1.0 / float(basis.matrix[-1, -1])
