"""Time Python's ways to fit the same data: least squares, QuantReg, the likelihood under scipy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import statsmodels.api as sm
from scipy import optimize
from threadpoolctl import threadpool_limits

FloatArray = npt.NDArray[np.float64]


def best_of(fit: Callable[[], FloatArray], repeats: int) -> dict[str, Any]:
    """Return the fastest of the repeats on one thread, and the coefficients of the last.

    ``cpu_seconds`` is the smallest processor time: on a busy machine the steadier of the two.
    """
    seconds, cpu = [], []
    with threadpool_limits(limits=1):
        for _ in range(repeats):
            cpu_start, start = time.process_time(), time.perf_counter()
            coef = fit()
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - cpu_start)
    return {
        "seconds": min(seconds),
        "cpu_seconds": min(cpu),
        "all_seconds": seconds,
        "coef": np.asarray(coef),
    }


def time_ols(X: FloatArray, y: FloatArray, repeats: int = 3) -> dict[str, Any]:
    """Time ``OLS(y, X).fit()`` with its defaults, model construction included."""
    return best_of(lambda: sm.OLS(y, X).fit().params, repeats)


def normal_equations(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the solution of X'X b = X'y."""
    return np.linalg.solve(X.T @ X, X.T @ y)


def time_normal_equations(X: FloatArray, y: FloatArray, repeats: int = 5) -> dict[str, Any]:
    """Time one Gram matrix, one X'y and one solve."""
    return best_of(lambda: normal_equations(X, y), repeats)


def time_quantreg(X: FloatArray, y: FloatArray, q: float, repeats: int = 1) -> dict[str, Any]:
    """Time ``QuantReg(y, X).fit(q)`` with its defaults, at one quantile."""
    result = best_of(lambda: sm.QuantReg(y, X).fit(q=q).params, repeats)
    r = y - X @ result["coef"]
    return {**result, "objective": float(r @ (q - (r < 0)))}


def quantile_regressor(X: FloatArray, y: FloatArray, q: float) -> FloatArray:
    """Return the coefficients of scikit-learn's linear programme, solved by HiGHS."""
    from sklearn.linear_model import QuantileRegressor

    model = QuantileRegressor(quantile=q, alpha=0.0, fit_intercept=False, solver="highs")
    return np.asarray(model.fit(X, y).coef_)


def smooth_quantile(X: FloatArray, y: FloatArray, q: float) -> FloatArray:
    """Return the coefficients of skglm's smoothed quantile regression, nearly without its penalty."""
    from skglm.experimental import SmoothQuantileRegressor

    model = SmoothQuantileRegressor(quantile=q, alpha=1e-8).fit(X[:, 1:], y)
    return np.r_[model.intercept_, model.coef_]


def pyfixest_quantreg(X: FloatArray, y: FloatArray, q: float) -> FloatArray:
    """Return the coefficients of pyfixest's interior point method, its standard errors included."""
    import pyfixest

    data = pd.DataFrame(X[:, 1:], columns=[f"x{j}" for j in range(1, X.shape[1])])
    formula = "y ~ " + " + ".join(data.columns)
    fit = pyfixest.quantreg(formula, data.assign(y=y), quantile=q, method="pfn")
    return np.asarray(fit.coef())


def time_lbfgsb(
    X: FloatArray, y: FloatArray, kappa: float, repeats: int = 3, **options: float
) -> dict[str, Any]:
    """Time the joint likelihood in (beta, sigma, tau) under scipy's L-BFGS-B.

    The gradient is analytic, the start is least squares, whose time counts, and the tolerances are
    scipy's unless options such as ``ftol`` or ``gtol`` say otherwise. ``value`` is the negative
    log-likelihood per row at the end, a local minimum: nothing here looks for a better one.
    """
    runs: list[optimize.OptimizeResult] = []

    def fit() -> FloatArray:
        runs.append(minimise_likelihood(X, y, kappa, **options))
        return runs[-1].x[: X.shape[1]] / runs[-1].x[-2]

    result = best_of(fit, repeats)
    x = runs[-1].x
    extra = {"sigma": 1.0 / x[-2], "tau": x[-1], "value": runs[-1].fun, "passes": runs[-1].nfev}
    return {**result, **extra}


def minimise_likelihood(
    X: FloatArray, y: FloatArray, kappa: float, **options: float
) -> optimize.OptimizeResult:
    """Return scipy's result in (beta / sigma, 1 / sigma, tau), kappa > 0."""
    p = X.shape[1]
    start = normal_equations(X, y)
    theta = 1.0 / (0.5 * np.abs(y - X @ start).mean())
    return optimize.minimize(
        mean_negative_loglike,
        np.concatenate([theta * start, [theta, 0.5]]),
        args=(X, y, kappa),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * p + [(1e-8 * theta, None), (1e-3, 1.0 - 1e-3)],
        options=options,
    )


def mean_negative_loglike(
    z: FloatArray, X: FloatArray, y: FloatArray, kappa: float
) -> tuple[float, FloatArray]:
    """Return log c(tau) - log theta + mean rho(theta y - X b), and its gradient in all three."""
    b, theta, tau = z[:-2], float(z[-2]), float(z[-1])
    n = len(y)
    u = theta * y - X @ b
    psi = np.clip(u / kappa, -tau, 1.0 - tau)
    log_c, d_log_c = _log_normaliser(tau, kappa)
    value = log_c - math.log(theta) + (u @ psi - 0.5 * kappa * (psi @ psi)) / n
    gradient = np.empty_like(z)
    gradient[:-2] = -(X.T @ psi) / n
    gradient[-2] = (psi @ y) / n - 1.0 / theta
    gradient[-1] = d_log_c - (u.sum() - kappa * psi.sum()) / n
    return value, gradient


def _log_normaliser(tau: float, kappa: float) -> tuple[float, float]:
    """Return log c and its derivative in tau."""
    left, right = math.exp(-0.5 * kappa * tau**2), math.exp(-0.5 * kappa * (1.0 - tau) ** 2)
    root = math.sqrt(0.5 * kappa)
    middle = math.sqrt(math.pi) * root * (math.erf(tau * root) + math.erf((1.0 - tau) * root))
    c = left / tau + right / (1.0 - tau) + middle
    return math.log(c), (right / (1.0 - tau) ** 2 - left / tau**2) / c
