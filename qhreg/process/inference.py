"""Fits at several values of tau together: their joint covariance, and whether their slopes are equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.covariance import SANDWICHES, CovarianceChoice, Parts, covariance_parts, sandwich
from qhreg.covariance.estimate import decided_alone, grouping_of
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.family.domain import check_alpha
from qhreg.process.fits import equality_test

__all__ = ["ProcessInference", "joint_covariance", "sup_t"]

Read = TypeVar("Read")


class ProcessInference:
    """The part of a process that needs the covariance between its fits."""

    taus: tuple[float, ...]
    levels: Any
    results: tuple[Any, ...]
    model: Any
    names: Any
    cov_type: Any
    params: Any
    _first: Any

    def __len__(self) -> int:
        return len(self.taus)

    def _of_each(self, read: Callable[[Any], Read]) -> list[Read]:
        """Return what is read of every fit; a caution about several is one that names their levels."""
        made, said = [], dict[tuple[str, type[Warning]], list[str]]()
        for tau, fit in zip(self.taus, self.results, strict=True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", CurvatureWarning)
                made.append(read(fit._results))
            for each in caught:
                said.setdefault((str(each.message), each.category), []).append(f"{tau:g}")
        for (text, category), levels in said.items():
            warn_caller(f"at tau = {', '.join(levels)}: {text}", category)
        return made

    def cov_between(self, columns: Sequence[str | int] | None = None) -> pd.DataFrame:
        """Return the joint covariance of parameters at all values of tau.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all by default.

        Returns
        -------
        DataFrame
            Rows and columns are (level, parameter). The blocks on the diagonal are the covariances
            of the single fits, the others come from the products of their scores.
        """
        chosen = list(range(len(self.names))) if columns is None else self._places(columns)
        names = pd.Index([self.names[j] for j in chosen], name="parameter")
        labels = pd.MultiIndex.from_product([self.levels, names])
        return pd.DataFrame(self._joint(chosen), labels, labels)

    def _joint(self, chosen: Sequence[int]) -> FloatArray:
        """Return the joint covariance of some parameters, fit by fit."""
        if self.cov_type not in SANDWICHES:
            raise DomainError(
                f"cov_type={self.cov_type!r} says nothing about several fits together: use one of "
                f"{', '.join(SANDWICHES)}"
            )
        self.model.require_data()
        fits = [fit._results for fit in self.results]
        parts = [covariance_parts(fit._fit_data, fit.solution) for fit in fits]
        return joint_covariance(self._first._choice, parts, chosen)

    def critical_values(
        self,
        alpha: float = 0.05,
        columns: Sequence[str | int] | None = None,
        *,
        rng: Any = 0,
        draws: int = 100_000,
    ) -> pd.Series[float]:
        """Return by how many standard errors simultaneous bands reach: one number for each parameter.

        Parameters
        ----------
        alpha : float
            One minus the probability that the band of a parameter holds it at every tau.
        columns : sequence of str or int, optional
            Names or places of the parameters; all by default.
        rng : int or Generator
            Source of randomness.
        draws : int
            Number of simulated processes.

        Notes
        -----
        The quantile of max over tau of the absolute t ratio, simulated with the correlations of
        `cov_between`: the sup-t band [1]_, t in place of normal where the fits use t.

        References
        ----------
        .. [1] J. L. Montiel Olea and M. Plagborg-Moller (2019), Simultaneous confidence bands: theory,
           implementation, and an application to SVARs, Journal of Applied Econometrics 34, 1-17.
        """
        check_alpha(alpha)
        chosen = list(range(len(self.names))) if columns is None else self._places(columns)
        joint, s = self._joint(chosen), len(chosen)
        df = self._first.df_resid_inference if self._first.use_t else None
        found = {
            self.names[column]: sup_t(joint[j::s, j::s], alpha, df=df, rng=rng, draws=draws)
            for j, column in enumerate(chosen)
        }
        return pd.Series(found, dtype=np.float64)

    def _places(self, columns: Sequence[str | int]) -> list[int]:
        """Return the places of named or numbered parameters."""
        if isinstance(columns, (str, int)):
            columns = [columns]
        places = []
        for column in columns:
            if isinstance(column, str) and column not in self.names:
                raise DomainError(f"there is no parameter {column!r}: {', '.join(self.names)}")
            place = self.names.index(column) if isinstance(column, str) else int(column)
            if not 0 <= place < len(self.names):
                raise DomainError(f"there are {len(self.names)} parameters, got number {column!r}")
            places.append(place)
        return places

    def _slopes(self) -> list[int]:
        """Return the places of all coefficients but the constant."""
        k, data = self._first.space.k, self.model.data
        if data.k_constant and data.const_idx is None:
            raise DomainError(
                "the constant is spread over several columns: name the columns whose slopes to test"
            )
        found = [j for j in range(k) if j != data.const_idx]
        if not found:
            raise DomainError("the model has no slopes: its only column is the constant")
        return found

    def test_equal_slopes(
        self, columns: Sequence[str | int] | None = None, *, joint: bool = True
    ) -> Any:
        """Return the Wald test that slopes are the same at every tau.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all coefficients but the constant by default.
        joint : bool
            Whether to test all of them together, or each on its own.

        Returns
        -------
        HypothesisTest or DataFrame
            One test, or one row of statistic, df and p-value for each parameter.

        Notes
        -----
        Equal slopes mean curves that are parallel: the regressors move the location of the noise
        and not its shape. The covariance is that of `cov_between`, the p-value that of the F
        distribution with `df_resid` degrees of freedom (clusters minus one), chi-square with
        ``use_t=False``: see :func:`qhreg.process.equality_test`.
        """
        chosen = self._slopes() if columns is None else self._places(columns)
        estimates, cov = self.params.to_numpy()[:, chosen], self._joint(chosen)
        df = self._first.df_resid_inference if self._first.use_t else None
        null = "equal slopes at " + ", ".join(f"{level:g}" for level in self.levels)
        if joint:
            return equality_test(
                estimates, cov, df_cov=df, name=f"Wald test ({self.cov_type})", null=null
            )
        rows = {}
        size = len(chosen)
        for place, column in enumerate(chosen):
            own = np.arange(len(self)) * size + place
            test = equality_test(estimates[:, [place]], cov[np.ix_(own, own)], df_cov=df)
            rows[self.names[column]] = (test.statistic, test.df, test.pvalue)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "pvalue"])


def joint_covariance(
    choice: CovarianceChoice, parts: Sequence[Parts], chosen: Sequence[int]
) -> FloatArray:
    r"""Return the covariance of chosen parameters of several fits to the same rows, fit by fit.

    Parameters
    ----------
    choice : CovarianceChoice
        Type and options.
    parts : sequence of Parts, length m
        One for each fit.
    chosen : sequence of int, length s
        Places of the parameters within each fit.

    Returns
    -------
    ndarray, shape (m s, m s)
        The blocks on the diagonal are those of the single fits. NaN where one is not identified.

    Notes
    -----
    A row moves fit j by its influence :math:`H_j^{-1}s_{ij}`. Stacked over the fits, these are the
    scores of one sandwich.
    """
    first = parts[0]
    moves = [part.influence @ part.jacobian[list(chosen)].T for part in parts]
    leverage, alone = None, [np.zeros_like(part.identified) for part in parts]
    if choice.cov_type in ("HC2", "HC3"):
        columns = [part.leverage for part in parts]
        every = slice(0, columns[0].size)
        alone = [
            decided_alone(*pair) for pair in zip(parts, [every] * len(parts), columns, strict=True)
        ]
        leverage = np.repeat(np.column_stack(columns), len(chosen), axis=1)
    obs = first.observations
    cov = sandwich(
        np.hstack(moves),
        None,
        leverage=leverage,
        nobs=first.nobs,
        df_resid=first.df_resid,
        freq=first.freq,
        **grouping_of(choice, obs.endog.size, obs.case_weights).keywords,
    )
    known = np.concatenate(
        [
            ~np.abs(part.jacobian[list(chosen)][:, ~part.identified | one]).any(axis=1)
            for part, one in zip(parts, alone, strict=True)
        ]
    )
    cov[~known] = cov[:, ~known] = np.nan
    return cov


def sup_t(
    covariance: FloatArray,
    alpha: float,
    *,
    df: float | None = None,
    rng: Any = 0,
    draws: int = 100_000,
) -> float:
    """Return the quantile of the largest of several absolute t ratios, simulated.

    Parameters
    ----------
    covariance : ndarray, shape (m, m)
        Covariance of the estimates.
    alpha : float
        One minus the level of the quantile.
    df : float or None
        Degrees of freedom of the t distribution; None for the normal one.
    rng : int or Generator
        Source of randomness.
    draws : int
        Number of simulated vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from qhreg.process.inference import sup_t
    >>> round(sup_t(np.ones((3, 3)), 0.05), 1), round(sup_t(np.eye(3), 0.05), 1)
    (2.0, 2.4)
    """
    length = np.sqrt(covariance.diagonal())
    if not (length > 0.0).all():
        return float("nan")
    roots, vectors = np.linalg.eigh(covariance / np.outer(length, length))
    half = vectors * np.sqrt(np.maximum(roots, 0.0))
    generator = np.random.default_rng(rng)
    largest = np.abs(generator.standard_normal((draws, len(half))) @ half.T).max(axis=1)
    if df is not None:
        largest /= np.sqrt(generator.chisquare(df, draws) / df)
    return float(np.quantile(largest, 1.0 - alpha))
