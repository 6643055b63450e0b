r"""Coordinates in which the weighted columns of X are orthonormal, and the parameters in them.

Covariance algebra is done there, so that raw columns of very different size or high collinearity
lose no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from qhreg._typing import FloatArray
from qhreg.covariance.information import DesignMoments, UnitInformation, assemble, unit_information
from qhreg.covariance.scores import Point
from qhreg.engine.gram import plain_gram
from qhreg.solver.basis import CHOLESKY_SAFE, basis_of, minimum_norm

__all__ = [
    "Coordinates",
    "Frame",
    "coordinates_of",
    "frame_of",
    "frame_without_moments",
    "inverse_of",
    "jacobian_of",
    "to_parameters",
]


NO_INFORMATION = 1e-12
"""Share of a parameter's information below which the others explain all of it."""


@dataclass(frozen=True)
class Coordinates:
    """Orthonormal coordinates: Z = X transform has Z'WZ = 1, and beta = back gamma.

    Where they are plain, both matrices are the identity and the columns what they are.
    """

    transform: FloatArray
    back: FloatArray
    plain: bool = False


def coordinates_of(factor: FloatArray) -> Coordinates:
    """Return the coordinates in which R'R is the identity; dependent columns are left out."""
    if not factor.size:  # LAPACK complains of nothing to invert
        return Coordinates(factor, factor)
    diagonal = factor.diagonal()
    shortest = CHOLESKY_SAFE**2 * np.add.reduce(factor * factor)
    if bool((diagonal * diagonal > shortest).all()):
        inverse = dtrtri(factor)[0]
        return Coordinates(inverse, inverse)
    p = factor.shape[0]
    basis = basis_of(factor, np.zeros(p))
    transform = basis.matrix[:p, : basis.columns.size] / np.sqrt(p)
    back = np.empty_like(transform)
    for j, column in enumerate(transform.T):
        back[:, j] = minimum_norm(basis, column)
    return Coordinates(transform, back)


