"""Hold the solver to its bars: ratios to peers and floors measured in the same run, on one thread.

Run as ``python -m benchmarks.bench_solver [--scaling] [--quick]``. Ratios are of processor time, the
minimum over alternating repeats: on a busy machine wall time says more about the neighbours. R's
peers are timed where R with quantreg and conquer is installed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import statsmodels.api as sm
from threadpoolctl import threadpool_limits

from benchmarks.peers.data import make_regression
from benchmarks.peers.python_peers import normal_equations, time_lbfgsb
from benchmarks.peers.r_peer import have_r, time_r
from qhreg import QuantileHuberMLE
from qhreg.certificate.global_optimum import certify_global
from qhreg.solver import solve


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    ours: float
    peer: str
    theirs: float
    bar: float | None

    def __str__(self) -> str:
        ratio = self.ours / self.theirs
        verdict = "" if self.bar is None else "PASS" if ratio <= self.bar else "MISS"
        bar = "" if self.bar is None else f"{self.bar:g}"
        return (
            f"| {self.work} | {self.ours * 1e3:.4g} ms | {self.peer} | {self.theirs * 1e3:.4g} ms "
            f"| {ratio:.3g} | {bar} | {verdict} |"
        )


def cpu(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def compare(
    ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Return the shortest processor times over alternating pairs of calls.

    The second call of a pair finds the caches as a loop of fits would.
    """
    times = [(min(cpu(ours), cpu(ours)), min(cpu(theirs), cpu(theirs))) for _ in range(repeats)]
    return min(t for t, _ in times), min(t for _, t in times)


