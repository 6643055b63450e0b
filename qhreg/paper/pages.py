"""The pages of the reproduction as Markdown: text around numbers, no numbers of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import DRAWS, PENALTY_MINIMA
from qhreg.paper.recovery import PAPERS, RecoveryTable
from qhreg.paper.verdicts import (
    Comparison,
    curvature_verdicts,
    figure_1_verdicts,
    joint_verdicts,
    penalty_verdicts,
    tau_curve_verdicts,
    width_test,
)

__all__ = [
    "Page",
    "curvature_page",
    "figure_1_page",
    "index_page",
    "penalty_page",
    "score_of",
    "summary_of",
    "table_of",
    "tau_page",
]

NO_PICTURE = (
    "The paper's source that we work from holds no image for this figure, only its caption: the "
    "comparison is with what caption and text say."
)


LEVEL = 0.05
"""p-value below which the page calls a width rejected."""


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
        return score_of(self.comparisons)


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


def score_of(comparisons: Sequence[Comparison]) -> str:
    """Return how many comparisons agree.

    Examples
    --------
    >>> from qhreg.paper.pages import score_of
    >>> from qhreg.paper.verdicts import Comparison
    >>> score_of([Comparison("a", "1", "1", True), Comparison("b", "1", "2", False)])
    '1 of 2'
    """
    return f"{sum(each.holds for each in comparisons)} of {len(comparisons)}"


def summary_of(comparisons: Sequence[Comparison]) -> str:
    """Return how many comparisons agree and which do not.

    Examples
    --------
    >>> from qhreg.paper.pages import summary_of
    >>> from qhreg.paper.verdicts import Comparison
    >>> summary_of([Comparison("a", "1", "1", True), Comparison("b", "1", "2", False)])
    '1 of 2 agree; not: b.'
    """
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

Left: the curves of the paper's plotting code, as they stand there. Right: the losses and
densities of this package.

{table_of(found, "claim")}

**Verdict.** The losses agree, once the width is read right. The plotting code draws the zone
$[-2\\tau k, 2(1-\\tau)k]$ with $k={half:g}$, the text defines
$[-\\kappa\\tau, \\kappa(1-\\tau)]$: the figure shows $\\kappa={curves.kappa:g}$. Its right-hand
panels show $e^{{-\\rho}}$; ours are divided by $c(\\tau)$ and integrate to one.
"""
    return Page("figure_1", "Figure 1: losses and densities", body, found)


def tau_page(parts: TauCurve, curves: Sequence[TauCurve]) -> Page:
    """Return the page on the loss as a function of tau."""
    found = tau_curve_verdicts(curves)
    rows = "\n".join(
        f"| {c.positive:g} % | {c.best_loss:.3f} (end of the grid) | {c.best:.3f} |" for c in curves
    )
    body = f"""
{NO_PICTURE} It does not say how the residuals were drawn. Here they are 1,000 Laplacian ones of
standard deviation 5, the noise that reproduces Table 1,
with the signs set to the percentage asked for.

![Loss, normaliser and their sum over tau at 10 % positive residuals](tau_parts.png)

![Loss with and without normaliser for 10, 25, 50, 75 and 100 % positive residuals](tau_curves.png)

| positive residuals | the loss alone is least at | the normalised loss is least at |
|---|---|---|
{rows}

{table_of(found, "claim")}

**Verdict.** {summary_of(found)} With {parts.positive:g} % positive residuals the normalised loss is
least at $\\tau={parts.best:.3f}$, in the lower range as the paper says.
"""
    return Page("tau", "The loss over tau, with and without its normaliser", body, found)


def curvature_page(curve: CurvatureCurve) -> Page:
    """Return the page on the least curvature against kappa."""
    found = curvature_verdicts(curve)
    body = f"""
![Least curvature in tau against kappa, from 0 to {curve.kappas[-1]:g}](curvature.png)

The paper says in its text that the least second derivative of the normalised loss in tau
"decreases from 8 to 6 as $\\kappa$ moves from 0 to 1", found by trying. Here every point
comes from `biconvexity_certificate`, which encloses the curvature for all tau by interval
arithmetic.

{table_of(found, "least curvature over tau")}

**Verdict.** {summary_of(found)} The paper stops at $\\kappa=1$. Convexity in tau holds far beyond
it, up to $\\kappa^*={curve.kappa_star:.6f}$, and is lost there: the third row is ours alone,
and its "agrees" means that the certificate holds exactly at the widths below $\\kappa^*$.
"""
    return Page("curvature", "Least curvature against kappa", body, found)


