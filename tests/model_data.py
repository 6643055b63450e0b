"""Regression data for the tests of the model: skewed noise, groups, weights, missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd

from qhreg import QuantileHuberMLE


def skewed_frame(n: int = 300, seed: int = 1) -> pd.DataFrame:
    """Return y = 1 + 2 x + skewed noise with a factor, weights, an offset and labelled rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "z": rng.uniform(1.0, 3.0, size=n),
            "g": rng.choice(["a", "b", "c"], n),
            "firm": rng.integers(0, 30, n),
            "w": rng.integers(1, 4, n).astype(float),
            "o": rng.normal(size=n),
        },
        index=[f"row{i}" for i in range(n)],
    )
    frame["y"] = 1.0 + 2.0 * frame.x + rng.exponential(size=n) + 0.5 * rng.normal(size=n)
    return frame


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with a missing value in x (3 rows), y (2 rows) and w (1 row)."""
    gaps = frame.copy()
    gaps.loc[gaps.index[[5, 6, 7]], "x"] = np.nan
    gaps.loc[gaps.index[[7, 20]], "y"] = np.nan
    gaps.loc[gaps.index[40], "w"] = np.nan
    return gaps


def model_data(X, y, *, weights=None, names=None, reml=True, **options):
    """Return arrays as the inner functions take a model; weights count rows."""
    exog = pd.DataFrame(X, columns=names or [f"x{j}" for j in range(np.shape(X)[1])])
    return QuantileHuberMLE(y, exog, freq_weights=weights, **options).model_data(reml=reml)
