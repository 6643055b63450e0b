"""Bread and meat of a sandwich covariance, in coordinates that lose no digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg.curvature import RowWeights, row_sums
from qhreg.information import design_moments, gram_factor, unit_information
from qhreg.orthonormal import Frame, frame_of, frame_without_moments, inverse_of
from qhreg.scores import Sample

__all__ = ["Slices", "slices_of"]

FloatArray = npt.NDArray[np.float64]


class Slices(NamedTuple):
    """Bread and meat of a sandwich, the parameters they are for, whether expected blocks helped."""

    frame: Frame
    inverse: FloatArray
    meat: FloatArray
    helped: bool


def slices_of(sample: Sample, weights: RowWeights, free: tuple[str, ...], width: float) -> Slices:
    """Return the inverse bread and the meat, from one pass over well-conditioned columns.

    Columns are made orthonormal in the metric of the meat, which is summed anyway.
    """
    point, p = sample.point, sample.n_columns
    if "beta" in free:
        unit = unit_information(point.tau, point.kappa)
        sums = row_sums(sample, weights, unit, width, free)
        factor = gram_factor(sums.meat[:p, :p])
        frame = None if factor is None else frame_without_moments(factor, point, free, unit)
        if frame is not None:
            bread, meat = sums.bread, sums.meat
            if frame.held:
                sizes = [(name in frame.held, p if name == "beta" else 1) for name in free]
                kept = np.flatnonzero([not held for held, size in sizes for _ in range(size)])
                bread, meat = (each.take(kept, 0).take(kept, 1) for each in (bread, meat))
            bread, meat = frame.from_raw(bread, meat)
            inverse = inverse_of(bread)
            if inverse is not None:
                return Slices(frame, inverse, meat, False)
    return _careful(sample, weights, free, width)


def _careful(sample: Sample, weights: RowWeights, free: tuple[str, ...], width: float) -> Slices:
    """Return the same from the columns made orthonormal first; expected blocks help if they must."""
    frame, info = frame_of(design_moments(sample.exog, weights.total), sample.point, free)
    inner = sample.in_coordinates(frame.coordinates.transform)
    sums = row_sums(inner, weights, frame.unit, width, frame.kept)
    inverse = inverse_of(sums.bread)
    if inverse is not None:
        return Slices(frame, inverse, sums.meat, False)
    r = inner.n_columns if "beta" in frame.kept else 0
    info[:r, :r] = sums.bread[:r, :r]
    inverse = inverse_of(info)
    inverse = np.asarray(np.linalg.pinv(info) if inverse is None else inverse)
    return Slices(frame, inverse, sums.meat, True)
