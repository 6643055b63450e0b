"""The fit with an elastic-net penalty on the coefficients, with proof of what it found.

``penalized`` minimises, ``fit`` goes over tau and along a path, ``results`` puts names on and
chooses the penalty by cross-validation.
"""

from __future__ import annotations

from qhreg.regularized.fit import largest_alpha, regularized_path, solve_regularized

__all__ = ["largest_alpha", "regularized_path", "solve_regularized"]
