"""Tables from files: CSV with pandas alone, Parquet and Feather with pyarrow; places to write to."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pandas as pd

from qhreg.exceptions import DataError

__all__ = ["FORMATS", "check_folder", "check_target", "read_table"]

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
    return pd.read_csv(path, sep="\t" if ending == ".tsv" else ",")


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
    except (ValueError, OSError) as error:  # pandas and pyarrow raise subclasses of these
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
