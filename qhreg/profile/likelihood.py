r"""Profile likelihoods: how the highest log-likelihood falls as one parameter leaves its estimate.

With :math:`\ell_p(x)` the highest (restricted) log-likelihood with the parameter held at x, the signed
root

.. math::

    r(x) = \operatorname{sign}(x - \hat x)\,\sqrt{2\,(\ell_p(\hat x) - \ell_p(x))}

is nearly linear in x. Interval limits are its roots :math:`r(x) = \pm\sqrt{q}` with q the critical
value of the likelihood ratio (:func:`qhreg.inference.hypothesis_tests.lr_cut`), found by Brent's method
on the logit of tau, the logarithm of sigma, log(kappa + 0.01), and a coefficient as it is. For normal
noise the interval of a coefficient is the t interval of least squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize

from qhreg._typing import FloatArray
from qhreg.certificate.global_optimum import GlobalCertificate, profile_bound
from qhreg.exceptions import ConvergenceWarning, DomainError, warn_caller
from qhreg.inference.hypothesis_tests import lr_cut
from qhreg.profile.curve import Curve, ProfilePoint, TauCurve, curve_of, scale_of
from qhreg.profile.result import (
    LocalMaxima,
    ProfileInterval,
    ProfileLikelihood,
    find_interval,
)
from qhreg.progress import with_progress
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, refit

SIDE_POINTS = 5
"""Fits on each side of a default grid."""

BETTER = 1e-5
"""Log-likelihood above the fit's at which a point of the profile shows that the fit is not the best."""


def _spread(curve: Curve, interval: ProfileInterval, cut: float) -> None:
    """Make fits on both sides of the estimate, to beyond a critical value.

    Evenly spaced where the parameter has the scale of its profile, on which the signed root is nearly
    linear.
    """
    forward, backward = scale_of(curve.param)
    origin = float(forward(curve.estimate))
    ends = ((interval.lower, curve.lower), (interval.upper, curve.upper))
    for limit, end in ends:
        if limit == curve.estimate:
            continue
        with np.errstate(divide="ignore"):
            last = float(forward(end))
            length = float(forward(limit if curve.lower < limit < curve.upper else end)) - origin
        reach = origin + 1.05 * math.sqrt(cut / interval.cut) * length
        outwards = math.copysign(1.0, end - curve.estimate)
        while True:
            reach = last if outwards * (reach - last) >= 0.0 else reach
            point = curve(end if reach == last else float(backward(reach)))
            if reach == last or 2.0 * (curve.loglike - point.loglike) > cut:
                break
            reach = origin + 1.2 * (reach - origin)
        for t in np.linspace(origin, reach, SIDE_POINTS + 1)[1:-1]:
            curve(float(backward(t)))


def _freed(data: Any, solution: Any, param: str | int) -> tuple[Any, Any, float | None]:
    """Return the model with the parameter estimated, its fit, and the value it was fixed at."""
    if data.column(param) is not None:
        return data, solution, None
    fixed = getattr(data.space, str(param))
    if fixed is None:
        return data, solution, None
    free = replace(data.freed(str(param)), reml=solution.p > 0.0, rank=solution.p or None)
    return free, refit(free, None, solution), float(fixed)


