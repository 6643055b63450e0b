r"""Derivatives of the likelihood of the rows: scores, and the Hessian of what a fit minimises.

With psi the slope of the loss and e the excess beyond the zone the scores of one observation are (QH-20)

.. math::

    s_\beta = \frac{\psi x}{\sigma}, \quad s_\sigma = \frac{u\psi - 1}{\sigma}, \quad
    s_\tau = e - (\log c)', \quad s_\kappa = \frac{\psi^2}{2} - \partial_\kappa \log c .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from qhreg._blocks import row_blocks
from qhreg._precision import ROUNDING, VANISHING
from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.information import (
    check_free,
    normalizer_hessian,
    score_scale,
    unit_information,
)
from qhreg.exceptions import DataError
from qhreg.family.loss import zone_part
from qhreg.specification.observations import Observations

__all__ = [
    "CriterionHessian",
    "Fitted",
    "Point",
    "criterion_hessian",
    "extra_scores",
    "interpolated_rows",
    "loss_hessian",
    "observed_hessian",
    "score_obs",
    "score_sum",
    "slopes",
    "standardized",
    "with_normalizer",
]


NEAR = 1e-3
"""No standardised residual above this is taken for rounding error, however large its terms are."""


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


class Point(NamedTuple):
    """Parameter values at which derivatives are taken."""

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float


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
    zero = np.abs(u[near]) < np.maximum(VANISHING, ROUNDING * terms / scale)
    return np.asarray(near[zero])


def standardized(observations: Observations, fit: Fitted) -> FloatArray:
    """Return the residuals in units of sigma; those that an exact fit interpolates are zero."""
    u = observations.residuals(np.asarray(fit.beta, dtype=np.float64))
    u /= fit.sigma
    if fit.kappa == 0.0:
        data = observations.exog, observations.endog, fit.beta, observations.offset
        u[interpolated_rows(u, fit.sigma, *data)] = 0.0
    return u


def slopes(u: FloatArray, tau: float, kappa: float) -> FloatArray:
    """Return psi (QH-1); outside the zone it is exactly -tau or 1 - tau, and 0 at u = kappa = 0."""
    if kappa >= 1.0:
        return zone_part(u / kappa, tau, 1.0)
    with np.errstate(over="ignore"):
        return zone_part(u / kappa if kappa > 0.0 else np.sign(u), tau, 1.0)


def extra_scores(
    u: FloatArray, psi: FloatArray, fit: Fitted, names: Sequence[str]
) -> list[FloatArray]:
    """Return the scores (QH-20) of log sigma, tau and kappa."""
    unit = unit_information(fit.tau, fit.kappa)
    columns: list[FloatArray] = []
    if "sigma" in names:
        columns.append(u * psi - 1.0)
    if "tau" in names:
        columns.append(u - zone_part(u, fit.tau, fit.kappa) - unit.log_c_tau)
    if "kappa" in names:
        columns.append(0.5 * psi**2 - unit.log_c_kappa)
    return columns


def _observations(exog: Any, endog: Any, offset: Any, weights: Any) -> Observations:
    """Return the data as arrays of one length."""
    x, y = np.asarray(exog, dtype=np.float64), np.asarray(endog, dtype=np.float64)
    if x.ndim != 2 or y.shape != (x.shape[0],):
        raise DataError(f"exog must be (n, p) and endog (n,), got {x.shape} and {y.shape}")
    extra = []
    for name, values in (("offset", offset), ("weights", weights)):
        array = None if values is None else np.asarray(values, dtype=np.float64)
        if array is not None and array.shape != y.shape:
            raise DataError(f"{name} must have shape {y.shape}, got {array.shape}")
        extra.append(array)
    return Observations(x, y, extra[0], extra[1])


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
    >>> from qhreg.covariance.scores import Point, score_obs
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> score_obs(np.ones((2, 1)), np.array([-1.0, 3.0]), point, free=("beta", "sigma"))
    array([[-0.5, -0.5],
           [ 0.5,  0.5]])
    """
    names = check_free(free)
    obs = _observations(exog, endog, offset, weights)
    u = standardized(obs, fit)
    psi = slopes(u, fit.tau, fit.kappa)
    beta = [obs.exog * psi[:, None]] if "beta" in names else []
    scores = np.column_stack([*beta, *extra_scores(u, psi, fit, names)])
    scores *= score_scale(names, obs.exog.shape[1], fit.sigma)
    return scores if obs.freq_weights is None else scores * obs.freq_weights[:, None]


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
    obs = _observations(exog, endog, offset, weights)
    u = standardized(obs, fit)
    psi = slopes(u, fit.tau, fit.kappa)
    w = np.ones(u.size) if obs.freq_weights is None else obs.freq_weights
    beta = [(w * psi) @ obs.exog] if "beta" in names else []
    extra = [float(w @ one) for one in extra_scores(u, psi, fit, names)]
    return np.concatenate([*beta, extra]) * score_scale(names, obs.exog.shape[1], fit.sigma)


