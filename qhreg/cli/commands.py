"""What each command does. The model is imported inside, so that ``--help`` does not wait for it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import pickle
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from patsy import PatsyError

from qhreg._version import __version__
from qhreg.cli.files import check_folder, check_target, read_table, separator_hint
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.formula_text import mentions

__all__ = ["COMMANDS", "as_json", "demo", "fit_formula", "predictions"]


# ------------------------------------------------------------------ demo


def demo(picture: str | None = None) -> str:
    """Return what the demonstration prints: a fit to Engel's food data, and what is proved.

    Parameters
    ----------
    picture : path, optional
        Where to draw the profile likelihood of tau.
    """
    from statsmodels.datasets import engel

    from qhreg.formula.api import quantile_huber

    results = quantile_huber("foodexp ~ income", engel.load_pandas().data).fit()
    proof = results.certify_global()
    profile = results.profile_likelihood("tau", certificate=proof)
    low, high = profile.conf_int()
    text = [
        str(results.summary()),
        str(results.certificate),
        str(proof),
        f"95 % profile-likelihood interval of tau: {low:.4f} to {high:.4f}",
    ]
    if picture is not None:
        text.append(_draw_profile(profile, picture))
    return "\n\n".join(text)


def _draw_profile(profile: Any, path: str) -> str:
    """Draw a profile likelihood into a file and return a sentence about it."""
    if importlib.util.find_spec("matplotlib") is None:
        return "No picture, since matplotlib is not installed: pip install 'qhreg[plot]'"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    profile.plot(ax=figure.subplots())
    figure.savefig(path, dpi=120)
    return f"Profile likelihood of tau drawn in {path}"


def _run_demo(options: argparse.Namespace) -> None:
    if not options.picture.lower().endswith((".png", ".svg", ".pdf")):
        raise DomainError(f"a picture ends in .png, .svg or .pdf, got {options.picture!r}")
    check_target(options.picture)
    _say(demo(options.picture))


# ------------------------------------------------------------------ fit


def _check_target(formula: str, data: pd.DataFrame) -> None:
    """Raise a DataError when the formula has no left side, or a column that holds no numbers."""
    left, tilde, right = formula.partition("~")
    target = left.strip()
    if not (tilde and target and right.strip()):
        raise DataError(f'a formula has the form "y ~ x", got {formula!r}')
    if list(data.columns).count(target) == 1 and not _holds_numbers(data[target].dtype):
        sample = _no_numbers(data[target]).head(1).tolist()
        shown = f", it holds {sample[0]!r}" if sample else ""
        raise DataError(f"the target {target!r} is not numeric{shown}")


def _holds_numbers(dtype: Any) -> bool:
    kind = pd.api.types
    return kind.is_numeric_dtype(dtype) and not kind.is_bool_dtype(dtype)


def _no_numbers(column: pd.Series) -> pd.Series:
    """Return the values of a column that cannot be read as numbers."""
    values = column.dropna()
    if pd.api.types.is_bool_dtype(values.dtype):
        return values
    return values[pd.to_numeric(values, errors="coerce").isna()]


def _warn_of_text(formula: str, data: pd.DataFrame) -> None:
    """Warn of a regressor that becomes a factor since some of its numbers are written as text."""
    for place, name in enumerate(data.columns):
        column = data.iloc[:, place]
        written = pd.api.types.is_string_dtype(column.dtype)
        if not written or not mentions(formula, name) or f"C({name}" in formula.replace(" ", ""):
            continue
        text = _no_numbers(column)
        plain = pd.to_numeric(text.astype(str).str.replace(",", ""), errors="coerce").isna()
        if text.size and 2 * int(plain.sum()) < column.count():
            warnings.warn(
                f"{name!r} is taken as categories: most of its {column.count()} values are numbers, "
                f"but {text.iloc[0]!r} is text",
                UserWarning,
                stacklevel=2,
            )


def _missing_name(error: BaseException | None) -> str | None:
    """Return the name that a formula mentions and the data lack, from the chain of causes."""
    while error is not None:
        if isinstance(error, NameError):
            return error.name
        error = error.__cause__ or error.__context__
    return None


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

    _check_target(options.formula, data)
    _warn_of_text(options.formula, data)
    for name, cov_type in (("groups", "cluster"), ("maxlags", "HAC")):
        if getattr(options, name) is not None and options.cov_type != cov_type:
            raise DomainError(f"--{name} goes with --cov-type {cov_type}")
    if options.cov_type == "cluster" and options.groups is None:
        raise DomainError("--cov-type cluster needs --groups, the column of the clusters")
    for name in ("weights", "freq_weights", "offset", "groups"):
        column = getattr(options, name)
        if column is not None and column not in data.columns:
            raise DataError(_no_column(column, data))
    given = {
        "weights": options.weights,
        "freq_weights": options.freq_weights,
        "offset": options.offset,
        "tau_bounds": None if options.tau_bounds is None else tuple(options.tau_bounds),
    }
    try:
        model = quantile_huber(
            options.formula,
            data,
            kappa=options.kappa,
            tau=options.tau,
            sigma=options.sigma,
            missing=options.missing,
            eval_env={"np": np},
            **{name: value for name, value in given.items() if value is not None},
        )
    except SyntaxError as error:
        raise DataError(
            f"cannot read the formula {options.formula!r}; a column whose name is not a word is "
            "written Q('its name')"
        ) from error
    except Exception as error:
        missing = _missing_name(error)
        if missing is not None:
            raise DataError(_no_column(missing, data)) from error
        # patsy's own text marks the place by carets on a second line
        if isinstance(error, PatsyError):
            raise DataError(f"the formula {options.formula!r}: {error.message}") from error
        raise
    extra = {"groups": options.groups, "maxlags": options.maxlags}
    cov_kwds = {name: value for name, value in extra.items() if value is not None}
    return model.fit(cov_type=options.cov_type, cov_kwds=cov_kwds or None)


def _no_column(name: str, data: pd.DataFrame) -> str:
    columns = [str(column) for column in data.columns]
    text = f"there is no column {name!r}; the columns are {', '.join(columns)}"
    return text + separator_hint(columns)


def _plain(value: Any) -> Any:
    """Return a number that JSON knows: None for NaN and infinity."""
    value = float(value)
    return value if math.isfinite(value) else None


def as_json(results: Any, formula: str, alpha: float = 0.05) -> dict[str, Any]:
    """Return the fit as numbers, texts, lists and dicts; None stands for NaN and infinity.

    Parameters
    ----------
    results : QuantileHuberResultsWrapper
        The fit.
    formula : str
        Its formula.
    alpha : float
        One minus the coverage of the intervals.
    """
    limits = np.asarray(results.conf_int(alpha=alpha))
    certificate = results.certificate
    names = ("sigma", "tau", "kappa", "llf", "aic", "bic", "nobs", "df_model", "df_resid")
    return {
        "qhreg": __version__,
        "formula": formula,
        "params": {str(name): _plain(v) for name, v in results.params.items()},
        "bse": {str(name): _plain(v) for name, v in results.bse.items()},
        "pvalues": {str(name): _plain(v) for name, v in results.pvalues.items()},
        "conf_int": {
            str(name): [_plain(low), _plain(high)]
            for name, (low, high) in zip(results.params.index, limits, strict=True)
        },
        "alpha": alpha,
        "cov_type": results.cov_type,
        **{name: _plain(getattr(results, name)) for name in names},
        "quantile_level": _plain(results.quantile_level),
        "converged": bool(results.converged),
        "duality_gap": _plain(results.duality_gap),
        "tau_at_bound": bool(results.solution.tau_at_bound),
        "certificate": {
            "kappa": _plain(certificate.kappa),
            "min_curvature": _plain(certificate.min_curvature),
            "margin": _plain(certificate.margin),
            "holds": bool(certificate.holds),
        },
    }


def _run_fit(options: argparse.Namespace) -> None:
    if not 0.0 < options.alpha < 1.0:
        raise DomainError(f"--alpha must lie between 0 and 1, got {options.alpha:g}")
    for target in (options.save, options.report):
        if target is not None:
            check_target(target)
    results = fit_formula(read_table(options.data), options)
    proof = results.certify_global() if options.certify else None
    if options.save is not None:
        results.save(options.save)
    if options.report is not None:
        from qhreg.cli.report import html_report

        page = html_report(results, title=options.formula, alpha=options.alpha)
        Path(options.report).write_text(page, encoding="utf-8")
    if options.json:
        made = as_json(results, options.formula, options.alpha)
        if proof is not None:
            names = ("gap", "lower_bound", "upper_bound")
            made["global_certificate"] = {name: _plain(getattr(proof, name)) for name in names}
            made["global_certificate"]["holds"] = bool(proof.holds)
        _say(json.dumps(made, indent=2, allow_nan=False))
        return
    _say(str(results.summary(alpha=options.alpha)))
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
    values = options.q if options.which == "quantile" else options.y_values
    extra = {"q": options.q, "y_values": options.y_values}
    extra = {name: value for name, value in extra.items() if value is not None}
    try:
        if values is not None and len(values) > 1:
            table = pd.DataFrame(results.predict(data, which=options.which, **extra))
            letter = "q" if options.which == "quantile" else "prob"
            return table.set_axis([f"{letter}_{value:g}" for value in values], axis=1)
        single = {name: value[0] for name, value in extra.items()}
        made = results.get_prediction(data, which=options.which, **single)
    except Exception as error:
        missing = _missing_name(error)
        if missing is not None:
            raise DataError(_no_column(missing, data)) from error
        text = [str(name) for name, dtype in data.dtypes.items() if not _holds_numbers(dtype)]
        # patsy fails on its own message when it meets text where the model had numbers
        if not isinstance(error, AttributeError) or not text:
            raise
        raise DataError(
            f"the model had numbers where the new data hold text; columns with text: {', '.join(text)}"
        ) from error
    table = made.summary_frame(options.alpha)
    return pd.DataFrame(table)


def _run_predict(options: argparse.Namespace) -> None:
    if not 0.0 < options.alpha < 1.0:
        raise DomainError(f"--alpha must lie between 0 and 1, got {options.alpha:g}")
    if options.out is not None:
        check_target(options.out)
    results = _load(options.model)
    table = predictions(results, read_table(options.data), options)
    text = table.to_csv(index=False)
    if options.out is None:
        sys.stdout.write(text)
    else:
        Path(options.out).write_text(text, encoding="utf-8")


# ------------------------------------------------------------------ paper


def _run_paper(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise DataError("the figures need matplotlib: pip install 'qhreg[paper]'")
    check_folder(options.out)
    from qhreg.paper.report import PARTS, QUICK, REPETITIONS, reproduce

    started = time.monotonic()

    def tell(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - started), 60)
        sys.stderr.write(f"[{minutes:3d}:{seconds:02d}] {text}\n")
        sys.stderr.flush()

    pages = reproduce(
        options.out,
        options.repetitions or (QUICK if options.quick else REPETITIONS),
        parts=options.only or PARTS,
        seed=options.seed,
        data=options.data,
        progress=tell,
    )
    tell("done")
    for page in pages:
        if page.comparisons:
            _say(f"{page.title}: {page.score} comparisons agree")
    names = ", ".join(f"{page.name}.md" for page in pages)
    _say(f"in {options.out}: {names}, with their pictures")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "demo": _run_demo,
    "fit": _run_fit,
    "predict": _run_predict,
    "paper": _run_paper,
}
"""The commands by name."""
