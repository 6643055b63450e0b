"""The command line: ``python -m qhreg demo``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from qhreg._version import __version__
from qhreg.certificate import biconvexity_certificate
from qhreg.distribution import quantile_huber

__all__ = ["demo", "main"]


def _model() -> list[str]:
    """Return the summary and the certificate of a fit to Engel's food data, if there is a model."""
    try:
        formula = importlib.import_module("qhreg.formula.api")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("qhreg.formula"):
            raise
        return []
    datasets = importlib.import_module("statsmodels.datasets")
    engel = datasets.engel.load_pandas().data
    results = formula.quantile_huber("foodexp ~ income", engel).fit()
    return [str(results.summary()), str(results.certificate)]


def _family() -> str:
    """Return a table of the distribution at three asymmetries."""
    lines = [
        "Quantile Huber distribution, kappa = 1",
        f"  {'tau':>5}{'mean':>10}{'std':>10}{'P(u < 0)':>10}",
    ]
    for tau in (0.25, 0.5, 0.75):
        law = quantile_huber(tau, 1.0)
        lines.append(f"  {tau:5.2f}{law.mean():10.4f}{law.std():10.4f}{law.cdf(0.0):10.4f}")
    return "\n".join(lines)


def demo() -> str:
    """Return what ``python -m qhreg demo`` prints."""
    certificates = [str(biconvexity_certificate(kappa)) for kappa in (1.0, 8.0)]
    return "\n\n".join([*(_model() or [_family()]), *certificates])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qhreg",
        description="Regression with the quantile Huber likelihood, its asymmetry tau estimated.",
    )
    parser.add_argument("--version", action="version", version=f"qhreg {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="show what the package does on a small example")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _parser().parse_args(argv)
    sys.stdout.write(demo() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
