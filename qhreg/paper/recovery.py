"""Table 1, coefficients recovered under one-sided noise, and the penalty at fixed tau on its draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from qhreg._typing import FloatArray
from qhreg.model import QuantileHuberMLE
from qhreg.paper.curves import one_sign_residuals

TABLE_1 = pd.DataFrame(
    {
        "least_squares": [0.255, 0.270, 0.231, 0.260, 0.248, 0.263],
        "proposed": [0.036, 0.143, 0.135, 0.157, 0.103, 0.039],
        "tau": [0.788, 0.719, 0.587, 0.422, 0.289, 0.212],
        "minimum": [0.79, 0.72, 0.59, 0.42, 0.29, 0.21],
    },
    index=pd.Index([100, 80, 60, 40, 20, 0], name="positive"),
)
"""What the paper prints, by percentage of positive noise.

Errors of the coefficients and mean asymmetry are those of Table 1. `minimum` is where the mean
normalised penalty is least: the caption lists these values "respectively" to percentages that rise
from 0 to 100, which would give 100 % positive noise the lowest tau; Table 1 and the rest of the paper
show the order meant.
"""

DRAWS = 100
"""Draws behind each figure of Table 1."""

POSITIVE = tuple(TABLE_1.index)
"""Percentages of positive noise, in the order of Table 1."""


# ------------------------------------------------------------------ draws and fits

COEFFICIENTS = np.array([2.0, 5.0])

WIDE, NARROW = "paper, kappa 1", "paper, kappa 0.05"
"""The paper's model at the width that the caption of the penalty names, and at that of Table 1."""

PAPERS: dict[str, dict[str, Any]] = {
    WIDE: {"kappa": 1.0, "sigma": 1.0},
    NARROW: {"kappa": 0.05, "sigma": 1.0},
}
"""The options of the paper's model by its name: the scale is not estimated."""

OURS: dict[str, dict[str, Any]] = {
    "ours, kappa 1": {"kappa": 1.0},
    "ours, kappa 0.05": {"kappa": 0.05},
    "ours, kappa estimated": {"kappa": None},
}
"""The scale is estimated, with the defaults of the model."""

METHODS = PAPERS | OURS

LEAST_SQUARES = "least squares"


def recovery_sample(
    positive: int, repetition: int, seed: int = 0, n: int = 100
) -> tuple[FloatArray, FloatArray]:
    """Return the regressors, shape (n, 2), and the response, shape (n,), of one draw.

    Two standard normal regressors, coefficients 2 and 5, no intercept, Laplacian noise of standard
    deviation 5 whose signs are replaced by the given percentage of positive ones.

    Examples
    --------
    >>> from qhreg.paper.recovery import COEFFICIENTS, recovery_sample
    >>> x, y = recovery_sample(80, 0)
    >>> x.shape, int((y - x @ COEFFICIENTS > 0).sum())
    ((100, 2), 80)
    """
    # one stream for each draw, so that a row does not depend on which others were made
    regressors, noise = np.random.SeedSequence([seed, positive, repetition]).spawn(2)
    exog = np.random.default_rng(regressors).standard_normal((n, COEFFICIENTS.size))
    state = int(noise.generate_state(1)[0])
    return exog, exog @ COEFFICIENTS + one_sign_residuals(positive, n, state)


