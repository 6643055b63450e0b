"""The uncertainty of a fit: covariance, standard errors, intervals, bootstrap."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.covariance import (
    CovarianceEstimate,
    design_moments,
    estimate_covariance,
    nonrobust_covariance,
)
from qhreg.covariance.scores import score_sum
from qhreg.exceptions import ColumnRangeError, DataError, DomainError
from qhreg.family.domain import check_alpha
from qhreg.family.normalizer import log_curvature
from qhreg.inference.bootstrap import BootstrapResult, bootstrap
from qhreg.inference.intervals import wald_intervals, wald_ratios
from qhreg.results.uncertainty import UncertaintyResults, positions
from qhreg.solver import Solution
from qhreg.specification.alignment import group_codes
from qhreg.specification.constraints import Constraint
from qhreg.specification.parameters import ParameterSpace

__all__ = ["CovarianceResults"]


SMALLEST_VARIANCE = 1e-290
"""Variance below which floating point numbers lose digits."""


class CovarianceResults(UncertaintyResults):
    """The part of the results that says how uncertain the estimates are."""

    model: Any
    params: FloatArray
    space: ParameterSpace
    solution: Solution
    constraint: Constraint | None
    kappa_limit: Any
    sigma: float
    nobs: float
    use_t: bool
    profile_intervals: Any
    _fit_data: Any
    _fit_solution: Any
    _observations: Any

    @cached_property
    def _residuals(self) -> FloatArray:
        """Response minus location, kept since several numbers of a summary need them."""
        residuals: FloatArray = self._observations.residuals(self.solution.beta)
        return residuals

    @cached_property
    def _covariance(self) -> CovarianceEstimate:
        if self._choice.cov_type == "bootstrap":
            return self._bootstrap_covariance()
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                estimate = estimate_covariance(
                    self._choice,
                    self._fit_data,
                    self._fit_solution,
                    self.space,
                    self._known,
                    [str(name) for name in self.model.data.param_names],
                )
        except ColumnRangeError as error:
            if self.constraint is not None:
                raise
            raise self._beyond_range(error.column) from error
        self._require_range(estimate.cov.diagonal()[estimate.identified])
        return estimate

    def _require_range(self, variances: FloatArray) -> None:
        """Raise a DataError where a square of the units is no floating point number."""
        if all(SMALLEST_VARIANCE < variance < math.inf for variance in variances.tolist()):
            return
        lost = ~np.isfinite(variances) | ((variances > 0.0) & (variances < SMALLEST_VARIANCE))
        lost |= (variances == 0.0) & (self.sigma < math.sqrt(SMALLEST_VARIANCE))
        if lost.any():
            raise self._beyond_range(int(np.flatnonzero(lost)[0]))

    def _beyond_range(self, j: int) -> DataError:
        """Return the error that names a parameter whose variance is no floating point number."""
        return DataError(
            f"the variance of {self.model.data.param_names[j]} is beyond the range of floating point "
            f"numbers (its estimate is {self.params[j]:.3g}): give endog or the column in another unit"
        )

    @property
    def _known(self) -> tuple[str, ...]:
        """Estimated parameters that have no sampling distribution: kappa at an end, tau with it."""
        if self.kappa_limit is None:
            return ()
        at_end = {
            "laplace": ("kappa",),
            "one-sided": ("kappa",),
            "gaussian": ("tau", "kappa"),
        }
        return tuple(
            name for name in at_end[self.kappa_limit] if self.space.position(name) is not None
        )

    def _bootstrap_covariance(self) -> CovarianceEstimate:
        replicates = self._replicates
        text = f"Covariance: {replicates.kind} bootstrap with {len(replicates.params)} replicates"
        text += f", {replicates.n_failed} more failed." if replicates.n_failed else "."
        held, cov = self._never_moved(replicates.params), replicates.cov
        for name in held:
            j = self.space.position(name)
            cov[j] = cov[:, j] = 0.0
        identified = np.ones(len(cov), dtype=bool)
        return CovarianceEstimate(cov, "bootstrap", text, held, identified)

    def _never_moved(self, replicates: FloatArray) -> tuple[str, ...]:
        """Return the parameters that no replicate moves, such as a tau on its bound."""
        same = np.isclose(replicates, self.params, rtol=1e-12, atol=0.0)
        return tuple(
            name for name in self.space.extra_names if same[:, self.space.position(name)].all()
        )

    @cached_property
    def _replicates(self) -> BootstrapResult:
        """The replicates behind a bootstrap covariance."""
        return self.bootstrap(**self._choice.options)

    def bootstrap(
        self,
        kind: str | None = None,
        n_boot: int = 999,
        rng: Any = None,
        groups: Any = None,
        *,
        seed: Any = None,
        **options: Any,
    ) -> BootstrapResult:
        """Return bootstrap replicates of the estimates.

        Parameters
        ----------
        kind : {"pairs", "cluster", "parametric", "wild", "multiplier"}, optional
            What is resampled: rows, whole groups, noise from the fitted law, the residuals, or weights
            of the scores, without refits. By default rows, or groups when there are groups.
        n_boot : int
            Number of replicates.
        rng : int, Generator or SeedSequence, optional
            Source of randomness, as in ``numpy.random.default_rng``.
        groups : array_like, Series or str, optional
            Groups, as for the cluster covariance.
        seed
            Another name of `rng`.
        **options
            ``n_jobs`` and ``progress``: see :func:`qhreg.inference.bootstrap.bootstrap`.

        Returns
        -------
        BootstrapResult
            With ``params``, ``cov``, ``bse``, ``conf_int(alpha, method)`` and
            ``summary_frame(alpha)``, which is printed.
        """
        if self.constraint is not None:
            raise DomainError("the bootstrap is for fits without constraints")
        if groups is not None:
            groups = group_codes(self.model.row_source.take("groups", groups))
        replicates = bootstrap(
            self._fit_data,
            self.solution,
            kind=kind or ("pairs" if groups is None else "cluster"),
            n_boot=n_boot,
            rng=seed if rng is None else rng,
            groups=groups,
            held=self._known,
            **options,
        )
        return replace(replicates, names=tuple(str(name) for name in self.model.data.param_names))

    @cached_property
    def gradient_norm(self) -> float:
        r"""Length of the score in units of standard errors: 0 at an exact maximum.

        :math:`\sqrt{g' I^{-1} g}` with g the score and I the expected information, both of the
        parameters that are not held: about how many standard errors a Newton step would move. NaN at
        kappa = 0, where the log-likelihood has a corner at its maximum; see `duality_gap`.
        """
        if self.solution.kappa == 0.0:
            return float("nan")
        data, solution = self._fit_data, self._fit_solution
        obs, p = data.observations, solution.p
        score = score_sum(
            obs.exog,
            obs.endog,
            solution,
            free=data.space.free,
            weights=obs.case_weights,
            offset=obs.offset,
        )
        if p:  # the score of the restricted likelihood (QH-25)
            log_q = log_curvature(solution.tau, solution.kappa)
            more = {
                "sigma": p / solution.sigma,
                "tau": -0.5 * p * log_q.d_tau,
                "kappa": -0.5 * p * log_q.d_kappa,
            }
            for name in data.space.extra_names:
                score[data.space.position(name)] += more[name]
        moments = design_moments(obs.exog, obs.case_weights)
        known = [name for name in self._known if name in data.space.extra_names]
        covariance = nonrobust_covariance(moments, solution, data.space, known).cov
        return math.sqrt(max(float(score @ covariance @ score), 0.0))

    @cached_property
    def bse(self) -> FloatArray:
        """Standard errors; NaN for a parameter that is treated as known."""
        errors = np.sqrt(self._covariance.cov.diagonal())
        for name in self._covariance.held_fixed:
            errors[self.space.position(name)] = np.nan
        if self.constraint is not None:
            known = np.abs(self.constraint.transform).max(axis=1, initial=0.0) < 1e-12
            errors[: self.space.k][known] = np.nan
        return errors

    @property
    def _rough_errors(self) -> FloatArray:
        """Standard errors for the first steps of a profile."""
        return np.sqrt(self._covariance.cov.diagonal())

    @property
    def held_fixed(self) -> dict[str, str]:
        """Estimated parameters that the covariance treats as known, and why."""
        by_user = {} if self.constraint is None else self.constraint.fixed
        reasons = {}
        for name in self._covariance.held_fixed:
            if name in by_user:
                reasons[name] = "constrained"
            elif name in self._known:
                reasons[name] = "limit"
            else:
                at_bound = name == "tau" and self.solution.tau_at_bound
                reasons[name] = "at bound" if at_bound else "no info"
        return reasons

    @property
    def null_values(self) -> FloatArray:
        """The values that `tvalues` test: 0 for coefficients, 1/2 for tau, none for the others.

        None for tau either where kappa ended at a limit at which every larger width fits as well: tau
        then depends on the width that stands for all of them.
        """
        values = np.zeros(self.params.size)
        tested = self.kappa_limit not in ("one-sided", "gaussian")
        for name in self.space.extra_names:
            values[self.space.position(name)] = 0.5 if name == "tau" and tested else np.nan
        return values

    @cached_property
    def tvalues(self) -> FloatArray:
        """Estimate minus tested value, in standard errors; NaN where there is nothing to test.

        tau on the logit scale, as its interval, so that the two never contradict each other;
        `t_test` and `wald_test` are on the scale of the parameters.
        """
        return wald_ratios(self.params, self.bse, self.null_values, self.space)

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of `tvalues`: t with `df_resid_inference`, normal with use_t=False."""
        distance = -np.abs(self.tvalues)
        if self.use_t:
            return np.asarray(2.0 * special.stdtr(self.df_resid_inference, distance))
        return np.asarray(2.0 * special.ndtr(distance))

    def _critical_value(self, alpha: float) -> float:
        """Return the two-sided critical value of the normal or t distribution."""
        upper = 1.0 - 0.5 * alpha
        if self.use_t:
            return float(special.stdtrit(self.df_resid_inference, upper))
        return float(special.ndtri(upper))

    def conf_int(
        self, alpha: float = 0.05, method: str = "wald", cols: Any = None, **options: Any
    ) -> FloatArray:
        """Return confidence limits of the parameters, shape (size, 2).

        Parameters
        ----------
        alpha : float
            One minus the coverage.
        method : {"wald", "profile", "bootstrap"}
            Standard errors, with tau on the logit and sigma on the log scale; inversion of the
            likelihood ratio test; resampling.
        cols : sequence of int or str, optional
            Which parameters, by place or name; all by default.
        **options
            Options of the profile or of the bootstrap (see `bootstrap`), and ``interval``, "percentile",
            "basic" or "bca", for the latter. Fits with a bootstrap covariance use its replicates when
            no option of the bootstrap is given.

        Notes
        -----
        Wald limits are estimates plus and minus standard errors times the quantile of t with
        `df_resid_inference` degrees of freedom (normal with ``use_t=False``). Profile intervals assume
        the density, whatever the `cov_type`.
        """
        check_alpha(alpha)
        if cols is None:
            return self._limits(alpha, method, None, options)
        places = positions(cols, self.model.data.param_names)
        return self._limits(alpha, method, places, options)[places]

    def _limits(
        self, alpha: float, method: str, places: list[int] | None, options: dict[str, Any]
    ) -> FloatArray:
        """Return the limits of all parameters; those left out by `places` may be NaN."""
        if method == "wald":
            if options:
                raise TypeError(f"Wald intervals have no option {next(iter(options))!r}")
            return wald_intervals(self.params, self.bse, self.space, self._critical_value(alpha))
        if method == "profile":
            limits: FloatArray = self.profile_intervals(alpha, places=places, **options)
            return limits
        if method == "bootstrap":
            interval = options.pop("interval", "percentile")
            stored = self.cov_type == "bootstrap" and not options
            made = self._replicates if stored else self.bootstrap(**options)
            resampled: FloatArray = made.conf_int(alpha, interval)
            return resampled
        raise DomainError(f"method must be 'wald', 'profile' or 'bootstrap', got {method!r}")
