"""Slow, independent answers for the tests: a linear programme, a conic programme, a tau scan.

Nothing here imports the package. Each solver states the problem in the words of somebody else's
software (HiGHS through scipy, Clarabel through cvxpy) and then tightens the answer with linear
algebra on the rows that the solution interpolates or holds in the quadratic zone. The tightened
point replaces the solver's only when its duality gap, which needs no trust in either, is smaller.
Columns are orthonormalised, least squares subtracted and y brought to unit size first: beta and
sigma are equivariant, and interior-point solvers are not.

Values leave out the normaliser ``n log c(tau)`` unless the name says ``joint``.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, special

FloatArray = npt.NDArray[np.float64]

_TAUS = tuple(np.linspace(0.02, 0.98, 25))


@dataclass(frozen=True)
class ReferenceFit:
    """A minimiser with its value and a rigorous bound on how far the value is from the minimum."""

    beta: FloatArray
    sigma: float
    tau: float
    value: float
    gap: float


def loss(u: FloatArray, tau: float, kappa: float) -> FloatArray:
    """Return the quantile Huber loss of each residual, written by cases."""
    low, high = -kappa * tau, kappa * (1.0 - tau)
    left = -tau * u - 0.5 * kappa * tau**2
    right = (1.0 - tau) * u - 0.5 * kappa * (1.0 - tau) ** 2
    inside = 0.5 * u**2 / kappa if kappa > 0.0 else np.zeros_like(u)
    return np.where(u < low, left, np.where(u > high, right, inside))


def log_c(tau: float, kappa: float) -> float:
    """Return the log of the integral of exp(-loss), from its three pieces."""
    root = np.sqrt(kappa)
    tails = np.exp(-0.5 * kappa * tau**2) / tau + np.exp(-0.5 * kappa * (1 - tau) ** 2) / (1 - tau)
    middle = (
        np.sqrt(2 * np.pi) * root * (special.ndtr((1 - tau) * root) - special.ndtr(-tau * root))
    )
    return float(np.log(tails + middle))


def d_log_c(tau: float, kappa: float) -> float:
    """Return the derivative of log c in tau."""
    slope = np.exp(-0.5 * kappa * (1 - tau) ** 2) / (1 - tau) ** 2
    slope -= np.exp(-0.5 * kappa * tau**2) / tau**2
    return float(slope / np.exp(log_c(tau, kappa)))


def highs_quantile(X: FloatArray, y: FloatArray, tau: float) -> tuple[FloatArray, float]:
    """Return a minimiser of sum rho(y - X b) at kappa = 0, sigma = 1, and the minimum.

    The linear programme: minimise (1 - tau) 1't + tau 1's over X b + t - s = y, s >= 0, t >= 0.
    """
    n, p = X.shape
    std = _standardise(X, y)
    result = optimize.linprog(
        np.concatenate([np.zeros(p), np.full(n, 1.0 - tau), np.full(n, tau)]),
        A_eq=np.hstack([std.X, np.eye(n), -np.eye(n)]),
        b_eq=std.y,
        bounds=[(None, None)] * p + [(0.0, None)] * (2 * n),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise RuntimeError(result.message)
    points = [result.x[:p], _interpolate(std.X, std.y, result.x[:p])]
    values = [float(loss(std.y - std.X @ b, tau, 0.0).sum()) for b in points]
    best = int(np.argmin(values))
    return std.beta(points[best]), values[best] * std.unit


def conic_fit(
    X: FloatArray, y: FloatArray, tau: float, kappa: float, sigma: float | None = None
) -> ReferenceFit:
    """Return the minimiser of sum rho(theta y - X b) - n log theta with beta = b / theta.

    A given sigma fixes theta = 1 / sigma. The columns of X must be independent.

    Notes
    -----
    ``gap`` is value minus the dual value of a feasible v (X'v = 0, -tau <= v <= 1 - tau), so that
    the true minimum lies in [value - gap, value].
    """
    std = _standardise(X, y)
    problem = _Problem(std.X, std.y, tau, kappa, None if sigma is None else sigma / std.unit)
    b, theta, gap = _tighten(problem, *_clarabel(problem))
    for _ in range(5):
        if gap <= 1e-11 * max(1.0, abs(problem.value(b, theta))):
            break
        # Without the exponential cone Clarabel is sharper: it sorts the rows with theta held.
        held = replace(problem, sigma=1.0 / theta)
        candidate = _tighten(problem, *_clarabel(held))
        b, theta, gap = min((b, theta, gap), candidate, key=lambda point: point[2])
    return ReferenceFit(
        beta=std.beta(b / theta),
        sigma=std.unit / theta if sigma is None else sigma,
        tau=tau,
        value=problem.value(b, theta) + len(y) * float(np.log(std.unit)),
        gap=gap,
    )


def brute_joint(
    X: FloatArray,
    y: FloatArray,
    kappa: float,
    sigma: float | None = None,
    taus: Sequence[float] | FloatArray = _TAUS,
) -> ReferenceFit:
    """Return the best point over beta, tau in [taus[0], taus[-1]] and, when None is given, sigma.

    ``value`` is the negative log-likelihood, normaliser included: phi(tau) = n log c(tau) + h(tau).
    Its derivative phi' = n (log c)' - sum e needs no derivative of the minimiser. Every change of
    phi' from negative to positive between neighbours of the grid holds a local minimum, found with
    Brent's method; ``gap`` is that of the convex fit there. Only a minimum whose whole basin lies
    between two neighbours of the grid can be missed.
    """
    n = len(y)

    def fit_at(tau: float) -> ReferenceFit:
        fit = conic_fit(X, y, tau, kappa, sigma)
        return replace(fit, value=fit.value + n * log_c(tau, kappa))

    def slope_at(tau: float) -> float:
        fit = conic_fit(X, y, tau, kappa, sigma)
        u = (y - X @ fit.beta) / fit.sigma
        excess = u - np.clip(u, -kappa * tau, kappa * (1.0 - tau))
        return n * d_log_c(tau, kappa) - float(excess.sum())

    slopes = [slope_at(tau) for tau in taus]
    candidates = [float(taus[0]), float(taus[-1])]
    for i in range(len(taus) - 1):
        if slopes[i] < 0.0 <= slopes[i + 1]:
            candidates.append(optimize.brentq(slope_at, taus[i], taus[i + 1], xtol=1e-12))
    return min((fit_at(tau) for tau in candidates), key=lambda fit: fit.value)


def enumerate_laplace(X: FloatArray, y: FloatArray) -> ReferenceFit:
    """Return the global maximum likelihood point at kappa = 0 over beta, sigma and tau in [0, 1].

    With A and B the means of the positive and the negative parts of the residuals, the best tau is
    sqrt(A) / (sqrt(A) + sqrt(B)), the best sigma sqrt(A B), and the negative log-likelihood there
    n + 2 n log(sqrt(A) + sqrt(B)). For every tau some p interpolated rows are optimal, so that
    all subsets of p rows are tried. ``value`` is the negative log-likelihood, ``gap`` zero.
    """
    n, p = X.shape
    best_sum, best_point = np.inf, (np.full(p, np.nan), np.nan, np.nan)
    for subset in itertools.combinations(range(n), p):
        rows = list(subset)
        if np.linalg.cond(X[rows]) > 1e12:
            continue
        beta = linalg.solve(X[rows], y[rows])
        r = y - X @ beta
        r[rows] = 0.0
        root_a, root_b = np.sqrt(np.maximum(r, 0.0).mean()), np.sqrt(np.maximum(-r, 0.0).mean())
        if root_a + root_b < best_sum:
            best_sum = root_a + root_b
            best_point = (beta, root_a * root_b, root_a / best_sum)
    beta, sigma, tau = best_point
    return ReferenceFit(beta, float(sigma), float(tau), float(n + 2 * n * np.log(best_sum)), 0.0)


@dataclass(frozen=True)
class _Standardised:
    """X = Q R and y = X least_squares + unit * (the y held here), with X here sqrt(n) Q."""

    X: FloatArray
    y: FloatArray
    triangle: FloatArray
    least_squares: FloatArray
    unit: float

    def beta(self, coef: FloatArray) -> FloatArray:
        """Return the coefficients in the given units."""
        return self.least_squares + self.unit * linalg.solve_triangular(self.triangle, coef)


def _standardise(X: FloatArray, y: FloatArray) -> _Standardised:
    root_n = np.sqrt(len(y))
    q, r = linalg.qr(X, mode="economic")
    least_squares = linalg.solve_triangular(r, q.T @ y)
    residual = y - X @ least_squares
    unit = float(np.abs(residual).mean())
    if unit <= 1e-12 * np.abs(y).max():
        raise ValueError("least squares fits y exactly: the problem has no finite sigma")
    return _Standardised(q * root_n, residual / unit, r / root_n, least_squares, unit)


@dataclass(frozen=True)
class _Problem:
    """Minimise sum rho(theta y - X b) - n log theta; sigma fixes theta = 1 / sigma."""

    X: FloatArray
    y: FloatArray
    tau: float
    kappa: float
    sigma: float | None

    def value(self, b: FloatArray, theta: float) -> float:
        """Return the objective."""
        u = theta * self.y - self.X @ b
        return float(loss(u, self.tau, self.kappa).sum() - len(u) * np.log(theta))

    def pieces(self, b: FloatArray, theta: float) -> npt.NDArray[np.int_]:
        """Return where each residual lies: 0 left of the zone, 1 in it, 2 right of it."""
        u = theta * self.y - self.X @ b
        return _pieces(u, self.kappa * np.array([-self.tau, 1.0 - self.tau]))

    def bound(self, v: FloatArray) -> float:
        """Return the dual objective at a feasible v, a lower bound on every value."""
        n = len(v)
        fit = v @ self.y
        if self.sigma is not None:
            fit = fit / self.sigma + n * np.log(self.sigma)
        else:
            fit = n + n * np.log(fit / n) if fit > 0.0 else -np.inf
        return float(fit - 0.5 * self.kappa * v @ v)


def _clarabel(problem: _Problem) -> tuple[FloatArray, float, FloatArray]:
    """Return b, theta and the multipliers of the rows.

    Clarabel sees rho as a minimum: rho(u) = min q^2 / (2 kappa) + (1 - tau) t + tau s over
    q + t - s = u, s >= 0, t >= 0, with q = 0 when kappa = 0.
    """
    n, p = problem.X.shape
    tau, kappa = problem.tau, problem.kappa
    # Residuals are of size 1 / sigma or sqrt(kappa): everything is held in that unit.
    unit = np.sqrt(1.0 + kappa)
    theta = cp.Variable() if problem.sigma is None else cp.Constant(1 / problem.sigma / unit)
    b = cp.Variable(p)
    s, t = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
    zone = cp.Variable(n) if kappa > 0.0 else cp.Constant(np.zeros(n))
    objective = unit * ((1.0 - tau) * cp.sum(t) + tau * cp.sum(s)) / n - cp.log(theta)
    if kappa > 0.0:
        objective += unit**2 / (2.0 * kappa * n) * cp.sum_squares(zone)
    rows = zone + t - s == theta * problem.y - problem.X @ b
    with warnings.catch_warnings():
        # The exponential cone stalls at tolerances that depend on the data: take what it gives,
        # the gap of the fit says what was reached.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        program = cp.Problem(cp.Minimize(objective), [rows])
        for tolerance, equilibrate in itertools.product((1e-9, 1e-7, 1e-5), (True, False)):
            settings = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
            with contextlib.suppress(cp.SolverError):
                program.solve(solver=cp.CLARABEL, equilibrate_enable=equilibrate, **settings)
                break
    if b.value is None:
        raise RuntimeError(f"Clarabel found no solution: {program.status}")
    return unit * b.value, unit * float(theta.value), -n / unit * rows.dual_value


def _tighten(
    problem: _Problem, b: FloatArray, theta: float, v: FloatArray
) -> tuple[FloatArray, float, float]:
    """Return the best of the polished and the given points, with its duality gap.

    Gaps at rounding level are ties, and a tie goes to the polished point: values say nothing of
    a point below the square root of their own precision.
    """
    dual = _feasible(problem, v)
    points = [*_polish(problem, b, theta, dual), (b, theta)]
    gaps = [problem.value(*point) - _best_bound(problem, *point, dual) for point in points]
    rounding = 1e-13 * (len(v) + abs(problem.value(b, theta)))
    best = int(np.argmin(np.maximum(gaps, rounding)))
    return *points[best], gaps[best]


def _best_bound(problem: _Problem, b: FloatArray, theta: float, dual: FloatArray) -> float:
    """Return the larger of two lower bounds: the given dual's and that of the slopes at (b, theta).

    The slopes not pinned to an end of the box are moved least so that X'v = 0. At kappa = 0 an
    interpolated row has any slope in the box; the given dual says where to begin.
    """
    tau, kappa = problem.tau, problem.kappa
    u = theta * problem.y - problem.X @ b
    if kappa > 0.0:
        v = np.clip(u / kappa, -tau, 1.0 - tau)
        free = (-tau < v) & (v < 1.0 - tau)
    else:
        free = np.abs(u) <= 1e-9 * np.abs(u).max()
        v = np.where(free, dual, np.where(u < 0.0, -tau, 1.0 - tau))
    if free.any():
        v[free] -= linalg.lstsq(problem.X[free].T, problem.X.T @ v)[0]
    return max(problem.bound(dual), problem.bound(_feasible(problem, v)))


def _feasible(problem: _Problem, v: FloatArray) -> FloatArray:
    """Return v projected on the null space of X' and shrunk into the box [-tau, 1 - tau]."""
    for _ in range(2):
        v = v - problem.X @ (problem.X.T @ v) / len(v)
    return v / max(1.0, v.max() / (1.0 - problem.tau), -v.min() / problem.tau)


def _polish(
    problem: _Problem, b: FloatArray, theta: float, dual: FloatArray
) -> list[tuple[FloatArray, float]]:
    """Return tightened points: the nearby vertex at kappa = 0, limits of Newton steps otherwise.

    Newton's method needs to know which rows end in the zone. The residuals tell, except when a row
    sits at an edge of a zone that holds few others; there the multipliers tell.
    """
    if problem.kappa == 0.0:
        vertex = _interpolate(problem.X, problem.y, b / theta)
        mean_loss = float(loss(problem.y - problem.X @ vertex, problem.tau, 0.0).mean())
        theta = 1.0 / mean_loss if problem.sigma is None else theta
        return [(vertex * theta, theta)]
    by_residual = _newton(problem, b, theta, problem.pieces(b, theta))
    within = np.array([-problem.tau + 1e-5, 1.0 - problem.tau - 1e-5])
    by_dual = _newton(problem, b, theta, _pieces(dual, within))
    again = [_newton(problem, *point, problem.pieces(*point)) for point in (by_residual, by_dual)]
    return [*again, by_residual, by_dual]


def _pieces(v: FloatArray, ends: FloatArray) -> npt.NDArray[np.int_]:
    """Return 0 for rows below the first end, 2 for rows above the second, 1 between."""
    return np.searchsorted(ends, v)


def _interpolate(X: FloatArray, y: FloatArray, beta: FloatArray) -> FloatArray:
    """Return the coefficients that fit exactly the independent rows with the smallest residuals."""
    weight = 1.0 / (np.abs(y - X @ beta) + 1e-13)
    rows = linalg.qr((X * weight[:, None]).T, mode="r", pivoting=True)[1][: X.shape[1]]
    return linalg.solve(X[rows], y[rows])


def _newton(
    problem: _Problem, b: FloatArray, theta: float, pieces: npt.NDArray[np.int_]
) -> tuple[FloatArray, float]:
    """Return the limit of Newton steps in (b, theta) with every row held in the given piece.

    The loss is linear, quadratic, linear on the three pieces, so that with theta fixed one step
    arrives; with theta free the logarithm asks for more.
    """
    n, p = problem.X.shape
    rows = np.column_stack([-problem.X, problem.y])
    inside = pieces == 1
    hessian_of_loss = rows[inside].T @ rows[inside] / problem.kappa
    z = np.append(b, theta)
    moving = p + 1 if problem.sigma is None else p
    for _ in range(10):
        v = np.where(inside, rows @ z / problem.kappa, pieces / 2 - problem.tau)
        gradient, hessian = rows.T @ v, hessian_of_loss.copy()
        gradient[p] -= n / z[p]
        hessian[p, p] += n / z[p] ** 2
        z[:moving] -= linalg.lstsq(hessian[:moving, :moving], gradient[:moving])[0]
        if z[p] <= 0.0:
            return b, theta
    return z[:p], float(z[p])
