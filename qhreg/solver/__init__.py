r"""The fit of beta, sigma and tau, with proof of what it found.

:mod:`qhreg.solver.joint` is the door. From the inside out:

- the problem: ``problem``, ``setup``;
- one tau: ``newton``, ``interior``, ``exact``, ``fixed_tau``, with the bound of ``dual``;
- over tau: ``over_tau`` (scan, then Newton) and ``branch_and_bound`` (proof);
- over kappa: ``over_kappa``.
"""

from __future__ import annotations

from qhreg.solver.joint import (
    DEFAULT_TAU_BOUNDS,
    Solution,
    attained,
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
    "report",
    "solve",
    "solve_rows",
    "start_of",
    "task_of",
    "value_shift",
]
