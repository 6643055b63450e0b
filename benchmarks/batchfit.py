"""Thousands of small fits at once: the engine of the coverage study.

Every replicate of a cell has the same shape, so that one numpy operation serves all of them. For
kappa > 0 the convex fit at fixed tau is Newton's method with an exact line search; for kappa = 0 and
two columns it is a descent over lines through two points. Both walk a grid over the whole range of
tau and refine the best point, so that fits on the bounds and second basins are found.
`coverage.py --check` compares the results with `qhreg.solver.solve(..., search=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qhreg.normalizer import log_normalizer_derivatives

TAU_BOUNDS = (1e-3, 1.0 - 1e-3)


@dataclass(frozen=True)
class Batch:
    """Fits of R replicates: beta (R, p), sigma, tau, value (negative log-likelihood) of shape (R,)."""

    beta: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray
    value: np.ndarray


def _slope_value(u, tau, kappa):
    """Return kappa psi, and the loss summed over each row."""
    inside = np.clip(u, -kappa * tau[:, None], kappa * (1.0 - tau)[:, None])
    return inside, np.einsum("ij,ij->i", inside, u - 0.5 * inside) / kappa


def _line_search(u, du, z, dz, tau, kappa, n, free_theta):
    """Return steps at which the directional derivative of the convex objective is zero."""
    low, high = np.zeros(len(u)), np.full(len(u), 1.0)
    limit = np.full(len(u), 64.0)
    if free_theta:
        theta, slope = z[:, -1], dz[:, -1]
        limit = np.where(
            slope < 0.0, np.minimum(limit, -0.99 * theta / np.minimum(slope, -1e-300)), limit
        )
    high = np.minimum(high, limit)

    def derivative(step):
        inside = np.clip(
            u + step[:, None] * du, -kappa * tau[:, None], kappa * (1.0 - tau)[:, None]
        )
        result = np.einsum("ij,ij->i", inside, du) / kappa
        if free_theta:
            result -= n * dz[:, -1] / (z[:, -1] + step * dz[:, -1])
        return result

    d_high = derivative(high)
    for _ in range(6):
        grow = (d_high < 0.0) & (high < limit)
        if not grow.any():
            break
        low = np.where(grow, high, low)
        high = np.where(grow, np.minimum(4.0 * high, limit), high)
        d_high = np.where(grow, derivative(high), d_high)
    d_low = derivative(low)
    step = high
    for _ in range(12):
        weight = d_low / np.where(d_low - d_high == 0.0, 1.0, d_low - d_high)
        step = np.where(d_high <= 0.0, high, low + np.clip(weight, 0.02, 0.98) * (high - low))
        d = derivative(step)
        left = d < 0.0
        low, d_low = np.where(left, step, low), np.where(left, d, d_low)
        high, d_high = np.where(left, high, step), np.where(left, d_high, d)
    return step


def fit_tau(w, tau, kappa, z, theta=None, tol=1e-9, max_iter=80):
    """Return z = (-b, theta) and the loss part of the objective at fixed tau, for kappa > 0.

    w has shape (R, n, k), its last column the response; theta fixes the last element of z.
    """
    reps, n, k = w.shape
    z = z.copy()
    if theta is not None:
        z[:, -1] = theta
    free = slice(0, k if theta is None else k - 1)
    value = np.empty(reps)
    active = np.arange(reps)
    for _ in range(max_iter):
        wa, za, ta = w[active], z[active], tau[active]
        u = np.einsum("ijk,ik->ij", wa, za)
        inside, loss = _slope_value(u, ta, kappa)
        value[active] = loss - n * np.log(za[:, -1])
        gradient = np.einsum("ij,ijk->ik", inside, wa) / kappa
        zone = (u > -kappa * ta[:, None]) & (u < kappa * (1.0 - ta)[:, None])
        hessian = np.einsum("ijk,ij,ijl->ikl", wa, zone / kappa, wa, optimize=True)
        if theta is None:
            gradient[:, -1] -= n / za[:, -1]
            hessian[:, -1, -1] += n / za[:, -1] ** 2
        gradient, hessian = gradient[:, free], hessian[:, free, free]
        # Too few rows in the zone leave directions without curvature: borrow some from all rows.
        size = np.einsum("ijk,ijk->ik", wa, wa)[:, free]
        damping = 1e-3 * np.abs(gradient).max(axis=1) / n + 1e-10
        hessian = hessian + np.eye(hessian.shape[1]) * (damping[:, None] * size)[:, None, :]
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        decrement = -np.einsum("ij,ij->i", gradient, step)
        go = decrement > tol
        if not go.any():
            break
        dz = np.zeros_like(za)
        dz[:, free] = step
        wa, za, ta, dz, active = wa[go], za[go], ta[go], dz[go], active[go]
        length = _line_search(
            u[go], np.einsum("ijk,ik->ij", wa, dz), za, dz, ta, kappa, n, theta is None
        )
        z[active] = za + length[:, None] * dz
    return z, value


def _slope_in_tau(w, z, tau, kappa, log_c):
    """Return the derivative of the profile in tau."""
    u = np.einsum("ijk,ik->ij", w, z)
    excess = u - np.clip(u, -kappa * tau[:, None], kappa * (1.0 - tau)[:, None])
    return w.shape[1] * log_c.d_tau - excess.sum(axis=1)


def fit_joint(w, kappa, start_tau, theta=None):
    """Return the joint fits over (b, theta, tau) for kappa > 0, from a grid over all of tau."""
    reps, n, k = w.shape
    # For narrow zones the profile over tau is rougher.
    grid_step = 0.45 if kappa > 0.5 else 0.25
    bound = np.log(TAU_BOUNDS[1] / TAU_BOUNDS[0])
    half = int(np.ceil(bound / grid_step))
    logits = np.linspace(-bound, bound, 2 * half + 1)
    taus = 1.0 / (1.0 + np.exp(-logits))
    taus[0], taus[-1] = TAU_BOUNDS
    middle = int(np.argmin(np.abs(taus - start_tau)))
    first = np.zeros((reps, k))
    first[:, -1] = 1.0 / np.abs(w[:, :, -1]).mean(axis=1) if theta is None else theta
    zs, values = {}, np.empty((len(taus), reps))
    for order in (range(middle, len(taus)), range(middle - 1, -1, -1)):
        z = zs.get(middle, first)
        for i in order:
            tau = np.full(reps, taus[i])
            widths = (
                [kappa] if i in zs or i != middle else sorted({1.0, 0.3, 0.1, kappa}, reverse=True)
            )
            for width in widths:
                if width >= kappa:
                    z, value = fit_tau(w, tau, width, z, theta, tol=1e-4)
            zs[i] = z
            values[i] = value + n * log_normalizer_derivatives(taus[i], kappa).value
    best = values.argmin(axis=0)
    return _refine(w, kappa, theta, taus, zs, best)


def _refine(w, kappa, theta, taus, zs, best):
    """Return the fits at the root of the profile's slope around the best grid points."""
    reps, n, _ = w.shape
    stack = np.stack([zs[i] for i in range(len(taus))])
    z = stack[best, np.arange(reps)]
    tau = taus[best]
    low, high = taus[np.maximum(best - 1, 0)], taus[np.minimum(best + 1, len(taus) - 1)]
    z, value = fit_tau(w, tau, kappa, z, theta)
    log_c = log_normalizer_derivatives(tau, np.full(reps, kappa))
    slope = _slope_in_tau(w, z, tau, kappa, log_c)
    total = value + n * log_c.value
    best_z, best_tau, best_total = z.copy(), tau.copy(), total.copy()
    low, high = np.where(slope < 0.0, tau, low), np.where(slope < 0.0, high, tau)
    for _ in range(40):
        wide = high - low > 1e-7
        move = (np.abs(slope) > 1e-6 * n) & wide
        if not move.any():
            break
        m = np.flatnonzero(move)
        curvature = n * log_c.d2_tau[m]
        tau_new = tau[m] - slope[m] / curvature
        outside = (tau_new <= low[m]) | (tau_new >= high[m])
        tau_new = np.where(outside, 0.5 * (low[m] + high[m]), tau_new)
        z_new, value = fit_tau(w[m], tau_new, kappa, z[m], None if theta is None else theta)
        c_new = log_normalizer_derivatives(tau_new, np.full(m.size, kappa))
        slope_new = _slope_in_tau(w[m], z_new, tau_new, kappa, c_new)
        total_new = value + n * c_new.value
        z[m], tau[m], slope[m] = z_new, tau_new, slope_new
        log_c.d2_tau[m] = c_new.d2_tau
        low[m] = np.where(slope_new < 0.0, tau_new, low[m])
        high[m] = np.where(slope_new < 0.0, high[m], tau_new)
        better = total_new < best_total[m]
        g = m[better]
        best_z[g], best_tau[g], best_total[g] = z_new[better], tau_new[better], total_new[better]
    return Batch(-best_z[:, :-1] / best_z[:, -1:], 1.0 / best_z[:, -1], best_tau, best_total)


