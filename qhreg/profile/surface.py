"""Profile likelihoods of two parameters: tau with kappa, tau with sigma.

With both held the rest of the problem is convex, so that every point of the surface is a convex fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import interpolate

from qhreg._typing import FloatArray
from qhreg.exceptions import ConvergenceWarning, DomainError, warn_caller
from qhreg.figures import SurfaceFigure
from qhreg.profile.likelihood import profile_likelihood
from qhreg.profile.refits import refit
from qhreg.profile.trace import likelihood_ratio_cut, with_progress
from qhreg.solver import Solution, attained, start_of, task_of
from qhreg.solver.fixed_tau import fit_at
from qhreg.solver.inputs import rows_of
from qhreg.solver.setup import Setup, set_up
from qhreg.solver.problem import Problem
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.model_data import ModelData

__all__ = ["ProfileSurface", "profile_surface"]


FINER = 5
"""Steps of the drawn surface for each step between fits."""

OPEN_END = 10.0
"""Factor from the estimate at which a surface ends where the interval of kappa is longer or open."""


@dataclass(frozen=True, repr=False)
class ProfileSurface:
    """The profile likelihood of two parameters on a grid.

    Attributes
    ----------
    params : (str, str)
        "tau" and "kappa" or "sigma".
    estimate : (float, float)
        Where the likelihood is highest.
    loglike : float
        How high: the larger of the fit's and the highest on the grid.
    first, second : ndarray, shapes (a,) and (b,)
        The grid.
    loglikes : ndarray, shape (b, a)
        The highest log-likelihood with both parameters held.
    fixed : pair of float or None
        The values at which the model fixes them, if it does.
    """

    params: tuple[str, str]
    estimate: tuple[float, float]
    loglike: float
    first: FloatArray
    second: FloatArray
    loglikes: FloatArray
    fixed: tuple[float | None, float | None] = (None, None)

    @property
    def lr(self) -> FloatArray:
        """The likelihood ratio statistic, shape (b, a)."""
        return np.maximum(2.0 * (self.loglike - self.loglikes), 0.0)

    def critical_value(self, alpha: float) -> float:
        """Return the chi-square quantile with two degrees of freedom."""
        return likelihood_ratio_cut(alpha, "chi2", df=2)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each point of the grid: both values, llf and lr."""
        first, second = np.meshgrid(self.first, self.second)
        return pd.DataFrame(
            {
                self.params[0]: first.ravel(),
                self.params[1]: second.ravel(),
                "llf": self.loglikes.ravel(),
                "lr": self.lr.ravel(),
            }
        )

    def __repr__(self) -> str:
        first, second = self.params
        return (
            f"profile of {first} and {second}: {self.first.size} x {self.second.size} fits, highest "
            f"log-likelihood {self.loglike:.6g} at {first} = {self.estimate[0]:.4g}, "
            f"{second} = {self.estimate[1]:.4g}"
        )

    def figure(self, alphas: tuple[float, ...] = (0.5, 0.05, 0.01)) -> SurfaceFigure:
        """Return the numbers that the plot draws, between the fits by a cubic spline.

        Parameters
        ----------
        alphas : tuple of float
            Levels of the contours.
        """
        cuts = tuple((alpha, self.critical_value(alpha)) for alpha in alphas)
        x, y = _refined(self.first), _refined(self.second)
        degrees = (min(3, self.second.size - 1), min(3, self.first.size - 1))
        lr = self.lr
        if min(degrees) > 0:
            spline = interpolate.RectBivariateSpline(
                self.second, self.first, lr, kx=degrees[0], ky=degrees[1]
            )
            lr = np.maximum(spline(y, x), 0.0)
        else:
            x, y = self.first, self.second
        return SurfaceFigure(self.params, x, y, lr, self.estimate, cuts, self.fixed)

    def plot(self, ax: Any = None) -> Any:
        """Draw contours and return the Axes; see :func:`qhreg.plotting.plot_surface`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_surface

        return plot_surface(self.figure(), ax=ax)


def _refined(grid: FloatArray) -> FloatArray:
    """Return a grid with points in between."""
    places = np.arange(grid.size)
    finer = np.linspace(0, grid.size - 1, FINER * (grid.size - 1) + 1)
    return np.asarray(np.interp(finer, places, grid))


def _default_grid(
    data: ModelData, solution: Solution, param: str, points: int
) -> tuple[FloatArray, float]:
    """Return values that reach beyond the 99 % region, and the estimate."""
    # one parameter's interval at this level is the shadow of the two-dimensional 99 % region
    cut = likelihood_ratio_cut(0.01, "chi2", df=2)
    made = profile_likelihood(data, solution, param, grid=[], alpha=0.01, cut=cut, progress=False)
    low, high = made.conf_int()
    if param == "kappa":
        high = min(high, OPEN_END * max(made.estimate, 1.0))
    margin = 0.06 * (high - low)
    bounds = (
        data.tau_bounds if param == "tau" else (0.0 if param == "kappa" else 0.5 * low, math.inf)
    )
    low, high = max(low - margin, bounds[0]), min(high + margin, bounds[1])
    return np.linspace(low, high, points), made.estimate


def _held(setup: Setup, param: str, value: float) -> Problem:
    """Return the problem with kappa or sigma held."""
    if param == "kappa":
        return replace(setup.problem, kappa=value)
    theta = setup.scale / (value * setup.basis.matrix[-1, -1])
    return replace(setup.problem, theta=theta)


def _line(
    setup: Setup, problem: Problem, taus: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods along tau, and the unknowns at its middle, from where the fits start."""
    values = np.empty(taus.size)
    middle = taus.size // 2
    centre = start
    for order in (range(middle, taus.size), range(middle - 1, -1, -1)):
        z = centre
        for i in order:
            if problem.theta is not None:
                z = z * (problem.theta / z[-1])
            fit = fit_at(problem, float(taus[i]), z, warm=True)
            if not fit.proved(problem.n):
                warn_caller(
                    f"the fit at tau = {taus[i]:.4g} is proved to {fit.gap:.2g} only",
                    ConvergenceWarning,
                )
            values[i] = attained(fit, replace(setup, problem=problem))
            z = fit.z
            if i == middle:
                centre = fit.z
    return values, centre


