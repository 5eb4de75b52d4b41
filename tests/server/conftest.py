"""Databases of the service for the tests, on SQLite and on Postgres."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from ace_server.database import Database
from tests.support.postgres_server import PostgresServer

HERE = Path(__file__).parent
STARTS_A_WORKER = {
    HERE / name
    for name in (
        "pages/test_service.py",
        "test_commands.py",
        "test_faults.py",
        "test_killed_server.py",
        "test_kills.py",
        "test_learning.py",
        "test_private_learning.py",
        "test_quick_start.py",
    )
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that start a worker where DBOS needs a newer SQLite, see `ace_server.jobs`."""
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        for item in items:
            if item.path in STARTS_A_WORKER:
                item.add_marker(pytest.mark.skip(reason="the worker needs SQLite 3.42 on this version of Python"))


@dataclass
class StoppedClock:
    """The time of the library `limits`, which only a test moves. So it does not matter how long requests take."""

    now: float = field(default_factory=time.time)

    def time(self) -> float:
        return self.now


@pytest.fixture
def limiter_clock(monkeypatch: pytest.MonkeyPatch) -> StoppedClock:
    """The clock of the rates of keys and of wrong logins."""
    clock = StoppedClock()
    monkeypatch.setattr("limits.storage.memory.time", clock)
    return clock


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a Postgres database. The books of a service on Postgres are there too, in ace-postgres."""
    pytest.importorskip("ace_postgres")
    given = os.environ.get("ACE_POSTGRES_URL")
    if given:
        yield given
        return
    with PostgresServer() as server:
        yield server.address


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[str]:
    """The location of a database of the service that does not exist yet."""
    schema = f"ace_test_{uuid.uuid4().hex[:12]}"
    yield f"{postgres}{'&' if '?' in postgres else '?'}schema={schema}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}", "{schema}_books" CASCADE')


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A migrated database of the service."""
    is_sqlite = request.param == "sqlite"
    found = Database(tmp_path / "server.db" if is_sqlite else request.getfixturevalue("postgres_database"))
    found.migrate()
    yield found
    found.close()
