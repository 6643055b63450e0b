r"""The law of an estimate over its robust standard error, in samples of some hundred rows.

Such a ratio is standard normal in large samples. Before that it is skewed, as the influence of the rows
is, and has heavier tails, since meat and bread of the sandwich are averages over the same rows. Hall's
transformation removes the first, a t law allows for the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from qhreg._typing import FloatArray
from qhreg.covariance.curvature import RowWeights, is_near
from qhreg.covariance.leverage import with_leverage
from qhreg.covariance.orthonormal import Frame, jacobian_of
from qhreg.covariance.rowterms import RowTerms, row_terms
from qhreg.covariance.scores import Fitted, Sample, evaluated_blocks
from qhreg.covariance.slices import FEW_PARAMETERS, Judged, Slices, sandwich_of

__all__ = [
    "Calibration",
    "calibration_of",
    "contrast_calibration",
    "hall",
    "hall_inverse",
    "law_of_moments",
]


STEEPEST = 0.05
"""Largest bend of Hall's transformation: with more, its inverse runs away at quantiles in use."""

LEAST_DF = 1.0
"""Fewest degrees of freedom."""

LARGE_DF = 1000.0
"""Degrees of freedom from which on a t law is as good as normal."""


SINGLE_RANGE = (1e-20, 1e20)
"""Sums of squared scores between which a law is made in single precision."""

LAW_ROWS = 250
"""Least rows that are taken of those in the zone, and of the others."""

LOOKED_AT = 50_000
"""Least rows that they are taken from."""

UNLIKE = 0.5
"""Largest difference between a variance as seen from the rows taken and from all."""

FAR = 4.0
"""Largest difference between a bread as seen from the rows taken and from all, in usual deviations."""

FEW_DF = 50.0
"""Degrees of freedom, as seen from the rows taken, below which all are looked at."""

MOMENT_BYTES = 2**17
"""Size of the influences of some rows: larger arrays go back to the system after every use."""

CONTRASTS = 500
"""Linear combinations whose law is found at a time: their covariance is a matrix."""

LEAST_ROWS = 256
"""Least rows whose influences are made at a time: fewer do not hide the cost of the calls."""


def hall(t: Any, skew: Any, bend: Any = 0.0, steepest: float = np.inf) -> Any:
    r"""Return Hall's transformation of studentised estimates, which removes their skewness.

    Parameters
    ----------
    t : float or array_like
        Estimate minus true value, in estimated standard errors.
    skew : float or array_like
        Skewness of the summands over the root of their number.
    bend : float or array_like
        For a parameter taken to another scale by g, :math:`\mathrm{se}\; g''/g'`.
    steepest : float
        Largest q, see below.

    Notes
    -----
    :math:`t + a/6 + q t^2 + q^2 t^3/3` with the skewness a and :math:`q = a/3 + b/2`, monotone in t. For
    a mean, b = 0, it is the transformation of [1]_. The scale g turns t into :math:`t - b t^2/2` to
    second order, which the second term of q takes back.

    References
    ----------
    .. [1] P. Hall (1992), On the removal of skewness by transformation, Journal of the Royal
       Statistical Society B 54, 221-228.

    Examples
    --------
    >>> from qhreg.covariance.calibration import hall, hall_inverse
    >>> round(float(hall(2.0, 0.3)), 3)
    2.477
    >>> round(float(hall_inverse(hall(2.0, 0.3), 0.3)), 12)
    2.0
    """
    bent = _bend(skew, bend, steepest) * t
    return ((bent / 3.0 + 1.0) * bent + 1.0) * t + skew / 6.0


def hall_inverse(x: Any, skew: Any, bend: Any = 0.0, steepest: float = np.inf) -> FloatArray:
    """Return the studentised estimates that :func:`hall` takes to x."""
    y = 3.0 * x - 0.5 * skew
    root = np.cbrt(1.0 + _bend(skew, bend, steepest) * y)
    return np.asarray(y / ((root + 1.0) * root + 1.0))  # (root - 1) / q, also at q = 0


