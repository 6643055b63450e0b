"""Bread and meat of a sandwich covariance, in coordinates that lose no digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.bread import Lost, bread_inverse, has_lost_scores, is_flat, lost_scores
from qhreg.covariance.curvature import RowSums, RowWeights, row_sums, row_weights
from qhreg.covariance.information import (
    UnitInformation,
    check_free,
    design_moments,
    gram_factor,
    unit_information,
)
from qhreg.covariance.oldwidth import chosen_width
from qhreg.covariance.orthonormal import (
    Frame,
    frame_of,
    frame_without_moments,
    inverse_of,
)
from qhreg.covariance.rowterms import RowTerms, row_terms, summed_terms
from qhreg.covariance.scores import Fitted, Sample, checked_sample, evaluated_blocks

__all__ = ["FEW_ROWS", "Judged", "Sandwich", "Slices", "sandwich_of", "slices_of"]


FEW_ROWS = 3000
"""Rows up to which what bread and meat are made of is kept, for the calibration."""

FEW_NUMBERS = 25_000
"""Entries of their design up to which this is faster than to sum some of them at a time."""

FEW_PARAMETERS = 16
"""Parameters up to which a calibration in single precision gains nothing."""

FEW_SINGLE = 30_000
"""Entries of their design for more, for which the calibration then takes half the memory."""

WELL_CONDITIONED = 0.03
"""Least diagonal entry of the scaled Cholesky factor of a bread that loses no digits as it is."""


class Judged(NamedTuple):
    """Quantities that are linear in the parameters, seen from the rows of a sandwich.

    Attributes
    ----------
    by_score : ndarray, shape (r, m)
        What a score is multiplied with for its influence on each of them.
    shared : ndarray, shape (r, m)
        Their covariance with the parameters of the frame.
    cov : ndarray, shape (m, m)
        Their covariance.
    """

    by_score: FloatArray
    shared: FloatArray
    cov: FloatArray


class Slices(NamedTuple):
    """Bread and meat of a sandwich, and the parameters they are for.

    `helped` says what stands in for parts of the bread, `lost` whose scores vanish. `terms` are those of
    the rows in the coordinates of the sample, or None.
    """

    frame: Frame
    inverse: FloatArray
    meat: FloatArray
    helped: str
    lost: Lost | None = None
    terms: RowTerms | None = None

    def judged(self, jacobian: FloatArray) -> Judged:
        """Return quantities with these derivatives in the parameters of the frame, shape (m, r)."""
        by_score = self.inverse.dot(jacobian.T)
        shared = self.inverse.dot(self.meat.dot(by_score))
        return Judged(by_score, shared, jacobian.dot(shared))


class Sandwich(NamedTuple):
    """Data with a fit, their weights, the width of the zone in the bread, and bread and meat."""

    sample: Sample
    weights: RowWeights
    width: float
    slices: Slices


def sandwich_of(
    exog: Any,
    endog: Any,
    fit: Fitted,
    free: Sequence[str],
    freq_weights: Any,
    weights: Any,
    offset: Any,
    width: float | None,
) -> Sandwich:
    """Return the sandwich of data as given; parameters as in :func:`qhreg.covariance.covariance`."""
    sample = checked_sample(exog, endog, fit, offset)
    w = row_weights(freq_weights, weights, sample.endog.size)
    chosen = chosen_width(sample, w.total, w.nobs, width)
    return Sandwich(sample, w, chosen, slices_of(sample, w, check_free(free), chosen))


def slices_of(sample: Sample, weights: RowWeights, free: tuple[str, ...], width: float) -> Slices:
    """Return the inverse bread and the meat, from one pass over well-conditioned columns.

    Columns that are not well-conditioned are made orthonormal in the metric of the meat, which is
    summed anyway.
    """
    if "beta" not in free:
        return _careful(sample, weights, free, width)
    point, p = sample.point, sample.n_columns
    unit = unit_information(point.tau, point.kappa)
    sums, terms = _sums(sample, weights, free, width, unit)
    plain = frame_without_moments(None, p, point, free, unit)
    if plain is None:
        return _careful(sample, weights, free, width)
    bread, meat = sums.bread, sums.meat
    if plain.held:
        terms = None
        sizes = [(name in plain.held, p if name == "beta" else 1) for name in free]
        kept = np.flatnonzero([not held for held, size in sizes for _ in range(size)])
        bread, meat = (each.take(kept, 0).take(kept, 1) for each in (bread, meat))
    if has_lost_scores(bread, meat, p):
        return _careful(sample, weights, free, width)
    inverse = inverse_of(bread, WELL_CONDITIONED)
    if inverse is not None:
        return Slices(plain, inverse, meat, "", terms=terms)
    factor = gram_factor(sums.meat[:p, :p])
    frame = None if factor is None else frame_without_moments(factor, p, point, free, unit)
    if frame is not None:
        bread, meat = frame.from_raw(bread, meat)
        inverse = inverse_of(bread)
        r = frame.coordinates.transform.shape[1]
        if inverse is not None and not is_flat(bread, inverse, r):
            return Slices(frame, inverse, meat, "", terms=terms)
    return _careful(sample, weights, free, width)


def _sums(
    sample: Sample,
    weights: RowWeights,
    free: tuple[str, ...],
    width: float,
    unit: UnitInformation,
) -> tuple[RowSums, RowTerms | None]:
    """Return the sums over all rows, and what they are made of where the rows are few."""
    n, p = sample.exog.shape
    most = FEW_NUMBERS if p < FEW_PARAMETERS else FEW_SINGLE
    if n > FEW_ROWS or n * p > most:
        return row_sums(sample, weights, unit, width, free), None
    (block,) = evaluated_blocks(sample)
    terms = row_terms(block, sample.point, width, free, unit)
    return summed_terms(terms, weights), terms


def _careful(sample: Sample, weights: RowWeights, free: tuple[str, ...], width: float) -> Slices:
    """Return the same from the columns made orthonormal first; others stand in if they must."""
    frame, info = frame_of(design_moments(sample.exog, weights.total), sample.point, free)
    inner = sample.in_coordinates(frame.coordinates.transform)
    sums = row_sums(inner, weights, frame.unit, width, frame.kept)
    r = inner.n_columns if "beta" in frame.kept else 0
    lost = lost_scores(sums.bread, sums.meat, info, r)
    bread, meat = sums.bread, sums.meat
    if lost is not None:
        bread, meat = lost.bread, meat + lost.meat
    inverse, helped = bread_inverse(bread, info, r)
    return Slices(frame, inverse, meat, helped, lost)
