"""The command line: ``python -m qhreg demo``, and ``--help`` for the rest."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from qhreg.cli.parser import make_parser


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """Write a warning as one line, without the place in the program it comes from."""
    sys.stderr.write(f"qhreg: warning: {_one_line(message)}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 2 after an error, told in one line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    options = make_parser().parse_args(argv)
    try:
        from qhreg.cli.commands import COMMANDS

        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            COMMANDS[options.command](options)
    except BrokenPipeError:
        # the reader of our output has gone, as in "qhreg fit ... | head"
        sys.stderr.close()
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("qhreg: interrupted\n")
        return 130  # 128 plus the number of the signal, as shells have it
    except Exception as error:
        if options.traceback:
            raise
        sys.stderr.write(f"qhreg: error: {_one_line(error) or type(error).__name__}\n")
        return 2  # as argparse
    return 0


if __name__ == "__main__":
    sys.exit(main())
