"""Table 1: coefficients recovered under one-sided noise, over repeated draws."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qhreg._typing import FloatArray
from qhreg.paper.curves import NOISE_DEVIATION, one_sign_residuals
from qhreg.paper.printed import POSITIVE
from qhreg.solver import solve
from qhreg.solver.over_kappa import solve_kappa

__all__ = [
    "COEFFICIENTS",
    "LEAST_SQUARES",
    "METHODS",
    "OURS",
    "PAPERS",
    "Cell",
    "Method",
    "RecoveryRow",
    "RecoveryTable",
    "expected_least_squares",
    "recovery_row",
    "recovery_sample",
    "recovery_table",
]


COEFFICIENTS = np.array([2.0, 5.0])
N_ROWS = 100


@dataclass(frozen=True)
class Method:
    """A way to estimate the coefficients by the quantile Huber likelihood.

    Attributes
    ----------
    name : str
        What the table calls it.
    kappa, sigma : float or None
        Fixed value, or None where it is estimated.
    """

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
"""The scale is estimated."""

METHODS = (*PAPERS, *OURS)

LEAST_SQUARES = "least squares"

CHEAP = 10
"""Draws of least squares for each draw of the other methods, which take a hundred times as long."""


class Estimate(NamedTuple):
    """What one fit contributes to the table."""

    beta: FloatArray
    tau: float
    warned: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One method in one row of the table.

    Attributes
    ----------
    errors : ndarray, shape (draws,)
        Squared error of each draw, averaged over the coefficients.
    taus : ndarray, shape (draws,)
        Estimated asymmetries; NaN for least squares.
    warned : tuple of tuple of str
        The kinds of warning that each fit gave.
    """

    errors: FloatArray
    taus: FloatArray
    warned: tuple[tuple[str, ...], ...]

    def first(self, draws: int) -> Cell:
        """Return the same method on the first draws."""
        return Cell(self.errors[:draws], self.taus[:draws], self.warned[:draws])

    def with_mirror(self, other: Cell) -> Cell:
        """Return the draws of this row and those of the row with the signs exchanged as one."""
        return Cell(
            np.concatenate([self.errors, other.errors]),
            np.concatenate([self.taus, 1.0 - other.taus]),
            self.warned + other.warned,
        )

    @property
    def mse(self) -> float:
        """Mean squared error."""
        return float(self.errors.mean())

    @property
    def mse_se(self) -> float:
        """Monte Carlo standard error of `mse`."""
        return float(self.errors.std(ddof=1) / np.sqrt(self.errors.size))

    @property
    def tau(self) -> float:
        """Mean of the estimated asymmetries."""
        return float(self.taus.mean())

    @property
    def tau_se(self) -> float:
        """Monte Carlo standard error of `tau`."""
        return float(self.taus.std(ddof=1) / np.sqrt(self.taus.size))


@dataclass(frozen=True)
class RecoveryRow:
    """All methods at one percentage of positive noise, on the same draws.

    Attributes
    ----------
    positive : int
        Percentage of positive noise.
    cells : dict of str to Cell
        By name of the method, least squares included.
    """

    positive: int
    cells: dict[str, Cell]


@dataclass(frozen=True)
class RecoveryTable:
    """Our version of Table 1.

    Attributes
    ----------
    rows : tuple of RecoveryRow
        In the order of the paper.
    repetitions, seed : int
        Number of draws in each row, least squares excepted; seed.
    """

    rows: tuple[RecoveryRow, ...]
    repetitions: int
    seed: int

    @property
    def warned(self) -> dict[str, dict[str, int]]:
        """How often each method gave each kind of warning, over all rows."""
        totals: dict[str, Counter[str]] = {}
        for row in self.rows:
            for name, cell in row.cells.items():
                totals.setdefault(name, Counter()).update(
                    kind for fit in cell.warned for kind in fit
                )
        return {name: dict(count) for name, count in totals.items() if count}

    def first(self, draws: int) -> RecoveryTable:
        """Return the table from the first draws of each row."""
        draws = min(draws, self.repetitions)
        rows = tuple(
            RecoveryRow(row.positive, {name: cell.first(draws) for name, cell in row.cells.items()})
            for row in self.rows
        )
        return RecoveryTable(rows, draws, self.seed)

    def settled(self) -> RecoveryTable:
        """Return the table with rows that mirror each other pooled.

        Changing the sign of the response turns p % positive noise into 100 - p %, tau into 1 - tau,
        and leaves the errors: both rows estimate the same numbers, from independent draws.
        """
        rows = tuple(
            RecoveryRow(
                row.positive,
                {name: cell.with_mirror(mirror.cells[name]) for name, cell in row.cells.items()},
            )
            for row, mirror in zip(self.rows, self.rows[::-1], strict=True)
        )
        return RecoveryTable(rows, 2 * self.repetitions, self.seed)


