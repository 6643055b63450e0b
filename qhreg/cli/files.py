"""Tables from files: CSV with pandas alone, Parquet and Feather with pyarrow."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd

from qhreg.exceptions import DataError

__all__ = ["FORMATS", "read_table"]

FORMATS = (".csv", ".csv.gz", ".tsv", ".parquet", ".feather")
"""Endings of the file names that are understood."""


def _ending(path: Path) -> str:
    name = path.name.lower()
    for ending in FORMATS:
        if name.endswith(ending):
            return ending
    raise DataError(f"{path.name}: the ending of a data file must be one of {', '.join(FORMATS)}")


def _require_pyarrow(ending: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise DataError(
            f"reading {ending} needs pyarrow, which is not installed: pip install pyarrow, or save "
            "the data as CSV"
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
