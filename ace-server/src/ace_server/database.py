"""The database of the service: SQLite in a data folder, or Postgres.

Every transaction is either `reading()` or `writing()`. On SQLite, `writing` takes the write lock when it begins; so it
waits for other writers there, and not at its first change, where SQLite could only fail. Tables are in
`ace_server.tables`.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ace.integrations import open_private, own_file
from ace.skillbook import shown_location
from ace_server.tables import METADATA, batch, feedback, logout, schema_version

if TYPE_CHECKING:
    from sqlite3 import Connection as SQLiteConnection

    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

__all__ = [
    "Database",
    "DatabaseUnavailableError",
    "DatabaseVersionError",
    "Row",
    "new_id",
    "now",
]

Row = sa.Row[*tuple[Any, ...]]
"""A row of any table."""

_SCHEMA: Final = "ace_server"
_BUSY_MILLISECONDS: Final = 10_000
_CONNECT_SECONDS: Final = 5
_WRITES: Final = "ace_writes"
_MIGRATION_LOCK: Final = 0x41434553
"""The number of our advisory lock, "ACES"."""


def _add_figures_and_hash_idempotency_keys(connection: sa.Connection) -> None:
    """Add the columns of version 2, unless `create_all` has just created them.

    Idempotency keys were stored as the client had sent them, which may be an address or a name. They are deleted, not
    hashed: the key of the hash is sealed, and they are only needed while a client repeats a request.
    """
    schema = connection.get_execution_options().get("schema_translate_map", {}).get(None)
    known = {column["name"] for column in sa.inspect(connection).get_columns(batch.name, schema=schema)}
    place = batch.name if schema is None else f'"{schema}".{batch.name}'
    for column, kind in (
        ("accepted", "INTEGER NOT NULL DEFAULT 0"),
        ("refused", "INTEGER NOT NULL DEFAULT 0"),
        ("steps", "TEXT"),
    ):
        if column not in known:
            connection.exec_driver_sql(f"ALTER TABLE {place} ADD COLUMN {column} {kind}")
    connection.execute(sa.update(feedback).values(idempotency_key=None))


def _add_logouts(connection: sa.Connection) -> None:
    METADATA.create_all(connection, tables=[logout])


MIGRATIONS: Final[tuple[Callable[[sa.Connection], None], ...]] = (
    METADATA.create_all,
    _add_figures_and_hash_idempotency_keys,
    _add_logouts,
)
"""The migrations from each version to the next."""


class DatabaseUnavailableError(Exception):
    """The database cannot be reached, is full, or is locked. Nothing was changed; trying again later may work."""


class DatabaseVersionError(Exception):
    """The database was created by another version of ace-server. The text says what to do."""


def now() -> float:
    """Return the time, in seconds since 1970."""
    return time.time()


def new_id(kind: str) -> str:
    """Return a new id, greater than the earlier ones of this kind that this process has created.

    Args:
        kind: What it names, such as `req`.

    Example:
        >>> first, second = new_id("req"), new_id("req")
        >>> first < second, len(first)
        (True, 36)
    """
    # 48 bits are milliseconds and 16 count the ids of one; the rest keeps the ids of processes apart.
    with _id_lock:
        _last_id[0] = number = max(_last_id[0] + 1, int(time.time() * 1000) << 16)
    return f"{kind}_{number:016x}{secrets.token_hex(8)}"


_id_lock = threading.Lock()
_last_id = [0]


@final
class Database:
    """The tables of the service. It can be used by several threads.

    Args:
        location: `postgresql://USER@HOST/DB[?schema=NAME]`, or the path of an SQLite file.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     database = Database(Path(folder) / "server.db")
        ...     applied = database.migrate()
        ...     with database.reading() as connection:
        ...         print(connection.scalar(sa.select(schema_version.c.version)))
        ...     database.close()
        3
    """

    def __init__(self, location: str | Path) -> None:
        self.location = location
        self.is_sqlite = not (isinstance(location, str) and location.startswith(("postgresql://", "postgres://")))
        self.schema = None if self.is_sqlite else _SCHEMA
        self.engine = self._sqlite_engine(Path(location)) if self.is_sqlite else self._postgres_engine(str(location))
        self._writing_engine = self.engine.execution_options(**{_WRITES: True})

    @property
    def shown(self) -> str:
        """The location without its password."""
        return shown_location(self.location)

    @property
    def url(self) -> str:
        """The address for other users of SQLAlchemy, such as DBOS. It contains the password."""
        return self.engine.url.render_as_string(hide_password=False)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that only reads.

        Raises:
            DatabaseUnavailableError: The database cannot be read.
        """
        with self._transaction(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction that writes. It is committed at the end of the block, durably, or rolled back.

        Raises:
            DatabaseUnavailableError: The changes cannot be written. None were.
            sqlalchemy.exc.IntegrityError: A row with this key exists.
        """
        with self._transaction(self._writing_engine) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except (OperationalError, InterfaceError, InternalError, PoolTimeoutError) as error:
            raise DatabaseUnavailableError(f"the database {self.shown} is not available: {_reason(error)}") from error

    def migrate(self) -> int:
        """Create the tables, or migrate them to this version.

        Returns:
            The number of migrations that were applied.

        Raises:
            DatabaseVersionError: A newer version of ace-server has changed the database.
            DatabaseUnavailableError: It cannot be changed.
        """
        self._prepare()
        with self.writing() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                connection.execute(sa.schema.CreateSchema(str(self.schema), if_not_exists=True))
            version = self._version(connection)
            self._check_not_newer(version)
            for migration in MIGRATIONS[version:]:
                migration(connection)
            if version < len(MIGRATIONS):
                connection.execute(sa.delete(schema_version))
                connection.execute(sa.insert(schema_version).values(version=len(MIGRATIONS)))
        return len(MIGRATIONS) - version

    def is_current(self) -> bool:
        """Return whether the database has the tables of this version; not if it is older or empty.

        Raises:
            DatabaseVersionError: It is newer. The text says what to do.
            DatabaseUnavailableError: It cannot be read.
        """
        if self.is_sqlite and not Path(self.location).exists():  # SQLite would create it, for everyone to read
            return False
        with self.reading() as connection:
            version = self._version(connection)
        self._check_not_newer(version)
        return version == len(MIGRATIONS)

    def check(self) -> None:
        """Check that the database has the tables of this version.

        Raises:
            DatabaseVersionError: It is older or newer. The text says what to do.
            DatabaseUnavailableError: It cannot be read.
        """
        if not self.is_current():
            raise DatabaseVersionError(
                f"the database {self.shown} is older than this ace-server; run 'ace server migrate'"
            )

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _check_not_newer(self, version: int) -> None:
        if version > len(MIGRATIONS):
            raise DatabaseVersionError(
                f"the database {self.shown} has version {version}, but this ace-server supports {len(MIGRATIONS)}; "
                "nothing was changed; install a newer ace-server"
            )

    def _version(self, connection: sa.Connection) -> int:
        if not sa.inspect(connection).has_table(schema_version.name, schema=self.schema):
            return 0
        return connection.scalar(sa.select(schema_version.c.version)) or 0

    def _prepare(self) -> None:
        """Create the file for its owner only, and switch it to WAL, which is permanent."""
        if not self.is_sqlite:
            return
        try:
            os.close(open_private(str(own_file(self.location)), os.O_CREAT | os.O_RDWR))
            with self.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA user_version")
        except (OSError, DBAPIError) as error:
            raise DatabaseUnavailableError(f"the database {self.shown} cannot be written: {_reason(error)}") from error

    def _sqlite_engine(self, path: Path) -> sa.Engine:
        engine = sa.create_engine(
            sa.URL.create("sqlite+pysqlite", database=str(path)),
            connect_args={"timeout": _BUSY_MILLISECONDS / 1000, "check_same_thread": False},
            pool_size=8,
            max_overflow=40,
            pool_timeout=10,
            hide_parameters=True,  # errors and logs do not quote users
        )
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _postgres_engine(self, location: str) -> sa.Engine:
        parts = urlsplit(location)
        parameters = dict(parse_qsl(parts.query))
        self.schema = parameters.pop("schema", _SCHEMA)
        parameters.pop("book", None)
        parameters.setdefault("connect_timeout", str(_CONNECT_SECONDS))
        address = urlunsplit(parts._replace(scheme="postgresql+psycopg", query=urlencode(parameters)))
        return sa.create_engine(
            address,
            pool_size=8,
            max_overflow=40,
            pool_timeout=10,
            hide_parameters=True,  # errors and logs do not quote users
            pool_pre_ping=True,
            execution_options={"schema_translate_map": {None: self.schema}},
        )


def _set_up_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    raw: SQLiteConnection = connection  # type: ignore[assignment]  # the protocol does not name the attributes of one driver
    raw.isolation_level = None  # otherwise the driver begins transactions itself, and only at the first change
    raw.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")  # what was answered with 202 survives a loss of power
    raw.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _reason(error: Exception) -> str:
    """Return the message of the driver in one line, without the statement and its values."""
    said = str(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error)
    return shown_location(" ".join(said.split()))
