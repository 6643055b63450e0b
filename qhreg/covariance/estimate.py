"""The covariance matrix of the estimates of a linear fit, by any type of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from qhreg._precision import VANISHING
from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.choice import (
    COVARIANCE_TYPES,
    NEEDS_CASES,
    SANDWICHES,
    CovarianceChoice,
)
from qhreg.covariance.information import DesignMoments, assemble, design_moments, unit_information
from qhreg.covariance.parts import (
    LOADING,
    Parts,
    coordinates_of,
    covariance_parts,
    positive_inverse,
    to_parameters,
    treated_as_known,
)
from qhreg.covariance.sandwich import CORRECTIONS, group_codes, lags, sandwich
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData
from qhreg.specification.parameters import ParameterSpace

__all__ = [
    "CovarianceEstimate",
    "Grouping",
    "Meat",
    "decided_alone",
    "estimate_covariance",
    "finished",
    "from_influence",
    "from_meat",
    "grouping_of",
    "meat_of",
    "nonrobust_covariance",
    "robust_covariance",
    "warn_unidentified",
]


@dataclass(frozen=True)
class CovarianceEstimate:
    """An estimated covariance matrix and how it came about.

    Attributes
    ----------
    cov : ndarray, shape (size, size)
        Covariance of all parameters of the model; rows and columns are zero where a parameter is held,
        NaN where it is not identified.
    cov_type : str
        The type.
    description : str
        What it is, for the foot of a table.
    held_fixed : tuple of str
        Estimated parameters that are treated as known.
    identified : ndarray of bool, shape (size,)
        Which parameters have a variance, or are held.
    df : float or None
        Degrees of freedom of the t distribution where the type has its own: clusters minus one.
    options : dict
        The options that were used.
    """

    cov: FloatArray
    cov_type: str
    description: str
    held_fixed: tuple[str, ...]
    identified: BoolArray
    df: float | None = None
    options: dict[str, Any] = field(default_factory=dict)


class Grouping(NamedTuple):
    """How rows depend on each other, as :func:`qhreg.covariance.sandwich.sandwich` takes it.

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
        codes = group_codes(options.get("groups"), n_rows, weights)
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


