r"""The robust score statistic of one parameter, calibrated for samples of some hundred rows.

The score of a parameter, at the fit with its value held, divided by a standard error made of the scores
themselves, is standard normal in large samples whatever the noise. Three corrections make that hold
sooner: other parameters are projected out by a ridge regression, since their curvature may be nearly
singular; Hall's transformation removes the skewness of the scores; and the quantiles are those of a t
law whose degrees of freedom follow from the kurtosis of the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.covariance.information import unit_information
from qhreg.covariance.scores import Point
from qhreg.specification.observations import Observations

__all__ = ["ScoreVariance", "robust_score_root"]


DAMPING = 2.75
"""The ridge of the projection, times the root of the number of observations.

Chosen by coverage with t, heteroskedastic, Gumbel and gamma noise on other samples than the published
ones: with 2, intervals cover up to 98 % with gamma noise at 200 rows, with 4 down to 90 %.
"""

VANISHING = 1e-12
"""Share of the curvature below which a variance of scores is rounding error."""

DEPENDENT = 1e-12
"""Share of a direction's variance below which the scores of the others are dependent in it."""


@dataclass(frozen=True)
class ScoreVariance:
    """How the variance of a sum of scores is estimated.

    Attributes
    ----------
    cov_type : {"HC0", "HC1", "cluster", "HAC"}
        Which dependence of the rows it allows for.
    weights : RowWeights
        Weights of the rows.
    n_params : int
        Number of estimated parameters, for the factor of "HC1".
    groups, maxlags, kernel, use_correction
        As in :func:`qhreg.covariance.covariance`.
    """

    cov_type: str
    weights: RowWeights
    n_params: int = 0
    groups: Any = None
    maxlags: int | None = None
    kernel: Any = None
    use_correction: bool | None = None

    def __call__(self, effective: FloatArray) -> float:
        """Return the variance of the weighted sum of the scores.

        For clusters in two ways that is the largest of the two-way variance, which may be negative, and
        those of each way [1]_.

        References
        ----------
        .. [1] J. G. MacKinnon, M. O. Nielsen and M. D. Webb (2024), Jackknife inference with two-way
           clustering.
        """
        w, n = self.weights, self.weights.nobs
        if self.cov_type in ("HC0", "HC1"):
            squares = effective**2
            total = float(squares.sum() if w.squared is None else squares @ w.squared)
            if self.cov_type == "HC0":
                return total
            require_more_rows(self.cov_type, n, self.n_params)
            return total * (n / (n - self.n_params))
        scores = (effective if w.total is None else effective * w.total)[:, None]
        one = np.ones((1, 1))
        if self.cov_type == "cluster":
            codes = group_codes(self.groups, effective.size, w.total)
            correct = self.use_correction is not False
            made = clustered(scores, one, codes, n, correct)
            return float(max(each[0, 0] for each in (made.plain, *made.ways)))
        count = lags(self.maxlags, effective.size)
        correct = bool(self.use_correction)
        series = serial(scores, one, count, self.kernel or "bartlett", correct)
        if series.repaired:  # a negative variance: Bartlett's weights never give one
            series = serial(scores, one, count, "bartlett", correct)
        return float(series.cov[0, 0])

    def calibrated(self, root: float, effective: FloatArray) -> float:
        """Return the root after the corrections for the third and fourth moments of the summands.

        Summands are rows, or sums over clusters; two-way clusters and lags leave none that are
        independent, and the root as it is.
        """
        w = self.weights
        if self.cov_type in ("HC0", "HC1"):
            if w.prob is None:
                return _calibrated(root, effective, w.freq)
            counts = (w.prob > 0.0).astype(np.float64)
            counts = counts if w.freq is None else counts * w.freq
            return _calibrated(root, effective * w.prob, counts)
        if self.cov_type == "cluster":
            codes = group_codes(self.groups, effective.size, w.total)
            if len(codes) == 1:
                scores = effective if w.total is None else effective * w.total
                sums = np.asarray(np.bincount(codes[0], scores), dtype=np.float64)
                return _calibrated(root, sums, None)
        return root


def _calibrated(root: float, summands: FloatArray, counts: FloatArray | None) -> float:
    """Return Hall's transformation of a studentised sum, from t to normal quantiles."""
    n = float(summands.size if counts is None else counts.sum())
    deviation = summands - np.average(summands, weights=counts)
    second, third, fourth = (float(np.average(deviation**k, weights=counts)) for k in (2, 3, 4))
    if not second > 0.0 or not math.isfinite(root):
        return root
    moved = float(hall(root, third / second**1.5 / math.sqrt(n)))
    excess = fourth / second**2 - 1.0
    tail = (
        special.stdtr(2.0 * n / excess, -abs(moved)) if excess > 1e-9 else special.ndtr(-abs(moved))
    )
    return math.copysign(float(special.ndtri(max(float(tail), 1e-300))), moved)


