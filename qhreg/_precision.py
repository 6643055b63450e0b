"""What counts as rounding error, once for the whole package."""

from __future__ import annotations

ROUNDING = 1e-13
"""Relative rounding error of what is computed from all rows: some hundred units in the last place."""

VANISHING = 1e-10
"""Share of the whole below which what is left of it after a solve with a matrix counts as zero."""

INTERPOLATED = 1e-6
"""Share of the mean residual below which a row may be one that the fit passes through."""
