"""The parameter domains: 0 < tau < 1, 0 <= kappa < inf, 0 < sigma < inf, checked in one place."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from qhreg.exceptions import DomainError

__all__ = ["check_kappa", "check_sigma", "check_tau"]

FloatArray = npt.NDArray[np.float64]


def _as_float(name: str, value: Any) -> float | FloatArray:
    """Return value as a Python float (scalars) or a float64 array, or say that it is no number."""
    if isinstance(value, float):
        return float(value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DomainError(f"{name} must be a real number, got {value!r}") from error
    return float(array) if array.ndim == 0 else array


def _reject(name: str, value: float | FloatArray, good: Any, allowed: str) -> None:
    """Raise a DomainError that shows the first offending value of name."""
    if np.all(good):
        return
    offending = np.asarray(value)[~np.asarray(good)] if np.ndim(value) else np.asarray([value])
    count = f" ({offending.size} values outside)" if offending.size > 1 else ""
    raise DomainError(f"{name} must satisfy {allowed}, got {float(offending.flat[0])!r}{count}")


@overload
def check_tau(tau: float) -> float: ...
@overload
def check_tau(tau: Any) -> float | FloatArray: ...
def check_tau(tau: Any) -> float | FloatArray:
    """Return tau as float64, or raise a DomainError unless 0 < tau < 1 everywhere."""
    value = _as_float("tau", tau)
    _reject("tau", value, (value > 0) & (value < 1), "0 < tau < 1")
    return value


@overload
def check_kappa(kappa: float) -> float: ...
@overload
def check_kappa(kappa: Any) -> float | FloatArray: ...
def check_kappa(kappa: Any) -> float | FloatArray:
    """Return kappa as float64, or raise a DomainError unless 0 <= kappa < inf everywhere."""
    value = _as_float("kappa", kappa)
    _reject("kappa", value, (value >= 0) & (value < np.inf), "0 <= kappa < inf")
    return value


@overload
def check_sigma(sigma: float) -> float: ...
@overload
def check_sigma(sigma: Any) -> float | FloatArray: ...
def check_sigma(sigma: Any) -> float | FloatArray:
    """Return sigma as float64, or raise a DomainError unless 0 < sigma < inf everywhere."""
    value = _as_float("sigma", sigma)
    _reject("sigma", value, (value > 0) & (value < np.inf), "0 < sigma < inf")
    return value
