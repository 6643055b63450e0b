"""The parameter vector: what is estimated, where it stands, and linear constraints on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.solver import Solution
from qhreg.specification.observations import Observations

EXTRA_NAMES = ("sigma", "tau", "kappa")
"""The parameters beside the coefficients, in the order of the parameter vector."""

DISTANCE = 1e-7
"""Share of a column outside the span of others from which it counts as no combination of them."""


class Parameters(NamedTuple):
    """The four parts of a parameter vector, fixed ones included."""

    beta: FloatArray
    sigma: float
    tau: float
    kappa: float


class RowLaw(NamedTuple):
    """The law of each row.

    Attributes
    ----------
    location : ndarray, shape (n,)
        Locations.
    sigma, tau : ndarray, shape (n,), or float
        Scales and asymmetries; a number is that of all rows.
    kappa : float
        The width.
    """

    location: FloatArray
    sigma: Any
    tau: Any
    kappa: float


@dataclass(frozen=True)
class ParameterSpace:
    """The free parameters (beta, sigma, tau, kappa) of a model with k columns.

    Attributes
    ----------
    k : int
        Number of coefficients.
    sigma, tau, kappa : float or None
        A number is fixed and does not appear in the vector; None is estimated and does.

    Examples
    --------
    >>> from qhreg.specification.parameters import ParameterSpace
    >>> space = ParameterSpace(2, kappa=1.0)
    >>> space.extra_names
    ('sigma', 'tau')
    >>> space.unpack([1.0, 2.0, 0.5, 0.25]).tau
    0.25
    """

    k: int
    sigma: float | None = None
    tau: float | None = None
    kappa: float | None = None

    @cached_property
    def extra_names(self) -> tuple[str, ...]:
        """Names of the estimated parameters beside the coefficients."""
        return tuple(name for name in EXTRA_NAMES if getattr(self, name) is None)

    @property
    def free(self) -> tuple[str, ...]:
        """The estimated blocks, the coefficients first if there are any."""
        return ("beta", *self.extra_names) if self.k else self.extra_names

    @property
    def size(self) -> int:
        """Length of the parameter vector."""
        return self.k + len(self.extra_names)

    def position(self, name: str) -> int | None:
        """Return where an extra parameter stands in the vector, or None when it is fixed."""
        names = self.extra_names
        return self.k + names.index(name) if name in names else None

    def pack(self, parameters: Parameters | Solution) -> FloatArray:
        """Return the vector of the estimated parameters."""
        extra = [getattr(parameters, name) for name in self.extra_names]
        return np.append(np.asarray(parameters.beta, dtype=np.float64), extra)

    def unpack(self, params: Any) -> Parameters:
        """Return the four parts of a vector, or raise if its length or its values are wrong."""
        wanted = ", ".join((f"{self.k} coefficients", *self.extra_names))
        vector = checked_vector(params, self.size, wanted)
        free = dict(zip(self.extra_names, vector[self.k :].tolist(), strict=True))
        sigma, tau, kappa = (free.get(name, getattr(self, name)) for name in EXTRA_NAMES)
        return Parameters(vector[: self.k], check_sigma(sigma), check_tau(tau), check_kappa(kappa))


def checked_vector(params: Any, size: int, wanted: str) -> FloatArray:
    """Return a parameter vector as floats, or raise if its length is not that of what is wanted."""
    if np.iscomplexobj(params):
        # statsmodels tries complex steps first, and falls back to real ones on this error
        raise TypeError("params must be real: the likelihood is not analytic")
    vector = np.asarray(params, dtype=np.float64)
    if vector.shape != (size,):
        raise DataError(f"params must have shape ({size},) for {wanted}; got {vector.shape}")
    return vector


def positions(cols: Any, names: Sequence[str]) -> list[int]:
    """Return the places of parameters that are given by place or name, or raise a DomainError.

    Parameters
    ----------
    cols : int, str, or sequence of them
        Which parameters.
    names : sequence of str
        All of them.
    """
    places = []
    for col in [cols] if np.ndim(cols) == 0 else cols:
        place = list(names).index(col) if col in names else col
        if not isinstance(place, (int, np.integer)) or not -len(names) <= place < len(names):
            raise DomainError(
                f"there is no parameter {col!r}: the parameters are {', '.join(names)}, at places 0 to "
                f"{len(names) - 1}"
            )
        places.append(int(place) % len(names))
    return places


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
        >>> from qhreg.specification.parameters import linear_constraint
        >>> from qhreg.specification.parameters import ParameterSpace
        >>> space = ParameterSpace(2, kappa=1.0)
        >>> equal = linear_constraint([[1, -1, 0, 0]], [0], space)
        >>> equal.left_open([[3, -3, 0, 0], [1, 0, 0, 0]], space).any(axis=1).tolist()
        [False, True]
        """
        contrasts = np.asarray(contrasts, dtype=np.float64)
        effect = contrasts @ self.jacobian(space)
        effect[np.abs(effect) <= ROUNDING * np.abs(contrasts).sum(axis=1, keepdims=True)] = 0.0
        return np.asarray(effect)


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
    >>> from qhreg.specification.parameters import linear_constraint
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


