"""Random regression data for the solver's tests, easy and hard."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from qhreg.solver import solve

FloatArray = npt.NDArray[np.float64]

ml_solve = functools.partial(solve, reml=False, kappa=1.0)
"""The fit by maximum likelihood, which independent solvers are compared with."""


def regression(n: int, p: int, seed: int, *, tau: float = 0.3) -> tuple[FloatArray, FloatArray]:
    """Return X with a constant and y with asymmetric Laplace noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    noise = rng.exponential(1 / (1 - tau), n) - rng.exponential(1 / tau, n)
    return X, X @ rng.standard_normal(p) + 2.0 * noise


def small_sample(seed: int) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    """Return 30 to 200 rows of many kinds of noise, and what to fit to them."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(30, 201)), int(rng.integers(1, 5))
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    noise = [
        rng.laplace(size=n),
        rng.standard_normal(n),
        rng.exponential(size=n) - 0.3 * rng.exponential(size=n),
        rng.standard_t(3, n),
        rng.beta(0.4, 0.5, n),
        np.abs(rng.laplace(size=n)) * np.where(rng.random(n) < rng.random(), 1.0, -1.0),
    ][int(rng.integers(0, 6))]
    y = X @ rng.standard_normal(p) * 2.0 + noise * rng.choice([0.1, 1.0, 10.0])
    kappa = float(rng.choice([0.0, 0.05, 0.3, 1.0, 1.0, 3.0, 8.0]))
    return X, y, {"kappa": kappa, "sigma": None if rng.random() < 0.8 else 1.0}


def _hard_exog(rng: np.random.Generator, n: int, p: int) -> FloatArray:
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    X[:, 1:] *= 10.0 ** rng.integers(-6, 7, p - 1)
    kind = int(rng.integers(0, 9))
    if kind == 0 and p > 2:
        X[:, 2] = 3.0 * X[:, 1] - 1.0
    elif kind == 1 and p > 1:
        X[:, 1] = 1.0
    elif kind == 2 and p > 1:
        X[:, 1] = 2000 + rng.integers(0, 20, n)
    elif kind == 3 and p > 2:
        X[:, 1] = 2000 + rng.integers(0, 20, n)
        X[:, 2] = X[:, 1] ** 2
    elif kind == 4 and p > 1:
        X[:, 1] = 0.0
    elif kind == 5 and p > 1:
        X = X[:, 1:]
    elif kind == 6:
        X = rng.integers(0, 2, X.shape).astype(float)
    return X


def _hard_endog(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    n, p = X.shape
    size = np.abs(X).max(axis=0)
    signal = (X / np.where(size > 0, size, 1.0)) @ rng.standard_normal(p) * 3.0
    y = signal + rng.laplace(size=n)
    kind = int(rng.integers(0, 14))
    if kind == 4:
        y[rng.integers(0, n)] = 1e15
    changed = {
        0: np.round(y),
        1: np.where(rng.random(n) < 0.5, 0.0, y),
        2: y * 1e-200,
        3: y * 1e200,
        5: np.full(n, 3.0),
        6: signal,
        7: signal + rng.exponential(size=n),
        8: np.where(rng.random(n) < 0.95, 0.0, y),
        9: y + 1e9,
        10: np.zeros(n),
        11: signal + rng.standard_cauchy(n) * rng.choice([1.0, 1e6]),
    }
    return changed.get(kind, y)


def hard_case(seed: int) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    """Return hostile data (units, ties, outliers, dependent columns, weights) and what to fit."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 3, 5, 8, 20, 60, 200, 600, 2000, 20000]
    n = int(rng.choice(sizes, p=[0.03, 0.03, 0.04, 0.1, 0.1, 0.16, 0.22, 0.16, 0.1, 0.05, 0.01]))
    X = _hard_exog(rng, n, int(rng.integers(1, 7)))
    y = _hard_endog(rng, X)
    weights = [
        rng.integers(0, 3, n).astype(float),
        rng.exponential(size=n),
        10.0 ** rng.integers(-3, 3, n),
    ][int(rng.integers(0, 3))]
    return (
        X,
        y,
        {
            "weights": weights if rng.random() < 0.5 else None,
            "kappa": float(rng.choice([0, 1e-15, 1e-9, 1e-4, 0.05, 1, 3, 8, 100, 1e6])),
            "tau": None if rng.random() < 0.6 else float(rng.choice([0.01, 0.3, 0.5, 0.9, 0.999])),
            "sigma": None if rng.random() < 0.7 else float(10.0 ** rng.integers(-3, 4)),
            "reml": bool(rng.random() < 0.1),
        },
    )


