"""Rows in which one regressor varies while the others have typical values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from qhreg._typing import FloatArray
from qhreg.exceptions import DomainError
from qhreg.specification.formulas import (
    SPEC_NAME,
    is_factor,
    spec_text,
    term_columns,
    variable_names,
)

LINE_POINTS = 101
"""Points of a line over a numeric regressor."""


@dataclass(frozen=True)
class TypicalRows:
    """The values of one regressor in the rows of a model, and typical values of the others.

    Attributes
    ----------
    name : str
        The regressor.
    observed : ndarray, shape (n,)
        Its value in each row; of a factor the place of the level among `levels`.
    levels : tuple or None
        The levels of a factor.
    others : dict
        The other regressors: the mean of a numeric one, the most frequent level of a factor.
    column : int or None
        The column of the design that varies, where that is no variable of a formula.
    designs : dict
        Then the designs of location, scale and asymmetry by the keyword of ``predict``.
    """

    name: str
    observed: FloatArray
    levels: tuple[Any, ...] | None
    others: dict[str, Any]
    column: int | None
    designs: dict[str, FloatArray]

    @property
    def grid(self) -> FloatArray:
        """Values that a line is drawn through: all levels of a factor, else equidistant ones."""
        if self.levels is not None:
            return np.arange(float(len(self.levels)))
        return np.linspace(float(self.observed.min()), float(self.observed.max()), LINE_POINTS)

    @property
    def others_text(self) -> str:
        """The others with their values, as text."""
        parts = (
            f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in self.others.items()
        )
        return ", ".join(parts)

    def at(self, values: FloatArray) -> dict[str, Any]:
        """Return rows with these values, as keywords of ``predict``."""
        if self.column is None:
            codes = values.astype(int)
            varied = values if self.levels is None else [self.levels[code] for code in codes]
            frame = pd.DataFrame({self.name: varied}).assign(**self.others)
            return {"exog": frame, "transform": True}
        varying = self.designs["exog"][:, self.column]
        rows: dict[str, Any] = {"transform": False}
        for name, design in self.designs.items():
            rows[name] = np.tile(design.mean(axis=0), (len(values), 1))
            same = (design == varying[:, None]).all(axis=0)
            rows[name][:, same] = values[:, None]
        return rows


def _variables(model: Any, text: str | None = None) -> list[str]:
    """Return the columns of the data that the formulas of a model, or a part of one, mention.

    Parameters
    ----------
    model : RegressionModel
        The model; one of arrays has no variables.
    text : str, optional
        The part; the right-hand sides of all formulas by default.
    """
    frame = getattr(model.data, "frame", None)
    if getattr(model.data, SPEC_NAME, None) is None or frame is None:
        return []
    text = _right_hand_sides(model) if text is None else text
    names = variable_names(text)
    return [name for name in frame.columns if name in names]


def _right_hand_sides(model: Any) -> str:
    specs = (getattr(model.data, SPEC_NAME), *model._specs.values())
    return " + ".join(map(spec_text, specs))


def typical_rows(model: Any, param: str | int | None = None) -> TypicalRows:
    """Return the values of a regressor in the rows of a model, and typical ones of the others.

    Parameters
    ----------
    model : RegressionModel
        The model.
    param : str, int or None
        A variable of the formulas, or a column of the design by name or place; None for the only
        one that varies.

    Raises
    ------
    DomainError
        There is no such regressor, or none is named and several vary.
    """
    exog = model.observations.exog
    columns = [str(name) for name in model.exog_names[: model.k_exog]]
    moving = [columns[j] for j in np.flatnonzero(np.ptp(exog, axis=0) > 0.0)]
    variables = _variables(model)
    choice = variables or moving
    if not choice:
        raise DomainError("no regressor varies: there is nothing to plot the fit along")
    if param is None:
        if len(choice) != 1:
            raise DomainError(f"choose one of the regressors: {', '.join(choice)}")
        param = choice[0]
    if not isinstance(param, str):
        if not 0 <= int(param) < len(columns):
            raise DomainError(f"there is no column {param}: choose one of {', '.join(choice)}")
        param = columns[int(param)]
    if param in variables:
        return _of_variable(model, param, variables)
    if param not in columns:
        raise DomainError(f"{param!r} is no regressor: choose one of {', '.join(choice)}")
    if param not in moving:
        raise DomainError(f"{param} is constant: there is nothing to plot it against")
    column = columns.index(param)
    means = exog.mean(axis=0)
    others = {name: float(means[columns.index(name)]) for name in moving if name != param}
    further = {name: getattr(model, name) for name in model.further_names}
    return TypicalRows(param, exog[:, column], None, others, column, {"exog": exog, **further})


def _of_variable(model: Any, variable: str, variables: list[str]) -> TypicalRows:
    """Return the values of a variable of the formulas, and typical ones of the others."""
    objects = model._namespace if isinstance(model._namespace, dict) else {}
    outside = [name for name, value in objects.items() if np.size(value) == model.nobs_given > 1]
    if outside:
        raise DomainError(
            f"put {' and '.join(outside)} into the data, to be at a typical value there"
        )
    kept = model.row_source.kept
    frame = model.data.frame[variables]
    frame = frame if kept is None else frame.iloc[kept]
    text = _right_hand_sides(model)
    others = {
        name: frame[name].mode().iloc[0]
        if is_factor(frame[name], text)
        else float(frame[name].mean())
        for name in variables
        if name != variable
    }
    if is_factor(frame[variable], text):
        factor = pd.Categorical(frame[variable]).remove_unused_categories()
        codes, levels = factor.codes.astype(np.float64), tuple(factor.categories)
        return TypicalRows(variable, codes, levels, others, None, {})
    observed = frame[variable].to_numpy(dtype=np.float64)
    if not float(np.ptp(observed)) > 0.0:
        raise DomainError(f"{variable} is constant: there is nothing to plot it against")
    return TypicalRows(variable, observed, None, others, None, {})


class Term(NamedTuple):
    """A regressor with its columns in the design, and its variable where it has one of its own."""

    name: str
    columns: list[int]
    variable: str | None


def term_of(model: Any, param: str | int) -> Term:
    """Return a term, a column, or all terms of a variable.

    Parameters
    ----------
    model : RegressionModel
        The model.
    param : str or int
        A term of the formula such as ``"bs(x, df=4)"``, a column by name or place, or a variable: all
        terms that mention it and no other.

    Raises
    ------
    DomainError
        There is no such regressor, or it has several columns and several variables.
    """
    names = [str(name) for name in model.exog_names[: model.k_exog]]
    spec = getattr(model.data, SPEC_NAME, None)
    terms = {} if spec is None else term_columns(spec)
    if not isinstance(param, str) and 0 <= int(param) < len(names):
        param = names[int(param)]
    # patsy writes terms with spaces of its own
    spaced = {part.replace(" ", ""): part for part in terms}
    param = spaced.get(str(param).replace(" ", ""), param)
    alone = [part for part in terms if _variables(model, part) == [param]]
    variables = _variables(model, str(param))
    if param in terms:
        columns = terms[str(param)]
    elif param in names:
        columns = [str(param)]
    elif alone:
        columns, variables = [name for part in alone for name in terms[part]], [str(param)]
    else:
        choice = ", ".join(terms or names)
        raise DomainError(f"{param!r} is no regressor: choose one of {choice}")
    if len(variables) > 1 and len(columns) > 1:
        raise DomainError(
            f"{param} has several variables, {' and '.join(variables)}: plot_fit draws the fit along one"
        )
    places = [names.index(name) for name in columns if name in names]
    return Term(str(param), places, variables[0] if len(variables) == 1 else None)
