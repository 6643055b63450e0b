r"""Robust intervals that invert the score test, and so need no standard error.

A Wald interval with a sandwich covariance divides by the curvature of the likelihood at the fit. With
skewed noise that curvature is nearly singular and its estimate noisy: intervals are then far too short
in some samples and far too long in others. The score test of one value takes its variance from the
scores themselves; only the curvature of the other parameters enters
(:mod:`qhreg.inference.robust_score`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import optimize, special

from qhreg._typing import FloatArray
from qhreg.covariance.scores import Fitted, Point
from qhreg.exceptions import CurvatureWarning, DataError, DomainError, warn_caller
from qhreg.family.domain import check_alpha
from qhreg.inference.robust_score import ScoreVariance, robust_score_root
from qhreg.profile.fits import Curve, ProfilePoint, curve_of
from qhreg.solver import Solution
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.model_data import ModelData

__all__ = ["SANDWICHES", "robust_score_root", "score_intervals"]


SANDWICHES = ("HC0", "HC1", "cluster", "HAC")
"""Types of dependence that the variance of the score can allow for."""

FIRST, GROWTH = 0.7, 1.25
"""First step away from the estimate, in standard errors, and the factor by which steps grow until the
test rejects: short ones, because far from the estimate the test may lose its power again."""

FARTHEST = 40
"""Steps after which an interval is taken to be unbounded: it is then 2e4 standard errors long."""

LARGEST_LOG = 700.0
"""Logarithm beyond which sigma is no floating point number: the interval is open there."""


def _known(data: ModelData, found: ProfilePoint, param: str | int) -> tuple[str, ...]:
    """Return the parameters that ended on a bound: their scores are not zero."""
    low, high = data.tau_bounds
    names = []
    if param != "tau" and data.space.tau is None and not low < found.tau < high:
        names.append("tau")
    if param != "kappa" and data.space.kappa is None and found.kappa == 0.0:
        names.append("kappa")
    return tuple(names)


@dataclass(frozen=True)
class _Scale:
    """Where a limit is searched: the logarithm of sigma, the logit of tau, all others as they are."""

    name: str | int

    def forward(self, value: float) -> float:
        if self.name == "sigma":
            return math.log(value)
        if self.name == "tau":
            return math.log(value) - math.log1p(-value)
        return value

    def back(self, t: float) -> float:
        if self.name == "sigma":
            return math.exp(t)
        if self.name == "tau":
            return float(special.expit(t))
        return t

    def has(self, t: float) -> bool:
        """Return whether a floating point number stands at t."""
        return abs(t) < LARGEST_LOG if self.name == "sigma" else math.isfinite(t)

    def step(self, value: float, se: float) -> float:
        """Return the standard error at a value on this scale, or something of its order."""
        if self.name == "tau":
            return se / (value * (1.0 - value)) if se > 0.0 else 0.5
        if self.name == "sigma":
            return se / value if se > 0.0 else 0.1
        return se if se > 0.0 else 0.1 * max(abs(value), 1e-3)


def _limit(
    at: Callable[[float], float],
    scale: _Scale,
    start: float,
    step: float,
    last: float,
    cut: float,
) -> float:
    """Return where beyond `start` the statistic first reaches the cut; `last` if nowhere.

    It is below the cut at `start`.
    """
    inner, length = start, step
    for _ in range(FARTHEST):
        outer = inner + length
        ended = (outer >= last) if step > 0.0 else (outer <= last)
        outer = last if ended else outer
        if not scale.has(outer):
            break
        try:
            rejected = at(outer) >= cut
        except DataError:  # no fit is to be had so far away
            break
        if rejected:
            precision = 1e-3 * abs(step)
            return float(
                optimize.brentq(lambda t: at(t) - cut, inner, outer, xtol=precision, rtol=1e-12)
            )
        if ended:
            break
        inner, length = outer, GROWTH * length
    return last


def score_intervals(
    data: ModelData,
    solution: Solution,
    *,
    alpha: float = 0.05,
    cov_type: str = "HC1",
    search: bool | None = None,
    params: list[str | int] | None = None,
    **options: Any,
) -> FloatArray:
    """Return intervals of all estimated parameters from robust score tests, shape (size, 2).

    Parameters
    ----------
    data : ModelData
        The model.
    solution : Solution
        Its fit.
    alpha : float
        One minus the nominal coverage.
    cov_type : {"HC0", "HC1", "cluster", "HAC"}
        Which dependence of the rows the variance of the score allows for.
    search : bool or None
        Whether every fit searches the whole range of tau; None does so up to 500 rows.
    params : list, optional
        Only these parameters: columns or names.
    **options
        ``groups``, ``maxlags``, ``kernel`` and ``use_correction``, as in
        :func:`qhreg.covariance.covariance`.

    Returns
    -------
    ndarray, shape (size, 2)
        Limits; infinite where no value is rejected on a side without a bound.

    Notes
    -----
    The interval ends on each side at the first value at which :func:`robust_score_root` leaves the
    quantiles of the standard normal law. Every value needs a fit of the other parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.model_data import model_data
    >>> from qhreg.profile.score_intervals import score_intervals
    >>> from qhreg.solver import solve
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.ones((200, 1)), rng.standard_t(3, size=200)
    >>> print(score_intervals(model_data(X, y), solve(X, y), params=["tau"]).round(2))
    [[0.48 0.66]]
    """
    if cov_type not in SANDWICHES:
        raise DomainError(f"cov_type must be one of {', '.join(SANDWICHES)}; got {cov_type!r}")
    check_alpha(alpha)
    obs, space = data.observations, data.space
    every: list[str | int] = [*range(space.k), *space.extra_names]
    chosen = every if params is None else params
    weights = row_weights(obs.freq_weights, obs.weights, obs.endog.size)
    n_params = solution.rank + len(space.extra_names)
    variance = ScoreVariance(cov_type, weights, n_params, **options)
    steps = _steps(data, solution, every)
    limits = np.empty((len(chosen), 2))
    with one_blas_thread(obs.exog.size):
        for i, param in enumerate(chosen):
            column = data.column(param)
            name: str | int = str(param) if column is None else column
            j = every.index(name)
            curve = curve_of(data, solution, name, search=search)
            limits[i] = _interval(data, solution, curve, name, j, steps[j], variance, alpha)
    return limits


def _value(fit: Fitted, name: str | int) -> float:
    return float(fit.beta[name] if isinstance(name, int) else getattr(fit, name))


def _steps(data: ModelData, solution: Solution, names: list[str | int]) -> list[float]:
    """Return standard errors, each on its scale, from the expected information: rough, never wild.

    With tau on a bound those at tau = 1/2: sigma is nearly zero on the bound, and steps in proportion
    would not leave the neighbourhood of the fit, in which tau counts as known. Those of the others are
    with kappa known, and that of kappa is at most kappa: where any larger one fits as well, the
    information about it is nearly zero.
    """
    obs = data.observations
    fit: Fitted = solution
    if solution.tau_at_bound:
        found = curve_of(data, solution, "tau", search=False)(0.5)
        fit = Point(found.beta, found.sigma, found.tau, found.kappa)
    cases = obs.case_weights
    if cases is not None:
        cases = cases * (obs.nobs / float(cases.sum()))

    def errors(free: tuple[str, ...]) -> list[float]:
        made = covariance(
            "nonrobust",
            obs.exog,
            obs.endog,
            fit,
            free=free,
            freq_weights=cases,
            offset=obs.offset,
        )
        return [math.sqrt(variance) for variance in made.cov.diagonal()]

    every = errors(tuple(name for name in data.space.free if name != "kappa"))
    if "kappa" in data.space.free:
        every.append(min(errors(data.space.free)[-1], fit.kappa if fit.kappa > 0.0 else math.inf))
    return [_Scale(name).step(_value(fit, name), se) for name, se in zip(names, every, strict=True)]


def _interval(
    data: ModelData,
    solution: Solution,
    curve: Curve,
    name: str | int,
    j: int,
    step: float,
    variance: ScoreVariance,
    alpha: float,
) -> tuple[float, float]:
    """Return the limits of one parameter."""
    scale, free = _Scale(name), data.space.free
    estimate = _value(solution, name)
    cut, step = float(special.ndtri(1.0 - 0.5 * alpha)), FIRST * step

    @cache  # where several points are the best, another fit may end at another of them
    def root(t: float) -> float:
        found = curve(scale.back(t))
        point = Point(found.beta, found.sigma, found.tau, found.kappa)
        known = _known(data, found, name)
        return robust_score_root(data.observations, point, free, j, variance, known)

    start = scale.forward(estimate)
    if not abs(root(start)) < cut:
        what = f"coefficient {name}" if isinstance(name, int) else name
        warn_caller(
            f"the score of {what} is not zero at the fit, as is possible when kappa = 0 and many rows "
            "are interpolated at once: it has no score interval; kappa > 0 or the bootstrap give one",
            CurvatureWarning,
        )
        return math.nan, math.nan
    low = scale.forward(curve.lower) if curve.lower > 0.0 or name == "kappa" else -math.inf
    high = scale.forward(curve.upper) if math.isfinite(curve.upper) else math.inf
    lower = _limit(root, scale, start, -step, low, cut)
    upper = _limit(lambda t: -root(t), scale, start, step, high, cut)
    # a level profile ends before its parameter does
    least = 0.0 if name == "sigma" and lower == low else scale.back(lower)
    return least, math.inf if name == "kappa" and upper == high else scale.back(upper)
