r"""A primal-dual interior-point method for the convex fit at fixed tau, every kappa >= 0.

With the residual split as ``u = kappa v + t - s`` (t, s >= 0) the fixed-tau problem is (QH-14)

.. math::

    \min_{z,v,s,t}\ \sum_i w_i\Big(\tfrac{\kappa}{2}v_i^2 + (1-\tau)t_i + \tau s_i\Big)
      + \ell'z - m\log\theta, \qquad W z = \kappa v + t - s,

whose multiplier is v itself, ``-tau <= v <= 1 - tau``. Optimality asks for ``s (v + tau) = 0`` and
``t (1 - tau - v) = 0``; the method follows both products to zero together (Mehrotra's predictor and
corrector). It needs no rows in the quadratic zone, which is where Newton's method has no Hessian.
The linear term collects rows whose side is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from qhreg._typing import FloatArray
from qhreg.family.loss import loss_slope

__all__ = ["InteriorPoint", "interior_point"]


BOUNDARY_FRACTION = 0.9995
"""How much of the way to the boundary a step may go."""

NEAR_SCALE = 0.5
"""Change of log theta below which theta may move with the rest; above, the split is made anew."""

SETTLED = 1e-3
"""Error at a fixed scale below which the scale is set free; freed earlier it may run away."""

UNBOUNDED = 1e12
"""Growth of the residuals that shows an unbounded problem: rows were decided wrongly."""

PATIENCE = 30
"""Iterations without progress in any part of the error that counts, after which to give up."""


@dataclass(frozen=True)
class InteriorPoint:
    """Where the interior-point method ended.

    Attributes
    ----------
    z : ndarray, shape (k,)
        (-b, theta).
    v : ndarray, shape (m,)
        The dual variable of each row.
    iterations : int
        Newton steps taken.
    converged : bool
        Whether complementarity and both residuals fell below the tolerance.
    """

    z: FloatArray
    v: FloatArray
    iterations: int
    converged: bool


def _cholesky_solver(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of a scaled, if necessary slightly shifted, matrix; its scaling."""
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    scaled = matrix * scale * scale[:, None]
    shift = 0.0
    while True:
        factor, info = dpotrf(scaled + shift * np.eye(scale.size) if shift else scaled)
        if info == 0:
            return factor, scale
        shift = max(1e-15, 100.0 * shift)


def _solve(factor: tuple[FloatArray, FloatArray], rhs: FloatArray) -> FloatArray:
    cholesky, scale = factor
    solution: FloatArray = dpotrs(cholesky, rhs * scale)[0] * scale
    return solution