# kappa = 0


def _parts(residuals):
    """Return the sums of the positive and of the negative parts along the last axis."""
    positive = np.maximum(residuals, 0.0).sum(axis=-1)
    return positive, positive - residuals.sum(axis=-1)


def _best_tau(p, q, n, tau, sigma):
    """Return the negative log-likelihood of lines with positive part p and negative part q, and tau."""
    if tau is None and sigma is None:
        t = np.clip(np.sqrt(p) / (np.sqrt(p) + np.sqrt(q)), *TAU_BOUNDS)
    elif tau is None:
        d = (p - q) / (n * sigma)
        t = np.clip(2.0 / ((2.0 - d) + np.sqrt((d - 2.0) ** 2 + 4.0 * d)), *TAU_BOUNDS)
    else:
        t = np.full_like(p, tau)
    loss = (1.0 - t) * p + t * q
    s = loss / n if sigma is None else sigma
    return n * np.log(s) + loss / s - n * np.log(t * (1.0 - t)), t, s


def _candidate_lines(x, y, i, j):
    dx = x[i] - x[j]
    b = (y[i] - y[j]) / np.where(dx == 0.0, 1e-300, dx)
    return y[i] - b * x[i], b


def fit_lines(x, y, tau=None, sigma=None, start=None):
    """Return (beta, sigma, tau, value, rows) at kappa = 0 with a constant and one regressor.

    All lines through two points up to 120 rows; beyond, descent over lines that share a point with
    the best one so far, from the rows of `start` or from the best of random lines for several tau.
    """
    n = x.size
    if n <= 120:
        i, j = np.triu_indices(n, 1)
        return _pack(_best_line(x, y, i, j, tau, sigma))
    if start is not None:
        return _pack(_descend(x, y, *start, tau, sigma))
    rng = np.random.default_rng(n)
    i, j = rng.integers(0, n, (2, 200))
    i, j = i[i != j], j[i != j]
    a, b = _candidate_lines(x, y, i, j)
    p, q = _parts(y - a[:, None] - b[:, None] * x)
    best = None
    for t in (0.005, 0.1, 0.3, 0.5, 0.7, 0.9, 0.995) if n <= 200 else (0.05, 0.3, 0.7, 0.95):
        m = int(np.argmin((1.0 - t) * p + t * q))
        found = _descend(x, y, int(i[m]), int(j[m]), t, None, thorough=False)
        found = _descend(x, y, *found[4:], tau, sigma, thorough=False)
        if best is None or found[3] < best[3]:
            best = found
    return _pack(_descend(x, y, *best[4:], tau, sigma))


