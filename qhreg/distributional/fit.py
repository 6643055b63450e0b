r"""The fit of location, scale and asymmetry regressions by maximum likelihood.

The start is the fit with one scale and one asymmetry, whose global maximum :func:`qhreg.solver.solve`
searches for, so that the result is never below it. From there damped Newton steps climb.
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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.certificate.biconvexity import KAPPA_STAR
from qhreg.distributional.ascent import (
    SCALE_RANGE,
    STATIONARY,
    Ascent,
    ascend,
    crossed,
    exact_location,
    location_gap,
    negative_loglike,
)
from qhreg.distributional.coordinates import Coordinates, coordinates
from qhreg.distributional.likelihood import BLOCKS, Regression, evaluate
from qhreg.exceptions import (
    BoundaryWarning,
    ConvergenceWarning,
    DomainError,
    RankWarning,
    warn_caller,
)
from qhreg.family.distribution import quantile_huber
from qhreg.solver import Solution, solve
from qhreg.solver.dual import GAP_TOLERANCE, TINY_KAPPA
from qhreg.solver.fixed_tau import WIDER
from qhreg.specification.parameters import RowLaw, positions

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


def solve_distributional(
    data: Regression,
    *,
    start: FloatArray | None = None,
    n_starts: int = 1,
    rng: Any = 0,
    search: bool | None = None,
) -> DistributionalSolution:
    """Return the maximum-likelihood fit of location, scale and asymmetry.

    Parameters
    ----------
    data : Regression
        The data.
    start : ndarray, optional
        Parameters to start from besides the fit with one scale and one asymmetry.
    n_starts : int
        Number of starting points; those beyond the first are random.
    rng : int, Generator or None
        Source of the random starting points, as in ``numpy.random.default_rng``.
    search : bool, optional
        As in :func:`qhreg.solver.solve`, for the starting fit.

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
    >>> from qhreg.specification.observations import Observations
    >>> x = np.linspace(-1.0, 1.0, 201)
    >>> exog = np.column_stack([np.ones_like(x), x])
    >>> endog = 1.0 + x + np.exp(x) * np.sin(300.0 * x)
    >>> rows = Observations(exog, endog)
    >>> fit = solve_distributional(Regression(rows, exog, np.ones((201, 1)), 1.0))
    >>> fit.converged, bool(fit.loglike > fit.start.loglike)
    (True, True)
    """
    if isinstance(n_starts, bool) or int(n_starts) != n_starts or n_starts < 1:
        raise DomainError(f"n_starts must be a positive whole number, got {n_starts!r}")
    counted = np.ones(len(data.endog)) if data.weights is None else data.weights
    used = data if counted.all() else data.take(counted > 0.0)
    with one_blas_thread(used.endog.size * max(used.size, 1)):
        first = common_fit(used, search)
        place = coordinates(used, first.beta, first.sigma)
        points = [place.constant(first.sigma, first.tau)]
        if crossed(place.data, points[0]) is not None:  # no columns span a constant
            points[0] = np.zeros(place.data.size)
        if start is not None:
            points.append(place.inner(start))
            outside = crossed(place.data, points[1])
            if outside is not None:
                raise DomainError(f"start_params put the {outside} of some rows outside its limits")
        ends = [_climb(place.data, point) for point in points]
        generator = np.random.default_rng(rng)
        while len(ends) < n_starts:
            best = min(ends, key=lambda end: end.value)
            ends.append(_another(place.data, best, generator))
    for name, basis in zip(BLOCKS, place.bases, strict=True):
        if basis.dependent:
            columns = data.names[data.block(name)] or range(len(basis.back))
            told = ", ".join(str(columns[j]) for j in basis.dependent)
            warn_caller(
                f"column(s) {told} of the {name} are linear combinations of earlier ones; the "
                "coefficients returned are the shortest ones with the same fitted values",
                RankWarning,
            )
    return _report(place, ends, first)


def common_fit(data: Regression, search: bool | None = None) -> Solution:
    """Return the fit with one scale and one asymmetry."""
    # known predictors that differ from row to row have their mean here, where the climb starts
    fixed_sigma = None if data.sizes[1] else math.exp(np.mean(data.log_sigma))
    fixed_tau = None if data.sizes[2] else float(special.expit(np.mean(data.logit_tau)))
    obs = data.observations
    with warnings.catch_warnings():
        # what this fit could complain of is said again about the final one
        for category in (RankWarning, BoundaryWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        return solve(
            obs.exog,
            obs.endog,
            kappa=data.kappa,
            tau=fixed_tau,
            sigma=fixed_sigma,
            tau_bounds=data.tau_bounds,
            weights=obs.case_weights,
            offset=obs.offset,
            search=search,
            reml=False,
        )


def _another(data: Regression, best: Ascent, rng: np.random.Generator) -> Ascent:
    """Return the end of a climb from a random point, about a unit away in the predictors of each row."""
    step = rng.standard_normal(data.size) / np.sqrt(np.repeat(data.sizes, data.sizes))
    for shrink in 2.0 ** -np.arange(20.0):
        point = best.params + shrink * step
        if crossed(data, point) is None:
            return settle(data, point)
    return best


def _climb(data: Regression, start: FloatArray) -> Ascent:
    """Return the end of the climb from one starting point, never below it.

    A narrow zone has few rows to show the curvature: a second climb then comes down from the widest zone
    with which the linear model's likelihood is biconvex, as long as the zone holds more rows than there
    are coefficients. Either can end in the lower of two maxima.
    """
    ends, point, width = [settle(data, start)], start, KAPPA_STAR
    while width > WIDER * data.kappa:
        wide = replace(data, kappa=width)
        point, width = ascend(wide, point, tol=1e-3).params, width / WIDER
        if evaluate(wide, point).inside.sum() <= data.size:
            break
    if point is not start:
        ends.append(settle(data, point))
    best = min(ends, key=lambda end: end.value)
    return replace(best, iterations=sum(end.iterations for end in ends))


def settle(data: Regression, start: FloatArray, held: tuple[str, ...] = ()) -> Ascent:
    """Return the end of the climb at the final width with its gap, blocks at their limits held there.

    Where the gradient does not lead to the best location, steps alternate with exact locations.

    Parameters
    ----------
    data : Regression
        The data, in coordinates of :mod:`qhreg.distributional.coordinates`.
    start : ndarray
        Where to start.
    held : tuple of str
        Blocks that stay as they are.
    """
    tolerance, corner = GAP_TOLERANCE * data.observations.weight_sum, data.kappa <= TINY_KAPPA
    rest = [name for name in BLOCKS[1:] if name not in held]
    every = rest if corner else ["location", *rest]
    end, gap, steps = ascend(data, start, blocks=every), math.inf, 0
    for _ in range(ROUNDS):
        steps += end.iterations
        if end.blocked is not None and end.blocked not in held:
            again = settle(data, end.params, (*held, end.blocked))
            return replace(again, iterations=steps + again.iterations)
        gap = math.inf if corner else location_gap(data, end.params)
        if gap <= tolerance and end.score_norm <= STATIONARY:
            break
        better = exact_location(data, end.params)
        gained = end.value - negative_loglike(data, evaluate(data, better.params))
        gap = min(gap, better.gap + max(gained, 0.0))
        if gap <= tolerance and end.score_norm <= STATIONARY:
            break
        after = ascend(data, better.params, blocks=rest)
        if not corner and after.blocked is None:
            after = ascend(data, after.params, blocks=every)
            if after.score_norm > STATIONARY:  # the gap has to speak for the location
                after = ascend(data, after.params, blocks=rest)
        if not after.value < end.value:
            break
        end, gap = after, math.inf
    proved = gap <= tolerance and end.score_norm <= STATIONARY
    return replace(end, gap=gap, held=held, iterations=steps, proved=proved)


def _report(place: Coordinates, ends: list[Ascent], first: Solution) -> DistributionalSolution:
    """Return the best fit in the units of the data, with a warning where there is reason for one."""
    best, data = min(ends, key=lambda end: end.value), place.data
    n = place.given.observations.weight_sum
    shift = n * math.log(place.unit)
    params = place.outer(best.params)
    reason = "stationary"
    if best.held:
        reason = " and ".join(_HELD[name] for name in best.held)
        warn_caller(f"{reason}; it stops there. Use fewer of its columns", BoundaryWarning)
    elif not best.stationary:
        reason = (
            f"the gradient is {best.score_norm:.2g} standard errors long, the location's duality gap "
            f"{best.gap:.2g}: not stationary"
        )
        advice = "Give the columns similar units, or use fewer of sigma and tau"
        warn_caller(f"the fit did not converge: {reason}. {advice}", ConvergenceWarning)
    state = evaluate(data, best.params)
    return DistributionalSolution(
        params,
        best.value + shift,
        best.score_norm,
        best.gap,
        best.curvature,
        best.stationary,
        best.proved,
        reason,
        best.held,
        {name: basis.dependent for name, basis in zip(BLOCKS, place.bases, strict=True)},
        int(np.count_nonzero(state.inside)),
        sum(end.iterations for end in ends),
        n,
        first,
        tuple(-(end.value + shift) for end in ends),
    )


_HELD = {
    "scale": (
        f"sigma ran {SCALE_RANGE:g} times away from its common value in some rows, where the likelihood "
        "may be unbounded"
    ),
    "tau": "tau reached its bound in some rows, whose noise lies on one side",
}


# ---------------------------------------------------------------------- the model as numbers


class DistributionalData(Regression):
    """A distributional model as numbers, with what the bootstrap and simulations ask of a model."""

    free = ("beta",)

    def column(self, param: str | int) -> int:
        """Return where a coefficient stands among the parameters."""
        (place,) = positions(param, self.names)
        return place

    def law(self, solution: DistributionalSolution) -> RowLaw:
        """Return the law of the rows in a fit."""
        return self.law_at(solution.params)

    def law_at(self, params: FloatArray) -> RowLaw:
        """Return the law of the rows at given parameters."""
        location, log_sigma, logit_tau = self.predictors(params)
        return RowLaw(location, np.exp(log_sigma), special.expit(logit_tau), self.kappa)

    def standardized(self, solution: DistributionalSolution) -> tuple[FloatArray, float, float]:
        r"""Return residuals brought to one law, and tau and kappa of that law.

        .. math:: F_{\bar\tau}^{-1}\big(F_{\tau_i}(u_i)\big)

        with the mean asymmetry :math:`\bar\tau`: their quantile residuals (Dunn & Smyth 1996) on the
        scale of the family. With one tau they are the standardised residuals.
        """
        law = self.law(solution)
        u = (self.observations.endog - law.location) / law.sigma
        tau = float(np.average(law.tau, weights=self.observations.case_weights))
        if float(np.ptp(law.tau)) == 0.0:
            return u, tau, self.kappa
        lower = quantile_huber.ppf(quantile_huber.cdf(u, law.tau, self.kappa), tau, self.kappa)
        upper = quantile_huber.isf(quantile_huber.sf(u, law.tau, self.kappa), tau, self.kappa)
        return np.where(u < 0.0, lower, upper), tau, self.kappa

    def compared_with(self, solution: DistributionalSolution) -> DistributionalData:
        """Return the model with the criterion of a fit: itself, by maximum likelihood."""
        return self

    def fit(
        self,
        start: DistributionalSolution,
        held: Mapping[str, Any] | None = None,
        search: bool | None = False,
    ) -> DistributionalSolution:
        """Return the fit from a near one."""
        return solve_distributional(self, start=start.params, search=search)

    def is_fixed(self, param: str | int) -> bool:
        """Return whether a constraint leaves a parameter one value: there are none."""
        return False

    def expand(self, params: FloatArray) -> FloatArray:
        """Return the coefficients of the whole model: themselves."""
        return params

    def vector(self, solution: DistributionalSolution) -> FloatArray:
        """Return the estimated parameters of a fit as one vector."""
        return solution.params
