"""A penalised fit with the names of its parameters, and a path of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.family.normalizer import location_level
from qhreg.regularized.solution import RegularizedSolution
from qhreg.results.rows import RowResults
from qhreg.specification.parameters import Parameters, ParameterSpace

__all__ = ["RegularizationPath", "RegularizedResults"]


def _labelled(name: str) -> Any:
    """Return a property of the rows that carries their labels, as those of a fit without penalty do."""
    plain = getattr(RowResults, name)

    def values(results: Any) -> Any:
        found, labels = np.asarray(plain.fget(results)), results.model.data.row_labels
        return found if labels is None else pd.Series(found, index=labels)

    return property(values, doc=plain.__doc__)


@dataclass(frozen=True, repr=False)
class RegularizedResults(RowResults):
    """A penalised fit: estimates and predictions, without standard errors.

    Attributes
    ----------
    model : QuantileHuberMLE
        The model.
    solution : RegularizedSolution
        What the solver returned.
    """

    model: Any
    solution: RegularizedSolution  # type: ignore[assignment]

    fittedvalues = _labelled("fittedvalues")
    resid = _labelled("resid")
    resid_standardized = _labelled("resid_standardized")
    resid_pearson = _labelled("resid_pearson")
    resid_pit = _labelled("resid_pit")
    resid_quantile = _labelled("resid_quantile")
    weights = _labelled("weights")

    @property
    def space(self) -> ParameterSpace:  # type: ignore[override]
        """Which parameters are estimated."""
        space: ParameterSpace = self.model.space
        return space

    @property
    def parameters(self) -> Parameters:
        """beta, sigma, tau and kappa, fixed ones included."""
        made = self.solution
        return Parameters(made.beta, made.sigma, made.tau, made.kappa)

    @property
    def params(self) -> pd.Series[float]:  # type: ignore[override]
        """Estimates: coefficients, then those of sigma and tau that are estimated."""
        values = self.space.pack(self.parameters)
        return pd.Series(values, index=[str(name) for name in self.model.data.param_names])

    @property
    def sigma(self) -> float:  # type: ignore[override]
        """Scale."""
        return self.solution.sigma

    @property
    def tau(self) -> float:  # type: ignore[override]
        """Asymmetry."""
        return self.solution.tau

    @property
    def kappa(self) -> float:  # type: ignore[override]
        """Huber width."""
        return self.solution.kappa

    @property
    def llf(self) -> float:
        """Log-likelihood, without the penalty."""
        return self.solution.loglike

    @property
    def converged(self) -> bool:
        """Whether the duality gap is closed and tau stationary."""
        return self.solution.converged

    @property
    def duality_gap(self) -> float:
        """How far the objective can be above its minimum at this tau."""
        return self.solution.gap

    @property
    def subgradient(self) -> float:
        """Largest violation of the subgradient condition."""
        return self.solution.subgradient

    @property
    def quantile_level(self) -> float:
        """P(y < x'beta) in the fitted distribution: 1 - tau only at kappa = 0."""
        return location_level(self.tau, self.kappa)

    @property
    def selected(self) -> list[str]:
        """Names of the coefficients that are not zero."""
        names = self.params.index[: self.space.k]
        return [str(name) for name in names[self.solution.beta != 0.0]]

    def refit(self, **options: Any) -> Any:
        """Return the maximum-likelihood fit with the coefficients held at zero that are zero here.

        Parameters
        ----------
        **options
            Of ``fit_constrained``, such as `cov_type`.

        Notes
        -----
        Its standard errors treat the selection as given.
        """
        zero = np.flatnonzero(self.solution.beta == 0.0)
        if zero.size == 0:
            return self.model.fit(**options)
        matrix = np.zeros((zero.size, self.space.size))
        matrix[np.arange(zero.size), zero] = 1.0
        return self.model.fit_constrained((matrix, np.zeros(zero.size)), **options)

    def get_prediction(self, *args: Any, **kwargs: Any) -> Any:
        """Raise a DomainError: penalised estimates have no standard errors."""
        raise DomainError(
            "penalised estimates have no standard errors: use predict, or refit first"
        )

    def get_influence(self) -> Any:
        """Raise a DomainError: the measures are for fits without a penalty."""
        raise DomainError("influence is for fits without a penalty: refit first")

    def __repr__(self) -> str:
        made = self.solution
        return (
            f"<penalised fit, alpha = {made.alpha:g}, L1_wt = {made.L1_wt:g}: {made.n_nonzero} of "
            f"{made.beta.size} coefficients, gap {made.gap:.1e}>"
        )


@dataclass(frozen=True, repr=False)
class RegularizationPath:
    """Penalised fits of one model for decreasing sizes of the penalty.

    Attributes
    ----------
    results : tuple of RegularizedResults
        The fits.
    """

    results: tuple[RegularizedResults, ...]

    @property
    def alphas(self) -> FloatArray:
        """Sizes of the penalty."""
        return np.array([fit.solution.alpha for fit in self.results])

    @property
    def params(self) -> pd.DataFrame:
        """Estimates, one row for each alpha."""
        rows = [fit.params for fit in self.results]
        return pd.DataFrame(rows, index=pd.Index(self.alphas, name="alpha"))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each alpha: coefficients kept, likelihood, proof."""
        return pd.DataFrame(
            {
                "nonzero": [fit.solution.n_nonzero for fit in self.results],
                "llf": [fit.llf for fit in self.results],
                "sigma": [fit.sigma for fit in self.results],
                "tau": [fit.tau for fit in self.results],
                "gap": [fit.duality_gap for fit in self.results],
                "subgradient": [fit.subgradient for fit in self.results],
            },
            index=pd.Index(self.alphas, name="alpha"),
        )

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"<{len(self)} penalised fits, alpha from {self.alphas.max():g} to {self.alphas.min():g}>"
