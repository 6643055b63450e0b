"""The parameter domains: 0 < tau < 1, 0 <= kappa < inf, 0 < sigma < inf, 0 < alpha < 1 of intervals.

They are checked here and nowhere else. What moves a parameter, a standard error or a replicate, moves
its coordinate on the whole line, so that nothing leaves a domain: the logit of tau and of probabilities,
the logarithm of sigma, kappa and variances.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError


def _is_numeric(array: npt.NDArray[Any]) -> bool:
    """Return whether every element is a number: numpy itself would parse "0.5" and accept None."""
    if array.dtype.kind == "O":
        return all(isinstance(item, Number) for item in array.flat)
    return array.dtype.kind in "iuf"


def check_real(name: str, value: Any) -> float | FloatArray:
    """Return value as a float (scalars) or a float64 array, or raise a DomainError if it is none.

    Numbers of any kind pass, infinite and NaN ones too; strings, None, booleans and complex
    numbers do not.
    """
    if isinstance(value, float):
        return float(value)
    try:
        given = np.asarray(value)
        array = np.asarray(given, dtype=np.float64) if _is_numeric(given) else None
    except (TypeError, ValueError, OverflowError) as error:
        raise DomainError(_no_number(name, value)) from error
    if array is None:
        raise DomainError(_no_number(name, value))
    return float(array) if array.ndim == 0 else array


def _no_number(name: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return f"{name} must be a real number or an array of real numbers, got {shown}"


def check_broadcast(**arrays: float | FloatArray) -> tuple[int, ...]:
    """Return the common shape of the named arguments, or raise a DomainError if there is none."""
    shapes = {name: getattr(array, "shape", ()) for name, array in arrays.items()}
    large = [shape for shape in shapes.values() if shape]
    if len(large) < 2:
        return large[0] if large else ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DomainError(f"shapes must broadcast to a common shape, got {given}") from error


def _reject(name: str, value: float | FloatArray, good: Any, allowed: str) -> None:
    """Raise a DomainError that shows the first offending value of name."""
    if good is True or np.all(good):  # a float needs no help from numpy
        return
    offending = np.asarray(value)[~np.asarray(good)] if np.ndim(value) else np.asarray([value])
    count = f" ({offending.size} values outside)" if offending.size > 1 else ""
    raise DomainError(f"{name} must satisfy {allowed}, got {float(offending.flat[0])!r}{count}")


def check_tau(tau: Any) -> Any:
    """Return tau as float64, or raise a DomainError unless 0 < tau < 1 everywhere."""
    value = check_real("tau", tau)
    _reject("tau", value, (value > 0) & (value < 1), "0 < tau < 1")
    return value


def check_kappa(kappa: Any) -> Any:
    """Return kappa as float64, or raise a DomainError unless 0 <= kappa < inf everywhere."""
    value = check_real("kappa", kappa)
    _reject("kappa", value, (value >= 0) & (value < np.inf), "0 <= kappa < inf")
    return value


def check_sigma(sigma: Any) -> Any:
    """Return sigma as float64, or raise a DomainError unless 0 < sigma < inf everywhere."""
    value = check_real("sigma", sigma)
    _reject("sigma", value, (value > 0) & (value < np.inf), "0 < sigma < inf")
    return value


def check_alpha(alpha: Any) -> None:
    """Raise a DomainError unless 0 < alpha < 1: one minus the coverage of intervals."""
    value = check_real("alpha", alpha)
    _reject("alpha", value, (value > 0) & (value < 1), "0 < alpha < 1")


UNIT = ("tau", "prob")
"""What lies in (0, 1); all else that has a coordinate on the line is positive."""


def to_line(name: str, value: Any) -> Any:
    """Return the logit of a number in (0, 1), and the logarithm of a positive one, by its name."""
    return special.logit(value) if name in UNIT else np.log(value)


def from_line(name: str, coordinate: Any) -> Any:
    """Return the number that has a coordinate; infinity where it is enormous."""
    with np.errstate(over="ignore"):
        return special.expit(coordinate) if name in UNIT else np.exp(coordinate)


def line_slope(name: str, value: Any) -> Any:
    """Return the derivative of a number in its coordinate."""
    return value * (1.0 - value) if name in UNIT else value