def _estimate(
    method: str, exog: FloatArray, endog: FloatArray
) -> tuple[FloatArray, float, tuple[str, ...]]:
    """Return coefficients, tau, and the warnings by class and first word: "BoundaryWarning (tau)"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = QuantileHuberMLE(endog, exog, **METHODS[method]).fit()
    kinds = [
        f"{type(each.message).__name__} ({str(each.message).split()[0].rstrip(':')})"
        for each in caught
    ]
    return np.asarray(fit.params)[: COEFFICIENTS.size], float(fit.tau), tuple(kinds)


def recovery_draws(
    positive: int, repetitions: int = DRAWS, *, seed: int = 0, methods: Collection[str] = METHODS
) -> pd.DataFrame:
    """Return what every method gave on the same draws at one percentage of positive noise.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed. Least squares gets ten times as many, the first ones the same.
    methods : collection of str
        Which of `METHODS` besides least squares.

    Returns
    -------
    DataFrame
        One row for each fit: `positive`, `draw`, `method`; `error`, the squared error averaged over
        the coefficients; `tau`; `warned`, a tuple of the kinds of warning.

    Examples
    --------
    >>> from qhreg.paper.recovery import NARROW, recovery_draws
    >>> draws = recovery_draws(100, repetitions=5, methods=[NARROW])
    >>> errors = draws.groupby("method")["error"].mean()
    >>> bool(errors[NARROW] < errors["least squares"])
    True
    """

    def rows() -> Iterator[tuple[object, ...]]:
        for draw in range(10 * repetitions):  # the other methods take a hundred times as long
            exog, endog = recovery_sample(positive, draw, seed)
            beta = np.linalg.lstsq(exog, endog, rcond=None)[0]
            yield draw, LEAST_SQUARES, np.mean((beta - COEFFICIENTS) ** 2), np.nan, ()
            for method in methods if draw < repetitions else ():
                beta, tau, warned = _estimate(method, exog, endog)
                yield draw, method, np.mean((beta - COEFFICIENTS) ** 2), tau, warned

    frame = pd.DataFrame(rows(), columns=["draw", "method", "error", "tau", "warned"])
    return frame.assign(positive=positive)


def pooled(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the draws with those of the mirrored percentage added to each percentage.

    Changing the sign of the response turns p % positive noise into 100 - p %, tau into 1 - tau, and
    leaves the errors: both rows estimate the same numbers, from independent draws.
    """
    mirrored = draws.assign(positive=100 - draws["positive"], tau=1.0 - draws["tau"])
    return pd.concat([draws, mirrored], ignore_index=True)


