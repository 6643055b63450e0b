r"""The outcome of a test, and the likelihood-ratio test with its F law.

Twice the difference of two (restricted) log-likelihoods of models that differ by d restrictions is
compared with

.. math:: m \log\Big(1 + \frac{d\,F_{1-\alpha}(d, m)}{m}\Big), \qquad m = n - p,

(m = n in the ordinary likelihood). For normal noise and restrictions of the coefficients this is the F
test of least squares, exactly: the restricted likelihood ratio is :math:`m\log(RSS_0/RSS_1)`, where the
rank p is that of the larger model in both fits [1]_. In large samples it is the chi-square quantile.

References
----------
.. [1] S. J. Welham and R. Thompson (1997), Likelihood ratio tests for fixed model terms using residual
   maximum likelihood, Journal of the Royal Statistical Society B 59, 701-714.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_alpha


@dataclass(frozen=True, repr=False)
class HypothesisTest:
    """The outcome of one test.

    Attributes
    ----------
    name : str
        What was tested and how.
    null : str
        The hypothesis.
    statistic : float
        Chi-square distributed in large samples when the hypothesis holds.
    df : int
        Degrees of freedom: number of restrictions.
    pvalue : float
        Probability of a larger statistic under the hypothesis.
    fvalue : float or None
        What was compared with the F law of `df` and `df_resid`; None for the chi-square law.
    df_resid : float
        Degrees of freedom of the denominator; infinite for the chi-square law.
    missing : str
        Why there is no statistic, where it is NaN.
    note : str
        What the test takes for granted.
    """

    name: str
    null: str
    statistic: float
    df: int
    pvalue: float
    fvalue: float | None = None
    df_resid: float = math.inf
    missing: str = ""
    note: str = ""

    def __repr__(self) -> str:
        head = f"{self.name} of {self.null}"
        if self.missing:
            return f"{head}: not available: {self.missing}"
        law = f"chi2({self.df}) = {self.statistic:.4g}"
        if self.fvalue is not None:
            law = f"F({self.df}, {self.df_resid:.6g}) = {self.fvalue:.4g}"
        note = f" ({self.note})" if self.note else ""
        return f"{head}: {law}, p = {self.pvalue:.4g}{note}"


def density_note(cov_type: str) -> str:
    """Return what a likelihood ratio takes for granted beside a covariance that does not."""
    return "" if cov_type == "nonrobust" else f"assumes the density, which {cov_type} does not"


def chi2_test(
    name: str, null: str, statistic: float, df: int, *, missing: str = ""
) -> HypothesisTest:
    """Return the outcome of a test with the chi-square law."""
    pvalue = float(special.chdtrc(df, max(statistic, 0.0)))
    return HypothesisTest(name, null, statistic, df, pvalue, missing=missing)


def f_test(name: str, null: str, fvalue: float, df: int, df_resid: float) -> HypothesisTest:
    """Return the outcome of a Wald test with the F law; its statistic is `df` times `fvalue`."""
    pvalue = float(special.fdtrc(df, df_resid, fvalue))
    return HypothesisTest(name, null, df * fvalue, df, pvalue, fvalue, df_resid)


def lr_cut(alpha: float, df_resid: float, *, df: int = 1, cut: str | float = "F") -> float:
    """Return the likelihood-ratio statistic above which a hypothesis is rejected at level alpha.

    Parameters
    ----------
    alpha : float
        Level, 0 < alpha < 1.
    df_resid : float
        m: observations less the rank in the restricted likelihood, observations in the ordinary one.
    df : int
        Number of restrictions.
    cut : {"F", "chi2"} or float
        The F law, the chi-square quantile, or a number for every level.

    Examples
    --------
    >>> from qhreg.inference.hypothesis_tests import lr_cut
    >>> round(lr_cut(0.05, 20), 4), round(lr_cut(0.05, 1e9), 4), round(lr_cut(0.05, 20, cut="chi2"), 4)
    (3.937, 3.8415, 3.8415)
    """
    check_alpha(alpha)
    if not isinstance(cut, str):
        if not cut > 0.0:
            raise DomainError(f"cut must be positive, got {cut!r}")
        return float(cut)
    if cut not in ("F", "chi2"):
        raise DomainError(f"cut must be 'F', 'chi2' or a number, got {cut!r}")
    if cut == "chi2":
        return float(special.chdtri(df, alpha))
    return df_resid * math.log1p(df * float(special.fdtri(df, df_resid, 1.0 - alpha)) / df_resid)


def lr_test(
    full: float,
    restricted: float,
    df: int,
    df_resid: float,
    *,
    null: str = "the restricted model",
    note: str = "",
) -> HypothesisTest:
    """Return the likelihood-ratio test of a restricted model against the one that contains it.

    Parameters
    ----------
    full, restricted : float
        The two maximised log-likelihoods, both by the criterion of the larger model.
    df : int
        Number of restrictions.
    df_resid : float
        m, as in :func:`lr_cut`.
    null : str
        Name of the hypothesis.
    note : str
        What the test takes for granted.

    Examples
    --------
    >>> from qhreg.inference.hypothesis_tests import lr_test
    >>> lr_test(-100.0, -103.0, 1, 196)
    likelihood-ratio test of the restricted model: F(1, 196) = 6.093, p = 0.01443
    """
    if int(df) != df or df < 1:
        raise DomainError(f"df must be a positive whole number, got {df!r}")
    statistic = 2.0 * (full - restricted)
    if statistic < -1e-6 * max(1.0, abs(full)):
        raise DataError(
            f"the restricted log-likelihood {restricted!r} exceeds the full one {full!r}: the models "
            "are not nested, or the full fit is not the global maximum"
        )
    statistic = max(statistic, 0.0)
    name = "likelihood-ratio test"
    exponent = statistic / df_resid
    fvalue = math.inf if exponent > 700.0 else df_resid / df * math.expm1(exponent)
    pvalue = float(special.fdtrc(df, df_resid, fvalue)) if math.isfinite(fvalue) else 0.0
    return HypothesisTest(name, null, statistic, int(df), pvalue, fvalue, df_resid, note=note)
