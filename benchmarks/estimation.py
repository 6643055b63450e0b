"""How good the default fit is: slopes, scale and asymmetry of simulated samples, REML beside ML.

    python -m benchmarks.estimation                      # the table of docs/estimation.md
    python -m benchmarks.estimation --quick              # a look in half a minute
    python -m benchmarks.estimation --rows 50 --noise gamma --reps 1000
    python -m benchmarks.estimation --optimum            # is the optimum over tau the best one?

Model: a constant and p - 1 standard normal regressors, drawn anew in each sample. All coefficients
are zero; least squares, LAD, Huber and this fit are equivariant, so that nothing hangs on it. Each
cell has a seed of its own: a part of the table run alone gives the same numbers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import statsmodels.api as sm
from threadpoolctl import threadpool_limits

from benchmarks.peers.data import quantile_huber_noise
from qhreg import QuantileHuberMLE
from qhreg.solver import Solution, solve

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, FloatArray], FloatArray]

LARGE = 200_000
"""Rows of the fit that stands for the limit of sigma and tau where the noise is not the model's."""


def two_peaks(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """Return normals of standard deviation 1/2 around -3/2 (60 %) and 3/2 (40 %)."""
    n = len(x)
    return np.where(rng.random(n) < 0.6, -1.5, 1.5) + 0.5 * rng.standard_normal(n)


NOISE: dict[str, Draw] = {
    "model, tau 0.3": lambda rng, x: quantile_huber_noise(len(x), 0.3, 4.0, rng),
    "normal": lambda rng, x: rng.standard_normal(len(x)),
    "t3": lambda rng, x: rng.standard_t(3, len(x)),
    "Gumbel": lambda rng, x: rng.gumbel(size=len(x)),
    "gamma(2)": lambda rng, x: rng.gamma(2.0, size=len(x)),
    "lognormal": lambda rng, x: rng.lognormal(size=len(x)),
    "exponential": lambda rng, x: rng.exponential(size=len(x)),
    "two-peaked": two_peaks,
    "uniform": lambda rng, x: rng.random(len(x)),
    "heteroskedastic": lambda rng, x: np.exp(0.4 * x) * rng.standard_normal(len(x)),
}
"""Ten kinds of noise, drawn given the first regressor."""


def sample(noise: str, n: int, p: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return regressors and response."""
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    return X, NOISE[noise](rng, X[:, 1])


@cache
def limits(noise: str) -> tuple[float, float]:
    """Return sigma and tau of the noise; NaN where a large sample has tau on its bound."""
    if noise == "model, tau 0.3":
        return 1.0, 0.3
    fit = solve(*sample(noise, LARGE, 2, np.random.default_rng(0)), search=True)
    return (np.nan, np.nan) if fit.tau_at_bound else (fit.sigma, fit.tau)


def cell(noise: str, n: int, p: int, reps: int) -> dict[str, Any]:
    """Return one line of the table."""
    rng = np.random.default_rng([list(NOISE).index(noise), n, p])
    fits: dict[str, list[Solution]] = {"REML": [], "ML": []}
    slopes: dict[str, list[FloatArray]] = {"REML": [], "ML": [], "OLS": [], "LAD": [], "Huber": []}
    for _ in range(reps):
        X, y = sample(noise, n, p, rng)
        for name in fits:
            fits[name].append(solve(X, y, reml=name == "REML"))
            slopes[name].append(fits[name][-1].beta)
        slopes["OLS"].append(np.linalg.lstsq(X, y, rcond=None)[0])
        slopes["LAD"].append(solve(X, y, kappa=0.0, tau=0.5).beta)
        slopes["Huber"].append(sm.RLM(y, X, M=sm.robust.norms.HuberT()).fit().params)
    rmse = {name: np.sqrt(np.mean(np.array(b)[:, 1:] ** 2)) for name, b in slopes.items()}
    sigma, tau = limits(noise)
    line: dict[str, Any] = {"noise": noise, "n": n, "p": p}
    line |= {f"REML/{peer}": rmse["REML"] / rmse[peer] for peer in ("OLS", "LAD", "Huber")}
    line["ML/OLS"] = rmse["ML"] / rmse["OLS"]
    line |= {
        f"bound {name}": np.mean([fit.tau_at_bound for fit in some]) for name, some in fits.items()
    }
    line |= {
        f"sigma {name}": np.mean([fit.sigma for fit in some]) / sigma - 1.0
        for name, some in fits.items()
    }
    line |= {f"tau {name}": np.mean([fit.tau for fit in some]) - tau for name, some in fits.items()}
    return line


def table(noise: list[str], rows: list[int], columns: list[int], reps: int) -> pd.DataFrame:
    """Return the lines of all cells."""
    return pd.DataFrame([cell(kind, n, p, reps) for kind in noise for n in rows for p in columns])


def ranges(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the smallest and the largest value of each kind of noise."""
    groups = lines.drop(columns=["n", "p"]).groupby("noise", sort=False)
    ends = [(name, groups[name].min(), groups[name].max()) for name in lines.columns[3:]]
    texts = {
        name: [
            " to ".join(dict.fromkeys(cell_text(name, value) for value in pair))
            for pair in zip(low, high, strict=True)
        ]
        for name, low, high in ends
    }
    return pd.DataFrame(texts, index=list(groups.groups)).rename_axis("noise").reset_index()


def cell_text(column: str, value: Any) -> str:
    """Return an entry: shares and the bias of sigma in per cent, the bias of tau with its sign."""
    if not isinstance(value, float):
        return str(value)
    if np.isnan(value):
        return "-"
    if column.startswith("bound"):
        return f"{100 * value:.0f} %"
    if column.startswith("sigma"):
        return f"{100 * value:+.0f} %"
    return f"{value:+.2f}" if column.startswith("tau") else f"{value:.2f}"


def markdown(lines: pd.DataFrame) -> str:
    """Return the lines as a Markdown table."""
    rows = [list(lines.columns), ["---"] * len(lines.columns)]
    rows += [
        [cell_text(name, value) for name, value in zip(lines.columns, row, strict=True)]
        for row in lines.itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# Is the optimum over tau the best one?

HOSTILE: dict[str, Draw] = {
    "tied": lambda rng, x: np.round(NOISE["gamma(2)"](rng, x) * rng.choice([1.0, 2.0, 5.0])),
    "two-peaked": lambda rng, x: (
        rng.choice([-1.0, 1.0], len(x), p=[0.4, 0.6]) * rng.uniform(1.0, 4.0)
        + rng.standard_normal(len(x))
    ),
    "uniform": NOISE["uniform"],
    "skewed": lambda rng, x: rng.lognormal(sigma=rng.uniform(0.2, 1.2), size=len(x)),
    "model": lambda rng, x: quantile_huber_noise(
        len(x), rng.uniform(0.05, 0.95), rng.choice([0.3, 1.0, 4.0]), rng
    ),
}
"""Noise of the problems whose optimum over tau is checked, drawn given the first regressor."""


@dataclass(frozen=True)
class Problem:
    """The default fit of a random problem beside the certified one."""

    seed: int
    noise: str
    kappa: float
    n: int
    p: int
    shortfall: float
    tau: float
    best_tau: float
    certified: bool
    warned: str

    @property
    def short(self) -> bool:
        return self.shortfall > 1e-6 * self.n


def problem(seed: int) -> Problem:
    """Return one random problem of 500 to 25,000 rows, fitted twice."""
    rng = np.random.default_rng([7, seed])
    noise, kappa = list(HOSTILE)[seed % len(HOSTILE)], [0.3, 1.0, 4.0][seed // 5 % 3]
    n, p = int(np.exp(rng.uniform(np.log(500), np.log(25_001)))), int(rng.integers(2, 9))
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    y = HOSTILE[noise](rng, X[:, 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = QuantileHuberMLE(y, X, kappa=kappa).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = solve(X, y, kappa=kappa, search=True)
    shortfall = best.loglike_restricted - fit.llf_restricted
    warned = ", ".join(sorted({warning.category.__name__ for warning in caught}))
    return Problem(seed, noise, kappa, n, p, shortfall, fit.tau, best.tau, best.certified, warned)


def report_optimum(problems: list[Problem]) -> Iterator[str]:
    """Yield the lines of the report: counts by noise and kappa, then every problem that is short."""
    frame = pd.DataFrame([vars(one) | {"short": one.short} for one in problems])
    frame["short, no warning"] = frame["short"] & (frame["warned"] == "")
    counts = frame.groupby(["noise", "kappa"], sort=False).agg(
        problems=("seed", "size"),
        certified=("certified", "sum"),
        warned=("warned", lambda names: int((names != "").sum())),
        short=("short", "sum"),
        silent=("short, no warning", "sum"),
        largest=("shortfall", "max"),
    )
    counts["largest"] = [f"{value:.1e}" for value in counts["largest"]]
    yield markdown(counts.reset_index().astype({"kappa": object}).map(str))
    yield f"\n{len(frame)} problems, {int(frame['short'].sum())} short by more than 1e-6 n"
    yield from (str(one) for one in problems if one.short)
    kinds = frame["warned"].value_counts()
    yield "warnings of the default fit: " + str({k: int(v) for k, v in kinds.items() if k})


def main() -> None:
    """Print the table of estimates, or the check of the optimum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few cells, 20 samples each")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 100, 250, 500])
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--noise", nargs="+", choices=list(NOISE), default=list(NOISE))
    parser.add_argument("--reps", type=int, default=200, help="samples of each cell")
    parser.add_argument("--csv", help="write the table to this file too, unrounded")
    parser.add_argument(
        "--optimum", action="store_true", help="the default fit against search=True"
    )
    parser.add_argument("--problems", type=int, default=3000, help="how many with --optimum")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.columns, options.reps, options.problems = [50, 100], [2, 8], 20, 60
    start = time.process_time()
    with threadpool_limits(limits=1):
        if options.optimum:
            problems = [problem(seed) for seed in range(options.problems)]
            print("\n".join(report_optimum(problems)))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines = table(options.noise, options.rows, options.columns, options.reps)
            if options.csv:
                lines.to_csv(options.csv, index=False)
            print(markdown(ranges(lines)), markdown(lines), sep="\n\n")
            print(f"\n{options.reps} samples of each cell")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
