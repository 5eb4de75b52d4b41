"""A server that is killed while feedback is sent: what was acknowledged is stored, and once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

from ace_server import keys
from ace_server.database import Database
from tests.server.service_process import ServiceProcess, service_process
from tests.server.service_world import SEAL_KEY, add_book, add_request, service_on, wait_until

KILLS = int(os.environ.get("ACE_SERVER_TEST_KILLS", "5"))
SEED = 20_261_126
CLIENTS = 4


class Clients:
    """Clients that send feedback at the same time, until the server does not answer any more.

    Args:
        server: The server.
        key: Their key.
        request: The request that the feedback is about.
        name: What the idempotency keys begin with.
    """

    def __init__(self, server: ServiceProcess, key: str, request: str, name: str) -> None:
        self._server, self._key, self._request, self._name = server, key, request, name
        self.acknowledged: dict[str, str] = {}
        self.interrupted: list[int] = []
        self.wrong: list[BaseException] = []
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until so much feedback was acknowledged."""
        wait_until(lambda: bool(self.wrong) or len(self.acknowledged) >= count, progress=lambda: len(self.acknowledged))
        assert not self.wrong

    def join(self) -> None:
        """Wait until the clients have noticed that the server is gone."""
        for thread in self._threads:
            thread.join()
        assert not self.wrong

    def _send(self, client: int) -> None:
        number = 0
        while True:
            number += 1
            name = f"{self._name} {client} {number}"
            try:
                self.acknowledged[name] = give(self._server, self._key, self._request, name)
            except (OSError, HTTPException):
                self.interrupted.append(client)
                return
            except BaseException as error:  # the test reports it
                self.wrong.append(error)
                return


def give(server: ServiceProcess, key: str, request: str, name: str) -> str:
    """Send feedback, and return its id."""
    body = {"request_id": request, "comment": name, "idempotency_key": name}
    found = server.exchange("/v1/feedback", body, key)
    assert found.status == 202, found
    return str(found.body["feedback_id"])


def test_acknowledged_feedback_survives_a_kill_and_is_stored_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    acknowledged: dict[str, str] = {}
    interrupted = 0
    location = tmp_path / "server.db"
    nowhere = "http://127.0.0.1:9/v1"
    with closing(Database(location)) as database:
        database.migrate()
        service = service_on(database, tmp_path, nowhere)
        add_book(service)
        request = add_request(service, "rain")
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["feedback"])[1]
    with service_process(tmp_path, location, nowhere, SEAL_KEY, {}, has_worker=False) as server:
        for kill in range(KILLS):
            server.start()
            clients = Clients(server, key, request, str(kill))
            clients.wait_for(chance.randint(1, 60))
            server.signal(signal.SIGKILL)
            assert server.status() == -signal.SIGKILL
            clients.join()
            acknowledged |= clients.acknowledged
            interrupted += len(clients.interrupted)
        server.start()
        for name, identifier in list(acknowledged.items())[:20]:  # sent again, they are not stored again
            assert give(server, key, request, name) == identifier
        server.signal(signal.SIGTERM)
        assert server.status() == 0
    with closing(sqlite3.connect(location)) as connection_:
        assert connection_.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        stored, used = zip(*connection_.execute("SELECT id, idempotency_key FROM feedback"), strict=True)
    assert interrupted == CLIENTS * KILLS
    assert set(stored) >= set(acknowledged.values()), f"seed {SEED}"
    assert len(set(acknowledged.values())) == len(acknowledged)
    assert len(set(used)) == len(used) == len(stored)
