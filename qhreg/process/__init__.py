"""Fits at many values of tau to the same rows: the process of the coefficients over tau.

``fits`` makes them, ``inference`` has their joint covariance and tests their slopes, ``results`` is
what they say together.
"""

from __future__ import annotations

from qhreg.process.fits import (
    Crossings,
    equality_test,
    find_crossings,
    fit_taus,
    tau_levels,
)

__all__ = [
    "Crossings",
    "equality_test",
    "find_crossings",
    "fit_taus",
    "tau_levels",
]
