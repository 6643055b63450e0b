"""Table 1, coefficients recovered under one-sided noise, and the penalty at fixed tau on its draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from qhreg._typing import FloatArray
from qhreg.model import QuantileHuberMLE
from qhreg.paper.curves import NOISE_DEVIATION, one_sign_residuals

# ------------------------------------------------------------------ what the paper prints


@dataclass(frozen=True)
class Printed:
    """A row of Table 1: errors of the coefficients, mean asymmetry, by percentage of positive noise."""

    positive: int
    least_squares: float
    proposed: float
    tau: float


TABLE_1 = (
    Printed(100, 0.255, 0.036, 0.788),
    Printed(80, 0.270, 0.143, 0.719),
    Printed(60, 0.231, 0.135, 0.587),
    Printed(40, 0.260, 0.157, 0.422),
    Printed(20, 0.248, 0.103, 0.289),
    Printed(0, 0.263, 0.039, 0.212),
)

DRAWS = 100
"""Draws behind each figure of Table 1."""

POSITIVE = tuple(entry.positive for entry in TABLE_1)
"""Percentages of positive noise, in the order of Table 1."""

PENALTY_MINIMA = {100: 0.79, 80: 0.72, 60: 0.59, 40: 0.42, 20: 0.29, 0: 0.21}
"""Where the mean normalised penalty is least, by percentage of positive noise.

The caption lists these values "respectively" to percentages that rise from 0 to 100, which would
give 100 % positive noise the lowest tau; Table 1 and the rest of the paper show the order meant.
"""


# ------------------------------------------------------------------ draws and fits

COEFFICIENTS = np.array([2.0, 5.0])


@dataclass(frozen=True)
class Method:
    """A fit by the quantile Huber likelihood: its name, and kappa and sigma, None where estimated."""

    name: str
    kappa: float | None
    sigma: float | None


PAPERS = (Method("paper, kappa 1", 1.0, 1.0), Method("paper, kappa 0.05", 0.05, 1.0))
"""The paper's model: the scale is not estimated."""

OURS = (
    Method("ours, kappa 1", 1.0, None),
    Method("ours, kappa 0.05", 0.05, None),
    Method("ours, kappa estimated", None, None),
)
"""The scale is estimated, with the defaults of the model."""

METHODS = (*PAPERS, *OURS)

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
    return exog, exog @ COEFFICIENTS + one_sign_residuals(positive, n, state, NOISE_DEVIATION)


def expected_least_squares(n: int = 100) -> float:
    r"""Return the expected squared error of a least-squares coefficient, the same in every row.

    .. math::

        \frac{E|\nu|^2 / n}{n - p - 1}

    with p = 2 standard normal regressors: their law is invariant under rotations of the rows, so
    that only the length of the noise matters, not its signs.

    Examples
    --------
    >>> from qhreg.paper.recovery import expected_least_squares
    >>> round(expected_least_squares(), 4)
    0.2577
    """
    return NOISE_DEVIATION**2 / (n - COEFFICIENTS.size - 1)