def joint_rows(n: int, p: int, kappa: float, repeats: int, bars: dict[str, float]) -> list[Row]:
    """Return the joint fit of one size against the peers named in the bars."""
    X, y = make_regression(n, p, kappa=kappa, tau=0.3, seed=n + p)[:2]
    peers: dict[str, Callable[[], Any]] = {
        "OLS.fit": lambda: sm.OLS(y, X).fit(),
        "normal equations": lambda: normal_equations(X, y),
        "QuantReg.fit(q)": lambda: sm.QuantReg(y, X).fit(q=0.7),
    }
    work = f"joint fit, n = {n:.0e}, p = {p}, kappa = {kappa:g}"
    rows = []
    for name, bar in bars.items():
        if name in peers:
            slow = name in ("QuantReg.fit(q)", "OLS.fit") and n >= 10**5
            pair = compare(lambda: solve(X, y, kappa=kappa), peers[name], 3 if slow else repeats)
            rows.append(Row(work, pair[0], name, pair[1], bar))
    if "conquer" in bars and have_r():
        r = time_r("conquer", X, y, 0.7, repeats=max(3, 20_000 // (n // 100 + 1)))
        ours = min(cpu(lambda: solve(X, y, kappa=kappa)) for _ in range(repeats))
        rows.append(Row(work, ours, "R conquer, one q", r["cpu_seconds"], bars["conquer"]))
    lbfgsb = time_lbfgsb(X, y, kappa, repeats=2)["cpu_seconds"]
    ours = min(cpu(lambda: solve(X, y, kappa=kappa)) for _ in range(repeats))
    rows.append(Row(work, ours, "scipy L-BFGS-B, no proof", lbfgsb, 1.0))
    return rows


def quantile_rows(n: int, p: int) -> list[Row]:
    """Return the exact quantile fit against R's interior point with preprocessing."""
    X, y = make_regression(n, p, kappa=0.0, tau=0.3, seed=1)[:2]
    ours, floor = compare(
        lambda: solve(X, y, kappa=0.0, tau=0.3, sigma=1.0), lambda: normal_equations(X, y), 3
    )
    work = f"kappa = 0, tau fixed, n = {n:.0e}, p = {p}"
    rows = [Row(work, ours, "normal equations", floor, None)]
    if have_r():
        r = time_r("rq_pfn", X, y, 0.7, repeats=2)
        rows.append(Row(work, ours, "R rq.fit.pfn", r["cpu_seconds"], 1.0))
        fit = solve(X, y, kappa=0.0, tau=0.3, sigma=1.0)
        theirs, mine = (check_loss(y - X @ beta) for beta in (r["coef"], fit.beta))
        print(f"objective at kappa = 0: ours minus R's, relative: {(mine - theirs) / theirs:.1e}")
    return rows


def check_loss(residual: np.ndarray) -> float:
    return float(residual @ (0.7 - (residual < 0)))


def wide_rows(n: int, p: int) -> list[Row]:
    """Return the joint fit of many columns against the normal equations."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    rows = []
    for method in ("newton", "lbfgs"):
        pair = compare(lambda m=method: solve(X, y, method=m), lambda: normal_equations(X, y), 2)
        bar = 5.0 if method == "newton" else None
        rows.append(
            Row(
                f"joint fit, n = {n:.0e}, p = {p}, {method}",
                pair[0],
                "normal equations",
                pair[1],
                bar,
            )
        )
    return rows


def certificate_rows(n: int, p: int) -> list[Row]:
    """Return the global certificate against the joint fit."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    fit = solve(X, y)
    certificate = certify_global(X, y, fit)
    pair = compare(lambda: certify_global(X, y, fit), lambda: solve(X, y), 2)
    found = f"{certificate.n_fits} fits, holds: {certificate.holds}"
    work = f"global certificate, n = {n:.0e}, p = {p} ({found})"
    return [Row(work, pair[0], "joint fit", pair[1], 15.0)]


def model_rows(n: int, p: int) -> list[Row]:
    """Return the fit through the model against the solver alone."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    model = QuantileHuberMLE(y, X)
    pair = compare(model.fit, lambda: solve(X, y), 3)
    return [Row(f"fit through the model, n = {n:.0e}, p = {p}", pair[0], "solver", pair[1], 1.2)]


def engel_rows(repeats: int) -> list[Row]:
    """Return formula, fit and summary of Engel's data: what they take beyond those of OLS."""
    engel = sm.datasets.engel.load_pandas().data
    formula = "foodexp ~ income"
    ours, theirs = compare(
        lambda: str(QuantileHuberMLE.from_formula(formula, engel).fit().summary()),
        lambda: str(sm.OLS.from_formula(formula, engel).fit().summary()),
        repeats,
    )
    work = "Engel by formula, fit and summary, beyond OLS"
    return [Row(work, ours - theirs, "30 ms", 0.030, 1.0)]


def summary_rows(n: int, p: int, repeats: int) -> list[Row]:
    """Return the numbers of `summary` against the fit, with and without making the tables."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    rows = []
    for tau, cov_type in itertools.product((None, 0.3), ("nonrobust", "HC1")):
        theirs, ours, tables = summary_seconds(QuantileHuberMLE(y, X, tau=tau), cov_type, repeats)
        how = "estimated" if tau is None else "fixed"
        work = f"numbers of the summary, n = {n:.0e}, p = {p}, tau {how}, {cov_type}"
        rows.append(Row(work, ours, "its fit", theirs, 1.0))
        rows.append(Row("and then its tables", tables, "its fit", theirs, None))
    return rows


def by_row_summary(n: int, p: int, repeats: int) -> Row:
    """Return the numbers of `summary` with tau fixed, HC1, for regressors that lie row by row."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    model = QuantileHuberMLE(y, np.ascontiguousarray(X), tau=0.3)
    theirs, ours, _ = summary_seconds(model, "HC1", repeats)
    work = f"the same, regressors row by row, n = {n:.0e}, p = {p}, tau fixed, HC1"
    return Row(work, ours, "its fit", theirs, 1.0)


def summary_seconds(model: Any, cov_type: str, repeats: int) -> tuple[float, float, float]:
    """Return the least seconds of the fit, of the numbers of its summary, and of the tables."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        fit = model.fit(cov_type=cov_type)._results  # `summary` works without its wrapper
        fitted = time.process_time()
        summary_numbers(fit)
        counted = time.process_time()
        fit.summary()
        times.append((fitted - start, counted - fitted, time.process_time() - counted))
    fit_time, numbers, tables = (min(part) for part in zip(*times, strict=True))
    return fit_time, numbers, tables


def summary_numbers(fit: Any) -> None:
    """Compute what the tables of `summary` show."""
    for name in ("bse", "tvalues", "pvalues", "aic", "bic", "prsquared", "share_below"):
        getattr(fit, name)
    assert fit.certificate.status
    fit.conf_int()


def joint_seconds(n: int, p: int) -> float:
    """Return the shortest time of a joint fit of one size."""
    X, y = make_regression(n, p, kappa=1.0, tau=0.3, seed=1)[:2]
    solve(X, y)
    return min(cpu(lambda: solve(X, y)) for _ in range(3))


def scaling() -> None:
    """Print how the time grows with n and p, with the fitted exponents."""
    print("\n| n \\ p | 2 | 10 | 50 | 500 |\n|---|---|---|---|---|")
    table: dict[tuple[int, int], float] = {}
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        cells = []
        for p in (2, 10, 50, 500):
            if n * p > 10**8 or n <= 2 * p:
                cells.append("")
                continue
            table[n, p] = joint_seconds(n, p)
            cells.append(f"{table[n, p] * 1e3:.3g} ms")
        print(f"| {n:.0e} | {' | '.join(cells)} |")
    for p in (2, 10, 50, 500):
        sizes = [n for n, q in table if q == p and n >= 10**4]
        if len(sizes) > 1:
            slope = np.polyfit(np.log(sizes), [np.log(table[n, p]) for n in sizes], 1)[0]
            print(f"p = {p}: time grows like n^{slope:.2f} from n = {min(sizes):.0e} on")


def main() -> None:
    """Print the table of bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scaling", action="store_true", help="also print the growth with n and p")
    parser.add_argument("--quick", action="store_true", help="leave out the sizes above 1e5 rows")
    options = parser.parse_args()
    with threadpool_limits(limits=1):
        solve(*make_regression(100, 2)[:2])
        print("| work | ours | peer | peer's | ratio | bar | |\n|---|---|---|---|---|---|---|")
        rows: list[Row] = []
        rows += joint_rows(10**3, 5, 1.0, 100, {"QuantReg.fit(q)": 0.12})
        rows += joint_rows(10**4, 10, 1.0, 15, {"OLS.fit": 2.0, "conquer": 1.0})
        mid = {"OLS.fit": 0.6, "QuantReg.fit(q)": 1 / 30, "conquer": 1.0}
        rows += joint_rows(10**5, 10, 1.0, 8, mid)
        if not options.quick:
            large = {"OLS.fit": 0.10, "normal equations": 5.0}
            rows += joint_rows(10**6, 20, 1.0, 5, large)
            rows += joint_rows(10**6, 20, 0.05, 5, large)
            rows += quantile_rows(10**6, 20)
            rows += wide_rows(10**5, 500)
        for n, p in ((200, 3), (10**4, 10), (10**5, 10)):
            rows += certificate_rows(n, p)
        rows += engel_rows(10)
        rows += [] if options.quick else model_rows(10**6, 20)
        rows += summary_rows(235, 2, 100)
        rows += [] if options.quick else summary_rows(10**6, 20, 6)
        rows += [by_row_summary(n, p, 60) for n, p in ((10**3, 5), (10**4, 10), (2000, 50))]
        if not options.quick:
            rows += [by_row_summary(10**5, 10, 20), by_row_summary(10**6, 20, 6)]
        for row in rows:
            print(row)
        if options.scaling:
            scaling()


if __name__ == "__main__":
    main()
