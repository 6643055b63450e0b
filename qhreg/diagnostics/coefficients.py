"""The numbers behind the plots of coefficients: over tau, and against their regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special
from statsmodels.regression.linear_model import WLS

from qhreg._typing import FloatArray
from qhreg.diagnostics.figures import PartialResidualFigure
from qhreg.diagnostics.residuals import group_quantiles, groups_of_rows, thinned
from qhreg.exceptions import DomainError
from qhreg.specification.observations import Observations

__all__ = ["least_squares", "partial_residual_figure"]


GROUPS = 12
"""Most groups of rows in which the partial residuals are summarised."""


def partial_residual_figure(
    x: Any,
    resid: Any,
    component: Any,
    *,
    line: tuple[Any, Any] | None = None,
    name: str = "x",
    term: str | None = None,
    categories: Sequence[Any] | None = None,
    groups: int | None = None,
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
        The levels of a factor; they are the groups then.
    groups : int, optional
        Groups of rows with similar x; by default one for 20 rows, 12 at most. Equal values are in one
        group.
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
    >>> from qhreg.diagnostics.coefficients import partial_residual_figure
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
    if categories is not None:
        counted = np.ones(values.size, dtype=bool) if w is None else w > 0.0
        places = range(len(categories))
        parts = [np.flatnonzero(counted & (values == place)) for place in places]
        parts = [part for part in parts if part.size]
    else:
        count = min(GROUPS, max(values.size // 20, 1)) if groups is None else groups
        parts = groups_of_rows(values, count, w)
    quantiles = [
        group_quantiles(r[part], [level], None if w is None else w[part])[0] for part in parts
    ]
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
        None if categories is None else tuple(map(str, categories)),
        shown.size,
        values.size,
    )


def least_squares(
    observations: Observations, columns: Sequence[int], alpha: float = 0.05
) -> FloatArray:
    """Return value, lower and upper limit of least-squares coefficients, shape (s, 3).

    Parameters
    ----------
    observations : Observations
        The data.
    columns : sequence of int, length s
        The coefficients.
    alpha : float
        One minus the coverage of the limits, which are robust (HC1).
    """
    obs = observations
    endog = obs.endog if obs.offset is None else obs.endog - obs.offset
    weights = np.ones(endog.size) if obs.case_weights is None else obs.case_weights
    fit = WLS(endog, obs.exog, weights=weights).fit(cov_type="HC1")
    half = float(special.ndtri(1.0 - 0.5 * alpha)) * fit.bse
    limits: FloatArray = np.column_stack([fit.params, fit.params - half, fit.params + half])
    return limits[list(columns)]
