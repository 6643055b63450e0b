"""Which covariance a fit gets: the user's choice, or the default and its reason."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.curvature import RowWeights
from qhreg.covariance.dependence import group_codes as require_clusters
from qhreg.covariance.dependence import lag_weights, lags
from qhreg.covariance.dependent import NEEDS_PERIODS
from qhreg.covariance.estimate import (
    COV_TYPES,
    NEEDS_CASES,
    CovarianceEstimate,
    check_width,
    covariance,
)
from qhreg.exceptions import DataError, DomainError
from qhreg.solver import Solution
from qhreg.specification.alignment import RowSource, group_codes
from qhreg.specification.constraints import Constraint
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

__all__ = [
    "OPTIONS",
    "CovarianceChoice",
    "choose_covariance",
    "estimate_covariance",
    "known_type",
]


ALL_TYPES = (*COV_TYPES, "bootstrap")

_SANDWICH = ("width",)
OPTIONS = {
    "nonrobust": (),
    "HC0": _SANDWICH,
    "HC1": _SANDWICH,
    "cluster": ("groups", "use_correction", *_SANDWICH),
    "bootstrap": ("kind", "n_boot", "seed", "groups", "method", "n_jobs", "progress"),
    "HAC": ("maxlags", "kernel", "use_correction", *_SANDWICH),
}
"""The options of each type of covariance."""

_LEVERAGE = (
    "HC2 and HC3 rescale residuals of least squares by their leverage: use 'HC1', which allows for rows "
    "with leverage, and whose intervals allow for few rows"
)
_INSTEAD = {
    "hc2": _LEVERAGE,
    "hc3": _LEVERAGE,
    "iid": "use 'nonrobust', which trusts the density, or 'HC1', which does not",
    "nid": "use 'HC1', which allows for noise that differs from row to row",
    "robust": "use 'HC1', or 'cluster' or 'HAC' for rows that depend on each other",
}
"""What to use in place of types that other packages have."""


@dataclass(frozen=True)
class CovarianceChoice:
    """A covariance type with its options.

    Attributes
    ----------
    cov_type : str
        "nonrobust", "HC0", "HC1", "cluster", "HAC" or "bootstrap".
    options : dict
        Options of the type; groups are matched to the rows of the model already.
    reason : str
        Why a default is not "nonrobust"; empty for a choice of the user.
    """

    cov_type: str
    options: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def choose_covariance(
    cov_type: str | None,
    cov_kwds: dict[str, Any] | None,
    rows: RowSource,
    *,
    tau_fixed: bool,
    weights: FloatArray | None = None,
    freq_weights: FloatArray | None = None,
) -> CovarianceChoice:
    """Return the covariance asked for, or the default: robust where the density is no model.

    Parameters
    ----------
    cov_type : str or None
        Type; None for the default.
    cov_kwds : dict or None
        Options; ``groups`` may be a column name, a Series or an array.
    rows : RowSource
        The rows of the model, to match groups to them.
    tau_fixed : bool
        Whether the user fixed tau.
    weights, freq_weights : ndarray, shape (n,), or None
        Sampling weights, and frequency weights.
    """
    if cov_kwds is not None and not isinstance(cov_kwds, Mapping):
        raise DomainError(
            f'cov_kwds must be a dict of options, such as {{"groups": ...}}; got {cov_kwds!r}'
        )
    options = dict(cov_kwds or {})
    if cov_type is None:
        reason = ""
        if tau_fixed:
            reason = (
                "tau is fixed: the density then only defines the loss and is not assumed to describe "
                "the noise"
            )
        elif weights is not None:
            reason = "sampling weights are given"
        if options and "groups" in options:
            raise DomainError("cov_kwds has groups but cov_type is not given: use 'cluster'")
        default = "HC1" if reason else "nonrobust"
        _check_options(default, options)
        return CovarianceChoice(default, options, reason)
    cov_type = known_type(cov_type)
    _check_options(cov_type, options)
    if cov_type == "nonrobust" and weights is not None:
        raise DomainError(NEEDS_CASES)
    if cov_type == "HAC":
        if freq_weights is not None:
            raise DomainError(NEEDS_PERIODS)
        lags(options.get("maxlags"), rows.n_kept)
        lag_weights(options.get("kernel") or "bartlett")
    if options.get("groups") is not None:
        options["groups"] = group_codes(_take_groups(options["groups"], rows))
        total = RowWeights(freq_weights, weights, rows.n_kept).total
        require_clusters(options["groups"], rows.n_kept, total)
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
    by_case = {name.lower(): name for name in ALL_TYPES}
    if given in by_case:
        return by_case[given]
    close = difflib.get_close_matches(given, by_case, n=1)
    hint = f": did you mean {by_case[close[0]]!r}?" if close else ""
    hint = f": {_INSTEAD[given]}" if given in _INSTEAD else hint
    raise DomainError(f"cov_type must be one of {', '.join(ALL_TYPES)}; got {cov_type!r}{hint}")


def _check_options(cov_type: str, options: dict[str, Any]) -> None:
    """Raise a DomainError that names an option the type does not have, before the fit."""
    known = OPTIONS[cov_type]
    for name in options:
        if name not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has no options"
            raise DomainError(f"cov_kwds has {name!r}, unknown to cov_type={cov_type!r}: {offered}")
    check_width(options.get("width"))


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


def estimate_covariance(
    choice: CovarianceChoice,
    observations: Observations,
    solution: Solution,
    space: ParameterSpace,
    constraint: Constraint | None = None,
    known: tuple[str, ...] = (),
    resid: FloatArray | None = None,
    names: Sequence[str] | None = None,
    contrasts: FloatArray | None = None,
) -> CovarianceEstimate:
    """Return the chosen covariance of the estimates; of constrained ones, through their gamma.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options; not "bootstrap".
    observations : Observations
        The data.
    solution : Solution
        The fit.
    space : ParameterSpace
        The estimated parameters.
    constraint : Constraint, optional
        What the estimates had to satisfy.
    known : tuple of str
        Estimated parameters to treat as known: their rows and columns are zero.
    resid : ndarray, shape (n,), or None
        Residuals of the fit, if known already.
    names : sequence of str or None
        Names of the columns, for warnings.
    contrasts : ndarray, shape (m, size), or None
        Combinations of the estimates that the calibration is for; by default each by itself.
    """
    if constraint is not None:
        return _constrained(choice, observations, solution, space, constraint, known, resid)
    if known:
        values = {name: getattr(solution, name) for name in known}
        narrow = replace(space, **values)
        kept = [*range(space.k), *(space.position(name) for name in narrow.extra_names)]
        made = estimate_covariance(
            choice,
            observations,
            solution,
            narrow,
            resid=resid,
            names=names,
            contrasts=None if contrasts is None else contrasts[:, kept],
        )
        cov = np.zeros((space.size, space.size))
        cov[np.ix_(kept, kept)] = made.cov
        law = made.calibration
        if law is not None and contrasts is None:
            law = law.taken(kept, space.size)
        return replace(
            made,
            cov=cov,
            free=space.free,
            held_fixed=(*made.held_fixed, *known),
            calibration=law,
        )
    obs = observations
    return covariance(
        choice.cov_type,
        obs.exog,
        obs.endog,
        solution,
        free=space.free,
        freq_weights=obs.freq_weights,
        weights=obs.weights,
        offset=obs.offset,
        resid=resid,
        names=names,
        contrasts=contrasts,
        **choice.options,
    )


def _constrained(
    choice: CovarianceChoice,
    observations: Observations,
    solution: Solution,
    space: ParameterSpace,
    constraint: Constraint,
    known: tuple[str, ...],
    resid: FloatArray | None,
) -> CovarianceEstimate:
    gamma = constraint.transform.T @ (solution.beta - constraint.shift)
    free = ParameterSpace(gamma.size, **_fixed(space, constraint))
    if not free.size:
        text = "Covariance: none, as the constraints fix every parameter."
        nothing = np.zeros((space.size, space.size))
        return CovarianceEstimate(
            nothing, choice.cov_type, text, space.free, tuple(constraint.fixed)
        )
    jacobian = constraint.jacobian(space)
    moved = np.abs(jacobian).max(axis=1) > 1e-12
    moved[[space.position(name) for name in known]] = False
    made = estimate_covariance(
        choice,
        constraint.reduce(observations),
        replace(solution, beta=gamma),
        free,
        known=tuple(name for name in known if name not in constraint.fixed),
        resid=resid,
        contrasts=jacobian[moved],
    )
    law = made.calibration
    return replace(
        made,
        cov=jacobian @ made.cov @ jacobian.T,
        free=space.free,
        held_fixed=(*made.held_fixed, *constraint.fixed),
        calibration=None if law is None else law.taken(moved, space.size),
    )


def _fixed(space: ParameterSpace, constraint: Constraint) -> dict[str, Any]:
    known = {"sigma": space.sigma, "tau": space.tau, "kappa": space.kappa}
    return {**known, **constraint.fixed}
