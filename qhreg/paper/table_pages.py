"""The pages on the paper's tables: Table 1, and what the run shows about the slips in them."""

from __future__ import annotations

from collections.abc import Sequence

from qhreg.paper.datasets import TITLES, ConstantError
from qhreg.paper.pages import Page, summary_of, table_of
from qhreg.paper.printed import TABLE_1
from qhreg.paper.recovery import (
    LEAST_SQUARES,
    METHODS,
    OURS,
    PAPERS,
    Cell,
    RecoveryTable,
    expected_least_squares,
)
from qhreg.paper.verdicts import (
    LEAST_SQUARES_TOLERANCE,
    Comparison,
    constant_verdicts,
    least_squares_verdicts,
    mse_verdicts,
    paper_mse_verdicts,
    pooled_verdicts,
    tau_verdicts,
)

__all__ = ["best_of_ours", "table_1_page", "what_is_true_page"]

WIDE, NARROW = (method.name for method in PAPERS)


def _plus_minus(cell: Cell) -> str:
    return f"{cell.mse:.3f} ± {cell.mse_se:.3f}"


def best_of_ours(table: RecoveryTable) -> str:
    """Return the name of our method with the least error, summed over the rows."""
    totals = {m.name: sum(row.cells[m.name].mse for row in table.rows) for m in OURS}
    return min(totals, key=lambda name: totals[name])


def _section(title: str, comparisons: Sequence[Comparison]) -> str:
    return f"{title}\n\n{table_of(comparisons)}\n\n{summary_of(comparisons)}"


def _recovery_rows(table: RecoveryTable) -> str:
    names = [LEAST_SQUARES, *(method.name for method in METHODS)]
    head = " | ".join(names)
    lines = [
        f"| % positive | paper: least sq. | paper: proposed | {head} |",
        "|---" * (3 + len(names)) + "|",
    ]
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cells = [row.cells[name] for name in names]
        errors = " | ".join(_plus_minus(cell) for cell in cells)
        lines.append(
            f"| {entry.positive} | {entry.least_squares:.3f} | {entry.proposed:.3f} | {errors} |"
        )
    return "\n".join(lines)


