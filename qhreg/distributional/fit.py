r"""The fit of location, scale and asymmetry regressions by maximum likelihood.

The start is the fit with one scale and one asymmetry, whose global maximum :func:`qhreg.solver.solve`
searches for, so that the result is never below it. From there Newton steps in a trust region climb.
For a small kappa the loss has corners or nearly so: the climb then comes down from wider zones, and
alternates with exact fits of the location, which are convex problems.

The likelihood can have several maxima. What a result proves is stationarity: no Fisher-scoring step
moves any parameter by more than a millionth of a standard error (QH-55), and the location is globally
optimal for its scales and asymmetries by its duality gap (QH-54). Where kappa is so small that the
gradient in the location is not defined to that accuracy, the gap alone speaks for it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.distributional.ascent import (
    STATIONARY,
    Ascent,
    Limits,
    ascend,
    negative_loglike,
    standard_directions,
)
from qhreg.distributional.coordinates import Coordinates, coordinates
from qhreg.distributional.likelihood import BLOCKS, Coefficients, Regression, evaluate
from qhreg.distributional.location import exact_location, location_gap
from qhreg.exceptions import (
    BoundaryWarning,
    ConvergenceWarning,
    DomainError,
    RankWarning,
    warn_caller,
)
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA
from qhreg.solver.threads import one_blas_thread

__all__ = ["DistributionalSolution", "common_fit", "solve_distributional", "widened"]


WIDE = 0.25
"""Width of the zone from which the climb needs no wider zones first."""

NARROWING = 4.0
"""Factor between the widths of the zone on the way down to a small one."""

SCALE_RANGE = 1e8
"""How many times smaller or larger than the common scale that of a row may become."""

LIKE_SCALES = 100.0
"""Ratio of the largest to the smallest scale up to which one set of columns serves all rows."""

ROUNDS = 60
"""Alternations between exact locations and climbs of the rest."""


@dataclass(frozen=True)
class DistributionalSolution:
    """A fitted regression of location, scale and asymmetry.

    Attributes
    ----------
    params : ndarray, shape (p + q + r,)
        Coefficients of the location, of log sigma and of logit tau.
    value : float
        Negative log-likelihood.
    score_norm : float
        Length of the gradient: how many standard errors a Fisher-scoring step would move. Blocks that
        are held have no part in it.
    location_gap : float
        By how much another location could raise the log-likelihood, the scales and asymmetries
        given: an upper bound.
    curvature : float
        Smallest eigenvalue of the observed relative to the expected information; positive at a
        strict local maximum. At kappa = 0 that of the scale and tau blocks.
    converged : bool
        Whether stationarity was proved: that of all blocks, none of them held.
    rest_stationary : bool
        Whether stationarity of the blocks that are not held was proved.
    reason : str
        Why the fit ended.
    held : tuple of str
        Blocks that ran into the limits of their predictor and were held there.
    dependent : dict
        For each block the columns that are combinations of earlier ones.
    rows_in_zone, iterations : int
        Rows in the quadratic zone; steps taken.
    n : float
        Sum of the case weights.
    start : Solution
        The fit with one scale and one asymmetry.
    starts : tuple of float
        Log-likelihood reached from each starting point.
    """

    params: FloatArray
    value: float
    score_norm: float
    location_gap: float
    curvature: float
    converged: bool
    rest_stationary: bool
    reason: str
    held: tuple[str, ...]
    dependent: dict[str, tuple[int, ...]]
    rows_in_zone: int
    iterations: int
    n: float
    start: Solution
    starts: tuple[float, ...]

    @property
    def loglike(self) -> float:
        """The log-likelihood."""
        return -self.value

    @property
    def rank(self) -> int:
        """Rank of the regressors of the location."""
        return self.start.rank

    @property
    def tau_at_bound(self) -> bool:
        """Whether a scale or an asymmetry ran to its limit and is held there."""
        return bool(self.held)


@dataclass(frozen=True)
class _End:
    """Where one climb ended, in the solver's coordinates."""

    params: FloatArray
    value: float
    score_norm: float
    gap: float
    curvature: float
    held: tuple[str, ...]
    iterations: int
    exact: bool

    @property
    def rest_stationary(self) -> bool:
        """Whether the blocks that are not held are."""
        return self.score_norm <= STATIONARY and self.exact

    @property
    def stationary(self) -> bool:
        return self.rest_stationary and not self.held


