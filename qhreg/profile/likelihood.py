r"""Profile likelihoods: how the highest log-likelihood falls as one parameter leaves its estimate.

With :math:`\ell_p(x)` the highest log-likelihood with the parameter held at x, the signed root

.. math::

    r(x) = \operatorname{sign}(x - \hat x)\,\sqrt{2\,(\ell_p(\hat x) - \ell_p(x))}

is nearly linear in x. Interval limits are its roots :math:`r(x) = \pm\sqrt{q}` with q the critical
value of the likelihood ratio, found by interpolating x as a function of r inside a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate
from qhreg.exceptions import ConvergenceWarning, DomainError, warn_caller
from qhreg.inference.hypothesis_tests import lr_inflation
from qhreg.profile.band import CertifiedBound, certified_bound
from qhreg.profile.fits import Curve, ProfilePoint, TauCurve, curve_of
from qhreg.profile.maxima import LocalMaxima, local_maxima
from qhreg.profile.refits import refit
from qhreg.profile.result import ProfileLikelihood
from qhreg.profile.trace import (
    SHIFT,
    ProfileInterval,
    Tracer,
    counted,
    likelihood_ratio_cut,
    with_progress,
)
from qhreg.solver import Solution
from qhreg.solver.threads import one_blas_thread
from qhreg.specification.model_data import ModelData

__all__ = ["ProfileLikelihood", "profile_intervals", "profile_likelihood"]


FEW_POINTS = 20_000
"""Rows up to which a profile has many points, and tau is looked at beyond its interval."""

BETTER = 1e-5
"""Log-likelihood above the fit's at which a point of the profile shows that the fit is not the best."""


def _optimum(
    data: ModelData, solution: Solution, param: str | int
) -> tuple[ModelData, Solution, float | None]:
    """Return the model with the parameter estimated, its fit, and the value it was fixed at."""
    if data.column(param) is not None:
        return data, solution, None
    fixed = getattr(data.space, str(param))
    if fixed is None:
        return data, solution, None
    free = data.freed(str(param))
    return free, refit(free, {}, solution, search=None), float(fixed)


def _starting_step(data: ModelData, param: str, estimate: float, se: float) -> float:
    """Return a first step on the scale of the profile: a standard error where there is one."""
    n = max(data.observations.nobs, 2.0)
    if param in ("tau", "sigma", "kappa"):
        stretch = {"tau": estimate * (1.0 - estimate), "sigma": estimate, "kappa": estimate + SHIFT}
        if se > 0.0 and math.isfinite(se):
            return min(se / stretch[param], 1.0)
        return 2.0 / math.sqrt(n)
    if se > 0.0 and math.isfinite(se):
        return se
    return max(abs(estimate), 1.0) / math.sqrt(n)


