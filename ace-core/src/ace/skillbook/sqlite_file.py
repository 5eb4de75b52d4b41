"""The file of a SQLite skillbook, as the threads and forks of one process use it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from ace.durable_file import make_folder
from ace.skillbook.errors import SkillbookFileError, SkillbookStoreError, readable
from ace.skillbook.sqlite_connection import BUSY_SECONDS, has_tables, open_connection, prepare_to_write
from ace.skillbook.sqlite_schema import blank_tables


@final
class SqliteFile:
    """One connection, which all threads take turns with. After a fork, the child gets its own.

    Args:
        path: The file, as an absolute path; it and its folder are created if they are missing.

    Raises:
        SkillbookFileError: If the file is no skillbook. It is left as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        self._blank: sqlite3.Connection | None = None
        """Replaces a file without tables while it is only read."""
        self._has_tables = False
        """Whether the file is known to hold a store; else it is empty."""
        self._is_prepared = False
        """Whether the connection is ready to write."""
        make_folder(path.parent)
        self._connection: sqlite3.Connection | None = self._connect()
        self._opened = _identity(path)

    def query(self, query: str, values: Sequence[str | int] = ()) -> list[Any]:
        """Return the rows of a single query."""
        with self._lock, self._naming_errors("cannot be read"):
            return self._reader().execute(query, values).fetchall()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see the same state."""
        with self._lock, self._naming_errors("cannot be read"):
            connection = self._reader()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.rollback()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, whole or not at all."""
        with self._lock, self._naming_errors("did not take the change, which is taken back"):
            connection = self._writer()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.rollback()
                raise

    def empty_log(self) -> None:
        """Move what is in the log of changes into the file, and empty the log, unless another process uses it just now.

        The last process that closes the file removes the log, so a text that was deleted does not stay in it for long.
        """
        with self._lock, self._naming_errors("cannot be brought up to date from its log"):
            connection = self._writer()
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def close(self) -> None:
        """Release the file. What is asked later opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            if self._blank is not None:
                self._blank.close()
            self._connection = self._blank = None

    def _connect(self) -> sqlite3.Connection:
        connection = open_connection(self.path)
        self._is_prepared = self._has_tables = False
        # A store that nobody holds any more gives its file back by itself.
        weakref.finalize(self, _close_in_its_process, connection, os.getpid()).atexit = False
        return connection

    def _reader(self) -> sqlite3.Connection:
        """Return where to read: the file, or blank tables as long as the file has none."""
        connection = self._open()
        if not self._has_tables:
            self._has_tables = has_tables(connection, self.path)
        if self._has_tables:
            return connection
        if self._blank is None:
            self._blank = blank_tables()
            weakref.finalize(self, self._blank.close).atexit = False
        return self._blank

    def _writer(self) -> sqlite3.Connection:
        """Return the connection to the file, ready to be written."""
        connection = self._open()
        if not self._is_prepared:
            prepare_to_write(connection, self.path)
            self._is_prepared = True
        return connection

    def _open(self) -> sqlite3.Connection:
        """Return the connection of this process: one that came through a fork must not be used."""
        connection = self._connection
        if connection is None or self._process != os.getpid():
            if connection is not None:
                self._inherited.append(connection)  # closing it would disturb the process it belongs to
            connection = self._connection = self._connect()
            self._opened = _identity(self.path)
            self._process = os.getpid()
        elif _identity(self.path) != self._opened:
            raise SkillbookStoreError(
                f"the store {self.path} was deleted, or another file took its place, while it was open, so "
                "what is written now would be lost; save the skillbook to another path"
            )
        return connection

    @contextlib.contextmanager
    def _naming_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # an error text may quote what is not UTF-8
            raise SkillbookStoreError(f"the store {self.path} {what}: {readable(error)}") from error
        except SkillbookFileError as error:
            raise error if error.path is not None else error.at(self.path) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file is at the path; None if none can be found there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _close_in_its_process(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection, unless it came through a fork: that would disturb the process it belongs to."""
    if os.getpid() == process:
        connection.close()
