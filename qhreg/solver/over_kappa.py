r"""The fit with the Huber width estimated too, by an outer profile over kappa.

The (restricted) likelihood at its maximum over (beta, sigma, tau) is a function of kappa on
:math:`[0, \infty]`. Its left end is the asymmetric Laplace law; its right end, when sigma is estimated,
the normal law, which all tau share. Both ends are candidates. There is a third limit: with no residual
beyond the zone on the light side, say the right one, only :math:`\kappa\sigma^2` and
:math:`\kappa\tau\sigma` matter, the variance of the core and where its left tail begins, so that the
profile stays level while kappa grows and tau and sigma fall as :math:`1/\sqrt\kappa`.

The profile can have several maxima, so that a coarse grid comes first, each of its fits by the rule of
:mod:`qhreg.solver.joint`. The loss is a maximum of functions linear in kappa,
:math:`u\psi-\kappa\psi^2/2` over :math:`-\tau\le\psi\le1-\tau`, so that at a fit, where everything
else is stationary (QH-22),

.. math::

    \frac{d\ell}{d\kappa} = \frac12\sum_i w_i v_i^2 - n\,\frac{d\log c}{d\kappa}
    - \frac p2\,\frac{d\log q}{d\kappa}

(p = 0 in the ordinary likelihood) with v the dual point of the fit (QH-15). The slope comes with the
fit; a peak of the grid is refined by its root.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from qhreg._precision import ROUNDING
from qhreg._typing import FloatArray
from qhreg.exceptions import BoundaryWarning, DataError, warn_caller
from qhreg.family.normalizer import log_normalizer_derivatives, restricted_normalizer
from qhreg.solver.basis import basis_of
from qhreg.solver.joint import DEFAULT_TAU_BOUNDS, Solution, Start, solve

GRID = (0.0, 0.05, 0.15, 0.4, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0)
"""Widths at which the profile is evaluated first; more follow while it still rises."""

GROWTH = 4.0
"""Factor between the widths beyond the grid."""

LARGEST = 1e8
"""No wider zone is tried: it would need residuals beyond 5000 standard deviations."""

SHIFT = 0.01
"""Widths are compared by log(kappa + SHIFT): even in the relative change of large widths, and finite at
zero."""

TOLERANCE = 1e-8
"""Log-likelihood that a maximum over the width may leave."""


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
        The log-likelihood that was maximised, that of the limit in the normal case.
    gaussian_loglike : float
        That of the normal limit; -inf when sigma is fixed.
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


def kappa_slope(fit: Solution) -> float:
    """Return the derivative of the log-likelihood in kappa at a fit of everything else (QH-22).

    Parameters
    ----------
    fit : Solution
        From :func:`qhreg.solver.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.solver.over_kappa import kappa_slope
    >>> from qhreg.solver.joint import solve
    >>> X, y = np.ones((200, 1)), np.random.default_rng(0).laplace(size=200)
    >>> low, middle, high = (solve(X, y, kappa=kappa) for kappa in (0.999, 1.0, 1.001))
    >>> rise = high.loglike_restricted - low.loglike_restricted
    >>> bool(abs(kappa_slope(middle) - rise / 0.002) < 1e-5)
    True
    """
    c = restricted_normalizer(float(fit.tau), float(fit.kappa), fit.n, fit.p)
    return 0.5 * fit.square - float(c.d_kappa)


def gaussian_loglike(
    exog: Any,
    endog: Any,
    *,
    weights: Any = None,
    offset: Any = None,
    reml: bool = False,
    rank: float | None = None,
    n: float | None = None,
) -> float:
    r"""Return the maximum of the normal log-likelihood: the limit of the profile for kappa to infinity.

    With `reml` it is the restricted one (Harville 1974), with p = `rank` or that of the regressors:
    :math:`-\frac m2 (1 + \log(2\pi\,\mathrm{RSS}/m))`, m = n - p. Infinity where the regressors fit the
    response exactly.

    Parameters
    ----------
    exog : array_like, shape (n, p)
        Regressors.
    endog : array_like, shape (n,)
        Response.
    weights, offset : array_like, shape (n,), or None
        Case weights; known part of the location.
    reml, rank
        As in :func:`qhreg.solver.solve`.
    n : float, optional
        Number of observations, where `exog` and `endog` are a triangular factor of theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.solver.over_kappa import gaussian_loglike
    >>> round(gaussian_loglike(np.ones((4, 1)), np.array([-1.0, 1.0, -1.0, 1.0])), 6)
    -5.675754
    """
    x, y = np.asarray(exog, dtype=np.float64), np.asarray(endog, dtype=np.float64)
    y = y if offset is None else y - np.asarray(offset, dtype=np.float64)
    n = float(y.size) if n is None else n
    if weights is not None:
        w = np.asarray(weights, dtype=np.float64)
        n = float(w.sum())
        root = np.sqrt(w)
        x, y = x * root[:, None], y * root
    unit = float(np.abs(y).max(initial=0.0)) or 1.0
    y = y / unit
    basis = basis_of(x, y)
    residual = basis.design[:, -1] / basis.matrix[-1, -1]
    square = float(residual @ residual)
    m = n - ((basis.columns.size if rank is None else rank) if reml else 0.0)
    if square <= y.size * ROUNDING**2 or m <= 0.0:  # y is at most one
        return math.inf
    return float(-0.5 * m * (1.0 + math.log(2.0 * math.pi * square / m) + 2.0 * math.log(unit)))


def solve_kappa(
    exog: Any,
    endog: Any,
    *,
    tau: float | None = None,
    sigma: float | None = None,
    tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
    weights: Any = None,
    offset: Any = None,
    start: Start | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
    reml: bool = True,
    rank: float | None = None,
) -> KappaSolution:
    """Return the fit of (beta, sigma, tau, kappa) by restricted or maximum likelihood.

    Parameters
    ----------
    exog, endog, tau, sigma, tau_bounds, weights, offset, start, search, names, reml, rank
        As in :func:`qhreg.solver.solve`; `search` is for the fit at the estimated width. With
        ``search=False`` and a `start` every width follows its neighbour.

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
    >>> from qhreg.solver.over_kappa import solve_kappa
    >>> y = quantile_huber.ppf((np.arange(600) + 0.5) / 600, 0.3, 2.0)
    >>> fit = solve_kappa(np.ones((600, 1)), y)
    >>> bool(abs(fit.kappa - 2.0) < 0.2), fit.limit
    (True, None)
    """
    shared = {
        "tau_bounds": tau_bounds,
        "weights": weights,
        "offset": offset,
        "reml": reml,
        "rank": rank,
    }

    def fit(**options: Any) -> Solution:
        return solve(exog, endog, **{"tau": tau, "sigma": sigma, **shared, **options})

    gaussian = -math.inf
    if sigma is None:
        data = {"weights": weights, "offset": offset, "reml": reml, "rank": rank}
        gaussian = gaussian_loglike(exog, endog, **data)
    return profile_over_kappa(
        fit, gaussian, tau=tau, sigma=sigma, start=start, search=search, names=names
    )


def profile_over_kappa(
    fit: Callable[..., Solution],
    gaussian: float,
    *,
    tau: float | None = None,
    sigma: float | None = None,
    start: Start | None = None,
    search: bool | None = None,
    names: Sequence[str] | None = None,
) -> KappaSolution:
    """Return the best of the fits at all widths, as :func:`solve_kappa`.

    Parameters
    ----------
    fit : callable
        Returns the fit at ``kappa``, given ``start``, ``search``, ``names`` and ``tau``.
    gaussian : float
        The log-likelihood of the normal limit; -inf when sigma is fixed.
    tau, sigma, start, search, names
        As in :func:`qhreg.solver.solve`.
    """
    # Fits on the way may touch the bounds of tau; only the last one is the user's concern.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = _Profile(fit, start, follow=search is False and start is not None)
        profile.scan()
        profile.refine()
        limit, best = _limit(profile, gaussian, ridged=sigma is None and tau is None)
    if limit == "gaussian":
        level = 0.5 if tau is None else tau
        wide = fit(kappa=_wide_enough(best, level), tau=level)
        if not abs(wide.loglike_restricted - gaussian) < 1e-6 * max(1.0, abs(gaussian)):
            raise DataError(
                f"the normal limit was not reached: log-likelihood {wide.loglike_restricted!r} at "
                f"kappa {wide.kappa:g} instead of {gaussian!r}"
            )
        final, kappa, loglike = wide, math.inf, gaussian
    else:
        final = fit(kappa=best.kappa, start=best, search=search is True, names=names)
        profile.add(final)
        final = profile.fits[best.kappa]
        kappa, loglike = final.kappa, final.loglike_restricted
    if limit is not None:
        warn_caller(limit_reached(limit, final.kappa), BoundaryWarning)
    kappas = np.array(sorted(profile.fits))
    loglikes = np.array([profile.fits[k].loglike_restricted for k in kappas])
    return KappaSolution(kappa, final, limit, loglike, gaussian, kappas, loglikes, profile.n_fits)


class _Profile:
    """The profile over kappa: each width is fitted once, the best fit of it is kept."""

    def __init__(self, fit: Callable[..., Solution], start: Start | None, *, follow: bool) -> None:
        self._fit, self._start = fit, start
        self._search = False if follow else None
        self.fits: dict[float, Solution] = {}
        self.n_fits = 0

    def add(self, fit: Solution) -> Solution:
        """Keep a fit where it is the best so far at its width."""
        self.n_fits += 1
        known = self.fits.get(fit.kappa)
        if known is None or fit.loglike_restricted > known.loglike_restricted:
            self.fits[fit.kappa] = fit
        return fit

    def at(self, kappa: float, start: Start | None, search: bool | None = False) -> Solution:
        """Return the fit at a width, in the basin of a start or by the scan."""
        return self.add(self._fit(kappa=kappa, start=start, search=search))

    @property
    def best(self) -> Solution:
        """The fit with the highest likelihood."""
        return max(self.fits.values(), key=lambda fit: fit.loglike_restricted)

    def scan(self) -> None:
        """Fit the grid, and wider widths while the profile rises."""
        start = self._start
        for kappa in sorted(GRID, reverse=True):
            start = self.at(kappa, start, self._search)
        kappa = GRID[-1]
        while self.best.kappa == kappa and kappa < LARGEST:
            if self.fits[kappa].rows_in_zone >= self.fits[kappa].n:
                return
            kappa *= GROWTH
            self.at(kappa, self.fits[kappa / GROWTH], self._search)

    def refine(self) -> None:
        """Close in on the maximum next to the best width, by the slopes at the fits."""
        widths = sorted(self.fits)
        place = widths.index(self.best.kappa)
        near = widths[max(place - 1, 0) : place + 2]
        for low, high in itertools.pairwise(near):
            for start in (
                self.fits[low],
                self.fits[high],
            ):  # neighbours may lie in two basins of tau
                self._root(low, high, start)

    def _root(self, low: float, high: float, start: Solution) -> None:
        """Add the fit where the slope turns from up to down, in the basin of one of the ends."""
        path: dict[float, Solution] = {}

        def slope(x: float) -> float:
            if x not in path:
                near = path[min(path, key=lambda known: abs(known - x))] if path else start
                path[x] = self.at(max(math.exp(x) - SHIFT, 0.0), near)
            return kappa_slope(path[x]) * math.exp(x)

        ends = math.log(low + SHIFT), math.log(high + SHIFT)
        if slope(ends[0]) > 0.0 > slope(ends[1]):
            brentq(slope, *ends, xtol=1e-9, rtol=1e-9)


def _limit(profile: _Profile, gaussian: float, *, ridged: bool) -> tuple[str | None, Solution]:
    """Return the limiting law that fits best, if any, and the best fit."""
    best = profile.best
    top = best.loglike_restricted
    if gaussian >= top - TOLERANCE:
        return "gaussian", best
    if profile.fits[0.0].loglike_restricted >= top - TOLERANCE:
        return "laplace", profile.fits[0.0]
    ridge = _ridge(profile, best) if ridged else None
    return (None, best) if ridge is None else ("one-sided", ridge)


def _ridge(profile: _Profile, best: Solution) -> Solution | None:
    """Return the fit of least width on a level ridge of the profile, or None if there is none.

    The ridge is seen at other widths than that of the best fit. It may end at both sides: where a
    residual leaves the zone, and where tau would have to pass its bound.
    """
    for ratio in (4.0, 1.4, 0.7):
        other = _along_ridge(profile, best, ratio * best.kappa)
        top = max(best.loglike_restricted, other.loglike_restricted)
        if other.loglike_restricted >= top - TOLERANCE:
            break
    else:
        return None
    low, high, ridge = 0.0, best.kappa, best
    for _ in range(12):
        middle = 0.25 * high if low == 0.0 else math.sqrt(low * high)
        trial = _along_ridge(profile, ridge, middle)
        if trial.loglike_restricted >= top - TOLERANCE:
            high, ridge = middle, trial
        else:
            low = middle
        if low > 0.9 * high:
            break
    return ridge


def _along_ridge(profile: _Profile, fit: Solution, kappa: float) -> Solution:
    """Return the fit at another width, started where kappa sigma^2 and kappa tau sigma stay the same."""
    ratio = math.sqrt(fit.kappa / kappa)
    light = min(fit.tau, 1.0 - fit.tau) * ratio
    tau = light if fit.tau < 0.5 else 1.0 - light
    return profile.at(kappa, replace(fit, kappa=kappa, sigma=fit.sigma * ratio, tau=tau))


def _wide_enough(best: Solution, tau: float) -> float:
    """Return a width at which the normaliser is the normal one to 1e-10 in the log-likelihood."""
    kappa = max(best.kappa, 64.0)
    while kappa < LARGEST:
        normal = 0.5 * math.log(2.0 * math.pi * kappa)
        if best.n * (float(log_normalizer_derivatives(tau, kappa).value) - normal) < 1e-10:
            break
        kappa *= 2.0
    return kappa


def limit_reached(limit: str, kappa: float) -> str:
    """Return what it means that the width ended at a limit, and what to do."""
    return {
        "laplace": "kappa ended at 0: the asymmetric Laplace distribution fits best. kappa is treated "
        "as known; give kappa=0 to say so",
        "gaussian": f"kappa ended at infinity ({kappa:g} stands for it): the normal distribution fits "
        "best, with sd sigma sqrt(kappa). Use least squares, or give kappa",
        "one-sided": f"kappa is not determined: all above {kappa:.4g} fit equally well. It is treated "
        "as known, and tau is not tested; give kappa to choose one",
    }[limit]