class CriterionHessian(NamedTuple):
    """Second derivatives of the criterion (QH-25) in (beta, log sigma, tau, kappa).

    Attributes
    ----------
    in_zone : ndarray, shape (n,)
        Weight of each row in the zone, zero outside: times x x' / (kappa sigma^2) they sum to the block
        of beta.
    cross : ndarray, shape (k, 3)
        Mixed derivatives of beta and the others.
    corner : ndarray, shape (3, 3)
        Those of log sigma, tau and kappa.
    gradient : ndarray, shape (3,)
        The first derivatives in log sigma, tau and kappa.
    """

    in_zone: FloatArray
    cross: FloatArray
    corner: FloatArray
    gradient: FloatArray


def zone_blocks(obs: Observations, fit: Fitted) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
    """Iterate over rows, their standardised residuals, and whether these lie in the zone."""
    low, high = -fit.kappa * fit.tau, fit.kappa * (1.0 - fit.tau)
    for rows in row_blocks(*obs.exog.shape):
        u = obs.endog[rows] - obs.exog[rows] @ fit.beta
        if obs.offset is not None:
            u -= obs.offset[rows]
        u /= fit.sigma
        yield rows, u, (u >= low) & (u <= high) if fit.kappa > 0.0 else np.zeros(u.size, dtype=bool)


def criterion_hessian(obs: Observations, fit: Fitted, p: float = 0.0) -> CriterionHessian:
    """Return the second derivatives of the criterion, exact wherever they exist.

    Parameters
    ----------
    obs : Observations
        The data.
    fit : Fitted
        Where to differentiate.
    p : float
        p of the restricted likelihood, zero for the ordinary one.
    """
    weights = obs.case_weights
    total = float(obs.endog.size if weights is None else weights.sum())
    return with_normalizer(loss_hessian(obs, fit), fit, total, p)


def with_normalizer(
    sums: CriterionHessian, fit: Fitted, total: float, p: float
) -> CriterionHessian:
    """Return the derivatives of the criterion from those of the loss of all rows.

    Parameters
    ----------
    sums : CriterionHessian
        Those of the loss.
    fit : Fitted
        Where they were taken.
    total, p : float
        Sum of the weights; p of the restricted likelihood.
    """
    c = normalizer_hessian(fit.tau, fit.kappa, total, p)
    more = np.array(
        [[0.0, 0.0, 0.0], [0.0, c.d2_tau, c.d_tau_kappa], [0.0, c.d_tau_kappa, c.d2_kappa]]
    )
    slope = np.array([total - p, c.d_tau, c.d_kappa])
    return sums._replace(corner=sums.corner + more, gradient=sums.gradient + slope)


