r"""The convex fit at one tau, with proof: Newton where it works, the exact method where it does not."""

from __future__ import annotations

from dataclasses import replace

from qhreg._typing import FloatArray
from qhreg.solver.exact import exact_fit
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem
from qhreg.solver.taufit import GAP_TOLERANCE, ROUNDING, TINY_KAPPA, TauFit, proved_newton
from qhreg.solver.tied import crowded

__all__ = ["GAP_TOLERANCE", "TINY_KAPPA", "TauFit", "fit_at", "proved_newton"]


WIDER = 3.0
"""How much wider the zone of a fit is that a fit without proof is started from."""

WIDE_ENOUGH = 10.0
"""Width from which no wider one is tried."""


def _newton_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    keep: bool,
    accuracy: float = GAP_TOLERANCE,
    max_passes: int,
) -> TauFit | None:
    """Return the fit by Newton's method, or None when it did not get there."""
    rough = accuracy > GAP_TOLERANCE
    point = newton(
        problem,
        start,
        tau,
        tau_bounds=None,
        tol=0.1 * accuracy * min(tau, 1.0 - tau) if rough else None,
        max_passes=max_passes,
    )
    return proved_newton(problem, point, keep=keep)


def fit_at(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
    keep: bool = False,
    warm: bool = False,
    accuracy: float = GAP_TOLERANCE,
    max_passes: int = 20,
) -> TauFit:
    """Return the convex fit at tau with its duality gap.

    Parameters
    ----------
    problem : Problem
        Any kappa >= 0.
    tau : float
        The asymmetry, fixed.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0.
    keep : bool
        Whether to keep the dual variable of every row.
    warm : bool
        Whether `start` is known to be close.
    accuracy : float
        Duality gap per unit of weight that is good enough.
    max_passes : int
        Passes that Newton's method may take before the interior-point method takes over.
    """
    n = problem.n
    attempt, passes = None, 0
    expected_in_zone = n * tau * (1.0 - tau) * problem.kappa  # by the density at its mode
    if problem.kappa > TINY_KAPPA and (
        expected_in_zone > start.size or crowded(problem, tau, start)
    ):
        attempt = _newton_fit(
            problem, tau, start, keep=keep, accuracy=accuracy, max_passes=max_passes
        )
        if attempt is not None and attempt.proved(n, accuracy):
            return attempt
        passes = max_passes
    fit = exact_fit(problem, tau, start, warm=warm, keep=keep, accuracy=accuracy)
    fit = replace(fit, passes=fit.passes + passes)
    if fit.proved(n, accuracy) and accuracy > GAP_TOLERANCE:
        return fit
    doubt = max(fit.gap, ROUNDING * abs(fit.value))  # an outlier can hide the gap
    if problem.kappa > TINY_KAPPA and doubt > 0.01 * GAP_TOLERANCE * n:
        polished = _newton_fit(problem, tau, fit.z, keep=keep, max_passes=8)
        if polished is not None and polished.gap <= fit.gap:
            fit = replace(polished, passes=fit.passes + polished.passes)
    best = attempt if attempt is not None and attempt.gap < fit.gap else fit
    if best.proved(n, accuracy) or not TINY_KAPPA < problem.kappa < WIDE_ENOUGH:
        return best
    return min(best, _from_wider(problem, tau, start, best.passes, keep), key=lambda f: f.gap)


def _from_wider(problem: Problem, tau: float, start: FloatArray, passes: int, keep: bool) -> TauFit:
    """Return the fit started from that with a wider zone, which has more rows to work with."""
    wide = fit_at(replace(problem, kappa=WIDER * problem.kappa), tau, start)
    fit = _newton_fit(problem, tau, wide.z, keep=keep, max_passes=20)
    if fit is None or not fit.proved(problem.n):
        fit = exact_fit(problem, tau, wide.z, warm=True, keep=keep)
    return replace(fit, passes=passes + wide.passes + fit.passes)
