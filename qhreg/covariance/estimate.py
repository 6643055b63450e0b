r"""Covariance matrices of the estimates: expected information and sandwiches.

The nonrobust covariance is the inverse of the expected information (QH-21), which holds when the
model does. The sandwich :math:`B^{-1} M B^{-1}` holds without it: the meat M sums products of the
scores (QH-20), the bread B is minus the Hessian of the log-likelihood, smoothed where it counts rows
in the quadratic zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.calibration import Calibration, calibration_of
from qhreg.covariance.cautions import (
    warn_confined,
    warn_few,
    warn_helped,
    warn_hidden,
    warn_lost,
    warn_negative,
    warn_none,
)
from qhreg.covariance.curvature import RowWeights, observed_hessian, row_weights, smoothed_bread
from qhreg.covariance.dependence import group_codes
from qhreg.covariance.dependent import Estimated, clusters, series
from qhreg.covariance.effective import effective_rows, hidden, is_light
from qhreg.covariance.information import (
    DesignMoments,
    check_free,
    design_moments,
    expected_information,
)
from qhreg.covariance.leverage import with_leverage
from qhreg.covariance.oldwidth import bread_width, chosen_width
from qhreg.covariance.orthonormal import (
    Frame,
    frame_of,
    inverse_of,
    jacobian_of,
    to_parameters,
)
from qhreg.covariance.scores import (
    Fitted,
    Point,
    Sample,
    checked_sample,
    score_obs,
)
from qhreg.covariance.slices import Slices, sandwich_of, slices_of
from qhreg.exceptions import DataError, DomainError, FewRowsError

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
    "information_ratio",
    "nonrobust_covariance",
    "observed_hessian",
    "score_obs",
    "smoothed_bread",
]


COV_TYPES = ("nonrobust", "HC0", "HC1", "cluster", "HAC")
"""The covariance types of :func:`covariance`."""

NEEDS_CASES = (
    "cov_type='nonrobust' counts cases, but the scale of sampling weights is arbitrary: "
    "choose 'HC1' or another sandwich, or give the weights as freq_weights"
)
"""Why weights that are no counts have no covariance of that type."""


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
    text : str
        What it is, for the foot of a table.
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
    calibration : Calibration or None
        What ratios of estimates to standard errors are compared with; None for the normal or t law.
    note : str
        What the table has to say besides.
    """

    cov: FloatArray
    cov_type: str
    text: str
    free: tuple[str, ...]
    held_fixed: tuple[str, ...] = ()
    df_inference: int | None = None
    bread_width: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    note: str = ""

    @property
    def description(self) -> str:
        """Sentences for the foot of a table."""
        law = "" if self.calibration is None else self.calibration.description
        return f"{self.text}{law}{self.note}"


def no_covariance(
    cov_type: str,
    size: int,
    free: tuple[str, ...],
    error: FewRowsError,
    held: tuple[str, ...] = (),
    remedy: str = "",
) -> CovarianceEstimate:
    """Return the covariance of estimates that have none, NaN, and warn of it."""
    warn_none(str(error), remedy)
    text = f"Covariance: none, as {error}.{remedy}"
    return CovarianceEstimate(np.full((size, size), np.nan), cov_type, text, free, held)


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
    check_width(options["width"])


