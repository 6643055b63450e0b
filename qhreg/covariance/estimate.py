"""The covariance matrix of the estimates of a linear fit, by any type of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.choice import (
    COVARIANCE_TYPES,
    NEEDS_CASES,
    SANDWICHES,
    CovarianceChoice,
)
from qhreg.covariance.information import DesignMoments, expected_information, moments_of
from qhreg.covariance.parts import (
    Parts,
    coordinates_of,
    covariance_parts,
    positive_inverse,
    to_parameters,
    treated_as_known,
    working_slopes,
)
from qhreg.covariance.sandwich import CORRECTIONS, group_codes, lags, sandwich
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace


@dataclass(frozen=True)
class CovarianceEstimate:
    """An estimated covariance matrix and how it came about.

    Attributes
    ----------
    cov : ndarray, shape (size, size)
        Covariance of all parameters of the model; rows and columns are zero where a parameter is held,
        NaN where it is not identified.
    description : str
        What it is, for the foot of a table.
    held_fixed : tuple of str
        Estimated parameters that are treated as known.
    identified : ndarray of bool, shape (size,)
        Which parameters have a variance, or are held.
    df : float or None
        Degrees of freedom of the t distribution where the type has its own: clusters minus one.
    """

    cov: FloatArray
    description: str
    held_fixed: tuple[str, ...]
    identified: BoolArray
    df: float | None = None


def describe(cov_type: str, more: str = "") -> str:
    """Return what the foot of a table says of a type of covariance."""
    return f"Covariance: {COVARIANCE_TYPES[cov_type].description}{more}."


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
    parts_of: Callable[..., Parts] = covariance_parts,
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
    parts_of : callable
        What returns the parts of a sandwich, given data, solution and what is held.

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
        return CovarianceEstimate(nothing, text, fixed, every)
    if choice.cov_type == "nonrobust":
        obs = data.observations
        if obs.weights is not None:
            raise DomainError(NEEDS_CASES)
        estimate = nonrobust_covariance(moments_of(obs), solution, data.space, known)
    else:
        estimate = robust_covariance(choice, parts_of(data, solution, known))
    if data.constraint is not None:
        outward = data.constraint.jacobian(full)
        lost = np.asarray((np.abs(outward[:, ~estimate.identified]) > 1e-12).any(axis=1))
        estimate = replace(
            estimate,
            cov=outward @ estimate.cov @ outward.T,
            identified=~lost,
            held_fixed=(*estimate.held_fixed, *fixed),
        )
    return finished(estimate, names)


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
    weight = moments.weight_sum
    transform = coordinates_of(moments.factor, moments.factor)[0] * np.sqrt(weight)
    r = transform.shape[1]
    unit = DesignMoments(weight, transform.T @ moments.column_sum, np.sqrt(weight) * np.eye(r))
    info = expected_information(unit, solution, ("beta", *extras))
    # the information about beta is the identity times the weight
    size = np.append(np.sqrt(weight / info.diagonal()[:r]), working_slopes(solution, extras))
    inverse = positive_inverse(info * np.outer(size, size), weight)
    change = block_diag(transform * size[:r], np.eye(len(extras)))
    outward = to_parameters(space, solution, extras)
    half = outward @ change
    lost = np.abs(outward) @ inverse.moved(change) > 0.0
    cov = half @ inverse.inverse @ half.T
    return CovarianceEstimate(cov, describe("nonrobust"), known, ~lost)


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
        return from_meat(choice, parts, meat_of(choice, parts))
    grouping = grouping_of(choice, parts.observations.endog.size, parts.observations.case_weights)
    return from_dependent(choice, parts, parts.inner_scores, parts.freq, grouping)


def from_dependent(
    choice: CovarianceChoice,
    parts: Parts,
    scores: FloatArray,
    freq: FloatArray | None,
    grouping: Grouping,
) -> CovarianceEstimate:
    """Return the sandwich of rows that depend on each other.

    Parameters
    ----------
    choice : CovarianceChoice
        "cluster" or "HAC".
    parts : Parts
        The bread.
    scores : ndarray, shape (n, r)
        Scores in inner coordinates, of rows or of sums of rows that are in the same clusters.
    freq : ndarray, shape (n,), or None
        Frequency weights.
    grouping : Grouping
        How these depend on each other.
    """
    counts = {"nobs": parts.nobs, "df_resid": parts.df_resid, **grouping.keywords}
    meat = sandwich(scores, None, freq=freq, **counts)
    return from_meat(choice, parts, Meat(meat, np.zeros_like(parts.identified)), grouping)


class Meat(NamedTuple):
    """The meat of independent rows in inner coordinates, and what rows of leverage one decide.

    Those of disjoint rows add up.
    """

    products: FloatArray
    alone: BoolArray


def meat_of(choice: CovarianceChoice, parts: Parts) -> Meat:
    """Return the meat of all rows, wherever they are.

    Parameters
    ----------
    choice : CovarianceChoice
        HC0, HC1, HC2 or HC3.
    parts : Parts
        Scores, bread and leverage.
    """
    obs = parts.observations
    return obs.reduce(_meat, _summed_meat, choice, parts.without_rows, obs.nobs)


def _summed_meat(meats: list[Meat]) -> Meat:
    return Meat(
        np.sum([meat.products for meat in meats], axis=0),
        np.any([meat.alone for meat in meats], axis=0),
    )


def _meat(obs: Observations, choice: CovarianceChoice, bread: Parts, nobs: float) -> Meat:
    """Return the meat of some rows, block by block."""
    parts = replace(bread, observations=obs)
    products, alone = np.zeros_like(parts.inner), np.zeros_like(parts.identified)
    for block, scores, leverage in parts.blocks():
        products += sandwich(
            scores,
            None,
            correction=choice.cov_type,
            leverage=leverage,
            nobs=nobs,
            df_resid=nobs - parts.fit.rank,
            freq=block.freq_weights,
        )
        if choice.cov_type in ("HC2", "HC3"):
            alone |= parts.decided_alone(block, leverage)
    return Meat(products, alone)


def from_meat(
    choice: CovarianceChoice,
    parts: Parts,
    meat: Meat,
    grouping: Grouping | None = None,
) -> CovarianceEstimate:
    """Return the sandwich of a bread and a meat.

    Parameters
    ----------
    choice : CovarianceChoice
        Its type.
    parts : Parts
        The bread.
    meat : Meat
        Of all rows.
    grouping : Grouping, optional
        How rows depend on each other.
    """
    outward = parts.jacobian @ parts.change @ parts.inner
    identified = parts.identified & ~meat.alone & (parts.df_resid > 0.0)
    lost = np.asarray(np.abs(parts.jacobian[:, ~identified]).any(axis=1))
    cov = outward @ meat.products @ outward.T
    df, text = (None, "") if grouping is None else (grouping.df, grouping.text)
    return CovarianceEstimate(cov, describe(choice.cov_type, text), parts.held, ~lost, df)


def finished(estimate: CovarianceEstimate, names: Sequence[str] | None) -> CovarianceEstimate:
    """Return an estimate whose matrix is NaN where it is not identified, and warn of that.

    Parameters
    ----------
    estimate : CovarianceEstimate
        Of all parameters.
    names : sequence of str or None
        Their names.
    """
    lost = ~estimate.identified
    if not lost.any():
        return estimate
    labels = [str(j) if names is None else str(names[j]) for j in np.flatnonzero(lost).tolist()]
    which = "any parameter" if lost.all() else ", ".join(labels)
    warn_caller(
        f"no standard error (NaN) for {which}: the data do not determine it. Leave columns out, or use "
        'conf_int(method="profile")',
        CurvatureWarning,
    )
    cov = estimate.cov.copy()
    cov[lost] = cov[:, lost] = np.nan
    return replace(estimate, cov=cov)
