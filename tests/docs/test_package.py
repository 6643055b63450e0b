"""The package as a whole: what importing it costs, which way imports point, what setup.cfg says."""

import ast
import configparser
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import qhreg

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "qhreg"

# The layers of the design, bottom first. Modules between them need only keep the order of these.
LAYERS = [
    "exceptions",
    "family",
    "engine",
    "solver",
    "certificate",
    "diagnostics",
    "plotting",  # draws the numbers it is handed and knows nothing of where they come from
    "covariance",
    "inference",
    "profile",
    "results",
    "process",
    "regularized",
    "model",
    "distributional",
    "estimator",
    "boosting",
    "partitions",
    "stream",
    "dask",
    "formula",
    "api",
    "cli",
    "__main__",
]

SKIPPED_FOLDERS = {".git", "__pycache__", "build", "dist", "node_modules", "_build", "generated"}


def run_python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, check=False
    )


# --- imports ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heavy_modules():
    """What `import qhreg` brings in, asked of a fresh interpreter."""
    answer = run_python("-c", "import sys, qhreg; print(' '.join(sys.modules))")
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


OPTIONAL = ["matplotlib", "sklearn", "dask", "lightgbm", "tqdm", "cvxpy", "threadpoolctl"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_importing_qhreg_does_not_import_an_optional_library(name, heavy_modules):
    assert "qhreg" in heavy_modules
    assert name not in heavy_modules


def unit(path):
    """The top-level module or subpackage of qhreg that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_units(path):
    """Units of qhreg that a file imports, also inside functions; "" stands for qhreg itself."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names if name.split(".")[0] == "qhreg"]
    own = {unit(file) for file in PACKAGE.rglob("*.py")}
    return {part[1] if len(part) > 2 or part[-1] in own else "" for part in parts}


def import_graph():
    graph = {}
    for path in PACKAGE.rglob("*.py"):
        if path.parent == PACKAGE and path.name == "__init__.py":
            continue
        graph.setdefault(unit(path), set()).update(imported_units(path) - {unit(path)})
    return graph


def file_graph():
    """Which file imports which, inside the packages too."""

    def named(path):
        return ".".join(("qhreg", *path.relative_to(PACKAGE).with_suffix("").parts))

    files = {named(path).removesuffix(".__init__"): path for path in PACKAGE.rglob("*.py")}
    graph = {}
    for name, path in files.items():
        found = graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in files:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & set(files)
                found.update(inner or {node.module})
    return graph


def reachable(start, graph):
    found, pending = set(), [start]
    while pending:
        for name in graph.get(pending.pop(), ()):
            if name not in found:
                found.add(name)
                pending.append(name)
    return found


def test_no_module_imports_from_the_package_itself():
    """`from qhreg import name` inside qhreg would hide which module is meant."""
    graph = import_graph()
    assert {name for name, imports in graph.items() if "" in imports} <= {"__main__"}


@pytest.mark.parametrize("graph_of", [import_graph, file_graph])
def test_imports_run_in_no_circle(graph_of):
    graph = graph_of()
    assert {name for name in graph if name in reachable(name, graph)} == set()


def test_no_package_has_more_files_than_a_reader_takes_in():
    """A folder with more is several ideas: it is to be split."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    sizes = {folder.name: len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > 25} == {}


def test_imports_point_from_the_top_of_the_design_to_its_bottom():
    graph = import_graph()
    assert {"exceptions", "family", "engine", "solver", "certificate"} <= set(graph)
    wrong = {
        (name, other)
        for level, name in enumerate(LAYERS)
        for other in reachable(name, graph) & set(LAYERS[level:])
    }
    assert wrong == set()


def test_the_test_of_directions_sees_deferred_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "loss.py").write_text("def f():\n    from qhreg.model import X\n", encoding="utf-8")
    (tmp_path / "model.py").write_text("import qhreg.loss\nfrom qhreg import Y\n", encoding="utf-8")
    assert import_graph() == {"loss": {"model"}, "model": {"loss", ""}}
    assert "loss" in reachable("loss", import_graph())


# --- metadata --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def requirements(text):
    return {re.split(r"[<>=;\[ ]", line.strip())[0] for line in text.splitlines() if line.strip()}


def test_the_extras_are_the_promised_ones(setup_cfg):
    extras = setup_cfg["options.extras_require"]
    assert set(extras) == {
        "plot",
        "sklearn",
        "boost",
        "threads",
        "dask",
        "parquet",
        "paper",
        "data",
        "docs",
        "test",
        "all",
    }
    assert requirements(extras["plot"]) == {"matplotlib"}
    assert requirements(extras["sklearn"]) == {"scikit-learn"}
    assert requirements(extras["boost"]) == {"scikit-learn", "lightgbm"}
    assert requirements(extras["dask"]) == {"dask"}
    for name in ("plot", "sklearn", "boost", "threads", "dask"):
        assert requirements(extras[name]) <= requirements(extras["all"])


def test_the_core_requires_what_the_core_imports_and_no_more(setup_cfg):
    core = requirements(setup_cfg["options"]["install_requires"])
    assert core == {"numpy", "scipy", "pandas", "statsmodels", "patsy", "mpmath"}
    assert setup_cfg["options"]["python_requires"] == ">=3.10"


def test_metadata_lives_in_setup_cfg_alone():
    assert "[project]" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_written_once(setup_cfg):
    assert setup_cfg["metadata"]["version"] == "attr: qhreg._version.__version__"
    literal = re.compile(r"__version__\s*=\s*[\"']")
    places = [p for p in PACKAGE.rglob("*.py") if literal.search(p.read_text(encoding="utf-8"))]
    assert [place.name for place in places] == ["_version.py"]
    try:
        installed = importlib.metadata.version("qhreg")
    except importlib.metadata.PackageNotFoundError:
        return
    assert installed == qhreg.__version__


def test_typing_information_is_shipped(setup_cfg):
    assert (PACKAGE / "py.typed").exists()
    assert "py.typed" in setup_cfg["options.package_data"]["qhreg"]
    folders = [path.parent for path in PACKAGE.rglob("*.py")]
    assert all((folder / "__init__.py").exists() for folder in folders)


# --- files -----------------------------------------------------------------------------------------


def text_files():
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(p.startswith(".") and p not in {".ci", ".gitignore"} for p in parts)
        if hidden or SKIPPED_FOLDERS.intersection(parts) or not path.is_file():
            continue
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_place_on_one_machine():
    folders = "|".join(["work", "opt", "root", "home/[a-z]+", "Users/[A-Za-z]+", "tmp"])
    pattern = re.compile(rf"(?<![\w.:/)}}\]])/(?:{folders})/[\w.]")
    assert pattern.search("see " + "/".join(["", "opt", "x"]))
    found = {
        (str(path.relative_to(ROOT)), match.group())
        for path, text in text_files()
        for match in pattern.finditer(text)
    }
    assert found == set()


# --- command line ----------------------------------------------------------------------------------


def test_the_demo_fits_engel_by_formula_and_shows_the_certificate(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "qhreg", "demo"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "foodexp" in answer.stdout
    assert "proved for every tau in (0, 1)" in answer.stdout


def test_the_command_line_tells_its_version_and_rejects_what_it_does_not_know():
    assert run_python("-m", "qhreg", "--version").stdout.strip() == f"qhreg {qhreg.__version__}"
    unknown = run_python("-m", "qhreg", "dmeo")
    assert unknown.returncode == 2
    assert "dmeo" in unknown.stderr
    assert "Traceback" not in unknown.stderr
    nothing = run_python("-m", "qhreg")
    assert nothing.returncode == 2
    assert "demo" in nothing.stderr
