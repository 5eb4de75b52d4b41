"""Privacy of learning: what the models get that learn, and what is kept of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ace_server import jobs, tables
from ace_server.database import Database
from ace_server.service import Service
from tests.server.service_world import (
    add_book,
    add_feedback,
    add_request,
    rows_of,
    service_on,
    states,
    wait_for_batches,
    wait_until,
)
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

MARKERS = ("jane.marker@acme.com", "0170 7654321", "Ann Lee", "m4rker-Secret-77")
SAID = "Ann Lee (jane.marker@acme.com, 0170 7654321, password: m4rker-Secret-77) asks."


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as found:
        yield found


@contextmanager
def working(service: Service) -> Iterator[None]:
    worker = jobs.start_worker(service)
    try:
        yield
    finally:
        worker.stop()


def add_all(service: Service) -> None:
    """Add a correction, a comment and a recorded trace that quote a user."""
    sealed: dict[str, Any] = {name: service.seal.seal(SAID) for name in ("question", "context", "answer", "reasoning")}
    add_feedback(service, add_request(service, "tides", **sealed), correction=f"LESSON tides. {SAID}")
    add_feedback(service, add_request(service, "moons", **sealed), thumb="down", comment=SAID)
    trace = {"question": SAID, "answer": "unknown", "steps": [{"said": [SAID]}], "ground_truth": "LESSON stars"}
    add_feedback(service, None, kind="trace", trace=json.dumps(trace))


def markers_in(text: str) -> list[str]:
    return [marker for marker in MARKERS if marker in text]


def test_the_models_that_learn_get_no_marker_and_nothing_is_kept(
    database: Database, tmp_path: Path, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = service_on(database, tmp_path, server.api_base, batch_size=3, batch_age=3600)
    add_book(service, anonymiser="tests.server.finders:Names")
    add_all(service)
    with working(service):
        [batch] = wait_for_batches(service)
    assert (batch.state, states(service)) == ("learned", ["learned"] * 3)
    received = [json.dumps(request.body, ensure_ascii=False) for request in server.requests]
    assert len(received) >= 4
    assert [markers_in(text) for text in received if markers_in(text)] == []
    assert "[NAME_1] ([EMAIL_1], [PHONE_1], password: [SECRET_1])" in "".join(received)
    with closing(service.open_book("default")) as book:
        assert {skill.content for skill in book.skills()} >= {"Remember LESSON tides."}
        assert book.store is not None
        assert list(book.store.recorded_answers()) == []
        history = [json.dumps(entry, default=str) for entry in book.store.events()]
    assert history
    assert [markers_in(text) for text in history if markers_in(text)] == []
    assert markers_in(caplog.text) == []
    raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert markers_in(raw.decode("latin-1")) == []


@pytest.mark.parametrize("finder", ["tests.server.finders:Broken", "acme_is_not_installed:Finder"])
def test_without_a_working_finder_nothing_is_learned(
    tmp_path: Path, server: ScriptedServer, finder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database = Database(tmp_path / "server.db")
    database.migrate()
    service = service_on(database, tmp_path, server.api_base, batch_size=3)
    add_book(service, anonymiser=finder)
    add_all(service)
    with working(service):
        [batch] = wait_for_batches(service)
    assert (batch.state, states(service)) == ("failed", ["failed"] * 3)
    assert server.requests == []
    assert markers_in(f"{caplog.text} {batch.problem}") == []
    database.close()


def test_a_book_may_say_that_models_see_everything(tmp_path: Path, server: ScriptedServer) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    service = service_on(database, tmp_path, server.api_base, batch_size=3)
    add_book(service, anonymise=False)
    add_all(service)
    with working(service):
        wait_for_batches(service)
    assert "Ann Lee" in "".join(request.text for request in server.requests)
    database.close()


def test_what_dbos_keeps_of_batches_is_deleted_after_its_period(tmp_path: Path, server: ScriptedServer) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()

    def workflows(condition: str = "") -> int:
        with database.reading() as connection:
            return connection.scalar(sa.text(f"SELECT count(*) FROM workflow_status {condition}")) or 0

    service = service_on(database, tmp_path, server.api_base)
    add_book(service)
    add_feedback(service, add_request(service, "tides"), correction="LESSON tides")
    with working(service):
        wait_for_batches(service)
        wait_until(lambda: workflows("WHERE status = 'SUCCESS'") == 1)  # which is noted after the end of the batch
    assert workflows() == 1
    with working(service_on(database, tmp_path, server.api_base, keep_workflows=0)):
        wait_until(lambda: workflows() == 0)
    assert [row.state for row in rows_of(service, tables.batch)] == ["learned"]
    database.close()
