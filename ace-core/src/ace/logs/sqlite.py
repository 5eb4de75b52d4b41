"""Opens the databases of other programs without changing them, also while these programs use them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = ["columns_of", "json_in", "opened", "rows_of", "tables_of"]

_WRITE_VERSION: Final = 18
"""The byte of a database that says how it is written: 2 for a write-ahead log."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database read-only; its rows are `sqlite3.Row`.

    A database is copied first if it is locked, or if reading its write-ahead log would create a file beside it.

    Args:
        path: The database.

    Raises:
        sqlite3.Error: It cannot be read.
        OSError: It cannot be read.
    """
    try:
        connection = _connected(path)
    except sqlite3.OperationalError:
        with tempfile.TemporaryDirectory() as folder, closing(_connected(_copied(path, Path(folder)))) as connection:
            yield connection
        return
    with closing(connection):
        yield connection


def _connected(path: Path) -> sqlite3.Connection:
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    with path.open("rb") as file:
        has_log = file.read(_WRITE_VERSION + 1)[-1:] == b"\x02"
    if has_log and log.exists() and not index.exists():
        raise sqlite3.OperationalError("the index of the write-ahead log is missing")
    # Nothing is in the log of a database that no program has open, and SQLite must not create one.
    mode = "mode=ro&immutable=1" if has_log and not log.exists() else "mode=ro"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.set_authorizer(_tables_only)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _tables_only(action: int, _first: object, _second: object, _database: object, view: str | None) -> int:
    """Deny a query to read through a view or with a recursion: in a file from a stranger, these may never end."""
    is_denied = view is not None or action == sqlite3.SQLITE_RECURSIVE
    return sqlite3.SQLITE_DENY if is_denied else sqlite3.SQLITE_OK


def _copied(path: Path, folder: Path) -> Path:
    """Copy a database with its log into a folder, in which SQLite may create the index of the log."""
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copyfile(f"{path}{suffix}", folder / f"copy{suffix}")
    with closing(sqlite3.connect(folder / "copy")) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return folder / "copy"


def tables_of(path: Path) -> list[str]:
    """Return the names of the tables of a database, in alphabetical order.

    Args:
        path: The database.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with opened(path) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]


def columns_of(path: Path, table: str) -> set[str]:
    """Return the names of the columns of a table; an empty set if the table does not exist.

    Args:
        path: The database.
        table: The name of the table.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with opened(path) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def rows_of(connection: sqlite3.Connection, query: str, *values: object) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a query as dicts, so that columns which older versions lack can be asked for.

    Args:
        connection: The database.
        query: SQL with `?` for each value.
        values: The values of its parameters.
    """
    for row in connection.execute(query, values):
        yield dict(row)


def json_in(value: object) -> Any:
    """Return the JSON value in a column; None for what is not JSON.

    Args:
        value: The value of the column: a text or bytes.
    """
    if not isinstance(value, str | bytes):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
