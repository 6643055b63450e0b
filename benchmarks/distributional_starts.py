"""How often one, four and eight starting points miss the best maximum that 24 of them find.

Samples come from the distributional model itself: an intercept and a slope in location, log sigma and
logit tau each. Run: python -m benchmarks.distributional_starts [samples]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy import special

from qhreg import quantile_huber
from qhreg.distributional.fit import solve_distributional
from qhreg.distributional.likelihood import Regression
from qhreg.specification.observations import Observations

STARTS = (1, 4, 8)


def sample(n: int, kappa: float, seed: int) -> Regression:
    rng = np.random.default_rng(seed)
    x, z, w = (np.column_stack([np.ones(n), rng.normal(size=n)]) for _ in range(3))
    tau, sigma = special.expit(w @ [-0.5, 0.6]), np.exp(z @ [0.3, 0.5])
    noise = quantile_huber.rvs(tau, kappa, random_state=rng, size=n)
    return Regression(Observations(x, x @ [1.0, 2.0] + sigma * noise), z, w, kappa)


def main(samples: int = 15) -> None:
    warnings.simplefilter("ignore")
    print("n    kappa  " + "  ".join(f"{k} start(s): missed, by at most" for k in STARTS))
    for n in (60, 150, 400):
        for kappa in (0.0, 0.01, 0.1, 0.2, 0.4, 1.0):
            reached = np.array(
                [
                    solve_distributional(sample(n, kappa, seed), n_starts=24).starts
                    for seed in range(samples)
                ]
            )
            short = [reached.max(axis=1) - reached[:, :k].max(axis=1) for k in STARTS]
            cells = [f"{np.sum(s > 1e-6):2d} of {samples}, {s.max():.3f}" for s in short]
            print(f"{n:<4d} {kappa:<6g} " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
