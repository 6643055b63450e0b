"""Fits at many values of tau to the same rows: the process of the coefficients over tau.

``fits`` compares their curves and slopes and has their joint covariance, ``results`` is what they say
together.
"""

from __future__ import annotations

from qhreg.process.fits import Crossings, equality_test, find_crossings, tau_levels

__all__ = ["Crossings", "equality_test", "find_crossings", "tau_levels"]
