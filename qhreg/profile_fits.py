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

from qhreg.convex import TINY_KAPPA, TauFit, fit_at, proved_newton
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.inputs import rows_of
from qhreg.kappafit import solve_kappa
from qhreg.local import profile_slope, profile_value
from qhreg.newton import Curvature, curvature_of, newton
from qhreg.observations import Observations
from qhreg.parameters import EXTRA_NAMES, ParameterSpace
from qhreg.preparation import Setup, set_up
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve, start_of, task_of, value_shift
from qhreg.threads import one_blas_thread

__all__ = ["Curve", "ProfileData", "ProfilePoint", "TauCurve", "curve_of", "profile_data", "refit"]

FloatArray = npt.NDArray[np.float64]

SEVERAL_BASINS = 500
"""Rows up to which the likelihood is expected to have several basins in tau."""

WIDEST = 1e6
"""Width at which a profile over kappa ends; beyond it every sample of this size is normal."""

MANY_ROWS = 5000
"""Rows from which a Hessian is worth keeping from one fit to the next."""


@dataclass(frozen=True)
class ProfileData:
    """A model as the profile sees it: the data, what is fixed, and the names of the columns.

    Attributes
    ----------
    observations : Observations
        The data.
    space : ParameterSpace
        Which of sigma, tau and kappa are fixed.
    tau_bounds : (float, float)
        Range of an estimated tau.
    names : tuple of str
        Names of the coefficients.
    """

    observations: Observations
    space: ParameterSpace
    tau_bounds: tuple[float, float]
    names: tuple[str, ...]

    def column(self, param: str | int) -> int | None:
        """Return the column of a coefficient, or None for sigma, tau and kappa."""
        if isinstance(param, str) and param in EXTRA_NAMES and param not in self.names:
            return None
        if isinstance(param, str):
            if param not in self.names:
                known = ", ".join((*self.names, *EXTRA_NAMES))
                raise DomainError(f"there is no parameter {param!r}; there are {known}")
            return self.names.index(param)
        if not 0 <= int(param) < len(self.names):
            raise DomainError(f"there are {len(self.names)} coefficients, got number {param!r}")
        return int(param)

    def freed(self, param: str) -> ProfileData:
        """Return the model in which sigma, tau or kappa is estimated."""
        freed: dict[str, Any] = {param: None}
        return replace(self, space=replace(self.space, **freed))


def profile_data(
    exog: Any,
    endog: Any,
    *,
    kappa: float | None = 1.0,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    names: Any = None,
) -> ProfileData:
    """Return arrays in the form that profiles take.

    Parameters
    ----------
    exog, endog, tau, sigma, tau_bounds, weights, offset
        As in :func:`qhreg.solver.solve`.
    kappa : float or None
        Huber width; None estimates it.
    names : sequence of str, optional
        Names of the columns.
    """
    x, y = np.asarray(exog, dtype=np.float64), np.asarray(endog, dtype=np.float64)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    o = None if offset is None else np.asarray(offset, dtype=np.float64)
    k = x.shape[1]
    labels = tuple(map(str, names)) if names is not None else tuple(f"x{j}" for j in range(k))
    space = ParameterSpace(k, sigma, tau, kappa)
    return ProfileData(Observations(x, y, o, None, w), space, tau_bounds, labels)


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
    curvature: Curvature | None = None

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
        """Return the convex fit; with many rows, by Newton's method with the last Hessian first."""
        problem = self.setup.problem
        if problem.kappa <= TINY_KAPPA or problem.n < MANY_ROWS:
            return fit_at(problem, tau, z, warm=True)
        if self.curvature is None:
            self.curvature = curvature_of(problem.evaluate(z, tau), z, tau)
        point = newton(
            problem,
            z,
            tau,
            tau_bounds=None,
            curvature=self.curvature,
            reuse_hessian=True,
            tol=1e-9,
            max_passes=12,
        )
        proved = proved_newton(problem, point)
        if proved is None or not proved.proved(problem.n):
            return fit_at(problem, tau, z, warm=True)
        self.curvature = point.curvature
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
        fits = [
            refit(self.data, {self.param: value}, start, search=self.search)
            for start in neighbours(self.known, value, n_starts(self.data, self.search))
        ]
        best = max(fits, key=lambda fit: fit.loglike)
        self.known[value] = best
        slope = -best.n * best.tau_slope if self.param == "tau" else math.nan
        return ProfilePoint(
            value, best.loglike, slope, best.gap, best.beta, best.sigma, best.tau, best.kappa
        )


@dataclass
class _CoefficientCurve:
    """The profile over one coefficient: its column moves into the offset.

    Holds a copy of the other columns.
    """

    rest: ProfileData
    column: int
    moved: FloatArray
    lower: float
    upper: float
    search: bool | None
    known: dict[float, Solution]

    def __call__(self, value: float) -> ProfilePoint:
        obs = self.rest.observations
        offset = value * self.moved
        if obs.offset is not None:
            offset += obs.offset
        data = replace(self.rest, observations=replace(obs, offset=offset))
        starts = neighbours(self.known, value, n_starts(data, self.search))
        fits = [refit(data, {}, start, search=self.search) for start in starts]
        best = max(fits, key=lambda fit: fit.loglike)
        self.known[value] = best
        beta = np.insert(best.beta, self.column, value)
        return ProfilePoint(
            value, best.loglike, math.nan, best.gap, beta, best.sigma, best.tau, best.kappa
        )


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
    obs = data.observations
    others = np.delete(obs.exog, column, axis=1)
    rest = ProfileData(
        replace(obs, exog=others),
        replace(data.space, k=others.shape[1]),
        data.tau_bounds,
        tuple(name for j, name in enumerate(data.names) if j != column),
    )
    if solution.dependent and np.linalg.matrix_rank(others) == solution.rank:
        raise DataError(
            f"the coefficient of {data.names[column]!r} is not identified: its column is a linear "
            "combination of others, and its profile is level"
        )
    value = float(solution.beta[column])
    start = replace(solution, beta=np.delete(solution.beta, column), dependent=())
    moved = np.asarray(obs.exog[:, column], dtype=np.float64)
    return _CoefficientCurve(rest, column, moved, -math.inf, math.inf, search, {value: start})


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
    if column is not None:
        return _coefficient_curve(data, solution, column, search)
    if param == "tau" and data.space.kappa is not None:
        return _tau_curve(data, solution, data.space.kappa)
    known = {float(getattr(solution, str(param))): solution}
    if param == "tau":
        return _RefitCurve(data, "tau", *data.tau_bounds, search, known)
    if param == "sigma":
        return _RefitCurve(data, "sigma", 0.0, math.inf, search, known)
    return _RefitCurve(data, "kappa", 0.0, WIDEST, search, known)
