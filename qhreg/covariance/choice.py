"""The types of covariance in one table, which of them a fit gets, and how its rows then depend."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from statsmodels.stats import sandwich_covariance as statsmodels_sandwich

from qhreg._typing import FloatArray, IntArray
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.inputs import RowSource, group_codes


@dataclass(frozen=True)
class CovarianceType:
    """One type of covariance.

    Attributes
    ----------
    description : str
        What it is, for the foot of a table.
    formula : str
        The covariance: H the bread, s_i and h_i score and leverage of row i, I the expected information.
    reference : str
        Where it was published.
    options : tuple of str
        What ``cov_kwds`` may have.
    """

    description: str
    formula: str
    reference: str
    options: tuple[str, ...] = ()


COVARIANCE_TYPES = {
    "nonrobust": CovarianceType(
        "inverse expected information; valid when the noise follows the model",
        "I^-1",
        "Fisher (1922)",
    ),
    "HC0": CovarianceType(
        "heteroskedasticity-robust sandwich (HC0)",
        "H^-1 (sum s_i s_i') H^-1",
        "White (1980); Huber (1967)",
    ),
    "HC1": CovarianceType(
        "heteroskedasticity-robust sandwich (HC1)",
        "n / (n - p) times HC0",
        "Hinkley (1977)",
    ),
    "HC2": CovarianceType(
        "heteroskedasticity-robust sandwich (HC2)",
        "H^-1 (sum s_i s_i' / (1 - h_i)) H^-1",
        "Horn, Horn & Duncan (1975); MacKinnon & White (1985)",
    ),
    "HC3": CovarianceType(
        "heteroskedasticity-robust sandwich (HC3)",
        "H^-1 (sum s_i s_i' / (1 - h_i)^2) H^-1",
        "MacKinnon & White (1985)",
    ),
    "cluster": CovarianceType(
        "clustered sandwich",
        "G / (G - 1) (n - 1) / (n - p) H^-1 (sum over clusters of s_g s_g') H^-1",
        "Liang & Zeger (1986); two ways: Cameron, Gelbach & Miller (2011)",
        ("groups", "use_correction"),
    ),
    "HAC": CovarianceType(
        "heteroskedasticity- and autocorrelation-robust sandwich",
        "H^-1 (sum over lags l of k(l) sum s_i s_(i-l)') H^-1",
        "Newey & West (1987)",
        ("maxlags", "kernel", "use_correction"),
    ),
    "bootstrap": CovarianceType(
        "bootstrap",
        "covariance of the replicates",
        "Efron (1979)",
        ("kind", "n_boot", "rng", "groups", "n_jobs", "progress"),
    ),
}
"""The types of covariance: what each is, its formula, a reference and its options."""

OPTIONS = {name: each.options for name, each in COVARIANCE_TYPES.items()}
"""The options of each type."""

DEFAULT_TYPE = "HC3"
"""The covariance of a fit for which none is asked."""

CORRECTIONS = ("HC0", "HC1", "HC2", "HC3")
"""The sandwiches of independent rows: what allows for few of them."""

SANDWICHES = (*CORRECTIONS, "cluster", "HAC")
"""The types that do not rely on the density."""

NEEDS_CASES = (
    "cov_type='nonrobust' counts cases, but the scale of sampling weights is arbitrary: "
    "choose 'HC3' or another robust type, or give the weights as freq_weights"
)
"""Why weights that are no counts have no covariance of that type."""

NEEDS_PERIODS = "cov_type='HAC' needs one row per period, and cannot use freq_weights"
"""Why rows that are several cases have no covariance of that type."""

_INSTEAD = {
    "iid": "use 'nonrobust', which trusts the density, or 'HC3', which does not",
    "nid": "use 'HC3', which allows for noise that differs from row to row",
    "robust": "use 'HC3', or 'cluster' or 'HAC' for rows that depend on each other",
}
"""What to use in place of types that other packages have."""


@dataclass(frozen=True)
class CovarianceChoice:
    """A covariance type with its options.

    Attributes
    ----------
    cov_type : str
        One of COVARIANCE_TYPES.
    options : dict
        Options of the type; groups are matched to the rows of the model already.
    """

    cov_type: str
    options: dict[str, Any] = field(default_factory=dict)


def choose_covariance(
    cov_type: str | None,
    cov_kwds: dict[str, Any] | None,
    rows: RowSource,
    *,
    weights: FloatArray | None = None,
    freq_weights: FloatArray | None = None,
) -> CovarianceChoice:
    """Return the covariance asked for, or the default, with its options checked.

    Parameters
    ----------
    cov_type : str or None
        Type; None for HC3.
    cov_kwds : dict or None
        Options; ``groups`` may be a column name, a Series or an array.
    rows : RowSource
        The rows of the model, to match groups to them.
    weights, freq_weights : ndarray, shape (n,), or None
        Sampling weights, and frequency weights.
    """
    if cov_kwds is not None and not isinstance(cov_kwds, Mapping):
        raise DomainError(
            f'cov_kwds must be a dict of options, such as {{"groups": ...}}; got {cov_kwds!r}'
        )
    options = dict(cov_kwds or {})
    if cov_type is None:
        if "groups" in options:
            raise DomainError("cov_kwds has groups but cov_type is not given: use 'cluster'")
        cov_type = DEFAULT_TYPE
    cov_type = known_type(cov_type)
    check_options(cov_type, options)
    if cov_type == "nonrobust" and weights is not None:
        raise DomainError(NEEDS_CASES)
    if cov_type == "HAC":
        if freq_weights is not None:
            raise DomainError(NEEDS_PERIODS)
        lags(options.get("maxlags"), rows.n_kept)
        lag_weights(options.get("kernel") or "bartlett")
    if options.get("groups") is not None:
        options["groups"] = group_codes(_take_groups(options["groups"], rows))
        both = [each for each in (weights, freq_weights) if each is not None]
        total = np.prod(both, axis=0) if both else None
        cluster_codes(options["groups"], rows.n_kept, total)
    elif cov_type == "cluster":
        raise DomainError(
            'cov_type="cluster" needs cov_kwds={"groups": ...}: one label per row, or two columns'
        )
    return CovarianceChoice(cov_type, options)


def known_type(cov_type: Any) -> str:
    """Return the name of a type of covariance given in any letter case, or raise a DomainError.

    Parameters
    ----------
    cov_type : str
        Such as "HC1" or "hc1".
    """
    given = str(cov_type).lower()
    by_case = {name.lower(): name for name in COVARIANCE_TYPES}
    if given in by_case:
        return by_case[given]
    close = difflib.get_close_matches(given, by_case, n=1)
    hint = f": did you mean {by_case[close[0]]!r}?" if close else ""
    hint = f": {_INSTEAD[given]}" if given in _INSTEAD else hint
    raise DomainError(
        f"cov_type must be one of {', '.join(COVARIANCE_TYPES)}; got {cov_type!r}{hint}"
    )


def check_options(cov_type: str, options: dict[str, Any]) -> None:
    """Raise a DomainError that names an option the type does not have, before the fit.

    Parameters
    ----------
    cov_type : str
        The type.
    options : dict
        Its options.
    """
    known = COVARIANCE_TYPES[cov_type].options
    for name in options:
        if name not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has no options"
            raise DomainError(f"cov_kwds has {name!r}, unknown to cov_type={cov_type!r}: {offered}")


def _take_groups(groups: Any, rows: RowSource) -> Any:
    """Return the groups of the model's rows; a list of two names or arrays is two-way."""
    if isinstance(groups, (list, tuple)) and len(groups) == 2:
        first, second = (rows.take("groups", part) for part in groups)
        return {0: list(first), 1: list(second)}
    if isinstance(groups, (list, tuple)) and len(groups) not in (rows.n_kept, rows.n_given):
        columns = [part for part in groups if isinstance(part, str) or np.ndim(part)]
        if len(columns) > 2:
            raise DataError(f"groups must be at most two columns, got a list of {len(groups)}")
    return rows.take("groups", groups)


