"""Plots with matplotlib: profiles, certificates, residuals and coefficients.

Every function draws the numbers of one figure of :mod:`qhreg.diagnostics.figures` and computes none.
The colours are told apart with every common colour vision, and lines also by their style.
"""

from __future__ import annotations

from qhreg.plotting.coefficients import plot_partial_residuals, plot_process
from qhreg.plotting.profiles import plot_profile, plot_surface, plot_tau_loss
from qhreg.plotting.residuals import (
    plot_density,
    plot_diagnostics,
    plot_fit,
    plot_pit,
    plot_qq,
    plot_residuals,
    plot_worm,
)

__all__ = [
    "plot_density",
    "plot_diagnostics",
    "plot_fit",
    "plot_partial_residuals",
    "plot_pit",
    "plot_process",
    "plot_profile",
    "plot_qq",
    "plot_residuals",
    "plot_surface",
    "plot_tau_loss",
    "plot_worm",
]
