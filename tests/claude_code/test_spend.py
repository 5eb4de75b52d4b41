"""What learning costs is noted, shown by the status, and limited by a budget for the day."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ace.integrations import JobQueue
from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.learner import work_off
from tests.claude_code.conftest import Ace, files_in
from tests.claude_code.stored_world import key_of, store, turn
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

PRICED = "openai/gpt-4o-mini"


def lessons(request: ScriptedRequest) -> dict[str, object]:
    """Answer for both roles: each trace teaches one rule."""
    return {
        "reasoning": "r",
        "error_identification": "",
        "root_cause_analysis": "",
        "correct_approach": "",
        "key_insight": "Look twice.",
        "extracted_learnings": [{"learning": "Look twice."}],
        "skill_tags": [],
        "operations": [{"type": "ADD", "section": "habits", "content": "Look twice."}],
    }


@pytest.fixture(autouse=True)
def key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr("ace.runners.spend._now", lambda: datetime(2026, 1, 1, tzinfo=UTC))  # on one day


def test_the_status_shows_what_was_learned_where_it_is_and_what_it_cost(
    home: Path, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_UNPROVEN", "keep")
    path = store(home / "p", "one", *turn("one"))
    with ScriptedServer(lessons) as server:
        ace("install", "--model", PRICED, "--api-base", server.api_base)
        JobQueue(state_folder()).add({"transcript": str(path)})
        work_off(state_folder())
        calls = len(server.requests)
    status = ace("status", "--json")
    [book] = status["skillbooks"]
    assert book["project"] == key_of(home / "p")
    assert Path(book["path"]).is_file()
    assert [skill["content"] for skill in book["skills"]] == ["Look twice."]
    spent = status["spent_today"]
    assert spent["calls"] == calls > 0
    assert spent["cost_usd"] > 0 and spent["input_tokens"] > 0 and spent["unpriced_calls"] == 0
    assert status["spent_in_30_days"] == spent
    shown = ace("status")["out"]
    assert "[habits-00001] Look twice." in shown and book["path"] in shown
    assert f"{calls} calls" in shown and " of 1 USD" in shown


def test_the_budget_of_a_day_is_not_exceeded_and_the_rest_waits(home: Path, ace: Ace) -> None:
    names = ["one", "two", "three"]
    with ScriptedServer(lessons) as server:
        install = ("install", "--model", PRICED, "--api-base", server.api_base)
        ace(*install, "--budget", "0.00000001")
        for name in names:
            JobQueue(state_folder()).add({"transcript": str(store(home / "p", name, *turn(name)))})
        work_off(state_folder())
        spent = len(server.requests)
        work_off(state_folder())
        assert len(server.requests) == spent > 0
        waiting = JobQueue(state_folder()).waiting()
        assert [Path(job.field("transcript")).stem for job in waiting] == names
        assert [job.attempts for job in waiting] == [0, 0, 0]
        ace(*install, "--budget", "5")
        work_off(state_folder())
    assert JobQueue(state_folder()).waiting() == []
    assert sum(session["turns"] for session in ace("status", "--json")["sessions"]) == 3


def test_calls_without_a_known_price_are_counted(home: Path, ace: Ace) -> None:
    with ScriptedServer(lessons) as server:
        ace("install", "--model", "openai/scripted", "--api-base", server.api_base)
        JobQueue(state_folder()).add({"transcript": str(store(home / "p", "one", *turn("one")))})
        work_off(state_folder())
    spent = ace("status", "--json")["spent_today"]
    assert spent["unpriced_calls"] == spent["calls"] > 0
    assert "the price of" in ace("status")["out"]


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf"])
def test_a_budget_is_more_than_nothing(home: Path, ace: Ace, budget: str) -> None:
    assert (
        "--budget must be more than 0 US dollars"
        in ace("install", "--model", PRICED, "--budget", budget, code=2)["err"]
    )


def test_the_folder_that_claude_code_makes_for_the_plugin_goes_with_it(home: Path, ace: Ace) -> None:
    ace("install", "--model", PRICED)
    (home / ".claude" / "plugins" / "data" / "ace-learning-skills-dir").mkdir(parents=True)
    ace("uninstall")
    assert files_in(home) == {}
