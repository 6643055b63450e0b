"""What fitted models say of the covariance they use, under the names statsmodels gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceChoice, CovarianceEstimate
from qhreg.exceptions import DomainError

__all__ = [
    "UncertaintyResults",
    "labelled_covariance",
    "labelled_limits",
    "positions",
]


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
        """Degrees of freedom of the t distribution: `df_resid`, clusters minus one with clusters."""
        df = self._covariance.df
        return self.df_resid if df is None else float(df)

    def cov_params(
        self,
        r_matrix: Any = None,
        column: Any = None,
        scale: Any = None,
        cov_p: Any = None,
        other: Any = None,
    ) -> Any:
        """Return the covariance of the parameters or of combinations of them; see statsmodels.

        Parameters
        ----------
        r_matrix, column, scale, cov_p, other
            As in statsmodels. A combination is NaN where it involves a parameter without a variance.
        """
        known = self._covariance.identified
        if r_matrix is None or cov_p is not None or known.all():
            return super().cov_params(r_matrix, column, scale, cov_p, other)  # type: ignore[misc]
        covariance = np.where(np.outer(known, known), self._covariance.cov, 0.0)
        made = super().cov_params(r_matrix, None, scale, covariance, other)  # type: ignore[misc]
        lost = np.atleast_2d(r_matrix)[:, ~known].any(axis=1)
        if other is None and np.ndim(made) == 2:
            made[lost] = made[:, lost] = np.nan
        elif lost.any():
            made = np.full_like(made, np.nan)
        return made

    def _variances(self, gradient: FloatArray) -> FloatArray:
        """Return the variances of functions of the parameters, given their derivatives."""
        known = self._covariance.identified
        covariance = np.where(np.outer(known, known), self._covariance.cov, 0.0)
        variance = np.einsum("ij,ij->i", gradient @ covariance, gradient)
        variance[gradient[:, ~known].any(axis=1)] = np.nan
        return np.asarray(variance)


def positions(cols: Any, names: Sequence[str]) -> list[int]:
    """Return the places of parameters that are given by place or name, or raise a DomainError.

    Parameters
    ----------
    cols : int, str, or sequence of them
        Which parameters.
    names : sequence of str
        All of them.
    """
    places = []
    for col in [cols] if np.ndim(cols) == 0 else cols:
        place = list(names).index(col) if col in names else col
        if not isinstance(place, (int, np.integer)) or not -len(names) <= place < len(names):
            raise DomainError(
                f"cols has {col!r}: the parameters are {', '.join(names)}, at places 0 to "
                f"{len(names) - 1}"
            )
        places.append(int(place) % len(names))
    return places


def labelled_limits(conf_int: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a wrapper that gives the limits of a method of results their names.

    statsmodels would give the names of all parameters to those that `cols` chooses.
    """

    @wraps(conf_int)
    def labelled(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = self._results
        given = inspect.signature(conf_int).bind(results, *args, **kwargs)
        cols, data = given.arguments.get("cols"), results.model.data
        found = conf_int(*given.args, **given.kwargs)
        if cols is None:
            return data.wrap_output(found, "columns")
        places = positions(cols, data.param_names)
        every = np.full((len(data.param_names), 2), np.nan)
        every[places] = found
        limits = data.wrap_output(every, "columns")
        return limits.iloc[places] if hasattr(limits, "iloc") else found

    return labelled


def labelled_covariance(cov_params: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a wrapper that gives the covariance of a method of results its names.

    statsmodels would give the names of all parameters to the part that ``column`` chooses, and to the
    covariance of combinations.
    """

    @wraps(cov_params)
    def labelled(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = self._results
        given = inspect.signature(cov_params).bind(results, *args, **kwargs)
        data, column = results.model.data, given.arguments.get("column")
        if given.arguments.get("r_matrix") is not None:
            return cov_params(*given.args, **given.kwargs)
        if column is None:
            return data.wrap_output(cov_params(*given.args, **given.kwargs), "cov")
        places = positions(column, data.param_names)
        given.arguments["column"] = None
        every = data.wrap_output(cov_params(*given.args, **given.kwargs), "cov")
        some = every.iloc[places, places] if hasattr(every, "iloc") else every[places][:, places]
        return float(np.squeeze(some)) if np.ndim(column) == 0 else some

    return labelled
