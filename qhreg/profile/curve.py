"""A profile likelihood as a function: the best fit of everything else at each value of a parameter.

Along tau at a given width every point is a convex fit in coordinates that are set up once; its slope
comes with it. Along the other parameters every point is a fit of all others. Each starts from the
nearest point that is known. All points have the criterion of the fit, with its p and m
(Welham & Thompson 1997), so that they can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, special

from qhreg._blocks import one_blas_thread
from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.solver import Solution, attained, start_of, task_of
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.over_tau import profile_slope, tau_grid
from qhreg.solver.setup import Setup, set_up
from qhreg.specification.model_data import ModelData, refit

SHIFT = 0.01
"""kappa is traced in log(kappa + SHIFT), which reaches zero."""

KAPPA_END = 1e4
"""Width at which a profile over kappa ends: zones of 50 standard deviations on each side, or of 100 on
one side, beyond which the normal law and the law that is normal on one side do not change. Much wider
zones would need a tau nearer to 0 or 1 than its bounds."""


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
    fit_at : callable
        Given a value and a fit near it, returns the fit there, and the point of the profile.
    fits : dict
        The fits by value, one of them to start from.
    lower, upper : float
        The range.
    names : tuple of str
        Names of the coefficients of a point.
    step : float
        Change on the scale of the parameter that moves the signed root by about one.
    points : dict
        The points by value.
    """

    param: str
    estimate: float
    loglike: float
    df_resid: float
    fit_at: Callable[[float, Any], tuple[Any, ProfilePoint]]
    fits: dict[float, Any]
    lower: float = -math.inf
    upper: float = math.inf
    names: tuple[str, ...] = ()
    step: float = 1.0
    points: dict[float, ProfilePoint] = field(default_factory=dict)

    def __call__(self, value: float) -> ProfilePoint:
        """Return the point at one value."""
        if value not in self.points:
            near = self.fits[min(self.fits, key=lambda known: abs(known - value))]
            self.fits[value], self.points[value] = self.fit_at(value, near)
        return self.points[value]


@dataclass
class TauCurve(Curve):
    """The profile over tau at a given width: convex fits in one set of coordinates.

    Attributes
    ----------
    setup : Setup
        The problem; `fits` has the unknowns in its coordinates.
    """

    setup: Setup = field(kw_only=True)

    def scan(self) -> list[ProfilePoint]:
        """Return the points of a grid, the bounds included, in increasing order of tau."""
        taus = tau_grid((self.lower, self.upper))
        for tau in sorted(taus, key=lambda tau: abs(tau - 0.5)):  # outwards from the middle
            self(tau)
        return [self(tau) for tau in taus]


def tau_curve(data: ModelData, solution: Solution, kappa: float) -> TauCurve:
    """Return the profile over tau at a given width, by the criterion of the model."""
    task = task_of(kappa, None, data.space.sigma, data.tau_bounds, reml=data.reml, rank=data.rank)
    setup = set_up(data.rows, task)
    z, _ = start_of(setup, solution)
    return TauCurve(
        "tau",
        solution.tau,
        solution.loglike_restricted,
        solution.n - solution.p,
        partial(_fit_at_tau, setup),
        {solution.tau: z},
        *data.tau_bounds,
        data.names,
        setup=setup,
    )


def _fit_at_tau(setup: Setup, value: float, near: FloatArray) -> tuple[FloatArray, ProfilePoint]:
    """Return the convex fit at a tau."""
    problem = setup.problem
    start = near if problem.theta is None else np.append(near[:-1], problem.theta)
    with one_blas_thread(problem.rows.n_rows * start.size):
        fit = fit_at(problem, value, start, warm=True)
    raw = setup.basis.matrix @ fit.z
    sigma = 1.0 / float(raw[-1])
    return fit.z, ProfilePoint(
        value,
        attained(fit, setup),
        -problem.n * profile_slope(fit, problem),
        fit.gap,
        -raw[:-1] * sigma * setup.scale,
        sigma * setup.scale,
        value,
        problem.kappa,
    )


def _refitted(
    data: ModelData, param: str, search: bool | None, value: float, near: Solution
) -> tuple[Solution, ProfilePoint]:
    """Return the fit of all others with sigma, kappa, or tau where kappa is estimated, held."""
    fit = refit(data, {param: value}, near, search)
    return fit, point_of(fit, value)


def _coefficient_curve(
    data: ModelData, solution: Solution, column: int, search: bool | None
) -> Curve:
    """Return the profile over one coefficient: what it explains moves into the offset.

    With coefficients ``T gamma + shift`` (T the identity without a constraint) the coefficient is held
    by gamma = basis delta + direction (value - shift), with the basis orthogonal to its row of T.
    """
    k = data.space.k
    if data.constraint is None:
        basis, direction = np.delete(np.eye(k), column, axis=1), np.eye(k)[column]
        shift = 0.0
    else:
        row = data.constraint.transform[column]
        basis, direction = linalg.null_space(row[None, :]), row / float(row @ row)
        shift = float(data.constraint.shift[column])
    held = data.observations.restriction(basis, direction)
    if solution.dependent and held(0.0).rank == solution.rank:
        raise DataError(
            f"the coefficient of {data.names[column]!r} is not identified: its column is a linear "
            "combination of others, and its profile is level"
        )
    names = tuple(f"x{j}" for j in range(k - 1))
    rest = replace(data, space=replace(data.space, k=k - 1), names=names, constraint=None)

    def fit_held(value: float, near: Solution) -> tuple[Solution, ProfilePoint]:
        """Return the fit with the coefficient at a value."""
        t = value - shift
        fit = refit(replace(rest, observations=held(t)), None, near, search)
        return fit, point_of(fit, value, basis @ fit.beta + t * direction)

    estimate = float(data.expand(solution.beta)[column])
    return Curve(
        data.names[column],
        estimate,
        solution.loglike_restricted,
        solution.n - solution.p,
        fit_held,
        {estimate: replace(solution, beta=basis.T @ solution.beta, dependent=())},
        names=data.names,
    )


def _range(data: ModelData, solution: Solution, param: str) -> tuple[float, float]:
    """Return the range of sigma, tau or kappa along its profile.

    Where kappa is estimated sigma ends at the standard deviation over the root of KAPPA_END: every
    smaller one has a kappa with the same law.
    """
    if param == "tau":
        return data.tau_bounds
    if param == "kappa":
        return 0.0, max(KAPPA_END, 10.0 * solution.kappa)
    if data.space.kappa is not None:
        return 0.0, math.inf
    llf = data.observations.gaussian_loglike()
    deviation = math.exp(-llf / solution.n - 0.5) / math.sqrt(2.0 * math.pi)
    return min(deviation, solution.sigma) / math.sqrt(KAPPA_END), math.inf


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
    if column is not None:
        curve = _coefficient_curve(data, solution, column, search)
    elif name == "tau" and data.space.kappa is not None:
        curve = tau_curve(data, solution, data.space.kappa)
    else:
        estimate = float(getattr(solution, name))
        curve = Curve(
            name,
            estimate,
            solution.loglike_restricted,
            solution.n - solution.p,
            partial(_refitted, data, name, search),
            {estimate: solution},
            *_range(data, solution, name),
            data.names,
        )
    curve.step = _first_step(data, solution, param, se)
    curve.points[curve.estimate] = replace(point_of(solution, curve.estimate), slope=0.0)
    return curve
