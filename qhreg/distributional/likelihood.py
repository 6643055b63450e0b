r"""The likelihood when location, scale and asymmetry each have a linear predictor.

.. math::

    \mu_i = o_i + x_i'\beta, \qquad \log\sigma_i = z_i'\gamma, \qquad
    \operatorname{logit}\tau_i = w_i'\delta, \qquad u_i = (y_i - \mu_i)/\sigma_i

    \ell_i = -\log c(\tau_i) - \log\sigma_i - \rho_{\tau_i}(u_i) \qquad\text{(QH-50)}

Every derivative is a number for each row times its regressors: one factor for each of the three
predictors in the score, six for each pair of them in a second derivative or an expected product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import special

from qhreg._typing import BoolArray, FloatArray, IntArray
from qhreg.covariance.information import tail_information
from qhreg.covariance.scores import interpolated_rows
from qhreg.family.loss import zone_part
from qhreg.family.normalizer import LogNormalizer, log_normalizer_derivatives
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.observations import Observations

BLOCKS = ("location", "scale", "tau")
"""The three linear predictors, in the order of the parameter vector."""

_Self = TypeVar("_Self", bound="Regression")


@dataclass(frozen=True)
class Regression:
    """The rows of a distributional model, and what is fixed.

    Attributes
    ----------
    observations : Observations
        Response, regressors of the location, offset and weights.
    scale, tau : ndarray, shape (n, q) and (n, r)
        Regressors of log sigma and logit tau. A block without columns is fixed.
    kappa : float
        Huber width in units of sigma.
    log_sigma, logit_tau : float or ndarray, shape (n,)
        Known parts of these predictors: all of them where the block has no columns.
    tau_bounds : (float, float)
        Range of the asymmetry of every row.
    names : tuple of str
        Names of the parameters, for messages.
    """

    observations: Observations
    scale: FloatArray
    tau: FloatArray
    kappa: float
    log_sigma: Any = 0.0
    logit_tau: Any = 0.0
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS
    names: tuple[str, ...] = ()

    @property
    def endog(self) -> FloatArray:
        """The response."""
        return self.observations.endog

    @property
    def location(self) -> FloatArray:
        """Regressors of the location."""
        return self.observations.exog

    @property
    def weights(self) -> FloatArray | None:
        """Case weights."""
        return self.observations.case_weights

    @property
    def designs(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three matrices."""
        return self.location, self.scale, self.tau

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of columns of each block."""
        return self.location.shape[1], self.scale.shape[1], self.tau.shape[1]

    @property
    def size(self) -> int:
        """Length of the parameter vector."""
        return sum(self.sizes)

    def block(self, name: str) -> slice:
        """Return where a block stands in the parameter vector."""
        position = BLOCKS.index(name)
        start = sum(self.sizes[:position])
        return slice(start, start + self.sizes[position])

    def split(self, params: FloatArray) -> list[FloatArray]:
        """Return the three blocks of a parameter vector."""
        return np.split(params, np.cumsum(self.sizes)[:2])

    def predictors(self, params: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return location, log sigma and logit tau of each row."""
        beta, gamma, delta = self.split(params)
        location = self.observations.location(beta)
        return location, self.log_sigma + self.scale @ gamma, self.logit_tau + self.tau @ delta

    def take(self: _Self, rows: IntArray | BoolArray, *, apart: bool = False) -> _Self:
        """Return some rows, by number or mask; `apart` makes each a single observation."""
        known = {name: getattr(self, name) for name in ("log_sigma", "logit_tau")}
        return replace(
            self,
            observations=self.observations.take(rows, apart=apart),
            scale=self.scale[rows],
            tau=self.tau[rows],
            **{name: value[rows] for name, value in known.items() if np.ndim(value)},
        )

    def without(self: _Self, column: int, value: float) -> _Self:
        """Return the regression in which one coefficient is known."""
        name = next(name for name in BLOCKS if column < self.block(name).stop)
        place = column - self.block(name).start
        design = self.designs[BLOCKS.index(name)]
        moved, rest = value * design[:, place], np.delete(design, place, axis=1)
        names = tuple(np.delete(self.names, column)) if self.names else ()
        if name == "location":
            obs = self.observations
            offset = moved if obs.offset is None else obs.offset + moved
            return replace(self, observations=replace(obs, exog=rest, offset=offset), names=names)
        known = {"scale": "log_sigma", "tau": "logit_tau"}[name]
        return replace(self, **{name: rest, known: getattr(self, known) + moved}, names=names)


class RowState(NamedTuple):
    """What every derivative is made of, for each row.

    ``u`` standardised residual, ``psi`` slope of the loss, ``excess`` distance from the zone,
    ``inside`` whether in the zone, ``slope`` d tau / d logit tau = tau (1 - tau), ``log_c`` the
    normaliser at tau with its derivatives.
    """

    u: FloatArray
    sigma: FloatArray
    tau: FloatArray
    psi: FloatArray
    excess: FloatArray
    inside: BoolArray
    slope: FloatArray
    log_c: LogNormalizer
    log_sigma: FloatArray
    kappa: float


class Pairs(NamedTuple):
    """A number for each row and each pair of the predictors location, log sigma and logit tau."""

    location_location: FloatArray
    location_scale: FloatArray
    location_tau: FloatArray
    scale_scale: FloatArray
    scale_tau: FloatArray
    tau_tau: FloatArray