def _bend(skew: Any, bend: Any, steepest: float) -> Any:
    if steepest == np.inf:
        return skew / 3.0 + bend / 2.0
    return np.minimum(np.maximum(skew / 3.0 + bend / 2.0, -steepest), steepest)


class Calibration(NamedTuple):
    """What the ratios of the estimates to their standard errors are compared with.

    Attributes
    ----------
    skew : ndarray, shape (q,)
        Skewness of each estimate's influences, over the root of their number, within limits.
    df : ndarray, shape (q,)
        Degrees of freedom of the t law.
    """

    skew: FloatArray
    df: FloatArray

    @property
    def description(self) -> str:
        """A sentence for the foot of a table; none where the law is as good as normal."""
        df = [each for each in self.df.tolist() if each < math.inf]  # the others are held
        if not df or not min(df) < LARGE_DF:
            return ""
        least, most = min(df), max(df)
        few, many = f"{least:.0f}", f"{most:.0f}"
        to = "or more" if many == few or most >= LARGE_DF else f"to {many}"
        law = f"t with {few} {to} degrees of freedom, corrected for skewness"
        return f" P-values and intervals: {law}."

    def pvalues(self, t: FloatArray, bend: Any = 0.0) -> FloatArray:
        """Return two-sided p-values of studentised estimates, 5 % at the limits of 95 %."""
        tail = np.maximum(special.stdtr(self.df, -np.abs(t)), 1e-300)
        normal = np.copysign(special.ndtri(tail), t)
        moved = hall(normal, self.skew, bend, STEEPEST)
        return np.asarray(2.0 * special.ndtr(-np.abs(moved)))

    def limits(self, critical: float, bend: FloatArray) -> FloatArray:
        """Return what t lies between as often as a normal variable within the critical value."""
        sides = np.array([-critical, critical])
        normal = hall_inverse(sides, self.skew[:, None], bend[:, None], STEEPEST)
        return np.asarray(special.stdtrit(self.df[:, None], special.ndtr(normal)))

    def of_single(self, contrasts: FloatArray) -> Calibration:
        """Return the laws of multiples of single parameters, one in each row of the contrasts."""
        j = np.abs(contrasts).argmax(axis=1)
        sign = np.sign(contrasts[np.arange(len(j)), j])
        return Calibration(sign * self.skew[j], self.df[j])

    def steps(self, alpha: float, bend: Any = 0.0) -> FloatArray:
        """Return the limits of the true values about the estimates, in standard errors, shape (q, 2).

        They are those of t, the estimate minus the truth, turned around.
        """
        critical = float(special.ndtri(1.0 - 0.5 * alpha))
        return -self.limits(critical, np.broadcast_to(bend, self.df.shape))[:, ::-1]

    def taken(self, positions: Any, size: int) -> Calibration:
        """Return the calibration of more parameters, those not at the positions without a law."""
        skew, df = np.zeros(size), np.full(size, np.inf)
        skew[positions], df[positions] = self.skew, self.df
        return Calibration(skew, df)


