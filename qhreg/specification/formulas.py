"""Formulas: what their text mentions, the caller's names, designs of old and new rows, pickling.

statsmodels 0.15 works with patsy or formulaic behind one manager, 0.14 with patsy alone. The
differences are handled here and nowhere else.
"""

from __future__ import annotations

import difflib
import importlib
import io
import keyword
import pickle
import re
import sys
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from qhreg._typing import BoolArray, FloatArray
from qhreg.exceptions import DataError, DomainError
from qhreg.specification.inputs import to_pandas

try:
    from statsmodels.formula._manager import FormulaManager
except ImportError:  # statsmodels 0.14
    FormulaManager = None

SPEC_NAME = "design_info" if FormulaManager is None else "model_spec"
"""The attribute of a model's data that holds the engine's description of the design."""

_NAME = re.compile(r"[^\W\d]\w*")

LISTED = 30
"""Columns that a message lists."""

_QUOTED = re.compile(r"""\bQ\(\s*(['"])(.*?)\1\s*\)""")
_TEXT = re.compile(r"""(['"]).*?\1""")
_VARIABLE = re.compile(r"(?<![\w.])[^\W\d]\w*(?!\w)(?!\s*(?:\(|=[^=]))")
_BRACKETS = re.compile(r"([\w.)\]]*)\s*[(\[]([^()\[\]]*)[)\]]")
_SYNTAX = ("SyntaxError", "PatsyError", "FormulaSyntaxError")
"""What Python, patsy and formulaic raise for a text that is no formula."""

_MARKED = re.compile("['`\"](.+)['`\"]")


def check_formula(formula: Any, data: Any) -> None:
    """Raise a DataError when formula and data are exchanged, or when a text is no formula.

    Parameters
    ----------
    formula : str or formula object
        The formula.
    data : object
        The data.
    """
    if isinstance(data, str):
        if not isinstance(formula, str) or "~" in data:
            raise DataError(
                'the formula comes first, then the data, as in from_formula("y ~ x", data); got a '
                f"{type(formula).__name__} and the text {data!r}"
            )
        raise DataError(f"data must be a DataFrame or a dict of columns, got the text {data!r}")
    if formula is None or isinstance(formula, str):
        left, _, right = (formula or "").partition("~")
        if not (left.strip() and right.strip()):
            raise DataError(
                f'a formula has the form "y ~ x", or "y ~ 1" for a constant alone; got {formula!r}'
            )


