"""Tables from files: CSV with pandas alone, Parquet and Feather with pyarrow; places to write to."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pandas as pd

from qhreg.exceptions import DataError, DomainError

FORMATS = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".feather")
"""Endings of the file names that are understood."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may separate the columns of a text, with the word for it."""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _header(path: Path, sep: str, encoding: str | None) -> tuple[list[str], int, int]:
    """Return the names of the columns, the lines down to them, and the values in the line below.

    Lines at the top that begin with # are comments, except one above a line of numbers, of as many
    values: that holds the names, as numpy writes them.
    """
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding=encoding or "utf-8-sig", newline="") as stream:
        lines = list(islice(stream, 1000))
    above = list(takewhile(lambda line: line.startswith("#") or not line.strip(), lines))
    comment = next((line for line in reversed(above) if line.startswith("#")), "")
    style: dict[str, Any] = {"delimiter": sep, "skipinitialspace": True}
    reader = csv.reader(lines[len(above) :], **style)
    names = next(reader, [])
    skipped = len(above) + 1  # pandas counts a line break within quotes as none
    width = len(next((row for row in reader if row), names))
    commented = next(csv.reader([comment.lstrip("# ")], **style), [])
    if len(commented) == len(names) and all(map(_is_number, names)):
        names, skipped, width = commented, len(above), len(names)
    return [name.strip().lstrip("\ufeff") for name in names], skipped, width


def _read_text(path: Path, sep: str, encoding: str | None, **options: Any) -> pd.DataFrame:
    """Return a table of text with the names as they are written, repeated ones included.

    Lines with one value more than there are names begin with a row name, as R writes them; an empty
    value more is a separator at the end of the line.
    """
    names, skipped, width = _header(path, sep, encoding)
    if not names:
        raise DataError(f"cannot read {path}: it has no columns")
    for mark, word in _SEPARATORS.items():
        if len(names) == 1 and mark in names[0] and mark != sep:
            raise DataError(
                f"{path} has a single column, {names[0]!r}: the file is separated by {word}; add "
                f"--sep {'tab' if word == 'tabs' else repr(mark)}"
            )
    frame: pd.DataFrame = pd.read_csv(
        path,
        sep=sep,
        encoding=encoding,
        header=None,
        names=range(max(len(names), width)),
        skiprows=skipped,
        skipinitialspace=True,
        **options,
    )
    if frame.iloc[:, len(names) :].isna().all(axis=None):
        frame = frame.iloc[:, : len(names)]
    elif frame.shape[1] == len(names) + 1:
        frame = frame.set_index(0).rename_axis(None)
    else:
        raise DataError(
            f"{path} has more values in a line ({width}) than names in its head ({len(names)})"
        )
    return frame.set_axis([name or f"Unnamed: {i}" for i, name in enumerate(names)], axis=1)


def read_table(
    file: str | Path,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
) -> pd.DataFrame:
    r"""Return the table in a file, its kind known from the ending.

    Parameters
    ----------
    file : path
        A file with one of the endings in `FORMATS`.
    sep : str, optional
        What separates columns: one character, or "tab". By default a comma, a tab in .tsv and .txt.
    decimal : str, optional
        The decimal sign, a point by default.
    thousands : str, optional
        What separates thousands; nothing by default.
    encoding : str, optional
        Encoding of the text, UTF-8 by default.
    na : sequence of str
        Values that stand for a missing one, besides empty ones, NA, NaN and their like.

    Raises
    ------
    DataError
        The file is not there, empty, without rows, of another kind, damaged, or needs a library
        that is not installed.
    """
    path = Path(file)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a data file")
    ending = next((each for each in FORMATS if path.name.lower().endswith(each)), None)
    if ending is None:
        raise DataError(f"{path}: the ending of a data file must be one of {', '.join(FORMATS)}")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise DataError(f"the file {path} is empty")
    text = {"sep": sep, "decimal": decimal, "thousands": thousands, "encoding": encoding, "na": na}
    given = [name for name, value in text.items() if value]
    if ending in (".parquet", ".feather") and given:
        raise DomainError(f"--{given[0]} is for tables of text, {path} is none")
    sep = sep or ("\t" if ending in (".tsv", ".txt") else ",")
    sep = "\t" if sep in ("tab", "\\t") else sep
    if len(sep) != 1:
        raise DomainError(f"--sep must be one character or 'tab', got {sep!r}")
    numbers = {"decimal": decimal or ".", "thousands": thousands, "na_values": list(na)}
    try:
        if ending == ".parquet":
            frame = pd.read_parquet(path)
        elif ending == ".feather":
            frame = pd.read_feather(path)
        else:
            frame = _read_text(path, sep, encoding, **numbers)
    except ImportError as error:
        raise DataError(
            f"reading {ending} needs pyarrow, which is not installed: pip install 'qhreg[parquet]', or "
            "save the data as CSV"
        ) from error
    except LookupError as error:
        message = f"--encoding {encoding!r} is none that Python knows, such as latin-1"
        raise DomainError(message) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not text in {encoding or 'UTF-8'}: name its encoding, such as --encoding latin-1"
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
