"""Data for the tests of the distributional model: scale and asymmetry that depend on covariates."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import special

from qhreg import quantile_huber
from qhreg.distributional.likelihood import Regression
from qhreg.specification.observations import Observations

TRUTH = np.array([1.0, 2.0, 0.3, 0.5, -0.5, 0.6])
"""Coefficients of location, log sigma and logit tau, an intercept and a slope each."""


def regression(endog, location, scale, tau, kappa, *, offset=None, weights=None, **known):
    """Return the rows of a distributional model from arrays."""
    rows = Observations(location, endog, offset, weights=weights)
    return Regression(rows, scale, tau, kappa, **known)


def changed(data: Regression, **arrays) -> Regression:
    """Return the same rows with other arrays."""
    names = ("endog", "location", "scale", "tau", "kappa", "weights", "log_sigma", "logit_tau")
    own = {name: getattr(data, name) for name in names}
    return regression(**{**own, "offset": data.observations.offset, **arrays})


def drawn(n: int, kappa: float, seed: int, weights: bool = False) -> Regression:
    """Return rows from the model with TRUTH, each predictor with a regressor of its own."""
    rng = np.random.default_rng(seed)
    x, z, w = (np.column_stack([np.ones(n), rng.normal(size=n)]) for _ in range(3))
    tau, sigma = special.expit(w @ TRUTH[4:]), np.exp(z @ TRUTH[2:4])
    noise = quantile_huber.rvs(tau, kappa, size=n, random_state=rng)
    case = rng.integers(1, 4, n).astype(float) if weights else None
    return regression(x @ TRUTH[:2] + sigma * noise, x, z, w, kappa, weights=case)


def drawn_frame(n: int = 300, kappa: float = 1.0, seed: int = 1) -> pd.DataFrame:
    """Return the same as a frame with labelled rows, a factor, groups, weights and an offset."""
    data = drawn(n, kappa, seed)
    rng = np.random.default_rng(seed + 1000)
    return pd.DataFrame(
        {
            "y": data.endog,
            "x": data.location[:, 1],
            "z": data.scale[:, 1],
            "w": data.tau[:, 1],
            "g": rng.choice(["a", "b", "c"], n),
            "firm": rng.integers(0, 30, n),
            "count": rng.integers(1, 4, n).astype(float),
            "o": rng.normal(size=n),
        },
        index=[f"row{i}" for i in range(n)],
    )


def loglike_by_definition(params: np.ndarray, data: Regression) -> float:
    """The log-likelihood from the density's own definition, with the normal distribution function."""
    kappa = data.kappa
    beta, gamma, delta = np.split(params, np.cumsum(data.sizes)[:2])
    sigma = np.exp(data.log_sigma + data.scale @ gamma)
    tau = 1.0 / (1.0 + np.exp(-(data.logit_tau + data.tau @ delta)))
    offset = 0.0 if data.observations.offset is None else data.observations.offset
    u = (data.endog - offset - data.location @ beta) / sigma
    loss = np.where(
        u < 0.0, -tau * u - kappa * tau**2 / 2, (1 - tau) * u - kappa * (1 - tau) ** 2 / 2
    )
    inside = (u >= -kappa * tau) & (u <= kappa * (1 - tau))
    if kappa > 0.0:
        loss = np.where(inside, u**2 / (2 * kappa), loss)
    root = np.sqrt(kappa)
    c = np.exp(-kappa * tau**2 / 2) / tau + np.exp(-kappa * (1 - tau) ** 2 / 2) / (1 - tau)
    c = c + np.sqrt(2 * np.pi) * root * (special.ndtr((1 - tau) * root) - special.ndtr(-tau * root))
    rows = -np.log(c) - np.log(sigma) - loss
    return float(rows.sum() if data.weights is None else rows @ data.weights)
