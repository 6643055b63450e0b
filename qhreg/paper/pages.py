"""The pages of the reproduction as Markdown: text around numbers, no numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qhreg.paper.curves import CurvatureCurve, LossCurves, TauCurve
from qhreg.paper.penalty import PenaltyCurve
from qhreg.paper.printed import PENALTY_MINIMA
from qhreg.paper.recovery import RecoveryTable
from qhreg.paper.verdicts import (
    Comparison,
    curvature_verdicts,
    figure_1_verdicts,
    narrow_minima_verdicts,
    penalty_verdicts,
    tau_curve_verdicts,
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


def penalty_page(
    curves: Sequence[PenaltyCurve],
    table: RecoveryTable,
    precise: Sequence[PenaltyCurve] | None = None,
    precise_table: RecoveryTable | None = None,
) -> Page:
    """Return the page on the penalty at fixed tau.

    Parameters
    ----------
    curves, table
        The curves and the joint fits, on as many draws as in the paper.
    precise, precise_table : optional
        The curves near their minima and the joint fits on more draws.
    """
    found = penalty_verdicts(curves, table)
    verdict = f"**Verdict.** {summary_of(found)}"
    if precise is not None and precise_table is not None:
        found = penalty_verdicts(precise, precise_table)
        verdict += f""" The minimum carries the Monte Carlo error of the draws, and the paper's,
from as many, carries one as large. With {precise_table.repetitions:,} draws of ours:

{table_of(found, "least at tau =")}

{summary_of(found)}"""
    narrow = narrow_minima_verdicts(table if precise_table is None else precise_table)
    verdict += f"""

The caption says $\\kappa=1$. The joint fits at $\\kappa=0.05$, the width at which the paper's model
comes closer to the errors of Table 1, have their mean tau within 0.015 of the caption's figures in
{score_of(narrow)} rows: {", ".join(each.here for each in narrow)}. Rows that mirror each other must
add up to 1; the caption's 60 and 40 % add up to {PENALTY_MINIMA[60] + PENALTY_MINIMA[40]:.2f}."""
    body = f"""
{NO_PICTURE}

For the draws of Table 1, the coefficients are estimated with tau held fixed, at each of
{curves[0].taus.size} values of tau, with $\\kappa={curves[0].kappa:g}$ and $\\sigma=1$. Shown is
the normalised penalty, averaged over rows and
{table.repetitions} repetitions.

![Mean normalised penalty against tau for six percentages of positive noise](penalty.png)

{table_of(penalty_verdicts(curves, table), "least at tau =")}

"Agrees" asks that the minimum lies within 0.015 of the paper's and of the mean tau of the joint
fits; after ± stands the standard error of that mean.

{verdict}

The paper's caption lists the minima in the order opposite to its percentages ("0 %, ..., 100 %"
beside "0.79, ..., 0.21"); Table 1 shows which order is meant.
"""
    return Page("penalty", "Penalty at fixed tau, and its minima", body, found)


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
