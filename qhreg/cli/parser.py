"""Which commands there are, with their options and the text of ``--help``."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from qhreg._version import __version__
from qhreg.cli.files import FORMATS

__all__ = ["make_parser"]

COVARIANCES = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster", "HAC", "bootstrap")
"""The types of standard errors."""

INTERVALS = ("wald", "profile", "bootstrap")
"""The kinds of confidence intervals."""

DESCRIPTION = """\
Regression when the noise leans to one side: coefficients, scale sigma and
asymmetry tau of the quantile Huber likelihood, estimated together.
"""

EPILOG = """\
examples:
  qhreg demo                                        a fit to Engel's food data
  qhreg fit "foodexp ~ income" --data engel.csv     estimate and print the summary
  qhreg fit "np.log(y) ~ x + C(group)" --data d.csv --cov-type cluster --groups firm
  qhreg fit "y ~ x" --data d.csv --save m.pickle --report m.html
  qhreg predict m.pickle --data new.csv --which quantile --q 0.05 0.5 0.95
  qhreg paper --out reproduction --quick            the paper's figures and tables

Errors are one line on the error stream, with exit code 2.
"""

FIT_EPILOG = """\
tau is the slope of the loss on negative residuals and 1 - tau that on positive
ones: noise with a long right tail gives a high tau. x'beta is the 1 - tau quantile
only at --kappa 0; the summary prints its level.

A formula is Python code, and is run: fit none that you would not run. np is numpy, as in
"np.log(y) ~ x". A column whose name is not a word: Q("Solar.R").

Standard errors: HC3, the default, and HC0 to HC2 hold for any noise in independent rows;
nonrobust trusts the density; cluster allows dependence within --groups, HAC between
neighbouring rows (a time series); bootstrap draws rows again.

examples:
  qhreg fit "y ~ x + z" --data d.csv
  qhreg fit "y ~ x" --data d.parquet --tau 0.9 --kappa 0    the 10 % quantile regression
  qhreg fit "y ~ x" --data d.csv --kappa estimate           the Huber width too
  qhreg fit "y ~ x" --data d.csv --sigma 1                  the paper's model
  qhreg fit "y ~ x" --data d.csv --sep ";" --decimal , --na "?"
  qhreg fit "y ~ x" --data d.csv --json > fit.json
"""

PREDICT_EPILOG = """\
--which: the mean, the median, the location (the fitted line), a quantile (needs --q), the
probability P(y <= Y) (prob, needs --y-values), or the variance (var). One quantity comes
with its standard error and intervals, several levels or thresholds as columns.

A saved model is a Python pickle: open only files that you trust.

examples:
  qhreg predict m.pickle --data new.csv                         the line, with intervals
  qhreg predict m.pickle --data new.csv --which quantile --q 0.05 0.5 0.95
  qhreg predict m.pickle --data new.csv --which prob --y-values 100 --out p.csv
  qhreg predict m.pickle --data new.csv --keep household
"""

PAPER_EPILOG = """\
Writes tables (CSV), the paper's figures beside ours, and pictures (PNG). Table 1 is made
with the paper's 100 draws in each row, and with 1000 to see past the Monte Carlo error.
Each part is written when it is made, and can be made on its own:

  figures   the figures without regression               a few seconds
  table_1   Table 1, the penalty at fixed tau            ten to fifteen minutes
  table_2   Table 2 and the paths of tau, by boosting    about a minute

on one core. --quick makes 5 draws in each row, half a minute in all. Table 2 needs the data
of the extra qhreg[paper], or the folder of the four CSV files: --data, or the environment
variable QHREG_PAPER_DATA.

examples:
  qhreg paper --quick                               a first look
  qhreg paper --out reproduction                    all of it
  qhreg paper --out reproduction --only table_2     one part again
