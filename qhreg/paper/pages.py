"""The pages of the reproduction as Markdown: text around numbers, no numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.datasets import TITLES, ConstantError
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import TABLE_1
from qhreg.paper.recovery import LEAST_SQUARES, METHODS, OURS, PAPERS, RecoveryTable
from qhreg.paper.verdicts import (
    Comparison,
    constant_verdicts,
    curvature_verdicts,
    figure_1_verdicts,
    least_squares_verdicts,
    mse_verdicts,
    paper_mse_verdicts,
    penalty_verdicts,
    tau_curve_verdicts,
    tau_verdicts,
)

__all__ = [
    "Page",
    "curvature_page",
    "figure_1_page",
    "index_page",
    "penalty_page",
    "table_1_page",
    "tau_page",
    "what_is_true_page",
]

NO_PICTURE = (
    "The paper's source that we work from holds no image for this figure, only its caption: the "
    "comparison is with what caption and text say."
)


@dataclass(frozen=True)
class Page:
    """One page of the reproduction.

    Attributes
    ----------
    name : str
        File name without ending.
    title : str
        Heading.
    body : str
        Markdown below the heading.
    comparisons : tuple of Comparison
        The verdicts on it.
    """

    name: str
    title: str
    body: str
    comparisons: tuple[Comparison, ...]

    @property
    def text(self) -> str:
        """The whole page."""
        return f"# {self.title}\n\n{self.body.strip()}\n"

    @property
    def score(self) -> str:
        """How many of its comparisons agree."""
        agree = sum(comparison.holds for comparison in self.comparisons)
        return f"{agree} of {len(self.comparisons)}"


def table_of(comparisons: Sequence[Comparison], what: str = "") -> str:
    """Return the comparisons as a Markdown table.

    Examples
    --------
    >>> from qhreg.paper.pages import table_of
    >>> from qhreg.paper.verdicts import Comparison
    >>> print(table_of([Comparison("tau", "0.79", "0.788", True)]))
    |  | the paper | here | agrees |
    |---|---|---|---|
    | tau | 0.79 | 0.788 | yes |
    """
    lines = [f"| {what} | the paper | here | agrees |", "|---|---|---|---|"]
    for each in comparisons:
        verdict = "yes" if each.holds else "**no**"
        lines.append(f"| {each.claim} | {each.paper} | {each.here} | {verdict} |")
    return "\n".join(lines)


def _summary(comparisons: Sequence[Comparison]) -> str:
    wrong = [each.claim for each in comparisons if not each.holds]
    if not wrong:
        return f"All {len(comparisons)} agree."
    return f"{len(comparisons) - len(wrong)} of {len(comparisons)} agree; not: {'; '.join(wrong)}."


def figure_1_page(curves: LossCurves) -> Page:
    """Return the page on Figure 1."""
    found = figure_1_verdicts(curves)
    half = 0.5 * curves.kappa
    body = f"""
