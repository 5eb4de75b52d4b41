"""Sessions of OpenHands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def action(number: int, name: str, source: str = "agent", **args: Any) -> dict[str, Any]:
    return {"id": number, "source": source, "action": name, "message": "canned", "args": args}


def observed(number: int, cause: int, kind: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"id": number, "source": "agent", "cause": cause, "observation": kind, "content": content, **fields}


EVENTS = [
    {"id": 0, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
    action(1, "system", content="You are OpenHands."),
    action(2, "message", "user", content="Fix the price."),
    action(3, "recall", "user", query="Fix"),
    action(4, "think", thought="It may be simple."),
    observed(5, 4, "think", "Your thought has been logged."),
    action(6, "run", command="pytest", thought="Run it.", is_input=False, blocking=False),
    action(7, "read", path="x"),
    observed(8, 7, "error", "no x"),
    observed(9, 6, "run", "1 failed", extras={"metadata": {"exit_code": 1}}),
    action(10, "run", command="sleep 9"),
    observed(11, 10, "run", "still running", extras={"metadata": {"exit_code": -1}}),
    action(12, "message", "user", content="Be quick."),
    action(13, "finish", final_thought="", outputs={"content": "Price is 7."}, thought=""),
]
STEPS = [
    "person: Fix the price.",
    "thought: It may be simple.",
    "thought: Run it.",
    'run {"command": "pytest"}',
    'read {"path": "x"}',
    "read failed: no x",
    "run failed: 1 failed",
    'run {"command": "sleep 9"}',
    "run returned: still running",
    "person: Be quick.",
    'agent: {"content": "Price is 7."}',
]


def shown(run: Any) -> list[str]:
    return [text.replace(', "is_input": false, "blocking": false', "") for text in steps_of(run)]


def test_a_session_in_a_file(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "trajectory.json", EVENTS))

    assert shown(run) == STEPS
    assert (run.task, run.answer, run.success) == ("Fix the price.", '{"content": "Price is 7."}', None)


def test_a_session_in_a_folder(tmp_path: Path) -> None:
    for event in reversed(EVENTS):
        written(tmp_path / "c1" / "events" / f"{event['id']}.json", event)
    written(tmp_path / "c1" / "metadata.json", {"conversation_id": "c1"})
    (tmp_path / "c1" / "conversation_stats.pkl").write_bytes(b"\x80\x04")

    for path in (tmp_path, tmp_path / "c1", tmp_path / "c1" / "events"):
        run = run_of(path)
        assert (shown(run), run.id) == (STEPS, "c1")


@pytest.mark.parametrize(
    ("report", "success"),
    [
        ({"resolved": True}, True),
        ({"resolved": False}, False),
        ({"resolved": False, "test_timeout": True}, None),
        ({}, None),
    ],
)
def test_an_instance_of_a_benchmark(tmp_path: Path, report: dict[str, bool], success: bool | None) -> None:
    pairs = [[event, None] for event in EVENTS[:6]] + [EVENTS[6:8], EVENTS[8:10], EVENTS[10:12], EVENTS[12:]]
    instance = {
        "instance_id": "shop__1",
        "instruction": "<uploaded>Fix the price.</uploaded>",
        "history": pairs,
        "test_result": {"git_patch": "diff", "report": report},
        "metrics": {"accumulated_cost": 0.3},
    }

    run = run_of(written(tmp_path / "output.jsonl", instance))

    assert (run.id, run.task, run.success, run.cost) == ("shop__1", "Fix the price.", success, 0.3)
    assert shown(run) == STEPS


def test_two_instances(tmp_path: Path) -> None:
    instances = [{"instance_id": name, "test_result": {}, "history": EVENTS} for name in "ab"]

    assert [run.id for run in runs_of(written(tmp_path / "output.jsonl", *instances))] == ["a", "b"]


def test_a_session_that_was_stopped(tmp_path: Path) -> None:
    stopped = {
        "id": 20,
        "source": "environment",
        "observation": "agent_state_changed",
        "content": "",
        "extras": {"agent_state": "stopped"},
    }

    assert run_of(written(tmp_path / "t.json", [*EVENTS[:7], stopped])).is_interrupted


def test_events_of_the_sdk(tmp_path: Path) -> None:
    text = [{"type": "text", "text": "Fix the price."}]
    call = {"source": "agent", "tool_name": "terminal", "kind": "ActionEvent"}
    events = [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"text": "x"}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": text}},
        {
            **call,
            "tool_call_id": "a",
            "thought": [{"text": "Run it."}],
            "action": {"kind": "TerminalAction", "command": "x"},
        },
        {
            "kind": "ObservationEvent",
            "source": "environment",
            "tool_call_id": "a",
            "action_id": "1",
            "observation": {"kind": "TerminalObservation", "content": [{"text": "not found"}], "exit_code": 127},
        },
        {**call, "tool_call_id": "b", "action": {"kind": "TerminalAction", "command": "rm x"}},
        {"kind": "UserRejectObservation", "source": "environment", "tool_call_id": "b", "rejection_reason": "Do not."},
        {**call, "tool_name": "finish", "tool_call_id": "d", "action": {"kind": "FinishAction", "message": "Done."}},
        {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "d", "observation": {"content": "Done."}},
    ]

    run = run_of(written(tmp_path / "events.json", events))

    assert steps_of(run) == [
        "person: Fix the price.",
        "thought: Run it.",
        'terminal {"command": "x"}',
        "terminal failed: not found",
        'terminal {"command": "rm x"}',
        "terminal failed: Do not.",
        "agent: Done.",
    ]
    assert run.answer == "Done."
