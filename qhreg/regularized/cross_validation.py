"""The size of the penalty by cross-validation of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import BoolArray, FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.fitstatistics import loglike_obs
from qhreg.progress import with_progress
from qhreg.regularized.fit import regularized_path
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import Parameters

__all__ = ["CrossValidation", "cross_validate"]


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
    **options
        Of :func:`qhreg.regularized.solve_regularized`, without weights and offset.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.specification.observations import Observations
    >>> from qhreg.regularized.cross_validation import cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.ones(150), rng.normal(size=(150, 3))])
    >>> y = X[:, 1] + rng.laplace(size=150)
    >>> made = cross_validate(Observations(X, y), [1.0, 0.02], tau=0.5)
    >>> made.best_alpha, made.losses.shape
    (0.02, (5, 2))
    """
    weight = observations.case_weights
    if weight is not None:  # a fold needs rows that count
        observations = _rows(observations, weight > 0.0)
    n = observations.endog.size
    if isinstance(n_folds, bool) or int(n_folds) != n_folds or not 2 <= n_folds <= n:
        raise DomainError(f"n_folds must be a whole number from 2 to {n}, got {n_folds!r}")
    sizes = np.sort(np.ravel(np.asarray(alphas, dtype=np.float64)))[::-1]
    fold = np.random.default_rng(rng).permutation(n) % int(n_folds)
    losses = np.empty((int(n_folds), sizes.size))
    for number in with_progress(range(int(n_folds)), progress, "cross-validation"):
        inside, outside = (_rows(observations, part) for part in (fold != number, fold == number))
        try:
            made = regularized_path(
                inside.exog,
                inside.endog,
                sizes,
                weights=inside.case_weights,
                offset=inside.offset,
                **options,
            )
        except DataError as error:
            raise DataError(f"with fold {number + 1} of {n_folds} left out: {error}") from error
        weight = outside.case_weights
        total = float(outside.endog.size if weight is None else weight.sum())
        for place, fit in enumerate(made):
            point = Parameters(fit.beta, fit.sigma, fit.tau, fit.kappa)
            losses[number, place] = -float(loglike_obs(outside, point).sum()) / total
    return CrossValidation(sizes, losses)


def _rows(observations: Observations, chosen: BoolArray) -> Observations:
    """Return the chosen rows."""
    obs = observations
    extras = (obs.offset, obs.freq_weights, obs.weights)
    kept = (None if extra is None else extra[chosen] for extra in extras)
    return Observations(obs.exog[chosen], obs.endog[chosen], *kept)
