"""Feedback becomes skills, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

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
)
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as found:
        yield found


@contextmanager
def working(service: Service) -> Iterator[jobs.Worker]:
    worker = jobs.start_worker(service)
    try:
        yield worker
    finally:
        worker.stop()


def test_a_correction_becomes_a_skill_and_a_candidate(
    database: Database, tmp_path: Path, server: ScriptedServer
) -> None:
    service = service_on(database, tmp_path, server.api_base)
    add_book(service)
    request = add_request(service, "tides")
    add_feedback(service, request, correction="LESSON tides")
    with working(service):
        [batch] = wait_for_batches(service)
    assert states(service) == ["learned"]
    with closing(service.open_book("default")) as book:
        assert [skill.content for skill in book.skills()] == ["Remember LESSON tides."]
    assert (batch.state, batch.samples, batch.learned, batch.failed, batch.model_calls) == ("learned", 1, 1, 0, 2)
    [release] = rows_of(service, tables.release)
    assert (release.state, release.batch, release.id) == ("candidate", batch.id, batch.release)
    [review] = rows_of(service, tables.review)
    assert (review.kind, review.release, review.state) == ("release", release.id, "open")
