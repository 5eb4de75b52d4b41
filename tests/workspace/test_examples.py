"""The programs in examples/ run, and print what they promise."""

import subprocess
import sys

import pytest

from tests.workspace.project import ROOT


def test_every_example_is_tested() -> None:
    assert sorted(path.name for path in (ROOT / "examples").glob("*.py")) == [
        "demo.py",
        "engine_demo.py",
        "house_conventions.py",
        "house_rules.py",
        "learn_from_claude_code.py",
        "learn_from_openclaw.py",
        "learn_with_any_server.py",
        "learn_with_browser_use.py",
        "learn_with_langchain.py",
        "learn_with_scripted_model.py",
        "measure_learning.py",
        "scripted_chat_model.py",
        "scripted_conventions.py",
        "scripted_model.py",
    ]


def test_the_readme_names_every_program() -> None:
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = [
        path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
    ]
    assert len(programs) == 9
    assert [name for name in programs if f"| `{name}` |" not in readme] == []


@pytest.fixture(scope="module")
def engine_demo() -> list[str]:
    command = [sys.executable, "-W", "error", "examples/engine_demo.py"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def test_the_engine_demo_draws_its_pipeline(engine_demo: list[str]) -> None:
    assert "flowchart LR" in engine_demo


def test_the_engine_demo_indexes_every_page_in_input_order_and_reports_the_dead_link(
    engine_demo: list[str],
) -> None:
    start = next(number for number, line in enumerate(engine_demo) if line.startswith("page "))
    rows = [line.split()[:2] for line in engine_demo[start + 1 : start + 10]]
    names = ["tides", "lighthouses", "bridges", "bees", "glaciers", "looms", "wells", "kites"]
    assert rows == [*([name, str(place)] for place, name in enumerate(names, 1)), ["volcanoes", "-"]]
    assert engine_demo[start + 9].endswith("FetchPage: the server answers 404 Not Found")


def test_the_engine_demo_searches_what_the_background_built(engine_demo: list[str]) -> None:
    assert "Pages with the word 'stone': bridges (1), glaciers (1), wells (1)" in engine_demo


def test_the_tour_of_the_demo_reads_imports_searches_and_compares_without_a_model() -> None:
    command = [sys.executable, "-m", "examples.demo", "tour"]
    printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "house_skills.json has 4 skills" in printed
    assert "at version 4" in printed
    searched = printed[printed.index("3. ") : printed.index("4. What changed")]
    assert "[branches-00001]" in searched and "[customers-00004]" not in searched
    assert "Ask where a ticket has no number." in printed[printed.index("4. What changed") :]
