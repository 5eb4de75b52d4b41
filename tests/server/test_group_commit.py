"""Rows and changes that are written together."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from ace_server import tables
from ace_server.database import Database, DatabaseUnavailableError
from ace_server.group_commit import GroupWriter
from tests.server.service_world import wait_until


def token(name: str) -> dict[str, object]:
    return {"hash": name, "at": 0.0, "expires_at": 0.0}


def insert(name: str, connection: sa.Connection) -> None:
    connection.execute(sa.insert(tables.login_token), token(name))


def stored(database: Database) -> set[str]:
    with database.reading() as connection:
        return set(connection.scalars(sa.select(tables.login_token.c.hash)))


def test_rows_are_collected_and_inserted_with_one_statement(database: Database) -> None:
    writer = GroupWriter(database)
    names = [f"row {number}" for number in range(100)]
    inserts: list[str] = []

    def note(connection: object, cursor: object, statement: str, *others: object) -> None:
        if statement.startswith("INSERT"):
            inserts.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    for name in names:
        writer.insert_later(tables.login_token, partial(token, name))
    wait_until(lambda: stored(database) == set(names))
    writer.close()
    assert len(inserts) < 50  # a busy machine may need more than one, but never one for each row


def test_a_change_that_is_waited_for_makes_everything_before_it_durable(database: Database) -> None:
    writer = GroupWriter(database)

    async def give(number: int) -> set[str]:
        writer.insert_later(tables.login_token, partial(token, f"row {number}"))
        writer.write_later(partial(insert, f"late {number}"))
        await writer.write(partial(insert, f"own {number}"))
        return stored(database)

    for number in range(20):
        expected = {f"{kind} {number}" for kind in ("row", "late", "own")}
        assert expected <= asyncio.run(give(number))
    writer.close()


def test_a_row_that_cannot_be_inserted_does_not_hold_up_the_others(database: Database) -> None:
    writer = GroupWriter(database)
    for name in ("first", "twice", "twice", "last"):
        writer.insert_later(tables.login_token, partial(token, name))
    writer.close()
    assert stored(database) == {"first", "twice", "last"}
    assert writer.lost == 1


def test_changes_that_are_made_one_by_one_are_kept_while_the_database_is_not_available(database: Database) -> None:
    writer = GroupWriter(database)
    is_writing, is_complete, is_away, was_refused = (threading.Event() for _ in range(4))

    def hold(connection: sa.Connection) -> None:
        is_writing.set()
        is_complete.wait()

    def go_away(connection: sa.Connection) -> None:
        insert("before", connection)
        is_away.set()

    def refuse(*given: object) -> None:
        if is_away.is_set():
            was_refused.set()
            raise OperationalError("", {}, Exception("the server closed the connection unexpectedly"))

    async def give() -> None:
        writer.write_later(hold)
        await asyncio.to_thread(is_writing.wait)
        for name in ("first", "twice", "twice"):  # they make the writer repeat the changes of the group one by one
            writer.insert_later(tables.login_token, partial(token, name))
        writer.write_later(go_away)
        writer.write_later(partial(insert, "audit"), last=True)
        writer.insert_later(tables.login_token, partial(token, "row"))
        urgent = asyncio.ensure_future(writer.write(partial(insert, "waited for")))
        await asyncio.sleep(0)
        writer.write_later(partial(insert, "change"))
        is_complete.set()
        await asyncio.to_thread(was_refused.wait)
        with pytest.raises(DatabaseUnavailableError, match="is not available"):
            await urgent
        is_away.clear()
        await writer.write(partial(insert, "after"))

    event.listen(database.engine, "before_cursor_execute", refuse)
    asyncio.run(give())
    assert stored(database) == {"first", "twice", "before", "row", "change", "audit", "after"}
    writer.close()
    assert writer.lost == 1


def test_a_caller_that_is_cancelled_does_not_stop_the_writer(database: Database) -> None:
    writer = GroupWriter(database)
    is_writing, may_end = threading.Event(), threading.Event()

    def slow(connection: sa.Connection) -> None:
        is_writing.set()
        may_end.wait()
        insert("given up", connection)

    async def give_up() -> None:
        waiting = asyncio.ensure_future(writer.write(slow))
        await asyncio.to_thread(is_writing.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    writer.write_later(partial(insert, "next"))
    may_end.set()
    writer.close()
    assert stored(database) == {"given up", "next"}


def test_closing_writes_what_was_given(database: Database) -> None:
    writer = GroupWriter(database)
    with ThreadPoolExecutor(4) as pool:
        for number in range(200):
            pool.submit(writer.insert_later, tables.login_token, partial(token, f"row {number}"))
    writer.close()
    assert len(stored(database)) == 200
