"""What a formula needs besides its data: the caller's names, new design matrices, pickling.

statsmodels 0.15 works with patsy or formulaic behind one manager, 0.14 with patsy alone. The
differences are handled here and nowhere else.
"""

from __future__ import annotations

import importlib
import io
import pickle
import re
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd

from qhreg.exceptions import DataError, DomainError
from qhreg.specification.alignment import to_pandas
from qhreg.specification.formula_text import mentions, reject_dates, unknown_names_told

try:
    from statsmodels.formula._manager import FormulaManager
except ImportError:  # statsmodels 0.14
    FormulaManager = None

__all__ = [
    "SPEC_NAME",
    "constraints_told",
    "design_matrix",
    "dump_spec",
    "eval_env_argument",
    "formula_frame",
    "formula_namespace",
    "linear_constraints",
    "load_spec",
    "new_design",
    "term_names",
]

SPEC_NAME = "design_info" if FormulaManager is None else "model_spec"
"""The attribute of a model's data that holds the engine's description of the design."""

_NAME = re.compile(r"[^\W\d]\w*")


def formula_namespace(formula: Any, eval_env: Any, depth: int) -> Any:
    """Return the caller's objects that the formula mentions, by name.

    Parameters
    ----------
    formula : str or formula object
        The formula; of an object, its text.
    eval_env : None, int, mapping or engine environment
        None and 0 mean the caller, a positive number so many frames further up, -1 no names at all;
        a mapping is taken as the namespace, anything else is returned as it is.
    depth : int
        How many frames the caller is above this function.
    """
    if isinstance(eval_env, Mapping):
        return dict(eval_env)
    if eval_env is not None and not isinstance(eval_env, int):
        return eval_env
    if eval_env == -1:
        return {}
    frame = sys._getframe(depth + (eval_env or 0))
    names = set(_NAME.findall(str(formula)))
    visible = {**frame.f_globals, **frame.f_locals}
    return {name: visible[name] for name in sorted(names & visible.keys())}


def eval_env_argument(namespace: Any) -> Any:
    """Return the namespace in the form that the installed statsmodels takes as eval_env."""
    if FormulaManager is None and isinstance(namespace, dict):
        from patsy import EvalEnvironment

        return EvalEnvironment([namespace])
    return namespace


def formula_frame(data: Any, formula: Any) -> pd.DataFrame:
    """Return the data of a formula as a DataFrame that the engine in use can read.

    Columns of the same name, which no engine reads, are left out, unless the formula mentions them.
    """
    data = to_pandas(data)
    frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    twice = frame.columns.duplicated(keep=False)
    for name in frame.columns[twice]:
        if mentions(formula, name):
            raise DataError(
                f"the data have several columns called {name!r}: rename or drop all but one"
            )
    frame = frame.loc[:, ~twice] if twice.any() else frame
    reject_dates(formula, frame)
    engine = "patsy" if FormulaManager is None else FormulaManager().engine
    return _plain_columns(frame) if engine == "patsy" else frame


def _plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return nullable columns as numpy's, which is all that patsy knows, with NaN or None for NA."""
    nullable = [
        place
        for place, dtype in enumerate(frame.dtypes)
        if isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.na_value is pd.NA
    ]
    if not nullable:
        return frame
    made = frame.copy(deep=False)
    for place in nullable:
        made.isetitem(place, _plain(frame.iloc[:, place]).array)
    return made


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a nullable column as one of numpy's."""
    missing = column.isna()
    number = pd.api.types.is_numeric_dtype(column.dtype)
    if number and not missing.any():
        dtype: Any = column.dtype
        return column.astype(dtype.numpy_dtype)
    if number and not pd.api.types.is_bool_dtype(column.dtype):
        return column.astype("float64")
    return column.astype(object).where(~missing, None)


def _engine_of(spec: Any) -> str:
    return "patsy" if type(spec).__module__.startswith("patsy") else "formulaic"


def design_matrix(spec: Any, data: Any, namespace: Any) -> pd.DataFrame:
    """Return the design of new data; a row with a missing value becomes a row of NaN.

    Parameters
    ----------
    spec : patsy.DesignInfo or formulaic.ModelSpec
        Description of the design, with what it remembers of the data it was made from.
    data : DataFrame
        The variables of the formula's right-hand side. A category that the spec has not seen is an
        error: formulaic alone would take it for the reference category.
    namespace : dict
        Other names in the formula.
    """
    numbered = data.reset_index(drop=True)
    if _engine_of(spec) == "patsy":
        numbered = _plain_columns(numbered)
        _require_numbers(spec, numbered)
    with unknown_names_told(_text_of(spec), list(data.columns)):
        made = _new_rows(spec, numbered, namespace)
    return pd.DataFrame(made).reindex(numbered.index).set_axis(data.index, axis=0)


def _text_of(spec: Any) -> str:
    """Return the text of a design."""
    if _engine_of(spec) == "patsy":
        return " + ".join(factor.name() for factor in spec.factor_infos)
    return str(spec.formula)


def _new_rows(spec: Any, data: pd.DataFrame, namespace: Any) -> Any:
    """Return the design of new data, rows with a missing value left out."""
    if FormulaManager is None:
        from patsy import dmatrix

        return dmatrix(spec, data, NA_action="drop", return_type="dataframe")
    manager = FormulaManager(engine=_engine_of(spec))
    with _unseen_categories_raise(spec):
        return manager.get_matrices(
            spec,
            data,
            eval_env=namespace if isinstance(namespace, dict) else {},
            pandas=True,
            na_action=manager.get_na_action("drop"),
            prediction=True,
        )


