"""The boosting regressor as a scikit-learn estimator."""

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from qhreg.boosting import QuantileHuberBoostingRegressor


@parametrize_with_checks(
    [
        QuantileHuberBoostingRegressor(n_estimators=30, sigma=1.0),
        QuantileHuberBoostingRegressor(n_estimators=30),
        QuantileHuberBoostingRegressor(
            n_estimators=10, learning_rate=0.2, min_samples_leaf=1, sigma=1.0
        ),
        QuantileHuberBoostingRegressor(n_estimators=30, sigma=None),
        QuantileHuberBoostingRegressor(
            DecisionTreeRegressor(max_depth=3), sigma=1.0, n_estimators=30
        ),
        QuantileHuberBoostingRegressor(Ridge(solver="cholesky"), n_estimators=10),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
