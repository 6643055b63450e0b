"""Samples from a fitted model, refitted: what residuals look like when the model is true."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.diagnostics.residuals import normal_scores
from qhreg.exceptions import DataError, QhregError
from qhreg.family.distribution import quantile_huber
from qhreg.progress import with_progress

__all__ = [
    "SimulatedFit",
    "SimulatedResiduals",
    "expanded",
    "simulate_fits",
    "simulated_residuals",
]


@dataclass(frozen=True)
class SimulatedFit:
    """One sample from the fitted model and its refit.

    Attributes
    ----------
    u : ndarray, shape (n,)
        Standardised residuals of the refit, in increasing order.
    tau, kappa : float
        The law that they have in the refit.
    solution : Solution or DistributionalSolution
        The refit.
    """

    u: FloatArray
    tau: float
    kappa: float
    solution: Any


def expanded(data: Any) -> Any:
    """Return the model with rows repeated as often as they were observed.

    Parameters
    ----------
    data : ModelData or DistributionalData
        With whole frequency weights or none. Sampling weights describe no law of the responses that
        could be simulated.
    """
    obs = data.observations
    if obs.weights is not None:
        raise DataError("the model cannot be simulated with sampling weights")
    if obs.freq_weights is None:
        return data
    if not (obs.freq_weights == np.floor(obs.freq_weights)).all():
        raise DataError("the model can be simulated with whole frequency weights only")
    counts = obs.freq_weights.astype(np.intp)
    return data.take(np.repeat(np.arange(counts.size), counts), apart=True)


def simulate_fits(
    data: Any,
    solution: Any,
    n_samples: int,
    *,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
) -> Iterator[SimulatedFit]:
    """Return samples from the fitted model one after another, each refitted with the model's settings.

    Parameters
    ----------
    data : ModelData or DistributionalData
        The model.
    solution : Solution or DistributionalSolution
        Its fit: the law to draw from, and where each refit starts.
    n_samples : int
        Number of samples; a sample that cannot be fitted is left out.
    rng : int, Generator or None
        Source of randomness, as in ``numpy.random.default_rng``.
    progress : bool
        Whether to show a progress bar.

    Notes
    -----
    Each sample is fitted by the criterion of the fit, with its p.
    """
    full = expanded(data).compared_with(solution)
    obs, law = full.observations, full.law(solution)
    generator = np.random.default_rng(rng)
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
        u, tau, kappa = sample.standardized(fit)
        yield SimulatedFit(np.sort(u), tau, kappa, fit)


@dataclass(frozen=True)
class SimulatedResiduals:
    """Residuals of refitted samples from the fitted model, each row in increasing order.

    Attributes
    ----------
    standardised : ndarray, shape (B, n)
        Residuals over sigma.
    scores : ndarray, shape (B, n)
        Quantile residuals: the normal quantiles of each sample's own fitted distribution function.
    """

    standardised: FloatArray
    scores: FloatArray


def simulated_residuals(
    data: Any,
    solution: Any,
    n_samples: int = 99,
    *,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
) -> SimulatedResiduals:
    """Return sorted residuals of refitted samples.

    Parameters
    ----------
    data, solution, n_samples, rng, progress
        As in `simulate_fits`.
    """
    fits = list(simulate_fits(data, solution, n_samples, rng=rng, progress=progress))
    if not fits:
        raise DataError("no sample from the fitted model could be fitted")
    scores = [normal_scores(fit.u, fit.tau, fit.kappa) for fit in fits]
    return SimulatedResiduals(np.array([fit.u for fit in fits]), np.array(scores))
