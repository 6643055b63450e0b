"""Plots with matplotlib: fits, coefficients, profiles, certificates and residuals.

Every function draws the numbers that it is handed, mostly one figure of
:mod:`qhreg.diagnostics.figures`, and computes none. The colours are told apart in grey and with every
common colour vision (:mod:`qhreg.plotting.axes`), and lines also by their style.
"""

from __future__ import annotations

try:
    import matplotlib as _  # noqa: F401
except ImportError as error:
    raise ImportError("plots need matplotlib: pip install 'qhreg[plot]'") from error

from qhreg.plotting.coefficients import (
    plot_bootstrap,
    plot_coefficients,
    plot_comparison,
    plot_cross_validation,
    plot_penalty_path,
    plot_process,
    plot_tau_path,
)
from qhreg.plotting.profiles import plot_profile, plot_surface, plot_tau_loss
from qhreg.plotting.regressors import plot_fit, plot_parameters, plot_partial_residuals
from qhreg.plotting.residuals import (
    plot_density,
    plot_diagnostics,
    plot_influence,
    plot_pit,
    plot_qq,
    plot_residuals,
    plot_scale_location,
    plot_worm,
)

__all__ = [
    "plot_bootstrap",
    "plot_coefficients",
    "plot_comparison",
    "plot_cross_validation",
    "plot_density",
    "plot_diagnostics",
    "plot_fit",
    "plot_influence",
    "plot_parameters",
    "plot_partial_residuals",
    "plot_penalty_path",
    "plot_pit",
    "plot_process",
    "plot_profile",
    "plot_qq",
    "plot_residuals",
    "plot_scale_location",
    "plot_surface",
    "plot_tau_loss",
    "plot_tau_path",
    "plot_worm",
]
