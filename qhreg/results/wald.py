"""Wald tests of the estimates, where they have a standard error."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy import special
from statsmodels.stats.contrast import ContrastResults
from statsmodels.tools.sm_exceptions import ValueWarning

from qhreg._typing import FloatArray
from qhreg.covariance.calibration import Calibration
from qhreg.exceptions import DomainError, RestrictionWarning, warn_caller
from qhreg.results.laws import LawResults
from qhreg.specification.constraints import Constraint
from qhreg.specification.formulas import (
    SPEC_NAME,
    constraints_told,
    linear_constraints,
    term_names,
)
from qhreg.specification.parameters import ParameterSpace

__all__ = ["CalibratedContrast", "WaldResults"]


DEPENDENT = 1e-10
"""Share of the largest variance below which a combination of restrictions has none of its own."""


class CalibratedContrast(ContrastResults):  # type: ignore[misc]
    """Tests of linear combinations with the law that p-values and intervals of the summary use."""

    law: Calibration

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the limits of each combination, shape (m, 2)."""
        effect, sd = (np.reshape(each, (-1, 1)) for each in (self.effect, self.sd))
        return np.asarray(effect + sd * self.law.steps(alpha))


class WaldResults(LawResults):
    """The part of the results that tests linear restrictions by the covariance of the estimates."""

    model: Any
    params: Any
    space: ParameterSpace
    constraint: Constraint | None
    use_t: bool
    df_resid_inference: Any

    def t_test(self, r_matrix: Any, cov_p: Any = None, use_t: bool | None = None) -> Any:
        """Return t tests of linear restrictions; see statsmodels.

        Parameters
        ----------
        r_matrix : array_like, str or tuple
            Restrictions, such as ``"tau = 0.5, x1 = x2"``.
        cov_p, use_t
            As in statsmodels. Without them the p-values and intervals of a fit with HC0 or HC1 are
            calibrated as those of its summary are, where no limit holds a parameter.

        Returns
        -------
        ContrastResults
            Statistic, p-value and standard error are NaN for a parameter that the covariance treats
            as known, such as tau on its bound: there the base class would return p = 1.

        Warns
        -----
        RestrictionWarning
            A constraint of the fit decides a restriction: it has no test, and its p-value is NaN.
        """
        names = self.model.data.param_names
        with constraints_told(r_matrix, names):
            decided = ~self._left_open(r_matrix, cov_p is None).any(axis=1)
        _warn_decided(int(decided.sum()), decided.size, "and their p-values are NaN")
        with constraints_told(r_matrix, names), np.errstate(divide="ignore", invalid="ignore"):
            made = super().t_test(r_matrix, cov_p=cov_p, use_t=use_t)  # type: ignore[misc]
        if cov_p is None and use_t is None:
            self._calibrate(made, r_matrix)
        sd = np.array(made.sd, dtype=np.float64)
        known = (sd == 0.0) | decided.reshape(sd.shape)
        if known.any():
            sd[known] = np.nan
            made.sd = sd
            for name in ("statistic", "tvalue", "pvalue"):
                value = np.asarray(getattr(made, name))
                setattr(made, name, np.where(known.reshape(value.shape), np.nan, value))
        return made

    def _left_open(self, r_matrix: Any, own: bool) -> FloatArray:
        """Return restrictions in terms of what no constraint decides, with the fit's own covariance."""
        matrix = np.atleast_2d(linear_constraints(r_matrix, self.model.data.param_names)[0])
        if self.constraint is None or not own:
            return np.asarray(matrix)
        return self.constraint.left_open(matrix, self.space)

    def _calibrate(self, made: Any, r_matrix: Any) -> None:
        """Give tests of linear combinations the law of the sandwich, if it has one."""
        results: Any = self
        known: Calibration | None = results._covariance.calibration
        if known is None:
            return
        matrix = np.atleast_2d(linear_constraints(r_matrix, self.model.data.param_names)[0])
        if (np.count_nonzero(matrix, axis=1) == 1).all():
            law = known.of_single(matrix)
        elif results._known:
            return
        else:
            law = self._contrast_law(matrix)
        made.__class__ = CalibratedContrast
        made.distribution = "t"  # what tables call the ratio
        made.law = law
        made.pvalue = np.squeeze(law.pvalues(np.ravel(made.tvalue)))

    def wald_test(
        self,
        r_matrix: Any,
        cov_p: Any = None,
        invcov: Any = None,
        use_f: Any = None,
        df_constraints: Any = None,
        scalar: bool = True,
    ) -> Any:
        """Return a Wald test of linear restrictions; see statsmodels.

        Parameters
        ----------
        r_matrix : array_like, str or tuple
            Restrictions, such as ``"tau = 0.5, x1 = x2"``.
        cov_p, invcov, use_f, df_constraints
            As in statsmodels. Without them, and with HC0 or HC1, a single restriction has the p-value of
            `t_test`, and several that of Hotelling's statistic with the degrees of freedom of the
            sandwich.
        scalar : bool
            Whether the statistic is a number.

        Raises
        ------
        DomainError
            A restriction involves a parameter without a standard error, such as tau on its bound:
            the statistic would leave it out without a word.

        Warns
        -----
        RestrictionWarning
            The constraints of the fit decide some of the restrictions, and the test is of the others;
            or all of them, and statistic and p-value are NaN.
        """
        nothing = _no_test(self.use_t if use_f is None else use_f, self.df_resid_inference)
        if isinstance(r_matrix, np.ndarray) and r_matrix.shape[0] == 0:  # a term without columns
            return nothing
        own = cov_p is None and invcov is None
        if own:
            self._require_errors(r_matrix)
        names = self.model.data.param_names
        with constraints_told(r_matrix, names):
            given, left = (_rank(self._left_open(r_matrix, each)) for each in (False, own))
        decided = given - left
        _warn_decided(decided, given, "and the test is of the others")
        if decided and not left:
            return nothing
        with constraints_told(r_matrix, names), warnings.catch_warnings():
            if decided:  # of which the base class would say less
                warnings.simplefilter("ignore", ValueWarning)
            made = super().wald_test(  # type: ignore[misc]
                r_matrix,
                cov_p=cov_p,
                invcov=invcov,
                use_f=use_f,
                df_constraints=df_constraints,
                scalar=scalar,
            )
        if own and use_f is None and df_constraints is None:
            self._calibrate_joint(made, r_matrix)
        return made

    def f_test(self, r_matrix: Any, cov_p: Any = None, invcov: Any = None) -> Any:
        """Return the F test of linear restrictions; see statsmodels.

        Parameters
        ----------
        r_matrix : array_like, str or tuple
            Restrictions, such as ``"x1 = 0, x2 = 0"``. With HC0 or HC1 the p-value is that of
            `wald_test`; the plain F distribution is ``wald_test(..., use_f=True)``.
        cov_p, invcov
            As in statsmodels.
        """
        made = super().f_test(r_matrix, cov_p=cov_p, invcov=invcov)  # type: ignore[misc]
        if cov_p is None and invcov is None:
            self._calibrate_joint(made, r_matrix)
        return made

    def _calibrate_joint(self, made: Any, r_matrix: Any) -> None:
        r"""Give a Wald test the p-value that goes with the law of the sandwich, if it has one.

        Notes
        -----
        A single restriction has that of `t_test`. For m of them the noise of the sandwich is that of a
        covariance with :math:`\nu` degrees of freedom, those of the combination of the restrictions that
        departs most from them, and :math:`T^2(\nu-m+1)/(m\nu)` is compared with the F distribution with
        m and :math:`\nu-m+1` degrees of freedom, as Hotelling's statistic is.
        """
        results: Any = self
        m = made.df_num if made.distribution == "F" else made.df_denom
        if results._covariance.calibration is None or not m > 0:
            return
        matrix, values = linear_constraints(r_matrix, self.model.data.param_names)
        matrix = np.atleast_2d(matrix)
        if len(matrix) == 1:
            made.pvalue = float(np.squeeze(self.t_test(r_matrix).pvalue))
            return
        if results._known:
            return
        tested = self._left_open(r_matrix, True).any(axis=1)
        matrix, values = matrix[tested], np.ravel(values)[tested]
        gap = matrix @ np.asarray(self.params) - values
        cov = matrix @ results._covariance.cov @ matrix.T
        root = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        root[root == 0.0] = 1.0
        inverse = np.linalg.pinv(cov / np.outer(root, root), rcond=DEPENDENT, hermitian=True)
        along = inverse @ (gap / root) / root
        if not along.any():  # the estimates meet the restrictions
            return
        law = self._contrast_law((along @ matrix)[None])
        square = float(np.squeeze(made.statistic)) * (m if made.distribution == "F" else 1.0)
        if m == 1:
            made.pvalue = float(law.pvalues(np.array([math.sqrt(square)]))[0])
            return
        df = float(law.df[0])
        left = max(df - m + 1.0, 1.0)
        made.pvalue = float(special.fdtrc(m, left, square * left / (m * max(df, float(m)))))

    def _require_errors(self, r_matrix: Any) -> None:
        """Raise a DomainError when a restriction involves a parameter that is treated as known."""
        results: Any = self
        if np.isnan(results._covariance.cov).any():
            why = results._covariance.description
            raise DomainError(f"a Wald test needs a covariance. {why}")
        held: dict[str, str] = results.held_fixed
        if not held:
            return
        matrix = np.atleast_2d(linear_constraints(r_matrix, self.model.data.param_names)[0])
        for name, reason in held.items():
            if matrix[:, self.space.position(name)].any():
                value = f"{getattr(self, name):g}"
                why = {
                    "at bound": f"{name} is on its bound {value}",
                    "limit": f"{name} ended at a limit of the model, {value}",
                    "constrained": f"{name} is held at {value} by a constraint",
                }.get(reason, f"the data do not inform about {name} once the others are known")
                raise DomainError(
                    f"{why}: it has no standard error, and a Wald test of it is not defined. Leave "
                    f"{name} out of the restrictions, or compare fits by lr_test"
                )

    def wald_test_terms(
        self,
        skip_single: bool = False,
        extra_constraints: Any = None,
        combine_terms: Any = None,
        scalar: bool = True,
    ) -> Any:
        """Return Wald tests of the terms of the formula, or of each coefficient; see statsmodels.

        Parameters
        ----------
        skip_single, extra_constraints, combine_terms
            As in statsmodels.
        scalar : bool
            Whether the statistics are numbers.
        """
        terms = self._terms() or self.model.data.param_names[: self.space.k]
        for name in combine_terms or []:
            if not any(name in term for term in terms):
                raise DomainError(
                    f"combine_terms has {name!r}, which is in none of {', '.join(terms)}"
                )
        single: list[Any] = []
        if getattr(self.model.data, SPEC_NAME, None) is None and not skip_single:
            # the base class would test sigma = 0 and tau = 0 too
            rows = np.eye(len(self.params))[: self.space.k]
            names = self.model.data.param_names
            single = [(names[j], row[None]) for j, row in enumerate(rows)]
        made = super().wald_test_terms(  # type: ignore[misc]
            skip_single=skip_single or bool(single),
            extra_constraints=[*single, *(extra_constraints or [])],
            combine_terms=combine_terms,
            scalar=scalar,
        )
        combined = len(combine_terms or []) if single else 0
        order = np.r_[
            combined : combined + len(single), :combined, combined + len(single) : len(made.table)
        ]
        made.table = made.table.iloc[order].rename(index={"1": "Intercept"})
        return made

    def _terms(self) -> list[str]:
        """Return the terms of the formula, none where there is no formula."""
        spec = getattr(self.model.data, SPEC_NAME, None)
        return [] if spec is None else term_names(spec)

    def t_test_pairwise(
        self, term_name: str, method: str = "hs", alpha: float = 0.05, factor_labels: Any = None
    ) -> Any:
        """Return t tests of all differences between the levels of a factor; see statsmodels.

        Parameters
        ----------
        term_name : str
            The factor as the formula has it, such as ``"C(g)"``.
        method, alpha, factor_labels
            As in statsmodels.
        """
        terms = self._terms()
        if not terms:
            raise DomainError("t_test_pairwise compares the levels of a factor of a formula")
        if term_name not in terms:
            raise DomainError(f"{term_name!r} is no term: the terms are {', '.join(terms)}")
        try:
            return super().t_test_pairwise(  # type: ignore[misc]
                term_name, method=method, alpha=alpha, factor_labels=factor_labels
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise DomainError(f"{term_name!r} is no factor with levels to compare") from error


def _rank(restrictions: FloatArray) -> int:
    """Return how many of linear restrictions are no combinations of the others."""
    length = np.linalg.norm(restrictions, axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(restrictions / (length + (length == 0.0)), tol=DEPENDENT))


def _warn_decided(decided: int, given: int, outcome: str) -> None:
    """Warn of restrictions that the constraints of the fit decide."""
    if decided == given > 0:
        what = "this restriction" if given == 1 else "these restrictions"
        warn_caller(
            f"the constraints of the fit decide {what} already: there is nothing to test, and the "
            "p-value is NaN",
            RestrictionWarning,
        )
    elif decided:
        warn_caller(
            "covariance of constraints does not have full rank: the constraints of the fit decide "
            f"{decided} of the {given} restrictions already, {outcome}",
            RestrictionWarning,
        )


def _no_test(use_f: bool, df_denom: float) -> ContrastResults:
    """Return a test of no restriction at all: there is no statistic, and no degree of freedom."""
    nothing = math.nan
    if use_f:
        return ContrastResults(F=nothing, df_denom=df_denom, df_num=0)
    law = {"distribution": "chi2", "distargs": (0,)}
    return ContrastResults(chi2=nothing, df_denom=0, statistic=nothing, **law)
