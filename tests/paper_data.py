"""Where the paper's data sets are for the tests: QHREG_PAPER_DATA, else beside the repository."""

import os
from pathlib import Path

import pytest

from qhreg.paper.boosted import NAMES, VARIABLE

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get(VARIABLE) or BESIDE)

needs_data = pytest.mark.skipif(
    not all((FOLDER / f"{name}.csv").is_file() for name in NAMES),
    reason="the paper's data sets are not here: set QHREG_PAPER_DATA to their folder",
)