def _require_numbers(spec: Any, data: pd.DataFrame) -> None:
    """Raise a DataError when a column that was numeric in the fit is not; patsy would not name it."""
    for factor, info in spec.factor_infos.items():
        name = factor.name()
        if info.type != "numerical" or name not in data.columns:
            continue
        column = data[name]
        if isinstance(column, pd.DataFrame):
            raise DataError(f"the new data have several columns called {name!r}")
        if column.dtype.kind not in "iuf":
            raise DataError(
                f"the new data have {column.dtype} in column {name!r}, which was numeric in the fit"
            )


@contextmanager
def _unseen_categories_raise(spec: Any) -> Iterator[None]:
    """Turn formulaic's warning about a category it has not seen into a DataError."""
    if _engine_of(spec) == "patsy":
        yield
        return
    from formulaic.errors import DataMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        try:
            yield
        except DataMismatchWarning as error:
            said = str(error).partition(". ")[0]
            raise DataError(f"the new data have a category the fit has not seen: {said}") from error


def new_design(formula: str, data: pd.DataFrame, namespace: Any) -> tuple[pd.DataFrame, Any]:
    """Return the right-hand side of a formula, rows with a missing value left out, and its spec.

    Parameters
    ----------
    formula : str
        Such as ``"~ z"``; of ``"y ~ z"`` a missing response leaves a row out too.
    data : DataFrame
        The variables.
    namespace : dict or engine environment
        Other names in the formula.
    """
    manager = None if FormulaManager is None else FormulaManager()
    with unknown_names_told(formula, list(data.columns)):
        made = _matrices(manager, formula, data, eval_env_argument(namespace))
    right = made[1] if isinstance(made, tuple) else made
    spec = right.design_info if manager is None else manager.spec
    design = pd.DataFrame(right)
    if _engine_of(spec) == "formulaic" and not isinstance(made, tuple):
        # with one side the manager leaves the rows numbered and forgets their labels
        design = design.set_axis(data.index[design.index], axis=0)
    return design, spec


def _matrices(manager: Any, formula: str, data: pd.DataFrame, env: Any) -> Any:
    """Return the design of a formula, and its response if it has one."""
    if manager is not None:
        action = manager.get_na_action("drop")
        return manager.get_matrices(formula, data, eval_env=env, pandas=True, na_action=action)
    from patsy import dmatrices, dmatrix

    two_sided = "~" in formula and not formula.lstrip().startswith("~")
    make = dmatrices if two_sided else dmatrix
    return make(formula, data, eval_env=env, NA_action="drop", return_type="dataframe")


def linear_constraints(constraints: Any, names: list[str]) -> tuple[Any, Any]:
    """Return matrix and right-hand side of constraints such as ``"x1 = x2, tau = 0.5"``.

    Parameters
    ----------
    constraints : str, list of str, array_like or (matrix, values)
        A matrix alone has zeros as right-hand sides.
    names : list of str
        The parameters.

    Raises
    ------
    DomainError
        Something else than these parameters is named, or no constraint can be read.
    """
    try:
        if FormulaManager is None:
            from patsy import DesignInfo

            made = DesignInfo(names).linear_constraint(constraints)
            return made.coefs, made.constants
        made = FormulaManager().get_linear_constraints(constraints, names)
    except Exception as error:  # each engine has errors of its own
        raise DomainError(
            f"the constraints {constraints!r} cannot be read: {error}\nThe estimated parameters are "
            f"{', '.join(map(str, names))}"
        ) from error
    return made.constraint_matrix, made.constraint_values


@contextmanager
def constraints_told(constraints: Any, names: list[str]) -> Iterator[None]:
    """Turn what an engine raises for constraints that it cannot read into a DomainError.

    Parameters
    ----------
    constraints, names
        As in `linear_constraints`.
    """
    try:
        yield
    except Exception:
        linear_constraints(constraints, names)
        raise


def term_names(spec: Any) -> list[str]:
    """Return the terms of a design, such as ``"C(g)"``, in the order of its columns.

    Parameters
    ----------
    spec : object
        The engine's description of the design.
    """
    names = spec.term_names if FormulaManager is None else FormulaManager().get_term_names(spec)
    return [str(name) for name in names]


def _rebuild(cls: type, state: dict[str, Any]) -> Any:
    """Return an object of cls with the given attributes."""
    made: Any = object.__new__(cls)
    made.__dict__.update(state)
    return made


def _patsy_builtin(name: str) -> Any:
    """Return a function that patsy offers in every formula, such as center or bs."""
    from patsy import builtins

    return getattr(builtins, name)


def _patsy_builtin_name(function: Any) -> str | None:
    if not hasattr(function, "__patsy_stateful_transform__"):
        return None
    from patsy import builtins

    return next((name for name in builtins.__all__ if getattr(builtins, name) is function), None)


class _SpecPickler(pickle.Pickler):
    """Pickle modules by name, and patsy's objects, which refuse to be pickled, by attributes."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.ModuleType):
            return importlib.import_module, (obj.__name__,)
        if isinstance(obj, types.FunctionType):
            name = _patsy_builtin_name(obj)
            return NotImplemented if name is None else (_patsy_builtin, (name,))
        owner = type(obj)
        if owner.__module__.startswith("patsy.") and hasattr(obj, "__dict__"):
            return _rebuild, (owner, dict(obj.__dict__))
        return NotImplemented


def dump_spec(spec: Any, namespace: Any) -> bytes:
    """Return the description of a design and its names as bytes.

    Functions travel by reference: one defined in a module can be restored, a lambda or a function
    defined inside another cannot, and pickle says which.
    """
    buffer = io.BytesIO()
    _SpecPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump((spec, namespace))
    return buffer.getvalue()


def load_spec(content: bytes) -> tuple[Any, Any]:
    """Return what `dump_spec` stored: the description of the design and its names."""
    restored: tuple[Any, Any] = pickle.loads(content)
    return restored
