"""Write the data sets that the R scripts beside this file read.

Run from this directory: ``python r_data.py``. The first three are shipped with statsmodels; the
simulated one has skewed heavy-tailed noise of the asymmetric Laplace kind, rounded to six decimals
so that the text and the numbers are the same thing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm

HERE = Path(__file__).parent


def simulated() -> pd.DataFrame:
    """Return 160 rows: y = 1 + 2 x - z + noise, asymmetric Laplace noise with tau = 0.7."""
    rng = np.random.default_rng(20240217)
    n, tau, sigma = 160, 0.7, 0.5
    x = rng.normal(size=n)
    z = rng.uniform(-1.0, 1.0, size=n)
    # A difference of independent exponentials with rates (1 - tau) / sigma and tau / sigma.
    noise = sigma * (
        rng.exponential(1.0 / (1.0 - tau), size=n) - rng.exponential(1.0 / tau, size=n)
    )
    frame = pd.DataFrame({"y": 1.0 + 2.0 * x - z + noise, "x": x, "z": z})
    return frame.round(6)


def main() -> None:
    """Write r_engel.csv, r_stackloss.csv, r_statecrime.csv and r_simulated.csv."""
    frames = {
        "engel": sm.datasets.engel.load_pandas().data,
        "stackloss": sm.datasets.stackloss.load_pandas().data,
        "statecrime": sm.datasets.statecrime.load_pandas().data.reset_index(drop=True),
        "simulated": simulated(),
    }
    for name, frame in frames.items():
        frame.to_csv(HERE / f"r_{name}.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
