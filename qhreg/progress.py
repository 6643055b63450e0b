"""A progress bar around work that comes in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def with_progress(
    items: Iterable[Any], wanted: bool, label: str, total: int | None = None
) -> Iterable[Any]:
    """Return the items, with a progress bar where one is wanted and tqdm is installed.

    Parameters
    ----------
    items : iterable
        The pieces of work.
    wanted : bool
        Whether to show a bar.
    label : str
        What is being done.
    total : int, optional
        Number of items, where they do not tell it.
    """
    if not wanted:
        return items
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return items
    bar: Iterable[Any] = tqdm(items, total=total, desc=label, leave=False)
    return bar
