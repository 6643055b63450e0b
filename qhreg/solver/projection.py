r"""Variable projection: the best tau for given residuals, and L-BFGS on the projected likelihood.

For fixed residuals the objective in tau is :math:`n\log c(\tau) + \sum_i w_i\rho_\tau(u_i)`: one scalar
problem, convex under the biconvexity certificate. The gradient of the projected function is the
partial gradient at that tau.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from qhreg._typing import FloatArray
from qhreg.family.loss import zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver.problem import Problem

__all__ = ["best_tau", "lbfgs"]


def best_tau(
    u: FloatArray,
    kappa: float,
    *,
    weights: FloatArray | None = None,
    tau_bounds: tuple[float, float],
    start: float = 0.5,
    tol: float = 1e-12,
) -> float:
    r"""Return the tau that minimises the mean normalised loss of given standardised residuals.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    kappa : float
        Huber width, >= 0.
    weights : ndarray, shape (n,), or None
        Case weights.
    tau_bounds : (float, float)
        Where to look.
    start : float
        Where to begin.
    tol : float
        Change of tau at which to stop.

    Notes
    -----
    Newton's method on the derivative :math:`(\log c)' - \bar e` within a shrinking bracket. Where
    the certificate does not hold the derivative may have several roots, and one of them is returned.
    """
    n = float(u.size if weights is None else weights.sum())
    lo, hi = tau_bounds
    tau = min(max(start, lo), hi)
    for _ in range(100):
        beyond = u - zone_part(u, tau, kappa)
        outside = beyond != 0.0
        if weights is None:
            excess, share = float(beyond.sum()) / n, float(np.count_nonzero(outside)) / n
        else:
            excess, share = float(beyond @ weights) / n, float(outside @ weights) / n
        c = log_normalizer_derivatives(tau, kappa)
        slope, curvature = c.d_tau - excess, c.d2_tau - kappa * share
        if slope > 0.0:
            hi = tau
        else:
            lo = tau
        proposal = tau - slope / curvature if curvature > 0.0 else -1.0
        if not lo < proposal < hi:
            at_edge = tau_bounds[0] if slope > 0.0 else tau_bounds[1]
            proposal = 0.5 * (lo + hi) if at_edge not in (lo, hi) or tau == at_edge else at_edge
        if abs(proposal - tau) <= tol or lo == hi:
            return proposal
        tau = proposal
    return tau


def lbfgs(
    problem: Problem,
    z: FloatArray,
    tau: float,
    *,
    tau_bounds: tuple[float, float] | None,
    tol: float = 1e-6,
    max_iterations: int = 500,
) -> tuple[FloatArray, float]:
    """Return a nearly stationary (z, tau) by L-BFGS on the projected likelihood.

    Parameters
    ----------
    problem : Problem
        With kappa > 0.
    z, tau : ndarray of shape (k,), float
        Starting point.
    tau_bounds : (float, float) or None
        None keeps tau fixed.
    tol : float
        Largest component of the gradient per unit of weight at which to stop.
    """
    weights = problem.weights()
    best = tau

    def project(x: FloatArray) -> float:
        nonlocal best
        if tau_bounds is not None:
            u = problem.residuals(x)
            best = best_tau(u, problem.kappa, weights=weights, tau_bounds=tau_bounds, start=best)
        return best

    def value_and_gradient(x: FloatArray) -> tuple[float, FloatArray]:
        here = problem.evaluate(x, project(x), hessian=False)
        return here.value / problem.n, here.d_z / problem.n

    theta = float(z[-1])
    theta_bounds = (1e-8 * theta, None) if problem.theta is None else (theta, theta)
    found = minimize(
        value_and_gradient,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * (z.size - 1) + [theta_bounds],
        options={"maxiter": max_iterations, "gtol": tol, "ftol": 1e-15, "maxcor": 20},
    )
    return found.x, project(found.x)
