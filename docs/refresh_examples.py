"""Run the examples of the pages and write what they print: ``python docs/refresh_examples.py``.

Pages may be named; all by default. The tests compare, this writes. Read the difference before you keep
it: a number on a page that moved is a change that somebody has to explain.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

BLOCK = re.compile(r"^```python\n(>>> .*?)^```$", flags=re.MULTILINE | re.DOTALL)


def refreshed(text: str) -> str:
    """Return the page with the outputs of its sessions, which share their names, made anew."""
    names = {"__name__": "__main__"}
    return BLOCK.sub(lambda found: f"```python\n{_session(found[1], names)}```", text)


def _session(block: str, names: dict[str, object]) -> str:
    made = []
    for example in doctest.DocTestParser().get_examples(block):
        first, *more = example.source.splitlines()
        made += [f">>> {first}", *(f"... {line}".rstrip() for line in more)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, "<page>", "single"), names)
        made += [line or "<BLANKLINE>" for line in printed.getvalue().splitlines()]
    return "\n".join(made) + "\n"


def main() -> None:
    """Refresh the pages named, or all that have examples."""
    warnings.simplefilter("error")
    pages = [Path(name) for name in sys.argv[1:]]
    for page in pages or sorted(HERE.glob("[!_]*.md")) + sorted(HERE.glob("[hg]*/*.md")):
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page}: changed")


if __name__ == "__main__":
    main()
