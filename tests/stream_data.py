"""Random regressions as frames, and the same rows cut into batches or files."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "gumbel": lambda rng, n: rng.gumbel(size=n),
    "t5": lambda rng, n: rng.standard_t(5, n),
    "tied": lambda rng, n: np.round(rng.normal(size=n), 1),
    "exponential": lambda rng, n: rng.exponential(size=n),
}


def frame(seed, n=3000, noise="gumbel"):
    """Return a frame with numbers, categories, weights, an offset and clusters."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "x1": rng.normal(size=n),
            "x2": rng.exponential(size=n),
            "region": rng.choice(["north", "south", "east"], n),
            "year": rng.integers(2001, 2004, n),
            "count": rng.integers(0, 4, n),
            "prob": rng.uniform(0.1, 3.0, n),
            "known": rng.normal(size=n),
            "firm": rng.integers(0, 40, n),
            "town": rng.choice(list("abcdefghijkl"), n),
        }
    )
    data["share"] = data["prob"] / data["prob"].sum()
    level = data["region"].map({"north": 0.0, "south": 1.0, "east": -0.5})
    data["y"] = 1.0 + data["x1"] - 0.5 * data["x2"] + level + NOISE[noise](rng, n)
    return data


def cut(data, pieces=5):
    """Return the rows in batches of unequal sizes."""
    ends = np.linspace(0.0, 1.0, pieces + 1) ** 2 * len(data)
    return [data.iloc[int(a) : int(b)].reset_index(drop=True) for a, b in itertools.pairwise(ends)]


def batches(data, pieces=5):
    """Return a source: a function that returns the batches."""
    parts = cut(data, pieces)
    return lambda: iter(parts)


def files(data, folder, pieces=5):
    """Write the rows to Parquet files, and return the pattern of their names."""
    for number, part in enumerate(cut(data, pieces)):
        part.to_parquet(folder / f"{number:03d}.parquet")
    return str(folder / "*.parquet")
