"""Examples are tests: the README's Python blocks and every docstring example run as written."""

import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import qhreg
from qhreg.cli.parser import make_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_python_blocks_of_the_readme_print_what_they_show():
    python = blocks("python")
    assert python
    assert all(block.startswith(">>> ") for block in python)
    runner, parser = doctest.DocTestRunner(optionflags=FLAGS), doctest.DocTestParser()
    shared: dict = {}
    for number, block in enumerate(python):
        test = parser.get_doctest(block, shared, f"README block {number}", "README.md", 0)
        assert test.examples
        runner.run(test, clear_globs=False)
        shared.update(test.globs)
    assert runner.failures == 0


def test_the_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\((?!https:)([^)#]+)\)", README)
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_readme_is_one_screen_of_short_lines():
    lines = README.splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) < 90


def test_the_command_line_of_the_readme_is_understood():
    shown = [line for block in blocks("bash") for line in block.splitlines()]
    shown = [line for line in shown if line.startswith("qhreg ")]
    assert shown
    for line in shown:
        assert make_parser().parse_args(shlex.split(line)[1:]).command == "fit"


def modules():
    return sorted(m.name for m in pkgutil.walk_packages(qhreg.__path__, "qhreg."))


@pytest.mark.parametrize("name", [name for name in modules() if not name.endswith("__main__")])
def test_the_docstring_examples_of_each_module_run(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "qhreg").split(".")[0] == "qhreg":
            raise
        pytest.skip(f"{name} needs {error.name}")
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0


def test_public_functions_show_an_example():
    missing = []
    for name in ("qhreg.family.loss", "qhreg.family.normalizer", "qhreg.certificate"):
        module = importlib.import_module(name)
        for attribute, item in vars(module).items():
            if attribute.startswith("_") or not getattr(item, "__module__", "").startswith(name):
                continue
            if callable(item) and not isinstance(item, type) and ">>> " not in (item.__doc__ or ""):
                missing.append(f"{name}.{attribute}")
    assert missing in (
        [],
        ["qhreg.family.loss.zone_part"],
    )  # the inner building block, without checks


def test_ci_takes_both_commands_from_the_readme():
    """The script prints the commands it would run; they are the marked blocks, word for word."""
    marked = dict(
        re.findall(
            r"^<!-- (\w+)-command -->\n```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
        )
    )
    assert set(marked) == {"demo", "test"}
    for name, command in marked.items():
        shown = subprocess.run(
            ["bash", str(ROOT / ".ci" / "run"), "--show", name],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == command
    assert "-m qhreg demo" in marked["demo"]
    assert "-m pytest" in marked["test"]