def profile_likelihood(
    data: ModelData,
    solution: Solution,
    param: str | int = "tau",
    *,
    grid: Any = None,
    alpha: float = 0.05,
    cut: str | float = "corrected",
    se: float = math.nan,
    certificate: GlobalCertificate | None = None,
    search: bool | None = None,
    progress: bool | None = None,
) -> ProfileLikelihood:
    """Return the profile likelihood of a parameter with its interval.

    Parameters
    ----------
    data : ModelData
        The model.
    solution : Solution
        Its fit.
    param : str or int
        "sigma", "tau", "kappa", or the name or column of a coefficient. One that the model fixes is
        estimated for its own profile.
    grid : array_like, optional
        Values at which to fit, beside those that the interval needs. By default evenly spaced in
        the signed root, beyond the 99 % interval.
    alpha : float
        One minus the nominal coverage of the interval.
    cut : {"corrected", "chi2"} or float
        Critical value of the likelihood ratio: corrected for small samples as in
        :func:`qhreg.inference.hypothesis_tests.lr_cut`, the chi-square quantile, or a number.
    se : float
        Standard error of the estimate: the first step, and the parabola in the plot.
    certificate : GlobalCertificate, optional
        Of the fit, for the plot of tau: its nodes are fitted again to bound the profile between
        them.
    search : bool, optional
        Whether every fit searches the whole range of tau; by default up to 500 rows. Otherwise it
        follows the basin of its neighbours. Along tau there is nothing to search.
    progress : bool, optional
        Whether to show a bar that counts fits; by default where kappa is estimated along the profile.

    Returns
    -------
    ProfileLikelihood
        The fits and the interval.

    Notes
    -----
    The values that are not rejected need not form one interval. The limits are those of the piece
    around the estimate. Along tau, up to 20,000 rows, a local maximum outside them that is not rejected
    is named by ``interval.elsewhere`` and printed with the interval; the plot shades its piece too.

    Warns
    -----
    ConvergenceWarning
        The profile is higher than the fit somewhere: the fit is not the global maximum.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.profile.likelihood import profile_likelihood
    >>> from qhreg.specification.model_data import model_data
    >>> from qhreg.solver import solve
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.ones((200, 1)), rng.laplace(size=200)
    >>> profile = profile_likelihood(model_data(X, y), solve(X, y), "tau", cut="chi2")
    >>> print(profile.interval)
    95 % profile interval for tau: 0.447737 to 0.589762
    """
    with one_blas_thread(data.observations.exog.size):
        return _profile(data, solution, param, grid, alpha, cut, se, certificate, search, progress)


def _profile(
    data: ModelData,
    solution: Solution,
    param: str | int,
    grid: Any,
    alpha: float,
    cut: str | float,
    se: float,
    certificate: GlobalCertificate | None,
    search: bool | None,
    progress: bool | None,
) -> ProfileLikelihood:
    """Return the profile likelihood; see `profile_likelihood`."""
    data, solution, fixed = _optimum(data, solution, param)
    column = data.column(param)
    name = str(param) if column is None else data.names[column]
    curve = curve_of(data, solution, param, search=search)
    start = data.expand(solution.beta)
    estimate = float(getattr(solution, name) if column is None else start[column])
    inflation = _inflation(data, solution)
    critical = likelihood_ratio_cut(alpha, cut, inflation=inflation)
    long_work = data.space.kappa is None and name != "kappa" if progress is None else progress
    with counted(long_work, f"profile of {name}") as tick:
        tracer = Tracer(
            name, curve, estimate, solution.loglike_restricted, [_point(solution, estimate)], tick
        )
        made = tracer.interval(alpha, critical, _starting_step(data, name, estimate, se))
        if grid is None:
            widest = likelihood_ratio_cut(min(alpha, 0.01), cut, inflation=inflation)
            outermost = 1.05 * math.sqrt(max(critical, widest))
            count = 10 if data.observations.endog.size <= FEW_POINTS else 2
            tracer.spread([float(r) for r in np.linspace(0.0, outermost, count + 1)[1:]])
        else:
            for value in sorted(np.ravel(np.asarray(grid, dtype=np.float64)).tolist()):
                _require_inside(name, value, curve)
                tracer.evaluate(value)
    points = tuple(
        replace(point, beta=data.expand(point.beta))
        for point in sorted(tracer.points, key=lambda point: point.value)
    )
    maxima = None
    if isinstance(curve, TauCurve) and data.observations.endog.size <= FEW_POINTS:
        maxima = local_maxima(data, solution, curve=curve)
        made = replace(made, elsewhere=_elsewhere(maxima, made, solution.loglike_restricted))
    _warn_of_better(name, estimate, solution.loglike_restricted, points)
    return ProfileLikelihood(
        name,
        estimate,
        solution.loglike_restricted,
        made,
        points,
        data.names,
        se,
        cut,
        inflation,
        fixed,
        certificate,
        _certified(curve, certificate, points),
        maxima,
        curve,
    )


