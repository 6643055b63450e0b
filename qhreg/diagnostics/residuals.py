"""The numbers behind the diagnostic plots: residuals against the fitted law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import (
    DensityFigure,
    FitFigure,
    PitFigure,
    QQFigure,
    ResidualFigure,
    ScaleLocationFigure,
    TauLossFigure,
    WormFigure,
)
from qhreg.engine.weighted_quantile import weighted_quantiles
from qhreg.exceptions import DataError, DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.solver.over_tau import best_tau
from qhreg.specification.parameters import RowLaw

__all__ = [
    "LEVELS",
    "density_figure",
    "fit_figure",
    "group_quantiles",
    "groups_of_rows",
    "normal_scores",
    "pit_figure",
    "plotting_positions",
    "qq_figure",
    "residual_figure",
    "scale_location_figure",
    "tau_loss_figure",
    "thinned",
    "worm_figure",
]


SHOWN = 2000
"""Rows that a scatter shows; of more, a random choice, the same for the same data."""

LONGER = 1.5
"""How much longer an axis has to be for the farthest residuals until they are drawn at its edge."""

EQUAL = 1e-9
"""Share of their range by which values that count as equal may differ."""

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantile bands."""


def thinned(n: int) -> npt.NDArray[np.intp]:
    """Return the rows that a scatter shows."""
    if n <= SHOWN:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, SHOWN, replace=False))


def groups_of_rows(
    values: FloatArray, count: int, weights: FloatArray | None = None
) -> list[npt.NDArray[np.intp]]:
    """Return the rows in up to `count` groups of similar values and about equal size.

    Rows with equal values are in one group: the levels of a factor are not cut, nor mixed with
    others more than the number of groups demands. Rows without weight are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.diagnostics.residuals import groups_of_rows
    >>> [group.tolist() for group in groups_of_rows(np.array([1.0, 0, 1, 1, 0, 1]), 3)]
    [[1, 4], [0, 2, 3, 5]]
    """
    rows = np.arange(values.size) if weights is None else np.flatnonzero(weights > 0.0)
    order = rows[np.argsort(values[rows], kind="stable")]
    if order.size == 0:
        return []
    ordered = values[order]
    ends = np.flatnonzero(np.diff(ordered) > EQUAL * (ordered[-1] - ordered[0])) + 1
    ends = np.concatenate([[0], ends, [order.size]])
    wanted = np.cumsum([part.size for part in np.array_split(order, count)])[:-1]
    nearest = ends[np.abs(ends - wanted[:, None]).argmin(axis=1)] if wanted.size else wanted
    return [part for part in np.split(order, np.unique(nearest)) if part.size > 0]


def group_quantiles(
    values: FloatArray, levels: Sequence[float], weights: FloatArray | None = None
) -> FloatArray:
    """Return quantiles of the values in one group, of the weighted ones where there are weights."""
    if weights is None:
        return np.asarray(np.quantile(values, levels))
    return np.array(weighted_quantiles(values, levels, weights))


def plotting_positions(values: Any, weights: Any = None) -> tuple[FloatArray, FloatArray]:
    """Return the sorted values and the level of each: (i - 1/2) / n without weights.

    Parameters
    ----------
    values : array_like, shape (n,)
        Any order.
    weights : array_like, shape (n,), optional
        Case weights.

    Examples
    --------
    >>> from qhreg.diagnostics.residuals import plotting_positions
    >>> values, levels = plotting_positions([3.0, 1.0])
    >>> values.tolist(), levels.tolist()
    ([1.0, 3.0], [0.25, 0.75])
    """
    u = np.asarray(values, dtype=np.float64)
    if u.ndim != 1 or u.size == 0:
        raise DataError(f"residuals must be a non-empty vector, got shape {u.shape}")
    order = np.argsort(u, kind="stable")
    if weights is None:
        return u[order], (np.arange(u.size) + 0.5) / u.size
    w = np.asarray(weights, dtype=np.float64)[order]
    return u[order], (np.cumsum(w) - 0.5 * w) / w.sum()


