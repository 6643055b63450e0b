"""The model of rows in partitions: that of rows in memory, whose data are elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.covariance import CovarianceChoice
from qhreg.covariance.choice import DEFAULT_TYPE, NEEDS_CASES, check_options, known_type
from qhreg.covariance.information import stacked_factors
from qhreg.exceptions import DataError, DomainError, NotOffered
from qhreg.model import QuantileHuberMLE
from qhreg.partitions.design import Design
from qhreg.partitions.results import PartitionedResults
from qhreg.partitions.rows import Part, PartitionedRows
from qhreg.results import QuantileHuberResultsWrapper
from qhreg.results.base import DATA_ROWS, MODEL_ROWS
from qhreg.specification.formulas import SPEC_NAME
from qhreg.specification.observations import find_constant, spans_ones

OFFERED = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster")
"""The types of covariance that sums carry."""

_IN_MEMORY = "it needs the rows in memory: use QuantileHuberMLE on a sample of them"


class PartitionedModel(QuantileHuberMLE):
    """Linear regression with the quantile Huber likelihood, of rows in partitions.

    Parameters
    ----------
    partitions : PartitionedRows
        The rows.
    design : Design
        The formula, and what it remembers of all rows.
    **options
        kappa, tau, sigma and tau_bounds of :class:`qhreg.QuantileHuberMLE`.
    """

    results_class: ClassVar[Any] = PartitionedResults

    from_formula = NotOffered("use qhreg.stream.quantile_huber or qhreg.dask.quantile_huber")
    fit_constrained = NotOffered("use t_test or wald_test on the fit")
    fit_process = NotOffered("fit at one tau after the other")
    fit_regularized = NotOffered(_IN_MEMORY)
    fit_regularized_path = NotOffered(_IN_MEMORY)
    cross_validate_penalty = NotOffered(_IN_MEMORY)
    loglikeobs = NotOffered(_IN_MEMORY)
    score_obs = NotOffered(_IN_MEMORY)
    score = NotOffered(_IN_MEMORY)
    hessian = NotOffered(_IN_MEMORY)
    information = NotOffered(_IN_MEMORY)
    score_factor = NotOffered(_IN_MEMORY)
    hessian_factor = NotOffered(_IN_MEMORY)
    start_params = NotOffered("the solver has its own")

    def __init__(self, partitions: PartitionedRows, design: Design, **options: Any) -> None:
        if not partitions.n_rows:
            raise DataError("there are no rows with positive weight and without missing values")
        self.partitions, self.design = partitions, design
        # one row of the names of the columns makes the holder of statsmodels
        names = design.exog_names
        super().__init__(
            pd.Series([0.0], name=design.endog_name),
            pd.DataFrame(np.ones((1, len(names))), columns=names),
            **options,
        )
        self.data.ynames  # noqa: B018  made from endog, and kept
        self.k_constant = self.data.k_constant = _constant(partitions)
        self.df_model = float(self.k_exog - self.k_constant)
        for holder, attributes in ((self, MODEL_ROWS), (self.data, DATA_ROWS)):
            for name in attributes:
                setattr(holder, name, None)
        setattr(self.data, SPEC_NAME, design.right)
        self.nobs_given = partitions.n_rows + partitions.facts.left_out
        self.formula, self._namespace = design.formula, design.namespace
        self._offset_name = design.extras.offset
        self._init_keys += [
            name for name in ("weights", "offset") if getattr(design.extras, name) is not None
        ]

    @property
    def observations(self) -> Any:
        """The rows."""
        return self.partitions

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.partitions.n_rows

    @property
    def _responses(self) -> FloatArray:
        """A sample of the responses."""
        return self.partitions.sample.endog

    @property
    def has_rows(self) -> bool:
        """Whether the rows can be fitted again."""
        return True

    def require_data(self) -> None:
        """Raise a DataError: the rows are never in memory."""
        raise DataError(
            "the rows of this model are in partitions, never in memory at once: give the rows, as in "
            "predict(frame), or use QuantileHuberMLE on a sample of them"
        )

    def covariance_request(
        self, cov_type: str | None, cov_kwds: dict[str, Any] | None
    ) -> CovarianceChoice:
        """Return the covariance for a fit of this model; groups are names of columns.

        Parameters
        ----------
        cov_type, cov_kwds
            As in `fit`.
        """
        kind, options = known_type(cov_type or DEFAULT_TYPE), dict(cov_kwds or {})
        if kind not in OFFERED:
            raise DomainError(
                f"cov_type={kind!r} needs the rows in memory; here there are {', '.join(OFFERED)}"
            )
        check_options(kind, options)
        if kind == "nonrobust" and self.has_weights:
            raise DomainError(NEEDS_CASES)
        if kind == "cluster":
            groups = options.get("groups")
            names = [groups] if isinstance(groups, str) else groups
            known = isinstance(names, (list, tuple)) and 1 <= len(names) <= 2
            if not known or not all(isinstance(name, str) for name in names or ()):
                raise DomainError(
                    'cov_type="cluster" needs cov_kwds={"groups": ...}, the name of a column or two '
                    f"names; got {groups!r}"
                )
        return CovarianceChoice(kind, options)

    def fit(  # type: ignore[override]
        self,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        use_t: bool | None = None,
        *,
        reml: bool = True,
        search: bool | None = None,
    ) -> QuantileHuberResultsWrapper:
        """Return the fit by restricted or maximum likelihood.

        Parameters
        ----------
        cov_type : {"HC3", "nonrobust", "HC0", "HC1", "HC2", "cluster"}, optional
            Covariance of the parameters, HC3 by default; made when it is asked for.
        cov_kwds : dict, optional
            ``groups`` for "cluster": the name of a column, or two names.
        use_t, reml, search
            As in :meth:`qhreg.QuantileHuberMLE.fit`.
        """
        fit: QuantileHuberResultsWrapper = super().fit(
            None, "newton", cov_type, cov_kwds, use_t, reml=reml, search=search
        )
        return fit


def _constant(rows: PartitionedRows) -> int:
    """Return whether the regressors span a constant, 0 or 1."""
    facts = rows.facts
    if ((facts.low == facts.high) & (facts.low != 0.0)).any():
        return 1
    if not find_constant(rows.sample.exog)[0]:  # a few rows tell, mostly
        return 0
    return int(spans_ones(rows.reduce(_with_ones, stacked_factors), rows.n_rows))


def _with_ones(part: Part) -> FloatArray:
    return stacked_factors([np.column_stack([part.exog, np.ones(len(part.exog))])])
