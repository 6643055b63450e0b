"""The linear model with scikit-learn's interface: data and parameters in, attributes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from qhreg._typing import FloatArray
from qhreg.engine.rows import ArrayRows
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, warn_caller
from qhreg.family.distribution import quantile_huber
from qhreg.family.domain import check_real
from qhreg.regularized import largest_alpha, solve_regularized
from qhreg.regularized.results import cross_validate
from qhreg.solver import DEFAULT_TAU_BOUNDS, solve_rows, task_of
from qhreg.solver.over_kappa import solve_kappa
from qhreg.specification.inputs import to_pandas
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import RowLaw

try:
    from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
    from sklearn.model_selection import check_cv
    from sklearn.utils._param_validation import Interval
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "the linear estimator needs scikit-learn 1.6 or later: install it with "
        "`pip install qhreg[sklearn]`"
    ) from error

FLOATS = [np.float64, np.float32]
"""Types of X that are used as they are."""

EXACT = float(np.sqrt(np.finfo(np.float64).eps))
"""Largest residual, as a share of the largest response, of a fit that is exact up to rounding."""


@dataclass(frozen=True)
class _Design:
    """The regressors, after a column of ones where asked for; dense in the rows at hand alone.

    Attributes
    ----------
    exog : ndarray or CSR matrix, shape (n, p)
        Regressors.
    intercept : bool
        Whether to begin with a column of ones.
    """

    exog: Any
    intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.exog.shape
        return n, p + self.intercept

    @property
    def penalty_weights(self) -> FloatArray:
        """One for each regressor, none for the intercept."""
        return np.where(np.arange(self.shape[1]) < self.intercept, 0.0, 1.0)

    def __getitem__(self, rows: npt.NDArray[np.intp] | slice) -> FloatArray:
        part = self.exog[rows]
        design = np.ones((part.shape[0], self.shape[1]))
        design[:, int(self.intercept) :] = part.toarray() if hasattr(part, "toarray") else part
        return design

    def __array__(self, dtype: Any = None, copy: Any = None) -> FloatArray:
        return self[:]


def _fit(
    design: _Design,
    endog: FloatArray,
    weights: FloatArray | None,
    *,
    alpha: float,
    l1_ratio: float,
    kappa: float | None,
    names: list[str],
    **options: Any,
) -> Any:
    """Return the solution of the plain or the penalised problem; `options` as in `solve`."""
    penalised = alpha > 0.0
    if not (penalised or kappa is None):  # block by block: X is not copied, nor made dense
        rows = ArrayRows(design, endog, weights)  # type: ignore[arg-type]
        return solve_rows(rows, task_of(kappa, **options), names=names)
    if sparse.issparse(design.exog):
        raise DataError(
            f"X is sparse, and {'alpha > 0' if penalised else 'kappa=None'} needs it dense, which takes "
            f"{np.prod(design.shape) * 8 / 2**30:.3g} GiB: pass X.toarray() if that fits, or fit with "
            "alpha=0 and a number for kappa"
        )
    exog, data = design[:], {"weights": weights, **options}
    if not penalised:
        return solve_kappa(exog, endog, names=names, **data).solution
    penalty = {"alpha": alpha, "L1_wt": l1_ratio, "penalty_weights": design.penalty_weights}
    return solve_regularized(exog, endog, kappa=kappa, **penalty, **data)


def _exact_fit(design: _Design, endog: FloatArray, weights: Any, **problem: Any) -> Any:
    """Return the fit of columns that leave no residual, or None where they leave one or sigma is fixed.

    The likelihood then grows without bound as sigma goes to 0. The line minimises the loss at every
    sigma, and is fitted at one; what the data cannot tell is tau = 1/2 and kappa = 4.
    """
    if problem["sigma"] is not None:
        return None
    size = float(np.abs(endog).max(initial=0.0))
    unknown = {"tau": 0.5, "kappa": 4.0}
    known = {name: value for name, value in problem.items() if value is not None}
    known["sigma"] = size or 1.0
    try:
        solution = _fit(design, endog, weights, **{**unknown, **known})
    except DataError:
        return None
    residuals = endog - design.exog @ solution.beta[int(design.intercept) :]
    residuals -= solution.beta[0] if design.intercept else 0.0
    if np.abs(residuals).max() > EXACT * size:
        return None
    warn_caller(
        "X fits y exactly, so that sigma ended at 0: every predicted quantile is the line itself",
        BoundaryWarning,
    )
    return replace(solution, sigma=0.0)


def check_levels(name: str, levels: Any) -> FloatArray:
    """Return probabilities strictly between 0 and 1, or raise a DomainError."""
    numbers = np.asarray(check_real(name, levels))
    if numbers.ndim > 1 or not bool(np.all((numbers > 0.0) & (numbers < 1.0))):
        raise DomainError(f"{name} must lie strictly between 0 and 1, got {levels!r}")
    return numbers


def case_weights(sample_weight: Any, exog: Any) -> FloatArray:
    """Return case weights, or raise an error where they are negative or leave nothing to fit."""
    weights: FloatArray = _check_sample_weight(
        sample_weight, exog, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise DataError("all sample weights are zero: there is nothing to fit")
    return weights


class LawRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that predicts a quantile Huber law: every prediction follows from `_law`."""

    def _law(self, X: Any) -> RowLaw:
        """Return the law of the response of new rows."""
        raise NotImplementedError

    def predict(self, X: Any, which: str = "mean") -> FloatArray:
        """Return the mean of the response, or another centre of it.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        which : {"mean", "median", "location", "mode"}
            The location is the mode: noise of one sign moves it less than the others.
        """
        centres = {"mean": quantile_huber.mean, "median": quantile_huber.median}
        if which not in (*centres, "location", "mode"):
            raise DomainError(
                f"which must be 'mean', 'median', 'location' or 'mode', got {which!r}"
            )
        law = self._law(X)
        centre = float(centres[which](law.tau, law.kappa)) if which in centres else 0.0
        return np.asarray(law.location + law.sigma * centre)

    def predict_quantile(self, X: Any, q: Any = 0.5) -> FloatArray:
        """Return quantiles of the response; those of several levels never cross.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        q : float or array-like of shape (k,)
            Levels, strictly between 0 and 1: probability below the quantile (not tau).

        Returns
        -------
        ndarray, shape (n,) or (n, k)
            Quantiles of the fitted law; that the estimates are uncertain is not counted.
        """
        levels, law = check_levels("q", q), self._law(X)
        noise = quantile_huber.ppf(levels, law.tau, law.kappa)
        spread = np.multiply.outer(np.broadcast_to(law.sigma, law.location.shape), noise)
        return np.asarray(law.location.reshape(-1, *[1] * levels.ndim) + spread)

    def predict_interval(self, X: Any, coverage: Any = 0.95) -> FloatArray:
        """Return central prediction intervals of the response.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        coverage : float or array-like of shape (k,)
            Probabilities of the intervals.

        Returns
        -------
        ndarray, shape (n, 2) or (n, k, 2)
            Lower and upper ends.
        """
        tail = 0.5 * (1.0 - check_levels("coverage", coverage))
        ends = np.stack([tail, 1.0 - tail], axis=-1)
        return self.predict_quantile(X, ends.ravel()).reshape(-1, *ends.shape)

    def predict_distribution(self, X: Any) -> Any:
        """Return the law of the response, a frozen scipy distribution with one location per row.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        """
        location, sigma, tau, kappa = self._law(X)
        return quantile_huber(tau, kappa, loc=location, scale=sigma)

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean negative log density of responses: lower is better."""
        return float(np.average(-self.predict_distribution(X).logpdf(y), weights=sample_weight))

    def crps(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean continuous ranked probability score of responses: lower is better."""
        law = self.predict_distribution(X)
        scores = quantile_huber.crps(np.asarray(y, dtype=np.float64), *law.args, **law.kwds)
        return float(np.average(scores, weights=sample_weight))


