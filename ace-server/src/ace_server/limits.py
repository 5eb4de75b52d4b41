"""The limits of a key: its rate and its requests in flight, counted per process, and its budget per day."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

import sqlalchemy as sa
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from ace.protocols import Usage
from ace_server import tables
from ace_server.database import Database, DatabaseUnavailableError, now
from ace_server.keys import Key

__all__ = ["Limits", "OverLimitError"]

_logger = logging.getLogger(__name__)

_DAY: Final = 86_400.0
_UNPRICED: Final = 10 / 1_000_000
"""The assumed price of a token of a model without a known price, in USD."""
_SECONDS_KNOWN: Final = 10.0
_WRONG_LOGINS: Final = "60/minute"


class OverLimitError(Exception):
    """A key has exceeded a limit.

    Attributes:
        retry_after: The number of seconds after which it may try again.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(slots=True)
class _Spent:
    """What a key has spent on a day."""

    day: int
    usd: float
    read_at: float


@final
class Limits:
    """Counts what keys use. Its methods may be called from any thread.

    Args:
        database: The database, with the costs of all processes.
        in_flight: How many requests of a key may be in flight.
    """

    def __init__(self, database: Database, *, in_flight: int) -> None:
        self._database = database
        self._most_in_flight = in_flight
        self._rates = MovingWindowRateLimiter(MemoryStorage())
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._spent: dict[str, _Spent] = {}
        self._warned: set[str] = set()

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        with self._lock:
            return self._in_flight.total()

    def check_rate(self, key: Key) -> None:
        """Count a request of a key.

        Raises:
            OverLimitError: It has made the maximum number of requests.
        """
        if key.rate is not None:
            self._hit(key.rate, key.id, "the rate of the key is exceeded")

    def check_wrong_login(self, origin: str) -> None:
        """Count a login that was rejected.

        Args:
            origin: The address of the client.

        Raises:
            OverLimitError: It has tried too often.
        """
        self._hit(_WRONG_LOGINS, f"login {origin}", "too many wrong logins")

    def _hit(self, rate: str, name: str, message: str) -> None:
        limit = parse(rate)
        if not self._rates.hit(limit, name):
            raise OverLimitError(message, self._rates.get_window_stats(limit, name).reset_time - time.time())

    @contextmanager
    def request(self, key: Key, share: float = 0.0) -> Iterator[None]:
        """Count a request as in flight while the block runs.

        Args:
            share: The part of what the key may have in flight that it takes; it counts as one request at least.

        Raises:
            OverLimitError: As many are in flight as are allowed.
        """
        places = max(1, math.ceil(share * self._most_in_flight))
        with self._lock:
            if self._in_flight[key.id] + places > self._most_in_flight:
                raise OverLimitError(f"more than {self._most_in_flight} requests of the key are in flight", 1.0)
            self._in_flight[key.id] += places
        try:
            yield
        finally:
            with self._lock:
                self._in_flight[key.id] -= places

    def check_budget(self, key: Key) -> None:
        """Check that the answers of a key, and learning from its feedback, have not cost more than its budget today.

        Raises:
            OverLimitError: They have. A day ends at midnight UTC.
        """
        if key.budget is None:
            return
        moment = now()
        spent = self._spent_by(key, moment)
        if spent.usd >= key.budget:
            raise OverLimitError("the budget of the key for today is used up", _DAY - moment % _DAY)

    def forget(self) -> None:
        """Read what keys have spent again at their next use; otherwise it is read every ten seconds."""
        with self._lock:
            self._spent.clear()

    def add_cost(self, key: Key, usage: Usage) -> None:
        """Count what an answer has cost.

        Args:
            usage: What the answer has used.
        """
        if key.budget is None:
            return
        usd = usage.cost
        if usage.unpriced_calls:
            usd = max(usd, usage.total_tokens * _UNPRICED)
            if key.id not in self._warned:
                self._warned.add(key.id)
                _logger.warning("key %s: the price of the model is not known; a token counts as 0.00001 USD", key.id)
        spent = self._spent_by(key, now())
        with self._lock:
            spent.usd += usd

    def _spent_by(self, key: Key, moment: float) -> _Spent:
        day = int(moment // _DAY)
        with self._lock:
            known = self._spent.get(key.id)
        if known is not None and known.day == day and moment - known.read_at < _SECONDS_KNOWN:
            return known
        try:
            usd = self._read(key, day * _DAY)
        except DatabaseUnavailableError:
            if known is None or known.day != day:
                return _Spent(day, 0.0, moment)
            return known
        # Rows that are not written yet are missing in what was read.
        found = _Spent(day, max(usd, known.usd if known is not None and known.day == day else 0.0), moment)
        with self._lock:
            self._spent[key.id] = found
        return found

    def _read(self, key: Key, since: float) -> float:
        request = tables.request
        cost = _cost_of(request.c.cost, request.c.prompt_tokens + request.c.completion_tokens)
        answers = sa.select(sa.func.sum(cost)).where(request.c.key == key.id, request.c.at >= since)
        with self._database.reading() as connection:
            return float(connection.scalar(answers) or 0.0) + float(connection.scalar(_learning(key, since)) or 0.0)


def _cost_of(cost: sa.Column[Any], tokens: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(cost, tokens * _UNPRICED)


def _learning(key: Key, since: float) -> sa.Select[Any]:
    """Return the query for what learning from the feedback of a key has cost: its share of each batch."""
    feedback, batch = tables.feedback, tables.batch
    share = _cost_of(batch.c.cost, batch.c.tokens) / batch.c.samples
    joined = feedback.join(batch, batch.c.id == feedback.c.batch)
    return sa.select(sa.func.sum(share)).select_from(joined).where(feedback.c.key == key.id, feedback.c.at >= since)