def normal_scores(u: Any, tau: float, kappa: float) -> FloatArray:
    """Return the normal quantiles of the fitted distribution function, each from its smaller tail.

    Parameters
    ----------
    u : array_like
        Standardised residuals.
    tau, kappa : float
        The fitted law.
    """
    u = np.asarray(u, dtype=np.float64)
    lower = stats.norm.ppf(quantile_huber.cdf(u, tau, kappa))
    upper = stats.norm.isf(quantile_huber.sf(u, tau, kappa))
    scores: FloatArray = np.where(u < 0.0, lower, upper)
    return scores


def density_figure(
    u: Any, tau: float, kappa: float, *, weights: Any = None, bins: int | None = None
) -> DensityFigure:
    """Return the histogram of standardised residuals with the fitted density.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    tau, kappa : float
        The fitted law.
    weights : array_like, shape (n,), optional
        Case weights.
    bins : int, optional
        Number of bins; by default as many as make each 1.5 quartile ranges over the cube root of n
        wide, between 12 and 80.
    """
    u = np.asarray(u, dtype=np.float64)
    # far outliers would leave one bar: the view ends where a tenth of an observation is expected
    far = 0.1 / u.size
    view = quantile_huber.ppf(far, tau, kappa), quantile_huber.isf(far, tau, kappa)
    low, high = max(float(u.min()), float(view[0])), min(float(u.max()), float(view[1]))
    if not low < high:
        low, high = float(view[0]), float(view[1])
    if bins is None:
        quartiles = np.quantile(u, [0.25, 0.75])
        width = 1.5 * float(quartiles[1] - quartiles[0]) * u.size ** (-1.0 / 3.0)
        bins = int(np.clip((high - low) / max(width, 1e-300), 12, 80))
    edges = np.linspace(low, high, bins + 1)
    counts, _ = np.histogram(u, edges, weights=weights)
    total = float(u.size if weights is None else np.sum(weights))
    x = np.linspace(low, high, 601)
    return DensityFigure(
        edges,
        counts / (total * np.diff(edges)),
        x,
        quantile_huber.pdf(x, tau, kappa),
        (-kappa * tau, kappa * (1.0 - tau)),
        f"tau = {tau:.3f}, kappa = {kappa:.3g}",
        int(np.count_nonzero((u < low) | (u > high))),
    )


def qq_figure(
    u: Any,
    tau: float,
    kappa: float,
    *,
    weights: Any = None,
    simulated: FloatArray | None = None,
    level: float = 0.95,
) -> QQFigure:
    """Return quantiles of the residuals against those of the fitted law.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    tau, kappa : float
        The fitted law.
    weights : array_like, shape (n,), optional
        Case weights.
    simulated : ndarray, shape (B, n), optional
        Sorted standardised residuals of samples from the fitted model, for the envelope.
    level : float
        Share of the samples inside the envelope at each point.
    """
    observed, positions = plotting_positions(u, weights)
    shown = thinned(observed.size)
    if shown.size < observed.size:  # the ends tell most
        shown = np.unique(np.concatenate([np.arange(50), shown, observed.size - 1 - np.arange(50)]))
    theoretical = _quantiles(positions[shown], tau, kappa)
    lower = upper = None
    if simulated is not None:
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        lower, upper = np.quantile(simulated[:, shown], tails, axis=0)
    count = 0 if simulated is None else simulated.shape[0]
    return QQFigure(theoretical, observed[shown], lower, upper, level, count)


def _quantiles(levels: FloatArray, tau: Any, kappa: float) -> FloatArray:
    """Return quantiles of the law, each from its smaller tail."""
    lower = quantile_huber.ppf(np.minimum(levels, 0.5), tau, kappa)
    upper = quantile_huber.isf(np.minimum(1.0 - levels, 0.5), tau, kappa)
    quantiles: FloatArray = np.where(levels <= 0.5, lower, upper)
    return quantiles