def _estimate(
    method: Method, exog: FloatArray, endog: FloatArray
) -> tuple[FloatArray, float, tuple[str, ...]]:
    """Return coefficients, tau, and the warnings by class and first word: "BoundaryWarning (tau)"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = QuantileHuberMLE(endog, exog, kappa=method.kappa, sigma=method.sigma).fit()
    kinds = [
        f"{type(each.message).__name__} ({str(each.message).split()[0].rstrip(':')})"
        for each in caught
    ]
    return np.asarray(fit.params)[: COEFFICIENTS.size], float(fit.tau), tuple(kinds)


def recovery_draws(
    positive: int,
    repetitions: int = DRAWS,
    *,
    seed: int = 0,
    methods: Sequence[Method] = METHODS,
) -> pd.DataFrame:
    """Return what every method gave on the same draws at one percentage of positive noise.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed. Least squares gets ten times as many, the first ones the same.
    methods : sequence of Method
        Which besides least squares.

    Returns
    -------
    DataFrame
        One row for each fit: `positive`, `draw`, `method`; `error`, the squared error averaged over
        the coefficients; `tau`; `warned`, a tuple of the kinds of warning.

    Examples
    --------
    >>> from qhreg.paper.recovery import PAPERS, recovery_draws
    >>> draws = recovery_draws(100, repetitions=5, methods=PAPERS[:1])
    >>> errors = draws.groupby("method")["error"].mean()
    >>> bool(errors["paper, kappa 1"] < errors["least squares"])
    True
    """

    def rows() -> Iterator[tuple[object, ...]]:
        for draw in range(10 * repetitions):  # the other methods take a hundred times as long
            exog, endog = recovery_sample(positive, draw, seed)
            beta = np.linalg.lstsq(exog, endog, rcond=None)[0]
            yield draw, LEAST_SQUARES, np.mean((beta - COEFFICIENTS) ** 2), np.nan, ()
            for method in methods if draw < repetitions else ():
                beta, tau, warned = _estimate(method, exog, endog)
                yield draw, method.name, np.mean((beta - COEFFICIENTS) ** 2), tau, warned

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

_PRINTED = pd.DataFrame(list(TABLE_1)).set_index("positive")


def _by_row(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table with one row for each percentage of positive noise."""
    return pd.DataFrame(columns, index=_PRINTED.index).rename_axis("positive (%)").reset_index()


def agreement_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return tau of the paper's model (kappa = 0.05) and least squares beside the printed figures."""
    model, squares = (summary(draws, name) for name in (PAPERS[1].name, LEAST_SQUARES))
    columns = {
        "tau: paper": _PRINTED["tau"].map("{:.3f}".format),
        "tau: here": model["tau"].map("{:.3f}".format),
        "difference": (model["tau"] - _PRINTED["tau"]).map("{:+.3f}".format),
        "least squares: paper": _PRINTED["least_squares"].map("{:.3f}".format),
        "least squares: here": squares["mse"].map("{:.3f}".format),
        "ratio": (squares["mse"] / _PRINTED["least_squares"]).map("{:.2f}".format),
    }
    return _by_row(columns)