@dataclass
class _Vectors:
    """One vector for each quantity, as long as there are rows, written over in every iteration.

    Attributes
    ----------
    u, low, high, s, t
        The point: W z, v + tau, 1 - tau - v, and the two parts of u beyond kappa v.
    inverse
        1 / (kappa + s / low + t / high): the rows' weights in the Newton matrix.
    target
        What W dz should be where v does not move.
    du, dv, ds, dt
        The direction; between the two directions ds and dt hold the second-order terms.
    scratch
        Anything for a moment.
    """

    u: FloatArray
    low: FloatArray
    high: FloatArray
    s: FloatArray
    t: FloatArray
    inverse: FloatArray
    target: FloatArray
    du: FloatArray
    dv: FloatArray
    ds: FloatArray
    dt: FloatArray
    scratch: FloatArray

    def split(self, tau: float | FloatArray, kappa: float) -> float:
        """Set a split of u well inside the bounds, and return the mean of |u|."""
        u, low, s, t = self.u, self.low, self.s, self.t
        size = max(float(np.abs(u, out=self.scratch).mean()), 1e-8)
        np.divide(u, kappa + size, out=low)
        np.add(low, tau, out=low)
        np.clip(low, 0.1 * tau, 1.0 - 0.1 * (1.0 - tau), out=low)
        np.subtract(1.0, low, out=self.high)
        np.subtract(low, tau, out=t)
        t *= -kappa
        t += u
        np.negative(t, out=s)
        for part in (s, t):
            np.maximum(part, 0.0, out=part)
            part += 0.1 * size
        return size

    def product(self, w: FloatArray | None) -> float:
        """Return sum w (s low + t high): what is left of complementarity."""
        return float(self.weigh(w, self.s) @ self.low) + float(self.weigh(w, self.t) @ self.high)

    def weigh(self, w: FloatArray | None, a: FloatArray) -> FloatArray:
        """Return w a, which may be the scratch vector."""
        return a if w is None else np.multiply(a, w, out=self.scratch)

    def feasibility(self, v: FloatArray, kappa: float) -> float:
        """Set the target to kappa v - u, and return the largest |u - kappa v - t + s|."""
        np.multiply(v, kappa, out=self.target)
        self.target -= self.u
        np.add(self.target, self.t, out=self.scratch)
        self.scratch -= self.s
        return float(np.abs(self.scratch, out=self.scratch).max(initial=0.0))

    def set_inverse(self, kappa: float) -> None:
        """Set the inverse of the spread."""
        np.divide(self.t, self.high, out=self.inverse)
        np.divide(self.s, self.low, out=self.scratch)
        self.inverse += self.scratch
        self.inverse += kappa
        np.divide(1.0, self.inverse, out=self.inverse)

    def solve(
        self,
        design: FloatArray,
        w: FloatArray | None,
        factor: tuple[FloatArray, FloatArray],
        stationarity: FloatArray,
    ) -> FloatArray:
        """Set du and dv for the target, and return dz."""
        np.multiply(self.inverse, self.target, out=self.dv)
        rhs = self.weigh(w, self.dv) @ design - stationarity
        z = np.zeros(rhs.size)
        z[: factor[1].size] = _solve(factor, rhs[: factor[1].size])
        np.matmul(design, z, out=self.du)
        np.subtract(self.du, self.target, out=self.dv)
        self.dv *= self.inverse
        return z

    def predict(self, w: FloatArray | None) -> tuple[float, float]:
        """Set the second-order terms of the step to s low = t high = 0.

        Returns
        -------
        step, remainder : float
            How far the step may go, and the sum of those terms.
        """
        ratio, dv = self.scratch, self.dv
        np.divide(dv, self.low, out=ratio)
        worst = min(_least(ratio), -1.0 - _most(ratio))  # low and s
        ratio += 1.0
        np.multiply(self.s, ratio, out=self.ds)
        self.ds *= dv
        np.divide(dv, self.high, out=ratio)
        worst = min(worst, -_most(ratio), _least(ratio) - 1.0)  # high and t
        np.subtract(1.0, ratio, out=ratio)
        np.multiply(self.t, ratio, out=self.dt)
        self.dt *= dv
        remainder = _total(w, self.dt) - _total(w, self.ds)
        return _step_to(worst), remainder

    def centre(self, centre: float) -> None:
        """Move the target and the second-order terms to s low = t high = centre."""
        self.ds += centre
        self.ds /= self.low
        np.subtract(centre, self.dt, out=self.dt)
        self.dt /= self.high
        self.target += self.dt
        self.target -= self.ds

    def correct(self) -> float:
        """Set ds and dt, and return the step in (0, 1] that keeps low, high, s and t positive."""
        ratio, dv = self.scratch, self.dv
        np.divide(dv, self.low, out=ratio)
        worst = _least(ratio)
        ratio += 1.0
        ratio *= self.s
        self.ds -= ratio
        np.divide(dv, self.high, out=ratio)
        worst = min(worst, -_most(ratio))
        ratio -= 1.0
        ratio *= self.t
        self.dt += ratio
        worst = min(worst, _least(np.divide(self.ds, self.s, out=ratio)))
        return _step_to(min(worst, _least(np.divide(self.dt, self.t, out=ratio))))

    def move(self, step: float) -> None:
        """Move the point along the direction."""
        for change in (self.du, self.dv, self.ds, self.dt):
            change *= step
        self.u += self.du
        self.low += self.dv
        self.high -= self.dv
        self.s += self.ds
        self.t += self.dt


def _least(values: FloatArray) -> float:
    return float(np.minimum.reduce(values, initial=0.0))


def _most(values: FloatArray) -> float:
    return float(np.maximum.reduce(values, initial=-1.0))


def _total(w: FloatArray | None, values: FloatArray) -> float:
    return float(np.add.reduce(values) if w is None else values @ w)


def _step_to(worst: float) -> float:
    """Return the largest step in (0, 1] for the most negative relative change."""
    return 1.0 if worst > -BOUNDARY_FRACTION else BOUNDARY_FRACTION / -worst


