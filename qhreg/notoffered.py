"""What the base classes of statsmodels have and these models do not offer."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["NotOffered", "without"]


class NotOffered:
    """An inherited attribute that is not there: asking for it says what to use instead.

    Parameters
    ----------
    instead : str
        What to use.
    """

    def __init__(self, instead: str) -> None:
        self.instead = instead
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"{self.name} is not offered: {self.instead}")


def without(names: Any, owner: type) -> list[str]:
    """Return the names of attributes less those that the class does not offer."""
    hidden = {
        name
        for base in owner.__mro__
        for name, value in vars(base).items()
        if isinstance(value, NotOffered)
    }
    return sorted(set(names) - hidden)
