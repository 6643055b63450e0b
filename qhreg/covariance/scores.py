r"""The likelihood of the rows and its derivatives: scores, and the Hessian of what a fit minimises.

With psi the slope of the loss and e the excess beyond the zone the scores of one observation are (QH-20)

.. math::

    s_\beta = \frac{\psi x}{\sigma}, \quad s_\sigma = \frac{u\psi - 1}{\sigma}, \quad
    s_\tau = e - (\log c)', \quad s_\kappa = \frac{\psi^2}{2} - \partial_\kappa \log c .
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg._precision import INTERPOLATED, ROUNDING, VANISHING
from qhreg._typing import FloatArray
from qhreg.covariance.information import (
    design_moments,
    normalizer_hessian,
    places,
    score_scale,
)
from qhreg.family.loss import quantile_huber_loss, slope_part, zone_part
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver import Solution
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters

Fitted = Solution | Parameters
"""What has beta, sigma, tau and kappa."""


def interpolated_rows(
    u: FloatArray,
    sigma: FloatArray | float,
    exog: FloatArray,
    endog: FloatArray,
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
    near = np.flatnonzero(np.abs(u) < INTERPOLATED)
    terms = np.abs(endog[near]) + np.abs(exog[near]) @ np.abs(beta)
    if offset is not None:
        terms = terms + np.abs(offset[near])
    scale = sigma[near] if isinstance(sigma, np.ndarray) else sigma
    zero = np.abs(u[near]) < np.maximum(VANISHING, ROUNDING * terms / scale)
    return np.asarray(near[zero])


def standardized(obs: Observations, fit: Fitted) -> FloatArray:
    """Return the residuals in units of sigma; those that an exact fit interpolates are zero."""
    u = obs.residuals(fit.beta)
    u /= fit.sigma
    if fit.kappa == 0.0:
        u[interpolated_rows(u, fit.sigma, obs.exog, obs.endog, fit.beta, obs.offset)] = 0.0
    return u


def row_scores(obs: Observations, fit: Fitted) -> tuple[FloatArray, FloatArray]:
    """Return psi, and the scores (QH-20) in log sigma, tau and kappa, shapes (n,) and (n, 3).

    Parameters
    ----------
    obs : Observations
        The data; weights are not used.
    fit : Fitted
        Where to differentiate.
    """
    u = standardized(obs, fit)
    psi, log_c = slope_part(u, fit.tau, fit.kappa), log_normalizer_derivatives(fit.tau, fit.kappa)
    extras = np.empty((u.size, 3))
    extras[:, 0] = u * psi - 1.0
    extras[:, 1] = u - zone_part(u, fit.tau, fit.kappa) - log_c.d_tau
    extras[:, 2] = 0.5 * psi**2 - log_c.d_kappa
    return psi, extras


def loglike_obs(obs: Observations, fit: Fitted) -> FloatArray:
    r"""Return the log-likelihood of each row, times its weights.

    .. math:: \ell_i = -w_i\,\big(\rho_\tau(u_i) + \log c(\tau) + \log\sigma\big),
              \qquad u_i = (y_i - x_i'\beta) / \sigma
    """
    value: FloatArray = quantile_huber_loss(obs.residuals(fit.beta) / fit.sigma, fit.tau, fit.kappa)
    value += log_normalizer_derivatives(fit.tau, fit.kappa).value + np.log(fit.sigma)
    return -value if obs.case_weights is None else -value * obs.case_weights


def score_obs(
    obs: Observations, fit: Fitted, free: Sequence[str] = ("beta", "sigma", "tau")
) -> FloatArray:
    r"""Return the score of one observation of each row, the derivative of its log-likelihood (QH-20).

    Parameters
    ----------
    obs : Observations
        The data. Sampling weights multiply the scores, frequency weights do not.
    fit : Fitted
        Parameter values: a Solution or Parameters.
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" to differentiate in.

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
    >>> from qhreg.covariance.scores import score_obs
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.specification.parameters import Parameters
    >>> point = Parameters(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> score_obs(Observations(np.ones((2, 1)), np.array([-1.0, 3.0])), point, ("beta", "sigma"))
    array([[-0.5, -0.5],
           [ 0.5,  0.5]])
    """
    psi, extras = row_scores(obs, fit)
    k = obs.exog.shape[1]
    scores = np.column_stack([obs.exog * psi[:, None], extras]) * score_scale(k, fit.sigma)
    if obs.weights is not None:
        scores *= obs.weights[:, None]
    return np.asarray(scores[:, places(free, k)])


def score_sum(
    obs: Observations, fit: Fitted, free: Sequence[str] = ("beta", "sigma", "tau")
) -> FloatArray:
    """Return the derivative of the log-likelihood of all rows, with their weights, shape (q,).

    Parameters
    ----------
    obs, fit, free
        As in :func:`score_obs`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.scores import score_sum
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.specification.parameters import Parameters
    >>> point = Parameters(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> score_sum(Observations(np.ones((2, 1)), np.array([-1.0, 3.0])), point, ("beta", "sigma"))
    array([0., 0.])
    """
    psi, extras = row_scores(obs, fit)
    k = obs.exog.shape[1]
    w = np.ones(psi.size) if obs.case_weights is None else obs.case_weights
    total = np.append((w * psi) @ obs.exog, w @ extras) * score_scale(k, fit.sigma)
    return np.asarray(total[places(free, k)])


class CriterionHessian(NamedTuple):
    """Second derivatives of the criterion (QH-25) in (beta, log sigma, tau, kappa).

    Attributes
    ----------
    every, zone : ndarray, shape (k, k)
        Triangular factors of the Gram matrices of all rows and of those in the zone, with their
        weights: the latter over kappa sigma^2 is the block of beta.
    cross : ndarray, shape (k, 3)
        Mixed derivatives of beta and the others.
    corner : ndarray, shape (3, 3)
        Those of log sigma, tau and kappa.
    gradient : ndarray, shape (3,)
        The first derivatives in log sigma, tau and kappa.
    """

    every: FloatArray
    zone: FloatArray
    cross: FloatArray
    corner: FloatArray
    gradient: FloatArray


def with_normalizer(
    sums: CriterionHessian, fit: Fitted, total: float, p: float = 0.0
) -> CriterionHessian:
    """Return the derivatives of the criterion from those of the loss of all rows.

    Parameters
    ----------
    sums : CriterionHessian
        Those of the loss.
    fit : Fitted
        Where they were taken.
    total, p : float
        Sum of the weights; p of the restricted likelihood, zero for the ordinary one.
    """
    gradient, hessian = normalizer_hessian(fit.tau, fit.kappa, total, p)
    corner = sums.corner.copy()
    corner[1:, 1:] += hessian
    slope = np.append(total - p, gradient)
    return sums._replace(corner=corner, gradient=sums.gradient + slope)


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
    in_zone, cross, corner, gradient = np.zeros(n), np.zeros((3, k)), np.zeros((3, 3)), np.zeros(3)
    start = 0
    for block in obs.blocks():
        u = standardized(block, fit)
        psi, excess = slope_part(u, tau, kappa), u - zone_part(u, tau, kappa)
        w = np.ones(u.size) if block.case_weights is None else block.case_weights
        w_in = w * (excess == 0.0) if kappa > 0.0 else np.zeros(u.size)
        in_zone[start : start + u.size] = w_in
        start += u.size
        w_out, w_psi, in_psi = w - w_in, w * psi, w_in * psi
        cross += np.array([w_psi + in_psi, w_out, in_psi]) @ block.exog
        squares = float(in_psi @ psi)
        corner += [
            [float((w_psi + in_psi) @ u), float(w_out @ u), squares],
            [0.0, -kappa * float(w_out.sum()), float(w_out @ psi)],
            [0.0, 0.0, squares],
        ]
        gradient -= [float(w_psi @ u), float(w @ excess), 0.5 * float(w_psi @ psi)]
    if kappa > 0.0:
        cross[2] /= kappa
        corner[2, 2] /= kappa
    corner += np.triu(corner, 1).T
    every = design_moments(obs.exog, obs.case_weights).factor
    zone = design_moments(obs.exog, in_zone).factor
    return CriterionHessian(every, zone, cross.T / fit.sigma, corner, gradient)


def observed_hessian(
    obs: Observations, fit: Fitted, free: Sequence[str] = ("beta", "sigma", "tau")
) -> FloatArray:
    r"""Return the Hessian of the log-likelihood, exact wherever it exists.

    Parameters
    ----------
    obs, fit, free
        As in :func:`score_sum`; the point need not be the optimum.

    Returns
    -------
    ndarray, shape (q, q)
        It exists unless a residual sits on the edge of the zone. Its beta block counts the rows in the
        zone and is zero at kappa = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.scores import observed_hessian
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.specification.parameters import Parameters
    >>> point = Parameters(np.array([0.0]), 1.0, 0.5, 1.0)
    >>> observed_hessian(Observations(np.ones((3, 1)), np.array([-1.0, 0.1, 3.0])), point, ("beta",))
    array([[-1.]])
    """
    k, w = obs.exog.shape[1], obs.case_weights
    total = float(obs.endog.size if w is None else w.sum())
    of_rows = with_normalizer(loss_hessian(obs, fit), fit, total)
    zone = of_rows.zone / fit.sigma
    gram = zone.T @ zone / fit.kappa if fit.kappa > 0.0 else np.zeros((k, k))
    hessian = np.block([[gram, of_rows.cross], [of_rows.cross.T, of_rows.corner]])
    hessian[k, k] -= of_rows.gradient[0]  # from log sigma to sigma
    hessian[k] /= fit.sigma
    hessian[:, k] /= fit.sigma
    kept = places(free, k)
    return -hessian[np.ix_(kept, kept)]
