"""Workers that disappear, a database that is restarted, and a disk that is full."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook.store import SkillbookStore
from ace_server import keys, tables
from ace_server.database import Database
from tests.server.model_calls import paid_again
from tests.server.service_process import ServiceProcess, service_process
from tests.server.service_world import (
    FAST,
    SEAL_KEY,
    add_book,
    add_request,
    learning_states,
    rows_of,
    service_on,
    wait_until,
    wait_until_learned,
)
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
    asked, killing = threading.Event(), threading.Lock()

    def script(request: ScriptedRequest) -> Any:
        with killing:
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
        wait_until(asked.is_set, lambda: learning_states(service))
        wait_until(lambda: not all(process.is_running() for process in processes))  # the signal may take a moment
        [killed] = [process for process in processes if not process.is_running()]
        [other] = [process for process in processes if process is not killed]
        for word in words:  # those without a response
            assert give(other, key, requests[word], word) == 202
        wait_until_learned(service, other.is_running)
        other.signal(signal.SIGTERM)
        assert (killed.status(), other.status()) == (-signal.SIGKILL, 0)
    with closing(service.open_book("default")) as book:
        assert sorted(skill.content for skill in book.skills()) == [f"Remember LESSON {word}." for word in words]
    database.close()


class Users:
    """Users that ask without a pause, and give feedback whenever there is a lesson left, until they are told to stop.

    Args:
        process: The service.
        key: Their key.
    """

    def __init__(self, process: ServiceProcess, key: str) -> None:
        self._process, self._key = process, key
        self._lock = threading.Lock()
        self._left: deque[str] = deque()
        self._is_stopped = False
        self.answered: list[str] = []
        self.learnable: dict[str, str] = {}
        self.refused = 0
        self.wrong: list[object] = []
        self._threads = [threading.Thread(target=self._use) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def teach(self, *words: str) -> None:
        """Have users give feedback about these words."""
        self._left.extend(words)

    def wait_for(self, is_so: Callable[[Users], bool]) -> None:
        """Wait until something is so. It fails if a response was wrong."""

        def is_over() -> bool:
            assert not self.wrong
            return is_so(self)

        wait_until(is_over, lambda: (len(self.learnable), self.refused))

    def stop(self) -> None:
        """Have them stop, and wait until they have."""
        self._is_stopped = True
        for thread in self._threads:
            thread.join()
        assert not self.wrong

    def _use(self) -> None:
        try:
            while not self._is_stopped:
                word = self._left.popleft() if self._left else None
                request = self._ask(word or "rain")
                while word is not None and not self._is_acknowledged(request, word):
                    self._ask("rain")
        except BaseException as error:  # the test reports it
            self.wrong.append(error)

    def _ask(self, word: str) -> str:
        found = self._process.exchange("/v1/answers", {"question": f"What about {word}?"}, self._key)
        assert found.status == 200, found
        self.answered.append(found.body["request_id"])
        return str(found.body["request_id"])

    def _is_acknowledged(self, request: str, word: str) -> bool:
        body = {"request_id": request, "correction": f"LESSON {word}", "idempotency_key": word}
        found = self._process.exchange("/v1/feedback", body, self._key)
        assert (found.status, found.retry_after) in ((202, None), (503, "5")), found
        with self._lock:
            if found.status == 202:
                self.learnable[word] = found.body["feedback_id"]
            else:
                self.refused += 1
        return found.status == 202


def reflections_recorded(store: SkillbookStore) -> int:
    return sum(json.loads(key)[4] == "Reflector" for key, _ in store.recorded_answers())


def test_nothing_is_lost_when_postgres_is_restarted_while_it_is_used(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    database = Database(own_postgres.address)
    database.migrate()
    learns = learning_script()
    is_learning, is_down = threading.Event(), threading.Event()

    def script(request: ScriptedRequest) -> Any:
        if request.role.startswith("skill_manager"):  # in the middle of the first batch
            is_learning.set()
            is_down.wait()
        return learns(request)

    words = [f"word{number}" for number in range(16)]
    with ScriptedServer(script) as server:
        settings: dict[str, Any] = {**FAST, "batch_size": 4, "batch_age": 1000, "database": own_postgres.address}
        service = service_on(database, tmp_path, server.api_base)
        add_book(service, location=f"{own_postgres.address}?book=default", publish="always")
        with database.writing() as connection:
            key = keys.add_key(connection, "test", ["infer", "feedback"])[1]
        with service_process(tmp_path, own_postgres.address, server.api_base, SEAL_KEY, settings) as process:
            process.start()
            users = Users(process, key)
            users.teach(*words[:4])
            with closing(service.open_book("default")) as book:  # nothing else is in flight
                assert book.store is not None
                store = book.store
                users.wait_for(lambda _: is_learning.is_set() and reflections_recorded(store) == 4)
            users.teach(*words[4:8])  # some are being sent when it stops
            own_postgres.stop(signal.SIGQUIT)
            is_down.set()
            before = len(users.answered)
            users.teach(*words[8:12])
            users.wait_for(lambda users: users.refused >= 8 and len(users.answered) >= before + 20)
            own_postgres.start()
            users.teach(*words[12:])
            users.wait_for(lambda users: set(users.learnable) == set(words))
            users.stop()
            wait_until_learned(service, process.is_running)
            process.signal(signal.SIGTERM)
            assert process.status() == 0
        learning = [request for request in server.requests if request.role != "agent"]
        assert paid_again(learning) <= settings["reflect_workers"], "only what was in flight is paid for twice"
    assert {row.id for row in rows_of(service, tables.feedback)} == set(users.learnable.values())
    assert {row.id for row in rows_of(service, tables.request)} == set(users.answered)
    with closing(service.open_book("default")) as book:
        learned = [skill.content for skill in book.skills()]
    assert sorted(learned) == sorted(f"Remember LESSON {word}." for word in words)
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


FULL_POSTGRES = """
import shutil
import psycopg
from ace_server import tables
from ace_server.database import Database
from tests.server.api import running_api
from tests.server.service_world import *
from tests.support.postgres_server import PostgresServer