def summary(draws: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return the means of a method with their Monte Carlo standard errors, by percentage.

    Returns
    -------
    DataFrame
        Indexed by `positive`: `mse` and `tau` with their standard errors `mse_se` and `tau_se`, and
        `printed_se`, that of the mean of as many squared errors as the paper averaged.
    """
    groups = draws[draws["method"] == method].groupby("positive", sort=False)
    return pd.DataFrame(
        {
            "mse": groups["error"].mean(),
            "mse_se": groups["error"].sem(),
            "tau": groups["tau"].mean(),
            "tau_se": groups["tau"].sem(),
            "printed_se": groups["error"].std() / np.sqrt(DRAWS),
        }
    )


# ------------------------------------------------------------------ tables


def _by_row(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table with one row for each percentage of positive noise."""
    return pd.DataFrame(columns, index=TABLE_1.index).rename_axis("positive (%)").reset_index()


def _by_column(rows: dict[str, Any]) -> pd.DataFrame:
    """Return a table with one column for each percentage of positive noise."""
    table = pd.DataFrame(rows, index=TABLE_1.index).T.rename(columns="{} %".format)
    return table.rename_axis(index="positive noise", columns=None).reset_index()


def _plus_minus(means: pd.Series[float], errors: pd.Series[float], digits: int) -> pd.Series[str]:
    """Return means ± one standard error as text."""
    text = f"{{:.{digits}f}}".format
    return means.map(text) + " ± " + errors.map(text)


def agreement_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return tau of the paper's model (kappa = 0.05) and least squares beside the printed figures."""
    tau, squares = summary(draws, NARROW)["tau"], summary(draws, LEAST_SQUARES)["mse"]
    return _by_row(
        {
            "tau: paper": TABLE_1["tau"].map("{:.3f}".format),
            "tau: here": tau.map("{:.3f}".format),
            "difference": (tau - TABLE_1["tau"]).map("{:+.3f}".format),
            "least squares: paper": TABLE_1["least_squares"].map("{:.3f}".format),
            "least squares: here": squares.map("{:.3f}".format),
            "ratio": (squares / TABLE_1["least_squares"]).map("{:.2f}".format),
        }
    )


def error_differences(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of the paper's model (kappa = 0.05) and of the best of ours beside the printed.

    z is the difference in units of its standard error, in which the printed figure has the error of
    a mean of 100 draws of the paper's model.
    """
    model = summary(draws, NARROW)
    ours = {name: summary(draws, name) for name in OURS}
    names = pd.DataFrame({name: means["mse"] for name, means in ours.items()}).idxmin(axis=1)
    best = pd.concat([ours[str(names[p])].loc[[p]] for p in POSITIVE])

    def z(fits: pd.DataFrame) -> pd.Series[str]:
        gap = fits["mse"] - TABLE_1["proposed"]
        return (gap / np.hypot(fits["mse_se"], model["printed_se"])).map("{:+.1f}".format)

    return _by_row(
        {
            "paper": TABLE_1["proposed"].map("{:.3f}".format),
            "its model here": model["mse"].map("{:.3f}".format),
            "z": z(model),
            "best of ours": best["mse"].map("{:.3f}".format),
            "z of ours": z(best),
            "which": [str(names[p]).removeprefix("ours, ") for p in POSITIVE],
        }
    )


def error_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the mean squared errors ± one Monte Carlo standard error, the paper's above ours."""
    rows = {}
    for column, name in {"least_squares": LEAST_SQUARES, "proposed": NARROW}.items():
        errors = summary(draws, name)["printed_se"]
        rows[f"printed: {column.replace('_', ' ')}"] = _plus_minus(TABLE_1[column], errors, 3)
    for name in (LEAST_SQUARES, *METHODS):
        means = summary(draws, name)
        rows[name] = _plus_minus(means["mse"], means["mse_se"], 3)
    return _by_column(rows)


def tau_estimates(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the mean estimates of tau ± one Monte Carlo standard error, the paper's above ours."""
    rows = {"printed": TABLE_1["tau"].map("{:.3f}".format)}
    for name in METHODS:
        means = summary(draws, name)
        rows[name] = _plus_minus(means["tau"], means["tau_se"], 4)
    return _by_column(rows)


def warning_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return how many fits each method made, and how many gave each kind of warning."""
    own = draws[draws["method"] != LEAST_SQUARES]
    fits = own.groupby("method", sort=False).size().rename("fits")
    warned = own.explode("warned").dropna(subset="warned")
    counts = pd.crosstab(warned["method"], warned["warned"])
    return fits.to_frame().join(counts).fillna(0).astype(int).reset_index()


# ------------------------------------------------------------------ penalty at fixed tau

TAUS = np.linspace(0.04, 0.96, 47)

NEAR: FloatArray = 0.02 * np.arange(-2.0, 3.0)
"""Distances from a minimum at which it is looked for again."""


def penalties(
    positive: int,
    repetitions: int = DRAWS,
    *,
    kappa: float = 1.0,
    seed: int = 0,
    taus: FloatArray = TAUS,
) -> FloatArray:
    """Return the normalised penalty after regression of the draws of Table 1, averaged over the rows.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed: as in :func:`recovery_draws`.
    kappa : float
        Huber width; sigma is 1. The caption names 1.
    taus : ndarray, shape (m,)
        Asymmetries, held fixed.

    Returns
    -------
    ndarray, shape (repetitions, m)
        One row for each draw.
    """
    values = np.empty((repetitions, taus.size))
    for repetition in range(repetitions):
        exog, endog = recovery_sample(positive, repetition, seed)
        for i, tau in enumerate(taus):
            model = QuantileHuberMLE(endog, exog, kappa=kappa, sigma=1.0, tau=float(tau))
            values[repetition, i] = -model.fit().llf / endog.size
    return values


def least_penalty(taus: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Return where the mean penalty of the draws is least, and the Monte Carlo standard error of that.

    The parabola through the three lowest neighbours is least there. The error is that of the slope,
    over the curvature.

    Parameters
    ----------
    taus : ndarray, shape (m,)
        Equally spaced.
    values : ndarray, shape (draws, m)
        From :func:`penalties`.

    Examples
    --------
    >>> from qhreg.paper.recovery import TAUS, least_penalty, penalties
    >>> 0.7 < least_penalty(TAUS, penalties(100, 2))[0] < 0.9
    True
    """
    penalty = values.mean(axis=0)
    i = int(np.clip(np.argmin(penalty), 1, penalty.size - 2))
    step = float(taus[i + 1] - taus[i])
    slopes = (values[:, i + 1] - values[:, i - 1]) / (2.0 * step)
    curvature = float(penalty[i - 1] - 2.0 * penalty[i] + penalty[i + 1]) / step**2
    spread = float(slopes.std(ddof=1)) if len(values) > 1 else np.nan
    error = spread / (np.sqrt(len(values)) * curvature)
    return float(taus[i] - slopes.mean() / curvature), error


def pooled_minima(
    rough: Mapping[int, float],
    repetitions: int,
    *,
    kappa: float = 1.0,
    seed: int = 0,
    progress: Callable[[str], object] = lambda text: None,
) -> pd.DataFrame:
    """Return the minima from more draws, rows that mirror each other pooled.

    The penalty at tau with p % positive noise has the law of that at 1 - tau with 100 - p %.

    Parameters
    ----------
    rough : mapping of int to float
        Where the minima were found with fewer draws, by percentage of positive noise.
    repetitions, seed : int
        As in :func:`penalties`; the first draws are those of the rough ones.
    kappa : float
        Huber width.
    progress : callable, optional
        Told about each pair of rows before it is made.

    Returns
    -------
    DataFrame
        Indexed by `positive`: `minimum`, its standard error `error`, and the number of `draws`.
    """
    minima = {}
    for p, q in ((p, 100 - p) for p in rough if p > 50):
        progress(f"least penalty at kappa = {kappa:g}: {p} and {q} % positive noise")
        taus: FloatArray = 0.5 * (rough[p] + 1.0 - rough[q]) + NEAR
        upper = penalties(p, repetitions, kappa=kappa, seed=seed, taus=taus)
        lower = penalties(q, repetitions, kappa=kappa, seed=seed, taus=1.0 - taus)
        minimum, error = least_penalty(taus, np.concatenate([upper, lower]))
        minima[p] = {"minimum": minimum, "error": error, "draws": 2 * repetitions}
        minima[q] = {**minima[p], "minimum": 1.0 - minimum}
    return pd.DataFrame.from_dict(minima, orient="index").rename_axis("positive")


def penalty_table(minima: Mapping[str, pd.DataFrame], draws: pd.DataFrame) -> pd.DataFrame:
    """Return the minima of the paper's models beside the caption's and the tau of the joint fits."""
    columns = {"caption": TABLE_1["minimum"].map("{:.2f}".format)}
    for name, shares in minima.items():
        width = name.removeprefix("paper, ")
        distance = shares["minimum"] - TABLE_1["minimum"]
        columns[f"{width}: least at"] = _plus_minus(shares["minimum"], shares["error"], 4)
        columns[f"{width}: difference"] = distance.map("{:+.4f}".format)
        columns[f"{width}: joint fit"] = summary(draws, name)["tau"].map("{:.4f}".format)
    return _by_row(columns)


def width_test(minima: pd.DataFrame) -> float:
    """Return the chi-square statistic, one degree per row, of the caption's minima at a width.

    The caption's figure has the error of an average of its 100 draws and that of rounding to two
    digits, ours that of the draws made here.

    Examples
    --------
    >>> import pandas as pd
    >>> from qhreg.paper.recovery import width_test
    >>> minima = pd.DataFrame({"minimum": 0.43, "error": 0.005, "draws": 100}, index=[40])
    >>> round(width_test(minima), 3)
    1.714
    """
    papers = minima["error"] ** 2 * minima["draws"] / DRAWS + 0.01**2 / 12.0
    distance = minima["minimum"] - TABLE_1["minimum"]
    return float((distance**2 / (papers + minima["error"] ** 2)).sum())


def width_table(minima: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the chi-square test of the caption's minima at the width of each of the paper's models."""
    return pd.DataFrame(
        {
            "kappa": f"{PAPERS[name]['kappa']:g}",
            "chi-square": f"{width_test(shares):.1f}",
            "degrees": len(shares),
            "p": f"{special.chdtrc(len(shares), width_test(shares)):.2g}",
        }
        for name, shares in minima.items()
    )
