"""The hooks as Claude Code calls them, with what a session may meet. No binary is needed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ace.integrations import JobQueue
from ace.skillbook import Skillbook
from ace_claude_code.sessions.home import project_key, skillbook_path, state_folder
from ace_claude_code.sessions.learner import work_off
from ace_claude_code.sessions.settings import SessionSettings, write_settings
from tests.claude_code.samples import user
from tests.support.command_line import ACE


@pytest.fixture
def state(home: Path) -> Path:
    """The folder of an installation for all projects."""
    write_settings(state_folder(), SessionSettings())
    return state_folder()


def transcript(home: Path, *records: dict[str, Any]) -> Path:
    path = home / ".claude" / "projects" / "-home-p" / "s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def call(event: str, path: Path) -> subprocess.CompletedProcess[str]:
    said = json.dumps({"session_id": "s", "transcript_path": str(path), "cwd": str(path.parent)})
    command = [sys.executable, "-m", "ace_claude_code.sessions.hook", event]
    return subprocess.run(command, input=said, env=os.environ, capture_output=True, encoding="utf-8", check=False)


def test_a_session_that_is_not_stored_is_not_queued(home: Path, state: Path) -> None:
    done = call("end", home / ".claude" / "projects" / "-home-p" / "gone.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (state / "queue").exists()


def test_sessions_with_nothing_to_learn_leave_the_queue(home: Path, state: Path) -> None:
    path = transcript(home, user("<command-name>/cost</command-name>", "u1"))
    JobQueue(state).add({"transcript": str(path)})
    JobQueue(state).add({"transcript": str(home / "deleted-meanwhile.jsonl")})
    work_off(state)
    assert list((state / "queue").iterdir()) == []


def test_a_session_that_ends_while_somebody_learns_is_queued(home: Path, state: Path) -> None:
    path = transcript(home, user("Fix it.", "u1"))
    with JobQueue(state).lock() as held:
        assert held
        assert call("end", path).returncode == 0
        assert [job.field("transcript") for job in JobQueue(state).waiting()] == [str(path)]


def test_uninstalling_waits_for_the_learner_and_says_so(home: Path, state: Path) -> None:
    command = [str(ACE), "claude-code", "uninstall"]
    with JobQueue(state).lock() as held:
        assert held
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "waiting for another learner to finish\n"
        assert state.exists()
    assert (waiting.communicate()[0], waiting.returncode) == ("Removed.\n", 0)
    assert not state.exists()


def test_broken_settings_are_told_in_one_line(home: Path, state: Path) -> None:
    (state / "settings.json").write_text("{oops", encoding="utf-8")
    for event in ("start", "end"):
        done = call(event, transcript(home, user("Fix it.", "u1")))
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("ace: ")
        assert "run 'ace claude-code install' again" in line


def test_a_skillbook_of_a_newer_release_is_told_in_one_line(home: Path, state: Path) -> None:
    path = transcript(home, user("Fix it.", "u1"))
    book = skillbook_path(state, project_key(path.parent))
    book.parent.mkdir(parents=True)
    Skillbook.open(book).close()
    with closing(sqlite3.connect(book)) as database:
        database.execute("pragma user_version = 99")
    done = call("start", path)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert "no skills are shown" in line
    assert "upgrade ace" in line


@pytest.mark.parametrize("said", ["", "{oops", "[]"])
def test_what_is_no_event_is_told_in_one_line(home: Path, state: Path, said: str) -> None:
    command = [sys.executable, "-m", "ace_claude_code.sessions.hook", "end"]
    done = subprocess.run(command, input=said, env=os.environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("ace: Claude Code gave no event")


def test_a_job_that_cannot_be_read_is_told_and_keeps_no_other_waiting(home: Path, state: Path) -> None:
    (state / "queue").mkdir()
    (state / "queue" / "000.json").write_text("{oops", encoding="utf-8")
    JobQueue(state).add({"transcript": str(transcript(home, user("<command-name>/cost</command-name>", "u1")))})
    work_off(state)
    [job] = JobQueue(state).waiting()
    assert "000.json names no transcript" in job.error


def test_a_wrong_argument_is_named(home: Path, state: Path) -> None:
    done = call("middle", home)
    assert (done.returncode, "'start', 'prompt' or 'end', not ['middle']" in done.stderr) == (2, True)
