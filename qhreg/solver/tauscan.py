r"""A look along tau that costs one sort: the profile with the slopes held.

Only the location a and the scale s of given residuals u move with tau:

.. math::

    \min_{a,\,s}\ n\log c(\tau) - n\log s + \sum_i w_i\,\rho_\tau(s u_i - a).

With a constant among the columns this is never below the profile itself, and where the noise does not
depend on the regressors it is a few units of the log-likelihood above it. Sorted residuals with running
sums give it at any (a, s) by two binary searches. The sums are kept of whole runs of residuals, and what
is missing to the end of a run is added when it is asked for: nothing else has their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray, IntArray
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver.taufit import TINY_KAPPA

__all__ = ["TauScan", "scan_tau"]


RUN = 16
"""Residuals in a run."""

FEW_ROWS = 3000
"""Residuals up to which each is a run of its own: that is quicker."""

GRID = 33
"""Values of tau, equally spaced on the logit scale."""

STEPS = 5
"""Newton steps in location and scale; what they leave is a fraction of a unit of log-likelihood."""

DAMPING = 1e-3
"""Share of the rows added to the curvature in the location, for zones without rows."""


class TauScan(NamedTuple):
    """The profile over tau with the slopes held.

    Attributes
    ----------
    tau : ndarray, shape (m,)
        Values of tau, rising.
    value : ndarray, shape (m,)
        The negative log-likelihood, the residuals taken for the response.
    location, scale : ndarray, shape (m,)
        a and s: the residuals become s u - a.
    """

    tau: FloatArray
    value: FloatArray
    location: FloatArray
    scale: FloatArray


class _Totals(NamedTuple):
    """Sums of w, w u and w u^2 over the residuals below each of some places."""

    weight: FloatArray
    first: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class _Residuals:
    """Sorted residuals with running sums.

    The residuals are counted from one in the middle and the sums from there, so that both keep their
    digits with a large mean and with outliers.

    Attributes
    ----------
    u : ndarray, shape (n,)
        The residuals.
    weights : ndarray, shape (n,), or None
        Their case weights.
    runs : _Totals
        Sums below the first residual of each run, the end included.
    length : int
        Residuals in a run.
    middle : int
        Where the sums start: the first residual of a run.
    """

    u: FloatArray
    weights: FloatArray | None
    runs: _Totals
    length: int
    middle: int

    @cached_property
    def ends(self) -> tuple[_Totals, _Totals]:
        """The sums below the first residual and below the end."""
        low, high = (self.below(np.array([place])) for place in (0, self.u.size))
        return low, high

    def quantile(self, weight: FloatArray) -> IntArray:
        """Return the place of the residual at which the sum of weights reaches a value."""
        reach = self.ends[0].weight + weight
        run = np.maximum(self.runs.weight.searchsorted(reach) - 1, 0)
        at = np.minimum(run[:, None] * self.length + np.arange(self.length), self.u.size - 1)
        w = np.ones(at.shape) if self.weights is None else self.weights[at]
        until = self.runs.weight[run][:, None] + np.cumsum(w, axis=1)
        place: IntArray = run * self.length + (until < reach[:, None]).sum(axis=1)
        return np.minimum(place, self.u.size - 1)

    def below(self, place: IntArray) -> _Totals:
        """Return the sums over the residuals before each place, added up from the middle."""
        if self.length == 1:
            return _Totals(*(known[place] for known in self.runs))
        up = place >= self.middle
        run = np.where(up, place // self.length, -(-place // self.length))
        edge = run * self.length
        at = np.minimum(place, edge)[:, None] + np.arange(self.length)
        outside = at >= np.maximum(place, edge)[:, None]
        at[outside] = 0
        u, w = self.u[at], None if self.weights is None else self.weights[at]
        u[outside] = 0.0
        if w is None:
            missing = np.abs(place - edge), u.sum(axis=1), np.einsum("ij,ij->i", u, u)
        else:
            w[outside] = 0.0
            wu = w * u
            missing = w.sum(axis=1), wu.sum(axis=1), np.einsum("ij,ij->i", wu, u)
        sign = np.where(up, 1.0, -1.0)
        return _Totals(*(x[run] + sign * m for x, m in zip(self.runs, missing, strict=True)))


class _Curve(NamedTuple):
    """The objective, without log c, and its derivatives in a and s, at every tau."""

    value: FloatArray
    d_a: FloatArray
    d_s: FloatArray
    d2_a: FloatArray
    d_a_s: FloatArray
    d2_s: FloatArray


def _running(terms: FloatArray, middle: int) -> FloatArray:
    """Return the running sums of terms, zero before the one in the middle."""
    sums = np.zeros(terms.size + 1)
    below = sums[:middle]
    np.cumsum(terms[:middle][::-1], out=below[::-1])
    np.negative(below, out=below)
    np.cumsum(terms[middle:], out=sums[middle + 1 :])
    return sums


def _sorted(u: FloatArray, weights: FloatArray | None) -> tuple[_Residuals, float]:
    """Return the residuals in order with their running sums, and what was taken off them.

    They are overwritten where there are no weights.
    """
    if weights is None:
        u.sort()
    else:
        order = np.argsort(u)
        u, weights = u[order], weights[order]
    length = 1 if u.size <= FEW_ROWS else RUN
    n_runs = u.size // length
    middle = n_runs // 2
    centre = float(u[u.size // 2])
    u -= centre
    whole = u[: n_runs * length].reshape(n_runs, length)
    if weights is None:
        sums = (
            np.full(n_runs, float(length)),
            whole.sum(axis=1),
            np.einsum("ij,ij->i", whole, whole),
        )
    else:
        w = weights[: n_runs * length].reshape(n_runs, length)
        first = np.einsum("ij,ij->i", w, whole)
        sums = w.sum(axis=1), first, np.einsum("ij,ij,ij->i", w, whole, whole)
    runs = _Totals(*(_running(terms, middle) for terms in sums))
    return _Residuals(u, weights, runs, length, middle * length), centre


def _laplace(sums: _Residuals, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the 1 - tau quantile of the residuals and their total quantile loss about it."""
    low, high = sums.ends
    n = high.weight - low.weight
    place = sums.quantile((1.0 - tau) * n)
    location = sums.u[place]
    at = sums.below(place)
    above = high.first - at.first - (high.weight - at.weight) * location
    below = (at.weight - low.weight) * location - (at.first - low.first)
    return location, (1.0 - tau) * above + tau * below


