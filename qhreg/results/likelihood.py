"""What a linear fit says of its likelihood: profiles, the null model, tests of hypotheses."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from qhreg._typing import FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.family.normalizer import log_normalizer_derivatives
from qhreg.inference.hypothesis_tests import HypothesisTest, density_note, lr_test
from qhreg.inference.score_tests import SymmetryTest, score_test, symmetry_test
from qhreg.profile.likelihood import local_maxima
from qhreg.profile.result import LocalMaxima
from qhreg.profile.surface import ProfileSurface, profile_surface
from qhreg.results.base import RegressionResults
from qhreg.solver import Solution
from qhreg.specification.model_data import ModelData, refit
from qhreg.specification.parameters import EXTRA_NAMES, ParameterSpace, require_nested


class LikelihoodResults(RegressionResults):
    """The part of a linear fit that compares it with others by their likelihoods."""

    solution: Solution
    space: ParameterSpace
    tau: float
    tau_estimated: Any
    parameters: Any
    certify_global: Any

    # ------------------------------------------------------------------ profiles

    def local_maxima(self) -> LocalMaxima:
        """Return the local maxima of the likelihood over tau, the highest first.

        In small samples a one-sided law, with tau on a bound, can have the highest likelihood; the
        best maximum inside the bounds is then ``local_maxima().interior``.

        Returns
        -------
        LocalMaxima
            With ``to_frame()``, ``points`` and ``interior``; at the fitted width, where kappa is
            estimated.

        Examples
        --------
        >>> import numpy as np
        >>> from qhreg import QuantileHuberMLE
        >>> tails = -np.log1p(-(np.arange(30) + 0.5) / 30)
        >>> y = np.concatenate([-1.0 - 0.35 * tails, 1.0 + 0.4 * tails])  # two peaks
        >>> fit = QuantileHuberMLE(y, np.ones((60, 1)), kappa=0.3).fit()
        >>> fit.local_maxima().to_frame()[["tau", "llf"]].round(3).values.tolist()[:2]
        [[0.833, -103.714], [0.185, -105.436]]
        """
        return local_maxima(self._fit_data, self._fit_solution)

    def profile_surface(
        self,
        params: tuple[str, str] = ("tau", "kappa"),
        *others: str,
        grids: tuple[Any, Any] | None = None,
        points: int = 25,
        progress: bool = False,
    ) -> ProfileSurface:
        """Return the profile likelihood of tau with kappa or sigma, on a grid.

        Parameters
        ----------
        params : (str, str)
            ("tau", "kappa") or ("tau", "sigma").
        *others
            None are accepted: both names are one pair.
        grids : (array_like, array_like), optional
            Values of both.
        points : int
            Number of values of each by default.
        progress : bool
            Whether to show a progress bar.
        """
        if others:
            pair = (params, *others)
            raise DomainError(f"the parameters are one pair: profile_surface({pair!r})")
        return profile_surface(
            self._profile_data,
            self._fit_solution,
            params,
            grids=grids,
            points=points,
            progress=progress,
        )

    def plot_profile(
        self,
        param: str | int = "tau",
        ax: Any = None,
        *,
        alpha: float = 0.05,
        whole: bool | None = None,
        details: bool = False,
        **options: Any,
    ) -> Any:
        """Draw the profile log-likelihood of a parameter with its interval and return the Axes.

        Parameters
        ----------
        param : str or int
            The parameter.
        ax : Axes, optional
            Where to draw.
        alpha : float
            One minus the nominal coverage of the shaded interval.
        whole : bool, optional
            Whether to show the whole range of tau; by default where another local maximum is not
            rejected at the 99 % level.
        details : bool
            Whether to add the Wald parabola, the cuts, the fits and, for an estimated tau at a given
            kappa, what the global certificate excludes.
        **options
            Of `profile_likelihood`.
        """
        space = self._profile_data.space
        possible = param == "tau" and space.tau is None and space.kappa is not None
        if possible and details and options.get("certificate") is None:
            options["certificate"] = self.certify_global()
        profile = self.profile_likelihood(param, alpha=alpha, **options)
        return profile.plot(ax=ax, whole=whole, details=details)

    # ------------------------------------------------------------------ the null model

    @property
    def _null_data(self) -> ModelData:
        """The model with a constant as only regressor; what is fixed stays fixed."""
        ones, space = self.model.observations.constant, ParameterSpace(1, **self._fixed_at)
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
        at_fit = replace(self._null_data, space=ParameterSpace(1, *self.parameters[1:]))
        null = _total_loss(refit(at_fit))
        return 1.0 - _total_loss(self.solution) / null if null > 0.0 else math.nan

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
        p, there = self.solution.p, restricted.model.has_rows
        if self.model.exog is not None and restricted.model.exog is not None:
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
            choice=self._choice,
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
        self._require_unconstrained("score_test")
        robust = self.cov_type != "nonrobust" if robust is None else robust
        if not robust:
            self._require_likelihood("a score test that is not robust")
        return score_test(
            self._fit_data,
            self.solution,
            self._extra_columns(exog_extra),
            robust=robust,
            held=self._known,
            choice=self._choice,
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


def _total_loss(fit: Solution) -> float:
    """Return the sum of w rho(u), from which the log-likelihood differs by the normalising terms."""
    log_c = float(log_normalizer_derivatives(fit.tau, fit.kappa).value)
    return -fit.loglike - fit.n * (log_c + math.log(fit.sigma))


def least_squares_fit(highest: float, n: float, p: float = 0.0) -> tuple[float, float]:
    r"""Return sigma and log-likelihood of the normal law fitted by least squares.

    .. math:: \sigma^2 = \mathrm{RSS} / m, \qquad
              \ell = -\frac n2 \log(2\pi\sigma^2) - \frac m2, \qquad m = n - p

    Parameters
    ----------
    highest : float
        Maximum of the ordinary log-likelihood, of :func:`qhreg.solver.over_kappa.gaussian_loglike`.
    n : float
        Sum of the weights.
    p : float
        Rank of the regressors for the restricted likelihood, 0 for the ordinary one.
    """
    log_ratio = math.log(n / (n - p))
    log_variance = log_ratio - 1.0 - math.log(2.0 * math.pi) - 2.0 * highest / n
    return math.exp(0.5 * log_variance), highest - 0.5 * (n * log_ratio - p)