def profile_likelihood(
    data: Any,
    solution: Any,
    param: str | int = "tau",
    *,
    grid: Any = None,
    alpha: float = 0.05,
    cut: str | float = "F",
    se: float = math.nan,
    certificate: GlobalCertificate | None = None,
    search: bool | None = None,
    note: str = "",
    curve_from: Callable[..., Curve] = curve_of,
) -> ProfileLikelihood:
    """Return the profile likelihood of a parameter with its interval.

    Parameters
    ----------
    data : ModelData or DistributionalData
        The model.
    solution : Solution or DistributionalSolution
        Its fit. All points have its criterion, with its p and m.
    param : str or int
        "sigma", "tau", "kappa", or the name or column of a coefficient. One that the model fixes is
        estimated for its own profile.
    grid : array_like, optional
        Values at which to fit, beside those that the interval needs. By default five on each side,
        to beyond the 99 % interval.
    alpha : float
        One minus the nominal coverage of the interval.
    cut : {"F", "chi2"} or float
        Critical value of the likelihood ratio, see
        :func:`qhreg.inference.hypothesis_tests.lr_cut`.
    se : float
        Standard error of the estimate: the first step, and the parabola in the plot.
    certificate : GlobalCertificate, optional
        Of the fit, for the plot of tau: its nodes are fitted again to bound the profile between
        them.
    search : bool, optional
        As in :func:`qhreg.solver.solve`, for every fit. Along tau there is nothing to search.
    note : str
        What the profile takes for granted, printed with it.
    curve_from : callable
        What returns the profile as a function, given `data`, `solution`, `param`, `se` and `search`.

    Returns
    -------
    ProfileLikelihood
        The fits and the interval.

    Notes
    -----
    The values that are not rejected need not form one interval. The limits are those of the piece
    around the estimate. Along tau a local maximum outside them that is not rejected is named by
    ``interval.elsewhere`` and printed with the interval; the plot shades its piece too.

    Warns
    -----
    ConvergenceWarning
        The profile is higher than the fit somewhere: the fit is not the global maximum.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.profile.likelihood import profile_likelihood
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.solver import solve
    >>> rng = np.random.default_rng(0)
    >>> X, y = np.ones((200, 1)), rng.laplace(size=200)
    >>> data = QuantileHuberMLE(y, X).model_data()
    >>> profile = profile_likelihood(data, solve(X, y), "tau", cut="chi2")
    >>> print(profile.interval)
    95 % profile interval for tau: 0.407892 to 0.589504
    """
    data, solution, fixed = _freed(data, solution, param)
    curve = curve_from(data, solution, param, se=se, search=search)
    name, critical = curve.param, lr_cut(alpha, curve.df_resid, cut=cut)
    interval = find_interval(curve, alpha, critical)
    if grid is None:
        _spread(curve, interval, max(critical, lr_cut(min(alpha, 0.01), curve.df_resid, cut=cut)))
    else:
        for value in sorted(np.ravel(np.asarray(grid, dtype=np.float64)).tolist()):
            if not curve.lower <= value <= curve.upper:
                raise DomainError(
                    f"the profile of {name} runs from {curve.lower:g} to {curve.upper:g}, the grid "
                    f"has {value:g}"
                )
            curve(value)
    points = [point for _, point in sorted(curve.points.items())]
    best = max(points, key=lambda point: point.loglike)
    if best.loglike > curve.loglike + BETTER:
        warn_caller(
            f"the log-likelihood is higher by {best.loglike - curve.loglike:.3g} at {name} = "
            f"{best.value:.6g} than at the fit ({curve.estimate:.6g}), a local maximum only: fit with "
            "search=True",
            ConvergenceWarning,
        )
    maxima = certified = None
    if isinstance(curve, TauCurve):
        maxima = local_maxima(data, solution, curve=curve)
        outside = (p for p in maxima.points if not interval.lower <= p.value <= interval.upper)
        other = next(outside, None)
        if other is not None and 2.0 * (curve.loglike - other.loglike) < critical:
            interval = replace(interval, elsewhere=other.value)
        if certificate is not None:
            nodes = [*certificate.nodes_tau, *(point.value for point in points)]
            certified = profile_bound(curve.setup, curve.fits[curve.estimate], nodes)
    return ProfileLikelihood(
        name,
        curve.estimate,
        curve.loglike,
        interval,
        tuple(replace(point, beta=data.expand(point.beta)) for point in points),
        curve.names,
        se,
        cut,
        curve.df_resid,
        fixed,
        certificate,
        certified,
        maxima,
        note,
        curve,
    )


def profile_intervals(
    data: Any,
    solution: Any,
    *,
    alpha: float = 0.05,
    cut: str | float = "F",
    bse: FloatArray | None = None,
    search: bool | None = None,
    progress: bool = False,
    params: Sequence[str | int] | None = None,
    curve_from: Callable[..., Curve] = curve_of,
) -> FloatArray:
    """Return the profile intervals of all estimated parameters, shape (size, 2).

    Parameters
    ----------
    data, solution
        The model and its fit.
    alpha : float
        One minus the nominal coverage.
    cut : {"F", "chi2"} or float
        As in `profile_likelihood`.
    bse : ndarray, shape (size,), optional
        Standard errors, for the first steps.
    search : bool, optional
        As in `profile_likelihood`.
    progress : bool
        Whether to show a progress bar over the parameters.
    params : sequence of str or int, optional
        Only these, by column or name; `bse` is theirs then.
    curve_from : callable
        As in `profile_likelihood`.
    """
    chosen = params
    if chosen is None:
        chosen = [*range(len(data.names)), *data.space.extra_names]
    errors = np.full(len(chosen), math.nan) if bse is None else np.asarray(bse, dtype=np.float64)
    limits = np.empty((len(chosen), 2))
    for i, param in enumerate(with_progress(chosen, progress, "profile intervals")):
        curve = curve_from(data, solution, param, se=float(errors[i]), search=search)
        interval = find_interval(curve, alpha, lr_cut(alpha, curve.df_resid, cut=cut))
        limits[i] = interval.lower, interval.upper
    return limits