def _tau_rows(table: RecoveryTable) -> str:
    names = [method.name for method in METHODS]
    lines = [f"| % positive | paper | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cells = [row.cells[name] for name in names]
        taus = " | ".join(f"{cell.tau:.3f} ± {cell.tau_se:.3f}" for cell in cells)
        lines.append(f"| {entry.positive} | {entry.tau:.3f} | {taus} |")
    return "\n".join(lines)


def _warning_notes(table: RecoveryTable) -> str:
    lines = []
    for row in table.rows:
        for name, cell in row.cells.items():
            for kind, count in cell.warned.items():
                lines.append(
                    f"- {row.positive} % positive, {name}: {kind}, {count} in {table.repetitions} fits"
                )
    return "\n".join(lines) or "- none"


def _close_averages(table: RecoveryTable) -> int:
    """Return how many least-squares averages of this run are within 15 % of the paper's."""
    pairs = zip(TABLE_1, table.rows, strict=True)
    ratios = [row.cells[LEAST_SQUARES].mse / entry.least_squares for entry, row in pairs]
    return sum(abs(ratio - 1.0) <= LEAST_SQUARES_TOLERANCE for ratio in ratios)


def _verdict_sections(table: RecoveryTable) -> str:
    sections = [
        _section(
            "Least squares, expected value within 15 % of the paper's:",
            least_squares_verdicts(table),
        ),
        *(
            _section(f'tau by "{m.name}", within 0.015:', tau_verdicts(table, m.name))
            for m in PAPERS
        ),
        *(
            _section(
                f'Error of "{m.name}", within two standard errors of the difference (the paper '
                "gives none; it is taken to be as large as ours):",
                paper_mse_verdicts(table, m.name),
            )
            for m in PAPERS
        ),
        *(
            _section(
                f'Error of "{m.name}" at or below the paper\'s, within two standard errors of the '
                "difference (z is the difference in those):",
                mse_verdicts(table, m.name),
            )
            for m in OURS
        ),
        *(
            _section(
                f'Error of "{m.name}", rows that mirror each other pooled, within two standard '
                f"errors of the difference{'' if m in PAPERS else ', or below'}:",
                pooled_verdicts(table, m.name),
            )
            for m in METHODS
        ),
    ]
    return "\n\n".join(sections)


def table_1_page(table: RecoveryTable) -> Page:
    """Return the page on Table 1."""
    squares, taus = least_squares_verdicts(table), tau_verdicts(table, NARROW)
    narrow, wide = paper_mse_verdicts(table, NARROW), paper_mse_verdicts(table, WIDE)
    best = best_of_ours(table)
    ours = mse_verdicts(table, best)
    first = table.rows[0].cells
    body = f"""
$n=100$, two standard normal regressors, coefficients 2 and 5, no intercept. Laplacian noise of
standard deviation 5, of which the given percentage has a positive sign. {table.repetitions}
repetitions, seed {table.seed}; every method sees the same draws. The error is squared and averaged
over the two coefficients. The paper states neither the standard deviation of the noise nor kappa; 5
is what its least-squares column asks for: the expected error of least squares is then
$25/(n-3)={expected_least_squares():.4f}$ in every row, whatever the signs.

"Paper" is its model, $\\sigma=1$; "ours" estimates $\\sigma$. After ± stands one Monte Carlo
standard error.

![Errors and asymmetries of Table 1 beside the paper's](table_1.png)

## Errors

{_recovery_rows(table)}

## Asymmetry

{_tau_rows(table)}

With noise of one sign and $\\sigma$ estimated, the likelihood rises until tau meets its bound: the
noise is one-sided, and the fit says so in a warning. The paper's tau is tied to $\\sigma=1$: the
same noise in other units has another tau.

## Verdict

- Least squares, by its expected value: {summary_of(squares)} Of the averages of this run
  {_close_averages(table)} of {len(table.rows)} lie within 15 % of the paper's.
- tau of the paper's model at $\\kappa=0.05$: {summary_of(taus)}
- Error of the paper's model at $\\kappa=0.05$: {summary_of(narrow)}
- The same with rows that mirror each other pooled (100 and 0 %, and so on: they estimate the same
  number): {summary_of(pooled_verdicts(table, NARROW))}
- Error of the paper's model at $\\kappa=1$: {summary_of(wide)}
- Ours at or below the paper's error: of our three, "{best}" has the least error over all rows.
  {summary_of(ours)} Pooled: {summary_of(pooled_verdicts(table, best))}
- With noise of one sign, estimating $\\sigma$ changes the error of the paper's model from
  {_plus_minus(first[NARROW])} to {_plus_minus(first[best])}.

## The comparisons one by one

{_verdict_sections(table)}

## Warnings

Nothing was silenced. The fits warned as follows:

{_warning_notes(table)}
"""
    comparisons = (*squares, *taus, *narrow, *ours)
    return Page("table_1", "Table 1: coefficients under one-sided noise", body, comparisons)


def what_is_true_page(
    table: RecoveryTable, constants: Sequence[ConstantError] | None, slips_link: str
) -> Page:
    """Return the page that shows the slips about the two tables by the run."""
    squares, taus, narrow = (
        least_squares_verdicts(table),
        tau_verdicts(table, NARROW),
        paper_mse_verdicts(table, NARROW),
    )
    first, best = table.rows[0].cells, best_of_ours(table)
    pooled = pooled_verdicts(table, NARROW)
    body = f"""
{slips_link} lists the slips of the paper, those in its formulas with their demonstration. The two
about its tables are shown here by the run behind these pages.

## Slip 4: the noise scale of Table 1

The table does not state it. With Laplacian noise of standard deviation 5 and $\\sigma=1$ fixed:

- least squares: {summary_of(squares)}
- tau: {summary_of(taus)}
- error with $\\kappa=0.05$: {summary_of(narrow)} Rows that mirror each other pooled:
  {summary_of(pooled)}

The first row, all noise positive: the paper prints {TABLE_1[0].proposed:.3f}. The same model gives
{_plus_minus(first[NARROW])} at $\\kappa=0.05$ and {_plus_minus(first[WIDE])} at $\\kappa=1$;
estimating $\\sigma$ gives {_plus_minus(first[best])}. See [Table 1](table_1.md).

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
