"""What a sandwich covariance warns about."""

from __future__ import annotations

from collections.abc import Sequence

from qhreg.covariance.bread import Lost
from qhreg.exceptions import CurvatureWarning, warn_caller

__all__ = [
    "warn_confined",
    "warn_few",
    "warn_helped",
    "warn_hidden",
    "warn_lost",
    "warn_negative",
    "warn_none",
]


def warn_helped(cov_type: str, helped: str, advice: str = "") -> None:
    """Warn that something stands in for parts of the bread."""
    warn_caller(
        "the curvature of the likelihood, estimated without assuming the density, is not that of a "
        f"maximum: the bread has {helped}, and {cov_type} standard errors may be far off{advice}",
        CurvatureWarning,
    )


def warn_lost(cov_type: str, lost: Lost) -> None:
    """Warn that the scores of some combinations of coefficients vanish."""
    warn_caller(
        f"the rows that identify {lost.text} are fitted exactly, as is the only row of a category, so "
        "that their residuals do not show the noise: averages over other rows take their place, and "
        f"{cov_type} standard errors may be far off",
        CurvatureWarning,
    )


def _named(places: tuple[int, ...], names: Sequence[str] | None) -> str:
    """Return the names of some parameters, of the first of many."""
    some = [f"parameter {j}" if names is None else str(names[j]) for j in places[:3]]
    return ", ".join(some) + (f" and {len(places) - 3} more" if len(places) > 3 else "")


def warn_negative(cov_type: str, places: tuple[int, ...], names: Sequence[str] | None) -> None:
    """Warn that the variances of some parameters are negative."""
    why = "two-way" if cov_type == "cluster" else cov_type
    when = "few clusters" if cov_type == "cluster" else "weights of the lags other than Bartlett's"
    warn_caller(
        f"the {why} variance of {_named(places, names)} is negative, as is possible with {when}: the "
        "negative part of the covariance is left out, and these standard errors may be far too small",
        CurvatureWarning,
    )


def warn_confined(columns: tuple[int, ...], names: Sequence[str] | None) -> None:
    """Warn that a single cluster identifies some coefficients."""
    one = len(columns) == 1
    warn_caller(
        f"{_named(columns, names)} {'is' if one else 'are each'} identified by a single cluster, as is "
        "the effect of a category that occurs in one cluster, so that the clustered sandwich cannot "
        f"estimate {'its variance' if one else 'their variances'}: an estimate from the rows of that "
        "cluster and from pairs of rows in other clusters takes its place, and these standard errors "
        "may be far off",
        CurvatureWarning,
    )


def warn_few(cov_type: str, rows: float, q: int) -> None:
    """Warn that uneven sampling weights leave no more rows than parameters."""
    warn_caller(
        f"the sampling weights are so uneven that the rows are worth {rows:.2g} rows of equal "
        f"weight, and there are {q} parameters: the heaviest rows are fitted nearly exactly, and "
        f"{cov_type} standard errors may be far too small",
        CurvatureWarning,
    )


def warn_hidden(cov_type: str, columns: tuple[int, ...], names: Sequence[str] | None) -> None:
    """Warn that a few rows with nearly all of the weight identify some coefficients."""
    warn_caller(
        f"a few rows carry nearly all of the sampling weight that identifies {_named(columns, names)}: "
        f"they are fitted nearly exactly, and {cov_type} standard errors there are less than half of "
        "what they should be",
        CurvatureWarning,
    )


def warn_none(why: str, remedy: str = "") -> None:
    """Warn that the estimates have no covariance, and say what needs none."""
    warn_caller(f"{why}: standard errors are NaN.{remedy}", CurvatureWarning)
