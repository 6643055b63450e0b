"""The parameter vector: which of sigma, tau and kappa are estimated, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_kappa, check_sigma, check_tau

__all__ = ["EXTRA_NAMES", "ParameterSpace", "Parameters", "RowLaw", "checked_vector", "positions"]


EXTRA_NAMES = ("sigma", "tau", "kappa")
"""The parameters beside the coefficients, in the order of the parameter vector."""


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

    def pack(self, parameters: Parameters) -> FloatArray:
        """Return the vector of the estimated parameters."""
        extra = [getattr(parameters, name) for name in self.extra_names]
        return np.append(np.asarray(parameters.beta, dtype=np.float64), extra)

    def unpack(self, params: Any) -> Parameters:
        """Return the four parts of a vector, or raise if its length or its values are wrong."""
        wanted = ", ".join((f"{self.k} coefficients", *self.extra_names))
        vector = checked_vector(params, self.size, wanted)
        values = {name: getattr(self, name) for name in EXTRA_NAMES}
        values.update(zip(self.extra_names, (float(v) for v in vector[self.k :]), strict=True))
        return Parameters(
            vector[: self.k],
            check_sigma(values["sigma"]),
            check_tau(values["tau"]),
            check_kappa(values["kappa"]),
        )


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
