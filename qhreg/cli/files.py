"""Tables from files: CSV with pandas alone, Parquet and Feather with pyarrow; places to write to."""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib.util
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from qhreg.exceptions import DataError, DomainError

__all__ = ["FORMATS", "TextFormat", "check_folder", "check_target", "read_table"]

FORMATS = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".feather")
"""Endings of the file names that are understood."""

_BINARY = (".parquet", ".feather")
_TABS = (".tsv", ".txt")
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may separate the columns of a text, with the word for it."""


@dataclass(frozen=True)
class TextFormat:
    """How numbers and columns are written in a table of text.

    Attributes
    ----------
    sep : str or None
        What separates columns: one character. By default a comma, or a tab in .tsv and .txt.
    decimal : str or None
        The decimal sign, a point by default.
    thousands : str or None
        What separates thousands; nothing by default.
    encoding : str or None
        Encoding of the text, UTF-8 by default.
    na : tuple of str
        Values that stand for a missing one, besides empty ones, NA, NaN and their like.
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()

    @property
    def given(self) -> list[str]:
        """Names of what is not left to its default."""
        return [field.name for field in fields(self) if getattr(self, field.name)]

    @property
    def options(self) -> dict[str, Any]:
        """The same for pandas, without the separator."""
        given = {"decimal": self.decimal, "thousands": self.thousands, "encoding": self.encoding}
        made = {name: value for name, value in given.items() if value is not None}
        return {**made, "na_values": list(self.na), "skipinitialspace": True}


class _Head(NamedTuple):
    """The first lines of a table of text.

    Attributes
    ----------
    skip : int
        Lines above the names; with the names in a comment, those above the values.
    commented : bool
        Whether the names are in a comment.
    names : list of str
        The names.
    width : int
        Values in the line after them.
    """

    skip: int
    commented: bool
    names: list[str]
    width: int


def _ending(path: Path) -> str:
    name = path.name.lower()
    for ending in FORMATS:
        if name.endswith(ending):
            return ending
    raise DataError(f"{path}: the ending of a data file must be one of {', '.join(FORMATS)}")


def _require_pyarrow(ending: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise DataError(
            f"reading {ending} needs pyarrow, which is not installed: pip install 'qhreg[parquet]', or "
            "save the data as CSV"
        )


def _read(path: Path, ending: str, text: TextFormat) -> pd.DataFrame:
    if ending == ".parquet":
        return pd.read_parquet(path)
    if ending == ".feather":
        return pd.read_feather(path)
    return _read_text(path, text.sep or ("\t" if ending in _TABS else ","), text)


def _first_lines(path: Path, sep: str, encoding: str | None) -> _Head:
    """Return the head of a table of text.

    Lines at its top that begin with # are comments, except one above a line of numbers, of as many
    values: that is the head, as numpy writes it.
    """
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding=encoding or "utf-8-sig", newline="") as stream:
        comment, skip = "", 0
        start: list[str] = []
        for number, line in enumerate(stream):
            if line.startswith("#"):
                comment, skip = line, number + 1
            elif line.strip():
                start = [line]
                break
        rows = _values(chain(start, stream), sep)
        first = next(rows, [])
        above = next(_values([comment.lstrip("# ")], sep), [])
        commented = len(above) == len(first) and all(map(_is_number, first))
        names, below = (above, first) if commented else (first, next(rows, first))
        return _Head(skip, commented, [n.strip().lstrip("\ufeff") for n in names], len(below))


def _values(lines: Iterable[str], sep: str) -> Iterator[list[str]]:
    """Iterate over the values of lines that are not empty."""
    rows = csv.reader(lines, delimiter=sep, skipinitialspace=True)
    return (row for row in rows if row)


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise DomainError(
            f"--encoding {name!r} is none that Python knows, such as latin-1"
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_text(path: Path, sep: str, text: TextFormat) -> pd.DataFrame:
    """Return a table of text with the names as they are written, repeated ones included.

    Lines with one value more than there are names begin with a row name, as R writes them; an empty
    value more is a separator at the end of the line.
    """
    skip, commented, names, width = _first_lines(path, sep, text.encoding)
    _check_separator(path, sep, names)
    options: dict[str, Any] = {**text.options, "sep": sep, "skiprows": skip}
    options |= {"header": None} if commented else {}
    frame: pd.DataFrame = pd.read_csv(path, **options)
    surplus = width - len(names)
    if surplus > 0 and bool(frame.iloc[:, -surplus:].isna().all(axis=None)):
        with warnings.catch_warnings():  # of the empty values that are left out
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            frame = pd.read_csv(path, **options, index_col=False)
    elif surplus > 1:
        raise DataError(
            f"{path} has more values in a line ({width}) than names in its head ({len(names)})"
        )
    if len(names) != frame.shape[1]:
        return frame
    return frame.set_axis([new or old for new, old in zip(names, frame, strict=True)], axis=1)


def _check_separator(path: Path, sep: str, names: list[str]) -> None:
    """Raise a DataError when a single name holds the separator of another kind of file."""
    for mark, word in _MARKS.items():
        if len(names) == 1 and mark in names[0] and mark != sep:
            shown = "tab" if mark == "\t" else f"{mark!r}"
            raise DataError(
                f"{path} has a single column, {names[0]!r}: the file is separated by {word}; add "
                f"--sep {shown}"
            )


def read_table(file: str | Path, text: TextFormat | None = None) -> pd.DataFrame:
    """Return the table in a file, its kind known from the ending.

    Parameters
    ----------
    file : path
        A file with one of the endings in `FORMATS`.
    text : TextFormat, optional
        How a table of text is written.

    Raises
    ------
    DataError
        The file is not there, empty, without rows, of another kind, damaged, or needs a library
        that is not installed.
    """
    path = Path(file)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a data file")
    ending = _ending(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise DataError(f"the file {path} is empty")
    text = TextFormat() if text is None else text
    if ending in _BINARY:
        _require_pyarrow(ending)
        if text.given:
            raise DomainError(f"--{text.given[0]} is for tables of text, {path} is none")
    if text.encoding is not None:
        _check_encoding(text.encoding)
    try:
        frame = _read(path, ending, text)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not text in {text.encoding or 'UTF-8'}: name its encoding, such as --encoding "
            "latin-1"
        ) from error
    except DataError:
        raise
    except (ValueError, OSError, csv.Error) as error:  # also pandas and pyarrow raise these
        raise DataError(f"cannot read {path} as {ending}: {error}") from error
    if frame.empty:
        raise DataError(f"the file {path} has no rows")
    return frame


def _check_permission(folder: Path, target: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {target}: no permission in the folder {folder}")


def check_target(file: str | Path, keep: Sequence[str] = ()) -> None:
    """Raise a DataError when a file cannot or must not be written, before the work that it is for.

    Parameters
    ----------
    file : path
        The file to be written.
    keep : sequence of paths
        Files that must not be written over.
    """
    path = Path(file)
    if any(path.resolve() == Path(each).resolve() for each in keep) and path.is_file():
        raise DataError(f"{path} is there already, data or a model: choose another name or --force")
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no folder {path.parent}")
    _check_permission(path.parent, path)


def check_folder(folder: str | Path) -> None:
    """Raise a DataError when a folder is not there and cannot be made.

    Parameters
    ----------
    folder : path
        The folder to be written to.
    """
    path = Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise DataError(f"cannot write to the folder {folder}: {there} is a file")
    _check_permission(there, path)