def solve_distributional(
    data: Regression,
    *,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    start: Coefficients | None = None,
    n_starts: int = 1,
    rng: Any = 0,
    search: bool | None = None,
    names: Sequence[str] | None = None,
) -> DistributionalSolution:
    """Return the maximum-likelihood fit of location, scale and asymmetry.

    Parameters
    ----------
    data : Regression
        The data.
    tau_bounds : (float, float)
        Range of the asymmetry of every row.
    start : Coefficients, optional
        Where to start besides the fit with one scale and one asymmetry.
    n_starts : int
        Number of starting points; those beyond the first are random.
    rng : int, Generator or None
        Source of the random starting points, as in ``numpy.random.default_rng``.
    search : bool, optional
        As in :func:`qhreg.solver.solve`, for the starting fit.
    names : sequence of str, optional
        Names of the parameters, for messages.

    Returns
    -------
    DistributionalSolution
        The best of the fits. `converged` is True only where stationarity was proved.

    Warns
    -----
    RankWarning
        Columns are linearly dependent; the coefficients are the shortest ones.
    BoundaryWarning
        A scale or an asymmetry ran to its limit.
    ConvergenceWarning
        Stationarity was not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.distributional.fit import solve_distributional
    >>> from qhreg.distributional.likelihood import Regression
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> exog = np.column_stack([np.ones_like(x), x])
    >>> endog = 1.0 + x + np.exp(x) * np.sin(300.0 * x)
    >>> fit = solve_distributional(Regression(endog, exog, exog, np.ones((201, 1)), 1.0))
    >>> fit.converged, bool(fit.loglike > fit.start.loglike)
    (True, True)
    """
    if isinstance(n_starts, bool) or int(n_starts) != n_starts or n_starts < 1:
        raise DomainError(f"n_starts must be a positive whole number, got {n_starts!r}")
    weighted = data.weights is not None and bool((data.weights == 0.0).any())
    used = data.take(data.weights > 0.0) if weighted and data.weights is not None else data
    with one_blas_thread(used.endog.size * max(used.size, 1)):
        first = common_fit(used, tau_bounds, search)
        place = coordinates(used, first.beta, first.sigma)
        limits = _limits(tau_bounds)
        point = _first_point(place, first, limits)
        ends = [_recentred(place, _climb(place.data, point, limits), limits)]
        if start is not None:
            given = _given_point(place, start, limits)
            ends.append(_recentred(place, _climb(place.data, given, limits), limits))
        generator = np.random.default_rng(rng)
        while len(ends) < n_starts:
            ends.append(_another(place, ends, limits, generator))
    for name, basis in zip(BLOCKS, place.bases, strict=True):
        if basis.dependent:
            _warn_dependent(
                name, basis.dependent, None if names is None else names[data.block(name)]
            )
    return _report(ends, first)


def widened(
    data: Regression,
    params: FloatArray,
    held: tuple[str, ...],
    tau_bounds: tuple[float, float],
) -> FloatArray:
    """Return the maximum from parameters of a narrower zone, in the coordinates of the data.

    Parameters
    ----------
    data : Regression
        The data, in coordinates of :mod:`qhreg.distributional.coordinates`.
    params : ndarray
        Where to start.
    held : tuple of str
        Blocks that stay as they are.
    tau_bounds : (float, float)
        Range of the asymmetry of every row.
    """
    blocks = [name for name in BLOCKS if name not in held]
    return _alternate(data, params, _limits(tau_bounds), blocks)[0].params


