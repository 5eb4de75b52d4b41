"""Opens the file of a SQLite skillbook."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ace.durable_file import create_private
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.sqlite_schema import bring_up_to_date, check_tables

BUSY_SECONDS: Final = 60
"""How long a writer waits for another one. Each holds the file for about a millisecond."""
_SECONDS_BETWEEN_TRIES: Final = 0.005


def open_connection(path: Path) -> sqlite3.Connection:
    """Open the file, or create it with the newest tables; its owner alone can read a new one.

    An existing file is only read, unless an older ace wrote it: an empty one stays empty, and its journal stays as it
    is, until `prepare_to_write`. On a read-only file system it can be read, and every change is refused.

    Raises:
        SkillbookFileError: If it cannot be opened, or is not a skillbook. It is left as it is.
    """
    frozen = _is_frozen(path)
    address = f"{path.as_uri()}?mode=ro&immutable=1" if frozen else path
    with _naming_errors(path):
        is_new = not frozen and not path.exists()
        if is_new:
            create_private(path)
        connection = sqlite3.connect(
            address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=frozen
        )
        try:
            if is_new:
                prepare_to_write(connection, path)
            elif bring_up_to_date(connection, path, create=False):
                check_tables(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether an open file holds a store by now; another process may have made one of an empty file.

    Raises:
        SkillbookFileError: If it is not a skillbook.
    """
    with _naming_errors(path):
        return bring_up_to_date(connection, path, create=False)


def prepare_to_write(connection: sqlite3.Connection, path: Path) -> None:
    """Give an empty file its tables, and have changes go to a log. Needed once for each connection.

    Raises:
        SkillbookFileError: If it is not a skillbook.
    """
    with _naming_errors(path):
        if not _is_frozen(path):
            bring_up_to_date(connection, path)
            _write_ahead(connection)


@contextlib.contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SkillbookFileError(f"the store cannot be opened: {error}", path=path) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # an error text may quote what is not UTF-8
        raise SkillbookFileError(f"not a skillbook in SQLite: {error}", path=path) from error
    except OSError as error:
        raise SkillbookFileError(f"the store cannot be opened: {error.strerror}", path=path) from error


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have changes go to a log. SQLite does not wait by itself for another process that does the same just now."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _is_frozen(path: Path) -> bool:
    """Return whether nobody can write the file, nor the log and the index that SQLite wants beside it."""
    if not hasattr(os, "statvfs") or not path.is_file():
        return False
    file = path.resolve()
    log = file.with_name(f"{file.name}-wal")
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not (log.exists() and log.stat().st_size)
