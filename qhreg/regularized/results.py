"""What a model says of its penalised fits: one with names, a path of them, their cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import BoolArray, FloatArray
from qhreg.covariance.scores import loglike_obs
from qhreg.exceptions import DataError, DomainError
from qhreg.family.normalizer import location_level
from qhreg.progress import with_progress
from qhreg.regularized.fit import RegularizedSolution, regularized_path
from qhreg.results.fitted import RowResults, of_solution
from qhreg.results.plots import FitResults
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters, ParameterSpace


def _parameters(solution: RegularizedSolution) -> Parameters:
    return Parameters(solution.beta, solution.sigma, solution.tau, solution.kappa)


def _labelled(name: str) -> Any:
    """Return a property of the rows that carries their labels, as those of a fit without penalty do."""
    plain = getattr(RowResults, name)

    def values(results: Any) -> Any:
        array, labels = np.asarray(plain.fget(results)), results.model.data.row_labels
        return array if labels is None else pd.Series(array, index=labels)

    return property(values, doc=plain.__doc__)


@dataclass(frozen=True, repr=False)
class RegularizedResults(FitResults, RowResults):
    """A penalised fit: estimates and predictions, without standard errors.

    Attributes
    ----------
    model : QuantileHuberMLE
        The model.
    solution : RegularizedSolution
        What the solver returned.
    """

    model: Any
    solution: RegularizedSolution

    fittedvalues = _labelled("fittedvalues")
    resid = _labelled("resid")
    resid_standardized = _labelled("resid_standardized")
    resid_pearson = _labelled("resid_pearson")
    resid_pit = _labelled("resid_pit")
    resid_quantile = _labelled("resid_quantile")
    weights = _labelled("weights")
    sigma = of_solution("sigma", "Scale.")
    tau = of_solution("tau", "Asymmetry.")
    kappa = of_solution("kappa", "Huber width.")
    llf = of_solution("loglike", "Ordinary log-likelihood at the estimates, without the penalty.")
    converged = of_solution("converged", "Whether the duality gap is closed and tau stationary.")
    duality_gap = of_solution("gap", "How far the objective can be above its minimum at this tau.")
    subgradient = of_solution("subgradient", "Largest violation of the subgradient condition.")

    @property
    def space(self) -> ParameterSpace:
        """Which parameters are estimated."""
        space: ParameterSpace = self.model.space
        return space

    @property
    def parameters(self) -> Parameters:
        """beta, sigma, tau and kappa, fixed ones included."""
        return _parameters(self.solution)

    @property
    def params(self) -> pd.Series[float]:
        """Estimates: coefficients, then those of sigma and tau that are estimated."""
        values = self.space.pack(self.parameters)
        return pd.Series(values, index=[str(name) for name in self.model.data.param_names])

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
        """Return the fit without penalty, the coefficients held at zero that are zero here.

        Parameters
        ----------
        **options
            Of ``fit_constrained``, such as `cov_type`; the likelihood is that of this fit by default.

        Notes
        -----
        Its standard errors treat the selection as given.
        """
        zero = np.flatnonzero(self.solution.beta == 0.0)
        options = {"reml": self.solution.p > 0.0, **options}
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
        fit = self.solution
        return (
            f"<penalised fit, alpha = {fit.alpha:g}, L1_wt = {fit.L1_wt:g}: {fit.n_nonzero} of "
            f"{fit.beta.size} coefficients, gap {fit.gap:.1e}>"
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

    def plot(
        self, ax: Any = None, *, names: Sequence[str] | None = None, chosen: float | None = None
    ) -> Any:
        """Draw the coefficients over the size of the penalty and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        names : sequence of str, optional
            The coefficients; by default all but the constant.
        chosen : float, optional
            A size to mark, such as ``best_alpha`` of a cross-validation.
        """
        from qhreg.plotting import plot_penalty_path

        model = self.results[0].model
        if names is None:
            kept = [j for j in range(model.k_exog) if j != model.data.const_idx]
            names = [str(model.exog_names[j]) for j in kept]
        coefficients = self.params[list(names)].to_numpy()
        return plot_penalty_path(self.alphas, coefficients, names, chosen=chosen, ax=ax)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"<{len(self)} penalised fits, alpha from {self.alphas.max():g} to {self.alphas.min():g}>"


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """How well penalised fits of some rows predict the others.

    Attributes
    ----------
    alphas : ndarray, shape (a,)
        Sizes of the penalty, decreasing.
    losses : ndarray, shape (folds, a)
        Mean negative log-likelihood of the rows left out, the penalty not counted.
    """

    alphas: FloatArray
    losses: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean over the folds."""
        return np.asarray(self.losses.mean(axis=0))

    @property
    def standard_error(self) -> FloatArray:
        """Standard deviation over the folds, divided by the root of their number."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best_alpha(self) -> float:
        """The size with the least mean."""
        return float(self.alphas[int(np.argmin(self.mean))])

    @property
    def one_se_alpha(self) -> float:
        """The largest size whose mean is within one standard error of the least."""
        best = int(np.argmin(self.mean))
        within = self.mean <= self.mean[best] + self.standard_error[best]
        return float(self.alphas[within].max())

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each alpha."""
        index = pd.Index(self.alphas, name="alpha")
        return pd.DataFrame({"mean": self.mean, "standard_error": self.standard_error}, index)

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss over the size of the penalty and return the Axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.
        """
        from qhreg.plotting import plot_cross_validation

        sizes = {"best": self.best_alpha, "one_se": self.one_se_alpha}
        return plot_cross_validation(self.alphas, self.mean, self.standard_error, **sizes, ax=ax)

    def __repr__(self) -> str:
        return (
            f"<cross-validation with {len(self.losses)} folds: alpha = {self.best_alpha:.4g}, "
            f"within one standard error {self.one_se_alpha:.4g}>"
        )


def cross_validate(
    observations: Observations,
    alphas: Any,
    *,
    n_folds: int = 5,
    rng: Any = 0,
    progress: bool = False,
    splits: Iterable[tuple[Any, Any]] | None = None,
    **options: Any,
) -> CrossValidation:
    """Return the out-of-sample likelihood for several sizes of the penalty.

    Parameters
    ----------
    observations : Observations
        The data.
    alphas : array_like
        Sizes of the penalty.
    n_folds : int
        Parts into which the rows with weight are divided at random, each left out once.
    rng : int, Generator or None
        Of the random numbers.
    progress : bool
        Whether to show a progress bar, where tqdm is installed.
    splits : iterable of (array, array), optional
        The rows to fit and those to leave out, each time, in place of `n_folds` parts.
    **options
        Of :func:`qhreg.regularized.regularized_path`, without weights and offset.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.regularized.results import cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(150), rng.normal(size=(150, 3))])
    >>> y = X[:, 1] + rng.laplace(size=150)
    >>> validation = cross_validate(Observations(X, y), [1.0, 0.02], tau=0.5)
    >>> validation.best_alpha, validation.losses.shape
    (0.02, (5, 2))
    """
    sizes = np.sort(np.ravel(np.asarray(alphas, dtype=np.float64)))[::-1]
    if splits is None:
        weight = observations.case_weights
        if weight is not None:  # a fold needs rows that count
            observations = observations.take(weight > 0.0).scaled
        splits = _folds(observations.endog.size, n_folds, rng)
    parts, losses = list(splits), []
    for number, split in enumerate(with_progress(parts, progress, "cross-validation"), start=1):
        inside, outside = (observations.take(part).scaled for part in split)
        try:
            path = regularized_path(
                inside.exog,
                inside.endog,
                sizes,
                weights=inside.case_weights,
                offset=inside.offset,
                **options,
            )
        except DataError as error:
            raise DataError(f"with fold {number} of {len(parts)} left out: {error}") from error
        scores = [loglike_obs(outside, _parameters(fit)).sum() for fit in path]
        losses.append(np.divide(scores, -outside.nobs))
    return CrossValidation(sizes, np.array(losses))


def _folds(n: int, n_folds: int, rng: Any) -> list[tuple[BoolArray, BoolArray]]:
    """Return the rows to fit and to leave out, for parts divided at random."""
    if isinstance(n_folds, bool) or int(n_folds) != n_folds or not 2 <= n_folds <= n:
        raise DomainError(f"n_folds must be a whole number from 2 to {n}, got {n_folds!r}")
    fold = np.random.default_rng(rng).permutation(n) % int(n_folds)
    return [(fold != number, fold == number) for number in range(int(n_folds))]
