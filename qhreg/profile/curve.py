"""A profile likelihood as a function: the best fit of everything else at each value of a parameter.

Along tau at a given width every point is a convex fit in coordinates that are set up once; its slope
comes with it. Along the other parameters every point is a fit of all others. Each starts from the
nearest point that is known. All points have the criterion of the fit, with its p and m
(Welham & Thompson 1997), so that they can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg, special

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.solver import Solution, attained, start_of, task_of
from qhreg.solver.dual import TauFit
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import profile_slope
from qhreg.solver.setup import Setup, set_up
from qhreg.specification.model_data import ModelData, refit

SHIFT = 0.01
"""kappa is traced in log(kappa + SHIFT), which reaches zero."""

KAPPA_END = 1e4
"""Width at which a profile over kappa ends: zones of 50 standard deviations on each side, or of 100 on
one side, beyond which the normal law and the law that is normal on one side do not change. Much wider
zones would need a tau nearer to 0 or 1 than its bounds."""

SIGMA_END = 0.01
"""Share of the standard deviation at which a profile over sigma ends where kappa is estimated: every
smaller sigma has a kappa with the same law, as KAPPA_END = 1 / SIGMA_END^2 has it."""


Scale = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_SCALES: dict[str, Scale] = {
    "tau": (special.logit, special.expit),
    "sigma": (np.log, np.exp),
    "kappa": (lambda x: np.log(np.add(x, SHIFT)), lambda t: np.maximum(np.exp(t) - SHIFT, 0.0)),
}


def scale_of(param: str) -> Scale:
    """Return the map of a parameter to where its signed root is nearly linear, and its inverse.

    The logit of tau, the logarithm of sigma, log(kappa + 0.01), and a coefficient as it is.
    """
    return _SCALES.get(param, (np.asarray, np.asarray))


@dataclass(frozen=True)
class ProfilePoint:
    """The best fit with one parameter held.

    Attributes
    ----------
    value : float
        The value of the parameter.
    loglike : float
        The highest (restricted) log-likelihood over the others.
    slope : float
        Its derivative in the parameter along tau, NaN along others.
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


def point_of(solution: Solution, value: float, beta: FloatArray | None = None) -> ProfilePoint:
    """Return a fit as a point of a profile, with the coefficients of the whole model."""
    return ProfilePoint(
        value,
        solution.loglike_restricted,
        math.nan,
        solution.gap,
        solution.beta if beta is None else beta,
        solution.sigma,
        solution.tau,
        solution.kappa,
    )


@dataclass
class Curve:
    """A profile as a function: the parameter's estimate and range, and a fit at each value, made once.

    Attributes
    ----------
    param : str
        The parameter.
    estimate, loglike : float
        Where the profile is highest, and how high.
    df_resid : float
        m of the F law of likelihood ratios.
    lower, upper : float
        The range.
    names : tuple of str
        Names of the coefficients of a point.
    step : float
        Change on the scale of the parameter that moves the signed root by about one.
    points : dict
        The fits by value.
    """

    param: str
    estimate: float
    loglike: float
    df_resid: float
    lower: float = -math.inf
    upper: float = math.inf
    names: tuple[str, ...] = ()
    step: float = 1.0
    points: dict[float, ProfilePoint] = field(default_factory=dict)

    def __call__(self, value: float) -> ProfilePoint:
        """Return the fit at one value."""
        if value not in self.points:
            self.points[value] = self._fitted(value)
        return self.points[value]

    def _fitted(self, value: float) -> ProfilePoint:
        raise NotImplementedError


@dataclass
class TauCurve(Curve):
    """The profile over tau at a given width: convex fits in one set of coordinates.

    Attributes
    ----------
    setup : Setup
        The problem.
    start : ndarray, shape (k,)
        Where the first fit starts.
    fits : dict
        The fits by tau.
    """

    setup: Setup = field(kw_only=True)
    start: FloatArray = field(kw_only=True)
    fits: dict[float, TauFit] = field(default_factory=dict)

    def _fitted(self, value: float) -> ProfilePoint:
        setup = self.setup
        problem = setup.problem
        start = self.fits[_nearest(self.fits, value)].z if self.fits else self.start
        if problem.theta is not None:  # to the last digit
            start = np.append(start[:-1], problem.theta)
        with one_blas_thread(problem.rows.n_rows * start.size):
            fit = fit_at(problem, value, start, warm=bool(self.fits))
        self.fits[value] = fit
        raw = setup.basis.matrix @ fit.z
        sigma = 1.0 / float(raw[-1])
        return ProfilePoint(
            value,
            attained(fit, setup),
            -problem.n * profile_slope(fit, problem),
            fit.gap,
            -raw[:-1] * sigma * setup.scale,
            sigma * setup.scale,
            value,
            problem.kappa,
        )


def tau_curve(data: ModelData, solution: Solution, kappa: float) -> TauCurve:
    """Return the profile over tau at a given width, by the criterion of the model."""
    task = task_of(kappa, None, data.space.sigma, data.tau_bounds, reml=data.reml, rank=data.rank)
    setup = set_up(data.rows, task)
    z, _ = start_of(setup, solution)
    about = ("tau", solution.tau, solution.loglike_restricted, solution.n - solution.p)
    return TauCurve(*about, *data.tau_bounds, data.names, setup=setup, start=z)


@dataclass
class RefitCurve(Curve):
    """The profile over sigma, kappa, or tau with kappa estimated: fits of all others."""

    data: ModelData = field(kw_only=True)
    search: bool | None = field(kw_only=True)
    fits: dict[float, Solution] = field(kw_only=True)

    def _fitted(self, value: float) -> ProfilePoint:
        start = self.fits[_nearest(self.fits, value)]
        fit = refit(self.data, {self.param: value}, start, self.search)
        self.fits[value] = fit
        return point_of(fit, value)


