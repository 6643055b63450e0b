r"""What every robust covariance of a linear fit is made of: scores, bread and leverage.

The working coordinates are (beta, log sigma, logit tau, log kappa), those that are estimated. The scores
are those of the rows at the fit. The bread is the Hessian of what the fit minimises, the restricted or
the ordinary negative log-likelihood, at the wider width

.. math:: \tilde\kappa = \sqrt{\kappa^2 + w^2},

at *its own* minimum, found from the fit: at kappa = 0 the Hessian of the fit itself counts no row, and
for small kappa few. w is the window of :func:`bread_window`, which vanishes as rows accumulate. At a
minimum the Hessian is positive.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import special
from scipy.linalg import block_diag
from statsmodels.tools.sm_exceptions import ModelWarning

from qhreg._precision import ROUNDING, VANISHING
from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.information import places, score_scale, stacked_factors
from qhreg.covariance.scores import (
    CriterionHessian,
    Fitted,
    loss_hessian,
    row_scores,
    score_obs,
    standardized,
    with_normalizer,
)
from qhreg.engine.rows import weighted_quantiles
from qhreg.family.domain import line_slope
from qhreg.solver import Solution
from qhreg.solver.setup import basis_of, minimum_norm
from qhreg.specification.model_data import ModelData, refit
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

OPEN = (1e-9, 1.0 - 1e-9)
"""Range of tau in the wider fit: on a bound of the model the curvature would not be a minimum's."""

LOADING = 1e-8
"""Share of its standard error below which an estimate does not move along a direction."""

_Self = TypeVar("_Self", bound="Parts")


# ---------------------------------------------------------------------- the window


def hall_sheather(level: float, nobs: float) -> float:
    r"""Return the bandwidth of Hall and Sheather for the sparsity at a quantile.

    Parameters
    ----------
    level : float
        Level of the quantile, in (0, 1).
    nobs : float
        Number of observations.

    Notes
    -----
    With :math:`z = \Phi^{-1}(q)` [1]_

    .. math:: h = n^{-1/3}\,1.96^{2/3}\Big(\frac{1.5\,\varphi(z)^2}{2z^2+1}\Big)^{1/3}.

    It is ``bandwidth.rq(q, n, hs = TRUE)`` of R's quantreg.

    References
    ----------
    .. [1] P. Hall and S. J. Sheather (1988), On the distribution of a studentized quantile, Journal of
       the Royal Statistical Society B 50, 381-391.

    Examples
    --------
    >>> from qhreg.covariance.parts import hall_sheather
    >>> round(hall_sheather(0.5, 235), 6)
    0.157439
    """
    z = float(special.ndtri(level))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    size = nobs ** (-1.0 / 3.0) * float(special.ndtri(0.975)) ** (2.0 / 3.0)
    return float(size * (1.5 * density**2 / (2.0 * z * z + 1.0)) ** (1.0 / 3.0))


def bread_window(
    u: FloatArray, tau: float, nobs: float, weights: FloatArray | None = None
) -> float:
    r"""Return the width w of the window in which residuals tell of the density at the line.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    tau : float
        Asymmetry; the line is near the quantile q = 1 - tau.
    nobs : float
        Number of observations.
    weights : ndarray, shape (n,), or None
        Weights of the rows.

    Notes
    -----
    :math:`w = s\,(\Phi^{-1}(q + h) - \Phi^{-1}(q - h))`, h Hall and Sheather's bandwidth and s the
    smaller of the standard deviation and the interquartile range over 1.349, the standard deviation
    where that range is zero: the window of R's quantreg. Levels beyond 1/(2n) and 1 - 1/(2n), those of
    the extreme ones of n observations, are these.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.parts import bread_window
    >>> round(bread_window(np.linspace(-1.0, 1.0, 101), 0.5, 101), 3)
    0.644
    """
    mean = float(np.average(u, weights=weights))
    variance = float(np.average((u - mean) ** 2, weights=weights))
    return window_width(variance, quartile_range(u, weights), tau, nobs)


def window_width(variance: float, middle: float, tau: float, nobs: float) -> float:
    """Return w of :func:`bread_window` from mean squared deviation and interquartile range."""
    level = 1.0 - tau
    h, edge = hall_sheather(level, nobs), 0.5 / nobs
    low, high = max(level - h, min(level, edge)), min(level + h, max(level, 1.0 - edge))
    spread = math.sqrt(variance * nobs / max(nobs - 1.0, 1.0))
    if middle > 0.0:
        spread = min(spread, middle / 1.349)
    return spread * float(special.ndtri(high) - special.ndtri(low))


def quartile_range(u: FloatArray, weights: FloatArray | None) -> float:
    """Return the interquartile range, the mean of those of u and of -u.

    They differ where a quarter of the weight ends between two values, and the width must not depend on
    the sign of the response.
    """
    low, high = weighted_quantiles(u, (0.25, 0.75), weights)
    below, above = weighted_quantiles(-u, (0.25, 0.75), weights)
    return 0.5 * (high - low + above - below)


