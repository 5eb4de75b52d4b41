"""A run over 100 traces that is killed again and again, and resumed each time."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.skillbook import Skillbook
from ace.skillbook.store import SkillbookStore
from tests.core.runners.learner_process import AFTER_COMMIT, BEFORE_COMMIT, TRACES, traces
from tests.support.checkpoints import without_run
from tests.support.held_script import HeldScript
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

KILLS = 20


def script(request: ScriptedRequest) -> Answer:
    """Two jobs in a row teach the same lesson, which the deduplication finds; every job praises the first skill."""
    number = int(re.findall(r"job (\d+)\.", request.text)[-1])
    lesson = f"Lesson {number // 2} is to be careful."
    if request.role == "reflector":
        found = {
            "reasoning": "r",
            "error_identification": f"Job {number} failed.",
            "root_cause_analysis": "c",
            "correct_approach": "a",
            "key_insight": lesson,
            "extracted_learnings": [{"learning": lesson}],
            "skill_tags": [{"id": "jobs-00001", "tag": "helpful"}] if number > 1 else [],
        }
    else:
        assert request.role == "skill_manager" and lesson in request.text
        found = {"reasoning": "", "operations": [{"type": "ADD", "section": "jobs", "content": lesson}]}
    return Answer(found, delay=0.004)


class Learner:
    """The process that learns in children."""

    def __init__(self, server: ScriptedServer, module: str) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, server.api_base],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, path: Path) -> int:
        """Start a child that learns into a store, and return its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        return self._answer()

    def status(self) -> int:
        """Wait for the child to end and return its status."""
        return self._answer()

    def _answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


@contextmanager
def learner(server: ScriptedServer, module: str = "tests.core.runners.learner_process") -> Iterator[Learner]:
    found = Learner(server, module)
    try:
        yield found
    finally:
        found.process.communicate()


def recorded(store: SkillbookStore) -> Counter[str]:
    """Return how many answers are recorded for each role."""
    return Counter(json.loads(key)[4] for key, _ in store.recorded_answers())


def store_of(path: Path) -> SkillbookStore:
    store = Skillbook.open(path).store
    assert store is not None
    return store


def between_commit_and_progress(store: SkillbookStore) -> bool:
    """Whether a sample is committed, and it is not noted that it has passed the steps behind that."""
    [run] = store.progress("")
    rows = store.progress(run.key.sample)
    return any(row.version is not None and not json.loads(row.note).get("ended") for row in rows)


def body(request: ScriptedRequest) -> str:
    return json.dumps(request.body, sort_keys=True)


def test_every_trace_is_learned_once_whenever_the_process_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    unbroken, broken = tmp_path / "unbroken.db", tmp_path / "broken.db"
    fell_inside: Counter[str] = Counter()
    lost: list[str] = []
    lives: list[list[str]] = []
    held = HeldScript(script)
    with ScriptedServer(held) as server, learner(server) as process:
        process.start(unbroken)
        assert process.status() == 0
        assert len(server.requests) == 2 * TRACES
        server.clear()
        for kill in range(KILLS):
            before = len(server.requests)
            # Of five kills, four are at a certain place and one at any.
            pause = broken.with_suffix(BEFORE_COMMIT if kill % 5 == 2 else AFTER_COMMIT)
            if kill % 5 == 0:
                held.hold_from(chance.randint(1, 4), role="reflector")
            elif kill % 5 == 1:
                held.hold_from(chance.randint(1, 4), role="skill_manager")
            elif kill % 5 < 4:
                pause.touch()
            else:
                held.hold_from(chance.randint(1, 9), more=chance.randint(0, 4))
            child = process.start(broken)
            if kill % 5 in (2, 3):
                while pause.exists():
                    time.sleep(0.0005)
            else:
                held.wait()
                time.sleep(chance.random() * 0.04)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(process.status()) == -signal.SIGKILL
            held.release()
            server.wait_until_idle()
            life = server.requests[before:]
            lives.append([body(request) for request in life])
            store = store_of(broken)
            unanswered = len(server.requests) - len(lost) - recorded(store).total()
            assert unanswered in (0, 1), "more calls were lost than the one that was under way"
            if unanswered:
                lost.append(body(life[-1]))
                fell_inside[life[-1].role] += 1
            fell_inside["between commit and progress"] += between_commit_and_progress(store)
        before = len(server.requests)
        process.start(broken)
        assert process.status() == 0
        lives.append([body(request) for request in server.requests[before:]])
        assert len(server.requests) == 2 * TRACES + len(lost)
    print(dict(fell_inside))
    assert set(fell_inside) >= {"reflector", "skill_manager"} and fell_inside["between commit and progress"]

    asked: Counter[str] = Counter(request for life in lives for request in life)
    asked.subtract(lost)
    assert set(asked.values()) == {1}, "a call was made again though its answer had been recorded"

    with Skillbook.open(unbroken) as whole, Skillbook.open(broken) as resumed:
        assert resumed.dumps() == whole.dumps()
        learned = [entry.key.sample for entry in resumed.history() if entry.key and "/" not in entry.key.sample]
        assert [name.partition("@")[2] for name in learned] == [trace.place for trace in traces()]
        assert [entry.events for entry in resumed.history()] == [entry.events for entry in whole.history()]
        assert resumed.skills()[0].helpful == TRACES - 1
        assert len(resumed) == TRACES // 2 + 1
    first, second = unbroken.with_suffix(".checkpoints"), broken.with_suffix(".checkpoints")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert without_run(first / name) == without_run(second / name), name
