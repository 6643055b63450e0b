r"""The convex fit at one tau, with proof: Newton where it works, the exact method where it does not."""

from __future__ import annotations

from dataclasses import replace

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA, TauFit, proved_newton
from qhreg.solver.exact import exact_fit
from qhreg.solver.newton import newton
from qhreg.solver.problem import Problem

WIDER = 3.0
"""How much wider the zone of a fit is that a fit without proof is started from."""

WIDE_ENOUGH = 10.0
"""Width from which no wider one is tried."""


def fit_at(
    problem: Problem,
    tau: float,
    start: FloatArray,
    *,
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
    warm : bool
        Whether `start` is known to be close.
    accuracy : float
        Duality gap per unit of weight that is good enough.
    max_passes : int
        Passes that Newton's method may take before the interior-point method takes over.
    """
    n = problem.n
    attempt = _newton_fit(problem, tau, start, accuracy, max_passes)
    if attempt is not None and attempt.proved(n, accuracy):
        return attempt
    fit = exact_fit(problem, tau, start, warm=warm, accuracy=accuracy)
    if fit.proved(n, accuracy) and accuracy > GAP_TOLERANCE:
        return fit
    if max(fit.gap, ROUNDING * abs(fit.value)) > 0.01 * GAP_TOLERANCE * n:  # the last digits
        polished = _newton_fit(problem, tau, fit.z, GAP_TOLERANCE, 8)
        if polished is not None and polished.gap <= fit.gap:
            fit = replace(polished, passes=fit.passes + polished.passes)
    best = attempt if attempt is not None and attempt.gap < fit.gap else fit
    if best.proved(n, accuracy) or not TINY_KAPPA < problem.kappa < WIDE_ENOUGH:
        return best
    wide = fit_at(replace(problem, kappa=WIDER * problem.kappa), tau, start)
    again = _newton_fit(problem, tau, wide.z, GAP_TOLERANCE, max_passes)
    if again is None or not again.proved(n):
        again = exact_fit(problem, tau, wide.z, warm=True)
    return min(best, again, key=lambda fit: fit.gap)


def _newton_fit(
    problem: Problem,
    tau: float,
    start: FloatArray,
    accuracy: float,
    max_passes: int,
) -> TauFit | None:
    """Return the fit by Newton's method, or None when it did not get there."""
    if problem.kappa <= TINY_KAPPA:
        return None
    rough = accuracy > GAP_TOLERANCE
    tol = 0.1 * accuracy * min(tau, 1.0 - tau) if rough else None
    point = newton(problem, start, tau, tau_bounds=None, tol=tol, max_passes=max_passes)
    return proved_newton(problem, point)
