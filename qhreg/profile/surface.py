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
from qhreg.diagnostics.figures import SurfaceFigure
from qhreg.exceptions import DomainError
from qhreg.inference.hypothesis_tests import lr_cut
from qhreg.profile.curve import tau_curve
from qhreg.profile.likelihood import profile_intervals
from qhreg.progress import with_progress
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, refit

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
    df_resid : float
        m of the F law.
    fixed : pair of float or None
        The values at which the model fixes them, if it does.
    """

    params: tuple[str, str]
    estimate: tuple[float, float]
    loglike: float
    first: FloatArray
    second: FloatArray
    loglikes: FloatArray
    df_resid: float
    fixed: tuple[float | None, float | None] = (None, None)

    @property
    def lr(self) -> FloatArray:
        """The likelihood ratio statistic, shape (b, a)."""
        return np.maximum(2.0 * (self.loglike - self.loglikes), 0.0)

    def critical_value(self, alpha: float) -> float:
        """Return the critical value of `lr` for two parameters, by the F law."""
        return lr_cut(alpha, self.df_resid, df=2)

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
    data: ModelData, solution: Solution, param: str, points: int, cut: float
) -> FloatArray:
    """Return values that reach beyond the region within a critical value: its shadow, and a margin."""
    interval = profile_intervals(data, solution, cut=cut, params=[param])
    low, high = interval[0].tolist()
    if param == "kappa":
        high = min(high, OPEN_END * max(solution.kappa, 1.0))
    margin = 0.06 * (high - low)
    ends = {"tau": data.tau_bounds, "kappa": (0.0, math.inf), "sigma": (0.5 * low, math.inf)}[param]
    return np.linspace(max(low - margin, ends[0]), min(high + margin, ends[1]), points)


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
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.profile.surface import profile_surface
    >>> from qhreg.solver import solve
    >>> y = np.random.default_rng(0).laplace(size=200)
    >>> data = QuantileHuberMLE(y, np.ones((200, 1))).model_data()
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
    free = replace(free, reml=solution.p > 0.0, rank=solution.p or None)
    best = solution if space == free.space else refit(free, None, solution)
    if grids is None:
        cut = lr_cut(0.01, best.n - best.p, df=2)
        first, second = (_default_grid(free, best, name, points, cut) for name in params)
    else:
        first, second = (np.sort(np.ravel(np.asarray(g, dtype=np.float64))) for g in grids)
    loglikes = np.empty((second.size, first.size))
    outwards = np.argsort(np.abs(first - best.tau), kind="stable")
    for i in with_progress(range(second.size), progress, f"profile of tau and {other}"):
        value = float(second[i])
        held = replace(free.space, sigma=value) if other == "sigma" else free.space
        width = value if other == "kappa" else best.kappa
        curve = tau_curve(replace(free, space=held), best, width)
        for j in outwards:
            loglikes[i, j] = curve(float(first[j])).loglike
    return ProfileSurface(
        (params[0], other),
        (best.tau, float(getattr(best, other))),
        max(best.loglike_restricted, float(loglikes.max())),
        first,
        second,
        loglikes,
        best.n - best.p,
        (space.tau, getattr(space, other)),
    )