def evaluate(data: Regression, params: FloatArray) -> RowState:
    """Return what the likelihood and its derivatives are made of at given parameters."""
    location, log_sigma, logit_tau = data.predictors(params)
    kappa = data.kappa
    with np.errstate(over="ignore", under="ignore"):
        sigma = np.exp(log_sigma)
        u = (data.endog - location) / sigma
        tau, other = special.expit(logit_tau), special.expit(-logit_tau)
        if kappa == 0.0:
            beta = data.split(params)[0]
            obs = data.observations
            rows = interpolated_rows(u, sigma, obs.exog, obs.endog, beta, obs.offset)
            u[rows] = 0.0
            psi = np.where(u > 0.0, other, np.where(u < 0.0, -tau, 0.0))
        else:
            psi = np.clip(u / kappa, -tau, other)
        zone = zone_part(u, tau, kappa)
    inside = (u > -kappa * tau) & (u < kappa * other)
    log_c = log_normalizer_derivatives(tau, np.float64(kappa))
    return RowState(u, sigma, tau, psi, u - zone, inside, tau * other, log_c, log_sigma, kappa)


def loglike_rows(state: RowState) -> FloatArray:
    """Return the log-likelihood of each row (QH-50), without its weight."""
    loss = state.psi * (state.u - 0.5 * state.kappa * state.psi)
    value: FloatArray = -state.log_c.value - state.log_sigma - loss
    return value


def score_factors(state: RowState) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return the derivatives of each row's log-likelihood in its three predictors (QH-51).

    .. math::

        \frac{\psi}{\sigma}, \qquad u\psi - 1, \qquad
        \tau(1-\tau)\big(e - (\log c)'(\tau)\big)
    """
    return (
        state.psi / state.sigma,
        state.u * state.psi - 1.0,
        state.slope * (state.excess - state.log_c.d_tau),
    )


def hessian_factors(state: RowState) -> Pairs:
    r"""Return minus the second derivatives of each row's log-likelihood (QH-52).

    Parameters
    ----------
    state : RowState
        The rows.

    Notes
    -----
    With h = 1/kappa inside the zone and 0 outside, a = 1 outside and 0 inside, and
    :math:`v = \tau(1-\tau)`

    .. math::

        \frac{h}{\sigma^2}, \quad \frac{\psi + uh}{\sigma}, \quad \frac{v a}{\sigma}, \quad
        u\psi + u^2 h, \quad v a u, \quad
        v^2\big((\log c)'' - \kappa a\big) - v(1-2\tau)\big(e - (\log c)'\big) .
    """
    u, psi, kappa, v = state.u, state.psi, state.kappa, state.slope
    outside = np.where(state.inside, 0.0, 1.0)
    # psi is u / kappa inside: written with psi nothing is divided by a small kappa
    bent = np.where(state.inside, psi, 0.0)
    counted = np.where(state.inside, 1.0 / kappa if kappa > 0.0 else 0.0, 0.0)
    with np.errstate(over="ignore", under="ignore"):
        return Pairs(
            counted / state.sigma / state.sigma,
            (psi + bent) / state.sigma,
            v * outside / state.sigma,
            u * (psi + bent),
            v * outside * u,
            v * v * (state.log_c.d2_tau - kappa * outside)
            - v * (1.0 - 2.0 * state.tau) * (state.excess - state.log_c.d_tau),
        )


def information_factors(state: RowState) -> Pairs:
    r"""Return the expected products of each row's scores (QH-53), in closed form.

    They are the entries of (QH-21) at sigma = 1, with 1/sigma for each location and
    :math:`\tau(1-\tau)` for each logit tau. Continuous down to kappa = 0.
    """
    t, kappa, v, d_kappa = state.tau, state.kappa, state.slope, state.log_c.d_kappa
    with np.errstate(over="ignore", under="ignore"):
        tails = tail_information(t, kappa, state.log_c)
        squares = t * t * tails.left + (1.0 - t) ** 2 * tails.right
        return Pairs(
            2.0 * d_kappa / state.sigma / state.sigma,
            kappa * tails.beta_kappa / state.sigma,
            v * (tails.left + tails.right) / state.sigma,
            1.0 + kappa * (2.0 * d_kappa - squares),
            v * tails.sigma_tau,
            v * v * tails.tau_tau,
        )


def score_rows(data: Regression, state: RowState) -> FloatArray:
    """Return the score of each row without its weight, shape (n, p + q + r)."""
    factors = score_factors(state)
    return np.hstack([x * f[:, None] for x, f in zip(data.designs, factors, strict=True)])


def gradient(data: Regression, state: RowState) -> FloatArray:
    """Return the derivative of the log-likelihood, weights included."""
    rows = score_rows(data, state)
    return np.asarray(rows.sum(axis=0) if data.weights is None else data.weights @ rows)


def assemble(data: Regression, pairs: Pairs) -> FloatArray:
    """Return the sum over the rows of weight times factor times the products of the regressors."""
    matrix = np.empty((data.size, data.size))
    factors = iter(pairs)
    for i, first in enumerate(BLOCKS):
        for second in BLOCKS[i:]:
            factor = next(factors)
            weighted = factor if data.weights is None else factor * data.weights
            rows, columns = data.block(first), data.block(second)
            left, right = (data.designs[BLOCKS.index(name)] for name in (first, second))
            part = left.T @ (right * weighted[:, None])
            matrix[rows, columns] = part
            matrix[columns, rows] = part.T
    return matrix
