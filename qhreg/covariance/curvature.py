r"""Second derivatives of the log-likelihood and products of its scores, summed in one pass.

The Hessian exists wherever no residual sits on the edge of the quadratic zone. In its block

.. math::

    -\frac{\partial^2\ell}{\partial\beta\,\partial\beta'} = \frac{1}{\sigma^2}\sum_i w_i\,
        \frac{1\{-\kappa\tau < u_i < \kappa(1-\tau)\}}{\kappa}\,x_i x_i'

the fraction estimates the density of the residuals near zero from the rows in the zone: for small
kappa from few rows, at kappa = 0 from none. For a sandwich covariance the zone is therefore widened
by the same amount on both sides. All other entries are averages of bounded or integrable terms and
need no smoothing, except those that join beta and kappa with kappa, which count rows in the zone too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.information import UnitInformation, check_free, score_scale, unit_information
from qhreg.covariance.oldwidth import chosen_width
from qhreg.covariance.scores import (
    Fitted,
    Point,
    RowBlock,
    Sample,
    checked_sample,
    evaluated_blocks,
    extra_scores,
    slopes,
    weight_vector,
)
from qhreg.engine.gram import plain_gram
from qhreg.engine.rows import Block, chosen_rows

__all__ = [
    "RowSums",
    "RowWeights",
    "beta_multipliers",
    "is_near",
    "log_c_bends",
    "observed_hessian",
    "row_sums",
    "smoothed_bread",
    "wide_slopes",
]


EXTRA = ("sigma", "tau", "kappa")
"""The parameters besides beta, in their order."""


SCORE_BYTES = 2**17
"""Size of the scores of some rows: larger arrays go back to the system after every use."""

SCORE_SHARE = 0.03
"""Share of all rows whose scores may be larger than that: little beside what is done with them."""

LEAST_ROWS = 256
"""Least rows whose scores are made at a time: fewer do not hide the cost of the calls."""


class RowWeights(NamedTuple):
    """How often each row counts, and how much it stands for; None means once.

    Attributes
    ----------
    freq : ndarray, shape (n,), or None
        Cases: a row with weight two is a row given twice.
    prob : ndarray, shape (n,), or None
        Probability weights.
    nobs : float
        Number of observations: cases with weight.
    """

    freq: FloatArray | None
    prob: FloatArray | None
    nobs: float

    @property
    def total(self) -> FloatArray | None:
        """The weight of each row in the likelihood."""
        if self.freq is None or self.prob is None:
            return self.prob if self.freq is None else self.freq
        return self.freq * self.prob

    def of(self, rows: npt.NDArray[np.intp]) -> RowWeights:
        """Return the weights of some rows as a sample of their own."""
        freq, prob = (None if each is None else each[rows] for each in (self.freq, self.prob))
        return row_weights(freq, prob, rows.size)

    def taken(self, rows: npt.NDArray[np.intp], times: FloatArray) -> RowWeights:
        """Return the weights of some rows, each given several times; nobs stays."""
        freq = times if self.freq is None else times * self.freq[rows]
        return RowWeights(freq, None if self.prob is None else self.prob[rows], self.nobs)

    @property
    def squared(self) -> FloatArray | None:
        """The weight of the product of each row's scores: cases once, probability weights twice."""
        if self.prob is None:
            return self.freq
        return self.prob**2 if self.freq is None else self.freq * self.prob**2


def row_weights(freq: Any, prob: Any, n: int) -> RowWeights:
    """Return the checked weights of n rows."""
    f, w = weight_vector("freq_weights", freq, n), weight_vector("weights", prob, n)
    if f is None:
        return RowWeights(f, w, float(n if w is None else np.count_nonzero(w)))
    return RowWeights(f, w, float(f.sum() if w is None else f[w > 0.0].sum()))


class RowSums(NamedTuple):
    """Sums over all rows at sigma = 1, in the coordinates of the sample.

    Attributes
    ----------
    weight : float
        Sum of the weights in the likelihood.
    bread : ndarray, shape (q, q)
        Minus the second derivatives of the log-likelihood.
    meat : ndarray, shape (q, q)
        Products of the scores; zero where they were not asked for.
    """

    weight: float
    bread: FloatArray
    meat: FloatArray


