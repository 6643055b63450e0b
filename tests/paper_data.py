"""Where the paper's data sets are for the tests: QHREG_PAPER_DATA, else beside the repository."""

from pathlib import Path

import pytest

from qhreg.paper.boosted import NAMES, data_folder

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = data_folder() or BESIDE

needs_data = pytest.mark.skipif(
    not all((FOLDER / f"{name}.csv").is_file() for name in NAMES),
    reason="the paper's data sets are not here: set QHREG_PAPER_DATA to their folder",
)
