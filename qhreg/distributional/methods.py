"""Likelihood and predictions of a distributional model, as functions of one parameter vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.distributional.covariance import score_rows
from qhreg.distributional.likelihood import (
    Regression,
    assemble,
    evaluate,
    hessian_factors,
    information_factors,
    loglike_rows,
)
from qhreg.distributional.prediction import RowLaw, predict
from qhreg.exceptions import DataError
from qhreg.solver import solve

__all__ = ["DistributionalMethods"]


class DistributionalMethods:
    """Log-likelihood, its derivatives, starting values and predictions of a model."""

    regression: Any
    require_data: Any
    kappa: float
    tau: float | None
    sigma: float | None
    tau_bounds: tuple[float, float]
    exog: Any
    exog_scale: Any
    exog_tau: Any
    k_exog: int
    scale_names: list[str]
    tau_names: list[str]
    nparams: int
    offset: Any
    _init_keys: list[str]

    def checked_params(self, params: Any) -> FloatArray:
        """Return a parameter vector as floats, or raise if its length or its values are wrong."""
        if np.iscomplexobj(params):
            # statsmodels tries complex steps first, and falls back to real ones on this error
            raise TypeError("params must be real: the likelihood is not analytic")
        vector = np.asarray(params, dtype=np.float64)
        if vector.shape != (self.nparams,):
            raise DataError(
                f"params must have shape ({self.nparams},) for {self.k_exog} coefficients of the "
                f"location, {len(self.scale_names)} of log sigma and {len(self.tau_names)} of logit "
                f"tau; got {vector.shape}"
            )
        if not bool(np.isfinite(vector).all()):
            raise DataError("params contains NaN or infinite values")
        return vector

    @property
    def block_sizes(self) -> tuple[int, int, int]:
        """Number of coefficients of location, log sigma and logit tau."""
        return self.k_exog, len(self.scale_names), len(self.tau_names)

    @property
    def _fixed_predictors(self) -> tuple[float, float]:
        """What log sigma and logit tau are where fixed, 0 where they are estimated."""
        log_sigma = 0.0 if self.sigma is None else math.log(self.sigma)
        logit_tau = 0.0 if self.tau is None else math.log(self.tau) - math.log1p(-self.tau)
        return log_sigma, logit_tau

    # ------------------------------------------------------------------ likelihood

    def loglikeobs(self, params: Any) -> FloatArray:
        """Return the log-likelihood of each row, times its weights, shape (n,)."""
        data = self.regression
        rows = loglike_rows(evaluate(data, self.checked_params(params)))
        return rows if data.weights is None else rows * data.weights

    def loglike(self, params: Any) -> float:
        """Return the log-likelihood."""
        return float(self.loglikeobs(params).sum())

    def nloglike(self, params: Any) -> float:
        """Return the negative log-likelihood."""
        return -self.loglike(params)

    def score_obs(self, params: Any, **kwds: Any) -> FloatArray:
        """Return the derivative of each row's log-likelihood, shape (n, number of parameters)."""
        data = self.regression
        rows = score_rows(data, evaluate(data, self.checked_params(params)))
        return rows if data.weights is None else rows * data.weights[:, None]

    def score(self, params: Any) -> FloatArray:
        """Return the derivative of the log-likelihood."""
        total: FloatArray = self.score_obs(params).sum(axis=0)
        return total

    def hessian(self, params: Any) -> FloatArray:
        """Return the second derivative of the log-likelihood.

        The location block counts the rows in the quadratic zone only: for small kappa it says little
        about the curvature of the expected likelihood, and no standard error here is based on it.
        """
        return -self.information(params, observed=True)

    def information(self, params: Any, observed: bool = False) -> FloatArray:
        """Return the Fisher information: expected, in closed form, or minus the Hessian."""
        data = self.regression
        state = evaluate(data, self.checked_params(params))
        return assemble(data, hessian_factors(state) if observed else information_factors(state))

    @property
    def start_params(self) -> FloatArray:
        """The fit with one scale and one asymmetry, as near as the regressors come to it."""
        data = self.regression
        common = solve(
            data.location,
            data.endog,
            kappa=self.kappa,
            tau=self.tau,
            sigma=self.sigma,
            tau_bounds=self.tau_bounds,
            weights=data.weights,
            offset=data.offset,
            reml=False,
        )
        ones = np.ones(data.endog.size)
        parts = [common.beta]
        goals = (math.log(common.sigma), math.log(common.tau) - math.log1p(-common.tau))
        for design, goal in zip((data.scale, data.tau), goals, strict=True):
            nearest = np.linalg.lstsq(design, goal * ones, rcond=None)[0]
            parts.append(np.asarray(nearest, dtype=np.float64))
        return np.concatenate(parts)

    # ------------------------------------------------------------------ prediction

    def predict(
        self,
        params: Any,
        exog: Any = None,
        which: str = "location",
        *,
        exog_scale: Any = None,
        exog_tau: Any = None,
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
    ) -> Any:
        """Return predictions at given parameters.

        Parameters
        ----------
        params : array_like
            Parameters.
        exog, exog_scale, exog_tau : array_like, optional
            Regressors of new rows; those of the model by default. With `exog` given, a block that is
            a constant alone need not be given.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            See :func:`qhreg.distributional.prediction.predict`.
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
        rows = self.new_rows(exog, exog_scale, exog_tau, offset)
        return predict(self.law(params, rows), which, q=q, y_values=y_values)

    def law(self, params: Any, rows: Regression) -> RowLaw:
        """Return location, scale and asymmetry of rows."""
        return RowLaw.of(*rows.predictors(self.checked_params(params)), self.kappa)

    def new_rows(
        self, exog: Any = None, exog_scale: Any = None, exog_tau: Any = None, offset: Any = None
    ) -> Regression:
        """Return the regressors of new rows, checked, or those of the model when none are given."""
        if exog is None and exog_scale is None and exog_tau is None:
            if offset is None:
                own: Regression = self.regression
                return own
            exog, exog_scale, exog_tau = self.exog, self.exog_scale, self.exog_tau
            self.require_data()
        if exog is None:
            raise DataError("exog is needed for new rows, besides exog_scale and exog_tau")
        if offset is None and "offset" in self._init_keys:
            raise DataError(
                "the model was fitted with an offset, which the new rows need too: pass offset= "
                "(0 for none)"
            )
        location = _matrix("exog", exog, self.k_exog)
        n = location.shape[0]
        scale = _further("exog_scale", exog_scale, self.scale_names, n)
        asymmetry = _further("exog_tau", exog_tau, self.tau_names, n)
        known = None
        if offset is not None:
            known = np.broadcast_to(np.asarray(offset, dtype=np.float64).squeeze(), (n,))
        return Regression(
            np.zeros(n),
            location,
            scale,
            asymmetry,
            self.kappa,
            known,
            None,
            *self._fixed_predictors,
        )


def _matrix(name: str, values: Any, columns: int) -> FloatArray:
    """Return regressors of new rows, or raise a DataError when their number is wrong."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim < 2:
        array = array.reshape(-1, 1) if columns == 1 else array.reshape(1, -1)
    if array.ndim != 2 or array.shape[1] != columns:
        raise DataError(f"{name} has {array.shape[1]} columns, the model has {columns}")
    return array


def _further(name: str, values: Any, columns: list[str], n: int) -> FloatArray:
    """Return the regressors of scale or tau of new rows; a constant need not be given."""
    if values is None:
        if columns not in ([], ["const"], ["Intercept"]):
            raise DataError(f"{name} is needed for new rows: its columns are {', '.join(columns)}")
        return np.ones((n, len(columns)))
    array = _matrix(name, values, len(columns))
    if array.shape[0] != n:
        raise DataError(f"{name} has {array.shape[0]} rows, exog has {n}")
    return array