def medium_sample(seed: int) -> tuple[FloatArray, FloatArray, float]:
    """Return 501 to 5000 rows of noise unlike the model, skewed, piled up or with two peaks; a width."""
    rng = np.random.default_rng(seed)
    n, p = int(np.exp(rng.uniform(np.log(501), np.log(5000)))), int(rng.integers(1, 7))
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    left = rng.random(n) < rng.uniform(0.3, 0.7)
    noise = [
        rng.gamma(rng.choice([0.5, 1.0, 2.0]), size=n),
        rng.lognormal(0.0, rng.choice([0.5, 1.0]), n),
        rng.gumbel(size=n),
        np.round(rng.gamma(rng.choice([0.5, 1.0, 2.0]), 2.0, n)),
        np.where(left, 0.0, rng.gamma(2.0, size=n)),
        rng.random(n),
        rng.beta(0.4, 0.6, n),
        np.where(left, -1.0 - rng.exponential(0.4, n), 1.0 + rng.exponential(0.7, n)),
        rng.standard_normal(n),
        rng.standard_t(3, n),
    ][seed % 10]
    if seed % 20 == 3:
        return X, np.round(np.exp(0.5 + 0.2 * X[:, 1:].sum(axis=1)) + noise), 1.0
    kappa = float(rng.choice([0.0, 0.01, 0.05, 0.25, 1.0, 3.0]))
    return X, X.sum(axis=1) + rng.choice([-1.0, 1.0]) * noise, kappa


def categories(seed):
    """Return regressors that are mostly categories, some rare, an awkward response, and a task."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([30, 60, 120, 300, 700, 1200, 3000]))
    count = int(rng.integers(2, min(12, n // 4)))
    level = rng.choice(count, n, p=rng.dirichlet(np.full(count, rng.choice([0.3, 1, 5]))))
    last = level == np.unique(level)[-1]
    columns = [np.ones(n)] + [(level == each) * 1.0 for each in np.unique(level)[1:]]
    if rng.random() < 0.6:
        columns.append(rng.standard_normal(n))
    if rng.random() < 0.4:
        other = rng.integers(0, 3, n)
        columns += [(other == k) * 1.0 for k in (1, 2)]
        if rng.random() < 0.5:
            columns += [last * (other == k) * 1.0 for k in (1, 2)]
    if rng.random() < 0.4:
        columns.append(last * rng.standard_normal(n))
    exog = np.column_stack([column for column in columns if column.any()])
    kind = rng.choice(["normal", "t2", "round", "count", "zeros", "two", "exp", "wild"])
    noise = {
        "normal": lambda: rng.standard_normal(n),
        "t2": lambda: rng.standard_t(2, n),
        "round": lambda: np.round(rng.standard_normal(n)),
        "count": lambda: rng.poisson(1.0, n) * 1.0,
        "zeros": lambda: np.where(rng.random(n) < 0.5, 0, rng.exponential(size=n)),
        "two": lambda: rng.choice([-1.0, 1.0], n) + 0.01 * rng.standard_normal(n),
        "exp": lambda: rng.exponential(size=n),
        "wild": lambda: rng.standard_cauchy(n),
    }[kind]()
    as_it_is = kind in ("count", "zeros", "round")
    endog = noise if as_it_is else exog @ rng.standard_normal(exog.shape[1]) + noise
    kappa = float(rng.choice([0, 0, 0.05, 0.3, 1, 10]))
    tau = None if rng.random() < 0.5 else float(rng.choice([0.1, 0.3, 0.5, 0.8]))
    sigma = None if rng.random() < 0.8 else float(np.std(endog) + 0.1)
    weights = None if rng.random() < 0.7 else rng.integers(1, 4, n).astype(float)
    return exog, endog, {"kappa": kappa, "tau": tau, "sigma": sigma, "weights": weights}
