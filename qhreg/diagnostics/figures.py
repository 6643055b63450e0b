"""The numbers that each plot draws, in the order in which it draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qhreg._typing import FloatArray


@dataclass(frozen=True)
class ProfileFigure:
    """The likelihood ratio along one parameter.

    Attributes
    ----------
    param : str
        The parameter.
    x, lr : ndarray, shape (m,)
        The curve.
    points_x, points_lr : ndarray
        The fits.
    estimate : float
        Where the ratio is zero.
    cuts : tuple of (float, float)
        Levels alpha and their critical values.
    level : float
        Nominal coverage of the interval.
    interval : (float, float)
        Its limits.
    is_open : (bool, bool)
        Whether a limit is the end of the range.
    wald : ndarray, shape (m,), or None
        The parabola of the standard error on `x`.
    certified : ndarray, shape (m,), or None
        A proved lower bound of the ratio on `x`.
    fixed : float or None
        The value at which the model fixes the parameter.
    maxima : tuple of (float, float)
        Other local maxima of the likelihood, each with its ratio.
    cut_given : bool
        Whether the cut is a number that was given for every level.
    elsewhere : tuple of (float, float)
        Other intervals of `x` on which the ratio is below the cut of the interval.
    """

    param: str
    x: FloatArray
    lr: FloatArray
    points_x: FloatArray
    points_lr: FloatArray
    estimate: float
    cuts: tuple[tuple[float, float], ...]
    level: float
    interval: tuple[float, float]
    is_open: tuple[bool, bool]
    wald: FloatArray | None
    certified: FloatArray | None
    fixed: float | None
    maxima: tuple[tuple[float, float], ...] = ()
    cut_given: bool = False
    elsewhere: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class SurfaceFigure:
    """The likelihood ratio over two parameters.

    Attributes
    ----------
    params : (str, str)
        Names, the horizontal one first.
    x, y : ndarray, shapes (a,) and (b,)
        The grid.
    lr : ndarray, shape (b, a)
        The ratio.
    estimate : (float, float)
        Where it is zero.
    cuts : tuple of (float, float)
        Levels alpha and their critical values, increasing.
    fixed : pair of float or None
        The values at which the model fixes the parameters.
    """

    params: tuple[str, str]
    x: FloatArray
    y: FloatArray
    lr: FloatArray
    estimate: tuple[float, float]
    cuts: tuple[tuple[float, float], ...]
    fixed: tuple[float | None, float | None]


@dataclass(frozen=True)
class TauLossFigure:
    """The mean loss of given residuals over tau.

    Attributes
    ----------
    taus : ndarray, shape (m,)
        The asymmetries.
    loss : ndarray, shape (m,)
        Mean of rho: concave.
    log_c : ndarray, shape (m,)
        The normaliser: convex.
    total : ndarray, shape (m,)
        Their sum.
    best : (float, float)
        Where the sum is least, and its value there.
    """

    taus: FloatArray
    loss: FloatArray
    log_c: FloatArray
    total: FloatArray
    best: tuple[float, float]


@dataclass(frozen=True)
class DensityFigure:
    """Histogram of the standardised residuals with the fitted density.

    Attributes
    ----------
    edges, heights : ndarray, shapes (m + 1,) and (m,)
        The histogram, of area one where it shows all residuals.
    x, density : ndarray
        The fitted density.
    zone : (float, float)
        Ends of the quadratic zone.
    label : str
        The law.
    beyond : int
        Residuals outside the histogram.
    """

    edges: FloatArray
    heights: FloatArray
    x: FloatArray
    density: FloatArray
    zone: tuple[float, float]
    label: str
    beyond: int = 0


@dataclass(frozen=True)
class QuantileFigure:
    """Quantiles of the residuals, or how far they are from the normal ones, against the law's.

    Attributes
    ----------
    theoretical, observed : ndarray, shape (m,)
        The quantiles of the law, and those of the residuals or their deviation.
    lower, upper : ndarray, shape (m,), or None
        Pointwise limits of the observed ones.
    level : float
        Their coverage.
    n_simulations : int
        Refitted samples from the fit behind the limits; 0 for those of a sample quantile.
    """

    theoretical: FloatArray
    observed: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    level: float
    n_simulations: int


@dataclass(frozen=True)
class PitFigure:
    """Histogram of the probability integral transform.

    Attributes
    ----------
    edges, heights : ndarray, shapes (m + 1,) and (m,)
        Density of the bins: one when the model is true.
    lower, upper : float
        Pointwise limits of a bin.
    level : float
        Their coverage.
    """

    edges: FloatArray
    heights: FloatArray
    lower: float
    upper: float
    level: float


@dataclass(frozen=True)
class ResidualFigure:
    """Residuals against fitted values.

    Attributes
    ----------
    fitted, resid : ndarray, shape (m,)
        The rows shown.
    levels : tuple of float
        Levels of the quantiles.
    bands : ndarray, shape (number of levels,)
        Quantiles of the fitted law.
    centres : ndarray, shape (b,)
        Middle of groups of rows with similar fitted values.
    empirical : ndarray, shape (b, number of levels)
        Quantiles of the residuals in each group.
    n_rows : int
        Rows there are.
    view : (float, float) or None
        Ends of the vertical axis, where a residual lies far outside the fitted law.
    """

    fitted: FloatArray
    resid: FloatArray
    levels: tuple[float, ...]
    bands: FloatArray
    centres: FloatArray
    empirical: FloatArray
    n_rows: int
    view: tuple[float, float] | None = None


@dataclass(frozen=True)
class ScaleLocationFigure:
    """Roots of absolute quantile residuals against fitted values.

    Attributes
    ----------
    fitted, root : ndarray, shape (m,)
        The rows shown.
    centres, means : ndarray, shape (b,)
        Middle of groups of rows with similar fitted values, and the mean root in each.
    half : ndarray, shape (b,)
        How far a mean is from `expected` at most in a share `level` of groups when the model is true.
    expected : float
        The mean root when the model is true.
    level : float
        The share.
    n_rows : int
        Rows there are.
    """

    fitted: FloatArray
    root: FloatArray
    centres: FloatArray
    means: FloatArray
    half: FloatArray
    expected: float
    level: float
    n_rows: int


@dataclass(frozen=True)
class FitFigure:
    """The fit along one regressor with fitted quantiles.

    Attributes
    ----------
    x, y : ndarray, shape (m,)
        The rows shown; y without what other regressors explain beyond their typical values.
    grid, location : ndarray, shape (g,)
        The fitted line.
    levels : tuple of float
        Levels of the quantiles.
    bands : ndarray, shape (g, number of levels)
        Fitted quantiles.
    x_name, y_name : str
        Names of the axes.
    others : str
        The other regressors with their values.
    categories : sequence or None
        The levels of a factor, whose places x and the grid are.
    n_rows : int
        Rows there are.
    """

    x: FloatArray
    y: FloatArray
    grid: FloatArray
    location: FloatArray
    levels: tuple[float, ...]
    bands: FloatArray
    x_name: str
    y_name: str
    others: str
    categories: Sequence[Any] | None
    n_rows: int


@dataclass(frozen=True)
class PartialResidualFigure:
    """Component plus residual of one regressor.

    Attributes
    ----------
    x, partial : ndarray, shape (m,)
        The rows shown: the regressor, and its component plus the residual.
    line_x, line : ndarray, shape (g,)
        The fitted component.
    centres, empirical : ndarray, shape (b,)
        Middle of groups of rows with similar x, and there the component plus the quantile of the
        residuals of the group at `level`: near the component when that is right.
    level : float
        Share of the rows below the fit.
    name, term : str
        The regressor, and the term of the formula whose component it is.
    categories : sequence or None
        The levels of a factor, whose places x are.
    n_rows : int
        Rows there are.
    """

    x: FloatArray
    partial: FloatArray
    line_x: FloatArray
    line: FloatArray
    centres: FloatArray
    empirical: FloatArray
    level: float
    name: str
    term: str
    categories: Sequence[Any] | None
    n_rows: int


@dataclass(frozen=True)
class ProcessFigure:
    """Coefficients over tau with pointwise intervals.

    Attributes
    ----------
    names : tuple of str, length s
        The coefficients.
    taus : ndarray, shape (m,)
        The values of tau.
    estimates, lower, upper : ndarray, shape (m, s)
        The estimates and their limits.
    level : float
        Coverage of the limits at each tau.
    kappa : float
        Huber width.
    reference : ndarray, shape (s, 3), or None
        Value, lower and upper limit of a fit that does not depend on tau.
    reference_name : str
        That fit.
    reference_tau : float or None
        Its asymmetry; None for least squares.
    by_quantile : bool
        Whether the horizontal axis is the quantile level 1 - tau.
    """

    names: tuple[str, ...]
    taus: FloatArray
    estimates: FloatArray
    lower: FloatArray
    upper: FloatArray
    level: float
    kappa: float
    reference: FloatArray | None
    reference_name: str
    reference_tau: float | None
    by_quantile: bool = False