# ---------------------------------------------------------------------- maxima over tau


def local_maxima(
    data: ModelData, solution: Solution, *, curve: TauCurve | None = None
) -> LocalMaxima:
    """Return the local maxima of the likelihood over (beta, sigma, tau) at the fitted width.

    Parameters
    ----------
    data : ModelData
        The model, with tau estimated and kappa given.
    solution : Solution
        Its fit, which is one of the maxima.
    curve : TauCurve, optional
        The profile over tau, where it is at hand.

    Notes
    -----
    The best fits at 41 values of tau, evenly spaced in the logit, are compared. A value that is higher
    than both its neighbours is refined to the maximum between them; a bound counts where the likelihood
    rises towards it. Two maxima closer than the grid count as one; that none is higher than the fit is
    what :func:`qhreg.certificate.global_optimum.certify_global` proves.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg import QuantileHuberMLE
    >>> from qhreg.profile.likelihood import local_maxima
    >>> from qhreg.solver import solve
    >>> tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
    >>> y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])  # two peaks
    >>> X = np.ones((60, 1))
    >>> data = QuantileHuberMLE(y, X, kappa=0.3).model_data()
    >>> local_maxima(data, solve(X, y, kappa=0.3))
    4 local maxima of the likelihood over tau in [0.001, 0.999]
      tau 0.8334, log-likelihood -103.7136 (highest)
      tau 0.1847, log-likelihood -105.4356 (1.722 below)
      tau 0.9916, log-likelihood -115.0306 (11.32 below)
      tau 0.0084, log-likelihood -118.6455 (14.93 below)
    """
    if data.space.tau is not None:
        raise DomainError(f"tau is fixed at {data.space.tau:g}: there is one maximum, the fit")
    if curve is None:
        width = solution.kappa if data.space.kappa is None else data.space.kappa
        given = replace(data, space=replace(data.space, kappa=width))
        profile = curve_of(given, solution, "tau")
        assert isinstance(profile, TauCurve)
        curve = profile
    maxima = _maxima(curve, solution.tau)
    points = tuple(replace(point, beta=data.expand(point.beta)) for point in maxima)
    return LocalMaxima(points, (curve.lower, curve.upper), data.names)


def _maxima(curve: TauCurve, estimate: float) -> list[ProfilePoint]:
    """Return the maxima of a profile, the highest first; that around the estimate is the estimate."""
    nodes = curve.scan()
    heights = np.array([-math.inf, *(node.loglike for node in nodes), -math.inf])
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] > heights[2:]))
    maxima = [curve(estimate)]
    for i in peaks.tolist():
        low, high = nodes[max(i - 1, 0)], nodes[min(i + 1, len(nodes) - 1)]
        if not low.value <= estimate <= high.value:
            maxima.append(_refined(curve, low, nodes[i], high))
    return sorted(maxima, key=lambda point: point.loglike, reverse=True)


def _refined(
    curve: TauCurve, low: ProfilePoint, node: ProfilePoint, high: ProfilePoint
) -> ProfilePoint:
    """Return the maximum between the neighbours of a node that is higher than both, or on a bound."""
    side = high if node.slope > 0.0 else low
    if side is node:  # an end of the range, towards which the likelihood rises
        return node
    if side.slope * node.slope < 0.0:
        tau = optimize.brentq(lambda tau: curve(tau).slope, node.value, side.value, xtol=1e-12)
    else:  # ripples between the two
        ends = min(node.value, side.value), max(node.value, side.value)
        tau = optimize.minimize_scalar(
            lambda tau: -curve(float(tau)).loglike, bounds=ends, options={"xatol": 1e-10}
        ).x
    return max(node, curve(float(tau)), key=lambda point: point.loglike)
