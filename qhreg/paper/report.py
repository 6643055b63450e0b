"""The whole reproduction, part by part: numbers, pages, pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qhreg.exceptions import DataError
from qhreg.paper import drawing
from qhreg.paper.boosted import BoostingRow, TauPath, all_boosting
from qhreg.paper.boosted_page import table_2_page
from qhreg.paper.curves import (
    CurvatureCurve,
    LossCurves,
    TauCurve,
    curvature_curve,
    loss_curves,
    tau_curve,
    tau_curves,
)
from qhreg.paper.datasets import NAMES, ConstantError, PaperData, constant_error, load
from qhreg.paper.pages import (
    Page,
    curvature_page,
    figure_1_page,
    index_page,
    penalty_page,
    tau_page,
)
from qhreg.paper.penalty import NARROW, WIDE, PenaltyCurve, penalty_curves, settled_minima
from qhreg.paper.printed import DRAWS
from qhreg.paper.recovery import RecoveryTable, recovery_table
from qhreg.paper.recovery_page import table_1_page
from qhreg.paper.slips_page import what_is_true_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PARTS",
    "QUICK",
    "REPETITIONS",
    "Boosting",
    "Curves",
    "Made",
    "Recovery",
    "boosting",
    "curves",
    "recovery",
    "reproduce",
    "write",
]

REPETITIONS, QUICK = 1000, 5
"""Draws in each row of Table 1, by default and in a quick run. The paper made 100."""

PARTS = ("figures", "table_1", "table_2")
"""What can be made on its own: the figures without regression; Table 1 and the penalty, which share
their draws, with the slips about the tables; Table 2 and the paths of tau."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Made:
    """The pages of one part, the pictures on them by file name."""

    pages: tuple[Page, ...]
    pictures: dict[str, Figure] = field(default_factory=dict)


# ------------------------------------------------------------------ figures without regression


@dataclass(frozen=True)
class Curves:
    """The numbers of the figures without regression.

    Attributes
    ----------
    losses : LossCurves
        Figure 1.
    parts : TauCurve
        The loss over tau at 10 % positive residuals.
    taus : tuple of TauCurve
        The loss over tau at several percentages.
    curvature : CurvatureCurve
        Least curvature against kappa.
    """

    losses: LossCurves
    parts: TauCurve
    taus: tuple[TauCurve, ...]
    curvature: CurvatureCurve

    def made(self) -> Made:
        """Return the pages and pictures."""
        pages = (
            figure_1_page(self.losses),
            tau_page(self.parts, self.taus),
            curvature_page(self.curvature),
        )
        pictures = {
            "figure_1.png": drawing.draw_loss_curves(self.losses),
            "tau_parts.png": drawing.draw_parts(self.parts),
            "tau_curves.png": drawing.draw_tau_curves(self.taus),
            "curvature.png": drawing.draw_curvature(self.curvature),
        }
        return Made(pages, pictures)


def curves() -> Curves:
    """Return the numbers of the figures without regression."""
    return Curves(loss_curves(), tau_curve(10), tau_curves(), curvature_curve())


# ------------------------------------------------------------------ Table 1 and the penalty


@dataclass(frozen=True)
class Recovery:
    """The numbers of Table 1 and of the penalty at fixed tau.

    Attributes
    ----------
    table : RecoveryTable
        Table 1, all draws.
    penalty : tuple of PenaltyCurve
        The whole curves, from as many draws as in the paper.
    wide, narrow : tuple of PenaltyCurve
        The curves near their minima from all draws, at the two widths of the paper's model.
    constants : tuple of ConstantError or None
        Errors of a constant on the data of Table 2; None where the data were not found.
    """

    table: RecoveryTable
    penalty: tuple[PenaltyCurve, ...]
    wide: tuple[PenaltyCurve, ...]
    narrow: tuple[PenaltyCurve, ...]
    constants: tuple[ConstantError, ...] | None

    def made(self, slips_link: str) -> Made:
        """Return the pages and pictures, with how the page on the slips is named, as Markdown."""
        settled = self.table.settled()
        pages = (
            table_1_page(self.table),
            penalty_page(self.penalty, self.wide, self.narrow, self.table),
            what_is_true_page(settled, self.constants, slips_link),
        )
        pictures = {
            "table_1.png": drawing.draw_recovery(settled),
            "penalty.png": drawing.draw_penalty(self.penalty, settled),
        }
        return Made(pages, pictures)


