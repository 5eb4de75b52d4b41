"""Steps of smolagents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.logs.log_files import run_of, steps_of, written

TASK = {"task": "Sum 1 to 3", "task_images": None}


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"step_number": number, "tool_calls": None, "error": None, "observations": None, **fields}


def test_an_agent_that_writes_code(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "python_interpreter", "arguments": "sum([1, 2, 3)"}}
    error = {"type": "AgentExecutionError", "message": "invalid syntax"}
    last = step(2, model_output="Now right.", code_action="final_answer(6)", action_output=6, is_final_answer=True)
    steps = [
        {"system_prompt": "You write code."},
        TASK,
        {"plan": "1. add", "timing": {}},
        step(
            1,
            model_output="I add.",
            tool_calls=[call],
            error=error,
            token_usage={"input_tokens": 5, "output_tokens": 2},
        ),
        {**last, "observations": "6"},
    ]

    run = run_of(written(tmp_path / "steps.json", steps))

    assert steps_of(run) == [
        "harness: You write code.",
        "person: Sum 1 to 3",
        "thought: 1. add",
        "thought: I add.",
        "python_interpreter sum([1, 2, 3)",
        "python_interpreter failed: invalid syntax",
        "thought: Now right.",
        "python_interpreter final_answer(6)",
        "python_interpreter returned: 6",
        "agent: 6",
    ]
    assert (run.task, run.answer, run.tokens.input) == ("Sum 1 to 3", "6", 5)


def test_an_agent_that_reached_its_limit(tmp_path: Path) -> None:
    limit = step(2, error={"type": "AgentMaxStepsError", "message": "Reached max steps."}, action_output="perhaps 6")

    run = run_of(written(tmp_path / "steps.json", [TASK, step(1, model_output="I add."), limit]))

    assert run.is_interrupted
    assert steps_of(run)[-1] == "harness: Reached max steps."


def test_steps_inside_of_a_result(tmp_path: Path) -> None:
    done = step(1, model_output="6", action_output="6", is_final_answer=True)

    run = run_of(written(tmp_path / "result.json", {"state": "success", "steps": [TASK, done]}))

    assert (run.task, run.answer) == ("Sum 1 to 3", "6")
