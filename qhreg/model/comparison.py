"""The same regression under six likelihoods, in one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.tools import eval_measures

from qhreg.exceptions import BoundaryWarning, DomainError
from qhreg.model import QuantileHuberMLE
from qhreg.results.likelihood import least_squares_fit
from qhreg.specification.formulas import formula_namespace

_COLUMNS = ["tau", "kappa", "sigma", "k", "llf", "aic", "bic", "delta_aic"]


@dataclass(frozen=True, repr=False)
class ModelComparison:
    """Log-likelihood and information criteria of several models on the same data.

    Attributes
    ----------
    table : DataFrame
        One row for each model: tau, kappa, sigma, number of estimated parameters k (sigma included),
        llf, aic, bic, and the distance of aic from the best.
    fits : dict
        The fitted quantile Huber models by name; least squares is not among them.
    nobs : float
        Number of observations.
    notes : dict
        By name of the model, what its fit would have warned of: an estimate on a bound or at a limit.
    """

    table: pd.DataFrame
    fits: dict[str, Any]
    nobs: float
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The model with the least aic."""
        return str(self.table["aic"].idxmin())

    def plot(self, ax: Any = None) -> Any:
        """Draw how far the aic of each model is above the least and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_comparison

        return plot_comparison(list(self.table.index), self.table["delta_aic"].to_numpy(), ax)

    def plot_coefficients(self, ax: Any = None, **options: Any) -> Any:
        """Draw the coefficients of the quantile Huber models side by side and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        **options
            Of ``plot_coefficients`` of the fits: names, alpha, and others `beside`.
        """
        (label, first), *others = self.fits.items()
        options["beside"] = {**dict(others), **options.get("beside", {})}
        return first.plot_coefficients(ax, label=label, **options)

    def __repr__(self) -> str:
        table = self.table.round({"tau": 4, "kappa": 4, "sigma": 6, "llf": 3, "aic": 2, "bic": 2})
        lines = [table.round({"delta_aic": 2}).to_string(), f"least aic: {self.best}"]
        return "\n".join([*lines, *(f"{name}: {note}" for name, note in self.notes.items())])

    def _repr_html_(self) -> str:
        table: str = self.table.to_html(float_format="{:.4f}".format)
        notes = "".join(f"<br>{name}: {note}" for name, note in self.notes.items())
        return f"{table}<div>least aic: {self.best}{notes}</div>"


def compare_models(
    formula: str | None = None,
    data: Any = None,
    *,
    endog: Any = None,
    exog: Any = None,
    kappa: float = 4.0,
    **options: Any,
) -> ModelComparison:
    r"""Return the log-likelihood, AIC and BIC of six models of the same data.

    Parameters
    ----------
    formula : str, optional
        Such as ``"y ~ x"``, with `data`.
    data : DataFrame, optional
        The variables.
    endog, exog : array_like, optional
        Response and regressors in place of a formula.
    kappa : float
        Width of the models in which it is fixed.
    **options
        Of :class:`qhreg.model.QuantileHuberMLE`: weights, offset, tau_bounds, missing, and
        ``eval_env`` of a formula.

    Returns
    -------
    ModelComparison
        With ``table``, ``fits`` and ``best``.

    Notes
    -----
    All are fitted by restricted likelihood; llf is the ordinary log-likelihood at the estimates. Least
    squares is the normal law, with sigma the standard deviation with n - p. Least absolute deviations
    is the quantile Huber law with kappa = 0 and tau = 1/2 (Laplace), Huber regression that with
    tau = 1/2, the asymmetric Laplace law that with kappa = 0; all with sigma estimated. sigma belongs
    to its own model: the laws have different variances at the same sigma.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from qhreg import compare_models
    >>> engel = sm.datasets.engel.load_pandas().data
    >>> comparison = compare_models("foodexp ~ income", engel)
    >>> list(comparison.table.index)[:3]
    ['least squares', 'least absolute deviations', 'Huber']
    """
    laws: dict[str, dict[str, float | None]] = {
        "least absolute deviations": {"kappa": 0.0, "tau": 0.5},
        "Huber": {"kappa": kappa, "tau": 0.5},
        "asymmetric Laplace": {"kappa": 0.0, "tau": None},
        "quantile Huber": {"kappa": kappa, "tau": None},
        "quantile Huber, kappa estimated": {"kappa": None, "tau": None},
    }
    if (formula is not None and data is not None) == (endog is not None and exog is not None):
        raise DomainError("pass a formula with data, or endog with exog")
    model: Callable[..., Any] = partial(QuantileHuberMLE, endog, exog)
    if formula is not None:
        model = partial(QuantileHuberMLE.from_formula, formula, data)
        options["eval_env"] = formula_namespace(formula, options.get("eval_env"), depth=2)
    fits, notes = {}, {}
    for name, law in laws.items():
        candidate = model(**options, **law)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", BoundaryWarning)
            fits[name] = candidate.fit()
        for warning in said:
            if issubclass(warning.category, BoundaryWarning):
                notes[name] = str(warning.message)
            else:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
    any_fit = fits["quantile Huber"]
    rank, highest = any_fit.solution.rank, any_fit.model.observations.gaussian_loglike()
    sigma, llf = least_squares_fit(highest, any_fit.solution.n, rank)
    rows = {"least squares": [np.nan, np.inf, sigma, rank + 1, llf]}
    for name, fit in fits.items():
        limit = {"gaussian": np.inf, "laplace": 0.0}.get(fit.kappa_limit, fit.kappa)
        rows[name] = [fit.tau, limit, fit.sigma, fit.n_params, fit.llf]
    nobs = float(any_fit.nobs)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=_COLUMNS[:5])
    table["k"] = table["k"].astype(int)
    for kind in ("aic", "bic"):
        table[kind] = [
            float(getattr(eval_measures, kind)(llf, nobs, k))
            for llf, k in zip(table["llf"], table["k"], strict=True)
        ]
    table["delta_aic"] = table["aic"] - table["aic"].min()
    return ModelComparison(table, fits, nobs, notes)
