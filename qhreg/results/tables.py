"""The tables of a fitted model, and the removal of its data, which leaves them as they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from qhreg.covariance import CovarianceChoice
from qhreg.exceptions import CurvatureWarning

__all__ = ["TableResults"]

MODEL_ROWS = (
    "exog",
    "endog",
    "weights",
    "offset",
    "freq_weights",
    "exog_scale",
    "exog_tau",
    "_kept",
)
"""Attributes of a model that have the length of the data."""

DATA_ROWS = ("exog", "endog", "orig_exog", "orig_endog", "frame")
"""Those of the holder in which statsmodels keeps the data."""


class TableResults:
    """The part of the results that prints them, with the data or without."""

    model: Any
    cov_type: Any
    _choice: CovarianceChoice
    _tables: ClassVar[tuple[Callable[..., Any], Callable[..., Any]]]
    """What makes the tables of `summary` and those of `summary2`."""
    _made_from_data: ClassVar[tuple[str, ...]]
    """What the tables and tests read and the data are needed for."""

    def summary(
        self,
        yname: str | None = None,
        xname: list[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> Any:
        """Return tables of the fit.

        Parameters
        ----------
        yname : str, optional
            Name of the response.
        xname : list of str, optional
            Names of all parameters; where sigma and tau have no regressors, those of the coefficients
            are enough.
        title : str, optional
            Title.
        alpha : float
            One minus the coverage of the intervals.
        """
        return self._tables[0](self, yname=yname, xname=xname, title=title, alpha=alpha)

    def summary2(
        self,
        yname: str | None = None,
        xname: list[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
        float_format: str = "%.4f",
    ) -> Any:
        """Return the tables of the fit in the layout of summary2.

        Parameters
        ----------
        yname, xname, title, alpha
            As in `summary`.
        float_format : str
            Format of numbers.
        """
        return self._tables[1](
            self, yname=yname, xname=xname, title=title, alpha=alpha, float_format=float_format
        )

    def _repr_html_(self) -> str:
        html: str = self.summary().as_html()
        return html

    def remove_data(self) -> None:
        """Remove all arrays of the length of the data, here and in the model.

        What tables and tests need is computed before; new rows can be predicted afterwards.
        """
        model, data = self.model, self.model.data
        if model.exog is not None:
            data.ynames  # noqa: B018  made from endog, and kept
            with warnings.catch_warnings():
                # nobody asked for standard errors; the notes of the tables say the same
                warnings.simplefilter("ignore", CurvatureWarning)
                for name in self._made_from_data:
                    getattr(self, name)
        for name in ("_residuals", "_observations"):
            self.__dict__.pop(name, None)
        kept = {k: v for k, v in self._choice.options.items() if np.ndim(v) == 0}
        self._choice = CovarianceChoice(self.cov_type, kept)
        for holder, names in ((model, MODEL_ROWS), (data, DATA_ROWS)):
            for name in names:
                if hasattr(holder, name):
                    setattr(holder, name, None)
        data._cache.pop("row_labels", None)
