r"""The law of any linear combination of the estimates, from moments that are summed over the rows once.

The influence of row i on a combination v is :math:`u_i = v'z_i`, and its part of the bread
:math:`e_i = v'E_iv`. What :func:`qhreg.covariance.calibration.calibration_of` sums for each combination,
:math:`u_i^2, u_i^3, u_i^4, e_i, e_i^2`, are forms of second, third and fourth degree in v. Their
coefficients take one pass over the rows, and any number of combinations, without the rows, after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.calibration import Calibration, law_of_moments
from qhreg.covariance.leverage import with_leverage
from qhreg.covariance.orthonormal import jacobian_of
from qhreg.covariance.rowterms import RowTerms, row_terms
from qhreg.covariance.scores import Fitted, Sample, evaluated_blocks
from qhreg.covariance.slices import Slices, sandwich_of

__all__ = ["ContrastMoments", "contrast_moments", "has_moments"]


MOST_PARAMETERS = 16
"""Parameters up to which there are moments, whose number grows with the fourth power: 18,496 then."""

MOST_PRODUCTS = 4e9
"""Products that are summed over all rows, up to which there are moments: about a second's work."""

UNSEEN = 1e-9
"""Share of a variance that the rows show below which those that decide it are fitted exactly."""

BLOCK_BYTES = 2**22
"""Size of what is made of some rows, or of some combinations, at a time."""


def has_moments(n: int, q: int) -> bool:
    """Return whether n rows and q parameters are few enough for the moments."""
    pairs = q * (q + 1) // 2
    return q <= MOST_PARAMETERS and n * pairs**2 <= MOST_PRODUCTS


class ContrastMoments(NamedTuple):
    """Sums over the rows that have the law of every linear combination of the estimates.

    Attributes
    ----------
    change : ndarray, shape (q, r)
        Turns a combination of the free parameters into v, whose length is its standard error (HC0).
    second, bread : ndarray, shape (p,)
        Sums of u^2 and of e, one number for each of the p pairs of numbers in v.
    third : ndarray, shape (p, r)
        Sums of u^3.
    fourth : ndarray, shape (p, p)
        Sums of u^4 + e^2.
    nobs : float
        Number of observations.
    """

    change: FloatArray
    second: FloatArray
    bread: FloatArray
    third: FloatArray
    fourth: FloatArray
    nobs: float

    def calibration(self, contrasts: FloatArray) -> Calibration:
        """Return what combinations over their HC errors are compared with, one for each row."""
        laws = [self._of_some(some) for some in _blocks(contrasts, self.second.size)]
        return Calibration(*(np.concatenate(part) for part in zip(*laws, strict=True)))

    def _of_some(self, contrasts: FloatArray) -> Calibration:
        v = (contrasts @ self.change).T
        length = np.sqrt(np.add.reduce(v * v))
        v = v / (length + (length == 0.0))  # about what is held there is nothing to judge
        pairs = _pairs(v, v)
        square = self.second.dot(pairs)
        third = np.add.reduce(self.third.T.dot(pairs) * v)
        fourth = np.add.reduce(self.fourth.dot(pairs) * pairs)
        unseen = (square < UNSEEN) & (length > 0.0)
        square[unseen], third[unseen] = UNSEEN, 0.0
        sums = [square, third, fourth, self.bread.dot(pairs), np.zeros(len(third))]
        return law_of_moments(np.array(sums), self.nobs)


