"""The page that shows the slips about the paper's tables by the run."""

from __future__ import annotations

from collections.abc import Sequence

from qhreg.paper.datasets import TITLES, ConstantError
from qhreg.paper.pages import Page, summary_of, table_of
from qhreg.paper.printed import TABLE_1
from qhreg.paper.recovery import RecoveryTable
from qhreg.paper.recovery_page import NARROW, WIDE, plus_minus
from qhreg.paper.verdicts import (
    best_in_row,
    constant_verdicts,
    least_squares_verdicts,
    paper_mse_verdicts,
    tau_verdicts,
)

__all__ = ["what_is_true_page"]


def what_is_true_page(
    table: RecoveryTable, constants: Sequence[ConstantError] | None, slips_link: str
) -> Page:
    """Return the page that shows the slips about the two tables by the run."""
    squares, taus, narrow = (
        least_squares_verdicts(table),
        tau_verdicts(table, NARROW),
        paper_mse_verdicts(table, NARROW),
    )
    first, best = table.rows[0].cells, best_in_row(table.rows[0])
    body = f"""
{slips_link} lists the slips of the paper, those in its formulas with their demonstration. The two
about its tables are shown here by the run behind these pages.

## Slip 4: the noise scale of Table 1

The table does not state it. With Laplacian noise of standard deviation 5 and $\\sigma=1$ fixed,
{table.repetitions:,} draws for each figure:

- least squares within 15 %: {summary_of(squares)}
- tau with $\\kappa=0.05$ within 0.015: {summary_of(taus)}
- error with $\\kappa=0.05$ within two standard errors: {summary_of(narrow)}

Noise of one sign: the paper prints {TABLE_1[0].proposed:.3f} where all of it is positive and
{TABLE_1[-1].proposed:.3f} where all of it is negative. The same model gives
{plus_minus(first[NARROW])} at $\\kappa=0.05$ and {plus_minus(first[WIDE])} at $\\kappa=1$; estimating
$\\sigma$ gives {plus_minus(first[best])}. See [Table 1](table_1.md).

## Slip 5: the units of Table 2

{_constants(constants)}

## A slip in a caption

The caption of the figure of the penalty pairs the percentages 0, 20, ..., 100 with the minima
0.79, 0.72, ..., 0.21. The order is reversed: see [the penalty](penalty.md).
"""
    shown = (*squares, *taus, *narrow)
    return Page("what_is_true", "What the run shows about the paper's tables", body, shown)


def _constants(constants: Sequence[ConstantError] | None) -> str:
    """Return the demonstration of slip 5, or why there is none."""
    if constants is None:
        return (
            "Not shown in this run: the data sets were not found. Install the extra `paper`, or "
            "name the folder with the four CSV files."
        )
    found = constant_verdicts(constants)
    worse = [each for each in constants if each.printed >= each.constant]
    names = ", ".join(TITLES[each.dataset] for each in worse)
    return f"""
The paper says that all data were scaled to $(-1, 1)$, and gives the error of its boosting without
noise. Beside it stands the error of the best constant on the target so scaled, its variance:

{table_of(found, "is the printed error below that of a constant?")}

Without noise the printed error is above that of a constant on {len(worse)} of {len(constants)}
data sets: {names}. Either the boosting was worse than predicting the mean, or the figures are not
squared errors on targets scaled as stated.
{_reservation(constants)}""".strip()


def _reservation(constants: Sequence[ConstantError]) -> str:
    """Return what the choice among several targets changes."""
    text = ""
    for each in constants:
        if each.others:
            listed = ", ".join(f"{name} {value:.3f}" for name, value in each.others.items())
            text += f"""
One reservation. {TITLES[each.dataset]} has several targets, and the paper does not say which it
used. The one above is the strength after 28 days. For the others the error of a constant is
{listed}, and the printed {each.printed:g} is possible there.
"""
    return text
