"""Opens the file of a SQLite skillbook."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.sqlite_schema import bring_up_to_date

BUSY_SECONDS: Final = 60
"""How long a writer waits for another one. Each holds the file for about a millisecond."""
_SECONDS_BETWEEN_TRIES: Final = 0.005


def open_connection(path: Path) -> sqlite3.Connection:
    """Open the file, or create it, with the newest tables.

    On a read-only file system it can be read, and every change is refused.

    Raises:
        SkillbookFileError: If it cannot be opened, or is no skillbook. It is left as it is.
    """
    frozen = _is_frozen(path)
    address = f"{path.as_uri()}?mode=ro&immutable=1" if frozen else path
    try:
        connection = sqlite3.connect(
            address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=frozen
        )
        try:
            bring_up_to_date(connection, path)
            if not frozen:
                _write_ahead(connection)
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise SkillbookFileError(f"the store cannot be opened: {error}", path=path) from error
    except sqlite3.DatabaseError as error:
        raise SkillbookFileError(f"no skillbook in SQLite: {error}", path=path) from error
    return connection


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
