"""A server that is killed while feedback is sent: what was acknowledged is stored, and once."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx2

from tests.server.server_process import ServerProcess, wait_for
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

KILLS = int(os.environ.get("ACE_SERVER_TEST_KILLS", "3"))
SEED = 20_261_126
CLIENTS = 4


class Clients:
    """Clients that send feedback at the same time, until the server does not answer any more.

    Args:
        server: The server.
        request: The request that the feedback is about.
        name: What the idempotency keys begin with.
    """

    def __init__(self, server: ServerProcess, request: str, name: str) -> None:
        self._server, self._request, self._name = server, request, name
        self.acknowledged: dict[str, str] = {}
        self.wrong: list[BaseException] = []
        self.interrupted = 0
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until so much feedback was acknowledged."""
        wait_for(lambda: self.wrong or len(self.acknowledged) >= count)
        assert not self.wrong

    def join(self) -> None:
        """Wait until the clients have noticed that the server is gone."""
        for thread in self._threads:
            thread.join()

    def _send(self, client: int) -> None:
        number = 0
        while True:
            number += 1
            body = feedback(self._request, f"{self._name} {client} {number}")
            try:
                identifier = self._server.post("/v1/feedback", body)["feedback_id"]
            except httpx2.TransportError:
                self.interrupted += 1
                return
            except BaseException as error:  # the test reports it
                self.wrong.append(error)
                return
            self.acknowledged[body["idempotency_key"]] = identifier


def feedback(request: str, name: str) -> dict[str, str]:
    return {"request_id": request, "comment": name, "idempotency_key": name}


def test_acknowledged_feedback_survives_a_kill_and_is_stored_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    acknowledged: dict[str, str] = {}
    interrupted = 0
    request = ""
    with ScriptedServer(learning_script()) as model:
        for kill in range(KILLS):
            with ServerProcess(tmp_path, model.api_base, "--no-worker") as server:
                if not request:
                    request = server.post("/v1/answers", {"question": "What about rain?"})["request_id"]
                    server.post("/v1/feedback", {"request_id": request, "thumb": "up"})
                clients = Clients(server, request, str(kill))
                clients.wait_for(chance.randint(1, 60))
                server.process.kill()
                clients.join()
            acknowledged |= clients.acknowledged
            interrupted += clients.interrupted
        with ServerProcess(tmp_path, model.api_base, "--no-worker") as server:
            for name, identifier in list(acknowledged.items())[:20]:  # sent again, they are not stored again
                assert server.post("/v1/feedback", feedback(request, name))["feedback_id"] == identifier
            assert server.stop() == 0
    with closing(sqlite3.connect(tmp_path / "ace-server" / "server.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        stored = dict(connection.execute("SELECT idempotency_key, id FROM feedback WHERE idempotency_key IS NOT NULL"))
        rows = connection.execute("SELECT count(*) FROM feedback").fetchone()[0]
    assert interrupted == CLIENTS * KILLS
    assert {name: stored.get(name) for name in acknowledged} == acknowledged, f"seed {SEED}"
    assert rows == len(stored) + 1
