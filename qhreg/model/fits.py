"""Other ways to fit a model: under constraints, at many values of tau, or with a penalty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from qhreg.covariance import SANDWICHES
from qhreg.exceptions import DataError, DomainError
from qhreg.model.base import RegressionModel
from qhreg.process import tau_levels
from qhreg.process.results import ProcessResults
from qhreg.progress import with_progress
from qhreg.regularized import largest_alpha, regularized_path
from qhreg.regularized.fit import size_and_factors, warn_about
from qhreg.regularized.results import (
    CrossValidation,
    RegularizationPath,
    RegularizedResults,
    cross_validate,
)
from qhreg.results import (
    QuantileHuberResultsWrapper,
)
from qhreg.specification.formulas import linear_constraints
from qhreg.specification.model_data import ModelData, fit_model
from qhreg.specification.parameters import ParameterSpace, linear_constraint


class OtherFits(RegressionModel):
    """Fits of a model beside the maximum-likelihood one."""

    space: ParameterSpace
    model_data: Any

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
        choice = self.covariance_request(cov_type, cov_kwds)
        if choice.cov_type == "bootstrap":
            raise DomainError('cov_type="bootstrap" is for fits without constraints')
        space = replace(self.space, k=constraint.transform.shape[1])
        columns = tuple(f"x{j}" for j in range(space.k))
        data = ModelData(
            constraint.reduce(self.observations), space, self.tau_bounds, columns, reml=reml
        )
        reduced, width = data.solved(constraint.fixed, search=search)
        solution = replace(
            reduced, beta=constraint.expand(reduced.beta), dependent=(), undetermined=()
        )
        settings = {"optimizer": method, "constraints": constraints, "search": search}
        options = {"use_t": use_t, "settings": settings, "width": width, "constraint": constraint}
        return self._labelled(solution, choice, **options)  # type: ignore[no-any-return]

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
        """Return the fits at many values of tau, each a fit of its own.

        Parameters
        ----------
        taus : array_like, optional
            Values of tau in (0, 1). The model's own tau is not used.
        quantiles : array_like, optional
            Levels q = 1 - tau in place of `taus`, at kappa = 0 only: for kappa > 0 the fitted curve
            is not the 1 - tau quantile. They label the tables.
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
        {0.25: 0.474, 0.5: 0.56, 0.75: 0.644}
        """
        if self.kappa is None:
            raise DomainError(
                "several values of tau need one width, and kappa=None estimates it: give kappa in the "
                "model, for example the estimate of fit()"
            )
        levels = tau_levels(taus, quantiles=quantiles, kappa=self.kappa)
        choice = self.covariance_request(cov_type, cov_kwds)
        if choice.cov_type not in SANDWICHES:
            raise DomainError(
                f"cov_type={choice.cov_type!r} cannot hold at several values of tau: use one of "
                f"{', '.join(SANDWICHES)}"
            )
        data, fits = self.model_data(reml=reml), []
        for tau in with_progress(levels, progress, "process"):
            solution = fit_model(data, {"tau": tau}, names=data.names)
            fits.append(self._at_tau(tau)._labelled(solution, choice, use_t=use_t))
        asked = None if quantiles is None else tuple(np.ravel(quantiles).tolist())
        return ProcessResults(levels, tuple(fits), asked)

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
        reml: bool = True,
        tol: float = 1e-11,
    ) -> Any:
        """Return the fit with an elastic-net penalty on the coefficients.

        Minimises minus the mean (restricted) log-likelihood plus ``alpha * sum(p * (L1_wt * abs(b) +
        (1 - L1_wt) / 2 * b**2))``, where b = beta / sigma and p are the penalty weights: with
        ``alpha=0`` it is `fit`.

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
        reml : bool
            As in `fit`; the rank is that of all regressors, penalised or not. With as many columns as
            observations, or more, only the ordinary likelihood (False) or a fixed sigma is possible.
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
        names = [str(name) for name in self.data.xnames[: self.k_exog]]
        size, factors = size_and_factors(_in_order(alpha, names), penalty_weights, self.k_exog)
        path = self._penalised(
            [size],
            L1_wt=L1_wt,
            penalty_weights=factors,
            standardize=standardize,
            units=units,
            reml=reml,
            tol=tol,
        )
        results = path.results[0]
        return results.refit() if refit else results

    def fit_regularized_path(
        self, alphas: Any = None, *, n_alphas: int = 30, ratio: float = 1e-2, **options: Any
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
        **options
            ``L1_wt``, ``penalty_weights``, ``standardize``, ``units``, ``reml`` and ``tol`` of
            `fit_regularized`.
        """
        return self._penalised(self._alphas(alphas, n_alphas, ratio, options), **options)

    def cross_validate_penalty(
        self,
        alphas: Any = None,
        *,
        n_folds: int = 5,
        rng: Any = 0,
        n_alphas: int = 30,
        ratio: float = 1e-2,
        progress: bool = False,
        **options: Any,
    ) -> CrossValidation:
        """Return how well penalised fits of some rows predict the others.

        Parameters
        ----------
        alphas, n_alphas, ratio
            Sizes of the penalty, as in `fit_regularized_path`.
        n_folds : int
            Parts into which the rows are divided at random, each left out once.
        rng : int, Generator or None
            Source of randomness, as in ``numpy.random.default_rng``.
        progress : bool
            Whether to show a progress bar, where tqdm is installed.
        **options
            ``L1_wt``, ``penalty_weights``, ``standardize``, ``units``, ``reml`` and ``tol`` of
            `fit_regularized`.

        Returns
        -------
        CrossValidation
            With ``best_alpha`` and ``one_se_alpha``, by the likelihood of the rows left out.
        """
        return cross_validate(
            self.observations,
            self._alphas(alphas, n_alphas, ratio, options),
            n_folds=n_folds,
            rng=rng,
            progress=progress,
            **self._penalty_options(**options),
        )

    def _penalised(self, alphas: Any, **options: Any) -> RegularizationPath:
        """Return the penalised fits for the given sizes, with a warning where one is due."""
        obs = self.observations
        solutions = regularized_path(
            obs.exog,
            obs.endog,
            alphas,
            weights=obs.case_weights,
            offset=obs.offset,
            **self._penalty_options(**options),
        )
        for solution in solutions:
            warn_about(solution)
        return RegularizationPath(tuple(RegularizedResults(self, each) for each in solutions))

    def _alphas(self, alphas: Any, n_alphas: int, ratio: float, options: dict[str, Any]) -> Any:
        """Return decreasing sizes of the penalty, the given ones or those from the largest down."""
        if alphas is None:
            if not (n_alphas >= 1 and 0.0 < ratio < 1.0):
                raise DomainError("n_alphas must be at least 1, and ratio between 0 and 1")
            obs = self.observations
            rows: dict[str, Any] = {"weights": obs.case_weights, "offset": obs.offset}
            top = largest_alpha(obs.exog, obs.endog, **rows, **self._penalty_options(**options))
            alphas = top * ratio ** np.linspace(0.0, 1.0, n_alphas)
        return np.sort(np.ravel(np.asarray(alphas, dtype=np.float64)))[::-1]

    def _penalty_options(self, *, penalty_weights: Any = None, **options: Any) -> dict[str, Any]:
        """Return the options of a penalised fit of this model."""
        if hasattr(penalty_weights, "items"):
            names = [str(name) for name in self.data.xnames[: self.k_exog]]
            default = {name: float(j != self.data.const_idx) for j, name in enumerate(names)}
            by_name = {str(name): float(value) for name, value in penalty_weights.items()}
            for name in by_name.keys() - default.keys():
                raise DomainError(
                    f"penalty_weights has {name!r}, which is no coefficient: {', '.join(names)}"
                )
            penalty_weights = list((default | by_name).values())
        return dict(
            penalty_weights=penalty_weights,
            kappa=self.kappa,
            tau=self.tau,
            sigma=self.sigma,
            tau_bounds=self.tau_bounds,
            **options,
        )

    def _at_tau(self, tau: float) -> Any:
        """Return this model with tau fixed; the data are shared, not copied."""
        twin = _twin(self)
        twin.data = _twin(self.data)
        twin.data._cache = dict(self.data._cache)
        twin.data.xnames = list(self.data.xnames[: self.k_exog])
        twin.tau = tau
        twin._name_parameters()
        return twin


def _in_order(alpha: Any, names: list[str]) -> Any:
    """Return a Series of sizes in the order of the coefficients, and everything else as it is."""
    if not isinstance(alpha, pd.Series) or isinstance(alpha.index, pd.RangeIndex):
        return alpha
    sizes = alpha.set_axis([str(name) for name in alpha.index])
    if not sizes.index.is_unique or set(sizes.index) != set(names):
        raise DataError(
            f"alpha has the names {', '.join(sizes.index)}; the coefficients are {', '.join(names)}"
        )
    return sizes[names]


def _twin(original: Any) -> Any:
    """Return another object with the same attributes; copy.copy would evaluate the formula again."""
    twin = object.__new__(type(original))
    twin.__dict__.update(original.__dict__)
    return twin
