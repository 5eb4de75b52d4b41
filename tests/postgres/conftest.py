"""A database for the tests, and a new book in it for each."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The location of a database, without a book, in a schema of its own."""
    schema = f"ace_test_{uuid.uuid4().hex[:12]}"
    given = os.environ.get("ACE_POSTGRES_URL")
    if given:
        yield f"{given}{'&' if '?' in given else '?'}schema={schema}"
        with psycopg.connect(given, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        return
    with PostgresServer() as server:
        yield f"{server.address}?schema={schema}"


@pytest.fixture
def postgres(database: str) -> str:
    """The location of a book that does not exist yet."""
    return f"{database}&book={uuid.uuid4().hex}"