def common_fit(
    data: Regression, tau_bounds: tuple[float, float], search: bool | None = None
) -> Solution:
    """Return the fit with one scale and one asymmetry."""
    # known predictors that differ from row to row have their mean here, where the climb starts
    fixed_sigma = None if data.sizes[1] else math.exp(np.mean(data.log_sigma))
    fixed_tau = None if data.sizes[2] else 1.0 / (1.0 + math.exp(-np.mean(data.logit_tau)))
    with warnings.catch_warnings():
        # what this fit could complain of is said again about the final one
        for category in (RankWarning, BoundaryWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        return solve(
            data.location,
            data.endog,
            kappa=data.kappa,
            tau=fixed_tau,
            sigma=fixed_sigma,
            tau_bounds=tau_bounds,
            weights=data.weights,
            offset=data.offset,
            search=search,
            reml=False,
        )


def _limits(tau_bounds: tuple[float, float]) -> Limits:
    far = math.log(SCALE_RANGE)
    low, high = (math.log(t) - math.log1p(-t) for t in tau_bounds)
    # a common tau on its bound must not be outside by rounding
    slack = 1e-9
    return Limits((-far, far), (low - slack, high + slack))


def _first_point(place: Coordinates, first: Solution, limits: Limits) -> FloatArray:
    """Return the common fit, or the middle of the limits where no columns span a constant."""
    point = place.constant(first.sigma, first.tau)
    return point if limits.crossed(place.data, point) is None else np.zeros(place.data.size)


def _given_point(place: Coordinates, start: Coefficients, limits: Limits) -> FloatArray:
    point = place.inner(start)
    crossed = limits.crossed(place.data, point)
    if crossed is not None:
        raise DomainError(f"start_params put the {crossed} of some rows outside its limits")
    return point


def _another(
    place: Coordinates,
    ends: list[tuple[Coordinates, _End]],
    limits: Limits,
    rng: np.random.Generator,
) -> tuple[Coordinates, _End]:
    """Return the end of a climb from a random point near the best one so far.

    In turn a few standard errors away, where a small kappa makes maxima that lie close together, and
    half a unit away in the predictors of each row.
    """
    where, best = min(ends, key=lambda pair: pair[1].value)
    data = where.data
    near = standard_directions(data, best.params) if len(ends) % 2 else None
    for shrink in 2.0 ** -np.arange(20.0):
        if near is None:
            step = _spread(data) * rng.standard_normal(data.size)
        else:
            step = 2.0 * (near @ rng.standard_normal(near.shape[1]))
        point = best.params + shrink * step
        if limits.crossed(data, point) is None:
            return _recentred(where, _settle(data, point, limits), limits)
    return where, best


def _spread(data: Regression) -> FloatArray:
    """Return the standard deviations that move the predictors of the rows by about half a unit."""
    spread = np.empty(data.size)
    for name in BLOCKS:
        place = data.block(name)
        spread[place] = 0.5 / math.sqrt(max(place.stop - place.start, 1))
    return spread


def _climb(data: Regression, start: FloatArray, limits: Limits) -> _End:
    """Return the end of the climb from one starting point, never below it."""
    if data.kappa >= WIDE:
        return _settle(data, start, limits)
    width, point = 1.0, start
    while width > max(NARROWING * data.kappa, 1e-4):
        point = ascend(replace(data, kappa=width), point, limits, max_steps=30).params
        width /= NARROWING
    # either way can end in the lower one of two maxima
    ends = [_settle(data, point, limits), _settle(data, start, limits)]
    best = min(ends, key=lambda end: end.value)
    return replace(best, iterations=sum(end.iterations for end in ends))


def _settle(data: Regression, start: FloatArray, limits: Limits) -> _End:
    """Return the end of the climb at the final width, blocks at their limits held there."""
    held: tuple[str, ...] = ()
    point, iterations = start, 0
    while True:
        blocks = [name for name in BLOCKS if name not in held]
        found, exact = _alternate(data, point, limits, blocks)
        iterations += found.iterations
        if found.blocked is None or found.blocked in held:
            break
        held, point = (*held, found.blocked), found.params
    gap = location_gap(data, found.params)
    if data.kappa <= TINY_KAPPA or not gap <= GAP_TOLERANCE * data.endog.size:
        gap = min(gap, exact_location(data, found.params).gap)
    exact = exact and gap <= GAP_TOLERANCE * data.endog.size
    return _End(
        found.params, found.value, found.score_norm, gap, found.curvature, held, iterations, exact
    )


def _alternate(
    data: Regression, start: FloatArray, limits: Limits, blocks: list[str]
) -> tuple[Ascent, bool]:
    """Return the end of climbs alternating with exact locations, and whether the latter is proved."""
    rest = [name for name in blocks if name != "location"]
    corner = data.kappa <= TINY_KAPPA
    found = ascend(data, start, limits, blocks=rest if corner else blocks)
    if not corner and (found.score_norm <= STATIONARY or found.blocked is not None):
        return found, True
    value, steps = math.inf, found.iterations
    for _ in range(ROUNDS):
        better = exact_location(data, found.params)
        gained = found.value - negative_loglike(data, evaluate(data, better.params))
        tolerance = GAP_TOLERANCE * data.endog.size
        proved = better.gap <= tolerance and gained <= tolerance
        if corner and proved and found.score_norm <= STATIONARY:
            return replace(found, iterations=steps), True
        found = ascend(data, better.params, limits, blocks=rest)
        steps += found.iterations
        if not corner and found.blocked is None:
            found = ascend(data, found.params, limits, blocks=blocks, max_steps=50)
            steps += found.iterations
            if found.score_norm <= STATIONARY:
                return replace(found, iterations=steps), True
        if found.blocked is not None or not found.value < value:
            break
        value = found.value
    better = exact_location(data, found.params)
    gained = found.value - negative_loglike(data, evaluate(data, better.params))
    proved = max(better.gap, gained) <= GAP_TOLERANCE * data.endog.size
    found = ascend(data, found.params, limits, blocks=rest)
    return replace(found, iterations=steps + found.iterations), proved


def _recentred(place: Coordinates, end: _End, limits: Limits) -> tuple[Coordinates, _End]:
    """Return the end of a climb, continued in coordinates for its own scales where they differ much."""
    _, log_sigma, _ = place.data.predictors(end.params)
    if end.stationary and float(np.ptp(log_sigma)) < math.log(LIKE_SCALES):
        return place, end
    made = place.recentred(end.params)
    if made is None:
        return place, end
    again = _settle(made[0].data, made[1], limits)
    better = again.value <= end.value or (again.stationary and not end.stationary)
    return (made[0], again) if better else (place, end)


def _report(ends: list[tuple[Coordinates, _End]], first: Solution) -> DistributionalSolution:
    """Return the best fit in the units of the data, with a warning where there is reason for one."""
    place, best = min(ends, key=lambda pair: pair[1].value)
    given, data = place.given, place.data
    n = float(given.endog.size if given.weights is None else given.weights.sum())
    per_row = n / data.endog.size
    shift = n * math.log(place.unit)
    params = place.outer(best.params)
    reason = "stationary"
    if best.held:
        reason = " and ".join(_HELD[name] for name in best.held)
        warn_caller(f"{reason}; it stops there. Use fewer of its columns", BoundaryWarning)
    elif not best.stationary:
        reason = (
            f"the gradient is {best.score_norm:.2g} standard errors long, the location's duality gap "
            f"{per_row * best.gap:.2g}: not stationary"
        )
        advice = "Give the columns similar units, or use fewer of sigma and tau"
        warn_caller(f"the fit did not converge: {reason}. {advice}", ConvergenceWarning)
    state = evaluate(data, best.params)
    return DistributionalSolution(
        params,
        per_row * best.value + shift,
        best.score_norm,
        per_row * best.gap,
        best.curvature,
        best.stationary,
        best.rest_stationary,
        reason,
        best.held,
        {name: basis.dependent for name, basis in zip(BLOCKS, place.bases, strict=True)},
        int(np.count_nonzero(state.inside)),
        sum(end.iterations for _, end in ends),
        n,
        first,
        tuple(-(per_row * end.value + shift) for _, end in ends),
    )


_HELD = {
    "scale": (
        f"sigma ran {SCALE_RANGE:g} times away from its common value in some rows, where the likelihood "
        "may be unbounded"
    ),
    "tau": "tau reached its bound in some rows, whose noise lies on one side",
}


def _warn_dependent(name: str, dependent: tuple[int, ...], names: Sequence[str] | None) -> None:
    columns = [str(j) if names is None else names[j] for j in dependent]
    warn_caller(
        f"column(s) {', '.join(columns)} of the {name} are linear combinations of earlier ones; the "
        "coefficients returned are the shortest ones with the same fitted values",
        RankWarning,
    )
