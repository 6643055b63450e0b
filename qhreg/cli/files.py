"""Tables from files: CSV with pandas alone, Parquet and Feather with pyarrow; places to write to."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import os
import warnings
from pathlib import Path

import pandas as pd

from qhreg.exceptions import DataError

__all__ = ["FORMATS", "check_folder", "check_target", "read_table", "separator_hint"]

FORMATS = (".csv", ".csv.gz", ".tsv", ".parquet", ".feather")
"""Endings of the file names that are understood."""


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


def _read(path: Path, ending: str) -> pd.DataFrame:
    if ending == ".parquet":
        return pd.read_parquet(path)
    if ending == ".feather":
        return pd.read_feather(path)
    return _read_text(path, "\t" if ending == ".tsv" else ",")


def _first_lines(path: Path, sep: str) -> tuple[list[str], int]:
    """Return the names in the head of a table of text, and the number of values in its first line."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        lines = (line for line in csv.reader(stream, delimiter=sep, skipinitialspace=True) if line)
        names = [name.strip() for name in next(lines, [])]
        return names, len(next(lines, names))


def _read_text(path: Path, sep: str) -> pd.DataFrame:
    """Return a table of text with the names as they are written, repeated ones included.

    Lines with one value more than there are names begin with a row name, as R writes them; an empty
    value more is a separator at the end of the line.
    """
    frame = pd.read_csv(path, sep=sep, skipinitialspace=True)
    names, width = _first_lines(path, sep)
    surplus = width - len(names)
    if surplus > 0 and bool(frame.iloc[:, -surplus:].isna().all(axis=None)):
        with warnings.catch_warnings():  # of the empty values that are left out
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            frame = pd.read_csv(path, sep=sep, skipinitialspace=True, index_col=False)
    elif surplus > 1:
        raise DataError(
            f"{path} has more values in a line ({width}) than names in its head ({len(names)})"
            f"{separator_hint(names)}"
        )
    if len(names) != frame.shape[1]:
        return frame
    return frame.set_axis([new or old for new, old in zip(names, frame, strict=True)], axis=1)


def separator_hint(names: list[str]) -> str:
    """Return what a single name says when it holds the separator of another kind of file, or nothing."""
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(names) == 1 and mark in names[0]:
            wanted = "end the name of the file in .tsv" if mark == "\t" else "commas are expected"
            return f" (a single one: the file is separated by {word}; {wanted})"
    return ""


def read_table(file: str | Path) -> pd.DataFrame:
    """Return the table in a file, its kind known from the ending.

    Parameters
    ----------
    file : path
        A file with one of the endings in `FORMATS`.

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
    if ending in (".parquet", ".feather"):
        _require_pyarrow(ending)
    try:
        frame = _read(path, ending)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: save it in that encoding") from error
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


def check_target(file: str | Path) -> None:
    """Raise a DataError when a file cannot be written, before the work that it is for.

    Parameters
    ----------
    file : path
        The file to be written.
    """
    path = Path(file)
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
