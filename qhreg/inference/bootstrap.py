r"""Bootstrap of the fit: resampled cases, clusters or noise, or reweighted scores.

A sample of n rows with replacement is the same as multinomial case weights, so that resampling moves
no rows: each replicate is a fit with other weights, and offsets and sampling weights stay with their
rows. The parametric bootstrap draws new responses from the fitted law, the wild one from the residuals.
All replicates have the criterion of the fit, with its p.

The multiplier bootstrap refits nothing: a replicate moves the estimates by :math:`\sum_i \xi_i I_i` with
:math:`I_i` the influence of row i, its score times the inverse bread, and independent multipliers
:math:`\xi_i` of mean 0 and variance 1 (Mammen 1993). Its covariance given the data is the sandwich HC0,
or the clustered one without its factor where rows of a group share their multiplier.

Every replicate has its own stream of random numbers, spawned from one source: the result does not
depend on the number of jobs.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from qhreg._typing import FloatArray, IntArray
from qhreg.covariance.choice import cluster_codes
from qhreg.covariance.parts import Parts, covariance_parts
from qhreg.exceptions import DataError, DomainError, QhregError
from qhreg.family.distribution import quantile_huber
from qhreg.family.domain import check_alpha, from_line, to_line
from qhreg.progress import with_progress
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import positions

KINDS = ("pairs", "cluster", "parametric", "wild", "multiplier")
"""What is resampled: rows, clusters of rows, noise of the fitted law, signs and sizes of the residuals,
or the weights of the scores."""

_ROOT = math.sqrt(5.0)
LOW, HIGH, CHANCE_LOW = 0.5 * (1.0 - _ROOT), 0.5 * (1.0 + _ROOT), (_ROOT + 1.0) / (2.0 * _ROOT)
"""Mammen's two multipliers and the probability of the lower: mean 0, variance 1, third moment 1."""


@dataclass(frozen=True)
class _Task:
    """All that a replicate needs besides its random numbers."""

    data: Any
    solution: Any
    kind: str
    codes: IntArray | None

    def resampled(self, rng: np.random.Generator) -> Observations:
        """Return the data of one replicate."""
        obs: Observations = self.data.observations
        n = obs.endog.size
        if self.kind in ("parametric", "wild"):
            law = self.data.law(self.solution)
            if self.kind == "parametric":
                noise = quantile_huber.rvs(law.tau, law.kappa, size=n, random_state=rng)
                return replace(obs, endog=law.location + law.sigma * noise)
            signed = np.where(rng.random(n) < law.tau, 2.0 * law.tau, -2.0 * (1.0 - law.tau))
            return replace(obs, endog=law.location + signed * np.abs(obs.endog - law.location))
        if self.codes is not None:
            count = int(self.codes.max()) + 1
            drawn = rng.multinomial(count, np.full(count, 1.0 / count))[self.codes]
            cases = drawn if obs.freq_weights is None else drawn * obs.freq_weights
            return replace(obs, freq_weights=cases.astype(np.float64))
        freq = obs.freq_weights
        chances = np.full(n, 1.0 / n) if freq is None else freq / freq.sum()
        cases = rng.multinomial(n if freq is None else round(float(freq.sum())), chances)
        return replace(obs, freq_weights=cases.astype(np.float64))

    def replicate(self, rng: np.random.Generator) -> tuple[FloatArray | None, str]:
        """Return the parameters of one replicate, or None and why it failed."""
        fit = self.solution
        held = {}
        if self.kind == "wild":
            held = {"sigma": fit.sigma, "tau": fit.tau, "kappa": fit.kappa}
        data = replace(self.data, observations=self.resampled(rng))
        try:
            with warnings.catch_warnings():
                # replicates may end on bounds or lose columns: that is counted, not warned about
                warnings.simplefilter("ignore")
                again = data.fit(fit, held)
        except (QhregError, np.linalg.LinAlgError, FloatingPointError) as error:
            return None, f"{type(error).__name__}: {error}"
        if again.rank < fit.rank:
            return None, f"rank {again.rank} instead of {fit.rank}"
        if not again.converged:
            return None, "not converged"
        return self.data.vector(again), "bound" if again.tau_at_bound else ""


_WORKER_TASK: list[_Task] = []


def _start_worker(task: _Task) -> None:
    """Keep the task of a worker process: it is sent once, not with every replicate."""
    _WORKER_TASK[:] = [task]


