"""A service with a scripted model and books of its own, without the HTTP part."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ace.pipeline import CancellationToken
from ace.providers import LiteLLMClient
from ace_server import tables
from ace_server.batches import make_batches
from ace_server.database import Database, Row, new_id, now
from ace_server.learning import learn
from ace_server.seal import Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings

FAST = {
    "schedule_seconds": 0.1,
    "heartbeat_seconds": 0.1,
    "silent_seconds": 1.0,
    "retry_seconds": 0.05,
    "batch_age": 0.0,
    "reflect_workers": 2,
}
"""Settings with which a test does not wait."""


SEAL_KEY = new_key()
SEAL = Seal([SEAL_KEY])


def service_on(database: Database, folder: Path, api_base: str, **settings: Any) -> Service:
    """Return a service whose data is in the folder, and whose model is at the address.

    Args:
        database: The database, migrated.
        folder: The data folder.
        api_base: The address of the model.
        **settings: Settings that differ from those of `FAST`.
    """
    chosen = {"data": folder, **FAST, **settings}
    if not database.is_sqlite:
        chosen["database"] = database.location
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k", max_retries=0)
    return Service(
        settings=ServerSettings(**chosen), database=database, seal=SEAL, client=client, model="openai/scripted"
    )


def add_book(service: Service, name: str = "default", **values: Any) -> None:
    """Add a book."""
    (service.settings.data / "books").mkdir(exist_ok=True)
    if service.settings.database is not None:  # beside the schema of the service's tables
        values.setdefault("location", f"{service.settings.database}_books&book={name}")
    with service.database.writing() as connection:
        connection.execute(sa.insert(tables.book).values(name=name, at=now(), **values))


def add_request(service: Service, word: str, *, book: str = "default", **values: Any) -> str:
    """Add a request about a word that the model does not know yet, and return its id."""
    request = new_id("req")
    sealed = {
        name: service.seal.seal(text)
        for name, text in {
            "question": f"What about {word}?",
            "answer": "unknown",
            "reasoning": "I know nothing.",
        }.items()
    }
    figures = {"model_calls": 1, "prompt_tokens": 10, "completion_tokens": 10, "seconds": 0.1}
    row = {"id": request, "at": now(), "book": book, "key": "key_1", "skill_ids": "", **sealed, **figures, **values}
    with service.database.writing() as connection:
        connection.execute(sa.insert(tables.request).values(row))
    return request


def add_feedback(service: Service, request: str | None, *, book: str = "default", **values: Any) -> str:
    """Add feedback, and return its id. `correction`, `comment` and `trace` are sealed."""
    feedback = new_id("fbk")
    sealed = {
        name: service.seal.seal(value) if name in ("correction", "comment", "trace") else value
        for name, value in values.items()
    }
    row = {"id": feedback, "at": now(), "book": book, "kind": "feedback", "key": "key_1", "state": "new"}
    with service.database.writing() as connection:
        connection.execute(sa.insert(tables.feedback).values(row | {"request": request} | sealed))
    return feedback


def rows_of(service: Service, table: sa.Table, **values: Any) -> list[Row]:
    """Return the rows of a table that have these values, in the order in which they were added."""
    conditions = [table.c[name] == value for name, value in values.items()]
    with service.database.reading() as connection:
        return list(connection.execute(sa.select(table).where(*conditions).order_by(table.c.at)))


def states(service: Service) -> list[str]:
    """Return the states of the feedback, in the order in which it was given."""
    return [row.state for row in rows_of(service, tables.feedback)]


_MOST_LOOKS = 6_000
"""How often a wait looks without seeing anything change, before it fails."""
_LOOKS_PER_PROGRESS = 50
"""How often it looks before it asks what has changed, which takes far more time than most looks."""


def wait_until(is_so: Callable[[], bool], progress: Callable[[], object] = lambda: None) -> None:
    """Wait until something is so. It fails if it is not, and nothing has changed any more at thousands of looks.

    Args:
        is_so: Whether it is so.
        progress: What changes while it is worth to wait.
    """
    seen, looks = progress(), 0
    while not is_so():
        assert looks < _MOST_LOOKS, f"what is waited for does not happen; the last that was seen: {seen}"
        time.sleep(0.02)
        looks += 1
        if looks % _LOOKS_PER_PROGRESS == 0:
            before, seen = seen, progress()
            looks = looks if seen == before else 0


def learning_states(service: Service) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the states of the feedback, and the states and attempts of the batches."""
    batches = [(row.state, row.attempts) for row in rows_of(service, tables.batch)]
    return states(service), batches


def wait_for_batches(service: Service, count: int = 1) -> list[Row]:
    """Wait until this many batches have ended, and return them."""
    wait_until(
        lambda: sum(row.state in ("learned", "failed") for row in rows_of(service, tables.batch)) >= count,
        lambda: learning_states(service),
    )
    return rows_of(service, tables.batch)


def wait_until_learned(service: Service, is_running: Callable[[], bool]) -> None:
    """Wait until all feedback is learned. It fails if a batch fails, or if the process that learns has ended."""

    def is_learned() -> bool:
        feedback, batches = learning_states(service)
        assert "failed" not in feedback, batches
        assert is_running(), f"the service has ended; the feedback is {feedback}"
        return {*feedback, *(state for state, _ in batches)} == {"learned"}

    wait_until(is_learned, lambda: learning_states(service))


def learn_all(service: Service) -> list[str]:
    """Make the batches that are due, learn from each once in this thread, and return how each attempt ended."""
    make_batches(service)
    queued = [row.id for row in rows_of(service, tables.batch) if row.state in ("queued", "running")]
    return [learn(service, batch, worker="wrk_1", token=CancellationToken()) for batch in queued]
