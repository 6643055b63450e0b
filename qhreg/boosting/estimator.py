"""The boosting regressor with scikit-learn's interface: data and parameters in, attributes out."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from scipy import sparse
from sklearn.base import _fit_context, is_regressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    _check_monotonic_cst,
    check_is_fitted,
    validate_data,
)

from qhreg._typing import FloatArray
from qhreg.boosting.noise import HERE, Noise, Pool
from qhreg.boosting.paper import PaperFit, fit_paper
from qhreg.boosting.trees import Growth, TreeSum, cross_folds, evaluation_fold, readable
from qhreg.boosting.twostep import TwoStepFit, cross_interval, fit_two_step, fold_models
from qhreg.estimator import FLOATS, LawRegressor, case_weights, check_levels
from qhreg.exceptions import DomainError, warn_caller
from qhreg.specification.inputs import to_pandas
from qhreg.specification.parameters import RowLaw


class QuantileHuberBoostingRegressor(LawRegressor):
    r"""Gradient boosting with quantile Huber noise, whose scale and asymmetry are inferred.

    The model is :math:`y = f(x) + e^{s(x)} u`, with trees for f, trees or none for s, and u of the
    quantile Huber law. By default f (and s) are learnt with Huber's loss, tau = 1/2; level, sigma and
    tau of u are then fitted once, by maximum likelihood, to residuals of rows that the trees have not
    seen, and so is the number of stages.

    Parameters
    ----------
    scheme : {"two-step", "paper"}
        "two-step" is the scheme above. "paper" is section 4 of the paper as printed: the step and tau
        of each stage are the joint minimum of the likelihood on the training rows, sigma is given, and
        there is no cross-fit.
    kappa : float
        Huber width in units of sigma; the paper has 0.05. 0, the quantile loss, is for the paper's
        scheme only.
    tau, sigma : float or None
        A number fixes the parameter, None infers it. The slope of the loss is tau on negative and
        1 - tau on positive residuals. The paper has ``sigma=1.0``.
    scale : {"constant", "boosted"}
        Whether sigma is one number, or grows as trees of its own.
    n_estimators : int
        Most stages. Where rows are held out they say how many are kept; with ``cv=None``, and in the
        paper's scheme, which has 200, all of them are run.
    learning_rate : float
        Shrinkage of each stage. The paper has 1.
    max_depth, max_leaf_nodes : int or None
        Depth and leaves of a tree; None for no limit.
    min_samples_leaf : int
        Least sum in a leaf of case weights times Huber's weights; the latter are one for all rows but
        outlying ones.
    l2_regularization : float
        Added to that sum in the mean that is the leaf's output.
    max_features, subsample : float
        Shares of the columns drawn for each split, and of the rows drawn for each tree.
    max_bins : int
        Bins of a column.
    categorical_features : array-like of int, str or bool, or None
        Columns, by number, name or mask, whose values are codes of categories: 0, 1, 2, ...
    monotonic_cst : array-like of int, dict or None
        1 for an increasing, -1 for a decreasing and 0 for any effect of each column, or by name.
    interaction_cst : sequence of sequences of int, "pairwise", "no_interactions" or None
        Groups of columns that may interact; columns in no group form one more.
    n_iter_no_change : int or None
        Stages without a better score of the rows held out after which to stop; None runs all stages.
    cv : int, splitter, iterable or None
        Folds behind number of stages, noise and intervals, as in scikit-learn. None is for searches
        over parameters: one fit, all stages, and the noise of the training rows, which is too small by
        as much as the trees overfit.
    interval : {"law", "conformal"}
        Intervals by the fitted law, or by CV+ with its guarantee.
    estimator : regressor or None
        Base learner of the paper's scheme; None is a regression tree of depth three.
    random_state : int, RandomState or None
        Of the folds, and of the rows and columns drawn.
    n_jobs : int or None
        Threads of LightGBM.

    Attributes
    ----------
    tau_, sigma_ : float
        Asymmetry and scale of the noise; with ``scale="boosted"`` sigma multiplies that of the row.
    tau_path_, sigma_path_ : ndarray, shape (n_estimators_,)
        Those of the rows held out after each stage: how they develop as less is left to be learnt. In
        the paper's scheme, tau and sigma of each joint step.
    n_estimators_ : int
        Stages kept.
    validation_score_ : ndarray
        Mean negative log-likelihood of the rows held out, before the first stage and after each that
        was run; the least is at `n_estimators_`. In the paper's scheme that of the training rows.
    booster_ : lightgbm.Booster or None
        The trees of f; None without a stage. With a constant scale it predicts what `predict` does.
    spread_booster_ : lightgbm.Booster or None
        The trees of s.
    estimators_ : list of regressor
        Base learners of the paper's scheme.
    feature_importances_ : ndarray, shape (n_features,)
        Share of each feature in the decrease of the weighted sum of squares.
    n_features_in_, feature_names_in_ : int, ndarray
        Features seen by `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.sign(X[:, 0]) + rng.exponential(size=400)
    >>> model = QuantileHuberBoostingRegressor(random_state=0).fit(X, y)
    >>> bool(model.tau_ > 0.7)
    True
    >>> model.predict_interval(X[:2], coverage=[0.8, 0.95]).shape
    (2, 2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "scheme": [StrOptions({"two-step", "paper"})],
        "kappa": [Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="neither"), None],
        "sigma": [Interval(Real, 0, None, closed="neither"), None],
        "scale": [StrOptions({"constant", "boosted"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "max_features": [Interval(Real, 0, 1, closed="right")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "max_bins": [Interval(Integral, 2, 65535, closed="both")],
        "categorical_features": ["array-like", None],
        "monotonic_cst": ["array-like", dict, None],
        "interaction_cst": [list, tuple, StrOptions({"pairwise", "no_interactions"}), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "cv": ["cv_object"],
        "interval": [StrOptions({"law", "conformal"})],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        scheme: str = "two-step",
        *,
        kappa: float = 4.0,
        tau: float | None = None,
        sigma: float | None = None,
        scale: str = "constant",
        n_estimators: int = 1000,
        learning_rate: float = 0.1,
        max_depth: int | None = 3,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int = 1,
        l2_regularization: float = 1.0,
        max_features: float = 1.0,
        subsample: float = 1.0,
        max_bins: int = 255,
        categorical_features: Any = None,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        n_iter_no_change: int | None = 10,
        cv: Any = 5,
        interval: str = "law",
        estimator: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.scheme = scheme
        self.kappa = kappa
        self.tau = tau
        self.sigma = sigma
        self.scale = scale
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.subsample = subsample
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.interval = interval
        self.estimator = estimator
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        learner = get_tags(self._learner()).input_tags if self.scheme == "paper" else None
        tags.input_tags.allow_nan = learner is None or learner.allow_nan
        tags.input_tags.sparse = learner is None or learner.sparse
        return tags

    def _learner(self) -> Any:
        """Return the base learner of the paper's scheme."""
        return DecisionTreeRegressor(max_depth=3) if self.estimator is None else self.estimator

    def _checked(self, exog: Any, *, reset: bool = False, **options: Any) -> Any:
        """Return rows as scikit-learn checks them."""
        tags = self.__sklearn_tags__().input_tags
        return validate_data(
            self,
            to_pandas(exog),
            reset=reset,
            dtype=FLOATS,
            accept_sparse=["csr"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            **options,
        )

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None
    ) -> QuantileHuberBoostingRegressor:
        """Fit the trees and the noise.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features; NaN is allowed where the base learner takes it.
        y : array-like, shape (n,)
            Response.
        sample_weight : array-like, shape (n,), or None
            Case weights: a weight of two is a row given twice.
        eval_set : (array-like, array-like), a list of one such pair, or None
            Rows that take the place of the folds: number of stages, noise and law intervals come from
            them, and the trees from X alone.
        """
        exog, endog = self._checked(X, reset=True, y=y, y_numeric=True)
        weights = case_weights(sample_weight, exog)
        endog = np.asarray(endog, dtype=np.float64)
        rng = check_random_state(self.random_state)
        if self.scheme == "paper":
            self._fit_paper(exog, endog, weights, rng, eval_set)
        else:
            self._fit_two_step(exog, endog, weights, rng, eval_set)
        self._warn_if_empty()
        return self

    def _warn_if_empty(self) -> None:
        """Warn where no stage was kept, unless the response is a constant."""
        if not self.n_estimators_ and math.isfinite(self._noise.loss):
            warn_caller(
                "no stage was kept: the predictions are a constant, because no tree improved the "
                "likelihood of rows held out (see validation_score_) or no column has two values",
                UserWarning,
            )

    def _fit_paper(
        self, exog: Any, endog: FloatArray, weights: FloatArray, rng: Any, eval_set: Any
    ) -> None:
        """Run the paper's stages, and set what they give."""
        learner = self._learner()
        if not is_regressor(learner):
            raise ValueError(f"estimator must be a regressor, got {learner!r}")
        if eval_set is not None or self.scale != "constant" or self.interval != "law":
            raise DomainError(
                "eval_set, scale='boosted' and interval='conformal' need scheme='two-step': the "
                "paper's scheme has training rows and one sigma"
            )
        keep = weights > 0.0
        fit = fit_paper(
            learner,
            exog[keep],
            endog[keep],
            None if np.all(weights == 1.0) else weights[keep],
            rng,
            kappa=self.kappa,
            tau=self.tau,
            sigma=self.sigma,
            n_stages=self.n_estimators,
            learning_rate=self.learning_rate,
        )
        self.estimators_ = fit.learners
        self._location: PaperFit | TreeSum = fit
        self._spread = TreeSum(0.0, None)
        self._set_noise(fit.noises[-1], fit.noises, len(fit.learners))

    def _fit_two_step(
        self, exog: Any, endog: FloatArray, weights: FloatArray, rng: Any, eval_set: Any
    ) -> None:
        """Run the two-step scheme on rows in memory, and set what it gives."""
        self._check_two_step()
        if self.interval == "conformal" and self.cv is None and eval_set is None:
            raise DomainError("interval='conformal' needs rows held out: give cv or eval_set")
        if eval_set is None:
            folds = cross_folds(self.cv, exog, endog, weights, rng)
        else:
            pair = eval_set[0] if isinstance(eval_set, list) else eval_set
            exog_test, endog_test = self._checked(pair[0], y=pair[1], y_numeric=True)
            folds = evaluation_fold(weights, endog_test.size)
            exog = _stacked(exog, exog_test)
            endog = np.concatenate([endog, endog_test])
        options = self._lightgbm_options(endog.size, rng)
        patience = None if self.cv is None and eval_set is None else self.n_iter_no_change
        data = self._dataset(exog, options)
        fit = self._grow(Growth(data, folds, options, self.n_estimators, patience), endog)
        self._fold_models = fold_models(fit, folds) if self.interval == "conformal" else []

    def _check_two_step(self) -> None:
        """Raise a DomainError where parameters do not go together."""
        if self.kappa == 0.0:
            raise DomainError(
                "kappa=0 needs scheme='paper': the trees of scheme='two-step' grow on Huber's weights, "
                "which are then zero; give a small kappa, such as 0.05"
            )
        if self.estimator is not None:
            raise DomainError(
                "estimator needs scheme='paper': scheme='two-step' grows LightGBM trees"
            )
        if self.scale == "boosted" and self.sigma is not None:
            raise DomainError("sigma cannot be fixed with scale='boosted', which infers it by row")

    def _dataset(self, exog: Any, options: dict[str, Any], reference: Any = None) -> lgb.Dataset:
        """Return rows in bins, those of another data set where one is given."""
        return lgb.Dataset(
            readable(exog),
            reference=reference,
            params=options,
            feature_name=_lightgbm_names(self),
            categorical_feature=_column_numbers(self, self.categorical_features),
        )

    def _grow(self, growth: Growth, endog: FloatArray, pool: Pool = HERE) -> TwoStepFit:
        """Fit trees and noise to rows that may lie on several workers, and set what they give."""
        fit = fit_two_step(
            growth,
            endog,
            kappa=self.kappa,
            tau=self.tau,
            sigma=self.sigma,
            boost_spread=self.scale == "boosted",
            pool=pool,
        )
        self._location, self._spread = fit.location, fit.spread
        self.booster_, self.spread_booster_ = fit.location.booster, fit.spread.booster
        stages = fit.location_folds.stages
        noises = [each.noise for each in stages if each.noise is not None]
        self._set_noise(fit.noise, noises, fit.location_folds.n_stages)
        self.validation_score_ = np.array([each.loss for each in stages])
        return fit

    def _lightgbm_options(self, n_rows: int, rng: Any) -> dict[str, Any]:
        """Return the parameters as LightGBM names them."""
        # LightGBM takes memory for as many leaves as are allowed, and allows 131072
        limits = [
            self.max_leaf_nodes,
            None if self.max_depth is None else 2**self.max_depth,
            n_rows,
        ]
        options = {
            "objective": "none",
            "metric": "none",
            "verbosity": -1,
            "num_threads": effective_n_jobs(self.n_jobs),
            "seed": int(rng.randint(np.iinfo(np.int32).max)),
            "deterministic": True,
            "force_row_wise": True,
            "learning_rate": self.learning_rate,
            "num_leaves": max(2, min(each for each in [*limits, 131072] if each is not None)),
            "max_depth": -1 if self.max_depth is None else self.max_depth,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": self.min_samples_leaf,
            "lambda_l2": self.l2_regularization,
            "feature_fraction_bynode": self.max_features,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1.0),
            "max_bin": self.max_bins,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
        }
        if self.monotonic_cst is not None:
            options["monotone_constraints"] = _check_monotonic_cst(
                self, self.monotonic_cst
            ).tolist()
        if self.interaction_cst is not None:
            options["interaction_constraints"] = _groups(self.interaction_cst, self.n_features_in_)
        return options

    def _set_noise(self, noise: Noise, noises: Sequence[Noise], n_stages: int) -> None:
        """Set what is known of the noise, and the stages kept."""
        self._noise = noise
        self.tau_, self.sigma_ = noise.tau, noise.sigma
        self.n_estimators_ = n_stages
        self.tau_path_ = np.array([each.tau for each in noises[1 : n_stages + 1]])
        self.sigma_path_ = np.array([each.sigma for each in noises[1 : n_stages + 1]])
        self.validation_score_ = np.array([each.loss for each in noises])

    def _law(self, X: Any) -> RowLaw:
        check_is_fitted(self)
        exog, noise = self._checked(X), self._noise
        location, scale = self._location.predict(exog), np.exp(self._spread.predict(exog))
        sigma = scale * noise.sigma
        return RowLaw(location + scale * noise.level, sigma, noise.tau, noise.kappa)

    def predict_interval(self, X: Any, coverage: Any = 0.95) -> FloatArray:
        """Return central prediction intervals of the response, by the law or conformal (`interval`).

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
        if self.interval == "law":
            return super().predict_interval(X, coverage)
        check_is_fitted(self)
        exog, each = self._checked(X), check_levels("coverage", coverage)
        ends = [cross_interval(self._fold_models, exog, one) for one in each.ravel().tolist()]
        return np.stack(ends, axis=1) if each.ndim else ends[0]

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each feature in the decrease of the weighted sum of squares."""
        check_is_fitted(self)
        if not self.n_estimators_:
            return np.zeros(self.n_features_in_)
        return self._location.importances()

    def plot_tau_path(self, ax: Any = None, **line_options: Any) -> Any:
        """Draw tau against the stage, and return the matplotlib Axes.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        **line_options
            Passed to `Axes.plot`.
        """
        from qhreg.plotting import plot_tau_path

        check_is_fitted(self)
        return plot_tau_path(self.tau_path_, ax, **line_options)


def _stacked(exog: Any, more: Any) -> Any:
    """Return rows of both."""
    both: Any = [exog, more]
    return sparse.vstack(both, format="csr") if sparse.issparse(exog) else np.concatenate(both)


def _lightgbm_names(model: Any) -> list[str]:
    """Return the names of the features with the characters that LightGBM refuses replaced."""
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    return [re.sub(r'[",:\[\]{}]', "_", name) for name in names]


def _column_numbers(model: Any, columns: Any) -> list[int]:
    """Return the numbers of columns given by number, name or mask."""
    if columns is None:
        return []
    chosen = np.asarray(columns)
    if chosen.dtype.kind in "UO":
        names = list(getattr(model, "feature_names_in_", []))
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise DomainError(f"categorical_features names no column: {unknown}")
        return [names.index(name) for name in chosen]
    numbers = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen
    return [int(j) for j in numbers]


def _groups(constraints: Any, p: int) -> list[list[int]]:
    """Return groups of columns that may interact, as scikit-learn reads them."""
    if constraints == "no_interactions":
        return [[j] for j in range(p)]
    if constraints == "pairwise":
        return [list(pair) for pair in itertools.combinations(range(p), 2)]
    groups = [sorted({int(j) for j in group}) for group in constraints]
    rest = sorted(set(range(p)) - {j for group in groups for j in group})
    return groups + ([rest] if rest else [])
