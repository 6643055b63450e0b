r"""Score tests: of adding columns, and of any parameter beside those that were estimated.

With the scores :math:`s_{2i}` of what is tested and :math:`s_{1i}` of the estimated parameters, both at
the fit under the hypothesis, the statistic is :math:`S'V^{-1}S` with S the sum of the effective scores

.. math:: e_i = s_{2i} - B_{21} B_{11}^{-1} s_{1i} .

From the expected information :math:`V = B_{22} - B_{21}B_{11}^{-1}B_{12}`; the robust form has the bread
of the sandwich as B and :math:`V = \sum_i e_i e_i'`, summed over clusters or lags where rows depend on
each other [1]_.

References
----------
.. [1] D. D. Boos (1992), On generalized score tests, The American Statistician 46, 327-333.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.information import expected_information
from qhreg.covariance.parts import Parts, covariance_parts
from qhreg.covariance.sandwich import group_codes, sandwich
from qhreg.covariance.scores import Point, score_obs
from qhreg.exceptions import DataError
from qhreg.inference.hypothesis_tests import HypothesisTest, chi2_test
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData

__all__ = ["effective_variance", "score_test"]


def effective_variance(
    effective: FloatArray,
    parts: Parts,
    *,
    groups: Any = None,
    maxlags: int | None = None,
    kernel: Any = None,
    use_correction: bool | None = None,
) -> FloatArray:
    """Return the variance of the sum of effective scores, shape (r, r).

    Parameters
    ----------
    effective : ndarray, shape (n, r)
        Effective scores of one observation of each row.
    parts : Parts
        Of the fit under the hypothesis.
    groups, maxlags, kernel, use_correction
        How rows depend on each other, as in :func:`qhreg.covariance.sandwich.sandwich`.
    """
    weights = parts.observations.case_weights
    codes = None if groups is None else group_codes(groups, effective.shape[0], weights)
    return sandwich(
        effective,
        None,
        nobs=parts.nobs,
        df_resid=parts.df_resid,
        freq=parts.freq,
        groups=codes,
        maxlags=maxlags,
        kernel=kernel or "bartlett",
        use_correction=use_correction,
    )


def _cross_curvature(extra: FloatArray, parts: Parts) -> FloatArray:
    """Return the mixed derivatives of extra coefficients and the estimated parameters, shape (q, r).

    Those of the criterion at the fit of the bread, in its coordinates.
    """
    obs, wide = parts.observations, parts.wide
    u = obs.residuals(wide.beta) / wide.sigma
    inside = (u >= -wide.kappa * wide.tau) & (u <= wide.kappa * (1.0 - wide.tau))
    psi = np.clip(u / wide.kappa, -wide.tau, 1.0 - wide.tau)
    derivatives = {
        "sigma": psi + u * inside / wide.kappa,
        "tau": wide.tau * (1.0 - wide.tau) * ~inside,
        "kappa": psi * inside,
    }
    weights = np.ones(u.size) if obs.case_weights is None else obs.case_weights
    weighted = extra * (weights / wide.sigma)[:, None]
    rows = [(obs.exog * (inside / (wide.kappa * wide.sigma))[:, None]).T @ weighted]
    rows += [(derivatives[name] @ weighted)[None] for name in parts.extras]
    return np.vstack(rows)


def score_test(
    data: ModelData,
    solution: Solution,
    exog_extra: Any,
    *,
    robust: bool = True,
    held: Sequence[str] = (),
    **dependence: Any,
) -> HypothesisTest:
    r"""Return the score test of adding columns to the model, without fitting the larger one.

    Parameters
    ----------
    data : ModelData
        The model without the extra columns.
    solution : Solution
        Its fit.
    exog_extra : array_like, shape (n,) or (n, r)
        The columns to add.
    robust : bool
        Whether the variance of the score comes from the scores themselves instead of the expected
        information. Sampling weights need it.
    held : sequence of str
        Estimated parameters to treat as known, such as a kappa at a limit.
    **dependence
        Of :func:`effective_variance`: groups or lags, where robust.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.inference.score_tests import score_test
    >>> from qhreg.specification.model_data import fit_model, model_data
    >>> x = np.linspace(-1.0, 1.0, 300)
    >>> data = model_data(np.ones((300, 1)), x + np.sin(50.0 * x))
    >>> bool(score_test(data, fit_model(data), x).pvalue < 1e-6)
    True
    """
    obs = data.observations
    extra = np.asarray(exog_extra, dtype=np.float64)
    extra = extra[:, None] if extra.ndim == 1 else extra
    if extra.ndim != 2 or extra.shape[0] != obs.endog.size:
        raise DataError(f"exog_extra must have {obs.endog.size} rows, got shape {extra.shape}")
    if not np.isfinite(extra).all():
        raise DataError("exog_extra contains NaN or infinite values")
    r = extra.shape[1]
    basis = _independent(obs.exog)
    both = np.column_stack([basis, extra])
    point = Point(np.zeros(both.shape[1]), solution.sigma, solution.tau, solution.kappa)
    location = obs.location(solution.beta)
    every = score_obs(both, obs.endog, point, free=("beta",), weights=obs.weights, offset=location)
    freq = np.ones(obs.endog.size) if obs.freq_weights is None else obs.freq_weights
    scores = every[:, -r:]
    if robust:
        parts = covariance_parts(data, solution, held)
        carry = parts.inverse @ _cross_curvature(extra, parts)
        effective = scores - parts.scores @ carry
        # zero at the fit but at kappa = 0, where a row that it interpolates has no slope of its own
        total = freq @ (scores - parts.scores[:, : data.space.k] @ carry[: data.space.k])
        independent = effective_variance(effective, parts)
        variance = effective_variance(effective, parts, **dependence)
    else:
        variance, carry = _expected_variance(data, solution, both, r, held)
        total = freq @ (scores - every[:, :-r] @ carry[: basis.shape[1]])
        independent = variance
    size = np.sqrt(freq @ scores**2)
    if not _least_share(independent, size) > 1e-9:
        raise DataError("exog_extra has columns that depend linearly on each other or on exog")
    if not _least_share(variance, np.sqrt(variance.diagonal())) > 1e-9:
        raise DataError(
            f"{r} added columns have no variance within so few clusters or so many lags: test fewer "
            "at once"
        )
    statistic = float(total @ np.linalg.solve(variance, total))
    name = "robust score test" if robust else "score test"
    return chi2_test(name, f"{r} added column{'s' if r > 1 else ''}", statistic, r)


def _expected_variance(
    data: ModelData, solution: Solution, both: FloatArray, r: int, held: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return the variance of the score of the last r columns by the expected information, and carry."""
    known = (*held, "tau") if solution.tau_at_bound else tuple(held)
    free = tuple(name for name in data.space.free if name not in known)
    info = expected_information(
        both,
        solution.sigma,
        solution.tau,
        solution.kappa,
        weights=data.observations.case_weights,
        free=tuple(dict.fromkeys(("beta", *free))),
    )
    tested = np.zeros(info.shape[0], dtype=bool)
    tested[both.shape[1] - r : both.shape[1]] = True
    cross, inner = info[np.ix_(~tested, tested)], info[np.ix_(~tested, ~tested)]
    size = np.sqrt(np.maximum(inner.diagonal(), 1e-300))[:, None]
    carry = np.linalg.pinv(inner / size / size.T, hermitian=True) @ (cross / size) / size
    variance: FloatArray = info[np.ix_(tested, tested)] - cross.T @ carry
    return variance, carry


def _independent(exog: FloatArray) -> FloatArray:
    """Return orthonormal columns with the span of exog, whatever the units of its columns."""
    size = np.abs(exog).max(axis=0, initial=0.0)
    left, values, _ = np.linalg.svd(exog / np.where(size > 0.0, size, 1.0), full_matrices=False)
    basis: FloatArray = left[:, values > 1e-10 * values.max(initial=0.0)]
    return basis * math.sqrt(exog.shape[0])


def _least_share(variance: FloatArray, size: FloatArray) -> float:
    """Return the least eigenvalue of a covariance in units of the sizes of its scores."""
    if not (size > 0.0).all():
        return 0.0
    return float(np.linalg.eigvalsh(variance / np.outer(size, size))[0])