![Loss and density of the quantile and the quantile Huber loss, the paper's beside ours](figure_1.png)

Left: the curves of the paper's plotting code, as they stand there. Right: the losses and densities of this package.

{table_of(found, "claim")}

**Verdict.** The losses agree, once the width is read right. The plotting code draws the zone $[-2\\tau k, 2(1-\\tau)k]$ with $k={half:g}$, the text defines
$[-\\kappa\\tau, \\kappa(1-\\tau)]$: the figure shows $\\kappa={curves.kappa:g}$. Its right-hand panels show $e^{{-\\rho}}$; ours are divided by $c(\\tau)$ and integrate to one.
"""
    return Page("figure_1", "Figure 1: losses and densities", body, found)


def tau_page(parts: TauCurve, curves: Sequence[TauCurve]) -> Page:
    """Return the page on the loss as a function of tau."""
    found = tau_curve_verdicts(curves)
    rows = "\n".join(
        f"| {c.positive:g} % | {c.best_loss:.3f} (end of the grid) | {c.best:.3f} |" for c in curves
    )
    body = f"""
{NO_PICTURE} It does not say how the residuals were drawn. Here they are 1,000 Laplacian ones of standard deviation 5, the noise that reproduces Table 1,
with the signs set to the percentage asked for.

![Loss, normaliser and their sum over tau at 10 % positive residuals](tau_parts.png)

![Loss with and without normaliser for 10, 25, 50, 75 and 100 % positive residuals](tau_curves.png)

| positive residuals | the loss alone is least at | the normalised loss is least at |
|---|---|---|
{rows}

{table_of(found, "claim")}

**Verdict.** {_summary(found)} With {parts.positive:g} % positive residuals the normalised loss is least at $\\tau={parts.best:.3f}$, in the lower range as the paper says.
"""
    return Page("tau", "The loss over tau, with and without its normaliser", body, found)


def curvature_page(curve: CurvatureCurve) -> Page:
    """Return the page on the least curvature against kappa."""
    found = curvature_verdicts(curve)
    body = f"""
![Least curvature in tau against kappa, from 0 to {curve.kappas[-1]:g}](curvature.png)

The paper says in its text that the least second derivative of the normalised loss in tau "decreases from 8 to 6 as $\\kappa$ moves from 0 to 1", found by trying. Here every point
comes from `biconvexity_certificate`, which encloses the curvature for all tau by interval arithmetic.

{table_of(found, "least curvature over tau")}

**Verdict.** {_summary(found)} The paper stops at $\\kappa=1$. Convexity in tau holds far beyond it, up to $\\kappa^*={curve.kappa_star:.6f}$, and is lost there: the third row is ours alone,
and its "agrees" means that the certificate holds exactly at the widths below $\\kappa^*$.
"""
    return Page("curvature", "Least curvature against kappa", body, found)


def _recovery_rows(table: RecoveryTable) -> str:
    names = [LEAST_SQUARES, *(method.name for method in METHODS)]
    head = " | ".join(names)
    lines = [
        f"| % positive | paper: least sq. | paper: proposed | {head} |",
        "|---" * (3 + len(names)) + "|",
    ]
    for entry, row in zip(TABLE_1, table.rows, strict=True):
        cells = [row.cells[name] for name in names]
        errors = " | ".join(f"{cell.mse:.3f} ± {cell.mse_se:.3f}" for cell in cells)
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
                lines.append(f"- {row.positive} % positive, {name}: {kind}, {count} times")
    return "\n".join(lines) or "- none"


def table_1_page(table: RecoveryTable) -> Page:
    """Return the page on Table 1."""
    squares, taus = least_squares_verdicts(table), tau_verdicts(table)
    wide_taus = tau_verdicts(table, PAPERS[0].name)
    papers = {m.name: paper_mse_verdicts(table, m.name) for m in PAPERS}
    ours = {m.name: mse_verdicts(table, m.name) for m in OURS}
    best = max(ours, key=lambda name: sum(each.holds for each in ours[name]))
    narrow = papers[PAPERS[1].name]
    first = table.rows[0].cells
    body = f"""
$n=100$, two standard normal regressors, coefficients 2 and 5, no intercept. Laplacian noise of standard deviation 5, of which the given percentage has a positive sign. {table.repetitions} repetitions, seed {table.seed};
every method sees the same draws. The error is squared and averaged over the two coefficients. The paper names neither the standard deviation of the noise nor kappa; 5 is what its least-squares column asks for
(the error of least squares is about $25/n=0.25$ then).

"Paper" is its model, $\\sigma=1$; "ours" estimates $\\sigma$. After ± stands one Monte Carlo standard error.

![Errors and asymmetries of Table 1 beside the paper's](table_1.png)

## Errors

{_recovery_rows(table)}

## Asymmetry

{_tau_rows(table)}

With one sign only and $\\sigma$ estimated, the likelihood rises until tau meets its bound (0.001 or 0.999): the noise is one-sided, and the fit says so. That is the right answer to another question than the paper's, whose
tau is tied to $\\sigma=1$, and the reason that the error is least there.

## Verdicts

Least squares, within 15 %:

{table_of(squares, "")}

tau of the paper's model at $\\kappa=0.05$, within 0.015:

{table_of(taus, "")}

tau of the paper's model at $\\kappa=1$, within 0.015:

{table_of(wide_taus, "")}

Error of the paper's model at $\\kappa=0.05$, within two standard errors of the difference (the paper gives none; it is taken to be as large as ours):

{table_of(narrow, "")}

The same at $\\kappa=1$, the width that the paper names for the figure of the penalty:

{table_of(papers[PAPERS[0].name], "")}

Error of ours at or below the paper's, within two standard errors of the difference (z is that difference in standard errors):

{chr(10).join(f"{chr(10)}*{name}*{chr(10)}{chr(10)}{table_of(found, '')}" for name, found in ours.items())}

**Verdict.** Least squares: {_summary(squares)} tau: {_summary(taus)} The error column is reproduced with $\\kappa=0.05$ ({_summary(narrow)}) and not with $\\kappa=1$
({first[PAPERS[0].name].mse:.3f} in the first row, where the paper has {TABLE_1[0].proposed:.3f}). Of ours, "{best}" does best: {_summary(ours[best])} With noise of one sign, estimating $\\sigma$ brings the error from
{first[PAPERS[1].name].mse:.3f} to {first[best].mse:.3f}.

## Warnings

Nothing was silenced. The fits warned as follows:

{_warning_notes(table)}
"""
    comparisons = (*squares, *taus, *narrow, *ours[best])
    return Page("table_1", "Table 1: coefficients under one-sided noise", body, comparisons)


def penalty_page(curves: Sequence[PenaltyCurve], table: RecoveryTable) -> Page:
    """Return the page on the penalty at fixed tau."""
    found = penalty_verdicts(curves, table)
    body = f"""
{NO_PICTURE}

For the draws of Table 1, the coefficients are estimated with tau held fixed, at each of {curves[0].taus.size} values of tau, with $\\kappa={curves[0].kappa:g}$ and $\\sigma=1$. Shown is the normalised penalty, averaged over rows and
{table.repetitions} repetitions.

![Mean normalised penalty against tau for six percentages of positive noise](penalty.png)

{table_of(found, "least at tau =")}

"Agrees" asks that the minimum lies within 0.015 of the paper's and of the mean tau of the joint fits.

**Verdict.** {_summary(found)} The paper's caption lists the minima in the order opposite to its percentages ("0 %, ..., 100 %" beside "0.79, ..., 0.21"); Table 1 shows which order is meant.
"""
    return Page("penalty", "Penalty at fixed tau, and its minima", body, found)


def what_is_true_page(
    table: RecoveryTable, constants: Sequence[ConstantError] | None, slips_link: str
) -> Page:
    """Return the page that shows the slips about the two tables by the run."""
    taus, narrow = tau_verdicts(table), paper_mse_verdicts(table)
    first = table.rows[0].cells
    found: tuple[Comparison, ...] = (*least_squares_verdicts(table), *taus)
    body = f"""
{slips_link} lists the slips of the paper, those in its formulas with their proofs. The two about its tables are shown here by the run behind these pages.

## Slip 4: the noise scale of Table 1

The table does not state it. With Laplacian noise of standard deviation 5 and $\\sigma=1$ fixed:

- least squares: {_summary(least_squares_verdicts(table))}
- tau: {_summary(taus)}
- error with $\\kappa=0.05$: {_summary(narrow)}

The first row, all noise positive: the paper prints {TABLE_1[0].proposed:.3f}. The same model gives {first[PAPERS[1].name].mse:.3f} ± {first[PAPERS[1].name].mse_se:.3f} at $\\kappa=0.05$ and {first[PAPERS[0].name].mse:.3f} ± {first[PAPERS[0].name].mse_se:.3f} at $\\kappa=1$;
estimating $\\sigma$ gives {first[OURS[1].name].mse:.3f} ± {first[OURS[1].name].mse_se:.3f}. See [Table 1](table_1.md).

## Slip 5: the units of Table 2

{_constants(constants)}

## A slip in a caption

The caption of the figure of the penalty pairs the percentages 0, 20, ..., 100 with the minima 0.79, 0.72, ..., 0.21. The order is reversed: see [the penalty](penalty.md).
"""
    return Page("what_is_true", "What the run shows about the paper's tables", body, found)


def _constants(constants: Sequence[ConstantError] | None) -> str:
    if constants is None:
        return (
            "Not shown in this run: the data sets were not found. Install the extra `paper`, or name the "
            "folder with the four CSV files."
        )
    found = constant_verdicts(constants)
    worse = [each for each in constants if each.printed >= each.constant]
    names = ", ".join(TITLES[each.dataset] for each in worse)
    return f"""The paper says that all data were scaled to $(-1, 1)$, and gives an error of its boosting without noise. Beside it, the error of the best constant on the target so scaled, which is the target's variance:

{table_of(found, "below a constant?")}

Without noise the paper's figure is worse than a constant's on {len(worse)} of {len(constants)}: {names}. Boosting does better than a constant there, so the figures cannot be squared errors on targets scaled as stated.

One reservation. The slump data have three targets, and the paper does not say which it used. The one here is the strength after 28 days; slump and flow, scaled, have variances of 0.361 and 0.363, and an error of 0.19 is
possible for them. The other three data sets have one target each."""


def index_page(pages: Sequence[Page], settings: str) -> Page:
    """Return the page that leads to the others, with how many comparisons agree on each."""
    rows = "\n".join(f"| [{page.title}]({page.name}.md) | {page.score} |" for page in pages)
    names = "\n".join(page.name for page in pages)
    body = f"""
Every figure and table of Natesan Ramamurthy, Aravkin and Thiagarajan, *Automatic Inference of the Quantile Parameter*, made again with this package and set beside what the paper prints. All pages here are written by one command,
verdicts included:

```bash
python -m qhreg paper --out docs/paper
```

{settings}

| page | comparisons that agree |
|---|---|
{rows}

```{{toctree}}
:hidden:

{names}
```
"""
    return Page("index", "The paper reproduced", body, ())
