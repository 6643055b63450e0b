"""Which commands there are, with their options; the longer texts of ``--help`` are in ``help``."""

from __future__ import annotations

import argparse
from importlib import resources
from typing import Any, NoReturn

from qhreg._version import __version__
from qhreg.cli.files import FORMATS
from qhreg.covariance.choice import COVARIANCE_TYPES, DEFAULT_TYPE

DESCRIPTION = """\
Regression when the noise leans to one side: coefficients, scale sigma and
asymmetry tau of the quantile Huber likelihood, estimated together."""


class _Parser(argparse.ArgumentParser):
    """A parser that reports what it does not understand in one line."""

    def error(self, message: str) -> NoReturn:
        """Write the message as one line and leave with exit code 2."""
        self.exit(2, f"qhreg: error: {message}; see '{self.prog} --help'\n")


def _number_or_estimate(text: str) -> float | None:
    if text == "estimate":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'estimate'") from None


def _covariance(text: str) -> str:
    """Return the name of a covariance as it is written, whatever its letter case here."""
    return {name.lower(): name for name in COVARIANCE_TYPES}.get(text.lower(), text)


def _help_of(command: str) -> dict[str, Any]:
    """Return the text below the options of a command, and that its lines are as they are written."""
    text = resources.files("qhreg.cli").joinpath("help", f"{command}.txt").read_text("utf-8")
    return {"epilog": text, "formatter_class": argparse.RawDescriptionHelpFormatter}


