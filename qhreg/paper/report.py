"""The whole reproduction, part by part: tables as CSV, figures as PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from qhreg.exceptions import DataError
from qhreg.paper import boosted, curves, figures, recovery
from qhreg.paper.boosted import NAMES, PaperData, load

REPETITIONS, QUICK = 1000, 5
"""Draws in each row of Table 1, by default and in a quick run. The paper made 100."""

PARTS = ("figures", "table_1", "table_2")
"""What can be made on its own: the figures without regression; Table 1 and the penalty, which share
their draws; Table 2 and the paths of tau."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Part:
    """Tables and figures by the name of their file, without its ending."""

    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure] = field(default_factory=dict)

    def write(self, folder: Path) -> list[str]:
        """Write the files and return their names."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False, encoding="utf-8", lineterminator="\n")
        for name, figure in self.figures.items():
            figure.savefig(folder / f"{name}.png", dpi=110)
        return [*(f"{name}.csv" for name in self.tables), *(f"{name}.png" for name in self.figures)]


def figure_part() -> Part:
    """Return Figure 1, the loss over tau and the curvature."""
    losses, curvature = curves.loss_curves(), curves.curvature_curve()
    taus = curves.tau_curves()
    return Part(
        {
            "figure_1": curves.loss_table(losses),
            "tau": curves.tau_table(taus),
            "curvature": curves.curvature_table(curvature),
        },
        {
            "figure_1": figures.draw_loss_curves(losses),
            "tau_parts": figures.draw_parts(taus[10], 10),
            "tau_curves": figures.draw_tau_curves(taus),
            "curvature": figures.draw_curvature(curvature),
        },
    )


def recovery_part(repetitions: int, seed: int, tell: Tell) -> Part:
    """Return Table 1 and the penalty: all draws pooled, and the paper's design of 100 on its own."""
    few, rows, penalties = min(repetitions, recovery.DRAWS), [], {}
    for number, positive in enumerate(recovery.POSITIVE, 1):
        tell(f"Table 1, row {number} of {len(recovery.POSITIVE)}: {positive} % positive noise")
        rows.append(recovery.recovery_draws(positive, repetitions, seed=seed))
        penalties[positive] = recovery.penalties(positive, few, seed=seed)
    draws = pd.concat(rows, ignore_index=True)
    taus = recovery.TAUS
    rough = {p: recovery.least_penalty(taus, values)[0] for p, values in penalties.items()}
    minima = {
        name: recovery.pooled_minima(
            rough, repetitions, kappa=options["kappa"], seed=seed, progress=tell
        )
        for name, options in recovery.PAPERS.items()
    }
    pooled = recovery.pooled(draws)
    joint = recovery.summary(pooled, recovery.WIDE)["tau"]
    return Part(
        {
            "table_1": recovery.agreement_table(pooled),
            "table_1_z": recovery.error_differences(pooled),
            "table_1_errors": recovery.error_table(pooled),
            "table_1_tau": recovery.tau_estimates(pooled),
            "table_1_design": recovery.error_table(draws[draws["draw"] < few]),
            "table_1_warnings": recovery.warning_table(draws),
            "penalty": recovery.penalty_table(minima, pooled),
            "penalty_width": recovery.width_table(minima),
        },
        {
            "table_1": figures.draw_recovery(pooled),
            "penalty": figures.draw_penalty(
                {p: values.mean(axis=0) for p, values in penalties.items()}, rough, joint
            ),
        },
    )


def boosting_part(repetitions: int, seed: int, sets: Sequence[PaperData], tell: Tell) -> Part:
    """Return Table 2 and the paths of tau from a tenth of the paper's draws, as there."""
    splits = max(1, min(repetitions, recovery.DRAWS) // 10)
    tables = {"table_2_units": boosted.unit_table(sets)}
    rows: list[pd.DataFrame] = []
    paths: boosted.Paths = {}
    try:
        for data in sets:
            tell(f"Table 2, {data.name}")
            rows.append(boosted.boosting_draws(data, splits, seed=seed))
            if data.name in boosted.PATH_SETS:
                paths |= boosted.tau_paths(data, seed=seed)
    except ImportError as error:
        tell(f"without Table 2: {error}")
        return Part(tables)
    draws = pd.concat(rows, ignore_index=True)
    tables |= {
        "table_2": boosted.boosting_table(draws),
        "table_2_patterns": boosted.pattern_table(draws),
        "table_2_paths": boosted.path_table(paths),
    }
    return Part(tables, {"tau_paths": figures.draw_tau_paths(paths)})


def reproduce(
    folder: str | Path,
    repetitions: int = REPETITIONS,
    *,
    parts: Sequence[str] = PARTS,
    seed: int = 0,
    data: str | Path | None = None,
    progress: Tell | None = None,
) -> list[str]:
    """Make the parts, write each when it is made, and return the names of the files.

    Parameters
    ----------
    folder : path
        Where to write; made when it is not there.
    repetitions, seed : int
        Draws in each row of Table 1, seed.
    parts : sequence of str
        Some of `PARTS`.
    data : path, optional
        Folder with the CSV files of Table 2; by default as in :func:`qhreg.paper.boosted.load`.
    progress : callable, optional
        Told what is being computed.
    """
    tell = progress or (lambda text: None)
    out = Path(folder)
    sets = []
    try:
        # read first: a folder without the files is reported before a quarter of an hour of Table 1
        if "table_2" in parts:
            sets = [load(name, data) for name in NAMES]
    except DataError as error:
        if data is not None:
            raise
        tell(f"without Table 2: {error}")
    names: list[str] = []
    if "figures" in parts:
        tell("figures without regression")
        names += figure_part().write(out)
    if "table_1" in parts:
        names += recovery_part(repetitions, seed, tell).write(out)
    if sets:
        names += boosting_part(repetitions, seed, sets, tell).write(out)
    return names
