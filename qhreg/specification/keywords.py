"""Keywords that a model or its fit does not have, and what is meant by them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from qhreg.exceptions import DataError, warn_caller
from qhreg.specification.given import FORMULA_KEYS

__all__ = ["reject_fit_keywords", "reject_scalar_start", "reject_unknown", "warn_of_maxiter"]

_STANDARD_ERRORS = ("vcov", "vce", "se", "cov", "robust", "kernel", "bandwidth")
"""What other packages call the choice of standard errors in a fit."""


def _level(q: Any) -> str:
    """Return what to do with the level of a quantile."""
    number = isinstance(q, Real) and 0.0 < float(q) < 1.0
    here = f" (here tau={1.0 - float(q):g})" if number else ""
    return f"there is no q: give the model tau = 1 - q{here} and kappa=0"


def _meant(key: str, known: Sequence[str]) -> str:
    """Return the known keyword that is most like another, or all of them."""
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def reject_unknown(model: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise a TypeError that names an unknown keyword of a model, and the known one that is meant.

    Parameters
    ----------
    model : str
        Name of the model.
    given : dict
        Keywords, known and unknown.
    known : sequence of str
        The keywords of the model.
    """
    for key, value in given.items():
        if key == "q":
            raise TypeError(f"{model}: {_level(value)}")
        if key not in known and key not in FORMULA_KEYS:
            raise TypeError(f"{model} got an unknown keyword {key!r}; {_meant(key, known)}")


def reject_fit_keywords(
    fit: Callable[..., Any],
    given: Mapping[str, Any],
    model: Sequence[str],
    cov_options: Mapping[str, Sequence[str]],
) -> None:
    """Raise a TypeError that says where a keyword belongs which a fit does not have.

    Parameters
    ----------
    fit : callable
        The method; its signature has the keywords there are.
    given : dict
        The unknown keywords with their values.
    model : sequence of str
        The keywords of the model.
    cov_options : dict
        The options of each type of covariance.
    """
    for key, value in given.items():
        types = [name for name, options in cov_options.items() if key in options]
        if key == "q":
            raise TypeError(f"fit: {_level(value)}")
        if key in model:
            raise TypeError(f"fit has no {key!r}: give it to the model")
        if key in _STANDARD_ERRORS:
            raise TypeError(
                f"fit has no {key!r}: cov_type chooses the standard errors, one of "
                f"{', '.join(cov_options)}"
            )
        if types:
            shown = repr(value) if isinstance(value, (str, Real)) else "..."
            raise TypeError(
                f"fit has no {key!r}: an option of the covariance goes into cov_kwds, as in "
                f'fit(cov_type="{types[0]}", cov_kwds={{"{key}": {shown}}})'
            )
        named = inspect.Parameter.VAR_KEYWORD
        signature = inspect.signature(fit).parameters.values()
        known = [parameter.name for parameter in signature if parameter.kind is not named]
        raise TypeError(f"fit got an unknown keyword {key!r}; {_meant(key, known)}")


def reject_scalar_start(start_params: Any, size: int) -> None:
    """Raise a DataError when a text or a single number stands in the place of starting values.

    Parameters
    ----------
    start_params : object
        What was given.
    size : int
        Number of estimated parameters.
    """
    if isinstance(start_params, str) or np.ndim(start_params) == 0:
        level = f". A level of a quantile? {_level(start_params)}" if size > 1 else ""
        level = "" if isinstance(start_params, str) else level
        raise DataError(
            f"the first argument of fit is start_params, {size} number(s) to start from; got "
            f"{start_params!r}{level}"
        )


def warn_of_maxiter(maxiter: int | None) -> None:
    """Warn that a limit on the iterations was given, which the solvers do not have."""
    if maxiter is not None:
        warn_caller(
            f"maxiter={maxiter!r} is not used: the solver stops by itself, and converged says whether "
            "it proved its result",
            UserWarning,
        )
