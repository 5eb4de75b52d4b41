"""What never reaches the learner: private passages, private turns and sessions, and turns that can teach nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ace.integrations import JobQueue
from ace_claude_code import TranscriptError, transcript_to_trace, transcript_to_turn_traces
from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.learner import work_off
from ace_claude_code.sessions.settings import SessionSettings, write_settings
from tests.claude_code.conftest import Ace
from tests.claude_code.samples import assistant, user
from tests.claude_code.stored_world import store, turn
from tests.claude_code.test_spend import lessons
from tests.support.scripted_server import ScriptedServer

SECRET = "the merger with Initech"


@pytest.fixture(autouse=True)
def key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def talk(*said: str) -> list[dict[str, Any]]:
    """Return a session of prompts and answers in turns."""
    records: list[dict[str, Any]] = []
    for number, text in enumerate(said):
        parent = f"m{number - 1}" if number else None
        records.append((assistant if number % 2 else user)(text, f"m{number}", parent))
    return records


def learned(home: Path, ace: Ace, **sessions: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Learn from sessions, and return the report and everything that the model was sent."""
    paths = [str(store(home / "p", name, *records)) for name, records in sessions.items()]
    with ScriptedServer(lessons) as server:
        report = ace("learn", *paths, "--model", "openai/x", "--api-base", server.api_base, "--json")
        return report, json.dumps([request.body for request in server.requests])


def test_a_private_passage_is_never_sent(home: Path, ace: Ace) -> None:
    said = (f"Plan <private>{SECRET}</private> for May.", "Planned.", f"Now <private>{SECRET}", "Done.")
    report, sent = learned(home, ace, one=talk(*said))
    assert report["turns_learned"] == 2
    assert "Plan [private] for May." in sent
    assert SECRET not in sent and SECRET not in json.dumps(report)
    books = b"".join(path.read_bytes() for path in (home / ".claude" / "ace").rglob("*") if path.is_file())
    assert SECRET.encode() not in books


def test_private_passages_are_removed_from_results_and_parsed_records() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": f"a <PRIVATE>\n{SECRET}\n</PRIVATE> b"}
    records = [
        *talk("Read it.", "I read."),
        {"type": "user", "uuid": "r", "parentUuid": "m1", "message": {"content": [result]}},
    ]
    trace = transcript_to_trace(records)
    assert "a [private] b" in str(trace["reasoning"])
    assert SECRET not in json.dumps(trace)
    assert records[-1]["message"]["content"][0] is result and SECRET in result["content"]


def test_a_private_prompt_takes_its_whole_turn_away() -> None:
    said = (
        "Fix it.",
        "Fixed.",
        f"<private>Tell me about {SECRET}</private>",
        f"It is {SECRET}.",
        "And test it.",
        "OK.",
    )
    turns = transcript_to_turn_traces(talk(*said))
    assert [trace["question"] for trace in turns] == ["Fix it.", "And test it."]
    assert SECRET not in json.dumps(turns) + json.dumps(transcript_to_trace(talk(*said)))


def test_a_session_is_private_if_the_user_says_so_in_it(home: Path, ace: Ace) -> None:
    said = talk("Fix it.", "Fixed.", "<private-session> What about the merger?", "It is on.")
    report, sent = learned(home, ace, one=said, two=talk("Do the job.", "Done."))
    assert (report["private_sessions"], report["turns_learned"]) == (1, 1)
    assert "merger" not in sent and "Fix it." not in sent
    with pytest.raises(TranscriptError, match="private"):
        transcript_to_trace(said)


def test_a_model_that_names_the_mark_makes_no_session_private() -> None:
    [trace] = transcript_to_turn_traces(talk("How do I keep a session private?", "Type <private-session>."))
    assert trace["answer"] == "Type <private-session>."


def test_a_session_that_is_started_as_private_is_never_learned_from(home: Path, ace: Ace) -> None:
    state = state_folder()
    write_settings(state, SessionSettings(model="openai/x", api_base="http://127.0.0.1:9/v1"))
    path = store(home / "p", "one", *turn("one"))
    said = json.dumps({"session_id": "one", "transcript_path": str(path), "cwd": str(path.parent)})
    for event, environ in (("start", {"ACE_PRIVATE": "1"}), ("end", {})):
        command = [sys.executable, "-m", "ace_claude_code.sessions.hook", event]
        subprocess.run(command, input=said, encoding="utf-8", check=True, env={**os.environ, **environ})
    assert JobQueue(state).waiting() == []
    report, sent = learned(home, ace, one=turn("one"))
    assert (report["private_sessions"], sent) == (1, "[]")
    JobQueue(state).add({"transcript": str(path)})
    work_off(state)
    assert JobQueue(state).waiting() == []


@pytest.mark.parametrize("said", ["Thanks!", "ok", "Hi", "Yes, please.", "Perfect, thank you so much", "👍"])
def test_a_trivial_turn_costs_no_call(home: Path, ace: Ace, said: str) -> None:
    report, sent = learned(home, ace, one=talk("Do the job.", "Done.", said, "You're welcome."))
    assert (report["turns_learned"], report["turns_trivial"]) == (1, 1)
    assert sent.count("You're welcome.") == 0


@pytest.mark.parametrize("said", ["No, not OK.", "Thanks, but use tabs.", "Why?", "No!"])
def test_a_short_turn_that_says_something_is_learned(home: Path, ace: Ace, said: str) -> None:
    report, _ = learned(home, ace, one=talk("Do the job.", "Done.", said, "Right."))
    assert (report["turns_learned"], report["turns_trivial"]) == (2, 0)


def test_a_trivial_turn_that_failed_is_learned(home: Path, ace: Ace) -> None:
    said = talk("Do the job.", "Done.", "ok", "API Error: 500 the server is ill")
    report, _ = learned(home, ace, one=[*said[:-1], {**said[-1], "isApiErrorMessage": True}])
    assert (report["turns_learned"], report["turns_trivial"]) == (2, 0)