def _surface(
    data: ModelData,
    best: Solution,
    other: str,
    first: FloatArray,
    second: FloatArray,
    progress: bool,
) -> FloatArray:
    """Return the log-likelihoods on a grid, from its middle outwards."""
    obs = data.observations
    task = task_of(
        best.kappa, None, data.space.sigma, data.tau_bounds, reml=best.p > 0.0, rank=best.p or None
    )
    setup = set_up(rows_of(obs.exog, obs.endog, obs.case_weights, obs.offset), task)
    z, _ = start_of(setup.basis, best, setup.scale, setup.task)
    loglikes = np.empty((second.size, first.size))
    middle = second.size // 2
    order = [*range(middle, second.size), *range(middle - 1, -1, -1)]
    here = centre = z
    for i in with_progress(order, progress, f"profile of tau and {other}"):
        here = centre if i == middle - 1 else here
        loglikes[i], here = _line(setup, _held(setup, other, float(second[i])), first, here)
        centre = here if i == middle else centre
    return loglikes


def profile_surface(
    data: ModelData,
    solution: Solution,
    params: tuple[str, str] = ("tau", "kappa"),
    *,
    grids: tuple[Any, Any] | None = None,
    points: int = 25,
    progress: bool = False,
) -> ProfileSurface:
    """Return the profile likelihood of tau and one of kappa and sigma.

    Parameters
    ----------
    data : ModelData
        The model.
    solution : Solution
        Its fit.
    params : (str, str)
        ("tau", "kappa") or ("tau", "sigma"). Those that the model fixes are estimated for this.
    grids : (array_like, array_like), optional
        Values of both; by default `points` each, beyond the 99 % region.
    points : int
        Number of values of each.
    progress : bool
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.model_data import model_data
    >>> from qhreg.profile.surface import profile_surface
    >>> from qhreg.solver import solve
    >>> y = np.random.default_rng(0).laplace(size=200)
    >>> data = model_data(np.ones((200, 1)), y)
    >>> made = profile_surface(data, solve(np.ones((200, 1)), y), ("tau", "sigma"), points=5)
    >>> made.loglikes.shape
    (5, 5)
    """
    if tuple(params) not in (("tau", "kappa"), ("tau", "sigma")):
        raise DomainError(f"params must be ('tau', 'kappa') or ('tau', 'sigma'), got {params!r}")
    other = params[1]
    space = data.space
    if other == "sigma" and space.kappa is None:
        raise DomainError("the surface of (tau, sigma) needs a width: fix kappa in the model")
    free = data
    for param in params:
        if getattr(space, param) is not None:
            free = free.freed(param)
    best = solution if free is data else refit(free, {}, solution, search=None)
    if grids is None:
        first, _ = _default_grid(free, best, "tau", points)
        second, _ = _default_grid(free, best, other, points)
    else:
        first, second = (np.sort(np.ravel(np.asarray(g, dtype=np.float64))) for g in grids)
    with one_blas_thread(data.observations.exog.size):
        loglikes = _surface(free, best, other, first, second, progress)
    highest = max(best.loglike_restricted, float(loglikes.max()))
    estimate = (best.tau, float(getattr(best, other)))
    return ProfileSurface(
        (params[0], other),
        estimate,
        highest,
        first,
        second,
        loglikes,
        (space.tau, getattr(space, other)),
    )
