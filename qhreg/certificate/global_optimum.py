"""The certificate of global optimality: no other (beta, sigma, tau) has a higher likelihood."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, report, start_of, task_of, value_shift
from qhreg.solver.branch_and_bound import branch_and_bound
from qhreg.solver.inputs import rows_of
from qhreg.solver.over_tau import local_fit
from qhreg.solver.setup import Setup, set_up
from qhreg.solver.threads import one_blas_thread

__all__ = ["GlobalCertificate", "certify_global"]


@dataclass(frozen=True)
class GlobalCertificate:
    """Rigorous bounds on the highest log-likelihood over (beta, sigma, tau).

    Attributes
    ----------
    holds : bool
        Whether the fitted point is within `tol` of the global maximum.
    gap : float
        ``upper_bound`` minus the log-likelihood of the fitted point.
    lower_bound : float
        The highest log-likelihood found.
    upper_bound : float
        No parameters in the bounds have a higher log-likelihood (up to the rounding of sums).
    tau : float
        tau of the best point found.
    n_fits : int
        Number of convex fits made.
    tol : float
        The tolerance asked for.
    tau_bounds : (float, float)
        The range of tau that was searched.
    nodes_tau, nodes_loglike, nodes_bound : ndarray
        Where convex fits were made, the profile log-likelihood there, and its certified upper bound.
    better : Solution or None
        A point with a higher likelihood than the fitted one by more than `tol`, where there is one.
    """

    holds: bool
    gap: float
    lower_bound: float
    upper_bound: float
    tau: float
    n_fits: int
    tol: float
    tau_bounds: tuple[float, float]
    nodes_tau: FloatArray
    nodes_loglike: FloatArray
    nodes_bound: FloatArray
    better: Solution | None

    def __str__(self) -> str:
        lo, hi = self.tau_bounds
        where = f"tau in [{lo:g}, {hi:g}]"
        work = f"{self.n_fits} convex fits"
        if self.holds:
            return (
                f"Global maximum proved: no (beta, sigma) and {where} has a log-likelihood more than "
                f"{self.gap:.1e} above this fit ({work})."
            )
        if self.better is not None:
            gain = self.better.loglike_restricted - (self.upper_bound - self.gap)
            return (
                f"NOT the global maximum: tau = {self.better.tau:.4f} has a log-likelihood {gain:.6g} "
                f"higher ({work})."
            )
        return (
            f"Not decided: the log-likelihood cannot be more than {self.gap:.1e} above this fit over "
            f"{where}, but the tolerance is {self.tol:.0e} ({work})."
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.holds else "#9a6700"
        return (
            f'<div style="border-left: 4px solid {colour}; padding-left: 0.8em">{self}<br>'
            f"log-likelihood found {self.lower_bound:.8g}, upper bound {self.upper_bound:.8g}</div>"
        )


def certify_global(
    exog: Any,
    endog: Any,
    solution: Solution,
    *,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    tol: float = 1e-6,
    max_fits: int = 200,
) -> GlobalCertificate:
    """Return a certificate for a joint fit, or the better point it missed.

    Parameters
    ----------
    exog, endog, weights, offset, sigma, tau_bounds
        As given to :func:`qhreg.solver.solve`; tau is the estimated parameter here.
    solution : Solution
        The fit to certify.
    tol : float
        Gap in log-likelihood at which the certificate holds.
    max_fits : int
        Convex fits after which to stop with the gap reached.

    Notes
    -----
    Keeps one number per row for each fit made: about 8 n bytes times `n_fits`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.certificate.global_optimum import certify_global
    >>> from qhreg.solver import solve
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.ones((200, 1)), rng.laplace(size=200)
    >>> certify_global(X, y, solve(X, y)).holds
    True
    """
    task = task_of(
        solution.kappa, None, sigma, tau_bounds, reml=solution.p > 0.0, rank=solution.p or None
    )
    rows = rows_of(exog, endog, weights, offset)
    with one_blas_thread(rows.exog.size):
        return _certificate(set_up(rows, task), solution, tau_bounds, tol, max_fits)


def _certificate(
    setup: Setup,
    solution: Solution,
    tau_bounds: tuple[float, float],
    tol: float,
    max_fits: int,
) -> GlobalCertificate:
    """Return the certificate of a solution of a problem that is set up."""
    problem, task = setup.problem, setup.task
    z, tau = start_of(setup.basis, solution, setup.scale, task)
    first = local_fit(problem, z, tau, task)
    found = branch_and_bound(problem, first.fit, task, tol=tol, max_fits=max_fits)
    # values of the problem in the units of the data, as minus the log-likelihood
    shift = value_shift(setup) - 0.5 * problem.rank * math.log(2.0 * math.pi)
    better = None
    if -(found.upper + shift) > solution.loglike_restricted + tol:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = local_fit(problem, found.best.z, found.best.tau, task)
            better = report(setup, best, certified=False)
    upper_bound = -(found.lower + shift)
    return GlobalCertificate(
        holds=upper_bound - solution.loglike_restricted <= tol,
        gap=max(upper_bound - solution.loglike_restricted, 0.0),
        lower_bound=max(-(found.upper + shift), solution.loglike_restricted),
        upper_bound=upper_bound,
        tau=found.best.tau,
        n_fits=found.n_fits,
        tol=tol,
        tau_bounds=tau_bounds,
        nodes_tau=np.array([node.tau for node in found.nodes]),
        nodes_loglike=np.array([-(node.value + shift) for node in found.nodes]),
        nodes_bound=np.array([-(node.bound + shift) for node in found.nodes]),
        better=better,
    )
