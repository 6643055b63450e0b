"""The numbers behind the diagnostic plots: residuals against the fitted law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from qhreg._typing import FloatArray, IntArray
from qhreg.diagnostics.figures import (
    DensityFigure,
    PitFigure,
    QuantileFigure,
    ResidualFigure,
    ScaleLocationFigure,
    TauLossFigure,
)
from qhreg.engine.rows import weighted_quantiles
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.family.loss import quantile_huber_loss
from qhreg.family.normalizer import log_normalizer
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.solver.over_tau import best_tau

SHOWN = 2000
"""Rows that a scatter shows; of more, a random choice, the same for the same data."""

EQUAL = 1e-9
"""Share of their range by which values that count as equal may differ."""

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantile bands."""


@dataclass(frozen=True)
class StandardizedResiduals:
    """Residuals over sigma, with the law that they have in the fit.

    Attributes
    ----------
    u : ndarray, shape (n,)
        The residuals.
    tau, kappa : float
        Asymmetry and width of the law.
    weights : ndarray, shape (n,), or None
        Case weights.
    nobs : float or None
        Observations that the residuals stand for; by default the sum of the weights.
    simulated : sequence of StandardizedResiduals
        Those of refitted samples from the fit, for envelopes.
    """

    u: FloatArray
    tau: float
    kappa: float
    weights: FloatArray | None = None
    nobs: float | None = None
    simulated: Sequence[StandardizedResiduals] = ()

    @property
    def case_weights(self) -> FloatArray:
        """The weights, one for each residual where none are given."""
        return np.ones(len(self.u)) if self.weights is None else self.weights

    @property
    def count(self) -> float:
        """Number of observations."""
        return float(self.case_weights.sum()) if self.nobs is None else self.nobs

    @property
    def ends(self) -> FloatArray:
        """Where the law expects a tenth of one of the residuals below, and above."""
        far = 0.1 / len(self.u)
        law = quantile_huber(self.tau, self.kappa)
        return np.array([law.ppf(far), law.isf(far)])

    @property
    def ordered(self) -> tuple[FloatArray, FloatArray]:
        """The residuals in increasing order, and the level of each: (i - 1/2) / n without weights."""
        order = np.argsort(self.u, kind="stable")
        weights = self.case_weights[order]
        return self.u[order], (np.cumsum(weights) - 0.5 * weights) / weights.sum()

    @property
    def scores(self) -> FloatArray:
        """The quantile residuals."""
        return normal_scores(self.u, self.tau, self.kappa)


def thinned(n: int) -> IntArray:
    """Return the rows that a scatter shows."""
    if n <= SHOWN:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, SHOWN, replace=False))


def groups_of_rows(
    values: FloatArray, count: int, weights: FloatArray | None = None
) -> list[IntArray]:
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
    rows = np.arange(values.size) if weights is None else np.flatnonzero(weights)
    steps = (values[rows] - values.min()) / (EQUAL * np.ptp(values) or 1.0)
    ranks = stats.rankdata(np.round(steps)) - 0.5
    groups = np.ceil(ranks * max(count, 1) / rows.size)
    return [rows[groups == group] for group in np.unique(groups)]


def group_quantiles(
    values: FloatArray, levels: Sequence[float], weights: FloatArray | None, rows: IntArray
) -> FloatArray:
    """Return quantiles of the values in a group of rows, with weights the weighted ones."""
    if weights is None:
        return np.asarray(np.quantile(values[rows], levels))
    return np.array(weighted_quantiles(values[rows], levels, weights[rows]))


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


def density_figure(sample: StandardizedResiduals, bins: int | None = None) -> DensityFigure:
    """Return the histogram of standardised residuals with the fitted density.

    Parameters
    ----------
    sample : StandardizedResiduals
        The residuals.
    bins : int, optional
        Number of bins; by default the larger of the numbers of Freedman and Diaconis, and of Sturges.
    """
    u, tau, kappa = sample.u, sample.tau, sample.kappa
    # far outliers would leave one bar
    low, high = max(float(u.min()), sample.ends[0]), min(float(u.max()), sample.ends[1])
    if not low < high:
        low, high = sample.ends
    edges = np.histogram_bin_edges(u, "auto" if bins is None else bins, (low, high))
    counts, _ = np.histogram(u, edges, weights=sample.case_weights)
    x = np.linspace(low, high, 601)
    return DensityFigure(
        edges,
        counts / (sample.case_weights.sum() * np.diff(edges)),
        x,
        quantile_huber.pdf(x, tau, kappa),
        (-kappa * tau, kappa * (1.0 - tau)),
        f"tau = {tau:.3f}, kappa = {kappa:.3g}",
        int(np.count_nonzero((u < low) | (u > high))),
    )