def _projection(bread: FloatArray, meat: FloatArray, j: int, ridge: float) -> FloatArray:
    """Return the coefficients of the scores in the effective score of parameter j."""
    # scores of a row that is fitted exactly are rounding errors, and dropped with what depends
    floor = np.maximum(VANISHING * np.abs(bread.diagonal()), 1e-300)
    size = np.sqrt(np.maximum(meat.diagonal(), floor))
    others = np.arange(len(bread)) != j
    scale = np.outer(size, size)[np.ix_(others, others)]
    values, vectors = np.linalg.eigh(meat[np.ix_(others, others)] / scale)
    kept = values > DEPENDENT * values.max(initial=0.0)
    # in these coordinates the scores of the other parameters have unit variance
    whiten = (vectors[:, kept] / np.sqrt(values[kept])).T / size[others]
    bends, along = np.linalg.eigh(whiten @ bread[np.ix_(others, others)] @ whiten.T)
    carry = along @ (bends / (bends**2 + ridge**2) * (along.T @ (whiten @ bread[others, j])))
    coefficients = np.ones(len(bread))
    coefficients[others] = -(carry @ whiten)
    return coefficients


def _effective_scores(
    observations: Observations, point: Point, free: tuple[str, ...], j: int, known: tuple[str, ...]
) -> FloatArray:
    """Return the scores of parameter j after the projection, times sigma for beta and sigma.

    Not weighted; their sum with the weights of the likelihood is the score of parameter j where the
    others are at their best values.
    """
    obs = observations
    k = obs.exog.shape[1]
    extra = [name for name in free if name != "beta"]
    j -= sum(k + extra.index(name) < j for name in known)
    names = tuple(name for name in free if name not in known)
    sample = checked_sample(obs.exog, obs.endog, point, obs.offset)
    cases = RowWeights(obs.case_weights, None, obs.nobs)
    width = chosen_width(sample, cases.total, obs.nobs, None)
    unit = unit_information(point.tau, point.kappa)
    sums = row_sums(sample, cases, unit, width, names)
    ridge = DAMPING / math.sqrt(obs.nobs)
    coefficients = _projection(sums.bread, sums.meat, j, ridge)
    effective = np.empty(obs.endog.size)
    for block in evaluated_blocks(sample):
        effective[block.rows] = score_block(block, names, point, unit) @ coefficients
    return effective


def robust_score_root(
    observations: Observations,
    point: Point,
    free: tuple[str, ...],
    j: int,
    variance: ScoreVariance | None = None,
    known: tuple[str, ...] = (),
) -> float:
    r"""Return the signed root of the robust score statistic of one parameter.

    Parameters
    ----------
    observations : Observations
        The data.
    point : Point
        The fit with parameter j held at the value to be tested.
    free : tuple of str
        The estimated parameters, that of j among them.
    j : int
        Position of the tested parameter among the estimated ones.
    variance : ScoreVariance, optional
        Variance of a sum of scores; by default the sum of their squares, without a factor.
    known : tuple of str
        Parameters to treat as known, such as a tau on its bound.

    Returns
    -------
    float
        Standard normal in large samples when the value is the true one, whatever the noise.

    Notes
    -----
    With the scores :math:`s_i` and the other estimated parameters n, the effective scores are
    :math:`e_i = s_{ij} - c's_{in}`. In large samples :math:`c = B_{nn}^{-1} B_{nj}` with the smoothed
    bread B: nothing enters of the curvature in parameter j itself [1]_. With skewed noise
    :math:`B_{nn}` may be nearly singular too, and c then adds noise to the variance. So c minimises

    .. math:: (B_{nn}c - B_{nj})' M_{nn}^{-1} (B_{nn}c - B_{nj}) + \frac{2.75^2}{n}\, c' M_{nn} c,

    a ridge regression whose penalty is the variance that c adds, with the meat M.

    The root :math:`t = \sum_i w_i e_i / \sqrt{\widehat{\operatorname{var}} \sum_i w_i e_i}` goes through
    Hall's transformation (:func:`qhreg.covariance.calibration.hall`). The result is taken to follow the
    t law with :math:`2n / (\text{kurtosis} - 1)` degrees of freedom, those of a variance that is a mean
    of squares with that kurtosis, and turned into the normal variable of the same probability.

    References
    ----------
    .. [1] D. D. Boos (1992), On generalized score tests, The American Statistician 46, 327-333.
    """
    effective = _effective_scores(observations, point, free, j, known)
    total = observations.case_weights
    score = float(effective.sum() if total is None else effective @ total)
    if variance is None:
        w = row_weights(observations.freq_weights, observations.weights, effective.size)
        variance = ScoreVariance("HC0", w)
    spread = variance(effective)
    if not spread > 0.0:
        return math.copysign(math.inf, score)
    return variance.calibrated(score / math.sqrt(spread), effective)
