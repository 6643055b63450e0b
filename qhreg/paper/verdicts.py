"""What the paper says beside what a run gives, with a verdict that the numbers decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.datasets import TITLES, ConstantError
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import PENALTY_MINIMA, TABLE_1
from qhreg.paper.recovery import (
    LEAST_SQUARES,
    OURS,
    PAPERS,
    RecoveryTable,
    expected_least_squares,
)

__all__ = [
    "Comparison",
    "constant_verdicts",
    "curvature_verdicts",
    "figure_1_verdicts",
    "least_squares_verdicts",
    "mse_verdicts",
    "paper_mse_verdicts",
    "penalty_verdicts",
    "pooled_verdicts",
    "tau_curve_verdicts",
    "tau_verdicts",
]

TAU_TOLERANCE = 0.015
LEAST_SQUARES_TOLERANCE = 0.15
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Comparison:
    """One claim of the paper against one number of ours.

    Attributes
    ----------
    claim : str
        What is compared.
    paper, here : str
        The paper's figure and ours, formatted.
    holds : bool
        Whether they agree as asked.
    """

    claim: str
    paper: str
    here: str
    holds: bool


def figure_1_verdicts(curves: LossCurves) -> tuple[Comparison, ...]:
    """Return whether the drawn curve is the text's loss, at the width it names and at its double."""
    double = float(np.abs(curves.drawn - curves.huber).max())
    same = float(np.abs(curves.drawn - curves.text).max())
    half = 0.5 * curves.kappa
    return (
        Comparison(
            f"the curve drawn is the loss of the text at kappa = {half:g}",
            "the k in its plotting code",
            f"off by up to {same:.3f}",
            same < 1e-12,
        ),
        Comparison(
            f"the curve drawn is the loss of the text at kappa = {curves.kappa:g}",
            "twice that k",
            f"largest difference {double:.0e}",
            double < 1e-12,
        ),
    )


def tau_curve_verdicts(curves: Sequence[TauCurve]) -> tuple[Comparison, ...]:
    """Return whether the loss is concave and the normalised loss convex, and how the minimum moves."""
    bends = [np.diff(curve.loss, 2).max() for curve in curves]
    sums = [np.diff(curve.normalised, 2).min() for curve in curves]
    ends = [curve.best_loss for curve in curves]
    best = [curve.best for curve in curves]
    at_an_end = all(
        end in (curve.taus[0], curve.taus[-1]) for end, curve in zip(ends, curves, strict=True)
    )
    return (
        Comparison(
            "the loss without normaliser is concave in tau",
            "concave",
            f"largest second difference {max(bends):.1e}",
            bool(max(bends) <= 1e-12),
        ),
        Comparison(
            "it is least at an end of the range of tau",
            "always 0 or 1",
            "least at an end for every share" if at_an_end else "least inside for some share",
            at_an_end,
        ),
        Comparison(
            "the normalised loss is convex in tau",
            "convex",
            f"smallest second difference {min(sums):.1e}",
            bool(min(sums) > 0.0),
        ),
        Comparison(
            "its minimiser rises with the share of positive residuals",
            "shifts smoothly across (0, 1)",
            ", ".join(f"{tau:.2f}" for tau in best),
            bool(np.all(np.diff(best) > 0.0)),
        ),
    )


def curvature_verdicts(curve: CurvatureCurve) -> tuple[Comparison, ...]:
    """Return the ends of the paper's range of kappa and where convexity ends."""
    at = [float(np.interp(kappa, curve.kappas, curve.margins)) for kappa in (0.0, 1.0)]
    inside = curve.kappas < curve.kappa_star
    exact = bool(np.all(curve.proved == inside))
    return (
        Comparison("least curvature at kappa = 0", "8", f"{at[0]:.4f}", abs(at[0] - 8.0) < 0.05),
        Comparison("least curvature at kappa = 1", "6", f"{at[1]:.4f}", abs(at[1] - 6.0) < 0.1),
        Comparison(
            "largest kappa with convexity in tau",
            "not given (1 is the largest tried)",
            f"{curve.kappa_star:.6f}",
            exact,
        ),
    )


def least_squares_verdicts(table: RecoveryTable) -> tuple[Comparison, ...]:
    """Return the least-squares column: its expected value within 15 % of the paper's."""
    expected = expected_least_squares()
    made = []
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cell = row.cells[LEAST_SQUARES]
        made.append(
            Comparison(
                f"{entry.positive} % positive",
                f"{entry.least_squares:.3f}",
                f"{expected:.3f} expected, {cell.mse:.3f} ± {cell.mse_se:.3f} in this run",
                abs(expected / entry.least_squares - 1.0) <= LEAST_SQUARES_TOLERANCE,
            )
        )
    return tuple(made)


