"""Regression data with quantile Huber noise, made with numpy alone."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Regression(NamedTuple):
    """A design with its response and the coefficients that made it."""

    X: FloatArray
    y: FloatArray
    beta: FloatArray


def quantile_huber_noise(n: int, tau: float, kappa: float, rng: np.random.Generator) -> FloatArray:
    """Return n draws from the density exp(-rho(u)) / c(tau).

    The density has an exponential tail of rate tau left of -kappa tau, one of rate 1 - tau right of
    kappa (1 - tau), and a piece of the normal density with variance kappa between. A draw picks its
    piece by mass; in the normal piece candidates are rejected, from the uniform density when
    the piece is narrow and from the normal one when it is wide.
    """
    low, high = -kappa * tau, kappa * (1.0 - tau)
    left = math.exp(-0.5 * kappa * tau**2) / tau
    right = math.exp(-0.5 * kappa * (1.0 - tau) ** 2) / (1.0 - tau)
    root = math.sqrt(0.5 * kappa)
    middle = math.sqrt(0.5 * math.pi * kappa) * (
        math.erf(tau * root) + math.erf((1.0 - tau) * root)
    )
    n_left, n_middle, n_right = rng.multinomial(
        n, np.array([left, middle, right]) / (left + middle + right)
    )
    draws = np.concatenate(
        [
            low - rng.exponential(1.0 / tau, n_left),
            _truncated_normal(n_middle, low, high, math.sqrt(kappa), rng),
            high + rng.exponential(1.0 / (1.0 - tau), n_right),
        ]
    )
    rng.shuffle(draws)
    return draws


def _truncated_normal(
    n: int, low: float, high: float, scale: float, rng: np.random.Generator
) -> FloatArray:
    """Return n draws from the normal density of the given scale, kept to [low, high]."""
    accepted = [np.empty(0)]
    missing = n
    while missing > 0:
        size = 2 * missing + 16
        if high - low < 2.0 * scale:
            candidates = rng.uniform(low, high, size)
            keep = rng.random(size) < np.exp(-0.5 * (candidates / scale) ** 2)
        else:
            candidates = scale * rng.standard_normal(size)
            keep = (candidates > low) & (candidates < high)
        accepted.append(candidates[keep][:missing])
        missing -= len(accepted[-1])
    return np.concatenate(accepted)


def make_regression(
    n: int,
    p: int,
    kappa: float = 1.0,
    tau: float = 0.3,
    seed: int = 0,
    sigma: float = 1.0,
    order: Literal["F", "C"] = "F",
) -> Regression:
    """Return y = X beta + sigma * noise with p columns in X, the first one constant.

    The other columns are standard normal and the coefficients alternate between 1 and -1/2.
    """
    rng = np.random.default_rng(seed)
    X = np.empty((n, p), order=order)
    X[:, 0] = 1.0
    for j in range(1, p):
        X[:, j] = rng.standard_normal(n)
    beta = np.where(np.arange(p) % 2 == 0, 1.0, -0.5)
    y = X @ beta + sigma * quantile_huber_noise(n, tau, kappa, rng)
    return Regression(X, y, beta)