class _LinearEstimator(LawRegressor):
    """What both estimators share: the rows as scikit-learn checks them, and the fit."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kappa": [Interval(Real, 0, None, closed="left"), None],
        "tau": [Interval(Real, 0, 1, closed="neither"), None],
        "sigma": [Interval(Real, 0, None, closed="neither"), None],
        "reml": ["boolean"],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "fit_intercept": ["boolean"],
        "tau_bounds": ["array-like"],
    }

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, accept_sparse: Any = False
    ) -> tuple[_Design, FloatArray, Any]:
        """Return the data as scikit-learn checks them."""
        checks = {"accept_sparse": accept_sparse, "y_numeric": True, "ensure_min_samples": 2}
        exog, endog = validate_data(self, to_pandas(X), to_pandas(y), dtype=FLOATS, **checks)
        weights = None if sample_weight is None else case_weights(sample_weight, exog)
        return _Design(exog, self.fit_intercept), np.asarray(endog, dtype=np.float64), weights

    def _options(self) -> dict[str, Any]:
        """Return the options of every fit."""
        low, high = self.tau_bounds
        names = ("kappa", "tau", "sigma", "reml")
        return {**{name: getattr(self, name) for name in names}, "tau_bounds": (low, high)}

    def _set_solution(self, design: _Design, endog: FloatArray, weights: Any, alpha: float) -> None:
        """Fit with a penalty of some size, and set the attributes."""
        if weights is not None and not weights.all():
            keep = weights > 0.0
            design = replace(design, exog=design.exog[keep])
            endog, weights = endog[keep], weights[keep]
        features = getattr(self, "feature_names_in_", range(self.n_features_in_))
        names = ["intercept"] * self.fit_intercept + [str(name) for name in features]
        problem = {"alpha": alpha, "l1_ratio": self.l1_ratio, "names": names, **self._options()}
        try:
            solution = _fit(design, endog, weights, **problem)
        except DataError:
            solution = _exact_fit(design, endog, weights, **problem)
            if solution is None:
                raise
        constant = int(self.fit_intercept)
        self.solution_ = solution
        self.coef_ = solution.beta[constant:]
        self.intercept_ = float(solution.beta[0]) if constant else 0.0
        self.tau_, self.sigma_, self.kappa_ = solution.tau, solution.sigma, solution.kappa
        self.n_iter_ = solution.iterations

    def _law(self, X: Any) -> RowLaw:
        check_is_fitted(self)
        exog = validate_data(self, to_pandas(X), reset=False, accept_sparse=["csr"], dtype=FLOATS)
        return RowLaw(exog @ self.coef_ + self.intercept_, self.sigma_, self.tau_, self.kappa_)


class QuantileHuberRegressor(_LinearEstimator):
    r"""Linear regression with the quantile Huber likelihood, as a scikit-learn estimator.

    The model of :class:`qhreg.QuantileHuberMLE`: :math:`y = x'\beta + b_0 + \sigma\varepsilon`, the
    noise :math:`\varepsilon` with the density of :data:`qhreg.quantile_huber`. Coefficients, scale and
    asymmetry are estimated together by restricted maximum likelihood (QH-25), with an elastic-net
    penalty on request (QH-40). For standard errors and tests use that class.

    Parameters
    ----------
    kappa : float or None
        Huber width in units of sigma; 0 is the quantile loss, None estimates it.
    tau : float or None
        A number fixes the asymmetry, None estimates it. The slope of the loss is tau on negative and
        1 - tau on positive residuals.
    sigma : float or None
        A number fixes the scale, in the units of y; None estimates it.
    reml : bool
        Whether the likelihood is the restricted one where sigma is estimated; False is plain maximum
        likelihood.
    alpha : float
        Size of the penalty ``alpha * sum(l1_ratio * |b| + (1 - l1_ratio) / 2 * b**2)`` that is added
        to minus the mean log-likelihood. It is on ``b = coef / sigma``, so that it does not depend on
        the units of y, and not on the intercept. Bring the columns to comparable units first.
    l1_ratio : float
        Share of the absolute values in it: 1 is the lasso, 0 ridge.
    fit_intercept : bool
        Whether to add a constant.
    tau_bounds : (float, float)
        Range of an estimated tau.

    Attributes
    ----------
    coef_ : ndarray, shape (p,)
        Coefficients.
    intercept_ : float
        Constant of the location, the mode of the response; 0 without one.
    tau_, sigma_, kappa_ : float
        Asymmetry, scale and width. ``sigma_`` is 0, with a BoundaryWarning, where X fits y exactly.
    n_iter_ : int
        Newton steps.
    solution_ : Solution or RegularizedSolution
        What the solver returned: `converged` and the duality gap, `gap`, that proves it.
    n_features_in_, feature_names_in_ : int, ndarray
        Features seen by `fit`.

    Notes
    -----
    X is used where it lies: the fit needs little memory beside it, and a sparse X is dense in one block
    of rows at a time. Penalised fits, and those with ``kappa=None``, copy it and need it dense.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = 1.0 + X @ [2.0, -1.0] + rng.exponential(size=500)
    >>> model = QuantileHuberRegressor().fit(X, y)
    >>> model.coef_.round(1), bool(model.tau_ > 0.8), model.solution_.converged
    (array([ 2., -1.]), True, True)
    >>> model.predict(X[:1]) > model.predict(X[:1], which="median")
    array([ True])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LinearEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kappa: float | None = 4.0,
        tau: float | None = None,
        sigma: float | None = None,
        reml: bool = True,
        alpha: float = 0.0,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    ) -> None:
        self.kappa = kappa
        self.tau = tau
        self.sigma = sigma
        self.reml = reml
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.tau_bounds = tau_bounds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.alpha == 0.0 and self.kappa is not None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantileHuberRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        y : array-like, shape (n,)
            Response.
        sample_weight : array-like, shape (n,), or None
            Case weights: a weight of two is a row given twice. Their sum is the number of observations
            of the restricted likelihood; rescale weights that are shares.
        """
        self._set_solution(*self._rows(X, y, sample_weight, ["csr"]), self.alpha)
        return self


class QuantileHuberRegressorCV(_LinearEstimator):
    r"""The penalised linear model, the size of its penalty chosen by cross-validation.

    The size is the one with the largest mean likelihood of the rows left out. All rows are then fitted
    with it.

    Parameters
    ----------
    alphas : int or array-like
        Sizes of the penalty, or how many: from the least that removes every coefficient down to `eps`
        times that, evenly on a logarithmic scale.
    eps : float
        Smallest over largest of them.
    cv : int, cross-validation generator or iterable
        As elsewhere in scikit-learn: a number of folds, or the folds.
    kappa, tau, sigma, reml, l1_ratio, fit_intercept, tau_bounds
        As in :class:`QuantileHuberRegressor`; kappa must be positive.

    Attributes
    ----------
    alpha_ : float
        The size chosen.
    alphas_ : ndarray, shape (k,)
        The sizes tried, decreasing.
    cross_validation_ : CrossValidation
        Mean negative log-likelihood of the rows left out, `losses`, of shape (folds, k), with
        `best_alpha`, `one_se_alpha` and `to_frame()`.
    coef_, intercept_, tau_, sigma_, kappa_, n_iter_, solution_, n_features_in_, feature_names_in_
        As in :class:`QuantileHuberRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8))
    >>> y = 2.0 * X[:, 0] + rng.laplace(size=200)
    >>> model = QuantileHuberRegressorCV(alphas=10, tau=0.5).fit(X, y)
    >>> bool(model.coef_[0] > 1.8), model.cross_validation_.losses.shape
    (True, (5, 10))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LinearEstimator._parameter_constraints,
        "kappa": [Interval(Real, 0, None, closed="neither")],
        "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        *,
        alphas: Any = 30,
        eps: float = 1e-2,
        cv: Any = None,
        kappa: float = 4.0,
        tau: float | None = None,
        sigma: float | None = None,
        reml: bool = True,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    ) -> None:
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.kappa = kappa
        self.tau = tau
        self.sigma = sigma
        self.reml = reml
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.tau_bounds = tau_bounds

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantileHuberRegressorCV:
        """Choose the size of the penalty, and fit all rows with it.

        Parameters
        ----------
        X : array-like, shape (n, p)
            Features.
        y : array-like, shape (n,)
            Response.
        sample_weight : array-like, shape (n,), or None
            Case weights, as in :class:`QuantileHuberRegressor`.
        """
        design, endog, weights = self._rows(X, y, sample_weight)
        exog, sizes = design[:], self.alphas
        penalty = {"L1_wt": self.l1_ratio, "penalty_weights": design.penalty_weights}
        options = {**penalty, **self._options()}
        if isinstance(sizes, Integral):
            top = largest_alpha(exog, endog, weights=weights, **options)
            sizes = top * self.eps ** np.linspace(0.0, 1.0, int(sizes))
        self.cross_validation_ = cross_validate(
            Observations(exog, endog, freq_weights=weights),
            sizes,
            splits=check_cv(self.cv).split(exog, endog),
            **options,
        )
        self.alphas_ = self.cross_validation_.alphas
        self.alpha_ = self.cross_validation_.best_alpha
        self._set_solution(design, endog, weights, self.alpha_)
        return self