def require_nested(
    restricted: tuple[Observations, ParameterSpace], full: tuple[Observations, ParameterSpace]
) -> None:
    """Raise a DataError that says why the first regression is not a special case of the second.

    Parameters
    ----------
    restricted, full : (Observations, ParameterSpace)
        The data of each, and which of sigma, tau and kappa it fixes. The response and the
        frequencies must be the same, what the second fixes must be fixed at the same value in the
        first, and the columns and the offset of the first must be combinations of the columns of
        the second.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.parameters import require_nested
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.specification.parameters import ParameterSpace
    >>> y, x = np.arange(4.0), np.eye(4)[:, :2]
    >>> small = Observations(x[:, :1], y), ParameterSpace(1, tau=0.5, kappa=1.0)
    >>> large = Observations(x, y), ParameterSpace(2, kappa=1.0)
    >>> require_nested(small, large)
    """
    (inner, few), (outer, many) = restricted, full
    for name in EXTRA_NAMES:
        fixed, value = getattr(many, name), getattr(few, name)
        if fixed is not None and value != fixed:
            here = "estimates it" if value is None else f"fixes it at {value:g}"
            raise DataError(
                f"the fits are not nested: this one fixes {name} at {fixed:g}, the restricted one {here}"
            )
    if not np.array_equal(inner.endog, outer.endog):
        raise DataError("the fits are not nested: their responses differ")
    one, other = (
        np.ones(len(obs.endog)) if obs.freq_weights is None else obs.freq_weights
        for obs in (inner, outer)
    )
    if not np.array_equal(one, other):
        raise DataError("the fits are not nested: their frequency weights differ")
    outside = _outside(_differing(inner, outer), outer.exog)
    if outside > DISTANCE:
        raise DataError(
            "the fits are not nested: the location of the restricted one is no combination of the "
            "columns of this one"
        )


def _differing(inner: Observations, outer: Observations) -> FloatArray:
    """Return the columns of the first design that the second does not have, and a change of offset."""
    known = {column.tobytes() for column in np.asarray(outer.exog.T, order="C")}
    columns = [c for c in np.asarray(inner.exog.T, order="C") if c.tobytes() not in known]
    if inner.offset is not None or outer.offset is not None:
        zero = np.zeros(len(inner.endog))
        first, second = (zero if o is None else o for o in (inner.offset, outer.offset))
        if not np.array_equal(first, second):
            columns.append(first - second)
    return np.column_stack(columns) if columns else np.empty((len(inner.endog), 0))


def _outside(columns: FloatArray, exog: FloatArray) -> float:
    """Return the largest share of one of the columns that lies outside the span of exog."""
    if columns.shape[1] == 0:
        return 0.0
    size = np.abs(exog).max(axis=0, initial=0.0)
    scaled = exog / np.where(size > 0.0, size, 1.0)
    left = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=None)[0]
    shares = np.linalg.norm(left, axis=0) / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    return float(shares.max())
