"""Other ways to fit a model: under constraints, at many values of tau, or with a penalty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from qhreg.covariance import SANDWICHES
from qhreg.exceptions import DataError, DomainError
from qhreg.process import fit_taus, tau_levels
from qhreg.process.results import ProcessResults
from qhreg.regularized import largest_alpha, regularized_path
from qhreg.regularized.cross_validation import CrossValidation, cross_validate
from qhreg.regularized.results import RegularizationPath, RegularizedResults
from qhreg.regularized.solution import size_and_factors, warn_about
from qhreg.results import (
    QuantileHuberResults,
    QuantileHuberResultsWrapper,
    covariance_request,
)
from qhreg.specification.constraints import linear_constraint
from qhreg.specification.formulas import linear_constraints
from qhreg.specification.model_data import ModelData, solution_and_width
from qhreg.specification.parameters import ParameterSpace

__all__ = ["OtherFits"]


class OtherFits:
    """Fits of a model beside the maximum-likelihood one."""

    data: Any
    space: ParameterSpace
    observations: Any
    kappa: float | None
    tau: float | None
    sigma: float | None
    tau_bounds: tuple[float, float]
    k_exog: int
    _name_parameters: Any

    def fit_constrained(
        self,
        constraints: Any,
        start_params: Any = None,
        method: str = "newton",
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        *,
        search: bool | None = None,
        reml: bool = True,
    ) -> QuantileHuberResultsWrapper:
        """Return the fit under linear constraints, by restricted or maximum likelihood.

        Parameters
        ----------
        constraints : str, list of str, or (matrix, values)
            Such as ``"x1 = x2, tau = 0.5"``: each combines coefficients or fixes one of sigma, tau
            and kappa.
        start_params : array_like, optional
            Accepted since statsmodels passes it; not used.
        method, cov_type, cov_kwds, use_t, search, reml
            As in `fit`.

        Returns
        -------
        QuantileHuberResultsWrapper
            All parameters; the covariance is singular in the directions that are fixed.
        """
        names = [str(name) for name in self.data.param_names]
        constraint = linear_constraint(*linear_constraints(constraints, names), self.space)
        choice = covariance_request(self, cov_type, cov_kwds, constraint)
        space = replace(self.space, k=constraint.transform.shape[1])
        names = tuple(f"x{j}" for j in range(space.k))
        data = ModelData(
            constraint.reduce(self.observations), space, self.tau_bounds, names, reml=reml
        )
        found, width = solution_and_width(data, constraint.fixed, search=search)
        solution = replace(found, beta=constraint.expand(found.beta), dependent=())
        settings = {"optimizer": method, "constraints": constraints, "search": search}
        results = QuantileHuberResults(
            self,
            solution,
            choice,
            use_t=use_t,
            settings=settings,
            width=width,
            constraint=constraint,
        )
        return QuantileHuberResultsWrapper(results)

    def fit_process(
        self,
        taus: Any = None,
        *,
        quantiles: Any = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        reml: bool = True,
        progress: bool = False,
    ) -> ProcessResults:
        """Return the fits at many values of tau, each started from its neighbours.

        Parameters
        ----------
        taus : array_like, optional
            Values of tau in (0, 1). The model's own tau is not used.
        quantiles : array_like, optional
            Levels q = 1 - tau in place of `taus`, at kappa = 0 only: for kappa > 0 the fitted curve
            is not the 1 - tau quantile.
        cov_type : {"HC3", "HC0", "HC1", "HC2", "cluster", "HAC"}, optional
            Covariance of the estimates, within a fit and between fits; "HC3" by default. The
            density cannot hold at several values of tau, so that there is no "nonrobust" one.
        cov_kwds : dict, optional
            Options of the covariance, as in `fit`.
        use_t : bool, optional
            Whether intervals use the t distribution.
        reml : bool
            As in `fit`: at a given tau only sigma changes, which is divided by n - p.
        progress : bool
            Whether to show a progress bar, where tqdm is installed.

        Returns
        -------
        ProcessResults
            With ``params``, ``bse``, ``conf_int()``, ``predict(exog)``, ``crossings(exog)``,
            ``test_equal_slopes()``, ``plot()`` and ``result(tau)``.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from qhreg import QuantileHuberMLE
        >>> engel = sm.datasets.engel.load_pandas().data
        >>> model = QuantileHuberMLE.from_formula("foodexp ~ income", engel, kappa=0.0)
        >>> process = model.fit_process(quantiles=[0.25, 0.5, 0.75])
        >>> process.params["income"].round(3).to_dict()
        {0.25: 0.644, 0.5: 0.56, 0.75: 0.474}
        """
        if self.kappa is None:
            raise DomainError(
                "several values of tau need one width, and kappa=None estimates it: give kappa in the "
                "model, for example the estimate of fit()"
            )
        levels = tau_levels(taus, quantiles=quantiles, kappa=self.kappa)
        names = tuple(str(name) for name in self.data.xnames[: self.k_exog])
        models = [self._at_tau(tau) for tau in levels]
        choice = covariance_request(models[0], cov_type, cov_kwds)
        if choice.cov_type not in SANDWICHES:
            raise DomainError(
                f"cov_type={choice.cov_type!r} cannot hold at several values of tau: use one of "
                f"{', '.join(SANDWICHES)}"
            )
        data = ModelData(self.observations, self.space, self.tau_bounds, names, reml=reml)
        solutions = fit_taus(data, levels, progress=progress)
        fits = [
            QuantileHuberResults(model, solution, choice, use_t=use_t)
            for model, solution in zip(models, solutions, strict=True)
        ]
        wrapped = tuple(QuantileHuberResultsWrapper(fit) for fit in fits)
        return ProcessResults(levels, wrapped, by_quantile=quantiles is not None)

    def fit_regularized(
        self,
        method: str = "elastic_net",
        alpha: Any = 0.0,
        *,
        L1_wt: float = 1.0,
        penalty_weights: Any = None,
        standardize: bool = False,
        units: str = "sigma",
        refit: bool = False,
        tol: float = 1e-11,
    ) -> Any:
        """Return the fit with an elastic-net penalty on the coefficients.

        Minimises the mean negative log-likelihood plus ``alpha * sum(p * (L1_wt * abs(b) +
        (1 - L1_wt) / 2 * b**2))``, where b = beta / sigma and p are the penalty weights.

        Parameters
        ----------
        method : {"elastic_net"}
            The kind of penalty.
        alpha : float or array_like
            Its size; or one for each coefficient, a constant's included, in place of
            `penalty_weights`. A Series with their names is matched to them.
        L1_wt : float
            Share of the absolute values in it: 1 is the lasso, 0 ridge.
        penalty_weights : dict, Series or array_like, optional
            Factors p by name (1 where not given) or for all coefficients. By default 1, and 0 for
            a constant column. sigma and tau are never penalised.
        standardize : bool
            Whether the penalty is on the coefficients of columns of unit standard deviation. As in
            statsmodels it is not by default: bring the columns to comparable units.
        units : {"sigma", "endog"}
            Whether the penalty is on beta / sigma, or on beta itself, which needs sigma fixed.
        refit : bool
            Whether to return the fit without penalty of the coefficients that are not zero.
        tol : float
            Violation of the subgradient condition at which to stop.

        Returns
        -------
        RegularizedResults
            With ``params``, ``predict``, ``duality_gap`` and ``subgradient``; or, with `refit`, the
            results of the unpenalised fit.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from qhreg import QuantileHuberMLE
        >>> crime = sm.datasets.statecrime.load_pandas().data
        >>> formula = "murder ~ urban + poverty + hs_grad + single"
        >>> model = QuantileHuberMLE.from_formula(formula, crime, tau=0.5)
        >>> model.fit_regularized(alpha=0.1, standardize=True).selected
        ['Intercept', 'poverty', 'single']
        """
        if method != "elastic_net":
            raise DomainError(f"method must be 'elastic_net', got {method!r}")
        size, factors = size_and_factors(self._sizes(alpha), penalty_weights, self.k_exog)
        options = self._penalty_options(L1_wt, factors, standardize, units, tol)
        obs = self.observations
        (made,) = regularized_path(obs.exog, obs.endog, [size], **options)
        warn_about(made)
        results = RegularizedResults(self, made)
        return results.refit() if refit else results

    def fit_regularized_path(
        self,
        alphas: Any = None,
        *,
        n_alphas: int = 30,
        ratio: float = 1e-2,
        L1_wt: float = 1.0,
        penalty_weights: Any = None,
        standardize: bool = False,
        units: str = "sigma",
        tol: float = 1e-11,
    ) -> RegularizationPath:
        """Return penalised fits for decreasing sizes of the penalty, each started from the last.

        Parameters
        ----------
        alphas : array_like, optional
            Sizes; by default `n_alphas` from the one that removes every penalised coefficient down
            to `ratio` times it.
        n_alphas : int
            Number of sizes.
        ratio : float
            The smallest size over the largest.
        L1_wt, penalty_weights, standardize, units, tol
            As in `fit_regularized`.
        """
        options = self._penalty_options(L1_wt, penalty_weights, standardize, units, tol)
        obs = self.observations
        wanted = self._alphas(alphas, n_alphas, ratio, options)
        made = regularized_path(obs.exog, obs.endog, wanted, **options)
        for solution in made:
            warn_about(solution)
        return RegularizationPath(tuple(RegularizedResults(self, solution) for solution in made))

    def cross_validate_penalty(
        self,
        alphas: Any = None,
        *,
        n_folds: int = 5,
        rng: Any = 0,
        n_alphas: int = 30,
        ratio: float = 1e-2,
        L1_wt: float = 1.0,
        penalty_weights: Any = None,
        standardize: bool = False,
        units: str = "sigma",
        tol: float = 1e-9,
        progress: bool = False,
    ) -> CrossValidation:
        """Return how well penalised fits of some rows predict the others.

        Parameters
        ----------
        alphas, n_alphas, ratio
            Sizes of the penalty, as in `fit_regularized_path`.
        n_folds : int
            Parts into which the rows are divided at random, each left out once.
        rng : int, Generator or None
            Of the random numbers.
        L1_wt, penalty_weights, standardize, units, tol
            As in `fit_regularized`.
        progress : bool
            Whether to show a progress bar, where tqdm is installed.

        Returns
        -------
        CrossValidation
            With ``best_alpha`` and ``one_se_alpha``, by the likelihood of the rows left out.
        """
        options = self._penalty_options(L1_wt, penalty_weights, standardize, units, tol)
        sizes = self._alphas(alphas, n_alphas, ratio, options)
        kept = {k: v for k, v in options.items() if k not in ("weights", "offset")}
        return cross_validate(
            self.observations, sizes, n_folds=n_folds, rng=rng, progress=progress, **kept
        )

    def _sizes(self, alpha: Any) -> Any:
        """Return a Series of sizes in the order of the coefficients, and everything else as it is."""
        if not isinstance(alpha, pd.Series) or isinstance(alpha.index, pd.RangeIndex):
            return alpha
        names = [str(name) for name in self.data.xnames[: self.k_exog]]
        given = alpha.set_axis([str(name) for name in alpha.index])
        if not given.index.is_unique or set(given.index) != set(names):
            raise DataError(
                f"alpha has the names {', '.join(given.index)}; the coefficients are {', '.join(names)}"
            )
        return given[names]

    def _alphas(self, alphas: Any, n_alphas: int, ratio: float, options: dict[str, Any]) -> Any:
        """Return decreasing sizes of the penalty, the given ones or those from the largest down."""
        if alphas is None:
            if not (n_alphas >= 1 and 0.0 < ratio < 1.0):
                raise DomainError("n_alphas must be at least 1, and ratio between 0 and 1")
            obs = self.observations
            top = largest_alpha(obs.exog, obs.endog, **options)
            alphas = top * ratio ** np.linspace(0.0, 1.0, n_alphas)
        return np.sort(np.ravel(np.asarray(alphas, dtype=np.float64)))[::-1]

    def _penalty_options(
        self, L1_wt: float, penalty_weights: Any, standardize: bool, units: str, tol: float
    ) -> dict[str, Any]:
        """Return the options of a penalised fit of this model."""
        names = [str(name) for name in self.data.xnames[: self.k_exog]]
        if hasattr(penalty_weights, "items"):
            given = {str(name): float(value) for name, value in penalty_weights.items()}
            unknown = [name for name in given if name not in names]
            if unknown:
                raise DomainError(
                    f"penalty_weights has {unknown[0]!r}, which is no coefficient: {', '.join(names)}"
                )
            default = [0.0 if j == self.data.const_idx else 1.0 for j in range(len(names))]
            penalty_weights = [given.get(n, d) for n, d in zip(names, default, strict=True)]
        obs = self.observations
        return {
            "L1_wt": L1_wt,
            "penalty_weights": penalty_weights,
            "standardize": standardize,
            "units": units,
            "kappa": self.kappa,
            "tau": self.tau,
            "sigma": self.sigma,
            "tau_bounds": self.tau_bounds,
            "weights": obs.case_weights,
            "offset": obs.offset,
            "tol": tol,
        }

    def _at_tau(self, tau: float) -> Any:
        """Return this model with tau fixed; the data are shared, not copied."""
        made = _twin(self)
        made.data = _twin(self.data)
        made.data._cache = dict(self.data._cache)
        made.data.xnames = list(self.data.xnames[: self.k_exog])
        made.tau = tau
        made._name_parameters()
        return made


def _twin(original: Any) -> Any:
    """Return another object with the same attributes; copy.copy would evaluate the formula again."""
    made = object.__new__(type(original))
    made.__dict__.update(original.__dict__)
    return made
