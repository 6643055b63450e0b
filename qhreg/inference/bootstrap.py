"""Bootstrap of the fit: resampled cases, clusters or noise, or reweighted scores.

A sample of n rows with replacement is the same as multinomial case weights, so that resampling moves
no rows: each replicate is a fit with other weights, and offsets and sampling weights stay with their
rows. Only the parametric bootstrap draws new responses, from the fitted law.

Every replicate has its own stream of random numbers, spawned from one seed: the result does not depend
on the number of jobs.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qhreg._typing import FloatArray
from qhreg.covariance.information import check_free
from qhreg.covariance.parts import covariance_parts
from qhreg.covariance.sandwich import group_codes
from qhreg.exceptions import DataError, DomainError, QhregError
from qhreg.family.distribution import quantile_huber
from qhreg.inference.bootstrap_result import BootstrapResult
from qhreg.inference.multiplier import influence_skewness, multiplier_steps, take_steps
from qhreg.solver import DEFAULT_TAU_BOUNDS, Solution, solve
from qhreg.solver.kappafit import solve_kappa
from qhreg.specification.model_data import ModelData
from qhreg.specification.observations import Observations
from qhreg.specification.parameters import ParameterSpace

__all__ = ["KINDS", "BootstrapResult", "bootstrap"]


KINDS = ("pairs", "cluster", "parametric", "multiplier")
"""What is resampled: rows, clusters of rows, the noise, or the weights of the scores."""

THREADS_FROM = 200_000
"""Elements of exog from which threads share the data instead of processes copying it."""


class _Task(NamedTuple):
    """All that a replicate needs besides its seed."""

    exog: npt.NDArray[Any]
    endog: npt.NDArray[Any]
    cases: FloatArray | None
    weights: FloatArray | None
    offset: FloatArray | None
    codes: npt.NDArray[np.intp] | None
    fit: Solution
    free: tuple[str, ...]
    kind: str
    tau_bounds: tuple[float, float]
    method: str


def _resampled(task: _Task, rng: np.random.Generator) -> dict[str, Any]:
    """Return response and weights of one replicate."""
    n = task.endog.size
    if task.kind == "parametric":
        noise = quantile_huber.rvs(task.fit.tau, task.fit.kappa, size=n, random_state=rng)
        location = task.exog @ task.fit.beta
        location = location if task.offset is None else location + task.offset
        return {"endog": location + task.fit.sigma * noise, "weights": _product(task, None)}
    if task.kind == "cluster":
        assert task.codes is not None
        count = int(task.codes.max()) + 1
        drawn = rng.multinomial(count, np.full(count, 1.0 / count))[task.codes].astype(np.float64)
        return {"endog": task.endog, "weights": _product(task, drawn)}
    chances = np.full(n, 1.0 / n) if task.cases is None else task.cases / task.cases.sum()
    total = n if task.cases is None else round(float(task.cases.sum()))
    drawn = rng.multinomial(total, chances).astype(np.float64)
    if task.weights is not None:
        drawn *= task.weights
    return {"endog": task.endog, "weights": drawn}


def _product(task: _Task, drawn: FloatArray | None) -> FloatArray | None:
    """Return the product of the weights that exist."""
    product = drawn
    for part in (task.cases, task.weights):
        if part is not None:
            product = part if product is None else product * part
    return product


def _parameters(fit: Solution, kappa: float, free: tuple[str, ...]) -> FloatArray:
    """Return the estimated parameters as one vector."""
    parts = {"beta": fit.beta, "sigma": [fit.sigma], "tau": [fit.tau], "kappa": [kappa]}
    return np.concatenate([np.asarray(parts[name], dtype=np.float64) for name in free])


def _replicate(task: _Task, seed: np.random.SeedSequence) -> tuple[FloatArray | None, str]:
    """Return the parameters of one replicate, or None and why it failed."""
    data = _resampled(task, np.random.default_rng(seed))
    options: dict[str, Any] = {
        "weights": data["weights"],
        "offset": task.offset,
        "tau": None if "tau" in task.free else task.fit.tau,
        "sigma": None if "sigma" in task.free else task.fit.sigma,
        "tau_bounds": task.tau_bounds,
        "method": task.method,
        "start": task.fit,
        "search": False,
    }
    try:
        if "kappa" in task.free:
            width = solve_kappa(task.exog, data["endog"], **options)
            fit, kappa = width.solution, width.kappa
        else:
            fit = solve(task.exog, data["endog"], kappa=task.fit.kappa, **options)
            kappa = fit.kappa
    except (QhregError, np.linalg.LinAlgError, FloatingPointError) as error:
        return None, f"{type(error).__name__}: {error}"
    if fit.rank < task.fit.rank:
        return None, f"rank {fit.rank} instead of {task.fit.rank}"
    if not fit.converged:
        return None, "not converged"
    return _parameters(fit, kappa, task.free), "bound" if fit.tau_at_bound else ""


_WORKER_TASK: list[_Task] = []


def _start_worker(task: _Task) -> None:
    """Keep the task of a worker process: it is sent once, not with every replicate."""
    _WORKER_TASK[:] = [task]
    warnings.simplefilter("ignore")


def _work(seed: np.random.SeedSequence) -> tuple[FloatArray | None, str]:
    return _replicate(_WORKER_TASK[0], seed)


def _outcomes(
    task: _Task, seeds: list[np.random.SeedSequence], n_jobs: int
) -> Iterator[tuple[FloatArray | None, str]]:
    """Yield the outcome of every replicate in order."""
    if n_jobs == 1:
        yield from (_replicate(task, seed) for seed in seeds)
    elif task.exog.size >= THREADS_FROM:
        with ThreadPoolExecutor(n_jobs) as threads:
            yield from threads.map(lambda seed: _replicate(task, seed), seeds)
    else:
        chunk = max(1, len(seeds) // (8 * n_jobs))
        with ProcessPoolExecutor(n_jobs, initializer=_start_worker, initargs=(task,)) as processes:
            yield from processes.map(_work, seeds, chunksize=chunk)


def _with_progress(outcomes: Iterable[Any], total: int, progress: bool) -> Iterable[Any]:
    """Return the iterable, with a progress bar where asked for and tqdm is installed."""
    if not progress:
        return outcomes
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return outcomes
    bar: Iterable[Any] = tqdm(outcomes, total=total, desc="bootstrap")
    return bar


def _influence(task: _Task, free: tuple[str, ...]) -> FloatArray:
    """Return by how much each row moves the estimates, shape (n, q)."""
    fixed = {
        name: None if name in free else float(getattr(task.fit, name))
        for name in ("sigma", "tau", "kappa")
    }
    space = ParameterSpace(task.exog.shape[1], **fixed)
    obs = Observations(task.exog, task.endog, task.offset, task.cases, task.weights)
    names = tuple(map(str, range(space.k)))
    reml = {"reml": task.fit.p > 0.0, "rank": task.fit.p or None}
    parts = covariance_parts(ModelData(obs, space, task.tau_bounds, names, **reml), task.fit)
    return parts.influence @ parts.jacobian.T


def _total(cases: FloatArray | None, weights: FloatArray | None) -> FloatArray | None:
    """Return the product of both kinds of weights."""
    if cases is None or weights is None:
        return weights if cases is None else cases
    return cases * weights


def _acceleration(task: _Task) -> FloatArray:
    """Return the accelerations of BCa intervals; 0 for kappa, whose profile is outside the fit."""
    smooth = tuple(name for name in task.free if name != "kappa")
    skewness = influence_skewness(_influence(task, smooth), task.cases, task.codes)
    return np.append(skewness, 0.0) if "kappa" in task.free else skewness


def _one_step(task: _Task, seeds: list[np.random.SeedSequence]) -> FloatArray:
    """Return the replicates of the multiplier bootstrap."""
    steps = multiplier_steps(_influence(task, task.free), seeds, task.cases, task.codes)
    names = tuple(name for name in task.free if name != "beta")
    return take_steps(_parameters(task.fit, task.fit.kappa, task.free), steps, names)


def _jobs(n_jobs: int) -> int:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise DomainError(f"n_jobs must be a whole number, -1 for all processors, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _array(name: str, values: Any, n: int) -> FloatArray | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise DataError(f"{name} must have shape ({n},), got {array.shape}")
    return array


def _task(kind: str, groups: Any, exog: Any, endog: Any, **parts: Any) -> _Task:
    """Return the checked task of a bootstrap."""
    if kind not in KINDS:
        raise DomainError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    x, y = np.asarray(exog), np.asarray(endog)
    n = y.size
    wanted = {"cluster": groups is not None, "multiplier": True}.get(kind, groups is None)
    if not wanted:
        need = "needs groups" if kind == "cluster" else "does not use groups"
        raise DomainError(f"kind={kind!r} {need}")
    for name in ("cases", "weights", "offset"):
        shown = "freq_weights" if name == "cases" else name
        parts[name] = _array(shown, parts[name], n)
    codes = None
    if groups is not None:
        found = group_codes(groups, n, _total(parts["cases"], parts["weights"]))
        if len(found) > 1:
            raise DataError("groups must be one column of labels for the cluster bootstrap")
        codes = found[0]
    one_by_one = kind in ("pairs", "parametric") or (kind == "multiplier" and codes is None)
    if one_by_one and parts["cases"] is not None:
        whole = parts["cases"] == np.round(parts["cases"])
        if not whole.all():
            raise DataError("freq_weights must be whole numbers to resample cases")
    return _with_weight(_Task(exog=x, endog=y, codes=codes, kind=kind, **parts))


def _with_weight(task: _Task) -> _Task:
    """Return the task without rows of weight zero, and with one row for each case that draws noise."""
    total = _product(task, None)
    if total is None:
        return task
    rows = np.flatnonzero(total > 0.0)
    drawn = task.kind == "parametric" and task.cases is not None
    if drawn:
        assert task.cases is not None
        rows = np.repeat(rows, task.cases[rows].astype(np.intp))
    elif rows.size == total.size:
        return task
    return task._replace(
        exog=task.exog[rows],
        endog=task.endog[rows],
        cases=None if drawn or task.cases is None else task.cases[rows],
        weights=None if task.weights is None else task.weights[rows],
        offset=None if task.offset is None else task.offset[rows],
        codes=None if task.codes is None else task.codes[rows],
    )


def bootstrap(
    exog: Any,
    endog: Any,
    fit: Solution,
    *,
    kind: str = "pairs",
    n_boot: int = 999,
    seed: int | np.random.Generator | np.random.SeedSequence | None = None,
    groups: Any = None,
    free: Sequence[str] = ("beta", "sigma", "tau"),
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    method: str = "newton",
    n_jobs: int = 1,
    progress: bool = False,
) -> BootstrapResult:
    """Return bootstrap replicates of the estimates, each started from the fit.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    fit : Solution
        The fit to the data. Its parameters that are not in `free` stay fixed.
    kind : {"pairs", "cluster", "parametric", "multiplier"}
        Resample rows, whole clusters, or noise from the fitted law, and refit; or weigh the scores at
        random and take one step, which costs no fit.
    n_boot : int
        Number of replicates.
    seed : int, Generator, SeedSequence or None
        Source of randomness. The same seed gives the same replicates for any `n_jobs`.
    groups : array_like, shape (n,), or None
        Cluster labels, for "cluster"; rows of a cluster then share a multiplier with "multiplier".
    free : sequence of str
        Which of "beta", "sigma", "tau", "kappa" were estimated.
    tau_bounds : (float, float)
        Range of an estimated tau.
    freq_weights : array_like of whole numbers, shape (n,), or None
        Cases; resampled one by one, each with noise of its own.
    weights, offset : array_like, shape (n,), or None
        Sampling weights and known part of the location; they follow their rows.
    method : {"newton", "lbfgs"}
        As in :func:`qhreg.solver.solve`.
    n_jobs : int
        Processes to use (threads from 200 000 elements of `exog` on); -1 for all processors.
    progress : bool
        Whether to show a progress bar, where tqdm is installed.

    Returns
    -------
    BootstrapResult
        Replicates, covariance, intervals, and what failed.

    Notes
    -----
    The covariance of the multiplier bootstrap approaches the sandwich "HC0" (or the clustered one) as
    the number of replicates grows: it says no more about the spread than that, but gives replicates to
    work with at the price of a product with the data. sigma and kappa step on the log scale, tau on the
    logit scale.

    Other replicates start at the fit and do not search the whole range of tau again. Failed ones (too
    few distinct rows for the columns, no convergence) are left out and counted.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.inference.bootstrap import bootstrap
    >>> from qhreg.family.distribution import quantile_huber
    >>> from qhreg.solver import solve
    >>> y = quantile_huber.ppf((np.arange(200) + 0.5) / 200, 0.4, 1.0)
    >>> fit = solve(np.ones((200, 1)), y)
    >>> result = bootstrap(np.ones((200, 1)), y, fit, n_boot=50, seed=0)
    >>> result.params.shape, result.conf_int().shape, result.n_failed
    ((50, 3), (3, 2), 0)
    """
    if isinstance(n_boot, bool) or int(n_boot) != n_boot or n_boot < 2:
        raise DomainError(f"n_boot must be a whole number of at least 2, got {n_boot!r}")
    task = _task(
        kind,
        groups,
        exog,
        endog,
        cases=freq_weights,
        weights=weights,
        offset=offset,
        fit=fit,
        free=check_free(free),
        tau_bounds=tau_bounds,
        method=method,
    )
    seeds = _seeds(seed, int(n_boot))
    # Replicates may end on bounds or lose columns: that is counted, not warned about.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs = _jobs(n_jobs)
        acceleration = _acceleration(task)
        if kind == "multiplier":
            return _result(task, acceleration, int(n_boot), _one_step(task, seeds), {}, 0)
        outcomes = _outcomes(task, seeds, jobs)
        results = list(_with_progress(outcomes, int(n_boot), progress))
    good = [params for params, _ in results if params is not None]
    failures = Counter(reason for params, reason in results if params is None)
    if len(good) < 2:
        raise DataError(f"{n_boot - len(good)} of {n_boot} replicates failed: {dict(failures)}")
    at_bound = sum(reason == "bound" for params, reason in results if params is not None)
    return _result(task, acceleration, int(n_boot), np.array(good), dict(failures), at_bound)


def _result(
    task: _Task,
    acceleration: FloatArray,
    n_boot: int,
    params: FloatArray,
    failures: dict[str, int],
    n_at_bound: int,
) -> BootstrapResult:
    return BootstrapResult(
        params,
        _parameters(task.fit, task.fit.kappa, task.free),
        acceleration,
        task.free,
        task.kind,
        n_boot,
        failures,
        n_at_bound,
    )


def _seeds(
    seed: int | np.random.Generator | np.random.SeedSequence | None, count: int
) -> list[np.random.SeedSequence]:
    """Return one seed per replicate; a Generator is advanced, so that a second call differs."""
    if isinstance(seed, np.random.Generator):
        seed = np.random.SeedSequence(int(seed.integers(2**63)))
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(seed)
    return list(seed.spawn(count))
