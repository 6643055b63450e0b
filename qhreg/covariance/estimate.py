r"""The covariance of the estimates: inverse expected information, or the one sandwich.

Scores, inverse bread and a correction make a covariance

.. math:: V = f\,H^{-1}\Big(\sum_i n_i\,d_i^2\,s_i s_i'\Big)H^{-1}

with s the score of one observation of row i, n its frequency weight, and

===========  ============================  ===================================================
correction   d_i                           f
===========  ============================  ===================================================
HC0          1                             1
HC1          1                             n / (n - p)
HC2          (1 - h_i)^(-1/2)              1
HC3          (1 - h_i)^(-1)                1
===========  ============================  ===================================================

(White 1980; MacKinnon & White 1985). With groups the scores are summed within clusters first, with
f = G / (G - 1) (n - 1) / (n - p) (Liang & Zeger 1986; Cameron, Gelbach & Miller 2011 for two ways), and
with lags products of scores some rows apart are added, weighted (Newey & West 1987). p is the rank of
the regressors, as in least squares, which all of these equal in the normal limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from statsmodels.stats import sandwich_covariance as statsmodels_sandwich

from qhreg._precision import VANISHING
from qhreg._typing import BoolArray, FloatArray, IntArray
from qhreg.covariance.choice import (
    CORRECTIONS,
    COVARIANCE_TYPES,
    NEEDS_CASES,
    CovarianceChoice,
    Grouping,
    grouping_of,
    lag_weights,
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
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace


def score_factors(correction: str, leverage: FloatArray | None) -> FloatArray | None:
    """Return what multiplies the score of each row, None for one; one where the leverage is one.

    Parameters
    ----------
    correction : {"HC0", "HC1", "HC2", "HC3"}
        The correction.
    leverage : ndarray or None
        Leverage of one observation of each row; needed by HC2 and HC3.
    """
    if correction not in CORRECTIONS:
        raise DomainError(f"correction must be one of {', '.join(CORRECTIONS)}, got {correction!r}")
    if correction in ("HC0", "HC1"):
        return None
    if leverage is None:
        raise DomainError(f"{correction} needs the leverage of the rows")
    left = 1.0 - leverage
    left = np.where(left > VANISHING, left, 1.0)
    return np.asarray(1.0 / (np.sqrt(left) if correction == "HC2" else left))


def sandwich(
    scores: FloatArray,
    bread_inverse: FloatArray | None,
    *,
    correction: str = "HC0",
    leverage: FloatArray | None = None,
    nobs: float | None = None,
    df_resid: float | None = None,
    freq: FloatArray | None = None,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = "bartlett",
    use_correction: bool | None = None,
) -> FloatArray:
    r"""Return the sandwich covariance of the parameters that the scores belong to.

    Parameters
    ----------
    scores : ndarray, shape (n, q)
        Score of one observation of each row; sampling weights multiply it already.
    bread_inverse : ndarray, shape (q, q), or None
        Inverse Hessian of the criterion; None where the scores are influences, multiplied by it already.
    correction : {"HC0", "HC1", "HC2", "HC3"}
        For independent rows; not used with groups or lags.
    leverage : ndarray, shape (n,) or (n, q)
        Leverage of one observation of each row, for HC2 and HC3.
    nobs, df_resid : float
        n and n - p; by default the number of rows, and that minus the columns of the scores.
    freq : ndarray, shape (n,), or None
        Frequency weights.
    groups : list of ndarray of int
        Clusters of the rows in one or two ways, from :func:`qhreg.covariance.choice.cluster_codes`.
    maxlags : int or None
        Highest lag of a time series.
    kernel : {"bartlett", "uniform"} or callable
        Weights of the lags.
    use_correction : bool or None
        Whether clusters (yes by default) and lags (no by default) have their factor, n / (n - p) for
        lags: as in statsmodels' least squares.

    References
    ----------
    .. [1] H. White (1980), A heteroskedasticity-consistent covariance matrix estimator and a direct test
       for heteroskedasticity, Econometrica 48, 817-838.
    .. [2] J. G. MacKinnon and H. White (1985), Some heteroskedasticity-consistent covariance matrix
       estimators with improved finite sample properties, Journal of Econometrics 29, 305-325.
    .. [3] A. C. Cameron, J. B. Gelbach and D. L. Miller (2011), Robust inference with multiway
       clustering, Journal of Business & Economic Statistics 29, 238-249.
    .. [4] W. K. Newey and K. D. West (1987), A simple, positive semi-definite, heteroskedasticity and
       autocorrelation consistent covariance matrix, Econometrica 55, 703-708.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance import sandwich
    >>> scores = np.array([[-1.0], [2.0], [-1.0]])
    >>> sandwich(scores, np.array([[1 / 3]])).round(4)
    array([[0.6667]])
    >>> sandwich(scores, np.array([[1 / 3]]), correction="HC3", leverage=np.full(3, 1 / 3)).round(4)
    array([[1.5]])
    """
    n = float(scores.shape[0] if freq is None else freq.sum()) if nobs is None else nobs
    left = n - scores.shape[1] if df_resid is None else df_resid
    if groups is not None:
        meat = _clustered(scores, freq, groups, n, left, use_correction is not False)
    elif maxlags is not None:
        meat = _serial(scores, maxlags, kernel) * (n / left if use_correction else 1.0)
    else:
        factors = score_factors(correction, leverage)
        if factors is not None:
            scores = scores * (factors[:, None] if factors.ndim == 1 else factors)
        counted = scores if freq is None else scores * freq[:, None]
        meat = scores.T @ counted * (n / left if correction == "HC1" else 1.0)
    return meat if bread_inverse is None else bread_inverse @ meat @ bread_inverse


def _clustered(
    scores: FloatArray,
    freq: FloatArray | None,
    groups: list[IntArray],
    nobs: float,
    df_resid: float,
    use_correction: bool,
) -> FloatArray:
    """Return the meat of clusters in one or two ways."""
    counted = scores if freq is None else scores * freq[:, None]

    def one_way(codes: IntArray) -> FloatArray:
        count = float(codes.max() + 1)
        meat = np.asarray(statsmodels_sandwich.S_crosssection(counted, codes))
        factor = count / (count - 1.0) * (nobs - 1.0) / df_resid if use_correction else 1.0
        return meat * factor

    if len(groups) == 1:
        return one_way(groups[0])
    pairs = np.unique(groups[0] * (groups[1].max() + 1) + groups[1], return_inverse=True)[1]
    first, second, both = one_way(groups[0]), one_way(groups[1]), one_way(pairs.ravel())
    return _nonnegative(first + second - both, first + second)


def _nonnegative(matrix: FloatArray, unit: FloatArray) -> FloatArray:
    """Return a matrix without its negative part (Cameron, Gelbach & Miller 2011, section 2.3).

    The eigenvalues are those in the coordinates in which `unit` is the identity: what remains is the
    same in all units of the parameters.
    """
    size = np.sqrt(unit.diagonal())
    size[~(size > 0.0)] = 1.0
    values, vectors = np.linalg.eigh(unit / np.outer(size, size))
    kept = values > 1e-12 * values.max(initial=0.0)
    root = np.sqrt(values[kept])
    inward = (vectors[:, kept] / root).T / size
    parts, axes = np.linalg.eigh(inward @ matrix @ inward.T)
    if not (parts < -1e-9).any():
        return matrix
    outward = (size[:, None] * vectors[:, kept] * root) @ axes
    return np.asarray((outward * np.maximum(parts, 0.0)) @ outward.T)


def _serial(scores: FloatArray, maxlags: int, kernel: Any) -> FloatArray:
    """Return the meat of a time series."""
    meat = np.asarray(
        statsmodels_sandwich.S_hac_simple(
            scores, nlags=maxlags, weights_func=lag_weights(kernel or "bartlett")
        )
    )
    if kernel in (None, "bartlett") or maxlags == 0:
        return meat
    return _nonnegative(meat, scores.T @ scores)


# ---------------------------------------------------------------------- of a fit


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
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.covariance import CovarianceChoice, estimate_covariance
    >>> from qhreg.specification.model_data import fit_model
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> model = QuantileHuberMLE(x + np.sin(40.0 * x) ** 3, np.column_stack([np.ones_like(x), x]))
    >>> data = model.model_data()
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
        if data.observations.weights is not None:
            raise DomainError(NEEDS_CASES)
        estimate = nonrobust_covariance(data, solution, known)
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
    data: ModelData, solution: Solution, held: Sequence[str] = ()
) -> CovarianceEstimate:
    """Return the inverse of the expected information (QH-21) at the fit, as `estimate_covariance` does.

    Those of `data` are all parameters.
    """
    moments, space = moments_of(data.observations), data.space
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
    """Return the sandwich of the parts of a fit, whatever its type."""
    if choice.cov_type in CORRECTIONS:
        return _from_meat(choice, parts, *independent_meat(choice.cov_type, parts))
    obs = parts.observations
    grouping = grouping_of(choice, obs.endog.size, obs.case_weights)
    return dependent_covariance(choice, parts, parts.inner_scores, parts.freq, grouping)


def dependent_covariance(
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
    estimate = _from_meat(choice, parts, meat, np.zeros_like(parts.identified), grouping.text)
    return replace(estimate, df=grouping.df)


def independent_meat(correction: str, parts: Parts) -> tuple[FloatArray, BoolArray]:
    """Return the meat of HC0 to HC3 in inner coordinates, and what rows of leverage one decide."""
    obs = parts.observations
    return obs.reduce(_meat, _summed, correction, parts.without_rows, obs.nobs)


def _summed(meats: list[tuple[FloatArray, BoolArray]]) -> tuple[FloatArray, BoolArray]:
    products, alone = zip(*meats, strict=True)
    return np.sum(products, axis=0), np.any(alone, axis=0)


def _meat(
    obs: Observations, correction: str, bread: Parts, nobs: float
) -> tuple[FloatArray, BoolArray]:
    """Return `independent_meat` of some rows, block by block; those of disjoint rows add up."""
    parts = replace(bread, observations=obs)
    products, alone = np.zeros_like(parts.inner), np.zeros_like(parts.identified)
    for block, scores, leverage in parts.blocks():
        products += sandwich(
            scores,
            None,
            correction=correction,
            leverage=leverage,
            nobs=nobs,
            df_resid=nobs - parts.fit.rank,
            freq=block.freq_weights,
        )
        if correction in ("HC2", "HC3"):
            alone |= parts.decided_alone(block, leverage)
    return products, alone


def _from_meat(
    choice: CovarianceChoice, parts: Parts, meat: FloatArray, alone: BoolArray, text: str = ""
) -> CovarianceEstimate:
    """Return the sandwich of a bread and a meat, and what of it is identified."""
    outward = parts.jacobian @ parts.change @ parts.inner
    identified = parts.identified & ~alone & (parts.df_resid > 0.0)
    lost = np.asarray(np.abs(parts.jacobian[:, ~identified]).any(axis=1))
    described = describe(choice.cov_type, text)
    return CovarianceEstimate(outward @ meat @ outward.T, described, parts.held, ~lost)


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
