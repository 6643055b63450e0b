r"""Rows with leverage, whose residuals and scores show little of their noise.

The bread counts the rows near the line and the meat squares their slopes. A row far from the others
draws the line to itself: it lies near the line whatever its noise, and at kappa = 0 often on it, where
its slope is zero. Such a row can outweigh all others in the bread and be missing in the meat. With the
incomes of Engel's households, noise in proportion to income and the 5 % quantile, the median of the
standard errors of the slope was 0.6 of its standard deviation.

For rows with leverage the slope is therefore taken at the residual from a fit without the row, and the
curvature gives way, the more the larger the leverage, to what is expected of a row of that scale, as
does the squared slope where it is not larger.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.curvature import RowWeights, is_near
from qhreg.covariance.effective import HALF
from qhreg.covariance.lightside import light_rows
from qhreg.covariance.orthonormal import inverse_of
from qhreg.covariance.rowterms import RowTerms, row_terms, summed_terms
from qhreg.covariance.scores import Point, RowBlock, Sample, slopes
from qhreg.covariance.slices import FEW_ROWS, FEW_SINGLE, Slices
from qhreg.engine.gram import plain_gram
from qhreg.engine.weighted_quantile import weighted_quantiles

__all__ = ["Leveraged", "expected_curvature", "row_scales", "with_leverage"]


LOW = 0.5
"""Leverage up to which a row counts as it is."""

AWAY = 0.75
"""Leverage from which on the residual is that from a fit without the row."""

LOOK = 0.4
"""Leverage, with the bread as it is or with noise of one scale, below which no row is looked at."""

LEAST_SCALE = 0.25
"""Least scale of a row, over the mean: a line through absolute residuals can go below zero."""

STANDS_OUT = 1.4
"""Least rows on the light side of the line for each coefficient."""

MOST_HELD = 0.9
"""Largest part of its own location that a row is taken to hold: a fit without it may not exist."""

ROUNDING = 1e-9
"""Share of the size of a column below which its spread is rounding error."""


class Leveraged(NamedTuple):
    """A sandwich that allows for rows with leverage.

    Attributes
    ----------
    slices : Slices
        Bread and meat for the covariance.
    seen : Slices
        The same with the squared slopes of the rows themselves, for the calibration: a mean varies
        less than they do.
    rows : ndarray of int
        The rows with leverage.
    psi : ndarray, shape (n,)
        Slopes of which the meat for the covariance is made.
    extra : ndarray, shape (n,)
        What it has besides for the squared slopes.
    """

    slices: Slices
    seen: Slices
    rows: npt.NDArray[np.intp]
    psi: FloatArray
    extra: FloatArray

    @property
    def description(self) -> str:
        """What to add to the foot of a table."""
        count = self.rows.size
        return f", {count} row{'s' if count > 1 else ''} with leverage"


def with_leverage(
    sample: Sample, weights: RowWeights, made: Slices, width: float
) -> Leveraged | None:
    r"""Return a sandwich that allows for rows with leverage, or None if there are none.

    Parameters
    ----------
    sample : Sample
        Data and parameters.
    weights : RowWeights
        Weights of the rows.
    made : Slices
        Bread and meat of the rows as they are, with the terms of each row.
    width : float
        Width w of the zone in the bread.

    Notes
    -----
    With the expected curvature :math:`\bar c_i` of each row (:func:`expected_curvature`) and
    :math:`\ell_i = x_i'(\sum_j \bar c_j x_j x_j')^{-1}x_i`, a fit without row i has the residual

    .. math:: u_i + \frac{\ell_i}{1 - \ell_i\bar c_i}\,\psi_i,

    where the slope :math:`\psi_i` of a row on the line is that with which all scores sum to zero. Many
    coefficients draw many rows to the line: the expected curvatures of what follows, and with them
    :math:`\ell_i`, are therefore those of the residuals from such fits. The
    leverage :math:`h_i = \ell_i / w`, at most 1, is what the row adds to the bread if it lies in the
    zone, beside what all rows are expected to add. Up to h = 1/2 a row counts as it is. From there to
    3/4 its residual goes over to the one above. From 1/2 to 1 its curvature goes over to
    :math:`\bar c_i`, and so does its squared slope to the mean of all if the row lies in the zone, where
    it may be on the wrong side, or if that is larger. All of this vanishes in large samples, in which
    every h does.

    Rows to which sampling weights give more than half of their own location are left to
    :mod:`qhreg.covariance.effective`, which warns of them. This takes the terms of each row:
    all of more rows than :data:`qhreg.covariance.slices.FEW_ROWS`, or than fit into a design of
    :data:`qhreg.covariance.slices.FEW_SINGLE` numbers, count as they are. So do those of
    fits with fewer than 1.4 rows on the light side of the line for each coefficient: there all have
    leverage.
    """
    if not _is_sought(sample, weights, made, width):
        return None
    u, point, place = sample.u, sample.point, made.frame.coordinates
    x = np.asarray(sample.exog, dtype=np.float64).T
    z = x if place.plain else place.transform.T @ x
    if not _share(z, made, weights, width) > LOOK:
        return None
    terms = made.terms or _terms(sample, x, made, width)
    flat, counts = _lengths(z, weights), _counts(weights, u.size)
    inside = float(counts @ terms.near) * width
    if flat is None or not float(flat.max()) * weights.nobs > LOOK * inside:
        return None
    if weights.prob is not None and _decided_by_weights(z, weights, flat):
        return None
    scales = row_scales(z, u, counts)
    curvature = expected_curvature(u, scales, counts, point, width)
    moves = _lengths(z, weights, curvature)
    if moves is None:
        return None
    slope = _balanced(z, terms.psi, u, weights, point)
    alone = u + moves / (1.0 - np.minimum(moves * curvature, MOST_HELD)) * slope
    curvature = expected_curvature(alone, scales, counts, point, width)
    moves = _lengths(z, weights, curvature)
    if moves is None:
        return None
    leverage = np.minimum(moves / width, 1.0)
    rows = (leverage > LOW).nonzero()[0]
    if not rows.size:
        return None
    above = leverage[rows] - LOW
    away = np.minimum(above / (AWAY - LOW), 1.0)
    held = np.minimum(moves[rows] * curvature[rows], MOST_HELD)
    moved = u[rows] + away * moves[rows] / (1.0 - held) * slope[rows]
    psi, near = slopes(moved, point.tau, point.kappa), is_near(moved, point, width) / width
    share = above / (1.0 - LOW)
    seen = _Counted(psi, (1.0 - share) * near + share * curvature[rows])
    usual = float(counts @ (terms.psi * terms.psi)) / weights.nobs
    doubted = terms.near[rows] > 0.0
    rest = np.where(doubted, np.sqrt(1.0 - share) * psi, psi)
    extra = share * np.where(doubted, usual, np.maximum(usual - psi * psi, 0.0))
    return _sandwich(weights, made, terms, z, rows, seen, rest, extra)


def _share(z: FloatArray, made: Slices, weights: RowWeights, width: float) -> float:
    """Return the most that a row in the zone adds to the bread, as a share of it."""
    inverse = made.inverse[: len(z), : len(z)]
    lengths: FloatArray = np.einsum("ij,ij->j", inverse.dot(z), z)
    if weights.prob is not None:
        lengths *= weights.prob
    return float(lengths.max()) / width


def _decided_by_weights(z: FloatArray, weights: RowWeights, leverage: FloatArray) -> bool:
    """Return whether sampling weights give a row more than half of its own location."""
    heavy = (leverage > HALF).nonzero()[0]
    if not heavy.size:
        return False
    plain = _lengths(z, RowWeights(_counts(weights, z.shape[1]), None, weights.nobs))
    return plain is None or not bool((plain[heavy] > HALF).all())


def _counts(weights: RowWeights, n: int) -> FloatArray:
    """Return how often each row counts: sampling weights say nothing about the noise of a row."""
    counts = np.ones(n) if weights.freq is None else weights.freq
    return counts if weights.prob is None else counts * (weights.prob > 0.0)


def _is_sought(sample: Sample, weights: RowWeights, made: Slices, width: float) -> bool:
    """Return whether rows are few and some may stand out, and nothing stands in for bread or meat."""
    many = sample.endog.size > FEW_ROWS or sample.exog.size > FEW_SINGLE
    if many or "beta" not in made.frame.kept or not width > 0.0:
        return False
    point, rank = sample.point, made.frame.coordinates.transform.shape[1]
    enough = light_rows(point.tau, point.kappa, weights.nobs) >= STANDS_OUT * rank
    return enough and not made.helped and made.lost is None


def _terms(sample: Sample, x: FloatArray, made: Slices, width: float) -> RowTerms:
    """Return what bread and meat are made of."""
    u, point, frame = sample.u, sample.point, made.frame
    block = RowBlock(slice(0, u.size), x.T, u, slopes(u, point.tau, point.kappa))
    return row_terms(block, point, width, frame.kept, frame.unit)


class _Counted(NamedTuple):
    """Slopes and curvatures of some rows."""

    psi: FloatArray
    near: FloatArray


def _sandwich(
    weights: RowWeights,
    made: Slices,
    terms: RowTerms,
    z: FloatArray,
    rows: npt.NDArray[np.intp],
    seen: _Counted,
    rest: FloatArray,
    extra: FloatArray,
) -> Leveraged | None:
    """Return bread and meat of other slopes and curvatures of some rows; None if indefinite.

    The meat for the covariance has the rest of the slopes, and something extra for their squares.
    """
    psi, near = terms.psi.copy(), terms.near.copy()
    psi[rows], near[rows] = seen
    raw = _counted(terms, terms.design, psi, near)
    inner = raw if made.frame.coordinates.plain else _counted(terms, z, psi, near)
    sums = summed_terms(inner, weights)
    inverse = inverse_of(sums.bread)
    if inverse is None:
        return None
    k, theirs, columns = len(z), inner.scores[:, rows], z[:, rows]
    ours = theirs.copy()
    ours[:k] = columns * rest
    times = 1.0 if weights.squared is None else weights.squared[rows]
    meat = sums.meat + (ours * times) @ ours.T - (theirs * times) @ theirs.T
    meat[:k, :k] += (columns * (extra * times)) @ columns.T
    slices = Slices(made.frame, inverse, meat, "", terms=raw)
    whole, besides = psi.copy(), np.zeros(psi.size)
    whole[rows], besides[rows] = rest, extra
    return Leveraged(slices, slices._replace(meat=sums.meat), rows, whole, besides)


def _counted(terms: RowTerms, design: FloatArray, psi: FloatArray, near: FloatArray) -> RowTerms:
    """Return the terms of rows in some coordinates with other slopes and curvatures."""
    others = len(terms.design)
    k, q = len(design), len(design) + len(terms.corner)
    scores, pulls = np.empty((q, psi.size)), np.empty((q, psi.size))
    np.multiply(design, psi, out=scores[:k])
    np.multiply(design, near, out=pulls[:k])
    scores[k:], pulls[k:] = terms.scores[others:], terms.pulls[others:]
    return RowTerms(design, psi, near, scores, pulls, terms.corner)


def _lengths(
    z: FloatArray, weights: RowWeights, curvature: FloatArray | None = None
) -> FloatArray | None:
    """Return x'(sum of c x x')^-1 x of each row, times what it stands for; None if singular."""
    total = weights.total
    if total is not None and curvature is not None:
        total = total * curvature
    elif total is None:
        total = curvature
    inverse = inverse_of(plain_gram(z.T) if total is None else (z * total).dot(z.T))
    if inverse is None:
        return None
    lengths: FloatArray = np.einsum("ij,ij->j", inverse.dot(z), z)
    return lengths if weights.prob is None else weights.prob * lengths


def _balanced(
    z: FloatArray,
    psi: FloatArray,
    u: FloatArray,
    weights: RowWeights,
    point: Point,
) -> FloatArray:
    """Return the slopes of all rows; of those on the line the ones that balance all others.

    Where several do, they are the shortest in all observations. The columns get units of their own, as
    those given would decide which of them count as rounding error.
    """
    if point.kappa > 0.0 or u.all():
        return psi
    times = _counts(weights, u.size)
    x = z / np.abs(z).max(axis=1, keepdims=True)
    if weights.prob is not None:
        x *= weights.prob
    on_line = ((u == 0.0) & (times > 0.0)).nonzero()[0]
    root = np.sqrt(times[on_line])
    found = np.linalg.lstsq(x[:, on_line] * root, -(x @ (psi * times)), rcond=None)[0] / root
    made = psi.copy()
    made[on_line] = np.clip(found, -point.tau, 1.0 - point.tau)
    return made


def row_scales(design: FloatArray, u: FloatArray, counts: FloatArray) -> FloatArray:
    r"""Return the scale of each row's noise over that of the middle one, linear in its regressors.

    Parameters
    ----------
    design : ndarray, shape (k, n)
        Regressors, one row each.
    u : ndarray, shape (n,)
        Standardised residuals.
    counts : ndarray, shape (n,)
        How often each row counts.

    Notes
    -----
    Least squares of the absolute residuals on a constant and the regressors, the slopes times
    :math:`1 - 1/F`, or 0 where the F statistic of all of them is below one: with noise of one scale
    nearly nothing of their noise is left.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.leverage import row_scales
    >>> x = np.arange(1.0, 10.0)
    >>> row_scales(np.array([x]), x * np.resize([1.0, -1.0], 9), np.ones(9))[[0, 4, 8]]
    array([0.25, 1.  , 1.8 ])
    """
    nobs = float(counts.sum())
    share = counts / nobs
    size = np.abs(u)
    mean = float(share @ size)
    z = design - (design @ share)[:, None]
    root = np.sqrt((z * z) @ share)
    varied = root > ROUNDING * np.abs(design).max(axis=1)
    z = z[varied] / root[varied, None]
    gram, target = (z * share) @ z.T, z @ (share * size)
    line, rank = _regression(gram, target)
    explained, whole = float(line @ target), float(share @ (size - mean) ** 2)
    left = nobs - rank - 1.0
    if not (mean > 0.0 and left > 0.0 and explained > 0.0):
        return np.ones(u.size)
    shrunk = max(0.0, 1.0 - rank * (whole - explained) / (left * explained))
    scales = np.maximum(1.0 + (shrunk / mean) * (line @ z), LEAST_SCALE)
    return np.asarray(scales / weighted_quantiles(scales, (0.5,), counts)[0])


def _regression(gram: FloatArray, target: FloatArray) -> tuple[FloatArray, int]:
    """Return coefficients from products of standardised columns, the shortest, and their rank."""
    inverse = inverse_of(gram, math.sqrt(ROUNDING))  # its factor has lengths, not their squares
    if inverse is not None:
        return inverse @ target, len(gram)
    values, vectors = np.linalg.eigh(gram)
    kept = values > ROUNDING
    part = vectors[:, kept]
    return part @ (part.T @ target / values[kept]), int(kept.sum())


def expected_curvature(
    u: FloatArray, scales: FloatArray, counts: FloatArray, point: Point, width: float
) -> FloatArray:
    r"""Return the curvature that is expected of each row, were its noise that of the others rescaled.

    Parameters
    ----------
    u : ndarray, shape (n,)
        Standardised residuals.
    scales : ndarray, shape (n,)
        Scales :math:`s_i` of their noise.
    counts : ndarray, shape (n,)
        How often each row counts.
    point : Point
        The parameters.
    width : float
        Width of the zone in the bread, at a scale of one.

    Notes
    -----
    The share of all rows j whose :math:`s_i u_j / s_j` lies in a zone of width
    :math:`w_i = \sqrt{\kappa^2 + s_i^2(w^2 - \kappa^2)}`, over that width.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.leverage import expected_curvature
    >>> from qhreg.covariance.scores import Point
    >>> point = Point(np.zeros(1), 1.0, 0.5, 0.0)
    >>> u, scales = np.array([-1.0, 0.2, 6.0]), np.array([1.0, 1.0, 2.0])
    >>> expected_curvature(u, scales, np.ones(3), point, 1.0).round(3)
    array([0.333, 0.333, 0.167])
    """
    kappa, tau = point.kappa, point.tau
    widths = np.hypot(kappa, scales * math.sqrt(max(width * width - kappa * kappa, 0.0)))
    margin = 0.5 * (widths - kappa)
    v = u / scales
    order = np.argsort(v)
    v, below = v[order], np.append(0.0, np.cumsum(counts[order]))
    low = np.searchsorted(v, (-kappa * tau - margin) / scales, side="right")
    high = np.searchsorted(v, (kappa * (1.0 - tau) + margin) / scales, side="left")
    return np.asarray(np.maximum(below[high] - below[low], 0.0) / (below[-1] * widths))
