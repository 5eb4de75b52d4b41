"""The real binary learns from recorded sessions: broken ones, and the same ones from several sides at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.claude_code import check_world
from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.samples import TRANSCRIPTS


def test_bad_sessions_are_counted_and_the_rest_is_learned(
    claude: str, home: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(check_world.play)
    good, cut, empty, foreign = (home / "p" / name for name in ("good.jsonl", "cut.jsonl", "none.jsonl", "x.jsonl"))
    good.parent.mkdir()
    whole = (TRANSCRIPTS / "tests-fixed.jsonl").read_bytes()
    good.write_bytes(whole)
    cut.write_bytes((TRANSCRIPTS / "2.1.197" / "denied.jsonl").read_bytes() + b'{"type": "hologram"}\n{"type": "us')
    empty.write_text('{"type": "system", "subtype": "init"}\n', encoding="utf-8")
    foreign.write_text("not JSON\n", encoding="utf-8")
    paths = [str(path) for path in (good, foreign, cut, empty, home / "gone.jsonl")]
    monkeypatch.setenv("ACE_CLAUDE_BINARY", claude)
    report = ace("learn", *paths, "--json", code=1)
    assert (report["sessions"], report["turns_learned"]) == (5, 2)
    assert (report["skipped_lines"], report["unknown_records"]) == (1, 1)
    books = [path.parent.name for path in (home / ".claude" / "ace" / "projects").glob("*/skillbook.db")]
    assert sorted(books) == ["-home-dev-calc", "-home-dev-repo"]
    problems = report["problems"]
    assert len(problems) == 2
    assert "x.jsonl: no records of Claude Code found" in problems[0]
    assert "no such transcript" in problems[1]
    assert report["without_prompt"] == [str(empty)]


def test_several_learners_at_once_learn_each_session_once(
    claude: str, home: Path, serving: ServerFor, ace: Ace
) -> None:
    server = serving(check_world.play)
    ace("install", "--claude", claude)
    state = home / ".claude" / "ace"
    folder = home / ".claude" / "projects" / "-home-dev-repo"
    folder.mkdir(parents=True)
    (state / "queue").mkdir()
    for number in range(6):
        path = folder / f"{number % 3}.jsonl"
        lines = (TRANSCRIPTS / "2.1.197" / "denied.jsonl").read_text(encoding="utf-8")
        path.write_text(lines.replace("REJECT", f"Task {number % 3}"), encoding="utf-8")
        job = {"transcript": str(path), "session_id": str(number)}
        (state / "queue" / f"{number:03}.json").write_text(json.dumps(job), encoding="utf-8")
    environ = {**os.environ, "ACE_LEARNING": "1"}
    learners = [
        subprocess.Popen([sys.executable, "-m", "ace_claude_code.sessions.learner"], env=environ) for _ in range(3)
    ]
    assert [learner.wait() for learner in learners] == [0, 0, 0]
    assert list((state / "queue").iterdir()) == []
    notes = (state / "projects" / "-home-dev-repo" / "learned.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["question"] for line in notes) == ["Task 0", "Task 1", "Task 2"]
    reflections = [request for request in server.requests if "StructuredOutput" in request.tools]
    assert len({request.prompt for request in reflections if not request.tool_results}) == 6
