"""Sessions of Copilot CLI and chats of VS Code are read as they are after all changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, read_runs
from tests.core.logs.log_files import DATA, run_of, steps_of, written


def event(kind: str, identity: str = "", **data: Any) -> dict[str, Any]:
    return {"type": kind, "id": identity, "parentId": None, "timestamp": "2026-01-05T10:00:00Z", "data": data}


def test_a_session_of_copilot() -> None:
    run = run_of(DATA / "copilot.jsonl")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        'get_price {"sku": "KET-2"}',
        "get_price failed: no such sku KET-2",
        "agent: I do not know its price.",
        "harness: Use the new catalogue.",
    ]
    assert (run.id, run.cwd, run.tokens.input, run.tokens.output) == ("s", "/shop", 30, 5)


def test_a_session_of_a_real_copilot_that_was_resumed() -> None:
    run = run_of(DATA / "copilot-events.jsonl")

    assert [step.content for step in run.steps if step.speaker == "person"] == ["Make the tests green", "No, fix them"]
    assert [(step.name, step.is_error) for step in run.steps if step.kind == "result"] == [("bash", True)] * 2
    assert run.answer == "The tests fail with exit code 3."
    assert (run.tokens.input, run.tokens.output, run.model, run.cwd) == (400, 40, "m", "/home/dev/shop")


def test_the_tokens_of_a_session_that_was_not_closed(tmp_path: Path) -> None:
    usage = [event("session.usage_record", usage={"inputTokens": 5, "outputTokens": 1})] * 2
    begin = [event("session.start", sessionId="s"), event("user.message", content="A")]

    assert run_of(written(tmp_path / "events.jsonl", *begin, *usage)).tokens.input == 10


def test_a_rewound_session_and_an_aborted_one(tmp_path: Path) -> None:
    begin = [event("session.start", sessionId="s"), event("user.message", "u1", content="A")]
    undone = [event("user.message", "u2", content="B"), event("tool.execution_start", toolCallId="t", toolName="ls")]
    rewind = event("session.snapshot_rewind", upToEventId="u2")
    answered = [event("assistant.message", content="c"), event("abort", reason="user")]

    run = run_of(written(tmp_path / "events.jsonl", *begin, *undone, rewind, *answered))

    assert steps_of(run) == ["person: A", "agent: c"]
    assert run.is_interrupted


def test_a_call_that_only_an_event_starts(tmp_path: Path) -> None:
    path = written(
        tmp_path / "events.jsonl",
        event("session.start", sessionId="s"),
        event("user.message", content="A"),
        event("tool.execution_start", toolCallId="t", toolName="ls", arguments={"path": "."}),
        event("tool.execution_complete", toolCallId="t", success=True, result={"content": "a.py"}),
    )

    assert steps_of(run_of(path)) == ["person: A", 'ls {"path": "."}', "ls returned: a.py"]


def request(text: str, *response: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"message": {"text": text}, "response": [*response], "modelId": "m", "timestamp": 1767607200000, **fields}


def test_a_chat_of_vscode() -> None:
    run = run_of(DATA / "vscode_chat.json")

    assert steps_of(run) == [
        "person: How much is the blue kettle?",
        "thought: Ask the shop.",
        "agent: I ask the shop.",
        'get_price {"sku": "KET-2"}',
        "get_price failed: no such sku KET-2",
        "agent: It is 7.",
    ]
    assert (run.success, run.outcome_from, run.reason) == (False, "vote", "incorrectCode")


@pytest.mark.parametrize(("vote", "success"), [(1, True), (0, False), (None, None)])
def test_votes(tmp_path: Path, vote: int | None, success: bool | None) -> None:
    session = {"version": 3, "sessionId": "v", "requests": [request("2+2?", {"value": "4"}, vote=vote)]}

    assert run_of(written(tmp_path / "chat.json", session)).success is success


def test_a_log_of_operations_is_replayed(tmp_path: Path) -> None:
    path = written(
        tmp_path / "chat.jsonl",
        {"kind": 0, "v": {"version": 3, "sessionId": "v", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [request("A", {"value": "draft"}), request("gone")]},
        {"kind": 2, "k": ["requests"], "i": 1, "v": [request("B")]},
        {"kind": 2, "k": ["requests", 0, "response"], "i": 0, "v": [{"value": "a"}, {"value": "!"}]},
        {"kind": 1, "k": ["requests", 1, "response"], "v": [{"value": "b"}]},
        {"kind": 1, "k": ["requests", 1, "vote"], "v": 0},
        {"kind": 3, "k": ["requests", 1, "vote"]},
    )

    run = run_of(path)

    assert steps_of(run) == ["person: A", "agent: a!", "person: B", "agent: b"]
    assert (run.id, run.success) == ("v", None)


def test_an_operation_that_does_not_fit_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    begin = {"kind": 0, "v": {"version": 3, "sessionId": "v", "requests": [request("A", {"value": "a"})]}}
    path = written(tmp_path / "chat.jsonl", begin, {"kind": 1, "k": ["requests", 7, "vote"], "v": 1})

    problem, run = read_runs(path)

    assert isinstance(problem, Problem)
    assert problem.line == 2
    assert not isinstance(run, Problem)
    assert run.answer == "a"
