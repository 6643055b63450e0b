r"""The covariance between the estimates of several fits to the same rows.

Each fit moves with row i by its influence :math:`A_j^{-1} s_{ij}`, the score of that fit times the
inverse of its smoothed bread. Stacked over the fits, these vectors make one sandwich whose blocks on the
diagonal are the covariances of the single fits, and whose other blocks say how two fits move together:

.. math::

    \widehat{\operatorname{Cov}}(\hat\varphi_j, \hat\varphi_k)
        = A_j^{-1} \Big(\sum_i s_{ij} s_{ik}'\Big) A_k^{-1} .
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from statsmodels.stats import sandwich_covariance as sandwich

from qhreg._typing import FloatArray, IntArray
from qhreg.covariance.cautions import warn_helped, warn_lost
from qhreg.covariance.confined import shared_products, shifts, unseen_between
from qhreg.covariance.curvature import RowWeights, row_weights
from qhreg.covariance.dependence import combined, group_codes, lag_weights, lags
from qhreg.covariance.dependent import design_and_slopes
from qhreg.covariance.estimate import require_more_rows
from qhreg.covariance.information import check_free, design_moments
from qhreg.covariance.leverage import Leveraged, with_leverage
from qhreg.covariance.oldwidth import chosen_width
from qhreg.covariance.orthonormal import Frame, coordinates_of, jacobian_of
from qhreg.covariance.scores import Fitted, Sample, checked_sample, evaluated_blocks, score_block
from qhreg.covariance.slices import Slices, slices_of
from qhreg.exceptions import DomainError

__all__ = [
    "JOINT_TYPES",
    "Influence",
    "influence_of",
    "joint_covariance",
    "location_shift_covariance",
]


JOINT_TYPES = ("HC0", "HC1", "cluster", "HAC")
"""The covariance types that hold for several fits at once."""


@dataclass(frozen=True)
class Influence:
    """By how much each row moves the estimates: its score times the inverse of the smoothed bread.

    Attributes
    ----------
    sample : Sample
        The data and the estimates, in the coordinates of the frame.
    frame : Frame
        The estimated parameters.
    weights : ndarray, shape (n,), or None
        Probability weights, which multiply the scores.
    inverse : ndarray, shape (q_inner, q_inner)
        Inverse of the smoothed bread in the coordinates of the frame.
    matrix : ndarray, shape (q_inner, q)
        What scores in these coordinates are multiplied by.
    nobs, in_bread, width : float
        Number of observations, of those in the widened zone from which the bread comes, and its width.
    cases : RowWeights
        Weights of the rows.
    slices : Slices
        Bread and meat of the single fit.
    levered : Leveraged or None
        What allows for rows with leverage, if that is asked for.
    """

    sample: Sample
    frame: Frame
    weights: FloatArray | None
    inverse: FloatArray
    matrix: FloatArray
    nobs: float
    in_bread: float
    width: float
    cases: RowWeights
    slices: Slices
    levered: Leveraged | None = None

    @property
    def n_estimated(self) -> int:
        """Number of estimated parameters, dependent columns and held parameters left out."""
        return int(self.matrix.shape[0])

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Iterate over rows and their influence on the free parameters, shape (m, q)."""
        for block in evaluated_blocks(self.sample):
            scores = score_block(block, self.frame.kept, self.sample.point, self.frame.unit)
            if self.levered is not None:
                slope = self.levered.psi[block.rows, None]
                np.multiply(block.design, slope, out=scores[:, : block.design.shape[1]])
            if self.weights is not None:
                scores = scores * self.weights[block.rows, None]
            yield block.rows, scores @ self.matrix

    def with_leverage(self) -> Influence:
        """Return the same with allowance for rows with leverage, as "HC1" makes it."""
        raw = self.sample.in_coordinates(None)
        levered = with_leverage(raw, self.cases, self.slices, self.width)
        if levered is None:
            return self
        inverse = levered.slices.inverse
        matrix = inverse @ jacobian_of(self.frame, self.sample.point.sigma).T
        return replace(self, inverse=inverse, matrix=matrix, levered=levered)