def _add_table(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the options of a file with data."""
    formats = ", ".join(FORMATS)
    parser.add_argument("--data", required=True, metavar="FILE", help=f"{what}: {formats}")
    add = parser.add_argument_group("tables of text").add_argument
    sep = "what separates columns, or 'tab' (default: a comma; a tab in .tsv and .txt)"
    add("--sep", metavar="CHAR", help=sep)
    add("--decimal", metavar="CHAR", help="decimal sign (default: a point)")
    add("--thousands", metavar="CHAR", help="what separates thousands, such as ,")
    add("--encoding", metavar="NAME", help="such as latin-1 (default: UTF-8)")
    na = "values that stand for missing ones, such as '?' (besides empty ones, NA, NaN, ...)"
    add("--na", nargs="+", default=(), metavar="VALUE", help=na)


def _add_common(add: Any) -> None:
    """Add options that several commands have."""
    add("--alpha", type=float, default=0.05, help="one minus the coverage of intervals (0.05)")
    force = "write over a file that is read, or a saved model"
    add("--force", action="store_true", help=force)


def _add_fit(commands: argparse._SubParsersAction[_Parser]) -> None:
    what = "fit a formula to a data file and print the summary"
    description = f"{what.capitalize()}."
    parser = commands.add_parser("fit", help=what, description=description, **_help_of("fit"))
    parser.add_argument("formula", help='such as "y ~ x + C(group)"')
    parser.add_argument("--q", type=float, help=argparse.SUPPRESS)  # answered with what is meant
    _add_table(parser, "the table")

    add = parser.add_argument_group("model").add_argument
    number = _number_or_estimate
    kappa = "Huber width in units of sigma, 0 for the quantile loss, or 'estimate' (default 4)"
    add("--kappa", type=number, default=4.0, metavar="K", help=kappa)
    tau = "fix the asymmetry, 0 < T < 1 (default: estimate)"
    add("--tau", type=number, metavar="T", help=tau)
    add("--sigma", type=number, metavar="S", help="fix the scale, S > 0 (default: estimate)")
    bounds = "range of an estimated tau (default 0.001 0.999)"
    add("--tau-bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help=bounds)
    add("--weights", metavar="COLUMN", help="sampling weights")
    add("--freq-weights", metavar="COLUMN", help="how often each row was observed")
    add("--offset", metavar="COLUMN", help="known part of the location")
    missing = "rows with missing values: drop them (default), or stop"
    add("--missing", choices=("drop", "raise"), default="drop", help=missing)

    add = parser.add_argument_group("standard errors").add_argument
    default = f"default: {DEFAULT_TYPE}"
    add("--cov-type", type=_covariance, choices=tuple(COVARIANCE_TYPES), help=default)
    add("--groups", metavar="COLUMN", help="clusters, for --cov-type cluster")
    add("--maxlags", type=int, metavar="L", help="lags, for --cov-type HAC")
    kinds = ("wald", "profile", "bootstrap")
    interval = "by standard errors (default), the likelihood ratio, or resampling rows"
    add("--interval", choices=kinds, default="wald", help=interval)

    add = parser.add_argument_group("output").add_argument
    keys = "print JSON instead of the summary; its keys are in docs/cli.md"
    add("--json", action="store_true", help=keys)
    certify = "also prove that the maximum is global over tau"
    add("--certify", action="store_true", help=certify)
    add("--save", metavar="FILE", help="save the fitted model, a Python pickle")
    report = "write one self-contained HTML page: a reading, pictures, tables, proofs"
    add("--report", metavar="FILE", help=report)
    _add_common(add)


def _add_predict(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict new rows from a saved model",
        description=(
            "Predict new rows from a model saved by 'qhreg fit --save': the fitted line unless --which\n"
            "says otherwise. Prints CSV with columns named after what is predicted."
        ),
        **_help_of("predict"),
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="file written by 'qhreg fit --save'")
    kinds = ("mean", "location", "median", "quantile", "prob", "var")
    which = "what to predict (default location, the fitted line, as predict in Python)"
    add("--which", choices=kinds, default="location", help=which)
    add("--q", type=float, nargs="+", metavar="Q", help="levels of the quantiles")
    thresholds = "thresholds of the probabilities"
    add("--y-values", type=float, nargs="+", metavar="Y", help=thresholds)
    add("--out", metavar="FILE", help="write the CSV here instead of printing it")
    keep = "write these columns of the new rows before the predictions; without names all of them"
    add("--keep", nargs="*", metavar="COLUMN", help=keep)
    _add_common(add)
    _add_table(parser, "the new rows")


def _add_paper(commands: argparse._SubParsersAction[_Parser]) -> None:
    what = "reproduce the paper's figures and tables"
    description = f"{what.capitalize()} beside what it prints."
    parser = commands.add_parser("paper", help=what, description=description, **_help_of("paper"))
    add = parser.add_argument
    add("--out", default="paper", metavar="DIR", help="folder to write (default: paper)")
    parts = ("figures", "table_1", "table_2")
    only = f"make these parts: {', '.join(parts)} (default: all)"
    add("--only", nargs="+", choices=parts, metavar="PART", help=only)
    quick = "5 draws in each row of Table 1 instead of 1000"
    add("--quick", action="store_true", help=quick)
    repetitions = "draws in each row of Table 1 (default 1000)"
    add("--repetitions", type=int, metavar="N", help=repetitions)
    add("--seed", type=int, default=0, help="of the draws (default 0)")
    add("--data", metavar="DIR", help="folder with the CSV files of Table 2")


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="fit Engel's food data and show the summary and what is proved",
        description=(
            "Fit Engel's food data (235 households) by formula; print the summary, the "
            "certificates and the profile interval of tau, and draw its profile likelihood."
        ),
    )
    picture = "where to draw the profile likelihood of tau: .png, .svg or .pdf (%(default)s)"
    parser.add_argument("--picture", metavar="FILE", default="qhreg_demo.png", help=picture)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(prog="qhreg", description=DESCRIPTION, **_help_of("qhreg"))
    parser.add_argument("--version", action="version", version=f"qhreg {__version__}")
    traceback = "show where in the program an error arose"
    parser.add_argument("--traceback", action="store_true", help=traceback)
    names = "{demo,fit,predict,paper}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    _add_demo(commands)
    _add_fit(commands)
    _add_predict(commands)
    _add_paper(commands)
    return parser
