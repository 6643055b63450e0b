"""Fits with some parameters held, started from those at neighbouring values; the width followed.

Where kappa is estimated, a fit goes up the likelihood in kappa from the width of its neighbour.
"""

from __future__ import annotations

import warnings
from typing import Any

from qhreg.exceptions import BoundaryWarning, RankWarning
from qhreg.solver import Solution
from qhreg.solver.kappalocal import climb, log_width
from qhreg.solver.over_tau import Memory
from qhreg.specification.model_data import ModelData, fit_model

__all__ = ["best_fit", "refit"]

SEVERAL_BASINS = 500
"""Rows up to which the likelihood is expected to have several basins in tau."""

WIDEST = 1e6
"""Width beyond which the best one is not followed."""

SAME_WIDTH = 0.5
"""Difference in log(kappa + 0.01) below which neighbours are taken for the same solution."""

SAME_TAU = 0.05
"""Difference in tau below which they are."""

NEAR = 1.0
"""Share of the distance covered so far within which the best width is followed outwards."""

SAME_LOGLIKE = 1e-7
"""Log-likelihood by which a searched fit must be better to be followed."""

WIDE = 16.0
"""Width beyond which a ridge of widths that fit equally well may begin."""


def refit(
    data: ModelData,
    held: dict[str, float],
    start: Solution | None,
    *,
    search: bool | None,
    memory: Memory | None = None,
) -> Solution:
    """Return the best fit with some of sigma, tau and kappa held at given values.

    Parameters
    ----------
    data : ModelData
        The model; what it fixes stays fixed.
    held : dict
        Values of sigma, tau or kappa.
    start : Solution or None
        Where to start.
    search : bool or None
        Whether to search the whole range of tau, as in :func:`qhreg.solver.solve`.
    memory : Memory or None
        What earlier searches proved, where kappa is known.
    """
    options: dict[str, Any] = {"start": start, "search": search}
    if held.get("kappa", data.space.kappa) is not None:
        options["memory"] = memory
    with warnings.catch_warnings():
        # a tau on its bound or dependent columns were told with the fit itself
        warnings.simplefilter("ignore", BoundaryWarning)
        warnings.simplefilter("ignore", RankWarning)
        return fit_model(data, held, **options)


def best_fit(
    data: ModelData,
    held: dict[str, float],
    value: float,
    known: dict[float, Solution],
    *,
    search: bool | None,
    memory: Memory | None = None,
) -> Solution:
    """Return the best fit at one value of a profile, started from those at other values.

    Parameters
    ----------
    data : ModelData
        The model.
    held : dict
        Values of sigma, tau or kappa.
    value : float
        Where the profile is asked for.
    known : dict
        Fits by value.
    search, memory
        As in `refit`.

    Notes
    -----
    Where kappa is estimated, every fit up to 500 rows looks at the whole range of widths; with more
    rows those far beyond the known ones do, and the others follow the best width from their
    neighbours. So do those next to a wide one, for there may be a ridge of widths that fit equally well.
    """
    if held.get("kappa", data.space.kappa) is not None:
        starts = neighbours(known, value, n_starts(data, search))
        fits = [refit(data, held, start, search=search, memory=memory) for start in starts]
        return _best(fits)
    starts = distinct(known, value)
    if data.observations.endog.size > SEVERAL_BASINS and not _far(known, value):
        return _best([follow(data, held, start, search=search) for start in starts])
    wide = [start for start in starts if start.kappa > WIDE]
    fits = [follow(data, held, start, search=False) for start in wide]
    return _best([*fits, refit(data, held, starts[0], search=search)])


def _best(fits: list[Solution]) -> Solution:
    return max(fits, key=lambda fit: fit.loglike_restricted)


def _far(known: dict[float, Solution], value: float) -> bool:
    """Return whether a value lies far beyond the known ones, the first of which is the estimate."""
    if min(known) < value < max(known):
        return False
    nearest = min(known, key=lambda other: abs(other - value))
    return abs(value - nearest) > NEAR * abs(nearest - next(iter(known)))


def follow(
    data: ModelData, held: dict[str, float], start: Solution, *, search: bool | None
) -> Solution:
    """Return the fit whose width is the local maximum next to that of another fit.

    Parameters
    ----------
    data, held, search
        As in `refit`. The range of tau is searched at the width found, and a better basin is
        followed.
    start : Solution
        The other fit.
    """

    def at(kappa: float, near: Solution, search: bool | None = False) -> Solution:
        return refit(data, {**held, "kappa": kappa}, near, search=search)

    best, curvature = climb(at, at(start.kappa, start), widest=WIDEST)
    if search is False or held.get("tau", data.space.tau) is not None:
        return best
    searched = at(best.kappa, best, search)
    if searched.loglike_restricted <= best.loglike_restricted + SAME_LOGLIKE:
        return best
    return climb(at, searched, curvature=curvature, widest=WIDEST)[0]


def distinct(known: dict[float, Solution], value: float) -> list[Solution]:
    """Return the neighbours on both sides, one of them where both are nearly the same solution."""
    near = neighbours(known, value, 2)
    if len(near) == 2:
        one, two = near
        widths = abs(log_width(one.kappa) - log_width(two.kappa))
        if widths < SAME_WIDTH and abs(one.tau - two.tau) < SAME_TAU:
            return near[:1]
    return near


def n_starts(data: ModelData, search: bool | None) -> int:
    """Return from how many neighbours to start: two where there may be several basins, unsearched."""
    return 2 if search is False and data.observations.endog.size <= SEVERAL_BASINS else 1


def neighbours(known: dict[float, Solution], value: float, count: int) -> list[Solution]:
    """Return the fits to start from: the nearest on each side, at most `count` of them."""
    below = [other for other in known if other <= value]
    above = [other for other in known if other > value]
    near = [*([max(below)] if below else []), *([min(above)] if above else [])]
    near.sort(key=lambda other: abs(other - value))
    return [known[other] for other in near[:count]]
