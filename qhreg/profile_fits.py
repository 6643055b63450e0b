"""Refits along one parameter: the points of a profile likelihood.

Along tau at a given width every point is a convex fit in coordinates that are set up once; its slope
comes with it. Along the other parameters every point is a fit of all others, started from its
neighbours.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg

from qhreg.constraints import Constraint
from qhreg.convex import TINY_KAPPA, TauFit, fit_at, proved_newton
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.inputs import rows_of
from qhreg.kappafit import gaussian_loglike, solve_kappa
from qhreg.kappalocal import climb, kappa_slope, log_width
from qhreg.likelihood import Zone
from qhreg.local import profile_slope, profile_value
from qhreg.newton import newton
from qhreg.preparation import Setup, set_up
from qhreg.profile_data import ProfileData
from qhreg.solver import Solution, solve, start_of, task_of, value_shift
from qhreg.threads import one_blas_thread

__all__ = ["Curve", "ProfilePoint", "TauCurve", "curve_of", "refit"]

FloatArray = npt.NDArray[np.float64]

SEVERAL_BASINS = 500
"""Rows up to which the likelihood is expected to have several basins in tau."""

WIDEST = 1e6
"""Width beyond which the best one is not followed."""

KAPPA_END = 1e4
"""Width at which a profile over kappa ends: zones of 50 standard deviations on each side, or of 100 on
one side, beyond which the normal law and the law that is normal on one side do not change. Much wider
zones would need a tau nearer to 0 or 1 than its bounds."""

SAME_WIDTH = 0.5
"""Difference in log(kappa + 0.01) below which neighbours are taken for the same solution."""

SAME_TAU = 0.05
"""Difference in tau below which they are."""

NEAR = 1.0
"""Share of the distance covered so far within which the best width is followed outwards."""

SAME_LOGLIKE = 1e-7
"""Log-likelihood by which a searched fit must be better to be followed."""

WIDE = 16.0
"""Width beyond which a ridge of widths that fit equally well may begin."""

MANY_ROWS = 5000
"""Rows from which a Hessian is worth keeping from one fit to the next."""


@dataclass(frozen=True)
class ProfilePoint:
    """The best fit with one parameter held.

    Attributes
    ----------
    value : float
        The value of the parameter.
    loglike : float
        The highest log-likelihood over the others.
    slope : float
        Its derivative in the parameter, NaN where it is not known.
    gap : float
        Duality gap of the convex fit at the point's tau.
    beta, sigma, tau, kappa
        The estimates.
    """

    value: float
    loglike: float
    slope: float
    gap: float
    beta: FloatArray
    sigma: float
    tau: float
    kappa: float


class Curve(Protocol):
    """A profile as a function: the parameter's range, and a fit at each value."""

    lower: float
    upper: float

    def __call__(self, value: float) -> ProfilePoint:
        """Return the fit at one value."""
        ...


def refit(
    data: ProfileData, held: dict[str, float], start: Solution | None, *, search: bool | None
) -> Solution:
    """Return the best fit with some of sigma, tau and kappa held at given values.

    Parameters
    ----------
    data : ProfileData
        The model; what it fixes stays fixed.
    held : dict
        Values of sigma, tau or kappa.
    start : Solution or None
        Where to start.
    search : bool or None
        Whether to search the whole range of tau, as in :func:`qhreg.solver.solve`.
    """
    obs, space = data.observations, data.space
    kappa = held.get("kappa", space.kappa)
    options: dict[str, Any] = {
        "tau": held.get("tau", space.tau),
        "sigma": held.get("sigma", space.sigma),
        "tau_bounds": data.tau_bounds,
        "weights": obs.case_weights,
        "offset": obs.offset,
        "start": start,
        "search": search,
    }
    with warnings.catch_warnings():
        # a tau on its bound or dependent columns were told with the fit itself
        warnings.simplefilter("ignore", BoundaryWarning)
        warnings.simplefilter("ignore", RankWarning)
        if kappa is None:
            return solve_kappa(obs.exog, obs.endog, **options).solution
        return solve(obs.exog, obs.endog, kappa=kappa, **options)