def _curve(sums: _Residuals, tau: FloatArray, kappa: float, a: FloatArray, s: FloatArray) -> _Curve:
    """Return sum w rho(s u - a) - n log s with its derivatives."""
    first, last = sums.ends
    n = last.weight - first.weight
    low = sums.below(sums.u.searchsorted((a - kappa * tau) / s))
    high = sums.below(sums.u.searchsorted((a + kappa * (1.0 - tau)) / s))
    w_below, w_above = low.weight - first.weight, last.weight - high.weight
    u_below, u_above = low.first - first.first, last.first - high.first
    w_zone, u_zone, uu_zone = (y - x for x, y in zip(low, high, strict=True))
    up = 1.0 - tau
    value = (
        up * (s * u_above - (a + 0.5 * kappa * up) * w_above)
        - tau * (s * u_below - (a - 0.5 * kappa * tau) * w_below)
        + (s * (s * uu_zone - 2.0 * a * u_zone) + a * a * w_zone) / (2.0 * kappa)
        - n * np.log(s)
    )
    return _Curve(
        value,
        tau * w_below - up * w_above - (s * u_zone - a * w_zone) / kappa,
        up * u_above - tau * u_below + (s * uu_zone - a * u_zone) / kappa - n / s,
        w_zone / kappa + DAMPING * n / (1.0 + kappa),
        -u_zone / kappa,
        uu_zone / kappa + n / s**2,
    )


def _descended(
    sums: _Residuals, tau: FloatArray, kappa: float, a: FloatArray, s: FloatArray, *, free: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the value and (a, s) after damped Newton steps, s moving only where it is free."""
    now = _curve(sums, tau, kappa, a, s)
    step = np.ones(tau.size)
    for _ in range(STEPS):
        _, d_a, d_s, d2_a, d_a_s, d2_s = now
        if free:
            determinant = d2_a * d2_s - d_a_s**2
            move_a = step * (d_a_s * d_s - d2_s * d_a) / determinant
            move_s = np.maximum(step * (d_a_s * d_a - d2_a * d_s) / determinant, -0.8 * s)
        else:
            move_a, move_s = -step * d_a / d2_a, np.zeros(tau.size)
        tried = _curve(sums, tau, kappa, a + move_a, s + move_s)
        better = tried.value <= now.value
        a, s = np.where(better, a + move_a, a), np.where(better, s + move_s, s)
        now = _Curve(*(np.where(better, *pair) for pair in zip(tried, now, strict=True)))
        step = np.where(better, np.minimum(2.0 * step, 1.0), 0.3 * step)
    return now.value, a, s


@np.errstate(all="ignore")  # where the curve is not finite it tells nothing
def scan_tau(
    u: FloatArray,
    weights: FloatArray | None,
    kappa: float,
    tau_bounds: tuple[float, float],
    *,
    free_scale: bool,
) -> TauScan:
    """Return the profile over tau with the slopes held.

    Parameters
    ----------
    u, weights : ndarray of shape (n,), ndarray or None
        Residuals in any unit, which are overwritten, and case weights.
    kappa : float
        Huber width.
    tau_bounds : (float, float)
        The range to look at.
    free_scale : bool
        Whether the scale moves too, as where sigma is estimated.
    """
    low, high = (np.log(t / (1.0 - t)) for t in tau_bounds)
    tau = 1.0 / (1.0 + np.exp(-np.linspace(low, high, GRID)))
    sums, centre = _sorted(u, weights)
    n = float(sums.ends[1].weight[0] - sums.ends[0].weight[0])
    location, loss = _laplace(sums, tau)
    s = n / loss if free_scale else np.ones(GRID)
    a, value = s * location, s * loss - n * np.log(s)
    if kappa > TINY_KAPPA:
        value, a, s = _descended(sums, tau, kappa, a, s, free=free_scale)
    log_c = log_normalizer_derivatives(tau, kappa).value
    return TauScan(tau, value + n * log_c, a + s * centre, s)
