"""Of a large skillbook, a session is shown the best skills at its start, and those that fit at each prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace_claude_code import transcript_to_turn_traces
from ace_claude_code.sessions.home import project_key, skillbook_path, state_folder
from ace_claude_code.sessions.settings import SessionSettings, write_settings
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.test_sessions import session, wait_for_the_learner
from tests.claude_code.test_spend import lessons
from tests.support.scripted_anthropic_server import Text
from tests.support.scripted_server import ScriptedServer

FITTING = "Tides are written with an h, such as 14h30."


@pytest.fixture
def book(project: Path) -> Path:
    """A skillbook of which only a part fits into the first message."""
    path = skillbook_path(state_folder(), project_key(project))
    path.parent.mkdir(parents=True)
    with Skillbook.open(path) as book, book.deferred_commits():
        for number in range(200):
            book.tag_skill(book.add_skill("habits", f"Habit number {number} of the house.").id, "helpful")
        book.add_skill("tides", FITTING)
    write_settings(state_folder(), SessionSettings(model="openai/x", budget_tokens=500))
    return path


def shown(event: str, project: Path, **more: str) -> str:
    """Return what a hook gives to the model."""
    transcript = project / "none.jsonl"
    said = {"session_id": "s", "transcript_path": str(transcript), "cwd": str(project), **more}
    command = [sys.executable, "-m", "ace_claude_code.sessions.hook", event]
    done = subprocess.run(command, input=json.dumps(said), encoding="utf-8", check=True, stdout=subprocess.PIPE)
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def test_the_skills_that_fit_a_prompt_are_shown_once(book: Path, project: Path) -> None:
    first = shown("start", project)
    assert "Habit number" in first and FITTING not in first
    assert "[tides-00201]" in shown("prompt", project, prompt="When are the tides in Brest?")
    assert shown("prompt", project, prompt="And the tides in Calais?") == ""
    assert FITTING in shown("start", project, source="compact") + shown("prompt", project, prompt="And the tides?")


def test_nothing_is_added_to_a_prompt_that_no_skill_fits(book: Path, project: Path) -> None:
    shown("start", project)
    for prompt in ("Xylophone?", "", "/compact"):
        assert shown("prompt", project, prompt=prompt) == ""


def test_a_slash_command_is_a_prompt_and_our_own_is_not(book: Path, project: Path) -> None:
    shown("start", project)
    assert shown("prompt", project, prompt="/ace-learning:skills show the tides") == ""
    assert FITTING in shown("prompt", project, prompt="/report the tides in Brest")


def test_a_real_slash_command_is_shown_the_skills_that_fit_it(
    claude: str, home: Path, book: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    commands = project / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "report.md").write_text("Write a report about $ARGUMENTS.", encoding="utf-8")
    server = serving(lambda request: [Text("At 14h30, by [tides-00201].")])
    ace("install", "--claude", claude, "--budget-tokens", "500")
    session(claude, project, prompt="/report the tides in Brest")
    assert any(FITTING in request.text for request in server.requests)
    [transcript] = (home / ".claude" / "projects").glob("*/*.jsonl")
    [turn] = transcript_to_turn_traces(transcript)
    metadata = turn["metadata"]
    assert isinstance(metadata, dict)
    assert str(turn["question"]).startswith("/report the tides in Brest")
    assert "tides-00201" in metadata["shown_skill_ids"]


def test_few_skills_are_added_to_a_prompt(book: Path, project: Path) -> None:
    shown("start", project)
    assert shown("prompt", project, prompt="Which habit of the house?").count("- [") == 5


def test_a_skill_that_is_pinned_during_a_session_is_shown_with_the_next_prompt(book: Path, project: Path) -> None:
    shown("start", project)
    with Skillbook.open(book) as found:
        found.update_skill("tides-00201", pinned=True)
    assert shown("prompt", project, prompt="Which habit of the house?").splitlines()[1] == f"- [tides-00201] {FITTING}"
    assert shown("prompt", project, prompt="Xylophone?") == ""


def test_a_real_session_sees_and_records_them(
    claude: str, home: Path, book: Path, project: Path, serving: ServerFor, ace: Ace
) -> None:
    server = serving(lambda request: [Text("At 14h30, by [tides-00201].")])
    ace("install", "--claude", claude, "--budget-tokens", "500")
    session(claude, project, prompt="When are the tides in Brest?")
    assert any(FITTING in request.text for request in server.requests)
    [transcript] = (home / ".claude" / "projects").glob("*/*.jsonl")
    [turn] = transcript_to_turn_traces(transcript)
    metadata = turn["metadata"]
    assert isinstance(metadata, dict)
    assert "tides-00201" in metadata["shown_skill_ids"]
    assert turn["skill_ids"] == ["tides-00201"]


def test_the_status_tells_how_often_each_skill_was_shown_and_cited(
    claude: str, book: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(lambda request: [Text("At 14h30, by [tides-00201].")])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with ScriptedServer(lessons) as learner:
        model = ("--model", "openai/x", "--api-base", learner.api_base)
        ace("install", *model, "--budget-tokens", "500")
        session(claude, project, prompt="When are the tides in Brest?")
        session(claude, project, prompt="Xylophone?")
        wait_for_the_learner(ace, 2)
    [listed] = ace("status", "--json")["skillbooks"]
    use = {skill["id"]: (skill["shown"], skill["cited"]) for skill in listed["skills"]}
    assert use["tides-00201"] == (1, 2)
    assert use["habits-00001"] == (2, 0)
    assert use["habits-00200"] == (0, 0)
    assert "cited 2 times" in ace("show", "tides-00201", "--project", str(project))["out"]
