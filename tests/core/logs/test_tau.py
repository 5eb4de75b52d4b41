"""Results of tau-bench and tau2-bench."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs
from tests.core.logs.log_files import run_of, runs_of, steps_of, written
from tests.requirement import missing

CALL = {"id": "c", "name": "policy", "arguments": {"sku": "K"}, "requestor": "assistant"}
MESSAGES: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hi! How can I help?"},
    {"role": "user", "content": "How long may I return a kettle?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "id": "c", "content": "no sku K", "error": True, "requestor": "assistant"},
    {"role": "user", "content": None, "tool_calls": [{**CALL, "name": "restart_phone", "requestor": "user"}]},
    {"role": "tool", "id": "c", "content": "Error: no phone", "error": True, "requestor": "user"},
    {"role": "assistant", "content": "30 days."},
    {"role": "user", "content": "Thanks. ###STOP###"},
]
TASKS = [{"id": "7", "evaluation_criteria": {"communicate_info": ["14"], "actions": [{"name": "policy"}]}}]


def simulation(reward: float | None = 0.0, ended: str = "user_stop", **info: Any) -> dict[str, Any]:
    reward_info = None if reward is None else {"reward": reward, **info}
    return {"id": "x", "task_id": "7", "termination_reason": ended, "reward_info": reward_info, "messages": MESSAGES}


def test_a_simulation(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "results.json", {"tasks": TASKS, "simulations": [simulation()]}))

    assert steps_of(run) == [
        "agent: Hi! How can I help?",
        "harness: How long may I return a kettle?",
        'policy {"sku": "K"}',
        "policy failed: no sku K",
        f"harness: [tool of the customer] {json.dumps(MESSAGES[4]['tool_calls'])}",
        "harness: [tool of the customer] Error: no phone",
        "agent: 30 days.",
        "harness: Thanks.",
    ]
    assert (run.task, run.answer) == ("How long may I return a kettle?", "30 days.")
    assert (run.success, run.score, run.truth) == (False, 0.0, "14")
    assert run.rest == {"expected_actions": [{"name": "policy"}]}


@pytest.mark.parametrize(
    ("reward", "ended", "success"),
    [
        *((1.0, "user_stop", True), (0.9999999, "agent_stop", True), (0.5, "user_stop", False)),
        *((None, "user_stop", None), (0.0, "max_steps", False), (0.0, "infrastructure_error", None)),
        *((0.0, "unexpected_error", None), (0.0, "user_error", None)),
    ],
)
def test_only_the_whole_reward_is_a_success(tmp_path: Path, reward: float | None, ended: str, success: bool) -> None:
    run = run_of(written(tmp_path / "results.json", {"tasks": TASKS, "simulations": [simulation(reward, ended)]}))

    assert run.success is success


def test_what_was_not_met_is_the_reason(tmp_path: Path) -> None:
    failed = simulation(
        communicate_checks=[{"info": "14", "met": False, "justification": "It said 30."}, {"info": "7", "met": True}],
        action_checks=[{"action": {"name": "refund"}, "action_match": False}],
        db_check={"db_match": False},
    )

    run = run_of(written(tmp_path / "results.json", {"tasks": TASKS, "simulations": [failed]}))

    assert run.reason.splitlines() == [
        "It said 30.",
        'This action is missing: {"name": "refund"}',
        "The database differs from the expected one.",
    ]


def test_a_folder_of_simulations(tmp_path: Path) -> None:
    written(
        tmp_path / "runs" / "results.json", {"tasks": TASKS, "info": {"agent_info": {"llm": "m"}}, "simulations": []}
    )
    for number in range(3):
        written(tmp_path / "runs" / "simulations" / f"{number}.json", {**simulation(1.0), "id": str(number)})

    runs = runs_of(tmp_path)

    assert [(run.id, run.truth, run.model, run.success) for run in runs] == [
        (str(n), "14", "m", True) for n in range(3)
    ]


def result(**fields: Any) -> dict[str, Any]:
    return {"task_id": 3, "reward": 0.0, "info": {}, "traj": MESSAGES[1:2], "trial": 1, **fields}


def test_a_crash_is_not_a_failure_of_the_agent(tmp_path: Path) -> None:
    crash = result(traj=[], info={"error": "no connection"})

    problem, run = read_runs(written(tmp_path / "results.json", [crash, result(reward=1.0)]))

    assert isinstance(problem, Problem) and "no connection" in problem.reason
    assert isinstance(run, Run) and run.success is True


def test_the_real_runs() -> None:
    folder = os.environ.get("ACE_TAU_BENCH_DATA")
    if folder is None or not Path(folder).is_dir():
        missing("tau-bench", "ACE_TAU_BENCH_DATA names no folder with results of tau-bench")
    [path] = Path(folder).glob("*.json")
    results = json.loads(path.read_text("utf-8"))

    runs = runs_of(path)

    assert len(runs) == len(results) == 100
    for run, recorded in zip(runs, results, strict=True):
        messages = recorded["traj"]
        outputs = [message["content"] for message in messages if message["role"] == "tool"]
        calls = [call["function"] for message in messages for call in message.get("tool_calls") or ()]
        said = [message["content"] for message in messages if message["role"] == "assistant" and message["content"]]
        assert run.success is (recorded["reward"] == 1.0)
        assert run.task == next(message["content"] for message in messages if message["role"] == "user").strip()
        assert [step.content for step in run.steps if step.kind == "result"] == outputs
        assert [step.is_error for step in run.steps if step.kind == "result"] == [
            output.startswith("Error") for output in outputs
        ]
        shown = [(step.name, json.loads(step.content)) for step in run.steps if step.kind == "call"]
        assert shown == [(call["name"], json.loads(call["arguments"])) for call in calls]
        assert [step.content for step in run.steps if step.speaker == "agent" and step.kind == "message"] == [
            text.strip() for text in said
        ]
        assert run.answer == said[-1].strip()
        assert not any(token in step.content for step in run.steps for token in ("###STOP###", "###TRANSFER###"))
