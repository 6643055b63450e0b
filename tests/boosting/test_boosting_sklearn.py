"""The boosting regressor as a scikit-learn estimator."""

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from qhreg.boosting import QuantileHuberBoostingRegressor

CHECKED = [
    QuantileHuberBoostingRegressor(n_estimators=30),
    QuantileHuberBoostingRegressor(n_estimators=30, scale="boosted"),
    QuantileHuberBoostingRegressor(n_estimators=30, interval="conformal"),
    QuantileHuberBoostingRegressor(n_estimators=30, cv=None),
    QuantileHuberBoostingRegressor("paper", kappa=0.05, sigma=1.0, n_estimators=30),
    QuantileHuberBoostingRegressor("paper", n_estimators=30),
    QuantileHuberBoostingRegressor("paper", estimator=Ridge(solver="cholesky"), n_estimators=10),
]


@pytest.mark.filterwarnings("ignore:no stage was kept")
@parametrize_with_checks(CHECKED)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
