r"""The fit with the Huber width estimated too, by an outer profile over kappa.

The likelihood at its maximum over (beta, sigma, tau) is a function of kappa on
:math:`[0, \infty]`. Its left end is the asymmetric Laplace law; its right end, when sigma is
estimated, the normal law, which all tau share:

.. math::

    \ell(\infty) = -\frac n2 \Big(1 + \log\big(2\pi\,\mathrm{RSS}/n\big)\Big).

Both ends are candidates. There is a third limit: with no residual beyond the zone on the light side, say
the right one, only :math:`\kappa\sigma^2` and :math:`\kappa\tau\sigma` matter, the variance of the
core and where its left tail begins, so that the profile stays level while kappa grows and tau and
sigma fall as :math:`1/\sqrt\kappa`.

The profile can have several maxima, so that a coarse grid comes first; each of its peaks is then
refined by the root of the slope (QH-22), which every fit brings with it.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import BoundaryWarning, DataError, warn_caller
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.solver.joint import DEFAULT_TAU_BOUNDS, Solution, solve
from qhreg.solver.kappalocal import SHIFT, TOLERANCE, climb, close_in, kappa_slope, log_width

__all__ = ["KappaSolution", "gaussian_loglike", "solve_kappa"]


GRID = (0.0, 0.05, 0.15, 0.4, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0)
"""Widths at which the profile is evaluated first; more follow while it still rises."""

SEARCHED = (0.05, 1.0)
"""Widths of the grid at which all tau are searched: noise on one side may be best at a narrow one."""

GROWTH = 4.0
"""Factor between the widths beyond the grid."""

LARGEST = 1e8
"""No wider zone is tried: it would need residuals beyond 5000 standard deviations."""

PEAK_MARGIN = 3.0
"""Peaks of the grid this far below the highest are not refined."""

SEVERAL_BASINS = 500.0
"""Sum of the weights up to which the likelihood is expected to have several basins in tau."""

ROUNDS = 2
"""How often the refinement starts again around a better fit found in another basin."""


@dataclass(frozen=True)
class KappaSolution:
    """A fit with estimated Huber width.

    Attributes
    ----------
    kappa : float
        The estimate: 0 for the asymmetric Laplace limit, inf for the normal one; in the one-sided
        limit the least width that attains the maximum.
    solution : Solution
        The fit at `kappa`. In the normal limit, a fit at a finite width whose log-likelihood equals
        the limit's to 1e-9; tau, which then has no influence, is 1/2 unless it was fixed.
    limit : {"laplace", "gaussian", "one-sided"} or None
        The limiting law at which the estimate lies, if any. "one-sided": normal on the light side,
        and wider zones fit equally well.
    loglike : float
        The log-likelihood, that of the limit in the normal case.
    gaussian_loglike : float
        The log-likelihood of the normal limit; -inf when sigma is fixed.
    kappas, loglikes : ndarray, shape (m,)
        The profile where it was evaluated, in increasing order of kappa.
    n_fits : int
        Number of fits.
    """

    kappa: float
    solution: Solution
    limit: str | None
    loglike: float
    gaussian_loglike: float
    kappas: FloatArray
    loglikes: FloatArray
    n_fits: int


class _Profile:
    """The profile over kappa: warm-started fits, each width evaluated once.

    In small samples the likelihood has several basins in tau, and neighbouring widths may have been
    fitted in different ones: there a fit is started from both neighbours.
    """

    def __init__(self, fit: Callable[..., Solution], start: Solution | None) -> None:
        self._fit = fit
        self._start = start
        self.fits: dict[float, Solution] = {}
        self.n_fits = 0

    def __call__(self, kappa: float) -> float:
        if kappa not in self.fits:
            for start in self._starts(kappa):
                self.add(self._fit(kappa=kappa, start=start, search=False))
        return self.fits[kappa].loglike_restricted

    def follow(self, kappa: float, start: Solution, search: bool | None = False) -> Solution:
        """Return the fit at a width in the basin of another fit, or in the best one."""
        return self._fit(kappa=kappa, start=start, search=search)

    def add(self, fit: Solution) -> None:
        """Keep a fit where it is the best so far at its width."""
        self.n_fits += 1
        known = self.fits.get(fit.kappa)
        if known is None or fit.loglike_restricted > known.loglike_restricted:
            self.fits[fit.kappa] = fit

    def _starts(self, kappa: float) -> list[Solution | None]:
        below = [other for other in self.fits if other < kappa]
        above = [other for other in self.fits if other > kappa]
        near = [*([max(below)] if below else []), *([min(above)] if above else [])]
        near.sort(key=lambda other: abs(log_width(other) - log_width(kappa)))
        if not near:
            return [self._start]
        if self.fits[near[0]].n > SEVERAL_BASINS:
            near = near[:1]
        return [self.fits[other] for other in near]

    @property
    def best(self) -> Solution:
        """The fit with the highest likelihood."""
        return max(self.fits.values(), key=lambda fit: fit.loglike_restricted)

    def sorted(self) -> tuple[FloatArray, FloatArray]:
        """Return the widths in increasing order and their log-likelihoods."""
        kappas = sorted(self.fits)
        return np.array(kappas), np.array([self.fits[kappa].loglike_restricted for kappa in kappas])


def gaussian_loglike(
    exog: Any,
    endog: Any,
    *,
    weights: Any = None,
    offset: Any = None,
    reml: bool = False,
    rank: float | None = None,
) -> float:
    r"""Return the maximum of the normal log-likelihood: the limit of the profile for kappa to infinity.

    With `reml` it is the restricted one (Harville 1974), with p = `rank` or that of the regressors:
    :math:`-\frac m2 (1 + \log(2\pi\,\mathrm{RSS}/m))`, m = n - p.

    Infinity where the regressors fit the response exactly.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.solver.kappafit import gaussian_loglike
    >>> round(gaussian_loglike(np.ones((4, 1)), np.array([-1.0, 1.0, -1.0, 1.0])), 6)
    -5.675754
    """
    x, y = np.asarray(exog, dtype=np.float64), np.asarray(endog, dtype=np.float64)
    y = y if offset is None else y - np.asarray(offset, dtype=np.float64)
    n = float(y.size)
    if weights is not None:
        w = np.asarray(weights, dtype=np.float64)
        n = float(w.sum())
        root = np.sqrt(w)
        x, y = x * root[:, None], y * root
    unit = float(np.abs(y).max(initial=0.0)) or 1.0
    y = y / unit
    beta, _, columns, _ = np.linalg.lstsq(x, y, rcond=None)
    residual = y - x @ beta
    square = float(residual @ residual)
    if square == 0.0:
        return math.inf
    m = n - ((columns if rank is None else rank) if reml else 0.0)
    return float(-0.5 * m * (1.0 + math.log(2.0 * math.pi * square / m) + 2.0 * math.log(unit)))


def _scan(profile: _Profile, search: bool | None) -> None:
    """Evaluate the grid, from its middle outwards, and beyond it while the profile rises."""
    middle = GRID.index(1.0)
    for kappa in (*GRID[middle:0:-1], *GRID[middle + 1 :]):
        profile(kappa)
    if search is not False:
        for kappa in SEARCHED:
            _search(profile, kappa, search)
    if (
        profile(GRID[1]) >= profile.best.loglike_restricted - PEAK_MARGIN
    ):  # an exact fit costs more than Newton's
        profile(0.0)
    kappa = GRID[-1]
    while profile(kappa) >= profile.best.loglike_restricted and kappa < LARGEST:
        if profile.fits[kappa].rows_in_zone >= profile.fits[kappa].n:
            return
        kappa *= GROWTH
        profile(kappa)


def _search(profile: _Profile, kappa: float, search: bool | None) -> None:
    """Search all tau at a width, and carry a better basin along the other widths."""
    known = profile.fits[kappa]
    found = profile.follow(kappa, known, search=search)
    profile.add(found)
    if found.loglike_restricted <= known.loglike_restricted + TOLERANCE:
        return
    widths = sorted(profile.fits)
    place = widths.index(kappa)
    for others in (widths[:place][::-1], widths[place + 1 :]):
        here = found
        for other in others:
            here = profile.follow(other, here)
            profile.add(here)


def _peaks(kappas: FloatArray, loglikes: FloatArray) -> list[tuple[float, float]]:
    """Return the brackets around the peaks of the profile that can hold the maximum."""
    padded = np.concatenate([[-np.inf], loglikes, [-np.inf]])
    high = loglikes >= float(loglikes.max()) - PEAK_MARGIN
    peaks = np.flatnonzero((loglikes >= padded[:-2]) & (loglikes >= padded[2:]) & high)
    last = kappas.size - 1
    return [(float(kappas[max(i - 1, 0)]), float(kappas[min(i + 1, last)])) for i in peaks.tolist()]


def _refine(profile: _Profile, low: float, high: float) -> None:
    """Close in on the maximum between two widths by the slopes at the fits.

    Neighbours in different basins of tau can leave no change of sign: then climb from the better one.
    """
    inside = [kappa for kappa in sorted(profile.fits) if low <= kappa <= high]

    def refit(kappa: float, start: Solution) -> Solution:
        found = profile.follow(kappa, start)
        profile.add(found)
        return found

    pairs = [(profile.fits[a], profile.fits[b]) for a, b in itertools.pairwise(inside)]
    turns = [pair for pair in pairs if kappa_slope(pair[0]) > 0.0 > kappa_slope(pair[1])]
    for below, above in turns:
        close_in(refit, below, above)
    if not turns:
        peak = max(
            (profile.fits[kappa] for kappa in inside), key=lambda fit: fit.loglike_restricted
        )
        climb(refit, peak, widest=max(high, low))


def _wide_enough(best: Solution, n: float, tau: float) -> float:
    """Return a width at which the normaliser is the normal one to 1e-9 in the log-likelihood."""
    kappa = max(best.kappa, 64.0)
    while kappa < LARGEST:
        normal = 0.5 * math.log(2.0 * math.pi * kappa)
        if n * (log_normalizer_derivatives(tau, kappa).value - normal) < 1e-10:
            break
        kappa *= 2.0
    return kappa


def solve_kappa(
    exog: Any,
    endog: Any,
    *,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    method: str = "newton",
    start: Solution | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
    reml: bool = True,
    rank: float | None = None,
) -> KappaSolution:
    """Return the fit of (beta, sigma, tau, kappa) by restricted or maximum likelihood.

    Parameters
    ----------
    exog, endog, tau, sigma, tau_bounds, weights, offset, method, start, names, reml, rank
        As in :func:`qhreg.solver.solve`.
    search : bool or None
        Whether fits at two widths of the grid, and the last one, search the whole range of tau; None
        does so up to 500 rows. A better basin found there is followed.

    Returns
    -------
    KappaSolution
        The fit, the profile where it was evaluated, and whether it ended at a limit.

    Warns
    -----
    BoundaryWarning
        The estimate is the Laplace or the normal limit.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.family.distribution import quantile_huber
    >>> from qhreg.solver.kappafit import solve_kappa
    >>> y = quantile_huber.ppf((np.arange(600) + 0.5) / 600, 0.3, 2.0)
    >>> fit = solve_kappa(np.ones((600, 1)), y)
    >>> bool(abs(fit.kappa - 2.0) < 0.2), fit.limit
    (True, None)
    """
    shared = {
        "tau_bounds": tau_bounds,
        "weights": weights,
        "offset": offset,
        "method": method,
        "reml": reml,
        "rank": rank,
    }

    def fit(**options: Any) -> Solution:
        return solve(exog, endog, **{"tau": tau, "sigma": sigma, **shared, **options})

    gaussian = -math.inf
    if sigma is None:
        gaussian = gaussian_loglike(
            exog, endog, weights=weights, offset=offset, reml=reml, rank=rank
        )
    # Fits on the way may touch the bounds of tau; only the last one is the user's concern.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = _Profile(fit, start)
        _scan(profile, False if tau is not None else search)
        for low, high in _peaks(*profile.sorted()):
            _refine(profile, low, high)
        if tau is None:
            _climb(profile, fit, search)
        best = profile.best
    if gaussian >= best.loglike_restricted - TOLERANCE:
        return _gaussian_end(profile, fit, best, gaussian, tau)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ridged = sigma is None and tau is None
        limit, best = _end(profile, fit, ridged)
        if limit == "one-sided" and search is not False:
            # the width at which all tau were searched may lie far up the ridge
            profile.add(fit(kappa=best.kappa, start=best, search=search))
            if profile.best.loglike_restricted > best.loglike_restricted + TOLERANCE:
                _climb(profile, fit, search)
                limit, best = _end(profile, fit, ridged)
    if limit == "laplace":
        _warn(
            "kappa ended at 0: the asymmetric Laplace distribution fits best, no width is supported"
        )
    elif limit == "one-sided":
        _warn(
            f"kappa is not determined: no residual lies beyond the zone on the light side, and "
            f"every width above {best.kappa:.4g} fits equally well"
        )
    final = fit(kappa=best.kappa, start=best, search=False, names=names)
    profile.add(final)
    best = profile.fits[best.kappa]
    return KappaSolution(
        best.kappa,
        best,
        limit,
        best.loglike_restricted,
        gaussian,
        *profile.sorted(),
        profile.n_fits,
    )


def _end(
    profile: _Profile, fit: Callable[..., Solution], ridged: bool
) -> tuple[str | None, Solution]:
    """Return the limiting law that fits best, if any, and the best fit; `ridged` if ridges may be."""
    best = profile.best
    if best.kappa < 1e-6 and profile(0.0) >= best.loglike_restricted - TOLERANCE:
        return "laplace", profile.fits[0.0]
    ridge = _ridge(profile, fit, best) if ridged else None
    return (None, best) if ridge is None else ("one-sided", ridge)


def _climb(profile: _Profile, fit: Callable[..., Solution], search: bool | None) -> None:
    """Refine around the best fit, search all tau there, and start again from a better basin.

    A fit in a better basin is carried along the grid first: its neighbours were fitted in the other.
    """
    for _ in range(ROUNDS):
        before = profile.best
        own = _Profile(fit, before)
        own.add(before)
        kappas, _ = profile.sorted()
        near = int(np.searchsorted(kappas, before.kappa))
        for kappa in kappas[max(near - 2, 0) : near + 3]:
            own(float(kappa))
        own(before.kappa * 0.7)
        own(before.kappa * 1.4 + SHIFT)
        for low, high in _peaks(*own.sorted()):
            _refine(own, low, high)
        if search is not False:
            own.add(fit(kappa=own.best.kappa, start=own.best, search=search))
        profile.n_fits += own.n_fits - len(own.fits)
        for each in own.fits.values():
            profile.add(each)
        if profile.best.loglike_restricted <= before.loglike_restricted + TOLERANCE:
            return


def _along_ridge(fit: Callable[..., Solution], best: Solution, kappa: float) -> Solution:
    """Return the fit at another width, started where kappa sigma^2 and kappa tau sigma stay the same."""
    ratio = math.sqrt(best.kappa / kappa)
    light = min(best.tau, 1.0 - best.tau) * ratio
    tau = light if best.tau < 0.5 else 1.0 - light
    start = replace(best, kappa=kappa, sigma=best.sigma * ratio, tau=tau)
    return fit(kappa=kappa, start=start, search=False)


def _ridge(profile: _Profile, fit: Callable[..., Solution], best: Solution) -> Solution | None:
    """Return the fit of least width on a level ridge of the profile, or None if there is none.

    The ridge is seen at other widths than that of the best fit. It may end at both sides: where a
    residual leaves the zone, and where tau would have to pass its bound.
    """
    for ratio in (4.0, 1.4, 0.7):
        other = _along_ridge(fit, best, ratio * best.kappa)
        profile.add(other)
        top = max(best.loglike_restricted, other.loglike_restricted)
        if other.loglike_restricted >= top - TOLERANCE:
            break
    else:
        return None
    low, high, found = 0.0, best.kappa, best
    for _ in range(12):
        middle = 0.25 * high if low == 0.0 else math.sqrt(low * high)
        trial = _along_ridge(fit, found, middle)
        profile.add(trial)
        if trial.loglike_restricted >= top - TOLERANCE:
            high, found = middle, trial
        else:
            low = middle
        if low > 0.9 * high:
            break
    return found


def _gaussian_end(
    profile: _Profile,
    fit: Callable[..., Solution],
    best: Solution,
    gaussian: float,
    tau: float | None,
) -> KappaSolution:
    """Return the normal limit, with a fit at a finite width that equals it."""
    level = 0.5 if tau is None else tau
    width = _wide_enough(best, best.n, level)
    wide = fit(kappa=width, tau=level)
    if not abs(wide.loglike_restricted - gaussian) < 1e-6 * max(1.0, abs(gaussian)):
        raise DataError(
            f"the normal limit was not reached: log-likelihood {wide.loglike_restricted!r} at kappa "
            f"{width:g} instead of {gaussian!r}"
        )
    _warn(
        "kappa ended at infinity: the normal distribution fits best, and tau has no influence on it"
    )
    kappas, loglikes = profile.sorted()
    return KappaSolution(
        math.inf, wide, "gaussian", gaussian, gaussian, kappas, loglikes, profile.n_fits + 1
    )


def _warn(message: str) -> None:
    warn_caller(message, BoundaryWarning)
