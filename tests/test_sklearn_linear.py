"""The linear model as scikit-learn estimators."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from qhreg import QuantileHuberRegressor, QuantileHuberRegressorCV


def expected_failures(estimator):
    """The check sets alpha, and a penalised fit needs a positive kappa."""
    return {"check_regressors_train": "alpha > 0 at kappa = 0"} if estimator.kappa == 0.0 else {}


@parametrize_with_checks(
    [
        QuantileHuberRegressor(),
        QuantileHuberRegressor(kappa=0.0, tau=0.5),
        QuantileHuberRegressor(sigma=1.0),
        QuantileHuberRegressor(reml=False, fit_intercept=False),
        QuantileHuberRegressor(alpha=0.1),
        QuantileHuberRegressorCV(alphas=2, cv=3),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.BoundaryWarning")
@pytest.mark.filterwarnings("ignore::qhreg.exceptions.RankWarning")
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
