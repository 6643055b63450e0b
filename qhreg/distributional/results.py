"""A fitted regression of location, scale and asymmetry."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from statsmodels.base.wrapper import populate_wrapper

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceChoice, CovarianceEstimate
from qhreg.distributional.covariance import distributional_covariance, distributional_parts
from qhreg.distributional.fit import (
    DistributionalData,
    DistributionalSolution,
    solve_distributional,
)
from qhreg.distributional.likelihood import BLOCKS
from qhreg.exceptions import BoundaryWarning, DataError, DomainError, RankWarning
from qhreg.family.distribution import quantile_huber
from qhreg.inference.hypothesis_tests import HypothesisTest, density_note, lr_test
from qhreg.profile.curve import Curve, ProfilePoint
from qhreg.results.base import RegressionResults, ResultsWrapper, retvals
from qhreg.results.fitted import of_solution
from qhreg.results.summary import Tables, covariance_note, criteria, head, zone
from qhreg.specification.model_data import refit
from qhreg.specification.observations import find_constant
from qhreg.specification.typical import typical_rows


def _held(
    data: DistributionalData, column: int, search: bool | None, value: float, near: FloatArray
) -> tuple[FloatArray, ProfilePoint]:
    """Return the fit with one coefficient held: what it explains is a known part of its predictor."""
    with warnings.catch_warnings():
        # of bounds and rank the fit itself has told
        for category in (BoundaryWarning, RankWarning):
            warnings.simplefilter("ignore", category)
        fit = solve_distributional(
            data.without(column, value), start=np.delete(near, column), search=search
        )
    params = np.insert(fit.params, column, value)
    return params, _point(fit, value, params, data.kappa)


def _point(
    fit: DistributionalSolution, value: float, params: FloatArray, kappa: float
) -> ProfilePoint:
    """Return a fit as a point of a profile; sigma and tau differ from row to row."""
    return ProfilePoint(
        value, fit.loglike, math.nan, fit.location_gap, params, math.nan, math.nan, kappa
    )


def coefficient_curve(
    data: DistributionalData,
    solution: DistributionalSolution,
    param: str | int,
    *,
    se: float = math.nan,
    search: bool | None = None,
) -> Curve:
    """Return the profile of a coefficient of any predictor as a function.

    Parameters
    ----------
    data : DistributionalData
        The model.
    solution : DistributionalSolution
        Its fit.
    param : str or int
        Name or place of the coefficient.
    se : float
        Standard error of the estimate: the first step.
    search : bool or None
        As in :func:`qhreg.solver.solve`, for the start of every point; by default none.
    """
    column, m = data.column(param), data.observations.nobs
    estimate = float(solution.params[column])
    return Curve(
        data.names[column],
        estimate,
        solution.loglike,
        m,
        partial(_held, data, column, bool(search)),
        {estimate: solution.params},
        names=data.names,
        step=se if se > 0.0 else max(abs(estimate), 1.0) / math.sqrt(m),
        points={estimate: _point(solution, estimate, solution.params, data.kappa)},
    )


class DistributionalResults(RegressionResults):
    """A fitted regression of location, scale and asymmetry.

    Attributes
    ----------
    params : ndarray
        Coefficients of the location, of log sigma and of logit tau.
    kappa : float
        Huber width.
    solution : DistributionalSolution
        What the solver returned.
    nobs : float
        Number of observations (sum of the frequency weights).
    df_model, df_resid : float
        Regressors of the location without the constant; observations minus the rank of the regressors
        of the location, as in least squares.
    mle_retvals : dict
        What the solver said: converged, iterations, score_norm, location_gap and more.
    """

    solution: DistributionalSolution
    _parts_of = staticmethod(distributional_parts)
    _curve_of = staticmethod(coefficient_curve)
    _made_from_data = ("_covariance", "ranges")

    def __init__(
        self,
        model: Any,
        solution: DistributionalSolution,
        choice: CovarianceChoice,
        *,
        use_t: bool | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            solution,
            solution.params,
            choice,
            rank=solution.rank,
            k_constant=model.k_constant,
            use_t=use_t,
            settings=settings,
        )
        self.kappa = model.kappa
        self.block_sizes = (model.k_exog, *map(len, model.further_names.values()))
        self.n_params = self.params.size - sum(map(len, solution.dependent.values()))
        self.mle_retvals = retvals(solution)

    @property
    def _fit_data(self) -> DistributionalData:
        data: DistributionalData = self.model.model_data()
        return data

    # ------------------------------------------------------------------ the fit

    llf = of_solution("loglike", "Log-likelihood.")

    @property
    def llf_homoskedastic(self) -> float:
        """Log-likelihood with one scale and one asymmetry for all rows."""
        return self.solution.start.loglike

    @property
    def local_maximum(self) -> bool:
        """Whether the fit is a strict local maximum: stationary, with a definite Hessian there.

        At kappa = 0, where the location sits in a corner, the Hessian is that of scale and asymmetry.
        """
        return self.converged and self.solution.curvature > 0.0

    @property
    def sigma(self) -> FloatArray:
        """Scale of each row."""
        return np.asarray(self._row_law.sigma)

    @property
    def tau(self) -> FloatArray:
        """Asymmetry of each row."""
        return np.asarray(self._row_law.tau)

    @property
    def quantile_level(self) -> FloatArray:
        """P(y < location) of each row in the fitted distribution: 1 - tau only at kappa = 0."""
        level: FloatArray = quantile_huber.cdf(0.0, self.tau, self.kappa)
        return level

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Smallest and largest scale and asymmetry of the rows."""
        law = self._row_law
        pairs = {"sigma": law.sigma, "tau": law.tau}
        return {name: (float(v.min()), float(v.max())) for name, v in pairs.items()}

    # ------------------------------------------------------------------ inference

    def _estimate_covariance(self) -> CovarianceEstimate:
        return distributional_covariance(self._choice, self._fit_data, self.solution)

    @property
    def held_fixed(self) -> dict[str, str]:
        """Estimated parameters that the covariance treats as known, and why."""
        return dict.fromkeys(self._covariance.held_fixed, "limit")

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
        data = self._fit_data
        tested = {"both": ("scale", "tau"), "sigma": ("scale",), "tau": ("tau",)}[which]
        df = sum(self._restrictions(data, name) for name in tested)
        if df == 0:
            raise DataError(f"there is nothing to test: {' and '.join(tested)} is constant already")
        value = self.llf_homoskedastic
        if which != "both":
            ones = np.ones((self.n_rows, 1))
            constant: dict[str, Any] = dict.fromkeys(tested, ones)
            value = solve_distributional(replace(data, **constant, names=())).loglike
        null = {"both": "one sigma and one tau", "sigma": "one sigma", "tau": "one tau"}[which]
        return self._lr_test(value, df, null)

    def _restrictions(self, data: DistributionalData, name: str) -> int:
        """Return how many coefficients a constant block would lose."""
        design = data.scale if name == "scale" else data.tau
        if not design.shape[1]:
            return 0
        if not find_constant(design)[0]:
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
        df = self._check_restricted(restricted)
        value = restricted.llf
        if getattr(restricted.solution, "p", 0.0) > 0.0:
            ordinary = replace(restricted._fit_data, reml=False, rank=None)
            value = refit(ordinary, None, restricted._fit_solution).loglike
        return self._lr_test(value, df, "the restricted model")

    def plot_parameters(
        self, param: str | int | None = None, axes: Any = None, *, alpha: float = 0.05
    ) -> Any:
        """Draw location, scale and asymmetry along one regressor with intervals; return the Figure.

        Parameters
        ----------
        param : str or int, optional
            The regressor, and what the others are at, as in `plot_fit`.
        axes : sequence of Axes, optional
            Where to draw, three of them.
        alpha : float
            One minus the coverage of the intervals at each value.
        """
        from qhreg.plotting import plot_parameters

        typical = typical_rows(self.model, param)
        rows = {
            "offset": 0.0 if self.model.offset is not None else None,
            **typical.at(typical.grid),
        }
        predictions = {}
        for which in ("location", "sigma", "tau"):
            predicted = self.get_prediction(which=which, **rows)
            limits = predicted.conf_int(alpha)
            predictions[which] = np.column_stack([predicted.predicted, limits])
        return plot_parameters(
            typical.grid,
            predictions,
            name=typical.name,
            level=1.0 - alpha,
            others=typical.others_text,
            categories=typical.levels,
            axes=axes,
        )

    def _lr_test(self, restricted: float, df: int, null: str) -> HypothesisTest:
        self._require_likelihood("a likelihood ratio test")
        note = density_note(self.cov_type)
        return lr_test(self.llf, restricted, df, self.nobs, null=null, note=note)

    # ------------------------------------------------------------------ tables

    def _summary(self) -> Tables:
        right = [
            *criteria(self, **{"LL, one sigma, tau": self.llf_homoskedastic, "AIC": self.aic}),
            ("kappa:", f"{self.kappa:.4g} (fixed)"),
            ("Range of sigma:", "{:.3g} to {:.3g}".format(*self.ranges["sigma"])),
            ("Range of tau:", "{:.3f} to {:.3f}".format(*self.ranges["tau"])),
            ("Stationary:", _stationary(self.solution)),
        ]
        ends = pairwise(np.cumsum((0, *self.block_sizes)).tolist())
        places = [list(range(start, stop)) for start, stop in ends]
        return Tables(
            "Quantile Huber Distributional Regression Results",
            head(self, "Maximum Likelihood", "Distributional"),
            right,
            [zone(self)],
            list(zip(("location", "log(sigma)", "logit(tau)"), ("",) * 3, places, strict=True)),
            _notes(self),
        )


