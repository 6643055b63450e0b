"""Refits along one parameter: the points of a profile likelihood.

Along tau at a given width every point is a convex fit in coordinates that are set up once; its slope
comes with it. Along the other parameters every point is a fit of all others, started from its
neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy import linalg

from qhreg._typing import FloatArray
from qhreg.engine.zone import Zone
from qhreg.exceptions import DataError, DomainError
from qhreg.profile.refits import best_fit
from qhreg.solver import Solution, attained, start_of, task_of
from qhreg.solver.fixed_tau import TINY_KAPPA, TauFit, fit_at, proved_newton
from qhreg.solver.inputs import rows_of
from qhreg.solver.over_kappa import gaussian_loglike
from qhreg.solver.kappalocal import kappa_slope
from qhreg.solver.over_tau import Memory, profile_slope
from qhreg.solver.newton import newton
from qhreg.solver.setup import Setup, set_up
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.constraints import Constraint
from qhreg.specification.model_data import ModelData

__all__ = ["Curve", "ProfilePoint", "TauCurve", "curve_of"]


KAPPA_END = 1e4
"""Width at which a profile over kappa ends: zones of 50 standard deviations on each side, or of 100 on
one side, beyond which the normal law and the law that is normal on one side do not change. Much wider
zones would need a tau nearer to 0 or 1 than its bounds."""

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
            attained(fit, self.setup),
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

    data: ModelData
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
            value,
            best.loglike_restricted,
            slope,
            best.gap,
            best.beta,
            best.sigma,
            best.tau,
            best.kappa,
        )


@dataclass
class _CoefficientCurve:
    """The profile over one coefficient: what it explains moves into the offset.

    Holds a copy of the other columns. Under a constraint with coefficients ``T gamma + shift`` the
    coefficient is held by gamma = `basis` delta + `direction` (value - shift), with `basis` orthogonal
    to its row of T.
    """

    rest: ModelData
    column: int
    moved: FloatArray
    lower: float
    upper: float
    search: bool | None
    known: dict[float, Solution]
    basis: FloatArray | None = None
    direction: FloatArray | None = None
    shift: float = 0.0
    memory: Memory = field(default_factory=Memory)

    def __call__(self, value: float) -> ProfilePoint:
        obs = self.rest.observations
        offset = (value - self.shift) * self.moved
        if obs.offset is not None:
            offset += obs.offset
        data = replace(self.rest, observations=replace(obs, offset=offset))
        best = best_fit(data, {}, value, self.known, search=self.search, memory=self.memory)
        self.known[value] = best
        beta = self._restored(best.beta, value)
        return ProfilePoint(
            value,
            best.loglike_restricted,
            math.nan,
            best.gap,
            beta,
            best.sigma,
            best.tau,
            best.kappa,
        )

    def _restored(self, rest: FloatArray, value: float) -> FloatArray:
        """Return all coefficients of the regression from the others."""
        if self.basis is None or self.direction is None:
            return np.insert(rest, self.column, value)
        whole: FloatArray = self.basis @ rest + (value - self.shift) * self.direction
        return whole


def _tau_curve(data: ModelData, solution: Solution, kappa: float) -> TauCurve:
    """Return the profile over tau at a given width."""
    obs = data.observations
    task = task_of(kappa, None, data.space.sigma, data.tau_bounds, reml=data.reml, rank=data.rank)
    setup = set_up(rows_of(obs.exog, obs.endog, obs.case_weights, obs.offset), task)
    z, _ = start_of(setup.basis, solution, setup.scale, setup.task)
    return TauCurve(setup, z, obs.exog.size, *data.tau_bounds)


def _coefficient_curve(
    data: ModelData, solution: Solution, column: int, search: bool | None
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


def _with_columns(data: ModelData, exog: FloatArray) -> ModelData:
    """Return the model with other columns."""
    names = tuple(f"x{j}" for j in range(exog.shape[1]))
    space = replace(data.space, k=exog.shape[1])
    return replace(
        data,
        observations=replace(data.observations, exog=exog),
        space=space,
        names=names,
        constraint=None,
    )


def _constrained_curve(
    data: ModelData,
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


def _least_sigma(data: ModelData, estimate: float) -> float:
    """Return where a profile over sigma ends, below its estimate.

    With an estimated width the normal law, and the law that is normal on one side, are reached at any
    smaller sigma by a larger kappa: below a hundredth of the standard deviation the profile is level. A
    tau on its bound has a smaller sigma.
    """
    if data.space.kappa is not None:
        return 0.0
    obs = data.observations
    llf = gaussian_loglike(obs.exog, obs.endog, weights=obs.case_weights, offset=obs.offset)
    n = obs.endog.size if obs.case_weights is None else float(obs.case_weights.sum())
    return 0.01 * min(math.exp(-llf / n - 0.5) / math.sqrt(2.0 * math.pi), estimate)


def curve_of(
    data: ModelData, solution: Solution, param: str | int, *, search: bool | None = None
) -> Curve:
    """Return the profile of a parameter as a function.

    Parameters
    ----------
    data : ModelData
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
        return _RefitCurve(
            data, "sigma", _least_sigma(data, solution.sigma), math.inf, search, known
        )
    end = max(KAPPA_END, 10.0 * solution.kappa)
    return _RefitCurve(data, "kappa", 0.0, end, search, known)
