"""A connection that is lost at any moment loses no commit, and repeats none."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ace.skillbook import Commit, Head, Skillbook, SkillbookStoreError, SkillRow
from ace_postgres import PostgresStore
from ace_postgres import database as database_module
from tests.support.postgres_server import PASSWORD, PostgresServer


class CutConnections:
    """Passes connections on to the server, and cuts one when it commits: before or after the server did so."""

    def __init__(self, location: str, cut: str) -> None:
        server = psycopg.conninfo.conninfo_to_dict(location.partition("?")[0])
        self._address = (str(server["host"]), int(str(server["port"])))
        self._cut = cut
        self._wrote = False
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the end of the test
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._address) as server, selectors.DefaultSelector() as chosen:
            chosen.register(client, selectors.EVENT_READ, server)
            chosen.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in chosen.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(65536)
                    if not data or (source is client and self._is_cut(data, server)):
                        return
                    target.sendall(data)

    def _is_cut(self, data: bytes, server: socket.socket) -> bool:
        """Whether the connection ends with these data of the client, the first that commit a batch."""
        self._wrote = self._wrote or b"INSERT INTO event" in data
        if self.cuts or not self._wrote or b"COMMIT" not in data:
            return False
        self.cuts += 1
        if self._cut == "after":
            server.sendall(data)
            server.recv(65536)
        return True

    def close(self) -> None:
        self._listener.close()


def commit(version: int) -> Commit:
    row = SkillRow(f"kit-{version}", version, "{}")
    return Commit(version, "2026-01-01T00:00:00Z", "test", "[]", Head(version + 1, 1, 1, version + 1), [row])


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_whose_answer_was_lost_is_there_once(postgres: str, cut: str) -> None:
    proxy = CutConnections(postgres, cut)
    store = PostgresStore(re.sub(r"@[^/]+/", f"@127.0.0.1:{proxy.port}/", postgres))
    store.append(commit(0))
    assert proxy.cuts == 1
    store.append(commit(1))
    assert [event.version for event in store.events()] == [1, 2]
    assert [row.id for row in store.load().skills] == ["kit-0", "kit-1"]
    store.close()
    proxy.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    if os.environ.get("ACE_POSTGRES_URL"):
        pytest.skip("the server of ACE_POSTGRES_URL is not restarted")
    with PostgresServer() as started:
        yield started


def test_nothing_is_lost_while_the_server_is_restarted(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "PATIENCE", 600.0)
    location = f"{server.address}?book=load"
    learners, skills_of_learner = 4, 60
    watcher = PostgresStore(location)
    opened = threading.Barrier(learners)  # a book is not opened while the server is away

    def learn(number: int) -> None:
        with Skillbook.open(location) as book:
            opened.wait()
            for step in range(skills_of_learner):
                book.add_skill("load", f"Skill {step} of learner {number}")

    with ThreadPoolExecutor(learners) as pool:
        learning = [pool.submit(learn, number) for number in range(learners)]
        for reached, how in ((20, signal.SIGINT), (60, signal.SIGQUIT), (100, signal.SIGQUIT)):
            while watcher.version() < reached:
                assert not any(future.done() and future.exception() for future in learning)
                time.sleep(0.002)
            server.stop(how)
            server.start()
        for future in learning:
            future.result()
    watcher.close()
    with Skillbook.open(location) as book:
        wanted = {
            f"Skill {step} of learner {number}" for number in range(learners) for step in range(skills_of_learner)
        }
        assert len(book) == len(wanted) == book.version
        assert {skill.content for skill in book.skills()} == wanted


def test_a_server_that_stays_away_is_an_error_of_the_store(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PATIENCE", 1.0)
    store = PostgresStore(f"{server.address}?book=gone")
    store.append(commit(0))
    server.stop()
    # The first call may have no time to try again, and reports the end of its connection.
    for call, reason in (
        (store.load, "cannot be read: "),
        (store.version, "Connection refused"),
        (lambda: store.append(commit(1)), "Connection refused"),
        (lambda: store.record_answer("k", "a", ""), "Connection refused"),
    ):
        with pytest.raises(SkillbookStoreError, match=reason) as raised:
            call()
        assert PASSWORD not in f"{raised.value!r} {raised.value.__cause__!r}"
    with pytest.raises(SkillbookStoreError, match=r"could not lock the run: .*refused"), store.run_lock("run"):
        pass
    server.start()
    assert store.version() == 1
    store.close()
