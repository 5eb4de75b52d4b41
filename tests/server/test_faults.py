"""Workers that disappear, a database that is restarted, and a disk that is full."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from ace_server import keys, tables
from ace_server.database import Database
from tests.server.model_calls import paid_again
from tests.server.service_process import ServiceProcess, service_process
from tests.server.service_world import FAST, SEAL_KEY, add_book, add_request, rows_of, service_on, wait_until
from tests.support.learning_script import learning_script
from tests.support.postgres_server import PostgresServer
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.support.small_disk import on_small_disk


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    pytest.importorskip("ace_postgres")
    with PostgresServer() as found:
        yield found


def give(process: ServiceProcess, key: str, request: str, word: str) -> int | None:
    body = {"request_id": request, "correction": f"LESSON {word}", "idempotency_key": word}
    return process.post("/v1/feedback", body, key)


def test_another_worker_continues_the_batch_of_one_that_is_gone(postgres_database: str, tmp_path: Path) -> None:
    database = Database(postgres_database)
    database.migrate()
    learns = learning_script()
    processes: list[ServiceProcess] = []
    asked = threading.Event()

    def script(request: ScriptedRequest) -> Any:
        if request.number >= 2 and not asked.is_set():  # in the middle of the batch: the process never returns
            started = {row.id: row.process for row in rows_of(service, tables.worker)}
            for batch in rows_of(service, tables.batch, state="running"):
                if batch.worker in started:  # not yet, if the other worker took it over while this one was slow
                    os.kill(started[batch.worker], signal.SIGKILL)
                    asked.set()
        return learns(request)

    with ScriptedServer(script) as server, ExitStack() as open_processes:
        settings: dict[str, Any] = {
            **FAST,
            "silent_seconds": 3.0,
            "batch_size": 3,
            "batch_age": 1000,
            "reflect_workers": 1,
        }
        service = service_on(database, tmp_path, server.api_base, **settings)
        settings["database"] = postgres_database
        add_book(service)
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["feedback"])[1]
        words = [f"word{number}" for number in range(3)]
        requests = {word: add_request(service, word) for word in words}
        for _ in range(2):
            arguments = (tmp_path, postgres_database, server.api_base, SEAL_KEY, settings)
            processes.append(open_processes.enter_context(service_process(*arguments)))
            processes[-1].start()
        wait_until(lambda: len(rows_of(service, tables.worker)) == 2)
        for word in words:
            assert give(processes[0], key, requests[word], word) in (202, None)
        asked.wait()
        [killed] = [each for each in processes if not _is_alive(each.child)]
        [other] = [each for each in processes if each is not killed]
        for word in words:  # those without a response
            assert give(other, key, requests[word], word) == 202
        wait_until(lambda: [row.state for row in rows_of(service, tables.feedback)] == ["learned"] * 3)
        other.signal(signal.SIGTERM)
        assert (killed.status(), other.status()) == (-signal.SIGKILL, 0)
    with closing(service.open_book("default")) as book:
        assert sorted(skill.content for skill in book.skills()) == [f"Remember LESSON {word}." for word in words]
    database.close()


def test_learning_continues_when_postgres_is_back(own_postgres: PostgresServer, tmp_path: Path) -> None:
    database = Database(own_postgres.address)
    database.migrate()
    learns = learning_script()
    asked, is_down = threading.Event(), threading.Event()

    def script(request: ScriptedRequest) -> Any:
        if request.number == 3:  # in the middle of a batch
            asked.set()
            is_down.wait()
        return learns(request)

    with ScriptedServer(script) as server:
        settings = {**FAST, "batch_size": 2, "batch_age": 1000, "database": own_postgres.address}
        service = service_on(database, tmp_path, server.api_base)
        add_book(service, location=f"{own_postgres.address}?book=default")
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["feedback"])[1]
        words = [f"word{number}" for number in range(4)]
        requests = {word: add_request(service, word) for word in words}
        with service_process(tmp_path, own_postgres.address, server.api_base, SEAL_KEY, settings) as process:
            process.start()
            for word in words[:3]:
                assert give(process, key, requests[word], word) == 202
            asked.wait()
            own_postgres.stop(signal.SIGQUIT)
            is_down.set()
            assert give(process, key, requests[words[3]], words[3]) == 503
            own_postgres.start()
            wait_until(lambda: give(process, key, requests[words[3]], words[3]) == 202)
            wait_until(lambda: [row.state for row in rows_of(service, tables.feedback)] == ["learned"] * 4)
            process.signal(signal.SIGTERM)
            assert process.status() == 0
        assert paid_again(server.requests) == 0
    with closing(service.open_book("default")) as book:
        assert sorted(skill.content for skill in book.skills()) == [f"Remember LESSON {word}." for word in words]
    database.close()


FULL_DISK = """
from ace_server.database import Database
from ace_server import tables
from tests.server.service_world import *
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

database = Database(folder / "server.db")
database.migrate()
with ScriptedServer(learning_script()) as server:
    service = service_on(database, folder, server.api_base)
    add_book(service)
    for word in ("tides", "winds"):
        add_feedback(service, add_request(service, word), correction=f"LESSON {word}")
    make_batches(service)
    with service.open_book("default"):
        pass
    fill()
    full = outcome(lambda: learn_all(service))
    states_when_full = states(service)
    (folder / "filler").unlink()
    again = outcome(lambda: learn_all(service))
    with service.open_book("default") as book:
        skills = sorted(skill.content for skill in book.skills())
    found = {"full": full, "states_when_full": states_when_full, "again": again, "states": states(service)}
    print(json.dumps({**found, "skills": skills}))
database.close()
"""


def test_a_full_disk_stops_a_batch_which_continues_when_there_is_space(tmp_path: Path) -> None:
    found = on_small_disk(tmp_path / "data", FULL_DISK)
    assert "Error" in found["full"], found
    assert found["states_when_full"] == ["batched"] * 2
    assert (found["again"], found["states"]) == (["ended"], ["learned"] * 2)
    assert found["skills"] == ["Remember LESSON tides.", "Remember LESSON winds."]


def _is_alive(process: int) -> bool:
    """Return whether a process runs. One that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