def row_sums(
    sample: Sample,
    weights: RowWeights,
    unit: UnitInformation,
    width: float,
    free: tuple[str, ...],
    *,
    meat: bool = True,
) -> RowSums:
    """Return bread and meat in one pass over the rows.

    Parameters
    ----------
    sample : Sample
        Data, parameters and coordinates.
    weights : RowWeights
        Weights of the rows.
    unit : UnitInformation
        Derivatives of log c at the parameters.
    width : float
        Width of the zone in the entries that count rows in it.
    free : tuple of str
        The parameters of bread and meat.
    meat : bool
        Whether to sum the products of the scores too.
    """
    k, others = sample.n_columns, tuple(name for name in free if name != "beta")
    c, weight = len(others), 0.0
    gram, bends = np.zeros((k, k)), np.zeros((c, c))
    score_gram, score_corner = np.zeros((k, k)), np.zeros((c, c))
    crosses = np.zeros((2 * c if meat else c, k))
    total, squared = weights.total, weights.squared
    factors, scores = np.zeros((len(crosses), 0)), np.zeros((0, k))
    for block in evaluated_blocks(sample):
        w = None if total is None else total[block.rows]
        if factors.shape[1] != block.u.size:
            factors = np.empty((len(crosses), block.u.size))
        weight += float(block.u.size if w is None else w.sum())
        bends += _bends(block, w, sample.point, width, others, out=factors[:c])
        if meat:
            m = None if squared is None else squared[block.rows]
            extra = np.array(extra_scores(block, free, sample.point, unit)).reshape(c, block.u.size)
            score_corner += _extra_products(block, extra, m, out=factors[c:])
            if "beta" in free:
                scores = scores if scores.size else _some_rows(block.design, sample.endog.size)
                score_gram += _score_gram(block, m, scores)
        crosses += _few_products(factors, block.design)
        gram += _near_gram(block, w, sample.point, width)  # last, with the rows in cache
    bends += weight * log_c_bends(others, unit)
    bread = _bordered(gram, crosses[:c], bends, free)
    if not meat:
        return RowSums(weight, bread, np.zeros_like(bread))
    return RowSums(weight, bread, _bordered(score_gram, crosses[c:], score_corner, free))


def _few_products(few: FloatArray, design: FloatArray) -> FloatArray:
    """Return the product of few rows with a design, which is faster with them on the right."""
    return np.asarray((design.T @ few.T).T)


def _near_gram(block: RowBlock, w: FloatArray | None, point: Point, width: float) -> FloatArray:
    """Return the sum of w x x' / width over the rows in the zone widened to this width."""
    if width == 0.0:
        return np.zeros((block.design.shape[1],) * 2)
    near = is_near(block.u, point, width).nonzero()[0]
    design, _, weights = chosen_rows(Block(block.design, None, w), near)
    if weights is not None:
        design *= np.sqrt(weights)[:, None]
    return plain_gram(design) / width


def is_near(u: FloatArray, point: Point, width: float) -> BoolArray:
    """Return which residuals lie in the zone widened by the same amount on both sides."""
    margin = 0.5 * (width - point.kappa)
    low, high = -point.kappa * point.tau - margin, point.kappa * (1.0 - point.tau) + margin
    return (u > low) & (u < high)


def _extra_products(
    block: RowBlock, extra: FloatArray, m: FloatArray | None, out: FloatArray
) -> FloatArray:
    """Return the sum of m s s' of the parameters besides beta; what multiplies x goes to `out`."""
    weighted = extra if m is None else extra * m
    np.multiply(weighted, block.psi, out=out)
    return np.asarray(weighted @ extra.T)


def _score_gram(block: RowBlock, m: FloatArray | None, out: FloatArray) -> FloatArray:
    """Return the sum of m s s' of beta; the scores are made of some rows at a time, in `out`."""
    factor = block.psi if m is None else block.psi * np.sqrt(m)
    (step, k), n = out.shape, block.u.size
    gram = np.zeros((k, k))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        scores = out[: rows.stop - start]
        np.multiply(block.design[rows], factor[rows, None], out=scores)
        gram += plain_gram(scores)
    return gram


