"""What every model shares: its rows from arrays or formulas, their labels, new rows, pickling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from statsmodels.base.model import GenericLikelihoodModel, LikelihoodModel

from qhreg._typing import FloatArray
from qhreg.covariance.choice import OPTIONS, CovarianceChoice, choose_covariance
from qhreg.exceptions import DataError, DomainError, NotOffered, warn_caller, without
from qhreg.family.distribution import quantile_huber
from qhreg.family.domain import check_kappa, check_sigma, check_tau
from qhreg.inference.prediction import predict
from qhreg.solver import DEFAULT_TAU_BOUNDS
from qhreg.specification.formulas import (
    SPEC_NAME,
    check_formula,
    dump_spec,
    eval_env_argument,
    formula_frame,
    formula_namespace,
    load_spec,
    new_design,
    unknown_names_told,
    usable_rows,
)
from qhreg.specification.inputs import (
    KEYWORDS,
    ROW_EXTRAS,
    RowSource,
    as_table,
    bounds,
    check_design,
    chosen_rows,
    complete_rows,
    default_names,
    not_finite,
    number,
    numeric_vector,
    regressors,
    reject_fit_keywords,
    reject_scalar_start,
    reject_unknown,
    require_rows,
    to_pandas,
)
from qhreg.specification.observations import Observations, find_constant
from qhreg.specification.parameters import RowLaw

# statsmodels carries no types, and mypy forbids a base class without one.
_Base: Any = GenericLikelihoodModel
_Model = TypeVar("_Model", bound="RegressionModel")

NOT_USED = ("full_output", "disp", "callback", "retall", "skip_hessian")
"""Keywords of a fit that statsmodels passes and the solvers have no use for."""


class Rows(NamedTuple):
    """Regressors of rows: of the location, its offset, and further ones by name."""

    exog: FloatArray
    offset: Any
    further: dict[str, FloatArray]


class RegressionModel(_Base):  # type: ignore[misc]
    """A regression of the quantile Huber family; its parameters are a subclass's.

    Parameters
    ----------
    endog, exog, kappa, tau, sigma, tau_bounds, freq_weights, weights, offset, missing, hasconst
        As in :class:`qhreg.model.QuantileHuberMLE`.
    **kwargs
        What statsmodels adds for a formula, and ``further``: regressors of other predictors by name,
        None for a constant.

    Notes
    -----
    A subclass names its parameters (``_name_parameters``) and the class of its results, and has
    ``loglikeobs``, ``score_obs`` and ``information`` at given parameters, and ``law(params, rows)`` and
    ``law_gradient(law, rows, slopes)``, which predictions are made from.
    """

    endog: Any
    results_class: ClassVar[Any]
    _formula_max_endog = 1
    _keywords: ClassVar[tuple[str, ...]] = KEYWORDS
    _formula_keywords: ClassVar[tuple[str, ...]] = (*KEYWORDS, "eval_env")

    expandparams = NotOffered("fix tau, sigma or kappa when the model is built")
    reduceparams = NotOffered("fix tau, sigma or kappa when the model is built")

    def __dir__(self) -> list[str]:
        return without(super().__dir__(), type(self))

    def __init__(
        self,
        endog: Any,
        exog: Any,
        *,
        kappa: float | None = 4.0,
        tau: float | None = None,
        sigma: float | None = None,
        tau_bounds: tuple[float, float] = DEFAULT_TAU_BOUNDS,
        freq_weights: Any = None,
        weights: Any = None,
        offset: Any = None,
        missing: str = "none",
        hasconst: bool | None = None,
        **kwargs: Any,
    ) -> None:
        further: dict[str, Any] = kwargs.pop("further", {})
        reject_unknown(type(self).__name__, kwargs, self._keywords)
        if missing not in ("none", "drop", "raise"):
            raise DataError(f"missing must be 'none', 'drop' or 'raise', got {missing!r}")
        self.kappa = None if kappa is None else number("kappa", kappa, check_kappa)
        self.tau = None if tau is None else number("tau", tau, check_tau)
        self.sigma = None if sigma is None else number("sigma", sigma, check_sigma)
        self.tau_bounds = bounds(tau_bounds)
        if exog is None:
            raise DataError("exog is None: pass at least a column of ones for a constant")
        endog, exog = as_table("endog", endog), as_table("exog", exog)
        if len(endog) != len(exog):
            raise DataError(f"endog has {len(endog)} rows, exog has {len(exog)}")
        mask = kwargs.pop("missing_idx", None)  # rows that the formula left out
        given = np.arange(len(endog)) if mask is None else np.flatnonzero(~mask)
        self.nobs_given = len(given) if mask is None else len(mask)
        labels = next((t.index for t in (exog, endog) if hasattr(t, "index")), None)
        source = RowSource(self.nobs_given, None if mask is None else given, labels)
        arrays = source.vectors(
            {"freq_weights": freq_weights, "weights": weights, "offset": offset}
        )
        self.further_names: dict[str, list[str]] = {}
        for name, values in further.items():
            arrays[name], self.further_names[name] = regressors(name, values, source)
        tables = {"endog": endog, "exog": exog, **arrays}
        if missing != "none" and not (complete := complete_rows(tables, missing)).all():
            given, tables = given[complete], {k: v[complete] for k, v in tables.items()}
        self.weights = self.offset = None
        LikelihoodModel.__init__(self, missing="none", hasconst=hasconst, **tables, **kwargs)
        if len(given) < self.nobs_given:
            self.data.missing_row_idx = np.setdiff1d(np.arange(self.nobs_given), given).tolist()
        self._init_keys = ["kappa", "tau", "sigma", "tau_bounds"]
        self._init_keys += [name for name, values in arrays.items() if np.size(values)]
        if hasconst is not None:
            self.hasconst = hasconst
            self._init_keys.append("hasconst")
        self.__dict__.pop(SPEC_NAME, None)
        self._data_attr.extend((*ROW_EXTRAS, *further))
        self._offset_name: str | None = None
        self._namespace: Any = {}
        self._specs: dict[str, Any] = {}
        self._check_rows()
        self._name_parameters()

    # ------------------------------------------------------------------ construction

    def initialize(self) -> None:
        """Do nothing: the rank of exog, which the base class computes here, comes from the fit."""

    def _name_parameters(self) -> None:
        """Append the other parameters to the names of the columns, and count the freedoms."""
        raise NotImplementedError

    def _count_parameters(self, extra: list[str]) -> None:
        """Append names of parameters to those of the columns, and count the freedoms."""
        self.data.xnames.extend(extra)
        self.k_extra = len(extra)
        self.nparams = self.k_exog + self.k_extra
        self.df_model = float(self.k_exog - self.k_constant)
        self.df_resid = self.observations.nobs - self.k_exog

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> Any:
        """Return the data holder of statsmodels, with the constant found without an SVD."""
        # hasconst=False: no search for a constant by the base class
        data = super()._handle_data(endog, exog, missing, False, **kwargs)
        check_design("exog", data.exog, getattr(exog, "columns", None))
        if hasconst is not False:
            data.k_constant, data.const_idx = find_constant(data.exog)
            data.k_constant = 1 if hasconst else data.k_constant
        if not isinstance(exog, (pd.DataFrame, pd.Series)):
            data.xnames = default_names(data.exog.shape[1], data.const_idx)
        return data

    def _check_rows(self) -> None:
        """Raise a DataError that names the array in which a row is no number, or no weight."""
        n, self.k_exog = self.exog.shape
        self.endog = numeric_vector("endog", self.endog)
        for name in ("endog", *ROW_EXTRAS):
            array = getattr(self, name, None)
            if array is None:
                continue
            bad = np.flatnonzero(~np.isfinite(array))
            if bad.size:
                raise not_finite(name, array, f"the first in row {bad[0]}")
            if name.endswith("weights") and float(array.min(initial=0.0)) < 0.0:
                raise DataError(f"{name} must not be negative, got {float(array.min())!r}")
            if name.endswith("weights") and n and not array.any():
                raise DataError(f"{name} is zero in every row: there is nothing to fit")
            if name == "freq_weights" and bool((array != np.round(array)).any()):
                first = float(array[array != np.round(array)][0])
                raise DataError(
                    f"freq_weights count observations and must be whole numbers, got {first!r}: give "
                    "other weights as weights"
                )
        for name, columns in self.further_names.items():
            check_design(name, getattr(self, name), columns)
        require_rows(n, self.nobs_given)

    @classmethod
    def _from_formulas(
        cls: type[_Model],
        formula: Any,
        others: dict[str, str],
        data: Any,
        subset: Any,
        drop_cols: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> _Model:
        """Return the model of a formula, and of those of further regressors by name."""
        if args:
            raise TypeError(f"from_formula takes keywords after drop_cols, got {args!r}")
        reject_unknown(cls.__name__, kwargs, cls._formula_keywords)
        check_formula(formula, data)
        text = " ".join([str(formula), *others.values()])
        namespace = formula_namespace(text, kwargs.pop("eval_env", None), depth=3)
        data = formula_frame(data, text)
        named = {key: kwargs.pop(key) for key in ROW_EXTRAS if key in kwargs}
        frame, chosen = data, None
        if subset is not None:
            chosen = chosen_rows(frame.index, subset)
            data = frame.iloc[chosen]
        extras: dict[str, Any] = RowSource(len(frame), chosen, data.index, frame).vectors(named)
        specs, usable = {}, np.ones(len(data), dtype=bool)
        if others:
            usable = usable_rows(formula, others, data, extras, namespace)
            if not usable.all() and kwargs.get("missing", "drop") != "drop":
                raise DataError(
                    f"{int((~usable).sum())} row(s) have missing values, the first of them labelled "
                    f"{data.index[int(np.argmin(usable))]!r}"
                )
        if not usable.all():
            data, extras = data[usable], {name: row[usable] for name, row in extras.items()}
        for name, text in others.items():
            extras[name], specs[name] = new_design(text, data, namespace)
        with unknown_names_told(formula, list(data.columns)):
            model: _Model = super().from_formula(
                formula,
                data,
                None,
                [drop_cols] if isinstance(drop_cols, str) else drop_cols,
                eval_env=eval_env_argument(namespace),
                **kwargs,
                **extras,
            )
        model._namespace, model._specs = namespace, specs
        if not usable.all():
            model.nobs_given = usable.size
            model.data.missing_row_idx = np.flatnonzero(~usable).tolist()
        if isinstance(named.get("offset"), str):
            model._offset_name = named["offset"]
        return model

    # ------------------------------------------------------------------ data

    @property
    def observations(self) -> Observations:
        """Response, regressors of the location, offset and weights."""
        self.require_data()
        return Observations(
            self.exog, self.endog, self.offset, getattr(self, "freq_weights", None), self.weights
        ).scaled

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.endog)

    @property
    def has_rows(self) -> bool:
        """Whether the rows can be fitted again: not after `remove_data`."""
        return self.exog is not None

    @property
    def has_weights(self) -> bool:
        """Whether there are sampling weights; they count after `remove_data` too."""
        return "weights" in self._init_keys

    def require_data(self) -> None:
        """Raise a DataError when the data were removed."""
        if self.exog is None:
            raise DataError("the data of this model were removed (remove_data): it cannot do this")

    @property
    def row_source(self) -> RowSource:
        """Where the rows came from, to match other arrays to them."""
        self.require_data()
        dropped = getattr(self.data, "missing_row_idx", None)
        kept = None
        if dropped is not None and len(dropped):
            kept = np.setdiff1d(np.arange(self.nobs_given), np.asarray(dropped))
        frame, labels = getattr(self.data, "frame", None), self.data.row_labels
        labels = labels if isinstance(labels, pd.Index) else None
        return RowSource(self.nobs_given, kept, labels, frame)

    def covariance_request(
        self, cov_type: str | None, cov_kwds: dict[str, Any] | None
    ) -> CovarianceChoice:
        """Return the covariance for a fit of this model."""
        return choose_covariance(
            cov_type,
            cov_kwds,
            self.row_source,
            weights=self.weights,
            freq_weights=getattr(self, "freq_weights", None),
        )

    def _check_fit(
        self, method: str, maxiter: int | None, start_params: Any, others: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the settings of a fit, or raise an error that says where a keyword belongs."""
        unknown = {name: value for name, value in others.items() if name not in NOT_USED}
        reject_fit_keywords(self.fit, unknown, self._keywords, OPTIONS)
        if maxiter is not None:
            warn_caller(
                f"maxiter={maxiter!r} is not used: the solver stops by itself, and converged says "
                "whether it proved its result",
                UserWarning,
            )
        if method != "newton":
            raise DomainError(f"method must be 'newton', got {method!r}: it is proved, or says so")
        if start_params is not None:
            reject_scalar_start(start_params, self.nparams)
        return {"optimizer": method, "start_params": start_params, "maxiter": maxiter, **others}

    def _labelled(self, solution: Any, choice: CovarianceChoice, **options: Any) -> Any:
        """Return the results of a fit with their labels; replicates of a bootstrap are made now."""
        results = self.results_class(self, solution, choice, **options)
        if choice.cov_type == "bootstrap":
            results.cov_params()
        return results._wrapper(results)

    # ------------------------------------------------------------------ likelihood

    def score(self, params: Any) -> FloatArray:
        """Return the derivative of the log-likelihood."""
        return np.asarray(self.score_obs(params).sum(axis=0))

    def hessian(self, params: Any) -> FloatArray:
        """Return the second derivative of the log-likelihood.

        The location block counts the rows in the quadratic zone only: for small kappa it says little
        about the curvature of the expected likelihood, and no standard error here is based on it.
        """
        return -self.information(params, observed=True)

    def information(self, params: Any, observed: bool = False) -> FloatArray:
        """Return the Fisher information: expected, in closed form, or minus the Hessian."""
        raise NotImplementedError

    # ------------------------------------------------------------------ prediction

    def law(self, params: Any, rows: Rows) -> RowLaw:
        """Return the law of rows at given parameters."""
        raise NotImplementedError

    def predict(
        self,
        params: Any,
        exog: Any = None,
        which: str = "location",
        offset: Any = None,
        q: Any = None,
        y_values: Any = None,
        **further: Any,
    ) -> Any:
        """Return predictions at given parameters.

        Parameters
        ----------
        params : array_like
            Parameters.
        exog : array_like, shape (m, k), optional
            Regressors; those of the model by default.
        which : {"location", "mean", "median", "quantile", "sigma", "tau", "var", "prob"}
            See :func:`qhreg.inference.prediction.predict`.
        offset : float or array_like, optional
            Offset of the new rows. Needed when the model has one and `exog` is given.
        q : float or sequence of float
            Levels for ``which="quantile"``.
        y_values : float or sequence of float
            Thresholds for ``which="prob"``.
        **further
            Of a distributional model, ``exog_scale`` and ``exog_tau`` of the new rows; a constant need
            not be given.

        Returns
        -------
        ndarray, shape (m,), or (m, number of levels or thresholds)
            The predictions.
        """
        law = self.law(params, self.rows(exog, offset, **further))
        return predict(law, which, q=q, y_values=y_values)

    def get_distribution(
        self, params: Any, exog: Any = None, offset: Any = None, **further: Any
    ) -> Any:
        """Return the distribution of each row at given parameters as a frozen scipy distribution.

        Parameters
        ----------
        params : array_like
            Parameters.
        exog, offset, **further
            New rows, as in `predict`.
        """
        law = self.law(params, self.rows(exog, offset, **further))
        return quantile_huber(law.tau, law.kappa, loc=law.location, scale=law.sigma)

    def rows(self, exog: Any = None, offset: Any = None, **further: Any) -> Rows:
        """Return the regressors of new rows, checked, or those of the model when none are given.

        Parameters
        ----------
        exog, offset, **further
            As in `predict`.
        """
        for name in further:
            if name not in self.further_names:
                raise TypeError(f"predict got an unknown keyword {name!r}")
        if exog is None and all(values is None for values in further.values()):
            self.require_data()
            own = {name: getattr(self, name) for name in self.further_names}
            known = self.offset if offset is None else offset
            return Rows(self.exog, _known(known, len(self.exog)), own)
        if exog is None:
            raise DataError(f"exog is needed for new rows, besides {' and '.join(further)}")
        if offset is None and "offset" in self._init_keys:
            raise DataError(
                "the model was fitted with an offset, which the new rows need too: pass offset= "
                "(0 for none)"
            )
        location = _matrix("exog", exog, self.k_exog)
        n, others = location.shape[0], {}
        for name, columns in self.further_names.items():
            values = further.get(name)
            if values is None and columns not in ([], ["const"], ["Intercept"]):
                raise DataError(
                    f"{name} is needed for new rows: its columns are {', '.join(columns)}"
                )
            constant = np.ones((n, len(columns)))
            others[name] = constant if values is None else _matrix(name, values, len(columns))
            if others[name].shape[0] != n:
                raise DataError(f"{name} has {others[name].shape[0]} rows, exog has {n}")
        return Rows(location, _known(offset, n), others)

    def location(self, beta: FloatArray, exog: Any = None, offset: Any = None) -> FloatArray:
        """Return x'beta plus offset, for the rows of the model or for new ones."""
        return located(self.rows(exog, offset), beta)

    # ------------------------------------------------------------------ pickling

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        spec = getattr(self.data, SPEC_NAME, None)
        if spec is not None:
            # the data holder of statsmodels would evaluate the formula again when it is restored
            data = object.__new__(type(self.data))
            data.__dict__.update(self.data.__dict__)
            del data.__dict__[SPEC_NAME]
            state["data"] = data
            state["_dumped"] = dump_spec((spec, self._specs), self._namespace)
            del state["_namespace"], state["_specs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        dumped = state.pop("_dumped", None)
        self.__dict__.update(state)
        if dumped is not None:
            (spec, self._specs), self._namespace = load_spec(dumped)
            setattr(self.data, SPEC_NAME, spec)


def located(rows: Rows, beta: FloatArray) -> FloatArray:
    """Return x'beta plus the offset of rows."""
    fitted: FloatArray = rows.exog @ beta
    return fitted if rows.offset is None else fitted + rows.offset


def _matrix(name: str, values: Any, columns: int) -> FloatArray:
    """Return regressors of new rows, or raise a DataError when their number is wrong."""
    array = np.asarray(to_pandas(values), dtype=np.float64)
    if array.ndim < 2:
        array = array.reshape(-1, 1) if columns == 1 else array.reshape(1, -1)
    if array.ndim != 2 or array.shape[1] != columns:
        raise DataError(f"{name} has {array.shape[1]} columns, the model has {columns}")
    return array


def _known(offset: Any, n: int) -> Any:
    """Return an offset for each of n rows, or raise a DataError."""
    if offset is None:
        return None
    values = np.asarray(offset, dtype=np.float64)
    if values.ndim and values.shape != (n,):
        raise DataError(f"offset has length {values.size}, exog has {n} rows")
    return np.broadcast_to(values, (n,))