def mentions(formula: Any, name: Any) -> bool:
    """Return whether the text of a formula has a name in it as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(str(name))}(?!\w)", str(formula)) is not None


def variable_names(text: str) -> set[str]:
    """Return the names in a formula that can be variables: no functions, keywords or texts.

    Examples
    --------
    >>> from qhreg.specification.formulas import variable_names
    >>> sorted(variable_names("bs(x, df=4) + Q('a b') + C(g, Treatment('z')) + day.dt.year"))
    ['a b', 'day', 'g', 'x']
    """
    quoted = {name for _, name in _QUOTED.findall(text)}
    return quoted | set(_VARIABLE.findall(_TEXT.sub("", _QUOTED.sub("", text))))


def stands_alone(formula: Any, name: Any) -> bool:
    """Return whether a name is a variable of a formula by itself, not within a call like C(name).

    Examples
    --------
    >>> from qhreg.specification.formulas import stands_alone
    >>> stands_alone("y ~ (x + day) * z", "day"), stands_alone("y ~ C(day) + day.dt.year", "day")
    (True, False)
    """
    text, count = _QUOTED.sub(r"\2", str(formula)), 1
    while count:  # a call disappears, other brackets leave what they hold
        text, count = _BRACKETS.subn(lambda one: "" if one[1] else one[2], text)
    alone = rf"(?<![\w.]){re.escape(str(name))}(?![\w.])"
    return re.search(alone, text) is not None


def is_factor(column: pd.Series[Any], text: str) -> bool:
    """Return whether a variable stands for levels: it is not numeric, or the formula says C(it).

    Examples
    --------
    >>> import pandas as pd
    >>> from qhreg.specification.formulas import is_factor
    >>> [is_factor(pd.Series([1, 2], name="g"), text) for text in ("x + C(g)", "C(x) + g")]
    [True, False]
    """
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    quoted = rf"""(Q\(\s*['"])?{re.escape(str(column.name))}(?!\w)"""
    return not numeric or re.search(rf"(?<!\w)C\(\s*{quoted}", text) is not None


def reject_dates(formula: Any, frame: pd.DataFrame) -> None:
    """Raise a DataError for dates as they are: patsy makes categories of them, formulaic nothing."""
    for name, dtype in frame.dtypes.items():
        if pd.api.types.is_datetime64_any_dtype(dtype) and stands_alone(formula, name):
            raise DataError(
                f"the column {name!r} holds dates, which are no numbers: make a column of numbers, "
                f"such as (data[{name!r}] - data[{name!r}].min()).dt.days, or write C({name}) for a "
                f"category for each of the {frame[name].nunique()} dates"
            )


def reject_text_response(formula: Any, frame: pd.DataFrame) -> None:
    """Raise a DataError for a response that is no number: engines make a column of each value."""
    name = str(formula).partition("~")[0].strip()
    if name in frame and frame[name].dtype.kind not in "iuf":
        shown = ", ".join(map(repr, frame[name].dropna().unique()[:3].tolist()))
        raise DataError(
            f"the response {name!r} must be numeric, and holds {shown}: code it as numbers, or use a "
            "model for categories, such as Logit"
        )


def reject_wide_factors(formula: Any, frame: pd.DataFrame) -> None:
    """Raise a DataError for a factor whose columns do not fit into memory."""
    for name in (name for name in frame if mentions(formula, name)):
        if not is_factor(frame[name], str(formula)):
            continue
        shape = len(frame), frame[name].nunique()
        try:
            np.empty(shape)
        except MemoryError as error:
            raise DataError(
                f"{name!r} has {shape[1]:,} levels: a column for each of them would take "
                f"{8.0 * shape[0] * shape[1] / 2**30:,.0f} GiB for {shape[0]:,} rows. Merge levels, or "
                'leave it out and use cov_type="cluster" with it as groups'
            ) from error


@contextmanager
def unknown_names_told(formula: Any, columns: Sequence[Any]) -> Iterator[None]:
    """Turn what a formula engine raises for a name it does not find into a DataError.

    Parameters
    ----------
    formula : str or formula object
        The formula.
    columns : sequence
        The columns of the data.
    """
    try:
        yield
    except Exception as error:  # each engine has errors of its own
        name = _unknown_name(error)
        for column in _unquoted(str(formula), columns):
            if type(error).__name__ in _SYNTAX or (name and column.startswith(name)):
                raise DataError(
                    f'write Q("{column}") for the column {column!r}: its name is not a word'
                ) from error
        if name is None or name in columns or not mentions(formula, name):
            raise
        raise DataError(
            _unknown(name, str(formula), [str(column) for column in columns])
        ) from error


def _unquoted(formula: str, columns: Sequence[Any]) -> list[str]:
    """Return columns that a formula mentions without Q, and whose names Python does not read as one."""
    bare = _QUOTED.sub("", formula)
    words = (str(column) for column in columns)
    odd = (word for word in words if not word.isidentifier() or keyword.iskeyword(word))
    return [word for word in odd if mentions(bare, word)]


def _unknown_name(error: BaseException | None) -> str | None:
    """Return the name that was not found, from the chain of causes."""
    while error is not None:
        if isinstance(error, NameError):
            said = _MARKED.search(str(error))
            return said[1] if said else None
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
            return error.args[0]
        error = error.__cause__ or error.__context__
    return None


def _unknown(name: str, formula: str, columns: list[str]) -> str:
    """Return what to say of a name that is neither a column nor known to the caller."""
    if name == "np":
        return (
            "the formula uses np, which is not there: import numpy as np where the model is built"
        )
    if re.search(rf"(?<!\w){re.escape(name)}\s*\(", formula):
        # np.poly, for one, is another function than what formulas elsewhere call poly
        of_numpy = isinstance(getattr(np, name, None), np.ufunc) or name in (
            "clip",
            "round",
            "where",
        )
        instead = f": write np.{name}" if of_numpy else " where the model is built"
        return f"there is no function {name!r}{instead}"
    close = difflib.get_close_matches(name, columns, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
    return f"there is no column {name!r}; the columns are {', '.join(columns[:LISTED])}{more}{hint}"


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
    frame = _plain_columns(frame)
    reject_text_response(formula, frame)
    reject_wide_factors(formula, frame)
    return frame


def _plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return nullable columns as numpy's, which both engines know, with NaN or None for NA."""
    plain = frame.copy(deep=False)
    for place, dtype in enumerate(frame.dtypes):
        if getattr(dtype, "na_value", None) is pd.NA:
            plain.isetitem(place, _plain(frame.iloc[:, place]).array)
    return plain


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
    numbered = _plain_columns(data.reset_index(drop=True))
    if _engine_of(spec) == "patsy":
        _require_numbers(spec, numbered)
    env = eval_env_argument(namespace if isinstance(namespace, dict) else {})
    with unknown_names_told(spec_text(spec), list(data.columns)), _unseen_categories_raise(spec):
        matrices, _ = _matrices(spec, numbered, env, prediction=True)
    return pd.DataFrame(matrices).reindex(numbered.index).set_axis(data.index, axis=0)


def spec_text(spec: Any) -> str:
    """Return the text of a design, the right-hand side of its formula."""
    if _engine_of(spec) == "patsy":
        return " + ".join(factor.name() for factor in spec.factor_infos)
    return str(spec.formula)


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
    with unknown_names_told(formula, list(data.columns)):
        matrices, spec = _matrices(formula, data, eval_env_argument(namespace))
    design = pd.DataFrame(matrices[1] if isinstance(matrices, tuple) else matrices)
    if _engine_of(spec) == "formulaic" and not isinstance(matrices, tuple):
        # with one side the manager leaves the rows numbered and forgets their labels
        design = design.set_axis(data.index[design.index], axis=0)
    return design, spec


def _matrices(formula: Any, data: pd.DataFrame, env: Any, prediction: bool = False) -> Any:
    """Return the design of a formula or of a spec, with the response if it has one, and its spec."""
    if FormulaManager is None:
        from patsy import dmatrices, dmatrix

        two_sided = isinstance(formula, str) and re.search(r"\S\s*~", formula)
        make = dmatrices if two_sided else dmatrix
        matrices = make(formula, data, eval_env=env, NA_action="drop", return_type="dataframe")
        return matrices, (matrices[1] if two_sided else matrices).design_info
    manager = FormulaManager(engine=_engine_of(formula) if prediction else None)
    matrices = manager.get_matrices(
        formula,
        data,
        eval_env=env,
        pandas=True,
        na_action=manager.get_na_action("drop"),
        prediction=prediction,
    )
    return matrices, manager.spec


def usable_rows(
    formula: Any,
    others: dict[str, str],
    data: pd.DataFrame,
    extras: dict[str, FloatArray],
    namespace: Any,
) -> BoolArray:
    """Return in which rows no formula and no weight is missing.

    The designs are made from these rows alone, so that a transformation that looks at the whole
    column, such as ``center``, sees the same rows in every formula.
    """
    for name, text in others.items():
        if "~" in text and not text.lstrip().startswith("~"):
            raise DataError(
                f'{name.removeprefix("exog_")} must be a formula without response, such as "~ z"; got '
                f"{text!r}"
            )
    texts = (str(formula), *others.values())
    usable = _usable(texts, data, namespace)
    mentioned = variable_names(" + ".join(texts))
    complete = data[[name for name in data if name in mentioned]].notna().all(axis=1).to_numpy()
    if (~usable & complete).any():
        # one gap makes the mean of a column, and with it all of center(z), missing
        usable = complete.copy()
        usable[complete] = _usable(texts, data[complete], namespace)
    for values in extras.values():
        usable &= ~np.isnan(values)
    return usable


def _usable(texts: tuple[str, ...], data: pd.DataFrame, namespace: Any) -> BoolArray:
    """Return which rows every formula gives numbers for."""
    usable = np.ones(len(data), dtype=bool)
    numbered = data.set_axis(pd.RangeIndex(len(data)), axis=0)
    for text in texts:
        matrices, _ = new_design(text, numbered, namespace)
        if len(matrices) < len(data):  # a formula without variables has no labels to go by
            usable &= np.isin(np.arange(len(data)), matrices.index)
    return usable


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

            constraint = DesignInfo(names).linear_constraint(constraints)
            return constraint.coefs, constraint.constants
        constraint = FormulaManager().get_linear_constraints(constraints, names)
    except Exception as error:  # each engine has errors of its own
        raise DomainError(
            f"the constraints {constraints!r} cannot be read: {error}\nThe estimated parameters are "
            f"{', '.join(map(str, names))}"
        ) from error
    return constraint.constraint_matrix, constraint.constraint_values


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


def term_columns(spec: Any) -> dict[str, list[str]]:
    """Return the terms of a design, such as ``"C(g)"``, each with the names of its columns.

    Parameters
    ----------
    spec : object
        The engine's description of the design.
    """
    if FormulaManager is None:
        names, slices = spec.column_names, spec.term_name_slices
    else:
        manager = FormulaManager(engine=_engine_of(spec))
        names, slices = manager.get_column_names(spec), manager.get_term_name_slices(spec)
    return {str(term): [str(name) for name in names[part]] for term, part in slices.items()}


def _rebuild(cls: type, state: dict[str, Any]) -> Any:
    """Return an object of cls with the given attributes."""
    instance: Any = object.__new__(cls)
    instance.__dict__.update(state)
    return instance


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