shutil.chown(folder, "postgres", "postgres")
data = folder.with_name("service")
data.mkdir()
with PostgresServer() as postgres:
    # A full table space makes statements fail, while a full disk of the write-ahead log stops the whole server.
    with psycopg.connect(postgres.address, autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        admin.execute("ALTER ROLE ace SET default_tablespace = small")
    database = Database(postgres.address)
    database.migrate()
    with running_api(database, data) as api:
        request = api.ask("What about rain?")["request_id"]

        def give(number):
            body = {"request_id": request, "comment": "Wrong. " * 2000, "idempotency_key": f"once-{number}"}
            return api.post("/feedback", body).status_code

        fill()
        when_full = []
        while 202 not in when_full:  # how much space a row needs depends on what Postgres does beside it
            os.truncate(folder / "filler", (folder / "filler").stat().st_size - 50_000)
            when_full.append(give(len(when_full)))
        while when_full[-1] != 503:
            when_full.append(give(len(when_full)))
        kept_when_full = len(api.rows(tables.feedback))
        answer = api.ask("What about rain?")["answer"]
        (folder / "filler").unlink()
        again = [give(number) for number in range(len(when_full))]
        found = {"when_full": when_full, "kept_when_full": kept_when_full, "answer": answer, "again": again}
        print(json.dumps({**found, "kept": len(api.rows(tables.feedback))}))
    database.close()
"""


def test_a_full_disk_of_postgres_refuses_feedback_and_loses_none() -> None:
    pytest.importorskip("ace_postgres")
    with tempfile.TemporaryDirectory() as parent:  # the server, which runs as another user, cannot enter tmp_path
        Path(parent).chmod(0o755)
        found = on_small_disk(Path(parent, "space"), FULL_POSTGRES, megabytes=16, for_several_users=True)
    assert set(found["when_full"]) <= {202, 503}
    assert found["kept_when_full"] == found["when_full"].count(202)
    assert found["answer"] == "unknown"
    assert found["again"] == [202] * len(found["when_full"])
    assert found["kept"] == len(found["when_full"])