def _warn_of_better(
    name: str, estimate: float, loglike: float, points: tuple[ProfilePoint, ...]
) -> None:
    """Warn when a point of the profile is higher than the fit."""
    best = max(points, key=lambda point: point.loglike)
    if best.loglike > loglike + BETTER:
        warn_caller(
            f"the profile of {name} is higher by {best.loglike - loglike:.3g} at "
            f"{best.value:.6g} than at the fit ({estimate:.6g}): the fit is a local maximum only",
            ConvergenceWarning,
        )


def _elsewhere(maxima: LocalMaxima, made: ProfileInterval, loglike: float) -> float | None:
    """Return the highest maximum outside an interval, if it is not rejected."""
    for point in maxima.points:
        if not made.lower <= point.value <= made.upper:
            return point.value if 2.0 * (loglike - point.loglike) < made.cut else None
    return None


def _certified(
    curve: Curve, certificate: GlobalCertificate | None, points: tuple[ProfilePoint, ...]
) -> CertifiedBound | None:
    """Return what the fits of a certificate and of the profile prove about every tau."""
    if certificate is None or not isinstance(curve, TauCurve):
        return None
    nodes = [*certificate.nodes_tau, *(point.value for point in points)]
    return certified_bound(curve.setup, curve.start, nodes)


def _inflation(data: ModelData, solution: Solution) -> float:
    """Return the factor of the corrected cut for this fit; the largest one where kappa is estimated."""
    space = data.space
    return lr_inflation(
        data.observations.nobs,
        solution.rank + len(space.extra_names),
        solution.tau,
        kappa=0.0 if space.kappa is None else space.kappa,
        tau_estimated=space.tau is None,
    )


def _require_inside(name: str, value: float, curve: Curve) -> None:
    if not curve.lower <= value <= curve.upper:
        raise DomainError(
            f"the profile of {name} runs from {curve.lower:g} to {curve.upper:g}, the grid has {value:g}"
        )


def _point(solution: Solution, value: float) -> ProfilePoint:
    """Return the fit itself as a point of the profile."""
    return ProfilePoint(
        value,
        solution.loglike_restricted,
        0.0,
        solution.gap,
        solution.beta,
        solution.sigma,
        solution.tau,
        solution.kappa,
    )


def profile_intervals(
    data: ModelData,
    solution: Solution,
    *,
    alpha: float = 0.05,
    cut: str | float = "corrected",
    bse: FloatArray | None = None,
    search: bool | None = None,
    progress: bool = False,
    params: Sequence[str | int] | None = None,
) -> FloatArray:
    """Return the profile intervals of all estimated parameters, shape (size, 2).

    The interval of a coefficient that a constraint fixes is its value, twice.

    Parameters
    ----------
    data, solution
        The model and its fit.
    alpha : float
        One minus the nominal coverage.
    cut : {"corrected", "chi2"} or float
        As in `profile_likelihood`.
    bse : ndarray, shape (size,), optional
        Standard errors, for the first steps.
    search, progress : bool, optional
        As in `profile_likelihood`; one progress bar for all parameters.
    params : sequence of str or int, optional
        Only these, by column or name; `bse` is theirs then.
    """
    every: Sequence[str | int] = [*range(len(data.names)), *data.space.extra_names]
    chosen = every if params is None else params
    errors = np.full(len(chosen), math.nan) if bse is None else np.asarray(bse, dtype=np.float64)
    limits = np.empty((len(chosen), 2))
    for i, param in enumerate(with_progress(chosen, progress, "profile intervals")):
        if data.is_fixed(param):
            limits[i] = data.expand(solution.beta)[int(param)]
            continue
        made = profile_likelihood(
            data,
            solution,
            param,
            grid=[],
            alpha=alpha,
            cut=cut,
            se=float(errors[i]),
            search=search,
            progress=False,
        )
        limits[i] = made.conf_int()
    return limits
