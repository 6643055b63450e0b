"""Load the numbers that R wrote into tests/reference and the data they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

REFERENCE = Path(__file__).parent / "reference"


def load(name: str) -> dict[str, Any]:
    """Return the content of ``reference/<name>.json``, for example ``load("r_quantreg")``."""
    content: dict[str, Any] = json.loads((REFERENCE / f"{name}.json").read_text(encoding="utf-8"))
    return content


def design(problem: dict[str, Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return X (the columns ``problem["exog"]`` names, ``const`` being ones) and y."""
    frame = pd.read_csv(REFERENCE / problem["csv"]).assign(const=1.0)
    X = frame[problem["exog"]].to_numpy(dtype=np.float64)
    return X, frame[problem["endog"]].to_numpy(dtype=np.float64)
