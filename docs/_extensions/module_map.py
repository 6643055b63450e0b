"""Tables of the contributing page: modules with their first lines, constants with their reasons."""

from __future__ import annotations

import ast
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import qhreg
from benchmarks.code_size import reasons

PACKAGE = Path(qhreg.__file__).parent


def first_lines() -> dict[str, str]:
    """Return the first line of every module's docstring, subpackages after the modules."""
    lines = {}
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda p: (len(p.parts), p)):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if text and name not in ("__init__", "_version"):
            lines[name] = text.split("\n\n")[0].replace("\n", " ")
    return lines


class ModuleMap(SphinxDirective):
    """A table of all modules."""

    def run(self) -> list[nodes.Node]:
        table = ["| module | what it is |", "|---|---|"]
        table += [f"| `{name}` | {line} |" for name, line in first_lines().items()]
        return self.parse_text_to_nodes("\n".join(table))


class ConstantTable(SphinxDirective):
    """A table of all numeric constants of the package."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(reasons())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("module-map", ModuleMap)
    app.add_directive("constant-table", ConstantTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