def calibration_of(
    sample: Sample, weights: RowWeights, made: Slices, width: float, judged: Judged
) -> Calibration:
    r"""Return skewness and degrees of freedom of the estimates with a sandwich of independent rows.

    Parameters
    ----------
    sample : Sample
        Data and parameters.
    weights : RowWeights
        Weights of the rows.
    made : Slices
        Bread and meat.
    width : float
        Width of the zone in the bread.
    judged : Judged
        The estimates, or linear combinations of them, as :meth:`Slices.judged` sees them.

    Notes
    -----
    Row i moves parameter j by the influence :math:`u_i = a's_i`, with its score s and row a of the
    inverse bread. The variance :math:`V = \sum u_i^2` varies as these squares do. The bread, along the
    direction c / V in which the estimates follow parameter j, with column c of the covariance, varies as
    :math:`e_i = a'H_ic` do, whose sum is V too. With both taken as independent the ratio has the
    variance of a t law with

    .. math:: \frac{2}{\nu} = \frac{\sum u_i^4}{V^2} - \frac1n + \frac{\sum e_i^2}{V^2} - \frac1n.

    For the mean of n normal variables that is n degrees of freedom. Of many rows some are taken, but all
    for a parameter that few rows decide: for the others the corrections hardly matter.
    """
    error = np.sqrt(np.abs(judged.cov.diagonal()))
    error += error == 0.0  # a parameter held fixed has no variance
    a, c = made.frame.to_raw(judged.by_score / error), made.frame.to_raw(judged.shared / error)
    of_rows = _single_moments if _fits_single(made, len(a)) else _moments
    if made.terms is not None:
        sums = of_rows(made.terms, weights.freq, weights.prob, a, c)
    elif sample.endog.size <= 3 * LAW_ROWS:
        sums = _summed_moments(sample, weights, made.frame, a, c, width, of_rows)
    else:
        sums = _sampled_moments(sample, weights, made.frame, a, c, width, of_rows)
    return law_of_moments(sums, weights.nobs)


def contrast_calibration(
    contrasts: FloatArray,
    exog: Any,
    endog: Any,
    fit: Fitted,
    *,
    cov_type: str = "HC1",
    free: Sequence[str] = ("beta", "sigma", "tau"),
    freq_weights: Any = None,
    weights: Any = None,
    offset: Any = None,
    width: float | None = None,
) -> Calibration:
    """Return what linear combinations of the estimates, over their HC errors, are compared with.

    Parameters
    ----------
    contrasts : ndarray, shape (m, q)
        Coefficients of the free parameters.
    cov_type : {"HC0", "HC1"}
        Type of the errors.
    exog, endog, fit, free, freq_weights, weights, offset, width
        As in :func:`qhreg.covariance.covariance`.
    """
    sample, w, chosen, made = sandwich_of(
        exog, endog, fit, free, freq_weights, weights, offset, width
    )
    levered = with_leverage(sample, w, made, chosen) if cov_type == "HC1" else None
    made = made if levered is None else levered.seen
    jacobian = contrasts @ jacobian_of(made.frame, sample.point.sigma)
    laws = [
        calibration_of(sample, w, made, chosen, made.judged(jacobian[start : start + CONTRASTS]))
        for start in range(0, len(jacobian), CONTRASTS)
    ]
    return Calibration(*(np.concatenate(part) for part in zip(*laws, strict=True)))


def law_of_moments(sums: FloatArray, nobs: float) -> Calibration:
    """Return skewness and degrees of freedom within limits, from the moments of each parameter."""
    largest, skews, dfs = 3.0 * STEEPEST, [], []
    for square, third, fourth, bread, bread_square in sums.T.tolist():  # for few it is the quickest
        if square == 0.0:  # held fixed
            skews.append(0.0)
            dfs.append(math.inf)
            continue
        ratio = bread / square
        noise = (fourth + bread_square) / (square * square) - (1.0 + ratio * ratio) / nobs
        if not abs(square - 1.0) <= UNLIKE:  # its rows are fitted exactly
            noise = math.inf
        skews.append(min(max(third / (square * math.sqrt(square)), -largest), largest))
        dfs.append(2.0 / min(max(noise, 1e-300), 2.0 / LEAST_DF))
    return Calibration(np.array(skews), np.array(dfs))


def _fits_single(made: Slices, parameters: int) -> bool:
    """Return whether moments of many parameters are made in single precision.

    A law needs three digits. Columns in units far from one, or close to dependent, keep all digits.
    """
    low, high = SINGLE_RANGE
    return (
        parameters > FEW_PARAMETERS
        and made.frame.coordinates.plain
        and all(low < square < high for square in made.meat.diagonal().tolist())
    )


