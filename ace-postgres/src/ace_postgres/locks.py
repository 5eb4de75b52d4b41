"""Advisory locks, all on one connection."""

from __future__ import annotations

import os
import threading
from typing import final

import psycopg

from ace_postgres.database import Connection, Database, lock_numbers

__all__ = ["AdvisoryLocks"]


@final
class AdvisoryLocks:
    """The advisory locks of a store. Thread-safe.

    They are on one connection, because a run locks each trace that it learns from and a server has few connections. It
    is open while a lock is held. The server releases the locks when the process or its host ends.

    Args:
        database: The database of the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection: Connection | None = None
        self._held: dict[str, Connection] = {}
        self._inherited: list[Connection] = []

    def take(self, name: str) -> bool:
        """Return whether a lock was acquired, without waiting for it.

        Args:
            name: The name of the lock.

        Raises:
            SkillbookStoreError: The database cannot be reached.
        """
        with self._lock, self._database.naming_errors("could not lock the run"):
            self._leave_to_parent()
            if name in self._held:  # PostgreSQL would let this connection lock it again
                return False
            connection = self._connected()
            query = "SELECT pg_try_advisory_lock(%s, %s)"
            is_locked: bool = connection.execute(query, self._numbers(name)).fetchall()[0][0]
            if is_locked:
                self._held[name] = connection
            self._close_unused()
            return is_locked

    def release(self, name: str) -> None:
        """Release a lock that was acquired; in a forked child, do nothing, because its parent has it.

        Args:
            name: The name of the lock.
        """
        with self._lock:
            self._leave_to_parent()
            connection = self._held.pop(name, None)
            if connection is None:
                return
            try:
                connection.execute("SELECT pg_advisory_unlock(%s, %s)", self._numbers(name))
            except psycopg.OperationalError:  # the lock ended with the connection
                connection.close()
            self._close_unused()

    def _connected(self) -> Connection:
        """Return the connection, or a new one if it was lost, and its locks with it."""
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connected()
        return self._connection

    def _close_unused(self) -> None:
        if self._connection is not None and self._connection not in self._held.values():
            self._connection.close()
            self._connection = None

    def _leave_to_parent(self) -> None:
        """In a forked child, start without locks. The connection is kept, because closing it would end the parent's."""
        if self._process == os.getpid():
            return
        self._inherited += [*self._held.values(), *filter(None, [self._connection])]
        self._process, self._connection, self._held = os.getpid(), None, {}

    def _numbers(self, name: str) -> tuple[int, int]:
        location = self._database.location
        return lock_numbers(location.schema, location.book, name)
