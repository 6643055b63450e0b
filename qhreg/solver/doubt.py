r"""Whether a local optimum may not be the global one, and where a better one could be.

The profile over tau has several optima where the noise is unlike the model: light tails, two peaks,
many equal values; where the zone has few rows, since the profile is not smooth then; and where there
are many columns, since a plane through as many rows may have all others on one side and close to it.
What a fit brings with it tells most of this at no cost. In doubt the profile is looked at with the
slopes held at the fit, and at zero, where a pile of equal responses would be met exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows, GivenRows, residuals
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver.local import BY_NEWTON, LocalFit
from qhreg.solver.problem import Problem, Task
from qhreg.solver.taufit import TINY_KAPPA, TauFit
from qhreg.solver.tauscan import TauScan, scan_tau

__all__ = [
    "has_likely_tails",
    "has_many_columns",
    "has_ties",
    "is_far_from_the_model",
    "is_jagged",
    "is_like_the_model",
    "is_near_an_end",
    "look_along_tau",
]

Start = tuple[FloatArray, float]

END_OF_TAU = 0.05
"""Distance of tau from 0 or 1 below which there often is a better optimum: a bound often is one."""

FEW_IN_ZONE = 60
"""Rows in the zone below which the profile over tau is jagged."""

SURE_IN_ZONE = 100
"""Rows in the zone below which they do not tell whether the noise is like the model."""

FLAT_KURTOSIS = 3.5
"""Kurtosis of least-squares residuals below which there may be two peaks."""

LIGHT_KURTOSIS = 2.5
"""Kurtosis below which a look along tau with slopes held often shows nothing: the slopes change too."""

WIDE = 5.0
"""Width from which on the rows outside the zone are few, and tau and 1 - tau may do about as well."""

STRANGE_SHARE = 0.3
"""Share by which the sum of psi^2 differs only in fits that have little to do with the model."""

SLOPE_SHARE = 0.06
"""Share by which the sum of psi^2 may differ from what the model expects of it."""

ZONE_SHARE = 0.1
"""Share by which the number of rows in the zone may differ from what the model expects of it."""

ZONE_SPREAD = 2.5
"""Standard deviations by which it may."""

MANY_PER_COLUMN = 10.0
"""Rows per column on the light side of a fit from which on none with all rows on one side was better."""

FEW_PER_COLUMN = 4.0
"""Rows per column on the light side below which such a fit may be better whatever the noise."""

ONE_SIDED = 0.6
"""Log-likelihood per row that the slopes may gain on the way to an end of tau."""

TAIL_STEPS = (math.log(4.0), math.log(2.0), math.log(4.0 / 3.0), 0.0)
"""Where the four parts of an exponential tail begin, times its slope."""

UNLIKELY_TAILS = 16.0
"""Chi-square statistic of the parts of both tails above which 1 of 100 samples of the model lies."""

SPACED_RESPONSES = 40
"""Responses among which equal values are looked for."""

SCANNED_ROWS = 30_000
"""Rows whose residuals are sorted, and up to twice as many: a third of them misses optima."""

FAR = 1.0
"""Distance in tau, on the logit scale, beyond which a low profile is another optimum."""

NEAR_LOGLIKE = 30.0
"""Log-likelihood within which the profile with slopes held is low: they could gain that much."""

NEAR_SHARE = 0.02
"""The same per row, times tau (1 - tau): near the ends of tau the profile itself falls that little."""

LOWER = 0.01
"""Log-likelihood by which anything lower is another optimum, near or far."""

LOWER_SHARE = 1e-3
"""The same per row where some of them are scanned, which have an optimum of their own."""

MOST_STARTS = 3
"""Starts returned at most."""


def is_jagged(local: LocalFit, few: int = FEW_IN_ZONE) -> bool:
    """Return whether there often is a slightly better optimum nearby that only a search finds.

    So it is with few rows in the zone, where the profile over tau is not smooth, and near 0 and 1.

    Parameters
    ----------
    local : LocalFit
        The optimum.
    few : int
        Rows in the zone that are few.
    """
    return (
        local.reason != BY_NEWTON or local.fit.rows_in_zone < few or is_near_an_end(local.fit.tau)
    )


def is_near_an_end(tau: float) -> bool:
    """Return whether tau is near 0 or 1."""
    return min(tau, 1.0 - tau) < END_OF_TAU


def is_far_from_the_model(local: LocalFit, problem: Problem, kurtosis: float) -> bool:
    """Return whether only a search tells of other optima: noise unlike the model, many columns."""
    few = MANY_PER_COLUMN if problem.kappa > WIDE else FEW_PER_COLUMN
    if not kurtosis >= LIGHT_KURTOSIS or _light_rows(local, problem) < few:
        return True
    ratio = local.fit.dual.square / (problem.n * _mean_square(local, problem))
    return not abs(ratio - 1.0) <= STRANGE_SHARE


def _light_rows(local: LocalFit, problem: Problem) -> float:
    """Return how many rows the model expects on the light side of the fit, per column."""
    light = problem.rows.n_rows * min(local.fit.tau, 1.0 - local.fit.tau)
    return light / max(local.fit.z.size - 1, 1)


def has_many_columns(local: LocalFit, problem: Problem) -> bool:
    """Return whether a plane through as many rows as columns could have all others on one side."""
    return _light_rows(local, problem) < MANY_PER_COLUMN


def _mean_square(local: LocalFit, problem: Problem) -> float:
    """Return what the model expects of psi^2."""
    return 2.0 * float(log_normalizer_derivatives(local.fit.tau, problem.kappa).d_kappa)


def is_like_the_model(local: LocalFit, problem: Problem, kurtosis: float, rows: GivenRows) -> bool:
    """Return whether nothing speaks for noise unlike the model, from numbers that are at hand.

    In the model kappa E[psi^2] is the probability of the zone: a fit with another sum of psi^2, or
    another number of rows in the zone, is one of other noise. So is one with light tails or with
    equal responses. Near the ends of tau, with few rows in a zone that is to have some or for as many
    columns, and where few are outside, it is not known.
    """
    fit = local.fit
    if has_many_columns(local, problem):
        return False
    sure = fit.rows_in_zone >= SURE_IN_ZONE or problem.kappa <= TINY_KAPPA
    inside = problem.kappa <= WIDE and not is_near_an_end(fit.tau)
    if not (sure and inside and kurtosis >= FLAT_KURTOSIS):
        return False
    square = _mean_square(local, problem)
    if not abs(fit.dual.square / (problem.n * square) - 1.0) <= SLOPE_SHARE:
        return False
    n = problem.rows.n_rows
    expected = n * problem.kappa * square
    outside = n - expected
    allowed = ZONE_SPREAD * math.sqrt(expected * outside / n)
    allowed = max(allowed, ZONE_SHARE * min(expected, outside))
    beyond = fit.rows_in_zone - expected
    drawn = fit.z.size * outside / n  # the fit draws rows into the zone
    return -allowed <= beyond <= allowed + drawn and not has_ties(rows)


def has_likely_tails(local: LocalFit, problem: Problem) -> bool:
    """Return whether the residuals in four equal parts of each tail are as many as the model expects.

    Beyond the zone the density is exponential, so that a share 1/s of a tail lies beyond log(s) over
    its slope. What the numbers of a fit do not show is seen here, such as rows that lie exactly on
    another plane.
    """
    tau, kappa, n = local.fit.tau, problem.kappa, problem.n
    left = [-kappa * tau - step / tau for step in TAIL_STEPS]
    right = [kappa * (1.0 - tau) + step / (1.0 - tau) for step in TAIL_STEPS[::-1]]
    bounds, raw = np.array(left + right), problem.to_rows(local.fit.z)
    seen, squares = np.zeros(bounds.size + 1), 0.0
    for block in problem.spaced(1):
        w = block.weights
        seen += np.bincount(bounds.searchsorted(residuals(block, raw)), w, seen.size)
        squares += float(block.exog.shape[0] if w is None else w @ w)
    mass, parts, statistic = log_normalizer_derivatives(tau, kappa).value, seen.tolist(), 0.0
    for slope, tail in ((tau, parts[: len(left)]), (1.0 - tau, parts[-len(right) :])):
        expected = 0.25 * n * math.exp(-0.5 * kappa * slope**2 - mass) / slope
        statistic += sum([(part - expected) ** 2 for part in tail]) / expected
    # weights tell as much as n^2 / squares rows
    return statistic * n <= UNLIKELY_TAILS * squares


def has_ties(rows: GivenRows) -> bool:
    """Return whether equal values are found among some of the responses."""
    every = max(1, rows.n_rows // SPACED_RESPONSES)
    if isinstance(rows, ArrayRows) and rows.endog is not None and rows.offset is None:
        some = rows.endog[::every]
    else:
        some = rows.take(np.arange(0, rows.n_rows, every)).endog
    return len(set(some.tolist())) < some.size


class Look(NamedTuple):
    """What the profile over tau shows with the slopes held.

    Attributes
    ----------
    starts : list of (ndarray, float)
        (z, tau) from which better optima could be reached, the most promising first.
    flat_end : bool
        Whether it does not rise by much to an end of tau: with other slopes, and all rows on one side
        or nearly so, the likelihood could then be higher.
    """

    starts: list[Start]
    flat_end: bool


def look_along_tau(
    problem: Problem, fit: TauFit, task: Task, flat: FloatArray, constant: FloatArray
) -> Look:
    """Return what the profile shows with the slopes held at the fit, and at zero.

    Parameters
    ----------
    problem, fit, task : Problem, TauFit, Task
        The problem, its local optimum, and what is free.
    flat : ndarray, shape (k,)
        The response alone in the coordinates of the problem: all slopes zero.
    constant : ndarray, shape (k,)
        The direction of a constant.
    """
    every = max(1, problem.rows.n_rows // SCANNED_ROWS)
    weights = problem.weights(every)
    n, here = _value(problem, fit, every)
    found: list[tuple[float, Start]] = []
    flat_end = False
    for base in (fit.z, flat):
        u = problem.residuals(base, every)
        scan = scan_tau(
            u, weights, problem.kappa, task.tau_bounds, free_scale=problem.theta is None
        )
        del u  # before the next ones
        rise = (scan.value - n * math.log(base[-1]) - here) * (problem.n / n)
        if base is fit.z:
            flat_end = bool(min(rise[0], rise[-1]) < ONE_SIDED * problem.n)
        lower = LOWER if every == 1 else LOWER_SHARE * problem.n
        for k in _low_points(scan, rise, fit.tau, problem.n, lower):
            z = scan.scale[k] * base - scan.location[k] * constant
            found.append((float(rise[k]), (z, float(scan.tau[k]))))
    found.sort(key=lambda item: item[0])
    return Look([start for _, start in found[:MOST_STARTS]], flat_end)


def _low_points(scan: TauScan, rise: FloatArray, tau: float, n: float, lower: float) -> list[int]:
    """Return where the curve is lowest among its points that could belong to another optimum."""
    logit = np.log(scan.tau / (1.0 - scan.tau))
    far = np.abs(logit - math.log(tau / (1.0 - tau))) > FAR
    near = NEAR_LOGLIKE + NEAR_SHARE * n * scan.tau * (1.0 - scan.tau)
    low = (rise < -lower) | (far & (rise < near))
    curve = np.where(low, rise, np.inf)
    around = np.concatenate([[np.inf], curve, [np.inf]])
    return np.flatnonzero(low & (curve <= around[:-2]) & (curve < around[2:])).tolist()


def _value(problem: Problem, fit: TauFit, every: int) -> tuple[float, float]:
    """Return the weight of evenly spaced rows and their negative log-likelihood at the fit."""
    raw, n, loss = problem.to_rows(fit.z), 0.0, 0.0
    for block in problem.spaced(every):
        losses = quantile_huber_loss(residuals(block, raw), fit.tau, problem.kappa)
        n += losses.size if block.weights is None else float(block.weights.sum())
        loss += float(losses.sum() if block.weights is None else losses @ block.weights)
    log_c = float(log_normalizer_derivatives(fit.tau, problem.kappa).value)
    return n, loss + n * (log_c - math.log(fit.z[-1]))
