"""The reader of logs takes sessions of OpenClaw in all their forms, and what lies beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs
from tests.openclaw.samples import CAPTURED, EXPORTED, SIDECAR, V3, V4, V4_ERROR, Event, events_of, make_database, text


def runs_of(path: Path) -> list[Run]:
    return [found for found in read_runs(path) if isinstance(found, Run)]


def stored(path: Path, events: Sequence[Event]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    return path


def entry(name: str, parent: str | None, role: str, content: Any, **more: Any) -> Event:
    return {"type": "message", "id": name, "parentId": parent, "message": {"role": role, "content": content, **more}}


HEADER: Event = {"type": "session", "version": 3, "id": "s", "cwd": "/home/u/.openclaw/workspace"}
SESSION: list[Event] = [
    HEADER,
    entry("a1", None, "user", "Free disk?"),
    entry("a2", "a1", "assistant", [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "dff"}}]),
    entry("a3", "a2", "toolResult", text("dff: not found"), toolCallId="c", toolName="bash", isError=True),
    entry("a4", "a3", "assistant", text("Could not check."), stopReason="stop"),
]


def test_a_session_is_one_run(tmp_path: Path) -> None:
    [run] = runs_of(stored(tmp_path / "s.jsonl", SESSION))
    assert (run.id, run.format, run.task, run.answer) == ("s", "openclaw", "Free disk?", "Could not check.")
    assert [(step.kind, step.name, step.is_error) for step in run.steps[1:3]] == [
        ("call", "bash", False),
        ("result", "bash", True),
    ]
    assert (run.success, run.cwd) == (None, "/home/u/.openclaw/workspace")


@pytest.mark.parametrize("source", [V4, EXPORTED, EXPORTED / "session-branch.json"], ids=["lines", "export", "branch"])
def test_every_form_of_a_session_is_the_same_run(source: Path) -> None:
    [run] = runs_of(source)
    [same] = runs_of(V4)
    assert (run.format, run.id, run.answer) == ("openclaw", same.id, "mean([]) is 0 now.")
    assert [(step.kind, step.name) for step in run.steps] == [(step.kind, step.name) for step in same.steps]


def test_a_database_and_captured_turns_have_all_their_sessions(tmp_path: Path) -> None:
    path = make_database(tmp_path / "openclaw-agent.sqlite", [events_of(V4), events_of(V4_ERROR)])
    assert len(runs_of(path)) == 2
    captured = runs_of(CAPTURED)
    assert {run.success for run in captured} == {True, False}
    assert {run.outcome_from for run in captured} == {"success"}


def test_sessions_in_a_row_are_several_runs(tmp_path: Path) -> None:
    second = [{**SESSION[0], "id": "s2"}, *SESSION[1:]]
    first, other = runs_of(stored(tmp_path / "s.jsonl", [*SESSION, *second]))
    assert (first.id, len(first.steps), other.id, len(other.steps)) == ("s", 4, "s2", 4)


def test_files_beside_a_session_are_not_runs(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    shutil.copy(V3, folder / "a.jsonl")
    shutil.copy(SIDECAR, folder / "a.trajectory.jsonl")
    (folder / "sessions.json").write_text('{"agent:main:main": {"sessionId": "a"}}', encoding="utf-8")
    (folder / "a.jsonl.lock").write_text("1", encoding="utf-8")
    [run] = list(read_runs(tmp_path))
    assert isinstance(run, Run) and run.task == "Make mean([]) return 0"


def test_a_trajectory_file_alone_says_what_to_give() -> None:
    [problem] = list(read_runs(SIDECAR))
    assert isinstance(problem, Problem) and "give the session itself" in problem.reason


def test_only_the_branch_that_was_continued_is_read(tmp_path: Path) -> None:
    other = [entry("b1", "a1", "assistant", text("Try df.")), entry("b2", "b1", "user", "Yes.")]
    [run] = runs_of(stored(tmp_path / "s.jsonl", [*SESSION, *other]))
    assert [step.content for step in run.steps] == ["Free disk?", "Try df.", "Yes."]
    assert run.is_interrupted


def test_who_speaks_in_the_role_of_the_user(tmp_path: Path) -> None:
    said = ["[Wed 2026-02-18 11:21 GMT+1] Which tide?", "[cron:a1 tides] Look it up.", "Read HEARTBEAT.md if it exists"]
    events = [entry(str(number), None, "user", words) for number, words in enumerate(said)]
    [run] = runs_of(stored(tmp_path / "s.jsonl", [HEADER, *events]))
    assert [(step.speaker, step.content) for step in run.steps] == [
        ("person", "Which tide?"),
        ("harness", "[cron:a1 tides] Look it up."),
    ]


def test_a_command_of_the_user_is_a_call(tmp_path: Path) -> None:
    command: Event = {"type": "message", "message": {"role": "bashExecution", "command": "df", "exitCode": 1}}
    [run] = runs_of(stored(tmp_path / "s.jsonl", [HEADER, command, *SESSION[1:]]))
    assert [(step.kind, step.is_error) for step in run.steps[:2]] == [("call", False), ("result", True)]
