"""Print the size of the package: modules, lines, constants, and what one fit walks through.

python -m benchmarks.code_size            the tables of docs/contributing.md
python -m benchmarks.code_size --constants every numeric constant with its reason
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "qhreg"
SKIPPED = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
LITERAL = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)


def docstring_lines(tree: ast.Module) -> int:
    """Return the lines of all docstrings of a module."""
    total = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            total += (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def code_lines(source: str) -> int:
    """Return the lines that hold a token, docstrings included."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def constants(tree: ast.Module) -> list[tuple[str, str, str]]:
    """Return name, value and reason (the string below it) of the numeric constants of a module."""
    found = []
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, parts = node.targets[0].id, list(ast.walk(node.value))
        literal = all(isinstance(part, LITERAL) for part in parts)
        words = any(isinstance(p, ast.Constant) and isinstance(p.value, (str, bool)) for p in parts)
        if name.isupper() and literal and not words:
            reason = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                reason = " ".join(str(after.value.value).split())
            found.append((name, ast.unparse(node.value), reason))
    return found


def sizes() -> None:
    """Print modules and lines of each room."""
    modules, code, docs, numbers = Counter(), Counter(), Counter(), Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "(top)"
        source = path.read_text()
        tree = ast.parse(source)
        docs[room] += docstring_lines(tree)
        code[room] += code_lines(source) - docstring_lines(tree)
        modules[room] += 1
        numbers[room] += len(constants(tree))
    print("| room | modules | code lines | docstring lines | constants |\n|---|---|---|---|---|")
    for room in sorted(modules):
        print(f"| {room} | {modules[room]} | {code[room]} | {docs[room]} | {numbers[room]} |")
    totals = (sum(counter.values()) for counter in (modules, code, docs, numbers))
    print("| **all** | " + " | ".join(f"**{total}**" for total in totals) + " |")


def reasons() -> str:
    """Return a table of every constant with its reason."""
    lines = ["| module | constant | value | reason |", "|---|---|---|---|"]
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for name, value, reason in constants(ast.parse(path.read_text())):
            lines.append(f"| {module} | `{name}` | {value} | {reason.replace('|', '/')} |")
    return "\n".join(lines)


def walked(action) -> tuple[int, int]:
    """Return how many files and functions of the package a call runs through."""
    files, functions = set(), set()

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)):
            files.add(name)
            functions.add((name, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return len(files), len(functions)


def traces() -> None:
    """Print what fit, summary and HC3 walk through."""
    import statsmodels.api as sm

    from qhreg import QuantileHuberMLE

    engel = sm.datasets.engel.load_pandas().data
    model = QuantileHuberMLE.from_formula("foodexp ~ income", engel)
    model.fit().summary()
    fit = model.fit()
    print("\n| call | files | functions |\n|---|---|---|")
    for name, action in {
        "fit()": lambda: model.fit(),
        "fit().bse, HC3": lambda: model.fit().bse,
        "fit().summary()": lambda: model.fit().summary(),
        "summary() alone": lambda: fit.summary(),
    }.items():
        print(f"| `{name}` | {' | '.join(map(str, walked(action)))} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constants", action="store_true", help="every constant with its reason")
    if parser.parse_args().constants:
        print(reasons())
    else:
        sizes()
        traces()