def estimate_covariance(
    choice: CovarianceChoice,
    data: ModelData,
    solution: Solution,
    space: ParameterSpace | None = None,
    held: Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> CovarianceEstimate:
    """Return the chosen covariance of the estimates.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options; not "bootstrap".
    data : ModelData
        The model that was fitted; under constraints that of the reduced coefficients.
    solution : Solution
        Its fit.
    space : ParameterSpace, optional
        All parameters; those of `data` by default, more where it has a constraint.
    held : sequence of str
        Estimated parameters to treat as known, besides tau on its bound.
    names : sequence of str, optional
        Names of all parameters, for the warning.

    Warns
    -----
    CurvatureWarning
        Some parameters have no standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance import CovarianceChoice, estimate_covariance
    >>> from qhreg.specification.model_data import fit_model, model_data
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> data = model_data(np.column_stack([np.ones_like(x), x]), x + np.sin(40.0 * x) ** 3)
    >>> estimate_covariance(CovarianceChoice("HC3"), data, fit_model(data)).cov.shape
    (4, 4)
    """
    full = data.space if space is None else space
    fixed = () if data.constraint is None else tuple(data.constraint.fixed)
    known = tuple(name for name in held if name not in fixed)
    if not data.space.size:
        text = "Covariance: none, as the constraints fix every parameter."
        nothing, every = np.zeros((full.size, full.size)), np.ones(full.size, dtype=bool)
        return CovarianceEstimate(nothing, choice.cov_type, text, fixed, every)
    if choice.cov_type == "nonrobust":
        obs = data.observations
        if obs.weights is not None:
            raise DomainError(NEEDS_CASES)
        moments = design_moments(obs.exog, obs.freq_weights)
        made = nonrobust_covariance(moments, solution, data.space, known)
    else:
        made = robust_covariance(choice, covariance_parts(data, solution, known))
    cov, identified = made.cov, made.identified
    if data.constraint is not None:
        outward = data.constraint.jacobian(full)
        cov = outward @ cov @ outward.T
        lost = np.abs(outward[:, ~identified]) > 1e-12
        identified = np.asarray(~lost.any(axis=1))
    return finished(made, cov, identified, (*made.held_fixed, *fixed), names)


def nonrobust_covariance(
    moments: DesignMoments,
    solution: Solution,
    space: ParameterSpace,
    held: Sequence[str] = (),
) -> CovarianceEstimate:
    """Return the inverse of the expected information (QH-21) at the fit.

    Parameters
    ----------
    moments : DesignMoments
        Of the regressors, with the weights.
    solution : Solution
        The fit.
    space : ParameterSpace
        The parameters.
    held : sequence of str
        Estimated parameters to treat as known, besides tau on its bound.
    """
    known = treated_as_known(solution, space, held)
    extras = tuple(name for name in space.extra_names if name not in known)
    transform, _ = coordinates_of(moments.factor)
    r, weight = transform.shape[1], moments.weight_sum
    unit = unit_information(solution.tau, solution.kappa)
    slope = {"sigma": 1.0, "tau": solution.tau * (1.0 - solution.tau), "kappa": solution.kappa}
    sizes = np.append(np.full(r, 1.0 / np.sqrt(unit.beta_beta)), [slope[name] for name in extras])
    # beta in coordinates in which its information is the identity times the weight
    column = np.sqrt(weight) * (transform.T @ moments.column_sum)
    free = (("beta",) if space.k else ()) + extras
    info = assemble(free, weight * np.eye(r), column, weight, unit) * np.outer(sizes, sizes)
    inner = positive_inverse(info, weight)
    change = np.zeros((space.k + len(extras), r + len(extras)))
    change[: space.k, :r] = transform * (solution.sigma * np.sqrt(weight) * sizes[:r])
    change[space.k :, r:] = np.eye(len(extras))
    outward = to_parameters(space, solution, extras)
    half = outward @ change
    lost = np.abs(outward) @ inner.moved(change) > 0.0
    return CovarianceEstimate(
        half @ inner.inverse @ half.T,
        "nonrobust",
        _text("nonrobust"),
        known,
        ~lost,
    )


def robust_covariance(choice: CovarianceChoice, parts: Parts) -> CovarianceEstimate:
    """Return a sandwich covariance from its parts.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options.
    parts : Parts
        Scores, bread and leverage.
    """
    if choice.cov_type in CORRECTIONS:
        return from_meat(choice, parts, meat_of(choice, parts, parts.nobs), parts.df_resid)
    grouping = grouping_of(choice, parts.observations.endog.size, parts.observations.case_weights)
    return from_influence(choice, parts, parts.influence, parts.freq, grouping, parts.nobs)


def from_influence(
    choice: CovarianceChoice,
    parts: Parts,
    influence: FloatArray,
    freq: FloatArray | None,
    grouping: Grouping,
    nobs: float,
) -> CovarianceEstimate:
    """Return the sandwich of rows that depend on each other.

    Parameters
    ----------
    choice : CovarianceChoice
        "cluster" or "HAC".
    parts : Parts
        The bread.
    influence : ndarray, shape (n, q)
        Scores times the inverse bread, of rows or of sums of rows that are in the same clusters.
    freq : ndarray, shape (n,), or None
        Frequency weights.
    grouping : Grouping
        How these depend on each other.
    nobs : float
        Number of observations.
    """
    df_resid = nobs - parts.fit.rank
    counts = {"nobs": nobs, "df_resid": df_resid, **grouping.keywords}
    working = sandwich(influence, None, freq=freq, **counts)
    identified = parts.identified & (df_resid > 0.0)
    lost = np.asarray(np.abs(parts.jacobian[:, ~identified]).any(axis=1))
    used = {k: v for k, v in grouping.keywords.items() if np.ndim(v) == 0 and k != "correction"}
    return CovarianceEstimate(
        parts.jacobian @ working @ parts.jacobian.T,
        choice.cov_type,
        _text(choice.cov_type, grouping.text),
        parts.held,
        ~lost,
        grouping.df,
        used,
    )


class Meat(NamedTuple):
    """The meat of independent rows in inner coordinates, and what rows of leverage one decide.

    Those of disjoint rows add up.
    """

    products: FloatArray
    alone: BoolArray


def meat_of(choice: CovarianceChoice, parts: Parts, nobs: float) -> Meat:
    """Return the meat of the rows of some parts, block by block.

    Parameters
    ----------
    choice : CovarianceChoice
        HC0, HC1, HC2 or HC3.
    parts : Parts
        Scores, bread and leverage.
    nobs : float
        Number of observations, of which these rows may be some.
    """
    products, alone = np.zeros_like(parts.inner), np.zeros_like(parts.identified)
    for rows, scores, leverage in parts.blocks():
        freq = None if parts.freq is None else parts.freq[rows]
        products += sandwich(
            scores,
            None,
            correction=choice.cov_type,
            leverage=leverage,
            nobs=nobs,
            df_resid=nobs - parts.fit.rank,
            freq=freq,
        )
        if choice.cov_type in ("HC2", "HC3"):
            alone |= decided_alone(parts, rows, leverage)
    return Meat(products, alone)


def from_meat(
    choice: CovarianceChoice, parts: Parts, meat: Meat, df_resid: float
) -> CovarianceEstimate:
    """Return the sandwich of independent rows.

    Parameters
    ----------
    choice : CovarianceChoice
        HC0, HC1, HC2 or HC3.
    parts : Parts
        The bread.
    meat : Meat
        Of all rows.
    df_resid : float
        Observations minus the rank of the regressors.
    """
    outward = parts.jacobian @ parts.change @ parts.inner
    identified = parts.identified & ~meat.alone & (df_resid > 0.0)
    lost = np.asarray(np.abs(parts.jacobian[:, ~identified]).any(axis=1))
    return CovarianceEstimate(
        outward @ meat.products @ outward.T,
        choice.cov_type,
        _text(choice.cov_type),
        parts.held,
        ~lost,
    )


def decided_alone(parts: Parts, rows: slice, leverage: FloatArray) -> BoolArray:
    """Return which working parameters are decided by a row with leverage one, at which HC2 and HC3 end.

    Parameters
    ----------
    parts : Parts
        Those of the fit.
    rows : slice
        Some rows.
    leverage : ndarray
        Their leverage.
    """
    decided = np.zeros_like(parts.identified)
    one = np.flatnonzero(1.0 - leverage <= VANISHING)
    if one.size:
        transform = parts.transform
        moves = np.abs(transform @ (transform.T @ parts.observations.exog[rows][one].T))
        length = np.linalg.norm(transform, axis=1)[:, None]
        decided[: len(transform)] = (moves > LOADING * length).any(axis=1)
    return decided


def _text(cov_type: str, more: str = "") -> str:
    return f"Covariance: {COVARIANCE_TYPES[cov_type].description}{more}."


def finished(
    made: CovarianceEstimate,
    cov: FloatArray,
    identified: BoolArray,
    held: tuple[str, ...],
    names: Sequence[str] | None,
) -> CovarianceEstimate:
    """Return an estimate whose matrix is NaN where it is not identified, and warn of that.

    Parameters
    ----------
    made : CovarianceEstimate
        The estimate of the parameters that were fitted.
    cov, identified, held
        Matrix, and what is identified and held, of all parameters.
    names : sequence of str or None
        Names of all parameters.
    """
    if not identified.all():
        cov = cov.copy()
        cov[~identified] = cov[:, ~identified] = np.nan
        warn_unidentified(identified, names)
    return CovarianceEstimate(
        cov, made.cov_type, made.description, held, identified, made.df, made.options
    )


def warn_unidentified(identified: BoolArray, names: Sequence[str] | None) -> None:
    """Warn of parameters without a standard error.

    Parameters
    ----------
    identified : ndarray of bool, shape (size,)
        Which have one.
    names : sequence of str or None
        Their names.
    """
    lost = np.flatnonzero(~identified).tolist()
    labels = [str(j) if names is None else str(names[j]) for j in lost]
    which = "any parameter" if len(lost) == identified.size else ", ".join(labels)
    warn_caller(
        f"no standard error (NaN) for {which}: the data do not determine it. Leave columns out, or use "
        'conf_int(method="profile")',
        CurvatureWarning,
    )
