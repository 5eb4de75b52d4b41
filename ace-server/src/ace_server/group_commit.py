"""Writes many small changes in few transactions, since each transaction costs an fsync.

Changes are written by one thread. Those that come while a transaction is being written are in the next one together.

- `write` returns when the change is durable, and raises if it is not.
- `write_later` and `insert_later` return at once. The change is written together with those of the next 50 ms, or
  earlier, with the next one of `write`: what was given before it is never less durable. If the database cannot be
  reached, the change is kept in memory and tried again, up to a number of them; a process that is killed loses those
  that were not written yet.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, final

import sqlalchemy as sa

from ace_server.database import Database, DatabaseUnavailableError

__all__ = ["GroupWriter", "WriterClosedError"]

_logger = logging.getLogger(__name__)

_MOST_IN_ONE: Final = 500
_MOST_LATER: Final = 10_000
_SECONDS_TOGETHER: Final = 0.05
"""For how long changes that are not waited for are collected: a transaction takes more CPU time than its rows."""
_SECONDS_BETWEEN_TRIES: Final = 1.0

Result = TypeVar("Result")
Change = Callable[[sa.Connection], Any]
Values = Callable[[], Mapping[str, object]]


class WriterClosedError(Exception):
    """The service is stopping and writes no further changes."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The change that inserts a row. Those of a transaction are made with one statement for each table."""

    table: sa.Table
    values: Values

    def __call__(self, connection: sa.Connection) -> None:
        connection.execute(sa.insert(self.table), [self.values()])


class _Waiting(NamedTuple):
    change: Change
    outcome: Future[Any] | None
    """Where the result goes; None if it is not waited for."""
    is_last: bool


@final
class GroupWriter:
    """Writes changes in groups.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._condition = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._urgent = 0
        """How many of them are waited for."""
        self._later = 0
        self._is_closed = False
        self.lost = 0
        """How many changes of `write_later` were dropped because the database was not reachable for too long."""
        self._thread = threading.Thread(target=self._work, name="ace-server-writer", daemon=True)
        self._thread.start()

    async def write(self, change: Callable[[sa.Connection], Result]) -> Result:
        """Make a change, and return its result once it is durable.

        If the caller is cancelled, the change is made anyway.

        Args:
            change: Makes the change in a transaction. It is called again if a transaction has to be repeated.

        Raises:
            DatabaseUnavailableError: It was not written.
            WriterClosedError: The service is stopping.
        """
        outcome: Future[Result] = Future()
        outcome.set_running_or_notify_cancel()  # a result cannot be set on a future that was cancelled
        self._add(_Waiting(change, outcome, False))
        return await asyncio.wrap_future(outcome)

    def write_later(self, change: Change, *, last: bool = False) -> None:
        """Make a change soon.

        Args:
            change: Makes the change in a transaction. It is called again if a transaction has to be repeated.
            last: Whether it comes after the others of its transaction. Rows of the audit log do, since other processes
                wait for them until the transaction ends.

        Raises:
            WriterClosedError: The service is stopping.
        """
        self._add(_Waiting(change, None, last))

    def insert_later(self, table: sa.Table, values: Values) -> None:
        """Insert a row soon, before the other changes of its transaction.

        Args:
            table: The table.
            values: Returns the values of the columns, always of the same ones. It may be called more than once.

        Raises:
            WriterClosedError: The service is stopping.
        """
        self._add(_Waiting(_Row(table, values), None, False))

    def close(self) -> None:
        """Write what is waiting, and stop."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()

    def _add(self, waiting: _Waiting) -> None:
        with self._condition:
            if self._is_closed:
                raise WriterClosedError("the service is stopping")
            if waiting.outcome is None:
                if self._later >= _MOST_LATER:
                    self.lost += 1
                    return
                self._later += 1
            else:
                self._urgent += 1
            self._waiting.append(waiting)
            if waiting.outcome is not None or len(self._waiting) == 1:
                self._condition.notify()

    def _work(self) -> None:
        while group := self._next_group():
            try:
                self._write(group)
            except DatabaseUnavailableError as error:
                self._postpone(group, error)

    def _next_group(self) -> list[_Waiting]:
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._is_closed)
            self._condition.wait_for(lambda: self._urgent or self._is_closed, timeout=_SECONDS_TOGETHER)
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_IN_ONE))]
            later = sum(write.outcome is None for write in group)
            self._later -= later
            self._urgent -= len(group) - later
            return sorted(group, key=lambda write: write.is_last)

    def _write(self, group: list[_Waiting]) -> None:
        try:
            with self._database.writing() as connection:
                _insert(connection, (write.change for write in group if isinstance(write.change, _Row)))
                results = [None if isinstance(write.change, _Row) else write.change(connection) for write in group]
        except DatabaseUnavailableError:
            raise
        except Exception:  # one of them cannot be made; the others have to be
            self._write_one_by_one(group)
            return
        for write, result in zip(group, results, strict=True):
            if write.outcome is not None:
                write.outcome.set_result(result)

    def _write_one_by_one(self, group: list[_Waiting]) -> None:
        for place, write in enumerate(group):
            try:
                self._write_alone(write)
            except DatabaseUnavailableError as error:  # the others would fail for the same reason
                self._postpone(group[place:], error)
                return

    def _write_alone(self, waiting: _Waiting) -> None:
        try:
            with self._database.writing() as connection:
                result = waiting.change(connection)
        except DatabaseUnavailableError:
            raise
        except Exception as error:
            if waiting.outcome is not None:
                waiting.outcome.set_exception(error)
            else:
                self.lost += 1
                _logger.error("a row could not be written: %s", type(error).__name__)
            return
        if waiting.outcome is not None:
            waiting.outcome.set_result(result)

    def _postpone(self, group: list[_Waiting], error: DatabaseUnavailableError) -> None:
        """Fail the changes that are waited for, and keep the others for the next try."""
        for write in group:
            if write.outcome is not None:
                write.outcome.set_exception(error)
        later = [write for write in group if write.outcome is None]
        with self._condition:
            if self._is_closed:
                self.lost += len(later)
                _logger.error("%d rows were lost, because the database is not available", len(later))
                return
            kept = later[: max(0, _MOST_LATER - self._later)]
            self.lost += len(later) - len(kept)
            self._waiting.extendleft(reversed(kept))
            self._later += len(kept)
            if not any(write.outcome is not None for write in self._waiting):
                self._condition.wait(_SECONDS_BETWEEN_TRIES)


def _insert(connection: sa.Connection, rows: Iterable[_Row]) -> None:
    by_table: dict[sa.Table, list[Mapping[str, object]]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row.values())
    for table, values in by_table.items():
        connection.execute(sa.insert(table), values)
