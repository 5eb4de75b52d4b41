"""Whoever learns is killed at every stage of every turn: each turn is learned from once, and no answer paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from ace.skillbook import Skillbook
from tests.openclaw.samples import said, text
from tests.support.learning_script import LESSON, learning_script
from tests.support.scripted_server import ScriptedServer

TURNS = [f"turn{number}" for number in range(10)]
MOMENTS = ("StepStarted ReflectStep", "StepStarted UpdateStep", "StepEnded ApplyStep")


def store_session(state: Path) -> None:
    """Store one session with all turns. Every other one teaches nothing, so no skill tells that it was learned."""
    path = state / "agents/main/sessions/s.jsonl"
    path.parent.mkdir(parents=True)
    lines = [{"type": "session", "version": 3, "id": "s", "cwd": "/"}]
    for number, word in enumerate(TURNS):
        lines.append(said("user", f"Do the job {word}.", 10 * number + 1))
        words = f"LESSON {word}" if number % 2 else f"Done: {word}."
        lines.append(said("assistant", text(words), 10 * number + 2, stopReason="stop"))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def status_of_child(process: subprocess.Popen[str], moment: str) -> int:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{moment}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_each_turn_is_learned_once_whenever_the_learner_is_killed(tmp_path: Path) -> None:
    store_session(tmp_path)
    command = [sys.executable, "-m", "tests.openclaw.learner_process", str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with (
        ScriptedServer(learning_script()) as server,
        subprocess.Popen(
            [*command, server.api_base], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        for _ in TURNS:
            assert [status_of_child(process, moment) for moment in MOMENTS] == [signal.SIGKILL] * len(MOMENTS)
        # Each child was killed in a turn further on, so the last one has left nothing to do.
        assert status_of_child(process, MOMENTS[0]) == 0
        process.communicate()
    asked = Counter(json.dumps(request.body["messages"]) for request in server.requests)
    assert len(server.by_role("reflector")) == len(server.by_role("skill_manager")) == len(TURNS)
    assert set(asked.values()) == {1}
    with closing(Skillbook.open(tmp_path / "skills.db")) as book:
        assert [LESSON.findall(skill.content) for skill in book] == [[word] for word in TURNS[1::2]]
        assert [len(skill.sources) for skill in book] == [1] * (len(TURNS) // 2)
