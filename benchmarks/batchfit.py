"""Thousands of small fits at once: the engine of the coverage study.

Every replicate of a cell has the same shape, so that one numpy operation serves all of them. For
kappa > 0 the convex fit at fixed tau is Newton's method with an exact line search; for kappa = 0 and
two columns it is a descent over lines through two rows. Both look over the whole range of tau and
refine the best point, so that fits on the bounds and second basins are found.
`coverage.py --check` compares the results with `qhreg.solver.solve(..., search=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qhreg.family.normalizer import log_normalizer_derivatives

TAU_BOUNDS = (1e-3, 1.0 - 1e-3)
UNSEEN = 1e300
"""Loss at a value of tau that was not tried: larger than any, and zero times it is zero."""


@dataclass(frozen=True)
class Batch:
    """Fits of R replicates: beta (R, p), sigma, tau, value (negative log-likelihood) of shape (R,)."""

    beta: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray
    value: np.ndarray


def _inside(u, tau, kappa):
    """Return kappa psi."""
    return np.clip(u, -kappa * tau[:, None], kappa * (1.0 - tau)[:, None])


def _rows_sum(left, right):
    return np.einsum("ij,ij->i", left, right)


def _combine(w, z):
    """Return the rows times z, the sum of the columns w[i] times z[:, i]."""
    return sum(column * factor[:, None] for column, factor in zip(w, z.T, strict=True))


def _line_search(u, du, z, dz, tau, kappa, slope):
    """Return steps that bring the slope along dz below a tenth of its size at zero.

    The objective is convex along the line: a bracket of its minimum shrinks by secants.
    """
    n, theta, grows = u.shape[1], z[:, -1], dz[:, -1]
    limit = np.where(
        grows < 0.0, np.minimum(64.0, -0.99 * theta / np.minimum(grows, -1e-300)), 64.0
    )
    low, d_low = np.zeros(len(u)), slope.copy()
    high, d_high = np.full(len(u), np.nan), np.full(len(u), np.nan)
    step = np.minimum(1.0, limit)
    m = np.arange(len(u))
    for _ in range(24):
        d = _rows_sum(_inside(u[m] + step[m, None] * du[m], tau[m], kappa), du[m]) / kappa
        d -= n * grows[m] / (theta[m] + step[m] * grows[m])
        left = d < 0.0
        low[m], d_low[m] = np.where(left, step[m], low[m]), np.where(left, d, d_low[m])
        high[m], d_high[m] = np.where(left, high[m], step[m]), np.where(left, d_high[m], d)
        m = m[(np.abs(d) > -0.1 * slope[m]) & ~(left & (step[m] >= limit[m]))]
        if not m.size:
            break
        weight = np.clip(d_low[m] / (d_low[m] - d_high[m]), 0.02, 0.98)
        secant = low[m] + weight * (high[m] - low[m])
        step[m] = np.where(np.isnan(high[m]), np.minimum(4.0 * step[m], limit[m]), secant)
    return step


def fit_tau(w, tau, kappa, z, theta=None, tol=1e-9, max_iter=80):
    """Return z = (-b, theta) and the loss part of the objective at fixed tau, for kappa > 0.

    w has shape (k, R, n), its last column the response; theta fixes the last element of z.
    """
    k, reps, n = w.shape
    z = z.copy()
    if theta is not None:
        z[:, -1] = theta
    free = range(k if theta is None else k - 1)
    size = np.column_stack([_rows_sum(w[i], w[i]) for i in free])
    value = np.empty(reps)
    active = np.arange(reps)
    for _ in range(max_iter):
        wa, za, ta = w[:, active], z[active], tau[active]
        u = _combine(wa, za)
        inside = _inside(u, ta, kappa)
        value[active] = _rows_sum(inside, u - 0.5 * inside) / kappa - n * np.log(za[:, -1])
        gradient = np.column_stack([_rows_sum(inside, wa[i]) for i in free]) / kappa
        zone = u == inside
        hessian = np.empty((active.size, len(free), len(free)))
        for i in free:
            near = zone * wa[i]
            for j in range(i + 1):
                hessian[:, i, j] = hessian[:, j, i] = _rows_sum(near, wa[j]) / kappa
        if theta is None:
            gradient[:, -1] -= n / za[:, -1]
            hessian[:, -1, -1] += n / za[:, -1] ** 2
        # Too few rows in the zone leave directions without curvature: borrow some from all rows.
        damping = 1e-3 * np.abs(gradient).max(axis=1) / n + 1e-10
        hessian += np.eye(len(free)) * (damping[:, None] * size[active])[:, None, :]
        step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        decrement = -_rows_sum(gradient, step)
        go = decrement > tol
        if not go.any():
            break
        dz = np.zeros_like(za)
        dz[:, free] = step
        active = active[go]
        if not go.all():
            wa, u, za, ta, dz = wa[:, go], u[go], za[go], ta[go], dz[go]
        length = _line_search(u, _combine(wa, dz), za, dz, ta, kappa, -decrement[go])
        z[active] = za + length[:, None] * dz
    return z, value


def _slope_in_tau(w, z, tau, kappa, log_c):
    """Return the derivative of the profile in tau."""
    u = _combine(w, z)
    return w.shape[2] * log_c.d_tau - (u - _inside(u, tau, kappa)).sum(axis=1)


def _profile_bound(losses, log_c, tau, n):
    """Return a lower bound of the profile between the first and the last of these tau.

    The minimal loss is concave in tau, so that it lies above its chord; shape (R,) from losses at the
    two ends, shape (2, R).
    """
    share = ((tau - tau[0]) / (tau[-1] - tau[0]))[:, None]
    return (n * log_c[:, None] + (1.0 - share) * losses[0] + share * losses[1]).min(axis=0)


def fit_joint(w, kappa, start_tau, theta=None):
    """Return the joint fits over (b, theta, tau) for kappa > 0, from a search over all of tau.

    Intervals of tau are halved down to the step of a fine grid, except where the bound of
    `_profile_bound` shows that they do not hold the minimum.
    """
    k, reps, n = w.shape
    # For narrow zones the profile over tau is rougher.
    coarse = 4 if kappa > 0.5 else 16
    logits = np.linspace(-1.0, 1.0, 8 * coarse + 1) * np.log(TAU_BOUNDS[1] / TAU_BOUNDS[0])
    taus = 1.0 / (1.0 + np.exp(-logits))
    taus[0], taus[-1] = TAU_BOUNDS
    log_c = log_normalizer_derivatives(taus, np.full(taus.size, kappa)).value
    zs, losses = np.empty((taus.size, reps, k)), np.full((taus.size, reps), UNSEEN)
    middle = coarse * int(np.argmin(np.abs(taus[::coarse] - start_tau)))
    z = np.zeros((reps, k))
    z[:, -1] = 1.0 / np.abs(w[-1]).mean(axis=1)
    for width in (1.0, 0.3, 0.1):
        if width > kappa:
            z, _ = fit_tau(w, np.full(reps, taus[middle]), width, z, theta, tol=1e-2)
    zs[middle], losses[middle] = fit_tau(w, np.full(reps, taus[middle]), kappa, z, theta, tol=1e-4)
    for step in (coarse, -coarse):
        for i in range(middle + step, taus.size if step > 0 else -1, step):
            tau = np.full(reps, taus[i])
            zs[i], losses[i] = fit_tau(w, tau, kappa, zs[i - step], theta, tol=1e-4)
    while coarse > 1:
        best = (losses + n * log_c[:, None]).min(axis=0)
        open_ = [
            (i + coarse // 2, np.flatnonzero(bound < best))
            for i in range(0, taus.size - 1, coarse)
            for part in (slice(i, i + coarse + 1),)
            for bound in (_profile_bound(losses[[i, i + coarse]], log_c[part], taus[part], n),)
        ]
        nodes = np.concatenate([np.full(r.size, i) for i, r in open_])
        rows = np.concatenate([r for _, r in open_])
        coarse //= 2
        start = 0.5 * (zs[nodes - coarse, rows] + zs[nodes + coarse, rows])
        found = fit_tau(w[:, rows], taus[nodes], kappa, start, theta, tol=1e-4)
        zs[nodes, rows], losses[nodes, rows] = found
    best = (losses + n * log_c[:, None]).argmin(axis=0)
    return _refine(w, kappa, theta, taus, zs, best)


def _refine(w, kappa, theta, taus, zs, best):
    """Return the fits at the root of the profile's slope around the best grid points."""
    _, reps, n = w.shape
    z = zs[best, np.arange(reps)]
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
        z_new, value = fit_tau(w[:, m], tau_new, kappa, z[m], theta)
        c_new = log_normalizer_derivatives(tau_new, np.full(m.size, kappa))
        slope_new = _slope_in_tau(w[:, m], z_new, tau_new, kappa, c_new)
        total_new = value + n * c_new.value
        z[m], tau[m], slope[m] = z_new, tau_new, slope_new
        log_c.d2_tau[m] = c_new.d2_tau
        low[m] = np.where(slope_new < 0.0, tau_new, low[m])
        high[m] = np.where(slope_new < 0.0, high[m], tau_new)
        better = total_new < best_total[m]
        g = m[better]
        best_z[g], best_tau[g], best_total[g] = z_new[better], tau_new[better], total_new[better]
    return Batch(-best_z[:, :-1] / best_z[:, -1:], 1.0 / best_z[:, -1], best_tau, best_total)


