"""The database of a skillbook: its location, its tables, its connections, and how their errors are reported."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final
from urllib.parse import unquote

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from ace.skillbook import SkillbookFileError, SkillbookStoreError, shown_location

__all__ = ["MIGRATIONS", "Database", "PostgresLocation"]

# psycopg reports every failed attempt to connect as a warning. In a program without handlers of its own, Python would
# print these on standard error; our errors contain the reason.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

PATIENCE: Final = 30.0
"""How long to retry a lost connection, in seconds."""
LARGEST_POOL: Final = 4
_SECONDS_BETWEEN_TRIES: Final = 0.25
_POOL_SECONDS: Final = 2.0
"""How long to wait for a connection before asking the pool again, which makes it try to connect at once.

Otherwise it waits twice as long after each failure, so that it would miss a server that is back after 16 seconds.
"""
_CONNECT_SECONDS: Final = 10
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_LOCK_CLASS: Final = 0x41434542
"""The first of the two numbers of our advisory locks, "ACEB", which keeps them apart from those of other programs."""

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE book (
            book bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text NOT NULL UNIQUE,
            version bigint NOT NULL, next_id bigint NOT NULL,
            id_floor bigint NOT NULL, next_position bigint NOT NULL)""",
        """CREATE TABLE skill (
            book bigint NOT NULL REFERENCES book, id text NOT NULL,
            position bigint NOT NULL, data text NOT NULL, embedding bytea,
            PRIMARY KEY (book, id))""",
        """CREATE TABLE decision (
            book bigint NOT NULL REFERENCES book,
            first_id text NOT NULL, second_id text NOT NULL, data text NOT NULL,
            PRIMARY KEY (book, first_id, second_id))""",
        """CREATE TABLE event (
            book bigint NOT NULL REFERENCES book, version bigint NOT NULL,
            at text NOT NULL, author text NOT NULL,
            run text, epoch bigint, sample text, key_hash bytea,
            operations text NOT NULL, skipped text NOT NULL, token uuid NOT NULL,
            PRIMARY KEY (book, version), UNIQUE (book, key_hash))""",
        """CREATE TABLE progress (
            book bigint NOT NULL REFERENCES book,
            number bigint GENERATED ALWAYS AS IDENTITY,
            run text NOT NULL, epoch bigint NOT NULL, sample text NOT NULL, key_hash bytea NOT NULL,
            at text NOT NULL, note text NOT NULL,
            PRIMARY KEY (book, key_hash))""",
        """CREATE TABLE answer (
            book bigint NOT NULL REFERENCES book,
            key text NOT NULL, key_hash bytea NOT NULL,
            answer text NOT NULL, at text NOT NULL, details text NOT NULL,
            PRIMARY KEY (book, key_hash))""",
    ),
)
"""The statements that migrate from each version of the tables to the next.

An index entry has at most some 2,700 bytes, so that long keys are compared by their SHA-256 in `key_hash`. `token`
identifies one attempt to commit.
"""


@final
@dataclass(frozen=True)
class PostgresLocation:
    """A parsed location.

    Example:
        >>> location = PostgresLocation.parse("postgresql://ann@db/ace?book=support&sslmode=require")
        >>> location.book, location.schema, location.conninfo
        ('support', 'ace', 'postgresql://ann@db/ace?sslmode=require')
    """

    text: str = field(repr=False)
    """The location as the user gave it."""
    conninfo: str = field(repr=False)
    """The address for libpq."""
    book: str
    schema: str

    @classmethod
    def parse(cls, text: str) -> PostgresLocation:
        """Return a parsed location.

        Args:
            text: `postgresql://USER@HOST/DATABASE?book=NAME`, optionally with `&schema=NAME` and parameters of libpq.

        Raises:
            SkillbookStoreError: If it is not such a location. The error does not contain the password.
        """
        address, _, query = text.partition("?")
        scheme, _, rest = address.partition("://")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        # libpq would split such a location elsewhere than the user meant, and quote parts of the password in its error.
        if text.count("@") > ("@" in authority) or "#" in text:
            raise _refused(text, "a user name, password or parameter contains @, #, / or ?; write %40, %23, %2F or %3F")
        ours: dict[str, str] = {}
        others = []
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            if name not in ("book", "schema"):
                others.append(part)
            elif name in ours:
                raise _refused(text, f"{name}= is given twice")
            else:
                ours[name] = unquote(value)
        book, schema = ours.get("book", ""), ours.get("schema", "ace")
        if not book:
            raise _refused(text, "the name of the book is missing; append ?book=NAME")
        if not _SCHEMA.fullmatch(schema):
            raise _refused(text, f"{schema!r} is not a valid schema; use up to 63 of a-z, 0-9 and _")
        conninfo = f"{scheme}://{rest}" + ("?" + "&".join(others) if others else "")
        try:
            conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            # libpq quotes what it could not read. The parameters are not shown: one may be a misspelt "password".
            raise _refused(address, "the address cannot be read; the form is USER@HOST/DATABASE?book=NAME") from None
        return cls(text, conninfo, book, schema)


def _refused(text: str, reason: str) -> SkillbookStoreError:
    return SkillbookStoreError(f"{shown_location(text)}: {reason}")