@dataclass
class CoefficientCurve(Curve):
    """The profile over one coefficient: what it explains moves into the offset.

    With coefficients ``T gamma + shift`` (T the identity without a constraint) the coefficient is held
    by gamma = `basis` delta + `direction` (value - shift), with `basis` orthogonal to its row of T.
    """

    rest: ModelData = field(kw_only=True)
    held: Callable[[float], Any] = field(kw_only=True)
    basis: FloatArray = field(kw_only=True)
    direction: FloatArray = field(kw_only=True)
    shift: float = field(kw_only=True)
    search: bool | None = field(kw_only=True)
    fits: dict[float, Solution] = field(kw_only=True)

    def _fitted(self, value: float) -> ProfilePoint:
        data = replace(self.rest, observations=self.held(value - self.shift))
        fit = refit(data, None, self.fits[_nearest(self.fits, value)], self.search)
        self.fits[value] = fit
        beta = self.basis @ fit.beta + (value - self.shift) * self.direction
        return point_of(fit, value, beta)


def _coefficient_curve(
    data: ModelData, solution: Solution, column: int, search: bool | None
) -> CoefficientCurve:
    """Return the profile over a coefficient."""
    obs, k = data.observations, data.space.k
    if data.constraint is None:
        basis, direction = np.delete(np.eye(k), column, axis=1), np.eye(k)[column]
        shift = 0.0
    else:
        row = data.constraint.transform[column]
        basis, direction = linalg.null_space(row[None, :]), row / float(row @ row)
        shift = float(data.constraint.shift[column])
    held = obs.restriction(basis, direction)
    if solution.dependent and held(0.0).rank == solution.rank:
        raise DataError(
            f"the coefficient of {data.names[column]!r} is not identified: its column is a linear "
            "combination of others, and its profile is level"
        )
    rest = replace(
        data,
        observations=held(0.0),
        space=replace(data.space, k=k - 1),
        names=tuple(f"x{j}" for j in range(k - 1)),
        constraint=None,
    )
    value = float(data.expand(solution.beta)[column])
    start = replace(solution, beta=basis.T @ solution.beta, dependent=())
    return CoefficientCurve(
        data.names[column],
        value,
        solution.loglike_restricted,
        solution.n - solution.p,
        names=data.names,
        rest=rest,
        held=held,
        basis=basis,
        direction=direction,
        shift=shift,
        search=search,
        fits={value: start},
    )


def _nearest(known: Mapping[float, object], value: float) -> float:
    return min(known, key=lambda other: abs(other - value))


def _range(data: ModelData, solution: Solution, param: str) -> tuple[float, float]:
    """Return the range of sigma, tau or kappa along its profile."""
    if param == "tau":
        return data.tau_bounds
    if param == "kappa":
        return 0.0, max(KAPPA_END, 10.0 * solution.kappa)
    if data.space.kappa is not None:
        return 0.0, math.inf
    llf = data.observations.gaussian_loglike()
    deviation = math.exp(-llf / solution.n - 0.5) / math.sqrt(2.0 * math.pi)
    return SIGMA_END * min(deviation, solution.sigma), math.inf


def _first_step(data: ModelData, solution: Solution, param: str | int, se: float) -> float:
    """Return a change on the scale of a parameter that moves the signed root by about one."""
    column, n, known = data.column(param), max(solution.n, 2.0), math.isfinite(se) and se > 0.0
    if column is None:
        value = float(getattr(solution, str(param)))
        stretch = {"tau": value * (1.0 - value), "sigma": value, "kappa": value + SHIFT}
        return min(se / stretch[str(param)], 1.0) if known else 2.0 / math.sqrt(n)
    if known:
        return se
    obs = data.observations
    moved = obs.exog[:, column] if data.constraint is None else obs.exog
    deviation = np.linalg.norm(obs.residuals(solution.beta)) / math.sqrt(n)
    length = np.linalg.norm(moved)
    return float(deviation / length) if deviation * length > 0.0 else 1.0 / math.sqrt(n)


def curve_of(
    data: ModelData,
    solution: Solution,
    param: str | int,
    *,
    se: float = math.nan,
    search: bool | None = None,
) -> Curve:
    """Return the profile of a parameter as a function.

    Parameters
    ----------
    data : ModelData
        The model, in which the parameter is estimated.
    solution : Solution
        Its fit, whose criterion (restricted or ordinary likelihood, and its p) all points have.
    param : str or int
        "sigma", "tau", "kappa", or the name or column of a coefficient.
    se : float
        Standard error of the estimate: the first step.
    search : bool or None
        As in :func:`qhreg.solver.solve`, for every point.
    """
    column = data.column(param)
    if data.is_fixed(param):
        raise DomainError(
            f"the constraints fix {param!r}: it has no profile; profile another parameter, or the "
            "fit without the constraint"
        )
    data, name = data.compared_with(solution), str(param)
    curve: Curve
    if column is not None:
        curve = _coefficient_curve(data, solution, column, search)
    elif name == "tau" and data.space.kappa is not None:
        curve = tau_curve(data, solution, data.space.kappa)
    else:
        estimate = float(getattr(solution, name))
        curve = RefitCurve(
            name,
            estimate,
            solution.loglike_restricted,
            solution.n - solution.p,
            *_range(data, solution, name),
            data.names,
            data=data,
            search=search,
            fits={estimate: solution},
        )
    curve.step = _first_step(data, solution, param, se)
    curve.points[curve.estimate] = replace(point_of(solution, curve.estimate), slope=0.0)
    return curve
