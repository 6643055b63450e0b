"""A linear fit compared with others: the null model, tests of hypotheses."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.covariance.sandwich import lags
from qhreg.exceptions import DataError, DomainError
from qhreg.inference.fit_statistics import null_loss, total_loss
from qhreg.inference.hypothesis_tests import HypothesisTest, density_note, lr_test
from qhreg.inference.score_tests import score_test
from qhreg.inference.symmetry import SymmetryTest, symmetry_test
from qhreg.solver import Solution
from qhreg.specification.constraints import Constraint, require_nested
from qhreg.specification.model_data import ModelData, refit
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace

__all__ = ["ComparisonResults"]


class ComparisonResults:
    """The part of the results that sets the fit against other models."""

    model: Any
    space: ParameterSpace
    solution: Solution
    tau: float
    constraint: Constraint | None
    cov_type: Any
    tvalues: Any
    pvalues: Any
    tau_estimated: Any
    use_t: bool
    df_resid_inference: float
    df_model: float
    k_constant: int
    parameters: Any
    _check_restricted: Any
    _require_likelihood: Any
    _observations: Any
    _fit_data: Any
    _fit_solution: Any
    _choice: Any
    _known: Any

    @property
    def _null_data(self) -> ModelData:
        """The model with a constant as only regressor; what is fixed stays fixed."""
        obs, space = self._observations, ParameterSpace(1, **self._fixed_at)
        ones = replace(obs, exog=np.ones((obs.endog.size, 1)))
        reml = self.solution.p > 0.0
        return ModelData(ones, space, self.model.tau_bounds, ("const",), reml=reml)

    @cached_property
    def llnull(self) -> float:
        """Log-likelihood of the model with a constant as only regressor, fitted as this one was."""
        return refit(self._null_data).loglike

    @cached_property
    def llr(self) -> float:
        """Likelihood ratio statistic against the constant.

        Where the likelihood is the restricted one it is that of the constant inside this model, as in
        `lr_test`, and 2 (llf - llnull) otherwise.
        """
        p = self.solution.p
        if not p:
            return 2.0 * (self.solution.loglike - self.llnull)
        null = refit(replace(self._null_data, rank=p))
        return 2.0 * (self.solution.loglike_restricted - null.loglike_restricted)

    @property
    def llr_pvalue(self) -> float:
        """The p-value of `llr` by the F law; NaN when there is nothing to test.

        NaN with sampling weights too: the unit of the weights is that of the statistic. And under
        constraints, which a constant need not satisfy.
        """
        comparable = not self.model.has_weights and self.constraint is None
        if not self.k_constant or self.df_model <= 0 or not comparable:
            return math.nan
        return lr_test(0.5 * self.llr, 0.0, int(self.df_model), self._lr_df_resid).pvalue

    @property
    def _lr_df_resid(self) -> float:
        """M of likelihood-ratio tests: observations less p of the likelihood that was maximised."""
        return self.solution.n - self.solution.p

    def pseudo_rsquared(self, kind: str = "r1") -> float:
        """Return a pseudo R-squared.

        Parameters
        ----------
        kind : {"r1", "cs", "mcf"}
            "r1" (Koenker and Machado): one minus the loss over that of the best constant at the same
            sigma, tau and kappa. "cs" (Cox and Snell): one minus exp(-llr / m), m the sum of the
            weights, less the rank for the restricted likelihood; R-squared itself for normal noise.
            "mcf" (McFadden): one minus llf / llnull, whose value depends on the units of the response,
            as that of any density does.
        """
        if kind == "r1":
            return self.prsquared
        if kind == "cs":
            return -math.expm1(-self.llr / self._lr_df_resid)
        if kind == "mcf":
            return 1.0 - self.solution.loglike / self.llnull
        raise DomainError(f"kind must be 'r1', 'cs' or 'mcf', got {kind!r}")

    @cached_property
    def prsquared(self) -> float:
        """R1 of Koenker and Machado, as in QuantReg: one minus the ratio of the losses.

        NaN where a constant fits exactly.
        """
        loss = total_loss(self.solution.loglike, self.solution.n, self.parameters)
        null = null_loss(self._observations, self.parameters)
        return 1.0 - loss / null if null > 0.0 else math.nan

    @property
    def _fixed_at(self) -> dict[str, float | None]:
        """Where the model or a constraint fixes sigma, tau and kappa; None for an estimated one."""
        by_model = {name: getattr(self.space, name) for name in EXTRA_NAMES}
        return by_model if self.constraint is None else {**by_model, **self.constraint.fixed}

    # ------------------------------------------------------------------ tests

    def lr_test(self, restricted: Any) -> HypothesisTest:
        """Return the likelihood ratio test of a restricted fit against this one.

        Parameters
        ----------
        restricted : QuantileHuberResults
            A fit to the same data whose model is nested in this one: fewer columns, a constraint, or
            a fixed parameter. That is checked while the data are there.

        Notes
        -----
        Both fits need the same criterion: a restricted likelihood with the p and m of this model
        (Welham & Thompson 1997). A `restricted` that has another one is fitted again, which needs its
        data. The law is F(df, m) (:mod:`qhreg.inference.hypothesis_tests`): for normal noise and
        restrictions of the coefficients, the F test of least squares.
        """
        df = self._check_restricted(restricted)
        p, there = self.solution.p, restricted.model.exog is not None
        if self.model.exog is not None and there:
            inner, outer = restricted._fit_data, self._fit_data
            require_nested((inner.observations, inner.space), (outer.observations, outer.space))
        value = restricted.solution.loglike_restricted
        if restricted.solution.p != p:
            if not there:
                raise DataError(
                    "the restricted model must be fitted again inside this one, and its data were "
                    "removed: test before remove_data(), or fit both with reml=False"
                )
            inside = replace(restricted._fit_data, reml=p > 0.0, rank=p or None)
            value = refit(inside, None, restricted._fit_solution).loglike_restricted
        return lr_test(
            self.solution.loglike_restricted,
            value,
            df,
            self._lr_df_resid,
            note=density_note(self.cov_type),
        )

    def test_symmetry(self) -> SymmetryTest:
        """Return likelihood ratio, score and Wald tests of tau = 1/2.

        The Wald test is that of the table: it uses the covariance of these results. The score test is
        robust where that covariance is, and allows for its clusters or lags. The likelihood ratio
        always trusts the density: with noise that is symmetric but heteroskedastic, or has heavier
        tails, it rejects too often. An estimated kappa is estimated again under the hypothesis.
        """
        self._require_likelihood("test_symmetry")
        if not self.tau_estimated:
            raise DomainError(f"tau is fixed at {self.tau:g}: there is no symmetry to test")
        data, robust = self._fit_data, self.cov_type != "nonrobust"
        if data.space.tau is not None:
            raise DomainError("the constraints fix tau: there is no symmetry to test")
        return symmetry_test(
            data,
            self._fit_solution,
            self._wald_symmetry,
            robust=robust,
            note=density_note(self.cov_type),
            **(self._dependence if robust else {}),
        )

    @property
    def _wald_symmetry(self) -> HypothesisTest:
        """The test of tau = 1/2 in the table."""
        position = self.space.position("tau")
        t, p = float(self.tvalues[position]), float(self.pvalues[position])
        missing = ""
        if self.solution.tau_at_bound:
            missing = "tau is on its bound"
        elif math.isnan(t):
            missing = "tau has no standard error, or depends on a width that is not determined"
        df_resid = self.df_resid_inference if self.use_t else math.inf
        fvalue = t * t if self.use_t else None
        return HypothesisTest("Wald test", "tau = 1/2", t * t, 1, p, fvalue, df_resid, missing)

    def score_test(self, exog_extra: Any, *, robust: bool | None = None) -> HypothesisTest:
        """Return the score test of adding columns, without fitting the larger model.

        Parameters
        ----------
        exog_extra : array_like, shape (n,) or (n, r), str or list of str
            Columns to add; a Series or DataFrame is matched to the rows by label, names are those of
            columns of the data of the formula.
        robust : bool, optional
            Whether the variance of the score comes from the scores themselves; by default when the
            covariance of these results is not "nonrobust". It allows for the clusters or lags that the
            covariance allows for.
        """
        if self.constraint is not None:
            raise DomainError("score_test is for fits without constraints")
        robust = self.cov_type != "nonrobust" if robust is None else robust
        if not robust:
            self._require_likelihood("a score test that is not robust")
        return score_test(
            self._fit_data,
            self.solution,
            self._extra_columns(exog_extra),
            robust=robust,
            held=self._known,
            **(self._dependence if robust else {}),
        )

    def _extra_columns(self, given: Any) -> FloatArray:
        """Return columns for the rows of the model, or raise a DataError."""
        source, name = self.model.row_source, "exog_extra"
        named = isinstance(given, (list, tuple)) and all(isinstance(each, str) for each in given)
        taken = [source.take(name, each) for each in given] if named else source.take(name, given)
        try:
            columns = np.asarray(taken, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} must be numeric: {error}") from error
        return columns.T if named else columns

    @property
    def _dependence(self) -> dict[str, Any]:
        """How the covariance lets rows depend on each other."""
        options = {k: v for k, v in self._choice.options.items() if k != "width"}
        if self.cov_type == "HAC":
            return {
                **options,
                "maxlags": lags(options.get("maxlags"), self._observations.endog.size),
            }
        return options if self.cov_type == "cluster" else {}
