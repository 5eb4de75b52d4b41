"""Trajectories of SWE-agent and mini-SWE-agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import run_of, steps_of, written


def trajectory(**info: Any) -> dict[str, Any]:
    return {
        "environment": "e",
        "trajectory": [
            {"action": "cat x\n", "observation": "Error: no x", "thought": "I look.", "response": "..."},
            {"action": "", "observation": "Use one command.", "thought": "", "response": "no command"},
            {"action": "submit", "observation": "diff", "thought": "Done."},
        ],
        "history": [
            {"role": "system", "content": "You fix."},
            {"role": "user", "content": "An example issue.", "is_demo": True},
            {"role": "user", "content": "Another example.", "message_type": "demonstration"},
            {"role": "user", "content": [{"type": "text", "text": "Fix the price."}], "message_type": "observation"},
            {"role": "user", "content": "Error: no x"},
        ],
        "info": info,
    }


def test_examples_are_not_the_task(tmp_path: Path) -> None:
    path = written(tmp_path / "shop__1.json", trajectory(exit_status="submitted", submission="the patch"))

    run = run_of(path.rename(tmp_path / "shop__1.traj"))

    assert steps_of(run) == [
        "person: Fix the price.",
        "thought: I look.",
        "bash cat x",
        "bash failed: Error: no x",
        "thought: no command",
        "harness: Use one command.",
        "thought: Done.",
        "bash submit",
        "bash returned: diff",
    ]
    assert (run.id, run.task, run.answer, run.success) == ("shop__1", "Fix the price.", "the patch", None)


@pytest.mark.parametrize(
    ("status", "is_interrupted", "reason"),
    [
        ("submitted", False, ""),
        ("submitted (exit_cost)", False, "exit status: submitted (exit_cost)"),
        ("exit_context", True, "exit status: exit_context"),
        (None, False, ""),
    ],
)
def test_submitted_is_not_solved(tmp_path: Path, status: str | None, is_interrupted: bool, reason: str) -> None:
    run = run_of(written(tmp_path / "t.json", trajectory(exit_status=status, model_stats={"instance_cost": 0.2})))

    assert (run.success, run.is_interrupted, run.reason, run.cost) == (None, is_interrupted, reason, 0.2)


MINI = [
    {"role": "system", "content": "You fix."},
    {"role": "user", "content": "Fix the price."},
    {"role": "assistant", "content": "THOUGHT: look\n\n```bash\ncat x\n```"},
    {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno x</output>"},
    {"role": "assistant", "content": "I am not sure."},
    {"role": "user", "content": "Please always provide EXACTLY ONE action."},
    {"role": "assistant", "content": "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
    {"role": "user", "content": "the patch", "extra": {"exit_status": "Submitted", "submission": "the patch"}},
]


@pytest.mark.parametrize(
    "document",
    [MINI, {"info": {"exit_status": "Submitted"}, "messages": MINI, "trajectory_format": "mini-swe-agent-1"}],
)
def test_messages_of_the_role_user_are_outputs(tmp_path: Path, document: Any) -> None:
    run = run_of(written(tmp_path / "shop__1.traj.json", document))

    assert [text.split("\n")[0] for text in steps_of(run)] == [
        "harness: You fix.",
        "person: Fix the price.",
        "thought: look",
        "bash cat x",
        "bash failed: <returncode>1</returncode>",
        "agent: I am not sure.",
        "harness: Please always provide EXACTLY ONE action.",
        "bash echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        "bash returned: the patch",
    ]
    assert (run.answer, run.is_interrupted) == ("the patch", False)


def test_the_second_version(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [call],
            "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}]},
        },
        {"role": "tool", "tool_call_id": "c1", "content": "boom", "extra": {"returncode": 2}},
        {"role": "exit", "content": "", "extra": {"exit_status": "TimeExceeded", "submission": ""}},
    ]
    document = {"info": {}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}

    run = run_of(written(tmp_path / "t.traj.json", document))

    assert steps_of(run) == ["person: Fix it.", "thought: I look.", "bash ls", "bash failed: boom"]
    assert (run.is_interrupted, run.reason) == (True, "exit status: TimeExceeded")
