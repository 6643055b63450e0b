"""The corners of a fit at kappa = 0: points that interpolate as many rows as there are coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dgeqp3

from qhreg._precision import INTERPOLATED
from qhreg._typing import FloatArray

__all__ = ["Corner", "Undecided", "unique_vertex", "vertex_of"]


UNIQUE = 1e-9
"""Slack of the dual variables of interpolated rows, over the smaller of tau and 1 - tau, from which on
they alone are the best."""


@dataclass(frozen=True)
class Undecided:
    """Rows near the zone in memory, and the sums over the others, whose slope is known.

    Attributes
    ----------
    design, weights : ndarray of shape (m, k), ndarray of shape (m,) or None
        The undecided rows in the coordinates of the problem.
    linear : ndarray, shape (k,)
        sum w psi W over the decided rows.
    outside : ndarray, shape (k,)
        sum w W over the decided rows.
    slope, square : float
        sum w psi and sum w psi^2 over the decided rows.
    side : ndarray of int8, shape (n,)
        Zero for the undecided rows, the sign of the residual the others are taken to have; empty where
        it was not to be kept.
    """

    design: FloatArray
    weights: FloatArray | None
    linear: FloatArray
    outside: FloatArray
    slope: float
    square: float
    side: npt.NDArray[np.int8]


def vertex_of(
    undecided: Undecided, z: FloatArray, v: FloatArray, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Return (z, v) with as many rows interpolated exactly as there are coefficients.

    The interpolated rows have slack in v and a small residual; their v follows from X'(w v) = 0 when
    the vertex is not degenerate. Where a whole face is optimal no row has slack, and the nearest rows
    lead to one of its corners.
    """
    r = z.size - 1
    if r == 0:
        return z, v
    size = np.abs(undecided.design @ z)
    size += 1e-15
    claim = np.minimum(v + tau, 1.0 - tau - v)
    np.maximum(claim, 1e-15, out=claim)
    claim /= size
    made = _corner(undecided, z, claim, tau)
    if made is None:
        return z, v
    room = 1e-12 * min(tau, 1.0 - tau)
    return made.z, made.v if made.slack >= -room else v


class Corner(NamedTuple):
    """A vertex, its dual variables, and the least slack of those of the interpolated rows."""

    z: FloatArray
    v: FloatArray
    slack: float


def _corner(undecided: Undecided, z: FloatArray, claim: FloatArray, tau: float) -> Corner | None:
    """Return the vertex that interpolates the rows with the highest claims, None if they depend."""
    r = z.size - 1
    candidates = np.argsort(np.negative(claim))[: max(4 * r, r + 10)]
    ranked = undecided.design[candidates, :-1]
    ranked *= claim[candidates, None]
    basic = candidates[dgeqp3(ranked.T, overwrite_a=True)[1][:r] - 1]
    square = undecided.design[basic, :-1]
    try:
        z = np.append(np.linalg.solve(square, -z[-1] * undecided.design[basic, -1]), z[-1])
        exact = np.where(undecided.design @ z > 0.0, 1.0 - tau, -tau)
        exact[basic] = 0.0
        w = undecided.weights
        rest = (exact if w is None else w * exact) @ undecided.design[:, :-1]
        inner = np.linalg.solve(square.T, -rest - undecided.linear[:-1])
    except np.linalg.LinAlgError:
        return None
    exact[basic] = inner = inner if w is None else inner / w[basic]
    return Corner(z, exact, float(min(inner.min() + tau, 1.0 - tau - inner.max())))


def unique_vertex(undecided: Undecided, start: FloatArray, tau: float) -> Corner | None:
    """Return the corner where a fit starts, if it starts at one and that is the only best point."""
    size = np.abs(undecided.design @ start)
    r = start.size - 1
    if r == 0 or np.count_nonzero(size < INTERPOLATED * size.mean()) < r:
        return None
    size += 1e-15
    made = _corner(undecided, start, np.divide(1.0, size, out=size), tau)
    return made if made is not None and made.slack > UNIQUE * min(tau, 1.0 - tau) else None
