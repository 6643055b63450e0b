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
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from statsmodels.tools.sm_exceptions import ModelWarning

from qhreg._blocks import row_blocks
from qhreg._precision import ROUNDING
from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.bandwidth import bread_window
from qhreg.covariance.information import design_moments
from qhreg.covariance.scores import (
    CriterionHessian,
    Fitted,
    criterion_hessian,
    extra_scores,
    slopes,
    standardized,
)
from qhreg.exceptions import RankWarning
from qhreg.solver import Solution
from qhreg.solver.basis import basis_of, minimum_norm
from qhreg.specification.model_data import ModelData, fit_model
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace

__all__ = [
    "Inverse",
    "Parts",
    "assembled",
    "coordinates_of",
    "covariance_parts",
    "positive_inverse",
    "require_seen",
    "to_parameters",
    "treated_as_known",
    "wide_fit",
    "working_slopes",
]


OPEN = (1e-9, 1.0 - 1e-9)
"""Range of tau in the wider fit: on a bound of the model the curvature would not be a minimum's."""

LOADING = 1e-8
"""Share of its standard error below which an estimate does not move along a direction."""


class Inverse(NamedTuple):
    """The inverse of a symmetric matrix along the directions in which it is positive.

    Attributes
    ----------
    inverse : ndarray, shape (q, q)
        Zero along the other directions.
    flat : ndarray, shape (q, d)
        The other directions.
    """

    inverse: FloatArray
    flat: FloatArray

    def moved(self, jacobian: FloatArray) -> BoolArray:
        """Return which parameters, given their derivatives, move along the flat directions."""
        size = np.abs(jacobian).max(axis=1, initial=0.0, keepdims=True)
        unit = jacobian / np.where(size > 0.0, size, 1.0)  # squares of the others may be no numbers
        length = np.sqrt(np.einsum("ij,jk,ik->i", unit, self.inverse, unit))
        return np.asarray((np.abs(unit @ self.flat) > LOADING * length[:, None]).any(axis=1))


def positive_inverse(matrix: FloatArray, weight: float) -> Inverse:
    """Return the inverse of information about parameters on each of which rows may tell about one.

    Parameters
    ----------
    matrix : ndarray, shape (q, q)
        Symmetric.
    weight : float
        Sum of the weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.parts import positive_inverse
    >>> made = positive_inverse(np.diag([10.0, 0.0]), 10.0)
    >>> made.inverse.tolist(), np.abs(made.flat).tolist()
    ([[0.1, 0.0], [0.0, 0.0]], [[0.0], [1.0]])
    """
    roots, vectors = np.linalg.eigh(matrix)
    kept = roots > ROUNDING * weight
    half = vectors[:, kept] / np.sqrt(roots[kept])
    return Inverse(half @ half.T, vectors[:, ~kept])