def loss_hessian(obs: Observations, fit: Fitted) -> CriterionHessian:
    r"""Return the derivatives of the loss of the rows: those of disjoint rows add up.

    Parameters
    ----------
    obs : Observations
        The data.
    fit : Fitted
        Where to differentiate.

    Notes
    -----
    With a = 1 outside the zone and 0 inside, h = (1 - a) / kappa, and C the part without data

    .. math::

        R_{\beta\beta} &= \sum w\frac{h}{\sigma^2}xx' &
        R_{\beta s} &= \sum w\frac{\psi + uh}{\sigma}x &
        R_{\beta\tau} &= \sum w\frac{a}{\sigma}x &
        R_{\beta\kappa} &= \sum w\frac{h\psi}{\sigma}x \\
        R_{ss} &= \sum w(u\psi + u^2h) &
        R_{s\tau} &= \sum wau &
        R_{s\kappa} &= \sum w h u\psi &
        R_{\tau\tau} &= C_{\tau\tau} - \kappa\sum wa \\
        R_{\tau\kappa} &= C_{\tau\kappa} + \sum wa\psi &
        R_{\kappa\kappa} &= C_{\kappa\kappa} + \sum wh\psi^2
    """
    tau, kappa, (n, k) = fit.tau, fit.kappa, obs.exog.shape
    weights = obs.case_weights
    in_zone, cross, corner, gradient = np.empty(n), np.zeros((3, k)), np.zeros((3, 3)), np.zeros(3)
    for rows, u, zone in zone_blocks(obs, fit):
        w = np.ones(u.size) if weights is None else weights[rows]
        w_in = w * zone
        in_zone[rows] = w_in
        w_out = w - w_in
        psi = slopes(u, tau, kappa)
        w_psi, in_psi = w * psi, w_in * psi
        cross += np.array([w_psi + in_psi, w_out, in_psi]) @ obs.exog[rows]
        squares = float(in_psi @ psi)
        corner += [
            [float((w_psi + in_psi) @ u), float(w_out @ u), squares],
            [0.0, -kappa * float(w_out.sum()), float(w_out @ psi)],
            [0.0, 0.0, squares],
        ]
        gradient -= [float(w_psi @ u), float(w_out @ (u - kappa * psi)), 0.5 * float(w_psi @ psi)]
    if kappa > 0.0:
        cross[2] /= kappa
        corner[2, 2] /= kappa
    corner += np.triu(corner, 1).T
    return CriterionHessian(in_zone, cross.T / fit.sigma, corner, gradient)


def observed_hessian(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
) -> FloatArray:
    r"""Return the Hessian of the log-likelihood, exact wherever it exists.

    Parameters
    ----------
    exog, endog, fit, free, weights, offset
        As in :func:`score_obs`; the point need not be the optimum.

    Returns
    -------
    ndarray, shape (q, q)
        It exists unless a residual sits on the edge of the zone. Its beta block counts the rows in the
        zone and is zero at kappa = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.scores import Point, observed_hessian
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 1.0)
    >>> observed_hessian(np.ones((3, 1)), np.array([-1.0, 0.1, 3.0]), point, free=("beta",))
    array([[-1.]])
    """
    names = check_free(free)
    obs, sigma = _observations(exog, endog, offset, weights), fit.sigma
    found = criterion_hessian(obs, fit)
    k = obs.exog.shape[1]
    hessian = np.zeros((k + 3, k + 3))
    if fit.kappa > 0.0:
        gram = obs.exog.T @ (obs.exog * found.in_zone[:, None])
        hessian[:k, :k] = gram / fit.kappa / sigma / sigma
    hessian[:k, k:], hessian[k:, :k], hessian[k:, k:] = found.cross, found.cross.T, found.corner
    hessian[k, k] -= found.gradient[0]  # from log sigma to sigma
    hessian[k] /= sigma
    hessian[:, k] /= sigma
    places = {"beta": list(range(k)), "sigma": [k], "tau": [k + 1], "kappa": [k + 2]}
    kept = [place for name in names for place in places[name]]
    return -hessian[np.ix_(kept, kept)]