def _uninformed(
    rest: list[list[float]], whole: list[float], others: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the parameters about which nothing is left once the earlier ones are known.

    Parameters
    ----------
    rest : list of list of float
        Information about sigma, tau and kappa that is left once beta is known.
    whole : list of float
        All information about each of them.
    others : tuple of str
        Their names.
    """
    held = []
    for i, name in enumerate(others):
        pivot = rest[i][i]
        if not pivot > NO_INFORMATION * whole[i]:
            held.append(name)
            continue
        later = range(i + 1, len(others))
        for j in later:
            for k in later:
                rest[j][k] -= rest[j][i] * rest[i][k] / pivot
    return tuple(held)


def inverse_of(matrix: FloatArray, least: float = 0.0) -> FloatArray | None:
    """Return the inverse of a positive definite matrix, or None if it is not.

    Parameters
    ----------
    matrix : ndarray, shape (q, q)
        The matrix.
    least : float
        None is returned too where the diagonal of its Cholesky factor, scaled to rows of length one,
        goes below this.
    """
    diagonal = matrix.diagonal()
    if not _all_above(0.0, diagonal):
        return None
    length = np.sqrt(diagonal)
    factor, info = dpotrf(matrix / length / length[:, None], clean=1)
    if info != 0 or (least > 0.0 and not _all_above(least, factor.diagonal())):
        return None
    root = dtrtri(factor)[0] / length[:, None]
    return plain_gram(root.T)


def _all_above(bound: float, values: FloatArray) -> bool:
    """Return whether all of a few values are above a bound; NaN is not."""
    return all(value > bound for value in values.tolist())


class Frame(NamedTuple):
    """The parameters of a covariance: coordinates, estimated and held ones."""

    coordinates: Coordinates
    free: tuple[str, ...]
    held: tuple[str, ...]
    unit: UnitInformation

    @property
    def kept(self) -> tuple[str, ...]:
        """The parameters that have a covariance."""
        return tuple(name for name in self.free if name not in self.held)

    def to_raw(self, factors: FloatArray) -> FloatArray:
        """Return what multiplies scores of the columns as given instead of scores in these ones."""
        if self.coordinates.plain or "beta" not in self.kept:
            return factors
        transform = self.coordinates.transform
        r = transform.shape[1]
        return np.vstack([transform @ factors[:r], factors[r:]])

    def from_raw(self, *matrices: FloatArray) -> FloatArray:
        """Return matrices of second derivatives of the kept parameters in these coordinates."""
        stack = np.array(matrices)
        if "beta" not in self.kept:
            return stack
        p, r = self.coordinates.transform.shape
        others = stack.shape[1] - p
        change = np.zeros((p + others, r + others))
        change[:p, :r] = self.coordinates.transform
        for i in range(others):
            change[p + i, r + i] = 1.0
        made: FloatArray = change.T @ stack @ change
        return made


def _at_bound(point: Point, free: tuple[str, ...]) -> tuple[str, ...]:
    return ("tau",) if point.tau_at_bound and "tau" in free else ()


def frame_of(
    moments: DesignMoments, point: Point, free: tuple[str, ...]
) -> tuple[Frame, FloatArray]:
    """Return what is estimated and in which coordinates, and its expected information there."""
    unit = unit_information(point.tau, point.kappa)
    coordinates = coordinates_of(moments.factor)
    column = coordinates.transform.T @ moments.column_sum
    r = column.size if "beta" in free else 0
    bound = _at_bound(point, free)
    kept = tuple(name for name in free if name not in bound)
    info = assemble(kept, np.eye(column.size), column, moments.weight_sum, unit)
    # in orthonormal coordinates the beta block is a multiple of the identity
    cross, corner = info[:r, r:], info[r:, r:]
    rest = corner - cross.T @ cross / info[0, 0] if r else corner
    others = tuple(name for name in kept if name != "beta")
    lost = _uninformed(rest.tolist(), corner.diagonal().tolist(), others)
    if lost:
        kept = tuple(name for name in kept if name not in lost)
        info = assemble(kept, np.eye(column.size), column, moments.weight_sum, unit)
    return Frame(coordinates, free, bound + lost, unit), info


def frame_without_moments(
    factor: FloatArray | None, p: int, point: Point, free: tuple[str, ...], unit: UnitInformation
) -> Frame | None:
    """Return a frame in which R is the factor of another matrix than X'WX; None if that may mislead.

    Without a factor the p columns stay as they are.

    It does not where the data inform about every parameter whatever the design. The least is left
    about the others when the columns span a constant, so that one constant column decides.
    """
    bound = _at_bound(point, free)
    others = tuple(name for name in free if name not in bound and name != "beta")
    if not _informed(others, point.tau, point.kappa):
        return None
    coordinates = _plain_coordinates(p) if factor is None else coordinates_of(factor)
    return Frame(coordinates, free, bound, unit)


@lru_cache(maxsize=8)
def _plain_coordinates(p: int) -> Coordinates:
    """Return the coordinates of p columns that stay as they are."""
    same = np.eye(p)
    same.flags.writeable = False
    return Coordinates(same, same, plain=True)


@lru_cache(maxsize=32)
def _informed(others: tuple[str, ...], tau: float, kappa: float) -> bool:
    """Return whether a constant column leaves information about every other parameter."""
    unit = unit_information(tau, kappa)
    cross = [unit.of("beta", name) for name in others]
    whole = [unit.of(name, name) for name in others]
    rest = [
        [unit.of(a, b) - cross[i] * cross[j] / unit.beta_beta for j, b in enumerate(others)]
        for i, a in enumerate(others)
    ]
    return not _uninformed(rest, whole, others)


def jacobian_of(frame: Frame, sigma: float) -> FloatArray:
    """Return the derivative of the free parameters in (gamma, others) at sigma = 1."""
    back, free, held = frame.coordinates.back, frame.free, frame.held
    p, r = back.shape if "beta" in free else (0, 0)
    others = free[1:] if p else free
    kept = [name for name in others if name not in held]
    jacobian = np.zeros((p + len(others), r + len(kept)))
    if p:
        np.multiply(back, sigma, out=jacobian[:p, :r])
    for j, name in enumerate(kept):
        jacobian[p + others.index(name), r + j] = sigma if name == "sigma" else 1.0
    return jacobian


def to_parameters(frame: Frame, sigma: float, inner: FloatArray) -> FloatArray:
    """Return a covariance of (gamma, others) at sigma = 1 as one of the free parameters."""
    jacobian = jacobian_of(frame, sigma)
    return jacobian @ inner @ jacobian.T
