"""Print the time of every peer on common sizes: ``python -m benchmarks.peers [--quick]``."""

from __future__ import annotations

import argparse

from benchmarks.peers import python_peers, r_peer
from benchmarks.peers.data import make_regression

SIZES = [(1_000, 5), (10_000, 10), (100_000, 10), (1_000_000, 20)]


def main() -> None:
    """Print one line per size and peer: wall and processor time, ratio of processor times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out a million rows")
    sizes = SIZES[:-1] if parser.parse_args().quick else SIZES
    q = 0.7
    print("       n   p  peer                    wall ms     cpu ms  cpu / normal equations")
    for n, p in sizes:
        X, y, _ = make_regression(n, p, seed=1)
        repeats = 20 if n <= 10_000 else 5
        rows = {
            "normal equations": python_peers.time_normal_equations(X, y, repeats),
            "OLS.fit": python_peers.time_ols(X, y, repeats),
            "L-BFGS-B, kappa 1": python_peers.time_lbfgsb(X, y, 1.0, repeats),
            "QuantReg.fit": python_peers.time_quantreg(X, y, q, 1 + 4 * (n < 1e5)),
        }
        if r_peer.have_r():
            for method in ("rq_pfn", "rq_formula_pfn", "conquer", "conquer_uniform"):
                rows[f"R {method}"] = r_peer.time_r(method, X, y, q, repeats)
        base = rows["normal equations"]["cpu_seconds"]
        for name, row in rows.items():
            wall, cpu = 1e3 * row["seconds"], 1e3 * row["cpu_seconds"]
            print(
                f"{n:>8} {p:>3}  {name:<18} {wall:>10.2f} {cpu:>10.2f} {row['cpu_seconds'] / base:>8.1f}"
            )


if __name__ == "__main__":
    main()