def _stationary(solution: Any) -> str:
    """Return which part of a fit is stationary, and the length of the gradient of that part."""
    length = f"{solution.score_norm:.0e}"
    if solution.converged or not solution.rest_stationary:
        return f"{'yes' if solution.converged else 'NO'} ({length} s.e.)"
    held = ["sigma" if name == "scale" else name for name in solution.held]
    part = f"all but {held[0]}" if len(held) == 1 else "location only"
    return f"{part}, {length}"  # no unit: the table would be too wide


def _notes(results: Any) -> list[str]:
    """Return what a reader of the tables must know."""
    lines = [
        "exp(coef) is the factor of sigma, or of the odds tau / (1 - tau), for one more unit of a "
        "regressor. A high tau means a longer right tail.",
        *covariance_note(results),
    ]
    fixed = {"sigma": results.model.sigma, "tau": results.model.tau}
    lines += [f"{name} is fixed at {v:g}." for name, v in fixed.items() if v is not None]
    if results.converged and not results.local_maximum:
        lines.append("The fit is stationary, but the Hessian there is not definite.")
    if not results.converged:
        lines.append(_why(results.solution))
    start, names, lost = 0, results.model.data.param_names, []
    for name, size in zip(BLOCKS, results.block_sizes, strict=True):
        lost += [str(names[start + j]) for j in results.solution.dependent[name]]
        start += size
    if lost:
        lines.append(
            f"{', '.join(lost)} depend(s) on other columns; the coefficients are those of least norm."
        )
    return lines


def _why(solution: Any) -> str:
    """Return why a fit is not stationary."""
    rest = "; it stops there, and given that the others are stationary"
    return f"NOT CONVERGED: {solution.reason}{rest if solution.rest_stationary else ''}."


class DistributionalResultsWrapper(ResultsWrapper):
    """Results with the names of the parameters and the labels of the rows."""

    _attrs = {  # noqa: RUF012
        **ResultsWrapper._attrs,
        "sigma": "rows",
        "tau": "rows",
        "quantile_level": "rows",
    }
    _wrap_attrs = _attrs


DistributionalResults._wrapper = DistributionalResultsWrapper
populate_wrapper(DistributionalResultsWrapper, DistributionalResults)