def _envelope(samples: Sequence[FloatArray], level: float) -> FloatArray:
    """Return the limits between which a share of the sorted samples lies at each place."""
    limits: FloatArray = np.quantile(samples, [0.5 * (1.0 - level), 0.5 * (1.0 + level)], axis=0)
    return limits


def _thinned_quantiles(n: int) -> IntArray:
    """Return the sorted residuals that a plot shows: of many some, and the ends, which tell most."""
    ends = np.arange(min(n, 50))
    return np.unique(np.concatenate([ends, thinned(n), n - 1 - ends]))


def qq_figure(sample: StandardizedResiduals, level: float = 0.95) -> QuantileFigure:
    """Return quantiles of the residuals against those of the fitted law.

    Parameters
    ----------
    sample : StandardizedResiduals
        The residuals; with simulated ones there is an envelope.
    level : float
        Share of the simulated samples inside the envelope at each point.
    """
    observed, positions = sample.ordered
    shown = _thinned_quantiles(observed.size)
    theoretical = quantile_huber.ppf(positions[shown], sample.tau, sample.kappa)
    lower = upper = None
    if sample.simulated:
        lower, upper = _envelope([fit.ordered[0][shown] for fit in sample.simulated], level)
    count = len(sample.simulated)
    return QuantileFigure(theoretical, observed[shown], lower, upper, level, count)


