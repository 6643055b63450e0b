"""The tasks of a user: the page shows them, and their verdicts, as they are."""

import importlib
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("lightgbm")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.tasks")


def shown():
    """The verdicts on the page, by call."""
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| "))
    return {row[1].strip("`"): row[2] for row in rows if row[1].startswith("`")}


def test_the_page_shows_the_forty_tasks(tasks):
    assert len(tasks.TASKS) == 40
    assert list(shown()) == [task.call for task in tasks.TASKS]


@pytest.mark.slow
def test_the_verdicts_are_those_of_the_page(tasks):
    pytest.importorskip("matplotlib")
    verdicts = tasks.table_of_verdicts()
    assert (
        dict(zip(verdicts["what is typed"].str.strip("`"), verdicts["verdict"], strict=True))
        == shown()
    )
