"""What fitted models say of the covariance they use, under the names statsmodels gives it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.covariance import CovarianceEstimate
from qhreg.covariance.choice import CovarianceChoice

__all__ = ["UncertaintyResults"]

FloatArray = npt.NDArray[np.float64]


class UncertaintyResults:
    """The covariance of the estimates and how it was made."""

    df_resid: float
    _choice: CovarianceChoice

    @cached_property
    def _covariance(self) -> CovarianceEstimate:
        raise NotImplementedError

    @property
    def cov_type(self) -> str:
        """Type of the covariance."""
        return self._choice.cov_type

    @property
    def cov_kwds(self) -> dict[str, Any]:
        """Options of the covariance with a description."""
        return {**self._choice.options, "description": self._covariance.description}

    @property
    def cov_params_default(self) -> FloatArray:
        """Covariance of the parameters."""
        return self._covariance.cov

    @property
    def normalized_cov_params(self) -> FloatArray:
        """Covariance of the parameters; the scale of statsmodels is 1 here."""
        return self._covariance.cov

    @property
    def df_resid_inference(self) -> float:
        """Degrees of freedom of the t distribution, if that is used."""
        df = self._covariance.df_inference
        return self.df_resid if df is None else float(df)