@np.errstate(all="ignore")
def interior_point(
    design: FloatArray,
    tau: float | FloatArray,
    kappa: float,
    *,
    m: float,
    start: FloatArray,
    free_theta: bool = True,
    weights: FloatArray | None = None,
    linear: FloatArray | None = None,
    tol: float = 1e-11,
    max_iterations: int = 200,
) -> InteriorPoint:
    """Return the solution of the convex fit at fixed tau.

    Parameters
    ----------
    design : ndarray, shape (rows, k)
        W = [X, y] in well-conditioned coordinates, the rows still undecided.
    tau : float or ndarray, shape (rows,)
        0 < tau < 1, the same for all rows or one for each.
    kappa : float
        kappa >= 0.
    m : float
        Weight of log theta: the sum of the weights of all rows, decided ones included, less the rank in
        the restricted likelihood.
    start : ndarray, shape (k,)
        Starting point (-b, theta), theta > 0; theta stays there unless `free_theta`.
    weights : ndarray, shape (rows,), or None
        Positive case weights.
    linear : ndarray, shape (k,), or None
        Gradient of the rows whose side is known.
    tol : float
        Relative complementarity at which to stop.
    """
    n_rows, k = design.shape
    z, w = start.copy(), weights
    theta_moves = free_theta and k == 1  # without coefficients there is nothing to settle first
    ell = np.zeros(k) if linear is None else linear
    weight = float(n_rows if w is None else w.sum())
    work = np.empty((12, n_rows))
    rows = _Vectors(*work)
    np.matmul(design, z, out=rows.u)
    if k == 1 and not free_theta:
        return InteriorPoint(z, loss_slope(rows.u, tau, kappa), 0, True)
    size = rows.split(tau, kappa)
    best, least, stalled = np.inf, np.full(3, np.inf), 0
    for iteration in range(max_iterations):
        product = rows.product(w)
        v = np.subtract(rows.low, tau, out=rows.dv)
        stationarity = rows.weigh(w, v) @ design + ell
        if free_theta and not theta_moves and best <= SETTLED:
            best, least, stalled = np.inf, np.full(3, np.inf), 0
            stretch = m / max(float(stationarity @ z), 1e-3 * m)  # theta for these v
            z *= stretch
            rows.u *= stretch
            theta_moves = abs(np.log(stretch)) < NEAR_SCALE
            if not theta_moves:
                size = rows.split(tau, kappa)
                continue
            rows.s *= stretch
            rows.t *= stretch
            product *= stretch
        active = slice(0, k if theta_moves else k - 1)
        if theta_moves:
            stationarity[-1] -= m / z[-1]
        parts = np.array(
            [
                product / m,
                float(np.abs(stationarity[active]).max(initial=0.0)) / m,
                rows.feasibility(v, kappa) / (1.0 + size),
            ]
        )
        error = float(parts.max())
        if error <= tol and theta_moves == free_theta:
            return InteriorPoint(z, v.copy(), iteration, True)
        stalled = 0 if bool(((parts < 0.98 * least) & (least > tol)).any()) else stalled + 1
        best, least = min(best, error), np.minimum(least, parts)
        largest = float(np.abs(rows.u, out=rows.scratch).max(initial=0.0))
        if stalled > PATIENCE or not np.isfinite(error) or size * UNBOUNDED < largest:
            break
        if not product > 0.0:  # on the boundary: no step leads away from it
            break
        rows.set_inverse(kappa)
        matrix = design.T @ (rows.weigh(w, rows.inverse)[:, None] * design)
        if theta_moves:
            matrix[-1, -1] += m / z[-1] ** 2
        factor = _cholesky_solver(matrix[active, active])
        rows.solve(design, w, factor, stationarity)
        step, remainder = rows.predict(w)
        after = (1.0 - step) * product + step**2 * remainder
        rows.centre((max(after, 0.0) / product) ** 3 * product / (2.0 * weight))
        dz = rows.solve(design, w, factor, stationarity)
        step = rows.correct()
        if theta_moves and dz[-1] < 0.0:
            step = min(step, 0.9 * z[-1] / -dz[-1])
        z += step * dz
        rows.move(step)
    return InteriorPoint(z, rows.low - tau, iteration, False)
