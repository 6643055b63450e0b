"""A linear model as numbers: the data, what is fixed, by which likelihood, and its fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray, IntArray
from qhreg.engine.rows import GivenRows, rows_of
from qhreg.exceptions import BoundaryWarning, DomainError, RankWarning
from qhreg.solver import Solution, solve_rows, task_of
from qhreg.solver.over_kappa import KappaSolution, profile_over_kappa
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import (
    EXTRA_NAMES,
    Constraint,
    ParameterSpace,
    RowLaw,
)


@dataclass(frozen=True)
class ModelData:
    """A linear model as numbers: the data, what is fixed, and by which likelihood it is fitted.

    Attributes
    ----------
    observations : Observations
        The data, or the rows of :mod:`qhreg.partitions`, which are never in memory at once.
    space : ParameterSpace
        Which of sigma, tau and kappa are fixed.
    tau_bounds : (float, float)
        Range of an estimated tau.
    names : tuple of str
        Names of the coefficients.
    constraint : Constraint or None
        Where the coefficients are ``transform @ gamma + shift``: `observations` and `space` are then
        those of the regression for gamma, and so are solutions.
    reml : bool
        Whether the restricted likelihood is maximised, where sigma is estimated.
    rank : float or None
        p of the restricted likelihood, where this model is compared with a larger one (Welham &
        Thompson 1997); None for the rank of its regressors.
    """

    observations: Any
    space: ParameterSpace
    tau_bounds: tuple[float, float]
    names: tuple[str, ...]
    constraint: Constraint | None = None
    reml: bool = True
    rank: float | None = None

    def expand(self, beta: FloatArray) -> FloatArray:
        """Return the coefficients that belong to those of the regression."""
        return beta if self.constraint is None else self.constraint.expand(beta)

    def column(self, param: str | int) -> int | None:
        """Return the column of a coefficient, or None for sigma, tau and kappa."""
        if isinstance(param, str) and param in EXTRA_NAMES and param not in self.names:
            return None
        if isinstance(param, str):
            if param not in self.names:
                known = ", ".join((*self.names, *EXTRA_NAMES))
                raise DomainError(f"there is no parameter {param!r}; there are {known}")
            return self.names.index(param)
        if not 0 <= int(param) < len(self.names):
            raise DomainError(f"there are {len(self.names)} coefficients, got number {param!r}")
        return int(param)

    def is_fixed(self, param: str | int) -> bool:
        """Return whether a constraint leaves a parameter one value."""
        if self.constraint is None:
            return False
        column = self.column(param)
        if column is None:
            return param in self.constraint.fixed
        return bool(np.abs(self.constraint.transform[column]).max(initial=0.0) < 1e-12)

    def standardized(self, solution: Solution) -> tuple[FloatArray, float, float]:
        """Return residuals over sigma, and tau and kappa of the law that they have."""
        u = self.observations.residuals(solution.beta) / solution.sigma
        return u, solution.tau, solution.kappa

    @property
    def rows(self) -> GivenRows:
        """The rows as the solver takes them."""
        obs = self.observations
        if isinstance(obs, Observations):
            return rows_of(obs.exog, obs.endog, obs.case_weights, obs.offset)
        return obs  # type: ignore[no-any-return]

    def law(self, solution: Solution) -> RowLaw:
        """Return the law of the rows in a fit."""
        location = self.observations.location(solution.beta)
        return RowLaw(location, solution.sigma, solution.tau, solution.kappa)

    def take(self, rows: IntArray, *, apart: bool = False) -> ModelData:
        """Return the model of some rows, by number; `apart` makes each a single observation."""
        return replace(self, observations=self.observations.take(rows, apart=apart))

    def compared_with(self, solution: Solution) -> ModelData:
        """Return the model with the criterion of a fit, and its p."""
        return replace(self, reml=solution.p > 0.0, rank=solution.p or None)

    def solved(
        self,
        held: Mapping[str, float] | None = None,
        *,
        start: Any = None,
        search: bool | None = None,
        names: Sequence[str] | None = None,
    ) -> tuple[Solution, KappaSolution | None]:
        """Return the fit as `fit_model`, and that of the width where kappa is estimated."""
        space = self.space
        fixed = {"tau": space.tau, "sigma": space.sigma, "kappa": space.kappa, **(held or {})}
        tau, sigma = fixed["tau"], fixed["sigma"]
        rows = self.rows
        criterion: dict[str, Any] = {"reml": self.reml, "rank": self.rank}

        def fit(kappa: float, tau: float | None = tau, **options: Any) -> Solution:
            task = task_of(kappa, tau, sigma, self.tau_bounds, **criterion)
            return solve_rows(rows, task, **options)

        options: dict[str, Any] = {"start": start, "search": search, "names": names}
        if fixed["kappa"] is not None:
            return fit(fixed["kappa"], **options), None
        gaussian = -math.inf
        if sigma is None:
            gaussian = self.observations.gaussian_loglike(**criterion)
        width = profile_over_kappa(fit, gaussian, tau=tau, sigma=sigma, **options)
        return width.solution, width

    def fit(
        self,
        start: Solution,
        held: Mapping[str, float] | None = None,
        search: bool | None = False,
    ) -> Solution:
        """Return the fit from a near one; by default tau is not searched for again."""
        return fit_model(self, held, start=start, search=search)

    @property
    def free(self) -> tuple[str, ...]:
        """The estimated blocks of parameters."""
        return self.space.free

    def vector(self, solution: Solution) -> FloatArray:
        """Return the estimated parameters of a fit as one vector."""
        return self.space.pack(solution)

    def freed(self, param: str) -> ModelData:
        """Return the model in which sigma, tau or kappa is estimated."""
        freed: dict[str, Any] = {param: None}
        return replace(self, space=replace(self.space, **freed))


def fit_model(
    data: ModelData,
    held: Mapping[str, float] | None = None,
    **options: Any,
) -> Solution:
    """Return the fit of a model, some of sigma, tau and kappa held at given values.

    Parameters
    ----------
    data : ModelData
        The model; what it fixes stays fixed.
    held : mapping, optional
        Values of sigma, tau or kappa. Where sigma is held the likelihood stays the restricted one if
        `data.rank` is given.
    **options
        start, search and names of :func:`qhreg.solver.solve`.
    """
    return data.solved(held, **options)[0]


def refit(
    data: ModelData,
    held: Mapping[str, float] | None = None,
    start: Solution | None = None,
    search: bool | None = None,
) -> Solution:
    """Return the fit of `fit_model`, silent about bounds and rank.

    A tau on its bound and dependent columns were told with the fit itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        warnings.simplefilter("ignore", RankWarning)
        return fit_model(data, held, start=start, search=search)
