"""Trajectories in the Agent Trajectory Interchange Format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.logs.log_files import run_of, steps_of, written


def test_steps_with_several_calls_and_a_sub_agent(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "system", "message": "You fix code."},
        {"step_id": 2, "source": "user", "message": "Fix it."},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}},
                {"tool_call_id": "b", "function_name": "bash", "arguments": {"command": "cat x"}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "b", "content": "Error: no x"},
                    {"source_call_id": "a", "content": [{"type": "text", "text": "y"}]},
                ]
            },
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "I ask for help.",
            "observation": {"results": [{"subagent_trajectory_ref": [{"session_id": "sub", "trajectory_path": "t"}]}]},
        },
        {"step_id": 5, "source": "agent", "message": "Fixed."},
    ]
    trajectory = {
        "schema_version": "ATIF-v1.4",
        "session_id": "s1",
        "agent": {"name": "t", "model_name": "m"},
        "steps": steps,
        "final_metrics": {"total_prompt_tokens": 9, "total_completion_tokens": 3, "total_cost_usd": 0.5},
    }

    run = run_of(written(tmp_path / "trajectory.json", trajectory))

    assert steps_of(run) == [
        "harness: You fix code.",
        "person: Fix it.",
        'bash {"command": "ls"}',
        'bash {"command": "cat x"}',
        "bash failed: Error: no x",
        "bash returned: y",
        "agent: I ask for help.",
        "harness: [trajectory of a sub-agent: sub]",
        "agent: Fixed.",
    ]
    assert (run.task, run.answer, run.success, run.cost, run.tokens.input) == ("Fix it.", "Fixed.", None, 0.5, 9)