def _some_rows(design: FloatArray, n: int) -> FloatArray:
    """Return room for some rows of a block of n rows in all, in the order of its entries."""
    rows, k = design.shape
    step = min(rows, max(LEAST_ROWS, SCORE_BYTES // (8 * max(k, 1)), int(SCORE_SHARE * n)))
    return np.empty((step, k), order="C" if design.strides[0] >= design.strides[1] else "F")


def _bends(
    block: RowBlock,
    w: FloatArray | None,
    point: Point,
    width: float,
    others: tuple[str, ...],
    out: FloatArray,
) -> FloatArray:
    """Return minus the second derivatives in sigma, tau and kappa, without those of log c.

    What multiplies x in the mixed derivatives of beta is written to the rows of `out`.
    """
    kappa, u, psi = point.kappa, block.u, block.psi
    w_psi = psi if w is None else w * psi
    in_psi = beta_multipliers(block, w, point, width, others, out)
    square = float(in_psi @ psi)
    corner = np.zeros((3, 3))
    corner[0, 2] = corner[2, 0] = square
    for i, name in enumerate(others):
        if name == "sigma":
            weight = float(u.size if w is None else w.sum())
            corner[0, 0] = 2.0 * float(u @ w_psi) - weight + kappa * square
        elif name == "tau":
            corner[0, 1] = corner[1, 0] = float(out[i] @ u)
            corner[1, 1] = -kappa * float(out[i].sum())
            corner[1, 2] = corner[2, 1] = float(out[i] @ psi)
        else:
            corner[2, 2] = float(out[i] @ wide_slopes(block, point, width))
    picked = [EXTRA.index(name) for name in others]
    return corner.take(picked, 0).take(picked, 1)


def beta_multipliers(
    block: RowBlock,
    w: FloatArray | None,
    point: Point,
    width: float,
    others: tuple[str, ...],
    out: FloatArray,
) -> FloatArray:
    """Write what multiplies x in the mixed derivatives to `out`; return w psi of rows in the zone."""
    tau, psi = point.tau, block.psi
    inside = _in_zone(psi, tau) if point.kappa > 0.0 else np.zeros(psi.size, dtype=bool)
    w_psi = psi if w is None else w * psi
    in_psi = inside * w_psi
    for i, name in enumerate(others):
        if name == "sigma":
            np.add(in_psi, w_psi, out=out[i])
        elif name == "tau":
            np.multiply(~inside, 1.0 if w is None else w, out=out[i])
        elif width == 0.0:
            out[i] = 0.0
        else:
            wide = wide_slopes(block, point, width)
            np.multiply(wide, _in_zone(wide, tau) / width, out=out[i])
            if w is not None:
                out[i] *= w
    return in_psi


def _in_zone(psi: FloatArray, tau: float) -> BoolArray:
    """Return which slopes are those of rows in the zone."""
    return (psi > -tau) & (psi < 1.0 - tau)


def wide_slopes(block: RowBlock, point: Point, width: float) -> FloatArray:
    """Return the slopes of a loss whose zone has this width."""
    return block.psi if width == point.kappa else slopes(block.u, point.tau, width)


def log_c_bends(others: tuple[str, ...], unit: UnitInformation) -> FloatArray:
    """Return the second derivatives of log c in sigma, tau and kappa."""
    mixed = unit.log_c_tau_kappa
    bends = np.array([[0.0] * 3, [0.0, unit.log_c_tau2, mixed], [0.0, mixed, unit.log_c_kappa2]])
    picked = [EXTRA.index(name) for name in others]
    return bends.take(picked, 0).take(picked, 1)


def _bordered(
    gram: FloatArray, cross: FloatArray, corner: FloatArray, free: tuple[str, ...]
) -> FloatArray:
    """Return one matrix of the blocks of beta, of beta with the others, and of the others."""
    if "beta" not in free:
        return corner
    k, q = gram.shape[0], gram.shape[0] + corner.shape[0]
    matrix = np.empty((q, q))
    matrix[:k, :k], matrix[k:, k:] = gram, corner
    matrix[:k, k:], matrix[k:, :k] = cross.T, cross
    return matrix


def observed_hessian(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
) -> FloatArray:
    r"""Return the Hessian of the log-likelihood, exact wherever it exists.

    Parameters
    ----------
    exog, endog, fit, free, weights, offset
        As in :func:`score_obs`; the point need not be the optimum.

    Returns
    -------
    ndarray, shape (q, q)
        It exists unless a residual sits on the edge of the zone. Its beta block counts the rows in the
        zone and is zero at kappa = 0: use it for Newton steps, not for standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import Point, observed_hessian
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 1.0)
    >>> observed_hessian(np.ones((3, 1)), np.array([-1.0, 0.1, 3.0]), point, free=("beta",))
    array([[-1.]])
    """
    names = check_free(free)
    sample = checked_sample(exog, endog, fit, offset)
    w = row_weights(weights, None, sample.endog.size)
    unit = unit_information(sample.point.tau, sample.point.kappa)
    scale = score_scale(names, sample.exog.shape[1], sample.point.sigma)
    sums = row_sums(sample, w, unit, sample.point.kappa, names, meat=False)
    return -sums.bread * np.outer(scale, scale)


def smoothed_bread(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    weights: Any = None,
    offset: Any = None,
    width: float | None = None,
    nobs: float | None = None,
) -> FloatArray:
    """Return minus the Hessian of the log-likelihood, the entries that count rows in the zone smoothed.

    Parameters
    ----------
    exog, endog, fit, free, weights, offset
        As in :func:`score_obs`, at the optimum.
    width : float or None
        Width of the zone in these entries, at least that of the fit; by default
        :func:`bread_width`.
    nobs : float or None
        Number of observations for that default; by default the number of rows with weight.

    Returns
    -------
    ndarray, shape (q, q)
        Its inverse is the bread of a sandwich covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import Point, smoothed_bread
    >>> point = Point(np.array([0.0]), 1.0, 0.5, 0.0)
    >>> smoothed_bread(np.ones((3, 1)), np.array([-1.0, 0.1, 3.0]), point, free=("beta",), width=2.5)
    array([[0.8]])
    """
    names = check_free(free)
    sample = checked_sample(exog, endog, fit, offset)
    n, p = sample.exog.shape
    w = row_weights(weights, None, n)
    if nobs is None:
        nobs = float(n if w.freq is None else np.count_nonzero(w.freq))
    width = chosen_width(sample, w.freq, nobs, width)
    unit = unit_information(sample.point.tau, sample.point.kappa)
    scale = score_scale(names, p, sample.point.sigma)
    sums = row_sums(sample, w, unit, width, names, meat=False)
    return sums.bread * np.outer(scale, scale)