def _sampled_moments(
    sample: Sample,
    weights: RowWeights,
    frame: Frame,
    a: FloatArray,
    c: FloatArray,
    width: float,
    of_rows: Callable[..., FloatArray],
) -> FloatArray:
    """Return the moments of all rows as seen from some.

    All rows are taken for a parameter whose variance or bread, both one in all rows, these do not show,
    or that has few degrees of freedom: few rows decide it, as those of a rare category do.
    """
    rows, times = _taken(sample, width)
    taken = sample.taken(rows), weights.taken(rows, times)
    sums = _summed_moments(*taken, frame, a, c, width, of_rows)
    usual = np.sort(sums[4])[a.shape[1] // 2]  # few rows that decide do not show it themselves
    missed = np.abs(sums[0] - 1.0) > UNLIKE
    missed |= np.abs(sums[3] - 1.0) > FAR * math.sqrt(times[0] * usual)
    missed |= sums[2] + sums[4] > 2.0 / FEW_DF
    missed &= a.any(axis=0)  # a parameter held fixed has no variance
    if missed.any():
        few = _summed_moments(sample, weights, frame, a[:, missed], c[:, missed], width, of_rows)
        sums[:, missed] = few
    return sums


def _taken(sample: Sample, width: float) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return evenly spaced rows of those in the zone and of the others, and what each stands for.

    The rows in the zone, which the bread is made of, come first: they may be few.
    """
    step = max(1, sample.endog.size // LOOKED_AT)
    near = is_near(sample.u[::step], sample.point, width)
    rows, times = [], []
    for part in (near.nonzero()[0], (~near).nonzero()[0]):
        apart = max(1, part.size // LAW_ROWS)
        rows.append(part[::apart] * step)
        times.append(np.full(rows[-1].size, float(apart * step)))
    return np.concatenate(rows), np.concatenate(times)


def _summed_moments(
    sample: Sample,
    weights: RowWeights,
    frame: Frame,
    a: FloatArray,
    c: FloatArray,
    width: float,
    of_rows: Callable[..., FloatArray],
) -> FloatArray:
    """Return the moments of all rows of a sample."""
    sums = np.zeros((5, a.shape[1]))
    step = max(LEAST_ROWS, MOMENT_BYTES // (8 * a.shape[1]))
    for block in evaluated_blocks(sample):
        for some in block.split(step):
            terms = row_terms(some, sample.point, width, frame.kept, frame.unit)
            freq, prob = (None if v is None else v[some.rows] for v in (weights.freq, weights.prob))
            sums += of_rows(terms, freq, prob, a, c)
    return sums


def _single_moments(terms: RowTerms, *others: FloatArray | None) -> FloatArray:
    """Return what `_moments` returns, in single precision."""
    x, psi, near, *rest = terms
    arrays = (x, *rest, *others)
    single: list[Any] = [None if each is None else each.astype(np.float32) for each in arrays]
    return _moments(RowTerms(single[0], psi, near, *single[1:4]), *single[4:])


def _moments(
    terms: RowTerms,
    freq: FloatArray | None,
    prob: FloatArray | None,
    a: FloatArray,
    c: FloatArray,
) -> FloatArray:
    """Return the sums of u^2, u^3, u^4, e and e^2 of the weighted rows, one column a parameter.

    Products by `dot`, which has less overhead.
    """
    x, _, _, scores, pulls, corner = terms
    (k, n), q = x.shape, a.shape[1]
    weight = np.ones(n, x.dtype) if freq is None else freq
    by_corner = (a[k:, None] * c[k:]).reshape(-1, q).T
    e, shared = a[:k].T.dot(x), c[:k].T.dot(x)
    u, pull = a.T.dot(scores), c.T.dot(pulls)
    e *= pull
    shared *= a[k:].T.dot(pulls[k:])
    e += shared
    e += by_corner.dot(corner.reshape(-1, n))
    if prob is not None:
        u *= prob
        e *= prob
    sums, square = np.empty((5, q)), u * u
    u *= square
    sums[0] = square.dot(weight)
    sums[1] = u.dot(weight)
    square *= square
    sums[2] = square.dot(weight)
    sums[3] = e.dot(weight)
    e *= e
    sums[4] = e.dot(weight)
    return sums