"""


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


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be at least 2, got {value}")
    return value


def _separator(text: str) -> str:
    sep = "\t" if text in ("tab", "\\t") else text
    if len(sep) != 1:
        raise argparse.ArgumentTypeError(f"must be one character or 'tab', got {text!r}")
    return sep


def _covariance(text: str) -> str:
    """Return the name of a covariance as it is written, whatever its letter case here."""
    return {name.lower(): name for name in COVARIANCES}.get(text.lower(), text)


class _Level(argparse.Action):
    """An option that other programs have: it is answered with those that do the same."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        """Write which options are meant, and leave with exit code 2."""
        q = arguments[1]
        parser.error(f"fit has no --q: for the {q:g} quantile give --tau {1.0 - q:g} --kappa 0")


def _add_text_format(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("tables of text")
    text.add_argument(
        "--sep",
        type=_separator,
        metavar="CHAR",
        help="what separates columns, or 'tab' (default: a comma; a tab in .tsv and .txt)",
    )
    text.add_argument("--decimal", metavar="CHAR", help="decimal sign (default: a point)")
    text.add_argument("--thousands", metavar="CHAR", help="what separates thousands, such as ,")
    text.add_argument("--encoding", metavar="NAME", help="such as latin-1 (default: UTF-8)")
    text.add_argument(
        "--na",
        nargs="+",
        default=(),
        metavar="VALUE",
        help="values that stand for missing ones, such as '?' (besides empty ones, NA, NaN, ...)",
    )


def _add_force(parser: Any) -> None:
    parser.add_argument(
        "--force", action="store_true", help="write over a file that is read, or a saved model"
    )


def _add_fit(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "fit",
        help="fit a formula to a data file and print the summary",
        description="Fit a formula to a data file and print the summary.",
        epilog=FIT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("formula", help='such as "y ~ x + C(group)"')
    parser.add_argument(
        "--data", required=True, metavar="FILE", help=f"the table: {', '.join(FORMATS)}"
    )
    parser.add_argument("--q", type=float, action=_Level, help=argparse.SUPPRESS)
    _add_text_format(parser)
    model = parser.add_argument_group("model")
    model.add_argument(
        "--kappa",
        type=_number_or_estimate,
        default=4.0,
        metavar="K",
        help="Huber width in units of sigma, 0 for the quantile loss, or 'estimate' (default 4)",
    )
    model.add_argument(
        "--tau",
        type=_number_or_estimate,
        metavar="T",
        help="fix the asymmetry, 0 < T < 1 (default: estimate)",
    )
    model.add_argument(
        "--sigma",
        type=_number_or_estimate,
        metavar="S",
        help="fix the scale, S > 0 (default: estimate)",
    )
    model.add_argument(
        "--tau-bounds",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="range of an estimated tau (default 0.001 0.999)",
    )
    model.add_argument("--weights", metavar="COLUMN", help="sampling weights")
    model.add_argument("--freq-weights", metavar="COLUMN", help="how often each row was observed")
    model.add_argument("--offset", metavar="COLUMN", help="known part of the location")
    model.add_argument(
        "--missing",
        choices=("drop", "raise"),
        default="drop",
        help="rows with missing values: drop them (default), or stop",
    )
    errors = parser.add_argument_group("standard errors")
    errors.add_argument(
        "--cov-type",
        type=_covariance,
        choices=COVARIANCES,
        help="default: HC3",
    )
    errors.add_argument("--groups", metavar="COLUMN", help="clusters, for --cov-type cluster")
    errors.add_argument("--maxlags", type=int, metavar="L", help="lags, for --cov-type HAC")
    errors.add_argument(
        "--interval",
        choices=INTERVALS,
        default="wald",
        help="by standard errors (default), the likelihood ratio, or resampling rows",
    )
    errors.add_argument(
        "--alpha", type=float, default=0.05, help="one minus the coverage of intervals (0.05)"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json",
        action="store_true",
        help="print JSON instead of the summary; its keys are in docs/cli.md",
    )
    output.add_argument(
        "--certify", action="store_true", help="also prove that the maximum is global over tau"
    )
    output.add_argument("--save", metavar="FILE", help="save the fitted model, a Python pickle")
    output.add_argument(
        "--report",
        metavar="FILE",
        help="write one self-contained HTML page: a reading, pictures, tables, proofs",
    )
    _add_force(output)


def _add_predict(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict new rows from a saved model",
        description=(
            "Predict new rows from a model saved by 'qhreg fit --save': the fitted line unless --which\n"
            "says otherwise. Prints CSV with columns named after what is predicted."
        ),
        epilog=PREDICT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by 'qhreg fit --save'")
    parser.add_argument(
        "--data", required=True, metavar="FILE", help=f"the new rows: {', '.join(FORMATS)}"
    )
    parser.add_argument(
        "--which",
        choices=("mean", "location", "median", "quantile", "prob", "var"),
        default="location",
        help="what to predict (default location, the fitted line, as predict in Python)",
    )
    parser.add_argument("--q", type=float, nargs="+", metavar="Q", help="levels of the quantiles")
    parser.add_argument(
        "--y-values", type=float, nargs="+", metavar="Y", help="thresholds of the probabilities"
    )
    parser.add_argument(
        "--alpha", type=float, default=0.05, help="one minus the coverage of intervals (0.05)"
    )
    parser.add_argument("--out", metavar="FILE", help="write the CSV here instead of printing it")
    _add_force(parser)
    parser.add_argument(
        "--keep",
        nargs="*",
        metavar="COLUMN",
        help="write these columns of the new rows before the predictions; without names all of them",
    )
    _add_text_format(parser)


def _add_paper(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "paper",
        help="reproduce the paper's figures and tables",
        description="Reproduce the paper's figures and tables beside what it prints.",
        epilog=PAPER_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", default="paper", metavar="DIR", help="folder to write (default: paper)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("figures", "table_1", "table_2"),
        metavar="PART",
        help="make these parts: figures, table_1, table_2 (default: all)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="5 draws in each row of Table 1 instead of 1000"
    )
    parser.add_argument(
        "--repetitions",
        type=_whole,
        metavar="N",
        help="draws in each row of Table 1 (default 1000)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
    parser.add_argument("--data", metavar="DIR", help="folder with the CSV files of Table 2")


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="fit Engel's food data and show the summary and what is proved",
        description=(
            "Fit Engel's food data (235 households) by formula; print the summary, the "
            "certificates and the profile interval of tau, and draw its profile likelihood."
        ),
    )
    parser.add_argument(
        "--picture",
        metavar="FILE",
        default="qhreg_demo.png",
        help="where to draw the profile likelihood of tau: .png, .svg or .pdf (%(default)s)",
    )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="qhreg",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"qhreg {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the program an error arose"
    )
    names = "{demo,fit,predict,paper}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    _add_demo(commands)
    _add_fit(commands)
    _add_predict(commands)
    _add_paper(commands)
    return parser
