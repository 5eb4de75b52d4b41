"""Sessions of Strands Agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ace.logs import Problem, read_runs
from tests.core.logs.log_files import run_of, runs_of, steps_of, written


def session(folder: Path, *messages: dict[str, Any], agent: str = "default") -> Path:
    root = folder / "session_s1"
    written(root / "session.json", {"session_id": "s1", "session_type": "AGENT"})
    written(root / "agents" / f"agent_{agent}" / "agent.json", {"agent_id": agent})
    for number, message in enumerate(messages):
        stored = {"message": message, "message_id": number, "created_at": f"2026-01-02T10:00:{number:02}Z"}
        written(root / "agents" / f"agent_{agent}" / "messages" / f"message_{number}.json", stored)
    return root


def said(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


CALL = said(
    "assistant", {"text": "I read."}, {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "cfg"}}}
)
FAILED = said("user", {"toolResult": {"toolUseId": "t1", "status": "error", "content": [{"text": "no file"}]}})


def test_a_folder_is_a_run(tmp_path: Path) -> None:
    root = session(tmp_path, said("user", {"text": "Which port?"}), CALL, FAILED, said("assistant", {"text": "None."}))

    for path in (root, tmp_path):
        run = run_of(path)

        assert steps_of(run) == [
            "person: Which port?",
            "agent: I read.",
            'read {"path": "cfg"}',
            "read failed: no file",
            "agent: None.",
        ]
    assert run.id == "s1"


def test_messages_come_by_their_numbers(tmp_path: Path) -> None:
    messages = [said("user" if number % 2 == 0 else "assistant", {"text": str(number)}) for number in range(12)]

    run = run_of(session(tmp_path, *messages))

    assert [step.content for step in run.steps] == [str(number) for number in range(12)]


def test_each_agent_is_a_run(tmp_path: Path) -> None:
    session(tmp_path, said("user", {"text": "a"}), agent="one")
    session(tmp_path, said("user", {"text": "b"}), agent="two")

    assert [(run.id, run.task) for run in runs_of(tmp_path)] == [("s1/one", "a"), ("s1/two", "b")]


def test_a_damaged_message_is_a_problem(tmp_path: Path) -> None:
    root = session(tmp_path, said("user", {"text": "Which port?"}), said("assistant", {"text": "80"}))
    (root / "agents/agent_default/messages/message_0.json").write_text('{"message": {"ro')

    problem, run = read_runs(root)

    assert isinstance(problem, Problem) and problem.file.endswith("message_0.json")
    assert not isinstance(run, Problem) and run.answer == "80"
