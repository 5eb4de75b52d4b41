"""The commands of the first tutorial work as they stand, one after the other.

The page shows what the model on this machine said. Here a scripted model stands in: it learns from what the traces say,
and knows a rule when it answers if and only if a skill in the prompt tells it.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console_commands import commands_in
from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT

PAGE = ROOT / "docs" / "tutorials" / "first-learning-run.md"
RULE = "Divide amounts of the table orders by 100 to get euros."


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    if request.role == "reflector":
        learned = [{"learning": RULE}] if "Amounts in our table orders are in cents" in request.text else []
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        return {**dict.fromkeys(texts, "Looked at the feedback."), "extracted_learnings": learned}
    if request.role == "skill_manager":
        new = f'"learning": "{RULE}"' in request.text and f"] {RULE}" not in request.text
        add = [{"type": "ADD", "section": "money", "content": RULE}] if new else []
        return {"reasoning": "What is new goes in.", "operations": add}
    if request.role == "agent":
        cents = 8450 if "amount 8450" in request.text.rpartition("# Task")[2] else 125000
        return {"reasoning": "I look.", "final_answer": f"{cents / 100 if RULE in request.text else cents:.2f} euros"}
    return "ready"


@pytest.fixture
def done(here: Run, tmp_path: Path) -> Iterator[list[tuple[list[str], Done]]]:
    shutil.copytree(ROOT / "examples" / "traces", tmp_path / "examples" / "traces")
    with ScriptedServer(script) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
        commands = [words[1:] for words in commands_in(PAGE.read_text(encoding="utf-8")) if words[0] == "ace"]
        yield [(words, run(here, words, environ)) for words in commands]


def run(here: Run, words: list[str], environ: Mapping[str, str]) -> Done:
    if words[0] == "models":  # fetches a gigabyte; its own tests are those of `ace models`
        return here("models", "list", environ=environ)
    if words[:2] == ["skillbook", "rollback"]:  # asks, and here is nobody to answer
        words = [*words, "--yes"]
    return here(*words, environ=environ)


def test_every_command_succeeds(done: list[tuple[list[str], Done]]) -> None:
    assert len(done) >= 8
    assert [(words, ran.code, ran.err) for words, ran in done if ran.code != 0] == []


def test_what_was_learned_is_shown_with_its_trace(done: list[tuple[list[str], Done]]) -> None:
    [shown] = [ran.out for words, ran in done if words == ["skillbook", "show"]]
    [changes] = [ran.out for words, ran in done if words[:2] == ["skillbook", "blame"]]
    assert RULE in shown
    assert "revenue.json" in changes


def test_the_answer_is_right_only_with_the_skills(done: list[tuple[list[str], Done]]) -> None:
    answers = [ran.out.strip() for words, ran in done if words[0] == "ask"]
    assert answers == ["8450.00 euros", "84.50 euros"]


def test_the_page_needs_no_other_commands() -> None:
    commands = commands_in(PAGE.read_text(encoding="utf-8"))
    assert {words[0] for words in commands} == {"make", ".", "ace"}


def test_commands_are_read_as_a_shell_reads_them() -> None:
    text = '```console\n$ ace ask "How\'s that?"   # asks\nSo.\n$ make test\n```\n```text\n$ no\n```\n'
    assert commands_in(text) == [["ace", "ask", "How's that?"], ["make", "test"]]