def worm_figure(
    u: Any,
    tau: float,
    kappa: float,
    *,
    weights: Any = None,
    nobs: float | None = None,
    simulated: FloatArray | None = None,
    level: float = 0.95,
) -> WormFigure:
    r"""Return the detrended normal quantile plot of the quantile residuals.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    tau, kappa : float
        The fitted law.
    weights : array_like, shape (n,), optional
        Case weights.
    nobs : float, optional
        Observations that the weights stand for; their sum by default.
    simulated : ndarray, shape (B, n), optional
        Sorted quantile residuals of refitted samples, for the limits.
    level : float
        Coverage of the pointwise limits.

    Notes
    -----
    Without simulated samples the limits are :math:`\pm z\,\sqrt{p(1-p)/n}/\varphi(x)` with
    :math:`p = \Phi(x)`: those of a sample quantile of known law, too wide for residuals of an
    estimated one.
    """
    sorted_u, positions = plotting_positions(u, weights)
    scores = normal_scores(sorted_u, tau, kappa)
    normal = stats.norm.ppf(positions)
    shown = thinned(sorted_u.size)
    deviation = scores[shown] - normal[shown]
    if simulated is not None:
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        lower, upper = np.quantile(simulated[:, shown], tails, axis=0) - normal[shown]
        count = simulated.shape[0]
        return WormFigure(normal[shown], deviation, normal[shown], lower, upper, level, count)
    n = _count(sorted_u.size, weights, nobs)
    x = np.linspace(float(normal[0]), float(normal[-1]), 201)
    p = stats.norm.cdf(x)
    z = float(stats.norm.ppf(0.5 * (1.0 + level)))
    half = z * np.sqrt(p * (1.0 - p) / n) / stats.norm.pdf(x)
    return WormFigure(normal[shown], deviation, x, -half, half, level)


def _count(rows: int, weights: Any, nobs: float | None) -> float:
    """Return the number of observations."""
    if nobs is not None:
        return float(nobs)
    return float(rows if weights is None else np.sum(weights))


