"""Tools that take the trees: SHAP values, ONNX."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

from qhreg import QuantileHuberBoostingRegressor

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the tools


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 8, 400)
    X[::5, 2] = np.nan
    y = np.sin(X[:, 0]) + X[:, 1] + np.isnan(X[:, 2]) + X[:, 3] % 3 + rng.exponential(size=400)
    options = {"categorical_features": [3], "scale": "boosted", "random_state": 0}
    return X, QuantileHuberBoostingRegressor(**options).fit(X, y)


@pytest.mark.parametrize("trees", ["booster_", "spread_booster_"])
def test_shap_values_add_up_to_what_the_trees_predict(fitted, trees):
    shap = pytest.importorskip("shap")
    X, fit = fitted
    booster = getattr(fit, trees)
    explainer = shap.TreeExplainer(booster)
    values = explainer.shap_values(X)
    assert values.shape == X.shape
    total = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, booster.predict(X), atol=1e-6)


@pytest.mark.parametrize("trees", ["booster_", "spread_booster_"])
def test_onnx_predicts_what_the_trees_predict(fitted, trees):
    onnxmltools = pytest.importorskip("onnxmltools")
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnxmltools.convert.common.data_types import FloatTensorType

    X, fit = fitted
    booster = getattr(fit, trees)
    types = [("X", FloatTensorType([None, X.shape[1]]))]
    graph = onnxmltools.convert_lightgbm(booster, initial_types=types).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (predicted,) = session.run(None, {"X": X})
    np.testing.assert_allclose(predicted.ravel(), booster.predict(X), atol=1e-4)
