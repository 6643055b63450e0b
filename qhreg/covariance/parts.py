r"""What every robust covariance of a linear fit is made of: scores, bread and leverage.

The working coordinates are (beta, log sigma, logit tau, log kappa), those that are estimated. The scores
are those of the rows at the fit. The bread is the Hessian of what the fit minimises, the restricted or
the ordinary negative log-likelihood, at the wider width

.. math:: \tilde\kappa = \sqrt{\kappa^2 + w^2},

at *its own* minimum, found from the fit: at kappa = 0 the Hessian of the fit itself counts no row, and
for small kappa few. w is the window of :mod:`qhreg.covariance.bandwidth`, which vanishes as rows
accumulate. At a minimum the Hessian is positive.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.bandwidth import bread_window
from qhreg.covariance.information import (
    design_moments,
    normalizer_hessian,
    row_blocks,
    unit_information,
)
from qhreg.covariance.scores import interpolated_rows, slopes
from qhreg.exceptions import ModelWarning, RankWarning
from qhreg.family.loss import zone_part
from qhreg.solver import Solution
from qhreg.solver.basis import basis_of, minimum_norm
from qhreg.specification.model_data import ModelData, fit_model
from qhreg.specification.observations import Observations

__all__ = ["BreadInverse", "Parts", "bread_inverse", "covariance_parts", "standardized"]


ROUNDING = 1e-12
"""Share of the information of the rows below which a curvature is rounding error."""

LOADING = 1e-8
"""Share of its standard error below which an estimate does not move along a direction."""


@dataclass(frozen=True)
class Parts:
    """Scores, bread and leverage of a fit.

    Attributes
    ----------
    observations : Observations
        The data.
    fit : Solution
        The fit.
    wide : Solution
        The fit at the width of the bread.
    extras : tuple of str
        Those of sigma, tau and kappa that were estimated and are not held.
    held : tuple of str
        Those that are held though estimated: tau on its bound, kappa at a limit.
    bread : ndarray, shape (q, q)
        Hessian of the criterion in the working coordinates (beta, log sigma, logit tau, log kappa).
    inverse : ndarray, shape (q, q)
        Its inverse, zero along directions in which it has none.
    identified : ndarray of bool, shape (q,)
        Which parameters do not move along such directions.
    jacobian : ndarray, shape (size, q)
        Derivative of all parameters of the model in the working coordinates, zero rows where held.
    transform : ndarray, shape (k, r)
        Coordinates T in which the rows of the bread have the Gram matrix T'X'CXT = 1.
    """

    observations: Observations
    fit: Solution
    wide: Solution
    extras: tuple[str, ...]
    held: tuple[str, ...]
    bread: FloatArray
    inverse: FloatArray
    identified: BoolArray
    jacobian: FloatArray
    transform: FloatArray

    @property
    def width(self) -> float:
        """Width of the zone in the bread."""
        return self.wide.kappa

    @property
    def nobs(self) -> float:
        """Number of observations."""
        return self.observations.nobs

    @property
    def df_resid(self) -> float:
        """Observations minus the rank of the regressors."""
        return self.nobs - self.fit.rank

    @property
    def freq(self) -> FloatArray | None:
        """Frequency weights: how many observations each row is."""
        return self.observations.freq_weights

    @cached_property
    def scores(self) -> FloatArray:
        """Derivatives of the log-likelihood of one observation of each row at the fit, shape (n, q).

        Sampling weights multiply them, frequency weights do not.
        """
        obs, sigma = self.observations, self.fit.sigma
        u = standardized(obs, self.fit)
        psi = slopes(u, self.fit.tau, self.fit.kappa)
        extra = extra_scores(u, psi, self.fit, self.extras)
        n, k = obs.exog.shape
        scores = np.empty((n, k + len(extra)))
        factor = psi / sigma if obs.weights is None else psi * obs.weights / sigma
        for rows in row_blocks(n, k):
            np.multiply(obs.exog[rows], factor[rows, None], out=scores[rows, :k])
        for j, column in enumerate(extra, start=k):
            scores[:, j] = column if obs.weights is None else column * obs.weights
        return scores

    @cached_property
    def leverage(self) -> FloatArray:
        r"""Leverage of one observation of each row in the bread, shape (n,).

        :math:`h_i = c_i x_i'(\sum_j c_j x_j x_j')^{-1}x_i` with c the curvature of the row: its weight
        over the width, zero outside the zone.
        """
        obs, leverage = self.observations, np.zeros(self.observations.endog.size)
        for rows, _, zone in wide_rows(obs, self.wide):
            inside = np.flatnonzero(zone)
            moved = obs.exog[rows][inside] @ self.transform
            leverage[rows.start + inside] = np.einsum("ij,ij->i", moved, moved)
        return leverage if obs.weights is None else leverage * obs.weights

    @property
    def influence(self) -> FloatArray:
        """Scores times the inverse bread: how far a row moves the working parameters, shape (n, q)."""
        return np.asarray(self.scores @ self.inverse)


def standardized(observations: Observations, fit: Solution) -> FloatArray:
    """Return the residuals in units of sigma; those that an exact fit interpolates are zero."""
    u = observations.residuals(fit.beta)
    u /= fit.sigma
    if fit.kappa == 0.0:
        data = observations.exog, observations.endog, fit.beta, observations.offset
        u[interpolated_rows(u, fit.sigma, *data)] = 0.0
    return u


def extra_scores(
    u: FloatArray, psi: FloatArray, fit: Solution, extras: Sequence[str]
) -> list[FloatArray]:
    """Return the scores of log sigma, logit tau and log kappa (QH-20)."""
    unit = unit_information(fit.tau, fit.kappa)
    columns: list[FloatArray] = []
    for name in extras:
        if name == "sigma":
            columns.append(u * psi - 1.0)
        elif name == "tau":
            excess = u - zone_part(u, fit.tau, fit.kappa)
            columns.append(fit.tau * (1.0 - fit.tau) * (excess - unit.log_c_tau))
        else:
            columns.append(fit.kappa * (0.5 * psi**2 - unit.log_c_kappa))
    return columns


def covariance_parts(data: ModelData, solution: Solution, held: Sequence[str] = ()) -> Parts:
    """Return the parts of the robust covariances of a fit.

    Parameters
    ----------
    data : ModelData
        The model that was fitted.
    solution : Solution
        Its fit.
    held : sequence of str
        Which of the estimated sigma, tau and kappa to treat as known; tau on its bound always is.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.parts import covariance_parts
    >>> from qhreg.specification.model_data import fit_model, model_data
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> data = model_data(np.column_stack([np.ones_like(x), x]), x + np.sin(40.0 * x) ** 3)
    >>> parts = covariance_parts(data, fit_model(data))
    >>> parts.scores.shape, parts.bread.shape, float(parts.leverage.sum().round(9))
    ((201, 4), (4, 4), 2.0)
    """
    obs, space = data.observations, data.space
    bound = ("tau",) if solution.tau_at_bound and space.tau is None else ()
    kept_back = tuple(dict.fromkeys((*bound, *held)))
    extras = tuple(name for name in space.extra_names if name not in kept_back)
    u = standardized(obs, solution)
    window = bread_window(u, solution.tau, obs.nobs, obs.case_weights)
    fixed = {name: getattr(solution, name) for name in kept_back}
    fixed["kappa"] = math.hypot(solution.kappa, window)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", RankWarning)
        wide = fit_model(data, fixed, start=solution, search=False)
    sums = _wide_sums(obs, wide, extras)
    inner = bread_inverse(sums, extras, wide, solution.rank, obs)
    return Parts(
        obs,
        solution,
        wide,
        extras,
        kept_back,
        sums.bread,
        inner.inverse,
        inner.identified,
        _jacobian(data, solution, extras),
        inner.transform,
    )


def _jacobian(data: ModelData, fit: Solution, extras: tuple[str, ...]) -> FloatArray:
    """Return the derivative of the parameters of the regression in the working coordinates."""
    space = data.space
    slope = {"sigma": fit.sigma, "tau": fit.tau * (1.0 - fit.tau), "kappa": fit.kappa}
    jacobian = np.zeros((space.size, space.k + len(extras)))
    jacobian[: space.k, : space.k] = np.eye(space.k)
    for j, name in enumerate(extras, start=space.k):
        jacobian[space.position(name), j] = slope[name]
    return jacobian


def wide_rows(obs: Observations, wide: Solution) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
    """Iterate over rows, their standardised residuals, and whether these lie in the zone."""
    low, high = -wide.kappa * wide.tau, wide.kappa * (1.0 - wide.tau)
    for rows in row_blocks(*obs.exog.shape):
        u = obs.endog[rows] - obs.exog[rows] @ wide.beta
        if obs.offset is not None:
            u -= obs.offset[rows]
        u /= wide.sigma
        yield rows, u, (u >= low) & (u <= high)


class BreadSums(NamedTuple):
    """The Hessian of the criterion: the factor of its first block, and all of it.

    Attributes
    ----------
    factor : ndarray, shape (k, k)
        R with R'R the weighted Gram matrix of the rows in the zone.
    cross : ndarray, shape (k, e)
        Mixed derivatives of beta and the others.
    corner : ndarray, shape (e, e)
        Second derivatives of the others.
    bread : ndarray, shape (k + e, k + e)
        The Hessian.
    weight : float
        Sum of the weights.
    """

    factor: FloatArray
    cross: FloatArray
    corner: FloatArray
    bread: FloatArray
    weight: float


def _wide_sums(obs: Observations, wide: Solution, extras: tuple[str, ...]) -> BreadSums:
    """Return the Hessian of the criterion at a fit in the working coordinates."""
    tau, kappa, sigma = wide.tau, wide.kappa, wide.sigma
    n, k = obs.exog.shape
    weights = obs.case_weights
    inside = np.empty(n)
    cross, corner = np.zeros((k, 3)), np.zeros((3, 3))
    excess = square = 0.0
    for rows, u, zone in wide_rows(obs, wide):
        w = np.ones(u.size) if weights is None else weights[rows]
        inside[rows] = w * zone
        w_in, w_out = inside[rows], w * ~zone
        psi = slopes(u, tau, kappa)
        along = np.array([(w + w_in) * psi, w_out, w_in * psi])
        cross += (along @ obs.exog[rows]).T
        corner[0, 0] += float((w + w_in) * psi @ u)
        corner[0, 1] += float(w_out @ u)
        corner[0, 2] += float(w_in * psi @ u)
        corner[1, 1] -= kappa * float(w_out.sum())
        corner[1, 2] += float(w_out @ psi)
        corner[2, 2] += float(w_in * psi @ psi)
        excess += float(w_out @ (u - kappa * psi))
        square += float(w * psi @ psi)
    total = float(n if weights is None else weights.sum())
    c = normalizer_hessian(tau, kappa, total, wide.p)
    # from (sigma, tau, kappa) to (log sigma, logit tau, log kappa)
    room = tau * (1.0 - tau)
    cross *= np.array([1.0, room, 1.0]) / sigma
    corner[0, 1] *= room
    corner[1, 1] = room**2 * (corner[1, 1] + c.d2_tau)
    corner[1, 1] += room * (1.0 - 2.0 * tau) * (c.d_tau - excess)
    corner[1, 2] = room * kappa * (corner[1, 2] + c.d_tau_kappa)
    corner[2, 2] = kappa * corner[2, 2] + kappa**2 * c.d2_kappa
    corner[2, 2] += kappa * (c.d_kappa - 0.5 * square)
    corner += np.triu(corner, 1).T
    place = [("sigma", "tau", "kappa").index(name) for name in extras]
    cross, corner = cross[:, place], corner[np.ix_(place, place)]
    factor = design_moments(obs.exog, inside).factor
    bread = np.empty((k + len(place), k + len(place)))
    bread[:k, :k] = factor.T @ factor / (kappa * sigma**2)
    bread[:k, k:], bread[k:, :k], bread[k:, k:] = cross, cross.T, corner
    return BreadSums(factor, cross, corner, bread, total)


class BreadInverse(NamedTuple):
    """The inverse of a Hessian where it has one.

    Attributes
    ----------
    inverse : ndarray, shape (q, q)
        Zero along directions without positive curvature.
    identified : ndarray of bool, shape (q,)
        Which parameters do not move along these.
    transform : ndarray, shape (k, r)
        T with T'R'RT = 1.
    """

    inverse: FloatArray
    identified: BoolArray
    transform: FloatArray


def bread_inverse(
    sums: BreadSums, extras: tuple[str, ...], wide: Solution, rank: int, obs: Observations
) -> BreadInverse:
    r"""Return the inverse of the Hessian, by blocks, and what it leaves open.

    Notes
    -----
    With A the block of beta, B that with the others and D theirs, :math:`S = D - B'A^{-1}B` and

    .. math::

        H^{-1} = \begin{pmatrix} A^{-1} + A^{-1}BS^{-1}B'A^{-1} & -A^{-1}BS^{-1} \\
                                 \cdot & S^{-1} \end{pmatrix} .

    A is taken in coordinates in which it is the identity, so that units and collinearity lose no
    digits. Linearly dependent columns have the covariance of the shortest coefficients.
    """
    k = sums.factor.shape[0]
    transform, null = _coordinates(sums.factor)
    size = transform * (wide.sigma * math.sqrt(wide.kappa))  # A = 1 in these coordinates
    cross = size.T @ sums.cross
    complement = sums.corner - cross.T @ cross
    roots, vectors = np.linalg.eigh(complement)
    floor = ROUNDING * max(sums.weight, float(np.abs(sums.corner).max(initial=0.0)))
    kept = roots > floor
    half = vectors[:, kept] / np.sqrt(roots[kept])
    whole = np.vstack([size @ (cross @ half), -half])
    inverse = whole @ whole.T
    inverse[:k, :k] += size @ size.T
    flat = np.vstack([size @ (cross @ vectors[:, ~kept]), -vectors[:, ~kept]])
    if transform.shape[1] < rank:  # rows of the zone tell less than all rows
        flat = np.hstack(
            [flat, np.vstack([_seen(null, obs), np.zeros((len(extras), null.shape[1]))])]
        )
    length = np.sqrt(inverse.diagonal())
    length[length == 0.0] = 1.0
    moves = np.abs(flat / length[:, None])
    identified = ~(moves > LOADING * moves.max(axis=0, initial=0.0)).any(axis=1)
    return BreadInverse(inverse, identified, transform)


def _coordinates(factor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return T with T'R'RT = 1, its columns as short as can be, and a basis of what R leaves out."""
    k = factor.shape[0]
    if not k:
        return factor, factor
    basis = basis_of(factor, np.zeros(k))
    r = basis.columns.size
    transform = basis.matrix[:k, :r] / math.sqrt(k)
    if r == k:
        return transform, np.empty((k, 0))
    for j in range(r):
        transform[:, j] = minimum_norm(basis, transform[:, j])
    null = np.zeros((k, k - r))
    null[basis.columns] = basis.combination
    null[basis.dependent] = -np.eye(k - r)
    return transform, null


def _seen(null: FloatArray, obs: Observations) -> FloatArray:
    """Return the combinations of directions along which the rows of the data do differ."""
    factor = design_moments(obs.exog, obs.case_weights).factor
    _, blind = _coordinates(factor)
    if not blind.shape[1]:
        return null
    fitted = np.linalg.lstsq(blind, null, rcond=None)[0]
    return np.asarray(null - blind @ fitted)