def tau_verdicts(table: RecoveryTable, method: str = PAPERS[1].name) -> tuple[Comparison, ...]:
    """Return the tau column of the paper's model: within 0.015 of the paper's."""
    made = []
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cell = row.cells[method]
        made.append(
            Comparison(
                f"{entry.positive} % positive",
                f"{entry.tau:.3f}",
                f"{cell.tau:.3f} ± {cell.tau_se:.3f}",
                abs(cell.tau - entry.tau) <= TAU_TOLERANCE,
            )
        )
    return tuple(made)


def _both_errors(own: float, like_the_papers: float) -> float:
    """Return the standard error of a difference of which the paper's part is as ours would be."""
    return math.hypot(own, like_the_papers)


def paper_mse_verdicts(
    table: RecoveryTable, method: str = PAPERS[1].name
) -> tuple[Comparison, ...]:
    """Return the error column of the paper's model: within two standard errors of the paper's."""
    made = []
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cell = row.cells[method]
        error = _both_errors(cell.mse_se, cell.mse_se)
        made.append(
            Comparison(
                f"{entry.positive} % positive",
                f"{entry.proposed:.3f}",
                f"{cell.mse:.3f} ± {cell.mse_se:.3f}",
                abs(cell.mse - entry.proposed) <= STANDARD_ERRORS * error,
            )
        )
    return tuple(made)


def mse_verdicts(table: RecoveryTable, method: str = OURS[1].name) -> tuple[Comparison, ...]:
    """Return whether an error is at or below the paper's, within two standard errors.

    The paper gives no standard error. It made the same number of draws, so that its error is taken
    to be as large as that of its model here.
    """
    made = []
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cell = row.cells[method]
        error = _both_errors(cell.mse_se, row.cells[PAPERS[1].name].mse_se)
        z = (cell.mse - entry.proposed) / error
        made.append(
            Comparison(
                f"{entry.positive} % positive",
                f"{entry.proposed:.3f}",
                f"{cell.mse:.3f} ± {cell.mse_se:.3f} (z {z:+.1f})",
                z <= STANDARD_ERRORS,
            )
        )
    return tuple(made)


def pooled_verdicts(table: RecoveryTable, method: str) -> tuple[Comparison, ...]:
    """Return the error of a method against the paper's, rows that mirror each other pooled.

    Changing the sign of the response turns p % positive noise into 100 - p %: the two rows
    estimate the same number. Agreement is within two standard errors of the difference.
    """
    made = []
    for i in range(len(TABLE_1) // 2):
        entries, rows = (TABLE_1[i], TABLE_1[-1 - i]), (table.rows[i], table.rows[-1 - i])
        printed = 0.5 * sum(entry.proposed for entry in entries)
        errors = np.concatenate([row.cells[method].errors for row in rows])
        papers = np.concatenate([row.cells[PAPERS[1].name].errors for row in rows])
        own, like = (float(x.std(ddof=1) / np.sqrt(x.size)) for x in (errors, papers))
        z = (float(errors.mean()) - printed) / _both_errors(own, like)
        made.append(
            Comparison(
                f"{entries[0].positive} and {entries[1].positive} % positive",
                f"{printed:.3f}",
                f"{errors.mean():.3f} ± {own:.3f} (z {z:+.1f})",
                abs(z) <= STANDARD_ERRORS if method.startswith("paper") else z <= STANDARD_ERRORS,
            )
        )
    return tuple(made)


def penalty_verdicts(
    curves: Sequence[PenaltyCurve], table: RecoveryTable
) -> tuple[Comparison, ...]:
    """Return where the penalty is least, beside the paper's value and the joint fit's tau."""
    made = []
    for curve, row in zip(curves, table.rows, strict=True):
        joint = row.cells[PAPERS[0].name].tau
        printed = PENALTY_MINIMA[curve.positive]
        agrees = abs(curve.minimum - printed) <= TAU_TOLERANCE
        made.append(
            Comparison(
                f"{curve.positive} % positive",
                f"{printed:.2f}",
                f"{curve.minimum:.3f} (joint fit {joint:.3f})",
                agrees and abs(curve.minimum - joint) <= TAU_TOLERANCE,
            )
        )
    return tuple(made)


def constant_verdicts(errors: Sequence[ConstantError]) -> tuple[Comparison, ...]:
    """Return whether the error printed without noise is below that of a constant."""
    return tuple(
        Comparison(
            TITLES[error.dataset],
            f"boosting {error.printed:g}",
            f"a constant {error.constant:.4f}",
            error.printed < error.constant,
        )
        for error in errors
    )