def checked_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Return levels of quantiles in increasing order; a DomainError where one is none."""
    wanted = tuple(sorted(float(level) for level in levels))
    if not wanted or not 0.0 < wanted[0] <= wanted[-1] < 1.0:
        raise DomainError(f"levels must lie between 0 and 1, got {levels!r}")
    return wanted


def worm_figure(sample: StandardizedResiduals, level: float = 0.95) -> QuantileFigure:
    r"""Return the detrended normal quantile plot: quantile residuals minus normal quantiles.

    Parameters
    ----------
    sample : StandardizedResiduals
        The residuals; with simulated ones the limits are those of the samples.
    level : float
        Coverage of the pointwise limits.

    Notes
    -----
    Without simulated samples the limits are :math:`\pm z\,\sqrt{p(1-p)/n}/\varphi(x)` with
    :math:`p = \Phi(x)`: those of a sample quantile of known law, too wide for residuals of an
    estimated one.
    """
    u, positions = sample.ordered
    shown = _thinned_quantiles(u.size)
    p = positions[shown]
    normal = stats.norm.ppf(p)
    deviation = normal_scores(u[shown], sample.tau, sample.kappa) - normal
    if sample.simulated:
        samples = ((fit.ordered[0][shown], fit.tau, fit.kappa) for fit in sample.simulated)
        lower, upper = _envelope([normal_scores(*each) for each in samples], level) - normal
    else:
        z = float(stats.norm.ppf(0.5 * (1.0 + level)))
        upper = z * np.sqrt(p * (1.0 - p) / sample.count) / stats.norm.pdf(normal)
        lower = -upper
    return QuantileFigure(normal, deviation, lower, upper, level, len(sample.simulated))


def pit_figure(
    sample: StandardizedResiduals, bins: int | None = None, level: float = 0.95
) -> PitFigure:
    """Return the histogram of the fitted distribution function at the responses.

    Parameters
    ----------
    sample : StandardizedResiduals
        The residuals.
    bins : int, optional
        Number of bins; by default one for 15 residuals, between 5 and 20.
    level : float
        Coverage of the binomial limits of one bin.
    """
    pit = quantile_huber.cdf(sample.u, sample.tau, sample.kappa)
    if bins is None:
        bins = int(np.clip(pit.size // 15, 5, 20))
    weights, n = sample.case_weights, max(round(sample.count), 1)
    counts, edges = np.histogram(pit, bins, (0.0, 1.0), weights=weights)
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    lower, upper = np.asarray(stats.binom.ppf(tails, n, 1.0 / bins)) * bins / n
    return PitFigure(edges, counts * bins / weights.sum(), float(lower), float(upper), level)


def residual_figure(
    fitted: Any,
    sample: StandardizedResiduals,
    sigma: float = 1.0,
    *,
    levels: Sequence[float] = LEVELS,
) -> ResidualFigure:
    """Return residuals against fitted values, with fitted and empirical quantiles.

    Parameters
    ----------
    fitted : array_like, shape (n,)
        Fitted values.
    sample : StandardizedResiduals
        The residuals.
    sigma : float
        Scale of the residuals in the figure.
    levels : sequence of float
        Levels of the quantiles. The empirical ones are taken in groups of similar fitted values, of
        about equal size, up to eight of at least 20 rows. Equal values are in one group.
    """
    f, r, w = np.asarray(fitted, dtype=np.float64), sigma * sample.u, sample.weights
    wanted = checked_levels(levels)
    parts = groups_of_rows(f, min(8, f.size // 20), w)
    empirical = np.array([group_quantiles(r, wanted, w, part) for part in parts])
    shown = thinned(f.size)
    return ResidualFigure(
        f[shown],
        r[shown],
        wanted,
        sigma * quantile_huber.ppf(wanted, sample.tau, sample.kappa),
        np.array([np.median(f[part]) for part in parts]),
        empirical.reshape(len(parts), len(wanted)),
        f.size,
        _view(r[shown], empirical, sigma * sample.ends),
    )


def _view(r: FloatArray, empirical: FloatArray, ends: FloatArray) -> tuple[float, float] | None:
    """Return ends of an axis where a residual is too far out for one that shows all; else None.

    A residual is too far out where the fitted law expects less than a tenth of one beyond it, and an
    axis that shows it is longer by a half.
    """
    low = max(min(float(ends[0]), float(empirical.min())), float(r.min()))
    high = min(max(float(ends[1]), float(empirical.max())), float(r.max()))
    if not np.ptp(r) > 1.5 * (high - low) > 0.0:
        return None
    room = 0.05 * (high - low)
    return low - room, high + room


def scale_location_figure(
    fitted: Any, sample: StandardizedResiduals, level: float = 0.95
) -> ScaleLocationFigure:
    r"""Return roots of absolute quantile residuals against fitted values, with their group means.

    Parameters
    ----------
    fitted : array_like, shape (n,)
        Fitted values.
    sample : StandardizedResiduals
        The residuals.
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
    >>> import numpy as np
    >>> from qhreg.diagnostics.residuals import StandardizedResiduals, scale_location_figure
    >>> sample = StandardizedResiduals(np.array([-1.0, 1.0]), 0.5, 1.0)
    >>> round(scale_location_figure([0.0, 1.0], sample).expected, 3)
    0.822
    """
    f, root = np.asarray(fitted, dtype=np.float64), np.sqrt(np.abs(sample.scores))
    w = sample.case_weights
    parts = groups_of_rows(f, min(8, f.size // 20), w)
    counts = np.array([w[part].sum() for part in parts]) * sample.count / w.sum()
    expected = 2.0**0.25 * special.gamma(0.75) / np.sqrt(np.pi)
    spread = np.sqrt(np.sqrt(2.0 / np.pi) - expected**2)
    shown = thinned(f.size)
    return ScaleLocationFigure(
        f[shown],
        root[shown],
        np.array([np.median(f[part]) for part in parts]),
        np.array([np.average(root[part], weights=w[part]) for part in parts]),
        float(stats.norm.ppf(0.5 * (1.0 + level))) * spread / np.sqrt(counts),
        float(expected),
        level,
        f.size,
    )


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

    def parts(at: FloatArray) -> tuple[FloatArray, FloatArray]:
        losses = (quantile_huber_loss(residuals, float(tau), kappa) for tau in at)
        means = np.array([np.average(loss, weights=w) for loss in losses])
        return means, np.asarray(log_normalizer(at, kappa))

    grid = np.linspace(0.05, 0.95, 181) if taus is None else np.asarray(taus, dtype=np.float64)
    loss, log_c = parts(grid)
    lowest = grid[int(np.argmin(loss + log_c))]
    low = float(grid[grid < lowest].max(initial=tau_bounds[0]))
    high = float(grid[grid > lowest].min(initial=tau_bounds[1]))
    best = best_tau(residuals, kappa, weights=w, tau_bounds=(low, high))
    if taus is None and not grid[0] <= best <= grid[-1]:
        grid = np.linspace(min(grid[0], best), max(grid[-1], best), grid.size)
        loss, log_c = parts(grid)
    value = float(np.sum(parts(np.array([best]))))
    return TauLossFigure(grid, loss, log_c, loss + log_c, (best, value))