def error_differences(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of the paper's model (kappa = 0.05) and of the best of ours beside the printed.

    z is the difference in units of its standard error, in which the printed figure has the error of
    a mean of 100 draws of the paper's model.
    """
    model = summary(draws, PAPERS[1].name)
    ours = pd.concat({method.name: summary(draws, method.name) for method in OURS})
    names = ours["mse"].unstack(0)[[method.name for method in OURS]].idxmin(axis=1)
    best = pd.DataFrame([ours.loc[names[p], p] for p in POSITIVE], index=_PRINTED.index)

    def z(fits: pd.DataFrame) -> pd.Series[str]:
        gap = fits["mse"] - _PRINTED["proposed"]
        return (gap / np.hypot(fits["mse_se"], model["printed_se"])).map("{:+.1f}".format)

    return _by_row(
        {
            "paper": _PRINTED["proposed"].map("{:.3f}".format),
            "its model here": model["mse"].map("{:.3f}".format),
            "z": z(model),
            "best of ours": best["mse"].map("{:.3f}".format),
            "z of ours": z(best),
            "which": [str(names[p]).removeprefix("ours, ") for p in POSITIVE],
        }
    )


def _by_share(rows: dict[str, list[str]]) -> pd.DataFrame:
    """Return a table with one column for each percentage of positive noise."""
    columns = [f"{positive} %" for positive in POSITIVE]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return frame.rename_axis("positive noise").reset_index()


def error_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the mean squared errors ± one Monte Carlo standard error, the paper's above ours."""

    def cells(means: pd.Series[float], errors: pd.Series[float]) -> list[str]:
        return [f"{means[p]:.3f} ± {errors[p]:.3f}" for p in POSITIVE]

    rows = {
        f"printed: {column.replace('_', ' ')}": cells(
            _PRINTED[column], summary(draws, method)["printed_se"]
        )
        for column, method in {"least_squares": LEAST_SQUARES, "proposed": PAPERS[1].name}.items()
    }
    for name in (LEAST_SQUARES, *(method.name for method in METHODS)):
        means = summary(draws, name)
        rows[name] = cells(means["mse"], means["mse_se"])
    return _by_share(rows)


def tau_estimates(draws: pd.DataFrame) -> pd.DataFrame:
    """Return the mean estimates of tau ± one Monte Carlo standard error, the paper's above ours."""
    rows = {"printed": [f"{entry.tau:.3f}" for entry in TABLE_1]}
    for method in METHODS:
        means = summary(draws, method.name)
        rows[method.name] = [f"{means['tau'][p]:.4f} ± {means['tau_se'][p]:.4f}" for p in POSITIVE]
    return _by_share(rows)


def warning_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Return how many fits each method made, and how many gave each kind of warning."""
    own = draws[draws["method"] != LEAST_SQUARES]
    fits = own.groupby("method", sort=False).size().rename("fits")
    warned = own.explode("warned").dropna(subset="warned")
    counts = pd.crosstab(warned["method"], warned["warned"])
    return fits.to_frame().join(counts).fillna(0).astype(int).reset_index()


# ------------------------------------------------------------------ penalty at fixed tau

WIDE, NARROW = 1.0, 0.05
"""The width that the caption names, and the one that Table 1 speaks for."""

TAUS = np.linspace(0.04, 0.96, 47)

NEAR: FloatArray = 0.02 * np.arange(-2.0, 3.0)
"""Distances from a minimum at which it is looked for again."""


@dataclass(frozen=True)
class PenaltyCurve:
    """The normalised penalty after regression at each tau, averaged over draws and rows.

    Attributes
    ----------
    positive : int
        Percentage of positive noise.
    kappa : float
        Huber width; sigma is 1.
    taus, penalty : ndarray, shape (m,)
        Asymmetries and penalties.
    minimum : float
        Where the penalty is least, by the parabola through the three lowest neighbours.
    error : float
        Monte Carlo standard error of `minimum`: that of the slope there, over the curvature.
    draws : int
        Number of draws.
    """

    positive: int
    kappa: float
    taus: FloatArray
    penalty: FloatArray
    minimum: float
    error: float
    draws: int

    @classmethod
    def from_draws(
        cls, positive: int, kappa: float, taus: FloatArray, values: FloatArray
    ) -> PenaltyCurve:
        """Return the curve from the penalty of each draw at each tau, shape (draws, m)."""
        penalty = values.mean(axis=0)
        i = int(np.clip(np.argmin(penalty), 1, penalty.size - 2))
        step = float(taus[i + 1] - taus[i])
        slopes = (values[:, i + 1] - values[:, i - 1]) / (2.0 * step)
        curvature = float(penalty[i - 1] - 2.0 * penalty[i] + penalty[i + 1]) / step**2
        minimum = float(taus[i] - slopes.mean() / curvature)
        spread = float(slopes.std(ddof=1)) if len(values) > 1 else np.nan
        error = spread / (np.sqrt(len(values)) * curvature)
        return cls(positive, kappa, taus, penalty, minimum, error, len(values))


def _penalties(
    positive: int, repetitions: int, kappa: float, seed: int, taus: FloatArray
) -> FloatArray:
    """Return the mean penalty of each draw of Table 1 at each tau, shape (repetitions, m)."""
    values = np.empty((repetitions, taus.size))
    for repetition in range(repetitions):
        exog, endog = recovery_sample(positive, repetition, seed)
        for i, tau in enumerate(taus):
            model = QuantileHuberMLE(endog, exog, kappa=kappa, sigma=1.0, tau=float(tau))
            values[repetition, i] = -model.fit().llf
    return values / endog.size


def penalty_curve(
    positive: int,
    repetitions: int = DRAWS,
    *,
    kappa: float = WIDE,
    seed: int = 0,
    taus: FloatArray = TAUS,
) -> PenaltyCurve:
    """Return the curve at one percentage of positive noise, on the draws of Table 1.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed: as in :func:`recovery_draws`.
    kappa : float
        Huber width.
    taus : ndarray, shape (m,)
        Where, equally spaced.

    Examples
    --------
    >>> from qhreg.paper.recovery import penalty_curve
    >>> 0.7 < penalty_curve(100, repetitions=2).minimum < 0.9
    True
    """
    values = _penalties(positive, repetitions, kappa, seed, taus)
    return PenaltyCurve.from_draws(positive, kappa, taus, values)


def pooled_minima(
    curves: Sequence[PenaltyCurve],
    repetitions: int,
    *,
    kappa: float = WIDE,
    seed: int = 0,
    progress: Callable[[str], object] = lambda text: None,
) -> tuple[PenaltyCurve, ...]:
    """Return the curves near their minima from more draws, rows that mirror each other pooled.

    The penalty at tau with p % positive noise has the law of that at 1 - tau with 100 - p %.

    Parameters
    ----------
    curves : sequence of PenaltyCurve
        Where the minima were found with fewer, in the order of Table 1.
    repetitions, seed : int
        As in :func:`penalty_curve`; the first draws are those of the curves.
    kappa : float
        Huber width.
    progress : callable, optional
        Told about each pair of rows before it is made.
    """
    half = len(curves) // 2
    upper, lower = [], []
    for curve, mirror in zip(curves[:half], curves[::-1], strict=False):
        p, q = curve.positive, mirror.positive
        progress(f"least penalty at kappa = {kappa:g}: {p} and {q} % positive noise")
        taus: FloatArray = 0.5 * (curve.minimum + 1.0 - mirror.minimum) + NEAR
        ends = [
            _penalties(p, repetitions, kappa, seed, taus),
            _penalties(q, repetitions, kappa, seed, 1.0 - taus),
        ]
        values = np.concatenate(ends)
        upper.append(PenaltyCurve.from_draws(p, kappa, taus, values))
        lower.append(PenaltyCurve.from_draws(q, kappa, 1.0 - taus[::-1], values[:, ::-1]))
    return (*upper, *lower[::-1])


def penalty_table(
    wide: Sequence[PenaltyCurve], narrow: Sequence[PenaltyCurve], draws: pd.DataFrame
) -> pd.DataFrame:
    """Return the minima at the two widths beside the caption's and the tau of the joint fits."""
    table = pd.DataFrame(
        {
            "positive (%)": [curve.positive for curve in wide],
            "caption": [f"{PENALTY_MINIMA[curve.positive]:.2f}" for curve in wide],
        }
    )
    for method, curves in zip(PAPERS, (wide, narrow), strict=True):
        width = f"kappa {curves[0].kappa:g}"
        off = [curve.minimum - PENALTY_MINIMA[curve.positive] for curve in curves]
        table[f"{width}: least at"] = [f"{c.minimum:.4f} ± {c.error:.4f}" for c in curves]
        table[f"{width}: difference"] = [f"{distance:+.4f}" for distance in off]
        joint = summary(draws, method.name)["tau"]
        table[f"{width}: joint fit"] = [f"{joint[curve.positive]:.4f}" for curve in curves]
    return table


def width_test(curves: Sequence[PenaltyCurve]) -> float:
    """Return the chi-square statistic, one degree per row, of the caption's minima at a width.

    The caption's figure has the error of an average of its 100 draws and that of rounding to two
    digits, ours that of the draws made here.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.paper.recovery import PenaltyCurve, width_test
    >>> curve = PenaltyCurve(40, 1.0, np.zeros(3), np.zeros(3), 0.43, 0.005, 100)
    >>> round(width_test([curve]), 3)
    1.714
    """
    total = 0.0
    for curve in curves:
        papers = curve.error**2 * curve.draws / DRAWS + 0.01**2 / 12.0
        off = curve.minimum - PENALTY_MINIMA[curve.positive]
        total += off**2 / (papers + curve.error**2)
    return total


def width_table(*widths: Sequence[PenaltyCurve]) -> pd.DataFrame:
    """Return the chi-square test of the caption's minima at each width."""
    return pd.DataFrame(
        {
            "kappa": f"{curves[0].kappa:g}",
            "chi-square": f"{width_test(curves):.1f}",
            "degrees": len(curves),
            "p": f"{special.chdtrc(len(curves), width_test(curves)):.2g}",
        }
        for curves in widths
    )
