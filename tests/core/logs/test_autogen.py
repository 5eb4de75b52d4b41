"""Messages of AutoGen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.logs.log_files import run_of, steps_of, written


def message(kind: str, content: Any, source: str = "helper", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "content": content, "source": source, **fields}


CALL = message("ToolCallRequestEvent", [{"id": "c1", "name": "read", "arguments": '{"path": "cfg"}'}])


def test_a_team(tmp_path: Path) -> None:
    messages = [
        message("TextMessage", "Which port?", "user"),
        message("ThoughtEvent", "Read it."),
        CALL,
        message("ToolCallExecutionEvent", [{"call_id": "c1", "name": "read", "content": "no file", "is_error": True}]),
        message("ToolCallSummaryMessage", "no file"),
        message("HandoffMessage", "Please check.", "planner"),
        message("CodeExecutionEvent", None, result={"exit_code": 1, "output": "boom"}),
        message("TextMessage", "There is no port. TERMINATE"),
    ]

    run = run_of(written(tmp_path / "result.json", {"messages": messages, "stop_reason": "Text 'TERMINATE' mentioned"}))

    assert steps_of(run) == [
        "person: Which port?",
        "thought: Read it.",
        'read {"path": "cfg"}',
        "read failed: no file",
        "agent: Please check.",
        " failed: boom",
        "agent: There is no port.",
    ]
    assert run.answer == "There is no port."
    assert "TERMINATE" in run.reason


def test_the_summary_of_results_is_the_answer_if_nothing_follows(tmp_path: Path) -> None:
    result = message("ToolCallExecutionEvent", [{"call_id": "c1", "content": "80", "is_error": False}])
    messages = [message("TextMessage", "Port?", "user"), CALL, result, message("ToolCallSummaryMessage", "80")]

    assert run_of(written(tmp_path / "m.json", messages)).answer == "80"


def test_an_older_history(tmp_path: Path) -> None:
    chat = {
        "chat_id": 7,
        "human_input": ["No, in Python."],
        "chat_history": [
            {"role": "assistant", "name": "user_proxy", "content": "Print 1."},
            {"role": "user", "name": "coder", "content": "Do this:\n```sh\nprin 1\n```"},
            {"role": "assistant", "name": "user_proxy", "content": "exitcode: 127 (execution failed)\nprin: not found"},
            {"role": "user", "name": "coder", "content": "It cannot be done."},
            {"role": "assistant", "name": "user_proxy", "content": "No, in Python."},
            {"role": "user", "name": "coder", "content": "print(1)\nTERMINATE"},
        ],
    }

    run = run_of(written(tmp_path / "chat.json", chat))

    assert [(step.kind, step.speaker) for step in run.steps] == [
        ("message", "person"),
        ("message", "agent"),
        ("call", "agent"),
        ("result", "tool"),
        ("message", "agent"),
        ("message", "person"),
        ("message", "agent"),
    ]
    assert run.steps[3].is_error
    assert (run.task, run.answer) == ("Print 1.", "print(1)")


def test_who_is_asked_for_input_is_a_person(tmp_path: Path) -> None:
    messages = [
        message("TextMessage", "Port?", "user"),
        message("TextMessage", "80"),
        message("UserInputRequestedEvent", "", "boss", request_id="r"),
        message("TextMessage", "No, 81.", "boss"),
    ]

    run = run_of(written(tmp_path / "m.json", messages))

    assert steps_of(run) == ["person: Port?", "agent: 80", "person: No, 81."]
    assert run.answer == "80"
