"""Fits at several values of tau together: their joint covariance, and whether their slopes are equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.covariance import require_more_rows
from qhreg.covariance.joint import (
    JOINT_TYPES,
    Influence,
    influence_of,
    joint_covariance,
    location_shift_covariance,
)
from qhreg.exceptions import CurvatureWarning, DomainError, warn_caller
from qhreg.process.fits import equality_test

__all__ = ["ProcessInference"]

Read = TypeVar("Read")

DF_PER_ROW = 0.5
"""Degrees of freedom of a sandwich for each row behind its bread, by the size of the test."""

DF_OF_DENSITY = 1.0
"""The same where the rows in the zone tell of one density only."""


class ProcessInference:
    """The part of a process that needs the covariance between its fits."""

    taus: tuple[float, ...]
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
        made, lost = [], ""
        said = dict[tuple[str, type[Warning]], list[str]]()
        for tau, fit in zip(self.taus, self.results, strict=True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", CurvatureWarning)
                made.append(read(fit._results))
            for each in caught:
                text = str(each.message)
                if _has_no_errors(fit._results):  # the counts of rows differ from level to level
                    text = lost = lost or text
                said.setdefault((text, each.category), []).append(f"{tau:g}")
        for (text, category), levels in said.items():
            where = f"at tau = {', '.join(levels)}"
            told = f"no standard errors {where}: {text}" if text == lost else f"{text} ({where})"
            warn_caller(told, category)
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
            Rows and columns are (tau, parameter). The blocks on the diagonal are the covariances
            of the single fits, the others come from the products of their scores.
        """
        chosen = list(range(len(self.names))) if columns is None else self._places(columns)
        labels = pd.MultiIndex.from_product(
            [self.taus, [self.names[j] for j in chosen]], names=["tau", "parameter"]
        )
        return pd.DataFrame(self._joint(chosen)[0], labels, labels)

    def _parts(self) -> list[Influence]:
        """Return by how much each row moves the estimates of every fit."""
        if self.cov_type not in JOINT_TYPES:
            raise DomainError(
                f"cov_type={self.cov_type!r} says nothing about several fits together: use one of "
                f"{', '.join(JOINT_TYPES)}"
            )
        self.model.require_data()
        obs = self.model.observations

        def influence(fit: Any) -> Influence:
            fit._require_light_rows()
            return influence_of(
                obs.exog,
                obs.endog,
                fit.solution,
                free=self._first.space.free,
                freq_weights=obs.freq_weights,
                weights=obs.weights,
                offset=obs.offset,
                width=self._first._choice.options.get("width"),
            )

        return self._of_each(influence)

    def _joint(self, chosen: Sequence[int]) -> tuple[FloatArray, float]:
        """Return the joint covariance, and its degrees of freedom."""
        options = {k: v for k, v in self._first._choice.options.items() if k != "width"}
        obs, parts = self.model.observations, self._parts()
        cov = joint_covariance(
            self.cov_type, parts, chosen, freq_weights=obs.freq_weights, **options
        )
        df = DF_PER_ROW * min(part.in_bread for part in parts)
        laws = self._of_each(lambda fit: fit._covariance.calibration)
        noise = [np.mean(1.0 / law.df[list(chosen)]) for law in laws if law is not None]
        if noise:  # few rows decide where regressors are skewed
            df = min(df, 1.0 / float(np.max(noise)))
        clusters = self._first._covariance.df_inference
        return cov, df if clusters is None else min(df, float(clusters))

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

    def _may_be_alike(self, chosen: Sequence[int]) -> bool:
        """Return whether a covariance for noise that is the same in every row can be had."""
        k, data = self._first.space.k, self.model.data
        slopes = all(j < k and j != data.const_idx for j in chosen)
        independent = self.cov_type in ("HC0", "HC1") and not self.model.has_weights
        return bool(data.k_constant) and slopes and independent

    def _shift(self, chosen: Sequence[int]) -> tuple[FloatArray, float]:
        """Return the joint covariance if the noise is the same in every row, and its df."""
        obs, parts = self.model.observations, self._parts()
        require_more_rows(self.cov_type, parts[0].nobs, parts[0].n_estimated)
        cov = location_shift_covariance(parts, chosen, obs.exog, obs.freq_weights)
        return cov, DF_OF_DENSITY * min(part.in_bread for part in parts)

    def test_equal_slopes(
        self,
        columns: Sequence[str | int] | None = None,
        *,
        joint: bool = True,
        robust: bool | None = None,
    ) -> Any:
        """Return the Wald test that slopes are the same at every tau.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Names or places of the parameters; all coefficients but the constant by default.
        joint : bool
            Whether to test all of them together, or each on its own.
        robust : bool, optional
            Whether the covariance is that of the fits (see `cov_between`), or one that takes the noise
            to be the same in every row, as it is when all curves are parallel. By default the latter
            for all slopes together, beside a constant, with independent rows and without sampling
            weights, and the only one otherwise.

        Returns
        -------
        HypothesisTest or DataFrame
            One test, or one row of statistic, df and p-value for each parameter.

        Notes
        -----
        Equal slopes mean curves that are parallel: the regressors move the location of the noise
        and not its shape. See :func:`qhreg.process.equality_test` for the statistic and
        :mod:`qhreg.covariance.joint` for the covariances; the one for noise that is the same in every
        row is (QH-23).

        Differences between neighbouring fits are small against the fits themselves, and noise in their
        covariance makes the statistic large. The p-value therefore counts the covariance as one
        with as many degrees of freedom as rows in the widened zone, fewest over the levels. With 100 to
        500 rows, normal, exponential and lognormal regressors and three or five levels, parallel
        curves were then rejected at the level of 5 % in 3 to 11 % of 300 samples
        (``python benchmarks/coverage.py --slopes``).

        The sandwich of ``robust=True`` needs the density near every line where the rows with leverage
        are. It counts half a degree of freedom for each row in the zone, no more than the intervals of
        single slopes have, and at most one less than there are clusters: of the same samples 2 to 6 %
        were rejected with three levels and 0.3 to 2 % with five.
        """
        chosen = self._slopes() if columns is None else self._places(columns)
        estimates = self.params.to_numpy()[:, chosen]
        alike = self._may_be_alike(chosen)
        if robust is None:
            robust = not (joint and columns is None and alike)
        elif not robust and not alike:
            raise DomainError(
                "robust=False takes the noise to be the same in every row: it is for slopes beside a "
                "constant, independent rows (HC0 or HC1) and fits without sampling weights"
            )
        cov, df_cov = self._joint(chosen) if robust else self._shift(chosen)
        null = "equal slopes at " + ", ".join(f"{tau:g}" for tau in self.taus)
        if joint:
            name = f"Wald test ({self.cov_type if robust else 'noise alike in all rows'})"
            return equality_test(estimates, cov, df_cov=df_cov, name=name, null=null)
        rows = {}
        size = len(chosen)
        for place, column in enumerate(chosen):
            own = np.arange(len(self)) * size + place
            made = equality_test(estimates[:, [place]], cov[np.ix_(own, own)], df_cov=df_cov)
            rows[self.names[column]] = (made.statistic, made.df, made.pvalue)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "pvalue"])


def _has_no_errors(fit: Any) -> bool:
    """Return whether the covariance of a fit was made and is NaN."""
    made = fit.__dict__.get("_covariance")
    return made is not None and bool(np.isnan(made.cov).any())