# ---------------------------------------------------------------------- dependent rows


class Grouping(NamedTuple):
    """How rows depend on each other, as :func:`qhreg.covariance.estimate.sandwich` takes it.

    Attributes
    ----------
    keywords : dict
        Keywords of the sandwich.
    df : float or None
        Clusters minus one, in the way with fewest of them.
    text : str
        What a table says of it.
    """

    keywords: dict[str, Any]
    df: float | None
    text: str


def grouping_of(
    choice: CovarianceChoice, n_rows: int, weights: FloatArray | None = None
) -> Grouping:
    """Return how the rows depend on each other in a type of covariance.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options.
    n_rows : int
        Number of rows.
    weights : ndarray, shape (n_rows,), or None
        Weights of the rows; those of weight zero make no cluster.
    """
    options = choice.options
    if choice.cov_type in CORRECTIONS:
        return Grouping({"correction": choice.cov_type}, None, "")
    corrected = options.get("use_correction")
    if choice.cov_type == "cluster":
        codes = cluster_codes(options.get("groups"), n_rows, weights)
        counts = [int(code.max()) + 1 for code in codes]
        text = f", {' x '.join(map(str, counts))} clusters"
        return Grouping(
            {"groups": codes, "use_correction": corrected}, float(min(counts) - 1), text
        )
    if choice.cov_type == "HAC":
        last, kernel = lags(options.get("maxlags"), n_rows), options.get("kernel") or "bartlett"
        used = {"maxlags": last, "kernel": kernel, "use_correction": corrected}
        return Grouping(used, None, f", {last} lags")
    raise DomainError(f"cov_type must be one of {', '.join(SANDWICHES)}; got {choice.cov_type!r}")