def recovery_sample(
    positive: int, repetition: int, seed: int = 0, n: int = N_ROWS
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


def expected_least_squares(n: int = N_ROWS) -> float:
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


def _least_squares(exog: FloatArray, endog: FloatArray) -> Estimate:
    beta = np.asarray(np.linalg.lstsq(exog, endog, rcond=None)[0], dtype=np.float64)
    return Estimate(beta, np.nan, ())


def _fit(method: Method, exog: FloatArray, endog: FloatArray) -> Estimate:
    """Return the fit with the names of the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if method.kappa is None:
            found = solve_kappa(exog, endog, sigma=method.sigma).solution
        else:
            found = solve(exog, endog, kappa=method.kappa, sigma=method.sigma)
    return Estimate(found.beta, found.tau, tuple(_kind(each.message) for each in caught))


def _kind(message: Warning | str) -> str:
    """Return a warning's class with what it is about: the first word of its message."""
    return f"{type(message).__name__} ({str(message).split()[0].rstrip(':')})"


def _cell(estimates: list[Estimate]) -> Cell:
    errors = [float(np.mean((each.beta - COEFFICIENTS) ** 2)) for each in estimates]
    taus = np.array([each.tau for each in estimates])
    return Cell(np.array(errors), taus, tuple(each.warned for each in estimates))


def recovery_row(
    positive: int,
    repetitions: int = 100,
    *,
    seed: int = 0,
    methods: tuple[Method, ...] = METHODS,
) -> RecoveryRow:
    """Return every method's errors at one percentage of positive noise.

    Parameters
    ----------
    positive : int
        Percentage of positive noise.
    repetitions, seed : int
        Number of draws, seed. Least squares gets ten times as many, the first ones the same.
    methods : tuple of Method
        Which besides least squares.

    Examples
    --------
    >>> from qhreg.paper.recovery import PAPERS, recovery_row
    >>> row = recovery_row(100, repetitions=5, methods=PAPERS[:1])
    >>> row.cells["paper, kappa 1"].mse < row.cells["least squares"].mse
    True
    """
    samples = [recovery_sample(positive, i, seed) for i in range(CHEAP * repetitions)]
    cells = {LEAST_SQUARES: _cell([_least_squares(x, y) for x, y in samples])}
    samples = samples[:repetitions]
    for method in methods:
        cells[method.name] = _cell([_fit(method, x, y) for x, y in samples])
    return RecoveryRow(positive, cells)


def recovery_table(
    repetitions: int = 100,
    *,
    seed: int = 0,
    methods: tuple[Method, ...] = METHODS,
    progress: Callable[[str], object] | None = None,
) -> RecoveryTable:
    """Return our version of Table 1.

    Parameters
    ----------
    repetitions, seed, methods
        As in :func:`recovery_row`.
    progress : callable, optional
        Told about each row before it is made.
    """
    rows = []
    for number, positive in enumerate(POSITIVE, 1):
        if progress is not None:
            progress(f"Table 1, row {number} of {len(POSITIVE)}: {positive} % positive noise")
        rows.append(recovery_row(positive, repetitions, seed=seed, methods=methods))
    return RecoveryTable(tuple(rows), repetitions, seed)
