r"""Covariance matrices of the estimates: expected information and sandwiches.

The nonrobust covariance is the inverse of the expected information (QH-21), which holds when the
model does. The sandwich :math:`B^{-1} M B^{-1}` holds without it: the meat M sums products of the
scores (QH-20), the bread B is minus the Hessian of the log-likelihood, smoothed where it counts rows
in the quadratic zone.

All algebra is done in coordinates in which the weighted columns of X are orthonormal, so that raw
columns of very different size or high collinearity lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from statsmodels.stats import sandwich_covariance as sandwich

from qhreg.basis import CHOLESKY_SAFE, basis_of, minimum_norm
from qhreg.exceptions import DataError, DomainError
from qhreg.information import (
    DesignMoments,
    UnitInformation,
    assemble,
    check_free,
    design_moments,
    expected_information,
    unit_information,
)
from qhreg.scores import (
    Fitted,
    Point,
    Sample,
    bread_width,
    checked_sample,
    chosen_width,
    curvature,
    evaluated_blocks,
    observed_hessian,
    score_block,
    score_obs,
    smoothed_bread,
    stack_curvature,
    weight_vector,
)

__all__ = [
    "COV_TYPES",
    "CovarianceEstimate",
    "DesignMoments",
    "Fitted",
    "Point",
    "bread_width",
    "covariance",
    "design_moments",
    "expected_information",
    "group_codes",
    "observed_hessian",
    "score_obs",
    "smoothed_bread",
]

FloatArray = npt.NDArray[np.float64]

COV_TYPES = ("nonrobust", "HC0", "HC1", "cluster", "HAC")
"""The covariance types of :func:`covariance`."""

NO_INFORMATION = 1e-12
"""Share of a parameter's information below which the others explain all of it."""


@dataclass(frozen=True)
class CovarianceEstimate:
    """An estimated covariance matrix and how it came about.

    Attributes
    ----------
    cov : ndarray, shape (q, q)
        Covariance of the parameters in `free`, in the order beta, sigma, tau, kappa. Rows and
        columns of the parameters in `held_fixed` are zero.
    cov_type : str
        One of COV_TYPES.
    description : str
        A sentence for the foot of a table.
    free : tuple of str
        The estimated parameters.
    held_fixed : tuple of str
        Those treated as known: tau on a bound, or a parameter the data say nothing about.
    df_inference : int or None
        Degrees of freedom for t quantiles where the type implies them (clusters minus one).
    bread_width : float or None
        Width of the zone in the beta block of the bread; None without a bread.
    options : dict
        The options that were used.
    """

    cov: FloatArray
    cov_type: str
    description: str
    free: tuple[str, ...]
    held_fixed: tuple[str, ...] = ()
    df_inference: int | None = None
    bread_width: float | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Coordinates:
    """Orthonormal coordinates: Z = X transform has Z'WZ = 1, and beta = back gamma."""

    transform: FloatArray
    back: FloatArray


def _coordinates(moments: DesignMoments) -> _Coordinates:
    """Return the coordinates of a design; dependent columns get the shortest coefficients."""
    factor = moments.factor
    length = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    shares = np.abs(factor.diagonal()) / np.where(length > 0.0, length, 1.0)
    if float(shares.min(initial=1.0)) > CHOLESKY_SAFE:
        inverse = np.triu(np.linalg.inv(factor))
        return _Coordinates(inverse, inverse)
    p = factor.shape[0]
    basis = basis_of(factor, np.zeros(p))
    transform = basis.matrix[:p, : basis.columns.size] / np.sqrt(p)
    back = np.column_stack([minimum_norm(basis, column) for column in transform.T])
    return _Coordinates(transform, back)


