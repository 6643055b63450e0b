"""The uncertainty of a distributional fit: covariance, standard errors, intervals, tests."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceEstimate
from qhreg.distributional.covariance import distributional_covariance
from qhreg.distributional.fit import solve_distributional
from qhreg.distributional.likelihood import BLOCKS, Regression
from qhreg.distributional.solution import DistributionalSolution
from qhreg.exceptions import DataError, DomainError
from qhreg.family.domain import check_alpha
from qhreg.inference.hypothesis_tests import HypothesisTest, density_note, lr_test
from qhreg.results.uncertainty import UncertaintyResults, positions
from qhreg.specification.model_data import refit

__all__ = ["DistributionalInference"]


class DistributionalInference(UncertaintyResults):
    """The part of the results that says how uncertain the estimates are."""

    model: Any
    params: FloatArray
    solution: DistributionalSolution
    nobs: float
    n_rows: int
    n_params: int
    use_t: bool
    llf: Any
    llf_homoskedastic: Any

    @cached_property
    def _covariance(self) -> CovarianceEstimate:
        return distributional_covariance(
            self.model.regression,
            self.params,
            self._choice,
            self.model.observations,
            held=self.solution.held,
            tau_bounds=self.model.tau_bounds,
            names=[str(name) for name in self.model.data.param_names],
        )

    @property
    def bse(self) -> FloatArray:
        """Standard errors; NaN for a parameter that is treated as known."""
        errors = np.sqrt(self._covariance.cov.diagonal())
        start = 0
        for name, size in zip(BLOCKS, self.model.block_sizes, strict=True):
            if name in self._covariance.held_fixed:
                errors[start : start + size] = np.nan
            start += size
        return errors

    @property
    def tvalues(self) -> FloatArray:
        """Estimates in standard errors; NaN for a parameter that is treated as known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values: FloatArray = self.params / self.bse
        return values

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of `tvalues`."""
        values: FloatArray = 2.0 * self._reference_law.sf(np.abs(self.tvalues))
        return values

    @property
    def _reference_law(self) -> Any:
        return stats.t(self.df_resid_inference) if self.use_t else stats.norm

    def conf_int(self, alpha: float = 0.05, cols: Any = None) -> FloatArray:
        """Return Wald limits of the parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the coverage.
        cols : sequence of int or str, optional
            Which parameters, by place or name; all by default.
        """
        check_alpha(alpha)
        half = float(self._reference_law.ppf(1.0 - 0.5 * alpha)) * self.bse
        limits = np.column_stack([self.params - half, self.params + half])
        return limits if cols is None else limits[positions(cols, self.model.data.param_names)]

    # ------------------------------------------------------------------ tests

    def test_homoskedastic(self, which: str = "both") -> HypothesisTest:
        """Return the likelihood ratio test of a constant scale, a constant asymmetry, or both.

        Parameters
        ----------
        which : {"both", "sigma", "tau"}
            What is constant under the hypothesis.

        Returns
        -------
        HypothesisTest
            With ``statistic``, ``df`` and ``pvalue``.
        """
        if which not in ("both", "sigma", "tau"):
            raise DomainError(f"which must be 'both', 'sigma' or 'tau', got {which!r}")
        data = self.model.regression
        tested = {"both": ("scale", "tau"), "sigma": ("scale",), "tau": ("tau",)}[which]
        df = sum(self._restrictions(data, name) for name in tested)
        if df == 0:
            raise DataError(f"there is nothing to test: {' and '.join(tested)} is constant already")
        value = self.llf_homoskedastic
        if which != "both":
            ones = np.ones((self.n_rows, 1))
            restricted = replace(data, **{name: ones for name in tested})
            value = solve_distributional(restricted, tau_bounds=self.model.tau_bounds).loglike
        null = {"both": "one sigma and one tau", "sigma": "one sigma", "tau": "one tau"}[which]
        return self._lr_test(value, df, null)

    def _restrictions(self, data: Regression, name: str) -> int:
        """Return how many coefficients a constant block would lose."""
        design = data.scale if name == "scale" else data.tau
        if not design.shape[1]:
            return 0
        ones = np.ones(design.shape[0])
        distance = ones - design @ np.linalg.lstsq(design, ones, rcond=None)[0]
        if float(np.abs(distance).max()) > 1e-8:
            raise DataError(
                f"the {name} has no constant among its columns: a constant {name} is not nested in it"
            )
        rank: int = design.shape[1] - len(self.solution.dependent[name])
        return rank - 1

    def lr_test(self, restricted: Any) -> HypothesisTest:
        """Return the likelihood ratio test of a restricted fit against this one.

        Parameters
        ----------
        restricted : DistributionalResults or QuantileHuberResults
            A fit to the same data whose model is nested in this one. One by restricted likelihood is
            fitted again by maximum likelihood, as this one was.
        """
        if restricted.nobs != self.nobs or restricted.n_rows != self.n_rows:
            raise DataError(
                f"the restricted fit has {restricted.nobs:.10g} observations, this one "
                f"{self.nobs:.10g}: both must be fits to the same data"
            )
        df = self.n_params - restricted.n_params
        if df < 1:
            raise DataError(
                f"the restricted fit has {restricted.n_params} parameters, this one {self.n_params}: "
                "it is not nested in this one"
            )
        value = restricted.llf
        if getattr(restricted.solution, "p", 0.0) > 0.0:
            ordinary = replace(restricted._fit_data, reml=False, rank=None)
            value = refit(ordinary, None, restricted._fit_solution).loglike
        return self._lr_test(value, df, "the restricted model")

    def _lr_test(self, restricted: float, df: int, null: str) -> HypothesisTest:
        if self.model.has_weights:
            raise DomainError(
                "a likelihood ratio test needs the likelihood of the sample, which sampling weights "
                "replace: use wald_test, whose covariance is robust"
            )
        note = density_note(self.cov_type)
        return lr_test(self.llf, restricted, df, self.nobs, null=null, note=note)
