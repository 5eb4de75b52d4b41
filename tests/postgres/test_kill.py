"""A run that is killed again and again and resumed each time loses nothing, and pays for no recorded answer again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import psycopg

from ace.skillbook import Skillbook
from ace_postgres import PostgresStore
from tests.postgres.learner_process import TRACES
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

KILLS = 12
ROLES = ("reflector", "skill_manager")


MOST_CALLS = 6
"""How many calls a child gets answered before it is killed; so there is something left to learn for the last one."""


class HeldCalls:
    """Answers as `learning_script` does, but lets calls of one role, and all after a last one, wait for the kill."""

    def __init__(self) -> None:
        self._answer = learning_script(delay=0.02)
        self._role = ""
        self._last = 0
        self._is_killed = threading.Event()

    def hold(self, role: str, last: int) -> None:
        self._role = role
        self._last = last
        self._is_killed.clear()

    def release(self) -> None:
        self._role = ""
        self._is_killed.set()

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == self._role or request.number > self._last:
            self._is_killed.wait()
        return self._answer(request)


def test_a_killed_run_is_resumed_without_paying_twice(database: str, postgres: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    location = f"{postgres}&application_name=learner"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    store = PostgresStore(postgres)
    lost: list[str] = []
    script = HeldCalls()
    with (
        ScriptedServer(script) as server,
        psycopg.connect(database.partition("?")[0], autocommit=True) as watcher,
        subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.learner_process", server.api_base],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None

        def start() -> int:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{location}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        def has_ended() -> bool:
            """Whether the server has ended what the killed process asked of it."""
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'learner'"
            return watcher.execute(query).fetchone() == (0,)

        for kill in range(KILLS):
            before, version = len(server.requests), store.version()
            script.hold(ROLES[kill % 4] if kill % 4 < 2 else "", last=before + MOST_CALLS)
            child = start()
            # In turn: in a call of the Reflector, in one of the SkillManager, after a commit, and anywhere.
            if kill % 4 == 2:
                while store.version() <= version:
                    time.sleep(0.0005)
            else:
                role = ROLES[min(kill % 4, 1)]
                while all(request.role != role for request in server.requests[before:]):
                    time.sleep(0.0005)
                if kill % 4 == 3:
                    time.sleep(chance.random() * 0.1)
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(int(process.stdout.readline())) == -signal.SIGKILL
            script.release()
            server.wait_until_idle()
            while not has_ended():
                time.sleep(0.0005)
            unanswered = len(server.requests) - len(lost) - len(list(store.recorded_answers()))
            assert unanswered in (0, 1), "more calls were lost than the one that was under way"
            if unanswered:
                lost.append(json.dumps(server.requests[-1].body))
            if kill % 4 < 2:
                assert unanswered == 1, "the kill fell outside the call"
        start()
        assert int(process.stdout.readline()) == 0
        asked = Counter(json.dumps(request.body) for request in server.requests)
        asked.subtract(lost)
    assert set(asked.values()) == {1}, "a call was made again though its answer had been recorded"
    assert asked.total() == 2 * TRACES
    with Skillbook.open(postgres) as book:
        assert [skill.content for skill in book.skills()] == [f"Remember LESSON w{number}." for number in range(TRACES)]
        learned = [entry.key.sample for entry in book.history() if entry.key and "/" not in entry.key.sample]
        assert len(learned) == len(set(learned)) == TRACES
    store.close()
