"""A service that is killed again and again, while users give feedback."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ace_server import keys, tables
from ace_server.database import Database
from tests.server.model_calls import paid_again
from tests.server.service_process import ServiceProcess, When, service_process
from tests.server.service_world import (
    FAST,
    SEAL_KEY,
    add_book,
    add_request,
    learning_states,
    rows_of,
    service_on,
    wait_until_learned,
)
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

KILLS = 14

POINTS: dict[str, tuple[str, When]] = {
    "before feedback is written": ("INSERT INTO (\\S+\\.)?feedback", "before"),
    "before feedback is committed": ("INSERT INTO (\\S+\\.)?feedback", "inside"),
    "between feedback and its response": ("INSERT INTO (\\S+\\.)?feedback", "after"),
    "while a batch is made": ("INSERT INTO (\\S+\\.)?batch", "inside"),
    "before a batch is queued": ("INSERT INTO (\\S+\\.)?batch", "after"),
    "when a batch is started": ("UPDATE (\\S+\\.)?batch SET state=.*worker", "after"),
    "between commit and state": ("UPDATE (\\S+\\.)?feedback SET state=\\S+ WHERE", "before"),
    "before a release is added": ("INSERT INTO (\\S+\\.)?release", "before"),
    "while publishing": ("UPDATE (\\S+\\.)?release SET state=", "inside"),
    "after publishing": ("UPDATE (\\S+\\.)?release SET state=", "after"),
}
"""Where a service kills itself; the others are killed while the model answers."""


class KillingModel:
    """A model that learns, and that kills the service at a call that it is told."""

    def __init__(self) -> None:
        self._learns = learning_script()
        self.calls = 0
        self.kill_at: int | None = None
        self.process: ServiceProcess | None = None

    def __call__(self, request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        self.calls += 1
        if self.kill_at is not None and self.calls >= self.kill_at and self.process is not None:
            self.kill_at = None
            os.kill(self.process.child, signal.SIGKILL)
        return self._learns(request)


def test_feedback_is_learned_once_whenever_the_service_is_killed(database: Database, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    places = [*POINTS, *["in a call of the model"] * (KILLS - len(POINTS))]
    chance.shuffle(places)
    model = KillingModel()
    with ScriptedServer(model) as server:
        settings: dict[str, Any] = {
            **FAST,
            "heartbeat_seconds": 0.1,
            "silent_seconds": 0.6,
            "batch_size": 3,
            "reflect_workers": 1,
        }
        service = service_on(database, tmp_path, server.api_base, **settings)
        add_book(service, publish="always")
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["feedback"])[1]
        words = [f"word{number}" for number in range(2 * KILLS)]
        requests = {word: add_request(service, word) for word in words}
        acknowledged: set[str] = set()

        def give(word: str) -> None:
            body = {"request_id": requests[word], "correction": f"LESSON {word}", "idempotency_key": word}
            if process.post("/v1/feedback", body, key) == 202:
                acknowledged.add(word)

        arguments = (
            tmp_path,
            database.location,
            server.api_base,
            SEAL_KEY,
            {**settings, "database": service.settings.database},
        )
        with service_process(*arguments) as process:
            model.process = process
            for life, place in enumerate(places):
                if place in POINTS:
                    pattern, when = POINTS[place]
                    process.start((pattern, 1, when))
                else:
                    model.kill_at = model.calls + chance.randint(1, 3)
                    process.start()
                for word in words[: 2 * life + 2]:
                    if word not in acknowledged:
                        give(word)
                status = process.status(lambda: (model.calls, learning_states(service)))
                assert status == -signal.SIGKILL, place
                server.wait_until_idle()
            process.start()
            for word in words:
                if word not in acknowledged:
                    give(word)
            assert acknowledged == set(words)
            wait_until_learned(service, process.is_running)
            process.signal(signal.SIGTERM)
            assert process.status() == 0
        paid_twice = paid_again(server.requests)
    assert len(rows_of(service, tables.feedback)) == len(words)
    with closing(service.open_book("default")) as book:
        learned = [skill.content for skill in book.skills()]
        commits = Counter(entry.key.sample.partition("@")[2] for entry in book.history() if entry.key)
    assert sorted(learned) == sorted(f"Remember LESSON {word}." for word in words)
    assert commits == Counter(row.id for row in rows_of(service, tables.feedback))
    print(f"{paid_twice} calls were paid for twice in {KILLS} kills")
    assert paid_twice <= KILLS
    batches = {row.id: row for row in rows_of(service, tables.batch)}
    releases = rows_of(service, tables.release)
    assert {row.batch for row in releases} == set(batches)
    assert [row.state for row in releases] == ["retired"] * (len(releases) - 1) + ["published"]
