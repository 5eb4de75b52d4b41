"""The programs in examples/ run, and print what they promise."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import command_environment
from tests.support.corrected_chats import judgements_in
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
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
        "one_night.py",
        "scripted_chat_model.py",
        "scripted_conventions.py",
        "scripted_model.py",
    ]


def test_the_readme_names_every_program() -> None:
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = [
        path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
    ]
    assert len(programs) == 10
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


RULES = {
    "push hook rejected it": "Name a branch t, the ticket number, and two to four words with hyphens.",
    "they never praise": "Begin a release note with Fixed, Added or Removed.",
    "in cents": "Divide amounts of table orders by 100 to get euros.",
    "within one working day": "Above 200 euros, write that a colleague will call within one working day.",
    "a number of six digits": "Pass an order to find_parcel as six digits.",
}
ANSWERS = {
    "Ticket 512": ("push hook rejected it", "t512-login-timeout"),
    "version 4.2": ("they never praise", "Fixed: the export of large tables."),
    "amount 125000": ("in cents", "1250.00 euros"),
    "order B-2231": ("within one working day", "A colleague will call within one working day."),
    "order C-1044": ("a number of six digits", "find_parcel(order='001044')"),
    "Ticket 77": ("push hook rejected it", "t77-invoice-date"),
    "version 4.3": ("they never praise", "Fixed: the search finds accents."),
    "amount 8450": ("in cents", "84.50 euros"),
    "order C-1108": ("within one working day", "A colleague will call within one working day."),
    "order C-1102": ("a number of six digits", "find_parcel(order='001102')"),
}


def corrected(request: ScriptedRequest) -> Mapping[str, Any] | str:
    """A strong model that learns each correction and repaired call, and answers rightly only with its rule."""
    if request.role == "reflector":
        found = [rule for said, rule in RULES.items() if said in request.text]
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        return {
            **dict.fromkeys(texts, "Looked for corrections."),
            "extracted_learnings": [{"learning": rule} for rule in found],
            "judgements": [judged for said in RULES for judged in judgements_in(request.text, said)],
        }
    if request.role == "skill_manager":
        new = [rule for rule in RULES.values() if f'"learning": "{rule}"' in request.text]
        return {"reasoning": "", "operations": [{"type": "ADD", "section": "house", "content": rule} for rule in new]}
    if request.role == "agent":
        task = request.text.rpartition("# Task")[2]
        for asked, (said, answer) in ANSWERS.items():
            if asked in task and RULES[said] in request.text:
                return {"reasoning": "", "final_answer": answer}
        return {"reasoning": "", "final_answer": "I do not know."}
    return "ready"


def test_the_demo_ends_with_new_questions_before_and_after_learning(tmp_path: Path) -> None:
    with ScriptedServer(corrected) as server:
        variables = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "ACE_UNPROVEN": "pending"}
        environ = command_environment(tmp_path, variables)
        done = subprocess.run(
            [sys.executable, "-m", "examples.demo"], cwd=ROOT, env=environ, check=True, capture_output=True, text=True
        )
    printed = done.stdout
    table = printed[printed.index("question  ") :]
    assert [cell.strip() for cell in table.splitlines()[0].split("|")] == ["question", "before", "after", "proven"]
    assert [line.rpartition("| ")[2] for line in table.splitlines() if line.endswith(("| yes", "| no"))] == ["yes"] * 5
    assert "84.50 euros (right)" in table and table.count("(wrong)") == 5
    assert "Right: 0 of 5 before, 5 of 5 after.\n" in printed
    assert [line.split()[1] for line in printed.splitlines()[-3:]] == ["inspect", "learn", "review"]
    assert "from revenue.json, proven" in printed


@pytest.mark.parametrize(
    "program",
    [
        "house_rules",
        "learn_from_claude_code",
        "learn_from_openclaw",
        "learn_with_langchain",
        "learn_with_scripted_model",
        "one_night",
    ],
)
def test_a_second_run_in_the_same_folder_succeeds(program: str, tmp_path: Path) -> None:
    environ = command_environment(tmp_path, {"PYTHONPATH": str(ROOT), "ACE_UNPROVEN": "pending"})
    for _ in range(2):
        command = [sys.executable, "-m", f"examples.{program}"]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