def cluster_codes(groups: Any, n: int, weights: FloatArray | None = None) -> list[IntArray]:
    """Return one or two arrays of cluster numbers, or raise a DataError where there is one cluster.

    Parameters
    ----------
    groups : array_like, shape (n,) or (n, 2), or two arrays of shape (n,)
        Labels of the clusters.
    n : int
        Number of rows.
    weights : ndarray, shape (n,), or None
        Weights of the rows. Those of weight zero make no cluster: they are counted to the first.
    """
    columns = list(groups) if isinstance(groups, (list, tuple)) else [*np.asarray(groups).T]
    columns = [np.asarray(groups)] if np.ndim(columns[0]) == 0 else columns
    weighted = np.ones(n, dtype=bool) if weights is None else weights > 0.0
    codes = []
    for number, column in enumerate(columns):
        code = np.zeros(n, dtype=np.intp)
        code[weighted], labels = pd.factorize(np.asarray(column)[weighted])
        if len(labels) < 2:
            name = "groups" if len(columns) == 1 else f"groups column {number}"
            with_weight = "" if weights is None else " with weight"
            raise DataError(
                f"{name} has only one cluster{with_weight}: its covariance is not estimable"
            )
        codes.append(code)
    return codes


def lag_weights(kernel: Any) -> Callable[[int], FloatArray]:
    """Return the function that gives the weights of the lags."""
    if callable(kernel):
        return kernel  # type: ignore[no-any-return]
    known = statsmodels_sandwich.kernel_dict
    if kernel not in known:
        raise DomainError(f"kernel must be callable or one of {sorted(known)}, got {kernel!r}")
    return known[kernel]  # type: ignore[no-any-return]


def lags(maxlags: Any, n: int) -> int:
    """Return the highest lag: the given one, or floor(4 (n / 100)^(2/9))."""
    if maxlags is None:
        return int(4.0 * (n / 100.0) ** (2.0 / 9.0))
    number = isinstance(maxlags, (int, float, np.number)) and not isinstance(maxlags, bool)
    if not (number and 0 <= maxlags < n and int(maxlags) == maxlags):
        raise DomainError(f"maxlags must be a whole number from 0 to {n - 1}, got {maxlags!r}")
    return int(maxlags)
