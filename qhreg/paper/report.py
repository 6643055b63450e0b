"""The whole reproduction: numbers, pictures, pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from qhreg.paper.penalty import PenaltyCurve, penalty_curves, precise_minima
from qhreg.paper.recovery import FIXED_WIDTH, RecoveryTable, recovery_table
from qhreg.paper.recovery_page import table_1_page
from qhreg.paper.slips_page import what_is_true_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PRECISE",
    "QUICK",
    "REPETITIONS",
    "Reproduction",
    "pages",
    "pictures",
    "reproduce",
    "write",
]

REPETITIONS, QUICK, PRECISE = 100, 5, 500
"""Repetitions of Table 1: as in the paper, in a quick run, in the longer run beside it."""


@dataclass(frozen=True)
class Reproduction:
    """The numbers of every figure and table.

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
    table_1 : RecoveryTable
        Table 1.
    penalty : tuple of PenaltyCurve
        Penalty at fixed tau.
    constants : tuple of ConstantError or None
        Errors of a constant on the data of Table 2; None where the data were not found.
    table_2 : tuple of BoostingRow or None
        Table 2; None without data, or without scikit-learn and LightGBM.
    paths : tuple of TauPath or None
        Paths of tau, likewise.
    precise : RecoveryTable or None
        Table 1 from more draws, without the methods that estimate kappa.
    precise_penalty : tuple of PenaltyCurve or None
        The penalty near its minima from as many draws.
    """

    losses: LossCurves
    parts: TauCurve
    taus: tuple[TauCurve, ...]
    curvature: CurvatureCurve
    table_1: RecoveryTable
    penalty: tuple[PenaltyCurve, ...]
    constants: tuple[ConstantError, ...] | None
    table_2: tuple[BoostingRow, ...] | None = None
    paths: tuple[TauPath, ...] | None = None
    precise: RecoveryTable | None = None
    precise_penalty: tuple[PenaltyCurve, ...] | None = None


def reproduce(
    repetitions: int = REPETITIONS,
    *,
    precise: int = 0,
    seed: int = 0,
    data: str | Path | None = None,
    progress: Callable[[str], object] | None = None,
) -> Reproduction:
    """Return the numbers of every figure and table.

    Parameters
    ----------
    repetitions, seed : int
        Number of draws of Table 1, seed. Table 2 is made with a tenth of it, as in the paper.
    precise : int
        Number of draws of the longer run of Table 1; 0 for none. The first of them are those of
        the other run.
    data : path, optional
        Folder with the CSV files of Table 2; by default as in :func:`qhreg.paper.datasets.load`.
    progress : callable, optional
        Told what is being computed.
    """
    tell = progress or (lambda text: None)
    sets = _data_sets(data, tell)
    tell("figures without regression")
    table_2, paths = _boosting(sets, max(1, repetitions // 10), seed, tell)
    penalty = penalty_curves(repetitions, seed=seed, progress=tell)
    return Reproduction(
        loss_curves(),
        tau_curve(10),
        tau_curves(),
        curvature_curve(),
        recovery_table(repetitions, seed=seed, progress=tell),
        penalty,
        None if sets is None else tuple(constant_error(each) for each in sets),
        table_2,
        paths,
        *_precise(penalty, precise, seed, tell),
    )


def _precise(
    penalty: Sequence[PenaltyCurve], repetitions: int, seed: int, tell: Callable[[str], object]
) -> tuple[RecoveryTable, tuple[PenaltyCurve, ...]] | tuple[None, None]:
    """Return Table 1 and the minima of the penalty from more draws, if any are asked for."""
    if not repetitions:
        return None, None
    tell(f"Table 1 and the penalty once more, {repetitions} repetitions")
    table = recovery_table(repetitions, seed=seed, methods=FIXED_WIDTH, progress=tell)
    return table, precise_minima(penalty, repetitions, seed=seed)


def _data_sets(
    folder: str | Path | None, tell: Callable[[str], object]
) -> tuple[PaperData, ...] | None:
    """Return the data of Table 2, or None when nobody named a folder and no package has them."""
    try:
        return tuple(load(name, folder) for name in NAMES)
    except DataError as error:
        if folder is not None:
            raise
        tell(f"without Table 2: {error}")
        return None


def _boosting(
    sets: Sequence[PaperData] | None, repetitions: int, seed: int, tell: Callable[[str], object]
) -> tuple[tuple[BoostingRow, ...], tuple[TauPath, ...]] | tuple[None, None]:
    if sets is None:
        return None, None
    try:
        return all_boosting(sets, repetitions, seed=seed, progress=tell)
    except ImportError as error:
        tell(f"without Table 2: {error}")
        return None, None


def pictures(made: Reproduction) -> dict[str, Figure]:
    """Return the figures by file name."""
    figures = {
        "figure_1.png": drawing.draw_loss_curves(made.losses),
        "tau_parts.png": drawing.draw_parts(made.parts),
        "tau_curves.png": drawing.draw_tau_curves(made.taus),
        "curvature.png": drawing.draw_curvature(made.curvature),
        "table_1.png": drawing.draw_recovery(made.table_1),
        "penalty.png": drawing.draw_penalty(made.penalty, made.table_1),
    }
    if made.paths is not None:
        figures["tau_paths.png"] = drawing.draw_tau_paths(made.paths)
    return figures


def pages(made: Reproduction, slips_link: str = "`docs/paper_slips.md`") -> tuple[Page, ...]:
    """Return the pages, the index first.

    Parameters
    ----------
    made : Reproduction
        The numbers.
    slips_link : str
        How the page on the slips is named, as Markdown.
    """
    table = made.table_1
    own = [
        figure_1_page(made.losses),
        tau_page(made.parts, made.taus),
        curvature_page(made.curvature),
        table_1_page(table, made.precise),
        penalty_page(made.penalty, table, made.precise_penalty, made.precise),
        what_is_true_page(made.precise or table, made.constants, slips_link),
    ]
    if made.table_2 is not None and made.paths is not None:
        own.insert(-1, table_2_page(made.table_2, made.paths))
    settings = f"This run: {table.repetitions} repetitions, seed {table.seed}."
    if made.precise is not None:
        settings += f" Table 1 and the penalty once more with {made.precise.repetitions:,}."
    if table.repetitions < REPETITIONS:
        settings += f" The paper made {REPETITIONS}; this is a quick run, and its errors are wide."
    return (index_page(own, settings), *own)


def write(made: Reproduction, folder: str | Path) -> tuple[Path, ...]:
    """Write pages and pictures into a folder and return their paths.

    Parameters
    ----------
    made : Reproduction
        The numbers.
    folder : path
        Where to write; made when it is not there.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    slips = "[What the paper says and what is true](../paper_slips.md)"
    known = (out.resolve().parent / "paper_slips.md").is_file()
    written = []
    for page in pages(made, slips) if known else pages(made):
        path = out / f"{page.name}.md"
        path.write_text(page.text, encoding="utf-8")
        written.append(path)
    for name, figure in pictures(made).items():
        path = out / name
        figure.savefig(path, dpi=110)
        written.append(path)
    return tuple(written)