def _blocks(contrasts: FloatArray, pairs: int) -> list[FloatArray]:
    step = max(1, BLOCK_BYTES // (8 * pairs))
    return [contrasts[i : i + step] for i in range(0, max(len(contrasts), 1), step)]


def _pairs(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a_j b_k for all j <= k, shape (p, n)."""
    j, k = np.triu_indices(len(a))
    return a[j] * b[k]


def contrast_moments(
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    cov_type: str = "HC1",
    free: Sequence[str] = ("beta", "sigma", "tau"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    width: float | None = None,
) -> ContrastMoments | None:
    """Return the moments, or None where the estimates have no covariance of full rank.

    Parameters
    ----------
    cov_type : {"HC0", "HC1"}
        Type of the errors.
    exog, endog, fit, free, freq_weights, weights, offset, width
        As in :func:`qhreg.covariance.covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.covariance.contrastlaw import contrast_moments
    >>> from qhreg.solver import solve
    >>> exog = np.column_stack([np.ones(40), np.linspace(-1.0, 1.0, 40)])
    >>> endog = exog.sum(axis=1) + np.sin(np.arange(40.0) ** 2)
    >>> made = contrast_moments(exog, endog, solve(exog, endog, tau=0.5), free=("beta", "sigma"))
    >>> made.calibration(np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.0]])).df.round(1).tolist()
    [13.0, 11.7]
    """
    sample, w, chosen, made = sandwich_of(
        exog, endog, fit, free, freq_weights, weights, offset, width
    )
    levered = with_leverage(sample, w, made, chosen) if cov_type == "HC1" else None
    made = made if levered is None else levered.seen
    frame, inverse = made.frame, made.inverse
    cov = inverse @ made.meat @ inverse
    scale = np.sqrt(cov.diagonal())
    if not bool((scale > 0.0).all()):
        return None
    try:
        factor = np.linalg.cholesky(cov / np.outer(scale, scale)) * scale[:, None]
    except np.linalg.LinAlgError:
        return None
    a, c = frame.to_raw(inverse @ np.linalg.inv(factor).T), frame.to_raw(factor)
    r = factor.shape[1]
    p = r * (r + 1) // 2
    sums = np.zeros(p), np.zeros(p), np.zeros((p, r)), np.zeros((p, p))
    step = max(1, BLOCK_BYTES // (8 * max(p, r * r)))
    for rows, terms in _some_terms(sample, made, chosen, step):
        freq, prob = (None if v is None else v[rows] for v in (w.freq, w.prob))
        for total, part in zip(sums, _forms(terms, freq, prob, a, c), strict=True):
            total += part
    change = jacobian_of(frame, sample.point.sigma) @ factor
    return ContrastMoments(change, *sums, w.nobs)


def _some_terms(
    sample: Sample, made: Slices, width: float, step: int
) -> Iterator[tuple[slice, RowTerms]]:
    """Iterate over the terms of some rows at a time, those that were kept or made anew."""
    if made.terms is not None:
        for start in range(0, sample.endog.size, step):
            rows = slice(start, start + step)
            yield rows, RowTerms(*(each[..., rows] for each in made.terms))
        return
    for block in evaluated_blocks(sample):
        for some in block.split(step):
            yield (
                some.rows,
                row_terms(some, sample.point, width, made.frame.kept, made.frame.unit),
            )


def _forms(
    terms: RowTerms,
    freq: FloatArray | None,
    prob: FloatArray | None,
    a: FloatArray,
    c: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the sums over the weighted rows of what the forms are made of."""
    x, _, _, scores, pulls, corner = terms
    k, r = len(x), a.shape[1]
    z, shared = a.T.dot(scores), c.T.dot(pulls)
    along, across = a[:k].T.dot(x), c[:k].T.dot(x)
    others = a[k:].T.dot(pulls[k:])
    e = along[:, None] * shared + others[:, None] * across
    e += np.einsum("oj,pk,opn->jkn", a[k:], c[k:], corner, optimize=True)
    if prob is not None:
        z, e = z * prob, e * prob
    upper, lower = np.triu_indices(r)
    twice = np.where(upper == lower, 1.0, 2.0)[:, None]
    squares = twice * _pairs(z, z)
    parts = 0.5 * twice * (e[upper, lower] + e[lower, upper])
    weighted, bread = (squares, parts) if freq is None else (squares * freq, parts * freq)
    return (
        np.add.reduce(weighted, axis=1),
        np.add.reduce(bread, axis=1),
        weighted.dot(z.T),
        weighted.dot(squares.T) + bread.dot(parts.T),
    )