def _pack(found):
    return found[0], found[1], found[2], found[3], found[4:]


def _descend(x, y, i, j, tau, sigma, thorough=True):
    """Exchange one of the two points of a line while that helps: near points first, then all."""
    value = np.inf
    near = True
    while True:
        others = np.arange(x.size)
        if near:
            a, b = _candidate_lines(x, y, i, j)
            others = np.argpartition(np.abs(y - a - b * x), 60)[:60]
        rows = np.repeat([i, j], others.size)
        columns = np.tile(others, 2)
        keep = rows != columns
        found = _best_line(x, y, rows[keep], columns[keep], tau, sigma)
        if found[3] < value - 1e-10:
            value, i, j = found[3], found[4], found[5]
        elif near and thorough:
            near = False
        else:
            return found


def _best_line(x, y, i, j, tau, sigma):
    a, b = _candidate_lines(x, y, i, j)
    p, q = _parts(y - a[:, None] - b[:, None] * x)
    value, t, s = _best_tau(p, q, x.size, tau, sigma)
    m = int(np.argmin(value))
    return (
        np.array([a[m], b[m]]),
        float(np.broadcast_to(s, value.shape)[m]),
        float(t[m]),
        float(value[m]),
        int(i[m]),
        int(j[m]),
    )


def fit_points(x, y, tau=None, sigma=None):
    """Return (beta, sigma, tau, value) of one data set at kappa = 0 with the single regressor x."""
    b = y / x
    p, q = _parts(y - b[:, None] * x)
    value, t, s = _best_tau(p, q, x.size, tau, sigma)
    m = int(np.argmin(value))
    return b[m : m + 1], float(np.broadcast_to(s, value.shape)[m]), float(t[m]), float(value[m])
