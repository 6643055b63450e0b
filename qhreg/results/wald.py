"""Wald tests of the estimates, where they have a standard error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special
from statsmodels.stats.contrast import ContrastResults

from qhreg.covariance.calibration import Calibration, contrast_calibration
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.formulas import SPEC_NAME, linear_constraints
from qhreg.specification.parameters import ParameterSpace

__all__ = ["CalibratedContrast", "WaldResults"]

FloatArray = npt.NDArray[np.float64]

DEPENDENT = 1e-10
"""Share of the largest variance below which a combination of restrictions has none of its own."""


class CalibratedContrast(ContrastResults):  # type: ignore[misc]
    """Tests of linear combinations with the law that p-values and intervals of the summary use."""

    law: Calibration

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the limits of each combination, shape (m, 2)."""
        critical = float(special.ndtri(1.0 - 0.5 * alpha))
        steps = self.law.limits(critical, np.zeros(len(self.law.df)))
        effect, sd = (np.reshape(each, (-1, 1)) for each in (self.effect, self.sd))
        return np.asarray(effect - sd * steps[:, ::-1])


class WaldResults:
    """The part of the results that tests linear restrictions by the covariance of the estimates."""

    model: Any
    params: Any
    space: ParameterSpace
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
        """
        made = super().t_test(r_matrix, cov_p=cov_p, use_t=use_t)  # type: ignore[misc]
        if cov_p is None and use_t is None:
            self._calibrate(made, r_matrix)
        sd = np.array(made.sd, dtype=np.float64)
        known = sd == 0.0
        if known.any():
            sd[known] = np.nan
            made.sd = sd
            for name in ("statistic", "tvalue", "pvalue"):
                value = np.asarray(getattr(made, name))
                setattr(made, name, np.where(known.reshape(value.shape), np.nan, value))
        return made

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

    def _contrast_law(self, matrix: FloatArray) -> Calibration:
        """Return the law of combinations of several parameters, which takes the rows of the data."""
        results: Any = self
        if self.model.exog is None:
            raise DataError(
                "the data of this model were removed (remove_data), and the p-value of a combination "
                "of parameters needs them: ask for it before, or give cov_p=results.cov_params() for "
                "the normal distribution"
            )
        data = results._fit_data  # under constraints that of the reduced coefficients
        obs = data.observations
        if data.constraint is not None:
            matrix = matrix @ data.constraint.jacobian(self.space)
        return contrast_calibration(
            matrix,
            obs.exog,
            obs.endog,
            results._fit_solution,
            cov_type=results._choice.cov_type,
            free=data.space.free,
            freq_weights=obs.freq_weights,
            weights=obs.weights,
            offset=obs.offset,
            width=results._choice.options.get("width"),
        )

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
        """
        if isinstance(r_matrix, np.ndarray) and r_matrix.shape[0] == 0:  # a term without columns
            return _no_test(self.use_t if use_f is None else use_f, self.df_resid_inference)
        own = cov_p is None and invcov is None
        if own:
            self._require_errors(r_matrix)
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
            Restrictions, such as ``"x1 = 0, x2 = 0"``. A single one has the p-value of `t_test`.
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
        if results._covariance.calibration is None:
            return
        matrix, values = linear_constraints(r_matrix, self.model.data.param_names)
        matrix = np.atleast_2d(matrix)
        if len(matrix) == 1:
            made.pvalue = float(np.squeeze(self.t_test(r_matrix).pvalue))
            return
        m = made.df_num if made.distribution == "F" else made.df_denom
        if results._known or not m > 0:
            return
        gap = matrix @ np.asarray(self.params) - np.ravel(values)
        cov = matrix @ results._covariance.cov @ matrix.T
        root = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        root[root == 0.0] = 1.0  # about what a constraint fixes
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


def _no_test(use_f: bool, df_denom: float) -> ContrastResults:
    """Return a test of no restriction at all: there is no statistic, and no degree of freedom."""
    nothing = math.nan
    if use_f:
        return ContrastResults(F=nothing, df_denom=df_denom, df_num=0)
    law = {"distribution": "chi2", "distargs": (0,)}
    return ContrastResults(chi2=nothing, df_denom=0, statistic=nothing, **law)