def influence_of(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    free: Sequence[str] = ("beta", "sigma"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    width: float | None = None,
) -> Influence:
    """Return by how much each row moves the estimates; products of it sum to the sandwich "HC0".

    Parameters
    ----------
    exog, endog, fit, free, freq_weights, weights, offset, width
        As in :func:`qhreg.covariance.covariance`. Frequency weights enter the bread, not the
        influence of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.estimate import covariance
    >>> from qhreg.covariance.joint import influence_of
    >>> from qhreg.solver import solve
    >>> exog, endog = np.ones((50, 1)), np.linspace(-1.0, 2.0, 50) ** 3
    >>> fit = solve(exog, endog, tau=0.4)
    >>> rows = np.vstack([part for _, part in influence_of(exog, endog, fit).blocks()])
    >>> made = covariance("HC0", exog, endog, fit, free=("beta", "sigma"))
    >>> bool(np.allclose(rows.T @ rows, made.cov))
    True
    """
    sample = checked_sample(exog, endog, fit, offset)
    w = row_weights(freq_weights, weights, sample.endog.size)
    chosen = chosen_width(sample, w.total, w.nobs, width)
    made = slices_of(sample, w, check_free(free), chosen)
    if made.helped:
        warn_helped("robust", made.helped)
    if made.lost is not None:  # their rows have no influence that can be seen
        warn_lost("robust", made.lost)
    matrix = made.inverse @ jacobian_of(made.frame, sample.point.sigma).T
    sample = sample.in_coordinates(made.frame.coordinates.transform)
    middle = sample.point.kappa * (0.5 - sample.point.tau)
    near = np.abs(sample.u - middle) < 0.5 * chosen
    count = float(np.count_nonzero(near) if w.freq is None else w.freq[near].sum())
    return Influence(
        sample, made.frame, w.prob, made.inverse, matrix, w.nobs, count, chosen, w, made
    )


def _stacked(
    parts: Sequence[Influence], columns: Sequence[int]
) -> Iterator[tuple[slice, FloatArray]]:
    """Iterate over rows and their influence on the chosen columns of every fit, side by side."""
    for blocks in zip(*(part.blocks() for part in parts), strict=True):
        yield blocks[0][0], np.hstack([block[:, columns] for _, block in blocks])


def _products(
    parts: Sequence[Influence], columns: Sequence[int], freq: FloatArray | None
) -> FloatArray:
    """Return the sum over rows of the products of the stacked influence."""
    size = len(parts) * len(columns)
    total = np.zeros((size, size))
    for rows, block in _stacked(parts, columns):
        root = block if freq is None else block * np.sqrt(freq[rows, None])
        total += root.T @ root
    return total


def _expected(parts: Sequence[Influence], columns: Sequence[int]) -> FloatArray:
    """Return what rows with leverage have besides the products of their influence.

    Between two fits it is correlated as the slopes of all rows are.
    """
    s, n = len(columns), len(parts)
    moves = np.zeros((n, s, parts[0].sample.endog.size))
    slopes = np.ones((n, moves.shape[2]))
    squared = parts[0].cases.squared
    for j, part in enumerate(parts):
        if part.levered is not None:
            design, slopes[j] = design_and_slopes(part.sample)
            extra = part.levered.extra if squared is None else part.levered.extra * squared
            change = part.matrix[: design.shape[1], list(columns)]
            moves[j] = change.T @ (design.T * np.sqrt(extra))
    counts = 1.0 if parts[0].cases.freq is None else parts[0].cases.freq
    alike = (slopes * counts) @ slopes.T
    size = np.sqrt(alike.diagonal())
    products = np.tensordot(moves, moves, axes=(2, 2))
    products *= (alike / np.outer(size, size))[:, None, :, None]
    return np.asarray(products.reshape(n * s, n * s))


def _group_products(
    parts: Sequence[Influence],
    columns: Sequence[int],
    freq: FloatArray | None,
    codes: IntArray,
) -> FloatArray:
    """Return the sum over groups of the products of their summed influence."""
    sums = np.zeros((int(codes.max()) + 1, len(parts) * len(columns)))
    for rows, block in _stacked(parts, columns):
        np.add.at(sums, codes[rows], block if freq is None else block * freq[rows, None])
    return sums.T @ sums


def _clustered(
    parts: Sequence[Influence],
    columns: Sequence[int],
    freq: FloatArray | None,
    codes: list[IntArray],
    corrected: bool,
) -> FloatArray:
    """Return the one- or two-way clustered covariance."""
    n, q = parts[0].nobs, parts[0].n_estimated

    def one_way(code: IntArray) -> FloatArray:
        count = float(code.max() + 1)
        factor = count / (count - 1.0) * (n - 1.0) / (n - q) if corrected else 1.0
        cov = _group_products(parts, columns, freq, code) + _unseen(parts, columns, freq, code)
        return factor * cov

    return combined(one_way, codes).cov


def _unseen(
    parts: Sequence[Influence], columns: Sequence[int], freq: FloatArray | None, codes: IntArray
) -> FloatArray:
    """Return what sums over groups do not show of what one of them decides alone."""
    s = len(columns)
    cov = np.zeros((len(parts) * s, len(parts) * s))
    weights = RowWeights(freq, parts[0].weights, parts[0].nobs)
    found, slopes = [], []
    for part in parts:
        design, psi = design_and_slopes(part.sample)
        if not design.shape[1]:
            return cov
        found.append(shifts([design], psi[:, None], weights, codes, part.inverse))
        slopes.append(psi)
    if not found[0]:
        return cov
    product = shared_products(np.column_stack(slopes), weights, codes, list(found[0]))
    back = [jacobian_of(part.frame, part.sample.point.sigma)[columns].T for part in parts]
    for g, (a, b) in itertools.product(found[0], itertools.product(range(len(parts)), repeat=2)):
        one, two = found[a][g], found[b][g]
        if one.moves and two.moves:
            moves = one.moves[0] @ back[a], two.moves[0] @ back[b]
            pair = slopes[a][one.rows], slopes[b][one.rows]
            place = slice(a * s, (a + 1) * s), slice(b * s, (b + 1) * s)
            cov[place] += unseen_between(one, *moves, *pair, float(product[a, b]))
    return cov


def joint_covariance(
    cov_type: str,
    parts: Sequence[Influence],
    columns: Sequence[int],
    *,
    freq_weights: FloatArray | None = None,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = None,
    use_correction: bool | None = None,
) -> FloatArray:
    """Return the covariance of chosen parameters of several fits, shape (m s, m s).

    Parameters
    ----------
    cov_type : {"HC0", "HC1", "cluster", "HAC"}
        As in :func:`qhreg.covariance.covariance`. There is no "nonrobust" one: the density cannot
        hold at several values of tau.
    parts : sequence of Influence, length m
        One for each fit, from :func:`influence_of`, of the same rows.
    columns : sequence of int, length s
        Places of the parameters within each fit.
    freq_weights : ndarray, shape (n,), or None
        Frequency weights.
    groups, maxlags, kernel, use_correction
        Options of the type.

    Returns
    -------
    ndarray, shape (m s, m s)
        Fit by fit; the blocks on the diagonal are those of the single fits.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.joint import influence_of, joint_covariance
    >>> from qhreg.solver import solve
    >>> exog, endog = np.ones((50, 1)), np.linspace(-1.0, 2.0, 50) ** 3
    >>> parts = [
    ...     influence_of(exog, endog, solve(exog, endog, tau=tau, kappa=0.0)) for tau in (0.3, 0.7)
    ... ]
    >>> joint_covariance("HC1", parts, [0]).shape
    (2, 2)
    """
    if cov_type not in JOINT_TYPES:
        raise DomainError(f"cov_type must be one of {JOINT_TYPES}, got {cov_type!r}")
    n, q = parts[0].nobs, parts[0].n_estimated
    require_more_rows(cov_type, n, q)
    if cov_type == "HC0":
        return _products(parts, columns, freq_weights)
    if cov_type == "HC1":
        parts = [part.with_leverage() for part in parts]
        cov = _products(parts, columns, freq_weights) + _expected(parts, columns)
        return n / (n - q) * cov
    rows = parts[0].sample.endog.size
    if cov_type == "cluster":
        total = RowWeights(freq_weights, parts[0].weights, n).total
        codes = group_codes(groups, rows, total)
        return _clustered(parts, columns, freq_weights, codes, use_correction is not False)
    stacked = np.vstack([block for _, block in _stacked(parts, columns)])
    made: FloatArray = sandwich.S_hac_simple(
        stacked, nlags=lags(maxlags, rows), weights_func=lag_weights(kernel or "bartlett")
    )
    return made * (n / (n - q)) if use_correction else made


def location_shift_covariance(
    parts: Sequence[Influence],
    columns: Sequence[int],
    exog: Any,
    freq_weights: FloatArray | None = None,
) -> FloatArray:
    r"""Return the covariance of slopes of several fits with noise the same in every row (QH-23).

    Parameters
    ----------
    parts : sequence of Influence, length m
        One for each fit, from :func:`influence_of`, of the same rows, without probability weights.
    columns : sequence of int, length s
        Places of the slopes within each fit; the columns of `exog` span a constant.
    exog : array_like, shape (n, p)
        Regressors.
    freq_weights : ndarray, shape (n,), or None
        Frequency weights.

    Returns
    -------
    ndarray, shape (m s, m s)
        Fit by fit.

    Notes
    -----
    Fits a and b have the covariance :math:`\sigma_a\sigma_b\,\omega_{ab}/(f_a f_b)\,(X'X)^{-1}`, with
    :math:`\omega_{ab}` the mean of :math:`\psi_a\psi_b` about their means and f the share of the rows in
    the widened zone over its width: scalars that all rows tell of, where a sandwich relies on those
    with leverage [1]_.

    References
    ----------
    .. [1] R. Koenker and G. Bassett (1982), Robust tests for heteroscedasticity based on regression
       quantiles, Econometrica 50, 43-61.
    """
    n = parts[0].nobs
    slope = np.stack([design_and_slopes(part.sample)[1] for part in parts])
    slope = slope - np.average(slope, axis=1, weights=freq_weights)[:, None]
    weighted = slope if freq_weights is None else slope * freq_weights
    back = coordinates_of(design_moments(np.asarray(exog), freq_weights).factor).back
    rank = back.shape[1]
    factor = [part.sample.point.sigma * part.width * n / part.in_bread for part in parts]
    between = weighted @ slope.T / (n - rank) * np.outer(factor, factor)
    flat = (back @ back.T)[np.ix_(list(columns), list(columns))]
    return np.asarray(np.kron(between, flat))
