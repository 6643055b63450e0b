r"""Robust intervals that invert the score test, and so need no standard error.

A Wald interval with a sandwich covariance divides by the curvature of the likelihood at the fit. With
skewed noise that curvature is nearly singular and its estimate noisy: intervals are then far too short
in some samples and far too long in others. The score test of one value takes its variance from the
scores themselves; only the curvature of the other parameters enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from qhreg.covariance import covariance
from qhreg.curvature import RowWeights, row_weights, smoothed_bread
from qhreg.dependence import clustered, group_codes, lags, serial
from qhreg.exceptions import DomainError
from qhreg.information import unit_information
from qhreg.observations import Observations
from qhreg.profile_data import ProfileData
from qhreg.profile_fits import Curve, ProfilePoint, curve_of
from qhreg.scores import Point, checked_sample, evaluated_blocks, score_block
from qhreg.solver import Solution
from qhreg.threads import one_blas_thread

__all__ = ["SANDWICHES", "robust_score_root", "score_intervals"]

FloatArray = npt.NDArray[np.float64]

SANDWICHES = ("HC0", "HC1", "cluster", "HAC")
"""Types of dependence that the variance of the score can allow for."""

FIRST, GROWTH = 0.7, 1.25
"""First step away from the estimate, in standard errors, and the factor by which steps grow until the
test rejects: short ones, because far from the estimate the test may lose its power again."""

FARTHEST = 40
"""Steps after which an interval is taken to be unbounded: it is then 2e4 standard errors long."""


def _effective_scores(
    observations: Observations, point: Point, free: tuple[str, ...], j: int, known: tuple[str, ...]
) -> FloatArray:
    r"""Return :math:`s_{ij} - B_{jn} B_{nn}^{-1} s_{in}`, n the other parameters that were estimated.

    Not weighted; its sum with the weights of the likelihood is the score of parameter j where the
    others are at their best values.
    """
    obs = observations
    names = tuple(name for name in free if name not in known)
    bread = smoothed_bread(
        obs.exog,
        obs.endog,
        point,
        free=names,
        weights=obs.case_weights,
        offset=obs.offset,
        nobs=obs.nobs,
    )
    size = np.sqrt(np.maximum(np.abs(bread.diagonal()), 1e-300))
    others = np.arange(len(bread)) != j
    scaled = bread / np.outer(size, size)
    carry = np.linalg.lstsq(scaled[np.ix_(others, others)], scaled[others, j], rcond=1e-12)[0]
    coefficients = np.ones(len(bread))
    coefficients[others] = -carry * size[j] / size[others]
    # the scores of a block are those at sigma = 1
    k = obs.exog.shape[1]
    coefficients[:k] /= point.sigma
    if "sigma" in names:
        coefficients[k] /= point.sigma
    sample = checked_sample(obs.exog, obs.endog, point, obs.offset)
    unit = unit_information(point.tau, point.kappa)
    effective = np.empty(obs.endog.size)
    for block in evaluated_blocks(sample):
        effective[block.rows] = score_block(block, names, point, unit) @ coefficients
    return effective


@dataclass(frozen=True)
class _Variance:
    """How the variance of a sum of scores is estimated."""

    cov_type: str
    weights: RowWeights
    n_params: int
    groups: Any = None
    maxlags: int | None = None
    kernel: Any = None
    use_correction: bool | None = None

    def __call__(self, effective: FloatArray) -> float:
        w, n = self.weights, self.weights.nobs
        if self.cov_type in ("HC0", "HC1"):
            squares = effective**2
            total = float(squares.sum() if w.squared is None else squares @ w.squared)
            return total * (n / (n - self.n_params) if self.cov_type == "HC1" else 1.0)
        scores = (effective if w.total is None else effective * w.total)[:, None]
        one = np.ones((1, 1))
        if self.cov_type == "cluster":
            codes = group_codes(self.groups, effective.size)
            correct = self.use_correction is not False
            return float(clustered(scores, one, codes, n, correct)[0][0, 0])
        count = lags(self.maxlags, effective.size)
        kernel = self.kernel or "bartlett"
        return float(serial(scores, one, count, kernel, bool(self.use_correction))[0, 0])


def robust_score_root(
    observations: Observations,
    point: Point,
    free: tuple[str, ...],
    j: int,
    variance: Callable[[FloatArray], float] | None = None,
    known: tuple[str, ...] = (),
) -> float:
    r"""Return the signed root of the robust score statistic of one parameter.

    Parameters
    ----------
    observations : Observations
        The data.
    point : Point
        The fit with parameter j held at the value to be tested.
    free : tuple of str
        The estimated parameters, that of j among them.
    j : int
        Position of the tested parameter among the estimated ones.
    variance : callable, optional
        Variance of a sum of scores; by default the sum of their squares, without a factor.
    known : tuple of str
        Parameters to treat as known, such as a tau on its bound.

    Returns
    -------
    float
        Standard normal in large samples when the value is the true one, whatever the noise.

    Notes
    -----
    With :math:`e_i = s_{ij} - B_{jn} B_{nn}^{-1} s_{in}`, in which n are the other estimated parameters
    and B is the smoothed bread, it is :math:`\sum_i w_i e_i / \sqrt{\widehat{\operatorname{var}}
    \sum_i w_i e_i}`. Of the curvature of parameter j itself nothing enters [1]_.

    References
    ----------
    .. [1] D. D. Boos (1992), On generalized score tests, The American Statistician 46, 327-333.
    """
    effective = _effective_scores(observations, point, free, j, known)
    total = observations.case_weights
    score = float(effective.sum() if total is None else effective @ total)
    if variance is None:
        w = row_weights(observations.freq_weights, observations.weights, effective.size)
        variance = _Variance("HC0", w, 0)
    spread = variance(effective)
    return score / math.sqrt(spread) if spread > 0.0 else math.copysign(math.inf, score)


def _known(data: ProfileData, found: ProfilePoint, param: str | int) -> tuple[str, ...]:
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

    def step(self, value: float, se: float) -> float:
        """Return the standard error on this scale, or something of its order."""
        if self.name == "tau":
            return se / (value * (1.0 - value)) if se > 0.0 else 0.5
        if self.name == "sigma":
            return se / value if se > 0.0 else 0.1
        return se if se > 0.0 else 0.1 * max(abs(value), 1e-3)


def _limit(
    at: Callable[[float], float], scale: _Scale, start: float, step: float, last: float, cut: float
) -> float:
    """Return the value beyond `start` at which the statistic first reaches the cut; `last` if never."""

    def excess(t: float) -> float:
        return at(scale.back(t)) - cut

    inner, length = scale.forward(start), step
    for _ in range(FARTHEST):
        outer = inner + length
        ended = (outer >= last) if step > 0.0 else (outer <= last)
        outer = last if ended else outer
        if not math.isfinite(outer):
            break
        if excess(outer) >= 0.0:
            root = optimize.brentq(excess, inner, outer, xtol=1e-3 * abs(step), rtol=1e-12)
            return scale.back(float(root))
        if ended:
            return scale.back(last)
        inner, length = outer, GROWTH * length
    return math.copysign(math.inf, step) if math.isinf(last) else scale.back(last)


def score_intervals(
    data: ProfileData,
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
    data : ProfileData
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
    >>> from qhreg.profile_data import profile_data
    >>> from qhreg.score_intervals import score_intervals
    >>> from qhreg.solver import solve
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.ones((200, 1)), rng.standard_t(3, size=200)
    >>> print(score_intervals(profile_data(X, y), solve(X, y), params=["tau"]).round(2))
    [[0.48 0.66]]
    """
    if cov_type not in SANDWICHES:
        raise DomainError(f"cov_type must be one of {', '.join(SANDWICHES)}; got {cov_type!r}")
    if not 0.0 < alpha < 1.0:
        raise DomainError(f"alpha must satisfy 0 < alpha < 1, got {alpha!r}")
    obs, space = data.observations, data.space
    every: list[str | int] = [*range(space.k), *space.extra_names]
    chosen = every if params is None else params
    weights = row_weights(obs.freq_weights, obs.weights, obs.endog.size)
    n_params = solution.rank + len(space.extra_names)
    variance = _Variance(cov_type, weights, n_params, **options)
    errors = _steps(data, solution)
    limits = np.empty((len(chosen), 2))
    with one_blas_thread(obs.exog.size):
        for i, param in enumerate(chosen):
            column = data.column(param)
            name: str | int = str(param) if column is None else column
            j = every.index(name)
            curve = curve_of(data, solution, name, search=search)
            limits[i] = _interval(data, solution, curve, name, j, errors[j], variance, alpha)
    return limits


