"""Predictions at given parameters, for the rows of a model or for new ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError
from qhreg.family.distribution import quantile_huber
from qhreg.prediction import predict
from qhreg.specification.parameters import ParameterSpace

__all__ = ["PredictionMethods"]


class PredictionMethods:
    """The location and what follows from it."""

    space: ParameterSpace
    observations: Any
    k_exog: int
    _init_keys: list[str]

    def predict(
        self,
        params: Any,
        exog: Any = None,
        which: str = "location",
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> Any:
        """Return predictions at given parameters.

        Parameters
        ----------
        params : array_like
            Parameters.
        exog : array_like, shape (m, k), optional
            Regressors; those of the model by default.
        which : {"location", "mean", "median", "quantile", "prob", "var"}
            See :func:`qhreg.prediction.predict`.
        offset : float or array_like, optional
            Offset of the new rows. Needed when the model has one and `exog` is given.
        q : float or sequence of float
            Levels for ``which="quantile"``.
        y_values : float or sequence of float
            Thresholds for ``which="prob"``.

        Returns
        -------
        ndarray, shape (m,), or (m, number of levels or thresholds)
            The predictions.
        """
        p = self.space.unpack(params)
        return predict(self.location(p.beta, exog, offset), p, which, q=q, y_values=y_values)

    def get_distribution(self, params: Any, exog: Any = None, offset: Any = None) -> Any:
        """Return the distribution of each row at given parameters as a frozen scipy distribution.

        Parameters
        ----------
        params : array_like
            Parameters.
        exog : array_like, shape (m, k), optional
            Regressors; those of the model by default.
        offset : float or array_like, optional
            Offset of the new rows.
        """
        p = self.space.unpack(params)
        return quantile_huber(
            p.tau, p.kappa, loc=self.location(p.beta, exog, offset), scale=p.sigma
        )

    def location(self, beta: FloatArray, exog: Any = None, offset: Any = None) -> FloatArray:
        """Return x'beta plus offset, for the rows of the model or for new ones."""
        if exog is None:
            if offset is None:
                fitted: FloatArray = self.observations.location(beta)
                return fitted
            exog = self.observations.exog
        elif offset is None and self._has_offset:
            raise DataError(
                "the model was fitted with an offset, which the new rows need too: pass offset= "
                "(0 for none)"
            )
        exog = np.asarray(exog, dtype=np.float64)
        exog = exog[:, None] if exog.ndim == 1 and self.k_exog == 1 else np.atleast_2d(exog)
        if exog.shape[1] != self.k_exog:
            raise DataError(f"exog has {exog.shape[1]} columns, the model has {self.k_exog}")
        fitted = exog @ beta
        if offset is not None:
            values = np.asarray(offset, dtype=np.float64)
            if values.ndim and values.shape != fitted.shape:
                raise DataError(f"offset has length {values.size}, exog has {fitted.size} rows")
            fitted = fitted + values
        return fitted

    @property
    def _has_offset(self) -> bool:
        return "offset" in self._init_keys
