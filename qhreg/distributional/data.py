"""The arrays of a distributional model, as other parts ask for them, and how they are stored."""

from __future__ import annotations

from typing import Any

import pandas as pd

from qhreg.covariance.choice import (
    SANDWICHES,
    CovarianceChoice,
    choose_covariance,
    known_type,
)
from qhreg.distributional.likelihood import Regression
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.alignment import RowSource
from qhreg.specification.formulas import SPEC_NAME, dump_spec, load_spec
from qhreg.specification.observations import Observations

__all__ = ["DistributionalData"]


class DistributionalData:
    """The part of the model that holds the rows."""

    data: Any
    exog: Any
    endog: Any
    exog_scale: Any
    exog_tau: Any
    offset: Any
    weights: Any
    kappa: float
    tau: float | None
    nobs_given: int
    _init_keys: list[str]
    _kept: Any
    _namespace: Any
    _specs: dict[str, Any]
    _fixed_predictors: Any

    @property
    def has_weights(self) -> bool:
        """Whether there are sampling weights; they count after `remove_data` too."""
        return "weights" in self._init_keys

    def require_data(self) -> None:
        """Raise a DataError when the data were removed."""
        if self.exog is None:
            raise DataError("the data of this model were removed (remove_data): it cannot do this")

    @property
    def observations(self) -> Observations:
        """Response, regressors of the location, offset and weights."""
        self.require_data()
        return Observations(
            self.exog, self.endog, self.offset, getattr(self, "freq_weights", None), self.weights
        )

    @property
    def regression(self) -> Regression:
        """The data as the likelihood takes them."""
        obs = self.observations
        return Regression(
            obs.endog,
            obs.exog,
            self.exog_scale,
            self.exog_tau,
            self.kappa,
            obs.offset,
            obs.case_weights,
            *self._fixed_predictors,
        )

    @property
    def row_source(self) -> RowSource:
        """Where the rows came from, to match other arrays to them."""
        self.require_data()
        labels = self.data.row_labels
        frame = getattr(self.data, "frame", None)
        return RowSource(
            self.nobs_given, self._kept, labels if isinstance(labels, pd.Index) else None, frame
        )

    def covariance_request(
        self, cov_type: str | None, cov_kwds: dict[str, Any] | None
    ) -> CovarianceChoice:
        """Return the covariance for a fit of this model."""
        if cov_type is not None and known_type(cov_type) == "bootstrap":
            raise DomainError(
                f"cov_type must be nonrobust, {', '.join(SANDWICHES)} for this model; got 'bootstrap'"
            )
        return choose_covariance(
            cov_type,
            cov_kwds,
            self.row_source,
            weights=self.weights,
            freq_weights=getattr(self, "freq_weights", None),
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        spec = getattr(self.data, SPEC_NAME, None)
        if spec is not None:
            # the data holder of statsmodels would evaluate the formula again when it is restored
            data = object.__new__(type(self.data))
            data.__dict__.update(self.data.__dict__)
            del data.__dict__[SPEC_NAME]
            state["data"] = data
            state["_dumped"] = dump_spec((spec, self._specs), self._namespace)
            del state["_namespace"], state["_specs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        dumped = state.pop("_dumped", None)
        self.__dict__.update(state)
        if dumped is not None:
            (spec, self._specs), self._namespace = load_spec(dumped)
            setattr(self.data, SPEC_NAME, spec)