@dataclass
class TauCurve:
    """The profile over tau at a given width: convex fits in one set of coordinates."""

    setup: Setup
    start: FloatArray
    size: int
    lower: float
    upper: float
    fits: list[TauFit] = field(default_factory=list)
    zone: Zone | None = None

    def __call__(self, value: float) -> ProfilePoint:
        """Return the convex fit at one tau."""
        problem, n = self.setup.problem, self.setup.problem.n
        fit = next((known for known in self.fits if known.tau == value), None)
        if fit is None:
            with one_blas_thread(self.size):
                fit = self._fit(value, self._predict(value))
            place = int(np.searchsorted([known.tau for known in self.fits], value))
            self.fits.insert(place, fit)
        raw = self.setup.basis.matrix @ fit.z
        sigma = self.setup.scale / float(raw[-1])
        return ProfilePoint(
            value,
            -profile_value(fit, problem) - value_shift(self.setup),
            -n * profile_slope(fit, problem),
            fit.gap,
            -raw[:-1] * sigma,
            sigma,
            value,
            problem.kappa,
        )

    def _fit(self, tau: float, z: FloatArray) -> TauFit:
        """Return the convex fit; with many rows, by Newton's method from the last zone."""
        problem = self.setup.problem
        if problem.kappa <= TINY_KAPPA or problem.n < MANY_ROWS:
            return fit_at(problem, tau, z, warm=True)
        point = newton(problem, z, tau, tau_bounds=None, since=self.zone, tol=1e-9, max_passes=12)
        proved = proved_newton(problem, point)
        if proved is None or not proved.proved(problem.n):
            return fit_at(problem, tau, z, warm=True)
        self.zone = point.objective.zone
        return proved

    def _predict(self, tau: float) -> FloatArray:
        """Return a starting point from up to four neighbours, by polynomial interpolation."""
        if not self.fits:
            return self.start
        near: list[TauFit] = []
        for fit in sorted(self.fits, key=lambda f: abs(f.tau - tau)):
            # neighbours much closer to each other than to tau would extrapolate their rounding
            room = 0.05 * abs(fit.tau - tau)
            if len(near) < 4 and all(abs(fit.tau - other.tau) > room for other in near):
                near.append(fit)
        guess = np.zeros_like(self.start)
        for i, fit in enumerate(near):
            others = [f.tau for j, f in enumerate(near) if j != i]
            share = math.prod((tau - other) / (fit.tau - other) for other in others)
            guess += share * fit.z
        if self.setup.problem.theta is not None:
            guess[-1] = self.setup.problem.theta
        far = tau < self.fits[0].tau or tau > self.fits[-1].tau
        if guess[-1] <= 0.0 or (far and abs(near[0].tau - tau) > 0.1):
            return near[0].z
        return guess


@dataclass
class _RefitCurve:
    """A profile whose points are fits of all other parameters, started from their neighbours."""

    data: ProfileData
    param: str
    lower: float
    upper: float
    search: bool | None
    known: dict[float, Solution]

    def __call__(self, value: float) -> ProfilePoint:
        held = {self.param: value}
        best = best_fit(self.data, held, value, self.known, search=self.search)
        self.known[value] = best
        slope = math.nan
        if self.param == "tau":
            slope = -best.n * best.tau_slope
        elif self.param == "kappa":
            slope = kappa_slope(best)
        return ProfilePoint(
            value, best.loglike, slope, best.gap, best.beta, best.sigma, best.tau, best.kappa
        )


@dataclass
class _CoefficientCurve:
    """The profile over one coefficient: what it explains moves into the offset.

    Holds a copy of the other columns. Under a constraint with coefficients ``T gamma + shift`` the
    coefficient is held by gamma = `basis` delta + `direction` (value - shift), with `basis` orthogonal
    to its row of T.
    """

    rest: ProfileData
    column: int
    moved: FloatArray
    lower: float
    upper: float
    search: bool | None
    known: dict[float, Solution]
    basis: FloatArray | None = None
    direction: FloatArray | None = None
    shift: float = 0.0

    def __call__(self, value: float) -> ProfilePoint:
        obs = self.rest.observations
        offset = (value - self.shift) * self.moved
        if obs.offset is not None:
            offset += obs.offset
        data = replace(self.rest, observations=replace(obs, offset=offset))
        best = best_fit(data, {}, value, self.known, search=self.search)
        self.known[value] = best
        beta = self._restored(best.beta, value)
        return ProfilePoint(
            value, best.loglike, math.nan, best.gap, beta, best.sigma, best.tau, best.kappa
        )

    def _restored(self, rest: FloatArray, value: float) -> FloatArray:
        """Return all coefficients of the regression from the others."""
        if self.basis is None or self.direction is None:
            return np.insert(rest, self.column, value)
        whole: FloatArray = self.basis @ rest + (value - self.shift) * self.direction
        return whole


