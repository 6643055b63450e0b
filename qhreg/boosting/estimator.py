"""The boosting regressor with scikit-learn's interface: data and parameters in, attributes out."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context, clone, is_regressor
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from qhreg.boosting.density import check_coverage, check_levels, fit_errors
from qhreg.boosting.learners import Learners, SklearnLearners
from qhreg.boosting.loop import Path, Patience, Validation, boost
from qhreg.boosting.plot import plot_path
from qhreg.boosting.progress import progress
from qhreg.boosting.stage import Noise, fit_location
from qhreg.exceptions import DataError
from qhreg.problem import Task
from qhreg.solver import task_of

__all__ = ["QuantileHuberBoostingRegressor"]

FloatArray = npt.NDArray[np.float64]


class QuantileHuberBoostingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Gradient boosting with the quantile Huber loss that infers its own asymmetry.

    Stage j fits a base learner :math:`g_j` by least squares to the slopes of the loss at
    :math:`\tau_{j-1}`, finds its step together with the noise,

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
    sigma : float or None
        A number fixes the scale, in the units of y (1.0 is the paper's model); None infers it.
    tau_bounds : (float, float)
        Range of an inferred tau.
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
        Rows in a leaf.
    max_features : float
        Share of the columns considered for each split.
    max_bins : int
        Bins of a column.
    l2_regularization : float
        Added to the number of rows of a leaf in the mean that is its output.
    leaf_refinement : bool
        Whether each leaf gets its own location at (sigma_j, tau_j) instead of the common step.
    n_iter_no_change : int or None
        Stages without a better validation score after which to stop; None never stops early. The
        stages up to the best score are kept.
    validation_fraction : float
        Share of the rows held out for the validation score.
    tol : float
        Decrease of the score that counts as better.
    interval_cv : int or None
        Folds for the errors that `predict_quantile` and `predict_interval` are based on: each fold's
        come from a model fitted to the others. None takes the errors of the validation rows, or of
        the training rows when there are none; training errors are too small by as much as the model
        overfits.
    warm_start : bool
        Whether a second fit adds stages to the first.
    random_state : int, RandomState or None
        Of the validation split, the subsamples and the learners.
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
    With sigma inferred the fit does not depend on the units of y. With sigma fixed it does, and the
    quadratic zone of the loss keeps its width `kappa * sigma` in the units of y: stages whose
    residuals all lie in it are least-squares ones.

    With more than 5000 rows the last Newton step of each stage is taken without a pass to verify it.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = np.sign(X[:, 0]) + rng.exponential(size=400)
    >>> model = QuantileHuberBoostingRegressor(n_estimators=50, random_state=0).fit(X, y)
    >>> bool(model.tau_ > 0.7)
    True
    >>> model.predict_interval(X[:2], coverage=[0.8, 0.95]).shape
    (2, 2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "kappa": [Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, 0, 1, closed="neither"), None],
        "sigma": [Interval(Real, 0, None, closed="neither"), None],
        "tau_bounds": ["array-like"],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "max_features": [Interval(Real, 0, 1, closed="right")],
        "max_bins": [Interval(Integral, 2, 65535, closed="both")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "leaf_refinement": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "interval_cv": [Interval(Integral, 2, None, closed="left"), None],
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
        sigma: float | None = None,
        tau_bounds: tuple[float, float] = (1e-3, 1.0 - 1e-3),
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        subsample: float = 1.0,
        max_depth: int | None = 3,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int = 20,
        max_features: float = 1.0,
        max_bins: int = 255,
        l2_regularization: float = 0.0,
        leaf_refinement: bool = False,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.1,
        tol: float = 1e-4,
        interval_cv: int | None = None,
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
            Case weights: a weight of two is a row given twice.
        """
        exog, endog = self._checked_rows(X, reset=not self._continues(), y=y, y_numeric=True)
        endog = np.asarray(endog, dtype=np.float64)
        exog, endog, weights = _weighted_rows(exog, endog, sample_weight)
        self._begin()
        rng = check_random_state(self._seed)
        held_out = [None, None, None]
        if self.n_iter_no_change is not None:
            exog, endog, weights, *held_out = self._hold_out(exog, endog, weights, rng)
        self._run(exog, endog, weights, held_out, rng)
        self._fit_errors(exog, endog, weights, held_out)
        return self

    def _continues(self) -> bool:
        return bool(self.warm_start and hasattr(self, "_path"))

    def _begin(self) -> None:
        """Forget an earlier fit unless this one continues it."""
        if self._continues():
            if self.n_estimators < self.n_estimators_:
                raise ValueError(
                    f"n_estimators={self.n_estimators} must be at least the "
                    f"{self.n_estimators_} stages already fitted when warm_start=True"
                )
            return
        for name in ("_path", "_model"):
            if hasattr(self, name):
                delattr(self, name)
        self._seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _hold_out(self, exog: Any, endog: Any, weights: Any, rng: Any) -> list[Any]:
        """Return training and validation rows, responses and weights."""
        options = {"test_size": self.validation_fraction, "random_state": rng}
        if weights is None:
            x_in, x_out, y_in, y_out = train_test_split(exog, endog, **options)
            return [x_in, y_in, None, x_out, y_out, None]
        x_in, x_out, y_in, y_out, w_in, w_out = train_test_split(exog, endog, weights, **options)
        return [x_in, y_in, w_in, x_out, y_out, w_out]

    def _run(self, exog: Any, endog: Any, weights: Any, held_out: Any, rng: Any) -> None:
        """Run the stages still missing, and set the attributes."""
        task = task_of(self.kappa, self.tau, self.sigma, self.tau_bounds)
        before = self._model if self._continues() else None
        earlier = self._path if self._continues() else None
        start = self._start(exog, endog, weights, task)
        if start is None:
            self._set_constant(endog, weights)
            return
        step, noise = start
        base = self.init_ if before is None else before.predict(exog)
        unit = noise.sigma if task.sigma is None else task.sigma
        if task.sigma is None:
            unit = float(2.0 ** np.round(np.log2(unit)))
        design = np.empty((endog.size, 2), order="F")
        design[:, 1] = (endog - base) / unit
        validation = self._validation(held_out, before, unit)
        learners = self._learners(exog, weights, held_out[0], before, rng)
        missing = self.n_estimators - (0 if earlier is None else earlier.tau.size)
        patience = None
        if self.n_iter_no_change is not None:
            patience = Patience(self.n_iter_no_change, self.tol)
        with progress(missing, bool(self.verbose)) as after_stage:
            path = boost(
                learners,
                design,
                weights,
                Task(task.kappa, task.tau, task.sigma and 1.0, task.tau_bounds),
                (step / unit, Noise(noise.sigma / unit, noise.tau)),
                n_stages=missing,
                learning_rate=self.learning_rate,
                unit=unit,
                leaf_refinement=self.leaf_refinement,
                validation=validation,
                patience=patience,
                after_stage=after_stage,
            )
        path = path if earlier is None else earlier.followed_by(path)
        if path.validation_score is not None and path.tau.size:
            path = path.first(int(np.argmin(path.validation_score)) + 1)
        self._residuals = design[:, 1] * unit
        self._set_path(path, noise, learners.model(self.init_, path.tau.size))

    def _start(self, exog: Any, endog: Any, weights: Any, task: Task) -> tuple[float, Noise] | None:
        """Return step and noise to start from, the constant set; None when y is constant."""
        if self._continues() and self._path.tau.size:
            path = self._path
            return float(path.step[-1]), Noise(float(path.sigma[-1]), float(path.tau[-1]))
        found = fit_location(endog, weights, task)
        if found is None:
            return None
        self.init_ = found[0]
        return 0.0, found[1]

    def _set_constant(self, endog: FloatArray, weights: FloatArray | None) -> None:
        """Set the attributes of a model without stages: the response has one value."""
        self.init_ = float(np.average(endog, weights=weights))
        empty = np.empty(0)
        score = empty if self.n_iter_no_change is not None else None
        learners = SklearnLearners(None, None, None, None, subsample=1.0, rng=None)
        noise = Noise(0.0 if self.sigma is None else self.sigma, self.tau or 0.5)
        self._residuals = endog - self.init_
        path = Path(empty, empty, empty, empty, score)
        self._set_path(path, noise, learners.model(self.init_, 0))

    def _set_path(self, path: Path, noise: Noise, model: Any) -> None:
        self._path, self._model = path, model
        self.n_estimators_ = int(path.tau.size)
        self.tau_path_, self.sigma_path_, self.step_sizes_ = path.tau, path.sigma, path.step
        self.tau_ = float(path.tau[-1]) if path.tau.size else noise.tau
        self.sigma_ = float(path.sigma[-1]) if path.tau.size else noise.sigma
        self.train_score_ = path.train_score
        for name in ("validation_score_", "booster_", "estimators_"):
            if hasattr(self, name):
                delattr(self, name)
        if path.validation_score is not None:
            self.validation_score_ = path.validation_score
        if self.estimator is None:
            self.booster_ = getattr(model, "booster", None)
        else:
            self.estimators_ = model.learners

    def _validation(self, held_out: Any, before: Any, unit: float) -> Validation | None:
        exog, endog, weights = held_out
        if exog is None:
            return None
        base = self.init_ if before is None else before.predict(exog)
        return Validation((endog - base) / unit, weights)

    def _learners(
        self, exog: Any, weights: Any, validation: Any, before: Any, rng: Any
    ) -> Learners:
        """Return the base learners on the training rows."""
        if self.estimator is not None:
            if not is_regressor(self.estimator):
                raise ValueError(f"estimator must be a regressor, got {self.estimator!r}")
            return SklearnLearners(
                self.estimator,
                exog,
                weights,
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
            subsample=float(self.subsample),
            n_threads=effective_n_jobs(self.n_jobs),
            seed=int(rng.randint(np.iinfo(np.int32).max)),
        )
        return HistogramTrees(options, exog, weights, validation, before=before)

    def _fit_errors(self, exog: Any, endog: Any, weights: Any, held_out: Any) -> None:
        """Fit the law of the errors to out-of-fold, validation or training residuals."""
        residuals, use = self._residuals, weights
        del self._residuals
        if self.interval_cv is not None and endog.size >= self.interval_cv:
            residuals = self._out_of_fold(exog, endog, weights)
        elif held_out[0] is not None:
            residuals, use = held_out[1] - self._model.predict(held_out[0]), held_out[2]
        low, high = self.tau_bounds
        self.error_law_ = fit_errors(residuals, use, self.kappa, (low, high))

    def _out_of_fold(self, exog: Any, endog: FloatArray, weights: Any) -> FloatArray:
        """Return each row's error under a model fitted to the other folds."""
        residuals = np.empty(endog.size)
        folds = KFold(self.interval_cv, shuffle=True, random_state=self._seed)
        for inside, outside in folds.split(exog):
            model = clone(self).set_params(
                n_estimators=max(self.n_estimators_, 1),
                n_iter_no_change=None,
                interval_cv=None,
                warm_start=False,
                verbose=0,
            )
            weight = None if weights is None else weights[inside]
            model.fit(exog[inside], endog[inside], sample_weight=weight)
            residuals[outside] = endog[outside] - model._model.predict(exog[outside])
        return residuals

    def predict(self, X: Any) -> FloatArray:
        """Return the location of the response: the mode of the fitted law.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, p)
            Features.
        """
        check_is_fitted(self)
        predicted: FloatArray = self._model.predict(self._checked_rows(X))
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
            total += self._model.stage(exog, index)
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
        importances: FloatArray = self._model.importances()
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


def _weighted_rows(
    exog: Any, endog: FloatArray, sample_weight: Any
) -> tuple[Any, FloatArray, FloatArray | None]:
    """Return the rows with positive weight, and their weights."""
    if sample_weight is None:
        return exog, endog, None
    weights = _check_sample_weight(sample_weight, exog, dtype=np.float64)
    if bool((weights < 0.0).any()):
        raise DataError(
            f"sample_weight must not be negative, got {int((weights < 0.0).sum())} below zero"
        )
    keep = weights > 0.0
    if not keep.any():
        raise DataError("all sample weights are zero: there is nothing to fit")
    if not keep.all():
        exog, endog, weights = exog[keep], endog[keep], weights[keep]
    return exog, endog, weights