def _uninformed(info: FloatArray, r: int, others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters about which nothing is left once the earlier ones are known.

    In orthonormal coordinates the beta block is a multiple of the identity, so that a few steps of
    symmetric elimination decide.
    """
    cross = info[:r, r:]
    rest = info[r:, r:] - (cross.T @ cross / info[0, 0] if r else 0.0)
    held = []
    for i, name in enumerate(others):
        if not rest[i, i] > NO_INFORMATION * info[r + i, r + i]:
            held.append(name)
            continue
        rest = rest - np.outer(rest[:, i], rest[i]) / rest[i, i]
    return tuple(held)


def _inverse(matrix: FloatArray) -> FloatArray | None:
    """Return the inverse of a positive definite matrix, or None if it is not."""
    length = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    if not length.min(initial=1.0) > 0.0:
        return None
    try:
        factor = np.linalg.cholesky(matrix / np.outer(length, length))
    except np.linalg.LinAlgError:
        return None
    root = np.linalg.inv(factor) / length
    return root.T @ root


class _Frame(NamedTuple):
    """The parameters of a covariance: coordinates, estimated and held ones, expected information."""

    coordinates: _Coordinates
    moments: DesignMoments
    free: tuple[str, ...]
    held: tuple[str, ...]
    unit: UnitInformation
    info: FloatArray

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(name for name in self.free if name not in self.held)


def _frame(moments: DesignMoments, point: Point, free: tuple[str, ...]) -> _Frame:
    """Return what is estimated, in which coordinates, and its expected information there."""
    unit = unit_information(point.tau, point.kappa)
    coordinates = _coordinates(moments)
    column = coordinates.transform.T @ moments.column_sum
    r = column.size if "beta" in free else 0
    bound = ("tau",) if point.tau_at_bound and "tau" in free else ()
    kept = tuple(name for name in free if name not in bound)
    info = assemble(kept, np.eye(column.size), column, moments.weight_sum, unit)
    lost = _uninformed(info, r, tuple(name for name in kept if name != "beta"))
    if lost:
        kept = tuple(name for name in kept if name not in lost)
        info = assemble(kept, np.eye(column.size), column, moments.weight_sum, unit)
    return _Frame(coordinates, moments, free, bound + lost, unit, info)


def _to_parameters(frame: _Frame, sigma: float, inner: FloatArray) -> FloatArray:
    """Return a covariance of (gamma, others) at sigma = 1 as one of the free parameters."""
    p, r = frame.coordinates.back.shape
    size = {name: (p, r) if name == "beta" else (1, 1) for name in frame.free}
    jacobian = np.zeros((sum(size[name][0] for name in frame.free), inner.shape[0]))
    row = column = 0
    for name in frame.free:
        rows, columns = size[name]
        if name in frame.kept:
            part = frame.coordinates.back * sigma if name == "beta" else np.eye(1)
            jacobian[row : row + rows, column : column + columns] = (
                part * sigma if name == "sigma" else part
            )
            column += columns
        row += rows
    return jacobian @ inner @ jacobian.T


class _Weights(NamedTuple):
    """How often each row counts, and how much it stands for."""

    freq: FloatArray | None
    prob: FloatArray | None
    nobs: float

    @property
    def total(self) -> FloatArray | None:
        """The weight of each row in the likelihood."""
        if self.freq is None or self.prob is None:
            return self.prob if self.freq is None else self.freq
        return self.freq * self.prob


def _weights(freq: Any, prob: Any, n: int) -> _Weights:
    f, w = weight_vector("freq_weights", freq, n), weight_vector("weights", prob, n)
    counted = np.ones(n) if f is None else f
    nobs = float(counted.sum() if w is None else counted[w > 0.0].sum())
    return _Weights(f, w, nobs)


def _bread(
    sample: Sample, frame: _Frame, weights: _Weights, width: float
) -> tuple[FloatArray, bool]:
    """Return the inverse of the smoothed bread, and whether the expected blocks had to help."""
    blocks = curvature(sample, weights.total, frame.unit, width)
    matrix = stack_curvature(blocks, frame.kept)
    inverse = _inverse(matrix)
    if inverse is not None:
        return inverse, False
    r = frame.coordinates.transform.shape[1] if "beta" in frame.kept else 0
    helped = frame.info.copy()
    helped[:r, :r] = matrix[:r, :r]
    inverse = _inverse(helped)
    return np.asarray(np.linalg.pinv(helped) if inverse is None else inverse), True


def _meat(sample: Sample, frame: _Frame, weights: _Weights) -> FloatArray:
    """Return the sum of the products of the scores, block by block."""
    meat = np.zeros_like(frame.info)
    for block in evaluated_blocks(sample):
        scores = score_block(block, frame.kept, sample.point, frame.unit)
        if weights.prob is not None:
            scores *= weights.prob[block.rows, None]
        if weights.freq is not None:
            scores *= np.sqrt(weights.freq[block.rows, None])
        meat += scores.T @ scores
    return meat


def _scores(sample: Sample, frame: _Frame, weights: _Weights) -> FloatArray:
    """Return the weighted scores of all rows."""
    scores = np.empty((sample.endog.size, frame.info.shape[0]))
    total = weights.total
    for block in evaluated_blocks(sample):
        part = score_block(block, frame.kept, sample.point, frame.unit)
        scores[block.rows] = part if total is None else part * total[block.rows, None]
    return scores


def group_codes(groups: Any, n: int) -> list[npt.NDArray[np.intp]]:
    """Return one or two arrays of cluster numbers, or raise a DataError that says what is wrong."""
    if groups is None:
        raise DomainError("cov_type='cluster' needs groups: one label per row, or two columns")
    if isinstance(groups, (list, tuple)) and len(groups) == 2 and np.ndim(groups[0]) == 1:
        columns = [np.asarray(group) for group in groups]
    else:
        array = np.asarray(groups)
        columns = [array] if array.ndim < 2 else list(array.T)
    if not 1 <= len(columns) <= 2:
        raise DataError(f"groups must be one or two columns of labels, got {len(columns)}")
    codes = []
    for number, column in enumerate(columns):
        name = "groups" if len(columns) == 1 else f"groups column {number}"
        if column.shape != (n,):
            raise DataError(f"{name} must have one label for each of {n} rows, got {column.shape}")
        missing = int(np.count_nonzero(pd.isna(column)))
        if missing:
            raise DataError(f"{name} contains {missing} missing labels; remove those rows first")
        code, labels = pd.factorize(column)
        if len(labels) < 2:
            raise DataError(f"{name} has only one cluster: its covariance is not estimable")
        codes.append(np.asarray(code, dtype=np.intp))
    return codes


def _cluster_meat_cov(
    scores: FloatArray,
    inverse: FloatArray,
    codes: npt.NDArray[np.intp],
    nobs: float,
    use_correction: bool,
) -> FloatArray:
    cov: FloatArray = sandwich.cov_cluster((scores, inverse), codes, use_correction=False)
    if use_correction:
        count = float(codes.max() + 1)
        cov *= count / (count - 1.0) * (nobs - 1.0) / (nobs - scores.shape[1])
    return cov


def _clustered(
    scores: FloatArray,
    inverse: FloatArray,
    codes: list[npt.NDArray[np.intp]],
    nobs: float,
    use_correction: bool,
) -> tuple[FloatArray, bool]:
    """Return the one- or two-way clustered covariance, and whether it had to be made nonnegative."""
    parts = [_cluster_meat_cov(scores, inverse, code, nobs, use_correction) for code in codes]
    if len(codes) == 1:
        return parts[0], False
    pairs = np.unique(codes[0] * (codes[1].max() + 1) + codes[1], return_inverse=True)[1]
    cov = parts[0] + parts[1]
    cov = cov - _cluster_meat_cov(scores, inverse, pairs.ravel(), nobs, use_correction)
    values, vectors = np.linalg.eigh(cov)
    if values.min() >= -1e-12 * values.max():
        return cov, False
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, True


def _kernel(kernel: Any) -> Callable[[int], FloatArray]:
    """Return the function that gives the weights of the lags."""
    if callable(kernel):
        return kernel  # type: ignore[no-any-return]
    known = sandwich.kernel_dict
    if kernel not in known:
        raise DomainError(f"kernel must be callable or one of {sorted(known)}, got {kernel!r}")
    return known[kernel]  # type: ignore[no-any-return]


def _lags(maxlags: Any, n: int) -> int:
    if maxlags is None:
        return int(4.0 * (n / 100.0) ** (2.0 / 9.0))
    if isinstance(maxlags, bool) or int(maxlags) != maxlags or not 0 <= maxlags < n:
        raise DomainError(f"maxlags must be a whole number from 0 to {n - 1}, got {maxlags!r}")
    return int(maxlags)


_ALLOWED = {
    "nonrobust": set[str](),
    "HC0": {"width"},
    "HC1": {"width"},
    "cluster": {"width", "groups", "use_correction"},
    "HAC": {"width", "maxlags", "kernel", "use_correction"},
}


def _check_options(cov_type: str, options: dict[str, Any]) -> None:
    """Raise a DomainError for an unknown type or an option that the type does not use."""
    if cov_type not in COV_TYPES:
        raise DomainError(f"cov_type must be one of {COV_TYPES}, got {cov_type!r}")
    for name, value in options.items():
        if value is not None and name not in _ALLOWED[cov_type]:
            raise DomainError(f"cov_type={cov_type!r} does not use the option {name!r}")
    width = options["width"]
    if width is not None and not float(width) > 0.0:
        raise DomainError(f"width must be positive, got {width!r}")


def covariance(
    cov_type: str,
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = None,
    use_correction: bool | None = None,
    width: float | None = None,
    moments: DesignMoments | None = None,
) -> CovarianceEstimate:
    r"""Return the covariance matrix of the estimates.

    Parameters
    ----------
    cov_type : {"nonrobust", "HC0", "HC1", "cluster", "HAC"}
        Inverse expected information, or a sandwich: for independent rows, without and with the
        factor n / (n - q); for rows dependent within one- or two-way clusters; for a time series.
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    fit : Fitted
        The estimates: a Solution or a :class:`Point`.
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" were estimated.
    freq_weights : array_like, shape (n,), or None
        Cases: a row with weight two is a row given twice.
    weights : array_like, shape (n,), or None
        Probability weights: only their ratios matter. A sandwich is required.
    offset : array_like, shape (n,), or None
        Known part of the location.
    groups : array_like, shape (n,) or (n, 2), or a pair of arrays
        Cluster labels, for "cluster".
    maxlags : int or None
        Highest lag, for "HAC"; by default floor(4 (n / 100)^(2/9)).
    kernel : {"bartlett", "uniform"} or callable
        Weights of the lags, for "HAC".
    use_correction : bool or None
        Small-sample factor: G / (G - 1) (n - 1) / (n - q) for "cluster" (default True), n / (n - q)
        for "HAC" (default False).
    width : float or None
        Width of the zone in the bread, at least that of the fit; by default :func:`bread_width`.
    moments : DesignMoments or None
        Moments of `exog` with the product of the weights, if known already.

    Returns
    -------
    CovarianceEstimate
        The matrix and how it came about.

    Notes
    -----
    A tau that ended on its bound is treated as known, and so is a parameter about which the data
    say nothing (tau when every row lies in the zone, kappa at (tau, kappa) = (1/2, 0)): its rows
    and columns are zero and `held_fixed` names it. With linearly dependent columns the covariance
    is that of the shortest coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance import covariance
    >>> from qhreg.solver import solve
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> exog = np.column_stack([np.ones_like(x), x])
    >>> endog = 1.0 + x + np.sin(40.0 * x) ** 3
    >>> fit = solve(exog, endog, kappa=1.0, search=False)
    >>> covariance("HC1", exog, endog, fit).cov.shape
    (4, 4)
    """
    options = {
        "groups": groups,
        "maxlags": maxlags,
        "kernel": kernel,
        "use_correction": use_correction,
        "width": width,
    }
    _check_options(cov_type, options)
    sample = checked_sample(exog, endog, fit, offset)
    w = _weights(freq_weights, weights, sample.endog.size)
    if cov_type == "nonrobust" and w.prob is not None:
        raise DomainError(
            "cov_type='nonrobust' counts cases, but the scale of probability weights is arbitrary: "
            "choose 'HC1' or another sandwich, or give the weights as freq_weights"
        )
    if moments is None:
        moments = design_moments(sample.exog, w.total)
    frame = _frame(moments, sample.point, check_free(free))
    if cov_type == "nonrobust":
        return _nonrobust(frame, sample.point)
    return _robust(cov_type, frame, sample, w, options)


def _note(frame: _Frame, point: Point) -> str:
    """Return what a table has to say about parameters that were held fixed."""
    notes = []
    for name in frame.held:
        at_bound = name == "tau" and point.tau_at_bound
        why = f"ended on its bound {point.tau:g}" if at_bound else "is not determined by the data"
        notes.append(f" {name} {why} and is treated as known.")
    return "".join(notes)


def _nonrobust(frame: _Frame, point: Point) -> CovarianceEstimate:
    """Return the inverse of the expected information."""
    inner = _inverse(frame.info)
    if inner is None:
        raise DataError("the expected information is singular: no standard errors exist")
    return CovarianceEstimate(
        _to_parameters(frame, point.sigma, inner),
        "nonrobust",
        "Covariance: inverse expected information; valid when the noise follows the model."
        + _note(frame, point),
        frame.free,
        frame.held,
    )


def _robust(
    cov_type: str, frame: _Frame, sample: Sample, weights: _Weights, options: dict[str, Any]
) -> CovarianceEstimate:
    """Return a sandwich covariance."""
    sample = replace(sample, transform=frame.coordinates.transform)
    point, n, q = sample.point, weights.nobs, frame.info.shape[0]
    if n <= q:
        raise DataError(f"{cov_type} needs more observations than parameters, got {n:g} and {q}")
    width = chosen_width(sample, weights.total, n, options["width"])
    inverse, helped = _bread(sample, frame, weights, width)
    used: dict[str, Any] = {"width": width}
    df = None
    if cov_type in ("HC0", "HC1"):
        inner = inverse @ _meat(sample, frame, weights) @ inverse
        inner = inner * (n / (n - q)) if cov_type == "HC1" else inner
        text = f"heteroskedasticity-robust sandwich ({cov_type})"
    elif cov_type == "cluster":
        codes = group_codes(options["groups"], sample.endog.size)
        correct = options["use_correction"] is not False
        scores = _scores(sample, frame, weights)
        inner, repaired = _clustered(scores, inverse, codes, n, correct)
        df = int(min(code.max() for code in codes))
        used |= {"n_groups": tuple(int(code.max()) + 1 for code in codes)}
        used |= {"use_correction": correct}
        text = f"clustered sandwich, {' x '.join(map(str, used['n_groups']))} clusters"
        text += ", negative eigenvalues set to zero" if repaired else ""
    else:
        if weights.freq is not None:
            raise DomainError("cov_type='HAC' needs one row per period: freq_weights make no sense")
        lags = _lags(options["maxlags"], sample.endog.size)
        kernel = options["kernel"] or "bartlett"
        correct = bool(options["use_correction"])
        inner = sandwich.cov_hac_simple(
            (_scores(sample, frame, weights), inverse),
            nlags=lags,
            weights_func=_kernel(kernel),
            use_correction=correct,
        )
        used |= {"maxlags": lags, "kernel": kernel, "use_correction": correct}
        text = f"heteroskedasticity- and autocorrelation-robust sandwich, {lags} lags"
    bread = ", bread with expected blocks" if helped else ""
    return CovarianceEstimate(
        _to_parameters(frame, point.sigma, inner),
        cov_type,
        f"Covariance: {text}{bread}; zone of width {width:.3g} in the bread." + _note(frame, point),
        frame.free,
        frame.held,
        df,
        width,
        used,
    )