def best_fit(
    data: ProfileData,
    held: dict[str, float],
    value: float,
    known: dict[float, Solution],
    *,
    search: bool | None,
) -> Solution:
    """Return the best fit at one value of a profile, started from those at other values.

    Parameters
    ----------
    data : ProfileData
        The model.
    held : dict
        Values of sigma, tau or kappa.
    value : float
        Where the profile is asked for.
    known : dict
        Fits by value.
    search : bool or None
        As in `refit`.

    Notes
    -----
    Where kappa is estimated, every fit up to 500 rows looks at the whole range of widths; with more
    rows those far beyond the known ones do, and the others follow the best width from their
    neighbours. So do those next to a wide one, for there may be a ridge of widths that fit equally well.
    """
    if held.get("kappa", data.space.kappa) is not None:
        starts = neighbours(known, value, n_starts(data, search))
        return _best([refit(data, held, start, search=search) for start in starts])
    starts = distinct(known, value)
    if data.observations.endog.size > SEVERAL_BASINS and not _far(known, value):
        return _best([follow(data, held, start, search=search) for start in starts])
    wide = [start for start in starts if start.kappa > WIDE]
    fits = [follow(data, held, start, search=False) for start in wide]
    return _best([*fits, refit(data, held, starts[0], search=search)])


def _best(fits: list[Solution]) -> Solution:
    return max(fits, key=lambda fit: fit.loglike)


def _far(known: dict[float, Solution], value: float) -> bool:
    """Return whether a value lies far beyond the known ones, the first of which is the estimate."""
    if min(known) < value < max(known):
        return False
    nearest = min(known, key=lambda other: abs(other - value))
    return abs(value - nearest) > NEAR * abs(nearest - next(iter(known)))


def follow(
    data: ProfileData, held: dict[str, float], start: Solution, *, search: bool | None
) -> Solution:
    """Return the fit whose width is the local maximum next to that of another fit.

    Parameters
    ----------
    data, held, search
        As in `refit`. The range of tau is searched at the width found, and a better basin is
        followed.
    start : Solution
        The other fit.
    """

    def at(kappa: float, near: Solution, search: bool | None = False) -> Solution:
        return refit(data, {**held, "kappa": kappa}, near, search=search)

    best, curvature = climb(at, at(start.kappa, start), widest=WIDEST)
    if search is False or held.get("tau", data.space.tau) is not None:
        return best
    searched = at(best.kappa, best, search)
    if searched.loglike <= best.loglike + SAME_LOGLIKE:
        return best
    return climb(at, searched, curvature=curvature, widest=WIDEST)[0]


def distinct(known: dict[float, Solution], value: float) -> list[Solution]:
    """Return the neighbours on both sides, one of them where both are nearly the same solution."""
    near = neighbours(known, value, 2)
    if len(near) == 2:
        one, two = near
        widths = abs(log_width(one.kappa) - log_width(two.kappa))
        if widths < SAME_WIDTH and abs(one.tau - two.tau) < SAME_TAU:
            return near[:1]
    return near


def n_starts(data: ProfileData, search: bool | None) -> int:
    """Return from how many neighbours to start: two where there may be several basins, unsearched."""
    return 2 if search is False and data.observations.endog.size <= SEVERAL_BASINS else 1


def neighbours(known: dict[float, Solution], value: float, count: int) -> list[Solution]:
    """Return the fits to start from: the nearest on each side, at most `count` of them."""
    below = [other for other in known if other <= value]
    above = [other for other in known if other > value]
    near = [*([max(below)] if below else []), *([min(above)] if above else [])]
    near.sort(key=lambda other: abs(other - value))
    return [known[other] for other in near[:count]]


