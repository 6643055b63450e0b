"""What linear combinations of the estimates, over their standard errors, are compared with."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.calibration import Calibration, contrast_calibration
from qhreg.covariance.contrastlaw import ContrastMoments, contrast_moments, has_moments
from qhreg.exceptions import DataError
from qhreg.specification.parameters import ParameterSpace

__all__ = ["LawResults"]


MOST_ROW_PAIRS = 1e8
"""Rows of the data times predictions up to which the law of each is found, of many parameters."""


class LawResults:
    """The part of the results that knows the law of a sandwich of independent rows."""

    model: Any
    space: ParameterSpace
    constraint: Any
    n_rows: int
    solution: Any
    _covariance: Any
    _choice: Any
    _known: Any
    _fit_data: Any
    _fit_solution: Any

    @property
    def _sandwich_data(self) -> dict[str, Any]:
        """What the law is made from; under constraints the data of the reduced coefficients."""
        data = self._fit_data
        obs = data.observations
        return {
            "exog": obs.exog,
            "endog": obs.endog,
            "fit": self._fit_solution,
            "cov_type": self._choice.cov_type,
            "free": data.space.free,
            "freq_weights": obs.freq_weights,
            "weights": obs.weights,
            "offset": obs.offset,
            "width": self._choice.options.get("width"),
        }

    @cached_property
    def _contrast_moments(self) -> ContrastMoments | None:
        """What the laws of all combinations take of the rows, where parameters and rows are few."""
        if self._covariance.calibration is None or not has_moments(self.n_rows, self.space.size):
            return None
        return contrast_moments(**self._sandwich_data)

    def _of_free(self, contrasts: FloatArray) -> FloatArray:
        """Return combinations of the parameters as such of those that were fitted."""
        if self.constraint is None:
            return contrasts
        return np.asarray(contrasts @ self.constraint.jacobian(self.space))

    def _contrast_law(self, contrasts: FloatArray) -> Calibration:
        """Return the law of combinations of several parameters, which takes the rows of the data."""
        if self.model.exog is not None:
            return contrast_calibration(self._of_free(contrasts), **self._sandwich_data)
        if self._contrast_moments is not None:
            return self._contrast_moments.calibration(self._of_free(contrasts))
        raise DataError(
            "the data of this model were removed (remove_data), and the p-value of a combination "
            "of parameters needs them: ask for it before, or give cov_p=results.cov_params() for "
            "the normal distribution"
        )

    def _linear_law(self, contrasts: FloatArray) -> Calibration | None:
        """Return the law of many combinations, or None where that is the normal or the t law.

        Single parameters have that of the table. Others have none, but the normal one, where kappa ended
        at a limit; where there are no moments and the data were removed; and where rows and combinations
        are too many.
        """
        known: Calibration | None = self._covariance.calibration
        if known is None:
            return None
        law = Calibration(np.zeros(len(contrasts)), np.full(len(contrasts), np.inf))
        terms = np.count_nonzero(contrasts, axis=1)
        single, several = terms == 1, terms > 1
        law.skew[single], law.df[single] = known.of_single(contrasts[single])
        found = self._law_of_several(contrasts[several])
        if found is not None:
            law.skew[several], law.df[several] = found
        return law

    def _law_of_several(self, contrasts: FloatArray) -> Calibration | None:
        if not len(contrasts) or self._known:
            return None
        if self._contrast_moments is not None:
            return self._contrast_moments.calibration(self._of_free(contrasts))
        if self.model.exog is None or self.n_rows * len(contrasts) > MOST_ROW_PAIRS:
            return None
        return contrast_calibration(self._of_free(contrasts), **self._sandwich_data)
