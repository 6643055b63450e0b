r"""What is proved over all tau: that no other (beta, sigma, tau) is better, and a bound at every tau.

Convex fits at nodes give feasible dual points. Between two nodes a and b the mixture
:math:`(1-s)v_a + s v_b` is feasible at :math:`\tau = (1-s)a + sb`, and its dual value bounds the profile
there (QH-16); v = 0 is feasible at both ends of (0, 1). Three inner products for each pair of
neighbours are all that :class:`ProfileBound` needs.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.engine.rows import GivenRows, rows_of
from qhreg.family.normalizer import restricted_normalizer
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, report, start_of, task_of, value_shift
from qhreg.solver.branch_and_bound import (
    TauDual,
    branch_and_bound,
    cross_product,
    mixture_value,
    tau_dual,
)
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import local_fit, profile_value
from qhreg.solver.setup import Setup, set_up


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
    Nothing of the size of the data is kept: the inner products of dual points cost two passes for each
    fit.

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
    rows = rows_of(exog, endog, weights, offset)
    return certify_rows(
        rows, solution, sigma=sigma, tau_bounds=tau_bounds, tol=tol, max_fits=max_fits
    )


def certify_rows(
    rows: GivenRows,
    solution: Solution,
    *,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    tol: float = 1e-6,
    max_fits: int = 200,
) -> GlobalCertificate:
    """Return the certificate of a fit of rows that may lie anywhere.

    Parameters
    ----------
    rows : GivenRows
        The data.
    solution, sigma, tau_bounds, tol, max_fits
        As in :func:`certify_global`.
    """
    task = task_of(
        solution.kappa, None, sigma, tau_bounds, reml=solution.p > 0.0, rank=solution.p or None
    )
    with one_blas_thread(rows.n_rows * rows.n_columns):
        setup = set_up(rows, task)
        problem = setup.problem
        first = local_fit(problem, *start_of(setup, solution))
        bound = branch_and_bound(problem, first, tol=tol, max_fits=max_fits)
    # values of the problem in the units of the data, as minus the log-likelihood
    shift = value_shift(setup) - 0.5 * problem.rank * math.log(2.0 * math.pi)
    better = None
    if -(bound.upper + shift) > solution.loglike_restricted + tol:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = local_fit(problem, bound.best.z, bound.best.tau)
            better = report(setup, best, certified=False)
    upper_bound = -(bound.lower + shift)
    loglikes = np.array([-(profile_value(fit, problem) + shift) for fit in bound.fits])
    return GlobalCertificate(
        holds=upper_bound - solution.loglike_restricted <= tol,
        gap=max(upper_bound - solution.loglike_restricted, 0.0),
        lower_bound=max(-(bound.upper + shift), solution.loglike_restricted),
        upper_bound=upper_bound,
        tau=bound.best.tau,
        n_fits=bound.n_fits,
        tol=tol,
        tau_bounds=tau_bounds,
        nodes_tau=np.array([fit.tau for fit in bound.fits]),
        nodes_loglike=loglikes,
        nodes_bound=loglikes + [fit.gap for fit in bound.fits],
        better=better,
    )


@dataclass(frozen=True)
class ProfileBound:
    """An upper bound of the log-likelihood at every tau, whatever beta and sigma are.

    Attributes
    ----------
    nodes : ndarray, shape (m + 2,)
        0, the asymmetries of the convex fits, and 1.
    alignment, square : ndarray, shape (m + 2,)
        Inner products of each dual point with the response and with itself.
    cross : ndarray, shape (m + 1,)
        Inner products of neighbours.
    n, rank, kappa : float
        Sum of the case weights; p of the restricted likelihood; Huber width.
    theta : float or None
        1 / sigma in the units of the fits where sigma is fixed.
    shift : float
        What to add to values of the problem to have minus log-likelihoods in the units of the data.
    """

    nodes: FloatArray
    alignment: FloatArray
    square: FloatArray
    cross: FloatArray
    n: float
    rank: float
    kappa: float
    theta: float | None
    shift: float

    def __call__(self, taus: Any) -> FloatArray:
        """Return the bound at each tau in (0, 1)."""
        tau = np.asarray(taus, dtype=np.float64)
        right = np.clip(np.searchsorted(self.nodes, tau), 1, self.nodes.size - 1)
        left = right - 1
        s = (tau - self.nodes[left]) / (self.nodes[right] - self.nodes[left])
        before, after = (
            TauDual(self.nodes[i], self.alignment[i], self.square[i]) for i in (left, right)
        )
        m = self.n - self.rank
        h = mixture_value(s, before, after, self.cross[left], m, self.kappa, self.theta)
        rest = restricted_normalizer(tau, self.kappa, self.n, self.rank).value
        bound: FloatArray = -(h + rest + self.shift)
        return bound


def profile_bound(setup: Setup, start: FloatArray, nodes: Iterable[float]) -> ProfileBound:
    """Return the bound from convex fits at given asymmetries.

    Parameters
    ----------
    setup : Setup
        The problem.
    start : ndarray, shape (k,)
        Where the first fit starts.
    nodes : iterable of float
        Asymmetries in (0, 1): those of a global certificate make the bound as tight as the
        certificate.
    """
    problem, z = setup.problem, start
    duals = [TauDual(0.0, 0.0, 0.0)]
    for tau in np.unique(np.asarray(list(nodes), dtype=np.float64)):
        fit = fit_at(problem, float(tau), z, warm=True)
        duals.append(tau_dual(fit))
        z = fit.z
    duals.append(TauDual(1.0, 0.0, 0.0))
    crosses = [cross_product(a, b, problem.kappa) for a, b in itertools.pairwise(duals)]
    return ProfileBound(
        np.array([dual.tau for dual in duals]),
        np.array([dual.alignment for dual in duals]),
        np.array([dual.square for dual in duals]),
        np.array(crosses),
        problem.n,
        problem.rank,
        problem.kappa,
        problem.theta,
        value_shift(setup) - 0.5 * problem.rank * math.log(2.0 * math.pi),
    )
