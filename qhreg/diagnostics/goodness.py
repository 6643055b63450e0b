r"""Goodness of fit: whether the fitted law is the law of the residuals.

The Kolmogorov-Smirnov and Anderson-Darling statistics of the fitted distribution function at the
responses. The parameters are estimated, which makes both much smaller than their textbook laws
say: the p-values here come from samples of the fitted model, each refitted (`simulate_fits`), and so do
the envelopes of the plots.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError, QhregError
from qhreg.family.distribution import quantile_huber
from qhreg.progress import with_progress


def expanded(data: Any) -> Any:
    """Return the model with rows repeated as often as they were observed.

    Parameters
    ----------
    data : ModelData or DistributionalData
        Its frequency weights are whole, as the model checks. Sampling weights describe no law of the
        responses that could be simulated.
    """
    obs = data.observations
    if obs.weights is not None:
        raise DataError("the model cannot be simulated with sampling weights")
    if obs.freq_weights is None:
        return data
    counts = obs.freq_weights.astype(np.intp)
    return data.take(np.repeat(np.arange(counts.size), counts), apart=True)


def simulate_fits(
    data: Any,
    solution: Any,
    n_samples: int,
    *,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Return samples from the fitted model, one after another, with refits by the model's settings.

    Parameters
    ----------
    data : ModelData or DistributionalData
        The model.
    solution : Solution or DistributionalSolution
        Its fit: the law to draw from, and where each refit starts.
    n_samples : int
        Number of samples; a sample that cannot be fitted is left out, and it is an error if none can.
    rng : int, Generator or None
        Source of randomness, as in ``numpy.random.default_rng``.
    progress : bool
        Whether to show a progress bar.

    Yields
    ------
    ModelData or DistributionalData
        The model of a sample.
    Solution or DistributionalSolution
        Its fit.

    Notes
    -----
    Each sample is fitted by the criterion of the fit, with its p.
    """
    full = expanded(data).compared_with(solution)
    obs, law = full.observations, full.law(solution)
    generator = np.random.default_rng(rng)
    fitted = False
    for _ in with_progress(range(n_samples), progress, "samples from the fit"):
        noise = quantile_huber.rvs(
            law.tau, law.kappa, size=law.location.size, random_state=generator
        )
        sample = replace(full, observations=replace(obs, endog=law.location + law.sigma * noise))
        with warnings.catch_warnings():
            # a sample may end on a bound: that is part of what is simulated
            warnings.simplefilter("ignore")
            try:
                fit = sample.fit(solution, search=None)
            except QhregError:
                continue
        fitted = True
        yield sample, fit
    if not fitted:
        raise DataError("no sample from the fitted model could be fitted")


def anderson_darling(u: Any, tau: float, kappa: float) -> float:
    r"""Return the weighted square distance of the empirical from the fitted distribution function.

    Parameters
    ----------
    u : array_like, shape (n,)
        Standardised residuals.
    tau, kappa : float
        The fitted law.

    Notes
    -----
    :math:`A^2 = -n - \frac1n \sum_i (2i-1)\big(\log F(u_{(i)}) + \log(1 - F(u_{(n+1-i)}))\big)`.

    Examples
    --------
    >>> from qhreg.diagnostics.goodness import anderson_darling
    >>> round(anderson_darling([0.0], 0.5, 1.0), 6)  # 2 log 2 - 1
    0.386294
    """
    values = np.sort(np.asarray(u, dtype=np.float64))
    n = values.size
    left = quantile_huber.logcdf(values, tau, kappa)
    right = quantile_huber.logsf(values[::-1], tau, kappa)
    return float(-n - ((2.0 * np.arange(1, n + 1) - 1.0) @ (left + right)) / n)


@dataclass(frozen=True, repr=False)
class GoodnessOfFit:
    """Distances between residuals and fitted law, and how unusual they are.

    Attributes
    ----------
    ks, ad : float
        Kolmogorov-Smirnov and Anderson-Darling statistics.
    ks_pvalue, ad_pvalue : float
        Share of refitted samples from the fitted model that are at least as far, the data counted
        as one of them.
    nobs : int
        Number of residuals.
    n_boot : int
        Number of samples that were fitted.
    ks_samples, ad_samples : ndarray, shape (n_boot,)
        The statistics of the samples.
    """

    ks: float
    ad: float
    ks_pvalue: float
    ad_pvalue: float
    nobs: int
    n_boot: int
    ks_samples: FloatArray
    ad_samples: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """Return the statistics, their 95 % critical values and p-values, one row for each test."""
        return pd.DataFrame(
            {
                "statistic": [self.ks, self.ad],
                "critical_95": np.quantile([self.ks_samples, self.ad_samples], 0.95, axis=1),
                "pvalue": [self.ks_pvalue, self.ad_pvalue],
            },
            index=["Kolmogorov-Smirnov", "Anderson-Darling"],
        )

    def __repr__(self) -> str:
        return (
            f"Goodness of fit ({self.nobs} residuals, {self.n_boot} samples from the fitted model)\n"
            f"  Kolmogorov-Smirnov  D  = {self.ks:.4f}, p = {self.ks_pvalue:.3f}\n"
            f"  Anderson-Darling    A2 = {self.ad:.4f}, p = {self.ad_pvalue:.3f}"
        )

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(float_format="{:.4f}".format)
        return html


def goodness_of_fit(
    data: Any,
    solution: Any,
    *,
    n_boot: int = 199,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
) -> GoodnessOfFit:
    """Return both tests of the hypothesis that the fitted family is the law of the residuals.

    Parameters
    ----------
    data : ModelData or DistributionalData
        The model. Frequency weights must be whole; sampling weights are not accepted.
    solution : Solution or DistributionalSolution
        Its fit.
    n_boot : int
        Samples from the fitted model; each is refitted with what the model estimates.
    rng : int, Generator or None
        Source of randomness, as in ``numpy.random.default_rng``.
    progress : bool
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.diagnostics.goodness import goodness_of_fit
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.solver import solve
    >>> X, y = np.ones((200, 1)), np.random.default_rng(0).laplace(size=200)
    >>> data = QuantileHuberMLE(y, X, kappa=0.0).model_data()
    >>> test = goodness_of_fit(data, solve(X, y, kappa=0.0), n_boot=19)
    >>> test.n_boot, bool(test.ad_pvalue > 0.05)
    (19, True)
    """
    if n_boot < 1:
        raise DomainError(f"n_boot must be at least 1, got {n_boot!r}")
    fits = simulate_fits(data, solution, n_boot, rng=rng, progress=progress)
    u, *law = expanded(data).standardized(solution)
    observed = _distances(u, *law)
    samples = np.array([_distances(*sample.standardized(fit)) for sample, fit in fits])
    further = np.count_nonzero(samples >= observed, axis=0)
    ks_pvalue, ad_pvalue = ((1.0 + further) / (1.0 + len(samples))).tolist()
    return GoodnessOfFit(*observed, ks_pvalue, ad_pvalue, u.size, len(samples), *samples.T)


def _distances(u: FloatArray, tau: float, kappa: float) -> tuple[float, float]:
    """Return the statistics of Kolmogorov and Smirnov, and of Anderson and Darling."""
    law = quantile_huber(tau, kappa)
    ks = stats.ks_1samp(u, law.cdf, method="asymp").statistic
    return float(ks), anderson_darling(u, tau, kappa)