def coordinates_of(factor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return T with T'R'RT = 1, its columns as short as can be, and a basis of what R maps to zero.

    Parameters
    ----------
    factor : ndarray, shape (k, k)
        R, triangular.
    """
    k = factor.shape[0]
    if not k:
        return factor, factor
    basis = basis_of(factor, np.zeros(k))
    r = basis.columns.size
    transform = basis.matrix[:k, :r] / math.sqrt(k)
    null = np.zeros((k, k - r))
    if r < k:
        shortest = [minimum_norm(basis, column) for column in transform.T]
        transform = np.array(shortest).reshape(r, k).T
        null[basis.columns] = basis.combination
        null[basis.dependent] = -np.eye(k - r)
    return transform, null


def working_slopes(fit: Fitted) -> dict[str, float]:
    """Return the derivatives of sigma, tau and kappa in log sigma, logit tau and log kappa."""
    return {"sigma": fit.sigma, "tau": fit.tau * (1.0 - fit.tau), "kappa": fit.kappa}


def to_parameters(space: ParameterSpace, fit: Fitted, extras: Sequence[str]) -> FloatArray:
    """Return the derivative of the parameters of a model in (beta, working extras), (size, q)."""
    slope = working_slopes(fit)
    jacobian = np.zeros((space.size, space.k + len(extras)))
    jacobian[: space.k, : space.k] = np.eye(space.k)
    for j, name in enumerate(extras, start=space.k):
        jacobian[space.position(name), j] = slope[name]
    return jacobian


class RowParts(NamedTuple):
    """Some rows: scores of one observation of each in inner coordinates, and its leverage."""

    rows: slice
    scores: FloatArray
    leverage: FloatArray


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
    change : ndarray, shape (q, r)
        The working coordinates in inner ones, in which the block of beta in the bread is a multiple of
        the identity: neither units nor collinearity cost digits there.
    inner : ndarray, shape (r, r)
        Inverse of the bread in the inner coordinates, zero along directions in which it has none.
    identified : ndarray of bool, shape (q,)
        Which working parameters do not move along such directions.
    jacobian : ndarray, shape (size, q)
        Derivative of all parameters of the model in the working coordinates, zero rows where held.
    """

    observations: Observations
    fit: Solution
    wide: Solution
    extras: tuple[str, ...]
    held: tuple[str, ...]
    bread: FloatArray
    change: FloatArray
    inner: FloatArray
    identified: BoolArray
    jacobian: FloatArray

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

    @property
    def inverse(self) -> FloatArray:
        """Inverse of the bread, shape (q, q), zero along directions in which it has none."""
        return self.change @ self.inner @ self.change.T

    @property
    def transform(self) -> FloatArray:
        """Coordinates T, shape (k, r), in which rows in the zone of the bread have T'X'CXT = 1."""
        k, e = self.observations.exog.shape[1], len(self.extras)
        wide = self.wide
        inward = self.change[:k, : self.change.shape[1] - e]
        return inward / (wide.sigma * math.sqrt(wide.kappa * wide.n))

    def blocks(self) -> Iterator[RowParts]:
        """Iterate over blocks of rows with their scores, in inner coordinates, and leverage."""
        obs, fit, wide = self.observations, self.fit, self.wide
        n, k = obs.exog.shape
        slope, r = working_slopes(fit), self.change.shape[1] - len(self.extras)
        u = standardized(obs, fit)
        # one product gives the rows in inner coordinates and their location in the wider zone
        both = np.column_stack([self.change[:k, :r] / wide.sigma, wide.beta])
        low, high = -wide.kappa * wide.tau * wide.sigma, wide.kappa * (1 - wide.tau) * wide.sigma
        for rows in row_blocks(n, k):
            moved = obs.exog[rows] @ both
            resid = obs.endog[rows] - moved[:, r]
            if obs.offset is not None:
                resid -= obs.offset[rows]
            psi = slopes(u[rows], fit.tau, fit.kappa)
            design, scores = moved[:, :r], np.empty((psi.size, self.change.shape[1]))
            leverage = np.einsum("ij,ij->i", design, design)
            leverage *= (resid >= low) & (resid <= high)
            leverage /= wide.kappa * wide.n
            factor = psi * (wide.sigma / fit.sigma)
            np.multiply(design, factor[:, None], out=scores[:, :r])
            for j, column in enumerate(extra_scores(u[rows], psi, fit, self.extras)):
                name = self.extras[j]
                np.multiply(column, 1.0 if name == "sigma" else slope[name], out=scores[:, r + j])
            if obs.weights is not None:
                leverage *= obs.weights[rows]
                scores *= obs.weights[rows, None]
            yield RowParts(rows, scores, leverage)

    @property
    def leverage(self) -> FloatArray:
        r"""Leverage of one observation of each row in the bread, shape (n,).

        :math:`h_i = c_i x_i'(\sum_j c_j x_j x_j')^{-1}x_i` with c the curvature of the row: its weight
        over the width, zero outside the zone.
        """
        return np.concatenate([block.leverage for block in self.blocks()])

    @property
    def influence(self) -> FloatArray:
        """Scores times the inverse bread: how far a row moves the working parameters, shape (n, q)."""
        outward = self.inner @ self.change.T
        return np.vstack([block.scores @ outward for block in self.blocks()])

    @property
    def scores(self) -> FloatArray:
        """Derivatives of the log-likelihood of one observation of each row at the fit, shape (n, q).

        In the working coordinates; sampling weights multiply them, frequency weights do not.
        """
        obs, fit = self.observations, self.fit
        u, slope = standardized(obs, fit), working_slopes(fit) | {"sigma": 1.0}
        psi = slopes(u, fit.tau, fit.kappa)
        extra = extra_scores(u, psi, fit, self.extras)
        columns = [slope[name] * column for name, column in zip(self.extras, extra, strict=True)]
        scores = np.column_stack([obs.exog * (psi / fit.sigma)[:, None], *columns])
        return scores if obs.weights is None else scores * obs.weights[:, None]


def treated_as_known(
    solution: Solution, space: ParameterSpace, held: Sequence[str]
) -> tuple[str, ...]:
    """Return what is held, and tau where it was estimated and is on its bound."""
    bound = ("tau",) if solution.tau_at_bound and space.tau is None else ()
    return tuple(dict.fromkeys((*bound, *held)))


def wide_fit(
    data: ModelData, solution: Solution, held: Sequence[str] = (), window: float | None = None
) -> Solution:
    """Return the fit at the width of the bread, started from that at the model's own.

    Parameters
    ----------
    data : ModelData
        The model.
    solution : Solution
        Its fit.
    held : sequence of str
        Which of the estimated sigma, tau and kappa stay at the fit.
    window : float, optional
        The window of the bread, where it is known.
    """
    obs = data.observations
    if window is None:
        u = standardized(obs, solution)
        window = bread_window(u, solution.tau, obs.nobs, obs.case_weights)
    fixed = {name: float(getattr(solution, name)) for name in held}
    fixed["kappa"] = math.hypot(solution.kappa, window)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        warnings.simplefilter("ignore", RankWarning)
        return fit_model(replace(data, tau_bounds=OPEN), fixed, start=solution, search=False)


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
    known = treated_as_known(solution, space, held)
    wide = wide_fit(data, solution, known)
    hessian = criterion_hessian(obs, wide, wide.p)
    factor = design_moments(obs.exog, hessian.in_zone).factor
    parts = assembled(obs, space, solution, wide, known, hessian, factor)
    if parts.change.shape[1] - len(parts.extras) < solution.rank:
        require_seen(parts, factor, design_moments(obs.exog, obs.case_weights).factor)
    return parts


def assembled(
    obs: Observations,
    space: ParameterSpace,
    solution: Solution,
    wide: Solution,
    held: tuple[str, ...],
    hessian: CriterionHessian,
    factor: FloatArray,
) -> Parts:
    """Return the parts of a fit from the derivatives of the criterion at the wider one.

    Parameters
    ----------
    obs : Observations
        The rows that the parts are to give scores of: all, or some of them.
    space : ParameterSpace
        The parameters.
    solution, wide : Solution
        The fit, and that at the width of the bread.
    held : tuple of str
        Estimated parameters that are treated as known.
    hessian : CriterionHessian
        Derivatives of the criterion of all rows at `wide`.
    factor : ndarray, shape (k, k)
        Triangular factor of the Gram matrix of all rows in the zone there.
    """
    extras = tuple(name for name in space.extra_names if name not in held)
    place = [EXTRA_NAMES.index(name) for name in extras]
    slope = np.array([1.0, wide.tau * (1.0 - wide.tau), wide.kappa])
    corner = hessian.corner * np.outer(slope, slope)
    corner[1, 1] += slope[1] * (1.0 - 2.0 * wide.tau) * hessian.gradient[1]
    corner[2, 2] += slope[2] * hessian.gradient[2]
    cross, corner = (hessian.cross * slope)[:, place], corner[np.ix_(place, place)]
    transform, _ = coordinates_of(factor)
    k, r, q = space.k, transform.shape[1], space.k + len(extras)
    bread = np.empty((q, q))
    standard = factor / wide.sigma
    bread[:k, :k] = standard.T @ standard / wide.kappa
    bread[:k, k:], bread[k:, :k], bread[k:, k:] = cross, cross.T, corner
    # in these coordinates the block of beta is the identity times the weight
    change = np.zeros((q, r + len(extras)))
    change[:k, :r] = transform * (wide.sigma * math.sqrt(wide.kappa * wide.n))
    change[k:, r:] = np.eye(len(extras))
    inner = np.empty((change.shape[1], change.shape[1]))
    inner[:r, :r], inner[r:, r:] = wide.n * np.eye(r), corner
    inner[:r, r:] = change[:k, :r].T @ cross
    inner[r:, :r] = inner[:r, r:].T
    inverse = positive_inverse(inner, wide.n)
    return Parts(
        obs,
        solution,
        wide,
        extras,
        held,
        bread,
        change,
        inverse.inverse,
        ~inverse.moved(change),
        to_parameters(space, solution, extras),
    )


def require_seen(parts: Parts, factor: FloatArray, every: FloatArray) -> None:
    """Take coefficients off the identified ones of which the rows in the zone tell less than all rows.

    Parameters
    ----------
    parts : Parts
        Whose `identified` is changed.
    factor, every : ndarray, shape (k, k)
        Triangular factors of the Gram matrices of the rows in the zone, and of all rows.
    """
    (_, null), (_, blind) = coordinates_of(factor), coordinates_of(every)
    size = np.linalg.norm(every, axis=0)[:, None]  # of the columns: units do not matter
    null, blind = null * size, blind * size
    if blind.size:
        null = null - blind @ np.linalg.lstsq(blind, null, rcond=None)[0]
    seen = (np.abs(null) > LOADING * np.abs(null).max(initial=0.0)).any(axis=1)
    parts.identified[: factor.shape[0]] &= ~seen
