r"""The fit of beta, sigma and tau, with proof of what it found.

:mod:`qhreg.solver.joint` is the door. From the inside out:

- the problem: ``inputs``, ``basis``, ``leastsquares``, ``preparation``, ``problem``;
- one tau: ``newton``, ``interior``, ``vertex``, ``tied``, ``exact``, ``convex``, with the bound of
  ``dual`` and the outcome of ``taufit``;
- over tau: ``projection``, ``tauscan``, ``taubound``, ``local``, ``doubt``;
- over kappa: ``kappalocal``, ``kappafit``.
"""

from __future__ import annotations

from qhreg.solver.joint import (
    DEFAULT_TAU_BOUNDS,
    Solution,
    attained,
    in_coordinates,
    report,
    solve,
    solve_rows,
    start_of,
    task_of,
    value_shift,
)

__all__ = [
    "DEFAULT_TAU_BOUNDS",
    "Solution",
    "attained",
    "in_coordinates",
    "report",
    "solve",
    "solve_rows",
    "start_of",
    "task_of",
    "value_shift",
]