def recovery(repetitions: int, seed: int, sets: Sequence[PaperData] | None, tell: Tell) -> Recovery:
    """Return the numbers of Table 1, of the penalty, and the errors of a constant for Table 2."""
    table = recovery_table(repetitions, seed=seed, progress=tell)
    penalty = penalty_curves(min(repetitions, DRAWS), seed=seed, progress=tell)
    wide, narrow = (
        settled_minima(penalty, repetitions, kappa=kappa, seed=seed, progress=tell)
        for kappa in (WIDE, NARROW)
    )
    constants = None if sets is None else tuple(constant_error(each) for each in sets)
    return Recovery(table, penalty, wide, narrow, constants)


# ------------------------------------------------------------------ Table 2


@dataclass(frozen=True)
class Boosting:
    """The numbers of Table 2 and the paths of tau."""

    rows: tuple[BoostingRow, ...]
    paths: tuple[TauPath, ...]

    def made(self) -> Made:
        """Return the page and its picture."""
        pages = (table_2_page(self.rows, self.paths),)
        return Made(pages, {"tau_paths.png": drawing.draw_tau_paths(self.paths)})


def boosting(
    repetitions: int, seed: int, sets: Sequence[PaperData] | None, tell: Tell
) -> Boosting | None:
    """Return the numbers of Table 2 from a tenth of the paper's draws, as there.

    None without data, or without scikit-learn and LightGBM.
    """
    if sets is None:
        return None
    splits = max(1, min(repetitions, DRAWS) // 10)
    try:
        return Boosting(*all_boosting(sets, splits, seed=seed, progress=tell))
    except ImportError as error:
        tell(f"without Table 2: {error}")
        return None


# ------------------------------------------------------------------ all of it


def reproduce(
    folder: str | Path,
    repetitions: int = REPETITIONS,
    *,
    parts: Sequence[str] = PARTS,
    seed: int = 0,
    data: str | Path | None = None,
    progress: Tell | None = None,
) -> tuple[Page, ...]:
    """Make the parts, write each when it is made, and return their pages.

    The page that leads to the others is written by a run of all parts.

    Parameters
    ----------
    folder : path
        Where to write; made when it is not there.
    repetitions, seed : int
        Draws in each row of Table 1, seed.
    parts : sequence of str
        Some of `PARTS`.
    data : path, optional
        Folder with the CSV files of Table 2; by default as in :func:`qhreg.paper.datasets.load`.
    progress : callable, optional
        Told what is being computed.
    """
    tell = progress or (lambda text: None)
    out = Path(folder)
    known = (out.resolve().parent / "paper_slips.md").is_file()
    slips = "[What the paper says and what is true](../paper_slips.md)"
    slips = slips if known else "`docs/paper_slips.md`"
    sets = None if set(parts) == {"figures"} else _data_sets(data, tell)
    pages: list[Page] = []
    if "figures" in parts:
        tell("figures without regression")
        pages += write(curves().made(), out)
    if "table_1" in parts:
        pages += write(recovery(repetitions, seed, sets, tell).made(slips), out)
    if "table_2" in parts:
        found = boosting(repetitions, seed, sets, tell)
        if found is not None:
            # before the page on the slips about both tables
            pages[-1:-1] = write(found.made(), out)
    if set(PARTS) <= set(parts):
        pages = [*write(Made((index_page(pages, _settings(repetitions, seed)),)), out), *pages]
    return tuple(pages)


def _settings(repetitions: int, seed: int) -> str:
    text = f"This run: {repetitions:,} draws in each row of Table 1, seed {seed}."
    if repetitions < DRAWS:
        text += f" The paper made {DRAWS}; this is a quick run, and its errors are wide."
    return text


def _data_sets(folder: str | Path | None, tell: Tell) -> tuple[PaperData, ...] | None:
    """Return the data of Table 2, or None when nobody named a folder and no package has them."""
    try:
        return tuple(load(name, folder) for name in NAMES)
    except DataError as error:
        if folder is not None:
            raise
        tell(f"without Table 2: {error}")
        return None


def write(made: Made, folder: str | Path) -> tuple[Page, ...]:
    """Write the pages and pictures of a part into a folder and return the pages.

    Parameters
    ----------
    made : Made
        Pages and pictures.
    folder : path
        Where to write; made when it is not there.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for page in made.pages:
        (out / f"{page.name}.md").write_text(page.text, encoding="utf-8")
    for name, figure in made.pictures.items():
        figure.savefig(out / name, dpi=110)
    return made.pages