def _penalty_rows(
    wide: Sequence[PenaltyCurve], narrow: Sequence[PenaltyCurve], table: RecoveryTable
) -> str:
    heads = [f"kappa = {curves[0].kappa:g}" for curves in (wide, narrow)]
    lines = [
        "| % positive | the caption | "
        + " | ".join(f"{head}: least at | joint fit" for head in heads)
        + " |",
        "|---" * 6 + "|",
    ]
    found = [penalty_verdicts(curves) for curves in (wide, narrow)]
    for i, row in enumerate(table.rows):
        cells = [f"{row.positive}", found[0][i].paper]
        for method, judged in zip(PAPERS, found, strict=True):
            joint = row.cells[method.name]
            least = f"{judged[i].here}, {judged[i].off}"
            cells.append(least if judged[i].holds else f"**{least}**")
            cells.append(f"{joint.tau:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def penalty_page(
    curves: Sequence[PenaltyCurve],
    wide: Sequence[PenaltyCurve],
    narrow: Sequence[PenaltyCurve],
    table: RecoveryTable,
) -> Page:
    """Return the page on the penalty at fixed tau.

    Parameters
    ----------
    curves : sequence of PenaltyCurve
        The whole curves, on as many draws as in the paper.
    wide, narrow : sequence of PenaltyCurve
        Near their minima on all draws, at the caption's kappa and at 0.05.
    table : RecoveryTable
        The joint fits on all draws.
    """
    settled = table.settled()
    found, joint = penalty_verdicts(wide), joint_verdicts(wide, settled, PAPERS[0].name)
    other = penalty_verdicts(narrow)
    worst = max(wide, key=lambda curve: abs(curve.minimum - PENALTY_MINIMA[curve.positive]))
    (same,) = (curve for curve in narrow if curve.positive == worst.positive)
    distance = abs(worst.minimum - PENALTY_MINIMA[worst.positive])
    degrees = len(wide)
    statistics = [width_test(each) for each in (wide, narrow)]
    pvalues = [float(special.chdtrc(degrees, x)) for x in statistics]
    tests = [f"{x:.1f} (p = {p:.2g})" for x, p in zip(statistics, pvalues, strict=True)]
    body = f"""
{NO_PICTURE}

For the draws of Table 1, the coefficients are estimated with tau held fixed and $\\sigma=1$. Shown is
the normalised penalty at each of {curves[0].taus.size} values of tau with
$\\kappa={curves[0].kappa:g}$, the width that the caption names, averaged over rows and
{curves[0].draws} draws.

![Mean normalised penalty against tau for six percentages of positive noise](penalty.png)

Where it is least, from {table.repetitions:,} draws in each row, rows that mirror each other pooled;
after ± stands one Monte Carlo standard error, then the difference from the caption, in bold where it
is above 0.015:

{_penalty_rows(wide, narrow, settled)}

**Verdict.** The paper says of this figure that the minima match the tau of the joint fits:
{score_of(joint)} within 0.015. The minima themselves, at the caption's $\\kappa={wide[0].kappa:g}$:
{summary_of(found)} At $\\kappa={narrow[0].kappa:g}$: {summary_of(other)}

Why the row with {worst.positive} % differs most: the caption has
{PENALTY_MINIMA[worst.positive]:.2f}, and the minimum lies {distance:.4f} ± {worst.error:.4f} from it for
$\\kappa={worst.kappa:g}$, where 0.015 is allowed, and
{abs(same.minimum - PENALTY_MINIMA[same.positive]):.4f} for $\\kappa={same.kappa:g}$. The caption's
figures are the tau column of [Table 1](table_1.md) rounded to two digits, averages of {DRAWS} draws,
with an error of their own of {math.sqrt(worst.draws / DRAWS) * worst.error:.3f} in this row. Counting
both errors and the rounding, the six minima together differ from those at
$\\kappa={worst.kappa:g}$ by a chi-square of {tests[0]} with {degrees} degrees of freedom, from those
at $\\kappa={same.kappa:g}$ by {tests[1]}.
{_which_width(*pvalues)}

The paper's caption lists the minima in the order opposite to its percentages ("0 %, ..., 100 %"
beside "0.79, ..., 0.21"); Table 1 shows which order is meant.
"""
    return Page("penalty", "Penalty at fixed tau, and its minima", body, (*found, *joint))


def _which_width(wide: float, narrow: float) -> str:
    """Return which width the caption's minima speak for, by the p-values of the two."""
    if wide < LEVEL <= narrow:
        return (
            "The caption's width is rejected and the narrow one is not. At the narrow one the paper's "
            "model also comes closer to the errors of Table 1: the figure was probably made with it."
        )
    if narrow < LEVEL <= wide:
        return "The narrow width is rejected, and the caption's is not."
    return "That does not tell the two widths apart."


def index_page(pages: Sequence[Page], settings: str) -> Page:
    """Return the page that leads to the others, with how many comparisons agree on each."""
    rows = "\n".join(f"| [{page.title}]({page.name}.md) | {page.score} |" for page in pages)
    names = "\n".join(page.name for page in pages)
    body = f"""
Every figure and table of Natesan Ramamurthy, Aravkin and Thiagarajan, *Automatic Inference of the
Quantile Parameter*, made again with this package and set beside what the paper prints. All pages
here are written by one command,
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