def _tau_curve(data: ProfileData, solution: Solution, kappa: float) -> TauCurve:
    """Return the profile over tau at a given width."""
    obs = data.observations
    task = task_of(kappa, None, data.space.sigma, data.tau_bounds)
    setup = set_up(rows_of(obs.exog, obs.endog, obs.case_weights, obs.offset), task)
    z, _ = start_of(setup.basis, solution, setup.scale, setup.task)
    return TauCurve(setup, z, obs.exog.size, *data.tau_bounds)


def _coefficient_curve(
    data: ProfileData, solution: Solution, column: int, search: bool | None
) -> _CoefficientCurve:
    """Return the profile over a coefficient."""
    if data.constraint is not None:
        return _constrained_curve(data, data.constraint, solution, column, search)
    obs = data.observations
    others = np.delete(obs.exog, column, axis=1)
    if solution.dependent and np.linalg.matrix_rank(others) == solution.rank:
        raise DataError(
            f"the coefficient of {data.names[column]!r} is not identified: its column is a linear "
            "combination of others, and its profile is level"
        )
    value = float(solution.beta[column])
    start = replace(solution, beta=np.delete(solution.beta, column), dependent=())
    moved = np.asarray(obs.exog[:, column], dtype=np.float64)
    rest = _with_columns(data, others)
    return _CoefficientCurve(rest, column, moved, -math.inf, math.inf, search, {value: start})


def _with_columns(data: ProfileData, exog: FloatArray) -> ProfileData:
    """Return the model with other columns."""
    names = tuple(f"x{j}" for j in range(exog.shape[1]))
    space = replace(data.space, k=exog.shape[1])
    return ProfileData(replace(data.observations, exog=exog), space, data.tau_bounds, names)


def _constrained_curve(
    data: ProfileData,
    constraint: Constraint,
    solution: Solution,
    column: int,
    search: bool | None,
) -> _CoefficientCurve:
    """Return the profile over a coefficient under a constraint."""
    row = constraint.transform[column]
    direction = row / float(row @ row)
    basis = linalg.null_space(row[None, :])
    exog = data.observations.exog
    value = float(constraint.expand(solution.beta)[column])
    start = replace(solution, beta=basis.T @ solution.beta, dependent=())
    rest = _with_columns(data, exog @ basis)
    return _CoefficientCurve(
        rest,
        column,
        exog @ direction,
        -math.inf,
        math.inf,
        search,
        {value: start},
        basis,
        direction,
        float(constraint.shift[column]),
    )


def _least_sigma(data: ProfileData) -> float:
    """Return where a profile over sigma ends.

    With an estimated width the normal law, and the law that is normal on one side, are reached at any
    smaller sigma by a larger kappa: below a hundredth of the standard deviation the profile is level.
    """
    if data.space.kappa is not None:
        return 0.0
    obs = data.observations
    llf = gaussian_loglike(obs.exog, obs.endog, weights=obs.case_weights, offset=obs.offset)
    n = obs.endog.size if obs.case_weights is None else float(obs.case_weights.sum())
    return 0.01 * math.exp(-llf / n - 0.5) / math.sqrt(2.0 * math.pi)


def curve_of(
    data: ProfileData, solution: Solution, param: str | int, *, search: bool | None = None
) -> Curve:
    """Return the profile of a parameter as a function.

    Parameters
    ----------
    data : ProfileData
        The model, in which the parameter is estimated.
    solution : Solution
        Its fit.
    param : str or int
        "sigma", "tau", "kappa", or the name or column of a coefficient.
    search : bool or None
        Whether every fit searches the whole range of tau; None does so up to 500 rows.
    """
    column = data.column(param)
    if data.is_fixed(param):
        raise DomainError(
            f"the constraints fix {param!r}: it has no profile; profile another parameter, or the "
            "fit without the constraint"
        )
    if column is not None:
        return _coefficient_curve(data, solution, column, search)
    if param == "tau" and data.space.kappa is not None:
        return _tau_curve(data, solution, data.space.kappa)
    known = {float(getattr(solution, str(param))): solution}
    if param == "tau":
        return _RefitCurve(data, "tau", *data.tau_bounds, search, known)
    if param == "sigma":
        return _RefitCurve(data, "sigma", _least_sigma(data), math.inf, search, known)
    end = max(KAPPA_END, 10.0 * solution.kappa)
    return _RefitCurve(data, "kappa", 0.0, end, search, known)
