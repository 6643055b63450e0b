"""The uncertainty of a fit: covariance, standard errors, intervals, bootstrap."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceEstimate, no_covariance
from qhreg.covariance.choice import CovarianceChoice, estimate_covariance
from qhreg.covariance.lightside import light_rows, require_light_rows
from qhreg.covariance.scores import score_sum
from qhreg.exceptions import ColumnRangeError, DataError, DomainError, FewRowsError
from qhreg.family.domain import check_alpha
from qhreg.inference.bootstrap import BootstrapResult, bootstrap
from qhreg.inference.intervals import scale_bends, wald_intervals, wald_ratios
from qhreg.profile.score_intervals import SANDWICHES, score_intervals
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
    _law_given: bool
    profile_intervals: Any
    _fit_data: Any
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
            self._require_light_rows()
            made = self._estimated_covariance()
        except FewRowsError as error:
            fixed = () if self.constraint is None else tuple(self.constraint.fixed)
            bound = ("tau",) if self.solution.tau_at_bound else ()
            held = tuple(dict.fromkeys((*bound, *self._known, *fixed)))
            return no_covariance(
                self.cov_type, self.space.size, self.space.free, error, held, self._remedy
            )
        if self._law_given:  # the user has chosen another
            made = replace(made, calibration=None)
        return made

    @property
    def _remedy(self) -> str:
        """What to do without standard errors."""
        if self.constraint is not None:
            return ""
        meant = self.space.tau is None and not self.model.has_weights  # the density
        kind = "profile" if meant else "score"
        return f' conf_int(method="{kind}") needs none.'

    def _estimated_covariance(self) -> CovarianceEstimate:
        """Return the covariance as the type has it, or raise a FewRowsError."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                made = estimate_covariance(
                    self._choice,
                    self._observations,
                    self.solution,
                    self.space,
                    self.constraint,
                    known=self._known,
                    resid=None if self.cov_type == "nonrobust" else self._residuals,
                    names=self.model.data.param_names,
                )
        except ColumnRangeError as error:
            if self.constraint is not None:
                raise
            raise self._beyond_range(error.column) from error
        self._require_range(made.cov.diagonal())
        return made

    @property
    def light_rows(self) -> float:
        """How many rows the fitted density expects on the side of the line with fewer of them.

        What decides how far estimates are from normal: see `conf_int`.
        """
        return light_rows(self.solution.tau, self.solution.kappa, self.nobs)

    def _require_light_rows(self) -> None:
        """Raise a FewRowsError where next to no row lies on one side of the line."""
        solution, k = self.solution, self.solution.rank
        if self.constraint is not None:
            k = min(k, self.constraint.transform.shape[1])
        require_light_rows(solution.tau, solution.kappa, self.nobs, k)

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
        made = self._replicates
        text = f"Covariance: {made.kind} bootstrap with {len(made.params)} replicates"
        text += f", {made.n_failed} more failed." if made.n_failed else "."
        held, cov = self._never_moved(made.params), made.cov
        for name in held:
            j = self.space.position(name)
            cov[j] = cov[:, j] = 0.0
            text += (
                f" {name} is {getattr(self, name):g} in every replicate and is treated as known."
            )
        return CovarianceEstimate(cov, "bootstrap", text, self.space.free, held)

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
        seed: Any = None,
        groups: Any = None,
        **options: Any,
    ) -> BootstrapResult:
        """Return bootstrap replicates of the estimates.

        Parameters
        ----------
        kind : {"pairs", "cluster", "parametric", "multiplier"}, optional
            What is resampled: rows, whole groups, noise from the fitted law, or weights of the
            scores, without refits. By default rows, or groups when there are groups.
        n_boot : int
            Number of replicates.
        seed : int, Generator or SeedSequence, optional
            Source of randomness.
        groups : array_like, Series or str, optional
            Groups, as for the cluster covariance.
        **options
            ``n_jobs``, ``progress`` and ``method``: see :func:`qhreg.inference.bootstrap.bootstrap`.

        Returns
        -------
        BootstrapResult
            With ``params``, ``cov``, ``bse``, ``conf_int(alpha, method)`` and
            ``summary_frame(alpha)``, which is printed.
        """
        if self.constraint is not None:
            raise DomainError("the bootstrap is for fits without constraints")
        obs = self._observations
        if groups is not None:
            groups = group_codes(self.model.row_source.take("groups", groups))
        made = bootstrap(
            obs.exog,
            obs.endog,
            self.solution,
            kind=kind or ("pairs" if groups is None else "cluster"),
            n_boot=n_boot,
            seed=seed,
            groups=groups,
            free=self.space.free,
            tau_bounds=self.model.tau_bounds,
            freq_weights=obs.freq_weights,
            weights=obs.weights,
            offset=obs.offset,
            **options,
        )
        return replace(made, names=tuple(str(name) for name in self.model.data.param_names))

    @cached_property
    def gradient_norm(self) -> float:
        r"""Length of the score in units of standard errors: 0 at an exact maximum.

        :math:`\sqrt{g' I^{-1} g}` with g the score and I the expected information, both of the
        parameters that are not held: about how many standard errors a Newton step would move. NaN at
        kappa = 0, where the log-likelihood has a corner at its maximum; see `duality_gap`.
        """
        if self.solution.kappa == 0.0:
            return float("nan")
        obs, space = self._observations, self.space
        score = score_sum(
            obs.exog,
            obs.endog,
            self.solution,
            free=space.free,
            weights=obs.case_weights,
            offset=obs.offset,
        )
        cases = replace(obs, freq_weights=obs.case_weights, weights=None)
        plain = CovarianceChoice("nonrobust")
        made = estimate_covariance(
            plain, cases, self.solution, space, self.constraint, known=self._known
        )
        return math.sqrt(max(float(score @ made.cov @ score), 0.0))

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
        """Standard errors for the first steps of a profile, also where they are not to be trusted."""
        known = "_covariance" in self.__dict__ or self.cov_type == "bootstrap"
        try:
            made = self._covariance if known else self._estimated_covariance()
        except FewRowsError:
            return np.full(self.params.size, np.nan)
        return np.sqrt(made.cov.diagonal())

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
        """Two-sided p-values of `tvalues`; with HC0 and HC1 of the law that intervals use."""
        law = self._covariance.calibration
        if law is not None:
            return law.pvalues(self.tvalues, scale_bends(self.params, self.bse, self.space))
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
        method : {"wald", "profile", "score", "bootstrap"}
            Standard errors, with tau on the logit and sigma on the log scale; inversion of the
            likelihood ratio test; inversion of the robust score test; resampling.
        cols : sequence of int or str, optional
            Which parameters, by place or name; all by default.
        **options
            Options of the profile, of the score test (``search``) or of the bootstrap (see
            `bootstrap`), and ``interval``, "percentile" or "bca", for the latter. Fits with a
            bootstrap covariance use its replicates when no option of the bootstrap is given.

        Notes
        -----
        What decides how well they cover is not the number of rows but that on the light side of the
        fit, m = nobs min(tau, 1 - tau). Wald intervals with the expected information need about
        m = 100. Profile intervals trust the density and cover 93 to 97 % from m = 10 on when it holds.
        When it does not, Wald intervals with ``cov_type="HC1"`` cover 92.4 to 97.5 % from 200 rows on
        with t, heteroskedastic, Gumbel and gamma noise: their quantiles allow for skewness and for the
        noise of the sandwich (:mod:`qhreg.covariance.calibration`). Where fewer rows are expected on the
        light side than there are coefficients, as mostly on a bound of tau, Wald intervals of any kind
        hold little, and are NaN (:mod:`qhreg.covariance.lightside`); profile and "score" intervals
        remain. The latter, which take longer, cover 92.9 to 97.4 % in the same cases, and allow for
        the dependence of the `cov_type` (HC1 if that is no sandwich). The coverage study in the
        documentation has the numbers.
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
            law = self._covariance.calibration
            critical = self._critical_value(alpha) if law is None else special.ndtri(1 - alpha / 2)
            return wald_intervals(self.params, self.bse, self.space, float(critical), law)
        if method == "profile":
            limits: FloatArray = self.profile_intervals(alpha, places=places, **options)
            return limits
        if method == "score":
            return self._score_intervals(alpha, places, **options)
        if method == "bootstrap":
            interval = options.pop("interval", "percentile")
            stored = self.cov_type == "bootstrap" and not options
            made = self._replicates if stored else self.bootstrap(**options)
            resampled: FloatArray = made.conf_int(alpha, interval)
            return resampled
        raise DomainError(
            f"method must be 'wald', 'profile', 'score' or 'bootstrap', got {method!r}"
        )

    def _score_intervals(
        self, alpha: float, places: list[int] | None = None, search: bool | None = None
    ) -> FloatArray:
        """Return intervals from robust score tests that allow for what the covariance allows for."""
        if self.constraint is not None:
            raise DomainError("score intervals are for fits without constraints")
        if self.kappa_limit == "gaussian":
            raise DomainError("kappa ended at infinity, where tau has no score: use Wald intervals")
        robust = self.cov_type in SANDWICHES
        options = {k: v for k, v in self._choice.options.items() if k != "width"} if robust else {}
        every: list[str | int] = [*range(self.space.k), *self.space.extra_names]
        chosen = list(range(len(every))) if places is None else places
        limits = np.full((len(every), 2), np.nan)
        limits[chosen] = score_intervals(
            self._fit_data,
            self.solution,
            alpha=alpha,
            cov_type=self.cov_type if robust else "HC1",
            search=search,
            params=[every[j] for j in chosen],
            **options,
        )
        return limits
