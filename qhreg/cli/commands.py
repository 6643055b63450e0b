"""What each command does. The model is imported inside, so that ``--help`` does not wait for it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import pickle
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from patsy import PatsyError

from qhreg._version import __version__
from qhreg.cli.files import check_folder, check_target, read_table
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.formulas import check_formula, mentions

_WRITTEN = {
    r"-?\d{1,3}(,\d{3})+(\.\d*)?": "--thousands ,",
    r"-?\d*,\d+": "--decimal ,",
    r"-?\d{1,3}(\.\d{3})+(,\d*)?": "--thousands . --decimal ,",
    r"-?\d{1,3}( \d{3})+(\.\d*)?": "--thousands ' '",
}
"""How numbers are written that are not read as such, with the options that read them."""


# ------------------------------------------------------------------ demo


def demo(picture: str) -> str:
    """Return what the demonstration prints: a fit to Engel's food data, and what is proved.

    Parameters
    ----------
    picture : path
        Where to draw the profile likelihood of tau.
    """
    from statsmodels.datasets import engel

    from qhreg.formula.api import quantile_huber

    results = quantile_huber("foodexp ~ income", engel.load_pandas().data).fit()
    proof = results.certify_global()
    profile = results.profile_likelihood("tau", certificate=proof)
    low, high = profile.conf_int()
    drawn = f"Profile likelihood of tau drawn in {picture}"
    if importlib.util.find_spec("matplotlib") is None:
        drawn = "No picture, since matplotlib is not installed: pip install 'qhreg[plot]'"
    else:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        profile.plot(ax=figure.subplots())
        figure.savefig(picture, dpi=120)
    interval = f"95 % profile-likelihood interval of tau: {low:.4f} to {high:.4f}"
    parts = (results.summary(), results.certificate, proof, interval, drawn)
    return "\n\n".join(map(str, parts))


def _run_demo(options: argparse.Namespace) -> None:
    if not options.picture.lower().endswith((".png", ".svg", ".pdf")):
        raise DomainError(f"a picture ends in .png, .svg or .pdf, got {options.picture!r}")
    check_target(options.picture)
    _say(demo(options.picture))


# ------------------------------------------------------------------ fit


def _some(text: pd.Series) -> str:
    """Return the first different values of a column in words."""
    values = text.unique()
    shown = ", ".join(repr(value) for value in values[:3])
    return f"{shown} and {len(values) - 3} other texts" if len(values) > 3 else shown


def _mend(text: pd.Series) -> str:
    """Return which options would read values as numbers or as missing ones, if some would."""
    written = text.astype(str).str.strip()
    digits = written.str.contains(r"\d", regex=True)
    numbers, words = written[digits], written[~digits].unique().tolist()
    hints = [f"add {opts}" for form, opts in _WRITTEN.items() if numbers.str.fullmatch(form).all()]
    hints = hints[:1] if numbers.size else []
    if 0 < len(words) <= 3:
        hints.append(f"add --na {shlex.join(words)} if that is a missing value")
    return "".join(f"; {hint}" for hint in hints)


def _reject_text(formula: str, data: pd.DataFrame, decimal: str | None = None) -> None:
    """Raise a DataError for text in the target, or in a column of which most values are numbers.

    With a decimal sign that is not theirs all numbers are text.
    """
    target = formula.partition("~")[0].strip()
    for name, column in data.items():
        factor = rf"""\bC\(\s*(Q\(\s*['"])?{re.escape(str(name))}(?!\w)"""
        written = pd.api.types.is_string_dtype(column.dtype) and mentions(formula, name)
        if not written or re.search(factor, formula):
            continue
        values = column.dropna()
        text = values[pd.to_numeric(values, errors="coerce").isna()]
        if name == target:
            shown = _some(text if text.size else column)
            raise DataError(f"the target {name!r} is not numeric, it holds {shown}{_mend(text)}")
        if decimal is not None and not text.size:
            shown = _some(column)
            raise DataError(f"with --decimal {decimal} the column {name!r} holds text: {shown}")
        digits = text.astype(str).str.replace(r"[, ]", "", regex=True)
        words = int(pd.to_numeric(digits, errors="coerce").isna().sum())
        if text.size and 2 * words < column.count():
            raise DataError(
                f"most of the {column.count()} values of {name!r} are numbers, but it also holds "
                f"{_some(text)}{_mend(text)}; write C({name}) in the formula for categories"
            )


def fit_formula(data: pd.DataFrame, options: argparse.Namespace) -> Any:
    """Return the fit that the options of the command ask for.

    Parameters
    ----------
    data : DataFrame
        The table.
    options : Namespace
        What the parser of ``fit`` returns.
    """
    from qhreg.formula.api import quantile_huber

    if options.q is not None:
        given = f"--tau {1.0 - options.q:g} --kappa 0"
        raise DomainError(f"fit has no --q: for the {options.q:g} quantile give {given}")
    check_formula(options.formula, data)
    _reject_text(options.formula, data, options.decimal)
    for name, cov_type in (("groups", "cluster"), ("maxlags", "HAC")):
        if getattr(options, name) is not None and options.cov_type != cov_type:
            raise DomainError(f"--{name} goes with --cov-type {cov_type}")
    if options.cov_type == "cluster" and options.groups is None:
        raise DomainError("--cov-type cluster needs --groups, the column of the clusters")
    names = ("kappa", "tau", "sigma", "missing", "weights", "freq_weights", "offset")
    arguments = {name: getattr(options, name) for name in names}
    if options.tau_bounds is not None:
        arguments["tau_bounds"] = tuple(options.tau_bounds)
    try:
        model = quantile_huber(options.formula, data, eval_env={"np": np}, **arguments)
    except SyntaxError as error:
        raise DataError(f"cannot read the formula {options.formula!r}: {error.msg}") from error
    except PatsyError as error:
        # its own text marks the place by carets on a second line
        raise DataError(f"the formula {options.formula!r}: {error.message}") from error
    extra = {"groups": options.groups, "maxlags": options.maxlags}
    cov_kwds = {name: value for name, value in extra.items() if value is not None}
    return model.fit(cov_type=options.cov_type, cov_kwds=cov_kwds or None)


def _finite(value: Any) -> Any:
    """Return what JSON knows: None for NaN and infinity, within dicts and lists too."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(results: Any, options: argparse.Namespace, proof: Any = None) -> dict[str, Any]:
    """Return the fit as numbers, texts, lists and dicts; None stands for NaN and infinity.

    Parameters
    ----------
    results : QuantileHuberResultsWrapper
        The fit.
    options : Namespace
        What the parser of ``fit`` returns.
    proof : GlobalCertificate, optional
        That no other tau is better.
    """
    limits = np.asarray(results.conf_int(alpha=options.alpha, method=options.interval))
    certificate = results.certificate
    values = ("sigma", "tau", "kappa", "llf", "aic", "bic", "nobs", "df_model", "df_resid")
    numbers = {
        "qhreg": __version__,
        "formula": options.formula,
        **{name: getattr(results, name).to_dict() for name in ("params", "bse", "pvalues")},
        "conf_int": dict(zip(results.params.index, limits.tolist(), strict=True)),
        "alpha": options.alpha,
        "interval": options.interval,
        "rows_dropped": _dropped(results),
        "cov_type": results.cov_type,
        **{name: float(getattr(results, name)) for name in (*values, "quantile_level")},
        "converged": bool(results.converged),
        "duality_gap": float(results.duality_gap),
        "tau_at_bound": bool(results.solution.tau_at_bound),
        "certificate": {
            **{n: float(getattr(certificate, n)) for n in ("kappa", "min_curvature", "margin")},
            "holds": bool(certificate.holds),
        },
    }
    if proof is not None:
        ends = {name: float(getattr(proof, name)) for name in ("gap", "lower_bound", "upper_bound")}
        numbers["global_certificate"] = {**ends, "holds": bool(proof.holds)}
    plain: dict[str, Any] = _finite(numbers)
    return plain


def _dropped(results: Any) -> int:
    """Return how many of the given rows are not in a fit."""
    return int(results.model.nobs_given - len(results.model.endog))


def _interval_table(results: Any, alpha: float, interval: str) -> str:
    """Return intervals of another kind than those of the summary as a text."""
    limits = results.conf_int(alpha=alpha, method=interval)
    table = limits.set_axis([f"[{0.5 * alpha:g}", f"{1.0 - 0.5 * alpha:g}]"], axis=1)
    name = {"profile": "profile-likelihood"}.get(interval, interval)
    return f"{100 * (1 - alpha):g} % {name} intervals\n{table.to_string(float_format='%.4f')}"


def _run_fit(options: argparse.Namespace) -> None:
    _check_alpha(options)
    keep = [] if options.force else [options.data, *filter(None, [options.save])]
    for target in filter(None, (options.save, options.report)):
        check_target(target, keep)
    if options.report is not None and not options.report.lower().endswith((".html", ".htm")):
        raise DomainError(f"a report is an HTML page and ends in .html, got {options.report!r}")
    results = fit_formula(_read(options), options)
    if _dropped(results):
        _note(f"{_dropped(results)} of {results.model.nobs_given} rows left out: missing values")
    proof = results.certify_global() if options.certify else None
    if options.save is not None:
        results.save(options.save)
        _note(f"model saved to {options.save}")
    if options.report is not None:
        from qhreg.cli.report import html_report

        intervals = {"alpha": options.alpha, "interval": options.interval}
        page = html_report(results, title=options.formula, **intervals)
        Path(options.report).write_text(page, encoding="utf-8")
        _note(f"report written to {options.report}")
    if options.json:
        _say(json.dumps(as_json(results, options, proof), indent=2, allow_nan=False))
        return
    _say(str(results.summary(alpha=options.alpha)))
    if options.interval != "wald":
        _say(f"\n{_interval_table(results, options.alpha, options.interval)}")
    if proof is not None:
        _say(f"\n{proof}")


# ------------------------------------------------------------------ predict


def _load(file: str) -> Any:
    """Return a saved fit."""
    path = Path(file)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        with path.open("rb") as stream:
            results = pickle.load(stream)
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{path} is not a saved model ({type(error).__name__})") from error
    if not hasattr(results, "get_prediction") or not hasattr(results, "quantile_level"):
        raise DataError(f"{path} holds a {type(results).__name__}, not a fit of qhreg")
    return results


def predictions(results: Any, data: pd.DataFrame, options: argparse.Namespace) -> pd.DataFrame:
    """Return the predictions as a table, with intervals where a single value is asked for.

    Parameters
    ----------
    results : QuantileHuberResultsWrapper
        The fit.
    data : DataFrame
        New rows.
    options : Namespace
        What the parser of ``predict`` returns.
    """
    for name, which in (("q", "quantile"), ("y_values", "prob")):
        option = f"--{name.replace('_', '-')}"
        if getattr(options, name) is not None and options.which != which:
            raise DomainError(f"{option} goes with --which {which}, not with {options.which}")
        if getattr(options, name) is None and options.which == which:
            raise DomainError(f"--which {which} needs {option}")
    given = {"q": options.q, "y_values": options.y_values}
    given = {name: value for name, value in given.items() if value is not None}
    values: list[float] = next(iter(given.values()), [])
    if len(values) > 1:
        table = pd.DataFrame(results.predict(data, which=options.which, **given))
        letter = "q" if options.which == "quantile" else "prob"
        return table.set_axis([f"{letter}_{value:g}" for value in values], axis=1)
    single = {name: value[0] for name, value in given.items()}
    prediction = results.get_prediction(data, which=options.which, **single)
    return pd.DataFrame(prediction.summary_frame(options.alpha))


def _beside(table: pd.DataFrame, data: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return predictions after columns of their rows, all of them where none is named."""
    if not names and not isinstance(data.index, pd.RangeIndex):
        data = data.reset_index(names="row")
    for name in names:
        if name not in data.columns:
            columns = ", ".join(str(column) for column in data.columns)
            raise DataError(f"--keep {name!r}: there is no such column; the columns are {columns}")
    kept = data[names] if names else data
    taken = [str(name) for name in kept.columns if name in table.columns]
    if taken:
        raise DataError(
            f"--keep would write two columns called {taken[0]!r}: name the columns to keep without it"
        )
    parts = [part.reset_index(drop=True) for part in (kept, table)]
    return pd.concat(parts, axis=1)


def _run_predict(options: argparse.Namespace) -> None:
    _check_alpha(options)
    if options.out is not None:
        check_target(options.out, [] if options.force else [options.data, options.model])
    results = _load(options.model)
    data = _read(options)
    table = predictions(results, data, options)
    if options.keep is not None:
        table = _beside(table, data, options.keep)
    text = table.to_csv(index=False)
    if options.out is None:
        sys.stdout.write(text)
    else:
        Path(options.out).write_text(text, encoding="utf-8")
        _note(f"{len(table)} predictions written to {options.out}")


# ------------------------------------------------------------------ paper


def _run_paper(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise DataError("the figures need matplotlib: pip install 'qhreg[paper]'")
    if options.repetitions is not None and options.repetitions < 2:
        raise DomainError(f"--repetitions must be at least 2, got {options.repetitions}")
    check_folder(options.out)
    from qhreg.paper.report import PARTS, QUICK, REPETITIONS, reproduce

    started = time.monotonic()

    def tell(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - started), 60)
        sys.stderr.write(f"[{minutes:3d}:{seconds:02d}] {text}\n")
        sys.stderr.flush()

    names = reproduce(
        options.out,
        options.repetitions or (QUICK if options.quick else REPETITIONS),
        parts=options.only or PARTS,
        seed=options.seed,
        data=options.data,
        progress=tell,
    )
    tell("done")
    _say(f"in {options.out}: {', '.join(names)}")


def _read(options: argparse.Namespace) -> pd.DataFrame:
    """Return the table of a command."""
    names = ("sep", "decimal", "thousands", "encoding", "na")
    return read_table(options.data, **{name: getattr(options, name) for name in names})


def _check_alpha(options: argparse.Namespace) -> None:
    if not 0.0 < options.alpha < 1.0:
        raise DomainError(f"--alpha must lie between 0 and 1, got {options.alpha:g}")


def _note(text: str) -> None:
    """Write a line about the work on the error stream: the other one is for results."""
    sys.stderr.write(f"qhreg: {text}\n")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "demo": _run_demo,
    "fit": _run_fit,
    "predict": _run_predict,
    "paper": _run_paper,
}
"""The commands by name."""
