"""Logs of CrewAI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def entry(task: str, status: str, output: str | None = None, agent: str = "Clerk") -> dict[str, Any]:
    fields = {"timestamp": "2026-01-02 10:00:00", "task_name": task[:3], "task": task, "agent": agent, "status": status}
    return fields if output is None else {**fields, "output": output}


def test_all_tasks_of_a_crew_are_one_run(tmp_path: Path) -> None:
    crew = [
        entry("Find the port.", "started"),
        entry("Find the port.", "completed", "80"),
        entry("Write it down.", "started", agent="Writer"),
        entry("Write it down.", "completed", "The port is 80.", agent="Writer"),
    ]

    run = run_of(written(tmp_path / "crew.json", crew))

    assert steps_of(run) == ["person: Find the port.", "agent: 80", "harness: Write it down.", "agent: The port is 80."]
    assert (run.task, run.answer, run.success) == ("Find the port.", "The port is 80.", None)


def test_the_first_task_again_is_another_run(tmp_path: Path) -> None:
    crew = [entry("Port?", "started"), entry("Port?", "completed", "80")]

    assert [run.answer for run in runs_of(written(tmp_path / "crew.json", crew * 3))] == ["80"] * 3


def test_a_task_that_was_not_completed(tmp_path: Path) -> None:
    run = run_of(written(tmp_path / "crew.json", [entry("Port?", "started")]))

    assert run.is_interrupted and not run.answer


def test_a_log_in_text(tmp_path: Path) -> None:
    path = tmp_path / "crew.txt"
    path.write_text(
        '2026-01-02 10:00:00: task_name="port", task="Which port?", agent="Clerk", status="started"\n'
        '2026-01-02 10:00:09: task_name="port", task="Which port?", agent="Clerk", status="completed", '
        'output="The port:\n\n80, "really""\n'
    )

    run = run_of(path)

    assert (run.task, run.answer) == ("Which port?", 'The port:\n\n80, "really"')
