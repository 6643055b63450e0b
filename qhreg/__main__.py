"""The command line: ``python -m qhreg demo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from qhreg._version import __version__

__all__ = ["demo", "main"]


def demo() -> str:
    """Return what ``python -m qhreg demo`` prints: a fit to Engel's food data, and what is proved.

    The model is imported here, so that ``--version`` and ``--help`` do not wait for it.
    """
    from statsmodels.datasets import engel

    from qhreg.formula.api import quantile_huber

    results = quantile_huber("foodexp ~ income", engel.load_pandas().data).fit()
    return f"{results.summary()}\n\n{results.certificate}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qhreg",
        description="Regression with the quantile Huber likelihood, its asymmetry tau estimated.",
    )
    parser.add_argument("--version", action="version", version=f"qhreg {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "demo", help="fit Engel's food data and show the summary and the certificate"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _parser().parse_args(argv)
    sys.stdout.write(demo() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