# kappa = 0: x and y have shape (R, n), and a fit is a line through two of the rows

STARTS = (0.005, 0.1, 0.3, 0.5, 0.7, 0.9, 0.995)
"""Values of tau from which the joint fit at kappa = 0 descends."""


@dataclass(frozen=True)
class Lines:
    """The best lines through an anchor, one for each replicate, and the second row each goes through."""

    slope: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray
    value: np.ndarray
    partner: np.ndarray


def _best_tau(p, q, n, tau, sigma):
    """Return the negative log-likelihood of lines with these positive and negative parts, tau, sigma."""
    if tau is None and sigma is None:
        t = np.clip(np.sqrt(p) / (np.sqrt(p) + np.sqrt(q)), *TAU_BOUNDS)
    elif tau is None:
        d = (p - q) / (n * sigma)
        t = np.clip(2.0 / ((2.0 - d) + np.sqrt((d - 2.0) ** 2 + 4.0 * d)), *TAU_BOUNDS)
    else:
        t = np.full_like(p, tau)
    loss = (1.0 - t) * p + t * q
    s = loss / n if sigma is None else np.full_like(p, sigma)
    return n * np.log(s) + loss / s - n * np.log(t * (1.0 - t)), t, s


def _parts(weight, slope):
    """Return the sums over k of weight_k (slope_k - slope_m)+ and of weight_k (slope_m - slope_k)+.

    Slopes in increasing order along the last axis.
    """
    count, total = np.cumsum(weight, axis=1), np.cumsum(weight * slope, axis=1)
    above = total[:, -1:] - total - slope * (count[:, -1:] - count)
    return np.maximum(above, 0.0), np.maximum(slope * count - total, 0.0)