def _steps(data: ProfileData, solution: Solution) -> list[float]:
    """Return standard errors from the expected information: rough, but never wild."""
    obs = data.observations
    cases = obs.case_weights
    if cases is not None:
        cases = cases * (obs.nobs / float(cases.sum()))
    made = covariance(
        "nonrobust",
        obs.exog,
        obs.endog,
        solution,
        free=data.space.free,
        freq_weights=cases,
        offset=obs.offset,
    )
    return [float(value) for value in np.sqrt(made.cov.diagonal())]


def _interval(
    data: ProfileData,
    solution: Solution,
    curve: Curve,
    name: str | int,
    j: int,
    se: float,
    variance: _Variance,
    alpha: float,
) -> tuple[float, float]:
    """Return the limits of one parameter."""
    scale, free = _Scale(name), data.space.free
    estimate = float(solution.beta[name] if isinstance(name, int) else getattr(solution, name))
    cut, step = float(special.ndtri(1.0 - 0.5 * alpha)), FIRST * scale.step(estimate, se)

    def root(value: float) -> float:
        found = curve(value)
        point = Point(found.beta, found.sigma, found.tau, found.kappa)
        known = _known(data, found, name)
        return robust_score_root(data.observations, point, free, j, variance, known)

    low = scale.forward(curve.lower) if curve.lower > 0.0 or name == "kappa" else -math.inf
    high = scale.forward(curve.upper) if math.isfinite(curve.upper) else math.inf
    lower = _limit(root, scale, estimate, -step, low, cut)
    upper = _limit(lambda value: -root(value), scale, estimate, step, high, cut)
    return lower, upper