def _work(rng: np.random.Generator) -> tuple[FloatArray | None, str]:
    return _WORKER_TASK[0].replicate(rng)


def _outcomes(
    task: _Task, streams: list[np.random.Generator], n_jobs: int
) -> Iterator[tuple[FloatArray | None, str]]:
    """Yield the outcome of every replicate in order."""
    if n_jobs == 1:
        yield from map(task.replicate, streams)
        return
    chunk = max(1, len(streams) // (8 * n_jobs))
    with ProcessPoolExecutor(n_jobs, initializer=_start_worker, initargs=(task,)) as processes:
        yield from processes.map(_work, streams, chunksize=chunk)


def _jobs(n_jobs: int) -> int:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise DomainError(f"n_jobs must be a whole number, -1 for all processors, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _streams(rng: Any, count: int) -> list[np.random.Generator]:
    """Return a stream for each replicate; a Generator is advanced, so that a second call differs."""
    if isinstance(rng, np.random.Generator):
        rng = int(rng.integers(2**63))
    seeds = rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(rng)
    return [np.random.default_rng(seed) for seed in seeds.spawn(count)]


def _task(data: Any, solution: Any, kind: str, groups: Any) -> _Task:
    """Return the checked task: without rows of weight zero, a row for each case that draws noise."""
    if kind not in KINDS:
        raise DomainError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if kind == "cluster" and groups is None:
        raise DomainError("kind='cluster' needs groups")
    if kind not in ("cluster", "multiplier") and groups is not None:
        raise DomainError(f"kind={kind!r} does not use groups")
    if kind == "wild":
        law = data.law(solution)
        if np.ndim(law.tau):
            raise DomainError(
                "kind='wild' is for one sigma and one tau: use 'pairs' or 'multiplier'"
            )
        if law.kappa > 0.0 and law.tau != 0.5:
            raise DomainError(
                f"kind='wild' is for kappa = 0 or tau = 1/2, not kappa = {law.kappa:g} and tau = "
                f"{law.tau:.4g}: use 'pairs' or 'multiplier', which allow for the same"
            )
    obs = data.observations
    codes = None
    if groups is not None:
        columns = cluster_codes(groups, obs.endog.size, obs.case_weights)
        if len(columns) > 1:
            raise DataError("groups must be one column of labels for the bootstrap")
        codes = columns[0]
    freq = obs.freq_weights
    if freq is not None and codes is None and not (freq == np.round(freq)).all():
        raise DataError("freq_weights must be whole numbers to resample cases")
    total = obs.case_weights
    rows = np.arange(obs.endog.size) if total is None else np.flatnonzero(total > 0.0)
    apart = kind in ("parametric", "wild") and freq is not None
    if apart and freq is not None:
        rows = np.repeat(rows, freq[rows].astype(np.intp))
    if rows.size != obs.endog.size or apart:
        data = data.take(rows, apart=apart)
        codes = None if codes is None else codes[rows]
    return _Task(data.compared_with(solution), solution, kind, codes)


class _Influence(NamedTuple):
    """How far each row, or group, moves the working parameters, and how many cases it is."""

    steps: FloatArray
    cases: FloatArray | None


def _multipliers(rng: np.random.Generator, cases: FloatArray | None, n: int) -> FloatArray:
    """Return n multipliers; a row of several cases has the sum of as many."""
    if cases is None:
        return np.where(rng.random(n) < CHANCE_LOW, LOW, HIGH)
    counts = cases.astype(np.int64)
    low = rng.binomial(counts, CHANCE_LOW)
    return np.asarray(low * LOW + (counts - low) * HIGH)


def _one_step(
    task: _Task, parts: Parts, streams: list[np.random.Generator], rows: _Influence
) -> FloatArray:
    """Return the replicates of the multiplier bootstrap, shape (B, size).

    Steps are in the coordinates of the bread: sigma and kappa on the log scale, tau on the logit scale.
    """
    influence, cases = rows
    steps = np.array([_multipliers(rng, cases, len(influence)) @ influence for rng in streams])
    fit, estimate = task.solution, task.data.vector(task.solution)
    params: FloatArray = estimate + steps @ parts.jacobian.T
    for j, name in enumerate(parts.extras, start=steps.shape[1] - len(parts.extras)):
        with np.errstate(divide="ignore"):  # kappa = 0 stays there
            middle = to_line(name, getattr(fit, name))
        params[:, task.data.space.position(name)] = from_line(name, middle + steps[:, j])
    return params


def _influence(task: _Task, parts: Parts) -> _Influence:
    """Return the influence of each row and how many cases it is, or the sums of each group."""
    influence, cases, codes = parts.influence, task.data.observations.freq_weights, task.codes
    if codes is None:
        return _Influence(influence, cases)
    sums = np.zeros((int(codes.max()) + 1, influence.shape[1]))
    np.add.at(sums, codes, influence if cases is None else influence * cases[:, None])
    return _Influence(sums, None)


def _acceleration(parts: Parts, rows: _Influence) -> FloatArray:
    r"""Return the acceleration of BCa intervals, :math:`\sum I^3 / (6 (\sum I^2)^{3/2})`.

    That of a parameter which the parts hold is 0; a group counts with the sum of its rows.
    """
    influence = rows.steps @ parts.jacobian.T
    counts = np.ones(len(influence)) if rows.cases is None else rows.cases
    cubes, scale = counts @ influence**3, 6.0 * (counts @ influence**2) ** 1.5
    return np.divide(cubes, scale, out=np.zeros(scale.size), where=scale > 0.0)


def bootstrap(
    data: Any,
    solution: Any,
    *,
    kind: str = "pairs",
    n_boot: int = 999,
    rng: int | np.random.Generator | np.random.SeedSequence | None = None,
    groups: Any = None,
    held: Sequence[str] = (),
    n_jobs: int = 1,
    progress: bool = False,
    parts_of: Callable[..., Parts] = covariance_parts,
) -> BootstrapResult:
    """Return bootstrap replicates of the estimates, each started from the fit.

    Parameters
    ----------
    data : ModelData or DistributionalData
        The model. Frequency weights are cases, resampled one by one; sampling weights and offset
        follow their rows.
    solution : Solution or DistributionalSolution
        Its fit.
    kind : {"pairs", "cluster", "parametric", "wild", "multiplier"}
        Resample rows, whole clusters, noise from the fitted law, or the residuals, and refit; or weigh
        the scores at random and take one step, which costs no fit.
    n_boot : int
        Number of replicates.
    rng : int, Generator, SeedSequence or None
        Source of randomness, as in ``numpy.random.default_rng``. The same one gives the same replicates
        for any `n_jobs`.
    groups : array_like, shape (n,), or None
        Cluster labels, for "cluster"; rows of a cluster share a multiplier with "multiplier".
    held : sequence of str
        Estimated parameters that the multiplier bootstrap and the acceleration treat as known.
    n_jobs : int
        Processes to use; -1 for all processors.
    progress : bool
        Whether to show a progress bar, where tqdm is installed.
    parts_of : callable
        What returns scores and bread of a fit, given `data`, `solution` and `held`.

    Returns
    -------
    BootstrapResult
        Replicates, covariance, intervals, and what failed.

    Notes
    -----
    Replicates start at the fit and do not scan the range of tau again. Failed ones (too few distinct
    rows for the columns, no convergence) are left out and counted.

    The wild bootstrap is about the coefficients at the fitted sigma, tau and kappa. Its responses are
    :math:`y^* = x'b + w|r|` with w = 2 tau with probability tau and w = -2 (1 - tau) otherwise: the
    two-point law of Feng, He & Hu (2011, section 3) at the level 1 - tau of the fitted line. For
    kappa = 0 it allows for noise whose scale depends on the regressors, and so it does for kappa > 0 at
    tau = 1/2, where w is a random sign and the noise must be symmetric. Elsewhere the replicates are not
    centred at the fit (by four standard errors of the constant at kappa = 4, tau = 0.8, n = 200), and it
    is not offered.

    References
    ----------
    .. [1] X. Feng, X. He and J. Hu (2011), Wild bootstrap for quantile regression, Biometrika 98,
       995-999.
    .. [2] E. Mammen (1993), Bootstrap and wild bootstrap for high dimensional linear models, Annals of
       Statistics 21, 255-285.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.inference.bootstrap import bootstrap
    >>> from qhreg.family.distribution import quantile_huber
    >>> from qhreg.specification.model_data import fit_model
    >>> y = quantile_huber.ppf((np.arange(200) + 0.5) / 200, 0.4, 1.0)
    >>> data = QuantileHuberMLE(y, np.ones((200, 1))).model_data()
    >>> result = bootstrap(data, fit_model(data), n_boot=50, rng=0)
    >>> result.params.shape, result.conf_int().shape, result.n_failed
    ((50, 3), (3, 2), 0)
    """
    if isinstance(n_boot, bool) or int(n_boot) != n_boot or n_boot < 2:
        raise DomainError(f"n_boot must be a whole number of at least 2, got {n_boot!r}")
    task, jobs = _task(data, solution, kind, groups), _jobs(n_jobs)
    streams = _streams(rng, int(n_boot))
    parts = parts_of(task.data, solution, held)
    rows = _influence(task, parts)
    failures: dict[str, int] = {}
    at_bound = 0
    if kind == "multiplier":
        params = _one_step(task, parts, streams, rows)
    else:
        outcomes = list(
            with_progress(_outcomes(task, streams, jobs), progress, "bootstrap", int(n_boot))
        )
        replicates = [params for params, _ in outcomes if params is not None]
        failures = dict(Counter(reason for params, reason in outcomes if params is None))
        if len(replicates) < 2:
            raise DataError(f"{n_boot - len(replicates)} of {n_boot} replicates failed: {failures}")
        at_bound = sum(reason == "bound" for params, reason in outcomes if params is not None)
        params = np.array(replicates)
    return BootstrapResult(
        params,
        task.data.vector(solution),
        _acceleration(parts, rows),
        task.data.free,
        kind,
        int(n_boot),
        failures,
        at_bound,
    )


# ---------------------------------------------------------------------- the replicates


@dataclass(frozen=True)
class BootstrapResult:
    """Replicates of the estimates.

    Attributes
    ----------
    params : ndarray, shape (B, q)
        The replicates that succeeded, in the order beta, sigma, tau, kappa.
    estimate : ndarray, shape (q,)
        The estimates from the data.
    acceleration : ndarray, shape (q,)
        The skewness of the influence values divided by six, for BCa intervals.
    free : tuple of str
        The estimated parameters.
    kind : str
        What was resampled: "pairs", "cluster", "parametric", "wild" or "multiplier".
    n_boot : int
        Replicates asked for.
    failures : dict of str to int
        Reasons of the failed replicates, with their numbers.
    n_at_bound : int
        Replicates in which tau ended on a bound; they are kept.
    names : tuple of str
        Names of the parameters, for the table.
    labelled : bool
        Whether `cov`, `bse` and `conf_int` are pandas objects with these names; arrays otherwise.
    """

    params: FloatArray
    estimate: FloatArray
    acceleration: FloatArray
    free: tuple[str, ...]
    kind: str
    n_boot: int
    failures: dict[str, int]
    n_at_bound: int
    names: tuple[str, ...] = ()
    labelled: bool = False

    @property
    def n_failed(self) -> int:
        """Number of failed replicates."""
        return sum(self.failures.values())

    @property
    def cov(self) -> Any:
        """The covariance of the replicates, shape (q, q); NaN for a kappa that reached infinity."""
        with np.errstate(invalid="ignore"):
            cov = np.atleast_2d(np.cov(self.params, rowvar=False))
        names = list(self.names)
        return pd.DataFrame(cov, index=names, columns=names) if self.labelled else cov

    @property
    def bse(self) -> Any:
        """The standard deviations of the replicates; NaN for a kappa that reached infinity."""
        with np.errstate(invalid="ignore"):
            deviation = self.params.std(axis=0, ddof=1)
        return pd.Series(deviation, index=list(self.names)) if self.labelled else deviation

    def conf_int(self, alpha: float = 0.05, method: str = "percentile") -> Any:
        r"""Return intervals at level 1 - alpha, shape (q, 2).

        Parameters
        ----------
        alpha : float
            One minus the level.
        method : {"percentile", "basic", "bca"}
            Quantiles of the replicates at alpha/2 and 1 - alpha/2, these mirrored at the estimate, or
            quantiles at levels corrected for bias and skewness.

        Notes
        -----
        Basic: :math:`2\hat\theta - q_{1-\alpha/2}` to :math:`2\hat\theta - q_{\alpha/2}`, with the
        logarithm of sigma and kappa and the logit of tau in place of the parameter.

        BCa: with :math:`z_0 = \Phi^{-1}(\#\{\theta^* < \hat\theta\}/B)` and the acceleration a, the
        levels are :math:`\Phi(z_0 + (z_0 + z)/(1 - a(z_0 + z)))` for
        :math:`z = \Phi^{-1}(\alpha/2), \Phi^{-1}(1-\alpha/2)`.
        """
        check_alpha(alpha)
        if method not in ("percentile", "basic", "bca"):
            raise DomainError(f"method must be 'percentile', 'basic' or 'bca', got {method!r}")
        levels = np.tile([alpha / 2.0, 1.0 - alpha / 2.0], (self.estimate.size, 1))
        if method == "bca":
            levels = self._bca_levels(levels)
        columns = zip(self.params.T, levels, strict=True)
        limits = np.array([_quantiles(column, level) for column, level in columns])
        if method == "basic":
            limits = self._mirrored(limits)
        return pd.DataFrame(limits, index=list(self.names)) if self.labelled else limits

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, standard errors, bias and percentile limits, a row for each parameter.

        Parameters
        ----------
        alpha : float
            One minus the level of the limits.
        """
        with np.errstate(invalid="ignore"):
            bias = self.params.mean(axis=0) - self.estimate
        lower, upper = np.asarray(self.conf_int(alpha)).T
        columns = {"estimate": self.estimate, "se": np.asarray(self.bse), "bias": bias}
        columns |= {"ci_lower": lower, "ci_upper": upper}
        return pd.DataFrame(columns, index=list(self.names or self._plain_names()))

    def plot(
        self,
        names: Sequence[str] | None = None,
        axes: Any = None,
        *,
        alpha: float = 0.05,
        method: str = "percentile",
    ) -> Any:
        """Draw the replicates with estimates and intervals, one panel each, and return the Figure.

        Parameters
        ----------
        names : sequence of str, optional
            The parameters; all by default.
        axes : sequence of Axes, optional
            Where to draw, one for each.
        alpha : float
            One minus the level of the intervals.
        method : {"percentile", "basic", "bca"}
            Of the intervals, as in `conf_int`.
        """
        from qhreg.plotting import plot_bootstrap

        every = list(self.names or self._plain_names())
        places = positions(every if names is None else names, every)
        chosen, limits = (
            [every[j] for j in places],
            np.asarray(self.conf_int(alpha, method))[places],
        )
        replicates, estimate = self.params[:, places], self.estimate[places]
        return plot_bootstrap(replicates, estimate, limits, chosen, level=1.0 - alpha, axes=axes)

    def _plain_names(self) -> list[str]:
        """Return names for the table of a bootstrap that knows none."""
        others = [name for name in self.free if name != "beta"]
        return [*(f"beta[{j}]" for j in range(self.estimate.size - len(others))), *others]

    def _mirrored(self, limits: FloatArray) -> FloatArray:
        """Return limits mirrored at the estimates, each on the scale of its parameter."""
        mirrored: FloatArray = 2.0 * self.estimate[:, None] - limits[:, ::-1]
        others = [name for name in self.free if name != "beta"]
        for j, name in enumerate(others, start=self.estimate.size - len(others)):
            with np.errstate(divide="ignore", invalid="ignore"):
                middle, ends = to_line(name, self.estimate[j]), to_line(name, limits[j, ::-1])
                mirrored[j] = from_line(name, 2.0 * middle - ends)
        return mirrored

    def _bca_levels(self, levels: FloatArray) -> FloatArray:
        below = (self.params < self.estimate).mean(axis=0)
        # Ties count half: an estimate on a bound equals many of its replicates.
        below = below + 0.5 * (self.params == self.estimate).mean(axis=0)
        edge = 0.5 / len(self.params)
        z0 = special.ndtri(np.clip(below, edge, 1.0 - edge))[:, None]
        z = z0 + special.ndtri(levels)
        corrected: FloatArray = special.ndtr(z0 + z / (1.0 - self.acceleration[:, None] * z))
        return corrected

    def __str__(self) -> str:
        level = "{:.4g}".format
        table = self.summary_frame().to_string(float_format=level)
        return f"{repr(self)[1:-1]}; 95 % percentile limits\n{table}"

    def __repr__(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        bound = f", {self.n_at_bound} with tau on a bound" if self.n_at_bound else ""
        return f"<BootstrapResult: {len(self.params)} replicates, {self.kind}{failed}{bound}>"


def _quantiles(values: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles by linear interpolation; towards an infinite value they are infinite."""
    finite = np.isfinite(values)
    if finite.all():
        return np.asarray(np.quantile(values, levels))
    above = np.quantile(values, levels, method="higher")
    largest = values[finite].max(initial=0.0)
    inner = np.quantile(np.minimum(values, largest), levels)
    return np.asarray(np.where(np.isfinite(above), inner, above))