# ---------------------------------------------------------------------- the bread


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

    def moved(self, change: FloatArray, unseen: FloatArray | None = None) -> BoolArray:
        """Return which parameters move along directions that the matrix tells nothing about.

        Parameters
        ----------
        change : ndarray, shape (size, q)
            The parameters in the coordinates of the matrix.
        unseen : ndarray, shape (size, d), or None
            Directions of the parameters beside those in `flat`.
        """
        flat = change @ self.flat
        if unseen is not None:
            flat = np.column_stack([flat, unseen])
        size = np.abs(change).max(axis=1, initial=0.0, keepdims=True)
        unit = change / np.where(size > 0.0, size, 1.0)  # squares of the others may be no numbers
        length = size[:, 0] * np.sqrt(np.einsum("ij,jk,ik->i", unit, self.inverse, unit))
        return np.asarray((np.abs(flat) > LOADING * length[:, None]).any(axis=1))


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


def coordinates_of(every: FloatArray, zone: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return T with T'Z'ZT = 1, its columns as short as can be, and what R tells of and Z does not.

    Parameters
    ----------
    every, zone : ndarray, shape (k, k)
        R and Z, triangular: factors of the Gram matrices of all rows and of some of them.
    """
    k = every.shape[0]
    if not k:
        return every, every
    basis = basis_of(every, np.zeros(k))
    columns = basis.matrix[:k, : basis.columns.size].T / math.sqrt(k)
    transform = np.array([minimum_norm(basis, column) for column in columns]).reshape(-1, k).T
    _, share, axes = np.linalg.svd(zone @ transform, full_matrices=False)
    seen, rotated = share > VANISHING, transform @ axes.T
    return rotated[:, seen] / share[seen], rotated[:, ~seen]


def working_slopes(fit: Fitted, extras: Sequence[str]) -> FloatArray:
    """Return the derivatives of sigma, tau and kappa in log sigma, logit tau and log kappa."""
    return np.array([line_slope(name, getattr(fit, name)) for name in extras])


def to_parameters(space: ParameterSpace, fit: Fitted, extras: Sequence[str]) -> FloatArray:
    """Return the derivative of the parameters of a model in (beta, working extras), (size, q)."""
    kept = [*range(space.k), *(space.extra_names.index(name) + space.k for name in extras)]
    return np.eye(space.size)[:, kept] * np.append(np.ones(space.k), working_slopes(fit, extras))


class RowParts(NamedTuple):
    """Some rows: scores of one observation of each in inner coordinates, and its leverage."""

    observations: Observations
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
    def without_rows(self: _Self) -> _Self:
        """The same fit and bread, to be given other rows where these lie."""
        return replace(self, observations=Observations(np.empty((0, 0)), np.empty(0)))

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
        k, r = self.observations.exog.shape[1], self.change.shape[1] - len(self.extras)
        return self.change[:k, :r] / (self.wide.sigma * math.sqrt(self.wide.kappa * self.wide.n))

    def blocks(self) -> Iterator[RowParts]:
        """Iterate over blocks of rows with their scores, in inner coordinates, and leverage."""
        fit, wide, extras = self.fit, self.wide, places(self.extras, 0)
        k, r = self.observations.exog.shape[1], self.change.shape[1] - len(extras)
        slope = working_slopes(fit, self.extras) * score_scale(0, fit.sigma)[extras]
        # one product gives the rows in inner coordinates and their location in the wider zone
        both = np.column_stack([self.change[:k, :r] / wide.sigma, wide.beta])
        low, high = -wide.kappa * wide.tau * wide.sigma, wide.kappa * (1 - wide.tau) * wide.sigma
        for obs in self.observations.blocks():
            moved = obs.exog @ both
            resid = obs.endog - moved[:, r]
            if obs.offset is not None:
                resid -= obs.offset
            design = moved[:, :r]
            leverage = np.einsum("ij,ij->i", design, design)
            leverage *= ((resid >= low) & (resid <= high)) / (wide.kappa * wide.n)
            psi, others = row_scores(obs, fit)
            design *= (psi * (wide.sigma / fit.sigma))[:, None]
            scores = np.column_stack([design, others[:, extras] * slope])
            if obs.weights is not None:
                leverage *= obs.weights
                scores *= obs.weights[:, None]
            yield RowParts(obs, scores, leverage)

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
        return self.inner_scores @ (self.inner @ self.change.T)

    @property
    def inner_scores(self) -> FloatArray:
        """Scores of one observation of each row in the inner coordinates, shape (n, r)."""
        return np.vstack([block.scores for block in self.blocks()])

    @property
    def scores(self) -> FloatArray:
        """Derivatives of the log-likelihood of one observation of each row at the fit, shape (n, q).

        In the working coordinates; sampling weights multiply them, frequency weights do not.
        """
        slope = np.append(
            np.ones(self.observations.exog.shape[1]), working_slopes(self.fit, self.extras)
        )
        return score_obs(self.observations, self.fit, ("beta", *self.extras)) * slope

    def decided_alone(self, obs: Observations, leverage: FloatArray) -> BoolArray:
        """Return which working parameters a row with leverage one decides, at which HC2 and HC3 end.

        Parameters
        ----------
        obs : Observations
            Some rows.
        leverage : ndarray
            Their leverage.
        """
        alone, transform = obs.exog[1.0 - leverage <= VANISHING], self.transform
        moves = np.abs(transform @ (transform.T @ alone.T))
        length = np.linalg.norm(transform, axis=1)[:, None]
        decided = np.zeros_like(self.identified)
        decided[: len(transform)] = (moves > LOADING * length).any(axis=1)
        return decided


def treated_as_known(
    solution: Solution, space: ParameterSpace, held: Sequence[str]
) -> tuple[str, ...]:
    """Return what is held, and tau where it was estimated and is on its bound."""
    bound = ("tau",) if solution.tau_at_bound and space.tau is None else ()
    return tuple(dict.fromkeys((*bound, *held)))


def covariance_parts(
    data: ModelData, solution: Solution, held: Sequence[str] = (), window: float | None = None
) -> Parts:
    """Return the parts of the robust covariances of a fit.

    Parameters
    ----------
    data : ModelData
        The model that was fitted.
    solution : Solution
        Its fit.
    held : sequence of str
        Which of the estimated sigma, tau and kappa to treat as known; tau on its bound always is.
    window : float, optional
        The window of the bread, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.covariance.parts import covariance_parts
    >>> from qhreg.specification.model_data import fit_model
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> model = QuantileHuberMLE(x + np.sin(40.0 * x) ** 3, np.column_stack([np.ones_like(x), x]))
    >>> data = model.model_data()
    >>> parts = covariance_parts(data, fit_model(data))
    >>> parts.scores.shape, parts.bread.shape, float(parts.leverage.sum().round(9))
    ((201, 4), (4, 4), 2.0)
    """
    obs, known = data.observations, treated_as_known(solution, data.space, held)
    if window is None:
        u = standardized(obs, solution)
        window = bread_window(u, solution.tau, obs.nobs, obs.case_weights)
    fixed = {name: float(getattr(solution, name)) for name in known}
    fixed["kappa"] = math.hypot(solution.kappa, window)
    with warnings.catch_warnings():  # the rank was told with the fit, and nobody asked for this one
        warnings.simplefilter("ignore", ModelWarning)
        wide = refit(replace(data, tau_bounds=OPEN), fixed, start=solution, search=False)
    loss = obs.reduce(loss_hessian, _summed, wide)
    return _assembled(data, solution, wide, known, loss)


def _summed(parts: list[CriterionHessian]) -> CriterionHessian:
    every, zone, *sums = zip(*parts, strict=True)
    return CriterionHessian(
        stacked_factors(every), stacked_factors(zone), *(np.sum(each, axis=0) for each in sums)
    )


def _assembled(
    data: ModelData,
    solution: Solution,
    wide: Solution,
    held: tuple[str, ...],
    loss: CriterionHessian,
) -> Parts:
    """Return the parts of a fit from the derivatives of the loss at the wider one."""
    space = data.space
    hessian = with_normalizer(loss, wide, wide.n, wide.p)
    extras = tuple(name for name in space.extra_names if name not in held)
    slope = np.array([1.0, wide.tau * (1.0 - wide.tau), wide.kappa])
    corner = hessian.corner * np.outer(slope, slope)
    corner[1, 1] += slope[1] * (1.0 - 2.0 * wide.tau) * hessian.gradient[1]
    corner[2, 2] += slope[2] * hessian.gradient[2]
    kept = places(extras, 0)
    cross, corner = (hessian.cross * slope)[:, kept], corner[np.ix_(kept, kept)]
    zone = hessian.zone / wide.sigma
    bread = np.block([[zone.T @ zone / wide.kappa, cross], [cross.T, corner]])
    # in these coordinates the block of beta is the identity times the weight
    scale = wide.sigma * math.sqrt(wide.kappa * wide.n)
    transform, unseen = (scale * each for each in coordinates_of(hessian.every, hessian.zone))
    change, inner_cross = block_diag(transform, np.eye(len(kept))), transform.T @ cross
    unit = wide.n * np.eye(transform.shape[1])
    inverse = positive_inverse(np.block([[unit, inner_cross], [inner_cross.T, corner]]), wide.n)
    lost = inverse.moved(change, np.pad(unseen, ((0, len(kept)), (0, 0))))
    outward = to_parameters(space, solution, extras)
    obs = data.observations
    return Parts(obs, solution, wide, extras, held, bread, change, inverse.inverse, ~lost, outward)
