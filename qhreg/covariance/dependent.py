"""Sandwich covariances of rows that depend on each other: within clusters, or in time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.calibration import Calibration
from qhreg.covariance.confined import confined
from qhreg.covariance.curvature import RowWeights
from qhreg.covariance.dependence import clustered, group_codes, lags, serial
from qhreg.covariance.orthonormal import Frame
from qhreg.covariance.scores import Sample, evaluated_blocks, score_block
from qhreg.exceptions import DomainError

__all__ = [
    "NEEDS_PERIODS",
    "Estimated",
    "clusters",
    "design_and_slopes",
    "moved",
    "series",
]


NEEDS_PERIODS = "cov_type='HAC' needs one row per period: freq_weights make no sense"
"""Why rows that stand for several have none for time series."""


class Estimated(NamedTuple):
    """A covariance of the free parameters, and what to say about it."""

    cov: FloatArray
    text: str
    used: dict[str, Any]
    df: int | None = None
    calibration: Calibration | None = None
    confined: tuple[int, ...] = ()
    negative: tuple[int, ...] = ()


def _scores(sample: Sample, frame: Frame, weights: RowWeights) -> FloatArray:
    """Return the weighted scores of all rows, in the coordinates of the frame."""
    columns = {"beta": frame.coordinates.transform.shape[1]}
    scores = np.empty((sample.endog.size, sum(columns.get(name, 1) for name in frame.kept)))
    total = weights.total
    for block in evaluated_blocks(sample.in_coordinates(frame.coordinates.transform)):
        part = score_block(block, frame.kept, sample.point, frame.unit)
        scores[block.rows] = part if total is None else part * total[block.rows, None]
    return scores


def clusters(
    sample: Sample,
    frame: Frame,
    weights: RowWeights,
    inverse: FloatArray,
    jacobian: FloatArray,
    options: dict[str, Any],
) -> Estimated:
    """Return the sandwich of rows that are dependent within clusters."""
    codes = group_codes(options["groups"], sample.endog.size, weights.total)
    correct = options["use_correction"] is not False
    scores = _scores(sample, frame, weights)
    touched: set[int] = set()

    def unseen(code: npt.NDArray[np.intp]) -> FloatArray | None:
        design, psi = design_and_slopes(sample.in_coordinates(frame.coordinates.transform))
        alone = confined([design], psi[:, None], weights, code, inverse)
        if alone is None:
            return None
        touched.update(moved(frame.coordinates.back @ alone.directions[: design.shape[1]]))
        return alone.cov

    has_beta = "beta" in frame.kept and frame.coordinates.transform.shape[1] > 0
    made = clustered(scores, inverse, codes, weights.nobs, correct, unseen if has_beta else None)
    sizes = tuple(int(code.max()) + 1 for code in codes)
    text = f"clustered sandwich, {' x '.join(map(str, sizes))} clusters"
    text += ", negative eigenvalues set to zero" if made.repaired else ""
    cov = jacobian @ made.cov @ jacobian.T
    used = {"n_groups": sizes, "use_correction": correct}
    return Estimated(
        cov,
        text,
        used,
        min(sizes) - 1,
        confined=tuple(sorted(touched)),
        negative=made.negative(jacobian),
    )


def design_and_slopes(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the columns in the coordinates of a sample, and the slopes."""
    blocks = list(evaluated_blocks(sample))
    return np.vstack([b.design for b in blocks]), np.concatenate([b.psi for b in blocks])


def moved(directions: FloatArray) -> list[int]:
    """Return the coefficients that have a part in some of the combinations, one column each."""
    size = np.abs(directions)
    least = 1e-9 * size.max(axis=0, initial=0.0)
    found: list[int] = np.flatnonzero((size > least).any(axis=1)).tolist()
    return found


def series(
    sample: Sample,
    frame: Frame,
    weights: RowWeights,
    inverse: FloatArray,
    jacobian: FloatArray,
    options: dict[str, Any],
) -> Estimated:
    """Return the sandwich of a time series."""
    if weights.freq is not None:
        raise DomainError(NEEDS_PERIODS)
    count = lags(options["maxlags"], sample.endog.size)
    kernel = options["kernel"] or "bartlett"
    correct = bool(options["use_correction"])
    made = serial(_scores(sample, frame, weights), inverse, count, kernel, correct)
    text = f"heteroskedasticity- and autocorrelation-robust sandwich, {count} lags"
    text += ", negative eigenvalues set to zero" if made.repaired else ""
    used = {"maxlags": count, "kernel": kernel, "use_correction": correct}
    cov = jacobian @ made.cov @ jacobian.T
    return Estimated(cov, text, used, negative=made.negative(jacobian))