def fit_points(x, y, tau=None, sigma=None):
    """Return the best lines through the origin at kappa = 0, each through one more row."""
    n = x.shape[1]
    usable = x != 0.0
    slope = np.where(usable, y / np.where(usable, x, 1.0), 0.0)
    order = np.argsort(slope, axis=1)
    slope, weight = np.take_along_axis(slope, order, 1), np.take_along_axis(x, order, 1)
    right = _parts(np.maximum(weight, 0.0), slope)
    left = _parts(np.maximum(-weight, 0.0), slope)
    value, t, s = _best_tau(right[0] + left[1], right[1] + left[0], n, tau, sigma)
    best = np.where(weight != 0.0, value, np.inf).argmin(axis=1)[:, None]
    found = (np.take_along_axis(each, best, 1)[:, 0] for each in (slope, s, t, value, order))
    return Lines(*found)


def _through(x, y, anchor, tau, sigma):
    """Return the best lines through one row of each replicate."""
    rows = np.arange(len(x))
    return fit_points(x - x[rows, anchor, None], y - y[rows, anchor, None], tau, sigma)


def _descend(x, y, i, j, tau, sigma):
    """Exchange one of the two rows of each line while that helps; return the lines and the rows."""
    reps = len(x)
    pair = np.stack([i, j])
    fields = np.full((4, reps), np.inf)
    active = np.arange(reps)
    while active.size:
        tries = [_through(x[active], y[active], rows[active], tau, sigma) for rows in pair]
        second = tries[1].value < tries[0].value
        found = np.where(
            second, *([t.slope, t.sigma, t.tau, t.value, t.partner] for t in reversed(tries))
        )
        better = found[3] < fields[3, active] - 1e-10
        active, found, second = active[better], found[:, better], second[better]
        kept = np.where(second, pair[1, active], pair[0, active])
        fields[:, active] = found[:4]
        pair[:, active] = kept, found[4].astype(int)
    slope, sigma, tau, value = fields
    first = np.arange(reps), pair[0]
    beta = np.column_stack([y[first] - slope * x[first], slope])
    return Batch(beta, sigma, tau, value), pair


def _start(x, y, tau):
    """Return a row near a quantile of the residuals of least squares, and the best one to join it."""
    centred = x - x.mean(axis=1, keepdims=True)
    resid = y - centred * (_rows_sum(centred, y) / _rows_sum(centred, centred))[:, None]
    i = np.argsort(resid, axis=1)[:, int((1.0 - tau) * (x.shape[1] - 1))]
    return i, _through(x, y, i, tau, None).partner


def fit_lines(x, y, tau=None, sigma=None, start=None):
    """Return fits at kappa = 0 with a constant and one regressor, and the two rows of each.

    All lines through two rows up to 120 rows; beyond, descent over lines that share a row with the
    best one so far, from the rows `start` or from those near several quantiles.
    """
    n = x.shape[1]
    if start is not None:
        return _descend(x, y, *start, tau, sigma)
    if n <= 120:
        every = [_through(x, y, np.full(len(x), i), tau, sigma) for i in range(n)]
        i = np.argmin([each.value for each in every], axis=0)
        j = np.array([each.partner for each in every])[i, np.arange(len(x))]
        return _descend(x, y, i, j, tau, sigma)
    values, pairs = [], []
    for t in STARTS:
        _, pair = _descend(x, y, *_start(x, y, t), t, None)
        found, pair = _descend(x, y, *pair, tau, sigma)
        values.append(found.value)
        pairs.append(pair)
    best = np.argmin(values, axis=0)
    return _descend(x, y, *np.array(pairs)[best, :, np.arange(len(x))].T, tau, sigma)
