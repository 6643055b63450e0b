"""The numbers behind the plots along one regressor: the fit, and component plus residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import FitFigure, PartialResidualFigure
from qhreg.diagnostics.residuals import (
    checked_levels,
    group_quantiles,
    groups_of_rows,
    thinned,
)
from qhreg.exceptions import DomainError
from qhreg.family.distribution import quantile_huber
from qhreg.specification.parameters import RowLaw
from qhreg.specification.typical import TypicalRows


def fit_figure(
    typical: TypicalRows,
    law: Callable[[FloatArray], RowLaw],
    u: Any,
    *,
    levels: Sequence[float],
    y_name: str,
) -> FitFigure:
    r"""Return the fit along one regressor, the others at typical values, with fitted quantiles.

    Parameters
    ----------
    typical : TypicalRows
        The regressor, and the typical values of the others.
    law : callable
        Gives the law at values of the regressor, with the others at typical values.
    u : array_like, shape (n,)
        Standardised residuals of the rows.
    levels : sequence of float
        Levels of the quantiles.
    y_name : str
        Name of the response.

    Notes
    -----
    A row is drawn at :math:`\mu(x_i) + \sigma(x_i) u_i`, with the location and scale that it would have
    if the others were typical: with one regressor, at its response.
    """
    wanted = checked_levels(levels)
    shown = thinned(typical.observed.size)
    x, grid = typical.observed[shown], typical.grid
    at_rows, at_grid = law(x), law(grid)
    sigma, tau = (v[:, None] if np.ndim(v) else v for v in (at_grid.sigma, at_grid.tau))
    bands = sigma * quantile_huber.ppf(wanted, tau, at_grid.kappa)
    return FitFigure(
        x,
        at_rows.location + at_rows.sigma * np.asarray(u)[shown],
        grid,
        at_grid.location,
        wanted,
        at_grid.location[:, None] + bands,
        typical.name,
        y_name,
        typical.others_text,
        typical.levels,
        typical.observed.size,
    )


def partial_residual_figure(
    x: Any,
    resid: Any,
    component: Any,
    *,
    line: tuple[Any, Any] | None = None,
    name: str = "x",
    term: str | None = None,
    categories: Sequence[Any] | None = None,
    weights: Any = None,
) -> PartialResidualFigure:
    r"""Return component plus residual of one regressor.

    Parameters
    ----------
    x : array_like, shape (n,)
        The regressor; of a factor the place of the level among the categories.
    resid : array_like, shape (n,)
        Residuals of the fit.
    component : array_like, shape (n,)
        What the regressor contributes to the location of each row.
    line : (array_like, array_like), optional
        The fitted component over a grid of x; by default a straight line between the ends.
    name : str
        Name of the regressor.
    term : str, optional
        The term of the formula; the name by default.
    categories : sequence, optional
        The levels of a factor; they are the groups then. Else rows with similar x are, 20 or more,
        in 12 groups at most; equal values are in one group.
    weights : array_like, shape (n,), optional
        Case weights of the quantiles in the groups.

    Notes
    -----
    The partial residual of row i is :math:`f_j(x_i) + r_i`, for a straight component
    :math:`x_i\hat\beta_j + r_i`. A fit that is right in this regressor leaves the same share of them
    below the line everywhere: in groups of rows the quantile of the residuals at that share, added to
    the line at the middle of the group, lies near it; a bend that the fit does not have shows as a bend
    of the groups.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.diagnostics.regressors import partial_residual_figure
    >>> x = np.arange(4.0)
    >>> figure = partial_residual_figure(x, np.array([1.0, -1.0, 1.0, -1.0]), 2.0 * x)
    >>> figure.partial
    array([1., 1., 5., 5.])
    """
    values, r, fitted = (np.asarray(v, dtype=np.float64) for v in (x, resid, component))
    if not float(np.ptp(values)) > 0.0:
        raise DomainError(f"{name} is constant: there is nothing to plot its component against")
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    level = float(np.average(0.5 * (1.0 - np.sign(r)), weights=w))
    count = min(12, values.size // 20) if categories is None else values.size
    parts = groups_of_rows(values, count, w)
    quantiles = [group_quantiles(r, [level], w, part)[0] for part in parts]
    ends = [int(np.argmin(values)), int(np.argmax(values))]
    line_x, line_y = (values[ends], fitted[ends]) if line is None else line
    centres = np.array([values[part].mean() for part in parts])
    shown = thinned(values.size)
    return PartialResidualFigure(
        values[shown],
        (fitted + r)[shown],
        np.asarray(line_x),
        np.asarray(line_y),
        centres,
        np.interp(centres, line_x, line_y) + np.array(quantiles),
        level,
        name,
        name if term is None else term,
        categories,
        values.size,
    )