def pit_figure(
    u: Any,
    tau: float,
    kappa: float,
    *,
    weights: Any = None,
    nobs: float | None = None,
    bins: int | None = None,
    level: float = 0.95,
) -> PitFigure:
    """Return the histogram of the fitted distribution function at the responses.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    tau, kappa : float
        The fitted law.
    weights : array_like, shape (n,), optional
        Case weights.
    nobs : float, optional
        Observations that the weights stand for; their sum by default.
    bins : int, optional
        Number of bins; by default one for 15 residuals, between 5 and 20.
    level : float
        Coverage of the binomial limits of one bin.
    """
    pit = quantile_huber.cdf(np.asarray(u, dtype=np.float64), tau, kappa)
    if bins is None:
        bins = int(np.clip(pit.size // 15, 5, 20))
    counts, edges = np.histogram(pit, bins, (0.0, 1.0), weights=weights)
    total = _count(pit.size, weights, None)
    n = max(round(_count(pit.size, weights, nobs)), 1)
    tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
    limits = np.asarray(stats.binom.ppf(tails, n, 1.0 / bins))
    lower, upper = limits * bins / n
    return PitFigure(edges, counts * bins / total, float(lower), float(upper), level)


def residual_figure(
    fitted: Any,
    resid: Any,
    tau: float,
    kappa: float,
    sigma: float,
    *,
    levels: Sequence[float] = LEVELS,
    groups: int | None = None,
    weights: Any = None,
) -> ResidualFigure:
    """Return residuals against fitted values, with fitted and empirical quantiles.

    Parameters
    ----------
    fitted, resid : array_like, shape (n,)
        Fitted values and residuals.
    tau, kappa, sigma : float
        The fitted law.
    levels : sequence of float
        Levels of the quantiles.
    groups : int, optional
        Groups of similar fitted values, of about equal size, in which the empirical quantiles are
        taken; by default up to eight of at least 20 rows. Equal values are in one group.
    weights : array_like, shape (n,), optional
        Case weights of the empirical quantiles.
    """
    f, r = np.asarray(fitted, dtype=np.float64), np.asarray(resid, dtype=np.float64)
    wanted = _check_levels(levels)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    count = _group_count(f.size) if groups is None else groups
    parts = groups_of_rows(f, count, w)
    centres = np.array([np.median(f[part]) for part in parts])
    empirical = np.array(
        [group_quantiles(r[part], wanted, None if w is None else w[part]) for part in parts]
    )
    shown = thinned(f.size)
    return ResidualFigure(
        f[shown],
        r[shown],
        wanted,
        sigma * _quantiles(np.array(wanted), tau, kappa),
        centres,
        empirical.reshape(len(parts), len(wanted)),
        shown.size,
        f.size,
        _view(r[shown], empirical, tau, kappa, sigma),
    )


def _view(
    r: FloatArray, empirical: FloatArray, tau: float, kappa: float, sigma: float
) -> tuple[float, float] | None:
    """Return ends of an axis where a residual is too far out for one that shows all; else None.

    A residual is too far out where the fitted law expects less than a tenth of one beyond it, and an
    axis that shows it is longer by a half.
    """
    far = 0.1 / r.size
    law = quantile_huber.ppf(far, tau, kappa), quantile_huber.isf(far, tau, kappa)
    low = min(sigma * float(law[0]), float(empirical.min()))
    high = max(sigma * float(law[1]), float(empirical.max()))
    view = max(low, float(r.min())), min(high, float(r.max()))
    if not np.ptp(r) > LONGER * (view[1] - view[0]) > 0.0:
        return None
    room = 0.05 * (view[1] - view[0])
    return view[0] - room, view[1] + room


def _check_levels(levels: Sequence[float]) -> tuple[float, ...]:
    wanted = tuple(sorted(float(level) for level in levels))
    if not wanted or not 0.0 < wanted[0] <= wanted[-1] < 1.0:
        raise DomainError(f"levels must lie between 0 and 1, got {levels!r}")
    return wanted


def fit_figure(
    x: Any,
    at_rows: RowLaw,
    u: Any,
    grid: Any,
    at_grid: RowLaw,
    *,
    levels: Sequence[float] = LEVELS,
    names: tuple[str, str] = ("x", "y"),
    others: str = "",
    categories: Sequence[Any] | None = None,
    n_rows: int | None = None,
) -> FitFigure:
    r"""Return the fit along one regressor, the others at typical values, with fitted quantiles.

    Parameters
    ----------
    x : array_like, shape (m,)
        The regressor in the rows shown.
    at_rows : RowLaw
        The law there, with the others at typical values.
    u : array_like, shape (m,)
        Standardised residuals of the rows.
    grid : array_like, shape (g,)
        Values of the regressor.
    at_grid : RowLaw
        The law there, with the others at typical values.
    levels : sequence of float
        Levels of the quantiles.
    names : (str, str)
        Names of the regressor and the response.
    others : str
        The other regressors with their values.
    categories : sequence, optional
        The levels of a factor, whose places `x` and `grid` are.
    n_rows : int, optional
        Rows there are; those shown by default.

    Notes
    -----
    A row is drawn at :math:`\mu(x_i) + \sigma(x_i) u_i`, with the location and scale that it would have
    if the others were typical: with one regressor, at its response.
    """
    wanted = _check_levels(levels)
    y = at_rows.location + at_rows.sigma * np.asarray(u, dtype=np.float64)
    sigma, tau = (v[:, None] if np.ndim(v) else v for v in (at_grid.sigma, at_grid.tau))
    bands = sigma * _quantiles(np.array(wanted), tau, at_grid.kappa)
    return FitFigure(
        np.asarray(x, dtype=np.float64),
        y,
        np.asarray(grid, dtype=np.float64),
        at_grid.location,
        wanted,
        at_grid.location[:, None] + bands,
        *names,
        others,
        None if categories is None else tuple(map(str, categories)),
        y.size,
        y.size if n_rows is None else n_rows,
    )


def scale_location_figure(
    fitted: Any,
    u: Any,
    tau: float,
    kappa: float,
    *,
    weights: Any = None,
    nobs: float | None = None,
    level: float = 0.95,
) -> ScaleLocationFigure:
    r"""Return roots of absolute quantile residuals against fitted values, with their group means.

    Parameters
    ----------
    fitted, u : array_like, shape (n,)
        Fitted values and standardised residuals.
    tau, kappa : float
        The fitted law.
    weights : array_like, shape (n,), optional
        Case weights of the means.
    nobs : float, optional
        Observations that the weights stand for; their sum by default.
    level : float
        Coverage of the limits of a mean.

    Notes
    -----
    A quantile residual z is standard normal when the model is true, so that
    :math:`E\sqrt{|z|} = 2^{1/4}\Gamma(3/4)/\sqrt\pi = 0.822` whatever the asymmetry is, with variance
    :math:`\sqrt{2/\pi} - 0.822^2`. Means that rise with the fitted value show a spread that does [1]_.

    References
    ----------
    .. [1] W. S. Cleveland (1993), Visualizing Data, Hobart Press: the spread-location plot.

    Examples
    --------
    >>> from qhreg.diagnostics.residuals import scale_location_figure
    >>> figure = scale_location_figure([0.0, 1.0], [-1.0, 1.0], 0.5, 1.0)
    >>> round(figure.expected, 3)
    0.822
    """
    f, root = np.asarray(fitted, dtype=np.float64), np.sqrt(np.abs(normal_scores(u, tau, kappa)))
    w = np.ones(f.size) if weights is None else np.asarray(weights, dtype=np.float64)
    parts = groups_of_rows(f, _group_count(f.size), w)
    counts = np.array([w[part].sum() for part in parts]) * _count(f.size, weights, nobs) / w.sum()
    expected = 2.0**0.25 * special.gamma(0.75) / np.sqrt(np.pi)
    spread = np.sqrt(np.sqrt(2.0 / np.pi) - expected**2)
    z = float(stats.norm.ppf(0.5 * (1.0 + level)))
    shown = thinned(f.size)
    return ScaleLocationFigure(
        f[shown],
        root[shown],
        np.array([np.median(f[part]) for part in parts]),
        np.array([np.average(root[part], weights=w[part]) for part in parts]),
        z * spread / np.sqrt(counts),
        float(expected),
        level,
        shown.size,
        f.size,
    )


def _group_count(rows: int) -> int:
    """Return the number of groups of rows with similar fitted values: up to eight of at least 20."""
    return min(8, max(rows // 20, 1))


def tau_loss_figure(
    u: Any,
    kappa: float,
    *,
    weights: Any = None,
    taus: Any = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
) -> TauLossFigure:
    r"""Return the mean loss of given residuals over tau: un-normalised, normaliser, and their sum.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    kappa : float
        Huber width.
    weights : array_like, shape (n,), optional
        Case weights.
    taus : array_like, optional
        Asymmetries; by default 181 values from 0.05 to 0.95, or to the best tau where it lies beyond.
    tau_bounds : (float, float)
        Where to look for the best tau.

    Notes
    -----
    :math:`\bar\rho_\tau(u)` is concave in tau (a minimum over tau alone would run to an end of its
    range), :math:`\log c(\tau)` convex, and their sum the negative log-likelihood per observation
    up to :math:`\log\sigma`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.diagnostics.residuals import tau_loss_figure
    >>> figure = tau_loss_figure(np.array([-1.0, 1.0]), 1.0)
    >>> round(figure.best[0], 6)
    0.5
    """
    residuals = np.asarray(u, dtype=np.float64)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)

    def mean_losses(at: Any) -> FloatArray:
        losses = [quantile_huber_loss(residuals, float(tau), kappa) for tau in np.atleast_1d(at)]
        return np.array([np.average(loss, weights=w) for loss in losses])

    grid = np.linspace(0.05, 0.95, 181) if taus is None else np.asarray(taus, dtype=np.float64)
    loss, log_c = mean_losses(grid), np.asarray(log_normalizer(grid, kappa))
    start = float(grid[int(np.argmin(loss + log_c))])
    best = best_tau(residuals, kappa, weights=w, tau_bounds=tau_bounds, start=start)
    if taus is None and not grid[0] <= best <= grid[-1]:
        grid = np.linspace(min(grid[0], best), max(grid[-1], best), grid.size)
        loss, log_c = mean_losses(grid), np.asarray(log_normalizer(grid, kappa))
    value = float(mean_losses(best)[0]) + float(log_normalizer(best, kappa))
    return TauLossFigure(grid, loss, log_c, loss + log_c, (best, value), kappa)
