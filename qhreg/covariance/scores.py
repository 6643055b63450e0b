"""The score of each observation, and the rows it is made of.

Everything that needs scores or second derivatives asks here for blocks of rows with their
standardised residuals and slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.information import (
    UnitInformation,
    check_free,
    row_blocks,
    score_scale,
    unit_information,
)
from qhreg.exceptions import DataError
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.family.loss import zone_part

__all__ = [
    "Fitted",
    "Point",
    "Sample",
    "checked_sample",
    "evaluated_blocks",
    "interpolated_rows",
    "score_obs",
    "score_sum",
]


INTERPOLATED = 1e-10
"""A standardised residual this small is one that the fit at kappa = 0 made zero."""

ROUNDING = 2e-12
"""So is one that is so small beside the terms it is the difference of: in raw units they may cancel."""

NEAR = 1e-3
"""No standardised residual above this is taken for rounding error, however large these terms are."""


class Fitted(Protocol):
    """Anything with the parameters of a fit, such as a Solution."""

    @property
    def beta(self) -> FloatArray:
        """Coefficients."""
        ...

    @property
    def sigma(self) -> float:
        """Scale."""
        ...

    @property
    def tau(self) -> float:
        """Asymmetry."""
        ...

    @property
    def kappa(self) -> float:
        """Huber width."""
        ...

    @property
    def tau_at_bound(self) -> bool:
        """Whether tau was estimated and ended on a bound."""
        ...


class Point(NamedTuple):
    """Parameter values at which scores and matrices are evaluated."""

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float
    tau_at_bound: bool = False


def interpolated_rows(
    u: FloatArray,
    sigma: FloatArray | float,
    exog: npt.NDArray[np.floating],
    endog: npt.NDArray[np.floating],
    beta: FloatArray,
    offset: FloatArray | None = None,
) -> npt.NDArray[np.intp]:
    """Return the rows whose residual is rounding error: those that an exact fit interpolates.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    sigma : float or ndarray, shape (n,)
        What they were divided by.
    exog, endog, beta, offset
        What the residuals were made of.
    """
    near = np.flatnonzero(np.abs(u) < NEAR)
    terms = np.abs(endog[near]) + np.abs(exog[near]) @ np.abs(beta)
    if offset is not None:
        terms = terms + np.abs(offset[near])
    scale = sigma[near] if isinstance(sigma, np.ndarray) else sigma
    zero = np.abs(u[near]) < np.maximum(INTERPOLATED, ROUNDING * terms / scale)
    return np.asarray(near[zero])


@dataclass(frozen=True)
class Sample:
    """The data with the parameters, checked against each other.

    Attributes
    ----------
    exog : ndarray, shape (n, p)
        Regressors.
    endog : ndarray, shape (n,)
        Response.
    offset : ndarray, shape (n,), or None
        Known part of the location.
    point : Point
        The parameters.
    transform : ndarray, shape (p, r), or None
        When given, rows are handed out as ``x @ transform``.
    """

    exog: npt.NDArray[np.floating]
    endog: npt.NDArray[np.floating]
    offset: FloatArray | None
    point: Point
    transform: FloatArray | None = None

    @cached_property
    def u(self) -> FloatArray:
        """Standardised residuals, shape (n,), computed once."""
        u = np.array(self.endog, dtype=np.float64)
        for rows in row_blocks(*self.exog.shape):
            u[rows] -= np.asarray(self.exog[rows], dtype=np.float64) @ self.point.beta
        if self.offset is not None:
            u -= self.offset
        return self._standardized(u)

    def _standardized(self, resid: FloatArray) -> FloatArray:
        """Return residuals in units of sigma; those that an exact fit interpolates are zero."""
        point = self.point
        u = resid / point.sigma
        if point.kappa == 0.0:
            data = self.exog, self.endog, point.beta, self.offset
            u[interpolated_rows(u, point.sigma, *data)] = 0.0
        return u

    def with_residuals(self, resid: FloatArray) -> Sample:
        """Return the same sample, whose residuals are known."""
        other = Sample(self.exog, self.endog, self.offset, self.point, self.transform)
        other.__dict__["u"] = self._standardized(resid)
        return other

    @property
    def n_columns(self) -> int:
        """Columns of the rows that are handed out."""
        return int(self.exog.shape[1] if self.transform is None else self.transform.shape[1])

    def in_coordinates(self, transform: FloatArray | None) -> Sample:
        """Return the same sample with other columns; residuals are not computed again."""
        other = Sample(self.exog, self.endog, self.offset, self.point, transform)
        other.__dict__["u"] = self.u
        return other

    def taken(self, rows: npt.NDArray[np.intp]) -> Sample:
        """Return some rows; residuals are not computed again."""
        offset = None if self.offset is None else self.offset[rows]
        other = Sample(self.exog[rows], self.endog[rows], offset, self.point, self.transform)
        other.__dict__["u"] = self.u[rows]
        return other


class RowBlock(NamedTuple):
    """Some rows: their slice, design in the coordinates of the transform, residuals and slopes."""

    rows: slice
    design: FloatArray
    u: FloatArray
    psi: FloatArray

    def split(self, step: int) -> Iterator[RowBlock]:
        """Iterate over blocks of at most as many rows as a step."""
        n = self.u.size
        for start in range(0, n, step):
            part, first = slice(start, min(start + step, n)), self.rows.start
            rows = slice(first + part.start, first + part.stop)
            yield RowBlock(rows, self.design[part], self.u[part], self.psi[part])


def slopes(u: FloatArray, tau: float, kappa: float) -> FloatArray:
    """Return psi (QH-1); outside the zone it is exactly -tau or 1 - tau."""
    if kappa >= 1.0:
        return zone_part(u / kappa, tau, 1.0)
    with np.errstate(over="ignore"):
        return zone_part(u / kappa if kappa > 0.0 else np.sign(u), tau, 1.0)


def evaluated_blocks(sample: Sample) -> Iterator[RowBlock]:
    """Iterate over the rows with what every score and Hessian is made of."""
    tau, kappa = sample.point.tau, sample.point.kappa
    for rows in row_blocks(*sample.exog.shape):
        x = np.asarray(sample.exog[rows], dtype=np.float64)
        u = sample.u[rows]
        psi = slopes(u, tau, kappa)
        yield RowBlock(rows, x if sample.transform is None else x @ sample.transform, u, psi)


def _vector(name: str, values: Any, n: int) -> FloatArray | None:
    """Return a float vector of length n, or raise a DataError that names it."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"{name} must have shape ({n},), got {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise DataError(f"{name} contains {bad} NaN or infinite values")
    return array


def weight_vector(name: str, values: Any, n: int) -> FloatArray | None:
    """Return weights of n rows, or raise a DataError that names them."""
    array = _vector(name, values, n)
    if array is not None and bool((array < 0.0).any()):
        raise DataError(f"{name} must not be negative, got {int((array < 0.0).sum())} below zero")
    return array


def checked_sample(
    exog: Any, endog: Any, fit: Fitted, offset: Any, resid: FloatArray | None = None
) -> Sample:
    """Return the data and parameters, checked against each other; residuals may be known already."""
    x, y = np.asarray(exog), np.asarray(endog)
    if x.ndim != 2 or y.shape != (x.shape[0],):
        raise DataError(f"exog must be (n, p) and endog (n,), got {x.shape} and {y.shape}")
    beta = np.asarray(fit.beta, dtype=np.float64)
    if beta.shape != (x.shape[1],):
        raise DataError(f"beta must have shape ({x.shape[1]},), got {beta.shape}")
    point = Point(
        beta,
        float(check_sigma(float(fit.sigma))),
        float(check_tau(float(fit.tau))),
        float(check_kappa(float(fit.kappa))),
        bool(fit.tau_at_bound),
    )
    sample = Sample(x, y, _vector("offset", offset, y.size), point)
    if resid is not None:
        if resid.shape != y.shape:
            raise DataError(f"resid must have shape {y.shape}, got {resid.shape}")
        return sample.with_residuals(resid)
    return sample


def extra_scores(
    block: RowBlock, free: tuple[str, ...], point: Point, unit: UnitInformation
) -> list[FloatArray]:
    """Return the scores (QH-20) of some rows for sigma, tau and kappa, at sigma = 1."""
    columns: list[FloatArray] = []
    if "sigma" in free:
        columns.append(block.u * block.psi - 1.0)
    if "tau" in free:
        columns.append(block.u - zone_part(block.u, point.tau, point.kappa) - unit.log_c_tau)
    if "kappa" in free:
        columns.append(0.5 * block.psi**2 - unit.log_c_kappa)
    return columns


def score_block(
    block: RowBlock, free: tuple[str, ...], point: Point, unit: UnitInformation
) -> FloatArray:
    """Return the scores (QH-20) of some rows, times sigma for beta and sigma."""
    beta = [block.design * block.psi[:, None]] if "beta" in free else []
    return np.column_stack([*beta, *extra_scores(block, free, point, unit)])


def score_obs(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
) -> FloatArray:
    r"""Return the score of each observation, the derivative of its log-likelihood (QH-20).

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    fit : Fitted
        Parameter values: a Solution or a :class:`Point`.
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" to differentiate in.
    weights, offset : array_like, shape (n,), or None
        Weights multiply the scores; known part of the location.

    Returns
    -------
    ndarray, shape (n, q)
        Columns in the order beta, sigma, tau, kappa.

    Notes
    -----
    At kappa = 0 a row that the fit interpolates has the slope psi = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import Point, score_obs
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> score_obs(np.ones((2, 1)), np.array([-1.0, 3.0]), point, free=("beta", "sigma"))
    array([[-0.5, -0.5],
           [ 0.5,  0.5]])
    """
    names = check_free(free)
    sample = checked_sample(exog, endog, fit, offset)
    n, p = sample.exog.shape
    w = weight_vector("weights", weights, n)
    unit = unit_information(sample.point.tau, sample.point.kappa)
    scale = score_scale(names, p, sample.point.sigma)
    scores = np.empty((n, scale.size))
    for block in evaluated_blocks(sample):
        part = score_block(block, names, sample.point, unit) * scale
        scores[block.rows] = part if w is None else part * w[block.rows, None]
    return scores


def score_sum(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
) -> FloatArray:
    """Return the sum of the scores, the derivative of the log-likelihood, shape (q,).

    Parameters
    ----------
    exog, endog, fit, free, weights, offset
        As in :func:`score_obs`; nothing of the size of `exog` is made.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.scores import Point, score_sum
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> score_sum(np.ones((2, 1)), np.array([-1.0, 3.0]), point, free=("beta", "sigma"))
    array([0., 0.])
    """
    names = check_free(free)
    sample = checked_sample(exog, endog, fit, offset)
    w = weight_vector("weights", weights, sample.endog.size)
    unit = unit_information(sample.point.tau, sample.point.kappa)
    scale = score_scale(names, sample.exog.shape[1], sample.point.sigma)
    total = np.zeros(scale.size)
    for block in evaluated_blocks(sample):
        part = np.ones(block.u.size) if w is None else w[block.rows]
        beta = [(part * block.psi) @ block.design] if "beta" in names else []
        extra = [float(part @ one) for one in extra_scores(block, names, sample.point, unit)]
        total += np.concatenate([*beta, extra])
    return total * scale
