"""How often 95 % intervals hold the parameter they are for.

    python benchmarks/coverage.py                 # the full design, about 15 minutes on one core
    python benchmarks/coverage.py --quick         # 100 replications of each cell
    python benchmarks/coverage.py --write docs/coverage.md --jobs 2
    python benchmarks/coverage.py --check         # the batch engine against the package's solver

Model: y = 1 + 0.5 x + noise with x standard normal, drawn anew in each replication; intercept, slope,
sigma and tau estimated, kappa known. True noise: quantile Huber with the kappa of the fit, sigma = 1,
tau = 0.3 or 0.1. Wrong noise: Student t with 3 degrees of freedom; quantile Huber (tau = 0.35,
kappa = 0.5) times exp(0.4 x); Gumbel (skewed); gamma with shape 2 (skewed, with an end point). There
the parameter is the limit of the estimate, taken from a fit to 400 000 rows.

Intervals: Wald with the expected information; profile likelihood with the chi-square cut and with
`lr_cut`; HC1. A profile interval holds a value exactly when the likelihood-ratio statistic at that
value is below the cut: one constrained fit decides, no root is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from batchfit import TAU_BOUNDS, fit_joint, fit_lines, fit_points, fit_tau

from qhreg.bootstrap import bootstrap
from qhreg.covariance import Point, covariance
from qhreg.distribution import quantile_huber
from qhreg.exceptions import BoundaryWarning, ConvergenceWarning
from qhreg.hypothesis_tests import lr_inflation
from qhreg.normalizer import log_normalizer_derivatives
from qhreg.solver import solve

SIZES = (50, 100, 200, 500)
WIDTHS = (0.0, 0.05, 0.25, 1.0)
TAUS = (0.3, 0.1)
WRONG = ("t3", "heteroskedastic", "gumbel", "gamma")
PARAMETERS = ("slope", "intercept", "sigma", "tau")
BETA = np.array([1.0, 0.5])
CHI2 = 3.841459
BOOT_CELLS = [("true", 100, 1.0, 0.3), ("true", 200, 1.0, 0.3), ("t3", 200, 1.0, None)]


def noise(kind, x, tau, kappa, rng):
    if kind == "true":
        return quantile_huber.rvs(tau, kappa, size=x.shape, random_state=rng)
    if kind == "t3":
        return rng.standard_t(3, x.shape)
    if kind == "heteroskedastic":
        return np.exp(0.4 * x) * quantile_huber.rvs(0.35, 0.5, size=x.shape, random_state=rng)
    if kind == "gumbel":
        return rng.gumbel(size=x.shape)
    return rng.gamma(2.0, size=x.shape)


def target(kind, tau, kappa):
    """Return (intercept, slope, sigma, tau) that the estimates approach."""
    if kind == "true":
        return np.array([*BETA, 1.0, tau])
    rng = np.random.default_rng(20_000)
    x = rng.standard_normal(400_000)
    exog = np.column_stack([np.ones_like(x), x])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        fit = solve(exog, exog @ BETA + noise(kind, x, tau, kappa, rng), kappa=kappa, search=False)
    return np.array([*fit.beta, fit.sigma, fit.tau])


def estimates(x, y, kappa, tau):
    """Return (intercept, slope, sigma, tau), values, and what constrained fits start from."""
    if kappa > 0.0:
        w = np.stack([np.ones_like(x), x, y], axis=-1)
        fit = fit_joint(w, kappa, tau)
        return np.column_stack([fit.beta, fit.sigma, fit.tau]), fit.value, w
    fits = [fit_lines(a, b) for a, b in zip(x, y, strict=True)]
    return (
        np.array([[*f[0], f[1], f[2]] for f in fits]),
        np.array([f[3] for f in fits]),
        [f[4] for f in fits],
    )


def statistics(x, y, kappa, truth, values, tools):
    """Return the likelihood-ratio statistics at the true slope, intercept, sigma and tau."""
    a, b, sigma, tau = truth
    if kappa > 0.0:
        known_slope = np.stack([np.ones_like(x), y - b * x], axis=-1)
        known_constant = np.stack([x, y - a], axis=-1)
        z = np.tile([-a, -b, 1.0], (len(x), 1)) / sigma
        at_tau = fit_tau(tools, np.full(len(x), tau), kappa, z)[1]
        restricted = [
            fit_joint(known_slope, kappa, tau).value,
            fit_joint(known_constant, kappa, tau).value,
            fit_joint(tools, kappa, tau, theta=1.0 / sigma).value,
            at_tau + x.shape[1] * log_normalizer_derivatives(tau, kappa).value,
        ]
    else:
        rows = list(zip(x, y, tools, strict=True))
        restricted = [
            [fit_points(np.ones_like(u), v - b * u)[3] for u, v, _ in rows],
            [fit_points(u, v - a)[3] for u, v, _ in rows],
            [fit_lines(u, v, sigma=sigma, start=s)[3] for u, v, s in rows],
            [fit_lines(u, v, tau=tau, start=s)[3] for u, v, s in rows],
        ]
    return 2.0 * (np.column_stack(restricted) - values[:, None])


def z_values(cov_type, x, y, estimate, kappa, truth):
    """Return distances from the truth in standard errors; infinite where there is no interval."""
    exog = np.column_stack([np.ones_like(x), x])
    a, b, sigma, tau = estimate
    at_bound = min(tau - TAU_BOUNDS[0], TAU_BOUNDS[1] - tau) < 1e-9
    se = np.sqrt(
        covariance(
            cov_type, exog, y, Point(np.array([a, b]), sigma, tau, kappa, at_bound)
        ).cov.diagonal()
    )
    logit = np.inf
    if not at_bound:
        logit = (
            (np.log(tau / (1 - tau)) - np.log(truth[3] / (1 - truth[3]))) * tau * (1 - tau) / se[3]
        )
    return np.array(
        [
            (b - truth[1]) / se[1],
            (a - truth[0]) / se[0],
            np.log(sigma / truth[2]) * sigma / se[2],
            logit,
        ]
    )


def cell(kind, n, kappa, tau, reps):
    """Return the coverage of every interval in one cell."""
    rng = np.random.default_rng(
        [n, round(1000 * kappa), round(1000 * (tau or 0)), ("true", *WRONG).index(kind)]
    )
    x = rng.standard_normal((reps, n))
    y = BETA[0] + BETA[1] * x + noise(kind, x, tau, kappa, rng)
    truth = target(kind, tau, kappa)
    estimate, values, tools = estimates(x, y, kappa, float(np.clip(truth[3], 0.02, 0.98)))
    out = {
        "at_bound": float(
            np.mean((estimate[:, 3] <= TAU_BOUNDS[0]) | (estimate[:, 3] >= TAU_BOUNDS[1]))
        )
    }
    for name, cov_type in (("wald", "nonrobust"), ("HC1", "HC1")):
        z = [z_values(cov_type, x[r], y[r], estimate[r], kappa, truth) for r in range(reps)]
        out[name] = (np.abs(z) <= 1.959964).mean(axis=0).tolist()
    if kind == "true":
        ratio = statistics(x, y, kappa, truth, values, tools)
        inflation = np.array([lr_inflation(n, 4, t, kappa=kappa) for t in estimate[:, 3]])[:, None]
        out["plain"] = (ratio <= CHI2).mean(axis=0).tolist()
        out["profile"] = (ratio <= CHI2 * inflation).mean(axis=0).tolist()
        out["mean_ratio"] = np.maximum(ratio, 0.0).mean(axis=0).tolist()
    return out


def bootstrap_cell(kind, n, kappa, tau, reps):
    """Return the coverage of percentile and BCa intervals from 199 resamples of the rows."""
    rng = np.random.default_rng([n, 77])
    truth = target(kind, tau, kappa)
    held = {"percentile": [], "bca": []}
    for _ in range(reps):
        x = rng.standard_normal(n)
        exog = np.column_stack([np.ones(n), x])
        y = exog @ BETA + noise(kind, x, tau, kappa, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            replicates = bootstrap(
                exog, y, solve(exog, y, kappa=kappa, search=False), n_boot=199, seed=rng
            )
        for method, rows in held.items():
            low, high = replicates.conf_int(method=method)[[1, 0, 2, 3]].T
            rows.append((low <= truth[[1, 0, 2, 3]]) & (truth[[1, 0, 2, 3]] <= high))
    return {method: np.mean(rows, axis=0).tolist() for method, rows in held.items()}


def run(task):
    kind, n, kappa, tau, reps, function = task
    start = time.process_time()
    # Fits of misspecified or small samples may end on a bound of tau; that is counted.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = (bootstrap_cell if function == "bootstrap" else cell)(kind, n, kappa, tau, reps)
    return {
        "noise": kind,
        "n": n,
        "kappa": kappa,
        "tau": tau,
        "reps": reps,
        "cpu": time.process_time() - start,
        **result,
    }


def design(reps):
    true = [("true", n, k, t, reps, "cell") for t in TAUS for k in WIDTHS for n in SIZES]
    wrong = [(kind, n, k, None, reps, "cell") for kind in WRONG for k in WIDTHS for n in SIZES]
    boot = [(*each, max(reps // 5, 30), "bootstrap") for each in BOOT_CELLS]
    return [*true, *wrong, *boot]


def check(reps=3):
    """Print how far the batch engine is above the certified fits of the package, in log-likelihood."""
    worst = 0.0
    for n in (50, 200):
        for kappa in WIDTHS:
            for tau in TAUS:
                rng = np.random.default_rng(n)
                x = rng.standard_normal((reps, n))
                y = BETA[0] + BETA[1] * x + noise("true", x, tau, kappa, rng)
                _, values, _ = estimates(x, y, kappa, tau)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exact = [
                        solve(np.column_stack([np.ones(n), a]), b, kappa=kappa, search=True).value
                        for a, b in zip(x, y, strict=True)
                    ]
                gap = float(np.max(values - exact))
                worst = max(worst, gap)
                print(f"n={n} kappa={kappa} tau={tau}: at most {gap:.2e} above", flush=True)
    return worst


def percent(values):
    return " | ".join(f"{100 * v:.1f}" for v in values)


def flagged(values):
    """Percentages, those outside 93 to 97 in bold."""
    shown = [f"{100 * v:.1f}" for v in values]
    return " | ".join(
        s if 0.93 <= v <= 0.97 else f"**{s}**" for s, v in zip(shown, values, strict=True)
    )


def table(title, header, rows):
    """Return a Markdown table under a heading."""
    columns = header.count("|") - 1
    return [f"### {title}", "", header, "|" + "---|" * columns, *rows, ""]


def tables(results):
    """Return the results as Markdown."""
    true = [
        f"| {r['tau']} | {r['kappa']} | {r['n']} | {100 * r['at_bound']:.0f} "
        f"| {r['mean_ratio'][3]:.2f} | {percent(r['wald'])} | {percent(r['plain'])} "
        f"| {flagged(r['profile'])} | {percent(r['HC1'])} |"
        for r in results
        if "plain" in r
    ]
    wrong = [
        f"| {r['noise']} | {r['kappa']} | {r['n']} | {100 * r['at_bound']:.0f} "
        f"| {percent(r['wald'])} | {flagged(r['HC1'])} |"
        for r in results
        if "wald" in r and "plain" not in r
    ]
    boot = [
        f"| {r['noise']} | {r['kappa']} | {r['n']} | {percent(r['percentile'])} | {percent(r['bca'])} |"
        for r in results
        if "bca" in r
    ]
    four = " | | | |"
    head = f"| Wald {four} plain profile {four} profile {four} HC1 {four}"
    minutes = sum(r["cpu"] for r in results) / 60
    return [
        *table("The model holds", f"| tau | kappa | n | bound | LR {head}", true),
        *table(
            "The model is wrong", f"| noise | kappa | n | bound | Wald {four} HC1 {four}", wrong
        ),
        *table("Bootstrap", f"| noise | kappa | n | percentile {four} BCa {four}", boot),
        f"{results[0]['reps']} replications of each cell ({results[-1]['reps']} for the bootstrap), "
        f"{minutes:.0f} minutes of one core.",
    ]


def write(path, lines):
    """Put the tables between the markers of a Markdown file."""
    text = Path(path).read_text()
    begin, end = "<!-- tables -->", "<!-- end of tables -->"
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    Path(path).write_text(head + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + tail)


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 replications instead of 500")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2), help="processes")
    parser.add_argument("--write", metavar="FILE", help="Markdown file whose tables to replace")
    parser.add_argument("--json", metavar="FILE", help="file for the numbers")
    parser.add_argument("--check", action="store_true", help="compare with the solver and stop")
    options = parser.parse_args(argv)
    if options.check:
        return 0 if check() < 0.2 else 1
    tasks = design(100 if options.quick else 500)
    results = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(run, tasks):
            results.append(result)
            print(json.dumps(result), file=sys.stderr, flush=True)
    lines = tables(results)
    print("\n".join(lines))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    if options.write:
        write(options.write, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
