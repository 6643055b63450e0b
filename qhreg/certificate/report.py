"""The one layout of a certificate, as text and as an HTML table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Literal

__all__ = ["Status", "as_html", "as_text"]

Status = Literal["proved", "refuted", "undecided"]


def as_text(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return the title and one aligned line for each (name, value)."""
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def as_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a table with the title as caption and one row for each (name, value)."""
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption>{html.escape(title)}</caption><tbody>{cells}</tbody></table>"
