"""The behaviour the paper reports, on its four data sets; skipped where they are not at hand."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")

from paper_data import FOLDER, needs_data
from sklearn.ensemble import GradientBoostingRegressor

from qhreg import QuantileHuberBoostingRegressor

SETS = {
    "fires": ("forest_fires.csv", "area", ["month", "day"]),
    "housing": ("boston.csv", "medv", ["chas"]),
    "slump": ("concrete_slump.csv", "strength_28d", ["slump", "flow"]),
    "strength": ("concrete_strength.csv", "strength", []),
}

pytestmark = needs_data


def scaled(values):
    low, high = values.min(axis=0), values.max(axis=0)
    return 2 * (values - low) / (high - low) - 1


def load(name):
    file, target, dropped = SETS[name]
    frame = pd.read_csv(FOLDER / file).drop(columns=dropped)
    y = frame.pop(target).to_numpy(float)
    return scaled(frame.to_numpy(float)), scaled(y)


def noisy_split(name, deviation, positive, seed=0):
    X, y = load(name)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(y.size)
    train, test = rows[: int(0.75 * y.size)], rows[int(0.75 * y.size) :]
    size = np.abs(rng.laplace(scale=deviation / np.sqrt(2), size=train.size))
    sign = np.where(rng.permutation(train.size) < positive * train.size, 1, -1)
    return X[train], y[train] + sign * size, X[test], y[test]


def papers_model(**options):
    """The paper's settings: no shrinkage, sigma = 1, kappa = 0.05, 200 trees."""
    return QuantileHuberBoostingRegressor(
        "paper", sigma=1.0, kappa=0.05, n_estimators=200, learning_rate=1.0, **options
    )


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("sign", [1, -1])
def test_tau_shows_the_sign_of_the_noise_and_then_moves_back_to_one_half(name, sign):
    X, y, _, _ = noisy_split(name, 4.0, 1.0 if sign > 0 else 0.0)
    tau = papers_model().fit(X, y).tau_path_
    away = sign * (tau - 0.5)
    assert away[:5].max() > 0.08
    assert 0.0 < away[-1] < away[:5].max() - 0.03
    smooth = away.reshape(20, 10).mean(axis=1)
    assert np.all(np.diff(smooth) < 0.01)


@pytest.mark.parametrize("name", ["housing", "strength"])
def test_noise_of_both_signs_gives_a_smaller_tau_than_positive_noise(name):
    paths = [
        papers_model().fit(*noisy_split(name, 4.0, share)[:2]).tau_path_[20:60].mean()
        for share in (1.0, 0.5, 0.0)
    ]
    assert paths[0] > paths[1] + 0.03 > paths[2] + 0.06


@pytest.mark.filterwarnings("ignore:no stage was kept")
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("share", [0.75, 0.5])
def test_noise_moves_it_less_than_least_squares_boosting(name, share):
    errors = []
    for seed in range(2):
        X, y, x_test, clean = noisy_split(name, 2.0, share, seed)
        ours = QuantileHuberBoostingRegressor(random_state=seed).fit(X, y)
        peer = GradientBoostingRegressor().fit(X, y)
        found = ours.predict(x_test, which="location"), peer.predict(x_test)
        errors.append([np.mean((each - clean) ** 2) for each in found])
    ours, peer = np.mean(errors, axis=0)
    assert ours < 0.6 * peer


@pytest.mark.filterwarnings("ignore:no stage was kept")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "law"),
    [
        *((name, "laplace") for name in SETS),
        *((name, "normal") for name in SETS if name != "slump"),
        pytest.param(
            "slump",
            "normal",
            marks=pytest.mark.xfail(reason="77 rows, normal noise: 80 % intervals hold about 75 %"),
        ),
    ],
)
def test_default_intervals_cover_what_they_say(name, law):
    X, y = load(name)
    covered = []
    for seed in range(12 if name == "slump" else 6):
        rng = np.random.default_rng(1000 + seed)
        noisy = y + getattr(rng, law)(size=y.size)
        rows = rng.permutation(y.size)
        train, test = rows[: int(0.75 * y.size)], rows[int(0.75 * y.size) :]
        model = QuantileHuberBoostingRegressor(random_state=seed).fit(X[train], noisy[train])
        ends = model.predict_interval(X[test], [0.8, 0.95])
        target = noisy[test][:, None]
        covered.append(((ends[..., 0] <= target) & (target <= ends[..., 1])).mean(axis=0))
    assert np.mean(covered, axis=0) == pytest.approx([0.8, 0.95], abs=0.05)