@final
class Database:
    """A pool of connections to the database of a location, shared by all threads. After a fork, the child has its own.

    Raises:
        SkillbookStoreError: If the database cannot be reached, or its tables cannot be created.
        SkillbookFileError: If a newer version of ACE created its tables. They are not changed.
    """

    def __init__(self, location: PostgresLocation) -> None:
        self.location = location
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._process = os.getpid()
        self._inherited: list[ConnectionPool[Connection]] = []
        with self.naming_errors("cannot be opened"), self.connected() as connection:
            bring_up_to_date(connection, location)

    def connected(self) -> Connection:
        """Return a new connection outside the pool."""
        return psycopg.connect(autocommit=True, **self._parameters())

    def run(self, what: str, work: Callable[[Connection], Result]) -> Result:
        """Call a function with a connection, and again when the connection is lost, for up to 30 seconds.

        Args:
            what: The operation that failed, for the error: the rest of a sentence about the store.
            work: The function. It must be safe to call it again after it was interrupted at any point.

        Raises:
            SkillbookStoreError: If the database reports an error, or remains unreachable.
        """
        until: float | None = None
        with self.naming_errors(what):
            while True:
                connection: Connection | None = None
                try:
                    with self._open_pool().connection(_POOL_SECONDS) as connection:
                        return work(connection)
                except PoolClosed:
                    continue  # another thread has closed the store; it is opened again
                except psycopg.OperationalError as error:
                    until = until or time.monotonic() + PATIENCE
                    if not _is_lost(error, connection) or time.monotonic() > until:
                        if isinstance(error, PoolTimeout):
                            self.connected().close()  # raises the error that explains the timeout
                        raise
                    time.sleep(_SECONDS_BETWEEN_TRIES)

    @contextlib.contextmanager
    def naming_errors(self, what: str) -> Iterator[None]:
        """Raise errors of psycopg as those of a store.

        Args:
            what: The operation that failed, for the error: the rest of a sentence about the store.
        """
        try:
            yield
        except (psycopg.Error, UnicodeEncodeError) as error:
            message = " ".join(str(error).split())
            shown = shown_location(self.location.text)
            raise SkillbookStoreError(f"the store {shown} {what}: {message}") from error

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is not None and self._process == os.getpid():
                pool.close()

    def _open_pool(self) -> ConnectionPool[Connection]:
        """Return the pool of this process: connections that were inherited through a fork must not be used."""
        with self._lock:
            if self._pool is not None and self._process != os.getpid():
                self._inherited.append(self._pool)  # collecting it would wait for threads that exist in the parent only
                self._pool = None
            if self._pool is None:
                self._process = os.getpid()
                self._pool = ConnectionPool(
                    kwargs={"autocommit": True, **self._parameters()},
                    configure=self._configure,
                    min_size=1,
                    max_size=LARGEST_POOL,
                    reconnect_timeout=_POOL_SECONDS / 2,
                    open=True,
                )
                weakref.finalize(self, _close_in_its_process, self._pool, self._process)
            return self._pool

    def _parameters(self) -> dict[str, Any]:
        parameters = {"connect_timeout": _CONNECT_SECONDS, "application_name": "ace"}
        parameters |= conninfo_to_dict(self.location.conninfo)
        return {**parameters, "client_encoding": "UTF8"}

    def _configure(self, connection: Connection) -> None:
        connection.execute(sql.SQL("SET search_path TO {}, pg_temp").format(sql.Identifier(self.location.schema)))
        # A commit must be on disk when it returns, even where the default of the database is faster.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )


def bring_up_to_date(
    connection: Connection, location: PostgresLocation, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Create the schema and its tables, or migrate older ones. Tables of the newest version are not changed.

    Args:
        connection: A connection in autocommit mode.
        location: The location, which names the schema.
        migrations: The statements that migrate from each version to the next.

    Raises:
        SkillbookFileError: If a newer version of ACE created the tables.
    """
    if _version(connection, location, len(migrations)) == len(migrations):
        return
    schema = sql.Identifier(location.schema)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # sees what others did before it got the lock
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK_CLASS, location.schema))
        version = _version(connection, location, len(migrations))
        if version == 0:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(schema))
        if version == 0:
            connection.execute("CREATE TABLE migration (number bigint PRIMARY KEY, at timestamptz NOT NULL)")
        for number, statements in enumerate(migrations[version:], version + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO migration VALUES (%s, now())", (number,))


def _version(connection: Connection, location: PostgresLocation, newest: int) -> int:
    """Return the version of the tables; 0 if there are none."""
    # Not to_regclass, which would not see tables that were created while this process waited for the lock.
    query = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'migration'"
    if connection.execute(query, (location.schema,)).fetchone() is None:
        return 0
    table = sql.Identifier(location.schema, "migration")
    row = connection.execute(sql.SQL("SELECT coalesce(max(number), 0) FROM {}").format(table)).fetchone()
    version: int = row[0] if row is not None else 0
    if version > newest:
        raise SkillbookFileError(
            f"its tables have version {version}, but this version of ace-postgres reads versions up to {newest}; "
            "upgrade ace-postgres",
            path=location.text,
        )
    return version


def lock_numbers(*names: object) -> tuple[int, int]:
    """Return the numbers of the advisory lock for these names."""
    digest = hashlib.sha256(repr(names).encode("utf-8", "backslashreplace")).digest()
    return _LOCK_CLASS, int.from_bytes(digest[:4], "big", signed=True)


def _is_lost(error: psycopg.OperationalError, connection: Connection | None) -> bool:
    """Return whether an error means that the connection has ended, rather than that a statement failed."""
    ends = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
    return connection is None or connection.closed or isinstance(error, ends)


def _close_in_its_process(pool: ConnectionPool[Connection], process: int) -> None:
    if os.getpid() == process:
        pool.close()
