"""Locations: what they mean, what is wrong with them, and that none of the errors contains a password."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from ace.skillbook import Skillbook, SkillbookError, SkillbookFileError, SkillbookStoreError
from ace_postgres import PostgresStore
from ace_postgres.database import MIGRATIONS, bring_up_to_date
from tests.support.command_line import ace
from tests.support.postgres_server import PASSWORD

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("postgresql://ann:{}@127.0.0.1/ace", "the name of the book is missing; append ?book=NAME"),
        ("postgresql://ann:{}@127.0.0.1/ace?book=", "the name of the book is missing"),
        ("postgresql://ann:{}@127.0.0.1/ace?book=a&book=b", "book= is given twice"),
        ("postgresql://ann:{}@127.0.0.1/ace?book=a&schema=A-b", "'A-b' is not a valid schema"),
        ("postgresql://ann:p@{}@127.0.0.1/ace?book=a", "write %40"),
        ("postgresql://ann:p/{}@127.0.0.1/ace?book=a", "write %40"),
        ("postgresql://ann:p?{}@127.0.0.1/ace?book=a", "write %40"),
        ("postgresql://ann:p#{}@127.0.0.1/ace?book=a", "write %40"),
        ("postgresql://ann:{}%zz@127.0.0.1/ace?book=a", "the address cannot be read"),
        ("postgresql://ann@127.0.0.1/ace?book=a&pasword={}", "127.0.0.1/ace: the address cannot be read"),
        ("postgresql://ann:{}@127.0.0.1:1/ace?book=a", "cannot be opened: connection failed"),
        ("postgresql://ann@127.0.0.1:1/ace?book=a&password={}", "cannot be opened: connection failed"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(location: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SkillbookError) as raised:
        Skillbook.open(location.format(SECRET))
    assert said in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_wrong_password_is_a_message_of_one_line(database: str, tmp_path: Path) -> None:
    place = f"{database.replace(PASSWORD, SECRET)}&book=a"
    if place == f"{database}&book=a":
        pytest.skip("the database of ACE_POSTGRES_URL is not opened with our password")
    done = ace("skillbook", "show", "--skillbook", place, folder=tmp_path)
    assert done.code == 2 and done.out == "", done
    assert "password authentication failed" in done.err and done.err.count("\n") == 1
    assert SECRET not in done.err


def test_the_password_may_come_from_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with Skillbook.open(f"{database.replace(f':{PASSWORD}', '')}&book=environment") as book:
        assert len(book) == 0


def test_books_and_schemas_of_one_database_are_separate(database: str) -> None:
    name = uuid.uuid4().hex
    other = database.replace("schema=ace_test_", "schema=ace_test_x")
    places = [f"{database}&book={name}", f"{database}&book={name}%20%26%00%2B", f"{other}&book={name}"]
    for number, place in enumerate(places):
        with Skillbook.open(place) as book:
            assert book.version == 0
            book.add_skill("a", f"Skill {number}.")
    for number, place in enumerate(places):
        with Skillbook.open(place) as book:
            assert [skill.content for skill in book.skills()] == [f"Skill {number}."]
    with psycopg.connect(database.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {other.partition('schema=')[2]} CASCADE")


def test_reading_a_book_that_does_not_exist_creates_none(postgres: str, database: str) -> None:
    with Skillbook.open(postgres) as book:
        assert len(book) == 0
    schema, name = database.partition("schema=")[2], postgres.partition("book=")[2]
    with psycopg.connect(database.partition("?")[0]) as connection:
        found = connection.execute(f"SELECT count(*) FROM {schema}.book WHERE name = %s", (name,)).fetchone()
    assert found == (0,)


@pytest.fixture
def new_schema(database: str) -> str:
    """The location of a book in a schema that does not exist yet."""
    return f"{database}{uuid.uuid4().hex[:8]}&book=a"


def schema_of(location: str) -> str:
    return location.partition("schema=")[2].partition("&")[0]


def test_threads_that_open_a_new_schema_at_once_create_it_once(new_schema: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(PostgresStore, [new_schema] * 8))
    assert [store.version() for store in stores] == [0] * 8
    for store in stores:
        store.close()
    drop(new_schema)


def drop(location: str) -> None:
    with psycopg.connect(location.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(location)} CASCADE")


def test_tables_of_a_newer_version_are_refused(new_schema: str) -> None:
    PostgresStore(new_schema).close()
    with psycopg.connect(new_schema.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"INSERT INTO {schema_of(new_schema)}.migration VALUES ({len(MIGRATIONS) + 1}, now())")
    with pytest.raises(SkillbookFileError, match="upgrade ace-postgres") as raised:
        PostgresStore(new_schema)
    assert PASSWORD not in str(raised.value)
    drop(new_schema)


def test_older_tables_are_migrated_once(new_schema: str) -> None:
    store = PostgresStore(new_schema)
    with psycopg.connect(new_schema.partition("?")[0], autocommit=True) as connection:
        for _ in range(2):
            bring_up_to_date(connection, store.location, (*MIGRATIONS, ("CREATE TABLE added (number bigint)",)))
        rows = connection.execute(f"SELECT number FROM {schema_of(new_schema)}.migration ORDER BY 1").fetchall()
    assert rows == [(1,), (2,)]
    store.close()
    drop(new_schema)


def test_existing_tables_need_no_right_to_create_any(new_schema: str) -> None:
    PostgresStore(new_schema).close()
    schema, role = schema_of(new_schema), f"role_{uuid.uuid4().hex}"
    with psycopg.connect(new_schema.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
    place = f"postgresql://{role}:{SECRET}@{new_schema.partition('@')[2]}"
    with Skillbook.open(place) as book:
        book.add_skill("a", "One.")
        assert len(book) == 1
    with pytest.raises(SkillbookStoreError, match="permission denied"):
        PostgresStore(place.replace(schema, f"{schema}_new"))
    drop(new_schema)
    with psycopg.connect(new_schema.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"DROP ROLE {role}")


LOCK = """
import sys
from ace_postgres import PostgresStore
with PostgresStore(sys.argv[1]).run_lock("run") as locked:
    print(locked, flush=True)
    sys.stdin.read()
"""


def test_a_run_is_locked_until_its_process_is_killed(postgres: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    store = PostgresStore(postgres)
    command = [sys.executable, "-c", LOCK, postgres]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        with store.run_lock("run") as locked, store.run_lock("another") as other:
            assert (locked, other) == (False, True)
        holder.kill()
    while True:
        with store.run_lock("run") as locked:
            if locked:
                break
    store.close()


def test_all_locks_of_a_store_need_one_connection(postgres: str) -> None:
    store, other = PostgresStore(postgres), PostgresStore(postgres)
    query = "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'"
    with psycopg.connect(store.location.conninfo, autocommit=True) as connection:
        with ExitStack() as locks:
            for number in range(150):  # more than the connections of a server
                assert locks.enter_context(store.run_lock(f"content {number}"))
            assert connection.execute(query).fetchall() == [(1,)]
            with store.run_lock("content 3") as again, other.run_lock("content 3") as elsewhere:
                assert (again, elsewhere) == (False, False)
        assert connection.execute(query).fetchall() == [(0,)]
    with other.run_lock("content 3") as locked:
        assert locked
    store.close()
    other.close()


def test_a_forked_process_has_its_own_connections(postgres: str) -> None:
    with Skillbook.open(postgres) as book:
        book.add_skill("a", "Of the parent.")
        child = os.fork()
        if child == 0:
            try:
                book.add_skill("a", "Of the child.")
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        book.add_skill("a", "Of the parent again.")
        book.refresh()
        assert len(book) == 3
