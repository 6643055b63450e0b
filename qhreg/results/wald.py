"""Wald tests of the estimates, where they have a standard error."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
from statsmodels.stats.contrast import ContrastResults
from statsmodels.tools.sm_exceptions import ValueWarning

from qhreg._precision import VANISHING
from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError, RestrictionWarning, warn_caller
from qhreg.specification.formulas import (
    SPEC_NAME,
    constraints_told,
    linear_constraints,
    term_columns,
)
from qhreg.specification.parameters import Constraint


class WaldResults:
    """The part of the results that tests linear restrictions by the covariance of the estimates."""

    model: Any
    params: Any
    constraint: Constraint | None = None
    use_t: bool
    df_resid_inference: Any
    held_fixed: Any
    _covariance: Any

    def t_test(self, r_matrix: Any, cov_p: Any = None, use_t: bool | None = None) -> Any:
        """Return t tests of linear restrictions; see statsmodels.

        Parameters
        ----------
        r_matrix : array_like, str or tuple
            Restrictions, such as ``"tau = 0.5, x1 = x2"``. tau is tested on its own scale; the
            summary tests it on the logit scale, as its interval is made, which the title says.
        cov_p, use_t
            As in statsmodels.

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
            test = super().t_test(r_matrix, cov_p=cov_p, use_t=use_t)  # type: ignore[misc]
        sd = np.array(test.sd, dtype=np.float64)
        known = (sd == 0.0) | decided.reshape(sd.shape)
        if known.any():
            sd[known] = np.nan
            test.sd = sd
            for name in ("statistic", "tvalue", "pvalue"):
                value = np.asarray(getattr(test, name))
                setattr(test, name, np.where(known.reshape(value.shape), np.nan, value))
        if "tau" in names and self._left_open(r_matrix, False)[:, names.index("tau")].any():
            title = "Test for Constraints (tau itself; summary() tests it on the logit scale)"
            test.summary = partial(test.summary, title=title)
        return test

    def _left_open(self, r_matrix: Any, own: bool) -> FloatArray:
        """Return restrictions in terms of what no constraint decides, with the fit's own covariance."""
        matrix = np.atleast_2d(linear_constraints(r_matrix, self.model.data.param_names)[0])
        if self.constraint is None or not own:
            return np.asarray(matrix)
        return self.constraint.left_open(matrix, self.model.space)

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
            As in statsmodels: F with `df_resid_inference` degrees of freedom where the fit uses t.
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
            test = super().wald_test(  # type: ignore[misc]
                r_matrix,
                cov_p=cov_p,
                invcov=invcov,
                use_f=use_f,
                df_constraints=df_constraints,
                scalar=scalar,
            )
        return test

    def _require_errors(self, r_matrix: Any) -> None:
        """Raise a DomainError when a restriction involves a parameter that is treated as known."""
        held, identified = self.held_fixed, self._covariance.identified
        if not held and identified.all():
            return
        names = self.model.data.param_names
        matrix = np.atleast_2d(linear_constraints(r_matrix, names)[0])
        lost = matrix.any(axis=0) & ~identified
        if lost.any():
            raise DomainError(
                f"{names[int(np.flatnonzero(lost)[0])]} has no standard error, and a Wald test of it is "
                "not defined: leave it out of the restrictions, or compare fits by lr_test"
            )
        for name, reason in held.items():
            place = list(names).index(name)
            if matrix[:, place].any():
                value = f"{self.params[place]:g}"
                why = {
                    "at bound": f"{name} is on its bound {value}",
                    "limit": f"{name} ended at a limit of the model, {value}",
                    "fixed": f"a constraint fixes {name} at {value}",
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
        terms = self._terms() or self.model.data.param_names[: self.model.k_exog]
        for name in combine_terms or []:
            if not any(name in term for term in terms):
                raise DomainError(
                    f"combine_terms has {name!r}, which is in none of {', '.join(terms)}"
                )
        single: list[Any] = []
        if getattr(self.model.data, SPEC_NAME, None) is None and not skip_single:
            # the base class would test sigma = 0 and tau = 0 too
            rows = np.eye(len(self.params))[: self.model.k_exog]
            names = self.model.data.param_names
            single = [(names[j], row[None]) for j, row in enumerate(rows)]
        tests = super().wald_test_terms(  # type: ignore[misc]
            skip_single=skip_single or bool(single),
            extra_constraints=[*single, *(extra_constraints or [])],
            combine_terms=combine_terms,
            scalar=scalar,
        )
        combined = len(combine_terms or []) if single else 0
        order = np.r_[
            combined : combined + len(single), :combined, combined + len(single) : len(tests.table)
        ]
        tests.table = tests.table.iloc[order].rename(index={"1": "Intercept"})
        return tests

    def _terms(self) -> list[str]:
        """Return the terms of the formula, none where there is no formula."""
        spec = getattr(self.model.data, SPEC_NAME, None)
        return [] if spec is None else list(term_columns(spec))

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
    return int(np.linalg.matrix_rank(restrictions / (length + (length == 0.0)), tol=VANISHING))


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
            f"the constraints of the fit decide {decided} of {given} restrictions already, {outcome}",
            RestrictionWarning,
        )


def _no_test(use_f: bool, df_denom: float) -> ContrastResults:
    """Return a test of no restriction at all: there is no statistic, and no degree of freedom."""
    nothing = math.nan
    if use_f:
        return ContrastResults(F=nothing, df_denom=df_denom, df_num=0)
    law = {"distribution": "chi2", "distargs": (0,)}
    return ContrastResults(chi2=nothing, df_denom=0, statistic=nothing, **law)
