"""The boosting regressor with scikit-learn's interface: data and parameters in, attributes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context, clone, is_regressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from qhreg._typing import FloatArray
from qhreg.boosting.density import check_coverage, check_levels, fit_errors
from qhreg.boosting.learners import Learners, SklearnLearners
from qhreg.boosting.loop import Patience
from qhreg.boosting.plot import plot_path
from qhreg.boosting.progress import progress
from qhreg.boosting.rows import hold_out, out_of_fold_errors, weighted_rows
from qhreg.boosting.run import Rows, Schedule, Stages, run_stages
from qhreg.solver import DEFAULT_TAU_BOUNDS, task_of

__all__ = ["QuantileHuberBoostingRegressor"]


FOLDS = 5
"""Folds behind the intervals when `interval_cv` is "auto"."""

FEW_ROWS = 10_000
"""Rows up to which it is."""

LIGHT_SIDE = 20
"""Rows to be expected on the light side of the location: with fewer, one-sided noise often is the most
likely explanation of what is yet to be learnt."""

NARROWEST_TAU = 0.25
"""Lower end of the narrowest range of tau."""

CLIP = 2.0
"""`clip` when it is "auto" and sigma comes from the data."""


class QuantileHuberBoostingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Gradient boosting with the quantile Huber loss that infers its own asymmetry.

    Stage j fits a base learner :math:`g_j` by least squares to the slopes of the loss at
    :math:`\tau_{j-1}`, or to residuals at their level (`clip`), finds its step together with the noise,

    .. math::

        (\beta_j, \sigma_j, \tau_j) = \arg\min \sum_i w_i \Big[\log\big(\sigma c(\tau)\big)
        + \rho_\tau\Big(\frac{y_i - f_{j-1}(x_i) - \beta g_j(x_i)}{\sigma}\Big)\Big] ,

    by the Newton method that fits :class:`qhreg.QuantileHuberMLE`, and sets
    :math:`f_j = f_{j-1} + \nu\,\beta_j g_j` with the learning rate :math:`\nu`. The prediction is the
    mode of the response: noise of one sign does not move it as it moves a mean.

    Parameters
    ----------
    estimator : regressor or None
        Base learner, cloned for each stage. None grows LightGBM's histogram trees; the parameters
        from `max_depth` to `l2_regularization` are theirs.
    kappa : float
        Huber width in units of sigma; 0 is the quantile loss.
    tau : float or None
        A number fixes the asymmetry, None infers it. The slope is tau on negative and 1 - tau on
        positive residuals.
    sigma : float, "initial" or None
        None infers the scale at each stage, with tau. A number fixes it, in the units of y (1.0 is the
        paper's model). "initial" keeps the scale of y around its location, fitted before the first
        stage with tau at one half.
    tau_bounds : (float, float) or None
        Range of an inferred tau. None is (0.001, 0.999), narrowed where sigma is inferred too so that
        20 of the rows are expected on the light side, but to no less than (0.25, 0.75).
    n_estimators : int
        Most stages.
    learning_rate : float
        Shrinkage of each stage.
    subsample : float
        Share of the rows, drawn without replacement, that each learner is fitted to. The joint step
        uses all rows.
    max_depth, max_leaf_nodes : int or None
        Depth of a tree; number of its leaves, None for as many as the depth allows.
    min_samples_leaf : int
        Rows in a leaf, counted by their weights.
    max_features : float
        Share of the columns drawn for each split. All are looked at where a tree would have none.
    max_bins : int
        Bins of a column.
    l2_regularization : float
        Added to the number of rows of a leaf in the mean that is its output.
    min_split_gain : float
        Decrease of the sum of squares that a split has to bring, in units of the mean square of the
        slopes times the square of the share of the spread of y that is left. A split that separates
        nothing brings as much as a chi-squared variable with one degree of freedom, the best of many
        more. The stages end when no split brings enough; 0 runs all of them.
    clip : float, "auto" or None
        The learners are fitted to residuals, clipped at this multiple of their mean absolute value,
        with the mean of the slopes of the loss: what tells rows apart is learnt from the former, and
        the level, which depends on tau, from the latter. None fits them to the slopes alone, the
        paper's scheme. "auto" is 2 where sigma comes from the data, and None where it is a number.
    leaf_refinement : bool
        Whether each leaf gets its own location at (sigma_j, tau_j) instead of the common step.
    n_iter_no_change : int or None
        Stages without a better validation score after which to stop; None never stops early. The
        stages up to the best score are kept.
    validation_fraction : float
        Share of the rows held out for the validation score.
    tol : float
        Decrease of the score that counts as better.
    interval_cv : int, "auto" or None
        Folds for the errors that `predict_quantile` and `predict_interval` are based on: each fold's
        come from a model fitted to the others. "auto" takes five up to 10 000 rows, and none beyond.
        None takes the errors of the validation rows, or of the training rows when there are none;
        training errors are too small by as much as the model overfits. Predictions do not depend on
        it; a fit with five folds takes about five times as long.
    warm_start : bool
        Whether a second fit adds stages to the first.
    random_state : int, RandomState or None
        Of the validation split, the rows and columns drawn, and the learners.
    n_jobs : int or None
        Threads of LightGBM.
    verbose : bool or int
        Whether to show a progress bar.

    Attributes
    ----------
    tau_path_, sigma_path_, step_sizes_ : ndarray, shape (n_estimators_,)
        tau_j, sigma_j and beta_j (before shrinkage).
    tau_, sigma_ : float
        Their values at the last stage.
    train_score_ : ndarray, shape (n_estimators_,)
        Mean negative log-likelihood of the training rows at each stage's joint optimum.
    validation_score_ : ndarray, shape (n_estimators_,)
        That of the validation rows after the stage; only with early stopping.
    n_estimators_ : int
        Stages kept: fewer than asked for after early stopping, when no learner improves the fit, or
        when no residual is left.
    init_ : float
        Prediction before the first stage.
    error_law_ : ErrorLaw
        Law of the errors behind `predict_quantile`.
    booster_ : lightgbm.Booster
        The model with the default learners: its raw predictions are those of `predict`.
    estimators_ : list of regressor
        The learners of another `estimator`.
    feature_importances_ : ndarray, shape (n_features,)
        Share of each feature in the improvement of the learners' fits.
    n_features_in_, feature_names_in_ : int, ndarray
        Features seen by `fit`.

    Notes
    -----
    With sigma inferred or initial the fit does not depend on the units of y. With a number it does.
    Where sigma keeps its value, the quadratic zone of the loss keeps its width `kappa * sigma` in the
    units of y, and tau moves back to one half as the residuals get small beside sigma: it then tells
    of the noise no more, and `error_law_.tau` does. Where sigma is inferred at each stage, skewed
    residuals of a model that has yet to learn can pull tau away from one half; on few rows they would
    pull it to a bound at which the stages end, which is why the range of tau is narrower there.

    With more than 5000 rows the last Newton step of each stage is taken without a pass to verify it.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.sign(X[:, 0]) + rng.exponential(size=400)
    >>> model = QuantileHuberBoostingRegressor(sigma=None, random_state=0).fit(X, y)
    >>> bool(model.tau_ > 0.7)
    True
    >>> model.predict_interval(X[:2], coverage=[0.8, 0.95]).shape
    (2, 2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "kappa": [Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="neither"), None],
        "sigma": [Interval(Real, 0, None, closed="neither"), StrOptions({"initial"}), None],
        "tau_bounds": ["array-like", None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "max_features": [Interval(Real, 0, 1, closed="right")],
        "max_bins": [Interval(Integral, 2, 65535, closed="both")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "min_split_gain": [Interval(Real, 0, None, closed="left")],
        "clip": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), None],
        "leaf_refinement": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "interval_cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"}), None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        kappa: float = 0.05,
        tau: float | None = None,
        sigma: float | str | None = None,
        tau_bounds: tuple[float, float] | None = None,
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        subsample: float = 1.0,
        max_depth: int | None = 6,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int = 3,
        max_features: float = 1.0,
        max_bins: int = 255,
        l2_regularization: float = 0.0,
        min_split_gain: float = 12.0,
        clip: float | str | None = "auto",
        leaf_refinement: bool = False,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.1,
        tol: float = 1e-4,
        interval_cv: int | str | None = "auto",
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.kappa = kappa
        self.tau = tau
        self.sigma = sigma
        self.tau_bounds = tau_bounds
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.subsample = subsample
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_bins = max_bins
        self.l2_regularization = l2_regularization
        self.min_split_gain = min_split_gain
        self.clip = clip
        self.leaf_refinement = leaf_refinement
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.interval_cv = interval_cv
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = None if self.estimator is None else get_tags(self.estimator).input_tags
        tags.input_tags.allow_nan = inner is None or inner.allow_nan
        tags.input_tags.sparse = inner is None or inner.sparse
        return tags

    def _checked_rows(self, exog: Any, *, reset: bool = False, **options: Any) -> Any:
        """Return the rows as scikit-learn checks them."""
        tags = self.__sklearn_tags__().input_tags
        return validate_data(
            self,
            exog,
            reset=reset,
            dtype=[np.float64, np.float32],
            accept_sparse=["csr"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            **options,
        )

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuantileHuberBoostingRegressor:
        """Run the stages.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features; NaN is allowed where the base learner takes it.
        y : array-like, shape (n,)
            Response.
        sample_weight : array-like, shape (n,), or None
            Case weights: a weight of two is a row given twice, and their sum counts as the number of
            rows. This holds up to rounding in the choice among splits that are equally good, and
            where no column has more values than `max_bins`: the borders of the bins depend on the
            rows alone.
        """
        exog, endog = self._checked_rows(X, reset=not self._continues(), y=y, y_numeric=True)
        rows = weighted_rows(exog, np.asarray(endog, dtype=np.float64), sample_weight)
        self._begin()
        rng = check_random_state(self._seed)
        train, held_out = rows, None
        if self.n_iter_no_change is not None:
            train, held_out = hold_out(rows, self.validation_fraction, rng)
        stages = self._run(train, held_out, rng)
        self._set_stages(stages)
        residuals, weights = self._errors(train, held_out, stages)
        low, high = DEFAULT_TAU_BOUNDS if self.tau_bounds is None else self.tau_bounds
        self.error_law_ = fit_errors(residuals, weights, self.kappa, (low, high))
        return self

    def _tau_range(self, train: Rows) -> tuple[float, float]:
        """Return the range of tau in the stages."""
        if self.tau_bounds is not None:
            low, high = self.tau_bounds
            return low, high
        if self.sigma is not None:
            return DEFAULT_TAU_BOUNDS
        total = train.endog.size if train.weights is None else float(train.weights.sum())
        low = min(max(DEFAULT_TAU_BOUNDS[0], LIGHT_SIDE / total), NARROWEST_TAU)
        return low, 1.0 - low

    def _continues(self) -> bool:
        return bool(self.warm_start and hasattr(self, "_stages"))

    def _begin(self) -> None:
        """Forget an earlier fit unless this one continues it."""
        if self._continues():
            if self.n_estimators < self.n_estimators_:
                raise ValueError(
                    f"n_estimators={self.n_estimators} must be at least the "
                    f"{self.n_estimators_} stages already fitted when warm_start=True"
                )
            return
        if hasattr(self, "_stages"):
            del self._stages
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _run(self, train: Rows, held_out: Rows | None, rng: Any) -> Stages:
        """Return the stages, after those of an earlier fit that this one continues."""
        sigma = None if isinstance(self.sigma, str) else self.sigma
        patience = None
        if self.n_iter_no_change is not None:
            patience = Patience(self.n_iter_no_change, self.tol)
        earlier = self._stages if self._continues() else None
        missing = self.n_estimators - (0 if earlier is None else earlier.path.tau.size)
        validation = None if held_out is None else held_out.exog
        with progress(missing, bool(self.verbose)) as after_stage:
            return run_stages(
                train,
                held_out,
                task_of(self.kappa, self.tau, sigma, self._tau_range(train)),
                Schedule(
                    self.n_estimators,
                    self.learning_rate,
                    self._clip(),
                    self.leaf_refinement,
                    patience,
                ),
                lambda before: self._learners(train, validation, before, rng),
                earlier=earlier,
                keep_sigma=isinstance(self.sigma, str),
                after_stage=after_stage,
            )

    def _clip(self) -> float | None:
        """Return where to clip the residuals, or None to fit the slopes of the loss."""
        if isinstance(self.clip, str):
            return None if isinstance(self.sigma, Real) else CLIP
        return self.clip

    def _learners(self, train: Rows, validation: Any, before: Any, rng: Any) -> Learners:
        """Return the base learners on the training rows."""
        if self.estimator is not None:
            if not is_regressor(self.estimator):
                raise ValueError(f"estimator must be a regressor, got {self.estimator!r}")
            return SklearnLearners(
                self.estimator,
                train.exog,
                train.weights,
                validation,
                subsample=self.subsample,
                rng=rng,
                before=before,
            )
        from qhreg.boosting.histogram import HistogramTrees, TreeOptions

        options = TreeOptions(
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            max_features=float(self.max_features),
            max_bins=self.max_bins,
            l2_regularization=float(self.l2_regularization),
            min_split_gain=float(self.min_split_gain),
            subsample=float(self.subsample),
            n_threads=effective_n_jobs(self.n_jobs),
            seed=int(rng.randint(np.iinfo(np.int32).max)),
        )
        return HistogramTrees(options, train.exog, train.weights, validation, before=before)

    def _set_stages(self, stages: Stages) -> None:
        """Set the attributes that the stages give."""
        path = stages.path
        # the residuals have the size of the data, and a continued fit computes its own
        self._stages = replace(stages, residuals=np.empty(0))
        self.init_ = stages.constant
        self.n_estimators_ = int(path.tau.size)
        self.tau_path_, self.sigma_path_, self.step_sizes_ = path.tau, path.sigma, path.step
        self.tau_, self.sigma_ = stages.noise.tau, stages.noise.sigma
        self.train_score_ = path.train_score
        for name in ("validation_score_", "booster_", "estimators_"):
            if hasattr(self, name):
                delattr(self, name)
        if path.validation_score is not None:
            self.validation_score_ = path.validation_score
        if self.estimator is None:
            self.booster_ = getattr(stages.model, "booster", None)
        else:
            self.estimators_ = getattr(stages.model, "learners", [])

    def _errors(
        self, train: Rows, held_out: Rows | None, stages: Stages
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return out-of-fold, validation or training errors with their weights."""
        folds = self.interval_cv
        if isinstance(folds, str):
            folds = FOLDS if train.endog.size <= FEW_ROWS else None
        if folds is not None and train.endog.size >= folds:
            model = clone(self).set_params(
                n_estimators=max(self.n_estimators_, 1),
                n_iter_no_change=None,
                interval_cv=None,
                warm_start=False,
                verbose=0,
            )
            return out_of_fold_errors(model, train, folds, self._seed), train.weights
        if held_out is not None:
            return held_out.endog - stages.model.predict(held_out.exog), held_out.weights
        return stages.residuals, train.weights

    def predict(self, X: Any) -> FloatArray:
        """Return the location of the response: the mode of the fitted law.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        """
        check_is_fitted(self)
        predicted: FloatArray = self._stages.model.predict(self._checked_rows(X))
        return predicted

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Give the predictions after each stage.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        """
        check_is_fitted(self)
        exog = self._checked_rows(X)
        total = np.zeros(exog.shape[0])
        for index in range(self.n_estimators_):
            total += self._stages.model.stage(exog, index)
            yield total.copy()

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
        """
        errors = check_levels("q", q)
        location = self.predict(X)
        return np.add.outer(location, self.error_law_.quantiles(errors))

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
        levels = check_coverage(coverage)
        location = self.predict(X)
        return np.add.outer(location, self.error_law_.quantiles(levels))

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each feature in the improvement of the learners' fits."""
        check_is_fitted(self)
        importances: FloatArray = self._stages.model.importances()
        return importances

    def plot_tau_path(self, ax: Any = None, **line_options: Any) -> Any:
        """Draw tau against the stage, and return the matplotlib Axes.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        **line_options
            Passed to `Axes.plot`.
        """
        check_is_fitted(self)
        return plot_path(self.tau_path_, ax, **line_options)
