"""What the paper says beside what a run gives, with a verdict that the numbers decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qhreg._typing import FloatArray
from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.datasets import TITLES, ConstantError
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import DRAWS, PENALTY_MINIMA, TABLE_1
from qhreg.paper.recovery import (
    LEAST_SQUARES,
    OURS,
    PAPERS,
    RecoveryRow,
    RecoveryTable,
)

__all__ = [
    "Comparison",
    "best_in_row",
    "best_verdicts",
    "constant_verdicts",
    "curvature_verdicts",
    "figure_1_verdicts",
    "joint_verdicts",
    "least_squares_verdicts",
    "mse_verdicts",
    "paper_mse_verdicts",
    "papers_error",
    "penalty_verdicts",
    "tau_curve_verdicts",
    "tau_verdicts",
    "width_test",
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
    off : str
        How far they are apart, formatted, where that is a number.
    """

    claim: str
    paper: str
    here: str
    holds: bool
    off: str = ""


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
    """Return the least-squares column: the average of the run within 15 % of the paper's."""
    made = []
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cell = row.cells[LEAST_SQUARES]
        ratio = cell.mse / entry.least_squares
        made.append(
            Comparison(
                f"{entry.positive} % positive",
                f"{entry.least_squares:.3f} ± {papers_error(row, LEAST_SQUARES):.3f}",
                f"{cell.mse:.3f} ± {cell.mse_se:.3f}",
                abs(ratio - 1.0) <= LEAST_SQUARES_TOLERANCE,
                f"{100.0 * (ratio - 1.0):+.0f} %",
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
                f"{cell.tau - entry.tau:+.3f}",
            )
        )
    return tuple(made)


def papers_error(row: RecoveryRow, method: str = PAPERS[1].name) -> float:
    """Return the Monte Carlo standard error of a figure of the paper, which prints none.

    It is the standard deviation of the method over the draws made here, divided by the root of the
    number of draws that the paper made.

    Parameters
    ----------
    row : RecoveryRow
        The row of the figure.
    method : str
        What the figure is the error of.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.recovery import Cell, RecoveryRow
    >>> from qhreg.paper.verdicts import papers_error
    >>> cell = Cell(np.array([1.0, 2.0, 3.0]), np.zeros(3), ((),) * 3)
    >>> papers_error(RecoveryRow(80, {"least squares": cell}), "least squares")
    0.1
    """
    return float(row.cells[method].errors.std(ddof=1) / math.sqrt(DRAWS))


def _error_comparison(
    claim: str, printed: float, error: float, errors: FloatArray, *, below: bool
) -> Comparison:
    """Return whether a mean error is the paper's, or at most it, within two standard errors."""
    mean, own = float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(errors.size))
    z = (mean - printed) / math.hypot(own, error)
    return Comparison(
        claim,
        f"{printed:.3f} ± {error:.3f}",
        f"{mean:.3f} ± {own:.3f}",
        z <= STANDARD_ERRORS if below else abs(z) <= STANDARD_ERRORS,
        f"z {z:+.1f}",
    )


def paper_mse_verdicts(
    table: RecoveryTable, method: str = PAPERS[1].name
) -> tuple[Comparison, ...]:
    """Return the error column of the paper's model: within two standard errors of the paper's."""
    return tuple(
        _error_comparison(
            f"{entry.positive} % positive",
            entry.proposed,
            papers_error(row, method),
            row.cells[method].errors,
            below=False,
        )
        for entry, row in zip(TABLE_1, table.rows, strict=True)
    )


def mse_verdicts(table: RecoveryTable, method: str = OURS[1].name) -> tuple[Comparison, ...]:
    """Return whether an error is at or below the paper's, within two standard errors."""
    return tuple(
        _error_comparison(
            f"{entry.positive} % positive",
            entry.proposed,
            papers_error(row),
            row.cells[method].errors,
            below=True,
        )
        for entry, row in zip(TABLE_1, table.rows, strict=True)
    )


def best_verdicts(table: RecoveryTable) -> tuple[Comparison, ...]:
    """Return, row by row, whether the best of our methods there is at or below the paper's error."""
    made = []
    for i, row in enumerate(table.rows):
        best = best_in_row(row)
        found = mse_verdicts(table, best)[i]
        made.append(replace(found, off=f"{found.off} ({best})"))
    return tuple(made)


def best_in_row(row: RecoveryRow) -> str:
    """Return the name of our method with the least error in a row."""
    ours = [method.name for method in OURS if method.name in row.cells]
    return min(ours, key=lambda name: row.cells[name].mse)


def penalty_verdicts(curves: Sequence[PenaltyCurve]) -> tuple[Comparison, ...]:
    """Return whether the penalty is least within 0.015 of where the caption says."""
    made = []
    for curve in curves:
        printed = PENALTY_MINIMA[curve.positive]
        off = curve.minimum - printed
        made.append(
            Comparison(
                f"{curve.positive} % positive",
                f"{printed:.2f}",
                f"{curve.minimum:.4f} ± {curve.error:.4f}",
                abs(off) <= TAU_TOLERANCE,
                f"{off:+.4f}",
            )
        )
    return tuple(made)


def joint_verdicts(
    curves: Sequence[PenaltyCurve], table: RecoveryTable, method: str
) -> tuple[Comparison, ...]:
    """Return whether the penalty is least within 0.015 of the mean tau of the joint fits."""
    made = []
    for curve, row in zip(curves, table.rows, strict=True):
        tau = row.cells[method].tau
        made.append(
            Comparison(
                f"{curve.positive} % positive, joint fit",
                "match well",
                f"{curve.minimum:.3f} and {tau:.3f}",
                abs(curve.minimum - tau) <= TAU_TOLERANCE,
            )
        )
    return tuple(made)


def width_test(curves: Sequence[PenaltyCurve]) -> float:
    """Return the chi-square statistic, one degree per row, of the caption's minima at a width.

    The caption's figure has the error of an average of its 100 draws and that of rounding to two
    digits, ours that of the draws made here.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.penalty import PenaltyCurve
    >>> from qhreg.paper.verdicts import width_test
    >>> curve = PenaltyCurve(40, 1.0, np.zeros(3), np.zeros(3), 0.43, 0.005, 100)
    >>> round(width_test([curve]), 3)
    1.714
    """
    total = 0.0
    for curve in curves:
        papers = curve.error**2 * curve.draws / DRAWS + 0.01**2 / 12.0
        off = curve.minimum - PENALTY_MINIMA[curve.positive]
        total += off**2 / (papers + curve.error**2)
    return total


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