def check_width(width: Any) -> None:
    """Raise a DomainError for a width of the zone in the bread that is not positive."""
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
    resid: FloatArray | None = None,
    names: Sequence[str] | None = None,
    contrasts: FloatArray | None = None,
) -> CovarianceEstimate:
    r"""Return the covariance matrix of the estimates.

    Parameters
    ----------
    cov_type : {"nonrobust", "HC0", "HC1", "cluster", "HAC"}
        Inverse expected information, or a sandwich: for independent rows, with a calibration, and
        for "HC1" with the factor n / (n - q) and with allowance for rows with leverage
        (:mod:`qhreg.covariance.leverage`); for rows dependent within one- or two-way clusters; for a
        time series.
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
        Moments of `exog` with the product of the weights, if known already; for "nonrobust".
    resid : ndarray, shape (n,), or None
        Response minus location, if known already; for the sandwiches.
    names : sequence of str, length p, or None
        Names of the columns, for warnings.
    contrasts : ndarray, shape (m, q), or None
        Combinations of the parameters that the calibration is for; by default each by itself.

    Returns
    -------
    CovarianceEstimate
        The matrix and how it came about.

    Warns
    -----
    CurvatureWarning
        Where the bread is indefinite, as it often is with strongly skewed noise; where rows are fitted
        exactly, or nearly so since they have nearly all of the weight
        (:mod:`qhreg.covariance.effective`); and where one cluster alone decides a coefficient
        (:mod:`qhreg.covariance.confined`).

    Notes
    -----
    A tau that ended on its bound is treated as known, and so is a parameter about which the data
    say nothing (tau when every row lies in the zone, kappa at (tau, kappa) = (1/2, 0)): its rows
    and columns are zero and `held_fixed` names it. With linearly dependent columns the covariance
    is that of the shortest coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import covariance
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
    sample = checked_sample(exog, endog, fit, offset, resid)
    estimated = check_free(free)
    w = row_weights(freq_weights, weights, sample.endog.size)
    if cov_type == "nonrobust" and w.prob is not None:
        raise DomainError(NEEDS_CASES)
    if cov_type != "nonrobust":
        return _robust(cov_type, sample, w, estimated, options, names, contrasts)
    if moments is None:
        moments = design_moments(sample.exog, w.total)
    return nonrobust_covariance(moments, sample.point, estimated)


def _note(frame: Frame, point: Point) -> str:
    """Return what a table has to say about parameters that were held fixed."""
    notes = []
    for name in frame.held:
        at_bound = name == "tau" and point.tau_at_bound
        why = f"ended on its bound {point.tau:g}" if at_bound else "is not determined by the data"
        notes.append(f" {name} {why} and is treated as known.")
    return "".join(notes)


def nonrobust_covariance(
    moments: DesignMoments, point: Point, free: tuple[str, ...]
) -> CovarianceEstimate:
    """Return the inverse of the expected information."""
    frame, info = frame_of(moments, point, free)
    inner = inverse_of(info)
    if inner is None:
        raise DataError("the expected information is singular: no standard errors exist")
    return CovarianceEstimate(
        to_parameters(frame, point.sigma, inner),
        "nonrobust",
        "Covariance: inverse expected information; valid when the noise follows the model.",
        frame.free,
        frame.held,
        note=_note(frame, point),
    )


def require_more_rows(cov_type: str, n: float, q: int) -> None:
    """Raise a FewRowsError when there are not more observations than parameters."""
    if n <= q:
        raise FewRowsError(f"{cov_type} needs more observations than parameters, got {n:g} and {q}")


def uneven(
    cov_type: str,
    exog: npt.NDArray[np.floating],
    weights: RowWeights,
    q: int,
    names: Sequence[str] | None,
) -> str:
    """Warn where sampling weights leave too few rows for q parameters; return a note for a table.

    Parameters
    ----------
    cov_type : str
        Type of the covariance.
    exog : ndarray, shape (n, p)
        Regressors of the location, those in rows of another scale divided by it.
    weights : RowWeights
        Weights of the rows.
    q : int
        Number of parameters.
    names : sequence of str or None
        Names of the columns.
    """
    rows = effective_rows(weights)
    if not rows > q:
        warn_few(cov_type, rows, q)
        return f", weights that amount to {rows:.2g} rows"
    columns = hidden(exog, weights)
    if not columns:
        return ""
    warn_hidden(cov_type, columns, names)
    return f", {len(columns)} coefficients decided by the weight of few rows"


def _is_light(sample: Sample, weights: RowWeights, made: Slices, width: float) -> bool:
    """Return whether there are rows enough, and the bread shows that none has much leverage.

    The rows in the zone are some of all, so that X'WX is no smaller than the bread times its width.
    """
    if weights.prob is None:
        return True
    if made.helped or not effective_rows(weights) > made.meat.shape[0]:
        return False
    if "beta" not in made.frame.kept:
        return True
    change = made.frame.coordinates.transform
    r = change.shape[1]
    flat = change @ (made.inverse[:r, :r] / width) @ change.T
    return is_light(sample.exog, weights.prob, flat)


def _independent(
    cov_type: str,
    sample: Sample,
    weights: RowWeights,
    made: Slices,
    width: float,
    jacobian: FloatArray,
    contrasts: FloatArray | None,
) -> Estimated:
    """Return the sandwich of independent rows and its calibration; HC1 allows for leverage."""
    n, q, seen = weights.nobs, made.meat.shape[0], made
    text = f"heteroskedasticity-robust sandwich ({cov_type})"
    levered = with_leverage(sample, weights, made, width) if cov_type == "HC1" else None
    if levered is not None:
        made, seen = levered.slices, levered.seen
        text += levered.description
    judged = tested = made.judged(jacobian)
    if contrasts is not None or levered is not None:
        tested = seen.judged(jacobian if contrasts is None else contrasts @ jacobian)
    law = calibration_of(sample, weights, seen, width, tested)
    cov = judged.cov * (n / (n - q)) if cov_type == "HC1" else judged.cov
    return Estimated(cov, text, {}, calibration=law)


def _robust(
    cov_type: str,
    sample: Sample,
    weights: RowWeights,
    free: tuple[str, ...],
    options: dict[str, Any],
    names: Sequence[str] | None,
    contrasts: FloatArray | None,
) -> CovarianceEstimate:
    """Return a sandwich covariance."""
    point, n = sample.point, weights.nobs
    width = chosen_width(sample, weights.total, n, options["width"])
    made = slices_of(sample, weights, free, width)
    frame, inverse, q = made.frame, made.inverse, made.meat.shape[0]
    require_more_rows(cov_type, n, q)
    jacobian = jacobian_of(frame, point.sigma)
    if cov_type in ("HC0", "HC1"):
        found = _independent(cov_type, sample, weights, made, width, jacobian, contrasts)
    else:
        dependent = clusters if cov_type == "cluster" else series
        found = dependent(sample, frame, weights, inverse, jacobian, options)
        if made.lost is not None:
            change = jacobian @ inverse
            found = found._replace(cov=found.cov + change @ made.lost.meat @ change.T)
    bread = ""
    if made.helped:
        bread = f", bread with {made.helped}: prefer score intervals"
        warn_helped(cov_type, made.helped, ': prefer conf_int(method="score")')
    if made.lost is not None:
        bread += f", means for {made.lost.text} whose rows are fitted exactly"
        warn_lost(cov_type, made.lost)
    elif not _is_light(sample, weights, made, width):
        bread += uneven(cov_type, sample.exog, weights, q, names)
    if found.confined:
        bread += f", rows for {len(found.confined)} coefficients identified by one cluster"
        warn_confined(found.confined, names)
    if found.negative:
        warn_negative(cov_type, found.negative, names)
    return CovarianceEstimate(
        found.cov,
        cov_type,
        f"Covariance: {found.text}{bread}; bread smoothed over a window of {width:.3g} sigma.",
        frame.free,
        frame.held,
        found.df,
        width,
        {"width": width, **found.used},
        found.calibration,
        _note(frame, point),
    )


def information_ratio(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    width: float | None = None,
) -> FloatArray:
    r"""Return inverse bread times meat: the identity, up to sampling error, when the model holds.

    Parameters
    ----------
    exog, endog, fit, free, freq_weights, weights, offset, width
        As in :func:`covariance`.

    Returns
    -------
    ndarray, shape (r, r)
        In coordinates in which the columns are orthonormal: trace and determinant, of which
        information criteria for wrong models are made, do not depend on them.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import information_ratio
    >>> from qhreg.family.distribution import quantile_huber
    >>> from qhreg.solver import solve
    >>> endog = quantile_huber.ppf((np.arange(900) + 0.5) / 900, 0.4, 1.0)
    >>> fit = solve(np.ones((900, 1)), endog)
    >>> print(information_ratio(np.ones((900, 1)), endog, fit).trace().round(1))
    3.0
    """
    made = sandwich_of(exog, endog, fit, free, freq_weights, weights, offset, width).slices
    return made.inverse @ made.meat
