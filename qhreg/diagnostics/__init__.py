"""The numbers behind the diagnostic plots, and tests of the fitted law.

``residuals`` and ``coefficients`` make what ``figures`` names, ``goodness`` the samples from a fit
that its tests and the envelopes of the plots are made of.
"""

from __future__ import annotations

from qhreg.diagnostics.residuals import (
    LEVELS,
    density_figure,
    fit_figure,
    normal_scores,
    pit_figure,
    plotting_positions,
    qq_figure,
    residual_figure,
    scale_location_figure,
    tau_loss_figure,
    thinned,
    worm_figure,
)

__all__ = [
    "LEVELS",
    "density_figure",
    "fit_figure",
    "normal_scores",
    "pit_figure",
    "plotting_positions",
    "qq_figure",
    "residual_figure",
    "scale_location_figure",
    "tau_loss_figure",
    "thinned",
    "worm_figure",
]
