"""The audit log: every manipulation of a row is noticed, on both databases and with many writers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_server.audit import AuditHead, check, purge, record
from ace_server.database import Database, now
from ace_server.tables import audit, audit_head


def fill(database: Database, count: int) -> None:
    with database.writing() as connection:
        for number in range(count):
            record(connection, who="key_1", what="text.read", target=f"req_{number}", origin="127.0.0.1")


def execute(database: Database, *statements: sa.Executable) -> None:
    with database.writing() as connection:
        for statement in statements:
            connection.execute(statement)


def test_an_empty_log_and_a_full_one_are_right(database: Database) -> None:
    assert check(database) == check(database)
    assert (check(database).rows, check(database).problem) == (0, None)
    fill(database, 5)
    checked = check(database)
    assert (checked.rows, checked.problem, checked.head.number) == (5, None, 5)


def test_a_row_says_who_did_what_when_and_from_where(database: Database) -> None:
    before = now()
    with database.writing() as connection:
        record(connection, who="key_1", what="release.publish", target="rel_7", origin="10.0.0.1")
        record(connection, who="-", what="login.rejected")
    with database.reading() as connection:
        first, second = connection.execute(sa.select(audit).order_by(audit.c.number)).all()
    assert (first.who, first.what, first.object, first.origin) == ("key_1", "release.publish", "rel_7", "10.0.0.1")
    assert before <= first.at <= now()
    assert (second.who, second.object, second.origin, second.previous) == ("-", None, None, first.hash)


CHANGES: dict[str, Callable[[sa.Connection, int], object]] = {
    "who": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(who="key_2")),
    "what": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(what="text.reae")),
    "object": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(object=None)),
    "origin": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(origin="127.0.0.2")),
    "time": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(at=audit.c.at + 0.000001)),
    "previous": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(previous="0" * 63 + "1")),
    "hash": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(hash="0" * 64)),
    "number": lambda c, n: c.execute(sa.update(audit).where(audit.c.number == n).values(number=99)),
    "removed": lambda c, n: c.execute(sa.delete(audit).where(audit.c.number == n)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("number", [1, 3, 6])
def test_one_manipulated_row_is_noticed(tmp_path: Path, change: str, number: int) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    fill(database, 6)
    with database.writing() as connection:
        CHANGES[change](connection, number)
    problem = check(database).problem
    assert problem is not None
    assert f"row {number}" in problem or f"row {number + 1}" in problem
    database.close()


def test_a_manipulated_row_is_noticed_on_both_databases(database: Database) -> None:
    fill(database, 6)
    execute(database, sa.update(audit).where(audit.c.number == 3).values(object="req_other"))
    assert check(database).problem == "row 3 was changed"


def swap(database: Database, first: int, second: int) -> None:
    move = sa.update(audit)
    steps = ((first, 1_000), (second, first), (1_000, second))
    execute(database, *(move.where(audit.c.number == old).values(number=new) for old, new in steps))


@settings(max_examples=40)
@given(st.data())
def test_every_exchange_and_removal_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 12))
    numbers = st.integers(1, count)
    exchanged: list[int] = []
    removed: set[int] = set()
    if data.draw(st.booleans()):
        exchanged = data.draw(st.lists(numbers, min_size=2, max_size=2, unique=True))
    else:
        removed = data.draw(st.sets(numbers, min_size=1))
    with closing(Database(tmp_path_factory.mktemp("audit") / "server.db")) as database:
        database.migrate()
        fill(database, count)
        assert check(database).problem is None
        if exchanged:
            swap(database, *exchanged)
        else:
            execute(database, sa.delete(audit).where(audit.c.number.in_(removed)))
        assert check(database).problem is not None
        fill(database, 2)  # that the log grows on does not hide it
        assert check(database).problem is not None


def test_a_removed_head_is_noticed_for_good(database: Database) -> None:
    fill(database, 3)
    execute(database, sa.delete(audit_head))
    assert check(database).problem == "the table audit_head is empty"
    execute(database, sa.delete(audit).where(audit.c.number == 3))
    fill(database, 2)
    assert check(database).problem == "row 3 is missing"


def test_a_log_that_was_replaced_as_a_whole_is_noticed_by_a_noted_head(database: Database) -> None:
    fill(database, 4)
    noted = AuditHead.parse(str(check(database).head))
    fill(database, 2)
    assert check(database, known=noted).problem is None
    execute(database, sa.delete(audit), sa.delete(audit_head))
    fill(database, 6)
    assert check(database).problem is None
    assert check(database, known=noted).problem == "row 4 is not the one that was noted"
    assert check(database, known=AuditHead(7, noted.hash)).problem == "row 7, which was noted, is missing"


@pytest.mark.parametrize("text", ["", "12", "12:abc", "x:" + "0" * 64])
def test_a_head_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NUMBER:HASH"):
        AuditHead.parse(text)


def test_old_rows_are_purged_and_the_rest_is_still_a_chain(database: Database) -> None:
    fill(database, 6)
    noted = check(database).head
    with database.reading() as connection:
        times = connection.scalars(sa.select(audit.c.at).order_by(audit.c.number)).all()
    with database.writing() as connection:
        assert purge(connection, times[2]) == 2
    fill(database, 1)
    checked = check(database, known=noted)
    assert (checked.rows, checked.problem) == (5, None)
    execute(database, sa.delete(audit).where(audit.c.number == 3))
    assert check(database).problem == "row 3 is missing"


def test_the_newest_row_is_never_purged(database: Database) -> None:
    with database.writing() as connection:
        assert purge(connection, now()) == 0
    fill(database, 3)
    with database.writing() as connection:
        assert purge(connection, now() + 60) == 2
    fill(database, 1)
    assert (check(database).rows, check(database).problem) == (2, None)


def test_a_row_is_only_there_if_the_change_is(database: Database) -> None:
    with pytest.raises(RuntimeError), database.writing() as connection:  # noqa: PT012  # the row is part of it
        record(connection, who="key_1", what="key.revoke", target="key_2")
        raise RuntimeError
    fill(database, 1)
    assert (check(database).rows, check(database).problem) == (1, None)


def test_texts_that_a_client_chose_are_shortened_and_cannot_write_to_a_terminal(database: Database) -> None:
    ids = " ".join(f"req_{number:032}" for number in range(200))
    with database.writing() as connection:
        record(
            connection, who="-", what="login.rejected", target=ids, origin="10.0.0.1\x1b[2J\x00\n\ud800" + "x" * 1_000
        )
    with database.reading() as connection:
        origin = connection.scalar(sa.select(audit.c.origin))
        assert connection.scalar(sa.select(audit.c.object)) == ids  # none of what was read is left out
    assert origin is not None
    assert origin.startswith("10.0.0.1\ufffd[2J\ufffd\ufffd\ufffdxxx")
    assert len(origin) == 200
    assert check(database).problem is None


WRITER = """
import sys
from ace_server.audit import record
from ace_server.database import Database

database = Database(sys.argv[1])
for number in range(25):
    with database.writing() as connection:
        record(connection, who=sys.argv[2], what="text.read", target=f"req_{number}")
"""


def test_writers_in_threads_and_processes_make_one_chain(database: Database) -> None:
    location = str(database.location)
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, location, f"p{number}"]) for number in range(2)]

    def write(name: str) -> None:
        for number in range(25):
            with database.writing() as connection:
                record(connection, who=name, what="text.read", target=f"req_{number}")

    threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert check(database).problem is None  # also while rows are added
    assert [process.wait() for process in processes] == [0, 0]
    for thread in threads:
        thread.join()
    checked = check(database)
    assert (checked.rows, checked.problem) == (125, None)


def test_a_row_can_be_read_with_sqlite_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / "server.db")
    database.migrate()
    fill(database, 2)
    database.close()
    with closing(sqlite3.connect(tmp_path / "server.db")) as connection:
        assert connection.execute("SELECT number, who, what FROM audit ORDER BY number").fetchall() == [
            (1, "key_1", "text.read"),
            (2, "key_1", "text.read"),
        ]
