"""Linear constraints on the parameters, solved by a change of coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

__all__ = ["Constraint", "linear_constraint"]


ROUNDING = 1e-14
"""Rounding error of a number in a matrix with orthonormal columns."""


@dataclass(frozen=True)
class Constraint:
    """The parameters that satisfy linear constraints.

    Attributes
    ----------
    transform : ndarray, shape (k, r)
        Orthonormal columns: the coefficients are ``transform @ gamma + shift``.
    shift : ndarray, shape (k,)
        The shortest coefficients that satisfy the constraints.
    fixed : dict
        Values of sigma, tau or kappa that the constraints fix.
    """

    transform: FloatArray
    shift: FloatArray
    fixed: dict[str, float]

    def reduce(self, observations: Observations) -> Observations:
        """Return the data of the unconstrained regression for gamma."""
        known = observations.exog @ self.shift
        if observations.offset is not None:
            known = known + observations.offset
        return replace(observations, exog=observations.exog @ self.transform, offset=known)

    def expand(self, gamma: FloatArray) -> FloatArray:
        """Return the coefficients that belong to gamma."""
        return self.transform @ gamma + self.shift

    def jacobian(self, space: ParameterSpace) -> FloatArray:
        """Return the derivative of all parameters in (gamma, those of the others still free)."""
        kept = [name for name in space.extra_names if name not in self.fixed]
        k, r = self.transform.shape
        jacobian = np.zeros((space.size, r + len(kept)))
        jacobian[:k, :r] = self.transform
        for column, name in enumerate(kept, start=r):
            jacobian[space.position(name), column] = 1.0
        return jacobian

    def left_open(self, contrasts: FloatArray, space: ParameterSpace) -> FloatArray:
        """Return linear combinations of all parameters as such of those that are still free.

        Parameters
        ----------
        contrasts : ndarray, shape (m, size)
            One combination in each row.
        space : ParameterSpace
            The parameters.

        Returns
        -------
        ndarray, shape (m, number of free parameters)
            Zero, without rounding errors, in the row of a combination that the constraints decide.

        Examples
        --------
        >>> from qhreg.specification.constraints import linear_constraint
        >>> from qhreg.specification.parameters import ParameterSpace
        >>> space = ParameterSpace(2, kappa=1.0)
        >>> equal = linear_constraint([[1, -1, 0, 0]], [0], space)
        >>> equal.left_open([[3, -3, 0, 0], [1, 0, 0, 0]], space).any(axis=1).tolist()
        [False, True]
        """
        contrasts = np.asarray(contrasts, dtype=np.float64)
        made = contrasts @ self.jacobian(space)
        made[np.abs(made) <= ROUNDING * np.abs(contrasts).sum(axis=1, keepdims=True)] = 0.0
        return np.asarray(made)


def linear_constraint(matrix: Any, values: Any, space: ParameterSpace) -> Constraint:
    """Return the constraint ``matrix @ params = values``.

    Parameters
    ----------
    matrix : array_like, shape (m, size)
        One row for each constraint.
    values : array_like, shape (m,)
        Right-hand sides.
    space : ParameterSpace
        The parameters. A row may combine coefficients, or fix one of sigma, tau and kappa.

    Examples
    --------
    >>> from qhreg.specification.constraints import linear_constraint
    >>> from qhreg.specification.parameters import ParameterSpace
    >>> made = linear_constraint([[1, 1, 0, 0]], [2], ParameterSpace(2, kappa=1.0))
    >>> made.shift.round(6).tolist(), made.transform.shape
    ([1.0, 1.0], (2, 1))
    """
    matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    values = np.broadcast_to(np.ravel(np.asarray(values, dtype=np.float64)), matrix.shape[:1])
    if matrix.shape[1] != space.size:
        raise DomainError(
            f"constraints have {matrix.shape[1]} columns, there are {space.size} parameters"
        )
    fixed: dict[str, float] = {}
    of_beta = np.ones(len(matrix), dtype=bool)
    for i, row in enumerate(matrix):
        extra = np.flatnonzero(row[space.k :])
        if extra.size == 0:
            continue
        if extra.size > 1 or row[: space.k].any():
            raise DomainError(
                "a constraint may combine coefficients or fix one of sigma, tau and kappa, not both"
            )
        name = space.extra_names[int(extra[0])]
        value = float(values[i] / row[space.k + extra[0]])
        if not np.isclose(fixed.setdefault(name, value), value, rtol=1e-10, atol=1e-10):
            raise DomainError(
                f"the constraints contradict each other: {name} = {fixed[name]:g} and {value:g}"
            )
        of_beta[i] = False
    rows, target = matrix[of_beta][:, : space.k], values[of_beta]
    if not len(rows):
        return Constraint(np.eye(space.k), np.zeros(space.k), fixed)
    shift = np.linalg.lstsq(rows, target, rcond=None)[0]
    if not np.allclose(rows @ shift, target, rtol=1e-10, atol=1e-10):
        raise DomainError("the constraints contradict each other")
    return Constraint(linalg.null_space(rows), shift, fixed)
